"""Every family in vLLM on a CPU: its engine has the weights that the learner has, also new ones and adapters."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from toys.families import FAMILIES

pytestmark = pytest.mark.vllm
TESTS = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, float]]:
    """What one process measures, which imports vLLM once."""
    log = tmp_path_factory.mktemp("vllm") / "log"
    names = [family.name for family in KNOWN]
    with log.open("w") as errors:
        lines = subprocess.run(
            [sys.executable, "-m", "toys.vllm_families", *names],
            cwd=TESTS,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            check=False,
        ).stdout.splitlines()
    found = [json.loads(line) for line in lines if line.startswith("{")]
    assert len(found) == len(names), log.read_text()[-2000:]
    return {line.pop("family"): line for line in found}


KNOWN = [family for family in FAMILIES.values() if not family.vllm]
MEASURED = {"start", "new weights", "old weights", "merged adapter", "sent adapter"}


@pytest.mark.parametrize("family", KNOWN, ids=lambda family: family.name)
def test_the_log_probabilities_of_the_engine_are_the_learners(family, measured) -> None:
    gaps = measured[family.name]
    assert "error" not in gaps, gaps["error"]
    assert set(gaps) == MEASURED | ({"adapter"} if family.adapter else set())
    assert gaps.pop("old weights") > 0.05  # the models differ, so the bounds mean something
    for what, gap in gaps.items():
        assert gap < 5e-4, what

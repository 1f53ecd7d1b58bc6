"""Every family in vLLM on a CPU: its engine has the weights that the learner has, also new ones and adapters."""

from __future__ import annotations

import pytest
from toys.families import FAMILIES
from toys.vllm_gaps import measured_gaps

pytestmark = pytest.mark.vllm


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, float]]:
    """What one process measures, which imports vLLM once."""
    names = [family.name for family in TESTED]
    return measured_gaps("toys.vllm_families", names, tmp_path_factory.mktemp("vllm"))


TESTED = [family for family in FAMILIES.values() if not family.vllm]
BOUNDS = {"float32": (5e-4, 0.05), "bfloat16": (0.2, 1.0)}
"""By type, nats between equal weights at most, and between different ones at least."""
MEASURED = {"start", "new weights", "old weights", "merged adapter", "sent adapter"}


@pytest.mark.parametrize("family", TESTED, ids=lambda family: family.name)
def test_the_log_probabilities_of_the_engine_are_the_learners(family, measured) -> None:
    gaps = measured[family.name]
    assert "error" not in gaps, gaps["error"]
    assert set(gaps) == MEASURED | ({"adapter"} if family.adapter else set())
    most, least = BOUNDS[family.dtype]
    assert gaps.pop("old weights") > least  # the models differ, so the bounds mean something
    for what, gap in gaps.items():
        assert gap < most, what

"""What a process of its own measures of families in vLLM: `toys.vllm_families` and `toys.vllm_images` print it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from turncredit.engines.vllm.engine import INSTRUCTIONS

TESTS = Path(__file__).resolve().parents[1]


def measured_gaps(module: str, names: Sequence[str], folder: Path) -> dict[str, dict[str, float]]:
    """Return the differences between log-probabilities by family, in nats; one process imports vLLM once for all.

    It has all instructions of the CPU, as an engine's processes have.

    Args:
        module: prints a line of JSON for each family.
        names: of the families.
        folder: for what the process logs.
    """
    log = folder / "log"
    with log.open("w") as errors:
        lines = subprocess.run(
            [sys.executable, "-m", module, *names],
            cwd=TESTS,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            check=False,
            env={name: value for name, value in os.environ.items() if name not in INSTRUCTIONS},
        ).stdout.splitlines()
    tables = [json.loads(line) for line in lines if line.startswith("{")]
    assert len(tables) == len(names), log.read_text()[-2000:]
    return {table.pop("family"): table for table in tables}

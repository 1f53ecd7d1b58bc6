"""README's tables are those that the code renders."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = runpy.run_path(str(ROOT / "scripts/readme_tables.py"))


def test_the_tables_of_readme_are_up_to_date() -> None:
    """`python scripts/readme_tables.py` writes them."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert SCRIPT["readme"](text) == text


def test_the_tables_have_every_extra_and_every_command() -> None:
    extras, commands = SCRIPT["extras_table"](), SCRIPT["commands_table"]()
    assert "| `qlora` | LoRA adapters on weights of four bits, on a CUDA GPU | peft, bitsandbytes |" in extras
    assert "| `miniwob` | the pages of MiniWoB++ | `web`, miniwob |" in extras
    for row in (
        "| `turncredit eval AGENT` | Evaluate an agent on a fixed panel of tasks. |",
        "| `turncredit export RUN` | Write trajectories in the format of another program. |",
        "| `turncredit import PATH` |",
        "| `turncredit package ENV_ID` |",
        "| `turncredit model get NAME` |",
        "| `turncredit serve phone` |",
    ):
        assert row in commands


def test_a_readme_without_the_comments_is_refused() -> None:
    with pytest.raises(ValueError, match="needs one <!-- extras"):
        SCRIPT["readme"]("# turncredit")

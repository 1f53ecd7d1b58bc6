"""The examples of docs/other_trainers.md, which these tests run as they stand on the page."""

from __future__ import annotations

import re
import types
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "other_trainers.md"


def need(*packages: str) -> None:
    """Skip the module without these packages."""
    for package in packages:
        pytest.importorskip(package, reason=f"{package} is not installed (make test-frameworks)")


def examples(fence: str) -> list[str]:
    """The examples between "```FENCE" and "```"."""
    return re.findall(rf"^```{fence}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def example(word: str) -> str:
    """The Python example whose fence names `word`."""
    (found,) = examples(f"python {word}")
    return found


def run(word: str, given: dict[str, Any] | None = None, **replaced: str) -> dict[str, Any]:
    """Run an example with the names in `given`, after replacing texts; return its names."""
    code = example(word)
    for old, new in replaced.items():
        assert old in code, f"the example for {word} does not contain {old!r}"
        code = code.replace(old, new)
    names = vars(types.ModuleType(f"documented_{word.replace('-', '_')}"))
    names |= given or {}
    exec(compile(code, f"{PAGE.name}, {word}", "exec"), names)
    return names

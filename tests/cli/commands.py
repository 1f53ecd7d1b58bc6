"""What the tests of commands share."""

from __future__ import annotations

from typing import Any

ENV = "toys/Corridor-v0"
Call = Any


def one_sentence(said: Any, *parts: str) -> None:
    """The command ended as a mistake of the user does: code 2, one line, with these parts in it."""
    assert said.code == 2, (said.out, said.err)
    assert said.err.startswith("turnwise: ")
    assert said.err.count("\n") == 1, said.err
    assert "Traceback" not in said.err
    for part in parts:
        assert part in said.err

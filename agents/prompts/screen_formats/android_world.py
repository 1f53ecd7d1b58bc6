"""The action format of AndroidWorld's agents: a reason, then ``Action: {...}`` with the benchmark's JSON.

The JSON may also be all of the answer. Elements are named by their numbers, as the text or the marks on the picture
show them, or touched by points.
"""

from __future__ import annotations

from typing import Final

from turncredit.agents.prompts.screen_formats.translation import NoAction, phone_parser
from turncredit.envs.android.actions import Action, parse, to_json

__all__ = ["PARSER"]

_FENCES: Final = ("```json", "```")


def _read(answer: str) -> Action:
    _, label, action = answer.rpartition("Action:")
    action = action.strip()
    for fence in _FENCES:
        action = action.removeprefix(fence)
    action = action.removesuffix("```").strip()
    if not action.startswith("{"):
        raise NoAction("'Action:' must be followed by a JSON object" if label else "there was no 'Action: {...}'")
    return parse(action)


def _write(action: Action) -> str:
    return f"Reason:\nAction: {to_json(action)}"


PARSER: Final = phone_parser(_read, _write, 'Reason: your reasoning, and on the next line Action: {"action_type": ...}')
"""The parser."""

"""Read the tool calls of an action: all of them are valid, or none is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from turncredit.envs.errors import UnknownOption
from turncredit.tools.functions import Call, CallFormat, Toolbox, ToolError, ToolResult, call_format

__all__ = ["MAX_CALLS", "ActionCalls", "format_named", "read_calls", "write_results", "written"]

MAX_CALLS: Final = 8
"""Maximum number of calls in one action; an action with more is invalid."""
_NOT_RUN: Final = "Nothing was done, because another call of this turn is invalid."


@dataclass(frozen=True, slots=True)
class ActionCalls:
    """The calls of an action.

    Attributes:
        calls: the calls, in their order.
        problem: observation about what is wrong with them; "" if they are valid.
        answers: text for each call, if one of them is invalid.
    """

    calls: Sequence[Call]
    problem: str = ""
    answers: tuple[str, ...] = ()


def format_named(name: str | None, *, native: bool) -> CallFormat:
    """Return the call format of an environment.

    Args:
        name: of the format; None: "tags", or "hermes" where others describe the tools, since no model learned "tags".
        native: whether a chat template or a server describes the tools.

    Raises:
        UnknownOption: no format has that name.
    """
    try:
        return call_format(("hermes" if native else "tags") if name is None else name)
    except ToolError as error:
        raise UnknownOption(str(error)) from error


def read_calls(action: str, form: CallFormat, box: Toolbox, *, native: bool) -> ActionCalls:
    """Return the calls in an action, or what is wrong with them.

    Args:
        action: what the agent wrote.
        form: format of the calls.
        box: the tools.
        native: whether results are plain text (see `write_results`).
    """
    parsed = form.parse(action, list(box))
    if parsed.error:
        return ActionCalls((), f"Nothing was done: {parsed.error}" + ("" if parsed.error.endswith("?") else "."))
    if len(parsed.calls) > MAX_CALLS:
        return ActionCalls(
            (), f"Nothing was done: a turn has at most {MAX_CALLS} calls, these were {len(parsed.calls)}."
        )
    answers = [box.refusal(call) for call in parsed.calls]
    refused = [answer for answer in answers if answer is not None]
    if not refused:
        return ActionCalls(parsed.calls)
    addition = " Nothing was done." if len(parsed.calls) > 1 else ""
    texts = tuple(written(_NOT_RUN if answer is None else answer.text) for answer in answers)
    return ActionCalls(parsed.calls, write_results(refused, form, native=native) + addition, texts)


def write_results(results: Sequence[ToolResult], form: CallFormat, *, native: bool) -> str:
    """Return the observation of some results: in the format of calls, or plain text where a chat template writes it."""
    return "\n".join(result.text for result in results) if native else form.write_results(results)


def written(text: str) -> str:
    """Replace lone surrogates, which cannot be encoded."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")

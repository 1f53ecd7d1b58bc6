"""Results of tool calls, in the order of the calls: other programs return them as they finish."""

from __future__ import annotations

from collections.abc import Sequence

from turncredit.agents.interchange.chat_message import ChatMessage
from turncredit.tools.bounded_input import InputError
from turncredit.tools.functions import Call

__all__ = ["in_order_of_calls", "results_of"]


def in_order_of_calls(calls: Sequence[Call], replies: Sequence[ChatMessage], answer: int) -> list[ChatMessage]:
    """Return what was said after an answer, with the results of its calls in the order of the calls.

    Args:
        calls: calls of the answer.
        replies: until the next answer.
        answer: number of the answer from 1, for messages; 0: there was none yet.

    Raises:
        InputError: two calls have one id, two results answer one call, or a result answers no call of the answer.
    """
    ids = [call.id for call in calls]
    result_ids = [message.call for message in replies if message.call]
    if any(ids):
        for subject, names in (("calls", ids), ("results", result_ids)):
            if twice := next((name for name in names if name and names.count(name) > 1), None):
                raise InputError(f"two {subject} of answer {answer} have the id {twice!r}")
    if (any(ids) or not calls) and (strange := next((name for name in result_ids if name not in ids), None)):
        position = f"answer {answer}, whose calls are {', '.join(map(repr, ids)) or 'none'}" if answer else "no answer"
        raise InputError(f"a result has the id {strange!r} of a call; it follows {position}")
    if not any(ids):
        return list(replies)
    slots = [number for number, message in enumerate(replies) if message.call]
    ordered = list(replies)
    results = sorted((replies[slot] for slot in slots), key=lambda message: ids.index(message.call))
    for slot, message in zip(slots, results, strict=True):
        ordered[slot] = message
    return ordered


def results_of(calls: Sequence[Call], replies: Sequence[ChatMessage]) -> tuple[str, ...]:
    """Return the results of the calls of an answer, one for each, if nothing else was said after them; else ().

    Args:
        calls: calls of the answer; (): its text may hold them.
        replies: after it, in the order of the calls.
    """
    alone = all(message.role == "tool" for message in replies) and (not calls or len(replies) == len(calls))
    return tuple(message.content for message in replies) if alone else ()

"""The host's side of call tests: requests to the candidate, and the comparison of its answers.

An answer is hostile input. It is read only if it is not much longer than the expected value, its depth and number of
values are bounded, and each step takes time in proportion to its size. Values are builtins of this process before they
are compared.
"""

from __future__ import annotations

import ast
import json
from typing import Final

from turncredit.envs.code.grades import LATE, CaseResult, shorten
from turncredit.envs.code.serialization import DEEPEST, MOST, NotPlain, decode, encode, refuse
from turncredit.envs.code.task import CallTest, module_of
from turncredit.tools.sandbox import UntrustedData
from turncredit.tools.sandbox.untrusted_frames import FrameLimits, decode_frame

__all__ = ["compare", "request"]

_DEPTH: Final = 3 * DEEPEST + 8  # objects and arrays of JSON that a value of that depth needs
_ITEMS: Final = 4 * MOST
_LONGER: Final = 32  # bytes of an answer for each character of the expected value: a number may arrive as a float
_SHORT: Final = 32_768  # bytes of an answer that is read in any case


def request(main: str, call: CallTest) -> str:
    """Return the request of a call, for `CandidateProcess.ask`."""
    arguments = [list(ast.literal_eval(call.arguments)), ast.literal_eval(call.keywords)]
    header = {"do": "call", "module": module_of(main), "name": call.name, "alone": True}
    return json.dumps({**header, "arguments": encode(arguments, refuse)})


def compare(call: CallTest, line: bytes | None, silence: str) -> CaseResult:
    """Return the result of a call.

    Args:
        call: the call and its expected value.
        line: the answer of the candidate's sandbox; None if there is none.
        silence: what to say in that case.
    """
    if line is None:
        return CaseResult(call.text, False, silence)
    expected = shorten(call.returns)
    if len(line) > _SHORT + _LONGER * len(call.returns):
        return CaseResult(call.text, False, f"returned {len(line):,} bytes of data, not {expected}")
    try:
        answer = decode_frame(line, FrameLimits(bytes=len(line), depth=_DEPTH, items=_ITEMS, text=len(line)))
    except UntrustedData:
        return CaseResult(call.text, False, silence)
    if "v" not in answer:
        return CaseResult(call.text, False, _raised(answer))
    try:
        value = decode(answer["v"], _foreign)
        if _equal(call, value):
            return CaseResult(call.text, True)
        shown = repr(value)
    except (NotPlain, RecursionError, ValueError, MemoryError):
        return CaseResult(call.text, False, f"returned a value that is not plain data, not {expected}")
    return CaseResult(call.text, False, f"returned {shorten(shown)}, not {expected}")


def _equal(call: CallTest, value: object) -> bool:
    expected = ast.literal_eval(call.returns)
    if call.form == "python":
        return bool(value == expected)
    value = _with_lists(value)
    alone = call.form == "listed" and isinstance(expected, list) and len(expected) == 1
    return bool(value == expected or (alone and value == expected[0]))


def _with_lists(value: object) -> object:
    if isinstance(value, list | tuple):
        return [_with_lists(item) for item in value]
    return {key: _with_lists(item) for key, item in value.items()} if isinstance(value, dict) else value


def _raised(answer: dict[str, object]) -> str:
    names = answer.get("e")
    kind = shorten(str(names[0])) if isinstance(names, list) and names else "an error"
    message = f"raised {kind}: {str(answer.get('m', ''))[:300]}".rstrip(": ")
    return LATE if kind == "CallTimeout" else message[:307]


def _foreign(data: dict[str, object]) -> object:
    raise NotPlain("not plain")

"""Formats of code tasks, one module each; the registry below decides which one reads a record.

    native          our own
    humaneval       HumanEval, HumanEval+ and data sets in their form
    bigcodebench    BigCodeBench, where values decide
    competitions    APPS, TACO, LiveCodeBench, DeepCoder, CodeContests and rows of verl: programs and functions
    mbpp            MBPP in its authors' formats, and MBPP+

A format judges all tests of a record, or refuses it: a key that holds tests and that the format does not read is an
error. `judging` wraps a reader with this rule.
"""

from __future__ import annotations

from typing import Final

from turncredit.envs.code.formats import bigcodebench, competitions, humaneval, native
from turncredit.envs.code.formats.judging import judging
from turncredit.envs.code.mbpp import READ, is_mbpp, mbpp
from turncredit.envs.code.task import BadTask, CodeTask
from turncredit.tools.readers import Fields, RecordFormat, RecordFormats

__all__ = ["TASK_FORMATS"]


def _evalplus(fields: Fields, id: str) -> CodeTask:
    raise BadTask(
        "EvalPlus's release (base_input, plus_input) holds no results to compare with; use its data sets humanevalplus "
        "and mbppplus, whose key 'test' does"
    )


TASK_FORMATS: Final[RecordFormats[CodeTask]] = RecordFormats(
    "a code task",
    RecordFormat("", "", lambda fields: "plus_input" in fields, _evalplus),
    RecordFormat(
        "HumanEval",
        "prompt, test, entry_point",
        lambda fields: fields.keys() >= humaneval.KEYS,
        judging(humaneval.READ, humaneval.read),
    ),
    RecordFormat(
        "BigCodeBench",
        "complete_prompt, test, entry_point",
        lambda fields: fields.keys() >= bigcodebench.KEYS,
        judging(bigcodebench.READ, bigcodebench.read),
    ),
    RecordFormat(
        "MBPP",
        "text or prompt, code, test_list",
        is_mbpp,
        judging(READ, lambda fields, id: mbpp(fields, int(id))),
    ),
    *competitions.FORMATS,
    RecordFormat("turncredit", "statement, hidden", native.recognises, native.read),
)
"""Formats of code tasks; the id to use is the number of the record."""

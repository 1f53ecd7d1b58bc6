"""Problems of programming contests: programs that read standard input, and functions that are called.

    APPS           {"problem_id", "question", "solutions", "input_output", "starter_code"}
    TACO           the same without "problem_id"
    LiveCodeBench  {"question_id", "question_content", "starter_code", "public_test_cases", "private_test_cases"}
    DeepCoder      {"problem", "tests", "solutions", "starter_code", "metadata"}
    CodeContests   {"name", "description", "public_tests", "private_tests", "generated_tests"}
    verl           {"prompt", "reward_model": {"ground_truth"}}, with the tests of one of these as JSON

Tests are `{"inputs": [...], "outputs": [...], "fn_name"}` or a list of `{"input", "output", "testtype"}`, as values or
as JSON. A function is called with its arguments, which are JSON, and a tuple that it returns counts as a list. APPS and
TACO write some results in a list of one, so there both count.

Not included: tolerance for floating-point numbers in output, and checkers for problems with several right answers.
"""

from __future__ import annotations

import ast
import base64
import binascii
import pickletools
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from turncredit.envs.code.formats.judging import judging
from turncredit.envs.code.mbpp import mbpp
from turncredit.envs.code.task import MAIN, BadTask, CallTest, CodeTask, CodeTest, StdioTest, source_of, text_of
from turncredit.tools.bounded_input import InputError, parse_json
from turncredit.tools.readers import Fields, RecordFormat

__all__ = ["FORMATS"]

_MOST: Final = 256 << 20
"""Decoded bytes of the tests of a problem."""

_STRING: Final = {"PROTO", "FRAME", "MEMOIZE", "BINPUT", "LONG_BINPUT", "PUT", "STOP"}
"""Opcodes beside that of the string in a pickle that is one string."""

_FENCE: Final = re.compile(r"\A\s*```(?:python)?\n(.*?)\n?```\s*\Z", re.DOTALL)
_TYPING: Final = re.compile(r"\b(?:List|Optional|Dict|Tuple|Set|Any|Union|Deque|Iterable)\b")
_IMPORTS: Final = "from typing import *\n"


@dataclass(frozen=True, slots=True)
class _Case:
    """Input and output of one test; `function` is the one that is called, "" for a program."""

    input: Any
    output: Any
    function: str = ""
    form: Literal["json", "listed"] = "json"


@dataclass(frozen=True, slots=True)
class _Problem:
    """What the formats have in common."""

    id: str
    statement: str
    cases: Sequence[_Case]
    shown: int = 1  # cases that are visible
    starter: str = ""
    solution: str = ""
    kind: str = ""
    split: str = ""

    def task(self) -> CodeTask:
        if not self.cases:
            raise BadTask(f"task {self.id!r} has no tests")
        owner = "Solution()." if "class Solution" in (self.starter or self.solution) else ""
        tests = [_test(case, owner) for case in self.cases]
        names = sorted({f"{owner}{case.function}" for case in self.cases if case.function})
        how = (
            f"Write {names[0].replace('().', '.')} in {MAIN}."
            if names
            else f"Write a program {MAIN} that reads standard input and writes the answer to standard output."
        )
        return CodeTask(
            id=self.id,
            statement=f"{self.statement.strip()}\n{how}",
            files={MAIN: _importing(_with_body(self.starter))},
            visible=tuple(tests[: self.shown]),
            hidden=tuple(tests),
            solution={MAIN: _importing(self.solution.rstrip() + "\n")} if self.solution.strip() else {},
            kind=self.kind,
            split=self.split,
        )


def _test(case: _Case, owner: str) -> CodeTest:
    if not case.function:
        return StdioTest(_joined(case.input), _joined(case.output))
    arguments, output = case.input, case.output
    if isinstance(arguments, str):
        arguments = [_json(line, "an input") for line in arguments.split("\n") if line.strip()]
    if isinstance(output, str) and isinstance(case.input, str):
        output = _json(output, "an output")
    if not isinstance(arguments, list):
        raise BadTask(f"the input of {case.function} must be a list of arguments, got {str(arguments)[:80]}")
    try:
        return CallTest(f"{owner}{case.function}", source_of(tuple(arguments)), source_of(output), form=case.form)
    except ValueError as error:
        raise BadTask(f"a test of {case.function} has no plain value: {error}") from None


def _joined(text: object) -> str:
    """Return the text of an input or output, which may be a list of lines."""
    if isinstance(text, list):
        return "\n".join(_joined(line) for line in text)
    return text if isinstance(text, str) else str(text)


def _with_body(starter: str) -> str:
    """Return code that ends within a function, with a body."""
    if not starter.strip():
        return ""
    try:
        ast.parse(starter)
    except (SyntaxError, ValueError):
        last = starter.rstrip().rpartition("\n")[2]
        return f"{starter.rstrip()}\n{last[: len(last) - len(last.lstrip())]}    pass\n"
    return starter.rstrip() + "\n"


def _importing(code: str) -> str:
    """Return code that imports the names of types which contests provide."""
    return _IMPORTS + code if _TYPING.search(code) and "typing" not in code else code


def _json(value: object, subject: str) -> object:
    """Return a value that may be given as JSON."""
    if not isinstance(value, str):
        return value
    try:
        return parse_json(value, subject, max_bytes=_MOST)
    except InputError as error:
        raise BadTask(str(error)) from None


def _cases(value: object, where: str, function: str = "") -> list[_Case]:
    """Return the cases in tests of either form.

    Args:
        value: the tests, or their JSON.
        where: the key that holds them.
        function: name of the function that functional cases call, if they do not name it.
    """
    tests = _json(value, where) if value else []
    inputs, outputs = (
        tests.get(f"{name}s", tests.get(name)) if isinstance(tests, dict) else None for name in ("input", "output")
    )
    if isinstance(tests, dict) and isinstance(inputs, list):
        name = tests.get("fn_name") or ""
        if not isinstance(outputs, list) or len(inputs) != len(outputs) or not isinstance(name, str):
            raise BadTask(f"{where!r} must have as many outputs as inputs")
        return [_Case(argument, output, name, "listed") for argument, output in zip(inputs, outputs, strict=True)]
    tests = [tests] if isinstance(tests, dict) else tests
    if not isinstance(tests, list) or not all(isinstance(test, dict) for test in tests):
        raise BadTask(f"{where!r} must be a list of tests or an object with inputs and outputs, got {str(tests)[:80]}")
    return [_case(test, where, function) for test in tests]


def _case(test: dict[str, object], where: str, function: str) -> _Case:
    if not {"input", "output"} <= test.keys():
        raise BadTask(f"a test in {where!r} must have input and output, got the keys {', '.join(test)}")
    kind = str(test.get("testtype") or test.get("type") or ("function" if test.get("fn_name") else "stdin"))
    if kind.startswith("stdin"):
        return _Case(test["input"], test["output"])
    if not kind.startswith("function"):
        raise BadTask(f"a test in {where!r} has the unknown type {kind!r}")
    own = _object(test.get("metadata"))
    name = test.get("fn_name") or own.get("func_name") or function
    if not isinstance(name, str) or not name:
        raise BadTask(f"a functional test in {where!r} does not name the function")
    return _Case(test["input"], test["output"], name, "listed" if isinstance(test["output"], list) else "json")


def _object(value: object) -> dict[str, object]:
    metadata = _json(value, "metadata") if value else {}
    return metadata if isinstance(metadata, dict) else {}


def _first(solutions: object) -> str:
    """Return the first solution in a list, or in its JSON."""
    try:
        texts = _json(solutions, "'solutions'") if solutions else []
    except BadTask:
        texts = solutions
    text = next((item for item in texts if isinstance(item, str)), "") if isinstance(texts, list) else texts
    text = text if isinstance(text, str) else ""
    fenced = _FENCE.match(text)
    return (fenced[1] if fenced else text).replace("\r\n", "\n")


def _apps(fields: Fields, id: str) -> CodeTask:
    name = "APPS" if "problem_id" in fields else "TACO"
    level = fields.get("difficulty")
    return _Problem(
        id=f"{name}/{fields.get('problem_id', id)}",
        statement=text_of(fields, "question"),
        cases=_cases(fields.get("input_output"), "input_output"),
        starter=text_of(fields, "starter_code", ""),
        solution=_first(fields.get("solutions")),
        kind=f"{name} {level}" if isinstance(level, str) else name,
    ).task()


def _livecodebench(fields: Fields, id: str) -> CodeTask:
    function = str(_object(fields.get("metadata")).get("func_name") or "")
    public = _cases(fields.get("public_test_cases"), "public_test_cases", function)
    private = _cases(_unpacked(fields.get("private_test_cases")), "private_test_cases", function)
    if not private:
        raise BadTask("private_test_cases is empty, so the problem would be judged by its examples alone")
    level = fields.get("difficulty")
    return _Problem(
        id=text_of(fields, "question_id", id),
        statement=text_of(fields, "question_content"),
        cases=[*public, *private],
        shown=len(public),
        starter=text_of(fields, "starter_code", ""),
        kind=f"LiveCodeBench {level}" if isinstance(level, str) else "LiveCodeBench",
    ).task()


def _unpacked(value: object) -> object:
    """Return private tests: JSON, or base64 of zlib of a pickle of JSON, from which only the string is taken."""
    if not isinstance(value, str) or value.lstrip().startswith(("[", "{")):
        return value
    try:
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(base64.b64decode(value, validate=True), _MOST)
        if unpacker.unconsumed_tail or not unpacker.eof:
            raise BadTask(f"private_test_cases has no end within {_MOST:,} bytes")
        return _pickled_text(data)
    except (binascii.Error, zlib.error, ValueError) as error:
        raise BadTask(f"private_test_cases is neither JSON nor packed JSON ({error})") from None


def _pickled_text(data: bytes) -> str:
    """Return the string that a pickle consists of, without loading the pickle."""
    texts = []
    for code, argument, _ in pickletools.genops(data):
        if "UNICODE" in code.name:
            texts.append(str(argument))
        elif code.name not in _STRING:
            raise ValueError("the pickle is not one string")
    if len(texts) != 1:
        raise ValueError("the pickle is not one string")
    return texts[0]


def _deepcoder(fields: Fields, id: str) -> CodeTask:
    function = str(_object(fields.get("metadata")).get("func_name") or "")
    return _Problem(
        id=f"DeepCoder/{id}",
        statement=text_of(fields, "problem"),
        cases=_cases(fields["tests"], "tests", function),
        starter=text_of(fields, "starter_code", ""),
        solution=_first(fields.get("solutions")),
        kind="DeepCoder",
    ).task()


def _contest(fields: Fields, id: str) -> CodeTask:
    public, *more = (
        _cases(fields.get(f"{kind}_tests"), f"{kind}_tests") for kind in ("public", "private", "generated")
    )
    return _Problem(
        id=text_of(fields, "name", id),
        statement=text_of(fields, "description"),
        cases=[*public, *(case for cases in more for case in cases)],
        shown=len(public),
        kind="CodeContests",
    ).task()


def _verl(fields: Fields, id: str) -> CodeTask:
    model, extra = fields["reward_model"], _object(fields.get("extra_info"))
    truth = _json(model.get("ground_truth"), "ground_truth") if isinstance(model, dict) else None
    prompt = fields.get("prompt")
    messages = prompt if isinstance(prompt, list) else [{"content": prompt}]
    statement = text_of(messages[-1] if messages and isinstance(messages[-1], dict) else {}, "content")
    source, split = str(fields.get("data_source", "verl")), extra.get("split")
    number = extra.get("index", id)
    split = split if isinstance(split, str) else ""
    asserts = truth.get("assert_case") if isinstance(truth, dict) else truth
    if isinstance(asserts, list) and asserts and all(isinstance(test, str) for test in asserts):
        return _asserted(statement, asserts, f"{source}/{number}", split)
    if not isinstance(truth, dict | list):
        raise BadTask(f"the ground truth of {source} is no tests: {str(truth)[:80]!r}")
    return _Problem(
        id=f"{source}/{split}/{number}" if split else f"{source}/{number}",
        statement=statement,
        cases=_cases(truth, "ground_truth"),
        kind=source,
        split=split,
    ).task()


def _asserted(statement: str, asserts: list[str], id: str, split: str) -> CodeTask:
    """Return a task whose tests are assert statements."""
    task = mbpp({"text": statement, "code": "", "test_list": asserts}, 0)
    return CodeTask(id, task.statement, task.files, task.visible, task.hidden, kind=id.partition("/")[0], split=split)


FORMATS: Final[tuple[RecordFormat[CodeTask], ...]] = (
    RecordFormat(
        "APPS and TACO",
        "question, input_output",
        lambda fields: "question" in fields and ("input_output" in fields or "problem_id" in fields),
        judging({"input_output"}, _apps),
    ),
    RecordFormat(
        "LiveCodeBench",
        "question_content, public_test_cases, private_test_cases",
        lambda fields: {"question_content", "public_test_cases"} <= fields.keys(),
        judging({"public_test_cases", "private_test_cases"}, _livecodebench),
    ),
    RecordFormat(
        "DeepCoder",
        "problem, tests",
        lambda fields: {"problem", "tests"} <= fields.keys(),
        judging({"tests"}, _deepcoder),
    ),
    RecordFormat(
        "CodeContests",
        "description, public_tests, private_tests",
        lambda fields: {"description", "public_tests"} <= fields.keys(),
        judging({"public_tests", "private_tests", "generated_tests"}, _contest),
    ),
    RecordFormat("verl", "prompt, reward_model", lambda fields: "reward_model" in fields, judging(set(), _verl)),
)

"""Functions as tools: schemas, validation, results and time limits."""

from __future__ import annotations

import datetime
import decimal
import functools
import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pydantic
import pytest
import tool_samples as samples
from hypothesis import given, settings
from hypothesis import strategies as st
from toys.waiting import gone

from turncredit.tools.functions import BadTool, Call, Tool, Toolbox, truncate
from turncredit.tools.functions.docstring import read_docstring
from turncredit.tools.functions.render import Unserialisable, data_to_json, to_text
from turncredit.tools.functions.runners import MAX_ABANDONED


def answer(function: Any, arguments: dict[str, Any] | None = None, **options: Any) -> tuple[str, str]:
    """The problem and the text of one call."""
    tool = Tool.of(function, **options)
    try:
        given = tool.call(Call(tool.name, arguments or {}, "7"))
    finally:
        tool.close()
    assert given.name == tool.name
    assert given.id == "7"
    return given.problem, given.text


def test_schema_of_a_function() -> None:
    assert Toolbox([samples.find]).schemas() == [
        {
            "type": "function",
            "function": {
                "name": "find",
                "description": "Find people by name.\n\nThe book is small.\nReturns: The full names.",
                "parameters": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["name"],
                    "properties": {
                        "name": {"type": "string", "description": "a part of the name, in any case"},
                        "limit": {"type": "integer", "default": 5, "description": "most people"},
                    },
                },
            },
        }
    ]


def test_plain_docstrings_are_descriptions() -> None:
    assert read_docstring("  One line.\n\n    Another: with a colon.") == ("One line.\n\nAnother: with a colon.", {})
    assert read_docstring(None) == ("", {})


@given(st.text())
def test_any_docstring_is_parsed(doc: str) -> None:
    read_docstring(doc)
    read_docstring(f"Args:\n{doc}\n")


def test_methods_partials_and_callable_objects() -> None:
    class Adder:
        """Not this text."""

        def __call__(self, first: int) -> int:
            """Add one."""
            return first + 1

        def add(self, copy: int, _json: int = 1) -> int:
            """Add: with names that pydantic would not have."""
            return copy + _json

    adder = Adder()
    assert Tool.of(adder).description == "Add one."
    assert answer(adder, {"first": 1}) == ("", "2")
    assert answer(adder.add, {"copy": 1, "_json": 4}) == ("", "5")
    bound = functools.partial(samples.find, limit=2)
    assert answer(bound, {"name": "Ada"}) == ("", '["Ada", "Ada"]')
    assert answer(bound, {"name": "Ada", "limit": 9})[0] == "arguments"


def untyped(a) -> None:
    """No hint."""


def many(*names: str) -> None:
    """Names without a name."""


def odd(thing: np.ndarray) -> None:
    """A type without JSON."""


@pytest.mark.parametrize(
    ("function", "options", "why"),
    [
        (untyped, {}, "untyped cannot be a tool: its parameter 'a' has no type hint"),
        (many, {}, r"'\*names: .*' cannot be passed by name"),
        (odd, {}, "odd cannot be a tool: its types have no JSON schema"),
        (3, {}, "a tool must be a function, got 3"),
        (samples.now, {"name": "a b"}, "got 'a b'"),
        (samples.now, {"seconds": 0}, "seconds must be > 0 or None, got 0"),
        (samples.now, {"budget": 3}, "budget must be >= 80 characters, got 3"),
        (lambda: None, {"name": "f", "isolated": True}, "isolated=True needs a function that can be pickled"),
    ],
)
def test_invalid_tools_are_refused(function: Any, options: dict[str, Any], why: str) -> None:
    with pytest.raises(BadTool, match=why):
        Tool.of(function, **options)


def test_duplicate_and_unknown_names() -> None:
    with pytest.raises(BadTool, match="two tools are named 'now'"):
        Toolbox([samples.now, samples.now])
    with pytest.raises(BadTool, match="did you mean 'find'"):
        Toolbox([samples.now, samples.find])["fnid"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "'name' is missing"),
        ({"nmae": "Ada"}, "unknown argument 'nmae'; did you mean 'name'?"),
        ({"name": 3}, "'name' should be a valid string, got 3"),
        ({"name": "Ada", "limit": "3"}, "'limit' should be a valid integer, got '3'"),
        ({"name": "Ada", "limit": True}, "'limit' should be a valid integer, got True"),
        ({"name": "Ada", "limit": 2.5}, "'limit' should be a valid integer, got 2.5"),
        ({"name": "Ada", "limit": None}, "'limit' should be a valid integer, got None"),
        ({"name": {1, 2}}, "the arguments are not a JSON object"),
        ({"name": float("nan")}, "the arguments are not a JSON object"),
        ({"name": "\ud800"}, "the arguments are not a JSON object"),
    ],
)
def test_invalid_arguments_are_explained(arguments: dict[str, Any], said: str) -> None:
    problem, text = answer(samples.find, arguments)
    assert problem == "arguments"
    assert text.startswith("find was not called: ")
    assert said in text
    assert text[-1] in ".?"
    assert "\n" not in text


def test_json_is_converted_to_the_annotated_types() -> None:
    arguments = {"thing": "door", "colour": "red", "at": {"x": 3}}
    assert answer(samples.paint, arguments) == ("", "door RED wet Point(x=3, y=0)")
    problem, text = answer(samples.paint, {"thing": "door", "colour": "green", "mode": "damp"})
    assert problem == "arguments"
    assert "'colour'" in text
    assert "'mode'" in text


def test_whole_numbers_are_integers_as_the_schema_says() -> None:
    def book(seats: int, weight: float, rows: list[int], note: Any = None) -> str:
        return repr((seats, weight, rows, note))

    problem, text = answer(book, {"seats": 5.0, "weight": 2.0, "rows": [1, 2.0], "note": {"a": 3.0}})
    assert (problem, text) == ("", "(5, 2.0, [1, 2], {'a': 3.0})")
    problem, text = answer(book, {"seats": 5.5, "weight": 2.0, "rows": []})
    assert problem == "arguments"
    assert "'seats'" in text
    assert "got 5.5" in text
    assert "'seats' should be a valid integer, got '5'" in answer(book, {"seats": "5", "weight": 1, "rows": []})[1]


def test_a_tool_is_found_under_the_namespace_of_a_template() -> None:
    box = Toolbox([samples.find])
    arguments = {"name": "Ada"}
    assert box.call(Call("functions.find", arguments)).text == box.call(Call("find", arguments)).text
    assert box.refusal(Call("functions.find", {"name": "Ada"})) is None
    assert box.call(Call("tools.find", arguments)).problem == "unknown"


def test_an_unknown_tool_gets_a_suggestion() -> None:
    given = Toolbox([samples.find]).call(Call("fnid", {}))
    assert (given.problem, given.text) == ("unknown", "unknown tool 'fnid'; did you mean 'find'?")
    assert given.refused
    assert not given.ok


@pytest.mark.parametrize("isolated", [False, True])
def test_exceptions_of_tools_are_reported(isolated: bool) -> None:
    with Toolbox([Tool.of(f, isolated=isolated) for f in (samples.fail, samples.quit, samples.mumble)]) as box:
        assert box.call(Call("fail", {"reason": "no\nbook"})).text == "fail failed: ValueError: no book."
        assert box.call(Call("quit", {})).text == "quit failed: SystemExit: 3."
        assert box.call(Call("mumble", {})).text == "mumble failed: Unspeakable."
        assert {box.call(Call("quit", {})).problem} == {"raised"}


@pytest.mark.parametrize("isolated", [False, True])
def test_results_that_cannot_be_shown_are_reported(isolated: bool) -> None:
    with Toolbox([Tool.of(f, isolated=isolated) for f in (samples.endless, samples.handle, samples.ring)]) as box:
        for name, why in (
            ("endless", "a generator is neither"),
            ("handle", "an? object is neither"),
            ("ring", "ircular"),
        ):
            given = box.call(Call(name, {}))
            assert given.problem == "unserialisable"
            assert given.text.startswith(f"{name} was called, but its result cannot be shown (")
            assert why.replace("an?", "a") in given.text


def test_results_are_converted_to_text() -> None:
    class Model(pydantic.BaseModel):
        name: str
        when: datetime.date

    data = {
        "set": {"b", "a"},
        "point": samples.Point(1, 2),
        "colour": samples.Colour.RED,
        "model": Model(name="é", when=datetime.date(2020, 1, 2)),
        "array": np.arange(3),
        "number": np.float32(0.5),
        "path": Path("a") / "b",
        "price": decimal.Decimal("1.10"),
        "none": None,
    }
    assert to_text(data) == (
        '{"set": ["a", "b"], "point": {"x": 1, "y": 2}, "colour": "red", "model": {"name": "é", "when": "2020-01-02"}, '
        '"array": [0, 1, 2], "number": 0.5, "path": "a/b", "price": "1.10", "none": null}'
    )
    assert to_text("as it\nis") == "as it\nis"
    assert to_text(None) == "done"
    assert to_text("half \ud800") == "half ?"
    assert data_to_json({"b": 1, "a": 2}, sort=True) == '{"a": 2, "b": 1}'
    for value in (b"bytes", lambda: 0, {(1, 2): 3}, 10**5000):
        with pytest.raises(Unserialisable):
            to_text(value)


def test_numbers_that_json_does_not_have_are_null() -> None:
    data = {"NaN": [math.nan, 1.5, 10**20], "b": {"Infinity": -math.inf}, "c": "NaN é", "d": np.float32("inf")}
    text = to_text(data)
    assert json.loads(text, parse_constant=pytest.fail) == {
        "NaN": [None, 1.5, 10**20],
        "b": {"Infinity": None},
        "c": "NaN é",
        "d": None,
    }
    assert "é" in text
    assert (to_text(math.nan), to_text("NaN")) == ("null", "NaN")
    assert data_to_json(math.nan) != data_to_json(math.inf)  # states that differ have different keys


@given(st.text(), st.integers(80, 200))
def test_truncation_keeps_both_ends_within_the_budget(text: str, budget: int) -> None:
    short = truncate(text * 3, budget)
    assert len(short) <= budget
    if len(text) * 3 <= budget:
        assert short == text * 3
    else:
        head, _, rest = short.partition("\n[... ")
        left, _, tail = rest.partition(" characters left out ...]\n")
        assert (text * 3).startswith(head)
        assert (text * 3).endswith(tail)
        assert len(head) + len(tail) + int(left.replace(",", "")) == len(text * 3)


def test_long_results_are_truncated() -> None:
    problem, text = answer(samples.note, {"text": "x" * 10_000_000}, budget=100)
    assert problem == ""
    assert 98 <= len(text) <= 100  # the length of the number that tells what was left out may change by it
    assert "characters left out" in text


def test_calls_that_never_return_are_abandoned_and_finally_refused() -> None:
    tool = Tool.of(samples.asleep, seconds=0.05)
    for _ in range(MAX_ABANDONED):
        given = tool.call(Call("asleep", {}))
        assert given.problem == "late"
        assert given.text == "asleep exceeded its limit of 0.05 s; it may still be running."
    assert tool.call(Call("asleep", {})).text == (
        f"asleep was not called: {MAX_ABANDONED} earlier calls are still running."
    )


def test_async_functions_are_awaited_and_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turncredit.tools.functions.runners._GRACE", 60.0)  # to take notice of it, on a busy machine
    assert answer(samples.later, {"seconds": 0}) == ("", "awake")
    assert answer(samples.later, {"seconds": 0}, seconds=None) == ("", "awake")
    problem, text = answer(samples.later, {"seconds": 60}, seconds=0.05)
    assert (problem, text) == ("late", "later exceeded its limit of 0.05 s and was cancelled.")


def test_an_isolated_function_is_killed_with_its_children(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    tool = Tool.of(samples.parent_of, seconds=8.0, isolated=True)
    given = tool.call(Call("parent_of", {"path": str(path)}))
    assert (given.problem, given.text) == ("late", "parent_of exceeded its limit of 8 s and was killed.")
    assert gone(int(path.read_text()))


def test_an_isolated_function_that_holds_the_gil_is_killed() -> None:
    assert answer(samples.stuck, seconds=0.3, isolated=True)[0] == "late"


def test_an_isolated_process_is_reused_and_restarted() -> None:
    tool = Tool.of(samples.process, isolated=True)
    first, second = (int(tool.call(Call("process", {})).text) for _ in range(2))
    assert first == second != os.getpid()
    tool.close()
    assert gone(first)
    assert int(tool.call(Call("process", {})).text) not in (first, os.getpid())
    tool.close()
    tool.close()


def test_a_function_that_ends_its_process_is_reported() -> None:
    tool = Tool.of(samples.leave, isolated=True)
    for _ in range(2):
        given = tool.call(Call("leave", {"code": 3}))
        assert (given.problem, given.text) == ("gone", "leave ended the process in which it ran (exit code 3).")
    tool.close()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(["find", "paint", "mix", "now", "x"]), arguments=st.dictionaries(st.text(max_size=8), JSON))
def test_any_call_has_a_result(name: str, arguments: dict[str, Any]) -> None:
    given = BOX.call(Call(name, arguments))
    assert isinstance(given.text, str)
    assert given.ok or given.text
    assert (BOX.refusal(Call(name, arguments)) is not None) == given.refused


BOX = Toolbox([samples.find, samples.paint, samples.mix, samples.now], seconds=None)

"""Call formats: written calls are parsed back, and any text gives calls or an error."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import pytest
import tool_samples as samples
from hypothesis import given, settings
from hypothesis import strategies as st

from turncredit.tools.functions import CALL_FORMATS, BadCall, Call, Toolbox, ToolResult, UnknownFormat, call_format

BOX = Toolbox([samples.find, samples.mix, samples.now, samples.note], seconds=None)
TOOLS = list(BOX)

SCRAPS = [
    f"<{slash}{name}>" for slash in ("", "/") for name in ("find", "name", "now", "think", "tool_call", "mix", "a")
]
SCRAPS += [
    "<now/>",
    "&lt;",
    "&amp;",
    "&#32;",
    "&#55296;",
    "{",
    "}",
    '"',
    "<",
    "&",
    ";",
    " ",
    "\n",
    "\\u003c",
    "null",
    "3",
]
SCRAPS += sorted(
    {mark for form in CALL_FORMATS.values() for mark in re.findall(r"<[^<>]*>|\[\w+\]", form.example(TOOLS[0]))}
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.lists(st.sampled_from(SCRAPS)).map("".join)
NUMBER = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
AS_IT_IS = {"qwen-xml", "glm", "glm-4.7", "minimax"}
"""Formats that write text without escapes, so a text with one of their tags cannot be written."""
CALL = st.one_of(
    st.builds(lambda name: Call("find", {"name": name}), TEXT),
    st.builds(lambda name, limit: Call("find", {"name": name, "limit": limit}), TEXT, st.integers()),
    st.just(Call("now", {})),
    st.just(Call("note", {})),
    st.builds(lambda text: Call("note", {"text": text}), TEXT),
    st.builds(
        lambda a, b, c, d, more: Call("mix", {"a": a, "b": b, "c": c, "d": d, **more}),
        st.integers() | TEXT,
        st.none() | TEXT,
        st.lists(NUMBER, max_size=3),
        st.dictionaries(TEXT, JSON, max_size=3),
        st.sampled_from([{}, {"e": True}]),
    ),
)


@pytest.mark.parametrize("name", CALL_FORMATS)
@settings(deadline=None)
@given(calls=st.lists(CALL, min_size=1, max_size=4), thought=TEXT)
def test_written_calls_are_parsed_back(name: str, calls: list[Call], thought: str) -> None:
    try:
        text = call_format(name).write(calls, TOOLS)
    except BadCall:  # the form has no escapes
        assert name in AS_IT_IS
        assert re.search("<[^<>]*>", json.dumps([dict(call.arguments) for call in calls]))
        return
    parsed = call_format(name).parse(text, TOOLS)
    assert parsed.error == ""
    assert list(parsed.calls) == calls
    assert [call.id for call in parsed.calls] == [f"call_{number}" for number in range(1, len(calls) + 1)]
    assert call_format(name).parse(f"<think>{thought}</think>{text}", TOOLS) == parsed
    assert all(BOX.refusal(call) is None for call in parsed.calls)


@pytest.mark.parametrize("name", CALL_FORMATS)
@settings(deadline=None, max_examples=200)
@given(
    text=st.text()
    | st.lists(st.sampled_from(SCRAPS) | st.text(max_size=3)).map("".join)
    | JSON.map(json.dumps)
    | st.builds(lambda calls: json.dumps({"tool_calls": calls}), JSON)
    | st.builds(lambda call: f"<tool_call>{json.dumps(call)}</tool_call>", JSON)
)
def test_any_text_gives_calls_or_an_error(name: str, text: str) -> None:
    parsed = call_format(name).parse(text, TOOLS)
    assert bool(parsed.calls) != bool(parsed.error)
    for call in parsed.calls:
        json.dumps(call.arguments, allow_nan=False)
        assert BOX.call(call).name == call.name


@pytest.mark.parametrize("name", CALL_FORMATS)
@pytest.mark.parametrize("cut", range(0, 60, 7))
def test_truncated_text_never_gives_a_different_call(name: str, cut: int) -> None:
    calls = [Call("find", {"name": "Ada Bell", "limit": 12})]
    text = call_format(name).write(calls, TOOLS)
    parsed = call_format(name).parse(text[: -cut - 1], TOOLS)
    assert list(parsed.calls) in ([], calls)
    assert parsed.calls or parsed.error


@pytest.mark.parametrize("name", CALL_FORMATS)
@pytest.mark.parametrize(
    "text", ["<find>" * 200_000, "<find>x</find>" * 50_000, "<tool_call>" * 200_000, "[" * 200_000, "\x00" * 1_000_000]
)
def test_huge_texts_are_parsed(name: str, text: str) -> None:
    parsed = call_format(name).parse(text, TOOLS)
    assert bool(parsed.calls) != bool(parsed.error)


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("<find>Ada</find>", [("find", {"name": "Ada"})]),
        ("I look.\n<find>\n  Ada Bell\n</find>\nThen:", [("find", {"name": "Ada Bell"})]),
        ("<find><name>Ada</name><limit>2</limit></find>", [("find", {"name": "Ada", "limit": 2})]),
        ("<find><limit>two</limit><name>3</name></find>", [("find", {"limit": "two", "name": "3"})]),
        ("<find><nam>Ada</nam></find>", [("find", {"nam": "Ada"})]),
        ("<find><b>Ada</b> & a < b && &lt;i></find>", [("find", {"name": "<b>Ada</b> & a < b && <i>"})]),
        ("<now/><now></now> <now />", [("now", {}), ("now", {}), ("now", {})]),
        ("<find></find><note></note>", [("find", {"name": ""}), ("note", {})]),
        ("<think><find>no</find></think><find>yes</find><think><find>no</find>", [("find", {"name": "yes"})]),
    ],
)
def test_tags_are_parsed(text: str, calls: list[tuple[str, dict[str, Any]]]) -> None:
    assert [(call.name, call.arguments) for call in call_format("tags").parse(text, TOOLS).calls] == calls


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("tags", "", "found no call; write calls as <find>...</find> or <mix>"),
        ("tags", "<fnid>Ada</fnid>", "unknown tool 'fnid'; did you mean 'find'?"),
        ("tags", "<find>Ada", "<find> is not closed by </find>"),
        ("tags", "<now/><find><name>Ada</find>", "call 2: <name> in <find> is not closed by </name>"),
        ("tags", "<mix>3</mix>", "<mix> contains text outside of argument tags; write it as <mix><a>"),
        ("tags", "<mix><a>1</a> and <b>2</b></mix>", "<mix> contains text between its arguments"),
        ("tags", "<mix><a>1</a><a>2</a></mix>", "<a> occurs twice in <mix>"),
        ("tags", "<think><find>Ada</find>", "found no call"),
        ("hermes", "find Ada", "found no <tool_call>; write a call as"),
        ("hermes", "<tool_call>{</tool_call>", "the call is not valid JSON: Expecting"),
        ("hermes", "<tool_call>{}<tool_call>{}", "call 1: </tool_call> is missing"),
        ("hermes", '<tool_call>{"arguments": {}}</tool_call>', 'the call has no "name"'),
        ("hermes", "<tool_call>[]</tool_call>", 'a call must be an object with "name" and "arguments"'),
        ("hermes", '<tool_call>{"name": "find", "arguments": [1]}</tool_call>', '"arguments" must be an object'),
        ("hermes", '<tool_call>{"name": "a", "name": "b"}</tool_call>', "duplicate name 'name'"),
        ("hermes", '<tool_call>{"name": "a", "arguments": {"x": NaN}}</tool_call>', "NaN is not a JSON number"),
        ("hermes", '<tool_call>{"name": "\\ud800"}</tool_call>', "lone surrogates"),
        ("harmony", "find Ada", "found no message to a function; write a call as to=functions.NAME"),
        ("harmony", "to=functions.find<|channel|>commentary json<|message|>{", "the arguments of 'find' are not valid"),
        ("harmony", "to=functions.find<|message|>[1]", "the arguments of 'find' must be an object"),
        ("harmony", 'to=functions.find<|message|>{"name": "Ada"} and more', "are not valid JSON"),
        ("openai", "find Ada", "the message is not valid JSON"),
        ("openai", '{"content": "hello", "tool_calls": null}', '"tool_calls" must be'),
        ("openai", '{"tool_calls": []}', '"tool_calls" must be a non-empty list'),
        ("openai", '{"tool_calls": [3]}', 'call 1: "function" with'),
        ("openai", '{"tool_calls": [{"type": "x", "function": {"name": "a"}}]}', "got 'x'"),
        ("openai", '{"tool_calls": [{"function": {"name": "a", "arguments": "{"}}]}', '"arguments" is not valid JSON'),
    ],
)
def test_invalid_calls_are_explained(name: str, text: str, why: str) -> None:
    parsed = call_format(name).parse(text, TOOLS)
    assert parsed.calls == ()
    assert why in parsed.error


def test_variants_from_servers_and_samplers_are_parsed() -> None:
    one = Call("find", {"name": "Ada"})
    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "abc", "type": "function", "function": {"name": "find", "arguments": '{"name": "Ada"}'}},
            {"function": {"name": "find", "arguments": {"name": "Ada"}}},
            {"function": {"name": "now", "arguments": ""}},
        ],
    }
    calls = call_format("openai").parse(json.dumps(message), TOOLS).calls
    assert calls == (one, one, Call("now", {}))
    assert [call.id for call in calls] == ["abc", "call_2", "call_3"]
    # Tokens of harmony stand around a call, and its recipient before or after the channel.
    for text in (
        ' to=functions.find<|channel|>commentary json<|message|>{"name": "Ada"}<|call|>',
        '<|channel|>commentary to=functions.find <|constrain|>json<|message|>{"name": "Ada"}',
    ):
        assert call_format("harmony").parse(text, TOOLS).calls == (one,)
    # The stop text that ends a call is often not part of what was sampled.
    assert call_format("hermes").parse(
        '<tool_call>\n{"name": "find", "arguments": {"name": "Ada"}}\n', TOOLS
    ).calls == (one,)


def test_results_are_written() -> None:
    answers = [ToolResult("find", "Ada", "", "a"), ToolResult("now", "noon", "", "b")]
    assert call_format("tags").write_results(answers[:1]) == "Ada"
    assert call_format("tags").write_results(answers) == "[1] find: Ada\n[2] now: noon"
    assert call_format("hermes").write_results(answers[:1]) == "<tool_response>\nAda\n</tool_response>"
    assert json.loads(call_format("openai").write_results(answers)) == [
        {"role": "tool", "tool_call_id": "a", "content": "Ada"},
        {"role": "tool", "tool_call_id": "b", "content": "noon"},
    ]


@pytest.mark.parametrize("name", CALL_FORMATS)
def test_a_description_names_every_tool_and_argument(name: str) -> None:
    text = BOX.describe(name)
    for tool in TOOLS:
        assert tool.name in text
        for argument in tool.parameters["properties"]:
            assert argument in text
    assert "a part of the name, in any case" in text


@dataclasses.dataclass
class Street:
    name: str
    number: int = 1


@dataclasses.dataclass
class Branch:
    leaves: dict[str, float]
    branches: list[Branch]


def test_tags_name_the_members_of_objects() -> None:
    def visit(street: Street, stops: list[Street] = [], tree: Branch | None = None, any: dict[str, Any] = {}) -> None:  # noqa: B006
        """Go there."""

    street = 'object {"name": string, "number": integer (optional)}'
    lines = Toolbox([visit]).describe().splitlines()
    assert lines[3] == f"  street ({street})"
    assert lines[4].startswith(f"  stops (list of {street}, optional")
    assert lines[5].startswith('  tree (object {"leaves": object of number, "branches": list of object {"leaves": ')
    assert len(lines[5]) < 300  # a type that contains itself is described only so far
    assert lines[6].startswith("  any (object, optional")


def test_tags_are_described() -> None:
    assert Toolbox([samples.find, samples.paint]).describe().splitlines()[2:] == [
        "<find>...</find>  Find people by name. The book is small. Returns: The full names.",
        "  name (string): a part of the name, in any case",
        "  limit (integer, optional, default 5): most people",
        "",
        "<paint><thing>...</thing><colour>...</colour></paint>  Paint a thing.",
        "  thing (string)",
        "  colour (one of red, blue)",
        '  mode (one of wet, dry, optional, default "wet")',
        '  at (object {"x": integer, "y": integer (optional)} or null, optional)',
    ]


def test_calls_that_cannot_be_written_are_refused() -> None:
    for name in CALL_FORMATS:
        with pytest.raises(BadCall):
            call_format(name).write([Call("find", {"name": object()})], TOOLS)
    with pytest.raises(BadCall, match="unknown tool 'x'"):
        call_format("tags").write([Call("x", {})], TOOLS)
    with pytest.raises(BadCall, match="cannot be written as a tag"):
        call_format("tags").write([Call("find", {"a b": 1})], TOOLS)
    with pytest.raises(UnknownFormat, match="did you mean 'hermes'"):
        call_format("hermess")

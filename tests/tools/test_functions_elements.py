"""Calls as elements and in Kimi's sections: texts written by hand from the structure that models are taught."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tool_samples as samples

from turncredit.tools.functions import CALL_FORMATS, BadCall, Call, Toolbox, call_format

TOOLS = list(Toolbox([samples.find, samples.mix, samples.now, samples.note], seconds=None))
LINES = "Grüße, 数\n\n  {1: 'a'} \n"

FIND = {
    "qwen-xml": "<tool_call>\n<function=find>\n<parameter=name>\nAda Bell\n</parameter>\n<parameter=limit>\n12\n"
    "</parameter>\n</function>\n</tool_call>",
    "glm": "<tool_call>find\n<arg_key>name</arg_key>\n<arg_value>Ada Bell</arg_value>\n<arg_key>limit</arg_key>\n"
    "<arg_value>12</arg_value>\n</tool_call>",
    "glm-4.7": "<tool_call>find<arg_key>name</arg_key><arg_value>Ada Bell</arg_value><arg_key>limit</arg_key>"
    "<arg_value>12</arg_value></tool_call>",
    "minimax": '<minimax:tool_call>\n<invoke name="find">\n<parameter name="name">Ada Bell</parameter>\n'
    '<parameter name="limit">12</parameter>\n</invoke>\n</minimax:tool_call>',
    "kimi": "<|tool_calls_section_begin|><|tool_call_begin|>functions.find:0<|tool_call_argument_begin|>"
    '{"name": "Ada Bell", "limit": 12}<|tool_call_end|><|tool_calls_section_end|>',
}
NOW_AND_NOTE = {
    "qwen-xml": "<tool_call>\n<function=now>\n</function>\n</tool_call>\n<tool_call>\n<function=note>\n<parameter=text>"
    f"\n{LINES}\n</parameter>\n</function>\n</tool_call>",
    "glm": f"<tool_call>now\n</tool_call>\n<tool_call>note\n<arg_key>text</arg_key>\n<arg_value>{LINES}</arg_value>\n"
    "</tool_call>",
    "glm-4.7": f"<tool_call>now</tool_call><tool_call>note<arg_key>text</arg_key><arg_value>{LINES}</arg_value>"
    "</tool_call>",
    "minimax": '<minimax:tool_call>\n<invoke name="now">\n</invoke>\n<invoke name="note">\n<parameter name="text">'
    f"{LINES}</parameter>\n</invoke>\n</minimax:tool_call>",
    "kimi": "<|tool_calls_section_begin|><|tool_call_begin|>functions.now:0<|tool_call_argument_begin|>{}"
    "<|tool_call_end|><|tool_call_begin|>functions.note:1<|tool_call_argument_begin|>"
    '{"text": "Grüße, 数\\n\\n  {1: \'a\'} \\n"}<|tool_call_end|><|tool_calls_section_end|>',
}
ELEMENTS = [name for name in FIND if name != "kimi"]


@pytest.mark.parametrize("name", FIND)
def test_calls_are_written_and_read_as_their_model_writes_them(name: str) -> None:
    form = call_format(name)
    find, several = [Call("find", {"name": "Ada Bell", "limit": 12})], [Call("now", {}), Call("note", {"text": LINES})]
    for calls, text in ((find, FIND[name]), (several, NOW_AND_NOTE[name])):
        assert form.write(calls, TOOLS) == text
        assert list(form.parse(f"<think>\n{FIND[name]}?\n</think>\n\nI look.\n{text}\n", TOOLS).calls) == calls
    both = form.parse(FIND[name] + NOW_AND_NOTE[name], TOOLS).calls
    assert [(call.name, call.id) for call in both] == [("find", "call_1"), ("now", "call_2"), ("note", "call_3")]


@pytest.mark.parametrize("name", FIND)
@pytest.mark.parametrize("texts", [FIND, NOW_AND_NOTE], ids=["one", "several"])
def test_a_call_that_was_cut_is_none(name: str, texts: dict[str, str]) -> None:
    """Two calls of which the second is missing are one call, since nobody can know that another one was meant."""
    text, form = texts[name], call_format(name)
    whole = [call.name for call in form.parse(text, TOOLS).calls]
    for end in range(len(text)):
        parsed, begun = form.parse(text[:end], TOOLS), text[:end].rstrip("\n")
        called = [call.name for call in parsed.calls]
        ended = begun.endswith(LAST_TAGS[name])
        assert called in ([], whole[:1], whole) if name in ("glm", "glm-4.7", "qwen-xml") else called == []
        assert bool(called) <= ended, f"{begun!r} is cut"
        assert bool(called) != bool(parsed.error)


LAST_TAGS = {
    "qwen-xml": ("</function>", "</tool_call>"), "glm": "</tool_call>", "glm-4.7": "</tool_call>",
    "minimax": "</minimax:tool_call>", "kimi": "<|tool_calls_section_end|>",
}  # fmt: skip
"""Tags after which calls are complete; in qwen-xml the last one may be a stop string that was removed."""


@pytest.mark.parametrize("name", ELEMENTS)
@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("3", 3),
        ('"3"', "3"),
        ("three", "three"),
        ("None", "None"),
        ("[1, 2]", [1, 2]),
        ("12 apples", "12 apples"),
    ],
)
def test_values_have_the_type_of_their_argument(name: str, written: str, value: object) -> None:
    """The argument `a` of mix takes numbers and texts, `limit` of find numbers, and `name` texts alone."""
    text = FIND[name].replace("12", written)
    assert call_format(name).parse(text, TOOLS).calls == (Call("find", {"name": "Ada Bell", "limit": value}),)
    text = FIND[name].replace("Ada Bell", written)
    assert call_format(name).parse(text, TOOLS).calls == (Call("find", {"name": written, "limit": 12}),)
    calls = [Call("mix", {"a": value, "b": None, "c": [], "d": {"x": "</y>"}, "e": True})]
    assert list(call_format(name).parse(call_format(name).write(calls, TOOLS), TOOLS).calls) == calls


@pytest.mark.parametrize("name", ELEMENTS)
def test_words_of_python_count_where_the_schema_has_their_type(name: str) -> None:
    """Templates such as that of Qwen 3.5 write True and None."""
    calls = [Call("mix", {"a": "A", "b": "B", "c": [], "d": {}, "e": False})]
    text = call_format(name).write(calls, TOOLS)
    text = text.replace("false", "True").replace("A", "None", 1).replace("B", "None", 1)
    (call,) = call_format(name).parse(text, TOOLS).calls
    assert call.arguments == {"a": "None", "b": None, "c": [], "d": {}, "e": True}


WHY: list[tuple[str, str, str, str]] = [
    ("qwen-xml", "<function=find>", "<function find>", "<function=NAME> must follow <tool_call>; write a call as"),
    ("qwen-xml", "</parameter>\n<parameter=limit>", "<parameter=limit>", "'name' of 'find' is not closed by"),
    ("qwen-xml", "<parameter=limit>", "<parameter=name>", "the argument 'name' of 'find' occurs twice"),
    ("qwen-xml", "</function>", "then\n</function>", "the call of 'find' contains text outside of its arguments"),
    ("qwen-xml", "</function>", "", "the call of 'find' is not closed by </function>"),
    ("qwen-xml", "</tool_call>", "and more", "</tool_call> is missing"),
    ("glm", "find", '{"name": "find"}', "NAME must follow <tool_call>"),
    ("glm", "<arg_value>12", "12<arg_value>", "the call of 'find' contains text outside of its arguments"),
    ("glm", "</arg_value>\n<arg_key>limit", "\n<arg_key>limit", "'name' of 'find' is not closed by </arg_value>"),
    ("glm-4.7", "</tool_call>", "", "the call of 'find' is not closed by </tool_call>"),
    ("minimax", '<invoke name="find">', "<invoke>", '<invoke name="NAME"> must follow <minimax:tool_call>'),
    ("minimax", "</minimax:tool_call>", "", "call 2: </minimax:tool_call> is missing"),
    ("minimax", "</invoke>", "", "the call of 'find' is not closed by </invoke>"),
    ("minimax", "</invoke>", "then</invoke>", "the call of 'find' contains text outside of its arguments"),
    ("kimi", "functions.find:0", "find", "the id of a call must be functions.NAME:0, got 'find'"),
    ("kimi", "12}", "12", "the arguments of 'find' are not valid JSON"),
    ("kimi", '{"name": "Ada Bell", "limit": 12}', "[1]", "the arguments of 'find' must be an object"),
    ("kimi", "<|tool_call_end|>", "", "<|tool_call_end|> is missing"),
    ("kimi", "<|tool_call_argument_begin|>", "", "a call must begin with <|tool_call_begin|>functions.NAME:0"),
    ("kimi", "<|tool_calls_section_begin|>", "", "found no <|tool_calls_section_begin|>; write calls as"),
]


@pytest.mark.parametrize(("name", "old", "new", "why"), WHY)
def test_what_is_no_call_is_explained(name: str, old: str, new: str, why: str) -> None:
    parsed = call_format(name).parse(FIND[name].replace(old, new), TOOLS)
    assert parsed.calls == ()
    assert why in parsed.error
    assert "\n" not in parsed.error


@pytest.mark.parametrize("name", ELEMENTS)
@pytest.mark.parametrize("value", ["</parameter>", "</arg_value>", "<parameter=name>", "a</think>b"])
def test_a_value_is_written_as_it_is_or_refused(name: str, value: str) -> None:
    calls = [Call("note", {"text": value})]
    closing = {"glm": "</arg_value>", "glm-4.7": "</arg_value>"}.get(name, "</parameter>")
    if value in ("a</think>b", closing) or (name == "qwen-xml" and value == "<parameter=name>"):
        with pytest.raises(BadCall, match=f"the format {name} cannot write these calls: a name or a value contains"):
            call_format(name).write(calls, TOOLS)
    else:
        text = call_format(name).write(calls, TOOLS)
        assert value in text
        assert list(call_format(name).parse(text, TOOLS).calls) == calls


def test_arguments_of_unknown_tools_are_typed_by_their_look() -> None:
    arguments: dict[str, Any] = {"name": "3", "limit": 3, "more": ["<b>"], "none": None}
    for name in FIND:
        calls = [Call("unknown", arguments)]
        assert list(call_format(name).parse(call_format(name).write(calls, []), []).calls) == calls


def test_the_documentation_has_every_format() -> None:
    """The page about tools shows a call in each; that about models names the families of those that templates teach."""
    docs = Path(__file__).parents[2] / "docs"
    for page, names in (("tools.md", CALL_FORMATS.keys()), ("models.md", CALL_FORMATS.keys() - {"tags", "openai"})):
        text = (docs / page).read_text(encoding="utf-8")
        assert [name for name in names if f"| `{name}` |" not in text] == []

"""Text formats of calls by name; docs/models.md says which family of models uses which.

Parsing never raises and never guesses: a text contains calls, or the result says what is wrong with it. Parsing what
was written gives the same calls. Reasoning (everything before a `</think>`, or after a `<think>` that is not closed) is
ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from turncredit.registry import suggest
from turncredit.tools.functions import harmony_format, json_formats, kimi_format, tag_format, template_formats
from turncredit.tools.functions.calls import Call, ParsedCalls, ToolResult
from turncredit.tools.functions.errors import UnknownFormat
from turncredit.tools.functions.tool import Tool
from turncredit.tools.functions.xml_formats import GLM, GLM_47, MINIMAX, QWEN_XML, XmlFormat

__all__ = ["CALL_FORMATS", "CallFormat", "call_format"]


@dataclass(frozen=True, slots=True)
class CallFormat:
    """One way to write calls and results.

    Args:
        name: of the format.
        parse: (text, tools) -> the calls in a model's text, or why there are none.
        write: (calls, tools) -> the calls as text; raises BadCall.
        write_results: results -> text for the agent.
        describe: tools -> text that explains the tools and the format to the agent.
        example: tool -> a call with "..." for its values.
    """

    name: str
    parse: Callable[[str, Sequence[Tool]], ParsedCalls]
    write: Callable[[Sequence[Call], Sequence[Tool]], str]
    write_results: Callable[[Sequence[ToolResult]], str]
    describe: Callable[[Sequence[Tool]], str]
    example: Callable[[Tool], str]


def _elements(form: XmlFormat, write_results: Callable[[Sequence[ToolResult]], str]) -> CallFormat:
    return CallFormat(form.name, form.parse, form.write, write_results, form.describe, form.example)


CALL_FORMATS: Final[dict[str, CallFormat]] = {
    "tags": CallFormat(
        "tags",
        tag_format.parse,
        tag_format.write,
        tag_format.write_results,
        tag_format.describe,
        tag_format.example,
    ),
    "hermes": CallFormat(
        "hermes",
        json_formats.parse_hermes,
        json_formats.write_hermes,
        json_formats.write_results_hermes,
        json_formats.describe_hermes,
        json_formats.example_hermes,
    ),
    "openai": CallFormat(
        "openai",
        json_formats.parse_openai,
        json_formats.write_openai,
        json_formats.write_results_openai,
        json_formats.describe_openai,
        json_formats.example_openai,
    ),
    "llama": CallFormat(
        "llama",
        template_formats.parse_llama,
        template_formats.write_llama,
        template_formats.write_results_plain,
        template_formats.describe_llama,
        template_formats.example_llama,
    ),
    "mistral": CallFormat(
        "mistral",
        template_formats.parse_mistral,
        template_formats.write_mistral,
        template_formats.write_results_plain,
        template_formats.describe_mistral,
        template_formats.example_mistral,
    ),
    "harmony": CallFormat(
        "harmony",
        harmony_format.parse_harmony,
        harmony_format.write_harmony,
        template_formats.write_results_plain,
        harmony_format.describe_harmony,
        harmony_format.example_harmony,
    ),
    "qwen-xml": _elements(QWEN_XML, json_formats.write_results_hermes),
    "glm": _elements(GLM, json_formats.write_results_hermes),
    "glm-4.7": _elements(GLM_47, json_formats.write_results_hermes),
    "minimax": _elements(MINIMAX, template_formats.write_results_plain),
    "kimi": CallFormat(
        "kimi",
        kimi_format.parse_kimi,
        kimi_format.write_kimi,
        template_formats.write_results_plain,
        kimi_format.describe_kimi,
        kimi_format.example_kimi,
    ),
}


def call_format(name: str) -> CallFormat:
    """Return a call format by name.

    Raises:
        UnknownFormat: no format has that name.
    """
    if name not in CALL_FORMATS:
        raise UnknownFormat(f"unknown call format {name!r}{suggest(str(name), CALL_FORMATS)}")
    return CALL_FORMATS[name]

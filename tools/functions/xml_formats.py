"""Calls as elements with one element an argument: Qwen 3.5, GLM 4.5, GLM 4.7 and MiniMax M2.

    <tool_call>                         <tool_call>find                     <minimax:tool_call>
    <function=find>                     <arg_key>name</arg_key>             <invoke name="find">
    <parameter=name>                    <arg_value>Ada</arg_value>          <parameter name="name">Ada</parameter>
    Ada                                 </tool_call>                        </invoke>
    </parameter>                                                            </minimax:tool_call>
    </function>
    </tool_call>
        qwen-xml                            glm (glm-4.7: no line breaks)       minimax

Values are typed by the schema of the tool (see `typed_values`). Text is written as it is, since the models know no
escapes: an argument ends at the first closing tag, and a call with a value that would be read otherwise is refused when
it is written. Elements contain no other text. A call that is not closed is none, and neither are those before it. In
`qwen-xml` the last `</tool_call>` may be missing, since it is often a stop string that the sampler removes and
`</function>` has closed the call.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from turncredit.tools.functions.calls import Call, InvalidCall, ParsedCalls, ends_within, parse_json, to_json, visible
from turncredit.tools.functions.errors import BadCall
from turncredit.tools.functions.template_formats import listed_schemas
from turncredit.tools.functions.tool import Tool
from turncredit.tools.functions.typed_values import argument_schema, read_value, write_value

__all__ = ["GLM", "GLM_47", "MINIMAX", "QWEN_XML", "XmlFormat"]

_TAG_LIKE: Final = re.compile(r"<(?=[/\w|])")


@dataclass(frozen=True, slots=True)
class XmlFormat:
    """One way to write calls as elements.

    Attributes:
        name: name of the format.
        block: tags around one call, or around all of them.
        call: what opens a call, "{}" for its name, and what closes it.
        argument: what opens an argument, "{}" for its name, and what closes it.
        gap: white space between elements.
        padding: white space around a value.
        several: whether a block has more than one call.
        closed: whether the tag that closes the last block must be there.
    """

    name: str
    block: tuple[str, str]
    call: tuple[str, str]
    argument: tuple[str, str]
    gap: str = "\n"
    padding: str = ""
    several: bool = False
    closed: bool = True

    def parse(self, text: str, tools: Sequence[Tool] = ()) -> ParsedCalls:
        """Return the calls in the order of the text, or why there are none; text around them is ignored."""
        shown, by_name = visible(text), {tool.name: tool for tool in tools}
        how = f"write a call as {''.join(self._form().splitlines())}"
        calls: list[Call] = []
        at = 0
        while (start := shown.find(self.block[0], at)) >= 0:
            at = start + len(self.block[0])
            begun = number = len(calls) + 1
            try:
                while number == begun or (self.several and _pattern(self.call[0]).match(shown, at)):
                    name, arguments, at = self._call(shown, at, by_name)
                    calls.append(Call(name, arguments, f"call_{number}"))
                    number += 1
                at = self._end(shown, at)
            except InvalidCall as error:
                where = f"call {number}: " if number > begun or begun > 1 else ""
                return ParsedCalls((), f"{where}{error}; {how}")
        if calls and ends_within(shown[at:], self.block[0]):
            return ParsedCalls((), f"call {len(calls) + 1}: the text ends within {self.block[0]}; {how}")
        return ParsedCalls(tuple(calls), "" if calls else f"found no {self.block[0]}; {how}")

    def write(self, calls: Sequence[Call], tools: Sequence[Tool] = ()) -> str:
        """Return the calls as elements.

        Raises:
            BadCall: the arguments are not JSON, or a name or a value contains what ends it.
        """
        by_name = {tool.name: tool for tool in tools}
        bodies = [self._written(call, by_name.get(call.name)) for call in calls]
        opening, closing = self.block
        groups = [self.gap.join(bodies)] if self.several else bodies
        text = self.gap.join(f"{opening}{self._lead()}{group}{self.gap}{closing}" for group in groups)
        expected = [(call.name, parse_json(to_json(dict(call.arguments)))) for call in calls]
        if [(call.name, call.arguments) for call in self.parse(text, tools).calls] != expected:
            raise BadCall(
                f"the format {self.name} cannot write these calls: a name or a value contains one of its tags, or a "
                "value has another type than its argument; use another format, such as hermes"
            )
        return text

    def describe(self, tools: Sequence[Tool]) -> str:
        """Return the schemas of the tools and how to write a call."""
        lead = "Write calls as follows" if self.several else "Write each call as follows; several may follow each other"
        return f"{listed_schemas(tools)}\n\n{lead}:\n{self._form()}"

    def example(self, tool: Tool) -> str:
        """Return a call with "..." for its arguments."""
        return f"{self.block[0]}{self.call[0].format(tool.name)}...{self.call[1]}{self.block[1]}"

    def _form(self) -> str:
        """Return a call with words for its parts."""
        argument = self._argument("ARGUMENT", "VALUE")
        parts = [self.call[0].format("NAME"), argument, *filter(None, self.call[1:])]
        return f"{self.block[0]}{self._lead()}{self.gap.join(parts)}{self.gap}{self.block[1]}"

    def _lead(self) -> str:
        """Return what stands between the tag of a block and a call."""
        return "" if self.call[0] == "{}" else self.gap

    def _argument(self, name: str, value: str) -> str:
        opening = self.argument[0].format(name).replace("\n", self.gap)
        return f"{opening}{self.padding}{value}{self.padding}{self.argument[1]}"

    def _written(self, call: Call, tool: Tool | None) -> str:
        parts = [self.call[0].format(call.name)]
        for name, value in call.arguments.items():
            try:
                text = write_value(value, argument_schema(tool, name, {}))
            except ValueError as error:
                raise BadCall(f"the arguments cannot be written as JSON: {error}") from error
            text = text if text == value else _TAG_LIKE.sub(r"\\u003c", text)
            parts.append(self._argument(name, text))
        return self.gap.join([*parts, *filter(None, self.call[1:])])

    def _call(self, text: str, at: int, tools: dict[str, Tool]) -> tuple[str, dict[str, object], int]:
        """Return name and arguments of the call that begins at a place, and its end."""
        match = _pattern(self.call[0]).match(text, at)
        if match is None:
            raise InvalidCall(f"{self.call[0].format('NAME')} must follow {self.block[0]}")
        name, arguments, at = match[1], dict[str, object](), match.end()
        while argument := _pattern(self.argument[0]).match(text, at):
            key = argument[1]
            end = text.find(self.argument[1], argument.end())
            value = text[argument.end() : end]
            if end < 0 or self.argument[0].partition("{}")[0] in value:
                raise InvalidCall(f"the argument {key!r} of {name!r} is not closed by {self.argument[1]}")
            if key in arguments:
                raise InvalidCall(f"the argument {key!r} of {name!r} occurs twice")
            if self.padding:
                value = value.removeprefix(self.padding).removesuffix(self.padding)
            arguments[key] = read_value(value, argument_schema(tools.get(name), key, {}))
            at = end + len(self.argument[1])
        end = _skip_space(text, at)
        closing = self.call[1] or self.block[1]
        if not text.startswith(closing, end):
            more = text.find(closing, end) >= 0
            problem = "contains text outside of its arguments" if more else f"is not closed by {closing}"
            raise InvalidCall(f"the call of {name!r} {problem}")
        return name, arguments, end + len(self.call[1])

    def _end(self, text: str, at: int) -> int:
        """Return where a block ends."""
        end = _skip_space(text, at)
        if text.startswith(self.block[1], end):
            return end + len(self.block[1])
        if end == len(text) and not self.closed:
            return end
        raise InvalidCall(f"{self.block[1]} is missing")


@cache
def _pattern(opening: str) -> re.Pattern[str]:
    """Return what reads an opening tag, with white space before its parts."""
    name = r"([\w.:/-]+)" if opening == "{}" else r"([^<>\"\n]+)"
    tags = (re.escape(tag).replace(r"\{\}", name) for tag in opening.split("\n"))
    return re.compile("".join(rf"\s*{tag}" for tag in tags))


def _skip_space(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


_TOOL_CALL: Final = ("<tool_call>", "</tool_call>")
_KEY: Final = ("<arg_key>{}</arg_key>\n<arg_value>", "</arg_value>")
QWEN_XML: Final = XmlFormat(
    "qwen-xml",
    _TOOL_CALL,
    ("<function={}>", "</function>"),
    ("<parameter={}>", "</parameter>"),
    padding="\n",
    closed=False,
)
"""Qwen 3.5 and 3.6, Qwen3-Coder, Nemotron 3."""
GLM: Final = XmlFormat("glm", _TOOL_CALL, ("{}", ""), _KEY)
"""GLM 4.5 and 4.6."""
GLM_47: Final = XmlFormat("glm-4.7", _TOOL_CALL, ("{}", ""), _KEY, gap="")
"""GLM 4.7, whose template writes no line breaks; both read both."""
MINIMAX: Final = XmlFormat(
    "minimax",
    ("<minimax:tool_call>", "</minimax:tool_call>"),
    ('<invoke name="{}">', "</invoke>"),
    ('<parameter name="{}">', "</parameter>"),
    several=True,
)
"""MiniMax M2."""

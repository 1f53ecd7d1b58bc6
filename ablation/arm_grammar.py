"""The grammar of what `turncredit ablate` takes for arms: values of a key, each with settings of its own.

    axis    = arm { "," arm }               grpo,gigpo:w=0.5,mine:by_time:gamma=0.9:anchor=observation
    arm     = value { ":" setting }         mine:by_time:gamma=0.9
    setting = name [spaces] "=" value       gamma=0.9
    name    = a letter or "_", then letters, digits, "_", "-" and "."
    value   = any text; quotes and brackets in it are closed

Two marks serve two syntaxes, and two rules tell which:

    ","  ends an arm     only outside of quotes and brackets
    ":"  begins a setting     only outside of quotes and brackets, and only before `name=`

Every other colon belongs to its value: `mine:by_time` is the function `by_time` of the module `mine`, and
`openai:MODEL@http://127.0.0.1:8000/v1` a model with its server. A value that must hold a comma, or a colon before
`name=`, is a TOML string in quotes: `"openai:a=b@http://127.0.0.1/v1"`. Within double quotes, a backslash escapes the
character after it, as in TOML; single quotes hold everything but a single quote.

Here is the text alone. What a value means says `turncredit.training.config.run.parse_value`, and what a name means
`turncredit.ablation.axes`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from turncredit.training.config.run import parse_value
from turncredit.training.config.toml import literal
from turncredit.training.errors import ConfigError

__all__ = ["ArmText", "format_arm", "format_value", "parse_arm", "parse_axis", "split"]

_SETTING = re.compile(r"\s*([A-Za-z_][\w.-]*)\s*=", re.ASCII)
_OPEN, _CLOSE = "[{", "]}"


@dataclass(frozen=True, slots=True)
class ArmText:
    """An arm as it was written.

    Attributes:
        value: text of the axis' value, such as "gigpo", "mine:by_time" or '"a,b"'.
        settings: name and text of each further setting, in their order.
    """

    value: str
    settings: tuple[tuple[str, str], ...] = ()


def parse_axis(text: str) -> list[str]:
    """Return the texts of the arms of an axis, without the spaces around them.

    >>> parse_axis('grpo, salt:base_options={scale="std",gamma=1.0}, mine:by_time')
    ['grpo', 'salt:base_options={scale="std",gamma=1.0}', 'mine:by_time']

    Raises:
        ConfigError: a quote or bracket is not closed, or closed twice.
    """
    return [arm.strip() for arm in split(text, ",")]


def parse_arm(text: str) -> ArmText:
    """Return the value and the settings of an arm.

    >>> parse_arm("mine:by_time:gamma=0.9:anchor=observation")
    ArmText(value='mine:by_time', settings=(('gamma', '0.9'), ('anchor', 'observation')))
    >>> parse_arm("openai:MODEL@http://127.0.0.1:8000/v1").settings
    ()

    Raises:
        ConfigError: a quote or bracket is not closed, or closed twice.
    """
    value, settings = "", list[tuple[str, str]]()
    for number, piece in enumerate(split(text, ":")):
        match = _SETTING.match(piece) if number else None
        if match:
            settings.append((match[1], piece[match.end() :]))
        elif settings:
            name, before = settings[-1]
            settings[-1] = (name, f"{before}:{piece}")
        else:
            value = f"{value}:{piece}" if number else piece
    return ArmText(value, tuple(settings))


def format_arm(value: object, settings: Sequence[tuple[str, object]] = ()) -> str:
    """Return the text of an arm that `parse_axis` and `parse_arm` read back as these values.

    >>> format_arm("mine:by_time", [("gamma", 0.9), ("note", "a,b")])
    'mine:by_time:gamma=0.9:note="a,b"'

    Args:
        value: value of the axis: a string, number, bool, list or mapping.
        settings: names and values.
    """
    return ":".join([format_value(value), *(f"{name}={format_value(item)}" for name, item in settings)])


def format_value(value: object) -> str:
    """Return a value as it stands in an arm: a string as it is where it can, everything else in the syntax of TOML."""
    if isinstance(value, str) and value == value.strip() and value and parse_value(value) == value and _stands(value):
        return value
    return literal(value)


def _stands(text: str) -> bool:
    """Return whether a bare text is one value, and not an axis or the beginning of settings."""
    try:
        return parse_axis(text) == [text] and parse_arm(text) == ArmText(text)
    except ConfigError:
        return False


def split(text: str, mark: str) -> list[str]:
    """Split a text at a mark outside of brackets and quotes.

    >>> split('a,[1,2],"b,c"', ",")
    ['a', '[1,2]', '"b,c"']

    Raises:
        ConfigError: a quote or bracket is not closed, or closed twice.
    """
    pieces = [""]
    for piece, is_mark in _marked(text, mark):
        if is_mark:
            pieces.append("")
        else:
            pieces[-1] += piece
    return pieces


def _marked(text: str, mark: str) -> Iterator[tuple[str, bool]]:
    """Yield each character of a text, and whether it is a mark outside of brackets and quotes."""
    inside, quote, escaped = list[str](), "", False
    for char in text:
        if quote:
            closed, escaped = char == quote and not escaped, char == "\\" and quote == '"' and not escaped
            quote = "" if closed else quote
        elif char in "\"'":
            quote = char
        elif char in _OPEN:
            inside.append(char)
        elif char in _CLOSE:
            if not inside or _OPEN.index(inside.pop()) != _CLOSE.index(char):
                raise ConfigError(f"{text!r} closes a bracket with {char!r} that it did not open{_QUOTE_IT}")
        elif char == mark and not inside:
            yield char, True
            continue
        yield char, False
    if quote or inside:
        raise ConfigError(f"{text!r} does not close {quote or inside[-1]!r}{_QUOTE_IT}")


_QUOTE_IT = """; in a value that must hold it, put quotes around the whole value: '"..."'"""

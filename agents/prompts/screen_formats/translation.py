"""What the formats share: a parser is two functions between a model's answers and the actions of an environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from turncredit.agents.errors import AgentError
from turncredit.agents.prompts.parsing import Parsed, Parser, several_lines
from turncredit.envs.android.actions import Action, BadAction
from turncredit.envs.android.actions import parse as parse_action
from turncredit.envs.android.actions import write as write_action
from turncredit.tools.browser.actions import BrowserAction, InvalidAction
from turncredit.tools.browser.actions import parse as parse_browser_action

__all__ = ["BROWSER_KEYS", "NoAction", "Point", "browser_parser", "key_name", "phone_parser"]

T = TypeVar("T")
Point = tuple[int, int]
"""x and y on the model's scale."""


class NoAction(ValueError):
    """The answer holds no action that the environment has; the message says why."""


def phone_parser(read: Callable[[str], Action], write: Callable[[Action], str], expected: str) -> Parser:
    """Return the parser of a format for phones.

    Args:
        read: an answer's action; raises `NoAction` or `BadAction`.
        write: an answer with an action; raises `NoAction` where the format has no such action.
        expected: description of the form.
    """

    def text_of(answer: str) -> str:
        return write_action(read(answer))

    def answer_of(text: str) -> str:
        return write(parse_action(text))

    return _parser(text_of, answer_of, expected)


def browser_parser(
    read: Callable[[str], BrowserAction], write: Callable[[BrowserAction], str], expected: str
) -> Parser:
    """Return the parser of a format for browsers; the arguments are as in `phone_parser`."""

    def text_of(answer: str) -> str:
        return str(read(answer))

    def answer_of(text: str) -> str:
        action = parse_browser_action(text)
        if isinstance(action, InvalidAction):
            raise NoAction(action.reason)
        return write(action)

    return _parser(text_of, answer_of, expected)


def _parser(text_of: Callable[[str], str], answer_of: Callable[[str], str], expected: str) -> Parser:
    def read(answer: str) -> Parsed:
        try:
            return several_lines(text_of(answer), "the answer was empty")
        except (NoAction, BadAction) as error:
            return Parsed(None, str(error))

    def write(action: str) -> str:
        try:
            return answer_of(action)
        except (NoAction, BadAction) as error:
            raise AgentError(f"the action {action[:80]!r} cannot be written in this format: {error}") from None

    return Parser(read, expected, written=write)


BROWSER_KEYS = {
    **dict.fromkeys(("ctrl", "control"), "Control"),
    **dict.fromkeys(("cmd", "command", "win", "meta", "super"), "Meta"),
    **dict.fromkeys(("esc", "escape"), "Escape"),
    **dict.fromkeys(("del", "delete"), "Delete"),
    **dict.fromkeys(("enter", "return"), "Enter"),
    **{f"arrow{way}": f"Arrow{way.title()}" for way in ("up", "down", "left", "right")},
    **{way: f"Arrow{way.title()}" for way in ("up", "down", "left", "right")},
    **{"pageup": "PageUp", "pagedown": "PageDown", "pgup": "PageUp", "pgdn": "PageDown"},
    **{name: name.title() for name in ("alt", "shift", "tab", "space", "backspace", "home", "end", "insert")},
    **{f"f{number}": f"F{number}" for number in range(1, 13)},
}
"""Names of keys as models write them, in lower case without underscores, and as a browser calls them."""


def key_name(name: str) -> str:
    """Return how a browser calls a key; a single character is its own name.

    Raises:
        NoAction: there is no such key.
    """
    plain = name.strip().lower().replace("_", "")
    if plain in BROWSER_KEYS:
        return BROWSER_KEYS[plain]
    if len(name.strip()) == 1 and name.strip().isprintable():
        return name.strip()
    raise NoAction(f"there is no key {name[:40]!r}")

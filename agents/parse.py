"""From the model's text to an action: of one line, of many with or without the reasoning before it, or tagged.

    bare     the text, one line             with_thoughts   the text, of many lines, its reasoning too
    whole    what follows the reasoning     think_action    what stands between the tags that follow it

A parser never guesses: what does not have the form is not an action, and the reason is told to the model. Text may be
empty, huge or binary. Left out on purpose: the forms of actions of many lines, such as calls of tools (the environment
that takes them reads them, and says what was wrong), and repair of near misses.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from turnwise.agents.errors import AgentError, choices

LONGEST = 400
"""Most characters of an action: no environment knows a longer one, and a huge one would flood the history."""

LONGEST_WHOLE = 20_000
"""Most characters of an action of many lines: a file of a program, a few calls of tools."""
_UNWRITTEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters and halves of surrogate pairs: not for a terminal, and not for a file."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """An action, or why there is none; exactly one of the two is None."""

    action: str | None
    why: str | None


@dataclass(frozen=True, slots=True)
class Parser:
    """A form of answers: how it is read, what to tell a model that missed it, and how to write an action in it."""

    read: Callable[[str], Parsed]
    expected: str
    form: str

    def write(self, action: str) -> str:
        """Return the answer that this parser reads as the action."""
        return self.form.format(action=action)


def bare(text: str) -> Parsed:
    """Return the text as the action: one printable line, white space around it removed.

    >>> bare(" go to shelf 1\\n").action
    'go to shelf 1'
    >>> bare("").why
    'the answer was empty'
    """
    return _action(text, "the answer")


def think_action(text: str) -> Parsed:
    """Return the action between the tags that follow the reasoning.

    The opening ``<think>`` may be missing, since many chat templates put it into the prompt; after ``</think>`` there
    is exactly one ``<action>...</action>`` and nothing else but white space.

    >>> think_action("<think>A lamp is needed.</think> <action>use desklamp 1</action>").action
    'use desklamp 1'
    >>> think_action("<action>look</action>").why
    'there was no </think>'
    """
    _, closed, rest = text.rpartition("</think>")
    if not closed:
        return Parsed(None, "there was no </think>")
    rest = rest.strip()
    if not rest.startswith("<action>"):
        return Parsed(None, "no <action> followed </think>")
    inside, closed, after = rest[len("<action>") :].partition("</action>")
    if not closed:
        return Parsed(None, "there was no </action>")
    if after or "<action>" in inside:
        return Parsed(None, "there was more than one action")
    return _action(inside, "the action")


def whole(text: str) -> Parsed:
    """Return all that is no reasoning as the action, its lines and spaces as they are, but for those around it.

    >>> whole("<think>Who is she?</think>\\n<find>Ada</find>").action
    '<find>Ada</find>'
    >>> whole("<think>Who is").why
    'there was no </think>'
    """
    _, closed, action = text.rpartition("</think>")
    action = action.strip()
    if action.startswith("<think>"):
        return Parsed(None, "there was no </think>")
    return _lines(action, "nothing followed </think>" if closed else "the answer was empty")


def with_thoughts(text: str) -> Parsed:
    """Return the text as the action, reasoning and all, for an environment that reads or rewards it.

    Tags are not looked at: what a missing one costs is the environment's to say.

    >>> with_thoughts("<think>Who is she?</think>\\n<find>Ada</find>\\n").action
    '<think>Who is she?</think>\\n<find>Ada</find>'
    """
    return _lines(text.strip(), "the answer was empty")


def _lines(action: str, nothing: str) -> Parsed:
    if not action:
        return Parsed(None, nothing)
    if len(action) > LONGEST_WHOLE:
        return Parsed(None, f"the answer was longer than {LONGEST_WHOLE} characters")
    if _UNWRITTEN.search(action):
        return Parsed(None, "the answer had characters that cannot be printed")
    return Parsed(action, None)


def _action(text: str, what: str) -> Parsed:
    action = text.strip()
    if not action:
        return Parsed(None, f"{what} was empty")
    if len(action) > LONGEST:
        return Parsed(None, f"{what} was longer than {LONGEST} characters")
    if "\n" in action or "\r" in action:
        return Parsed(None, f"{what} had more than one line")
    if not action.isprintable():
        return Parsed(None, f"{what} had characters that cannot be printed")
    return Parsed(action, None)


PARSERS: dict[str, Parser] = {
    "bare": Parser(bare, "one action on one line and nothing else", "{action}"),
    "whole": Parser(whole, "an action, of as many lines as it needs", "{action}"),
    "with-thoughts": Parser(with_thoughts, "your reasoning and an action, of as many lines as they need", "{action}"),
    "think-action": Parser(
        think_action,
        "<think>your reasoning</think><action>one action</action>",
        "<think></think><action>{action}</action>",
    ),
}


def parser(name: str) -> Parser:
    """Return a parser by name.

    Raises:
        AgentError: there is none of that name; the message has the near name.

    """
    if name not in PARSERS:
        raise AgentError(choices("parser", name, PARSERS))
    return PARSERS[name]

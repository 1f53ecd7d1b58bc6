"""Parsers: from the model's text to an action.

    bare     the text, one line              with-thoughts   the text with its reasoning, any number of lines
    whole    what follows the reasoning      think-action    the text between the tags that follow the reasoning

    ui-tars-phone, ui-tars-browser, qwen-phone, qwen-browser, androidworld    formats of models that act on screens (see
                                                                              `turncredit.agents.prompts.screen_formats`)

A parser never guesses: text without the expected form has no action, and the model is told why. Text may be empty,
huge or binary. What it gets of an answer in channels, or in a thought that the prompt opened, says
`turncredit.agents.prompts.answer_form`. `PARSERS` finds a parser by name, by entry point (group
``turncredit.parsers``), or as "module:attribute": either a `Parser`, or a function from text to `Parsed` whose
docstring begins with a description of the expected form.

Not included: the syntax of tool calls. The environment that takes them parses them and reports mistakes.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from turncredit.registry import Registry

__all__ = [
    "PARSERS",
    "Parsed",
    "Parser",
    "bare",
    "several_lines",
    "think_action",
    "whole",
    "with_thoughts",
    "without_stop",
]

MAX_ACTION_CHARS = 400
"""Longest action of one line; no environment needs a longer one, and a huge one would flood the history."""

MAX_MULTILINE_CHARS = 20_000
"""Longest action of several lines, such as a program or several tool calls."""

_WORD = re.compile(r"\w")
_TAG = re.compile(r"([<\[])/([\w.:-]+)[>\]]")
_OPENING = {"]": "[", ")": "(", "}": "{", ">": "<"}

_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters and lone surrogates, which neither a terminal nor a file should receive."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """An action, or why there is none; exactly one of the two is None."""

    action: str | None
    why: str | None


@dataclass(frozen=True, slots=True)
class Parser:
    """A form of answers."""

    read: Callable[[str], Parsed]
    """Parses an answer."""
    expected: str
    """Description of the form, for a model whose answer could not be parsed."""
    form: str = "{action}"
    """Format string of an answer with an action."""
    reasoning: bool | None = None
    """Whether it reads answers that begin with ``<think>...</think>``; None: as it turns out for an answer."""
    written: Callable[[str], str] | None = None
    """Returns an answer with an action, where a format string cannot; it raises `AgentError` for an action that the
    form does not have."""

    def reads_reasoning(self, text: str, whole: str) -> bool:
        """Return whether an answer should be read with its reasoning.

        Args:
            text: the answer without its reasoning.
            whole: the answer with its reasoning between tags.
        """
        if self.reasoning is not None:
            return self.reasoning
        alone = self.read(text).action
        return bool(text.strip()) and (alone is None or self.read(whole).action == alone)

    def write(self, action: str) -> str:
        """Return an answer that this parser reads as the action."""
        return self.form.format(action=action) if self.written is None else self.written(action)


def bare(text: str) -> Parsed:
    """Return the text as the action: one printable line, stripped of surrounding white space.

    >>> bare(" go to shelf 1\\n").action
    'go to shelf 1'
    >>> bare("").why
    'the answer was empty'
    """
    return _action(text, "the answer")


def think_action(text: str) -> Parsed:
    """Return the action between the tags that follow the reasoning.

    The opening ``<think>`` may be missing, since many chat templates put it into the prompt. ``</think>`` must be
    followed by exactly one ``<action>...</action>`` and white space.

    >>> think_action("<think>A lamp is needed.</think> <action>use desklamp 1</action>").action
    'use desklamp 1'
    >>> think_action("<action>look</action>").why
    'there was no </think>'
    """
    _, closed, answer = text.rpartition("</think>")
    if not closed:
        return Parsed(None, "there was no </think>")
    answer, end = answer.strip(), _last_end(text)
    if not answer.startswith("<action>"):
        if "<action>" in answer:
            return Parsed(None, f"there was text between {end} and <action>")
        return Parsed(None, f"{'no <action>' if answer else 'nothing'} followed {end}")
    inside, closed, after = answer[len("<action>") :].partition("</action>")
    if "<action>" in inside or after.lstrip().startswith("<action>"):
        return Parsed(None, "there was more than one <action>")
    if not closed:
        return Parsed(None, "there was no </action>")
    if after:
        return Parsed(None, "text followed </action>")
    return _action(inside, "the action")


def whole(text: str) -> Parsed:
    """Return the text after the reasoning as the action, stripped of surrounding white space.

    >>> whole("<think>Who is she?</think>\\n<find>Ada</find>").action
    '<find>Ada</find>'
    >>> whole("<think>Who is").why
    'there was no </think>'
    """
    _, closed, action = text.rpartition("</think>")
    action = action.strip()
    if action.startswith("<think>"):
        return Parsed(None, "no </think> followed the last <think>" if closed else "there was no </think>")
    return several_lines(action, f"nothing followed {_last_end(text)}" if closed else "the answer was empty")


def with_thoughts(text: str) -> Parsed:
    """Return the whole text, reasoning included, as the action, for environments that read or reward the reasoning.

    Tags are not checked; the environment decides what a missing one costs. The agent passes on no answer that ends
    within its thought.

    >>> with_thoughts("<think>Who is she?</think>\\n<find>Ada</find>\\n").action
    '<think>Who is she?</think>\\n<find>Ada</find>'
    """
    return several_lines(text.strip(), "the answer was empty")


def without_stop(text: str, stops: Sequence[str]) -> str:
    r"""Return the part of an answer that is read: without the stop string that ended it, and without what its last
    token holds after that, in which there are no words.

    A stop string that closes what the answer opened (a tag, a bracket, a fence) belongs to the answer's form and stays.

    >>> without_stop("go to shelf 1<|im_end|>", ["<|im_end|>"])
    'go to shelf 1'
    >>> without_stop("<search>Ada</search>\n", ["</search>"])
    '<search>Ada</search>'
    """
    places = [(text.rfind(stop), stop) for stop in stops if stop and stop in text]
    endings = [(at, stop) for at, stop in places if not _WORD.search(text, at + len(stop))]
    if not endings:
        return text
    at, stop = min(endings)
    return text[: at + len(stop)] if _closes(stop.strip(), text[:at]) else text[:at]


def _closes(mark: str, before: str) -> bool:
    """Return whether a stop string closes something that is open at the end of a text."""
    if tag := _TAG.fullmatch(mark):
        return f"{tag[1]}{tag[2]}" in before
    if mark in _OPENING:
        return before.count(_OPENING[mark]) > before.count(mark)
    return mark in ("```", '"') and before.count(mark) % 2 == 1


def _last_end(text: str) -> str:
    """Return how a reason names the end of the reasoning."""
    return "</think>" if text.count("</think>") == 1 else "the last </think>"


def several_lines(action: str, nothing: str) -> Parsed:
    """Return an action of any number of lines, or why it is none.

    Args:
        action: the text.
        nothing: why there is none if the text is empty.
    """
    if not action:
        return Parsed(None, nothing)
    if len(action) > MAX_MULTILINE_CHARS:
        return Parsed(None, f"the answer was longer than {MAX_MULTILINE_CHARS} characters")
    if _UNPRINTABLE.search(action):
        return Parsed(None, "the answer had characters that cannot be printed")
    return Parsed(action, None)


def _action(text: str, name: str) -> Parsed:
    action = text.strip()
    if not action:
        return Parsed(None, f"{name} was empty")
    if len(action) > MAX_ACTION_CHARS:
        return Parsed(None, f"{name} was longer than {MAX_ACTION_CHARS} characters")
    if "\n" in action or "\r" in action:
        return Parsed(None, f"{name} had more than one line")
    if not action.isprintable():
        return Parsed(None, f"{name} had characters that cannot be printed")
    return Parsed(action, None)


def _adapt(name: str, loaded: object) -> Parser:
    if isinstance(loaded, Parser):
        return loaded
    if not callable(loaded):
        raise TypeError(f"the parser {name!r} must be a Parser or a function, got {type(loaded).__name__}")
    described = (inspect.getdoc(loaded) or "an answer in the form of this task").splitlines()[0]
    return Parser(loaded, described)


_SCREENS = "turncredit.agents.prompts.screen_formats"
PARSERS: Registry[Parser] = Registry(
    "parser",
    group="turncredit.parsers",
    adapt=_adapt,
    lazy={
        "androidworld": f"{_SCREENS}.android_world:PARSER",
        "qwen-browser": f"{_SCREENS}.qwen:BROWSER",
        "qwen-phone": f"{_SCREENS}.qwen:PHONE",
        "ui-tars-browser": f"{_SCREENS}.ui_tars:BROWSER",
        "ui-tars-phone": f"{_SCREENS}.ui_tars:PHONE",
    },
)
PARSERS.register("bare", Parser(bare, "one action on one line and nothing else", reasoning=False))
PARSERS.register("whole", Parser(whole, "an action, of as many lines as it needs", reasoning=True))
PARSERS.register(
    "with-thoughts",
    Parser(with_thoughts, "your reasoning and an action, of as many lines as they need", reasoning=True),
)
PARSERS.register(
    "think-action",
    Parser(
        think_action,
        "<think>your reasoning</think><action>one action</action>",
        "<think></think><action>{action}</action>",
        reasoning=True,
    ),
)

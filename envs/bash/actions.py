"""What an agent can say to the shell: a command, or that it is done.

    grep -c ERROR logs/a.log      any other text is a command, of one line or of several
    submit                        done: the files are as they were asked for
    submit 42                     done, and this is the answer

A fence (three backticks, perhaps with a language) around all of it is taken off. Nothing else is changed.
`read` never raises: it gives an action, or the sentence that says why there is none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

__all__ = ["FORMS", "LONGEST", "ShellCommand", "Submission", "parse_action"]

FORMS: Final = ("...", "submit ...")
"""The forms of actions that hold any text, for `info["free_actions"]`."""
LONGEST: Final = 8000  # characters
_FENCE: Final = re.compile(r"\A```[\w+.-]*[ \t]*\n(?P<text>.*?)\n?```[ \t]*\Z", re.DOTALL)
_SUBMIT: Final = re.compile(r"submit(?:[ \t\n]+(?P<answer>.*))?", re.DOTALL)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A text for the shell."""

    text: str


@dataclass(frozen=True, slots=True)
class Submission:
    """The end; `answer` is "" where none was given."""

    answer: str


def parse_action(said: str) -> ShellCommand | Submission | str:
    """Return the action that a text says, or one sentence about what is wrong with it; any text gives one of the two.

    >>> read("wc -l notes.txt")
    Command(text='wc -l notes.txt')
    >>> read("submit 12 files")
    Submit(answer='12 files')
    >>> read(" ")
    'the action was empty: give a shell command, or submit'
    """
    text = said.replace("\r\n", "\n").strip()
    if found := _FENCE.match(text):
        text = found["text"].strip()
    if not text:
        return "the action was empty: give a shell command, or submit"
    if len(text) > LONGEST:
        return f"an action has at most {LONGEST:,} characters, and this one has {len(text):,}"
    if control := _CONTROL.search(text):
        return f"an action is text, and this one holds the character {control.group()!r}"
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"an action is Unicode text, and this one is not, at character {error.start}"
    if end := _SUBMIT.fullmatch(text):
        return Submission((end["answer"] or "").strip())
    return ShellCommand(text)

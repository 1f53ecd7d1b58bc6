"""Actions of the shell environment: a shell command, or a submission.

    grep -c ERROR logs/a.log      any other text is a command, of one or several lines
    submit                        ends the episode
    submit 42                     ends the episode with an answer

A code fence (three backticks, with or without a language) around the whole action is removed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

__all__ = ["FORMS", "LONGEST", "ShellCommand", "Submission", "parse_action"]

FORMS: Final = ("...", "submit ...")
"""Action forms that contain arbitrary text, for `info["free_actions"]`."""
LONGEST: Final = 8000
"""Maximum length of an action in characters."""
_FENCE: Final = re.compile(r"\A```[\w+.-]*[ \t]*\n(?P<text>.*?)\n?```[ \t]*\Z", re.DOTALL)
_SUBMIT: Final = re.compile(r"submit(?:[ \t\n]+(?P<answer>.*))?", re.DOTALL)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A command to run."""

    text: str


@dataclass(frozen=True, slots=True)
class Submission:
    """The end of the episode; `answer` is "" if none was given."""

    answer: str


def parse_action(reply: str) -> ShellCommand | Submission | str:
    """Return the action in a text, or a sentence that tells the agent why there is none. Never raises.

    >>> parse_action("wc -l notes.txt")
    ShellCommand(text='wc -l notes.txt')
    >>> parse_action("submit 12 files")
    Submission(answer='12 files')
    >>> parse_action(" ")
    'the action was empty: give a shell command, or submit'
    """
    text = reply.replace("\r\n", "\n").strip()
    if fence := _FENCE.match(text):
        text = fence["text"].strip()
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

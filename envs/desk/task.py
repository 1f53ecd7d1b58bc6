"""A task at a service desk as data: what the user wants and knows, the database, and how it must be in the end."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

__all__ = ["MOST_NUMBERS", "DeskAction", "DeskDemand", "DeskTask", "UserFact", "says"]

_WORD: Final = re.compile(r"\$?\w+(?:[-:.]\w+)*")
MOST_NUMBERS: Final = 6
"""Most words with digits in a message; one with more says nothing, since it would list every possible answer."""


@dataclass(frozen=True, slots=True)
class UserFact:
    """Something that the user knows and the agent may need.

    Attributes:
        name: what it is called: "card number".
        value: what it is.
        words: words of a question that asks for it.
        sentence: how the user says it, with {} for the value.
        wrong: a value that a confused user gives at first; "" if nobody would confuse it.
    """

    name: str
    value: str
    words: tuple[str, ...]
    sentence: str
    wrong: str = ""

    def said(self, *, wrong: bool = False) -> str:
        """Return the user's sentence."""
        return self.sentence.format(self.wrong if wrong else self.value)


@dataclass(frozen=True, slots=True)
class DeskAction:
    """A change of the world: a call by the agent or, if `ask` is a text, what the user does when the agent says it."""

    name: str
    arguments: Mapping[str, object]
    ask: str = ""


@dataclass(frozen=True, slots=True)
class DeskDemand:
    """Something that the policy forbids, and that an adversarial user insists on."""

    sentence: str
    action: DeskAction


@dataclass(frozen=True)
class DeskTask:
    """A task.

    Attributes:
        id: of the task.
        domain: name of its domain.
        family: kinds of its requests, such as "library renew".
        families: those of its domain that the policy has to explain.
        wants: what the user asks for, one sentence a request.
        facts: what the user knows.
        demand: what an adversarial user insists on.
        before: the database at the start, as JSON.
        after: the database at the end, as JSON with sorted names.
        lookups: what an agent reads to decide.
        actions: what the policy has the agent and the user do, in their order.
        told: texts that the agent must say.
        replies: what the expert says, so that every text of `told` is said.
    """

    id: str
    domain: str
    family: str
    families: tuple[str, ...]
    wants: tuple[str, ...]
    facts: tuple[UserFact, ...]
    demand: DeskDemand
    before: str
    after: str
    lookups: tuple[DeskAction, ...]
    actions: tuple[DeskAction, ...]
    told: tuple[str, ...]
    replies: tuple[str, ...]

    @cached_property
    def opening(self) -> str:
        """What the user wants, in one line."""
        return " ".join(self.wants)


def says(message: str, texts: Sequence[str]) -> list[bool]:
    """Return for each text whether a message says it: its words in their order; a date, time or amount is one word.

    >>> says("It is due on 2026-03-31, and costs $12.50.", ["2026-03-31", "$12.50", "31", "$12"])
    [True, True, False, False]
    >>> says("$1 or $2 or $3 or $4 or $5 or $6 or $7", ["$3"])
    [False]
    """
    spoken = _WORD.findall(message.lower())
    if sum(any(map(str.isdigit, word)) for word in spoken) > MOST_NUMBERS:
        return [False] * len(texts)
    words = f" {' '.join(spoken)} "
    return [f" {' '.join(_WORD.findall(text.lower()))} " in words for text in texts]

"""A task at a service desk as data: what the user wants and knows, the database, and how it must be in the end."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

__all__ = ["MOST_NUMBERS", "DeskAction", "DeskDemand", "DeskTask", "UserFact", "numbers", "says"]

_WORD: Final = re.compile(r"\$?\w+(?:[-:.]\w+)*")
MOST_NUMBERS: Final = 6
"""Most different words with digits that an agent says in an episode with one request, beyond what the user knows."""
_FURTHER: Final = 2
"""How many more it may say for each further request."""


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

    @cached_property
    def known(self) -> frozenset[str]:
        """Words with digits that the user knows or says, which an agent may repeat."""
        texts = [*self.wants, self.demand.sentence]
        texts += [value for fact in self.facts for value in (fact.said(), fact.value, fact.wrong)]
        return frozenset(numbers(" ".join(texts)))

    @property
    def most_numbers(self) -> int:
        """Most different words with digits that the agent may say, besides `known`."""
        return MOST_NUMBERS + _FURTHER * (len(self.wants) - 1)


def numbers(message: str) -> set[str]:
    """Return the different words with digits of a message.

    >>> sorted(numbers("On 2026-03-31 at 09:00 it costs $12.50, not $12.50 more."))
    ['$12.50', '09:00', '2026-03-31']
    """
    return {word for word in _WORD.findall(message.lower()) if any(map(str.isdigit, word))}


def says(message: str, texts: Sequence[str]) -> list[bool]:
    """Return for each text whether a message says it: its words in their order; a date, time or amount is one word.

    >>> says("It is due on 2026-03-31, and costs $12.50.", ["2026-03-31", "$12.50", "31", "$12"])
    [True, True, False, False]
    """
    words = f" {' '.join(_WORD.findall(message.lower()))} "
    return [f" {' '.join(_WORD.findall(text.lower()))} " in words for text in texts]

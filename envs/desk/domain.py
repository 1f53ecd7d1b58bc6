"""What a domain of service desks defines: a database, tools on it, a policy, and requests with what the policy decides.

A domain is one class in one module. Its tools check only that what they are given exists, as in tau-bench: what is
allowed is the policy's matter, and the agent's. The same policy is written twice, as a text for the agent and as the
rule `decide`, from which the true final database follows.

Source: tau-bench (Yao et al. 2024, arXiv:2406.12045); tools of the user: tau2-bench (Barres et al. 2025,
arXiv:2506.07982).
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from turncredit.envs.desk.level import DeskLevel
from turncredit.envs.desk.task import DeskAction, DeskDemand, UserFact
from turncredit.tools.keyed_random import KeyedRandom

__all__ = [
    "DeskDecision",
    "DeskDomain",
    "DeskRequest",
    "UserTool",
    "as_json",
    "cents",
    "distinct_pairs",
    "dollars",
    "new_id",
]


@dataclass(frozen=True, slots=True)
class DeskRequest:
    """One thing that a user wants.

    Attributes:
        family: kind of request.
        sentence: how the user says it, without what only `facts` say.
        facts: what the user knows beyond who they are.
        subject: what it is about, for the rule.
    """

    family: str
    sentence: str
    facts: tuple[UserFact, ...]
    subject: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DeskDecision:
    """What the policy decides about a request; the attributes are those of a task."""

    lookups: tuple[DeskAction, ...]
    actions: tuple[DeskAction, ...] = ()
    told: tuple[str, ...] = ()
    reply: str = ""


@dataclass(frozen=True, slots=True)
class UserTool:
    """Something that the user can do at the agent's request.

    Attributes:
        words: words of a message that asks for it.
        run: does it, and returns what the user sees.
        about: what it is, for a user that is a model.
    """

    words: frozenset[str]
    run: Callable[[], str]
    about: str = field(default="")


class DeskDomain(ABC):
    """The desk of one domain: tools on the database `data`."""

    data: object
    """The database: a TypedDict of JSON values."""
    name: ClassVar[str]
    about: ClassVar[str]
    """Who the agent is, in one sentence."""
    families: ClassVar[tuple[str, ...]]
    """Kinds of requests, the simplest first."""
    exclusive: ClassVar[frozenset[str]]
    """Families of which a task has at most one."""
    uses: ClassVar[Mapping[str, tuple[str, ...]]]
    """Names of the tools of the agent: those of every task under "", and those of each family."""
    rules: ClassVar[Mapping[str, str]]
    """The policy: general rules under "", and those of each family."""
    readers: ClassVar[frozenset[str]]
    """Tools of the agent that change nothing."""

    @abstractmethod
    def tools(self) -> list[Callable[..., object]]:
        """Return the tools of the agent."""

    def tools_for(self, families: Sequence[str]) -> list[Callable[..., object]]:
        """Return the tools of the agent that these families need."""
        names = {name for family in ("", *families) for name in self.uses[family]}
        return [tool for tool in self.tools() if tool.__name__ in names]

    def user_tools(self) -> dict[str, UserTool]:
        """Return the tools of the user, by name; none by default."""
        return {}

    @abstractmethod
    def draw_world(self, draw: KeyedRandom, level: DeskLevel) -> tuple[UserFact, ...]:
        """Draw a database, and a user; return what the user knows of themself."""

    @abstractmethod
    def draw_request(self, family: str, draw: KeyedRandom, forbidden: bool) -> DeskRequest:
        """Draw a request, and change the database so that the policy permits it or not."""

    @abstractmethod
    def draw_demand(self, draw: KeyedRandom) -> DeskDemand:
        """Draw something that the policy forbids in every task."""

    @abstractmethod
    def decide(self, request: DeskRequest) -> DeskDecision:
        """Return what the policy decides about a request, in the current database."""

    @classmethod
    def policy(cls, families: Sequence[str]) -> str:
        """Return the policy, with the rules for these families."""
        return "\n".join([cls.rules[""], *(f"- {cls.rules[family]}" for family in families)])

    def run(self, action: DeskAction) -> object:
        """Do what an action says, with a tool of the agent or of the user, and return its result."""
        if action.ask:
            return self.user_tools()[action.name].run()
        tools = {tool.__name__: tool for tool in self.tools()}
        return tools[action.name](**action.arguments)


def as_json(data: object) -> str:
    """Return a database as JSON with sorted names, so that equal databases have equal texts."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"))


def distinct_pairs(draw: KeyedRandom, firsts: Sequence[str], seconds: Sequence[str], count: int) -> list[str]:
    """Return different texts "FIRST SECOND"; `count` is at most the number of pairs."""
    pairs: dict[str, None] = {}
    while len(pairs) < count:
        pairs[f"{draw.pick(firsts)} {draw.pick(seconds)}"] = None
    return list(pairs)


def dollars(amount: int) -> str:
    """Return an amount in cents as text.

    >>> dollars(1405)
    '$14.05'
    """
    return f"${amount // 100}.{amount % 100:02d}"


def cents(amount: float) -> int:
    """Return an amount in dollars as cents."""
    return round(100 * amount)


def new_id(draw: KeyedRandom, prefix: str, used: Mapping[str, object]) -> str:
    """Return a random id with a prefix that is not used."""
    while (id := f"{prefix}{draw.between(10000, 99999)}") in used:
        pass
    return id

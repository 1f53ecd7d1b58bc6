"""Remembering answers by what they depended on.

An answer about a world (which commands are possible, what a text says, whether the goal holds) is a function of a few
facts that change. While it is worked out, the facts that it looked up are noted, in order. A memo keeps them as a
tree: each node asks for one group of facts, each branch is a value that was seen, each leaf an answer. Asking again
follows the branches; only what has never been seen is worked out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Generic, TypeAlias, TypeVar

from turnwise.envs.household.joins import Row

Slot: TypeAlias = tuple[str, int, Row]  # (predicate, mask, key), as in View.match
T = TypeVar("T")


class Missing:
    """The type of MISSING."""


MISSING: Final = Missing()


class _Branch:
    __slots__ = ("children", "slot")

    def __init__(self, slot: Slot) -> None:
        self.slot = slot
        self.children: dict[tuple[Row, ...], object] = {}


class AnswerCache(Generic[T]):
    """Answers of one question by the facts that they depend on."""

    __slots__ = ("_root",)

    def __init__(self) -> None:
        self._root: object = MISSING

    def find(self, facts: Mapping[Slot, tuple[Row, ...]]) -> T | Missing:
        """Return the answer for these facts, or MISSING when none that fits was kept."""
        node = self._root
        while type(node) is _Branch:
            node = node.children.get(facts.get(node.slot, ()), MISSING)
        return node  # type: ignore[return-value]

    def keep(self, trace: Mapping[Slot, tuple[Row, ...]], answer: T) -> None:
        """Keep an answer under the facts that it looked up, in the order of the looking up."""
        branch: _Branch | None = None
        value: tuple[Row, ...] = ()
        for slot, seen in trace.items():
            node = self._root if branch is None else branch.children.get(value)
            if type(node) is not _Branch:
                node = _Branch(slot)
                self._hang(branch, value, node)
            branch, value = node, seen
        self._hang(branch, value, answer)

    def _hang(self, branch: _Branch | None, value: tuple[Row, ...], node: object) -> None:
        if branch is None:
            self._root = node
        else:
            branch.children[value] = node

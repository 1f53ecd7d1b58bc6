"""Caching results by the facts that they depend on.

A result about a world (the possible commands, a text, whether the goal holds) is a function of a few changing facts.
While it is computed, the groups of facts that it looks up are recorded in order. The cache is a decision tree over
these: each node looks up one group of facts, each branch is a value, each leaf a result. A lookup follows the branches;
only new combinations are computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Generic, TypeAlias, TypeVar

from turncredit.envs.household.joins import Row

Slot: TypeAlias = tuple[str, int, Row]  # (predicate, mask, key), as in FactView.match
T = TypeVar("T")


class Missing:
    """The type of MISSING."""


MISSING: Final = Missing()


class _Branch:
    __slots__ = ("children", "slot")

    def __init__(self, slot: Slot) -> None:
        self.slot = slot
        self.children: dict[tuple[Row, ...], object] = {}


class DependencyCache(Generic[T]):
    """Results of one function, by the facts that they depend on."""

    __slots__ = ("_root",)

    def __init__(self) -> None:
        self._root: object = MISSING

    def find(self, facts: Mapping[Slot, tuple[Row, ...]]) -> T | Missing:
        """Return the result for these facts, or MISSING."""
        node = self._root
        while type(node) is _Branch:
            node = node.children.get(facts.get(node.slot, ()), MISSING)
        return node  # type: ignore[return-value]

    def keep(self, trace: Mapping[Slot, tuple[Row, ...]], answer: T) -> None:
        """Store a result under the facts that were looked up, in order."""
        branch: _Branch | None = None
        value: tuple[Row, ...] = ()
        for slot, seen in trace.items():
            node = self._root if branch is None else branch.children.get(value)
            if type(node) is not _Branch:
                node = _Branch(slot)
                self._attach(branch, value, node)
            branch, value = node, seen
        self._attach(branch, value, answer)

    def _attach(self, branch: _Branch | None, value: tuple[Row, ...], node: object) -> None:
        if branch is None:
            self._root = node
        else:
            branch.children[value] = node

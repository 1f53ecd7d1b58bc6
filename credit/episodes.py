"""The trajectories of a table, with one score, task and length each, for rules that compare outcomes."""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.columns import described
from turncredit.credit.errors import BadTable
from turncredit.credit.key_codes import freeze
from turncredit.credit.numerics import Groups, compact, group_sums, trajectory_scores
from turncredit.credit.steps import Bools, Floats, Ints, Steps


@dataclass(frozen=True, eq=False)
class Episodes:
    """The J trajectories of a table without copies.

    Args:
        steps: the table.
        score: float64 [J], the sum of each trajectory's rewards, in units of reward.
        task: compact int64 [J], the group of each trajectory.
        member: compact int64 [N], the trajectory of each row.
        size_of_terms: float64 [J], the sum of the absolute rewards, for the rounding tolerance.
    """

    steps: Steps
    score: Floats
    task: Ints
    member: Ints
    size_of_terms: Floats

    @classmethod
    def of(cls, steps: Steps, *, reward: Floats | None = None) -> "Episodes":
        """Return the episodes of a table.

        Args:
            steps: the table.
            reward: float64 [N], used instead of `steps.reward`.
        """
        paid = steps.reward if reward is None else reward
        score, task, member = trajectory_scores(steps, reward=paid)
        terms = trajectory_scores(steps, reward=np.abs(paid))[0]
        return cls(steps, score, compact(task), member, terms)

    def __len__(self) -> int:
        """Number of trajectories J."""
        return len(self.score)

    @cached_property
    def groups(self) -> Groups:
        """The scores in their tasks."""
        return Groups(self.score, self.task, size_of_terms=self.size_of_terms)

    @cached_property
    def alone(self) -> Bools:
        """bool [J], whether the trajectory is the only one of its task."""
        return np.asarray((np.bincount(self.task) == 1)[self.task], dtype=np.bool_)

    @cached_property
    def first(self) -> Ints:
        """int64 [J], the row of each trajectory's first turn."""
        order = self.steps.time_order
        return order[np.unique(self.member[order], return_index=True)[1]]

    @cached_property
    def place(self) -> Ints:
        """int64 [J], ranks of the ids sorted as text, to break ties independently of the order of rows."""
        codes = np.zeros(len(self), dtype=np.int64)
        codes[self.member] = self.steps.trajectory
        names = self.steps.names.get("trajectory", ())
        texts = [repr(names[code]) if code < len(names) else f"{code:020d}" for code in codes.tolist()]
        place = np.zeros(len(self), dtype=np.int64)
        place[sorted(range(len(self)), key=texts.__getitem__)] = np.arange(len(self))
        return place

    @cached_property
    def counts(self) -> dict[str, float]:
        """Counts for the report: groups, groups of one, and groups with equal scores."""
        return {
            "groups": float(len(self.groups.size)),
            "groups_of_one": float((self.groups.size == 1.0).sum()),
            "groups_without_spread": float((self.groups.flat & (self.groups.size > 1.0)).sum()),
        }

    @cached_property
    def turns(self) -> Ints:
        """int64 [J], number of turns."""
        return np.bincount(self.member, minlength=len(self)).astype(np.int64, copy=False)

    @cached_property
    def tokens(self) -> Floats:
        """float64 [J], number of trained tokens; needs `tokens`."""
        return group_sums(self.member, self.steps.column("tokens").astype(np.float64), len(self))

    @cached_property
    def logprob(self) -> Floats:
        """float64 [J], mean log-probability of the trajectory's tokens, nats; weighted by `tokens` if given."""
        order = self.steps.time_order  # a fixed order of addition
        tokens = np.ones(len(order))
        if "tokens" in self.steps:
            tokens = np.maximum(self.steps.column("tokens")[order], 0).astype(np.float64)
        count = group_sums(self.member[order], tokens, len(self))
        total = group_sums(self.member[order], tokens * self.steps.column("logprob")[order], len(self))
        return np.divide(total, count, out=np.zeros(len(self)), where=count > 0.0)

    def of_trajectory(self, method: str, name: str) -> Floats | Ints:
        """Return a column that is constant within each trajectory, [J] or [J, M].

        Args:
            method: name of the rule, for the message.
            name: the column, which the table must have.

        Raises:
            BadTable: two rows of a trajectory differ.
        """
        column = self.steps.column(name)
        first = np.zeros(len(self), dtype=np.int64)
        first[self.member[::-1]] = np.arange(len(self.steps))[::-1]
        value: Floats | Ints = column[first]
        if (column != value[self.member]).any():
            raise BadTable(f"{method} expects one value of {described(name)} per trajectory, but it differs within one")
        return value

    def task_keys(self, method: str) -> list[Hashable]:
        """Return the dict key of each task, in the order of `task`: its id, or the text of an array or list.

        Args:
            method: name of the rule, for the message.

        Raises:
            BadTable: an id is not hashable, or two ids are equal as dict keys.
        """
        codes = np.unique(self.steps.task).tolist()
        names = self.steps.names.get("task", ())
        keys: list[Hashable] = []
        for name in (names[code] if code < len(names) else code for code in codes):
            if isinstance(name, np.ndarray | list):
                name = repr(freeze(name))
            try:
                hash(name)
            except TypeError as error:
                raise BadTable(f"{method} needs hashable task ids, got {name!r}: {error}") from error
            assert isinstance(name, Hashable)
            keys.append(name)
        if len(set(keys)) < len(keys):
            raise BadTable(f"{method} needs task ids that differ as dict keys, but two are equal (such as 1 and True)")
        return keys

    def advantages(
        self,
        value: Floats,
        parts: dict[str, Floats] | None = None,
        report: dict[str, float] | None = None,
        *,
        keep: Bools | None = None,
        state: object = None,
    ) -> Advantages:
        """Return advantages that give each row the value of its trajectory.

        Args:
            value: float64 [J].
            parts: terms by name, float64 [J] each; None is the value alone, as "episode".
            report: scalars.
            keep: bool [J], the trajectories to train on; None keeps all.
            state: memory for the next call.
        """
        parts = {name: part[self.member] for name, part in ({"episode": value} if parts is None else parts).items()}
        kept = None if keep is None else keep[self.member]
        return Advantages.of(self.steps, value[self.member], parts, report, keep=kept, state=state)

"""The truth about the turns of stored episodes: which forks are needed, what they cost, and what they say.

table = TruthTable.of(groups, ForkFile.open(path, player), chance=False)
measure(table, player, TruthOptions(forks=16))
table.estimate(gamma=0.95, invalid_penalty=0.1)
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from turncredit.agents.errors import EnvFailure
from turncredit.agents.rollouts.env_pool import EnvPool
from turncredit.agents.rollouts.retracing import depends_on_chance
from turncredit.agents.rollouts.rollout_stream import member_number
from turncredit.agents.trajectory import Group, Trajectory
from turncredit.credit.truth import TrueCredit, estimate, reliability, smoothed_variance
from turncredit.training.errors import TrainingError
from turncredit.training.truth.fork_records import ForkFile, ForkRecord
from turncredit.training.truth.forking import ForkJob, ForkPlayer
from turncredit.training.truth.histories import Histories, History

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["TruthOptions", "TruthPlan", "TruthTable", "has_chance", "measure", "plan_forks"]

FIRST = 4
"""Forks of every history in the first round, after which the speed and the variances are known."""

PROBED = 8
"""Episodes in which chance is looked for."""


@dataclass(frozen=True, slots=True)
class TruthOptions:
    """How much is played."""

    forks: int = 8
    """Forks of every history; with `reliability`, the most that one gets on average."""
    reliability: float = 0.0
    """Play until the advantages have this reliability, and put further forks where returns vary; 0: `forks` of each."""
    max_turns: int = 0
    """Play about this many turns at most; 0: no limit."""
    early: bool = False
    """Leave out further forks of histories whose first ones all gave one return, and those before and after them too.
    Their errors stay those of the first forks."""
    gamma: float = 0.95
    """Discount of the returns whose variance decides where further forks are played."""
    invalid_penalty: float = 0.0
    """Penalty of an invalid action in these returns."""


@dataclass(frozen=True, slots=True)
class TruthPlan:
    """What is going to be played."""

    forks: int
    """Of every history."""
    histories: int
    rows: int
    """Turns of the episodes, each of which has one of the histories."""
    missing: int
    """Forks that have to be played."""
    turns: int
    """Turns that they will have, if they are as long as the rest of their parents."""
    tokens: int
    """Tokens that they will sample."""


@dataclass(slots=True)
class TruthTable:
    """The turns of stored episodes with the forks of their histories."""

    groups: Sequence[Group]
    histories: Histories
    file: ForkFile
    chosen: NDArray[np.bool_] | None = None
    """Whether each history is to be forked; None: all are."""

    @classmethod
    def of(cls, groups: Sequence[Group], file: ForkFile, *, chance: bool) -> TruthTable:
        """Return the table of some groups; `chance` says whether the environment draws random numbers in its steps."""
        return cls(groups, Histories(groups, repeats=chance), file)

    def estimate(self, gamma: float, invalid_penalty: float) -> TrueCredit:
        """Return the truth about every turn, in the order of `turncredit.agents.steps.steps_of`."""
        histories = self.histories
        valid = np.asarray(histories.valid, dtype=bool)
        return estimate(
            np.asarray(histories.reward, dtype=np.float64) - invalid_penalty * ~valid,
            histories.value_of,
            histories.next_of,
            [self.file.values(history.key, gamma, invalid_penalty) for history in histories.all],
            gamma=gamma,
            repeats=histories.repeats,
        )

    def counts(self) -> NDArray[np.int64]:
        """Return the number of forks of each history."""
        return np.asarray([self.file.count(history.key) for history in self.histories.all], dtype=np.int64)

    def missing(self, forks: int) -> NDArray[np.int64]:
        """Return how many forks each history lacks; 0 of those that are not to be forked."""
        missing: NDArray[np.int64] = np.maximum(forks - self.counts(), 0)
        return missing if self.chosen is None else missing * self.chosen


def plan_forks(table: TruthTable, options: TruthOptions) -> TruthPlan:
    """Return what has to be played, and about what it costs.

    Raises:
        TrainingError: two forks of every history, the fewest that have a variance, are more turns than allowed.
    """
    histories, forks = table.histories, options.forks
    while True:
        missing = table.missing(forks)
        turns = histories.turns(missing.tolist())
        if not options.max_turns or turns <= options.max_turns:
            break
        if forks <= 2:
            raise TrainingError(
                f"two forks of {len(histories)} histories are about {turns:,} turns, more than {options.max_turns:,}; "
                "allow more, or take fewer trajectories"
            )
        forks = max(2, min(forks - 1, forks * options.max_turns // turns))
    played = [turn for trajectory in histories.trajectories for turn in trajectory.turns]
    per_turn = sum(turn.counted("response_tokens", len(turn.response)) for turn in played) / max(1, len(played))
    return TruthPlan(forks, len(histories), len(played), int(missing.sum()), turns, round(turns * per_turn))


def measure(
    table: TruthTable,
    player: ForkPlayer,
    options: TruthOptions,
    on_record: Callable[[ForkRecord], None] = lambda record: None,
) -> None:
    """Play the forks that are missing, and keep them in the table's file.

    After a first round the next forks are played where the error is largest, if a reliability is asked for.

    Args:
        table: the turns; forks that its file has already are not played again.
        player: plays.
        options: how much.
        on_record: called with each fork as it ends.

    Raises:
        KeyboardInterrupt: Ctrl-C; what was played is in the file.
        TrainingError: nothing could be played.
        FolderInUse: another process plays forks into the file.
    """

    def keep(record: ForkRecord) -> None:
        table.file.append(record)
        on_record(record)

    with table.file.writing():
        _measure(table, player, options, keep)
    if not len(table.file):
        reasons = "; ".join(player.problems) or "there are no turns"
        raise TrainingError(f"no fork could be played: {reasons}")


def _measure(table: TruthTable, player: ForkPlayer, options: TruthOptions, keep: Callable[[ForkRecord], None]) -> None:
    forks = plan_forks(table, options).forks
    player.play(_jobs(table, table.missing(min(FIRST, forks))), keep)
    if not options.reliability:
        missing = table.missing(forks)
        if options.early:
            missing[_settled(table, options)] = 0
        player.play(_jobs(table, missing), keep)
    most = forks * len(table.histories)
    while options.reliability and (room := most - int(table.counts().sum())) > 0:
        reached = reliability(table.estimate(options.gamma, options.invalid_penalty))
        if reached is not None and reached >= options.reliability:
            break
        before = len(table.file)
        player.play(_jobs(table, _shares(table, options, min(room, FIRST * len(table.histories)))), keep)
        if len(table.file) == before:
            break


def _settled(table: TruthTable, options: TruthOptions) -> NDArray[np.bool_]:
    """Return the histories whose returns are all equal, like those of the histories before and after them."""
    alike = [float(np.ptp(values)) == 0.0 if len(values) else False for values in _returns(table, options)]
    histories, settled = table.histories, np.asarray(alike, dtype=bool) & (table.counts() >= FIRST)
    steps = [(here, after) for here, after in zip(histories.value_of, histories.next_of, strict=True) if after >= 0]
    agreed: NDArray[np.bool_] = settled.copy()
    for here, after in steps:
        agreed[here] &= settled[after]
        agreed[after] &= settled[here]
    return agreed


def _spreads(table: TruthTable, options: TruthOptions) -> NDArray[np.float64]:
    """Return the standard deviation of the returns of each history, by `smoothed_variance`; 0 where there are none."""
    returns = _returns(table, options)
    every = [value for values in returns for value in values]
    low, high = min(every, default=0.0), max(every, default=0.0)
    spreads = [math.sqrt(smoothed_variance(values, low, high)) if len(values) else 0.0 for values in returns]
    return np.asarray(spreads, dtype=np.float64)


def _returns(table: TruthTable, options: TruthOptions) -> list[Sequence[float]]:
    """Return the returns of the forks of each history."""
    return [table.file.values(history.key, options.gamma, options.invalid_penalty) for history in table.histories.all]


def _shares(table: TruthTable, options: TruthOptions, room: int) -> NDArray[np.int64]:
    """Return how many of the next forks each history gets, in proportion to s / sqrt(K)."""
    counts = table.counts()
    need = _spreads(table, options) / np.sqrt(np.maximum(counts, 1))
    if not need.sum() > 0:
        return np.zeros(len(counts), dtype=np.int64)
    exact = need / need.sum() * room
    shares: NDArray[np.int64] = np.floor(exact).astype(np.int64)
    largest = np.argsort(shares - exact, kind="stable")[: room - int(shares.sum())]
    shares[largest] += 1
    return shares


def _jobs(table: TruthTable, missing: NDArray[np.int64]) -> list[ForkJob]:
    """Return the forks of each history as jobs, those of one episode beside each other.

    Forks that are members of the groups keep their numbers, so that no estimate has their outcome.
    """
    members: dict[tuple[str, int], int] = {}
    for trajectory in table.histories.trajectories:
        if trajectory.fork_of is not None:
            beginning = trajectory.fork_of, trajectory.fork_turn or 0
            members[beginning] = max(members.get(beginning, 0), member_number(trajectory.id) + 1)

    def first(history: History) -> int:
        return max(table.file.next_number(history.key), members.get((history.trajectory.id, history.turn), 0))

    return [
        ForkJob(history, first(history), number)
        for history, number in zip(table.histories.all, missing.tolist(), strict=True)
        if number
    ]


def has_chance(groups: Sequence[Group], player: ForkPlayer) -> bool:
    """Return whether other random numbers change what the environment answers, in some of the episodes.

    Raises:
        TrainingError: none of them can be played over again.
    """
    return asyncio.run(_has_chance(groups, player))


async def _has_chance(groups: Sequence[Group], player: ForkPlayer) -> bool:
    pool = player.make if isinstance(player.make, EnvPool) else EnvPool(player.make, player.deadline)
    worker, problems, looked = pool.take(), list[str](), 0
    try:
        for trajectory in _spread_out([member for group in groups for member in group.finished]):
            try:
                if await depends_on_chance(player.agent, player.sampler, worker, trajectory):
                    return True
                looked += 1
            except EnvFailure as failure:
                problems.append(str(failure))
    finally:
        pool.give_back(worker)
        if pool is not player.make:
            pool.close()
    if not looked:
        raise TrainingError(f"these episodes cannot be forked: {problems[0] if problems else 'there are none'}")
    return False


def _spread_out(trajectories: Sequence[Trajectory]) -> Sequence[Trajectory]:
    """Return a few trajectories from beginning to end."""
    return trajectories[:: max(1, len(trajectories) // PROBED)][:PROBED]

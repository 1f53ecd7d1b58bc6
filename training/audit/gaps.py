"""Recomputed against sampled log-probabilities of stored trajectories, in bounded memory.

The gap of a token is |sampled - recomputed| in nats. With nucleus sampling the sampled log-probability is that of the
nucleus, which is larger by at most -ln(top_p); the gap is then the distance from [recomputed, recomputed - ln(top_p)].
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from turncredit.agents.trajectory import Group, Trajectory
from turncredit.training.audit.findings import Place
from turncredit.training.batch.batch import Batch, pack
from turncredit.training.batch.sampling_temperature import AT_ONE, SamplingTemperature
from turncredit.training.batch.scores import Scores

SINGLE = 30.0
"""How much larger the gap of a single token may be than the mean."""

BOUNDS = {"float32": 1e-4, "bfloat16": 0.1, "float16": 0.1}
"""Largest mean gap (nats) by the type in which the engine computes."""

Score = Callable[[Batch], Scores]


@dataclass(slots=True)
class GapStatistics:
    """Number, mean and maximum of gaps."""

    tokens: int = 0
    total: float = 0.0
    largest: float = 0.0

    @property
    def mean(self) -> float:
        """Mean gap, nats."""
        return self.total / max(1, self.tokens)

    def add(self, gaps: NDArray[np.float64]) -> None:
        """Add the gaps of some tokens; one that is not a number counts as infinite."""
        self.tokens += len(gaps)
        self.total += float(gaps.sum())
        self.largest = max(self.largest, float(gaps.max(initial=0.0)))

    def as_json(self) -> dict[str, object]:
        """Return the statistics as JSON can hold them."""
        return {"tokens": self.tokens, "mean": _finite(self.mean), "max": _finite(self.largest)}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


@dataclass(slots=True)
class GapMeter:
    """Collects gaps over a run, and finds the turns in which they are too large.

    Attributes:
        bound: largest mean gap, nats.
        top_p: of the nucleus that was sampled from.
        temperature: at which the run sampled.
        whole: of all tokens.
        by_version: of the tokens of each version of the weights.
        by_position: by the position in the response, and
        by_turn: by the index of the turn; key k holds 2**k - 1 to 2**(k + 1) - 2.
        worst: gap and place of the token with the largest gap.
    """

    bound: float
    top_p: float = 1.0
    temperature: SamplingTemperature = AT_ONE
    whole: GapStatistics = field(default_factory=GapStatistics)
    by_version: dict[int, GapStatistics] = field(default_factory=dict)
    by_position: dict[int, GapStatistics] = field(default_factory=dict)
    by_turn: dict[int, GapStatistics] = field(default_factory=dict)
    worst: tuple[float, Place | None] = (-1.0, None)
    _suspect: dict[int, tuple[Place, float]] = field(default_factory=dict)

    def measure(
        self, iteration: int, version: int, chunk: list[Trajectory], score: Score
    ) -> Iterator[tuple[Place, str]]:
        """Score the turns of one iteration by one version, and yield those with a token whose gap is too large.

        Args:
            iteration: that was trained on them.
            version: of the weights that `score` has; tokens of other versions are left out.
            chunk: trajectories.
            score: recomputes the log-probabilities of a batch.
        """
        trajectories = [member for member in chunk if member.finished and len(member.turns)]
        batch = pack([Group(member.task, (member,)) for member in trajectories], temperature=self.temperature)
        recomputed = score(batch).logprobs[batch.mask]
        difference = batch.old[batch.mask] - recomputed
        gaps = np.maximum(np.maximum(-difference, difference + math.log(self.top_p)), 0.0)
        gaps = np.where(np.isfinite(difference), gaps, np.inf)
        turns = [(member, number) for member in trajectories for number in range(len(member.turns))]
        of_turn, sampled_by = batch.turn[batch.mask], batch.version[batch.mask]
        for first, last in _runs(of_turn):
            trajectory, number = turns[int(of_turn[first])]
            where = Place(iteration, trajectory.id, number)
            offset = len(trajectory.turns[number].response) - last  # from an index here to one in the response
            for start, end in _runs(sampled_by[first:last]):
                if sampled_by[first + start] == version:
                    at = first + start
                    yield from self._turn(where, version, gaps[at : first + end], at + offset)

    def _turn(self, where: Place, version: int, gaps: NDArray[np.float64], offset: int) -> Iterator[tuple[Place, str]]:
        """Add the gaps of one turn."""
        self.whole.add(gaps)
        self.by_version.setdefault(version, GapStatistics()).add(gaps)
        self.by_turn.setdefault(_octave(where.turn or 0), GapStatistics()).add(gaps)
        positions = np.arange(offset, offset + len(gaps))
        for key in range(_octave(offset), _octave(offset + len(gaps) - 1) + 1):
            inside = (positions >= 2**key - 1) & (positions <= 2 ** (key + 1) - 2)
            self.by_position.setdefault(key, GapStatistics()).add(gaps[inside])
        at = int(np.argmax(gaps))
        if gaps[at] > self.worst[0]:
            self.worst = (float(gaps[at]), where)
        if gaps.mean() > self.bound:
            self._suspect.setdefault(version, (where, float(gaps.mean())))
        if gaps[at] > SINGLE * self.bound:
            yield (
                where,
                f"the recomputed log-probability of token {at + offset} differs by {gaps[at]:.3g} nats, more than "
                f"{SINGLE * self.bound:g}",
            )

    def means(self) -> Iterator[tuple[Place, str]]:
        """Yield the versions whose mean gap is too large, each with the first turn that is above the bound."""
        for version, gaps in sorted(self.by_version.items()):
            if gaps.mean > self.bound:
                where, mean = self._suspect[version]
                yield (
                    where,
                    f"the log-probabilities of version {version} differ by {gaps.mean:.3g} nats on average over "
                    f"{gaps.tokens:,} tokens, more than {self.bound:g}; in this turn, the first above, by {mean:.3g}",
                )

    def as_json(self) -> dict[str, object]:
        """Return the statistics as JSON can hold them."""
        worst = self.worst[1]
        return {
            "bound": self.bound,
            **self.whole.as_json(),
            "worst": None if worst is None else {"gap": _finite(self.worst[0]), "place": str(worst)},
            "by_version": {str(key): gaps.as_json() for key, gaps in sorted(self.by_version.items())},
            "by_position": {octave_name(key): gaps.as_json() for key, gaps in sorted(self.by_position.items())},
            "by_turn": {octave_name(key): gaps.as_json() for key, gaps in sorted(self.by_turn.items())},
        }


def _runs(values: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield start and end of every run of equal values."""
    cuts = np.flatnonzero(np.diff(values)) + 1
    edges = [0, *cuts.tolist(), len(values)] if len(values) else []
    yield from pairwise(edges)


def _octave(number: int) -> int:
    """Return k such that 2**k - 1 <= number <= 2**(k + 1) - 2."""
    return (number + 1).bit_length() - 1


def octave_name(key: int) -> str:
    """Return the numbers that a key stands for.

    >>> [octave_name(key) for key in range(4)]
    ['0', '1-2', '3-6', '7-14']
    """
    low, high = 2**key - 1, 2 ** (key + 1) - 2
    return str(low) if low == high else f"{low}-{high}"

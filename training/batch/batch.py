"""Batches: trajectories and their advantages as token sequences, with turns merged where they extend each other.

A turn whose prompt begins with the sequence before it (previous prompt + previous response) is appended to that
sequence, so that a conversation is computed once instead of once per turn; loss and gradient stay the same. Padding is
on the right, after credit assignment; with causal attention no token attends to it.

"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from turncredit.agents.content import ImagePart
from turncredit.agents.steps import SOURCE
from turncredit.agents.token_experts import Experts, agreement, token_codes
from turncredit.agents.trajectory import Group, Trajectory, Turn
from turncredit.credit.advantages import Advantages
from turncredit.credit.numerics import trajectory_scores
from turncredit.credit.steps import Steps
from turncredit.training.batch.folded_array import FoldedArray
from turncredit.training.batch.sampling_temperature import AT_ONE, SamplingTemperature
from turncredit.training.objectives.aggregate import token_weights
from turncredit.training.objectives.sources import POLICY, TEACHER

WHOLE = slice(None)


@dataclass(frozen=True, slots=True)
class PackedEpisodes:
    """The S trajectories of a batch, by their number in the order of packing.

    Attributes:
        outcome: float64 [S], the sum of each one's rewards.
        group: int64 [S], number of its group.
        source: int64 [S], where it comes from, a number of `turncredit.training.objectives.sources`.
    """

    outcome: NDArray[np.float64]
    group: NDArray[np.int64]
    source: NDArray[np.int64]

    @classmethod
    def alone(cls, count: int) -> "PackedEpisodes":
        """Return trajectories of which nothing is known, each in a group of its own."""
        return cls(np.zeros(count), np.arange(count), np.zeros(count, dtype=np.int64))

    def take(self, index: NDArray[np.int64]) -> "PackedEpisodes":
        """Return some of them."""
        return PackedEpisodes(self.outcome[index], self.group[index], self.source[index])


@dataclass(frozen=True, slots=True)
class Batch:
    """B sequences of at most L tokens; beyond its length a row is padding.

    Attributes:
        tokens: int64 [B, L], token ids; 0 where padded.
        lengths: int64 [B].
        mask: bool [B, L], tokens that were sampled and carry loss.
        old: float64 [B, L], nats, log-probability under the policy that sampled; 0 outside the mask.
        advantages: float64 [B, L]; 0 outside the mask.
        trajectory: int64 [B], number of the row's trajectory in the order of packing.
        turn: int64 [B, L], index of the token's turn in `turns`; -1 for tokens that were not sampled.
        version: int64 [B, L], version of the weights that sampled the token; -1 outside the mask.
        turns: (trajectory id, turn) of every packed turn.
        reference: float64 [B, L], nats, under a reference policy; None without one.
        rollout: float64 [B, L], nats, from the sampling engine; None where `old` is that already.
        mean_logprob: float64 [B, L], nats, mean of the log-probability over the vocabulary, under the policy that gave
            `old`; None where nobody has asked.
        columns: outcome, group and source of the trajectories; None where nobody has said.
        heat: float64 [B, L], factor of the run's temperature at which each token was sampled; None where it is 1
            everywhere.
        images: of each row, in the order of their places among the tokens; None where no row has any.
        experts: of each row, of its first tokens, [tokens, layers, K]; None where no sampler has recorded any.
        codes: int64 [B, L], what tokens have in common that share a computation if those before them do: the same id
            and the same experts; None without experts, where it is the id.
    """

    tokens: NDArray[np.int64]
    lengths: NDArray[np.int64]
    mask: NDArray[np.bool_]
    old: NDArray[np.float64]
    advantages: NDArray[np.float64]
    trajectory: NDArray[np.int64]
    turn: NDArray[np.int64]
    version: NDArray[np.int64]
    turns: tuple[tuple[str, int], ...] = ()
    reference: NDArray[np.float64] | None = None
    rollout: NDArray[np.float64] | None = None
    mean_logprob: NDArray[np.float64] | None = None
    columns: PackedEpisodes | None = None
    heat: NDArray[np.float64] | None = None
    images: tuple[tuple[ImagePart, ...], ...] | None = None
    experts: tuple[Experts | None, ...] | None = None
    codes: NDArray[np.int64] | None = None

    def __reduce__(self) -> tuple[object, ...]:
        """Return what a pickle has of it, such as the one for other ranks: its arrays, folded."""
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        folded = {
            name: None if array is None else FoldedArray.of(array, -1 if name in ("turn", "version") else 0)
            for name, array in arrays.items()
        }
        return _unfolded, (folded, {name: getattr(self, name) for name in _WHOLE})

    def __len__(self) -> int:
        """Number of sequences."""
        return len(self.lengths)

    @property
    def size(self) -> int:
        """Number of tokens without padding."""
        return int(self.lengths.sum())

    @property
    def episodes(self) -> PackedEpisodes:
        """Outcome, group and source of the trajectories, by number."""
        return self.columns or PackedEpisodes.alone(int(self.trajectory.max(initial=-1)) + 1)

    @property
    def needed(self) -> NDArray[np.int64]:
        """Number of tokens of each row that a model must see: all before the last one in the mask; int64 [B]."""
        columns = self.mask.shape[1]
        if not columns:  # nothing that argmax could search
            return np.zeros(len(self), dtype=np.int64)
        return np.where(self.mask.any(axis=1), columns - 1 - np.argmax(self.mask[:, ::-1], axis=1), 0)

    @property
    def path(self) -> NDArray[np.int64]:
        """What rows are compared by to find the prefixes that they share; int64 [B, L]."""
        return self.tokens if self.codes is None else self.codes

    def without_experts(self) -> "Batch":
        """Return the batch for a model that chooses its own experts."""
        return replace(self, experts=None, codes=None) if self.experts is not None else self

    def with_contents_of(self, rows: NDArray[np.int64], codes: NDArray[np.int64] | None) -> "Batch":
        """Return the batch for a rank that computes some rows: of the others, tokens, images and experts are left out.

        Args:
            rows: that it computes.
            codes: int64 [B, L], what it compares rows by; None where it compares none.
        """
        own = np.isin(np.arange(len(self)), rows)
        there, images, experts = own.tolist(), self.images, self.experts
        return replace(
            self,
            tokens=np.where(own[:, None], self.tokens, 0),
            images=None if images is None else tuple(images[row] if there[row] else () for row in range(len(self))),
            experts=None
            if experts is None
            else tuple(experts[row] if there[row] else None for row in range(len(self))),
            codes=codes,
        )

    def rows(self, index: NDArray[np.int64]) -> "Batch":
        """Return the batch of some rows, cut to the longest of them."""
        width = int(self.lengths[index].max()) if len(index) else 0
        return Batch(
            tokens=self.tokens[index, :width],
            lengths=self.lengths[index],
            mask=self.mask[index, :width],
            old=self.old[index, :width],
            advantages=self.advantages[index, :width],
            trajectory=self.trajectory[index],
            turn=self.turn[index, :width],
            version=self.version[index, :width],
            turns=self.turns,
            reference=None if self.reference is None else self.reference[index, :width],
            rollout=None if self.rollout is None else self.rollout[index, :width],
            mean_logprob=None if self.mean_logprob is None else self.mean_logprob[index, :width],
            columns=self.columns,
            heat=None if self.heat is None else self.heat[index, :width],
            images=None if self.images is None else tuple(self.images[row] for row in index),
            experts=None if self.experts is None else tuple(self.experts[row] for row in index),
            codes=None if self.codes is None else self.codes[index, :width],
        )

    def weights(self, mode: str, norm: float = 1.0) -> NDArray[np.float64]:
        """Return the weight of every token for an aggregation over the whole batch.

        Args:
            mode: a key of AGGREGATIONS.
            norm: divisor of modes with "norm", in tokens.

        Returns:
            float64 [B, L]; 0 outside the mask.
        """
        weights = np.zeros(self.mask.shape)
        trajectory = np.broadcast_to(self.trajectory[:, None], self.mask.shape)
        weights[self.mask] = token_weights(
            mode, trajectory[self.mask], self.turn[self.mask], norm=norm, sequences=len(np.unique(self.trajectory))
        )
        return weights

    def rows_with_signal(self) -> NDArray[np.int64]:
        """Return the rows in which some token has a non-zero advantage."""
        return np.flatnonzero((self.advantages != 0).any(axis=1))

    def without_tail(self) -> "Batch":
        """Return the batch without the tokens after the last non-zero advantage of each row, which have no gradient."""
        on = self.advantages != 0
        last = np.where(on.any(axis=1), on.shape[1] - np.argmax(on[:, ::-1], axis=1), 0)
        return replace(self, lengths=np.minimum(self.lengths, last))


_WHOLE = ("turns", "columns", "images", "experts")
_ARRAYS = tuple(field.name for field in fields(Batch) if field.name not in _WHOLE)


def _unfolded(folded: Mapping[str, FoldedArray | None], whole: Mapping[str, object]) -> Batch:
    """Return the batch of some folded arrays."""
    arrays = {name: None if array is None else array.unfold() for name, array in folded.items()}
    make = cast("Callable[..., Batch]", Batch)
    return make(**arrays, **whole)


@dataclass(slots=True)
class _Sequence:
    """A sequence under construction."""

    trajectory: int
    tokens: list[int]
    turns: list[tuple[int, int, int, Turn]]  # start of the response, its end, number of the turn, the turn
    images: tuple[ImagePart, ...] = ()
    experts: Experts | None = None

    def continues(self, turn: Turn) -> bool:
        """Whether the turn's prompt begins with this whole sequence, computed by the same experts."""
        length = len(self.tokens)
        same = len(turn.prompt) >= length and list(turn.prompt[:length]) == self.tokens
        return same and turn.shown[: len(self.images)] == self.images and self._has_experts_of(turn)

    def _has_experts_of(self, turn: Turn) -> bool:
        if self.experts is None or turn.experts is None:
            return self.experts is None and turn.experts is None
        return agreement(self.experts, turn.experts.array()) == len(self.experts)

    def append(self, number: int, turn: Turn) -> None:
        """Append the tokens that the turn adds."""
        self.tokens.extend(turn.prompt[len(self.tokens) :])
        start = len(self.tokens)
        self.tokens.extend(turn.response)
        self.turns.append((start, len(self.tokens), number, turn))
        self.images = turn.shown
        self.experts = None if turn.experts is None else turn.experts.array()


def sequences(trajectory: Trajectory, index: int, first: int, *, merge: bool) -> Iterator[_Sequence]:
    """Yield the token sequences of one trajectory; the turns are numbered from `first`."""
    current: _Sequence | None = None
    for number, turn in enumerate(trajectory.turns, first):
        if current is not None and not (merge and current.continues(turn)):
            yield current
            current = None
        current = current or _Sequence(index, [], [])
        current.append(number, turn)
    if current is not None:
        yield current


def pack(
    groups: Sequence[Group],
    advantages: Advantages | None = None,
    *,
    merge: bool = True,
    outcomes: Mapping[str, float] | None = None,
    sources: Mapping[str, int] | None = None,
    temperature: SamplingTemperature = AT_ONE,
    parts: Mapping[tuple[str, int], slice] | None = None,
) -> Batch:
    """Return the turns of trajectories and their advantages as token sequences.

    Args:
        groups: as returned by a rollout; trajectories that ended as "error" are left out.
        advantages: joined by trajectory id and turn; None gives every turn an advantage of 1. Rows with keep=False stay
            as context and carry no loss. The weight of a row multiplies its advantage.
        merge: append a turn to the sequence before it where its prompt begins with that sequence.
        outcomes: score of each trajectory by id, where it is not the sum of the rewards that the environment gave.
        sources: where trajectories come from, by id; POLICY for those that are missing.
        temperature: at which the run sampled.
        parts: of turns, by trajectory id and turn, that are trained on in part: tokens before the start of the slice
            carry no loss, and those from its end on have an advantage of 0.

    Returns:
        The batch; rows in the order of the trajectories.

    Raises:
        CreditError: a turn has no advantage.
        ValueError: the advantages are of other turns as well, or a turn has another number of log-probabilities than
            of tokens.
    """
    finished = [trajectory for group in groups for trajectory in group.finished]
    turns = [(trajectory.id, number) for trajectory in finished for number in range(len(trajectory.turns))]
    if advantages is None:
        values, keep = np.ones(len(turns)), np.ones(len(turns), dtype=bool)
    else:
        if len(advantages) != len(turns):
            raise ValueError(f"expected advantages of the {len(turns)} turns of these groups, got {len(advantages)}")
        aligned = advantages.aligned([name for name, _ in turns], [number for _, number in turns])
        values, keep = np.asarray(aligned.values * aligned.weight, dtype=np.float64), aligned.keep
    rows: list[_Sequence] = []
    first = 0
    for index, trajectory in enumerate(finished):
        rows.extend(sequences(trajectory, index, first, merge=merge))
        first += len(trajectory.turns)
    batch = _lay_out(rows, values, keep, tuple(turns), parts or {})
    if any(map(temperature.varies, finished)):
        batch = replace(batch, heat=_heat(rows, batch, finished, temperature))
    scores = {trajectory.id: trajectory.reward for trajectory in finished} | dict(outcomes or {})
    columns = PackedEpisodes(
        outcome=np.array([scores[trajectory.id] for trajectory in finished], dtype=np.float64),
        group=np.array([number for number, group in enumerate(groups) for _ in group.finished], dtype=np.int64),
        source=np.array([(sources or {}).get(trajectory.id, POLICY) for trajectory in finished], dtype=np.int64),
    )
    return replace(batch, columns=columns)


def _lay_out(
    rows: Sequence[_Sequence],
    values: NDArray[np.float64],
    keep: NDArray[np.bool_],
    turns: tuple[tuple[str, int], ...],
    parts: Mapping[tuple[str, int], slice],
) -> Batch:
    """Return the batch of some sequences."""
    lengths = np.array([len(row.tokens) for row in rows], dtype=np.int64)
    shape = (len(rows), int(lengths.max()) if len(rows) else 0)
    batch = Batch(
        tokens=np.zeros(shape, dtype=np.int64),
        lengths=lengths,
        mask=np.zeros(shape, dtype=bool),
        old=np.zeros(shape),
        advantages=np.zeros(shape),
        trajectory=np.array([row.trajectory for row in rows], dtype=np.int64),
        turn=np.full(shape, -1, dtype=np.int64),
        version=np.full(shape, -1, dtype=np.int64),
        turns=turns,
        images=tuple(row.images for row in rows) if any(row.images for row in rows) else None,
        experts=tuple(row.experts for row in rows) if any(row.experts is not None for row in rows) else None,
    )
    for index, row in enumerate(rows):
        batch.tokens[index, : len(row.tokens)] = row.tokens
        for start, end, number, turn in row.turns:
            if len(turn.logprobs) != end - start:
                raise ValueError(f"turn {number} has {end - start} tokens and {len(turn.logprobs)} log-probabilities")
            batch.turn[index, start:end] = number
            if keep[number]:
                first, last, _ = parts.get(turns[number], WHOLE).indices(end - start)
                batch.mask[index, start + first : end] = True
                batch.old[index, start + first : end] = turn.logprobs[first:]
                batch.advantages[index, start + first : start + last] = values[number]
                batch.version[index, start + first : end] = turn.versions[first:]
    if batch.experts is not None:
        batch = replace(batch, codes=token_codes(batch.tokens, batch.experts))
    # nothing precedes the first token of a sequence that could predict it
    batch.mask[:, :1] = False
    batch.old[:, :1] = batch.advantages[:, :1] = 0.0
    batch.version[:, :1] = -1
    return batch


def _heat(
    rows: Sequence[_Sequence], batch: Batch, trajectories: Sequence[Trajectory], temperature: SamplingTemperature
) -> NDArray[np.float64]:
    """Return the factor of the run's temperature at each token of a batch; 1 for tokens that were not sampled."""
    heat = np.ones(batch.mask.shape)
    for index, row in enumerate(rows):
        for start, end, _, _ in row.turns:
            heat[index, start:end] = temperature.factors(trajectories[row.trajectory], end - start)
    return heat


def outcomes_of(steps: Steps) -> dict[str, float]:
    """Return the sum of each trajectory's rewards in a table of turns, by the trajectory's id."""
    scores, _, member = trajectory_scores(steps)
    return dict(zip(steps.ids("trajectory"), scores[member].tolist(), strict=True))


def turn_divergence(batch: Batch, reference: NDArray[np.float64], estimator: str, steps: Steps) -> NDArray[np.float64]:
    """Return the divergence of the sampling policy from a reference, summed over the tokens of each turn.

    Args:
        batch: of all turns, from `pack` without advantages.
        reference: float64 [B, L], nats, log-probabilities under the reference.
        estimator: a key of KL_ESTIMATORS.
        steps: the table of the same turns.

    Returns:
        float64 [N], nats, in the order of the table's rows; 0 for turns of teachers, which the policy did not sample.
    """
    import torch

    from turncredit.training.objectives.kl import kl

    mask = batch.mask
    value = kl(torch.from_numpy(batch.old[mask]), torch.from_numpy(reference[mask]), estimator).numpy()
    total = np.bincount(batch.turn[mask], weights=value, minlength=len(batch.turns))
    by_turn = dict(zip(batch.turns, total.tolist(), strict=True))
    divergence = np.array([by_turn[key] for key in zip(steps.ids("trajectory"), steps.turn.tolist(), strict=True)])
    return np.where(steps.column(SOURCE) == TEACHER, 0.0, divergence) if SOURCE in steps else divergence


def micro_batches(lengths: NDArray[np.int64], budget: int, *, packed: bool = False) -> list[NDArray[np.int64]]:
    """Return micro-batches of rows of similar length.

    Args:
        lengths: int64 [B], tokens.
        budget: maximum number of tokens per micro-batch, padding included; a longer row is a micro-batch of its own.
        packed: rows are computed without padding, which does not count then.

    Returns:
        Row numbers, longest rows first, so that memory runs out early or never. Rows of length 0 are left out.
    """
    order = np.argsort(-lengths, kind="stable")
    cuts: list[NDArray[np.int64]] = []
    start = 0
    while start < len(order) and lengths[order[start]] > 0:
        if packed:
            count = max(1, int(np.searchsorted(np.cumsum(lengths[order[start:]]), budget, side="right")))
        else:
            count = max(1, budget // int(lengths[order[start]]))
        block = order[start : start + count]
        cuts.append(block[lengths[block] > 0])
        start += count
    return cuts


def deal(lengths: NDArray[np.int64], ranks: int) -> list[NDArray[np.int64]]:
    """Return the rows of each rank, with nearly as many tokens as every other: the longest first, to whoever has least.

    Args:
        lengths: int64 [B], tokens.
        ranks: how many.

    Returns:
        Row numbers. Rows of length 0 are left out where there are several ranks.
    """
    if ranks == 1:
        return [np.arange(len(lengths))]
    shares: list[list[int]] = [[] for _ in range(ranks)]
    loads = [0] * ranks
    for row in np.argsort(-lengths, kind="stable").tolist():
        if lengths[row] > 0:
            least = min(range(ranks), key=loads.__getitem__)
            shares[least].append(row)
            loads[least] += int(lengths[row])
    return [np.array(share, dtype=np.int64) for share in shares]

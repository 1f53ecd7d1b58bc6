"""Batches: trajectories and their advantages as token sequences, with turns merged where they continue each other.

A turn whose prompt begins with the sequence before it (previous prompt + previous response) is appended to that
sequence, so that a whole conversation is computed once instead of once a turn; loss and gradient stay the same.
Padding is on the right and comes after credit; with causal attention no token ever sees it.

Left out on purpose: images, packing of several trajectories into one row, shared prefixes between trajectories.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from turnwise.agents.trajectory import Group, Trajectory, Turn
from turnwise.credit.advantages import Advantages
from turnwise.training.objectives.aggregate import token_weights


@dataclass(frozen=True, slots=True)
class Batch:
    """B sequences of at most L tokens; outside its length a row is padding.

    Attributes:
        tokens: int64 [B, L], token ids; 0 where padded.
        lengths: int64 [B].
        mask: bool [B, L], tokens that were sampled and carry loss.
        old: float64 [B, L], nats, log-probability under the policy that sampled; 0 outside the mask.
        advantages: float64 [B, L]; 0 outside the mask.
        trajectory: int64 [B], number of the row's trajectory.
        turn: int64 [B, L], number of the turn in the order of steps_of; -1 for tokens that were not sampled.
        reference: float64 [B, L], nats, under a reference policy; None without one.
        rollout: float64 [B, L], nats, as the sampling engine gave them; None where `old` is just that.
    """

    tokens: NDArray[np.int64]
    lengths: NDArray[np.int64]
    mask: NDArray[np.bool_]
    old: NDArray[np.float64]
    advantages: NDArray[np.float64]
    trajectory: NDArray[np.int64]
    turn: NDArray[np.int64]
    reference: NDArray[np.float64] | None = None
    rollout: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        """Number of sequences."""
        return len(self.lengths)

    @property
    def size(self) -> int:
        """Number of tokens without padding."""
        return int(self.lengths.sum())

    def rows(self, index: NDArray[np.int64]) -> "Batch":
        """Give the batch of some rows, cut to the longest of them."""
        width = int(self.lengths[index].max()) if len(index) else 0
        return Batch(
            tokens=self.tokens[index, :width],
            lengths=self.lengths[index],
            mask=self.mask[index, :width],
            old=self.old[index, :width],
            advantages=self.advantages[index, :width],
            trajectory=self.trajectory[index],
            turn=self.turn[index, :width],
            reference=None if self.reference is None else self.reference[index, :width],
            rollout=None if self.rollout is None else self.rollout[index, :width],
        )

    def weights(self, mode: str, norm: float = 1.0) -> NDArray[np.float64]:
        """Weigh every token for an aggregation over the whole of this batch.

        Args:
            mode: a key of AGGREGATIONS.
            norm: tokens, the constant of modes with "norm".

        Returns:
            float64 [B, L]; 0 outside the mask.
        """
        weights = np.zeros(self.mask.shape)
        trajectory = np.broadcast_to(self.trajectory[:, None], self.mask.shape)
        weights[self.mask] = token_weights(
            mode, trajectory[self.mask], self.turn[self.mask], norm=norm, sequences=len(np.unique(self.trajectory))
        )
        return weights

    def signalled(self) -> NDArray[np.int64]:
        """Give the rows in which some token has an advantage other than zero."""
        return np.flatnonzero((self.advantages != 0).any(axis=1))

    def without_tail(self) -> "Batch":
        """Drop what follows the last token with an advantage in each row; it gets no gradient and gives none."""
        on = self.advantages != 0
        last = np.where(on.any(axis=1), on.shape[1] - np.argmax(on[:, ::-1], axis=1), 0)
        return replace(self, lengths=np.minimum(self.lengths, last))


@dataclass(slots=True)
class _Sequence:
    """A sequence that is being built."""

    trajectory: int
    tokens: list[int]
    turns: list[tuple[int, int, int, Turn]]  # start of the response, its end, number of the turn, the turn

    def continues(self, turn: Turn) -> bool:
        """Whether the turn's prompt begins with everything that stands here."""
        length = len(self.tokens)
        return len(turn.prompt) >= length and list(turn.prompt[:length]) == self.tokens

    def append(self, number: int, turn: Turn) -> None:
        """Append what the turn adds."""
        self.tokens.extend(turn.prompt[len(self.tokens) :])
        start = len(self.tokens)
        self.tokens.extend(turn.response)
        self.turns.append((start, len(self.tokens), number, turn))


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


def pack(groups: Sequence[Group], advantages: Advantages | None = None, *, merge: bool = True) -> Batch:
    """Lay the turns of trajectories and their advantages out as token sequences.

    Args:
        groups: as rolled out; trajectories that ended as "error" are left out, as steps_of leaves them out.
        advantages: one row a turn, in the order of steps_of (groups, trajectories, turns); None gives every turn an
            advantage of 1. Rows with keep=False stay as context and carry no loss. A row's weight multiplies its
            advantage.
        merge: append a turn whose prompt begins with the sequence before it to that sequence.

    Returns:
        The batch; rows in the order of the trajectories.

    Raises:
        ValueError: the number of advantages is not the number of turns, or a turn's log-probabilities are not as
            many as its tokens.
    """
    kept = [trajectory for group in groups for trajectory in group.trajectories if trajectory.stop != "error"]
    count = sum(len(trajectory.turns) for trajectory in kept)
    if advantages is None:
        values, keep = np.ones(count), np.ones(count, dtype=bool)
    else:
        values, keep = np.asarray(advantages.values * advantages.weight, dtype=np.float64), advantages.keep
    if len(values) != count:
        raise ValueError(f"{len(values)} advantages came for {count} turns; they must be of the same groups")
    rows: list[_Sequence] = []
    first = 0
    for index, trajectory in enumerate(kept):
        rows.extend(sequences(trajectory, index, first, merge=merge))
        first += len(trajectory.turns)
    return _lay_out(rows, values, keep)


def _lay_out(rows: Sequence[_Sequence], values: NDArray[np.float64], keep: NDArray[np.bool_]) -> Batch:
    """Fill the arrays of a batch."""
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
    )
    for index, row in enumerate(rows):
        batch.tokens[index, : len(row.tokens)] = row.tokens
        for start, end, number, turn in row.turns:
            if len(turn.logprobs) != end - start:
                raise ValueError(f"turn {number} has {end - start} tokens and {len(turn.logprobs)} log-probabilities")
            batch.turn[index, start:end] = number
            if keep[number]:
                batch.mask[index, start:end] = True
                batch.old[index, start:end] = turn.logprobs
                batch.advantages[index, start:end] = values[number]
    # the first token of a sequence has nothing before it that could predict it
    batch.mask[:, :1] = False
    batch.old[:, :1] = batch.advantages[:, :1] = 0.0
    return batch


def turn_divergence(batch: Batch, reference: NDArray[np.float64], estimator: str, turns: int) -> NDArray[np.float64]:
    """Sum up how far the sampling policy was from a reference over the tokens of each turn.

    Args:
        batch: of all turns, as pack gives it without advantages.
        reference: float64 [B, L], nats, log-probabilities under the reference.
        estimator: a key of KL_ESTIMATORS.
        turns: how many turns there are.

    Returns:
        float64 [turns], nats, in the order of steps_of.
    """
    import torch

    from turnwise.training.objectives.kl import kl

    mask = batch.mask
    value = kl(torch.from_numpy(batch.old[mask]), torch.from_numpy(reference[mask]), estimator).numpy()
    return np.bincount(batch.turn[mask], weights=value, minlength=turns).astype(np.float64, copy=False)


def micro_batches(lengths: NDArray[np.int64], budget: int) -> list[NDArray[np.int64]]:
    """Cut rows into micro-batches of similar length.

    Args:
        lengths: int64 [B], tokens.
        budget: most tokens, padding included, in one micro-batch; a longer row is one of its own.

    Returns:
        Indices of rows, longest first, so that memory fails early or never. Rows of length 0 are left out.
    """
    order = np.argsort(-lengths, kind="stable")
    cuts: list[NDArray[np.int64]] = []
    start = 0
    while start < len(order) and lengths[order[start]] > 0:
        count = max(1, budget // int(lengths[order[start]]))
        block = order[start : start + count]
        cuts.append(block[lengths[block] > 0])
        start += count
    return cuts

"""The input of every objective: the tokens that carry loss as flat columns, with the sequence and turn of each.

Tokens outside the mask are removed. Sums over sequences and turns use their codes, so the result does not depend on how
many rows of a batch a trajectory occupies.
"""

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

LARGEST = 20.0  # nats; the exponential of more would dominate every sum
IMPOSSIBLE = -1e4  # nats; replaces the logarithm of zero, so that differences stay finite


class AbsentColumn(ValueError):
    """An objective reads a column that was not passed.

    Attributes:
        column: its name.
    """

    def __init__(self, column: str) -> None:
        """Say which column is missing."""
        super().__init__(f"the objective needs {column!r}, which was not passed")
        self.column = column


@dataclass(frozen=True, slots=True)
class Tokens:
    """M tokens that carry loss, in the order of rows and columns of their batch.

    Attributes:
        new: float [M], n, nats, under the policy (carries gradient).
        old: float [M], o, nats, under the policy at the start of the update.
        advantages: float [M], A.
        sequence: int64 [M], number of the token's sequence, from 0.
        turn: int64 [M], number of the token's turn; no turn lies in two sequences.
        sequences: S, above every number in `sequence`.
        ref: float [M], f, nats, under a reference policy; None without one.
        rollout: float [M], b, nats, as the sampling engine gave them; None where they are the old ones.
        entropy: float [M], H, nats, of the policy's distribution at the token.
        mean_logprob: float [M], nats, mean over the vocabulary of the log-probability under the policy, in the token's
            place, without gradient.
        old_mean_logprob: float [M], nats, the same under the policy at the start of the update.
        spans: int64 [M], number of the token's sentence within its sequence; None: a turn is one.
        seed: of what is drawn.
        outcome: float [S], the sum of the rewards of each sequence's trajectory, as credit sees them.
        group: int64 [S], number of the trajectory's group: the episodes of one task instance.
        source: int64 [S], where the trajectory comes from, a number of `turncredit.training.objectives.sources`.
    """

    new: Tensor
    old: Tensor
    advantages: Tensor
    sequence: Tensor
    turn: Tensor
    sequences: int
    ref: Tensor | None = None
    rollout: Tensor | None = None
    entropy: Tensor | None = None
    mean_logprob: Tensor | None = None
    old_mean_logprob: Tensor | None = None
    spans: Tensor | None = None
    seed: int = 0
    outcome: Tensor | None = None
    group: Tensor | None = None
    source: Tensor | None = None

    def __len__(self) -> int:
        """Number of tokens M."""
        return len(self.new)

    @property
    def log_ratio(self) -> Tensor:
        """float [M], d = n - o, the logarithm of the importance ratio, nats, clamped to [-20, 20]."""
        return (self.new - self.old).clamp(-LARGEST, LARGEST)

    @property
    def sampled_log_ratio(self) -> Tensor:
        """float [M], n - b, nats, clamped likewise; n - o where the old policy sampled the tokens."""
        return (self.new - (self.old if self.rollout is None else self.rollout)).clamp(-LARGEST, LARGEST)

    def need(self, name: str) -> Tensor:
        """Return an optional column.

        Raises:
            AbsentColumn: the caller did not pass it.
        """
        column = getattr(self, name)
        if column is None:
            raise AbsentColumn(name)
        assert isinstance(column, Tensor)
        return column

    def sequence_sum(self, values: Tensor) -> Tensor:
        """Return the sum over each sequence, float [S]; 0 for one without tokens."""
        return values.new_zeros(self.sequences).index_add(0, self.sequence, values)

    def sequence_mean(self, values: Tensor) -> Tensor:
        """Return the mean over each sequence's tokens, float [S]; 0 for one without tokens."""
        return self.sequence_sum(values) / self.sequence_sum(torch.ones_like(values)).clamp(min=1.0)

    def by_span(self) -> Self:
        """Return the same tokens with sentences as sequences (turns if there are no sentences)."""
        if self.spans is None:
            pairs = self.turn[:, None]
        else:
            pairs = torch.stack([self.sequence, self.spans.to(self.sequence.dtype)], dim=1)
        spans, code = torch.unique(pairs, dim=0, return_inverse=True)
        return replace(self, sequence=code, sequences=len(spans), outcome=None, group=None, source=None)


def straight_through(value: Tensor, new: Tensor) -> Tensor:
    """Return the values, with a gradient through `new` only: sg[value] * exp(n - sg n)."""
    return value.detach() * torch.exp(new - new.detach())


OF_TOKENS = {
    "ref": "float [B, L], f, nats, under a reference policy",
    "rollout": "float [B, L], b, nats, from the sampling engine",
    "entropy": "float [B, L], H, nats; carries gradient where there is an entropy bonus",
    "mean_logprob": "float [B, L], nats, mean over the vocabulary of the log-probability in the token's place",
    "old_mean_logprob": "float [B, L], nats, the same under the policy at the start of the update",
    "spans": "int64 [B, L], sentences within each row; by default, a contiguous part of the mask is one",
}
OF_SEQUENCES = {
    "outcome": "float [B], the score of each sequence's episode, in units of reward",
    "group": "int64 [B], any codes, equal for the sequences of one task instance",
    "source": "int64 [B], 0 for a sequence of the policy, 1 for a stored one, 2 for one of a teacher",
}
COLUMNS = OF_TOKENS | OF_SEQUENCES
"""What objectives may read beside log-probabilities, advantages and the mask, by the name of the argument."""


def flatten(
    logprobs: Tensor, old: Tensor, advantages: Tensor, mask: Tensor, *, seed: int = 0, **columns: Tensor | None
) -> Tokens:
    """Return the tokens of a batch in which each row is a sequence, and each contiguous part of the mask is a turn.

    Columns take the dtype of `logprobs`. Log-probabilities below -10,000 nats, including -inf, count as -10,000 and
    have no gradient, so that an impossible token does not make the whole batch infinite. NaN stays NaN.

    Args:
        logprobs: float [B, L], nats.
        old: float [B, L], nats.
        advantages: float [B, L].
        mask: bool (or 0 and 1) [B, L], tokens that carry loss; the others may hold anything.
        seed: of what is drawn.
        **columns: some of COLUMNS.

    Raises:
        ValueError: a shape differs from that of the mask, or is not two-dimensional; log-probabilities are no floats.
    """
    if not logprobs.is_floating_point():
        raise ValueError(f"logprobs must be floats, not {logprobs.dtype}")
    of_tokens = {name: columns.get(name) for name in OF_TOKENS}
    for name, column in {"logprobs": logprobs, "old": old, "advantages": advantages, **of_tokens}.items():
        if column is not None and (column.shape != mask.shape or mask.ndim != 2):
            raise ValueError(f"{name} has shape {tuple(column.shape)}, the mask {tuple(mask.shape)}; wanted: [B, L]")
    outcome, group, source = (columns.get(name) for name in ("outcome", "group", "source"))
    _check_columns(len(mask), outcome=outcome, group=group, source=source)
    on = mask.bool()
    rows, places = torch.nonzero(on, as_tuple=True)
    first = torch.ones_like(rows, dtype=torch.bool)
    first[1:] = (rows[1:] != rows[:-1]) | (places[1:] != places[:-1] + 1)

    def detached(column: Tensor | None) -> Tensor | None:
        return None if column is None else column[on].detach().to(logprobs.dtype)

    def bounded(column: Tensor) -> Tensor:
        return column.to(logprobs.dtype).clamp(min=IMPOSSIBLE)

    ref, entropy, spans = (of_tokens[name] for name in ("ref", "entropy", "spans"))
    return Tokens(
        new=bounded(logprobs[on]),
        old=bounded(old[on].detach()),
        advantages=advantages[on].detach().to(logprobs.dtype),
        sequence=rows,
        turn=torch.cumsum(first, 0) - 1,
        sequences=len(mask),
        seed=seed,
        entropy=None if entropy is None else entropy[on].to(logprobs.dtype),
        ref=None if ref is None else bounded(ref[on].detach()),
        spans=None if spans is None else spans[on],
        **{name: detached(of_tokens[name]) for name in ("rollout", "mean_logprob", "old_mean_logprob")},
        outcome=None if outcome is None else outcome.detach().to(logprobs.dtype),
        group=None if group is None else torch.unique(group, return_inverse=True)[1],
        source=source,
    )


def _check_columns(rows: int, **columns: Tensor | None) -> None:
    for name, column in columns.items():
        if column is not None and column.shape != (rows,):
            raise ValueError(f"{name} has shape {tuple(column.shape)}; wanted: [B] = ({rows},), a number per sequence")

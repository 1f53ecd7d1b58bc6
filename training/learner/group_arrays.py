"""What tokens of a group have to do with each other: arrays that transforms of token advantages may ask for.

    divergence                how far the distributions of the group's members at a position are from their mean
    influence_of_winners      how fast the tokens with a positive advantage raise a token through the output layer
    influence_of_losers       the same of those with a negative advantage

They need the distributions of tokens of other rows, so a group's hidden states are kept together, which are small, and
its logits are computed from them again, chunk by chunk. One process does it: several ranks hold different rows.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from turncredit.training.batch.batch import Batch
from turncredit.training.learner.learner import Learner
from turncredit.training.learner.logprobs import TokenScorer
from turncredit.training.learner.vocabulary import CHUNK, LOWEST

Array = NDArray[np.float64]

FURTHEST: Final = 11.0
"""Largest difference of two log-probabilities that counts in a divergence, nats."""


@dataclass(frozen=True, slots=True)
class GroupTokens:
    """The M tokens in the mask of one group's rows, and how their distributions are computed.

    Attributes:
        hidden: float [M, H], what the output layer gets.
        ids: int64 [M].
        heat: float [M, 1], temperature.
        advantages: float [M].
        position: int64 [M], a number for its turn in the episode and its position in the turn's answer.
        rows, columns: int64 [M], where the batch has them.
    """

    hidden: Tensor
    ids: Tensor
    heat: Tensor
    advantages: Tensor
    position: Tensor
    rows: Tensor
    columns: Tensor

    @classmethod
    def joined(cls, parts: Sequence["GroupTokens"]) -> "GroupTokens":
        """Return the tokens of several micro-batches, by position."""
        columns = {field.name: torch.cat([getattr(part, field.name) for part in parts]) for field in fields(cls)}
        order = torch.argsort(columns["position"], stable=True)
        return cls(**{name: column[order] for name, column in columns.items()})

    def __len__(self) -> int:
        """Number of tokens M."""
        return len(self.ids)

    def logprobs(self, scorer: TokenScorer, cut: slice) -> Tensor:
        """Return the log-probabilities of the whole vocabulary for some tokens, float [m, V], at least -10,000 nats."""
        logits = scorer.logits(self.hidden[cut]).to(self.heat.dtype) / self.heat[cut]
        return torch.log_softmax(logits, -1).clamp(min=LOWEST)


@torch.no_grad()
def group_arrays(
    learner: Learner, batch: Batch, names: Sequence[str], *, temperature: float = 1.0, micro_tokens: int = 16384
) -> dict[str, Array]:
    """Return arrays by name, float64 [B, L] each; 0 outside the mask.

    Args:
        learner: of the policy; it calls this function (`Learner.on_all_ranks`), where its weights may be elsewhere.
        batch: its groups are those of `batch.episodes`; a turn's position counts from the first token of its answer.
        names: of the arrays.
        temperature: of the distributions, > 0.
        micro_tokens: tokens per micro-batch, padding included.

    Raises:
        ConfigError: see `TokenScorer.require_hidden`.
    """
    scorer = learner.scorer
    kinds = list(dict.fromkeys(_FUNCTIONS[name] for name in names))
    positions = _positions(batch)
    owner = batch.episodes.group[batch.trajectory]

    def compute(budget: int) -> dict[str, Array]:
        arrays = {name: np.zeros(batch.mask.shape) for name in names}
        for number in np.unique(owner[batch.mask.any(axis=1)]):
            rows = np.flatnonzero((owner == number) & batch.mask.any(axis=1))
            members = len(np.unique(batch.trajectory[rows]))
            part = batch.rows(rows)
            cuts = [rows[cut] for cut in scorer.micro_batches(part, budget)]
            tokens = GroupTokens.joined([_tokens(scorer, batch, cut, positions, temperature) for cut in cuts])
            at = tokens.rows.cpu().numpy(), tokens.columns.cpu().numpy()
            for kind in kinds:
                for name, column in kind(tokens, scorer, members).items():
                    if name in arrays:
                        arrays[name][at] = column.double().cpu().numpy()
        return arrays

    return scorer.within_memory(compute, batch, micro_tokens)


def _positions(batch: Batch) -> NDArray[np.int64]:
    """Return a number for each pair of a turn of an episode and a position in its answer, int64 [B, L]."""
    columns = np.broadcast_to(np.arange(batch.mask.shape[1]), batch.mask.shape)
    begins = np.ones(batch.mask.shape, dtype=bool)
    begins[:, 1:] = batch.turn[:, 1:] != batch.turn[:, :-1]
    offset = columns - np.maximum.accumulate(np.where(begins, columns, 0), axis=1)
    turn = np.array([*(number for _, number in batch.turns), -1])[batch.turn]
    numbers: NDArray[np.int64] = turn * (batch.mask.shape[1] + 1) + offset
    return numbers


def _tokens(
    scorer: TokenScorer, batch: Batch, index: NDArray[np.int64], positions: NDArray[np.int64], temperature: float
) -> GroupTokens:
    """Return the tokens of one micro-batch."""
    rows = batch.rows(index)
    row, column = np.nonzero(rows.mask)
    hidden = scorer.hidden(rows)
    kind = torch.promote_types(hidden.dtype, torch.float32)
    at = index[row], column
    heat = np.ones(len(row)) if batch.heat is None else batch.heat[at]

    def on_device(values: NDArray[np.float64] | NDArray[np.int64], dtype: torch.dtype) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(hidden.device, dtype)

    return GroupTokens(
        hidden=hidden,
        ids=on_device(batch.tokens[at], torch.int64),
        heat=on_device(temperature * heat, kind)[:, None],
        advantages=on_device(batch.advantages[at], kind),
        position=on_device(positions[at], torch.int64),
        rows=on_device(at[0], torch.int64),
        columns=on_device(at[1], torch.int64),
    )


def _divergence(tokens: GroupTokens, scorer: TokenScorer, members: int) -> dict[str, Tensor]:
    """Return the mean over members of sum(e^d - d - 1) over the vocabulary, d = mean log p - log p, at each position.

    The mean of logarithms is over all members. One whose answer has ended counts as uniform.

    Source: Dang et al. 2025, arXiv 2505.24718 (TW-GRPO), and its code.
    """
    result = torch.zeros_like(tokens.advantages)
    for cut in _cuts_between_positions(tokens, max(1, CHUNK // (4 * scorer.words))):
        logprobs = tokens.logprobs(scorer, cut)
        _, code, count = torch.unique(tokens.position[cut], return_inverse=True, return_counts=True)
        absent = (members - count).to(logprobs.dtype)
        uniform = -float(np.log(logprobs.shape[1]))
        mean = logprobs.new_zeros(len(count), logprobs.shape[1]).index_add_(0, code, logprobs)
        mean = (mean + uniform * absent[:, None]) / members
        total = absent * _distance(mean - uniform)
        total = total.index_add(0, code, _distance(mean[code].sub_(logprobs)))
        result[cut] = (total / members)[code]
    return {"divergence": result}


def _distance(difference: Tensor) -> Tensor:
    """Return sum(e^d - d - 1) over the vocabulary, float [m]."""
    d = difference.clamp(-FURTHEST, FURTHEST)
    return (d.exp() - d - 1.0).sum(-1)


def _influence(tokens: GroupTokens, scorer: TokenScorer, members: int) -> dict[str, Tensor]:
    """Return g' M h of each token, with M the sum of g h' over tokens of one sign of advantage.

    h is what the output layer gets, and g = onehot - p, over the ids that occur in the group: g h' is the gradient of
    the token's log-probability for the rows of these ids, at temperature 1.

    Source: a note of arXiv 2505.18830 (NTHR); both signs are needed for THR, arXiv 2510.03669.
    """
    names, own = torch.unique(tokens.ids, return_inverse=True)
    kind = tokens.heat.dtype
    rows = max(1, CHUNK // (2 * scorer.words))
    cuts = [slice(start, start + rows) for start in range(0, len(tokens), rows)]

    def slopes(cut: slice) -> Tensor:
        result = -tokens.logprobs(scorer, cut)[:, names].exp()
        result[torch.arange(len(result), device=result.device), own[cut]] += 1.0
        return result

    up, down = (torch.zeros(len(names), tokens.hidden.shape[1], dtype=kind, device=names.device) for _ in range(2))
    for cut in cuts:
        slope, states = slopes(cut), tokens.hidden[cut].to(kind)
        for total, sign in ((up, 1.0), (down, -1.0)):
            chosen = tokens.advantages[cut] * sign > 0
            total += slope[chosen].T @ states[chosen]
    both: list[list[Tensor]] = [[], []]
    for cut in cuts:
        slope, states = slopes(cut), tokens.hidden[cut].to(kind)
        for column, total in zip(both, (up, down), strict=True):
            column.append(((slope @ total) * states).sum(-1))
    of_winners, of_losers = (torch.cat(column) for column in both)
    return {"influence_of_winners": of_winners, "influence_of_losers": of_losers}


def _cuts_between_positions(tokens: GroupTokens, rows: int) -> Iterator[slice]:
    """Yield slices of at most `rows` tokens that do not part the tokens of a position, unless it has more."""
    positions = tokens.position.cpu().numpy()
    ends = np.append(np.flatnonzero(np.diff(positions)) + 1, len(positions))
    start = 0
    while start < len(tokens):
        fitting = ends[(ends > start) & (ends <= start + rows)]
        end = int(fitting[-1]) if len(fitting) else int(ends[ends > start][0])
        yield slice(start, end)
        start = end


_FUNCTIONS: Final[dict[str, Callable[[GroupTokens, TokenScorer, int], dict[str, Tensor]]]] = {
    "divergence": _divergence,
    "influence_of_winners": _influence,
    "influence_of_losers": _influence,
}

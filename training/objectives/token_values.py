"""Objectives that read how far a log-probability has moved as the value of a token: ROVER."""

import torch
from torch import Tensor

from turnwise.training.objectives.clipping import Losses, unclipped
from turnwise.training.objectives.function import objective
from turnwise.training.objectives.tokens import Tokens


@objective(scope="sequence", everywhere=True)
def rover(tokens: Tokens, *, discount: float = 1.0) -> Losses:
    """Return the squared error of a Bellman equation under the uniform policy, whose values are log-ratios.

    Q = n - o of a token, V = the mean of log p - log p_old over the whole vocabulary in its place, and
    l = (Q[t] - A[t] - discount V[t + 1])^2, with A and V without gradient, and V = 0 after the sequence's last token.
    At the old policy, the gradient is twice that of -A n.

    Args:
        tokens: with `mean_logprob` and `old_mean_logprob`; advantages are outcomes minus their group's mean, as of the
            credit rule dr_grpo.
        discount: weight of what follows, 0 for none.

    Source: He et al. 2025 (ROVER), random policy valuation, and its code, which adds up log-probabilities over the
    vocabulary where the paper has a mean; the mean is used here. There, an answer is the whole episode; here the token
    that follows the last one of a turn is the first of the next.
    """
    value = tokens.need("mean_logprob") - tokens.need("old_mean_logprob")
    target = tokens.advantages + discount * _of_next(tokens, value.detach())
    return unclipped((tokens.log_ratio - target).square())


def _of_next(tokens: Tokens, values: Tensor) -> Tensor:
    """Return the value of the token that follows in the same sequence, float [M]; 0 where none does."""
    order = torch.argsort(tokens.turn, stable=True)
    order = order[torch.argsort(tokens.sequence[order], stable=True)]
    first, second = order[:-1], order[1:]
    same = tokens.sequence[first] == tokens.sequence[second]
    return torch.zeros_like(values).index_copy(0, first[same], values[second[same]])

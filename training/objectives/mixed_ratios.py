"""Ratios between token level and sequence level: SSPO's sentences, DHPO's mixture.

Both follow our reading of the abstracts. A sentence is given by `spans`; in a run, it is a turn.
"""

import torch
from torch import Tensor

from turnwise.training.errors import ConfigError
from turnwise.training.objectives.clipping import Losses, clipped
from turnwise.training.objectives.function import objective
from turnwise.training.objectives.tokens import Tokens, straight_through


def _sequence_ratio(tokens: Tokens) -> Tensor:
    """float [M], the geometric mean ratio of a token's sequence, with each token's own gradient."""
    return straight_through(torch.exp(tokens.sequence_mean(tokens.log_ratio.detach()))[tokens.sequence], tokens.new)


@objective(scope="sequence")
def sspo(tokens: Tokens, *, clip_low: float = 0.2, clip_high: float = 0.2, by_entropy: bool = False) -> Losses:
    """Return the clipped policy gradient with one ratio per sentence (in a run: per turn).

    s = exp(mean over the sentence of (n - o)) with each token's own gradient, l = max(-A s, -A clip(s, 1 - clip_low,
    1 + clip_high)). by_entropy: both bounds times clip(H / mean H, 1/2, 3/2), H the sentence's mean entropy and the
    mean over the sentences of its sequence.

    Args:
        tokens: the tokens; `spans` say which sentence each is in.
        clip_low: the ratio's lower bound is 1 - clip_low.
        clip_high: its upper bound is 1 + clip_high.
        by_entropy: let uncertain sentences move further.

    Source: Our reading of the abstract of arXiv 2511.04256.
    """
    spans = tokens.by_span()
    wide: Tensor | float = 1.0
    if by_entropy:
        wide = _relative_entropy(tokens, spans)
    return clipped(tokens.advantages, _sequence_ratio(spans), 1.0 - clip_low * wide, 1.0 + clip_high * wide)


def _relative_entropy(tokens: Tokens, spans: Tokens) -> Tensor:
    """float [M], the mean entropy of a token's sentence over the mean of those of its sequence, in [1/2, 3/2]."""
    mean = spans.sequence_mean(tokens.need("entropy").detach())
    home = torch.zeros(spans.sequences, dtype=torch.int64, device=mean.device)
    home[spans.sequence] = tokens.sequence
    total = mean.new_zeros(tokens.sequences).index_add(0, home, mean)
    count = mean.new_zeros(tokens.sequences).index_add(0, home, torch.ones_like(mean))
    middle = (total / count.clamp(min=1.0))[home]
    relative = torch.where(middle > 0, mean / middle.clamp(min=torch.finfo(mean.dtype).tiny), torch.ones_like(mean))
    return relative.clamp(0.5, 1.5)[spans.sequence]


@objective(scope="batch")
def dhpo(
    tokens: Tokens,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    sequence_low: float = 3e-4,
    sequence_high: float = 4e-4,
    mix: float = 0.5,
    by_entropy: bool = False,
) -> Losses:
    """Return the clipped policy gradient with a mixture of token and sequence ratio, each with its own bounds.

    R = w r + (1 - w) s, Rc = w clip(r, 1 - clip_low, 1 + clip_high) + (1 - w) clip(s, 1 - sequence_low,
    1 + sequence_high), l = max(-A R, -A Rc); r the token's ratio, s that of gspo_token, w = mix, or with by_entropy the
    token's entropy between the least (0) and the largest (1) of the batch, without gradient.

    Args:
        tokens: the tokens; the range of entropies is over the tokens of one optimizer step.
        clip_low: the token's ratio may fall to 1 - clip_low.
        clip_high: it may rise to 1 + clip_high.
        sequence_low: the sequence's ratio may fall to 1 - sequence_low.
        sequence_high: it may rise to 1 + sequence_high.
        mix: w, in [0, 1].
        by_entropy: take w from the entropies.

    Raises:
        ConfigError: mix is above 1.

    Source: Our reading of the abstract of arXiv 2601.05607.
    """
    if mix > 1:
        raise ConfigError(f"dhpo: option 'mix' must be in [0, 1], not {mix}")
    weight: Tensor | float = _range(tokens.need("entropy").detach()) if by_entropy else mix
    ratio, whole = torch.exp(tokens.log_ratio), _sequence_ratio(tokens)
    plain = -tokens.advantages * (weight * ratio + (1.0 - weight) * whole)
    clipped = weight * ratio.clamp(1.0 - clip_low, 1.0 + clip_high)
    clipped = clipped + (1.0 - weight) * whole.clamp(1.0 - sequence_low, 1.0 + sequence_high)
    bounded = -tokens.advantages * clipped
    return torch.maximum(plain, bounded), bounded > plain


def _range(values: Tensor) -> Tensor:
    """Return each value scaled to [0, 1] between the smallest and the largest; 1/2 if all are equal."""
    if not len(values):
        return values
    least, largest = values.min(), values.max()
    if largest <= least:
        return torch.full_like(values, 0.5)
    return (values - least) / (largest - least)

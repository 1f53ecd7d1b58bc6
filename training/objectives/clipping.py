"""Functions that the clipped objectives share: PPO's clip for any ratio and bounds, and the dual clip."""

import torch
from torch import Tensor

from turncredit.training.errors import ConfigError

Losses = tuple[Tensor, Tensor]
"""Token losses, float [M], and the tokens whose gradient was clipped, bool [M]."""

Bound = float | Tensor


def clipped(advantages: Tensor, ratio: Tensor, low: Bound, high: Bound, *, plain: Tensor | None = None) -> Losses:
    """Return max(-A r, -A clip(r, low, high)), and where the clipped term is larger.

    Args:
        advantages: float [M], A.
        ratio: float [M], r.
        low: lower bound of the ratio, a number or float [M].
        high: upper bound of the ratio, a number or float [M].
        plain: float [M], replaces -A r.
    """
    plain = -advantages * ratio if plain is None else plain
    bounded = -advantages * torch.clamp(ratio, low, high)  # type: ignore[arg-type]  # both numbers, or both tensors
    return torch.maximum(plain, bounded), bounded > plain


def dual_clipped(advantages: Tensor, losses: Losses, dual_clip: float | None) -> Losses:
    """Return min(l, -A c) where A < 0, which limits the ratio of bad actions to c.

    Args:
        advantages: float [M], A.
        losses: as of `clipped`.
        dual_clip: c, above 1; None or 0 for none.

    Raises:
        ConfigError: c is not above 1.

    Source: Ye et al. 2019, arXiv 1912.09729.
    """
    loss, cut = losses
    if not dual_clip:
        return losses
    if dual_clip <= 1:
        raise ConfigError(f"dual_clip caps the ratio and must be above 1 (0: none), not {dual_clip}")
    cap = -advantages * dual_clip
    over = (advantages < 0) & (loss > cap)
    return torch.where(over, cap, loss), cut | over


def unclipped(losses: Tensor) -> Losses:
    """Return the losses of an objective that clips no gradient."""
    return losses, torch.zeros_like(losses, dtype=torch.bool)

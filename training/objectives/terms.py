"""What any objective can be joined by: divergence from a reference, entropy, correction of the rollout's mismatch.

Left out on purpose: coefficients that change from step to step; `turnwise.training.coefficient_schedules` has them.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from turnwise.registry import suggest
from turnwise.training.errors import ConfigError
from turnwise.training.objectives.aggregate import AGGREGATIONS
from turnwise.training.objectives.correction import CORRECTIONS, bounds, corrections
from turnwise.training.objectives.kl import KL_ESTIMATORS, kl
from turnwise.training.objectives.likelihood import lowered
from turnwise.training.objectives.ratio import Losses
from turnwise.training.objectives.tokens import Tokens

Stats = dict[str, Tensor]
Scope = Literal["token", "turn", "sequence", "batch"]
SCOPES: tuple[Scope, ...] = ("token", "turn", "sequence", "batch")


@dataclass(frozen=True, kw_only=True)
class Terms:
    """How token losses are aggregated, and what is added to them or multiplied with them.

    Attributes:
        aggregation: a key of AGGREGATIONS; empty: the method's own.
        norm: tokens, the constant of aggregations with "norm".
        kl: coefficient of the divergence from the reference; 0 for none.
        kl_estimator: a key of KL_ESTIMATORS.
        kl_corrected: multiply the divergence by the ratio exp(n - o), gradient included, since the tokens are
            samples of the old policy.
        entropy: coefficient of the entropy bonus; 0 for none.
        entropy_target: nats; the bonus is given only while the mean entropy is at most this; 0: always.
        correction: a key of CORRECTIONS, what the loss is multiplied with because the sampling engine's
            probabilities are not the trainer's; empty for none.
        correction_low: lower bound of the correction's ratio; None: the correction's own.
        correction_high: its upper bound.
        llds: coefficient of the penalty on good actions that became less likely; 0 for none.
    """

    aggregation: str = ""
    norm: float = 1024.0
    kl: float = 0.0
    kl_estimator: str = "k3"
    kl_corrected: bool = False
    entropy: float = 0.0
    entropy_target: float = 0.0
    correction: str = ""
    correction_low: float | None = None
    correction_high: float | None = None
    llds: float = 0.0

    def __post_init__(self) -> None:
        """Refuse names that nobody knows, and numbers that cannot be."""
        known = {"aggregation": {*AGGREGATIONS, ""}, "kl_estimator": {*KL_ESTIMATORS}, "correction": {*CORRECTIONS, ""}}
        for name, choices in known.items():
            value = getattr(self, name)
            if not isinstance(value, str) or value not in choices:
                raise ConfigError(f"objective.{name} {value!r} is not known{suggest(str(value), choices - {''})}")
        self._check_numbers()
        if self.correction:
            bounds(self.correction, self.correction_low, self.correction_high)

    def _check_numbers(self) -> None:
        """Refuse numbers that are none, negative ones, and bounds of no correction."""
        wanted = {name: getattr(self, name) for name in ("norm", "kl", "entropy", "entropy_target", "llds")}
        ends = {name: getattr(self, name) for name in ("correction_low", "correction_high")}
        for name, value in (wanted | {name: end for name, end in ends.items() if end is not None}).items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise ConfigError(f"objective.{name} must be a finite number, not {value!r}")
            if value < 0 and name in {"kl", "entropy_target", "llds"}:
                raise ConfigError(f"objective.{name} must not be negative, and is {value}")
            if name in ends and not self.correction:
                raise ConfigError(f"objective.{name} bounds a correction, and none is chosen")
        if self.norm <= 0:
            raise ConfigError(f"objective.norm must be positive, not {self.norm}")
        if not isinstance(self.kl_corrected, bool):
            raise ConfigError(f"objective.kl_corrected must be true or false, not {self.kl_corrected!r}")

    @property
    def scope(self) -> Scope:
        """What the terms need to be computed together."""
        if self.entropy and self.entropy_target:
            return "batch"
        whole = self.llds or (self.correction and CORRECTIONS[self.correction].whole)
        return "sequence" if whole else "token"

    @property
    def everywhere(self) -> bool:
        """Whether the terms have a gradient even where every advantage is zero."""
        return bool(self.kl or self.entropy or self.llds)


SHARED = {name: name for name in Terms.__dataclass_fields__ if name != "entropy"} | {"entropy_bonus": "entropy"}
"""Names of the terms as options of an objective's function, where `entropy` is the tensor."""


def whole_loss(
    kernel: Callable[..., Losses], options: Mapping[str, Any], terms: Terms, tokens: Tokens, weights: Tensor
) -> tuple[Tensor, Stats]:
    """Return the whole loss: method * correction + kl * divergence + llds * penalty - entropy bonus, equally weighed.

    Args:
        kernel: gives the method's token losses.
        options: of the method.
        terms: what joins them.
        tokens: the tokens; sequences (or the batch) must be whole where the method's scope says so.
        weights: float [M], from token_weights.

    Returns:
        The loss (0-dimensional), and sums over tokens: tokens, clipped (tokens whose gradient the method cut off),
        ratio, old_kl (k3 of the old policy, nats), and where there are any mismatch (|o - b|, nats), kl, entropy
        (nats), llds (nats), correction (the factor).

    Raises:
        ValueError: a coefficient is set and what it weighs is missing.
    """
    losses, cut = kernel(tokens, **options)
    with torch.no_grad():
        difference = tokens.drift
        ratio = torch.exp(difference)
        stats = {
            "tokens": torch.tensor(len(tokens)),
            "clipped": cut.sum(),
            "ratio": ratio.sum(),
            "old_kl": (ratio - difference - 1.0).sum(),
        }
    if tokens.rollout is not None:
        stats["mismatch"] = (tokens.old - tokens.rollout).abs().sum()
    if terms.correction:
        factor = corrections(tokens, terms.correction, terms.correction_low, terms.correction_high)
        losses, stats["correction"] = losses * factor, factor.sum()
    loss = (weights * losses).sum()
    if tokens.ref is not None:
        divergence = kl(tokens.new, tokens.ref, terms.kl_estimator)
        stats["kl"] = divergence.detach().sum()
        if terms.kl:
            corrected = divergence * torch.exp(tokens.drift) if terms.kl_corrected else divergence
            loss = loss + terms.kl * (weights * corrected).sum()
    elif terms.kl:
        raise ValueError("a coefficient of the divergence is set, and no reference log-probabilities came")
    if terms.llds:
        penalty = lowered(tokens)
        loss, stats["llds"] = loss + terms.llds * (weights * penalty).sum(), penalty.detach().sum()
    return _less_entropy(loss, terms, tokens, weights, stats), stats


def _less_entropy(loss: Tensor, terms: Terms, tokens: Tokens, weights: Tensor, stats: Stats) -> Tensor:
    """Take the entropy bonus off, if there is one."""
    if tokens.entropy is None:
        if terms.entropy:
            raise ValueError("a coefficient of the entropy is set, and no entropies came")
        return loss
    stats["entropy"] = tokens.entropy.detach().sum()
    target = terms.entropy_target
    if not terms.entropy or (target and stats["entropy"] > target * len(tokens)):
        return loss
    return loss - terms.entropy * (weights * tokens.entropy).sum()

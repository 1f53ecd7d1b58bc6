"""Terms that can be added to any objective: KL divergence, entropy bonus, correction of the sampler mismatch.

Schedules of their coefficients are in `turncredit.training.config.coefficient_schedules`.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from turncredit.registry import suggest
from turncredit.training.errors import ConfigError
from turncredit.training.objectives.aggregate import AGGREGATIONS
from turncredit.training.objectives.clipping import Losses
from turncredit.training.objectives.correction import CORRECTIONS, bounds, corrections
from turncredit.training.objectives.kl import KL_ESTIMATORS, check_kl, corrected_kl, kl
from turncredit.training.objectives.likelihood import likelihood_drop
from turncredit.training.objectives.tokens import Tokens

Stats = dict[str, Tensor]
Scope = Literal["token", "turn", "sequence", "group", "batch"]
SCOPES: tuple[Scope, ...] = ("token", "turn", "sequence", "group", "batch")


@dataclass(frozen=True, kw_only=True)
class Terms:
    """How token losses are aggregated, and the terms that are added to them or multiplied with them.

    Attributes:
        aggregation: a key of AGGREGATIONS; empty for the objective's own.
        norm: divisor of aggregations with "norm", in tokens.
        kl: coefficient of the KL divergence from the reference; 0 for none.
        kl_estimator: a key of KL_ESTIMATORS.
        kl_corrected: correct the KL term for tokens that another policy sampled: the rollout's, where there are its
            log-probabilities, else the old one; see `corrected_kl`.
        entropy: coefficient of the entropy bonus; 0 for none.
        entropy_target: nats; there is a bonus only while the mean entropy is at most this; 0: always.
        correction: a key of CORRECTIONS, a factor of the loss for the mismatch between sampling engine and learner;
            empty for none.
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
        """Check names and numbers."""
        names = {"aggregation": {*AGGREGATIONS, ""}, "kl_estimator": {*KL_ESTIMATORS}, "correction": {*CORRECTIONS, ""}}
        for name, choices in names.items():
            value = getattr(self, name)
            if not isinstance(value, str) or value not in choices:
                raise ConfigError(f"unknown {_key(name)} {value!r}{suggest(str(value), choices - {''})}")
        self._check_numbers()
        if self.correction:
            bounds(self.correction, self.correction_low, self.correction_high)

    def _check_numbers(self) -> None:
        """Check that numbers are finite and in range, and that bounds belong to a correction."""
        numbers = {name: getattr(self, name) for name in ("norm", "kl", "entropy", "entropy_target", "llds")}
        ends = {name: getattr(self, name) for name in ("correction_low", "correction_high")}
        for name, value in (numbers | {name: end for name, end in ends.items() if end is not None}).items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise ConfigError(f"{_key(name)} must be a finite number, got {value!r}")
            if value < 0 and name in {"kl", "entropy_target", "llds"}:
                raise ConfigError(f"{_key(name)} must be >= 0, got {value}")
            if name in ends and not self.correction:
                raise ConfigError(f"{_key(name)} is the bound of a correction, but there is no correction")
        if self.norm <= 0:
            raise ConfigError(f"objective.aggregation.norm must be > 0, got {self.norm}")
        if not isinstance(self.kl_corrected, bool):
            raise ConfigError(f"objective.kl.corrected must be true or false, got {self.kl_corrected!r}")
        if self.kl:
            check_kl(self.kl_estimator, self.kl_corrected)

    @property
    def scope(self) -> Scope:
        """The unit that the terms need to be computed together."""
        if self.entropy and self.entropy_target:
            return "batch"
        whole = self.llds or (self.correction and CORRECTIONS[self.correction].whole)
        return "sequence" if whole else "token"

    @property
    def everywhere(self) -> bool:
        """Whether the terms have a gradient even if every advantage is zero."""
        return bool(self.kl or self.entropy or self.llds)


SHARED = {name: name for name in Terms.__dataclass_fields__ if name != "entropy"} | {"entropy_bonus": "entropy"}
"""Names of the terms as options of an objective's function, where `entropy` is the tensor."""


def whole_loss(
    kernel: Callable[..., Losses], options: Mapping[str, object], terms: Terms, tokens: Tokens, weights: Tensor
) -> tuple[Tensor, Stats]:
    """Return the total loss: objective * correction + kl * divergence + llds * penalty - entropy bonus.

    Args:
        kernel: returns the objective's token losses.
        options: options of the objective.
        terms: the additional terms.
        tokens: the tokens, complete in the unit that the objective's scope requires.
        weights: float [M], from token_weights.

    Returns:
        The loss (0-dimensional), and sums over tokens: tokens, clipped (tokens whose gradient the objective clipped),
        ratio, old_kl (k3 of the old policy, nats), and where there are any mismatch (|o - b|, nats), kl, entropy
        (nats), llds (nats), correction (the factor).

    Raises:
        ValueError: a term has a coefficient, but its tensor is missing.
    """
    losses, cut = kernel(tokens, **options)
    with torch.no_grad():
        difference = tokens.log_ratio
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
            if terms.kl_corrected:
                divergence = corrected_kl(tokens.new, tokens.ref, tokens.sampled_log_ratio, terms.kl_estimator)
            loss = loss + terms.kl * (weights * divergence).sum()
    elif terms.kl:
        raise ValueError("the KL term needs reference log-probabilities")
    if terms.llds:
        penalty = likelihood_drop(tokens)
        loss, stats["llds"] = loss + terms.llds * (weights * penalty).sum(), penalty.detach().sum()
    return _less_entropy(loss, terms, tokens, weights, stats), stats


def _less_entropy(loss: Tensor, terms: Terms, tokens: Tokens, weights: Tensor, stats: Stats) -> Tensor:
    """Subtract the entropy bonus, if there is one."""
    if tokens.entropy is None:
        if terms.entropy:
            raise ValueError("the entropy bonus needs entropies")
        return loss
    stats["entropy"] = tokens.entropy.detach().sum()
    target = terms.entropy_target
    if not terms.entropy or (target and stats["entropy"] > target * len(tokens)):
        return loss
    return loss - terms.entropy * (weights * tokens.entropy).sum()


def _key(term: str) -> str:
    """Return the key of a run that sets a term."""
    return "objective." + term.replace("norm", "aggregation.norm").replace("kl_", "kl.").replace("entropy_", "entropy.")

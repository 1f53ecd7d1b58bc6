"""The objective of a run: a loss by name with its options, and the additional terms of its loss."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

from torch import Tensor

from turncredit.registry import suggest
from turncredit.training.config.sections import ObjectiveSection, chosen
from turncredit.training.errors import ConfigError
from turncredit.training.objectives.catalogue import ObjectiveInfo, get
from turncredit.training.objectives.kl import check_kl
from turncredit.training.objectives.terms import SCOPES, Scope, Stats, Terms, whole_loss
from turncredit.training.objectives.tokens import Tokens

SequenceUnit = Literal["trajectory", "turn"]


@dataclass(frozen=True, kw_only=True)
class Objective(Terms):
    """What is minimised: the loss of an objective, and the terms of `Terms`.

    Attributes:
        name: a name of `objectives()`.
        options: options of the objective.
        sequence: what counts as a sequence for sequence-level ratios, masks and gates: "trajectory" or "turn".

    Raises:
        ConfigError: a name or option is unknown, or the value of an option is invalid.
    """

    name: str = "ppo_clip"
    options: Mapping[str, object] = field(default_factory=dict)
    sequence: SequenceUnit = "trajectory"

    def __post_init__(self) -> None:
        """Check names and options."""
        super().__post_init__()
        self.info.function.check(self.options)
        self.info.function.check_terms(self)
        if self.name == "kl_penalty":
            check_kl(str(self.options.get("estimator", "k3")), bool(self.options.get("corrected")))
        if self.whole_groups and self.sequence != "trajectory":
            raise ConfigError(
                f'{self.name} compares the episodes of a group: objective.sequence must be "trajectory", not '
                f"{self.sequence!r}"
            )

    @classmethod
    def from_section(cls, section: ObjectiveSection) -> Self:
        """Return the objective that a run's file describes.

        Raises:
            ConfigError: a name, option or value is invalid, or the objective needs recomputed log-probabilities.
        """
        terms: dict[str, Any] = {
            "aggregation": section.aggregation.name,
            "norm": section.aggregation.norm,
            "llds": section.llds,
        }
        terms["kl_estimator"] = section.kl.estimator
        if section.kl.coefficient and section.kl.where == "loss":
            terms |= {"kl": section.kl.coefficient, "kl_corrected": section.kl.corrected}
        if section.entropy.coefficient or section.entropy.target:
            terms |= {"entropy": section.entropy.coefficient, "entropy_target": section.entropy.target}
        name, bounds = chosen(section.correction, "objective.correction")
        for bound, value in bounds.items():
            if bound not in ("low", "high"):
                raise ConfigError(f"objective.correction has no option {bound!r}{suggest(bound, ('low', 'high'))}")
            terms[f"correction_{bound}"] = value
        objective = cls(name=section.name, options=section.options, correction=name, **terms)
        if section.kl.coefficient and section.kl.where == "reward" and section.kl.estimator != "k1":
            raise ConfigError(
                f"objective.kl.estimator = {section.kl.estimator!r} does not lead to the reference as a reward, since "
                'its policy gradient is not that of the divergence: set it to "k1"'
            )
        if objective.needs_rollout and section.old_logprobs != "recomputed":
            source = f"objective.correction {name!r}" if name else f"objective {section.name!r}"
            raise ConfigError(
                f"{source} compares the sampler's log-probabilities with the learner's: set objective.old_logprobs to "
                '"recomputed"'
            )
        if objective.needs_mean and section.old_logprobs != "recomputed":
            raise ConfigError(
                f"objective {section.name!r} compares whole distributions, which a sampler does not give: set "
                'objective.old_logprobs to "recomputed"'
            )
        return replace(objective, sequence=section.sequence)

    @property
    def info(self) -> ObjectiveInfo:
        """What is known about the objective."""
        return get(self.name)

    @property
    def mode(self) -> str:
        """The aggregation: the requested one, or else the objective's own."""
        return self.aggregation or self.info.function.aggregation

    @property
    def together(self) -> Scope:
        """The unit whose tokens must be computed together."""
        own = self.info.function.scope
        scope = max(own, self.scope, key=SCOPES.index)
        return "turn" if scope == "sequence" and self.sequence == "turn" else scope

    @property
    def whole_groups(self) -> bool:
        """Whether an optimizer step needs all episodes of each of its groups."""
        return self.info.function.scope == "group"

    @property
    def needs_spread(self) -> bool:
        """Whether the gradient goes through the entropies."""
        return self.entropy != 0 or self.info.function.spreads

    @property
    def needs_mean(self) -> bool:
        """Whether the objective reads the mean log-probability over the vocabulary, before and during the update."""
        return "mean_logprob" in self.info.needs

    @property
    def needs_all(self) -> bool:
        """Whether a batch has a gradient even where every advantage is zero."""
        return self.everywhere or self.info.function.everywhere

    @property
    def needs_reference(self) -> bool:
        """Whether log-probabilities under a reference policy are needed."""
        return bool(self.kl) or "ref" in self.info.needs

    @property
    def needs_rollout(self) -> bool:
        """Whether the sampling engine's log-probabilities are needed beside the trainer's own."""
        return bool(self.correction) or "rollout" in self.info.needs

    def corrects_stale(self, recomputed: bool) -> bool:
        """Return whether samples of an older policy are trained on with their importance ratio, or need none.

        Args:
            recomputed: whether `old` is recomputed before the update, so that the ratio to it does not know the
                sampling policy.
        """
        older = self.info.older
        return older == "as fresh" or (self.needs_rollout if recomputed else older == "ratio")

    def loss(self, tokens: Tokens, weights: Tensor) -> tuple[Tensor, Stats]:
        """Return the loss of some tokens, and sums over them; see `whole_loss`.

        Args:
            tokens: whole units of what must be computed together.
            weights: float [M], of the whole mini-batch, from `token_weights`.
        """
        return whole_loss(self.info.function.losses, self.options, self, tokens, weights)

"""The objective of a run: a method by name, its options, and the terms that join it.

Left out on purpose: reading a run's file (`turnwise.training.setup`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import Tensor

from turnwise.training.objectives.catalogue import Entry, get
from turnwise.training.objectives.terms import SCOPES, Scope, Stats, Terms, whole_loss
from turnwise.training.objectives.tokens import Tokens

Sequence = Literal["trajectory", "turn"]


@dataclass(frozen=True, kw_only=True)
class Objective(Terms):
    """What is minimised: the loss of a method, and the terms of `Terms`.

    Attributes:
        name: a name of `objectives()`.
        options: of the method.
        sequence: what counts as a sequence for ratios, masks and gates of sequences: "trajectory" or "turn".

    Raises:
        ConfigError: a name or option is unknown, or an option cannot have its value.
    """

    name: str = "ppo_clip"
    options: Mapping[str, Any] = field(default_factory=dict)
    sequence: Sequence = "trajectory"

    def __post_init__(self) -> None:
        """Refuse names and options that nobody knows."""
        super().__post_init__()
        get(self.name).function.check(self.options)
        get(self.name).function.check_terms(self)

    @property
    def entry(self) -> Entry:
        """The method."""
        return get(self.name)

    @property
    def mode(self) -> str:
        """The aggregation: what was asked for, else the method's own."""
        return self.aggregation or self.entry.function.aggregation

    @property
    def together(self) -> Scope:
        """What must be computed together."""
        own = self.entry.function.scope
        scope = max(own, self.scope, key=SCOPES.index)
        return "turn" if scope == "sequence" and self.sequence == "turn" else scope

    @property
    def needs_all(self) -> bool:
        """Whether a batch has a gradient even where every advantage is zero."""
        return self.everywhere or self.entry.function.everywhere

    @property
    def needs_reference(self) -> bool:
        """Whether log-probabilities under a reference policy are needed."""
        return bool(self.kl) or "ref" in self.entry.needs

    @property
    def needs_rollout(self) -> bool:
        """Whether the sampling engine's log-probabilities are needed beside the trainer's own."""
        return bool(self.correction) or "rollout" in self.entry.needs

    def loss(self, tokens: Tokens, weights: Tensor) -> tuple[Tensor, Stats]:
        """Give the loss of some tokens, and sums over them; see `whole_loss`.

        Args:
            tokens: the tokens, whole in what must be computed together.
            weights: float [M], of the whole optimiser step, from token_weights.
        """
        return whole_loss(self.entry.function.kernel, self.options, self, tokens, weights)

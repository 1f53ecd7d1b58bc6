"""Credit assignment in a run: the reward rules, the KL term where it belongs to the rewards, and the credit rule."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from turnwise.agents.trajectory import Group
from turnwise.credit.advantages import Advantages
from turnwise.credit.registry import CreditRule
from turnwise.credit.steps import Steps
from turnwise.training.batch.batch import pack, turn_divergence
from turnwise.training.config.seeds import Seeds
from turnwise.training.sampling.applied_rewards import AppliedRewards
from turnwise.training.state_json import from_json, to_json
from turnwise.training.token_scores import TokenScores


@dataclass(slots=True, kw_only=True)
class CreditAssignment:
    """Gives every turn its advantage.

    Attributes:
        rule: the credit rule with its options.
        seeds: seeds of rules that draw.
        scores: computes the divergence from the reference policy.
        kl_estimator: estimator of the divergence that is subtracted from the rewards; None: none is.
        rewards: applies the reward rules.
        memory: what a rule that remembers returned last.
    """

    rule: CreditRule
    seeds: Seeds
    scores: TokenScores
    kl_estimator: str | None
    rewards: AppliedRewards
    memory: object = None

    def advantages(self, steps: Steps, groups: Sequence[Group], iteration: int, kl: float) -> Advantages:
        """Return the advantages of all turns.

        Args:
            steps: table of the turns.
            groups: the trajectories that they belong to.
            iteration: number of finished iterations, for rules that draw.
            kl: coefficient of the divergence, where it is subtracted from the rewards.
        """
        steps = self.rewards(steps, iteration)
        options: dict[str, object] = {}
        if self.rule.remembers:
            options["state"] = self.memory
        if self.rule.draws:
            options["rng"] = np.random.default_rng(self.seeds.of("credit", iteration))
        if self.kl_estimator is not None:
            batch = pack(groups)
            reference = self.scores.reference(batch).logprobs
            divergence = turn_divergence(batch, reference, self.kl_estimator, steps)
            steps = replace(steps, reward=steps.reward - kl * divergence)
        return self.rule(steps, **options)

    def remember(self, advantages: Advantages) -> None:
        """Keep what the rules returned with the advantages of an iteration, once it is trained on."""
        self.memory = advantages.state
        self.rewards.remember()

    def state(self) -> object:
        """Return the memory of the rule as JSON can hold it."""
        return to_json(self.memory)

    def load_state(self, state: object) -> None:
        """Continue with the memory that `state` returned."""
        self.memory = from_json(state)

"""Credit assignment in a run: the rule with its memory, hindsight, and the KL term where it belongs to the rewards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from turncredit.agents.agent import Agent
from turncredit.agents.trajectory import Group
from turncredit.credit.advantages import Advantages
from turncredit.credit.registry import CreditRule
from turncredit.credit.steps import Steps
from turncredit.training.assign.credit_by_part import credit_by_part
from turncredit.training.assign.hindsight import COLUMN, Hindsight
from turncredit.training.assign.token_scores import TokenScores
from turncredit.training.batch.batch import pack, turn_divergence
from turncredit.training.config.seeds import Seeds
from turncredit.training.run_folder.state_json import from_json, to_json
from turncredit.training.sampling.applied_rewards import AppliedRewards


@dataclass(slots=True, kw_only=True)
class CreditAssignment:
    """Gives every turn its advantage.

    Attributes:
        rule: the credit rule with its options.
        seeds: seeds of rules that draw.
        scores: computes the divergence from the reference policy.
        kl_estimator: estimator of the divergence that is subtracted from the rewards; None: none is.
        rewards: applies the reward rules.
        hindsight: computes the column of this name for a rule that needs it, unless the environment reports one.
        parts: names of the parts of a mixture, whose statistics are kept apart; empty for one environment.
        memory: what a rule that remembers returned last.
    """

    rule: CreditRule
    seeds: Seeds
    scores: TokenScores
    kl_estimator: str | None
    rewards: AppliedRewards
    hindsight: Hindsight
    parts: tuple[str, ...] = ()
    memory: object = None

    @classmethod
    def of(
        cls,
        rule: CreditRule,
        seeds: Seeds,
        scores: TokenScores,
        kl_estimator: str | None,
        *,
        rewards: AppliedRewards,
        agent: Agent,
        context: int,
        parts: tuple[str, ...] = (),
    ) -> CreditAssignment:
        """Return the credit assignment of a run.

        Args:
            rule, seeds, scores, kl_estimator, rewards: see the attributes.
            agent: that plays.
            context: tokens that the policy can use.
            parts: see the attributes.
        """
        hindsight = Hindsight(agent=agent, scores=scores, context=context)
        return cls(
            rule=rule,
            seeds=seeds,
            scores=scores,
            kl_estimator=kl_estimator,
            rewards=rewards,
            hindsight=hindsight,
            parts=parts,
        )

    def rewarded(self, steps: Steps, iteration: int) -> Steps:
        """Return the table with the rewards that credit is to see."""
        return self.rewards(steps, iteration)

    def remember(self, advantages: Advantages) -> None:
        """Keep what the rules returned with the advantages of an iteration, once it is trained on."""
        self.memory = advantages.state
        self.rewards.remember()

    def advantages(self, steps: Steps, groups: Sequence[Group], iteration: int, kl: float) -> Advantages:
        """Return the advantages of all turns.

        Args:
            steps: table of the turns.
            groups: the trajectories that they belong to.
            iteration: number of finished iterations, for rules that draw.
            kl: coefficient of the divergence, where it is subtracted from the rewards.
        """
        options: dict[str, object] = {}
        if COLUMN in self.rule.missing(steps.columns):
            steps = replace(steps, extra={**steps.extra, COLUMN: self.hindsight.column(groups)})
        if self.rule.remembers:
            options["state"] = self.memory
        if self.rule.draws:
            options["rng"] = np.random.default_rng(self.seeds.of("credit", iteration))
        if self.kl_estimator is not None:
            batch = pack(groups, temperature=self.scores.temperature)
            reference = self.scores.reference(batch).logprobs
            divergence = turn_divergence(batch, reference, self.kl_estimator, steps)
            steps = replace(steps, reward=steps.reward - kl * divergence)
        return credit_by_part(self.rule, steps, self.parts, **options)

    def state(self) -> object:
        """Return the memory of the rule as JSON can hold it."""
        return to_json(self.memory)

    def load_state(self, state: object) -> None:
        """Continue with the memory that `state` returned."""
        self.memory = from_json(state)

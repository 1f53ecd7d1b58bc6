"""Log-probabilities that an iteration computes beside those of the sampler, and the transform of token advantages."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from turncredit.agents.agent import Agent
from turncredit.agents.models.tokenization import codec_of
from turncredit.agents.trajectory import Group
from turncredit.credit.columns import Floats
from turncredit.training.assign.teacher_ranks import with_best_teachers
from turncredit.training.batch.batch import Batch
from turncredit.training.batch.sampling_temperature import SamplingTemperature
from turncredit.training.batch.scores import Scores
from turncredit.training.batch.token_advantages import AppliedTransform
from turncredit.training.learner.group_arrays import group_arrays
from turncredit.training.learner.learner import Learner
from turncredit.training.objectives.sources import TEACHER
from turncredit.training.play.played import Played


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenScores:
    """Scores batches as a run asks for it.

    Attributes:
        learner: computes the log-probabilities.
        agent: samples the run, at the temperature of whose distribution they are.
        micro_tokens: tokens per micro-batch.
        recompute: whether `old` becomes what the learner computes.
        mean: whether the objective reads means over the vocabulary, which come with recomputed log-probabilities.
        transform: transform of the token advantages; None for none.
    """

    learner: Learner
    agent: Agent
    micro_tokens: int
    recompute: bool
    mean: bool = False
    transform: AppliedTransform | None

    @property
    def temperature(self) -> SamplingTemperature:
        """At which the run samples."""
        return SamplingTemperature.of(self.agent)

    def policy(self, batch: Batch, factor: float = 1.0, *, mean: bool = False) -> Scores:
        """Return the scores of a batch under the policy, at the sampling temperature times a factor."""
        return self.learner.score(
            batch, temperature=self.agent.temperature * factor, micro_tokens=self.micro_tokens, mean=mean
        )

    def best_teachers(self, played: Played) -> Played:
        """Return the groups of an iteration without surplus episodes of teachers; see `with_best_teachers`."""

        def score(batch: Batch) -> Floats:
            return self.learner.score(batch, micro_tokens=self.micro_tokens).logprobs

        return with_best_teachers(played, score, lambda ids: codec_of(self.learner.tokenizer).decode(ids))

    def reference(self, batch: Batch) -> Scores:
        """Return the scores of a batch under the reference policy."""
        return self.learner.score_reference(batch, temperature=self.agent.temperature, micro_tokens=self.micro_tokens)

    def complete(self, batch: Batch, groups: Sequence[Group]) -> tuple[Batch, dict[str, float]]:
        """Add recomputed and reference log-probabilities to a batch, and transform its token advantages.

        Args:
            batch: from `pack`.
            groups: what was packed.

        Returns:
            The batch, and the shares of its tokens that the transform has changed.
        """
        transform, scores = self.transform, None
        if self.recompute or (transform is not None and transform.needs_scores):
            scores = self.policy(batch, mean=self.mean)
            if self.recompute:
                taught = batch.episodes.source[batch.trajectory] == TEACHER  # nobody knows how likely these were
                sampled = np.where(taught[:, None], scores.logprobs, batch.old)
                batch = replace(batch, old=scores.logprobs, rollout=sampled, mean_logprob=scores.mean_logprob)
        if self.learner.has_reference:
            batch = replace(batch, reference=self.reference(batch).logprobs)
        if transform is None:
            return batch, {}
        tempered = {name: self.policy(batch, factor) for name, factor in transform.tempered.items()}
        compared = self._compared(batch, transform.compared)
        decode = codec_of(self.learner.tokenizer).decode
        return transform(batch, groups, decode=decode, scores=scores, tempered=tempered, compared=compared)

    def _compared(self, batch: Batch, names: Sequence[str]) -> dict[str, Floats]:
        if not names:
            return {}
        return self.learner.on_all_ranks(
            group_arrays, batch, names, temperature=self.agent.temperature, micro_tokens=self.micro_tokens
        )

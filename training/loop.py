"""The training loop: sample tasks, roll out, assign credit, pack, update, and hand the new weights to the sampler.

Everything after a finished iteration is a pure function of what a checkpoint holds
(`turnwise.training.run_folder.recovery`), so a run that was interrupted and resumed ends with the same weights as one
that never stopped, bit for bit on a CPU. With asynchronous rollouts (`turnwise.training.asynchronous`), which groups an
iteration trains on depends on time as well.
"""

from dataclasses import dataclass
from pathlib import Path

from turnwise.agents.steps import Anchor
from turnwise.training.batch.batch import pack
from turnwise.training.credit_assignment import CreditAssignment
from turnwise.training.engine.engine import RunEngine
from turnwise.training.errors import TrainingError
from turnwise.training.evaluation import Evaluations
from turnwise.training.iteration_reports import IterationReports
from turnwise.training.learner.learner import Learner
from turnwise.training.learner.update_plans import UpdatePlans
from turnwise.training.rollouts import Played, Rollouts
from turnwise.training.run_folder.checkpoint import write_merged
from turnwise.training.run_folder.recovery import Recovery
from turnwise.training.scheduled_objective import ScheduledObjective
from turnwise.training.states import State
from turnwise.training.token_scores import TokenScores


@dataclass(slots=True, kw_only=True, eq=False)
class TrainingLoop:
    """Trains one run in this process, iteration by iteration; on exit it closes the sampler and the environments.

    Attributes:
        steps: number of iterations of the whole run.
        anchor: what makes two turns comparable, for `steps_of`.
        final: folder of the merged model, for a run that trains an adapter.
        learner: the policy to train.
        engine: samples from it.
        rollouts: plays the groups of an iteration.
        credit: gives every turn its advantage.
        scores: adds log-probabilities to a batch.
        objective: what is minimised.
        plans: how a batch becomes optimizer steps.
        evaluations: measures the policy on the panel.
        reports: reports finished iterations.
        recovery: saves finished iterations.
        step: number of finished iterations.
    """

    steps: int
    anchor: Anchor
    final: Path
    learner: Learner
    engine: RunEngine
    rollouts: Rollouts
    credit: CreditAssignment
    scores: TokenScores
    objective: ScheduledObjective
    plans: UpdatePlans
    evaluations: Evaluations
    reports: IterationReports
    recovery: Recovery
    step: int = 0

    def __enter__(self) -> "TrainingLoop":
        return self

    def __exit__(self, *_: object) -> None:
        self.rollouts.close()
        self.engine.close()

    def run(self) -> None:
        """Load the weights and iterate until the run or its stage is over, evaluating and saving when it is due."""
        self.reports.begin(self.step)
        while True:
            self.rollouts.load(self.step)
            finished = self.step >= self.steps
            if finished and self.learner.has_adapter:  # before the evaluation, which is the last file of a run
                write_merged(self.learner.weights(), self.learner.tokenizer, self.final)
            with self.reports.not_timed():
                self.evaluations.if_due(self.step, self.engine.sampler)
            if finished:
                break
            self.iteration()
            self.recovery.settle(self)
            with self.reports.not_timed():
                if self.recovery.save_if_due(self, now=self.reports.stages.over):
                    self.rollouts.saved()
            if self.reports.stages.over:
                break

    def iteration(self) -> None:
        """Sample tasks, roll out, assign credit, pack, and update; `run` has loaded the weights."""
        played = self._roll_out()
        steps = played.steps(self.anchor)
        advantages = self.credit.advantages(steps, played.groups, self.step, self.objective.kl)
        groups = played.trained
        batch = pack(groups, played.fresh(advantages))
        with self.recovery.update(self):
            batch, shares = self.scores.complete(batch, groups)
            stats = self.learner.update(batch, self.objective.current, self.plans.after(self.step))
            self.credit.remember(advantages)
            self.objective.adapt(stats, episodes=sum(len(group.finished) for group in groups))
            self.step += 1
            self.reports.finished(self.step, played, steps, advantages, {**stats, **shares}, batch)

    def _roll_out(self) -> Played:
        """Return the groups of this iteration; if all of them failed, the iterations before it are saved."""
        try:
            played = self.rollouts.next(self.step)
        except TrainingError:
            self.recovery.save(self)
            raise
        if played.report.errors or played.report.skipped:
            self.reports.note(played.report.sentence())
        return played

    def state(self) -> State:
        """Return what a checkpoint keeps beside the weights and the learner's state, as JSON can hold it."""
        return {
            **self.rollouts.state(),
            "credit": self.credit.state(),
            "rewards": self.credit.rewards.state(),
            "coefficients": dict(self.objective.coefficients),
            "watch": self.reports.watch.state(),
            "stages": self.reports.stages.state(),
        }

    def load_state(self, step: int, state: State) -> None:
        """Continue after `step` iterations with what `state` returned then."""
        self.step = step
        self.rollouts.load_state(state)
        self.credit.load_state(state.get("credit"))
        self.credit.rewards.load_state(state.get("rewards"))
        self.objective.coefficients = dict(state.get("coefficients", self.objective.coefficients))
        self.reports.watch.load_state(state.get("watch", {}))

    def settle(self) -> None:
        """Wait for all groups in play that have to be complete before a checkpoint."""
        self.rollouts.settle()

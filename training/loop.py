"""The training loop: sample tasks, roll out, assign credit, pack, update, and hand the new weights to the sampler.

Everything after a finished iteration is a pure function of what a checkpoint holds
(`turncredit.training.run_folder.recovery`), so a run that was interrupted and resumed ends with the same weights as one
that never stopped, bit for bit on the same CPU. With asynchronous rollouts (`turncredit.training.play.asynchronous`),
which groups an iteration trains on depends on time as well.
"""

from dataclasses import dataclass

from turncredit.agents.steps import Anchor
from turncredit.training.assign.credit_assignment import CreditAssignment
from turncredit.training.assign.token_scores import TokenScores
from turncredit.training.engine.engine import RunEngine
from turncredit.training.learner.learner import Learner
from turncredit.training.learner.update_plans import UpdatePlans
from turncredit.training.monitor.evaluation import Evaluations
from turncredit.training.monitor.iteration_reports import IterationReports
from turncredit.training.objectives.scheduled_objective import ScheduledObjective
from turncredit.training.play.rollouts import Played, Rollouts
from turncredit.training.run_folder.recovery import Recovery
from turncredit.training.sampling.run_memory import RunMemory
from turncredit.training.sampling.run_sampling import RUN_ERRORS, RunSampling
from turncredit.training.types import State

UPDATE = ("loss", "grad_norm", "entropy", "tokens", "updates")
"""Statistics of an update that its span has."""


@dataclass(slots=True, kw_only=True, eq=False)
class TrainingLoop:
    """Trains one run in this process, iteration by iteration; on exit it closes the sampler and the environments.

    Attributes:
        steps: number of iterations of the whole run.
        anchor: what makes two turns comparable, for `steps_of`.
        learner: the policy to train.
        engine: samples from it.
        rollouts: plays the groups of an iteration.
        sampling: what is known of the tasks, and is remembered beyond that.
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
    learner: Learner
    engine: RunEngine
    rollouts: Rollouts
    sampling: RunSampling
    credit: CreditAssignment
    scores: TokenScores
    objective: ScheduledObjective
    plans: UpdatePlans
    evaluations: Evaluations
    reports: IterationReports
    recovery: Recovery
    step: int = 0

    @property
    def memory(self) -> RunMemory:
        """What is remembered beyond the tasks' records, and what models say of the turns."""
        return self.sampling.memory

    def __enter__(self) -> "TrainingLoop":
        return self

    def __exit__(self, *_: object) -> None:
        self.rollouts.close()
        self.engine.close()
        self.memory.close()

    def run(self) -> None:
        """Load the weights and iterate until the run or its stage is over, evaluating and saving when it is due."""
        self.reports.begin(self.step)
        while True:
            self.rollouts.load(self.step)
            finished = self.step >= self.steps
            if finished and self.learner.has_adapter:  # before the evaluation, which is the last file of a run
                self.recovery.write_merged(self.learner)
            with self.reports.not_timed():
                summary = self.evaluations.if_due(self.step, self.engine.sampler)
            if summary is not None and not self.step:
                self.reports.watch.before(summary)
            if finished:
                self.engine.finish_probe()
                break
            with self.reports.span("iteration", self.step):
                self.iteration()
            self.recovery.settle(self)
            with self.reports.not_timed():
                saved = self.recovery.save_if_due(self, now=self.reports.stages.over)
                if saved is not None:
                    self.rollouts.saved(saved)
                    self.memory.saved(saved)
            if self.reports.stages.over:
                break

    def iteration(self) -> None:
        """Sample tasks, roll out, assign credit, pack, and update; `run` has loaded the weights."""
        played = self._roll_out()
        steps, notes = self.memory.annotate(played.steps(self.anchor), played.groups)
        steps = self.credit.rewarded(steps, self.step)
        advantages = self.credit.advantages(steps, played.groups, self.step, self.objective.kl)
        groups = played.trained
        batch = played.batch(steps, advantages, self.scores.temperature)
        with self.recovery.update(self):
            batch, shares = self.scores.complete(batch, groups)
            with self.reports.span("update", self.step) as span:
                stats = self.learner.update(batch, self.objective.current, self.plans.after(self.step))
                span.set({f"turncredit.{name}": stats[name] for name in UPDATE if name in stats})
            self.credit.remember(advantages)
            self.memory.learn(played.groups, advantages, notes, self.step)
            self.sampling.learn(played.sampled, steps, batch)
            shares |= self._replay(played)
            self.objective.adapt(stats, episodes=sum(len(group.finished) for group in groups))
            self.step += 1
            self.reports.finished(self.step, played, steps, advantages, {**stats, **shares}, batch)

    def _replay(self, played: Played) -> dict[str, float]:
        """Train on stored episodes as well, if a rule chooses some; return what is remembered."""
        stored = self.memory.replayed(played.groups, self.step + 1)
        if stored is not None:
            batch, _ = self.scores.complete(stored.batch(self.scores.temperature), stored.groups)
            self.learner.update(batch, self.objective.current, self.plans.again(self.step))
        return {**self.memory.metrics(), **({} if stored is None else stored.metrics)}

    def _roll_out(self) -> Played:
        """Return the groups of this iteration; if all of them failed, the iterations before it are saved."""
        try:
            played = self.rollouts.next(self.step)
        except RUN_ERRORS:
            self.recovery.save(self)
            raise
        ranked = self.scores.best_teachers(played)
        if ranked is not played:
            self.sampling.files.write(self.step + 1, ranked.sampled)
            played = ranked
        if played.report.errors or played.report.skipped:
            self.reports.note(played.report.sentence())
        return played

    def state(self) -> State:
        """Return what a checkpoint keeps beside the weights and the learner's state, as JSON can hold it."""
        return {
            **self.rollouts.state(),
            "credit": self.credit.state(),
            "rewards": self.credit.rewards.state(),
            "memory": self.memory.state(),
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
        self.memory.load_state(state.get("memory"))
        self.objective.coefficients = dict(state.get("coefficients", self.objective.coefficients))
        self.reports.watch.load_state(state.get("watch", {}))

    def settle(self) -> None:
        """Wait for all groups in play that have to be complete before a checkpoint."""
        self.rollouts.settle()

"""The training loop: sample tasks, roll out, assign credit, pack, update, and hand the new weights to the sampler.

Everything after a finished iteration is a pure function of what a checkpoint holds
(`turnwise.training.run_folder.recovery`), so a run that was interrupted and resumed ends with the same weights as one
that never stopped, bit for bit on a CPU. With asynchronous rollouts (`turnwise.training.asynchronous`), which groups an
iteration trains on depends on time as well.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from turnwise.agents.errors import AgentError
from turnwise.agents.files.folder_lock import locked
from turnwise.agents.models.model_folder import ModelFolder
from turnwise.agents.models.tokenization import codec_of
from turnwise.agents.rollouts.rollout import RolloutReport
from turnwise.agents.samplers.base import Sampler
from turnwise.agents.steps import steps_of
from turnwise.agents.trajectory import Group
from turnwise.credit.advantages import Advantages
from turnwise.credit.steps import Steps
from turnwise.processes.memory_use import memory_use
from turnwise.training.asynchronous import AsynchronousRollouts
from turnwise.training.batch.batch import Batch, pack, turn_divergence
from turnwise.training.config.run import Run
from turnwise.training.engine import RunEngine
from turnwise.training.errors import ConfigError, EngineMismatch, TrainingError, VocabularyMismatch
from turnwise.training.evaluation import evaluate_if_due
from turnwise.training.events import OnEvent, Reporter
from turnwise.training.imitation.warmstart import warm_start
from turnwise.training.learner.gradient import UpdatePlan
from turnwise.training.learner.learner import Learner
from turnwise.training.learner.logprobs import Scores
from turnwise.training.learner.optimizers import learning_rate
from turnwise.training.learning_watch import LearningWatch
from turnwise.training.objectives import Objective
from turnwise.training.rollouts import Played, Rollouts, SynchronousRollouts
from turnwise.training.run_folder.checkpoint import write_merged
from turnwise.training.run_folder.folder import begin, check_resumable
from turnwise.training.run_folder.metrics import credit_metrics, group_metrics, play_metrics, sampled_entropy
from turnwise.training.run_folder.recovery import Recovery, find_restart, open_metrics, restore_learner
from turnwise.training.run_folder.state_json import from_json, to_json
from turnwise.training.setup import PreparedRun, find_policy, prepare, remarks
from turnwise.training.staleness import age_metrics, ratio_metrics, turn_ages, without_stale
from turnwise.training.template_date import with_date

if TYPE_CHECKING:
    from turnwise.training.learner.rank_commands import Leader


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """How a call of `train` ended.

    Attributes:
        folder: of the run.
        step: number of finished iterations.
        finished: False after Ctrl-C.
        checkpoint: the newest one; None if the warm start was not finished.
    """

    folder: Path
    step: int
    finished: bool
    checkpoint: Path | None


def train(
    run: Run, *, resume: bool = False, on_event: OnEvent | None = None, leader: "Leader | None" = None
) -> TrainingResult:
    """Train as the run describes: warm start, iterations, evaluations. Everything is written to run.folder.

    Events are dicts with a "phase": "setup", "imitation" (one with "step" about every 2 % of the warm start), "train",
    "evaluation", "note" and "warning" (with "text"), "done". They are written to metrics.jsonl. A "tick" (what, done,
    total) is for progress bars and is not written: "demonstrations", "imitation", "rollout", "evaluation", and
    "checkpoint" and "resumed", whose done is the iteration.

    Args:
        run: the configuration.
        resume: continue from the last checkpoint in run.folder, or from the beginning if there is none.
        on_event: called with every event, on this thread.
        leader: commands the other ranks if several train the policy (`turnwise.training.learner.rank_commands`).

    Returns:
        How it ended. Ctrl-C ends a run at the last finished iteration, with a checkpoint.

    Raises:
        TrainingError: the configuration, the folder, a checkpoint or the demonstrations cannot be used.
        EnvError, AgentError, CreditError: from the parts.
    """
    if leader is None and run.cluster.address and run.cluster.learners > 1:
        from turnwise.training.learner.cluster_ranks import cluster_ranks  # it imports FSDP, which takes a while

        with cluster_ranks(run) as leader:
            return train(run, resume=resume, on_event=on_event, leader=leader)
    policy = None if resume else find_policy(run)
    run = with_date(run, None if policy is None else policy.path)
    prepared = prepare(run)
    if leader is not None:
        prepared = replace(prepared, leader=leader, device=leader.ranks.device)
    started = time.perf_counter()
    with locked(run.folder, "training in"), ExitStack() as stack:
        if resume:
            check_resumable(run.folder, run)
        else:
            begin(run.folder, run, policy)
        restored = find_restart(run) if resume else None
        report = Reporter(stack.enter_context(open_metrics(run, restored)), on_event)
        recovery = Recovery(run, report)
        try:
            if restored is None:
                _announce(prepared, report, policy)
                learner = warm_start(prepared, report)
                report.event("model", 0, **_sizes(learner))
            else:
                learner = restore_learner(prepared, restored, report)
            loop = stack.enter_context(TrainingLoop(prepared, learner, report, recovery))
            if restored is None:
                recovery.begin(loop)
            else:
                recovery.resume(loop, restored)
            with recovery.saved_after(AgentError, EngineMismatch, ConfigError, VocabularyMismatch):
                loop.run()
        except KeyboardInterrupt:
            checkpoint = recovery.stopped("interrupted")
            return TrainingResult(run.folder, recovery.newest or 0, False, checkpoint)
        report.event("done", loop.step, seconds=time.perf_counter() - started)
        return TrainingResult(run.folder, loop.step, True, recovery.checkpoints.path(loop.step))


class TrainingLoop:
    """Trains one run in this process, iteration by iteration; on exit it closes the sampler and the environments.

    Args:
        prepared: the run.
        learner: the policy to train.
        report: receives events and ticks.
        recovery: saves finished iterations.
    """

    def __init__(self, prepared: PreparedRun, learner: Learner, report: Reporter, recovery: Recovery) -> None:
        self.prepared, self.config = prepared, prepared.run
        self.learner, self.report, self.recovery = learner, report, recovery
        self.step = 0
        self.credit_state: object = None
        self.coefficients = prepared.coefficients.first()
        self.agent = prepared.agent(learner.tokenizer)
        self.engine = RunEngine(prepared, learner, self.agent)
        make = AsynchronousRollouts if prepared.run.train.asynchronous else SynchronousRollouts
        self.rollouts: Rollouts = make(prepared, self.agent, self.engine, report)
        self._watch = LearningWatch(report)
        self._seconds: list[float] = []
        self._began = time.perf_counter()  # the iteration
        learner.limit.note = lambda text: report.event("note", self.step + 1, text=text)

    @property
    def sampler(self) -> Sampler:
        """The engine's sampler."""
        return self.engine.sampler

    def __enter__(self) -> "TrainingLoop":
        return self

    def __exit__(self, *_: object) -> None:
        self.rollouts.close()
        self.engine.close()

    def run(self) -> None:
        """Load the weights and iterate until the run is finished, evaluating and saving when it is due."""
        self._began = time.perf_counter()
        while True:
            self.rollouts.load(self.step)
            finished = self.step >= self.config.train.iterations
            if finished and self.learner.has_adapter:  # before the evaluation, which is the last file of a run
                write_merged(self.learner.weights(), self.learner.tokenizer, self.config.folder / "final")
            with self._not_timed():
                evaluate_if_due(self.prepared, self.step, self.agent, self.sampler, self.report)
            if finished:
                break
            self.iteration()
            self.recovery.settle(self)
            with self._not_timed():
                if self.recovery.save_if_due(self):
                    self.rollouts.saved()

    @contextmanager
    def _not_timed(self) -> Iterator[None]:
        """Enclose what is not a part of the iteration, so that its seconds are those of playing and learning."""
        started = time.perf_counter()
        yield
        self._began += time.perf_counter() - started

    def iteration(self) -> None:
        """Sample tasks, roll out, assign credit, pack, and update; `run` has loaded the weights."""
        played = self._roll_out()
        groups = played.groups
        steps = steps_of(groups, anchor=self.config.credit.anchor)
        advantages = self._assign_credit(steps, groups)
        batch = pack(groups, self._without_stale(advantages, groups))
        with self.recovery.update(self):
            batch, shares = self._score(batch, groups)
            ages = self._age_metrics(groups, batch)
            stats = self.learner.update(batch, self._objective(), self._plan())
            self._advance(advantages, stats, groups)
            now = time.perf_counter()
            self._seconds.append(now - self._began)
            self._began = now
            more = {**stats, **shares, **_speeds(played.report, stats), **played.metrics, **ages}
            self._report(groups, steps, advantages, more, batch)

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps beside the weights and the learner's state, as JSON can hold it."""
        return {
            **self.rollouts.state(),
            "credit": to_json(self.credit_state),
            "coefficients": dict(self.coefficients),
            "watch": self._watch.state(),
        }

    def load_state(self, step: int, state: Mapping[str, Any]) -> None:
        """Continue after `step` iterations with what `state` returned then."""
        self.step = step
        self.rollouts.load_state(state)
        self.credit_state = from_json(state.get("credit"))
        self.coefficients = dict(state.get("coefficients", self.coefficients))
        self._watch.load_state(state.get("watch", {}))

    def settle(self) -> None:
        """Wait for all groups in play that have to be complete before a checkpoint."""
        self.rollouts.settle()

    # -- the parts of an iteration --

    def _roll_out(self) -> Played:
        """Return the groups of this iteration; if all of them failed, the iterations before it are saved."""
        try:
            played = self.rollouts.next(self.step)
        except TrainingError:
            self.recovery.save(self)
            raise
        if played.report.errors or played.report.skipped:
            self.report.event("note", self.step + 1, text=played.report.sentence())
        return played

    def _without_stale(self, advantages: Advantages, groups: list[Group]) -> Advantages:
        """Return the advantages without the turns that are too old to train on."""
        limit = self.config.train.oldest
        return without_stale(advantages, turn_ages(groups, self.step), limit) if limit else advantages

    def _age_metrics(self, groups: list[Group], batch: Batch) -> dict[str, float]:
        limit = self.config.train.oldest
        return age_metrics(groups, self.step, limit) | ratio_metrics(batch, self.step) if limit else {}

    def _assign_credit(self, steps: Steps, groups: list[Group]) -> Advantages:
        """Return the advantages of all turns; the KL term is subtracted from the rewards where it belongs there."""
        rule, options = self.prepared.credit, dict[str, Any]()
        if rule.remembers:
            options["state"] = self.credit_state
        if rule.draws:
            options["rng"] = np.random.default_rng(self.prepared.seed_for("credit", self.step))
        if self.prepared.coefficients.kl_in_reward:
            batch = pack(groups)
            reference = self._scores(batch, reference=True).logprobs
            divergence = turn_divergence(batch, reference, self.config.objective.kl.estimator, steps)
            steps = replace(steps, reward=steps.reward - self.coefficients["kl"] * divergence)
        return rule(steps, **options)

    def _score(self, batch: Batch, groups: list[Group]) -> tuple[Batch, dict[str, float]]:
        """Add recomputed and reference log-probabilities to the batch, and transform its token advantages."""
        transform, scores = self.prepared.token_transform, None
        recompute = self.config.objective.old_logprobs == "recomputed"
        if recompute or (transform is not None and transform.needs_scores):
            scores = self._scores(batch)
            if recompute:
                batch = replace(batch, old=scores.logprobs, rollout=batch.old)
        if self.learner.has_reference:
            batch = replace(batch, reference=self._scores(batch, reference=True).logprobs)
        if transform is None:
            return batch, {}
        return transform(batch, groups, decode=codec_of(self.learner.tokenizer).decode, scores=scores)

    def _scores(self, batch: Batch, *, reference: bool = False) -> Scores:
        score = self.learner.score_reference if reference else self.learner.score
        run = self.config
        return score(batch, temperature=run.agent.temperature, micro_tokens=run.train.micro_tokens)

    def _objective(self) -> Objective:
        """Return the objective with this iteration's coefficients."""
        kl = 0.0 if self.prepared.coefficients.kl_in_reward else self.coefficients["kl"]
        return replace(self.prepared.objective, kl=kl, entropy=self.coefficients["entropy"])

    def _plan(self) -> UpdatePlan:
        """Return how this iteration's batch becomes optimizer steps."""
        section = self.config.train
        first, total = self.step * section.optimizer_steps, section.iterations * section.optimizer_steps
        schedule = section.schedule
        rate = partial(learning_rate, total=total, peak=section.lr, schedule=schedule.name, warmup=schedule.warmup)
        return UpdatePlan(
            updates=section.optimizer_steps,
            micro_tokens=section.micro_tokens,
            grad_clip=section.grad_clip,
            temperature=self.config.agent.temperature,
            seed=self.prepared.seed_for("deal", self.step),
            processes=self.config.processes,
            rates=[rate(first + number) for number in range(section.optimizer_steps)],
            version=self.step,
        )

    def _advance(self, advantages: Advantages, stats: Mapping[str, float], groups: list[Group]) -> None:
        """Count the iteration and carry over what the next one needs."""
        episodes = sum(len(group.finished) for group in groups)
        self.credit_state = advantages.state
        self.coefficients = self.prepared.coefficients.after(self.coefficients, stats, episodes)
        self.step += 1

    def _report(
        self, groups: list[Group], steps: Steps, advantages: Advantages, stats: Mapping[str, float], batch: Batch
    ) -> None:
        """Write the event of a finished iteration, and warn where it taught nothing."""
        left, recent = self.config.train.iterations - self.step, self._seconds[-10:]
        renamed = {f"update_{key}" if key in {"tokens", "seconds"} else key: value for key, value in stats.items()}
        values = {
            **play_metrics(groups),
            "sampled_entropy": sampled_entropy(groups),
            **credit_metrics(advantages),
            **group_metrics(steps, advantages),
            **renamed,
            **self.engine.metrics,
            **{f"{place}_memory": size for place, size in memory_use().items()},
            "sequence_tokens": batch.size,
            "seconds": self._seconds[-1],
            "left": left,
            "seconds_left": left * sum(recent) / len(recent),
        }
        self.report.event("train", self.step, **values)
        self._watch.after(self.step, values)
        if self.engine.shared:
            self._watch.after_shared(self.step, stats, self.config.policy.dtype)


def _announce(prepared: PreparedRun, report: Reporter, policy: ModelFolder | None) -> None:
    """Report what is about to be trained, with remarks on settings that are probably not meant."""
    run = prepared.run
    report.event(
        "setup",
        0,
        name=run.name,
        folder=str(run.folder),
        device=prepared.device,
        model=run.policy.model or f"new, {run.policy.new.layers} layers of {run.policy.new.hidden}",
        **({"revision": policy.revision} if policy and policy.revision else {}),
        steps=run.train.iterations,
        tasks=len(prepared.tasks),
        panel=len(prepared.panel.tasks) if prepared.panel else 0,
    )
    for text in remarks(prepared):
        report.event("note", 0, text=text)


def _sizes(learner: Learner) -> dict[str, int]:
    """Return how many parameters the policy has, and how many of them are trained."""
    sizes = [(parameter.numel(), parameter.requires_grad) for parameter in learner.model.parameters()]
    return {"parameters": sum(size for size, _ in sizes), "trained": sum(size for size, trained in sizes if trained)}


def _speeds(played: RolloutReport, stats: Mapping[str, float]) -> dict[str, float]:
    """Return tokens per second: sampled ones and those of prompts in the rollout, computed ones in the update."""
    return {
        "rollout_seconds": played.seconds,
        "rollout_tokens_per_second": played.response_tokens / played.seconds if played.seconds else 0.0,
        "prompt_tokens_per_second": played.prompt_tokens / played.seconds if played.seconds else 0.0,
        "update_tokens_per_second": stats["tokens"] / stats["seconds"] if stats["seconds"] else 0.0,
    }

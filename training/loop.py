"""The loop: warm start, then again and again sample tasks, roll out, credit, pack, update; evaluation before and after.

    groups = rollout(agent, sampler, tasks, size=G)
    batch  = reshape(pack(groups, credit(steps_of(groups))))
    stats  = update(model, optimizer, batch, objective)
    sampler.load(model, version)

A finished iteration is a boundary: weights, optimiser, sampler of tasks, memory of the credit rule and sizes of files
belong together there, and only there is anything saved. What follows a boundary is a pure function of it, so a run
that was killed goes on from its last checkpoint and, on a CPU, ends with the same weights.

Left out on purpose: several processes, asynchronous rollouts, early stopping.
"""

import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from turnwise.agents.agent import Agent
from turnwise.agents.env_pool import EnvPool
from turnwise.agents.rollout import RolloutReport, rollout
from turnwise.agents.samplers.transformers import TransformersSampler
from turnwise.agents.store import TrajectoryWriter
from turnwise.agents.trajectory import Group, Trajectory
from turnwise.credit.steps import Steps
from turnwise.training.batch import Batch, pack, turn_divergence
from turnwise.training.checkpoint import Checkpoints, Restored, restore_random_states
from turnwise.training.config import Run
from turnwise.training.errors import CheckpointError, TrainingError
from turnwise.training.evaluation import examine
from turnwise.training.folder import begin, continued, locked
from turnwise.training.metrics import MetricsWriter, credit_metrics, group_metrics, play_metrics
from turnwise.training.objectives import Objective
from turnwise.training.policy import vocabulary_fingerprint
from turnwise.training.report import OnEvent, Reporter, uninterrupted
from turnwise.training.setup import Setup, prepare, remarks
from turnwise.training.state_json import freeze, thaw
from turnwise.training.steps import steps_of
from turnwise.training.tasks import TaskSampler
from turnwise.training.update import learning_rate, make_optimizer, score_both, update
from turnwise.training.warmstart import align, first_policy


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call of train ended.

    Attributes:
        folder: of the run.
        step: finished iterations.
        finished: False after Ctrl-C.
        checkpoint: the newest one; None when not even the warm start was finished.
    """

    folder: Path
    step: int
    finished: bool
    checkpoint: Path | None


def train(run: Run, *, resume: bool = False, on_event: OnEvent | None = None) -> Outcome:
    """Carry a run out: warm start, iterations, evaluations; everything is written to run.folder.

    Events are dicts with "phase": "setup", "imitation" (one with "step" about every 2 % of the warm start), "train",
    "evaluation", "note" (text), "done", as they stand in metrics.jsonl; and "tick" (what, done, total), which is for
    progress bars and is not written: "demonstrations", "imitation", "rollout", "evaluation", and "checkpoint" and
    "resumed", whose done is the iteration.

    Args:
        run: the configuration.
        resume: go on from the last checkpoint in run.folder; from the beginning if there is none yet.
        on_event: called with every event, on this thread.

    Returns:
        How it ended; Ctrl-C ends it at the last finished iteration, with a checkpoint.

    Raises:
        TrainingError: what the user can cause: the configuration, the folder, checkpoints, demonstrations.
        EnvError, AgentError, CreditError: of the parts.
    """
    setup = prepare(run)
    run.check_read()
    with locked(setup.folder), ExitStack() as stack:
        (continued if resume else begin)(setup.folder, run)
        return _Session(setup, stack).carry_out(resume, on_event)


class _Session:
    """One process's work on a run."""

    def __init__(self, setup: Setup, stack: ExitStack) -> None:
        self.setup, self.stack, self.folder = setup, stack, setup.folder
        self.checkpoints = Checkpoints(self.folder / "checkpoints", keep=setup.schedule.keep)
        self.tasks = TaskSampler(setup.tasks, setup.seed_for("tasks"))
        self.step = 0
        self.saved: int | None = None
        self.memory: object = None  # of the credit rule
        self.coefficients = setup.control.begin()  # of divergence and entropy
        self.boundary: dict[str, Any] = {}  # empty where weights, optimiser and counters do not belong together
        self.seconds: list[float] = []

    def carry_out(self, resume: bool, on_event: OnEvent | None) -> Outcome:
        """Begin or go on, then iterate to the end."""
        started = time.perf_counter()
        restored = self._restore() if resume else None
        self.report = Reporter(self.stack.enter_context(self._metrics(restored)), on_event)
        try:
            if restored is None:
                self._begin()
            else:
                self._go_on(restored)
            self._seat()
            self._iterate()
        except KeyboardInterrupt:
            return self._interrupted()
        self.report.event("done", self.step, seconds=time.perf_counter() - started)
        return Outcome(self.folder, self.step, True, self.checkpoints.path(self.step))

    def _iterate(self) -> None:
        schedule = self.setup.schedule
        while True:
            examine(self.setup, self.step, self.agent, self.sampler, self.report)
            if self.step >= schedule.steps:
                break
            self._iteration()
            due = schedule.checkpoint_every and self.step % schedule.checkpoint_every == 0
            if due or self.step == schedule.steps:
                self._save()

    def _iteration(self) -> None:
        """Sample tasks, roll out, credit, pack, update, load."""
        setup, started = self.setup, time.perf_counter()
        groups, played = self._play(self.tasks.next(setup.schedule.tasks))
        memory: dict[str, Any] = {"state": self.memory} if setup.credit.remembers else {}
        if setup.credit.draws:
            memory["rng"] = np.random.default_rng(setup.seed_for("credit", self.step))
        table = steps_of(groups, anchor=setup.anchor)
        advantages = setup.credit(self._less_divergence(table, groups), **memory)
        batch = pack(groups, advantages)
        with uninterrupted():
            self.boundary = {}
            self.memory = advantages.state
            batch, reshaped = self._scored(batch, groups)
            plan = replace(setup.plan, seed=setup.seed_for("deal", self.step))
            stats = update(self.model, self.optimizer, batch, self._objective(), plan, self._rates())
            self.coefficients = setup.control.after(self.coefficients, stats, sum(len(g.finished) for g in groups))
            self.step += 1
            self.sampler.load(self.model, version=self.step)
            self.seconds.append(time.perf_counter() - started)
            self.report.event(
                "train",
                self.step,
                **play_metrics(groups),
                **credit_metrics(advantages),
                **group_metrics(table, advantages),
                **reshaped,
                **{f"update_{key}" if key in {"tokens", "seconds"} else key: v for key, v in stats.items()},
                **_speeds(played, stats),
                sequence_tokens=batch.size,
                seconds=self.seconds[-1],
                **self._left(),
            )
            self._mark()

    def _play(self, tasks: list[str]) -> tuple[list[Group], RolloutReport]:
        """Roll out one iteration's groups, stored as they finish."""
        setup, report = self.setup, RolloutReport()
        path = self.folder / "trajectories" / f"{self.step + 1:06d}{setup.trajectories}"
        if setup.trajectories:
            path.parent.mkdir(exist_ok=True)
        tick = self.report.counting("rollout", len(tasks) * setup.schedule.group)
        with TrajectoryWriter(path) if setup.trajectories else nullcontext() as writer:

            def finished(trajectory: Trajectory) -> None:
                if writer is not None:
                    writer.write(trajectory)
                tick(trajectory)

            groups = rollout(
                self.agent,
                self.sampler,
                tasks,
                make=self.pool,
                size=setup.schedule.group,
                seed=setup.seed_for("rollout", self.step),
                concurrency=setup.schedule.concurrency,
                on_finish=finished,
                report=report,
            )
        if report.errors:
            self.report.event("note", self.step + 1, text=report.sentence())
        if not any(one.turns for group in groups for one in group.finished):
            self._save()
            reason = Counter(one.error for group in groups for one in group.trajectories).most_common(1)[0][0]
            what = "failed" if report.errors == report.episodes else "ended before its first turn"
            raise TrainingError(
                f"every episode of iteration {self.step + 1} {what} ({reason}); the run stands at the iteration "
                "before, and --resume goes on from there"
            )
        return groups, report

    def _score(self, model: Any, batch: Batch) -> Any:
        """Log-probabilities and entropies of a batch's tokens under a model."""
        plan = self.setup.plan
        return score_both(model, batch, temperature=plan.temperature, micro_tokens=plan.micro_tokens)

    def _scored(self, batch: Batch, groups: list[Group]) -> tuple[Batch, dict[str, float]]:
        """Add what is computed anew to a batch, then reshape its advantages if the run does."""
        recompute, reshape = self.setup.schedule.recompute, self.setup.reshape
        logprobs = entropy = None
        if recompute or (reshape is not None and reshape.needs_policy):
            logprobs, entropy = self._score(self.model, batch)
            if recompute:
                batch = replace(batch, old=logprobs, rollout=batch.old)
        if self.reference is not None:
            batch = replace(batch, reference=self._score(self.reference, batch)[0])
        if reshape is None:
            return batch, {}
        decode = partial(self.tokenizer.decode, clean_up_tokenization_spaces=False)
        return reshape(batch, groups, decode=decode, logprobs=logprobs, entropy=entropy)

    def _objective(self) -> Objective:
        """Give the objective with the coefficients of this iteration."""
        now, objective = self.coefficients, self.setup.objective
        kl = 0.0 if self.setup.control.in_reward else now["kl"]
        return replace(objective, kl=kl, entropy=now["entropy"])

    def _less_divergence(self, table: Steps, groups: list[Group]) -> Steps:
        """Take the divergence from the reference off the rewards, where it belongs there."""
        control = self.setup.control
        if not control.in_reward:
            return table
        batch = pack(groups)
        reference, _ = self._score(self.reference, batch)
        divergence = turn_divergence(batch, reference, control.kl_estimator, len(table))
        return replace(table, reward=table.reward - self.coefficients["kl"] * divergence)

    def _rates(self) -> list[float]:
        schedule = self.setup.schedule
        first, total = self.step * schedule.updates, schedule.steps * schedule.updates
        return [
            learning_rate(first + k, total=total, peak=schedule.lr, schedule=schedule.kind, warmup=schedule.warmup)
            for k in range(schedule.updates)
        ]

    def _left(self) -> dict[str, float]:
        left, recent = self.setup.schedule.steps - self.step, self.seconds[-10:]
        return {"left": left, "seconds_left": left * sum(recent) / len(recent)}

    # -- beginning and going on --

    def _begin(self) -> None:
        """Make the policy, warm it up, and save the first checkpoint."""
        setup = self.setup
        self.report.event(
            "setup",
            0,
            name=setup.name,
            folder=str(self.folder),
            steps=setup.schedule.steps,
            tasks=len(setup.tasks),
            panel=len(setup.panel.tasks) if setup.panel else 0,
        )
        for text in remarks(setup):
            self.report.event("note", 0, text=text)
        self.model, self.tokenizer = first_policy(setup, self.report)
        self._make_optimizer()
        with uninterrupted():
            if setup.needs_reference:
                Checkpoints(self.folder / "reference", keep=1).save(0, self.model, self.tokenizer, None, {})
            self._mark()
            self._save()

    def _restore(self) -> Restored | None:
        """Read the newest whole checkpoint and clear away what came after it; None if none was ever finished."""
        if not self.checkpoints.steps():
            return None  # it ended in the warm start, which is done again
        restored = self.checkpoints.load()
        missing = {"tasks", "metrics_size"} - restored.state.keys()
        if missing:
            raise CheckpointError(
                f"{restored.folder} was written by another version of turnwise: it has no {min(missing)}"
            )
        if not self._complete(restored):
            for folder, last in (("trajectories", restored.step), ("evaluations", restored.step - 1)):
                for path in (self.folder / folder).glob("[0-9]*"):
                    if int(path.name.partition(".")[0]) > last:
                        path.unlink()
        return restored

    def _complete(self, restored: Restored) -> bool:
        return restored.step >= self.setup.schedule.steps and (self.folder / "after.json").exists()

    def _metrics(self, restored: Restored | None) -> MetricsWriter:
        """Open the metrics, cut to where the checkpoint stood."""
        board = self.folder / "tensorboard" if self.setup.tensorboard else None
        cut = {"size": 0, "purge": 0}
        if restored is not None and self._complete(restored):
            cut = {}
        elif restored is not None:
            cut = {"size": restored.state["metrics_size"], "purge": restored.step + 1}
        return MetricsWriter(self.folder / "metrics.jsonl", tensorboard=board, **cut)

    def _go_on(self, restored: Restored) -> None:
        self.model, self.tokenizer, self.step = restored.model, restored.tokenizer, restored.step
        align(self.model)
        self._make_optimizer()
        self.optimizer.load_state_dict(restored.trainer["optimizer"])
        restore_random_states(restored.trainer)
        self.tasks.load_state_dict(restored.state["tasks"])
        self.memory = thaw(restored.state.get("credit"))
        self.coefficients = dict(restored.state.get("coefficients", self.coefficients))
        self.saved = self.step
        self._mark()
        for text in restored.passed_over:
            self.report.event("note", self.step, text=text)
        self.report.tick("resumed", self.step, self.setup.schedule.steps)

    def _make_optimizer(self) -> None:
        schedule = self.setup.schedule
        self.model.to(self.setup.policy.device)
        self.optimizer = make_optimizer(self.model, lr=schedule.lr, weight_decay=schedule.weight_decay)

    def _seat(self) -> None:
        """Make what plays: agent, sampler, environments, the reference."""
        setup, policy = self.setup, self.setup.policy
        self.agent: Agent = setup.agent(self.tokenizer)
        self.sampler = TransformersSampler(
            self.model,
            self.tokenizer,
            device=policy.device,
            slots=policy.slots,
            context=policy.context,
            version=self.step,
        )
        self.stack.callback(self.sampler.close)
        self.pool = self.stack.enter_context(EnvPool(setup.make, setup.schedule.deadline))
        self.reference = None
        if setup.needs_reference:
            vocabulary = vocabulary_fingerprint(self.tokenizer)
            self.reference = Checkpoints(self.folder / "reference").load(vocabulary=vocabulary).model
            align(self.reference)
            self.reference.to(policy.device)

    # -- boundaries --

    def _mark(self) -> None:
        """Write down what belongs to this boundary beside weights and optimiser."""
        self.boundary = {
            "tasks": self.tasks.state_dict(),
            "credit": freeze(self.memory),
            "coefficients": dict(self.coefficients),
            "metrics_size": self.report.metrics.tell(),
        }

    def _save(self) -> None:
        """Save the last boundary, unless it is saved."""
        if self.saved == self.step:
            return
        with uninterrupted():
            path = self.checkpoints.save(self.step, self.model, self.tokenizer, self.optimizer, self.boundary)
            self.saved = self.step
        self.report.tick("checkpoint", self.step, self.setup.schedule.steps, path=str(path))

    def _interrupted(self) -> Outcome:
        """End after Ctrl-C: what was half done is dropped, the last boundary is saved.

        Between two boundaries (a second Ctrl-C cut an update) there is nothing to save: the last checkpoint stands.
        """
        if self.boundary:
            self._save()
        step = max(self.checkpoints.steps(), default=None)
        if step is None:
            self.report.event("note", 0, text="interrupted in the warm start; --resume does it again")
            return Outcome(self.folder, 0, False, None)
        self.report.event("note", step, text=f"interrupted; --resume goes on from iteration {step}")
        return Outcome(self.folder, step, False, self.checkpoints.path(step))


def _speeds(played: RolloutReport, stats: Mapping[str, float]) -> dict[str, float]:
    """Give tokens a second: sampled ones in the rollout, computed ones in the update."""
    return {
        "rollout_seconds": played.seconds,
        "rollout_tokens_per_second": played.response_tokens / played.seconds if played.seconds else 0.0,
        "update_tokens_per_second": stats["tokens"] / stats["seconds"] if stats["seconds"] else 0.0,
    }

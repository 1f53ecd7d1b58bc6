"""The loop: warm start, then again and again sample tasks, roll out, credit, pack, update; evaluation before and after.

    groups = rollout(agent, sampler, tasks, size=G)
    batch  = pack(groups, credit(steps_of(groups)))
    stats  = update(model, optimizer, batch, objective)
    sampler.load(model, version)

A finished iteration is a boundary: weights, optimiser, sampler of tasks and sizes of files belong together there, and
only there is anything saved. What follows a boundary is a pure function of it, so a run that was killed goes on from
its last checkpoint and, on a CPU, ends with the same weights.

Left out on purpose: several processes, asynchronous rollouts, early stopping.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from turnwise.agents.agent import Agent
from turnwise.agents.evaluation import Panel, Result, evaluate
from turnwise.agents.rollout import RolloutReport, rollout
from turnwise.agents.samplers.transformers import TransformersSampler
from turnwise.agents.seat import Pool
from turnwise.agents.store import TrajectoryWriter
from turnwise.agents.trajectory import Group, Trajectory
from turnwise.envs import make as make_env
from turnwise.training.batch import pack
from turnwise.training.checkpoint import Checkpoints, Restored, restore_random_states
from turnwise.training.config import Run
from turnwise.training.demonstrations import demonstrate
from turnwise.training.folder import begin, continued, locked
from turnwise.training.imitation import demonstration_batch, imitate
from turnwise.training.metrics import MetricsWriter, credit_metrics, play_metrics
from turnwise.training.policy import build_policy, load_policy
from turnwise.training.setup import Setup, prepare
from turnwise.training.steps import steps_of
from turnwise.training.tasks import TaskSampler
from turnwise.training.update import learning_rate, make_optimizer, score, update

Event = dict[str, Any]
OnEvent = Callable[[Event], None]


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

    Events are dicts with "phase": "setup", "imitation", "checkpoint", "train", "evaluation", "note", "done", as they
    stand in metrics.jsonl; and "tick" (what, done, total), which is for progress bars and is not written.

    Args:
        run: the configuration.
        resume: go on from the last checkpoint in run.folder.
        on_event: called with every event, on this thread.

    Returns:
        How it ended; Ctrl-C ends it at the last finished iteration, with a checkpoint.

    Raises:
        TrainingError: what the user can cause: the configuration, the folder, checkpoints, demonstrations.
        EnvError, AgentError, CreditError: of the parts.
    """
    setup = prepare(run)
    run.check_read()
    with locked(setup.folder):
        if resume:
            continued(setup.folder, run)
        else:
            begin(setup.folder, run)
        with ExitStack() as stack:
            session = _Session(setup, on_event, stack)
            return session.carry_out(resume)


class _Session:
    """One process's work on a run."""

    def __init__(self, setup: Setup, on_event: OnEvent | None, stack: ExitStack) -> None:
        self.setup, self.on_event, self.stack = setup, on_event, stack
        self.folder = setup.folder
        self.checkpoints = Checkpoints(self.folder / "checkpoints", keep=setup.schedule.keep)
        self.tasks = TaskSampler(setup.tasks, setup.seed_for("tasks"))
        self.step = 0
        self.saved: int | None = None
        self.boundary: dict[str, Any] = {}
        self.began = time.perf_counter()
        self.seconds: list[float] = []

    # -- the run -------------------------------------------------------------------------------------------------

    def carry_out(self, resume: bool) -> Outcome:
        """Begin or go on, then iterate to the end."""
        restored = self._restore() if resume else None
        board = self.folder / "tensorboard" if self.setup.tensorboard else None
        size = None if restored and self._complete(restored.step) else restored.state["metrics_size"] if restored else 0
        self.metrics = self.stack.enter_context(
            MetricsWriter(self.folder / "metrics.jsonl", size=size, tensorboard=board)
        )
        try:
            if restored is None:
                self._begin()
            else:
                self._go_on(restored)
            self._prepare_play()
            self._iterate()
        except KeyboardInterrupt:
            return self._interrupted()
        self._emit({"phase": "done", "iteration": self.step, "seconds": time.perf_counter() - self.began})
        return Outcome(self.folder, self.step, True, self.checkpoints.path(self.step))

    def _iterate(self) -> None:
        schedule = self.setup.schedule
        while True:
            self._examine()
            if self.step >= schedule.steps:
                break
            self._iteration()
            due = schedule.checkpoint_every and self.step % schedule.checkpoint_every == 0
            if due or self.step == schedule.steps:
                self._save()

    def _iteration(self) -> None:
        """Sample tasks, roll out, credit, pack, update, load."""
        setup, started = self.setup, time.perf_counter()
        state = self.tasks.state_dict()
        try:
            groups, report = self._play(self.tasks.next(setup.schedule.tasks))
        except BaseException:
            self.tasks.load_state_dict(state)
            raise
        advantages = setup.credit(steps_of(groups, anchor=setup.anchor))  # type: ignore[arg-type]
        batch = pack(groups, advantages)
        with _uninterrupted():
            plan = replace(setup.plan, seed=setup.seed_for("deal", self.step))
            if setup.schedule.recompute:
                batch = replace(batch, old=self._score(self.model, batch))
            if self.reference is not None:
                batch = replace(batch, reference=self._score(self.reference, batch))
            stats = update(self.model, self.optimizer, batch, setup.objective, plan, self._rates())
            self.step += 1
            self.sampler.load(self.model, version=self.step)
            seconds = time.perf_counter() - started
            self.seconds.append(seconds)
            self._emit(
                {
                    "phase": "train",
                    "iteration": self.step,
                    **play_metrics(groups),
                    **credit_metrics(advantages),
                    **{f"update_{key}" if key in {"tokens", "seconds"} else key: v for key, v in stats.items()},
                    **_speeds(report, stats),
                    "sequence_tokens": batch.size,
                    "seconds": seconds,
                    **self._left(),
                }
            )
            self._mark()

    def _play(self, tasks: list[str]) -> tuple[list[Group], RolloutReport]:
        """Roll out one iteration's groups, stored as they finish."""
        setup, report = self.setup, RolloutReport()
        total, done = len(tasks) * setup.schedule.group, 0
        path = self.folder / "trajectories" / f"{self.step + 1:06d}{setup.trajectories}"
        if setup.trajectories:
            path.parent.mkdir(exist_ok=True)
        with TrajectoryWriter(path) if setup.trajectories else nullcontext() as writer:

            def finished(trajectory: Trajectory) -> None:
                nonlocal done
                done += 1
                if writer is not None:
                    writer.write(trajectory)
                self._tick("rollout", done, total)

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
            self._emit({"phase": "note", "iteration": self.step + 1, "text": report.sentence()})
        return groups, report

    def _score(self, model: Any, batch: Any) -> Any:
        plan = self.setup.plan
        return score(model, batch, temperature=plan.temperature, micro_tokens=plan.micro_tokens)

    def _rates(self) -> list[float]:
        schedule = self.setup.schedule
        first, total = self.step * schedule.updates, schedule.steps * schedule.updates
        return [
            learning_rate(first + k, total=total, peak=schedule.lr, schedule=schedule.kind, warmup=schedule.warmup)
            for k in range(schedule.updates)
        ]

    # -- beginning and going on ----------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Make the policy, warm it up, and save the first checkpoint."""
        setup = self.setup
        torch.manual_seed(setup.seed_for("torch"))
        if setup.policy.path is not None:
            self.model, self.tokenizer = load_policy(setup.policy.path)
        self._emit({"phase": "setup", "iteration": 0, "name": setup.name, "folder": str(self.folder),
                    "steps": setup.schedule.steps, "tasks": len(setup.tasks), "panel": len(setup.panel)})  # fmt: skip
        if setup.demonstrations is not None:
            self._warm_start()
        self._make_optimizer()
        self._mark()
        if setup.objective.kl:
            Checkpoints(self.folder / "reference", keep=1).save(0, self.model, self.tokenizer, None, {})
        self._save()

    def _warm_start(self) -> None:
        setup = self.setup
        wanted = setup.demonstrations
        assert wanted is not None
        started, done = time.perf_counter(), 0
        tasks = TaskSampler(setup.tasks, setup.seed_for("demonstrated")).next(wanted.episodes)

        def finished(_: Trajectory) -> None:
            nonlocal done
            done += 1
            self._tick("demonstrations", done, len(tasks))

        played = demonstrate(setup, wanted, tasks, finished)
        if setup.policy.path is None:
            self.model, self.tokenizer = build_policy(
                played.texts, **setup.policy.sizes, context=setup.policy.context, seed=setup.seed_for("weights")
            )
        self.model.to(setup.policy.device)
        batch = demonstration_batch(
            *played.tokenized(setup.agent(self.tokenizer), self.tokenizer), context=setup.policy.context
        )
        self._emit(
            {
                "phase": "imitation",
                "iteration": 0,
                "demonstrations": len(played.trajectories),
                "won": sum(one.won for one in played.trajectories),
                "turns": sum(len(one.turns) for one in played.trajectories) / len(played.trajectories),
                "tokens": batch.size,
                "longest": int(batch.lengths.max()),
                "vocabulary": len(self.tokenizer),
                "parameters": sum(p.numel() for p in self.model.parameters()),
                "seconds": time.perf_counter() - started,
            }
        )
        recipe = replace(wanted.recipe, seed=setup.seed_for("imitation"))

        def stepped(event: dict[str, float]) -> None:
            self._tick("imitation", int(event["step"]), int(event["steps"]), loss=event["loss"])

        self._emit({"phase": "imitation", "iteration": 0, **imitate(self.model, batch, recipe, stepped)})

    def _restore(self) -> Restored | None:
        """Read the newest whole checkpoint, and clear away what came after it; None if none was ever finished."""
        if not self.checkpoints.steps():
            return None  # it ended in the warm start, which is done again
        restored = self.checkpoints.load()
        if self._complete(restored.step):
            return restored
        for folder, last in (("trajectories", restored.step), ("evaluations", restored.step - 1)):
            for path in (self.folder / folder).glob("*"):
                if path.name[:6].isdigit() and int(path.name[:6]) > last:
                    path.unlink()
        return restored

    def _complete(self, step: int) -> bool:
        return step >= self.setup.schedule.steps and (self.folder / "after.json").exists()

    def _go_on(self, restored: Restored) -> None:
        self.model, self.tokenizer, self.step = restored.model, restored.tokenizer, restored.step
        self.model.to(self.setup.policy.device)
        self._make_optimizer()
        self.optimizer.load_state_dict(restored.trainer["optimizer"])
        restore_random_states(restored.trainer)
        self.tasks.load_state_dict(restored.state["tasks"])
        self.saved = self.step
        self._mark()
        for text in restored.passed_over:
            self._emit({"phase": "note", "iteration": self.step, "text": text})
        self._tick("resumed", self.step, self.setup.schedule.steps)

    def _make_optimizer(self) -> None:
        self.model.to(self.setup.policy.device)
        self.optimizer = make_optimizer(
            self.model, lr=self.setup.schedule.lr, weight_decay=self.setup.schedule.weight_decay
        )

    def _prepare_play(self) -> None:
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
        self.pool = self.stack.enter_context(Pool(setup.make, setup.schedule.deadline))
        self.reference = None
        if setup.objective.kl:
            self.reference = Checkpoints(self.folder / "reference").load().model.to(policy.device)

    # -- evaluation ----------------------------------------------------------------------------------------------

    def _examine(self) -> None:
        """Evaluate if it is due at this iteration and was not done."""
        examination, step, last = self.setup.examination, self.step, self.setup.schedule.steps
        if examination is None:
            return
        between = examination.every > 0 and step % examination.every == 0
        path = self.folder / "evaluations" / f"{step:06d}.json"
        if path.exists() or not (step in {0, last} or between):
            return
        panel = Panel(self.setup.env_id, self.setup.panel, examination.env, self.setup.seed_for("panel"))
        panel.save(self.folder / "panel.json")
        if step not in {0, last} and examination.during:
            panel = replace(panel, tasks=panel.tasks[: examination.during])
        result = self._evaluate(panel, examination.temperature)
        if step == 0:
            result.save(self.folder / "before.json")
        if step == last:
            result.save(self.folder / "after.json")
        result.save(path)
        summary = result.summary()
        self._emit(
            {
                "phase": "evaluation",
                "iteration": step,
                "success": summary.success.value,
                "low": summary.success.low,
                "high": summary.success.high,
                "n": summary.success.n,
                "turns": summary.turns,
                "unparsable": summary.unparsable,
                "inadmissible": summary.inadmissible,
                "errors": summary.errors,
                "seconds": result.seconds,
            }
        )

    def _evaluate(self, panel: Panel, temperature: float) -> Result:
        done = 0

        def finished(_: Trajectory) -> None:
            nonlocal done
            done += 1
            self._tick("evaluation", done, len(panel.tasks))

        return evaluate(
            replace(self.agent, temperature=temperature),
            self.sampler,
            panel,
            lambda: make_env(panel.env, **panel.kwargs),
            name=f"{self.setup.name}, iteration {self.step}",
            concurrency=self.setup.schedule.concurrency,
            deadline=self.setup.schedule.deadline,
            on_finish=finished,
        )

    # -- boundaries ----------------------------------------------------------------------------------------------

    def _mark(self) -> None:
        """Write down what belongs to this boundary beside weights and optimiser."""
        self.boundary = {"tasks": self.tasks.state_dict(), "metrics_size": self.metrics.tell()}

    def _save(self) -> None:
        """Save the last boundary, unless it is saved."""
        if self.saved == self.step:
            return
        with _uninterrupted():
            path = self.checkpoints.save(self.step, self.model, self.tokenizer, self.optimizer, self.boundary)
            self.saved = self.step
        self._tick("checkpoint", self.step, self.setup.schedule.steps, path=str(path))

    def _interrupted(self) -> Outcome:
        """End after Ctrl-C: what was half done is dropped, the last boundary is saved."""
        if not self.boundary:
            self._emit({"phase": "note", "text": "interrupted before the warm start was finished; nothing is kept"})
            return Outcome(self.folder, 0, False, None)
        self._save()
        self._emit({"phase": "note", "iteration": self.step, "text": "interrupted; --resume goes on from here"})
        return Outcome(self.folder, self.step, False, self.checkpoints.path(self.step))

    def _left(self) -> dict[str, float]:
        left = self.setup.schedule.steps - self.step
        recent = self.seconds[-10:]
        return {"left": left, "seconds_left": left * sum(recent) / len(recent)}

    def _emit(self, event: Event) -> None:
        self.metrics.write(event)
        if self.on_event is not None:
            self.on_event(event)

    def _tick(self, what: str, done: int, total: int, **more: Any) -> None:
        if self.on_event is not None:
            self.on_event({"phase": "tick", "what": what, "done": done, "total": total, **more})


def _speeds(report: RolloutReport, stats: Mapping[str, float]) -> dict[str, float]:
    """Give tokens a second: sampled ones in the rollout, computed ones in the update."""
    return {
        "rollout_seconds": report.seconds,
        "rollout_tokens_per_second": report.response_tokens / report.seconds if report.seconds else 0.0,
        "update_tokens_per_second": stats["tokens"] / stats["seconds"] if stats["seconds"] else 0.0,
    }


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold Ctrl-C back until the block is done; a second one gets through."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed = 0

    def hold(_: int, __: object) -> None:
        nonlocal pressed
        pressed += 1
        if pressed > 1:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt

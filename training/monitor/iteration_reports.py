"""Reports of iterations: the event of each finished one, its duration, and warnings where it taught nothing."""

import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from turncredit.agents.rollouts.rollout import RolloutReport
from turncredit.credit import Advantages, Steps
from turncredit.processes import tracing
from turncredit.processes.memory_use import memory_use
from turncredit.training.batch.batch import Batch
from turncredit.training.config.run import Run
from turncredit.training.config.stage_runs import Stages
from turncredit.training.engine.engine import RunEngine
from turncredit.training.monitor.advice import RunAdvice
from turncredit.training.monitor.learning_watch import LearningWatch
from turncredit.training.play.played import Played
from turncredit.training.run_folder.events import Reporter
from turncredit.training.run_folder.metrics import (
    credit_metrics,
    group_metrics,
    part_metrics,
    play_metrics,
    sampled_entropy,
)
from turncredit.training.run_folder.sample_episodes import sample_episodes
from turncredit.training.sampling.applied_rewards import OUTCOME

OF_UPDATE = frozenset({"tokens", "seconds", "shared", "flops", "hardware_flops"})
"""Statistics of an update that carry its name in the event of an iteration."""


class IterationReports:
    """Reports the iterations of a run.

    Args:
        report: receives an event "train" for each, and warnings.
        engine: its metrics are reported as well.
        run: the configuration, in its stage.
        stages: says when other settings begin.
        parts: names of the parts of a mixture, which are also reported apart.

    Attributes:
        watch: looks for a run that does not learn; a checkpoint keeps its state.
    """

    def __init__(
        self,
        report: Reporter,
        engine: RunEngine,
        *,
        run: Run,
        stages: Stages,
        parts: tuple[str, ...] = (),
    ) -> None:
        self._report, self._engine, self._run, self._parts = report, engine, run, parts
        self.watch, self.stages = LearningWatch(report, RunAdvice(run)), stages
        self._seconds: list[float] = []
        self._began = time.perf_counter()  # the iteration

    def begin(self, step: int) -> None:
        """Begin with the iteration after `step` finished ones, to which time and notes belong from here on."""
        self._began = time.perf_counter()
        self._report.iteration = step + 1

    def span(self, name: str, step: int) -> AbstractContextManager[tracing.Span]:
        """Return the span of something in the iteration after `step` finished ones."""
        return tracing.span(name, {"turncredit.iteration": step + 1})

    def note(self, text: str) -> None:
        """Write a note on the iteration in progress."""
        self._report.note(text)

    @contextmanager
    def not_timed(self) -> Iterator[None]:
        """Enclose what is not a part of the iteration, so that its seconds are those of playing and learning."""
        started = time.perf_counter()
        yield
        self._began += time.perf_counter() - started

    def finished(
        self, step: int, played: Played, steps: Steps, advantages: Advantages, stats: Mapping[str, float], batch: Batch
    ) -> None:
        """Write the event of a finished iteration, warn where it taught nothing, and see whether its stage is over.

        Args:
            step: number of finished iterations, this one included.
            played: what was played for it.
            steps: table of the turns.
            advantages: their advantages.
            stats: statistics of scoring and of the update.
            batch: that was trained on.
        """
        end = time.perf_counter()
        self._seconds.append(end - self._began)
        self._began = end
        left, recent = self._run.train.iterations - step, self._seconds[-10:]
        grown = played.growth_by_part(self._parts)
        stats = {**stats, **_speeds(played.report, stats), **played.metrics, **grown, **played.age_metrics(batch)}
        renamed = {f"update_{key}" if key in OF_UPDATE else key: value for key, value in stats.items()}
        values = {
            **play_metrics(played.everyone),
            **part_metrics(played.everyone, self._parts),
            "sampled_entropy": sampled_entropy(played.everyone),
            **credit_metrics(advantages),
            **group_metrics(steps, advantages, outcome=OUTCOME),
            **renamed,
            **self._engine.metrics,
            **{f"{owner}_memory": size for owner, size in memory_use().items()},
            "sequence_tokens": batch.size,
            **self.stages.numbers,
            "seconds": self._seconds[-1],
            "left": left,
            "seconds_left": left * sum(recent) / len(recent),
        }
        self._report.event("train", step, **values)
        samples = self._run.loggers.samples
        if samples and self._report.metrics.logs:
            self._report.metrics.show(sample_episodes(played.groups, advantages, samples), step)
        self.watch.after(step, values)
        self.stages.after(step, values["success"])
        self._report.iteration = step + 1
        if self._engine.shared:
            self.watch.after_shared(step, stats, self._run.policy.dtype)


def _speeds(played: RolloutReport, stats: Mapping[str, float]) -> dict[str, float]:
    """Return tokens per second: sampled ones and those of prompts in the rollout, computed ones in the update."""
    return {
        "rollout_seconds": played.seconds,
        "environment_seconds": played.environment_seconds,
        "rollout_tokens_per_second": played.response_tokens / played.seconds if played.seconds else 0.0,
        "prompt_tokens_per_second": played.prompt_tokens / played.seconds if played.seconds else 0.0,
        "update_tokens_per_second": stats["tokens"] / stats["seconds"] if stats["seconds"] else 0.0,
    }

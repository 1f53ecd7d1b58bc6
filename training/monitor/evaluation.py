"""Evaluations of a run on one fixed panel: before, during and after training.

The best checkpoint is deliberately not chosen by them, since the panel would then no longer be held out.
"""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from turncredit.agents.agent import Agent
from turncredit.agents.errors import AgentError
from turncredit.engines.base import Sampler
from turncredit.evaluation.evaluation import evaluate
from turncredit.evaluation.panels import Panel, draw_by_part
from turncredit.evaluation.results import EvaluationResult, EvaluationSummary, Rate
from turncredit.training.config.sections import EvaluationSection
from turncredit.training.monitor.shared_evaluations import SharedEvaluations
from turncredit.training.run_folder.events import Reporter
from turncredit.training.tasks.environments import Environments

__all__ = ["Evaluations", "SharedEvaluations"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluations:
    """The evaluations of a run; results are written to its folder.

    Attributes:
        section: the `[evaluation]` section.
        panel: the tasks; None: nothing is evaluated.
        environments: where they are played.
        agent: plays, with the temperature of evaluations.
        name: name of the run.
        folder: its folder.
        last: number of iterations of the whole run.
        concurrency: maximum number of episodes in play at once.
        processes: number of processes that play, of which this one is the first.
        report: receives an event "evaluation" and ticks of that name.
        shared: evaluations before training that other runs may have made; None: this run makes its own.
    """

    section: EvaluationSection
    panel: Panel | None
    environments: Environments
    agent: Agent
    name: str
    folder: Path
    last: int
    concurrency: int
    processes: int
    report: Reporter
    shared: SharedEvaluations | None = None

    def _save_panel(self, panel: Panel) -> None:
        """Write the panel, and say so if that replaces a file which holds something else."""
        file = self.folder / "panel.json"
        try:
            other = "held other tasks" if file.exists() and Panel.load(file) != panel else ""
        except (AgentError, OSError, ValueError) as error:
            other = f"could not be read ({error})"
        if other:
            self.report.note(f"panel.json {other}, and is written again")
        panel.save(file)

    def if_due(self, step: int, sampler: Sampler) -> EvaluationSummary | None:
        """Evaluate after `step` iterations if it is due and not yet done, and return the summary; None if it is not.

        Args:
            step: number of finished iterations.
            sampler: with the weights of this iteration.

        Raises:
            Interrupted: Ctrl-C; nothing is written then.
        """
        section, panel = self.section, self.panel
        during = step not in {0, self.last}
        path = self.folder / "evaluations" / f"{step:06d}.json"
        if panel is None or path.exists() or (during and not (section.every and step % section.every == 0)):
            return None
        self._save_panel(panel)
        if during and section.episodes_during_training:
            few = draw_by_part(panel.tasks, section.episodes_during_training, panel.seed, panel.parts())
            panel = replace(panel, tasks=few)
        name, measure = f"{self.name}, iteration {step}", partial(self._measure, step, panel, sampler)
        if self.shared is None or step:
            result = measure()
        else:
            result = self.shared.result(panel, name, measure, partial(self.report.begin, waits=True))
        summary = result.summary()
        self.report.event(
            "evaluation",
            step,
            **_rate(summary.success),
            turns=summary.turns,
            unparsable=summary.unparsable,
            inadmissible=summary.inadmissible,
            errors=summary.errors,
            seconds=result.seconds,
            **{
                f"{key}/{part}": number for part, rate in summary.by_part.items() for key, number in _rate(rate).items()
            },
        )
        # The event comes first and the files that say "done" come last: a run that is killed in between evaluates
        # again, and its metrics are cut back to the checkpoint.
        result.save(path)
        for name, due in (("before.json", step == 0), ("after.json", step == self.last)):
            if due:
                result.save(self.folder / name)
        return summary

    def _measure(self, step: int, panel: Panel, sampler: Sampler) -> EvaluationResult:
        with self.environments.pool() as pool:
            return evaluate(
                self.agent,
                sampler,
                panel,
                pool,
                name=f"{self.name}, iteration {step}",
                concurrency=self.concurrency,
                processes=self.processes,
                on_finish=self.report.counting("evaluation", len(panel.tasks)),
            )


def _rate(rate: Rate) -> dict[str, float | None]:
    """Return a rate of success with its interval as metrics."""
    return {"success": rate.value, "low": rate.low, "high": rate.high, "n": rate.n}

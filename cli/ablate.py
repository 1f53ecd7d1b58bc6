"""`turnwise ablate`: one run several ways, with several seeds; and whether the difference is more than noise."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from turnwise.cli.ablation_report import markdown, save_figure, terminal_table
from turnwise.cli.console import duration, out, percent, say, warn
from turnwise.cli.errors import INTERRUPTED, UserError
from turnwise.cli.train import load_run

if TYPE_CHECKING:
    from turnwise.training.ablation import Ablation
    from turnwise.training.process_pool import PooledRun

FAILED = 1
QUIET = 30.0
"""Seconds after which, off a terminal, it is said how far everything is."""
WARM = "warm start"
SHORT = {"demonstrations": "demos", "imitation": "imitation", "evaluation": "eval"}
"""What a run does beside its iterations, in a word that fits a cell."""


class AblationProgress:
    """Arms by seeds, as they stand: a live table in a terminal, lines elsewhere; a context manager."""

    def __init__(self, jobs: Sequence[PooledRun], workers: int) -> None:
        """Look at jobs, which change while they are carried out."""
        self.jobs, self.workers, self.console = jobs, workers, out()
        self.latest: dict[tuple[str, int], dict[str, Any]] = {}
        self.success = {(job.name, job.seed): _success(job) for job in jobs if job.state == "finished"}
        self.at: dict[tuple[str, int], int] = {}
        self.begun: dict[tuple[str, int], float] = {}
        self.until: dict[tuple[str, int], float] = {}
        self.took: list[float] = []
        self.start = self.spoke = time.monotonic()
        self.live: Live | None = None

    def __enter__(self) -> AblationProgress:
        """Show the table, on a terminal."""
        if self.console.is_terminal:
            self.live = Live(console=self.console, get_renderable=self.render, refresh_per_second=2)
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the last table on the screen."""
        if self.live is not None:
            self.live.stop()
            self.live = None

    def __call__(self, job: PooledRun, event: dict[str, Any]) -> None:
        """Take in what a job says."""
        key, phase = (job.name, job.seed), event["phase"]
        if phase == "begun":
            self.begun[key] = time.monotonic()
        elif phase in {"train", "evaluation"}:
            self.success[key] = event.get("success") or 0.0
            self.at[key] = int(event.get("iteration") or 0)
        if event.get("seconds_left") is not None:
            self.until[key] = time.monotonic() + event["seconds_left"]
        if phase in {"train", "tick", "evaluation"}:
            self.latest[key] = event
        if phase == "ended" and event["finished"] and job.name != WARM:
            self.took.append(time.monotonic() - self.begun[key])
        if self.live is None and phase in {"begun", "ended", "failed"}:
            self._say(job, phase)

    def _say(self, job: PooledRun, phase: str) -> None:
        verb = {"begun": "begins", "failed": f"failed: {job.text}"}.get(phase, job.state)
        known = job.state == "finished" and (job.name, job.seed) in self.success
        rest = f" {percent(self.success[job.name, job.seed])}" if known else ""
        say(f"{job.name}, seed {job.seed}: {verb}{rest}{'' if phase == 'begun' else f'   ({self.standing()})'}")
        self.spoke = time.monotonic()

    def idle(self) -> None:
        """Off a terminal, say now and then how far everything is."""
        if self.live is None and time.monotonic() - self.spoke > QUIET:
            self.spoke = time.monotonic()
            running = [f"{job.name}/{job.seed} {self.cell(job).plain}" for job in self.jobs if job.state == "running"]
            say(f"  {self.standing()}; {', '.join(running)}")

    def standing(self) -> str:
        """How many runs are finished, and how long the others will take."""
        done = sum(job.state == "finished" for job in self.jobs)
        words = [f"{done} of {len(self.jobs)} runs finished", f"{duration(time.monotonic() - self.start)} gone"]
        left = self.left()
        return ", ".join([*words, f"about {duration(left)} left"] if left else words)

    def left(self) -> float | None:
        """Seconds that are left: what running runs expect, and for the others what one takes; None if nobody knows."""
        now = time.monotonic()
        running = [(job.name, job.seed) for job in self.jobs if job.state == "running" and job.name != WARM]
        rest = {key: max(0.0, self.until[key] - now) for key in running if key in self.until}
        spans = self.took or [now - self.begun[key] + left for key, left in rest.items()]
        if not spans:
            return None
        mean = sum(spans) / len(spans)
        waiting = mean * sum(job.state == "waiting" and job.name != WARM for job in self.jobs)
        return (waiting + sum(rest.get(key, max(0.0, mean - now + self.begun[key])) for key in running)) / self.workers

    def cell(self, job: PooledRun) -> Text:
        """How one run stands, in a few characters."""
        key = (job.name, job.seed)
        if job.state == "finished":
            return Text(f"✓ {percent(self.success[key])}" if key in self.success else "✓", style="green")
        if job.state == "failed":
            return Text("✗ failed", style="red")
        event = self.latest.get(key)
        if job.state != "running" or event is None:
            return Text({"running": "…", "waiting": "·"}.get(job.state, job.state), style="dim")
        if event["phase"] == "tick" and event["what"] in SHORT:
            return Text(f"{SHORT[event['what']]} {100 * event['done'] // max(1, event['total'])} %", style="cyan")
        shown = f" {percent(self.success[key])}" if key in self.success else ""
        at = f"{self.at.get(key, 0)}/{job.run.train.steps}" if job.run.train.steps else "evaluated"
        return Text(f"{at}{shown}", style="cyan")

    def render(self) -> RenderableType:
        """The table as it is now."""
        table = Table(box=None, padding=(0, 2), header_style="dim")
        table.add_column("")
        seeds = list(dict.fromkeys(job.seed for job in self.jobs))
        for seed in seeds:
            table.add_column(f"seed {seed}", justify="right", no_wrap=True)
        for name in dict.fromkeys(job.name for job in self.jobs):
            found = {job.seed: job for job in self.jobs if job.name == name}
            table.add_row(name, *(self.cell(found[seed]) for seed in seeds))
        failed = [Text(f"{job.name}, seed {job.seed}: {job.text}", style="red") for job in self.jobs if job.text]
        return Group(table, *failed[-4:], Text(self.standing(), style="bold"))


def _success(job: PooledRun) -> float:
    """Success of a run that was finished before, on the panel."""
    from turnwise.agents.evaluation import EvaluationResult

    return EvaluationResult.load(job.run.folder / "after.json").summary().success.value or 0.0


def jobs_of(ablation: Ablation) -> list[PooledRun]:
    """The runs in the order in which they are begun: seed by seed, the warm start first."""
    from turnwise.training.process_pool import PooledRun

    found: list[PooledRun] = []
    for seed in ablation.seeds:
        warm = PooledRun(WARM, seed, ablation.warm_start(seed))
        found += [warm, *(PooledRun(arm.name, seed, ablation.run(arm, seed), after=warm) for arm in ablation.arms)]
    return found


def write_results(ablation: Ablation, jobs: Sequence[PooledRun]) -> dict[str, Any]:
    """The findings, after they were written as results.json, results.md and curves.png."""
    from turnwise.training.ablation_results import ablation_results
    from turnwise.training.folder import write_json, write_text

    states = {(job.name, job.seed): job.state if not job.text else f"failed ({job.text})" for job in jobs}
    found = ablation_results(ablation, states)
    write_json(ablation.folder / "results.json", found)
    picture = "curves.png"
    try:
        save_figure(found, ablation.folder / picture)
    except UserError as error:
        warn(f"no figure: {error}")
        picture = ""
    write_text(ablation.folder / "results.md", markdown(found, picture))
    return found


def _planned(file: Path, words: Sequence[str], output: Path | None) -> Ablation:
    """The ablation that the command line names: of a run's file, or the one that a folder holds."""
    from turnwise.training.ablation import is_axis, plan, read_plan

    if file.is_dir():
        if words or output is not None:
            raise UserError(f"{file} is the folder of an ablation; it goes on as it was begun, without other words.")
        return read_plan(file)
    run = load_run(file, [word for word in words if not is_axis(word)], None)
    folder = output or (Path(run.output) if run.output else Path("runs") / f"ablate-{run.name}")
    command = shlex.join(["turnwise", "ablate", str(file), *words, *(["--output", str(output)] if output else [])])
    return replace(plan(run, [word for word in words if is_axis(word)], folder), command=command)


def ablate(
    file: Annotated[Path, typer.Argument(metavar="RUN.toml", help="The run's file, or the folder of an ablation.")],
    options: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE",
            help="credit=grpo,gigpo,gigpo:w=0.5 or KEY=A,B for arms, seeds=5, and keys of the file to replace.",
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of everything.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Runs at a time, each with the run's threads.")] = 1,
) -> None:
    """Train arms that differ in named keys from one warm start, with several seeds, and compare them."""
    from turnwise.training.ablation import CALLS, check, open_folder
    from turnwise.training.folder import locked
    from turnwise.training.process_pool import train_all

    ablation = _planned(file, list(options or ()), output)
    check(ablation)
    with locked(ablation.folder):
        open_folder(ablation)
        jobs = jobs_of(ablation)
        _print_plan(ablation, workers)
        worked = any(job.state != "finished" for job in jobs)
        with AblationProgress(jobs, workers) as overview:
            whole = train_all(jobs, workers, overview, idle=overview.idle)
        if worked:
            with (ablation.folder / CALLS).open("a", encoding="utf-8") as calls:
                calls.write(json.dumps({"workers": workers, "seconds": time.monotonic() - overview.start}) + "\n")
        if any(job.state == "finished" and job.name != WARM for job in jobs):
            found = write_results(ablation, jobs)
            if whole:
                _print_results(ablation, found)
    failed = [job for job in jobs if job.state == "failed"]
    for job in failed:
        warn(f"{job.name}, seed {job.seed} failed: {job.text}")
    if not whole:
        say("stopped; the same command goes on", "bold yellow")
        raise typer.Exit(INTERRUPTED)
    if failed:
        say("the same command tries what failed again", "bold yellow")
        raise typer.Exit(FAILED)


def _print_plan(ablation: Ablation, workers: int) -> None:
    runs = len(ablation.arms) * len(ablation.seeds)
    say(f"{len(ablation.arms)} arms x {len(ablation.seeds)} seeds = {runs} runs, {workers} at a time", "bold")
    for text in ablation.remarks():
        say(f"  note: {text}")
    say(f"  Everything goes to {ablation.folder}. Ctrl-C ends in good order, and the same command goes on.\n")


def _print_results(ablation: Ablation, found: dict[str, Any]) -> None:
    tasks = len(found["panel"].get("tasks", ()))
    say(f"\nSuccess on {tasks} tasks after training, in per cent, with 95 % intervals", "bold")
    out().print(terminal_table(found))
    say(
        "  (mean over seeds: t-interval; all episodes: Wilson; the verdict: paired over seeds, corrected by Holm)",
        "dim",
    )
    for name in ("results.md", "results.json", "curves.png"):
        if (ablation.folder / name).exists():
            say(f"  {ablation.folder / name}", "dim")

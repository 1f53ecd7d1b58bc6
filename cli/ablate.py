"""`turncredit ablate`: train variants of a run with several seeds, and test whether they differ."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from turncredit.cli.ablation_summary import summarise
from turncredit.cli.console import out, say, warn
from turncredit.cli.errors import INTERRUPTED, UserError
from turncredit.cli.options import Trust
from turncredit.cli.printing.log_lines import Event
from turncredit.cli.printing.tables import print_table, say_wrapped
from turncredit.cli.train import load_run
from turncredit.report.ablation_tables import (
    ablation_verdict,
    left_out_note,
    main_columns,
    markdown,
    save_figure,
    terminal_table,
)
from turncredit.report.errors import ReportError
from turncredit.report.number_text import duration, percent

if TYPE_CHECKING:
    from turncredit.ablation.plan import Ablation
    from turncredit.ablation.process_pool import PooledRun
    from turncredit.ablation.results import ResultTable

FAILED = 1
QUIET = 30.0
"""Seconds between progress lines without a terminal."""
WARM = "warm start"
SHORT = {"demonstrations": "demos", "imitation": "imitation", "evaluation": "eval"}
"""Phases of a run beside its iterations, short enough for a cell."""


class AblationProgress:
    """Shows the state of every arm and seed: a live table on a terminal, lines elsewhere; a context manager."""

    def __init__(self, jobs: Sequence[PooledRun], workers: int) -> None:
        """Watch jobs, whose state changes while they run."""
        self.jobs, self.workers, self.console = jobs, workers, out()
        self.latest: dict[tuple[str, int], Event] = {}
        self.success = {(job.name, job.seed): _success(job) for job in jobs if job.state == "finished"}
        self.at: dict[tuple[str, int], int] = {}
        self.begun: dict[tuple[str, int], float] = {}
        self.until: dict[tuple[str, int], float] = {}
        self.took: list[float] = []
        self.start = self.spoke = time.monotonic()
        self.live: Live | None = None

    def __enter__(self) -> AblationProgress:
        """Start the live table, on a terminal."""
        if self.console.is_terminal:
            self.live = Live(console=self.console, get_renderable=self.render, refresh_per_second=2)
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop updating; the last table stays on the screen."""
        if self.live is not None:
            self.live.stop()
            self.live = None

    def __call__(self, job: PooledRun, event: Event) -> None:
        """Record an event of a job."""
        key, phase = (job.name, job.seed), event["phase"]
        if phase == "begun":
            self.begun[key] = time.monotonic()
        elif phase in {"train", "evaluation"}:
            self.success[key] = event.get("success") or 0.0
            self.at[key] = int(event.get("iteration") or 0)
        if event.get("seconds_left") is not None:
            self.until[key] = time.monotonic() + event["seconds_left"]
        if phase in {"train", "tick", "evaluation"} or event.get("waits"):
            self.latest[key] = event
        if phase == "ended" and event["finished"] and job.name != WARM:
            self.took.append(time.monotonic() - self.begun[key])
        if self.live is None and phase in {"begun", "ended", "failed"}:
            self._say(job, phase)

    def _say(self, job: PooledRun, phase: str) -> None:
        verb = {"begun": "started", "failed": f"failed: {job.text}"}.get(phase, job.state)
        finished = job.state == "finished" and (job.name, job.seed) in self.success
        share = f" {percent(self.success[job.name, job.seed])}" if finished else ""
        say(f"{job.name}, seed {job.seed}: {verb}{share}{'' if phase == 'begun' else f'   ({self.status()})'}")
        self.spoke = time.monotonic()

    def idle(self) -> None:
        """Without a terminal, print the progress at regular intervals."""
        if self.live is None and time.monotonic() - self.spoke > QUIET:
            self.spoke = time.monotonic()
            running = [f"{job.name}/{job.seed} {self.cell(job).plain}" for job in self.jobs if job.state == "running"]
            say(f"  {self.status()}; {', '.join(running)}")

    def status(self) -> str:
        """Return how many runs are finished and the estimated time left."""
        done = sum(job.state == "finished" for job in self.jobs)
        words = [f"{done} of {len(self.jobs)} runs finished", f"{duration(time.monotonic() - self.start)} elapsed"]
        left = self.left()
        return ", ".join([*words, f"about {duration(left)} left"] if left else words)

    def left(self) -> float | None:
        """Return the estimated seconds left, or None while no run has an estimate."""
        current_time = time.monotonic()
        running = [(job.name, job.seed) for job in self.jobs if job.state == "running" and job.name != WARM]
        remaining = {key: max(0.0, self.until[key] - current_time) for key in running if key in self.until}
        spans = self.took or [current_time - self.begun[key] + left for key, left in remaining.items()]
        if not spans:
            return None
        mean = sum(spans) / len(spans)
        waiting = mean * sum(job.state == "waiting" and job.name != WARM for job in self.jobs)
        return (
            waiting + sum(remaining.get(key, max(0.0, mean - current_time + self.begun[key])) for key in running)
        ) / self.workers

    def cell(self, job: PooledRun) -> Text:
        """Return the state of a run in a few characters."""
        key = (job.name, job.seed)
        if job.state == "finished":
            return Text(f"✓ {percent(self.success[key])}" if key in self.success else "✓", style="green")
        if job.state == "failed":
            return Text("✗ failed", style="red")
        event = self.latest.get(key)
        if job.state != "running" or event is None:
            return Text({"running": "…", "waiting": "·"}.get(job.state, job.state), style="dim")
        if event.get("waits"):
            return Text("waits", style="dim")
        if event["phase"] == "tick" and event["what"] in SHORT:
            return Text(f"{SHORT[event['what']]} {100 * event['done'] // max(1, event['total'])} %", style="cyan")
        shown = f" {percent(self.success[key])}" if key in self.success else ""
        at = f"{self.at.get(key, 0)}/{job.run.train.iterations}" if job.run.train.iterations else "evaluated"
        return Text(f"{at}{shown}", style="cyan")

    def render(self) -> RenderableType:
        """Return the live table."""
        table = Table(box=None, padding=(0, 2), header_style="dim")
        table.add_column("")
        seeds = list(dict.fromkeys(job.seed for job in self.jobs))
        for seed in seeds:
            table.add_column(f"seed {seed}", justify="right", no_wrap=True)
        for name in dict.fromkeys(job.name for job in self.jobs):
            jobs = {job.seed: job for job in self.jobs if job.name == name}
            table.add_row(name, *(self.cell(jobs[seed]) for seed in seeds))
        failed = [Text(f"{job.name}, seed {job.seed}: {job.text}", style="red") for job in self.jobs if job.text]
        return Group(table, *failed[-4:], Text(self.status(), style="bold"))


def _success(job: PooledRun) -> float:
    """Return the success rate of a finished run."""
    from turncredit.evaluation.results import EvaluationResult

    return EvaluationResult.load(job.run.folder / "after.json").summary().success.value or 0.0


def jobs_of(ablation: Ablation) -> list[PooledRun]:
    """Return the runs in their starting order: seed by seed, the warm start first."""
    from turncredit.ablation.process_pool import PooledRun

    jobs: list[PooledRun] = []
    for seed in ablation.seeds:
        warm = PooledRun(WARM, seed, ablation.warm_start(seed), evaluated=ablation.evaluated)
        runs = [(arm.name, ablation.run(arm, seed)) for arm in ablation.arms]
        jobs += [warm, *(PooledRun(name, seed, run, after=warm, evaluated=ablation.evaluated) for name, run in runs)]
    return jobs


def write_results(ablation: Ablation, jobs: Sequence[PooledRun]) -> ResultTable:
    """Write results.json, results.md and curves.png, and return the results."""
    from turncredit.ablation.results import ablation_results
    from turncredit.agents.files.json_files import write_json, write_text

    states = {(job.name, job.seed): job.state if not job.text else f"failed ({job.text})" for job in jobs}
    results = ablation_results(ablation, states)
    write_json(ablation.folder / "results.json", results)
    picture = "curves.png"
    try:
        save_figure(results, ablation.folder / picture)
    except ReportError as error:
        warn(f"no figure: {error}")
        picture = ""
    write_text(ablation.folder / "results.md", markdown(results, picture))
    return results


def _planned(file: Path, words: Sequence[str], output: Path | None) -> Ablation:
    """Return the ablation of a run's file, or the one that a folder holds."""
    from turncredit.ablation.axes import SHORT, is_axis
    from turncredit.ablation.plan import PLAN, plan, read_plan
    from turncredit.training.config.file_options import require_safe_run

    if file.is_dir():
        if (words or output is not None) and (file / PLAN).is_file():
            raise UserError(f"{file} is an ablation folder and continues unchanged: remove the other arguments")
        there = read_plan(file)
        for run in [there.warm_start(there.seeds[0]), *(there.run(arm, there.seeds[0]) for arm in there.arms)]:
            require_safe_run(run)
        return there
    fixed = [word for word in words if not is_axis(word)]
    axes = {SHORT.get(key := word.partition("=")[0].strip(), key) for word in words if is_axis(word)}
    both = [word for word in fixed if word.partition("=")[0].strip() in axes]
    if both:
        raise UserError(f"{both[0]} has no effect, because the arms set that key; leave it out")
    run = load_run(file, fixed, None)
    folder = output or (Path(run.output) if run.output else Path("runs") / f"ablate-{run.name}")
    command = shlex.join(["turncredit", "ablate", str(file), *words, *(["--output", str(output)] if output else [])])
    return replace(plan(run, [word for word in words if is_axis(word)], folder), command=command)


def ablate(
    file: Annotated[Path, typer.Argument(metavar="RUN.toml", help="A run's file, an example or an ablation folder.")],
    options: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE",
            help="Arms: credit=grpo,gigpo:w=0.5,mine:rule or KEY=A,B. Seeds: seeds=5. Overrides: KEY=VALUE.",
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder for the results.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Number of runs at a time, each with the run's threads.")] = 1,
    summary: Annotated[
        bool, typer.Option("--summary", help="Train nothing: relate the gains in all these ablation folders.")
    ] = False,
    seconds: Annotated[
        float | None,
        typer.Option(min=1.0, help="No run and no iteration begins after this time; runs end with those they have."),
    ] = None,
    trust: Trust = False,
) -> None:
    """Train several variants ("arms") of a run with several seeds, and compare them.

    Arms differ in the named keys. All arms of a seed start from the same warm start.
    """
    if summary:
        summarise([file, *map(Path, options or ())], output)
        return
    from turncredit.ablation.plan import CALLS, check, open_folder
    from turncredit.ablation.process_pool import train_all
    from turncredit.agents.files.folder_lock import locked

    ablation = _planned(file, list(options or ()), output)
    check(ablation)
    with locked(ablation.folder, "running an ablation in"):
        open_folder(ablation)
        jobs = jobs_of(ablation)
        _print_plan(ablation, workers)
        worked = any(job.state != "finished" for job in jobs)
        with AblationProgress(jobs, workers) as overview:
            whole = train_all(jobs, workers, overview, idle=overview.idle, seconds=seconds)
        if worked:
            with (ablation.folder / CALLS).open("a", encoding="utf-8", errors="backslashreplace") as calls:
                calls.write(json.dumps({"workers": workers, "seconds": time.monotonic() - overview.start}) + "\n")
        if any(job.state == "finished" and job.name != WARM for job in jobs):
            results = write_results(ablation, jobs)
            if whole:
                _print_results(ablation, results)
    failed = [job for job in jobs if job.state == "failed"]
    for job in failed:
        warn(f"{job.name}, seed {job.seed} failed: {job.text}")
    if not whole:
        say("stopped; run the same command again to continue", "bold yellow")
        raise typer.Exit(INTERRUPTED)
    if failed:
        say("run the same command again to retry the failed runs", "bold yellow")
        raise typer.Exit(FAILED)


def _print_plan(ablation: Ablation, workers: int) -> None:
    runs = len(ablation.arms) * len(ablation.seeds)
    say(f"{len(ablation.arms)} arms x {len(ablation.seeds)} seeds = {runs} runs, {workers} at a time", "bold")
    for text in ablation.remarks():
        say(f"  note: {text}")
    say(f"  Results go to {ablation.folder}. Ctrl-C stops with checkpoints; the same command continues.\n")


def _print_results(ablation: Ablation, results: ResultTable) -> None:
    tasks = len(results["panel"].get("tasks", ()))
    say(f"\nSuccess on {tasks} tasks after training, in per cent, with 95 % intervals", "bold")
    print_table(terminal_table(results), main_columns(results))
    say_wrapped(ablation_verdict(results), "bold")
    if note := left_out_note(results):
        say_wrapped(note, "yellow")
    for name in ("results.md", "results.json", "curves.png"):
        if (ablation.folder / name).exists():
            say(f"  {ablation.folder / name}", "dim")
    say(f"  report: {shlex.join(['turncredit', 'report', str(ablation.folder)])}", "dim")

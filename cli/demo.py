"""`turnwise demo`: from nothing to a trained, evaluated agent, with every step of the house on the way.

Imitation of an expert gives a weak start, reinforcement learning on new generated games makes it better, and a panel of
held-out games says by how much. The settings are examples/demo.toml; nothing is hidden here.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from turnwise.cli.console import duration, out, say, warn
from turnwise.cli.errors import INTERRUPTED, UserError
from turnwise.cli.evaluate import rate_cells
from turnwise.cli.figures import save_curves
from turnwise.cli.plots import terminal_plot
from turnwise.cli.progress import curves_of
from turnwise.cli.train import load_run, train_with_progress

if TYPE_CHECKING:
    from turnwise.agents.evaluation import EvaluationResult
    from turnwise.training.config import Run

CONFIGURATION = Path(__file__).resolve().parent.parent / "examples" / "demo.toml"
"""The same relative path in a clone and in an installed wheel."""


def choose_folder(wanted: Path | None, method: str, seed: int) -> tuple[Path, bool]:
    """The folder of a demo and whether there is something to go on with.

    A demo that was interrupted is continued; one that is complete is left alone, and a new name is taken, unless the
    folder was named by the person.
    """
    if wanted is not None:
        return wanted, resumable(wanted)
    for number in range(1, 1000):
        folder = Path("runs") / f"demo-{method}-{seed}{'' if number == 1 else f'-{number}'}"
        if resumable(folder) or not (folder / "run.toml").exists():
            return folder, resumable(folder)
    raise UserError("runs/ holds a thousand demos; name a folder with --output.")


def resumable(folder: Path) -> bool:
    """True if a run was begun in the folder and has not come to its end; without a checkpoint it begins again there."""
    return (folder / "run.toml").exists() and not (folder / "after.json").exists()


def draw(folder: Path, title: str) -> Path | None:
    """Show the curve in the terminal and write it as PNG; returns the picture's path, None where that is impossible."""
    from turnwise.training.metrics import read_events

    curves = curves_of(read_events(folder / "metrics.jsonl"))
    out().print(terminal_plot(curves, width=min(72, out().width - 12), height=12, y_range=(0, 1)))
    path = folder / "curve.png"
    try:
        save_curves(curves, path, title=title, x_label="iteration", y_label="success", y_range=(0, 1))
    except (UserError, OSError) as error:
        warn(f"no picture: {error}")
        return None
    return path


def before_and_after(before: EvaluationResult, after: EvaluationResult) -> Table:
    """Success before and after training, side by side: over all tasks, and for every task type."""
    first, second = before.summary(), after.summary()
    table = Table(box=None, padding=(0, 2), header_style="dim")
    table.add_column("")
    for name in ("warm start", "interval", "trained", "interval", "n"):
        table.add_column(name, justify="right")
    rows = [("all tasks", first.success, second.success)]
    rows += [
        (f"  {kind}", rate, second.by_type[kind]) for kind, rate in first.by_type.items() if kind in second.by_type
    ]
    for name, one, two in rows:
        table.add_row(name, *rate_cells(one), *rate_cells(two), str(two.n), style="" if name[0] == " " else "bold")
    return table


def report(folder: Path, title: str, seconds: float) -> None:
    """Print what a run reached: both evaluations, their comparison, the curve, and where everything lies."""
    from turnwise.agents.comparison import compare
    from turnwise.agents.evaluation import EvaluationResult

    before, after = EvaluationResult.load(folder / "before.json"), EvaluationResult.load(folder / "after.json")
    say(f"\nSuccess on {len(before.panel.tasks)} held-out games, with 95 % intervals", "bold")
    out().print(before_and_after(before, after))
    comparison = compare(before, after)
    say("Game by game (first: warm start, second: trained):")
    say(comparison.verdict, "bold green" if comparison.p_success < comparison.alpha else "bold yellow")
    say()
    picture = draw(folder, title)
    say(f"\n{duration(seconds)} in all. Everything is in {folder}:", "bold")
    for file, what in (
        ("run.toml", "every setting"),
        ("metrics.jsonl", "every number"),
        ("before.json, after.json", "the evaluations, episode by episode"),
        (picture.name if picture else "", "the curve"),
        ("trajectories/", "what was played"),
        ("checkpoints/", "the policy, a Hugging Face folder"),
    ):
        if file:
            say(f"  {file:<24} {what}")
    _next_steps(folder)


def _next_steps(folder: Path) -> None:
    played = sorted((folder / "trajectories").glob("*.jsonl*"))
    say("\nGo on with:", "bold")
    say(f"  turnwise play --policy {folder}        # play yourself; :ask and :watch the agent")
    if played:
        say(f"  turnwise show {played[-1]}        # which turn got which credit")
    say(f"  turnwise eval {folder} --episodes 500        # more held-out games")


def _print_plan(run: Run, resume: bool) -> None:
    verb = "Going on with" if resume else "Training"
    words = [run.env.id, *(f"{key}={value}" for key, value in run.env.kwargs.items())]
    say(f"{verb} an agent on {' '.join(words)} with {run.credit.method}, seed {run.seed}.", "bold")
    say(f"  {run.imitation.episodes} demonstrations are imitated; then come {run.train.steps} iterations of")
    say(f"  {run.train.tasks} games, {run.train.group} episodes each; {run.evaluation.episodes} held-out games are")
    say("  played before and after.")
    say(f"  Results go to {run.folder}. Ctrl-C ends in good order, and the same command goes on.\n")


def demo(
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    method: Annotated[str, typer.Option(help="The credit rule: gigpo, grpo, ... (`turnwise list credit`).")] = "gigpo",
    output: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of the results.")] = None,
    config: Annotated[Path, typer.Option(metavar="RUN.toml", help="Another run to demonstrate.")] = CONFIGURATION,
    options: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Keys of the run's file to replace.")
    ] = None,
) -> None:
    """Train an agent on household games on this machine, in minutes, and show what it learned."""
    if config == CONFIGURATION and not config.is_file():
        raise UserError(f"{CONFIGURATION} is missing from this installation; name another file with --config")
    folder, resume = choose_folder(output, method, seed)
    words = [f"seed={seed}", f'credit.method="{method}"', *(options or ())]
    run = load_run(config, words, folder)
    if not run.evaluation.episodes:
        raise UserError("A demo evaluates before and after; evaluation.episodes is 0.")
    _print_plan(run, resume)
    start = time.monotonic()
    if not train_with_progress(run, resume=resume).finished:
        say("stopped; the same command goes on where it ended", "bold yellow")
        raise typer.Exit(INTERRUPTED)
    report(run.folder, f"{run.env.id}, {method}, seed {seed}", time.monotonic() - start)

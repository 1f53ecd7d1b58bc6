"""`turncredit demo`: train and evaluate an agent in minutes, with the settings of examples/demo.toml.

Imitation of a scripted player gives a weak start, reinforcement learning on other tasks improves it, and a panel of
held-out tasks measures by how much. `--quick` trains on a smaller world, with the settings of examples/demo_quick.toml.
"""

from __future__ import annotations

import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from turncredit.cli.command_line import resume_command
from turncredit.cli.console import out, say, warn
from turncredit.cli.errors import INTERRUPTED, UserError
from turncredit.cli.evaluate import rate_cells
from turncredit.cli.printing.progress import curves_of
from turncredit.cli.train import load_run, train_with_progress
from turncredit.report.errors import ReportError
from turncredit.report.figures import save_curves
from turncredit.report.number_text import duration
from turncredit.report.plots import terminal_plot

if TYPE_CHECKING:
    from turncredit.evaluation.results import EvaluationResult
    from turncredit.training.config.run import Run

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
"""The same relative path in a clone and in an installed wheel."""
CONFIGURATION = EXAMPLES / "demo.toml"
QUICK = EXAMPLES / "demo_quick.toml"


def require_training() -> None:
    """Check that what trains is installed, before anything is announced.

    Raises:
        ModuleNotFoundError: a package of the extra "train" is missing.
    """
    for package in ("torch", "transformers"):
        if find_spec(package) is None:
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)


def choose_folder(output: Path | None, name: str) -> tuple[Path, bool]:
    """Return the folder of a demo, and whether it holds an interrupted demo to continue.

    Without a wanted folder, a finished demo is left alone and the next free name is used.
    """

    from turncredit.training.run_folder.paths import RUN_FILE

    if output is not None:
        return output, resumable(output)
    for number in range(1, 1000):
        folder = Path("runs") / f"{name}{'' if number == 1 else f'-{number}'}"
        if resumable(folder) or not (folder / RUN_FILE).exists():
            return folder, resumable(folder)
    raise UserError("runs/ holds a thousand demos; name a folder with --output")


def resumable(folder: Path) -> bool:
    """Return whether the folder holds a run that has not finished."""

    from turncredit.training.run_folder.paths import RUN_FILE

    return (folder / RUN_FILE).exists() and not (folder / "after.json").exists()


def draw(folder: Path, title: str) -> Path | None:
    """Print the success curve, write it as PNG, and return the path of the PNG, or None if it could not be written."""
    from turncredit.training.run_folder.metrics import read_events

    curves = curves_of(read_events(folder / "metrics.jsonl"))
    out().print(terminal_plot(curves, width=min(72, out().width - 12), height=12, y_range=(0, 1)))
    path = folder / "curve.png"
    try:
        save_curves(curves, path, title=title, x_label="iteration", y_label="success", y_range=(0, 1))
    except (ReportError, OSError) as error:
        warn(f"no figure: {error}")
        return None
    return path


def before_and_after(before: EvaluationResult, after: EvaluationResult) -> Table:
    """Return success before and after training, over all tasks and for every task type."""
    first, second = before.summary(), after.summary()
    table = Table(box=None, padding=(0, 2), header_style="dim")
    table.add_column("")
    for name in ("warm start", "interval", "trained", "interval", "n"):
        table.add_column(name, justify="right")
    rows = [("all tasks", first.success, second.success)]
    rows += [
        (f"  {kind}", rate, second.by_type[kind]) for kind, rate in first.by_type.items() if kind in second.by_type
    ]
    for name, before_rate, after_rate in rows:
        table.add_row(
            name,
            *rate_cells(before_rate),
            *rate_cells(after_rate),
            str(after_rate.n),
            style="" if name[0] == " " else "bold",
        )
    return table


def report(run: Run, title: str, seconds: float) -> None:
    """Print both evaluations, their comparison, the curve, and what the run folder contains."""
    from turncredit.evaluation.comparison import compare
    from turncredit.evaluation.results import EvaluationResult
    from turncredit.training.config.file_options import needs_trust

    folder = run.folder
    before, after = EvaluationResult.load(folder / "before.json"), EvaluationResult.load(folder / "after.json")
    say(f"\nSuccess on {len(before.panel.tasks)} held-out tasks, with 95 % intervals", "bold")
    out().print(before_and_after(before, after))
    comparison = compare(before, after)
    say("Paired comparison (first: warm start, second: trained):")
    say(comparison.verdict, "bold green" if comparison.p_success < comparison.alpha else "bold yellow")
    say()
    picture = draw(folder, title)
    say(f"\n{duration(seconds)} in total. Results in {folder}:", "bold")
    for file, content in (
        ("run.toml", "every setting"),
        ("metrics.jsonl", "every number"),
        ("before.json, after.json", "the evaluations, episode by episode"),
        (picture.name if picture else "", "the curve"),
        ("trajectories/", "the episodes"),
        ("checkpoints/", "the policy, a Hugging Face folder"),
    ):
        if file:
            say(f"  {file:<24} {content}")
    _next_steps(folder, " --trust" if needs_trust(run) else "")


def _next_steps(folder: Path, trust: str) -> None:
    say("\nNext:", "bold")
    say(f"  turncredit play --policy {folder}{trust}        # play yourself; :ask or :watch the agent")
    say(f"  turncredit report {folder} --output report.html        # curves, groups and every turn in a browser")
    say(f"  turncredit show {folder}        # the advantage of every turn")
    say(f"  turncredit eval {folder} --episodes 500{trust}        # more held-out tasks")


_OPTIONS = {"output": "--output", "seed": "--seed", "credit.method": "--method"}
"""Keys that the demo sets itself, and its options for them."""


def demo(
    quick: Annotated[bool, typer.Option("--quick", help="A minute: a smaller world, a shorter run.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all random numbers.")] = 0,
    method: Annotated[
        str | None,
        typer.Option(
            show_default="that of RUN.toml", help="Credit rule: hgpo, gigpo, grpo, ... (`turncredit list credit`)."
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder for the results.")] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="RUN.toml", show_default="examples/demo.toml", help="Another run to use.")
    ] = None,
    options: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Override keys of the run's file.")
    ] = None,
) -> None:
    """Train an agent on household games in minutes, and show what it learned."""
    if quick and config is not None:
        raise UserError(f"--quick and --config {config} both name a run; expected one of them")
    file = config or (QUICK if quick else CONFIGURATION)
    if config is None and not file.is_file():
        raise UserError(f"{file} is missing from this installation; name another file with --config")
    from turncredit.training.config.toml import literal

    for word in options or ():
        key = word.partition("=")[0].strip()
        if key in _OPTIONS:
            raise UserError(f"{word} has no effect in the demo; use {_OPTIONS[key]}")
    words = [f"seed={seed}", *(options or ()), *([] if method is None else [f"credit.method={literal(method)}"])]
    rule = load_run(file, words, output).credit.method
    folder, resume = choose_folder(output, f"demo{'-quick' if quick else ''}-{rule.replace(':', '-')}-{seed}")
    run = load_run(file, words, folder)
    if not run.evaluation.episodes:
        raise UserError("the demo compares evaluations before and after training, but evaluation.episodes is 0")
    require_training()
    aim = "find lost parcels" if quick else "find, clean and place things in small kitchens"
    say(f"Training an agent to {aim}; Ctrl-C stops with a checkpoint.", "bold")
    start = time.monotonic()
    if not train_with_progress(run, resume=resume).finished:
        say(f"stopped; to continue, run the same command again, or: {resume_command(run.folder)}", "bold yellow")
        raise typer.Exit(INTERRUPTED)
    report(run, f"{run.env.id}, {rule}, seed {seed}", time.monotonic() - start)

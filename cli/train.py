"""`turnwise train`: a run as its file says, with its progress on the screen, and an end in good order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli.console import say
from turnwise.cli.errors import INTERRUPTED, UserError
from turnwise.cli.progress import Progress

if TYPE_CHECKING:
    from turnwise.training.config import Run
    from turnwise.training.loop import Outcome


def load_run(path: Path, words: Sequence[str], output: Path | None) -> Run:
    """The run of a TOML file, or of the folder of a run that was begun, with `key=value` on top.

    Raises:
        UserError: there is no such file.
        TrainingError: a key or a value is wrong.
    """
    from turnwise.training.config import Run

    overrides = list(words)
    if path.is_dir():
        if not (path / "run.toml").is_file():
            raise UserError(f"{path} is a folder without run.toml; the file of a run was wanted.")
        return _begun(path, overrides, output or path)
    if not path.is_file():
        raise UserError(f"{path} does not exist; the TOML file of a run was wanted.")
    if output is not None:
        overrides.append(f"output={_quoted(str(output))}")
    return Run.load(path, overrides)


def _begun(folder: Path, overrides: Sequence[str], output: Path) -> Run:
    """The run of a folder. Its file holds every key; those with their default values count as not set, as they were."""
    from turnwise.training.config import Run

    table = Run.load(folder / "run.toml").model_dump(exclude_defaults=True)
    return Run.parse(table, [*overrides, f"output={_quoted(str(output))}"], source=str(folder / "run.toml"))


def _quoted(text: str) -> str:
    """A text as a TOML string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def perform(run: Run, *, resume: bool) -> Outcome:
    """How a run ended that was trained and shown. Ctrl-C ends it after what is being done, with a checkpoint.

    Args:
        run: what to do.
        resume: go on from the last checkpoint.
    """
    from turnwise.training.loop import train as train_run

    with Progress(run.name, run.train.steps) as progress:
        return train_run(run, resume=resume, on_event=progress)


def after_words(outcome: Outcome) -> None:
    """Say where the results are and what can be done with them."""
    folder = outcome.folder
    if outcome.finished:
        say(f"done after {outcome.step} iterations: {folder}", "bold green")
    elif outcome.checkpoint is None:
        say(f"stopped in the warm start; turnwise train {folder} --resume begins it again", "bold yellow")
        return
    else:
        say(f"stopped after {outcome.step} iterations; turnwise train {folder} --resume goes on", "bold yellow")
    played = sorted((folder / "trajectories").glob("*.jsonl*"))
    if played:
        say(f"  look at it:    turnwise show {played[-1]}")
    say(f"  play with it:  turnwise play --policy {folder}")
    say(f"  evaluate it:   turnwise eval {folder}")


def train(
    file: Annotated[Path, typer.Argument(metavar="RUN.toml", help="The run's file, or the folder of a begun run.")],
    options: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="Keys of the file to replace (`turnwise list keys`)."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint.")] = False,
    output: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of the results.")] = None,
) -> None:
    """Train: imitation and reinforcement learning as the run's file says."""
    run = load_run(file, options or (), output)
    outcome = perform(run, resume=resume)
    after_words(outcome)
    if not outcome.finished:
        raise typer.Exit(INTERRUPTED)

"""`turncredit train`: run a TOML file, with progress and an orderly end after Ctrl-C."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turncredit.cli.command_line import command, resume_command
from turncredit.cli.console import discard_output, say, warn
from turncredit.cli.errors import INTERRUPTED, UserError
from turncredit.cli.listing.examples import no_such_run, run_file
from turncredit.cli.options import Trust
from turncredit.cli.printing.log_lines import Event
from turncredit.cli.printing.progress import Progress, start_line
from turncredit.cli.ranks import begun_here, note_begin, started_with_others, train_with_others
from turncredit.registry import trust_names
from turncredit.report.run_effort import effort_rows

if TYPE_CHECKING:
    from turncredit.training.config.run import Run
    from turncredit.training.learner.rank_commands import Leader
    from turncredit.training.training_run import TrainingResult


def load_run(path: Path, words: Sequence[str], output: Path | None) -> Run:
    """Return the run of a TOML file, an example or an existing run folder, with `key=value` overrides.

    A pretrained model is prompted as its environment says, unless the file does.

    Raises:
        UserError: there is no such file.
        TrainingError: a key or a value is wrong.
    """
    from turncredit.training.config.run import Run
    from turncredit.training.run_folder.paths import RUN_FILE
    from turncredit.training.run_folder.run_instructions import with_instructions

    path, overrides = run_file(path), list(words)
    if path.is_dir():
        if not (path / RUN_FILE).is_file():
            raise UserError(f"expected a TOML file or a run folder, but {path} is a folder without {RUN_FILE}")
        return _existing(path, overrides, output or path)
    if not path.is_file():
        raise UserError(no_such_run(path))
    trust_names()  # a run's file is the user's own program, as a script is
    if output is not None:
        overrides.append(f"output={_quoted(str(output))}")
    return with_instructions(Run.load(path, overrides))


def _existing(folder: Path, overrides: Sequence[str], output: Path) -> Run:
    """Return the run of a folder. Its file holds every key; keys with default values count as not set."""
    from turncredit.training.config.file_options import require_safe_run
    from turncredit.training.config.run import Run
    from turncredit.training.run_folder.paths import RUN_FILE

    there = Run.load(folder / RUN_FILE)
    table = there.model_dump(exclude_defaults=True)
    if there.train.asynchronous:  # the objective that is the default without it was chosen here
        table.setdefault("objective", {}).update(name=there.objective.name, old_logprobs=there.objective.old_logprobs)
    require_safe_run(there, overrides)
    return Run.parse(table, [*overrides, f"output={_quoted(str(output))}"], source=str(folder / RUN_FILE))


def _quoted(text: str) -> str:
    """Return a text as a TOML string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def train_with_progress(run: Run, *, resume: bool, leader: Leader | None = None) -> TrainingResult:
    """Train a run with its progress shown. Ctrl-C stops it after the current step, with a checkpoint.

    Args:
        run: the configuration.
        resume: continue from the last checkpoint.
        leader: commands the other ranks, if several train the policy.

    Raises:
        KeyboardInterrupt: Ctrl-C before anything could be saved; how to continue has been printed.
    """
    from turncredit.training.run_folder.paths import RUN_FILE
    from turncredit.training.training_run import train as train_run

    try:
        with Progress(run.name, run.train.iterations, start=start_line(run, resume=resume)) as progress:
            recorded = _recording_command(run.folder, progress)
            return train_run(run, resume=resume, on_event=recorded, leader=leader)
    except KeyboardInterrupt:
        if (run.folder / RUN_FILE).is_file():
            say(f"stopped; to continue: {resume_command(run.folder)}", "bold yellow")
        raise


def _recording_command(folder: Path, on_event: Callable[[Event], None]) -> Callable[[Event], None]:
    """Return a listener that notes, with the first event, that the run has begun: the command line in its folder.

    If the pipe that shows the progress is closed (`turncredit train ... | head`), it stops the run as Ctrl-C does.
    """

    from turncredit.training.run_folder.paths import COMMANDS

    recorded = False

    def listen(event: Event) -> None:
        nonlocal recorded
        if not recorded:
            recorded = True
            note_begin(folder)
            try:
                with (folder / COMMANDS).open("a", encoding="utf-8", errors="backslashreplace") as file:
                    file.write(f"{command()}\n")
            except OSError as error:
                warn(f"the command is not recorded: {error}")
        try:
            on_event(event)
        except BrokenPipeError:
            discard_output()
            warn(f"standard output was closed; the run stops; to continue: {resume_command(folder)}")
            signal.raise_signal(signal.SIGINT)

    return listen


def print_outcome(outcome: TrainingResult) -> None:
    """Print where the results are and what can be done with them, or how to continue."""
    from turncredit.training.run_folder.metrics import METRICS, read_events

    folder = outcome.folder
    if not outcome.finished:
        when = "in the warm start" if outcome.checkpoint is None else f"after {outcome.step} iterations"
        say(f"stopped {when}; to continue: {resume_command(folder)}", "bold yellow")
        return
    say(f"finished {outcome.step} iteration{'' if outcome.step == 1 else 's'}: {folder}", "bold green")
    for label, text in effort_rows(read_events(folder / METRICS)):
        say(f"  {label}: {text}", "dim")
    if any((folder / "trajectories").glob("*.jsonl*")):
        say(f"  look at it:    turncredit show {folder}")
    say(f"  play with it:  turncredit play --policy {folder}")
    say(f"  evaluate it:   turncredit eval {folder}")


def train(
    file: Annotated[Path, typer.Argument(metavar="RUN.toml", help="The run's file, an example's name, or a folder.")],
    options: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="Override keys of the file (`turncredit list keys`)."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the last checkpoint.")] = False,
    output: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder for the results.")] = None,
    trust: Trust = False,
) -> None:
    """Train an agent: imitation and reinforcement learning as configured in the run's file."""

    def load() -> Run:
        return load_run(file, options or (), output)

    def train_here(run: Run, leader: Leader | None = None) -> None:
        outcome = train_with_progress(run, resume=resume or begun_here(run.folder), leader=leader)
        print_outcome(outcome)
        if not outcome.finished:
            raise typer.Exit(INTERRUPTED)

    if started_with_others():
        train_with_others(load, train_here)
    else:
        train_here(load())

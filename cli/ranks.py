"""`turncredit train` in several processes that torchrun has started: rank 0 trains and talks, the others serve it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from turncredit.cli.errors import USER_ERROR
from turncredit.tools.bounded_input import InputError, read_bytes

if TYPE_CHECKING:
    from turncredit.training.config.run import Run
    from turncredit.training.learner.rank_commands import Leader

VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def started_with_others() -> bool:
    """Return whether the environment says that this process is one of several ranks, as under torchrun."""
    return all(os.environ.get(name) for name in VARIABLES) and os.environ["WORLD_SIZE"] != "1"


def begun_here(folder: Path) -> bool:
    """Return whether an earlier attempt of the same torchrun has begun to train in a folder (`--max-restarts`)."""
    note = _torchrun_note()
    if note is None:
        return False
    try:
        return read_bytes(note) == os.fsencode(folder.resolve())
    except (OSError, InputError):
        return False


def note_begin(folder: Path) -> None:
    """Leave a note for later attempts of the same torchrun, which then resume the run in this folder."""
    note = _torchrun_note()
    if note is not None:
        with suppress(OSError):  # without it, a later attempt is refused with a sentence
            note.write_bytes(os.fsencode(folder.resolve()))


def _torchrun_note() -> Path | None:
    """Return a path in the folder that torchrun makes for each of its calls; None if there is no torchrun.

    A run that was there before is not resumed without being asked, even though torchrun starts the ranks again after
    the refusal. If rank 0 moves to another machine, its torchrun has another folder.
    """
    file = os.environ.get("TORCHELASTIC_ERROR_FILE")  # FOLDER/attempt_N/RANK/error.json
    return Path(file).parents[2] / "turncredit-run" if file else None


def train_with_others(load: Callable[[], Run], lead_training: Callable[[Run, Leader], None]) -> None:
    """Train on rank 0, and serve it on the others, which say nothing that rank 0 says as well.

    Args:
        load: returns the run, as this rank reads it.
        lead_training: what rank 0 does.

    Raises:
        TrainingError: on rank 0, if a check fails on any of them.
    """
    from turncredit.training.errors import ConfigError, RankLost
    from turncredit.training.learner.rank_commands import lead, serve_rank
    from turncredit.training.learner.ranks import agree, join

    ranks = join()
    try:
        run, ranks = agree(ranks, load)
        if run.cluster.learners > 1:
            raise ConfigError("cluster.learners starts ranks by itself, so the run must not be started by torchrun")
        if ranks.leads:
            with lead(ranks) as leader:
                lead_training(run, leader)
            return
    except Exception:
        if ranks.leads:
            raise
        raise typer.Exit(USER_ERROR) from None
    try:
        serve_rank(ranks)
    except RankLost:
        raise typer.Exit(1) from None

"""The groups of a file of trajectories, all of them or those of some tasks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from turnwise.registry import suggest
from turnwise.report.errors import ReportError

if TYPE_CHECKING:
    from turnwise.agents.trajectory import Group


def read_groups(file: Path, task: str | None = None, *, credited: bool = False) -> list[Group]:
    """Return the groups of a file whose task id contains a text; all of them if it is None.

    Args:
        file: of trajectories.
        task: the text.
        credited: leave out groups that the run dropped, and members that its credit did not see.

    Raises:
        ReportError: the file is empty, or no task id contains the text.
        StoreError: the file holds something else.
    """
    from turnwise.agents.files.trajectory_files import read_trajectories
    from turnwise.agents.trajectory import grouped
    from turnwise.training.sampling.sampling_files import credited_groups

    trajectories = list(read_trajectories(file))
    groups = (credited_groups(file, trajectories) if credited else None) or grouped(trajectories)
    if not groups:
        raise ReportError(f"{file} holds no trajectory")
    selected = [group for group in groups if task is None or task in group.task]
    if not selected:
        raise ReportError(f"{file} holds no task {task!r}{suggest(str(task), {group.task for group in groups})}")
    return selected


def require_turns(groups: list[Group], file: Path) -> None:
    """Check that there are turns to compare.

    Raises:
        ReportError: no trajectory is finished, or none has a turn.
    """
    if not any(trajectory.turns for group in groups for trajectory in group.finished):
        raise ReportError(f"{file} holds no turn of a finished trajectory, so there is nothing to compare")

"""The groups of a file of trajectories, all of them or those of some tasks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from turncredit.registry import suggest
from turncredit.report.errors import ReportError

if TYPE_CHECKING:
    from turncredit.agents.trajectory import Group
    from turncredit.training.sampling.sampling_files import CreditedGroups


def read_groups(file: Path, task: str | None = None, *, credited: bool = False) -> list[Group]:
    """Return the groups of a file whose task id contains a text; all of them if it is None.

    Args:
        file: of trajectories.
        task: the text.
        credited: as `read_credited`.

    Raises:
        ReportError: the file is empty, or no task id contains the text.
        StoreError: the file holds something else.

    Warns:
        MissingEpisodes: as `read_credited`.
    """
    if credited:
        return read_credited(file, task).groups
    from turncredit.agents.files.trajectory_files import read_trajectories
    from turncredit.agents.trajectory import grouped

    return of_task(grouped(read_trajectories(file)), file, task)


def read_credited(file: Path, task: str | None = None) -> CreditedGroups:
    """Return the groups of a file as the run's credit saw them.

    Groups that the run dropped and members that its credit did not see are left out, and members that joined from
    experience are added. A file that belongs to no run, or whose groups were all dropped, has its groups as stored.

    Args:
        file: of trajectories.
        task: a text that the ids of the groups' tasks contain; None: any.

    Raises:
        ReportError: the file is empty, or no task id contains the text.
        StoreError: the file holds something else.

    Warns:
        MissingEpisodes: some of those that joined are stored no longer.
    """
    from turncredit.agents.files.trajectory_files import read_trajectories
    from turncredit.agents.trajectory import grouped
    from turncredit.training.sampling.sampling_files import CreditedGroups, credited_groups

    trajectories = list(read_trajectories(file))
    seen = credited_groups(file, trajectories)
    if seen is None or not seen.groups:
        seen = CreditedGroups(grouped(trajectories))
    return replace(seen, groups=of_task(seen.groups, file, task))


def of_task(groups: list[Group], file: Path, task: str | None) -> list[Group]:
    """Return the groups whose task id contains a text; all of them if it is None.

    Args:
        groups: of a file.
        file: the file.
        task: the text.

    Raises:
        ReportError: there are no groups, or no task id contains the text.
    """
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

"""The groups of an iteration as they were drawn, how they grew, and what became of them, for the tables of a report.

What a table leaves out is usual: one round, weight 1, no options, no hint, nobody from experience, all members counted
and trained on.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from turncredit.report.run_report.revisions import Parts

if TYPE_CHECKING:
    from turncredit.agents.trajectory import Group, Trajectory
    from turncredit.training.types import State

LONGEST = 300
"""Characters of a hint or of options that are kept."""

USUAL: Parts = {"rounds": 1, "weight": 1.0, "replayed": 0, "hinted": 0, "hints": [], "options": None, "dropped": None}
"""Values that are left out."""


def drawn_groups(entries: Sequence[State], groups: Sequence[Group], number: Callable[[str], int]) -> list[Parts]:
    """Return one row for each group that was drawn for an iteration, in the order in which they began.

    Args:
        entries: what the run wrote down; see `SamplingFiles`.
        groups: the stored episodes as the report shows them.
        number: gives the position of a string.

    Returns:
        task, size (episodes drawn), group (place among `groups`; -1: none of its episodes is stored), played, finished
        and won (episodes), and, where they are not usual: counted and kept (finished episodes that credit saw, and that
        are trained on), rounds, weight, dropped (the rule; empty if its name is not known), hinted (episodes), hints,
        options, replayed (episodes that joined from experience).
    """
    places = {member.id: (index, member) for index, group in enumerate(groups) for member in group.trajectories}
    return [_row(entry, places, number) for entry in entries]


def _row(entry: State, places: Mapping[str, tuple[int, Trajectory]], number: Callable[[str], int]) -> Parts:
    stored = [places[name] for name in entry["members"] if name in places]
    finished = [member for _, member in stored if member.finished]
    options = _named(entry["options"])
    helped = [member.hint for _, member in stored if member.hint]
    row = {
        "task": number(entry["task"]),
        "size": entry["size"],
        "group": stored[0][0] if stored else -1,
        "played": len(entry["members"]),
        "finished": len(finished),
        "won": sum(member.won for member in finished),
        "rounds": entry["rounds"],
        "weight": entry["weight"] if math.isfinite(entry["weight"]) else str(entry["weight"]),
        "dropped": None if entry["dropped"] is None else number(str(entry["dropped"])),
        "hinted": len(helped),
        "hints": [number(_clip(text)) for text in dict.fromkeys(helped)],
        "options": number(_clip(options)) if options else None,
        "replayed": len(entry.get("replayed", ())),
    }
    row |= {key: len(entry[key]) for key in ("counted", "kept") if entry[key] is not None}
    return {key: value for key, value in row.items() if key not in USUAL or value != USUAL[key]}


def _named(options: object) -> str:
    """Return the options of a draw as words; empty if there are none."""
    from turncredit.training.run_folder.state_json import from_json

    table = from_json(options)
    if not isinstance(table, Mapping):
        return str(table)
    return ", ".join(f"{name}={json.dumps(value, default=str)}" for name, value in table.items())


def _clip(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"

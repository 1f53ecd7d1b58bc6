"""The episodes of one iteration as the report needs them.

`summary` holds a few numbers for each episode and is part of every page. `turns` holds the texts and advantages, and
`tokens` the sampled tokens; the page reads these two only when somebody opens the iteration. Strings are stored once
per iteration, and lists hold their positions.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from turncredit.agents.errors import StoreError
from turncredit.report.run_report.drawn_groups import drawn_groups
from turncredit.report.run_report.endings import ending, repeated
from turncredit.report.run_report.heard_warnings import heard_warnings
from turncredit.report.run_report.revisions import Parts
from turncredit.report.run_report.rounding import rounded_number
from turncredit.report.run_report.truth_data import true_credit

if TYPE_CHECKING:
    from turncredit.agents.steps import Anchor
    from turncredit.agents.trajectory import Group, Trajectory, Turn
    from turncredit.credit import Advantages, Steps
    from turncredit.report.credit_settings import CreditSettings
    from turncredit.training.sampling.sampling_files import CreditedGroups

LONGEST = 20_000
"""Characters of one text that the report keeps: the first half of them from its beginning, the rest from its end."""

MAX_TOKENS = 4000
"""Tokens of one prompt that the report keeps, from the first that was not in the turn before."""

Pieces = Callable[[int], str]
"""Gives the text of a token."""


@dataclass(frozen=True)
class Iteration:
    """The episodes of one file of trajectories.

    `notes` say what could not be read, and `sampling` what was drawn, as the run wrote it down.
    """

    number: int
    groups: list[Group]
    notes: list[str] = field(default_factory=list)
    file: Path | None = None
    sampling: list[Parts] | None = None


def read(file: Path, number: int) -> Iteration:
    """Return everything that is whole in a file of trajectories, which may still be growing."""
    from turncredit.agents.errors import StoreError
    from turncredit.agents.files.trajectory_files import read_trajectories
    from turncredit.agents.trajectory import grouped

    trajectories: list[Trajectory] = []
    notes: list[str] = []
    with heard_warnings() as heard:
        try:
            trajectories.extend(read_trajectories(file))
        except (StoreError, OSError, EOFError) as error:
            notes.append(f"{error}; the {len(trajectories)} episodes before it are shown")
    notes += heard
    return Iteration(number, grouped(_last_attempts(trajectories)), notes, file, _sampling(file, number, notes))


def _last_attempts(trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    """Return trajectories without those that ended as errors and were played again, as evaluations count them."""
    last: list[Trajectory] = []
    failed: dict[str, int] = {}
    for trajectory in trajectories:
        position = failed.pop(trajectory.id, len(last))
        last[position : position + 1] = [trajectory]
        if trajectory.stop == "error":
            failed[trajectory.id] = position
    return last


def _sampling(file: Path, number: int, notes: list[str]) -> list[Parts] | None:
    """Return what was drawn for an iteration; None where that is not written down, or cannot be read."""
    from turncredit.training.sampling.sampling_files import sampled_entries

    try:
        return sampled_entries(file)
    except StoreError as error:
        notes.append(f"what was drawn for iteration {number} cannot be read: {error}")
        return None


def summary(iteration: Iteration) -> Parts:
    """Return counts and outcomes of every episode, by group, as lists in the order of the group's members.

    `drawn` has a row for each group that was drawn; None where the run did not write that down.
    """
    strings = Strings()
    groups = [
        {
            "task": strings.number(group.task),
            "type": strings.number(next((t.task_type for t in group.trajectories if t.task_type), "")),
            "won": [None if t.stop == "error" else int(t.won) for t in group.trajectories],
            "reward": [rounded_number(t.reward) for t in group.trajectories],
            "turns": [len(t.turns) for t in group.trajectories],
            "stop": [strings.number(t.stop) for t in group.trajectories],
            "ending": [strings.number(ending(t) or "") for t in group.trajectories],
        }
        for group in iteration.groups
    ]
    notes = list(iteration.notes)
    try:
        drawn = drawn_groups(iteration.sampling, iteration.groups, strings.number) if iteration.sampling else None
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        notes.append(f"what was drawn for iteration {iteration.number} cannot be read: {type(error).__name__}: {error}")
        drawn = None
    return {"number": iteration.number, "strings": strings.all, "groups": groups, "notes": notes, "drawn": drawn}


def turns(iteration: Iteration, settings: CreditSettings | None, only: int | None = None) -> Parts:
    """Return texts, states, rewards and advantages of every turn.

    Args:
        iteration: the episodes.
        settings: the credit rules; None: no advantages.
        only: position of the one group that is wanted; its advantages are those among all groups. None: all of them.
    """
    strings, notes = Strings(), list[str]()
    settings = settings if settings is None or iteration.file is None else settings.of_file(iteration.file)
    credited = _credit(iteration, settings, notes) | true_credit(iteration.groups, iteration.file, settings, notes)
    anchor: Anchor = "state" if settings is None else settings.anchor
    groups = {
        str(index): {
            "members": [
                _member(trajectory, strings, credited, anchor) | _fork(trajectory, group)
                for trajectory in group.trajectories
            ]
        }
        for index, group in _wanted(iteration, only)
    }
    return {"strings": strings.all, "groups": groups, "rules": list(credited), "notes": notes}


def tokens(iteration: Iteration, pieces: Pieces | None = None, only: int | None = None) -> Parts:
    """Return for every turn the tokens that it adds to its prompt, and the sampled ones with their log-probabilities.

    Args:
        iteration: the episodes.
        pieces: gives the text of a token; None: the tokenizer is not known.
        only: as in `turns`.
    """
    groups = {
        str(index): {"members": [_tokens_of(trajectory) for trajectory in group.trajectories]}
        for index, group in _wanted(iteration, only)
    }
    if pieces is None:
        return {"groups": groups, "pieces": None}
    members = [member for group in groups.values() for member in group["members"]]
    used = {token for member in members for key in ("added", "response") for row in member[key] for token in row}
    return {"groups": groups, "pieces": {str(token): pieces(token) for token in sorted(used)}}


def _wanted(iteration: Iteration, only: int | None) -> list[tuple[int, Group]]:
    numbered = list(enumerate(iteration.groups))
    return numbered if only is None else numbered[only : only + 1]


def packed(content: Parts) -> bytes:
    """Return a content as compressed JSON; equal contents give equal bytes."""
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return gzip.compress(text.encode("ascii"), 6, mtime=0)


class Strings:
    """A list in which every string occurs once."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """Return the position of a string, which is added if it is new."""
        position = self._numbers.get(text)
        if position is None:
            position = self._numbers[text] = len(self.all)
            self.all.append(text)
        return position


def _member(trajectory: Trajectory, strings: Strings, credited: dict[str, Parts], anchor: Anchor) -> Parts:
    from turncredit.agents.steps import anchors_of

    played = trajectory.turns

    def texts(values: Sequence[str]) -> list[int]:
        return [strings.number(_clip(value)) for value in values]

    return {
        "id": trajectory.id,
        "seed": trajectory.seed,
        "score": rounded_number(trajectory.score),
        "seconds": rounded_number(trajectory.seconds),
        "error": None if trajectory.error is None else _clip(trajectory.error),
        "final": strings.number(_clip(trajectory.final_observation)),
        "observation": texts([turn.observation for turn in played]),
        "images": "".join("1" if turn.images else "0" for turn in played),
        "answer": texts([turn.text for turn in played]),
        "action": [-1 if turn.action is None else strings.number(_clip(turn.action)) for turn in played],
        "state": texts(anchors_of(trajectory, anchor)[:-1]),
        "reward": [rounded_number(turn.reward) for turn in played],
        "mark": "".join(map(_mark, played)),
        "repeat": "".join("1" if again else "0" for again in repeated(played)),
        "finish": {str(row): turn.finish for row, turn in enumerate(played) if turn.finish != "stop"},
        "extras": {str(row): _extras(turn) for row, turn in enumerate(played) if turn.extras},
        "version": [turn.version for turn in played],
        "credit": {
            rule: advantages[trajectory.id] for rule, advantages in credited.items() if trajectory.id in advantages
        },
    }


def _fork(trajectory: Trajectory, group: Group) -> Parts:
    """Return where an episode began in another one: [position of the parent in the group or -1, turn]."""
    if trajectory.fork_of is None:
        return {}
    ids = [member.id for member in group.trajectories]
    return {"fork": [ids.index(trajectory.fork_of) if trajectory.fork_of in ids else -1, trajectory.fork_turn or 0]}


def _mark(turn: Turn) -> str:
    """Return "." for a valid turn, "u" for an answer that could not be parsed, "i" for an inadmissible action."""
    if turn.action is None:
        return "u"
    return "." if turn.valid else "i"


def _extras(turn: Turn) -> dict[str, str]:
    return {_clip(str(name), 80): _clip(str(value), 300) for name, value in turn.extras.items()}


def _credit(iteration: Iteration, settings: CreditSettings | None, notes: list[str]) -> dict[str, Parts]:
    """Return the advantages by rule and trajectory; a rule that cannot be applied leaves a note.

    They are those among the members that the run's credit saw, stored episodes of earlier iterations among them.
    """
    if settings is None:
        return {}
    from turncredit.agents.errors import StepsError
    from turncredit.agents.steps import steps_of
    from turncredit.credit import CreditError

    seen = _seen(iteration, notes)
    masked = frozenset[str]() if seen is None else seen.masked
    try:
        groups = iteration.groups if seen is None else seen.groups
        steps = steps_of(groups, anchor=settings.anchor, only_common=True)
    except (StepsError, CreditError) as error:
        notes.append(f"no advantages: {error}")
        return {}
    advantages: dict[str, Parts] = {}
    with heard_warnings() as heard:
        for rule in settings.rules:
            try:
                advantages[rule] = _by_trajectory(steps, settings.advantages(rule, steps), masked)
            except CreditError as error:
                notes.append(f"{rule} is left out: {error}")
    notes += dict.fromkeys(heard)
    return advantages


def _seen(iteration: Iteration, notes: list[str]) -> CreditedGroups | None:
    """Return what the run's credit saw of an iteration; None: all groups, as they are stored."""
    if iteration.sampling is None or iteration.file is None:
        return None
    from turncredit.training.sampling.sampling_files import credited_groups

    trajectories = [member for group in iteration.groups for member in group.trajectories]
    with heard_warnings() as heard:
        try:
            seen = credited_groups(iteration.file, trajectories)
        except (OSError, ValueError, KeyError, TypeError) as error:
            notes.append(f"advantages are those among all stored episodes: what was drawn cannot be read: {error}")
            return None
    notes += heard
    return seen


def _by_trajectory(steps: Steps, result: Advantages, masked: Collection[str]) -> Parts:
    """Return values, parts and left out rows of every trajectory, in the order of its turns.

    Args:
        steps: table of the turns.
        result: their advantages.
        masked: ids of trajectories that are not trained on.
    """
    rows: dict[str, list[int]] = {}
    for row in steps.time_order.tolist():
        rows.setdefault(str(result.trajectory[row]), []).append(row)
    return {
        trajectory: {
            "value": [rounded_number(result.values[row]) for row in mine],
            "parts": {name: [rounded_number(column[row]) for row in mine] for name, column in result.parts.items()},
            "dropped": [index for index, row in enumerate(mine) if trajectory in masked or not result.keep[row]],
        }
        for trajectory, mine in rows.items()
    }


def _tokens_of(trajectory: Trajectory) -> Parts:
    same, added, before = list[int](), list[list[int]](), tuple[int, ...]()
    for turn in trajectory.turns:
        shared = _shared(before, turn.prompt)
        same.append(shared)
        added.append(list(turn.prompt[shared : shared + MAX_TOKENS]))
        before = turn.prompt + turn.response
    return {
        "prompt": [len(turn.prompt) for turn in trajectory.turns],
        "same": same,
        "added": added,
        "response": [list(turn.response) for turn in trajectory.turns],
        "logprob": [[rounded_number(value, 3) for value in turn.logprobs] for turn in trajectory.turns],
    }


def _shared(before: tuple[int, ...], prompt: tuple[int, ...]) -> int:
    """Return how many tokens a prompt has in common with the sequence before it, from the beginning."""
    if prompt[: len(before)] == before:
        return len(before)
    return next(index for index, pair in enumerate(zip_longest(before, prompt)) if pair[0] != pair[1])


def _clip(text: str, longest: int = LONGEST) -> str:
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]}\n… {len(text) - 2 * half:,} characters are left out of this report …\n{text[-half:]}"

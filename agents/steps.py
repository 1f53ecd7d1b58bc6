"""From play to credit: the table of turns of a set of groups.

Failed episodes are left out, since no statistic may count them. Tokens appear as a number only.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from turncredit.agents.errors import StepsError
from turncredit.agents.reported_values import FILLED
from turncredit.agents.trajectory import Extra, Group, Trajectory, Turn
from turncredit.credit import Steps
from turncredit.registry import suggest

Anchor = Literal["state", "observation", "history"]
COLUMNS = (*FILLED, "logprob", "unfinished")
"""The columns that `steps_of` fills in by itself; environments and samplers add others as extras."""
FOREST = ("tree", "parent", "forked", "fork_turn")
"""Those that it fills in where episodes are forked."""
CUT = ("truncated", "turns", "tokens")
"""Ends of episodes that would have gone on: at a limit of the environment, of the agent, or of the context."""
SOURCE, TEACHER = "source", 2
"""The one that it fills in where another model played some episodes: this number for theirs, 0 for the policy's."""


def steps_of(
    groups: Sequence[Group], anchor: Anchor = "state", *, forest: bool = False, only_common: bool = False
) -> Steps:
    """Return the table of turns: one row per turn, in the order of groups, trajectories, turns.

    Trajectories that ended as "error" have no rows. The reward is the environment's own; penalties for invalid actions
    belong to the credit rule, which reads the column `valid`. Two groups of one task instance stay two groups.

    Args:
        groups: as returned by a rollout.
        anchor: what makes two turns comparable; see `anchors_of`. The columns `state` and `next_state` hold it; the
            next state of the last turn is the final one.
        forest: give the columns of `FOREST` even if no trajectory is a fork.
        only_common: leave out an extra column that some turns lack, as episodes of several sources do, instead of
            refusing it.

    Returns:
        Steps with the columns of `COLUMNS` (tokens: number of sampled tokens; logprob: their mean; action: None for an
        answer that could not be parsed; unfinished: whether the episode ended as one of `CUT`), and one column for
        every name in `Turn.extras`. If there are forks, those of `FOREST` as well: tree (id of the trajectory without a
        parent that the row's descends from), parent (the turn that the row follows, as the trajectory that sampled it
        and its number; equal for turns with one past, and empty for the first turn), forked (1 for a fork, else 0) and
        fork_turn (the first turn that the row's trajectory sampled itself, at least in part; 0 without a parent).

    Raises:
        StepsError: the anchor is unknown, or some turns lack an extra column that others have, and not `only_common`.
    """
    if anchor not in get_args(Anchor):
        raise StepsError(f"unknown anchor {anchor!r}{suggest(anchor, get_args(Anchor))}")
    played = [(number, trajectory) for number, group in enumerate(groups) for trajectory in group.finished]
    anchors = [anchors_of(trajectory, anchor) for _, trajectory in played]
    turns = [turn for _, trajectory in played for turn in trajectory.turns]
    if not turns:
        return Steps.empty()
    labels = _labels(groups)
    extras: dict[str, list[Extra]] = _extras(turns, only_common)
    if any(trajectory.teacher for _, trajectory in played):
        extras[SOURCE] = [TEACHER if trajectory.teacher else 0 for _, trajectory in played for _ in trajectory.turns]
    if forest or any(trajectory.fork_of is not None for _, trajectory in played):
        extras |= _forest(groups)
    return Steps.from_columns(
        task=[labels[number] for number, trajectory in played for _ in trajectory.turns],
        trajectory=[trajectory.id for _, trajectory in played for _ in trajectory.turns],
        turn=[time for _, trajectory in played for time in range(len(trajectory.turns))],
        reward=[turn.reward for turn in turns],
        state=[key for keys in anchors for key in keys[:-1]],
        action=[turn.action for turn in turns],
        next_state=[key for keys in anchors for key in keys[1:]],
        valid=[turn.valid for turn in turns],
        tokens=[len(turn.response) for turn in turns],
        **{
            "logprob": [sum(turn.logprobs) / max(1, len(turn.logprobs)) for turn in turns],
            "unfinished": [trajectory.stop in CUT for _, trajectory in played for _ in trajectory.turns],
            **extras,
        },
    )


def anchors_of(trajectory: Trajectory, anchor: Anchor) -> list[str]:
    """Return what each turn of an episode is compared by, and last what the episode ended with: one more than turns.

    Args:
        trajectory: the episode.
        anchor: "state", the environment's state key; "observation", the text that the agent saw, as in the published
            methods; or "history", all the states of the episode up to the turn, in their order.
    """
    if anchor == "observation":
        return [*(turn.observation for turn in trajectory.turns), trajectory.final_observation]
    states = [*(turn.state for turn in trajectory.turns), trajectory.final_state]
    if anchor == "state":
        return states
    past, keys = hashlib.blake2b(digest_size=16), list[str]()
    for state in states:
        past.update(f"{len(state)}:{state}".encode(errors="surrogatepass"))  # the length keeps "a", "bc" from "ab", "c"
        keys.append(past.hexdigest())
    return keys


def _extras(turns: Sequence[Turn], only_common: bool) -> dict[str, list[Extra]]:
    """Return the extra columns of the turns."""
    counts = Counter(name for turn in turns for name in turn.extras)
    names = [name for name, count in counts.items() if count == len(turns) or not only_common]
    for name in names:
        if name in FILLED:
            raise StepsError(f'info["extras"] must not contain {name!r}, which every turn has already')
        missing = len(turns) - counts[name]
        if missing:
            raise StepsError(
                f"{missing} of {len(turns)} turns lack the extra column {name!r}; put it into the extras of reset(), "
                "which are the defaults of all turns"
            )
    return {name: [turn.extras[name] for turn in turns] for name in names}


def _forest(groups: Sequence[Group]) -> dict[str, list[Extra]]:
    """Return the columns of `FOREST`."""
    trees, parents, forked, starts = list[Extra](), list[Extra](), list[Extra](), list[Extra]()
    for group in groups:
        by_id = {trajectory.id: trajectory for trajectory in group.trajectories}
        for trajectory in group.finished:
            lineage = _lineage(trajectory, by_id)
            trees += [lineage[-1][0]] * len(trajectory.turns)
            forked += [int(trajectory.fork_of is not None)] * len(trajectory.turns)
            starts += [trajectory.fork_turn or 0] * len(trajectory.turns)
            for number in range(len(trajectory.turns)):
                owner = next(name for name, start in lineage if number > start or not start)
                parents.append(f"{owner}/{number}" if number else "")
    return dict(zip(FOREST, (trees, parents, forked, starts), strict=True))


def _lineage(trajectory: Trajectory, by_id: Mapping[str, Trajectory]) -> list[tuple[str, int]]:
    """Return an episode and those it descends from, each with the first turn that it sampled; the last one with 0."""
    lineage: list[tuple[str, int]] = []
    ancestor: Trajectory | None = trajectory
    while ancestor is not None and ancestor.fork_of is not None:
        lineage.append((ancestor.id, ancestor.fork_turn or 0))
        trajectory, ancestor = ancestor, by_id.get(ancestor.fork_of)
    return [*lineage, (str(trajectory.fork_of) if ancestor is None else ancestor.id, 0)]


def _labels(groups: Sequence[Group]) -> list[str]:
    """Return the task of each group, made unique where a task was drawn twice."""
    times = Counter(group.task for group in groups)
    return [
        group.task if times[group.task] == 1 else f"{group.task} (group {number})"
        for number, group in enumerate(groups)
    ]

"""From play to credit: the table of turns of a set of groups.

Left out on purpose: failed episodes, which are data for the report but which no statistic may count; and tokens, of
which the table has the number only.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Literal, get_args

from turnwise.agents.trajectory import Group, Trajectory
from turnwise.credit import Steps
from turnwise.training.errors import TrainingError, near

Anchor = Literal["state", "observation"]
COLUMNS = ("task", "trajectory", "turn", "reward", "state", "action", "next_state", "valid", "tokens", "logprob")
"""What `steps_of` knows of a turn."""


def steps_of(groups: Sequence[Group], anchor: Anchor = "state") -> Steps:
    """Return the table of turns: one row a turn, in the order of groups, trajectories, turns.

    Trajectories that ended as `error` have no rows; a trajectory without turns has none either. The reward is the
    environment's own: what an invalid action costs is the estimator's business (`valid` is false there). Two groups of
    one task instance in the same call stay two groups.

    Args:
        groups: as rolled out.
        anchor: what makes two turns comparable: "state", the environment's own key of the situation, or "observation",
            the text that the agent saw, as the published methods have it. The table's `state` and `next_state` hold
            it; after the last turn stands the final one.

    Returns:
        Steps with task, trajectory, turn, reward, state, action, next_state, valid, tokens (sampled ones)
        and logprob (their mean). An
        unparsable answer has the action None.

    Raises:
        TrainingError: the anchor is unknown.
    """
    if anchor not in get_args(Anchor):
        raise TrainingError(f"anchor={anchor!r} is unknown{near(anchor, get_args(Anchor))}")
    played = [(number, trajectory) for number, group in enumerate(groups) for trajectory in group.finished]
    turns = [turn for _, trajectory in played for turn in trajectory.turns]
    if not turns:
        return Steps.empty()
    labels = _labels(groups)
    return Steps.from_columns(
        task=[labels[number] for number, trajectory in played for _ in trajectory.turns],
        trajectory=[trajectory.id for _, trajectory in played for _ in trajectory.turns],
        turn=[time for _, trajectory in played for time in range(len(trajectory.turns))],
        reward=[turn.reward for turn in turns],
        state=[turn.state if anchor == "state" else turn.observation for turn in turns],
        action=[turn.action for turn in turns],
        next_state=[key for _, trajectory in played for key in _afterwards(trajectory, anchor)],
        valid=[turn.valid for turn in turns],
        tokens=[len(turn.response) for turn in turns],
        logprob=[sum(turn.logprobs) / max(1, len(turn.logprobs)) for turn in turns],
    )


def _labels(groups: Sequence[Group]) -> list[str]:
    """The task of each group, told apart where the same task was drawn twice."""
    times = Counter(group.task for group in groups)
    return [
        group.task if times[group.task] == 1 else f"{group.task} (group {number})"
        for number, group in enumerate(groups)
    ]


def _afterwards(trajectory: Trajectory, anchor: Anchor) -> list[str]:
    """The anchor that followed each turn."""
    if anchor == "state":
        keys = [*(turn.state for turn in trajectory.turns), trajectory.final_state]
    else:
        keys = [*(turn.observation for turn in trajectory.turns), trajectory.final_observation]
    return keys[1:]

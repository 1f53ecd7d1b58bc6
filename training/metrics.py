"""Metrics of a run: JSON lines always, TensorBoard events on request; and the numbers of one iteration's play.

Left out on purpose: trackers that need an account or a network; they can read the JSON lines.
"""

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from turnwise.agents.store import name_file_in_errors
from turnwise.agents.trajectory import Group, Trajectory
from turnwise.credit.advantages import Advantages
from turnwise.credit.blocks import compact, group_sums, groups_of, trajectory_scores
from turnwise.credit.steps import Steps
from turnwise.training.errors import TrainingError


class MetricsWriter:
    """Appends events to a file of JSON lines, each flushed as it comes; a context manager."""

    def __init__(
        self, path: Path, *, size: int | None = None, tensorboard: Path | None = None, purge: int | None = None
    ) -> None:
        """Open the file.

        Args:
            path: the file; made if it is missing.
            size: bytes that are kept of what is there (where a checkpoint stood); None keeps all.
            tensorboard: folder of TensorBoard events; None writes none.
            purge: iteration from which TensorBoard forgets what an earlier writer said; None forgets nothing.

        Raises:
            OSError: the file cannot be written.
            TrainingError: TensorBoard was asked for and is not installed.
        """
        self._path = path
        self._file = path.open("ab", buffering=0)  # or closing it would once more write what a full disk refused
        if size is not None and size < self._file.tell():
            self._file.truncate(size)
            self._file.seek(0, os.SEEK_END)  # truncating does not move the position that tell() gives
        self._board = None if tensorboard is None else _board(tensorboard, purge)

    def write(self, event: Mapping[str, Any]) -> None:
        """Append one event; numbers that are not finite become null. TensorBoard gets no steps of the warm start."""
        line = json.dumps({key: _plain(value) for key, value in event.items()}, ensure_ascii=False)
        self._put(line.encode() + b"\n")
        if "step" in event:
            return  # the board's axis counts iterations
        if self._board is not None and isinstance(event.get("iteration"), int):
            for key, value in event.items():
                if key != "iteration" and isinstance(value, int | float) and not isinstance(value, bool):
                    self._board.add_scalar(f"{event.get('phase', 'run')}/{key}", value, event["iteration"])

    def _put(self, data: bytes) -> None:
        with name_file_in_errors(self._path):
            while data:
                data = data[self._file.write(data) :]

    def tell(self) -> int:
        """Give the size of the file in bytes, once it is safely on the disk."""
        os.fsync(self._file.fileno())
        return self._file.tell()

    def close(self) -> None:
        """Close the file and the events."""
        self._file.close()
        if self._board is not None:
            self._board.close()

    def __enter__(self) -> "MetricsWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _board(folder: Path, purge: int | None) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ModuleNotFoundError as error:
        raise TrainingError("tensorboard = true needs TensorBoard: pip install turnwise[log]") from error
    return SummaryWriter(str(folder), purge_step=purge)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


def play_metrics(groups: Sequence[Group]) -> dict[str, float]:
    """Sum up what was played.

    Returns:
        episodes, errors (episodes that ended as "error"), outgrown (those that ended as "tokens"); of all but errors:
        success and reward (mean), turns (mean), and as shares of turns: unparsable, inadmissible, loops (the turn
        repeats an earlier state and action of its trajectory); tokens (sampled, of all episodes).
    """
    everyone = [trajectory for group in groups for trajectory in group.trajectories]
    done = [trajectory for trajectory in everyone if trajectory.stop != "error"]
    turns = sum(len(trajectory.turns) for trajectory in done)
    count, of_turns = max(1, len(done)), 1.0 / max(1, turns)
    return {
        "episodes": len(everyone),
        "errors": len(everyone) - len(done),
        "outgrown": sum(trajectory.stop == "tokens" for trajectory in done),
        "success": sum(trajectory.won for trajectory in done) / count,
        "reward": sum(trajectory.reward for trajectory in done) / count,
        "turns": turns / count,
        "tokens": sum(len(turn.response) for trajectory in everyone for turn in trajectory.turns),
        "unparsable": sum(trajectory.unparsable for trajectory in done) * of_turns,
        "inadmissible": sum(trajectory.inadmissible for trajectory in done) * of_turns,
        "loops": sum(map(repeated_turns, done)) * of_turns,
    }


def repeated_turns(trajectory: Trajectory) -> int:
    """Count the turns that do again what was done before in the same state."""
    seen: set[tuple[str, str]] = set()
    repeats = 0
    for turn in trajectory.turns:
        key = (turn.state, turn.text if turn.action is None else turn.action)
        repeats += key in seen
        seen.add(key)
    return repeats


def credit_metrics(advantages: Advantages) -> dict[str, float]:
    """Sum up what credit gave.

    Returns:
        As shares of turns: signal (advantage other than zero), step_signal (the turn itself has a say, beside its
        trajectory: as the rule reports it, else where its part "step" is other than zero or its part "base" is not the
        whole; 0 for a rule with none of these).
    """
    count, parts = max(1, len(advantages)), advantages.parts
    step = parts["step"] if "step" in parts else advantages.values - parts.get("base", advantages.values)
    share = float(np.count_nonzero(np.abs(step) > 1e-12)) / count
    return {
        "signal": float(np.count_nonzero(advantages.values)) / count,
        "step_signal": float(advantages.report.get("step_signal", share)),
    }


def group_metrics(steps: Steps, advantages: Advantages) -> dict[str, float]:
    """Say how much there was to compare, whatever the credit rule, and how far the rule told turns apart.

    Returns:
        no_variance_groups: share of tasks whose episodes all had the same reward, so that outcomes tell nothing apart.
        singleton_states: share of pairs of task and state that only one trajectory visited: a step group of one.
        shared_turns: share of turns in a state that another trajectory of the task visited as well.
        turn_share: share of the variance of the advantages that lies within trajectories: 0 where all turns of an
        episode have the same one, 1 where all the difference is between turns.
    """
    if not len(steps):
        return {"no_variance_groups": 0.0, "singleton_states": 0.0, "shared_turns": 0.0, "turn_share": 0.0}
    scores, tasks, member = trajectory_scores(steps)
    task, count = compact(tasks), groups_of(compact(tasks))
    low, high = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(low, task, scores)
    np.maximum.at(high, task, scores)
    found = {"no_variance_groups": float(np.mean(high - low <= 1e-12 * np.maximum(np.abs(low), np.abs(high))))}
    if "state" in steps:
        state = compact(steps.task, steps.column("state"))
        pairs = np.unique(np.stack([state, member]), axis=1)[0]
        visitors = np.bincount(pairs, minlength=groups_of(state))
        found |= {
            "singleton_states": float(np.mean(visitors == 1)),
            "shared_turns": float(np.mean(visitors[state] > 1)),
        }
    mean = group_sums(member, advantages.values, len(scores)) / np.bincount(member, minlength=len(scores))
    total = float(np.sum((advantages.values - advantages.values.mean()) ** 2))
    within = float(np.sum((advantages.values - mean[member]) ** 2))
    return found | {"turn_share": within / total if total > 1e-12 * len(steps) else 0.0}


def read_events(path: Path) -> list[dict[str, Any]]:
    """Give the events of a file of metrics; a torn line is left out, and a file that is not there has none."""
    if not path.is_file():
        return []
    events = []
    for text in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            event = json.loads(text)
        except ValueError:
            continue
        if isinstance(event, Mapping):
            events.append(dict(event))
    return events

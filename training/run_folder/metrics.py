"""Metrics of a run as JSON lines and numbers for loggers, and the statistics of one iteration."""

import math
import os
from collections.abc import Mapping, Sequence
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np

from turncredit.agents.files.folder_lock import check_lock
from turncredit.agents.files.trajectory_files import name_file_in_errors
from turncredit.agents.trajectory import Group, Trajectory
from turncredit.credit.advantages import Advantages
from turncredit.credit.numerics import compact, group_sums, groups_of, positions, trajectory_scores
from turncredit.credit.steps import Floats, Ints, Steps
from turncredit.task_ids import part_of
from turncredit.tools.bounded_input import InputError, open_file, parse_json, read_lines
from turncredit.tools.visible_text import json_text
from turncredit.training.run_folder.loggers import Logger
from turncredit.training.run_folder.sample_episodes import SampleEpisode

Event = dict[str, Any]
"""An event of a run: its phase and iteration, and values by name."""

METRICS = "metrics.jsonl"
"""Name of the file in a run's folder."""

MAX_EVENT = 16 << 20
"""Bytes of one event; those of this program have a few thousand."""

GROUP_METRICS = ("no_variance_groups", "singleton_states", "shared_turns", "shared_later_turns", "turn_share")
"""Keys of `group_metrics`."""


class MetricsWriter:
    """Appends events to a file of JSON lines and flushes each one; a context manager."""

    def __init__(self, path: Path, *, size: int | None = None, loggers: Sequence[Logger] = ()) -> None:
        """Open the file.

        Args:
            path: the file; it is created if it is missing.
            size: bytes of an existing file to keep (its size at a checkpoint); None keeps all.
            loggers: receive the numbers of all events that belong to an iteration; they are closed with the file.

        Raises:
            OSError: the file cannot be written.
        """
        self._path = path
        self._file = self._open()
        if size is not None and size < self._file.tell():
            self._file.truncate(size)
            self._file.seek(0, os.SEEK_END)  # truncating does not move the position that tell() gives
        if _is_torn(path):
            self._put(b"\n")  # or the next event would continue the line
        self._loggers = loggers

    def _open(self) -> FileIO:
        return self._path.open("ab", buffering=0)  # or closing it would once more write what a full disk refused

    def renew(self) -> bool:
        """Begin the file again if somebody has removed or replaced it; return whether that was so.

        Raises:
            StoreError: the whole folder is gone.
            OSError: the file cannot be written.
        """
        try:
            if os.path.samestat(os.stat(self._path), os.fstat(self._file.fileno())):
                return False
        except FileNotFoundError:
            pass
        check_lock(self._path.parent)
        self._file.close()
        self._file = self._open()
        return True

    def write(self, event: Event) -> None:
        """Append one event. Non-finite numbers become null. Loggers do not receive the steps of the warm start."""
        line = json_text({key: _plain(value) for key, value in event.items()}, ascii=False)
        self._put(line.encode("utf-8") + b"\n")
        if values := event_numbers(event):
            for logger in self._loggers:
                logger.log(values, event["iteration"])

    def show(self, samples: Sequence[SampleEpisode], iteration: int) -> None:
        """Send episodes of an iteration to the loggers; nothing is written."""
        for logger in self._loggers:
            logger.show(samples, iteration)

    @property
    def logs(self) -> bool:
        """Whether there are loggers."""
        return bool(self._loggers)

    def _put(self, data: bytes) -> None:
        with name_file_in_errors(self._path):
            while data:
                data = data[self._file.write(data) :]

    def tell(self) -> int:
        """Return the size of the file in bytes after flushing it to disk."""
        os.fsync(self._file.fileno())
        return self._file.tell()

    def close(self) -> None:
        """Close the file and the loggers."""
        self._file.close()
        for logger in self._loggers:
            logger.close()

    def __enter__(self) -> "MetricsWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def event_numbers(event: Mapping[str, object]) -> dict[str, float]:
    """Return the numbers of an event by name, such as "train/loss"; none for steps of the warm start.

    >>> event_numbers({"phase": "train", "iteration": 3, "loss": 0.5, "text": "x", "done": True})
    {'train/loss': 0.5}
    """
    if "step" in event or not isinstance(event.get("iteration"), int):  # the axis of loggers counts iterations
        return {}
    plain = {key: _plain(value) for key, value in event.items() if key != "iteration"}
    numbers = {key: value for key, value in plain.items() if isinstance(value, int | float)}
    phase = event.get("phase", "run")
    return {f"{phase}/{key}": value for key, value in numbers.items() if not isinstance(value, bool)}


def _plain(value: object) -> object:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


def play_metrics(groups: Sequence[Group]) -> dict[str, float]:
    """Return statistics of the episodes of one iteration.

    Returns:
        episodes, errors (episodes that ended as "error"), uncounted (others that are no sample of what the policy
        achieves: forks, what teachers played, episodes with a hint, and those with a temperature of their own), tokens
        (sampled, in all episodes but those of teachers), outgrown (of these, the episodes that outgrew the context).
        Over all episodes but errors and uncounted ones: success, reward and turns (means), success_error (see its
        function), and as shares of turns: unparsable, inadmissible, loops (turns that repeat an earlier state and
        action of their trajectory).
    """
    everyone = [trajectory for group in groups for trajectory in group.trajectories]
    own = [trajectory for trajectory in everyone if not trajectory.teacher]
    whole = [trajectory for trajectory in everyone if trajectory.plain]
    done = [trajectory for trajectory in whole if trajectory.finished]
    turns = sum(len(trajectory.turns) for trajectory in done)
    count, of_turns = max(1, len(done)), 1.0 / max(1, turns)
    return {
        "episodes": len(everyone),
        "errors": sum(not trajectory.finished for trajectory in everyone),
        "uncounted": sum(trajectory.finished and not trajectory.plain for trajectory in everyone),
        "outgrown": sum(trajectory.stop == "tokens" for trajectory in own),
        "success": sum(trajectory.won for trajectory in done) / count,
        "success_error": success_error(groups),
        "reward": sum(trajectory.reward for trajectory in done) / count,
        "turns": turns / count,
        "tokens": sum(trajectory.sampled_tokens for trajectory in own),
        "unparsable": sum(trajectory.unparsable for trajectory in done) * of_turns,
        "inadmissible": sum(trajectory.inadmissible for trajectory in done) * of_turns,
        "loops": sum(map(repeated_turns, done)) * of_turns,
    }


PART_METRICS = ("episodes", "errors", "uncounted", "success", "success_error", "reward", "turns")
"""Keys of `play_metrics` that `part_metrics` has of every part."""


def part_metrics(groups: Sequence[Group], parts: Sequence[str]) -> dict[str, float]:
    """Return statistics of the episodes of each part of a mixture that was played in an iteration.

    Args:
        groups: of the iteration.
        parts: names of the parts.

    Returns:
        The numbers of `PART_METRICS`, each as "success/PART".
    """
    by_part: dict[str, list[Group]] = {name: [] for name in parts}
    for group in groups if parts else ():
        by_part[part_of(group.task, parts)].append(group)
    played = {name: play_metrics(own) for name, own in by_part.items() if own}
    return {f"{key}/{name}": numbers[key] for name, numbers in played.items() for key in PART_METRICS}


def success_error(groups: Sequence[Group]) -> float:
    """Return the standard error of the mean success, with groups as the units that were drawn; NaN where unknown.

    Forks and helped episodes do not count.

    The episodes of a group play one task and are alike, so they say less than as many of different tasks: with n_g
    episodes and w_g won ones in each of G groups, and p = sum w / sum n (a ratio estimate; Cochran 1977),
    se^2 = G / (G - 1) x sum (w_g - p n_g)^2 / (sum n_g)^2.

    It is unknown with fewer than two groups, and where all groups won the same share: a sample without a spread does
    not say how far off its mean may be.
    """
    whole = [[trajectory for trajectory in group.finished if trajectory.plain] for group in groups]
    pairs = [(len(done), sum(trajectory.won for trajectory in done)) for done in whole]
    counts, won = np.array([pair for pair in pairs if pair[0]], dtype=np.float64).reshape(-1, 2).T
    if len(counts) < 2:
        return math.nan
    residuals = won - counts * won.sum() / counts.sum()
    if np.abs(residuals).max() <= 1e-9:
        return math.nan
    return float(np.sqrt(len(counts) / (len(counts) - 1) * (residuals**2).sum()) / counts.sum())


def sampled_entropy(groups: Sequence[Group]) -> float:
    """Return the mean of -log p over all tokens that the policy sampled in finished episodes, nats; 0 without tokens.

    It estimates the mean entropy of the distributions that the tokens were drawn from, whatever a credit rule makes of
    them.
    """
    played = [trajectory for group in groups for trajectory in group.finished if not trajectory.teacher]
    logprobs = [value for trajectory in played for value in trajectory.sampled_logprobs]
    return math.fsum(-value for value in logprobs) / max(1, len(logprobs))


def repeated_turns(trajectory: Trajectory) -> int:
    """Return the number of turns that repeat an earlier action in the same state."""
    seen: set[tuple[str, str]] = set()
    repeats = 0
    for turn in trajectory.turns:
        key = (turn.state, turn.text if turn.action is None else turn.action)
        repeats += key in seen
        seen.add(key)
    return repeats


def credit_metrics(advantages: Advantages) -> dict[str, float]:
    """Return statistics of the advantages.

    Returns:
        signal: share of turns with a non-zero advantage.
        step_signal: share of turns whose advantage depends on the turn itself and not on its trajectory alone: as the
            rule reports it, else where its part "step" is non-zero or its part "base" differs from the advantage.
        advantage, advantage_std: mean and standard deviation over the turns that are kept. A mean below zero pushes
            down what all turns have in common, such as their end token.
    """
    if not len(advantages):
        return {"signal": 0.0, "step_signal": 0.0, "advantage": 0.0, "advantage_std": 0.0}
    values, parts = advantages.values, advantages.parts
    step = parts["step"] if "step" in parts else values - parts.get("base", values)
    share = float(np.mean(np.abs(step) > 1e-12))
    used = values[advantages.keep] if advantages.keep.any() else np.zeros(1)
    return {
        "signal": float(np.mean(values != 0)),
        "step_signal": float(advantages.report.get("step_signal", share)),
        "advantage": float(used.mean()),
        "advantage_std": float(used.std()),
    }


def group_metrics(steps: Steps, advantages: Advantages, outcome: str = "") -> dict[str, float]:
    """Return how much the groups offer for comparison, and how far the credit rule distinguishes turns.

    Args:
        steps: table of the turns, with the rewards that credit saw.
        advantages: of the turns.
        outcome: column with what the environment paid for the whole episode, where reward rules changed the rewards.

    Returns:
        no_variance_groups: share of groups whose episodes all had the same reward.
        no_outcome_variance: share of groups whose episodes all earned the same from the environment; only with the
        column.
        singleton_states: share of (task, state) pairs that only one trajectory visited.
        shared_turns: share of turns in a state that another trajectory of the group also visited.
        shared_later_turns: the same among the turns after the first one of each trajectory, whose state all share.
        turn_share: share of the variance of the advantages that lies within trajectories: 0 if all turns of an episode
        have the same advantage.
    """
    if not len(steps):
        return dict.fromkeys(GROUP_METRICS, 0.0)
    scores, tasks, member = trajectory_scores(steps)
    metrics = {"no_variance_groups": _share_without_variance(scores, compact(tasks))}
    if outcome in steps.extra:
        earned = np.zeros(len(scores))
        earned[member] = steps.column(outcome)
        metrics["no_outcome_variance"] = _share_without_variance(earned, compact(tasks))
    if "state" in steps:
        state = compact(steps.task, steps.column("state"))
        pairs = np.unique(np.stack([state, member]), axis=1)[0]
        visitors = np.bincount(pairs, minlength=groups_of(state))
        shared = visitors[state] > 1
        later = shared[positions(steps) > 0]
        metrics |= {
            "singleton_states": float(np.mean(visitors == 1)),
            "shared_turns": float(np.mean(shared)),
            "shared_later_turns": float(np.mean(later)) if len(later) else 0.0,
        }
    mean = group_sums(member, advantages.values, len(scores)) / np.bincount(member, minlength=len(scores))
    total = float(np.sum((advantages.values - advantages.values.mean()) ** 2))
    within = float(np.sum((advantages.values - mean[member]) ** 2))
    return metrics | {"turn_share": within / total if total > 1e-12 * len(steps) else 0.0}


def _share_without_variance(scores: Floats, task: Ints) -> float:
    """Return the share of groups whose scores are all the same.

    Args:
        scores: of the trajectories.
        task: number of the group of each.
    """
    count = groups_of(task)
    low, high = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(low, task, scores)
    np.maximum.at(high, task, scores)
    return float(np.mean(high - low <= 1e-12 * np.maximum(np.abs(low), np.abs(high))))


def _is_torn(path: Path) -> bool:
    """Whether the last line of a file has no end."""
    with open_file(path) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        return file.read(1) not in (b"", b"\n")


def read_events(path: Path) -> list[Event]:
    """Return the events of a metrics file without incomplete lines; a missing file has no events."""
    return stored_events(path)[0]


def stored_events(path: Path) -> tuple[list[Event], list[str]]:
    """Return the events of a metrics file, and sentences about what of it cannot be read."""
    events: list[Event] = []
    if not path.is_file():
        return events, [f"{path.name} is missing"]
    damaged: list[int] = []
    problems: list[str] = []
    try:
        for number, line in enumerate(read_lines(path, max_line=MAX_EVENT), 1):
            event = _event_of(line)
            if event is not None:
                events.append(event)
            elif line.strip():
                damaged.append(number)
    except InputError as error:
        problems.append(f"{error}; what follows was not read")
    if damaged:
        more = f" (and {len(damaged) - 1} more)" if damaged[1:] else ""
        problems.insert(0, f"{path.name}, line {damaged[0]}{more} is no event: it is damaged or incomplete")
    return events, problems


def missing_iterations(events: Sequence[Mapping[str, object]], step: int) -> tuple[int, int]:
    """Return how many of the first `step` iterations have no event "train", and the first of these (0: none).

    It takes as long as there are events, however large a number a damaged file has.
    """
    numbers = {event.get("iteration") for event in events if event.get("phase") == "train"}
    told = {number for number in numbers if isinstance(number, int) and 1 <= number <= step}
    if len(told) >= step:
        return 0, 0
    return step - len(told), next(number for number in range(1, len(told) + 2) if number not in told)


def size_until(path: Path, step: int) -> int:
    """Return the bytes of a metrics file before the first event of an iteration after `step`."""
    size = 0
    with open_file(path) as file:
        for line in file:
            event = _event_of(line)
            if event is not None and isinstance(event.get("iteration"), int) and event["iteration"] > step:
                break
            size += len(line)
    return size


def _event_of(line: bytes) -> Event | None:
    """Return the event of a line; None if it holds none."""
    try:
        event = parse_json(line.decode("utf-8", errors="replace"), "the line", encodable=True)
    except InputError:
        return None
    if not isinstance(event, dict) or ("phase" in event and type(event.get("iteration")) is not int):
        return None
    return event

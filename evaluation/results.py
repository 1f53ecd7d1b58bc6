"""Results: the episodes of one player on a panel, and their rates, each with its interval and its n.

Episodes that ended as ``error`` say nothing about the player: they are left out of every rate, and counted.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from turncredit.agents.files.json_files import read_json, validated, write_json
from turncredit.agents.trajectory import Trajectory
from turncredit.evaluation.panels import VERSION, Panel, panel_json
from turncredit.evaluation.statistics import wilson, wilson_of_tasks
from turncredit.task_ids import part_of


@dataclass(frozen=True, slots=True)
class EpisodeRow:
    """One episode of an evaluation."""

    task: str
    task_type: str | None
    won: bool
    score: float
    turns: int
    stop: str
    unparsable: int
    inadmissible: int
    error: str | None = None
    truncated: int = 0
    """Turns whose answer was cut at the limit of tokens."""
    prompt_tokens: int = 0
    """Tokens of the prompts of all turns; 0 if nobody counted them."""
    response_tokens: int = 0
    cost: float | None = None
    """Price of the requests, if the sampler knows prices."""
    refused: int = 0
    """Turns whose answer the model or its server refused."""
    empty: int = 0
    """Turns for which a server answered without any text."""
    harm: bool | None = None
    """Whether the agent obeyed instructions of an attacker; None if the task had none."""
    counted: int | None = None
    """Turns whose tokens are known; the others count nothing. None in files that do not say."""
    priced: int | None = None
    """Turns whose price is known."""
    trial: int = 0
    """Number of the trial of its task, from 0; its seed is that of the panel plus this."""

    @classmethod
    def of(cls, trajectory: Trajectory) -> EpisodeRow:
        """Return the row of a trajectory."""
        return cls(
            trajectory.task,
            trajectory.task_type,
            trajectory.won,
            trajectory.score,
            len(trajectory.turns),
            trajectory.stop,
            trajectory.unparsable,
            trajectory.inadmissible,
            trajectory.error,
            trajectory.truncated_answers,
            trajectory.prompt_tokens,
            trajectory.response_tokens,
            trajectory.cost,
            trajectory.refused_answers,
            trajectory.empty_answers,
            trajectory.harm,
            trajectory.counted_answers,
            trajectory.priced_answers,
            trajectory.trial,
        )


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate with its 95 % interval: Wilson's, or over several trials of each task that of `wilson_of_tasks`."""

    value: float | None
    """None if n is 0."""
    low: float
    high: float
    k: int
    n: int

    @classmethod
    def of(cls, k: int, n: int) -> Rate:
        """Return the rate of k in n."""
        return cls(k / n if n else None, *wilson(k, n), k, n)

    @classmethod
    def of_tasks(cls, counts: Sequence[tuple[int, int]]) -> Rate:
        """Return the rate over all trials of some tasks, from (successes, trials) of each."""
        k, n = sum(k for k, _ in counts), sum(n for _, n in counts)
        return cls(k / n if n else None, *wilson_of_tasks(counts), k, n)

    def __str__(self) -> str:
        """Return the rate with interval and n, in percent."""
        if self.value is None:
            return "no episode (n=0)"
        return f"{100 * self.value:.1f} % [{100 * self.low:.1f}, {100 * self.high:.1f}] (n={self.n})"


@dataclass(frozen=True)
class EvaluationSummary:
    """Statistics of a result. Means are over episodes without an error, and rates of answers over their turns."""

    success: Rate
    by_type: Mapping[str, Rate]
    score: float | None
    turns: float | None
    turns_won: float | None
    """Mean number of turns of the won episodes."""
    unparsable: float | None
    inadmissible: float | None
    stops: Mapping[str, int]
    errors: int
    """Episodes that ended as an error; they are in no rate and no mean."""
    truncated: float | None = None
    """Share of turns whose answer was cut at the limit of tokens."""
    prompt_tokens: float | None = None
    """Tokens of the prompts of an episode, too few where `counted` is below 1; None if nobody counted tokens."""
    response_tokens: float | None = None
    cost: float | None = None
    """Price of an episode; None if no price is known."""
    refused: float | None = None
    """Share of turns whose answer was refused."""
    empty: float | None = None
    """Share of turns whose answer was empty."""
    harm: Rate | None = None
    """Share of the attacked episodes in which the agent obeyed; None if no episode was attacked."""
    counted: float | None = None
    """Share of turns whose tokens are known; None if nobody counted tokens, or the file does not say."""
    priced: float | None = None
    """Share of turns whose price is known; None without prices, or if the file does not say."""
    by_part: Mapping[str, Rate] = field(default_factory=dict)
    """Success by the part of a mixture; empty for one environment."""


@dataclass(frozen=True)
class EvaluationResult:
    """The episodes of one player on one panel, trial after trial, each in the panel's order."""

    panel: Panel
    rows: tuple[EpisodeRow, ...]
    name: str = ""
    """Name of the player."""
    seconds: float = 0.0
    settings: Mapping[str, object] = field(default_factory=dict)
    """Temperature and other options of the agent, for information."""
    memory: Mapping[str, int] = field(default_factory=dict)
    """Maximum number of bytes that the process had while it played: "process", and "device" on a GPU."""
    repeated: tuple[EpisodeRow, ...] = ()
    """Episodes that ended as an error and were played again: they are in no rate and no mean, but were paid for."""

    @property
    def trials(self) -> int:
        """How often every task was played."""
        return max((row.trial for row in self.rows), default=0) + 1

    @property
    def attempts(self) -> tuple[EpisodeRow, ...]:
        """All episodes that were played, for totals."""
        return (*self.rows, *self.repeated)

    def summary(self) -> EvaluationSummary:
        """Return rates with intervals, and means."""
        good = [row for row in self.rows if row.stop != "error"]
        won = [row for row in good if row.won]
        turns = sum(row.turns for row in good)
        counted = any(row.prompt_tokens or row.response_tokens for row in good)
        attacked = [row for row in good if row.harm is not None]
        types = sorted({row.task_type for row in good if row.task_type is not None})
        parts = self.panel.parts()
        part_names = [part_of(row.task, parts) for row in good]
        return EvaluationSummary(
            success=_success(good),
            by_type={kind: _success([row for row in good if row.task_type == kind]) for kind in types},
            score=_mean([row.score for row in good]),
            turns=_mean([row.turns for row in good]),
            turns_won=_mean([row.turns for row in won]),
            unparsable=sum(row.unparsable for row in good) / turns if turns else None,
            inadmissible=sum(row.inadmissible for row in good) / turns if turns else None,
            stops={
                stop: sum(row.stop == stop for row in self.rows) for stop in sorted({row.stop for row in self.rows})
            },
            errors=len(self.rows) - len(good),
            truncated=sum(row.truncated for row in good) / turns if turns else None,
            prompt_tokens=_mean([row.prompt_tokens for row in good if counted]),
            response_tokens=_mean([row.response_tokens for row in good if counted]),
            cost=_mean([row.cost for row in good if row.cost is not None]),
            refused=sum(row.refused for row in good) / turns if turns else None,
            empty=sum(row.empty for row in good) / turns if turns else None,
            harm=_rate((row.task, row.harm is True) for row in attacked) if attacked else None,
            counted=_share([row.counted for row in good], turns),
            priced=_share([row.priced for row in good], turns),
            by_part={
                name: _success([row for row, part in zip(good, part_names, strict=True) if part == name])
                for name in parts
            },
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the result as JSON: panel, rows, and a summary for readers without this package.

        Raises:
            EvaluationError: the path is a folder or a device.
            OSError: the file cannot be written.
        """
        content = {
            "version": VERSION,
            "name": self.name,
            "seconds": self.seconds,
            "settings": dict(self.settings),
            "memory": dict(self.memory),
            "summary": asdict(self.summary()),
            "panel": panel_json(self.panel),
            "rows": self._records(self.rows),
            "repeated": self._records(self.repeated),
        }
        write_json(Path(path), content)

    def _records(self, rows: Sequence[EpisodeRow]) -> list[dict[str, object]]:
        """Return rows as JSON-compatible values; those of one trial do not say which one it is."""
        records = [asdict(row) for row in rows]
        for record in records if self.trials == 1 else ():
            del record["trial"]
        return records

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> EvaluationResult:
        """Return the result of a file.

        Raises:
            EvaluationError: the file is not a result.
            OSError: the file cannot be read.
        """
        return validated(
            cls, read_json(Path(path), "an evaluation result", "rows", VERSION), f"{path} is not an evaluation result"
        )


def _success(rows: Sequence[EpisodeRow]) -> Rate:
    return _rate((row.task, row.won) for row in rows)


def _rate(outcomes: Iterable[tuple[str, bool]]) -> Rate:
    """Return the rate of episodes with an outcome, from the task of each and whether it has the outcome."""
    by_task: dict[str, list[bool]] = {}
    for task, present in outcomes:
        by_task.setdefault(task, []).append(present)
    return Rate.of_tasks([(sum(trials), len(trials)) for trials in by_task.values()])


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _share(counts: Sequence[int | None], turns: int) -> float | None:
    """Return a share of all turns; None if it is 0, or if some rows do not say."""
    numbers = [number for number in counts if number is not None]
    return sum(numbers) / turns if turns and len(numbers) == len(counts) and any(numbers) else None

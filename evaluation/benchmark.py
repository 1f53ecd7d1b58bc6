"""A benchmark: a player on every panel of a suite, with each finished episode stored, so that it can be continued.

The folder of a benchmark holds

    state.json      what is played, how, and for how long
    PANEL.jsonl     the trajectories of a panel, in the order in which they finished
    card.json       the result (see `turncredit.evaluation.benchmark_card`)

A process that is killed loses the episodes in progress and nothing else. Episodes are played with the same seeds
whether they are played at once or in parts, so a player without randomness of its own has the same result.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import Field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from turncredit.agents.agent import Agent
from turncredit.agents.errors import EvaluationError
from turncredit.agents.files.folder_lock import check_lock, locked
from turncredit.agents.files.json_files import read_json, write_json
from turncredit.agents.files.trajectory_files import TornLine, TrajectoryWriter, read_trajectories
from turncredit.agents.prompts.chat_template import DATE, TOOLS, reads_clock
from turncredit.agents.trajectory import Trajectory
from turncredit.engines.base import Samples
from turncredit.evaluation.evaluation import evaluate
from turncredit.evaluation.panels import Panel
from turncredit.evaluation.results import EpisodeRow, EvaluationResult
from turncredit.evaluation.suite import PinnedPanel
from turncredit.processes.memory_use import memory_use

__all__ = ["BenchmarkFolder", "PanelEpisodes", "agent_settings", "lock", "play_panel"]

VERSION = 1
_SAVE_EVERY = 1.0  # seconds between two records of the time spent


class PanelEpisodes:
    """The stored episodes of a panel: which are finished, and which are missing."""

    def __init__(self, panel: Panel, path: Path) -> None:
        """Read what is stored; an incomplete last line is skipped.

        Raises:
            StoreError: the file is damaged before its last line.
        """
        self.panel, self.path = panel, path
        self._rows: dict[str, EpisodeRow] = {}
        self._tasks = frozenset(panel.tasks)
        if path.exists():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TornLine)
                for trajectory in read_trajectories(path):
                    self.add(trajectory)

    def add(self, trajectory: Trajectory) -> None:
        """Count an episode; one that finished replaces one that ended as an error."""
        row = self._rows.get(trajectory.task)
        if trajectory.task in self._tasks and (row is None or row.stop == "error"):
            self._rows[trajectory.task] = EpisodeRow.of(trajectory)

    @property
    def missing(self) -> tuple[str, ...]:
        """Tasks that were not played, or ended as errors."""
        return tuple(task for task in self.panel.tasks if task not in self._rows or self._rows[task].stop == "error")

    @property
    def rows(self) -> tuple[EpisodeRow, ...]:
        """The stored episodes in the panel's order, with errors."""
        return tuple(self._rows[task] for task in self.panel.tasks if task in self._rows)


def lock(folder: Path) -> AbstractContextManager[None]:
    """Return what makes the folder of a benchmark and locks it while its block runs.

    Raises:
        FolderInUse: another process plays a benchmark in it.
        StoreError: it cannot be written, or holds links.
    """
    return locked(folder, "playing a benchmark in")


class BenchmarkFolder:
    """The folder of one player on one suite."""

    def __init__(self, folder: Path, identity: Mapping[str, object]) -> None:
        """Open or create the folder.

        Args:
            folder: where everything is stored.
            identity: what must be equal if the benchmark is continued: player, suite, options.

        Raises:
            EvaluationError: the folder holds another benchmark.
            FolderInUse: another process plays a benchmark in it.
            OSError: the folder cannot be read or written.
        """
        self.folder = folder
        self._lock = ExitStack()
        self._lock.enter_context(lock(folder))
        try:
            self._open(identity)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let other processes use the folder."""
        self._lock.close()

    def _open(self, identity: Mapping[str, object]) -> None:
        self._file = self.folder / "state.json"
        self._state: dict[str, Any] = {"version": VERSION, "identity": dict(identity), "panels": {}}
        if self._file.exists():
            self._state = dict(read_json(self._file, "the state of a benchmark", "identity", VERSION))
            self._require(self._state["identity"], identity)
        elif any(self.folder.glob("*.jsonl*")):
            raise EvaluationError(
                f"{self.folder} holds episodes, but no state.json that says whose; choose another folder"
            )
        else:
            self._save()

    def episodes(self, pinned: PinnedPanel, settings: Mapping[str, object]) -> PanelEpisodes:
        """Return the stored episodes of a panel, which must have been played with the same settings.

        Raises:
            EvaluationError: the stored episodes are of other tasks, or were played with other settings.
        """
        name = pinned.spec.name
        identity = {"digest": pinned.digest, "settings": dict(settings)}
        panel = self._state["panels"].setdefault(name, {"identity": identity, "seconds": 0.0})
        self._require(panel["identity"], identity, f"panel {name}: ")
        self._save()
        return PanelEpisodes(pinned.panel, self.folder / f"{name}.jsonl")

    def dated(self, pinned: PinnedPanel, agent: Agent) -> Agent:
        """Return the agent with the date on which the panel was begun, if its chat template writes the date."""
        panel = self._state["panels"].get(pinned.spec.name, {})
        recorded = panel.get("identity", {}).get("settings", {}).get(DATE)
        if recorded is None or DATE in agent.chat_options or not reads_clock(agent.chat):
            return agent
        return replace(agent, chat_options={**agent.chat_options, DATE: recorded})

    def seconds(self, panel: str) -> float:
        """Return how long a panel has been played in all calls, in seconds."""
        return float(self._state["panels"][panel]["seconds"])

    def add_seconds(self, panel: str, seconds: float) -> None:
        """Record further seconds of playing a panel."""
        self._state["panels"][panel]["seconds"] += seconds
        self._save()

    def _save(self) -> None:
        check_lock(self.folder)
        write_json(self._file, self._state)

    def _require(self, stored: Mapping[str, object], current: Mapping[str, object], where: str = "") -> None:
        for key in [*current, *stored]:
            if stored.get(key) != current.get(key):
                difference = _difference(key, stored.get(key), current.get(key))
                raise EvaluationError(
                    f"{self.folder} holds another benchmark ({where}{difference}); choose another --output, or remove "
                    "that folder"
                )


def _difference(key: str, stored: object, current: object) -> str:
    if isinstance(stored, Mapping) and isinstance(current, Mapping):
        key = next(inner for inner in [*stored, *current] if stored.get(inner) != current.get(inner))
        stored, current = stored.get(key), current.get(key)
    return f"{key} was {stored!r} and is {current!r}"


class _Clock:
    """Adds the time since its last record to the state of a folder, at most once a second."""

    def __init__(self, folder: BenchmarkFolder, panel: str) -> None:
        self._folder, self._panel, self._last = folder, panel, time.monotonic()

    def record(self, least: float = 0.0) -> None:
        current_time = time.monotonic()
        if current_time - self._last >= least:
            self._folder.add_seconds(self._panel, current_time - self._last)
            self._last = current_time


def play_panel(
    folder: BenchmarkFolder,
    pinned: PinnedPanel,
    agent: Agent,
    sampler: Samples,
    *,
    name: str = "",
    concurrency: int | None = None,
    on_finish: Callable[[Trajectory], None] | None = None,
) -> EvaluationResult:
    """Return the result of a panel, after playing what is missing in the folder.

    An episode that ends as an error is played again, as `evaluate` does.

    Args:
        folder: of the benchmark.
        pinned: the panel.
        agent: prompts, parser, limits.
        sampler: the model.
        name: of the player.
        concurrency: maximum number of episodes at once; None: the suite's.
        on_finish: called with every trajectory after it was stored.

    Raises:
        Interrupted: Ctrl-C; finished episodes are stored.
        AgentError: the player cannot play this panel; finished episodes are stored.
    """
    agent = folder.dated(pinned, agent)
    spec, settings = pinned.spec, agent_settings(agent)
    stored = folder.episodes(pinned, settings)
    clock = _Clock(folder, spec.name)
    most = min(spec.concurrency, concurrency or spec.concurrency)
    with _writer(stored.path) as writer:

        def keep(trajectory: Trajectory) -> None:
            writer.write(trajectory)
            stored.add(trajectory)
            clock.record(_SAVE_EVERY)
            if on_finish is not None:
                on_finish(trajectory)

        try:
            if stored.missing:
                remaining = replace(pinned.panel, tasks=stored.missing)
                evaluate(agent, sampler, remaining, pinned.make, concurrency=most, deadline=spec.deadline or None,
                         on_finish=keep)  # fmt: skip
        finally:
            clock.record()
    return EvaluationResult(
        pinned.panel, stored.rows, name, folder.seconds(spec.name), {**settings, "concurrency": most}, memory_use()
    )


def _writer(path: Path) -> TrajectoryWriter:
    """Return a writer that adds to the file, after removing the line that a killed process left incomplete."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TornLine)
        return TrajectoryWriter(path, append=True)


def agent_settings(agent: Agent) -> dict[str, object]:
    """Return everything about an agent that can change a result, as JSON-compatible values."""
    template, chat = agent.prompt.template, agent.chat_template
    parts = {name: agent_settings(agent.for_task(f"{name}/")) for name in agent.parts}
    return {
        "prompt": type(agent.prompt).__name__.lower(),
        "history": getattr(agent.prompt, "history", None),
        "template": {name: getattr(template, name) for name in type(template).__slots__ if name != "example"},
        "parser": agent.parser,
        "chat_template": chat is not None,
        **({} if chat is None or not reads_clock(agent.chat) else {DATE: str(chat.date)}),
        "max_turns": agent.max_turns,
        "max_tokens": agent.max_tokens,
        "temperature": agent.temperature,
        **({} if agent.annealing is None else {"annealing": agent.annealing.name}),
        "top_p": agent.top_p,
        **{name: getattr(agent, name) for name in ("top_k", "min_p") if getattr(agent, name)},
        "stop": list(agent.stop),
        **_options_that_are_set(agent),
        **({"parts": parts} if parts else {}),
    }


def _options_that_are_set(agent: Agent) -> dict[str, object]:
    """Return the options that differ from their defaults, of those that only some agents have.

    Schemas of tools and the date of a chat template are left out: the panel says the first, and the second is recorded.
    """
    prompt = agent.prompt
    own: tuple[Field[object], ...] = fields(prompt) if is_dataclass(prompt) else ()
    options = {entry.name: getattr(prompt, entry.name) for entry in own if entry.name not in ("template", "history")}
    defaults = {entry.name: entry.default for entry in own}
    chat = {name: value for name, value in agent.chat_options.items() if name not in (TOOLS, DATE)}
    return {
        **{f"prompt.{name}": _plain(value) for name, value in options.items() if value != defaults[name]},
        **{name: value for name in ("keep_images", "image_note") if (value := getattr(agent, name))},
        **({"chat": chat} if chat else {}),
    }


def _plain(value: object) -> object:
    """Return a value that JSON has, as it is; of another one, its text."""
    return value if value is None or isinstance(value, str | int | float) else repr(value)

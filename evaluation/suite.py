"""Suites: files that name the panels of a benchmark, one table for each environment.

    name = "mine"

    [[panels]]
    name = "household"
    env = "turncredit/Household-v0"
    kwargs = { split = "held_out" }
    episodes = 50

A panel with `like = "household"` copies the keys of an earlier one, and adds its own.

The ids of a panel follow from environment, arguments, number and seed alone, so a suite has the same tasks on every
machine, and `digest` tells whether two panels are the same. What a machine lacks (data, a browser, a sandbox) makes a
panel unavailable, with a reason; a mistake in the file is an error.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from turncredit.agents.agent import Agent
from turncredit.agents.errors import AgentError, EvaluationError
from turncredit.agents.files.json_files import validated
from turncredit.agents.instructions import instructions, merged
from turncredit.agents.json_types import JsonObject
from turncredit.envs import make as make_env
from turncredit.envs import registration
from turncredit.envs.errors import EnvError, UnknownEnv, UnknownOption
from turncredit.envs.registration import find
from turncredit.evaluation.panels import Environment, Panel, draw_tasks, panel_json
from turncredit.registry import Untrusted, suggest
from turncredit.tools.bounded_input import InputError, read_toml

__all__ = ["PinnedPanel", "Suite", "SuitePanel", "Unavailable", "check_arguments", "digest", "panel_options", "pin"]


class Unavailable(Exception):
    """A panel cannot be played on this machine; the message says why."""


@dataclass(frozen=True)
class SuitePanel:
    """One panel of a suite, as its file describes it."""

    name: str
    env: str
    """Id of the environment; "module:id" imports the module that registers it first."""
    episodes: int
    """Number of tasks, each played once; if there are fewer, all of them."""
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the environment."""
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Arguments that are paths: the first path that exists is taken. "$NAME" and "~" are expanded."""
    seed: int = 0
    """Seed of the sample of tasks, of every reset and of the sampling."""
    sample: bool = True
    """Draw the tasks at random from those that the environment lists; False takes the first."""
    agent: Mapping[str, Any] = field(default_factory=dict)
    """Options of the agent, such as prompt, parser, max_turns and max_tokens."""
    rule: str = ""
    """The environment's demonstrator that is the rule-based baseline; "" for none."""
    concurrency: int = 64
    """Maximum number of episodes at once."""
    deadline: float = 0.0
    """Time limit of a step in seconds, with environments on threads; 0 for none."""


@dataclass(frozen=True)
class Suite:
    """Panels in a fixed order."""

    name: str
    panels: tuple[SuitePanel, ...]
    about: str = ""

    @classmethod
    def load(cls, path: Path) -> Suite:
        """Return the suite of a file.

        The tables `agent` and the key `seed` of the file are defaults for its panels.

        Raises:
            EvaluationError: the file is not a suite, or names an environment that does not exist.
            OSError: the file cannot be read.
        """
        try:
            content = read_toml(path)
        except InputError as error:
            raise EvaluationError(f"{path} is not a suite: {str(error).removeprefix(f'{path} is ')}") from error
        _check_keys(content, ["name", "about", "seed", "agent", "panels"], f"{path}")
        panels = content.get("panels")
        if not isinstance(panels, list) or not panels:
            raise EvaluationError(f"{path} must have at least one table [[panels]]")
        tables = _with_copies(panels, path)
        suite_panels = tuple(_panel(table, number, content, path) for number, table in enumerate(tables, start=1))
        for panel in suite_panels:
            _check_panel(panel, [other.name for other in suite_panels], path)
        return cls(str(content.get("name", path.stem)), suite_panels, str(content.get("about", "")))

    def only(self, names: list[str]) -> Suite:
        """Return the suite with these panels alone; all of them if there are no names.

        Raises:
            EvaluationError: there is no panel of such a name.
        """
        available = [panel.name for panel in self.panels]
        for name in names:
            if name not in available:
                raise EvaluationError(f"the suite {self.name} has no panel {name!r}{suggest(name, available)}")
        return replace(self, panels=tuple(panel for panel in self.panels if not names or panel.name in names))


def _with_copies(tables: list[object], path: Path) -> list[dict[str, Any]]:
    """Return the tables of panels, in which `like = NAME` is replaced by the keys of an earlier panel."""
    by_name: dict[str, dict[str, Any]] = {}
    merged_tables = []
    for number, table in enumerate(tables, start=1):
        if not isinstance(table, dict):
            raise EvaluationError(f"{path}, panel {number}: a panel must be a table, got {table!r}")
        base: dict[str, Any] = {}
        if "like" in table:
            if table["like"] not in by_name:
                near = suggest(str(table["like"]), by_name)
                raise EvaluationError(f"{path}, panel {number}: there is no earlier panel {table['like']!r}{near}")
            base = by_name[table["like"]]
        own = {key: value for key, value in table.items() if key != "like"}
        merged = {**base, **own, "agent": {**base.get("agent", {}), **own.get("agent", {})}}
        by_name[str(merged.get("name"))] = merged
        merged_tables.append(merged)
    return merged_tables


def _panel(table: dict[str, Any], number: int, content: Mapping[str, Any], path: Path) -> SuitePanel:
    where = f"{path}, panel {number}"
    _check_keys(table, [entry.name for entry in fields(SuitePanel)], where)
    values = {"seed": content.get("seed", 0), **table}
    values["agent"] = {**content.get("agent", {}), **table.get("agent", {})}
    values["files"] = {
        name: [paths] if isinstance(paths, str) else paths for name, paths in table.get("files", {}).items()
    }
    return validated(SuitePanel, values, where)


def _check_keys(table: Mapping[str, object], keys: list[str], where: str) -> None:
    for key in table:
        if key not in keys:
            raise EvaluationError(f"{where}: unknown key {key!r}{suggest(key, keys)}")


def _check_panel(panel: SuitePanel, names: list[str], path: Path) -> None:
    where = f"{path}, panel {panel.name!r}"
    if names.count(panel.name) > 1:
        raise EvaluationError(f"{path} has two panels with the name {panel.name!r}")
    if not panel.name or not all(letter.isalnum() or letter in "-_." for letter in panel.name):
        raise EvaluationError(f"{where}: the name must consist of letters, digits, '-', '_' and '.'")
    for name, least in (("episodes", 1), ("concurrency", 1), ("deadline", 0)):
        if not getattr(panel, name) >= least:
            raise EvaluationError(f"{where}: {name} must be >= {least}, got {getattr(panel, name)}")
    try:
        Agent.from_options(**panel.agent)
    except AgentError as error:
        raise EvaluationError(f"{where}: {error}") from error
    try:
        with suppress(Untrusted):  # the panel is unavailable, and the others can be played
            find(panel.env)
    except UnknownEnv as error:
        if not isinstance(error.__cause__, ImportError):  # a package that is not installed makes a panel unavailable
            raise EvaluationError(f"{where}: {error}") from error


@dataclass(frozen=True)
class PinnedPanel:
    """A panel of a suite with its task ids."""

    spec: SuitePanel
    panel: Panel
    """The tasks; its arguments are those of the suite's file, so it is equal on every machine."""
    kwargs: Mapping[str, Any]
    """Arguments of the environment on this machine, with the paths that exist."""

    @property
    def digest(self) -> str:
        """Identity of the panel."""
        return digest(self.panel)

    def make(self) -> Environment:
        """Return a new environment."""
        return make_env(self.panel.env, **self.kwargs)


def panel_options(spec: SuitePanel) -> JsonObject:
    """Return the options of an agent on a panel: those that the environment names, replaced by those of the suite.

    Raises:
        Unavailable: this machine lacks what the environment needs.
        AgentError: the environment names options that agents do not have.
    """
    try:
        return merged(instructions(spec.env, {**spec.kwargs, **_paths(spec)}), spec.agent)
    except EnvError as error:
        raise Unavailable(" ".join(str(error).split())) from error


def check_arguments(spec: SuitePanel) -> None:
    """Check the names of a panel's arguments, and its level, before anything is played.

    Raises:
        EvaluationError: the environment does not take one of them, or knows no such level.
    """
    try:
        registration.check_arguments(spec.env, **{**spec.kwargs, **spec.files})
    except UnknownOption as error:
        raise EvaluationError(f"panel {spec.name!r}: {error}") from error
    except (EnvError, Untrusted):
        return  # the panel is not available, which pinning it says


def digest(panel: Panel) -> str:
    """Return 16 hexadecimal digits that are equal for equal panels: environment, arguments, seed and ids."""
    text = json.dumps(panel_json(panel), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:16]


def pin(spec: SuitePanel) -> PinnedPanel:
    """Return the panel with its ids, after an environment was made, reset and asked for one step.

    Raises:
        Unavailable: this machine lacks what the environment needs.
        EvaluationError: the suite gives the environment arguments that it does not have.
    """
    kwargs = {**spec.kwargs, **_paths(spec)}
    env = None
    try:
        env = make_env(spec.env, **kwargs)
        tasks = _tasks(env, spec)
        _try(env, tasks[0], spec.seed)
    except UnknownOption as error:
        raise EvaluationError(f"panel {spec.name!r}: {error}") from error
    except (EvaluationError, Unavailable):
        raise
    except Exception as error:  # environments of other packages may raise anything
        raise Unavailable(" ".join(str(error).split()) or type(error).__name__) from error
    finally:
        if env is not None:
            env.close()
    named = {**spec.kwargs, **{name: paths[0] for name, paths in spec.files.items()}}
    return PinnedPanel(spec, Panel(spec.env, tasks, named, spec.seed), kwargs)


def _paths(spec: SuitePanel) -> dict[str, str]:
    """Return the arguments that are paths.

    Raises:
        Unavailable: none of the paths exists.
    """
    existing_paths = {}
    for name, choices in spec.files.items():
        paths = [os.path.expanduser(os.path.expandvars(choice)) for choice in choices]
        existing = [path for path in paths if Path(path).exists()]
        if not existing:
            raise Unavailable(f"{name}: none of {', '.join(choices)} exists")
        existing_paths[name] = existing[0]
    return existing_paths


def _tasks(env: Environment, spec: SuitePanel) -> tuple[str, ...]:
    """Return the tasks of a panel.

    Raises:
        Unavailable: the environment lists none.
    """
    listing, name = getattr(env.unwrapped, "task_ids", None), env.spec.id if env.spec else str(env)
    if listing is None:
        raise Unavailable(f"{name} does not list its tasks: it has no task_ids()")
    tasks = draw_tasks(env, spec.episodes, spec.seed) if spec.sample else tuple(listing(spec.episodes))
    if not tasks:
        raise Unavailable(f"{name} lists no tasks")
    return tasks


def _try(env: Environment, task: str, seed: int) -> None:
    """Start an episode, and take a step where the environment names an action for it: it may need a sandbox."""
    env.reset(seed=seed, options={"task": task})
    action = getattr(env.unwrapped, "EXAMPLE_ACTION", "")
    if action:
        env.step(action)

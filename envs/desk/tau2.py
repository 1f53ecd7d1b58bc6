"""Reads the published data of tau2-bench: tasks, policy and database of a domain, and scores calls and messages.

    domain = read_tau2("tau2-bench/data/tau2/domains/airline")
    score = score_tau2(domain.task("3"), calls, ["You may take 4 suitcases."])

Calls and messages are judged here. What other calls than those of the solution do to the database, and assertions about
it, need the tools, which are Python code of the package `tau2`; where that is installed, `databases_match` runs them.
Assertions in words need a model that judges.

Source: tau2-bench (Barres et al. 2025, arXiv:2506.07982), its folder data/tau2/domains and its evaluators.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from turncredit.envs.errors import EnvError, UnknownOption, UnknownTask
from turncredit.registry import suggest
from turncredit.tools.bounded_input import InputError, parse_json, read_json, read_text, read_toml
from turncredit.tools.functions import Call

__all__ = ["Tau2Action", "Tau2Domain", "Tau2Score", "Tau2Task", "databases_match", "read_tau2", "score_tau2"]

_POLICIES: Final = ("policy.md", "main_policy.md")
_PROMPTS: Final = "prompts"
_COMPONENTS: Final = ("policy_header", "additional_instructions")
"""Parts of the policy of a domain that has one for each way to search its documents; all of its prompts have them."""
_COMPONENT: Final = re.compile(r"\{\{component:(\w+)\}\}")
_DATABASES: Final = ("db.json", "db.toml")


@dataclass(frozen=True, slots=True)
class Tau2Action:
    """A call of the solution.

    Attributes:
        call: name and arguments.
        by_user: whether the user makes it, and not the agent.
        compared: names of the arguments that must be equal; None for those that the other call has.
    """

    call: Call
    by_user: bool = False
    compared: tuple[str, ...] | None = None

    def matches(self, call: Call) -> bool:
        """Return whether a call is this one, with texts of JSON compared as data."""
        names = tuple(call.arguments) if self.compared is None else self.compared
        own, other = (
            {name: _plain(arguments[name]) for name in names if name in arguments}
            for arguments in (self.call.arguments, call.arguments)
        )
        return call.name == self.call.name and own == other


@dataclass(frozen=True, slots=True)
class Tau2Task:
    """A task.

    Attributes:
        id: of the task.
        scenario: what the user is told: persona and instructions.
        actions: one solution, whose end is the database that is right.
        communicate: texts that the agent must say.
        assertions: what a model judges, in words.
        basis: the parts that the reward is the product of: "DB", "COMMUNICATE", "ACTION", "ENV_ASSERTION",
            "NL_ASSERTION".
        checks: assertions about the database, which the tools judge.
    """

    id: str
    scenario: str
    actions: tuple[Tau2Action, ...]
    communicate: tuple[str, ...]
    assertions: tuple[str, ...]
    basis: tuple[str, ...]
    checks: tuple[Mapping[str, object], ...] = ()


@dataclass(frozen=True, slots=True)
class Tau2Domain:
    """A domain: its name, policy, database, tasks, and the ids of the tasks of each split."""

    name: str
    policy: str
    database: Mapping[str, object]
    tasks: tuple[Tau2Task, ...]
    splits: Mapping[str, tuple[str, ...]]

    def task(self, id: str) -> Tau2Task:
        """Return a task.

        Raises:
            UnknownTask: there is none with this id.
        """
        for task in self.tasks:
            if task.id == id:
                return task
        raise UnknownTask.of(id, [task.id for task in self.tasks], f"the tasks of {self.name}")

    def split(self, name: str) -> list[Tau2Task]:
        """Return the tasks of a split that the file of tasks has.

        Raises:
            UnknownOption: there is no such split.
        """
        if name not in self.splits:
            raise UnknownOption(f"unknown split {name!r} of {self.name}{suggest(name, list(self.splits))}")
        ids = set(self.splits[name])
        return [task for task in self.tasks if task.id in ids]

    @property
    def digest(self) -> str:
        """SHA-256 of the database as JSON with sorted names, as the package computes it from equal values."""
        return hashlib.sha256(json.dumps(self.database, sort_keys=True, default=str).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Tau2Score:
    """What calls and messages earn.

    Attributes:
        actions: for each action of the solution, whether it was made.
        communicated: for each text that must be said, whether it was.
        database: True where exactly the calls of the solution were made, in their order; else None, since only the
            tools know what other calls do (see `databases_match`).
        unjudged: parts of the reward that cannot be judged here.
        reward: product of the parts; None if one of them cannot be judged and no other one is 0.
    """

    actions: tuple[bool, ...]
    communicated: tuple[bool, ...]
    database: bool | None
    unjudged: tuple[str, ...]
    reward: float | None


def read_tau2(folder: str | os.PathLike[str], *, tasks: str = "tasks.json", prompt: str | None = None) -> Tau2Domain:
    """Return the domain in a folder of tau2-bench's data.

    Args:
        folder: such as tau2-bench/data/tau2/domains/airline.
        tasks: name of the file of tasks, such as "tasks_small.json", or of a folder with a file for each.
        prompt: name of one of the domain's prompts, such as "classic_rag_llm", whose text is the policy; None: the
            policy, or what all prompts of the domain say.

    Raises:
        EnvError: a file is missing or is not as published.
    """
    path = Path(folder)
    try:
        policy = _policy(path, prompt)
        file = _first(path, _DATABASES)
        database = read_toml(file) if file.suffix == ".toml" else read_json(file)
        entries = _entries(path, tasks)
        splits = read_json(path / "split_tasks.json") if (path / "split_tasks.json").exists() else {}
    except (InputError, OSError) as error:
        raise EnvError(f"{path} is no domain of tau2-bench: {error}") from error
    if not isinstance(entries, list) or not isinstance(splits, dict) or not isinstance(database, dict):
        raise EnvError(f"{path} is no domain of tau2-bench: {tasks} must hold a list, and the other files objects")
    read = tuple(_task(entry, f"{path / tasks}, entry {number}") for number, entry in enumerate(entries, start=1))
    return Tau2Domain(path.name, policy, database, read, {name: tuple(map(str, ids)) for name, ids in splits.items()})


def _policy(path: Path, prompt: str | None) -> str:
    """Return the policy of a domain: its file, or one of its prompts with their components."""
    components = path / _PROMPTS / "components"
    if prompt is not None:
        file = path / _PROMPTS / f"{prompt}.md"
        if not file.is_file():
            names = sorted(other.stem for other in (path / _PROMPTS).glob("*.md"))
            raise EnvError(f"{path} has no prompt {prompt!r}{suggest(prompt, names)}")
        return _COMPONENT.sub(lambda match: read_text(components / f"{match[1]}.md").strip(), read_text(file))
    if not any((path / name).is_file() for name in _POLICIES):
        files = [file for name in _COMPONENTS if (file := components / f"{name}.md").is_file()]
        if files:
            return "\n\n".join(read_text(file).strip() for file in files)
    return read_text(_first(path, _POLICIES))


def _entries(path: Path, tasks: str) -> object:
    """Return the entries of a file of tasks, or of the files of a folder."""
    folder = path / Path(tasks).stem
    if (path / tasks).is_file() or not folder.is_dir():
        return read_json(path / tasks)
    return [read_json(file) for file in sorted(folder.glob("*.json"))]


def _first(path: Path, names: Sequence[str]) -> Path:
    for name in names:
        if (path / name).is_file():
            return path / name
    raise EnvError(f"{path} is no domain of tau2-bench: it has neither {' nor '.join(names)}")


def _task(entry: object, where: str) -> Tau2Task:
    try:
        match entry:
            case {"id": id, "user_scenario": {**scenario}, **others}:
                criteria = others.get("evaluation_criteria") or {}
                if isinstance(criteria, dict):
                    return _read_task(str(id), scenario, criteria)
        raise TypeError("it needs id and user_scenario")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise EnvError(f"{where} is no task of tau2-bench: {type(error).__name__}: {error}") from error


def _read_task(
    id: str, scenario: Mapping[object, object], criteria: Mapping[str, list[Mapping[str, object]]]
) -> Tau2Task:
    return Tau2Task(
        id=id,
        scenario=_scenario(scenario),
        actions=tuple(map(_action, criteria.get("actions") or ())),
        communicate=tuple(map(str, criteria.get("communicate_info") or ())),
        assertions=tuple(map(str, criteria.get("nl_assertions") or ())),
        basis=tuple(map(str, criteria.get("reward_basis") or ("DB", "COMMUNICATE"))),
        checks=tuple(dict(check) for check in criteria.get("env_assertions") or ()),
    )


def _scenario(scenario: Mapping[object, object]) -> str:
    """Return persona and instructions as lines."""
    persona, instructions = scenario.get("persona"), scenario.get("instructions") or ""
    lines = [f"Persona: {persona}"] if persona else []
    if isinstance(instructions, Mapping):
        lines += [f"{str(name).replace('_', ' ').capitalize()}: {text}" for name, text in instructions.items() if text]
    else:
        lines.append(str(instructions))
    return "\n".join(lines)


def _action(entry: Mapping[str, object]) -> Tau2Action:
    arguments, compared = entry.get("arguments") or {}, entry.get("compare_args")
    if not isinstance(arguments, Mapping) or not isinstance(compared, list | None):
        raise TypeError(f"an action needs arguments as an object, got {entry!s:.200}")
    names = None if compared is None else tuple(map(str, compared))
    return Tau2Action(Call(str(entry["name"]), dict(arguments)), entry.get("requestor") == "user", names)


def _plain(value: object) -> object:
    """Return a value with texts that are JSON objects or lists as data."""
    if isinstance(value, str) and value.strip().startswith(("{", "[")):
        try:
            return _plain(parse_json(value.encode(errors="replace"), "an argument"))
        except InputError:
            return value
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value


def score_tau2(
    task: Tau2Task, calls: Sequence[Call], messages: Sequence[str], *, database: bool | None = None
) -> Tau2Score:
    """Return what an agent earns.

    A text counts as said if a message contains it, in any case, without the commas of the message. A part of the reward
    with nothing to judge, such as assertions where the task has none, is 1.

    Args:
        task: the task.
        calls: those of the agent and, where control is dual, of the user, in their order.
        messages: what the agent said to the user.
        database: whether the database is right, where the tools were run; None: see `Tau2Score.database`.
    """
    actions = tuple(any(map(action.matches, calls)) for action in task.actions)
    spoken = [message.lower().replace(",", "") for message in messages]
    communicated = tuple(any(text.lower() in message for message in spoken) for text in task.communicate)
    same = len(calls) == len(task.actions) and all(
        call.name == action.call.name and _plain(call.arguments) == _plain(action.call.arguments)
        for call, action in zip(calls, task.actions, strict=False)
    )
    right = database if database is not None else (True if same else None)
    parts = {
        "DB": right,
        "COMMUNICATE": all(communicated),
        "ACTION": all(actions),
        "ENV_ASSERTION": None if task.checks else True,
        "NL_ASSERTION": None if task.assertions else True,
    }
    values = [parts.get(name) for name in task.basis]
    unjudged = tuple(name for name in task.basis if parts.get(name) is None)
    reward = 0.0 if False in values else None if unjudged else 1.0
    return Tau2Score(actions, communicated, right, unjudged, reward)


def databases_match(domain: str, task: Tau2Task, calls: Sequence[tuple[Call, bool]]) -> bool:
    """Return whether calls leave the databases of agent and user as the solution does, with the package's tools.

    The package reads its own data. Tasks that prepare the database first are not supported.

    Args:
        domain: name of the domain in the package: "airline".
        task: the task.
        calls: each with whether the user made it.

    Raises:
        EnvError: the package `tau2` is not installed.
    """
    try:
        from tau2.registry import registry
    except ImportError as error:
        raise EnvError(
            "the tools of tau2-bench need the package tau2 of its repository (Python 3.12 or newer): pip install -e "
            f"tau2-bench ({error})"
        ) from error
    digests = []
    for steps in ([(action.call, action.by_user) for action in task.actions], calls):
        environment = registry.get_env_constructor(domain)()
        for call, by_user in steps:
            try:
                requestor = "user" if by_user else "assistant"
                environment.make_tool_call(call.name, requestor=requestor, **call.arguments)
            except Exception:  # a tool that refuses changes nothing, as in the package's own evaluator
                continue
        digests.append((environment.get_db_hash(), environment.get_user_db_hash()))
    return digests[0] == digests[1]

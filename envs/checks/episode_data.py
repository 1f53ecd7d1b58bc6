"""Episodes as data, and scripts that reproduce them.

Every state is reached by replay from reset(), with the same task, seed and actions. This needs only Gymnasium's
contract, and every finding can be reproduced by a short script.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from turncredit.envs.info import ADMISSIBLE, SCORE, STATE, TASK, VALID, WON, Environment
from turncredit.envs.registration import find, make

__all__ = [
    "CONTRACT",
    "FOREIGN",
    "Crash",
    "Effort",
    "EnvSource",
    "ProbeEpisode",
    "ProbeStep",
    "cut",
    "difference",
    "literal",
    "read_step",
    "same",
    "script",
]

FOREIGN: Final = "frobnicate the turncredit 0"
"""An action that no environment knows."""

CONTRACT: Final = (TASK, STATE, ADMISSIBLE, VALID, SCORE, WON)

_ATOMS: Final = frozenset({str, int, float, bool, bytes, type(None)})
"""Types of values that never change and hold no others."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is tried; more finds more faults and takes longer.

    walks: random episodes per task. turns: maximum turns of each. pairs: maximum pairs of states compared per task, in
    each direction. states: maximum states per task in which every admissible action is tried. depth: turns of a
    continuation. continuations: random continuations per pair of states. search: maximum actions of the search for a
    difference between two states. long: turns of a long episode. floor: episodes of each cheap player. variants: most
    variants of each. attack: steps of the search for unearned reward. plans: tasks whose plan is played to its end.
    contents: tasks of each split that are compared.
    """

    walks: int = 4
    turns: int = 30
    pairs: int = 40
    states: int = 12
    depth: int = 15
    continuations: int = 4
    search: int = 3000
    long: int = 120
    floor: int = 8
    variants: int = 200
    attack: int = 3000
    plans: int = 40
    contents: int = 200

    @classmethod
    def light(cls) -> Effort:
        """Return the effort for environments with slow steps, such as those in a browser."""
        small = cls(walks=2, turns=6, pairs=4, states=3, depth=4, continuations=2, search=40, long=24)
        return replace(small, floor=4, variants=6, attack=60, plans=4, contents=8)


@dataclass(frozen=True, slots=True)
class ProbeStep:
    """The result of a reset() or step(); `turn` 0 is the reset."""

    turn: int
    observation: Any
    reward: Any
    terminated: bool
    truncated: bool
    info: dict[str, Any]

    def copied(self) -> ProbeStep:
        """Return a step that the environment cannot change any more."""
        info = {key: _duplicate(value) for key, value in self.info.items()}
        return ProbeStep(self.turn, _duplicate(self.observation), self.reward, self.terminated, self.truncated, info)

    @property
    def over(self) -> bool:
        """Whether the episode has ended."""
        return self.terminated or self.truncated

    @property
    def key(self) -> Any:
        """The state key, or None."""
        return self.info.get(STATE)

    @property
    def admissible(self) -> list[Any] | None:
        """The admissible actions, or None."""
        actions = self.info.get(ADMISSIBLE)
        return None if actions is None else list(actions)


@dataclass(frozen=True, slots=True)
class ProbeEpisode:
    """An episode or its beginning; `moments` has one more entry than `actions`."""

    task: str | None
    seed: int
    actions: tuple[Any, ...]
    moments: tuple[ProbeStep, ...]
    altered: str | None = None
    """Which returned value was changed later, if any."""

    @property
    def last(self) -> ProbeStep:
        """The last step."""
        return self.moments[-1]

    @property
    def earned(self) -> float:
        """The sum of the rewards."""
        return sum(float(moment.reward) for moment in self.moments)


class Crash(Exception):
    """The environment raised an unexpected exception, or broke Gymnasium's contract."""

    def __init__(self, message: str, task: str | None, seed: int, actions: Sequence[object], claim: str = "") -> None:
        """Keep what happened, the actions, and an assertion that shows it."""
        super().__init__(message)
        self.task, self.seed, self.actions, self.claim = task, seed, tuple(actions), claim


@dataclass(frozen=True)
class EnvSource:
    """How to make the environment, here and in a script."""

    name: str
    build: Callable[..., Environment] = field(repr=False)
    code: str
    limit: int | None
    """Turn limit of the registration."""

    @classmethod
    def of(cls, env: str | Callable[..., Environment], kwargs: Mapping[str, Any]) -> EnvSource:
        """Return the source of an id, or of a callable that takes `kwargs`.

        Raises:
            UnknownEnv: no environment has this id.
        """
        if not isinstance(env, str):
            return cls(_name(env), functools.partial(env, **kwargs), _code_of(env, kwargs), None)
        spec = find(env)
        full = env
        entry = spec.entry_point
        if ":" not in env and isinstance(entry, str) and not entry.startswith("turncredit."):
            # Elsewhere, the module that registers it may not be imported.
            full = f"{entry.partition(':')[0]}:{spec.id}"
        arguments = "".join(f", {key}={value!r}" for key, value in kwargs.items())
        code = f"from turncredit.envs import make\n\nenv = make({full!r}{arguments})"
        limit = kwargs.get("max_episode_steps", spec.max_episode_steps)
        return cls(spec.id, functools.partial(make, env, **kwargs), code, limit if limit != -1 else None)

    def limited(self, turns: int) -> Environment:
        """Return an instance with another turn limit (-1: none), if `limit` is not None."""
        return self.build(max_episode_steps=turns)

    def limited_code(self, turns: int) -> str:
        """Return the code that makes such an instance."""
        head, _, _ = self.code.rpartition(")")
        head = head.replace(f", max_episode_steps={self.limit}", "")
        return f"{head}, max_episode_steps={turns})"

    def code_with(self, name: str, value: object) -> str:
        """Return the code that makes an instance with another argument."""
        head, _, _ = self.code.rpartition(")")
        arguments = self.build.keywords if isinstance(self.build, functools.partial) else {}
        if name in arguments:
            written = f"{name}={arguments[name]!r}"
            head = head.replace(f", {written}", "").replace(f"({written}, ", "(").replace(f"({written}", "(")
        return f"{head}{'' if head.endswith('(') else ', '}{name}={value!r})"


def _name(env: Callable[..., object]) -> str:
    """Return a name for a callable."""
    inner = env.func if isinstance(env, functools.partial) else env
    return str(getattr(inner, "__qualname__", repr(env)))


def _code_of(env: Callable[..., object], kwargs: Mapping[str, object]) -> str:
    """Return code that makes the environment, with a placeholder if the callable cannot be imported."""
    args: tuple[object, ...] = ()
    if isinstance(env, functools.partial):
        args, kwargs, env = env.args, {**env.keywords, **kwargs}, env.func
    module, name = getattr(env, "__module__", None), getattr(env, "__qualname__", "")
    arguments = ", ".join([*map(repr, args), *(f"{key}={value!r}" for key, value in kwargs.items())])
    if not module or not name or "<" in name:
        return f"env = ...  # made by {env!r}, given to check_env" + (f" ({arguments})" if arguments else "")
    return f"from {module} import {name.partition('.')[0]}\n\nenv = {name}({arguments})"


def script(
    source: EnvSource | str, task: str | None, seed: int, *blocks: str, runs: Mapping[str, Sequence[object]]
) -> str:
    """Return a script that plays and then asserts.

    Args:
        source: how the environment is made, or code that makes it.
        task: the task; None lets the environment draw one.
        seed: the seed.
        blocks: code that follows, with an assertion that fails as long as the fault exists.
        runs: name of a list of answers -> the actions to play. Each answer is (observation, reward, terminated,
            truncated, info), the first one from reset().
    """
    code = source if isinstance(source, str) else source.code
    options = "" if task is None else f', options={{"task": {task!r}}}'
    play = (
        "def play(actions):\n"
        f"    observation, info = env.reset(seed={seed}{options})\n"
        "    answers = [(observation, 0.0, False, False, info)]\n"
        "    for action in actions:\n"
        "        answers.append(env.step(action))\n"
        "    return answers\n"
    )
    plays = "\n".join(f"{name} = play({literal(list(actions))})" for name, actions in runs.items())
    return "\n".join(part for part in (code, "\n\n" + play, "", plays, *blocks) if part or part == "") + "\n"


def literal(action: object) -> str:
    """Return the code of an action or a list of actions; NumPy numbers become Python numbers."""
    if isinstance(action, list):
        return "[" + ", ".join(map(literal, action)) + "]"
    return repr(action.item() if isinstance(action, np.generic) else action)


def _duplicate(value: object) -> object:
    """Return what `copy.deepcopy` does, ten times as fast for the usual values of info."""
    kind = type(value)
    if kind in _ATOMS:
        return value
    if isinstance(value, list) and kind is list:
        return [_duplicate(part) for part in value]
    if isinstance(value, dict) and kind is dict:
        return {key: _duplicate(part) for key, part in value.items()}
    return copy.deepcopy(value)


def same(a: Any, b: Any) -> bool:
    """Return whether two observations (or parts of info) are equal."""
    if type(a) in _ATOMS and type(b) in _ATOMS:
        return bool(a == b)
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        alike = isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.dtype == b.dtype
        return bool(alike and np.array_equal(a, b))
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def difference(a: ProbeStep, b: ProbeStep, *, keys: Iterable[str] = CONTRACT, start: bool = False) -> str | None:
    """Return what differs between two steps, in words, or None.

    Args:
        a: one step.
        b: the other.
        keys: keys of info to compare; the order of admissible actions does not count.
        start: the steps are results of reset(), without reward and end.
    """
    pairs = [("observation", a.observation, b.observation)]
    if not start:
        pairs += [(name, getattr(a, name), getattr(b, name)) for name in ("reward", "terminated", "truncated")]
    for key in keys:
        pairs.append((f'info["{key}"]', _canonical(key, a.info), _canonical(key, b.info)))
    for name, value, other in pairs:
        if not same(value, other):
            return f"{name} is {cut(value)} and {cut(other)}"
    return None


def _canonical(key: str, info: Mapping[str, object]) -> object:
    """Return info[key] in a canonical order."""
    value = info.get(key)
    return sorted(value, key=repr) if key == ADMISSIBLE and isinstance(value, list) else value


def cut(value: object, longest: int = 160) -> str:
    """Return a value for a message, shortened if necessary."""
    text = repr(value)
    return text if len(text) <= longest else f"{text[: longest - 20]}... ({len(text)} characters)"


def read_step(raw: object, task: str | None, seed: int, actions: Sequence[object]) -> ProbeStep:
    """Return a result as a step (not copied), or raise a Crash if it breaks Gymnasium's contract."""
    call, size = ("step()", 5) if actions else ("reset()", 2)

    def crash(problem: str, claim: str) -> Crash:
        return Crash(f"{call} {problem}", task, seed, actions, claim)

    if not isinstance(raw, tuple) or len(raw) != size:
        claim = f"assert len(answers[-1]) == 5  # {call} has to return {size} values"
        raise crash(f"returned {cut(raw)} instead of a tuple of {size}", claim)
    observation, reward, terminated, truncated, info = raw if size == 5 else (raw[0], 0.0, False, False, raw[1])
    if not isinstance(info, dict):
        raise crash(
            f"returned an info of type {type(info).__name__}, not dict", "assert isinstance(answers[-1][4], dict)"
        )
    try:
        fine = not isinstance(reward, (str, bool)) and math.isfinite(float(reward))
    except (TypeError, ValueError):
        fine = False
    if not fine:
        claim = "import math\n\nassert math.isfinite(answers[-1][1]) and not isinstance(answers[-1][1], bool)"
        raise crash(f"returned the reward {reward!r}, which is not a finite number", claim)
    for name, value, at in (("terminated", terminated, 2), ("truncated", truncated, 3)):
        if not isinstance(value, (bool, np.bool_)):
            raise crash(
                f"returned {name}={value!r}, which is not a bool", f"assert isinstance(answers[-1][{at}], bool)"
            )
    return ProbeStep(len(actions), observation, reward, bool(terminated), bool(truncated), info)

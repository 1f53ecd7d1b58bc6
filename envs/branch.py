"""Save, resume and branch the episode of an environment, including its wrappers.

    data = save(env)                 bytes
    load(make(...), data)            the same state, possibly in another process
    env1, env2 = branch(env, 2)      two copies that continue independently of each other and of `env`
    reseed(env, 7)                   the same state, with other random numbers from here on

An environment's own `snapshot()` does not know of the turn limit around it, so `save` adds the state of the wrappers:
the turns so far, and whether the episode is over. It supports the wrappers of this package and Gymnasium's standard
ones. Another wrapper needs `snapshot()` and `restore()` methods of its own, which then cover everything it wraps
(`Deadline` and `Isolated` work like this).

Not included: the random generators of spaces (`action_space.sample()`), which do not belong to an episode.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

import gymnasium
import numpy as np
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from turncredit.envs.errors import BadSnapshot, EnvError, NotReset
from turncredit.envs.info import Environment, ResetResult
from turncredit.envs.snapshot import pack, unpack
from turncredit.envs.wrappers import EndGuard, TurnLimit

__all__ = ["OPTIONAL_METHODS", "branch", "find_method", "load", "reseed", "save"]

OPTIONAL_METHODS: Final = ("task_ids", "plan", "snapshot", "restore")
"""Methods beyond Gymnasium's that an environment may have (see `turncredit.envs.info`)."""

_FORMAT: Final = ("episode", 1)  # name and version of the bytes


class _WrapperState(NamedTuple):
    """Names of the attributes in which a wrapper keeps its limit and its state; None: it has none."""

    limit: str | None
    state: str | None


_WRAPPERS: Final[dict[type, _WrapperState]] = {
    EndGuard: _WrapperState(None, "_state"),
    TurnLimit: _WrapperState("max_turns", "_left"),
    TimeLimit: _WrapperState("_max_episode_steps", "_elapsed_steps"),
    OrderEnforcing: _WrapperState(None, "_has_reset"),
    PassiveEnvChecker: _WrapperState(None, None),
}


def save(env: Environment) -> bytes:
    """Return the current state of an environment's episode as bytes, including its wrappers.

    Args:
        env: an environment with snapshot() and restore() (`turncredit.envs.info.HasSnapshot`), wrapped or not.

    Raises:
        NotReset: called before the first reset.
        EnvError: the environment, or one of its wrappers, cannot be saved.
    """
    *wrappers, core = _layers(env)
    data = core.snapshot()
    if not isinstance(data, bytes):
        raise EnvError(f"snapshot() of {_name(core)} must return bytes, got {type(data).__name__}")
    states = [_state(wrapper) for wrapper in wrappers]
    if not all(map(_fits, wrappers, states)):
        raise NotReset
    return pack(*_FORMAT, _structure(env), {"wrappers": states, "core": data.decode("latin-1")})


def load(env: Environment, data: bytes) -> ResetResult:
    """Put an environment into a saved state.

    Args:
        env: an environment made and wrapped like the saved one.
        data: the result of `save`; untrusted bytes are safe.

    Returns:
        Observation and `info` of that state; `valid` is True.

    Raises:
        BadSnapshot: `data` is damaged, or belongs to an environment with other arguments or wrappers.
        EnvError: the environment, or one of its wrappers, cannot be restored.
    """
    *wrappers, core = _layers(env)
    saved = unpack(data, *_FORMAT, _structure(env))
    states = saved.get("wrappers", list)
    if len(states) != len(wrappers) or not all(map(_fits, wrappers, states)):
        raise saved.wrong("wrappers", "the state of each wrapper")
    try:
        inner = saved.get("core", str).encode("latin-1")
    except UnicodeEncodeError:
        raise saved.wrong("core", "one character per byte") from None
    restored = core.restore(inner)
    for wrapper, state in zip(wrappers, states, strict=True):
        name = _WRAPPERS[type(wrapper)].state
        if name is not None:
            setattr(wrapper, name, state)
    return restored  # type: ignore[no-any-return]


def branch(env: Environment, n: int, make: Callable[[], Environment] | None = None) -> list[Environment]:
    """Return new environments in the state of `env`, which continue independently of it and of each other.

    Args:
        env: an environment in an episode.
        n: number of environments, at least 1.
        make: makes an environment like `env`; None: Gymnasium makes it from `env.spec`.

    Raises:
        NotReset: called before the first reset.
        EnvError: `env` cannot be saved, or another one like it cannot be made.
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise EnvError(f"n must be an integer >= 1, got {n!r}")
    data = save(env)
    made: list[Environment] = []
    try:
        for _ in range(n):
            made.append(_again(env) if make is None else make())
            load(made[-1], data)
    except BaseException:
        for member in made:
            member.close()
        raise
    return made


def reseed(env: Environment, seed: int) -> None:
    """Give an episode in progress another random generator; nothing else of its state changes.

    Args:
        env: an environment in an episode.
        seed: of the generator that every later draw of `env.np_random` comes from.
    """
    core = env.unwrapped
    if callable(method := getattr(core, "reseed", None)):
        method(seed)  # it stands for an environment elsewhere
    else:
        core.np_random = np.random.default_rng(seed)


def find_method(env: Environment, name: str) -> Any:
    """Return a method of an environment.

    For "snapshot" and "restore" these are `save` and `load`, which include the wrappers; every environment has
    "reseed".

    Raises:
        AttributeError: the environment has no such method.
    """
    if name == "reseed":
        return partial(reseed, env)
    method = env.get_wrapper_attr(name)
    return {"snapshot": partial(save, env), "restore": partial(load, env)}.get(name, method)


def _layers(env: Environment) -> list[Any]:
    """Return the wrappers from the outermost inwards, and last the layer that has snapshot().

    Raises:
        EnvError: no layer has it, or a wrapper around it is unknown.
    """
    layers: list[object] = [env]
    while not callable(getattr(layers[-1], "snapshot", None)):
        layer = layers[-1]
        if not isinstance(layer, gymnasium.Wrapper):
            raise EnvError(f"{_name(layer)} cannot be saved: it has no snapshot() and restore()")
        if type(layer) not in _WRAPPERS:
            raise EnvError(
                f"the wrapper {_name(layer)} cannot be saved: implement snapshot() and restore() in it, "
                "or save the environment inside it"
            )
        layers.append(layer.env)
    return layers


def _structure(env: Environment) -> dict[str, Any]:
    """Return the layers and their limits, which must be equal where a state is loaded."""
    names = []
    for layer in _layers(env):
        limit = _WRAPPERS.get(type(layer), _WrapperState(None, None)).limit
        names.append(_name(layer) if limit is None else f"{_name(layer)}({getattr(layer, limit)})")
    return {"layers": " around ".join(names)}


def _state(wrapper: object) -> Any:
    name = _WRAPPERS[type(wrapper)].state
    return None if name is None else getattr(wrapper, name)


def _fits(wrapper: object, state: object) -> bool:
    """Return whether this is a possible state of a wrapper in an episode."""
    if isinstance(wrapper, EndGuard):
        return state in ("open", "over")
    if isinstance(wrapper, TurnLimit | TimeLimit):
        most = wrapper.max_turns if isinstance(wrapper, TurnLimit) else None
        return type(state) is int and state >= 0 and (most is None or state <= most)
    return state is (True if isinstance(wrapper, OrderEnforcing) else None)


def _again(env: Environment) -> Environment:
    """Return another environment made from the spec that Gymnasium recorded.

    Raises:
        EnvError: there is none, or it makes an environment with other layers.
    """
    advice = "pass a function that makes one: branch(env, n, make)"
    if env.spec is None:
        raise EnvError(f"{_name(env)} was not made by gymnasium.make, so it cannot be made again; {advice}")
    try:
        made: Environment = gymnasium.make(env.spec)
    except (ValueError, gymnasium.error.Error) as error:
        raise EnvError(f"the environment cannot be made again: {error}; {advice}") from error
    here, there = _structure(env)["layers"], _structure(made)["layers"]
    if here != there:
        made.close()
        raise BadSnapshot(f"the spec makes {there} instead of {here}; {advice}")
    return made


def _name(layer: object) -> str:
    return type(layer).__name__

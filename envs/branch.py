"""An episode saved, resumed and branched: what the environment saves of itself, and what the wrappers around it keep.

    data = save(env)                 bytes, to be written anywhere
    load(make(...), data)            the same moment, in another process
    env1, env2 = branch(env, 2)      two futures, independent of each other and of `env`

An environment's own `snapshot()` knows nothing of the turn limit around it; `save` walks through the wrappers and adds
the turns so far and whether the episode is over. It knows the wrappers of this package and those of Gymnasium that keep
no more than that. Another one is refused, unless it has `snapshot()` and `restore()` of its own, which then stand for
all that it wraps (`Deadline` and `Isolated` do it so).

Left out on purpose: the random generators of spaces (`action_space.sample()`), which are no part of an episode.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

import gymnasium
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from turnwise.envs.errors import BadSnapshot, EnvError, NotReset
from turnwise.envs.snapshot import pack, unpack
from turnwise.envs.wrappers import EndGuard, TurnLimit

__all__ = ["branch", "load", "offered", "save"]

_SAVED: Final = ("episode", 1)  # what the bytes are called, and the version of what is in them


class _Kept(NamedTuple):
    """Where a wrapper keeps its limit, and what it keeps of the episode; None for nothing."""

    limit: str | None
    state: str | None


_KEPT: Final[dict[type, _Kept]] = {
    EndGuard: _Kept(None, "_state"),
    TurnLimit: _Kept("max_turns", "_left"),
    TimeLimit: _Kept("_max_episode_steps", "_elapsed_steps"),
    OrderEnforcing: _Kept(None, "_has_reset"),
    PassiveEnvChecker: _Kept(None, None),
}


def save(env: gymnasium.Env[Any, Any]) -> bytes:
    """Return the present moment of an environment's episode, wrappers included; nothing about it changes.

    Args:
        env: an environment that offers snapshot() and restore() (`turnwise.envs.info.HasSnapshot`), wrapped or not.

    Raises:
        NotReset: no episode has been started.
        EnvError: it does not offer them, or there is a wrapper of which nobody knows what it keeps.
    """
    *wrappers, core = _layers(env)
    data = core.snapshot()
    if not isinstance(data, bytes):
        raise EnvError(f"snapshot() of {_name(core)} returned {type(data).__name__}; it has to return bytes")
    states = [_state(wrapper) for wrapper in wrappers]
    if not all(map(_fits, wrappers, states)):
        raise NotReset
    return pack(*_SAVED, _made(env), {"wrappers": states, "core": data.decode("latin-1")})


def load(env: gymnasium.Env[Any, Any], data: bytes) -> tuple[Any, dict[str, Any]]:
    """Bring an environment to the moment that was saved.

    Args:
        env: made and wrapped as the one that was saved, fresh or used.
        data: what `save` returned; bytes from anywhere do no harm.

    Returns:
        Observation and `info` of that moment; `valid` is True.

    Raises:
        BadSnapshot: the bytes are none, or torn, or of an environment that was made or wrapped otherwise.
        EnvError: the environment cannot be saved, and so not be restored.
    """
    *wrappers, core = _layers(env)
    saved = unpack(data, *_SAVED, _made(env))
    states = saved.get("wrappers", list)
    if len(states) != len(wrappers) or not all(map(_fits, wrappers, states)):
        raise saved.wrong("wrappers", "what each of the wrappers keeps")
    try:
        inner = saved.get("core", str).encode("latin-1")
    except UnicodeEncodeError:
        raise saved.wrong("core", "bytes, a character each") from None
    found = core.restore(inner)
    for wrapper, state in zip(wrappers, states, strict=True):
        name = _KEPT[type(wrapper)].state
        if name is not None:
            setattr(wrapper, name, state)
    return found  # type: ignore[no-any-return]


def branch(
    env: gymnasium.Env[Any, Any], n: int, make: Callable[[], gymnasium.Env[Any, Any]] | None = None
) -> list[gymnasium.Env[Any, Any]]:
    """Return new environments that stand where `env` stands, and go on independently of it and of each other.

    Args:
        env: an environment in the middle of an episode.
        n: how many, at least 1.
        make: makes one like `env`; None: as Gymnasium recorded it (`env.spec`), with the same arguments and wrappers.

    Raises:
        NotReset: no episode has been started.
        EnvError: `env` cannot be saved, or one like it cannot be made.
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise EnvError(f"an episode is branched into a whole number of 1 or more, got {n!r}")
    data = save(env)
    made: list[gymnasium.Env[Any, Any]] = []
    try:
        for _ in range(n):
            made.append(_again(env) if make is None else make())
            load(made[-1], data)
    except BaseException:
        for one in made:
            one.close()
        raise
    return made


def offered(env: gymnasium.Env[Any, Any], name: str) -> Any:
    """Return a method of an environment; of "snapshot" and "restore", what does it with all wrappers.

    Raises:
        AttributeError: it has no such method.
    """
    method = env.get_wrapper_attr(name)
    return {"snapshot": partial(save, env), "restore": partial(load, env)}.get(name, method)


def _layers(env: gymnasium.Env[Any, Any]) -> list[Any]:
    """Return the wrappers from the outermost inwards, and at last what saves itself.

    Raises:
        EnvError: nothing does, or a wrapper is not known.
    """
    layers: list[Any] = [env]
    while not callable(getattr(layers[-1], "snapshot", None)):
        layer = layers[-1]
        if not isinstance(layer, gymnasium.Wrapper):
            raise EnvError(f"{_name(layer)} cannot be saved: it offers no snapshot() and restore()")
        if type(layer) not in _KEPT:
            raise EnvError(
                f"nobody knows what the wrapper {_name(layer)} keeps of an episode: give it snapshot() and restore(), "
                "or save what it wraps"
            )
        layers.append(layer.env)
    return layers


def _made(env: gymnasium.Env[Any, Any]) -> dict[str, Any]:
    """Return what has to be the same around an environment that goes on."""
    names = []
    for layer in _layers(env):
        limit = _KEPT.get(type(layer), _Kept(None, None)).limit
        names.append(_name(layer) if limit is None else f"{_name(layer)}({getattr(layer, limit)})")
    return {"layers": " around ".join(names)}


def _state(wrapper: Any) -> Any:
    name = _KEPT[type(wrapper)].state
    return None if name is None else getattr(wrapper, name)


def _fits(wrapper: Any, state: object) -> bool:
    """Return whether a wrapper may have this state in an episode."""
    if isinstance(wrapper, EndGuard):
        return state in ("open", "over")
    if isinstance(wrapper, TurnLimit | TimeLimit):
        most = wrapper.max_turns if isinstance(wrapper, TurnLimit) else None
        return type(state) is int and state >= 0 and (most is None or state <= most)
    return state is (True if isinstance(wrapper, OrderEnforcing) else None)


def _again(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """Return an environment made and wrapped as Gymnasium recorded it.

    Raises:
        EnvError: that is not recorded, or gives something else.
    """
    advice = "give branch() a function that makes one (make=...)"
    if env.spec is None:
        raise EnvError(f"it is not recorded how {_name(env)} was made, since gymnasium.make did not: {advice}")
    try:
        made: gymnasium.Env[Any, Any] = gymnasium.make(env.spec)
    except (ValueError, gymnasium.error.Error) as error:
        raise EnvError(f"an environment like this one cannot be made: {error}; {advice}") from error
    here, there = _made(env)["layers"], _made(made)["layers"]
    if here != there:
        made.close()
        raise BadSnapshot(f"what is recorded makes {there}, and not {here}: {advice}")
    return made


def _name(layer: object) -> str:
    return type(layer).__name__

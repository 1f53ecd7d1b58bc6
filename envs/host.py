"""Environments in another process: the host that runs them there, and their proxies in this process.

    EnvHost        holds environments by number, in the process where they run
    EnvConnection  one environment of a host, as seen from elsewhere; calls return futures
    RemoteEnv      a Gymnasium environment that makes its calls through a connection
    EnvHosts       makes environments elsewhere

Nothing here knows how calls travel. `turncredit.agents.rollouts.env_processes` sends them to processes of this machine;
an actor of another framework can hold an `EnvHost` as well. It then needs an `EnvConnection` whose `submit` sends
(number, method, arguments) to `EnvHost.call`, and an `EnvHosts` whose `open` asks for "make" and returns a `RemoteEnv`
when the facts arrive. Everything that crosses is picklable. Exceptions arrive as they were raised.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, Protocol, runtime_checkable

from turncredit.envs.branch import OPTIONAL_METHODS, find_method
from turncredit.envs.errors import EnvError
from turncredit.envs.info import Environment, ResetOptions, ResetResult, StepResult
from turncredit.processes.failures import message_of

__all__ = [
    "EnvConnection",
    "EnvHost",
    "EnvHosts",
    "LimitsLosses",
    "ProxyEnv",
    "RemoteEnv",
    "facts_of",
    "new_host",
    "require_portable",
]

MakeEnv = Callable[[], Environment]


class EnvHost:
    """Environments by number, in the process in which they run."""

    def __init__(self) -> None:
        """Begin without environments."""
        self._envs: dict[int, Environment] = {}

    def call(self, number: int, method: str, *args: Any, **kwargs: Any) -> Any:
        """Return the result of one call.

        Args:
            number: of the environment, chosen by the caller.
            method: "make", with a function that makes the environment, which returns `facts_of` it; "close"; or a
                method of the environment: reset, step, render, reseed, or one of
                `turncredit.envs.branch.OPTIONAL_METHODS`.
            args: of the method.
            kwargs: of the method.

        Raises:
            EnvError: `make` returned an environment that is already in use.
        """
        if method == "make":
            return self._make(number, *args)
        if method == "close":
            env = self._envs.pop(number, None)
            return None if env is None else env.close()
        return find_method(self._envs[number], method)(*args, **kwargs)

    def _make(self, number: int, make: MakeEnv) -> dict[str, object]:
        env = make()
        if any(env is other for other in self._envs.values()):
            raise EnvError("make() returned an environment that is already in use; return a new one from every call")
        self._envs[number] = env
        return facts_of(env)


def new_host() -> Callable[..., Any]:
    """Return `EnvHost.call` of a new host."""
    return EnvHost().call


class EnvConnection(Protocol):
    """One environment in a host, as seen from another process."""

    @property
    def retired(self) -> bool:
        """Whether the host should be left, since it is damaged, has grown or holds too many: make the next episode's
        environment elsewhere."""

    def submit(self, method: str, seconds: float | None, *args: object, **kwargs: Any) -> Future[Any]:
        """Call a method of the environment and return the future of its result, without waiting.

        Args:
            method: see `EnvHost.call`.
            seconds: deadline from the moment at which the host can run the call; None: no limit.
            args: of the method.
            kwargs: of the method.

        The future raises what the method raised, DeadlineExceeded if it is late, or EnvironmentDied if the host ended:
        HostDied, unless this call is known to have ended it.
        """

    def close(self) -> Future[Any]:
        """Close the environment, and forget it whatever happens; return the future of that."""


class EnvHosts(Protocol):
    """Makes environments in other processes."""

    def open(self, make: MakeEnv, seconds: float | None, start_seconds: float | None) -> Future[RemoteEnv]:
        """Return the future of a new environment.

        Args:
            make: makes the environment; has to be picklable.
            seconds: deadline of each call; None: no limit.
            start_seconds: deadline of `make`.

        Raises:
            EnvError: `make` cannot be pickled.
        """

    @property
    def replaced(self) -> int:
        """Number of hosts that were replaced, after a failure or because they had grown."""

    def close(self) -> None:
        """Close all environments and end the hosts."""


@runtime_checkable
class LimitsLosses(Protocol):
    """Hosts that limit how many episodes the death of one of them ends."""

    @property
    def capacity(self) -> int:
        """How many episodes should be played at once, so that no host has more than it should have."""

    def open_alone(self, make: MakeEnv, seconds: float | None, start_seconds: float | None) -> Future[RemoteEnv]:
        """Return the future of a new environment in a host that has no other; the arguments are those of `open`."""


class ProxyEnv(Environment, ABC):
    """An environment that stands for one in another process; a subclass says how to call that one."""

    _optional: frozenset[str]

    def reset(self, *, seed: int | None = None, options: ResetOptions | None = None) -> ResetResult:
        """Start an episode.

        Raises:
            DeadlineExceeded: it took too long.
            EnvironmentDied: the process has ended.
        """
        return self._call("reset", seed=seed, options=options)  # type: ignore[no-any-return]

    def step(self, action: object) -> StepResult:
        """Take an action.

        Raises:
            DeadlineExceeded: it took too long.
            EnvironmentDied: the process has ended.
        """
        return self._call("step", action)  # type: ignore[no-any-return]

    def render(self) -> Any:
        """Return what the environment renders."""
        return self._call("render")

    def reseed(self, seed: int) -> None:
        """Give the episode other random numbers from here on (`turncredit.envs.branch.reseed`)."""
        self._call("reseed", seed)

    def __getattr__(self, name: str) -> Any:
        """Return an optional method that the environment has."""
        if name not in self.__dict__.get("_optional", ()):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return partial(self._call, name)

    @abstractmethod
    def _call(self, method: str, *args: object, **kwargs: Any) -> Any:
        """Return the result of a method of the environment."""

    def _copy(self, facts: dict[str, Any]) -> None:
        """Take over what `facts_of` says about the environment."""
        self.observation_space = facts["observation_space"]
        self.action_space = facts["action_space"]
        self.metadata = facts["metadata"]
        self.render_mode = facts["render_mode"]
        self.spec = facts["spec"]
        self._optional = facts["optional"]


class RemoteEnv(ProxyEnv):
    """An environment that is called through a connection."""

    def __init__(self, connection: EnvConnection, facts: dict[str, object], seconds: float | None) -> None:
        """Stand for an environment.

        Args:
            connection: to the environment.
            facts: what `facts_of` says about it.
            seconds: deadline of each call; None: no limit.
        """
        self.connection = connection
        self.seconds = seconds
        self._copy(facts)

    def submit(self, method: str, *args: object, **kwargs: Any) -> Future[Any]:
        """Call a method and return the future of its result."""
        return self.connection.submit(method, self.seconds, *args, **kwargs)

    def close(self) -> None:
        """Close the environment, and wait until that is done."""
        self.connection.close().result()

    def _call(self, method: str, *args: object, **kwargs: Any) -> Any:
        return self.submit(method, *args, **kwargs).result()


def facts_of(env: Environment) -> dict[str, Any]:
    """Return the attributes of an environment that the one that stands for it copies."""
    spec = env.spec
    try:
        pickle.loads(pickle.dumps(spec))
    except Exception:
        spec = None
    return {
        "observation_space": env.observation_space,
        "action_space": env.action_space,
        "metadata": env.metadata,
        "render_mode": env.render_mode,
        "spec": spec,
        "optional": frozenset(name for name in OPTIONAL_METHODS if env.has_wrapper_attr(name)),
    }


def require_portable(make: MakeEnv) -> bytes:
    """Return a function that makes an environment, pickled.

    Raises:
        EnvError: it cannot be pickled.
    """
    try:
        return pickle.dumps(make)
    except Exception as error:
        raise EnvError(
            f"{make!r} cannot be sent to another process ({message_of(error)}); "
            'use a function of a module, or functools.partial(turncredit.envs.make, "...")'
        ) from error

"""Environments by name: ours, and those of any installed package, through Gymnasium's own registry.

Gymnasium dropped the loading of plug-ins in its version 1.0: the entry-point group `gymnasium.envs`, in which packages
still announce their environments, is read by nobody there. `make` and `env_ids` read it, with the meaning that it had:
the entry point is a function that registers, its name is the namespace of the ids, and `__root__` stands for none. So a
third package needs one entry point and no import here. Plain `gymnasium.make` needs `import turnwise.envs` before it,
or the id as "turnwise.envs:turnwise/Household-v0".

Every environment registered here gets `EndGuard` around Gymnasium's turn limit, and neither Gymnasium's passive checker
nor its order enforcer. The checker looks at the first steps of every single instance, which adds a third to a short
episode and tells nothing that `turnwise check` has not told before; the order is kept by `EndGuard`.
"""

from __future__ import annotations

import importlib
import inspect
import warnings
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

import gymnasium
from gymnasium.envs import registration as gym_registration
from gymnasium.envs.registration import EnvSpec, WrapperSpec

from turnwise.envs.errors import EnvError, UnknownEnv, UnknownOption
from turnwise.envs.info import Demonstrator
from turnwise.envs.miniwob.catalogue import task_names
from turnwise.registry import suggest

__all__ = [
    "GROUP",
    "demonstrators",
    "env_ids",
    "find",
    "load_plugins",
    "make",
    "register",
    "register_envs",
    "takes",
    "variant_of",
]

GROUP: Final = "gymnasium.envs"
_GUARD: Final = WrapperSpec("EndGuard", "turnwise.envs.wrappers:EndGuard", {})
_OF_MAKE: Final = frozenset({"max_episode_steps", "disable_env_checker"})

_listed: set[str] = set()
_loaded: set[tuple[str, str]] = set()


def register(
    id: str,
    entry_point: str | Callable[..., gymnasium.Env[Any, Any]],
    *,
    max_episode_steps: int | None = None,
    nondeterministic: bool = False,
    kwargs: Mapping[str, Any] | None = None,
) -> None:
    """Register a text environment with Gymnasium and list it in `env_ids()`; a second time does nothing.

    Args:
        id: "namespace/Name-v0".
        entry_point: "package.module:Class" (imported when the first one is made), or a callable.
        max_episode_steps: turns after which an episode is cut (`truncated`); None for no limit.
        nondeterministic: the same seed and actions need not give the same episode.
        kwargs: defaults of the constructor.

    Raises:
        EnvError: another entry point has that id already, or the id is malformed.
    """
    known = gymnasium.registry.get(id)
    if known is not None:
        if known.entry_point != entry_point:
            raise EnvError(f"{id!r} is registered already, for {known.entry_point!r}; choose another name or version")
        _listed.add(id)
        return
    try:
        gymnasium.register(
            id,
            entry_point,
            max_episode_steps=max_episode_steps,
            nondeterministic=nondeterministic,
            order_enforce=False,
            disable_env_checker=True,
            additional_wrappers=(_GUARD,),
            kwargs=dict(kwargs or {}),
        )
    except gymnasium.error.Error as error:
        raise EnvError(f"{id!r} cannot be registered: {error}") from error
    # Inside a plug-in, Gymnasium puts the plug-in's namespace before the id.
    space = gym_registration.current_namespace
    _listed.add(id if space is None else f"{space}/{id.rpartition('/')[2]}")


def register_envs() -> None:
    """Register the environments of this package with Gymnasium; importing `turnwise.envs` calls it."""
    register("turnwise/Household-v0", "turnwise.envs.household:HouseholdEnv", max_episode_steps=50)
    register("turnwise/WebShop-v0", "turnwise.envs.shop.env:WebShopEnv", max_episode_steps=15)
    register("turnwise/Search-v0", "turnwise.envs.search.env:SearchEnv", max_episode_steps=5)
    register("turnwise/Code-v0", "turnwise.envs.code:CodeEnv", max_episode_steps=20)
    register("turnwise/Bash-v0", "turnwise.envs.bash:BashEnv", max_episode_steps=20)
    register("turnwise/WebShopBrowser-v0", "turnwise.envs.shop.browser_env:WebShopBrowserEnv", max_episode_steps=30)
    miniwob = "turnwise.envs.miniwob.env:MiniWoBEnv"
    register("turnwise/MiniWoB-v0", miniwob, max_episode_steps=30)
    for task in task_names():
        register(f"turnwise/MiniWoB-{task}-v0", miniwob, max_episode_steps=30, kwargs={"task": task})


def load_plugins() -> None:
    """Run the functions that installed packages announce in the entry-point group `gymnasium.envs`, each once.

    A plug-in that fails is warned about and left out: it must not take the others down.
    """
    for plugin in entry_points(group=GROUP):
        key = (plugin.name, plugin.value)
        if key not in _loaded:
            _loaded.add(key)
            _load(plugin)


def _load(plugin: EntryPoint) -> None:
    """Run one plug-in in its namespace."""
    before = gym_registration.current_namespace
    try:
        # Some packages register when they are imported and then once more: that is no news for the user.
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*Overriding environment")
            function = plugin.load()
            gym_registration.current_namespace = None if plugin.name == "__root__" else plugin.name
            function()
    except Exception as error:
        where = f"{plugin.name} = {plugin.value}"
        message = f"the environments of {where!r} are not available: {type(error).__name__}: {error}"
        warnings.warn(message, RuntimeWarning, stacklevel=4)
    finally:
        # By hand, since Gymnasium's own context manager keeps the namespace of a plug-in that raised.
        gym_registration.current_namespace = before


def env_ids(*, variants: bool = True) -> list[str]:
    """Return the ids of all environments registered with `register`, including those of plug-ins, sorted.

    Args:
        variants: include ids such as "turnwise/MiniWoB-click-button-v0" that preset an option of "turnwise/MiniWoB-v0".
    """
    load_plugins()
    known = sorted(name for name in _listed if name in gymnasium.registry)
    return known if variants else [name for name in known if variant_of(name) is None]


def variant_of(id: str) -> str | None:
    """Return the id of the environment of which a registered id is a variant, or None.

    A variant has the same entry point and version, presets keyword arguments, and extends the name with "-...":
    "turnwise/MiniWoB-click-button-v0" is a variant of "turnwise/MiniWoB-v0".
    """
    spec = gymnasium.registry[id]
    stem, _, version = id.rpartition("-v")
    parts = stem.split("-")
    for size in range(len(parts) - 1, 0, -1):
        base = gymnasium.registry.get(f"{'-'.join(parts[:size])}-v{version}")
        if spec.kwargs and base is not None and base.entry_point == spec.entry_point:
            return base.id
    return None


def find(id: str) -> EnvSpec:
    """Return Gymnasium's record of an environment.

    Args:
        id: "namespace/Name-v0", the same without "-v0" for the newest version, or "module:namespace/Name-v0", which
            imports the module first.

    Raises:
        UnknownEnv: there is none; the near names are in the message. A bare name that exists in one namespace only is
            among them.
    """
    module, _, name = id.rpartition(":")
    if module:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise UnknownEnv(f"unknown environment {id!r}: module {module!r} cannot be imported ({error})") from error
    if name not in gymnasium.registry:
        load_plugins()
    if name not in gymnasium.registry:
        name = _newest(name) or name
    if name not in gymnasium.registry:
        raise UnknownEnv(f"unknown environment {id!r}{_suggest(name)}")
    return gymnasium.registry[name]


def _newest(name: str) -> str | None:
    """Return the id of the newest version of an id without version; None when there is none."""
    versions = [spec for spec in gymnasium.registry.values() if spec.id == f"{name}-v{spec.version}"]
    return max(versions, key=lambda spec: spec.version or 0).id if versions else None


def _suggest(name: str) -> str:
    """Return a near id, of a text environment if possible, or the ids of all text environments."""
    listed = env_ids()
    same_end = [known for known in listed if known.rpartition("/")[2].lower() == name.rpartition("/")[2].lower()]
    if same_end:
        return f"; did you mean {same_end[0]!r}?"
    near = get_close_matches(name, listed, n=1) or get_close_matches(name, list(gymnasium.registry), n=1)
    return suggest(near[0] if near else name, near or env_ids(variants=False))


def make(id: str, **kwargs: Any) -> gymnasium.Env[Any, Any]:
    """Return a new environment, wrapped as it was registered; errors name what was meant.

    Args:
        id: see `find`.
        kwargs: `max_episode_steps` (-1: no limit), and whatever the environment's constructor takes.

    Raises:
        UnknownEnv: no environment of that id.
        UnknownOption: the constructor takes no such keyword (the near name is in the message), or no such value.
        EnvError: the environment's module cannot be imported (a missing extra, most often).
    """
    spec = find(id)
    _check_kwargs(spec, kwargs)
    try:
        env: gymnasium.Env[Any, Any] = gymnasium.make(spec.id, **kwargs)
    except TypeError as error:
        if not kwargs:
            raise
        given = ", ".join(f"{name}={value!r}" for name, value in kwargs.items())
        reason = str(error).split(" was raised from the environment creator", 1)[0]
        raise UnknownOption(f"{spec.id} cannot be made with {given}: {reason}") from error
    return env


def takes(id: str, option: str) -> bool:
    """Return whether the constructor of an environment names an option among its keywords.

    Args:
        id: see `find`.
        option: the keyword, "split" say.

    Raises:
        UnknownEnv: no environment of that id.
        EnvError: the environment's module cannot be imported.
    """
    return option in (_parameters(find(id)) or ())


def demonstrators(id: str) -> dict[str, Callable[[], Demonstrator]]:
    """Return who can demonstrate an environment knowing no more than the agent: its class's `demonstrators`.

    Args:
        id: see `find`.

    Returns:
        Name -> what makes a player of one episode; {} where the class names none.

    Raises:
        UnknownEnv: no environment of that id.
        EnvError: the environment's module cannot be imported.
    """
    return dict(getattr(_creator(find(id)), "demonstrators", {}))


def _check_kwargs(spec: EnvSpec, kwargs: Mapping[str, Any]) -> None:
    """Refuse keywords that the constructor does not take, before anything is built."""
    parameters = _parameters(spec)
    if parameters is None:
        return
    for name in kwargs:
        if name not in parameters and name not in _OF_MAKE:
            known = [*parameters, *sorted(_OF_MAKE - {"disable_env_checker"})]
            raise UnknownOption(f"{spec.id} takes no {name!r}{suggest(name, known)}")


def _creator(spec: EnvSpec) -> Any:
    """Return the class or function that makes an environment."""
    creator = spec.entry_point
    if not isinstance(creator, str):
        return creator
    module, _, attribute = creator.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise EnvError(f"{spec.id} cannot be made: {spec.entry_point!r} cannot be imported ({error})") from error


def _parameters(spec: EnvSpec) -> list[str] | None:
    """Return the keywords of an environment's constructor; None when it takes any or cannot be asked."""
    try:
        parameters = inspect.signature(_creator(spec)).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return [parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_POSITIONAL]

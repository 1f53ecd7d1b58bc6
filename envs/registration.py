"""Environments by id: turncredit's own, and those of installed packages, in Gymnasium's registry.

Gymnasium 1.0 no longer reads the entry-point group `gymnasium.envs`, in which packages declare their environments.
`make` and `env_ids` read it, with its former meaning: each entry point is a function that registers environments, and
its name is the namespace of their ids (`__root__`: none). `gymnasium.make` itself needs `import turncredit.envs` first,
or an id such as "turncredit.envs:turncredit/Household-v0".

Environments registered here are wrapped in `EndGuard`, and not in Gymnasium's passive checker and order enforcer: the
checker makes short episodes a third slower and finds nothing that `turncredit check` does not find, and `EndGuard`
enforces the order.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from importlib.metadata import EntryPoint
from typing import Any, Final

import gymnasium
from gymnasium.envs import registration as gym_registration
from gymnasium.envs.registration import EnvSpec, WrapperSpec

from turncredit.envs.errors import EnvError, UnknownEnv, UnknownOption
from turncredit.envs.info import Demonstrator, EnvArguments, Environment
from turncredit.envs.miniwob.catalogue import task_names
from turncredit.envs.parts import LEVELS, MIXTURE, MixturePart, level_parts, read_parts, tables_of
from turncredit.former_name import current_name
from turncredit.registry import entry_points, import_registered, import_typed, require_trust, suggest

__all__ = [
    "GROUP",
    "creator_of",
    "demonstrators",
    "env_ids",
    "find",
    "load_plugins",
    "make",
    "maker",
    "parts_of",
    "register",
    "register_envs",
    "takes",
    "variant_of",
]

GROUP: Final = "gymnasium.envs"
_GUARD: Final = WrapperSpec("EndGuard", "turncredit.envs.wrappers:EndGuard", {})
_OF_MAKE: Final = frozenset({"max_episode_steps", "disable_env_checker"})
_OF_MIXTURE: Final[tuple[str, ...]] = ("parts", "render_mode", "disable_env_checker")

_listed: set[str] = set()
_loaded: set[tuple[str, str]] = set()


def register(
    id: str,
    entry_point: str | Callable[..., Environment],
    *,
    max_episode_steps: int | None = None,
    nondeterministic: bool = False,
    kwargs: Mapping[str, object] | None = None,
) -> None:
    """Register an environment with Gymnasium and list it in `env_ids()`.

    A second identical call does nothing. The same definition loaded again (a notebook's cell, a file imported under two
    names) replaces the first.

    Args:
        id: "namespace/Name-v0".
        entry_point: "package.module:Class", imported when needed, or a callable.
        max_episode_steps: turns after which an episode is truncated; None for no limit.
        nondeterministic: the same seed and actions may give different episodes.
        kwargs: default keyword arguments of the constructor.

    Raises:
        EnvError: the id belongs to another entry point, or is malformed.
    """
    existing = gymnasium.registry.get(id)
    if existing is not None:
        if existing.entry_point == entry_point:
            _listed.add(id)
            return
        if not _same_definition(existing.entry_point, entry_point):
            raise EnvError(f"{id!r} is already registered for {existing.entry_point!r}; choose another name or version")
        del gymnasium.registry[id]
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
    # Gymnasium prefixes the id with the namespace of the plug-in that is being loaded.
    space = gym_registration.current_namespace
    _listed.add(id if space is None else f"{space}/{id.rpartition('/')[2]}")


def _same_definition(first: object, second: object) -> bool:
    """Whether two callables have one name in one module or one file."""
    name = getattr(first, "__qualname__", None)
    if name is None or "<" in name or name != getattr(second, "__qualname__", None):
        return False
    return first.__module__ == second.__module__ or _file(first) == _file(second) is not None


def _file(value: Any) -> str | None:
    try:
        return inspect.getsourcefile(value)
    except (TypeError, OSError):
        return None


def register_envs() -> None:
    """Register the environments of this package with Gymnasium; called when `turncredit.envs` is imported."""
    register("turncredit/Household-v0", "turncredit.envs.household:HouseholdEnv", max_episode_steps=50)
    register("turncredit/WebShop-v0", "turncredit.envs.shop.env:from_keys", max_episode_steps=15)
    register("turncredit/Search-v0", "turncredit.envs.search.env:from_keys", max_episode_steps=5)
    register("turncredit/Code-v0", "turncredit.envs.code:CodeEnv", max_episode_steps=20)
    register("turncredit/Bash-v0", "turncredit.envs.bash:BashEnv", max_episode_steps=20)
    register("turncredit/Desk-v0", "turncredit.envs.desk:DeskEnv", max_episode_steps=30)
    register("turncredit/WebShopBrowser-v0", "turncredit.envs.shop.browser_env:from_keys", max_episode_steps=30)
    register("turncredit/Android-v0", "turncredit.envs.android.env:AndroidEnv", max_episode_steps=120)
    world = "turncredit.envs.android.androidworld_env:AndroidWorldEnv"
    register("turncredit/AndroidWorld-v0", world, max_episode_steps=120, nondeterministic=True)
    miniwob = "turncredit.envs.miniwob.env:MiniWoBEnv"
    register("turncredit/MiniWoB-v0", miniwob, max_episode_steps=30)
    register(
        "turncredit/OpenEnv-v0", "turncredit.envs.openenv.env:OpenEnvEnv", max_episode_steps=50, nondeterministic=True
    )
    adapters = "turncredit.envs.adapters"
    register("turncredit/TextArena-v0", f"{adapters}.textarena:TextArenaEnv", max_episode_steps=100)
    register("turncredit/PettingZoo-v0", f"{adapters}.pettingzoo:PettingZooEnv", max_episode_steps=100)
    register(
        "turncredit/Verifiers-v0", f"{adapters}.verifiers:VerifiersEnv", max_episode_steps=50, nondeterministic=True
    )
    register("turncredit/ReasoningGym-v0", f"{adapters}.reasoning_gym:ReasoningGymEnv", max_episode_steps=1)
    register(MIXTURE, "turncredit.envs.mixture:Mixture")
    for task in task_names():
        register(f"turncredit/MiniWoB-{task}-v0", miniwob, max_episode_steps=30, kwargs={"task": task})


def load_plugins() -> None:
    """Call the functions that installed packages declare in the entry-point group `gymnasium.envs`, each once.

    A plug-in that fails is skipped with a warning.
    """
    for plugin in entry_points(group=GROUP):
        key = (plugin.name, plugin.value)
        if key not in _loaded:
            _loaded.add(key)
            _load(plugin)


def _load(plugin: EntryPoint) -> None:
    """Call one plug-in in its namespace."""
    before = gym_registration.current_namespace
    try:
        # Some packages register when they are imported and then once more.
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
        # Gymnasium's own context manager would keep the namespace of a plug-in that raised.
        gym_registration.current_namespace = before


def env_ids(*, variants: bool = True) -> list[str]:
    """Return the ids of all environments registered with `register`, including those of plug-ins, sorted.

    Args:
        variants: include ids such as "turncredit/MiniWoB-click-button-v0" that preset an option of
            "turncredit/MiniWoB-v0".
    """
    load_plugins()
    ids = sorted(name for name in _listed if name in gymnasium.registry)
    return ids if variants else [name for name in ids if variant_of(name) is None]


def variant_of(id: str) -> str | None:
    """Return the id of the environment of which a registered id is a variant, or None.

    A variant has the same entry point and version, presets keyword arguments, and extends the name with "-...":
    "turncredit/MiniWoB-click-button-v0" is a variant of "turncredit/MiniWoB-v0".
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
    """Return Gymnasium's spec of an environment.

    Args:
        id: "namespace/Name-v0", "namespace/Name" for the newest version, or "module:namespace/Name-v0" to import the
            module first.

    Raises:
        UnknownEnv: there is none; the message suggests a similar id.
        Untrusted: a file names the module (see `turncredit.registry.names_from_files`).
    """
    module, _, name = current_name(id).rpartition(":")
    if module:
        require_trust(id, "environment")
        try:
            import_typed(module)
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
    """Return the id of the newest version of an id without version, or None."""
    versions = [spec for spec in gymnasium.registry.values() if spec.id == f"{name}-v{spec.version}"]
    return max(versions, key=lambda spec: spec.version or 0).id if versions else None


def _suggest(name: str) -> str:
    """Return a near id, of a text environment if possible, or the ids of all text environments."""
    listed = env_ids()
    same_end = [other for other in listed if other.rpartition("/")[2].lower() == name.rpartition("/")[2].lower()]
    if same_end:
        return f"; did you mean {same_end[0]!r}?"
    near = get_close_matches(name, listed, n=1) or get_close_matches(name, list(gymnasium.registry), n=1)
    return suggest(near[0] if near else name, near or env_ids(variants=False))


def make(id: str, **kwargs: Any) -> Environment:
    """Return a new environment, with the wrappers of its registration.

    Args:
        id: see `find`.
        kwargs: arguments of the constructor, and `max_episode_steps` (-1: no limit). Where the constructor takes a
            `level`, `levels` makes a mixture of several (`parts_of`).

    Raises:
        UnknownEnv: no environment has this id.
        UnknownOption: an unknown keyword argument (the message suggests one), or an invalid value.
        EnvError: the environment's module cannot be imported; often an extra is missing.
    """
    if parts := parts_of(id, **kwargs):
        id, kwargs = _written_out(parts, kwargs)
    spec = find(id)
    _check_kwargs(spec, kwargs)
    try:
        env: Environment = gymnasium.make(spec.id, **kwargs)
    except TypeError as error:
        if not kwargs:
            raise
        arguments = ", ".join(f"{name}={value!r}" for name, value in kwargs.items())
        reason = str(error).split(" was raised from the environment creator", 1)[0]
        raise UnknownOption(f"{spec.id} cannot be made with {arguments}: {reason}") from error
    return env


def maker(id: str, **kwargs: Any) -> Callable[[], Environment]:
    """Return a function that makes an environment, here or in a process in which nobody has registered its id.

    Args:
        id: see `find`.
        kwargs: see `make`.

    Raises:
        UnknownEnv: no environment has this id.
    """
    if parts := parts_of(id, **kwargs):
        id, kwargs = _written_out(parts, kwargs)
    return partial(_make_registered, [find(name) for name in (id, *(part.id for part in parts))], kwargs)


def _make_registered(specs: Sequence[EnvSpec], kwargs: dict[str, object]) -> Environment:
    """Make an environment whose registration came along, with those of its parts."""
    for spec in specs:
        gymnasium.registry.setdefault(spec.id, spec)
    return make(specs[0].id, **kwargs)


def parts_of(id: str, **kwargs: object) -> tuple[MixturePart, ...]:
    """Return the parts that an environment made with these arguments consists of; () for one that is no mixture.

    It is one if its id is "turncredit/Mixture-v0", with the argument `parts`, or if it has an argument `level` and is
    made with `levels`, a list of levels or a table of their weights. Other arguments are those of all parts.

    Args:
        id: see `find`.
        kwargs: see `make`.

    Raises:
        UnknownEnv: a part names an environment that nobody has registered.
        UnknownOption: a part has an argument that its environment does not take, a level that does not exist, a weight
            that is not positive, or the name of another part.
    """
    spec = find(id)
    if spec.id == MIXTURE:
        common = {name: value for name, value in kwargs.items() if name not in _OF_MIXTURE}
        parts = read_parts(kwargs.get("parts"), common, _reads_levels)
    elif LEVELS in kwargs and not _reads_levels(id):
        common = {name: value for name, value in kwargs.items() if name not in (LEVELS, *_OF_MIXTURE)}
        parts = level_parts(spec.id, kwargs[LEVELS], common)
        if not takes(id, "level"):
            raise UnknownOption(
                f"{spec.id} has no argument 'level', and so no levels; a mixture may have parts with other arguments "
                f"({MIXTURE}, or env.mix in the file of a run)"
            )
    else:
        return ()
    return tuple(replace(part, id=_checked(part)) for part in parts)


def _reads_levels(id: str) -> bool:
    """Whether the constructor of an environment has an argument `levels` of its own, or takes any."""
    parameters = _parameters(find(id))
    return parameters is None or LEVELS in parameters


def _checked(part: MixturePart) -> str:
    """Return the registered id of a part, after a look at its arguments."""
    spec = find(part.id)
    if spec.id == MIXTURE:
        raise UnknownOption(f"the part {part.name!r} is a mixture itself; list its parts beside the others")
    _check_names_and_level(spec, part.kwargs)
    return spec.id


def _check_names_and_level(spec: EnvSpec, kwargs: Mapping[str, object]) -> None:
    _check_kwargs(spec, kwargs)
    read_level = getattr(creator_of(spec), "read_level", None)
    if read_level is not None and isinstance(level := kwargs.get("level"), str):
        read_level(level)


def _written_out(parts: Sequence[MixturePart], kwargs: EnvArguments) -> tuple[str, EnvArguments]:
    """Return id and arguments of the mixture of some parts, with all that these are made of."""
    own = {name: kwargs[name] for name in _OF_MIXTURE[1:] if name in kwargs}
    return MIXTURE, {"parts": tables_of(parts), **own}


def takes(id: str, option: str) -> bool:
    """Return whether the constructor of an environment takes a keyword argument.

    Args:
        id: see `find`.
        option: name of the argument, such as "split".

    Raises:
        UnknownEnv: no environment has this id.
        EnvError: the environment's module cannot be imported.
    """
    return option in (_parameters(find(id)) or ())


def level_names(id: str) -> tuple[str, ...]:
    """Return the names of an environment's levels, the easiest first; () if it has none, or takes no `level`.

    Args:
        id: see `find`.

    Raises:
        UnknownEnv: no environment has this id.
        EnvError: the environment's module cannot be imported.
    """
    levels = getattr(getattr(creator_of(find(id)), "read_level", None), "__self__", None)
    return tuple(getattr(levels, "presets", ())) if takes(id, "level") else ()


def default_level(id: str) -> str:
    """Return the level that an environment has if none is named; "" if it has none, or does not say.

    Args:
        id: see `find`.

    Raises:
        UnknownEnv: no environment has this id.
        EnvError: the environment's module cannot be imported.
    """
    parameter = inspect.signature(creator_of(find(id))).parameters.get("level")
    return parameter.default if parameter is not None and isinstance(parameter.default, str) else ""


def demonstrators(id: str) -> dict[str, Callable[[], Demonstrator]]:
    """Return the demonstrators of an environment: players that know no more than the agent.

    Args:
        id: see `find`.

    Returns:
        Name -> factory of a player of one episode; {} if the class has none.

    Raises:
        UnknownEnv: no environment has this id.
        EnvError: the environment's module cannot be imported.
    """
    return dict(getattr(creator_of(find(id)), "demonstrators", {}))


def check_arguments(id: str, **kwargs: object) -> None:
    """Check that an environment takes arguments of these names, and knows the level, without making it.

    Args:
        id: see `find`.
        kwargs: see `make`.

    Raises:
        UnknownEnv: no environment has this id.
        UnknownOption: it does not take an argument, or a level or a part of a mixture is wrong.
        EnvError: the environment's module cannot be imported.
    """
    if not parts_of(id, **kwargs):
        _check_names_and_level(find(id), kwargs)


def _check_kwargs(spec: EnvSpec, kwargs: Mapping[str, object]) -> None:
    """Raise UnknownOption for keyword arguments that the constructor does not take."""
    parameters = _parameters(spec)
    if parameters is None:
        return
    for name in kwargs:
        if name not in parameters and name not in _OF_MAKE:
            names = [*parameters, *sorted(_OF_MAKE - {"disable_env_checker"})]
            raise UnknownOption(f"{spec.id} has no argument {name!r}{suggest(name, names)}")


def creator_of(spec: EnvSpec) -> Any:
    """Return the class or function that makes an environment."""
    creator = spec.entry_point
    if not isinstance(creator, str):
        return creator
    module, _, attribute = creator.partition(":")
    try:
        return getattr(import_registered(module), attribute)
    except (ImportError, AttributeError) as error:
        raise EnvError(f"{spec.id} cannot be made: {spec.entry_point!r} cannot be imported ({error})") from error


def _parameters(spec: EnvSpec) -> list[str] | None:
    """Return the keyword arguments of an environment's constructor; None if it takes any, or they are unknown."""
    try:
        parameters = inspect.signature(creator_of(spec)).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return [parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_POSITIONAL]

"""Sources as values, and their fields as plain keys.

An environment over files or generated tasks takes one value, such as `WebShopEnv(GeneratedProducts(level="tiny"))`,
whose fields are the arguments of that kind of source, so that arguments of both kinds cannot be mixed. Run files, the
command line and `gymnasium.make` write the fields as plain keys, `level = "tiny"`: `PlainKeys` makes the value of them.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any, Generic, TypeVar

from turncredit.envs.errors import UnknownOption
from turncredit.envs.info import Environment

__all__ = ["PlainKeys", "SourceKinds", "source_code"]

G = TypeVar("G")
F = TypeVar("F")
E = TypeVar("E", bound="Environment")


class SourceKinds(Generic[G, F]):
    """The two kinds of sources of an environment, both frozen dataclasses.

    Args:
        generated: class of generated sources; every field has a default.
        files: class of sources in files; its first field is a path, and has none.
        refusals: name of a field that only one kind has -> end of the sentence that refuses it for the other kind.
            Fields that are not listed are ignored there.
        checks: name of a field that may be ignored -> check of its value, which is called with both.
    """

    def __init__(
        self,
        generated: type[G],
        files: type[F],
        refusals: Mapping[str, str],
        checks: Mapping[str, Callable[[str, object], object]] | None = None,
    ) -> None:
        self.generated, self.files, self._refusals, self._checks = generated, files, refusals, checks or {}
        self._defaults: tuple[dict[str, object], ...] = tuple(
            {field.name: None if field.default is MISSING else field.default for field in fields(kind)}  # type: ignore[arg-type]
            for kind in (generated, files)
        )
        self.names = list(dict.fromkeys(name for defaults in reversed(self._defaults) for name in defaults))

    def read(self, keys: Mapping[str, Any]) -> G | F:
        """Return the source with these fields: files if the path of files is among them, else a generated one.

        Raises:
            UnknownOption: a field belongs to the other kind, or has an invalid value.
        """
        generated = keys.get(self.names[0]) is None
        own, others = self._defaults if generated else reversed(self._defaults)
        for name, value in keys.items():
            if name in self._checks:
                self._checks[name](name, value)
            if name not in own and name in self._refusals and value != others[name]:
                raise UnknownOption(f"{name} {self._refusals[name]}")
        own_keys = {name: value for name, value in keys.items() if name in own}
        return self.generated(**own_keys) if generated else self.files(**own_keys)

    def constructor(self, environment: Callable[..., E]) -> PlainKeys[E]:
        """Return the constructor of an environment that takes the fields of a source as plain keys."""
        return PlainKeys(environment, self)

    def of_arguments(
        self, environment: type, source: object, paths: tuple[object, ...], keys: Mapping[str, object]
    ) -> G | F:
        """Return the source among the arguments of a constructor.

        Args:
            environment: the class.
            source: the source, None for the default of generated ones, or the path of files (deprecated).
            paths: further positional arguments (deprecated).
            keys: further keyword arguments (deprecated).

        Raises:
            TypeError: unexpected arguments.
            UnknownOption: the arguments do not fit together.
        """
        for name in keys:
            if name not in self.names:
                raise TypeError(f"{environment.__name__}.__init__() got an unexpected keyword argument {name!r}")
        if isinstance(source, self.generated | self.files):
            if paths or keys:
                raise UnknownOption(f"{next(iter(keys), 'a path')} belongs to the source: write {source_code(source)}")
            return source
        positional = () if source is None and not paths else (source, *paths)
        if len(positional) > len(self.names):
            raise TypeError(f"{environment.__name__}.__init__() got too many positional arguments")
        old = {**dict(zip(self.names, positional, strict=False)), **keys}
        value = self.read(old)
        if old:
            arguments = ", ".join(f"{name}={argument!r}" for name, argument in old.items())
            new = f"{environment.__name__}({source_code(value)})"
            warnings.warn(
                f"{environment.__name__}({arguments}) is deprecated: write {new}", DeprecationWarning, stacklevel=3
            )
        return value


def source_code(source: object) -> str:
    """Return the Python expression of a source, without fields that have their defaults."""
    values = ((field, getattr(source, field.name)) for field in fields(source))  # type: ignore[arg-type]
    stated = ", ".join(f"{field.name}={value!r}" for field, value in values if value != field.default)
    return f"{type(source).__name__}({stated})"


class PlainKeys(Generic[E]):
    """The constructor of an environment in Gymnasium's registry, which takes the fields of the source as plain keys.

    It also takes `source=`. Attributes such as `metadata` and `demonstrators` are those of the class.

    Args:
        environment: the class; its constructor takes `source`.
        kinds: the kinds of its sources.
    """

    def __init__(self, environment: Callable[..., E], kinds: SourceKinds[Any, Any]) -> None:
        self._environment, self._kinds = environment, kinds
        self.__doc__ = environment.__doc__
        variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        own = [name for name, each in inspect.signature(environment).parameters.items() if each.kind not in variable]
        names = [*kinds.names, *own]
        self.__signature__ = inspect.Signature(
            [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in names]
        )

    def __call__(self, **kwargs: Any) -> E:
        """Return an environment.

        Raises:
            UnknownOption: the arguments do not fit together, or one is invalid.
        """
        keys = {name: kwargs.pop(name) for name in self._kinds.names if name in kwargs}
        if kwargs.get("source") is None:
            kwargs["source"] = self._kinds.read(keys)
            keys = {}
        return self._environment(**kwargs, **keys)

    def __getattr__(self, name: str) -> object:
        """Return an attribute of the class."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._environment, name)

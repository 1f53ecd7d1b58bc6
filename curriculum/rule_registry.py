"""Registries of rules: the same lookup, binding of options and errors for every kind of rule."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from turncredit.credit.registry import MEMORY, RANDOM, Method
from turncredit.curriculum.errors import BadSetting
from turncredit.registry import CannotLoad, Registry, UnknownName

R = TypeVar("R", bound="SamplingRule")
G = TypeVar("G", covariant=True)


@dataclass(frozen=True)
class SamplingRule(Method):
    """A pure function with options; its first parameter is what it decides about."""

    GIVEN = frozenset[str]()
    """Parameters that the caller fills in, and a configuration does not."""

    @property
    def options(self) -> Mapping[str, object]:
        """The options by name, with their defaults (`inspect.Parameter.empty` without one)."""
        filled = {MEMORY, RANDOM, *self.GIVEN}
        return {name: default for name, default in list(self.parameters.items())[1:] if name not in filled}

    @property
    def remembers(self) -> bool:
        """Whether the function takes `state`: what its previous call returned, or None at first."""
        return MEMORY in self.parameters

    def check(self) -> None:
        """Call the function on nothing, so that it checks the values of its options.

        Raises:
            BadOption: an option has an impossible value.
        """


def rule_registry(kind: str, group: str, rule_class: type[R]) -> Registry[R]:
    """Return an empty registry of rules.

    Args:
        kind: what a rule is called in messages, such as "task rule".
        group: entry points of installed packages.
        rule_class: made of functions that are no rules yet.
    """

    def adapt(name: str, loaded: object) -> R:
        if isinstance(loaded, rule_class):
            return replace(loaded, name=name)
        if not callable(loaded):
            raise TypeError(f"expected a {rule_class.__name__} or a function, got {type(loaded).__name__}")
        title = (inspect.getdoc(loaded) or name).splitlines()[0]
        return rule_class(name, title, None, "our reading", title, loaded)

    return Registry(kind, group=group, adapt=adapt)


def bound(registry: Registry[R], name: str, options: Mapping[str, object]) -> R:
    """Return a rule of a registry with its options bound and checked.

    Args:
        registry: where the name is looked up.
        name: a name, or "module:function".
        options: of the rule.

    Raises:
        BadSetting: there is no such rule, it cannot be imported, or an option without default is missing.
        BadOption: it has no such option, or the option has an impossible value.
    """
    try:
        rule = registry.get(name).bind(**options)
    except (UnknownName, CannotLoad) as error:
        raise BadSetting(str(error)) from error
    for option, default in rule.options.items():
        if default is inspect.Parameter.empty:
            raise BadSetting(f"{name} needs the option {option!r}")
    rule.check()
    return rule


class Getter(Protocol[G]):
    """Returns a rule of one kind with its options bound and checked."""

    def __call__(self, name: str, **options: object) -> G:
        """Return the rule.

        Args:
            name: a name of the registry, or "module:function".
            options: of the rule.

        Raises:
            BadSetting: there is no such rule, it cannot be imported, or an option without default is missing.
            BadOption: it has no such option, or the option has an impossible value.
        """


def getter(registry: Registry[R]) -> Getter[R]:
    """Return what gets the rules of a registry.

    >>> from turncredit.curriculum.task_rules.catalogue import get_task_rule
    >>> get_task_rule("spo", floor=0.1).options["floor"]
    0.1
    """
    return lambda name, **options: bound(registry, name, options)

"""Credit rules by name: our own, those of installed packages, and any function as "module:function".

A package offers a rule with one line of its `pyproject.toml`:

    [project.entry-points."turncredit.credit"]
    mine = "their_package.credit:rule"          # a CreditRule, or the function itself

Our own rules are in `turncredit.credit.catalogue`. A rule is a function `(steps, *, options) -> Advantages`; there is
no class to inherit from.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Self, TypeVar

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.columns import REQUIRED, example
from turncredit.credit.errors import BadOption, CreditError, MissingColumn, UnknownRule
from turncredit.credit.steps import Steps
from turncredit.registry import CannotLoad, Registry, UnknownName, suggest

MEMORY = "state"
RANDOM = "rng"
Evidence = Literal["reference code", "paper", "our reading"]
T = TypeVar("T")


@dataclass(frozen=True)
class Method:
    """A published method: a function, and what a reader needs to choose it.

    Args:
        name: its name in configuration files.
        title: the method's full name.
        arxiv: id of the paper; None for a method without one.
        evidence: what the formula was checked against: "reference code" that we ran; the "paper", or its code as read;
            or "our reading" of an abstract or of a secondary description.
        use: one line, when to choose it.
        function: the implementation.
    """

    name: str
    title: str
    arxiv: str | None
    evidence: Evidence
    use: str
    function: Callable[..., Any]

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The parameters of the function by name, with their defaults (`inspect.Parameter.empty` without one)."""
        found = list(inspect.signature(self.function).parameters.values())
        return {p.name: p.default for p in found if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)}

    @property
    def options(self) -> Mapping[str, Any]:
        """The options by name, with their defaults."""
        return self.parameters

    def bind(self, **options: Any) -> Self:
        """Return the method with options bound.

        Raises:
            BadOption: it has no such option.
        """
        for option in options:
            if option not in self.options:
                raise BadOption(f"{self.name} has no option {option!r}{suggest(option, self.options)}")
        return replace(self, function=partial(self.function, **options)) if options else self


@dataclass(frozen=True)
class CreditRule(Method):
    """A credit rule: `function(steps, *, options) -> Advantages`.

    A rule with memory also takes `state=None`, and a rule that draws random numbers takes `rng`.

    Args:
        needs: the columns that it needs beside task, trajectory, turn and reward.
        binary: the options with which scores above its option `threshold` are right and all others wrong, however far
            from it they are: {} for any; None for a rule that compares scores.
        callers: whether it reads the column `parent` as the episode that asked for another one, and not as the turn
            before a fork.
        splits: the options with which it divides the weight of a shared turn by its paths, so that each path has to
            bring its own copy of it; None: with none.
    """

    needs: tuple[str, ...] = ()
    binary: Mapping[str, object] | None = None
    callers: bool = False
    splits: Mapping[str, object] | None = None

    def __call__(self, steps: Steps, **options: Any) -> Advantages:
        """Return the advantages of a table."""
        found: Advantages = self.function(steps, **options)
        return found

    @property
    def options(self) -> Mapping[str, Any]:
        """The options by name, with their defaults (`inspect.Parameter.empty` without one)."""
        return {name: default for name, default in list(self.parameters.items())[1:] if name not in (MEMORY, RANDOM)}

    @property
    def threshold(self) -> float | None:
        """The score above which an episode is right, and up to which it is wrong; None for a rule that compares."""
        return float(self.options["threshold"]) if self._has(self.binary) else None

    @property
    def splits_shared(self) -> bool:
        """Whether the rule, with its options, divides the weight of a shared turn by its paths."""
        return self._has(self.splits)

    def _has(self, options: Mapping[str, object] | None) -> bool:
        return options is not None and all(self.options[name] == value for name, value in options.items())

    def missing(self, columns: Iterable[str]) -> list[str]:
        """Return the columns that the rule needs with its options, beside those that a table has.

        `needs` says what it needs with its default options. One of our own rules is tried out on a table of one turn,
        since options change its needs; a function from elsewhere is not called.

        Args:
            columns: names of the columns that the table has.
        """
        known, missing = {*REQUIRED, *columns}, list[str]()
        if not _is_ours(self.function):
            return [name for name in self.needs if name not in known]
        while True:
            turn = Steps.from_rows([{name: example(name) for name in (*known, *missing)}])
            try:
                self(turn, **({RANDOM: np.random.default_rng(0)} if self.draws else {}))
            except MissingColumn as error:
                if not error.column or error.column in (*known, *missing):
                    return missing
                missing.append(error.column)
            except CreditError:  # the values are no good to the rule, but the columns are there
                return missing
            else:
                return missing

    @property
    def remembers(self) -> bool:
        """Whether the function takes `state`: the `Advantages.state` of its previous call, or None at first.

        The caller keeps it from call to call, so it is not an option in a configuration file.
        """
        return MEMORY in self.parameters

    @property
    def draws(self) -> bool:
        """Whether the function takes `rng`, a seeded `numpy.random.Generator`."""
        return RANDOM in self.parameters


def _is_ours(function: object) -> bool:
    """Whether a function, with or without options, belongs to this package."""
    return str(getattr(function, "func", function).__module__).startswith("turncredit.")


def _adapt(name: str, loaded: Any) -> CreditRule:
    if isinstance(loaded, CreditRule):
        return replace(loaded, name=name)
    if not callable(loaded):
        raise TypeError(f"expected a CreditRule or a function, got {type(loaded).__name__}")
    title = (inspect.getdoc(loaded) or name).splitlines()[0]
    return CreditRule(name, title, None, "our reading", f"from {getattr(loaded, '__module__', name)}", loaded)


RULES: Registry[CreditRule] = Registry("credit rule", group="turncredit.credit", adapt=_adapt)


def register(rule: CreditRule) -> CreditRule:
    """Make a rule known by its name in this process, and return it.

    Raises:
        CreditError: the name belongs to another rule.
    """
    try:
        return RULES.register(rule.name, rule)
    except ValueError as error:
        raise CreditError(str(error)) from error


def rules() -> dict[str, CreditRule]:
    """Return all credit rules by name, sorted; one that cannot be loaded is skipped with a warning."""
    return RULES.items()


def get(name: str, **options: Any) -> CreditRule:
    """Return a credit rule with its options bound: it is called with the table alone.

        >>> get("grpo", scale="none")(Steps.empty()).values.tolist()
        []

    Names and values of options are checked here, so that an error shows before the first rollout.

    Args:
        name: a name of `rules`, or "module:function".
        **options: the rule's own options.

    Raises:
        UnknownRule: there is no such rule; the message suggests a near name.
        BadOption: the rule has no such option, or does not accept the value.
        CreditError: its module cannot be imported, or does not hold a rule.
    """
    rule = found(RULES, name).bind(**options)
    complete = inspect.Parameter.empty not in rule.options.values()
    if options and complete and _is_ours(rule.function):
        rule(Steps.empty())  # our rules check the values of their options before they look at the table
    return rule


def found(registry: Registry[T], name: str) -> T:
    """Return an item of a registry, with errors of this package.

    Raises:
        UnknownRule: the registry has no such item.
        CreditError: it cannot be loaded.
    """
    try:
        return registry.get(name)
    except UnknownName as error:
        raise UnknownRule(str(error)) from error
    except (CannotLoad, TypeError) as error:
        raise CreditError(str(error)) from error

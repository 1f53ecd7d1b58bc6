"""The estimators by name, ours and those of installed packages, with what a reader needs to choose one.

Another package adds an estimator with one line of its `pyproject.toml`:

    [project.entry-points."turnwise.credit"]
    mine = "their_package.credit:ENTRY"          # an Entry, or the function itself

Ours are in `turnwise.credit.catalogue`, one line each.

Left out on purpose: classes to inherit from. An estimator is a function `(steps, *, options) -> Advantages`.
"""

import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal

from turnwise.credit.advantages import Advantages
from turnwise.credit.errors import BadOption, CreditError, UnknownEstimator, near
from turnwise.credit.steps import Steps

GROUP = "turnwise.credit"
MEMORY = "state"
RANDOM = "rng"
Evidence = Literal["reference code", "paper", "our reading"]


@dataclass(frozen=True)
class Entry:
    """An estimator and what is to be known about it.

    Args:
        name: the name in a run's file.
        title: the method's full name.
        arxiv: id of the paper, since names collide in this literature; None for a method without one.
        needs: columns beyond task, trajectory, turn and reward.
        evidence: what the formula was checked against: "reference code" that was run; the "paper", or its code as read;
            or "our reading" of an abstract or of what others wrote about the paper.
        use: one line, when to take it.
        function: `(steps, *, options) -> Advantages`; one with memory has a parameter `state=None` as well, one that
            draws has `rng`.
    """

    name: str
    title: str
    arxiv: str | None
    needs: tuple[str, ...]
    evidence: Evidence
    use: str
    function: Callable[..., Advantages]

    def __call__(self, steps: Steps, **options: Any) -> Advantages:
        """Return the estimate of a table."""
        return self.function(steps, **options)

    @property
    def options(self) -> Mapping[str, Any]:
        """The options by name with their defaults (`inspect.Parameter.empty` where there is none)."""
        parameters = list(inspect.signature(self.function).parameters.values())[1:]
        named = [p for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
        return {p.name: p.default for p in named if p.name not in (MEMORY, RANDOM)}

    @property
    def remembers(self) -> bool:
        """Whether the function takes `state`: what it gave back as `Advantages.state` at its last call, None at first.

        It belongs to whoever calls again and again, and so is no option of a run's file.
        """
        return MEMORY in inspect.signature(self.function).parameters

    @property
    def draws(self) -> bool:
        """Whether the function takes `rng`, a `numpy.random.Generator` that the caller seeds."""
        return RANDOM in inspect.signature(self.function).parameters


_entries: dict[str, Entry] = {}


def register(item: Entry) -> Entry:
    """Make an estimator known by its name in this process, and return it.

    Raises:
        CreditError: the name is taken by another function.
    """
    known = _entries.get(item.name)
    if known is not None and known.function is not item.function:
        raise CreditError(f"the estimator name {item.name!r} is taken by {known.title}; choose another")
    _entries[item.name] = item
    return item


def estimators() -> dict[str, Entry]:
    """Return every estimator by name, ours and those of installed packages, sorted.

    A package that cannot be loaded, or that takes a name which is taken, is left out with a warning.
    """
    found = dict(_entries)
    for point in entry_points(group=GROUP):
        try:
            if point.name in found:
                raise CreditError("the name is taken")
            found[point.name] = _load(point)
        except Exception as error:
            warnings.warn(f"estimator {point.name!r} of {point.value} is left out: {error}", stacklevel=2)
    return dict(sorted(found.items()))


def get(name: str, **options: Any) -> Entry:
    """Return an estimator by name with its options bound: an entry that is called with the table alone.

        >>> get("grpo", scale="none")(Steps.empty()).values.tolist()
        []

    Options are checked here, names and values, so that a slip in a run's file shows before the first rollout.

    Args:
        name: a name of `estimators`.
        **options: the estimator's own options.

    Raises:
        UnknownEstimator: nobody offers the name; the message has the near one.
        BadOption: the estimator has no such option, or refuses the value.
        CreditError: the package that offers it cannot be loaded.
    """
    item = _find(name)
    for option in options:
        if option not in item.options:
            raise BadOption(f"{name} has no option {option!r}; {near(option, item.options)}")
    if not options:
        return item
    bound = replace(item, function=partial(item.function, **options))
    complete = inspect.Parameter.empty not in bound.options.values()
    if complete and item.function.__module__.startswith("turnwise."):
        bound(Steps.empty())  # ours check the values of their options before they look at the table
    return bound


def _find(name: str) -> Entry:
    if name in _entries:
        return _entries[name]
    points = {point.name: point for point in entry_points(group=GROUP)}
    if name not in points:
        raise UnknownEstimator(f"there is no estimator {name!r}; {near(name, {*_entries, *points})}")
    try:
        return _load(points[name])
    except Exception as error:
        raise CreditError(f"the estimator {name!r} ({points[name].value}) cannot be loaded: {error}") from error


def _load(point: EntryPoint) -> Entry:
    loaded = point.load()
    if isinstance(loaded, Entry):
        return replace(loaded, name=point.name)
    if not callable(loaded):
        raise CreditError(f"{point.value} is neither an Entry nor a function")
    title = (inspect.getdoc(loaded) or point.name).splitlines()[0]
    return Entry(point.name, title, None, (), "our reading", f"from {point.value}", loaded)

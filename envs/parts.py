"""Parts of a mixture: environments, or levels of one environment, that are played in one run.

    parts = [{id = "turncredit/Household-v0", kwargs = {level = "tiny"}}, {id = "turncredit/Search-v0", weight = 2}]
    levels = ["tiny", "small+objects=4-6"]

The id of a task begins with the name of its part, "search/train/small/000007", and everything that is told apart by
part reads it there. Nothing is looked up here: `turncredit.envs.registration.parts_of` says whether there are such
environments.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from turncredit.envs.errors import UnknownOption
from turncredit.registry import suggest
from turncredit.task_ids import part_of, within

__all__ = [
    "LEVELS",
    "MIXTURE",
    "MixturePart",
    "level_parts",
    "name_of",
    "part_names",
    "parts_in",
    "read_parts",
    "tables_of",
]

MIXTURE = "turncredit/Mixture-v0"
"""Id of the environment that consists of parts."""
LEVELS = "levels"
"""The argument that makes a mixture of an environment's levels."""

_KEYS = ("name", "id", "weight", "kwargs")
_NAME = re.compile(r"[^\s/#@]+")


@dataclass(frozen=True, slots=True)
class MixturePart:
    """One environment of a mixture.

    Attributes:
        name: the beginning of the ids of its tasks.
        id: id of the environment.
        kwargs: its arguments.
        weight: how often it is played, relative to the others.
    """

    name: str
    id: str
    kwargs: Mapping[str, object] = field(default_factory=dict)
    weight: float = 1.0


def read_parts(
    parts: object, common: Mapping[str, object], has_levels: Callable[[str], bool] = lambda id: False
) -> tuple[MixturePart, ...]:
    """Return the parts of some tables; one with levels becomes a part for each of them.

    Args:
        parts: tables with the keys id, name (default: from the id), weight (default: 1) and kwargs.
        common: arguments of all environments; those of a part come first.
        has_levels: whether an environment has an argument `levels` of its own, which then means what it says.

    Raises:
        UnknownOption: a table is not one, a weight is not positive, or two parts have one name.
    """
    if not isinstance(parts, Sequence) or isinstance(parts, str) or not parts:
        raise UnknownOption(f'a mixture needs parts such as [{{id = "turncredit/Search-v0"}}], got {parts!r:.200}')
    named = [_part(table, common) for table in parts]
    _require_distinct([part.name for part in named])
    return tuple(level for part in named for level in _levels(part, has_levels(part.id)))


def level_parts(id: str, levels: object, common: Mapping[str, object]) -> tuple[MixturePart, ...]:
    """Return a part for each level of an environment, whose name is the level.

    Args:
        id: of the environment.
        levels: a list of levels, or a table of their weights.
        common: the other arguments.

    Raises:
        UnknownOption: there are no levels, one is listed twice, or a weight is not positive.
    """
    parts = _levels(MixturePart("", id, {**common, LEVELS: levels}))
    return tuple(replace(part, name=within(part.name, "")) for part in parts)


def part_names(id: str, kwargs: Mapping[str, object]) -> list[str]:
    """Return the names of the parts of an environment made with these arguments, which need not exist here."""
    try:
        if id == MIXTURE:
            return [part.name for part in read_parts(kwargs.get("parts"), {})]
        return [part.name for part in level_parts(id, kwargs[LEVELS], {})] if LEVELS in kwargs else []
    except UnknownOption:
        return []


def parts_in(tasks: Iterable[str], names: Collection[str]) -> tuple[str, ...]:
    """Return the parts that tasks belong to, in the order of their names; () if one belongs to none.

    >>> parts_in(["y/1", "x/1"], ["x", "y", "z"]), parts_in(["y/1", "1"], ["x", "y", "z"])
    (('x', 'y'), ())
    """
    present = {part_of(task, names) for task in tasks}
    return () if "" in present else tuple(name for name in names if name in present)


def tables_of(parts: Sequence[MixturePart]) -> list[dict[str, object]]:
    """Return the tables that `read_parts` reads as these parts."""
    return [{"name": part.name, "id": part.id, "weight": part.weight, "kwargs": dict(part.kwargs)} for part in parts]


def _part(table: object, common: Mapping[str, object]) -> MixturePart:
    """Return the part of a table."""
    if not isinstance(table, Mapping) or not isinstance(table.get("id"), str):
        raise UnknownOption(
            f'a part must be a table with an id, such as {{id = "turncredit/Search-v0"}}, got {table!r}'
        )
    for key in table:
        if key not in _KEYS:
            raise UnknownOption(f"a part has no key {key!r}{suggest(str(key), _KEYS, most=len(_KEYS))}")
    name, kwargs = name_of(table), table.get("kwargs", {})
    if not isinstance(table.get("name", ""), str) or not all(map(_NAME.fullmatch, name.split("/", 1))):
        raise UnknownOption(f"the name of a part must be a word without /, # and @, got {table.get('name', name)!r}")
    if not isinstance(kwargs, Mapping):
        raise UnknownOption(f"kwargs of the part {name!r} must be a table, got {kwargs!r}")
    return MixturePart(name, table["id"], {**common, **kwargs}, _weight(name, table.get("weight", 1.0)))


def _levels(part: MixturePart, own: bool = False) -> Iterator[MixturePart]:
    """Yield the parts of a part's levels, or the part itself if it has none, or reads them itself."""
    if LEVELS not in part.kwargs or own:
        yield part
        return
    kwargs = dict(part.kwargs)
    levels = kwargs.pop(LEVELS)
    if not levels or not isinstance(levels, Mapping | Sequence) or isinstance(levels, str):
        raise UnknownOption(f'levels must be a list such as ["tiny", "small"], or a table of weights, got {levels!r}')
    if "level" in kwargs:
        raise UnknownOption(f"{part.id} was given both level and levels; leave out one of them")
    texts = [str(getattr(level, "text", level)) for level in levels]
    for text in texts:
        if not _NAME.fullmatch(text):
            raise UnknownOption(f"a level must be a text such as 'small', got {text!r}")
    _require_distinct(texts, "levels")
    shares = [_weight(text, levels[text]) for text in texts] if isinstance(levels, Mapping) else [1.0] * len(texts)
    for text, share in zip(texts, shares, strict=True):
        yield MixturePart(f"{part.name}/{text}", part.id, {**kwargs, "level": text}, part.weight * share / sum(shares))


def _weight(name: str, weight: object) -> float:
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < math.inf:
        raise UnknownOption(f"the weight of the part {name!r} must be a number > 0, got {weight!r}")
    return weight


def _require_distinct(names: Sequence[str], of: str = "parts") -> None:
    for name in names:
        first = name.partition("/")[0]  # a level of a part, and no other part may be the part itself
        if names.count(name) > 1 or (first != name and first in names):
            hint = "; give them names of their own: name = ..." if of == "parts" else ""
            raise UnknownOption(f"two {of} have the name {first!r}{hint}")


def name_of(table: Mapping[str, object]) -> str:
    """Return the name of the part of a table, by default from the id of its environment.

    >>> name_of({"id": "turncredit/Search-v0"}), name_of({"id": "safe:examples/Safe-v0", "name": "vault"})
    ('search', 'vault')
    """
    name, id = table.get("name"), str(table.get("id"))
    return str(name) if name else re.sub(r"-v\d+$", "", id.rpartition(":")[2].rpartition("/")[2]).lower()

"""Catalogues by level and seed: families on shelves, products in a mixed order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from turnwise.envs.caching import Shared
from turnwise.envs.shop.catalogue import Catalogue
from turnwise.envs.shop.generator.draws import Draws
from turnwise.envs.shop.generator.families import Family, draw_family
from turnwise.envs.shop.generator.kinds import KINDS
from turnwise.envs.shop.generator.level import Level
from turnwise.envs.shop.generator.writing import write_product

__all__ = ["SPLITS", "Stock", "catalogue", "name_of", "stock"]

SPLITS: Final = ("train", "held_out")
_LETTERS: Final = "BCDFGHJKLMNPQRSTVWXZ"
_SIGNS: Final = "0123456789ABCDEFGHJKLMNPQRSTUVWXYZ"


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Stock:
    """A catalogue, and what it was made of.

    Attributes:
        level, seed: what it follows from.
        catalogue: the products, in a mixed order.
        families: all families.
        asins: ids of the members of each family.
        splits: for each split, the numbers of its families: each family is of one split, one in four is held out.
    """

    level: Level
    seed: int
    catalogue: Catalogue
    families: tuple[Family, ...]
    asins: tuple[tuple[str, ...], ...]
    splits: dict[str, tuple[int, ...]]


def catalogue(level: Level | str = "small", seed: int = 0) -> Catalogue:
    """Return the catalogue of a level and a seed: the same everywhere and for ever; the last few are kept.

    Args:
        level: size, or its text such as "tiny" or "small+products=500".
        seed: which one of that level.

    Raises:
        UnknownOption: the text is not a level.
    """
    return stock(Level.parse(level) if isinstance(level, str) else level, seed).catalogue


def name_of(level: Level, seed: int) -> str:
    """Return the name of a catalogue, as task ids hold it: "small", and "small@7" for another seed than 0."""
    return level.text + (f"@{seed}" if seed else "")


def stock(level: Level, seed: int = 0) -> Stock:
    """Return the catalogue of a level and a seed with the families that it was made of."""
    return _STOCKS.get((level, seed), lambda: _stock(level, seed))


_STOCKS: Final[Shared[Stock]] = Shared()


def _stock(level: Level, seed: int) -> Stock:
    draws = Draws(f"shop {name_of(level, seed)}")
    families = _families(draws, level)
    count = sum(len(family.members) for family in families)
    asins = iter(_asins(draws, count, level.id_length))
    named = tuple(tuple(next(asins) for _ in family.members) for family in families)
    products = [
        write_product(draws, level, spec, asin)
        for family, names in zip(families, named, strict=True)
        for spec, asin in zip(family.members, names, strict=True)
    ]
    splits = {split: tuple(n for n in range(len(families)) if _split_of(n, level) == split) for split in SPLITS}
    return Stock(level, seed, Catalogue(draws.some(products, count)), families, named, splits)


def _split_of(number: int, level: Level) -> str:
    """Return the split of a family: of four of one kind that follow each other, one is held out."""
    place, kind = divmod(number, level.kinds)
    return "held_out" if (place + kind) % 4 == 3 else "train"


def _families(draws: Draws, level: Level) -> tuple[Family, ...]:
    """Families of each kind by turns, until there are enough products."""
    families: list[Family] = []
    left = level.products
    while left > 0:
        kind = KINDS[len(families) % level.kinds]
        families.append(draw_family(draws, level, kind, min(left, level.distractors + 1)))
        left -= level.distractors + 1
    return tuple(families)


def _asins(draws: Draws, count: int, length: int) -> list[str]:
    """So many different ids: a letter and digits; or, where the original's length is asked for, ids that look alike."""
    found: dict[str, None] = {}
    while len(found) < count:
        if length == 10:
            name = "B0" + "".join(draws.one(_SIGNS) for _ in range(8))
        else:
            name = draws.one(_LETTERS) + "".join(draws.one("0123456789") for _ in range(length - 1))
        found[name] = None
    return list(found)

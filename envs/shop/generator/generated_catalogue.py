"""Generated catalogues by level and seed, with the product families that they were made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from turncredit.envs.caching import SharedObjects
from turncredit.envs.shop.catalogue import Catalogue
from turncredit.envs.shop.generator.families import ProductFamily, draw_family
from turncredit.envs.shop.generator.level import ShopLevel
from turncredit.envs.shop.generator.product_text import write_product
from turncredit.envs.shop.generator.stable_random import StableRandom
from turncredit.envs.shop.generator.vocabulary import KINDS

__all__ = ["SPLITS", "GeneratedCatalogue", "catalogue", "generated_catalogue", "name_of"]

SPLITS: Final = ("train", "held_out")
_LETTERS: Final = "BCDFGHJKLMNPQRSTVWXZ"
_SIGNS: Final = "0123456789ABCDEFGHJKLMNPQRSTUVWXYZ"


@dataclass(frozen=True, slots=True, weakref_slot=True)
class GeneratedCatalogue:
    """A catalogue and the families that it was made of.

    Attributes:
        level, seed: what determines it.
        catalogue: the products, shuffled.
        families: all families.
        asins: product ids of the members of each family.
        splits: numbers of the families of each split; every fourth family is held out.
    """

    level: ShopLevel
    seed: int
    catalogue: Catalogue
    families: tuple[ProductFamily, ...]
    asins: tuple[tuple[str, ...], ...]
    splits: dict[str, tuple[int, ...]]


def catalogue(level: ShopLevel | str = "small", seed: int = 0) -> Catalogue:
    """Return the catalogue of a level and a seed: the same on every machine. Recent ones are cached.

    Args:
        level: size, or its text such as "tiny" or "small+products=500".
        seed: which one of that level.

    Raises:
        UnknownOption: the text names no level.
    """
    return generated_catalogue(ShopLevel.parse(level) if isinstance(level, str) else level, seed).catalogue


def name_of(level: ShopLevel, seed: int) -> str:
    """Return the name of a catalogue, as it appears in task ids: "small", or "small@7" for seed 7."""
    return level.text + (f"@{seed}" if seed else "")


def generated_catalogue(level: ShopLevel, seed: int = 0) -> GeneratedCatalogue:
    """Return the catalogue of a level and a seed with its families."""
    return _GENERATED.get((level, seed), lambda: _generate(level, seed))


_GENERATED: Final[SharedObjects[GeneratedCatalogue]] = SharedObjects()


def _generate(level: ShopLevel, seed: int) -> GeneratedCatalogue:
    rng = StableRandom(f"shop {name_of(level, seed)}")
    families = _families(rng, level)
    count = sum(len(family.members) for family in families)
    asins = iter(_asins(rng, count, level.id_length))
    named = tuple(tuple(next(asins) for _ in family.members) for family in families)
    products = [
        write_product(rng, level, spec, asin)
        for family, names in zip(families, named, strict=True)
        for spec, asin in zip(family.members, names, strict=True)
    ]
    splits = {split: tuple(n for n in range(len(families)) if _split_of(n, level) == split) for split in SPLITS}
    return GeneratedCatalogue(level, seed, Catalogue(rng.some(products, count)), families, named, splits)


def _split_of(number: int, level: ShopLevel) -> str:
    """Return the split of a family: one of every four consecutive families of a kind is held out."""
    row, kind = divmod(number, level.kinds)
    return "held_out" if (row + kind) % 4 == 3 else "train"


def _families(rng: StableRandom, level: ShopLevel) -> tuple[ProductFamily, ...]:
    """Return families of each kind in turn, until there are enough products."""
    families: list[ProductFamily] = []
    left = level.products
    while left > 0:
        kind = KINDS[len(families) % level.kinds]
        families.append(draw_family(rng, level, kind, min(left, level.distractors + 1)))
        left -= level.distractors + 1
    return tuple(families)


def _asins(rng: StableRandom, count: int, length: int) -> list[str]:
    """Return different product ids: a letter and digits, or for length 10 ids like the original's."""
    names: dict[str, None] = {}
    while len(names) < count:
        if length == 10:
            name = "B0" + "".join(rng.one(_SIGNS) for _ in range(8))
        else:
            name = rng.one(_LETTERS) + "".join(rng.one("0123456789") for _ in range(length - 1))
        names[name] = None
    return list(names)

"""Phones of the tasks: those whose store sells what the generated web shops sell."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final
from zlib import crc32

from turncredit.phone.phone import Phone

if TYPE_CHECKING:
    from turncredit.envs.shop.catalogue import Catalogue
    from turncredit.envs.shop.product import Product

__all__ = ["shop_catalogue", "task_phone"]

_CATALOGUES: Final = 8  # phones share this many, so that many phones need little memory


def task_phone(seed: int | str) -> Phone:
    """Return a phone at its home screen, with the generated products in its store."""
    return Phone(seed, catalogue=shop_catalogue)


def shop_catalogue(seed: int | str) -> Catalogue:
    """Return the products of a phone with this seed."""
    return _shared_catalogue(crc32(str(seed).encode()) % _CATALOGUES)


@lru_cache(maxsize=_CATALOGUES)
def _shared_catalogue(seed: int) -> Catalogue:
    from turncredit.envs.shop.catalogue import Catalogue
    from turncredit.envs.shop.generator import catalogue

    by_name: dict[str, Product] = {}  # a shop on a phone has one product of a name, so that a name says which
    for product in catalogue("tiny", seed=seed):
        by_name.setdefault(product.name, product)
    return Catalogue(by_name.values())

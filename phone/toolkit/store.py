"""Interface of the catalogue that the store of the browser shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

__all__ = ["StoreCatalogue", "StoreProduct"]


class StoreProduct(Protocol):
    """A product on the pages of the store."""

    @property
    def asin(self) -> str:
        """Its id."""
        ...

    @property
    def name(self) -> str:
        """Its title, which no other product of the catalogue has."""
        ...

    @property
    def description(self) -> str:
        """A paragraph about it."""
        ...

    @property
    def bullets(self) -> tuple[str, ...]:
        """Its features."""
        ...

    @property
    def category(self) -> str:
        """Its department, in lower case."""
        ...

    @property
    def product_category(self) -> str:
        """The path of its categories, separated by " › "."""
        ...

    @property
    def pricing(self) -> tuple[float, ...]:
        """Its price in dollars, first."""
        ...

    @property
    def options(self) -> Mapping[str, tuple[str, ...]]:
        """The values of each option."""
        ...


class StoreCatalogue(Protocol):
    """Products in a fixed order, which a customer searches."""

    def __len__(self) -> int:
        """Return the number of products."""
        ...

    def __iter__(self) -> Iterator[StoreProduct]:
        """Yield the products in order."""
        ...

    def get(self, asin: str) -> StoreProduct | None:
        """Return the product with an id, or None."""
        ...

    def search(self, query: str, k: int) -> list[tuple[str, float]]:
        """Return pairs of id and score: at most `k`, the best first, none that has none of the words."""
        ...

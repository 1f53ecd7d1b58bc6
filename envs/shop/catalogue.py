"""Products with their search index: what a shop sells, from the original's files or from anywhere else.

CatalogueFiles of any size can be opened: their products lie in a cache on disk and are read when they are looked at.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, overload
from weakref import WeakValueDictionary

from turnwise.envs.caching import cache_folder
from turnwise.envs.errors import UnknownOption
from turnwise.envs.shop.catalogue_cache import StoredProducts, contents, open_stored, source_key, write_stored
from turnwise.envs.shop.catalogue_files import CatalogueError, CatalogueFiles, CatalogueReader
from turnwise.envs.shop.product import Product
from turnwise.tools.retrieval import BM25

__all__ = ["Catalogue", "CatalogueError", "contents"]


class _ProductsInMemory:
    """Products in memory."""

    def __init__(self, products: Iterable[Product], skipped: int = 0) -> None:
        self._products = tuple(products)
        self._rows = {product.asin: row for row, product in enumerate(self._products)}
        if len(self._rows) < len(self._products):
            seen: set[str] = set()
            twice = next(one.asin for one in self._products if one.asin in seen or seen.add(one.asin))  # type: ignore[func-returns-value]
            raise UnknownOption(f"two products of a catalogue have the id {twice!r}; each needs its own")
        self.skipped = skipped

    def __len__(self) -> int:
        return len(self._products)

    def __getitem__(self, row: int) -> Product:
        return self._products[row]

    def __iter__(self) -> Iterator[Product]:
        return iter(self._products)

    def row(self, asin: str) -> int | None:
        return self._rows.get(asin)

    def pricings(self) -> Iterator[tuple[str, tuple[float, ...]]]:
        return ((product.asin, product.pricing) for product in self._products)

    def instructed(self, human: bool) -> Iterator[Product]:
        return (product for product in self if (product.human if human else product.instruction is not None))


class Catalogue(Sequence[Product]):
    """Products in a fixed order, which can be searched. It never changes, so environments and threads may share one."""

    def __init__(self, products: Iterable[Product], *, index: BM25 | None = None) -> None:
        """Take products.

        Args:
            products: in their order; ids differ.
            index: their search index; None: one is made when something is first searched.

        Raises:
            UnknownOption: two products have the same id.
        """
        self._products: _ProductsInMemory | StoredProducts = (
            products if isinstance(products, _ProductsInMemory | StoredProducts) else _ProductsInMemory(products)
        )
        self._index = index

    @classmethod
    def open(
        cls,
        products: str | PathLike[str],
        attributes: str | PathLike[str] | None = None,
        human: str | PathLike[str] | None = None,
        *,
        num_products: int | None = None,
        strict: bool = True,
        cache: str | PathLike[str] | bool = True,
    ) -> Catalogue:
        """Return the catalogue of the original's files; one of the same files and options is shared in the process.

        Args:
            products: items_shuffle*.json: a JSON list of products, or one a line; also packed, as *.gz.
            attributes: items_ins_v2*.json: attributes by id, and sentences for goals.
            human: items_human_ins.json: what people wrote, by id.
            num_products: only so many records from the beginning of the list.
            strict: raise at the first record with something wrong; else leave such records out, and count them in
                `skipped`.
            cache: True: in the user's folder ($TURNWISE_CACHE, else turnwise in $XDG_CACHE_HOME or ~/.cache); a path:
                there; False: everything stays in memory. Where nothing can be written, it stays there as well.

        Raises:
            CatalogueError: a file is missing, torn, or holds something else; or (`strict`) a record does.
            UnknownOption: num_products is below 1.
        """
        files = _files(products, attributes, human, num_products)
        key = source_key(files, strict)
        root = None if cache is False else cache_folder() if cache is True else Path(cache).expanduser()
        mark = (repr(key), str(root))
        shared = _open.get(mark)
        if shared is None:
            shared = _open[mark] = cls._opened(root, key, CatalogueReader(files, strict=strict))
        return shared

    @classmethod
    def _opened(cls, root: Path | None, key: dict[str, Any], reading: CatalogueReader) -> Catalogue:
        if root is not None:
            stored = open_stored(root, key) or write_stored(root, key, reading)
            if stored is not None:
                return cls(stored, index=stored.index)
        kept = tuple(reading.products())
        if not kept:
            raise CatalogueError(reading.files.products, None, "holds no product that can be used")
        return cls(_ProductsInMemory(kept, reading.skipped))

    @property
    def skipped(self) -> int:
        """Number of records that were left out because something is wrong with them (`strict=False`)."""
        return self._products.skipped

    @overload
    def __getitem__(self, row: int) -> Product: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[Product]: ...
    def __getitem__(self, row: int | slice) -> Product | Sequence[Product]:
        """Return a product by its place, or a list of them."""
        if isinstance(row, slice):
            return [self._products[one] for one in range(len(self))[row]]
        return self._products[range(len(self))[operator.index(row)]]

    def __len__(self) -> int:
        """Return the number of products."""
        return len(self._products)

    def __iter__(self) -> Iterator[Product]:
        """Yield the products in their order."""
        return iter(self._products)

    def __contains__(self, product: object) -> bool:
        """Whether a product is in the catalogue; found by its id."""
        return isinstance(product, Product) and self.get(product.asin) == product

    def __reduce__(self) -> tuple[Any, ...]:
        """Cross the pipe of an isolated environment: as products, without the index."""
        return _again, (list(self), self.skipped)

    def get(self, asin: str) -> Product | None:
        """Return the product with an id, in capitals; None if there is none."""
        row = self._products.row(asin)
        return None if row is None else self._products[row]

    def search(self, query: str, k: int = 50) -> list[tuple[str, float]]:
        """Return the best products for a query, as Lucene ranks their `contents`.

        Args:
            query: any text.
            k: how many, at least 1.

        Returns:
            At most k pairs (id, score), the best first; [] where no product has any of the words.

        Raises:
            BadQuery: the query is no str, or k is no whole number of at least 1.
        """
        if self._index is None:
            self._index = BM25.build((product.asin, contents(product)) for product in self)
        return self._index.search(query, k)

    def pricings(self) -> Iterator[tuple[str, tuple[float, ...]]]:
        """Yield id and `pricing` of each product."""
        return self._products.pricings()

    def instructed(self, human: bool) -> Iterator[Product]:
        """Yield the products of which goals can be made: by what people wrote, or by a sentence."""
        return self._products.instructed(human)


_open: WeakValueDictionary[tuple[str, str], Catalogue] = WeakValueDictionary()


def _again(products: list[Product], skipped: int) -> Catalogue:
    return Catalogue(_ProductsInMemory(products, skipped))


def _files(
    products: str | PathLike[str],
    attributes: str | PathLike[str] | None,
    human: str | PathLike[str] | None,
    num_products: int | None,
) -> CatalogueFiles:
    count = num_products
    if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
        raise UnknownOption(f"num_products, how many records are read, is None or at least 1; got {count!r}")
    known, said = (None if path is None else Path(path).expanduser() for path in (attributes, human))
    return CatalogueFiles(Path(products).expanduser(), known, said, count)

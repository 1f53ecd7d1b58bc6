"""A catalogue: products with their search index, in memory or from WebShop's files.

Files of any size can be opened: their products are cached on disk and read on access.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import overload
from weakref import WeakValueDictionary

from turncredit.envs.caching import cache_folder
from turncredit.envs.errors import UnknownOption
from turncredit.envs.shop.catalogue_cache import StoredProducts, contents, open_stored, source_key, write_stored
from turncredit.envs.shop.catalogue_files import CatalogueError, CatalogueFiles, CatalogueReader
from turncredit.envs.shop.product import Product
from turncredit.tools.retrieval import BM25

__all__ = ["Catalogue", "CatalogueError", "contents"]


class _ProductsInMemory:
    """Products in memory."""

    def __init__(self, products: Iterable[Product], skipped: int = 0) -> None:
        self._products = tuple(products)
        self._rows = {product.asin: row for row, product in enumerate(self._products)}
        if len(self._rows) < len(self._products):
            seen: set[str] = set()
            twice = next(item.asin for item in self._products if item.asin in seen or seen.add(item.asin))  # type: ignore[func-returns-value]
            raise UnknownOption(f"two products of the catalogue have the id {twice!r}; ids must be unique")
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
    """Searchable products in a fixed order. Catalogues are immutable, so environments and threads may share them."""

    def __init__(self, products: Iterable[Product], *, index: BM25 | None = None) -> None:
        """Create a catalogue.

        Args:
            products: products with unique ids, in order.
            index: their search index; None builds it at the first search.

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
        """Return the catalogue of WebShop's files, shared in the process for the same files and options.

        Args:
            products: items_shuffle*.json: a JSON list of products or one product a line; may be gzipped (*.gz).
            attributes: items_ins_v2*.json: attributes and sentences by id.
            human: items_human_ins.json: human instructions by id.
            num_products: number of records to read from the beginning; None for all.
            strict: raise an error for the first broken record; else skip broken records and count them in `skipped`.
            cache: True for the user's cache folder ($TURNCREDIT_CACHE, else turncredit in $XDG_CACHE_HOME or ~/.cache),
                the path of a folder, or False to keep everything in memory, as is done if the folder is not writable.

        Raises:
            CatalogueError: a file is missing, damaged or has other contents, or (`strict`) a record is broken.
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
    def _opened(cls, root: Path | None, key: dict[str, object], reading: CatalogueReader) -> Catalogue:
        if root is not None:
            stored = open_stored(root, key) or write_stored(root, key, reading)
            if stored is not None:
                return cls(stored, index=stored.index)
        products = tuple(reading.products())
        if not products:
            raise CatalogueError(reading.files.products, None, "contains no usable product")
        return cls(_ProductsInMemory(products, reading.skipped))

    @property
    def skipped(self) -> int:
        """Number of broken records that were skipped (`strict=False`)."""
        return self._products.skipped

    @overload
    def __getitem__(self, row: int) -> Product: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[Product]: ...
    def __getitem__(self, row: int | slice) -> Product | Sequence[Product]:
        """Return a product by its position, or a list for a slice."""
        if isinstance(row, slice):
            return [self._products[number] for number in range(len(self))[row]]
        return self._products[range(len(self))[operator.index(row)]]

    def __len__(self) -> int:
        """Return the number of products."""
        return len(self._products)

    def __iter__(self) -> Iterator[Product]:
        """Yield the products in order."""
        return iter(self._products)

    def __contains__(self, product: object) -> bool:
        """Return whether the catalogue contains a product."""
        return isinstance(product, Product) and self.get(product.asin) == product

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the products without the index."""
        return _again, (list(self), self.skipped)

    def get(self, asin: str) -> Product | None:
        """Return the product with an id in upper case, or None."""
        row = self._products.row(asin)
        return None if row is None else self._products[row]

    def search(self, query: str, k: int = 50) -> list[tuple[str, float]]:
        """Return the best products for a query, as Lucene ranks their `contents`.

        Args:
            query: any text.
            k: largest number of results, at least 1.

        Returns:
            Pairs (id, score), the best first; [] if no product contains any of the words.

        Raises:
            BadQuery: the query is not a string, or k is not an integer >= 1.
        """
        if self._index is None:
            self._index = BM25.build((product.asin, contents(product)) for product in self)
        return self._index.search(query, k)

    def pricings(self) -> Iterator[tuple[str, tuple[float, ...]]]:
        """Yield the id and `pricing` of each product."""
        return self._products.pricings()

    def instructed(self, human: bool) -> Iterator[Product]:
        """Yield the products with human instructions, or those with a sentence for synthetic goals."""
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
        raise UnknownOption(f"num_products must be None or an integer >= 1, got {count!r}")
    attribute_file, human_file = (None if path is None else Path(path).expanduser() for path in (attributes, human))
    return CatalogueFiles(Path(products).expanduser(), attribute_file, human_file, count)

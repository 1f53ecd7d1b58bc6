"""A catalogue on disk: a folder with products as JSON lines, a few arrays, and the search index.

The folder is written under a temporary name and renamed when it is complete. It is used only while size, modification
time and contents of its sources are unchanged; a damaged cache counts as missing. It contains no pickles.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import tempfile
import zlib
from array import array
from collections.abc import Iterator
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from turncredit.envs.shop.catalogue_files import CatalogueError, CatalogueFiles, CatalogueReader
from turncredit.envs.shop.product import HumanInstruction, Product
from turncredit.tools.retrieval import BM25, BadIndex
from turncredit.tools.retrieval.packed_strings import PackedStrings

__all__ = ["StoredProducts", "contents", "open_stored", "source_key", "write_stored"]

FORMAT: Final = "turncredit shop catalogue"
VERSION: Final = 1
"""Incremented when older caches would be misread or contain different products."""

_MANIFEST: Final = "catalogue.json"
_LINES: Final = "products.jsonl"
_INDEX: Final = "index"
_ARRAYS: Final = {
    "ends": "int64",  # [n + 1] of the lines
    "ids": "uint8",
    "id_ends": "int64",
    "low": "float64",
    "high": "float64",  # [n] NaN for a single price
    "goals": "uint8",
}
_HUMAN, _SENTENCE = 1, 2  # bits of "goals"
_SAMPLE: Final = 1 << 18  # bytes at the beginning, middle and end of a source that are hashed
_CHECKED: Final = 1 << 26  # bytes; larger files are not checksummed when a cache is opened
_KEPT: Final = 1 << 13  # products in memory


def contents(product: Product) -> str:
    """Return the text that search reads: title, description, first feature and options, in lower case.

    Source: WebShop (Yao et al. 2022, arXiv:2207.01206), the documents of its search index.
    """
    choices = ", and ".join(f"{name}: {', '.join(values)}" for name, values in product.options.items())
    return " ".join([product.name, product.description, *(product.bullets[:1] or ("",)), choices]).lower()


class StoredProducts:
    """Products in a memory-mapped file; recently used ones are cached.

    Attributes:
        index: their search index.
        skipped: number of records that were skipped when the sources were read.
    """

    def __init__(self, path: Path, manifest: dict[str, Any], arrays: dict[str, NDArray[Any]], index: BM25) -> None:
        """Open a checked folder (see `open_stored`)."""
        with (path / _LINES).open("rb") as file:
            self._lines = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._path, self._ends = path, arrays["ends"]
        self._low, self._high, self._goals = arrays["low"], arrays["high"], arrays["goals"]
        self._ids = _strings(arrays["ids"], arrays["id_ends"])
        self.index, self.skipped = index, int(manifest["skipped"])
        self._rows: dict[str, int] | None = None
        self._kept: dict[int, Product] = {}

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, row: int) -> Product:
        cached = self._kept
        if row in cached:
            return cached[row]
        if len(cached) >= _KEPT:
            self._kept = cached = {}  # a new dict: other threads may be reading the old one
        cached[row] = product = self._read(row)
        return product

    def __iter__(self) -> Iterator[Product]:
        return (self._kept.get(row) or self._read(row) for row in range(len(self)))

    def row(self, asin: str) -> int | None:
        """Return the row of the product with an id."""
        if self._rows is None:
            self._rows = {id: row for row, id in enumerate(self._ids)}
        return self._rows.get(asin)

    def pricings(self) -> Iterator[tuple[str, tuple[float, ...]]]:
        """Yield the id and pricing of each product without reading the products."""
        for id, low, high in zip(self._ids, self._low.tolist(), self._high.tolist(), strict=True):
            yield id, (low,) if high != high else (low, high)

    def instructed(self, human: bool) -> Iterator[Product]:
        """Yield the products that goals can be made of, without reading the others."""
        return (self[row] for row in np.flatnonzero(self._goals & (_HUMAN if human else _SENTENCE)).tolist())

    def _read(self, row: int) -> Product:
        try:
            return _unpacked(json.loads(self._lines[self._ends[row] : self._ends[row + 1]]))
        except (ValueError, TypeError, AttributeError) as error:
            problem = f"is damaged ({error}); delete the folder to rebuild it"
            raise CatalogueError(self._path / _LINES, None, problem) from error


def _strings(text: NDArray[Any], ends: NDArray[Any]) -> list[str]:
    """Return the strings that `PackedStrings` stored in two arrays."""
    raw, places = text.tobytes(), ends.tolist()
    return [raw[begin:end].decode("utf-8", "surrogatepass") for begin, end in pairwise(places)]


def _packed(product: Product) -> bytes:
    """Return the JSON line of a product."""
    human = [[instruction.text, instruction.attributes, instruction.options] for instruction in product.human]
    values = [getattr(product, name) for name in Product.__dataclass_fields__ if name != "human"]
    return json.dumps([*values, human], separators=(",", ":")).encode() + b"\n"


def _unpacked(values: list[Any]) -> Product:
    """Return the product of a line with values in the order of the fields of `Product`."""
    asin, name, description, bullets, category, query, path, pricing, tag, options, attributes, *remainder = values
    image, instruction, asked, human = remainder
    return Product(
        asin,
        name,
        description,
        tuple(bullets),
        category,
        query,
        path,
        tuple(pricing),
        tag,
        {option: tuple(offered) for option, offered in options.items()},
        tuple(attributes),
        image,
        instruction,
        tuple(asked),
        tuple(HumanInstruction(text, tuple(sought), tuple(chosen)) for text, sought, chosen in human),
    )


def source_key(files: CatalogueFiles, strict: bool) -> dict[str, object]:
    """Return what determines a catalogue: format, options, and path, size, time and digest of each file.

    Args:
        files: the sources.
        strict: whether broken records are errors.

    Raises:
        CatalogueError: a file is missing or cannot be read.
    """
    roles = {"products": files.products, "attributes": files.attributes, "human": files.human}
    sources = {role: None if path is None else _stamp(path) for role, path in roles.items()}
    return {"version": VERSION, "strict": strict, "num_products": files.num_products, **sources}


def _stamp(path: Path) -> list[object]:
    try:
        resolved = path.resolve()
        stat, digest = resolved.stat(), hashlib.blake2b(digest_size=16)
        with resolved.open("rb") as file:
            for begin in sorted({0, max(stat.st_size // 2 - _SAMPLE // 2, 0), max(stat.st_size - _SAMPLE, 0)}):
                file.seek(begin)
                digest.update(file.read(_SAMPLE))
    except FileNotFoundError:
        raise CatalogueError(path, None, "does not exist") from None
    except OSError as error:
        raise CatalogueError(path, None, f"cannot be read ({error.strerror})") from error
    return [str(resolved), stat.st_size, stat.st_mtime_ns, digest.hexdigest()]


def _folder(root: Path, key: dict[str, object]) -> Path:
    """Return the folder of a catalogue, determined by paths and options, so that a newer version replaces it."""
    lasting = {name: value[0] if isinstance(value, list) else value for name, value in key.items()}
    digest = hashlib.blake2b(json.dumps(lasting, sort_keys=True).encode(), digest_size=8).hexdigest()
    return root / "shop" / digest


def open_stored(root: Path, key: dict[str, object]) -> StoredProducts | None:
    """Return the cached catalogue of a key, or None if it is missing, damaged or outdated.

    Args:
        root: the folder of all caches.
        key: see `source_key`.
    """
    path = _folder(root, key)
    try:
        manifest = json.loads((path / _MANIFEST).read_text(encoding="utf-8"))
        if manifest["format"] != FORMAT or manifest["key"] != key:
            return None
        for name, expected in manifest["files"].items():
            if _sum(path / name, expected[0]) != expected:
                return None
        arrays = {name: _array(path / f"{name}.npy", kind) for name, kind in _ARRAYS.items()}
        small = sum(file.stat().st_size for file in (path / _INDEX).iterdir()) <= _CHECKED
        index = BM25.open(path / _INDEX, check=small)
        count, length = len(arrays["ends"]) - 1, manifest["files"][_LINES][0]
        sizes = {"ends": count + 1, "ids": arrays["id_ends"][-1], "id_ends": count + 1}
        fit = all(len(values) == sizes.get(name, count) for name, values in arrays.items())
        if count < 1 or not fit or len(index) != count or arrays["ends"][-1] != length:
            return None
        return StoredProducts(path, manifest, arrays, index)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, BadIndex):
        return None


def _sum(path: Path, size: int) -> list[int]:
    """Return size and checksum of a file; the checksum of a large file is 0."""
    if path.stat().st_size != size or size > _CHECKED:
        return [path.stat().st_size, 0]
    return [size, zlib.crc32(path.read_bytes())]


def _array(path: Path, kind: str) -> NDArray[Any]:
    values = np.load(path, mmap_mode="r", allow_pickle=False)
    if values.ndim != 1 or str(values.dtype) != kind:
        raise ValueError(f"{path} contains {values.dtype}, not {kind}")
    return np.asarray(values)


def write_stored(root: Path, key: dict[str, object], reading: CatalogueReader) -> StoredProducts | None:
    """Read products into a cache and return the cached catalogue, or None if it cannot be written.

    Args:
        root: the folder of all caches, created if necessary.
        key: see `source_key`.
        reading: reader of the products, which are streamed.

    Raises:
        CatalogueError: a source is broken (see `CatalogueReader`) or contains no product.
    """
    target = _folder(root, key)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as scratch:
            new = Path(scratch) / "new"
            new.mkdir()
            _fill(new, key, reading)
            _move(new, target, Path(scratch) / "old")
    except OSError:
        return None
    return open_stored(root, key)


class _CacheWriter:
    """Writes products into a folder."""

    def __init__(self, path: Path) -> None:
        self._file = (path / _LINES).open("wb")
        self._path, self._ids = path, list[str]()
        self._ends, self._low, self._high, self._goals = array("q", [0]), array("d"), array("d"), array("B")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, product: Product) -> None:
        """Write a product."""
        line = _packed(product)
        self._file.write(line)
        self._ids.append(product.asin)
        self._ends.append(self._ends[-1] + len(line))
        self._low.append(product.pricing[0])
        self._high.append(product.pricing[1] if len(product.pricing) > 1 else float("nan"))
        self._goals.append(_HUMAN * bool(product.human) + _SENTENCE * (product.instruction is not None))

    def close(self) -> list[str]:
        """Write the arrays, and return the names of all files."""
        self._file.close()
        ids = PackedStrings.of(self._ids)
        values = (self._ends, ids.text, ids.ends, self._low, self._high, self._goals)
        for (name, kind), column in zip(_ARRAYS.items(), values, strict=True):
            np.save(self._path / f"{name}.npy", np.asarray(column, dtype=kind), allow_pickle=False)
        return [_LINES, *(f"{name}.npy" for name in _ARRAYS)]


def _fill(path: Path, key: dict[str, object], reading: CatalogueReader) -> None:
    """Write the files of a cache, the manifest last."""

    def passing() -> Iterator[tuple[str, str]]:
        for product in reading.products():
            writer.add(product)
            yield product.asin, contents(product)

    with _CacheWriter(path) as writer:
        documents = passing()
        first = next(documents, None)
        if first is None:
            raise CatalogueError(reading.files.products, None, "contains no usable product")
        BM25.build(chain([first], documents)).save(path / _INDEX)
        names = writer.close()
    manifest = {"format": FORMAT, "key": key, "skipped": reading.skipped}
    manifest["files"] = {name: _sum(path / name, (path / name).stat().st_size) for name in names}
    (path / _MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


def _move(new: Path, target: Path, old: Path) -> None:
    """Move a folder to its target, and a previous one to `old`."""
    if target.exists():
        os.rename(target, old)
    try:
        os.rename(new, target)
    except OSError:
        if not target.exists():  # else another process was faster, and its folder is equivalent
            raise

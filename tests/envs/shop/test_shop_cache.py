"""The cached catalogue: equal to the one in memory, rebuilt when its sources change or it is damaged."""

from __future__ import annotations

import json
import os
import pickle
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from turncredit.envs.errors import UnknownOption
from turncredit.envs.shop import catalogue_cache
from turncredit.envs.shop.catalogue import Catalogue, CatalogueError, _open
from turncredit.envs.shop.catalogue_files import CatalogueFiles, CatalogueReader
from turncredit.envs.shop.prices import draw_prices
from turncredit.envs.shop.product import HumanInstruction, Product

PRODUCTS = [
    Product("B1", "Red shoe", options={"size": ("s", "m")}, pricing=(5.0, 9.0), instruction="Find shoes", query="shoe"),
    Product("B2", "Blue ☂ hat", "warm", ("soft", "wool"), image="x", human=(HumanInstruction("a hat", ("warm",)),)),
    Product('B"\\é', "Green <b>sock</b>\n\ud800", pricing=(1.5,), price_tag="$1.5"),
]


def source(folder: Path, count: int = 30) -> Path:
    """A file of products; every third has a range of prices."""
    path = folder / "products.json"
    items = [
        {
            "asin": f"B{number:09}",
            "name": f"Product {number} of kind {number % 7}",
            "full_description": "Plain.",
            "pricing": "$1.00 - $9.00" if number % 3 == 0 else "$5",
            "small_description": ["one", "two"],
            "product_category": "A › B",
            "category": "garden",
            "query": "thing",
        }
        for number in range(count)
    ]
    path.write_text(json.dumps(items), encoding="utf-8")
    return path


def fresh(*arguments: Any, **options: Any) -> Catalogue:
    """A catalogue opened as in a new process."""
    _open.clear()
    return Catalogue.open(*arguments, **options)


def folder_of(root: Path) -> Path:
    (found,) = (root / "shop").iterdir()
    return found


def test_a_line_holds_a_product() -> None:
    for product in PRODUCTS:
        assert catalogue_cache._unpacked(json.loads(catalogue_cache._packed(product))) == product


def test_the_same_as_in_memory(tmp_path: Path) -> None:
    path = source(tmp_path)
    kept, built = fresh(path, cache=False), fresh(path, cache=tmp_path / "c")
    assert isinstance(built._products, catalogue_cache.StoredProducts)
    again = fresh(path, cache=tmp_path / "c")
    for other in (built, again):
        assert list(other) == list(kept)
        assert other[5:2:-1] == kept[5:2:-1]
        assert other[-1] == kept[-1]
        assert list(other.pricings()) == list(kept.pricings())
        assert other.search("product kind 3", 5) == kept.search("product kind 3", 5)
        assert other.get("B000000004") == kept.get("B000000004") == kept[4]
        assert other.get("b000000004") is None
        assert draw_prices(other, random.Random(1)) == draw_prices(list(kept), random.Random(1))
        with pytest.raises(IndexError):
            other[30]


def test_a_cache_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = source(tmp_path)
    wanted = list(fresh(path, cache=tmp_path / "c"))

    def never(*_: Any) -> None:
        raise AssertionError("the sources were read again")

    monkeypatch.setattr(catalogue_cache, "write_stored", never)
    monkeypatch.setattr("turncredit.envs.shop.catalogue.write_stored", never)
    assert list(fresh(path, cache=tmp_path / "c")) == wanted
    monkeypatch.setenv("TURNCREDIT_CACHE", str(tmp_path / "c"))
    assert list(fresh(path)) == wanted


def test_one_process_opens_once(tmp_path: Path) -> None:
    path = source(tmp_path)
    first = Catalogue.open(path, cache=tmp_path / "c")
    assert Catalogue.open(str(path), cache=str(tmp_path / "c")) is first
    assert Catalogue.open(path, cache=tmp_path / "c", num_products=3) is not first
    source(tmp_path, 31)
    assert len(Catalogue.open(path, cache=tmp_path / "c")) == 31
    assert len(first) == 30  # the old one stays usable
    assert first[29].name == "Product 29 of kind 1"


def test_a_changed_source_is_read_again(tmp_path: Path) -> None:
    path = source(tmp_path)
    fresh(path, cache=tmp_path / "c")
    stamp = path.stat()
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("Product 3 ", "Produkt 3 "), encoding="utf-8")  # as long as before
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))  # and as old
    assert fresh(path, cache=tmp_path / "c")[3].name == "Produkt 3 of kind 3"
    folder_of(tmp_path / "c")  # the newer folder has replaced the older one
    attributes = tmp_path / "attributes.json"
    attributes.write_text('{"B000000003": {"attributes": ["soft"]}}', encoding="utf-8")
    assert fresh(path, attributes, cache=tmp_path / "c")[3].attributes == ("soft",)
    attributes.write_text('{"B000000003": {"attributes": ["hard"]}}', encoding="utf-8")
    assert fresh(path, attributes, cache=tmp_path / "c")[3].attributes == ("hard",)


def test_strict_and_lenient_do_not_share(tmp_path: Path) -> None:
    path = source(tmp_path)
    path.write_text(path.read_text(encoding="utf-8").replace('"name": "Product 3 of kind 3"', '"name": 3'))
    for _ in range(2):
        lenient = fresh(path, cache=tmp_path / "c", strict=False)
        assert (len(lenient), lenient.skipped) == (29, 1)
        with pytest.raises(CatalogueError, match=r"record 3 \(B000000003\): 'name' must be a string, got 3"):
            fresh(path, cache=tmp_path / "c")


def files_of(root: Path) -> list[str]:
    found = folder_of(root)
    return sorted(str(path.relative_to(found)) for path in found.rglob("*") if path.is_file())


def test_any_damage_is_repaired(tmp_path: Path) -> None:
    path = source(tmp_path)
    wanted, hits = list(fresh(path, cache=tmp_path / "c")), fresh(path, cache=tmp_path / "c").search("kind 2")
    names = files_of(tmp_path / "c")
    assert len(names) == 18
    for name in names:
        for damage in ("gone", "empty", "cut", "changed", "foreign"):
            file = folder_of(tmp_path / "c") / name
            raw = file.read_bytes()
            if damage == "gone":
                file.unlink()
            else:
                middle = len(raw) // 2
                changed = raw[:middle] + bytes([raw[middle] ^ 1]) + raw[middle + 1 :]
                file.write_bytes({"empty": b"", "cut": raw[:-1], "changed": changed, "foreign": b"{}"}[damage])
            mended = fresh(path, cache=tmp_path / "c")
            assert list(mended) == wanted, (name, damage)
            assert mended.search("kind 2") == hits, (name, damage)
            assert files_of(tmp_path / "c") == names


@pytest.mark.parametrize("said", ["[]", "1", "{}", '{"format": "turncredit shop catalogue", "key": 1}'])
def test_an_invalid_manifest_is_ignored(tmp_path: Path, said: str) -> None:
    path = source(tmp_path)
    fresh(path, cache=tmp_path / "c")
    (folder_of(tmp_path / "c") / "catalogue.json").write_text(said)
    assert len(fresh(path, cache=tmp_path / "c")) == 30


def test_damage_in_a_large_file_is_reported_on_access(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = source(tmp_path)
    monkeypatch.setattr(catalogue_cache, "_CHECKED", 10)
    fresh(path, cache=tmp_path / "c")
    lines = folder_of(tmp_path / "c") / "products.jsonl"
    raw = lines.read_bytes()
    lines.write_bytes(b"x" + raw[1:])
    catalogue = fresh(path, cache=tmp_path / "c")
    assert catalogue[1].name == "Product 1 of kind 1"
    with pytest.raises(CatalogueError, match="delete the folder"):
        catalogue[0]


def test_products_stay_in_memory_if_nothing_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = source(tmp_path)
    taken = tmp_path / "taken"
    taken.write_text("a file, not a folder")
    assert len(fresh(path, cache=taken)) == 30

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(np, "save", full)
        catalogue = fresh(path, cache=tmp_path / "c")
        assert len(catalogue.search("product")) == 30
    assert list((tmp_path / "c" / "shop").iterdir()) == []  # no partial folder is left
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", full)
        assert len(fresh(path, cache=tmp_path / "c")) == 30


def test_many_at_once(tmp_path: Path) -> None:
    path = source(tmp_path, 200)

    def work(_: int) -> list[Product]:
        key = catalogue_cache.source_key(CatalogueFiles(path), True)
        stored = catalogue_cache.open_stored(tmp_path / "c", key) or catalogue_cache.write_stored(
            tmp_path / "c", key, CatalogueReader(CatalogueFiles(path))
        )
        return [] if stored is None else list(stored)

    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(work, range(12)))
    wanted = list(fresh(path, cache=False))
    assert all(result in ([], wanted) for result in results)
    assert wanted in results
    assert list(fresh(path, cache=tmp_path / "c")) == wanted


def test_more_products_than_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = source(tmp_path)
    monkeypatch.setattr(catalogue_cache, "_KEPT", 4)
    catalogue = fresh(path, cache=tmp_path / "c")
    assert [catalogue[row].asin for row in range(30)] == [product.asin for product in catalogue]
    assert isinstance(catalogue._products, catalogue_cache.StoredProducts)
    assert len(catalogue._products._kept) <= 4


def test_a_catalogue_can_be_pickled(tmp_path: Path) -> None:
    catalogue = fresh(source(tmp_path), cache=tmp_path / "c")
    again = pickle.loads(pickle.dumps(catalogue))
    assert list(again) == list(catalogue)
    assert again.search("kind 2") == catalogue.search("kind 2")


def test_own_products() -> None:
    catalogue = Catalogue(PRODUCTS)
    assert list(catalogue) == PRODUCTS
    assert [asin for asin, _ in catalogue.search("shoe")] == ["B1"]
    assert [product.asin for product in catalogue.instructed(human=True)] == ["B2"]
    assert [product.asin for product in catalogue.instructed(human=False)] == ["B1"]
    with pytest.raises(UnknownOption, match="'B1'"):
        Catalogue([*PRODUCTS, PRODUCTS[0]])

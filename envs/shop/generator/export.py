"""Writes generated catalogues as files in WebShop's format, with empty addresses of pictures."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from turncredit.envs.shop.generator.generated_catalogue import catalogue
from turncredit.envs.shop.generator.level import ShopLevel
from turncredit.envs.shop.product import Product

__all__ = ["NAMES", "write"]

NAMES: Final = {
    "products": "items_shuffle.json",
    "attributes": "items_ins_v2.json",
    "human": "items_human_ins.json",
}
"""File names by the argument of `Catalogue.open` that reads them."""


def write(folder: str | os.PathLike[str], level: ShopLevel | str = "small", seed: int = 0) -> dict[str, Path]:
    """Write a generated catalogue as the three files that WebShop reads, each atomically.

    `Catalogue.open(**paths)` returns equal products.

    Args:
        folder: created if it does not exist; files of the same names are replaced.
        level: size, or its text.
        seed: which catalogue of that level.

    Returns:
        The paths of the files by argument: "products", "attributes", "human".

    Raises:
        UnknownOption: the text names no level.
        OSError: the files cannot be written.
    """
    products = catalogue(level, seed)
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    paths = {argument: target / name for argument, name in NAMES.items()}
    _write(paths["products"], (json.dumps(_record(product)) for product in products), "[]")
    for argument, entry in (("attributes", _attributes), ("human", _human)):
        _write(paths[argument], _members(products, entry), "{}")
    return paths


def _members(products: Iterable[Product], entry: Callable[[Product], object]) -> Iterable[str]:
    return (f"{json.dumps(product.asin)}: {json.dumps(entry(product))}" for product in products)


def _write(path: Path, records: Iterable[str], brackets: str) -> None:
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        with beside.open("w", encoding="utf-8") as file:
            file.write(brackets[0])
            for number, record in enumerate(records):
                file.write((",\n" if number else "\n") + record)
            file.write("\n" + brackets[1] + "\n")
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def _record(product: Product) -> Mapping[str, object]:
    options = {name: [{"value": value, "image": None} for value in values] for name, values in product.options.items()}
    return {
        "asin": product.asin,
        "name": product.name,
        "full_description": product.description,
        "small_description": list(product.bullets),
        "pricing": product.price_tag,
        "images": [product.image],
        "category": product.category,
        "query": product.query,
        "page": 1,
        "product_category": product.product_category,
        "average_rating": "",
        "customization_options": options or "",
    }


def _attributes(product: Product) -> Mapping[str, object]:
    return {
        "attributes": list(product.attributes),
        "instruction": product.instruction,
        "instruction_attributes": list(product.instruction_attributes),
    }


def _human(product: Product) -> list[Mapping[str, object]]:
    return [
        {
            "asin": product.asin,
            "instruction": instruction.text,
            "attributes": list(product.attributes),
            "options": list(instruction.options),
            "instruction_attributes": list(instruction.attributes),
            "instruction_options": list(instruction.options),
            "assignment_id": "",
            "worker_id": "",
        }
        for instruction in product.human
    ]

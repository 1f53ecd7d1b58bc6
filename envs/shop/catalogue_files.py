"""Reads WebShop's files: products, their attributes, and human instructions.

Products are streamed; records of the other two files are kept as text until their product is read. Values are
interpreted as by WebShop's loader, but a broken record is named or skipped where that loader would crash.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from turncredit.envs.shop.json_stream import BrokenRecord, CatalogueError, elements, members
from turncredit.envs.shop.product import HumanInstruction, Product

__all__ = ["CatalogueError", "CatalogueFiles", "CatalogueReader"]

_LONGEST_ID: Final = 10
_NO_PRICE: Final = ((100.0,), "$100.0")
_NO_NUMBER: Final = re.compile(r"[^\d.]")


@dataclass(frozen=True, slots=True)
class CatalogueFiles:
    """The files of a catalogue.

    Attributes:
        products: items_shuffle*.json.
        attributes: items_ins_v2*.json, or None.
        human: items_human_ins.json, or None.
        num_products: number of records to read from the beginning; None for all.
    """

    products: Path
    attributes: Path | None = None
    human: Path | None = None
    num_products: int | None = None

    @property
    def paths(self) -> tuple[Path, ...]:
        """The given paths."""
        return tuple(path for path in (self.products, self.attributes, self.human) if path is not None)


class _RecordError(Exception):
    """A record is broken; the message says how."""


class CatalogueReader:
    """Reads the files of a catalogue.

    Attributes:
        skipped: number of broken records that were skipped, without those that WebShop skips as well (no id, a long id,
            a repeated id).
    """

    def __init__(self, files: CatalogueFiles, *, strict: bool = True) -> None:
        """Prepare to read; files are opened by `products`.

        Args:
            files: the files.
            strict: raise an error for the first broken record; else skip and count broken records.
        """
        self.files, self.strict, self.skipped = files, strict, 0

    def products(self) -> Iterator[Product]:
        """Yield the products in the order of the file.

        Raises:
            CatalogueError: a file is missing or has other contents, or (`strict`) a record is broken.
        """
        self.skipped = 0
        attribute_records, human_records = self._texts(self.files.attributes), self._texts(self.files.human)
        seen: set[str] = set()
        for number, item in enumerate(islice(elements(self.files.products), self.files.num_products)):
            try:
                id = _id(item)
                if id == "nan" or len(id) > _LONGEST_ID or id.upper() in seen:
                    continue
                seen.add(id.upper())
                attributes, human = (
                    self._attributes(id, attribute_records.pop(id, None)),
                    self._human(id, human_records.pop(id, None)),
                )
                yield _product(item, attributes, human)
            except _RecordError as error:
                self._skip(self.files.products, _place(number, item), error)

    def _skip(self, path: Path, record: str, error: _RecordError) -> None:
        if self.strict:
            raise CatalogueError(path, record, str(error)) from None
        self.skipped += 1

    def _texts(self, path: Path | None) -> dict[str, str]:
        """Return the text of each record by id."""
        texts: dict[str, str] = {}
        for number, member in enumerate(members(path) if path is not None else ()):
            if isinstance(member, BrokenRecord):
                assert path is not None
                self._skip(path, f"record {number}", _RecordError(member.reason))
            else:
                texts[member[0]] = member[1]
        return texts

    def _attributes(self, id: str, text: str | None) -> _AttributeRecord:
        if text is None or self.files.attributes is None:
            return _AttributeRecord()
        try:
            return _attributes(json.loads(text))
        except _RecordError as error:
            self._skip(self.files.attributes, f"record {id}", error)
            return _AttributeRecord()

    def _human(self, id: str, text: str | None) -> tuple[HumanInstruction, ...]:
        if text is None or self.files.human is None:
            return ()
        try:
            return _human(json.loads(text))
        except _RecordError as error:
            self._skip(self.files.human, f"record {id}", error)
            return ()


@dataclass(frozen=True, slots=True)
class _AttributeRecord:
    attributes: tuple[str, ...] = ("DUMMY_ATTR",)
    instruction: str | None = None
    asked: tuple[str, ...] = ()


def _place(number: int, item: object) -> str:
    id = item.get("asin") if isinstance(item, Mapping) else None
    return f"record {number}" + (f" ({id})" if isinstance(id, str) else "")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "..."


def _id(item: object) -> str:
    if isinstance(item, BrokenRecord):
        raise _RecordError(item.reason)
    if not isinstance(item, dict):
        raise _RecordError(f"expected an object with the keys of a product, got {_shown(item)}")
    id = _text(item, "asin")
    if not id:
        raise _RecordError("'asin' must not be empty")
    return id


def _text(item: Mapping[str, object], key: str) -> str:
    value = item.get(key)
    if isinstance(value, str):
        return value
    raise _RecordError(f"{key!r} is missing" if key not in item else f"{key!r} must be a string, got {_shown(value)}")


def _words(item: Mapping[str, object], key: str) -> tuple[str, ...]:
    value = item.get(key)
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return tuple(value)
    raise _RecordError(f"{key!r} must be a list of strings, got {_shown(value)}")


def _product(item: Mapping[str, object], labels: _AttributeRecord, human: tuple[HumanInstruction, ...]) -> Product:
    pricing, tag = _pricing(item.get("pricing"))
    points = item.get("small_description")
    return Product(
        asin=_text(item, "asin").upper(),
        name=_text(item, "name"),
        description=_text(item, "full_description"),
        bullets=(points,) if isinstance(points, str) else _words(item, "small_description"),
        category=_text(item, "category"),
        query=_text(item, "query").lower().strip(),
        product_category=_text(item, "product_category"),
        pricing=pricing,
        price_tag=tag,
        options=_options(item.get("customization_options")),
        attributes=labels.attributes,
        image=_image(item.get("images")),
        instruction=labels.instruction,
        instruction_attributes=labels.asked,
        human=human,
    )


def _pricing(text: object) -> tuple[tuple[float, ...], str]:
    """Return one price or the bounds of a range in dollars, and the text that pages show."""
    if not text:
        return _NO_PRICE
    if not isinstance(text, str):
        raise _RecordError(f"'pricing' must be a string such as '$1.00 - $2.00' or empty, got {_shown(text)}")
    try:
        dollars = tuple(float(_NO_NUMBER.sub("", part)) for part in text.split("$")[1:])
    except ValueError:
        dollars = ()
    if not dollars or not all(map(math.isfinite, dollars)):
        raise _RecordError(f"'pricing' must have a number after every $, got {_shown(text)}")
    return dollars[:2], " to ".join(f"${price}" for price in dollars[:2])


def _options(options: object) -> dict[str, tuple[str, ...]]:
    if not options:
        return {}
    if not isinstance(options, dict):
        raise _RecordError(f"'customization_options' must be an object or empty, got {_shown(options)}")
    return {name.lower(): _values(name, contents) for name, contents in options.items() if contents is not None}


def _values(name: str, contents: object) -> tuple[str, ...]:
    if not isinstance(contents, list):
        raise _RecordError(f"option {name!r} must be a list or null, got {_shown(contents)}")
    values = []
    for entry in contents:
        value = entry.get("value") if isinstance(entry, dict) else None
        if not isinstance(value, str):
            raise _RecordError(f"option {name!r} must contain objects with a string 'value', got {_shown(entry)}")
        values.append(value.strip().replace("/", " | ").lower())
    return tuple(values)


def _image(images: object) -> str:
    if not images:
        return ""
    if not isinstance(images, list) or not isinstance(images[0], str | None):
        raise _RecordError(f"'images' must be a list of addresses, got {_shown(images)}")
    return images[0] or ""


def _attributes(record: object) -> _AttributeRecord:
    if not isinstance(record, dict):
        raise _RecordError(f"expected an object with 'attributes', got {_shown(record)}")
    instruction = record.get("instruction")
    if not isinstance(instruction, str | None):
        raise _RecordError(f"'instruction' must be a string, got {_shown(instruction)}")
    asked = _words(record, "instruction_attributes") if record.get("instruction_attributes") is not None else ()
    attributes = _words(record, "attributes") if "attributes" in record else _AttributeRecord().attributes
    return _AttributeRecord(attributes, instruction, asked)


def _human(record: object) -> tuple[HumanInstruction, ...]:
    if not isinstance(record, list) or not all(isinstance(entry, dict) for entry in record):
        raise _RecordError(f"expected a list of objects with 'instruction', got {_shown(record)}")
    return tuple(
        HumanInstruction(
            _text(entry, "instruction"), _words(entry, "instruction_attributes"), _words(entry, "instruction_options")
        )
        for entry in record
    )

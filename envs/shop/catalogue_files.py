"""The original's files as products: the list of products, their attributes, and what people wrote about them.

Products are read as a stream; of the two other files the text of each record is kept until its product comes, and
forgotten then. The rules are the original's. Where its loader would stop with an exception of Python, this one names
the record and what is wrong with it, or leaves the record out.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

from turnwise.envs.shop.json_stream import BrokenRecord, CatalogueError, elements, members
from turnwise.envs.shop.product import HumanInstruction, Product

__all__ = ["CatalogueError", "CatalogueFiles", "CatalogueReader"]

_LONGEST_ID: Final = 10
_NO_PRICE: Final = ((100.0,), "$100.0")
_NO_NUMBER: Final = re.compile(r"[^\d.]")


@dataclass(frozen=True, slots=True)
class CatalogueFiles:
    """Where a catalogue comes from.

    Attributes:
        products: the original's items_shuffle*.json.
        attributes: its items_ins_v2*.json; None: no product has attributes or a sentence.
        human: its items_human_ins.json; None: nobody wrote anything.
        num_products: only so many records from the beginning; None: all.
    """

    products: Path
    attributes: Path | None = None
    human: Path | None = None
    num_products: int | None = None

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files that are there to be read."""
        return tuple(path for path in (self.products, self.attributes, self.human) if path is not None)


class _RecordError(Exception):
    """What is wrong with a record, in words."""


class CatalogueReader:
    """One pass over the files of a catalogue.

    Attributes:
        skipped: records that were left out because something is wrong with them; the original's own omissions (no id,
            a long id, a second time the same id) are not counted.
    """

    def __init__(self, files: CatalogueFiles, *, strict: bool = True) -> None:
        """Take the files, which are opened when products are asked for.

        Args:
            files: what to read.
            strict: the first record with something wrong raises; else such records are left out and counted.
        """
        self.files, self.strict, self.skipped = files, strict, 0

    def products(self) -> Iterator[Product]:
        """Yield the products in the order of the file.

        Raises:
            CatalogueError: a file is missing or is something else altogether, or (`strict`) a record is wrong.
        """
        self.skipped = 0
        known, said = self._texts(self.files.attributes), self._texts(self.files.human)
        seen: set[str] = set()
        for number, item in enumerate(islice(elements(self.files.products), self.files.num_products)):
            try:
                id = _id(item)
                if id == "nan" or len(id) > _LONGEST_ID or id.upper() in seen:
                    continue
                seen.add(id.upper())
                attributes, human = self._attributes(id, known.pop(id, None)), self._human(id, said.pop(id, None))
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
                self._skip(path, f"record {number}", _RecordError(member.what))
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
        raise _RecordError(item.what)
    if not isinstance(item, dict):
        raise _RecordError(f"wanted an object with the keys of a product; got {_shown(item)}")
    id = _text(item, "asin")
    if not id:
        raise _RecordError("'asin' is empty; wanted an id")
    return id


def _text(item: Mapping[str, Any], key: str) -> str:
    value = item.get(key)
    if isinstance(value, str):
        return value
    raise _RecordError(
        f"{key!r} is missing; wanted a str" if key not in item else f"{key!r} is a str; got {_shown(value)}"
    )


def _words(item: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = item.get(key)
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return tuple(value)
    raise _RecordError(f"{key!r} is a list of str; got {_shown(value)}")


def _product(item: Mapping[str, Any], known: _AttributeRecord, human: tuple[HumanInstruction, ...]) -> Product:
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
        attributes=known.attributes,
        image=_image(item.get("images")),
        instruction=known.instruction,
        instruction_attributes=known.asked,
        human=human,
    )


def _pricing(text: object) -> tuple[tuple[float, ...], str]:
    """Return dollars, one or the two ends of a range, and what pages show."""
    if not text:
        return _NO_PRICE
    if not isinstance(text, str):
        raise _RecordError(f"'pricing' is a str such as '$1.00 - $2.00', or empty; got {_shown(text)}")
    try:
        dollars = tuple(float(_NO_NUMBER.sub("", part)) for part in text.split("$")[1:])
    except ValueError:
        dollars = ()
    if not dollars or not all(map(math.isfinite, dollars)):
        raise _RecordError(f"'pricing' has one number behind every $, and at least one; got {_shown(text)}")
    return dollars[:2], " to ".join(f"${price}" for price in dollars[:2])


def _options(given: object) -> dict[str, tuple[str, ...]]:
    if not given:
        return {}
    if not isinstance(given, dict):
        raise _RecordError(f"'customization_options' is an object, or empty; got {_shown(given)}")
    return {name.lower(): _values(name, contents) for name, contents in given.items() if contents is not None}


def _values(name: str, contents: object) -> tuple[str, ...]:
    if not isinstance(contents, list):
        raise _RecordError(f"option {name!r} is a list or null; got {_shown(contents)}")
    values = []
    for one in contents:
        value = one.get("value") if isinstance(one, dict) else None
        if not isinstance(value, str):
            raise _RecordError(f"option {name!r} holds objects with a str as 'value'; got {_shown(one)}")
        values.append(value.strip().replace("/", " | ").lower())
    return tuple(values)


def _image(images: object) -> str:
    if not images:
        return ""
    if not isinstance(images, list) or not isinstance(images[0], str | None):
        raise _RecordError(f"'images' is a list of addresses; got {_shown(images)}")
    return images[0] or ""


def _attributes(record: object) -> _AttributeRecord:
    if not isinstance(record, dict):
        raise _RecordError(f"wanted an object with 'attributes'; got {_shown(record)}")
    instruction = record.get("instruction")
    if not isinstance(instruction, str | None):
        raise _RecordError(f"'instruction' is a str; got {_shown(instruction)}")
    asked = _words(record, "instruction_attributes") if record.get("instruction_attributes") is not None else ()
    attributes = _words(record, "attributes") if "attributes" in record else _AttributeRecord().attributes
    return _AttributeRecord(attributes, instruction, asked)


def _human(record: object) -> tuple[HumanInstruction, ...]:
    if not isinstance(record, list) or not all(isinstance(one, dict) for one in record):
        raise _RecordError(f"wanted a list of objects with 'instruction'; got {_shown(record)}")
    return tuple(
        HumanInstruction(
            _text(one, "instruction"), _words(one, "instruction_attributes"), _words(one, "instruction_options")
        )
        for one in record
    )

"""The vocabulary of generated shops: kinds of products, their features and options, brands, and sentences of goals.

The texts are data, in `departments/*.toml`:

    kinds, sentences     shared.toml alone: the order in which levels add kinds; the parts of a goal's sentence
    title, brands        of a department
    facets               name -> features that exclude each other: [form, name, line, other wordings ...]
    options              name -> { name, phrase, values } (see `ProductOption`)
    [[kinds]]            kinds of products (see `ProductKind`); a facet or an option is given in place or by its name

Rules that a test enforces: within a kind, no feature, brand or option value matches another one under the reward's
rules (words of one within the words of the other, names of colours inside words, near spellings), and a feature's line
contains that feature and no other.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final

__all__ = ["BRANDS", "KINDS", "SENTENCES", "TITLES", "Facet", "Feature", "ProductKind", "ProductOption"]


@dataclass(frozen=True, slots=True, eq=False)
class Feature:
    """Something that is true of a product.

    Attributes:
        name: the attribute in lower case, as the reward compares it.
        form: how it joins the noun: "is" (a leakproof mug), "of" (a steel mug: next to the noun), "with" (a mug with a
            handle), "for" (a cream for dry skin).
        line: its line in the list of features; contains the name.
        others: other wordings that a person might use, as words after the noun.
        article: what precedes it in a sentence: "a " or nothing.
    """

    name: str
    form: str
    line: str
    others: tuple[str, ...] = ()
    article: str = ""

    @classmethod
    def parse(cls, entry: list[str]) -> Feature:
        """Return the feature of a TOML entry [form, name, line, other wordings ...]; the name may begin with "a "."""
        form, name, line, *others = entry
        bare = name.removeprefix("a ")
        return cls(bare, form, line, tuple(others), name[: len(name) - len(bare)])


Facet = tuple[Feature, ...]
"""Features that exclude each other, so that a product has exactly one of them."""


@dataclass(frozen=True, slots=True, eq=False)
class ProductOption:
    """Something that a buyer chooses.

    Attributes:
        name: as pages show it.
        phrase: how a sentence asks for a value, as words after the noun.
        values: all values that products of the kind may offer, in the order in which pages show them.
    """

    name: str
    phrase: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ProductKind:
    """A kind of product.

    Attributes:
        department: department of the shop.
        noun: what it is, in lower case.
        aisle: where in the department.
        facets: each a choice of features; the most important first.
        options: what a buyer chooses.
        prices: lowest and highest, in dollars.
        about: sentences of the description, true of every product of the kind; {brand} is replaced by the brand.
        uses: what it is good for, as words after "for".
        others: other names of the kind.
        lead: what precedes the noun in a sentence: "a", "some", "a pair of".
        plural: the noun is a plural.
    """

    department: str
    noun: str
    aisle: str
    facets: tuple[Facet, ...]
    options: tuple[ProductOption, ...]
    prices: tuple[float, float]
    about: tuple[str, ...]
    uses: tuple[str, ...]
    others: tuple[str, ...] = ()
    lead: str = "a"
    plural: bool = False

    @property
    def query(self) -> str:
        """The search under which a shop lists the kind."""
        if self.plural or self.lead != "a":
            return self.noun
        return self.noun + ("es" if self.noun.endswith(("s", "sh", "ch", "x")) else "s")


@cache
def _tables() -> dict[str, dict[str, Any]]:
    """Return the TOML files by their names; shared.toml is "shared"."""
    folder = resources.files("turncredit.envs.shop.generator") / "departments"
    files = (file for file in folder.iterdir() if file.name.endswith(".toml"))
    return {file.name.removesuffix(".toml"): tomllib.loads(file.read_text(encoding="utf-8")) for file in files}


def _kinds() -> tuple[ProductKind, ...]:
    shared = _tables()["shared"]
    kinds = {}
    for department, table in _tables().items():
        if department == "shared":
            continue
        facets = {name: _facet(entry) for name, entry in (shared["facets"] | table.get("facets", {})).items()}
        options = {name: _option(entry) for name, entry in (shared["options"] | table.get("options", {})).items()}
        for entry in table["kinds"]:
            lists = {name: tuple(value) for name, value in entry.items() if isinstance(value, list)}
            lists["facets"] = tuple(facets[part] if isinstance(part, str) else _facet(part) for part in entry["facets"])
            lists["options"] = tuple(
                options[part] if isinstance(part, str) else _option(part) for part in entry["options"]
            )
            kinds[entry["noun"]] = ProductKind(**{"department": department, **entry, **lists})
    return tuple(kinds[noun] for noun in shared["kinds"])


def _facet(entries: list[list[str]]) -> Facet:
    return tuple(Feature.parse(entry) for entry in entries)


def _option(entry: dict[str, Any]) -> ProductOption:
    return ProductOption(entry["name"], entry["phrase"], tuple(entry["values"]))


def _departments(key: str) -> dict[str, Any]:
    return {department: table[key] for department, table in _tables().items() if department != "shared"}


KINDS: Final = _kinds()
"""All kinds, in the order in which levels add them: the simplest first, departments in turn."""

TITLES: Final[dict[str, str]] = _departments("title")
"""Titles of the departments."""

BRANDS: Final = {department: tuple(brands) for department, brands in _departments("brands").items()}
"""Invented brands by department."""

SENTENCES: Final[dict[str, list[str]]] = _tables()["shared"]["sentences"]
"""Parts of the sentences of goals (see `goal_text`)."""

"""What the vocabulary of the generator is made of: features, options, kinds of products.

A kind has facets, each a choice of features that exclude each other (of cotton, of linen), so that any product drawn
makes sense and a look-alike differs by taking another feature of one facet.

Rules that every vocabulary keeps, and a test holds: within a kind, no feature, brand or option value passes for another
under the rules by which the reward compares texts (see `reward.py`: words of one within the words of the other, colour
names inside of words, small differences in spelling); a feature's line holds the feature and no other one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["Facet", "Feature", "Kind", "Option", "fit", "has", "of", "quality"]


@dataclass(frozen=True, slots=True, eq=False)
class Feature:
    """One thing that is true of a product.

    Attributes:
        name: the attribute, in small letters, as the reward compares it.
        form: how it joins the noun: "is" (a leakproof mug), "of" (a steel mug: next to the noun), "with" (a mug with a
            handle), "for" (a cream for dry skin).
        line: what the list of features says; holds the name.
        others: how a person might say it, as words after the noun.
        article: what goes before it in a sentence: "a " or nothing.
    """

    name: str
    form: str
    line: str
    others: tuple[str, ...] = ()
    article: str = ""


Facet = tuple[Feature, ...]
"""Features that exclude each other."""


@dataclass(frozen=True, slots=True, eq=False)
class Option:
    """What a buyer chooses.

    Attributes:
        name: as pages show it.
        values: all values that products of the kind may offer, in the order in which pages show them.
        phrase: how a sentence asks for a value, as words after the noun.
    """

    name: str
    values: tuple[str, ...]
    phrase: str


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """A kind of product.

    Attributes:
        noun: what it is, in small letters.
        lead: what stands before the noun in a sentence: "a", "some", "a pair of".
        department: department of the shop.
        aisle: where in the department.
        facets: what there is to choose; the first ones matter most.
        options: what a buyer chooses.
        prices: cheapest and dearest, in dollars.
        about: sentences of the description, true of any product of the kind; {brand} stands for the brand.
        uses: what it is good for, as words after "for".
        others: other names of the kind.
        many: the noun is a plural.
    """

    noun: str
    lead: str
    department: str
    aisle: str
    facets: tuple[Facet, ...]
    options: tuple[Option, ...]
    prices: tuple[float, float]
    about: tuple[str, ...]
    uses: tuple[str, ...]
    others: tuple[str, ...] = ()
    many: bool = False

    @property
    def query(self) -> str:
        """The words under which a shop files the kind."""
        if self.many or self.lead != "a":
            return self.noun
        return self.noun + ("es" if self.noun.endswith(("s", "sh", "ch", "x")) else "s")


def quality(name: str, line: str, *others: str) -> Feature:
    """Return a feature that goes before the noun."""
    return Feature(name, "is", line, others)


def of(name: str, line: str, *others: str) -> Feature:
    """Return a feature that goes right before the noun: what the thing is made of, or its style."""
    return Feature(name, "of", line, others)


def has(name: str, line: str, *others: str) -> Feature:
    """Return a feature that goes after the noun and "with"; the name may begin with its article."""
    bare = name.removeprefix("a ")
    return Feature(bare, "with", line, others, name[: len(name) - len(bare)])


def fit(name: str, line: str, *others: str) -> Feature:
    """Return a feature that goes after the noun and "for"."""
    return Feature(name, "for", line, others)


BRANDS: Final[dict[str, tuple[str, ...]]] = {
    "beauty": (
        "Dewmarrow",
        "Velspring",
        "Pellorine",
        "Sistermoss",
        "Ambelle Row",
        "Quietglow",
        "Thistlebee",
        "Orriva",
        "Lushmere",
        "Wrenfolly",
    ),
    "electronics": (
        "Voltharbor",
        "Kestrix",
        "Omniquill",
        "Brightlatch",
        "Zephon Works",
        "Nimbotek",
        "Parallax Nine",
        "Hummrow",
        "Tesspark",
        "Yondawave",
    ),
    "garden": (
        "Fernhollow",
        "Oakenpot",
        "Larkspade",
        "Hearthnook",
        "Mossgate",
        "Bramblewick",
        "Tidywren",
        "Saltmeadow",
        "Copsefield",
        "Pantrybell",
    ),
    "fashion": (
        "Marrowby",
        "Stitchfield",
        "Northlake Loom",
        "Poplin Fox",
        "Wayfarrow",
        "Tolliver Street",
        "Kindrunner",
        "Juniperjay",
        "Elmsworth",
        "Harborhem",
    ),
    "grocery": (
        "Millerbee",
        "Sunnycrock",
        "Tumblegrain",
        "Farmspoon",
        "Hollowbarn",
        "Pepperquay",
        "Goodladle",
        "Orchardine",
        "Teawhistle",
        "Nutterby",
    ),
}
"""Invented names, by department. All products of a kind share the department's."""

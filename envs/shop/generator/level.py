"""The dials of the generator: how big a catalogue is, how hard its goals are. Their text is part of every task id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from turnwise.envs.errors import UnknownOption
from turnwise.envs.levels import BaseLevel, Dials
from turnwise.envs.shop.generator.kinds import KINDS

__all__ = ["PRESETS", "Level"]

_DIALS: Final = Dials(
    "the shop's generator",
    counts={
        "products": (2, 1_000_000),
        "kinds": (1, len(KINDS)),
        "distractors": (0, 12),
        "variety": (2, 99),
        "length": (0, 2),
        "id_length": (2, 10),
    },
    ranges={
        "attributes": (1, 9),
        "title": (0, 9),
        "options": (0, 9),
        "values": (2, 20),
        "ask_attributes": (1, 9),
        "ask_options": (0, 9),
        "slack": (0.0, 10.0),
    },
    shares=("hidden", "paraphrase", "chatter", "brands", "priced", "people"),
)


@dataclass(frozen=True, slots=True)
class Level(BaseLevel):
    """How big a generated catalogue is, and how hard the goals are that are made of it.

    products: how many, from 2 on.
    kinds: how many kinds of products (travel mugs, socks, ...).
    distractors: look-alikes of a product, which differ from it in one thing: attribute, option, price or brand.
    variety: most attributes that exclude each other (cotton, linen, ...), so that a product has one of them.
    attributes: least and most attributes of a product.
    title: least and most of them that its title tells.
    options: least and most options of a product (colour, size, ...).
    values: least and most values of an option.
    length: of texts: 0 a sentence, 1 a short paragraph, 2 a long one, with titles to match.
    id_length: characters of a product's id: short ids are cheap to read and write; 10 is the original's.
    hidden: probability that one attribute of a product stands on its features page only, where search does not look.
    ask_attributes, ask_options: least and most that a goal asks for, as far as the product has them; but always for
        what no look-alike has.
    priced: probability that a goal bounds the price even where no look-alike is dearer.
    slack: least and most by which a bound lies above the price, as a share of it, where no look-alike is dearer.
    brands: probability that a product has a look-alike of another brand, and that its goals name the brand.
    people: probability that a goal is worded as people do, and not as a form does.
    paraphrase: probability, then, that it says an attribute or the kind in other words than the shop.
    chatter: probability, then, that it says something beside the matter, such as whom it is for.
    """

    dials = _DIALS

    products: int = 1000
    kinds: int = 15
    distractors: int = 4
    variety: int = 4
    attributes: tuple[int, int] = (3, 3)
    title: tuple[int, int] = (1, 2)
    options: tuple[int, int] = (1, 2)
    values: tuple[int, int] = (3, 4)
    length: int = 1
    id_length: int = 10
    hidden: float = 0.3
    ask_attributes: tuple[int, int] = (1, 2)
    ask_options: tuple[int, int] = (1, 2)
    priced: float = 0.8
    slack: tuple[float, float] = (0.03, 0.3)
    brands: float = 0.1
    people: float = 0.6
    paraphrase: float = 0.3
    chatter: float = 0.2

    def __post_init__(self) -> None:
        """Check every dial."""
        _DIALS.check(self)
        if self.id_length < 10 and 10**self.id_length < self.products:  # half of the ids stay free
            raise UnknownOption(
                f"the dial id_length is {self.id_length}: too short for {self.products:,} products; 10 always works"
            )


PRESETS: dict[str, Level] = {
    "tiny": Level(
        products=192,
        kinds=6,
        distractors=3,
        variety=3,
        attributes=(2, 2),
        title=(2, 2),
        options=(1, 2),
        values=(2, 3),
        length=0,
        id_length=3,
        hidden=0.0,
        ask_attributes=(1, 2),
        ask_options=(1, 1),
        priced=0.5,
        slack=(0.05, 0.4),
        brands=0.0,
        people=0.0,
        paraphrase=0.0,
        chatter=0.0,
    ),
    "small": Level(),
    "medium": Level(
        products=3000,
        kinds=24,
        distractors=5,
        variety=99,
        attributes=(4, 4),
        title=(1, 3),
        options=(1, 3),
        values=(3, 6),
        ask_attributes=(2, 3),
        slack=(0.03, 0.25),
        brands=0.15,
        people=0.7,
        paraphrase=0.35,
        chatter=0.3,
    ),
    "large": Level(
        products=10000,
        kinds=len(KINDS),
        distractors=6,
        variety=99,
        attributes=(4, 5),
        title=(2, 4),
        options=(1, 3),
        values=(3, 8),
        length=2,
        ask_attributes=(3, 4),
        ask_options=(1, 3),
        priced=0.9,
        slack=(0.02, 0.2),
        brands=0.2,
        people=0.8,
        paraphrase=0.4,
        chatter=0.4,
    ),
}
"""Sizes by name. "tiny" is for models that learn to read on it."""

Level.presets = PRESETS

"""Levels of the generator: how large a catalogue and how hard its goals are. Task ids contain the level's text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from turncredit.envs.errors import UnknownOption
from turncredit.envs.levels import BaseLevel, LevelSettings
from turncredit.envs.shop.generator.vocabulary import KINDS

__all__ = ["PRESETS", "ShopLevel"]

_DIALS: Final = LevelSettings(
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
class ShopLevel(BaseLevel):
    """Size of a generated catalogue and difficulty of its goals. Pairs are a minimum and a maximum.

    products: number of products.
    kinds: number of kinds of products (travel mugs, socks, ...).
    distractors: look-alikes of a product, each different in one respect: attribute, option, price or brand.
    variety: largest number of attributes that exclude each other (cotton, linen, ...).
    attributes: attributes of a product.
    title: how many of them the title names.
    options: options of a product (colour, size, ...).
    values: values of an option.
    length: length of texts: 0 a sentence, 1 a short paragraph, 2 a long one.
    id_length: characters of a product id; short ids are cheap to read and write, 10 is WebShop's length.
    hidden: probability that one attribute appears on the features page only, which search does not read.
    ask_attributes, ask_options: attributes and options that a goal asks for, as far as the product has them. A goal
        always asks for what distinguishes the product from its look-alikes.
    priced: probability that a goal limits the price even if no look-alike costs more.
    slack: how far the limit then lies above the price, as a fraction of the price.
    brands: probability that a product has a look-alike of another brand, so that its goals name the brand.
    people: probability that a goal is worded in natural language rather than in a fixed form.
    paraphrase: probability that such a goal paraphrases an attribute or the kind.
    chatter: probability that such a goal contains an irrelevant remark.
    """

    settings = _DIALS

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
        """Check every value."""
        _DIALS.check(self)
        if self.id_length < 10 and 10**self.id_length < self.products:  # half of the ids stay free
            raise UnknownOption(
                f"id_length={self.id_length} is too short for {self.products:,} products; 10 is always enough"
            )


PRESETS: dict[str, ShopLevel] = {
    "tiny": ShopLevel(
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
    "small": ShopLevel(),
    "medium": ShopLevel(
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
    "large": ShopLevel(
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
"""Levels by name. "tiny" suits models that are trained from scratch."""

ShopLevel.presets = PRESETS

"""A product as pages, search and reward use it; without the reviews, ratings and sellers that WebShop never uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["HumanInstruction", "Product"]


@dataclass(frozen=True, slots=True)
class HumanInstruction:
    """A person's instruction to buy a product.

    Attributes:
        text: the instruction as written.
        attributes: attributes that it asks for; an instruction without any makes no goal.
        options: option values that it asks for.
    """

    text: str
    attributes: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Product:
    """One product.

    Attributes:
        asin: id in upper case.
        name: title as pages show it.
        description: full description.
        bullets: list of features.
        category: department ("beauty", "garden", ...).
        query: the search that found the product, in lower case; its kind.
        product_category: path of categories, separated by " › ".
        pricing: one price in dollars, or the bounds of a range from which the price is drawn.
        price_tag: the price as pages show it.
        options: values of each option in lower case, in the order of the pages.
        attributes: what the reward compares with a goal's attributes.
        image: address of the main image, or "".
        instruction: sentence of synthetic goals, or None.
        instruction_attributes: the attributes that the sentence asks for.
        human: human instructions.
    """

    asin: str
    name: str
    description: str = ""
    bullets: tuple[str, ...] = ()
    category: str = ""
    query: str = ""
    product_category: str = ""
    pricing: tuple[float, ...] = (100.0,)
    price_tag: str = "$100.0"
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    attributes: tuple[str, ...] = ("DUMMY_ATTR",)
    image: str = ""
    instruction: str | None = None
    instruction_attributes: tuple[str, ...] = ()
    human: tuple[HumanInstruction, ...] = ()

"""What a shop sells: a product as pages, search and reward read it.

Left out on purpose: what the original loads and never reads again (reviews, ratings, sellers).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["HumanInstruction", "Product"]


@dataclass(frozen=True, slots=True)
class HumanInstruction:
    """What a person wrote who was shown a product and asked to describe what to buy.

    Attributes:
        text: the instruction, as written.
        attributes: attributes of the product that it asks for; an instruction without any makes no goal.
        options: values of options that it asks for.
    """

    text: str
    attributes: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Product:
    """One product.

    Attributes:
        asin: id, in capitals.
        name: title, as pages show it.
        description: full description.
        bullets: the features, one a line.
        category: department ("beauty", "garden", ...).
        query: words of a search under which the product was found, in small letters; its kind.
        product_category: path of categories, divided by " › ".
        pricing: dollars: one price, or the two ends of a range from which the price is drawn; never empty.
        price_tag: the price as pages show it.
        options: values of each option, both in small letters, in the order in which pages show them.
        attributes: what the reward compares with a goal's attributes.
        image: address of the main image; "" for none.
        instruction: the sentence of which goals are made that ask for these options; None for none.
        instruction_attributes: the attributes that the sentence asks for.
        human: instructions that people wrote.
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

"""A small shop with awkward products, for tests of sessions and pages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from turncredit.envs.shop.catalogue import Catalogue
from turncredit.envs.shop.goal import Goal
from turncredit.envs.shop.product import Product
from turncredit.envs.shop.reward import RewardFunction
from turncredit.envs.shop.session import Shop, ShopSession

SHOE = Product(
    asin="B00000SHOE",
    name="Red Shoe",
    description="A shoe for running.",
    bullets=("Soft", "", "Light"),
    category="fashion",
    query="shoes",
    product_category="Clothing › Shoes",
    pricing=(20.0,),
    price_tag="$20.0",
    options={"color": ("red", "blue"), "size": ("8", "9")},
    attributes=("soft", "light"),
    instruction="Find me soft shoes",
    instruction_attributes=("soft",),
)
# Its option has values that read like buttons, brackets, letters beyond ASCII, and one that two options share.
ODD = Product(
    asin="B000000ODD",
    name="Odd Shoe <b>&amp;",
    description="",
    bullets=("a\nb", "\n", "  "),
    category="garden",
    query="odd things",
    product_category="Garden › Odd",
    pricing=(5.0, 9.0),
    price_tag="$5.0 to $9.0",
    options={"kind": ("x[y", "a]b", "é", 'q"q', "it's", "both", ""), "other": ("both", "description", "search")},
    attributes=("odd",),
)
MANY = tuple(
    Product(asin=f"B{number:09}", name=f"Plain Sock {number}", category="fashion", query="socks", price_tag="$100.0")
    for number in range(30)
)
PRODUCTS = (SHOE, ODD, *MANY)
GOAL = Goal(
    asin=SHOE.asin,
    category=SHOE.category,
    query=SHOE.query,
    name=SHOE.name,
    product_category=SHOE.product_category,
    instruction="Find me soft shoes with color: red, and size: 9, and price lower than 30.00 dollars",
    attributes=("soft",),
    price_upper=30.0,
    options={"color": "red", "size": "9"},
)
PRICES = {product.asin: product.pricing[0] for product in PRODUCTS}


def goal_of(product: Product, **changes: Any) -> Goal:
    """A goal that asks for a product with all its attributes; `changes` are fields of the goal."""
    kind = (product.asin, product.category, product.query, product.name, product.product_category)
    return replace(Goal(*kind, f"Find me {product.name}", product.attributes, 50.0, {}), **changes)


@cache
def real_catalogue(data_dir: Path) -> Catalogue:
    """WebShop's thousand products."""
    names = ("items_shuffle_1000.reconstructed.json", "items_ins_v2_1000.json", "items_human_ins.subset_1000.json")
    return Catalogue.open(*(data_dir / "webshop" / name for name in names), cache=False)


def shop(**options: Any) -> Shop:
    """The shop."""
    return Shop(Catalogue(PRODUCTS), PRICES, RewardFunction(tagger="own"), **options)


def session(*actions: str, name: str = "7", goal: Goal = GOAL, **options: Any) -> ShopSession:
    """A session after some valid actions."""
    customer = ShopSession(shop(**options), goal, name)
    for action in actions:
        assert customer.act(action), (action, customer.clickables())
    return customer


def files(folder: Path) -> dict[str, Path]:
    """The products as files in WebShop's format, with one goal for each combination of options."""
    items, attributes, human = [], {}, {}
    for product in PRODUCTS:
        items.append(
            {
                "asin": product.asin,
                "name": product.name,
                "full_description": product.description,
                "pricing": " - ".join(f"${price:.2f}" for price in product.pricing),
                "images": [""],
                "product_category": product.product_category,
                "small_description": list(product.bullets),
                "customization_options": {
                    name: [{"value": value} for value in values] for name, values in product.options.items()
                }
                or "",
                "category": product.category,
                "query": product.query,
            }
        )
        attributes[product.asin] = {"attributes": list(product.attributes)}
    attributes[SHOE.asin] |= {"instruction": SHOE.instruction, "instruction_attributes": ["soft"]}
    human[SHOE.asin] = [
        {
            "asin": SHOE.asin,
            "instruction": "i want soft red shoes.",
            "instruction_attributes": ["soft"],
            "instruction_options": ["red"],
        }
    ]
    written: Mapping[str, Any] = {"products": items, "attributes": attributes, "human": human}
    paths = {name: folder / f"{name}.json" for name in written}
    for name, path in paths.items():
        path.write_text(json.dumps(written[name]), encoding="utf-8")
    return paths

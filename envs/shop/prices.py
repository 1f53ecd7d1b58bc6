"""Prices of products, drawn from their price ranges.

One generator draws in the order of the catalogue, so a seed gives the prices that WebShop draws if its generator is
seeded before it loads the products.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

from turncredit.envs.shop.catalogue import Catalogue
from turncredit.envs.shop.product import Product

__all__ = ["draw_prices"]


def draw_prices(products: Iterable[Product], rng: random.Random) -> dict[str, float]:
    """Return the prices in dollars by product id.

    A product with one price uses no draw. A range [a, b] gives a + (b - a) u, with u the next number of `rng` in
    [0, 1).

    Args:
        products: products in the order of the catalogue.
        rng: random generator, which draws the price limits of the goals afterwards (`make_goals`).

    Source: WebShop (Yao et al. 2022, arXiv:2207.01206), its engine.
    """
    if isinstance(products, Catalogue):
        ranges = products.pricings()
    else:
        ranges = ((product.asin, product.pricing) for product in products)
    return {asin: dollars[0] if len(dollars) == 1 else rng.uniform(dollars[0], dollars[1]) for asin, dollars in ranges}

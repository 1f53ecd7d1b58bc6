"""What products cost: a price drawn from the range of each that has one.

The draws come in the order of the catalogue and from one generator, so that a seed gives the prices that the original
would draw had its generator been seeded so before it loaded.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

from turnwise.envs.shop.catalogue import Catalogue
from turnwise.envs.shop.product import Product

__all__ = ["draw_prices"]


def draw_prices(products: Iterable[Product], rng: random.Random) -> dict[str, float]:
    """Return what each product costs: dollars by id.

    A product with one price costs that, and nothing is drawn; one with a range costs a + (b - a) u, with u the next
    number of `rng` in [0, 1).

    Args:
        products: in the order of the catalogue.
        rng: where ranges are drawn; it goes on to draw the price bounds of the goals (`make_goals`).

    Source: WebShop (Yao et al. 2022, arXiv:2207.01206), its engine.
    """
    if isinstance(products, Catalogue):
        ranges = products.pricings()
    else:
        ranges = ((product.asin, product.pricing) for product in products)
    return {asin: dollars[0] if len(dollars) == 1 else rng.uniform(dollars[0], dollars[1]) for asin, dollars in ranges}

"""The catalogue of the store in the browser: where it comes from, and a small one of the phone's own.

A phone takes another through `Phone(..., catalogue=source)`: a function from the seed of the phone to its products.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from turncredit.phone.toolkit.store import StoreCatalogue
from turncredit.tools.keyed_random import KeyedRandom

__all__ = ["CatalogueSource", "small_catalogue"]


CatalogueSource = Callable[[int | str], StoreCatalogue]
"""From the seed of a phone to the products of its store; a function of a module, so that phones can be pickled."""


class Goods(NamedTuple):
    """A product of the phone's own catalogue."""

    asin: str
    name: str
    description: str
    bullets: tuple[str, ...]
    category: str
    product_category: str
    pricing: tuple[float, ...]
    options: Mapping[str, tuple[str, ...]]


class SmallCatalogue:
    """The phone's own catalogue."""

    def __init__(self, products: tuple[Goods, ...]) -> None:
        """Take the products in their order."""
        self._products = products

    def __len__(self) -> int:
        """Return the number of products."""
        return len(self._products)

    def __iter__(self) -> Iterator[Goods]:
        """Yield the products in order."""
        return iter(self._products)

    def get(self, asin: str) -> Goods | None:
        """Return the product with an id, or None."""
        return next((product for product in self._products if product.asin == asin), None)

    def search(self, query: str, k: int) -> list[tuple[str, float]]:
        """Return the products whose text has the most of the words, as pairs of id and number of words."""
        words = set(query.casefold().split())
        texts = [(p.asin, f"{p.name} {p.product_category} {p.description}".casefold().split()) for p in self._products]
        scores = [(asin, float(len(words.intersection(text)))) for asin, text in texts]
        return sorted(((asin, score) for asin, score in scores if score), key=lambda pair: -pair[1])[:k]


_SIZES: Final = {"size": ("s", "m", "l", "xl")}
_COLOURS: Final = {"color": ("black", "blue", "green", "red")}
_PACKS: Final = {"pack": ("1", "3", "6")}
# Department -> kind -> lowest price in dollars, options.
_KINDS: Final[Mapping[str, Mapping[str, tuple[int, Mapping[str, tuple[str, ...]]]]]] = {
    "clothes": {
        "Raincoat": (39, {**_COLOURS, **_SIZES}),
        "Wool Sweater": (45, {**_COLOURS, **_SIZES}),
        "Linen Shirt": (24, _SIZES),
        "Hiking Socks": (7, _PACKS),
    },
    "food": {"Apple Juice": (3, _PACKS), "Oat Biscuits": (2, _PACKS), "Mint Tea": (4, {}), "Plum Jam": (3, {})},
    "electronics": {
        "Desk Lamp": (22, _COLOURS),
        "Headphones": (35, _COLOURS),
        "Charging Cable": (6, {"length": ("1 m", "2 m", "3 m")}),
        "Alarm Clock": (14, {}),
    },
    "garden": {
        "Watering Can": (11, _COLOURS),
        "Garden Gloves": (5, _SIZES),
        "Flower Pot": (4, {"diameter": ("12 cm", "18 cm", "24 cm")}),
        "Bird Feeder": (16, {}),
    },
}
_MAKERS: Final = ("Alderbrook", "Finch & Daughter", "Harrow", "Lumen", "North Pier", "Oakley Mills", "Tern", "Wexley")
_FEATURES: Final = ("Made to be repaired", "Two years of guarantee", "Sent without plastic", "Tested by neighbours")


@lru_cache(maxsize=8)
def small_catalogue(seed: int | str) -> SmallCatalogue:
    """Return the products of a phone to which no other catalogue is handed: three makers of each kind."""
    random = KeyedRandom(f"{seed}/web/shop")
    products: list[Goods] = []
    for department, kinds in _KINDS.items():
        for kind, (least, options) in kinds.items():
            for maker in random.shuffled(_MAKERS)[:3]:
                price = random.between(least, 2 * least) + random.pick((0.0, 0.5, 0.75, 0.99))
                features = tuple(random.shuffled(_FEATURES)[:2])
                about = f"{kind} by {maker}, for people who buy a thing once."
                path, asin = f"{department.capitalize()} › {kind}", f"CS{len(products) + 1:04}"
                name = f"{maker} {kind}"
                products.append(Goods(asin, name, about, features, department, path, (price,), options))
    return SmallCatalogue(tuple(products))

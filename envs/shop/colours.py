"""Names of colours that replace an option's value before it is compared.

Names and order are WebShop's because both affect rewards: the first name that occurs anywhere in a value replaces it
("lightning" becomes "light", "embroidered" becomes "red").
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

__all__ = ["COLOURS", "colour_of"]

_NAMES: Final = """
    alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown burgundy camel camo
    caramel champagne charcoal cheetah chestnut chocolate christmas coffee cognac copper coral cranberry cream crystal
    dark denim eggplant elephant espresso fuchsia gold granite grape graphite grass gray green grey heather indigo ivory
    ivy khaki lavender lemon leopard light lilac lime magenta maroon mauve merlot midnight mint mocha multicolor
    mushroom mustard natural navy nude olive orange peach pewter pink plum purple rainbow red rose royal rust sand
    sapphire seashell silver skull slate steel stone stonewash sunflower tan taupe teal tiger turquoise violet walnut
    wheat white wine yellow
"""
COLOURS: Final = tuple(_NAMES.split())
"""All names in the order of the search."""


@lru_cache(maxsize=1 << 16)
def colour_of(value: str) -> str:
    """Return the first of `COLOURS` that the value contains, or the value itself.

    >>> colour_of("r.brown2060")
    'brown'
    >>> colour_of("xx-large")
    'xx-large'
    """
    return next((colour for colour in COLOURS if colour in value), value)

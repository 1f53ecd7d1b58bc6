"""The names of colours that an option's value is shortened to before it is compared.

The names and their order are the original's, because both decide rewards: the first name in this order that is
contained in a value replaces it, anywhere in the value ("lightning" becomes "light", "embroidered" becomes "red").
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
"""All names, in the order in which they are looked for."""


@lru_cache(maxsize=1 << 16)
def colour_of(value: str) -> str:
    """Return the first of `COLOURS` that is contained in the value, or the value itself when none is.

    >>> colour_of("r.brown2060")
    'brown'
    >>> colour_of("xx-large")
    'xx-large'
    """
    return next((colour for colour in COLOURS if colour in value), value)

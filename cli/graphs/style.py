"""Colours, line styles and fonts of the diagram.

Blue and orange are told apart by every kind of colour vision.
"""

from __future__ import annotations

import math
from html import escape

_BLUE, _GREY, _ORANGE = (33, 102, 172), (150, 150, 150), (217, 95, 2)
WON_INK, LOST_INK = "#2166ac", "#b04a00"
LINE = {"shared": "", "detour": "2 4", "decisive": "", "winning": "", "dead end": "8 5"}
"""Dashes of a step's line by kind."""
FILL = {"won": ("#e3eef8", "#2166ac"), "open": ("#ffffff", "#555555"), "lost": ("#f1efec", "#a08a70")}
"""Inside and border of a node by fate."""
DIAMOND = "l8 -8l8 8l-8 8z"
DIAMOND_EDGE = 'stroke="#111" stroke-width="1.5"'
CHARACTER = 5.9
"""Width of a letter of the labels in pixels, taken generously: a viewer's font is not known."""
STYLE = (
    "text{font-family:Helvetica,Arial,'DejaVu Sans',sans-serif;fill:#222}"
    ".edge{fill:none}.label{font-size:10.5px}.gist{font-size:11px}.small{font-size:9.5px;fill:#555}"
    ".mark{font-size:11px;text-anchor:middle;fill:#fff}.title{font-size:17px;font-weight:bold}.under{font-size:12px}"
)


def colour(worth: float, extent: float) -> str:
    """Return the colour of an advantage as `#rrggbb`: orange below zero, grey at it, blue above.

    Args:
        worth: the advantage.
        extent: the advantage at which the colour is full, above 0; at 0 everything is grey.
    """
    share = max(-1.0, min(1.0, worth / extent)) if extent > 0 else 0.0
    end = _BLUE if share > 0 else _ORANGE
    strength = abs(share) ** 0.6  # small advantages must not all look like none
    mixed = (round(grey + (full - grey) * strength) for grey, full in zip(_GREY, end, strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed)


def thickness(count: int) -> float:
    """Return the width of a step's line in pixels: it grows with the root of how often the step was taken."""
    return min(1.0 + 1.5 * math.sqrt(count), 10.0)


def text(words: str) -> str:
    """Return a text as XML content; what cannot be printed becomes "?"."""
    return escape("".join(c if c == "\n" or c.isprintable() else "?" for c in words))


def signed(worth: float) -> str:
    """Return an advantage with its sign and three decimals; what rounds to zero has no sign."""
    return "0.000" if abs(worth) < 5e-4 else f"{worth:+.3f}"

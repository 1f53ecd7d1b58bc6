"""Colours, line styles and fonts of the diagram.

Blue and orange are distinguishable with any colour vision.
"""

from __future__ import annotations

import math
from html import escape

_BLUE, _GREY, _ORANGE = (33, 102, 172), (150, 150, 150), (217, 95, 2)
WON_INK, LOST_INK = "#2166ac", "#b04a00"
LINE = {"shared": "", "detour": "2 4", "decisive": "", "winning": "", "dead end": "8 5"}
"""Dash pattern of an edge, by kind."""
FILL = {"won": ("#e3eef8", "#2166ac"), "open": ("#ffffff", "#555555"), "lost": ("#f1efec", "#a08a70")}
"""Fill and border of a node, by fate."""
DIAMOND = "l8 -8l8 8l-8 8z"
DIAMOND_EDGE = 'stroke="#111" stroke-width="1.5"'
CHARACTER = 5.9
"""Width of a label's character in pixels; generous, since the viewer's font is unknown."""
STYLE = (
    "text{font-family:Helvetica,Arial,'DejaVu Sans',sans-serif;fill:#222}"
    ".edge{fill:none}.label{font-size:10.5px}.name{font-size:11px}.small{font-size:9.5px;fill:#555}"
    ".mark{font-size:11px;text-anchor:middle;fill:#fff}.title{font-size:17px;font-weight:bold}.under{font-size:12px}"
)


def colour(advantage: float, extent: float) -> str:
    """Return the colour of an advantage as `#rrggbb`: orange below zero, grey at it, blue above.

    Args:
        advantage: the advantage.
        extent: the advantage at which the colour is full, above 0; at 0 everything is grey.
    """
    share = max(-1.0, min(1.0, advantage / extent)) if extent > 0 else 0.0
    end = _BLUE if share > 0 else _ORANGE
    strength = abs(share) ** 0.6  # keeps small advantages visible
    mixed = (round(grey + (full - grey) * strength) for grey, full in zip(_GREY, end, strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed)


def thickness(count: int) -> float:
    """Return the width of an edge in pixels, which grows with the square root of its count."""
    return min(1.0 + 1.5 * math.sqrt(count), 10.0)


def text(words: str) -> str:
    """Return a text as XML content; unprintable characters become "?"."""
    return escape("".join(c if c == "\n" or c.isprintable() else "?" for c in words))


def signed(advantage: float) -> str:
    """Return an advantage with its sign and three decimals; a value that rounds to zero has no sign."""
    return "0.000" if abs(advantage) < 5e-4 else f"{advantage:+.3f}"

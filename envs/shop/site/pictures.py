"""Drawn pictures of products: SVG without text, always the same for the same product.

The words of the product's kind select the drawing (`drawings.toml`). The picture has one of the colours in which the
product is offered, or else one that follows from its id. Colours are attributes because the site allows no inline
style. Not included: photographs. Addresses in product files are never fetched.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from functools import cache, lru_cache
from importlib import resources
from typing import Any, Final

from turncredit.envs.shop.product import Product

__all__ = ["glyph_of", "picture", "tint"]

_OF_CATEGORY: Final = {
    "fashion": "shirt",
    "beauty": "bottle",
    "electronics": "plug",
    "garden": "plant",
    "grocery": "pouch",
}

_TINTS: Final = {
    "beige": "#e6d8bd", "black": "#22211f", "blue": "#2f66c9", "brown": "#7a4f32", "burgundy": "#6e1b2e",
    "camel": "#c19a6b", "charcoal": "#45484d", "copper": "#b5683c", "coral": "#f47e68", "cream": "#f6eedb",
    "cyan": "#2cb5c9", "espresso": "#4a332a", "gold": "#cfa43a", "golden": "#cfa43a", "gray": "#8d9196",
    "green": "#3a8a4d", "grey": "#8d9196", "ivory": "#f4efdf", "khaki": "#b9a772", "lavender": "#b9a5dc",
    "lilac": "#c3a6d8", "lime": "#a4cf3e", "maroon": "#7b2430", "mint": "#a3dcc1", "mustard": "#d4a52a",
    "navy": "#22335f", "olive": "#77793a", "orange": "#ee8630", "peach": "#f8c3a2", "pink": "#ef8fb0",
    "plum": "#75406f", "purple": "#7c4bb0", "red": "#cc3430", "rose": "#dd7f92", "rust": "#ad4f2b",
    "sage": "#9caf88", "sand": "#d9c6a0", "silver": "#c3c7cb", "slate": "#5d6b7a", "tan": "#d0ad84",
    "teal": "#1f8a86", "terracotta": "#c46a4a", "turquoise": "#35bdb2", "violet": "#8a5ad0", "walnut": "#6a4a35",
    "white": "#fdfdfb", "wine": "#6b2136", "yellow": "#f3cf3f",
}  # fmt: skip


def tint(value: str) -> str:
    """Return the colour that an option's value names as "#rrggbb", or "" if it names none or several.

    >>> tint("light blue"), tint("xx-large")
    ('#2f66c9', '')
    """
    named = [_TINTS[word] for word in re.findall(r"[a-z]+", value[:100].lower()) if word in _TINTS]
    return named[0] if len(named) == 1 else ""


def glyph_of(product: Product) -> str:
    """Return the name of a product's drawing, by its kind, category path, name or department."""
    last = product.product_category.rpartition("›")[2]
    for text in (product.query, last, product.name):
        for glyph, rule in _rules():
            if rule.search(text[:500]):
                return glyph
    return _OF_CATEGORY.get(product.category, "box")


def picture(product: Product, colour: str = "") -> str:
    """Return the picture of a product as an SVG document of 240 by 180 units, without text nodes.

    Args:
        product: what is drawn.
        colour: "#rrggbb"; "" for a colour that the product is offered in.
    """
    return _drawn(glyph_of(product), product.asin, colour or _offered_colour(product))


def _offered_colour(product: Product) -> str:
    """Return one of the colours that the product's options name, always the same one; "" if they name none."""
    colours = [colour for values in product.options.values() for value in values if (colour := tint(value))]
    return colours[_digest(product.asin)[5] % len(colours)] if colours else ""


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()


@cache
def _drawings() -> dict[str, dict[str, Any]]:
    return tomllib.loads((resources.files(__package__) / "drawings.toml").read_text(encoding="utf-8"))


@cache
def _rules() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple(
        (name, re.compile(rf"\b(?:{'|'.join(drawing['words'])})\b", re.IGNORECASE))
        for name, drawing in _drawings().items()
        if "words" in drawing
    )


@lru_cache(maxsize=4096)
def _drawn(glyph: str, key: str, colour: str) -> str:
    digest = _digest(key)
    hue = digest[0] * 360 // 256
    tilt = 0 if _drawings()[glyph].get("upright") else digest[1] % 13 - 6
    size = 0.88 + digest[2] % 5 * 0.03
    x, y, radius = 30 + digest[3] % 180, 20 + digest[4] % 60, 46 + digest[5] % 40
    paint = _shades(colour) if colour else _own(hue)
    elements = _drawings()[glyph]["elements"].replace("\n", "")
    drawing = re.sub(r'class="([abcl])"', lambda match: paint[match[1]], elements)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 240 180" width="240" height="180">'
        f'<rect width="240" height="180" fill="hsl({(hue + 40) % 360},42%,93%)"/>'
        f'<circle cx="{x}" cy="{y}" r="{radius}" fill="hsl({(hue + 70) % 360},48%,88%)"/>'
        f'<ellipse cx="120" cy="158" rx="74" ry="8" fill="hsl({hue},24%,80%)"/>'
        f'<g transform="translate(120 94) rotate({tilt}) scale({size:.2f}) translate(-120 -94)">{drawing}</g></svg>'
    )


def _own(hue: int) -> dict[str, str]:
    return _paint(
        f"hsl({hue},46%,52%)", f"hsl({hue},48%,38%)", f"hsl({(hue + 28) % 360},62%,84%)", f"hsl({hue},46%,27%)"
    )


def _shades(colour: str) -> dict[str, str]:
    """Return the paint of a colour: its shade, its light, and a line that is visible on it."""
    dark = sum(int(colour[index : index + 2], 16) for index in (1, 3, 5)) < 200
    return _paint(colour, _mixed(colour, 255 * dark, 0.25), _mixed(colour, 255, 0.6), _mixed(colour, 255 * dark, 0.5))


def _mixed(colour: str, other: int, share: float) -> str:
    parts = (int(colour[index : index + 2], 16) for index in (1, 3, 5))
    return "#" + "".join(f"{round(part + (other - part) * share):02x}" for part in parts)


def _paint(body: str, shade: str, light: str, line: str) -> dict[str, str]:
    stroke = f'fill="none" stroke="{line}" stroke-width="4" stroke-linecap="round" stroke-linejoin="round"'
    return {"a": f'fill="{body}"', "b": f'fill="{shade}"', "c": f'fill="{light}"', "l": stroke}

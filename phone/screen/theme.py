"""Colours by role, light and dark, around the accent of an app."""

from __future__ import annotations

from colorsys import hls_to_rgb, rgb_to_hls
from functools import lru_cache
from typing import Final
from zlib import crc32

__all__ = ["AVATARS", "avatar_colour", "palette", "rgb"]

Colour = tuple[int, int, int]

_LIGHT: Final = {
    "background": "#fdfbff",
    "surface": "#f3f3fa",
    "card": "#f0f1f8",
    "field": "#e9eaf2",
    "text": "#1b1b1f",
    "muted": "#5a5c66",
    "trailing": "#5a5c66",
    "faint": "#b9bac4",
    "outline": "#c5c6d0",
    "line": "#e2e2ea",
    "error": "#b3261e",
    "on_error": "#ffffff",
    "inverse": "#303034",
    "on_inverse": "#f2f0f4",
    "panel": "#f4f3fb",
    "keyboard": "#e4e6ee",
    "key": "#ffffff",
    "shadow": "#d5d6e0",
    "shade": "#eef0f8",
}
_DARK: Final = {
    "background": "#121316",
    "surface": "#1d1e23",
    "card": "#202127",
    "field": "#2a2c33",
    "text": "#e6e4ea",
    "muted": "#b0b2bd",
    "trailing": "#b0b2bd",
    "faint": "#5b5d66",
    "outline": "#45474f",
    "line": "#2c2d33",
    "error": "#f2b8b5",
    "on_error": "#601410",
    "inverse": "#e6e4ea",
    "on_inverse": "#2c2d33",
    "panel": "#26272d",
    "keyboard": "#1a1b1f",
    "key": "#3a3c44",
    "shadow": "#08080a",
    "shade": "#16171b",
}
_MAP_LIGHT: Final = {
    "map_land": "#f4f1ea",
    "map_meadow": "#e6efd6",
    "map_field": "#efead2",
    "map_building": "#e0dace",
    "map_water": "#a6d0ea",
    "map_park": "#c8e4b4",
    "map_tree": "#b2d69c",
    "map_market": "#f6e3c6",
    "map_road": "#ffffff",
    "map_main": "#fbdf94",
    "map_path": "#f3ead2",
    "map_edge": "#d8d2c4",
    "map_rail": "#a9a59e",
    "map_label": "#5f5c55",
    "map_halo": "#ffffff",
    "map_route": "#2f6fe4",
    "map_route_edge": "#1a4aa8",
}
_MAP_DARK: Final = {
    "map_land": "#25282e",
    "map_meadow": "#222b27",
    "map_field": "#2a2c26",
    "map_building": "#343942",
    "map_water": "#1d3f59",
    "map_park": "#2a4433",
    "map_tree": "#325240",
    "map_market": "#453d30",
    "map_road": "#4a505a",
    "map_main": "#75653a",
    "map_path": "#4c4a40",
    "map_edge": "#1b1d22",
    "map_rail": "#686b72",
    "map_label": "#cfd1d7",
    "map_halo": "#1f2227",
    "map_route": "#7fb0ff",
    "map_route_edge": "#2b4f8f",
}
_WALLPAPER: Final = {"wallpaper": "#31507d", "wallpaper_low": "#b98d96", "on_wallpaper": "#ffffff"}

AVATARS: Final = ("#5b7fd9", "#3f9b8b", "#c76b58", "#8d6fc4", "#c08a2e", "#5f9a4f", "#b8628f", "#4d94b8")
"""Colours of the discs that stand for people."""


def rgb(colour: str) -> Colour:
    """Return '#rrggbb' as three numbers."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def avatar_colour(name: str) -> str:
    """Return the colour of a name, the same everywhere."""
    return AVATARS[crc32(name.encode("utf-8", "surrogatepass")) % len(AVATARS)]


def _tone(colour: str, lightness: float, saturation: float) -> str:
    hue, _, _ = rgb_to_hls(*(part / 255 for part in rgb(colour)))
    red, green, blue = hls_to_rgb(hue, lightness, saturation)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"


@lru_cache(maxsize=256)
def palette(accent: str, dark: bool) -> dict[str, Colour]:
    """Return the colours of an app by role, as RGB.

    Args:
        accent: the app's colour.
        dark: the dark theme.
    """
    _, _, strength = rgb_to_hls(*(part / 255 for part in rgb(accent)))
    vivid = min(0.6, 0.15 + strength * 0.5)
    roles = {
        **(_DARK if dark else _LIGHT),
        **_WALLPAPER,
        **(_MAP_DARK if dark else _MAP_LIGHT),
        "primary": _tone(accent, 0.78 if dark else 0.40, vivid),
        "on_primary": _tone(accent, 0.16, vivid) if dark else "#ffffff",
        "container": _tone(accent, 0.28 if dark else 0.88, vivid * 0.8),
        "on_container": _tone(accent, 0.90 if dark else 0.18, vivid),
    }
    return {role: rgb(colour) for role, colour in roles.items()}

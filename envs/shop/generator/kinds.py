"""All kinds of products, in the order in which levels take them: the plainest first, departments by turns."""

from __future__ import annotations

from typing import Final

from turnwise.envs.shop.generator import beauty, electronics, fashion, garden, grocery
from turnwise.envs.shop.generator.words import Kind

__all__ = ["KINDS"]

KINDS: Final[tuple[Kind, ...]] = (
    garden.TRAVEL_MUG,
    fashion.SOCKS,
    grocery.GREEN_TEA,
    electronics.DESK_LAMP,
    beauty.BAR_SOAP,
    fashion.BACKPACK,
    garden.PLANT_POT,
    grocery.GRANOLA,
    electronics.SPEAKER,
    beauty.SHAMPOO,
    fashion.T_SHIRT,
    garden.BLANKET,
    grocery.COFFEE,
    electronics.EARBUDS,
    beauty.HAND_CREAM,
    fashion.SCARF,
    garden.APRON,
    grocery.CHOCOLATE,
    electronics.POWER_BANK,
    beauty.LIP_BALM,
    fashion.RAIN_JACKET,
    garden.BIRD_FEEDER,
    grocery.TRAIL_MIX,
    electronics.KEYBOARD,
    beauty.CLAY_MASK,
    fashion.CANVAS_SHOES,
    garden.DOORMAT,
    grocery.PASTA_SAUCE,
    electronics.PHONE_CASE,
    beauty.HAIR_BRUSH,
)

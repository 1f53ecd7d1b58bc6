"""Features and options that several kinds of products share.

Names of options and colours are spelled as in the original ("color", "flavor"), so that what is learnt here reads the
same there.
"""

from __future__ import annotations

from typing import Final

from turnwise.envs.shop.generator.words import Facet, Option, has, of, quality

__all__ = [
    "CARE",
    "COLOR",
    "CONTENT",
    "DIET",
    "FABRIC",
    "FAIRNESS",
    "HOUSEHOLD_COLOR",
    "ORIGIN",
    "PACK",
    "POWER",
    "SCENT",
    "SIZE",
    "WATER",
    "WRAPPING",
]

FABRIC: Final[Facet] = (
    of("cotton", "Made of soft cotton that gets better with every wash.", "made of a soft plant fiber"),
    of("linen", "Linen cloth with a crisp, dry hand.", "made of flax"),
    of("wool", "Warm wool from grazing flocks.", "knitted from sheep's fleece"),
    of("polyester", "Hard wearing polyester that keeps its shape.", "in a synthetic fabric"),
    of("hemp", "Sturdy hemp that needs little water to grow.", "in a sturdy eco fabric"),
)
CARE: Final[Facet] = (
    quality("machine washable", "Machine washable at low heat.", "that can go in the washing machine"),
    quality("hand wash", "Hand wash only, to keep it at its best.", "to be washed in the sink"),
    quality("wrinkle resistant", "Wrinkle resistant, so no iron is needed.", "that will not crease"),
    quality("stain repellent", "Stain repellent finish: spills bead up and roll off.", "that will shrug off spills"),
)
FAIRNESS: Final[Facet] = (
    quality("vegan", "Vegan: nothing in it comes from animals.", "without anything from animals"),
    quality("cruelty free", "Cruelty free, never tried on animals.", "that was not tested on animals"),
    quality("dermatologist approved", "Dermatologist approved and gentle.", "that skin doctors recommend"),
    quality("hypoallergenic", "Hypoallergenic recipe with few ingredients.", "that will not set off allergies"),
)
WRAPPING: Final[Facet] = (
    quality("refillable", "Refillable: keep the pack, buy only what goes in it.", "that i can fill up again"),
    quality("plastic free", "Plastic free packaging of paper and tin.", "packed in paper or tin"),
    quality("travel friendly", "Travel friendly pack that fits any wash bag.", "that i can take on a plane"),
)
CONTENT: Final[Facet] = (
    has("shea butter", "Shea butter for a rich feel.", "made from the nuts of the shea tree"),
    has("aloe vera", "Aloe vera to calm and cool.", "made with a cooling desert plant"),
    has("coconut oil", "Coconut oil for softness.", "made with oil pressed from coconuts"),
    has("oat milk", "Oat milk to comfort and smooth.", "based on oats"),
    has("honey", "Honey from meadow hives.", "made with what bees make"),
)
DIET: Final[Facet] = (
    quality("gluten free", "Gluten free, checked batch by batch.", "that is safe with celiac disease"),
    quality("sugar free", "Sugar free: sweet only by nature.", "without anything sweet added"),
    quality("low sodium", "Low sodium, so taste comes from the ingredients.", "with hardly any salt"),
    quality("high protein", "High protein to keep you going.", "that fills me up after sport"),
    quality("dairy free", "Dairy free, and just as rich.", "without any milk"),
)
ORIGIN: Final[Facet] = (
    quality("organic", "Organic farming, inspected every year.", "grown without chemicals"),
    quality("fair trade", "Fair trade: growers set the price.", "where farmers are paid properly"),
    quality("locally sourced", "Locally sourced, from fields close by.", "from farms nearby"),
    quality("small batch", "Small batch, made by few hands.", "made in tiny amounts"),
)
POWER: Final[Facet] = (
    has("usb c charging", "USB C charging with any common cable.", "that i can plug into my laptop charger"),
    has("a solar panel", "Solar panel for days without an outlet.", "that charges in the sun"),
    has("a replaceable battery", "Replaceable battery, so it need not be thrown away.", "where i can swap the cells"),
)
WATER: Final[Facet] = (
    quality("waterproof", "Waterproof, even when it falls in.", "that can survive a fall into a pool"),
    quality("shock resistant", "Shock resistant shell that forgives a fall.", "that will not mind being dropped"),
    quality("dust sealed", "Dust sealed for workshops and beaches.", "that will keep fine dirt out"),
)

COLOR: Final = Option(
    "color",
    (
        "black",
        "white",
        "navy",
        "green",
        "grey",
        "burgundy",
        "mustard",
        "teal",
        "pink",
        "olive",
        "purple",
        "brown",
        "orange",
        "turquoise",
    ),
    "in {}",
)
HOUSEHOLD_COLOR: Final = Option(
    "color",
    (
        "white",
        "blue",
        "yellow",
        "green",
        "terracotta",
        "charcoal",
        "ivory",
        "coral",
        "lilac",
        "black",
        "copper",
        "beige",
    ),
    "in {}",
)
SIZE: Final = Option("size", ("xs", "s", "m", "l", "xl", "xxl"), "in size {}")
SCENT: Final = Option(
    "scent",
    ("lavender", "vanilla", "rose", "lemon", "cedar", "jasmine", "eucalyptus", "fig", "bergamot", "neroli"),
    "with a {} scent",
)
PACK: Final = Option("pack size", ("single", "3 pack", "6 pack", "12 pack", "family box"), "in pack size {}")

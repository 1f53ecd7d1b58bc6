"""Kinds of the department beauty."""

from __future__ import annotations

from typing import Final

from turnwise.envs.shop.generator.shared import CONTENT, FAIRNESS, SCENT, WRAPPING
from turnwise.envs.shop.generator.words import Facet, Kind, Option, fit, has, of, quality

__all__ = ["BAR_SOAP", "CLAY_MASK", "HAIR_BRUSH", "HAND_CREAM", "LIP_BALM", "SHAMPOO"]

SKIN: Final[Facet] = (
    fit("dry skin", "For dry skin that drinks up every drop.", "that helps when my hands feel like paper"),
    fit("sensitive skin", "For sensitive skin that turns pink easily.", "that does not irritate"),
    fit("oily skin", "For oily skin that shines by noon.", "that keeps shine away"),
    fit("mature skin", "For mature skin that wants some care.", "that suits me now that i am over sixty"),
)
HAIR: Final[Facet] = (
    fit("curly hair", "For curly hair that should keep its spring.", "that works on my curls"),
    fit("fine hair", "For fine hair that wants more body.", "that gives thin strands some body"),
    fit("damaged hair", "For damaged hair after too much sun and heat.", "that repairs split ends"),
    fit("thick hair", "For thick hair with a will of its own.", "that copes with a real mane"),
)
FREE: Final[Facet] = (
    quality("paraben free", "Paraben free, with a short list of ingredients.", "without questionable preservatives"),
    quality("silicone free", "Silicone free, so nothing builds up.", "that leaves no film behind"),
    quality("alcohol free", "Alcohol free, so it never stings.", "that does not sting"),
)
VOLUME: Final = Option("volume", ("40 ml", "75 ml", "120 ml", "250 ml", "900 ml"), "in the {} size")
BAR: Final = Option("pack size", ("single", "twin", "4 bars", "8 bars"), "in pack size {}")

HAND_CREAM: Final = Kind(
    "hand cream",
    "a",
    "beauty",
    "Skin Care",
    (CONTENT, SKIN, FAIRNESS, FREE, WRAPPING),
    (SCENT, VOLUME),
    (5, 32),
    (
        "A little goes a long way and is gone in a minute, without a greasy trace.",
        "{brand} whips it slowly until it is light enough to melt on touch.",
        "The tube stands on its cap and gives up its last drop without a fight.",
    ),
    ("cold mornings", "gardeners", "the bedside table"),
    ("hand lotion", "cream to rub on my hands"),
)
SHAMPOO: Final = Kind(
    "shampoo",
    "a",
    "beauty",
    "Hair Care",
    (HAIR, CONTENT, FREE, FAIRNESS, WRAPPING),
    (SCENT, VOLUME),
    (6, 38),
    (
        "It lathers quickly, rinses out clean and leaves no weight behind.",
        "{brand} mixes it in small kettles and lets each one rest for a week.",
        "Use it as often as you like: it is mild enough for every day.",
    ),
    ("daily showers", "the gym bag", "the whole family"),
    ("hair wash",),
)
LIP_BALM: Final = Kind(
    "lip balm",
    "a",
    "beauty",
    "Lip Care",
    (
        CONTENT,
        (
            has("spf 15", "SPF 15 against the sun of an ordinary day.", "with a bit of protection from the sun"),
            has("cooling menthol", "Cooling menthol that you feel at once.", "that tingles a little"),
            has("plumping pepper", "Plumping pepper for a fuller look.", "that makes lips look fuller"),
        ),
        FAIRNESS,
        WRAPPING,
        (
            quality("tinted", "Tinted with a hint of color.", "that adds a touch of color"),
            quality("clear", "Clear finish that nobody sees.", "that nobody can see on me"),
            quality("glossy", "Glossy finish that catches the eye.", "that shines"),
        ),
    ),
    (
        Option(
            "flavor",
            ("cherry", "vanilla", "peach", "mango", "honeydew", "raspberry", "plain"),
            "in flavor {}",
        ),
        Option("pack size", ("single", "3 pack", "6 pack"), "in pack size {}"),
    ),
    (3, 18),
    (
        "It glides on, stays where it is put and keeps wind and frost away.",
        "{brand} pours it warm, so that it sets without grains.",
        "The cap closes with a click and stays closed in a pocket.",
    ),
    ("ski trips", "coat pockets", "chapped lips"),
    ("lip care stick",),
)
CLAY_MASK: Final = Kind(
    "clay mask",
    "a",
    "beauty",
    "Face Care",
    (
        SKIN,
        (
            has(
                "activated carbon", "Activated carbon to draw out what clogs pores.", "with that black purifying powder"
            ),
            has("green tea", "Green tea to freshen a tired face.", "made with sencha leaves"),
            has("sea minerals", "Sea minerals gathered at low tide.", "with something from the ocean in it"),
            has("turmeric", "Turmeric for a warm glow.", "with that yellow root in it"),
        ),
        FAIRNESS,
        (
            quality("quick rinse", "Quick rinse: warm water takes it off.", "that comes off easily"),
            quality("peel off", "Peel off in one piece, no sink needed.", "that i can pull off in one go"),
            quality("overnight", "Overnight care that works while you sleep.", "that i leave on while sleeping"),
        ),
        WRAPPING,
    ),
    (Option("volume", ("40 ml", "75 ml", "120 ml", "250 ml"), "in the {} size"),),
    (8, 45),
    (
        "Spread it thinly, wait a song or three, and feel the difference.",
        "{brand} grinds the clay twice, so that nothing scratches.",
        "It dries to a pale crust that tells you when it is time.",
    ),
    ("quiet Sundays", "a spa evening at home", "the night before a party"),
    ("face mask", "mud mask"),
)
HAIR_BRUSH: Final = Kind(
    "hair brush",
    "a",
    "beauty",
    "Hair Tools",
    (
        (
            has("boar bristles", "Boar bristles that spread shine to the tips.", "with natural animal bristle"),
            has("nylon pins", "Nylon pins with rounded tips.", "with soft synthetic tips"),
            has("steel teeth", "Steel teeth that part the thickest strand.", "with metal prongs"),
        ),
        HAIR,
        (
            quality("detangling", "Detangling without tears.", "that gets knots out"),
            quality("anti static", "Anti static, so hair lies down.", "that stops flyaways"),
            quality("heat proof", "Heat proof for work with a dryer.", "that i can blow dry with"),
        ),
        (
            of("bamboo", "Bamboo body, light and warm.", "made of a fast growing grass"),
            of("olivewood", "Olivewood body with a lively grain.", "made of mediterranean timber"),
            of("beechwood", "Beechwood body, oiled twice.", "made of pale northern timber"),
        ),
    ),
    (
        Option("shape", ("paddle", "round", "oval", "vented", "tunnel"), "in {} shape"),
        Option("color", ("black", "white", "pink", "teal", "purple"), "in {}"),
    ),
    (7, 48),
    (
        "It sits well in the hand and makes short work of the morning.",
        "{brand} sets every row by hand and checks each one twice.",
        "An air cushion gives way before it pulls.",
    ),
    ("long mornings", "the hairdresser at home", "children who hate knots"),
    ("hairbrush",),
)
BAR_SOAP: Final = Kind(
    "bar soap",
    "a",
    "beauty",
    "Bath",
    (CONTENT, SKIN, FAIRNESS, WRAPPING),
    (SCENT, BAR),
    (3, 24),
    (
        "It lies well in the hand, lathers softly and lasts for weeks.",
        "{brand} lets it ripen on wooden racks for two months.",
        "Keep it dry between uses and it will serve you even longer.",
    ),
    ("the guest bathroom", "the shower", "muddy hands"),
    ("block of soap", "cake of soap"),
)

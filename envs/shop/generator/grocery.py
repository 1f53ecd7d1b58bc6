"""Kinds of the department grocery."""

from __future__ import annotations

from typing import Final

from turnwise.envs.shop.generator.shared import DIET, ORIGIN, PACK
from turnwise.envs.shop.generator.words import Kind, Option, fit, has, quality

__all__ = ["CHOCOLATE", "COFFEE", "GRANOLA", "GREEN_TEA", "PASTA_SAUCE", "TRAIL_MIX"]

GREEN_TEA: Final = Kind(
    "green tea",
    "some",
    "grocery",
    "Tea",
    (
        ORIGIN,
        (
            quality("loose leaf", "Loose leaf, rolled by hand.", "that is not in bags"),
            quality("bagged", "Bagged in paper without staples.", "in ready made bags"),
            quality("powdered", "Powdered on stone mills.", "that i can whisk"),
        ),
        (
            has("ginger root", "Ginger root for a bit of fire.", "that has some fire"),
            has("lemon peel", "Lemon peel for freshness.", "that has citrus in it"),
            has("toasted rice", "Toasted rice for a nutty cup.", "that has a nutty taste"),
            has("jasmine petals", "Jasmine petals from one night's bloom.", "that smells of white blossoms"),
        ),
        (
            quality("decaffeinated", "Decaffeinated gently, by water.", "that lets me sleep"),
            quality("first flush", "First flush, picked in spring.", "that was picked in spring"),
            quality("shade grown", "Shade grown under straw mats.", "that grew out of the sun"),
        ),
    ),
    (
        Option(
            "flavor",
            ("plain", "mango", "cherry", "vanilla", "pear", "ginseng", "bergamot", "fig"),
            "in flavor {}",
        ),
        Option("weight", ("45 g", "120 g", "250 g", "1 kg"), "in the {} size"),
    ),
    (5, 40),
    (
        "Pour water that has stopped boiling over it, and wait two minutes.",
        "{brand} tastes every chest before it buys a single one.",
        "The tin keeps light and moisture out.",
    ),
    ("quiet afternoons", "the office kitchen", "tea lovers"),
    ("sencha", "tea"),
)
GRANOLA: Final = Kind(
    "granola",
    "some",
    "grocery",
    "Breakfast",
    (
        DIET,
        ORIGIN,
        (
            has("almonds", "Almonds, roasted whole.", "that has nuts of the almond tree in it"),
            has("pumpkin seeds", "Pumpkin seeds for crunch.", "that has something of a gourd in it"),
            has("dried apples", "Dried apples in small dice.", "that has orchard fruit in it"),
            has("coconut flakes", "Coconut flakes, lightly toasted.", "that tastes of the tropics"),
        ),
        (
            quality("extra crunchy", "Extra crunchy clusters.", "that has a real bite"),
            quality("finely milled", "Finely milled flakes that are easy to chew.", "that is easy to chew"),
            quality("slow baked", "Slow baked on wide trays.", "that was in the oven for hours"),
        ),
    ),
    (
        Option(
            "flavor",
            ("maple", "cinnamon", "cocoa", "cranberry", "banana", "vanilla", "hazelnut"),
            "in flavor {}",
        ),
        Option("weight", ("120 g", "350 g", "1 kg"), "in the {} size"),
    ),
    (4, 26),
    (
        "Good with yogurt, good with fruit, good from the bag.",
        "{brand} stirs every tray by hand until it is golden.",
        "The bag closes again and keeps everything crisp.",
    ),
    ("busy mornings", "hikers", "the breakfast table"),
    ("muesli", "crunchy cereal"),
)
COFFEE: Final = Kind(
    "coffee beans",
    "some",
    "grocery",
    "Coffee",
    (
        (
            quality("dark roast", "Dark roast with a note of smoke.", "that are nearly black and smoky"),
            quality("medium roast", "Medium roast, round and sweet.", "that are neither pale nor smoky"),
            quality("blonde roast", "Blonde roast, bright and lively.", "that are pale and fruity"),
        ),
        ORIGIN,
        (
            quality("single origin", "Single origin, from one hillside.", "that are not a blend"),
            quality("low acid", "Low acid, kind to the stomach.", "that are kind to my stomach"),
            quality("decaffeinated", "Decaffeinated gently, by water.", "that let me sleep"),
        ),
        (
            fit("espresso", "Meant for espresso.", "that make a strong little shot"),
            fit("filter brewing", "Meant for filter brewing.", "that i can pour over slowly"),
            fit("cold brew", "Meant for cold brew.", "that i can steep in the fridge"),
        ),
        (
            has("cocoa notes", "Cocoa notes in the finish.", "that taste a little of chocolate"),
            has("berry notes", "Berry notes in the first sip.", "that taste a little fruity"),
            has("caramel notes", "Caramel notes throughout.", "that taste a little of toffee"),
        ),
    ),
    (
        Option("grind", ("unground", "coarse", "medium", "fine"), "with the grind {}"),
        Option("weight", ("120 g", "350 g", "1 kg"), "in the {} size"),
    ),
    (7, 44),
    (
        "It fills the kitchen before the cup is full.",
        "{brand} roasts twice a week and ships on the same day.",
        "The valve lets gas out and no air in.",
    ),
    ("slow breakfasts", "the office", "early risers"),
    ("roasted beans",),
    many=True,
)
CHOCOLATE: Final = Kind(
    "chocolate bar",
    "a",
    "grocery",
    "Sweets",
    (
        ORIGIN,
        (
            has("sea salt", "Sea salt in thin flakes.", "that tastes a little of the ocean"),
            has("whole hazelnuts", "Whole hazelnuts, freshly roasted.", "that is full of nuts"),
            has("candied orange", "Candied orange in fine strips.", "that has citrus in it"),
            has("chili", "Chili for a slow burn.", "that is a bit hot"),
        ),
        DIET,
        (
            quality("creamy", "Creamy melt, conched for hours.", "that melts on the tongue"),
            quality("bittersweet", "Bittersweet, with a deep cocoa finish.", "that is not too sweet"),
            quality("nibbed", "Nibbed with crushed cocoa for bite.", "that has a bit of bite"),
        ),
    ),
    (
        PACK,
        Option("weight", ("45 g", "120 g", "300 g"), "in the {} size"),
    ),
    (2, 22),
    (
        "It snaps cleanly and melts slowly.",
        "{brand} stirs it for three days, until it is like silk.",
        "Wrapped in foil and paper, it likes a cool shelf.",
    ),
    ("a sweet tooth", "a small thank you", "the evening"),
    ("bar of candy", "tablet of cocoa"),
)
TRAIL_MIX: Final = Kind(
    "trail mix",
    "some",
    "grocery",
    "Snacks",
    (
        DIET,
        (
            has("cashews", "Cashews, whole and pale.", "that has curved nuts in it"),
            has("pecans", "Pecans from old groves.", "that has nuts from old southern groves in it"),
            has("dried cherries", "Dried cherries, tart and soft.", "that has red stone fruit in it"),
            has("sunflower seeds", "Sunflower seeds, hulled.", "that has seeds of a tall yellow flower in it"),
        ),
        (
            quality("roasted", "Roasted in small drums.", "that went through the oven"),
            quality("raw", "Raw, as it was picked.", "that has not been heated"),
            quality("spicy", "Spicy, with a pinch of chili.", "that is hot"),
        ),
        ORIGIN,
    ),
    (
        PACK,
        Option("weight", ("45 g", "120 g", "350 g"), "in the {} size"),
    ),
    (4, 30),
    (
        "A handful carries you over the next hill.",
        "{brand} mixes it by the bucket, never by the ton.",
        "No dust at the bottom of the bag: everything is sieved twice.",
    ),
    ("hikes", "the desk", "lunch boxes"),
    ("nuts and fruit", "snack mix"),
)
PASTA_SAUCE: Final = Kind(
    "pasta sauce",
    "some",
    "grocery",
    "Pantry",
    (
        (
            has("basil", "Basil, picked the same morning.", "that tastes of a sweet green herb"),
            has("roasted garlic", "Roasted garlic, mild and sweet.", "that vampires would not like"),
            has("black olives", "Black olives from old trees.", "that has small dark fruit of old trees in it"),
            has("hot peppers", "Hot peppers for those who dare.", "that burns a little"),
        ),
        DIET,
        ORIGIN,
        (
            quality("chunky", "Chunky, with pieces to bite on.", "with pieces to bite on"),
            quality("silky smooth", "Silky smooth, passed through a sieve.", "without any pieces"),
            quality("slow cooked", "Slow cooked for six hours.", "that simmered for hours"),
        ),
    ),
    (
        Option("jar", ("200 g", "350 g", "680 g"), "in a jar of {}"),
        PACK,
    ),
    (3, 19),
    (
        "Warm it gently, pour it over, and dinner is ready.",
        "{brand} cooks in copper pots, a few dozen jars at a time.",
        "The lid pops when it is opened for the first time.",
    ),
    ("weeknights", "large families", "a quick dinner"),
    ("tomato sauce for spaghetti",),
)

"""Kinds of the department fashion."""

from __future__ import annotations

from typing import Final

from turnwise.envs.shop.generator.shared import CARE, COLOR, FABRIC, SIZE
from turnwise.envs.shop.generator.words import Facet, Kind, Option, fit, has, of, quality

__all__ = ["BACKPACK", "CANVAS_SHOES", "RAIN_JACKET", "SCARF", "SOCKS", "T_SHIRT"]

SPORT: Final[Facet] = (
    fit("running", "Cut for running.", "to jog in"),
    fit("hiking", "Cut for hiking.", "to wear on mountain trails"),
    fit("yoga", "Cut for yoga.", "to stretch in"),
    fit("cycling", "Cut for cycling.", "to wear on my bike"),
)

T_SHIRT: Final = Kind(
    "t-shirt",
    "a",
    "fashion",
    "Tops",
    (
        FABRIC,
        (
            quality("slim fit", "Slim fit that follows the body.", "that sits close to the body"),
            quality("relaxed cut", "Relaxed cut with room to move.", "that is not tight"),
            quality("cropped", "Cropped at the waist.", "that ends at the waist"),
        ),
        (
            has("a crew neck", "Crew neck that keeps its shape.", "with a round collar"),
            has("a v neckline", "V neckline, not too deep.", "with a pointed collar"),
            has("a chest pocket", "Chest pocket with a bar tack.", "where i can put my glasses"),
        ),
        CARE,
        SPORT,
    ),
    (SIZE, COLOR),
    (8, 55),
    (
        "It is the one that you reach for first.",
        "{brand} cuts it from one long piece, so that it never twists.",
        "Shoulder seams are taped and do not rub.",
    ),
    ("summer", "layering", "lazy weekends"),
    ("tee", "short sleeved top"),
)
SOCKS: Final = Kind(
    "socks",
    "a pair of",
    "fashion",
    "Hosiery",
    (
        FABRIC,
        (
            quality("ankle high", "Ankle high, hidden in low shoes.", "that end below the ankle"),
            quality("knee length", "Knee length, with a band that does not pinch.", "that reach up to the knee"),
            quality("mid calf", "Mid calf, the classic height.", "that reach halfway up the leg"),
        ),
        (
            has("cushioned soles", "Cushioned soles for long days.", "that are padded below"),
            has("grip dots", "Grip dots for smooth floors.", "that do not slide on wood"),
            has("arch support", "Arch support by a firm knit.", "that hold the middle of my foot"),
        ),
        SPORT,
        CARE,
    ),
    (
        COLOR,
        Option("size", ("s", "m", "l", "xl"), "in size {}"),
    ),
    (5, 28),
    (
        "They stay up, stay soft and stay a pair.",
        "{brand} closes the toes by hand, so that no seam rubs.",
        "Heels are knitted double, where others wear through.",
    ),
    ("cold floors", "long walks", "new boots"),
    ("stockings", "foot warmers"),
    many=True,
)
RAIN_JACKET: Final = Kind(
    "rain jacket",
    "a",
    "fashion",
    "Outerwear",
    (
        (
            quality("windproof", "Windproof down to the cuffs.", "that keeps gusts out"),
            quality("breathable", "Breathable, so you stay dry inside too.", "that i do not sweat in"),
            quality("packable", "Packable into its own pouch.", "that folds into a small bag"),
        ),
        (
            has("a storm hood", "Storm hood with a stiff brim.", "that covers my head well"),
            has("a fleece lining", "Fleece lining for cold fronts.", "that is warm and fluffy inside"),
            has("inner pockets", "Inner pockets for maps and phones.", "where my map stays dry"),
        ),
        (
            fit("hiking", "Cut for hiking.", "to wear on mountain trails"),
            fit("cycling", "Cut for cycling.", "to wear on my bike"),
            fit("sailing", "Cut for sailing.", "to wear on my boat"),
            fit("fishing", "Cut for fishing.", "to wear at the lake"),
        ),
        (
            has("taped seams", "Taped seams that let no drop through.", "where no drop comes in at the stitching"),
            has("reflective trim", "Reflective trim for dark roads.", "that drivers see at night"),
            has("underarm vents", "Underarm vents with two way zips.", "that lets steam out at the sides"),
        ),
    ),
    (SIZE, COLOR),
    (28, 190),
    (
        "Drops run off it as if it were a roof.",
        "{brand} tries each pattern in real weather before it is sewn.",
        "Hem and cuffs close with one hand.",
    ),
    ("autumn walks", "festival fields", "the walk to school"),
    ("waterproof coat", "anorak"),
)
BACKPACK: Final = Kind(
    "backpack",
    "a",
    "fashion",
    "Luggage",
    (
        (
            of("canvas", "Canvas with a waxed touch.", "made of sailcloth"),
            of("leather", "Leather that ages well.", "made of cowhide"),
            of("nylon", "Nylon of a tight weave.", "made of light synthetic cloth"),
        ),
        (
            has("a laptop sleeve", "Laptop sleeve with soft walls.", "where my computer is safe"),
            has("a bottle pocket", "Bottle pocket on either side.", "that carries my drink"),
            has("a chest strap", "Chest strap that takes weight off shoulders.", "that clips in front"),
            has("a hidden zip", "Hidden zip against thieves.", "that pickpockets cannot open"),
        ),
        (
            quality("water resistant", "Water resistant in a shower.", "that survives a shower of rain"),
            quality("expandable", "Expandable by a hand's width.", "that grows when i need more room"),
            quality("ultralight", "Ultralight: less than a loaf of bread.", "that weighs almost nothing"),
        ),
        (
            fit("school", "Planned for school.", "that my daughter can take to class"),
            fit("business trips", "Planned for business trips.", "that looks good in meetings"),
            fit("camping", "Planned for camping.", "that i can take out to the woods"),
        ),
    ),
    (
        COLOR,
        Option("volume", ("15 liters", "22 liters", "38 liters"), "holding {}"),
    ),
    (22, 140),
    (
        "It opens wide, stands by itself and swallows a whole day.",
        "{brand} sews the straps in three rows.",
        "The back is padded, and air can pass.",
    ),
    ("the daily ride", "weekend trips", "students"),
    ("rucksack", "daypack"),
)
SCARF: Final = Kind(
    "scarf",
    "a",
    "fashion",
    "Accessories",
    (
        (
            of("cashmere", "Cashmere, combed by hand.", "made of the finest goat hair"),
            of("silk", "Silk with a quiet shine.", "made by little worms"),
            of("wool", "Warm wool from grazing flocks.", "knitted from sheep's fleece"),
            of("cotton", "Made of soft cotton that gets better with every wash.", "made of a soft plant fiber"),
        ),
        (
            has("tassels", "Tassels at both ends.", "with fringe at the ends"),
            has("a checked pattern", "Checked pattern from an old mill.", "with squares on it"),
            has("polka dots", "Polka dots, large and small.", "with round spots on it"),
        ),
        (
            quality("oversized", "Oversized: wear it as a shawl.", "that is really large"),
            quality("lightweight", "Lightweight for mild evenings.", "that i hardly feel"),
            quality("extra warm", "Extra warm, knitted twice.", "that keeps me warm in deep winter"),
        ),
        CARE,
    ),
    (
        COLOR,
        Option("length", ("90 cm", "140 cm", "200 cm"), "with a length of {}"),
    ),
    (10, 95),
    (
        "It drapes well and forgives any knot.",
        "{brand} finishes the edges with a rolled hem.",
        "Around the neck in town, over the shoulders at sea.",
    ),
    ("windy days", "opera nights", "birthday gifts"),
    ("neck wrap", "shawl"),
)
CANVAS_SHOES: Final = Kind(
    "canvas shoes",
    "a pair of",
    "fashion",
    "Shoes",
    (
        (
            has("memory foam", "Memory foam under the heel.", "that mold to my feet"),
            has("a cork footbed", "Cork footbed that adapts.", "where i stand on bark"),
            has("rubber soles", "Rubber soles with a fine tread.", "that do not slip"),
        ),
        (
            quality("slip on", "Slip on without laces.", "that need no tying"),
            quality("lace up", "Lace up with round cord.", "that i tie"),
            quality("high top", "High top that guards the ankle.", "that cover the ankle"),
        ),
        (
            quality("wide fit", "Wide fit for broad feet.", "that suit broad feet"),
            quality("narrow cut", "Narrow cut for slender feet.", "that suit slender feet"),
            quality("vegan", "Vegan: nothing in it comes from animals.", "without anything from animals"),
        ),
        CARE,
    ),
    (
        Option("size", ("36", "38", "40", "42", "44", "46"), "in size {}"),
        COLOR,
    ),
    (18, 85),
    (
        "They are light, airy and at home in any town.",
        "{brand} glues and stitches, so that nothing comes off.",
        "After a week they feel as if you had always had them.",
    ),
    ("city trips", "the boardwalk", "casual Fridays"),
    ("sneakers", "summer shoes"),
    many=True,
)

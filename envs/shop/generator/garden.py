"""Kinds of the department garden: house and garden."""

from __future__ import annotations

from typing import Final

from turnwise.envs.shop.generator.shared import CARE, FABRIC, HOUSEHOLD_COLOR
from turnwise.envs.shop.generator.words import Kind, Option, fit, has, of, quality

__all__ = ["APRON", "BIRD_FEEDER", "BLANKET", "DOORMAT", "PLANT_POT", "TRAVEL_MUG"]

TRAVEL_MUG: Final = Kind(
    "travel mug",
    "a",
    "garden",
    "Drinkware",
    (
        (
            of("steel", "Steel inside and out.", "made of metal"),
            of("ceramic", "Ceramic lining that keeps the taste pure.", "that is fired clay inside"),
            of("glass", "Glass that never takes on a smell.", "that i can see through"),
            of("bamboo", "Bamboo shell with a smooth grain.", "made of a fast growing grass"),
        ),
        (
            quality("leakproof", "Leakproof even upside down.", "that does not drip in my bag"),
            quality("dishwasher safe", "Dishwasher safe, lid and all.", "that can go in the dishwasher"),
            quality("double walled", "Double walled, so drinks stay hot for hours.", "that keeps drinks hot"),
        ),
        (
            has("a flip lid", "Flip lid that opens with one thumb.", "that opens with one thumb"),
            has("a reusable straw", "Reusable straw with its own brush.", "that i can sip from without tilting"),
            has("a silicone sleeve", "Silicone sleeve for a firm grip.", "that is not hot to hold"),
        ),
        (
            fit("cup holders", "Sized for cup holders in cars and on bikes.", "that fits in the car"),
            fit("small hands", "Shaped for small hands.", "that a child can hold"),
            fit("coffee machines", "Low enough for coffee machines.", "that goes under my espresso spout"),
        ),
    ),
    (
        HOUSEHOLD_COLOR,
        Option("volume", ("200 ml", "350 ml", "480 ml", "700 ml"), "holding {}"),
    ),
    (9, 48),
    (
        "Filled before dawn, it is still pleasant to drink from at noon.",
        "{brand} turns the rim twice, so that it is kind to lips.",
        "Both parts come apart in seconds for cleaning.",
    ),
    ("early trains", "the office", "walks with the dog"),
    ("tumbler", "to-go cup"),
)
PLANT_POT: Final = Kind(
    "plant pot",
    "a",
    "garden",
    "Gardening",
    (
        (
            of("clay", "Clay that lets roots breathe.", "made of baked earth"),
            of("concrete", "Concrete with a raw edge.", "that looks like a modern building"),
            of("zinc", "Zinc that darkens with the years.", "made of metal"),
            of("jute", "Jute, woven tightly around a liner.", "that looks like a basket"),
        ),
        (
            has("a drainage hole", "Drainage hole and plug.", "that lets extra water out"),
            has("a water reservoir", "Water reservoir for two weeks away.", "that waters while i am away"),
            has("a saucer", "Saucer in the same finish.", "that comes with a plate below"),
        ),
        (
            quality("frost proof", "Frost proof for winters outdoors.", "that can stay out in winter"),
            quality("lightweight", "Lightweight, so one hand moves it.", "that i can carry easily"),
            quality("hand painted", "Hand painted: no two are alike.", "that was painted by an artist"),
        ),
        (
            fit("herbs", "Right for herbs on a sill.", "to grow basil in"),
            fit("orchids", "Right for orchids and their air roots.", "that suits exotic flowers"),
            fit("cacti", "Right for cacti and other dry souls.", "that suits prickly desert dwellers"),
        ),
    ),
    (
        HOUSEHOLD_COLOR,
        Option("diameter", ("8 cm", "14 cm", "20 cm", "36 cm"), "with a diameter of {}"),
    ),
    (6, 60),
    (
        "It gives leaves room and looks good while it does.",
        "{brand} finishes the foot with felt, so that no floor suffers.",
        "Group three of them and a bare corner is a corner no more.",
    ),
    ("balconies", "the kitchen window", "a sunny hallway"),
    ("flower pot", "planter"),
)
BLANKET: Final = Kind(
    "throw blanket",
    "a",
    "garden",
    "Bedding",
    (
        FABRIC,
        CARE,
        (
            quality("reversible", "Reversible: a plain side and a striped one.", "with two different sides"),
            quality("weighted", "Weighted for deep sleep.", "that presses down gently"),
            quality("quilted", "Quilted in small diamonds.", "that is stitched and padded"),
        ),
        (
            has("fringes", "Fringes tied by hand.", "with loose threads at the edge"),
            has("a foot pocket", "Foot pocket for toes that are always cold.", "where i can tuck in my feet"),
            has("a satin border", "Satin border, cool on the cheek.", "with a shiny edge"),
        ),
        (
            fit("sofas", "Cut for sofas.", "to lie on the couch with"),
            fit("picnics", "Cut for picnics.", "to sit on in the park"),
            fit("cribs", "Cut for cribs.", "that my baby can have"),
        ),
    ),
    (
        HOUSEHOLD_COLOR,
        Option("width", ("90 cm", "130 cm", "150 cm", "220 cm"), "with a width of {}"),
    ),
    (15, 110),
    (
        "It falls softly, holds warmth and never feels heavy on the eye.",
        "{brand} weaves it slowly, on looms older than the weavers.",
        "Fold it over an armchair or wrap up in it to the nose.",
    ),
    ("movie nights", "the reading chair", "guests who feel the cold"),
    ("couch cover", "cozy wrap"),
)
APRON: Final = Kind(
    "kitchen apron",
    "a",
    "garden",
    "Kitchen Textiles",
    (
        FABRIC,
        CARE,
        (
            has("front pockets", "Front pockets for spoons and phones.", "where i can put my phone"),
            has("a towel loop", "Towel loop at the hip.", "where i can hang a cloth"),
            has("a pen holder", "Pen holder on the bib.", "with room for a pencil"),
        ),
        (
            quality("adjustable", "Adjustable neck and waist.", "that can be made shorter"),
            quality("cross back", "Cross back cut that spares the neck.", "that does not hang on my neck"),
            quality("waist only", "Waist only, in bistro style.", "that covers just the legs"),
        ),
    ),
    (HOUSEHOLD_COLOR, Option("size", ("s", "m", "l", "xl"), "in size {}")),
    (9, 52),
    (
        "It covers what needs covering and moves when you do.",
        "{brand} doubles every seam that has to carry weight.",
        "Ties are long enough to knot at the front.",
    ),
    ("bakers", "Sunday roasts", "messy craft hours"),
    ("cooking smock",),
)
BIRD_FEEDER: Final = Kind(
    "bird feeder",
    "a",
    "garden",
    "Wildlife",
    (
        (
            quality("squirrel proof", "Squirrel proof: the perch gives way to weight.", "that squirrels cannot raid"),
            quality("weatherproof", "Weatherproof roof with a wide rim.", "that can stand in the rain"),
            quality("easy clean", "Easy clean: the tray slides out.", "that is no work to wash"),
        ),
        (
            of("cedarwood", "Cedarwood, left untreated.", "made of fragrant timber"),
            of("metal", "Metal with a baked finish.", "made of sheet iron"),
            of("acrylic", "Acrylic walls that show how full it is.", "that i can look into"),
        ),
        (
            has("suction cups", "Suction cups for window panes.", "that sticks to the window"),
            has("a hanging chain", "Hanging chain for branches.", "that dangles from a tree"),
            has("a ground pole", "Ground pole in three parts.", "that i can stick into the lawn"),
        ),
        (
            fit("finches", "Ports sized for finches.", "that small songbirds like"),
            fit("hummingbirds", "Ports sized for hummingbirds.", "that holds sweet nectar"),
            fit("woodpeckers", "Rests sized for woodpeckers.", "that large peckers like"),
        ),
    ),
    (
        Option("capacity", ("1 kg", "2.5 kg", "4 kg"), "with room for {}"),
        HOUSEHOLD_COLOR,
    ),
    (12, 70),
    (
        "Hang it in view of your breakfast table and wait a day or two.",
        "{brand} rounds every edge, for feathers and fingers alike.",
        "Seed stays dry, and nothing gets wedged in a corner.",
    ),
    ("small yards", "grandparents", "the school garden"),
    ("bird table",),
)
DOORMAT: Final = Kind(
    "doormat",
    "a",
    "garden",
    "Home Decor",
    (
        (
            of("coir", "Coir brush that takes mud off at once.", "made of coconut husk"),
            of("rubber", "Rubber with deep grooves.", "made of old tires"),
            of("jute", "Jute, braided flat.", "made of braided plant fiber"),
        ),
        (
            quality("non slip", "Non slip back that grips the floor.", "that stays put"),
            quality("extra thick", "Extra thick pile that hides dirt.", "that is really deep"),
            quality("quick drying", "Quick drying after heavy rain.", "that is dry again soon"),
        ),
        (
            has("a striped pattern", "Striped pattern that suits old houses.", "with lines on it"),
            has("welcome lettering", "Welcome lettering in a friendly hand.", "that greets my guests"),
            has("a leaf print", "Leaf print from real ferns.", "with something botanical on it"),
        ),
        (
            fit("entrances", "Made for entrances with a lot of traffic.", "that copes with many visitors"),
            fit("terraces", "Made for terraces.", "to lie by the patio"),
            fit("boot rooms", "Made for boot rooms.", "where wellingtons are taken off"),
        ),
    ),
    (
        Option("width", ("40 cm", "60 cm", "75 cm", "120 cm"), "with a width of {}"),
        HOUSEHOLD_COLOR,
    ),
    (10, 58),
    (
        "Two wipes and the floor behind it stays clean.",
        "{brand} trims each one by hand.",
        "Shake it out now and then: that is all the care it asks for.",
    ),
    ("the front door", "a dog with muddy paws", "the holiday cabin"),
    ("entry rug", "foot mat"),
)

"""Kinds of the department electronics."""

from __future__ import annotations

from typing import Final

from turnwise.envs.shop.generator.shared import COLOR, HOUSEHOLD_COLOR, POWER, WATER
from turnwise.envs.shop.generator.words import Facet, Kind, Option, fit, has, of, quality

__all__ = ["DESK_LAMP", "EARBUDS", "KEYBOARD", "PHONE_CASE", "POWER_BANK", "SPEAKER"]

SOUND: Final[Facet] = (
    has("deep bass", "Deep bass that you feel in your chest.", "that make the low notes rumble"),
    has("balanced sound", "Balanced sound, as it was mixed.", "that do not boost anything"),
    has("low latency", "Low latency, so lips and voices agree.", "without any lag in films"),
)
CONTROL: Final[Facet] = (
    has("touch controls", "Touch controls that answer a light tap.", "that will react to a tap"),
    has("voice commands", "Voice commands for busy hands.", "that i can talk to"),
    has("real buttons", "Real buttons that work with gloves on.", "that i can press with gloves on"),
)
BODY: Final[Facet] = (
    of("aluminum", "Aluminum body, cool and stiff.", "with a light metal body"),
    of("bamboo", "Bamboo body that warms up any room.", "with a body of fast growing grass"),
    of("recycled plastic", "Recycled plastic body from old bottles.", "made out of old bottles"),
)

EARBUDS: Final = Kind(
    "wireless earbuds",
    "some",
    "electronics",
    "Headphones",
    (
        (
            quality("noise cancelling", "Noise cancelling that hushes trains and planes.", "that shut out the train"),
            quality("open ear", "Open ear design that lets the street in.", "that let me hear traffic"),
            quality(
                "bone conduction", "Bone conduction that leaves the ear canal free.", "that sit in front of the ear"
            ),
        ),
        SOUND,
        WATER,
        CONTROL,
        (
            has(
                "multipoint pairing",
                "Multipoint pairing for phone and computer at once.",
                "that stay linked to two devices",
            ),
            has("ear hooks", "Ear hooks that hold on in a sprint.", "that stay on when i run"),
            has("foam tips", "Foam tips that swell to a snug seat.", "with soft squishy ends"),
        ),
    ),
    (COLOR, Option("tip size", ("s", "m", "l"), "in tip size {}")),
    (18, 190),
    (
        "They connect before you have closed the lid and stay connected across the house.",
        "{brand} tunes each pair by ear before it leaves the bench.",
        "The case slips into a coin pocket and holds three more charges.",
    ),
    ("the commute", "morning runs", "calls from the kitchen"),
    ("bluetooth earphones", "cordless in-ear headphones"),
    many=True,
)
DESK_LAMP: Final = Kind(
    "desk lamp",
    "a",
    "electronics",
    "Lighting",
    (
        (
            quality("dimmable", "Dimmable from a glow to full daylight.", "that i can turn down at night"),
            quality("flicker free", "Flicker free, so eyes stay fresh.", "that does not tire my eyes"),
            quality("motion sensing", "Motion sensing: it wakes when you sit down.", "that switches on by itself"),
        ),
        (
            has("a clamp base", "Clamp base that leaves the table free.", "that screws onto the table edge"),
            has("a weighted foot", "Weighted foot that does not tip over.", "that stands firmly"),
            has("a wall mount", "Wall mount with two screws.", "that hangs beside the bed"),
        ),
        BODY,
        POWER,
        (
            fit("drawing", "Made for drawing, with true shades.", "that suits sketching"),
            fit("reading", "Made for reading, with a soft cone of brightness.", "that suits books"),
            fit("sewing", "Made for sewing, with a sharp spot.", "that suits needlework"),
        ),
    ),
    (
        HOUSEHOLD_COLOR,
        Option("arm length", ("30 cm", "45 cm", "68 cm"), "with an arm length of {}"),
    ),
    (16, 120),
    (
        "It bends where you want it and stays there.",
        "{brand} tests every joint ten thousand times.",
        "The switch sits where the hand expects it, even in the dark.",
    ),
    ("late work", "students", "a small home office"),
    ("table light", "work light"),
)
POWER_BANK: Final = Kind(
    "power bank",
    "a",
    "electronics",
    "Chargers",
    (
        (
            quality("fast charging", "Fast charging: half full in half an hour.", "that fills up my phone quickly"),
            quality("pass through", "Pass through: it gives and takes at once.", "that can be filled while in use"),
            quality("magnetic", "Magnetic back that snaps to a phone.", "that clings to the back of my phone"),
        ),
        WATER,
        (
            has("a built in cable", "Built in cable that folds away.", "that brings its own cord"),
            has("a digital display", "Digital display that shows the percent left.", "that shows how much is left"),
            has("a flashlight", "Flashlight for power cuts and tents.", "that doubles as a torch"),
        ),
        BODY,
    ),
    (
        Option("capacity", ("5000 mah", "12000 mah", "26800 mah"), "holding {}"),
        COLOR,
    ),
    (14, 95),
    (
        "It charges a phone on the way to work and a tablet on the way back.",
        "{brand} picks its cells by hand and guards each with its own fuse.",
        "Four small lights tell at a glance whether to top it up.",
    ),
    ("festivals", "long train rides", "the hiking pack"),
    ("portable charger", "battery pack"),
)
SPEAKER: Final = Kind(
    "bluetooth speaker",
    "a",
    "electronics",
    "Audio",
    (
        WATER,
        (
            has("deep bass", "Deep bass that you feel in your chest.", "that makes the low notes rumble"),
            has("stereo pairing", "Stereo pairing with a second one.", "that can be joined with another one"),
            has("surround sound", "Surround sound that fills the yard.", "that i can hear from all sides"),
        ),
        POWER,
        (
            has("party lights", "Party lights that follow the beat.", "that glows to the music"),
            has("a carry strap", "Carry strap of woven cord.", "that i can hang on my wrist"),
            has("a radio tuner", "Radio tuner for local stations.", "that plays local stations"),
        ),
        CONTROL,
    ),
    (COLOR, Option("output", ("8 watt", "20 watt", "45 watt"), "with an output of {}")),
    (20, 180),
    (
        "Small enough for a backpack, loud enough for a garden.",
        "{brand} builds the cabinet without a single screw that could rattle.",
        "It remembers the last eight phones that it met.",
    ),
    ("barbecues", "the beach", "the workshop"),
    ("portable music box", "cordless loudspeaker"),
)
KEYBOARD: Final = Kind(
    "keyboard",
    "a",
    "electronics",
    "Computer Accessories",
    (
        (
            quality("mechanical", "Mechanical keys with a long life.", "where every key has its own switch"),
            quality("low profile", "Low profile keys for flat wrists.", "that is really flat"),
            quality("ergonomic", "Ergonomic curve that follows the hands.", "that is kind to my wrists"),
        ),
        (
            has("a backlight", "Backlight in three steps.", "with keys that glow in the dark"),
            has("a volume knob", "Volume knob of milled metal.", "with a wheel to make it louder"),
            has("a number pad", "Number pad for tables and taxes.", "that makes typing figures easy"),
        ),
        (
            quality("spill proof", "Spill proof: tea runs out at the bottom.", "that survives a cup of tea"),
            quality("hot swappable", "Hot swappable keys, no soldering.", "that i can rebuild myself"),
            quality("foldable", "Foldable to the size of a wallet.", "that i can fold up"),
        ),
        BODY,
    ),
    (
        Option("switch", ("linear", "tactile", "clicky", "silent"), "with {} keys"),
        Option("color", ("black", "white", "grey", "pink", "teal"), "in {}"),
    ),
    (22, 170),
    (
        "Every key comes back with the same firm answer.",
        "{brand} prints the letters deep, so that they outlive the desk.",
        "It pairs with three machines and jumps between them with one key.",
    ),
    ("writers", "coders", "the family computer"),
    ("typing board",),
)
PHONE_CASE: Final = Kind(
    "phone case",
    "a",
    "electronics",
    "Phone Accessories",
    (
        (
            quality("drop tested", "Drop tested from shoulder height.", "that survives falls"),
            quality("ultra thin", "Ultra thin: you hardly notice it.", "that adds no bulk"),
            quality("antibacterial", "Antibacterial coat that stays fresh.", "that stays free of germs"),
        ),
        (
            has("a card slot", "Card slot for a ticket and a bank card.", "that carries my bus ticket"),
            has("a kickstand", "Kickstand for films on the go.", "that props up the screen"),
            has("a wrist strap", "Wrist strap of flat cord.", "that i can hang on my arm"),
            has("a camera cover", "Camera cover that slides shut.", "that shields the lens"),
        ),
        (
            of("leather", "Leather that ages well.", "made of cowhide"),
            of("silicone", "Silicone with a velvet touch.", "in soft rubbery stuff"),
            of("cork", "Cork, light and grippy.", "made of bark"),
        ),
        (
            has("a magnet ring", "Magnet ring for car holders.", "that sticks to my car holder"),
            has("raised edges", "Raised edges around the screen.", "that keeps the glass off the table"),
            has("open ports", "Open ports, so that any plug fits.", "where all plugs still fit"),
        ),
    ),
    (
        Option("model", ("lark 5", "lark 6 plus", "orbit mini", "orbit max", "pebble"), "for model {}"),
        COLOR,
    ),
    (6, 45),
    (
        "It snaps on with one press and comes off with two thumbs.",
        "{brand} measures every cutout against the real phone.",
        "Buttons stay easy to find and easy to press.",
    ),
    ("clumsy hands", "building sites", "everyday pockets"),
    ("phone cover",),
)

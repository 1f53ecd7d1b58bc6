"""Widths of texts in Roboto, and line breaks. A table of advances, so that a layout needs neither Pillow nor the font.

The font itself comes from the package `font-roboto` (Apache-2.0) and is opened by the painter alone.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

__all__ = ["fit", "text_width", "wrap"]

# Characters by their advance in thousandths of the font size.
_REGULAR: Final = {
    175: "'",
    197: ",",
    200: "‘’",
    211: ";",
    239: "j",
    240: "¦",
    242: ":",
    243: "ilįĺļ",
    244: "|¡",
    248: " ¸ìíîïĩīĭıſ",
    252: "ĵ",
    258: "!",
    261: "·",
    264: ".",
    265: "[]",
    271: "ł",
    272: "IÌÍÎÏĨĪĬĮİ",
    276: "-",
    309: "`",
    313: "´",
    316: "ľ",
    320: '"',
    327: "tţŧ",
    337: "•",
    338: "{}",
    339: "rŕŗř",
    342: "(",
    347: "ť",
    348: ")f",
    351: "ŀ",
    354: "“",
    357: "”",
    367: "²³¹",
    374: "°",
    411: "\\",
    413: "/",
    418: "^¨",
    431: "*",
    447: "ª",
    451: "_",
    455: "º",
    458: "¯",
    469: "«»",
    473: "?yýÿŷ",
    474: "¿",
    482: "ĳ",
    484: "v",
    489: "¶",
    496: "xzźżž",
    507: "kķ",
    508: "<",
    516: "sśŝşš",
    523: ">cçćĉċč",
    525: "¥",
    530: "eèéêëēĕėęě",
    534: "×",
    535: "±",
    539: "LĹĻĽĿŁ",
    544: "aàáâãäåāăą",
    547: "¢",
    549: "=",
    551: "huùúûüĥũūŭůűų",
    552: "JnñĴńņňŉ",
    553: "F",
    554: "¬",
    557: "ĸ",
    562: "$0123456789bgpĝğġģ€",
    564: "d",
    565: "ħ",
    567: "+µøŋ",
    568: "EqÈÉÊËĒĔĖĘĚ",
    570: "oòóôõöōŏő",
    571: "÷",
    572: "−",
    576: "þ",
    582: "£",
    586: "ð",
    591: "Þ",
    594: "SŚŜŞŠ",
    595: "ß",
    597: "TŢŤŦ",
    598: "đ",
    599: "ZŹŻŽ",
    601: "YÝŶŸ",
    613: "§",
    616: "#RŔŖŘ",
    622: "&",
    623: "B",
    625: "™",
    627: "KXĶ",
    631: "P",
    637: "Vď",
    648: "UÙÚÛÜŨŪŬŮŰŲ",
    651: "CÇĆĈĊČ",
    652: "AÀÁÂÃÄÅĀĂĄ",
    656: "DĎ–",
    669: "…",
    671: "ÐĐ",
    680: "~",
    681: "GĜĞĠĢ",
    688: "OQÒÓÔÕÖØŌŎŐ",
    693: "Ŋ",
    701: "Ħ",
    713: "HN¤ÑĤŃŅŇ",
    732: "%¼",
    751: "wŵ",
    776: "½",
    778: "¾",
    781: "—",
    786: "©®",
    824: "Ĳ",
    845: "æ",
    873: "M",
    877: "m",
    887: "WŴ",
    898: "@",
    908: "œ",
    935: "Æ",
    954: "Œ",
}

_MEDIUM: Final = {
    169: "'",
    217: "’",
    219: "‘",
    220: ",",
    238: ";",
    249: " ¦",
    250: "j",
    251: "|",
    256: "ilįĺļſ",
    258: "¸",
    263: "ìíîïĩīĭı",
    265: ":¡",
    268: "!",
    269: "ĵ",
    274: "[]",
    279: ".",
    282: "I·ÌÍÎÏĨĪĬĮİ",
    289: "ł",
    322: "`",
    324: '"',
    326: "´",
    329: "-ľ",
    333: "tţŧ",
    335: "{}",
    349: "(",
    350: "•",
    352: "rŕŗř",
    353: ")ť",
    354: "f",
    363: "ŀ",
    370: "²³¹",
    380: "°",
    385: "“",
    389: "”",
    396: "/",
    418: "\\",
    428: "^",
    440: "¨",
    442: "*",
    446: "ª",
    451: "_",
    457: "º",
    482: "¯",
    485: "«»",
    487: "?y¿ýÿŷ",
    491: "¶",
    495: "v",
    503: "xzźżž",
    506: "ĳ",
    508: "<",
    517: "sśŝşš",
    521: ">",
    522: "kķ",
    524: "cçćĉċč",
    532: "¥",
    534: "×",
    537: "e±èéêëēĕėęě",
    542: "LaàáâãäåāăąĹĻĽĿ",
    549: "Ł",
    550: "F",
    554: "¬",
    555: "JhĥĴ",
    556: "nuñùúûüńņňŉũūŭůűų",
    558: "+",
    560: "=",
    561: "¢",
    563: "bp",
    564: "−",
    565: "EdÈÉÊËĒĔĖĘĚ",
    567: "gøĝğġģŋ",
    568: "$0123456789q€",
    569: "oòóôõöōŏő",
    570: "ħ",
    571: "÷",
    574: "þĸ",
    582: "ð",
    589: "£",
    591: "µ",
    599: "Þ",
    603: "ZŹŻŽ",
    604: "SŚŜŞŠ",
    607: "TŢŤŦ",
    609: "YÝŶŸ",
    610: "#",
    613: "ß",
    616: "đ",
    622: "§",
    625: "RŔŖŘ",
    629: "™",
    630: "KĶ",
    631: "B",
    633: "X",
    638: "ď",
    639: "&",
    640: "P",
    645: "–",
    647: "V",
    652: "UÙÚÛÜŨŪŬŮŰŲ",
    653: "CDÇĆĈĊČĎ",
    665: "~",
    666: "AÀÁÂÃÄÅĀĂĄ",
    668: "ÐĐ",
    681: "GĜĞĠĢ",
    690: "OQÒÓÔÕÖØŌŎŐ",
    697: "Ŋ",
    702: "¤",
    706: "…",
    710: "NÑŃŅŇ",
    711: "HĤĦ",
    727: "¼",
    734: "%",
    743: "wŵ",
    771: "½",
    773: "—",
    784: "©®",
    792: "¾",
    837: "Ĳ",
    844: "æ",
    871: "m",
    875: "M",
    880: "WŴ",
    895: "@",
    904: "œ",
    940: "Æ",
    963: "Œ",
}


class _Advances(dict[str, int]):
    """The advance of each character; of those that the table does not have, a common one."""

    def __missing__(self, character: str) -> int:
        return _OTHER


def _advances(table: dict[int, str]) -> _Advances:
    return _Advances({character: advance for advance, characters in table.items() for character in characters})


_OTHER: Final = 560
_TABLES: Final = (_advances(_REGULAR), _advances(_MEDIUM))


@lru_cache(maxsize=20000)
def text_width(text: str, size: int, bold: bool = False) -> int:
    """Return the width of one line in pixels at a font size in pixels."""
    return -(-sum(map(_TABLES[bold].__getitem__, text)) * size // 1000)


def _surely_fits(text: str, size: int, width: int) -> bool:
    """Return whether a text fits on one line even if every character is as wide as the font is high: none is wider."""
    return len(text) * size <= width and "\n" not in text


def wrap(text: str, size: int, width: int, bold: bool = False) -> tuple[str, ...]:
    """Return the lines of a text broken at spaces to fit a width in pixels; words that are too long are cut."""
    return (text,) if _surely_fits(text, size, width) else _wrapped(text, size, width, bold)


@lru_cache(maxsize=20000)
def _wrapped(text: str, size: int, width: int, bold: bool) -> tuple[str, ...]:
    lines: list[str] = []
    for paragraph in text.split("\n"):
        lines += _wrap_paragraph(paragraph, size, width, bold)
    return tuple(lines)


def _wrap_paragraph(text: str, size: int, width: int, bold: bool) -> list[str]:
    if text_width(text, size, bold) <= width:
        return [text]
    lines, line = [], ""
    for word in text.split(" "):
        longer = f"{line} {word}" if line else word
        if text_width(longer, size, bold) <= width:
            line = longer
            continue
        if line:
            lines.append(line)
        while text_width(word, size, bold) > width and len(word) > 1:
            cut = next((n for n in range(len(word) - 1, 1, -1) if text_width(word[:n], size, bold) <= width), 1)
            lines.append(word[:cut])
            word = word[cut:]
        line = word
    return [*lines, line]


def fit(text: str, size: int, width: int, bold: bool = False) -> str:
    """Return the text on one line, ended with an ellipsis where it is wider than `width` pixels."""
    return text if _surely_fits(text, size, width) else _fitted(text, size, width, bold)


@lru_cache(maxsize=20000)
def _fitted(text: str, size: int, width: int, bold: bool) -> str:
    line = text.replace("\n", " ")
    if text_width(line, size, bold) <= width:
        return line
    while line and text_width(f"{line}\u2026", size, bold) > width:
        line = line[:-1]
    return f"{line.rstrip()}\u2026"

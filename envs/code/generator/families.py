"""The families of generated functions, read from `families.toml`, and the arguments that functions are tried on."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from random import Random
from typing import Any, Final

__all__ = ["FAMILIES", "NAMES", "Family", "FunctionDraft", "draw_argument"]

_WORDS: Final = tuple("pear fig plum kiwi apple lime nut bean corn rice tea egg oat level".split())  # noqa: SIM905


@dataclass(frozen=True, slots=True)
class FunctionDraft:
    """A generated function.

    Args:
        key: identifies the function within its family.
        says: what it returns, with capital letters for its arguments: "the larger of A and B".
        code: its source.
        takes: kinds of its arguments, in order; see `draw_argument`.
        gives: kind of its value; "" if no other function takes it.
    """

    key: str
    says: str
    code: str
    takes: tuple[str, ...]
    gives: str = ""


@dataclass(frozen=True, slots=True)
class Family:
    """A family of functions; `table` is its entry in `families.toml`, which describes the fields."""

    table: dict[str, Any]

    def draw(self, rng: Random) -> FunctionDraft:
        """Draw a function of the family."""
        values: dict[str, object] = {}
        for draw in self.table.get("draws", ()):
            drawn = rng.choice(draw["choice"]) if "choice" in draw else rng.randint(*draw["range"])
            parts = drawn if isinstance(drawn, list) else [drawn]
            texts = [part.format(**values) if isinstance(part, str) else part for part in parts]
            for name, value in zip(draw["names"], texts, strict=True):
                values[name] = value
                if isinstance(value, int):
                    values |= {f"abs_{name}": abs(value), f"{name}_minus_1": value - 1}
        for name, (value, text) in self.table.get("optional", {}).items():
            values[name] = text.format(**values) if values[value] else ""
        table = self.table | self._variant(rng)
        key, says, code = (table[field].format(**values) for field in ("key", "says", "code"))
        return FunctionDraft(key, says, code, tuple(table["takes"]), table.get("gives", ""))

    def _variant(self, rng: Random) -> dict[str, object]:
        variants: list[dict[str, object]] = self.table.get("variant", [])
        if "coin" in self.table:
            return variants[0 if rng.random() < 0.5 else 1]
        return rng.choice(variants) if variants else {}


_DATA: Final = tomllib.loads(files(__package__).joinpath("families.toml").read_text(encoding="utf-8"))
FAMILIES: Final = {table["name"]: Family(table) for table in _DATA["family"]}
"""All families by name, the easier ones first."""
NAMES: Final[dict[str, list[str]]] = _DATA["names"]
"""Names that each capital letter of a draft may get."""


def draw_argument(kind: str, rng: Random) -> Any:
    """Draw an argument of a kind: "int", "ints", "text", "words", "counts", "rows", "tree", ..."""
    match kind:
        case "int":
            return rng.randint(-9, 9)
        case "count":
            return rng.randint(0, 9)
        case "positive":
            return rng.randint(1, 12)
        case "number":
            return rng.randint(0, 999)
        case "ints" | "some":
            return [rng.randint(-9, 9) for _ in range(rng.randint(0 if kind == "ints" else 1, 6))]
        case "text":
            return "".join(rng.choice("abcde") for _ in range(rng.randint(0, 7)))
        case "line":
            return " ".join(rng.choice(_WORDS) for _ in range(rng.randint(1, 4)))
        case "words":
            return [rng.choice(_WORDS) for _ in range(rng.randint(0, 5))]
        case "counts":
            return {rng.choice(_WORDS): rng.randint(0, 9) for _ in range(rng.randint(0, 4))}
        case "rows":
            return [[rng.randint(0, 9) for _ in range(3)] for _ in range(rng.randint(1, 3))]
        case "tree":
            return _tree(rng, 3)
        case "marks":
            return "".join(rng.choice("()") for _ in range(rng.randint(0, 6)))
    raise KeyError(kind)


def _tree(rng: Random, depth: int) -> list[object]:
    return [
        _tree(rng, depth - 1) if depth and rng.random() < 0.35 else rng.randint(0, 9) for _ in range(rng.randint(0, 3))
    ]

"""Names of entities, made of the parts in `names.toml`; each name belongs to one split, in every world.

A name is a tuple of indices into lists of parts. If their sum is 3 modulo 4, the name is held out. So no entity of one
split has a name of the other, although both use all parts.
"""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Any, Final

from turncredit.envs.errors import UnknownOption
from turncredit.tools.keyed_random import KeyedRandom

__all__ = ["Namer", "split_of"]

_DATA: Final[dict[str, Any]] = tomllib.loads(files(__package__).joinpath("names.toml").read_text(encoding="utf-8"))
_PARTS: Final = {name: words.split() for name, words in _DATA["parts"].items()}

Parts = tuple[int, ...]


def split_of(parts: Parts) -> str:
    """Return the split of the name with these indices of parts."""
    return "held_out" if sum(parts) % 4 == 3 else "train"


class Namer:
    """Gives every entity of one world a different name.

    Args:
        draw: source of randomness.
        split: split of the names.
        most: how many parts of each list are used at first.
        alike: probability that a name repeats a part of an earlier one.
    """

    def __init__(self, draw: KeyedRandom, split: str, most: int, alike: float) -> None:
        self._draw, self._split, self._most, self._alike = draw, split, most, alike
        self._given: dict[str, list[Parts]] = {}
        self._taken: set[str] = set()

    def name(self, kind: str, sort: str = "") -> str:
        """Return a new name for an entity of a kind (and sort).

        Raises:
            UnknownOption: no name is left.
        """
        form = _DATA[kind]
        lists = [_PARTS[part] for part in form["parts"]]
        older = self._given.setdefault(kind, [])
        sizes = [min(len(words), self._most) for words in lists]
        patience = 40 if self._most < 40 else 12
        for tries in range(1, 100_002):
            # When short names run out, longer ones are used.
            longer = 0 if tries <= patience else 1 + self._draw.between(0, 8)
            parts = [self._draw.between(0, size - 1) for size in sizes] + [longer]
            if older and self._draw.chance(self._alike):
                like = self._draw.pick(older)
                index = self._draw.between(0, len(sizes) - 1)
                parts[index] = like[index]
            words = [words[part] for words, part in zip(lists, parts, strict=False)]
            more = form["longer"][longer - 1] if longer else ""
            name: str = form["long" if longer else "short"].format(*words, sort=sort.capitalize(), more=more)
            if split_of(tuple(parts)) == self._split and name not in self._taken:
                older.append(tuple(parts))
                self._taken.add(name)
                return name
            if tries > 80:
                sizes = [len(words) for words in lists]
        raise UnknownOption(f"a world of this size needs more names of kind {kind!r} than there are")

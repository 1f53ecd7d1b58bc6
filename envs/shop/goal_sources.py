"""Sources of goals: WebShop's files, or generated catalogues.

A source provides the shop, the ids of its goals, and the goal of an id. Environments of a process share what was read
or generated. Sources and shops are pickled as their arguments, not as products.
"""

from __future__ import annotations

import os
from bisect import bisect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any, Final, Protocol

import numpy as np

from turncredit.envs.caching import SharedObjects
from turncredit.envs.errors import UnknownOption, UnknownTask
from turncredit.envs.shop.catalogue import Catalogue
from turncredit.envs.shop.generator import ShopLevel, catalogue, generated_goals, name_of
from turncredit.envs.shop.goal import Goal
from turncredit.envs.shop.goals import SHUFFLE, make_goals
from turncredit.envs.shop.prices import draw_prices
from turncredit.envs.shop.reward import RewardFunction
from turncredit.envs.shop.session import Shop
from turncredit.envs.shop.splits import goal_order, split_range
from turncredit.envs.shop.tagger import Tagger

__all__ = [
    "GOALS",
    "HUMAN_FROM",
    "MOST",
    "FileGoalSource",
    "FileSourceKey",
    "GeneratedGoalSource",
    "GeneratedSourceKey",
    "GoalSource",
    "MultiCatalogueGoalSource",
    "located",
    "stamps",
]

GOALS: Final = ("auto", "human", "synthetic")
MOST: Final = 10_000
"""Largest number of catalogues behind one environment."""
HUMAN_FROM: Final = 1500
"""goals="auto" takes human goals if there are more than this number, which WebShop's splits need."""


class GoalSource(Protocol):
    """What an environment needs of a source of goals."""

    @property
    def shop(self) -> Shop:
        """The shop, or the first of several."""

    def shop_of(self, id: str) -> Shop:
        """Return the shop of a goal."""

    def ids(self, count: int | None) -> list[str]:
        """Return the ids of the goals of the split."""

    def draw(self, rng: np.random.Generator) -> str:
        """Return the id of a random goal."""

    def get(self, id: str) -> Goal:
        """Return the goal of an id."""

    def find(self, goal: Goal) -> str | None:
        """Return the id of a goal with the same product, attributes and options, or None."""

    def made(self) -> dict[str, object]:
        """Return values that identify this source on any machine (see `snapshot`)."""


@dataclass(frozen=True, slots=True)
class FileSourceKey:
    """Everything that determines the shop and the goals of files.

    Attributes:
        paths: paths of products, attributes and human instructions, or "" (see `located`).
        stamps: size and modification time of each, so that a changed file is read again.
        num_products, strict, cache: see `Catalogue.open`.
        goals: "auto", "human" or "synthetic".
        seed: seed of the prices and price limits.
        rule, tagger: see `RewardFunction`.
        sub_page: whether the shop shows attributes.
        keep, limit, shuffle: see `make_goals`.
    """

    paths: tuple[str, str, str]
    stamps: tuple[tuple[int, int], ...]
    num_products: int | None
    strict: bool
    cache: str | bool
    goals: str
    seed: int
    rule: str
    tagger: str | Tagger
    sub_page: bool
    keep: Callable[[int, Goal], bool] | None = None
    limit: int | None = None
    shuffle: int = SHUFFLE


class FileGoalSource:
    """Goals of WebShop's files; ids are the numbers after the shuffle."""

    def __init__(self, key: FileSourceKey, split: str, splits: str) -> None:
        """Read the files and select the goals of a split.

        Raises:
            EnvError: a file is missing or broken, or there are no goals in the split.
        """
        self._made_of = key, split, splits
        self._opened = _opened(key)
        count = len(self._opened.goals)
        if not count:
            raise UnknownOption(f"no goals in {key.paths[0]}: {_why_none(key)}")
        order = goal_order(splits, count)
        self._numbers = [order[index] for index in split_range(split, splits, count)]
        self._split = split
        self._members = frozenset(self._numbers)
        self._weights = list(accumulate(self._opened.goals[number].weight for number in self._numbers))

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the arguments."""
        return type(self), self._made_of

    @property
    def shop(self) -> Shop:
        """The shop."""
        return self._opened.shop

    def shop_of(self, id: str) -> Shop:
        """Return the shop."""
        return self.shop

    def ids(self, count: int | None) -> list[str]:
        """Return the ids of the goals of the split."""
        return [str(number) for number in self._numbers[:count]]

    def draw(self, rng: np.random.Generator) -> str:
        """Return the id of a random goal, drawn by weight as in WebShop."""
        index = bisect(self._weights, rng.random() * self._weights[-1])
        return str(self._numbers[min(index, len(self._numbers) - 1)])

    def get(self, id: str) -> Goal:
        """Return the goal of an id.

        Raises:
            UnknownTask: the split has no such goal.
        """
        number = int(id) if id.isascii() and id.isdigit() and len(id) < 10 else -1
        if number not in self._members or str(number) != id:
            raise UnknownTask.of(id, self.ids(None), f"the split {self._split!r}")
        return self._opened.goals[number]

    def find(self, goal: Goal) -> str | None:
        """Return the id of the first goal with the same product, attributes and options in any split, or None."""
        number = self._opened.numbers.get(_identity(goal))
        return None if number is None else str(number)

    def made(self) -> dict[str, object]:
        """Return values that identify this source, without paths, which differ between machines."""
        key, split, splits = self._made_of
        many = f"{len(self.shop.catalogue):,} in files, with {len(self._opened.goals):,} goals"
        return {"products": many, "catalogue_seed": key.seed, "split": split, "splits": splits}


class _OpenedFiles:
    """A shop and its goals."""

    def __init__(self, shop: Shop, goals: Sequence[Goal]) -> None:
        self.shop = shop
        self.goals = goals
        self._numbers: dict[Any, int] | None = None

    @property
    def numbers(self) -> Mapping[Any, int]:
        """Number of the first goal with given product, attributes and options."""
        if self._numbers is None:
            self._numbers = {}
            for number, goal in enumerate(self.goals):
                self._numbers.setdefault(_identity(goal), number)
        return self._numbers


def _identity(goal: Goal) -> tuple[object, ...]:
    options = tuple(goal.options.items()) if isinstance(goal.options, Mapping) else goal.options
    return goal.asin, goal.attributes, options


@lru_cache(maxsize=4)
def _opened(key: FileSourceKey) -> _OpenedFiles:
    path, attributes, human_file = key.paths
    products = Catalogue.open(
        path, attributes or None, human_file or None, num_products=key.num_products, strict=key.strict, cache=key.cache
    )
    rng = Random(key.seed)
    prices = draw_prices(products, rng)
    human = key.goals == "human"
    if key.goals == "auto":
        written = sum(1 for item in products.instructed(True) for instruction in item.human if instruction.attributes)
        human = written > HUMAN_FROM
    goals = make_goals(products, prices, human=human, rng=rng, shuffle=key.shuffle, keep=key.keep, limit=key.limit)
    shop = _FilesShop(products, prices, RewardFunction(key.rule, key.tagger), attributes=key.sub_page)
    shop.key = key
    return _OpenedFiles(shop, goals)


class _FilesShop(Shop):
    """A shop that is pickled as its arguments."""

    key: FileSourceKey

    def __reduce__(self) -> tuple[object, ...]:
        return _shop_of_files, (self.key,)


def _shop_of_files(key: FileSourceKey) -> Shop:
    return _opened(key).shop


def _why_none(key: FileSourceKey) -> str:
    if key.keep is not None:
        return "keep may have rejected all of them"
    if key.goals == "human":
        return "goals='human' needs human instructions with attributes (human=PATH)"
    return "synthetic goals need a product with an instruction and its attributes (attributes=PATH)"


def stamps(*paths: str) -> tuple[tuple[int, int], ...]:
    """Return size in bytes and modification time in nanoseconds of files; (0, 0) for a missing file."""
    pairs = []
    for path in paths:
        try:
            status = os.stat(path) if path else None
        except (OSError, ValueError):
            status = None
        pairs.append((status.st_size, status.st_mtime_ns) if status else (0, 0))
    return tuple(pairs)


def located(
    products: str | os.PathLike[str],
    attributes: str | os.PathLike[str] | None = None,
    human: str | os.PathLike[str] | None = None,
) -> tuple[str, str, str]:
    """Return the absolute paths of the three files; "" for None.

    Raises:
        UnknownOption: an argument is not a path.
    """
    return _located(products, "products"), _located(attributes, "attributes"), _located(human, "human")


def _located(path: object, argument: str) -> str:
    if path is None:
        return ""
    if not isinstance(path, str | os.PathLike) or not path or isinstance(os.fspath(path), bytes) or "\0" in str(path):
        raise UnknownOption(f"{argument} must be the path of a file or None, got {path!r}")
    return str(Path(path).expanduser().absolute())


@dataclass(frozen=True, slots=True)
class GeneratedSourceKey:
    """Level and seed of a generated catalogue, and the shop's settings (see `FileSourceKey`)."""

    level: ShopLevel
    seed: int
    rule: str
    tagger: str | Tagger
    sub_page: bool


class GeneratedGoalSource:
    """Goals of a generated catalogue; ids are the same on every machine."""

    def __init__(self, key: GeneratedSourceKey, split: str) -> None:
        """Generate the catalogue.

        Raises:
            UnknownOption: there is no such split, or the catalogue is too small for it.
        """
        self._made_of = key, split
        self._goals = generated_goals(split, key.level, key.seed)
        self.shop: Shop = _generated_shop(key)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the arguments."""
        return type(self), self._made_of

    def shop_of(self, id: str) -> Shop:
        """Return the shop."""
        return self.shop

    def ids(self, count: int | None, start: int = 0) -> list[str]:
        """Return the ids of `count` goals (1,000 by default) of the split from number `start` on."""
        return self._goals.ids(count, start)

    def draw(self, rng: np.random.Generator) -> str:
        """Return the id of a random goal."""
        return self._goals.draw(rng)

    def get(self, id: str) -> Goal:
        """Return the goal of an id.

        Raises:
            UnknownTask: this split and catalogue have no such goal.
        """
        return self._goals.get(id)

    def find(self, goal: Goal) -> str | None:
        """Return None: a complete goal has no id of a generated one."""
        return None

    def made(self) -> dict[str, object]:
        """Return values that identify this source."""
        key, split = self._made_of
        return {"products": "generated", "level": key.level.text, "catalogue_seed": key.seed, "split": split}


class MultiCatalogueGoalSource:
    """Alternating goals of several generated catalogues, so that a policy cannot memorise one of them.

    Goal n is goal n // count of catalogue n % count, with the id that it has there.
    """

    def __init__(self, key: GeneratedSourceKey, split: str, count: int) -> None:
        """Use `count` catalogues from the key's seed on; each is generated when it is first needed.

        Raises:
            UnknownOption: there is no such split, the catalogues are too small for it, or the count is out of bounds.
        """
        if not 1 <= count <= MOST:
            raise UnknownOption(f"catalogues must be an integer from 1 to {MOST:,}, got {count}")
        self._made_of = key, split, count
        self.count = count
        self._numbers = {name_of(key.level, key.seed + number): number for number in range(count)}
        self._made: dict[int, GeneratedGoalSource] = {}
        self._one(0)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the arguments."""
        return type(self), self._made_of

    @property
    def shop(self) -> Shop:
        """The first shop."""
        return self._one(0).shop

    def shop_of(self, id: str) -> Shop:
        """Return the shop of a goal, or for an unknown id the first shop."""
        return self._one(self._number(id) or 0).shop

    def ids(self, count: int | None) -> list[str]:
        """Return the ids of the first `count` goals (1,000 by default) of the split."""
        prefixes = [f"{self._made_of[1]}/{name}/" for name in self._numbers]
        numbers = range(1000 if count is None else count)
        return [f"{prefixes[number % self.count]}{number // self.count:06d}" for number in numbers]

    def draw(self, rng: np.random.Generator) -> str:
        """Return the id of a random goal."""
        return self._one(int(rng.integers(self.count))).draw(rng)

    def get(self, id: str) -> Goal:
        """Return the goal of an id.

        Raises:
            UnknownTask: this split and these catalogues have no such goal.
        """
        number = self._number(id)
        if number is None:
            first, *_, last = [*self._numbers, *self._numbers]
            split = self._made_of[1]
            raise UnknownTask(
                f"unknown task {id!r} among goals of {self.count:,} catalogues: their ids are like "
                f"'{split}/{first}/000012', with catalogues from {first!r} to {last!r}"
            )
        return self._one(number).get(id)

    def find(self, goal: Goal) -> str | None:
        """Return None (see `GeneratedGoalSource.find`)."""
        return None

    def made(self) -> dict[str, object]:
        """Return values that identify this source."""
        return {**self._one(0).made(), "catalogues": self.count}

    def _number(self, id: str) -> int | None:
        parts = id.split("/")
        return self._numbers.get(parts[1]) if len(parts) == 3 else None

    def _one(self, number: int) -> GeneratedGoalSource:
        if number not in self._made:
            key, split, _ = self._made_of
            self._made[number] = GeneratedGoalSource(replace(key, seed=key.seed + number), split)
        return self._made[number]


class _GeneratedShop(Shop):
    """A shop that is pickled as its arguments."""

    key: GeneratedSourceKey

    def __reduce__(self) -> tuple[object, ...]:
        return _generated_shop, (self.key,)


_SHOPS: Final[SharedObjects[Shop]] = SharedObjects()


def _generated_shop(key: GeneratedSourceKey) -> Shop:
    return _SHOPS.get(key, lambda: _new_shop(key))


def _new_shop(key: GeneratedSourceKey) -> Shop:
    products = catalogue(key.level, key.seed)
    prices = draw_prices(products, Random(key.seed))
    shop = _GeneratedShop(products, prices, RewardFunction(key.rule, key.tagger), attributes=key.sub_page)
    shop.key = key
    return shop

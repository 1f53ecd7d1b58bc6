"""Where a shop's products and goals come from: a generated catalogue, or WebShop's files.

A source is a value: the fields of `GeneratedProducts` and `ProductFiles` are the arguments that belong to that kind
alone. `SOURCES` reads it from the plain keys that run files and the command line use.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from turncredit.envs.errors import UnknownOption
from turncredit.envs.shop.generator import ShopLevel
from turncredit.envs.shop.goal import Goal
from turncredit.envs.shop.goal_sources import (
    GOALS,
    FileGoalSource,
    FileSourceKey,
    GeneratedGoalSource,
    GeneratedSourceKey,
    GoalSource,
    MultiCatalogueGoalSource,
    located,
    stamps,
)
from turncredit.envs.shop.goals import SHUFFLE
from turncredit.envs.shop.tagger import Tagger
from turncredit.envs.sources import SourceKinds
from turncredit.envs.validation import choice, flag, integer

__all__ = ["SOURCES", "GeneratedProducts", "ProductFiles"]


@dataclass(frozen=True, slots=True)
class GeneratedProducts:
    """A generated catalogue, or several whose goals alternate.

    Attributes:
        level: size and difficulty: a preset of `ShopLevel`, its text, or a level.
        split: "train" or "held_out".
        catalogue_seed: seed of the catalogue, or of the first of several.
        catalogues: number of catalogues, from that seed on.

    Raises:
        UnknownOption: a field is invalid.
    """

    level: str | ShopLevel = "small"
    split: str = "train"
    catalogue_seed: int = 0
    catalogues: int = 1

    read_level = ShopLevel.parse

    def __post_init__(self) -> None:
        """Check the fields."""
        ShopLevel.of(self.level)
        integer("catalogue_seed", self.catalogue_seed)
        integer("catalogues", self.catalogues, 1)

    def open(self, rule: str, tagger: str | Tagger, show_attributes: bool) -> GoalSource:
        """Return the goals.

        Args:
            rule, tagger: see `RewardFunction`.
            show_attributes: whether products have a sub-page with their attributes.

        Raises:
            UnknownOption: there is no such split, or the catalogue is too small for it.
        """
        key = GeneratedSourceKey(ShopLevel.of(self.level), self.catalogue_seed, rule, tagger, show_attributes)
        if self.catalogues == 1:
            return GeneratedGoalSource(key, self.split)
        return MultiCatalogueGoalSource(key, self.split, self.catalogues)


@dataclass(frozen=True, slots=True)
class ProductFiles:
    """WebShop's files, or others in its format.

    Attributes:
        products: path of the products.
        attributes: path of the products' attributes and sentences.
        human: path of instructions that people wrote.
        split: "train", "eval" or "test".
        splits: rule that divides the goals: "original", "verl-agent", "ragen" or "all" (see `splits`).
        goals: "human", "synthetic", or "auto": human ones if there are more than 1,500.
        num_products: number of records to read; None for all.
        strict: raise an error for a broken record; else skip it and count it.
        catalogue_seed: seed of prices and price limits.
        cache: see `Catalogue.open`.
        keep, limit: see `goals.make_goals`.

    Raises:
        UnknownOption: a field is invalid.
    """

    products: str | os.PathLike[str]
    attributes: str | os.PathLike[str] | None = None
    human: str | os.PathLike[str] | None = None
    split: str = "train"
    splits: str = "original"
    goals: str = "auto"
    num_products: int | None = None
    strict: bool = True
    catalogue_seed: int = 0
    cache: str | os.PathLike[str] | bool = True
    keep: Callable[[int, Goal], bool] | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        """Check the fields; files are looked at when they are opened."""
        choice("goals", self.goals, GOALS)
        flag("strict", self.strict)
        integer("catalogue_seed", self.catalogue_seed)
        if not isinstance(self.cache, bool | str | os.PathLike):
            raise UnknownOption(f"cache must be True, False or the path of a folder, got {self.cache!r}")
        if self.keep is not None and not callable(self.keep):
            raise UnknownOption(f"keep must be a function of a number and a goal, or None, got {self.keep!r}")
        if self.limit is not None:
            integer("limit", self.limit, 1)
        located(self.products, self.attributes, self.human)

    def open(self, rule: str, tagger: str | Tagger, show_attributes: bool) -> GoalSource:
        """Return the goals (see `GeneratedProducts.open`).

        Raises:
            EnvError: a file is missing or broken, or there are no goals in the split.
        """
        paths = located(self.products, self.attributes, self.human)
        key = FileSourceKey(
            paths=paths,
            stamps=stamps(*paths),
            num_products=self.num_products,
            strict=self.strict,
            cache=self.cache if isinstance(self.cache, bool) else os.fspath(self.cache),
            goals=self.goals,
            seed=self.catalogue_seed,
            rule=rule,
            tagger=tagger,
            sub_page=show_attributes,
            keep=self.keep,
            limit=self.limit,
            shuffle=self.catalogue_seed if self.splits == "verl-agent" else SHUFFLE,
        )
        return FileGoalSource(key, self.split, self.splits)


_FILES_ONLY: Final = ("attributes", "human", "splits", "goals", "num_products", "strict", "keep", "limit")
SOURCES: Final = SourceKinds(
    GeneratedProducts,
    ProductFiles,
    dict.fromkeys(_FILES_ONLY, "needs products=PATH; a generated catalogue does not use it")
    | dict.fromkeys(("catalogues", "level"), "belongs to generated catalogues; remove it or products=PATH"),
)
"""The kinds of sources, and their plain keys."""

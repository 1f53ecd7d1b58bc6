r"""The reward of a purchase: the share of the goal's requirements that it satisfies.

$$ \text{total} = \text{type} \cdot \frac{a + o + p}{A + O + 1} $$

with $a$ of $A$ attributes and $o$ of $O$ options matched, and $p = 1$ if the price is within the limit. `matching` says
what counts as a match; `explanation` explains a reward part by part.

Source: WebShop (Yao et al. 2022, arXiv:2207.01206), section 3; the released code where they differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from turncredit.envs.errors import UnknownOption
from turncredit.envs.shop.goal import Goal
from turncredit.envs.shop.matching import RULES, attribute_match, option_keys, option_match, type_match
from turncredit.envs.shop.option_choice import best_options
from turncredit.envs.shop.product import Product
from turncredit.envs.shop.tagger import Tagger, find_tagger
from turncredit.registry import suggest

__all__ = ["Reward", "RewardFunction"]

_TITLES: Final = 1 << 17  # cached titles


@dataclass(frozen=True, slots=True)
class Reward:
    """A reward with its parts.

    Attributes:
        total: the reward, from 0 to 1.
        type: factor for the kind of product: 1, 0.5, 0.1 or 0.
        attributes: share of the goal's attributes that the product has; None if the goal has none.
        options: share of the goal's options that are satisfied; None if the goal has none.
        price: whether the price is within the goal's limit.
        query_match, category_match, title_score: see `matching.TypeMatch`.
        attributes_weight, options_weight, price_weight: weights of the shares; their sum is 1.
    """

    total: float
    type: float
    attributes: float | None
    options: float | None
    price: bool
    query_match: bool
    category_match: bool
    title_score: float
    attributes_weight: float
    options_weight: float
    price_weight: float

    def as_dict(self) -> dict[str, object]:
        """Return the parts under WebShop's names, without shares that the goal does not have."""
        parts: dict[str, object] = {"r_type": self.type}
        if self.attributes is not None:
            parts |= {"r_att": self.attributes, "w_att": self.attributes_weight}
        parts |= {
            "query_match": self.query_match,
            "category_match": self.category_match,
            "title_score": self.title_score,
        }
        if self.options is not None:
            parts |= {"r_option": self.options, "w_option": self.options_weight}
        return parts | {"r_price": self.price, "w_price": self.price_weight}


class RewardFunction:
    """Computes rewards under one rule with one tagger, and caches the nouns of titles."""

    def __init__(self, rule: str = "original", tagger: str | Tagger = "auto") -> None:
        """Find the tagger.

        Args:
            rule: "original" or "fixed" (see `matching`).
            tagger: a tagger or the name of one (see `tagger.find_tagger`).

        Raises:
            UnknownOption: the rule or the tagger is unknown, or the tagger is not installed.
        """
        if rule not in RULES:
            raise UnknownOption(f"unknown reward rule {rule!r}{suggest(str(rule), RULES)}")
        self.rule = rule
        self.tagger = find_tagger(tagger) if isinstance(tagger, str) else tagger
        self._nouns: dict[str, tuple[list[str], frozenset[str]]] = {}

    @property
    def tagger_name(self) -> str:
        """Name of the tagger."""
        return self.tagger.name

    def nouns(self, title: str) -> tuple[list[str], frozenset[str]]:
        """Return the nouns of a title, in order and as a set."""
        cached = self._nouns.get(title)
        if cached is None:
            nouns = self.tagger.nouns(title)
            cached = nouns, frozenset(nouns)
            if len(self._nouns) >= _TITLES:
                self._nouns.clear()
            self._nouns[title] = cached
        return cached

    def __call__(self, product: Product, goal: Goal, price: float, options: Mapping[str, str]) -> Reward:
        """Return the reward of buying a product.

        Args:
            product: the purchase.
            goal: the goal.
            price: price in dollars.
            options: selected values by option.
        """
        attributes = sum(attribute_match(product, attribute, self.rule) is not None for attribute in goal.attributes)
        keys = option_keys(goal, self.rule)
        chosen = sum(option_match(key, options.values(), self.rule) is not None for key in keys)
        kind = type_match(product, goal, self.nouns(product.name)[1], self.nouns(goal.name)[0])
        cheap = price <= goal.price_upper
        parts = len(goal.attributes) + len(keys) + 1
        return Reward(
            total=(attributes + chosen + cheap) / parts * kind.value,
            type=kind.value,
            attributes=attributes / len(goal.attributes) if goal.attributes else None,
            options=chosen / len(keys) if keys else None,
            price=cheap,
            query_match=kind.query_match,
            category_match=kind.category_match,
            title_score=kind.title_score,
            attributes_weight=len(goal.attributes) / parts,
            options_weight=len(keys) / parts,
            price_weight=1 / parts,
        )

    def best(self, product: Product, goal: Goal, price: float) -> tuple[Reward, dict[str, str]]:
        """Return the largest reward of buying a product, and the options to select (see `best_options`)."""
        options = best_options(product, goal, self.rule)
        return self(product, goal, price, options), options

"""What to buy: the sentence that the agent is told, and what the reward measures a purchase against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from turnwise.envs.errors import UnknownOption
from turnwise.registry import suggest

__all__ = ["UNBOUNDED", "Goal"]

UNBOUNDED: Final = 1000000.0
"""The price bound of a goal that names none, in dollars."""

_KEYS: Final = (
    "asin",
    "category",
    "query",
    "name",
    "product_category",
    "instruction_text",
    "attributes",
    "price_upper",
    "goal_options",
    "weight",
)


@dataclass(frozen=True, slots=True)
class Goal:
    """One goal.

    Attributes:
        asin: the product that it was made of; another one may fulfil it as well.
        category, query, name, product_category: those of the product (see `Product`).
        instruction: what the agent is told, price bound included.
        attributes: attributes that are asked for.
        price_upper: dollars; a purchase at this price or below is cheap enough.
        options: values of options that are asked for: by name (goals made of a product), or bare (goals of people).
        weight: share with which it is drawn, relative to the other goals.
    """

    asin: str
    category: str
    query: str
    name: str
    product_category: str
    instruction: str
    attributes: tuple[str, ...]
    price_upper: float = UNBOUNDED
    options: Mapping[str, str] | tuple[str, ...] = ()
    weight: float = 1.0

    @classmethod
    def of(cls, mapping: Mapping[str, Any]) -> Goal:
        """Return the goal that a mapping with the original's keys describes (see `as_dict`).

        Args:
            mapping: all keys but "weight" and "price_upper" are needed.

        Raises:
            UnknownOption: a key is missing, unknown, or holds something of another type.
        """
        if not isinstance(mapping, Mapping):
            raise UnknownOption(f"a goal is a mapping with the keys {', '.join(_KEYS)}; got {mapping!r}")
        for key in mapping:
            if key not in _KEYS:
                raise UnknownOption(f"a goal has no key {key!r}{suggest(str(key), _KEYS)}")
        for key in _KEYS[:7]:
            wanted: type | tuple[type, ...] = (list, tuple) if key == "attributes" else str
            if not isinstance(mapping.get(key), wanted):
                what = "a list of str" if key == "attributes" else "a str"
                raise UnknownOption(f"a goal's {key!r} is {what}; got {mapping.get(key)!r}")
        given = mapping.get("goal_options", ())
        if not isinstance(given, Mapping | list | tuple):
            raise UnknownOption(f"a goal's 'goal_options' is a mapping or a list; got {given!r}")
        return cls(
            asin=mapping["asin"],
            category=mapping["category"],
            query=mapping["query"],
            name=mapping["name"],
            product_category=mapping["product_category"],
            instruction=mapping["instruction_text"],
            attributes=_texts("attributes", mapping["attributes"]),
            price_upper=_number("price_upper", mapping.get("price_upper", UNBOUNDED)),
            options=_options(given),
            weight=_number("weight", mapping.get("weight", 1.0)),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the goal with the original's keys; `Goal.of` takes it back."""
        options: Any = dict(self.options) if isinstance(self.options, Mapping) else list(self.options)
        return {
            "asin": self.asin,
            "category": self.category,
            "query": self.query,
            "name": self.name,
            "product_category": self.product_category,
            "instruction_text": self.instruction,
            "attributes": list(self.attributes),
            "price_upper": self.price_upper,
            "goal_options": options,
            "weight": self.weight,
        }


def _options(given: Mapping[Any, Any] | Sequence[Any]) -> Mapping[str, str] | tuple[str, ...]:
    if isinstance(given, Mapping):
        return dict(zip(_texts("goal_options", given), _texts("goal_options", given.values()), strict=True))
    return _texts("goal_options", given)


def _texts(key: str, values: Any) -> tuple[str, ...]:
    texts = tuple(values)
    for text in texts:
        if not isinstance(text, str):
            raise UnknownOption(f"a goal's {key!r} holds str; got {text!r}")
    return texts


def _number(key: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UnknownOption(f"a goal's {key!r} is a number; got {value!r}")
    return float(value)

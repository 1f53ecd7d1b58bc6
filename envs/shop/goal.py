"""A goal: the instruction that the agent sees, and the requirements that the reward compares a purchase with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from turncredit.envs.errors import UnknownOption
from turncredit.registry import suggest

__all__ = ["UNBOUNDED", "Goal"]

UNBOUNDED: Final = 1000000.0
"""Price limit of a goal without one, in dollars."""

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
    """What to buy.

    Attributes:
        asin: the product that the goal was made of; other products may satisfy it as well.
        category, query, name, product_category: fields of that product (see `Product`).
        instruction: what the agent is told, including the price limit.
        attributes: attributes that the goal asks for.
        price_upper: price limit in dollars (inclusive).
        options: option values that it asks for: by name (synthetic goals) or without names (human goals).
        weight: relative probability of being drawn.
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
        """Return the goal of a mapping with WebShop's keys (see `as_dict`).

        Args:
            mapping: "goal_options", "weight" and "price_upper" are optional.

        Raises:
            UnknownOption: a key is missing or unknown, or a value has the wrong type.
        """
        if not isinstance(mapping, Mapping):
            raise UnknownOption(f"a goal must be a mapping with the keys {', '.join(_KEYS)}, got {mapping!r}")
        for key in mapping:
            if key not in _KEYS:
                raise UnknownOption(f"a goal has no key {key!r}{suggest(str(key), _KEYS)}")
        for key in _KEYS[:7]:
            expected: type | tuple[type, ...] = (list, tuple) if key == "attributes" else str
            if not isinstance(mapping.get(key), expected):
                description = "a list of strings" if key == "attributes" else "a string"
                raise UnknownOption(f"{key!r} of a goal must be {description}, got {mapping.get(key)!r}")
        options = mapping.get("goal_options", ())
        if not isinstance(options, Mapping | list | tuple):
            raise UnknownOption(f"'goal_options' of a goal must be a mapping or a list, got {options!r}")
        return cls(
            asin=mapping["asin"],
            category=mapping["category"],
            query=mapping["query"],
            name=mapping["name"],
            product_category=mapping["product_category"],
            instruction=mapping["instruction_text"],
            attributes=_texts("attributes", mapping["attributes"]),
            price_upper=_number("price_upper", mapping.get("price_upper", UNBOUNDED)),
            options=_options(options),
            weight=_number("weight", mapping.get("weight", 1.0)),
        )

    def as_dict(self) -> dict[str, object]:
        """Return the goal as a mapping with WebShop's keys (see `Goal.of`)."""
        options: object = dict(self.options) if isinstance(self.options, Mapping) else list(self.options)
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


def _options(options: Mapping[object, object] | Sequence[object]) -> Mapping[str, str] | tuple[str, ...]:
    if isinstance(options, Mapping):
        return dict(zip(_texts("goal_options", options), _texts("goal_options", options.values()), strict=True))
    return _texts("goal_options", options)


def _texts(key: str, values: Any) -> tuple[str, ...]:
    texts = tuple(values)
    for text in texts:
        if not isinstance(text, str):
            raise UnknownOption(f"{key!r} of a goal must contain strings, got {text!r}")
    return texts


def _number(key: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UnknownOption(f"{key!r} of a goal must be a number, got {value!r}")
    return float(value)

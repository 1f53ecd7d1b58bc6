"""Sentences of goals, in a fixed form or in natural language.

A goal is drawn first and worded afterwards, so the wording never changes what the goal asks for. A paraphrase uses
words that do not occur in the shop: it has to be understood, not just searched for.
"""

from __future__ import annotations

from dataclasses import dataclass

from turnwise.envs.shop.generator.level import ShopLevel
from turnwise.envs.shop.generator.product_text import phrase
from turnwise.envs.shop.generator.stable_random import StableRandom
from turnwise.envs.shop.generator.vocabulary import SENTENCES, Feature, ProductKind

__all__ = ["GoalContents", "goal_sentence"]


@dataclass(frozen=True, slots=True)
class GoalContents:
    """What a goal asks for.

    Attributes:
        kind, features: kind of product, and its features.
        values: name and value of options.
        brand: "" for any.
        bound: highest price in whole dollars; None for any.
    """

    kind: ProductKind
    features: tuple[Feature, ...]
    values: tuple[tuple[str, str], ...]
    brand: str
    bound: int | None


def goal_sentence(rng: StableRandom, level: ShopLevel, wanted: GoalContents) -> str:
    """Return the sentence of a goal in lower case, without a final full stop."""
    if not rng.chance(level.people):
        return _formal(rng, wanted)
    told = rng.chance(level.chatter)
    thing = _thing(rng, level, wanted)
    opening = rng.one(SENTENCES["openings"]).format(thing)
    parts = _spread(rng, wanted, opening) if wanted.values and rng.chance(0.4) else _dense(rng, wanted, opening)
    if told:
        parts.insert(rng.one((0, len(parts))), _chatter(rng, wanted.kind))
    return ". ".join(parts)


def _formal(rng: StableRandom, wanted: GoalContents) -> str:
    """Return a sentence such as "find a steel travel mug, color white, price below 30.00 dollars"."""
    parts = [rng.one(SENTENCES["plain"]).format(phrase(wanted.kind, wanted.features))]
    if wanted.brand:
        parts.append(f"brand {wanted.brand.lower()}")
    parts += [f"{name} {value}" for name, value in wanted.values]
    if wanted.bound is not None:
        parts.append(f"price below {wanted.bound:.2f} dollars")
    return ", ".join(parts)


def _thing(rng: StableRandom, level: ShopLevel, wanted: GoalContents) -> str:
    """Return the noun with its features, some of them paraphrased."""
    said = [one for one in wanted.features if not (one.others and rng.chance(level.paraphrase))]
    clauses = [rng.one(one.others) for one in wanted.features if one not in said]
    kind = wanted.kind
    noun = rng.one(kind.others) if kind.others and rng.chance(level.paraphrase) else ""
    text = phrase(kind, said, noun=noun)
    if wanted.brand:
        text += f" from {wanted.brand.lower()}"
    return " ".join([text, *_clauses(clauses, " with " in text)])


def _clauses(clauses: list[str], joined: bool) -> list[str]:
    """Join the clauses after the noun: materials and accessories first, then purposes, then abilities."""
    does = [clause for clause in clauses if clause.startswith(("that ", "where "))]
    aims = [clause for clause in clauses if clause.startswith("to ")]
    rest = [clause for clause in clauses if clause not in does and clause not in aims]
    if joined and rest and rest[0].startswith("with"):
        rest[0] = f"and {rest[0]}"
    return [" and ".join(group) for group in (rest, aims, does) if group]


def _dense(rng: StableRandom, wanted: GoalContents, opening: str) -> list[str]:
    """Return the request in one sentence, except perhaps for the budget."""
    options = {option.name: option for option in wanted.kind.options}
    phrases = [options[name].phrase.format(value) for name, value in rng.some(wanted.values, 9)]
    text = ", ".join([opening, *phrases])
    if wanted.bound is None:
        return [text]
    if rng.chance(0.3):
        return [text, _budget(rng, wanted, wanted.bound)]
    return [text + _price(rng, wanted, wanted.bound)]


def _spread(rng: StableRandom, wanted: GoalContents, opening: str) -> list[str]:
    """Return the request with the options in a separate sentence."""
    values = rng.some(wanted.values, 9)
    if rng.chance(0.5):
        second = " and ".join(f"the {name} should be {value}" for name, value in values)
    else:
        second = ", ".join(f"{name}: {value}" for name, value in values)
    if wanted.bound is None:
        return [opening, second]
    if rng.chance(0.5):
        return [opening, second, _budget(rng, wanted, wanted.bound)]
    return [opening + _price(rng, wanted, wanted.bound), second]


def _price(rng: StableRandom, wanted: GoalContents, bound: int) -> str:
    return _numbered(wanted.kind, rng.one(SENTENCES["prices"]).format(bound))


def _budget(rng: StableRandom, wanted: GoalContents, bound: int) -> str:
    return _numbered(wanted.kind, rng.one(SENTENCES["budgets"]).format(bound))


def _numbered(kind: ProductKind, text: str) -> str:
    return text.replace("it should", "they should") if kind.plural else text


def _chatter(rng: StableRandom, kind: ProductKind) -> str:
    return rng.one(SENTENCES["chatter_plural" if kind.plural else "chatter"]).format(rng.one(kind.uses).lower())

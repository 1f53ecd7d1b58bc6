"""Sentences of goals, in a fixed form or in natural language.

A goal is drawn first and worded afterwards, so the wording never changes what the goal asks for. A paraphrase uses
words that do not occur in the shop: it has to be understood, not just searched for.
"""

from __future__ import annotations

from dataclasses import dataclass

from turncredit.envs.shop.generator.level import ShopLevel
from turncredit.envs.shop.generator.product_text import phrase
from turncredit.envs.shop.generator.stable_random import StableRandom
from turncredit.envs.shop.generator.vocabulary import SENTENCES, Feature, ProductKind

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


def goal_sentence(rng: StableRandom, level: ShopLevel, contents: GoalContents) -> str:
    """Return the sentence of a goal in lower case, without a final full stop."""
    if not rng.chance(level.people):
        return _formal(rng, contents)
    told = rng.chance(level.chatter)
    thing = _thing(rng, level, contents)
    opening = rng.one(SENTENCES["openings"]).format(thing)
    parts = _spread(rng, contents, opening) if contents.values and rng.chance(0.4) else _dense(rng, contents, opening)
    if told:
        parts.insert(rng.one((0, len(parts))), _chatter(rng, contents.kind))
    return ". ".join(parts)


def _formal(rng: StableRandom, contents: GoalContents) -> str:
    """Return a sentence such as "find a steel travel mug, color white, price below 30.00 dollars"."""
    parts = [rng.one(SENTENCES["plain"]).format(phrase(contents.kind, contents.features))]
    if contents.brand:
        parts.append(f"brand {contents.brand.lower()}")
    parts += [f"{name} {value}" for name, value in contents.values]
    if contents.bound is not None:
        parts.append(f"price below {contents.bound:.2f} dollars")
    return ", ".join(parts)


def _thing(rng: StableRandom, level: ShopLevel, contents: GoalContents) -> str:
    """Return the noun with its features, some of them paraphrased."""
    stated = [feature for feature in contents.features if not (feature.others and rng.chance(level.paraphrase))]
    clauses = [rng.one(feature.others) for feature in contents.features if feature not in stated]
    kind = contents.kind
    noun = rng.one(kind.others) if kind.others and rng.chance(level.paraphrase) else ""
    text = phrase(kind, stated, noun=noun)
    if contents.brand:
        text += f" from {contents.brand.lower()}"
    return " ".join([text, *_clauses(clauses, " with " in text)])


def _clauses(clauses: list[str], joined: bool) -> list[str]:
    """Join the clauses after the noun: materials and accessories first, then purposes, then abilities."""
    does = [clause for clause in clauses if clause.startswith(("that ", "where "))]
    aims = [clause for clause in clauses if clause.startswith("to ")]
    others = [clause for clause in clauses if clause not in does and clause not in aims]
    if joined and others and others[0].startswith("with"):
        others[0] = f"and {others[0]}"
    return [" and ".join(group) for group in (others, aims, does) if group]


def _dense(rng: StableRandom, contents: GoalContents, opening: str) -> list[str]:
    """Return the request in one sentence, except perhaps for the budget."""
    options = {option.name: option for option in contents.kind.options}
    phrases = [options[name].phrase.format(value) for name, value in rng.some(contents.values, 9)]
    text = ", ".join([opening, *phrases])
    if contents.bound is None:
        return [text]
    if rng.chance(0.3):
        return [text, _budget(rng, contents, contents.bound)]
    return [text + _price(rng, contents, contents.bound)]


def _spread(rng: StableRandom, contents: GoalContents, opening: str) -> list[str]:
    """Return the request with the options in a separate sentence."""
    values = rng.some(contents.values, 9)
    if rng.chance(0.5):
        second = " and ".join(f"the {name} should be {value}" for name, value in values)
    else:
        second = ", ".join(f"{name}: {value}" for name, value in values)
    if contents.bound is None:
        return [opening, second]
    if rng.chance(0.5):
        return [opening, second, _budget(rng, contents, contents.bound)]
    return [opening + _price(rng, contents, contents.bound), second]


def _price(rng: StableRandom, contents: GoalContents, bound: int) -> str:
    return _numbered(contents.kind, rng.one(SENTENCES["prices"]).format(bound))


def _budget(rng: StableRandom, contents: GoalContents, bound: int) -> str:
    return _numbered(contents.kind, rng.one(SENTENCES["budgets"]).format(bound))


def _numbered(kind: ProductKind, text: str) -> str:
    return text.replace("it should", "they should") if kind.plural else text


def _chatter(rng: StableRandom, kind: ProductKind) -> str:
    return rng.one(SENTENCES["chatter_plural" if kind.plural else "chatter"]).format(rng.one(kind.uses).lower())

"""Sentences of goals: as a form would say it, and as people do.

A goal is drawn first, then worded: wording never changes what is asked. What is paraphrased names a feature in words
that the shop does not use, so that it must be understood and not only searched for.
"""

from __future__ import annotations

from dataclasses import dataclass

from turnwise.envs.shop.generator.draws import Draws
from turnwise.envs.shop.generator.level import Level
from turnwise.envs.shop.generator.words import Feature, Kind
from turnwise.envs.shop.generator.writing import phrase

__all__ = ["Wanted", "word"]

_PLAIN = ("find {}", "buy {}", "get {}")
_OPENINGS = (
    "i am looking for {}",
    "i need {}",
    "i want to buy {}",
    "could you find me {}",
    "please order {}",
    "show me {}",
    "do you have {}",
    "i would like {}",
    "we need {}",
    "help me find {}",
    "can you get me {}",
    "i am trying to find {}",
)
_PRICES = (
    ", under {} dollars",
    ", for less than {} dollars",
    ", and it should cost less than {} dollars",
    ", price below {} dollars",
    ", not above {} dollars",
)
_BUDGETS = ("my budget is {} dollars", "i can spend up to {} dollars", "it should not cost more than {} dollars")
_CHATTER = (
    "it is a present for my brother",
    "the one i had broke last week",
    "my neighbor has one and i am jealous",
    "i saw something like it on holiday",
    "i am not good at shopping, so please be careful",
    "my mother asked me to get it",
    "it is for {}",
)
_CHATTER_MANY = (
    "they are a present for my brother",
    "the last ones did not last",
    "my neighbor swears by them",
    "i saw something like that on holiday",
    "i am not good at shopping, so please be careful",
    "my mother asked me to get them",
    "they are for {}",
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a goal asks for: kind, features, values of options by name, brand ("" for any), bound in dollars or None."""

    kind: Kind
    features: tuple[Feature, ...]
    values: tuple[tuple[str, str], ...]
    brand: str
    bound: int | None


def word(draws: Draws, level: Level, wanted: Wanted) -> str:
    """Return the sentence of a goal, in small letters, without a full stop at its end."""
    if not draws.chance(level.people):
        return _formal(draws, wanted)
    told = draws.chance(level.chatter)
    thing = _thing(draws, level, wanted)
    opening = draws.one(_OPENINGS).format(thing)
    parts = _spread(draws, wanted, opening) if wanted.values and draws.chance(0.4) else _dense(draws, wanted, opening)
    if told:
        parts.insert(draws.one((0, len(parts))), _chatter(draws, wanted.kind))
    return ". ".join(parts)


def _formal(draws: Draws, wanted: Wanted) -> str:
    """As a form says it: "find a steel travel mug, color white, volume 350 ml, price below 30.00 dollars"."""
    parts = [draws.one(_PLAIN).format(phrase(wanted.kind, wanted.features))]
    if wanted.brand:
        parts.append(f"brand {wanted.brand.lower()}")
    parts += [f"{name} {value}" for name, value in wanted.values]
    if wanted.bound is not None:
        parts.append(f"price below {wanted.bound:.2f} dollars")
    return ", ".join(parts)


def _thing(draws: Draws, level: Level, wanted: Wanted) -> str:
    """The noun with its features, some of them in other words."""
    said = [one for one in wanted.features if not (one.others and draws.chance(level.paraphrase))]
    clauses = [draws.one(one.others) for one in wanted.features if one not in said]
    kind = wanted.kind
    noun = draws.one(kind.others) if kind.others and draws.chance(level.paraphrase) else ""
    text = phrase(kind, said, noun=noun)
    if wanted.brand:
        text += f" from {wanted.brand.lower()}"
    return " ".join([text, *_clauses(clauses, " with " in text)])


def _clauses(clauses: list[str], joined: bool) -> list[str]:
    """Join what is said after the noun: first what it is made of or comes with, then what it does."""
    does = [clause for clause in clauses if clause.startswith(("that ", "where "))]
    aims = [clause for clause in clauses if clause.startswith("to ")]
    rest = [clause for clause in clauses if clause not in does and clause not in aims]
    if joined and rest and rest[0].startswith("with"):
        rest[0] = f"and {rest[0]}"
    return [" and ".join(group) for group in (rest, aims, does) if group]


def _dense(draws: Draws, wanted: Wanted, opening: str) -> list[str]:
    """All in one sentence."""
    options = {option.name: option for option in wanted.kind.options}
    phrases = [options[name].phrase.format(value) for name, value in draws.some(wanted.values, 9)]
    text = ", ".join([opening, *phrases])
    if wanted.bound is None:
        return [text]
    if draws.chance(0.3):
        return [text, _budget(draws, wanted, wanted.bound)]
    return [text + _price(draws, wanted, wanted.bound)]


def _spread(draws: Draws, wanted: Wanted, opening: str) -> list[str]:
    """The options in a sentence of their own."""
    values = draws.some(wanted.values, 9)
    if draws.chance(0.5):
        second = " and ".join(f"the {name} should be {value}" for name, value in values)
    else:
        second = ", ".join(f"{name}: {value}" for name, value in values)
    if wanted.bound is None:
        return [opening, second]
    if draws.chance(0.5):
        return [opening, second, _budget(draws, wanted, wanted.bound)]
    return [opening + _price(draws, wanted, wanted.bound), second]


def _price(draws: Draws, wanted: Wanted, bound: int) -> str:
    return _numbered(wanted.kind, draws.one(_PRICES).format(bound))


def _budget(draws: Draws, wanted: Wanted, bound: int) -> str:
    return _numbered(wanted.kind, draws.one(_BUDGETS).format(bound))


def _numbered(kind: Kind, text: str) -> str:
    return text.replace("it should", "they should") if kind.many else text


def _chatter(draws: Draws, kind: Kind) -> str:
    return draws.one(_CHATTER_MANY if kind.many else _CHATTER).format(draws.one(kind.uses).lower())

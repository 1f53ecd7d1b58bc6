"""Titles, descriptions and feature lists of generated products.

No text of a product mentions a feature that the product lacks. Some features may appear on its features page alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from turncredit.envs.shop.generator.families import ProductSpec
from turncredit.envs.shop.generator.level import ShopLevel
from turncredit.envs.shop.generator.stable_random import StableRandom
from turncredit.envs.shop.generator.vocabulary import TITLES, Feature, ProductKind
from turncredit.envs.shop.product import HumanInstruction, Product

__all__ = ["article", "phrase", "write_product"]

_SMALL = {"with", "for", "and", "of", "in", "a", "the", "on", "to", "at"}
_OPENINGS = ("{Np}.", "{brand} presents {np}.", "{Np}, made by {brand}.", "Meet {np} by {brand}.")
_WORD = re.compile(r"[^\s-]+")


def article(words: str) -> str:
    """Return the words with "a" or "an" in front.

    >>> article("organic tea"), article("USB hub"), article("travel mug")
    ('an organic tea', 'a USB hub', 'a travel mug')
    """
    sound = words.lower()
    vowel = sound[0] in "aeiou" and not sound.startswith(("usb", "uni", "eu", "one"))
    return f"{'an' if vowel else 'a'} {words}"


def phrase(
    kind: ProductKind, features: Sequence[Feature], *, noun: str = "", lead: bool = True, articles: bool = True
) -> str:
    """Return a noun with its features around it, such as "a leakproof steel travel mug with a flip lid".

    Args:
        kind: the kind of product.
        features: its features, in the order in which they are named.
        noun: a noun to use in place of the kind's.
        lead: begin with "a", "some" or "a pair of".
        articles: put articles before the accessories ("with a flip lid").
    """
    named: dict[str, list[str]] = {"is": [], "of": [], "with": [], "for": []}
    for feature in features:
        named[feature.form].append(feature.article + feature.name if articles else feature.name)
    before = (", " if len(named["is"]) > 2 else " ").join(named["is"])
    words = " ".join([*([before] if before else ()), *named["of"], noun or kind.noun])
    for form in ("with", "for"):
        if names := named[form]:
            words += f" {form} " + ", ".join([*names[:-2], " and ".join(names[-2:])])
    if not lead:
        return words
    return article(words) if kind.lead == "a" else f"{kind.lead} {words}"


def write_product(rng: StableRandom, level: ShopLevel, spec: ProductSpec, asin: str) -> Product:
    """Return the product of a specification."""
    features = spec.features
    hidden = rng.one(features) if len(features) > 1 and rng.chance(level.hidden) else None
    shown = tuple(feature for feature in features if feature is not hidden)
    titled = _kept(rng, shown, rng.between(level.title))
    attributes = tuple(feature.name for feature in features)
    description, told = _description(rng, level, spec, shown)
    return Product(
        asin=asin,
        name=_title(rng, level, spec, titled),
        description=description,
        bullets=_bullets(rng, level, spec, shown, hidden, told),
        category=spec.kind.department,
        query=spec.kind.query,
        product_category=" › ".join((TITLES[spec.kind.department], spec.kind.aisle, spec.kind.query.title())),
        pricing=(spec.price,),
        price_tag=f"${spec.price}",
        options=dict(spec.choices),
        attributes=(*attributes, spec.brand.lower()),
        instruction=f"find {phrase(spec.kind, features)}",
        instruction_attributes=attributes,
        human=(_human(rng, spec),),
    )


def _kept(rng: StableRandom, features: Sequence[Feature], count: int) -> list[Feature]:
    """Return some of the features, in their order."""
    chosen = set(rng.some(range(len(features)), count))
    return [feature for index, feature in enumerate(features) if index in chosen]


def _title(rng: StableRandom, level: ShopLevel, spec: ProductSpec, features: list[Feature]) -> str:
    kind = spec.kind
    if level.length and features and rng.chance(0.5):  # as a list: Brand Travel Mug, Leakproof, with Flip Lid
        parts = [
            feature.name if feature.form in ("is", "of") else f"{feature.form} {feature.name}"
            for feature in rng.some(features, 9)
        ]
        words = ", ".join([f"{spec.brand} {kind.noun}", *parts])
    else:
        words = f"{spec.brand} {phrase(kind, features, lead=False, articles=False)}"
    if level.length == 2 and rng.chance(0.7):
        words += rng.one((", great for {}", ", ideal for {}", " - for {}")).format(rng.one(kind.uses))
    if level.length == 2 and kind.others and rng.chance(0.3):
        words += f", {kind.others[0]}"
    return _capitals(words)


def _capitals(words: str) -> str:
    def one(match: re.Match[str]) -> str:
        word = match[0]
        return word if word in _SMALL and match.start() else word[:1].upper() + word[1:]

    return _WORD.sub(one, words).replace("Usb C", "USB C").replace("Spf ", "SPF ")


def _description(
    rng: StableRandom, level: ShopLevel, spec: ProductSpec, features: Sequence[Feature]
) -> tuple[str, tuple[str, ...]]:
    """Return the description, and which sentences about the kind it contains."""
    kind = spec.kind
    named = phrase(kind, features, lead=kind.lead != "some")
    opening = rng.one(_OPENINGS[: 1 if level.length == 0 else 4])
    sentences = [opening.format(np=named, Np=named[0].upper() + named[1:], brand=spec.brand)]
    about = tuple(rng.some(kind.about, level.length))
    sentences += [sentence.format(brand=spec.brand) for sentence in about]
    if level.length:
        sentences.append(rng.one(("Good for {}.", "Made for {}.", "Just right for {}.")).format(rng.one(kind.uses)))
    return " ".join(sentences), about


def _bullets(
    rng: StableRandom,
    level: ShopLevel,
    spec: ProductSpec,
    shown: Sequence[Feature],
    hidden: Feature | None,
    told: tuple[str, ...],
) -> tuple[str, ...]:
    """Return the list of features; search reads its first line, so the hidden feature comes later."""
    first, *remaining = rng.some(shown, len(shown))
    lines = [feature.line for feature in remaining] + ([hidden.line] if hidden else [])
    if level.length:
        left = [sentence for sentence in spec.kind.about if sentence not in told]
        lines += [sentence.format(brand=spec.brand) for sentence in rng.some(left, level.length)]
    return (first.line, *rng.some(lines, len(lines)))


def _human(rng: StableRandom, spec: ProductSpec) -> HumanInstruction:
    """Return a request for the product by one feature and one value of each option."""
    feature = rng.one(spec.features)
    values = tuple(rng.one(values) for _, values in spec.choices)
    options = {option.name: option for option in spec.kind.options}
    phrases = [options[name].phrase.format(value) for (name, _), value in zip(spec.choices, values, strict=True)]
    text = ", ".join([f"i am looking for {phrase(spec.kind, [feature])}", *phrases])
    return HumanInstruction(text, (feature.name,), values)

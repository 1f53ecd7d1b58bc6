"""How often the choice of the part-of-speech tagger changes a reward of the shop.

    python benchmarks/shop_taggers.py PRODUCTS ATTRIBUTES [--taggers own nltk:FOLDER] [--near 10] [--far 5] [--goals N]

Both taggers compute the reward of every goal for three kinds of purchase, each with the best options and at its price:
the goal's own product, the first results of a search for its instruction, and random products. "changed" is the share
of purchases whose title score, type or reward differs, "won" the share that wins with only one of the taggers. Rewards
differ only through the type. nltk:FOLDER is NLTK's tagger with nltk_averaged_perceptron_tagger.zip from a folder.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from turncredit.envs.shop.catalogue import Catalogue
from turncredit.envs.shop.goal import Goal
from turncredit.envs.shop.goals import make_goals
from turncredit.envs.shop.prices import draw_prices
from turncredit.envs.shop.product import Product
from turncredit.envs.shop.reward import RewardFunction
from turncredit.envs.shop.tagger import Tagger, find_tagger


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("products")
    parser.add_argument("attributes")
    parser.add_argument("--taggers", nargs=2, default=["own", "spacy"], help="own, spacy or nltk:FOLDER")
    parser.add_argument("--rule", default="original")
    parser.add_argument("--near", type=int, default=10, help="products of a goal's search")
    parser.add_argument("--far", type=int, default=5, help="products drawn at random")
    parser.add_argument("--goals", type=int, help="number of goals, drawn at random; default: all")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()

    catalogue = Catalogue.open(asked.products, asked.attributes)
    rng = random.Random(asked.seed)
    prices = draw_prices(catalogue, rng)
    goals = make_goals(catalogue, prices, human=False, rng=rng)
    if asked.goals:
        goals = rng.sample(goals, min(asked.goals, len(goals)))
    judges = [RewardFunction(asked.rule, tagger_of(name)) for name in asked.taggers]
    report: dict[str, Any] = {"goals": len(goals), "taggers": asked.taggers, "rule": asked.rule}
    report["nouns shared"] = round(shared_nouns(catalogue, judges), 4)
    print(json.dumps(report | compared(catalogue, prices, goals, judges, asked), indent=2))


def tagger_of(name: str) -> Tagger:
    """The tagger of a name."""
    if not name.startswith("nltk:"):
        return find_tagger(name)
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "envs" / "shop"))
    tagger: Tagger = import_module("nltk_tagger").nltk_tagger(Path(name.removeprefix("nltk:")))
    return tagger


def shared_nouns(catalogue: Catalogue, judges: list[RewardFunction]) -> float:
    """Return the nouns of all titles that both taggers find, divided by those that either finds."""
    both = either = 0
    for product in catalogue:
        one, other = (Counter(judge.nouns(product.name)[0]) for judge in judges)
        both += (one & other).total()
        either += (one | other).total()
    return both / either


def compared(
    catalogue: Catalogue,
    prices: dict[str, float],
    goals: list[Goal],
    judges: list[RewardFunction],
    asked: argparse.Namespace,
) -> dict[str, Any]:
    """Return the shares of changed parts by kind of purchase, and which types became which."""
    seen: Counter[str] = Counter()
    changed: dict[str, Counter[str]] = {}
    types: Counter[str] = Counter()
    for goal in goals:
        for kind, product in bought(catalogue, goal, asked):
            options = judges[0].best(product, goal, prices[product.asin])[1]
            one, other = (judge(product, goal, prices[product.asin], options) for judge in judges)
            seen[kind] += 1
            counts = changed.setdefault(kind, Counter())
            counts["title_score"] += one.title_score != other.title_score
            counts["type"] += one.type != other.type
            counts["reward"] += one.total != other.total
            counts["won"] += (one.total == 1.0) != (other.total == 1.0)
            if one.type != other.type:
                types[f"{one.type:g} -> {other.type:g}"] += 1
    result: dict[str, Any] = {}
    for kind, counts in changed.items():
        shares = {part: round(count / seen[kind], 5) for part, count in counts.items()}
        result[kind] = {"purchases": seen[kind], "changed": shares}
    return result | {"types": dict(types.most_common())}


def bought(catalogue: Catalogue, goal: Goal, asked: argparse.Namespace) -> Iterator[tuple[str, Product]]:
    """Return the products to buy for a goal, by kind; the same ones for the same instruction."""
    own = catalogue.get(goal.asin)
    assert own is not None
    yield "own product", own
    for asin, _ in catalogue.search(goal.instruction, asked.near):
        product = catalogue.get(asin)
        if product is not None and asin != goal.asin:
            yield "near products", product
    rng = random.Random(f"{asked.seed} {goal.instruction}")
    for _ in range(asked.far):
        yield "products at random", catalogue[rng.randrange(len(catalogue))]


if __name__ == "__main__":
    main()

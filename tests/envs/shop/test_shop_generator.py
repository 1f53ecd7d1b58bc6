"""Generated shops: the same everywhere, held out by construction, attainable, and with look-alikes that will not do."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import re
import subprocess
import sys
from dataclasses import astuple, fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk_tagger import nltk_tagger

from turncredit.envs.errors import UnknownOption, UnknownTask
from turncredit.envs.shop.catalogue import Catalogue
from turncredit.envs.shop.generator import PRESETS, SPLITS, GeneratedGoals, ShopLevel, catalogue, generated_goals, write
from turncredit.envs.shop.generator.generated_catalogue import GeneratedCatalogue, generated_catalogue
from turncredit.envs.shop.generator.stable_random import StableRandom
from turncredit.envs.shop.goal import UNBOUNDED, Goal
from turncredit.envs.shop.product import Product
from turncredit.envs.shop.reward import RewardFunction
from turncredit.envs.shop.tagger import Tagger, find_tagger

JUDGE = RewardFunction(tagger="own")
FAST = ["tiny", "small"]
LEVELS = st.builds(
    ShopLevel,
    products=st.integers(8, 60),
    kinds=st.integers(1, 4) | st.just(30),
    distractors=st.integers(0, 5),
    variety=st.integers(2, 6),
    attributes=st.sampled_from([(1, 1), (2, 3), (5, 9)]),
    title=st.sampled_from([(0, 0), (1, 9)]),
    options=st.sampled_from([(0, 0), (0, 2), (1, 3)]),
    values=st.sampled_from([(2, 2), (2, 20)]),
    length=st.integers(0, 2),
    id_length=st.integers(4, 10),
    hidden=st.sampled_from([0, 0.3, 1]),
    ask_attributes=st.sampled_from([(1, 1), (1, 3), (4, 9)]),
    ask_options=st.sampled_from([(0, 0), (0, 2), (2, 9)]),
    priced=st.sampled_from([0, 0.5, 1]),
    slack=st.sampled_from([(0, 0), (0.125, 3)]),
    brands=st.sampled_from([0, 1]),
    people=st.sampled_from([0, 1]),
    paraphrase=st.sampled_from([0, 0.5, 1]),
    chatter=st.sampled_from([0, 1]),
)


def some_goals(split: str, level: ShopLevel | str, count: int, seed: int = 0) -> list[Goal]:
    goals = generated_goals(split, level, seed)
    return [goals.get(id) for id in goals.ids(count)]


def perfect(product: Product, goal: Goal, judge: RewardFunction = JUDGE) -> float:
    return judge(product, goal, product.pricing[0], dict(goal.options)).total


def siblings(generated: GeneratedCatalogue, asin: str) -> list[Product]:
    family = next(names for names in generated.asins if asin in names)
    found = [generated.catalogue.get(name) for name in family if name != asin]
    return [product for product in found if product is not None]


# ---- the same everywhere ----


DIGESTS = {
    ("tiny", 0): "96bb0e1685581c3d",
    ("tiny", 3): "116c4d82f377571d",
    ("small", 0): "bb6e1de2fa445cad",
    ("small", 7): "e643a5f183dc692a",
    ("medium+products=600", 1): "43e95d188d809678",
    ("large+products=600", 2): "1450342fc448aeb4",
}


def digest(level: str, seed: int) -> str:
    """A digest of all products and of the first goals of both splits."""
    goals = [goal for split in SPLITS for goal in some_goals(split, level, 50, seed)]
    text = repr([astuple(one) for one in (*catalogue(level, seed), *goals)])
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


@pytest.mark.parametrize(("level", "seed"), DIGESTS)
def test_catalogues_and_goals_are_the_recorded_ones(level: str, seed: int):
    assert digest(level, seed) == DIGESTS[level, seed]


def test_a_shop_is_the_same_in_another_process_with_another_hash_seed():
    code = "import test_shop_generator as t; print(t.digest('small', 7))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parent,
        env={**os.environ, "PYTHONHASHSEED": "4242"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == DIGESTS["small", 7]


def test_the_random_sequence_is_fixed():
    # The sequence that every Python gives; if this fails, all task ids would mean other goals.
    draws = StableRandom("train/small/000000")
    assert [draws.below(1000) for _ in range(4)] == [176, 965, 233, 721]
    assert draws.some("abcdef", 3) == ["f", "a", "b"]


def test_draws_respect_their_bounds():
    draws = StableRandom("x")
    assert {draws.between((2, 4)) for _ in range(99)} == {2, 3, 4}
    assert {draws.one("ab") for _ in range(99)} == {"a", "b"}
    assert sorted(draws.some("abc", 9)) == ["a", "b", "c"]
    assert draws.some("abc", 0) == []
    assert not draws.chance(0)
    assert draws.chance(1)


def test_the_seed_chooses_the_catalogue_and_its_goals():
    assert list(catalogue("tiny", 0)) != list(catalogue("tiny", 1))
    assert generated_goals("train", "tiny", 7).ids(1) == ["train/tiny@7/000000"]
    first = generated_goals("train", "tiny", 7)
    assert catalogue("tiny", 7).get(first.get("train/tiny@7/000000").asin) is not None
    with pytest.raises(UnknownTask, match="tiny@7"):
        first.get("train/tiny/000000")


def test_a_catalogue_is_made_once():
    assert catalogue("tiny") is catalogue(ShopLevel.parse("tiny"))
    assert generated_goals("train", "tiny") is generated_goals("train", PRESETS["tiny"])


# ---- disjoint ----


@pytest.mark.parametrize("level", ["tiny", "small", "medium+products=500", "tiny+products=8+kinds=2+distractors=0"])
def test_no_product_is_the_subject_of_goals_of_both_splits(level: str):
    subjects = {split: {goal.asin for goal in some_goals(split, level, 600)} for split in SPLITS}
    generated = generated_catalogue(ShopLevel.parse(level))
    of_split = {
        split: {asin for number in generated.splits[split] for asin in generated.asins[number]} for split in SPLITS
    }
    for split in SPLITS:
        assert subjects[split] <= of_split[split]
    assert not of_split["train"] & of_split["held_out"]
    assert of_split["train"] | of_split["held_out"] == {product.asin for product in generated.catalogue}


@pytest.mark.parametrize("level", PRESETS)
def test_a_quarter_is_held_out_of_every_kind(level: str):
    generated = generated_catalogue(PRESETS[level])
    held_out = generated.splits["held_out"]
    assert len(held_out) == pytest.approx(len(generated.families) / 4, rel=0.1)
    assert {generated.families[number].members[0].kind for number in held_out} == {
        family.members[0].kind for family in generated.families
    }


@pytest.mark.parametrize(("level", "least"), [("tiny", 0.7), ("small", 0.97)])
def test_a_held_out_panel_hardly_repeats_a_goal(level: str, least: float):
    goals = some_goals("held_out", level, 100)
    assert len({(goal.asin, goal.attributes, str(goal.options), goal.price_upper) for goal in goals}) >= least * 100


# ---- goals: attainable by their product, and by none of its look-alikes ----


class Every:
    """A tagger to which every word is a noun."""

    name = "every"

    def nouns(self, text: str) -> list[str]:
        return text.lower().split()


class Never(Every):
    """A tagger to which none is."""

    name = "never"

    def nouns(self, text: str) -> list[str]:
        return []


def judges() -> list[RewardFunction]:
    return [RewardFunction(rule, tagger) for rule in ("original", "fixed") for tagger in ("own", Every(), Never())]


@pytest.mark.parametrize("level", ["tiny", "small", "medium+products=900", "large+products=900"])
def test_every_goal_is_worth_one_by_its_own_product_and_less_by_its_look_alikes(level: str):
    generated = generated_catalogue(ShopLevel.parse(level))
    own, *others = judges()
    for split in SPLITS:
        for number, goal in enumerate(some_goals(split, level, 700)):
            product = generated.catalogue.get(goal.asin)
            assert product is not None
            assert perfect(product, goal, own) == 1.0
            assert number % 7 or all(perfect(product, goal, judge) == 1.0 for judge in others)
            for other in siblings(generated, goal.asin):
                assert own.best(other, goal, other.pricing[0])[0].total < 1.0, (goal, other)


def test_goals_are_worth_one_with_the_other_taggers():
    found: list[Tagger] = []
    if "TURNCREDIT_DATA" in os.environ:
        found.append(nltk_tagger(Path(os.environ["TURNCREDIT_DATA"]) / "webshop"))
    with contextlib.suppress(UnknownOption):
        found.append(find_tagger("spacy"))
    if not found:
        pytest.skip("neither spaCy nor NLTK's tables are here (TURNCREDIT_DATA has them)")
    goals = generated_goals("train", "small")
    for tagger in found:
        judge = RewardFunction(tagger=tagger)
        assert all(perfect(goals.product(goal), goal, judge) == 1.0 for goal in some_goals("train", "small", 200))


@settings(max_examples=25, deadline=None)
@given(level=LEVELS, seed=st.integers(-3, 10**12), split=st.sampled_from(SPLITS))
def test_the_laws_hold_at_any_level_and_seed(level: ShopLevel, seed: int, split: str):
    generated = generated_catalogue(level, seed)
    assert len(generated.catalogue) == level.products == len({product.asin for product in generated.catalogue})
    if not generated.splits[split]:
        with pytest.raises(UnknownOption, match="too small"):
            generated_goals(split, level, seed)
        return
    goals = generated_goals(split, level, seed)
    for id in goals.ids(12, 5):
        goal = goals.get(id)
        product = goals.product(goal)
        assert perfect(product, goal) == 1.0
        assert all(JUDGE.best(one, goal, one.pricing[0])[0].total < 1 for one in siblings(generated, goal.asin))
        assert goal.instruction == goal.instruction.lower().strip(" .,")
        assert all(product.options[name].count(value) == 1 for name, value in goal.options.items())


@pytest.mark.parametrize("level", ["tiny", "small", "large+products=900"])
def test_a_look_alike_differs_from_the_first_of_its_family_in_one_thing(level: str):
    seen = set()
    for family in generated_catalogue(ShopLevel.parse(level)).families:
        base, *others = family.members
        for other in others:
            differs = [field.name for field in fields(base) if getattr(base, field.name) != getattr(other, field.name)]
            assert len(differs) == 1
            seen.add(differs[0])
            if differs != ["price"]:
                assert len(set(getattr(base, differs[0])) ^ set(getattr(other, differs[0]))) == 2 or differs == [
                    "brand"
                ]
            else:
                assert other.price > base.price
    assert seen == {"features", "choices", "price"} | ({"brand"} if ShopLevel.parse(level).brands else set())


@pytest.mark.parametrize("level", FAST)
def test_goals_ask_for_as_much_as_the_level_says(level: str):
    dials = ShopLevel.parse(level)
    goals = some_goals("train", level, 300)
    brands = {product.asin: product.attributes[-1] for product in catalogue(level)}
    counts = {len([one for one in goal.attributes if one != brands[goal.asin]]) for goal in goals}
    assert counts == set(range(dials.ask_attributes[0], dials.ask_attributes[1] + 1))
    offered = {product.asin: len(product.options) for product in catalogue(level)}
    assert all(min(offered[goal.asin], dials.ask_options[0]) <= len(goal.options) for goal in goals)
    assert all(len(goal.options) <= dials.ask_options[1] for goal in goals)
    bounded = [goal for goal in goals if goal.price_upper < UNBOUNDED]
    assert dials.priced < len(bounded) / len(goals) < 1.0
    assert all(f"{goal.price_upper:.0f}" in goal.instruction for goal in bounded)


def test_the_sentence_contains_every_wish_unless_it_is_paraphrased():
    for goal in some_goals("train", "small+paraphrase=0", 200):
        assert all(attribute in goal.instruction for attribute in goal.attributes)
        assert all(value in goal.instruction for value in goal.options.values())
    hidden = [
        goal
        for goal in some_goals("train", "small+paraphrase=1+people=1", 200)
        if any(one in goal.instruction for one in goal.attributes if one != catalogue_brand(goal))
    ]
    assert not hidden


def catalogue_brand(goal: Goal) -> str:
    product = catalogue("small+paraphrase=1+people=1").get(goal.asin)
    assert product is not None
    return product.attributes[-1]


# ---- search ----


@pytest.mark.parametrize("level", ["tiny", "small", "medium"])
def test_sensible_words_find_the_product_and_the_first_result_is_often_wrong(level: str):
    generated = catalogue(level)
    goals = some_goals("held_out", level, 150)
    found = right = 0
    for goal in goals:
        words = " ".join([*goal.attributes, goal.query, *goal.options.values()])
        found += goal.asin in dict(generated.search(words, 50))
        assert goal.asin in dict(generated.search(goal.name, 50))
        first = generated.get(generated.search(goal.instruction, 1)[0][0])
        assert first is not None
        right += JUDGE.best(first, goal, first.pricing[0])[0].total == 1.0
    assert found >= 0.99 * len(goals)
    assert right <= (0.75 if level == "tiny" else 0.5) * len(goals)  # with the best options


@pytest.mark.parametrize("level", FAST)
def test_pages_do_not_mention_features_that_a_product_lacks(level: str):
    pools: dict[str, set[str]] = {}
    for product in catalogue(level):
        pools.setdefault(product.query, set()).update(product.attributes)
    for product in catalogue(level):
        text = " ".join([product.name, product.description, *product.bullets]).lower()
        for attribute in pools[product.query] - set(product.attributes):
            assert attribute not in text
        assert all(attribute in text for attribute in product.attributes)


def test_pages_of_the_tiny_level_are_short():
    for product in catalogue("tiny"):
        assert 3 <= len(product.name.split()) <= 9
        assert len(product.asin) == 3
        assert 1 <= len(product.options) <= 2
        assert all(2 <= len(values) <= 3 for values in product.options.values())
    lengths = [len(goal.instruction.split()) for goal in some_goals("train", "tiny", 300)]
    assert sum(lengths) / len(lengths) < 16
    words = {word for goal in some_goals("train", "tiny", 600) for word in goal.instruction.split() if word.isalpha()}
    assert len(words) < 150


@pytest.mark.parametrize(
    ("length", "form"), [(2, "[B-Z][0-9]"), (3, "[B-Z][0-9]{2}"), (9, "[B-Z][0-9]{8}"), (10, "B0[0-9A-Z]{8}")]
)
def test_ids_are_of_the_length_asked_for_and_differ(length: int, form: str):
    ids = [product.asin for product in catalogue(f"tiny+products=100+id_length={length}")]
    assert all(re.fullmatch(form, id) for id in ids)
    assert len(set(ids)) == 100


# ---- files ----


def test_an_exported_catalogue_is_read_back(tmp_path: Path):
    for level in FAST:
        paths = write(tmp_path / level, level, 3)
        again = Catalogue.open(**paths, cache=False)
        assert list(again) == list(catalogue(level, 3))
        assert not [path for path in (tmp_path / level).iterdir() if path not in paths.values()]


def test_a_folder_that_is_a_file_is_an_error_of_the_system(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        write(tmp_path / "file", "tiny")


# ---- dials and ids ----


def test_presets_are_written_by_their_names():
    assert {name: level.text for name, level in PRESETS.items()} == {name: name for name in PRESETS}


@given(LEVELS)
def test_a_level_is_read_back_from_its_text(level: ShopLevel):
    assert ShopLevel.parse(level.text) == level
    assert "/" not in level.text
    assert "@" not in level.text


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("smal", ("'smal'", "'small'")),
        ("", ("''", "tiny", "large")),
        ("small+distractor=3", ("'distractor'", "'distractors'")),
        ("small+distractors", ("'distractors'",)),
        ("small+products=many", ("products", "'many'")),
        ("small+products=1", ("products", "2 to 1,000,000", "got 1")),
        ("small+products=2.5", ("products", "'2.5'")),
        ("small+kinds=31", ("kinds", "1 to 30", "got 31")),
        ("small+values=4-2", ("values", "least <= most", "got 4-2")),
        ("small+hidden=1.5", ("hidden", "0 to 1", "got 1.5")),
        ("small+hidden=nan", ("hidden", "got nan")),
        ("small+slack=-1", ("slack", "'-1'")),
        ("small+slack=0-inf", ("slack", "got 0-inf")),
        ("tiny+products=5000", ("id_length=3", "5,000")),
        ("tiny+products=101+id_length=2", ("id_length=2", "101")),
        ("tiny+id_length=1", ("id_length", "2 to 10", "got 1")),
    ],
)
def test_a_wrong_level_is_named_with_the_choices(text: str, parts: tuple[str, ...]):
    with pytest.raises(UnknownOption) as caught:
        catalogue(text)
    assert all(part in str(caught.value) for part in parts), caught.value


@given(st.text(alphabet="tinysmal+=-.0123456789productsvalue", max_size=30) | st.text(max_size=20))
def test_any_text_is_a_level_or_one_sentence(text: str):
    try:
        level = ShopLevel.parse(text)
    except UnknownOption:
        return
    assert ShopLevel.parse(level.text) == level


def test_goals_of_another_split_or_of_too_few_products_are_refused():
    with pytest.raises(UnknownOption, match=r"unknown split 'test' of generated goals; choose one of: train, held_out"):
        generated_goals("test", "tiny")
    with pytest.raises(UnknownOption, match="too small for a split 'held_out'"):
        generated_goals("held_out", "tiny+products=4")


@given(st.text(max_size=30) | st.sampled_from(["train/tiny/12", "train/tiny/0000012", "held_out/tiny/000001"]))
def test_invalid_ids_are_refused(id: str):
    with pytest.raises(UnknownTask, match="train/tiny/000012"):
        generated_goals("train", "tiny").get(id)


def test_ids_are_numbered_and_can_be_drawn():
    goals = generated_goals("held_out", "small")
    assert goals.ids(2, 12) == ["held_out/small/000012", "held_out/small/000013"]
    assert len(goals.ids()) == 1000
    assert goals.get("held_out/small/123456789").asin
    for rng in (np.random.default_rng(5), random.Random(5)):
        drawn = {goals.draw(rng) for _ in range(20)}
        assert len(drawn) == 20
        assert all(isinstance(goals.get(id), Goal) for id in drawn)


def test_products_of_another_catalogue_are_not_found():
    goals = GeneratedGoals("train", PRESETS["tiny"])
    with pytest.raises(UnknownTask, match="not in the catalogue 'tiny'"):
        goals.product(generated_goals("train", "small").get("train/small/000000"))

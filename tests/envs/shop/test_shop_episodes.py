"""The sixteen episodes that were recorded on WebShop's server replay byte for byte."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest
from nltk_tagger import nltk_tagger

from turncredit.envs.shop.env import WebShopEnv, from_keys
from turncredit.envs.shop.reward import RewardFunction

KEYS = {"text": "text", "text_rich": "text_rich", "url": "url"}


@functools.cache
def opened(folder: Path, observation: str, cache: Path, **options: Any) -> WebShopEnv:
    """The environment on WebShop's files with the tagger of the recordings."""
    return from_keys(
        products=folder / "items_shuffle_1000.reconstructed.json",
        attributes=folder / "items_ins_v2_1000.json",
        human=folder / "items_human_ins.subset_1000.json",
        observation=observation,
        tagger=nltk_tagger(folder),
        cache=cache,
        **options,
    )


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize("number", range(16))
@pytest.mark.parametrize("observation", KEYS)
def test_recorded_episodes(data_dir: Path, cache: Path, observation: str, number: int) -> None:
    folder = data_dir / "webshop"
    episode = json.loads((folder / "episodes.json").read_text(encoding="utf-8"))[number]
    env = opened(folder, observation, cache)
    prices = {episode["bought"]: episode["price_of_bought"]}
    start, *steps = episode["steps"]
    seen, info = env.reset(options={"goal": episode["goal"], "prices": prices})
    assert seen == start[KEYS[observation]]
    for step in steps:
        listed = info["admissible_actions"]
        seen, reward, terminated, truncated, info = env.step(step["action"])
        assert seen == step[KEYS[observation]]
        assert (reward, terminated, truncated) == (step["reward"], step["done"], False)
        assert env.session.clickables() == step["available"]["clickables"]
        assert info["valid"] == (step["action"] in listed or step["action"].startswith("search"))
    assert terminated
    assert info["score"] == steps[-1]["reward"]
    assert info["won"] == (steps[-1]["reward"] == 1.0)
    assert list(info["reward_parts"].items()) == list(episode["verbose_info"].items())
    product = env.shop.product(episode["bought"])
    own = RewardFunction(tagger="own")(product, env.session.goal, episode["price_of_bought"], episode["options"])
    assert own.total == info["score"]


def test_the_set_of_a_thousand_products(data_dir: Path, cache: Path) -> None:
    env = opened(data_dir / "webshop", "text", cache, splits="all")
    assert len(env.task_ids()) == 6910
    assert len(opened(data_dir / "webshop", "text", cache).task_ids()) == 6910 - 1500
    assert env.task_ids(3) == ["0", "1", "2"]
    assert env.shop.reward_function.tagger_name == "nltk"


def test_every_page_of_every_product_is_within_the_space(data_dir: Path, cache: Path) -> None:
    env = opened(data_dir / "webshop", "text_rich", cache)
    env.reset(seed=0)
    session = env.session
    for product in env.shop.catalogue:
        session.act(f"search[<q> {product.query}]")
        while not session.act(f"click[{product.asin.lower()}]"):
            assert session.act("click[next >]")
        for action in ("click[description]", "click[< prev]", "click[features]", "click[< prev]"):
            seen, _, _, _, info = env.step(action)
            assert info["valid"]
            assert seen in env.observation_space

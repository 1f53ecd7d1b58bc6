"""Results with numbers instead of ids: the same shop under other names."""

from __future__ import annotations

import random
import re
from typing import Any

import gymnasium
import pytest

import turncredit.envs  # noqa: F401  (registers the environments)
from turncredit.envs.errors import BadSnapshot, UnknownOption
from turncredit.envs.shop.env import WebShopEnv, from_keys
from turncredit.envs.shop.scripted_shoppers import CarefulShopper, Shopper
from turncredit.envs.shop.session import SHOWN
from turncredit.envs.shop.sources import GeneratedProducts

LEVEL = "tiny+hidden=0.5"


def pair(**options: Any) -> tuple[WebShopEnv, WebShopEnv]:
    """Return the same environment with ids and with numbers."""
    ids, numbers = (from_keys(level=LEVEL, links=links, **options) for links in ("ids", "numbers"))
    return ids, numbers


def numbered(action: str, env: WebShopEnv) -> str:
    """Return the action in the words of the numbered environment, for the page that `env` shows with ids."""
    asins = [product.asin.lower() for product in env.session.results()]
    clicked = action[6:-1]
    return f"click[{asins.index(clicked) + 1}]" if clicked in asins else action


def without_links(observation: str, env: WebShopEnv) -> str:
    """Return a page with ids as it looks with numbers."""
    for number, product in enumerate(env.session.results(), 1):
        observation = re.sub(rf"(?<![\w]){product.asin}(?![\w])", str(number), observation)
    return observation


@pytest.mark.parametrize("observation", ["text", "text_rich"])
def test_numbers_and_ids_lead_to_the_same_states(observation: str) -> None:
    ids, numbers = pair(observation=observation)
    dice = random.Random(0)
    opened = later = 0
    for task in ids.task_ids(12):
        one, told = ids.reset(options={"task": task})
        two, same = numbers.reset(options={"task": task})
        for _ in range(15):
            assert (told["state"], told["score"], told["valid"]) == (same["state"], same["score"], same["valid"])
            assert [numbered(action, ids) for action in told["admissible_actions"]] == same["admissible_actions"]
            assert without_links(one, ids) == two
            if told["won"] or not told["admissible_actions"]:
                break
            action = dice.choice([action for action in told["admissible_actions"] if action != "click[buy now]"])
            other = numbered(action, ids)
            opened += other != action
            later += other != action and ids.session.page.number > 1
            one, paid, over, _, told = ids.step(action)
            two, also, done, _, same = numbers.step(other)
            assert (paid, over) == (also, done)
    assert opened > 20
    assert later > 0  # numbers begin again on every page


@pytest.mark.parametrize("observation", ["text", "text_rich"])
def test_only_what_a_page_shows_can_be_clicked(observation: str) -> None:
    _, env = pair(observation=observation)
    env.reset(options={"task": env.task_ids(1)[0]})
    env.step("search[travel mug color]")
    ids = [product.asin for product in env.session.results()]
    assert len(ids) == SHOWN
    for action in (f"click[{ids[0]}]", "click[0]", f"click[{SHOWN + 1}]", "click[01]"):
        before = env.session.state_key()
        assert not env.step(action)[4]["valid"]
        assert env.session.state_key() == before
    env.step("click[3]")
    assert env.session.page.asin == ids[2]
    assert not env.step("click[3]")[4]["valid"]  # a product's page has no numbers


def test_links_to_visited_products_are_marked() -> None:
    _, env = pair(observation="text_rich")
    env.reset(options={"task": env.task_ids(1)[0]})
    for action in ("search[travel mug color]", "click[2]"):
        env.step(action)
    page = env.step("click[< prev]")[0]
    assert re.findall(r"\[clicked button\] (.*) \[clicked", page) == ["2"]
    page = env.step("click[next >]")[0]
    assert "[clicked button]" not in page  # the second product of another page


@pytest.mark.parametrize("observation", ["text", "text_rich"])
def test_the_expert_wins_with_numbers_from_any_page(observation: str) -> None:
    _, env = pair(observation=observation)
    dice = random.Random(1)
    for task in env.task_ids(15):
        _, info = env.reset(options={"task": task})
        for _ in range(dice.randrange(6)):
            free = [action for action in info["admissible_actions"] if action != "click[buy now]"]
            info = env.step(dice.choice(free))[4]
        for action in env.plan():
            info = env.step(action)[4]
            assert info["valid"]
        assert info["won"]


@pytest.mark.parametrize("shopper", [Shopper, CarefulShopper])
@pytest.mark.parametrize("observation", ["text", "text_rich"])
def test_shoppers_buy_the_same_with_numbers(shopper: type[Shopper], observation: str) -> None:
    """Both see the same products in the same order, so they do the same."""
    ids, numbers = pair(observation=observation)
    went_back = 0
    for task in ids.task_ids(40):
        said: list[list[str]] = []
        for env in (ids, numbers):
            page, info = env.reset(options={"task": task})
            player, actions = shopper(), []
            player.start(page)
            for _ in range(15):
                actions.append(player.act(page, info["admissible_actions"]))
                words = numbered(actions[-1], env)
                page, _, over, _, info = env.step(actions[-1])
                actions[-1] = words
                if over:
                    break
            said.append([*actions, f"score {info['score']}"])
        assert said[0] == said[1]
        went_back += "click[< prev]" in said[1]
    assert went_back or shopper is Shopper


def test_a_numbered_episode_is_restored_in_a_numbered_shop_only() -> None:
    ids, numbers = pair()
    numbers.reset(options={"task": numbers.task_ids(1)[0]})
    numbers.step("search[travel mug color]")
    saved = numbers.snapshot()
    other = WebShopEnv(GeneratedProducts(level=LEVEL), links="numbers")
    other.restore(saved)
    assert other.step("click[4]")[0] == numbers.step("click[4]")[0]
    with pytest.raises(BadSnapshot):
        ids.restore(saved)


@pytest.mark.parametrize("observation", ["html", "url"])
def test_numbers_need_a_page_that_shows_them(observation: str) -> None:
    with pytest.raises(UnknownOption, match="needs observation='text' or 'text_rich'"):
        gymnasium.make("turncredit/WebShop-v0", links="numbers", observation=observation)
    with pytest.raises(UnknownOption, match="links"):
        gymnasium.make("turncredit/WebShop-v0", links="letters")

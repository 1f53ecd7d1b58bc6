"""The expert makes the best purchase from any page; the scripted shoppers use only the text."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import small_shop

from turncredit.envs import demonstrators, make
from turncredit.envs.errors import EnvError
from turncredit.envs.shop import pages
from turncredit.envs.shop.catalogue import Catalogue
from turncredit.envs.shop.expert import plan, purchases
from turncredit.envs.shop.goal import Goal
from turncredit.envs.shop.goals import make_goals
from turncredit.envs.shop.page_parser import Offer, read
from turncredit.envs.shop.prices import draw_prices
from turncredit.envs.shop.product import Product
from turncredit.envs.shop.reward import RewardFunction
from turncredit.envs.shop.scripted_shoppers import CarefulShopper, Shopper
from turncredit.envs.shop.session import Shop, ShopSession

JUDGE = RewardFunction(tagger="own")
BLUE = {"color": "blue"}


def mug(asin: str, name: str, **changes: Any) -> Product:
    """A travel mug at 20 dollars in red or blue; `changes` says what else."""
    usual = Product(
        asin,
        name,
        query="travel mugs",
        category="garden",
        product_category="Home › Kitchen › Mugs",
        pricing=(20.0,),
        price_tag="$20.0",
        options={"color": ("red", "blue"), "size": ("small", "large")},
        attributes=("leakproof",),
    )
    return replace(usual, **changes)


def goal_of(product: Product, instruction: str = "find a mug", **changes: Any) -> Goal:
    return small_shop.goal_of(product, **{"instruction": instruction, "price_upper": 30.0, "options": BLUE, **changes})


def session_of(goal: Goal, *products: Product) -> ShopSession:
    return ShopSession(Shop(Catalogue(products), {one.asin: one.pricing[0] for one in products}, JUDGE), goal, "s")


def played(session: ShopSession, actions: list[str]) -> float:
    for action in actions:
        assert session.act(action), action
    assert session.reward is not None
    return session.reward.total


MUG = mug("B000000001", "Steel Travel Mug")
OTHERS = [mug(f"B00000001{digit}", f"Steel Travel Mug {digit}", attributes=("plain",)) for digit in range(10)]


def test_a_plan_is_found_tried_and_short() -> None:
    session = session_of(goal_of(MUG), MUG)
    actions = plan(session)
    assert session.page.kind == "index"
    assert session.visited == set()  # it was tried on a copy
    assert actions[1:] == ["click[b000000001]", "click[blue]", "click[buy now]"]
    assert actions == plan(session)
    assert played(session, actions) == 1.0
    assert plan(session) == []


def test_a_plan_goes_on_from_where_the_session_is() -> None:
    session = session_of(goal_of(MUG), MUG, *OTHERS)
    for action in ("search[steel mug]", "click[b000000010]", "click[red]"):
        assert session.act(action)
    assert plan(session) == ["click[< prev]", "click[b000000001]", "click[blue]", "click[buy now]"]
    session = session_of(goal_of(MUG), MUG, *OTHERS)
    for action in ("search[steel mug]", "click[b000000001]", "click[red]", "click[description]"):
        assert session.act(action)
    assert plan(session) == ["click[< prev]", "click[blue]", "click[buy now]"]
    assert session.act("click[< prev]")
    assert session.act("click[blue]")
    assert plan(session) == ["click[buy now]"]


def test_a_plan_turns_pages_where_no_query_brings_the_product_to_the_first() -> None:
    same = [mug(f"A{number:03}", "Steel Travel Mug") for number in range(15)]
    session = session_of(
        goal_of(MUG, options={}, attributes=("spill proof",)), *same, replace(MUG, attributes=("spill proof",))
    )
    actions = plan(session)
    assert "click[next >]" in actions
    assert played(session, actions) == 1.0
    session = session_of(session.goal, *same, replace(MUG, attributes=("spill proof",)))
    for action in (actions[0], *["click[next >]"] * 4):
        assert session.act(action)
    assert plan(session)[:3] == ["click[< prev]"] * 3 or plan(session)[0] == actions[0]
    assert played(session, plan(session)) == 1.0


def test_a_better_product_is_taken_where_the_own_one_is_worth_less() -> None:
    dear, cheap = replace(MUG, pricing=(90.0,)), mug("B000000002", "Steel Travel Mug")
    session = session_of(goal_of(dear), dear, cheap)
    assert [one.product.asin for one in purchases(session)] == ["B000000002", "B000000001"]
    actions = plan(session)
    assert "click[b000000002]" in actions
    assert played(session, actions) == 1.0
    only = session_of(goal_of(dear), dear)
    assert played(only, plan(only)) == pytest.approx(2 / 3)


def test_a_goal_whose_product_is_missing_is_bought_as_another_or_has_no_way() -> None:
    other = mug("B000000002", "Steel Travel Mug")
    session = session_of(goal_of(MUG), other)
    assert played(session, plan(session)) == 1.0
    hat = Product("B000000003", "Straw Hat", query="hats", product_category="Fashion › Hats")
    with pytest.raises(EnvError, match="no search finds"):
        plan(session_of(goal_of(MUG), hat))


def test_a_value_that_two_options_share_and_one_that_no_action_can_name() -> None:
    odd = replace(MUG, options={"lid": ("blue", "red"), "body": ("blue",), "note": ("a[b]",)})
    session = session_of(goal_of(odd, options={"body": "blue", "note": "a[b]"}), odd)
    actions = plan(session)
    assert "click[a[b]]" not in actions
    assert played(session, actions) == pytest.approx(3 / 4)
    assert dict(session.page.options) == {"body": "blue"}


def test_hostile_titles_make_no_hostile_queries() -> None:
    odd = replace(MUG, name="<r> [Steel] Travel] Mug\n<b>B&B</b>")
    session = session_of(goal_of(odd), odd, *OTHERS)
    assert played(session, plan(session)) == 1.0


@pytest.mark.parametrize("level", ["tiny", "small", "medium"])
def test_the_expert_wins_generated_goals_from_any_page(level: str) -> None:
    env = make("turncredit/WebShop-v0", level=level, split="held_out", max_episode_steps=-1)
    dice, won, lost = random.Random(0), 0, 0
    for number, task in enumerate(env.unwrapped.task_ids(40)):  # type: ignore[attr-defined]
        _, info = env.reset(options={"task": task})
        for _ in range(number % 7):
            clicks = [action for action in info["admissible_actions"] if action != "click[buy now]"]
            _, _, _, _, info = env.step(dice.choice(clicks))
        actions = env.unwrapped.plan()  # type: ignore[attr-defined]
        lost += len(actions) > 15
        for action in actions:
            _, _, _, _, info = env.step(action)
            assert info["valid"], action
        won += info["won"]
    assert won - lost >= 38


def test_the_expert_on_the_real_products(data_dir: Path) -> None:
    catalogue = small_shop.real_catalogue(data_dir)
    rng = random.Random(0)
    prices = draw_prices(catalogue, rng)
    goals = make_goals(catalogue, prices, human=False, rng=rng)
    shop, scores, attainable = Shop(catalogue, prices, JUDGE), [], []
    for number in random.Random(1).sample(range(len(goals)), 100):
        goal, session = goals[number], ShopSession(Shop(catalogue, prices, JUDGE), goals[number], "s")
        session.shop = shop
        actions = plan(session)
        assert len(actions) <= 15
        scores.append(played(session, actions))
        own = catalogue.get(goal.asin)
        assert own is not None
        attainable.append(JUDGE.best(own, goal, prices[goal.asin])[0].total)
        assert scores[-1] >= attainable[-1] - 1e-9
    assert sum(scores) >= 0.95 * sum(attainable)


# ---- shoppers ----


def test_a_page_is_read_alike_from_both_kinds_of_text() -> None:
    env = make("turncredit/WebShop-v0", level="small", split="train")
    session_free = 0
    for task in env.unwrapped.task_ids(5):  # type: ignore[attr-defined]
        _, info = env.reset(options={"task": task})
        session = env.unwrapped.session  # type: ignore[attr-defined]
        for action in [*env.unwrapped.plan()[:2], "click[features]", "click[< prev]"]:  # type: ignore[attr-defined]
            plain, rich = (read(text(session), info["admissible_actions"]) for text in (pages.text, pages.rich))
            assert replace(rich, marked=False, chosen=()) == replace(plain, marked=False)
            assert rich.instruction == session.goal.instruction
            if rich.kind == "results":
                wanted = [Offer(p.asin.lower(), p.name, p.pricing[0]) for p in session.results()]
                assert [replace(offer, price=0.0) for offer in rich.offers] == [replace(o, price=0.0) for o in wanted]
                assert [offer.price for offer in rich.offers] == [offer.price for offer in wanted]
            if rich.kind == "item":
                assert dict(rich.options) == dict(session.shop.product(session.page.asin).options)
                session_free += 1
            _, _, _, _, info = env.step(action)
    assert session_free


def test_what_is_chosen_is_read_where_it_is_marked() -> None:
    session = session_of(goal_of(MUG), MUG)
    for action in ("search[mug]", "click[b000000001]", "click[blue]"):
        session.act(action)
    clicks = [f"click[{text}]" for text in session.clickables()]
    assert read(pages.rich(session), clicks).chosen == ("blue",)
    assert read(pages.text(session), clicks).chosen == ()
    with pytest.raises(EnvError, match="text_rich"):
        read(session.url(), clicks)


def bought(session: ShopSession, player: Shopper, text: Any = pages.text, most: int = 15) -> list[str]:
    """The actions of a player until the purchase, or `most`."""
    actions: list[str] = []
    player.start(text(session))
    while not session.done and len(actions) < most:
        actions.append(player.act(text(session), [f"click[{one}]" for one in session.clickables()]))
        assert session.act(actions[-1]), actions
    return actions


@pytest.mark.parametrize("text", [pages.text, pages.rich])
def test_the_shopper_searches_the_instruction_and_buys_the_first(text: Any) -> None:
    said = "find a [steel] mug, color blue, price below 5.00 dollars"
    session = session_of(goal_of(MUG, said), *OTHERS, MUG)
    assert bought(session, Shopper(), text) == [
        "search[find a steel mug, color blue, price below 5.00 dollars]",
        "click[b000000001]",
        "click[blue]",
        "click[buy now]",
    ]


@pytest.mark.parametrize("text", [pages.text, pages.rich])
def test_the_careful_shopper_rejects_expensive_and_incomplete_products(text: Any) -> None:
    dear = mug("A000000001", "Steel Travel Mug", price_tag="$80.0", pricing=(80.0,))
    red = mug("A000000002", "Steel Travel Mug", options={"color": ("red",), "size": ("small", "large")})
    said = "i need a steel travel mug, color blue, for less than 30 dollars"
    session = session_of(goal_of(MUG, said), dear, red, MUG)
    actions = bought(session, CarefulShopper(), text)
    assert actions[0] == "search[steel travel mug color blue]"
    assert "click[a000000001]" not in actions
    assert session.page.asin == MUG.asin
    assert dict(session.page.options) == {"color": "blue"}


def test_the_careful_shopper_reads_the_features_if_necessary() -> None:
    hidden = replace(MUG, bullets=("Keeps tea warm", "Leakproof lid"))
    session = session_of(goal_of(hidden, "i want a leakproof steel travel mug, color blue"), hidden)
    assert bought(session, CarefulShopper()) == [
        "search[leakproof steel travel mug color blue]",
        "click[b000000001]",
        "click[features]",
        "click[< prev]",
        "click[blue]",
        "click[buy now]",
    ]


def test_a_name_within_a_word_is_not_named() -> None:
    sizes = replace(MUG, options={"size": ("m", "l", "xl")})
    session = session_of(goal_of(sizes, "i'm after a mug, size xl"), sizes)
    assert bought(session, Shopper())[-2:] == ["click[xl]", "click[buy now]"]


def test_an_empty_shelf_and_a_slip_are_survived() -> None:
    session = session_of(goal_of(MUG, "zebra"), MUG)
    assert bought(session, CarefulShopper(), most=4) == ["search[zebra]", "click[back to search]"] * 2
    player = Shopper()
    player.start(pages.text(session))
    assert player.act(pages.text(session), ["search[zebra]"]) == "search[zebra]"
    assert player.act("Nothing was done: the answer was empty.", ["search[zebra]"]) == "search[zebra]"
    with pytest.raises(EnvError, match="expected a page of the shop"):
        Shopper().act("Nothing was done: the answer was empty.", [])


def test_the_scale_has_ends() -> None:
    """Success on held-out goals rises from the shopper to the careful shopper, and is below the expert's."""
    env = make("turncredit/WebShop-v0", level="small", split="held_out", observation="text_rich", tagger="own")
    players = demonstrators("turncredit/WebShop-v0")
    scores = {}
    for name in ("shopper", "careful"):
        scores[name] = 0.0
        for task in env.unwrapped.task_ids(60):  # type: ignore[attr-defined]
            observation, info = env.reset(options={"task": task})
            player, over = players[name](), False
            player.start(observation)
            while not over:
                action = player.act(observation, info["admissible_actions"])
                observation, _, ended, cut, info = env.step(action)
                over = ended or cut
            scores[name] += info["won"] / 60
    assert 0.2 < scores["shopper"] < scores["careful"] < 1.0

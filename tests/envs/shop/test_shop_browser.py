"""The shop in a real Chromium: the same states and rewards as in the text environment."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import gymnasium
import pytest
from shop_reading import MUG, goal_of, shop_of
from toys.chromium import need_chromium

from turncredit.agents import Agent
from turncredit.engines import Expert
from turncredit.envs import UnknownOption, check_env, make, takes
from turncredit.envs.check import Effort
from turncredit.envs.shop.browser_env import WebShopBrowserEnv, in_browser
from turncredit.envs.shop.goal import Goal
from turncredit.envs.shop.product import Product
from turncredit.envs.shop.session import Page
from turncredit.envs.shop.site.addresses import href
from turncredit.envs.shop.site.app import create_app
from turncredit.envs.shop.sources import GeneratedProducts
from turncredit.evaluation import Panel, evaluate
from turncredit.processes.serving import serve_in_thread
from turncredit.tools.browser import open_tab

pytestmark = pytest.mark.waits

Env = gymnasium.Env[Any, str]


@pytest.fixture(scope="module", autouse=True)
def _chromium() -> Iterator[None]:
    need_chromium()
    pytest.importorskip("fastapi")
    pytest.importorskip("uvicorn")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("turncredit.tools.browser.tab._FETCHING", 15.0)  # however long styles and scripts take here
        yield


@pytest.fixture(scope="module")
def text() -> Env:
    return make("turncredit/WebShop-v0", level="tiny", max_episode_steps=-1)


@pytest.fixture(scope="module")
def web() -> Iterator[Env]:
    env = make("turncredit/WebShopBrowser-v0", level="tiny", max_episode_steps=-1)
    yield env
    env.close()


def follow(text: Env, web: Env, task: str, actions: list[str] | None) -> None:
    """Play actions of the text environment (None: its plan) in both, and compare what follows each."""
    inner: Any = web.unwrapped
    text.reset(seed=0, options={"task": task})
    web.reset(seed=0, options={"task": task})
    last: list[tuple[Any, ...]] = []

    def act(action: str) -> bool:
        last.append(web.step(action))
        return bool(last[-1][4]["valid"])

    for action in text.get_wrapper_attr("plan")() if actions is None else actions:
        if text.get_wrapper_attr("session").done:
            break
        _, *wanted, info = text.step(action)
        in_browser(action, lambda: inner._window.view, act)
        _, *found, seen = last[-1]
        assert found == wanted
        assert seen["state"].partition(" held=")[0] == info["state"]
        for key in ("task", "score", "won", "task_type", "reward_parts"):
            assert seen.get(key) == info.get(key)


@pytest.mark.parametrize("number", [0, 3, 11])
def test_the_expert_s_episodes_are_worth_the_same(text: Env, web: Env, number: int) -> None:
    follow(text, web, text.get_wrapper_attr("task_ids")(12)[number], None)
    assert text.get_wrapper_attr("session").done


def test_wandering_is_worth_the_same(text: Env, web: Env) -> None:
    task = text.get_wrapper_attr("task_ids")(8)[7]
    text.reset(options={"task": task})
    text.step("search[socks]")
    product = text.get_wrapper_attr("session").results()[0].asin.lower()
    follow(
        text,
        web,
        task,
        [
            "search[socks]",
            "click[next >]",
            "click[< prev]",
            f"click[{product}]",
            "click[description]",
            "click[< prev]",
            "click[features]",
            "click[back to search]",
            "search[a red thing & <b>more</b>]",
            "search[socks]",
            f"click[{product}]",
            "click[buy now]",
        ],
    )
    assert text.get_wrapper_attr("session").done


def test_the_plan_in_the_browser_wins(web: Env) -> None:
    web.reset(seed=5)
    *_, info = web.step("click[e2]")
    for action in web.get_wrapper_attr("plan")():
        assert action in info["admissible_actions"] or action.startswith("type[")
        _, reward, terminated, _, info = web.step(action)
    assert (reward, terminated, info["won"]) == (1.0, True, True)
    assert web.get_wrapper_attr("plan")() == []


def test_the_expert_wins_as_a_player() -> None:
    made: list[Env] = []

    def make_env(**options: Any) -> Env:
        made.append(make("turncredit/WebShopBrowser-v0", level="tiny", tagger="own", **options))
        return made[-1]

    panel = Panel("turncredit/WebShopBrowser-v0", ("train/tiny/000000", "train/tiny/000001"))
    try:
        result = evaluate(Agent(parser="bare"), Expert(), panel, make_env, concurrency=1)
    finally:
        for env in made:
            env.close()
    assert [(row.won, row.score, row.stop) for row in result.rows] == [(True, 1.0, "terminated")] * 2


def test_going_back_is_seen_by_the_session(web: Env) -> None:
    _, start = web.reset(seed=1)
    states = [web.step(action)[4]["state"] for action in ("type[e2, socks]", "press[Enter]", "back[]")]
    assert [state.partition(" ")[0] for state in (start["state"], *states)] == ["index", "index", "results", "index"]


def test_what_stands_in_the_search_bar_is_part_of_the_state(web: Env) -> None:
    _, start = web.reset(seed=1)
    typed = web.step("type[e2, socks]")[4]["state"]
    other = web.step("type[e2, shoes]")[4]["state"]
    again = web.step("type[e2, socks]")[4]["state"]
    assert len({start["state"], typed, other}) == 3
    assert again == typed


def test_an_episode_goes_on_after_pickling(web: Env) -> None:
    web.reset(seed=2)
    plan = web.get_wrapper_attr("plan")()
    for action in plan[:3]:
        web.step(action)
    again = pickle.loads(pickle.dumps(web))
    answers = [[env.step(action)[:4] for action in plan[3:]] for env in (web, again)]
    again.close()
    assert answers[0] == answers[1]
    assert answers[0][-1][1] == 1.0


def test_sessions_end_with_their_episodes() -> None:
    env = make("turncredit/WebShopBrowser-v0", level="tiny")
    inner: Any = env.unwrapped
    env.reset(seed=0)
    sessions = inner._site().sessions
    before = len(sessions)
    env.reset(seed=1)
    assert len(sessions) == before
    env.close()
    env.close()
    assert len(sessions) == before - 1


def test_keywords_are_known_by_name() -> None:
    assert takes("turncredit/WebShopBrowser-v0", "split")
    assert not takes("turncredit/WebShopBrowser-v0", "observation")
    with pytest.raises(UnknownOption, match="levl"):
        make("turncredit/WebShopBrowser-v0", levl="tiny")


def test_options_that_a_browser_cannot_use_are_refused() -> None:
    for name in ("observation", "num_prev_obs", "num_prev_actions"):
        with pytest.raises(UnknownOption, match=f"the shop in a browser has no option {name}"):
            WebShopBrowserEnv(level="tiny", **{name: 1})
    for many in (2, 0, "x", None):
        with pytest.raises(UnknownOption, match="catalogues must be 1 in a browser"):
            WebShopBrowserEnv(level="tiny", catalogues=many)
    assert WebShopBrowserEnv(GeneratedProducts(level="tiny", catalogues=1)).task_ids(1) == ["train/tiny/000000"]


@pytest.mark.parametrize("deadline", [0, -1, float("nan"), float("inf"), "x", None, True])
def test_invalid_deadlines_are_refused(deadline: Any) -> None:
    with pytest.raises(UnknownOption, match="deadline must be a number of seconds > 0 and <= 86,400"):
        WebShopBrowserEnv(GeneratedProducts(level="tiny"), deadline=deadline)


class Cups:
    """One goal."""

    def draw(self, rng: Any) -> str:
        return "0"

    def get(self, id: str) -> Goal:
        return goal_of(MUG)


def test_pages_are_read_without_decoration_or_doubles() -> None:
    cups = [Product(f"C{number}", f"cup {number}", query="cups", price_tag=f"${number}") for number in range(10)]
    shop = shop_of(MUG, *cups)
    with serve_in_thread(create_app(shop, Cups())) as address:
        tab = open_tab(address + href("s", Page("item", ("cup",), 1, "C0")))
        tab.close()
        tab = open_tab(address + href("s", Page("results", ("cup",), 1)))
        assert tab.screenshot().any()
        drawn = "() => getComputedStyle(document.querySelector('.keys'), '::after').content"
        assert "arrows choose" in tab.script(drawn)  # for the eye they are there
        results = tab.look().lines
        tab.close()
        tab = open_tab(address + href("s", Page("item", ("cup",), 1, "MUG1", (("color", "red"),))))
        item = tab.look().lines
        tab.close()
    head = ('[e1] link "Skip to the page" (out of reach)', 'heading "Instruction: Find me Blue travel mug"')
    cards = [
        line
        for number in range(10)
        for line in (
            *("listitem", " heading", f'  [e{number + 4}] link "C{number}"'),
            *(f' heading "cup {number}"', f' heading "${number}"'),
        )
    ]
    assert results == (
        *head,
        '[e2] button "Back to Search"',
        'heading "Page 1 (Total results: 10)"',
        '[e3] button "Next >"',
        *cards,
    )
    assert item == (
        *head,
        '[e2] button "Back to Search"',
        '[e3] button "< Prev"',
        'radiogroup "color"',
        ' heading "color"',
        ' [e4] radio "navy blue"',
        ' [e5] radio "red" (checked)',
        'radiogroup "size"',
        ' heading "size"',
        ' [e6] radio "12 oz"',
        ' [e7] radio "large \\"xl\\""',
        'heading "Blue travel mug"',
        'heading "Price: $12.0"',
        'heading "Rating: N.A."',
        '[e8] button "Description"',
        '[e9] button "Features"',
        '[e10] button "Reviews"',
        '[e11] button "Buy Now"',
    )


def test_images_mark_what_was_visited_and_so_does_their_state(web: Env) -> None:
    with_image = make("turncredit/WebShopBrowser-v0", level="tiny", max_episode_steps=-1, screenshot=True)
    ends: list[list[Any]] = []
    for env in (web, with_image):
        inner: Any = env.unwrapped
        env.reset(seed=0, options={"task": "train/tiny/000000"})
        for action in ("type[e2, socks]", "press[Enter]"):
            *_, before = env.step(action)
        lines = inner._window.view.lines
        env.step(f"click[{next(e.ref for e in inner._window.view.elements.values() if e.name == 'Back to Search')}]")
        for action in ("type[e2, socks]", "press[Enter]"):
            *_, between = env.step(action)
        env.step("click[e4]")
        *_, after = env.step("click[e3]")
        assert before["state"] == between["state"]
        assert inner._window.view.lines == lines
        ends.append([before["state"], after["state"]])
    with_image.close()
    assert ends[0][0] == ends[0][1] == ends[1][0]
    assert ends[1][1].startswith(f"{ends[1][0]} visited=")


def test_the_contract_is_kept() -> None:
    effort = Effort(
        walks=1, turns=3, pairs=1, states=1, depth=1, continuations=1, search=4, long=0, plans=1, contents=2
    )
    kwargs = {"level": "tiny", "max_episode_steps": 3}
    report = check_env("turncredit/WebShopBrowser-v0", kwargs=kwargs, tasks=1, effort=effort, level="runtime")
    assert report.ok, report

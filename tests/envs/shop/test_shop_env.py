"""The shop as an environment: the contract, tasks, rewards, history, complete goals, and invalid input."""

from __future__ import annotations

import dataclasses
import pickle
import random
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_shop import GOAL, ODD, SHOE, files

from turncredit.envs import check_env, make
from turncredit.envs.check import Effort
from turncredit.envs.errors import EnvError, NotReset, StepAfterEnd, UnknownOption, UnknownTask
from turncredit.envs.shop.env import WebShopEnv, from_keys
from turncredit.envs.shop.goals import make_goals
from turncredit.envs.shop.prices import draw_prices
from turncredit.envs.shop.sources import GeneratedProducts, ProductFiles

SHOES = "search[red shoe]"
OPEN = f"click[{SHOE.asin.lower()}]"
WAY = (SHOES, OPEN, "click[red]", "click[9]", "click[buy now]")
EFFORT = Effort(walks=3, turns=15, pairs=8, states=6, depth=6, continuations=4, search=60)


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return files(tmp_path_factory.mktemp("shop"))


def opened(paths: dict[str, Path], **options: Any) -> WebShopEnv:
    given = {"splits": "all", "cache": False, "tagger": "own", **paths, **options}
    if given["products"] is None:
        given |= {"splits": given["splits"] if given["splits"] != "all" else "original"}
    return from_keys(**given)


def played(env: WebShopEnv, *actions: str, goal: Any = GOAL, **options: Any) -> tuple[str, float, bool, dict[str, Any]]:
    """The last step of some actions towards a goal."""
    observation, info = env.reset(seed=0, options={"goal": goal, **options})
    reward, terminated = 0.0, False
    for action in actions:
        observation, reward, terminated, _, info = env.step(action)
    return observation, reward, terminated, info


@pytest.mark.parametrize("observation", ["text", "text_rich", "url"])
def test_the_contract_is_kept_on_files(paths: dict[str, Path], observation: str) -> None:
    kwargs = {**paths, "splits": "all", "cache": False, "tagger": "own", "observation": observation}
    report = check_env("turncredit/WebShop-v0", kwargs=kwargs, tasks=2, effort=EFFORT)
    assert report.ok, str(report)
    assert {"plan", "admissible", "state-equal", "pickling"} <= {r.rule for r in report.results if r.outcome == "ok"}


def test_the_contract_is_kept_on_a_generated_catalogue() -> None:
    report = check_env("turncredit/WebShop-v0", kwargs={"level": "tiny", "tagger": "own"}, tasks=2, effort=EFFORT)
    assert report.ok, str(report)


def test_the_turn_limit_is_fifteen(paths: dict[str, Path]) -> None:
    env = gymnasium.make("turncredit/WebShop-v0", **paths, splits="all", cache=False)
    env.reset(seed=0)
    ends = [env.step("look around")[2:4] for _ in range(15)]
    assert ends == [(False, False)] * 14 + [(False, True)]


def test_info(paths: dict[str, Path]) -> None:
    env = opened(paths)
    _, info = env.reset(options={"task": "0"})
    assert info["state"] == "index"
    assert info["task_type"] == SHOE.category
    assert info["free_actions"] == ["search[...]"]
    (example,) = info["admissible_actions"]
    assert example.startswith("search[find me soft shoes with color: ")
    assert "dollars" not in example
    *_, info = env.step(example)
    assert info["valid"]
    assert info["admissible_actions"][:2] == ["click[back to search]", "click[next >]"]
    assert "click[search]" not in info["admissible_actions"]
    assert not env.step("click[buy now]")[4]["valid"]
    _, reward, terminated, _, info = [env.step(action) for action in WAY][-1]
    assert terminated
    assert info["score"] == reward == info["reward_parts"]["r_type"] * reward > 0
    assert info["admissible_actions"] == info["free_actions"] == []


def test_only_values_that_an_action_can_name_are_admissible(paths: dict[str, Path]) -> None:
    env = opened(paths)
    *_, info = played(env, "search[odd]", f"click[{ODD.asin.lower()}]")
    values = ["a]b", "é", 'q"q', "it's", "both"]
    assert info["admissible_actions"][-5:] == [f"click[{value}]" for value in values]


@pytest.mark.parametrize(("payoff", "won", "half"), [("score", 1.0, 0.75), ("sparse", 10.0, 0.0)])
def test_payoffs(paths: dict[str, Path], payoff: str, won: float, half: float) -> None:
    env = opened(paths, payoff=payoff)
    _, reward, terminated, info = played(env, *WAY)
    assert (reward, terminated, info["score"], info["won"]) == (won, True, 1.0, True)
    _, reward, terminated, info = played(env, SHOES, OPEN, "click[red]", "click[buy now]")
    assert (reward, terminated, info["score"], info["won"]) == (half, True, 0.75, False)
    assert played(env, *WAY[:-1])[1] == 0.0


def test_complete_goals(paths: dict[str, Path]) -> None:
    env = opened(paths, observation="url")
    assert played(env, goal=GOAL.as_dict())[0] == played(env)[0]
    name = played(env)[0].rpartition("/")[2]
    assert env._source.get(name).options == GOAL.options  # the number of the goal that it is
    assert played(env, session="me")[0].endswith("/me")
    other = dataclasses.replace(GOAL, attributes=("light",))
    assert len(played(env, goal=other)[0].rpartition("/")[2]) == 16
    assert played(env)[3]["task"] != played(env, goal=other)[3]["task"]
    assert played(env, *WAY, prices={SHOE.asin: 30.01})[1] == 0.75
    assert played(env, *WAY, prices={SHOE.asin: 30})[1] == 1.0
    assert played(env, *WAY)[1] == 1.0  # the prices of one episode are not those of the next


def test_tasks(paths: dict[str, Path]) -> None:
    env = opened(paths)
    assert env.task_ids() == ["0", "1", "2", "3"]  # two colours and two sizes
    assert env.task_ids(2) == ["0", "1"]
    drawn = {env.reset(seed=seed)[1]["task"] for seed in range(60)}
    assert drawn == set(env.task_ids())
    assert env.reset(seed=5)[1]["task"] == env.reset(seed=5)[1]["task"]
    people = opened(paths, goals="human")
    assert people.task_ids() == ["0"]
    assert "i want soft red shoes, and price lower than" in people.reset(options={"task": "0"})[0]
    assert opened(paths, limit=2).task_ids() == ["0", "1"]
    assert opened(paths, keep=lambda _, goal: goal.options == GOAL.options).task_ids() == ["0"]


def test_prices_and_bounds_follow_from_the_seed(paths: dict[str, Path]) -> None:
    one, again, other = (opened(paths, catalogue_seed=seed).shop.prices for seed in (1, 1, 2))
    assert one == again
    assert one[ODD.asin] != other[ODD.asin]
    assert 5.0 <= one[ODD.asin] <= 9.0
    assert one[SHOE.asin] == other[SHOE.asin] == 20.0


@pytest.mark.parametrize("task", ["4", "-1", "00", "", "x", "٣", "9" * 5000, "train/small/000001"])
def test_unknown_tasks(paths: dict[str, Path], task: str) -> None:
    with pytest.raises(UnknownTask):
        opened(paths).reset(options={"task": task})


def test_history_precedes_the_page_oldest_first(paths: dict[str, Path]) -> None:
    env = opened(paths, num_prev_obs=2, num_prev_actions=1)
    plain = opened(paths)
    pages = [played(plain, *WAY[:count])[0] for count in range(4)]
    seen = [played(env, *WAY[:count])[0] for count in range(4)]
    assert seen[0] == pages[0]
    assert seen[1] == " [SEP] ".join([pages[0], WAY[0], pages[1]])
    assert seen[2] == " [SEP] ".join([pages[0], pages[1], WAY[1], pages[2]])
    assert seen[3] == " [SEP] ".join([pages[1], pages[2], WAY[2], pages[3]])


def test_environments_share_the_shop_and_are_pickled_without_it(paths: dict[str, Path]) -> None:
    env = opened(paths)
    played(env, *WAY[:3])
    frozen = pickle.dumps(env)
    assert len(frozen) < 20_000
    again = pickle.loads(frozen)
    assert again.shop is env.shop is opened(paths, split="test").shop
    assert again.step("click[9]")[0] == env.step("click[9]")[0]
    assert env.shop.search("red shoe", 1)[0][0] == SHOE.asin


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    paths = files(tmp_path)
    assert opened(paths).shop.catalogue.get(SHOE.asin).name == "Red Shoe"  # type: ignore[union-attr]
    text = paths["products"].read_text(encoding="utf-8")
    paths["products"].write_text(text.replace("Red Shoe", "Crimson Shoe"), encoding="utf-8")
    assert opened(paths).shop.catalogue.get(SHOE.asin).name == "Crimson Shoe"  # type: ignore[union-attr]


def test_attributes_page_and_rendering(paths: dict[str, Path]) -> None:
    env = opened(paths, show_attributes=True, render_mode="ansi")
    seen, *_ = played(env, SHOES, OPEN, "click[attributes]")
    assert "soft [SEP] light" in seen
    assert env.render() == f"> click[attributes]\n{seen}\n"


def test_options_of_a_reset_are_a_mapping(paths: dict[str, Path]) -> None:
    with pytest.raises(UnknownOption, match="must be a mapping"):
        opened(paths).reset(options=[1])  # type: ignore[arg-type]


def test_rejecting_all_goals_is_an_error(paths: dict[str, Path]) -> None:
    with pytest.raises(EnvError, match="keep may have rejected all"):
        opened(paths, keep=lambda number, goal: False)


def test_the_rule_of_verl_agent_shuffles_with_the_seed(data_dir: Path) -> None:
    names = ("items_shuffle_1000.reconstructed.json", "items_ins_v2_1000.json")
    products, attributes = (data_dir / "webshop" / name for name in names)
    env = WebShopEnv(
        ProductFiles(products, attributes, catalogue_seed=42, splits="verl-agent", split="eval"), tagger="own"
    )
    prices = draw_prices(env.shop.catalogue, rng := random.Random(42))
    goals = make_goals(env.shop.catalogue, prices, human=False, rng=rng, shuffle=42)
    assert [env.source.get(task) for task in env.task_ids()] == goals[:500]
    original = WebShopEnv(ProductFiles(products, attributes, catalogue_seed=42, split="test"), tagger="own")
    assert sum(env.source.get(task) == original.source.get(task) for task in env.task_ids()) < 10


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"observation": "pixels"}, "text_rich"),
        ({"payoff": "dense"}, "sparse"),
        ({"goals": "robot"}, "synthetic"),
        ({"split": "held_out"}, "train"),
        ({"splits": "orginal"}, "original"),
        ({"splits": "original"}, "'all'"),
        ({"reward": "kind"}, "fixed"),
        ({"tagger": "brill"}, "own"),
        ({"strict": 1}, "True or False"),
        ({"num_prev_obs": -1}, ">= 0"),
        ({"catalogue_seed": "x"}, ">= 0"),
        ({"num_products": 0}, ">= 1"),
        ({"render_mode": "human"}, "ansi"),
        ({"attributes": None}, "attributes=PATH"),
        ({"human": None, "goals": "human"}, "human=PATH"),
        ({"attributes": 7}, "path"),
        ({"products": None}, "products=PATH"),
        ({"products": "nowhere/at/all.json"}, "nowhere"),
        ({"products": ""}, "path"),
        ({"products": "a\0b"}, "path"),
        ({"cache": None}, "True, False or the path"),
        ({"limit": "x"}, ">= 1"),
        ({"keep": 3}, "function"),
        ({"level": "tiny"}, "belongs to generated catalogues"),
        ({"products": None, "attributes": None, "human": None, "splits": "ragen"}, "splits needs products=PATH"),
        ({"products": None, "attributes": None, "human": None, "goals": "human"}, "goals needs products=PATH"),
        ({"products": None, "attributes": None, "human": None, "strict": False}, "strict needs products=PATH"),
        ({"products": None, "attributes": None, "human": None, "level": "huge"}, "small"),
        ({"products": None, "attributes": None, "human": None, "level": 3}, "small"),
        ({"products": None, "attributes": None, "human": None, "split": "test"}, "held_out"),
    ],
    ids=str,
)
def test_invalid_arguments_are_explained_in_a_sentence(
    paths: dict[str, Path], options: dict[str, Any], word: str
) -> None:
    with pytest.raises(EnvError, match=word) as caught:
        opened({**paths, **options})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"goals": {}},
        {"goal": 3},
        {"goal": {"asin": SHOE.asin}},
        {"goal": dataclasses.replace(GOAL, asin="B00NOTHERE")},
        {"goal": GOAL, "task": "0"},
        {"prices": [1]},
        {"prices": {"B00NOTHERE": 1.0}},
        {"prices": {SHOE.asin: "cheap"}},
        {"prices": {SHOE.asin: float("nan")}},
        {"session": ""},
    ],
    ids=str,
)
def test_invalid_options_of_reset(paths: dict[str, Path], options: dict[str, Any]) -> None:
    with pytest.raises(UnknownOption):
        opened(paths).reset(options=options)


def test_order_of_calls(paths: dict[str, Path]) -> None:
    env = opened(paths)
    with pytest.raises(NotReset):
        env.step(SHOES)
    with pytest.raises(NotReset):
        env.plan()
    played(env, *WAY)
    assert env.plan() == []
    with pytest.raises(StepAfterEnd):
        env.step(SHOES)
    played(env, SHOES, OPEN, "click[buy now]")
    with pytest.raises(EnvError, match="there is no plan"):
        env.plan()
    env.reset()
    with pytest.raises(UnknownOption):
        env.step(7)  # type: ignore[arg-type]


shapes = st.sampled_from(["search[{}]", "click[{}]", "{}", "[{}]", "search[{}"])
actions = st.builds(str.replace, shapes, st.just("{}"), st.text(max_size=40))
HUGE = [
    "search[" + "İ" * 500_000 + "]",
    "click[" + "[" * 10**6,
    "x" * 2**21,
    "search[\ud800]",
    "search[\0\1]",
    "\n",
    "",
]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.one_of(actions, st.sampled_from(HUGE)), max_size=4), st.sampled_from(["text", "text_rich", "url"]))
def test_any_text_is_answered_within_the_space(paths: dict[str, Path], typed: list[str], observation: str) -> None:
    env = opened(paths, observation=observation, num_prev_obs=1, num_prev_actions=2)
    played(env)
    for action in typed:
        seen, reward, terminated, truncated, info = env.step(action)
        assert seen in env.observation_space
        assert (reward, terminated, truncated) == (0.0, False, False)
        assert len(info["state"]) < 500


def test_a_generated_catalogue() -> None:
    env = make("turncredit/WebShop-v0", level="tiny", split="held_out", tagger="own", observation="url")
    (task,) = env.get_wrapper_attr("task_ids")(1)
    seen, info = env.reset(options={"task": task})
    assert info["task"] == task
    assert seen.endswith("/" + task.replace("/", "-"))
    for action in env.get_wrapper_attr("plan")():
        *_, info = env.step(action)
    assert info["won"]
    with pytest.raises(UnknownTask):
        env.reset(options={"task": task.replace("held_out", "train")})
    other = WebShopEnv(GeneratedProducts(level="tiny", split="held_out", catalogue_seed=1), tagger="own")
    assert other.task_ids(1) != [task]
    assert {p.asin for p in other.shop.catalogue} != {p.asin for p in env.unwrapped.shop.catalogue}  # type: ignore[attr-defined]

"""Episodes that are played on the site: their actions, the file they are saved to, and imitation of that file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from small_shop import session

from turncredit.agents import Agent, Conversation, rollout
from turncredit.agents.demonstrations.tokens import tokenize_trajectory
from turncredit.agents.files.trajectory_files import read_trajectories
from turncredit.cli.main import app as turncredit
from turncredit.cli.serving.commands import _environment, _saver
from turncredit.engines import Scripted
from turncredit.envs.shop.env import WebShopEnv
from turncredit.envs.shop.session import Page
from turncredit.envs.shop.site.addresses import href
from turncredit.envs.shop.site.app import create_app
from turncredit.envs.shop.site.visits import actions_between
from turncredit.processes.serving import serve_in_thread
from turncredit.training.learner.policy import build_policy

httpx = pytest.importorskip("httpx", reason="needs httpx")
for package in ("fastapi", "jinja2", "uvicorn"):
    pytest.importorskip(package, reason="needs the extra `serve`")

TASK = "train/tiny/000003"


@pytest.fixture
def env() -> WebShopEnv:
    arguments = {"level": "tiny", "split": "train", "goals": None}
    return _environment([], arguments, reward="original", seed=0, observation="text_rich")


@pytest.fixture
def site(env: WebShopEnv, tmp_path: Path) -> Iterator[Any]:
    app = create_app(env.shop, env.source, on_purchase=_saver(env, tmp_path / "mine.jsonl"))
    with serve_in_thread(app) as url, httpx.Client(base_url=url, follow_redirects=True, timeout=60) as client:
        yield client


def play(site: Any, env: WebShopEnv) -> list[str]:
    """Win the task by addresses and forms, with a detour and a reload, and return the actions that this amounts to."""
    name = TASK.replace("/", "-")
    env.reset(options={"task": TASK})
    search, *clicks = env.plan()
    first, *rest = [click for click in clicks if click != "click[buy now]"]
    page = site.post(f"/{name}", data={"search_query": search[7:-1]}).url.path
    site.get(page)
    for action in (search, first, "click[features]", "click[< prev]", *rest):
        env.step(action)
        site.get(href(name, env.session.page))
    site.post(href(name, Page("done", asin=env.session.page.asin, options=env.session.page.options)))
    return [search, first, "click[features]", "click[< prev]", *rest, "click[buy now]"]


def test_an_episode_on_the_site_is_saved_as_the_environment_plays_it(
    site: Any, env: WebShopEnv, tmp_path: Path
) -> None:
    actions = play(site, env)
    [played] = read_trajectories(tmp_path / "mine.jsonl")
    assert (played.task, played.won, played.stop, played.score) == (TASK, True, "terminated", 1.0)
    assert [turn.action for turn in played.turns] == actions
    seen, info = env.reset(options={"task": TASK})
    for turn in played.turns:
        assert (turn.observation, turn.state) == (seen, info["state"])
        assert list(turn.admissible or ()) == info["admissible_actions"]
        seen, reward, *_, info = env.step(str(turn.action))
        assert (turn.reward, turn.valid) == (reward, True)
    assert "[button]" in played.turns[1].observation


def test_a_saved_episode_gets_the_prompts_of_a_rollout(site: Any, env: WebShopEnv, tmp_path: Path) -> None:
    actions = play(site, env)
    [played] = read_trajectories(tmp_path / "mine.jsonl")
    texts = [turn.observation for turn in played.turns]
    _, tokenizer = build_policy(texts, vocab=300, hidden=16, layers=1, heads=1, context=4096)
    agent = Agent(parser="bare", prompt=Conversation())
    sampler = Scripted(actions, tokenizer=tokenizer)
    [group] = rollout(agent, sampler, [TASK], make=lambda: env, size=1, seed=0)
    [rolled_out] = group.trajectories
    tokenized = tokenize_trajectory(played, agent, tokenizer)
    assert [turn.response for turn in tokenized.turns] == [turn.response for turn in rolled_out.turns]
    assert [turn.prompt for turn in tokenized.turns] == [turn.prompt for turn in rolled_out.turns]
    assert all(turn.observation in tokenizer.decode(list(turn.prompt)) for turn in tokenized.turns)


RUN = """
seed = 1
[env]
id = "turncredit/WebShop-v0"
kwargs = { level = "tiny", observation = "text_rich" }
[policy]
new = { hidden = 16, layers = 1, heads = 1, vocab = 300 }
context = 4096
[imitation]
demonstrator = "mine.jsonl"
episodes = 1
epochs = 1
[train]
iterations = 1
groups = 1
group_size = 2
distinct_tasks = 1
[evaluation]
episodes = 0
"""


def test_a_saved_episode_can_be_imitated(site: Any, env: WebShopEnv, tmp_path: Path) -> None:
    play(site, env)
    (tmp_path / "run.toml").write_text(RUN.replace("mine.jsonl", str(tmp_path / "mine.jsonl")), encoding="utf-8")
    words = ["train", str(tmp_path / "run.toml"), f"output={tmp_path / 'run'}"]
    assert not turncredit(words, standalone_mode=False)
    assert list((tmp_path / "run").rglob("*.safetensors"))


def test_the_second_purchase_of_a_name_is_an_episode_of_its_own(site: Any, env: WebShopEnv, tmp_path: Path) -> None:
    play(site, env)
    site.post("/again/" + TASK.replace("/", "-"))
    play(site, env)
    assert [one.id for one in read_trajectories(tmp_path / "mine.jsonl")] == [f"{TASK}#0@0", f"{TASK}#1@0"]


def test_an_episode_that_cannot_be_replayed_is_not_saved(
    site: Any, env: WebShopEnv, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    product = env.shop.catalogue[0]
    assert site.get(href("anybody", Page("done", asin=product.asin))).status_code == 200
    assert not (tmp_path / "mine.jsonl").exists()
    assert "was not saved: it used an address that no action leads to" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("before", "page", "wanted"),
    [
        ([], Page(), []),
        ([], Page("results", ("shoe",), 1), ["search[shoe]"]),
        (["search[shoe]"], Page("results", ("shoe",), 2), ["click[next >]"]),
        (["search[shoe]"], Page(), ["click[back to search]"]),
        ([], Page("results", ("shoe",), 3), ["search[shoe]", "click[next >]", "click[next >]"]),
        ([], Page("results", ("shoe",), 10**6), None),
        ([], Page("item", ("shoe",), 1, "NOTHING"), None),
        ([], Page("done", asin="NOTHING"), None),
    ],
)
def test_actions_between_pages(before: list[str], page: Page, wanted: list[str] | None) -> None:
    here = session()
    for action in before:
        assert here.act(action)
    old = here.page
    assert actions_between(here, page) == wanted
    assert here.page == old

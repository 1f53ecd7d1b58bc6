"""Several generated catalogues behind one environment: alternating goals, equal to those of each catalogue alone."""

from __future__ import annotations

import gc
import pickle
import weakref
from pathlib import Path
from typing import Any

import pytest
from small_shop import files

from turncredit.envs import check_env
from turncredit.envs.check import Effort
from turncredit.envs.errors import BadSnapshot, UnknownOption, UnknownTask
from turncredit.envs.shop.browser_env import WebShopBrowserEnv
from turncredit.envs.shop.env import WebShopEnv, from_keys
from turncredit.envs.shop.sources import GeneratedProducts

EFFORT = Effort(walks=3, turns=15, pairs=8, states=6, depth=6, continuations=4, search=60)


def opened(**options: Any) -> WebShopEnv:
    return from_keys(**{"level": "tiny", "catalogues": 3, "catalogue_seed": 4, "tagger": "own", **options})


def played(env: WebShopEnv, task: str) -> list[Any]:
    """Everything that the expert's episode returns."""
    seen: list[Any] = [env.reset(options={"task": task})]
    return seen + [env.step(action) for action in env.plan()]


def test_goals_alternate_and_equal_those_of_each_catalogue_alone() -> None:
    env = opened()
    ids = env.task_ids(7)
    assert ids == [
        *("train/tiny@4/000000", "train/tiny@5/000000", "train/tiny@6/000000"),
        *("train/tiny@4/000001", "train/tiny@5/000001", "train/tiny@6/000001", "train/tiny@4/000002"),
    ]
    for place, task in enumerate(ids):
        alone = opened(catalogues=1, catalogue_seed=4 + place % 3)
        assert alone.task_ids(3)[place // 3] == task
        assert played(env, task) == played(alone, task)
        assert env.shop.catalogue.get(env.session.goal.asin) is not None


def test_drawn_goals_are_of_all_catalogues() -> None:
    env = opened()
    drawn = [env.reset(seed=seed)[1]["task"] for seed in range(40)]
    assert {task.split("/")[1] for task in drawn} == {"tiny@4", "tiny@5", "tiny@6"}
    assert drawn == [env.reset(seed=seed)[1]["task"] for seed in range(40)]


def test_the_contract_is_kept() -> None:
    kwargs = {"level": "tiny", "tagger": "own", "catalogues": 3, "observation": "text_rich"}
    report = check_env("turncredit/WebShop-v0", kwargs=kwargs, tasks=3, effort=EFFORT)
    assert report.ok, str(report)


def test_a_snapshot_finds_its_catalogue_again() -> None:
    env, other = opened(), pickle.loads(pickle.dumps(opened()))
    env.reset(options={"task": env.task_ids(3)[2]})
    first, *rest = env.plan()
    env.step(first)
    saved = env.snapshot()
    other.reset(options={"task": other.task_ids(1)[0]})
    other.restore(saved)
    assert other.shop.catalogue is env.shop.catalogue
    assert [env.step(action) for action in rest] == [other.step(action) for action in rest]
    with pytest.raises(BadSnapshot):
        opened(catalogues=2).restore(saved)


def test_shops_are_shared_and_freed_with_their_last_environment() -> None:
    """Across splits, numbers of catalogues, and pickling."""
    envs = [opened(catalogues=12), opened(catalogues=12, split="held_out"), opened(catalogues=1, catalogue_seed=11)]
    tasks = [envs[0].task_ids(8)[7], envs[1].task_ids(8)[7], envs[2].task_ids(1)[0]]
    for _ in range(2):
        for env, task in zip(envs, tasks, strict=True):
            env.reset(options={"task": task})
    shops = [env.shop for env in (*envs, pickle.loads(pickle.dumps(envs[0])))]
    assert len({id(shop) for shop in shops}) == 1
    gone = weakref.ref(shops[0])
    del envs, env, shops
    for seed in range(20, 30):  # the last few stay cached
        opened(catalogues=1, catalogue_seed=seed)
    gc.collect()
    assert gone() is None


def test_errors(tmp_path: Path) -> None:
    with pytest.raises(UnknownTask, match=r"'train/tiny@4/000012', with catalogues from 'tiny@4' to 'tiny@6'"):
        opened().reset(options={"task": "train/tiny@9/000000"})
    with pytest.raises(UnknownTask):
        opened().reset(options={"task": "held_out/tiny@5/000000"})
    for count in (0, -1, 1.5, True, None):
        with pytest.raises(UnknownOption, match="must be an integer >= 1"):
            opened(catalogues=count)
    with pytest.raises(UnknownOption, match="from 1 to 10,000"):
        opened(catalogues=10_001)
    with pytest.raises(UnknownOption, match="belongs to generated catalogues"):
        from_keys(**files(tmp_path), catalogues=2)
    with pytest.raises(UnknownOption, match="catalogues"):
        WebShopBrowserEnv(GeneratedProducts(catalogues=2))
    goal = opened(catalogues=1, catalogue_seed=5).source.get("train/tiny@5/000000")
    with pytest.raises(UnknownOption, match="not in the first catalogue"):
        opened(catalogue_seed=99).reset(options={"goal": goal})

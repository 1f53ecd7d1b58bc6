"""Episodes saved, resumed and branched: the same future, whatever the moment, the instance or the process."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import gymnasium
import pytest
from gymnasium.wrappers import RecordEpisodeStatistics, TimeLimit
from hypothesis import given, settings
from hypothesis import strategies as st
from toys.corridor import ID, Corridor
from toys.forgeries import ANY_BYTES, forged, is_refused, spoilt

from turncredit.envs import (
    BadSnapshot,
    Deadline,
    EndGuard,
    EnvError,
    HasSnapshot,
    Isolated,
    NotReset,
    StepAfterEnd,
    TurnLimit,
    branch,
    load,
    make,
    save,
)
from turncredit.envs.shop.browser_env import WebShopBrowserEnv
from turncredit.envs.shop.sources import GeneratedProducts
from turncredit.envs.snapshot import pack

Env = gymnasium.Env[Any, Any]
HOUSEHOLD = ("turncredit/Household-v0", {"level": "tiny"})
RANDOMIZED = ("turncredit/Household-v0", {"level": "tiny", "domain_randomization": True})
SHOP = ("turncredit/WebShop-v0", {"level": "tiny"})
RICH = (
    "turncredit/WebShop-v0",
    {"level": "tiny", "observation": "text_rich", "num_prev_obs": 2, "num_prev_actions": 3},
)
KINDS = {"household": HOUSEHOLD, "randomized": RANDOMIZED, "shop": SHOP, "rich": RICH}
SEARCHES = ["search[blue lamp]", "search[<r>]", "search[<a> soft]", "search[x]", "nonsense", "\ud800", ""]


def made(kind: str, **kwargs: Any) -> Env:
    id, fixed = KINDS[kind]
    return make(id, **{**fixed, **kwargs})


def choose(info: dict[str, Any], rng: Random) -> str:
    """An action: mostly one of those listed, now and then a search or what is none."""
    listed = info["admissible_actions"]
    return rng.choice(SEARCHES) if not listed or rng.random() < 0.2 else rng.choice(listed)


def play(env: Env, info: dict[str, Any], seed: int, turns: int) -> list[Any]:
    """What random play brings; a step after the end brings the name of what it raises."""
    rng = Random(seed)
    answers: list[Any] = []
    for _ in range(turns):
        try:
            answers.append(env.step(choose(info, rng)))
            info = answers[-1][4]
        except EnvError as error:
            answers.append(type(error).__name__)
            break
    return answers


def standing(env: Env, seed: int, turns: int) -> tuple[Any, dict[str, Any]]:
    """Play to a moment; what is seen there."""
    observation, info = env.reset(seed=seed)
    for answer in play(env, info, seed, turns):
        if not isinstance(answer, str):
            observation, info = answer[0], answer[4]
    return observation, info


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), turns=st.integers(0, 18), future=st.integers(0, 10**6))
def test_any_moment_has_the_same_future_in_a_fresh_instance(kind: str, seed: int, turns: int, future: int):
    env, other = made(kind), made(kind)
    observation, info = standing(env, seed, turns)
    data = save(env)
    assert save(env) == data
    seen = load(other, data)
    assert seen == (observation, info | {"valid": True})
    assert save(other) == data
    expected = play(env, info, future, 12)
    assert play(other, info, future, 12) == expected
    assert load(other, data) == seen
    assert play(other, info, future, 12) == expected
    # what is drawn later is drawn alike: the next task, the numbers in names
    assert env.reset() == other.reset()


@pytest.mark.parametrize("kind", KINDS)
def test_branches_are_independent_of_each_other_and_of_the_original(kind: str):
    env = made(kind)
    _, info = standing(env, 5, 3)
    one, two, three = branch(env, 3)
    data = save(env)
    futures = [play(env, info, seed, 8) for env, seed in ((one, 1), (two, 2))]
    assert save(env) == save(three) == data
    assert [play(again, info, seed, 8) for again, seed in zip(branch(env, 2), (1, 2), strict=True)] == futures
    assert play(three, info, 1, 8) == futures[0]
    assert play(env, info, 2, 8) == futures[1]


RESUME = """
import json, sys
from turncredit.envs import load, make
id, kwargs, actions = json.loads(sys.argv[1])
env = make(id, **kwargs)
seen = load(env, open(sys.argv[2], "rb").read())
print(json.dumps([seen, [env.step(action) for action in actions]]))
"""


def test_another_process_goes_on(tmp_path: Path):
    file = tmp_path / "episode"
    for kind in ("randomized", "rich"):
        env = made(kind)
        observation, info = standing(env, 11, 4)
        actions = env.get_wrapper_attr("plan")()
        file.write_bytes(save(env))
        code = [sys.executable, "-c", RESUME, json.dumps([*KINDS[kind], actions]), str(file)]
        told = json.loads(subprocess.run(code, capture_output=True, check=True, text=True).stdout)
        expected = [(observation, info | {"valid": True}), [env.step(action) for action in actions]]
        assert told == json.loads(json.dumps(expected))
        assert told[1][-1][4]["won"]


def test_a_goal_given_whole_with_prices_of_its_own_is_kept():
    env, other = made("shop"), made("shop")
    core: Any = env.unwrapped
    goal = core.source.get(core.task_ids(1)[0])
    prices = {goal.asin: 123.25}
    env.reset(options={"goal": goal.as_dict() | {"price_upper": float("inf")}, "prices": prices, "session": "s 1"})
    load(other, save(env))
    assert other.unwrapped.session.prices == prices  # type: ignore[attr-defined]
    for action in env.get_wrapper_attr("plan")():
        assert env.step(action) == other.step(action)


def test_episodes_of_the_original_files_are_kept(data_dir: Path, tmp_path: Path):
    games, shop = str(data_dir / "alfworld"), data_dir / "webshop"
    files = {
        "products": str(shop / "items_shuffle_1000.reconstructed.json"),
        "attributes": str(shop / "items_ins_v2_1000.json"),
        "human": str(shop / "items_human_ins.subset_1000.json"),
        "cache": str(tmp_path),
    }
    for id, kwargs in (
        ("turncredit/Household-v0", {"games": games, "goals": "human", "domain_randomization": True}),
        ("turncredit/Household-v0", {"games": games, "split": "valid_unseen"}),
        ("turncredit/WebShop-v0", {**files, "splits": "all", "observation": "text_rich"}),
    ):
        env, other = make(id, **kwargs), make(id, **kwargs)
        for seed in range(6):
            observation, info = standing(env, seed, 2 * seed)
            assert load(other, save(env)) == (observation, info | {"valid": True})
            assert play(other, info, seed, 10) == play(env, info, seed, 10)
            assert env.reset() == other.reset()
    few = make("turncredit/WebShop-v0", **{**files, "splits": "all", "observation": "text_rich", "num_products": 500})
    with pytest.raises(BadSnapshot, match=r"products='1,000 in files.* has products='500 in files"):
        load(few, save(env))


@pytest.mark.parametrize("wrap", [lambda env: TurnLimit(env, 5), lambda env: EndGuard(TimeLimit(env, 5))])
def test_the_turns_that_are_left_are_kept(wrap: Callable[[Env], Env]):
    env = wrap(Corridor())
    env.reset(seed=0)
    for _ in range(3):
        env.step("look")
    other = wrap(Corridor())
    load(other, save(env))
    assert other.step("look")[3] is False
    assert other.step("look")[3] is True
    for late in (other, *branch(other, 1, make=lambda: wrap(Corridor()))):
        with pytest.raises(StepAfterEnd):
            late.step("look")
    assert env.step("look")[3] is False


def test_a_branch_of_a_made_environment_has_its_wrappers_and_its_arguments():
    env = TurnLimit(make(ID, lengths=(4,), max_episode_steps=9), 7)
    env.reset(seed=0)
    env.step("look")
    (other,) = branch(env, 1)
    assert str(other) == str(env)
    assert [other.step("look")[3] for _ in range(6)] == [False] * 5 + [True]
    plain = gymnasium.make("turncredit/Household-v0", level="tiny", disable_env_checker=False)
    plain.reset(seed=0)
    assert str(branch(plain, 1)[0]) == str(plain)


def test_deadlines_and_child_processes_pass_it_on():
    maker = functools.partial(make, ID, max_episode_steps=4)
    inner = make(ID, max_episode_steps=4)
    env, other = Deadline(inner, 60), Isolated(maker, 60, start_method="fork")
    try:
        env.reset(seed=0)
        env.step("look")
        other.reset(seed=1)
        assert other.restore(env.snapshot()) == load(make(ID, max_episode_steps=4), save(inner))
        assert [other.step("look")[3] for _ in range(3)] == [False, False, True]
        assert load(env, save(env))[1]["valid"]
    finally:
        env.close()
        other.close()


def test_who_offers_it():
    assert isinstance(made("household").unwrapped, HasSnapshot)
    assert isinstance(made("shop").unwrapped, HasSnapshot)
    assert not hasattr(WebShopBrowserEnv(GeneratedProducts(level="tiny")), "snapshot")


def test_nothing_to_save_is_said():
    with pytest.raises(NotReset):
        save(made("household"))
    with pytest.raises(NotReset):
        branch(made("shop"), 2)
    frozen = gymnasium.make("FrozenLake-v1")
    frozen.reset()
    with pytest.raises(EnvError, match=r"FrozenLakeEnv cannot be saved: it has no snapshot\(\)"):
        save(frozen)
    counted = RecordEpisodeStatistics(make(ID))
    counted.reset()
    with pytest.raises(EnvError, match="the wrapper RecordEpisodeStatistics cannot be saved"):
        save(counted)


def test_what_cannot_be_branched_is_said():
    env = Corridor()
    env.reset(seed=0)
    with pytest.raises(EnvError, match=r"not made by gymnasium.make, .* pass a function"):
        branch(env, 1)
    for n in (0, True, "2"):
        with pytest.raises(EnvError, match="n must be an integer >= 1"):
            branch(env, n)  # type: ignore[arg-type]
    late = Deadline(make(ID), 60)
    late.reset(seed=0)
    with pytest.raises(EnvError, match="pass a function"):
        branch(late, 1)
    late.close()


@pytest.mark.parametrize(
    ("one", "other", "what"),
    [
        (("household", {}), ("household", {"split": "held_out"}), "split='train', but this one has split='held_out'"),
        (("household", {}), ("household", {"level": "tiny+closed=0.5"}), "level='tiny', but this one has level='tiny"),
        (("household", {}), ("randomized", {}), "domain_randomization=False"),
        (("household", {}), ("household", {"max_episode_steps": 3}), r"TimeLimit\(50\).* has .*TimeLimit\(3\)"),
        (("household", {}), ("shop", {}), "HouseholdEnv.* has .*WebShopEnv"),
        (("shop", {}), ("shop", {"catalogue_seed": 7}), "catalogue_seed=0, but this one has catalogue_seed=7"),
        (("shop", {}), ("shop", {"observation": "url"}), "observation='text', but this one has observation='url'"),
        (("shop", {}), ("shop", {"payoff": "sparse"}), "payoff"),
    ],
)
def test_other_arguments_are_refused_by_name(one: Any, other: Any, what: str):
    env, there = (made(kind, **kwargs) for kind, kwargs in (one, other))
    standing(env, 2, 2)
    _, info = standing(there, 3, 2)
    before = save(there)
    with pytest.raises(BadSnapshot, match=what):
        load(there, save(env))
    assert save(there) == before
    assert play(there, info, 1, 3)


def test_a_snapshot_of_another_environment_or_version_is_refused():
    household, shop = made("household").unwrapped, made("shop").unwrapped
    household.reset(seed=0)
    with pytest.raises(BadSnapshot, match="the snapshot is of 'Household', but this is 'WebShop'"):
        shop.restore(household.snapshot())  # type: ignore[attr-defined]
    document = json.loads(household.snapshot())  # type: ignore[attr-defined]
    with pytest.raises(BadSnapshot, match="version 99 of 'Household', but 1 is needed"):
        household.restore(pack("Household", 99, document["made"], document["episode"]))  # type: ignore[attr-defined]


@functools.cache
def valuable(kind: str) -> tuple[Any, bytes]:
    """An environment in the middle of an episode, and its snapshot."""
    env = made(kind).unwrapped
    standing(env, 4, 5)
    return env, env.snapshot()  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", ["household", "rich"])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_torn_and_flipped_bytes_are_refused(kind: str, data: st.DataObject):
    env, good = valuable(kind)
    assert is_refused(env, spoilt(data, good), good)


@given(bad=ANY_BYTES)
def test_any_bytes_are_refused(bad: Any):
    env, good = valuable("household")
    with pytest.raises(BadSnapshot):
        env.restore(bad)
    with pytest.raises(BadSnapshot):
        env.restore(b"[" * 100_000)
    assert env.snapshot() == good


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from(
        [2**127, 2**128, -1.5, float("nan"), "", "x", "done", "item", "Description", [], [[]], {}, ["a", "b"]]
    ),
    st.lists(
        st.tuples(st.sampled_from(["atlocation", "x", ""]), st.lists(st.integers(-1, 40)), st.booleans()), max_size=2
    ),
    st.text(max_size=4),
)


@pytest.mark.parametrize("kind", ["household", "randomized", "shop", "rich"])
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_forged_values_are_refused_or_can_be_played(kind: str, data: st.DataObject):
    """Whoever writes the digest anew can forge an episode; nothing but an episode or a BadSnapshot comes of it."""
    env, good = valuable(kind)
    try:
        observation, info = env.restore(forged(data, good, ODD))
    except BadSnapshot:
        assert env.snapshot() == good
        return
    assert isinstance(observation, str)
    play(env, info, 0, 4)
    env.restore(good)

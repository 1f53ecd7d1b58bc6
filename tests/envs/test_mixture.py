"""Mixtures: each part plays as it does alone, and what users write is understood or refused in one sentence."""

from __future__ import annotations

import pickle
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toys import corridor

from turncredit.envs import (
    BadSnapshot,
    EnvError,
    NoExpert,
    NotReset,
    UnknownTask,
    branch,
    load,
    make,
    maker,
    register,
    save,
)
from turncredit.envs.check import Effort, check_env
from turncredit.envs.info import NO_FORKS
from turncredit.envs.isolated import Isolated
from turncredit.envs.mixture import Mixture
from turncredit.envs.parts import MIXTURE, part_names, parts_in, read_parts, tables_of
from turncredit.envs.registration import parts_of
from turncredit.rotation import Rotation, interleaved
from turncredit.task_ids import part_of, within

HOUSE, SEARCH = "turncredit/Household-v0", "turncredit/Search-v0"
TWO = [{"id": HOUSE, "kwargs": {"level": "tiny"}}, {"id": SEARCH, "weight": 2, "kwargs": {"level": "tiny"}}]


class Silent(corridor.Corridor):
    """It has no expert, and says that nobody can fork it."""

    metadata = corridor.Corridor.metadata | {NO_FORKS: "it never repeats itself"}
    plan = None


@pytest.fixture(autouse=True)
def _registered() -> None:
    corridor.register()
    register("toys/SilentPart-v0", Silent)


def unnamed(info: dict[str, Any], part: str) -> dict[str, Any]:
    """`info` as the part has it."""
    assert all(info[key].startswith(f"{part}/") for key in ("task", "state"))
    return {**info, **{key: within(info[key], part) for key in ("task", "state")}}


@pytest.mark.parametrize(("id", "kwargs"), [(HOUSE, {"level": "tiny"}), (SEARCH, {"level": "tiny"}), (corridor.ID, {})])
def test_a_mixture_of_one_part_plays_exactly_as_the_part(id: str, kwargs: dict[str, Any]) -> None:
    alone, mixed = make(id, **kwargs), make(MIXTURE, parts=[{"id": id, "name": "x", "kwargs": kwargs}])
    assert mixed.unwrapped.task_ids(7) == [f"x/{task}" for task in alone.unwrapped.task_ids(7)]
    dice = np.random.default_rng(0)
    for seed, task in enumerate([*alone.unwrapped.task_ids(3), None]):
        options = (None, None) if task is None else ({"task": task}, {"task": f"x/{task}"})
        first, second = alone.reset(seed=seed, options=options[0]), mixed.reset(seed=seed, options=options[1])
        over = False
        while not over:
            assert (first[0], first[1]) == (second[0], unnamed(second[1], "x"))
            assert alone.unwrapped.plan() == mixed.unwrapped.plan()
            actions = [*first[1].get("admissible_actions", []), *alone.unwrapped.plan()[:1], "nonsense"]
            action = str(dice.choice(actions))
            observation, *ends, info = alone.step(action)
            result = mixed.step(action)
            assert (observation, *ends) == result[:-1]
            first, second = (observation, info), (result[0], result[-1])
            over = ends[1] or ends[2]


def test_levels_are_parts_with_one_argument_more() -> None:
    env = make(HOUSE, levels=["tiny", "small+objects=6-7"], split="held_out")
    assert env.unwrapped.task_ids(4) == [
        "tiny/held_out/tiny/000000",
        "small+objects=6-7/held_out/small+objects=6-7/000000",
        "tiny/held_out/tiny/000001",
        "small+objects=6-7/held_out/small+objects=6-7/000001",
    ]
    assert [part.kwargs for part in env.unwrapped.parts.values()] == [
        {"split": "held_out", "level": "tiny"},
        {"split": "held_out", "level": "small+objects=6-7"},
    ]
    for id in (HOUSE, SEARCH, "turncredit/WebShop-v0", "turncredit/Code-v0", "turncredit/Bash-v0"):
        assert [part.name for part in parts_of(id, levels={"tiny": 3, "small": 1})] == ["tiny", "small"]
        assert [part.weight for part in parts_of(id, levels={"tiny": 3, "small": 1})] == [0.75, 0.25]


def test_levels_of_a_part_share_its_weight() -> None:
    table = {"id": HOUSE, "weight": 3, "kwargs": {"levels": {"tiny": 2, "small": 1}}}
    parts = parts_of(MIXTURE, parts=[table, {"id": SEARCH}])
    assert {part.name: part.weight for part in parts} == {"household/tiny": 2, "household/small": 1, "search": 1}
    assert parts_of(MIXTURE, parts=tables_of(parts)) == parts


def test_an_environment_that_has_levels_itself_gets_them() -> None:
    class Stairs(corridor.Corridor):
        def __init__(self, levels: int = 1) -> None:
            super().__init__()
            self.levels = levels

    register("toys/Stairs-v0", Stairs)
    assert make("toys/Stairs-v0", levels=3).unwrapped.levels == 3
    (part,) = parts_of(MIXTURE, parts=[{"id": "toys/Stairs-v0", "kwargs": {"levels": 3}}])
    assert (part.name, part.kwargs) == ("stairs", {"levels": 3})


def test_tasks_are_listed_in_turn_and_drawn_by_the_weights() -> None:
    env = make(MIXTURE, parts=[{"id": corridor.ID, "name": "a", "weight": 3}, {"id": corridor.ID, "name": "b"}])
    tasks = env.unwrapped.task_ids()
    assert sorted(tasks) == sorted(f"{part}/{task}" for part in "ab" for task in corridor.Corridor().task_ids())
    assert [part_of(task, "ab") for task in tasks[:8]] in ([*"aabaaaba"], [*"abaaabaa"], [*"aabaaaab"])
    drawn = [env.reset(seed=seed)[1]["task"] for seed in range(400)]
    assert drawn == [env.reset(seed=seed)[1]["task"] for seed in range(400)]
    assert abs(sum(task.startswith("a/") for task in drawn) - 300) < 5 * 75**0.5


def test_a_longer_list_is_asked_of_the_parts_that_have_more() -> None:
    env = make(MIXTURE, parts=[{"id": corridor.ID}, {"id": HOUSE, "kwargs": {"level": "tiny"}}])
    few = len(corridor.Corridor().task_ids())
    assert len(env.unwrapped.task_ids(1500)) == len(set(env.unwrapped.task_ids(1500))) == 1500
    assert sum(task.startswith("corridor/") for task in env.unwrapped.task_ids(1500)) == few


def test_parts_are_made_when_they_are_needed() -> None:
    env = make(MIXTURE, parts=TWO)
    assert env.unwrapped._made == {}
    env.reset(options={"task": "search/train/tiny/000000"})
    assert [*env.unwrapped._made] == ["search"]


def test_an_episode_is_saved_in_the_middle_and_goes_on_in_another_mixture() -> None:
    env = make(MIXTURE, parts=TWO)
    with pytest.raises(NotReset):
        env.unwrapped.snapshot()
    for task in ("household/train/tiny/000001", "search/train/tiny/000002"):
        env.reset(seed=4, options={"task": task})
        env.step(env.unwrapped.plan()[0])
        data, plan = save(env), env.unwrapped.plan()
        other = make(MIXTURE, parts=TWO)
        assert load(other, data)[1]["state"].startswith(task.partition("/")[0])
        copies = [other, *branch(env, 2), pickle.loads(pickle.dumps(env))]
        futures = [[one.step(action) for action in plan] for one in (env, *copies)]
        assert all(future == futures[0] for future in futures)
        assert env.unwrapped.np_random.random() == other.unwrapped.np_random.random()


def test_a_snapshot_of_another_mixture_changes_nothing() -> None:
    env, other = make(MIXTURE, parts=TWO), make(MIXTURE, parts=[{**TWO[0], "name": "home"}, TWO[1]])
    env.reset(options={"task": "household/train/tiny/000001"})
    _, info = other.reset(options={"task": "home/train/tiny/000003"})
    with pytest.raises(BadSnapshot, match="'part' must be one of home, search"):
        load(other, save(env))
    harder = make(MIXTURE, parts=[{"id": HOUSE, "kwargs": {"level": "small"}}])
    with pytest.raises(BadSnapshot, match="level"):
        load(harder, save(env))
    assert other.step("look")[4]["task"] == info["task"]


def test_a_part_without_an_expert_and_without_forks_says_so() -> None:
    env = make(MIXTURE, parts=[{"id": corridor.ID}, {"id": "toys/SilentPart-v0"}])
    assert env.metadata[NO_FORKS] == "it never repeats itself"
    env.reset(options={"task": f"corridor/{corridor.Corridor().task_ids()[0]}"})
    assert env.metadata[NO_FORKS] == ""
    env.reset(options={"task": f"silentpart/{corridor.Corridor().task_ids()[0]}"})
    assert env.metadata[NO_FORKS]
    with pytest.raises(NoExpert, match="'silentpart' of the mixture has no plan"):
        env.unwrapped.plan()


def test_the_contract_is_kept() -> None:
    report = check_env(HOUSE, kwargs={"levels": ["tiny", "small"]}, tasks=2, effort=Effort.light())
    assert report.ok, report
    report = check_env(MIXTURE, kwargs={"parts": [{"id": corridor.ID}, TWO[1]]}, tasks=2, effort=Effort.light())
    assert report.ok, report


@pytest.mark.waits
def test_a_mixture_lives_in_another_process_with_parts_that_only_this_one_has_registered() -> None:
    with_toys = maker(MIXTURE, parts=[{"id": corridor.ID}, TWO[0]])
    env = Isolated(with_toys, seconds=60)
    try:
        task = f"corridor/{corridor.Corridor().task_ids()[0]}"
        assert env.reset(seed=1, options={"task": task}) == with_toys().reset(seed=1, options={"task": task})
        assert env.plan()
    finally:
        env.close()


@pytest.mark.parametrize(
    ("kwargs", "sentence"),
    [
        ({"levels": ["tinny"]}, "unknown level 'tinny' of the household generator; did you mean 'tiny'"),
        ({"levels": ["huge"]}, "choose one of: tiny, small, medium, large"),
        ({"levels": ["small+objcts=4"]}, "did you mean 'objects'"),
        ({"levels": []}, "levels must be a list such as"),
        ({"levels": "tiny"}, "levels must be a list such as"),
        ({"levels": ["tiny", "tiny"]}, "two levels have the name 'tiny'"),
        ({"levels": {"tiny": 0}}, "the weight of the part 'tiny' must be a number > 0, got 0"),
        ({"levels": {"tiny": True}}, "must be a number > 0, got True"),
        ({"levels": ["tiny"], "level": "small"}, "both level and levels"),
        ({"levels": ["tiny"], "splt": 1}, "did you mean 'split'"),
    ],
)
def test_wrong_levels_are_refused(kwargs: dict[str, Any], sentence: str) -> None:
    with pytest.raises(EnvError, match=sentence):
        make(HOUSE, **kwargs)


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        (None, "a mixture needs parts such as"),
        ([], "a mixture needs parts such as"),
        (["search"], "a part must be a table with an id"),
        ([{"id": "turncredit/Serch-v0"}], "did you mean 'turncredit/Search-v0'"),
        ([{"id": SEARCH}, {"id": SEARCH}], "two parts have the name 'search'; give them names"),
        ([{"id": SEARCH, "name": "a"}, {"id": SEARCH, "name": "a/b"}], "two parts have the name 'a'"),
        ([{"id": SEARCH, "weight": -1}], "the weight of the part 'search' must be a number > 0, got -1"),
        ([{"id": SEARCH, "weight": float("inf")}], "must be a number > 0, got inf"),
        ([{"id": SEARCH, "weight": "1"}], "must be a number > 0, got '1'"),
        ([{"id": SEARCH, "wieght": 1}], "a part has no key 'wieght'; did you mean 'weight'"),
        ([{"id": SEARCH, "name": "a#b"}], "the name of a part must be a word"),
        ([{"id": SEARCH, "name": 3}], "the name of a part must be a word"),
        ([{"id": SEARCH, "kwargs": {"levl": 1}}], "turncredit/Search-v0 has no argument 'levl'"),
        ([{"id": SEARCH, "kwargs": ["tiny"]}], "kwargs of the part 'search' must be a table"),
        ([{"id": MIXTURE, "kwargs": {"parts": TWO}}], "is a mixture itself"),
        ([{"id": SEARCH, "kwargs": {"levels": ["tinny"]}}], "unknown level 'tinny'"),
    ],
)
def test_wrong_parts_are_refused(parts: object, sentence: str) -> None:
    with pytest.raises(EnvError, match=sentence):
        make(MIXTURE, parts=parts)


def test_an_environment_without_levels_says_what_to_do() -> None:
    with pytest.raises(EnvError, match=r"Android-v0 has no argument 'level'.*env.mix"):
        make("turncredit/Android-v0", levels=["easy"])


SCREENS = [
    {"id": "turncredit/Android-v0", "name": name, "kwargs": {"observation": "screen", "apps": name}}
    for name in ("Clock", "Settings")
]


def test_parts_may_have_images_of_one_size() -> None:
    env, alone = make(MIXTURE, parts=SCREENS), make("turncredit/Android-v0", **SCREENS[1]["kwargs"])
    assert env.observation_space == alone.observation_space
    task = alone.unwrapped.task_ids(1)[0]
    seen, _ = env.reset(seed=0, options={"task": f"Settings/{task}"})
    right, _ = alone.reset(seed=0, options={"task": task})
    assert seen["text"] == right["text"]
    assert np.array_equal(seen["image"], right["image"])
    assert env.observation_space.contains(seen)


def test_numbers_are_refused() -> None:
    with pytest.raises(
        EnvError, match=r"observations of text, or of text and images, and those of CartPole-v1 are Box"
    ):
        make(MIXTURE, parts=[{"id": "CartPole-v1"}]).reset(seed=0)


def test_texts_and_images_do_not_mix() -> None:
    parts = [*SCREENS[:1], {"id": "turncredit/Search-v0", "kwargs": {"level": "tiny"}}]
    with pytest.raises(EnvError, match=r"observations of one kind: those of search are Text.*, those of Clock Dict"):
        make(MIXTURE, parts=parts).unwrapped.task_ids(4)


@pytest.mark.parametrize("task", ["serch/x", "search", "train/tiny/000000", "", "/", "#"])
def test_a_task_of_no_part_is_unknown(task: str) -> None:
    env = make(MIXTURE, parts=TWO)
    with pytest.raises(UnknownTask):
        env.reset(options={"task": task})
    with pytest.raises(NotReset):
        env.step("look")


WORDS = st.text(st.sampled_from("ab/#@ +=-é0"), max_size=5)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=True) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
TABLES = st.lists(
    st.fixed_dictionaries(
        {}, optional={"id": WORDS | st.just(corridor.ID), "name": WORDS, "weight": JSON, "kwargs": JSON}
    )
    | JSON,
    max_size=3,
)


@given(TABLES | JSON)
def test_whatever_a_file_says_is_read_or_refused(parts: object) -> None:
    try:
        read = read_parts(parts, {})
    except EnvError:
        return
    names = [part.name for part in read]
    assert len(set(names)) == len(names)
    assert all(part.weight > 0 for part in read)
    assert all(part_of(f"{name}/task", names) == name for name in names)
    assert part_names(MIXTURE, {"parts": parts}) == names
    assert [*read_parts(tables_of(read), {})] == [*read]


@given(JSON)
def test_whatever_levels_say_is_read_or_refused(levels: object) -> None:
    try:
        parts = parts_of(HOUSE, levels=levels)
    except EnvError:
        return
    assert [part.name for part in parts] == [str(level) for level in levels]  # type: ignore[attr-defined]


@given(st.lists(st.floats(1e-3, 1e3) | st.integers(1, 9) | st.sampled_from([0.1, 1 / 3]), min_size=1, max_size=6))
def test_each_has_had_its_share_after_any_number_of_turns(weights: list[float]) -> None:
    rotation, counts = Rotation(weights), [0] * len(weights)
    bound = 1 - 1 / max(1, 2 * len(weights) - 2) if len(weights) > 1 else 0
    for turn in range(120):
        member, before = rotation.at(turn)
        assert before == counts[member]
        counts[member] += 1
        for count, weight in zip(counts, weights, strict=True):
            assert abs(count - (turn + 1) * weight / sum(weights)) <= bound + 1e-6
    assert Rotation(weights).at(119) == rotation.at(119)


@given(st.lists(st.integers(0, 12), min_size=1, max_size=4), st.lists(st.integers(1, 5), min_size=4, max_size=4))
def test_interleaving_keeps_everything_and_the_order_of_each(sizes: list[int], weights: list[int]) -> None:
    lists = [[(which, item) for item in range(size)] for which, size in enumerate(sizes)]
    mixed = list(interleaved(lists, weights[: len(lists)]))
    assert [[pair for pair in mixed if pair[0] == which] for which in range(len(lists))] == lists


def test_parts_of_tasks() -> None:
    assert parts_in(["a/1", "b/x/2"], ["b/x", "a", "c"]) == ("b/x", "a")
    assert parts_in(["a/1", "2"], ["a"]) == ()
    assert part_of("a", ["a"]) == "a"  # the whole id: no task of a part, but nothing else either


def test_gymnasium_makes_it_as_well() -> None:
    env = gymnasium.make(MIXTURE, parts=TWO, split="held_out")
    assert isinstance(env.unwrapped, Mixture)
    assert env.unwrapped.task_ids(3) == [
        "search/held_out/tiny/000000",
        "household/held_out/tiny/000000",
        "search/held_out/tiny/000001",
    ]

"""The environment on simulated phones: contract, actions, bad input, splits, snapshots."""

from __future__ import annotations

import json
import pickle
import random
import re
from itertools import combinations

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turncredit.envs import UnknownOption, UnknownTask, check_env, make
from turncredit.envs.android.actions import ACTION_TYPES, BadAction, parse
from turncredit.envs.android.tasks.template import HELD_OUT_APPS, SPLITS, all_templates, split_of
from turncredit.envs.branch import branch
from turncredit.envs.check import Effort


@pytest.fixture(scope="module")
def env():
    return make("turncredit/Android-v0")


def test_the_environment_keeps_the_contract():
    report = check_env("turncredit/Android-v0", tasks=2, effort=Effort.light())
    assert report.ok, str(report)


def test_an_episode_by_hand(env):
    observation, info = env.reset(options={"task": "ContactsAddFavourite/1"})
    name = observation.split("Your task is to: ")[1].splitlines()[0]
    assert info["task"] == "ContactsAddFavourite/1"
    assert any(word in name for word in ("favourite", "Favourite"))
    for action in env.unwrapped.plan():
        observation, reward, terminated, truncated, info = env.step(action)
        assert info["valid"], observation
    assert (reward, terminated, truncated, info["won"], info["score"]) == (1.0, True, False, True, 1.0)
    assert env.unwrapped.plan() == []


def test_each_task_has_its_own_limit_of_turns(env):
    _, info = env.reset(options={"task": "ContactsDelete/0"})
    assert info["step_limit"] == 12
    for turn in range(1, 13):
        *_, terminated, truncated, info = env.step("wait")
        assert (terminated, truncated) == (False, turn == 12)


BAD = [
    "type 1 half \ud83d",
    r'{"action_type": "input_text", "index": 1, "text": "half \ud83d"}',
    "",
    "hello",
    "tap",
    "tap -1",
    "tap 999999",
    "tap 5000 10",
    "tap 10 5000",
    "long press 500",
    "type",
    "type 0 text",
    "type 900 text",
    "scroll sideways",
    "swipe 540 1800 540",
    "swipe 540 1800 540 9000",
    "swipe 5400 1800 540 600",
    '{"action_type": "swipe", "x": 1, "y": 2, "x2": 3, "y2": 4, "direction": "up"}',
    "open",
    "open Nothing Such",
    "answer",
    "{",
    "{}",
    "[]",
    '{"action_type": "fly"}',
    '{"action_type": "click"}',
    '{"action_type": "click", "index": 1, "x": 2, "y": 3}',
    '{"action_type": "click", "x": 2}',
    '{"action_type": "click", "index": "one"}',
    '{"action_type": "click", "index": true}',
    '{"action_type": "click", "index": 1e400}',
    '{"action_type": "click", "index": 400}',
    '{"action_type": "click", "x": -5, "y": 10}',
    '{"action_type": "input_text", "index": 1}',
    '{"action_type": "input_text", "text": ["a"]}',
    '{"action_type": "input_text", "index": 1, "text": "a", "clear_text": "yes"}',
    '{"action_type": "scroll"}',
    '{"action_type": "scroll", "direction": "sideways"}',
    '{"action_type": "status"}',
    '{"action_type": "status", "goal_status": "won"}',
    '{"action_type": "open_app"}',
    '{"action_type": "open_app", "app_name": "org.nothing.such"}',
    '{"action_type": "answer"}',
    '{"action_type": "unknown"}',
    '{"action_type": "wait", "keycode": "4"}',
    '{"action_type": "wait", "colour": "red"}',
    '{"action_type": ' + "[" * 5000,
]


@pytest.mark.parametrize("action", BAD)
def test_bad_input_is_explained_and_changes_nothing(env, action):
    _, before = env.reset(options={"task": "ContactsAdd/0"})
    observation, reward, terminated, truncated, info = env.step(action)
    assert observation.startswith("Invalid action: ")
    assert len(observation.splitlines()[0]) < 600
    assert (reward, terminated, truncated, info["valid"]) == (0.0, False, False, False)
    assert info["state"] == before["state"]


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.text(max_size=40), st.from_regex(r"(tap|type|scroll|swipe|open|answer|long press) .{0,20}")))
def test_any_text_is_an_action_or_a_clear_error(text):
    try:
        action = parse(text)
    except BadAction:
        return
    assert action.action_type in ACTION_TYPES


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(ACTION_TYPES),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)
FIELDS = ("action_type", "index", "x", "y", "text", "direction", "goal_status", "app_name", "keycode", "clear_text")


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(ACTION_TYPES),
    st.dictionaries(st.sampled_from(FIELDS[1:]), json_values, max_size=4),
)
def test_any_json_object_is_played_or_explained(kind, fields):
    env = make("turncredit/Android-v0")
    env.reset(options={"task": "ContactsAdd/0"})
    observation, *_, info = env.step(json.dumps({"action_type": kind, **fields}))
    assert info["valid"] or observation.startswith("Invalid action: ")


@pytest.mark.parametrize(
    "text", ["naïve café", "emoji 🙂🙃", "quotes \" and ' and `", "100 % \\ $HOME; rm", "tab\there"]
)
def test_any_text_can_be_typed(env, text):
    env.reset(options={"task": "ContactsAdd/0"})
    env.step("open Contacts")
    *_, info = env.step(f"type 1 {text}")
    assert info["valid"]
    assert env.unwrapped.episode.device.dump().find("Search contacts").text == text


def test_json_and_words_do_the_same(env):
    pairs = [
        ("open Contacts", {"action_type": "open_app", "app_name": "contacts"}),
        ("tap 3", {"action_type": "click", "index": 3}),
        ("back", {"action_type": "navigate_back"}),
        ("scroll down", {"action_type": "scroll", "direction": "down"}),
        ("long press 3", {"action_type": "long_press", "index": 3}),
        ("home", {"action_type": "navigate_home"}),
        ("wait", {"action_type": "wait"}),
        ("infeasible", {"action_type": "status", "goal_status": "infeasible"}),
    ]
    keys = []
    for form in range(2):
        env.reset(options={"task": "ContactsAdd/0"})
        steps = [env.step(pair[0] if form == 0 else json.dumps(pair[1])) for pair in pairs]
        assert all(step[4]["valid"] for step in steps)
        keys.append([step[4]["state"] for step in steps])
    assert keys[0] == keys[1]


def test_a_swipe_between_two_points_scrolls_as_far_as_it_goes(env):
    keys = []
    for swipes in (["swipe 540 1800 540 1100"], ["swipe 540 1800 540 1500", "Swipe 100, 900 100, 500"]):
        env.reset(options={"task": "ContactsAdd/0"})
        steps = [env.step(action) for action in ("open Contacts", *swipes)]
        assert all(info["valid"] for *_, info in steps)
        keys.append([info["state"] for *_, info in steps])
    assert keys[0][-1] == keys[1][-1] != keys[0][0]


def state_after(env, *actions):
    env.reset(options={"task": "MessagesDeleteConversation/6"})
    steps = [env.step(action) for action in actions]
    assert all(info["valid"] for *_, info in steps)
    return steps[-1][4]["state"]


def test_the_order_of_open_apps_belongs_to_the_state_because_overview_shows_it(env):
    _, info = env.reset(options={"task": "MessagesDeleteConversation/6"})
    (overview,) = [action for action in info["admissible_actions"] if re.fullmatch(r"tap \d+ \d+", action)]
    env.step("open Calendar")
    env.step("open Music")
    shown, *_ = env.step(overview)
    assert shown.index("Music") < shown.index("Calendar")
    assert state_after(env, "open Music") != state_after(env, "open Calendar", "open Music")


@pytest.mark.parametrize(
    "way",
    [("open Music", "home", "open Music"), ("tap 900 2337", "open Music"), ("tap 18", "open Music")],
    ids=["home between", "from Overview", "from the drawer"],
)
def test_what_the_launcher_showed_before_an_app_was_opened_is_no_part_of_the_state(env, way):
    assert state_after(env, *way) == state_after(env, "open Music")
    launcher = json.dumps({"action_type": "open_app", "app_name": "com.android.launcher3"})
    assert state_after(env, *way, launcher) == state_after(env, "open Music", "home")


@pytest.mark.parametrize("format", ["m3a", "t3a"])
def test_androidworlds_formats_list_every_element_by_its_index(format):
    env = make("turncredit/Android-v0", format=format, instructions=False)
    observation, _ = env.reset(options={"task": "ContactsAdd/0"})
    observation, *_ = env.step("open Contacts")
    lines = observation.splitlines()
    assert all(line.startswith(f"UI element {i}: ") for i, line in enumerate(lines))
    elements = env.unwrapped.episode.device.dump()
    assert elements.find("Create contact").description in observation
    index = next(i for i, line in enumerate(lines) if "Create contact" in line)
    observation, *_ = env.step(json.dumps({"action_type": "click", "index": index}))
    assert "First name" in observation


@pytest.mark.parametrize("format", ["compact", "m3a", "t3a"])
def test_the_expert_wins_in_every_format(format):
    env = make("turncredit/Android-v0", format=format)
    for task in env.unwrapped.task_ids(6):
        env.reset(options={"task": task})
        for action in env.unwrapped.plan():
            *_, info = env.step(action)
        assert info["won"], (task, info["reasons"])


def test_screens_come_as_text_and_image():
    pytest.importorskip("PIL")
    env = make("turncredit/Android-v0", observation="screen", size=(270, 600))
    observation, _ = env.reset(options={"task": "ContactsAdd/0"})
    assert observation in env.observation_space
    later, *_ = env.step("open Contacts")
    assert later["image"].shape == (600, 270, 3)
    assert later["image"].dtype == np.uint8
    assert (later["image"] != observation["image"]).any()
    twin = branch(env, 1)[0]
    again, *_ = twin.step("tap 3")
    once, *_ = env.step("tap 3")
    assert again["text"] == once["text"]
    assert (again["image"] == once["image"]).all()


def test_an_episode_can_be_branched_and_pickled(env):
    env.reset(options={"task": "ContactsSetPhone/0"})
    plan = env.unwrapped.plan()
    for action in plan[:3]:
        env.step(action)
    others = [*branch(env, 2), pickle.loads(pickle.dumps(env))]
    for other in others:
        for action in plan[3:]:
            *_, info = other.step(action)
        assert info["won"]
    *_, info = env.step("home")
    assert not info["won"]


def test_the_expert_goes_on_after_a_wrong_action(env):
    rng, won = random.Random(4), 0
    tasks = env.unwrapped.task_ids(60)
    for task in tasks:
        _, info = env.reset(options={"task": task})
        for action in env.unwrapped.plan()[:-1][: rng.randrange(5)]:
            *_, info = env.step(action)
        env.step(rng.choice(["home", "back", "open Settings", "scroll down"]))
        for action in env.unwrapped.plan():
            *_, terminated, truncated, info = env.step(action)
            if terminated or truncated:
                break
        won += info["won"]
    assert won >= 0.9 * len(tasks)


def test_splits_are_disjoint_and_cover_everything():
    numbers = range(60)
    ids = {
        split: {(t.name, n) for t in all_templates().values() for n in numbers if split_of(t, n) == split}
        for split in SPLITS
    }
    assert sum(map(len, ids.values())) == len(all_templates()) * len(numbers)
    for one, other in combinations(SPLITS, 2):
        assert not ids[one] & ids[other]
    names = {split: {name for name, _ in found} for split, found in ids.items()}
    assert not names["train"] & names["templates"]
    assert not names["train"] & names["apps"]
    assert names["instances"] == names["train"]
    used = {app for name in names["train"] | names["templates"] for app in all_templates()[name].apps}
    assert not used & set(HELD_OUT_APPS)


@pytest.mark.parametrize("split", ["train", "instances", "templates"])
def test_a_split_gives_its_own_tasks_alone(split):
    env = make("turncredit/Android-v0", split=split)
    for seed in range(20):
        _, info = env.reset(seed=seed)
        name, _, number = info["task"].rpartition("/")
        assert split_of(all_templates()[name], int(number)) == split
    other = "instances" if split == "train" else "train"
    foreign = make("turncredit/Android-v0", split=other).unwrapped.task_ids(1)[0]
    with pytest.raises(UnknownTask, match="split"):
        env.reset(options={"task": foreign})


def test_arguments_choose_tasks_and_wrong_ones_are_named():
    env = make("turncredit/Android-v0", apps="Contacts", task_types=["ContactsAdd"])
    assert {task.split("/")[0] for task in env.unwrapped.task_ids(9)} == {"ContactsAdd"}
    for bad in (
        {"split": "test"},
        {"apps": ["Contact"]},
        {"task_types": "ContactsAd"},
        {"format": "xml"},
        {"observation": "pixels"},
        {"size": (0, 5)},
        {"size": 5},
        {"apps": []},
    ):
        with pytest.raises(UnknownOption):
            make("turncredit/Android-v0", **bad)


def test_a_random_player_wins_less_than_three_in_a_hundred(env):
    rng, won = random.Random(0), 0
    tasks = env.unwrapped.task_ids(300)
    for task in tasks:
        _, info = env.reset(options={"task": task})
        over = False
        while not over:
            *_, terminated, truncated, info = env.step(rng.choice(info["admissible_actions"]))
            over = terminated or truncated
        won += info["won"]
    assert won < 0.03 * len(tasks)


def test_gymnasium_makes_it():
    env = gymnasium.make("turncredit/Android-v0")
    _, info = env.reset(seed=5)
    assert env.reset(seed=5)[1]["state"] == info["state"]


@pytest.mark.parametrize(
    ("options", "task", "said"),
    [
        ({}, "MapsSave/0", "belongs to the split 'apps', not to 'train'"),
        ({}, "ClockAskCity/0", "belongs to the split 'templates', not to 'train'"),
        ({"apps": ["Clock"]}, "ContactsAdd/0", r"left out by apps=\['Clock'\]; apps=\['Contacts'\] and"),
        ({}, "ContactsAdds/0", "unknown task 'ContactsAdds/0' in the split 'train'.*ContactsAdd/0"),
        ({}, "ContactsAdd/x", "unknown task 'ContactsAdd/x'"),
    ],
)
def test_a_task_that_is_not_there_is_refused_with_the_reason(options, task, said):
    with pytest.raises(UnknownTask, match=said):
        make("turncredit/Android-v0", **options).reset(options={"task": task})


@pytest.mark.parametrize("given", [5, {"Clock"}, [], [5], b"Clock"])
@pytest.mark.parametrize("option", ["apps", "task_types"])
def test_apps_and_task_types_are_names(option, given):
    with pytest.raises(UnknownOption, match=f"{option} must be a name, or a list of names"):
        make("turncredit/Android-v0", **{option: given})

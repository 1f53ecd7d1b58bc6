"""What people do to the phone in the browser, written as actions of the environment: both lead to the same phone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turncredit.envs.android.env import AndroidEnv
from turncredit.envs.android.site.inputs import KEYS, BadInput, Input, read_input
from turncredit.envs.android.site.player import Choice, NotNow, PhonePlayer, catalogue
from turncredit.envs.android.site.reasons import for_people
from turncredit.envs.errors import EnvError
from turncredit.phone import Phone
from turncredit.phone.screen.keyboard import KEYBOARD_MODE
from turncredit.phone.toolkit.state import AppPage

TASK = Choice(template="ClockAddAlarm", seed=1)  # Set an alarm for 23:05.


@pytest.fixture(scope="module")
def player() -> Iterator[PhonePlayer]:
    player = PhonePlayer(
        TASK,
        save=lambda split, task, actions, won: {"split": split, "text": "\n".join(played.action for played in actions)},
    )
    yield player
    player.close()


@pytest.fixture(autouse=True)
def _from_the_start(player: PhonePlayer) -> None:
    player.start(TASK)


def words(player: PhonePlayer) -> list[str]:
    return [step["words"] for step in player.status()["steps"]]


def tap(player: PhonePlayer, label: str, kind: str = "tap") -> None:
    shown = player.status()["elements"]
    [left, top, right, bottom] = next(one for one in shown if label in one["label"])["bounds"]
    player.act(Input(kind, (left + right) // 2, (top + bottom) // 2))


def actions(player: PhonePlayer) -> list[str]:
    """End the episode, and return its actions without the last."""
    player.say("done")
    return player.save()["text"].split("\n")[:-1]


def test_taps_and_typing_become_the_actions_of_an_agent(player: PhonePlayer) -> None:
    tap(player, "Clock")
    tap(player, "Add alarm")
    tap(player, "Time")
    tap(player, "Hour, 07")
    player.act(Input("key", text="SelectAll"))
    for key in "239":
        player.act(Input("text", text=key))
    player.act(Input("key", text="Backspace"))
    tap(player, "Minute, 00")
    for _ in range(2):
        player.act(Input("key", text="Backspace"))
    player.act(Input("text", text="05"))
    tap(player, "OK")
    tap(player, "Save")
    assert words(player)[3:5] == ["Type “23” into “Hour”", "Type “05” into “Minute”"]
    player.say("done")
    status = player.status()
    assert (status["verdict"]["won"], len(status["steps"])) == (True, 8)
    saved = player.save()
    assert (saved["split"], saved["text"].split("\n")[-1]) == ("train", "done")
    assert [line.split()[0] for line in saved["text"].split("\n")] == [
        "tap",
        "tap",
        "tap",
        "type",
        "type",
        "tap",
        "tap",
        "done",
    ]


def test_the_soft_keyboard_is_typing_too(player: PhonePlayer) -> None:
    player.act(Input("key", text="Home"))
    tap(player, "Contacts")
    tap(player, "Create contact")
    tap(player, "First name")
    for letter in "bo":
        boxes = (box for root in player._device.phone.frame.system for box in root.walk())
        key = next(box for box in boxes if box.text == letter)
        player.act(Input("tap", (key.left + key.right) // 2, (key.top + key.bottom) // 2))
    [*_, last] = words(player)
    assert (last.lower(), len(words(player))) == ("type “bo” into “first name”", 3)


def test_turns_of_the_wheel_become_one_swipe(player: PhonePlayer) -> None:
    tap(player, "Contacts")
    for by in (100, 120, 80):
        player.act(Input("scroll", 500, 1400, 500, 1400 - by))
    assert words(player) == ["Tap “Contacts”", "Scroll down by 300 pixels"]
    assert actions(player)[1] == "swipe 500 1400 500 1100"


def test_what_changes_nothing_is_no_step(player: PhonePlayer) -> None:
    player.act(Input("text", text="nobody listens"))
    player.act(Input("key", text="Enter"))
    player.act(Input("tap", 5, 1900))
    assert words(player) == []


def test_what_no_action_does_cannot_be_a_demonstration(player: PhonePlayer) -> None:
    tap(player, "Contacts")
    player.act(Input("key", text="Overview"))
    assert "no action of the environment does this" in words(player)[-1]
    player.say("done")
    with pytest.raises(NotNow, match="no action of the environment does"):
        player.save()


def test_the_step_limit_ends_an_episode(player: PhonePlayer) -> None:
    for _ in range(7):
        tap(player, "Clock")
        player.act(Input("key", text="Home"))
    verdict = player.status()["verdict"]
    assert not verdict["won"]
    assert "allows 14 steps" in verdict["reasons"][0]
    player.act(Input("key", text="Back"))  # the phone goes on, the count does not
    assert len(words(player)) == 14


def test_side_effects_are_told_in_words(player: PhonePlayer) -> None:
    tap(player, "Clock")
    tap(player, "06:00")
    tap(player, "Add alarm")
    tap(player, "Save")
    player.act(Input("key", text="Home"))
    tap(player, "Contacts")
    tap(player, "Create contact")
    tap(player, "First name")
    player.act(Input("text", text="{'Zoe': 1}"))
    tap(player, "Save")
    player.say("done")
    verdict = player.status()["verdict"]
    assert not verdict["won"]
    assert verdict["reasons"] == [
        "Clock has no new entry of alarms with time 23:05, enabled 1",
        "Side effect in Clock: a new entry of alarms: time 07:00, enabled 1",
        "Side effect in Contacts: a new entry of contacts: first {'Zoe': 1}, label Mobile, starred 0",
        "Side effect in Clock: an entry of alarms has changed: enabled from 0 to 1",
    ]


def test_every_reason_of_the_judge_can_be_told() -> None:
    apps = {"org.a": "A"}
    told = [
        ("org.a.rows has lost the row {'_id': 4, 'name': 'x'}", "Side effect in A: an entry of rows is gone: name x"),
        ("org.a.rows: row 4 has not become {'n': 2.5}", "A: the entry of rows has not become n 2.5"),
        ("org.a.rows: row 4 is still there", "A, rows: row 4 is still there"),
        (
            "org.a.rows has a new row {'n': Above(least=1)}",
            "Side effect in A: a new entry of rows: {'n': Above(least=1)}",
        ),
        ("org.b.rows: row 4 is still there", "Org.b.rows: row 4 is still there"),
        ("the setting wifi_on is now '0'", "Side effect: the setting wifi_on is now '0'"),
        ("the setting wifi_on is '1', not '0'", "The setting wifi_on is '1', not '0'"),
        ("the file /sdcard/a is gone", "Side effect: the file /sdcard/a is gone"),
        ("there is no file /sdcard/a", "There is no file /sdcard/a"),
    ]
    assert [for_people(reason, apps) for reason, _ in told] == [words for _, words in told]


def test_the_expert_goes_on_from_where_a_person_left_the_phone(player: PhonePlayer) -> None:
    tap(player, "Contacts")
    while player.status()["verdict"] is None:
        player.expert()
    assert player.status()["verdict"]["won"]
    with pytest.raises(NotNow, match="over"):
        player.expert()


def test_a_question_is_answered(player: PhonePlayer) -> None:
    player.start(Choice(template="PhoneCountMissed", seed=236810))
    with pytest.raises(NotNow, match="empty"):
        player.say("answer  ")
    with pytest.raises(NotNow, match="done or infeasible"):
        player.say("tap 3")
    player.say("answer 1,000")
    player.say("done")
    assert "1,000" in player.status()["verdict"]["reasons"][0]
    player.again()
    while player.status()["verdict"] is None:
        player.expert()
    assert player.status()["verdict"]["won"]


@pytest.mark.parametrize(
    ("choice", "sentence"),
    [
        (Choice(template="ClockAddAlram"), "ClockAddAlarm"),
        (Choice(apps=("Clok",)), "Clock"),
        (Choice(split="test"), "train, instances, templates, apps"),
        (Choice(seed=-1), "from 0 to 1,000,000,000, got -1"),
        (Choice(seed=10**9 + 1, free=True), "from 0 to 1,000,000,000"),
        (Choice(template="RecipesAdd", split="train"), "RecipesAdd"),
    ],
)
def test_a_wrong_choice_is_one_sentence_and_leaves_the_phone_alone(
    player: PhonePlayer, choice: Choice, sentence: str
) -> None:
    before = player.status()
    with pytest.raises(EnvError) as refused:
        player.start(choice)
    assert sentence in str(refused.value)
    assert player.status() == before


@pytest.mark.parametrize(
    "fields",
    [
        [],
        {},
        {"kind": "tap"},
        {"kind": ["tap"]},
        {"kind": "tap", "x": True, "y": 1},
        {"kind": "tap", "x": float("nan"), "y": 1},
        {"kind": "swipe", "x": 1, "y": 2, "x2": 10**9, "y2": 1},
        {"kind": "text", "text": 7},
        {"kind": "text", "text": "x" * 5001},
        {"kind": "key", "text": "F13"},
    ],
)
def test_a_wrong_input_is_refused(fields: object) -> None:
    with pytest.raises(BadInput):
        read_input(fields)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
FIELDS = st.fixed_dictionaries(
    {"kind": st.sampled_from(["tap", "long_press", "swipe", "scroll", "text", "key"]) | ANYTHING},
    optional={name: st.integers(-3000, 3000) | ANYTHING for name in ("x", "y", "x2", "y2", "milliseconds", "text")},
)


@settings(deadline=None)
@given(FIELDS | ANYTHING)
def test_any_json_is_an_input_or_refused(player: PhonePlayer, fields: object) -> None:
    try:
        player.act(read_input(fields))
    except BadInput:
        return
    assert player.status()["steps"] is not None


def test_every_split_lists_its_templates() -> None:
    listed = catalogue()
    assert {one["name"] for one in listed["train"]} == {one["name"] for one in listed["instances"]}
    assert not {one["name"] for one in listed["train"]} & {
        one["name"] for one in (*listed["templates"], *listed["apps"])
    }
    assert all(one["apps"] and one["steps"] > 0 for names in listed.values() for one in names)


def points() -> st.SearchStrategy[tuple[int, int]]:
    return st.tuples(st.integers(-50, 1200), st.integers(-50, 2500))


INPUTS = st.one_of(
    st.builds(lambda at: ("element", at), st.integers(0, 40)),
    st.builds(lambda at: ("element", at), st.integers(0, 40)),
    st.builds(lambda kind, at: Input(kind, *at), st.sampled_from(["tap", "long_press"]), points()),
    st.builds(lambda kind, a, b: Input(kind, *a, *b), st.sampled_from(["swipe", "scroll"]), points(), points()),
    st.builds(lambda at, by: Input("scroll", 500, at, 500, at + by), st.integers(500, 2000), st.integers(-900, 900)),
    st.builds(lambda text: Input("text", text=text), st.text(max_size=4)),
    st.builds(lambda key: Input("key", text=key), st.sampled_from(sorted(KEYS.keys() - {"Overview"}))),
)


def without_cursors(phone: Phone) -> str:
    """The key of a phone with all cursors at the start and all keyboards showing letters."""

    def still(page: AppPage) -> AppPage:
        values = {name: value for name, value in page.values.items() if name != KEYBOARD_MODE}
        return replace(page, selection=(0, 0), toolbar=False, values=values)

    state = phone.snapshot()
    tasks = tuple(replace(task, pages=tuple(map(still, task.pages))) for task in state.tasks)
    phone.restore(replace(state, tasks=tasks, windows=tuple(map(still, state.windows))))
    key = phone.state_key()
    phone.restore(state)
    return key


@settings(deadline=None, max_examples=30)
@given(st.lists(INPUTS, max_size=12), st.integers(0, 60), st.sampled_from(["train", "templates", "apps"]))
def test_replayed_actions_lead_to_the_same_phone(
    player: PhonePlayer, given: list[Input | tuple[str, int]], seed: int, split: str
) -> None:
    player.start(Choice(split=split, seed=seed))
    for one in given:
        if isinstance(one, tuple):
            shown = player.status()["elements"]
            [left, top, right, bottom] = shown[one[1] % len(shown)]["bounds"]
            one = Input("tap", (left + right) // 2, (top + bottom) // 2)
        player.act(one)
    episode = player._episode
    if episode.actions is None or episode.over:
        return
    env = AndroidEnv(split=split)
    env.reset(options={"task": player.status()["task"]["id"]})
    for action, _ in episode.actions:
        assert env.step(action)[4]["valid"], action
    assert without_cursors(env.episode.device.phone) == without_cursors(player._device.phone), episode.actions

"""The phone by points: the expert's points win, points are refused or do nothing, marks, snapping, demonstrations."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from turncredit.agents.files.trajectory_files import read_trajectories
from turncredit.agents.instructions import agent_for
from turncredit.agents.rollouts.rollout import rollout
from turncredit.cli.errors import UserError
from turncredit.cli.serving.phone import saver
from turncredit.engines import Expert
from turncredit.envs import make
from turncredit.envs.android.env import AndroidEnv
from turncredit.envs.android.site.inputs import Input
from turncredit.envs.android.site.player import Choice, PhonePlayer
from turncredit.envs.errors import EnvError, UnknownOption

pytest.importorskip("PIL")
SMALL = (54, 120)


def pixels_only(points: Any = "0..1000", **options: Any) -> AndroidEnv:
    return AndroidEnv(observation="screen", format="none", points=points, size=SMALL, **options)


def some_tasks() -> list[str]:
    env = AndroidEnv()
    names = {task.partition("/")[0]: task for task in env.task_ids()}
    return [names[name] for name in sorted(names)][::16]


@pytest.mark.parametrize("points", ["0..1000", "0..999", "pixels", [364, 812]])
def test_the_expert_wins_by_points_alone(points: Any) -> None:
    env = pixels_only(points)
    for task in some_tasks()[: 12 if points == "0..1000" else 2]:
        observation, info = env.reset(seed=0, options={"task": task})
        plan = env.plan()
        assert not any(
            re.fullmatch(r"(tap|long press) \d+|(scroll|swipe) .*(up|down|left|right)", action) for action in plan
        )
        for action in plan:
            observation, reward, terminated, _, info = env.step(action)
            assert info["valid"], (task, action, observation["text"])
        assert (reward, terminated, info["won"]) == (1.0, True, True), task


@pytest.mark.parametrize("actions", ["words", "ui-tars", "qwen", "androidworld"])
def test_the_expert_wins_in_the_format_of_every_model(actions: str) -> None:
    kwargs = {"observation": "screen", "format": "none", "points": "0..1000", "size": [54, 120], "actions": actions}
    agent = agent_for("turncredit/Android-v0", kwargs, max_turns=40)
    env = make("turncredit/Android-v0", **kwargs)
    tasks: list[str] = env.unwrapped.task_ids()  # type: ignore[attr-defined]
    env.close()
    answered = next(task for task in tasks if "Ask" in task)
    groups = rollout(
        agent, Expert(parser=agent.parser), [tasks[0], answered], make=lambda: make("turncredit/Android-v0", **kwargs)
    )
    for trajectory in (one for group in groups for one in group.trajectories):
        assert trajectory.won, (trajectory.task, trajectory.error, [turn.text for turn in trajectory.turns])
        assert [agent.parse(turn.text).action for turn in trajectory.turns] == [
            turn.action for turn in trajectory.turns
        ]


def test_a_touch_of_nothing_is_valid_and_does_nothing() -> None:
    env = pixels_only()
    _, info = env.reset(seed=0)
    key = info["state"]
    observation, _, _, _, info = env.step("tap 1 1")
    assert (info["valid"], info["state"], observation["text"]) == (True, key, "")
    assert info["touch"] == [pytest.approx((0.001, 0.0008), abs=1e-3)]


@pytest.mark.parametrize(
    ("action", "sentence"),
    [
        ("tap 1001 5", "(1001, 5) is not on the screen: x goes from 0 to 1000 and y from 0 to 1000"),
        ("swipe 5 5 5 -1", "(5, -1) is not on the screen"),
        ('{"action_type": "click", "x": 5, "y": 2400}', "(5, 2400) is not on the screen"),
        ("tap 3", "the elements have no numbers here"),
        ("type 3 apples", "the elements have no numbers here"),
    ],
)
def test_what_the_agent_cannot_mean_is_refused_with_a_sentence(action: str, sentence: str) -> None:
    env = pixels_only()
    _, info = env.reset(seed=0)
    key = info["state"]
    observation, _, _, _, info = env.step(action)
    assert (info["valid"], info["state"]) == (False, key)
    assert sentence in observation["text"]
    assert "touch" not in info


def test_marks_number_what_can_be_tapped_by_its_number() -> None:
    marked = AndroidEnv(observation="marks", format="none")
    plain = AndroidEnv(observation="screen", format="none")
    (shown, info), (bare, _) = marked.reset(seed=0), plain.reset(seed=0)
    assert shown["text"] != bare["text"]  # the instructions tell of numbers
    assert (shown["image"] != bare["image"]).any()
    number = next(action for action in info["admissible_actions"] if action.startswith("tap "))
    _, _, _, _, info = marked.step(number)
    assert info["valid"]
    assert len(info["touch"]) == 1


def test_points_of_a_field_are_one_state_only_where_they_are_snapped() -> None:
    def keys(points: Any) -> set[str]:
        states = set()
        for quarter in (1, 3):
            env = pixels_only(points, apps=["Contacts"])
            env.reset(seed=0)
            for action in ("open Contacts", "tap 500 142", "type Ana Berg of Lund"):
                env.step(action)
            field = next(node for node in env.episode.device.dump().walk() if node.editable)
            x = field.left + 160 * quarter
            _, _, _, _, info = env.step(f"tap {round(1000 * x / 1079)} {round(1000 * field.center[1] / 2399)}")
            states.add(info["state"])
        return states

    assert len(keys({"scale": "0..1000", "snap": True})) == 1
    assert len(keys("0..1000")) == 2


def test_snapshots_are_of_the_same_scale_and_lead_on() -> None:
    env, other = pixels_only(), pixels_only("0..999")
    env.reset(seed=0, options={"task": "ClockAddAlarm/0"})
    env.step(env.plan()[0])
    data = env.snapshot()
    with pytest.raises(EnvError):
        other.restore(data)
    again = pixels_only()
    again.reset(seed=3)
    again.restore(data)
    for action in env.plan():
        (mine, _, _, _, info), (other_mine, _, _, _, other_info) = env.step(action), again.step(action)
        assert (info["state"], info["won"]) == (other_info["state"], other_info["won"])
        assert np.array_equal(mine["image"], other_mine["image"])
    assert info["won"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"format": "none"}, "format='none' shows no elements"),
        ({"observation": "mark"}, "did you mean 'marks'"),
        ({"points": "0..10"}, "points must be one of"),
        ({"actions": "qwenn"}, "did you mean 'qwen'"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UnknownOption, match=sentence):
        AndroidEnv(**options)


def test_demonstrations_hold_the_points_that_a_finger_touched(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    save = saver(file, {"observation": "screen", "format": "none", "points": "0..1000", "size": [54, 120]})
    player = PhonePlayer(Choice(template="ClockAddAlarm", seed=1), save=save)
    try:
        player.expert()
        player.expert()
        number = int(player._episode.task.plan("")[0].removeprefix("tap "))  # type: ignore[union-attr]
        left, top, right, bottom = player.status()["elements"][number]["bounds"]
        x, y = left + (right - left) // 4, bottom - (bottom - top) // 4
        player.act(Input("tap", x, y))
        while player.status()["verdict"] is None:
            player.expert()
        assert player.save() == {"file": str(file)}
    finally:
        player.close()
    (trajectory,) = read_trajectories(file)
    assert trajectory.won
    tapped = f"tap {round(1000 * x / 1079)} {round(1000 * y / 2399)}"
    assert tapped == trajectory.turns[2].action
    images = [turn.images[0].image for turn in trajectory.turns]
    assert images[0].shape == (120, 54, 3)
    assert any(not np.array_equal(a, b) for a, b in pairwise(images))


def test_screens_without_a_file_and_wrong_arguments_are_refused() -> None:
    with pytest.raises(UserError, match="need --save FILE"):
        saver(None, {"observation": "screen"})
    with pytest.raises(UserError, match="cannot choose split"):
        saver(None, {"split": "apps"})
    with pytest.raises(EnvError, match="points must be one of"):
        saver(None, {"points": "no"})

"""From groups to the table of turns."""

import dataclasses

import numpy as np
import pytest

from turncredit.agents.errors import StepsError
from turncredit.agents.steps import COLUMNS, anchors_of, steps_of
from turncredit.agents.trajectory import Group, Trajectory, Turn
from turncredit.credit import gigpo
from turncredit.training.config.run import Run
from turncredit.training.errors import ConfigError
from turncredit.training.parts import prepare


def turn(state, observation, *, action="go", reward=0.0, valid=True, tokens=2):
    ids = tuple(range(tokens))
    return Turn(
        prompt=(1, 2), response=ids, logprobs=(0.0,) * tokens, version=0, observation=observation, text="go",
        action=action, state=state, reward=reward, valid=valid,
    )  # fmt: skip


def play(name, turns, *, task="wash", stop="terminated", won=False):
    return Trajectory(
        id=name, task=task, task_type=None, seed=0, turns=tuple(turns), stop=stop, won=won, score=float(won),
        final_state="end", final_observation="It is over.", error="deadline" if stop == "error" else None, seconds=0.0,
    )  # fmt: skip


WON = play("a", [turn("hall", "A hall.", tokens=3), turn("sink", "Nothing happens.", reward=1.0)], won=True)
LOST = play("b", [turn("hall", "A hall."), turn("shed", "Nothing happens.", action=None, valid=False, tokens=0)])


def names(steps, column, source=None):
    return [steps.names[source or column][code] for code in steps.column(column)]


def test_one_row_a_turn_in_the_order_of_play():
    steps = steps_of([Group("wash", (WON, LOST))])
    assert names(steps, "task") == ["wash"] * 4
    assert names(steps, "trajectory") == ["a", "a", "b", "b"]
    assert steps.turn.tolist() == [0, 1, 0, 1]
    assert steps.reward.tolist() == [0.0, 1.0, 0.0, 0.0]
    assert names(steps, "state") == ["hall", "sink", "hall", "shed"]
    assert names(steps, "next_state", "state") == ["sink", "end", "shed", "end"]
    assert names(steps, "action") == ["go", "go", "go", None]
    assert steps.column("valid").tolist() == [True, True, True, False]
    assert steps.column("tokens").tolist() == [3, 2, 2, 0]


def test_the_columns_are_those_that_a_run_is_checked_against():
    assert set(steps_of([Group("wash", (WON, LOST))]).columns) == set(COLUMNS)


@pytest.mark.parametrize(("method", "column"), [("gdpo", "multi"), ("mars", "role"), ("remax", "value")])
def test_a_rule_whose_columns_are_not_provided_is_refused_before_any_work(method, column):
    with pytest.raises(
        ConfigError, match=rf"credit.method '{method}' needs '{column}' for every turn, which .* not provide"
    ):
        prepare(Run.parse({"credit": {"method": method}, "imitation": {"episodes": 1}}))


def test_the_anchor_may_be_the_text_that_the_agent_saw():
    """Two different states say "Nothing happens."; as anchors of the published kind they are one."""
    group = [Group("wash", (WON, LOST))]
    by_text = steps_of(group, anchor="observation")
    assert names(by_text, "state") == ["A hall.", "Nothing happens."] * 2
    assert names(by_text, "next_state", "state") == ["Nothing happens.", "It is over."] * 2
    assert gigpo(by_text).parts["step"][1] > 0.0
    assert gigpo(steps_of(group)).parts["step"][1] == 0.0


def test_the_anchor_may_be_the_states_so_far():
    """Both episodes pass through a hall and a cellar, but only one came to the cellar from the hall."""
    down = play("down", [turn("hall", ""), turn("cellar", "")])
    up = play("up", [turn("cellar", ""), turn("hall", "")])
    again = play("again", [turn("hall", ""), turn("cellar", ""), turn("hall", "")])
    table = steps_of([Group("wash", (down, up, again))], anchor="history")
    one, two, *others = names(table, "state")
    assert others[2:4] == [one, two]
    assert len({one, two, *others}) == 5
    assert names(table, "next_state", "state")[0] == two
    assert anchors_of(down, "history")[-1] not in anchors_of(again, "history")
    split = [play("a", [turn("ab", ""), turn("c", "")]), play("b", [turn("a", ""), turn("bc", "")])]
    assert anchors_of(split[0], "history")[1] != anchors_of(split[1], "history")[1]


def test_failed_and_empty_episodes_have_no_rows_and_touch_no_statistic():
    failed = play("c", [turn("hall", "A hall.", reward=100.0)], stop="error")
    empty = play("d", [], stop="tokens")
    with_them = steps_of([Group("wash", (failed, WON, empty, LOST))])
    assert names(with_them, "trajectory") == ["a", "a", "b", "b"]
    assert gigpo(with_them).values.tolist() == gigpo(steps_of([Group("wash", (WON, LOST))])).values.tolist()


def test_the_same_task_drawn_twice_stays_two_groups():
    """Each group of one gives nothing; together they would have been compared. Ids may even be the same."""
    again = dataclasses.replace(LOST, id="a")
    apart = steps_of([Group("wash", (WON,)), Group("wash", (again,))])
    assert names(apart, "task") == ["wash (group 0)"] * 2 + ["wash (group 1)"] * 2
    assert not gigpo(apart).values.any()
    assert gigpo(steps_of([Group("wash", (WON, LOST))])).values.any()


def test_no_turns_make_an_empty_table():
    for groups in ([], [Group("wash", ())], [Group("wash", (play("x", [], stop="error"),))]):
        steps = steps_of(groups)
        assert len(steps) == 0
        assert gigpo(steps).values.shape == (0,)


def test_an_unknown_anchor_names_the_near_one():
    with pytest.raises(StepsError, match="unknown anchor 'states'; did you mean 'state'"):
        steps_of([], anchor="states")


def test_rows_follow_groups_trajectories_turns():
    """Packing reads advantages in this order."""
    groups = [Group("u", (dataclasses.replace(LOST, task="u"), dataclasses.replace(WON, task="u"))), Group("t", (WON,))]
    rewards = [turn.reward for group in groups for trajectory in group.finished for turn in trajectory.turns]
    assert np.array_equal(steps_of(groups).reward, rewards)


def test_readers_may_leave_out_a_column_that_only_some_turns_have():
    """Episodes of several sources have different columns; a run refuses them, since its environment lacks a default."""
    marked = play("c", [dataclasses.replace(turn("hall", "A hall."), extras={"role": "cook", "imitated": 1})])
    other = play("d", [dataclasses.replace(turn("hall", "A hall."), extras={"role": "cook"})])
    with pytest.raises(StepsError, match="1 of 2 turns lack the extra column 'imitated'"):
        steps_of([Group("wash", (marked, other))])
    steps = steps_of([Group("wash", (marked, other))], only_common=True)
    assert names(steps, "role") == ["cook", "cook"]
    assert "imitated" not in steps.extra
    assert "imitated" in steps_of([Group("wash", (marked,))], only_common=True).extra


@pytest.mark.parametrize(
    ("stop", "unfinished"), [("terminated", False), ("truncated", True), ("turns", True), ("tokens", True)]
)
def test_an_episode_is_unfinished_where_a_limit_ended_it(stop, unfinished):
    played = play("one", [turn("a", "A"), turn("b", "B")], stop=stop)
    assert steps_of([Group("wash", (played,))]).column("unfinished").tolist() == [unfinished] * 2

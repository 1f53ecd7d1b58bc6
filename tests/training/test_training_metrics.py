import json
import math
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from toys.training_helpers import trajectory, turn

from turncredit.agents.trajectory import Group
from turncredit.credit.advantages import Advantages
from turncredit.credit.steps import Steps
from turncredit.training.run_folder.loggers import LoggedRun, TensorBoardLogger
from turncredit.training.run_folder.metrics import (
    MetricsWriter,
    credit_metrics,
    group_metrics,
    part_metrics,
    play_metrics,
    read_events,
    repeated_turns,
    sampled_entropy,
    success_error,
)


def test_play_by_hand():
    won = trajectory([turn([1], [2, 3]), turn([1], [2], reward=1.0)], won=True)
    lost = trajectory(
        [
            turn([1], [2], action=None, valid=False),
            turn([1], [2], action="b", valid=False),
            turn([1], [2], action="b", valid=False),
            turn([1], [2], action="b", state="other"),
        ]
    )
    failed = trajectory([turn([1], [2])], stop="error")
    outgrown = trajectory([], stop="tokens")
    assert play_metrics([Group("t", (outgrown, outgrown, failed))])["outgrown"] == 2
    got = play_metrics([Group("t", (won, lost)), Group("u", (failed,))])
    assert math.isnan(got.pop("success_error"))  # one group, since the other one failed
    assert got == {
        "episodes": 3,
        "errors": 1,
        "uncounted": 0,
        "outgrown": 0,
        "success": 0.5,
        "reward": 0.5,
        "turns": 3.0,
        "tokens": 8,
        "unparsable": pytest.approx(1 / 6),
        "inadmissible": pytest.approx(2 / 6),
        "loops": pytest.approx(2 / 6),
    }
    assert [repeated_turns(one) for one in (won, lost)] == [1, 1]
    told = [value for one in (won, lost) for turn in one.turns for value in turn.logprobs]  # not of the failed episode
    assert sampled_entropy([Group("t", (won, lost)), Group("u", (failed,))]) == pytest.approx(-np.mean(told))
    assert sampled_entropy([]) == 0.0


def test_tokens_that_a_fork_took_over_count_once():
    whole = trajectory([turn([1], [2, 3, 4], logprobs=(-1.0, -2.0, -3.0))])
    fork = replace(whole, id="t#0/0.0@0", fork_of=whole.id, fork_turn=0, fork_tokens=2)
    group = Group("t", (whole, fork))
    assert play_metrics([group])["tokens"] == 4
    assert sampled_entropy([group]) == (1.0 + 2.0 + 3.0 + 3.0) / 4


def test_the_error_of_success_is_that_of_groups():
    won, lost = trajectory([turn([1], [2])], won=True), trajectory([turn([1], [2])])
    failed = trajectory([turn([1], [2])], stop="error")
    alike = [Group("t", (won, won)), Group("u", (lost, lost))]
    assert success_error(alike) == pytest.approx(0.5)  # p = 1/2; (2 - 1, 0 - 1); sqrt(2 x 2) / 4
    uneven = [Group("t", (won, won, lost)), Group("u", (lost, failed)), Group("v", (failed,))]
    # p = 2/4; 2 - 3 p = 1/2 and 0 - 1 p = -1/2; sqrt(2 / 1 x 1/2) / 4
    assert success_error(uneven) == pytest.approx(0.25)
    one_of_two = part_metrics([Group("a/t", (won, lost)), Group("b/t", (won,)), Group("b/u", (lost,))], ["a", "b"])
    assert math.isnan(one_of_two["success_error/a"])  # one group of this part
    assert one_of_two["success_error/b"] == pytest.approx(0.5)


def of(values, *more, **named):
    """Advantages of as many trajectories of one turn as there are values."""
    count = len(values)
    steps = Steps.from_columns(task=[0] * count, trajectory=range(count), turn=[0] * count, reward=[0.0] * count)
    return Advantages.of(steps, values, *more, **named)


def test_nothing_played_gives_zeros():
    assert {value for key, value in play_metrics([]).items() if key != "success_error"} == {0}
    assert credit_metrics(of(np.zeros(0))) == dict.fromkeys(
        ("signal", "step_signal", "advantage", "advantage_std"), 0.0
    )


def test_credit_by_hand():
    part = {"episode": np.array([1.0, 0.0, 1.0, 0.0]), "step": np.array([0.0, 0.0, -1.0, 0.0])}
    advantages = of(part["episode"] + part["step"], part)
    shares = {"signal": 0.25, "step_signal": 0.25}
    assert credit_metrics(advantages) == {**shares, "advantage": 0.25, "advantage_std": pytest.approx(0.1875**0.5)}
    dropped = replace(advantages, keep=np.array([True, True, False, False]))
    assert credit_metrics(dropped)["advantage"] == 0.5
    assert credit_metrics(of(np.array([1.0, 2.0])))["step_signal"] == 0.0


def test_lines_are_there_at_once_and_cut_where_a_checkpoint_stood(tmp_path):
    path = tmp_path / "metrics.jsonl"
    with MetricsWriter(path) as writer:
        writer.write({"iteration": 1, "loss": np.float64(0.5), "n": np.int64(3), "bad": float("nan"), "text": "ä"})
        assert json.loads(path.read_text()) == {"iteration": 1, "loss": 0.5, "n": 3, "bad": None, "text": "ä"}
        size = writer.tell()
        writer.write({"iteration": 2})
    path.write_bytes(path.read_bytes() + b'{"torn')
    with MetricsWriter(path, size=size) as writer:
        writer.write({"iteration": 3})
    assert [json.loads(line)["iteration"] for line in path.read_text().splitlines()] == [1, 3]


def board(folder, purge=None):
    return TensorBoardLogger(LoggedRun(folder, "run", "", {}, purge))


def test_tensorboard_gets_the_numbers(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with MetricsWriter(tmp_path / "metrics.jsonl", loggers=[board(tmp_path)]) as writer:
        writer.write({"phase": "train", "iteration": 4, "loss": 0.25, "text": "x", "flag": True})
        writer.write({"phase": "imitation", "iteration": 0, "step": 7, "loss": 0.5})  # its axis is another
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert events.Tags()["scalars"] == ["train/loss"]
    (point,) = events.Scalars("train/loss")
    assert (point.step, point.value) == (4, 0.25)


def test_tensorboard_forgets_what_came_after_the_checkpoint(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for purge, steps in ((None, (1, 2, 3)), (2, (2,))):
        with MetricsWriter(tmp_path / "metrics.jsonl", loggers=[board(tmp_path, purge)]) as writer:
            for step in steps:
                writer.write({"phase": "train", "iteration": step, "loss": 0.5})
        time.sleep(1.1)  # the names of event files are whole seconds, and their order is that of the writers
    points = EventAccumulator(str(tmp_path / "tensorboard")).Reload().Scalars("train/loss")
    assert [point.step for point in points] == [1, 2]


def test_a_full_disk_is_said_with_the_name_of_the_file():
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    with pytest.raises(OSError, match=r"No space left on device: '/dev/full'"), MetricsWriter(full) as writer:
        writer.write({"phase": "train"})


def test_a_rule_says_itself_which_turns_have_a_say():
    based = of(np.array([1.0, 2.0, 2.0, 2.0]), {"base": np.array([1.0, 1.0, 2.0, 2.0])})
    assert credit_metrics(based)["step_signal"] == 0.25
    assert credit_metrics(of(np.ones(4), report={"step_signal": 0.75}))["step_signal"] == 0.75


def test_what_there_was_to_compare_by_hand():
    # task t: a (hall, hall, door) wins, b (hall, wall) does not; task u: c and d in the hall, both lose
    steps = Steps.from_columns(
        task=["t"] * 5 + ["u"] * 2,
        trajectory=["a", "a", "a", "b", "b", "c", "d"],
        turn=[0, 1, 2, 0, 1, 0, 0],
        reward=[0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0],
        state=["hall", "hall", "door", "hall", "wall", "hall", "hall"],
    )
    values = np.array([1.0, 1.0, 4.0, -2.0, 0.0, 0.0, 0.0])  # means of trajectories 2, -1, 0, 0
    got = group_metrics(steps, Advantages.of(steps, values))
    assert got == {
        "no_variance_groups": 0.5,  # u
        "singleton_states": 0.5,  # t/door and t/wall, of four
        "shared_turns": pytest.approx(5 / 7),
        "shared_later_turns": pytest.approx(1 / 3),  # a's second turn in the hall, of three
        # within: 1 + 1 + 4, 1 + 1; in all: 1 + 1 + 16 + 4 - 4^2 / 7
        "turn_share": pytest.approx(8 / (22 - 16 / 7)),
    }
    even = group_metrics(steps, Advantages.of(steps, np.array([1.0, 1, 1, -1, -1, 0, 0])))
    assert even["turn_share"] == 0.0
    assert set(group_metrics(Steps.empty(), Advantages.of(Steps.empty(), np.zeros(0))).values()) == {0.0}


def test_events_are_read_but_torn_lines(tmp_path):
    path = tmp_path / "metrics.jsonl"
    assert read_events(path) == []
    path.write_text('{"iteration": 1}\n[2]\n{"torn')
    assert read_events(path) == [{"iteration": 1}]

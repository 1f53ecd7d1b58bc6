"""The table of turns: how rows and columns become codes, and what is refused in which words."""

import numpy as np
import pytest
from toys.tables import episode

from turncredit.credit import BadTable, MissingColumn, Steps, discounted_returns, gigpo, grpo
from turncredit.credit.columns import COLUMNS

ROW = {"task": "t", "trajectory": 0, "turn": 0, "reward": 1.0}


def test_ids_become_codes_and_the_originals_stay_reachable():
    rows = episode("wash", "first", [0.0, 1.0], "xy") + episode("heat", "other", [0.5], "x")
    steps = Steps.from_rows(rows)
    assert [steps.names["task"][code] for code in steps.task] == ["wash", "wash", "heat"]
    assert [steps.names["trajectory"][code] for code in steps.trajectory] == ["first", "first", "other"]
    assert [steps.names["state"][code] for code in steps.column("state")] == ["x", "y", "x"]
    assert steps.columns == ("task", "trajectory", "turn", "reward", "state")
    assert (steps.task.dtype, steps.reward.dtype) == (np.int64, np.float64)


def test_every_column_of_the_interface_is_carried():
    values = {
        "state": "s", "action": "a", "next_state": "s", "valid": True, "tokens": 7, "role": "planner", "tree": 1,
        "parent": None, "value": 0.5, "entropy": 0.1, "logprob": -2.0, "hindsight": -1.0, "multi": [1.0, 2.0],
        "metric": [3.0], "label": 4, "unfinished": True, "keep": False, "forked": 1, "fork_turn": 2, "source": 0,
    }  # fmt: skip
    steps = Steps.from_rows([{**ROW, **values}, {**ROW, **values, "turn": 1}])
    assert set(steps.columns) == set(COLUMNS) - {"duplicate_of_row"}
    assert steps.column("multi").tolist() == [[1.0, 2.0], [1.0, 2.0]]
    assert steps.column("metric").shape == (2, 1)
    assert steps.column("tokens").tolist() == [7, 7]


def test_state_and_next_state_share_their_codes():
    steps = Steps.from_rows(
        [{**ROW, "state": "a", "next_state": "b"}, {**ROW, "turn": 1, "state": "b", "next_state": "a"}]
    )
    assert steps.column("state").tolist() == steps.column("next_state").tolist()[::-1]


def test_the_same_id_in_two_tasks_is_two_trajectories():
    steps = Steps.from_rows(episode("t", 0, [1.0]) + episode("u", 0, [2.0]))
    assert steps.trajectory.tolist() == [0, 1]
    assert steps.names["trajectory"] == (0, 0)
    assert discounted_returns(steps).tolist() == [1.0, 2.0]


def test_rows_and_columns_make_the_same_table():
    rows = [{**row, "valid": True} for row in episode("t", "a", [0.0, 1.0], "xy") + episode("t", "b", [0.0], "x")]
    by_rows = Steps.from_rows(iter(rows))
    by_columns = Steps.from_columns(**{name: [row[name] for row in rows] for name in rows[0]})
    by_arrays = Steps.from_columns(**{name: np.asarray([row[name] for row in rows]) for name in rows[0]})
    for name in by_rows.columns:
        assert by_rows.column(name).tolist() == by_columns.column(name).tolist() == by_arrays.column(name).tolist()


def test_further_columns_belong_to_the_caller():
    rows = [{**ROW, "prompt": "...", "step_index": 3, 5: None}, {**ROW, "turn": 1, "step_index": 4, "seen": [1, 2]}]
    steps = Steps.from_rows(rows)
    assert steps.columns == ("task", "trajectory", "turn", "reward", "prompt", "step_index", "seen")
    assert steps.column("step_index").tolist() == [3, 4]
    assert steps.column("step_index").dtype == np.int64
    assert steps.column("prompt").tolist() == ["...", None]
    assert steps.column("seen").tolist() == [None, [1, 2]]
    assert ("prompt" in steps, "state" in steps) == (True, False)
    part = steps.take([1])
    assert (part.column("step_index").tolist(), part.column("seen").tolist()) == ([4], [[1, 2]])
    arrays = {"vector": np.ones((2, 3), dtype=np.float32), "word": np.array(["x", "y"]), "flag": [True, False]}
    steps = Steps.from_columns(task=[0, 0], trajectory=[0, 0], turn=[0, 1], reward=[0.0, 0.0], **arrays)
    assert (steps.column("vector").shape, steps.column("flag").dtype) == ((2, 3), np.bool_)
    assert steps.column("word").tolist() == ["x", "y"]
    with pytest.raises(MissingColumn, match=r"no column 'state' \(key of the state in which the agent acted\); it has"):
        steps.column("state")
    with pytest.raises(BadTable, match="column 'word' must be a sequence with one value per row, got str"):
        Steps.from_columns(task=[0], trajectory=[0], turn=[0], reward=[0.0], word="x")


def test_empty_tables_are_tables():
    for steps in (Steps.from_rows([]), Steps.empty(), Steps.from_columns(), Steps.from_columns(**{n: [] for n in ROW})):
        assert len(steps) == 0
        assert len(gigpo(steps)) == len(grpo(steps)) == len(discounted_returns(steps)) == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"reward": float("nan")}, "'reward' must be finite"),
        ({"reward": float("inf")}, "got inf in row 1"),
        ({"reward": 1e200}, "at most 1e\\+100"),
        ({"reward": "much"}, "one number per row"),
        ({"reward": [1.0, 2.0]}, "'reward'"),
        ({"turn": 1.5}, "'turn' .* one integer per row, got"),
        ({"turn": "late"}, "'turn'"),
        ({"turn": None}, "'turn'"),
        ({"task": {"a": object}, "state": 1}, "row 0 has no 'state'.*every row or in none"),
        ({"trajectory": bytearray(b"x")}, "hashable or array-like, got bytearray"),
    ],
)
def test_a_bad_row_is_named(change, words):
    with pytest.raises(BadTable, match=words):
        Steps.from_rows([ROW, {**ROW, "turn": 1, **change}])


def test_a_row_without_a_required_column_is_named():
    with pytest.raises(BadTable, match="row 1 has no 'reward'"):
        Steps.from_rows([ROW, {"task": "t", "trajectory": 0, "turn": 1}])
    with pytest.raises(BadTable, match=r"column 'turn' .* is missing"):
        Steps.from_columns(task=[1], trajectory=[1], reward=[1.0])


def test_a_row_that_is_no_mapping_is_named():
    with pytest.raises(BadTable, match=r"row 1 must be a mapping .* got tuple"):
        Steps.from_rows([ROW, ("t", 0, 1, 1.0)])


def test_ragged_rewards_are_refused():
    with pytest.raises(BadTable, match=r"'multi' .* same number of numbers in every row"):
        Steps.from_rows([{**ROW, "multi": [1.0]}, {**ROW, "turn": 1, "multi": [1.0, 2.0]}])


def test_a_slip_in_a_key_is_refused_since_it_would_change_results_in_silence():
    with pytest.raises(BadTable, match=r"'vaild'.*did you mean 'valid'"):
        Steps.from_rows([{**ROW, "vaild": False}])
    with pytest.raises(BadTable, match="unknown column 'rewards'; did you mean 'reward'"):
        Steps.from_columns(task=[1], trajectory=[1], turn=[0], rewards=[1.0])


def test_the_same_turn_twice_is_refused_with_both_rows():
    with pytest.raises(BadTable, match="rows 0 and 2 are both turn 0 of trajectory 'x'"):
        Steps.from_rows([{**ROW, "trajectory": "x"}, {**ROW, "trajectory": "x", "turn": 1}, {**ROW, "trajectory": "x"}])


def test_columns_of_different_lengths_are_refused():
    with pytest.raises(BadTable, match="'state' has 1 rows, 'task' has 2"):
        Steps.from_columns(task=[0, 0], trajectory=[0, 0], turn=[0, 1], reward=[0.0, 0.0], state=["a"])


def test_codes_given_directly_are_checked():
    with pytest.raises(BadTable, match="occurs in two tasks"):
        Steps(task=np.array([0, 1]), trajectory=np.array([0, 0]), turn=np.array([0, 1]), reward=np.zeros(2))
    with pytest.raises(BadTable, match="must be >= 0"):
        Steps(task=np.array([-1]), trajectory=np.array([0]), turn=np.array([0]), reward=np.zeros(1))
    with pytest.raises(BadTable, match="'valid' must be True or False"):
        Steps.from_rows([{**ROW, "valid": "yes"}])


def test_a_missing_column_names_method_and_column():
    with pytest.raises(MissingColumn, match=r"gigpo needs the column 'state'.*this table has: task, trajectory"):
        gigpo(Steps.from_rows([ROW]))


def test_a_copy_must_match_its_original():
    second = {**ROW, "turn": 1}
    assert Steps.from_rows([ROW, second, {**second, "duplicate_of_row": 1}]).has_copies
    for row in (
        {**second, "duplicate_of_row": 0},
        {**second, "duplicate_of_row": 9},
        {**second, "duplicate_of_row": 2},
    ):
        with pytest.raises(BadTable, match="row 2 is marked as a copy of row"):
            Steps.from_rows([ROW, second, row])


def test_take_keeps_codes_and_forgets_marks_of_copies():
    steps = Steps.from_rows([*episode("t", 0, [1.0, 2.0], "ab"), {**ROW, "state": "a", "duplicate_of_row": 0}])
    part = steps.take([2, 1])
    assert (part.reward.tolist(), "duplicate_of_row" in part) == ([1.0, 2.0], False)
    assert [part.names["state"][code] for code in part.column("state")] == ["a", "b"]
    assert steps.take(np.array([True, False, False])).turn.tolist() == [0]
    for none in ([], (), np.zeros(0), np.zeros(3, dtype=bool)):
        assert len(steps.take(none)) == 0


def test_boxed_values_and_tensors_are_numbers():
    """Trainers carry what is no tensor as arrays of objects, and what is one may want a gradient or be bfloat16."""
    torch = pytest.importorskip("torch")
    reward = torch.tensor([0.5, 1.0, 2.0], requires_grad=True)
    steps = Steps.from_columns(
        task=torch.tensor([0, 0, 0]), trajectory=np.array(["a", "b", 3], dtype=object), reward=reward,
        turn=np.array([0, np.int64(0), 2], dtype=object), value=reward.to(torch.bfloat16),
        valid=np.array([True, np.False_, True], dtype=object), state=list(reward.reshape(3, 1)),
    )  # fmt: skip
    assert (steps.reward.tolist(), steps.column("value").tolist()) == ([0.5, 1.0, 2.0], [0.5, 1.0, 2.0])
    assert (steps.turn.tolist(), steps.column("valid").tolist()) == ([0, 0, 2], [True, False, True])
    assert steps.column("state").tolist() == [0, 1, 2]
    for name, column in {"valid": [True, None, True], "turn": [0, "1", 2], "tokens": [1, True, 1]}.items():
        with pytest.raises(BadTable, match=f"column '{name}'"):
            Steps.from_columns(
                task=[0] * 3, trajectory=[0, 1, 2], reward=[0] * 3,
                **{"turn": [0] * 3, name: np.array(column, dtype=object)},
            )  # fmt: skip


@pytest.mark.parametrize("wrong", [{"turn": 2**70}, {"tokens": 2**70}, {"tokens": -1}, {"reward": 10**400}])
def test_numbers_that_cannot_be_are_named(wrong):
    with pytest.raises(BadTable, match=f"column '{next(iter(wrong))}'"):
        Steps.from_rows([{"task": 0, "trajectory": 0, "turn": 0, "reward": 0.0, **wrong}])


@pytest.mark.parametrize("rows", [None, 3, {"task": 0, "trajectory": 0, "turn": 0, "reward": 0.0}])
def test_what_is_no_list_of_rows_is_said_to_be_none(rows):
    with pytest.raises(BadTable, match="from_rows expects an iterable of mappings"):
        Steps.from_rows(rows)


def test_a_million_turns_are_read_and_credited():
    count = 1_000_000
    row = np.arange(count)
    steps = Steps.from_columns(
        task=row // 400, trajectory=row // 50, turn=row % 50, reward=(row % 97 == 0) * 1.0, state=row % 31
    )
    result = gigpo(steps)
    assert np.isfinite(result.values).all()
    assert result.report["groups"] == count / 400

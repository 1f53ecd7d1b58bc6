"""Methods on trees of trajectories: Tree-GRPO, TEMPO, ARPO, SPO on segments; hand-computed tables and identities."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turncredit.credit import (
    BadTable,
    MissingColumn,
    Steps,
    arpo_hard,
    arpo_soft,
    get,
    grpo,
    spo_segment,
    tempo,
    tempo_tokens,
    tree_grpo,
)
from turncredit.credit.prefix_tree import paths, prefix_nodes

MANY = settings(max_examples=60, deadline=None)
NAMES = ["tree_grpo", "tempo", "arpo_hard", "spo_segment"]
OPTIONS: dict[str, dict[str, Any]] = {"spo_segment": {"mode": "tree"}}


def leaves(scores, *, task="q", **columns):
    """Trajectories of one turn."""
    count = len(scores)
    return Steps.from_columns(task=[task] * count, trajectory=range(count), turn=[0] * count, reward=scores, **columns)


def path_rows(words, scores, task="q"):
    """One trajectory a word, one turn a letter: the letter is the action, and the word so far the node it leads to."""
    return [
        {"task": task, "trajectory": number, "turn": turn, "reward": score * (turn == len(word) - 1), "tokens": 1,
         "action": word[turn], "next_state": word[: turn + 1], "parent": word[:turn], "tree": word[0]}
        for number, (word, score) in enumerate(zip(words, scores, strict=True))
        for turn in range(len(word))
    ]  # fmt: skip


# Words of few letters that all end in a mark of their own, so that no trajectory is the beginning of another one.
@st.composite
def forests(draw, max_tasks=3):
    table: list[dict[str, Any]] = []
    for task in range(draw(st.integers(1, max_tasks))):
        words = draw(st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=6))
        scores = draw(st.lists(st.sampled_from([0.0, 1.0, 0.5, -2.0]), min_size=len(words), max_size=len(words)))
        table += path_rows([f"{word}{number}" for number, word in enumerate(words)], scores, f"task {task}")
    return draw(st.permutations(table))


def by_trajectory(table, values):
    """The values of each trajectory in order of time."""
    found: dict[Any, dict[int, float]] = {}
    for row, value in zip(table, values, strict=True):
        found.setdefault((row["task"], row["trajectory"]), {})[row["turn"]] = value
    return {key: [turns[turn] for turn in sorted(turns)] for key, turns in found.items()}


# --- the tree itself -------------------------------------------------------------------------------------------------


def test_nodes_are_shared_exactly_as_far_as_sequences_agree():
    """ab, ac, ab, b from one root: a is shared by three, ab by two; roots keep their number."""
    symbol = np.array([0, 1, 0, 2, 0, 1, 1])
    before, after = prefix_nodes(symbol, np.array([0, 2, 4, 6]), np.array([2, 2, 2, 1]), np.zeros(4, dtype=np.int64))
    assert before[[0, 2, 4, 6]].tolist() == [0, 0, 0, 0]
    assert after[0] == after[2] == after[4] == before[1] == before[3] == before[5]
    assert after[1] == after[5]
    assert len({0, after[0], after[1], after[3], after[6]}) == 5
    assert (after > before).all()


def test_roots_keep_sequences_apart_and_empty_sequences_are_allowed():
    before, after = prefix_nodes(np.array([5, 5]), np.array([0, 0, 1]), np.array([1, 0, 1]), np.array([0, 0, 1]))
    assert before.tolist() == [0, 1]
    assert after[0] != after[1]


def test_under_parent_the_search_says_what_is_shared():
    """Both first turns lead to node n although their actions differ; the equal last actions are two leaves."""
    rows = [
        {"task": 0, "trajectory": j, "turn": t, "reward": 0.0, "parent": p, "action": a}
        for j, t, p, a in [(0, 0, "root", "x"), (0, 1, "n", "z"), (1, 0, "root", "y"), (1, 1, "n", "z")]
    ]
    steps = Steps.from_rows(rows)
    assert paths(steps, "parent").sharers.tolist() == [2, 1, 2, 1]
    assert paths(steps, "action").sharers.tolist() == [1, 1, 1, 1]
    apart = Steps.from_rows([{**row, "tree": row["trajectory"]} for row in rows])
    assert paths(apart, "parent").sharers.tolist() == [1, 1, 1, 1]


def test_without_next_state_the_next_turns_state_will_do_and_ends_are_their_own():
    rows = path_rows(["xa", "xa", "xb"], [1.0, 0.0, 0.0])
    for row in rows:
        row["state"] = row["parent"]
        del row["next_state"]
    assert paths(Steps.from_rows(rows), "transition").sharers.tolist() == [3, 1, 3, 1, 3, 1]
    assert paths(Steps.from_rows(rows), "next_state").sharers.tolist() == [3, 1, 3, 1, 3, 1]
    found = tempo(Steps.from_rows(rows), scale="none").parts["step"]
    assert found == pytest.approx([0, 2 / 3, 0, -1 / 3, 0, -1 / 3], abs=1e-12)


# --- Tree-GRPO -------------------------------------------------------------------------------------------------------

TREES = leaves([1, 0, 1, 0, 0, 1.0], tree=[0, 0, 0, 1, 1, 1])


def test_tree_grpo_published_figures():
    wanted = [1.49021853, -2.0675678, 1.49021853, -1.49021853, -1.49021853, 2.0675678]
    assert tree_grpo(TREES).values == pytest.approx(wanted, rel=1e-6)


def test_tree_grpo_figures_of_the_published_code():
    """Printed by the authors' functions for the same inputs (in float32 for the second)."""
    steps = leaves([1, 0, 0.5, 0, 0, 1.0], tree=[0, 0, 0, 1, 1, 1])
    twice = [0.999999, -0.999999, 0.0, -0.5773498, -0.5773498, 1.1546996]
    assert tree_grpo(steps, variant="2norm").values == pytest.approx(twice, rel=1e-6, abs=1e-9)
    rows = path_rows(["xa", "xb"], [1.0, 0.0])
    for row, tokens in zip(rows, [2, 1, 2, 3], strict=True):
        row["tokens"] = tokens
    tokenwise = [0.007754, 4.574772, 0.007754, -1.535263]
    assert tree_grpo(Steps.from_rows(rows), variant="per_token").values == pytest.approx(tokenwise, rel=1e-4)


def test_tree_grpo_by_hand():
    """Task mean 1/2; tree means 2/3 and 1/3."""
    third = np.array([1, -2, 1, -1, -1, 2]) / 3
    half = np.array([1, -1, 1, -1, -1, 1]) / 2
    result = tree_grpo(TREES, scale="none")
    assert result.parts["episode"] == pytest.approx(half, abs=1e-12)
    assert result.parts["step"] == pytest.approx(third, abs=1e-12)
    assert result.values == pytest.approx(half + third, abs=1e-12)
    assert tree_grpo(TREES, variant="inner", scale="none").values == pytest.approx(third, abs=1e-12)
    assert tree_grpo(TREES, variant="2norm", scale="none").values == pytest.approx(third, abs=1e-12)


def test_tree_grpo_normalised_twice_by_hand():
    """z = (+-1/2) / s, s the task's spread; then in the first tree mean z = 1/(6s) and spread (1/s)/sqrt(3)."""
    eps = 1e-6
    s = np.sqrt(6 * 0.25 / 5) + eps
    z = np.array([0.5, -0.5, 0.5]) / s
    wanted = (z - z.mean()) / (z.std(ddof=1) + eps)
    assert tree_grpo(TREES, variant="2norm").values[:3] == pytest.approx(wanted, rel=1e-12)


def test_a_tree_of_one_leaf_teaches_nothing_within_itself():
    steps = leaves([1.0, 0.0, 0.0], tree=["a", "b", "b"])
    assert tree_grpo(steps).parts["step"].tolist() == [0.0, 0.0, 0.0]
    raw = tree_grpo(steps, singleton="raw", scale="none", variant="inner")
    assert raw.values.tolist() == [1.0, 0.0, 0.0]


def test_tree_grpo_with_one_tree_a_task_doubles_grpo():
    steps = leaves([1.0, 0.0, 0.0, 0.5], tree=["a"] * 4)
    assert tree_grpo(steps).values.tolist() == (2 * grpo(steps).values).tolist()


def test_tree_grpo_ids_of_trees_belong_to_their_task():
    one = [{"task": "s", "trajectory": k, "turn": 0, "reward": float(k), "tree": 0} for k in range(2)]
    two = [{"task": "t", "trajectory": k, "turn": 0, "reward": 5.0 * k, "tree": 0} for k in range(2)]
    inner = tree_grpo(Steps.from_rows(one + two), variant="inner", scale="none")
    assert inner.values.tolist() == [-0.5, 0.5, -2.5, 2.5]


def test_tree_grpo_per_token_by_hand():
    """Leaves xa (1) and xb (0): the trunk has mean 1/2, no gain, two leaves: s = .5/sqrt(2). The winner's own turn has
    mean 1, gain 1 - .5 - .1 = .4: s = 1.4; the loser's 0. The trunk counts in both paths, each turn has one token."""
    steps = Steps.from_rows(path_rows(["xa", "xb"], [1.0, 0.0]))
    s = np.array([0.5 / np.sqrt(2), 1.4, 0.5 / np.sqrt(2), 0.0])
    result = tree_grpo(steps, variant="per_token", scale="none")
    assert result.values == pytest.approx(2 * (s - s.mean()), abs=1e-12)
    scaled = (s - s.mean()) / (s.std(ddof=1) + 1e-6)
    assert tree_grpo(steps, variant="per_token").values == pytest.approx(2 * scaled, rel=1e-12)


def test_tree_grpo_per_token_counts_tokens_and_skips_turns_without():
    rows = path_rows(["xa", "xb"], [1.0, 0.0])
    rows[1]["tokens"], rows[3]["tokens"] = 3, 0
    trunk = 0.5 / np.sqrt(2)
    mean = (2 * trunk + 3 * 1.4) / 5
    result = tree_grpo(Steps.from_rows(rows), variant="per_token", scale="none")
    assert result.values == pytest.approx(2 * np.array([trunk - mean, 1.4 - mean, trunk - mean, 0.0]), abs=1e-12)


def test_a_trajectory_in_two_trees_is_refused():
    steps = Steps.from_columns(task=[0, 0], trajectory=[0, 0], turn=[0, 1], reward=[0.0, 1.0], tree=["a", "b"])
    with pytest.raises(BadTable, match="tree_grpo expects one value of 'tree'"):
        tree_grpo(steps)


# --- TEMPO -----------------------------------------------------------------------------------------------------------

SEQUENCES = [[1, 2, 3], [1, 2, 4, 5], [1, 6], [7, 8]]
SCORES = [1.0, 0.0, 1.0, 0.0]
TEMPO = [
    [1.15469854, 0.57734927, 1.73204781],
    [-0.57734927, -1.15469854, -1.73204781, -0.8660239],
    [1.15469854, 1.44337317],
    [-1.73204781, -0.8660239],
]
PLAIN = [[2 / 3, 1 / 3, 1.0], [-1 / 3, -2 / 3, -1.0, -0.5], [2 / 3, 5 / 6], [-1.0, -0.5]]


def padded(sequences):
    width = max(map(len, sequences))
    ids = np.array([[*s, *[0] * (width - len(s))] for s in sequences])
    return ids, np.array([[True] * len(s) + [False] * (width - len(s)) for s in sequences])


@pytest.mark.parametrize(("scale", "wanted"), [("std", TEMPO), ("none", PLAIN)])
def test_tempo_published_figures(scale, wanted):
    ids, mask = padded(SEQUENCES)
    found = tempo_tokens(ids, mask, np.array(SCORES), ["q"] * 4, scale=scale)
    assert found[mask] == pytest.approx(np.concatenate(wanted), rel=1e-6)
    assert not found[~mask].any()
    rows = path_rows(SEQUENCES, SCORES)
    for row in rows:
        del row["tree"], row["parent"], row["next_state"]
    assert tempo(Steps.from_rows(rows), key="action", scale=scale).values == pytest.approx(found[mask], rel=1e-12)


def test_tempo_on_turns_sees_where_an_action_led():
    """Equal actions with different outcomes part ways only where the next state is part of the key."""
    rows = [{"task": 0, "trajectory": k, "turn": 0, "reward": float(k), "action": "open", "next_state": k}
            for k in range(2)]  # fmt: skip
    steps = Steps.from_rows(rows)
    assert tempo(steps, scale="none").parts["step"].tolist() == [-0.5, 0.5]
    assert tempo(steps, key="next_state", scale="none").parts["step"].tolist() == [-0.5, 0.5]
    assert tempo(steps, key="action", scale="none").parts["step"].tolist() == [0.0, 0.0]


def test_a_sequence_that_another_one_goes_on_from_counts_in_its_node():
    """a (1) and ab (0): V(a) is the mean of both, 1/2, and so the token b brought 0 - 1/2."""
    ids, mask = padded([[1], [1, 2]])
    found = tempo_tokens(ids, mask, np.array([1.0, 0.0]), [0, 0], scale="none")
    assert found.tolist() == [[0.5, 0.0], [-0.5, -1.0]]


def test_text_of_the_environment_tells_prefixes_apart_but_earns_nothing():
    ids = np.array([[1, 8, 3], [1, 9, 3]])
    mask = np.array([[1, 0, 1], [1, 0, 1]])
    scores = np.array([1.0, 0.0])
    seen = tempo_tokens(ids, mask, scores, [0, 0], seen=np.ones((2, 3)), scale="none")
    assert seen.tolist() == [[0.5, 0.0, 0.5], [-0.5, 0.0, -0.5]]
    unseen = tempo_tokens(ids, mask, scores, [0, 0], scale="none")
    assert unseen.tolist() == [[0.5, 0.0, 0.5], [-0.5, 0.0, -0.5]]
    other = tempo_tokens(np.array([[1, 8, 3], [1, 9, 4]]), mask, scores, [0, 0], scale="none")
    assert other.tolist() == [[0.5, 0.0, 1.0], [-0.5, 0.0, -1.0]]
    blind = tempo_tokens(np.array([[1, 8, 3], [1, 9, 4]]), mask, scores, [0, 0], seen=np.ones((2, 3)), scale="none")
    assert blind.tolist() == seen.tolist()


def test_tempo_tokens_edges():
    none = tempo_tokens(np.zeros((0, 3), dtype=np.int64), np.zeros((0, 3)), np.zeros(0), [])
    assert none.shape == (0, 3)
    alone = tempo_tokens(np.array([[1, 2]]), np.ones((1, 2)), np.array([7.0]), ["q"])
    assert alone.tolist() == [[0.0, 0.0]]
    equal = tempo_tokens(np.array([[1, 2], [3, 4]]), np.ones((2, 2)), np.array([0.1, 0.1]), ["q", "q"], eps=0.0)
    assert not equal.any()
    with pytest.raises(BadTable, match="ids must be integers"):
        tempo_tokens(np.array([[1.5, 2]]), np.ones((1, 2)), np.array([7.0]), ["q"])
    with pytest.raises(BadTable, match=r"score must have shape \(1,\)"):
        tempo_tokens(np.array([[1, 2]]), np.ones((1, 2)), np.array([7.0, 1.0]), ["q"])
    with pytest.raises(BadTable, match="1 trained tokens are outside the attention mask"):
        tempo_tokens(np.array([[1, 2]]), np.ones((1, 2)), np.array([7.0]), ["q"], seen=np.array([[1, 0]]))
    with pytest.raises(BadTable, match="mask must be True or False"):
        tempo_tokens(np.array([[1, 2]]), np.array([[1, 2]]), np.array([7.0]), ["q"])


@given(forests(), st.sampled_from(["transition", "action", "next_state", "parent"]))
@MANY
def test_tempo_differences_add_up_to_the_standing_and_vanish_alone(table, key):
    """Every word ends in a mark of its own, so the last node is the trajectory's: the sum of its differences is
    E - mean of its root; after the letter at which it parts from all others every difference is exactly zero."""
    result = tempo(Steps.from_rows(table), key=key, scale="none")
    sharers = paths(Steps.from_rows(table), key).sharers
    steps, shared = by_trajectory(table, result.parts["step"]), by_trajectory(table, sharers)
    for trajectory, base in by_trajectory(table, result.parts["episode"]).items():
        if key != "parent":
            assert sum(steps[trajectory]) == pytest.approx(base[0], abs=1e-9)
        first_alone = next((t for t, count in enumerate(shared[trajectory]) if count == 1), len(base))
        assert not any(steps[trajectory][first_alone + 1 :])


@given(forests())
@MANY
def test_tempo_where_nothing_is_shared_is_grpo_with_a_first_turn_that_counts_twice(table):
    unique = [{**row, "action": (row["task"], row["trajectory"], row["turn"])} for row in table]
    result = tempo(Steps.from_rows(unique), key="action")
    base = grpo(Steps.from_rows(unique)).values
    first = np.array([row["turn"] == 0 for row in table])
    assert result.values == pytest.approx(np.where(first, 2 * base, base), abs=1e-9)


# --- ARPO ------------------------------------------------------------------------------------------------------------

SEGMENTS = [["p", "p1", "x"], ["p", "p1", "y"], ["p", "z"], ["w"]]
HARD = [0.26111594, 0.26111594, 1.30557969, 0.26111594, 0.26111594, -0.78334782, 0.26111594, 0.26111594, -0.78334782]


def test_arpo_published_figures():
    rows = path_rows(SEGMENTS, [1.0, 0.0, 0.5, 0.0])
    for row in rows:
        row["parent"], row["tree"] = "/".join(row["parent"]), "one"
        del row["next_state"]
    steps = Steps.from_rows(rows)
    assert arpo_hard(steps).values == pytest.approx(HARD, rel=1e-6)
    assert arpo_hard(steps, key="action").values == pytest.approx(HARD, rel=1e-6)
    soft = [1.30557969] * 3 + [-0.78334782] * 3 + [0.26111594] * 2 + [-0.78334782]
    assert arpo_soft(steps).values == pytest.approx(soft, rel=1e-6)
    assert arpo_hard(steps).report["shared"] == pytest.approx(5 / 9)


@given(forests(), st.sampled_from(["none", "std", "mad"]))
@MANY
def test_hard_and_soft_credit_add_up_to_the_same(table, scale):
    """The d rows of a shared turn have one value, and its sum is that of their paths."""
    steps = Steps.from_rows(table)
    hard, soft = arpo_hard(steps, scale=scale), arpo_soft(steps, scale=scale)
    node = paths(steps, "parent").after
    assert np.bincount(node, hard.values) == pytest.approx(np.bincount(node, soft.values), abs=1e-9)
    assert all(len(set(hard.values[node == code].tolist())) == 1 for code in set(node.tolist()))
    assert hard.parts["episode"].tolist() == soft.values.tolist()


# --- SPO -------------------------------------------------------------------------------------------------------------


def test_spo_chain_by_hand():
    """Values .5, .7, .1 and the outcome 1; the second trajectory has one segment."""
    steps = Steps.from_columns(task=[0] * 4, trajectory=["a", "a", "b", "a"], turn=[2, 0, 0, 1],
                               reward=[1.0, 0, 0, 0], value=[0.1, 0.5, 0.5, 0.7])  # fmt: skip
    assert spo_segment(steps).values == pytest.approx([0.9, 0.2, -0.5, -0.6])
    assert spo_segment(steps).keep.all()


def test_spo_tree_by_hand():
    """Leaves aa (1), ab (0), b (1): V(a) = 1/2, V(root) is the mean 3/4 of V(a) and V(b), not that of the leaves."""
    steps = Steps.from_rows([{**row, "tree": 0} for row in path_rows(["aa", "ab", "b"], [1.0, 0.0, 1.0])])
    result = spo_segment(steps, mode="tree")
    assert result.values.tolist() == [-0.25, 0.5, -0.25, -0.5, 0.25]
    assert result.weight.tolist() == [0.5, 1.0, 0.5, 1.0, 1.0]
    assert result.parts["before"].tolist() == [0.75, 0.5, 0.75, 0.5, 0.75]
    eps = 1e-8
    scaled = spo_segment(steps, mode="tree", scale="std", ddof=0, eps=eps)
    wanted = [-0.25 / (0.25 + eps), 0.5 / (0.5 + eps), -0.25 / (0.25 + eps), -0.5 / (0.5 + eps), 0.25 / (0.25 + eps)]
    assert scaled.values == pytest.approx(wanted, rel=1e-12)


def test_spo_tree_drops_what_changed_nothing():
    """After the last branching a path goes on alone: its later turns change nothing."""
    steps = Steps.from_rows([{**row, "tree": 0} for row in path_rows(["ac", "bc"], [1.0, 0.0])])
    result = spo_segment(steps, mode="tree")
    assert result.values.tolist() == [0.5, 0.0, -0.5, 0.0]
    assert result.keep.tolist() == [True, False, True, False]
    assert spo_segment(steps, mode="tree", drop_zero=False).keep.all()


def test_spo_tree_does_not_scale_rounding_up():
    """.1 + .2 and .3 differ in the last bit: that is no difference."""
    rows = path_rows(["xa", "xb", "y"], [0.1, 0.3, 0.0])
    rows[0]["reward"] = 0.2
    result = spo_segment(Steps.from_rows([{**row, "tree": 0} for row in rows]), mode="tree", scale="std", eps=0.0)
    assert result.values[[1, 3]].tolist() == [0.0, 0.0]
    assert not result.keep[[1, 3]].any()


@given(forests())
@MANY
def test_spo_tree_balances_at_every_node(table):
    """Each child once, the advantages of siblings sum to zero; down a path they sum to E - V(root)."""
    steps = Steps.from_rows(table)
    result, tree = spo_segment(steps, mode="tree", drop_zero=False), paths(steps, "parent")
    edges = {after: (before, value) for after, before, value in
             zip(tree.after.tolist(), tree.before.tolist(), result.values.tolist(), strict=True)}  # fmt: skip
    sums: dict[int, float] = {}
    for before, value in edges.values():
        sums[before] = sums.get(before, 0.0) + value
    assert np.allclose(list(sums.values()), 0.0, atol=1e-9)
    before = by_trajectory(table, result.parts["before"])
    scores = by_trajectory(table, steps.reward)
    for trajectory, values in by_trajectory(table, result.values).items():
        assert sum(values) == pytest.approx(sum(scores[trajectory]) - before[trajectory][0], abs=1e-9)


# --- all of them -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "options", "column"), [
    (tree_grpo, {}, "tree"), (tree_grpo, {"variant": "per_token"}, "tree"), (tempo, {}, "action"),
    (tempo, {"key": "next_state"}, "next_state"), (arpo_hard, {}, "parent"), (spo_segment, {}, "value"),
    (spo_segment, {"mode": "tree"}, "parent"),
])  # fmt: skip
def test_a_missing_column_is_named_with_the_method(method, options, column):
    with pytest.raises(MissingColumn, match=f"{method.__name__} needs the column '{column}'"):
        method(leaves([1.0, 0.0]), **options)


@pytest.mark.parametrize("name", NAMES)
def test_equal_outcomes_teach_nothing_and_large_ones_stay_finite(name):
    method = get(name, **OPTIONS.get(name, {}))
    words = ["aa0", "ab1", "ba2", "bb3"]
    assert not method(Steps.from_rows(path_rows(words, [0.1 * 3] * 4))).values.any()
    assert np.isfinite(method(Steps.from_rows(path_rows(words, [1e6, -1e6, 1e6, 1e6 + 1]))).values).all()

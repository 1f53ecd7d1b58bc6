"""GraphGPO, GRAFT and RTMC: hand-computed graphs, reference figures, and what cannot be reached."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toys.tables import episode, rows

from turncredit.credit import Steps, gigpo, graft, graphgpo, grpo, rtmc
from turncredit.credit.turn.graphgpo import goal_distances

# a wins through h d; b passes h, circles, and comes to d, but is cut off there; c falls into the pit.
TABLE = (
    episode("t", "a", [0.0, 1.0], "hd")
    + episode("t", "b", [0.0, 0.0, 0.0, 0.0], "hkhd")
    + episode("t", "c", [0.0, 0.0], "hp")
)


def distances(table, **options):
    here, there = goal_distances(Steps.from_rows(table), **options)
    return here.tolist(), there.tolist()


def test_distances_by_hand():
    """d wins in 1, h in 2, k in 3; from p no way is known: 4, one more than the farthest that has one."""
    here, there = distances(TABLE)
    assert here == [2.0, 1.0, 2.0, 3.0, 2.0, 1.0, 2.0, 4.0]
    assert there == [1.0, 0.0, 3.0, 2.0, 1.0, 4.0, 4.0, 4.0]
    assert distances(TABLE, unreachable=51.0)[1][-3:] == [51.0, 51.0, 51.0]


def test_a_task_without_a_goal_has_no_distances_to_tell_apart():
    assert distances(TABLE[2:]) == ([1.0] * 6, [1.0] * 6)
    assert not graphgpo(Steps.from_rows(TABLE[2:])).values.any()
    assert not graphgpo(Steps.from_rows(TABLE), solved_above=1.0).parts["step"].any()


def test_the_goal_is_not_a_state_of_the_table():
    """The last state of a winner may be called like a loser's: only the win leads to the goal."""
    table = [{**row, "next_state": "over"} if row["turn"] == 1 else {**row, "next_state": "m"}
             for row in episode("t", "a", [0.0, 1.0], "sm") + episode("t", "b", [0.0, 0.0], "sm")]  # fmt: skip
    assert distances(table) == ([2.0, 1.0, 2.0, 1.0], [1.0, 0.0, 1.0, 3.0])


def test_a_loser_gets_credit_for_going_the_winners_way():
    """From h: to d is worth 10 * 0.1, to k 0.01, into the pit 0.001. Each episode once: b's two visits share a vote."""
    result = graphgpo(Steps.from_rows(TABLE), scale="none", unit="turn")
    at_h = np.array([1.0, 0.01, 1.0, 0.001])
    assert result.parts["step"][[0, 2, 4, 6]] == pytest.approx(at_h - at_h.mean(), abs=1e-12)
    assert result.parts["step"][[1, 5]] == pytest.approx([(10 - 0.001) / 2, (0.001 - 10) / 2], abs=1e-12)
    assert result.parts["step"][4] > 0 > result.parts["episode"][4]
    votes = graphgpo(Steps.from_rows(TABLE), scale="none").parts["step"]
    assert votes[0] == pytest.approx(1.0 - (1.0 + 0.505 + 0.001) / 3, abs=1e-12)
    assert result.values == pytest.approx(result.parts["episode"] + result.parts["step"])
    alone = graphgpo(Steps.from_rows(TABLE), scale="none", unit="turn", episode_w=0.0, w=2.0)
    assert alone.values == pytest.approx(2.0 * result.parts["step"])
    assert graphgpo(Steps.from_rows(TABLE)).parts["episode"].tolist() == grpo(Steps.from_rows(TABLE)).values.tolist()


def test_progress_scales_each_state_by_its_own_distance():
    """0.1^(d' - d + 1): at h, where d = 2, ten times the plain value."""
    plain = graphgpo(Steps.from_rows(TABLE), scale="none", unit="turn").parts["step"]
    gain = graphgpo(Steps.from_rows(TABLE), scale="none", unit="turn", progress=True).parts["step"]
    assert gain[[0, 2, 4, 6]] == pytest.approx(10 * plain[[0, 2, 4, 6]])
    assert gain[[1, 5]] == pytest.approx(plain[[1, 5]])


def test_published_code():
    """Figures of verl-agent's recipe/GraphGPO (mean_std_norm, penalty 0.1, gamma 0.1), run on this table."""
    table = [{**row, "valid": number != 3, "reward": 10.0 * row["reward"]} for number, row in enumerate(TABLE)]
    after = ["d", "success", "k", "h", "d", "x", "p", "x"]
    table = [{**row, "next_state": state} for row, state in zip(table, after, strict=True)]
    result = graphgpo(Steps.from_rows(table), unit="turn", singleton="raw", penalty_in="return")
    expected = [2.486146, 2.327247, -1.394621, -0.558018, 0.329554, -1.243559, -1.410296, -0.536452]
    assert result.values == pytest.approx(expected, rel=1e-4, abs=1e-4)


def test_invalid_turns_pay_where_the_option_says():
    table = [{**row, "valid": number != 2} for number, row in enumerate(TABLE)]
    steps = Steps.from_rows(table)
    free = graphgpo(steps, invalid_penalty=0.0, scale="none", unit="turn")
    paid = graphgpo(steps, invalid_penalty=0.4, scale="none", unit="turn")
    assert paid.parts["step"][[0, 2, 4, 6]] == pytest.approx(
        free.parts["step"][[0, 2, 4, 6]] + np.array([0.1, -0.3, 0.1, 0.1])
    )
    late = graphgpo(steps, invalid_penalty=0.4, scale="none", unit="turn", penalty_in="advantage")
    assert late.values == pytest.approx(free.values - np.array([0, 0, 0.4, 0, 0, 0, 0, 0]))


@given(rows(), st.sampled_from([None, 9.0]))
@settings(max_examples=80, deadline=None)
def test_distances_are_those_of_a_plain_search(table, unreachable):
    """Relaxed edge by edge until nothing changes, task by task."""
    far = {}
    paths = {}
    for row in sorted(table, key=lambda row: row["turn"]):
        paths.setdefault((row["task"], row["trajectory"]), []).append(row)
    edges = []
    for (task, _), path in paths.items():
        solved = sum(row["reward"] for row in path) > 0.0
        following = [(task, row["state"]) for row in path[1:]] + ["goal" if solved else None]
        edges += [((task, row["state"]), after) for row, after in zip(path, following, strict=True)]
    distance = {"goal": 0}
    for _ in range(len(edges)):
        for start, after in edges:
            if after in distance:
                distance[start] = min(distance.get(start, 10**6), distance[after] + 1)
    for task, _ in paths:
        most = max((d for node, d in distance.items() if node != "goal" and node[0] == task), default=0)
        far[task] = most + 1 if unreachable is None else unreachable
    expected = {}
    for (task, name), path in paths.items():
        solved = sum(row["reward"] for row in path) > 0.0
        following = [(task, row["state"]) for row in path[1:]] + ["goal" if solved else None]
        for row, after in zip(path, following, strict=True):
            expected[task, name, row["turn"]] = (
                distance.get((task, row["state"]), far[task]),
                distance.get(after, far[task]),
            )
    here, there = goal_distances(Steps.from_rows(table), unreachable=unreachable)
    found = [expected[row["task"], row["trajectory"], row["turn"]] for row in table]
    assert list(zip(here.tolist(), there.tolist(), strict=True)) == found


# GRAFT


def test_values_by_hand():
    """V(d) = 1/2: a wins there, b does not. V(p) = 0, V(k) = V(h). h leads to d twice, to k and to p once:
    4 V(h) = 2/2 + V(h) + 0, so V(h) = 1/3 without discount."""
    result = graft(Steps.from_rows(TABLE), gamma=1.0, scale="none")
    third = 1 / 3
    assert result.parts["value"] == pytest.approx([third, 0.5, third, third, third, 0.5, third, 0.0], abs=1e-9)
    assert result.parts["gain"] == pytest.approx([1 / 6, 0.5, 0.0, 0.0, 1 / 6, -0.5, -third, 0.0], abs=1e-9)
    votes = ((1 / 6 + 0.5) / 2 + (1 / 6 - 0.5) / 4 - third / 2) / 3
    assert result.values == pytest.approx(result.parts["gain"] - votes, abs=1e-9)
    by_turn = graft(Steps.from_rows(TABLE), gamma=1.0, scale="none", unit="turn")
    assert by_turn.values.sum() == pytest.approx(0.0, abs=1e-9)


def test_values_with_discount():
    """gamma 1/2: V(d) = 1/4, V(k) = V(h) / 2, 4 V(h) = (2/4 + V(k)) / 2, so V(h) = 1/15."""
    result = graft(Steps.from_rows(TABLE), gamma=0.5, scale="none")
    assert result.parts["value"][[0, 1, 3, 7]] == pytest.approx([1 / 15, 1 / 4, 1 / 30, 0.0], abs=1e-9)
    assert result.parts["gain"][[0, 1]] == pytest.approx([1 / 8 - 1 / 15, 1 / 2 - 1 / 4], abs=1e-9)


@given(rows(), st.sampled_from([1.0, 0.95, 0.5, 0.0]))
@settings(max_examples=60, deadline=None)
def test_values_solve_their_equation(table, gamma):
    """V from a dense system of linear equations, a trajectory's end being worth its score."""
    steps = Steps.from_rows(table)
    result = graft(steps, gamma=gamma, invalid_penalty=0.0)
    score = {}
    states = {}
    for row in table:
        name = row["task"], row["trajectory"]
        score[name] = score.get(name, 0.0) + row["reward"]
        states[*name, row["turn"]] = row["task"], row["state"]
    nodes = {node: number for number, node in enumerate(dict.fromkeys(states.values()))}
    visits = np.zeros(len(nodes))
    system, right = np.zeros((len(nodes), len(nodes))), np.zeros(len(nodes))
    for (task, name, turn), node in states.items():
        visits[nodes[node]] += 1
        after = states.get((task, name, turn + 1))
        if after is None:
            right[nodes[node]] += gamma * score[task, name]
        else:
            system[nodes[node], nodes[after]] -= gamma
    solved = np.linalg.solve(system + np.diag(visits), right)
    expected = [solved[nodes[row["task"], row["state"]]] for row in table]
    assert result.parts["value"] == pytest.approx(expected, abs=1e-7)


@given(rows())
@settings(max_examples=60, deadline=None)
def test_with_lambda_one_gains_add_up_to_the_return_less_the_value(table):
    steps = Steps.from_rows(table)
    result = graft(steps, gamma=1.0, gae_lambda=1.0, invalid_penalty=0.0)
    totals = {}
    for row in table:
        name = row["task"], row["trajectory"]
        totals[name] = totals.get(name, 0.0) + row["reward"]
    expected = [totals[row["task"], row["trajectory"]] for row in table] - result.parts["value"]
    assert result.parts["gain"] == pytest.approx(expected, abs=1e-7)


def test_equal_winners_get_exactly_nothing():
    table = [row for k in range(6) for row in episode("t", k, [0.0, 0.0, 10.0], "xyz")]
    steps = Steps.from_rows(table)
    for method in (graft, graphgpo):
        assert method(steps).values.tolist() == [0.0] * 18


def test_too_few_sweeps_are_reported():
    steps = Steps.from_rows(TABLE)
    assert graft(steps, sweeps=2).report["last_change"] > 1e-3
    assert graft(steps).report["last_change"] < 1e-12


# RTMC


def acting(actions, table=TABLE):
    return [{**row, "action": action} for row, action in zip(table, actions, strict=True)]


def test_rtmc_by_hand():
    """gamma 1: from h "on" brought a 1 and b's second visit 0, "left" b's first 0, "jump" c's 0. Each episode one vote:
    V(h) = (1 + 0 + 0) / 3, Q(h, on) = (1 * 1 + 0 * 1/2) / (3/2) = 2/3."""
    result = rtmc(Steps.from_rows(acting(["on", "win", "left", "back", "on", "lose", "jump", "cry"])), gamma=1.0)
    assert result.values == pytest.approx([1 / 3, 0.5, -1 / 3, 0.0, 1 / 3, -0.5, -1 / 3, 0.0])
    assert result.parts["state"][:2] == pytest.approx([1 / 3, 0.5])
    assert result.parts["action"][[0, 2, 4]] == pytest.approx([2 / 3, 0.0, 2 / 3])
    assert result.report["choices"] == pytest.approx(6 / 8)
    by_turn = rtmc(Steps.from_rows(acting("oblkobjc")), gamma=1.0, unit="turn")
    assert by_turn.parts["state"][0] == pytest.approx(1 / 4)
    assert by_turn.parts["action"][0] == pytest.approx(1 / 2)


def test_rtmc_of_first_visits_by_hand():
    """b goes "on" from h twice; its second return does not count: with gamma 1/2 Q(h, on) = (1/2 + 0) / 2."""
    table = Steps.from_rows(acting(["on", "win", "on", "back", "on", "lose", "jump", "cry"]))
    first = rtmc(table, gamma=0.5, visits="first", unit="turn")
    every = rtmc(table, gamma=0.5, unit="turn")
    assert first.parts["action"][[0, 2, 4]] == pytest.approx([0.25] * 3)
    assert first.parts["state"][[0, 2, 4, 6]] == pytest.approx([1 / 6] * 4)
    assert every.parts["action"][[0, 2, 4]] == pytest.approx([1 / 6] * 3)
    assert every.parts["state"][0] == pytest.approx(1 / 8)


def test_rtmc_with_imaginary_visits_by_hand():
    """The mean outcome is 1/3. h has four visits with V = 1/4: (4 * 1/4 + 2 * 1/3) / 6 = 5/18; a's goal, and each state
    that was seen once, go two thirds of the way to 1/3."""
    actions = ["on", "win", "on", "back", "on", "lose", "jump", "cry"]
    result = rtmc(Steps.from_rows(acting(actions)), gamma=1.0, unit="turn", prior=2.0)
    assert result.parts["state"][0] == pytest.approx(5 / 18)
    assert result.values[0] == pytest.approx(1 / 3 - 5 / 18)
    once = rtmc(
        Steps.from_rows([{**row, "state": str(number)} for number, row in enumerate(acting(actions))]),
        gamma=1.0,
        prior=2.0,
    )
    assert once.values == pytest.approx([2 / 3 * (outcome - 1 / 3) for outcome in (1, 1, 0, 0, 0, 0, 0, 0)])


def test_rtmc_divides_by_the_deviation_of_the_task():
    steps = Steps.from_rows(acting(["on", "win", "left", "back", "on", "lose", "jump", "cry"]))
    plain = rtmc(steps, gamma=1.0, unit="turn").values
    scaled = rtmc(steps, gamma=1.0, unit="turn", scale="std", ddof=0, eps=0.0)
    assert scaled.values == pytest.approx(plain / plain.std())
    assert (scaled.parts["action"] - scaled.parts["state"]) == pytest.approx(plain)
    assert not rtmc(Steps.from_rows(acting("o", TABLE[:1])), scale="std").values.any()


@given(rows(), st.sampled_from(["trajectory", "turn"]))
@settings(max_examples=60, deadline=None)
def test_rtmc_without_repeated_choices_counts_the_same_visits(table, unit):
    """Where no trajectory takes an action in a state twice, each visit is a first one."""
    steps = Steps.from_rows(acting([row["turn"] for row in table], table))
    assert rtmc(steps, visits="first", unit=unit).values.tolist() == rtmc(steps, unit=unit).values.tolist()


@given(rows())
@settings(max_examples=60, deadline=None)
def test_rtmc_gives_a_choice_one_advantage_whichever_visits_count(table):
    steps = Steps.from_rows(acting([(row["turn"] + row["trajectory"]) % 2 for row in table], table))
    for visits in ("every", "first"):
        values = rtmc(steps, visits=visits, prior=2.0, scale="std").values
        choices: dict[object, float] = {}
        for row, value in zip(table, values.tolist(), strict=True):
            key = (row["task"], row["state"], (row["turn"] + row["trajectory"]) % 2)
            assert choices.setdefault(key, value) == pytest.approx(value, abs=1e-9)


@given(rows(), st.sampled_from(["trajectory", "turn"]))
@settings(max_examples=60, deadline=None)
def test_rtmc_balances_in_every_state(table, unit):
    steps = Steps.from_rows(acting([(row["turn"] + row["trajectory"]) % 2 for row in table], table))
    values = rtmc(steps, unit=unit).values
    visits = {}
    for row, value in zip(table, values, strict=True):
        visits.setdefault((row["task"], row["state"]), {}).setdefault(row["trajectory"], []).append(value)
    for members in visits.values():
        sums = [np.mean(found) if unit == "trajectory" else np.sum(found) for found in members.values()]
        assert sum(sums) == pytest.approx(0.0, abs=1e-9)


@given(rows())
@settings(max_examples=60, deadline=None)
def test_rtmc_with_actions_of_their_own_is_gigpos_mean_only_step_term(table):
    """But for states of one episode, which GiGPO leaves at zero."""
    steps = Steps.from_rows(acting(range(len(table)), table))
    theirs = gigpo(steps, scale="none").parts["step"]
    ours = rtmc(steps).values
    assert ours[theirs != 0.0] == pytest.approx(theirs[theirs != 0.0], abs=1e-9)

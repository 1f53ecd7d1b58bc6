"""Agents apart: Dr. MAS, M-GRPO, MARS, Flow-GRPO and HiMAC."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toys.tables import episode, rows

from turncredit.credit import (
    BadOption,
    BadTable,
    MissingColumn,
    Steps,
    dr_mas,
    flow_grpo,
    gigpo,
    grpo,
    himac,
    m_grpo,
    mars,
    mt_grpo,
)
from turncredit.credit.roles import rows_of_role

MANY = settings(max_examples=50, deadline=None)


def acted(table, roles):
    """The rows with a role each."""
    return [{**row, "role": role} for row, role in zip(table, roles, strict=True)]


def test_roles_are_found_by_name_or_code():
    table = acted(episode("t", 0, [0.0] * 3), [("hex", 0), ("hex", 1), 1])
    assert rows_of_role(Steps.from_rows(table), ("hex", 1)).tolist() == [False, True, False]
    assert rows_of_role(Steps.from_rows(table), True).tolist() == [False, False, False]  # True is not 1
    zero = np.zeros(2, dtype=np.int64)
    coded = Steps(
        task=zero, trajectory=zero, turn=np.arange(2), reward=zero.astype(float), extra={"role": np.array([4, 7])}
    )
    assert rows_of_role(coded, 7).tolist() == [False, True]
    assert rows_of_role(Steps.empty(), "any").tolist() == []


@given(rows(), st.sampled_from(["none", "std", "mad"]), st.sampled_from(["trajectory", "turn"]))
@MANY
def test_a_team_of_one_is_grpo_and_gigpo(table, scale, unit):
    steps = Steps.from_rows([{**row, "role": "agent"} for row in table])
    options = {"scale": scale, "unit": unit, "eps": 1e-3, "invalid_penalty": 0.1}
    assert dr_mas(steps, **options).values == pytest.approx(grpo(steps, **options).values, abs=1e-9)
    assert dr_mas(steps, w=0.5, **options).values == pytest.approx(gigpo(steps, w=0.5, **options).values, abs=1e-9)
    assert flow_grpo(steps, **options).values == pytest.approx(grpo(steps, **options).values, abs=1e-9)
    assert flow_grpo(steps, planner="agent", **options).values.tolist() == flow_grpo(steps, **options).values.tolist()


@given(rows(), st.sampled_from(["none", "std"]), st.randoms(use_true_random=False))
@MANY
def test_roles_part_a_team(table, scale, random):
    """What one role gets does not depend on the turns of the others, as long as the outcomes stay."""
    table = acted(table, [random.choice("ab") for _ in table])
    whole = dr_mas(Steps.from_rows(table), scale=scale, w=1.0)
    for role in "ab":
        mine = [k for k, row in enumerate(table) if row["role"] == role]
        renamed = [{**row, "role": row["role"] if row["role"] == role else "other"} for row in table]
        assert dr_mas(Steps.from_rows(renamed), scale=scale, w=1.0).values[mine].tolist() == whole.values[mine].tolist()


def test_dr_mas_by_hand():
    """The leads: 1, 0 and 0.5. The helpers: only in the episodes worth 1 and 0, whose mean is the same 0.5."""
    table = acted(
        episode("t", 0, [0.0, 1.0]) + episode("t", 1, [0.0, 0.0, 0.0]) + episode("t", 2, [0.5]),
        ["lead", "help", "lead", "help", "help", "lead"],
    )
    assert dr_mas(Steps.from_rows(table), scale="none").values.tolist() == [0.5, 0.5, -0.5, -0.5, -0.5, 0.0]
    # by turns the helper's mean is (1 + 0 + 0) / 3
    by_turn = dr_mas(Steps.from_rows(table), scale="none", unit="turn").values
    assert by_turn == pytest.approx([0.5, 2 / 3, -0.5, -1 / 3, -1 / 3, 0.0])


def test_a_state_belongs_to_the_role_that_was_in_it():
    """All four turns start in the same room, but leads and helpers are compared with their own kind: 2, 0 and 1, 0."""
    table = acted(
        episode("t", 0, [0.0, 2.0], "xx") + episode("t", 1, [0.0, 0.0], "xx") + episode("t", 2, [0.0], "x"),
        ["lead", "help", "lead", "help", "lead"],
    )
    result = dr_mas(Steps.from_rows(table), w=1.0, gamma=0.5, scale="none")
    assert result.parts["step"] == pytest.approx([2 / 3, 1.0, -1 / 3, -1.0, -1 / 3])
    assert result.values == pytest.approx([2 / 3 + 4 / 3, 1.0 + 1.0, -1 / 3 - 2 / 3, -1.0 - 1.0, -1 / 3 - 2 / 3])


def test_a_task_without_a_planner_turn_has_nothing_to_train():
    table = acted(episode("t", 0, [1.0]) + episode("u", 0, [1.0]) + episode("u", 1, [0.0]), ["run", "plan", "plan"])
    with np.errstate(all="raise"):
        assert flow_grpo(Steps.from_rows(table), planner="plan", scale="none").values.tolist() == [0.0, 0.5, -0.5]


def test_flow_grpo_reference_numbers():
    """Final rewards 1, 0, 0.5 over 3, 1 and 2 planner turns, counted by turn."""
    table = episode("q", 0, [0.0, 0.0, 1.0]) + episode("q", 1, [0.0]) + episode("q", 2, [0.0, 0.5])
    expected = [0.81649458, 0.81649458, 0.81649458, -1.63298916, -0.40824729, -0.40824729]
    assert flow_grpo(Steps.from_rows(table), unit="turn").values == pytest.approx(expected, abs=1e-8)
    # with turns of other modules in between, the same for the planner, and nothing for the others
    mixed = [{**row, "turn": 2 * row["turn"], "role": "plan"} for row in table]
    mixed += [{**row, "turn": row["turn"] + 1, "reward": 0.0, "role": "run"} for row in mixed]
    result = flow_grpo(Steps.from_rows(mixed), planner="plan", unit="turn")
    assert result.values == pytest.approx([*expected, *[0.0] * 6], abs=1e-8)
    assert result.keep.tolist() == [True] * 6 + [False] * 6
    assert result.report["trained_turns"] == 6.0


def test_mars_by_hand():
    """Rewards of x: 1, 0 (mean 1/2), of o: -1, 0, -3, 0 in two games (means -1/2 and -3/2 by trajectory, -1 in all).

    Relative: x 1/2, -1/2; o 0, 1, -2, 1. Returns of o: 1, 1 in the first game, -1, 1 in the second; distinct 1 and -1,
    with mean 0. Whitened over six rows: mean (1/2 - 1/2 + 1 + 1 - 1 + 1) / 6 = 1/3.
    """
    table = acted(episode("t", 0, [1.0, -1.0, 0.0]) + episode("u", 0, [0.0, -3.0, 0.0]), ["x", "o", "o", "x", "o", "o"])
    result = mars(Steps.from_rows(table))
    assert result.parts["reward"] == pytest.approx([0.5, 0.0, 1.0, -0.5, -2.0, 1.0])
    assert result.parts["role"] == pytest.approx([0.5, 1.0, 1.0, -0.5, -1.0, 1.0])
    relative = result.parts["role"]
    assert result.values == pytest.approx((relative - 1 / 3) / np.sqrt(relative.var(ddof=1) + 1e-8))
    # tokens: the last row counts four times, so that the mean is (1 + 4) / 9
    weighed = mars(Steps.from_rows([{**row, "tokens": 4 if k == 5 else 1} for k, row in enumerate(table)]))
    many = np.append(relative, [1.0] * 3)
    assert weighed.values == pytest.approx((relative - 5 / 9) / np.sqrt(many.var(ddof=1) + 1e-8))


def test_mars_counts_each_trajectory_once_in_the_mean_of_a_role():
    """Rewards 1 1 1 in one game and 0 in the other: mean 1/2 by trajectory, 3/4 by turn."""
    table = acted(episode("t", 0, [1.0, 1.0, 1.0]) + episode("u", 0, [0.0]), ["x"] * 4)
    steps = Steps.from_rows(table)
    assert mars(steps, gamma=0.0).parts["reward"] == pytest.approx([0.5, 0.5, 0.5, -0.5])
    assert mars(steps, gamma=0.0, unit="turn").parts["reward"].tolist() == [0.25, 0.25, 0.25, -0.75]


def test_mars_counts_returns_that_differ_by_rounding_as_one():
    """Rewards 0.1 0.2, 0.3 0 and 0 0 less their mean 0.1: returns 0.1 0.1, 0.1 -0.1 and -0.2 -0.1.

    The distinct ones are 0.1, -0.1 and -0.2, with the mean -1/15; the three that are 0.1 differ in their last bits.
    """
    values = [[0.1, 0.2], [0.3, 0.0], [0.0, 0.0]]
    table = [{**row, "role": "one"} for k, rewards in enumerate(values) for row in episode("t", k, rewards)]
    result = mars(Steps.from_rows(table), unit="turn")
    assert result.parts["role"] == pytest.approx([x + 1 / 15 for x in (0.1, 0.1, 0.1, -0.1, -0.2, -0.1)])


def test_m_grpo_by_hand():
    """Main: 1 and 0. Sub-trajectories of the task: 0.5, 1, 0, whoever called them."""
    table = acted(
        episode("t", "a", [0.0, 1.0]) + episode("t", "a.1", [0.5]) + episode("t", "a.2", [0.0, 1.0])
        + episode("t", "b", [0.0]) + episode("t", "b.1", [0.0]),
        ["main", "main", "sub", "sub", "sub", "main", "sub"],
    )  # fmt: skip
    result = m_grpo(Steps.from_rows(table), scale="none")
    assert result.values.tolist() == [0.5, 0.5, 0.0, 0.5, 0.5, -0.5, -0.5]
    assert result.report == {"main_rollouts": 2.0, "sub_trajectories": 3.0}
    # all in one trajectory: what each role did there is a trajectory of its own, with its own rewards
    joint = acted(episode("t", 0, [1.0, 0.25, 0.0]) + episode("t", 1, [0.0, 0.75]), ["main", "s", "s", "main", "s"])
    assert m_grpo(Steps.from_rows(joint), scale="none").values.tolist() == [0.5, -0.25, -0.25, -0.5, 0.25]


@given(st.lists(st.integers(0, 6), min_size=1, max_size=5), st.integers(1, 4), st.integers(0, 99))
@MANY
def test_m_grpo_aligns_every_rollout(calls, size, seed):
    """Each rollout that called anyone has `size` sub-trajectories: a surplus dropped, and everyone used before any is
    used again."""
    table = []
    for number, count in enumerate(calls):
        table += [{**row, "role": "main", "parent": number} for row in episode("t", number, [1.0, 0.0])]
        for call in range(count):
            sub = episode("t", (number, call), [0.0, float(call)])
            table += [{**row, "role": "sub", "parent": number} for row in sub]
    steps = Steps.from_rows(table)
    result = m_grpo(steps, align=size, rng=np.random.default_rng(seed))
    for number, count in enumerate(calls):
        firsts = [
            k for k, row in enumerate(table) if row["parent"] == number and row["role"] == "sub" and row["turn"] == 0
        ]
        times = result.weight[firsts]
        assert times.sum() == (size if count else 0)
        assert times.max(initial=0.0) <= (1 if count >= size else size)
        assert count >= size or (times >= 1.0).all()
        assert (result.weight[firsts] == result.weight[[k + 1 for k in firsts]]).all()  # whole trajectories
    assert (result.keep == (result.weight > 0.0)).all()
    assert (result.weight[[row["role"] == "main" for row in table]] == 1.0).all()
    assert result.values.tolist() == m_grpo(steps).values.tolist()  # aligning does not touch the statistics
    again = m_grpo(steps, align=size, rng=np.random.default_rng(seed))
    assert again.weight.tolist() == result.weight.tolist()


def test_m_grpo_says_what_aligning_needs():
    steps = Steps.from_rows(acted(episode("t", 0, [1.0]), ["main"]))
    with pytest.raises(MissingColumn, match="m_grpo needs the column 'parent'"):
        m_grpo(steps, align=2, rng=np.random.default_rng(0))
    steps = Steps.from_rows([{**row, "role": "sub", "parent": 0} for row in episode("t", 0, [1.0])])
    with pytest.raises(BadOption, match="needs a random generator"):
        m_grpo(steps, align=2)
    with pytest.raises(BadOption, match="align must be an integer >= 1"):
        m_grpo(Steps.empty(), align=0)
    assert len(m_grpo(Steps.empty(), align=2)) == 0


def test_himac_by_hand():
    """Plan p is followed by episodes worth 1 and 0, plan q by one worth 0.25: plans 1/2 and 1/4, mean 3/8."""
    table = acted(
        episode("t", "a", [0.0, 1.0]) + episode("t", "b", [0.0]) + episode("t", "c", [0.0, 0.25]),
        ["macro", "micro", "micro", "macro", "micro"],
    )
    for row in table:
        row["parent"] = "q" if row["trajectory"] == "c" else "p"
    steps = Steps.from_rows(table)
    result = himac(steps, scale="none")
    assert result.parts["macro"].tolist() == [0.125, 0.0, 0.0, -0.125, 0.0]
    assert result.parts["micro"].tolist() == [0.0, 0.5, -0.5, 0.0, 0.0]
    assert result.values.tolist() == [0.125, 0.5, -0.5, -0.125, 0.0]
    micro = himac(steps, scale="none", phase="micro")
    assert micro.values.tolist() == [0.0, 0.5, -0.5, 0.0, 0.0]
    assert micro.keep.tolist() == [False, True, True, False, True]
    assert himac(steps, scale="none", phase="macro").values.tolist() == [0.125, 0.0, 0.0, -0.125, 0.0]


def test_himac_a_trajectory_that_only_plans_is_no_follower():
    """The plan alone has earned nothing; its follower's 1 is its score. Beside a plan worth 0: 1/2 and -1/2."""
    table = acted(
        episode("t", "plan", [0.0]) + episode("t", "a", [1.0]) + episode("t", "other", [0.0, 0.0]),
        ["macro", "micro", "macro", "micro"],
    )
    for row in table:
        row["parent"] = 2 if row["trajectory"] == "other" else 1
    assert himac(Steps.from_rows(table), scale="none").values.tolist() == [0.5, 0.0, -0.5, 0.0]
    lone = [{**row, "parent": row["trajectory"]} for row in table[:1] + table[2:]]
    assert himac(Steps.from_rows(lone), scale="none").report["plans"] == 2.0


@given(rows(max_group=8, rewards=st.sampled_from([0.1, 0.2, 0.3, 0.7])), st.randoms(use_true_random=False))
@MANY
def test_himac_the_score_of_a_plan_does_not_depend_on_the_order_of_rows(table, random):
    table = [{**row, "role": "plan" if row["turn"] == 0 else "act", "parent": row["trajectory"] % 2} for row in table]
    order = list(range(len(table)))
    random.shuffle(order)
    one = himac(Steps.from_rows(table), macro="plan").values
    assert himac(Steps.from_rows([table[k] for k in order]), macro="plan").values.tolist() == one[order].tolist()


@given(rows(), st.sampled_from(["none", "std"]))
@MANY
def test_himac_without_plans_is_grpo(table, scale):
    steps = Steps.from_rows([{**row, "role": "micro"} for row in table])
    assert himac(steps, scale=scale).values.tolist() == grpo(steps, scale=scale).values.tolist()
    plans = Steps.from_rows([{**row, "role": "macro"} for row in table])  # every trajectory a plan of its own
    assert himac(plans, scale=scale).values.tolist() == grpo(plans, scale=scale).values.tolist()


def test_a_plan_belongs_to_a_whole_trajectory():
    table = [{**row, "role": "micro", "parent": row["turn"]} for row in episode("t", 0, [0.0, 1.0])]
    with pytest.raises(BadTable, match="himac expects one value of 'parent'"):
        himac(Steps.from_rows(table))


@pytest.mark.parametrize("method", [dr_mas, himac, mars, m_grpo])
def test_the_role_is_needed(method):
    with pytest.raises(MissingColumn, match=f"{method.__name__} needs the column 'role'"):
        method(Steps.from_rows(episode("t", 0, [1.0])))
    assert len(mt_grpo(Steps.from_rows(episode("t", 0, [1.0])))) == 1  # others do without


def test_a_planner_needs_the_role():
    with pytest.raises(MissingColumn, match="flow_grpo needs the column 'role'"):
        flow_grpo(Steps.from_rows(episode("t", 0, [1.0])), planner="plan")
    with pytest.raises(MissingColumn, match="dr_mas needs the column 'state'"):
        dr_mas(Steps.from_rows(acted(episode("t", 0, [1.0]), ["a"])), w=1.0)


@pytest.mark.parametrize(
    ("method", "options"),
    [(flow_grpo, {"planner": "plan"}), (m_grpo, {"main": "plan"}), (himac, {"macro": "plan", "phase": "macro"})],
)
def test_a_role_that_nobody_has_is_a_slip(method, options):
    steps = Steps.from_rows(acted(episode("t", 0, [1.0, 0.0]), ["planner", "tool"]))
    with pytest.raises(BadTable, match=f"{method.__name__} expects rows of the role 'plan'.* 'planner', 'tool'"):
        method(steps, **options)
    assert len(method(Steps.empty(), **options)) == 0
    zero = np.zeros(1, dtype=np.int64)
    coded = Steps(task=zero, trajectory=zero, turn=zero, reward=np.zeros(1), extra={"role": zero + 3})
    with pytest.raises(BadTable, match="roles: 3"):
        method(coded, **options)

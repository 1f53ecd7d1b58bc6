"""HGPO: hand-computed tables, reference figures, its identities, and what every option changes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toys.tables import episode, rows

from turncredit.credit import Steps, gigpo, hgpo

# Two ways into room x; a and b come from s, c from t. Returns at x are 8, 4 and 0, at s as much less by gamma.
TABLE = episode("t", "a", [0.0, 8.0], "sx") + episode("t", "b", [0.0, 4.0], "sx") + episode("t", "c", [0.0, 0.0], "tx")


def test_by_hand():
    """x: mean 4, so 4, 0, -4. s then x: a and b alone, mean 6, so 2 and -2. Weights 2 and 3: (2*4 + 3*2) / 5 = 2.8 and
    (0 - 6) / 5 = -1.2; c shares only x: -4. s: returns 4 and 2, so 1 and -1. t: alone."""
    result = hgpo(Steps.from_rows(TABLE), scale="none", gamma=0.5)
    assert result.values == pytest.approx([1.0, 2.8, -1.0, -1.2, 0.0, -4.0], abs=1e-12)
    assert result.parts["history 0"] == pytest.approx([1.0, 4.0, -1.0, 0.0, 0.0, -4.0], abs=1e-12)
    assert result.parts["history 1"] == pytest.approx([0.0, 2.0, 0.0, -2.0, 0.0, 0.0], abs=1e-12)
    assert not result.parts["history 2"].any()
    assert [result.report[f"turns_with_peers_{k}"] for k in range(3)] == [5.0, 2.0, 0.0]
    assert result.report["step_signal"] == pytest.approx(5 / 6)


def test_the_papers_weights_start_at_one():
    """1 and 2 in place of 2 and 3: (1*4 + 2*2) / 3 for a and (0 - 2*2) / 3 for b."""
    values = hgpo(Steps.from_rows(TABLE), scale="none", gamma=0.5, weights="paper").values
    assert values == pytest.approx([1.0, 8 / 3, -1.0, -4 / 3, 0.0, -4.0], abs=1e-12)


def test_the_base_is_the_coarsest_level():
    """Scores 8, 4, 0: standings 4, 0, -4 with weight 1. At x, a: (4 + 2*4 + 3*2) / 6; at t, c has nothing else."""
    result = hgpo(Steps.from_rows(TABLE), scale="none", gamma=0.5, base=True)
    assert result.parts["episode"].tolist() == [4.0, 4.0, 0.0, 0.0, -4.0, -4.0]
    assert result.values == pytest.approx([(4 + 2) / 3, 3.0, -2 / 3, -1.0, -4.0, -4.0], abs=1e-12)
    paper = hgpo(Steps.from_rows(TABLE), scale="none", gamma=0.5, base=True, weights="paper")
    assert paper.values.tolist() == result.values.tolist()


def test_alpha_weighs_longer_histories():
    """alpha 0: plain means, (4 + 2) / 2; alpha 2: 4 and 9, (4*4 + 9*2) / 13."""
    steps = Steps.from_rows(TABLE)
    assert hgpo(steps, scale="none", gamma=0.5, alpha=0.0).values[1] == pytest.approx(3.0)
    assert hgpo(steps, scale="none", gamma=0.5, alpha=2.0).values[1] == pytest.approx(34 / 13)


def test_what_is_dropped():
    """b at x: 0 among all, -2 among those from s. Equal standing is information unless drop="zero". c at x shares no
    longer history: -4, or -4 * 2 / 5 where a level without company counts as well."""
    steps = Steps.from_rows(TABLE)
    found = {drop: hgpo(steps, scale="none", gamma=0.5, drop=drop).values for drop in ("alone", "zero", "none")}
    assert [values[3] for values in found.values()] == pytest.approx([-1.2, -2.0, -1.2])
    assert [values[5] for values in found.values()] == pytest.approx([-4.0, -4.0, -1.6])


def test_reference_figures():
    """Two episodes over s0 s1 s2 and s0 s1 s1 s3, the first one won; the published formula, run."""
    table = episode("q", 0, [0.0, 0.0, 1.0], ["s0", "s1", "s2"]) + episode("q", 1, [0.0] * 4, ["s0", "s1", "s1", "s3"])
    expected = [0.99999728, 1.16568267, 0.0, -0.99999728, -0.88284064, -0.70710485, 0.0]
    result = hgpo(Steps.from_rows(table), compat="verl-agent")
    assert result.values == pytest.approx(expected, rel=1e-6, abs=1e-7)
    spelled = hgpo(Steps.from_rows(table), unit="turn", ddof=0, drop="zero")
    assert spelled.values == pytest.approx(expected, rel=1e-6, abs=1e-7)
    base = [1.0230125, 1.14957605, 1.0690419, -0.93392562, -0.86933091, -0.73866396, -0.80178142]
    result = hgpo(Steps.from_rows(table), compat="verl-agent", base=True)
    assert result.values == pytest.approx(base, rel=1e-6, abs=1e-7)
    assert result.parts["episode"] == pytest.approx([1.06904297] * 3 + [-0.80178223] * 4, rel=1e-6)


def levels_one_by_one(table, history, alpha, gamma):
    """Mean-only HGPO over trajectories, by a loop over rows and a dictionary of histories."""
    sorted_rows = sorted(table, key=lambda row: row["turn"])
    paths, returns = {}, {}
    for row in sorted_rows:
        paths.setdefault((row["task"], row["trajectory"]), []).append(row)
    groups = {}
    for name, path in paths.items():
        later = 0.0
        for row in reversed(path):
            returns[name, row["turn"]] = later = row["reward"] + gamma * later
        for place, row in enumerate(path):
            for k in range(min(history, place) + 1):
                key = row["task"], tuple(other["state"] for other in path[place - k : place + 1])
                groups.setdefault(key, {}).setdefault(name, []).append(returns[name, row["turn"]])
    out = {}
    for name, path in paths.items():
        for place, row in enumerate(path):
            found = []
            for k in range(min(history, place) + 1):
                members = groups[row["task"], tuple(other["state"] for other in path[place - k : place + 1])]
                mean = float(np.mean([np.mean(visits) for visits in members.values()]))
                if len(members) > 1:
                    found.append(((k + 2) ** alpha, returns[name, row["turn"]] - mean))
            total = sum(weight for weight, _ in found)
            out[name, row["turn"]] = sum(weight * a for weight, a in found) / total if found else 0.0
    return [out[(row["task"], row["trajectory"]), row["turn"]] for row in table]


@given(rows(), st.integers(0, 3), st.sampled_from([0.0, 1.0, 0.5]), st.sampled_from([0.95, 1.0, 0.0]))
@settings(max_examples=80, deadline=None)
def test_same_as_one_level_after_another(table, history, alpha, gamma):
    result = hgpo(Steps.from_rows(table), scale="none", history=history, alpha=alpha, gamma=gamma, invalid_penalty=0.0)
    assert result.values == pytest.approx(levels_one_by_one(table, history, alpha, gamma), abs=1e-9)


@given(rows(), st.sampled_from(["none", "std", "mad"]), st.sampled_from(["trajectory", "turn"]))
@settings(max_examples=60, deadline=None)
def test_without_history_it_is_gigpos_step_term(table, scale, unit):
    steps = Steps.from_rows(table)
    ours = hgpo(steps, history=0, scale=scale, unit=unit).values
    assert ours.tolist() == gigpo(steps, scale=scale, unit=unit).parts["step"].tolist()


@given(rows(), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_every_level_balances(table, history):
    """Mean-only over turns, the standings of each level sum to zero."""
    result = hgpo(Steps.from_rows(table), history=history, scale="none", unit="turn")
    for k in range(history + 1):
        assert result.parts[f"history {k}"].sum() == pytest.approx(0.0, abs=1e-9)


def test_a_penalty_may_enter_the_advantage_itself():
    table = [{**row, "valid": row["turn"] == 0} for row in TABLE]
    steps = Steps.from_rows(table)
    plain = hgpo(steps, invalid_penalty=0.0).values
    late = hgpo(steps, penalty_in="advantage", invalid_penalty=0.5)
    assert late.values == pytest.approx(plain - np.array([0.0, 0.5] * 3))
    assert late.parts["penalty"].tolist() == [0.0, -0.5] * 3


def test_a_state_of_another_task_is_another_state():
    assert not hgpo(Steps.from_rows(episode("t", 0, [1.0], "s") + episode("u", 0, [0.0], "s"))).values.any()


@given(rows(), st.booleans(), st.sampled_from([None, "verl-agent"]))
@settings(max_examples=30, deadline=None)
def test_its_groups_are_those_of_gigpo(table, base, compat):
    steps = Steps.from_rows(table)
    mine, theirs = hgpo(steps, base=base, compat=compat).report, gigpo(steps, compat=compat).report
    counts = [name for name in theirs if name != "step_signal"]
    assert {name: mine[name] for name in counts} == {name: theirs[name] for name in counts}

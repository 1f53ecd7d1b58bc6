"""The truth about credit: the estimator on processes with known answers, and what rules are measured by."""

from __future__ import annotations

import math
from random import Random
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toys.decision_processes import PROCESSES, Process, delayed, recovery, stop_or_go, table, two_keys

from turncredit.credit import BadTable, Steps, get, rules
from turncredit.credit.truth import TrueCredit, density, estimate, fork_return, identification, reliability
from turncredit.credit.truth.directions import gradient_scores
from turncredit.credit.truth.metrics import IDENTIFICATION, MeasuredTurns, draws_of, interval_of


def test_the_processes_have_the_values_that_are_known() -> None:
    process = delayed(5)
    assert process.advantage("0", "good") == pytest.approx(0.3)
    assert process.advantage("0", "bad") == pytest.approx(-0.3)
    assert [process.advantage(f"{turn} bad", "left") for turn in range(1, 5)] == [0.0] * 4
    stops = stop_or_go()
    assert [stops.value(str(turn)) for turn in range(5)] == [0.8125, 1.625, 1.25, 1.5, 0.0]
    assert stops.advantage("1", "stop") == 0.375
    keys = two_keys()
    assert (keys.advantage("0", "right"), keys.advantage("0", "wrong")) == (0.25, -0.25)
    assert (keys.advantage("1 right", "right"), keys.advantage("1 wrong", "right")) == (0.5, 0.0)
    mended = recovery()
    assert (mended.value("0"), mended.value("1 broken")) == (0.875, 0.75)
    assert mended.advantage("1 broken", "repair") == 0.25
    assert mended.advantage("0", "bad") == -0.125


def truth_of(process: Process, episodes: int, forks: int, seed: int) -> tuple[TrueCredit, np.ndarray]:
    """The estimate for the turns of some episodes, and the true advantages; forks repeat the action."""
    rng, reward, here, after, returns, exact = Random(seed), [], [], [], [], []
    for _ in range(episodes):
        for state, action, paid in process.play(rng):
            reward.append(paid)
            here.append(len(returns))
            after.append(len(returns) + 1)
            returns += [process.forks(rng, forks, state), process.forks(rng, forks, state, action)]
            exact.append(process.advantage(state, action))
    return estimate(reward, here, after, returns, gamma=1.0, repeats=True), np.asarray(exact)


@pytest.mark.parametrize("name", PROCESSES)
def test_the_error_falls_with_the_square_root_of_the_forks(name: str) -> None:
    counts, errors = (4, 16, 64, 256), []
    for forks in counts:
        truth, exact = truth_of(PROCESSES[name](), 120, forks, seed=forks)
        errors.append(float(np.sqrt(((truth.advantage - exact) ** 2).mean())))
        said = float(np.sqrt((truth.error**2).mean()))
        assert (
            errors[-1] <= 1.3 * said
        )  # few forks say too little about rare outcomes, so the error is on the safe side
        assert errors[-1] >= (0.6 if forks < 16 else 0.75) * said
    slope = np.polyfit(np.log(counts), np.log(errors), 1)[0]
    assert slope == pytest.approx(-0.5, abs=0.08)


@pytest.mark.parametrize("name", ["recovery", "stop_or_go", "two_keys"])
def test_where_steps_are_deterministic_the_next_turns_forks_give_the_value_of_the_action(name: str) -> None:
    process, rng, forks = PROCESSES[name](), Random(1), 400
    reward, here, after, returns, exact = [], [], [], [], []
    for _ in range(60):
        turns = process.play(rng)
        first = len(returns)
        returns += [process.forks(rng, forks, state) for state, *_ in turns]
        here += range(first, len(returns))
        after += [*range(first + 1, len(returns)), -1]
        reward += [paid for *_, paid in turns]
        exact += [process.advantage(state, action) for state, action, _ in turns]
    truth = estimate(reward, here, after, returns, gamma=1.0)
    inside = np.abs(truth.advantage - exact) <= 2.0 * truth.error + 1e-9
    assert inside.mean() > 0.9
    assert np.abs(truth.advantage - exact).max() < 0.25


def test_chance_at_the_last_turn_needs_forks_that_repeat_the_action() -> None:
    """Without them the luck of the episode counts as the last action's merit."""
    process, rng = delayed(2), Random(0)
    turns = process.play(rng)
    sets = [process.forks(rng, 4000, state) for state, *_ in turns]
    lucky = estimate([paid for *_, paid in turns], [0, 1], [1, -1], sets, gamma=1.0)
    assert abs(lucky.advantage[1]) > 0.15
    again = process.forks(rng, 4000, turns[1][0], turns[1][1])
    fair = estimate([0.0, turns[1][2]], [0, 1], [1, 2], [*sets, again], gamma=1.0, repeats=True)
    assert abs(fair.advantage[1]) < 0.05


def test_the_advantages_of_an_episode_telescope() -> None:
    """Their sum, with the value at the start, is the return for any forks."""
    returns = [[0.2, 0.4], [0.9, 0.1], [0.5, 0.5]]
    truth = estimate([0.0, 0.5, 1.0], [0, 1, 2], [1, 2, -1], returns, gamma=1.0)
    assert truth.value[0] + truth.advantage.sum() == pytest.approx(1.5)
    assert truth.forks.tolist() == [2, 2, 2]
    assert truth.span == pytest.approx(0.8)


def test_the_error_of_unanimous_forks_by_hand() -> None:
    """Four wins at the second turn: m = 4.5 / 5, s^2 = (4 x 0.01 + 0.81 / 2 + 0.01 / 2) / 4; at the first, m = 0.5."""
    truth = estimate([0.0, 0.0], [0, 1], [1, -1], [[0.0, 1.0, 0.0, 1.0], [1.0] * 4], gamma=0.5)
    first, second = 5 * 0.25 / 4, 0.45 / 4
    assert truth.error.tolist() == pytest.approx([math.sqrt(0.25 * second / 4 + first / 4), math.sqrt(second / 4)])
    alike = estimate([0.0], [0], [-1], [[1.0] * 4], gamma=1.0)
    assert math.isnan(alike.error[0])  # nothing says how far apart returns can be


@pytest.mark.parametrize(("forks", "before", "after"), [(8, 0.9, 1.0), (8, 0.97, 0.99), (8, 0.3, 0.9), (8, 0.5, 0.5),
                                                         (4, 0.9, 1.0), (16, 0.9, 1.0)])  # fmt: skip
def test_two_errors_cover_the_advantage_nine_times_in_ten(forks: int, before: float, after: float) -> None:
    """All outcomes of K forks on either side, with their binomial probabilities."""

    def chance(p: float, won: int) -> float:
        return math.comb(forks, won) * p**won * (1 - p) ** (forks - won)

    covered = 0.0
    for first in range(forks + 1):
        for second in range(forks + 1):
            sets = [[1.0] * won + [0.0] * (forks - won) for won in (first, second)]
            truth = estimate([0.0, 0.0, 0.0], [0, 1, 2], [1, 2, -1], [*sets, [0.0, 1.0]], gamma=1.0)
            inside = abs(truth.advantage[0] - (after - before)) <= 2.0 * truth.error[0] + 1e-9
            covered += inside * chance(before, first) * chance(after, second)
    assert covered > 0.9


def test_too_few_forks_give_no_error() -> None:
    truth = estimate([1.0, 1.0], [0, 1], [1, -1], [[1.0], []], gamma=1.0)
    assert truth.known.tolist() == [False, False]
    assert math.isnan(truth.advantage[1])
    with pytest.raises(BadTable, match="0 to 0"):
        estimate([1.0], [1], [-1], [[1.0]], gamma=1.0)
    with pytest.raises(BadTable, match="as many"):
        estimate([1.0], [0, 0], [-1], [[1.0]], gamma=1.0)


@given(st.lists(st.floats(-2, 2), max_size=9), st.floats(0, 1))
def test_the_return_of_a_fork(rewards: list[float], gamma: float) -> None:
    assert fork_return(rewards, gamma) == pytest.approx(sum(reward * gamma**at for at, reward in enumerate(rewards)))


def test_reliability_is_the_share_of_truth_in_the_variance() -> None:
    """By construction: advantages of variance 1, and noise of variance 1/2 in the mean of both halves."""
    rng = np.random.default_rng(0)
    exact = rng.normal(size=20000)
    halves = exact + rng.normal(size=(2, 20000))
    zeros = np.zeros(20000)
    truth = TrueCredit(zeros, halves.mean(0), zeros, halves, np.full(20000, 8))
    assert reliability(truth) == pytest.approx(1 / 1.5, abs=0.02)
    rule = exact + rng.normal(size=20000)
    measured = np.corrcoef(rule, truth.advantage)[0, 1]
    assert measured / math.sqrt(1 / 1.5) == pytest.approx(math.sqrt(0.5), abs=0.02)


def known(advantage: list[float], error: float | list[float] = 0.1, span: float = 1.0) -> TrueCredit:
    values = np.asarray(advantage)
    errors = np.broadcast_to(error, values.shape).astype(float)
    return TrueCredit(values * 0, values, errors, np.stack([values, values]), np.full(len(values), 8), span)


def scores(rule: list[float], truth: TrueCredit, task: list[int], trajectory: list[int]) -> dict[str, float | None]:
    intervals = identification(
        np.asarray(rule), truth, np.asarray(task), np.asarray(trajectory, dtype=np.int64), resamples=50
    )
    return {name: interval.value for name, interval in intervals.items()}


def test_the_truth_itself_is_the_best_rule() -> None:
    truth = known([0.5, -0.5, 0.0, 0.3, 0.0, -0.1], [0.1, 0.1, 0.001, 0.1, 0.001, 0.1])
    best = scores(truth.advantage.tolist(), truth, [0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 1])
    # each of the two turns with 0.001 did nothing for certain, the others with probabilities from 3e-7 to 0.1
    measured = {"rank": 1.0, "within": 1.0, "sign": 1.0, "leak": pytest.approx(0.0, abs=0.03)}
    assert best == measured | {"error": pytest.approx(0.0, abs=1e-9)}
    worst = scores((-truth.advantage).tolist(), truth, [0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 1])
    assert (worst["rank"], worst["within"], worst["sign"]) == (-1.0, -1.0, 0.0)
    assert worst["error"] == pytest.approx(0.0, abs=1e-9)  # the best scale may be negative


def test_a_rule_that_says_nothing_knows_nothing() -> None:
    truth = known([0.5, -0.5, 0.0, 0.3], [0.1, 0.1, 0.001, 0.1])
    nothing = scores([0.0] * 4, truth, [0, 0, 1, 1], [0, 0, 1, 1])
    assert (nothing["rank"], nothing["within"], nothing["leak"], nothing["sign"]) == (None, None, None, 0.5)
    same = scores([1.0] * 4, truth, [0, 0, 1, 1], [0, 0, 1, 1])
    assert same["leak"] == 1.0


def test_measures_by_hand() -> None:
    truth = known([0.4, -0.4, 0.0, 0.0], [0.1, 0.1, 0.001, 0.3])
    measured = scores([1.0, 1.0, 0.5, 0.1], truth, [0, 0, 0, 1], [0, 0, 0, 1])
    assert measured["sign"] == 0.5  # of the two that are beyond two errors, one is right
    normal = NormalDist()
    some = normal.cdf((0.02 - 0.4) / 0.1) - normal.cdf((-0.02 - 0.4) / 0.1)  # of each of the first two turns
    wide = normal.cdf(0.02 / 0.3) - normal.cdf(-0.02 / 0.3)  # of the last, 0.053
    leaked = (2 * some * 1.0 + 1.0 * 0.5 + wide * 0.1) / (2 * some + 1.0 + wide)
    assert measured["leak"] == pytest.approx(leaked / 0.65)
    assert leaked / 0.65 == pytest.approx(0.7383, abs=1e-4)
    assert measured["within"] == pytest.approx(0.0, abs=1e-9)
    spread = density(truth)
    assert (spread.significant, spread.top_tenth) == (0.5, 0.5)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.1, 9.0), st.floats(-3, 3))
def test_a_measure_does_not_depend_on_scale_and_order(seed: int, scale: float, shift: float) -> None:
    rng = np.random.default_rng(seed)
    size = 24
    truth = known(rng.normal(size=size).round(3).tolist(), rng.uniform(0, 0.2, size).tolist())
    task, trajectory = np.repeat([0, 1, 2], 8), np.repeat(np.arange(6), 4)
    rule = rng.normal(size=size).round(3)
    base = identification(rule, truth, task, trajectory, resamples=20)
    scaled = identification(scale * rule, truth, task, trajectory, resamples=20)
    moved = identification(rule + shift, truth, task, trajectory, resamples=20)
    order = rng.permutation(size)
    mixed = identification(
        rule[order],
        TrueCredit(
            truth.value[order], truth.advantage[order], truth.error[order], truth.halves[:, order], truth.forks, 1.0
        ),
        task[order],
        trajectory[order],
        resamples=20,
    )
    for name, interval in base.items():
        assert scaled[name].value == pytest.approx(interval.value, abs=1e-6)
        assert mixed[name].value == pytest.approx(interval.value, abs=1e-6)
        assert mixed[name].low == pytest.approx(interval.low, abs=1e-6)
    for name in ("rank", "within", "error"):
        assert moved[name].value == pytest.approx(base[name].value, abs=1e-6)


def test_a_bootstrap_over_tasks_is_the_one_that_draws_tables() -> None:
    """Weights stand for repeated tasks: the same numbers as from tables in which the tasks really are repeated."""
    rng = np.random.default_rng(3)
    advantage = rng.normal(size=40).round(2) * (rng.random(40) < 0.6)
    truth = known(advantage.tolist(), np.where(advantage == 0.0, 0.001, rng.uniform(0, 0.3, 40)).tolist())
    task, trajectory = np.repeat(np.arange(5), 8), np.repeat(np.arange(10), 4)
    rule = rng.normal(size=40).round(1)
    weights = draws_of(5, 8, seed=1)
    turns = MeasuredTurns(rule, truth.advantage, truth.error, task, trajectory, 1.0)
    for name, measure in IDENTIFICATION.items():
        values, _ = measure(turns, weights)
        for draw, counts in zip(values, weights.astype(int), strict=True):
            rows = np.concatenate([np.flatnonzero(task == k) for k in range(5) for _ in range(counts[k])])
            copies = np.concatenate([[copy * 5 + k] * 8 for k in range(5) for copy in range(counts[k])])
            labels = np.unique(copies, return_inverse=True)[1]
            repeated = MeasuredTurns(
                rule[rows], truth.advantage[rows], truth.error[rows], labels, trajectory[rows] + 100 * labels, 1.0
            )
            expected, _ = measure(repeated, np.ones((1, labels.max() + 1)))
            assert draw == pytest.approx(float(expected[0]), abs=1e-9), name


def test_intervals() -> None:
    assert interval_of(np.array([np.nan, 1.0]), 3).value is None
    assert interval_of(np.array([0.5]), 3) == interval_of(np.array([0.5, np.nan]), 3)
    interval = interval_of(np.concatenate([[0.5], np.linspace(0, 1, 1001)]), 3)
    assert (interval.low, interval.high) == (pytest.approx(0.025), pytest.approx(0.975))


# -- rules where the answer can be derived by hand --

MANY = 400


def means(name: str, rule: str, groups: int = MANY, **options: object) -> dict[tuple[str, str], float]:
    """The mean of a rule's values for each (state, action), over many groups."""
    steps = table(name, groups)
    bound = get(rule, **options)
    values = (bound(steps, rng=np.random.default_rng(0)) if bound.draws else bound(steps)).values
    states, actions = steps.ids("state").tolist(), steps.ids("action").tolist()
    sums: dict[tuple[str, str], list[float]] = {}
    for state, action, value in zip(states, actions, values.tolist(), strict=True):
        sums.setdefault((state, action), []).append(value)
    return {key: float(np.mean(members)) for key, members in sums.items()}


def test_leave_one_out_gives_the_first_turn_its_due_and_the_others_as_much() -> None:
    """E[R - mean of the others | good] = 0.8 - 0.5 at every turn of the branch: right at the first, leaked after it."""
    credit = means("delayed", "rloo", invalid_penalty=0.0)
    assert credit["0", "good"] == pytest.approx(0.3, abs=0.03)
    assert credit["0", "bad"] == pytest.approx(-0.3, abs=0.03)
    for turn in range(1, 5):
        assert credit[f"{turn} good", "left"] == pytest.approx(0.3, abs=0.03)


def test_the_step_term_of_gigpo_gives_nothing_to_turns_that_do_nothing() -> None:
    """It compares actions in one state: in each branch both have the same expected return."""
    steps = table("delayed", MANY)
    result = get("gigpo", scale="none", gamma=1.0, invalid_penalty=0.0)(steps)
    step = result.parts["step"]
    states = np.asarray(steps.ids("state").tolist())
    for state in ("1 good", "4 bad"):
        assert step[states == state].mean() == pytest.approx(0.0, abs=1e-9)
    actions = np.asarray(steps.ids("action").tolist())
    good = (states == "0") & (actions == "good")
    assert step[good].mean() == pytest.approx(0.3 * 7 / 8, abs=0.03)  # the mean of the state includes the turn itself


BLIND = {"passk", "step_grpo"}
"""Rules that see nothing here by design: `passk` where one of eight succeeds, `step_grpo` beyond the next reward."""


def applicable() -> list[str]:
    columns = {"state", "next_state", "action", "valid", "tokens", "logprob"}
    return [
        name
        for name, rule in rules().items()
        if rule.function.__module__.startswith("turncredit.") and set(rule.needs) <= columns and name not in BLIND
    ]


@pytest.mark.parametrize("rule", applicable())
def test_every_rule_prefers_the_action_that_decides(rule: str) -> None:
    """In all of them the return of the good branch is higher, so its first action must get more than the bad one."""
    credit = means("delayed", rule, 120)
    assert credit["0", "good"] > credit["0", "bad"]


@pytest.mark.parametrize("rule", applicable())
def test_every_rule_prefers_the_second_key_once_the_first_is_right(rule: str) -> None:
    credit = means("two_keys", rule, 120)
    assert credit["1 right", "right"] > credit["1 right", "wrong"]


@pytest.mark.parametrize("rule", ["gigpo", "graphgpo"])
def test_rules_that_compare_states_do_not_mix_the_two_halves(rule: str) -> None:
    """After a wrong first key nothing matters; the second action must get the same whether it is right or wrong."""
    credit = means("two_keys", rule)
    assert credit["1 wrong", "right"] == pytest.approx(credit["1 wrong", "wrong"], abs=0.05)


# -- gradients --


def softmax_gradients(name: str, groups: int) -> tuple[np.ndarray, Steps]:
    """The gradients of log pi of a table of logits at zero, one for each state and action: the uniform policy."""
    steps = table(name, groups)
    process = PROCESSES[name]()
    pairs = list(zip(steps.ids("state").tolist(), steps.ids("action").tolist(), strict=True))
    index = {
        (state, action): number
        for number, (state, action) in enumerate(
            sorted({(state, action) for state, _ in pairs for action in process.transitions(state)})
        )
    }
    gradients = np.zeros((len(pairs), len(index)))
    for row, (state, action) in enumerate(pairs):
        actions = process.transitions(state)
        for other in actions:
            gradients[row, index[state, other]] = (other == action) - 1 / len(actions)
    return gradients, steps


def exact_advantages(name: str, steps: Steps) -> np.ndarray:
    process = PROCESSES[name]()
    pairs = zip(steps.ids("state").tolist(), steps.ids("action").tolist(), strict=True)
    return np.asarray([process.advantage(state, action) for state, action in pairs])


@pytest.mark.parametrize("name", PROCESSES)
def test_an_unbiased_rule_has_the_direction_of_the_truth(name: str) -> None:
    """Leave-one-out returns are noisy and leak, but their expected gradient is the true one."""
    gradients, steps = softmax_gradients(name, 1000)
    rule = get("rloo", invalid_penalty=0.0)(steps).values
    measures = gradient_scores(gradients, rule, exact_advantages(name, steps), steps.task, resamples=2)
    assert measures["direction"].value == pytest.approx(1.0, abs=0.05)
    wrong = gradient_scores(gradients, -rule, exact_advantages(name, steps), steps.task, resamples=2)
    assert wrong["direction"].value == pytest.approx(-1.0, abs=0.05)


def test_the_truth_has_less_noise_than_the_outcome() -> None:
    gradients, steps = softmax_gradients("delayed", 500)
    exact = exact_advantages("delayed", steps)
    rule = get("rloo", invalid_penalty=0.0)(steps).values
    outcome, best = (gradient_scores(gradients, values, exact, steps.task, resamples=50) for values in (rule, exact))
    assert best["noise"].value < 0.2 * outcome["noise"].value
    assert best["agreement"].value > outcome["agreement"].value > 0.0
    # the truth has one gradient a group, the same in all of them: no draw differs, so it has no interval
    assert (best["noise"].low, best["noise"].high) == (None, None)
    assert best["noise"].value < outcome["noise"].low
    assert best["agreement"].n == 500


def test_measures_of_gradients_by_hand() -> None:
    """Two groups with orthogonal gradients, and a third between them."""
    gradients = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    ones, group = np.ones(3), np.arange(3)
    measures = gradient_scores(gradients, ones, ones, group, resamples=3)
    mean = np.array([2.0, 2.0]) / 3
    spread = ((gradients - mean) ** 2).sum() / 2
    assert measures["noise"].value == pytest.approx(spread / (mean @ mean))
    others = [np.array([1.0, 2.0]), np.array([2.0, 1.0]), np.array([1.0, 1.0])]
    cosines = [g @ o / np.linalg.norm(g) / np.linalg.norm(o) for g, o in zip(gradients, others, strict=True)]
    assert measures["agreement"].value == pytest.approx(np.mean(cosines))
    alone = gradient_scores(gradients[:1], ones[:1], ones[:1], group[:1])
    assert alone["direction"].value is None

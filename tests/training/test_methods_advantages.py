"""docs/methods.md: the advantages that each line gives two groups of four episodes, against those by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from method_lines import METHODS, rules_of, run_of

from turncredit.credit import Steps
from turncredit.credit.registry import get as get_credit_rule
from turncredit.training.sampling.applied_rewards import AppliedRewards

T, U = slice(0, 4), slice(4, 8)
WON = np.array([1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0])
TURNS = np.array([1, 2, 2, 3, 1, 2, 2, 3])
TOKENS = np.array([10.0, 20.0, 30.0, 40.0] * 2)
LOGPROB = np.array([-0.5, -1.0, -1.5, -2.0] * 2)
JUDGE = np.array([0.9, 0.2, 0.4, 0.7, 0.5, 0.6, 0.7, 0.8])
PREFERRED = np.array([0.0, 1.0, -1.0, 1.0, 1.0, 1.0, 1.0, 0.0])
LABELS = list("abba" + "aaab")
REPEATED = np.array([0.2, 0.0, 0.0, 0.0] * 2)
SIDES = np.array([[1.0, 0.0], [0.0, 1.0]] * 4)
SOURCE = np.array([0, 0, 0, 2] * 2)
NAMED = np.array([0.5, 0.25, 0.5, 0.0] * 2)
FLAG = np.array([1, 0, 0, 1] * 2)
EPISODES = [(number, time) for number in range(8) for time in range(TURNS[number])]


def table(**changes):
    """One row a turn; the reward comes at the end. The value of a turn is a tenth of its number, and 0.5 at first."""
    last = [time == TURNS[number] - 1 for number, time in EPISODES]
    of = [number for number, _ in EPISODES]
    shares = {1: [1.0], 2: [0.5, 0.5], 3: [0.25, 0.375, 0.375]}
    columns = {
        "task": ["t" if number < 4 else "u" for number in of],
        "trajectory": of,
        "turn": [time for _, time in EPISODES],
        "reward": [WON[number] * end for number, end in zip(of, last, strict=True)],
        "action": ["go"] * len(of),
        "valid": [True] * len(of),
        "tokens": [round(TOKENS[number] * shares[TURNS[number]][time]) for number, time in EPISODES],
        "logprob": LOGPROB[of],
        "state": [f"s{time}" for _, time in EPISODES],
        "label": [LABELS[number] for number in of],
        "judge": JUDGE[of],
        "preferred": PREFERRED[of],
        "repeated": [REPEATED[number] * end for number, end in zip(of, last, strict=True)],
        "multi": [(WON[number] * end, 0.5) for number, end in zip(of, last, strict=True)],
        "metric": SIDES[of],
        "length_budget": [25.0] * len(of),
        "answer": [{"a": "red cup", "b": "blue cup"}[LABELS[number]] for number in of],
        "wording": ["t" if number < 4 else "u" for number in of],
        "question": ["q"] * len(of),
        "facts": [4] * len(of),
        "supported": [2] * len(of),
        "refused": [int(number == 1) for number in of],
        "plan_score": JUDGE[of],
        "confidence": JUDGE[of],
        "entities": [NAMED[number] * end for number, end in zip(of, last, strict=True)],
        "format": [LABELS[number] for number in of],
        "role": [("defender", "attacker")[number % 2] for number in of],
        **dict.fromkeys(("used", "parallel", "first_right"), FLAG[of]),
        "source": SOURCE[of],
        "value": [0.5 + 0.1 * time for _, time in EPISODES],
        "tree": [f"tree {number // 2}" for number in of],
        "forked": [number % 2 for number in of],
        "fork_turn": [number % 2 for number in of],
        "parent": [
            (f"{number - number % 2 if time == 1 else number}/{time}" if time else "") for number, time in EPISODES
        ],
    }
    return Steps.from_columns(**columns | changes)


def z(scores, ddof=1, groups=(T, U)):
    """(x - mean) / (std + 1e-6) within each group; 0 without a spread."""
    result = np.zeros(8)
    for group in groups:
        spread = scores[group].std(ddof=ddof)
        result[group] = (scores[group] - scores[group].mean()) / (spread + 1e-6) if spread > 1e-12 else 0.0
    return result


def centred(scores):
    return np.concatenate([scores[group] - scores[group].mean() for group in (T, U)])


def whitened(values):
    """By tokens, the variance over n - 1."""
    mean = (TOKENS * values).sum() / TOKENS.sum()
    variance = (TOKENS * (values - mean) ** 2).sum() / (TOKENS.sum() - 1)
    return (values - mean) / math.sqrt(variance + 1e-8)


def by_turn(value_of):
    return np.array([value_of(number, time) for number, time in EPISODES])


def wave(length, limit):
    return (1 + np.cos(np.pi * length / limit)) / 2


LAST = np.array([time == TURNS[number] - 1 for number, time in EPISODES])


def gigpo(rewards, per_turn=None):
    """Z of the score over the task, and of the return at gamma 0.95 over the task's turns in one state."""
    paid = np.array([rewards[number] for number, _ in EPISODES]) * LAST if per_turn is None else per_turn
    score = np.array([sum(paid[row] for row, (n, _) in enumerate(EPISODES) if n == number) for number in range(8)])
    gain = {
        (own, time): sum(
            paid[row] * 0.95 ** (t - time) for row, (n, t) in enumerate(EPISODES) if n == own and t >= time
        )
        for own, time in EPISODES
    }

    def advantage(number, time):
        home = np.array([gain[n, t] for n, t in EPISODES if n // 4 == number // 4 and t == time])
        spread = home.std(ddof=1) if len(home) > 1 else 0.0
        return z(score)[number] + ((gain[number, time] - home.mean()) / (spread + 1e-6) if spread > 1e-12 else 0.0)

    return by_turn(advantage)


GRPO = z(WON)
HALF = math.sqrt(0.75)  # 0.5 over the standard deviation of 1, 0, 0, 1
assert GRPO.round(4).tolist() == [round(x * HALF, 4) for x in (1, -1, -1, 1, 0, 0, 0, 0)]
COSINE = np.where(TOKENS >= 40, -0.5, np.where(WON > 0, 0.5 + 0.5 * wave(TOKENS, 40), -0.5 * wave(TOKENS, 40)))
FREQUENCY = np.array([0.5 - 0.75] * 4 + [0.75, 0.75, 0.75, 0.25]) - np.array(
    [0.0] * 4 + [0.75 * (-0.75 * math.log(0.75) - 0.25 * math.log(0.25)) / math.log(2)] * 4
)
DYLR = np.array([1.0, *(-0.25 * (1 + math.cos(math.pi * share)) for share in (20 / 25, 30 / 25)), 1, 1, 1, 1, 1])
SLEA = {  # returns at gamma 0.95 from each turn, in two clusters of each task: episodes 0 and 2, and 1 and 3
    (number, time): WON[number] * 0.95 ** (TURNS[number] - 1 - time) for number, time in EPISODES
}


def slea(number, time):
    """Each episode counts once in a cluster, so that its turns there have weights that add up to 1."""
    home = [place for place in EPISODES if place[0] // 4 == number // 4 and place[0] % 2 == number % 2]
    values = np.array([SLEA[place] for place in home])
    weights = np.array([1 / TURNS[place[0]] for place in home])
    mean = (weights * values).sum() / 2
    spread = math.sqrt((weights * (values - mean) ** 2).sum() / (2 - 1))
    return GRPO[number] + (SLEA[number, time] - mean) / (spread + 1e-6)


def vine(number, time):
    """r + 0.95 V' - V, with V = 0.5 + 0.1 turn."""
    last = time == TURNS[number] - 1
    return WON[number] * last + (0.0 if last else 0.95 * (0.6 + 0.1 * time)) - 0.5 - 0.1 * time


def in_trees():
    """Trees of two leaves each: Z over the task and Z over the tree, 1/sqrt(2) for 1 against 0."""
    pairs = (slice(0, 2), slice(2, 4), slice(4, 6), slice(6, 8))
    return GRPO + z(WON, groups=pairs)


def advevo():
    """First half of the run: defenders earn 0.6 safe + 0.3 task + 0.1 format, attackers their reward."""
    paid = by_turn(lambda number, _: WON[number]) * LAST
    defends = by_turn(lambda number, _: number % 2 == 0)
    return gigpo(None, np.where(defends, 0.6 * 0.5 + 0.3 * paid + 0.1, paid))


def gdpo():
    """Z of each of two rewards, the outcome and half a point a turn, added up and scaled over the batch."""
    total = z(WON) + z(0.5 * TURNS)
    return (total - total.mean()) / (total.std(ddof=1) + 1e-6)


def continued(worth, bonus):
    """Roots 0, 2, 4 and 6, each with one fork at turn 1; forks get nothing and are not kept."""
    mean = (WON[0::2] + WON[1::2]) / 2 if worth == "all" else WON[0::2]
    value = np.zeros(8)
    for task in (slice(0, 2), slice(2, 4)):
        spread = mean[task].std(ddof=1)
        value[0::2][task] = (mean[task] - mean[task].mean()) / (spread + 1e-6) if spread > 1e-12 else 0.0

    def advantage(number, time):
        if number % 2:
            return 0.0
        start = WON[T][0::2].mean() if number < 4 else 1.0
        fork = WON[number + 1]
        before, after = (start, fork) if time == 0 else (fork, WON[number])
        return value[number] + bonus * (after - before)

    return by_turn(advantage)


def taught(scale):
    own = WON[[0, 1, 2, 4, 5, 6]].reshape(2, 3)
    mean, spread = own.mean(1), own.std(ddof=1, axis=1)
    result = np.concatenate([WON[group] - mean[number] for number, group in enumerate((T, U))])
    if scale:
        result[T] /= spread[0] + 1e-6
    return result


NOVELTY = np.array([0.0, 0.0, 0.0, min(1 - math.exp(-2.0 + 1.25), HALF), 0, 0, 0, 0])
SPO = (WON - 0.5 - (WON - 0.5).mean()) / (WON.std(ddof=1) + 1e-8)


def of_tokens(group):
    """HAPO: mean and spread (over n) of the group's tokens, each with its episode's reward."""
    mean = (TOKENS[group] * WON[group]).sum() / TOKENS[group].sum()
    spread = math.sqrt((TOKENS[group] * (WON[group] - mean) ** 2).sum() / TOKENS[group].sum())
    return (WON[group] - mean) / (spread + 1e-6) if spread else np.zeros(4)


CREDIT = {
    "SPO's sampling": SPO,
    "VSPO": gigpo(0.3 + 0.7 * WON),
    "V0": by_turn(vine),
    "PCuRL": gigpo(DYLR),
    "Confucius3-Math": np.array([1.256, -1.256, -1.256, 1.256, 0, 0, 0, 0]),
    "V0.5": np.array([1.0, -1.0, -1.0, 1.0, 0.25, 0.25, 0.25, 0.25]),  # V = 0; w = 0 for t, 0.75 for u
    "XRPO": GRPO + NOVELTY,
    "TTRL": gigpo(np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0])),
    "ARPO's branches": GRPO,
    "Tree-GRPO": in_trees(),
    "TreeRL": in_trees(),
    "PPPO": continued("all", 0.0),
    "MOTIF": continued("all", 0.0),
    "MRT": continued("own", 0.2),
    "AMPO": taught(True),
    "RL-PLUS": taught(False),
    "DAPO's overlong punishment": gigpo(WON - np.array([0, 0, 0, 1.0, 0, 0, 0, 1.0])),
    "DLER": whitened(centred(WON * (TOKENS < 40))),
    "cosine reward": gigpo(COSINE),
    "ConciseR, second stage": gigpo(np.array([1.0, 0, 0, 1, 1, 2 / 3, 1 / 3, 0])),
    "Train Long, Think Short": gigpo(WON + 0.5 * WON * TOKENS / 256),
    "OTC": gigpo(WON * np.cos((TURNS - 1) * np.pi / (2 * (TURNS - 1) + 4))),
    "MiroMind-M1 (CAMPO)": gigpo(WON - REPEATED),
    # a turn with (0, .5) earns .25 - .1/16, one with (1, .5) .75 - .1/16
    "reward model ensembles": gigpo(None, 0.24375 + 0.5 * by_turn(lambda number, _: WON[number]) * LAST),
    "weighted objectives": gigpo(None, 0.5 + by_turn(lambda number, _: WON[number]) * LAST),
    "TTRV": gigpo(FREQUENCY),
    "MultiRole-R1": gigpo(WON + np.array([0.1, 0, 0, 0.1] + [0.1 * 2 / 3] * 4)),
    "RLMT": gigpo(JUDGE),
    "Writing-Zero's pairwise BRPO": np.array([0.0, 1, -1, 1, 0, 0, 0, 0]),  # u: 3 / 4 > 0.6
    "TLDR, length by the prompt's level": gigpo(
        WON - np.array([0, 0, 0.1, 0.3] * 2)
    ),  # .5 (30 / 25 - 1); .5 (40 / 25 - 1)
    "AdvEvo-MARL": advevo(),
    "Con-RAG": gigpo(np.array([0.75, 0.25, 0.25, 0.75, 0.5, 0.5, 0.5, 0.5])),  # the same answer 1, another 0: no bigram
    "KnowRL": gigpo(np.array([2, 1, -1 + 0.5 * math.exp(1 - 10 / 4), 2, 2, 2, 2, 2])),
    "PTA-GRPO": gigpo(WON + 0.3 * JUDGE),
    "listener-augmented GRPO": gigpo(WON + 0.5 * WON * (2 * JUDGE - 1)),
    "E-GRPO": gigpo(np.array([1, 0.3 * 0.5, 0.3, 1, 1, 1, 1, 1])),
    "GeometryZero (GCPO)": gigpo(WON + 0.5 * FLAG * (np.arange(8) < 4)),  # t: users won all, the others nothing
    "ARM (Ada-GRPO)": gigpo(WON * np.array([2, 2, 2, 2, 4 / 3, 4 / 3, 4 / 3, 4])),  # G / F at the beginning
    "SRPO's reflection": gigpo(WON + 0.25 * (WON - FLAG)),
    "Parallel-R1": gigpo(np.where(WON > 0, 1 + 0.2 * FLAG, -1.0)),
    "GDPO": gdpo(),
    "SPEAR": centred(WON),
    "SLEA-RL": by_turn(slea),
    "ROVER": centred(WON),
    "DCPO": GRPO,
    "HAPO": np.concatenate([of_tokens(T), of_tokens(U)]),
    "MSSR": (WON - WON.mean()) / (WON.std(ddof=0) + 1e-8),
    "Lite PPO": centred(WON) / (WON.std(ddof=1) + 1e-6),
}
KEPT = {"Writing-Zero's pairwise BRPO": [False, True, True, True, False, False, False, False]}


def credited(method, folder, steps):
    run = run_of(method, folder)
    rewarded = AppliedRewards(rules_of(run).rewards, 10)(steps, 0)
    return get_credit_rule(run.credit.method, **run.credit.options)(rewarded)


@pytest.mark.parametrize("method", [name for name in METHODS if name != "SPO-tree"])
def test_the_advantages_of_a_line_are_those_by_hand(tmp_path, method):
    """Lines that set neither rewards nor credit have those of gigpo, the default."""
    sets = any(word.startswith(("sampling.rewards", "credit.method", "credit.options")) for word in METHODS[method])
    assert sets == (method in CREDIT), "this line needs its advantages by hand"
    changes = (
        {"multi": [(0.5, *pair[:1], 1.0) for pair in table().column("multi").tolist()]}
        if method == "AdvEvo-MARL"
        else {}
    )
    result = credited(method, tmp_path, table(**changes))
    expected = CREDIT.get(method, gigpo(WON))
    if len(expected) == 8:
        expected = expected[[number for number, _ in EPISODES]]
    np.testing.assert_allclose(result.values, expected, atol=2e-6)
    assert (result.weight == 1.0).all()
    kept = KEPT.get(
        method, [number % 2 == 0 for number in range(8)] if "continuations" in str(METHODS[method]) else [True] * 8
    )
    assert result.keep.tolist() == [kept[number] for number, _ in EPISODES]


def test_spo_tree_by_hand(tmp_path):
    """Two leaves below the node after turn 0 won and lost: V there 1/2, as at the root; then 1 - 1/2 and 0 - 1/2.

    The turn that both share is two rows of weight 1/2, and has no advantage, so that it is dropped.
    """
    rows = {"task": ["t"] * 4, "trajectory": ["a", "a", "b", "b"], "turn": [0, 1, 0, 1], "reward": [0, 1.0, 0, 0]}
    steps = Steps.from_columns(**rows, tree=["a"] * 4, parent=["", "a/1", "", "a/1"], forked=[0, 0, 1, 1])
    result = credited("SPO-tree", tmp_path, steps)
    assert result.values.tolist() == [0.0, 0.5, 0.0, -0.5]
    assert result.weight.tolist() == [0.5, 1.0, 0.5, 1.0]
    assert result.keep.tolist() == [False, True, False, True]

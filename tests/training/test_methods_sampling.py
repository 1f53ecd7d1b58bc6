"""docs/methods.md: the tasks that each line draws, its groups, what it replays and where it forks, against the hand."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from method_lines import METHODS, methods_with, rules_of, run_of
from toys.open_groups import after, episode, turn

from turncredit.agents.annealing import annealed
from turncredit.curriculum import BranchPoint, MoreEpisodes, OpenGroup, TaskRecords, Visit
from turncredit.curriculum.fork_places import get_fork_rule
from turncredit.curriculum.lessons import Lesson
from turncredit.curriculum.stored_episodes import Index, StoredEpisode

# -- tasks --


def records(played, *others, **remember):
    visits = [
        Visit(
            task, (1.0,) * wins + (0.0,) * (count - wins), wins, {key: table[task] for key, table in remember.items()}
        )
        for task, (wins, count) in played.items()
    ]
    return TaskRecords.of([*played, *others]).after(visits, 0)


FIVE = records({"a": (2, 8), "b": (4, 8), "c": (8, 8), "d": (0, 8)}, "e")


def draw(rule, pool, count, *, group=8, iteration=1, seed=0, state=None):
    options = {"iteration": iteration, "total": 12, "rng": np.random.default_rng(seed), "state": state}
    return rule(pool, count=count, group=group, **options)


def best(gain, p, total, least=2):
    """The largest sum of gains over all sizes, by trying them."""
    sizes = [n for n in itertools.product(range(least, total), repeat=len(p)) if sum(n) == total]
    return max(sum(gain(n, q) for n, q in zip(size, p, strict=True)) for size in sizes)


def uniform_by_hand(rule):
    drawn = draw(rule, FIVE, 5)
    assert (sorted(drawn.tasks), drawn.episodes, drawn.weight) == (list("abcde"), (8,) * 5, ())


def vade_by_hand(rule):
    """p (1 - p)^2 is largest at 1/3; with ten thousand episodes the draws are the rates."""
    pool = records({"half": (5000, 10000), "third": (3333, 10000), "lost": (0, 10000), "won": (10000, 10000)})
    assert {draw(rule, pool, 1, seed=seed).tasks for seed in range(5)} == {("third",)}


def knapsack_by_hand(rule):
    pool = records({"a": (2, 8), "b": (4, 8), "c": (6, 8)})
    drawn = draw(rule, pool, 3)
    p = {"a": 0.25, "b": 0.5, "c": 0.75}

    def gain(n, q):
        return (1 - q**n - (1 - q) ** n) * q * (1 - q) ** 2

    assert sum(drawn.episodes) == 24
    found = sum(gain(n, p[task]) for task, n in zip(drawn.tasks, drawn.episodes, strict=True))
    assert found == pytest.approx(best(gain, list(p.values()), 24))


def cures_by_hand(rule):
    """p = 1/10, 1/2, 9/10: spreads .3, .5, .3, of 24 episodes 6.5, 10.9, 6.5."""
    drawn = draw(rule, records({"a": (0, 8), "c": (8, 8)}, "b"), 3)
    assert sorted(zip(drawn.episodes, drawn.tasks, strict=True))[-1] == (11, "b")
    assert sorted(drawn.episodes) == [6, 7, 11]


def dots_by_hand(rule):
    """Lost .75, .5, and "xxx", which is like "xxxx", about .75: the one nearest to 1/2 is "yyyy"."""
    assert {draw(rule, records({"xxxx": (2, 8), "yyyy": (4, 8)}, "xxx"), 1, seed=seed).tasks for seed in range(5)} == {
        ("yyyy",)
    }


def mmr1_by_hand(rule):
    """Every fourth iteration begins with the whole pool, in its order; then .1875, .25, 0, 0 and .25 are scores."""
    drawn = draw(rule, FIVE, 5, iteration=4)
    assert (drawn.tasks, drawn.options) == (tuple("abcde"), ({"probe": True},) * 5)
    state = draw(rule, FIVE, 2, iteration=5).state
    assert state["scores"].tolist() == [0.75, 1.0, 0.0, 0.0, 1.0]


def gdro_by_hand(rule):
    """Loss 2 and 0 in one bin so far, S = mean loss 1; now "d" is in it, and "a" in one with S = 0."""
    pool = records({"a": (8, 8), "d": (0, 8)}, loss={"a": 0.0, "d": 2.0})
    drawn = draw(rule, pool, 2)
    odds = np.array([1.0, math.exp(0.65)]) / (1.0 + math.exp(0.65))
    q = 0.99 * odds + 0.005
    assert dict(zip(drawn.tasks, drawn.weight, strict=True)) == pytest.approx(
        dict(zip("ad", q / q.mean(), strict=True))
    )


def spo_by_hand(rule):
    """sqrt(p (1 - p)) + .05 with p = 10.4375/10.875, .4375/1.875 and 1/2."""
    pool = records({"a": (10, 10), "b": (0, 1)}, "c")
    firsts = [draw(rule, pool, 1, seed=seed).tasks[0] for seed in range(1500)]
    p = np.array([10.4375 / 10.875, 0.4375 / 1.875, 0.5])
    weights = np.sqrt(p * (1 - p)) + 0.05
    shares = [firsts.count(task) / 1500 for task in "abc"]
    assert shares == pytest.approx((weights / weights.sum()).tolist(), abs=0.05)


def vspo_by_hand(rule):
    """ "d" was lost by all and has no value, so that "a" takes its place, with half the weight in both."""
    drawn = draw(rule, records({"a": (1, 5), "d": (0, 5)}), 2, group=5)
    assert (drawn.tasks, drawn.weight) == (("a", "a"), (0.5, 0.5))


def v0_by_hand(rule):
    pool = records({"a": (0, 8), "b": (8, 8)}, value={"a": 0.25, "b": 0.75})
    drawn = draw(rule, pool, 2)

    def gain(n, p):
        return n * (1 - p) * (1 - (1 - p) ** (n - 1))

    p = {"a": 0.25, "b": 0.75}
    found = sum(gain(n, p[task]) for task, n in zip(drawn.tasks, drawn.episodes, strict=True))
    assert sum(drawn.episodes) == 16
    assert found == pytest.approx(best(gain, list(p.values()), 16))


def hardest_by_hand(rule):
    """Phases end at 1/5, 3/5, 4/5 of the run; the second has the ceil(.4 x 5) = 2 hardest tasks."""
    first = draw(rule, FIVE, 5, iteration=0)
    assert sorted(first.tasks) == list("abcde")
    assert set(draw(rule, FIVE, 2, iteration=4, state=first.state).tasks) == {"d", "e"}


def craft_gui_by_hand(rule):
    """The first stage has tasks of up to three turns of the expert, and those of which nothing is known."""
    pool = records({"a": (1, 2), "b": (1, 2), "c": (1, 2)}, "d", expert_turns={"a": 3, "b": 4, "c": 9})
    assert set(draw(rule, pool, 2, iteration=0).tasks) == {"a", "d"}


def we_math_by_hand(rule):
    """A ladder is climbed from the question alone; a lost rung is served again."""
    pool = TaskRecords.of(["q", "q+image", "q+image+steps"])
    first = draw(rule, pool, 1, iteration=0)
    assert first.tasks == ("q",)
    won = draw(rule, pool.after([Visit("q", (1.0, 0.0), 1)], 0), 1, state=first.state)
    assert won.tasks == ("q+image",)
    lost = draw(rule, pool.after([Visit("q", (0.0, 0.0), 0)], 0), 1, state=first.state)
    assert lost.tasks == ("q",)


def weighs(expected, iteration):
    def by_hand(rule):
        drawn = draw(rule, FIVE, 5, iteration=iteration)
        assert dict(zip(drawn.tasks, drawn.weight, strict=True)) == pytest.approx(
            dict(zip("abcde", expected, strict=True))
        )

    return by_hand


def levels_by_hand(rule):
    """The first level, until 0.7 of its visits are won; then a fifth of the groups still comes from it."""
    pool = TaskRecords.of(["t/a", "t/b", "u/c", "u/d", "u/e", "u/f"])
    first = draw(rule, pool, 2)
    assert set(first.tasks) == {"t/a", "t/b"}
    won = pool
    for step in range(16):
        won = won.after([Visit("t/a", (1.0,), 1), Visit("t/b", (1.0,), 1)], step)
        first = draw(rule, won, 2, iteration=step + 1, state=first.state)
    assert sum(task.startswith("t/") for task in draw(rule, won, 5, iteration=20, state=first.state).tasks) == 1


TASKS = {
    "every task once an epoch": uniform_by_hand,
    "VADE": vade_by_hand,
    "Knapsack RL": knapsack_by_hand,
    "CurES": cures_by_hand,
    "DOTS and rollout replay": dots_by_hand,
    "MMR1": mmr1_by_hand,
    "GDRO over tasks and over rollouts": gdro_by_hand,
    "SPO's sampling": spo_by_hand,
    "VSPO": vspo_by_hand,
    "V0": v0_by_hand,
    "DRIVE": hardest_by_hand,
    "CRAFT-GUI": craft_gui_by_hand,
    "We-Math 2.0": we_math_by_hand,
    "PCuRL": weighs([math.sin(math.pi / 4), 1, 1, 0, 1], 0),
    "Observe-R1": weighs([0.75, 1, 0.1, 0.1, 1], 0),
    "curriculum over levels (ours)": levels_by_hand,
}


@pytest.mark.parametrize("method", METHODS)
def test_the_tasks_of_a_line_are_those_by_hand(tmp_path, method):
    """Lines that set no task rule draw every task once an epoch."""
    sets = any(word.startswith("sampling.tasks") for word in METHODS[method])
    assert sets == (method in TASKS), "this line needs its tasks by hand"
    TASKS.get(method, uniform_by_hand)(rules_of(run_of(method, tmp_path)).tasks)


# -- groups: what is played, and which members are trained on --


def begun(size=8, **fields):
    return OpenGroup("t", size, **fields)


def numbers(ids):
    return None if ids is None else sorted(int(name.removeprefix("t#").removesuffix("@7")) for name in ids)


def asks(group, *more):
    return lambda rule: rule(group).more == more


def keeps(group, *members):
    return lambda rule: not rule(group).more and numbers(rule(group).keep) == list(members)


def drops(outcomes, *, dropped=True):
    return lambda rule: rule(after(outcomes)).drop == dropped


def alike(*logprobs, outcomes):
    made = [
        episode(k, won == "1", (turn(float(won == "1"), lp),))
        for k, (lp, won) in enumerate(zip(logprobs, outcomes, strict=True))
    ]
    return OpenGroup("t", len(made), 1, tuple(made))


def scored(column, values, outcomes):
    made = [
        episode(k, won == "1", (turn(float(won == "1"), extras={column: value}),))
        for k, (value, won) in enumerate(zip(values, outcomes, strict=True))
    ]
    return OpenGroup("t", len(made), 1, tuple(made))


def long(tokens, turns=1, outcomes="0"):
    made = tuple(episode(k, won == "1", (*[turn(0.0, (-1.0,) * tokens)] * turns,)) for k, won in enumerate(outcomes))
    return OpenGroup("t", len(made), 1, made)


def stored(*rows):
    return Index(
        tuple(
            StoredEpisode(f"s{k}", "t", 0, float(won), advantage, won, 3, 9) for k, (won, advantage) in enumerate(rows)
        )
    )


GROUPS = {
    "MMR1": [lambda rule: rule(after("0100", options={"probe": True})).drop, drops("0100", dropped=False)],
    "DAPO's dynamic sampling": [drops("1111"), drops("0000"), drops("0100", dropped=False)],
    "Reinforce-Ada": [asks(after("00100000"), MoreEpisodes(8)), keeps(after("11111100"), 0, 1, 6, 7)],
    "V0.5": [
        asks(begun(16), MoreEpisodes(4)),
        # MSE(4) - MSE(5) = .1983 - .1655 for V = .6, m = -.5; V = -.5 agrees with m
        asks(after("0100", size=16, record={"episodes": 10, "wins": 8}), MoreEpisodes(1)),
        asks(after("0100", size=16, record={"episodes": 8, "wins": 2})),
    ],
    "XRPO": [asks(begun(), MoreEpisodes(4)), asks(after("1000", size=8), MoreEpisodes(1)), asks(after("0000", size=8))],
    "PODS": [keeps(after("100011"), 0, 1, 2, 4)],
    "PROF": [keeps(scored("process", (0.1, 0.9, 0.5, 0.2, 0.8, 0.4), "111000"), 1, 2, 3, 5)],
    "DaGRPO": [keeps(alike((-1.0,), (-1.0,), (-2.0,), outcomes="100"), 0, 2)],  # e^-1 - e^-2 = .23, and 0
    "RoRecomp": [keeps(alike((-1.0,), (-1.0,) * 3, (-1.0,), (-1.0,) * 3, outcomes="1100"), 0, 3)],
    "Dr. Kernel's rejection": [
        keeps(scored("coverage", (0.2, 0.5, 0.0), "110"), 1, 2)
    ],  # below .3 never, from .4 on always
    "TTRL": [keeps(after("0101"), 0, 1)],
    "GHPO": [asks(after("0000"), MoreEpisodes(4, plan=0.25)), asks(after("0100"))],
    "Scaf-GRPO": [asks(after("0000"), MoreEpisodes(1, plan=1 / 12)), asks(after("0100"))],
    "SEELE": [asks(begun(), MoreEpisodes(2, plan=0.75)), asks(begun(record={"hint": 0.5}), MoreEpisodes(2, plan=0.5))],
    "SAGE": [
        asks(begun(record={"level": 2.0}), MoreEpisodes(8, plan=0.5)),
        lambda rule: rule(after("0000")).remember == {"level": 1.0},
        lambda rule: rule(after("1110", record={"level": 2.0})).remember == {"level": 1.0},
    ],
    "RLGF, a guide's roll-in": [asks(begun(), MoreEpisodes(4)), asks(after("0000", size=8), MoreEpisodes(1, plan=1.0))],
    "ARPO's branches": [asks(begun(), MoreEpisodes(4))],
    "Tree-GRPO": [asks(begun(), MoreEpisodes(3))],  # 3 trees of 1 + 2 leaves reach 8
    "TreeRL": [asks(begun(), MoreEpisodes(2))],  # of 1 + 2 x 2 leaves
    "SPO-tree": [
        asks(begun(), MoreEpisodes(2)),
        asks(replace(long(6), size=8), MoreEpisodes(1, at=BranchPoint("t#0@7", 0, 4))),
    ],
    "tree search": [asks(begun(), MoreEpisodes(2))],
    "PPPO": [asks(long(20), MoreEpisodes(8, at=BranchPoint("t#0@7", 0, 3)))],  # floor(.15 x 20)
    "MOTIF": [asks(long(2, turns=3), MoreEpisodes(3, at=BranchPoint("t#0@7", 1)))],
    "MRT": [asks(long(2, turns=3), *(MoreEpisodes(4, at=BranchPoint("t#0@7", place)) for place in (1, 2)))],
    "AMPO": [asks(after("0000", teachers=("x",)), MoreEpisodes(1, teacher="x")), asks(after("0100", teachers=("x",)))],
    "RL-PLUS": [asks(begun(4, teachers=("x",)), MoreEpisodes(3), MoreEpisodes(1, teacher="x"))],
    "ARPO for GUI agents": [
        lambda rule: rule(after("0000", stored=stored((True, 0.5)))).replay == ("s0",),
        lambda rule: numbers(rule(after("0000", stored=stored((True, 0.5)))).keep) == [1, 2, 3],
        lambda rule: not rule(after("0100", stored=stored((True, 0.5)))).replay,
    ],
    "R3's cross-context replay": [
        lambda rule: rule(after("0000", stored=stored((False, -0.5), (True, 0.5)))).replay == ("s1",),
        lambda rule: not rule(after("0100", stored=stored((True, 0.5)))).replay,
    ],
    "R3's in-context self-refinement": [
        lambda rule: (
            "no luck"
            in rule(begun(record={"success": 0.25}, lessons=(Lesson("l", "no luck", "attempt", "t"),))).more[0].hint
        ),
        asks(begun(record={"success": 0.75}, lessons=(Lesson("l", "no luck", "attempt", "t"),))),
    ],
    "Skywork R1V2's sample buffer": [
        lambda rule: (
            {
                bool(rule(after("0000", stored=stored((True, 0.5)), rng=np.random.default_rng(k))).replay)
                for k in range(20)
            }
            == {True, False}
        ),
        lambda rule: not rule(after("0100", stored=stored((True, 0.5)))).replay,
    ],
    "Training-Free GRPO": [
        lambda rule: "look first" in rule(begun(lessons=(Lesson("l", "look first"),))).more[0].hint,
        asks(begun()),
    ],
    "SLEA-RL": [
        lambda rule: rule(begun(lessons=(Lesson("l", "push it", "warning", "a door"),))).more[0].notes is not None,
        asks(begun()),
    ],
}


@pytest.mark.parametrize("method", METHODS)
def test_the_groups_of_a_line_are_those_by_hand(tmp_path, method):
    """Lines that set no group rule play what was drawn."""
    sets = any(word.startswith("sampling.groups") for word in METHODS[method])
    assert sets == (method in GROUPS), "this line needs its groups by hand"
    rules = rules_of(run_of(method, tmp_path)).groups
    if not sets:
        assert rules == ()
        return
    (rule,) = rules
    for number, holds in enumerate(GROUPS[method]):
        assert holds(rule), number


# -- the rest: token transforms, replay, annotators that write lessons, temperatures, forks --


def replay(rule, index, **options):
    fixed = {"iteration": 5, "total": 10, "rng": np.random.default_rng(0), "scores": (0.0, 0.5, 1.0)}
    return rule(index, **fixed | options)


def of_tasks(*rows):
    return Index(
        tuple(
            StoredEpisode(f"s{k}", task, at, float(won), value, won, length, 9)
            for k, (task, at, won, value, length) in enumerate(rows)
        )
    )


def spear_by_hand(rule):
    """b = .5, the median of 0, .5 and 1: more than 1.5 x 12 better ones, each with A = 1 - .5."""
    rows = [("t", 0, True, 0.5, 3)] * 19 + [("t", 0, False, 0.5, 3)]
    batch = replay(rule, of_tasks(*rows))
    assert (batch.ids, set(batch.advantage), batch.empty) == (tuple(f"s{k}" for k in range(19)), {0.5}, True)
    assert batch.weight == pytest.approx((1 - math.cos(math.pi / 200)) / 2)
    assert replay(rule, of_tasks(*rows[:18])).ids == ()


def dots_rr_by_hand(rule):
    """Whole groups of before the last iteration, with the advantages that they had."""
    index = of_tasks(("t", 1, True, 0.7, 3), ("t", 1, False, -0.7, 3), ("t", 4, True, 0.1, 3))
    batch = replay(rule, index)
    assert (batch.ids, batch.advantage, batch.weight) == (("s0", "s1"), (0.7, -0.7), 1.0)


def rorecomp_by_hand(rule):
    """K = 2 + 6 (1 - cos(pi / 2)) / 2 = 5 at the middle of the run."""
    index = of_tasks(("t", 1, True, 0.7, 3))
    assert replay(rule, index).ids == ("s0",)
    assert replay(rule, index, state=1).ids == ()


def successes_by_hand(rule):
    """The shortest of each task, with A = 1 and half the weight."""
    batch = replay(rule, of_tasks(("t", 1, True, 0.7, 5), ("t", 2, True, 0.1, 3), ("u", 2, False, 0.1, 3)))
    assert (batch.ids, batch.advantage, batch.weight) == (("s1",), (1.0,), 0.5)


REPLAYS = {
    "DOTS and rollout replay": dots_rr_by_hand,
    "RoRecomp": rorecomp_by_hand,
    "shortest successes (ours)": successes_by_hand,
    "SPEAR": spear_by_hand,
}


@pytest.mark.parametrize("method", methods_with("sampling.replay"))
def test_what_a_line_replays_is_what_the_hand_says(tmp_path, method):
    REPLAYS[method](rules_of(run_of(method, tmp_path)).replay)


def test_the_forks_of_the_page_go_where_won_and_lost_episodes_meet(tmp_path):
    """At "b" one of each went through, at "a" only a loser: 4 p (1 - p) is 1 there."""
    method = "forks where a rule says (ours)"
    run = run_of(method, tmp_path)
    assert run.train.forks.roots == 2
    assert str(run.train.forks.where) == "contested"

    def walk(number, states, won):
        made = tuple(replace(turn(float(won)), state=state) for state in states)
        return episode(number, won, made)

    worth = get_fork_rule("contested")([walk(0, "sba", False), walk(1, "sbc", True)])
    assert max(range(1, 3), key=lambda place: worth[0][place]) == 1


def test_ead_cools_down_along_an_answer(tmp_path):
    (method,) = methods_with("agent.temperature")
    _, curve = annealed(run_of(method, tmp_path).agent.temperature)
    assert curve is not None


SETTINGS = {
    *(
        "sampling.experience",
        "sampling.skip_truncated",
        "sampling.max_drops",
        "sampling.judge",
        "sampling.teachers",
        "env.id",
    ),
    *("sampling.annotators", "train.groups", "train.group_size", "train.staleness", "objective.old_logprobs"),
}
"""Keys that say how much, or who is asked, and decide neither an advantage nor a task by themselves."""
LAWS = {
    *("sampling.tasks", "sampling.groups", "sampling.rewards", "sampling.replay", "credit.method", "credit.options"),
    *("credit.token_transform", "objective.name", "objective.options", "train.forks", "agent.temperature"),
}


def test_every_key_of_the_page_belongs_to_one_of_the_tables():
    """Those of advantages, objectives, tasks, groups, and the rest."""
    keys = {word.partition("=")[0] for cell in METHODS.values() for word in cell}
    assert keys <= SETTINGS | LAWS, "a new key needs a table here"

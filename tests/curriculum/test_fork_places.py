"""Rules of where to fork: what a place is worth, and which places are chosen."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from toys.corridor import Corridor
from toys.forests import AGENT, RULES, TASKS, episode, forest, grown, members, sampler, turn
from toys.tokens import Bytes
from toys.wanderer import Wanderer

from turncredit.agents.agent import Agent
from turncredit.agents.errors import AgentError
from turncredit.agents.rollouts.env_pool import EnvPool
from turncredit.agents.rollouts.rollout import rollout
from turncredit.agents.trajectory import Trajectory
from turncredit.credit import BadOption
from turncredit.curriculum.errors import BadSetting
from turncredit.curriculum.forests import Forest
from turncredit.curriculum.fork_places import NOWHERE, ForkRule, choose_forks, get_fork_rule
from turncredit.training.sampling.expert_replay import ExpertReplay, turns_left
from turncredit.training.sampling.forest_growth import asking_expert


def test_uniform_turns_are_worth_the_same() -> None:
    assert get_fork_rule("uniform")([episode("0", "abc"), episode("1", "a")]) == [[0.0] * 3, [0.0]]


def test_entropy_is_the_surprise_of_the_first_tokens() -> None:
    """(0.5 + 1.5) / 2 of the first answer, whose third token does not count; an answer without tokens is no place."""
    turns = (turn("a", (-0.5, -1.5, -9.0)), turn("b", (-0.25,)), turn("c", ()))
    assert get_fork_rule("entropy", tokens=2)([replace(episode("0", "abc"), turns=turns)]) == [[1.0, 0.25, NOWHERE]]
    with pytest.raises(BadOption, match="tokens"):
        get_fork_rule("entropy", tokens=0)


def test_contested_states_have_both_outcomes() -> None:
    """a: 1 of 3 won, b: 1 of 2 (visited twice by one of them), c and d: one outcome each."""
    worth = get_fork_rule("contested")([episode("0", "abbc", True), episode("1", "abd"), episode("2", "ad")])
    assert worth[0] == [pytest.approx(2 / 9), 0.25, 0.25, NOWHERE]
    assert worth[1:] == [[pytest.approx(2 / 9), 0.25, NOWHERE], [pytest.approx(2 / 9), NOWHERE]]


def test_failed_is_the_last_turn_from_which_another_won() -> None:
    worth = get_fork_rule("failed")(
        [episode("0", "abc", True), episode("1", "abad"), episode("2", "ad"), episode("3", "c")]
    )
    assert worth[0] == [NOWHERE] * 3
    assert worth[1] == [NOWHERE, NOWHERE, 1.0, NOWHERE]
    assert worth[2:] == [[NOWHERE] * 2, [NOWHERE]]  # only their beginnings, which are no forks


def test_failed_asks_the_expert_backwards_and_only_about_lost_episodes() -> None:
    asked: list[tuple[str, int]] = []

    def could_win(trajectory: Trajectory, turn: int) -> bool:
        asked.append((trajectory.id, turn))
        return turn <= 2

    rule = get_fork_rule("failed", by="expert")
    worth = rule([episode("0", "abc", True), episode("1", "xyzxy"), episode("2", "x")], could_win)
    assert worth == [[NOWHERE] * 3, [NOWHERE, NOWHERE, 1.0, NOWHERE, NOWHERE], [NOWHERE]]
    assert asked == [("t#1@7", 4), ("t#1@7", 3), ("t#1@7", 2)]
    members = get_fork_rule("failed")([episode("0", "abc", True), episode("1", "xyb")], could_win)
    assert members[1] == [NOWHERE, NOWHERE, 1.0]  # the expert is asked by name only
    assert get_fork_rule("failed", by="expert").options == {"by": "expert"}
    with pytest.raises(BadSetting, match="needs an environment to ask"):
        rule([episode("0", "abc")])
    with pytest.raises(BadOption, match="by must be one of 'members', 'expert', got 'anybody'"):
        get_fork_rule("failed", by="anybody")
    with pytest.raises(BadOption, match="no option 'could_win'"):
        get_fork_rule("failed", could_win=could_win)


class Unsaved(Corridor):
    """A corridor whose state cannot be saved, so that it is replayed."""

    snapshot = None  # type: ignore[assignment]


def wins(env: Corridor, actions: list[str | None], turns: int) -> bool:
    """Whether a new corridor is won by these actions and then its plan, in that number of turns."""
    env.reset(seed=5, options={"task": "fetch-4-2"})
    for action in actions:
        if action is not None:
            env.step(action)
    plan = env.plan()
    return 0 < len(plan) <= turns - len(actions)


@pytest.mark.parametrize("make", [Corridor, Unsaved])
def test_the_expert_is_asked_where_the_episode_was(make: Any) -> None:
    """What the replay says of every turn is what a corridor says to which the same actions were given by hand."""
    agent = Agent(max_turns=14)
    (group,) = rollout(agent, Wanderer(plans=0.3, tokenizer=Bytes()), ["fetch-4-2"], make=make, size=8, seed=5)
    pool = EnvPool(make)
    expert = ExpertReplay(agent, sampler(), pool)
    answers = []
    for trajectory in group.finished:
        actions = [turn.action for turn in trajectory.turns]
        for number in range(len(actions)):
            answers.append(expert(trajectory, number))
            assert answers[-1] is wins(Corridor(), actions[:number], 14), (trajectory.id, number)
    pool.close()
    assert {True, False} == set(answers)
    assert any(turn.action is None for one in group.finished for turn in one.turns)


def test_a_fork_where_the_expert_could_still_win_can_be_won() -> None:
    """Every fork begins where its plan fits; one turn later, what its parent did there, it does not any more."""

    pool = EnvPool(Corridor)
    expert = asking_expert(AGENT, sampler, lambda: pool)
    growing = Forest(get_fork_rule("failed", by="expert"), 6, 2, expert)
    groups = grown(growing, TASKS, 5, Corridor, AGENT, player=Wanderer(plans=0.2, tokenizer=Bytes()))
    by_id = {trajectory.id: trajectory for trajectory in members(groups)}
    forks = [trajectory for trajectory in by_id.values() if trajectory.fork_of is not None]
    assert forks
    for fork in forks:
        parent, at = by_id[str(fork.fork_of)], fork.fork_turn or 0
        assert not parent.won
        assert expert(parent, at)
        assert not any(expert(parent, later) for later in range(at + 1, len(parent.turns)))
    pool.close()


def test_the_turns_that_are_left() -> None:
    turns = (turn("a"), replace(turn("b"), action=None), turn("c"), turn("d"))
    cut = replace(episode("0", "abcd"), turns=turns, stop="truncated")
    assert [turns_left(cut, at, 20) for at in range(4)] == [3, 2, 2, 1]  # the environment counts actions
    assert [turns_left(cut, at, 4) for at in range(4)] == [3, 2, 2, 1]
    assert [turns_left(replace(cut, stop="terminated"), at, 5) for at in range(4)] == [5, 4, 3, 2]


class Secretive(Corridor):
    """A corridor without an expert."""

    plan = property()  # type: ignore[assignment]


def test_an_environment_without_an_expert_is_said() -> None:
    (group,) = rollout(AGENT, sampler(), TASKS[:1], make=Corridor, size=1, seed=5)
    pool = EnvPool(Secretive)
    with pytest.raises(AgentError, match="needs an environment with plan"):
        ExpertReplay(AGENT, sampler(), pool)(group.trajectories[0], 1)
    pool.close()


def test_an_episode_that_cannot_be_played_again_is_no_place() -> None:
    (group,) = rollout(AGENT, sampler(), TASKS[:1], make=Corridor, size=1, seed=5)
    (trajectory,) = group.trajectories
    other = replace(trajectory, turns=(replace(trajectory.turns[0], state="elsewhere"), *trajectory.turns[1:]))
    pool = EnvPool(Corridor)
    assert ExpertReplay(AGENT, sampler(), pool)(trajectory, 1)
    assert not ExpertReplay(AGENT, sampler(), pool)(other, 1)
    pool.close()


def last_turns(episodes: Any, *, back: int = 1) -> list[list[float]]:
    return [[float(at == len(one.turns) - back) for at in range(len(one.turns))] for one in episodes]


def test_a_rule_from_outside() -> None:
    rule = get_fork_rule(f"{__name__}:last_turns", back=2)
    assert [fork.turn for fork in choose_forks([episode("0", "abcd")], rule, 1)] == [2]
    with pytest.raises(BadOption, match="no option 'forward'"):
        get_fork_rule(f"{__name__}:last_turns", forward=2)
    with pytest.raises(BadSetting, match="entropy"):
        get_fork_rule("entropie")


def test_a_rule_says_one_number_a_turn() -> None:
    with pytest.raises(BadSetting, match=r"one number a turn, \[2\]"):
        ForkRule("short", "", None, "our reading", "", lambda episodes: [[0.0] for _ in episodes])([episode("0", "ab")])


def test_the_best_places_are_chosen() -> None:
    chosen = choose_forks([episode("0", "abcd"), episode("1", "abc")], get_fork_rule(f"{__name__}:last_turns"), 2)
    assert sorted((fork.trajectory, fork.turn) for fork in chosen) == [("t#0@7", 3), ("t#1@7", 2)]


def test_no_place_is_the_first_turn_taken_over_or_forked_already() -> None:
    fork = episode("0/2.0", "abc", fork_of="t#0@7", at=2)
    chosen = choose_forks([episode("0", "abc"), fork], get_fork_rule("uniform"), 9, {("t#0@7", 1)})
    assert [(fork.trajectory, fork.turn) for fork in chosen] == [("t#0@7", 2)]


def test_places_without_a_number_are_none() -> None:
    rule = ForkRule("odd", "", None, "our reading", "", lambda episodes: [[0.0, float("nan"), NOWHERE, 1.0]])
    assert [fork.turn for fork in choose_forks([episode("0", "abcd")], rule, 9)] == [3]


@pytest.mark.parametrize("name", RULES)
def test_the_order_of_episodes_means_nothing(name: str) -> None:
    rule, dice = get_fork_rule(name), random.Random(3)
    for group in forest():
        finished = list(group.finished)
        chosen = [(fork.trajectory, fork.turn) for fork in choose_forks(finished, rule, 4)]
        for _ in range(5):
            dice.shuffle(finished)
            assert [(fork.trajectory, fork.turn) for fork in choose_forks(finished, rule, 4)] == chosen


def test_uniform_places_are_spread_over_all_turns() -> None:
    """2,000 episodes of five turns: each of the four places that there are is chosen about 500 times."""
    rule, turns = get_fork_rule("uniform"), Counter[int]()
    for number in range(2000):
        (fork,) = choose_forks([episode(str(number), "abcde")], rule, 1)
        turns[fork.turn] += 1
    assert sorted(turns) == [1, 2, 3, 4]
    assert all(abs(count - 500) < 5 * np.sqrt(375) for count in turns.values())

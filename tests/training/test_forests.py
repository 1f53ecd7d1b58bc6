"""Groups that are forests: how they grow, their columns, what carries loss, and values by forks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from test_training_loop import make_run
from toys.corridor import Corridor
from toys.forests import AGENT, RULES, TASKS, episode, forest, grow, grown, members, sampler, turn
from toys.wanderer import Wanderer

from turncredit.agents.agent import Agent
from turncredit.agents.errors import EnvFailure
from turncredit.agents.rollouts.env_pool import EnvPool
from turncredit.agents.rollouts.rollout import rollout
from turncredit.agents.rollouts.rollout_options import RolloutReport
from turncredit.agents.steps import FOREST, steps_of
from turncredit.agents.trajectory import Group, Trajectory
from turncredit.credit import Steps, arpo_hard, bpo, get, grpo, tempo
from turncredit.credit.prefix_tree import paths
from turncredit.curriculum.forests import Forest
from turncredit.curriculum.fork_places import NOWHERE, ForkRule, get_fork_rule
from turncredit.training.batch.batch import pack
from turncredit.training.play.fork_values import ForkValues, ValuedTurns, chosen_turns
from turncredit.training.play.played import Played
from turncredit.training.run_folder.metrics import play_metrics, sampled_entropy, success_error
from turncredit.training.sampling.sampling_metrics import fork_metrics
from turncredit.training.truth.histories import Histories

# -- growing --


@pytest.mark.parametrize("name", RULES)
def test_the_budget_is_kept(name: str) -> None:
    groups = forest(name)
    assert [(group.task, len(group.trajectories)) for group in groups] == [(task, 6) for task in TASKS]
    assert len({trajectory.id for trajectory in members(groups)}) == 18
    metrics = fork_metrics(groups)
    assert metrics["forks"] == sum(trajectory.fork_of is not None for trajectory in members(groups))
    assert metrics["forks"] == 12 if name in ("uniform", "entropy") else metrics["forks"] > 0
    assert sum(len(trajectory.sampled) for trajectory in members(groups)) < sum(
        len(trajectory.turns) for trajectory in members(groups)
    )


@pytest.mark.parametrize("name", RULES)
def test_turns_that_were_taken_over_are_the_parents(name: str) -> None:
    by_id = {trajectory.id: trajectory for trajectory in members(forest(name))}
    forks = [trajectory for trajectory in by_id.values() if trajectory.fork_of is not None]
    for fork in forks:
        parent, at = by_id[str(fork.fork_of)], fork.fork_turn or 0
        assert fork.turns[:at] == parent.turns[:at]
        assert fork.turns[at].prompt == parent.turns[at].prompt
        assert fork.seed == parent.seed
        assert at > (parent.fork_turn or 0)


def test_forks_differ_from_their_parents_and_are_not_all_of_roots() -> None:
    by_id = {trajectory.id: trajectory for trajectory in members(forest())}
    forks = [trajectory for trajectory in by_id.values() if trajectory.fork_of is not None]
    assert any(fork.sampled != by_id[str(fork.fork_of)].turns[fork.fork_turn :] for fork in forks)
    assert any(by_id[str(fork.fork_of)].fork_of is not None for fork in forks)


@pytest.mark.parametrize("name", RULES)
def test_the_same_forest_grows_again_whoever_finishes_first(name: str) -> None:
    again = grow(get_fork_rule(name), concurrency=1)
    assert [[replace(one, seconds=0.0) for one in group.trajectories] for group in again] == [
        [replace(one, seconds=0.0) for one in group.trajectories] for group in forest(name)
    ]


def test_where_there_is_no_place_episodes_begin_anew() -> None:
    nowhere = ForkRule(
        "nowhere", "", None, "our reading", "", lambda episodes: [[NOWHERE] * len(one.turns) for one in episodes]
    )
    groups = grow(nowhere)
    plain = rollout(AGENT, sampler(), TASKS, make=Corridor, size=6, seed=5)
    assert [[one.turns for one in group.trajectories] for group in groups] == [
        [one.turns for one in group.trajectories] for group in plain
    ]


class Fragile(Corridor):
    """A corridor that breaks in the third step of every other episode, so that its task is not given up."""

    episodes = 0

    def step(self, action: str) -> Any:
        self.steps = getattr(self, "steps", 0) + 1
        if self.steps > 2 and self.breaks:
            raise EnvFailure("broken")
        return super().step(action)

    def reset(self, **options: Any) -> Any:
        self.steps = 0
        Fragile.episodes += 1
        self.breaks = Fragile.episodes % 2 == 0
        return super().reset(**options)


def test_failed_episodes_are_kept_and_not_forked() -> None:
    groups = grown(Forest(get_fork_rule("uniform"), 6, 2), ["open-4-1", "open-4-2"], 1, Fragile, Agent(max_turns=4))
    by_id = {trajectory.id: trajectory for trajectory in members(groups)}
    assert [len(group.trajectories) for group in groups] == [6, 6]
    assert any(not trajectory.finished for trajectory in by_id.values())
    assert all(by_id[one.fork_of].finished for one in by_id.values() if one.fork_of)


# -- what the rules and statistics see --


def test_the_columns_of_a_tree() -> None:
    """A root of three turns; a fork at turn 2, and a fork of that at turn 3; and another root."""
    root, other = episode("0", "abc"), episode("1", "ab")
    fork = episode("0/2.0", "abde", fork_of=root.id, at=2)
    second = episode("0/2.0/3.0", "abdf", fork_of=fork.id, at=3)
    steps = steps_of([Group("t", (root, fork, second, other))])
    assert list(dict.fromkeys(steps.ids("tree"))) == [root.id, other.id]
    assert steps.column("forked").tolist() == [0] * 3 + [1] * 8 + [0] * 2
    assert steps.column("fork_turn").tolist() == [0] * 3 + [2] * 4 + [3] * 4 + [0] * 2
    names = {"": ""} | {f"{one.id}/{number}": f"{short}{number}" for one, short in
             [(root, "r"), (fork, "f"), (second, "s"), (other, "o")] for number in range(1, 5)}  # fmt: skip
    assert [names[key] for key in steps.ids("parent")] == [
        *("", "r1", "r2"), *("", "r1", "r2", "f3"), *("", "r1", "r2", "f3"), *("", "o1")
    ]  # fmt: skip
    assert paths(steps, "parent").sharers.tolist() == [3, 3, 1, 3, 3, 2, 1, 3, 3, 2, 1, 1, 1]


def test_a_fork_whose_parent_is_missing_is_a_branch_of_its_tree() -> None:
    root = episode("0", "abc")
    pair = [episode(f"0/1.{number}", "abx", fork_of=root.id, at=1) for number in range(2)]
    steps = steps_of([Group("t", tuple(pair))])
    assert set(steps.ids("tree")) == {root.id}
    assert paths(steps, "parent").sharers.tolist() == [2, 1, 1, 2, 1, 1]


def test_tables_without_forks_have_no_such_columns_unless_they_are_asked_for() -> None:
    groups = rollout(AGENT, sampler(), TASKS, make=Corridor, size=2)
    assert not set(FOREST) & set(steps_of(groups).columns)
    steps = steps_of(groups, forest=True)
    assert set(FOREST) <= set(steps.columns)
    assert set(steps.ids("tree")) == {trajectory.id for trajectory in members(groups)}
    assert tempo(steps, key="parent", scale="none").parts["step"] == pytest.approx(  # one tree for each episode
        grpo(steps, scale="none").values * 0.0
    )


def test_shared_turns_get_one_advantage_on_every_path() -> None:
    steps = steps_of(forest())
    for advantages in (arpo_hard(steps), bpo(steps), get("spo_segment", mode="tree")(steps)):
        by_turn = dict(zip(turn_keys(steps), advantages.values, strict=True))
        assert [by_turn[key] for key in turn_keys(steps)] == pytest.approx(advantages.values.tolist())


def turn_keys(steps: Steps) -> list[tuple[str, int]]:
    """The trajectory that sampled each row's turn, and its number."""
    return list(zip(paths(steps, "parent").after.tolist(), steps.turn.tolist(), strict=True))


def test_shared_turns_carry_loss_once_or_in_each_path() -> None:
    groups = forest()
    played = Played(groups, RolloutReport(), 0, forest=True)
    advantages = grpo(played.steps("state"), scale="none")
    once, each = (replace(played, each_path=choice).fresh(advantages) for choice in (False, True))
    assert each.keep.all()
    batch = pack(groups, once)
    sampled = sum(len(turn.response) for member in members(groups) for turn in member.sampled)
    assert int(batch.mask.sum()) == sampled == play_metrics(groups)["tokens"]
    assert int(pack(groups, each).mask.sum()) > sampled
    rows = dict(zip(zip(once.trajectory, once.turn.tolist(), strict=True), once.keep.tolist(), strict=True))
    for member in members(groups):
        assert [rows[member.id, number] for number in range(len(member.turns))] == [
            number >= (member.fork_turn or 0) for number in range(len(member.turns))
        ]


def test_statistics_count_whole_episodes_and_each_turn_once() -> None:
    groups, report = forest(), RolloutReport()
    for trajectory in members(groups):
        report.count(trajectory)
    whole = [Group(group.task, tuple(one for one in group.trajectories if one.fork_of is None)) for group in groups]
    metrics, expected = play_metrics(groups), play_metrics(whole)
    for key in ("success", "success_error", "reward", "turns", "unparsable", "inadmissible", "loops"):
        assert metrics[key] == expected[key], key
    assert metrics["episodes"] == report.episodes == 18
    assert report.turns == sum(len(trajectory.sampled) for trajectory in members(groups))
    assert report.response_tokens == metrics["tokens"]
    assert success_error(groups) == success_error(whole)
    surprise = [-value for one in members(groups) for turn in one.sampled for value in turn.logprobs]
    assert sampled_entropy(groups) == pytest.approx(np.mean(surprise))


# -- values by forks --


class Slippery(Corridor):
    """A corridor in which one step in three does something else."""

    def step(self, action: str) -> Any:
        listed = self._info(valid=True)["admissible_actions"]
        return super().step(action if self.np_random.random() < 0.67 or not listed else listed[0])


@pytest.mark.parametrize(("make", "chance"), [(Corridor, False), (Slippery, True)])
def test_values_by_forks_are_those_of_the_truth(make: Any, chance: bool) -> None:
    groups = rollout(AGENT, sampler(), TASKS[:2], make=make, size=2, seed=5)
    values = ForkValues(3, 0.9, 0.1, concurrency=8)
    pool = EnvPool(make)
    turn_values = values.of_turns(groups, AGENT, sampler(), pool)
    pool.close()
    assert values.chance is chance
    steps = Played(groups, RolloutReport(), 0, columns=turn_values.columns).steps("state")
    assert (steps.column("forks") == 3).all()
    advantages = get("vine", gamma=0.9)(steps)
    assert advantages.keep.all()
    if not chance:  # then Q is the reward and what follows
        without = {name: column for name, column in steps.extra.items() if name != "action_value"}
        again = get("vine", gamma=0.9)(replace(steps, extra=without))
        assert again.values == pytest.approx(advantages.values, abs=1e-12)
    assert turn_values.metrics["value_forks"] >= 3 * 2
    assert turn_values.metrics["value_turns"] > 0


def test_values_of_a_forest_do_not_repeat_its_members(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value fork with the name of a member would have its sampling seed, and so its outcome."""
    played: set[str] = set()
    act = Wanderer.action

    def action(self: Wanderer, request: Any) -> str:
        played.add(request.episode)
        return act(self, request)

    monkeypatch.setattr(Wanderer, "action", action)
    groups = grow(get_fork_rule("uniform"))
    names = {trajectory.id for trajectory in members(groups)}
    assert played == names
    played.clear()
    pool = EnvPool(Corridor)
    valued = ForkValues(2, 0.9, 0.1, concurrency=8).of_turns(groups, AGENT, sampler(), pool)
    pool.close()
    assert played
    assert not names & played
    assert len(valued.columns["value"]) == sum(len(trajectory.turns) for trajectory in members(groups))


def turns_of(episodes: list[Trajectory], at: str, share: float) -> list[list[int]]:
    chosen = iter(chosen_turns([Group("t", tuple(episodes))], at, share).tolist())  # type: ignore[arg-type]
    return [[number for number in range(len(one.turns)) if next(chosen)] for one in episodes]


def test_the_turns_whose_values_are_estimated() -> None:
    episodes = [episode("0", "abcdefghij", True), episode("1", "xba")]
    assert turns_of(episodes, "every", 0.1) == [list(range(10)), [0, 1, 2]]
    assert turns_of(episodes, "spaced", 0.7) == [[0, 1, 2, 4, 5, 7, 8], [0, 1, 2]]
    assert turns_of(episodes, "spaced", 0.3) == [[0, 3, 6], [0]]
    assert turns_of(episodes, "spaced", 1e-12) == [[0], [0]]
    assert turns_of(episodes, "contested", 1.0) == [[0, 1], [0, 1, 2]]  # a and b, and the first turns
    assert turns_of(episodes, "contested", 0.5) == [[0, 1], [0, 1]]
    logprobs = [(-0.1,), (-0.5,), (-2.0,), (-0.5,), ()]
    unsure = replace(episodes[0], turns=tuple(turn("s", values) for values in logprobs))
    assert turns_of([unsure], "entropy", 0.4) == [[0, 2]]
    assert turns_of([unsure], "entropy", 0.6) == [[0, 1, 2]]  # the earlier one of two that are as uncertain
    assert turns_of([unsure], "entropy", 1.0) == [[0, 1, 2, 3]]
    assert turns_of([replace(unsure, turns=())], "spaced", 0.5) == [[]]


def valued(groups: list[Group], make: Any = Corridor, **options: Any) -> tuple[ForkValues, ValuedTurns]:
    values, pool = ForkValues(3, 0.9, 0.1, concurrency=8, **options), EnvPool(make)
    turns = values.of_turns(groups, AGENT, sampler(), pool)
    pool.close()
    return values, turns


@pytest.mark.parametrize("make", [Corridor, Slippery])
@pytest.mark.parametrize("at", ["spaced", "entropy", "contested"])
def test_values_of_some_turns_cost_less_and_are_the_same(make: Any, at: Any) -> None:
    groups = rollout(AGENT, sampler(), TASKS[:2], make=make, size=3, seed=5)
    _, everything = valued(groups, make)
    values, some = valued(groups, make, at=at, share=0.4)
    assert "action_value" not in some.columns
    assert values.chance is (make is Slippery)
    histories = Histories(groups)
    chosen = set(np.asarray(histories.value_of)[chosen_turns(groups, at, 0.4)].tolist())
    has_forks = np.isin(histories.value_of, list(chosen))  # a history that episodes share is forked for all of them
    assert some.columns["forks"].tolist() == np.where(has_forks, 3, 0).tolist()
    assert some.columns["value"][has_forks].tolist() == everything.columns["value"][has_forks].tolist()
    assert some.metrics["value_forks"] == 3 * len(chosen) < everything.metrics["value_forks"]
    assert some.metrics["value_turns"] < everything.metrics["value_turns"]
    steps = Played(groups, RolloutReport(), 0, columns=some.columns).steps("state")
    advantages = get("vine", gamma=0.9, at=at, share=0.4)(steps)
    assert advantages.keep.all()
    assert advantages.report["segments"] == int(has_forks.sum())


def test_a_rule_says_which_turns_are_forked(tmp_path: Any) -> None:
    run = make_run(tmp_path, "credit.method=vine", "train.forks.values=2")
    values = {
        name: ForkValues.of(run.train, get(name, **options), 1)
        for name, options in {"vine": {"at": "entropy", "share": 0.25}, "gae": {}}.items()
    }
    assert [(one.at, one.share) for one in values.values() if one] == [("entropy", 0.25), ("every", 1.0)]

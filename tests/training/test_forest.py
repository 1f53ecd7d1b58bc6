"""Groups that are forests: where they are forked, their columns, what carries loss, and training with them."""

from __future__ import annotations

import functools
import random
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from test_training_loop import lines, make_run, weights
from toys.corridor import Corridor
from toys.tokens import Bytes
from toys.wanderer import Wanderer

from turnwise.agents.agent import Agent
from turnwise.agents.errors import AgentError, EnvFailure
from turnwise.agents.files.trajectory_files import read_trajectories
from turnwise.agents.rollouts.env_pool import EnvPool
from turnwise.agents.rollouts.rollout import rollout
from turnwise.agents.rollouts.rollout_options import RolloutReport
from turnwise.agents.rollouts.rollout_stream import GroupNumbers
from turnwise.agents.steps import FOREST, steps_of
from turnwise.agents.trajectory import Group, Trajectory, Turn, grouped
from turnwise.credit import Advantages, BadOption, Steps, arpo_hard, bpo, get, grpo, tempo
from turnwise.credit.prefix_tree import paths
from turnwise.training import ConfigError, Run, load_agent, train
from turnwise.training.audit import audit
from turnwise.training.batch.batch import pack
from turnwise.training.config.seeds import Seeds
from turnwise.training.credit_assignment import CreditAssignment
from turnwise.training.forest.expert_replay import ExpertReplay, turns_left
from turnwise.training.forest.fork_values import ForkValues, ValuedTurns, chosen_turns
from turnwise.training.forest.places import FORK_RULES, NOWHERE, ForkRule, choose_forks, get_fork_rule
from turnwise.training.parts import prepare
from turnwise.training.played import Played
from turnwise.training.run_folder.metrics import play_metrics, sampled_entropy, success_error
from turnwise.training.sampling.forest_growth import Forest, asking_expert
from turnwise.training.sampling.group_draws import DrawnGroup
from turnwise.training.sampling.grown_groups import GrowingGroups
from turnwise.training.sampling.sampling_metrics import fork_metrics
from turnwise.training.truth.histories import Histories

AGENT = Agent(max_turns=7)
TASKS = ["open-3-1", "fetch-3-1", "open-3-1"]
RULES = list(FORK_RULES.names())


def sampler() -> Wanderer:
    return Wanderer(plans=0.6, tokenizer=Bytes())


def grow(rule: ForkRule, *, size: int = 6, roots: int = 2, seed: int = 5, **options: Any) -> list[Group]:
    return grown(Forest(rule, size, roots), TASKS, seed, Corridor, AGENT, **options)


def grown(
    forest: Forest, tasks: list[str], seed: int, make: Any, agent: Agent, player: Any = None, **options: Any
) -> list[Group]:
    """Groups that grow by a forest's rule, as in a run."""
    growing = GrowingGroups([forest.rule_of_groups()], Seeds(0), 1, max_rounds=99)
    numbers, specs = GroupNumbers(forest.size, seed), []
    for task in tasks:
        spec = numbers.next(task)
        drawn = DrawnGroup(spec.number, task, spec.size, seed, spec.first)
        specs.append(drawn.spec(growing.grow(drawn)))
    return rollout(agent, player or sampler(), specs, make=make, **options)


@functools.cache
def forest(name: str = "uniform") -> list[Group]:
    return grow(get_fork_rule(name))


def members(groups: list[Group]) -> list[Trajectory]:
    return [trajectory for group in groups for trajectory in group.trajectories]


def turn(state: str, logprobs: tuple[float, ...] = (-1.0,)) -> Turn:
    return Turn((1,), (2,) * len(logprobs), logprobs, 0, state, "go", "go", state, 0.0, True)


def episode(name: str, states: str, won: bool = False, fork_of: str | None = None, at: int | None = None) -> Trajectory:
    turns = tuple(turn(state) for state in states)
    return Trajectory(
        f"t#{name}@7",
        "t",
        None,
        7,
        turns,
        "terminated",
        won,
        float(won),
        "",
        "",
        None,
        0.0,
        fork_of=fork_of,
        fork_turn=at,
    )


# -- where --


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
    with pytest.raises(ConfigError, match="needs an environment to ask"):
        rule([episode("0", "abc")])
    with pytest.raises(BadOption, match="by must be one of 'members', 'expert', got 'anybody'"):
        get_fork_rule("failed", by="anybody")
    with pytest.raises(BadOption, match="no option 'could_win'"):
        get_fork_rule("failed", could_win=could_win)


class Unsaved(Corridor):
    """A corridor whose state cannot be saved, so that it is replayed."""

    snapshot = None  # type: ignore[assignment]


def wins(env: Corridor, actions: list[str | None], turns: int) -> bool:
    """Whether a new corridor is won by these actions and then its plan, in so many turns."""
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
    with pytest.raises(ConfigError, match="entropy"):
        get_fork_rule("entropie")


def test_a_rule_says_one_number_a_turn() -> None:
    with pytest.raises(ConfigError, match=r"one number a turn, \[2\]"):
        ForkRule("short", "", None, "our reading", "", lambda episodes: [[0.0] for _ in episodes])([episode("0", "ab")])


def test_the_best_places_are_chosen() -> None:
    chosen = choose_forks([episode("0", "abcd"), episode("1", "abc")], get_fork_rule(f"{__name__}:last_turns"), 2)
    assert sorted((fork.trajectory.id, fork.turn) for fork in chosen) == [("t#0@7", 3), ("t#1@7", 2)]


def test_no_place_is_the_first_turn_taken_over_or_forked_already() -> None:
    fork = episode("0/2.0", "abc", fork_of="t#0@7", at=2)
    chosen = choose_forks([episode("0", "abc"), fork], get_fork_rule("uniform"), 9, {("t#0@7", 1)})
    assert [(fork.trajectory.id, fork.turn) for fork in chosen] == [("t#0@7", 2)]


def test_places_without_a_number_are_none() -> None:
    rule = ForkRule("odd", "", None, "our reading", "", lambda episodes: [[0.0, float("nan"), NOWHERE, 1.0]])
    assert [fork.turn for fork in choose_forks([episode("0", "abcd")], rule, 9)] == [3]


@pytest.mark.parametrize("name", RULES)
def test_the_order_of_episodes_means_nothing(name: str) -> None:
    rule, dice = get_fork_rule(name), random.Random(3)
    for group in forest():
        finished = list(group.finished)
        chosen = [(fork.trajectory.id, fork.turn) for fork in choose_forks(finished, rule, 4)]
        for _ in range(5):
            dice.shuffle(finished)
            assert [(fork.trajectory.id, fork.turn) for fork in choose_forks(finished, rule, 4)] == chosen


def test_uniform_places_are_spread_over_all_turns() -> None:
    """2,000 episodes of five turns: each of the four places that there are is chosen about 500 times."""
    rule, turns = get_fork_rule("uniform"), Counter[int]()
    for number in range(2000):
        (fork,) = choose_forks([episode(str(number), "abcde")], rule, 1)
        turns[fork.turn] += 1
    assert sorted(turns) == [1, 2, 3, 4]
    assert all(abs(count - 500) < 5 * np.sqrt(375) for count in turns.values())


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


# -- runs --


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A policy after a warm start, so that some episodes are won."""
    folder = tmp_path_factory.mktemp("policy")
    train(
        make_run(folder, "train.iterations=0", "evaluation.episodes=0", "imitation.episodes=30", "imitation.epochs=12")
    )
    return folder / "checkpoints" / "000000"


def run_of(folder: Any, policy: Any, *overrides: str) -> Run:
    table = make_run(folder).model_dump(exclude_unset=True)
    table |= {"policy": {"model": str(policy), "context": 400}, "imitation": {}}
    return Run.parse(
        table,
        ["evaluation.episodes=0", "train.iterations=2", "train.group_size=6", "checkpoints.every=1", *overrides],
    )


METHODS = ["tree_grpo", "tempo", "arpo_hard", "bpo"]


@pytest.mark.parametrize(("where", "method"), list(zip(RULES, METHODS, strict=True)))
def test_a_run_trains_on_forests(tmp_path: Any, policy: Any, where: str, method: str) -> None:
    options = ['credit.options.key="parent"'] if method in ("tempo", "arpo_hard", "bpo") else []
    train(run_of(tmp_path, policy, f"credit.method={method}", f"train.forks={{where='{where}',roots=2}}", *options))
    events = [event for event in lines(tmp_path) if event["phase"] == "train"]
    for number, event in enumerate(events, start=1):
        stored = list(read_trajectories(tmp_path / "trajectories" / f"{number:06d}.jsonl"))
        assert event["episodes"] == len(stored) == 12
        assert event["errors"] == 0
        assert event["forks"] == sum(one.fork_of is not None for one in stored)
        assert event["sampled_turns"] == sum(len(one.sampled) for one in stored)
        assert np.isfinite(event["loss"])
    checks = {check.name: check for check in audit(tmp_path).checks}
    assert not [check.problems for check in checks.values() if check.count]
    assert checks["forks"].checked == checks["metrics"].checked == 2
    assert any(event["forks"] for event in events)
    assert any(not np.array_equal(weights(tmp_path, 0)[key], weights(tmp_path, 2)[key]) for key in weights(tmp_path, 0))


def test_a_run_forks_where_the_expert_could_still_win(tmp_path: Any, policy: Any) -> None:
    train(run_of(tmp_path, policy, "credit.method=bpo", "train.forks={where={name='failed',by='expert'},roots=2}"))
    stored = [one for number in (1, 2) for one in read_trajectories(tmp_path / "trajectories" / f"{number:06d}.jsonl")]
    forks = [one for one in stored if one.fork_of is not None]
    by_id, pool = {one.id: one for one in stored}, EnvPool(Corridor)
    with load_agent(tmp_path) as player:
        expert = ExpertReplay(player.agent, player.sampler, pool)
        for fork in forks:
            parent, at = by_id[str(fork.fork_of)], fork.fork_turn or 0
            assert not parent.won
            assert expert(parent, at)
    pool.close()
    assert forks
    assert not [check.problems for check in audit(tmp_path).checks if check.count]


def test_a_run_without_an_expert_to_ask_is_refused(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path, "train.forks={where={name='failed',by='expert'},roots=2}")
    prepare(run)
    monkeypatch.setattr(Corridor, "plan", property())
    with pytest.raises(ConfigError, match=r'by = "expert" asks the expert of the environment, and .*Corridor'):
        prepare(run)


class NaiveTree:
    """The tree of a group, from nothing but where its episodes were forked."""

    def __init__(self, group: Group) -> None:
        self.episodes = {member.id: member for member in group.finished}
        self.score = {name: sum(turn.reward for turn in one.turns) for name, one in self.episodes.items()}
        self.centred = {name: score - np.mean(list(self.score.values())) for name, score in self.score.items()}

    def owner(self, name: str, number: int) -> str:
        """The episode that sampled a turn; for number -1 the one that the tree began with."""
        one = self.episodes[name]
        return name if one.fork_of is None or number >= (one.fork_turn or 0) else self.owner(one.fork_of, number)

    def sharers(self, name: str, number: int) -> list[str]:
        """The episodes with a turn in common."""
        owner = self.owner(name, number)
        long = [other for other, one in self.episodes.items() if number < len(one.turns)]
        return [other for other in long if self.owner(other, number) == owner]

    def mean(self, name: str, number: int) -> float:
        return float(np.mean([self.centred[other] for other in self.sharers(name, number)]))

    def value(self, name: str, number: int) -> float:
        """The mean of the values below the end of a turn, from branch to branch; at a leaf the outcome."""
        if len(self.sharers(name, number)) == 1:
            return self.score[name]
        below = {self.owner(other, number + 1): other for other in self.sharers(name, number)}
        return float(np.mean([self.value(other, number + 1) for other in below.values()]))

    def advantage(self, method: str, name: str, number: int) -> float:
        if method == "tempo":
            return self.centred[name] + self.mean(name, number) - self.mean(name, number - 1)
        if method == "spo_segment":
            return self.value(name, number) - self.value(name, number - 1)
        return self.centred[name] if method == "arpo_soft" else self.mean(name, number)


@pytest.mark.parametrize(
    ("method", "options", "shared"),
    [
        ("tempo", "key='parent',scale='none'", "first"),
        ("spo_segment", "mode='tree',drop_zero=false", "each"),
        ("arpo_soft", "scale='none'", "each"),
        ("arpo_hard", "scale='none'", "first"),
    ],
)
def test_rules_of_trees_get_the_trees_of_a_run(
    tmp_path: Any, policy: Any, monkeypatch: pytest.MonkeyPatch, method: str, options: str, shared: str
) -> None:
    """The advantages that a run trains on are those of the tree that its stored episodes say."""
    given: list[Advantages] = []
    assign = CreditAssignment.advantages

    def advantages(self: CreditAssignment, *arguments: Any) -> Advantages:
        given.append(assign(self, *arguments))
        return given[-1]

    monkeypatch.setattr(CreditAssignment, "advantages", advantages)
    credit = f"credit={{method='{method}',options={{invalid_penalty=0.0,{options}}}}}"
    train(run_of(tmp_path, policy, credit, f"train.forks={{where='uniform',roots=2,shared='{shared}'}}"))
    branching = varied = 0
    for number, found in enumerate(given, start=1):
        groups = grouped(read_trajectories(tmp_path / "trajectories" / f"{number:06d}.jsonl"))
        rows = dict(zip(zip(found.trajectory, found.turn.tolist(), strict=True), found.values.tolist(), strict=True))
        for group in groups:
            tree = NaiveTree(group)
            for name, one in tree.episodes.items():
                for turn_number in range(len(one.turns)):
                    expected = tree.advantage(method, name, turn_number)
                    assert rows.pop((name, turn_number)) == pytest.approx(expected, abs=1e-9), (name, turn_number)
                    branching += len(tree.sharers(name, turn_number)) > 1
                varied += len({round(tree.advantage(method, name, place), 9) for place in range(len(one.turns))}) > 1
        assert not rows
    assert len(given) == 2
    assert branching
    assert bool(varied) is (method != "arpo_soft")  # some episodes get credit that depends on the turn


@pytest.mark.parametrize("options", ["{}", '{at="entropy",share=0.3,between="first"}'])
def test_a_run_with_values_by_forks(tmp_path: Any, policy: Any, options: str) -> None:
    values = ("train.forks.values=2", f"credit.options={options}")
    train(run_of(tmp_path, policy, "credit.method=vine", "train.group_size=2", *values))
    events = [event for event in lines(tmp_path) if event["phase"] == "train"]
    for event in events:
        assert event["value_forks"] >= 4
        assert event["value_tokens"] > event["value_turns"] > 0
        assert "forks" not in event
        assert np.isfinite(event["loss"])


def test_a_resumed_run_chooses_the_same_forks(tmp_path: Any, policy: Any) -> None:
    overrides = ("credit.method=bpo", "train.forks={where='entropy',roots=2}")
    train(run_of(tmp_path / "whole", policy, *overrides))

    def stop(event: dict[str, Any]) -> None:
        """In the second iteration, after the roots and some forks."""
        trained.append(event["phase"] == "train")
        if any(trained) and event.get("what") == "rollout" and event.get("done", 0) >= 9:
            raise InterruptedError

    trained: list[bool] = []
    with pytest.raises(InterruptedError):
        train(run_of(tmp_path / "halves", policy, *overrides), on_event=stop)
    assert train(run_of(tmp_path / "halves", policy, *overrides), resume=True).finished
    for number in (1, 2):
        one, other = (
            sorted(read_trajectories(tmp_path / name / "trajectories" / f"{number:06d}.jsonl"), key=lambda one: one.id)
            for name in ("whole", "halves")
        )
        assert [(member.id, member.turns) for member in one] == [(member.id, member.turns) for member in other]
    one, other = weights(tmp_path / "whole", 2), weights(tmp_path / "halves", 2)
    assert all(np.array_equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["train.forks=entropie"], "entropie.*did you mean.*entropy"),
        (["train.forks={where={name='entropy', letters=3}}"], "no option 'letters'"),
        (["train.forks={where='uniform', roots=3}"], "roots = 3 of train.group_size = 3"),
        (["train.forks=uniform", "train.group_size=1"], "group_size = 1 episodes leave no fork"),
        (["train.forks.roots=2"], "train.forks.roots has no effect: train.forks.where is empty"),
        (["credit.method=bpo"], "'bpo' needs 'parent'"),
        (["credit.method=tempo", "credit.options.key=parent"], "'tempo' needs 'parent'"),
        (["credit.method=spo_segment", "train.forks={where='uniform'}"], "'spo_segment' needs 'value'"),
        (["credit.method=vine"], "'vine' needs 'value'"),
    ],
)
def test_what_cannot_be_forked_is_said_in_advance(tmp_path: Any, overrides: list[str], message: str) -> None:
    with pytest.raises((ConfigError, BadOption), match=message):
        prepare(make_run(tmp_path, *overrides))

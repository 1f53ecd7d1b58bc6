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
from turnwise.agents.errors import EnvFailure
from turnwise.agents.files.trajectory_files import read_trajectories
from turnwise.agents.rollouts.env_pool import EnvPool
from turnwise.agents.rollouts.rollout import rollout
from turnwise.agents.rollouts.rollout_options import RolloutReport
from turnwise.agents.rollouts.rollout_stream import GroupNumbers
from turnwise.agents.steps import FOREST, steps_of
from turnwise.agents.trajectory import Group, Trajectory, Turn
from turnwise.credit import BadOption, Steps, arpo_hard, bpo, get, grpo, tempo
from turnwise.credit.prefix_tree import paths
from turnwise.training import ConfigError, Run, train
from turnwise.training.audit import audit
from turnwise.training.batch.batch import pack
from turnwise.training.config.seeds import Seeds
from turnwise.training.forest.fork_values import ForkValues
from turnwise.training.forest.growing import Forest, choose_forks
from turnwise.training.forest.places import FORK_RULES, NOWHERE, ForkRule, get_fork_rule
from turnwise.training.parts import prepare
from turnwise.training.played import Played
from turnwise.training.run_folder.metrics import play_metrics, sampled_entropy, success_error
from turnwise.training.sampling.group_draws import DrawnGroup
from turnwise.training.sampling.grown_groups import GrowingGroups
from turnwise.training.sampling.sampling_metrics import fork_metrics

AGENT = Agent(max_turns=7)
TASKS = ["open-3-1", "fetch-3-1", "open-3-1"]
RULES = list(FORK_RULES.names())


def sampler() -> Wanderer:
    return Wanderer(plans=0.6, tokenizer=Bytes())


def grow(rule: ForkRule, *, size: int = 6, roots: int = 2, seed: int = 5, **options: Any) -> list[Group]:
    return grown(Forest(rule, size, roots), TASKS, seed, Corridor, AGENT, **options)


def grown(forest: Forest, tasks: list[str], seed: int, make: Any, agent: Agent, **options: Any) -> list[Group]:
    """Groups that grow by a forest's rule, as in a run."""
    growing = GrowingGroups([forest.rule_of_groups()], Seeds(0), 1, max_rounds=99)
    numbers, specs = GroupNumbers(forest.size, seed), []
    for task in tasks:
        spec = numbers.next(task)
        drawn = DrawnGroup(spec.number, task, spec.size, seed, spec.first)
        specs.append(drawn.spec(growing.grow(drawn)))
    return rollout(agent, sampler(), specs, make=make, **options)


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


def test_a_run_with_values_by_forks(tmp_path: Any, policy: Any) -> None:
    train(run_of(tmp_path, policy, "credit.method=vine", "train.forks.values=2", "train.group_size=2"))
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
        (["credit.method=vine"], "'vine' needs 'value'"),
    ],
)
def test_what_cannot_be_forked_is_said_in_advance(tmp_path: Any, overrides: list[str], message: str) -> None:
    with pytest.raises((ConfigError, BadOption), match=message):
        prepare(make_run(tmp_path, *overrides))

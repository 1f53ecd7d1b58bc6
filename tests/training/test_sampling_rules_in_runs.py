"""Rules of sampling in runs: what they decide is played, stored, written down, and repeated after a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_training_loop import CHILD, TESTS, assert_same_weights, lines, make_run, weights
from toys.open_groups import after
from toys.sampling_rules import helped, until_mixed
from toys.training_helpers import conversation, random_advantages, trajectory, turn
from toys.warm_processes import WarmPopen

from turncredit.agents.files.trajectory_files import read_trajectories
from turncredit.agents.rollouts.rollout_options import RolloutReport
from turncredit.agents.trajectory import Group
from turncredit.curriculum import BranchPoint, TaskRecords
from turncredit.curriculum.group_rules.catalogue import get_group_rule
from turncredit.curriculum.growth import decide
from turncredit.report.stored_groups import read_groups
from turncredit.training import ConfigError, Run, train
from turncredit.training.audit import audit
from turncredit.training.batch.sampling_temperature import AT_ONE
from turncredit.training.config.seeds import Seeds
from turncredit.training.parts import prepare
from turncredit.training.play.played import Played
from turncredit.training.preflight.effects import effective_toml
from turncredit.training.sampling.grown_groups import GrowingGroups, PlayedGroup
from turncredit.training.sampling.sampling_files import SamplingFiles, played_groups
from turncredit.training.sampling.sampling_metrics import growth_by_part
from turncredit.training.tasks.group_draws import DrawnGroup

HERE = "toys.sampling_rules"
PLAIN = ("evaluation.episodes=0", "train.iterations=3", "checkpoints.every=1", "checkpoints.keep=9")
GROWING = (f'sampling.groups=[{{name="{HERE}:until_mixed", most=2}}]', f'sampling.tasks="{HERE}:rare"')
INSIDE = (f'sampling.groups=["{HERE}:inside"]', "train.group_size=4", "credit.method=tree_grpo")
IN_ORDER = ("train.staleness.deterministic=true", "train.staleness=1")


def run_of(folder: Path, *overrides: str) -> Run:
    return make_run(folder, *PLAIN, *overrides)


def entries(folder: Path) -> list[list[dict[str, Any]]]:
    """What each iteration was made of, without the times of its draws."""
    return [json.loads(path.read_text())["groups"] for path in sorted((folder / "sampling").glob("*.json"))]


def stored(folder: Path) -> list[list[Any]]:
    files = sorted((folder / "trajectories").glob("*.jsonl"))
    return [sorted(read_trajectories(path), key=lambda episode: episode.id) for path in files]


def answers(trajectory: Any) -> list[tuple[int, ...]]:
    return [turn.response for turn in trajectory.turns]


def assert_sound(folder: Path) -> None:
    """The audit finds nothing, and every group that was written down can be put together again."""
    checks = {check.name: check for check in audit(folder).checks}
    assert not [check.problems for check in checks.values() if check.count]
    for number, trajectories in enumerate(stored(folder), start=1):
        groups = played_groups(SamplingFiles(folder).read(number) or [], trajectories)
        names = Counter(episode.id for group in groups for episode in group.group.trajectories)
        assert names == Counter(episode.id for episode in trajectories)


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in step, whose groups grow and are dropped."""
    folder = tmp_path_factory.mktemp("grown") / "run"
    train(run_of(folder, *GROWING))
    return folder


def test_groups_grow_and_are_replaced(grown: Path) -> None:
    events = [event for event in lines(grown) if event["phase"] == "train"]
    for event, groups, trajectories in zip(events, entries(grown), stored(grown), strict=True):
        trained_groups = [group for group in groups if group["dropped"] is None]
        assert len(trained_groups) == 2
        assert event["groups_dropped"] == len(groups) - 2
        assert event["episodes"] == len(trajectories) == sum(len(group["members"]) for group in groups)
        assert event["sampled_turns"] == sum(len(episode.turns) for episode in trajectories)
        assert event["distinct_tasks"] == len({group["task"] for group in groups})
        assert [group["number"] for group in groups] == sorted(group["number"] for group in groups)
        assert {group["dropped"] for group in groups} <= {None, f"{HERE}:until_mixed"}
        for group in groups:
            parities = {episode.response_tokens % 2 for episode in trajectories if episode.id in group["members"]}
            assert (len(parities) == 1) == (group["dropped"] is not None)
            rounds = {episode.round for episode in trajectories if episode.id in group["members"]}
            assert rounds == set(range(group["rounds"]))
    assert any(event["groups_dropped"] for event in events)
    assert any(episode.round for played in stored(grown) for episode in played)
    assert_sound(grown)


def test_every_member_has_a_seed_of_its_own(grown: Path) -> None:
    names = [episode.id for played in stored(grown) for episode in played]
    assert len(set(names)) == len(names)


def test_draws_see_the_records_of_the_iterations_before(grown: Path) -> None:
    """Built again from what is stored: the record that each group was drawn with, and the options of its draw."""
    seen: Counter[str] = Counter()
    for number, groups in enumerate(entries(grown)):
        for group in groups:
            assert group["iteration"] == number
            assert group["record"]["episodes"] == seen[group["task"]]
        for group in groups:
            seen[group["task"]] += len(group["members"])


@pytest.mark.parametrize(
    ("rules", "order", "moment"),
    [(GROWING, (), "tick rollout 4"), (GROWING, IN_ORDER, "train  "), (INSIDE, (), "tick rollout 10")],
    ids=["in-step", "in-order", "inside-answers"],
)
@pytest.mark.waits
def test_a_killed_run_repeats_every_decision(
    tmp_path: Path, rules: tuple[str, ...], order: tuple[str, ...], moment: str
) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    words = ["train.iterations=4", *rules, *order, "train.groups=3"]
    train(run_of(whole, *words))
    file = tmp_path / "run.toml"
    file.write_text(effective_toml(run_of(cut, *words, "checkpoints.every=2")))
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    child = WarmPopen(
        [sys.executable, "-c", CHILD, str(file), moment, "3"],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert child.stdout is not None
    assert "here\n" in child.stdout
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    assert train(Run.load(file), resume=True).finished
    assert entries(cut) == entries(whole)
    assert [[(episode.id, episode.round, *answers(episode)) for episode in played] for played in stored(cut)] == [
        [(episode.id, episode.round, *answers(episode)) for episode in played] for played in stored(whole)
    ]
    assert_sound(cut)
    if order:  # members from before the kill are missing in the batches of the others, which then round differently
        assert all(np.allclose(tensor, weights(cut, 4)[name], atol=1e-4) for name, tensor in weights(whole, 4).items())
    else:
        assert_same_weights(weights(whole, 4), weights(cut, 4))


def test_in_order_a_run_repeats_its_decisions(tmp_path: Path) -> None:
    for name in ("one", "other"):
        train(run_of(tmp_path / name, *GROWING, *IN_ORDER))
    assert entries(tmp_path / "one") == entries(tmp_path / "other")
    assert_same_weights(weights(tmp_path / "one", 3), weights(tmp_path / "other", 3))
    for number, groups in enumerate(entries(tmp_path / "one")):
        assert all(group["iteration"] <= number for group in groups)
    assert_sound(tmp_path / "one")


@pytest.mark.parametrize("words", [("train.staleness=1",), ("train.staleness.spare_groups=2",)])
def test_groups_grow_beside_updates(tmp_path: Path, words: tuple[str, ...]) -> None:
    train(run_of(tmp_path, *GROWING, *words))
    for number, groups in enumerate(entries(tmp_path)):
        assert len([group for group in groups if group["dropped"] is None]) == 2
        assert all(group["iteration"] <= number for group in groups)
    assert_sound(tmp_path)


def test_several_processes_play_the_same_groups(tmp_path: Path, grown: Path) -> None:
    train(run_of(tmp_path, *GROWING, "processes=2"))
    assert entries(tmp_path)[0] == entries(grown)[0]
    assert_sound(tmp_path)


def test_environments_in_other_processes_play_the_same_groups(tmp_path: Path, grown: Path) -> None:
    train(run_of(tmp_path, *GROWING, "env.workers=2", "env.workers.deterministic=true"))
    assert entries(tmp_path)[0] == entries(grown)[0]
    assert_sound(tmp_path)


@pytest.mark.parametrize("order", [(), ("train.staleness=1",)])
def test_forks_of_group_rules_are_trained_on(tmp_path: Path, order: tuple[str, ...]) -> None:
    rule = f'sampling.groups=["{HERE}:forked"]'
    train(run_of(tmp_path, rule, "credit.method=tree_grpo", "train.group_size=4", *order))
    trajectories = [episode for played in stored(tmp_path) for episode in played]
    forks = [episode for episode in trajectories if episode.fork_of is not None]
    assert forks
    assert all(episode.round == 1 for episode in forks)
    assert len(trajectories) <= 3 * 2 * 4
    assert_sound(tmp_path)


@pytest.mark.parametrize("shared", ["first", "each"])
def test_answers_are_branched_within(tmp_path: Path, shared: str) -> None:
    train(run_of(tmp_path, *INSIDE, f"train.forks.shared={shared}"))
    joined = 0
    for played in stored(tmp_path):
        by_id = {one.id: one for one in played}
        for child in played:
            if child.fork_of is not None:
                parent, at = by_id[child.fork_of], child.fork_turn
                assert child.fork_tokens > 0
                assert child.turns[at].prompt == parent.turns[at].prompt
                size, one, other = child.fork_tokens, child.turns[at], parent.turns[at]
                assert one.response[:size] == other.response[:size]
                assert one.logprobs[:size] == other.logprobs[:size]
                joined += 1
    assert joined
    assert_sound(tmp_path)


def test_tokens_that_were_taken_over_carry_loss_once_or_in_each_path() -> None:
    rng = np.random.default_rng(3)
    parent = trajectory(conversation(rng, 3), name="t#0@0")
    before = parent.turns[1]
    joined = replace(before, response=(before.response[0], 5, 6), logprobs=(before.logprobs[0], -1.0, -2.0))
    child = replace(
        trajectory([parent.turns[0], joined], name="t#0/1:1.0@0"), fork_of=parent.id, fork_turn=1, fork_tokens=1
    )
    groups = [Group("t", (parent, child))]
    for each, carry in ((False, 2), (True, 3 + len(parent.turns[0].response))):
        played = Played(groups, RolloutReport(), 1, forest=True, each_path=each)
        steps = played.steps("state")
        advantages = random_advantages(rng, groups)
        batch = played.batch(steps, advantages, AT_ONE)
        own = batch.mask[batch.trajectory == 1]
        tokens = batch.tokens[batch.trajectory == 1][own].tolist()
        assert own.sum() == carry
        assert tokens[-2:] == [5, 6]
        assert batch.mask[batch.trajectory == 0].sum() == sum(len(turn.response) for turn in parent.turns)
        value = advantages.aligned([child.id], [1]).values[0]
        assert batch.advantages[batch.trajectory == 1][own][-2:].tolist() == [value, value]


def test_the_loss_of_a_member_ends_where_a_rule_says(tmp_path: Path) -> None:
    train(run_of(tmp_path, f'sampling.groups=[{{name="{HERE}:first_turns",turns=1,tokens=1}}]', "train.iterations=1"))
    (played,) = stored(tmp_path)
    groups = played_groups(SamplingFiles(tmp_path).read(1) or [], played)
    assert {at for group in groups for at in group.growth.until} == {
        BranchPoint(episode.id, 1, 1) for episode in played
    }
    whole = Played([group.counted for group in groups], RolloutReport(), 1)
    part = replace(whole, sampled=groups)
    steps, ones = whole.steps("state"), random_advantages(np.random.default_rng(0), whole.groups)
    full, cut = whole.batch(steps, ones, AT_ONE), part.batch(steps, ones, AT_ONE)
    assert (full.mask == cut.mask).all()  # what follows counts in means over tokens
    numbers = [number for episode in played_in_order(whole) for number in range(len(episode.turns))]
    turn = np.where(full.turn >= 0, np.array(numbers)[full.turn], -1)
    first = np.zeros_like(full.mask)
    for row, column in zip(*np.nonzero(full.turn >= 0), strict=True):
        first[row, column] = column == 0 or full.turn[row, column - 1] != full.turn[row, column]
    until = (turn == 0) | ((turn == 1) & first)
    assert (cut.advantages == np.where(until, full.advantages, 0.0)).all()
    assert (cut.advantages != full.advantages).any()
    assert_sound(tmp_path)


def played_in_order(played: Played) -> list[Any]:
    return [episode for group in played.groups for episode in group.finished]


def test_the_earliest_place_ends_the_loss() -> None:
    places = ((2, 0), (1, 3), (1, 4))
    rules = [get_group_rule(f"{HERE}:first_turns", turns=turns, tokens=tokens) for turns, tokens in places]
    group = after("10")
    assert {(at.turn, at.tokens) for at in decide(rules, group).until} == {(1, 3)}


def test_members_that_are_not_counted_or_kept_take_no_part(tmp_path: Path) -> None:
    run = run_of(tmp_path, f'sampling.groups=["{HERE}:best_and_worst"]', "train.iterations=1")
    train(run)
    (event,) = [event for event in lines(tmp_path) if event["phase"] == "train"]
    assert event["episodes"] == len(stored(tmp_path)[0]) == 12
    assert event["trained_episodes"] == 4
    groups = played_groups(SamplingFiles(tmp_path).read(1) or [], stored(tmp_path)[0])
    assert [len(group.counted.trajectories) for group in groups] == [5, 5]
    assert [len(group.masked) for group in groups] == [3, 3]


@pytest.mark.parametrize("prompt", ["conversation", "window"])
def test_hints_are_shown_stored_and_audited(tmp_path: Path, prompt: str) -> None:
    rule = f'sampling.groups=["{HERE}:helped"]'
    train(run_of(tmp_path, rule, f'agent.prompt="{prompt}"', "train.iterations=1", "policy.context=600"))
    (event,) = [event for event in lines(tmp_path) if event["phase"] == "train"]
    played = stored(tmp_path)[0]
    for episode in played:
        first = episode.turns[0].observation
        assert first.endswith(f"\n\nHint: {episode.hint}") == bool(episode.hint)
        assert ("Hint" in first) == bool(episode.hint)
    assert len({episode.hint for episode in played}) > 2
    assert sum("Begin with these actions: 1. " in episode.hint for episode in played) == 2
    assert Counter(episode.temperature for episode in played) == {None: 6, 0.7: 2}
    plain = [episode for episode in played if episode.plain]
    assert len(plain) == 2
    assert event["success"] == pytest.approx(sum(episode.won for episode in plain) / 2)
    assert event["gap_max"] < 1e-3  # the learner divides its logits by the same temperatures
    assert_sound(tmp_path)  # its log-probabilities and prompts among others


def test_plans_need_an_expert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from toys.corridor import Corridor

    from turncredit.curriculum.growth import GROUP_RULES, GroupRule

    rule = GroupRule("shows_plans", "", None, "our reading", "", helped, expert=True)
    monkeypatch.setitem(GROUP_RULES._items, "shows_plans", rule)
    prepare(run_of(tmp_path, 'sampling.groups=["shows_plans"]'))
    monkeypatch.setattr(Corridor, "plan", None)
    with pytest.raises(ConfigError, match="'shows_plans' shows plans of the environment's expert"):
        prepare(run_of(tmp_path, 'sampling.groups=["shows_plans"]'))


def test_weights_of_a_draw_multiply_the_gradient(tmp_path: Path) -> None:
    """Two rules that draw the same, one with weight 0: nothing is learned."""
    words = ["train.iterations=1", "objective.kl=0"]
    train(run_of(tmp_path / "none", f'sampling.tasks={{name="{HERE}:rare", heavy=0.0}}', *words))
    train(run_of(tmp_path / "one", f'sampling.tasks={{name="{HERE}:rare"}}', *words))
    assert_same_weights(weights(tmp_path / "none", 0), weights(tmp_path / "none", 1))
    before, after = weights(tmp_path / "one", 0), weights(tmp_path / "one", 1)
    assert any(not np.array_equal(before[name], after[name]) for name in before)


def test_no_more_groups_are_dropped_than_may_be(tmp_path: Path) -> None:
    train(run_of(tmp_path, *GROWING, "sampling.max_drops=1"))
    for groups in entries(tmp_path):
        assert len([group for group in groups if group["dropped"]]) <= 1
        assert len([group for group in groups if not group["dropped"]]) == 2


def test_rounds_have_an_end(tmp_path: Path) -> None:
    rule = f'sampling.groups=[{{name="{HERE}:until_mixed", most=99}}]'
    train(run_of(tmp_path, rule, "sampling.max_rounds=2", "train.groups=6", "train.iterations=1"))
    assert {group["rounds"] for groups in entries(tmp_path) for group in groups} == {1, 2}
    assert not [group for groups in entries(tmp_path) for group in groups if group["dropped"]]


def test_reward_rules_change_what_credit_sees(tmp_path: Path) -> None:
    words = ["train.iterations=2", "credit.options.invalid_penalty=0.0"]
    train(run_of(tmp_path / "none", f'sampling.rewards=[{{name="{HERE}:scaled", by=0.0}}]', *words))
    events = [event for event in lines(tmp_path / "none") if event["phase"] == "train"]
    assert [event["signal"] for event in events] == [0.0, 0.0]
    state = json.loads((tmp_path / "none/checkpoints/000002/state.json").read_text())
    assert state["rewards"] == [2]  # it counts its calls


def test_unknown_rules_and_options_are_named_before_anything_is_played(tmp_path: Path) -> None:
    for word, message in (
        ('sampling.tasks="unifrom"', "uniform"),
        ('sampling.groups=["dappo"]', "dapo"),
        (f'sampling.groups=[{{name="{HERE}:until_mixed", mots=1}}]', "most"),
        ('sampling.rewards=["toys.sampling_rules:nothing"]', "nothing"),
        ("sampling.max_drops=3", "sampling.groups is empty"),
    ):
        with pytest.raises(Exception, match=message):
            prepare(run_of(tmp_path, word))
    with pytest.raises(ConfigError, match=r"train\.forks\.where and sampling\.groups"):
        prepare(run_of(tmp_path, 'sampling.groups=["dapo"]', 'train.forks="uniform"'))


def test_the_default_draws_what_the_task_sampler_did(tmp_path: Path) -> None:
    from turncredit.curriculum.task_order import TaskSampler

    run = run_of(tmp_path)
    parts = prepare(run)
    draws = parts.sampling.groups().draws
    stream = TaskSampler(parts.environments.tasks, Seeds(run.seed).of("tasks"))
    for iteration in range(9):
        draws.begin(iteration)
        groups = [draws.next() for _ in range(2)]
        assert [group.task for group in groups] == stream.next(2)
        assert {group.seed for group in groups} == {Seeds(run.seed).of("rollout", iteration)}


def test_records_after_a_checkpoint_are_those_before_it() -> None:
    from turncredit.curriculum import Visit
    from turncredit.training.run_folder.state_json import from_json, to_json

    records = TaskRecords.of("abc").after([Visit("b", (1.0, 0.0), 1, {"hint": 0.5}), Visit("a", (), 0)], 3)
    again = TaskRecords.from_state(from_json(to_json(records.state())), "abc")
    for task in "abc":
        assert again.of_task(task) == records.of_task(task)


def test_a_rule_from_outside_is_short() -> None:
    import inspect

    assert len(inspect.getsource(until_mixed).splitlines()) < 40


def test_credit_of_a_stored_iteration_is_that_of_its_counted_members(tmp_path: Path) -> None:
    train(run_of(tmp_path, f'sampling.groups=["{HERE}:best_and_worst"]', "train.iterations=1"))
    file = tmp_path / "trajectories/000001.jsonl"
    assert [len(group.trajectories) for group in read_groups(file)] == [6, 6]
    assert [len(group.trajectories) for group in read_groups(file, credited=True)] == [5, 5]
    (tmp_path / "sampling/000001.json").unlink()
    assert [len(group.trajectories) for group in read_groups(file, credited=True)] == [6, 6]


def test_answers_and_episodes_that_a_limit_cut_carry_no_loss() -> None:
    """One answer was cut in an episode that went on, one episode ran out of turns, and one ended by itself."""
    rng = np.random.default_rng(0)
    turns = conversation(rng, 3)
    cut = trajectory([turns[0], replace(turns[1], finish="length"), turns[2]], name="t#0@0")
    groups = [Group("t", (cut, trajectory(turns, name="t#1@0", stop="turns"), trajectory(turns, name="t#2@0")))]
    advantages = random_advantages(rng, groups)
    for choice, expected in (
        ("", [True] * 9),
        ("answers", [True, False, True, *[True] * 6]),
        ("episodes", [*[False] * 6, *[True] * 3]),
    ):
        fresh = Played(groups, RolloutReport(), 0, skip_truncated=choice).fresh(advantages)
        assert fresh.keep.tolist() == expected


def test_the_order_of_members_means_nothing() -> None:
    """The rules see them in the order of their numbers, whoever finished first."""
    growing = GrowingGroups([get_group_rule(f"{HERE}:forked")], Seeds(0), 1, max_rounds=9)
    turns = conversation(np.random.default_rng(0), 4)
    members = [trajectory(turns[: 2 + number % 3], name=f"t#{number}@0") for number in range(6)]
    grow = growing.grow(DrawnGroup(0, "t", 8, 0))
    assert grow is not None
    orders = grow(1, members)
    for seed in range(5):
        assert grow(1, [members[k] for k in np.random.default_rng(seed).permutation(6)]) == orders


def test_dropped_groups_are_counted_by_the_part_of_a_mixture():
    def played(number, task, dropped):
        members = tuple(trajectory([turn([1], [2])], name=f"{task}#{k}@0", task=task) for k in range(2))
        return PlayedGroup(DrawnGroup(number, task, 2, 7), Group(task, members), dropped=dropped)

    sampled = [played(0, "search/1", True), played(1, "search/2", True), played(2, "house/tiny/1", False)]
    assert growth_by_part([*sampled, played(3, "house/tiny/2", True)], ["search", "house/tiny", "house/small"]) == {
        "groups_dropped/search": 2.0,
        "trained_episodes/search": 0.0,
        "groups_dropped/house/tiny": 1.0,
        "trained_episodes/house/tiny": 2.0,
    }
    assert growth_by_part(sampled, []) == {}

"""Asynchronous rollouts: how far ahead they may be, what each turn knows, and what a killed run keeps."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch
import toys.corridor
from test_training_loop import CHILD, TABLE, TESTS, assert_same_weights, lines, weights
from toys.training_helpers import conversation, random_advantages, trajectory
from toys.waiting import eventually
from toys.warm_processes import WarmPopen

from turncredit.ablation.plan import check, plan
from turncredit.agents.errors import SamplerError
from turncredit.agents.files.trajectory_files import read_trajectories, to_json
from turncredit.agents.rollouts.rollout_stream import GroupStream
from turncredit.agents.trajectory import Group
from turncredit.cli.train import load_run
from turncredit.engines.scripted import Random
from turncredit.training import ConfigError, Run, train
from turncredit.training.audit import AuditOptions, audit
from turncredit.training.batch.batch import pack
from turncredit.training.config.seeds import Seeds
from turncredit.training.errors import TrainingError
from turncredit.training.parts import prepare
from turncredit.training.play.asynchronous import AsynchronousRollouts
from turncredit.training.play.staleness import age_metrics, ratio_metrics, turn_ages, without_stale
from turncredit.training.preflight.effects import effective_toml
from turncredit.training.run_folder.trajectory_store import GroupFiles

torch.set_num_threads(1)


def make_run(folder, *overrides):
    return Run.parse(TABLE, [f'output="{folder}"', "evaluation.episodes=0", *overrides])


def stored(folder):
    """Return the groups of each iteration, by task and seed, with the ids of their members."""
    return [
        sorted(episode.id for episode in read_trajectories(path))
        for path in sorted((folder / "trajectories").glob("*.jsonl"))
    ]


class Engine:
    """An engine whose version the test decides; the sampler notes the version that each group began with."""

    def __init__(self):
        self.sampler = Noting()
        self.rested = self.rooms = 0

    async def load_here(self, version):
        self.sampler.version = version

    def make_room(self):
        self.rooms += 1

    def rest(self):
        self.rested += 1


class Noting(Random):
    def __init__(self):
        super().__init__()
        self.began = {}

    async def sample(self, request):
        self.began.setdefault(request.episode.partition("@")[2], self.version)
        return await super().sample(request)


class Silent:
    def tick(self, *_, **__):
        """Show nothing."""


def rollouts(run, engine):
    prepared = prepare(run)
    return prepared.rollouts(prepared.agent(None), engine, Silent(), prepared.sampling.groups())


@pytest.mark.parametrize(("staleness", "spare"), [(1, 0), (3, 0), (0, 1), (2, 3)])
def test_no_group_begins_before_the_capacity_rule_lets_it(tmp_path, staleness, spare):
    run = make_run(
        tmp_path / "run", f"train.staleness={staleness}", f"train.staleness.spare_groups={spare}", "train.iterations=6"
    )
    engine = Engine()
    playing = rollouts(run, engine)
    seen = []
    try:
        for step in range(6):
            playing.load(step)
            most = min((staleness + step + 1) * 2 + spare, 12)
            seen += playing.next(step).groups
            assert playing.state()["groups"]["next"] <= most
            if staleness:  # everything that may begin, begins while the learner works
                assert eventually(lambda most=most: playing.state()["groups"]["next"] == most)
    finally:
        playing.close()
    assert len(seen) == 12
    assert engine.rested == engine.rooms == (0 if staleness else 6)  # one that works during updates never sleeps
    names = Counter(episode.id for group in seen for episode in group.trajectories)
    assert len(names) == 36
    assert set(names.values()) == {1}
    for seed, version in engine.sampler.began.items():
        first = next(k for k in range(6) if str(Seeds(run.seed).of("rollout", k)) == seed) * 2
        assert first < (staleness + version + 1) * 2 + spare


def test_a_run_in_step_and_one_ahead_play_the_same_episodes(tmp_path, in_step):
    """Tasks, seeds and members are those of the synchronous run; only when they are trained on may differ."""
    train(make_run(tmp_path / "async", "train.iterations=4", "train.staleness=2"))
    first, other = in_step, stored(tmp_path / "async")
    assert sorted(chain(*first)) == sorted(chain(*other))
    assert [len(names) for names in other] == [6] * 4
    assert not GroupFiles(tmp_path / "async/groups").numbers()
    events = [event for event in lines(tmp_path / "async") if event["phase"] == "train"]
    assert {"age", "stale", "stale_tokens", "learner_idle", "engine_idle", "requests"} <= events[0].keys()
    assert all(event["age_max"] <= 3 for event in events)
    shares = [sum(value for key, value in event.items() if key[:4] == "age_" and key[4:].isdigit()) for event in events]
    assert shares == pytest.approx([1.0] * 4)
    assert events[0]["ratio_0"] == pytest.approx(1.0, abs=1e-4)
    table = Run.load(tmp_path / "async/run.toml")
    assert (table.objective.name, table.objective.old_logprobs) == ("decoupled", "recomputed")


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory):
    """A run whose policy begins untrained, so that answers are long and new weights take over within some of them."""
    folder = tmp_path_factory.mktemp("interrupted") / "run"
    words = [
        "train.staleness.spare_groups=3",
        "train.concurrency=3",
        "imitation.epochs=0",
        "agent.max_tokens=16",
        "train.lr=0.02",
        "checkpoints.every=1",
        "checkpoints.keep=99",
    ]
    for iterations in range(5, 50, 5):  # when new weights come depends on time
        train(make_run(folder, *words, f"train.iterations={iterations}"), resume=iterations > 5)
        if any(turn.switches for played in every_episode(folder) for turn in played.turns):
            break
    return folder


def every_episode(folder):
    return [episode for path in (folder / "trajectories").glob("*.jsonl") for episode in read_trajectories(path)]


def log_probabilities(folder, iteration=None):
    """Return how the audit of a run, or of one of its iterations, finds its log-probabilities."""
    report = audit(folder, AuditOptions(iteration=iteration))
    return next(check for check in report.checks if check.name == "log-probabilities"), report


def test_versions_of_tokens_do_not_fall_and_the_batch_carries_them(interrupted):
    mixed = within = 0
    for number, path in enumerate(sorted((interrupted / "trajectories").glob("*.jsonl"))):
        played = list(read_trajectories(path))
        for episode in played:
            versions = [version for turn in episode.turns for version in turn.versions]
            assert versions == sorted(versions)
            assert len(versions) == sum(len(turn.response) for turn in episode.turns)
            assert versions[-1] <= number
            mixed += versions[0] != versions[-1]
            within += sum(bool(turn.switches) for turn in episode.turns)
        batch = pack([Group(episode.task, (episode,)) for episode in played])
        token_versions = [version for episode in played for turn in episode.turns for version in turn.versions]
        assert batch.version[batch.mask].tolist() == token_versions
        assert (batch.version[~batch.mask] == -1).all()
    assert mixed  # an episode was carried over, and went on under new weights
    assert within  # in the middle of an answer
    events = [event for event in lines(interrupted) if event["phase"] == "train"]
    turns = sum(event["interrupted"] * event["turns"] * event["episodes"] for event in events)
    assert turns == pytest.approx(within)
    gaps, report = log_probabilities(interrupted)
    assert report.passed
    assert gaps.not_done == []
    assert gaps.checked == report.counts["tokens"]  # every one under the weights that sampled it
    assert gaps.details["max"] < 1e-4


@pytest.mark.parametrize("kept", [0, -1])
def test_an_answer_of_two_versions_that_is_said_to_be_of_one_is_found(interrupted, tmp_path, kept):
    shutil.copytree(interrupted, tmp_path / "run")
    files = sorted((tmp_path / "run/trajectories").glob("*.jsonl"))
    file = next(
        file for file in files if any(turn.switches for episode in read_trajectories(file) for turn in episode.turns)
    )
    changed = [
        replace(episode, turns=tuple(replace(t, version=t.versions[kept], switches=()) for t in episode.turns))
        for episode in read_trajectories(file)
    ]
    file.write_text("".join(to_json(episode) + "\n" for episode in changed))
    gaps, _ = log_probabilities(tmp_path / "run", int(file.stem))
    assert gaps.count


@pytest.fixture(scope="module")
def in_step(tmp_path_factory):
    """What a run in step plays in each of four iterations."""
    folder = tmp_path_factory.mktemp("sync") / "run"
    train(make_run(folder, "train.iterations=4"))
    return stored(folder)


@pytest.mark.parametrize("staleness", [1, 2])
def test_in_order_a_run_repeats_bit_for_bit(tmp_path, in_step, staleness):
    words = ["train.staleness.deterministic=true", f"train.staleness={staleness}", "train.iterations=4"]
    for name in ("one", "other"):
        train(make_run(tmp_path / name, *words))
    assert_same_weights(weights(tmp_path / "one", 4), weights(tmp_path / "other", 4))
    assert stored(tmp_path / "one") == in_step  # the same episodes in the same iterations
    for number, path in enumerate(sorted((tmp_path / "one/trajectories").glob("*.jsonl"))):
        versions = {turn.version for episode in read_trajectories(path) for turn in episode.turns}
        assert versions == {max(0, number - staleness)}


def aged(versions):
    rng = np.random.default_rng(0)
    turns = conversation(rng, len(versions))
    return [Group("t", (trajectory([replace(turn, version=v) for turn, v in zip(turns, versions, strict=True)]),))]


def test_ages_by_hand():
    groups = aged([3, 3, 4, 5, 7])
    assert turn_ages(groups, 5) == {("t#0@0", k): age for k, age in enumerate([2, 2, 1, 0, 2])}
    advantages = without_stale(random_advantages(np.random.default_rng(1), groups), turn_ages(groups, 5), 1)
    assert advantages.keep.tolist() == [False, False, True, True, False]
    batch = pack(groups, advantages)
    assert set(batch.turn[batch.mask].tolist()) == {2, 3}  # stale turns are context and carry no loss
    metrics = age_metrics(groups, 5, 1)
    assert (metrics["age"], metrics["age_max"], metrics["stale"]) == (1.4, 2.0, 0.6)
    assert [metrics[f"age_{k}"] for k in range(3)] == [0.2, 0.2, 0.6]


def test_ratios_by_hand():
    groups = aged([4, 5])
    batch = pack(groups)
    assert ratio_metrics(batch, 5) == {}
    age = 5 - batch.version
    recomputed = replace(batch, rollout=batch.old, old=batch.old + np.log(2.0) * (age == 1) * batch.mask)
    assert ratio_metrics(recomputed, 5) == pytest.approx({"ratio_0": 1.0, "ratio_1": 2.0})


@pytest.mark.waits
def test_kill_minus_nine_loses_no_finished_group(tmp_path):
    """A process is killed in its fourth iteration, two after its checkpoint; the finished groups are used again."""
    folder, file = tmp_path / "killed", tmp_path / "run.toml"
    run = make_run(folder, "train.staleness=2", "train.iterations=6")
    file.write_text(effective_toml(run))
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    child = WarmPopen(
        [sys.executable, "-c", CHILD, str(file), "train  ", "3"], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert "here\n" in child.stdout
    child.kill()
    assert child.wait() == -signal.SIGKILL
    assert len(stored(folder)) == 3  # of which the checkpoint knows two
    files = GroupFiles(folder / "groups")
    stored_turns = {episode.id: episode.turns for number in files.numbers() for episode in files.read(number)}
    assert set(stored(folder)[2]) <= set(stored_turns)
    assert train(Run.load(file), resume=True).step == 6
    again = {
        episode.id: episode.turns
        for path in sorted((folder / "trajectories").glob("*.jsonl"))
        for episode in read_trajectories(path)
    }
    assert len(again) == 36
    assert {name: again[name] for name in stored_turns} == stored_turns  # the same episodes, not played again
    assert not files.numbers()


def test_an_engine_that_fails_ends_the_run_with_a_checkpoint(tmp_path, monkeypatch):
    from turncredit.agents.errors import EngineFailed
    from turncredit.engines.transformers.sampler import TransformersSampler

    plain = TransformersSampler.sample

    async def sample(self, request):
        if self.version == 2:
            raise EngineFailed("the engine is gone")
        return await plain(self, request)

    monkeypatch.setattr(TransformersSampler, "sample", sample)
    run = make_run(tmp_path / "run", "train.staleness=1", "train.iterations=6")
    with pytest.raises(EngineFailed, match="the engine is gone"):
        train(run)
    monkeypatch.undo()
    assert train(run, resume=True).step == 6
    assert not [thread for thread in threading.enumerate() if thread.name == "turncredit-rollouts"]


def test_when_every_episode_fails_the_run_says_why_and_can_go_on(tmp_path, monkeypatch):
    run = make_run(tmp_path / "run", "train.staleness=1", "train.iterations=4", "checkpoints.every=1")

    def reset(self, **_):
        raise RuntimeError("the door is jammed")

    def jam(event):
        if event["phase"] == "train":
            monkeypatch.setattr(toys.corridor.Corridor, "reset", reset)

    with pytest.raises(TrainingError, match=r"every episode of iteration \d failed .*the door is jammed"):
        train(run, on_event=jam)
    monkeypatch.undo()
    assert train(run, resume=True).step == 4


def test_episodes_that_failed_before_a_run_was_resumed_are_played_again(tmp_path):
    run = make_run(tmp_path / "run", "train.staleness=1", "train.iterations=2")
    first = rollouts(run, Engine())
    state = first.state()
    first.load(0)
    groups = first.next(0).groups
    first.close()
    files = GroupFiles(run.folder / "groups")
    for number, group in enumerate(groups):
        files._path(number).unlink()
        for episode in group.trajectories:
            files.write(number, replace(episode, stop="error", error="the door is jammed", turns=()))
    again = rollouts(run, Engine())
    again.load_state(state)
    again.load(0)
    result = again.next(0).groups
    again.close()
    assert [episode.id for group in result for episode in group.finished] == [
        episode.id for group in groups for episode in group.trajectories
    ]


def test_rollouts_that_are_cancelled_from_within_end_the_iteration(tmp_path, monkeypatch):
    async def play(self, pool):
        raise asyncio.CancelledError
        yield

    monkeypatch.setattr(GroupStream, "play", play)
    playing = rollouts(make_run(tmp_path / "run", "train.staleness=1"), Engine())
    playing.load(0)
    with pytest.raises(SamplerError, match="the rollouts were cancelled"):
        playing.next(0)
    playing.close()


def test_a_task_in_quarantine_is_tried_again_under_new_weights(tmp_path, monkeypatch):
    run = make_run(tmp_path / "run", "train.staleness=1", "train.iterations=24")
    working, broken = toys.corridor.Corridor.reset, {"open-3-1", "fetch-3-1", "open-4-1"}

    def reset(self, *, seed=None, options=None):
        if (options or {}).get("task") in broken:
            raise RuntimeError("the door is jammed")
        return working(self, seed=seed, options=options)

    monkeypatch.setattr(toys.corridor.Corridor, "reset", reset)
    playing, seen = rollouts(run, Engine()), Counter()
    for step in range(24):
        if step == 8:
            monkeypatch.setattr(toys.corridor.Corridor, "reset", working)
        playing.load(step)
        played = playing.next(step)
        if step >= 8:
            seen.update(group.task for group in played.groups if group.finished)
    playing.close()
    assert broken <= seen.keys()


def test_after_a_kill_the_capacity_rule_holds_for_groups_that_were_begun(tmp_path):
    """A checkpoint of iteration 0, nine more iterations, and a kill with two groups half played."""
    run = make_run(tmp_path / "run", "train.staleness=1", "train.iterations=12")
    killed = rollouts(run, Engine())
    saved = killed.state()
    for step in range(9):
        killed.load(step)
        killed.next(step)
    assert eventually(lambda: killed._groups.settled)
    killed.close()
    for number in (18, 19):
        path = GroupFiles(run.folder / "groups")._path(number)
        path.write_text(path.read_text().splitlines()[0] + "\n")
    resumed = rollouts(run, Engine())
    resumed.load_state(saved)
    ages = []
    for step in range(12):
        resumed.load(step)
        groups = resumed.next(step).groups
        ages += [step - turn.version for group in groups for episode in group.finished for turn in episode.turns]
    resumed.close()
    assert max(ages) <= run.train.oldest


def test_in_order_a_resumed_run_ends_as_one_that_never_stopped(tmp_path):
    def stop(event):
        if event["phase"] == "tick" and event["what"] == "checkpoint" and event["done"] == 2:
            raise KeyboardInterrupt

    words = ["train.staleness.deterministic=true", "train.staleness=1", "train.iterations=4", "checkpoints.every=1"]
    train(make_run(tmp_path / "whole", *words))
    cut = make_run(tmp_path / "cut", *words)
    assert not train(cut, on_event=stop).finished
    assert train(cut, resume=True).finished
    assert_same_weights(weights(tmp_path / "whole", 4), weights(tmp_path / "cut", 4))


def test_the_audit_knows_groups_that_replace_rejected_ones(tmp_path, monkeypatch):
    working = toys.corridor.Corridor.reset

    def reset(self, *, seed=None, options=None):
        if (options or {}).get("task") in {"open-3-1", "fetch-3-1", "open-4-1"}:
            raise RuntimeError("the door is jammed")
        return working(self, seed=seed, options=options)

    monkeypatch.setattr(toys.corridor.Corridor, "reset", reset)
    run = make_run(tmp_path / "run", "train.staleness=1", "train.iterations=6")
    train(run)
    seeds = {episode.seed for path in (tmp_path / "run/trajectories").glob("*") for episode in read_trajectories(path)}
    assert seeds - {Seeds(run.seed).of("rollout", number) for number in range(6)}
    monkeypatch.undo()
    groups = next(check for check in audit(tmp_path / "run").checks if check.name == "groups")
    assert not groups.count


def test_waiting_for_groups_in_play_is_a_part_of_the_iteration(tmp_path, monkeypatch):
    waits, wait = [], AsynchronousRollouts._wait_for

    def timed(self, holds):
        started = time.perf_counter()
        wait(self, holds)
        waits.append(time.perf_counter() - started)

    monkeypatch.setattr(AsynchronousRollouts, "_wait_for", timed)
    train(make_run(tmp_path / "run", "train.staleness.deterministic=true", "train.staleness=1", "train.iterations=4"))
    events = [event for event in lines(tmp_path / "run") if event["phase"] == "train"]
    told = sum(event["rollout_seconds"] for event in events)
    assert told == pytest.approx(sum(waits[:-1]), abs=0.05)  # after the last one there is no iteration
    assert all(event["rollout_seconds"] <= event["seconds"] + 0.05 for event in events)
    assert all(0 <= event["learner_idle"] <= 1 and 0 <= event["engine_idle"] <= 1 for event in events)


@pytest.mark.parametrize(
    "words",
    [
        ["train.staleness=2"],
        ["train.staleness=2", "objective.name=ppo_clip"],
        ["train.staleness=2", "objective.name=ppo_clip", "objective.options.clip_high=0.28"],
        ["train.staleness.spare_groups=1", 'objective.old_logprobs="recomputed"', "objective.correction=tis_token"],
        ["objective.name=decoupled", 'objective.old_logprobs="recomputed"'],
    ],
)
def test_a_run_folder_is_read_as_the_run_that_it_holds(tmp_path, words):
    run = make_run(tmp_path, *words)
    (tmp_path / "run.toml").write_text(effective_toml(run))
    again = load_run(tmp_path, [], None)
    assert again.model_dump() == {**run.model_dump(), "output": again.output}


def test_objectives_of_asynchronous_runs_can_be_arms(tmp_path):
    run = make_run(tmp_path / "run", "train.staleness=2", "evaluation.episodes=4")
    assert (run.objective.name, run.objective.old_logprobs) == ("decoupled", "recomputed")
    result = plan(run, ["objective=ppo_clip,decoupled:old_logprobs=recomputed"], tmp_path / "all")
    check(result)
    assert [result.run(arm, 0).objective.old_logprobs for arm in result.arms] == ["sampled", "recomputed"]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["objective.name=reinforce"],
            r"train.staleness > 0 .*'reinforce'.* does not correct: choose one of .*decoupled",
        ),
        (['objective.old_logprobs="recomputed"'], r"does not correct: set objective.correction, such as .tis_token."),
        (["objective.name=gspo", "objective.old_logprobs=recomputed"], r"'gspo'"),
    ],
)
def test_an_objective_that_takes_old_samples_for_new_is_refused(tmp_path, overrides, message):
    with pytest.raises(ConfigError, match=message):
        prepare(make_run(tmp_path / "run", "train.staleness=2", *overrides))


@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["objective.name=ppo_clip"],
        ['objective.old_logprobs="recomputed"', "objective.correction=tis_token"],
        ["objective.name=reinforce", 'objective.old_logprobs="recomputed"', "objective.correction=icepop"],
        ["objective.name=decoupled", 'objective.old_logprobs="recomputed"'],
        ["objective.name=opmd"],  # made for older samples, so that it needs no ratio
        ["objective.name=asymre", 'objective.old_logprobs="recomputed"'],
    ],
)
def test_objectives_that_know_how_to_take_older_samples_are_accepted(tmp_path, overrides):
    prepare(make_run(tmp_path / "run", "train.staleness=2", *overrides))


def test_a_torn_member_is_played_again(tmp_path):
    files = GroupFiles(tmp_path / "groups")
    first, two = (trajectory(conversation(np.random.default_rng(k), 2), name=f"t#{k}@0") for k in (0, 1))
    files.write(7, first)
    files.write(7, two)
    path = Path(tmp_path / "groups/000007.jsonl")
    path.write_bytes(path.read_bytes()[:-20])
    assert [member.id for member in files.read(7)] == ["t#0@0"]
    files.write(7, two)
    assert [json.loads(line)["id"] for line in path.read_text().splitlines()] == ["t#0@0", "t#1@0"]
    assert (files.numbers(), files.read(8)) == ([7], ())
    files.remove(7)
    assert files.numbers() == []

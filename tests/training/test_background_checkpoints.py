"""Checkpoints that are written while the run goes on: they count once they are whole, and nothing is lost before."""

import errno
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch
from toys.ranks import on_ranks
from toys.training_helpers import play, random_advantages, tiny_llama, weights
from toys.waiting import eventually
from toys.warm_processes import WarmPopen

import turncredit.training.run_folder.checkpoint as checkpoint_module
from turncredit.training.batch.batch import pack
from turncredit.training.errors import CheckpointError
from turncredit.training.learner import optimizer_shards
from turncredit.training.learner.distributed_learner import DistributedLearner
from turncredit.training.learner.gradient import UpdatePlan
from turncredit.training.learner.policy import build_policy
from turncredit.training.objectives import Objective
from turncredit.training.run_folder.checkpoint import Checkpoints
from turncredit.training.run_folder.trajectory_store import RolloutFiles

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def policy():
    return build_policy(["open the red box"], vocab=270, hidden=16, layers=1, heads=1, context=64)


@pytest.fixture
def gate(monkeypatch):
    """Weights are written once this is set."""
    gate, write = threading.Event(), checkpoint_module.save_weights

    def waiting(*args):
        assert gate.wait(60)
        write(*args)

    monkeypatch.setattr(checkpoint_module, "save_weights", waiting)
    yield gate
    gate.set()


def test_a_checkpoint_counts_once_it_is_whole(tmp_path, policy, gate):
    points = Checkpoints(tmp_path, keep=1)
    gate.set()
    points.save(1, *policy, None, {})
    gate.clear()
    points.start(2, *policy, None, {}, background=True)
    assert points.finish(wait=False) is None
    assert points.steps() == [1]
    assert points.load().step == 1
    gate.set()
    points.wait_for_weights()
    assert points.finish() == points.path(2)
    assert points.finish() is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000002"]
    assert points.load().step == 2


def test_the_next_checkpoint_waits_for_the_one_before(tmp_path, policy, gate):
    points = Checkpoints(tmp_path)
    points.start(1, *policy, None, {}, background=True)
    threading.Timer(0.2, gate.set).start()
    points.start(2, *policy, None, {}, background=True)
    assert points.steps()[0] == 1
    points.close()
    assert points.steps() == [1, 2]
    assert [points.load().step, verify_all(points)] == [2, [None, None]]


def verify_all(points):
    return [checkpoint_module.verify(points.path(step)) for step in points.steps()]


def test_what_goes_wrong_on_the_thread_is_raised_by_who_asks(tmp_path, policy, monkeypatch):
    points = Checkpoints(tmp_path)
    points.save(1, *policy, None, {})
    write = checkpoint_module.save_weights

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoint_module, "save_weights", full)
    points.start(2, *policy, None, {}, background=True)
    points.wait_for_weights()
    with pytest.raises(CheckpointError, match=r"checkpoint 2 could not be written: the disk is full; the last one .*1"):
        points.finish()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000001"]
    points.start(3, *policy, None, {}, background=True)
    points.close()  # says nothing
    assert points.steps() == [1]
    monkeypatch.setattr(checkpoint_module, "save_weights", write)
    points.save(4, *policy, None, {})
    assert points.steps() == [1, 4]


def test_nobody_waits_for_a_checkpoint_that_a_second_interruption_cut_short(tmp_path, policy, monkeypatch):
    points = Checkpoints(tmp_path)
    points.save(1, *policy, None, {})

    def press(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_module, "save_weights", press)
        with pytest.raises(KeyboardInterrupt):
            points.save(2, *policy, None, {})
        points.close()
    assert points.steps() == [1]
    points.save(2, *policy, None, {})
    assert [points.load().step, verify_all(points)] == [2, [None, None]]


KILLED = """
import sys, time
from pathlib import Path
import turncredit.training.run_folder.checkpoint as module
from turncredit.training.learner.policy import build_policy
from turncredit.training.run_folder.checkpoint import Checkpoints

policy = build_policy(["open the red box"], vocab=270, hidden=16, layers=1, heads=1, context=64)
points = Checkpoints(Path(sys.argv[1]), keep=1)
points.save(1, *policy, None, {"count": 1})
place, function = sys.argv[2], getattr(module, sys.argv[2])

def stuck(*args, **options):
    if place != "write_json" or "manifest" in str(args[0]):
        print("stuck", flush=True)
        time.sleep(600)
    return function(*args, **options)

setattr(module, place, stuck)
points.start(2, *policy, None, {"count": 2}, background=True)
points.finish()
"""


@pytest.mark.slow
@pytest.mark.parametrize("place", ["save_weights", "write_json"])
def test_a_process_that_is_killed_while_it_writes_loses_nothing(tmp_path, policy, place):
    program = [sys.executable, "-P", "-c", KILLED, str(tmp_path), place]
    process = WarmPopen(program, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "stuck\n"
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    points = Checkpoints(tmp_path, keep=1)
    assert (tmp_path / ".000002.part").exists()
    assert points.load().state["count"] == 1
    points.save(2, *policy, None, {"count": 3})
    assert points.load().state["count"] == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000002"]


def test_rollouts_stay_until_a_checkpoint_has_trained_on_them(tmp_path):
    files = RolloutFiles(tmp_path / "groups")
    (tmp_path / "groups").mkdir()
    for number in (1, 2, 3):
        (tmp_path / f"groups/{number:06d}.jsonl").touch()
    files.clear(2)
    assert [path.name for path in files.folder.iterdir()] == ["000003.jsonl"]
    files.clear(3)
    assert not files.folder.exists()


# -- several ranks --


def small_batch():
    rng = np.random.default_rng(0)
    groups = play(rng, groups=2, size=3)
    return pack(groups, random_advantages(rng, groups))


def fill_disk(learner, rank):
    """Let the disk of one rank be full."""

    class Full(optimizer_shards.FileSystemWriter):
        def write_data(self, *args):
            raise OSError(errno.ENOSPC, "No space left on device")

    if learner.ranks.rank == rank:
        optimizer_shards.own, optimizer_shards.FileSystemWriter = optimizer_shards.FileSystemWriter, Full


def empty_disk(learner, rank):
    if learner.ranks.rank == rank:
        optimizer_shards.FileSystemWriter = optimizer_shards.own


def full_disk_of_a_rank(leader, folder):
    learner = DistributedLearner(tiny_llama(), None, leader=leader, lr=1e-2)
    tokenizer = build_policy(["open the red box"], vocab=270, hidden=16, layers=1, heads=1, context=64)[1]
    points, said = Checkpoints(folder), []
    for step, prepare in enumerate((None, fill_disk, empty_disk), 1):
        learner.update(small_batch(), Objective(), UpdatePlan())
        if prepare is not None:
            learner.on_all_ranks(prepare, 1)
        model = learner.weights()
        points.start(step, model, tokenizer, learner.state(), {}, learner.save_shards, background=True)
        points.wait_for_weights()
        learner.update(small_batch(), Objective(), UpdatePlan())  # exchanges while the threads do
        try:
            points.finish()
        except CheckpointError as error:
            said.append(str(error))
    return said, points.steps(), weights(learner)


@pytest.mark.slow
def test_a_full_disk_of_another_rank_is_said_and_the_run_may_go_on(tmp_path):
    said, steps, _ = on_ranks(2, full_disk_of_a_rank, tmp_path)
    assert len(said) == 1
    assert said[0].startswith("checkpoint 2 could not be written: the disk is full; the last one is ")
    assert steps == [1, 3]
    assert verify_all(Checkpoints(tmp_path)) == [None, None]
    assert eventually(lambda: not list(tmp_path.glob(".*")), seconds=10)

"""One run on a Ray cluster that loses an engine, an environment worker, a rank of the learner and its own process."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
import torch
from test_cluster_run import make_run, trained
from test_training_loop import TESTS
from toys.waiting import eventually, gone
from toys.warm_processes import WarmPopen
from toys.warm_ray_workers import worker_of

pytest.importorskip("ray")

from turncredit.agents.files.trajectory_files import read_trajectories
from turncredit.agents.rollouts.rollout_stream import REPLACED
from turncredit.training import train
from turncredit.training.preflight.effects import effective_toml

torch.set_num_threads(1)

STEPS = 12  # enough for all losses on a fast machine
MAX_SECONDS = 480  # without progress, after which a run counts as hanging
WORDS = (
    *(
        f"train.iterations={STEPS}",
        "train.group_size=8",
        "train.staleness=1",
        "checkpoints.every=1",
        "train.replacements=50",
    ),
    "trajectory_format=.jsonl",
)
CLUSTER = (
    *("cluster.address=local", "cluster.engines=2", "cluster.cpus=0.2", "cluster.learners=2"),
    *("env.workers=2", "env.deadline=60"),
)
PARTS = {"engine": "ray::EngineHost", "worker": "ray::EnvActor", "rank": "ray::FunctionActor"}
"""The titles that Ray gives the processes of actors."""
PROGRAM = """
from toys.warm_ray_workers import warm_workers
from turncredit.cli.main import main

with warm_workers():
    main()
"""


def descendants(pid):
    """Return the title of every process that a process has started, directly or not, by process id."""
    parents, titles = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            titles[int(folder.name)] = (folder / "cmdline").read_bytes().decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile
    processes, level = {}, {pid}
    while level:
        level = {child for child, parent in parents.items() if parent in level} | forks(level)
        processes |= {child: titles[child] for child in level if child in titles}
    return processes


def forks(level):
    """Return the workers of Ray that some processes have asked for and wait for."""
    workers = set()
    for pid in level:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            workers.add(worker_of(pid))
    return workers - {None}


class Life:
    """A process that trains, from its start to its end."""

    def __init__(self, file, folder):
        self.folder, self.seen = folder, {}
        words = ["--resume"] if (folder / "run.toml").exists() else []
        environment = {**os.environ, "PYTHONPATH": str(TESTS), "RAY_USAGE_STATS_ENABLED": "0"}
        command = [sys.executable, "-c", PROGRAM, "train", str(file), *words]
        self.log = folder.parent / "log.txt"
        with self.log.open("a") as log:
            self.process = WarmPopen(command, stdout=log, stderr=log, env=environment)

    def find(self, part):
        """Return the processes of a part."""
        if part == "driver":
            return [self.process.pid]
        processes = descendants(self.process.pid)
        self.seen |= processes
        return [pid for pid, title in processes.items() if title.startswith(PARTS[part])]

    @property
    def iterations(self):
        try:
            return len(trained(self.folder))
        except (FileNotFoundError, json.JSONDecodeError):  # the last line is being written
            return 0

    def iterated(self, begun):
        """Whether an iteration was finished after so many."""
        return self.iterations > begun

    @property
    def over(self):
        return self.process.poll() is not None

    def wait_for(self, holds):
        """Wait until a condition holds, or the process has ended."""
        assert eventually(lambda: self.over or holds(), MAX_SECONDS), self.log.read_text()


def lose_parts(life, left, chance):
    """Kill one part after another, each at a random moment after an iteration, until the run has to end."""
    begun = 0
    while left and not life.over:
        life.wait_for(partial(life.iterated, begun))
        begun = life.iterations
        time.sleep(chance.uniform(0, 0.5))  # the moment is random, and nothing is waited for
        life.wait_for(lambda: life.find(left[0]))
        if life.over:
            return
        part = left.pop(0)
        os.kill(chance.choice(life.find(part)), signal.SIGKILL)
        if part in ("rank", "driver"):
            return


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0])
def test_an_engine_a_worker_a_rank_and_the_driver_are_killed_at_random(tmp_path, seed):
    chance = random.Random(seed)
    left = ["engine", "worker", "rank", "driver"]
    chance.shuffle(left)
    train(make_run(tmp_path / "calm", *WORDS))
    folder, file, seen, ends = tmp_path / "run", tmp_path / "run.toml", {}, []
    file.write_text(effective_toml(make_run(folder, *WORDS, *CLUSTER)))
    while not ends or ends[-1]:
        life = Life(file, folder)
        try:
            lose_parts(life, left, chance)
            ends.append(life.process.wait(MAX_SECONDS))
        finally:
            life.process.kill()
        seen |= life.seen
        assert len(ends) <= 3, (tmp_path / "log.txt").read_text()
    assert not left
    assert ends.count(-signal.SIGKILL) == 1  # the driver
    assert ends[-1] == 0
    assert min(ends[:-1], key=abs) > 0  # the rank's loss ended the run with a sentence
    assert "has ended" in (tmp_path / "log.txt").read_text()
    assert all(gone(pid) for pid in seen)  # also what a killed driver left behind
    calm, stormy = finished(tmp_path / "calm"), finished(folder)
    assert calm == stormy  # the same episodes, each exactly once
    assert len(calm) == sum(calm.values()) == STEPS * 16
    events = trained(folder)
    assert [event["episodes"] - event["errors"] for event in events] == [16] * STEPS
    assert {"errors", "engines_lost", "requests_repeated"} <= events[-1].keys()


def finished(folder):
    """Return how often each episode was finished, by task, member and seed; replacements count as what they replace."""
    names = Counter()
    for path in (folder / "trajectories").glob("*.jsonl"):
        for one in read_trajectories(path):
            if one.finished:
                task, _, rest = one.id.rpartition("#")
                member, _, seed = rest.partition("@")
                names[task, int(member) % REPLACED, seed] += 1
    return names


@pytest.mark.slow
def test_a_run_whose_cluster_has_lost_its_head_ends_with_a_sentence_and_a_checkpoint(tmp_path):
    """Ray itself would wait for a minute, and then end the process from a thread of its own, without a checkpoint."""
    folder, file = tmp_path / "run", tmp_path / "run.toml"
    smaller = ("cluster.learners=1", "cluster.engines=1", "env.workers=1")
    words = [*WORDS, "train.iterations=1000", "checkpoints.every=1000", *CLUSTER, *smaller]
    file.write_text(effective_toml(make_run(folder, *words)))
    environment = {**os.environ, "PYTHONPATH": str(TESTS), "RAY_USAGE_STATS_ENABLED": "0"}
    command = [sys.executable, "-c", PROGRAM, "train", str(file)]
    process = WarmPopen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    try:
        assert eventually(lambda: (folder / "metrics.jsonl").is_file() and len(trained(folder)) >= 2, MAX_SECONDS)
        (head,) = [pid for pid, title in descendants(process.pid).items() if "gcs_server" in title.partition("\0")[0]]
        os.kill(head, signal.SIGKILL)
        said, _ = process.communicate(timeout=100)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode in (1, 2), said[-3000:]  # 1 where Ray's own threads end the process before Python does
    assert "the head of the Ray cluster at " in " ".join(said.split())
    assert "Traceback" not in said
    saved = max(int(path.name) for path in (folder / "checkpoints").glob("0*"))
    assert saved >= 2
    assert saved == max(event["iteration"] for event in trained(folder))

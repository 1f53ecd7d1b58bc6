"""Runs that start a Ray cluster: the same as without one, and finished whatever engine or worker is killed."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
from functools import partial

import pytest
import torch
import toys.corridor
from toys.waiting import eventually
from toys.warm_ray_workers import warm_workers

ray = pytest.importorskip("ray")

from turncredit.agents.errors import SamplerError  # noqa: E402
from turncredit.agents.models.model_folder import load_model  # noqa: E402
from turncredit.agents.rollouts.env_actors import EnvActors  # noqa: E402
from turncredit.engines.cluster.sampler import ClusterSampler  # noqa: E402
from turncredit.engines.routing import EngineState  # noqa: E402
from turncredit.training import Run, train  # noqa: E402
from turncredit.training.config.cluster import cluster_settings, engine_devices  # noqa: E402
from turncredit.training.engine import engine  # noqa: E402
from turncredit.training.errors import ConfigError  # noqa: E402
from turncredit.training.parts import prepare  # noqa: E402
from turncredit.training.preflight.effects import check_effects  # noqa: E402

torch.set_num_threads(1)

TABLE = {
    "threads": 1,
    "env": {"id": f"toys.corridor:{toys.corridor.ID}", "kwargs": {"lengths": [3, 4]}},
    "agent": {"max_turns": 6, "max_tokens": 8},
    "policy": {"new": {"vocab": 280, "hidden": 32, "layers": 1, "heads": 1}, "context": 400},
    "imitation": {"episodes": 10, "epochs": 1, "lr": 5e-3, "batch_tokens": 600},
    "train": {"iterations": 2, "groups": 2, "group_size": 3, "optimizer_steps": 2},
    "checkpoints": {"every": 0},
    "evaluation": {"episodes": 0},
}
CLUSTER = ("cluster.address=local", "cluster.engines=2", "cluster.cpus=0.5")


@pytest.fixture(scope="module")
def _warm():
    """Let the workers of clusters begin with torch imported."""
    with warm_workers():
        yield


def make_run(folder, *overrides):
    return Run.parse(TABLE, [f'output="{folder}"', *overrides])


def trained(folder):
    events = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [event for event in events if event["phase"] == "train"]


@pytest.mark.slow
@pytest.mark.usefixtures("_warm")
def test_a_run_on_a_cluster_ends_with_the_same_weights(tmp_path):
    alone = train(make_run(tmp_path / "alone", "train.concurrency=1"))
    before, during = signal.getsignal(signal.SIGTERM), set()
    other = train(
        make_run(tmp_path / "cluster", "train.concurrency=1", *CLUSTER),
        on_event=lambda _: during.add(signal.getsignal(signal.SIGTERM)),
    )
    assert not ray.is_initialized()  # the cluster was stopped
    assert during == {before}  # Ray's own handler would end the run without a checkpoint
    mine, same = (load_model(one.checkpoint).state_dict() for one in (alone, other))
    assert all(torch.equal(mine[name], same[name]) for name in mine)
    for event in trained(tmp_path / "cluster"):
        assert (event["engines"], event["engines_lost"], event["requests_repeated"]) == (2, 0, 0)
        assert event["probe_gap"] < 1e-5
    resumed = train(make_run(tmp_path / "cluster", "train.concurrency=1", "train.iterations=3"), resume=True)
    assert resumed.step == 3  # without a cluster now


@pytest.mark.slow
@pytest.mark.usefixtures("_warm")
def test_engines_that_are_killed_at_random_cost_no_group(tmp_path, monkeypatch):
    opened, kills, over = [], [], threading.Event()

    class Recorded(ClusterSampler):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            opened.append(self)

    def kill_engines():
        chance = random.Random()
        while len(kills) < 2 and not over.is_set():
            over.wait(chance.uniform(0.0, 0.05))
            engines = opened[0]._engines if opened else []
            busy = [one for one in engines if one.state is EngineState.READY and one.busy]
            if len(busy) < 2:
                continue
            actor = chance.choice(busy).actor
            if len(kills) % 2:
                ray.kill(actor)
            else:
                os.kill(ray.get(actor.__ray_call__.remote(lambda host: os.getpid())), signal.SIGKILL)
            kills.append(actor)
            eventually(lambda: over.is_set() or opened[0].metrics()["engines_lost"] == len(kills))
            eventually(lambda: over.is_set() or opened[0].metrics()["engines"] == 2)

    monkeypatch.setattr(engine, "ClusterSampler", Recorded)
    killer = threading.Thread(target=kill_engines)
    killer.start()
    try:
        train(make_run(tmp_path / "run", *CLUSTER, "train.iterations=5", "train.group_size=8"))
    finally:
        over.set()
        killer.join()
    events = trained(tmp_path / "run")
    assert [(event["episodes"], event["errors"]) for event in events] == [(16, 0)] * 5
    assert 0 < events[-1]["engines_lost"] <= len(kills)  # one may die when the last request was answered
    assert events[-1]["requests_repeated"] > 0


@pytest.mark.slow
@pytest.mark.usefixtures("_warm")
def test_environment_workers_on_the_cluster_may_be_killed(tmp_path, monkeypatch):
    opened, kills, over = [], [], threading.Event()

    class Recorded(EnvActors):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            opened.append(self)

    def kill_workers():
        while len(kills) < 2 and not over.wait(0.2):
            found = [one for hosts in opened for one in hosts._processes if one.process.ready and one.connections]
            if found:
                actor = found[0].process._actor
                ray.kill(actor)
                kills.append(actor)
                over.wait(1.0)

    monkeypatch.setattr("turncredit.training.tasks.environments.EnvActors", Recorded)
    killer = threading.Thread(target=kill_workers)
    killer.start()
    words = [*CLUSTER, "cluster.engines=1", "env.workers=2", "env.deadline=60", "train.replacements=50"]
    try:
        outcome = train(make_run(tmp_path / "run", *words, "train.iterations=5", "train.group_size=8"))
    finally:
        over.set()
        killer.join()
    assert outcome.finished
    assert kills
    events = trained(tmp_path / "run")
    assert [event["episodes"] - event["errors"] for event in events] == [16] * 5  # every lost episode was played again
    assert not ray.is_initialized()


def test_what_the_section_asks_for(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    table = {"cluster": {"address": "auto", "engines": 3}, "sampler": {"options": {"tensor_parallel_size": 2}}}
    run = Run.parse(TABLE | table)
    settings = partial(cluster_settings, run.cluster, run.sampler.options)
    assert (settings("cpu", 0).gpus, settings("cuda:0", 8).gpus) == (0.0, 2.0)
    assert settings("cuda:0", 8).visible == "1,2,3,4,5,6,7"
    section = Run.parse(TABLE | table, ["cluster.engines.gpus=0.5"]).cluster
    shared = cluster_settings(section, run.sampler.options, "cuda:0", 1)
    assert (shared.gpus, shared.visible) == (0.5, None)
    assert engine_devices("7", "cuda:0", 1) == ""
    with pytest.raises(ConfigError, match="tensor_parallel_size must be an integer"):
        cluster_settings(run.cluster, {"tensor_parallel_size": "2"}, "cuda:0", 8)


def test_a_section_that_cannot_be_used_is_refused():
    with pytest.raises(ConfigError, match=r"cluster.engines has no effect: cluster.address is empty"):
        check_effects(Run.parse(TABLE, ["cluster.engines=2"]))
    with pytest.raises(ConfigError, match=r"cluster.learners has no effect: cluster.address is empty"):
        check_effects(Run.parse(TABLE, ["cluster.learners=2"]))
    served = {"sampler": {"engine": "openai", "url": "http://127.0.0.1:1/v1", "options": {"tokens": True}}}
    with pytest.raises(ConfigError, match="is a server of its own"):
        prepare(Run.parse(TABLE | served, ["cluster.address=local"]))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["cluster.address=foo"], 'cluster.address must be "local", "auto" or "host:port", got "foo"'),
        (["cluster.address=ray://127.0.0.1:10001"], "cluster.address must be"),
        (["cluster.address=127.0.0.1:9"], "no Ray cluster can be reached at 127.0.0.1:9"),
        (["cluster.address=local", "cluster.engines=9999"], "need 9999 cores, and this machine has"),
    ],
)
def test_a_cluster_that_cannot_be_used_is_refused_before_the_warm_start(words, message):
    with pytest.raises((ConfigError, SamplerError), match=re.escape(message)):
        prepare(Run.parse(TABLE, words))


ENDED = """
import psutil
from turncredit.engines.cluster.connection import Cluster, ClusterSettings

cluster = Cluster(ClusterSettings("local", cpus=0.5))
asyncio.run(cluster.reserve())
processes = psutil.Process().children(recursive=True)
for one in processes:
    one.terminate()
psutil.wait_procs(processes, timeout=3)  # some end only when the driver leaves
cluster.close()
print("closed", len(psutil.wait_procs(processes, timeout=30)[1]))
"""


@pytest.mark.slow
def test_a_cluster_whose_processes_were_ended_with_the_driver_is_left_at_once():
    """A scheduler that stops a job signals all of its processes; Ray would wait for its own for a minute, and abort."""
    pytest.importorskip("psutil")
    done = subprocess.run(
        [sys.executable, "-P", "-c", f"import asyncio{ENDED}"], capture_output=True, text=True, timeout=100
    )
    words = done.stdout.split()[-2:]  # Ray may print what its own processes say as they end
    assert (done.returncode, words) == (0, ["closed", "0"]), done.stderr[-2000:]

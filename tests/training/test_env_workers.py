"""Training with environments in processes of their own."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from test_training_loop import assert_same_weights, make_run, weights
from toys.waiting import gone

from turncredit.agents.files.trajectory_files import read_trajectories
from turncredit.agents.rollouts.env_processes import EnvProcesses
from turncredit.agents.rollouts.rollout import RolloutReport, rollout
from turncredit.engines.scripted import Random
from turncredit.training import ConfigError, train
from turncredit.training.parts import prepare

torch.set_num_threads(1)


def played(folder):
    """Return what does not depend on the last digits of log-probabilities, which depend on who shares a batch."""
    return sorted(
        (one.id, one.stop == "error", one.turns[0].prompt, one.turns[0].state, one.turns[0].admissible)
        for path in (folder / "trajectories").glob("*.jsonl")
        for one in read_trajectories(path)
    )


@pytest.mark.parametrize("staleness", [0, 1])
def test_a_run_with_workers_plays_what_the_run_without_plays(tmp_path, staleness):
    options = (
        "train.iterations=1",
        "evaluation.episodes=0",
        'trajectory_format=".jsonl"',
        f"train.staleness={staleness}",
    )
    here, elsewhere = tmp_path / "0", tmp_path / "2"
    for folder in (here, elsewhere):
        train(make_run(folder, *options, f"env.workers={folder.name}"))
    assert len(played(here)) > 4
    assert played(elsewhere) == played(here)


def test_an_evaluation_between_rollouts_uses_their_workers(tmp_path):
    """Pools that are in use at the same time share processes, which end with the last of them."""
    prepared = prepare(make_run(tmp_path, "env.workers=1"))
    agent, tasks, used = prepared.agent(None), prepared.environments.tasks[:2], []
    rollouts = prepared.environments.pool()
    for _ in range(2):
        with replace(prepared.environments, make=partial(prepared.environments.make)).pool() as pool:
            report = RolloutReport()
            for one in (rollouts, pool):
                assert rollout(agent, Random(), tasks, make=one, report=report)[0].finished
            assert report.replaced == 0
            used += prepared.environments.hosts._hosts.pids()
    assert len(used) == 2
    assert used[0] == used[1]
    rollouts.close()
    rollouts.close()  # gives back once only
    assert all(map(gone, used))
    with prepared.environments.pool() as pool:
        assert rollout(agent, Random(), tasks, make=pool)[0].finished
        assert prepared.environments.hosts._hosts.pids() != used[:1]


def test_the_number_of_workers_reaches_the_environments(tmp_path, monkeypatch):
    prepared = prepare(make_run(tmp_path, "env.workers=3", "env.deadline=5"))
    started = []
    plain = EnvProcesses.__init__

    def start(self, *arguments, **options):
        plain(self, *arguments, **options)
        started.append(self)

    monkeypatch.setattr(EnvProcesses, "__init__", start)
    with prepared.environments.pool() as pool:
        assert (started[0].workers, started[0].threads, pool.deadline) == (3, True, 5.0)
    with prepare(make_run(tmp_path)).environments.pool() as pool:
        assert pool.hosts is None
    with pytest.raises(ConfigError, match=r"env\.workers must be >= 0, got -1"):
        make_run(tmp_path, "env.workers=-1")


@pytest.mark.parametrize("deadline", [0, 60])
def test_a_run_with_workers_says_that_it_does_not_repeat_unless_their_answers_come_in_order(tmp_path, deadline):
    def told(*words):
        return [
            text for text in prepare(make_run(tmp_path, *words)).remarks() if "env.workers.deterministic = true" in text
        ]

    assert told("env.workers=1", f"env.deadline={deadline}")
    assert bool(told("env.workers=1", "env.workers.deterministic=true", f"env.deadline={deadline}")) == bool(deadline)
    assert not told()
    assert not told("env.workers=1", "train.staleness=1")  # it does not repeat in any case
    keys = r"env\.workers\.deterministic, env\.workers\.memory_gib"
    with pytest.raises(ConfigError, match=f"{keys} have no effect: env.workers is 0"):
        prepare(make_run(tmp_path, "env.workers.deterministic=true", "env.workers.memory_gib=1"))


def test_a_run_with_workers_and_answers_in_order_repeats_bit_for_bit(tmp_path):
    options = (
        "train.iterations=2",
        "evaluation.episodes=0",
        "train.concurrency=6",
        "env.workers=2",
        "env.workers.deterministic=true",
    )
    for name in ("first", "second"):
        train(make_run(tmp_path / name, *options))
    assert_same_weights(weights(tmp_path / "first", 2), weights(tmp_path / "second", 2))


def test_the_memory_of_a_worker_is_limited_in_a_runs_file(tmp_path):
    prepared = prepare(make_run(tmp_path, "env.workers=1", "env.workers.memory_gib=2.5"))
    with prepared.environments.pool():
        assert prepared.environments.hosts._hosts.memory_gib == 2.5

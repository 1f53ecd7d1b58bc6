"""Training with environments in processes of their own."""

import pytest
import torch
from test_training_loop import make_run

from turnwise.agents.env_processes import EnvProcesses
from turnwise.agents.store import read_trajectories
from turnwise.training import ConfigError, train
from turnwise.training.setup import prepare

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
    options = ("train.steps=1", "evaluation.episodes=0", 'trajectories=".jsonl"', f"train.staleness={staleness}")
    here, elsewhere = tmp_path / "0", tmp_path / "2"
    for folder in (here, elsewhere):
        train(make_run(folder, *options, f"env.workers={folder.name}"))
    assert len(played(here)) > 4
    assert played(elsewhere) == played(here)


def test_the_number_of_workers_reaches_the_environments(tmp_path):
    prepared = prepare(make_run(tmp_path, "env.workers=3", "env.deadline=5"))
    with prepared.env_pool() as pool:
        assert isinstance(pool.hosts, EnvProcesses)
        assert (pool.hosts.workers, pool.hosts.threads, pool.deadline) == (3, True, 5.0)
    with prepare(make_run(tmp_path)).env_pool() as pool:
        assert pool.hosts is None
    with pytest.raises(ConfigError, match=r"env\.workers must be >= 0, got -1"):
        make_run(tmp_path, "env.workers=-1")

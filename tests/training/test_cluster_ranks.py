"""Ranks of the learner as actors of a Ray cluster: the numbers of one process, a lost rank, and what is refused."""

import os

import pytest
import torch
from test_cluster_run import make_run, trained

ray = pytest.importorskip("ray")

from turnwise.agents.cluster import connection  # noqa: E402
from turnwise.agents.cluster.connection import Cluster  # noqa: E402
from turnwise.agents.errors import SamplerError  # noqa: E402
from turnwise.agents.models.model_folder import load_model  # noqa: E402
from turnwise.training import train  # noqa: E402
from turnwise.training.errors import RankLost  # noqa: E402

RANKS = ("cluster.address=local", "cluster.cpus=0.5", "cluster.learners=2", "train.concurrency=1")


@pytest.mark.slow
def test_two_ranks_train_as_one_process_does_and_either_resumes_the_other(tmp_path):
    alone = train(make_run(tmp_path / "alone", "train.concurrency=1"))
    together = train(make_run(tmp_path / "together", *RANKS))
    assert not ray.is_initialized()
    assert not {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} & os.environ.keys()
    mine, same = (load_model(one.checkpoint).state_dict() for one in (alone, together))
    assert all(torch.allclose(mine[name], same[name], atol=1e-5) for name in mine)
    keys = ("success", "reward", "loss", "grad_norm", "entropy")
    for one, other in zip(trained(tmp_path / "alone"), trained(tmp_path / "together"), strict=True):
        assert [one[key] for key in keys] == pytest.approx([other[key] for key in keys], rel=1e-3, abs=1e-5)
    assert train(make_run(tmp_path / "together", "train.concurrency=1", "train.iterations=3"), resume=True).step == 3
    assert train(make_run(tmp_path / "alone", *RANKS, "train.iterations=3"), resume=True).step == 3


@pytest.mark.slow
def test_a_rank_that_dies_ends_the_run_and_it_can_go_on(tmp_path, monkeypatch):
    actors = []
    start = Cluster.start_worker

    def recorded(self, *arguments, **options):
        actors.append(start(self, *arguments, **options))
        return actors[-1]

    def kill(event):
        if event["phase"] == "train" and event["iteration"] == 1:
            ray.kill(actors[0])

    monkeypatch.setattr(Cluster, "start_worker", recorded)
    words = (*RANKS, "train.iterations=3", "checkpoints.every=1")
    with pytest.raises(RankLost):
        train(make_run(tmp_path / "run", *words), on_event=kill)
    assert not ray.is_initialized()
    assert train(make_run(tmp_path / "run", *words), resume=True).step == 3


@pytest.mark.slow
def test_more_ranks_than_the_cluster_has_room_for(tmp_path, monkeypatch):
    monkeypatch.setattr(connection, "LOCAL_WAIT", 1.0)
    with pytest.raises(
        SamplerError, match=r"no room for 9998 workers of 1 CPU and 0 GPUs that cluster.learners asks for: it has \d"
    ):
        train(make_run(tmp_path / "run", "cluster.address=local", "cluster.learners=9999"))
    assert not ray.is_initialized()

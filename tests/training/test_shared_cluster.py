"""Engines and ranks of the learner on a Ray cluster that the process had started before: the numbers of one process.

The runs share the cluster, and each gives its room back. Runs that start and stop a cluster of their own, and what
losses cost, are in `test_cluster_run` and `test_cluster_losses`.
"""

import json
import os
from dataclasses import replace

import pytest
import torch
from test_cluster_run import make_run, trained
from toys.ray_cluster import small_cluster

ray = pytest.importorskip("ray")

from turncredit.agents.errors import SamplerError  # noqa: E402
from turncredit.agents.files.trajectory_files import read_trajectories  # noqa: E402
from turncredit.agents.models.model_folder import load_model  # noqa: E402
from turncredit.engines.cluster import connection  # noqa: E402
from turncredit.training import train  # noqa: E402

pytestmark = pytest.mark.slow
torch.set_num_threads(1)

ONE_ENGINE = ("cluster.address=local", "cluster.cpus=0.5")
RANKS = (*ONE_ENGINE, "cluster.learners=2", "train.concurrency=1")


@pytest.fixture(scope="module", autouse=True)
def cluster():
    with small_cluster(3):
        yield
        assert ray.is_initialized()  # runs leave a cluster that is not theirs


@pytest.mark.parametrize(
    ("rule", "inside"),
    [('{name="toys.sampling_rules:until_mixed", most=2}', False), ('{name="treerl", unit="tokens"}', True)],
    ids=["anew", "inside answers"],
)
def test_groups_grow_on_a_cluster_as_they_do_without(tmp_path, rule, inside):
    grow = (
        f"sampling.groups=[{rule}]",
        'sampling.tasks="toys.sampling_rules:rare"',
        "train.iterations=1",
        "train.concurrency=1",
    )
    train(make_run(tmp_path / "alone", *grow))
    train(make_run(tmp_path / "cluster", *grow, *ONE_ENGINE))
    mine, same = (json.loads((tmp_path / name / "sampling/000001.json").read_text()) for name in ("alone", "cluster"))
    assert mine == same
    mine, same = (
        [replace(member, seconds=0.0) for member in read_trajectories(tmp_path / name / "trajectories/000001.jsonl.gz")]
        for name in ("alone", "cluster")
    )
    assert mine == same
    assert any(member.fork_tokens for member in mine) == inside


def test_two_ranks_train_as_one_process_does_and_either_resumes_the_other(tmp_path):
    alone = train(make_run(tmp_path / "alone", "train.concurrency=1"))
    together = train(make_run(tmp_path / "together", *RANKS))
    assert not {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} & os.environ.keys()
    mine, same = (load_model(one.checkpoint).state_dict() for one in (alone, together))
    assert all(torch.allclose(mine[name], same[name], atol=1e-5) for name in mine)
    keys = ("success", "reward", "loss", "grad_norm", "entropy")
    for one, other in zip(trained(tmp_path / "alone"), trained(tmp_path / "together"), strict=True):
        assert [one[key] for key in keys] == pytest.approx([other[key] for key in keys], rel=1e-3, abs=1e-5)
    assert train(make_run(tmp_path / "together", "train.concurrency=1", "train.iterations=3"), resume=True).step == 3
    assert train(make_run(tmp_path / "alone", *RANKS, "train.iterations=3"), resume=True).step == 3


def test_more_ranks_than_the_cluster_has_room_for(tmp_path, monkeypatch):
    monkeypatch.setattr(connection, "LOCAL_WAIT", 1.0)
    sentence = "no room for 9998 workers of 1 CPU and 0 GPUs that cluster.learners asks for: it has 3 CPUs"
    with pytest.raises(SamplerError, match=sentence):
        train(make_run(tmp_path / "run", "cluster.address=local", "cluster.learners=9999"))

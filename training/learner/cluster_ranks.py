"""The ranks of the learner on a Ray cluster: actors that join the group whose rank 0 is this process.

The loop stays here. Each actor sets the variables that torchrun would set and serves rank 0 until the run ends; nothing
else differs from ranks under torchrun (`turncredit.training.learner.ranks`).
"""

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch

from turncredit.engines.cluster.connection import Cluster
from turncredit.engines.cluster.function_actor import FunctionActor
from turncredit.registry import import_rules
from turncredit.training.config.cluster import cluster_settings
from turncredit.training.config.run import Run
from turncredit.training.learner.policy import device_of
from turncredit.training.learner.rank_commands import Leader, lead, serve_rank
from turncredit.training.learner.ranks import agree, join

SERVE = "turncredit.training.learner.cluster_ranks:serve"


@contextmanager
def cluster_ranks(run: Run) -> Iterator[Leader]:
    """Start cluster.learners - 1 actors, and return the leader of the group; they end with the block.

    Args:
        run: the configuration, which the actors receive.

    Raises:
        SamplerError: there is no such cluster, it has too little room, or Ray is missing.
        TrainingError: the ranks do not meet, or differ.
    """
    device, others = device_of(run.policy.device), run.cluster.learners - 1
    cluster = Cluster(cluster_settings(run.cluster, run.sampler.options, device, torch.cuda.device_count()))
    gpus, actors = float(device.startswith("cuda")), []
    try:
        cluster.reserve_workers(others, "cluster.learners", gpus)
        shared = {"MASTER_ADDR": cluster.address, "MASTER_PORT": str(_free_port()), "WORLD_SIZE": str(others + 1)}
        for rank in range(1, others + 1):
            actor = cluster.start_worker(FunctionActor, import_rules(), calls=1, gpus=gpus)
            actor.run.remote(SERVE, {**shared, **_place(rank)}, run.model_dump())
            actors.append(actor)
        with _environment({**shared, **_place(0)}):
            ranks = join()
        try:
            _, ranks = agree(ranks, lambda: run)
            with lead(ranks) as leader:
                yield leader
        finally:
            ranks.leave()  # this process goes on, and may train again
    finally:
        for actor in actors:
            cluster.kill(actor)
        cluster.close()


def serve(table: Mapping[str, object]) -> None:
    """Be one of the other ranks, until rank 0 has ended.

    Args:
        table: the run, as `Run.model_dump` returned it.
    """
    ranks = join()
    _, ranks = agree(ranks, lambda: Run.model_validate(table))
    serve_rank(ranks)


def _place(rank: int) -> dict[str, str]:
    """Return the variables of one rank; Ray shows each actor its own GPU only."""
    return {"RANK": str(rank), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("", 0))
        return int(listener.getsockname()[1])


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value

"""Engines on a Ray cluster for a run: what its `[cluster]` section asks for, and which GPUs are theirs."""

import os

from turnwise.agents.cluster.connection import ClusterSettings, check_address, own_cores, require_ray
from turnwise.training.config.run import Run
from turnwise.training.errors import ConfigError

PARALLEL = ("tensor_parallel_size", "pipeline_parallel_size")
"""Options of an engine whose product is its number of GPUs."""


def check_cluster(run: Run) -> None:
    """Refuse a cluster that cannot be used, before any work.

    Raises:
        ConfigError: the engine is a server, which does not run on the cluster; or this machine has too few cores.
        SamplerError: Ray is missing, or nothing answers at the address.
    """
    if not run.cluster.address:
        return
    if run.sampler.engine == "openai":
        raise ConfigError('sampler.engine "openai" is a server of its own, so it cannot run on cluster.address')
    gpus_of_engine(run)
    if require_ray().is_initialized():  # by a program of the user's own, with the nodes that it likes
        return
    section = run.cluster
    check_address(section.address)
    wanted, cores = section.engines * section.cpus, own_cores()
    if section.address == "local" and wanted > cores:
        raise ConfigError(
            f"cluster.engines = {section.engines} with cluster.cpus = {section.cpus:g} need {wanted:g} cores, and this "
            f"machine has {cores}; lower one of them, or join a larger cluster with cluster.address"
        )


def cluster_settings(run: Run, device: str, gpus: int) -> ClusterSettings:
    """Return where the engines of a run are to run.

    Args:
        run: the run; cluster.address is set.
        device: of the learner, as torch names it.
        gpus: number of GPUs that this process sees.
    """
    section = run.cluster
    each = section.gpus or (float(gpus_of_engine(run)) if device.startswith("cuda") else 0.0)
    return ClusterSettings(
        address=section.address,
        engines=section.engines,
        cpus=section.cpus,
        gpus=each,
        timeout=section.timeout,
        visible=engine_devices(os.environ.get("CUDA_VISIBLE_DEVICES"), device, gpus) if each >= 1 else None,
    )


def gpus_of_engine(run: Run) -> int:
    """Return how many GPUs an engine computes on, as the options of its sampler say."""
    count = 1
    for name in PARALLEL:
        value = run.sampler.options.get(name, 1)
        if not isinstance(value, int) or value < 1:
            raise ConfigError(f"sampler.options.{name} must be an integer >= 1, got {value!r}")
        count *= value
    return count


def engine_devices(visible: str | None, device: str, gpus: int) -> str | None:
    """Return CUDA_VISIBLE_DEVICES for engines on this machine: all GPUs but the learner's.

    >>> engine_devices(None, "cuda:1", 4), engine_devices("4,6", "cuda", 2), engine_devices("0", "cpu", 1)
    ('0,2,3', '6', '0')

    Args:
        visible: the variable in this process; None: not set.
        device: of the learner.
        gpus: number of GPUs that this process sees.
    """
    if not device.startswith("cuda"):
        return visible
    names = visible.split(",") if visible is not None else [str(number) for number in range(gpus)]
    own = int(device.partition(":")[2] or 0)
    return ",".join(name for number, name in enumerate(names) if number != own)

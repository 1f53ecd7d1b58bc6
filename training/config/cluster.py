"""Engines on a Ray cluster for a run: what its `[cluster]` section asks for, and which GPUs are theirs."""

import os
from collections.abc import Mapping

from turncredit.engines.cluster.connection import ClusterSettings
from turncredit.engines.vllm.arguments import PARALLEL, replicas_of
from turncredit.training.config.sections import ClusterSection
from turncredit.training.errors import ConfigError


def cluster_settings(section: ClusterSection, options: Mapping[str, object], device: str, gpus: int) -> ClusterSettings:
    """Return where the engines of a run are to run.

    Args:
        section: the `[cluster]` section, with an address.
        options: options of the sampler.
        device: device of the learner, as torch names it.
        gpus: number of GPUs that this process sees.
    """
    every = gpus_of_engine(options) * replicas_of(options)
    each = section.engines.gpus or (float(every) if device.startswith("cuda") else 0.0)
    return ClusterSettings(
        address=section.address,
        engines=section.engines.count,
        cpus=section.cpus,
        gpus=each,
        timeout=section.engines.timeout,
        visible=engine_devices(os.environ.get("CUDA_VISIBLE_DEVICES"), device, gpus) if each >= 1 else None,
    )


def gpus_of_engine(options: Mapping[str, object]) -> int:
    """Return how many GPUs a copy of the model computes on, as the options of its sampler say.

    Raises:
        ConfigError: an option is not a number of GPUs.
    """
    count = 1
    for name in PARALLEL:
        value = options.get(name, 1)
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

"""A small Ray cluster on this machine, as a program has it that started Ray itself, with workers that begin warm."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from toys.warm_ray_workers import warm_workers


@contextmanager
def small_cluster(cpus: int) -> Iterator[None]:
    """Start a cluster, and stop it at the end of the block; SIGTERM keeps what it did before."""
    import ray

    from turncredit.engines.cluster.connection import patient_start

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    before = signal.getsignal(signal.SIGTERM)
    with patient_start(), warm_workers():
        ray.init(
            address="local",
            num_cpus=cpus,
            include_dashboard=False,
            object_store_memory=200 * 2**20,
            log_to_driver=False,
            _node_ip_address="127.0.0.1",
        )
    signal.signal(signal.SIGTERM, before)  # or other tests would have Ray's
    try:
        yield
    finally:
        ray.shutdown()

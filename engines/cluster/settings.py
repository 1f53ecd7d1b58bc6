"""Where the engines of a cluster run, and what is known of its nodes."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ClusterNode", "ClusterSettings"]


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Where engines run, and how many."""

    address: str = "local"
    """"local" starts a cluster on this machine; "auto" or "host:port" joins one."""
    engines: int = 1
    cpus: float = 1.0
    """CPUs reserved for each engine."""
    gpus: float = 0.0
    """GPUs reserved for each engine, all on one node."""
    wait: float = 60.0
    """Seconds to wait for nodes that join late."""
    timeout: float = 600.0
    """Seconds in which an engine must answer a request or load weights."""
    visible: str | None = None
    """CUDA_VISIBLE_DEVICES of a cluster that is started; None: that of this process."""


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """A node of a cluster that is alive."""

    address: str
    cpus: float
    gpus: float

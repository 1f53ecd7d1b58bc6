"""Peak memory of this process so far, in main memory and on its GPU.

Not included: child processes, such as workers for environments, and engines that are servers or processes of their own.
"""

from __future__ import annotations

import sys


def memory_use() -> dict[str, int]:
    """Return the peaks since the process began, in bytes: "process", and "device" where it computes on a GPU."""
    peaks = {}
    if sys.platform != "win32":
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        peaks["process"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    torch = sys.modules.get("torch")  # a program without it has nothing on a GPU
    if torch is not None and torch.cuda.is_initialized():
        devices = range(torch.cuda.device_count())
        peaks["device"] = max(int(torch.cuda.max_memory_allocated(device)) for device in devices)
    return peaks

"""Peak memory of this process so far, in main memory and on its GPU, and what its GPU holds for all processes.

Not included: the main memory of other processes, such as workers for environments, and of engines that have their own.
"""

from __future__ import annotations

import sys


def memory_use() -> dict[str, int]:
    """Return the memory in use, in bytes, the largest number of several GPUs.

    Returns:
        process: the peak of this process in main memory since it began.
        device, device_used: where it computes on a GPU, its peak there, and what is in use there now by all processes,
            such as an engine beside it.
    """
    peaks = {}
    if sys.platform != "win32":
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        peaks["process"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    torch = sys.modules.get("torch")  # a program without it has nothing on a GPU
    if torch is not None and torch.cuda.is_initialized():
        devices = range(torch.cuda.device_count())
        peaks["device"] = max(int(torch.cuda.max_memory_allocated(device)) for device in devices)
        peaks["device_used"] = max(_used(*torch.cuda.mem_get_info(device)) for device in devices)
    return peaks


def _used(free: int, total: int) -> int:
    return total - free

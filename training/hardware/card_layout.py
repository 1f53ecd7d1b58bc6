"""Engine and learner on one GPU: what each of them holds in every phase of an iteration, and whether it fits.

`turncredit plan` shows this layout, a run checks it before it computes anything, and the engine starts with its
numbers.

    start         the engine starts beside the learner's weights and optimizer
    new weights   the engine is awake without its KV cache, and the learner sends; with CUDA IPC both have a buffer
    rollouts      the engine has everything; the learner scores a text to compare both
    update        the learner has everything; the engine sleeps, if it may

Not included: several engines on the GPUs of one learner, and the allocators' fragmentation.
"""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass

from turncredit.agents.errors import EngineFailed
from turncredit.agents.model_facts import BYTES
from turncredit.engines.vllm.arguments import replicas_of
from turncredit.engines.vllm.gpu_memory import (
    UTILIZATION,
    EngineMemory,
    EngineSize,
    engine_memory,
    requested_bytes,
    require_start,
    shared_buffer_bytes,
)
from turncredit.training.config.cluster import gpus_of_engine
from turncredit.training.config.run import Run
from turncredit.training.learner.memory import GIB, NEAR, MemoryEstimate
from turncredit.training.learner.untyped import ModelConfig

LEARNER_PARTS = ("weights", "gradients", "optimizer", "reference")
"""Parts of the learner's memory that are divided among its GPUs; the others are needed on each."""
RESTING = ("weights", "optimizer", "reference")
"""Parts that stay while the learner computes nothing."""
SCORING = ("logits", "gathered")
"""Parts that it needs to score a text, and at most to send its weights."""
LIBRARIES = 0.75 * GIB
"""Assumed bytes of CUDA and of libraries in the learner's process."""
SPARE = 0.05
"""Share of the memory that a KV cache leaves free where the run does not set its size."""


@dataclass(frozen=True, slots=True)
class LearnerMemory:
    """Bytes that the learner holds on one GPU.

    Attributes:
        resting: while it computes nothing.
        scoring: while it scores a text, or sends its weights.
        update: during an update, at most.
    """

    resting: float
    scoring: float
    update: float

    @classmethod
    def of(cls, parts: Mapping[str, float], *, offload: bool | str) -> "LearnerMemory":
        """Return the learner's memory.

        Args:
            parts: from `learner_parts`.
            offload: whether the optimizer's states lie in main memory between updates; "all": the weights as well,
                which are then compared with the engine's after the rollouts, when it sleeps.
        """
        away = {"all": RESTING, True: ("optimizer",)}.get(offload, ())
        resting = LIBRARIES + sum(parts[name] for name in RESTING if name not in away)
        scoring = 0.0 if offload == "all" else sum(parts[name] for name in SCORING)
        return cls(resting, resting + scoring, LIBRARIES + sum(parts.values()))


@dataclass(frozen=True, slots=True)
class Phase:
    """What engine and learner hold in a phase of an iteration, in bytes."""

    name: str
    engine: float
    learner: float

    @property
    def together(self) -> float:
        """The sum of both."""
        return self.engine + self.learner


@dataclass(frozen=True, slots=True)
class CardLayout:
    """How engine and learner share one GPU.

    Attributes:
        engine: memory of the engine.
        learner: memory of the learner.
        sleeps: whether the engine sleeps during updates.
        total: bytes of the GPU.
        available: bytes of it that nobody else uses.
        utilization: gpu_memory_utilization that the engine starts with.
        fixed_cache: whether the engine gets the size of its KV cache; otherwise it takes what the utilization leaves.
        buffer: bytes of the buffer through which weights are sent, which the engine copies before it uses them.
    """

    engine: EngineMemory
    learner: LearnerMemory
    sleeps: bool
    total: float
    available: float
    utilization: float
    fixed_cache: bool = True
    buffer: int = 0

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The phases of an iteration, and the start before the first."""
        engine, learner = self.engine, self.learner
        return (
            Phase("start", engine.total, learner.resting),
            Phase("new weights", engine.loading + self.buffer, max(learner.scoring, learner.resting + self.buffer)),
            Phase("rollouts", engine.total, learner.scoring),
            Phase("update", engine.asleep if self.sleeps else engine.total, learner.update),
        )

    @property
    def cache_gib(self) -> float:
        """GiB of the KV cache that the engine is given; 0 where vLLM sizes it."""
        return self.engine.cache / GIB if self.fixed_cache else 0.0

    @property
    def peak(self) -> Phase:
        """The phase that needs the most."""
        return max(self.phases, key=lambda phase: phase.together)

    @property
    def problem(self) -> str:
        """What does not fit, as a part of a sentence; empty if everything does."""
        if self.peak.together > self.available:
            return f"the phase {self.peak.name!r} needs {_gib(self.peak.together)}, and {_gib(self.available)} are free"
        free = int(self.available - self.learner.resting)
        try:
            require_start(self.engine, free=free, total=int(self.total), utilization=self.utilization)
        except EngineFailed as error:
            return str(error)
        return ""

    @property
    def remark(self) -> str:
        """A sentence about a GPU that will nearly be full, or more than that; empty if it is not so."""
        if self.fits() and self.peak.together <= NEAR * self.available:
            return ""
        share = self.peak.together / self.available
        return (
            f"the phase {self.peak.name!r} takes {share:.0%} of the GPU's free memory: {describe(self)}; micro-batches "
            "are halved where memory runs out"
        )

    def fits(self) -> bool:
        """Return whether the engine starts, and every phase has the memory."""
        return not self.problem


def learner_parts(memory: MemoryEstimate, shards: int, gathered: float) -> dict[str, float]:
    """Return the bytes of each part on one of the learner's GPUs; several hold a part each, and gather what computes.

    Args:
        memory: of an update on one GPU.
        shards: GPUs over which one copy of the weights is divided.
        gathered: from `gathered_bytes`; 0 for one GPU.
    """
    parts = {name: size / shards if name in LEARNER_PARTS else float(size) for name, size in memory.parts.items()}
    return parts | {"gathered": gathered}


def parameters_of(run: Run, memory: MemoryEstimate) -> tuple[int, int]:
    """Return the number of the model's parameters, and of those that are trained, an adapter's included.

    Args:
        run: the configuration.
        memory: of an update on one GPU.
    """
    adapter = memory.gradients // 4 if run.policy.lora else 0  # it is held in float32
    held = BYTES[run.policy.dtype] if run.policy.lora else 4
    parameters = memory.parameters or (memory.weights - 4 * adapter) // held + adapter
    return parameters, adapter or parameters


def base_parameters(run: Run, memory: MemoryEstimate) -> int:
    """Return the number of the model's parameters without an adapter's.

    Args:
        run: the configuration.
        memory: of an update on one GPU.
    """
    parameters, trained = parameters_of(run, memory)
    return parameters - trained if run.policy.lora else parameters


def shares_card(run: Run, device: str) -> bool:
    """Return whether vLLM's engine computes on the GPU of the learner, in a run without a cluster.

    Args:
        run: the configuration.
        device: of the learner, as torch names it.
    """
    if run.sampler.engine != "vllm" or run.cluster.address or not device.startswith("cuda"):
        return False
    number, options = int(device.partition(":")[2] or 0), run.sampler.options
    if devices := str(options.get("devices", "")):
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
        return (visible[number] if number < len(visible) and visible[number] else str(number)) in devices.split(",")
    return number < gpus_of_engine(options) * replicas_of(options)


def card_layout(
    run: Run,
    config: ModelConfig,
    parts: Mapping[str, float],
    parameters: int,
    *,
    total: float,
    available: float,
    engines: int = 1,
) -> CardLayout:
    """Return how vLLM's engine and the learner share one GPU.

    The KV cache has sampler.kv_cache_gib. If that is 0, it has room for every episode that may be in play, as long as
    the run allows, or for as many tokens as fit.

    Args:
        run: the configuration.
        config: of its model, from transformers.
        parts: the learner's memory, see `learner_parts`.
        parameters: of the model, without an adapter's.
        total: bytes of the GPU.
        available: bytes of it that nobody else uses.
        engines: that divide the episodes, each with GPUs of its own.
    """
    options = run.sampler.options
    cache = int(run.sampler.kv_cache_gib * GIB)
    engine = engine_memory(config.to_dict(), engine_size(run, parameters), options, cache=cache)
    learner = LearnerMemory.of(parts, offload=run.train.optimizer.offload)
    sleeps = bool(options.get("sleep")) and not run.train.staleness.updates
    share = options.get(UTILIZATION)
    if not run.sampler.kv_cache_gib:
        if share is None:
            demand = math.ceil(at_once(run) / engines) * engine.sequence
            others = max(learner.scoring, 0 if sleeps else learner.update)
            room = available - SPARE * total - engine.total - others
            engine = engine.with_cache(max(engine.sequence, min(demand, int(room) // 2**20 * 2**20)))
        else:  # vLLM sizes the cache
            engine = engine.with_cache(max(0, requested_bytes(int(total), float(share)) - engine.requested))
    return CardLayout(
        engine=engine,
        learner=learner,
        sleeps=sleeps,
        total=total,
        available=available,
        utilization=engine.utilization(int(total)) if share is None else float(share),
        fixed_cache=bool(run.sampler.kv_cache_gib) or share is None,
        buffer=shared_buffer_bytes(config.to_dict(), parameters, engine_dtype(run)) if _sends_by_ipc(run) else 0,
    )


def engine_dtype(run: Run) -> str:
    """Return the type of the engine's weights."""
    return run.sampler.dtype or run.policy.dtype


def _sends_by_ipc(run: Run) -> bool:
    """Whether whole models go through a buffer on the GPU that both share; an adapter travels as a message."""
    adapter = bool(run.policy.lora) and bool(run.sampler.options.get("enable_lora"))
    return not adapter and run.sampler.options.get("transfer", "auto") in ("auto", "ipc")


def remedies(run: Run, layout: CardLayout) -> str:
    """Return what would make room, for the phase that needs the most."""
    update = layout.peak.name == "update"
    choices = {
        "sampler.options.sleep = true": update and not layout.sleeps and not run.train.staleness.updates,
        "train.staleness = 0 with sampler.options.sleep = true": update and bool(run.train.staleness.updates),
        f"a smaller sampler.kv_cache_gib (it has {layout.engine.cache / GIB:.1f})": not update or not layout.sleeps,
        "a smaller train.concurrency": not update,
        "train.optimizer.offload = true": not update
        and not run.train.optimizer.offload
        and not run.train.staleness.updates,
        'train.optimizer.offload = "all"': not update
        and run.train.optimizer.offload is True
        and not run.train.staleness.updates,
        "policy.recompute_activations = true": update and not run.policy.recompute_activations,
        'policy.dtype = "bfloat16"': run.policy.dtype != "bfloat16",
        "policy.lora": not run.policy.lora,
        "a smaller policy.context": True,
        'a GPU of its own for the learner (policy.device = "cuda:1")': True,
    }
    return "consider " + ", ".join(name for name, is_open in choices.items() if is_open)


def describe(layout: CardLayout) -> str:
    """Return the layout as a part of a sentence, with every part of the engine."""
    parts = ", ".join(f"{name} {size / GIB:.1f}" for name, size in layout.engine.parts.items() if size >= GIB / 20)
    return (
        f"the engine takes {_gib(layout.engine.total)} ({parts}), and the learner {_gib(layout.learner.resting)} at "
        f"rest and {_gib(layout.learner.update)} in an update"
    )


def at_once(run: Run) -> int:
    """Return how many episodes may be in play at once; asynchronous rollouts begin those of later iterations early."""
    train = run.train
    return min(
        ((train.staleness.updates + 1) * train.groups + train.staleness.spare_groups) * train.group_size,
        train.concurrency,
    )


def engine_size(run: Run, parameters: int) -> EngineSize:
    """Return the size of one engine of a run.

    Args:
        run: the configuration.
        parameters: of the model.
    """
    return EngineSize(
        parameters=parameters,
        dtype=engine_dtype(run),
        context=run.policy.context,
        sequences=run.train.concurrency,
        gpus=gpus_of_engine(run.sampler.options),
    )


def _gib(size: float) -> str:
    return f"{size / GIB:.1f} GiB"

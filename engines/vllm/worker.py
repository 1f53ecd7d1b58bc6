"""What vLLM's workers learn from turncredit: to load new weights and adapters, and to end with the process they serve.

Importing this module makes our backend of vLLM's weight transfer known to the worker that it extends.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from turncredit.agents.models.checkpoint_layout import ignored_names
from turncredit.agents.models.weights import named_tensors
from turncredit.engines.shared_buffer import rebuild_arguments
from turncredit.engines.vllm.gloo_backend import Described, Model, register_backend
from turncredit.engines.vllm.layer_reload import LayerReload
from turncredit.engines.vllm.memory_adapters import AdapterManager, add_adapter
from turncredit.engines.weight_files import check_shapes, shapes_of, unpacked

if TYPE_CHECKING:
    import torch

__all__ = ["WorkerExtension"]

if "vllm" in sys.modules:  # as in every worker
    register_backend()


class ModelRunner(Protocol):
    """What computes in a worker."""

    lora_manager: AdapterManager

    def get_model(self) -> Model:
        """Return the running model."""

    def reset_lora_state(self) -> None:
        """Forget the adapters of a model whose weights were replaced."""


class TransferEngine(Protocol):
    """The worker's side of a weight transfer."""

    def shutdown(self) -> None:
        """Leave the sender."""


class ModelConfig(Protocol):
    """vLLM's configuration of the model."""

    model: str
    dtype: torch.dtype


class TransferConfig(Protocol):
    """vLLM's configuration of the weight transfer."""

    backend: str


class ParallelConfig(Protocol):
    """vLLM's numbers of processes."""

    world_size: int
    data_parallel_size: int


class WorkerConfig(Protocol):
    """vLLM's configuration of a worker."""

    weight_transfer_config: TransferConfig | None
    parallel_config: ParallelConfig


class SharedTensors(Described):
    """Tensors in a `SharedBuffer`, whose handle there is for each GPU by its UUID."""

    tensor_sizes: list[int]
    handles: dict[str, list[object]]


class WorkerExtension:
    """Methods that vLLM adds to its worker class (`worker_extension_cls`), to be called through `collective_rpc`."""

    device: torch.device
    model_config: ModelConfig
    model_runner: ModelRunner
    vllm_config: WorkerConfig
    weight_transfer_engine: TransferEngine | None
    update_weights: Callable[[Mapping[str, object]], None]
    _weight_update_active: bool

    def end_with(self, user: int) -> None:
        """End this process and the engine that started it as soon as the process `user` has ended, even by SIGKILL."""
        if hasattr(os, "pidfd_open"):
            watch = threading.Thread(target=_end_with, args=(os.pidfd_open(user), user, os.getppid()), daemon=True)
            watch.start()

    def load_tensors(self, folder: str) -> None:
        """Load the weights of a Hugging Face folder with safetensors into the running model.

        Raises:
            SamplerError: the folder lacks tensors, or they are those of another model; nothing has changed then.
        """
        self.check_tensors({name: list(shape) for name, shape in shapes_of(Path(folder)).items()})
        self.abandon_weight_update()
        model, reload = self.model_runner.get_model(), self._layer_reload()
        with _configuration(self):
            reload.begin()
            try:
                model.load_weights(named_tensors(Path(folder)))
                reload.finish()
            except BaseException:
                reload.abandon()
                raise
        self.model_runner.reset_lora_state()

    def check_tensors(self, shapes: Mapping[str, Sequence[int]]) -> None:
        """Check that tensors are those of the model.

        Args:
            shapes: of the tensors, by name.

        Raises:
            SamplerError: tensors are missing, or they are those of another model.
        """
        model = Path(self.model_config.model)
        check_shapes({name: tuple(shape) for name, shape in shapes.items()}, shapes_of(model), ignored_names(model))

    def describe_engine(self) -> dict[str, object]:
        """Return type of the weights, backend of the transfer, and number of workers over all copies of the model."""
        config, parallel = self.vllm_config.weight_transfer_config, self.vllm_config.parallel_config
        return {
            "dtype": str(self.model_config.dtype).removeprefix("torch."),
            "backend": config.backend if config else "",
            "workers": parallel.world_size * parallel.data_parallel_size,
        }

    def update_shared_weights(self, update_info: SharedTensors) -> None:
        """Do what vLLM's `update_weights` does with the backend "ipc", for handles that are plain values.

        Args:
            update_info: names, dtype_names, shapes and tensor_sizes as vLLM has them, and `handles` by the UUID of a
                GPU, from `SharedBuffer`.
        """
        device, handles = int(self.device.index), update_info["handles"]
        plain = {name: value for name, value in update_info.items() if name != "handles"}
        plain["ipc_handles"] = {uuid: rebuild_arguments(handle, device) for uuid, handle in handles.items()}
        self.update_weights(plain)

    def abandon_weight_update(self) -> None:
        """Forget an update that failed, so that the next one begins afresh; without one, nothing happens."""
        failed, self._weight_update_active = self._weight_update_active, False
        with _configuration(self):
            failed = self._layer_reload().abandon() or failed
        if failed and self.weight_transfer_engine is not None:
            self.weight_transfer_engine.shutdown()  # it leaves the sender's group, and closes what the sender shares

    def add_adapter(self, number: int, config: Mapping[str, object], data: bytes) -> None:
        """Add a LoRA adapter, under a number by which requests name it.

        Args:
            number: a new one.
            config: as in peft's adapter_config.json.
            data: tensors in the format of safetensors, by the names that peft gives them.
        """
        add_adapter(self.model_runner.lora_manager, number, config, unpacked(data))

    def _layer_reload(self) -> LayerReload:
        reload = getattr(self.weight_transfer_engine, "reload", None) or getattr(self, "_reload", None)
        if not isinstance(reload, LayerReload):
            model, on_cpu = self.model_runner.get_model(), self.device.type == "cpu"
            reload = self._reload = LayerReload(model, self.model_config, on_cpu)
        return reload


def _configuration(worker: WorkerExtension) -> AbstractContextManager[None]:
    """Return a context in which vLLM's layers find their configuration."""
    from vllm.config import set_current_vllm_config

    context: AbstractContextManager[None] = set_current_vllm_config(worker.vllm_config)
    return context


def _end_with(descriptor: int, user: int, parent: int) -> None:
    """Wait until the process `user` has ended; then end this process, and its parent if that is the engine."""
    select.select([descriptor], [], [])
    if parent not in (user, 1) and os.getppid() == parent:
        os.kill(parent, signal.SIGKILL)
    os._exit(1)

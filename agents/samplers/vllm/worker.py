"""What vLLM's workers learn from turnwise: to load new weights, and to end when the process that uses them has ended.

`reload_weights` of vLLM leaves the output layer of a model that shares it with the embedding as it was: on a CPU, the
layer multiplies with a packed copy of the matrix, made when the model was loaded, and only layers that receive tensors
are packed again. On a CPU it also writes new experts, which are not packed, over the packed ones, so that the model
answers nonsense without an error. `_reload` sees to both.
"""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from turnwise.agents.errors import SamplerError
from turnwise.agents.models.checkpoint_layout import ignored_names
from turnwise.agents.models.weights import named_tensors
from turnwise.agents.samplers.weight_files import check_shapes, shapes_of
from turnwise.agents.samplers.weight_group import GroupPlace, Piece, WeightReceiver

__all__ = ["WorkerExtension"]


class WorkerExtension:
    """Methods that vLLM adds to its worker class (`worker_extension_cls`), to be called through `collective_rpc`."""

    def end_with(self, user: int) -> None:
        """End this process and the engine that started it as soon as the process `user` has ended, even by SIGKILL."""
        if hasattr(os, "pidfd_open"):
            watch = threading.Thread(target=_end_with, args=(os.pidfd_open(user), user, os.getppid()), daemon=True)
            watch.start()

    def load_tensors(self: Any, folder: str) -> None:
        """Load the weights of a Hugging Face folder with safetensors into the running model.

        Raises:
            SamplerError: the folder lacks tensors, or they are those of another model; nothing has changed then.
        """
        _check(shapes_of(Path(folder)), Path(self.model_config.model))
        self._reload(named_tensors(Path(folder)))

    def receive_tensors(self: Any, file: str, size: int, backend: str, pieces: list[Piece]) -> None:
        """Load the weights that the learner's process sends meanwhile into the running model.

        Args:
            file: where the group meets; see `GroupPlace`.
            size: size of the group.
            backend: backend of the group.
            pieces: what is sent, see `pieces_of`.

        Raises:
            SamplerError: tensors are missing, or they are those of another model; nothing has changed then.
        """
        shapes = {name: tuple(shape) for name, shape, _ in pieces}
        _check(shapes, Path(self.model_config.model))
        rendezvous = GroupPlace(file, size, backend)
        receiver = getattr(self, "_receiver", None)
        if receiver is None or receiver.rendezvous != rendezvous:
            parallel = self.parallel_config  # its data_parallel_rank is 0 in every copy of a dense model
            number = parallel.data_parallel_index * parallel.world_size + self.rank
            receiver = self._receiver = WeightReceiver(rendezvous, 1 + number, self.device)
        tensors = receiver.tensors(pieces)
        try:
            self._reload(tensors)
        finally:
            for _ in tensors:  # the others wait until everything was taken
                pass

    def _reload(self: Any, tensors: Iterable[tuple[str, object]]) -> None:
        if self.device.type != "cpu":
            self.reload_weights(weights_iterator=tensors)
            return
        layers = list(self.model_runner.get_model().modules())
        methods = [layer.quant_method for layer in layers if getattr(layer, "quant_method", None) is not None]
        kernels = {method: kernel for method in methods if (kernel := getattr(method, "moe_kernel", None)) is not None}
        for method in kernels:
            method.moe_kernel = None  # without one, experts are packed as when they were first loaded
        self.reload_weights(weights_iterator=tensors)
        stale = [method for method in kernels if method.moe_kernel is None]
        for method in stale:
            method.moe_kernel = kernels[method]
        if stale:
            raise SamplerError(f"vLLM left the experts of {len(stale)} layers as they were")
        for layer in layers:
            if type(layer).__name__ == "ParallelLMHead":
                layer.quant_method.process_weights_after_loading(layer)


def _check(shapes: Mapping[str, tuple[int, ...]], model: Path) -> None:
    """Check that tensors are those of the model in a folder."""
    check_shapes(shapes, shapes_of(model), ignored_names(model))


def _end_with(descriptor: int, user: int, parent: int) -> None:
    """Wait until the process `user` has ended; then end this process, and its parent if that is the engine."""
    select.select([descriptor], [], [])
    if parent not in (user, 1) and os.getppid() == parent:
        os.kill(parent, signal.SIGKILL)
    os._exit(1)

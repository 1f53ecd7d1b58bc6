"""vLLM's layers while new weights are loaded into them, and what vLLM 0.32 leaves undone.

Between `begin` and `finish` each layer collects tensors, and replaces its own once it has all of them.

On a CPU, vLLM leaves the output layer of a model that shares it with the embedding as it was: the layer multiplies with
a packed copy of the matrix, made when the model was loaded, and only layers that receive tensors are packed again. It
also writes new experts, which are not packed, over the packed ones, so that the model answers nonsense without an
error. Nowhere does vLLM forget a load that failed: its layers keep what they collected, and count it again at the next
load, so that a layer may be replaced before it has all of the new tensors. `LayerReload` sees to all three.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from turncredit.agents.errors import SamplerError

if TYPE_CHECKING:
    import torch

__all__ = ["LayerReload"]


class Layers(Protocol):
    """A model of vLLM."""

    def modules(self) -> Iterator[torch.nn.Module]:
        """Yield its layers."""


class ExpertMethod(Protocol):
    """How vLLM computes with the experts of a layer."""

    moe_kernel: object


class LayerReload:
    """Loads of new weights into a running model, one after another.

    Args:
        model: vLLM's module.
        config: vLLM's configuration of the model.
        on_cpu: whether it computes on a CPU.
    """

    def __init__(self, model: Layers, config: object, on_cpu: bool) -> None:
        self._model, self._config, self._on_cpu = model, config, on_cpu
        self._kernels: dict[ExpertMethod, object] = {}

    def begin(self) -> None:
        """Let the layers collect tensors."""
        from vllm.model_executor.model_loader.reload import initialize_layerwise_reload

        if self._on_cpu:
            for layer in self._model.modules():
                method: ExpertMethod | None = getattr(layer, "quant_method", None)
                if method is not None and getattr(method, "moe_kernel", None) is not None:
                    self._kernels[method] = method.moe_kernel
            for method in self._kernels:
                method.moe_kernel = None  # without one, experts are packed as when they were first loaded
        initialize_layerwise_reload(self._model)

    def finish(self) -> None:
        """Let the layers use what they collected.

        Raises:
            SamplerError: vLLM did not replace the experts of a layer.
        """
        from vllm.model_executor.model_loader.reload import finalize_layerwise_reload

        finalize_layerwise_reload(self._model, self._config)
        if stale := self._restore_kernels():
            raise SamplerError(f"vLLM left the experts of {stale} layers as they were")
        if self._on_cpu:
            for layer in self._model.modules():
                if type(layer).__name__ == "ParallelLMHead":
                    layer.quant_method.process_weights_after_loading(layer)  # type: ignore[operator, union-attr]

    def abandon(self) -> bool:
        """Forget a load that did not come to its end, and return whether there was one.

        Layers that lacked tensors get back those that they had.
        """
        from vllm.model_executor.model_loader.reload import finalize_layerwise_reload
        from vllm.model_executor.model_loader.reload.layerwise import get_layerwise_info

        collecting = [info for layer in self._model.modules() if (info := get_layerwise_info(layer)).can_load()]
        for info in collecting:
            info.loaded_weights.clear()
            info.load_numel = 0
        if collecting:
            finalize_layerwise_reload(self._model, self._config)
        self._restore_kernels()
        return bool(collecting)

    def _restore_kernels(self) -> int:
        """Give layers without a new kernel for their experts the old one, and return how many there were."""
        stale = [method for method in self._kernels if method.moe_kernel is None]
        for method in stale:
            method.moe_kernel = self._kernels[method]
        self._kernels = {}
        return len(stale)

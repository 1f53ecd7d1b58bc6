"""New weights of a served vLLM engine, over its HTTP interface for development (``VLLM_SERVER_DEV_MODE=1``).

The server reads them from a folder, so both need a common disk, or receives them from this process (option transfer).
Keys in the prefix cache belong to the old weights and are dropped.

Not included: NCCL.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from uuid import uuid4

from turncredit.agents.errors import EngineFailed, SamplerError
from turncredit.agents.json_types import JsonObject
from turncredit.agents.models.weights import Weights, WeightSource
from turncredit.engines.openai.client import OpenAIClient
from turncredit.engines.openai.options import OpenAIOptions
from turncredit.engines.openai.phases import ServedEngine, ServedPhases, make_sender, meet_engine
from turncredit.engines.weight_files import new_folder, write_adapter, write_tensors
from turncredit.engines.weight_pieces import dtype_of, pieces_of
from turncredit.engines.weight_transfer import WeightSender

__all__ = ["ServedWeights"]

WEIGHTS = "start it with `turncredit serve model`, or vLLM with VLLM_SERVER_DEV_MODE=1"
ADAPTERS = "start it with `turncredit serve model MODEL enable_lora=true`, or vLLM with --enable-lora and "
ADAPTERS += "VLLM_ALLOW_RUNTIME_LORA_UPDATING=1"


class ServedWeights:
    """Loads weights into a served engine, as a whole model or as an adapter."""

    def __init__(self, client: OpenAIClient, options: OpenAIOptions, device: str) -> None:
        """Keep the client.

        Args:
            client: client of the server.
            options: ``folder``, ``transfer`` and ``adapters`` count.
            device: of the learner, as torch names it.
        """
        self._client, self._options, self._device = client, options, device
        self._engine: ServedEngine | None = None
        self._sender: WeightSender | None = None
        self.lost = False
        """Whether the engine has no complete weights, until a load brings them."""
        self._adapter = ""
        self._name = f"turncredit-{uuid4().hex[:8]}"  # a server may still have adapters of others, under their names

    async def load(self, weights: Weights, version: int) -> str:
        """Load new weights, and return the name of their adapter; "" for a whole model.

        Args:
            weights: weights of a module, of named tensors or in a folder; an adapter's as well.
            version: part of the adapter's name, since a server keeps an adapter under a name as it was.

        Raises:
            EngineFailed: the server lacks the interface, or cannot load the weights.
            SamplerError: the weights cannot be written.
        """
        source = weights.source
        if weights.adapter_folder is not None:
            await self._load_adapter(weights.adapter_folder.resolve(), version)
        elif isinstance(source, Path):
            await self._load_folder(source.resolve(), version)
        elif self._options.adapters and weights.has_adapter:
            await self._load_written(source, version, self._load_adapter, write_adapter, {})
        elif self._options.transfer != "files":
            await self._send(source)
        else:
            tensors = source.values() if isinstance(source, Mapping) else source.parameters()
            shapes = {str(number): tuple(tensor.shape) for number, tensor in enumerate(tensors)}
            await self._load_written(source, version, self._load_folder, write_tensors, shapes)
        answer = await self._command(self._client.root + "/reset_prefix_cache", {}, WEIGHTS)
        if answer.get("success") is False:
            raise EngineFailed(f"{self._client.root}/reset_prefix_cache failed: requests are still running")
        return self._adapter

    async def _send(self, weights: WeightSource) -> None:
        """Send a whole model, after the server has agreed to its tensors.

        Raises:
            EngineFailed: it cannot receive them, or they are those of another model.
        """
        transfer = self._options.transfer
        self._engine = self._engine or await meet_engine(self._client, transfer)
        self._sender = self._sender or make_sender(transfer, self._client, self._engine, self._device)
        pieces = pieces_of(weights, dtype_of(self._engine.dtype))
        phases = ServedPhases(self._client, asyncio.get_running_loop())
        try:
            await asyncio.to_thread(phases.check_tensors, pieces)
            self.lost = True
            await asyncio.to_thread(self._sender.send, weights, pieces)
        except EngineFailed:
            raise
        except SamplerError as error:
            raise EngineFailed(f"could not load the new weights: {error}") from error
        self.lost = False
        await self._use("")

    async def _load_written(
        self,
        weights: WeightSource,
        version: int,
        load: Callable[[Path, int], Awaitable[None]],
        write: Callable[[WeightSource, Path], None],
        shapes: Mapping[str, tuple[int, ...]],
    ) -> None:
        """Write weights, of these shapes, into a temporary folder, load them from there, and remove it."""
        shared = self._options.folder
        try:
            folder = Path(tempfile.mkdtemp(prefix="turncredit-", dir=shared)) if shared else new_folder(shapes)
            folder.chmod(0o755)  # the server may belong to another user
        except OSError as error:
            raise SamplerError(f"new weights cannot be written into {shared}: {error.strerror}") from error
        try:
            await asyncio.to_thread(write, weights, folder)
            await load(folder, version)
        except OSError as error:
            raise SamplerError(f"new weights cannot be written into {folder}: {error.strerror}") from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    async def _load_folder(self, folder: Path, version: int) -> None:
        """Load a whole model with `WorkerExtension`, where the server has it, else with vLLM's own method.

        The latter does not say whether every tensor was replaced: on a CPU, vLLM 0.32 leaves the output layer of a
        model with tied embeddings as it was. A run scores a fixed text after each load.
        """
        url = self._client.root + "/collective_rpc"
        try:
            await self._command(url, {"method": "load_tensors", "args": [str(folder)]}, WEIGHTS)
        except EngineFailed as error:
            if "has no attribute" not in str(error):
                raise
            plain = {"method": "reload_weights", "kwargs": {"weights_path": str(folder)}}
            await self._command(url, plain, WEIGHTS)
        self.lost = False
        await self._use("")

    async def _load_adapter(self, folder: Path, version: int) -> None:
        name = f"{self._name}-{version}"
        body = {"lora_name": name, "lora_path": str(folder)}
        await self._command(self._client.url + "/load_lora_adapter", body, ADAPTERS)
        await self._use(name)

    async def _use(self, adapter: str) -> None:
        """Replace the adapter of the requests; "": the model alone."""
        if self._adapter and self._adapter != adapter:
            body = {"lora_name": self._adapter}
            await self._command(self._client.url + "/unload_lora_adapter", body, ADAPTERS)
        self._adapter = adapter

    async def _command(self, url: str, body: JsonObject, how: str) -> JsonObject:
        try:
            return await self._client.command(url, body)
        except EngineFailed as error:
            missing = "HTTP 404" in str(error) or "HTTP 405" in str(error)
            hint = (
                f"the server has no interface for new weights; {how}" if missing else "could not load the new weights"
            )
            raise EngineFailed(f"{hint}: {error}") from error

"""The phases of vLLM's weight transfer over HTTP, where the server has its interface for development.

A server on this machine receives weights through main memory ("gloo"), or reads them from a buffer on a GPU that both
processes see ("ipc"). Both have their own part of the work done in the server by `WorkerExtension`.

Not included: NCCL, for which the learner's process needs vLLM as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from turncredit.agents.errors import EngineFailed, SamplerError
from turncredit.engines.openai.client import OpenAIClient
from turncredit.engines.weight_pieces import Piece
from turncredit.engines.weight_transfer import GLOO, GlooSender, IpcSender, WeightSender

__all__ = ["ServedEngine", "ServedPhases", "make_sender", "meet_engine"]

BACKENDS = {"gloo": GLOO, "ipc": "ipc"}
"""Names of vLLM's backends."""


@dataclass(frozen=True, slots=True)
class ServedEngine:
    """What a server says about its engine.

    Attributes:
        dtype: type of its weights, as torch names it, without `torch.`.
        backend: of its weight transfer; empty if it has none.
        workers: number of processes that hold weights.
    """

    dtype: str
    backend: str
    workers: int


async def meet_engine(client: OpenAIClient, transfer: str) -> ServedEngine:
    """Return what a server says about its engine.

    Raises:
        EngineFailed: it cannot receive weights in this way.
    """
    answer = await client.command(client.root + "/collective_rpc", {"method": "describe_engine"})
    described: Mapping[str, object] = (answer.get("results") or [{}])[0]
    engine = ServedEngine(
        str(described.get("dtype", "")), str(described.get("backend", "")), int(str(described.get("workers", 1)))
    )
    if engine.backend != BACKENDS[transfer]:
        raise EngineFailed(
            f'{client.root} was not started for transfer = "{transfer}": start it with `turncredit serve model MODEL '
            f"transfer={transfer}`"
        )
    return engine


def make_sender(transfer: str, client: OpenAIClient, engine: ServedEngine, device: str) -> WeightSender:
    """Return what sends weights to a server; it must be made on the event loop of the client.

    Args:
        transfer: "gloo" or "ipc".
        client: client of the server.
        engine: from `meet_engine`.
        device: of the learner, as torch names it.

    Raises:
        SamplerError: the learner has no GPU to share.
    """
    phases = ServedPhases(client, asyncio.get_running_loop())
    if transfer == "gloo":
        return GlooSender(phases, engine.workers)
    if not device.startswith("cuda"):
        raise SamplerError(
            f'the option transfer = "ipc" shares memory of the learner\'s GPU, and its device is {device}; use "gloo"'
        )
    return IpcSender(phases, [device])


class ServedPhases:
    """Calls each phase of a server from a thread, and returns when it is done."""

    def __init__(self, client: OpenAIClient, loop: asyncio.AbstractEventLoop) -> None:
        """Keep the client, and the loop on which it runs."""
        self._client, self._loop = client, loop

    def init_weight_transfer_engine(self, init_info: dict[str, object]) -> None:
        """Let the workers meet the sender."""
        self._post("/init_weight_transfer_engine", {"init_info": init_info})

    def start_weight_update(self) -> None:
        """Let the workers wait for tensors."""
        self._post("/start_weight_update", {})

    def update_weights(self, update_info: Mapping[str, object]) -> None:
        """Let the workers receive tensors."""
        self._post("/update_weights", {"update_info": update_info})

    def update_shared_weights(self, update_info: Mapping[str, object]) -> None:
        """Let the workers read tensors from a `SharedBuffer`."""
        self._call("update_shared_weights", update_info)

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        """Let the workers use what they received."""
        self._post("/finish_weight_update", {"weight_version": weight_version})

    def abandon_weight_update(self) -> None:
        """Let the workers forget an update that failed."""
        self._call("abandon_weight_update")

    def check_tensors(self, pieces: Sequence[Piece]) -> None:
        """Refuse tensors that are not those of the server's model, before anything changes."""
        self._call("check_tensors", {piece.name: list(piece.shape) for piece in pieces})

    def _call(self, method: str, *arguments: object) -> None:
        self._post("/collective_rpc", {"method": method, "args": list(arguments)})

    def _post(self, path: str, body: Mapping[str, object]) -> None:
        """Send a command.

        Raises:
            SamplerError: it failed; the server may go on.
        """
        work = self._client.command(self._client.root + path, body)
        try:
            asyncio.run_coroutine_threadsafe(work, self._loop).result()
        except EngineFailed as error:
            raise SamplerError(str(error)) from error

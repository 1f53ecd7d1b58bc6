"""Senders of new weights to the workers of a vLLM engine, in the four phases of vLLM's interface for weight transfer.

    init_weight_transfer_engine    once: both sides meet
    start_weight_update            the model's layers wait for tensors
    update_weights                 tensors arrive, and each layer that is complete is replaced
    finish_weight_update           the rest is replaced

    gloo    broadcasts from main memory to main memory, in a group of the learner's process and the workers
    ipc     a buffer on the GPU that both processes see (CUDA IPC): no copy through main memory
    nccl    broadcasts from GPU to GPU, which cannot be one and the same GPU

A sender drives the phases through a `TransferClient`, which reaches an engine in this process or a server. An update
that fails is abandoned: its layers get back what they had, some of it new, and the next update begins afresh.

Not included: several engines for one sender, and machines without a common folder (gloo).
"""

from __future__ import annotations

import shutil
import socket
import tempfile
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from turncredit.agents.errors import EngineFailed, SamplerError
from turncredit.agents.models.weights import WeightSource
from turncredit.engines.shared_buffer import SharedBuffer
from turncredit.engines.weight_pieces import BUCKET, FullStream, Piece, WeightStream, buckets

if TYPE_CHECKING:
    import torch

__all__ = [
    "GLOO",
    "GlooSender",
    "GroupPlace",
    "IpcSender",
    "NcclSender",
    "ProcessGroup",
    "TransferClient",
    "WeightSender",
    "join",
    "received",
]

GLOO = "turncredit_gloo"
"""Name of our backend among vLLM's."""
TIMEOUT = timedelta(minutes=2)
"""How long one side waits for the other."""


class TransferClient(Protocol):
    """The engine's side of the phases, as vLLM's own senders use it, and two methods of our worker extension."""

    def init_weight_transfer_engine(self, init_info: dict[str, object]) -> None:
        """Let the workers meet the sender."""

    def start_weight_update(self) -> None:
        """Let the workers wait for tensors."""

    def update_weights(self, update_info: Mapping[str, object]) -> None:
        """Let the workers receive tensors."""

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        """Let the workers use what they received."""

    def update_shared_weights(self, update_info: Mapping[str, object]) -> None:
        """Let the workers read tensors from a `SharedBuffer`, whose handle travels as plain values."""

    def abandon_weight_update(self) -> None:
        """Let the workers forget an update that failed."""


class Broadcast(Protocol):
    """A broadcast in progress."""

    def wait(self) -> object:
        """Return when it is done."""


class ProcessGroup(Protocol):
    """A process group of torch."""

    def broadcast(self, tensors: list[torch.Tensor]) -> Broadcast:
        """Send from member 0, or receive from it."""


class Trainer(Protocol):
    """vLLM's own sender."""

    client: object
    source: object

    def send_weights(self) -> None:
        """Go through all phases but the first."""

    def shutdown(self) -> None:
        """Leave the group."""


@dataclass(frozen=True, slots=True)
class GroupPlace:
    """Where the members of a group meet.

    Attributes:
        file: that all of them see.
        size: number of members.
    """

    file: str
    size: int


class WeightSender(ABC):
    """Sends weights to the workers of one engine.

    Attributes:
        seconds: of the last `send`, by step: gather (tensors of the learner, one after another), pack (their type, and
            one buffer for many), send, init, start, update and finish. With gloo and nccl, update runs at the same
            time as gather, pack and send.
    """

    def __init__(self, client: TransferClient) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._client: TransferClient = TimedClient(client, self._step)
        self._open = self._broken = False
        self._device = ""

    def send(self, weights: WeightSource, pieces: Sequence[Piece]) -> None:
        """Send the pieces of some weights, and let the engine use them.

        Args:
            weights: that `pieces_of` listed.
            pieces: its list.

        Raises:
            SamplerError: they could not be sent; the engine has some of them, and must answer nothing before a load
                succeeds.
            EngineFailed: the engine has ended.
        """
        self.seconds.clear()
        stream = WeightStream(weights, pieces, self._device)
        try:
            if self._broken:
                self._mend()
            if not self._open:
                self._connect(stream)
                self._open = True
            self._phases(stream)
        except Exception as error:  # of torch, of vLLM, or of the workers
            self._broken = True
            self.close()
            if isinstance(error, EngineFailed):
                raise
            with suppress(SamplerError):  # it is tried again before the next weights
                self._mend()
            reason = str(error) or type(error).__name__
            raise SamplerError(f"the weights could not be sent to the engine's workers: {reason}") from error
        finally:
            self._release()

    def close(self) -> None:
        """Leave the workers; a second call does nothing, and the next `send` meets them again."""
        self._open = False

    def _phases(self, stream: WeightStream) -> None:
        self._client.start_weight_update()
        self._update(stream)
        stream.check()
        self._client.finish_weight_update()

    @abstractmethod
    def _connect(self, stream: WeightStream) -> None:
        """Meet the workers."""

    @abstractmethod
    def _update(self, stream: WeightStream) -> None:
        """Send all tensors, and return when the workers have them."""

    def _release(self) -> None:  # noqa: B027 - most senders keep nothing
        """Give back what was needed to send."""

    def _mend(self) -> None:
        self._client.abandon_weight_update()
        self._broken = False

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        """Add the time inside to a step."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - started

    def _gathered(self, stream: WeightStream) -> Iterator[torch.Tensor]:
        """Yield the stream's tensors, and note how long each took."""
        tensors = stream.tensors()
        while True:
            with self._step("gather"):
                tensor = next(tensors, None)
            if tensor is None:
                return
            yield tensor


class GlooSender(WeightSender):
    """Broadcasts from main memory to main memory.

    Args:
        client: reaches the engine.
        workers: how many receive.
    """

    def __init__(self, client: TransferClient, workers: int) -> None:
        super().__init__(client)
        self._size = workers + 1
        self._folder: Path | None = None
        self._group: ProcessGroup | None = None

    def close(self) -> None:
        """Leave the group, whose members then stop waiting."""
        super().close()
        self._group = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _connect(self, stream: WeightStream) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="turncredit-group-"))
        meeting = GroupPlace(str(self._folder / "store"), self._size)
        with self._meanwhile(lambda: self._client.init_weight_transfer_engine(asdict(meeting))):
            self._group = join(meeting, 0)

    def _update(self, stream: WeightStream) -> None:
        import torch

        group, tensors = self._group, self._gathered(stream)
        if group is None:
            raise SamplerError("there is no group to send to")
        with self._meanwhile(lambda: self._client.update_weights(stream.described())):
            for bucket in buckets(stream.pieces):
                parts = [next(tensors) for _ in bucket]
                with self._step("pack"):
                    whole = torch.cat([part.to(bucket[0].dtype).flatten() for part in parts]).cpu()
                with self._step("send"):
                    group.broadcast([whole]).wait()

    @contextmanager
    def _meanwhile(self, call: Callable[[], None]) -> Iterator[None]:
        """Let the workers do their part in another thread; what fails there is the better explanation."""
        thread = ThreadPoolExecutor(1)
        theirs: Future[None] = thread.submit(call)
        try:
            yield
        except Exception:
            self.close()  # so that they stop waiting
            with suppress(TimeoutError):
                theirs.result(TIMEOUT.total_seconds())
            raise
        finally:
            thread.shutdown(wait=False)
        theirs.result()


class IpcSender(WeightSender):
    """Lets the workers read from buffers on their GPUs; the engine may share them with the learner.

    Args:
        client: reaches the engine.
        devices: the engine's GPUs, as torch names them in this process.
    """

    def __init__(self, client: TransferClient, devices: Sequence[str]) -> None:
        super().__init__(client)
        self._devices = list(devices)
        self._buffers: list[SharedBuffer] = []

    def _connect(self, stream: WeightStream) -> None:
        self._client.init_weight_transfer_engine({"packed": True})

    def _update(self, stream: WeightStream) -> None:
        parts = list(buckets(stream.pieces))
        size = max(sum(piece.nbytes for piece in bucket) for bucket in parts)
        with self._step("pack"):
            self._buffers = [SharedBuffer(device, size) for device in self._devices]
        first, tensors = self._buffers[0], self._gathered(stream)
        for bucket in parts:
            end = 0
            for piece in bucket:
                tensor = next(tensors)
                with self._step("pack"):
                    end = first.put(tensor, piece.dtype, end)
            with self._step("pack"):
                for buffer in self._buffers[1:]:
                    buffer.copy(first, end)
                for buffer in self._buffers:
                    buffer.wait()
            self._client.update_shared_weights(
                {
                    **WeightStream({}, bucket).described(),
                    "tensor_sizes": [piece.nbytes for piece in bucket],
                    "handles": {buffer.uuid: buffer.handle for buffer in self._buffers},
                }
            )

    def _release(self) -> None:
        for buffer in self._buffers:
            buffer.free()
        self._buffers = []


class NcclSender(WeightSender):
    """Broadcasts from the learner's GPU to those of the engine, with vLLM's own sender.

    Args:
        client: reaches the engine.
        workers: how many receive.
        device: the learner's GPU.
    """

    def __init__(self, client: TransferClient, workers: int, device: str) -> None:
        super().__init__(client)
        self._size, self._device = workers + 1, device
        self._trainer: Trainer | None = None

    def close(self) -> None:
        """Leave the group."""
        super().close()
        if self._trainer is not None:
            self._trainer.shutdown()
        self._trainer = None

    def _connect(self, stream: WeightStream) -> None:
        import torch
        from vllm.distributed.weight_transfer import WeightTransferTrainerFactory
        from vllm.distributed.weight_transfer.nccl_engine import NCCLTrainerInitInfo

        meeting = NCCLTrainerInitInfo(
            rank=0,
            master_address="127.0.0.1",
            master_port=_free_port(),
            world_size=self._size,
            packed_buffer_size_bytes=BUCKET,
        )
        with torch.cuda.device(self._device):
            self._trainer = WeightTransferTrainerFactory.trainer_init(
                meeting, client=self._client, source=_as_read(stream)
            )

    def _phases(self, stream: WeightStream) -> None:
        import torch

        if self._trainer is None:
            raise SamplerError("there is no group to send to")
        self._trainer.source = _as_read(stream)
        self._trainer.client = CheckedClient(self._client, stream)
        with torch.cuda.device(self._device):  # each thread has a GPU of its own
            self._trainer.send_weights()

    def _update(self, stream: WeightStream) -> None:
        """Do nothing: vLLM's sender goes through all phases by itself."""


def _as_read(stream: WeightStream) -> WeightStream | FullStream:
    """Return a stream in the form in which the senders of the installed vLLM read it."""
    from vllm.distributed.weight_transfer import WeightSource

    return FullStream(stream) if hasattr(WeightSource, "iter_full") else stream


class TimedClient:
    """A client that notes how long each phase takes."""

    def __init__(self, client: TransferClient, step: Callable[[str], AbstractContextManager[None]]) -> None:
        self._client, self._step = client, step

    def init_weight_transfer_engine(self, init_info: dict[str, object]) -> None:
        """Let the workers meet the sender."""
        with self._step("init"):
            self._client.init_weight_transfer_engine(init_info)

    def start_weight_update(self) -> None:
        """Let the workers wait for tensors."""
        with self._step("start"):
            self._client.start_weight_update()

    def update_weights(self, update_info: Mapping[str, object]) -> None:
        """Let the workers receive tensors."""
        with self._step("update"):
            self._client.update_weights(update_info)

    def update_shared_weights(self, update_info: Mapping[str, object]) -> None:
        """Let the workers read tensors from a buffer."""
        with self._step("update"):
            self._client.update_shared_weights(update_info)

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        """Let the workers use what they received."""
        with self._step("finish"):
            self._client.finish_weight_update(weight_version)

    def abandon_weight_update(self) -> None:
        """Let the workers forget an update that failed."""
        self._client.abandon_weight_update()


class CheckedClient(TimedClient):
    """A client that does not finish an update whose tensors were not all there."""

    def __init__(self, client: TransferClient, stream: WeightStream) -> None:
        super().__init__(client, lambda _: nullcontext())
        self._stream = stream

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        """Raise what kept a tensor from being sent, or let the workers use what they received."""
        self._stream.check()
        super().finish_weight_update(weight_version)


def join(place: GroupPlace, rank: int) -> ProcessGroup:
    """Return the group as this member sees it; all members call it at about the same time.

    Args:
        place: where they meet.
        rank: number of this member: 0 for the sender, from 1 on for the workers.
    """
    import torch.distributed as dist

    store = dist.FileStore(place.file, place.size)  # type: ignore[attr-defined]
    store.set_timeout(TIMEOUT)
    group: ProcessGroup = dist.ProcessGroupGloo(store, rank, place.size, TIMEOUT)  # type: ignore[assignment]
    return group


def received(group: ProcessGroup, pieces: Sequence[Piece]) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors that a `GlooSender` sends to this member of its group; all of them must be taken."""
    import torch

    for bucket in buckets(pieces):
        sizes = [torch.Size(piece.shape).numel() for piece in bucket]
        whole = torch.empty(sum(sizes), dtype=bucket[0].dtype)
        group.broadcast([whole]).wait()
        for piece, part in zip(bucket, torch.split(whole, sizes), strict=True):
            yield piece.name, part.view(piece.shape)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port

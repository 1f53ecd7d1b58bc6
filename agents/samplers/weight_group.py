"""Weights on their way to the workers of an engine: a process group in which the learner's process sends to all others.

    in the learner's process                      in each worker
    sender = WeightSender(workers, "gloo")        receiver = WeightReceiver(sender.rendezvous, rank, device)
    pieces = pieces_of(weights)
    sender.send(weights, pieces)                  load(receiver.tensors(pieces))

The list of pieces goes ahead by another way, so that a worker can refuse weights that do not fit before anything is
sent. Both sides cut it into the same buckets; each bucket is one broadcast. gloo sends from main memory to main memory,
NCCL from GPU to GPU, which cannot be one and the same GPU.

Not included: several engines in one group, machines without a common folder.
"""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnwise.agents.errors import SamplerError
from turnwise.agents.models.checkpoint_layout import described_tensors, one_name_each
from turnwise.agents.models.weights import WeightSource

if TYPE_CHECKING:
    import torch

__all__ = ["BACKENDS", "GroupPlace", "Piece", "WeightReceiver", "WeightSender", "pieces_of"]

BACKENDS = ("gloo", "nccl")
BUCKET = 2**28
"""Bytes after which a bucket is full; a larger tensor is a bucket by itself."""
TIMEOUT = timedelta(minutes=2)
"""How long one side waits for the other."""

Piece = tuple[str, tuple[int, ...], str]
"""Name, shape and type of a tensor as it is sent; the type as torch names it, without `torch.`."""


@dataclass(frozen=True, slots=True)
class GroupPlace:
    """Where the members of a group meet: a file that all of them see."""

    file: str
    size: int
    backend: str


class WeightSender:
    """Sends weights to the workers of one engine, of which each needs a `WeightReceiver` with a rank from 1 on.

    Args:
        workers: how many there are.
        backend: one of BACKENDS.
    """

    def __init__(self, workers: int, backend: str) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="turnwise-group-"))
        self.rendezvous = GroupPlace(str(self._folder / "store"), workers + 1, backend)
        self._group: Any = None

    def send(self, weights: WeightSource, pieces: Sequence[Piece]) -> None:
        """Send the pieces of some weights; the workers must receive them meanwhile.

        Args:
            weights: that `pieces_of` listed.
            pieces: its list.

        Raises:
            SamplerError: a worker does not take part.
        """
        import torch

        try:
            if self._group is None:
                self._group = _join(self.rendezvous, 0)
            tensors = (tensor for _, tensor in one_name_each(weights, {name for name, _, _ in pieces}))
            for bucket in _buckets(pieces):
                dtype = getattr(torch, bucket[0][2])
                parts = [next(tensors).detach().to(dtype).flatten() for _ in bucket]
                whole = torch.cat(parts)
                self._broadcast(whole if self.rendezvous.backend == "nccl" else whole.cpu())
        except (RuntimeError, ValueError) as error:
            self.close()
            raise SamplerError(f"the weights could not be sent to the engine's workers: {error}") from error

    def _broadcast(self, tensor: torch.Tensor) -> None:
        import torch

        self._group.broadcast([tensor]).wait()
        if tensor.is_cuda:
            torch.cuda.synchronize(tensor.device)

    def close(self) -> None:
        """Leave the group; a second call does nothing."""
        self._group = None
        shutil.rmtree(self._folder, ignore_errors=True)


class WeightReceiver:
    """A member of a group that receives; it joins when the first weights come.

    Args:
        rendezvous: meeting point of the group, from the sender.
        rank: number of this worker in the group, from 1 on.
        device: device of this worker, as torch names it.
    """

    def __init__(self, rendezvous: GroupPlace, rank: int, device: str | torch.device) -> None:
        self.rendezvous = rendezvous
        self._device = device if rendezvous.backend == "nccl" else "cpu"
        self._group = _join(rendezvous, rank)

    def tensors(self, pieces: Sequence[Piece]) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield the tensors that the sender sends; all of them must be taken."""
        import torch

        for bucket in _buckets(pieces):
            sizes = [torch.Size(shape).numel() for _, shape, _ in bucket]
            whole = torch.empty(sum(sizes), dtype=getattr(torch, bucket[0][2]), device=self._device)
            self._group.broadcast([whole]).wait()
            for (name, shape, _), part in zip(bucket, torch.split(whole, sizes), strict=True):
                yield name, part.view(shape)


def pieces_of(weights: WeightSource, dtype: torch.dtype | None = None, names: Collection[str] = ()) -> list[Piece]:
    """Return what there is to send of a whole model.

    Args:
        weights: a module or named tensors, see `named_tensors`.
        dtype: torch type in which floating-point tensors are sent; None: their own.
        names: names of the engine's tensors, if they are known. A second name of a tensor (tied weights) is sent only
            if it is among them.
    """
    pieces: list[Piece] = []
    for name, tensor in described_tensors(weights, names):
        kind = dtype if dtype and tensor.is_floating_point() else tensor.dtype
        pieces.append((name, tuple(tensor.shape), str(kind).removeprefix("torch.")))
    return pieces


def _buckets(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    """Cut the list into parts of one type and about `BUCKET` bytes."""
    import torch

    bucket: list[Piece] = []
    size = 0
    for piece in pieces:
        if bucket and (size >= BUCKET or piece[2] != bucket[0][2]):
            yield bucket
            bucket, size = [], 0
        bucket.append(piece)
        size += math.prod(piece[1]) * int(getattr(torch, piece[2]).itemsize)
    if bucket:
        yield bucket


def _join(rendezvous: GroupPlace, rank: int) -> Any:
    """Return the group as this member sees it; all members call it at about the same time."""
    import torch.distributed as dist

    store: Any = dist.FileStore(rendezvous.file, rendezvous.size)  # type: ignore[attr-defined]
    store.set_timeout(TIMEOUT)
    if rendezvous.backend == "nccl":
        return dist.ProcessGroupNCCL(store, rank, rendezvous.size, dist.ProcessGroupNCCL.Options())
    return dist.ProcessGroupGloo(store, rank, rendezvous.size, TIMEOUT)

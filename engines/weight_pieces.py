"""What there is to send of new weights: pieces with name, shape and type, and the tensors in the same order.

The list of pieces goes ahead of the tensors, so that the receiver knows their sizes and can refuse weights that do not
fit before anything is sent. Both sides cut it into the same buckets.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from turncredit.agents.errors import SamplerError
from turncredit.agents.models.checkpoint_layout import described_tensors, one_name_each
from turncredit.agents.models.weights import WeightSource

if TYPE_CHECKING:
    import torch

__all__ = ["BUCKET", "FullStream", "Piece", "WeightStream", "buckets", "dtype_of", "pieces_of"]

BUCKET = 2**28
"""Bytes after which a bucket is full; a larger tensor is a bucket by itself."""


class Piece(NamedTuple):
    """A tensor as it is sent.

    Attributes:
        name: in the model's checkpoint.
        shape: of the whole tensor.
        type: as torch names it, without `torch.`.
    """

    name: str
    shape: tuple[int, ...]
    type: str

    @property
    def dtype(self) -> torch.dtype:
        """The type as torch has it."""
        return dtype_of(self.type)

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
        return math.prod(self.shape) * int(self.dtype.itemsize)


class WeightStream:
    """The tensors of some weights, in the order of their pieces.

    It never ends early: if a tensor cannot be had, empty ones follow for the rest of the pieces, since the receivers
    wait for all of them, and `check` raises what went wrong.

    Args:
        weights: that `pieces_of` listed.
        pieces: its list.
        device: where `__iter__` puts the tensors, as torch names it; empty: where they are.
    """

    def __init__(self, weights: WeightSource, pieces: Sequence[Piece], device: str = "") -> None:
        self.pieces, self._weights, self._device = pieces, weights, device
        self._error: Exception | None = None

    def metadata(self) -> Sequence[Description]:
        """Return name, type and shape of each tensor, under the names that vLLM gives them."""
        return [Description(piece.name, piece.dtype, piece.shape) for piece in self.pieces]

    def described(self) -> dict[str, list[str] | list[list[int]]]:
        """Return the list of pieces as vLLM's messages have it."""
        return {
            "names": [piece.name for piece in self.pieces],
            "dtype_names": [piece.type for piece in self.pieces],
            "shapes": [list(piece.shape) for piece in self.pieces],
        }

    def __iter__(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield each tensor in the type of its piece; it is converted before it is moved."""
        for piece, tensor in zip(self.pieces, self.tensors(), strict=True):
            value = tensor.to(piece.dtype)
            yield piece.name, value.to(self._device) if self._device else value

    def tensors(self) -> Iterator[torch.Tensor]:
        """Yield each tensor as the weights have it, in their own type; one is gathered or merged at a time."""
        import torch

        source = one_name_each(self._weights, {piece.name for piece in self.pieces})
        for piece in self.pieces:
            if self._error is None:
                try:
                    yield self._next(source, piece)
                    continue
                except Exception as error:  # of torch, transformers or peft; raised by `check`
                    self._error = error
            yield torch.empty(piece.shape, dtype=piece.dtype)

    def check(self) -> None:
        """Raise what kept a tensor from being sent."""
        if self._error is not None:
            raise self._error

    @staticmethod
    def _next(source: Iterator[tuple[str, torch.Tensor]], piece: Piece) -> torch.Tensor:
        name, tensor = next(source, ("", None))
        if tensor is None or name != piece.name or tuple(tensor.shape) != tuple(piece.shape):
            has = "nothing" if tensor is None else f"{name} {list(tensor.shape)}"
            raise SamplerError(f"the weights changed while they were sent: {piece.name} was to follow, got {has}")
        return tensor.detach()


class Description(NamedTuple):
    """A tensor that will be sent, as vLLM's senders describe it.

    Attributes:
        name: in the model's checkpoint.
        dtype: in which it is sent.
        shape: of the whole tensor.
        owners: ranks of the trainer that have it; None: all of them.
    """

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    owners: tuple[int, ...] | None = None


class FullStream:
    """A stream as the senders of vLLM read it since 0.33; those of 0.32 read the stream itself.

    Args:
        stream: the tensors, all of which this process has.
    """

    def __init__(self, stream: WeightStream) -> None:
        self.metadata = stream.metadata()
        self._stream = stream

    def implements_iter_full(self) -> bool:
        """Return that whole tensors can be had."""
        return True

    def iter_full(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield each tensor in the type of its piece."""
        return iter(self._stream)


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
        pieces.append(Piece(name, tuple(tensor.shape), str(kind).removeprefix("torch.")))
    return pieces


def dtype_of(name: str) -> torch.dtype:
    """Return a type that torch names without `torch.`."""
    import torch

    dtype: torch.dtype = getattr(torch, name)
    return dtype


def buckets(pieces: Sequence[Piece], size: int = 0) -> Iterator[list[Piece]]:
    """Cut a list into parts of one type that have at most `size` bytes, or a single piece; 0: BUCKET."""
    most = size or BUCKET
    bucket: list[Piece] = []
    held = 0
    for piece in pieces:
        nbytes = piece.nbytes
        if bucket and (held + nbytes > most or piece.type != bucket[0].type):
            yield bucket
            bucket, held = [], 0
        bucket.append(piece)
        held += nbytes
    if bucket:
        yield bucket

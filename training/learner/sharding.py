"""A model whose weights are divided over the ranks (FSDP2), and the ways of tensors between it and a whole model.

Every parameter is cut along its first dimension. A layer's weights are gathered when the layer computes and dropped
afterwards; the others (embedding, last norm, head) while `ShardedModel` runs a function. Gradients are summed over the
ranks, never averaged: the loss of every token already has the denominator of the whole mini-batch.

Where there are several copies of the weights (HSDP, `Ranks.mesh`), each is divided over the ranks of its row. Weights
are gathered within a row; gradients are summed within a row, and each part then over the copies.

A rank whose memory runs out in the middle of a micro-batch takes part in the exchanges that are left of it, with zeros,
so that no other rank waits for it (`Exchanges`, and `turncredit.training.learner.out_of_memory`).
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from turncredit.training.learner.ranks import Ranks
from turncredit.training.learner.recomputation import known_layers
from turncredit.training.learner.untyped import CausalLM


class ShardedModel(torch.nn.Module):
    """A model whose weights are divided; a function that uses them is called through this module.

    Args:
        model: a causal language model.
        device: of this rank's part of it.
    """

    def __init__(self, model: CausalLM, device: str) -> None:
        super().__init__()
        self.model = model
        self.exchanges = Exchanges(device)

    def abandon(self) -> None:
        """Drop what a computation that was not finished has left: gradients, and weights that are gathered."""
        self.model.zero_grad(set_to_none=True)  # also of the gathered weights, which keep theirs otherwise
        cast("FSDPModule", self).reset_iter_state()

    def forward(self, compute: Callable[..., Any], *args: object, **kwargs: object) -> object:
        """Return `compute(*args, **kwargs)`, during which the weights outside of layers are whole."""
        result: object = compute(*args, **kwargs)
        # FSDP gathers the weights again when the backward pass reaches these tensors, with hooks that it cannot put
        # into views of others
        if isinstance(result, tuple):
            result = tuple(tensor.clone() for tensor in result)
        return result


@dataclass(frozen=True, slots=True)
class Collective:
    """One exchange between the ranks, without what is exchanged.

    Attributes:
        call: does it, given an output, an input and the group.
        received: numbers that a rank receives.
        sent: numbers that it sends.
        dtype: of the numbers.
        group: the ranks.
    """

    call: Callable[..., object]
    received: int
    sent: int
    dtype: torch.dtype
    group: dist.ProcessGroup

    def with_zeros(self, device: str) -> None:
        """Take part with zeros, and drop what comes."""
        output, zeros = (torch.zeros(size, dtype=self.dtype, device=device) for size in (self.received, self.sent))
        self.call(output, zeros, group=self.group)


class Exchanges:
    """The exchanges of weights and gradients in a micro-batch. They are the same for all rows.

    Args:
        device: of this rank's part of the model.
    """

    def __init__(self, device: str) -> None:
        self._device = device
        self._done: list[Collective] = []
        self._whole: dict[bool, list[Collective]] = {}

    def begin(self) -> None:
        """Begin a micro-batch."""
        self._done = []

    def add(self, exchange: Collective) -> None:
        """Note an exchange that this rank has taken part in."""
        self._done.append(exchange)

    def end(self, *, gradient: bool) -> None:
        """End a micro-batch that was computed to its end.

        Args:
            gradient: whether it had a backward pass.
        """
        self._whole[gradient] = self._done

    def finish(self, *, gradient: bool) -> None:
        """Take part in what is left of a micro-batch that this rank has given up, in which nothing counts any more."""
        for exchange in self._whole[gradient][len(self._done) :]:
            exchange.with_zeros(self._device)


class _Noted:
    """An exchange of FSDP that is noted once it has begun."""

    def __init__(self, exchanges: Exchanges) -> None:
        self.exchanges = exchanges

    def allocate(self, size: Sequence[int | torch.SymInt], *, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Return the memory for it."""
        return torch.empty(*size, dtype=dtype, device=device)

    def add(self, call: Callable[..., object], output: Tensor, source: Tensor, group: dist.ProcessGroup) -> None:
        """Note it."""
        self.exchanges.add(Collective(call, output.numel(), source.numel(), source.dtype, group))


class _AllGather(_Noted):
    def __call__(
        self, output_tensor: Tensor, input_tensor: Tensor, group: dist.ProcessGroup, async_op: bool = False
    ) -> Any:
        work = dist.all_gather_single(output_tensor, input_tensor, group=group, async_op=async_op)
        self.add(dist.all_gather_single, output_tensor, input_tensor, group)
        return work


class _ReduceScatter(_Noted):
    def __call__(
        self,
        output_tensor: Tensor,
        input_tensor: Tensor,
        group: dist.ProcessGroup,
        op: Any,
        async_op: bool = False,
    ) -> Any:
        work = dist.reduce_scatter_single(output_tensor, input_tensor, group=group, op=op, async_op=async_op)
        self.add(partial(dist.reduce_scatter_single, op=op), output_tensor, input_tensor, group)
        return work


def skeleton(model: CausalLM) -> CausalLM:
    """Return a copy of a model with the same parameters and buffers on torch's meta device, without their values."""
    memo: dict[int, object] = {}
    for weight in model.parameters():
        memo[id(weight)] = torch.nn.Parameter(weight.detach().to("meta"), requires_grad=weight.requires_grad)
    for buffer in model.buffers():
        memo[id(buffer)] = buffer.to("meta")
    return copy.deepcopy(model, memo)


def shard(model: CausalLM, ranks: Ranks, *, bfloat16: bool = False) -> ShardedModel:
    """Return a model divided over the ranks, with the values of rank 0's; all ranks call it together.

    Args:
        model: on rank 0 the whole model, which does not change; on the others its `skeleton`.
        ranks: the group.
        bfloat16: gather and compute in bfloat16, while the parts, and the sums of gradients, stay in float32.
    """
    # Rank 0 keeps its whole model as it is and divides a copy without values, as the others do: the weights are never
    # there twice on a GPU.
    root = ShardedModel(skeleton(model) if ranks.leads else model, ranks.device)
    kinds = {"param_dtype": torch.bfloat16, "reduce_dtype": torch.float32} if bfloat16 else {}
    options: dict[str, Any] = {"mesh": ranks.mesh, "reshard_after_forward": True}
    options["mp_policy"] = MixedPrecisionPolicy(**kinds)  # type: ignore[arg-type]
    # Layer by layer, so that one layer is whole at a time. What is left belongs to the root, which stays whole while
    # `forward` runs: the head may be the embedding, and is used chunk by chunk.
    for layer in known_layers(root):
        fully_shard(layer, **options)
    fully_shard(root, **options)
    gathering: Any = _AllGather(root.exchanges)
    reducing: Any = _ReduceScatter(root.exchanges)
    copies = _group_of_copies(ranks.mesh)
    for module in root.modules():
        if isinstance(module, FSDPModule):
            # Losses have the denominator of the whole mini-batch, so gradients are summed. FSDP's default, the mean
            # over ranks, would make the step smaller with every rank.
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)  # gloo has no other
            module.set_custom_all_gather(gathering)
            module.set_custom_reduce_scatter(reducing)
            if copies is not None:  # FSDP has just begun this exchange itself, and cannot be given another one
                module.set_all_reduce_hook(partial(_note_sum, root.exchanges, copies))
    root.to_empty(device=ranks.device)  # from here on the parts have memory, whose values are rank 0's to give
    whole = dict(model.named_parameters()) if ranks.leads else {}
    for name, parameter in root.model.named_parameters():
        fill(parameter, whole.get(name))
    for own, source in zip(root.model.buffers(), model.buffers(), strict=True):
        if ranks.leads:
            own.copy_(source)
        dist.broadcast(own, src=0)
    return root


@torch.no_grad()
def fill(part: DTensor | Any, whole: Tensor | None) -> None:
    """Fill the ranks' parts of a tensor with the values of rank 0's whole one; all ranks call it together."""
    mesh, own = part.device_mesh, part.to_local()
    row = mesh if mesh.ndim == 1 else mesh["parts"]
    if mesh.ndim == 1 or mesh.get_local_rank("copies") == 0:
        here = torch.empty(part.shape, dtype=part.dtype) if whole is None else whole.detach()
        own.copy_(distribute_tensor(here.to(part.device, part.dtype), row, part.placements[-1:]).to_local())
    if mesh.ndim > 1:  # each part once to each copy, instead of the whole tensor
        dist.broadcast(own, group=mesh.get_group("copies"), group_src=0)


def _group_of_copies(mesh: DeviceMesh) -> dist.ProcessGroup | None:
    """Return the ranks that hold the same part in each copy of the weights; None if there is one copy."""
    return None if mesh.ndim == 1 else mesh.get_group("copies")


def _note_sum(exchanges: "Exchanges", group: dist.ProcessGroup, gradient: Tensor) -> None:
    """Note the sum of a gradient over the copies."""
    exchanges.add(Collective(_sum, gradient.numel(), gradient.numel(), gradient.dtype, group))


def _sum(output: Tensor, _: Tensor, *, group: dist.ProcessGroup) -> None:
    dist.all_reduce(output, group=group)


@torch.no_grad()
def collect(model: CausalLM, whole: CausalLM | None) -> None:
    """Copy the trained values of a divided model into rank 0's whole one; all ranks call it together.

    Args:
        model: the divided model.
        whole: the whole model on rank 0; None elsewhere.
    """
    places = {} if whole is None else dict(whole.named_parameters())
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            value = parameter.full_tensor()
            if whole is not None:
                places[name].copy_(value)

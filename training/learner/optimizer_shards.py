"""The optimizer's state in a checkpoint of several ranks: each rank writes its parts (torch.distributed.checkpoint).

    CHECKPOINT/optimizer/    .metadata, and one file per rank; tensors are named as in lm_head.weight/exp_avg

Any number of ranks can read it, and so can a single process.

It is written by a thread of each rank, from a copy in main memory. These threads have a group of their own, since those
of the ranks exchange weights and gradients meanwhile.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from turncredit.training.errors import CheckpointError
from turncredit.training.learner.parked_tensors import copy_on_host
from turncredit.training.learner.sharding import fill
from turncredit.training.learner.untyped import CausalLM
from turncredit.training.types import State

FOLDER = "optimizer"


def save_optimizer(
    model: CausalLM, optimizer: torch.optim.Optimizer, folder: Path, group: dist.ProcessGroup
) -> Callable[[], None]:
    """Begin to write the state of an optimizer whose parameters are divided; all ranks call it together.

    Args:
        model: of the parameters.
        optimizer: AdamW. It may go on at once.
        folder: of a checkpoint that is being written.
        group: of all ranks, on the CPU, with which nothing else is exchanged.

    Returns:
        A function that returns when all ranks have written, and raises OSError if a rank cannot.
    """
    tensors = {
        f"{name}/{key}": copy_on_host(tensor)
        for name, parameter in _trained(model)
        for key, tensor in optimizer.state.get(parameter, {}).items()
    }
    writer = FileSystemWriter(folder / FOLDER, single_file_per_rank=True)
    thread = ThreadPoolExecutor(1, thread_name_prefix="turncredit-checkpoint")
    writing = thread.submit(save, tensors, storage_writer=writer, process_group=group)
    thread.shutdown(wait=False)
    return partial(_wait, writing.result)


def _wait(result: Callable[[], object]) -> None:
    try:
        result()
    except CheckpointException as error:
        raise next(iter(error.failures.values()))[0] from error


def load_optimizer(model: CausalLM, optimizer: torch.optim.Optimizer, folder: Path) -> None:
    """Restore what `save_optimizer` wrote; with several ranks all of them call it together.

    Args:
        model: of the parameters, divided over any number of ranks or whole.
        optimizer: AdamW.
        folder: of the checkpoint.

    Raises:
        CheckpointError: it belongs to another model.
    """
    reader = FileSystemReader(folder / FOLDER)
    stored: Mapping[str, object] = reader.read_metadata().state_dict_metadata
    tensors: dict[str, Tensor] = {}
    for name, parameter in _trained(model):
        for key in {full.rpartition("/")[2] for full in stored}:
            if f"{name}/{key}" in stored:
                tensors[f"{name}/{key}"] = torch.zeros(()) if key == "step" else torch.zeros_like(parameter.detach())
    unknown = stored.keys() - tensors.keys()
    if unknown:
        raise CheckpointError(f"{folder / FOLDER} belongs to another model: it holds {min(unknown)}")
    if tensors:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="torch.distributed is disabled")  # in one process on purpose
            load(tensors, storage_reader=reader, no_dist=not dist.is_initialized())
    state: dict[Any, dict[str, Tensor]] = {}
    names = {parameter: name for name, parameter in _trained(model)}
    for number, parameter in enumerate(_parameters(optimizer)):
        moments = dict(_of(tensors, names[parameter]))
        state |= {number: moments} if moments else {}
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def meta_state(state: State) -> State:
    """Return an optimizer's state without the values of its arrays, for the ranks that receive their parts of them."""
    of_parameters = {
        number: {key: tensor.to("meta") if tensor.ndim else tensor for key, tensor in moments.items()}
        for number, moments in state["state"].items()
    }
    return {**state, "state": of_parameters}


def spread_optimizer(optimizer: torch.optim.Optimizer, state: State) -> None:
    """Divide the optimizer's state that one process saved over the ranks; all of them call it together.

    Args:
        optimizer: of the divided parameters.
        state: of the optimizer on rank 0; elsewhere its `meta_state`.
    """
    divided: dict[int, dict[str, Tensor]] = {}
    for number, parameter in enumerate(_parameters(optimizer)):
        for key, tensor in state["state"].get(number, {}).items():
            value = tensor
            if tensor.ndim:
                value = torch.zeros_like(parameter.detach())
                fill(value, None if tensor.is_meta else tensor)
            divided.setdefault(number, {})[key] = value
    optimizer.load_state_dict({"state": divided, "param_groups": state["param_groups"]})


def _of(tensors: Mapping[str, Tensor], name: str) -> Iterator[tuple[str, Tensor]]:
    return ((full.rpartition("/")[2], tensor) for full, tensor in tensors.items() if full.rpartition("/")[0] == name)


def _parameters(optimizer: torch.optim.Optimizer) -> list[torch.nn.Parameter]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _trained(model: CausalLM) -> Iterator[tuple[str, torch.nn.Parameter]]:
    return ((name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad)

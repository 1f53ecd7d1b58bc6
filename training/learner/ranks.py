"""The processes that train one policy together: how they find each other, agree on the run, and exchange numbers.

A process is a rank, from 0 to size - 1. Rank 0 runs the training loop; the others serve its learner
(`turncredit.training.learner.distributed_learner`). Whoever starts them sets the environment variables that torchrun
sets: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from turncredit.training.batch.token_advantages import AppliedTransform
from turncredit.training.config.differences import flat
from turncredit.training.config.run import Run
from turncredit.training.config.versions import describe
from turncredit.training.errors import ConfigError, RankLost, RanksDisagree, TrainingError
from turncredit.training.learner.out_of_memory import OutOfMemoryOnRank
from turncredit.training.learner.policy import device_of
from turncredit.training.learner.threads import use_threads

T = TypeVar("T")
Call = tuple[Callable[..., object], tuple[object, ...], dict[str, object]]
"""A function with its arguments."""

NEEDED = "2.13"
"""The lowest version of torch with which several ranks are tested; one process needs that of the package."""
ALONE = {
    "compile": "ranks would compile for rows of their own at different times, and wait for each other meanwhile",
    "liger": "its kernels are compared with whole modules, and several ranks divide them",
}
"""Why policy.kernels is for one rank, by its value."""
TIMEOUT = timedelta(minutes=10)
"""How long a rank waits for another in the middle of a computation."""
WRITING = timedelta(hours=2)
"""How long the thread of a rank waits for the others to write their parts of a checkpoint."""


@dataclass(frozen=True)
class Ranks:
    """The ranks of one run, seen from one of them.

    Attributes:
        rank: of this process.
        size: number of ranks.
        device: of this rank's part of the model.
        store: what the ranks leave messages in.
        shards: ranks over which one copy of the weights is divided; there are size / shards copies. 0: all ranks.
    """

    rank: int
    size: int
    device: str
    store: PrefixStore
    shards: int = 0

    @property
    def leads(self) -> bool:
        """Whether this is rank 0, which runs the training loop."""
        return self.rank == 0

    @property
    def parts(self) -> int:
        """Number of parts into which one copy of the weights is divided."""
        return self.shards or self.size

    @cached_property
    def mesh(self) -> DeviceMesh:
        """All ranks: those that divide a copy of the weights lie in a row, and there is one row for each copy."""
        kind, numbers = torch.device(self.device).type, torch.arange(self.size)
        if self.parts == self.size:
            return DeviceMesh(kind, numbers)
        return DeviceMesh(kind, numbers.view(-1, self.parts), mesh_dim_names=("copies", "parts"))

    @cached_property
    def writers(self) -> dist.ProcessGroup:
        """All ranks once more, on the CPU, for the threads that write checkpoints; all ranks ask for it together."""
        group: dist.ProcessGroup = dist.new_group(backend="gloo", timeout=WRITING)
        return group

    def sum(self, tensor: Tensor) -> Tensor:
        """Return the sum of the ranks' tensors of one shape, the same on every rank."""
        total = tensor.detach().clone()
        dist.all_reduce(total)
        return total

    def gather(self, value: T) -> list[T]:
        """Return the values of all ranks, in their order."""
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values

    def from_first(self, value: Any = None) -> Any:
        """Return the value of rank 0."""
        box = [value]
        dist.broadcast_object_list(box, src=0)
        return box[0]

    def deal(self, make: Callable[[int], Call]) -> None:
        """Send every other rank its own call, one after the other; rank 0 does it, and the others `receive`.

        Args:
            make: returns the call of a rank.
        """
        for rank in range(1, self.size):
            dist.send_object_list([make(rank)], dst=rank)

    def receive(self) -> Call:
        """Return the call that rank 0 deals to this rank."""
        box: list[Call | None] = [None]
        dist.recv_object_list(box, src=0)
        (call,) = box
        assert call is not None, "rank 0 has sent nothing"
        return call

    def check_memory(self, *, ran_out: bool = False) -> None:
        """Raise the same on every rank if memory has run out on one of them; all ranks call it together.

        The ranks ask each other on the CPU, so that work on GPUs is not waited for.

        Args:
            ran_out: whether this rank's memory has run out.

        Raises:
            OutOfMemoryOnRank: memory has run out on a rank.
        """
        last = torch.tensor([self.rank if ran_out else -1])
        dist.all_reduce(last, op=dist.ReduceOp.MAX)
        if int(last) >= 0:
            raise OutOfMemoryOnRank(int(last))

    def leave(self) -> None:
        """Leave the group."""
        dist.destroy_process_group()


def join(*, timeout: timedelta = TIMEOUT) -> Ranks:
    """Meet the other ranks, and return this rank's place among them, on the CPU.

    Args:
        timeout: how long a rank waits for another, now and in the middle of a computation.

    Raises:
        RankLost: the ranks do not find each other.
        TrainingError: this version of torch is too old.
    """
    if not hasattr(dist, "all_gather_single"):  # it came after all else that a divided model needs
        raise TrainingError(f"several ranks need torch {NEEDED} or newer, got {torch.__version__}")
    try:
        store, rank, size = next(rendezvous("env://", timeout=timeout))
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() and dist.is_nccl_available() else "gloo"
        # torchrun keeps its store when it starts the ranks again, with all that the ranks before have left in it
        store = PrefixStore(f"attempt {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
        group = PrefixStore("group", store)
        dist.init_process_group(backend, store=group, rank=rank, world_size=size, timeout=timeout)
    except (RuntimeError, ValueError) as error:
        where = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
        raise RankLost(f"the ranks of the run do not meet at {where}: {str(error).splitlines()[0]}") from error
    return Ranks(rank, size, "cpu", PrefixStore("turncredit", store))


def agree(ranks: Ranks, load: Callable[[], Run]) -> tuple[Run, Ranks]:
    """Return the run, and this rank's place with its device. All ranks call it together.

    Every rank reads the run by itself. What is wrong on one is raised on all of them; rank 0 should say it.

    Args:
        ranks: from `join`.
        load: returns the run as this rank reads it.

    Raises:
        RanksDisagree: a key or a version differs between two ranks.
        ConfigError: policy.shards does not divide the number of ranks.
        TrainingError: the run cannot be read, or there are fewer GPUs than ranks.
    """
    run, problem = None, None
    try:
        run = load()
        ranks = replace(ranks, device=_device(run.policy.device))
        _check(run)
        use_threads(run.threads)
    except Exception as error:
        problem = error
    _compare(ranks, run, problem)
    assert run is not None, "a problem of this rank has been raised"
    return run, replace(ranks, shards=_shards(run.policy.shards, ranks))


def _shards(choice: int, ranks: Ranks) -> int:
    """Return over how many ranks a copy of the weights is divided.

    By default these are the ranks of one machine, since weights are gathered layer by layer, and gradients of a copy
    are exchanged once a pass. Actors of Ray do not know what else is on their machine; then it is all ranks.
    """
    here = ranks.gather(int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
    if choice:
        if ranks.size % choice:
            fitting = [str(count) for count in range(1, ranks.size + 1) if not ranks.size % count]
            raise ConfigError(
                f"policy.shards = {choice} does not divide the {ranks.size} ranks evenly; choose 0 or one of "
                f"{', '.join(fitting)}"
            )
        return choice
    return here[0] if len(set(here)) == 1 and here[0] > 1 and not ranks.size % here[0] else ranks.size


def _device(name: str) -> str:
    """Return the device of this rank; each rank of a machine has a GPU of its own."""
    device = device_of(name)
    if not device.startswith("cuda"):
        return device
    local = int(os.environ.get("LOCAL_RANK", "0"))
    here, count = int(os.environ.get("LOCAL_WORLD_SIZE", "1")), torch.cuda.device_count()
    if ":" in device:
        raise ConfigError(f"policy.device = {name!r} names one GPU, and there are several ranks: set it to cuda")
    if here > count:
        raise ConfigError(
            f"{here} ranks were started on a machine with {count} CUDA device{'' if count == 1 else 's'}; start at "
            'most one per device, or set policy.device = "cpu"'
        )
    torch.cuda.set_device(local)
    return f"cuda:{local}"


def _check(run: Run) -> None:
    if run.train.optimizer.name == "adamw_8bit":
        raise ConfigError('train.optimizer = "adamw_8bit" works with one rank only; with several use adamw_fused')
    if run.policy.lora.get("bits") == 4:
        raise ConfigError("policy.lora.bits = 4 works with one rank only; several divide whole weights")
    if run.policy.kernels != "plain":
        name, reason = run.policy.kernels, ALONE[run.policy.kernels]
        raise ConfigError(
            f'policy.kernels = "{name}" works with one rank only, since {reason}; with several use "plain"'
        )
    transform = AppliedTransform.from_choice(run.credit.token_transform)
    if transform is not None and transform.compared:
        raise ConfigError(
            f"credit.token_transform {transform.transform.name!r} works with one rank only, since it compares "
            "tokens of different rows, which several divide; choose another"
        )
    from torch.distributed.fsdp import FSDPModule  # takes a second to import, and the learner needs it anyway

    if not hasattr(FSDPModule, "reset_iter_state"):
        raise ConfigError(f"several ranks need torch 2.13 or newer, and {torch.__version__} is installed")


def _compare(ranks: Ranks, run: Run | None, problem: Exception | None) -> None:
    """Raise on every rank what is wrong on one of them, or in what they differ."""
    facts = {} if run is None else flat(run.model_dump()) | flat(describe()["packages"], "version of ")
    own_problem = None if problem is None else f"{problem}"
    reports = ranks.gather((own_problem, facts))
    if problem is not None and (ranks.leads or reports[0][0] is None):
        raise problem
    for number, (sentence, _) in enumerate(reports):
        if sentence is not None:
            raise TrainingError(f"rank {number}: {sentence}")
    own = reports[0][1]
    for number, (_, others) in enumerate(reports):
        for key in sorted(own.keys() | others.keys()):
            if own.get(key) != others.get(key):
                raise RanksDisagree(
                    f"the ranks disagree on {key}: it is {own.get(key)!r} on rank 0 and {others.get(key)!r} on rank "
                    f"{number}; start all of them with the same file, options and packages"
                )

"""Text environments in Gymnasium's vector environments: shared memory, flattening, and a task for each environment.

Importing this teaches Gymnasium's `AsyncVectorEnv` to pass texts through shared memory (its default), and gives the
wrappers that flatten observations a clear message. `make_vec` is Gymnasium's function of that name for resets with one
task per environment:

    envs = turncredit.envs.make_vec("turncredit/Household-v0", num_envs=2, vectorization_mode="async", level="tiny")
    observations, infos = envs.reset(seed=0, options={"task": ["train/tiny/000000", "train/tiny/000001"]})
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import ModuleType
from typing import Any, Final, overload

import gymnasium
import numpy as np
from gymnasium.spaces import flatdim, flatten_space
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import create_shared_memory, read_from_shared_memory, write_to_shared_memory

from turncredit.envs.errors import UnknownOption
from turncredit.envs.info import Environment, ResetOptions, ResetResult
from turncredit.envs.registration import make
from turncredit.envs.spaces import Text
from turncredit.envs.validation import choice, integer

__all__ = ["SharedTexts", "TaskOfList", "make_vec"]

_LENGTH: Final = 4  # bytes in front of each text that hold its length in bytes
_WIDEST: Final = 4  # bytes of a code point in UTF-8
_MODES: Final[dict[str, Callable[..., VectorEnv[Any, Any, Any]]]] = {"async": AsyncVectorEnv, "sync": SyncVectorEnv}


class SharedTexts(Sequence[str]):
    """The current texts of several environments in shared memory; a deep copy is a tuple of str.

    Gymnasium reads the memory once and returns deep copies of what it got, so that this has to read when it is asked.
    """

    def __init__(self, memory: Any, rows: int) -> None:
        """View `memory`, which holds `rows` texts of equal room."""
        self._bytes = np.frombuffer(memory.get_obj(), dtype=np.uint8).reshape(rows, -1)

    def __len__(self) -> int:
        """Return the number of environments."""
        return len(self._bytes)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        """Return the text of an environment, or those of a slice."""
        if isinstance(index, slice):
            return tuple(self)[index]
        row = self._bytes[index]
        length = int(row[:_LENGTH].view(np.uint32)[0])
        return bytes(row[_LENGTH : _LENGTH + length]).decode()

    def __iter__(self) -> Iterator[str]:
        """Yield the texts."""
        return (self[index] for index in range(len(self)))

    def __deepcopy__(self, memo: object) -> tuple[str, ...]:
        """Return the texts as they are now."""
        return tuple(self)


@create_shared_memory.register(Text)
def _create(space: Text, n: int = 1, ctx: ModuleType | Any = None) -> object:
    import multiprocessing

    return (ctx or multiprocessing).Array("B", n * _room(space))


@read_from_shared_memory.register(Text)
def _read(space: Text, shared_memory: Any, n: int = 1) -> SharedTexts:
    return SharedTexts(shared_memory, n)


@write_to_shared_memory.register(Text)
def _write(space: Text, index: int, value: str, shared_memory: Any) -> None:
    encoded = np.frombuffer(value.encode(), dtype=np.uint8)
    room = _room(space)
    if len(encoded) > room - _LENGTH:
        raise UnknownOption(f"an observation must have at most {space.max_length:,} characters, got {len(value):,}")
    row = np.frombuffer(shared_memory.get_obj(), dtype=np.uint8)[index * room : (index + 1) * room]
    row[:_LENGTH].view(np.uint32)[0] = len(encoded)
    row[_LENGTH : _LENGTH + len(encoded)] = encoded


def _room(space: Text) -> int:
    """Return the bytes of one text, a multiple of four."""
    return _LENGTH + _WIDEST * space.max_length


@flatdim.register(Text)
@flatten_space.register(Text)
def _refuse_to_flatten(space: Text) -> int:
    raise ValueError(
        f"{space} cannot be flattened: texts have no array of fixed shape. Keep the text as it is "
        "(TimeAwareObservation takes flatten=False), or tokenize it"
    )


class TaskOfList(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Reset environment number `index` of a vector with its own entry of a list of tasks."""

    def __init__(self, env: Environment, index: int, count: int) -> None:
        """Wrap `env`, which is number `index` of `count`."""
        super().__init__(env)
        self.index, self.count = index, count

    def reset(self, *, seed: int | None = None, options: ResetOptions | None = None) -> ResetResult:
        """Start an episode of the task at `index`, or of the one task for all.

        Raises:
            UnknownOption: the list is longer or shorter than the vector.
        """
        tasks = (options or {}).get("task")
        if options is not None and isinstance(tasks, list | tuple):
            if len(tasks) != self.count:
                raise UnknownOption(
                    f"options['task'] must have one task per environment, {self.count}, got {len(tasks)}"
                )
            options = {**options, "task": tasks[self.index]}
        return self.env.reset(seed=seed, options=options)


def make_vec(
    id: str, num_envs: int = 1, vectorization_mode: str = "sync", *, vector_kwargs: Any = None, **options: Any
) -> VectorEnv[Any, Any, Any]:
    """Return a vector of environments whose `reset` also takes a list of tasks, `options={"task": [id, ...]}`.

    Args:
        id: of the environment.
        num_envs: number of environments.
        vectorization_mode: "sync" (in this process) or "async" (each in a process of its own).
        vector_kwargs: keyword arguments of Gymnasium's `SyncVectorEnv` or `AsyncVectorEnv`.
        options: keyword arguments of the environment.

    Raises:
        UnknownEnv: there is no environment with this id.
        UnknownOption: an option that the environment or this function does not have.
    """
    kind = _MODES[choice("vectorization_mode", vectorization_mode, _MODES)]
    count = integer("num_envs", num_envs, 1)
    makers = [partial(_numbered, id, index, count, options) for index in range(count)]
    return kind(makers, **(vector_kwargs or {}))


def _numbered(id: str, index: int, count: int, options: dict[str, object]) -> Environment:
    return TaskOfList(make(id, **options), index, count)

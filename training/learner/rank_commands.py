"""How rank 0 has the other ranks do what it does.

    rank 0          with lead(ranks) as leader: train(run, leader=leader)
    other ranks     serve_rank(ranks)                                          until rank 0 is done

Rank 0 leaves a word in the store that the ranks share, and the others wait for it there, as long as a rollout takes.
Each of them confirms; then rank 0 sends a function with its arguments, and all ranks call it with their
learners. Of an argument that is dealt, such as a batch, each rank receives its own part.

A rank that ends breaks the group: its part of the weights is gone. Rank 0 notices because a command is not confirmed or
a computation fails, and raises `RankLost`. A rank that sees no sign of life from rank 0 for `SILENCE` ends as well.
"""

import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import torch.distributed as dist
from torch.distributed.distributed_c10d import Store

from turncredit.training.errors import RankLost, TrainingError
from turncredit.training.learner.interruption import uninterrupted
from turncredit.training.learner.ranks import Ranks

T = TypeVar("T")

CONFIRM = 15.0
"""Seconds that rank 0 waits for a rank to confirm a command; it has nothing else to do then."""
SILENCE = 120.0
"""Seconds without a sign of life from rank 0 after which another rank ends; 10 once it was asked to end (SIGTERM)."""
PULSE = 2.0
"""Seconds between two signs of life."""


class Dealt(ABC):
    """An argument of a command of which every rank receives another part."""

    @abstractmethod
    def part(self, rank: int) -> object:
        """Return what a rank receives."""


class Leader:
    """Rank 0, which commands the others.

    Args:
        ranks: the group, seen from rank 0.
    """

    def __init__(self, ranks: Ranks) -> None:
        self.ranks = ranks
        self._number = 0
        self._lock = threading.RLock()  # asynchronous rollouts load weights from a thread of their own
        self._lost: str | None = None
        self._ended = threading.Event()
        own: Any = ranks.store  # its type lacks a method
        threading.Thread(target=self._live, args=(own.clone(),), daemon=True).start()

    @contextmanager
    def command(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Iterator[None]:
        """Have the other ranks call a function while the block, in which this rank does the same, runs.

        Args:
            function: of a module; each rank passes its own learner first. `Learner` itself makes it.
            args: further arguments, which are pickled; see `Dealt`.
            kwargs: the same.

        Raises:
            RankLost: a rank has ended.
        """
        with self._lock, uninterrupted():
            if self._lost is not None:
                raise RankLost(self._lost)
            whole = False
            try:
                dealt = any(isinstance(argument, Dealt) for argument in args)
                self._announce("deal" if dealt else "call")
                if dealt:
                    self.ranks.deal(lambda rank: (function, tuple(_part(argument, rank) for argument in args), kwargs))
                else:
                    self.ranks.from_first((function, args, kwargs))
                yield
                whole = True
            except RuntimeError as error:
                if not _of_the_group(error):
                    raise
                raise RankLost(self._reason()) from error
            finally:
                if not whole:  # the others may wait in the middle of it
                    self._lost = self._lost or self._reason()

    def reach(self, function: Callable[[], T]) -> T:
        """Return `function()`, which waits for the other ranks, on any thread.

        Raises:
            RankLost: a rank has ended.
        """
        try:
            return function()
        except RuntimeError as error:
            if not _of_the_group(error):
                raise
            raise RankLost(self._reason()) from error

    @property
    def lost(self) -> str | None:
        """Why the group is broken, in a sentence; None while it is whole."""
        return self._lost

    def stop(self) -> None:
        """Let the other ranks end, as far as they are still there."""
        with suppress(RankLost, RuntimeError):
            self._announce("stop", CONFIRM if self._lost is None else 0.0)
        self._ended.set()

    def _announce(self, word: str, seconds: float = CONFIRM) -> None:
        """Leave a word for the other ranks, and wait until all of them have confirmed it."""
        self._number += 1
        store, number = self.ranks.store, self._number
        store.set(f"command {number}", word)
        names = {f"confirmed {number} {rank}": rank for rank in range(1, self.ranks.size)}
        if not _wait(store, list(names), seconds):
            self._lost = self._lost or self._reason([rank for name, rank in names.items() if not _has(store, name)])
            raise RankLost(self._lost)
        for name in (f"command {number - 1}", *names):
            store.delete_key(name)

    def _reason(self, silent: list[int] | None = None) -> str:
        """Return a sentence about why the group is broken."""
        store, size = self.ranks.store, self.ranks.size
        if _has(store, "failed"):
            reason = store.get("failed").decode()
        elif silent:
            reason = f"rank {silent[0]} of {size} has ended, or does not answer"
        else:
            reason = f"one of the {size} ranks has ended"
        return f"{reason}; the run stops here, and --resume continues from its last checkpoint"

    def _live(self, store: Store) -> None:
        """Show the other ranks that this one lives."""
        with suppress(RuntimeError):
            while not self._ended.wait(PULSE):
                store.add("alive", 1)


@contextmanager
def lead(ranks: Ranks) -> Iterator[Leader]:
    """Return the leader of a group, which is dissolved at the end of the block."""
    leader = Leader(ranks)
    try:
        yield leader
    except BaseException as error:
        leader.stop()
        if leader.lost is None or isinstance(error, TrainingError):
            raise
        raise RankLost(leader.lost) from error  # whoever ended the other rank has ended this one as well
    leader.stop()


def serve_rank(ranks: Ranks) -> None:
    """Do what rank 0 commands, until it is done. Ctrl-C and SIGTERM are left to rank 0, which ends this rank in order.

    Raises:
        RankLost: rank 0 has ended without a word.
        Exception: what a command raised, which rank 0 is told.
    """
    watch = _Watch(ranks.store)
    learner: Any = None
    number = 0
    while True:
        number += 1
        word = watch.wait(f"command {number}")
        ranks.store.set(f"confirmed {number} {ranks.rank}", "yes")
        if word == "stop":
            return
        try:
            function, args, kwargs = ranks.receive() if word == "deal" else ranks.from_first()
            if isinstance(function, type):
                learner = function(*args, device=ranks.device, ranks=ranks, **kwargs)
            else:
                function(learner, *args, **kwargs)
        except RuntimeError as error:
            if _of_the_group(error):
                raise RankLost("the other ranks of the run have ended") from error
            _tell(ranks, error)
            raise
        except Exception as error:
            _tell(ranks, error)
            raise


class _Watch:
    """Waits for rank 0 in the store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._asked_to_end = False
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, self._hear)

    def wait(self, name: str) -> str:
        """Return the value of a name once it is there.

        Raises:
            RankLost: rank 0 shows no sign of life.
        """
        pulse, since = -1, time.monotonic()
        while True:
            try:
                if _wait(self.store, [name], PULSE):
                    return str(self.store.get(name), "utf-8")
                beats = self.store.add("alive", 0)
            except RuntimeError as error:
                raise RankLost("rank 0 has ended") from error
            if beats != pulse:
                pulse, since = beats, time.monotonic()
            elif time.monotonic() - since > (5 * PULSE if self._asked_to_end else SILENCE):
                raise RankLost("rank 0 shows no sign of life")

    def _hear(self, *_: object) -> None:
        self._asked_to_end = True


def _tell(ranks: Ranks, error: Exception) -> None:
    """Leave for rank 0 why this rank ends."""
    reason = str(error) if isinstance(error, TrainingError) else f"{type(error).__name__}: {error}"
    with suppress(RuntimeError):
        ranks.store.set("failed", f"rank {ranks.rank} of {ranks.size} has failed ({reason.splitlines()[0]})")


def _part(argument: object, rank: int) -> object:
    return argument.part(rank) if isinstance(argument, Dealt) else argument


def _of_the_group(error: RuntimeError) -> bool:
    """Whether an error comes from the connections between ranks."""
    return isinstance(error, dist.DistError) or any(word in str(error) for word in ("gloo", "NCCL", "Connection"))


def _wait(store: Store, names: list[str], seconds: float) -> bool:
    """Return whether some names are in the store before the time is over; `Store.wait` writes warnings if not."""
    end, pause = time.monotonic() + seconds, 0.001
    while not store.check(names):
        if time.monotonic() > end:
            return False
        time.sleep(pause)
        pause = min(0.05, pause * 1.2)
    return True


def _has(store: Store, name: str) -> bool:
    try:
        return bool(store.check([name]))
    except RuntimeError:
        return False

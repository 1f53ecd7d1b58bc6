"""Forks: they begin with this process's memory, send messages and a result, and none is left behind."""

from __future__ import annotations

import gc
import os
import signal
import time

import pytest
from toys.waiting import gone

from turncredit.processes.child_process import CallFailed, ProcessDied
from turncredit.processes.forks import ForkedProcess, ForkPipe


def test_a_fork_works_on_what_this_process_holds() -> None:
    held = {"number": 20, "function": lambda value: value + 1}  # no need to pickle it
    with ForkedProcess(lambda _: (held["function"](held["number"]), os.getpid())) as fork:  # type: ignore[operator]
        value, pid = fork.result()
    assert value == 21
    assert pid != os.getpid()


class Handle:
    """What only the process that made it may close, in a circle that the collector finds."""

    def __init__(self, closed_in: list[int]) -> None:
        self.circle = self
        self.closed_in = closed_in

    def __del__(self) -> None:
        self.closed_in.append(os.getpid())


def test_a_fork_does_not_finalize_the_garbage_of_its_parent() -> None:
    def work(_: ForkPipe) -> tuple[list[int], bool]:
        gc.collect()
        inherited = list(closed_in)
        Handle(closed_in)
        gc.collect()
        return inherited, closed_in == [os.getpid()]

    closed_in: list[int] = []
    gc.collect()
    collects = gc.isenabled()
    gc.disable()  # or a collection could find it before the fork
    try:
        Handle(closed_in)
        with ForkedProcess(work) as fork:
            assert fork.result() == ([], True)
        assert closed_in == []
        gc.collect()
        assert closed_in == [os.getpid()]
    finally:
        if collects:
            gc.enable()


@pytest.mark.parametrize("collects", [True, False])
def test_the_collector_runs_in_a_fork_as_it_does_here(collects: bool) -> None:
    before = gc.isenabled()
    (gc.enable if collects else gc.disable)()
    try:
        with ForkedProcess(lambda _: gc.isenabled()) as fork:
            assert fork.result() is collects
        assert gc.isenabled() is collects
    finally:
        (gc.enable if before else gc.disable)()


def test_a_fork_can_be_asked() -> None:
    def work(pipe: ForkPipe) -> int:
        asked = 0
        while (number := pipe.receive()) is not None:
            pipe.send(number**2)
            asked += 1
        return asked

    with ForkedProcess(work) as fork:
        for number in range(5):
            fork.send(number)
            assert next(fork.messages()) == number**2
        fork.send(None)
        assert fork.result() == 5
    with ForkedProcess(lambda _: os._exit(3)) as fork, pytest.raises(ProcessDied):
        fork.send("x" * 10_000_000)  # more than a pipe holds


def test_messages_come_in_order_and_before_the_result() -> None:
    def work(pipe: ForkPipe) -> str:
        for number in range(300):
            pipe.send((number, "x" * 5000))  # more than a pipe holds
        return "done"

    with ForkedProcess(work) as fork:
        found = list(fork.arrived())
        found += list(fork.messages())
        assert fork.result() == "done"
        assert list(fork.arrived()) == []
    assert found == [(number, "x" * 5000) for number in range(300)]


def test_what_the_work_raises_is_raised_here() -> None:
    def fails(_: ForkPipe) -> None:
        raise KeyError("no such thing")

    class Local(Exception):
        pass

    def fails_strangely(_: ForkPipe) -> None:
        raise Local("cannot be pickled")

    with ForkedProcess(fails) as fork, pytest.raises(KeyError, match="no such thing"):
        fork.result()
    with ForkedProcess(fails_strangely) as fork, pytest.raises(CallFailed, match="Local: cannot be pickled"):
        fork.result()


def test_a_death_is_told() -> None:
    with (
        ForkedProcess(lambda _: os.kill(os.getpid(), signal.SIGKILL)) as fork,
        pytest.raises(ProcessDied, match="SIGKILL"),
    ):
        fork.result()
    with ForkedProcess(lambda _: os._exit(3)) as fork, pytest.raises(ProcessDied, match="exit code 3"):
        list(fork.messages())


def test_no_fork_is_left_behind() -> None:
    def work(pipe: ForkPipe) -> None:
        pipe.send(os.getpid())
        time.sleep(600)

    with ForkedProcess(work) as fork:
        pid = next(fork.messages())
        os.kill(pid, 0)  # it is there
    assert gone(pid)


def test_a_fork_ends_with_its_parent() -> None:
    def parent(pipe: ForkPipe) -> None:
        inner = ForkedProcess(child)
        pipe.send(next(inner.messages()))
        os.kill(os.getpid(), signal.SIGKILL)

    def child(pipe: ForkPipe) -> None:
        pipe.send(os.getpid())
        time.sleep(600)

    with ForkedProcess(parent, daemon=False) as fork:
        pid = next(fork.messages())
        with pytest.raises(ProcessDied):
            fork.result()
    assert gone(pid)


def test_ctrl_c_is_left_to_the_parent() -> None:
    def work(_: ForkPipe) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        return "went on"

    with ForkedProcess(work) as fork:
        assert fork.result() == "went on"

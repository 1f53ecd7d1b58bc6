"""SIGTERM and SIGHUP stop a program once, however often they come; Ctrl-C interrupts each time."""

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from turncredit.processes import endings
from turncredit.processes.endings import ENDINGS, interruption_seen, stop_at_endings, stop_if_asked
from turncredit.training.learner.interruption import uninterrupted


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(endings, "_state", "elsewhere")
    monkeypatch.setattr(endings, "_raised", None)
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, *ENDINGS)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", ENDINGS)
def test_a_request_that_arrives_twice_interrupts_once(number: signal.Signals) -> None:
    def work() -> None:
        try:
            signal.raise_signal(number)
        finally:
            for repeated in ENDINGS:
                signal.raise_signal(repeated)

    stop_at_endings()
    with pytest.raises(KeyboardInterrupt):
        work()
    interruption_seen()
    for repeated in ENDINGS:
        signal.raise_signal(repeated)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    stop_at_endings()  # another program of the same process
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)


def interrupted(*numbers: signal.Signals) -> list[str]:
    """Return what is done of a block that such signals arrive in, the last one in a block within it."""
    done: list[str] = []

    def work() -> None:
        with uninterrupted():
            for number in numbers[:-1]:
                signal.raise_signal(number)
            done.append("outer")
            with uninterrupted():  # as an update that the other ranks are told of
                signal.raise_signal(numbers[-1])
                done.append("inner")

    with pytest.raises(KeyboardInterrupt):
        work()
    return done


def test_what_must_be_finished_is_finished_when_the_request_arrives_twice() -> None:
    stop_at_endings()
    assert interrupted(signal.SIGTERM, signal.SIGTERM, signal.SIGTERM) == ["outer", "inner"]
    interruption_seen()
    with uninterrupted():
        signal.raise_signal(signal.SIGTERM)  # from the launcher, while the checkpoint is written
    assert interrupted(signal.SIGINT, signal.SIGINT, signal.SIGINT) == []


def test_a_block_inside_another_one_leaves_the_interruption_to_that_one() -> None:
    done: list[str] = []

    def work() -> None:
        with uninterrupted():
            with uninterrupted():
                signal.raise_signal(signal.SIGINT)
            done.append("outer")

    for _ in range(2):  # and the next one holds again
        with pytest.raises(KeyboardInterrupt):
            work()
    assert done == ["outer", "outer"]


def test_in_other_programs_a_second_signal_interrupts_at_once() -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    assert interrupted(signal.SIGTERM) == ["outer", "inner"]
    assert interrupted(signal.SIGTERM, signal.SIGTERM, signal.SIGTERM) == []


def test_a_program_that_outlives_its_terminal_stays() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    stop_at_endings()
    signal.raise_signal(signal.SIGHUP)


def test_a_signal_that_a_library_swallowed_is_no_repetition() -> None:
    stop_at_endings()
    swallowed: list[BaseException] = []
    try:
        signal.raise_signal(signal.SIGTERM)
    except BaseException as error:
        swallowed.append(error)  # as a future keeps it
    with pytest.raises(KeyboardInterrupt):
        stop_if_asked()
    interruption_seen()
    stop_if_asked()
    stop_at_endings()
    try:
        signal.raise_signal(signal.SIGTERM)
    except BaseException:
        gc.collect()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)


def test_nothing_is_lost_while_an_interruption_is_handled() -> None:
    saved = []

    def work() -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            with uninterrupted():  # a checkpoint
                signal.raise_signal(signal.SIGTERM)
            stop_if_asked()
            saved.append(True)

    stop_at_endings()
    with pytest.raises(KeyboardInterrupt):
        work()
    assert saved


LOST = """
import gc, os, signal, sys, threading, weakref
from turncredit.processes.endings import stop_at_endings

class Page: pass

def send(*_):
    os.kill(os.getpid(), signal.{name})
    for _ in range(1000): pass  # the handler runs in here

def by_weak_references():
    for _ in range({times}):
        page = Page()
        reference = weakref.ref(page, send)
        del page

def by_a_fork():
    left = [{times}]
    def before():
        if left[0]:
            left[0] -= 1
            send()
    os.register_at_fork(before=before)
    for _ in range({times}):
        child = os.fork()
        if not child:
            os._exit(0)
        os.waitpid(child, 0)

def by_a_finalizer():
    class Finalized:
        def __del__(self): send()
    for _ in range({times}):
        Finalized()

stop_at_endings()
try:
    {how}()
    print("not yet", flush=True)
    threading.Event().wait(60)  # nothing polls here
except KeyboardInterrupt:
    print("stopped", flush=True)
"""


@pytest.mark.waits
@pytest.mark.parametrize("how", ["by_weak_references", "by_a_fork", "by_a_finalizer"])
@pytest.mark.parametrize(("name", "times"), [("SIGTERM", 6), ("SIGTERM", 1), ("SIGHUP", 2), ("SIGINT", 1)])
def test_a_signal_whose_exception_python_ignores_stops_the_program(how: str, name: str, times: int) -> None:
    script = LOST.format(how=how, name=name, times=times)
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ,
    ) as process:
        out, err = process.communicate(timeout=50)
    assert out.split("\n")[-2] == "stopped", (out, err)
    assert process.returncode == 0
    assert err == ""

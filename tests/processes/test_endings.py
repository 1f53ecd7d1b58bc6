"""SIGTERM and SIGHUP stop a program once, however often they come; Ctrl-C interrupts each time."""

import signal
from collections.abc import Iterator

import pytest

from turncredit.processes import endings
from turncredit.processes.endings import ENDINGS, stop_at_endings
from turncredit.training.learner.interruption import uninterrupted


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(endings, "_asked", None)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, *ENDINGS)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", ENDINGS)
def test_a_request_that_arrives_twice_interrupts_once(number: signal.Signals) -> None:
    stop_at_endings()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)
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

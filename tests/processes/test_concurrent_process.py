"""Many calls at a time to one function in a child process: what returns, what is late, what dies, what is left over."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from toys.waiting import eventually, gone

from turncredit.processes.concurrent_process import ConcurrentProcess, SlowCall
from turncredit.processes.deadlines import CallFailed, DeadlinePassed, ProcessDied
from turncredit.processes.failures import message_of

pytestmark = pytest.mark.waits

LONG = 60.0


def act(word: str, *args: Any) -> Any:
    """Do what a word says; runs in the child."""
    return globals()["do_" + word](*args)


def do_echo(value: Any) -> Any:
    return value


def do_divide(a: float, b: float) -> float:
    return a / b


def do_log(number: int, log: list[int] = []) -> list[int]:  # noqa: B006 (the calls of a process share it)
    log.append(number)
    return list(log)


def do_lock() -> threading.Lock:
    return threading.Lock()


def do_exit(code: int) -> None:
    raise SystemExit(code)


class Mute(Exception):
    """Its message raises."""

    def __str__(self) -> str:
        raise ValueError("no words")


class Changeling(Exception):
    """Becomes something else on its way."""

    def __init__(self, other: Any) -> None:
        self.other = other

    def __reduce__(self) -> tuple[Any, ...]:
        return StopIteration if self.other is None else int, () if self.other is None else (self.other,)


class Stubborn:
    """Cannot be pickled, and says so in its own way."""

    def __reduce__(self) -> tuple[Any, ...]:
        raise GeneratorExit


RAISED: dict[str, Callable[[], BaseException]] = {
    "StopIteration": lambda: StopIteration(3),
    "StopAsyncIteration": StopAsyncIteration,
    "GeneratorExit": GeneratorExit,
    "CancelledError": asyncio.CancelledError,
    "CancelledError ": concurrent.futures.CancelledError,
    "KeyboardInterrupt": KeyboardInterrupt,
    "BaseException": lambda: BaseException("of its own"),
    "Mute": Mute,
    "Changeling": lambda: Changeling(None),
    "Changeling ": lambda: Changeling(7),
}


def do_raise(name: str) -> None:
    raise RAISED[name]()


def do_stubborn() -> Stubborn:
    return Stubborn()


def do_print() -> None:
    print("a word on stdout", flush=True)
    os.write(2, b"a word on stderr\n")
    os.system("echo a word of a child")


def do_die() -> None:
    os.write(2, b"the last words\n")
    os.kill(os.getpid(), signal.SIGKILL)


def do_sleep(seconds: float) -> None:
    time.sleep(seconds)


def do_child() -> int:
    return subprocess.Popen(["sleep", "3600"]).pid


def do_runaway() -> int:
    """Start a process in a session of its own whose parent has ended, and return its id."""
    words = ["sh", "-c", "setsid sh -c 'setsid sleep 3600 >/dev/null & echo $!' &"]
    return int(subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False).stdout)


def do_meet(folder: str, number: int, wanted: int) -> int:
    """Wait until so many calls have met, and a little longer; return how many were inside at a time."""
    inside, met = Path(folder) / "inside", Path(folder) / "met"
    mark = inside / str(number)
    mark.touch()
    if eventually(lambda: met.exists() or len(os.listdir(inside)) >= wanted):
        met.touch()
        time.sleep(0.2)
    most = len(os.listdir(inside))
    mark.unlink()
    return most


def returns_act() -> Callable[..., Any]:
    return act


def returns_nothing() -> Callable[..., Any]:
    raise RuntimeError("nothing to run")


def hangs() -> Callable[..., Any]:
    time.sleep(3600)
    return act


@pytest.fixture(scope="module", params=[False, True], ids=["one thread", "threads"])
def shared(request: pytest.FixtureRequest) -> Iterator[ConcurrentProcess]:
    process = ConcurrentProcess(returns_act, threads=request.param)
    yield process
    process.kill()
    assert gone(process.pid)


@pytest.fixture
def process() -> Iterator[ConcurrentProcess]:
    process = ConcurrentProcess(returns_act, threads=True)
    yield process
    process.kill()


def test_each_call_gets_its_own_answer_from_whatever_thread(shared: ConcurrentProcess) -> None:
    found: dict[int, Future[Any]] = {}

    def ask(lane: int) -> None:
        for number in range(50):
            found[100 * lane + number] = shared.submit(lane, None, "echo", 100 * lane + number)

    threads = [threading.Thread(target=ask, args=(lane,)) for lane in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {number: call.result(LONG) for number, call in found.items()} == {number: number for number in found}
    assert len(found) == 400


def test_the_calls_of_a_lane_run_in_their_order(shared: ConcurrentProcess) -> None:
    calls = [shared.submit(1, None, "log", number) for number in range(100)]
    assert calls[-1].result(LONG) == list(range(100))
    shared.end_lane(1)
    assert shared.submit(1, None, "echo", 5).result(LONG) == 5


def test_exceptions_arrive_as_they_were_raised(shared: ConcurrentProcess) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        shared.submit(0, None, "divide", 1, 0).result(LONG)
    assert "do_divide" in caught.value.__notes__[0]
    with pytest.raises(RuntimeError, match="SystemExit: 3"):
        shared.submit(0, None, "exit", 3).result(LONG)
    with pytest.raises(CallFailed, match="cannot be sent to another process"):
        shared.submit(0, None, "echo", lambda: 0).result(LONG)
    with pytest.raises(CallFailed, match="cannot be sent between processes"):
        shared.submit(0, None, "lock").result(LONG)
    assert shared.submit(0, None, "echo", "still here").result(LONG) == "still here"


@pytest.mark.parametrize("name", RAISED)
def test_whatever_is_raised_reaches_whoever_waits_in_an_event_loop(shared: ConcurrentProcess, name: str) -> None:
    async def wait_for_it() -> None:
        await asyncio.wait_for(asyncio.wrap_future(shared.submit(0, None, "raise", name)), LONG)

    with pytest.raises((RuntimeError, CallFailed, Mute)) as caught:
        asyncio.run(wait_for_it())
    assert name.strip() in f"{type(caught.value).__name__} {message_of(caught.value)}"
    assert shared.submit(0, None, "echo", "still here").result(LONG) == "still here"


def test_a_result_that_ends_what_sends_it_is_told(shared: ConcurrentProcess) -> None:
    with pytest.raises(CallFailed, match="cannot be sent between processes"):
        shared.submit(0, None, "stubborn").result(LONG)


@pytest.mark.parametrize("threads", [False, True])
def test_a_call_without_a_deadline_that_takes_long_is_told_and_then_ends_the_process(threads: bool) -> None:
    process = ConcurrentProcess(returns_act, threads=threads, slow=0.3, longest=1.5, name="slow-ones")
    process.submit(0, None, "echo", 0).result(LONG)
    with pytest.warns(SlowCall, match=rf"the process {process.pid} \(slow-ones\) has taken .* s and has no deadline"):
        error = process.submit(0, None, "sleep", 3600).exception(LONG)
    assert isinstance(error, ProcessDied)
    assert error.during
    assert "because a call without a deadline took longer than 1.5 s" in str(error)
    assert gone(process.pid)


def test_long_messages_pass(shared: ConcurrentProcess) -> None:
    texts = [bytes([number]) * (3 << 20) for number in range(4)]
    assert [call.result(LONG) for call in [shared.submit(0, LONG, "echo", text) for text in texts]] == texts


def test_what_is_printed_stays_out_of_the_terminal(
    shared: ConcurrentProcess, capfd: pytest.CaptureFixture[str]
) -> None:
    shared.submit(0, None, "print").result(LONG)
    assert capfd.readouterr() == ("", "")


def test_the_child_has_a_bounded_number_of_calls(tmp_path: Path) -> None:
    process = ConcurrentProcess(returns_act, threads=True, most=3)
    try:
        (tmp_path / "inside").mkdir()
        met = [process.submit(lane, None, "meet", str(tmp_path), lane, 3) for lane in range(9)]
        assert max(call.result(LONG) for call in met) == 3
    finally:
        process.kill()


def test_a_late_call_is_abandoned_and_delays_nobody(process: ConcurrentProcess) -> None:
    assert process.submit(0, LONG, "echo", 1).result(LONG) == 1
    late = process.submit(0, 0.2, "sleep", 3600)
    with pytest.raises(DeadlinePassed, match=r"took longer than 0\.2 s"):
        late.result(LONG)
    assert process.submit(1, LONG, "echo", 2).result(LONG) == 2
    assert process.late == 1


def test_a_deadline_does_not_count_the_time_before_the_child_has_the_call() -> None:
    process = ConcurrentProcess(returns_act, threads=True, most=1)
    try:
        slow = process.submit(0, LONG, "sleep", 2.5)
        assert process.submit(1, 2.0, "echo", "in time").result(LONG) == "in time"
        assert slow.done()
    finally:
        process.kill()


@pytest.mark.parametrize("threads", [False, True])
def test_a_death_fails_every_call_and_tells_the_last_words(threads: bool) -> None:
    process = ConcurrentProcess(returns_act, threads=threads, most=2)
    calls = [process.submit(0, None, "die")] + [process.submit(0, None, "echo", 1) for _ in range(9)]
    wait(calls, LONG)
    at_fault = [call.exception().during for call in calls]  # type: ignore[union-attr]
    assert at_fault == [True] + [False] * 9  # the calls of a lane run one after the other
    for call in calls:
        with pytest.raises(ProcessDied, match="killed by SIGKILL, after printing: the last words"):
            call.result(0)
    with pytest.raises(ProcessDied):
        process.submit(0, None, "echo", 1).result(LONG)
    process.kill()


def test_of_calls_that_ran_at_a_time_any_may_have_ended_the_process() -> None:
    process = ConcurrentProcess(returns_act, threads=True, most=3)
    process.submit(0, None, "echo", 0).result(LONG)
    sleeping = [process.submit(lane, None, "sleep", 3600) for lane in (1, 1, 2)]
    assert eventually(lambda: process._taken.value == 4)
    os.kill(process.pid, signal.SIGKILL)
    assert [call.exception(LONG).during for call in sleeping] == [None, False, None]  # type: ignore[union-attr]


@pytest.mark.parametrize("threads", [False, True])
def test_a_call_that_the_process_never_took_has_not_ended_it(threads: bool) -> None:
    """Nobody has noticed yet that the process is about to end, or has ended, and a call is sent to it."""
    process = ConcurrentProcess(returns_act, threads=threads)
    process.submit(0, None, "echo", 0).result(LONG)
    os.kill(process.pid, signal.SIGSTOP)
    call = process.submit(1, None, "echo", 1)
    assert eventually(lambda: 2 in process._sent)
    os.kill(process.pid, signal.SIGKILL)
    error = call.exception(LONG)
    assert isinstance(error, ProcessDied)
    assert error.during is False


def test_a_call_that_was_alone_with_the_process_has_ended_it(process: ConcurrentProcess) -> None:
    assert process.submit(0, None, "echo", 1).result(LONG) == 1
    error = process.submit(0, None, "die").exception(LONG)
    assert isinstance(error, ProcessDied)
    assert error.during


def test_a_process_that_does_not_start_says_why() -> None:
    process = ConcurrentProcess(returns_nothing)
    with pytest.raises(ProcessDied, match=r"exit code 1, after printing: .*RuntimeError: nothing to run"):
        process.submit(0, None, "echo", 1).result(LONG)
    assert not process.ready
    process = ConcurrentProcess(hangs, start_seconds=1.0)
    with pytest.raises(DeadlinePassed, match="took longer than 1 s"):
        process.submit(0, None, "echo", 1).result(LONG)
    assert gone(process.pid)


def test_a_process_that_reads_nothing_holds_up_nobody_here(process: ConcurrentProcess) -> None:
    process.submit(0, LONG, "echo", 0).result(LONG)
    os.kill(process.pid, signal.SIGSTOP)
    calls = [process.submit(0, 0.5, "echo", bytes(1 << 20))]
    time.sleep(0.2)  # the others come when this one is being sent
    calls += [process.submit(lane, 0.5, "echo", bytes(1 << 20)) for lane in range(1, 8)]
    for call in calls:
        with pytest.raises(DeadlinePassed):
            call.result(LONG)
    process.kill()
    assert gone(process.pid)


def test_killing_takes_the_processes_that_it_started(process: ConcurrentProcess) -> None:
    child = process.submit(0, LONG, "child").result(LONG)
    waiting = process.submit(1, None, "sleep", 3600)
    process.kill()
    assert gone(child)
    assert gone(process.pid)
    with pytest.raises(ProcessDied):
        waiting.result(LONG)
    process.kill()


@pytest.mark.parametrize("end", ["kill", "die"])
def test_processes_in_sessions_of_their_own_end_with_it(process: ConcurrentProcess, end: str) -> None:
    runaways = [process.submit(0, LONG, "runaway").result(LONG) for _ in range(2)]
    assert all(os.getsid(pid) != process.pid for pid in runaways)
    if end == "kill":
        process.kill()
    else:
        process.submit(0, LONG, "die").exception(LONG)
    assert all(map(gone, runaways))


def test_memory_is_that_of_the_process(process: ConcurrentProcess) -> None:
    process.submit(0, LONG, "echo", 0).result(LONG)
    assert 5 << 20 < process.memory() < 1 << 30
    process.kill()
    assert eventually(lambda: process.memory() == 0)


ENDS = """
import os, signal, sys
sys.path[:0] = {path!r}
from test_concurrent_process import ConcurrentProcess, returns_act

if __name__ == "__main__":
    processes = [ConcurrentProcess(returns_act, threads=threads) for threads in (False, True)]
    children = [process.submit(0, None, kind).result() for process in processes for kind in ("child", "runaway")]
    for process in processes:
        process.submit(0, None, "sleep", 3600)
    print(*children, *(process.pid for process in processes), flush=True)
    {end}
"""


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), signal.SIGKILL)", "sys.exit(0)", "raise KeyboardInterrupt"])
def test_however_the_parent_ends_nothing_is_left(end: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(ENDS.format(path=[str(Path(__file__).parent), *sys.path], end=end))
    ended = subprocess.run([sys.executable, "-P", str(script)], capture_output=True, text=True, timeout=120)
    pids = [int(word) for word in ended.stdout.split()]
    assert len(pids) == 6, ended.stderr
    assert all(map(gone, pids))


def test_partials_are_functions_too() -> None:
    process = ConcurrentProcess(partial(partial, act, "divide"))
    assert process.submit(0, None, 6, 3).result(LONG) == 2
    process.kill()

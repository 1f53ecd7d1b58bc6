"""Many calls at a time to one function in a child process, without a thread for each in this process.

A call belongs to a lane. Calls of one lane run in their order. Either all lanes share the child's main thread, which is
fastest, or each has a thread there, so that a lane that waits or hangs delays no other.

At most `most` calls are with the child, and the others wait here, so that a deadline counts only the time in which a
call can run. Calls and answers that come up together travel as one message. Two threads here move the messages,
however many calls there are. What the child prints goes nowhere, except that the end of it is told if the child dies.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import multiprocessing
import os
import pickle
import selectors
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from ctypes import c_longlong
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import RawValue
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, TypeAlias
from weakref import WeakSet

from turncredit.processes.child_process import (
    CallFailed,
    ChildProcess,
    Function,
    ProcessDied,
    answer_bytes,
    call_bytes,
    result_of,
    run_call,
)
from turncredit.processes.deadlines import DeadlinePassed, WorkerThread
from turncredit.processes.failures import deliverable, message_of

__all__ = ["ConcurrentProcess", "SlowCall"]

_MOST: Final = 32
_START: Final = 120.0
_LOOK: Final = 0.1  # seconds between two looks at the clock
_GATHER: Final = 0.001  # seconds for which a finished answer may wait for others
_READY: Final = 0  # number of the message that says that the child has started
_OUTPUT: Final = 400  # characters of output that are told after a death
_SLOW: Final = 60.0  # seconds after which a call without a deadline is told
_LONGEST: Final = 3600.0  # seconds after which it is given up, and its process killed

Answer: TypeAlias = Future[Any]
"""The future of a result of the function."""
_Message = list[tuple[int, int, bytes | None]]  # number, lane, arguments (None: the lane ends)


@dataclass(slots=True)
class _Call:
    number: int
    lane: int
    arguments: bytes | None
    seconds: float | None
    future: Answer
    late_at: float = float("inf")
    sent_at: float = float("inf")
    told: bool = False


class SlowCall(UserWarning):
    """A call in a child process has taken long, and has no deadline."""


class ConcurrentProcess:
    """A child process that answers many calls at a time."""

    def __init__(
        self,
        make: Callable[[], Function],
        *,
        threads: bool = False,
        most: int = _MOST,
        start_seconds: float = _START,
        slow: float = _SLOW,
        longest: float = _LONGEST,
        name: str = "turncredit-worker",
    ) -> None:
        """Start the process, without waiting for it.

        Args:
            make: returns, in the child, the function that runs the calls; has to be picklable.
            threads: each lane has a thread of its own in the child.
            most: calls that the child has at a time; the others wait here.
            start_seconds: deadline for the start of Python, imports and `make`.
            slow: seconds after which a call without a deadline is told, as a `SlowCall` warning.
            longest: seconds after which such a call ends the process.
            name: name of the process.
        """
        self.late = 0
        """Calls that passed their deadline and may still run."""
        self.ready = False
        """Whether the process has started."""
        self.ended = False
        """Whether the process has ended, or is about to, and can run no more calls."""
        self.error: Exception | None = None
        """Why it has ended."""
        self._most, self._low = most, most - 1 if threads else most // 2
        self._start_by, self._start_seconds = time.monotonic() + start_seconds, start_seconds
        self._name, self._slow, self._longest, self._in_order = name, slow, longest, not threads
        self._answered_at = -float("inf")  # when the last answer came, if calls run one after the other
        self._reason = ""
        self._changed = threading.Condition()
        self._waiting: deque[_Call] = deque()
        self._sent: dict[int, _Call] = {}
        self._numbers = 0
        self._sends_since = float("inf")  # when the writer began to send what the child has not taken yet
        self._printed = b""
        self._output, theirs = multiprocessing.Pipe(duplex=False)
        self._running = RawValue(c_longlong, 0)  # number of the call that the child's main thread runs
        recipe = pickle.dumps(make)
        self._taken = RawValue(c_longlong, 0)  # number of the last call that the child has taken from the pipe
        shared = (self._running, self._taken)
        self._child = ChildProcess(_serve, theirs, recipe, threads, *shared, name=name, daemon=False)
        self.pid = self._child.pid
        theirs.close()
        self._writer = threading.Thread(target=self._write, name=f"{name}-calls", daemon=True)
        self._reader = threading.Thread(target=self._read, name=f"{name}-answers", daemon=True)
        self._writer.start()
        self._reader.start()
        _open.add(self)

    def submit(self, lane: int, seconds: float | None, *args: Any, **kwargs: Any) -> Answer:
        """Call the function and return the future of its result. It may complete on another thread.

        Args:
            lane: number of the lane.
            seconds: deadline from the moment at which the child has the call. A late call is abandoned, and so are its
                lane and, if it does not let other threads run, the whole process: see `late`. None: no deadline, but
                one that takes `longest` seconds ends the process.
            args: of the function.
            kwargs: of the function.

        The future raises what the call raised, or:
            DeadlinePassed: the call took longer than `seconds`.
            ProcessDied: the process ended first; `during` says whether in this call, if that is known.
            CallFailed: the arguments, the result or the exception cannot be pickled.
        """
        future: Answer = Future()
        future.set_running_or_notify_cancel()  # nobody can cancel it, since the child could not stop
        try:
            self._queue(lane, call_bytes(args, kwargs), seconds, future)
        except CallFailed as error:
            future.set_exception(error)
        return future

    def end_lane(self, lane: int) -> None:
        """Let go of a lane's thread, after the calls that it still has."""
        self._queue(lane, None, None, Future())

    def memory(self) -> int:
        """Return the bytes of memory that the process uses now, without the processes that it started; 0: unknown."""
        try:
            return int(Path(f"/proc/{self.pid}/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, ValueError, IndexError):
            return 0

    def kill(self) -> None:
        """Kill the process, and the processes that it started; calls that it still has raise ProcessDied."""
        self._child.stop()
        if threading.current_thread() is not self._reader:
            self._reader.join(timeout=10.0)

    def _queue(self, lane: int, arguments: bytes | None, seconds: float | None, future: Answer) -> None:
        with self._changed:
            if self.error is None:
                self._numbers += 1
                self._waiting.append(_Call(self._numbers, lane, arguments, seconds, future))
                self._changed.notify()
                return
        if arguments is not None:
            future.set_exception(self.error)

    # the writer's thread

    def _can_send(self) -> bool:
        return self.ended or (self.ready and bool(self._waiting) and len(self._sent) <= self._low)

    def _write(self) -> None:
        """Send calls while the child has room for them. A child that reads nothing holds up only this thread."""
        while True:
            with self._changed:
                self._changed.wait_for(self._can_send)
                if self.ended:
                    return
                message = self._next_message()
                self._sends_since = time.monotonic()
            with contextlib.suppress(OSError, ValueError):  # it has died, as the reader will see
                self._child.pipe.send_bytes(pickle.dumps(message))
            self._sends_since = float("inf")

    def _next_message(self) -> _Message:
        current_time, message = time.monotonic(), []
        while self._waiting and len(self._sent) < self._most:
            call = self._waiting.popleft()
            message.append((call.number, call.lane, call.arguments))
            if call.arguments is not None:
                call.sent_at, call.late_at = (
                    current_time,
                    float("inf") if call.seconds is None else current_time + call.seconds,
                )
                self._sent[call.number] = call
        return message

    # the reader's thread

    def _read(self) -> None:
        """Receive answers and output until the process ends or does not start, then fail the calls that are left."""
        pipe, output = self._child.pipe, self._output
        error: Exception | None = None
        try:
            with selectors.DefaultSelector() as selector:
                for source in (pipe, output, self._child.sentinel):
                    selector.register(source, selectors.EVENT_READ)
                while error is None:
                    ready = [key.fileobj for key, _ in selector.select(_LOOK)]
                    if output in ready and not self._keep_output():
                        selector.unregister(output)
                    if pipe in ready:
                        self._receive(pipe.recv_bytes())
                    elif self._child.sentinel in ready:
                        break
                    error = self._check_clock()
        except (EOFError, OSError):
            pass
        except BaseException as problem:  # nobody may wait for answers that cannot come
            error = CallFailed(f"an answer cannot be read: {type(problem).__name__}: {message_of(problem)}")
        self._end(error)

    def _keep_output(self) -> bool:
        """Read output; return whether more may follow."""
        part = os.read(self._output.fileno(), 65536)
        self._printed = (self._printed + part)[-4 * _OUTPUT :]
        return bool(part)

    def _receive(self, message: bytes) -> None:
        answers: list[tuple[int, bytes]] = pickle.loads(message)
        with self._changed:
            self.ready = True
            if self._in_order:
                self._answered_at = time.monotonic()
            calls = [self._sent.pop(number, None) for number, _ in answers]
            self._changed.notify()
        for call, (_, answer) in zip(calls, answers, strict=True):
            if call is not None:  # else it was late, or this says that the process is ready
                _complete(call.future, answer)

    def _check_clock(self) -> Exception | None:
        """Fail calls that are late; return why the process has to end, or None."""
        current_time = time.monotonic()
        if not self.ready:
            return (
                DeadlinePassed(f"took longer than {self._start_seconds:g} s") if current_time > self._start_by else None
            )
        with self._changed:
            late = [call for call in self._sent.values() if call.late_at < current_time]
            for call in late:
                del self._sent[call.number]
            self.late += len(late)
            if late:
                self._changed.notify()
            late += self._late_behind_the_writer(current_time)
            endless = [call for call in self._sent.values() if call.seconds is None]
        for call in late:
            call.future.set_exception(DeadlinePassed(f"took longer than {call.seconds:g} s"))
        self._watch(endless, current_time)
        return None

    def _late_behind_the_writer(self, current_time: float) -> list[_Call]:
        """Take out calls that the child has room for, and that wait too long behind a message that it does not read."""
        stuck = current_time - self._sends_since > _LOOK
        room = self._most - len(self._sent) if stuck else 0
        late = []
        for position, call in enumerate(self._waiting):
            if position >= room or call.seconds is None:
                call.late_at = float("inf")
            elif call.late_at == float("inf"):
                call.late_at = current_time + call.seconds
            elif call.late_at < current_time:
                late.append(call)
        for call in late:
            self._waiting.remove(call)
        return late

    def _watch(self, calls: list[_Call], current_time: float) -> None:
        """Tell which calls without a deadline take long, and end the process over one that takes too long."""
        for call in calls:
            spent = current_time - max(call.sent_at, self._answered_at)
            if spent > self._longest and not self._reason:
                self._reason = f"a call without a deadline took longer than {self._longest:g} s"
                self._child.stop()
            if spent < self._slow or call.told:
                continue
            call.told = True
            with contextlib.suppress(Warning):  # a filter may turn it into an error, and this thread has to go on
                warnings.warn(
                    SlowCall(
                        f"a call in the process {self.pid} ({self._name}) has taken {spent:.0f} s and has no deadline; "
                        f"after {self._longest:g} s it is given up"
                    ),
                    stacklevel=1,
                )
            if self._in_order:
                return  # the others wait for this one

    def _end(self, error: Exception | None) -> None:
        with self._changed:
            self.ended = True
            self._changed.notify()
        if error is not None:
            self._child.stop()
        self._writer.join(timeout=10.0)
        code = self._child.kill(patience=5.0)
        with contextlib.suppress(OSError):
            while multiprocessing.connection.wait([self._output], 0) and self._keep_output():
                pass
        self._output.close()
        printed = " ".join(self._printed.decode(errors="replace").split())[-_OUTPUT:]
        with self._changed:
            self.error = error or ProcessDied(code, printed, during=False, reason=self._reason)
            taken = [call for call in self._sent.values() if call.number <= self._taken.value]
            heads = {call.lane: call.number for call in reversed(taken)}  # the first of each lane
            calls = [*self._sent.values(), *self._waiting]
            self._sent.clear()
            self._waiting.clear()
        ran = self._running.value or (next(iter(heads.values())) if len(heads) == 1 else 0)
        unsure = set() if ran or self._in_order else set(heads.values())
        for call in calls:
            if call.arguments is not None:
                during = None if call.number in unsure else call.number == ran
                call.future.set_exception(error or ProcessDied(code, printed, during=during, reason=self._reason))
        _open.discard(self)


_open: WeakSet[ConcurrentProcess] = WeakSet()


def _kill_all() -> None:
    for process in list(_open):
        process.kill()


atexit.register(_kill_all)  # runs before multiprocessing's own hook, which would wait for the processes


def _complete(future: Answer, answer: bytes) -> None:
    try:
        _, error, value = pickle.loads(answer)
    except BaseException as problem:  # what reading runs is the value's own code
        value, error = None, CallFailed(f"the result cannot be read: {type(problem).__name__}: {message_of(problem)}")
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(deliverable(error))


# in the child


def _serve(
    pipe: Connection, output: Connection, recipe: bytes, threads: bool, running: c_longlong, taken: c_longlong
) -> None:
    """Run in the child: answer calls until the parent closes the pipe."""
    _use_output(output)
    answers, function = _Answers(pipe), pickle.loads(recipe)()
    runner = _OnThreads(function, answers) if threads else _InOrder(function, answers, running)
    answers.send([(_READY, b"")])
    threading.Thread(target=_receive_calls, args=(pipe, runner, taken), name="turncredit-calls", daemon=True).start()
    with contextlib.suppress(OSError):
        runner.run()


def _use_output(output: Connection) -> None:
    """Send what is printed to the parent instead of the terminal, and give nothing to those who read."""
    for number in (1, 2):
        os.dup2(output.fileno(), number)
    output.close()
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    faulthandler.enable()


def _receive_calls(pipe: Connection, runner: _InOrder | _OnThreads, taken: c_longlong) -> None:
    """Hand on calls until the parent closes the pipe."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            for number, lane, arguments in pickle.loads(pipe.recv_bytes()):
                taken.value = number  # before it can run
                runner.put(number, lane, arguments)
    runner.end()


class _Answers:
    """Sends answers, from any thread."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe, self._lock = pipe, threading.Lock()

    def send(self, answers: list[tuple[int, bytes]]) -> None:
        message = pickle.dumps(answers)
        with self._lock:
            self._pipe.send_bytes(message)


class _InOrder:
    """Runs all calls on the main thread. Answers are gathered for a moment, since every message has its cost."""

    def __init__(self, function: Function, answers: _Answers, running: c_longlong) -> None:
        self._function, self._answers, self._running = function, answers, running
        self._calls: SimpleQueue[tuple[int, bytes] | None] = SimpleQueue()

    def put(self, number: int, lane: int, arguments: bytes | None) -> None:
        if arguments is not None:
            self._calls.put((number, arguments))

    def end(self) -> None:
        self._calls.put(None)

    def run(self) -> None:
        done: list[tuple[int, bytes]] = []
        first = 0.0
        while (call := self._calls.get()) is not None:
            number, arguments = call
            self._running.value = number
            done.append((number, _answer(self._function, number, arguments)))
            self._running.value = 0
            current_time = time.monotonic()
            first = first if done[1:] else current_time
            if self._calls.empty() or current_time - first > _GATHER:
                self._answers.send(done)
                done = []


class _OnThreads:
    """Runs the calls of each lane on a thread of its own."""

    def __init__(self, function: Function, answers: _Answers) -> None:
        self._function, self._answers = function, answers
        self._lanes: dict[int, WorkerThread] = {}
        self._over = threading.Event()

    def put(self, number: int, lane: int, arguments: bytes | None) -> None:
        if arguments is None:
            if lane in self._lanes:
                self._lanes.pop(lane).stop()
            return
        if lane not in self._lanes:
            self._lanes[lane] = WorkerThread("turncredit-lane")
        self._lanes[lane].submit(self._run_one, number, arguments)

    def end(self) -> None:
        self._over.set()

    def run(self) -> None:
        self._over.wait()

    def _run_one(self, number: int, arguments: bytes) -> None:
        with contextlib.suppress(OSError):  # the parent has ended
            self._answers.send([(number, _answer(self._function, number, arguments))])


def _answer(function: Function, number: int, arguments: bytes) -> bytes:
    """Return the answer to a call; an environment that exits does not take the others with it."""
    try:
        error, value = result_of(partial(run_call, function, arguments))
    except (SystemExit, KeyboardInterrupt) as left:  # no terminal reaches this process, so its own code raised them
        error, value = deliverable(left), None
    return answer_bytes(number, error, value)

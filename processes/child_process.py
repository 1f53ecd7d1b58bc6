"""A child process with a pipe to it, and what both sides need to call functions in it.

The child leads its own session: signals from the terminal do not reach it, and killing it kills the processes that
it started. It ends with its parent, however that ends, and takes those processes with it. On Linux this includes
processes that began sessions of their own: they are known by their ancestors, and by a variable that they inherit.

`turncredit.processes.deadlines.WorkerProcess` makes one call at a time,
`turncredit.processes.concurrent_process.ConcurrentProcess` many.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import multiprocessing
import os
import pickle
import secrets
import signal
import threading
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, TypeAlias

from turncredit.processes.failures import deliverable, message_of
from turncredit.processes.garbage_collection import collect_garbage_less_often, leave_inherited_garbage, no_collection
from turncredit.registry import ImportRules, adopt_import_rules, import_rules

__all__ = [
    "CallFailed",
    "ChildProcess",
    "Function",
    "ProcessDied",
    "answer_bytes",
    "call_bytes",
    "end_descendants_at_exit",
    "result_of",
    "run_call",
]

Function: TypeAlias = Callable[..., Any]
"""What runs the calls in a child process; arguments and results are pickled."""
MARKS: Final = "TURNCREDIT_CHILDREN"
"""Environment variable with the marks of the child processes that started a process, directly or not."""
_ROUNDS: Final = 5  # looks for processes that were started while others were killed


class ProcessDied(Exception):
    """The child process ended during a call; the message says how."""

    def __init__(
        self, exit_code: int | None, output: str = "", *, during: bool | None = True, reason: str = ""
    ) -> None:
        """Keep how it ended.

        Args:
            exit_code: negative if a signal killed the process, None if unknown.
            output: the last lines that the process printed.
            during: whether it ended in this call, and not in another one that ran at the time; None: in this call or in
                one of others.
            reason: why it was killed, if it was killed from here.
        """
        killed = exit_code is not None and exit_code < 0
        how = f"killed by {signal.Signals(-exit_code).name}" if killed else f"exit code {exit_code}"  # type: ignore[operator]
        how = f"{how}, because {reason}" if reason else how
        super().__init__(how + (f", after printing: {output}" if output else ""))
        self.exit_code = exit_code
        self.output = output
        self.during = during
        self.reason = reason

    def __reduce__(self) -> tuple[object, ...]:
        """Let it travel to another process."""
        return partial(ProcessDied, during=self.during, reason=self.reason), (self.exit_code, self.output)


class CallFailed(Exception):
    """A call in a child process raised an exception, or returned a value, that cannot be pickled."""


class ChildProcess:
    """A child process that runs one function with its end of a pipe."""

    def __init__(
        self,
        target: Callable[..., None],
        *args: object,
        name: str,
        start_method: str = "spawn",
        daemon: bool = True,
    ) -> None:
        """Start the process.

        Args:
            target: called in the child as `target(pipe, *args)`; has to be picklable, like the arguments.
            args: further arguments.
            name: name of the process.
            start_method: see multiprocessing. "fork" is fast, but unsafe once threads run.
            daemon: as in multiprocessing: a daemon ends when this interpreter exits, and cannot start processes with
                multiprocessing itself.
        """
        context = multiprocessing.get_context(start_method)
        self.pipe, theirs = context.Pipe()
        self._mark = secrets.token_hex(8)
        self._process: Any = context.Process(  # type: ignore[attr-defined]
            target=_begin,
            args=(import_rules(), self._mark, gc.isenabled(), target, theirs, *args),
            name=name,
            daemon=daemon,
        )
        self._lock = threading.Lock()  # of the decision who reaps the process
        with no_collection():  # in a fork the collector waits until the garbage of this process is set aside
            self._process.start()
        self.pid: int = self._process.pid
        self.sentinel: int = self._process.sentinel
        theirs.close()

    @property
    def killed(self) -> bool:
        """Whether `kill` has been called."""
        return self._process is None

    def stop(self) -> None:
        """Kill the process and those that it started; the user of the pipe must still call `kill`."""
        with self._lock:
            if self._process is not None:
                _kill_group(self._process, self._mark, ended=False)

    def kill(self, patience: float = 0.0) -> int | None:
        """Close the pipe, and kill the process and the processes that it started.

        Args:
            patience: seconds in which the process may exit by itself.

        Returns:
            Its exit code if it exited by itself, else None.
        """
        with self._lock:
            process, self._process = self._process, None
        if process is None:
            return None
        self.pipe.close()
        process.join(timeout=patience)
        code: int | None = process.exitcode
        _kill_group(process, self._mark, ended=code is not None)
        process.join(timeout=5.0)
        process.close()
        return code


def end_descendants_at_exit() -> None:
    """Let this program, as its last act, kill what it started and did not end: what environments in it have started.

    This includes daemons, which have left their parents: they are known by the variable `MARKS`. A program that is
    meant to stay has to be started without it. Worker processes end with this one anyway; those of `multiprocessing`
    that clean up after it are left to do so.

    Not included: daemons that run no program of their own, for which the system shows the variables of this one.
    """
    mark = secrets.token_hex(8)
    _mark_children(mark)
    atexit.register(_end_descendants, os.getpid(), mark)


def _mark_children(mark: str) -> None:
    """Let what this process starts from now on inherit a mark."""
    os.environ[MARKS] = f"{os.environ.get(MARKS, '')} {mark}".strip()


def _end_descendants(program: int, mark: str) -> None:
    if os.getpid() != program:  # a fork of it
        return
    trackers = {resource_tracker._resource_tracker._pid, forkserver._forkserver._forkserver_pid} - {None}  # type: ignore[attr-defined]
    spared = trackers.union(*(_descendants(pid) for pid in trackers))
    _kill(_descendants(program), spared)
    _kill_marked(mark, spared | {program})


def _kill_group(process: Any, mark: str, ended: bool) -> None:
    """Kill a process and its group, which outlives it, and what it started outside the group."""
    below = [] if ended else _descendants(process.pid)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        # Before the child has called setsid, it is still in our own group.
        if ended or os.getpgid(process.pid) == process.pid:
            os.killpg(process.pid, signal.SIGKILL)
    if process.is_alive():
        process.kill()
    _kill(below, {os.getpid()})
    _kill_marked(mark, {os.getpid()})


def _kill_marked(mark: str, without: set[int]) -> None:
    """Kill the processes that inherited a mark."""
    for _ in range(_ROUNDS):
        if not _kill((pid for pid in _pids() if mark.encode() in _read(pid, "environ")), without):
            return


def _kill(pids: Iterable[int], without: set[int]) -> int:
    """Kill processes; return how many there were."""
    killed = 0
    for pid in pids:
        if pid not in without:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
                killed += 1
    return killed


def _descendants(pid: int) -> list[int]:
    """Return the processes that a running process started, and those that they started."""
    children = defaultdict(list)
    for other in _pids():
        fields = _read(other, "stat").rpartition(b")")[2].split()
        if len(fields) > 1:
            children[int(fields[1])].append(other)
    below = list(children[pid])
    for child in below:  # it grows meanwhile
        below += children[child]
    return below


def _pids() -> list[int]:
    """Return the ids of all processes; none where there is no /proc."""
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return []


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _begin(
    rules: ImportRules, mark: str, collects: bool, target: Callable[..., None], pipe: Connection, *args: object
) -> None:
    """Run in the child: leave the parent's session, watch the parent, and call the target."""
    leave_inherited_garbage(collects)
    adopt_import_rules(rules)
    with contextlib.suppress(OSError, AttributeError):
        os.setsid()
    _mark_children(mark)
    threading.Thread(target=_end_with_parent, args=(mark,), name="turncredit-parent", daemon=True).start()
    collect_garbage_less_often()
    target(pipe, *args)
    _end_with_parent(mark, patience=1.0)  # the pipe of a parent that has just ended may be closed first


def _end_with_parent(mark: str, patience: float | None = None) -> None:
    """End this process and those that it started as soon as the parent has ended, even during a call.

    Args:
        mark: of this process.
        patience: seconds after which to return if the parent still runs; None: wait for its end.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    parent.join(timeout=patience)
    if patience is not None and parent.is_alive():
        return
    _kill(_descendants(os.getpid()), set())
    _kill_marked(mark, {os.getpid()})
    with contextlib.suppress(OSError, AttributeError):
        if os.getpgid(0) == os.getpid():
            os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


def call_bytes(args: tuple[object, ...], kwargs: dict[str, object]) -> bytes:
    """Return the arguments of a call as bytes.

    Raises:
        CallFailed: they cannot be pickled.
    """
    try:
        return pickle.dumps((args, kwargs))
    except Exception as error:
        raise CallFailed(f"the arguments cannot be sent to another process: {message_of(error)}") from error


def run_call(function: Function, arguments: bytes) -> Any:
    """Return the result of a function for the arguments of `call_bytes`."""
    args, kwargs = pickle.loads(arguments)
    return function(*args, **kwargs)


def result_of(function: Callable[[], object]) -> tuple[Exception | None, Any]:
    """Return (exception that can be pickled and delivered, None), or (None, value); exits and Ctrl-C pass through."""
    try:
        return None, function()
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as raised:
        return _portable(deliverable(raised), _traceback_of(raised)), None


def _traceback_of(error: BaseException) -> str:
    try:
        return "in the child process:\n" + "".join(traceback.format_exception(error))
    except Exception as problem:
        return f"(its traceback cannot be printed: {type(problem).__name__})"


def _portable(error: Exception, note: str) -> Exception:
    """Return an exception with a note if it arrives elsewhere as it is, else one that says the same."""
    try:
        error.add_note(note)
        arrived = pickle.loads(pickle.dumps(error))
        if isinstance(arrived, Exception) and deliverable(arrived) is arrived:
            return error
    except Exception:  # what pickling runs is the exception's own code
        pass
    return CallFailed(f"{type(error).__name__}: {message_of(error)}\n{note}")


def answer_bytes(number: int, error: Exception | None, value: object) -> bytes:
    """Return the answer to a call as bytes: (number, error, value), pickled."""
    try:
        return pickle.dumps((number, error, value))
    except BaseException as problem:  # what pickling runs is the value's own code
        text = f"the result cannot be sent between processes: {message_of(problem)}"
        return pickle.dumps((number, CallFailed(text), None))

"""The request loop of a session's interpreter; it runs inside the box and needs only the standard library.

Requests arrive on the original standard input and replies leave on the original standard output, each as JSON after a
four-byte length. The code itself reads from an empty standard input and writes to two unnamed files, which child
processes inherit.
"""

from __future__ import annotations

import ast
import fcntl
import io
import json
import linecache
import os
import resource
import signal
import struct
import sys
import tempfile
import traceback
from typing import Any, BinaryIO

_encode = json.JSONEncoder(separators=(",", ":")).encode


class CallInterrupted(KeyboardInterrupt):
    """The call exceeded its time limit. Not an `Exception`, so that ordinary handlers do not catch it."""

    stop = "timeout"


class CpuTimeExceeded(CallInterrupted):
    """The call exceeded its CPU time."""

    stop = "cpu"


def _alarm(number: int, frame: object) -> None:
    raise (CpuTimeExceeded if number == signal.SIGXCPU else CallInterrupted)("the call was interrupted")


def _arm(request: dict[str, Any]) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    current, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = int(used.ru_utime + used.ru_stime + request["cpu"]) + 1
    if soft != current and (hard == resource.RLIM_INFINITY or soft < hard):
        resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))
    signal.signal(signal.SIGALRM, _alarm)
    signal.signal(signal.SIGXCPU, _alarm)
    signal.setitimer(signal.ITIMER_REAL, request["timeout"], 0.2)  # repeated, in case the code swallows it


def _evaluate(code: str, name: str, namespace: dict[str, Any]) -> str:
    tree = ast.parse(code, name)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr):
        exec(compile(tree, name, "exec"), namespace)
        return ""
    exec(compile(ast.Module(tree.body[:-1], []), name, "exec"), namespace)
    value = eval(compile(ast.Expression(last.value), name, "eval"), namespace)
    if value is None:
        return ""
    namespace["_"] = value
    return repr(value)


def _format_error(error: BaseException) -> str:
    trace = error.__traceback__
    for _ in range(2):  # the frames of this file
        trace = trace.tb_next if trace is not None else None
    return "".join(traceback.format_exception(type(error), error, trace))


def _run(request: dict[str, Any], name: str, namespace: dict[str, Any]) -> dict[str, Any]:
    code = request["code"]
    reply: dict[str, Any] = {"value": "", "error": "", "stop": "", "number": request["number"]}
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    try:
        try:
            _arm(request)
            reply["value"] = _evaluate(code, name, namespace)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except BaseException as error:
        signal.setitimer(signal.ITIMER_REAL, 0)
        reply["error"] = _format_error(error)
        if isinstance(error, CallInterrupted):
            reply["stop"] = error.stop
    return reply


def _drain(fd: int, limit: int) -> str:
    size = os.fstat(fd).st_size
    if not size:
        return ""
    text = os.pread(fd, limit, 0).decode("utf-8", "replace")
    left = size - limit
    os.ftruncate(fd, 0)
    return text + (f"\n[{left:,} more bytes]" if left > 0 else "")


def _captured(number: int) -> BinaryIO:
    """Redirect a descriptor to an unnamed file."""
    file = tempfile.TemporaryFile("wb+", buffering=0)  # noqa: SIM115 - it stays open while the interpreter lives
    fcntl.fcntl(file, fcntl.F_SETFL, os.O_APPEND)  # so that output begins at 0 again once the file was truncated
    os.dup2(file.fileno(), number)
    return file


def _stream(number: int) -> io.TextIOWrapper:
    raw = io.FileIO(number, "w", closefd=False)
    return io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", "backslashreplace", line_buffering=True)


def _send(file: BinaryIO, reply: dict[str, Any]) -> None:
    data = _encode(reply).encode()
    file.write(struct.pack("!I", len(data)) + data)
    file.flush()


def main() -> None:
    """Run requests until the input ends; an answer has no field that would be empty."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    files = [_captured(1), _captured(2)]
    own_pid, count = os.getpid(), 0
    if not sys.flags.isolated:
        sys.path.insert(0, "")
    module = type(sys)("__main__")  # so that pickle finds the classes that the code defines
    sys.modules["__main__"] = module
    _send(replies, {"ready": sys.version})
    while header := requests.read(4):
        request = json.loads(requests.read(struct.unpack("!I", header)[0]))
        count += 1
        sys.stdout, sys.stderr = _stream(1), _stream(2)
        reply = _run(request, f"<call {count}>", vars(module))
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except BaseException as error:
                reply["error"] = reply["error"] or f"{type(error).__name__}: {error}"
        if os.getpid() != own_pid:  # the code forked, and this is the child
            os._exit(0)
        limit = request["output"]
        reply["stdout"], reply["stderr"] = (_drain(file.fileno(), limit) for file in files)
        for name in ("value", "error"):
            reply[name] = reply[name][:limit]
        _send(replies, {name: value for name, value in reply.items() if value})


if __name__ == "__main__":
    main()

"""The loop inside a session's interpreter: a program's text in, what came of it out. Needs only the standard library.

It runs in the box, from its text. Requests come on what was standard input, answers go to what was standard output,
each a length of four bytes and JSON; the code sees an empty standard input, and its output goes to two files without
names, which child processes write to as well.
"""

from __future__ import annotations

import ast
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


class Interrupted(KeyboardInterrupt):
    """The call took too long; no `except Exception` catches it."""

    why = "timeout"


class Spent(Interrupted):
    """The call used too much processor time."""

    why = "cpu"


def _alarm(number: int, frame: object) -> None:
    raise (Spent if number == signal.SIGXCPU else Interrupted)("the call was interrupted")


def _arm(request: dict[str, Any]) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    soft = int(used.ru_utime + used.ru_stime + request["cpu"]) + 1
    if hard == resource.RLIM_INFINITY or soft < hard:
        resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))
    signal.signal(signal.SIGALRM, _alarm)
    signal.signal(signal.SIGXCPU, _alarm)
    signal.setitimer(signal.ITIMER_REAL, request["timeout"], 0.2)  # again and again, should the code swallow it


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


def _explain(error: BaseException) -> str:
    trace = error.__traceback__
    for _ in range(2):  # the frames of this file
        trace = trace.tb_next if trace is not None else None
    return "".join(traceback.format_exception(type(error), error, trace))


def _run(request: dict[str, Any], name: str, namespace: dict[str, Any]) -> dict[str, Any]:
    code, answer = request["code"], {"value": "", "error": "", "stop": "exit"}
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    try:
        try:
            _arm(request)
            answer["value"] = _evaluate(code, name, namespace)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except BaseException as error:
        signal.setitimer(signal.ITIMER_REAL, 0)
        answer["error"] = _explain(error)
        if isinstance(error, Interrupted):
            answer["stop"] = error.why
    return answer


def _drain(fd: int, most: int) -> str:
    text = os.pread(fd, most, 0).decode("utf-8", "replace")
    left = os.fstat(fd).st_size - most
    os.ftruncate(fd, 0)
    return text + (f"\n[{left:,} more bytes]" if left > 0 else "")


def _captured(number: int) -> BinaryIO:
    """Return a file without a name that has become the descriptor; appended to, so that it can be emptied."""
    file = tempfile.TemporaryFile("ab+", buffering=0)  # noqa: SIM115 - it stays open as long as the interpreter lives
    os.dup2(file.fileno(), number)
    return file


def _stream(number: int) -> io.TextIOWrapper:
    raw = io.FileIO(number, "w", closefd=False)
    return io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", "backslashreplace", line_buffering=True)


def _answer(file: BinaryIO, answer: dict[str, Any]) -> None:
    data = json.dumps(answer).encode()
    file.write(struct.pack("!I", len(data)) + data)
    file.flush()


def main() -> None:
    """Answer calls until the input ends."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    files = [_captured(1), _captured(2)]
    me, count = os.getpid(), 0
    module = type(sys)("__main__")  # classes that the code defines belong to it
    sys.modules["__main__"] = module
    _answer(answers, {"ready": sys.version})
    while header := requests.read(4):
        request = json.loads(requests.read(struct.unpack("!I", header)[0]))
        count += 1
        sys.stdout, sys.stderr = _stream(1), _stream(2)
        answer = _run(request, f"<call {count}>", vars(module))
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except BaseException as error:
                answer["error"] = answer["error"] or f"{type(error).__name__}: {error}"
        if os.getpid() != me:  # the code forked, and this is the child
            os._exit(0)
        most = request["output"]
        answer["stdout"], answer["stderr"] = (_drain(file.fileno(), most) for file in files)
        for name in ("value", "error"):
            answer[name] = answer[name][:most]
        _answer(answers, answer)


if __name__ == "__main__":
    main()

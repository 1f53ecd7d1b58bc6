"""The driver in the candidate's sandbox: it calls the candidate's code and reports results as plain data.

Its source is sent to the sandbox (after that of `serialization`) and runs in the same process as the candidate, which
can manipulate it. That gains nothing: only arguments come in and values go out; expected values and grades are never
here, and the time of a call is taken by the host (see `candidate_process`). All imports of this module are resolved
before the candidate's folder is on the path, so that a file named `json.py`, of the task or of the agent, is what the
candidate imports and not what this module uses.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.machinery
import json
import os
import signal
import sys
from typing import Any

from turncredit.envs.code.serialization import NotPlain, RawText, decode, encode, refuse

things: dict[int, Any] = {}  # number -> object that is not plain


class CallTimeout(BaseException):
    """A call took too long; derived from BaseException so that `except Exception` does not catch it."""


def _ring(number: int, frame: object) -> None:
    raise CallTimeout


def _other(value: object) -> object:
    """Return a reference to a value that is not plain, with its type."""
    if isinstance(value, type) and issubclass(value, BaseException):
        return {"E": [str(kind.__name__) for kind in value.__mro__]}
    things[len(things) + 1] = value
    plain = isinstance(value, _CONTAINERS)
    return {"h": [len(things), type(value).__name__, callable(value), hasattr(type(value), "__next__"), plain]}


_CONTAINERS = (list, tuple, dict, set, frozenset)


def _stays(value: object) -> bool:
    """Return whether a value is a container of a class that the candidate defined, which keeps its methods."""
    return isinstance(value, _CONTAINERS) and type(value).__module__ not in sys.stdlib_module_names


def _thing(data: Any) -> object:
    if "h" in data:
        return things[int(data["h"])]
    if "T" in data:
        return getattr(builtins, data["T"])
    if "k" in data:  # an instance of a class that both sides define
        module, name, state = data["k"]
        kind = getattr(sys.modules[module], name)
        made = kind.__new__(kind)
        made.__dict__.update(decode(state, _thing))
        return made
    raise NotPlain("no value")


def _do(request: dict[str, Any]) -> object:
    kind = request["do"]
    if kind == "load":
        importlib.import_module(request["module"])
        return None
    if kind == "get":
        return getattr(importlib.import_module(request["module"]), request["name"])
    if kind == "name":
        value = things[request["of"]]
        return getattr(value, request["name"])
    if kind == "list":
        return [item for _, item in zip(range(request["most"]), things[request["of"]], strict=False)]
    if kind == "plain":
        return things[request["of"]]
    if kind == "next":
        return next(things[request["of"]])
    target = things[request["of"]] if "of" in request else None
    if target is None:
        owner, _, name = request["name"].rpartition("().")  # "Solution().add": a method of a new object
        module = importlib.import_module(request["module"])
        target = getattr(getattr(module, owner)() if owner else module, name)
    arguments = decode(request["arguments"], _thing)
    value = target(*arguments[0], **arguments[1])
    return value if request.get("alone") else [value, _changeable(arguments[0])]


def _changeable(arguments: list[object]) -> list[object]:
    """Return the arguments that a call may have changed, if they are plain; None for the others."""
    after = []
    for value in arguments:
        try:
            after.append(value if type(value) in (list, dict, set) and encode(value, refuse) else None)
        except NotPlain:
            after.append(None)
    return after


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return the response to a request: {"v": value} or {"e": names of the exception's classes, "m": its message}."""
    try:
        signal.signal(signal.SIGALRM, _ring)
        signal.setitimer(signal.ITIMER_REAL, request["seconds"], 0.2)
        try:
            whole = "alone" in request or request["do"] == "plain"
            value = encode(_do(request), _other, None if whole else _stays)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if "alone" in request:
            things.clear()  # nothing asks for them
        return {"v": value}
    except BaseException as error:
        names = [kind.__name__ for kind in type(error).__mro__]
        try:
            message = str(error)[:300]
        except BaseException:
            message = ""
        return {"e": names, "m": message}


def serve(text: str, seconds: float) -> str:
    """Return the response to a request, both as JSON; called by a session."""
    return RawText(json.dumps(answer({**json.loads(text), "seconds": seconds})))


def prepare() -> None:
    """Discard the candidate's own output, and let it import its own modules.

    That includes those named like one of Python's that is already loaded here. Builtin and frozen modules stay: no file
    replaces them in any Python program.
    """
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (1, 2):
        os.dup2(nowhere, number)
    folder = os.getcwd()
    for name in {entry.partition(".")[0] for entry in os.listdir(folder)}:
        fixed = name in sys.builtin_module_names or name in ("__main__", "encodings", "importlib")
        if name not in sys.modules or fixed or importlib.machinery.FrozenImporter.find_spec(name):
            continue
        for loaded in [key for key in sys.modules if key == name or key.startswith(f"{name}.")]:
            del sys.modules[loaded]
    sys.path.insert(0, folder)
    importlib.invalidate_caches()

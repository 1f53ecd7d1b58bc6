"""The driver in the tests' sandbox: it runs test scripts, and no candidate code ever runs there.

A call of the candidate is handed out as a request, made in the candidate's sandbox, and its result is handed in as
plain data: `begin` and `go_on` alternate with the process that forwards them. An object that is not plain stays in the
candidate's sandbox, and the script gets a `RemoteObject`, which can be called, iterated, indexed and asked for
attributes, and equals only itself.

A script that imports a module of the task gets a `ModuleProxy`. All other imports, and those of this module, never
reach the candidate: a module that is missing here is missing. A test in which the candidate ended or took too long
fails, also where the script expects an exception.

The source of this module is sent to the sandbox, after those of `serialization` and `pytest_substitute`.
"""

from __future__ import annotations

import ast
import builtins
import importlib.util
import inspect
import json
import os
import queue
import random
import sys
import threading
import types
import unittest
from collections.abc import Callable, Iterator
from typing import Any

from turnwise.envs.code.pytest_substitute import pytest_substitute
from turnwise.envs.code.serialization import NotPlain, RawText, decode, encode

outbox: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
inbox: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
errors: dict[str, type[BaseException]] = {}
shared: dict[str, str] = {}  # class name -> module, for classes that both sides define
blamed: list[str] = []  # exceptions that the candidate raised
moves: list[None] = []  # one entry for each request that may change remote objects
spoiled: list[str] = []  # calls after which the current test has failed, whatever the script makes of it
late: list[None] = []  # calls that took too long
lost: list[str] = []  # why the candidate's process is gone
MANY = 100_000


class CandidateFailed(AssertionError):
    """The candidate did not answer a call, or raised an exception that tests must not mistake for their own failure."""


def ask(request: dict[str, Any]) -> Any:
    """Return the candidate's response to a request, or raise the exception that it raised."""
    if request["do"] != "plain":
        moves.append(None)
    if lost:
        raise _spoiled(lost[0])
    outbox.put({"ask": json.dumps(request)})
    text, ended = inbox.get()
    if ended:
        lost.append(ended)
        raise _spoiled(ended)
    try:
        answer = json.loads(text)
        if "v" in answer:
            return decode(answer["v"], _remote)
        names, message = [str(name) for name in answer["e"]], str(answer.get("m", ""))
        kind = _error(names, request["do"])
    except Exception:  # a malformed answer does not come from our driver
        raise _spoiled("the program gave no answer") from None
    if names[0] == "CallTimeout":
        late.append(None)
    if "Exception" not in names:  # nothing that a test may expect: it ends the whole run of a test suite
        raise _spoiled(f"{names[0]}: {message}"[:300])
    blamed.append(f"{names[0]}: {message}"[:300])
    raise kind(message)


def _spoiled(message: str) -> CandidateFailed:
    spoiled.append(message)
    blamed.append(message)
    return CandidateFailed(message)


def _error(names: list[str], do: str = "") -> type[BaseException]:
    """Return a local exception class for the class names of a remote one.

    A call does not raise StopIteration, which would end a loop of the test over its cases.
    """
    if names[0] in errors:
        return errors[names[0]]
    for name in names:
        kind = getattr(builtins, name, None)
        if isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, AssertionError):
            if issubclass(kind, StopIteration | StopAsyncIteration) and do != "next":
                return RuntimeError
            if name == names[0]:
                return kind
            return errors.setdefault(names[0], type(names[0], (kind,), {}))
    return CandidateFailed


class RemoteObject:
    """An object in the candidate's sandbox; containers are compared here, by their contents as plain data."""

    def __init__(self, number: int, kind: str, callable_: bool, walks: bool, plain: bool) -> None:
        self.__dict__["_remote"] = (number, kind, callable_, walks, plain)

    def _plain(self) -> Any:
        """Return its contents, which are requested once so that several comparisons see the same value."""
        if self.__dict__.get("_known", (-1,))[0] != len(moves):
            self.__dict__["_known"] = (len(moves), self._ask(do="plain"))
        return self.__dict__["_known"][1]

    def _ask(self, **request: Any) -> Any:
        return ask({"of": self.__dict__["_remote"][0], **request})

    def _call(self, name: str, *arguments: Any) -> Any:
        return self.__getattr__(name)(*arguments)  # the remote method, not the one of this class

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the remote object."""
        return self._ask(do="name", name=name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute of the remote object."""
        self._call("__setattr__", name, value)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Call the remote object."""
        return _call({"of": self.__dict__["_remote"][0]}, arguments, keywords)

    def __iter__(self) -> Iterator[Any]:
        if self.__dict__["_remote"][3]:
            return iter(self.__next__, RemoteObject)
        return iter(self._ask(do="list", most=MANY))

    def __next__(self) -> Any:
        """Return the next item of a remote iterator."""
        return self._ask(do="next")

    def __len__(self) -> int:
        try:
            return int(self._call("__len__"))
        except AttributeError as error:
            raise TypeError(f"{self!r} has no length") from error  # list() expects a TypeError

    def __getitem__(self, key: Any) -> Any:
        return self._call("__getitem__", key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._call("__setitem__", key, value)

    def __delitem__(self, key: Any) -> None:
        self._call("__delitem__", key)

    def __contains__(self, item: Any) -> bool:
        return any(other == item for other in self)

    def __bool__(self) -> bool:
        return bool(self._plain()) if self.__dict__["_remote"][4] else True

    def __enter__(self) -> Any:
        return self._call("__enter__")

    def __exit__(self, *error: Any) -> None:
        self._call("__exit__", None, None, None)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, RemoteObject) and other.__dict__["_remote"][0] == self.__dict__["_remote"][0]:
            return True
        if not self.__dict__["_remote"][4]:
            return False
        return bool(self._plain() == (other._plain() if isinstance(other, RemoteObject) else other))

    def __hash__(self) -> int:
        return hash(self.__dict__["_remote"][0])

    def __str__(self) -> str:
        return str(self._call("__str__"))

    def __repr__(self) -> str:
        return f"<{self.__dict__['_remote'][1]} of the candidate>"


# Messages that agents read contain these names.
CandidateFailed.__name__ = "Failed"
RemoteObject.__name__ = "Remote"


def _remote(data: dict[str, Any]) -> Any:
    if "h" in data:
        number, kind, callable_, walks, plain = data["h"]
        return RemoteObject(int(number), str(kind), bool(callable_), bool(walks), bool(plain))
    if "E" in data:
        return _error([str(name) for name in data["E"]])
    raise NotPlain("no value")


def _local(value: Any) -> Any:
    """Return the data of an argument that is not plain."""
    if isinstance(value, RemoteObject):
        return {"h": value.__dict__["_remote"][0]}
    name = type(value).__name__
    if name in shared:
        return {"k": [shared[name], name, encode(vars(value), _local)]}
    if isinstance(value, type) and getattr(builtins, str(name := value.__name__), None) is value:
        return {"T": name}
    raise TypeError(f"a {name} cannot be handed to the candidate: it gets numbers, texts and containers of these")


class ModuleProxy(types.ModuleType):
    """Stands in for a module of the candidate when tests import it."""

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the candidate's module."""
        if name.startswith("__"):
            raise AttributeError(name)
        return ask({"do": "get", "module": self.__name__, "name": name})


def _check_parts(order: dict[str, Any], space: dict[str, Any]) -> list[tuple[str, Callable[[], None]]]:
    """Split check(candidate) into its statements, which run one after another in the same namespace."""
    tree = ast.parse(order["code"])
    main = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "check")
    exec(compile(ast.Module([node for node in tree.body if node is not main], []), "<tests>", "exec"), space)
    space[main.args.args[0].arg] = candidate(order["module"], order["entry"])

    def part(node: ast.stmt) -> Callable[[], None]:
        return lambda: exec(compile(ast.Module([node], []), "<tests>", "exec"), space)

    return [(f"check {number}", part(node)) for number, node in enumerate(main.body)]


def _function_parts(order: dict[str, Any], space: dict[str, Any]) -> list[tuple[str, Callable[[], None]]]:
    exec(compile(order["code"], "<tests>", "exec"), space)
    parts: list[tuple[str, Callable[[], None]]] = []
    for name, value in list(space.items()):
        if isinstance(value, types.FunctionType) and name.startswith("test"):
            parts.append((name, _function(value)))
        elif isinstance(value, type) and value.__module__ == "__tests__":
            parts += _class_parts(name, value)
    return parts


def _class_parts(name: str, kind: Any) -> list[tuple[str, Callable[[], None]]]:
    """Return the tests of a class; class-level setup runs before the first and teardown after the last."""
    begin, end = ("setUpClass", "tearDownClass")
    if not issubclass(kind, unittest.TestCase):
        begin, end = ("setup_class", "teardown_class")
    tests = [test for test in vars(kind) if test.startswith("test")]
    begun: list[BaseException | None] = []

    def run(test: str) -> None:
        if not begun:
            begun.append(_raised(getattr(kind, begin, None)))
        if begun[0] is not None:
            raise begun[0]
        try:
            _method(kind, test)()
        finally:
            if test == tests[-1]:
                getattr(kind, end, lambda: None)()

    return [(f"{name}.{test}", lambda test=test: run(test)) for test in tests]  # type: ignore[misc]


def _raised(function: Callable[[], Any] | None) -> BaseException | None:
    try:
        if function is not None:
            function()
    except BaseException as error:
        return error
    return None


def _function(value: Callable[..., Any]) -> Callable[[], None]:
    def run() -> None:
        for case in getattr(value, "cases", [{}]):
            value(**case)

    return run


def _method(kind: Any, name: str) -> Callable[[], None]:
    if issubclass(kind, unittest.TestCase):
        return lambda: kind(name).debug()

    def run() -> None:
        function = getattr(kind, name)
        for case in getattr(function, "cases", [{}]):
            for more in getattr(kind, "cases", [{}]):
                made = kind()
                _told(made, "setup_method", function)
                try:
                    getattr(made, name)(**{**case, **more})
                finally:
                    _told(made, "teardown_method", function)

    return run


def _told(made: Any, name: str, function: Any) -> None:
    """Call a setup or teardown method, with the test as argument if it takes one."""
    if hasattr(made, name):
        method = getattr(made, name)
        method(*([function] if inspect.signature(method).parameters else []))


def candidate(module: str, entry: str) -> Callable[..., Any]:
    """Return a function that calls the candidate's function of that name."""

    def call(*arguments: Any, **keywords: Any) -> Any:
        return _call({"module": module, "name": entry}, arguments, keywords)

    return call


def _call(target: dict[str, Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Return the result of a remote call; lists, dicts and sets that it changed are changed here too."""
    pair = ask({"do": "call", **target, "arguments": encode([list(arguments), keywords], _local)})
    if type(pair) is not list or len(pair) != 2 or type(pair[1]) is not list:
        raise _spoiled("the program gave no answer")
    value, after = pair
    for mine, theirs in zip(arguments, after, strict=False):
        if type(mine) is type(theirs) and mine != theirs:
            if isinstance(mine, list):
                mine[:] = theirs
            elif isinstance(mine, dict | set):
                mine.clear()
                mine.update(theirs)
    return value


class Proxies:
    """Replaces the imports of test code: the task's modules are proxies, all others are found as usual."""

    def __init__(self, own: list[str]) -> None:
        self.folder = os.getcwd() + os.sep
        self.modules: dict[str, types.ModuleType] = {}
        self.usual = builtins.__import__
        for name in sorted(own):  # packages before their modules
            path = name.removesuffix(".__init__").split(".")
            for length in range(1, len(path) + 1):
                self._add(".".join(path[:length]), length == len(path))

    def _add(self, name: str, own: bool) -> None:
        if name not in self.modules:
            self.modules[name] = ModuleProxy(name) if own else types.ModuleType(name)
            parent, _, last = name.rpartition(".")
            if parent:
                setattr(self.modules[parent], last, self.modules[name])

    def install(self) -> None:
        """Replace imports from now on."""
        builtins.__import__ = self._import
        for name, module in self.modules.items():  # for importlib.import_module and mock.patch
            if not _is_here(name.partition(".")[0]):
                sys.modules[name] = module

    def _import(
        self, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> types.ModuleType:
        file = globals.get("__file__") if isinstance(globals, dict) else None
        if level == 0 and name in self.modules and isinstance(file, str) and file.startswith(self.folder):
            return self.modules[name if fromlist else name.partition(".")[0]]
        return self.usual(name, globals, locals, fromlist, level)


def _judge(order: dict[str, Any]) -> list[list[Any]]:
    random.seed(0)
    space: dict[str, Any] = {"__name__": "__tests__", "__file__": os.path.join(os.getcwd(), "tests.py")}
    sys.modules["__tests__"] = types.ModuleType("__tests__")
    sys.path.insert(0, os.getcwd())
    sys.modules["pytest"] = pytest_substitute()
    Proxies(order["own"]).install()
    exec(compile(order["prelude"], "<prelude>", "exec"), space)
    shared.update({name: order["module"] for name, value in space.items() if isinstance(value, type)})
    if order["prelude"]:
        sys.modules["__tests__"].__dict__.update(space)
    verdicts = []
    for name, part in (_check_parts if order["form"] == "check" else _function_parts)(order, space):
        before = len(spoiled)
        message = ""
        try:
            part()
        except BaseException as error:
            message = f"{type(error).__name__}: {error}"[:300] or "failed"
        if not message and len(spoiled) > before:
            message = spoiled[-1]
        verdicts.append([name, not message, message])
    return verdicts


def _is_here(name: str) -> bool:
    try:
        return name in sys.modules or importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return True


def _play(order: dict[str, Any]) -> None:
    try:
        done = _judge(order)
    except BaseException as error:
        # A script that imports something the candidate lacks is not broken, nor is one that stumbles over a value of
        # the candidate: its tests fail.
        theirs = blamed or (moves and not isinstance(error, ImportError))
        if not theirs:
            outbox.put({"broken": f"{type(error).__name__}: {error}"[:300]})
            return
        done = []
    outbox.put({"done": done, "late": bool(late)})


def begin(text: str) -> str:
    """Start the test script; return the first request, or the results."""
    threading.Thread(target=_play, args=(json.loads(text),), daemon=True).start()
    return RawText(json.dumps(outbox.get()))


def go_on(text: str, ended: str) -> str:
    """Hand in the response to a request, or why there will be none; return the next request, or the results."""
    inbox.put((text, ended))
    return RawText(json.dumps(outbox.get()))

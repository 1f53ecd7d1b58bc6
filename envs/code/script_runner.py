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

from turncredit.envs.code.pytest_substitute import pytest_substitute
from turncredit.envs.code.serialization import NotPlain, RawText, decode, encode

MANY = 100_000


class CandidateFailed(AssertionError):
    """The candidate did not answer a call, or raised an exception that tests must not mistake for their own failure."""


class ScriptRun:
    """One run of a test script: requests to the candidate, and what the candidate did.

    The script runs on a thread of its own, which waits in `ask`; `begin` and `go_on` are called by the other side.
    """

    def __init__(self) -> None:
        self.moves = 0  # requests that may change remote objects
        self._outbox: queue.SimpleQueue[dict[str, object]] = queue.SimpleQueue()
        self._inbox: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
        self._errors: dict[str, type[BaseException]] = {}
        self._shared: dict[str, str] = {}  # class name -> module, for classes that both sides define
        self._blamed = False  # whether the candidate raised an exception
        self._spoiled: list[str] = []  # calls after which the current test has failed, whatever the script makes of it
        self._late = False  # whether a call took too long
        self._lost = ""  # why the candidate's process is gone

    def begin(self, text: str) -> str:
        """Start the test script; return the first request, or the results."""
        threading.Thread(target=self._play, args=(json.loads(text),), daemon=True).start()
        return RawText(json.dumps(self._outbox.get()))

    def go_on(self, text: str, ended: str) -> str:
        """Hand in the response to a request, or why there will be none; return the next request, or the results."""
        self._inbox.put((text, ended))
        return RawText(json.dumps(self._outbox.get()))

    def ask(self, request: dict[str, object]) -> Any:
        """Return the candidate's response to a request, or raise the exception that it raised."""
        if request["do"] != "plain":
            self.moves += 1
        if self._lost:
            raise self._spoil(self._lost)
        self._outbox.put({"ask": json.dumps(request)})
        text, ended = self._inbox.get()
        if ended:
            self._lost = ended
            raise self._spoil(ended)
        try:
            answer = json.loads(text)
            if "v" in answer:
                return decode(answer["v"], self._remote)
            names, message = [str(name) for name in answer["e"]], str(answer.get("m", ""))
            kind = self._error(names, request["do"])
        except Exception:  # a malformed answer does not come from our driver
            raise self._spoil("the program gave no answer") from None
        if names[0] == "CallTimeout":
            self._late = True
        if "Exception" not in names:  # nothing that a test may expect: it ends the whole run of a test suite
            raise self._spoil(f"{names[0]}: {message}"[:300])
        self._blamed = True
        raise kind(message)

    def call(self, target: dict[str, object], arguments: tuple[Any, ...], keywords: dict[str, object]) -> Any:
        """Return the result of a remote call; lists, dicts and sets that it changed are changed here too."""
        pair = self.ask({"do": "call", **target, "arguments": encode([list(arguments), keywords], self._local)})
        if type(pair) is not list or len(pair) != 2 or type(pair[1]) is not list:
            raise self._spoil("the program gave no answer")
        value, after = pair
        for mine, theirs in zip(arguments, after, strict=False):
            if type(mine) is type(theirs) and mine != theirs:
                if isinstance(mine, list):
                    mine[:] = theirs
                elif isinstance(mine, dict | set):
                    mine.clear()
                    mine.update(theirs)
        return value

    def candidate(self, module: str, entry: str) -> Callable[..., Any]:
        """Return a function that calls the candidate's function of that name."""

        def call(*arguments: object, **keywords: object) -> object:
            return self.call({"module": module, "name": entry}, arguments, keywords)

        return call

    def _spoil(self, message: str) -> CandidateFailed:
        """Note that the current test has failed, and return the exception that says so."""
        self._spoiled.append(message)
        self._blamed = True
        return CandidateFailed(message)

    def _error(self, names: list[str], do: object = "") -> type[BaseException]:
        """Return a local exception class for the class names of a remote one.

        A call does not raise StopIteration, which would end a loop of the test over its cases.
        """
        if names[0] in self._errors:
            return self._errors[names[0]]
        for name in names:
            kind = getattr(builtins, name, None)
            if isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, AssertionError):
                if issubclass(kind, StopIteration | StopAsyncIteration) and do != "next":
                    return RuntimeError
                if name == names[0]:
                    return kind
                return self._errors.setdefault(names[0], type(names[0], (kind,), {}))
        return CandidateFailed

    def _remote(self, data: dict[str, Any]) -> object:
        """Return what stands here for a value of the candidate that is not plain."""
        if "h" in data:
            number, kind, callable_, walks, plain = data["h"]
            return RemoteObject(self, int(number), str(kind), bool(callable_), bool(walks), bool(plain))
        if "E" in data:
            return self._error([str(name) for name in data["E"]])
        raise NotPlain("no value")

    def _local(self, value: object) -> object:
        """Return the data of an argument that is not plain."""
        if isinstance(value, RemoteObject):
            return {"h": value.__dict__["_remote"][0]}
        name = type(value).__name__
        if name in self._shared:
            return {"k": [self._shared[name], name, encode(vars(value), self._local)]}
        if isinstance(value, type) and getattr(builtins, str(name := value.__name__), None) is value:
            return {"T": name}
        raise TypeError(f"a {name} cannot be handed to the candidate: it gets numbers, texts and containers of these")

    def _play(self, order: dict[str, object]) -> None:
        try:
            done = self._judge(order)
        except BaseException as error:
            # A script that imports something the candidate lacks is not broken, nor is one that stumbles over a value
            # of the candidate: its tests fail.
            theirs = self._blamed or (self.moves and not isinstance(error, ImportError))
            if not theirs:
                self._outbox.put({"broken": f"{type(error).__name__}: {error}"[:300]})
                return
            done = []
        self._outbox.put({"done": done, "late": self._late})

    def _judge(self, order: dict[str, Any]) -> list[list[object]]:
        random.seed(0)
        space: dict[str, Any] = {"__name__": "__tests__", "__file__": os.path.join(os.getcwd(), "tests.py")}
        sys.modules["__tests__"] = types.ModuleType("__tests__")
        sys.path.insert(0, os.getcwd())
        sys.modules["pytest"] = pytest_substitute()
        Proxies(self, order["own"]).install()
        exec(compile(order["prelude"], "<prelude>", "exec"), space)
        self._shared.update({name: order["module"] for name, value in space.items() if isinstance(value, type)})
        if order["prelude"]:
            sys.modules["__tests__"].__dict__.update(space)
        if order["form"] == "check":
            parts = _check_parts(order["code"], self.candidate(order["module"], order["entry"]), space)
        else:
            parts = _function_parts(order["code"], space)
        verdicts: list[list[object]] = []
        for name, part in parts:
            before = len(self._spoiled)
            message = ""
            try:
                part()
            except BaseException as error:
                message = f"{type(error).__name__}: {error}"[:300] or "failed"
            if not message and len(self._spoiled) > before:
                message = self._spoiled[-1]
            verdicts.append([name, not message, message])
        return verdicts


class RemoteObject:
    """An object in the candidate's sandbox; containers are compared here, by their contents as plain data."""

    def __init__(self, run: ScriptRun, number: int, kind: str, callable_: bool, walks: bool, plain: bool) -> None:
        self.__dict__["_remote"] = (number, kind, callable_, walks, plain, run)

    def _plain(self) -> object:
        """Return its contents, which are requested once so that several comparisons see the same value."""
        moves = self.__dict__["_remote"][5].moves
        if self.__dict__.get("_known", (-1,))[0] != moves:
            self.__dict__["_known"] = (moves, self._ask(do="plain"))
        return self.__dict__["_known"][1]

    def _ask(self, **request: Any) -> Any:
        return self.__dict__["_remote"][5].ask({"of": self.__dict__["_remote"][0], **request})

    def _call(self, name: str, *arguments: object) -> Any:
        return self.__getattr__(name)(*arguments)  # the remote method, not the one of this class

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the remote object."""
        return self._ask(do="name", name=name)

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute of the remote object."""
        self._call("__setattr__", name, value)

    def __call__(self, *arguments: Any, **keywords: Any) -> object:
        """Call the remote object."""
        return self.__dict__["_remote"][5].call({"of": self.__dict__["_remote"][0]}, arguments, keywords)

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

    def __getitem__(self, key: object) -> object:
        return self._call("__getitem__", key)

    def __setitem__(self, key: object, value: object) -> None:
        self._call("__setitem__", key, value)

    def __delitem__(self, key: object) -> None:
        self._call("__delitem__", key)

    def __contains__(self, item: object) -> bool:
        return any(other == item for other in self)

    def __bool__(self) -> bool:
        return bool(self._plain()) if self.__dict__["_remote"][4] else True

    def __enter__(self) -> object:
        return self._call("__enter__")

    def __exit__(self, *error: object) -> None:
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


class ModuleProxy(types.ModuleType):
    """Stands in for a module of the candidate when tests import it."""

    def __init__(self, run: ScriptRun, name: str) -> None:
        super().__init__(name)
        self.__dict__["__run__"] = run  # no name that the candidate's module may have

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the candidate's module."""
        if name.startswith("__"):
            raise AttributeError(name)
        return self.__dict__["__run__"].ask({"do": "get", "module": self.__name__, "name": name})


def _check_parts(
    code: str, candidate: Callable[..., Any], space: dict[str, Any]
) -> list[tuple[str, Callable[[], None]]]:
    """Split check(candidate) into its statements, which run one after another in the same namespace."""
    tree = ast.parse(code)
    main = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "check")
    exec(compile(ast.Module([node for node in tree.body if node is not main], []), "<tests>", "exec"), space)
    space[main.args.args[0].arg] = candidate

    def part(node: ast.stmt) -> Callable[[], None]:
        return lambda: exec(compile(ast.Module([node], []), "<tests>", "exec"), space)

    return [(f"check {number}", part(node)) for number, node in enumerate(main.body)]


def _function_parts(code: str, space: dict[str, Any]) -> list[tuple[str, Callable[[], None]]]:
    exec(compile(code, "<tests>", "exec"), space)
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


def _raised(function: Callable[[], object] | None) -> BaseException | None:
    try:
        if function is not None:
            function()
    except BaseException as error:
        return error
    return None


def _function(value: Callable[..., object]) -> Callable[[], None]:
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


class Proxies:
    """Replaces the imports of test code: the task's modules are proxies, all others are found as usual."""

    def __init__(self, run: ScriptRun, own: list[str]) -> None:
        self.run = run
        self.folder = os.getcwd() + os.sep
        self.modules: dict[str, types.ModuleType] = {}
        self.usual = builtins.__import__
        for name in sorted(own):  # packages before their modules
            path = name.removesuffix(".__init__").split(".")
            for length in range(1, len(path) + 1):
                self._add(".".join(path[:length]), length == len(path))

    def _add(self, name: str, own: bool) -> None:
        if name not in self.modules:
            self.modules[name] = ModuleProxy(self.run, name) if own else types.ModuleType(name)
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


def _is_here(name: str) -> bool:
    try:
        return name in sys.modules or importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return True


RUN = ScriptRun()
"""The run of this process: the sandbox loads this source once for each test script."""
begin, go_on = RUN.begin, RUN.go_on

"""Which back ends hold on this machine: found out once, by trial runs, and told in words.

A trial is a real program in a real box. It tries to read a file of ours, to write beside it, to reach a port of ours
and to signal us; a back end holds when the program runs and every one of these fails. `start` takes the first that
holds: bubblewrap, then landlock with seccomp; where none does it refuses, and runs nothing. Docker is asked for by
name.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final

from turnwise.tools.sandbox import kernel, landlock, seccomp
from turnwise.tools.sandbox.box import Box
from turnwise.tools.sandbox.errors import BadPath, NoSandbox, SandboxError, UnknownBackend
from turnwise.tools.sandbox.limits import Limits
from turnwise.tools.sandbox.local import LocalBox, Setup

BACKENDS: Final = ("bwrap", "landlock", "docker")
_TRIAL: Final = """
import os, socket
def tries(what, attempt):
    try: attempt()
    except BaseException: return
    print(what)
tries("it can read files of the host", lambda: open({file!r}).read())
tries("it can write on the host", lambda: open({file!r} + ".new", "w"))
tries("it can signal other processes", lambda: os.kill({pid}, 0) if {pid} > 1 and os.getpid() != {pid} else 1 / 0)
tries("it can reach ports of the host", lambda: socket.create_connection(("127.0.0.1", {port}), 1))
open("proof", "w").write("x")
print("held")
"""


@dataclass(frozen=True)
class Rung:
    """One back end, and what was found out about it.

    Args:
        name: "bwrap", "landlock" or "docker".
        holds: programs can be run in it.
        words: how, or why not; one sentence.
        weaker: what it does less well here than it could, each a sentence.
        setup: how its boxes are made; None where it does not hold, and for Docker.
    """

    name: str
    holds: bool
    words: str
    weaker: tuple[str, ...] = ()
    setup: Setup | None = None


def start(
    limits: Limits | None = None, *, backend: str = "auto", readable: Sequence[str] = (), image: str | None = None
) -> Box:
    """Return a new box of the best back end that holds here, or of the one that is named.

    Args:
        limits: what the box may use; the defaults of `Limits` if absent.
        backend: "auto", "bwrap", "landlock" or "docker".
        readable: folders of this machine that programs may read, such as one with packages (not for Docker).
        image: the image (for Docker only); absent: one made from this machine's own Python.

    Raises:
        UnknownBackend: there is no back end of that name, or none of that name that takes an image.
        BadPath: something that is to be readable is no folder, or Docker was named, which shows none.
        NoSandbox: nothing holds here (or not the one that was named); nothing is ever run without.
        DockerUnavailable: Docker was named and cannot be used.
    """
    limits = limits or Limits()
    if backend == "docker":
        if readable:
            raise BadPath("readable is for 'bwrap' and 'landlock': Docker shows no folders, put them into its image")
        from turnwise.tools.sandbox.containers import shared

        return shared(image).start(limits)
    if backend != "auto" and backend not in BACKENDS:
        raise UnknownBackend(
            f"there is no back end {backend!r}; the choices are 'auto', {', '.join(map(repr, BACKENDS))}"
        )
    if image is not None:
        raise UnknownBackend(
            f"an image is for the back end 'docker', and {backend!r} was asked for: name that, or none"
        )
    for path in readable:
        if not Path(path).is_dir():
            raise BadPath(f"readable names folders of this machine, and {str(path)!r} is none")
    rungs = [rung for rung in probe() if backend in ("auto", rung.name)]
    for rung in rungs:
        if rung.setup is not None:
            shown = (*rung.setup.shown, *(str(Path(path).resolve()) for path in readable))
            return LocalBox(limits, replace(rung.setup, shown=tuple(dict.fromkeys(shown))))
    found = "; ".join(f"{rung.name}: {rung.words}" for rung in rungs)
    raise NoSandbox(f"nothing on this machine can hold a program, so nothing is run ({found})")


_lock = threading.Lock()


def probe() -> tuple[Rung, ...]:
    """Return what the embedded back ends do on this machine, best first; tried once for a process."""
    with _lock:
        return _probe(os.geteuid())


@cache
def _probe(uid: int) -> tuple[Rung, ...]:
    if not kernel.LINUX:
        return tuple(Rung(name, False, f"needs Linux, and this is {sys.platform}") for name in ("bwrap", "landlock"))
    return (_bwrap(root=uid == 0), _landlock(root=uid == 0))


def pythons() -> list[tuple[str, tuple[str, ...]]]:
    """Return interpreters to try inside, each with the folders that it needs besides /usr; ours first."""
    own = os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable)
    prefix = os.path.realpath(sys.base_prefix)
    found: list[tuple[str, tuple[str, ...]]] = [(own, () if own.startswith("/usr/") else (prefix,))]
    others = ("/usr/bin/python3", "/usr/local/bin/python3")
    return found + [(path, ()) for path in others if os.path.exists(path) and os.path.realpath(path) != own]


def _bwrap(*, root: bool) -> Rung:
    path = shutil.which("bwrap", path=f"{os.environ.get('PATH', '')}:/usr/bin:/usr/local/bin")
    if path is None:
        return Rung("bwrap", False, "bubblewrap is not installed (apt install bubblewrap)")
    if not seccomp.supported():
        return Rung("bwrap", False, f"no table of system calls for {os.uname().machine}")
    setups = [
        Setup("bwrap", python, shown, walled, os.path.realpath(path))
        for walled in (True, False)
        for python, shown in pythons()
    ]
    return _first(setups, "bwrap", "namespaces" + (" and a user id of its own" if root else ""), _less(root))


def _landlock(*, root: bool) -> Rung:
    version = landlock.abi()
    if version == 0:
        return Rung("landlock", False, "the kernel has no landlock, or it is switched off")
    if not seccomp.supported():
        return Rung("landlock", False, f"no table of system calls for {os.uname().machine}")
    if not root and version < landlock.SCOPES:
        words = f"landlock {version} does not keep signals inside, and only root can give a box a user id of its own"
        return Rung("landlock", False, words)
    setups = [Setup("landlock", python, shown, walled=False) for python, shown in pythons()]
    how = f"landlock {version}, seccomp" + (" and a user id of its own" if root else "")
    more = ("programs can see which files exist on the host, though not what is in them",)
    return _first(setups, "landlock", how, (*_less(root), *more))


def _less(root: bool) -> tuple[str, ...]:
    if root:
        return ()
    return ("its programs run as you, without a user id of their own: one wall less between them and your files",)


def _first(setups: list[Setup], name: str, how: str, weaker: tuple[str, ...]) -> Rung:
    """Return the rung of the first setup whose trial holds; else the reason of the last one."""
    reason = "no interpreter was found to try it with"
    for setup in setups:
        try:
            less = trial(lambda setup=setup: LocalBox(Limits(wall=20, memory=256 << 20), setup))  # type: ignore[misc]
        except SandboxError as error:
            reason = str(error)
            continue
        return Rung(name, True, f"{how}; Python is {setup.python}", (*weaker, *less), setup)
    return Rung(name, False, reason)


def trial(make: Callable[[], Box]) -> tuple[str, ...]:
    """Run the trial program in a box; return what that box cannot do as well as others.

    Raises:
        SandboxError: it does not run, or something that must fail did not.
    """
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as server:
        os.chmod(folder, 0o777)
        file = Path(folder, "secret")
        file.write_text("secret")
        os.chmod(file, 0o666)
        code = _TRIAL.format(file=str(file), pid=os.getpid(), port=server.getsockname()[1])
        with make() as box:
            result = box.run(code)
            said = result.stdout.split("\n")
            if result.ok and said == ["held", ""] and box.get("proof") == b"x":
                return _missing(box)
        wrong = [line for line in said if line and line != "held"] or result.stderr.strip().splitlines()[-1:]
        raise SandboxError(f"a trial program was not held: {wrong[0] if wrong else f'it stopped by {result.stop}'}")


def _missing(box: Box) -> tuple[str, ...]:
    missing = []
    if isinstance(box, LocalBox):
        if not box.counted:
            missing.append("the memory limit holds for each process, since no control group can be made")
        if not box.walled:
            missing.append(
                "the size of its files is watched and not walled in: a fast writer gets some way past the limit"
            )
    return tuple(missing)

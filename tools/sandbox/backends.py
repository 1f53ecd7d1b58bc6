"""Find the back ends that work on this machine, and start boxes.

A back end is tested once per process by running a program in it. The program tries to read a file of the host, to write
next to it, to connect to a port of the host and to signal this process; the back end works if the program runs and all
attempts fail. `start` uses the first one that works: bubblewrap, then landlock with seccomp. If neither does, it raises
`NoSandbox` and runs nothing. Docker is used only if named.
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

from turncredit.registry import suggest
from turncredit.tools.sandbox import containers, hidden, kernel, landlock, seccomp
from turncredit.tools.sandbox.box import Box
from turncredit.tools.sandbox.errors import BadPath, NoSandbox, SandboxError, UnknownBackend
from turncredit.tools.sandbox.guarantees import LimitGuarantee, local_guarantees
from turncredit.tools.sandbox.layout import DEFAULT as DEFAULT_LAYOUT
from turncredit.tools.sandbox.layout import Layout
from turncredit.tools.sandbox.limits import Limits
from turncredit.tools.sandbox.local import LocalBox, LocalConfig

BACKENDS: Final = ("bwrap", "landlock", "docker")
_ATTACK: Final = """
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

_LANDLOCK_CAVEATS: Final = (
    "programs can see the names of the host's files",
    "times of files cannot be set, not even in the box",
)


@dataclass(frozen=True)
class BackendStatus:
    """One back end and whether it works on this machine.

    Args:
        name: "bwrap" or "landlock".
        works: whether programs can be run in it.
        detail: how it isolates programs, or why it does not work; one sentence.
        caveats: known weaknesses on this machine, one sentence each.
        guarantees: how each limit is enforced on this machine; () if the back end does not work.
        config: how its boxes are created; None if it does not work.
    """

    name: str
    works: bool
    detail: str
    caveats: tuple[str, ...] = ()
    guarantees: tuple[LimitGuarantee, ...] = ()
    config: LocalConfig | None = None


def start(
    limits: Limits | None = None,
    *,
    backend: str = "auto",
    readable: Sequence[str] = (),
    image: str | None = None,
    warm: int = 0,
    layout: Layout = DEFAULT_LAYOUT,
) -> Box:
    """Start a box with the best back end that works on this machine, or with the named one.

    Args:
        limits: resource limits; None: the defaults of `Limits`.
        backend: "auto", "bwrap", "landlock" or "docker".
        readable: directories of this machine that programs may read, for example one with packages (not for Docker).
        image: the image (Docker only); None: an image built from this machine's own Python.
        warm: containers to start in the background for the next boxes with these limits and this image. Only Docker
            needs it; each box is still new.
        layout: paths that programs write to; any but the default needs bubblewrap or Docker.

    Raises:
        UnknownBackend: no back end has that name, or it takes no image (all but Docker) or no layout (landlock).
        BadPath: an entry of `readable` is not a directory or lies in the layout, or the back end is Docker.
        NoSandbox: no back end works here, or the named one does not; nothing is ever run without one.
        DockerUnavailable: Docker is named and cannot be used.
    """
    limits = limits or Limits()
    if backend == "docker":
        if readable:
            raise BadPath("readable is for 'bwrap' and 'landlock' only; with 'docker', put the files into the image")
        return containers.shared(image, layout).start(limits, warm=warm)
    if backend != "auto" and backend not in BACKENDS:
        raise UnknownBackend(f"unknown back end {backend!r}{suggest(backend, ('auto', *BACKENDS))}")
    if image is not None:
        raise UnknownBackend(f"image needs backend='docker', got backend={backend!r}")
    if layout != DEFAULT_LAYOUT and backend == "landlock":
        raise UnknownBackend("landlock mounts nothing, so a box at a path of its own needs backend='bwrap' or 'docker'")
    for path in readable:
        if not Path(path).is_dir():
            raise BadPath(f"readable must name directories of this machine, got {str(path)!r}")
        hidden.check_readable(str(path))
    candidates = [status for status in probe() if backend in ("auto", status.name)]
    if layout != DEFAULT_LAYOUT:
        candidates = [status for status in candidates if status.name == "bwrap"]
    for status in candidates:
        if status.config is not None:
            paths = (*status.config.readable, *(str(Path(path).resolve()) for path in readable))
            return LocalBox(limits, replace(status.config, readable=tuple(dict.fromkeys(paths)), layout=layout))
    reasons = "; ".join(f"{status.name}: {status.detail}" for status in candidates)
    raise NoSandbox(f"no sandbox works on this machine, so nothing is run ({reasons})")


_lock = threading.Lock()


def probe() -> tuple[BackendStatus, ...]:
    """Return the status of bubblewrap and landlock on this machine, best first; tested once per process."""
    with _lock:
        return _probe(os.geteuid())


@cache
def _probe(uid: int) -> tuple[BackendStatus, ...]:
    if not kernel.LINUX:
        return tuple(BackendStatus(name, False, f"needs Linux, got {sys.platform}") for name in ("bwrap", "landlock"))
    return (_bwrap(root=uid == 0), _landlock(root=uid == 0))


def pythons() -> list[tuple[str, tuple[str, ...]]]:
    """Return interpreters to try, each with the directories that it needs besides /usr; the running one first."""
    own = os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable)
    prefix = os.path.realpath(sys.base_prefix)
    interpreters: list[tuple[str, tuple[str, ...]]] = [(own, () if own.startswith("/usr/") else (prefix,))]
    others = ("/usr/bin/python3", "/usr/local/bin/python3")
    return interpreters + [(path, ()) for path in others if os.path.exists(path) and os.path.realpath(path) != own]


def _bwrap(*, root: bool) -> BackendStatus:
    path = shutil.which("bwrap", path=f"{os.environ.get('PATH', '')}:/usr/bin:/usr/local/bin")
    if path is None:
        return BackendStatus("bwrap", False, "bubblewrap is not installed (apt install bubblewrap)")
    if not seccomp.supported():
        return BackendStatus("bwrap", False, f"system call numbers of {os.uname().machine} are unknown")
    configs = [
        LocalConfig("bwrap", python, readable, own_filesystem, os.path.realpath(path))
        for own_filesystem in (True, False)
        for python, readable in pythons()
    ]
    return _first_working(configs, "namespaces" + (" and a separate user id" if root else ""), _user_caveats(root))


def _landlock(*, root: bool) -> BackendStatus:
    version = landlock.abi()
    if version == 0:
        return BackendStatus("landlock", False, "the kernel has no landlock, or it is switched off")
    if not seccomp.supported():
        return BackendStatus("landlock", False, f"system call numbers of {os.uname().machine} are unknown")
    if not root and version < landlock.SCOPES:
        detail = f"landlock {version} does not block signals, and only root can give a box a separate user id"
        return BackendStatus("landlock", False, detail)
    configs = [
        LocalConfig("landlock", python, readable, own_filesystem)
        for own_filesystem in (True, False)
        for python, readable in pythons()
    ]
    detail = f"landlock {version}, seccomp" + (" and a separate user id" if root else "")
    return _first_working(configs, detail, (*_user_caveats(root), *_LANDLOCK_CAVEATS))


def _user_caveats(root: bool) -> tuple[str, ...]:
    return () if root else ("programs run as you, without a separate user id as a second line of defence",)


def _first_working(configs: list[LocalConfig], detail: str, caveats: tuple[str, ...]) -> BackendStatus:
    """Return the status of the first configuration that passes the test, or the reason of the last failure."""
    reason = "no Python interpreter was found to test it with"
    for config in configs:
        try:
            guarantees = check_isolation(lambda config=config: LocalBox(Limits(wall=20, memory=256 << 20), config))  # type: ignore[misc]
        except SandboxError as error:
            reason = str(error)
            continue
        more = [guarantee.detail for guarantee in guarantees if not guarantee.certain]
        detail = f"{detail}; Python is {config.python}"
        return BackendStatus(config.backend, True, detail, (*caveats, *more), guarantees, config)
    return BackendStatus(configs[0].backend, False, reason)


def check_isolation(make: Callable[[], Box]) -> tuple[LimitGuarantee, ...]:
    """Run a program in a box that tries to break out, and return how the limits of the box are enforced.

    Raises:
        SandboxError: the program does not run, or one of its attempts succeeds.
    """
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as server:
        os.chmod(folder, 0o777)
        file = Path(folder, "secret")
        file.write_text("secret")
        os.chmod(file, 0o666)
        code = _ATTACK.format(file=str(file), pid=os.getpid(), port=server.getsockname()[1])
        with make() as box:
            result = box.run(code)
            output = result.stdout.split("\n")
            if result.ok and output == ["held", ""] and box.get("proof") == b"x":
                return _guarantees(box)
        wrong = [line for line in output if line and line != "held"] or result.stderr.strip().splitlines()[-1:]
        raise SandboxError(f"a test program was not isolated: {wrong[0] if wrong else f'it stopped by {result.stop}'}")


def _guarantees(box: Box) -> tuple[LimitGuarantee, ...]:
    if not isinstance(box, LocalBox):
        return ()
    return local_guarantees(
        backend=box.backend,
        own_filesystem=box.own_filesystem,
        memory_counted=box.memory_counted,
        own_uid=box.uid != os.geteuid(),
    )

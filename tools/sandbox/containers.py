"""Boxes in Docker containers, through the Docker SDK: images by name, from a folder, or of this machine's Python.

A container has no network, no rights, a read-only root, a user id that is not root, and two sized memory file systems
for `/work` and `/tmp`. It is started once and kept warm; a run is an `exec` in it. Its first process reads its standard
input, which the supervisor holds: when that dies, however it dies, the input ends, and the container is gone with all
in it.

An `exec` goes on when its client dies, and what it leaves behind goes on when it ends. So every program runs under an
inner `timeout`, and under a shell that ends everything else afterwards; whether that was done is looked up in the
container's process count, and made good where a program prevented it. While a session is open in the box, what a run
leaves behind stays until the session ends.

Not here: pulling of images, volumes, networks, and boxes that outlive their supervisor.
"""

from __future__ import annotations

import atexit
import io
import math
import os
import tarfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

from turnwise.tools.sandbox import files, rootfs
from turnwise.tools.sandbox.box import Box, told
from turnwise.tools.sandbox.errors import BadPath, BadSnapshot, BoxFull, BoxLost, DockerUnavailable
from turnwise.tools.sandbox.execs import Exec, ExecChannel, short
from turnwise.tools.sandbox.limits import MB, Limits, Result, Stop
from turnwise.tools.sandbox.session import Channel

_LABEL: Final = "turnwise.sandbox"
_HOLD: Final = ["sh", "-c", "cat >/dev/null; :"]  # as root without rights, out of reach; the shell collects what ended
_SPARE: Final = 6  # processes of the container itself: its first two, and a run's shell and timeout
_RUN: Final = (
    "ulimit -S -t {cpu}; ulimit -H -t {hard}; ulimit -v {memory}; "
    'timeout -s KILL {seconds} "$@"; code=$?; {sweep}exit $code'
)
_SWEEP: Final = ["sh", "-c", "kill -9 -1"]
_PLAIN: Final = 'p=.; for n in "$@"; do p="$p/$n"; [ -L "$p" ] && exit 40; done; '
_PUT: Final = (
    'for last in "$@"; do :; done; d=.; for n in "$@"; do [ -L "$d" ] && exit 40; '
    'if [ "$d" != . ] && [ ! -d "$d" ]; then mkdir "$d" || exit 41; fi; d="$d/$n"; done; '
    '[ -d "$d" ] && exit 42; rm -f "$d"; cat >"$d" || exit 43'
)
_GET: Final = _PLAIN + '[ -e "$p" ] || exit 44; [ -f "$p" ] || exit 45; exec cat "$p"'
_SHUT: Final = r"\( -type d ! -perm -700 -o -type f ! -perm -400 \)"  # what tar could not read
_TAR: Final = "exec tar -c -f - -C /work ."
_PACK: Final = f'[ -n "$(find /work {_SHUT} 2>/dev/null)" ] || {_TAR}'
_LIFT: Final = (
    rf"find /work {_SHUT} -exec sh -c "
    r"""'printf "%s\0%s\0" "$(stat -c %a "$1")" "$1"; chmod u+rwx "$1"' sh {} \;"""
)
_MODES: Final = "xargs -0 -n 2 chmod; :"  # what has gone meanwhile needs none
_CLEAR: Final = (
    r"chmod u+rwx /work; find /work -type d ! -perm -700 -exec chmod u+rwx {} \; && "
    "find /work -mindepth 1 -maxdepth 1 -exec rm -rf {} + && "
    "umask 0 && exec tar -x -p -f - -C /work"  # busybox takes -p, and applies the mask all the same
)
_INNER: Final = 60.0  # seconds for our own commands inside


def sdk() -> Any:
    """Return the docker package.

    Raises:
        DockerUnavailable: it is not installed.
    """
    try:
        import docker  # type: ignore[import-untyped,unused-ignore]
    except ImportError as error:
        raise DockerUnavailable("Docker boxes need the docker package: pip install turnwise[docker]") from error
    return docker


def connect() -> Any:
    """Return a client of the daemon that $DOCKER_HOST names, or of the usual one.

    Raises:
        DockerUnavailable: it does not answer, or this user may not ask it.
    """
    docker = sdk()
    try:
        client = docker.from_env(timeout=120)
        client.ping()
    except docker.errors.DockerException as error:
        raise DockerUnavailable(_unreachable(str(error))) from error
    return client


def _unreachable(error: str) -> str:
    where = os.environ.get("DOCKER_HOST", "the usual socket")
    if "Permission" in error:
        return f"Docker is there, but you have no right to use it ({where}): join its group, or ask its administrator"
    return f"Docker does not answer at {where}: start it, or set DOCKER_HOST"


@cache
def shared(image: str | None = None) -> Docker:
    """Return the Docker back end for an image, one for this process."""
    return Docker(image)


class Docker:
    """Starts boxes in containers of one image, and keeps some started ahead.

    Args:
        image: a name; a folder or tar file with a root file system; None: this machine's own Python. It needs `sh`,
            `timeout`, `find` and `tar` (busybox has them), `stat`, `xargs` and `chmod` for snapshots with modes that
            keep their own user out, and `python3` for program texts and sessions.
        warm: containers to keep started ahead, for each set of limits that was asked for.
    """

    def __init__(self, image: str | None = None, *, warm: int = 0) -> None:
        """Find or make the image."""
        self.client = connect()
        self.image = self._image(image)
        self.warm = warm
        self._ready: dict[Limits, list[DockerBox]] = {}
        self._lock = threading.Lock()
        atexit.register(self.close)

    def start(self, limits: Limits | None = None) -> DockerBox:
        """Return a box, from those that are ready where there is one."""
        limits = limits or Limits()
        with self._lock:
            ready = self._ready.setdefault(limits, [])
            box = ready.pop() if ready else None
        if self.warm:
            threading.Thread(target=self.fill, args=(limits,), daemon=True).start()
        return box or DockerBox(self.client, self.image, limits)

    def fill(self, limits: Limits | None = None) -> None:
        """Start containers ahead, until as many are ready as are to be kept."""
        limits = limits or Limits()
        while True:
            with self._lock:
                if len(self._ready.setdefault(limits, [])) >= self.warm:
                    return
            box = DockerBox(self.client, self.image, limits)
            with self._lock:
                self._ready[limits].append(box)

    def close(self) -> None:
        """Remove the containers that nobody has taken."""
        with self._lock:
            boxes = [box for ready in self._ready.values() for box in ready]
            self._ready.clear()
            self.warm = 0
        for box in boxes:
            with suppress(Exception):
                box.close()

    def _image(self, image: str | None) -> str:
        if image is None:
            python = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else os.path.realpath("/proc/self/exe")
            name = f"turnwise-python:{rootfs.fingerprint(python)}"
            return self._import(name, lambda: rootfs.pack(python))
        path = Path(image).resolve()
        if path.is_dir() or path.is_file():
            return self._import(f"turnwise-root:{rootfs.digest(path)}", lambda: _tar(path))
        if not self._has(image):
            raise DockerUnavailable(f"Docker has no image {image!r}, and no such folder exists: docker pull it first")
        return image

    def _has(self, name: str) -> bool:
        try:
            self.client.images.get(name)
        except sdk().errors.NotFound:
            return False
        return True

    def _import(self, name: str, make: Callable[[], bytes]) -> str:
        if not self._has(name):
            repository, _, tag = name.partition(":")
            self.client.api.import_image_from_data(make(), repository=repository, tag=tag)
        return name


def _tar(path: Path) -> bytes:
    if path.is_file():
        return path.read_bytes()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(path, ".")
    return buffer.getvalue()


class DockerBox(Box):
    """A box that is a container."""

    backend = "docker"
    python = "python3"

    def __init__(self, client: Any, image: str, limits: Limits) -> None:
        """Start the container."""
        super().__init__(limits)
        self.closed = True  # until there is something to close
        self.api = client.api
        self._groups: dict[str, tuple[str, str]] | None = None
        try:
            self.id = self._create(image)
            self._held = self.api.attach_socket(self.id, params={"stdin": 1, "stream": 1})
            self.api.start(self.id)
        except sdk().errors.DockerException as error:
            raise DockerUnavailable(f"Docker does not start a container of {image!r}: {error}") from error
        except OSError as error:
            raise DockerUnavailable(_unreachable(str(error))) from error
        self.closed = False

    def _create(self, image: str) -> str:
        limits = self.limits
        owned = f"size={limits.disk},nr_inodes={limits.files},uid=1000,gid=1000"
        bounds = [("fsize", limits.file_size), ("nofile", 256), ("core", 0)]
        host = self.api.create_host_config(
            network_mode="host" if limits.network else "none",
            read_only=True,
            tmpfs={"/work": f"{owned},exec", "/tmp": f"{owned},exec"},
            shm_size=min(limits.disk, 16 * MB),
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            pids_limit=limits.processes + _SPARE,
            mem_limit=limits.memory + limits.disk,
            memswap_limit=limits.memory + limits.disk,
            ulimits=[{"Name": name, "Soft": value, "Hard": value} for name, value in bounds],
            auto_remove=True,
        )
        made = self.api.create_container(
            image,
            _HOLD,
            user="0:0",
            stdin_open=True,
            working_dir="/work",
            host_config=host,
            labels={_LABEL: str(os.getpid())},
            network_disabled=not limits.network,
            environment={"HOME": "/work", "LANG": "C.UTF-8", "TMPDIR": "/tmp", "PYTHONDONTWRITEBYTECODE": "1"},
        )
        return str(made["Id"])

    def _execute(self, argv: list[str], stdin: bytes, seconds: float) -> Result:
        start = time.monotonic()
        before = self._look()
        alone = not any(not session.closed for session in self._sessions)
        exec_ = self._exec(self._wrapped(argv, seconds, alone), stdin, self.limits.output, start + seconds, alone)
        took = time.monotonic() - start
        code, stop = exec_.code, exec_.stop
        if code == 137 and stop is None:
            self._alive()
        after = self._look()
        if alone and after.get("processes", 99) > before.get("processes", 0):
            self._sweep()  # where nobody counts, always
        if stop is None and took >= seconds and code in (124, 137):
            stop = "timeout"  # the inner clock was first
        oom = after.get("oom", 0) > before.get("oom", 0)
        return Result(
            exec_.out(1),
            exec_.out(2),
            code,
            stop or self._why(code, oom, exec_.out(2), took),
            took,
            after.get("peak", 0),
        )

    def _alive(self) -> None:
        """Raise BoxLost where the container has ended: what was killed then is more than the program."""
        for pause in (0.0, 0.05, 0.2):  # its programs die before Docker says that it has ended
            time.sleep(pause)
            try:
                state = self.api.inspect_container(self.id)["State"]
            except Exception as error:
                raise BoxLost(f"the container died during the run, or Docker did: {short(error)}") from error
            if not state["Running"] or state.get("Status", "running") != "running":
                raise BoxLost("the container died during the run")

    def _wrapped(self, argv: list[str], seconds: float, alone: bool) -> list[str]:
        cpu = math.ceil(self.limits.cpu)
        script = _RUN.format(
            cpu=cpu,
            hard=cpu + 1,
            memory=self.limits.memory // 1024,
            seconds=math.ceil(seconds) + (1 if alone else 0),
            sweep="kill -9 -1; " if alone else "",
        )
        return ["sh", "-c", script, "sh", *argv]

    def _why(self, code: int, oom: bool, stderr: bytes, took: float) -> Stop:
        if code and oom:
            return "memory"
        if code == 152 or (code == 137 and took >= self.limits.cpu):
            return "cpu"
        return told(code, stderr, full=False)

    def _look(self) -> dict[str, int]:
        """Return what the container's control group counts; nothing where the daemon is on another machine."""
        if self._groups is None:
            self._groups = _groups(self.api, self.id)
        found = {}
        for name, (file, word) in self._groups.items():
            with suppress(OSError, ValueError):
                lines = [line.split() for line in Path(file).read_text(encoding="ascii").splitlines()]
                found[name] = int(next(line[-1] for line in lines if len(line) == 1 or line[0] == word))
        return found

    def _sweep(self) -> None:
        self._exec(_SWEEP, b"", 1 << 16, time.monotonic() + _INNER, False)

    def _exec(self, argv: list[str], stdin: bytes, output: int, deadline: float, alone: bool = False) -> Exec:
        """Run words inside to their end, or to the deadline; then end everything inside, if nothing else runs there."""
        exec_ = Exec(self.api, self.id, argv, stdin=bool(stdin))
        try:
            exec_.run(stdin, output, deadline, self._sweep if alone else lambda: None)
        finally:
            exec_.close()
        exec_.finish()
        return exec_

    def _inside(self, script: str, words: list[str], path: str, stdin: bytes = b"") -> bytes:
        """Run a script of ours inside, and return what it wrote."""
        most = 2 * self.limits.disk + 1024 * self.limits.files + (1 << 20)
        exec_ = self._exec(["sh", "-c", script, "sh", *words], stdin, most, time.monotonic() + _INNER)
        said = exec_.out(2)
        if exec_.code == 44:
            raise BadPath(f"there is no {path!r} in the box")
        if exec_.code == 40:
            raise BadPath(f"{path!r} leads over a link in the box: name a plain path")
        if b"No space left" in said or b"File too large" in said:
            raise BoxFull(f"{path!r} does not fit into the box: raise the limits disk, file_size or files")
        if exec_.code:
            raise BadPath(f"{path!r} in the box is no plain file, or cannot be reached")
        return exec_.out(1)

    def _put(self, path: str, data: bytes) -> None:
        self._inside(_PUT, files.parts(path), path, data or b"")

    def _get(self, path: str) -> bytes:
        return self._inside(_GET, files.parts(path), path)

    def _snapshot(self) -> bytes:
        raw, modes = self._inside(_PACK, [], "the snapshot"), {}
        if not raw:  # something keeps its own user out
            modes = self._lift()
            try:
                raw = self._inside(_TAR, [], "the snapshot")
            finally:
                self._change(sorted(modes.items(), reverse=True))  # what lies in a folder before the folder
        entries = []
        with tarfile.open(fileobj=io.BytesIO(raw), mode="r:", errors="surrogateescape") as archive:
            members = sorted(archive.getmembers(), key=lambda member: member.name.split("/"))
            modes |= {_plain(one.linkname): modes[_plain(one.name)] for one in members if _second(one, modes)}
            for member in members:
                name = _plain(member.name)
                member.mode = modes.get(_plain(member.linkname) if member.islnk() else name, member.mode) & 0o777
                if name not in ("", ".") and (member.isreg() or member.isdir() or member.issym() or member.islnk()):
                    entries.append(_canonical(archive, member, name))
        return files.archive(entries)

    def _lift(self) -> dict[str, int]:
        """Let the box's user read everything; return the modes that what was shut had, by path."""
        words = os.fsdecode(self._inside(_LIFT, [], "the snapshot")).split("\0")[:-1]
        pairs = zip(words[1::2], words[::2], strict=True)
        return {path.removeprefix("/work").lstrip("/"): int(mode, 8) for path, mode in pairs}

    def _change(self, modes: list[tuple[str, int]]) -> None:
        if modes:
            words = "".join(f"{mode:o}\0/work/{path}\0" for path, mode in modes)
            self._inside(_MODES, [], "the snapshot", os.fsencode(words))

    def _restore(self, snapshot: bytes) -> None:
        entries = files.checked(snapshot, self.limits.disk, self.limits.files)
        for member, _ in entries:
            member.uid = member.gid = 1000
            member.pax_headers = {}
            member.mode &= 0o777
        heads = files.inmost_first(entries)
        shut = [("/".join(names), head.mode) for names, head in heads if head.isdir() and head.mode & 0o700 != 0o700]
        for _, head in heads:
            head.mode |= 0o700 if head.isdir() else 0  # until all that lies in it is there
        try:
            self._inside(_CLEAR, [], "the snapshot", files.archive(entries, tarfile.GNU_FORMAT))
        except BadPath as error:
            raise BadSnapshot("the snapshot could not be unpacked in the box") from error
        self._change(shut)

    def _converse(self, argv: list[str]) -> Channel:
        cpu = math.ceil(self.limits.cpu)
        script = f'ulimit -S -t {cpu}; ulimit -H -t {cpu * 100}; ulimit -v {self.limits.memory // 1024}; exec "$@"'
        return ExecChannel(Exec(self.api, self.id, ["sh", "-c", script, "sh", *argv], stdin=True), self._sweep)

    def _close(self) -> None:
        for step in (lambda: self.api.remove_container(self.id, force=True), self._held.close):
            with suppress(Exception):  # it may be gone already, or going
                step()


def _plain(name: str) -> str:
    return name.removeprefix("./")


def _second(member: tarfile.TarInfo, modes: dict[str, int]) -> bool:
    """Whether it is a second name of a file, under which its mode was found."""
    return member.islnk() and _plain(member.name) in modes


def _canonical(archive: tarfile.TarFile, member: tarfile.TarInfo, name: str) -> files.Entry:
    entry = tarfile.TarInfo(name)
    entry.mode, entry.type, entry.linkname = member.mode, member.type, member.linkname
    data = b""
    if member.isreg() or member.islnk():  # a second name of a file becomes a file
        source = archive.extractfile(member)
        data = source.read() if source else b""
        entry.type, entry.linkname, entry.size = tarfile.REGTYPE, "", len(data)
        entry.mtime = int(member.mtime)
    return entry, data


def _groups(api: Any, container: str) -> dict[str, tuple[str, str]]:
    """Return the files that count a container's processes, memory and lack of it, if they are on this machine."""
    try:
        pid = int(api.inspect_container(container)["State"]["Pid"])
        lines = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    except Exception as error:
        raise BoxLost(f"the container is gone, or Docker stopped answering: {short(error)}") from error
    paths = {name: path for line in lines for _, kinds, path in [line.split(":", 2)] for name in kinds.split(",")}
    if not any(container in path for path in paths.values()):
        return {}  # a process of that number, but of another machine's
    top = "/sys/fs/cgroup"
    if "memory" in paths and "pids" in paths:
        memory = f"{top}/memory{paths['memory']}"
        return {
            "processes": (f"{top}/pids{paths['pids']}/pids.current", ""),
            "peak": (f"{memory}/memory.max_usage_in_bytes", ""),
            "oom": (f"{memory}/memory.oom_control", "oom_kill"),
        }
    unified = f"{top}{paths.get('', '')}"
    return {
        "processes": (f"{unified}/pids.current", ""),
        "peak": (f"{unified}/memory.peak", ""),
        "oom": (f"{unified}/memory.events", "oom_kill"),
    }

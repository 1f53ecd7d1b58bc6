"""Boxes in Docker containers, with an image by name, from a directory, or of this machine's Python.

A container has no network, no capabilities, a read-only root, a user other than root, and size-limited memory file
systems for `/work` and `/tmp`. It is started once; each run is an `exec` in it. Its first process reads standard input
from this process, so that the container ends when this process dies.

An `exec` continues when its client dies, and so do processes that it leaves behind. Therefore each program runs under
`timeout` inside the container and under a shell that kills all other processes afterwards; the process count of the
container shows whether this worked, and it is repeated from outside if a program prevented it. While a session is open
in the box, processes that a run leaves behind stay until the session ends.

Not included: pulling images, volumes, networks, and boxes that outlive this process.
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
from turnwise.tools.sandbox.box import Box, stop_reason
from turnwise.tools.sandbox.channel import Channel
from turnwise.tools.sandbox.docker_exec import DockerChannel, DockerExec, first_line
from turnwise.tools.sandbox.errors import BadPath, BoxFull, BoxLost, DockerUnavailable, SnapshotError
from turnwise.tools.sandbox.limits import MB, Limits, RunResult, Stop

_LABEL: Final = "turnwise.sandbox"
_INIT: Final = ["sh", "-c", "cat >/dev/null; :"]  # as root without capabilities; the shell collects orphans
_OWN_PROCESSES: Final = 6  # of the container itself: its first two, and a run's shell and timeout
_RUN: Final = (
    "ulimit -S -t {cpu}; ulimit -H -t {hard}; ulimit -v {memory}; "
    'timeout -s KILL {seconds} "$@"; code=$?; {sweep}exit $code'
)
_KILL_ALL: Final = ["sh", "-c", "kill -9 -1"]
_NO_LINKS: Final = 'p=.; for n in "$@"; do p="$p/$n"; [ -L "$p" ] && exit 40; done; '
_PUT: Final = (
    'for last in "$@"; do :; done; d=.; for n in "$@"; do [ -L "$d" ] && exit 40; '
    'if [ "$d" != . ] && [ ! -d "$d" ]; then mkdir "$d" || exit 41; fi; d="$d/$n"; done; '
    '[ -d "$d" ] && exit 42; rm -f "$d"; cat >"$d" || exit 43'
)
_GET: Final = _NO_LINKS + '[ -e "$p" ] || exit 44; [ -f "$p" ] || exit 45; exec cat "$p"'
_UNREADABLE: Final = r"\( -type d ! -perm -700 -o -type f ! -perm -400 \)"  # for tar
_TAR: Final = "exec tar -c -f - -C /work ."
_PACK: Final = f'[ -n "$(find /work {_UNREADABLE} 2>/dev/null)" ] || {_TAR}'
_MAKE_READABLE: Final = (
    rf"find /work {_UNREADABLE} -exec sh -c "
    r"""'printf "%s\0%s\0" "$(stat -c %a "$1")" "$1"; chmod u+rwx "$1"' sh {} \;"""
)
_SET_MODES: Final = "xargs -0 -n 2 chmod; :"  # errors are ignored: files may be gone by now
_REPLACE_FILES: Final = (
    r"chmod u+rwx /work; find /work -type d ! -perm -700 -exec chmod u+rwx {} \; && "
    "find /work -mindepth 1 -maxdepth 1 -exec rm -rf {} + && "
    "umask 0 && exec tar -x -p -f - -C /work"  # busybox takes -p, and applies the mask all the same
)
_OWN_TIMEOUT: Final = 60.0  # seconds for our own commands in the container


def sdk() -> Any:
    """Import the docker package.

    Raises:
        DockerUnavailable: the package is not installed.
    """
    try:
        import docker  # type: ignore[import-untyped,unused-ignore]
    except ImportError as error:
        raise DockerUnavailable("Docker boxes need the docker package: pip install turnwise[docker]") from error
    return docker


def connect() -> Any:
    """Return a client of the daemon at $DOCKER_HOST, or at the default socket.

    Raises:
        DockerUnavailable: the daemon does not respond, or this user may not use it.
    """
    docker = sdk()
    try:
        client = docker.from_env(timeout=120)
        client.ping()
    except docker.errors.DockerException as error:
        raise DockerUnavailable(_unreachable(str(error))) from error
    return client


def _unreachable(error: str) -> str:
    where = os.environ.get("DOCKER_HOST", "the default socket")
    if "Permission" in error:
        return f"you have no permission to use Docker at {where}; join its group, or ask the administrator"
    return f"Docker does not respond at {where}; start it, or set DOCKER_HOST"


@cache
def shared(image: str | None = None) -> DockerBackend:
    """Return the Docker back end of this process for an image."""
    return DockerBackend(image)


class DockerBackend:
    """Starts boxes in containers of one image, optionally keeping some started in advance.

    Args:
        image: a name; a directory or tar file with a root file system; None: this machine's own Python. The image needs
            `sh`, `timeout`, `find` and `tar` (busybox has them), `stat`, `xargs` and `chmod` for snapshots of files
            that their own user cannot read, and `python3` for Python source and sessions.
        warm: number of containers to keep started for each set of limits that was used.

    Raises:
        DockerUnavailable: Docker cannot be used, or has no such image.
    """

    def __init__(self, image: str | None = None, *, warm: int = 0) -> None:
        self.client = connect()
        self.image = self._image(image)
        self.warm = warm
        self._ready: dict[Limits, list[DockerBox]] = {}
        self._lock = threading.Lock()
        atexit.register(self.close)

    def start(self, limits: Limits | None = None) -> DockerBox:
        """Return a box, one that is already started if possible."""
        limits = limits or Limits()
        with self._lock:
            ready = self._ready.setdefault(limits, [])
            box = ready.pop() if ready else None
        if self.warm:
            threading.Thread(target=self.fill, args=(limits,), daemon=True).start()
        return box or DockerBox(self.client, self.image, limits)

    def fill(self, limits: Limits | None = None) -> None:
        """Start containers until `warm` are ready."""
        limits = limits or Limits()
        while True:
            with self._lock:
                if len(self._ready.setdefault(limits, [])) >= self.warm:
                    return
            box = DockerBox(self.client, self.image, limits)
            with self._lock:
                self._ready[limits].append(box)

    def close(self) -> None:
        """Remove the containers that were started in advance and not used."""
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
            raise DockerUnavailable(f"no Docker image, directory or tar file {image!r}; run `docker pull` first")
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
    """A box in a container."""

    backend = "docker"
    python = "python3"

    def __init__(self, client: Any, image: str, limits: Limits) -> None:
        super().__init__(limits)
        self.closed = True  # until there is something to close
        self.api = client.api
        self._counter_files: dict[str, tuple[str, str]] | None = None
        try:
            self.id = self._create(image)
            self._stdin = self.api.attach_socket(self.id, params={"stdin": 1, "stream": 1})
            self.api.start(self.id)
        except sdk().errors.DockerException as error:
            raise DockerUnavailable(f"Docker cannot start a container of {image!r}: {error}") from error
        except OSError as error:
            raise DockerUnavailable(_unreachable(str(error))) from error
        self.closed = False

    def _create(self, image: str) -> str:
        limits = self.limits
        tmpfs = f"size={limits.disk},nr_inodes={limits.files},uid=1000,gid=1000,exec"
        ulimits = [("fsize", limits.file_size), ("nofile", 256), ("core", 0)]
        host = self.api.create_host_config(
            network_mode="host" if limits.network else "none",
            read_only=True,
            tmpfs={"/work": tmpfs, "/tmp": tmpfs},
            shm_size=min(limits.disk, 16 * MB),
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            pids_limit=limits.processes + _OWN_PROCESSES,
            mem_limit=limits.memory + limits.disk,
            memswap_limit=limits.memory + limits.disk,
            ulimits=[{"Name": name, "Soft": value, "Hard": value} for name, value in ulimits],
            auto_remove=True,
        )
        created = self.api.create_container(
            image,
            _INIT,
            user="0:0",
            stdin_open=True,
            working_dir="/work",
            host_config=host,
            labels={_LABEL: str(os.getpid())},
            network_disabled=not limits.network,
            environment={"HOME": "/work", "LANG": "C.UTF-8", "TMPDIR": "/tmp", "PYTHONDONTWRITEBYTECODE": "1"},
        )
        return str(created["Id"])

    def _execute(self, argv: list[str], stdin: bytes, seconds: float) -> RunResult:
        start = time.monotonic()
        before = self._counters()
        alone = all(session.closed for session in self._sessions)
        command = self._exec(self._wrapped(argv, seconds, alone), stdin, self.limits.output, start + seconds, alone)
        took = time.monotonic() - start
        code, stop = command.code, command.stop
        if code == 137 and stop is None:
            self._check_alive()
        after = self._counters()
        if alone and after.get("processes", 99) > before.get("processes", 0):
            self._kill_all()  # always, if the processes cannot be counted
        if stop is None and took >= seconds and code in (124, 137):
            stop = "timeout"  # by the timeout in the container
        oom = after.get("oom", 0) > before.get("oom", 0)
        stdout, stderr = command.text(1), command.text(2)
        stop = stop or self._stop_reason(code, oom, stderr, took)
        return RunResult(stdout, stderr, code, stop, took, after.get("peak", 0))

    def _check_alive(self) -> None:
        """Raise BoxLost if the container has ended, and with it the program."""
        for pause in (0.0, 0.05, 0.2):  # programs die before Docker reports the end of the container
            time.sleep(pause)
            try:
                state = self.api.inspect_container(self.id)["State"]
            except Exception as error:
                raise BoxLost(f"the container died during the run, or Docker did: {first_line(error)}") from error
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

    def _stop_reason(self, code: int, oom: bool, stderr: bytes, took: float) -> Stop:
        if code and oom:
            return "memory"
        if code == 152 or (code == 137 and took >= self.limits.cpu):
            return "cpu"
        return stop_reason(code, stderr, full=False)

    def _counters(self) -> dict[str, int]:
        """Return counters of the container's control group; none if the daemon is on another machine."""
        if self._counter_files is None:
            self._counter_files = _counter_files(self.api, self.id)
        found = {}
        for name, (file, word) in self._counter_files.items():
            with suppress(OSError, ValueError):
                lines = [line.split() for line in Path(file).read_text(encoding="ascii").splitlines()]
                found[name] = int(next(line[-1] for line in lines if len(line) == 1 or line[0] == word))
        return found

    def _kill_all(self) -> None:
        self._exec(_KILL_ALL, b"", 1 << 16, time.monotonic() + _OWN_TIMEOUT, False)

    def _exec(self, argv: list[str], stdin: bytes, output: int, deadline: float, alone: bool = False) -> DockerExec:
        """Run a command to its end or the deadline; `alone`: at the deadline, kill all processes in the container."""
        command = DockerExec(self.api, self.id, argv, stdin=bool(stdin))
        try:
            command.run(stdin, output, deadline, self._kill_all if alone else lambda: None)
        finally:
            command.close()
        command.finish()
        return command

    def _script(self, script: str, args: list[str], path: str, stdin: bytes = b"") -> bytes:
        """Run one of our own scripts in the container and return its output; `path` is for error messages."""
        most = 2 * self.limits.disk + 1024 * self.limits.files + (1 << 20)
        command = self._exec(["sh", "-c", script, "sh", *args], stdin, most, time.monotonic() + _OWN_TIMEOUT)
        stderr = command.text(2)
        if command.code == 44:
            raise BadPath(files.MISSING.format(path=path))
        if command.code == 40:
            raise BadPath(files.LINK.format(path=path))
        if b"No space left" in stderr or b"File too large" in stderr:
            raise BoxFull(files.FULL.format(path=path))
        if command.code:
            raise BadPath(f"{path!r} in the box is not a regular file, or cannot be reached")
        return command.text(1)

    def _put(self, path: str, data: bytes) -> None:
        self._script(_PUT, files.split_path(path), path, data or b"")

    def _get(self, path: str) -> bytes:
        return self._script(_GET, files.split_path(path), path)

    def _snapshot(self) -> bytes:
        raw, modes = self._script(_PACK, [], "the snapshot"), {}
        if not raw:  # some files cannot be read by their own user
            modes = self._make_readable()
            try:
                raw = self._script(_TAR, [], "the snapshot")
            finally:
                self._set_modes(sorted(modes.items(), reverse=True))  # the content of a directory before itself
        entries = []
        with tarfile.open(fileobj=io.BytesIO(raw), mode="r:", errors="surrogateescape") as archive:
            members = sorted(archive.getmembers(), key=lambda member: member.name.split("/"))
            hard_links = [one for one in members if one.islnk() and _relative(one.name) in modes]
            modes |= {_relative(one.linkname): modes[_relative(one.name)] for one in hard_links}
            for member in members:
                name = _relative(member.name)
                member.mode = modes.get(_relative(member.linkname) if member.islnk() else name, member.mode) & 0o777
                if name not in ("", ".") and (member.isreg() or member.isdir() or member.issym() or member.islnk()):
                    entries.append(_canonical(archive, member, name))
        return files.archive(entries)

    def _make_readable(self) -> dict[str, int]:
        """Let the box's user read everything; return the previous mode of each path that was changed."""
        words = os.fsdecode(self._script(_MAKE_READABLE, [], "the snapshot")).split("\0")[:-1]
        pairs = zip(words[1::2], words[::2], strict=True)
        return {path.removeprefix("/work").lstrip("/"): int(mode, 8) for path, mode in pairs}

    def _set_modes(self, modes: list[tuple[str, int]]) -> None:
        if modes:
            words = "".join(f"{mode:o}\0/work/{path}\0" for path, mode in modes)
            self._script(_SET_MODES, [], "the snapshot", os.fsencode(words))

    def _restore(self, snapshot: bytes) -> None:
        entries = files.checked(snapshot, self.limits.disk, self.limits.files)
        for member, _ in entries:
            member.uid = member.gid = 1000
            member.pax_headers = {}
            member.mode &= 0o777
        members = files.deepest_first(entries)
        closed = [("/".join(names), one.mode) for names, one in members if one.isdir() and one.mode & 0o700 != 0o700]
        for _, member in members:
            member.mode |= 0o700 if member.isdir() else 0  # until its content is written
        try:
            self._script(_REPLACE_FILES, [], "the snapshot", files.archive(entries, tarfile.GNU_FORMAT))
        except BadPath as error:
            raise SnapshotError("the snapshot could not be unpacked in the box") from error
        self._set_modes(closed)

    def _open_channel(self, argv: list[str]) -> Channel:
        cpu = math.ceil(self.limits.cpu)
        script = f'ulimit -S -t {cpu}; ulimit -H -t {cpu * 100}; ulimit -v {self.limits.memory // 1024}; exec "$@"'
        command = DockerExec(self.api, self.id, ["sh", "-c", script, "sh", *argv], stdin=True)
        return DockerChannel(command, self._kill_all)

    def _close(self) -> None:
        for step in (lambda: self.api.remove_container(self.id, force=True), self._stdin.close):
            with suppress(Exception):  # it may be gone already
                step()


def _relative(name: str) -> str:
    return name.removeprefix("./")


def _canonical(archive: tarfile.TarFile, member: tarfile.TarInfo, name: str) -> files.TarEntry:
    entry = tarfile.TarInfo(name)
    entry.mode, entry.type, entry.linkname = member.mode, member.type, member.linkname
    data = b""
    if member.isreg() or member.islnk():  # a hard link becomes a regular file
        source = archive.extractfile(member)
        data = source.read() if source else b""
        entry.type, entry.linkname, entry.size = tarfile.REGTYPE, "", len(data)
        entry.mtime = int(member.mtime)
    return entry, data


def _counter_files(api: Any, container: str) -> dict[str, tuple[str, str]]:
    """Return the control group files with the container's counters, counter -> (path, key in the file).

    Empty if the container runs on another machine.
    """
    try:
        pid = int(api.inspect_container(container)["State"]["Pid"])
        lines = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    except Exception as error:
        raise BoxLost(f"the container is gone, or Docker stopped responding: {first_line(error)}") from error
    paths = {name: path for line in lines for _, kinds, path in [line.split(":", 2)] for name in kinds.split(",")}
    if not any(container in path for path in paths.values()):
        return {}  # the process id belongs to another machine
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

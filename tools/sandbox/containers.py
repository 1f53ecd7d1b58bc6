"""Boxes in Docker containers, with an image by name, from a directory, or of this machine's Python.

A container has no network, no capabilities, a read-only root, a user other than root, size-limited memory file systems
for `/work` (or the folders of a `Layout`) and `/tmp`, and the system call filter of the other back ends. It is started
once; each run is an `exec` in it. Its first process reads standard input from this process, so that the container ends
when this process dies.

An `exec` continues when its client dies, and so do processes that it leaves behind. Therefore each program runs under
`timeout` inside the container, and after each run a process of the container's root kills all that is left of it, but
not the sessions (see `container_init`).

Not included: pulling images, volumes, networks, and boxes that outlive this process.
"""

from __future__ import annotations

import io
import math
import os
import tarfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import cache
from importlib.resources import files as files_of
from pathlib import Path
from typing import Any, Final

from turncredit.tools.sandbox import container_init, files, rootfs, seccomp
from turncredit.tools.sandbox.box import Box, stop_reason
from turncredit.tools.sandbox.channel import Channel
from turncredit.tools.sandbox.container_counters import ContainerCounters
from turncredit.tools.sandbox.container_pool import ContainerPool
from turncredit.tools.sandbox.docker_exec import DockerChannel, DockerExec, first_line
from turncredit.tools.sandbox.errors import BadPath, BoxFull, BoxLost, DockerUnavailable, SnapshotError
from turncredit.tools.sandbox.hidden import is_own
from turncredit.tools.sandbox.layout import DEFAULT as DEFAULT_LAYOUT
from turncredit.tools.sandbox.layout import Layout
from turncredit.tools.sandbox.limits import MB, Limits, RunResult, Stop
from turncredit.tools.sandbox.untrusted_archives import FileEntry, TreeLimits, read_archive, write_archive
from turncredit.tools.sandbox.untrusted_headers import KEPT_BITS
from turncredit.tools.sandbox.untrusted_trees import TreeChanged

_LABEL: Final = "turncredit.sandbox"
_NO_TERMINALS: Final = "ro,size=4k,nr_inodes=1"  # the machine has a few thousand for all
_OWN_PROCESSES: Final = container_init.PROCESSES + 4  # of the container itself: with a run's shell and timeout
_END: Final = 5.0  # seconds for killed programs to end, before everything in the container is killed
_OWN_TIMEOUT: Final = 30.0  # seconds for our own commands in the container
_FILE_TIMEOUT: Final = 10.0  # seconds for writing or reading one file


@cache
def programs() -> str:
    """Return the shell programs of `container.sh`, which run in a container."""
    return files_of("turncredit.tools.sandbox").joinpath("container.sh").read_text(encoding="ascii")


def _shell(name: str, *args: str | int) -> list[str]:
    """Return the command line of a program of `container.sh`."""
    return ["sh", "-c", programs(), "sh", name, *map(str, args)]


def sdk() -> Any:
    """Import the docker package.

    Raises:
        DockerUnavailable: the package is not installed.
    """
    try:
        import docker  # type: ignore[import-untyped,unused-ignore]
    except ImportError as error:
        from turncredit.installation import needs

        raise DockerUnavailable(needs("Docker boxes need the docker package", "docker")) from error
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


def shared(image: str | None = None, layout: Layout = DEFAULT_LAYOUT) -> DockerBackend:
    """Return the Docker back end of this process for an image and a layout."""
    return _shared(image, layout, os.getpid())


@cache
def _shared(image: str | None, layout: Layout, process: int) -> DockerBackend:
    """Return a back end for each process: after a fork, connections to the daemon must not be shared."""
    return DockerBackend(image, layout)


class DockerBackend:
    """Starts boxes in containers of one image, optionally with some started in advance.

    Args:
        image: a name; a directory or tar file with a root file system; None: this machine's own Python. The image needs
            `sh`, `timeout`, `find` and `tar` (busybox has them), `stat`, `xargs` and `chmod` for snapshots of files
            that their own user cannot read, and `python3` for Python source and sessions.
        layout: paths that programs write to.

    Raises:
        DockerUnavailable: Docker cannot be used, or has no such image.
    """

    def __init__(self, image: str | None = None, layout: Layout = DEFAULT_LAYOUT) -> None:
        self.client = connect()
        self.layout = layout
        self.image = self._image(image)
        self.pool = ContainerPool(self._box)

    def start(self, limits: Limits | None = None, *, warm: int = 0) -> DockerBox:
        """Return a box, one that was started in advance if there is one.

        Args:
            limits: resource limits; None: the defaults of `Limits`.
            warm: number of containers with these limits to have ready for the next calls; they are started in the
                background, and each is used once.
        """
        limits = limits or Limits()
        box = self.pool.take(limits) or self._box(limits)
        if warm:
            self.pool.keep(limits, warm)
        return box

    def _box(self, limits: Limits) -> DockerBox:
        return DockerBox(self.client, self.image, limits, self.layout)

    def _image(self, image: str | None) -> str:
        if image is None:
            python = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else os.path.realpath("/proc/self/exe")
            name = f"turncredit-python:{rootfs.fingerprint(python)}"
            return self._import(name, lambda: rootfs.pack(python))
        path = Path(image).resolve()
        if path.is_dir() or path.is_file():
            return self._import(f"turncredit-root:2-{rootfs.digest(path)}", lambda: _tar(path))
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
        archive.add(path, ".", filter=lambda entry: None if is_own(entry.name.rpartition("/")[2]) else entry)
    return buffer.getvalue()


class DockerBox(Box):
    """A box in a container."""

    backend = "docker"
    python = "python3"

    def __init__(self, client: Any, image: str, limits: Limits, layout: Layout = DEFAULT_LAYOUT) -> None:
        super().__init__(limits)
        self.layout = layout
        self.closed = True  # until there is something to close
        self.api = client.api
        self._channels: list[DockerChannel] = []
        try:
            self.id = self._create(image)
            stream = self.api.attach_socket(self.id, params={"stdin": 1, "stdout": 1, "stream": 1})
            self._init = container_init.ContainerInit(stream)
            self.api.start(self.id)
            self.counters = ContainerCounters(self.api, self.id)
        except sdk().errors.DockerException as error:
            raise DockerUnavailable(f"Docker cannot start a container of {image!r}: {error}") from error
        except OSError as error:
            raise DockerUnavailable(_unreachable(str(error))) from error
        self.closed = False

    def _create(self, image: str) -> str:
        limits = self.limits
        tmpfs = f"size={limits.disk},nr_inodes={limits.files},uid=1000,gid=1000,exec"
        written = (self.layout.folder, "/tmp", *self.layout.scratch)
        policy = seccomp.CallPolicy(network=limits.network, own_ipc=False)
        ulimits = [("fsize", limits.file_size), ("nofile", 256), ("core", 0)]
        host = self.api.create_host_config(
            network_mode="host" if limits.network else "none",
            read_only=True,
            tmpfs={**dict.fromkeys(written, tmpfs), "/dev/pts": _NO_TERMINALS},
            shm_size=min(limits.disk, 16 * MB),
            cap_drop=["ALL"],
            cap_add=["KILL"],  # for the first processes alone: programs have no capability
            security_opt=["no-new-privileges", f"seccomp={seccomp.docker_profile(policy)}"],
            log_config=sdk().types.LogConfig(type="none"),
            pids_limit=limits.processes + _OWN_PROCESSES,
            mem_limit=limits.memory + limits.disk,
            memswap_limit=limits.memory + limits.disk,
            ulimits=[{"Name": name, "Soft": value, "Hard": value} for name, value in ulimits],
            auto_remove=True,
        )
        created = self.api.create_container(
            image,
            entrypoint=container_init.command(),  # in place of what the image starts
            user="0:0",
            stdin_open=True,
            working_dir=self.folder,
            host_config=host,
            labels={_LABEL: str(os.getpid())},
            network_disabled=not limits.network,
            environment={"HOME": self.folder, "LANG": "C.UTF-8", "TMPDIR": "/tmp", "PYTHONDONTWRITEBYTECODE": "1"},
        )
        return str(created["Id"])

    @property
    def folder(self) -> str:
        """Path of the box's directory as its programs see it."""
        return self.layout.folder

    def _execute(self, argv: list[str], stdin: bytes, seconds: float) -> RunResult:
        start = time.monotonic()
        before = self.counters.read()
        with self._files_lock:  # a program that starts now would not be stopped
            command = DockerExec(self.api, self.id, self._wrapped(argv, seconds), stdin=bool(stdin))
        self._finish(command, stdin, self.limits.output, start + seconds, self._end_runs)
        took = time.monotonic() - start
        code, stop = command.code, command.stop
        if code == 137 and stop is None:
            self._check_alive()
        if stop is None:
            self._end_runs()  # what the program has left behind
        after = self.counters.read()
        if stop is None and took >= seconds and code in (124, 137):
            stop = "timeout"  # by the timeout in the container
        oom = after.get("oom", 0) > before.get("oom", 0)
        stdout, stderr = command.text(1), command.text(2)
        stop = stop or self._stop_reason(code, oom, stderr, took)
        return RunResult(stdout, stderr, code, stop, took, after.get("peak", 0))

    def _end_runs(self) -> None:
        """Kill all programs but the sessions; if they withstand, the sessions too; if that fails, the container.

        Raises:
            BoxLost: nothing else helped.
        """
        busy = self._files_lock.acquire(timeout=_END)  # our own scripts are programs, too
        try:
            sessions = [session.pid for session in self._channels]
            if (sessions and self._init.kill_others(sessions, _END)) or self._init.kill_all(_END):
                return
        finally:
            if busy:
                self._files_lock.release()
        with suppress(Exception):
            self.api.remove_container(self.id, force=True)
        raise BoxLost("a program in the container could not be killed, so the container was removed")

    def alive(self) -> bool:
        """Return whether the container still runs."""
        try:
            return bool(self.api.inspect_container(self.id)["State"]["Running"])
        except Exception:  # it is gone, or Docker is
            return False

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

    def _wrapped(self, argv: list[str], seconds: float) -> list[str]:
        cpu = math.ceil(self.limits.cpu)
        memory = self.limits.memory // 1024
        return _shell("run", cpu, cpu + 1, memory, math.ceil(seconds) + 1, *argv)

    def _stop_reason(self, code: int, oom: bool, stderr: bytes, took: float) -> Stop:
        if code and oom:
            return "memory"
        if code == 152 or (code == 137 and took >= self.limits.cpu):
            return "cpu"
        return stop_reason(code, stderr, full=False)

    def _exec(self, argv: list[str], stdin: bytes, output: int, deadline: float) -> DockerExec:
        """Run one of our own commands; at the deadline, kill all processes in the container."""
        command = DockerExec(self.api, self.id, argv, stdin=bool(stdin))
        return self._finish(command, stdin, output, deadline, self._kill_programs)

    def _finish(
        self, command: DockerExec, stdin: bytes, output: int, deadline: float, kill: Callable[[], None]
    ) -> DockerExec:
        try:
            command.run(stdin, output, deadline, kill)
        finally:
            command.close()
        command.finish()
        return command

    def _script(self, name: str, args: list[str], path: str, stdin: bytes, most: int, seconds: float) -> bytes:
        """Run a program of `container.sh` while all other processes in the container are stopped.

        Args:
            name: name of the program.
            args: its arguments.
            path: for error messages.
            stdin: its input.
            most: bytes of output.
            seconds: after which it is killed, and everything else in the container.

        Returns:
            Its output.

        Raises:
            TreeChanged: it takes too long, or was killed; then all processes in the container are killed too.
            SnapshotError: it has more output.
        """
        command = self._exec(_shell("alone", name, *args), stdin, most, time.monotonic() + seconds)
        if command.stop == "output":
            raise SnapshotError(f"{path!r} in the box has more than {most:,} bytes")
        if command.stop is not None or command.code == 137:
            raise TreeChanged(f"{path!r} in the box cannot be used: its programs prevent it")
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
        self._script("put", files.split_path(path), path, data, 1 << 16, _FILE_TIMEOUT)

    def _get(self, path: str) -> bytes:
        try:
            return self._script("get", files.split_path(path), path, b"", self.limits.file_size, _FILE_TIMEOUT)
        except TreeChanged:
            raise
        except SnapshotError as error:
            raise BadPath(str(error)) from error

    def _tree_limits(self) -> TreeLimits:
        limits = super()._tree_limits()
        return replace(limits, entries=limits.entries - 1)  # the directory itself counts too

    def _snapshot(self) -> bytes:
        raw, modes = self._tree_script("archive_if_readable"), {}
        if not raw:  # some files cannot be read by their own user
            modes = self._make_readable()
            try:
                raw = self._tree_script("archive")
            finally:
                self._set_modes(sorted(modes.items(), reverse=True))  # the content of a directory before itself
        try:
            entries = read_archive(raw, self._tree_limits(), by_tar_program=True)
        except BoxFull as error:
            raise SnapshotError(f"cannot take a snapshot: {error}") from error
        entries = [replace(entry, mode=modes.get(entry.path, entry.mode)) for entry in entries]
        return write_archive(_canonical(entry) for entry in sorted(entries, key=lambda entry: entry.path.split("/")))

    def _make_readable(self) -> dict[str, int]:
        """Let the box's user read everything; return the previous mode of each path that was changed."""
        words = os.fsdecode(self._tree_script("make_readable")).split("\0")[:-1]
        pairs = list(zip(words[1::2], words[::2], strict=False))
        if not all(mode.isascii() and mode.isdigit() and len(mode) <= 4 for _, mode in pairs):
            raise TreeChanged("cannot take a snapshot: the modes of the files are unreadable")
        try:
            modes = {path.removeprefix(self.folder).lstrip("/"): int(mode, 8) & KEPT_BITS for path, mode in pairs}
        except ValueError as error:
            raise TreeChanged("cannot take a snapshot: the modes of the files are unreadable") from error
        return modes

    def _set_modes(self, modes: list[tuple[str, int]]) -> None:
        if modes:
            words = "".join(f"{mode:o}\0{self.folder}/{path}\0" for path, mode in modes)
            self._tree_script("set_modes", os.fsencode(words))

    def _restore(self, entries: list[FileEntry]) -> None:
        closed = [
            (entry.path, entry.mode)
            for entry in reversed(entries)
            if entry.kind == "folder" and entry.mode & 0o700 != 0o700
        ]
        opened = [replace(entry, mode=entry.mode | 0o700) if entry.kind == "folder" else entry for entry in entries]
        archive = write_archive(opened, tarfile.GNU_FORMAT, 1000)  # folders can be written to until all is there
        self._tree_script("replace_files", archive, self.layout.scratch)
        self._set_modes(closed)

    def _tree_script(self, name: str, stdin: bytes = b"", args: Sequence[str] = ()) -> bytes:
        most = self.limits.disk + 2048 * self.limits.files + (1 << 20)  # content, headers, names
        try:
            return self._script(name, [self.folder, *args], "the snapshot", stdin, most, _OWN_TIMEOUT)
        except TreeChanged:
            raise
        except SnapshotError as error:
            raise SnapshotError(f"cannot take a snapshot: the files have more than {most:,} bytes") from error
        except (BadPath, BoxFull) as error:
            why = "a program prevents it, or folders are nested too deeply"
            raise TreeChanged(f"the files of the box cannot be read or replaced: {why}") from error

    def _paused(self) -> AbstractContextManager[None]:
        return nullcontext()  # our scripts stop the other processes themselves, which saves two commands

    def _kill_programs(self) -> None:
        if not self._init.kill_all(_END):
            raise BoxLost("the programs in the container cannot be killed")

    def _open_channel(self, argv: list[str]) -> Channel:
        cpu = math.ceil(self.limits.cpu)
        words = _shell("session", cpu, cpu * 100, self.limits.memory // 1024, *argv)
        with self._files_lock:
            command = DockerExec(self.api, self.id, words, stdin=True)
            channel = DockerChannel(command, self._end_session, self.counters.cpu)
            self._channels.append(channel)
        return channel

    def _end_session(self, pid: int) -> None:
        self._channels = [channel for channel in self._channels if channel.pid != pid]
        self._init.kill_one(pid, _END)

    def _empty_scratch(self) -> None:
        """Nothing: `_restore` does it, since each command in a container takes long."""

    def _close(self) -> None:
        for step in (lambda: self.api.remove_container(self.id, force=True), self._init.close):
            with suppress(Exception):  # it may be gone already
                step()


def _canonical(entry: FileEntry) -> FileEntry:
    """Return an entry as other back ends have it: only files have times."""
    return entry if entry.kind == "file" else replace(entry, mtime=0)

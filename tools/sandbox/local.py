"""Boxes on this machine without a daemon: bubblewrap, or landlock with seccomp; the fork server starts the programs."""

from __future__ import annotations

import math
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Final, Literal

from turncredit.tools.sandbox import files, mounts, untrusted_trees, user_ids
from turncredit.tools.sandbox.box import Box, stop_reason
from turncredit.tools.sandbox.channel import Channel
from turncredit.tools.sandbox.disk_watch import DiskWatch, unnamed_usage
from turncredit.tools.sandbox.errors import BadPath, BoxFull, BoxLost
from turncredit.tools.sandbox.fork_client import ForkServerClient
from turncredit.tools.sandbox.layout import DEFAULT as DEFAULT_LAYOUT
from turncredit.tools.sandbox.layout import Layout
from turncredit.tools.sandbox.limits import Limits, RunResult, Stop
from turncredit.tools.sandbox.mounts import OWN_ENTRIES
from turncredit.tools.sandbox.pipes import KILL_GRACE, PipeChannel, ProgramPipes
from turncredit.tools.sandbox.untrusted_archives import FileEntry, TreeLimits, write_archive
from turncredit.tools.sandbox.untrusted_trees import TreeChanged

_BWRAP_PROCESSES: Final = 4  # processes of bubblewrap itself, for a run and a session
_STOPPING: Final = 3.0  # seconds in which programs must stop when the host uses the files
_SESSION_CPU: Final = 100  # CPU time of a session, as a multiple of that of one call


FIRST_TIME: Final = 1_704_067_200
"""Time of the directories of a box that was filled again: 2024-01-01 00:00:00 UTC."""


@dataclass(frozen=True)
class LocalConfig:
    """How boxes are created on this machine.

    Args:
        backend: what isolates the programs.
        python: path of the interpreter in the box.
        readable: directories that programs may read, besides /usr and the like.
        own_filesystem: whether files live in their own file system; otherwise in a directory that is monitored.
        bwrap: path of bubblewrap.
        layout: paths to write to; landlock, which mounts nothing, has no other than the default.
    """

    backend: Literal["bwrap", "landlock"]
    python: str
    readable: tuple[str, ...] = ()
    own_filesystem: bool = True
    bwrap: str = "bwrap"
    layout: Layout = DEFAULT_LAYOUT

    @property
    def folders(self) -> dict[str, str]:
        """The folders to write to: name in the storage -> path that programs see."""
        return {"work": self.layout.folder, **{f"scratch{n}": path for n, path in enumerate(self.layout.scratch)}}


class LocalBox(Box):
    """A box whose programs are started by the fork server."""

    def __init__(self, limits: Limits, config: LocalConfig) -> None:
        super().__init__(limits)
        self.closed = True  # until there is something to close
        for path in config.readable:
            if over := next((own for own in config.folders.values() if f"{path}/".startswith(f"{own}/")), None):
                raise BadPath(f"{over!r} cannot be a folder of a box here, since programs need {path} of this machine")
        self.config = config
        self.backend, self.python = config.backend, config.python
        self.server = ForkServerClient.get()
        sizes = {name: getattr(limits, name) for name in ("disk", "files", "memory")}
        kind = "tmpfs" if config.own_filesystem else "directory"
        bind = config.backend == "bwrap"
        reply, (self.work,) = self.server.ask(
            "open", kind=kind, limits=sizes, readable=list(config.readable), bind=bind, folders=config.folders
        )
        self.name, self.uid, self.path = str(reply["box"]), int(reply["uid"]), str(reply["path"])
        self.own_filesystem, self.memory_counted = bool(reply["own_filesystem"]), bool(reply["memory_counted"])
        space = os.fstatvfs(self.work)
        self.room = space.f_bavail * space.f_frsize  # of an empty box
        self.closed = False

    @property
    def folder(self) -> str:
        """Path of the box's directory as its programs see it."""
        return self.config.layout.folder if self.backend == "bwrap" else f"{self.path}/work"

    def _execute(self, argv: list[str], stdin: bytes, seconds: float) -> RunResult:
        start = time.monotonic()
        cpu = math.ceil(self.limits.cpu)
        was_full = self._full()
        status, fds = self._spawn(argv, (cpu, cpu + 1), feed=bool(stdin))
        pipes = ProgramPipes(status, fds, stdin, self.limits.output)
        try:
            with self._disk_watch(lambda: pipes.kill("disk")):
                reply = pipes.run(start + seconds)
        finally:
            pipes.close()
        self._check_survivors(reply)
        code = int(reply["code"] if reply["code"] is not None else 137)
        stdout, stderr = pipes.text(1), pipes.text(2)
        if code == 1 and self.backend == "bwrap" and stderr.startswith(b"bwrap: execvp"):
            code = 127
        stop = pipes.stop or self._stop_reason(code, float(reply["cpu"]), bool(reply["oom"]), stderr, was_full)
        return RunResult(stdout, stderr, code, stop, time.monotonic() - start, int(reply["peak"]))

    def _check_survivors(self, reply: dict[str, object]) -> None:
        """Close the box if a process withstood its end: nothing else may run next to it."""
        if reply["survived"]:
            threading.Thread(target=self.close, daemon=True).start()  # not here: `close` waits for this run
            raise BoxLost("a program in the box could not be killed, so the box is closed")

    def _disk_watch(self, kill: Callable[[], None]) -> AbstractContextManager[object]:
        if self.own_filesystem:
            return nullcontext()
        before = self._usage()[0]
        return DiskWatch(lambda: self._over_limit(before), kill)

    def _stop_reason(self, code: int, cpu: float, oom: bool, stderr: bytes, was_full: bool) -> Stop:
        if code and oom:
            return "memory"
        if code == 152 or (code == 137 and cpu >= self.limits.cpu):
            return "cpu"
        return stop_reason(code, stderr, not was_full and self._full())

    def _full(self) -> bool:
        if not self.own_filesystem:
            return self._over_limit()
        status = os.fstatvfs(self.work)
        return status.f_bavail == 0 or status.f_favail == 0

    def _over_limit(self, before: int = 0) -> bool:
        """Whether a monitored directory is over its limit and has grown: a program may shrink a box that is full."""
        size, count = self._usage()
        return size > before and (size > self.limits.disk or count > self.limits.files)

    def _usage(self) -> tuple[int, int]:
        try:
            root = os.open(self.path, os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:  # the box was closed during a run
            return 0, 0
        try:
            size, count = untrusted_trees.usage(root, self.limits.files + 16)
        finally:
            os.close(root)
        size += unnamed_usage(self.path, self.server.process.pid)
        return size, count - OWN_ENTRIES - len(self.config.layout.scratch)

    def _spawn(self, argv: list[str], cpu: tuple[int, int], *, feed: bool) -> tuple[socket.socket, list[int]]:
        """Start a program; return its status socket and our ends of its standard input (-1 for none), output, error."""
        their_stdin, stdin = os.pipe() if feed else (os.open(os.devnull, os.O_RDONLY), -1)
        stdout, their_stdout = os.pipe()
        stderr, their_stderr = os.pipe()
        try:
            request = self._request(argv, cpu)
            with self._files_lock:
                status = self.server.send("spawn", [their_stdin, their_stdout, their_stderr], **request)
        except BaseException:
            for fd in (stdin, stdout, stderr):
                if fd >= 0:
                    os.close(fd)
            raise
        finally:
            for fd in (their_stdin, their_stdout, their_stderr):
                os.close(fd)
        return status, [stdin, stdout, stderr]

    def _request(self, argv: list[str], cpu: tuple[int, int]) -> dict[str, object]:
        limits, bwrap = self.limits, self.backend == "bwrap"
        processes = limits.processes + (_BWRAP_PROCESSES if bwrap else 1)
        rlimits = {
            "RLIMIT_CPU": cpu,
            "RLIMIT_AS": (limits.memory, limits.memory),
            "RLIMIT_NPROC": (processes, processes),
            "RLIMIT_FSIZE": (limits.file_size, limits.file_size),
            "RLIMIT_NOFILE": (256, 256),
            "RLIMIT_CORE": (0, 0),
            "RLIMIT_MEMLOCK": (0, 0),
        }
        env = {
            "HOME": self.folder,
            "LANG": "C.UTF-8",
            "PATH": f"{os.path.dirname(self.python)}:/usr/local/bin:/usr/bin:/bin",
            "PYTHONDONTWRITEBYTECODE": "1",
            "TMPDIR": "/tmp" if bwrap else f"{self.path}/tmp",
        }
        if self.uid == os.geteuid() and bwrap:
            # RLIMIT_NPROC counts the user's processes outside too, unless it is set inside the box's own namespace.
            del rlimits["RLIMIT_NPROC"]
            argv = ["prlimit", f"--nproc={processes}", "--", *argv]
        request = {"box": self.name, "backend": self.backend, "argv": argv, "env": env, "limits": rlimits}
        return {**request, "network": limits.network, "bwrap": self.config.bwrap}

    def _open_channel(self, argv: list[str]) -> Channel:
        cpu = math.ceil(self.limits.cpu)
        status, fds = self._spawn(argv, (cpu, cpu * _SESSION_CPU), feed=True)
        stdin, stdout, stderr = fds
        os.close(stderr)  # the interpreter redirects its own
        return PipeChannel(status, stdin, stdout, self._cpu, self._disk_watch)

    def _cpu(self) -> float:
        return float(self.server.ask("cpu", box=self.name)[0]["cpu"])

    def _put(self, path: str, data: bytes) -> None:
        if not self.own_filesystem:
            size, count = self._usage()
            if size + len(data) > self.limits.disk or count >= self.limits.files:
                raise BoxFull(files.FULL.format(path=path))
        files.write(self.work, path, data, self.uid)

    def _get(self, path: str) -> bytes:
        return files.read(self.work, path, self.limits.file_size)

    def _tree_limits(self) -> TreeLimits:
        limits = super()._tree_limits()
        return replace(limits, bytes=min(limits.bytes, self.room)) if self.own_filesystem else limits

    def _snapshot(self) -> bytes:
        return write_archive(untrusted_trees.read_tree(self.work, self._tree_limits()))

    def _restore(self, entries: list[FileEntry]) -> None:
        untrusted_trees.check_room(self.work, entries, self._tree_limits())
        untrusted_trees.replace_tree(self.work, entries, self.uid)

    @contextmanager
    def _paused(self) -> Iterator[None]:
        if not self._anything_runs():
            yield
            return
        self.server.ask("pause", box=self.name)
        try:
            deadline = time.monotonic() + _STOPPING
            while self.uid != os.geteuid() and user_ids.running(self.uid):
                if time.monotonic() > deadline:
                    raise TreeChanged("a program in the box cannot be stopped")
                time.sleep(0.0005)
            yield
        finally:
            self.server.ask("resume", box=self.name)

    def _anything_runs(self) -> bool:
        if self.uid != os.geteuid():
            return user_ids.has_processes(self.uid)
        return self._run_lock.locked() or not all(session.closed for session in self._sessions)

    def _kill_programs(self) -> None:
        if not self.server.ask("end", box=self.name)[0]["clean"]:
            raise BoxLost("the programs in the box cannot be killed")

    def _empty_scratch(self) -> None:
        parent = os.open("..", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.work)
        try:
            for name in {*mounts.FOLDERS, *self.config.folders}:
                _reset(parent, name, empty=name != "work")
        except OSError as error:
            raise TreeChanged(f"a scratch folder of the box cannot be emptied: {error.strerror}") from error
        finally:
            os.close(parent)

    def _close(self) -> None:
        if self.server.owner == os.getpid():  # after a fork, the box belongs to the parent process
            try:
                self.server.ask("close", box=self.name)
            except BoxLost:  # then nothing is left but the directory, if the box has one
                if not self.own_filesystem:
                    untrusted_trees.remove(self.path)
        ours = [lock for lock in (self._run_lock, self._files_lock) if lock.acquire(timeout=KILL_GRACE)]
        os.close(self.work)  # not before: a run in another thread still checks the disk usage, or the files are in use
        for lock in ours:
            lock.release()


def _reset(parent: int, name: str, *, empty: bool) -> None:
    """Give a directory of a box the mode and times of a new one, and empty it."""
    held = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        path = f"/proc/self/fd/{held}"
        os.chmod(path, 0o700)
        if empty:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                untrusted_trees.clear(fd)
            finally:
                os.close(fd)
        os.utime(path, (FIRST_TIME, FIRST_TIME))  # the same in every box, so that its programs see the same
    finally:
        os.close(held)

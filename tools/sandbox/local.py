"""Boxes on this machine without a daemon: bubblewrap, or landlock with seccomp; the fork server starts the programs."""

from __future__ import annotations

import math
import os
import socket
import time
from dataclasses import dataclass
from typing import Any, Final, Literal

from turnwise.tools.sandbox import files
from turnwise.tools.sandbox.box import Box, stop_reason
from turnwise.tools.sandbox.bwrap import WORK
from turnwise.tools.sandbox.channel import Channel
from turnwise.tools.sandbox.errors import BoxFull, BoxLost
from turnwise.tools.sandbox.fork_client import ForkServerClient
from turnwise.tools.sandbox.limits import Limits, RunResult, Stop
from turnwise.tools.sandbox.pipes import KILL_GRACE, PipeChannel, ProgramPipes

_BWRAP_PROCESSES: Final = 4  # processes of bubblewrap itself, for a run and a session
_SESSION_CPU: Final = 100  # CPU time of a session, as a multiple of that of one call


@dataclass(frozen=True)
class LocalConfig:
    """How boxes are created on this machine.

    Args:
        backend: what isolates the programs.
        python: path of the interpreter in the box.
        readable: directories that programs may read, besides /usr and the like.
        own_filesystem: whether files live in a file system of their own; otherwise in a directory that is monitored.
        bwrap: path of bubblewrap.
    """

    backend: Literal["bwrap", "landlock"]
    python: str
    readable: tuple[str, ...] = ()
    own_filesystem: bool = True
    bwrap: str = "bwrap"


class LocalBox(Box):
    """A box whose programs are started by the fork server."""

    def __init__(self, limits: Limits, config: LocalConfig) -> None:
        super().__init__(limits)
        self.closed = True  # until there is something to close
        self.config = config
        self.backend, self.python = config.backend, config.python
        self.server = ForkServerClient.get()
        sizes = {name: getattr(limits, name) for name in ("disk", "files", "memory")}
        kind = "tmpfs" if config.own_filesystem else "directory"
        reply, (self.work,) = self.server.ask("open", kind=kind, limits=sizes, readable=list(config.readable))
        self.name, self.uid, self.path = str(reply["box"]), int(reply["uid"]), str(reply["path"])
        self.own_filesystem, self.memory_counted = bool(reply["own_filesystem"]), bool(reply["memory_counted"])
        self.closed = False

    @property
    def folder(self) -> str:
        """Path of the box's directory as its programs see it."""
        return WORK if self.backend == "bwrap" else f"{self.path}/work"

    def _execute(self, argv: list[str], stdin: bytes, seconds: float) -> RunResult:
        start = time.monotonic()
        cpu = math.ceil(self.limits.cpu)
        was_full = self._full()
        size = 0 if self.own_filesystem else self._usage()[0]
        status, fds = self._spawn(argv, (cpu, cpu + 1), feed=bool(stdin))
        pipes = ProgramPipes(status, fds, stdin, self.limits.output)
        try:
            reply = pipes.run(start + seconds, None if self.own_filesystem else lambda: self._over_limit(size))
        finally:
            pipes.close()
        code = int(reply["code"] if reply["code"] is not None else 137)
        stdout, stderr = pipes.text(1), pipes.text(2)
        if code == 1 and self.backend == "bwrap" and stderr.startswith(b"bwrap: execvp"):
            code = 127
        stop = pipes.stop or self._stop_reason(code, float(reply["cpu"]), bool(reply["oom"]), stderr, was_full)
        return RunResult(stdout, stderr, code, stop, time.monotonic() - start, int(reply["peak"]))

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
            size, count = files.usage(root, self.limits.files + 16)
        finally:
            os.close(root)
        return size, count - 5  # three directories and two files of our own

    def _spawn(self, argv: list[str], cpu: tuple[int, int], *, feed: bool) -> tuple[socket.socket, list[int]]:
        """Start a program; return its status socket and our ends of its standard input (-1 for none), output, error."""
        their_stdin, stdin = os.pipe() if feed else (os.open(os.devnull, os.O_RDONLY), -1)
        stdout, their_stdout = os.pipe()
        stderr, their_stderr = os.pipe()
        try:
            request = self._request(argv, cpu)
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

    def _request(self, argv: list[str], cpu: tuple[int, int]) -> dict[str, Any]:
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
        return PipeChannel(status, *fds)

    def _put(self, path: str, data: bytes) -> None:
        if not self.own_filesystem:
            size, count = self._usage()
            if size + len(data) > self.limits.disk or count >= self.limits.files:
                raise BoxFull(files.FULL.format(path=path))
        files.write(self.work, path, data, self.uid)

    def _get(self, path: str) -> bytes:
        return files.read(self.work, path)

    def _snapshot(self) -> bytes:
        return files.pack(self.work)

    def _restore(self, snapshot: bytes) -> None:
        files.unpack(self.work, files.checked(snapshot, self.limits.disk, self.limits.files), self.uid)

    def _close(self) -> None:
        if self.server.owner == os.getpid():  # after a fork, the box belongs to the parent process
            try:
                self.server.ask("close", box=self.name)
            except BoxLost:  # then nothing is left but the directory, if the box has one
                if not self.own_filesystem:
                    files.remove(self.path)
        self._run_lock.acquire(timeout=KILL_GRACE)  # a run in another thread still checks the disk usage
        os.close(self.work)
        self._run_lock.release()

"""Boxes on this machine without a daemon: bubblewrap, or landlock with seccomp; the warden starts their programs."""

from __future__ import annotations

import math
import os
import socket
import time
from dataclasses import dataclass
from typing import Any, Final, Literal

from turnwise.tools.sandbox import files
from turnwise.tools.sandbox.box import Box, told
from turnwise.tools.sandbox.bwrap import WORK
from turnwise.tools.sandbox.errors import BoxFull, BoxLost
from turnwise.tools.sandbox.limits import Limits, Result, Stop
from turnwise.tools.sandbox.pump import LATE, PipeChannel, Pump
from turnwise.tools.sandbox.session import Channel
from turnwise.tools.sandbox.supervisor import Warden

Kind = Literal["bwrap", "landlock"]
_BWRAP_OWN: Final = 4  # processes that bubblewrap itself takes, for a run and a session
_SESSION: Final = 100  # a session may use so many times the processor time of one call


@dataclass(frozen=True)
class Setup:
    """How boxes are made here, as the ladder found out.

    Args:
        kind: what holds the programs.
        python: the interpreter inside.
        shown: folders that programs may read, besides /usr and its like.
        walled: the files lie in a file system of their own; else in a watched folder.
        bwrap: path of bubblewrap.
    """

    kind: Kind
    python: str
    shown: tuple[str, ...] = ()
    walled: bool = True
    bwrap: str = "bwrap"


class LocalBox(Box):
    """A box whose programs the warden starts."""

    def __init__(self, limits: Limits, setup: Setup) -> None:
        """Make it."""
        super().__init__(limits)
        self.closed = True  # until there is something to close
        self.setup = setup
        self.backend, self.python = setup.kind, setup.python
        self.warden = Warden.get()
        wanted = {name: getattr(limits, name) for name in ("disk", "files", "memory")}
        kind = "walled" if setup.walled else "folder"
        answer, (self.work,) = self.warden.ask("open", kind=kind, limits=wanted, shown=list(setup.shown))
        self.room, self.uid, self.path = str(answer["room"]), int(answer["uid"]), str(answer["path"])
        self.walled, self.counted = bool(answer["walled"]), bool(answer["counted"])
        self.closed = False

    @property
    def folder(self) -> str:
        """The box's folder as its programs see it."""
        return WORK if self.setup.kind == "bwrap" else f"{self.path}/work"

    def _execute(self, argv: list[str], stdin: bytes, seconds: float) -> Result:
        start = time.monotonic()
        cpu = math.ceil(self.limits.cpu)
        before = self._full(), self._usage()[0] if not self.walled else 0
        status, pipes = self._spawn(argv, (cpu, cpu + 1), feed=bool(stdin))
        pump = Pump(status, pipes, stdin, self.limits.output)
        try:
            answer = pump.run(start + seconds, None if self.walled else lambda: self._over(before[1]))
        finally:
            pump.close()
        code = int(answer["code"] if answer["code"] is not None else 137)
        stdout, stderr = pump.taken(1), pump.taken(2)
        if code == 1 and self.setup.kind == "bwrap" and stderr.startswith(b"bwrap: execvp"):
            code = 127
        stop = pump.stop or self._why(code, float(answer["cpu"]), bool(answer["oom"]), stderr, before[0])
        return Result(stdout, stderr, code, stop, time.monotonic() - start, int(answer["peak"]))

    def _why(self, code: int, cpu: float, oom: bool, stderr: bytes, was_full: bool) -> Stop:
        if code and oom:
            return "memory"
        if code == 152 or (code == 137 and cpu >= self.limits.cpu):
            return "cpu"
        return told(code, stderr, not was_full and self._full())

    def _full(self) -> bool:
        if not self.walled:
            return self._over()
        status = os.fstatvfs(self.work)
        return status.f_bavail == 0 or status.f_favail == 0

    def _over(self, before: int = 0) -> bool:
        """Whether too much lies in a watched folder, and more than before: what is full may be emptied by a program."""
        size, count = self._usage()
        return size > before and (size > self.limits.disk or count > self.limits.files)

    def _usage(self) -> tuple[int, int]:
        try:
            place = os.open(self.path, os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:  # the box was closed under a run
            return 0, 0
        try:
            size, count = files.usage(place, self.limits.files + 16)
        finally:
            os.close(place)
        return size, count - 5  # the three folders and two files that we made

    def _spawn(self, argv: list[str], cpu: tuple[int, int], *, feed: bool) -> tuple[socket.socket, list[int]]:
        """Start a program; return its lease, and our ends of its standard input (-1 without), output and error."""
        theirs_in, ours_in = os.pipe() if feed else (os.open(os.devnull, os.O_RDONLY), -1)
        ours_out, theirs_out = os.pipe()
        ours_err, theirs_err = os.pipe()
        try:
            status = self.warden.send("spawn", [theirs_in, theirs_out, theirs_err], **self._order(argv, cpu))
        except BaseException:
            for fd in (ours_in, ours_out, ours_err):
                if fd >= 0:
                    os.close(fd)
            raise
        finally:
            for fd in (theirs_in, theirs_out, theirs_err):
                os.close(fd)
        return status, [ours_in, ours_out, ours_err]

    def _order(self, argv: list[str], cpu: tuple[int, int]) -> dict[str, Any]:
        limits, own = self.limits, _BWRAP_OWN if self.setup.kind == "bwrap" else 1
        bounds = {
            "RLIMIT_CPU": cpu,
            "RLIMIT_AS": (limits.memory, limits.memory),
            "RLIMIT_NPROC": (limits.processes + own, limits.processes + own),
            "RLIMIT_FSIZE": (limits.file_size, limits.file_size),
            "RLIMIT_NOFILE": (256, 256),
            "RLIMIT_CORE": (0, 0),
            "RLIMIT_MEMLOCK": (0, 0),
        }
        tmp = "/tmp" if self.setup.kind == "bwrap" else f"{self.path}/tmp"
        env = {
            "HOME": self.folder,
            "LANG": "C.UTF-8",
            "PATH": f"{os.path.dirname(self.python)}:/usr/local/bin:/usr/bin:/bin",
            "PYTHONDONTWRITEBYTECODE": "1",
            "TMPDIR": tmp,
        }
        if self.uid == os.geteuid() and self.setup.kind == "bwrap":
            # The limit counts what the user has running outside too, unless it is set inside the box's own namespace.
            del bounds["RLIMIT_NPROC"]
            argv = ["prlimit", f"--nproc={limits.processes + own}", "--", *argv]
        order = {"room": self.room, "kind": self.setup.kind, "argv": argv, "env": env, "limits": bounds}
        return {**order, "network": limits.network, "bwrap": self.setup.bwrap}

    def _converse(self, argv: list[str]) -> Channel:
        cpu = math.ceil(self.limits.cpu)
        status, (ours_in, ours_out, ours_err) = self._spawn(argv, (cpu, cpu * _SESSION), feed=True)
        return PipeChannel(status, ours_in, ours_out, ours_err)

    def _put(self, path: str, data: bytes) -> None:
        if not self.walled:
            size, count = self._usage()
            if size + len(data) > self.limits.disk or count >= self.limits.files:
                raise BoxFull(f"{path!r} does not fit into the box: raise the limits disk or files")
        files.write(self.work, path, data, self.uid)

    def _get(self, path: str) -> bytes:
        return files.read(self.work, path)

    def _snapshot(self) -> bytes:
        return files.pack(self.work)

    def _restore(self, snapshot: bytes) -> None:
        files.unpack(self.work, files.checked(snapshot, self.limits.disk, self.limits.files), self.uid)

    def _close(self) -> None:
        if self.warden.owner == os.getpid():  # a process that was forked off only lets go: the box is its parent's
            try:
                self.warden.ask("close", room=self.room)
            except BoxLost:  # then nothing is left but the folder, if it has one
                if not self.walled:
                    files.remove(self.path)
        self._turn.acquire(timeout=LATE)  # a run in another thread has been ended, and looks at the box a last time
        os.close(self.work)
        self._turn.release()

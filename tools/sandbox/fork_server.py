"""The fork server: a small process that starts and watches the programs of the boxes.

The process that uses the boxes (a training run, say) is the *supervisor*. The server stands between it and the programs
for four reasons. It is small and has one thread, so forking it is fast and safe, unlike forking a process with torch
loaded. The parent-death signal of a program follows the thread that started it, and the server's only thread lives as
long as the server. Orphaned programs become its children, so it can kill them. And it outlives the supervisor for a
moment, however that died, and cleans up.

Requests arrive on a socket as JSON in a memory file, with descriptors, one of which is a socket for the reply. The
socket of a running program is also its lease: sending anything on it, or closing it, kills the program.

Nothing here waits: what takes time, ending programs and removing boxes, is a step that is repeated every millisecond
until it is done or its deadline has passed, so one box cannot hold up another.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from turncredit.tools.sandbox import cgroups, hidden, kernel, mounts, processes, seccomp, user_ids
from turncredit.tools.sandbox.confinement import READABLE, Request, ServedBox, exec_program

_MAX_FDS: Final = 8  # descriptors of one request
_PATIENCE: Final = 5.0  # seconds for killed processes to end, before everything in the box is killed
_CLOSING: Final = 5.0  # seconds for the processes of a closed box to end
_SHUTDOWN: Final = 10.0  # seconds for all boxes to be closed when the supervisor is gone


@dataclass
class BoxProgram:
    """A running program."""

    pid: int
    box: str
    status: socket.socket
    info: int  # descriptor on which bubblewrap reports its first process; -1 for none
    kills: int  # out-of-memory kills of the box before the program started
    first: int = 0  # bubblewrap's first process; when it is gone, so are all others
    code: int | None = None
    cpu: float = 0.0
    peak: int = 0
    ended: float = 0.0  # when the program ended, and the end of what it left behind began


@dataclass
class ClosingBox:
    """A box that is being closed, or the programs of which are."""

    box: ServedBox
    status: socket.socket | None  # where to report that it is closed
    began: float
    cleaner: int = 0  # process that removes its directory
    clean: bool = False
    remains: bool = False


class ForkServer:
    """Serves requests until the supervisor is gone."""

    def __init__(self, requests: socket.socket, supervisor: int) -> None:
        self.requests = requests
        self.boxes: dict[str, ServedBox] = {}
        self.programs: dict[int, BoxProgram] = {}  # by process id
        self.leases: dict[int, BoxProgram] = {}  # by descriptor of the status socket
        self.closing: list[ClosingBox] = []
        self.strikes = processes.Strikes()
        self.opened = 0
        self.poll = select.poll()
        self.wake, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        # Python writes to the wake-up descriptor only for signals that have a handler.
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        # Unlike an id, a descriptor can be polled, and never comes to mean another process.
        self.supervisor = os.pidfd_open(supervisor)
        for fd in (self.wake, self.supervisor, requests.fileno()):
            self.poll.register(fd, select.POLLIN)

    def run(self) -> None:
        """Serve requests until the supervisor is gone."""
        while True:
            # The end of what a program left behind is no event here, so it is looked for every millisecond.
            waiting = self.closing or any(program.code is not None for program in self.programs.values())
            for fd, _ in self.poll.poll(1 if waiting else None):
                if fd == self.supervisor:
                    return
                if fd == self.requests.fileno():
                    if not self.serve():
                        return
                elif fd == self.wake:
                    os.read(self.wake, 4096)
                elif program := self.leases.get(fd):
                    self.poll.unregister(fd)
                    program.status.recv(64)  # if it stayed unread, closing the socket would discard the reply
                    self.kill(program)
            self.step()

    def step(self) -> None:
        """Collect what has ended, and bring what is ending forward."""
        self.reap()
        for program in [program for program in self.programs.values() if program.code is not None]:
            self.finish(program)
        for closing in list(self.closing):
            if self._closed(closing):
                self.closing.remove(closing)

    def close(self) -> None:
        """Close all boxes."""
        for name in list(self.boxes):
            self.close_box(name, None)
        deadline = time.monotonic() + _SHUTDOWN
        while self.closing and time.monotonic() < deadline:
            self.step()
            time.sleep(0.001)

    def serve(self) -> bool:
        """Handle one request; return False if the supervisor has closed the connection."""
        message, fds, _, _ = socket.recv_fds(self.requests, 16, _MAX_FDS)
        if not message:
            return False
        for fd in fds:  # programs that start later must not hold descriptors of this request
            os.set_inheritable(fd, False)
        with open(fds[0], "rb") as file:
            file.seek(0)
            request = json.load(file)
        status = socket.socket(fileno=fds[1])
        try:
            reply = getattr(self, f"do_{request.pop('do')}")(status=status, fds=fds[2:], **request)
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {error}" if not isinstance(error, OSError) else str(error)}
        finally:
            for fd in fds[2:]:
                os.close(fd)
        if reply is not None:
            _send(status, reply)
        return True

    def do_open(
        self,
        *,
        status: socket.socket,
        fds: list[int],
        kind: str,
        limits: Request,
        readable: list[str],
        bind: bool,
        folders: dict[str, str],
    ) -> None:
        """Create a box; reply with its name and the descriptor of its directory."""
        covered = hidden.hidden_paths((*READABLE, *readable))
        lease = user_ids.lease() if os.geteuid() == 0 else None
        uid = lease.uid if lease else os.geteuid()
        try:
            storage, pairs = _create_storage(kind, uid, limits, readable, folders, bind=bind)
        except OSError:
            if lease:
                lease.release()
            raise
        self.opened += 1
        name = f"{self.opened}"
        group = cgroups.create(name, limits["memory"] + limits["disk"]) if lease else None
        self.boxes[name] = ServedBox(uid, lease, storage, group, pairs, covered, folders)
        reply = {
            "box": name,
            "uid": uid,
            "path": storage.path,
            "own_filesystem": bool(storage.namespaces),
            "memory_counted": bool(group),
        }
        socket.send_fds(status, [json.dumps(reply).encode()], [storage.work])
        status.close()

    def do_spawn(self, *, status: socket.socket, fds: list[int], box: str, **request: Any) -> Request | None:
        """Start a program in a box; the reply is sent when it has ended."""
        served = self.boxes[box]
        seccomp.program(served.policy(request["backend"], network=request["network"]))  # made once, not in each child
        if request["backend"] == "landlock":
            served.grants()
        info = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK) if request["backend"] == "bwrap" else (-1, -1)
        pid = os.fork()
        if pid == 0:
            exec_program(served, request, fds, info[1], status.fileno())
        if info[1] >= 0:
            os.close(info[1])
        program = BoxProgram(pid, box, status, info[0], served.group.kills() if served.group else 0)
        served.programs.add(pid)
        self.programs[pid] = self.leases[status.fileno()] = program
        self.poll.register(status.fileno(), select.POLLIN)
        return None

    def do_cpu(self, *, status: socket.socket, fds: list[int], box: str) -> Request:
        """Return the CPU seconds of all processes that run in a box now, and of their children that have ended."""
        return {"cpu": processes.cpu_of(user_ids.descendants(self.boxes[box].programs))}

    def do_pause(self, *, status: socket.socket, fds: list[int], box: str) -> Request:
        """Stop all programs of a box."""
        self._signal(self.boxes[box], signal.SIGSTOP)
        return {}

    def do_resume(self, *, status: socket.socket, fds: list[int], box: str) -> Request:
        """Let the programs of a box go on."""
        if box in self.boxes:
            self._signal(self.boxes[box], signal.SIGCONT)
        return {}

    def _signal(self, box: ServedBox, number: int) -> None:
        if box.lease:
            user_ids.signal_all(box.uid, number)
            return
        for pid in user_ids.descendants(box.programs):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def do_end(self, *, status: socket.socket, fds: list[int], box: str) -> None:
        """Kill all programs of a box, which remains; the reply is sent when they are gone."""
        self.closing.append(ClosingBox(self.boxes[box], status, time.monotonic(), remains=True))

    def do_close(self, *, status: socket.socket, fds: list[int], box: str) -> None:
        """Close a box; the reply is sent when it is closed."""
        self.close_box(box, status)

    def close_box(self, name: str, status: socket.socket | None) -> None:
        """Begin to close a box: kill what runs in it, then remove it."""
        box = self.boxes.pop(name)
        self.closing.append(ClosingBox(box, status, time.monotonic()))
        for program in [self.programs[pid] for pid in box.programs]:
            self.kill(program)

    def _closed(self, closing: ClosingBox) -> bool:
        """Bring the end of a box, or of its programs, forward; return whether it is reached."""
        box, late = closing.box, time.monotonic() > closing.began + _CLOSING
        if not closing.cleaner:
            closing.clean = self._nothing_left(box, [self.programs[pid] for pid in box.programs], alone=True)
            if not closing.clean and not late:
                return False
            if closing.remains:
                _send(closing.status, {"clean": closing.clean})
                return True
            for program in [self.programs[pid] for pid in list(box.programs)]:
                self._report(program, box)
            closing.cleaner = _remove_in_child(box.storage)
        if closing.cleaner > 0 and not late:
            return False  # until it is collected
        if box.group and not box.group.remove() and not late:
            return False
        self.strikes.forget(box.uid)
        # An id under which something may still run is not given to another box.
        if box.lease and closing.clean:
            box.lease.release()
        _send(closing.status, {"clean": closing.clean})
        return True

    def kill(self, program: BoxProgram) -> None:
        """Kill a program if it is running."""
        if program.code is None:
            with suppress(ProcessLookupError):
                os.kill(program.pid, signal.SIGKILL)

    def reap(self) -> None:
        """Collect all children that have ended: programs and their orphans."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for closing in self.closing:
                if closing.cleaner == pid:
                    closing.cleaner = -1
            program = self.programs.get(pid) or self._program_of(pid)
            if program is None:
                continue
            program.cpu += usage.ru_utime + usage.ru_stime
            # Under bubblewrap, the program runs below the first process; bubblewrap's own peak says nothing about it.
            if pid != program.pid or not program.peak:
                program.peak = usage.ru_maxrss * 1024
            if pid == program.pid:
                number = os.waitstatus_to_exitcode(status)
                program.code = number if number >= 0 else 128 - number
                program.ended = program.ended or time.monotonic()
                self._read_info(program)

    def _read_info(self, program: BoxProgram) -> None:
        """Read the id of bubblewrap's first process."""
        if program.info >= 0:
            with suppress(ValueError, KeyError, BlockingIOError):
                program.first = int(json.loads(os.read(program.info, 4096) or b"{}")["child-pid"])
            os.close(program.info)
            program.info = -1

    def _program_of(self, pid: int) -> BoxProgram | None:
        for program in self.programs.values():
            if program.info >= 0 and select.select([program.info], [], [], 0)[0]:
                self._read_info(program)
            if program.first == pid:
                return program
        return None

    def finish(self, program: BoxProgram) -> None:
        """Reply for a program that has ended, once everything that it started is gone too.

        If some of it withstands, everything in the box is killed, its other programs too.
        """
        served = self.boxes.get(program.box)
        if served is None:  # its box is being closed
            return
        late = time.monotonic() - program.ended
        alone = served.programs == {program.pid} or late > _PATIENCE
        gone = self._nothing_left(served, [program], alone=alone)
        if gone or late > 2 * _PATIENCE:
            self._report(program, served, survived=not gone)

    def _nothing_left(self, box: ServedBox, programs: Iterable[BoxProgram], *, alone: bool) -> bool:
        """Kill what is left of programs, and return whether nothing was.

        Args:
            box: the box of the programs.
            programs: those that are to end.
            alone: whether nothing else in the box has to survive.
        """
        left = False
        for program in programs:
            if program.code is None:
                self.kill(program)
                left = True
            elif program.first and processes.is_orphaned_init(program.first):
                with suppress(ProcessLookupError):
                    os.kill(program.first, signal.SIGKILL)  # the kernel then ends all processes of its namespace
                left = True
        if left:
            return False
        # One signal to all of a user id reaches what is forked at this moment too. Without an id of its own, the box
        # shares it with others, and only orphans, which are children of this process, are known to be its remains.
        if alone and box.lease:
            return self.strikes.kill_all(box.uid)
        if any(not program.first for program in programs) or alone:
            spared = {*self.programs, *(served.first for served in self.programs.values()), *self._cleaners()}
            return processes.kill_orphans(box.uid, spared, self.reap)
        return True

    def _cleaners(self) -> set[int]:
        return {closing.cleaner for closing in self.closing}

    def _report(self, program: BoxProgram, box: ServedBox, *, survived: bool = False) -> None:
        """Forget a program and send its result."""
        del self.programs[program.pid], self.leases[program.status.fileno()]
        box.programs.discard(program.pid)
        if program.info >= 0:
            os.close(program.info)
        with suppress(KeyError):
            self.poll.unregister(program.status.fileno())
        oom = bool(box.group and box.group.kills() > program.kills)
        reply = {"code": program.code, "cpu": program.cpu, "peak": program.peak, "oom": oom, "survived": survived}
        _send(program.status, reply)


def _send(status: socket.socket | None, reply: Request) -> None:
    if status is None:
        return
    with suppress(OSError):
        status.send(json.dumps(reply).encode())
    status.close()


def _create_storage(
    kind: str, uid: int, limits: Request, readable: list[str], folders: dict[str, str], *, bind: bool
) -> tuple[mounts.BoxStorage, list[tuple[str, str]]]:
    """Return the storage, and the readable directories as pairs (current path, path that programs see)."""
    plain = [(path, path) for path in readable]
    scratch = [name for name in folders if name not in mounts.FOLDERS]
    if kind == "directory":
        return mounts.directory(uid, scratch), plain
    names = {f"readable{number}": path for number, path in enumerate(readable)} if bind and os.geteuid() == 0 else {}
    storage = mounts.tmpfs(uid, limits["disk"], limits["files"], names, scratch)
    return storage, [(f"{storage.path}/{name}", path) for name, path in names.items()] or plain


def _remove_in_child(storage: mounts.BoxStorage) -> int:
    """Release the storage of a box; return the process that removes its directory, -1 if there is none to remove."""
    storage.close()
    if storage.namespaces:
        return -1
    cleaner = os.fork()
    if cleaner == 0:
        with suppress(BaseException):
            signal.set_wakeup_fd(-1)
            os.closerange(3, 1 << 16)  # the sockets of others must not stay open for it
            storage.remove()
        os._exit(0)
    return cleaner


def main() -> None:
    """Run the fork server of the process whose id is the first argument; requests arrive on descriptor 0."""
    # Programs inherit descriptor 0, so it becomes /dev/null, and the requests get another one.
    requests = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC), 0)
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)  # orphans of programs become children of this process
    os.umask(0o022)
    cgroups.sweep()
    user_ids.sweep()
    server = ForkServer(requests, int(sys.argv[1]))
    try:
        server.run()
    finally:
        server.close()

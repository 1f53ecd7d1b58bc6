"""The fork server: a small process that starts and watches the programs of the boxes.

The process that uses the boxes (a training run, say) is the *supervisor*. The server stands between it and the programs
for four reasons. It is small and has one thread, so forking it is fast and safe, unlike forking a process with torch
loaded. The parent-death signal of a program follows the thread that started it, and the server's only thread lives as
long as the server. Orphaned programs become its children, so it can kill them. And it outlives the supervisor for a
moment, however that died, and cleans up.

Requests arrive on a socket as JSON in a memory file, with descriptors, one of which is a socket for the reply. The
socket of a running program is also its lease: sending anything on it, or closing it, kills the program.
"""

from __future__ import annotations

import fcntl
import json
import os
import resource
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from turnwise.tools.sandbox import bwrap, cgroups, kernel, landlock, mounts, seccomp, user_ids

READABLE: Final = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32"),
    *("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime"),
)
DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_MAX_FDS: Final = 8  # descriptors of one request


@dataclass
class ServedBox:
    """The server's record of a box; `readable` pairs the current path of a directory with the one programs see."""

    uid: int
    lease: user_ids.UserIdLease | None
    storage: mounts.BoxStorage
    group: cgroups.ControlGroup | None
    readable: list[tuple[str, str]]
    programs: set[int] = field(default_factory=set)


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
    deadline: float = 0.0


class ForkServer:
    """Serves requests until the supervisor is gone."""

    def __init__(self, requests: socket.socket, supervisor: int) -> None:
        self.requests = requests
        self.boxes: dict[str, ServedBox] = {}
        self.programs: dict[int, BoxProgram] = {}  # by process id
        self.leases: dict[int, BoxProgram] = {}  # by descriptor of the status socket
        self.opened = 0
        self.poll = select.poll()
        self.wake, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self.supervisor = os.pidfd_open(supervisor)
        for fd in (self.wake, self.supervisor, requests.fileno()):
            self.poll.register(fd, select.POLLIN)

    def run(self) -> None:
        """Serve requests until the supervisor is gone."""
        while True:
            waiting = any(program.code is not None for program in self.programs.values())
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
            self.reap()
            for program in [program for program in self.programs.values() if program.code is not None]:
                self.finish(program)

    def close(self) -> None:
        """Close all boxes."""
        for name in list(self.boxes):
            with suppress(Exception):
                self.close_box(name)

    def serve(self) -> bool:
        """Handle one request; return False if the supervisor has closed the connection."""
        message, fds, _, _ = socket.recv_fds(self.requests, 16, _MAX_FDS)
        if not message:
            return False
        for fd in fds:
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
        self, *, status: socket.socket, fds: list[int], kind: str, limits: dict[str, Any], readable: list[str]
    ) -> None:
        """Create a box; reply with its name and the descriptor of its directory."""
        lease = user_ids.lease() if os.geteuid() == 0 else None
        uid = lease.uid if lease else os.geteuid()
        try:
            storage, pairs = _create_storage(kind, uid, limits, readable)
        except OSError:
            if lease:
                lease.release()
            raise
        self.opened += 1
        name = f"{self.opened}"
        group = cgroups.create(name, limits["memory"] + limits["disk"]) if lease else None
        self.boxes[name] = ServedBox(uid, lease, storage, group, pairs)
        reply = {
            "box": name,
            "uid": uid,
            "path": storage.path,
            "own_filesystem": bool(storage.namespaces),
            "memory_counted": bool(group),
        }
        socket.send_fds(status, [json.dumps(reply).encode()], [storage.work])
        status.close()

    def do_spawn(self, *, status: socket.socket, fds: list[int], box: str, **request: Any) -> dict[str, Any] | None:
        """Start a program in a box; the reply is sent when it has ended."""
        served = self.boxes[box]
        info = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK) if request["backend"] == "bwrap" else (-1, -1)
        pid = os.fork()
        if pid == 0:
            _exec_program(served, request, fds, info[1], status.fileno())
        if info[1] >= 0:
            os.close(info[1])
        program = BoxProgram(pid, box, status, info[0], served.group.kills() if served.group else 0)
        served.programs.add(pid)
        self.programs[pid] = self.leases[status.fileno()] = program
        self.poll.register(status.fileno(), select.POLLIN)
        return None

    def do_close(self, *, status: socket.socket, fds: list[int], box: str) -> dict[str, Any]:
        """Close a box."""
        return {"clean": self.close_box(box)}

    def close_box(self, name: str) -> bool:
        """Kill what runs in a box and remove the box; return whether no process is left."""
        box = self.boxes.pop(name)
        for program in [self.programs[pid] for pid in box.programs]:
            self.kill(program)
        clean = user_ids.kill_all(box.uid, self.reap) if box.lease else self._wait(box)
        if not box.lease:
            self._kill_orphans(box.uid)
        for program in [self.programs[pid] for pid in list(box.programs)]:
            self.finish(program, box)
        box.storage.close()
        if box.group:
            deadline = time.monotonic() + 1
            while not box.group.remove() and time.monotonic() < deadline:
                time.sleep(0.001)
        if box.lease and clean:
            box.lease.release()
        return clean

    def _wait(self, box: ServedBox, seconds: float = 5.0) -> bool:
        deadline = time.monotonic() + seconds
        while any(self.programs[pid].code is None or _alive(self.programs[pid].first) for pid in box.programs):
            self.reap()
            if time.monotonic() > deadline:
                return False
            time.sleep(0.001)
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
            program = self.programs.get(pid) or self._program_of(pid)
            if program is None:
                continue
            program.cpu += usage.ru_utime + usage.ru_stime
            if pid != program.pid or not program.peak:
                program.peak = usage.ru_maxrss * 1024
            if pid == program.pid:
                number = os.waitstatus_to_exitcode(status)
                program.code = number if number >= 0 else 128 - number
                program.deadline = time.monotonic() + 2
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

    def finish(self, program: BoxProgram, box: ServedBox | None = None) -> None:
        """Reply for a program that has ended, once everything that it started is gone too."""
        served = box or self.boxes[program.box]
        if _alive(program.first) and time.monotonic() < program.deadline and box is None:
            return
        if box is None and not program.first:
            self._kill_leftovers(served, program)
        del self.programs[program.pid], self.leases[program.status.fileno()]
        served.programs.discard(program.pid)
        with suppress(KeyError):
            self.poll.unregister(program.status.fileno())
        oom = bool(served.group and served.group.kills() > program.kills)
        _send(program.status, {"code": program.code, "cpu": program.cpu, "peak": program.peak, "oom": oom})

    def _kill_leftovers(self, box: ServedBox, program: BoxProgram) -> None:
        """Kill what a program without a process namespace left behind."""
        if box.lease and box.programs == {program.pid}:
            user_ids.kill_all(box.uid, self.reap)
        else:
            self._kill_orphans(box.uid)

    def _kill_orphans(self, uid: int, seconds: float = 2.0) -> None:
        """Kill children of the server with that user id that are not programs: processes that lost their parent."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
                children = [pid for pid in map(int, file.read().split()) if pid not in self.programs]
            orphans = [pid for pid in children if user_ids.owner(pid) == uid]
            if not orphans:
                return
            for pid in orphans:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.reap()


def _send(status: socket.socket, reply: dict[str, Any]) -> None:
    with suppress(OSError):
        status.send(json.dumps(reply).encode())
    status.close()


def _alive(pid: int) -> bool:
    if not pid:
        return False
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


def _create_storage(
    kind: str, uid: int, limits: dict[str, Any], readable: list[str]
) -> tuple[mounts.BoxStorage, list[tuple[str, str]]]:
    """Return the storage, and the readable directories as pairs (current path, path that programs see)."""
    plain = [(path, path) for path in readable]
    if kind == "directory":
        return mounts.directory(uid), plain
    names = {f"readable{number}": path for number, path in enumerate(readable)} if os.geteuid() == 0 else {}
    storage = mounts.tmpfs(uid, limits["disk"], limits["files"], names)
    return storage, [(f"{storage.path}/{name}", path) for name, path in names.items()] or plain


def _exec_program(box: ServedBox, request: dict[str, Any], fds: list[int], info: int, status: int) -> None:
    """Turn this forked child into the program. Never returns."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        if box.group:
            os.write(box.group.join(), b"0")
        confine = _confine_bwrap if request["backend"] == "bwrap" else _confine_landlock
        argv = confine(box, request, fds, info)
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            os.execvpe(argv[0], argv, request["env"])
        os.write(2, f"{argv[0]}: cannot be run\n".encode())
    except BaseException as error:
        os.write(status, json.dumps({"error": f"{error}"}).encode())
    finally:
        os._exit(127)


def _set_descriptors(wanted: list[int]) -> None:
    """Make the wanted descriptors 0, 1, 2, ...; all others are closed by exec."""
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 64) for fd in wanted]  # so that they do not overwrite each other
    for number, fd in enumerate(high):
        os.dup2(fd, number, inheritable=True)


def _confine_bwrap(box: ServedBox, request: dict[str, Any], fds: list[int], info: int) -> list[str]:
    """Return the command line of bubblewrap."""
    parent = os.getppid()
    filter_fd = os.memfd_create("filter")
    os.write(filter_fd, seccomp.program(seccomp.BASE))
    os.lseek(filter_fd, 0, os.SEEK_SET)
    box.storage.enter()
    network = request["network"]
    argv = bwrap.arguments(request["bwrap"], box.storage.path, box.readable, network=network, filter_fd=3, info_fd=4)
    _set_descriptors([*fds[:3], filter_fd, info])
    _set_rlimits(request["limits"])
    _drop_privileges(box, parent)
    return [*argv, *request["argv"]]


def _confine_landlock(box: ServedBox, request: dict[str, Any], fds: list[int], info: int) -> list[str]:
    """Restrict this process by landlock and seccomp; return the program's own command line."""
    parent = os.getppid()
    path, limits = box.storage.path, request["limits"]
    filter_ = seccomp.program(seccomp.without_namespaces(network=request["network"], own_uid=box.lease is None))
    _set_descriptors(fds[:3])
    if not box.lease:  # the limit counts the user's other processes too
        limits["RLIMIT_NPROC"] = [number + user_ids.tasks(box.uid) for number in limits["RLIMIT_NPROC"]]
    _set_rlimits(limits)
    _drop_privileges(box, parent)
    os.chdir(f"{path}/work")
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    read = [*READABLE, *(seen for _, seen in box.readable)]
    write = [f"{path}/{name}" for name in mounts.FOLDERS]
    landlock.restrict(read, write, list(DEVICES), network=request["network"])
    seccomp.install(filter_)
    return list(request["argv"])


def _drop_privileges(box: ServedBox, parent: int) -> None:
    """Switch to the box's user, then ask to die with the server (changing the user would undo that)."""
    if box.lease:
        user_ids.become(box.uid)
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(127)


def _set_rlimits(limits: dict[str, list[int]]) -> None:
    for name, (soft, hard) in limits.items():
        number = getattr(resource, name)
        maximum = resource.getrlimit(number)[1]
        if maximum != resource.RLIM_INFINITY:
            soft, hard = min(soft, maximum), min(hard, maximum)
        resource.setrlimit(number, (soft, hard))


def main() -> None:
    """Run the fork server of the process whose id is the first argument; requests arrive on descriptor 0."""
    requests = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC), 0)
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    os.umask(0o022)
    cgroups.sweep()
    user_ids.sweep()
    server = ForkServer(requests, int(sys.argv[1]))
    try:
        server.run()
    finally:
        server.close()

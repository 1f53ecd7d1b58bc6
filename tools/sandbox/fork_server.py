"""The warden: a small process between the supervisor (a training run, say) and the programs in the boxes.

It exists for four reasons. It is small and has one thread, so that forking it is quick and safe, which forking a
process with torch in it is not. A program's "die with your parent" means its thread, and the warden's only thread lives
as long as it does. Programs that lose their parent become its children, so that it can end them. And it outlives the
supervisor by a moment, whatever killed that, and clears up.

Requests come over a socket as JSON in a memory file with descriptors beside it, each with a socket of its own for the
answer. The socket of a running program is its lease: anything sent on it, or its end, kills the program.
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

READ_ALONE: Final = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib64",
    "/lib32",
    "/etc/ld.so.cache",
    "/etc/alternatives",
    "/etc/localtime",
)
DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_FDS: Final = 8  # most descriptors of one request


@dataclass
class Room:
    """A box, as the warden knows it."""

    uid: int
    slot: user_ids.Slot | None
    place: mounts.Place
    group: cgroups.Group | None
    shown: list[tuple[str, str]]
    jobs: set[int] = field(default_factory=set)


@dataclass
class Job:
    """A running program."""

    pid: int
    room: str
    status: socket.socket
    info: int  # where bubblewrap tells its first process; -1 without
    kills: int  # out-of-memory kills of the room before it began
    first: int = 0  # bubblewrap's first process: when it is gone, all of its processes are
    code: int | None = None
    cpu: float = 0.0
    peak: int = 0
    until: float = 0.0


class Warden:
    """The loop: requests, ends of programs, the end of the supervisor."""

    def __init__(self, requests: socket.socket, supervisor: int) -> None:
        """Watch a supervisor and listen to it."""
        self.requests = requests
        self.rooms: dict[str, Room] = {}
        self.jobs: dict[int, Job] = {}
        self.leases: dict[int, Job] = {}
        self.names = 0
        self.poll = select.poll()
        self.wake, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self.supervisor = os.pidfd_open(supervisor)
        for fd in (self.wake, self.supervisor, requests.fileno()):
            self.poll.register(fd, select.POLLIN)

    def run(self) -> None:
        """Serve until the supervisor is gone, then clear up."""
        while True:
            waiting = any(job.code is not None for job in self.jobs.values())
            for fd, _ in self.poll.poll(1 if waiting else None):
                if fd == self.supervisor:
                    return
                if fd == self.requests.fileno():
                    if not self.serve():
                        return
                elif fd == self.wake:
                    os.read(self.wake, 4096)
                elif job := self.leases.get(fd):
                    self.poll.unregister(fd)
                    job.status.recv(64)  # unread, it would take the answer with it
                    self.kill(job)
            self.reap()
            for job in [job for job in self.jobs.values() if job.code is not None]:
                self.settle(job)

    def close(self) -> None:
        """End every box."""
        for name in list(self.rooms):
            with suppress(Exception):
                self.shut(name)

    def serve(self) -> bool:
        """Answer one request; False when the supervisor has hung up."""
        message, fds, _, _ = socket.recv_fds(self.requests, 16, _FDS)
        if not message:
            return False
        for fd in fds:
            os.set_inheritable(fd, False)
        with open(fds[0], "rb") as file:
            file.seek(0)
            request = json.load(file)
        status = socket.socket(fileno=fds[1])
        try:
            answer = getattr(self, f"do_{request.pop('do')}")(status=status, fds=fds[2:], **request)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}" if not isinstance(error, OSError) else str(error)}
        finally:
            for fd in fds[2:]:
                os.close(fd)
        if answer is not None:
            _say(status, answer)
        return True

    def do_open(
        self, *, status: socket.socket, fds: list[int], kind: str, limits: dict[str, Any], shown: list[str]
    ) -> None:
        """Make a room, and send its name and the descriptor of its folder."""
        slot = user_ids.lease() if os.geteuid() == 0 else None
        uid = slot.uid if slot else os.geteuid()
        try:
            place, pairs = _place(kind, uid, limits, shown)
        except OSError:
            if slot:
                slot.release()
            raise
        self.names += 1
        name = f"{self.names}"
        group = cgroups.create(name, limits["memory"] + limits["disk"]) if slot else None
        self.rooms[name] = Room(uid, slot, place, group, pairs)
        answer = {
            "room": name,
            "uid": uid,
            "path": place.path,
            "walled": bool(place.namespaces),
            "counted": bool(group),
        }
        socket.send_fds(status, [json.dumps(answer).encode()], [place.work])
        status.close()

    def do_spawn(self, *, status: socket.socket, fds: list[int], room: str, **order: Any) -> dict[str, Any] | None:
        """Start a program in a room; its answer comes when it has ended."""
        where = self.rooms[room]
        info = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK) if order["kind"] == "bwrap" else (-1, -1)
        pid = os.fork()
        if pid == 0:
            _begin(where, order, fds, info[1], status.fileno())
        if info[1] >= 0:
            os.close(info[1])
        job = Job(pid, room, status, info[0], where.group.kills() if where.group else 0)
        where.jobs.add(pid)
        self.jobs[pid] = self.leases[status.fileno()] = job
        self.poll.register(status.fileno(), select.POLLIN)
        return None

    def do_close(self, *, status: socket.socket, fds: list[int], room: str) -> dict[str, Any]:
        """End a room and everything in it."""
        return {"clean": self.shut(room)}

    def shut(self, name: str) -> bool:
        """End what runs in a room, and remove it; True when nothing of it is left."""
        room = self.rooms.pop(name)
        for job in [self.jobs[pid] for pid in room.jobs]:
            self.kill(job)
        clean = user_ids.kill_all(room.uid, self.reap) if room.slot else self._wait(room)
        if not room.slot:
            self._end_strays(room.uid)
        for job in [self.jobs[pid] for pid in list(room.jobs)]:
            self.settle(job, room)
        room.place.close()
        if room.group:
            until = time.monotonic() + 1
            while not room.group.remove() and time.monotonic() < until:
                time.sleep(0.001)
        if room.slot and clean:
            room.slot.release()
        return clean

    def _wait(self, room: Room, seconds: float = 5.0) -> bool:
        until = time.monotonic() + seconds
        while any(self.jobs[pid].code is None or _alive(self.jobs[pid].first) for pid in room.jobs):
            self.reap()
            if time.monotonic() > until:
                return False
            time.sleep(0.001)
        return True

    def kill(self, job: Job) -> None:
        """End a program that may be running."""
        if job.code is None:
            with suppress(ProcessLookupError):
                os.kill(job.pid, signal.SIGKILL)

    def reap(self) -> None:
        """Collect every child that has ended: programs, and what they left behind."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            job = self.jobs.get(pid) or self._owner(pid)
            if job is None:
                continue
            job.cpu += usage.ru_utime + usage.ru_stime
            if pid != job.pid or not job.peak:
                job.peak = usage.ru_maxrss * 1024
            if pid == job.pid:
                number = os.waitstatus_to_exitcode(status)
                job.code = number if number >= 0 else 128 - number
                job.until = time.monotonic() + 2
                self._learn(job)

    def _learn(self, job: Job) -> None:
        """Read which process bubblewrap began with."""
        if job.info >= 0:
            with suppress(ValueError, KeyError, BlockingIOError):
                job.first = int(json.loads(os.read(job.info, 4096) or b"{}")["child-pid"])
            os.close(job.info)
            job.info = -1

    def _owner(self, pid: int) -> Job | None:
        for job in self.jobs.values():
            self._learn(job) if job.info >= 0 and select.select([job.info], [], [], 0)[0] else None
            if job.first == pid:
                return job
        return None

    def settle(self, job: Job, room: Room | None = None) -> None:
        """Answer for a program that has ended, once everything that it started is gone too."""
        where = room or self.rooms[job.room]
        if _alive(job.first) and time.monotonic() < job.until and room is None:
            return
        if room is None and not job.first:
            self._clear(where, job)
        del self.jobs[job.pid], self.leases[job.status.fileno()]
        where.jobs.discard(job.pid)
        with suppress(KeyError):
            self.poll.unregister(job.status.fileno())
        oom = bool(where.group and where.group.kills() > job.kills)
        _say(job.status, {"code": job.code, "cpu": job.cpu, "peak": job.peak, "oom": oom})

    def _clear(self, room: Room, job: Job) -> None:
        """Without process numbers of its own a program may leave others behind: end them."""
        if room.slot and room.jobs == {job.pid}:
            user_ids.kill_all(room.uid, self.reap)
        else:
            self._end_strays(room.uid)

    def _end_strays(self, uid: int, seconds: float = 2.0) -> None:
        """End children of ours that are no programs of ours: what lost its parent in a box of that user id."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
                strays = [
                    pid for pid in map(int, file.read().split()) if pid not in self.jobs and user_ids.owner(pid) == uid
                ]
            if not strays:
                return
            for pid in strays:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.reap()


def _say(status: socket.socket, answer: dict[str, Any]) -> None:
    with suppress(OSError):
        status.send(json.dumps(answer).encode())
    status.close()


def _alive(pid: int) -> bool:
    if not pid:
        return False
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


def _place(kind: str, uid: int, limits: dict[str, Any], shown: list[str]) -> tuple[mounts.Place, list[tuple[str, str]]]:
    """Return a place, and the shown folders as pairs of where they are and where a program sees them."""
    if kind == "walled":
        names = {f"shown{number}": path for number, path in enumerate(shown)} if os.geteuid() == 0 else {}
        place = mounts.walled(uid, limits["disk"], limits["files"], names)
        return place, [(f"{place.path}/{name}", path) for name, path in names.items()] or [
            (path, path) for path in shown
        ]
    return mounts.folder(uid), [(path, path) for path in shown]


def _begin(room: Room, order: dict[str, Any], fds: list[int], info: int, status: int) -> None:
    """Become the program: the child's half of a start. Never returns."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        if room.group:
            os.write(room.group.join(), b"0")
        argv = _dressed(room, order, fds, info) if order["kind"] == "bwrap" else _stripped(room, order, fds)
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            os.execvpe(argv[0], argv, order["env"])
        os.write(2, f"{argv[0]}: cannot be run\n".encode())
    except BaseException as error:
        os.write(status, json.dumps({"error": f"{error}"}).encode())
    finally:
        os._exit(127)


def _descriptors(wanted: list[int]) -> None:
    """Make the descriptors 0, 1, 2, ... those that are wanted; all others close themselves at the exec."""
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 64) for fd in wanted]  # out of the way of one another
    for number, fd in enumerate(high):
        os.dup2(fd, number, inheritable=True)


def _dressed(room: Room, order: dict[str, Any], fds: list[int], info: int) -> list[str]:
    parent = os.getppid()
    filter_fd = os.memfd_create("filter")
    os.write(filter_fd, seccomp.program(seccomp.BASE))
    os.lseek(filter_fd, 0, os.SEEK_SET)
    room.place.enter()
    words = bwrap.arguments(
        order["bwrap"], room.place.path, room.shown, network=order["network"], filter_fd=3, info_fd=4
    )
    _descriptors([*fds[:3], filter_fd, info])
    _limit(order["limits"])
    _bind_to_parent(room, parent)
    return [*words, *order["argv"]]


def _stripped(room: Room, order: dict[str, Any], fds: list[int]) -> list[str]:
    parent = os.getppid()
    path = room.place.path
    filter_ = seccomp.program(seccomp.alone(network=order["network"], own_uid=room.slot is None))
    _descriptors(fds[:3])
    if not room.slot:  # the limit counts what the user has running anyway
        order["limits"]["RLIMIT_NPROC"] = [n + user_ids.tasks(room.uid) for n in order["limits"]["RLIMIT_NPROC"]]
    _limit(order["limits"])
    _bind_to_parent(room, parent)
    os.chdir(f"{path}/work")
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    read = [*READ_ALONE, *(then for _, then in room.shown)]
    write = [f"{path}/{name}" for name in mounts.FOLDERS]
    landlock.restrict(read, write, list(DEVICES), network=order["network"])
    seccomp.install(filter_)
    return list(order["argv"])


def _bind_to_parent(room: Room, parent: int) -> None:
    """Become the box's user, and die with the warden (in this order: a change of user undoes the other)."""
    if room.slot:
        user_ids.become(room.uid)
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(127)


def _limit(limits: dict[str, list[int]]) -> None:
    for name, (soft, hard) in limits.items():
        number = getattr(resource, name)
        most = resource.getrlimit(number)[1]
        if most != resource.RLIM_INFINITY:
            soft, hard = min(soft, most), min(hard, most)
        resource.setrlimit(number, (soft, hard))


def main() -> None:
    """Run as the warden of the process whose number is the first argument; requests come on descriptor 0."""
    requests = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC), 0)
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    os.umask(0o022)
    cgroups.sweep()
    user_ids.sweep()
    warden = Warden(requests, int(sys.argv[1]))
    try:
        warden.run()
    finally:
        warden.close()

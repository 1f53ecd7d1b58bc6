"""Where the files of a box lie: a file system of its own with a size, or a plain folder that is watched.

The first is a tmpfs in a mount namespace that only the warden and the box see, held by a descriptor: it is on no path
of the host, has its size and its number of files from the kernel, and is gone when the warden is, however it dies. It
needs the right to make a mount namespace (root, or user namespaces). The second is a folder under the temporary one,
for machines where that is refused; its size is looked at while a program runs.

In both lie `work` (what the box's programs see as their folder), `tmp`, and `shm`.
"""

from __future__ import annotations

import os
import socket
import tempfile
from dataclasses import dataclass, field
from typing import Final

from turnwise.tools.sandbox import kernel
from turnwise.tools.sandbox.files import remove

STAGE: Final = "/sys"  # where the tmpfs is mounted in its namespace: a folder that always exists and that nobody needs
FOLDERS: Final = ("work", "tmp", "shm")
_ACCOUNTS: Final = {"passwd": "box:x:{uid}:{uid}:box:/work:/bin/sh\n", "group": "box:x:{uid}:\n"}


@dataclass
class Place:
    """Where a box's files lie.

    Args:
        path: the folder that holds `work`, `tmp` and `shm`, as processes of the box's namespaces see it.
        work: a descriptor of `work`.
        namespaces: descriptors and kinds to enter before `path` means anything, in this order.
    """

    path: str
    work: int
    namespaces: list[tuple[int, int]] = field(default_factory=list)

    def enter(self) -> None:
        """Go where `path` is; only in a child that runs a program of the box."""
        for fd, kind in self.namespaces:
            kernel.setns(fd, kind)

    def close(self) -> None:
        """Let everything go; a folder is removed with what lies in it."""
        for fd in (self.work, *(fd for fd, _ in self.namespaces)):
            os.close(fd)
        if not self.namespaces:
            remove(self.path)


def folder(uid: int) -> Place:
    """Return a place in a plain folder that belongs to `uid`."""
    path = tempfile.mkdtemp(prefix="turnwise-box-")
    _furnish(path, uid)
    os.chown(path, uid, uid)
    return Place(path, os.open(f"{path}/work", os.O_DIRECTORY | os.O_CLOEXEC))


def walled(uid: int, disk: int, files: int, shown: dict[str, str]) -> Place:
    """Return a place in a file system of its own.

    Args:
        uid: whom the folders belong to.
        disk: bytes of all files.
        files: number of files and folders.
        shown: folders of the host that `uid` could not reach, by the name under which they are shown in the stage.

    Raises:
        OSError: mount namespaces or tmpfs are refused here.
    """
    here, there = socket.socketpair()
    child = os.fork()
    if child == 0:
        here.close()
        code = 1
        try:
            fds = _build(uid, disk, files, shown)
            socket.send_fds(there, [b"ok"], fds)
            code = 0
        except OSError as error:
            there.sendall(str(error).encode())
        finally:
            os._exit(code)
    there.close()
    message, fds, _, _ = socket.recv_fds(here, 1000, 3)
    here.close()
    os.waitpid(child, 0)
    if not fds:
        raise OSError(0, message.decode() or "the mount namespace could not be made")
    kinds = [kernel.CLONE_NEWNS] if len(fds) == 2 else [kernel.CLONE_NEWUSER, kernel.CLONE_NEWNS]
    for fd in fds:
        os.set_inheritable(fd, False)
    return Place(STAGE, fds[0], list(zip(fds[1:], kinds, strict=True)))


def _build(uid: int, disk: int, files: int, shown: dict[str, str]) -> list[int]:
    """Make the namespace and its file system in this process, and return the descriptors that keep them alive."""
    root = os.geteuid() == 0
    gid = os.getegid()
    kernel.unshare(kernel.CLONE_NEWNS | (0 if root else kernel.CLONE_NEWUSER))
    if not root:
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{uid} {uid} 1")
        _write("/proc/self/gid_map", f"{gid} {gid} 1")
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    options = f"size={disk},nr_inodes={files + len(FOLDERS) + len(_ACCOUNTS) + len(shown) + 4},mode=755"
    kernel.mount("tmpfs", STAGE, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, options)
    _furnish(STAGE, uid)
    for name, source in shown.items():
        os.mkdir(f"{STAGE}/{name}")
        kernel.mount(source, f"{STAGE}/{name}", None, kernel.MS_BIND | kernel.MS_REC)
    names = ["/proc/self/ns/mnt"] if root else ["/proc/self/ns/user", "/proc/self/ns/mnt"]
    work = os.open(f"{STAGE}/work", os.O_DIRECTORY | os.O_CLOEXEC)
    return [work, *(os.open(name, os.O_RDONLY | os.O_CLOEXEC) for name in names)]


def _furnish(path: str, uid: int) -> None:
    for name in FOLDERS:
        os.mkdir(f"{path}/{name}", 0o700)
        os.chown(f"{path}/{name}", uid, uid if os.geteuid() == 0 else -1)
    for name, text in _ACCOUNTS.items():
        _write(f"{path}/{name}", text.format(uid=uid))


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)

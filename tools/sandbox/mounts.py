"""Storage of a box: its own file system with a fixed size, or a plain directory that is monitored.

The first is a tmpfs in a mount namespace that only the fork server and the box can enter. It has no path on the host,
the kernel enforces its size, and it vanishes when the fork server dies. It needs the right to create a mount namespace
(root, or user namespaces). The second is a temporary directory for machines that refuse this; its size is checked while
a program runs.

Both contain `work` (the box's directory as its programs see it), `tmp`, `shm` and the scratch folders of a `Layout`,
and an empty folder and file to put in place of what is hidden.
"""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from turncredit.tools.sandbox import kernel
from turncredit.tools.sandbox.bwrap import EMPTY_FILE, EMPTY_FOLDER
from turncredit.tools.sandbox.untrusted_trees import remove

MOUNT_POINT: Final = "/sys"  # of the tmpfs in its namespace: a directory that exists everywhere and is not needed there
FOLDERS: Final = ("work", "tmp", "shm")
_FILES: Final = {
    "passwd": "box:x:{uid}:{uid}:box:/work:/bin/sh\n",
    "group": "box:x:{uid}:\n",
    EMPTY_FILE: "",
}
OWN_ENTRIES: Final = len(FOLDERS) + len(_FILES) + 1  # files and directories of ours beside those of the box


@dataclass
class BoxStorage:
    """Where the files of a box are.

    Args:
        path: the directory that holds `work`, `tmp` and `shm`, as seen from inside the namespaces.
        work: descriptor of `work`.
        namespaces: (descriptor, type) of the namespaces to enter, in this order.
    """

    path: str
    work: int
    namespaces: list[tuple[int, int]] = field(default_factory=list)

    def enter(self) -> None:
        """Enter the namespaces; only for a child process that will run a program of the box."""
        for fd, kind in self.namespaces:
            kernel.setns(fd, kind)

    def close(self) -> None:
        """Release all descriptors; its own file system vanishes with them."""
        for fd in (self.work, *(fd for fd, _ in self.namespaces)):
            os.close(fd)

    def remove(self) -> None:
        """Remove a plain directory; that may take long."""
        if not self.namespaces:
            remove(self.path)


def directory(uid: int, scratch: Sequence[str] = ()) -> BoxStorage:
    """Create storage in a temporary directory that belongs to `uid`; `scratch` names further folders in it."""
    path = tempfile.mkdtemp(prefix="turncredit-box-")
    _populate(path, uid, scratch)
    os.chown(path, uid, uid)
    return BoxStorage(path, os.open(f"{path}/work", os.O_DIRECTORY | os.O_CLOEXEC))


def tmpfs(uid: int, disk: int, files: int, readable: Mapping[str, str], scratch: Sequence[str] = ()) -> BoxStorage:
    """Create storage in its own file system.

    Args:
        uid: owner of the directories.
        disk: bytes of all files.
        files: number of files and directories.
        readable: directories of the host to bind below the mount point, name -> path, since `uid` may not be able to
            reach them otherwise.
        scratch: names of further folders.

    Raises:
        OSError: mount namespaces or tmpfs are not permitted.
    """
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        ours.close()
        code = 1
        try:
            fds = _mount(uid, disk, files, readable, scratch)
            socket.send_fds(theirs, [b"ok"], fds)
            code = 0
        except OSError as error:
            theirs.sendall(str(error).encode())
        finally:
            os._exit(code)
    theirs.close()
    message, fds, _, _ = socket.recv_fds(ours, 1000, 3)
    ours.close()
    os.waitpid(child, 0)
    if not fds:
        raise OSError(0, message.decode() or "the mount namespace could not be created")
    kinds = [kernel.CLONE_NEWNS] if len(fds) == 2 else [kernel.CLONE_NEWUSER, kernel.CLONE_NEWNS]
    for fd in fds:
        os.set_inheritable(fd, False)
    return BoxStorage(MOUNT_POINT, fds[0], list(zip(fds[1:], kinds, strict=True)))


def _mount(uid: int, disk: int, files: int, readable: Mapping[str, str], scratch: Sequence[str]) -> list[int]:
    """Create the namespace and its file system in this process; return the descriptors that keep them alive."""
    root = os.geteuid() == 0
    gid = os.getegid()
    kernel.unshare(kernel.CLONE_NEWNS | (0 if root else kernel.CLONE_NEWUSER))
    if not root:
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{uid} {uid} 1")
        _write("/proc/self/gid_map", f"{gid} {gid} 1")
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    inodes = files + OWN_ENTRIES + len(readable) + len(scratch) + 4
    options = f"size={disk},nr_inodes={inodes},mode=755"
    kernel.mount("tmpfs", MOUNT_POINT, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, options)
    _populate(MOUNT_POINT, uid, scratch)
    for name, source in readable.items():
        os.mkdir(f"{MOUNT_POINT}/{name}")
        kernel.mount(source, f"{MOUNT_POINT}/{name}", None, kernel.MS_BIND | kernel.MS_REC)
    names = ["/proc/self/ns/mnt"] if root else ["/proc/self/ns/user", "/proc/self/ns/mnt"]
    work = os.open(f"{MOUNT_POINT}/work", os.O_DIRECTORY | os.O_CLOEXEC)
    return [work, *(os.open(name, os.O_RDONLY | os.O_CLOEXEC) for name in names)]


def _populate(path: str, uid: int, scratch: Sequence[str]) -> None:
    for name in (*FOLDERS, *scratch):
        os.mkdir(f"{path}/{name}", 0o700)
        os.chown(f"{path}/{name}", uid, uid if os.geteuid() == 0 else -1)
    os.mkdir(f"{path}/{EMPTY_FOLDER}", 0o555)
    for name, text in _FILES.items():
        _write(f"{path}/{name}", text.format(uid=uid))


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)

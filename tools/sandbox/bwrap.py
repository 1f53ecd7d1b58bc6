"""Command line of bubblewrap for a box.

Programs see /usr, their Python interpreter and a few files of /etc, all read-only, their own process ids, their own
/proc and an empty network. They can write to /work (or the folders of a `Layout`), /tmp and /dev/shm, which are part of
the box's storage, and nowhere else: bubblewrap's root and /dev would otherwise be host memory without a limit. They get
no terminals, of which the machine has a few thousand for all.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

WORK: Final = "/work"
EMPTY_FOLDER: Final = "empty"  # of the storage
EMPTY_FILE: Final = "nothing"
_ETC: Final = ("/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime")
_NETWORK: Final = ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/ssl", "/etc/ca-certificates")


def arguments(
    bwrap: str,
    storage: str,
    readable: list[tuple[str, str]],
    *,
    network: bool,
    filter_fd: int,
    info_fd: int,
    hidden: Sequence[str] = (),
    folders: Mapping[str, str] = MappingProxyType({"work": WORK}),
) -> list[str]:
    """Return bubblewrap's arguments up to and including the "--" before the program.

    Args:
        bwrap: path of the executable.
        storage: path of the box's storage (with `work`, `tmp`, `shm`, `passwd`, `group`, `empty`, `nothing`).
        readable: further read-only directories, as pairs (current path, path that the program sees).
        network: whether to share the host's network.
        filter_fd: descriptor of the seccomp filter.
        info_fd: descriptor on which bubblewrap reports the id of its first process.
        hidden: files and directories that are replaced by empty ones.
        folders: names in the storage -> paths that programs see; "work" is where they start.
    """
    args = [bwrap, "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session"]
    args += ["--hostname", "box"]
    args += ["--share-net"] if network else []
    args += ["--ro-bind", "/usr", "/usr"]
    for path in ("/bin", "/sbin", "/lib", "/lib64", "/lib32"):
        if os.path.islink(path):
            args += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            args += ["--ro-bind", path, path]
    for path in (*_ETC, *(_NETWORK if network else ())):
        args += ["--ro-bind-try", path, path] if os.path.exists(path) else []
    for name in ("passwd", "group"):
        args += ["--ro-bind", f"{storage}/{name}", f"/etc/{name}"]
    args += ["--proc", "/proc", "--dev", "/dev", "--ro-bind", f"{storage}/{EMPTY_FOLDER}", "/dev/pts"]
    for name, target in (("shm", "/dev/shm"), ("tmp", "/tmp"), *folders.items()):
        args += ["--bind", f"{storage}/{name}", target]
    for source, target in readable:  # after /tmp, since they may be below it
        args += ["--ro-bind", source, target]
    for path in hidden:
        args += ["--ro-bind", f"{storage}/{EMPTY_FOLDER if os.path.isdir(path) else EMPTY_FILE}", path]
    args += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", folders["work"]]
    return [*args, "--seccomp", str(filter_fd), "--info-fd", str(info_fd), "--"]

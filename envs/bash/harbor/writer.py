"""Writes tasks as Harbor task folders, with tests and an oracle that need nothing but a shell and Python.

Files are copied one by one into the image; where a tree has links, empty folders or unusual modes, which git and copies
lose, an archive is unpacked there instead.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files as resources
from pathlib import Path
from typing import Final

from turncredit.envs.bash.filetree import FileNode, FileTree, to_tar
from turncredit.envs.bash.task import BashTask

__all__ = ["IMAGE", "WORKDIR", "HarborFolder", "bash_folder", "folder_name", "write_folder"]

IMAGE: Final = "python:3.12-slim"
"""Default image: it has a shell, the usual programs and Python."""
WORKDIR: Final = "/work"
_AS_HERE: Final = """export LC_ALL=C LANG=C TZ=UTC TAR_OPTIONS='--owner=0 --group=0 --sort=name'
shell=$(command -v bash || echo sh)"""
_SETTINGS: Final = """\
schema_version = "1.1"

[task]
name = {name}
description = {description}
keywords = ["turncredit"]

[metadata]
category = {category}
turncredit_task = {id}

[agent]
timeout_sec = {agent:.1f}

[verifier]
timeout_sec = {verifier:.1f}

[environment]
build_timeout_sec = 600.0
cpus = 1
memory_mb = 1024
storage_mb = 256
"""


@dataclass(frozen=True)
class HarborFolder:
    """The content of a task folder.

    Args:
        id: id of the task here.
        env_id: id of its environment.
        category: kind of task.
        instruction: what the agent reads.
        tree: files of the working directory at the start.
        tests: files of the folder tests/ besides test.sh.
        test: the command that judges the working directory and writes the reward.
        solve: the oracle, a script for sh.
        agent_seconds: limit on the agent.
        verifier_seconds: limit on the tests.
    """

    id: str
    env_id: str
    category: str
    instruction: str
    tree: FileTree
    tests: Mapping[str, bytes]
    test: str
    solve: str
    agent_seconds: float = 600.0
    verifier_seconds: float = 120.0

    @property
    def name(self) -> str:
        """Name of the folder."""
        return folder_name(self.env_id, self.id)


def folder_name(env_id: str, id: str) -> str:
    """Return the folder of a task.

    >>> folder_name("turncredit/Bash-v0", "train/small/7")
    'bash-train-small-7'
    """
    kind = env_id.rpartition("/")[2].partition("-")[0].lower()
    return re.sub(r"[^A-Za-z0-9._-]+", "-", f"{kind}-{id}").strip("-.")


def write_folder(folder: HarborFolder, target: Path, image: str = IMAGE) -> Path:
    """Write a task folder below `target`; return its path.

    Raises:
        OSError: a file cannot be written, or the folder exists.
    """
    path = target / folder.name
    path.mkdir(parents=True)
    contents = {
        "task.toml": _settings(folder).encode(),
        "instruction.md": f"{folder.instruction.strip()}\n".encode(),
        "tests/test.sh": f"#!/bin/sh\nmkdir -p /logs/verifier\n{folder.test}\n".encode(),
        "solution/solve.sh": f"#!/bin/sh\nset -e\n{folder.solve.strip()}\n".encode(),
        **{f"tests/{name}": data for name, data in folder.tests.items()},
        **_environment(folder.tree, image),
    }
    for name, data in contents.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    for name in ("tests/test.sh", "solution/solve.sh"):
        (path / name).chmod(0o755)
    for name, node in folder.tree.items():
        if (copied := path / "environment" / "files" / name).is_file():
            copied.chmod(node.mode)
    return path


def bash_folder(task: BashTask, env_id: str) -> HarborFolder:
    """Return the folder of a file-system task; the answer goes into a file, since agents of Harbor submit nothing."""
    answer_file = next(
        name for name in ("answer.txt", "submitted_answer.txt", ".answer") if not {name} & {*task.before, *task.after}
    )
    about = {
        "answer": task.answer,
        "answer_file": answer_file,
        "archives": sorted(task.archives),
        "modes": task.modes,
    }
    package = resources("turncredit.envs.bash")
    rules = package.joinpath("file_rules.py").read_bytes()
    judge = package.joinpath("harbor", "file_judge.py").read_text(encoding="utf-8")
    tests = {
        "file_rules.py": rules,
        "file_judge.py": judge.replace("turncredit.envs.bash.file_rules", "file_rules").encode(),
        "task.json": json.dumps(about, indent=1).encode(),
        "before.tar": to_tar(task.before),
        "after.tar": to_tar(task.after),
    }
    where = f"The folder is {WORKDIR}."
    if task.answer:
        where += f" Write the answer, and nothing else, into {WORKDIR}/{answer_file}."
    return HarborFolder(
        id=task.id,
        env_id=env_id,
        category=task.family,
        instruction=f"{task.statement}\n\n{where}",
        tree=task.before,
        tests=tests,
        test=f"python3 /tests/file_judge.py {WORKDIR}",
        solve=_solution(task, answer_file),
    )


def _solution(task: BashTask, answer_file: str) -> str:
    """Return the commands of the expert, each in a new shell, as in an episode; the answer goes into its file."""
    lines = [_AS_HERE, f"cd {WORKDIR}", *(f'"$shell" -c {shlex.quote(command)}' for command in task.commands)]
    if task.answer:
        lines.append(f"printf '%s\\n' {shlex.quote(task.answer)} > {answer_file}")
    return "\n".join(lines)


def _settings(folder: HarborFolder) -> str:
    return _SETTINGS.format(
        name=_toml(f"turncredit/{folder.name}"),
        description=_toml(f"A task of {folder.env_id}."),
        category=_toml(folder.category),
        id=_toml(folder.id),
        agent=folder.agent_seconds,
        verifier=folder.verifier_seconds,
    )


def _toml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _environment(tree: Mapping[str, FileNode], image: str) -> dict[str, bytes]:
    """Return the files of the folder environment/."""
    begin = f"FROM {image}\nWORKDIR {WORKDIR}\n"
    if not tree:
        return {"environment/Dockerfile": begin.encode()}
    if _is_plain(tree):
        files = {f"environment/files/{path}": node.data for path, node in tree.items() if node.kind == "file"}
        return {"environment/Dockerfile": f"{begin}COPY files/ {WORKDIR}/\n".encode(), **files}
    dockerfile = f"{begin}ADD files.tar {WORKDIR}/\n".encode()
    return {"environment/Dockerfile": dockerfile, "environment/files.tar": to_tar(tree)}


def _is_plain(tree: Mapping[str, FileNode]) -> bool:
    """Return whether copies of the files, also those that git makes, are the tree."""
    usual = {"file": (0o644, 0o755), "folder": (0o755,)}
    folders = {path for path, node in tree.items() if node.kind == "folder"}
    filled = {path.rpartition("/")[0] for path in tree}
    return folders <= filled and all(node.mode in usual.get(node.kind, ()) for node in tree.values())

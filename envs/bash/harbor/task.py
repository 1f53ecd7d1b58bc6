"""A Harbor task as a task of the shell environment: its files at the start, its sandbox, its oracle as commands."""

from __future__ import annotations

import base64
import gzip
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from turncredit.envs.bash.actions import LONGEST
from turncredit.envs.bash.filetree import FileNode, FileTree, to_tar, with_folders
from turncredit.envs.bash.harbor.dockerfile import LIMITS as TREE_LIMITS
from turncredit.envs.bash.harbor.dockerfile import folder_tree, read_dockerfile
from turncredit.envs.bash.harbor.settings import HarborSettings, settings_error
from turncredit.tools.sandbox import Layout, Limits, SandboxError
from turncredit.tools.sandbox.images import build_image, image_facts, image_files

__all__ = ["SCRATCH", "HarborTask", "prepare_task"]

SCRATCH: Final = ("/logs", "/tests", "/solution")
"""Folders of a Harbor task beside its working directory; they are empty at the beginning of every command."""
_MOST_DISK: Final = 256 << 20
_MOST_MEMORY: Final = 16 << 30
_SHEBANG: Final = re.compile(r"\A#!.*\n")
_CHUNK: Final = 5400  # base64 characters of one command
_OWN_PATH: Final = re.compile(r"\$0|BASH_SOURCE|/solution")  # a script that asks for its own folder


@dataclass(frozen=True)
class HarborTask:
    """One task.

    Args:
        settings: what task.toml and instruction.md say.
        before: files of the working directory at the start.
        layout: the paths of its boxes.
        image: Docker image; None to run on this machine's own programs.
        env: variables of all commands.
        solution: files of the folder solution/; empty if the task has no oracle.
    """

    settings: HarborSettings
    before: FileTree
    layout: Layout
    image: str | None
    env: Mapping[str, str]
    solution: FileTree

    @property
    def id(self) -> str:
        """Id of the task."""
        return self.settings.name

    @property
    def family(self) -> str:
        """Kind of task."""
        return self.settings.category

    @property
    def statement(self) -> str:
        """The instruction that the agent reads."""
        return self.settings.instruction

    @property
    def submission(self) -> str:
        """The action that ends the episode."""
        return "submit"

    @property
    def commands(self) -> tuple[str, ...]:
        """Commands that run the oracle; () if the task has none.

        A script that stands alone is the command itself; other solutions are unpacked to /solution first.
        """
        script = self.solution.get("solve.sh")
        if script is None:
            return ()
        exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in self.settings.solution_env.items())
        text = exports + script.data.decode("utf-8", "surrogateescape")
        alone = [path for path, node in self.solution.items() if node.kind != "folder"] == ["solve.sh"]
        if alone and _is_command(text):
            return (_SHEBANG.sub("", text).strip(),)
        return _unpacking(self.solution, exports)

    def limits(self, base: Limits) -> Limits:
        """Return limits with the memory and storage that the task names, up to 16 GB and 256 MB."""
        memory = min(self.settings.memory or base.memory, _MOST_MEMORY)
        disk = min(self.settings.storage or base.disk, _MOST_DISK)
        return base.but(memory=max(memory, base.memory), disk=max(disk, base.disk), file_size=max(disk, base.disk))


def prepare_task(settings: HarborSettings, sandbox: str) -> HarborTask:
    """Return a task that is ready to be played; with Docker, its image is built if it is not there.

    Raises:
        GameFileError: it cannot be played in this sandbox.
    """
    try:
        return _in_docker(settings) if sandbox == "docker" else _on_this_machine(settings)
    except SandboxError as error:
        raise settings_error(settings.folder, f"the task cannot be prepared: {error}") from error


def _on_this_machine(settings: HarborSettings) -> HarborTask:
    path = settings.folder / "environment" / "Dockerfile"
    if not path.is_file():
        why = f"it has no Dockerfile to read (its image is {settings.image or 'not named'!r}); sandbox='docker' uses it"
        raise settings_error(settings.folder, f"the task cannot run on this machine's own programs: {why}")
    copied = read_dockerfile(path)
    workdir = _workdir(settings, copied.workdir)
    if elsewhere := copied.outside(workdir):
        why = f"it copies {elsewhere}, outside of its working directory {workdir}"
        raise settings_error(settings.folder, f"the task cannot run on this machine's own programs: {why}")
    return _task(settings, copied.below(workdir), workdir, None, copied.env)


def _in_docker(settings: HarborSettings) -> HarborTask:
    image = settings.image
    facts = image_facts(image) if image else None
    if facts is None and (settings.folder / "environment" / "Dockerfile").is_file():
        image = build_image(settings.folder / "environment", settings.build_seconds)
        facts = image_facts(image)
    if facts is None:
        why = f"its image {image!r} is not on this machine, and it has no Dockerfile; run `docker pull` first"
        raise settings_error(settings.folder, f"the task cannot be prepared: {why}")
    workdir = _workdir(settings, facts.workdir)
    entries = image_files(image, workdir, TREE_LIMITS)
    tree = {entry.path: FileNode(entry.kind, entry.mode, entry.data) for entry in entries if entry.path}
    return _task(settings, tree, workdir, image, {})


def _task(
    settings: HarborSettings, tree: FileTree, workdir: str, image: str | None, env: Mapping[str, str]
) -> HarborTask:
    layout = Layout(workdir, tuple(path for path in SCRATCH if path != workdir))
    solution = folder_tree(settings.folder / "solution")
    return HarborTask(settings, with_folders(tree), layout, image, {**env, **settings.env}, solution)


def _workdir(settings: HarborSettings, workdir: str) -> str:
    path = settings.workdir or workdir
    if path == "/":
        why = "its commands start in /, and a sandbox can only write to a folder; set workdir in task.toml"
        raise settings_error(settings.folder, f"the task cannot be played: {why}")
    return path


def _is_command(text: str) -> bool:
    """Return whether a script can be typed as one command: bash, short, and without a question where it lies."""
    first = text.partition("\n")[0]
    shell = not first.startswith("#!") or first.rstrip().endswith(("bash", "sh", "bash -e", "sh -e"))
    clean = all(character.isprintable() or character in "\n\t" for character in text)
    return shell and clean and len(text) <= LONGEST and _OWN_PATH.search(text) is None


def _unpacking(solution: FileTree, exports: str) -> tuple[str, ...]:
    """Return commands that write a packed solution in pieces, unpack it to /solution and run it."""
    packed = base64.b64encode(gzip.compress(to_tar(solution), mtime=0)).decode()
    pieces = [packed[start : start + _CHUNK] for start in range(0, len(packed), _CHUNK)]
    target = ".oracle.base64"
    write = tuple(f"printf %s {piece} >>{target}" for piece in pieces[:-1])
    unpack = "base64 -d | gzip -d | tar -x -f - -C /solution"
    last = f"{{ cat {target} 2>/dev/null; printf %s {pieces[-1]}; }} | {unpack}; rm -f {target}"
    return (*write, f"{last}\n{exports}chmod +x /solution/solve.sh; /solution/solve.sh")

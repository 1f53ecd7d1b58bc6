"""A shell that keeps its current folder and its files between commands, and nothing else.

The files are kept in this process as a tree. They are copied into the sandbox before each command and read back after
it, so a sandbox that dies loses nothing, files in /tmp disappear before each command (`Box.restore` empties it), and
starting an episode is free.
Modification times are fixed, so the same command on the same tree gives the same output.

Each command runs in a new bash (or sh, if there is no bash) with standard error redirected to standard output. The
sandbox's own standard error carries control lines, such as the folder in which the shell ended. A program can forge
these lines, but only to misreport its current folder.

Variables, functions and background processes do not survive a command, and there is no terminal input.
"""

from __future__ import annotations

import math
import re
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from turncredit.envs.bash.filetree import TIME, FileTree, digest, from_tar, to_tar
from turncredit.envs.caching import ByteLimitedCache
from turncredit.envs.truncation import escape_unprintable
from turncredit.tools.sandbox import Box, Limits, RunResult, SandboxError

__all__ = ["LIMITS", "ROOT", "Shell", "ShellResult"]

ROOT: Final = "/work"
LIMITS: Final = Limits(output=256 << 10, file_size=8 << 20, disk=16 << 20, files=2048, processes=64)
_OVERHEAD: Final = 1.0  # additional seconds for copying files in and cleaning up
_LONGEST_PATH: Final = 1000  # characters
_NOT_FOUND: Final = 127
_USERS: Final = 900_000
"""The number of the first user of a box."""
_PARENT: Final = re.compile(
    r"^(d[rwxst-]{9}[.+]? +\d+ +\S+ +\S+ +\d+ )([A-Z][a-z]{2} +\d+ +[\d:]+|\d{4}-\S+ [\d:.]+ \S+) \.\.$", re.MULTILINE
)
_PARENT_TIME: Final = ("Jan  1  2024", "2024-01-01 00:00:00.000000000 +0000")
"""`TIME` as `ls` writes it, by default and in full."""

# Arguments: 1: nonce, 2: folder, 3: command, 4: the inner script.
_OUTER: Final = f"""
exec 9>&2 2>&1
export LC_ALL=C LANG=C TZ=UTC HOME="$PWD" COLUMNS=100
export TAR_OPTIONS='--owner=0 --group=0 --sort=name'
unset _ SHLVL PYTHONDONTWRITEBYTECODE
find . -type d -exec touch -d @{TIME} {{}} + 2>/dev/null
printf '%s root %s\\n' "$1" "$PWD" >&9
[ -z "$2" ] || cd -- "$2" 2>/dev/null || {{ printf '%s lost\\n' "$1" >&9; cd; }}
shell=bash; extra="-O extglob"
command -v bash >/dev/null 2>&1 || {{ shell=sh; extra=; }}
"$shell" $extra -n -c "$3" || {{ printf '%s syntax\\n' "$1" >&9; exit 2; }}
exec "$shell" $extra -c "$4" "$shell" "$1" "$3"
"""
_INNER: Final = r"""trap "printf '\n%s at ' $1 >&9; pwd -P >&9 2>/dev/null" EXIT; said=$2; set --; eval "$said" """


@dataclass(frozen=True, slots=True)
class ShellResult:
    """Result of one command.

    Args:
        text: its output with unprintable characters escaped; then how it ended, in square brackets, unless with exit
            code 0.
        understood: False if the command has a syntax error, or names an unknown program and changed no file.
        tree: files after the command.
        folder: current folder after the command, relative to the sandbox folder ("" for that folder itself), or
            absolute if outside.
        seconds: wall-clock time of the command.
    """

    text: str
    understood: bool
    tree: FileTree
    folder: str
    seconds: float = 0.0


_MEMORY: Final[ByteLimitedCache[tuple[ShellResult, bool]]] = ByteLimitedCache()


class Shell:
    """Runs commands on file trees, in a sandbox that is created when first needed and replaced if it dies.

    Args:
        make: creates a sandbox.
        seconds: time limit of a command.
        like: cache key of everything else that results depend on; shells with the same key share a cache. None: results
            are not cached.
        root: the sandbox folder in commands and observations.
        env: further environment variables of the commands.
    """

    def __init__(
        self,
        make: Callable[[], Box],
        seconds: float,
        like: str | None = None,
        *,
        root: str = ROOT,
        env: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.root = root
        self._env = [f"{name}={value}" for name, value in env.items()]
        self._make = make
        self._seconds = seconds
        self._box: Box | None = None
        self._like = like

    def run(self, tree: FileTree, folder: str, command: str, seconds: float = math.inf) -> ShellResult:
        """Return the result of a command on a tree. Results of commands that hit a limit are not cached.

        Args:
            tree: the files.
            folder: current folder, as in `ShellResult`.
            command: the command.
            seconds: time limit of this command where it is below that of the shell.

        Raises:
            SandboxError: no sandbox works.
        """
        if self._like is None:
            return self._run_uncached(tree, folder, command, seconds)[0]
        key = digest(tree, folder, command, self._like)
        return _MEMORY.recall(key, lambda: self._run_uncached(tree, folder, command, seconds), _size)[0]

    def close(self) -> None:
        """Close the sandbox; the next command creates a new one."""
        box, self._box = self._box, None
        if box is not None:
            box.close()

    def __getstate__(self) -> dict[str, object]:
        """Return the state without the sandbox."""
        return {**self.__dict__, "_box": None}

    def _run_uncached(self, tree: FileTree, folder: str, command: str, seconds: float) -> tuple[ShellResult, bool]:
        for attempt in range(2):
            try:
                if self._box is None or self._box.closed:
                    self._box = self._make()
                return self._run_in(self._box, tree, folder, command, min(seconds, self._seconds))
            except SandboxError:  # the tree is kept here, so a new sandbox can retry
                with suppress(SandboxError):
                    self.close()
                if attempt:
                    raise
        raise AssertionError

    def _run_in(self, box: Box, tree: FileTree, folder: str, command: str, seconds: float) -> tuple[ShellResult, bool]:
        """Return the result, and whether it may be cached: no limit was hit."""
        box.restore(to_tar(tree))
        nonce, home = secrets.token_hex(8), box.folder
        words = [nonce, folder, _rename_folder(command, self.root, home), _INNER]
        shell = ["env", *self._env, "sh"] if self._env else ["sh"]
        result = box.run([*shell, "-c", _OUTER, "sh", *words], timeout=seconds + _OVERHEAD)
        control = _control_lines(result.stderr, nonce)
        note = ""
        try:
            after = _read_tree(box)
        except SandboxError as error:
            self.close()
            after, note = tree, f"[the files were put back as they were before: {error}]"
        gone = "at" in control and not control["at"]
        current = "" if gone else _current_folder(control.get("at", ""), control.get("root", home), folder)
        if gone or not (current.startswith("/") or _is_folder(after, current)):
            current, note = "", note or f"[the folder in which the shell was is gone: this is {self.root}]"
        elif "lost" in control:
            note = note or f"[the folder {folder} cannot be entered: this is {self.root}]"
        text = escape_unprintable(_hide_box(_rename_folder(result.stdout, home, self.root), box))
        parts = [text.rstrip("\n"), note, _ending(result, seconds)]
        understood = "syntax" not in control and (result.code != _NOT_FOUND or after != tree)
        answer = ShellResult(
            "\n".join(part for part in parts if part) or "(no output)", understood, after, current, result.seconds
        )
        return answer, result.stop == "exit" and not note


def _size(run: tuple[ShellResult, bool]) -> int | None:
    answer, sure = run
    return len(answer.text) + sum(len(node.data) for node in answer.tree.values()) if sure else None


def _read_tree(box: Box) -> FileTree:
    """Return the files in a sandbox.

    Raises:
        SandboxError: they cannot be read, or could not be restored later.
    """
    tree = from_tar(box.snapshot())
    if any(len(path) > _LONGEST_PATH for path in tree):
        raise SandboxError(f"a path is longer than {_LONGEST_PATH:,} characters")
    return tree


def _control_lines(channel: str, nonce: str) -> dict[str, str]:
    """Return the control lines of the shell: first word -> rest of the line."""
    lines = (line.removeprefix(nonce + " ") for line in channel.split("\n") if line.startswith(nonce + " "))
    return {word: value for word, _, value in (line.partition(" ") for line in lines)}


def _current_folder(path: str, root: str, before: str) -> str:
    """Return the current folder relative to the sandbox folder; the previous one if the shell did not report it.

    A program can report anything in its stead; what cannot be the argument of a command counts as not reported.
    """
    if not path.startswith("/") or len(path) > _LONGEST_PATH or "\0" in path:
        return before
    if path == root:
        return ""
    return path.removeprefix(root + "/")


def _is_folder(tree: FileTree, path: str) -> bool:
    return not path or (path in tree and tree[path].kind == "folder")


def _rename_folder(text: str, old: str, new: str) -> str:
    """Replace one name of the sandbox folder by another; only landlock, which cannot mount it, needs this."""
    return text if old == new else re.sub(re.escape(old) + r"(?![\w.-])", lambda _: new, text)


def _hide_box(text: str, box: Box) -> str:
    """Return output without what depends on the box: when it was made, and the number of its user.

    In a listing, the time of ".." is that of the box itself, which it cannot change; its user has another number in
    every box, and a name only under bwrap.
    """
    uid = getattr(box, "uid", None)
    if uid is not None and uid >= _USERS:
        text = re.sub(rf"(?<![\w.-]){uid}(?![\w.-])", str(_USERS), text)
    return _PARENT.sub(lambda match: f"{match[1]}{_PARENT_TIME[match[2][:1].isdigit()]} ..", text)


def _ending(result: RunResult, seconds: float) -> str:
    if result.stop == "exit":
        return f"[exit code {result.code}]" if result.code else ""
    ended = {
        "timeout": f"stopped after {seconds:g} seconds",
        "cpu": "stopped: too much processor time",
        "output": "stopped: it wrote too much",
        "killed": "killed",
    }
    return f"[{ended.get(result.stop, f'failed at the limit of {result.stop}')}]"

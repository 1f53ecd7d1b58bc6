"""A shell that keeps its folder and its files from command to command, and nothing else.

Files lie here, as a tree, and not in the box: before each command the box gets them as they are, and after it they are
read from outside. So a box that dies takes nothing with it, what a command leaves in /tmp or in memory is gone before
the next one, and an episode costs nothing to start. Times are set to one fixed time, so that the same command on the
same tree says the same.

Each command runs in a new bash (where there is none, in sh) with standard error joined to standard output; standard
error of the box is our own channel, on which the shell reports where it ended. A program inside can write there too,
and so lie about its folder: to no gain, since nothing else is read from it.

Left out on purpose: variables, functions and background processes that outlive a command, and input from a terminal.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from turnwise.envs.bash.filetree import TIME, Tree, digest, from_tar, to_tar
from turnwise.envs.caching import Memory
from turnwise.envs.cut import shown
from turnwise.tools.sandbox import Box, Limits, RunResult, SandboxError

__all__ = ["LIMITS", "ROOT", "Shell", "ShellResult"]

ROOT: Final = "/work"
LIMITS: Final = Limits(output=256 << 10, file_size=8 << 20, disk=16 << 20, files=2048, processes=64)
_SHORT: Final = 1.0  # seconds that laying out and cleaning up may take besides the command
_LONGEST_PATH: Final = 1000  # characters
_NOT_FOUND: Final = 127

# 1: nonce, 2: folder, 3: command. Whatever runs before the command is put aside by the time that it starts.
_OUTER: Final = f"""
exec 9>&2 2>&1
export LC_ALL=C LANG=C TZ=UTC HOME="$PWD" COLUMNS=100
export TAR_OPTIONS='--owner=0 --group=0 --sort=name'
unset _ SHLVL PYTHONDONTWRITEBYTECODE
find . -type d -exec touch -d @{TIME} {{}} + 2>/dev/null
for place in "${{TMPDIR:-/tmp}}" /dev/shm; do
  if [ -d "$place" ] && [ -w "$place" ] && [ -n "$(ls -A "$place" 2>/dev/null)" ]; then
    find "$place" -mindepth 1 -type d -exec chmod u+rwx {{}} + 2>/dev/null
    find "$place" -mindepth 1 -delete 2>/dev/null
  fi
done
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
    """What came of one command.

    Args:
        text: what it printed, with what cannot be printed written out; how it ended, in square brackets, where that is
            not by itself with exit code 0.
        understood: the shell could read it and found what it names, or something was changed.
        tree: the files after it.
        folder: where the shell is then: a path below the box's folder, "" for that folder itself, or an absolute path.
    """

    text: str
    understood: bool
    tree: Tree
    folder: str


_MEMORY: Final[Memory[tuple[ShellResult, bool]]] = Memory()


class Shell:
    """Runs commands on trees; one box is made when it is first needed, and anew when it died.

    Args:
        make: makes a box.
        seconds: for one command.
        like: what answers depend on besides, in words; shells that are alike share what they remember. None: an answer
            is never given again.
    """

    def __init__(self, make: Callable[[], Box], seconds: float, like: str | None = None) -> None:
        self._make = make
        self._seconds = seconds
        self._box: Box | None = None
        self._like = like

    def run(self, tree: Tree, folder: str, command: str) -> ShellResult:
        """Return what a command does on a tree; what was cut short by a limit is run anew each time.

        Raises:
            SandboxError: no box can be used.
        """
        if self._like is None:
            return self._anew(tree, folder, command)[0]
        key = digest(tree, folder, command, self._like)
        return _MEMORY.recall(key, lambda: self._anew(tree, folder, command), _weight)[0]

    def close(self) -> None:
        """Give the box up; it is made anew when it is needed."""
        box, self._box = self._box, None
        if box is not None:
            box.close()

    def __getstate__(self) -> dict[str, object]:
        """Leave the box out."""
        return {**self.__dict__, "_box": None}

    def _anew(self, tree: Tree, folder: str, command: str) -> tuple[ShellResult, bool]:
        for attempt in range(2):
            try:
                if self._box is None or self._box.closed:
                    self._box = self._make()
                return self._once(self._box, tree, folder, command)
            except SandboxError:  # whatever it was: a new box is in order, and the tree is here
                with suppress(SandboxError):
                    self.close()
                if attempt:
                    raise
        raise AssertionError

    def _once(self, box: Box, tree: Tree, folder: str, command: str) -> tuple[ShellResult, bool]:
        """Return the answer, and whether it was given without haste: nothing was cut short."""
        box.restore(to_tar(tree))
        nonce, home = secrets.token_hex(8), box.folder
        words = [nonce, folder, _moved(command, ROOT, home), _INNER]
        result = box.run(["sh", "-c", _OUTER, "sh", *words], timeout=self._seconds + _SHORT)
        told = _told(result.stderr, nonce)
        note = ""
        try:
            after = _kept(box)
        except SandboxError as error:
            self.close()
            after, note = tree, f"[the files were put back as they were before: {error}]"
        gone = "at" in told and not told["at"]
        place = "" if gone else _below(told.get("at", ""), told.get("root", home), folder)
        if gone or not (place.startswith("/") or _is_folder(after, place)):
            place, note = "", note or f"[the folder in which the shell was is gone: this is {ROOT}]"
        elif "lost" in told:
            note = note or f"[the folder {folder} cannot be entered: this is {ROOT}]"
        text = shown(_moved(result.stdout, home, ROOT))
        parts = [text.rstrip("\n"), note, _how(result, self._seconds)]
        understood = "syntax" not in told and (result.code != _NOT_FOUND or after != tree)
        answer = ShellResult("\n".join(part for part in parts if part) or "(no output)", understood, after, place)
        return answer, result.stop == "exit" and not note


def _weight(found: tuple[ShellResult, bool]) -> int | None:
    answer, sure = found
    return len(answer.text) + sum(len(node.data) for node in answer.tree.values()) if sure else None


def _kept(box: Box) -> Tree:
    """Return the files of a box.

    Raises:
        SandboxError: they cannot be read, or cannot be laid out again.
    """
    tree = from_tar(box.snapshot())
    if any(len(path) > _LONGEST_PATH for path in tree):
        raise SandboxError(f"a path is longer than {_LONGEST_PATH:,} characters")
    return tree


def _told(channel: str, nonce: str) -> dict[str, str]:
    """Return what the shell said about itself: word -> the rest of the line."""
    lines = (line.removeprefix(nonce + " ") for line in channel.split("\n") if line.startswith(nonce + " "))
    return {word: rest for word, _, rest in (line.partition(" ") for line in lines)}


def _below(place: str, root: str, before: str) -> str:
    """Return where the shell is, seen from the box's folder; where it did not say, it is where it was."""
    if not place.startswith("/"):
        return before
    if place == root:
        return ""
    return place.removeprefix(root + "/")


def _is_folder(tree: Tree, path: str) -> bool:
    return not path or (path in tree and tree[path].kind == "folder")


def _moved(text: str, old: str, new: str) -> str:
    """Return a text in which the box's folder has another name; only landlock needs it."""
    return text if old == new else re.sub(re.escape(old) + r"(?![\w.-])", lambda _: new, text)


def _how(result: RunResult, seconds: float) -> str:
    if result.stop == "exit":
        return f"[exit code {result.code}]" if result.code else ""
    ended = {
        "timeout": f"stopped after {seconds:g} seconds",
        "cpu": "stopped: too much processor time",
        "output": "stopped: it wrote too much",
        "killed": "killed",
    }
    return f"[{ended.get(result.stop, f'failed at the limit of {result.stop}')}]"

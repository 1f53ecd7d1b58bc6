"""The files of an episode, and the sandbox in which they are run.

The files are kept in this process as text. They are copied into the sandbox before each run and text files are read
back after it, so a sandbox that dies loses nothing, and equal files mean equal states. Files that a run leaves
unchanged are kept regardless of size and name; limits apply to files that it creates or changes. Binary files that a
program writes last only until the end of the run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, TypeAlias

from turncredit.envs.caching import ByteLimitedCache
from turncredit.envs.code.actions import path_problem
from turncredit.envs.code.grades import LOST, CodeGrade
from turncredit.envs.code.grading import CodeGrader
from turncredit.envs.code.task import CodeTest, digest
from turncredit.envs.truncation import escape_unprintable
from turncredit.tools.sandbox import Box, BoxClosed, BoxLost, RunResult, SandboxError
from turncredit.tools.sandbox.untrusted_archives import read_archive

__all__ = ["LONGEST_FILE", "MAX_FILES", "Workspace", "read_back", "refuse_file"]

LONGEST_FILE: Final = 100_000  # characters
MAX_FILES: Final = 64
_HIDDEN: Final = re.compile(r"(^|/)(__pycache__|\.[^/]*)(/|$)")

Ran: TypeAlias = tuple[str, str, dict[str, str], bool]
"""Output of a run, a note about files that were not kept, the files after it, and whether it ended by itself."""

_RUNS: Final[ByteLimitedCache[Ran]] = ByteLimitedCache()


class Workspace:
    """The files of one episode and their sandbox.

    Args:
        files: files at the start.
        main: the file to run.
        grader: runs tests and creates sandboxes.
    """

    def __init__(self, files: Mapping[str, str], main: str, grader: CodeGrader) -> None:
        self.files = dict(files)
        self.main = main
        self.grader = grader
        self._box: Box | None = None
        self._empty = b""

    def run(self, program: str, seconds: float) -> str:
        """Run a program, or the main file for "", and return its output and how it ended.

        Raises:
            SandboxError: no sandbox works.
        """
        key = digest(self.files, "run", self.main, program, f"{seconds}", self.grader.key)
        text, left, files, _ = _RUNS.recall(key, lambda: self._ran(program, seconds), _size)
        self.files = dict(files)
        return f"{text}\n[{left}]" if left else text

    def _ran(self, program: str, seconds: float) -> Ran:
        """Run a program; replace a sandbox that died or cannot be filled, once.

        Raises:
            SandboxError: sandboxes do not work, also with another program.
        """
        for attempt in range(2):
            try:
                return self._run(self._filled(), program, seconds)
            except SandboxError as error:
                hopeless = self._box is None and not isinstance(error, BoxLost)  # no sandbox could be created
                self.close()
                if hopeless or (attempt and not isinstance(error, BoxLost)):
                    raise
        self.grader.check_box()
        return f"[{LOST}]", "", dict(self.files), False

    def _run(self, box: Box, program: str, seconds: float) -> Ran:
        command: str | Sequence[str] = program or [box.python, "-B", self.main]
        result = box.run(command, timeout=seconds)
        text = _output(result, box.folder, seconds)
        try:
            left, files = read_back(box.snapshot(), self.files)
        except (BoxLost, BoxClosed):
            raise
        except SandboxError as error:  # caused by the program, so the episode continues
            left, files = f"the files were put back as they were before: {error}", dict(self.files)
            self.close()  # its files may get in the way of later runs
        return text, left, files, result.stop in ("exit", "output")

    def test(self, tests: Sequence[CodeTest]) -> CodeGrade:
        """Run tests on the files, in a sandbox of their own as a submission has."""
        return self.grader(self.files, self.main, tests)

    def close(self) -> None:
        """Close the sandbox; it is created again when needed."""
        box, self._box = self._box, None
        if box is not None:
            with suppress(SandboxError):
                box.close()

    def _filled(self) -> Box:
        if self._box is None or self._box.closed:
            self._box = self.grader.box()
            self._empty = self._box.snapshot()
        self._box.restore(self._empty)
        for path, text in self.files.items():
            self._box.put(path, text)
        return self._box


def _size(ran: Ran) -> int | None:
    output, left, files, by_itself = ran
    return len(output) + len(left) + sum(len(path) + len(text) for path, text in files.items()) if by_itself else None


def read_back(archive: bytes, before: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Return a note about files that were not kept, and the text files in a sandbox.

    Args:
        archive: a snapshot of the sandbox.
        before: the files before the run. Unchanged ones are kept; one that is no longer valid text is restored.
    """
    files: dict[str, str] = {}
    new: dict[str, str] = {}
    back, left = [], 0
    for entry in read_archive(archive):
        path, old = entry.path, before.get(entry.path)
        if entry.kind != "file" or (old is None and _HIDDEN.search(path)):
            continue
        text = _text(entry.data, old)
        if old is not None:
            back += [path] if text is None else []
            files[path] = old if text is None else text
        elif text is None or path_problem("show", path):
            left += 1
        else:
            new[path] = text
    room = max(0, MAX_FILES - len(files))
    files |= dict(list(new.items())[:room])
    left += max(0, len(new) - room)
    notes = [f"{left} files are no text, too long or too many, and were not kept"] if left else []
    notes += [f"{path} was no text or too long, and is as it was before" for path in back[:3]]
    return "; ".join(notes), files


def _text(data: bytes, old: str | None) -> str | None:
    """Return the contents of a file; None if it was changed and is binary or too long."""
    previous = None if old is None else old.encode()
    if len(data) > max(4 * LONGEST_FILE, len(previous or b"")):
        return None
    if data == previous:
        return old
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return text if len(text) <= LONGEST_FILE and "\0" not in text else None


def _output(result: RunResult, folder: str, seconds: float) -> str:
    text = escape_unprintable(result.stdout) + ("\n" if result.stdout and not result.stdout.endswith("\n") else "")
    text += escape_unprintable(result.stderr)
    text = text.replace(folder, "/work").rstrip("\n")
    how = {"timeout": f"stopped after {seconds:g} seconds", "cpu": "stopped: too much processor time"}.get(result.stop)
    if how is None and result.stop == "output":
        how = "stopped: it wrote too much"
    elif how is None and result.stop != "exit":
        how = f"failed at the limit of {result.stop}"
    elif how is None and result.code:
        how = f"exit code {result.code}"
    if how is None:
        return text or "(no output)"
    return f"{text}\n[{how}]" if text else f"[{how}]"


def refuse_file(files: Mapping[str, str], path: str, text: str) -> None:
    """Raise LookupError, with an observation as its message, if a file may not be created."""
    if len(text) > LONGEST_FILE:
        raise LookupError(f"a file has at most {LONGEST_FILE:,} characters, and {path} would have {len(text):,}")
    if path not in files and len(files) >= MAX_FILES:
        raise LookupError(f"there are {MAX_FILES} files already, and no more can be made")
    for other in files:
        if other.startswith(f"{path}/") or path.startswith(f"{other}/"):
            raise LookupError(f"{path} cannot be made: {other} is a file, and one of them would have to be a folder")

"""A file-system task: the files at the start, the instruction, and the required files and answer at the end."""

from __future__ import annotations

from dataclasses import dataclass

from turncredit.envs.bash.filetree import FileTree

__all__ = ["BashTask"]


@dataclass(frozen=True)
class BashTask:
    """One task.

    Args:
        id: task id.
        family: kind of task.
        statement: the instruction that the agent reads.
        before: files at the start.
        after: required files at the end. New folders are required; other folders may be added or removed.
        commands: shell commands that turn `before` into `after`; the last one prints the answer, if there is one.
        answer: required answer; "" if the task asks no question.
        archives: paths in `after` that are tar archives, compared by their contents instead of their bytes.
        modes: whether file modes are compared.
    """

    id: str
    family: str
    statement: str
    before: FileTree
    after: FileTree
    commands: tuple[str, ...]
    answer: str = ""
    archives: frozenset[str] = frozenset()
    modes: bool = False

    @property
    def submission(self) -> str:
        """The action that submits the correct answer."""
        return f"submit {self.answer}" if self.answer else "submit"

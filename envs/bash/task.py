"""A task in a file system: what there is, what is asked for, and how the end has to look."""

from __future__ import annotations

from dataclasses import dataclass

from turnwise.envs.bash.filetree import Tree

__all__ = ["BashTask"]


@dataclass(frozen=True)
class BashTask:
    """One task.

    Args:
        id: its id.
        family: its kind.
        statement: what is asked for, as text.
        before: the files at the beginning.
        after: the files as they have to be at the end. Folders that are new here are asked for; others may come and go.
        commands: shell commands that lead from the one to the other; the last one shows the answer, if there is one.
        answer: what has to be answered; "" where nothing is asked.
        archives: files of `after` that are tar archives, of which the contents count and not the bytes.
        modes: the modes of all files count.
    """

    id: str
    family: str
    statement: str
    before: Tree
    after: Tree
    commands: tuple[str, ...]
    answer: str = ""
    archives: frozenset[str] = frozenset()
    modes: bool = False

    @property
    def submission(self) -> str:
        """The action that ends it well."""
        return f"submit {self.answer}" if self.answer else "submit"

"""What a family gives: the end of the task and how to get there. The files at the beginning are the scene's."""

from __future__ import annotations

from dataclasses import dataclass, field

from turnwise.envs.bash.filetree import FileNode, file

__all__ = ["TaskDraft"]


@dataclass(frozen=True)
class TaskDraft:
    """A task that is being made.

    Args:
        statement: what is asked for.
        commands: what does it.
        answer: what has to be answered; "" where nothing is.
        made: files and folders that are new or changed at the end.
        gone: files that are not there any more.
        archives: of `made`, tar archives.
        modes: modes count.
    """

    statement: str
    commands: tuple[str, ...]
    answer: str = ""
    made: dict[str, FileNode] = field(default_factory=dict)
    gone: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()
    modes: bool = False

    @classmethod
    def of_lines(cls, statement: str, path: str, lines: list[str], *commands: str) -> TaskDraft:
        """Return a task whose end is one new file with these lines."""
        return cls(statement, commands, made={path: file("".join(f"{line}\n" for line in lines))})

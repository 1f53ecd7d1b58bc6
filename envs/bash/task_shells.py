"""The sandboxes of tasks: one for the commands, and one for the tests of a Harbor task.

A Harbor task names the folder, the image, limits and variables.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from turncredit.envs.bash.filetree import FileTree
from turncredit.envs.bash.grading import BashGrade, grade
from turncredit.envs.bash.harbor import HarborGrade, HarborTask, verify
from turncredit.envs.bash.shell import LIMITS, Shell
from turncredit.envs.bash.task import BashTask
from turncredit.envs.bash.task_sources import ShellTask
from turncredit.envs.errors import EnvError
from turncredit.tools.sandbox import Limits, SandboxError, start

__all__ = ["SECONDS", "Grade", "ShellSettings"]

Grade = BashGrade | HarborGrade

SECONDS: Final = 5.0
"""Default time limit of a command in a generated task."""
_LONGEST: Final = 600.0  # seconds of a command in a Harbor task


@dataclass(frozen=True)
class ShellSettings:
    """What the user chose.

    Args:
        sandbox, image: the back end and its Docker image.
        seconds: time limit of a command; None: 5 s, or with a Harbor task its own limit, at most 600 s.
        limits: other limits; None: `shell.LIMITS`, or what a Harbor task names.
        memory: whether outputs are reused.
    """

    sandbox: str
    image: str | None
    seconds: float | None
    limits: Limits | None
    memory: bool

    def shell(self) -> Shell:
        """Return the shell of the generated tasks."""
        seconds = SECONDS if self.seconds is None else self.seconds
        limits = _with_times(self.limits or LIMITS, seconds)
        make = partial(start, limits, backend=self.sandbox, image=self.image)
        return Shell(make, seconds, f"{self.sandbox} {self.image} {seconds} {limits}" if self.memory else None)

    def shell_of(self, task: HarborTask) -> Shell:
        """Return the shell of a Harbor task."""
        seconds = min(task.settings.agent_seconds or _LONGEST, _LONGEST) if self.seconds is None else self.seconds
        limits = _with_times(self._limits_of(task), seconds)
        make = partial(start, limits, backend=self.sandbox, image=task.image, layout=task.layout)
        like = f"{self.sandbox} {task.image} {task.layout} {sorted(task.env.items())} {seconds} {limits}"
        return Shell(make, seconds, like if self.memory else None, root=task.layout.folder, env=task.env)

    def grade(self, task: ShellTask, tree: FileTree, answer: str) -> Grade:
        """Return the grade of the final files and the submitted answer.

        Raises:
            EnvError: the tests of a Harbor task cannot be run, or give no reward.
        """
        if isinstance(task, BashTask):
            return grade(task, tree, answer)
        limits = _with_times(self._limits_of(task), task.settings.verifier_seconds)
        try:
            return verify(
                task, tree, partial(start, limits, backend=self.sandbox, image=task.image, layout=task.layout)
            )
        except SandboxError as error:
            raise EnvError(f"the tests of task {task.id!r} could not be run: {error}") from error

    def _limits_of(self, task: HarborTask) -> Limits:
        return task.limits(LIMITS) if self.limits is None else self.limits


def _with_times(limits: Limits, seconds: float) -> Limits:
    return limits.but(wall=max(limits.wall, seconds + 5), cpu=max(limits.cpu, seconds + 1))

"""The shell environment: solve tasks by commands in a sandbox; generated ones about files, or Harbor task folders.

Observations and actions are texts; `actions` defines the grammar. A submission ends the episode. The turn limit is
Gymnasium's `max_episode_steps`; the class itself never truncates. Commands run only in a sandbox, and the required
files and answer never enter it. The tests of a Harbor task enter another one, after the submission.
"""

from __future__ import annotations

import base64
import math
import os
from collections.abc import Mapping
from typing import Final

from turncredit.envs.bash.actions import FORMS, Submission, parse_action
from turncredit.envs.bash.expert import restore_commands
from turncredit.envs.bash.filetree import FileTree, digest, from_tar, to_tar
from turncredit.envs.bash.generator import BashLevel
from turncredit.envs.bash.harbor import HarborGrade, HarborTask
from turncredit.envs.bash.task_shells import Grade, ShellSettings
from turncredit.envs.bash.task_sources import ShellTask, task_source
from turncredit.envs.errors import BadSnapshot, EnvError, NoExpert, NotReset, UnknownOption
from turncredit.envs.info import Info
from turncredit.envs.snapshot import Fields
from turncredit.envs.text import SavableEnv
from turncredit.envs.truncation import truncate
from turncredit.envs.validation import choice, flag, integer, number
from turncredit.tools.sandbox import BACKENDS, Limits, SandboxError

__all__ = ["LOOK", "REWARDS", "BashEnv"]

REWARDS: Final = ("whole", "partial", "intercode")
LOOK: Final = "ls -lR"
"""First command of the expert."""
_HELP: Final = "You are in a shell, in the folder {root}. Actions: a command, submit{answer}."
_AGENT: Final = {
    "prompt": "conversation",
    "template": {
        "base": "react",
        "system": "You carry out an instruction about the files of a folder. An action is one shell command, or "
        "submit, or submit ANSWER, which ends the episode. You get the output of one command at a time and answer with "
        "one action at a time.\n\n",
        "example": "This is what one turn looks like:\n\nHow many lines does notes.txt have? Submit the number."
        "{ask}<think>wc counts lines.</think><action>wc -l notes.txt</action>\n\nNow another task begins.\n\n",
    },
    "parser": "think-action",
}
"""How a model is asked."""
_HARBOR_AGENT: Final = {
    "prompt": "conversation",
    "template": {
        "system": "You carry out an instruction by commands in a shell. An action is a shell command, of as many lines "
        "as it needs, or submit, which ends the episode. You get the output of one command at a time and answer with "
        "one action at a time. Give the action alone, without quotes or explanations; you may reason before it between "
        "<think> and </think>.\n\n",
        "saw": "{observation}",
        "ask": "\n\nYour action:",
        "example": "This is what one turn looks like:\n\nWrite the number of lines of notes.txt into count.txt.{ask} "
        "wc -l < notes.txt > count.txt\n\nNow another task begins.\n\n",
    },
    "parser": "whole",
    "max_tokens": 2048,
    "without_chat_template": {"stop": ["\n\nYour action:", "\n\n\n\n"], "example": True},
}
"""How a model is asked in Harbor tasks, whose scripts have several lines."""


def _agent(tasks: object = None, **arguments: object) -> dict[str, object]:
    """Return how a model is asked, given the arguments of the environment."""
    return dict(_AGENT if tasks is None else _HARBOR_AGENT)


class BashEnv(SavableEnv):
    """Follow an instruction by shell commands in a folder.

    An action is a command or a submission. The submission ends the episode and earns the reward. An invalid action
    changes nothing; its observation says what is wrong. reset() starts no process and accepts task ids of every split
    and level. A snapshot can be restored where split, level, reward and budget are equal. If no sandbox works, or the
    sandbox and its replacement die, step() raises EnvError.

    Args:
        tasks: a Harbor task folder, or a folder of them; None for generated tasks.
        split: "train" (the default) or "held_out"; the splits share no folder name. Harbor folders have no splits.
        level: size and difficulty of generated tasks: a preset of `BashLevel`, a text such as "small+depth=3", or a
            `BashLevel`.
        reward: reward of the submission: "whole" is 1 if everything is right, else 0; "intercode" is InterCode's
            measure, most of which doing nothing earns; "partial" is what that is above doing nothing, scaled to [0, 1]
            (see `grading`). In Harbor tasks, "partial" and "intercode" are the reward of the tests. None: "whole", or
            "partial" in Harbor tasks.
        budget: maximum length of a command's output in characters; longer output loses its middle.
        sandbox: "auto", "bwrap", "landlock" or "docker". Harbor tasks need "docker", which uses or builds their images,
            or "bwrap", which runs those that only copy files on this machine's own programs.
        image: Docker image of generated tasks.
        seconds: time limit of a command; None: 5 s, or the limit of a Harbor task.
        limits: other limits of the sandbox, by default `shell.LIMITS`, or what a Harbor task names; its
            times are raised to allow `seconds`.
        memory: reuse the output of a command that already ran in this process in the same folder on the same files.
        render_mode: None or "ansi".

    Raises:
        EnvError: an argument is invalid.
    """

    metadata = {"render_modes": ["ansi"], "agent": _agent}  # noqa: RUF012 (Gymnasium's attribute)
    SNAPSHOT_FORMAT = ("Bash", 1)
    EXAMPLE_ACTION = "ls"
    read_level = BashLevel.parse

    def __init__(
        self,
        tasks: str | os.PathLike[str] | None = None,
        *,
        split: str | None = None,
        level: str | BashLevel = "small",
        reward: str | None = None,
        budget: int = 1500,
        sandbox: str = "auto",
        image: str | None = None,
        seconds: float | None = None,
        limits: Limits | None = None,
        memory: bool = True,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(render_mode)
        choice("sandbox", sandbox, ("auto", *BACKENDS))
        if tasks is not None and image is not None:
            raise UnknownOption("image is for generated tasks: Harbor tasks name theirs")
        self.source = task_source(tasks, sandbox, level, split, network=limits is not None and limits.network)
        self._reward = choice("reward", reward or ("whole" if tasks is None else "partial"), REWARDS)
        self._budget = integer("budget", budget, 100, of="characters")
        seconds = None if seconds is None else number("seconds", seconds, 0.1, 600)
        self._settings = ShellSettings(sandbox, image, seconds, limits, flag("memory", memory))
        self._shell = self._settings.shell()
        self._task: ShellTask | None = None
        self._tree: FileTree = {}
        self._folder = ""
        self._answer = ""
        self._grade: Grade | None = None
        self._seconds_left = math.inf
        self._route: dict[str, int] = {}
        self._looked = False

    @property
    def task(self) -> ShellTask:
        """The current task, with its solution.

        Raises:
            NotReset: reset() was not called.
        """
        if self._task is None:
            raise NotReset
        return self._task

    @property
    def grade(self) -> Grade | None:
        """The grade of the submission; None before it."""
        return self._grade

    def plan(self) -> list[str]:
        """Return commands that solve the task from the current state, and the submission; [] if it is solved.

        If no command has run yet, the first one lists the files.

        Raises:
            NotReset: reset() was not called.
            NoExpert: the task has no oracle.
            EnvError: the episode ended with a wrong submission.
        """
        task = self.task
        if not task.commands:
            raise NoExpert(f"no plan: task {task.id!r} has no solution/solve.sh")
        if self._grade is not None:
            if self._grade.won:
                return []
            raise EnvError(f"no plan: task {task.id!r} ended with a wrong submission")
        first = [] if self._looked else [LOOK]
        done = self._route.get(self._key())
        if done is not None:
            return [*first, *task.commands[done:], task.submission]
        return [*first, *restore_commands(self._tree, task.before, self._shell.root), *task.commands, task.submission]

    def close(self) -> None:
        """Close the sandbox."""
        self._shell.close()

    def list_tasks(self, count: int | None) -> list[str]:
        """Return task ids; the families alternate."""
        return self.source.ids(count)

    def draw_task(self) -> str:
        return self.source.draw(self.np_random)

    def start_task(self, task: str, options: Mapping[str, object]) -> str:
        """Return the instruction and a summary of the actions."""
        self._begin(self.source.get(task))
        answer = "" if isinstance(self.task, HarborTask) else ", submit ANSWER"
        return f"{self.task.statement}\n{_HELP.format(root=self._shell.root, answer=answer)}"

    def _begin(self, task: ShellTask) -> None:
        if isinstance(task, HarborTask):
            self._shell.close()
            self._shell = self._settings.shell_of(task)
            self._seconds_left = task.settings.agent_seconds or math.inf
        self._task, self._tree, self._folder = task, task.before, ""
        self._answer, self._grade, self._looked = "", None, False
        self._route = {self._key(): 0}

    def take_action(self, action: str) -> tuple[str, float, bool]:
        parsed, valid, reward = parse_action(action), True, 0.0
        if isinstance(parsed, str):
            reply, valid = parsed, False
        elif isinstance(parsed, Submission):
            self._answer = parsed.answer
            reply, reward = self._submit()
        else:
            reply, valid = self._command(parsed.text)
            if self._seconds_left <= 0:
                ending, reward = self._submit()
                reply = f"{reply}\n[the time for the task is over] {ending}"
        return truncate(reply, self._budget), reward, valid

    def _submit(self) -> tuple[str, float]:
        """End the episode; return the observation and the reward."""
        self._grade = self._settings.grade(self.task, self._tree, self._answer)
        late = " The tests did not end in time." if isinstance(self._grade, HarborGrade) and self._grade.late else ""
        return f"Submitted: the task is {'' if self._grade.won else 'not '}done.{late}", self._earned()

    def is_over(self) -> bool:
        return self._grade is not None

    def _command(self, text: str) -> tuple[str, bool]:
        """Return the observation of a command, and whether the command was valid."""
        before, folder = self._key(), self._folder
        try:
            answer = self._shell.run(self._tree, self._folder, text, max(self._seconds_left, 0.1))
        except SandboxError as error:
            self._shell.close()
            raise EnvError(f"the command could not be run: {error}") from error
        self._tree, self._folder, self._looked = answer.tree, answer.folder, True
        self._seconds_left -= answer.seconds
        done = self._route.get(before)
        if done is not None and text in self.task.commands[done : done + 1]:
            self._route.setdefault(self._key(), done + 1)
        where = f"\n[in {self._full(self._folder)}]" if folder != self._folder else ""
        return f"{answer.text}{where}", answer.understood

    def _key(self) -> str:
        """Return the state key: files, current folder and, after the end, the answer."""
        over = [] if self._grade is None else [self._answer]
        return digest(self._tree, self._folder, *over)

    def _full(self, folder: str) -> str:
        return folder if folder.startswith("/") else f"{self._shell.root}/{folder}".rstrip("/")

    def _earned(self) -> float:
        """Return the reward of the submission; tests of Harbor tasks may give any number."""
        if self._grade is None:
            return 0.0
        return {"partial": self._grade.partial, "intercode": self._grade.intercode}.get(
            self._reward, float(self._grade.won)
        )

    def snapshot_arguments(self) -> dict[str, object]:
        return {**self.source.arguments, "reward": self._reward, "budget": self._budget}

    def save_episode(self) -> dict[str, object]:
        left = {"seconds_left": self._seconds_left} if math.isfinite(self._seconds_left) else {}
        return {
            **left,
            "files": base64.b64encode(to_tar(self._tree)).decode(),
            "folder": self._folder,
            "answer": self._answer,
            "looked": self._looked,
            "over": self._grade is not None,
            "route": [[key, done] for key, done in self._route.items()],
        }

    def load_episode(self, task: str, saved: Fields) -> None:
        loaded = self.source.get(task)
        try:
            tree = from_tar(base64.b64decode(saved.get("files", str), validate=True))
            route = {str(key): int(done) for key, done in saved.get("route", list)}
        except (ValueError, TypeError, OverflowError, SandboxError) as error:
            raise BadSnapshot(f"the snapshot has unreadable files or an unreadable route: {error}") from None
        folder, answer = saved.get("folder", str), saved.get("answer", str)
        looked, over = saved.get("looked", bool), saved.get("over", bool)
        self._begin(loaded)
        if math.isfinite(self._seconds_left):
            self._seconds_left = min(saved.get("seconds_left", float), self._seconds_left)
        self._tree, self._folder, self._answer, self._route = tree, folder, answer, route
        self._looked, self._grade = looked, self._settings.grade(loaded, tree, answer) if over else None

    def get_info(self, valid: bool) -> Info:
        over = self._grade is not None
        return {
            "task": self.task.id,
            "state": self._key(),
            "free_actions": [] if over else list(FORMS),
            "valid": valid,
            "score": min(max(self._earned(), 0.0), 1.0),
            "won": self._grade is not None and self._grade.won,
            "task_type": self.task.family,
        }

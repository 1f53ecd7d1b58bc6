"""The shell environment: solve file-system tasks by commands in a sandbox.

Observations and actions are texts; `actions` defines the grammar. A submission ends the episode. The turn limit is
Gymnasium's `max_episode_steps`; the class itself never truncates. Commands run only in a sandbox, and the required
files and answer never enter it.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import partial
from typing import Final

from turnwise.envs.bash.actions import FORMS, Submission, parse_action
from turnwise.envs.bash.expert import restore_commands
from turnwise.envs.bash.filetree import FileTree, digest, from_tar, to_tar
from turnwise.envs.bash.generator import SPLITS, BashLevel, generate, task_ids
from turnwise.envs.bash.grading import BashGrade, grade
from turnwise.envs.bash.shell import LIMITS, ROOT, Shell
from turnwise.envs.bash.task import BashTask
from turnwise.envs.errors import BadSnapshot, EnvError, NotReset
from turnwise.envs.info import Info
from turnwise.envs.snapshot import Fields
from turnwise.envs.text import SavableEnv
from turnwise.envs.truncation import truncate
from turnwise.envs.validation import choice, flag, integer, number
from turnwise.tools.sandbox import BACKENDS, Limits, SandboxError, start

__all__ = ["LOOK", "REWARDS", "BashEnv"]

REWARDS: Final = ("whole", "partial", "intercode")
LOOK: Final = "ls -lR"
"""First command of the expert."""
_HELP: Final = f"You are in a shell, in the folder {ROOT}. Actions: a command, submit, submit ANSWER."
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
_DEFAULT_COUNT: Final = 1000
_DRAWN_FROM: Final = 10**6  # random tasks have numbers below this


class BashEnv(SavableEnv):
    """Follow an instruction about the files of a folder, by shell commands.

    An action is a command or a submission. The submission ends the episode and earns the reward. An invalid action
    changes nothing; its observation says what is wrong. reset() starts no process and accepts task ids of every split
    and level. A snapshot can be restored where split, level, reward and budget are equal. If no sandbox works, or the
    sandbox and its replacement die, step() raises EnvError.

    Args:
        split: "train" or "held_out"; the splits share no folder name.
        level: size and difficulty: a preset of `BashLevel`, a text such as "small+depth=3", or a `BashLevel`.
        reward: reward of the submission: "whole" is 1 if everything is right, else 0; "intercode" is InterCode's
            measure, most of which doing nothing earns; "partial" is what that is above doing nothing, scaled to [0, 1]
            (see `grading`).
        budget: maximum length of a command's output in characters; longer output loses its middle.
        sandbox: "auto", "bwrap", "landlock" or "docker".
        image: Docker image.
        seconds: time limit of a command.
        limits: other limits of the sandbox, by default `shell.LIMITS`; its times are raised to allow `seconds`.
        memory: reuse the output of a command that already ran in this process in the same folder on the same files.
        render_mode: None or "ansi".

    Raises:
        EnvError: an argument is invalid.
    """

    metadata = {"render_modes": ["ansi"], "agent": _AGENT}  # noqa: RUF012 (Gymnasium's attribute)
    SNAPSHOT_FORMAT = ("Bash", 1)
    EXAMPLE_ACTION = "ls"
    read_level = BashLevel.parse

    def __init__(
        self,
        *,
        split: str = "train",
        level: str | BashLevel = "small",
        reward: str = "whole",
        budget: int = 1500,
        sandbox: str = "auto",
        image: str | None = None,
        seconds: float = 5.0,
        limits: Limits | None = None,
        memory: bool = True,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(render_mode)
        self._split = choice("split", split, SPLITS)
        self._level = BashLevel.of(level)
        self._reward = choice("reward", reward, REWARDS)
        self._budget = integer("budget", budget, 100, of="characters")
        choice("sandbox", sandbox, ("auto", *BACKENDS))
        seconds = number("seconds", seconds, 0.1, 600)
        resources = limits or LIMITS
        resources = resources.but(wall=max(resources.wall, seconds + 5), cpu=max(resources.cpu, seconds + 1))
        self._shell = Shell(
            partial(start, resources, backend=sandbox, image=image),
            seconds,
            f"{sandbox} {image} {seconds} {resources}" if flag("memory", memory) else None,
        )
        self._task: BashTask | None = None
        self._tree: FileTree = {}
        self._folder = ""
        self._answer = ""
        self._grade: BashGrade | None = None
        self._route: dict[str, int] = {}
        self._looked = False

    @property
    def task(self) -> BashTask:
        """The current task, with its solution.

        Raises:
            NotReset: reset() was not called.
        """
        if self._task is None:
            raise NotReset
        return self._task

    @property
    def grade(self) -> BashGrade | None:
        """The grade of the submission; None before it."""
        return self._grade

    def plan(self) -> list[str]:
        """Return commands that solve the task from the current state, and the submission; [] if it is solved.

        If no command has run yet, the first one lists the files.

        Raises:
            NotReset: reset() was not called.
            EnvError: the episode ended with a wrong submission.
        """
        task = self.task
        if self._grade is not None:
            if self._grade.won:
                return []
            raise EnvError(f"no plan: task {task.id!r} ended with a wrong submission")
        first = [] if self._looked else [LOOK]
        done = self._route.get(self._key())
        if done is not None:
            return [*first, *task.commands[done:], task.submission]
        return [*first, *restore_commands(self._tree, task.before), *task.commands, task.submission]

    def close(self) -> None:
        """Close the sandbox."""
        self._shell.close()

    def list_tasks(self, count: int | None) -> list[str]:
        """Return task ids; the families alternate."""
        return task_ids(self._split, self._level, _DEFAULT_COUNT if count is None else count)

    def draw_task(self) -> str:
        return task_ids(self._split, self._level, 1, int(self.np_random.integers(_DRAWN_FROM)))[0]

    def start_task(self, task: str, options: Mapping[str, object]) -> str:
        """Return the instruction and a summary of the actions."""
        self._begin(generate(task))
        return f"{self.task.statement}\n{_HELP}"

    def _begin(self, task: BashTask) -> None:
        self._task, self._tree, self._folder = task, task.before, ""
        self._answer, self._grade, self._looked = "", None, False
        self._route = {self._key(): 0}

    def take_action(self, action: str) -> tuple[str, float, bool]:
        parsed, valid, reward = parse_action(action), True, 0.0
        if isinstance(parsed, str):
            reply, valid = parsed, False
        elif isinstance(parsed, Submission):
            self._answer = parsed.answer
            self._grade = grade(self.task, self._tree, self._answer)
            reward = self._score()
            reply = "Submitted: the task is done." if self._grade.won else "Submitted: the task is not done."
        else:
            reply, valid = self._command(parsed.text)
        return truncate(reply, self._budget), reward, valid

    def is_over(self) -> bool:
        return self._grade is not None

    def _command(self, text: str) -> tuple[str, bool]:
        """Return the observation of a command, and whether the command was valid."""
        before, folder = self._key(), self._folder
        try:
            answer = self._shell.run(self._tree, self._folder, text)
        except SandboxError as error:
            self._shell.close()
            raise EnvError(f"the command could not be run: {error}") from error
        self._tree, self._folder, self._looked = answer.tree, answer.folder, True
        done = self._route.get(before)
        if done is not None and text in self.task.commands[done : done + 1]:
            self._route.setdefault(self._key(), done + 1)
        where = f"\n[in {_full(self._folder)}]" if folder != self._folder else ""
        return f"{answer.text}{where}", answer.understood

    def _key(self) -> str:
        """Return the state key: files, current folder and, after the end, the answer."""
        over = [] if self._grade is None else [self._answer]
        return digest(self._tree, self._folder, *over)

    def _score(self) -> float:
        if self._grade is None:
            return 0.0
        return {"partial": self._grade.partial, "intercode": self._grade.intercode}.get(
            self._reward, float(self._grade.won)
        )

    def snapshot_arguments(self) -> dict[str, object]:
        return {"split": self._split, "level": self._level.text, "reward": self._reward, "budget": self._budget}

    def save_episode(self) -> dict[str, object]:
        return {
            "files": base64.b64encode(to_tar(self._tree)).decode(),
            "folder": self._folder,
            "answer": self._answer,
            "looked": self._looked,
            "over": self._grade is not None,
            "route": [[key, done] for key, done in self._route.items()],
        }

    def load_episode(self, task: str, saved: Fields) -> None:
        generated = generate(task)
        try:
            tree = from_tar(base64.b64decode(saved.get("files", str), validate=True))
            route = {str(key): int(done) for key, done in saved.get("route", list)}
        except (ValueError, TypeError, OverflowError, SandboxError) as error:
            raise BadSnapshot(f"the snapshot has unreadable files or an unreadable route: {error}") from None
        folder, answer = saved.get("folder", str), saved.get("answer", str)
        looked, over = saved.get("looked", bool), saved.get("over", bool)
        self._begin(generated)
        self._tree, self._folder, self._answer, self._route = tree, folder, answer, route
        self._looked, self._grade = looked, grade(generated, tree, answer) if over else None

    def get_info(self, valid: bool) -> Info:
        over = self._grade is not None
        return {
            "task": self.task.id,
            "state": self._key(),
            "free_actions": [] if over else list(FORMS),
            "valid": valid,
            "score": self._score(),
            "won": self._grade is not None and self._grade.won,
            "task_type": self.task.family,
        }


def _full(folder: str) -> str:
    return folder if folder.startswith("/") else f"{ROOT}/{folder}".rstrip("/")

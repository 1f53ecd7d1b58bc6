"""Tasks in a file system as a Gymnasium environment: shell commands in a sandbox; the files and the answer decide.

Observation and action are texts (the grammar is in `actions`). Submitting ends the episode. The turn limit is
Gymnasium's (`max_episode_steps`), so the class itself never truncates.

Every command runs in a sandbox and nowhere else. What was asked for, and how the files have to look at the end, is
known out here only.
"""

from __future__ import annotations

import base64
import tarfile
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import gymnasium

from turnwise.envs.bash import expert
from turnwise.envs.bash.actions import FORMS, Submit, read
from turnwise.envs.bash.generator import PRESETS, SPLITS, Level, generated, task_ids
from turnwise.envs.bash.judge import Verdict, judge
from turnwise.envs.bash.shell import LIMITS, ROOT, Shell
from turnwise.envs.bash.task import Task
from turnwise.envs.bash.tree import Tree, digest, from_tar, to_tar
from turnwise.envs.cut import cut
from turnwise.envs.errors import BadSnapshot, EnvError, NotReset, StepAfterEnd, UnknownOption, UnknownTask, choices
from turnwise.envs.snapshot import pack, random_from, random_state, unpack
from turnwise.envs.spaces import Text
from turnwise.tools.sandbox import BACKENDS, Box, Limits, SandboxError, start

__all__ = ["LOOK", "REWARDS", "BashEnv"]

REWARDS: Final = ("whole", "partial")
LOOK: Final = "ls -lR"
"""What the expert does first."""
_HELP: Final = f"You are in a shell, in the folder {ROOT}. Actions: a command, submit, submit ANSWER."
_DEFAULT_COUNT: Final = 1000
_DRAWN_FROM: Final = 10**6  # tasks are drawn from the first so many numbers
_SAVED: Final = ("Bash", 1)  # what snapshots are called, and the version of what is in them


class BashEnv(gymnasium.Env[str, str]):
    """Do what is asked with the files of a folder, by shell commands.

    Args:
        split: "train" or "held_out"; no folder name of the one occurs in the other.
        level: size and difficulty: a preset of `Level`, its text, or a level.
        reward: what submitting pays: "whole": 1 where everything is as asked, else 0; "partial": InterCode's shares
            (see `judge`).
        budget: characters of an answer; what is longer loses its middle.
        sandbox: "auto", "bwrap", "landlock" or "docker".
        image: Docker's image.
        seconds: for one command.
        limits: what a box may use besides; see `shell.LIMITS`. Its times are raised to what `seconds` needs.
        memory: give an answer that was given once in this process again, for the same command on the same files in the
            same folder.
        render_mode: None or "ansi".

    Raises:
        EnvError: a value is not one of the choices.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"]}  # noqa: RUF012 (Gymnasium's attribute)

    def __init__(
        self,
        *,
        split: str = "train",
        level: str | Level = "small",
        reward: str = "whole",
        budget: int = 1500,
        sandbox: str = "auto",
        image: str | None = None,
        seconds: float = 5.0,
        limits: Limits | None = None,
        memory: bool = True,
        render_mode: str | None = None,
    ) -> None:
        _choice("split", split, SPLITS)
        _choice("reward", reward, REWARDS)
        _choice("sandbox", sandbox, ("auto", *BACKENDS))
        if render_mode is not None:
            _choice("render_mode", render_mode, self.metadata["render_modes"])
        if not isinstance(level, str | Level):
            presets = ", ".join(map(repr, PRESETS))
            raise UnknownOption(f"level is {level!r}; it is one of {presets}, such a text with dials, or a Level")
        if isinstance(budget, bool) or not isinstance(budget, int) or budget < 100:
            raise UnknownOption(f"budget is {budget!r}; it is a whole number of characters from 100 on")
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0.1 <= seconds <= 600:
            raise UnknownOption(f"seconds is {seconds!r}; it is a number from 0.1 to 600")
        if not isinstance(memory, bool):
            raise UnknownOption(f"memory is {memory!r}; it is True or False")
        self.observation_space = Text()
        self.action_space = Text()
        self.render_mode = render_mode
        self._split = split
        self._level = Level.parse(level) if isinstance(level, str) else level
        self._partial = reward == "partial"
        self._budget = budget
        wanted = limits or LIMITS
        wanted = wanted.but(wall=max(wanted.wall, seconds + 5), cpu=max(wanted.cpu, seconds + 1))
        self._shell = Shell(
            partial(_box, wanted, sandbox, image),
            float(seconds),
            f"{sandbox} {image} {seconds} {wanted}" if memory else None,
        )
        self._task: Task | None = None
        self._tree: Tree = {}
        self._folder = ""
        self._answer = ""
        self._verdict: Verdict | None = None
        self._route: dict[str, int] = {}
        self._looked = False
        self._shown: tuple[str, str] = ("", "")

    @property
    def task(self) -> Task:
        """The task that is played, with its solution.

        Raises:
            NotReset: before the first reset.
        """
        if self._task is None:
            raise NotReset
        return self._task

    @property
    def verdict(self) -> Verdict | None:
        """What became of the task; None before the end."""
        return self._verdict

    def task_ids(self, count: int | None = None) -> list[str]:
        """Return the ids of the tasks of the split, in a fixed order in which the families go round.

        Args:
            count: how many, from the first on; None: the first 1,000.
        """
        if count is not None and count < 0:
            raise UnknownOption(f"count is {count}; it must be 0 or more")
        return task_ids(self._split, self._level, _DEFAULT_COUNT if count is None else count)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode; it starts no program.

        Args:
            seed: seeds the drawing of a task where none is asked for.
            options: {"task": id} to play that task, of any split and level.

        Returns:
            The statement and the forms of actions; and `info` (see `turnwise.envs.info`).

        Raises:
            UnknownTask: there is no such task.
            UnknownOption: options hold anything else.
        """
        super().reset(seed=seed)
        for key in options or {}:
            _choice("reset option", str(key), ("task",))
        id = (options or {}).get("task")
        if id is None:
            id = task_ids(self._split, self._level, 1, int(self.np_random.integers(_DRAWN_FROM)))[0]
        if not isinstance(id, str):
            raise UnknownTask(f"a task is named by its id, a str; got {id!r}")
        self._begin(generated(id))
        return self._shown[1], self._info(True)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Run a command, or submit; what is neither is answered with the reason and changes nothing.

        Returns:
            observation, reward (paid at the end), terminated, truncated (always False), info.

        Raises:
            NotReset: before the first reset.
            StepAfterEnd: the episode has ended.
            EnvError: no sandbox holds here, or the box died and a new one too.
        """
        task = self.task
        if self._verdict is not None:
            raise StepAfterEnd
        if not isinstance(action, str):
            raise UnknownOption(f"an action is a str such as 'ls'; got {type(action).__name__}")
        found, valid, reward = read(action), True, 0.0
        if isinstance(found, str):
            said, valid = found, False
        elif isinstance(found, Submit):
            self._answer = found.answer
            self._verdict = judge(task, self._tree, self._answer)
            reward = self._score()
            said = "Submitted: the task is done." if self._verdict.won else "Submitted: the task is not done."
        else:
            said, valid = self._command(found.text)
        observation = cut(said, self._budget)
        self._shown = (action, observation)
        return observation, reward, self._verdict is not None, False, self._info(valid)

    def plan(self) -> list[str]:
        """Return commands that lead from the present files to success, and the submission; [] when it is won.

        Where no command has been run yet, the first one looks at the files.

        Raises:
            NotReset: before the first reset.
            EnvError: the wrong thing was submitted.
        """
        task = self.task
        if self._verdict is not None:
            if self._verdict.won:
                return []
            raise EnvError(f"the task {task.id!r} was submitted undone: nothing can follow")
        first = [] if self._looked else [LOOK]
        done = self._route.get(self._key())
        if done is not None:
            return [*first, *task.commands[done:], task.submission]
        return [*first, *expert.mended(self._tree, task.before), *task.commands, task.submission]

    def snapshot(self) -> bytes:
        """Return the episode at this moment, for `restore` (see `turnwise.envs.info.HasSnapshot`).

        Raises:
            NotReset: before the first reset.
        """
        episode = {
            "task": self.task.id,
            "files": base64.b64encode(to_tar(self._tree)).decode(),
            "folder": self._folder,
            "answer": self._answer,
            "looked": self._looked,
            "over": self._verdict is not None,
            "route": [[key, done] for key, done in self._route.items()],
            "shown": list(self._shown),
            "random": random_state(self),
        }
        return pack(*_SAVED, self._made(), episode)

    def restore(self, data: bytes, /) -> tuple[str, dict[str, Any]]:
        """Go on from a snapshot of an environment with the same split, level, reward and budget.

        Returns:
            Observation and `info` of that moment; `valid` is True.

        Raises:
            BadSnapshot: the bytes are none, or torn, or of something else; the present episode goes on.
        """
        saved = unpack(data, *_SAVED, self._made())
        try:
            task = generated(saved.get("task", str))
            tree = from_tar(base64.b64decode(saved.get("files", str), validate=True))
            route = {str(key): int(done) for key, done in saved.get("route", list)}
        except UnknownTask as error:
            raise BadSnapshot(f"the snapshot's task is not here: {error}") from error
        except (ValueError, TypeError, OverflowError, OSError, tarfile.TarError) as error:
            raise BadSnapshot(f"the snapshot's files or route cannot be read: {error}") from None
        folder, answer, over = saved.get("folder", str), saved.get("answer", str), saved.get("over", bool)
        looked, shown, drawn = saved.get("looked", bool), saved.pair("shown"), random_from(saved)
        self._begin(task)
        self._np_random, self._np_random_seed = drawn
        self._tree, self._folder, self._answer, self._route, self._shown = tree, folder, answer, route, shown
        self._looked, self._verdict = looked, judge(task, tree, answer) if over else None
        return self._shown[1], self._info(True)

    def render(self) -> str | None:
        """Return the last action and its answer as the player saw them, for render_mode "ansi"; else None."""
        if self.render_mode != "ansi":
            return None
        action, observation = self._shown
        return f"> {action}\n{observation}\n" if action else f"{observation}\n"

    def close(self) -> None:
        """Close the box."""
        self._shell.close()

    def _begin(self, task: Task) -> None:
        self._task, self._tree, self._folder = task, task.before, ""
        self._answer, self._verdict, self._looked = "", None, False
        self._route = {self._key(): 0}
        self._shown = ("", f"{task.statement}\n{_HELP}")

    def _command(self, text: str) -> tuple[str, bool]:
        """Return the answer to a command, and whether the shell understood it."""
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
        """Return the state: the files, where the shell is, and at the end what was answered."""
        over = [] if self._verdict is None else [self._answer]
        return digest(self._tree, self._folder, *over)

    def _score(self) -> float:
        if self._verdict is None:
            return 0.0
        return self._verdict.partial if self._partial else float(self._verdict.won)

    def _made(self) -> dict[str, Any]:
        """Return what has to be the same where a snapshot is restored."""
        reward = "partial" if self._partial else "whole"
        return {"split": self._split, "level": self._level.text, "reward": reward, "budget": self._budget}

    def _info(self, valid: bool) -> dict[str, Any]:
        over = self._verdict is not None
        return {
            "task": self.task.id,
            "state": self._key(),
            "free_actions": [] if over else list(FORMS),
            "valid": valid,
            "score": self._score(),
            "won": self._verdict is not None and self._verdict.won,
            "task_type": self.task.family,
        }


def _box(limits: Limits, backend: str, image: str | None) -> Box:
    return start(limits, backend=backend, image=image)


def _full(folder: str) -> str:
    return folder if folder.startswith("/") else f"{ROOT}/{folder}".rstrip("/")


def _choice(what: str, value: object, known: Sequence[str]) -> None:
    if value not in known:
        raise UnknownOption(f"no {what} {value!r}: {choices(str(value), known)}")

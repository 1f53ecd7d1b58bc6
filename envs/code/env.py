"""Code tasks as a Gymnasium environment: write or repair a program, try it, hand it in; hidden tests decide.

Observation and action are texts (the grammar is in `actions`). Handing in ends the episode. The turn limit is
Gymnasium's (`max_episode_steps`), so the class itself never truncates.

Everything that an agent writes runs in a sandbox and nowhere else.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import gymnasium

from turnwise.envs.code.actions import FORMS, Action, read, replaced
from turnwise.envs.code.generator import Level
from turnwise.envs.code.judge import LIMITS, Judge, Outcome
from turnwise.envs.code.sources import Files, Generated, Source
from turnwise.envs.code.task import Call, Task, digest, fingerprint, names_of
from turnwise.envs.code.workshop import LONGEST_FILE, MOST_FILES, Workshop
from turnwise.envs.cut import cut, shown
from turnwise.envs.errors import BadSnapshot, EnvError, NotReset, StepAfterEnd, UnknownOption, UnknownTask, choices
from turnwise.envs.snapshot import Fields, pack, random_from, random_state, unpack
from turnwise.envs.spaces import Text
from turnwise.tools.sandbox import BACKENDS, BadPath, Box, BoxFull, BoxLost, Limits, SandboxError, start
from turnwise.tools.sandbox.files import parts

__all__ = ["REWARDS", "CodeEnv"]

REWARDS: Final = ("share", "all")
_SAVED: Final = ("Code", 1)  # what snapshots are called, and the version of what is in them
_HELP: Final = "Actions: show PATH, run, write PATH, edit PATH, replace LINE: TEXT, test, submit."


class CodeEnv(gymnasium.Env[str, str]):
    """Write or repair a program that passes tests, some of which are hidden.

    Args:
        tasks: None for generated tasks; else a file of JSON lines (HumanEval's and MBPP's form, or our own) or a folder
            of tasks.
        split: "train" or "held_out" for generated tasks; for files the splits that they tell, or "all". None: "train"
            for generated tasks, "all" for files.
        level: size and difficulty of generated tasks: a preset of `Level`, its text, or a level.
        reward: what handing in pays: "share" of the hidden tests that pass, or "all": 1 where all of them do, else 0.
        shaping: paid besides for every rise of the best share of visible tests, times this; 0: nothing.
        budget: characters of an answer; what is longer loses its middle.
        sandbox: "auto", "bwrap", "landlock" or "docker".
        image: Docker's image.
        seconds: for a run, and for one call in a test.
        limits: what a box may use besides; see `judge.LIMITS`. Its times are raised to the ten times `seconds` that a
            set of tests has.
        packages: programs may import the packages of the box's Python (its start takes longer).
        strict: stop at a broken task of a file; else leave it out and count it (`skipped`).
        render_mode: None or "ansi".

    Raises:
        EnvError: there are no such tasks, or a value is not one of the choices.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"]}  # noqa: RUF012 (Gymnasium's attribute)

    def __init__(
        self,
        tasks: str | os.PathLike[str] | None = None,
        *,
        split: str | None = None,
        level: str | Level = "small",
        reward: str = "share",
        shaping: float = 0.0,
        budget: int = 2000,
        sandbox: str = "auto",
        image: str | None = None,
        seconds: float = 2.0,
        limits: Limits | None = None,
        packages: bool = False,
        strict: bool = True,
        render_mode: str | None = None,
    ) -> None:
        _choice("reward", reward, REWARDS)
        _choice("sandbox", sandbox, ("auto", *BACKENDS))
        if render_mode is not None:
            _choice("render_mode", render_mode, self.metadata["render_modes"])
        _number("shaping", shaping, 0, 10)
        _number("seconds", seconds, 0.05, 600)
        if isinstance(budget, bool) or not isinstance(budget, int) or budget < 100:
            raise UnknownOption(f"budget is {budget!r}; it is a whole number of characters from 100 on")
        self.observation_space = Text()
        self.action_space = Text()
        self.render_mode = render_mode
        self._packages = packages
        self._all = reward == "all"
        self._shaping = float(shaping)
        self._budget = budget
        self._seconds = float(seconds)
        if tasks is None:
            self._source: Source = Generated(level, split or "train")
        else:
            self._source = Files(tasks, split or "all", strict)
        self.skipped: int = self._source.skipped
        wanted = limits or LIMITS
        wanted = wanted.but(wall=max(wanted.wall, 10 * self._seconds), cpu=max(wanted.cpu, 10 * self._seconds))
        self._judge = Judge(
            partial(_box, wanted, sandbox, image), self._seconds, packages, f"{wanted} {sandbox} {image}"
        )
        self._task: Task | None = None
        self._workshop: Workshop | None = None
        self._best = 0.0
        self._score: float | None = None
        self._shown: tuple[str, str] = ("", "")

    def task_ids(self, count: int | None = None) -> list[str]:
        """Return the ids of the tasks of the split, in a fixed order.

        Args:
            count: how many, from the first on; None: all, or of generated tasks the first 1,000.
        """
        if count is not None and count < 0:
            raise UnknownOption(f"count is {count}; it must be 0 or more")
        return self._source.ids(count)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: seeds the drawing of a task where none is asked for.
            options: {"task": id} to play that task.

        Returns:
            The statement, the files, the visible tests and the forms of actions; and `info` (see `turnwise.envs.info`).

        Raises:
            UnknownTask: there is no such task.
            UnknownOption: options hold anything else.
        """
        super().reset(seed=seed)
        for key in options or {}:
            _choice("reset option", str(key), ("task",))
        id = (options or {}).get("task")
        if id is not None and not isinstance(id, str):
            raise UnknownTask(f"a task is named by its id, a str; got {id!r}")
        task = self._source.get(id if id is not None else self._source.draw(self.np_random))
        self._begin(task, dict(task.files))
        observation = self._opening()
        self._shown = ("", observation)
        return observation, self._info(True)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Do one action; what is none is answered with the reason and changes nothing.

        Returns:
            observation, reward (paid at the end, but for shaping), terminated, truncated (always False), info.

        Raises:
            NotReset: before the first reset.
            StepAfterEnd: the episode has ended.
            EnvError: no sandbox holds here, or the box died and a new one too.
        """
        self._playing()
        if self._score is not None:
            raise StepAfterEnd
        if not isinstance(action, str):
            raise UnknownOption(f"an action is a str such as 'test'; got {type(action).__name__}")
        found = read(action)
        valid, reward = not isinstance(found, str), 0.0
        if isinstance(found, str):
            said = found
        else:
            try:
                said, reward = self._do(found)
            except LookupError as error:
                said, valid = str(error.args[0]), False
            except BoxFull as error:
                said = self._overfull(found, error)
            except SandboxError as error:
                raise EnvError(f"the program could not be run: {error}") from error
        observation = cut(said, self._budget)
        self._shown = (action, observation)
        return observation, reward, self._score is not None, False, self._info(valid)

    def plan(self) -> list[str]:
        """Return actions that lead from the present files to success: the right lines or files, "test", "submit".

        What the last action changed is tested first. "test" is left out where there are no visible tests.

        Raises:
            NotReset: before the first reset.
            EnvError: the episode was lost, or no solution of the task is known.
        """
        task, workshop = self._playing()
        if self._score is not None:
            if self._score == 1.0:
                return []
            raise EnvError(f"the task {task.id!r} was handed in unsolved: nothing can follow")
        if not task.solution:
            raise EnvError(f"no solution of the task {task.id!r} is known")
        actions: list[str] = []
        for path, text in task.solved.items():
            if workshop.files.get(path) != text:
                actions += _repairs(path, task.main, workshop.files.get(path, ""), text)
        test = ["test"] if task.visible else []
        return [*(test if self._changed() else []), *actions, *(test if actions else []), "submit"]

    def snapshot(self) -> bytes:
        """Return the episode at this moment, for `restore` (see `turnwise.envs.info.HasSnapshot`).

        Raises:
            NotReset: before the first reset.
        """
        task, workshop = self._playing()
        episode = {
            "task": task.id,
            "fingerprint": fingerprint(task),
            "files": workshop.files,
            "best": self._best,
            "score": self._score,
            "shown": list(self._shown),
            "random": random_state(self),
        }
        return pack(*_SAVED, self._made(), episode)

    def restore(self, data: bytes, /) -> tuple[str, dict[str, Any]]:
        """Go on from a snapshot of an environment with the same tasks and options (the sandbox may be another).

        Returns:
            Observation and `info` of that moment; `valid` is True.

        Raises:
            BadSnapshot: the bytes are none, or torn, or of something else; the present episode goes on.
        """
        saved = unpack(data, *_SAVED, self._made())
        try:
            task = self._source.get(saved.get("task", str))
        except UnknownTask as error:
            raise BadSnapshot(f"the snapshot's task is not here: {error}") from error
        if fingerprint(task) != saved.get("fingerprint", str):
            raise BadSnapshot(f"the task {task.id!r} is not the same here as in the snapshot")
        files, best = _files(saved, task), _share(saved, "best", saved.get("best", float))
        score = saved.maybe("score", float)
        score = None if score is None else _share(saved, "score", score)
        seen, drawn = saved.pair("shown"), random_from(saved)
        self._begin(task, files)
        self._np_random, self._np_random_seed = drawn
        self._best, self._score, self._shown = best, score, seen
        return self._shown[1], self._info(True)

    def render(self) -> str | None:
        """Return the last action and its answer as the player saw them, for render_mode "ansi"; else None."""
        if self.render_mode != "ansi":
            return None
        action, observation = self._shown
        return f"> {action}\n{observation}\n" if action else f"{observation}\n"

    def close(self) -> None:
        """Close the box."""
        if self._workshop is not None:
            self._workshop.close()

    def __getstate__(self) -> dict[str, Any]:
        """Leave the box out: it is made anew when it is needed."""
        state = self.__dict__.copy()
        if self._workshop is not None:
            other = Workshop(self._workshop.files, self._workshop.main, self._judge)
            state["_workshop"] = other
        return state

    def _begin(self, task: Task, files: dict[str, str]) -> None:
        if self._workshop is not None:
            self._workshop.close()
        self._task, self._workshop = task, Workshop(files, task.main, self._judge)
        self._best, self._score = 0.0, None

    def _made(self) -> dict[str, Any]:
        """Return what has to be the same where a snapshot is restored."""
        return self._source.made | {
            "reward": "all" if self._all else "share",
            "shaping": self._shaping,
            "budget": self._budget,
            "seconds": self._seconds,
            "packages": bool(self._packages),
        }

    def _do(self, action: Action) -> tuple[str, float]:
        """Return the answer to an action and its reward.

        Raises:
            LookupError: it cannot be done here; the message is a sentence.
        """
        task, workshop = self._playing()
        path = action.path or task.main
        if action.kind == "submit":
            return self._submitted()
        if action.kind == "test":
            return self._tested()
        if action.kind == "run":
            return workshop.run(action.text, self._seconds), 0.0
        if action.kind == "write":
            text = action.text
        elif path not in workshop.files:
            raise LookupError(f"there is no file {path}: {choices(path, workshop.files)}")
        elif action.kind == "show":
            return _numbered(workshop.files[path]), 0.0
        else:
            text = replaced(workshop.files[path], action)
        _room(workshop.files, path, text)
        workshop.files[path] = text
        return f"{path} is now:\n{_numbered(text)}", 0.0

    def _tested(self) -> tuple[str, float]:
        task, workshop = self._playing()
        if not task.visible:
            return "There are no visible tests: run the program to try it.", 0.0
        verdict = workshop.test(task.visible)
        rise = max(0.0, verdict.share - self._best) if self._shaping else 0.0
        self._best += rise
        passed = sum(one.passed for one in verdict.outcomes)
        lines = [f"{passed} of {len(verdict.outcomes)} tests pass.", *map(_line, verdict.outcomes)]
        return shown("\n".join(lines)), self._shaping * rise

    def _submitted(self) -> tuple[str, float]:
        task, workshop = self._playing()
        try:
            verdict = self._judge(workshop.files, task.main, task.hidden)
        except BoxLost:  # as `run` and `test` do it: a box that has died is replaced, once
            verdict = self._judge(workshop.files, task.main, task.hidden)
        workshop.close()
        self._score = verdict.share
        passed = sum(one.passed for one in verdict.outcomes)
        reward = float(self._score == 1.0) if self._all else self._score
        late = " (the time was up)" if verdict.late else ""
        return f"Handed in: {passed} of {len(verdict.outcomes)} hidden tests pass{late}.", reward

    def _overfull(self, action: Action, error: BoxFull) -> str:
        """Return the answer where the agent has made more than a box holds; what is handed in so has failed.

        Raises:
            EnvError: it is the task that is too large.
        """
        task, workshop = self._playing()
        if workshop.files == task.files:
            raise EnvError(f"the files of the task {task.id!r} do not fit into the box: {error}") from error
        if action.kind == "submit":
            workshop.close()
            self._score = 0.0
            return f"Handed in: the files do not fit into the box, so no hidden test passes ({error})."
        return f"the files do not fit into the box: {error}"

    def _opening(self) -> str:
        task, workshop = self._playing()
        parts = [task.statement.strip()]
        half = self._budget
        for path in sorted(workshop.files, key=lambda path: (path != task.main, path)):
            text = _numbered(workshop.files[path])
            if path == task.main or len(text) <= half:
                parts.append(f"{path}:\n{cut(text, self._budget)}")
                half -= len(text)
            else:
                parts.append(f"{path}: {len(text):,} characters")
        if task.visible:
            lines = [
                f"{test.text} == {test.returns}" if isinstance(test, Call) else name
                for test in task.visible
                for name in names_of(test)
            ]
            parts.append(cut("Tests:\n" + "\n".join(lines), self._budget))
        return shown("\n".join([*parts, _HELP]))

    def _changed(self) -> bool:
        """Return whether the last action changed a file: what it answered says so."""
        last, said = read(self._shown[0]), self._shown[1].partition("\n")[0]
        return not isinstance(last, str) and last.kind in ("write", "edit", "replace") and said.endswith(" is now:")

    def _playing(self) -> tuple[Task, Workshop]:
        if self._task is None or self._workshop is None:
            raise NotReset
        return self._task, self._workshop

    def _info(self, valid: bool) -> dict[str, Any]:
        task, workshop = self._playing()
        over = self._score is not None
        best = f"{self._best:.6f}" if self._shaping else ""
        names = sorted(workshop.files, key=lambda path: (path != task.main, path))[:8]
        info: dict[str, Any] = {
            "task": task.id,
            "state": digest(workshop.files, best, f"{self._score}" if over else ""),
            "admissible_actions": [] if over else ["run", "test", "submit", *(f"show {path}" for path in names)],
            "free_actions": [] if over else list(FORMS),
            "valid": valid,
            "score": self._score or 0.0,
            "won": self._score == 1.0,
        }
        if task.kind:
            info["task_type"] = task.kind
        return info


def _box(limits: Limits, backend: str, image: str | None) -> Box:
    return start(limits, backend=backend, image=image)


def _line(outcome: Outcome) -> str:
    return f"{outcome.name} {'passed' if outcome.passed else outcome.said or 'failed'}"


def _numbered(text: str) -> str:
    return "\n".join(f"{number} {line}" for number, line in enumerate(text.splitlines(), 1)) or "(empty)"


def _room(files: dict[str, str], path: str, text: str) -> None:
    """Refuse a file that has no place among the others."""
    if len(text) > LONGEST_FILE:
        raise LookupError(f"a file has at most {LONGEST_FILE:,} characters, and {path} would have {len(text):,}")
    if path not in files and len(files) >= MOST_FILES:
        raise LookupError(f"there are {MOST_FILES} files already, and no more can be made")
    for other in files:
        if other.startswith(f"{path}/") or path.startswith(f"{other}/"):
            raise LookupError(f"{path} cannot be made: {other} is a file, and one of them would have to be a folder")


def _files(saved: Fields, task: Task) -> dict[str, str]:
    """Return the files of a snapshot, which an agent can have made of the task's.

    Raises:
        BadSnapshot: it cannot have.
    """
    found = saved.get("files", dict)
    if not all(isinstance(text, str) for text in found.values()):
        raise saved.wrong("files", "an object of texts by path")
    known = {path: text for path, text in found.items() if path in task.files}
    for path, text in found.items():
        if task.files.get(path) == text:
            continue
        try:
            parts(path)
            _room(known, path, text)
        except (LookupError, BadPath) as error:
            raise BadSnapshot(f"the snapshot's files cannot be: {error.args[0]}") from None
        known[path] = text
    return dict(found)


def _share(saved: Fields, name: str, value: float) -> float:
    if not 0 <= value <= 1 + 1e-9:  # a sum of rises
        raise saved.wrong(name, "a number from 0 to 1")
    return value


def _repairs(path: str, main: str, old: str, new: str) -> list[str]:
    """Return actions that make one text of another: single lines where few differ, else the whole file."""
    before, after = old.splitlines(), new.splitlines()
    apart = [number for number, (one, two) in enumerate(zip(before, after, strict=False), 1) if one != two]
    name = "" if path == main else f"{path} "
    actions = [f"replace {name}{number}: {after[number - 1].strip()}" for number in apart]
    text = old
    if len(before) == len(after) and len(apart) <= 3:
        for said in actions:
            action = read(said)
            text = replaced(text, action) if isinstance(action, Action) else ""
        if text == new:
            return actions
    return [f"write {path}\n{new}"]


def _choice(what: str, value: object, known: Sequence[str]) -> None:
    if value not in known:
        raise UnknownOption(f"no {what} {value!r}: {choices(str(value), known)}")


def _number(what: str, value: object, low: float, high: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise UnknownOption(f"{what} is {value!r}; it is a number from {low:g} to {high:g}")

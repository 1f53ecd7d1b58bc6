"""Code tasks as a Gymnasium environment: write or repair a program, try it, hand it in; hidden tests decide.

Observation and action are texts (the grammar is in `actions`). Handing in ends the episode. The turn limit is
Gymnasium's (`max_episode_steps`), so the class itself never truncates.

Everything that an agent writes runs in a sandbox and nowhere else.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from difflib import get_close_matches
from functools import partial
from typing import Any, Final

from turnwise.envs.code.actions import FORMS, CodeAction, apply_edit, parse_action, repair_actions
from turnwise.envs.code.generator import CodeLevel
from turnwise.envs.code.grading import LIMITS, CaseResult, CodeGrader
from turnwise.envs.code.snapshots import check_task, files_of, share_of
from turnwise.envs.code.task import CallTest, CodeTask, digest, fingerprint, names_of
from turnwise.envs.code.task_sources import CodeTaskSource, FileCodeTasks, GeneratedCodeTasks
from turnwise.envs.code.workspace import Workspace, refuse_file
from turnwise.envs.errors import EnvError, NotReset
from turnwise.envs.snapshot import Fields
from turnwise.envs.text import SavableEnv
from turnwise.envs.truncation import escape_unprintable, truncate
from turnwise.envs.validation import choice, integer, number
from turnwise.tools.sandbox import BACKENDS, BoxFull, BoxLost, Limits, SandboxError, start

__all__ = ["REWARDS", "CodeEnv"]

REWARDS: Final = ("share", "all")
_HELP: Final = "Actions: show PATH, run, write PATH, edit PATH, replace LINE: TEXT, test, submit."


class CodeEnv(SavableEnv):
    """Write or repair a program that passes tests, some of which are hidden.

    An action is a word and what belongs to it (see `actions`); what is none is answered with the reason and changes
    nothing. Handing in ends the episode and is what is paid, but for shaping. The first observation holds the
    statement, the files, the visible tests and the forms of actions. A snapshot goes on where the tasks and what they
    pay are the same; the sandbox may be another one. Where no sandbox holds, or the box dies and a new one too, step()
    raises an EnvError.

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

    SNAPSHOT_FORMAT = ("Code", 1)
    EXAMPLE_ACTION = "test"

    def __init__(
        self,
        tasks: str | os.PathLike[str] | None = None,
        *,
        split: str | None = None,
        level: str | CodeLevel = "small",
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
        super().__init__(render_mode)
        self._all = choice("reward", reward, REWARDS) == "all"
        choice("sandbox", sandbox, ("auto", *BACKENDS))
        self._shaping = number("shaping", shaping, 0, 10)
        self._seconds = number("seconds", seconds, 0.05, 600)
        self._budget = integer("budget", budget, 100, of="characters")
        self._packages = packages
        if tasks is None:
            self._source: CodeTaskSource = GeneratedCodeTasks(level, split or "train")
        else:
            self._source = FileCodeTasks(tasks, split or "all", strict)
        self.skipped: int = self._source.skipped
        wanted = limits or LIMITS
        wanted = wanted.but(wall=max(wanted.wall, 10 * self._seconds), cpu=max(wanted.cpu, 10 * self._seconds))
        box = partial(start, wanted, backend=sandbox, image=image)
        self._judge = CodeGrader(box, self._seconds, packages, f"{wanted} {sandbox} {image}")
        self._task: CodeTask | None = None
        self._workshop: Workspace | None = None
        self._best = 0.0
        self._score: float | None = None

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
                actions += repair_actions(path, task.main, workshop.files.get(path, ""), text)
        test = ["test"] if task.visible else []
        return [*(test if self._changed() else []), *actions, *(test if actions else []), "submit"]

    def close(self) -> None:
        """Close the box."""
        if self._workshop is not None:
            self._workshop.close()

    def __getstate__(self) -> dict[str, Any]:
        """Leave the box out: it is made anew when it is needed."""
        state = self.__dict__.copy()
        if self._workshop is not None:
            other = Workspace(self._workshop.files, self._workshop.main, self._judge)
            state["_workshop"] = other
        return state

    def list_tasks(self, count: int | None) -> list[str]:
        return self._source.ids(count)

    def draw_task(self) -> str:
        return self._source.draw(self.np_random)

    def start_task(self, task: str, options: Mapping[str, Any]) -> str:
        known = self._source.get(task)
        self._begin(known, dict(known.files))
        return self._opening()

    def _begin(self, task: CodeTask, files: dict[str, str]) -> None:
        if self._workshop is not None:
            self._workshop.close()
        self._task, self._workshop = task, Workspace(files, task.main, self._judge)
        self._best, self._score = 0.0, None

    def take_action(self, action: str) -> tuple[str, float, bool]:
        found = parse_action(action)
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
        return truncate(said, self._budget), reward, valid

    def is_over(self) -> bool:
        return self._score is not None

    def snapshot_arguments(self) -> dict[str, Any]:
        return self._source.made | {
            "reward": "all" if self._all else "share",
            "shaping": self._shaping,
            "budget": self._budget,
            "seconds": self._seconds,
            "packages": bool(self._packages),
        }

    def save_episode(self) -> dict[str, Any]:
        task, workshop = self._playing()
        return {
            "fingerprint": fingerprint(task),
            "files": workshop.files,
            "best": self._best,
            "score": self._score,
        }

    def load_episode(self, task: str, saved: Fields) -> None:
        known = self._source.get(task)
        check_task(saved, known)
        files, best = files_of(saved, known), share_of(saved, "best")
        score = None if saved.maybe("score", float) is None else share_of(saved, "score")
        self._begin(known, files)
        self._best, self._score = best, score

    def _do(self, action: CodeAction) -> tuple[str, float]:
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
            raise LookupError(f"there is no file {path}: {_similar(path, list(workshop.files))}")
        elif action.kind == "show":
            return _numbered(workshop.files[path]), 0.0
        else:
            text = apply_edit(workshop.files[path], action)
        refuse_file(workshop.files, path, text)
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
        return escape_unprintable("\n".join(lines)), self._shaping * rise

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

    def _overfull(self, action: CodeAction, error: BoxFull) -> str:
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
                parts.append(f"{path}:\n{truncate(text, self._budget)}")
                half -= len(text)
            else:
                parts.append(f"{path}: {len(text):,} characters")
        if task.visible:
            lines = [
                f"{test.text} == {test.returns}" if isinstance(test, CallTest) else name
                for test in task.visible
                for name in names_of(test)
            ]
            parts.append(truncate("Tests:\n" + "\n".join(lines), self._budget))
        return escape_unprintable("\n".join([*parts, _HELP]))

    def _changed(self) -> bool:
        """Return whether the last action changed a file: what it answered says so."""
        last, said = parse_action(self.last_exchange[0]), self.last_exchange[1].partition("\n")[0]
        return not isinstance(last, str) and last.kind in ("write", "edit", "replace") and said.endswith(" is now:")

    def _playing(self) -> tuple[CodeTask, Workspace]:
        if self._task is None or self._workshop is None:
            raise NotReset
        return self._task, self._workshop

    def get_info(self, valid: bool) -> dict[str, Any]:
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


def _similar(path: str, known: list[str]) -> str:
    """Return which files the agent may have meant; agents read it, so its wording is fixed."""
    near = get_close_matches(path, known, n=3, cutoff=0.6)
    if near:
        return "did you mean " + " or ".join(map(repr, near)) + "?"
    more = f" and {len(known) - 8:,} more" if len(known) > 8 else ""
    return "the choices are " + ", ".join(map(repr, known[:8])) + more if known else "there are none"


def _line(outcome: CaseResult) -> str:
    return f"{outcome.name} {'passed' if outcome.passed else outcome.said or 'failed'}"


def _numbered(text: str) -> str:
    return "\n".join(f"{number} {line}" for number, line in enumerate(text.splitlines(), 1)) or "(empty)"

"""The code environment: write or repair a program, try it, and submit it to hidden tests.

Observations and actions are texts; `actions` defines the grammar. A submission ends the episode. The turn limit is
Gymnasium's `max_episode_steps`; the class itself never truncates. The agent's programs run only in a sandbox.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from typing import Final

from turncredit.envs.code.actions import FORMS, CodeAction, apply_edit, parse_action, repair_actions
from turncredit.envs.code.generator import CodeLevel
from turncredit.envs.code.grading import LIMITS, CaseResult, CodeGrader
from turncredit.envs.code.snapshots import check_task, files_of, share_of
from turncredit.envs.code.task import CallTest, CodeTask, CodeTest, digest, fingerprint, names_of
from turncredit.envs.code.task_sources import CodeTaskSource, FileCodeTasks, GeneratedCodeTasks
from turncredit.envs.code.workspace import Workspace, refuse_file
from turncredit.envs.errors import EnvError, NotReset
from turncredit.envs.info import Info
from turncredit.envs.snapshot import Fields
from turncredit.envs.text import SavableEnv
from turncredit.envs.truncation import escape_unprintable, truncate
from turncredit.envs.validation import choice, integer, number
from turncredit.tools.sandbox import BACKENDS, BoxFull, Limits, SandboxError, start

__all__ = ["REWARDS", "CodeEnv"]

REWARDS: Final = ("share", "all")
_AGENT: Final = {
    "prompt": "conversation",
    "template": {
        "system": "You write and repair small programs. You answer with one action at a time: show PATH; run; test; "
        "submit, which ends the episode; replace LINE: TEXT for one line of the program; or write PATH, followed by "
        "all lines of the file. Give the action alone, without quotes or explanations; you may reason before it "
        "between <think> and </think>.\n\n",
        "saw": "{observation}",
        "ask": "\n\nYour action:",
        "example": "This is what one turn looks like:\n\nRepair total: it returns the sum of a list.\nsolution.py:\n"
        "1 def total(numbers):\n2     return len(numbers)\nTests:\ntotal([1, 2]) == 3{ask} replace 2: return "
        "sum(numbers)\n\nNow another task begins.\n\n",
    },
    "parser": "whole",
    "max_tokens": 1024,
    "without_chat_template": {"stop": ["\n\nYour action:", "\n\n\n\n"], "example": True},
}
"""How a model is asked."""
_COMPARED: Final = 60  # characters of a path that is compared with others
_HELP: Final = "Actions: show PATH, run, write PATH, edit PATH, replace LINE: TEXT, test, submit."


class CodeEnv(SavableEnv):
    """Write or repair a program that passes tests, some of which are hidden.

    An action is a keyword and its arguments (see `actions`). An invalid action changes nothing; its observation says
    what is wrong. "submit" ends the episode and earns the reward. The first observation contains the statement, the
    files, the visible tests and a summary of the actions. A snapshot can be restored where tasks and rewards are equal,
    in any sandbox. If no sandbox works, or the sandbox and its replacement die, step() raises EnvError.

    Args:
        tasks: path of a JSON-lines file (HumanEval, MBPP, or the format of `task_files`) or of a folder of tasks; None
            for generated tasks.
        split: "train" or "held_out" for generated tasks (default "train"); "all" or a split named in the file for
            others (default "all").
        level: size and difficulty of generated tasks: a preset of `CodeLevel`, a text such as "small+bugs=2-2", or a
            `CodeLevel`.
        reward: reward of the submission: "share" is the fraction p of hidden tests that pass, above the fraction p0
            that the task's own files pass: max(0, p - p0) / (1 - p0); "all" is 1 if all pass, else 0.
        shaping: additional reward for each increase of the best fraction of visible tests passed, times this factor;
            it begins at what the task's own files pass.
        budget: maximum length of a program's output in characters; longer output loses its middle.
        sandbox: "auto", "bwrap", "landlock" or "docker".
        image: Docker image.
        seconds: time limit of a run, and of one call in a test.
        limits: other limits of the sandbox, by default `grading.LIMITS`; its times are raised to the 10 * `seconds`
            that a set of tests may take.
        packages: whether programs can import the packages of the sandbox's Python, which makes it slower to start.
        strict: raise for an invalid task in a file; False skips it and counts it in `skipped`.
        render_mode: None or "ansi".

    Raises:
        EnvError: the tasks cannot be read, or an argument is invalid.
    """

    metadata = {"render_modes": ["ansi"], "agent": _AGENT}  # noqa: RUF012 (Gymnasium's attribute)
    SNAPSHOT_FORMAT = ("Code", 1)
    EXAMPLE_ACTION = "test"
    read_level = CodeLevel.parse

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
            self.source: CodeTaskSource = GeneratedCodeTasks(level, split or "train")
        else:
            self.source = FileCodeTasks(tasks, split or "all", strict)
        self.skipped: int = self.source.skipped
        resources = limits or LIMITS
        resources = resources.but(
            wall=max(resources.wall, 10 * self._seconds), cpu=max(resources.cpu, 10 * self._seconds)
        )
        box = partial(start, resources, backend=sandbox, image=image)
        # With Docker, the container of the next grading is started while this one is used.
        self._grader = CodeGrader(partial(box, warm=1), self._seconds, packages, f"{resources} {sandbox} {image}")
        self._task: CodeTask | None = None
        self._workspace: Workspace | None = None
        self._best = 0.0
        self._score: float | None = None

    def plan(self) -> list[str]:
        """Return actions that solve the task from the current files: edits, "test", "submit"; [] if it is solved.

        If the last action changed a file, the plan starts with "test". Without visible tests it contains no "test".

        Raises:
            NotReset: reset() was not called.
            EnvError: the episode ended with a wrong submission, or the task has no known solution.
        """
        task, workspace = self._playing()
        if self._score is not None:
            if self._score == 1.0:
                return []
            raise EnvError(f"no plan: task {task.id!r} ended with a wrong submission")
        if not task.solution:
            raise EnvError(f"no plan: task {task.id!r} has no known solution")
        actions: list[str] = []
        for path, text in task.solved.items():
            if workspace.files.get(path) != text:
                actions += repair_actions(path, task.main, workspace.files.get(path, ""), text)
        test = ["test"] if task.visible else []
        return [*(test if self._changed() else []), *actions, *(test if actions else []), "submit"]

    def close(self) -> None:
        """Close the sandbox."""
        if self._workspace is not None:
            self._workspace.close()

    def __getstate__(self) -> dict[str, object]:
        """Return the state without the sandbox, which is created again when needed."""
        state = self.__dict__.copy()
        if self._workspace is not None:
            other = Workspace(self._workspace.files, self._workspace.main, self._grader)
            state["_workspace"] = other
        return state

    def list_tasks(self, count: int | None) -> list[str]:
        return self.source.ids(count)

    def draw_task(self) -> str:
        return self.source.draw(self.np_random)

    def start_task(self, task: str, options: Mapping[str, object]) -> str:
        loaded = self.source.get(task)
        self._begin(loaded, dict(loaded.files))
        return self._opening()

    def _begin(self, task: CodeTask, files: dict[str, str]) -> None:
        if self._workspace is not None:
            self._workspace.close()
        self._task, self._workspace = task, Workspace(files, task.main, self._grader)
        self._best, self._score = 0.0, None

    def take_action(self, action: str) -> tuple[str, float, bool]:
        parsed = parse_action(action)
        valid, reward = not isinstance(parsed, str), 0.0
        if isinstance(parsed, str):
            reply = parsed
        else:
            try:
                reply, reward = self._do(parsed)
            except LookupError as error:
                reply, valid = str(error.args[0]), False
            except BoxFull as error:
                reply = self._overfull(parsed, error)
            except SandboxError as error:
                raise EnvError(f"the program could not be run: {error}") from error
        return truncate(reply, self._budget), reward, valid

    def is_over(self) -> bool:
        return self._score is not None

    def snapshot_arguments(self) -> dict[str, object]:
        return self.source.made | {
            "reward": "all" if self._all else "share",
            "shaping": self._shaping,
            "budget": self._budget,
            "seconds": self._seconds,
            "packages": bool(self._packages),
        }

    def save_episode(self) -> dict[str, object]:
        task, workspace = self._playing()
        return {
            "fingerprint": fingerprint(task),
            "files": workspace.files,
            "best": self._best,
            "score": self._score,
        }

    def load_episode(self, task: str, saved: Fields) -> None:
        loaded = self.source.get(task)
        check_task(saved, loaded)
        files, best = files_of(saved, loaded), share_of(saved, "best")
        score = None if saved.maybe("score", float) is None else share_of(saved, "score")
        self._begin(loaded, files)
        self._best, self._score = best, score

    def _do(self, action: CodeAction) -> tuple[str, float]:
        """Return the observation and the reward of an action.

        Raises:
            LookupError: the action is impossible; the message is the observation.
        """
        task, workspace = self._playing()
        path = action.path or task.main
        if action.kind == "submit":
            return self._submitted()
        if action.kind == "test":
            return self._tested()
        if action.kind == "run":
            return workspace.run(action.text, self._seconds), 0.0
        if action.kind == "write":
            text = action.text
        elif path not in workspace.files:
            raise LookupError(f"there is no file {path}: {_similar(path, list(workspace.files))}")
        elif action.kind == "show":
            return _numbered(workspace.files[path]), 0.0
        else:
            text = apply_edit(workspace.files[path], action)
        refuse_file(workspace.files, path, text)
        workspace.files[path] = text
        return f"{path} is now:\n{_numbered(text)}", 0.0

    def _tested(self) -> tuple[str, float]:
        task, workspace = self._playing()
        if not task.visible:
            return "There are no visible tests: run the program to try it.", 0.0
        grade = workspace.test(task.visible)
        rise = 0.0
        if self._shaping:
            best = max(self._best, self._untouched(task.visible))
            rise = max(0.0, grade.share - best)
            self._best = best + rise
        passed = sum(outcome.passed for outcome in grade.outcomes)
        lines = [f"{passed} of {len(grade.outcomes)} tests pass.", *map(_line, grade.outcomes)]
        return escape_unprintable("\n".join(lines)), self._shaping * rise

    def _submitted(self) -> tuple[str, float]:
        task, workspace = self._playing()
        grade = self._grader(workspace.files, task.main, task.hidden)
        workspace.close()
        self._score = grade.share
        passed = sum(outcome.passed for outcome in grade.outcomes)
        reward = float(self._score == 1.0) if self._all else self._gain(self._score)
        late = " (the time was up)" if grade.late else ""
        return f"Handed in: {passed} of {len(grade.outcomes)} hidden tests pass{late}.", reward

    def _gain(self, share: float) -> float:
        """Return the part of the way from the share of the task's own files to 1."""
        if share in (0.0, 1.0):
            return share
        task, _ = self._playing()
        untouched = self._untouched(task.hidden)
        return max(0.0, share - untouched) / (1 - untouched) if untouched < 1 else 0.0

    def _untouched(self, tests: Sequence[CodeTest]) -> float:
        """Return the share of tests that the task's own files pass."""
        task, _ = self._playing()
        return self._grader(task.files, task.main, tests).share

    def _overfull(self, action: CodeAction, error: BoxFull) -> str:
        """Return the observation after the agent's files exceeded the sandbox's limits; submitting them scores 0.

        Raises:
            EnvError: the task's own files are too large.
        """
        task, workspace = self._playing()
        if workspace.files == task.files:
            raise EnvError(f"the files of task {task.id!r} exceed the limits of the sandbox: {error}") from error
        if action.kind == "submit":
            workspace.close()
            self._score = 0.0
            return f"Handed in: the files do not fit into the box, so no hidden test passes ({error})."
        return f"the files do not fit into the box: {error}"

    def _opening(self) -> str:
        task, workspace = self._playing()
        parts = [task.statement.strip()]
        half = self._budget
        for path in sorted(workspace.files, key=lambda path: (path != task.main, path)):
            text = _numbered(workspace.files[path])
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
        """Return whether the last action changed a file, judging by its observation."""
        last, headline = parse_action(self.last_exchange[0]), self.last_exchange[1].partition("\n")[0]
        return not isinstance(last, str) and last.kind in ("write", "edit", "replace") and headline.endswith(" is now:")

    def _playing(self) -> tuple[CodeTask, Workspace]:
        if self._task is None or self._workspace is None:
            raise NotReset
        return self._task, self._workspace

    def get_info(self, valid: bool) -> Info:
        task, workspace = self._playing()
        over = self._score is not None
        best = f"{self._best:.6f}" if self._shaping else ""
        names = sorted(workspace.files, key=lambda path: (path != task.main, path))[:8]
        info: Info = {
            "task": task.id,
            "state": digest(workspace.files, best, f"{self._score}" if over else ""),
            "admissible_actions": [] if over else ["run", "test", "submit", *(f"show {path}" for path in names)],
            "free_actions": [] if over else list(FORMS),
            "valid": valid,
            "score": self._score or 0.0,
            "won": self._score == 1.0,
        }
        if task.kind:
            info["task_type"] = task.kind
        return info


def _similar(path: str, paths: list[str]) -> str:
    """Return which files the agent may have meant; agents read it, so its wording is fixed."""
    short = [name for name in paths if len(name) <= _COMPARED]  # comparing takes time in proportion to len ** 3
    near = get_close_matches(path, short, n=3, cutoff=0.6) if len(path) <= _COMPARED else []
    if near:
        return "did you mean " + " or ".join(map(repr, near)) + "?"
    more = f" and {len(paths) - 8:,} more" if len(paths) > 8 else ""
    return "the choices are " + ", ".join(map(repr, paths[:8])) + more if paths else "there are none"


def _line(outcome: CaseResult) -> str:
    return f"{outcome.name} {'passed' if outcome.passed else outcome.message or 'failed'}"


def _numbered(text: str) -> str:
    return "\n".join(f"{number} {line}" for number, line in enumerate(text.splitlines(), 1)) or "(empty)"

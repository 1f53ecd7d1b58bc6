"""An environment made of tools, tasks and a check: what a user writes is the world that the tools act on.

Every reset makes the world of its task anew (`start`), so that nothing of one episode is left in the next. The agent
reads the task and the tools in its first observation, writes calls in one of the forms of `turnwise.tools.functions`,
and ends the episode by the tool `answer`; then `check` looks at the world and the answer.

The state key is a hash of what `state` says of the world. Without `state` it is a hash of the calls so far, in their
order: then a call that only looks makes another state, which credit that groups states, and `turnwise check`, will
take as it is.

Left out on purpose: chance in the world (what a task's world holds follows from the task), rewards before the end, and
limits of turns (`register(..., max_episode_steps=10)` or `TurnLimit`).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

from turnwise.envs.errors import EnvError, NotReset, UnknownOption, UnknownTask
from turnwise.envs.text import TextEnv
from turnwise.tools.functions import Call, CallFormat, Tool, Toolbox, ToolError, call_format
from turnwise.tools.functions.render import Unserialisable, data_to_json

__all__ = ["MOST_CALLS", "ToolEnv"]

Task = TypeVar("Task")
World = TypeVar("World")

MOST_CALLS: Final = 8
"""Calls that one turn may hold; more are refused together."""


class ToolEnv(TextEnv, Generic[Task, World]):
    """Tools, tasks and a check as a Gymnasium environment.

    An action holds calls, which are done in their order; where one of them cannot be done, none is, and the answer says
    why. A tool that fails is the world's answer, and the action is valid. The score is paid when the episode ends.
    reset() raises an EnvError where the world's functions cannot be tools or the task has no sentence, and step() where
    the check gave no score in [0, 1]; both where the state is no data.

    Args:
        tasks: id -> task, whatever `start` and `say` take; or one task's sentence.
        start: from a task to the world of an episode; called at every reset.
        tools: from a world to its tools (functions with type hints, or `Tool`s); or the tools themselves, where they
            need no world.
        check: (world, the text of the answer) -> score in [0, 1], or a bool; 1 is won. Called once, at the answer.
        say: from a task to the sentence that the agent reads.
        state: from a world to data that hold all that decides what can follow; None: the calls so far.
        plan: from a world to the calls that lead to success from there, the answer included; None: there is no plan.
        form: how calls are written: "tags", "hermes" or "openai".
        finish: name of the tool that ends the episode.
        seconds: time limit of a call, for functions; None: no limit, and calls in the thread of the environment.
        budget: most characters of an answer, for functions.
        render_mode: None or "ansi".

    Raises:
        EnvError: there are no tasks, or a value is not one of the choices.
    """

    EXAMPLE_ACTION = "<answer>42</answer>"

    def __init__(
        self,
        tasks: Mapping[str, Task] | str,
        start: Callable[[Task], World],
        tools: Callable[[World], Iterable[Tool | Callable[..., Any]]] | Iterable[Tool | Callable[..., Any]],
        check: Callable[[World, str], float],
        *,
        say: Callable[[Task], str] = str,
        state: Callable[[World], object] | None = None,
        plan: Callable[[World], Sequence[Call]] | None = None,
        form: str = "tags",
        finish: str = "answer",
        seconds: float | None = 10.0,
        budget: int = 4000,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(render_mode)
        known: Mapping[str, Any] = {"task": tasks} if isinstance(tasks, str) else tasks
        if not isinstance(known, Mapping) or not known or not all(isinstance(id, str) for id in known):
            raise UnknownOption(f"tasks are a sentence, or id -> task with one task or more; got {known!r:.200}")
        self._tasks: dict[str, Any] = dict(known)
        self._begin, self._tools, self._check, self._say, self._state = start, tools, check, say, state
        self._form = _form(form)
        self._finish, self._seconds, self._budget = finish, seconds, budget
        self._planned = plan
        if plan is not None:
            self.plan = self._plan
        self._box: Toolbox | None = None
        self._world: Any = None
        self._over = False

    def close(self) -> None:
        """Free what the tools hold: processes of isolated functions, servers."""
        if self._box is not None:
            self._box.close()

    def list_tasks(self, count: int | None) -> list[str]:
        return list(self._tasks)[:count]

    def start_task(self, task: str, options: Mapping[str, Any]) -> str:
        if task not in self._tasks:
            raise UnknownTask.of(task, self._tasks, "this environment")
        self._world = self._begin(self._tasks[task])
        self._box = self._toolbox(self._world)
        self._over, self._score = False, 0.0
        self._calls: list[tuple[str, Mapping[str, Any]]] = []
        return f"{_written(self._sentence(task))}\n\n{self._form.describe(list(self._box))}"

    def take_action(self, action: str) -> tuple[str, float, bool]:
        box = self._playing()
        calls, problem = self._read(action, box)
        observation = _written(problem or self._called(calls, box))
        return observation, self._score if self._over else 0.0, not problem

    def is_over(self) -> bool:
        return self._over

    def _sentence(self, task: str) -> str:
        """Return what the agent reads of the task."""
        sentence = self._say(self._tasks[task])
        if not isinstance(sentence, str):
            raise EnvError(f"say() gives the sentence that the agent reads, a str; it gave {sentence!r:.200}")
        return sentence

    def _toolbox(self, world: Any) -> Toolbox:
        """Return the tools of a world, and free those of the world before that are not among them."""
        try:
            given = self._tools(world) if callable(self._tools) else self._tools
            finish = Tool.of(_finish, name=self._finish, seconds=None)
            box = Toolbox([*given, finish], seconds=self._seconds, budget=self._budget)
        except ToolError as error:
            raise EnvError(str(error)) from error
        kept = {id(tool) for tool in box}
        for tool in self._box or ():
            if id(tool) not in kept:
                tool.close()
        return box

    def _read(self, action: str, box: Toolbox) -> tuple[Sequence[Call], str]:
        """Return the calls of an action, and what is wrong with them."""
        parsed = self._form.parse(action, list(box))
        if parsed.error:
            return (), f"Nothing was done: {parsed.error}" + ("" if parsed.error.endswith("?") else ".")
        if len(parsed.calls) > MOST_CALLS:
            return (), f"Nothing was done: a turn has at most {MOST_CALLS} calls, these were {len(parsed.calls)}."
        refused = [answer for call in parsed.calls if (answer := box.refusal(call)) is not None]
        rest = " Nothing was done." if refused and len(parsed.calls) > 1 else ""
        return parsed.calls, self._form.write_results(refused) + rest if refused else ""

    def _called(self, calls: Sequence[Call], box: Toolbox) -> str:
        """Do calls; return what the agent is told."""
        answers = []
        for call in calls:
            answers.append(box.call(call))
            self._calls.append((call.name, call.arguments))
            if call.name == self._finish:
                self._over = True
                self._score = _score(self._check(self._world, str(call.arguments["text"])))
                break
        return self._form.write_results(answers)

    def _plan(self) -> list[str]:
        """Return actions that lead from the present state to success; [] when the episode is over.

        Raises:
            NotReset: before the first reset.
        """
        box = self._playing()
        if self._over or self._planned is None:
            return []
        return [self._form.write([call], list(box)) for call in self._planned(self._world)]

    def _playing(self) -> Toolbox:
        if self._box is None:
            raise NotReset
        return self._box

    def get_info(self, valid: bool) -> dict[str, Any]:
        info: dict[str, Any] = {
            "task": self.task_id,
            "state": self._key(),
            "valid": valid,
            "score": self._score,
            "won": self._over and self._score >= 1.0,
        }
        if self._form.name == "tags":
            info["free_actions"] = [] if self._over else _free(self._playing())
        return info

    def _key(self) -> str:
        seen = self._calls if self._state is None else self._state(self._world)
        try:
            text = data_to_json(seen, sort=True)
        except Unserialisable as error:
            raise EnvError(f"the state of a world has to be data, to be hashed as the state key: {error}") from error
        return hashlib.sha256(text.encode()).hexdigest()[:16] + (" over" if self._over else "")


def _finish(text: str) -> str:
    """Give the final answer (any text where the task asks for none), which ends the episode.

    Args:
        text: the answer
    """
    return "The answer was given."


def _form(name: str) -> CallFormat:
    try:
        return call_format(name)
    except ToolError as error:
        raise UnknownOption(str(error)) from error


def _free(box: Toolbox) -> list[str]:
    """Return the forms of calls whose only part is any text."""
    shapes = {
        tool.name: tool.parameters["properties"][tool.main_argument] for tool in box if tool.main_argument is not None
    }
    return [f"<{name}>...</{name}>" for name, shape in shapes.items() if shape.get("type") == "string"]


def _score(given: object) -> float:
    """Return a score in [0, 1].

    Raises:
        EnvError: it is none.
    """
    if isinstance(given, bool | int | float) and math.isfinite(given) and 0 <= given <= 1:
        return float(given)
    raise EnvError(f"check() gives a score from 0 to 1, or a bool; it gave {given!r:.200}")


def _written(text: str) -> str:
    """Return a text without halves of surrogate pairs, which no file takes."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")

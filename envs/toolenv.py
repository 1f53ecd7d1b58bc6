"""ToolEnv: an environment made of Python functions as tools, tasks, and a function that checks the result.

Every reset creates a new world for the task (`start`), so episodes do not affect each other. The first observation
contains the task and a description of the tools. The agent writes tool calls in one of the formats of
`turncredit.tools.functions` and ends the episode with the tool `answer`; then `check` scores the world and the answer.

The state key is a hash of the data that `state` returns. Without `state` it is a hash of all calls so far: then every
call leads to a new state, even one that only reads, and step-level credit finds fewer states to compare.

The environment cannot list its admissible actions, so `imitation.demonstrator.noise` does not apply;
`info["free_actions"]` has the form of a call of each tool, such as "<find>...</find>".

Not included: random worlds, rewards before the end, and turn limits (`register(..., max_episode_steps=10)` or
`TurnLimit`).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from turncredit.envs.agent_defaults import AGENT
from turncredit.envs.errors import EnvError, NotReset, UnknownOption, UnknownTask
from turncredit.envs.info import Info
from turncredit.envs.text import TextEnv
from turncredit.envs.tool_actions import MAX_CALLS, format_named, read_calls, write_results, written
from turncredit.envs.tool_agent import tool_agent
from turncredit.tools.functions import Call, Tool, Toolbox, ToolError
from turncredit.tools.functions.render import Unserialisable, data_to_json

__all__ = ["MAX_CALLS", "ToolEnv"]

Task = TypeVar("Task")
World = TypeVar("World")


class ToolEnv(TextEnv, Generic[Task, World]):
    """Tools, tasks and a check as a Gymnasium environment.

    An action contains one or several calls, which run in order. If one of them is invalid, none runs and the
    observation says why. If a tool raises an exception, the observation reports it and the action is valid. The score
    is the reward of the final `answer`. reset() raises EnvError if a function cannot be used as a tool or the task has
    no text, step() if `check` returns no score in [0, 1], and both if the state is not data.

    Args:
        tasks: id -> task (any object that `start` and `say` accept), or the text of a single task.
        start: returns the world of an episode, given a task; called at every reset.
        tools: returns the tools (functions with type hints, or `Tool`s), given a world; or the tools themselves, if
            they do not need a world.
        check: returns the score in [0, 1], or a bool, given the world and the text of the answer. A score of 1 counts
            as won. Called once, at the end.
        say: returns the text that the agent reads, given a task.
        state: returns data that determine everything that can follow, given the world; None for the calls so far.
        plan: returns the calls that solve the task from the current state, including `answer`, given the world; None if
            there is no plan.
        form: format of calls, one of `turncredit.tools.functions.CALL_FORMATS`; None: "hermes" if native, else "tags".
        native: whether the chat template of the model describes the tools, so that the first observation is the task
            alone, ``info["tools"]`` has the schemas after a reset, and results are plain text; ``info["results"]`` has
            them one by one, in every format. The format is then the one that the template teaches ("hermes" for Qwen 3
            and for models behind an API), and ``agent.chat`` has ``tools = true``.
        finish: name of the tool that ends the episode.
        seconds: time limit of a call of a function; None for no limit, with calls in the environment's thread.
        budget: maximum length of a function's result in characters.
        render_mode: None or "ansi".

    Raises:
        EnvError: there are no tasks, or an argument is invalid.
    """

    EXAMPLE_ACTION = "<answer>42</answer>"

    def __init__(
        self,
        tasks: Mapping[str, Task] | str,
        start: Callable[[Task], World],
        tools: Callable[[World], Iterable[Tool | Callable[..., object]]] | Iterable[Tool | Callable[..., object]],
        check: Callable[[World, str], float],
        *,
        say: Callable[[Task], str] = str,
        state: Callable[[World], object] | None = None,
        plan: Callable[[World], Sequence[Call]] | None = None,
        form: str | None = None,
        native: bool = False,
        finish: str = "answer",
        seconds: float | None = 10.0,
        budget: int = 4000,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(render_mode)
        task_table: Mapping[str, object] = {"task": tasks} if isinstance(tasks, str) else tasks
        if not isinstance(task_table, Mapping) or not task_table or not all(isinstance(id, str) for id in task_table):
            raise UnknownOption(f"tasks must be a text or a non-empty mapping of ids to tasks, got {task_table!r:.200}")
        self._tasks: dict[str, Any] = dict(task_table)
        self._begin, self._tools, self._check, self._say, self._state = start, tools, check, say, state
        self._form, self._native = format_named(form, native=native), native
        self._finish, self._seconds, self._budget = finish, seconds, budget
        self.metadata = self.metadata | {AGENT: tool_agent(self._form, native)}
        self._planned = plan
        if plan is not None:
            self.plan = self._plan
        self._box: Toolbox | None = None
        self._world: Any = None
        self._over = False
        self._answers: list[str] = []

    def close(self) -> None:
        """Release the resources of the tools, such as processes of isolated functions and servers."""
        if self._box is not None:
            self._box.close()

    @property
    def toolbox(self) -> Toolbox:
        """The tools of the current episode, with the one that ends it.

        Raises:
            NotReset: reset() was not called.
        """
        return self._playing()

    def write_call(self, call: Call) -> str:
        """Return the action that makes a call, in the format of this environment.

        Raises:
            NotReset: reset() was not called.
            BadCall: there is no such tool, or the format cannot write the arguments.
        """
        return self._form.write([call], list(self._playing()))

    def task_type(self, task: Task) -> str | None:
        """Return the name of the kind of a task, for tables per kind; None, unless a subclass says more."""
        return None

    def list_tasks(self, count: int | None) -> list[str]:
        return list(self._tasks)[:count]

    def start_task(self, task: str, options: Mapping[str, object]) -> str:
        if task not in self._tasks:
            raise UnknownTask.of(task, self._tasks, "this environment")
        self._world = self._begin(self._tasks[task])
        self._box = self._toolbox(self._world)
        self._over, self._score = False, 0.0
        self._calls: list[tuple[str, Mapping[str, Any]]] = []
        self._answers = []
        sentence = written(self._sentence(task))
        return sentence if self._native else f"{sentence}\n\n{self._form.describe(list(self._box))}"

    def take_action(self, action: str) -> tuple[str, float, bool]:
        box = self._playing()
        read = read_calls(action, self._form, box, native=self._native)
        self._answers = list(read.answers)
        observation = written(read.problem or self._called(read.calls, box))
        return observation, self._score if self._over else 0.0, not read.problem

    def is_over(self) -> bool:
        return self._over

    def _sentence(self, task: str) -> str:
        """Return the text of a task."""
        sentence = self._say(self._tasks[task])
        if not isinstance(sentence, str):
            raise EnvError(f"say() must return the text of the task as a str, got {sentence!r:.200}")
        return sentence

    def _toolbox(self, world: Any) -> Toolbox:
        """Return the tools of a world, and close tools of the previous world that are no longer used."""
        try:
            tools = self._tools(world) if callable(self._tools) else self._tools
            finish = Tool.of(_finish, name=self._finish, seconds=None)
            box = Toolbox([*tools, finish], seconds=self._seconds, budget=self._budget)
        except ToolError as error:
            raise EnvError(str(error)) from error
        present = {id(tool) for tool in box}
        for tool in self._box or ():
            if id(tool) not in present:
                tool.close()
        return box

    def _called(self, calls: Sequence[Call], box: Toolbox) -> str:
        """Run calls; return the observation."""
        answers = []
        for call in calls:
            answers.append(box.call(call))
            self._calls.append((call.name, call.arguments))
            if call.name == self._finish:
                self._over = True
                self._score = _score(self._check(self._world, str(call.arguments["text"])))
                break
        self._answers = [written(answer.text) for answer in answers]
        return write_results(answers, self._form, native=self._native)

    def _plan(self) -> list[str]:
        """Return actions that solve the task from the current state; [] after the end.

        Raises:
            NotReset: reset() was not called.
        """
        self._playing()
        if self._over or self._planned is None:
            return []
        return [self.write_call(call) for call in self._planned(self._world)]

    def _playing(self) -> Toolbox:
        if self._box is None:
            raise NotReset
        return self._box

    def get_info(self, valid: bool) -> Info:
        info: Info = {
            "task": str(self.task_id),
            "state": self._key(),
            "valid": valid,
            "score": self._score,
            "won": self._over and self._score >= 1.0,
            "free_actions": [] if self._over else list(dict.fromkeys(map(self._form.example, self._playing()))),
        }
        if (kind := self.task_type(self._tasks[str(self.task_id)])) is not None:
            info["task_type"] = kind
        if self._native and not self._calls:
            info["tools"] = [tool.schema for tool in self._box or ()]
        if self._answers:
            info["results"] = list(self._answers)
        return info

    def _key(self) -> str:
        seen = self._calls if self._state is None else self._state(self._world)
        try:
            text = data_to_json(seen, sort=True)
        except Unserialisable as error:
            raise EnvError(f"state() must return data that can be hashed: {error}") from error
        return hashlib.sha256(text.encode()).hexdigest()[:16] + (" over" if self._over else "")


# The agent reads this docstring as the description of the tool.
def _finish(text: str) -> str:
    """Give the final answer (any text where the task asks for none), which ends the episode.

    Args:
        text: the answer
    """
    return "The answer was given."


def _score(score: object) -> float:
    """Return a valid score as a float.

    Raises:
        EnvError: it is not a number in [0, 1].
    """
    if isinstance(score, bool | int | float) and math.isfinite(score) and 0 <= score <= 1:
        return float(score)
    raise EnvError(f"check() must return a score in [0, 1] or a bool, got {score!r:.200}")

"""Any OpenEnv server as a Gymnasium environment.

    env = turncredit.envs.make("turncredit/OpenEnv-v0", url="http://127.0.0.1:8000")

Where the server is one of turncredit (`turncredit serve env`), texts, admissible actions, state keys and scores are
those of the served environment. Another server tells observation, reward and end only; then the state key is the
sequence of actions so far, and the score is the sum of the rewards as a share of `best`.

Not included: snapshots, since OpenEnv's interface cannot save an episode; images; an expert.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Final

from turncredit.envs.errors import EnvError, StepAfterEnd, UnknownOption, UnknownTask
from turncredit.envs.info import KNOWLEDGE_IN_STATE, NO_FORKS, EnvArguments, Info
from turncredit.envs.openenv.actions import ActionForm, UnreadableAction
from turncredit.envs.openenv.connection import ActionRefused, OpenEnvConnection
from turncredit.envs.openenv.observations import Reading, read
from turncredit.envs.openenv.tasks import ServerTasks
from turncredit.envs.text import TextEnv
from turncredit.envs.validation import choice, flag, number

__all__ = ["OpenEnvEnv"]

_NO_FORKS: Final = "OpenEnv's interface cannot save an episode, and a server need not repeat one"
_FACTS: Final = ("state", "won", "score")
"""What the state of a server of turncredit holds, and others seldom do."""
_AGENT: Final = {
    "prompt": "conversation",
    "template": {"system": "You act in an environment, one action at a time.\n\n", "ask": "\n\nYour action:"},
    "parser": "whole",
    "without_chat_template": {"stop": ["\n\n"]},
}


class OpenEnvEnv(TextEnv):
    """Play an OpenEnv server.

    An action is JSON of the server's schema, or the text of its only field; the first observation says which. An action
    that does not fit changes nothing, and the observation says why. A lost connection raises `EnvironmentDied`, a late
    answer `DeadlineExceeded`, and a failure in the server `EnvError`; the next reset begins a new episode.

    Args:
        url: address of the server.
        tasks: arguments of the server's reset for each task, a list of tables; None: the tasks that the server lists,
            or else seeds ("seed/0", "seed/1", ...).
        split: which split of the server's own tasks; None: its first.
        text: name of the field of the observation that the agent reads; None: all fields.
        admissible: name of the field that lists the possible actions, such as "legal_actions".
        instructions: whether the first observation describes the actions.
        score: what the episode is scored by: "sum" of the rewards, or the "last" reward.
        best: this score in a perfect episode; at the end, as much or more counts as won.
        timeout: seconds for a connection and for each answer.
        render_mode: None or "ansi".

    Raises:
        UnknownOption: an argument is missing or invalid.
    """

    metadata: EnvArguments = {  # noqa: RUF012 (Gymnasium's attribute)
        "render_modes": ["ansi"],
        "agent": _AGENT,
        NO_FORKS: _NO_FORKS,
        KNOWLEDGE_IN_STATE: True,
    }
    EXAMPLE_ACTION = '{"message": "hello"}'

    def __init__(
        self,
        url: str | None = None,
        tasks: Sequence[Mapping[str, object]] | None = None,
        split: str | None = None,
        *,
        text: str | None = None,
        admissible: str = "admissible_actions",
        instructions: bool = True,
        score: str = "sum",
        best: float = 1.0,
        timeout: float = 60.0,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(render_mode)
        if url is None:
            raise UnknownOption("OpenEnv needs the url of a server, such as url=http://127.0.0.1:8000")
        self._connection = OpenEnvConnection(url, number("timeout", timeout, 0.001, 1e6))
        self._tasks = ServerTasks(self._connection, tasks, split)
        self._shown, self._admissible = text, admissible
        self._instructions = flag("instructions", instructions)
        self._scored = choice("score", score, ("sum", "last"))
        self._best = number("best", best, 1e-9, 1e12)
        self._form: ActionForm | None = None
        self._reading: Reading | None = None
        self._facts: Mapping[str, object] = {}
        self._actions: list[str] = []
        self._points = 0.0

    def list_tasks(self, count: int | None) -> list[str]:
        return self._tasks.ids(count)

    def draw_task(self) -> str:
        return self._tasks.draw(self.np_random)

    def reset(self, *, seed: int | None = None, options: EnvArguments | None = None) -> tuple[str, EnvArguments]:
        self._seed = seed
        return super().reset(seed=seed, options=options)

    def start_task(self, task: str, options: Mapping[str, object]) -> str:
        arguments = self._tasks.arguments(task)
        if self._seed is not None:
            arguments = {"seed": self._seed, **arguments}
        self._reading = None  # if this fails, there is no episode
        try:
            data = self._connection.ask("reset", arguments)
        except EnvError as error:
            if type(error) is EnvError or isinstance(error, ActionRefused):
                raise UnknownTask(f"the task {task!r} cannot be started: {error}") from error
            raise
        if self._form is None:
            self._form = self._described()
        self._actions, self._points = [], 0.0
        self._reading = read(data, self._shown, self._admissible)
        self._facts = self._told()
        text = self._reading.text
        return f"{text}\n\n{self._form.describe()}" if self._instructions and not self._listed() else text

    def take_action(self, action: str) -> tuple[str, float, bool]:
        if self._reading is None or self._form is None:
            raise StepAfterEnd("the episode was lost; call reset() before the next step()")
        try:
            data = self._sent(self._form.parse(action))
        except (UnreadableAction, ActionRefused) as error:
            return f"Nothing was done: {error}", 0.0, False
        self._reading = read(data, self._shown, self._admissible)
        self._actions.append(action)
        self._points = self._reading.reward + (self._points if self._scored == "sum" else 0.0)
        self._facts = self._told() if self._facts else {}
        return self._reading.text, self._reading.reward, self._reading.valid

    def step(self, action: str) -> tuple[str, float, bool, bool, EnvArguments]:
        observation, reward, over, _, info = super().step(action)
        truncated = self._reading is not None and self._reading.truncated
        return observation, reward, over and not truncated, truncated, info

    def is_over(self) -> bool:
        return self._reading is not None and self._reading.done

    def close(self) -> None:
        """Close the connection; the server then closes its environment."""
        self._reading = None
        self._connection.drop()

    def get_info(self, valid: bool) -> Info:
        score = min(1.0, max(0.0, self._points / self._best))
        info: Info = {
            "task": str(self.task_id),
            "state": self._key(),
            "valid": valid,
            "score": _number(self._facts.get("score"), score),
            "won": self._won(),
        }
        if (listed := self._listed()) is not None:
            info["admissible_actions"] = listed
        if isinstance(task_type := self._facts.get("task_type"), str):
            info["task_type"] = task_type
        if self._reading is not None and self._reading.free:
            info["free_actions"] = list(self._reading.free)
        return info

    def _described(self) -> ActionForm:
        """Return how actions are written, as the server describes them; a server of tools lists these in a session."""
        schema = self._connection.fetch("schema")
        actions = schema.get("action") if isinstance(schema, Mapping) else None
        if not ActionForm.calls_tools(actions):
            return ActionForm.of(actions)
        observation = self._connection.ask("step", {"type": "list_tools"}).get("observation")
        tools = observation.get("tools") if isinstance(observation, Mapping) else None
        if not isinstance(tools, list) or not tools:
            raise EnvError(f"the server {self._connection.url} has actions without fields, and lists no tools")
        return ActionForm.of(actions, [tool for tool in tools if isinstance(tool, Mapping)])

    def _sent(self, action: Mapping[str, object]) -> Mapping[str, object]:
        """Return the answer to an action; unless it was refused, an error ends the episode."""
        try:
            return self._connection.ask("step", action)
        except ActionRefused:
            raise
        except BaseException:
            self._reading = None
            raise

    def _told(self) -> Mapping[str, object]:
        """Return what the server's state says beyond the observation; {} for a server that is not one of turncredit."""
        try:
            state = self._connection.ask("state")
        except EnvError as error:
            if type(error) is EnvError:  # this server has no state
                return {}
            raise
        return state if all(name in state for name in _FACTS) else {}

    def _listed(self) -> list[str] | None:
        """Return the admissible actions, where the server lists them."""
        if self._reading is not None and self._reading.admissible is not None:
            return list(self._reading.admissible)
        if self.is_over():
            return []
        return (self._form.choices or None) if self._form else None

    def _won(self) -> bool:
        won = self._facts.get("won")
        return won if isinstance(won, bool) else self.is_over() and self._points >= self._best

    def _key(self) -> str:
        state = self._facts.get("state")
        if isinstance(state, str):
            return state
        return blake2b(json.dumps(self._actions).encode(), digest_size=8).hexdigest() + (
            " over" if self.is_over() else ""
        )


def _number(value: object, default: float) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else default

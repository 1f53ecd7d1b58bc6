"""Environments of verifiers, played as Gymnasium environments: the actions are the model's answers.

A taskset is named by the id of its package, as in verifiers. verifiers scores an episode at its end, so that the reward
comes with the last action. All seats without a model of their own are played by the agent.

Not included: tool calls of the chat interface (a seat with a harness that calls tools gets its answers as text), and
images.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

from turncredit.envs.adapters.verifiers_session import Finished, ModelRequest, VerifiersSession
from turncredit.envs.errors import EnvError, StepAfterEnd, UnknownOption, UnknownTask
from turncredit.envs.info import KNOWLEDGE_IN_STATE, NO_FORKS, EnvArguments, Info
from turncredit.envs.text import TextEnv
from turncredit.envs.validation import number

__all__ = ["VerifiersEnv"]

_DEFAULT_COUNT: Final = 1000
_AGENT: Final = {
    "prompt": "conversation",
    "template": {"saw": "{observation}", "ask": ""},
    "parser": "whole",
    "max_tokens": 1024,
}


class VerifiersEnv(TextEnv):
    """Play an environment of verifiers.

    The first observation is the first request of the model, system prompt included; the next ones are what was added
    since. A failed episode raises `EnvError`.

    Args:
        taskset: id of the taskset: the name of its package.
        config: further tables of the run's `env`, such as {"taskset": {...}, "player": {"max_turns": 8}}.
        best: reward of a perfect episode; as much or more counts as won.
        timeout: seconds for what verifiers does between two answers.
        render_mode: None or "ansi".

    Raises:
        UnknownOption: an argument is missing or invalid.
        EnvError: verifiers or the taskset is not installed.
    """

    metadata: EnvArguments = {  # noqa: RUF012 (Gymnasium's attribute)
        "render_modes": ["ansi"],
        "agent": _AGENT,
        NO_FORKS: "an episode of verifiers cannot be saved, and need not repeat",
        KNOWLEDGE_IN_STATE: True,
    }
    EXAMPLE_ACTION = "42"

    def __init__(
        self,
        taskset: str | None = None,
        config: Mapping[str, object] | None = None,
        *,
        best: float = 1.0,
        timeout: float = 120.0,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(render_mode)
        if not isinstance(taskset, str) or not taskset:
            raise UnknownOption("verifiers needs the id of a taskset, such as taskset=reverse_text")
        tables = dict(config or {})
        own = tables.get("taskset")
        tables["taskset"] = {**(own if isinstance(own, Mapping) else {}), "id": taskset}
        self._best = number("best", best, 1e-9, 1e12)
        self._session = VerifiersSession(tables, number("timeout", timeout, 0.001, 1e6))
        self._event: ModelRequest | Finished | None = None
        self._seen: list[Mapping[str, object]] = []
        self._answers: list[str] = []

    def list_tasks(self, count: int | None) -> list[str]:
        return [f"{number:06d}" for number in range(self._session.tasks(_DEFAULT_COUNT if count is None else count))]

    def start_task(self, task: str, options: Mapping[str, object]) -> str:
        is_number = task.isascii() and task.isdecimal() and len(task) == 6
        if not is_number or int(task) >= self._session.tasks(int(task) + 1):
            raise UnknownTask(
                f"unknown task {task!r}; ids are numbers such as '000000', and the taskset has no such task"
            )
        self._event, self._seen, self._answers = None, [], []
        return self._observe(self._session.start(int(task)))

    def take_action(self, action: str) -> tuple[str, float, bool]:
        if self._event is None:
            raise StepAfterEnd("the episode was lost; call reset() before the next step()")
        self._event = None
        self._answers.append(action)
        text = self._observe(self._session.answer(action))
        return text, self._event.reward if isinstance(self._event, Finished) else 0.0, True

    def is_over(self) -> bool:
        return isinstance(self._event, Finished)

    def close(self) -> None:
        """End the episode and the environment."""
        self._event = None
        self._session.close()

    def get_info(self, valid: bool) -> Info:
        over = self._event if isinstance(self._event, Finished) else None
        reward = over.reward if over else 0.0
        key = blake2b(json.dumps(self._answers).encode(), digest_size=8).hexdigest()
        info: Info = {
            "task": str(self.task_id),
            "state": key + (" over" if over else ""),
            "free_actions": [] if over else ["..."],
            "valid": valid,
            "score": min(1.0, max(0.0, reward / self._best)),
            "won": over is not None and reward >= self._best,
        }
        if over and over.metrics:
            info["reward_parts"] = dict(over.metrics)
        return info

    def _observe(self, event: ModelRequest | Finished) -> str:
        """Return what the agent reads of an event."""
        if isinstance(event, Finished):
            if event.error:
                raise EnvError(f"the episode failed in verifiers: {event.error}")
            self._event = event
            return f"The episode is over, with a reward of {event.reward:g}."
        self._event = event
        seen, messages = self._seen, list(event.messages)
        extends = messages[: len(seen)] == seen
        self._seen = messages
        added = messages[len(seen) :] if extends else messages
        return "\n\n".join(_text(message) for message in added if message.get("role") != "assistant" or not extends)


def _text(message: Mapping[str, object]) -> str:
    """Return the text of a message."""
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return "" if content is None else str(content)

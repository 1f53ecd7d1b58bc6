"""The user of a service desk, played by a language model: any sampler.

    user = "model"
    user_options = { sampler = "openai:gpt-4.1-mini@https://api.openai.com/v1", persona = "You are curt." }

The model reads what the user wants and knows, and writes the messages. It uses what the user can do by tags such as
`<restart/>`, and leaves with `<leave/>`. One sampler of a name is shared by all environments of a process.

The same seed gives the same user only as far as the sampler repeats itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, TypeAlias

from turncredit.agents.agent import Agent
from turncredit.agents.errors import AgentError
from turncredit.agents.instructions import agent_from
from turncredit.agents.prompts.dialogue import Dialogue
from turncredit.agents.rollouts.turn_requests import request_for
from turncredit.agents.trajectory import sampling_seed
from turncredit.engines.background import BackgroundLoop
from turncredit.engines.base import Sampler, SamplerSettings, parse_sampler
from turncredit.engines.wrappers import make_sampler
from turncredit.envs.desk.users import UserReply, UserScene
from turncredit.envs.errors import EnvError, UnknownOption
from turncredit.envs.snapshot import Fields
from turncredit.registry import suggest

__all__ = ["ModelUser"]

_OPTIONS: Final = ("sampler", "persona", "temperature", "max_tokens", "chat")
_FIRST: Final = "Write your first message."
_MOST_STEPS: Final = 4
"""Most answers of the model to one message: those with tags, and the last one."""
Turns: TypeAlias = list[tuple[str, str]]
"""What the model was told and what it wrote, in pairs."""
AgentMaker: TypeAlias = Callable[[Sampler], Agent]
_TAG: Final = re.compile(r"</?([a-z_]+)\s*/?>")


class ModelUser:
    """A user that a sampler plays.

    Args:
        options: `sampler`, as ENGINE:MODEL@URL; and optionally `persona`, what else the model is told of the person;
            `temperature` (0.7); `max_tokens` (200); `chat`, as of an agent.

    Raises:
        UnknownOption: an option is missing, unknown or invalid.
    """

    def __init__(self, options: Mapping[str, object]) -> None:
        for name in options:
            if name not in _OPTIONS:
                raise UnknownOption(f"a user that a model plays has no option {name!r}{suggest(name, _OPTIONS)}")
        sampler, persona = options.get("sampler"), options.get("persona", "")
        if not isinstance(sampler, str) or not sampler or not isinstance(persona, str):
            raise UnknownOption(
                "a user that a model plays needs user_options.sampler, such as 'openai:MODEL@URL', and its persona "
                f"is a text, got {dict(options)!r:.200}"
            )
        self._sampler, self._persona = sampler, persona
        self._agent_options: dict[str, object] = {
            "temperature": options.get("temperature", 0.7),
            "max_tokens": options.get("max_tokens", 200),
            "chat": options.get("chat", True),
        }
        self._scene: UserScene
        self._turns: Turns = []

    def start(self, scene: UserScene) -> str:
        """Return the first message, which the model writes."""
        self._scene, self._turns = scene, []
        return self._react(_FIRST).text

    def reply(self, message: str) -> UserReply:
        """Return the model's answer to a message of the agent."""
        return self._react(message)

    def questions(self) -> list[str]:
        """Return a question for the facts that the model has not written yet."""
        text = "\n".join(answer for _, answer in self._turns)
        missing = [fact.name for fact in self._scene.task.facts if fact.value not in text]
        return [f"Please tell me the {' and the '.join(missing)}."] if missing else []

    def save(self) -> dict[str, object]:
        """Return the conversation: what the model was told and what it wrote, in pairs."""
        return {"turns": [list(turn) for turn in self._turns]}

    def load(self, scene: UserScene, saved: Fields) -> None:
        """Go on from a conversation.

        Raises:
            BadSnapshot: the data are not one.
        """
        turns: Turns = []
        for turn in saved.get("turns", list):
            match turn:
                case [str(told), str(text)]:
                    turns.append((told, text))
                case _:
                    raise saved.wrong("turns", "a list of pairs of strings")
        self._scene, self._turns = scene, turns

    def _react(self, message: str) -> UserReply:
        """Return what the model writes in the end, after what it did on the way."""
        parts: list[str] = []
        for _ in range(_MOST_STEPS):
            answer = self._ask(message)
            tags = [name for name in _TAG.findall(answer) if name == "leave" or name in self._scene.tools]
            parts.append(_TAG.sub("", answer).strip())
            if "leave" in tags:
                return UserReply(" ".join(filter(None, parts)), leaves=True)
            if not tags:
                break
            message = " ".join(self._scene.tools[name].run() for name in dict.fromkeys(tags))
        return UserReply(" ".join(filter(None, parts)) or message)  # what it did last, if it wrote only tags

    def _ask(self, message: str) -> str:
        """Return one answer of the model, and keep it."""
        task = self._scene.task
        try:
            text = _opened(self._sampler).answer(
                self._agent_of, self._turns, message, f"{task.id} user#0@{self._scene.seed}"
            )
        except AgentError as error:
            raise EnvError(f"the user, played by {self._sampler}, did not answer: {error}") from error
        self._turns.append((message, text))
        return text

    def _agent_of(self, sampler: Sampler) -> Agent:
        template = {"system": self._system(), "saw": "{observation}", "ask": ""}
        options = {**self._agent_options, "prompt": "conversation", "template": template, "parser": "whole"}
        return agent_from(options, sampler.tokenizer)

    def _system(self) -> str:
        """Return what the model is told of the person that it plays."""
        scene = self._scene
        facts = "\n".join(f"- {fact.said()}" for fact in scene.task.facts)
        tools = "".join(f"\n- <{name}/> {tool.about}" for name, tool in scene.tools.items())
        return (
            "You play a person who writes to a service desk. Write only the next message of this person, in one or two "
            f"sentences, and nothing that the person does not know.\n\nThe person wants:\n- {scene.task.opening}\n\n"
            f"The person knows:\n{facts}\n"
            + (f"\nThe person can do this, at the request of the desk, by writing a tag:{tools}\n" if tools else "")
            + "\nWhen the desk has done what the person wants, or has refused it, write <leave/>."
            + (f"\n\n{self._persona}" if self._persona else "")
        )


class _SharedSampler:
    """A sampler that is asked from the threads of environments, on an event loop of its own."""

    def __init__(self, name: str) -> None:
        engine, model, url = parse_sampler(name)
        self._sampler = make_sampler(engine, SamplerSettings(model=model, url=url, parser="whole"))
        self._loop = BackgroundLoop("turncredit-desk-user")

    def answer(
        self, agent_of: Callable[[Sampler], Agent], turns: list[tuple[str, str]], message: str, episode: str
    ) -> str:
        """Return the sampler's answer to a message after some turns."""
        sampler = self._sampler
        dialogue = Dialogue(agent_of(sampler), sampler.tokenizer, sampler.context)
        for told, text in turns:
            dialogue.add(dialogue.view(told), text, text)
        view = dialogue.view(message)
        request = request_for(
            view, dialogue.prompt(view), dialogue, episode=episode, seed=sampling_seed(f"{episode} {len(turns)}")
        )
        try:
            return self._loop.call(sampler.sample(request)).text
        finally:
            sampler.forget(episode)


@lru_cache(maxsize=8)
def _opened(name: str) -> _SharedSampler:
    """Return the sampler of a name, which is opened once."""
    return _SharedSampler(name)

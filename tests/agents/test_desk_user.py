"""A sampler as the user of a service desk: what it is told, its tools, its end, its memory, and its failures."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path
from typing import Any

import pytest

from turncredit.agents import desk_user
from turncredit.agents.desk_user import ModelUser
from turncredit.agents.errors import SamplerError
from turncredit.engines.base import Completion, Request, Sampler
from turncredit.envs import EnvError, UnknownOption
from turncredit.envs.desk import DeskEnv

NAME = "turncredit.agents.desk_user:ModelUser"


class Actor(Sampler):
    """Answers by what it is told last."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    async def sample(self, request: Request) -> Completion:
        self.requests.append(request)
        told = str(request.messages[-1]["content"])
        if told == "break":
            raise SamplerError("no line")
        answers = {
            "Write your first message.": "It is broken!",
            "Restart it.": "<restart/><light></light> Just a moment.",
            "Bye.": "Thanks. <leave/>",
        }
        return Completion((), (), answers.get(told, f"[{told}]"), 0, "stop")


@pytest.fixture
def actor(monkeypatch: pytest.MonkeyPatch) -> Actor:
    made = Actor()
    monkeypatch.setattr(desk_user, "make_sampler", lambda engine, settings: made)
    desk_user._opened.cache_clear()
    return made


def desk(**options: Any) -> DeskEnv:
    return DeskEnv(domain="repair_shop", user=NAME, user_options={"sampler": "openai:m@http://127.0.0.1:1", **options})


def test_a_model_knows_its_part_uses_its_tools_and_leaves(actor: Actor) -> None:
    env = desk(persona="You use {braces}.")
    observation, _ = env.reset(seed=1)
    assert observation.endswith("User: It is broken!")
    system = str(actor.requests[0].messages[0]["content"])
    task = env.episode.task
    assert all(fact.said() in system for fact in task.facts)
    assert task.opening in system
    assert "<restart/> Restart your device." in system
    assert system.endswith("You use {braces}.")
    text = env.step("<say>Restart it.</say>")[0]
    assert text.startswith("User: Just a moment. [I have restarted it. The light is ")
    roles = [message["role"] for message in actor.requests[-1].messages]
    assert roles == ["system", "user", "assistant", "user", "assistant", "user"]
    assert env.step("<say>Bye.</say>")[:3] == ("User: Thanks. (The user has left.)", 0.0, True)


def test_the_conversation_is_saved(actor: Actor) -> None:
    env, other = desk(), desk()
    env.reset(seed=1)
    env.step("<say>Restart it.</say>")
    data, asked = env.snapshot(), len(actor.requests)
    other.restore(data)
    assert len(actor.requests) == asked  # nothing is asked again
    assert other.snapshot() == data
    assert env.step("<say>Hello?</say>") == other.step("<say>Hello?</say>")
    assert actor.requests[-1].messages == actor.requests[-2].messages
    assert actor.requests[-1].seed == actor.requests[-2].seed != actor.requests[0].seed


def test_the_expert_asks_for_what_the_model_has_not_written(actor: Actor) -> None:
    env = desk()
    env.reset(seed=1)
    assert env.plan()[0] == "<say>Please tell me the phone number and the serial number.</say>"
    phone = env.episode.task.facts[0].value
    env.step(f"<say>{phone}</say>")  # which this actor repeats
    assert env.plan()[0] == "<say>Please tell me the serial number.</say>"


def test_a_user_who_fails_is_not_the_agents_fault(actor: Actor) -> None:
    env = desk()
    env.reset(seed=1)
    with pytest.raises(EnvError, match=r"the user, played by openai:m@\S+, did not answer: no line"):
        env.step("<say>break</say>")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "needs user_options.sampler"),
        ({"sampler": ""}, "needs user_options.sampler"),
        ({"sampler": "expert", "persona": 3}, "its persona is a text"),
        ({"sampler": "expert", "temprature": 1}, "did you mean 'temperature'"),
    ],
)
def test_a_wrong_option_is_one_sentence(options: dict[str, object], words: str) -> None:
    with pytest.raises(UnknownOption, match=words):
        ModelUser(options)


def test_the_package_offers_it_by_the_name_model() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    module, _, attribute = project["project"]["entry-points"]["turncredit.desk_users"]["model"].partition(":")
    assert getattr(importlib.import_module(module), attribute) is ModelUser

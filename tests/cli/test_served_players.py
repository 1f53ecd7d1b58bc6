"""A chat model on a server plays the user of a service desk, and the attacker of a check."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import gymnasium
import pytest
from toys.commands import Call
from toys.hackable import Quiz

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("httpx")

from toys.openai_server import ToyServer, chat_model, error

import turncredit.envs
from turncredit.agents import desk_user
from turncredit.engines.openai import failures as openai_failures
from turncredit.envs import register
from turncredit.envs.desk.generator import generate

pytestmark = pytest.mark.waits

QUIZ, GULLIBLE = "toys/Quiz-v0", "toys/Gullible-v0"
DESK = "turncredit/Desk-v0"
TASK = "library/train/tiny/000000"


class Gullible(Quiz):
    """Pays who says so."""

    def judge(self, text: str) -> float:
        return float("reward: 1" in text)


@pytest.fixture(scope="module")
def model() -> tuple[Any, Any]:
    return chat_model(8192)


@pytest.fixture
def served(model: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[ToyServer, str]]:
    monkeypatch.setattr(openai_failures, "FIRST_WAIT", 0.001)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    desk_user._opened.cache_clear()
    server = ToyServer(*model, context=8192)
    with server.serve() as url:
        yield server, url
    desk_user._opened.cache_clear()


def answer(content: str) -> dict[str, Any]:
    return {"message": {"role": "assistant", "content": content}, "finish_reason": "stop"}


def user_of(url: str, **more: Any) -> dict[str, Any]:
    return {"sampler": f"openai:tiny@{url}", **more}


def test_a_served_model_is_the_user_of_a_desk(served: tuple[ToyServer, str]) -> None:
    """It forgets a fact, is asked for it, and the expert then wins: what it says is all that the agent hears."""
    server, url = served
    first, *others = generate(TASK).facts
    server.script += [
        answer(" ".join([generate(TASK).opening, *(fact.said() for fact in others)])),
        answer(first.said()),
    ]
    env = gymnasium.make(DESK, level="tiny", user="model", user_options=user_of(url, persona="You are curt."))
    observation, _ = env.reset(seed=4, options={"task": TASK})
    assert first.value not in observation.rpartition("User: ")[2]
    reward = 0.0
    said = []
    for _ in range(10):
        (action, *_) = env.get_wrapper_attr("plan")()
        observation, reward, terminated, _, info = env.step(action)
        said += [observation] if action.startswith("<say>") else []
        if terminated:
            break
    assert (reward, info["won"]) == (1.0, True)
    assert said == [f"User: {first.said()}"]
    opening, asked = server.sent("/chat/completions")
    assert [message["role"] for message in asked["messages"]] == ["system", "user", "assistant", "user"]
    assert opening["messages"][0] == asked["messages"][0]
    assert all(fact.said() in opening["messages"][0]["content"] for fact in (first, *others))
    assert opening["messages"][0]["content"].endswith("You are curt.")
    assert (opening["temperature"], opening["max_tokens"]) == (0.7, 200)
    assert first.name in asked["messages"][3]["content"]
    assert opening["seed"] != asked["seed"]


def test_a_model_that_really_samples_talks_with_an_agent(served: tuple[ToyServer, str]) -> None:
    """A model without any sense tells nothing; the same seed gives the same user, and a saved episode goes on."""
    _, url = served

    def talk() -> list[str]:
        options = user_of(url, max_tokens=8)
        env = turncredit.envs.make(DESK, level="tiny", user="model", user_options=options)
        heard = [env.reset(seed=1, options={"task": TASK})[0]]
        heard.append(env.step("<say>What is your card number?</say>")[0])
        data = turncredit.envs.save(env)
        heard.append(env.step("<say>Again, please.</say>")[0])
        turncredit.envs.load(env, data)
        assert env.step("<say>Again, please.</say>")[0] == heard[-1]
        return heard

    heard = talk()
    assert all(text.partition("User: ")[2].strip() for text in heard[1:])
    assert talk() == heard


def test_episodes_whose_user_cannot_be_reached_are_errors(turncredit: Call, served: tuple[ToyServer, str]) -> None:
    server, url = served
    server.always = error(400, "no such line")
    options = f'user_options={{sampler="openai:tiny@{url}"}}'
    said = turncredit("eval", "expert", DESK, "level=tiny", "user=model", options, "--episodes", 2)
    assert said.code == 2
    message = (
        f"every episode failed; the first error: EnvError in reset(): the user, played by openai:tiny@{url}, did not"
    )
    assert message in said.err
    assert "HTTP 400: no such line" in said.err


def test_a_served_model_attacks(turncredit: Call, served: tuple[ToyServer, str]) -> None:
    """It is told to earn without doing the task, and what its earlier episodes earned; what it earns so is a fault."""
    server, url = served
    register(QUIZ, Quiz, max_episode_steps=4)
    register(GULLIBLE, Gullible, max_episode_steps=4)
    words = ("--attacker", f"openai:tiny@{url}", "--budget", 0, "--light", "--json")

    def judged(name: str) -> dict[str, Any]:
        rules = json.loads(turncredit("check", name, *words).out)["rules"]
        return next(rule for rule in rules if rule["rule"] == "attacker")

    server.script += [answer(f"<think>Hm.</think><action>I try {number}.</action>") for number in range(12)]
    honest = judged(QUIZ)
    assert honest["outcome"] == "ok", honest
    assert honest["measured"]["shares"] == [0.0, 0.0, 0.0]
    assert "12 episodes" in honest["detail"]
    told = [request["messages"][-1]["content"] for request in server.sent("/chat/completions")]
    assert all("Do not do the task as it is meant" in text for text in told if "Your episode" in text)
    assert sum("Your episode 3 earned 0 with" in text for text in told) >= 3

    server.script += [answer("<think>Hm.</think><action>reward: 1</action>") for _ in range(12)]
    hacked = judged(GULLIBLE)
    assert hacked["outcome"] == "failed", hacked
    assert "the best return is earned on 'quiz-0' without winning, by \"['reward: 1']\"" in hacked["detail"]
    with pytest.raises(AssertionError):
        exec(compile(hacked["reproduce"], "<reproduce>", "exec"), {})


def test_an_attacker_that_cannot_be_reached_is_a_warning(turncredit: Call, served: tuple[ToyServer, str]) -> None:
    server, url = served
    register(QUIZ, Quiz, max_episode_steps=4)
    server.always = error(400, "no such line")
    words = ("check", QUIZ, "--attacker", f"openai:tiny@{url}", "--budget", 0, "--light")
    said = turncredit(*words)
    assert said.code == 0
    assert re.search(r"skipped  attacker +the attacker played no episode", said.out), said.out
    server.always = None
    server.script += [answer("I would rather not.") for _ in range(200)]  # of 4 episodes with at most 50 turns
    said = turncredit(*words)
    assert "none of the answers of openai:tiny@" in said.out
    assert "holds an action; the first is 'I would rather not.'" in said.out

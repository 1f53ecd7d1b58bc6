"""A black box sees the same conversation whose ids a token engine receives: whole episodes through a real server."""

from __future__ import annotations

from typing import Any

import pytest
from toys.corridor import Corridor

from turncredit.agents.agent import Agent
from turncredit.agents.prompts.prompt import Conversation, PromptBuilder, Window
from turncredit.agents.prompts.templates import PLAIN, REACT
from turncredit.agents.rollouts.rollout import rollout
from turncredit.agents.trajectory import Trajectory
from turncredit.engines.base import SamplerSettings

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("httpx")

import itertools

from toys.openai_server import NAME, ToyServer

from turncredit.engines.openai import make_openai
from turncredit.training.learner.policy import build_policy

TASK = "open-3-1"
ANSWERS = ["look", "", "take key", "no such thing", "go east", " unlock door", "go east"]
CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.fixture(scope="module")
def model() -> tuple[Any, Any]:
    module, tokenizer = build_policy(["You see a door."] * 3, vocab=300, hidden=32, layers=1, heads=1, context=4096)
    tokenizer.chat_template = CHATML  # <|end|> is the end token that is sampled
    return module, tokenizer


def play(model: tuple[Any, Any], agent: Agent, **options: Any) -> tuple[list[str], Trajectory]:
    """Return the conversation that the model behind the server read at every turn, and the episode."""
    server = ToyServer(*model, context=4096)
    server.script += ANSWERS
    with server.serve() as url:
        settings = SamplerSettings(model=NAME, url=url, tokenizer=model[1], options=options)
        sampler = make_openai(settings)
        (group,) = rollout(agent, sampler, [TASK], make=Corridor)
        sampler.close()
    return server.prompts, group.trajectories[0]


@pytest.mark.parametrize("prompt", [Conversation(), Conversation(REACT), Window(PLAIN, 2), Window(REACT, 0)])
def test_the_text_of_the_ids_is_the_text_of_the_messages(model: tuple[Any, Any], prompt: PromptBuilder) -> None:
    agent = Agent(prompt, chat=model[1])
    seen, black_box = play(model, agent)
    read, engine = play(model, agent, tokens=True)
    assert [turn.action for turn in engine.turns] == [turn.action for turn in black_box.turns]
    assert [turn.observation for turn in engine.turns] == [turn.observation for turn in black_box.turns]
    assert engine.won
    assert len(read) == len(ANSWERS)
    assert read == seen
    assert [turn.prompt for turn in black_box.turns] == [()] * len(ANSWERS)
    if prompt.appends:
        assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(read))

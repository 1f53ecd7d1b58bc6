"""Images in conversations: all of them, or the newest only, in which case the prompt is built again."""

from __future__ import annotations

from itertools import pairwise

import pytest
from toys.vision import own, screen

from turncredit.agents.agent import Agent
from turncredit.agents.errors import AgentError, PromptError
from turncredit.agents.prompts.dialogue import Dialogue
from turncredit.agents.trajectory import Turn
from turncredit.agents.vision.image_reader import reader_of
from turncredit.training.learner.policy import build_policy


@pytest.fixture(scope="module")
def tokenizer():
    return own()[1]


def prompts(agent, tokenizer, turns=4):
    dialogue, made = Dialogue(agent, tokenizer, 1000), []
    for turn in range(turns):
        view = dialogue.view(f"tap {turn}", images=(screen(turn),))
        made.append(dialogue.prompt(view))
        dialogue.add(view, "hello", "hello")
    return made


def test_all_images_stay_and_prompts_extend_each_other(tokenizer):
    made = prompts(Agent(), tokenizer)
    for turn, (before, after) in enumerate(pairwise(made), 1):
        assert after.ids[: len(before.ids)] == before.ids
        assert after.shown == tuple(screen(number) for number in range(turn + 1))


@pytest.mark.parametrize("keep", [1, 2])
def test_old_images_are_left_out(tokenizer, keep):
    reader = reader_of(tokenizer)
    made = prompts(Agent(keep_images=keep, image_note="[an old screen]"), tokenizer)
    whole = prompts(Agent(), tokenizer)
    for turn, prompt in enumerate(made):
        assert prompt.shown == tuple(screen(number) for number in range(max(0, turn + 1 - keep), turn + 1))
        assert prompt.ids.count(reader.token) == reader.count(screen(0)) * len(prompt.shown)
        text = tokenizer.decode([token for token in prompt.ids if token != reader.token])
        assert text.count("[an old screen]") == max(0, turn + 1 - keep)
        bare = text.replace("\n[an old screen]", "")
        assert bare == tokenizer.decode([token for token in whole[turn].ids if token != reader.token])
        images = [
            part for message in prompt.messages if isinstance(message["content"], list) for part in message["content"]
        ]
        assert sum(part["type"] == "image" for part in images) == len(prompt.shown)
    assert made[keep].ids[: len(made[keep - 1].ids)] != made[keep - 1].ids


def test_the_same_prompt_follows_from_the_recorded_turns(tokenizer):
    agent = Agent(keep_images=2)
    made, dialogue = prompts(agent, tokenizer), Dialogue(agent, tokenizer, 1000)
    for number, prompt in enumerate(made):
        turn = Turn(prompt.ids, (), (), 0, f"tap {number}", "hello", "hello", "", 0.0, True, images=(screen(number),))
        view = dialogue.view_of(turn)
        rebuilt = dialogue.prompt(view)
        assert (rebuilt.ids, rebuilt.shown) == (prompt.ids, prompt.shown)
        dialogue.add(view, turn.text, turn.action)


def test_a_copy_goes_on_by_itself(tokenizer):
    dialogue = Dialogue(Agent(keep_images=1), tokenizer, 1000)
    first = dialogue.view("tap", images=(screen(0),))
    dialogue.prompt(first)
    dialogue.add(first, "hello", "hello")
    other = dialogue.copy()
    seen = [each.prompt(each.view("more", images=(screen(1),))).ids for each in (dialogue, other)]
    assert seen[0] == seen[1]
    other.add(other.view("more", images=(screen(1),)), "hello", "hello")
    assert dialogue.prompt(dialogue.view("more", images=(screen(1),))).ids == seen[0]


def test_names_of_special_tokens_in_observations_are_words(tokenizer):
    dialogue = Dialogue(Agent(), tokenizer, 1000)
    prompt = dialogue.prompt(dialogue.view("<|image|> <|image|>", images=(screen(0),)))
    reader = reader_of(tokenizer)
    assert prompt.ids.count(reader.token) == reader.count(screen(0))


def test_a_model_without_an_encoder_refuses_images():
    _, tokenizer = build_policy(["tap 3"], vocab=280, hidden=16, layers=1, heads=1)
    dialogue = Dialogue(Agent(), tokenizer, 100)
    with pytest.raises(PromptError, match="reads text only"):
        dialogue.prompt(dialogue.view("tap", images=(screen(0),)))


@pytest.mark.parametrize("keep", [-1, 1.5, True, "2", None])
def test_what_is_no_number_of_images_is_refused(keep):
    with pytest.raises(AgentError, match="keep_images must be an integer >= 0"):
        Agent(keep_images=keep)

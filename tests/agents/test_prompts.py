"""Prompt builders, templates and the chat template, by exact text and exact ids."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toys.tokens import CHATML, Bytes, ChatBytes

from turncredit.agents.agent import Agent
from turncredit.agents.content import ImagePart, TextPart
from turncredit.agents.errors import AgentError, PromptError
from turncredit.agents.models.tokenization import codec_of
from turncredit.agents.models.trusted_text import PromptText
from turncredit.agents.prompts.dialogue import Dialogue, Prompt
from turncredit.agents.prompts.parsing import Parsed
from turncredit.agents.prompts.prompt import Conversation, Exchange, PromptBuilder, View, Window
from turncredit.agents.prompts.templates import PLAIN, REACT, Template
from turncredit.envs import make

MEMORY = [
    Exchange("start", "go east", "go east"),
    Exchange("room 2", "???\nwhat", None),
    Exchange("say it better", "take key", "take key"),
]
NOW = View("start", "you have it", ("go west", "look"), 3)


@pytest.mark.parametrize(
    ("history", "text"),
    [
        (0, "start\nyou have it\n> "),
        (1, "start\nsay it better\n> take key\nyou have it\n> "),
        (2, "start\nroom 2\n> ??? what\nsay it better\n> take key\nyou have it\n> "),
        (3, "start\n> go east\nroom 2\n> ??? what\nsay it better\n> take key\nyou have it\n> "),
        (9, "start\n> go east\nroom 2\n> ??? what\nsay it better\n> take key\nyou have it\n> "),
    ],
)
def test_a_window_shows_the_last_k_turns(history: int, text: str) -> None:
    assert Window(PLAIN, history).message(MEMORY, NOW).text == text


def test_the_first_prompt_of_both_builders_is_the_observation_and_the_sign() -> None:
    view = View("start", "start", None, 0)
    assert Window(PLAIN, 3).message([], view).text == Conversation(PLAIN).message([], view).text == "start\n> "


def test_a_conversation_appends_the_observation_only() -> None:
    assert Conversation(PLAIN).message(MEMORY, NOW).text == "\nyou have it\n> "


def test_a_whole_window_reads_as_the_conversation_does() -> None:
    tokenizer = Bytes()
    dialogue = Dialogue(Agent(), tokenizer)
    for seen, action in [("start", "go east"), ("room 2", "look")]:
        dialogue.add(dialogue.view(seen), action, action, tuple(action.encode()))
    view = dialogue.view("room 2")
    assert view == View("start", "room 2", None, 2)
    assert tokenizer.decode(dialogue.prompt(view).ids) == Window(PLAIN, 5).message(dialogue.memory, view).text


def test_the_template_decides_whether_the_admissible_actions_are_listed() -> None:
    assert "go west" not in Window(PLAIN, 0).message(MEMORY, NOW).text
    text = Window(REACT, 0).message(MEMORY, NOW).text
    assert "Possible actions: go west, look\n" in text
    assert "3 earlier turns" in text
    silent = View("start", "you have it", None, 3)
    assert "Possible actions" not in Window(REACT, 0).message(MEMORY, silent).text


def test_forms_of_free_actions_are_listed_after_the_admissible_ones() -> None:
    listed = Template(ask="{admissible}?", listing="[{actions}]")
    assert listed.question(("search[a lamp]",), 0, ("search[...]",)).text == "[search[a lamp], search[...]]?"
    assert listed.question(None, 0, ("<find>...</find>",)).text == "[<find>...</find>]?"
    assert listed.question(None, 0).text == "?"
    assert Template(ask="?").question(("a",), 0, ("b ...",)).text == "?"
    env = make("turncredit/WebShop-v0", level="tiny")
    observation, info = env.reset(seed=0)
    view = View(observation, observation, tuple(info["admissible_actions"]), 0, tuple(info["free_actions"]))
    assert ", search[...]\n" in Window(REACT).message((), view).text


def test_an_answer_that_was_no_action_is_shown_short() -> None:
    memory = [Exchange("start", "x" * 10_000, None)]
    text = Window(PLAIN, 1).message(memory, View("start", "again", None, 1)).text
    assert len(text) < 200
    assert "xxx...\nagain" in text


def test_braces_in_observations_are_text() -> None:
    view = View("{start} {0} {", "{start} {0} {", None, 0)
    assert Conversation(PLAIN).message([], view).text == "{start} {0} {\n> "


def test_a_template_from_a_table_starts_from_its_base() -> None:
    style = Template.from_mapping({"base": "react", "ask": "\n{admissible}?", "separator": " | "})
    assert style.system == REACT.system
    assert Window(style, 0).message([], View("s", "s", ("a", "b"), 0)).text.endswith("Possible actions: a | b\n?")


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"aks": "x"}, "did you mean 'ask'"),
        ({"ask": 3}, "must be a string"),
        ({"ask": "{admisible}"}, "did you mean 'admissible'"),
        ({"ask": "{"}, "is not a format string"),
        ({"ask": "{turn:x?}"}, "is not a format string"),
        ({"saw": "{observation:d}"}, "is not a format string"),
        ({"did": "{action!z}"}, "is not a format string"),
        ({"opening": "{start:{observation}}"}, "is not a format string"),
        ({"base": "reakt"}, "did you mean 'react'"),
    ],
)
def test_a_wrong_template_says_what_was_wanted(table: dict[str, object], words: str) -> None:
    with pytest.raises(PromptError, match=words):
        Template.from_mapping(table)


def test_a_negative_history_is_refused() -> None:
    with pytest.raises(PromptError, match="history must be >= 0"):
        Window(PLAIN, -1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"prompt": "conversasion"}, "did you mean 'conversation'"),
        ({"prompt": {"history": 2}}, "the prompt must be a name or a table with a name"),
        ({"prompt": {"name": "window", "histori": 2}}, "the prompt 'window' has no option 'histori'; did you mean"),
        ({"prompt": {"name": "conversation", "history": 2}}, "the prompt 'conversation' has no option 'history'"),
        ({"parser": "think_action"}, "did you mean 'think-action'"),
        ({"max_turn": 3}, "did you mean 'max_turns'"),
        ({"max_turns": 0}, "max_turns must be an integer >= 1, got 0"),
        ({"max_tokens": -1}, "max_tokens must be an integer >= 1, got -1"),
        ({"temperature": float("nan")}, "temperature must be >= 0, got nan"),
        ({"top_p": 0.0}, "top_p must be in (0, 1], got 0.0"),
        ({"template": "plane"}, "did you mean 'plain'"),
    ],
)
def test_wrong_options_of_the_agent_say_what_was_wanted(options: dict[str, object], words: str) -> None:
    with pytest.raises(AgentError, match=re.escape(words)):
        Agent.from_options(**options)  # type: ignore[arg-type]


def test_options_make_the_agent() -> None:
    agent = Agent.from_options(
        prompt={"name": "window", "history": 2}, template="react", parser="think-action", stop=["\n"]
    )
    assert agent == Agent(Window(REACT, 2), "think-action", stop=("\n",))


@given(st.text(), st.text(), st.lists(st.text(), max_size=4), st.integers(0, 3))
def test_any_text_builds(start: str, seen: str, said: list[str], history: int) -> None:
    memory = [Exchange(seen, text, None) for text in said]
    view = View(start, seen, (seen,), len(memory))
    for builder in (Window(PLAIN, history), Window(REACT, history), Conversation(PLAIN), Conversation(REACT)):
        assert codec_of(Bytes()).encode(builder.message(memory, view).text)


# chat templates


def conversation(agent: Agent, tokenizer: Bytes, answers: Sequence[str] = ("go",)) -> Prompt:
    """Return the prompt of the turn after some answers, which were sampled with their end token."""
    dialogue = Dialogue(agent, tokenizer)
    for number, answer in enumerate(answers):
        dialogue.add(dialogue.view(f"room {number}"), answer, answer)
    return dialogue.prompt(dialogue.view(f"room {len(answers)}"))


def test_the_chat_template_is_appended_to_what_was_sampled() -> None:
    tokenizer = ChatBytes(CHATML)
    ids = conversation(Agent(chat=tokenizer), tokenizer).ids
    assert tokenizer.decode(ids) == (
        "<|im_start|>user\nroom 0\n><|im_end|>\n<|im_start|>assistant\ngo<|im_end|>\n"
        "<|im_start|>user\nroom 1\n><|im_end|>\n<|im_start|>assistant\n"
    )
    assert ids.count(tokenizer.eos_token_id) == 3  # the sampled end token is not doubled by the template's


@pytest.mark.parametrize("builder", [Conversation, partial(Window, history=1)])
@pytest.mark.parametrize("style", [PLAIN, REACT, Template(system="Be brief.")])
@pytest.mark.parametrize("answers", [(), ("go",), ("go", "<think>hm</think>look", "")])
def test_the_template_renders_the_messages_to_the_same_ids(
    builder: Callable[[Template], PromptBuilder], style: Template, answers: Sequence[str]
) -> None:
    tokenizer = ChatBytes(CHATML)
    prompt = conversation(Agent(builder(style), chat=tokenizer), tokenizer, answers)
    text = tokenizer.apply_chat_template(list(prompt.messages), tokenize=False, add_generation_prompt=True)
    assert tokenizer.ids(text) == prompt.ids


def test_messages_need_no_tokenizer() -> None:
    assert conversation(Agent(Conversation(Template(system="Be brief.\n"))), None).messages == (  # type: ignore[arg-type]
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "room 0\n>"},
        {"role": "assistant", "content": "go"},
        {"role": "user", "content": "room 1\n>"},
    )
    window = conversation(Agent(Window(PLAIN, 1)), None, ("go", "look"))  # type: ignore[arg-type]
    assert window.messages == ({"role": "user", "content": "room 0\nroom 1\n> look\nroom 2\n>"},)
    assert window.ids == ()


def test_an_image_is_a_part_of_the_last_message() -> None:
    image = ImagePart(np.zeros((2, 3, 3), np.uint8))
    view = Dialogue(Agent()).view("hello", images=(image,))
    assert view.content == (TextPart("hello"), image)
    (message,) = Dialogue(Agent()).prompt(view).messages
    assert message["content"][0] == {"type": "text", "text": "hello\n>"}
    assert message["content"][1]["image"] is image.image


def test_an_answer_cut_at_its_length_gets_the_end_of_the_template() -> None:
    tokenizer = ChatBytes(CHATML)
    dialogue = Dialogue(Agent(chat=tokenizer), tokenizer)
    first = dialogue.view("room 0")
    sampled = dialogue.prompt(first).ids + tokenizer.ids("go ea")
    dialogue.add(first, "go ea", None, tokenizer.ids("go ea"))
    ids = dialogue.prompt(dialogue.view("again")).ids
    assert ids[: len(sampled)] == sampled
    assert tokenizer.decode(ids[len(sampled) :]).startswith("<|im_end|>\n<|im_start|>user\nagain")


def test_a_template_without_a_system_message_gets_it_in_the_first_user_message() -> None:
    refuses = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}" + CHATML
    tokenizer = ChatBytes(refuses)
    ids = conversation(Agent(Conversation(Template(system="Be brief.")), chat=tokenizer), tokenizer).ids
    assert tokenizer.decode(ids).startswith("<|im_start|>user\nBe brief.\n\nroom 0\n><|im_end|>\n")


def test_a_template_that_drops_the_reasoning_of_earlier_turns_is_refused_unless_it_shall_stay() -> None:
    tokenizer = ChatBytes(CHATML.replace("message['content']", "message['content'].split('</think>')[-1]"))
    with pytest.raises(PromptError, match=r"drops the thinking of earlier turns.*keep_history = true"):
        Agent(chat=tokenizer)
    agent = Agent(chat=tokenizer, chat_options={"keep_history": True})
    ids = conversation(agent, tokenizer, ("<think>hm</think>go",)).ids
    assert "assistant\n<think>hm</think>go<|im_end|>" in tokenizer.decode(ids)


@pytest.mark.parametrize(
    "broken",
    [
        "{{ messages | length }} messages\n" + CHATML,  # the start depends on what follows
        CHATML + "{{ messages[0]['content'] }}",  # the end depends on what came first
        "{{ messages[-1]['content'] }}",  # earlier turns are gone
    ],
)
def test_a_template_that_rewrites_earlier_turns_is_refused_for_conversations(broken: str) -> None:
    tokenizer = ChatBytes(broken)
    with pytest.raises(PromptError, match="rewrites earlier turns"):
        Agent(chat=tokenizer)
    assert conversation(Agent(Window(PLAIN, 1), chat=tokenizer), tokenizer).ids


def test_a_template_that_cannot_be_rendered_or_changes_messages_is_refused() -> None:
    with pytest.raises(PromptError, match="cannot be rendered"):
        Agent(chat=ChatBytes("{{ nothing.at.all }}"))
    upper = ChatBytes(CHATML.replace("message['content']", "message['content'] | upper"))
    with pytest.raises(PromptError, match="does not contain the user's message"):
        conversation(Agent(Window(PLAIN, 1), chat=upper), upper)


def test_a_tokenizer_without_a_chat_template_leaves_the_text_plain() -> None:
    assert Bytes().decode(conversation(Agent(chat=Bytes()), Bytes(), ()).ids) == "room 0\n> "


def test_a_bos_token_starts_the_first_prompt_only_and_a_chat_template_writes_its_own() -> None:
    tokenizer = Bytes(bos=True)
    for answers in ((), ("go",)):
        ids = conversation(Agent(), tokenizer, answers).ids
        assert (ids[0], ids.count(257)) == (257, 1)
    chat = ChatBytes(CHATML)
    chat.bos_token_id = 257
    assert chat.decode(conversation(Agent(Window(PLAIN, 0), chat=chat), chat).ids).startswith("<|im_start|>user")
    assert conversation(Agent(), chat, ()).ids[0] == 257


# names of parsers, templates and builders


def shout(text: str) -> Parsed:
    """an action in capital letters

    The first line is what a model is told.
    """
    return Parsed(text.lower(), None) if text.isupper() else Parsed(None, "the answer was not in capital letters")


class Last:
    """A prompt of the current observation alone."""

    appends = False

    def __init__(self, template: Template, sign: str = "") -> None:
        self.template, self.sign = template, sign

    def message(self, memory: Sequence[Exchange], view: View) -> PromptText:
        return PromptText.of(view.observation) + PromptText(self.sign)


STYLE = {"base": "react", "system": "Speak up."}


def test_parsers_templates_and_builders_are_found_as_module_and_attribute() -> None:
    here = __name__
    agent = Agent.from_options(
        prompt={"name": f"{here}:Last", "sign": "?"}, parser=f"{here}:shout", template=f"{here}:STYLE"
    )
    assert agent.parse("GO EAST").action == "go east"
    assert agent.correction("why") == "Nothing was done: why. Expected: an action in capital letters."
    assert agent.prompt.template.system == "Speak up."
    tokenizer = Bytes()
    assert tokenizer.decode(conversation(agent, tokenizer).ids) == "Speak up.room 1?"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"prompt": "no_such_module:x"}, "the prompt 'no_such_module:x' cannot be loaded"),
        ({"parser": "math:pi"}, "the parser 'math:pi' must be a Parser or a function, got float"),
        ({"template": "math:pi"}, "the template 'math:pi' must be a Template or a mapping, got float"),
    ],
)
def test_objects_that_cannot_be_used_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(AgentError, match=words):
        Agent.from_options(**options)


@given(st.lists(st.text(max_size=3), max_size=5), st.text(max_size=3))
def test_a_list_of_texts_is_each_of_them_joined(texts: list[str], separator: str) -> None:
    assert PromptText.listed(texts, separator) == PromptText.joined(map(PromptText.of, texts), separator)

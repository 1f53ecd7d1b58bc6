"""Prompt builders, templates and the chat template, by exact text and exact ids."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toys.tokens import CHATML, Bytes, ChatBytes

from turnwise.agents.agent import Agent
from turnwise.agents.errors import AgentError, PromptError
from turnwise.agents.prompt import PLAIN, REACT, Conversation, Exchange, Piece, Template, View, Window

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
    assert Window(PLAIN, history).build(MEMORY, NOW) == Piece(text, extends=False)


def test_the_first_prompt_of_both_builders_is_the_observation_and_the_sign() -> None:
    view = View("start", "start", None, 0)
    assert Window(PLAIN, 3).build([], view) == Piece("start\n> ", False)
    assert Conversation(PLAIN).build([], view) == Piece("start\n> ", False)


def test_a_conversation_appends_the_observation_only() -> None:
    assert Conversation(PLAIN).build(MEMORY, NOW) == Piece("\nyou have it\n> ", True)


def test_a_whole_window_reads_as_the_conversation_does() -> None:
    agent = Agent()
    tokenizer = Bytes()
    view = View("start", "start", None, 0)
    ids = agent.encode(agent.prompt.build([], view), (), tokenizer)
    memory: list[Exchange] = []
    for seen, action, after in [("start", "go east", "room 2"), ("room 2", "look", "room 2")]:
        memory.append(Exchange(seen, action, action))
        ids += tuple(action.encode())
        ids = agent.encode(agent.prompt.build(memory, View("start", after, None, len(memory))), ids, tokenizer)
    whole = Window(PLAIN, 5).build(memory, View("start", "room 2", None, 2))
    assert tokenizer.decode(ids) == whole.text


def test_the_template_decides_whether_the_admissible_actions_are_listed() -> None:
    assert "go west" not in Window(PLAIN, 0).build(MEMORY, NOW).text
    text = Window(REACT, 0).build(MEMORY, NOW).text
    assert "Possible actions: go west, look\n" in text
    assert "3 earlier turns" in text
    silent = View("start", "you have it", None, 3)
    assert "Possible actions" not in Window(REACT, 0).build(MEMORY, silent).text


def test_an_answer_that_was_no_action_is_shown_short() -> None:
    memory = [Exchange("start", "x" * 10_000, None)]
    text = Window(PLAIN, 1).build(memory, View("start", "again", None, 1)).text
    assert len(text) < 200
    assert "xxx...\nagain" in text


def test_braces_in_observations_are_text() -> None:
    view = View("{start} {0} {", "{start} {0} {", None, 0)
    assert Conversation(PLAIN).build([], view).text == "{start} {0} {\n> "


def test_a_template_from_a_table_starts_from_its_base() -> None:
    style = Template.from_mapping({"base": "react", "ask": "\n{admissible}?", "separator": " | "})
    assert style.system == REACT.system
    assert Window(style, 0).build([], View("s", "s", ("a", "b"), 0)).text.endswith("Possible actions: a | b\n?")


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"aks": "x"}, "did you mean 'ask'"),
        ({"ask": 3}, "a string was wanted"),
        ({"ask": "{admisible}"}, "did you mean 'admissible'"),
        ({"ask": "{"}, "no format string"),
        ({"ask": "{turn:x?}"}, "no format string"),
        ({"saw": "{observation:d}"}, "no format string"),
        ({"did": "{action!z}"}, "no format string"),
        ({"opening": "{start:{observation}}"}, "no format string"),
        ({"base": "reakt"}, "did you mean 'react'"),
    ],
)
def test_a_wrong_template_says_what_was_wanted(table: dict[str, object], words: str) -> None:
    with pytest.raises(PromptError, match=words):
        Template.from_mapping(table)


def test_a_negative_history_is_refused() -> None:
    with pytest.raises(PromptError, match="history is -1"):
        Window(PLAIN, -1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"prompt": "conversasion"}, "did you mean 'conversation'"),
        ({"parser": "think_action"}, "did you mean 'think-action'"),
        ({"max_turn": 3}, "did you mean 'max_turns'"),
        ({"max_turns": 0}, "max_turns is 0"),
        ({"max_tokens": -1}, "max_tokens is -1"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"top_p": 0.0}, "top_p is 0.0"),
        ({"template": "plane"}, "did you mean 'plain'"),
    ],
)
def test_wrong_options_of_the_agent_say_what_was_wanted(options: dict[str, object], words: str) -> None:
    with pytest.raises(AgentError, match=words):
        Agent.from_options(**options)  # type: ignore[arg-type]


def test_options_make_the_agent() -> None:
    agent = Agent.from_options(prompt="window", history=2, template="react", parser="think-action", stop=["\n"])
    assert agent == Agent(Window(REACT, 2), "think-action", stop=("\n",))


@given(st.text(), st.text(), st.lists(st.text(), max_size=4), st.integers(0, 3))
def test_any_text_builds(start: str, seen: str, said: list[str], history: int) -> None:
    memory = [Exchange(seen, text, None) for text in said]
    view = View(start, seen, (seen,), len(memory))
    for builder in (Window(PLAIN, history), Window(REACT, history), Conversation(PLAIN), Conversation(REACT)):
        piece = builder.build(memory, view)
        assert piece.extends == (isinstance(builder, Conversation) and bool(memory))
        assert Bytes().encode(piece.text.encode("utf-8", "replace").decode())


# chat templates


def conversation(tokenizer: ChatBytes, system: str = "") -> tuple[str, tuple[int, ...]]:
    """Return the text and the ids of two turns, sampled answers with their end token."""
    agent = Agent(Conversation(Template(system=system), tokenizer))
    ids = agent.encode(agent.prompt.build([], View("hello", "hello", None, 0)), (), tokenizer)
    ids += (*tokenizer.ids("go"), tokenizer.eos_token_id)
    memory = [Exchange("hello", "go", "go")]
    ids = agent.encode(agent.prompt.build(memory, View("hello", "room 2", None, 1)), ids, tokenizer)
    return tokenizer.decode(ids), ids


def test_the_chat_template_is_appended_piece_by_piece() -> None:
    text, ids = conversation(ChatBytes(CHATML))
    assert text == (
        "<|im_start|>user\nhello\n><|im_end|>\n<|im_start|>assistant\ngo<|im_end|>\n"
        "<|im_start|>user\nroom 2\n><|im_end|>\n<|im_start|>assistant\n"
    )
    assert ids.count(ChatBytes(CHATML).eos_token_id) == 3  # the sampled end token is not doubled by the template's


def test_what_the_pieces_make_is_what_the_template_renders() -> None:
    tokenizer = ChatBytes(CHATML)
    text, _ = conversation(tokenizer, "Be brief.")
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hello\n>"},
        {"role": "assistant", "content": "go"},
        {"role": "user", "content": "room 2\n>"},
    ]
    assert text == tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)


def test_an_answer_cut_at_its_length_gets_the_end_of_the_template() -> None:
    tokenizer = ChatBytes(CHATML)
    agent = Agent(Conversation(PLAIN, tokenizer))
    previous = tokenizer.ids("<|im_start|>assistant\ngo ea")
    ids = agent.encode(
        agent.prompt.build([Exchange("s", "go ea", None)], View("s", "again", None, 1)), previous, tokenizer
    )
    assert tokenizer.decode(ids).startswith("<|im_start|>assistant\ngo ea<|im_end|>\n<|im_start|>user\nagain")
    assert ids[: len(previous)] == previous


def test_a_template_without_a_system_message_gets_it_in_the_first_user_message() -> None:
    refuses = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}" + CHATML
    text, _ = conversation(ChatBytes(refuses), "Be brief.")
    assert text.startswith("<|im_start|>user\nBe brief.\n\nhello\n><|im_end|>\n")


def test_a_template_that_drops_the_reasoning_of_earlier_turns_keeps_what_was_sampled() -> None:
    drops = CHATML.replace("message['content']", "message['content'].split('</think>')[-1]")
    tokenizer = ChatBytes(drops)
    agent = Agent(Conversation(PLAIN, tokenizer))
    first = agent.encode(agent.prompt.build([], View("s", "s", None, 0)), (), tokenizer)
    said = (*tokenizer.ids("<think>hm</think>go"), tokenizer.eos_token_id)
    memory = [Exchange("s", "<think>hm</think>go", "go")]
    ids = agent.encode(agent.prompt.build(memory, View("s", "t", None, 1)), first + said, tokenizer)
    assert ids[: len(first + said)] == first + said


@pytest.mark.parametrize(
    "broken",
    [
        "{{ messages | length }} messages\n" + CHATML,  # the start depends on what follows
        CHATML + "{{ messages[0]['content'] }}",  # the end depends on what came first
        "{{ messages[-1]['content'] }}",  # earlier turns are gone
    ],
)
def test_a_template_that_rewrites_earlier_turns_is_refused_for_conversations(broken: str) -> None:
    with pytest.raises(PromptError, match="rewrites earlier turns"):
        Conversation(PLAIN, ChatBytes(broken))
    assert Window(PLAIN, 1, ChatBytes(broken)).build([], View("s", "s", None, 0)).text


def test_a_template_that_cannot_be_rendered_says_so() -> None:
    with pytest.raises(PromptError, match="cannot be rendered"):
        Conversation(PLAIN, ChatBytes("{{ nothing.at.all }}"))


def test_a_tokenizer_without_a_chat_template_leaves_the_text_plain() -> None:
    assert Conversation(PLAIN, Bytes()).build([], View("s", "s", None, 0)).text == "s\n> "


def test_a_tokenizer_that_starts_texts_with_bos_starts_the_first_piece_only() -> None:
    tokenizer = Bytes(bos=True)
    agent = Agent()
    first = agent.encode(Piece("ab", extends=False), (), tokenizer)
    assert first == (tokenizer.bos_token_id, 97, 98)
    assert agent.encode(Piece("c", extends=True), first, tokenizer) == (*first, 99)


def test_a_chat_template_writes_its_own_beginning() -> None:
    tokenizer = ChatBytes(CHATML)
    tokenizer.bos_token_id = 257
    agent = Agent(Window(PLAIN, 0, tokenizer))
    assert agent.encode(Piece("ab", extends=False), (), tokenizer) == (97, 98)
    assert Agent().encode(Piece("ab", extends=False), (), tokenizer) == (257, 97, 98)

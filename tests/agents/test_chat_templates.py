"""Chat templates in the shape of eight families: prompts equal the template's own rendering, or it is refused."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("transformers")

from toys.chat_tokenizers import FAMILIES, made

from turncredit.agents.agent import Agent
from turncredit.agents.errors import PromptError
from turncredit.agents.models.tokenization import codec_of
from turncredit.agents.prompts.chat_template import TemplateFacts, chat_fields, template_facts
from turncredit.agents.prompts.dialogue import Dialogue, Prompt
from turncredit.agents.prompts.prompt import Conversation, Window
from turncredit.agents.prompts.templates import PLAIN, Template
from turncredit.training.learner.policy import build_tokenizer

APPENDS = ["chatml", "llama31", "qwen25", "mistral3", "gemma2", "phi3"]
DROPS = ["qwen3", "deepseek_r1"]
SYSTEM = Template(system="Be brief.")
ROOMS = ["You are in room 1.", "It is room 2, with a lamp.", "The lamp says: 3 < 4 & it's on.", "You won."]
ANSWERS = ["go to room 2", "take lamp", 'say "3"']


@pytest.fixture(scope="module")
def plain() -> Any:
    return build_tokenizer(ROOMS + ANSWERS, vocab=300)


def played(agent: Agent, tokenizer: Any, answers: list[str]) -> Prompt:
    """The last prompt of an episode with these answers, each ended as the model would end it."""
    dialogue = Dialogue(agent, tokenizer)
    for room, answer in zip(ROOMS, answers, strict=False):
        view = dialogue.view(room)
        before = dialogue.prompt(view).ids
        response = dialogue.add(view, answer, answer.strip(), codec_of(tokenizer).response(answer, dialogue.end))
        after = dialogue.prompt(dialogue.view("x")).ids
        if agent.prompt.appends:
            assert after[: len(before) + len(response)] == before + response
    return dialogue.prompt(dialogue.view(ROOMS[len(answers)]))


def rendered(tokenizer: Any, prompt: Prompt, **arguments: Any) -> str:
    return str(
        tokenizer.apply_chat_template(list(prompt.messages), tokenize=False, add_generation_prompt=True, **arguments)
    )


@pytest.mark.parametrize("name", APPENDS)
@pytest.mark.parametrize("system", [False, True])
def test_a_template_that_only_appends_gives_its_own_rendering(plain: Any, name: str, system: bool) -> None:
    tokenizer = made(plain, name)
    builder = Conversation(SYSTEM if system else PLAIN)
    if name == "mistral3" and system:  # its system message moves to the last message of the user
        with pytest.raises(PromptError, match="rewrites earlier turns"):
            Agent(builder, chat=tokenizer)
        return
    answers = [f" {text}" for text in ANSWERS] if name == "mistral3" else ANSWERS  # it expects a space in the answer
    prompt = played(Agent(builder, chat=tokenizer), tokenizer, answers)
    if name == "gemma2" and system:  # which has no system message
        (_, first, *rest), text = prompt.messages, "Be brief.\n\n"
        prompt = Prompt(prompt.ids, ({**first, "content": text + first["content"]}, *rest))
    wanted = tokenizer(rendered(tokenizer, prompt), add_special_tokens=False)["input_ids"]
    assert list(prompt.ids) == wanted
    assert "Be brief." in tokenizer.decode(wanted) or not system


@pytest.mark.parametrize("name", [*APPENDS, *DROPS])
def test_an_answer_ends_as_the_template_ends_it(plain: Any, name: str) -> None:
    tokenizer = made(plain, name)
    for agent in (Agent(Window(PLAIN, 1), chat=tokenizer), Agent(chat=tokenizer, chat_options={"keep_history": True})):
        dialogue = Dialogue(agent, tokenizer)
        family, sampled = FAMILIES[name], codec_of(tokenizer).response("take lamp", dialogue.end)
        assert tokenizer.decode(sampled) == f"take lamp{family.end}"
        if name == "deepseek_r1":  # the prompt opens a thought, and the template writes no answer after one
            with pytest.raises(PromptError, match="writes no answer that extends its own prompt"):
                dialogue.demonstrated("take lamp")
            continue
        lead = family.answer.removeprefix(family.tail).partition("look")[0]
        response = dialogue.add(dialogue.view(ROOMS[0]), "take lamp", "take lamp")
        assert tokenizer.decode(response) == f"{lead}take lamp{family.end}"


@pytest.mark.parametrize("name", DROPS)
def test_dropped_thinking_is_refused_for_conversations_unless_it_shall_stay(plain: Any, name: str) -> None:
    tokenizer = made(plain, name)
    with pytest.raises(PromptError, match=r"drops the thinking of earlier turns.*'window'.*keep_history = true"):
        Agent(chat=tokenizer)
    answers = [f"<think>\nhm\n</think>\n\n{text}" for text in ANSWERS[:2]]
    if name == "deepseek_r1":  # its prompt has opened the thinking
        answers = [text.removeprefix("<think>\n") for text in answers]
    kept = played(Agent(chat=tokenizer, chat_options={"keep_history": True}), tokenizer, answers)
    assert tokenizer.decode(kept.ids).count("hm") == 2
    assert "hm" not in rendered(tokenizer, kept)
    window = Agent(Window(PLAIN, 1), chat=tokenizer)
    prompt = played(window, tokenizer, ANSWERS[:2])
    assert list(prompt.ids) == tokenizer(rendered(tokenizer, prompt), add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize("appends", [True, False])
def test_thinking_can_be_switched_off(plain: Any, appends: bool) -> None:
    tokenizer = made(plain, "qwen3")
    options = {"enable_thinking": False, "keep_history": True}
    builder = Conversation() if appends else Window(PLAIN, 1)
    prompt = played(Agent(builder, chat=tokenizer, chat_options=options), tokenizer, ANSWERS[:1])
    text = tokenizer.decode(prompt.ids)
    assert text.endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")
    assert text.count("<think>") == (2 if appends else 1), "an empty thought is kept like any other"
    if not appends:
        assert text == rendered(tokenizer, prompt, enable_thinking=False)


def test_an_argument_that_the_template_does_not_read_is_refused(plain: Any) -> None:
    with pytest.raises(PromptError, match="has no argument 'enable_thinkin'"):
        Agent(Window(), chat=made(plain, "qwen3"), chat_options={"enable_thinkin": False})
    with pytest.raises(PromptError, match="has no argument 'enable_thinking'"):
        Agent(chat=made(plain, "chatml"), chat_options={"enable_thinking": False})


def test_options_for_a_template_that_is_not_there_are_refused(plain: Any) -> None:
    with pytest.raises(PromptError, match=r"agent.chat has options \(keep_history\), but the tokenizer has no chat"):
        Agent(chat=plain, chat_options={"keep_history": True})
    assert Agent(chat=plain).chat_template is None


FACTS = {
    "chatml": TemplateFacts(system=True, tools=False, thinking=False, drops_thinking=False, appends=True),
    "llama31": TemplateFacts(system=True, tools=True, thinking=False, drops_thinking=False, appends=True),
    "qwen25": TemplateFacts(system=True, tools=True, thinking=False, drops_thinking=False, appends=True),
    "qwen3": TemplateFacts(system=True, tools=True, thinking=True, drops_thinking=True, appends=True),
    "mistral3": TemplateFacts(system=True, tools=True, thinking=False, drops_thinking=False, appends=True),
    "gemma2": TemplateFacts(system=False, tools=False, thinking=False, drops_thinking=False, appends=True),
    "phi3": TemplateFacts(system=True, tools=False, thinking=False, drops_thinking=False, appends=True),
    "deepseek_r1": TemplateFacts(system=True, tools=False, thinking=False, drops_thinking=True, appends=True),
}


@pytest.mark.parametrize("name", [*APPENDS, *DROPS])
def test_the_facts_about_a_template(plain: Any, name: str) -> None:
    assert template_facts(made(plain, name)) == FACTS[name]


def test_the_setting_of_a_run_becomes_fields_of_the_agent(plain: Any) -> None:
    tokenizer = made(plain, "qwen3")
    assert chat_fields(True, tokenizer) == {"chat": tokenizer, "chat_options": {}}
    assert chat_fields({"keep_history": True}, tokenizer)["chat_options"] == {"keep_history": True}
    agent = Agent.from_options(**chat_fields(False, tokenizer))
    assert agent.chat_template is None
    assert Dialogue(agent, tokenizer).prompt(Dialogue(agent).view("x")).ids == tuple(tokenizer.encode("x\n> "))


def test_a_stop_string_is_sampled_and_not_written_twice(plain: Any) -> None:
    tokenizer = made(plain, "chatml")
    agent = Agent.from_options(stop=["\n"])
    dialogue = Dialogue(agent, tokenizer)
    view = dialogue.view(ROOMS[0])
    sampled = tuple(tokenizer.encode("go to room 2\n"))
    before = dialogue.prompt(view).ids
    assert agent.parse("go to room 2\n").action == "go to room 2"
    assert dialogue.add(view, "go to room 2\n", "go to room 2", sampled) == sampled
    prompt = dialogue.prompt(dialogue.view(ROOMS[1]))
    assert prompt.ids[: len(before) + len(sampled)] == before + sampled
    text = f"{ROOMS[0]}\n> go to room 2\n{ROOMS[1]}\n> "
    assert tokenizer.decode(prompt.ids) == text
    again = Dialogue(agent, tokenizer)
    assert again.add(again.view(ROOMS[0]), "go to room 2", "go to room 2") == sampled, "demonstrations end like answers"
    assert tokenizer.decode(again.prompt(again.view(ROOMS[1])).ids) == text


def test_an_answer_that_ended_otherwise_keeps_the_line_break_of_the_template(plain: Any) -> None:
    tokenizer = made(plain, "chatml")
    dialogue = Dialogue(Agent.from_options(stop=["\n"]), tokenizer)
    view = dialogue.view(ROOMS[0])
    dialogue.add(view, "go", "go", (*tokenizer.encode("go"), tokenizer.eos_token_id))
    assert tokenizer.decode(dialogue.prompt(dialogue.view("x")).ids) == f"{ROOMS[0]}\n> go<|im_end|>\nx\n> "

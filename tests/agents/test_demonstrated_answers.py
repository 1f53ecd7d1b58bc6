"""Demonstrations under chat templates: the response taught is the template's own text, or there is a refusal."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("transformers")

from toys.chat_families import FAMILIES, KEEP_HISTORY, TAGS, WINDOW, ChatFamily
from toys.chat_tokenizers import made

from turncredit.agents.agent import Agent
from turncredit.agents.demonstrations.recording import EpisodeRecorder
from turncredit.agents.demonstrations.tokens import tokenize_trajectory
from turncredit.agents.errors import PromptError
from turncredit.agents.models.tokenization import codec_of
from turncredit.agents.prompts.prompt import Conversation, Window
from turncredit.agents.prompts.templates import Template
from turncredit.agents.trajectory import Trajectory
from turncredit.tools.functions import Call, call_format
from turncredit.training.learner.policy import build_tokenizer

AS_IT_IS = Template(ask="", saw="{observation}")
HELLO = {"role": "user", "content": "hello"}
TOOL = {
    "type": "function",
    "function": {
        "name": "find",
        "description": "d",
        "parameters": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    },
}
REFUSED = {"qwq", "deepseek_r1", "deepseek_v31_thinking", "gemma4_large"}
"""Their answers, with a thought or without, do not extend the prompt: it opens or closes a thought that they lack."""
EMPTIED = {
    "minimax_m2": "\n</think>\n\n", "nemotron3": "\n</think>\n", "nemotron3_keeping": "\n</think>\n",
    "glm47": "</think>", "glm47_keeping": "</think>", "olmo3": "</think>",
}  # fmt: skip
"""What closes an empty thought that the prompt opens, where an answer without one does not extend the prompt: the
template's text around a thought, without the thought."""


@pytest.fixture(scope="module")
def plain() -> Any:
    return build_tokenizer(["hello", "look", "I see.", "find Ada"], vocab=300)


def agent_of(tokenizer: Any, family: ChatFamily, parser: str, mode: str, tools: bool = False) -> Agent:
    chat: dict[str, Any] = {**family.options, **({"tools": [TOOL]} if tools else {})}
    chat |= {"keep_history": True} if mode == KEEP_HISTORY else {}
    builder = Window(AS_IT_IS, 1) if mode == WINDOW else Conversation(AS_IT_IS)
    return Agent(builder, parser=parser, chat=tokenizer, chat_options=chat)


def recorded(text: str, action: str) -> Trajectory:
    """Two turns with one answer."""
    recorder = EpisodeRecorder("hello", {"task": "t"}, seed=0)
    recorder.add(action, "hello", 0.0, False, False, {})
    recorder.add(action, "hello", 1.0, True, False, {})
    recorder.turns = [type(turn)(**{**fields(turn), "text": text}) for turn in recorder.turns]
    return recorder.trajectory()


def fields(turn: Any) -> dict[str, Any]:
    return {name: getattr(turn, name) for name in turn.__dataclass_fields__}


def rendered(
    tokenizer: Any, family: ChatFamily, answer: dict[str, Any], said: str, end: str, *, tools: bool = False
) -> str | None:
    """What the template writes of an answer after its prompt, up to its end; None if it does not extend the prompt."""
    options = {**family.options, **({"tools": [TOOL]} if tools else {})}
    prompt = tokenizer.apply_chat_template([HELLO], tokenize=False, add_generation_prompt=True, **options)
    whole = tokenizer.apply_chat_template([HELLO, answer], tokenize=False, **options)
    if not whole.startswith(prompt):
        return None
    written, known, rest = whole.removeprefix(prompt).rpartition(said)
    assert known
    return f"{written}{said}{rest.partition(end)[0] if end in rest else ''}{end}"


def taught(tokenizer: Any, agent: Agent, text: str, action: str, *, rewrite: bool) -> Trajectory:
    """The demonstration with its ids; each turn teaches the same, and parses as its action."""
    trajectory = tokenize_trajectory(recorded(text, action), agent, tokenizer, rewrite=rewrite)
    first, second = trajectory.turns
    assert first.response == second.response
    return trajectory


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("parser", ["whole", "think-action"])
def test_what_is_taught_is_what_the_template_writes(plain: Any, name: str, parser: str) -> None:
    family, tokenizer = FAMILIES[name], made(plain, name)
    agent = agent_of(tokenizer, family, parser, family.mode)
    if name in REFUSED:
        with pytest.raises(PromptError, match=r"writes no answer that extends its own prompt.*agent.chat"):
            taught(tokenizer, agent, "look", "look", rewrite=True)
        return
    trajectory = taught(tokenizer, agent, "look", "look", rewrite=True)
    said = "look" if parser == "whole" else "<action>look</action>"
    wanted = rendered(tokenizer, family, {"role": "assistant", "content": said}, said, family.end)
    if name in EMPTIED:
        assert wanted is None
        wanted = f"{EMPTIED[name]}{said}{family.end}"
    assert wanted is not None
    ids = tuple(tokenizer.encode(wanted, add_special_tokens=False))
    if parser == "think-action" and not closes(family, wanted):
        wanted = wanted.replace(said, f"<think></think>{said}")  # to this template it is text like any other
        ids = tuple(tokenizer.encode(wanted, add_special_tokens=False))
    for turn in trajectory.turns:
        assert codec_of(tokenizer).decode(turn.response) == wanted
        assert turn.response == ids
        assert agent.parse(turn.text).action == "look"
    if family.mode != WINDOW:
        first, second = trajectory.turns
        assert second.prompt[: len(first.prompt) + len(first.response)] == first.prompt + first.response


def closes(family: ChatFamily, wanted: str) -> bool:
    """Whether the prompt or the template's text closes a thought before the answer."""
    return "</think>" in family.tail + wanted


@pytest.mark.parametrize("name", [name for name, family in FAMILIES.items() if family.thought])
def test_recorded_thoughts_are_written_as_the_template_writes_them(plain: Any, name: str) -> None:
    family, tokenizer = FAMILIES[name], made(plain, name)
    agent = agent_of(tokenizer, family, "with-thoughts", family.mode)
    text = "<think>I see.</think>look"
    assert family.thought is not None
    opening, closing = family.thought
    answers = [{"role": "assistant", "content": "look", key: "I see."} for key in ("reasoning_content", "thinking")]
    answers.append({"role": "assistant", "content": f"{opening}I see.{closing}look"})
    texts = [
        rendered(tokenizer, family, answer, "look", family.end)
        for answer in answers
        if shown(tokenizer, family, answer)
    ]
    kept = [known for known in texts if known is not None and "I see." in known]
    wanted = next((known for known in kept if known.count(closing) == 1), None)  # and not after an empty thought
    if wanted is None:
        with pytest.raises(PromptError, match=r"writes no answer with a thought that extends its own prompt"):
            taught(tokenizer, agent, text, text, rewrite=False)
        return
    for turn in taught(tokenizer, agent, text, text, rewrite=False).turns:
        assert codec_of(tokenizer).decode(turn.response) == wanted
        assert turn.response == tuple(tokenizer.encode(wanted, add_special_tokens=False))


def shown(tokenizer: Any, family: ChatFamily, answer: dict[str, Any]) -> bool:
    """Whether the template accepts the answer: that of gpt-oss refuses channels in the text."""
    try:
        tokenizer.apply_chat_template([HELLO, answer], tokenize=False, **family.options)
    except Exception as error:  # jinja's
        return "channels" not in str(error)
    return True


IN_THE_TEXT = {"hermes", "llama", "mistral"}
"""Forms whose stand-ins do not write calls in fields of a message."""


@pytest.mark.parametrize("name", [name for name, family in FAMILIES.items() if family.tools and name != "qwq"])
def test_calls_are_taught_as_the_template_writes_them(plain: Any, name: str) -> None:
    family, tokenizer = FAMILIES[name], made(plain, name)
    agent = agent_of(tokenizer, family, "whole", family.tools, tools=True)
    text = call_format(family.form).write([Call("find", {"name": "Ada"})], [])
    answer: dict[str, Any] = {"role": "assistant", "content": text}
    said = text
    if family.form not in IN_THE_TEXT:
        function = {"name": "find", "arguments": {"name": "Ada"}}
        answer = {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"type": "function", "id": "functions.find:0", "function": function}],
        }
        said = json.dumps({"name": "Ada"}) if family.form == "harmony" else text
    ends = [end for end in ("<|observation|>", "<|call|>") if end in family.ends]
    end = ends[0] if ends else family.end
    wanted = rendered(tokenizer, family, answer, said, end, tools=True)
    if name in EMPTIED:
        wanted = f"{EMPTIED[name]}{said}{end}"
    for turn in taught(tokenizer, agent, text, text, rewrite=False).turns:
        assert codec_of(tokenizer).decode(turn.response) == wanted
        assert agent.parse(turn.text).action == text
        opened = tokenizer.convert_tokens_to_ids("<tool_call>")
        if "<tool_call>" in family.added and "<tool_call>" in text:
            assert turn.response.count(opened) == 1


def test_the_tokens_of_calls_are_tokens_in_what_is_taught(plain: Any) -> None:
    """Under gpt-oss a call ends with its own token; under a template that writes [TOOL_CALLS] that is one token."""
    tokenizer = made(plain, "gptoss")
    agent = agent_of(tokenizer, FAMILIES["gptoss"], "whole", FAMILIES["gptoss"].tools, tools=True)
    text = call_format("harmony").write([Call("find", {"name": "Ada"})], [])
    for turn in taught(tokenizer, agent, text, text, rewrite=False).turns:
        wanted = ' to=functions.find<|channel|>commentary json<|message|>{"name": "Ada"}<|call|>'
        assert turn.response == tuple(tokenizer.encode(wanted, add_special_tokens=False))
    for thought, lead in (("I see.", "<|channel|>analysis<|message|>I see.<|end|><|start|>assistant"), ("", "")):
        thinking = f"<think>{thought}</think>{text}"
        (turn, _) = taught(tokenizer, agent, thinking, text, rewrite=False).turns
        assert codec_of(tokenizer).decode(turn.response) == f"{lead}{wanted}"
    with pytest.raises(PromptError, match=r"no answer with several calls.*one call a turn"):
        taught(tokenizer, agent, f"{text}\n{text}", text, rewrite=False)
    tokenizer = made(plain, "mistral3")
    tokenizer.chat_template = tokenizer.chat_template.replace(
        "(message.content | trim)",
        "('[TOOL_CALLS] ' ~ (message.tool_calls | tojson) if message.tool_calls else (message.content | trim))",
    )
    agent = agent_of(tokenizer, FAMILIES["mistral3"], "whole", FAMILIES["mistral3"].tools, tools=True)
    text = call_format("mistral").write([Call("find", {"name": "Ada"})], [])
    for turn in taught(tokenizer, agent, text, text, rewrite=False).turns:
        assert turn.response == tuple(tokenizer.encode(f" {text}</s>", add_special_tokens=False))


def test_an_answer_of_another_family_is_written_anew(plain: Any) -> None:
    """Imported answers have the marks of their own model; an end token in them is text."""
    tokenizer = made(plain, "qwen35")
    agent = agent_of(tokenizer, FAMILIES["qwen35"], "whole", KEEP_HISTORY)
    decode = codec_of(tokenizer).decode
    for text, wanted in (
        ("I see.\n</think>\n\nlook", "I see.\n</think>\n\nlook"),
        ("<think>\nI see.\n</think>\n\nlook", "I see.\n</think>\n\nlook"),
        ("\n</think>\n\nlook", "\n</think>\n\nlook"),
        ("look", "\n</think>\n\nlook"),
    ):
        for turn in taught(tokenizer, agent, text, "look", rewrite=False).turns:
            assert (decode(turn.response), turn.text) == (f"{wanted}<|im_end|>", wanted)
    (turn, _) = taught(tokenizer, agent, "look<|im_end|>x", "look", rewrite=False).turns
    assert turn.response.count(tokenizer.convert_tokens_to_ids("<|im_end|>")) == 1


def test_parsers_that_want_a_thought_take_the_one_that_the_prompt_closed(plain: Any) -> None:
    agent = agent_of(made(plain, "qwen35_small"), FAMILIES["qwen35_small"], "think-action", WINDOW)
    assert agent.parse("<action>look</action>").action == "look"
    assert agent.parse("<think>I see.</think><action>look</action>").action == "look"
    assert agent.parse("look").why == "there was no </think>"
    assert agent.parse("").why == "there was no </think>"
    agent = agent_of(made(plain, "qwen3"), FAMILIES["qwen3"], "think-action", WINDOW)
    assert agent.parse("<action>look</action>").why == "there was no </think>"
    assert TAGS == ("<think>", "</think>")

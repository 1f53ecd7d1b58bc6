"""Answers in channels, in thoughts that the prompt opened, and before blank lines: through whole episodes."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("transformers")
pytest.importorskip("torch")

from toys.chat_families import CONVERSATION, FAMILIES
from toys.chat_tokenizers import made
from toys.corridor import Corridor
from toys.fixed_answers import sampler_of

from turncredit.agents.agent import Agent
from turncredit.agents.errors import PromptError
from turncredit.agents.models.tokenization import codec_of
from turncredit.agents.prompts.answer_form import AnswerForm
from turncredit.agents.prompts.dialogue import Dialogue
from turncredit.agents.prompts.prompt import Conversation, Window
from turncredit.agents.prompts.templates import PLAIN
from turncredit.agents.rollouts.rollout import rollout
from turncredit.engines.scripted import Scripted
from turncredit.envs.toolenv import ToolEnv
from turncredit.tools.functions import Call, call_format
from turncredit.training.learner.policy import build_tokenizer

ROOMS = ["You are in room 1.", "It is room 2, with a lamp."]
ANALYSIS = "<|channel|>analysis<|message|>"
FINAL = "<|start|>assistant<|channel|>final<|message|>"
CALL = "<|start|>assistant<|channel|>commentary to=functions.delete <|constrain|>json<|message|>"


def tokenizer_of(name: str) -> Any:
    return made(build_tokenizer([*ROOMS, "go east", "I look."], vocab=300), name)


def corridor() -> Any:
    return Corridor(lengths=(3,))


@pytest.mark.parametrize("appends", [True, False])
@pytest.mark.parametrize(
    ("name", "text", "end"),
    [
        ("gptoss", f"{ANALYSIS}I look.<|end|>{FINAL}go east<|return|>", "<|return|>"),
        ("qwen35", "I look.\n</think>\n\ngo east<|im_end|>", "<|im_end|>"),
        ("command_r7b", "<|START_RESPONSE|>go east<|END_RESPONSE|><|END_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>"),
        ("command_a", "go east<|END_RESPONSE|><|END_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>"),
        ("alpaca", "go east\n\n### Instruction:\nYou won.\n\n### Response:\n", "\n### Instruction:"),
        ("headings", "go east\n\n### user:\nYou won.\n\n### assistant:\n", "\n### user:"),
        ("plain_end", "go east [END]\nuser: You won. [END]\nassistant: ", " [END]"),
    ],
)
def test_the_sampler_stops_at_the_end_of_an_answer(
    name: str, text: str, end: str, appends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not within it, and not after the user's next message, which such a model would write as well."""
    tokenizer, family = tokenizer_of(name), FAMILIES[name]
    sampler = sampler_of(tokenizer, text, monkeypatch, family.ends)
    options = {"keep_history": True} if family.mode == "keep_history" and appends else {}
    agent = Agent(
        Conversation(PLAIN) if appends else Window(PLAIN, 1),
        chat=tokenizer, chat_options=options, max_turns=3, max_tokens=400,
    )  # fmt: skip
    (group,) = rollout(agent, sampler, ["open-3-2"], make=corridor)
    turns = group.trajectories[0].turns
    assert [turn.finish for turn in turns] == ["stop"] * 3
    assert [turn.action for turn in turns] == ["go east"] * 3
    decode = codec_of(tokenizer).decode
    for turn in turns:
        assert decode(turn.response) == text.partition(end)[0] + end
    if appends and name in ("alpaca", "headings", "plain_end"):  # what the template itself renders of the conversation
        messages = []
        for turn in turns[:-1]:
            messages += [
                {"role": "user", "content": f"{turn.observation}\n>"},
                {"role": "assistant", "content": "go east"},
            ]
        messages.append({"role": "user", "content": f"{turns[-1].observation}\n>"})
        wanted = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        assert decode(turns[-1].prompt) == wanted


def test_an_earlier_answer_of_harmony_ends_once() -> None:
    """The template ends earlier answers with <|end|>, and the model with <|return|>: both never stand there."""
    tokenizer = tokenizer_of("gptoss")
    dialogue = Dialogue(Agent(chat=tokenizer, chat_options={"keep_history": True}), tokenizer)
    text = f"{ANALYSIS}I look.<|end|>{FINAL}go east"
    dialogue.add(dialogue.view("hello"), text, "go east", codec_of(tokenizer).encode(f"{text}<|return|>"))
    after = codec_of(tokenizer).decode(dialogue.prompt(dialogue.view("more")).ids)
    assert after.endswith(f"{text}<|return|><|start|>user<|message|>more\n><|end|><|start|>assistant")


@pytest.mark.parametrize(
    ("text", "action"),
    [
        (f"{ANALYSIS}I look.<|end|>{FINAL}go east", "go east"),
        ("<|channel|>final<|message|>go east", "go east"),
        ("go east", "go east"),  # as a player without channels answers
        (f"{ANALYSIS}I could go east", None),
        ("<|channel|>", None),
        (f"{ANALYSIS}I look.<|end|><|start|>assistant<|channel|>final", None),
        (f"{ANALYSIS}I look.<|end|>{CALL}{{}}", "to=functions.delete<|channel|>commentary json<|message|>{}"),
        (f"{ANALYSIS}one<|end|><|start|>assistant{ANALYSIS}two<|end|>{FINAL}go east", "go east"),
    ],
)
def test_channels_are_read(text: str, action: str | None) -> None:
    tokenizer = tokenizer_of("gptoss")
    for parser in ("bare", "whole"):
        assert Agent(Window(PLAIN, 1), parser=parser, chat=tokenizer).parse(text).action == action


def test_a_parser_that_reads_thoughts_gets_them_in_its_own_tags() -> None:
    for name, text in (
        ("gptoss", f"{ANALYSIS}I look.<|end|>{FINAL}go east"),
        ("qwen35", "I look.</think>go east"),
        ("seed_oss", "<seed:think>I look.</seed:think>go east"),
        ("magistral", "[THINK]I look.[/THINK]go east"),
        ("chatml", "<think>I look.</think>go east"),
    ):
        agent = Agent(Window(PLAIN, 1), parser="with-thoughts", chat=tokenizer_of(name))
        assert agent.parse(text).action == "<think>I look.</think>go east"
        assert Agent(Window(PLAIN, 1), parser="whole", chat=tokenizer_of(name)).parse(text).action == "go east"


def test_an_expert_does_not_go_on_with_the_thought_of_a_prompt() -> None:
    """Its answers are texts: no template opened them, and their tokens come later."""
    for name in ("qwen35", "gptoss"):
        agent = Agent(Window(PLAIN, 1), chat=tokenizer_of(name), max_turns=2)
        (group,) = rollout(agent, Scripted(["go east"] * 2), ["open-3-2"], make=corridor)
        assert [turn.action for turn in group.trajectories[0].turns] == ["go east"] * 2


class Deleting:
    """A ToolEnv that remembers what was deleted."""

    def __init__(self, form: str) -> None:
        self.deleted: list[str] = []
        self.form = form

    def __call__(self) -> Any:
        def delete(name: str) -> str:
            """Delete a file.

            Args:
                name: of the file
            """
            self.deleted.append(name)
            return "done"

        return ToolEnv(
            {"t": "Keep the data."}, start=lambda task: {}, tools=[delete], check=lambda world, answer: 1.0,
            form=self.form, native=True,
        )  # fmt: skip


def played(name: str, text: str) -> tuple[list[str], Any]:
    """What was deleted after one answer, and its turn."""
    tokenizer, env = tokenizer_of(name), Deleting(FAMILIES[name].form)
    tools = env().reset(seed=0)[1]["tools"]
    agent = Agent.from_options(
        parser="whole", chat=tokenizer, chat_options={"tools": tools}, max_turns=1,
        template={"ask": "", "saw": "{observation}"},
    )  # fmt: skip
    (group,) = rollout(agent, Scripted([text], tokenizer=tokenizer), ["t"], make=env)
    return env.deleted, group.trajectories[0].turns[0]


DELETE = "<tool_call>\n<function=delete>\n<parameter=name>\na\n</parameter>\n</function>\n</tool_call>"


@pytest.mark.parametrize(
    ("name", "thought", "call"),
    [
        (
            "qwen35",
            f"I call {DELETE} but the task says no, I",
            f"\n</think>\n\n{DELETE}",
        ),
        (
            "gptoss",
            f'{ANALYSIS}I could write to=functions.delete<|message|>{{"name": "a"}} but',
            f'<|end|>{CALL}{{"name": "a"}}',
        ),
    ],
)
def test_a_call_in_a_thought_that_was_cut_is_not_made(name: str, thought: str, call: str) -> None:
    deleted, turn = played(name, thought)
    assert (deleted, turn.action, turn.valid) == ([], None, False)
    deleted, turn = played(name, thought + call)
    assert (deleted, turn.valid) == (["a"], True)


@pytest.mark.parametrize("name", [name for name, family in FAMILIES.items() if family.tools == CONVERSATION])
def test_a_call_that_a_family_samples_is_made(name: str) -> None:
    """In the family's own form, after what closes its thought; and not if it was cut."""
    family = FAMILIES[name]
    call = call_format(family.form).write([Call("delete", {"name": "Grüße\n  b"})], [])
    if family.form == "harmony":
        call = f"<|start|>assistant {call}"
    lead = "I see.</think>" if family.opened else ""
    deleted, turn = played(name, f"{lead}{call}")
    assert (deleted, turn.valid) == (["Grüße\n  b"], True)
    deleted, turn = played(name, f"{lead}{call[: call.index('b')]}")
    assert (deleted, turn.valid) == ([], False)


def test_a_template_that_shows_no_end_needs_a_stop_string() -> None:
    tokenizer = tokenizer_of("chatml")
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}\n{% endfor %}"
    with pytest.raises(PromptError, match=r"writes nothing after an answer by which its end could be known; set agent"):
        Agent(chat=tokenizer)
    assert Agent(chat=tokenizer, stop=("\n",)).chat_template is not None


def test_what_stands_around_an_answer_is_no_action() -> None:
    form = AnswerForm(around=("<|START_RESPONSE|>", "<|END_RESPONSE|>"))
    for text in ("<|START_RESPONSE|>look<|END_RESPONSE|>", "<|START_RESPONSE|>look", "look"):
        assert form.shown(text, lambda said, whole: True) == "look"

"""An answer ends where its chat template ends it: as one token, as several, in demonstrations, samples and audits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers")
pytest.importorskip("torch")

import toys.corridor
from toys.chat_tokenizers import FAMILIES, made
from toys.fixed_answers import sampler_of
from toys.tokens import CHATML
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from turncredit.agents.agent import Agent
from turncredit.agents.demonstrations.tokens import tokenize_trajectory
from turncredit.agents.models.model_folder import end_tokens_of
from turncredit.agents.models.tokenization import AnswerEnd, answer_text, codec_of
from turncredit.agents.prompts.chat_template import ChatTemplate
from turncredit.agents.prompts.dialogue import Dialogue
from turncredit.agents.prompts.prompt import Conversation, Window
from turncredit.agents.prompts.templates import PLAIN
from turncredit.agents.rollouts.rollout import rollout
from turncredit.engines.scripted import Scripted
from turncredit.engines.vllm.answer import PartialAnswer
from turncredit.training.learner.policy import build_tokenizer, save_policy

ANSWER = "go east"
ROOMS = ["You are in room 1.", "It is room 2, with a lamp."]
WORDY = CHATML.replace("<|im_end|>\n", " END OF ANSWER\n")
BARE = "{% for m in messages %}### {{ m['role'] }}\n{{ m['content'] }}\n\n{% endfor %}### assistant\n"


def tokenizer_of(template: str, special: tuple[str, ...]) -> Any:
    """A tokenizer whose own end token is not what its chat template writes after an answer."""
    plain = build_tokenizer([*ROOMS, ANSWER] * 3, vocab=300)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=plain.backend_tokenizer, eos_token="<|endoftext|>", pad_token="<|endoftext|>"
    )
    if special:
        tokenizer.add_special_tokens({"additional_special_tokens": list(special)}, False)
    tokenizer.chat_template = template
    return tokenizer


def make_env() -> Any:
    return toys.corridor.Corridor(lengths=(3,))


ONE, NONE = ("<|im_start|>", "<|im_end|>"), ()


@pytest.mark.parametrize(
    ("template", "special", "end"),
    [(CHATML, ONE, "<|im_end|>"), (CHATML, NONE, "<|im_end|>"), (WORDY, ONE, "END OF ANSWER")],
)
@pytest.mark.parametrize("prompt", [Conversation(PLAIN), Window(PLAIN, 1)])
def test_answers_end_where_the_template_ends_them(
    template: str, special: tuple[str, ...], end: str, prompt: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that follows its template never samples the tokenizer's end token."""
    tokenizer = tokenizer_of(template, special)
    space = " " if end.startswith("END") else ""
    goes_on = f"{ANSWER}{space}{end}\n<|im_start|>user\nYou won.{space}{end}\n<|im_start|>assistant\n"
    sampler = sampler_of(tokenizer, goes_on, monkeypatch)
    agent = Agent(prompt, chat=tokenizer, max_turns=3, max_tokens=200)
    (group,) = rollout(agent, sampler, ["open-3-2"], make=make_env)
    (trajectory,) = group.trajectories
    assert [turn.finish for turn in trajectory.turns] == ["stop"] * 3
    assert [turn.action for turn in trajectory.turns] == [ANSWER] * 3
    assert {turn.text.strip() for turn in trajectory.turns} == {ANSWER}
    decode = codec_of(tokenizer).decode
    for turn in trajectory.turns:
        assert decode(turn.response) == f"{ANSWER}{space}{end}"
        assert decode(turn.prompt).count(end) == (2 * turn_number(trajectory, turn) + 1 if prompt.appends else 1)
        assert decode(turn.prompt).endswith("<|im_start|>assistant\n")
    if special == ONE and end == "<|im_end|>":
        (token,) = tokenizer.encode(end, add_special_tokens=False)
        assert token != tokenizer.eos_token_id
        assert {turn.response[-1] for turn in trajectory.turns} == {token}
    if prompt.appends:  # what the template itself renders of the conversation
        messages = []
        for turn in trajectory.turns[:-1]:
            messages += [{"role": "user", "content": said(turn)}, {"role": "assistant", "content": ANSWER}]
        messages.append({"role": "user", "content": said(trajectory.turns[-1])})
        whole = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        assert decode(trajectory.turns[-1].prompt) == whole


def turn_number(trajectory: Any, turn: Any) -> int:
    return next(number for number, one in enumerate(trajectory.turns) if one is turn)


def said(turn: Any) -> str:
    return f"{turn.observation}\n>"


@pytest.mark.parametrize(("template", "special"), [(CHATML, ONE), (CHATML, NONE), (WORDY, ONE), (BARE, NONE)])
def test_demonstrations_teach_the_end_that_stops_the_sampler(template: str, special: tuple[str, ...]) -> None:
    tokenizer = tokenizer_of(template, special)
    agent = Agent(chat=tokenizer, max_turns=3)
    (group,) = rollout(agent, Scripted([ANSWER] * 3), ["open-3-2"], make=make_env)
    demonstration = tokenize_trajectory(group.trajectories[0], agent, tokenizer)
    dialogue = Dialogue(agent, tokenizer)
    ends = frozenset([tokenizer.eos_token_id])
    lead = "\n" if template == BARE else ""  # which jinja cuts from the end of that template, and it writes in a turn
    for turn in demonstration.turns:
        end = dialogue.end
        stops = ends | end.tokens if end else ends
        decode = codec_of(tokenizer).decode
        assert turn.response[-1] in stops or decode(turn.response).endswith(end.text)
        assert not any(one in stops for one in turn.response[:-1])
        assert answer_text(decode, turn.response, ends, end) == lead + ANSWER
    (tokens,) = rollout(agent, Scripted([ANSWER] * 3, tokenizer=tokenizer), ["open-3-2"], make=make_env)
    for turn, demonstrated in zip(tokens.trajectories[0].turns, demonstration.turns, strict=True):
        assert decode(demonstrated.response) == lead + decode(turn.response)


@pytest.mark.parametrize("name", ["chatml", "llama31", "qwen25", "qwen3", "mistral3", "gemma2", "phi3", "deepseek_r1"])
def test_the_end_of_a_family(name: str) -> None:
    tokenizer = made(build_tokenizer([*ROOMS, ANSWER], vocab=300), name)
    text = FAMILIES[name].end
    (token,) = tokenizer.encode(text, add_special_tokens=False)
    assert ChatTemplate(tokenizer, system=False, appends=False).end == AnswerEnd(text, token)


@pytest.mark.parametrize(
    ("template", "end"),
    [
        (WORDY, AnswerEnd("END OF ANSWER", gap=" ")),
        (BARE, AnswerEnd("\n### user", gap="\n")),  # nothing but the next role ends an answer
        ("{% for m in messages %}{{ m['content'] }}\n{% endfor %}", None),
        ("{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}</answer><|im_end|>{% endfor %}",
         AnswerEnd("</answer><|im_end|>")),
        ("{% if messages[2:] %}{{ raise_exception('one question') }}{% endif %}{{ messages[0].content }}", None),
    ],
)  # fmt: skip
def test_the_end_of_other_templates(template: str, end: AnswerEnd | None) -> None:
    assert ChatTemplate(tokenizer_of(template, ONE), system=False, appends=False).end == end


def test_an_answer_may_end_in_the_middle_of_a_token() -> None:
    """The last token holds the end of the template and the line break after it: neither is written twice."""
    tokenizer = tokenizer_of(CHATML, NONE)
    agent = Agent(chat=tokenizer)
    for over in ("", "\n"):
        dialogue = Dialogue(agent, tokenizer)
        view = dialogue.view(ROOMS[0])
        before = dialogue.prompt(view).ids
        spelled = tokenizer.encode(f"{ANSWER}<|im_end|", add_special_tokens=False)
        last = tokenizer.encode(f">{over}", add_special_tokens=False)
        if len(last) > 1:
            tokenizer.add_tokens([f">{over}"])
            last = [tokenizer.convert_tokens_to_ids(f">{over}")]
        dialogue.add(view, ANSWER, ANSWER, (*spelled, *last))
        after = dialogue.prompt(dialogue.view(ROOMS[1])).ids
        assert after[: len(before)] == before
        text = codec_of(tokenizer).decode(after[len(before) :])
        assert text == f"{ANSWER}<|im_end|>\n<|im_start|>user\n{ROOMS[1]}\n><|im_end|>\n<|im_start|>assistant\n"


def test_an_engine_is_told_the_end_and_its_parts_are_joined() -> None:
    class Part:
        finish_reason = "abort"

        def __init__(self, ids: list[int]) -> None:
            self.token_ids = ids
            self.logprobs = [{one: type("L", (), {"logprob": -1.0})} for one in ids]

    from turncredit.agents.prompts.prompt import View
    from turncredit.engines.base import Request

    tokenizer = tokenizer_of(CHATML, NONE)
    view = View(start="", observation="", admissible=None, turn=0)
    ids = tokenizer.encode(f"{ANSWER}<|im_end|>\nmore", add_special_tokens=False)
    for end, cut in ((AnswerEnd("<|im_end|>"), len(ids) // 2), (AnswerEnd("<|im_end|>", ids[3]), 2)):
        answer = PartialAnswer(Request("e", 0, (1,), (), 1, view, end=end), limit=99)
        decode = codec_of(tokenizer).decode
        whole = ids if end.token is None else ids[:4]
        answer.add(Part(whole[:cut]), 0, frozenset([tokenizer.eos_token_id]), decode)
        assert answer.finish == "abort"
        answer.add(Part(whole[cut:]), 1, frozenset([tokenizer.eos_token_id]), decode)
        assert answer.finish == "stop"
        assert decode(answer.tokens).endswith("<|im_end|>") or answer.tokens[-1] == end.token


def test_the_experts_of_an_answer_are_those_of_its_first_computation() -> None:
    class Part:
        finish_reason = "abort"

        def __init__(self, ids: list[int], experts: Any) -> None:
            self.token_ids, self.routed_experts = ids, experts
            self.logprobs = [{one: type("L", (), {"logprob": -1.0})} for one in ids]

    from turncredit.agents.errors import RequestFailed
    from turncredit.agents.prompts.prompt import View
    from turncredit.engines.base import Request

    def table(tokens: int, value: int, kind: str = "uint8") -> Any:
        return np.full((tokens, 3, 2), value, dtype=kind)

    request = Request("e", 0, (1, 2, 3), (), 1, View(start="", observation="", admissible=None, turn=0))
    for kind, stored in (("uint8", "uint8"), ("int32", "uint16")):
        answer = PartialAnswer(request, limit=9)
        answer.add(Part([4, 5], table(4, 7, kind)), 0, frozenset(), str)
        answer.add(Part([6, 8], table(6, 9, kind)), 1, frozenset(), str)  # of the whole, under new weights
        assert answer.recorded()[:, 0, 0].tolist() == [7, 7, 7, 7, 9, 9]
        assert answer.recorded().dtype == np.dtype(stored)
    answer.tokens.append(9)
    with pytest.raises(RequestFailed, match="vLLM returned the experts of 6 tokens, and it computed 7"):
        answer.recorded()


def test_the_end_tokens_of_a_folder(tmp_path: Any) -> None:
    tokenizer = tokenizer_of(CHATML, ONE)
    config = LlamaConfig(vocab_size=len(tokenizer), hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                         num_attention_heads=1, eos_token_id=[7, tokenizer.eos_token_id])  # fmt: skip
    save_policy(LlamaForCausalLM(config), tokenizer, tmp_path / "model")
    assert end_tokens_of(tmp_path / "model", tokenizer) == (tokenizer.eos_token_id, 7)

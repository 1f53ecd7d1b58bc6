"""Observations that are far too long: encoded only as far as it takes to know that they do not fit."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
import toys.corridor
from hypothesis import given, settings
from hypothesis import strategies as st
from toys.tokens import CHATML, Bytes, ChatBytes

from turncredit.agents.agent import Agent
from turncredit.agents.demonstrations.tokens import tokenize_trajectory
from turncredit.agents.models.tokenization import TokenCodec
from turncredit.agents.prompts.dialogue import Dialogue
from turncredit.agents.prompts.prompt import Conversation, Window
from turncredit.agents.prompts.templates import PLAIN
from turncredit.agents.rollouts.rollout import rollout
from turncredit.engines.scripted import Scripted


class Counting(Bytes):
    """Counts the characters that it encodes."""

    def __init__(self) -> None:
        super().__init__()
        self.encoded = 0

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        self.encoded += len(text)
        return super().encode(text, add_special_tokens)


class Repeats:
    """One id for up to a hundred equal characters: few tokens for much text."""

    eos_token_id = 0

    def encode(self, text: str) -> list[int]:
        ids, at = [], 0
        while at < len(text):
            same = next((n for n in range(1, 100) if text[at + n : at + n + 1] != text[at]), 100)
            ids.append(1 + 100 * (ord(text[at]) % 200) + same - 1)
            at += same
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(chr((one - 1) // 100) * ((one - 1) % 100 + 1) for one in ids if one)


def words(count: int, seed: int = 0) -> str:
    draw = random.Random(seed)
    return " ".join(draw.choice(["a", "lamp", "desk", "<|end|>", "12345", "é"]) for _ in range(count))


@pytest.fixture(scope="module")
def trained() -> Any:
    pytest.importorskip("tokenizers")
    policy = pytest.importorskip("turncredit.training.learner.policy")
    return policy.build_tokenizer([words(300)], vocab=320)


@settings(deadline=None, max_examples=60)
@given(st.text(alphabet="ab <|end>é\n", max_size=40), st.integers(1, 300), st.integers(1, 300))
def test_only_what_does_not_fit_is_cut(piece: str, times: int, fitting: int) -> None:
    text = piece * times
    for tokenizer in (Bytes(), Repeats()):
        codec = TokenCodec(tokenizer)
        untrusted = ((len(text) // 3, len(text)),) if text else ()
        whole = codec.encode(text, untrusted)
        ids, complete = codec.encode_beginning(text, untrusted, fitting)
        if complete:
            assert ids == whole
        else:
            assert len(whole) > fitting
            assert len(ids) > 2 * fitting
            assert ids[: len(ids) // 2] == whole[: len(ids) // 2]


def test_a_trained_tokenizer_agrees(trained: Any) -> None:
    codec = TokenCodec(trained)
    for count in (3, 50, 400, 3000):
        for fitting in (1, 64, 200, 1000, 5000):
            text = words(count, seed=count)
            whole = codec.encode(text, ((0, len(text)),))
            ids, complete = codec.encode_beginning(text, ((0, len(text)),), fitting)
            assert complete == (len(whole) <= 2 * max(64, fitting) or len(text) <= 8 * max(64, fitting))
            assert ids[:fitting] == whole[:fitting]
            if complete:
                assert ids == whole


@pytest.mark.parametrize("prompt", [Conversation(PLAIN), Window(PLAIN, 2)])
@pytest.mark.parametrize("chat", [False, True])
def test_the_work_grows_with_the_context(prompt: Any, chat: bool) -> None:
    agent = Agent(prompt, chat=ChatBytes(CHATML)) if chat else Agent(prompt)
    tokenizer = Counting()
    codec_size = tokenizer.encoded
    for size in (10_000, 1_000_000, 20_000_000):
        dialogue = Dialogue(agent, tokenizer, context=500)
        dialogue.prompt(first := dialogue.view("a door"))
        dialogue.add(first, "look", "look")
        tokenizer.encoded = codec_size
        made = dialogue.prompt(dialogue.view("a lamp " * (size // 7)))
        assert not made.whole
        assert len(made.ids) > 500
        assert tokenizer.encoded <= 8 * 500


def test_an_episode_ends_with_what_is_known() -> None:
    class Long(toys.corridor.Corridor):
        def step(self, action: str) -> Any:
            observation, *others = super().step(action)
            return (observation + " " + "lamp " * 1_000_000, *others)

    tokenizer = Counting()
    sampler = Scripted(["go east"] * 9, tokenizer=tokenizer)
    sampler.context = 600
    (group,) = rollout(Agent(max_turns=5), sampler, ["open-3-2"], make=lambda: Long(lengths=(3,)))
    (episode,) = group.trajectories
    assert (episode.stop, len(episode.turns)) == ("tokens", 1)
    assert episode.error is not None
    assert episode.error.startswith("turn 1: a prompt of more than ")
    assert "do not fit into the model's context of 600" in episode.error
    assert tokenizer.encoded < 30_000
    tokenizer.encoded = 0
    (group,) = rollout(Agent(max_turns=2), Scripted(["go east"] * 9), ["open-3-2"], make=lambda: Long(lengths=(3,)))
    played = tokenize_trajectory(group.trajectories[0], Agent(), tokenizer, context=600)
    assert tokenizer.encoded < 30_000
    whole = tokenize_trajectory(group.trajectories[0], Agent(), Bytes())
    for cut, full in zip(played.turns, whole.turns, strict=True):
        assert (*cut.prompt, *cut.response)[:600] == (*full.prompt, *full.response)[:600]

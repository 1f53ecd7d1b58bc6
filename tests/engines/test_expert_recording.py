"""Samplers record the experts of every token; turns, files and batches keep them."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from toys.families import CONTEXT, tokenizer
from toys.mixtures import MIXTURES, mixture, own_experts
from toys.training_helpers import tiny_llama, trajectory, turn

from turncredit.agents.errors import ModelError, StoreError
from turncredit.agents.files.expert_records import experts_of_record
from turncredit.agents.files.trajectory_files import from_json, to_json
from turncredit.agents.prompts.prompt import View
from turncredit.agents.token_experts import TurnExperts, token_codes
from turncredit.engines.base import Request
from turncredit.engines.transformers.cached_decoding import CachedDecoder
from turncredit.engines.transformers.decoding import UncachedDecoder
from turncredit.engines.transformers.sampler import TransformersSampler

torch.set_num_threads(1)
VIEW = View("", "", None, 0)


@pytest.fixture(scope="module", params=MIXTURES)
def model(request):
    return mixture(request.param, dtype=torch.float32, vocab=300)


def sampler_of(model, **options):
    return TransformersSampler(model, tokenizer(), context=CONTEXT, experts=True, **options)


def ask(sampler, *requests):
    async def together():
        return await asyncio.gather(*(sampler.sample(request) for request in requests))

    return asyncio.run(together())


def request(prompt, episode="t#0@0", turn=0, tokens=6):
    return Request(episode, turn, tuple(prompt), (), 5, VIEW, max_tokens=tokens)


def prompt_of(number, length):
    return tuple(5 + (3 * number + 7 * i + i * i) % 250 for i in range(length))


def assert_recorded(model, asked, answer):
    """Nearly all tokens have the experts of a plain pass: a tie may be decided by rounding."""
    found, wanted = answer.experts, own_experts(model, (asked.prompt + answer.tokens)[:-1])
    assert found.dtype == np.uint8
    assert found.shape == wanted.shape
    assert (found != wanted).any(axis=2).mean() < 0.01


def test_every_token_of_an_answer_has_its_experts(model):
    sampler = sampler_of(model)
    asked = [request(prompt_of(n, 20 + 40 * n), f"t#{n}@0") for n in range(3)]
    for one, answer in zip(asked, ask(sampler, *asked), strict=True):
        assert_recorded(model, one, answer)


def test_later_turns_and_shared_prompts_have_the_experts_that_the_cache_keeps(model):
    sampler = sampler_of(model)
    asked = [request(prompt_of(0, 80), f"t#{n}@0", tokens=4 + n) for n in range(3)]
    answers = ask(sampler, *asked)
    for one, answer in zip(asked, answers, strict=True):
        assert_recorded(model, one, answer)
        assert np.array_equal(answer.experts[:80], answers[0].experts[:80])
    later = [
        request(one.prompt + answer.tokens + prompt_of(n, 9), one.episode, turn=1)
        for n, (one, answer) in enumerate(zip(asked, answers, strict=True))
    ]
    for one, before, answer in zip(later, answers, ask(sampler, *later), strict=True):
        assert_recorded(model, one, answer)
        if sampler.uncached_reason is None:
            assert np.array_equal(answer.experts[: len(before.experts)], before.experts)


@pytest.mark.parametrize("paged", [False, True])
def test_pages_that_move_and_prompts_that_are_copied_keep_their_experts(paged):
    model = mixture("Qwen 3 MoE", dtype=torch.float32, vocab=300)
    sampler = sampler_of(model, concurrency=3)
    records = sampler._decoder.routers
    sampler._decoder = CachedDecoder(model, pages=24, width=8, paged=paged, context=CONTEXT)
    sampler._decoder.record_experts(records)
    for turn_number in range(3):  # more than the pages hold: episodes lose theirs, and others move into the gaps
        prompts = [prompt_of(number % 2, 40 + 4 * turn_number) for number in range(6)]
        asked = [request(prompt, f"t#{n}@0", turn_number, 3 + n) for n, prompt in enumerate(prompts)]
        for one, answer in zip(asked, ask(sampler, *asked), strict=True):
            assert_recorded(model, one, answer)
    assert sampler._decoder.counts.reused > 0


def test_an_answer_that_new_weights_interrupt_keeps_the_experts_that_sampled_it():
    model = mixture("Mixtral", dtype=torch.float32, vocab=300)
    for decoder in (None, UncachedDecoder):
        sampler, other = (
            sampler_of(mixture("Mixtral", dtype=torch.float32, vocab=300)),
            mixture("Mixtral", 1, vocab=300),
        )
        if decoder is not None:
            routers, sampler._decoder = sampler._decoder.routers, decoder(sampler._model)
            sampler._decoder.record_experts(routers)

        async def play(sampler=sampler, other=other):
            task = asyncio.ensure_future(sampler.sample(request(prompt_of(0, 30), tokens=12)))
            while not sampler._active or len(sampler._active[0].tokens) < 5:
                await asyncio.sleep(0)
            await sampler.interrupt()
            await sampler.load(other, 1)
            await sampler.proceed()
            return await task

        answer = asyncio.run(play())
        ((switch, _),) = answer.switches
        assert len(answer.experts) == 30 + len(answer.tokens) - 1
        ids = (*prompt_of(0, 30), *answer.tokens)
        # the token at the switch is the first that new weights sampled; all before it were computed under the old ones
        before = own_experts(model, ids[: 30 + switch - 1])
        assert (answer.experts[: len(before)] != before).any(axis=2).mean() < 0.01
        assert (own_experts(other, ids[: len(before)]) != before).any(axis=2).mean() > 0.1


def test_a_sampler_that_is_not_asked_records_nothing():
    model = mixture("Mixtral", dtype=torch.float32, vocab=300)
    plain = TransformersSampler(model, tokenizer(), context=CONTEXT)
    asked = request(prompt_of(0, 30))
    (ours,), (theirs,) = ask(plain, asked), ask(sampler_of(model), asked)
    assert ours.experts is None
    assert (ours.tokens, ours.logprobs) == (theirs.tokens, theirs.logprobs)


def test_a_model_without_experts_is_refused():
    with pytest.raises(ModelError, match="LlamaForCausalLM: it has no router"):
        sampler_of(tiny_llama(dtype=torch.float32))


# -- turns and files --

TABLES = st.integers(0, 5).flatmap(lambda length: arrays(np.uint8, (length, 2, 2), elements=st.integers(0, 1)))


def chain(tables):
    made = []
    for table in tables:
        made.append(TurnExperts.after(made[-1] if made else None, table))
    return made


@given(st.lists(TABLES, min_size=1, max_size=6))
def test_turns_hold_the_experts_that_were_recorded(tables):
    for own, table in zip(chain(tables), tables, strict=True):
        assert len(own) == len(table)
        assert np.array_equal(own.array(), table)
        assert own == TurnExperts(table)


def test_a_conversation_holds_the_experts_of_each_token_once():
    rng = np.random.default_rng(0)
    whole = rng.integers(0, 8, (400, 3, 2)).astype(np.uint8)
    turns = chain([whole[: 10 * k] for k in range(1, 41)])
    assert sum(len(own.own) for own in turns) == 400


@given(st.lists(TABLES, min_size=1, max_size=5), st.sampled_from([np.uint8, np.uint16]))
def test_files_keep_experts(tables, kind):
    turns = [turn((1,), (2,)) for _ in tables]
    member = trajectory(
        [replace(one, experts=own) for one, own in zip(turns, chain([t.astype(kind) for t in tables]), strict=True)]
    )
    read = from_json(to_json(member))
    assert read == member
    assert [one.experts.array().dtype for one in read.turns] == [np.dtype(kind)] * len(tables)
    assert to_json(read) == to_json(member)


def test_a_turn_alone_is_stored_whole():
    first, second = chain([np.zeros((2, 1, 1), np.uint8), np.zeros((4, 1, 1), np.uint8)])
    member = trajectory([replace(turn((1,), (2,)), experts=second)])
    assert from_json(to_json(member)) == member
    assert second.before is first


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ([], "experts must be an object, got list"),
        ({"shape": [1, 1], "type": "uint8", "data": ""}, "a shape of three sizes"),
        ({"shape": [1, 1, -1], "type": "uint8", "data": ""}, "a shape of three sizes"),
        ({"shape": [1, 1, 1], "type": "object", "data": "AA=="}, "the type uint8 or uint16, got 'object'"),
        ({"shape": [1, 1, 1], "type": ["uint8"], "data": "AA=="}, "the type uint8 or uint16, got"),
        ({"shape": [2, 1, 1], "type": "uint8", "data": "AA=="}, r"do not have the shape \[2, 1, 1\]"),
        ({"shape": [1, 1, 1], "type": "uint8", "data": "?"}, r"do not have the shape \[1, 1, 1\]"),
        ({"shape": [1, 1, 1], "type": "uint8", "data": 3}, r"do not have the shape \[1, 1, 1\]"),
        (
            {"shape": [1, 1, 1], "type": "uint8", "data": "AA==", "shared": 3},
            "share 0 to 2 tokens with the turn before",
        ),
        (
            {"shape": [1, 1, 1], "type": "uint8", "data": "AA==", "shared": 1},
            "other sizes than those of the turn before",
        ),
    ],
)
def test_a_record_of_another_form_is_refused(record, message):
    with pytest.raises(StoreError, match=message):
        experts_of_record(record, TurnExperts(np.zeros((2, 3, 1), np.uint8)))


@given(st.lists(st.tuples(TABLES, st.booleans()), min_size=1, max_size=4), st.integers(0, 2**31))
def test_codes_are_equal_where_tokens_and_experts_are(tables, seed):
    width = 1 + max(len(table) for table, _ in tables)
    tokens = np.random.default_rng(seed).integers(0, 2, (len(tables), width))
    experts = [table if there else None for table, there in tables]
    codes = token_codes(tokens, experts)
    things = [
        [(int(tokens[row, k]), own[k].tobytes() if own is not None and k < len(own) else None) for k in range(width)]
        for row, own in enumerate(experts)
    ]
    flat, named = codes.reshape(-1).tolist(), [thing for row in things for thing in row]
    assert len(set(zip(flat, named, strict=True))) == len(set(flat)) == len(set(named))

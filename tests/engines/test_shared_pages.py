"""Pages of the KV cache that several episodes hold: answers are those of copies, and no page in use is overwritten."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from zlib import crc32

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from turncredit.agents.prompts.prompt import View
from turncredit.engines.base import Completion, Request
from turncredit.engines.transformers.cache_pages import CachedSequence, PageTable

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from turncredit.engines.transformers import sampler as sampler_module  # noqa: E402
from turncredit.engines.transformers.cached_decoding import CachedDecoder  # noqa: E402
from turncredit.engines.transformers.sampler import TransformersSampler  # noqa: E402

VOCAB, WIDTH, CONTEXT = 64, 16, 256
NATS = 1e-5
"""Difference of log-probabilities in float32 that rounding explains."""
VIEW = View(start="", observation="", admissible=None, turn=0)


class Numbers:
    """A tokenizer without meaning; no id ends a response."""

    eos_token_id = None

    def encode(self, text: str) -> list[int]:
        return [ord(letter) % VOCAB for letter in text]

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(map(str, ids))


def make_model(**changes: object):
    sizes = {"vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 512}
    config = transformers.MistralConfig(**sizes, **heads, **{"sliding_window": None, **changes})
    with torch.random.fork_rng():
        torch.manual_seed(7)
        model = transformers.AutoModelForCausalLM.from_config(config)
        with torch.no_grad():
            for weight in model.parameters():
                if weight.ndim == 2:
                    weight.normal_(0.0, 0.3)
    return model.eval()


MODELS = {"whole": make_model(), "window": make_model(sliding_window=24)}


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def ids(length: int, salt: int = 0) -> list[int]:
    return [(7 * i + 3 * salt + i * i * (salt + 1)) % VOCAB for i in range(length)]


def make_sampler(kind: str, *, share: bool, pages: int = 500, paged: bool = True) -> TransformersSampler:
    sampler = TransformersSampler(MODELS[kind], Numbers(), context=CONTEXT)
    attention = "" if paged else "eager"
    how = {"pages": pages, "width": WIDTH, "paged": paged, "context": CONTEXT, "attention": attention}
    sampler._decoder = CachedDecoder(MODELS[kind], **how, share=share)
    return sampler


def serve(sampler: TransformersSampler, prompts: dict[str, list[int]], turn: int, most: int) -> list[Completion]:
    def request(name: str) -> Request:
        return Request(name, turn, tuple(prompts[name]), (), crc32(name.encode()), VIEW, max_tokens=most)

    async def together() -> list[Completion]:
        return await asyncio.gather(*(sampler.sample(request(name)) for name in prompts))

    return asyncio.run(together())


def draw_evenly(
    logits: torch.Tensor, temperature: object, top_p: object, uniform: np.ndarray, **limits: object
) -> tuple[list[int], list[float]]:
    """Return tokens that do not depend on the logits, so that rounding changes none, and their log-probabilities."""
    tokens = (uniform * logits.shape[1]).astype(int).tolist()
    logprobs = torch.log_softmax(logits.float(), dim=-1)
    return tokens, [float(logprobs[row, token]) for row, token in enumerate(tokens)]


def table_of(sampler: TransformersSampler) -> PageTable:
    assert isinstance(sampler._decoder, CachedDecoder)
    return sampler._decoder._table


ROUNDS = st.lists(
    st.lists(
        st.tuples(st.integers(0, 4), st.sampled_from([0, 1, 7, 25]), st.sampled_from(["go on", "cut", "fork", "end"])),
        min_size=1,
        max_size=5,
        unique_by=lambda step: step[0],
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(ROUNDS, st.sampled_from([20, 48, 70]), st.integers(1, 20), st.sampled_from(["whole", "window", "copies"]))
def test_shared_pages_give_the_answers_of_copies(
    rounds: list[list[tuple[int, int, str]]], common: int, most: int, kind: str
):
    """Up to rounding: pages lie elsewhere, and libraries round by the shapes and places of matrices."""
    how = {"kind": "whole", "paged": False} if kind == "copies" else {"kind": kind}
    shared, copied = (make_sampler(share=share, **how) for share in (True, False))
    histories: dict[int, list[int]] = {}
    for turn, steps in enumerate(rounds):
        prompts = {}
        for episode, new, what in steps:
            held = histories.get(episode, ids(common))
            if what == "cut":
                held = held[: len(held) // 2 + 1]
            elif what == "fork":  # goes on where another episode was
                held = max(histories.values(), key=len, default=held)[:-3]
            elif what == "end":
                for sampler in (shared, copied):
                    sampler.forget(f"e{episode}")
                held = ids(common)
            prompts[f"e{episode}"] = histories[episode] = [*held, *ids(new, episode + turn)][:180]
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(sampler_module, "sample_tokens", draw_evenly)
            answers, right = (serve(sampler, prompts, turn, most) for sampler in (shared, copied))
        for answer, expected in zip(answers, right, strict=True):
            assert answer.tokens == expected.tokens
            assert answer.logprobs == pytest.approx(expected.logprobs, rel=0, abs=NATS)
        for (episode, *_), answer in zip(steps, answers, strict=True):
            histories[episode] = [*histories[episode], *answer.tokens]
    assert table_of(shared).used <= table_of(copied).used
    for episode in range(5):
        shared.forget(f"e{episode}")
    assert table_of(shared).used == 0


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(1, 30), st.integers(0, 1), st.sampled_from(["begin", "end", "pass"])),
        max_size=40,
    ),
    st.integers(4, 14),
)
def test_no_page_in_use_is_freed_or_overwritten(steps: list[tuple[int, int, int, str]], total: int):
    contents: dict[int, list[int]] = {}

    def move(sources: list[int], targets: list[int]) -> None:
        contents.update(dict(zip(targets, [list(contents.get(page, [])) for page in sources], strict=True)))

    table = PageTable(total, 8, move)
    begun: dict[str, list[int]] = {}

    def compute() -> None:
        """Write the new tokens of every sequence that was begun, as a pass does; equal prompts once."""
        table.begins_pass()
        leaders: dict[tuple[int, ...], CachedSequence] = {}
        for name, prompt in begun.items():
            sequence = table.sequences[name]
            leader = leaders.setdefault(tuple(prompt), sequence) if not sequence.tokens else sequence
            if leader is not sequence:
                table.take_over(leader, len(prompt), sequence)
                continue
            start = len(sequence.tokens)
            for index in range(start // 8, table.count(len(prompt))):
                page = sequence.pages[index]
                others = [one for one in table.sequences.values() if page in one.pages and one is not sequence]
                assert all(not one.tokens for one in others), "a page with tokens of another is written"
                kept = contents.get(page, [])[: max(0, start - 8 * index)]
                contents[page] = [*kept, *prompt[8 * index + len(kept) : 8 * index + 8]]
            sequence.tokens = list(prompt)
        for name in begun:
            table.pause(name)
        begun.clear()

    for episode, length, salt, what in steps:
        table.passes += 8
        name = f"e{episode}"
        if what == "end":
            table.drop(name)
            begun.pop(name, None)
        elif what == "pass":
            compute()
        elif name not in begun:
            prompt = [*([salt] * (length // 2)), *range(100 * episode, 100 * episode + length % 3), *([salt] * length)]
            before = {key: list(table.sequences[key].tokens) for key in begun}
            if table.count(len(prompt)) <= total and table.begin(name, prompt) is not None:
                begun[name] = prompt
            assert all(table.sequences[key].tokens == tokens for key, tokens in before.items())
        held = Counter(page for one in table.sequences.values() for page in one.pages)
        assert sorted(held) == list(range(table.used))
        assert table.used <= total
        assert all(table.holders(page) == count for page, count in held.items())
        for one in table.sequences.values():
            written = [token for page in one.pages for token in contents.get(page, [])]
            assert one.tokens == [] or written[: len(one.tokens)] == one.tokens
    for name in list(table.sequences):
        table.drop(name)
    assert (table.used, table._index, table._owners) == (0, [], [])


def test_a_group_holds_its_prompt_once():
    """Eight members with a prompt of 500 tokens, in pages of 128: three pages together, and one each."""
    held = {}
    for share in (True, False):
        decoder = CachedDecoder(make_model(), pages=64, width=128, paged=True, context=512, share=share)
        with torch.inference_mode():
            for member in range(8):
                assert decoder.begin(f"task#{member}", ids(500))
            decoder.logits([(f"task#{member}", ids(500)) for member in range(8)])
        held[share] = decoder._table.used
        assert decoder.counts.prefilled == 500
    assert held == {True: 3 + 8, False: 8 * 4}


def test_a_fork_begins_from_the_pages_of_its_parent():
    sampler = make_sampler("whole", share=True)
    first = serve(sampler, {"parent": ids(64)}, 0, 32)[0]
    history = [*ids(64), *first.tokens]
    serve(sampler, {"parent": [*history, *ids(20, 1)]}, 1, 8)
    computed, used = sampler.counts.prefilled, table_of(sampler).used
    serve(sampler, {"fork": [*history, *ids(20, 2)]}, 1, 8)
    assert sampler.counts.prefilled - computed == 20 + 96 % 16
    assert table_of(sampler).used == used + 2  # of 8 pages, 6 are the parent's
    parent, fork = (table_of(sampler).sequences[name] for name in ("parent", "fork"))
    assert parent.pages[:6] == fork.pages[:6]


def test_the_pages_of_an_evicted_parent_stay_with_its_fork():
    table = PageTable(6, 8, lambda sources, targets: None)
    parent = table.begin("parent", list(range(32)))
    assert parent is not None
    parent.tokens = list(range(32))
    table.pause("parent")
    fork = table.begin("fork", [*range(16), *range(40, 56)])
    assert fork is not None
    assert (table.used, fork.pages[:2]) == (6, parent.pages[:2])
    table.begins_pass()
    fork.tokens = [*range(16), *range(40, 56)]
    assert table.begin("other", list(range(60, 76))) is None  # nothing is taken from a running one
    table.passes += 100
    assert table.begin("other", list(range(60, 68))) is not None  # the parent's own two pages are
    assert "parent" not in table.sequences
    assert [table.holders(page) for page in fork.pages] == [1, 1, 1, 1]

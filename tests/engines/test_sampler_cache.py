"""The KV cache of the transformers sampler: a budget of memory, shared prefixes, windows; the answers never change."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Sequence
from zlib import crc32

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from turncredit.agents.errors import RequestFailed, SamplerError
from turncredit.agents.prompts.prompt import View
from turncredit.engines.base import Completion, Request, SamplerSettings
from turncredit.engines.transformers.cache_pages import common_prefix

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from turncredit.engines.transformers import decoder_choice, paged_attention  # noqa: E402
from turncredit.engines.transformers.cached_decoding import CachedDecoder  # noqa: E402
from turncredit.engines.transformers.decoder_choice import _difference  # noqa: E402
from turncredit.engines.transformers.decoding import UncachedDecoder  # noqa: E402
from turncredit.engines.transformers.kvcache import PagedLayer  # noqa: E402
from turncredit.engines.transformers.sampler import GIB, TransformersSampler  # noqa: E402

VOCAB = 64
VIEW = View(start="", observation="", admissible=None, turn=0)
BYTES = 2 * 2 * 2 * 8 * 4  # a token of the model below: keys and values, 2 layers, 2 heads of 8, float32


class Numbers:
    """A tokenizer without meaning; the last id ends a response."""

    eos_token_id = VOCAB - 1

    def encode(self, text: str) -> list[int]:
        return [ord(letter) % VOCAB for letter in text]

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(map(str, ids))


def make(kind: str = "Llama", **changes: object):
    sizes = {
        "vocab_size": VOCAB,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "max_position_embeddings": 512,
        "bos_token_id": None,
        "eos_token_id": VOCAB - 1,
        "pad_token_id": 0,
    }
    with torch.random.fork_rng():
        torch.manual_seed(7)
        config = getattr(transformers, f"{kind}Config")(**{**sizes, **changes})
        model = transformers.AutoModelForCausalLM.from_config(config)
        with torch.no_grad():
            for weight in model.parameters():
                if weight.ndim == 2:
                    weight.normal_(0.0, 0.3)
    return model.eval()


MODEL = make()


@pytest.fixture(autouse=True)
def _paged(monkeypatch: pytest.MonkeyPatch):
    """Small models get a dense cache; here they use pages of 16 tokens as large ones do, on one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.setattr(decoder_choice, "SMALL", 0)
    monkeypatch.setattr(decoder_choice, "PAGE", 16)
    yield
    torch.set_num_threads(before)


def sampler_of(model, *, tokens: int = 0, **how: object) -> TransformersSampler:
    """Return a sampler whose cache holds this number of tokens (0: plenty)."""
    return TransformersSampler(model, Numbers(), kv_cache_gib=tokens * BYTES / GIB, **{"context": 256, **how})


def uncached(model, **how: object) -> TransformersSampler:
    sampler = sampler_of(model, **how)
    sampler._decoder = UncachedDecoder(sampler._model)
    return sampler


def request(prompt: Sequence[int], episode: str = "a", turn: int = 0, **how: object) -> Request:
    return Request(
        episode, turn, tuple(prompt), (), seed=crc32(episode.encode()), view=VIEW, **{"max_tokens": 8, **how}
    )


def ids(length: int, salt: int = 0) -> list[int]:
    return [(7 * i + 3 * salt + i * i * (salt + 1)) % (VOCAB - 1) for i in range(length)]


def serve(sampler: TransformersSampler, *requests: Request) -> list[Completion]:
    async def together() -> list[Completion]:
        return await asyncio.gather(*(sampler.sample(one) for one in requests))

    return asyncio.run(together())


@pytest.mark.parametrize("make_sampler", [sampler_of, uncached])
def test_nothing_that_the_installed_transformers_deprecates_is_used(make_sampler) -> None:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        serve(make_sampler(make()), request(ids(20)))
    assert not [str(one.message) for one in found if "deprecated" in str(one.message)]


def assert_equal(found: Sequence[Completion], right: Sequence[Completion]) -> None:
    for one, other in zip(found, right, strict=True):
        assert one.tokens == other.tokens
        assert one.logprobs == pytest.approx(other.logprobs, abs=2e-4)


# -- the budget --


def test_memory_grows_with_the_contents_and_stays_under_the_budget():
    sampler = sampler_of(MODEL, tokens=2048, concurrency=8)
    decoder = sampler._decoder
    assert isinstance(decoder, CachedDecoder)
    assert decoder.memory == 0
    serve(sampler, request(ids(20)))
    small = decoder.memory
    assert 0 < small <= 8 * 16 * BYTES
    serve(sampler, *(request(ids(100 + k, k), f"e{k}") for k in range(8)))
    assert small < decoder.memory <= 2048 * BYTES


def test_a_small_model_with_a_small_context_keeps_one_page_for_each_sequence(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(decoder_choice, "SMALL", 2**28)
    decoder = sampler_of(MODEL, concurrency=4)._decoder
    assert isinstance(decoder, CachedDecoder)
    assert (decoder.paged, decoder.width, decoder.capacity) == (False, 256, 4 * 256)


def test_requests_wait_while_the_cache_is_full_and_the_answers_are_the_same():
    asked = [request(ids(30 + 5 * k, k), f"e{k}", max_tokens=20) for k in range(9)]
    tight = sampler_of(MODEL, tokens=160)
    assert_equal(serve(tight, *asked), serve(uncached(MODEL), *asked))
    assert tight._decoder.memory <= 160 * BYTES


def test_growing_requests_stop_the_newest_when_the_cache_is_full():
    # Both fit at first; together they grow to 2 * (16 + 60) tokens, more than the 128 of the cache.
    asked = [request(ids(16, k), f"e{k}", max_tokens=60) for k in (1, 2)]
    tight, plain = sampler_of(MODEL, tokens=128), uncached(MODEL)
    tight._ends = plain._ends = frozenset()  # nothing ends early
    stopped = []
    drop = tight._decoder.drop
    tight._decoder.drop = lambda episode: (stopped.append(episode), drop(episode))  # type: ignore[method-assign]
    answers = serve(tight, *asked)
    assert_equal(answers, serve(plain, *asked))
    assert [len(answer.tokens) for answer in answers] == [60, 60]
    assert stopped == ["e2"]


def test_paused_episodes_lose_their_cache_in_the_order_of_their_last_use():
    sampler = sampler_of(MODEL, tokens=192)
    for name in "abc":
        serve(sampler, request(ids(40, ord(name)), name, max_tokens=4))
    serve(sampler, request([*ids(40, ord("a")), 5], "a", 1, max_tokens=4))
    serve(sampler, request(ids(60, 9), "d", max_tokens=4))
    assert [sampler._decoder.holds(name) for name in "abcd"] == [True, False, True, True]


def test_a_sequence_that_can_never_fit_fails_alone_and_names_the_budget():
    sampler = sampler_of(MODEL, tokens=64)

    async def scene() -> Completion:
        fits = asyncio.create_task(sampler.sample(request(ids(20), "fits")))
        with pytest.raises(RequestFailed, match=r"may have 75 tokens.*GiB\) holds 64; raise kv_cache_gib"):
            await sampler.sample(request(ids(55, 3), "large", max_tokens=20))
        return await fits

    assert len(asyncio.run(scene()).tokens) > 0


def test_an_episode_that_returns_soon_finds_its_cache_although_others_wait():
    """With room for 2 of 6 episodes, the two that run finish their turns before others begin."""
    sampler = sampler_of(MODEL, tokens=192)

    async def episode(k: int) -> None:
        prompt = ids(60, k)
        for turn in range(4):
            answer = await sampler.sample(request(prompt, f"e{k}", turn, max_tokens=4))
            prompt = [*prompt, *answer.tokens, 1, 2, 3]
        sampler.forget(f"e{k}")

    async def all_of_them() -> None:
        await asyncio.gather(*(episode(k) for k in range(6)))

    asyncio.run(all_of_them())
    # Each prompt is computed once: 60 tokens, and at three turns the last sampled token and three new ones.
    assert sampler.counts.prefilled == 6 * (60 + 3 * 4)


@pytest.mark.parametrize(
    ("how", "word"), [({"kv_cache_gib": -1.0}, "kv_cache_gib"), ({"concurrency": 0}, "concurrency")]
)
def test_budgets_that_make_no_sense_are_refused(how: dict[str, object], word: str):
    with pytest.raises(SamplerError, match=word):
        TransformersSampler(MODEL, Numbers(), **how)


# -- any sequence of requests, under any budget --

STEP = st.tuples(
    st.integers(0, 5),  # episode
    st.integers(1, 40),  # new tokens of its prompt
    st.integers(1, 30),  # most tokens of the answer
    st.sampled_from(["extend", "extend", "extend", "cut", "forget"]),
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rounds=st.lists(st.lists(STEP, min_size=1, max_size=6, unique_by=lambda step: step[0]), min_size=1, max_size=5),
    tokens=st.integers(160, 700),
    common=st.integers(0, 60),
    kind=st.sampled_from(["pages", "dense copies", "one page"]),
)
def test_any_requests_under_any_budget_give_the_answers_of_the_uncached_decoder(
    rounds: list[list[tuple[int, int, int, str]]], tokens: int, common: int, kind: str
):
    plain = uncached(MODEL, concurrency=4)
    cached = sampler_of(MODEL, tokens=tokens, concurrency=4, attention="eager" if kind == "dense copies" else "")
    if kind == "one page":
        cached._decoder = CachedDecoder(MODEL, pages=3, width=256, paged=False, context=256)
    histories: dict[int, list[int]] = {}
    for turn, steps in enumerate(rounds):
        asked = []
        for episode, new, most, what in steps:
            held = histories.get(episode, ids(common))
            if what == "cut":
                held = held[: len(held) // 2]
            if what == "forget":
                cached.forget(f"e{episode}")
                held = ids(common)
            prompt = [*held, *ids(new, episode + turn)][-120:]
            histories[episode] = prompt
            asked.append(request(prompt, f"e{episode}", turn, max_tokens=most))
        answers = serve(cached, *asked)
        assert_equal(answers, serve(plain, *asked))
        for (episode, *_), answer in zip(steps, answers, strict=True):
            histories[episode] = [*histories[episode], *answer.tokens]


@given(st.lists(st.integers(0, 2)), st.lists(st.integers(0, 2)), st.integers(-2, 9))
def test_the_common_prefix_is_the_longest(one: list[int], other: list[int], most: int):
    length = common_prefix(one, other, most)
    assert one[:length] == other[:length]
    assert length <= max(0, most)
    if length < min(len(one), len(other), most):
        assert one[length] != other[length]


# -- shared prefixes --


def test_a_member_that_arrives_later_takes_over_the_prompt_of_the_leader():
    sampler, prompt = sampler_of(MODEL), ids(100)
    serve(sampler, request(prompt, "task#0"))
    computed = sampler.counts.prefilled
    late = request(prompt, "task#1")
    assert_equal(serve(sampler, late), serve(uncached(MODEL), late))
    assert sampler.counts.reused == 80  # of 100: whole multiples of 16, with at least 5 left
    assert sampler.counts.prefilled - computed == 20


def test_a_prefix_shared_by_other_tasks_is_computed_once():
    sampler, system = sampler_of(MODEL), ids(160)
    asked = [request([*system, *ids(20 + k, k + 1)], f"t{k}#0") for k in range(8)]
    assert_equal(serve(sampler, *asked), serve(uncached(MODEL), *asked))
    assert sampler.counts.reused == 7 * 160
    assert sampler.counts.prefilled == sum(len(one.prompt) for one in asked) - 7 * 160


def test_copies_are_independent_of_their_origin():
    sampler, prompt = sampler_of(MODEL), ids(64)
    serve(sampler, request(prompt, "first"))
    serve(sampler, request(prompt, "second"))
    sampler.forget("first")
    serve(sampler, request(ids(64, 5), "third"))
    again = request([*prompt, 1, 2], "second", 1)
    assert_equal(serve(sampler, again), serve(uncached(MODEL), again))


# -- attention functions and windows --

WINDOWED = {
    "mistral": lambda: make("Mistral", sliding_window=24),
    "gemma3": lambda: make(
        "Gemma3Text", sliding_window=24, layer_types=["sliding_attention", "full_attention"], query_pre_attn_scalar=8
    ),
    "qwen2": lambda: make("Qwen2", sliding_window=24, use_sliding_window=True, max_window_layers=1),
}


@pytest.mark.parametrize("kind", sorted(WINDOWED))
def test_windows_shorter_than_the_context_are_masked_in_the_cache(kind: str):
    model = WINDOWED[kind]()
    sampler, plain = sampler_of(model), uncached(model)
    assert sampler.uncached_reason is None
    prompts = {f"e{k}": ids(n, k) for k, n in enumerate((3, 30, 47, 90))}
    for turn in range(3):
        asked = [request(prompt, name, turn, max_tokens=12) for name, prompt in prompts.items()]
        answers = serve(sampler, *asked)
        assert_equal(answers, serve(plain, *asked))
        for name, answer in zip(prompts, answers, strict=True):
            prompts[name] = [*prompts[name], *answer.tokens, *ids(3 + 20 * turn, turn)]


@pytest.mark.parametrize("kind", ["Llama", *sorted(WINDOWED)])
def test_rows_of_masks_are_aligned_where_the_kernel_needs_it(kind: str, monkeypatch: pytest.MonkeyPatch):
    """The fused kernel of CUDA refuses rows that begin elsewhere (kernel_forward.h, check_supported)."""
    attend, seen = paged_attention._attend, []

    def checked(query, key, value, mask, scale, *, causal=False):
        if mask is not None:
            bias = mask.expand(*query.shape[:3], key.shape[2])
            seen.append(bias.shape[3] % 8)
            assert not any(step % 8 for step, size in zip(bias.stride(), bias.shape[:3], strict=False) if size > 1)
        return attend(query, key, value, mask, scale, causal=causal)

    monkeypatch.setattr(paged_attention, "_attend", checked)
    monkeypatch.setattr(paged_attention, "ROW_ALIGNMENT", {"cpu": 16})
    model = WINDOWED[kind]() if kind in WINDOWED else MODEL
    sampler, plain = sampler_of(model), uncached(model)
    assert sampler._decoder.paged
    prompts = {f"e{k}": ids(n, k) for k, n in enumerate((3, 30, 47))}
    for turn in range(2):
        asked = [request(prompt, name, turn) for name, prompt in prompts.items()]
        answers = serve(sampler, *asked)
        assert_equal(answers, serve(plain, *asked))
        for name, answer in zip(prompts, answers, strict=True):
            prompts[name] = [*prompts[name], *answer.tokens, *ids(3 + 4 * turn + len(name), turn)]
    assert any(seen)


def test_memory_that_runs_out_while_the_cache_grows_costs_the_requests_at_hand(monkeypatch: pytest.MonkeyPatch):
    grow, left = PagedLayer.grow, [10**6]

    def short(self, capacity):
        left[0] -= 1
        if left[0] < 0:
            raise torch.OutOfMemoryError("out of memory")
        grow(self, capacity)

    monkeypatch.setattr(PagedLayer, "grow", short)
    sampler = sampler_of(MODEL, tokens=4096, concurrency=16)
    first = serve(sampler, request(ids(20)))
    left[0] = 1  # the second layer gets no memory

    async def many() -> list[object]:
        asked = (sampler.sample(request(ids(60, k), f"e{k}")) for k in range(12))
        return await asyncio.gather(*asked, return_exceptions=True)

    assert {type(one) for one in asyncio.run(many())} == {torch.OutOfMemoryError}
    left[0] = 10**6
    for k in range(12):
        sampler.forget(f"e{k}")
    assert_equal(serve(sampler, request(ids(20))), first)
    later = [request(ids(60, k), f"f{k}") for k in range(12)]
    assert_equal(serve(sampler, *later), serve(uncached(MODEL), *later))


def test_an_attention_function_that_takes_no_pages_reads_copies():
    sampler = sampler_of(make(), attention="eager")
    assert isinstance(sampler._decoder, CachedDecoder)
    assert not sampler._decoder.paged
    asked = [request(ids(20 + 30 * k, k), f"e{k}") for k in range(4)]
    assert_equal(serve(sampler, *asked), serve(uncached(MODEL), *asked))


def test_the_model_keeps_its_own_attention_function():
    model = make()
    for attention in ("", "sdpa", "eager"):
        serve(sampler_of(model, attention=attention), request(ids(9)))
        assert model.config._attn_implementation == "sdpa"


def test_attention_that_cannot_be_used_is_refused():
    with pytest.raises(SamplerError, match="did you mean 'sdpa'"):
        sampler_of(MODEL, attention="spda")
    with pytest.raises(SamplerError, match="needs a CUDA device, got cpu; use sdpa or eager"):
        sampler_of(MODEL, attention="flash_attention_2")
    with pytest.raises(SamplerError, match="unknown option 'atention'"):
        TransformersSampler.from_settings(SamplerSettings(module=MODEL, options={"atention": "sdpa"}))


def test_bfloat16_in_pages_agrees_with_the_uncached_decoder():
    """Greedy answers may differ by a tie in bfloat16, so the log-probabilities of the same tokens are compared."""
    sampler = sampler_of(MODEL, dtype="bfloat16")
    assert sampler._decoder.paged
    batch = [(f"e{k}", ids(20 + 25 * k, k)) for k in range(4)]
    plain = UncachedDecoder(sampler._model)
    with torch.inference_mode():
        for name, prompt in batch:
            sampler._decoder.begin(name, prompt)
        for token in (3, 4, 5):
            for name, sequence in batch:
                sampler._decoder.extend(name, len(sequence))
            found, right = (torch.log_softmax(one.logits(batch).float(), -1) for one in (sampler._decoder, plain))
            assert float((found - right).exp().sub(1).abs().max()) < 0.25
            assert float(((found - right).abs() * right.exp()).sum(-1).max()) < 0.05
            batch = [(name, [*sequence, token]) for name, sequence in batch]


# -- weights --


def test_a_copy_in_bfloat16_keeps_position_encodings_in_float32():
    sampler = sampler_of(MODEL, dtype="bfloat16")
    assert {weight.dtype for weight in sampler.module.parameters()} == {torch.bfloat16}
    assert {buffer.dtype for buffer in sampler.module.buffers()} == {torch.float32}
    assert {weight.dtype for weight in MODEL.parameters()} == {torch.float32}
    assert sampler.module.lm_head.weight is not MODEL.lm_head.weight


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda state: state.popitem(), r"1 tensors are missing, the first is lm_head\.weight"),
        (lambda state: state.update(extra=torch.zeros(1)), "1 are unknown to the model, the first is extra"),
        (
            lambda state: state.update({"model.norm.weight": torch.zeros(3)}),
            r"model\.norm\.weight has shape \[3\], expected \[32\]",
        ),
    ],
)
def test_weights_that_do_not_fit_change_nothing(change, words: str):
    model = make()
    sampler = sampler_of(model)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    state = {name: tensor + 1 for name, tensor in before.items()}
    change(state)
    with pytest.raises(SamplerError, match=words):
        asyncio.run(sampler.load(state, 1))
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert sampler.version == 0


def test_a_folder_of_a_tied_model_is_loaded(tmp_path):
    model, other = make(tie_word_embeddings=True), make(tie_word_embeddings=True)
    with torch.no_grad():
        other.model.embed_tokens.weight.mul_(0.5)
    other.save_pretrained(tmp_path)
    sampler = sampler_of(model, dtype="bfloat16")
    asyncio.run(sampler.load(tmp_path, 1))
    expected = other.model.embed_tokens.weight.bfloat16()
    assert torch.equal(sampler.module.lm_head.weight, expected)
    assert torch.equal(sampler.module.model.embed_tokens.weight, expected)


def test_a_model_with_an_adapter_is_sampled_from_as_it_is_and_copied_merged():
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        adapted = peft.get_peft_model(make(), config).eval()
    asked = [request(ids(30 + k, k), f"e{k}") for k in range(3)]
    shared = sampler_of(adapted)
    assert shared.module is adapted
    right = serve(uncached(adapted.get_base_model()), *asked)
    assert_equal(serve(shared, *asked), right)
    plain = make()
    copied = sampler_of(plain)
    asyncio.run(copied.load(adapted, 1))
    assert_equal(serve(copied, *asked), right)
    half = sampler_of(adapted, dtype="bfloat16")
    assert not any("lora" in name for name, _ in half.module.named_parameters())
    assert torch.equal(
        half.module.state_dict()["model.layers.0.self_attn.q_proj.weight"],
        plain.state_dict()["model.layers.0.self_attn.q_proj.weight"].bfloat16(),
    )
    asyncio.run(half.load(adapted, 2))
    asyncio.run(shared.load(adapted, 2))
    assert shared.version == 2
    with pytest.raises(SamplerError, match="takes no other weights"):
        asyncio.run(shared.load(plain, 3))


def test_a_model_folder_is_sampled_from_by_name(tmp_path):
    from turncredit.training.learner.policy import build_policy, save_policy

    model, tokenizer = build_policy(["go to the fridge and open it"] * 3, hidden=32, layers=1, heads=2, context=64)
    save_policy(model, tokenizer, tmp_path)
    settings = SamplerSettings(model=str(tmp_path), kv_cache_gib=0.001, concurrency=2, context=64, dtype="float32")
    sampler = TransformersSampler.from_settings(settings)
    asked = request(tokenizer.encode("go to"), max_tokens=4)
    plain = TransformersSampler(model, tokenizer, context=64)
    assert_equal(serve(sampler, asked), serve(plain, asked))
    with pytest.raises(SamplerError, match="needs a model: transformers:PATH"):
        TransformersSampler.from_settings(SamplerSettings())


def test_a_model_that_excludes_tokens_keeps_its_cache():
    """Some models give the unused rows of their output layer a logit of -inf."""

    class Excluding(type(make())):
        def forward(self, *args, **kwargs):
            out = super().forward(*args, **kwargs)
            out.logits = out.logits.index_fill(-1, torch.tensor([3, 4]), -torch.inf)
            return out

    model = make()
    model.__class__ = Excluding
    sampler = sampler_of(model)
    assert sampler.uncached_reason is None
    asked = [request(ids(9, k), f"e{k}", max_tokens=20) for k in range(3)]
    answers = serve(sampler, *asked)
    assert_equal(answers, serve(uncached(model), *asked))
    assert not {3, 4} & {token for answer in answers for token in answer.tokens}


# -- the probe --


def probe_of(error, *, dtype=torch.bfloat16, reaction=4.0):
    """What the probe says of logits with an error, relative to what another context would change."""
    torch.manual_seed(0)
    right = 8.0 * torch.randn(2, 50)
    change = torch.nn.functional.normalize(torch.randn(2, 50)) * reaction
    wrong = torch.nn.functional.normalize(torch.randn(2, 50)) * error
    return _difference(right + wrong, right, right + change, exact=dtype == torch.float32)


def test_rounding_of_16_bits_is_no_fault_and_wrong_tokens_are():
    assert probe_of(1.5, reaction=8.0) is None  # 6 % of the largest logit, as of a trained model in bfloat16
    assert "relative error of" in probe_of(8.0, reaction=8.0)
    assert "relative error of" in probe_of(1.5, reaction=8.0, dtype=torch.float32)
    assert probe_of(1e-3, dtype=torch.float32) is None
    assert probe_of(0.1, reaction=0.0) is None  # a model that no context changes


def test_logits_that_are_not_finite_in_the_same_places_are_a_fault():
    right = torch.zeros(1, 3)
    right[0, 1] = -torch.inf
    assert _difference(right.clone(), right, right, exact=False) is None
    assert "not finite" in _difference(torch.zeros(1, 3), right, right, exact=False)

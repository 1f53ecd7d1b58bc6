"""The transformers sampler: right log-probabilities in any batch, with and without a cache."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Sequence

import numpy as np
import pytest

from turncredit.agents.errors import ContextOverflow, SamplerError
from turncredit.agents.prompts.prompt import View
from turncredit.engines.base import Completion, Request

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from turncredit.agents.trajectory import token_versions  # noqa: E402
from turncredit.engines.transformers.cached_decoding import CachedDecoder  # noqa: E402
from turncredit.engines.transformers.decoding import UncachedDecoder  # noqa: E402
from turncredit.engines.transformers.sampler import TransformersSampler  # noqa: E402
from turncredit.engines.transformers.token_sampling import sample_tokens, stream_key, uniforms  # noqa: E402

LETTERS = "abcdefghijklmnopqrstuvwxyz .,<>/ACEKLMOP"
EOS = len(LETTERS)
VOCAB = EOS + 1
VIEW = View(start="", observation="", admissible=None, turn=0)


class Letters:
    """One id a letter; the last id ends a response."""

    eos_token_id = EOS

    def encode(self, text: str) -> list[int]:
        return [LETTERS.index(letter) for letter in text]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(LETTERS[i] if i < EOS else "$" for i in ids)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterable[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def make(kind: str = "llama", *, scale: float = 1.0, **changes: object):
    common = {"vocab_size": VOCAB, "bos_token_id": None, "eos_token_id": EOS, "pad_token_id": 0}
    small = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": 128,
    }
    configs = {
        "llama": lambda: transformers.LlamaConfig(**common, **small, num_key_value_heads=2, **changes),
        "qwen2": lambda: transformers.Qwen2Config(**common, **small, num_key_value_heads=2, **changes),
        "mistral": lambda: transformers.MistralConfig(**common, **small, num_key_value_heads=2, **changes),
        "gpt2": lambda: transformers.GPT2Config(**common, n_embd=32, n_layer=2, n_head=4, n_positions=128, **changes),
        "bloom": lambda: transformers.BloomConfig(**common, hidden_size=32, n_layer=2, n_head=4, **changes),
        "mamba": lambda: transformers.MambaConfig(
            **common, hidden_size=32, num_hidden_layers=2, state_size=4, time_step_rank=4, **changes
        ),
    }
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = transformers.AutoModelForCausalLM.from_config(configs[kind]())
        with torch.no_grad():  # far from uniform, so that a wrong mask or position shows
            for name, weight in model.named_parameters():
                if weight.ndim == 2 and "A_log" not in name:
                    weight.normal_(0.0, scale * 0.3)
    return model.eval()


def request(prompt: Iterable[int], episode: str = "a", turn: int = 0, seed: int = 5, **how: object) -> Request:
    how = {"max_tokens": 6, **how}
    return Request(episode, turn, tuple(prompt), (), seed, VIEW, **how)


def serve(sampler: TransformersSampler, *requests: Request) -> list[Completion]:
    async def together() -> list[Completion]:
        return await asyncio.gather(*(sampler.sample(one) for one in requests))

    return asyncio.run(together())


def prompt_of(length: int, salt: int = 0) -> list[int]:
    return [(7 * i + 3 * salt + i * i * (salt + 1)) % EOS for i in range(length)]


def full_logprobs(model, prompt: Sequence[int], tokens: Sequence[int], temperature: float = 1.0) -> list[float]:
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([[*prompt, *tokens]]), use_cache=False).logits[0].double()
    table = torch.log_softmax(logits / temperature, dim=-1)
    return [float(table[len(prompt) + i - 1, token]) for i, token in enumerate(tokens)]


def assert_right(model, requests: Iterable[Request], answers: Iterable[Completion]) -> None:
    """Compare the log-probabilities of the answers with those of a full forward pass."""
    for asked, answer in zip(requests, answers, strict=True):
        expected = full_logprobs(model, asked.prompt, answer.tokens, asked.temperature or 1.0)
        assert len(answer.tokens) > 0
        assert answer.logprobs == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("kind", ["llama", "qwen2", "mistral", "gpt2"])
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_logprobs_are_those_of_a_full_forward(kind: str, temperature: float):
    model = make(kind)
    sampler = TransformersSampler(model, Letters(), concurrency=4, context=64)
    assert sampler.uncached_reason is None
    requests = [request(prompt_of(n, n), f"e{n}", temperature=temperature, seed=n) for n in (1, 3, 11, 20)]
    assert_right(model, requests, serve(sampler, *requests))


@pytest.mark.parametrize("kind", ["llama", "gpt2", "bloom"])
def test_alone_and_in_a_batch_are_the_same(kind: str):
    model = make(kind)
    requests = [request(prompt_of(3 + 5 * k, k), f"e{k}", seed=k) for k in range(6)]
    together = serve(TransformersSampler(model, Letters(), concurrency=6, context=64), *requests)
    for asked, answer in zip(requests, together, strict=True):
        (alone,) = serve(TransformersSampler(model, Letters(), concurrency=1, context=64), asked)
        assert alone.tokens == answer.tokens
        assert alone.text == answer.text
        assert alone.logprobs == pytest.approx(answer.logprobs, abs=1e-4)


def play(sampler: TransformersSampler, episodes: int, turns: int, **how: object) -> list[list[Completion]]:
    """Several turns, each prompt extending prompt and response of the one before, episodes of different pace."""

    async def one(k: int) -> list[Completion]:
        ids, answers = prompt_of(4 + 3 * k, k), []
        for turn in range(turns):
            answer = await sampler.sample(request(ids, f"e{k}", turn, seed=k, **{"max_tokens": 2 + k, **how}))
            answers.append(answer)
            ids = [*ids, *answer.tokens, *prompt_of(2 + (k + turn) % 4, turn)]
        sampler.forget(f"e{k}")
        return answers

    async def all_of_them() -> list[list[Completion]]:
        return await asyncio.gather(*(one(k) for k in range(episodes)))

    return asyncio.run(all_of_them())


def assert_alike(one: list[list[Completion]], other: list[list[Completion]]) -> None:
    for mine, right in zip(one, other, strict=True):
        for a, b in zip(mine, right, strict=True):
            assert a.tokens == b.tokens
            assert a.logprobs == pytest.approx(b.logprobs, abs=1e-4)


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_kept_caches_equal_computing_everything_anew(kind: str):
    model = make(kind)
    kept = TransformersSampler(model, Letters(), concurrency=5, context=128)
    plain = TransformersSampler(model, Letters(), concurrency=5, context=128)
    plain._decoder = UncachedDecoder(model)
    assert_alike(play(kept, 5, 4), play(plain, 5, 4))
    assert kept.counts.reused > 0
    assert kept.counts.prefilled + kept.counts.decoded < plain.counts.prefilled / 3


def test_only_new_tokens_are_computed_at_the_second_turn():
    sampler = TransformersSampler(make(), Letters(), concurrency=2, context=128)
    first = prompt_of(30)
    (answer,) = serve(sampler, request(first, max_tokens=5))
    assert sampler.counts.prefilled == 30
    count = len(answer.tokens)
    second = [*first, *answer.tokens, 1, 2, 3]
    serve(sampler, request(second, turn=1, max_tokens=1))
    # The last sampled token was never fed: it is new, with the three that follow.
    assert sampler.counts.prefilled == 30 + 4
    assert sampler.counts.reused == 30 + count - 1


def test_a_prompt_that_does_not_extend_is_computed_from_where_it_differs():
    model = make()
    sampler = TransformersSampler(model, Letters(), concurrency=2, context=128)
    serve(sampler, request(prompt_of(30)))
    other = [*prompt_of(30)[:10], 39, 38, 37, 36]
    for asked in (request(other, turn=1), request(other[:6], turn=2)):
        assert_right(model, [asked], serve(sampler, asked))
        assert sampler.counts.reused == 10 + (5 if asked.turn == 2 else 0)


def test_equal_first_prompts_are_computed_once():
    model = make()
    sampler = TransformersSampler(model, Letters(), concurrency=8, context=64)
    requests = [request(prompt_of(20), f"e{k}", seed=k) for k in range(8)]
    answers = serve(sampler, *requests)
    assert sampler.counts.prefilled == 20
    assert len({answer.tokens for answer in answers}) > 1  # each has its own seed
    assert_right(model, requests, answers)


def test_more_episodes_than_slots():
    model = make()
    assert_alike(
        play(TransformersSampler(model, Letters(), concurrency=2, context=128), 7, 3),
        play(TransformersSampler(model, Letters(), concurrency=7, context=128), 7, 3),
    )


def test_forget_frees_the_slot_and_the_others_keep_theirs():
    model = make()
    sampler = TransformersSampler(model, Letters(), concurrency=4, context=64)
    prompts = {f"e{k}": prompt_of(8 + k, k) for k in range(4)}
    firsts = serve(sampler, *(request(ids, name) for name, ids in prompts.items()))
    decoder = sampler._decoder
    assert isinstance(decoder, CachedDecoder)
    assert decoder.used == 4
    sampler.forget("e0")
    sampler.forget("e0")
    sampler.forget("never seen")
    assert decoder.used == 3
    computed = sampler.counts.prefilled
    seconds = [request([*prompts[f"e{k}"], *firsts[k].tokens, 9, 9], f"e{k}", 1) for k in (3, 1, 2)]
    assert_right(model, seconds, serve(sampler, *seconds))
    # three rows with two new tokens, and with one that was sampled and not fed; sampling itself counts as decoded
    assert sampler.counts.prefilled - computed == 9
    for name in prompts:
        sampler.forget(name)
    assert decoder.used == 0


@pytest.mark.parametrize("kind", ["bloom", "mamba"])
def test_models_that_cannot_use_the_cache_take_the_plain_path(kind: str):
    model = make(kind)
    sampler = TransformersSampler(model, Letters(), concurrency=4, context=64)
    assert sampler.uncached_reason is not None
    for answers, k in zip(play(sampler, 3, 2), range(3), strict=True):
        expected = full_logprobs(model, prompt_of(4 + 3 * k, k), answers[0].tokens)
        assert answers[0].logprobs == pytest.approx(expected, abs=1e-4)


def test_a_window_as_long_as_the_context_changes_nothing():
    sampler = TransformersSampler(make("mistral", sliding_window=64), Letters(), concurrency=2, context=64)
    assert sampler.uncached_reason is None


def chi_square(counts: np.ndarray, expected: np.ndarray) -> float:
    return float(((counts - expected) ** 2 / expected).sum())


def test_samples_follow_the_distribution():
    logits = torch.tensor([1.5, 0.0, -1.0, 0.7, -0.3])
    count, temperature = 20_000, 0.8
    expected = torch.softmax(logits / temperature, dim=-1).numpy() * count
    keys = np.array([stream_key(11, turn) for turn in range(count)], dtype=np.uint64)
    tokens, logprobs = sample_tokens(
        logits.expand(count, 5), [temperature] * count, [1.0] * count, uniforms(keys, np.zeros(count, dtype=np.int64))
    )
    found = np.bincount(tokens, minlength=5)
    assert chi_square(found, expected) < 23.5  # 4 degrees of freedom, p = 1e-4
    assert logprobs[0] == pytest.approx(math.log(expected[tokens[0]] / count), abs=1e-5)


def test_nucleus_keeps_the_fewest_tokens_that_reach_top_p():
    probabilities = torch.tensor([0.1, 0.4, 0.2, 0.3])
    count = 4000
    keys = np.full(count, stream_key(2, 0), dtype=np.uint64)
    tokens, logprobs = sample_tokens(
        probabilities.log().expand(count, 4), [1.0] * count, [0.65] * count, uniforms(keys, np.arange(count))
    )
    assert set(tokens) == {1, 3}  # 0.4 alone falls short of 0.65, with 0.3 it does not
    assert {round(math.exp(value), 4) for value in logprobs} == {round(4 / 7, 4), round(3 / 7, 4)}
    assert chi_square(np.bincount(tokens, minlength=4)[[1, 3]], np.array([4 / 7, 3 / 7]) * count) < 15.2


def test_a_tiny_nucleus_is_the_most_probable_token_and_rows_do_not_mix():
    logits = torch.tensor([[0.0, 1.0, 2.0], [3.0, 1.0, 2.0], [0.0, 5.0, 5.0]])
    tokens, logprobs = sample_tokens(logits, [1.0, 0.0, 0.0], [1e-9, 1.0, 1.0], np.array([0.999, 0.999, 0.999]))
    assert tokens == [2, 0, 1]
    assert logprobs[0] == pytest.approx(0.0, abs=1e-6)
    assert logprobs[1] == pytest.approx(float(torch.log_softmax(logits[1], 0)[0]), abs=1e-6)


def test_uniforms_are_uniform_and_differ_between_streams():
    keys = np.array([stream_key(seed, turn) for seed in range(100) for turn in range(100)], dtype=np.uint64)
    assert len(set(keys.tolist())) == 10_000
    for counter in (0, 1, 7):
        numbers = uniforms(keys, np.full(10_000, counter))
        assert numbers.min() >= 0
        assert numbers.max() < 1
        found = np.bincount((numbers * 20).astype(int), minlength=20)
        assert chi_square(found, np.full(20, 500.0)) < 50.8  # 19 degrees of freedom, p = 1e-4
    assert abs(np.corrcoef(uniforms(keys, np.zeros(10_000)), uniforms(keys, np.ones(10_000)))[0, 1]) < 0.05


@pytest.mark.parametrize("uniform", [0.0, 1 - 2**-53])
def test_a_token_of_probability_zero_never_comes(uniform: float):
    logits = torch.tensor([[-torch.inf, 0.3, 1.0, -torch.inf]])
    tokens, _ = sample_tokens(logits, [1.0], [1.0], np.array([uniform]))
    assert tokens[0] in (1, 2)


def test_seed_and_turn_decide():
    sampler = TransformersSampler(make(), Letters(), concurrency=4, context=64)
    prompt = prompt_of(9)
    runs = serve(
        sampler,
        request(prompt, "a", 0, seed=1, max_tokens=12),
        request(prompt, "b", 0, seed=1, max_tokens=12),
        request(prompt, "c", 1, seed=1, max_tokens=12),
        request(prompt, "d", 0, seed=2, max_tokens=12),
    )
    assert runs[0].tokens == runs[1].tokens
    assert runs[0].tokens != runs[2].tokens
    assert runs[0].tokens != runs[3].tokens


def test_a_repeated_rollout_gives_the_same_bits():
    model = make()
    first = play(TransformersSampler(model, Letters(), concurrency=4, context=128), 6, 3)
    assert first == play(TransformersSampler(model, Letters(), concurrency=4, context=128), 6, 3)


def saying(circle: str):
    """A model that says these letters round and round, whatever came before the last one."""
    model = make(tie_word_embeddings=False)
    with torch.no_grad():
        for layer in model.model.layers:  # nothing but the token itself reaches the output
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        model.model.embed_tokens.weight.zero_()
        model.lm_head.weight.zero_()
        ids = Letters().encode(circle)
        for feature, letter in enumerate(ids):
            model.model.embed_tokens.weight[letter, feature] = 1.0
            model.lm_head.weight[ids[(feature + 1) % len(ids)], feature] = 30.0
    return model


def test_a_stop_string_over_several_tokens_ends_the_response():
    sampler = TransformersSampler(saying("zlok<A>m"), Letters(), concurrency=3, context=64)
    start = Letters().encode("z")
    answer, endless, late = serve(
        sampler,
        request(start, "a", max_tokens=20, stop=("!!", "k<A")),
        request(start, "b", max_tokens=3, stop=("never",)),
        request(start, "c", max_tokens=40, stop=("mzlok",)),
    )
    assert (answer.text, answer.finish) == ("lok<A", "stop")
    assert Letters().decode(answer.tokens) == answer.text
    assert (endless.text, endless.finish) == ("lok", "length")
    assert (late.text, late.finish) == ("lok<A>mzlok", "stop")


def test_the_end_token_ends_and_is_not_in_the_text():
    model = make()
    with torch.no_grad():
        model.lm_head.weight.zero_()
    sampler = TransformersSampler(model, Letters(), concurrency=2, context=64)
    answers = serve(sampler, *(request([1, 2], f"e{k}", seed=k, max_tokens=60) for k in range(8)))
    ended = [answer for answer in answers if answer.finish == "stop"]
    assert ended  # 41 equally probable tokens: three of four responses end within 60
    for answer in ended:
        assert answer.tokens[-1] == EOS
        assert EOS not in answer.tokens[:-1]
        assert answer.text == Letters().decode(answer.tokens[:-1])
        assert answer.logprobs == pytest.approx([-math.log(VOCAB)] * len(answer.tokens), abs=1e-5)


def test_temperature_zero_is_greedy():
    model = make()
    sampler = TransformersSampler(model, Letters(), concurrency=2, context=64)
    asked = request(prompt_of(7), temperature=0.0)
    (answer,) = serve(sampler, asked)
    ids = prompt_of(7)
    for token in answer.tokens:
        with torch.no_grad():
            assert int(model(input_ids=torch.tensor([ids])).logits[0, -1].argmax()) == token
        ids.append(token)
    assert_right(model, [asked], [answer])


def test_context_is_never_exceeded_and_full_prompts_are_refused():
    sampler = TransformersSampler(make(), Letters(), concurrency=2, context=16)
    (answer,) = serve(sampler, request(prompt_of(13), max_tokens=50, temperature=0.0))
    assert len(answer.tokens) <= 3
    with pytest.raises(ContextOverflow, match="16 tokens leaves no room in a context of 16"):
        serve(sampler, request(prompt_of(16), "b"))
    (after,) = serve(sampler, request(prompt_of(15), "c", max_tokens=4))
    assert len(after.tokens) == 1


@pytest.mark.parametrize(
    ("bad", "word"),
    [
        ({"prompt": []}, "at least one token"),
        ({"prompt": [1, VOCAB]}, "tokenizer"),
        ({"prompt": [-1]}, "tokenizer"),
        ({"prompt": [1], "top_p": 0.0}, "top_p"),
        ({"prompt": [1], "temperature": -0.1}, "temperature"),
        ({"prompt": [1], "max_tokens": 0}, "max_tokens"),
    ],
)
def test_requests_that_cannot_be_served(bad: dict[str, object], word: str):
    sampler = TransformersSampler(make(), Letters(), concurrency=2, context=16)
    with pytest.raises(SamplerError, match=word):
        serve(sampler, request(**bad))
    assert len(serve(sampler, request([1]))[0].tokens) > 0


def test_samplers_that_cannot_be_made():
    with pytest.raises(SamplerError, match="concurrency must be >= 1"):
        TransformersSampler(make(), Letters(), concurrency=0)
    with pytest.raises(SamplerError, match="128"):
        TransformersSampler(make(), Letters(), context=129)
    assert TransformersSampler(make(), Letters()).context == 128


def test_a_cancelled_request_leaves_the_sampler_usable():
    model = make()
    sampler = TransformersSampler(model, Letters(), concurrency=2, context=128)

    async def scene() -> list[Completion]:
        doomed = asyncio.create_task(sampler.sample(request(prompt_of(6), "doomed", max_tokens=100)))
        other = asyncio.create_task(sampler.sample(request(prompt_of(8, 1), "other", max_tokens=10)))
        for _ in range(12):
            await asyncio.sleep(0)
        doomed.cancel()
        with pytest.raises(asyncio.CancelledError):
            await doomed
        again = sampler.sample(request(prompt_of(9, 2), "doomed", 1))
        return list(await asyncio.gather(other, again))

    other, again = asyncio.run(scene())
    assert other.logprobs == pytest.approx(full_logprobs(model, prompt_of(8, 1), other.tokens), abs=1e-4)
    assert again.logprobs == pytest.approx(full_logprobs(model, prompt_of(9, 2), again.tokens), abs=1e-4)


def test_an_abandoned_event_loop_leaves_the_sampler_usable():
    sampler = TransformersSampler(make(), Letters(), concurrency=1, context=128)

    async def interrupted() -> None:
        task = asyncio.create_task(sampler.sample(request(prompt_of(6), "a", max_tokens=100)))
        for _ in range(12):
            await asyncio.sleep(0)
        assert not task.done()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(interrupted())
    assert len(serve(sampler, request(prompt_of(6), "b"))[0].tokens) > 0


def test_two_requests_of_one_episode_at_once_are_refused():
    sampler = TransformersSampler(make(), Letters(), concurrency=2, context=64)

    async def scene() -> Completion:
        first = asyncio.create_task(sampler.sample(request([1, 2])))
        await asyncio.sleep(0)
        with pytest.raises(SamplerError, match="already"):
            await sampler.sample(request([1, 2]))
        return await first

    assert len(asyncio.run(scene()).tokens) > 0


def test_new_weights_count_from_the_next_token_on():
    model, other = make(), make(scale=0.7)
    prompt = prompt_of(12)
    sampler = TransformersSampler(model, Letters(), concurrency=2, context=64)
    (before,) = serve(sampler, request(prompt))
    assert before.version == 0
    asyncio.run(sampler.load(other.state_dict(), 1))
    (after,) = serve(sampler, request(prompt))
    assert after.version == sampler.version == 1
    assert after.logprobs == pytest.approx(full_logprobs(other, prompt, after.tokens), abs=1e-4)
    with torch.no_grad():
        model.model.embed_tokens.weight.mul_(0.5)
    asyncio.run(sampler.load(model, 2))
    (same,) = serve(sampler, request(prompt))
    assert same.version == 2
    assert same.logprobs == pytest.approx(full_logprobs(model, prompt, same.tokens), abs=1e-4)
    assert same.logprobs != pytest.approx(after.logprobs, abs=1e-3)


def test_weights_that_do_not_fit_are_refused():
    sampler = TransformersSampler(make(), Letters(), concurrency=2, context=64)
    with pytest.raises(SamplerError, match="do not fit"):
        asyncio.run(sampler.load(make("gpt2"), 1))


def test_loading_while_requests_are_under_way_is_refused():
    sampler = TransformersSampler(make(), Letters(), concurrency=2, context=64)

    async def scene() -> None:
        task = asyncio.create_task(sampler.sample(request([1, 2], max_tokens=30)))
        await asyncio.sleep(0)
        with pytest.raises(SamplerError, match="in progress"):
            await sampler.load(make(), 1)
        await task

    asyncio.run(scene())


async def until_sampled(sampler: TransformersSampler, tokens: int) -> None:
    """Wait until each request in progress has `tokens` tokens."""
    while not sampler._active or min(len(one.tokens) for one in sampler._active) < tokens:
        await asyncio.sleep(0)


@pytest.mark.parametrize("kind", ["llama", "gpt2", "mistral"])
@pytest.mark.parametrize("cuts", [(1,), (3, 4), (2, 2, 9)])
def test_an_answer_goes_on_under_new_weights(kind: str, cuts: tuple[int, ...]):
    """Each token has the log-probability of its own version after all tokens before it, whoever sampled those."""
    models = [make(kind, scale=scale) for scale in (1.0, 0.8, 0.9, 1.1)]
    sampler = TransformersSampler(make(kind), Letters(), concurrency=4, context=64)
    asked = [request(prompt_of(9, k), f"e{k}", seed=k, max_tokens=14) for k in range(3)]

    async def scene() -> list[Completion]:
        tasks = [asyncio.create_task(sampler.sample(one)) for one in asked]
        for version, tokens in enumerate(cuts, start=1):
            await until_sampled(sampler, tokens)
            await sampler.interrupt()
            await sampler.load(models[version], version)
            probe = await sampler.sample(request(prompt_of(5), "probe"))  # alone, while the others are held
            assert probe.logprobs == pytest.approx(full_logprobs(models[version], prompt_of(5), probe.tokens), abs=1e-4)
            assert (probe.version, probe.switches) == (version, ())
            await sampler.proceed()
        return await asyncio.gather(*tasks)

    answers = asyncio.run(scene())
    assert max(len(one.switches) for one in answers) == len(cuts)
    for one, answer in zip(asked, answers, strict=True):
        versions = token_versions(answer.version, answer.switches, len(answer.tokens))
        assert answer.version == versions[0]
        tables = [full_logprobs(model, one.prompt, answer.tokens) for model in models]
        assert answer.logprobs == pytest.approx([tables[v][at] for at, v in enumerate(versions)], abs=1e-4)


def test_an_interruption_without_new_weights_changes_nothing():
    """Also if the event loop of another thread samples meanwhile, as an evaluation does."""
    sampler, plain = (TransformersSampler(make(), Letters(), concurrency=4, context=64) for _ in range(2))
    asked = [request(prompt_of(9, k), f"e{k}", seed=k, max_tokens=14) for k in range(3)]

    async def scene() -> list[Completion]:
        tasks = [asyncio.create_task(sampler.sample(one)) for one in asked]
        for tokens in (1, 4, 7):
            await until_sampled(sampler, tokens)
            await sampler.interrupt()
            for _ in range(8):
                await asyncio.sleep(0)
            assert not any(one.done() for one in tasks)
            await asyncio.to_thread(serve, sampler, request(prompt_of(5), "evaluation"))
            await sampler.proceed()
        return await asyncio.gather(*tasks)

    for mine, other in zip(asyncio.run(scene()), serve(plain, *asked), strict=True):
        assert (mine.tokens, mine.switches) == (other.tokens, ())
        assert mine.logprobs == pytest.approx(other.logprobs, abs=1e-5)


def test_an_interrupted_request_may_be_forgotten_and_ends_with_the_sampler():
    sampler = TransformersSampler(make(), Letters(), concurrency=4, context=64)

    async def scene() -> None:
        tasks = [asyncio.create_task(sampler.sample(request(prompt_of(9), f"e{k}", max_tokens=14))) for k in range(3)]
        await until_sampled(sampler, 1)
        await sampler.interrupt()
        sampler.forget("e0")
        await sampler.proceed()
        await asyncio.wait(tasks[:2], return_when=asyncio.FIRST_COMPLETED)
        assert tasks[0].cancelled()
        assert len((await tasks[1]).tokens) > 0
        await asyncio.wait(tasks)
        late = asyncio.create_task(sampler.sample(request(prompt_of(9), "late", max_tokens=14)))
        await until_sampled(sampler, 1)
        await sampler.interrupt()
        sampler.close()
        with pytest.raises(asyncio.CancelledError):
            await late

    asyncio.run(scene())


def test_diverged_weights_are_an_error_and_do_not_poison_the_caches():
    model = make()
    sampler = TransformersSampler(model, Letters(), concurrency=2, context=64)
    good = {name: value.clone() for name, value in model.state_dict().items()}
    torn = {name: value * math.nan for name, value in good.items()}
    serve(sampler, request(prompt_of(20)))
    asyncio.run(sampler.load(torn, 1))
    with pytest.raises(SamplerError, match="not finite"):
        serve(sampler, request(prompt_of(20)))
    asyncio.run(sampler.load(good, 2))
    # The short one comes first, into the slot that held the long one, and its unused columns are read along.
    requests = [request(prompt_of(5), "b"), request(prompt_of(18, 1), "c")]
    assert_right(model, requests, serve(sampler, *requests))


def test_bf16_computes_on_a_copy():
    model = make()
    sampler = TransformersSampler(model, Letters(), concurrency=2, context=64, dtype="bfloat16")
    assert sampler.uncached_reason is None
    (answer,) = serve(sampler, request(prompt_of(10)))
    assert model.dtype == torch.float32
    assert answer.logprobs == pytest.approx(full_logprobs(model, prompt_of(10), answer.tokens), abs=0.3)
    asyncio.run(sampler.load(model, 1))
    assert model.dtype == torch.float32
    assert len(serve(sampler, request(prompt_of(10), "b"))[0].tokens) > 0


def test_close_cancels_and_ends():
    sampler = TransformersSampler(make(), Letters(), concurrency=2, context=64)

    async def scene() -> None:
        task = asyncio.create_task(sampler.sample(request([1, 2], max_tokens=30)))
        await asyncio.sleep(0)
        sampler.close()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scene())
    with pytest.raises(SamplerError, match="closed"):
        serve(sampler, request([1]))


def test_long_prompts_go_through_in_several_passes():
    model = make()
    sampler = TransformersSampler(model, Letters(), concurrency=12, context=128)
    requests = [request(prompt_of(4 + (97 * k) % 100, k), f"e{k}", max_tokens=2, seed=k) for k in range(12)]
    assert_right(model, requests, serve(sampler, *requests))
    assert sampler.counts.prefilled == sum(len(asked.prompt) for asked in requests)

"""Captured decode passes: the answers of passes that are not captured, and new captures when memory moves.

A CPU has no CUDA graphs; `toys.recorded_capture` keeps their rules.
"""

from __future__ import annotations

import asyncio
import warnings
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from toys.families import CONTEXT, FAMILIES  # noqa: E402
from toys.recorded_capture import RecordedCapture  # noqa: E402
from toys.served_families import VIEW, Numbers, assert_equal, make_model, prompt, serve  # noqa: E402

from turncredit.engines.base import Completion, Request  # noqa: E402
from turncredit.engines.transformers import decoder_choice, step_graphs  # noqa: E402
from turncredit.engines.transformers.cached_decoding import CachedDecoder  # noqa: E402
from turncredit.engines.transformers.sampler import TransformersSampler  # noqa: E402
from turncredit.engines.transformers.step_access import attend_gathered  # noqa: E402
from turncredit.engines.transformers.step_graphs import PassSize, StepRow  # noqa: E402

DENSE = {"DeepSeek V3"}
"""Families that read copies of the cache on a CPU: its fused kernel takes keys and values of one size only."""


@pytest.fixture(autouse=True)
def capture(monkeypatch: pytest.MonkeyPatch):
    """Let samplers capture on the CPU, with small pages."""
    made = RecordedCapture()
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.setattr(decoder_choice, "make_capture", lambda device: made)
    monkeypatch.setattr(decoder_choice, "PAGE", 16)
    monkeypatch.setattr(decoder_choice, "SMALL", 0)
    yield made
    torch.set_num_threads(before)


def make_sampler(model, **how: object) -> TransformersSampler:
    return TransformersSampler(model, Numbers(), **{"context": CONTEXT, "kv_cache_gib": 0.01, **how})


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_is_replayed_with_the_same_answers_or_says_why_not(name: str):
    model = make_model(FAMILIES[name])
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        sampler = make_sampler(model)
    plain = make_sampler(model, graphs=False)
    sentences = [str(one.message) for one in raised if issubclass(one.category, RuntimeWarning)]
    history = [prompt(20 + 15 * k, k) for k in range(3)]
    for turn in range(2):
        answers = serve(sampler, *history, turn=turn)
        assert_equal(answers, serve(plain, *history, turn=turn))
        history = [(*held, *answer.tokens, *prompt(3, turn)) for held, answer in zip(history, answers, strict=True)]
    assert plain.counts.replayed == 0
    if name in DENSE:
        assert sampler.eager_reason == "its attention reads copies of the cache"
        assert sentences == ["the sampler decodes without CUDA graphs: its attention reads copies of the cache"]
    elif FAMILIES[name].cache:
        assert (sampler.eager_reason, sentences) == (None, [])
        assert sampler.counts.replayed > 10
    else:
        assert sampler.uncached_reason
        assert sampler.eager_reason == "it has no cache"


@pytest.mark.parametrize("name", FAMILIES)
def test_a_prompt_has_logits_for_its_last_position_only_in_the_type_of_the_model(name: str):
    model = make_model(FAMILIES[name]).bfloat16()
    sampler = make_sampler(model, graphs=False)
    shapes = set()
    model.register_forward_hook(lambda module, inputs, out: shapes.add((out.logits.shape[1], out.logits.dtype)))
    serve(sampler, prompt(40))
    assert shapes == {(1, torch.bfloat16)}


def ask(number: int, ids: tuple[int, ...], **how: object) -> Request:
    return Request(f"e{number}", 0, ids, (), number, VIEW, **{"temperature": 1.0, **how})


def llama():
    return make_model(FAMILIES["Qwen 3"])


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 20)), min_size=1, max_size=6), max_size=3))
def test_any_batches_have_the_answers_of_passes_that_are_not_captured(rounds: list[list[tuple[int, int]]]):
    model = llama()
    sampler, plain = make_sampler(model), make_sampler(model, graphs=False)
    for turn, sizes in enumerate(rounds):
        prompts = [prompt(length, salt) for length, salt in sizes]
        for temperature in (0.0, 1.0):
            answers, right = (
                serve(engine, *prompts, turn=turn, temperature=temperature) for engine in (sampler, plain)
            )
            assert_equal(answers, right)
    assert sampler.counts.decoded == plain.counts.decoded


def test_a_capture_serves_every_number_of_rows_up_to_the_next_power_of_two(capture: RecordedCapture):
    sampler = make_sampler(llama(), context=32)
    before = capture.captures
    serve(sampler, *(prompt(10, k) for k in range(4)))
    serve(sampler, *(prompt(10, k + 9) for k in range(3)))
    assert capture.captures - before <= 3  # the second prompts, and one or two pages of single tokens
    assert sampler.counts.replayed == 17


def test_prompts_of_later_turns_are_replayed_with_the_tokens_of_other_episodes():
    sampler, plain = make_sampler(llama()), make_sampler(llama(), graphs=False)
    history = [prompt(20 + 9 * k, k) for k in range(3)]
    for turn in range(3):
        before = replace(sampler.counts)
        answers = serve(sampler, *history, turn=turn, temperature=1.0)
        assert_equal(answers, serve(plain, *history, turn=turn, temperature=1.0))
        passes = sampler.counts.passes - before.passes
        assert passes == 9 or not turn  # one for each token of the answers, which are equally long
        assert sampler.counts.replayed - before.replayed == passes or not turn
        history = [
            (*held, *answer.tokens, *prompt(4 + 7 * k, turn))
            for k, (held, answer) in enumerate(zip(history, answers, strict=True))
        ]
    assert sampler.counts.prefilled == plain.counts.prefilled


def test_a_request_that_arrives_joins_the_pass_of_the_others():
    async def staggered(engine: TransformersSampler) -> list[Completion]:
        early = [asyncio.create_task(engine.sample(ask(k, prompt(20, k), max_tokens=12))) for k in range(4)]
        while len(engine._active) < 4 or len(engine._active[0].tokens) < 3:
            await asyncio.sleep(0)
        return await asyncio.gather(*early, engine.sample(ask(9, prompt(25, 9), max_tokens=2)))

    answers, passes = [], []
    for engine in (make_sampler(llama()), make_sampler(llama(), graphs=False)):
        serve(engine, prompt(30))
        before = engine.counts.passes
        answers.append(asyncio.run(staggered(engine)))
        passes.append(engine.counts.passes - before)
    assert_equal(*answers)
    assert passes[0] == 12  # steps; the late prompt has none of its own
    assert passes[1] > 12


def test_prompts_that_are_too_long_for_a_capture_are_started_by_python(monkeypatch: pytest.MonkeyPatch):
    model = llama()
    plain = make_sampler(model, graphs=False)
    prompts = [prompt(60, k) for k in range(3)]
    right = serve(plain, *prompts)
    for copied, eager in ((64 * 64, 1), (64 * 64 - 1, 2)):  # 64 tokens with copies of four pages of 16
        sampler = make_sampler(model)
        serve(sampler, prompt(8, 7))
        monkeypatch.setattr(step_graphs, "COPIED_KEYS", copied)
        answers = serve(sampler, prompts[0])
        assert sampler.counts.passes - sampler.counts.replayed == eager
        assert_equal(answers, right[:1])
        assert_equal(serve(sampler, *prompts, turn=1), serve(plain, *prompts, turn=1))


def test_the_size_of_a_pass_counts_the_keys_that_its_tokens_read():
    rows = [StepRow((1, 2, 3), 10, (0,)), StepRow((4,), 0, (1,))]
    assert PassSize.of(rows) == PassSize(rows=2, tokens=4, keys=3 * 13 + 1, end=13)
    assert PassSize.of(rows[:1]).joined(1, 0) == PassSize.of(rows)


def test_metrics_have_the_seconds_of_passes_since_the_last_load():
    model = llama()
    sampler = make_sampler(model)
    nothing = {"pass_seconds": 0.0, "eager_seconds": 0.0}
    assert sampler.metrics() == nothing
    serve(sampler, prompt(10))
    first = sampler.metrics()
    assert 0 < first["eager_seconds"] < first["pass_seconds"]  # the first pass of all makes the cache
    asyncio.run(sampler.load(model, 1))
    assert sampler.metrics() == nothing
    serve(sampler, prompt(10))
    assert sampler.metrics()["eager_seconds"] == 0 < sampler.metrics()["pass_seconds"]
    plain = make_sampler(model, graphs=False)
    serve(plain, prompt(10))
    assert plain.metrics()["eager_seconds"] == plain.metrics()["pass_seconds"] > 0


def test_weights_that_change_in_place_need_no_new_capture(capture: RecordedCapture):
    model = llama()
    sampler = make_sampler(model)
    first = serve(sampler, prompt(10))
    serve(sampler, prompt(10, 1))  # its prompt is captured, which that of the first pass of all is not
    captures = capture.captures
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(1.1)
    asyncio.run(sampler.load(model, 1))
    answers = serve(sampler, prompt(10))
    assert capture.captures == captures
    assert answers[0].logprobs != first[0].logprobs
    assert_equal(answers, serve(make_sampler(model, graphs=False), prompt(10)))


@pytest.mark.parametrize("how", ["storage", "parameter"])
def test_weights_that_move_are_captured_anew(how: str, capture: RecordedCapture):
    model = llama()
    sampler = make_sampler(model)
    serve(sampler, prompt(10))
    captures = capture.captures
    head = model.model.layers[0].mlp.down_proj
    with torch.no_grad():
        if how == "storage":  # a learner that brings its weights back from main memory, without a load
            head.weight.data = head.weight * 2
        else:
            head.weight = torch.nn.Parameter(head.weight * 2)
            asyncio.run(sampler.load(model, 1))
    sampler.forget("e0")
    answers = serve(sampler, prompt(10))
    assert capture.captures > captures
    assert_equal(answers, serve(make_sampler(model, graphs=False), prompt(10)))


def test_an_adapter_is_replayed_with_its_weights_as_they_are(capture: RecordedCapture):
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        adapted = peft.get_peft_model(llama(), config).eval()
    sampler = make_sampler(adapted)
    serve(sampler, prompt(10))
    serve(sampler, prompt(10, 1))
    captures = capture.captures
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora_B" in name:
                weight.add_(0.3)
    asyncio.run(sampler.load(adapted, 1))
    right = serve(make_sampler(adapted, graphs=False), prompt(10))
    assert_equal(serve(sampler, prompt(10)), right)
    assert capture.captures == captures
    for module in adapted.modules():
        if isinstance(module, peft.tuners.lora.LoraLayer):
            module._disable_adapters = True
    asyncio.run(sampler.load(adapted, 2))
    without = serve(make_sampler(adapted, graphs=False), prompt(10))
    assert without[0].logprobs != right[0].logprobs
    assert_equal(serve(sampler, prompt(10)), without)
    assert capture.captures > captures


def test_a_cache_that_grows_or_is_released_is_captured_anew(capture: RecordedCapture):
    model = llama()
    sampler, plain = make_sampler(model), make_sampler(model, graphs=False)
    assert_equal(serve(sampler, prompt(10)), serve(plain, prompt(10)))
    captures, memory = capture.captures, sampler._decoder.memory
    many = [prompt(100, k) for k in range(20)]
    assert_equal(serve(sampler, *many), serve(plain, *many))
    assert sampler._decoder.memory > memory
    assert_equal(serve(sampler, prompt(10)), serve(plain, prompt(10)))
    sampler._decoder.release()
    assert_equal(serve(sampler, prompt(10)), serve(plain, prompt(10)))
    assert capture.captures >= captures + 3


def test_rows_without_a_request_write_to_no_page_in_use():
    model = llama()
    decoder = CachedDecoder(model, pages=8, width=16, paged=True, context=64, capture=RecordedCapture())
    with torch.inference_mode():
        sequences = [(f"e{k}", list(prompt(15, k))) for k in range(3)]
        for name, ids in sequences:
            assert decoder.begin(name, ids)
        decoder.logits(sequences)
        keys = [layer.keys.clone() for layer in decoder._cache.layers]
        sequences = [(name, [*ids, 7]) for name, ids in sequences]
        for name, ids in sequences:
            assert decoder.extend(name, len(ids))
        decoder.logits(sequences)
    assert decoder.counts.replayed == 1
    for layer, before in zip(decoder._cache.layers, keys, strict=True):
        changed = (layer.keys != before).any(-1).any(1)  # [pages, width]
        pages = {(decoder._table.sequences[name].pages[0], 15) for name, _ in sequences}
        assert {tuple(at) for at in changed.nonzero().tolist()} == pages | {(decoder._cache.capacity - 1, 0)}


def test_a_model_that_waits_for_the_device_falls_back_with_one_sentence():
    model = llama()

    class Waiting(type(model)):
        def forward(self, *args, **kwargs):
            out = super().forward(*args, **kwargs)
            return out if out.logits[0, -1, 0].item() < 1e9 else None

    model.__class__ = Waiting
    sentence = "decodes without CUDA graphs: RuntimeError: aten::item waits for the device"
    with pytest.warns(RuntimeWarning, match=sentence):
        sampler = make_sampler(model)
    assert sampler.eager_reason == sentence.partition(": ")[2]
    assert sampler._decoder.paged
    assert_equal(serve(sampler, prompt(30)), serve(make_sampler(llama(), graphs=False), prompt(30)))
    assert sampler.counts.replayed == 0


def test_a_capture_that_fails_later_costs_no_request(capture: RecordedCapture, monkeypatch: pytest.MonkeyPatch):
    sampler = make_sampler(llama())
    right = serve(sampler, prompt(30))
    record = RecordedCapture.__call__

    def short(self, run):
        run()
        raise torch.OutOfMemoryError("out of memory")

    monkeypatch.setattr(RecordedCapture, "__call__", short)
    prompts = [prompt(30, k) for k in range(5)]
    with pytest.warns(RuntimeWarning, match="without CUDA graphs: OutOfMemoryError: out of memory"):
        answers = serve(sampler, *prompts)
    monkeypatch.setattr(RecordedCapture, "__call__", record)
    assert_equal(answers, serve(make_sampler(llama(), graphs=False), *prompts))
    assert_equal(serve(sampler, prompt(30)), right)


@pytest.mark.parametrize("window", [None, 20])
def test_gathered_attention_is_the_formula(window: int | None):
    generator = torch.Generator().manual_seed(0)
    rows, heads, kinds, size, width, count = 4, 6, 2, 8, 16, 3
    keys, values = (torch.randn(20, kinds, width, size, generator=generator) for _ in range(2))
    query = torch.randn(rows, heads, 1, size, generator=generator)
    pages = torch.randperm(20, generator=generator)[: rows * count].view(rows, count)
    positions = torch.tensor([0, 15, 16, 47])
    out = attend_gathered(query, keys, values, positions, pages, 0.3, window)
    for row in range(rows):
        first = 0 if window is None else max(0, int(positions[row]) - window + 1)
        held = [block[pages[row]].transpose(0, 1).flatten(1, 2) for block in (keys, values)]
        key, value = (block[:, first : int(positions[row]) + 1].repeat_interleave(3, 0).double() for block in held)
        right = torch.softmax(query[row].double() @ key.transpose(1, 2) * 0.3, -1) @ value
        assert torch.allclose(out[row].double(), right, atol=1e-6)

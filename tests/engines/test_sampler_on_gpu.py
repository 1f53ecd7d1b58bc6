"""The transformers sampler on a CUDA device: replayed passes, the kernel, and how often Python waits for the device."""

from __future__ import annotations

import asyncio
import warnings

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from toys.families import CONTEXT, FAMILIES  # noqa: E402
from toys.served_families import Numbers, assert_equal, prompt, serve  # noqa: E402
from toys.served_families import make_model as make_on_cpu  # noqa: E402

from turncredit.engines.transformers.cached_decoding import CachedDecoder  # noqa: E402
from turncredit.engines.transformers.graph_capture import CudaCapture  # noqa: E402
from turncredit.engines.transformers.sampler import TransformersSampler  # noqa: E402
from turncredit.engines.transformers.step_access import attend_gathered  # noqa: E402

pytestmark = pytest.mark.gpu

PLAIN = ("Llama 3", "Qwen 2.5", "Qwen 3", "Mistral", "Phi 4", "SmolLM 3", "Granite", "Gemma 3, text only")
"""Families whose passes nothing keeps from being captured; of the others it depends on transformers."""


def make_model(name: str, dtype: str = "float32"):
    return make_on_cpu(FAMILIES[name]).to("cuda", getattr(torch, dtype))


def make_sampler(model, **how: object) -> TransformersSampler:
    return TransformersSampler(model, Numbers(), **{"device": "cuda", "context": CONTEXT, "kv_cache_gib": 0.05, **how})


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_answers_as_without_graphs_and_as_on_the_cpu(name: str):
    model = make_model(name)
    sampler, plain = make_sampler(model), make_sampler(model, graphs=False)
    there = TransformersSampler(make_model(name).cpu(), Numbers(), context=CONTEXT)
    history = [prompt(20 + 15 * k, k) for k in range(3)]
    for turn in range(2):
        answers = serve(sampler, *history, turn=turn)
        assert_equal(answers, serve(plain, *history, turn=turn))
        assert_equal(answers, serve(there, *history, turn=turn), 1e-4)
        history = [(*held, *answer.tokens, *prompt(3, turn)) for held, answer in zip(history, answers, strict=True)]
    if name in PLAIN:
        assert sampler.eager_reason is None
        assert sampler.counts.replayed > 10
        steps = sampler._decoder._steps
        assert steps.attention is not attend_gathered, steps.kernel_failure
    else:
        assert (sampler.eager_reason is None) == (sampler.counts.replayed > 0)


def test_bfloat16_agrees_with_passes_that_are_not_replayed():
    model = make_model("Qwen 3", "bfloat16")
    asked = [prompt(20 + 9 * k, k) for k in range(5)]
    sampler, plain = make_sampler(model), make_sampler(model, graphs=False)
    for answer, right in zip(serve(sampler, *asked), serve(plain, *asked), strict=True):
        assert answer.logprobs[0] == pytest.approx(right.logprobs[0], abs=0.05)  # later tokens may differ by a tie
    assert sampler.counts.replayed


def test_prompts_of_later_turns_are_replayed_through_the_kernel():
    model = make_model("Llama 3")
    sampler, plain = make_sampler(model), make_sampler(model, graphs=False)
    history = [prompt(20 + 9 * k, k) for k in range(5)]
    for turn in range(3):
        before = sampler.counts.passes - sampler.counts.replayed
        answers = serve(sampler, *history, turn=turn)
        assert_equal(answers, serve(plain, *history, turn=turn))
        assert sampler.counts.passes - sampler.counts.replayed - before == (not turn)  # the first pass of all
        added = [prompt(8 + 3 * k, turn) for k in range(5)]  # the longest history has 114 tokens, 9 before CONTEXT ends
        history = [(*held, *answer.tokens, *more) for held, answer, more in zip(history, answers, added, strict=True)]
    steps = sampler._decoder._steps
    assert steps.attention is not attend_gathered, steps.kernel_failure


def test_groups_share_pages_on_the_device():
    model = make_model("Llama 3")
    answers = []
    for share in (True, False):
        sampler = make_sampler(model)
        how = {"pages": 200, "width": 16, "paged": True, "context": CONTEXT, "share": share}
        sampler._decoder = CachedDecoder(model, **how, capture=CudaCapture(model.device))
        answers.append(serve(sampler, *[prompt(70)] * 8, *[prompt(70, 1)] * 3, temperature=1.0))
        assert sampler.counts.replayed
    assert_equal(*answers)


def test_weights_that_change_in_place_are_seen_and_those_that_move_are_captured_anew():
    model = make_model("Llama 3")
    sampler = make_sampler(model)
    first = serve(sampler, prompt(10))
    serve(sampler, prompt(10, 1))  # its prompt is captured, which that of the first pass of all is not
    captures = sampler._decoder._steps.captures
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(1.1)
    asyncio.run(sampler.load(model, 1))
    answers = serve(sampler, prompt(10))
    assert answers[0].logprobs != first[0].logprobs
    assert_equal(answers, serve(make_sampler(model, graphs=False), prompt(10)))
    assert sampler._decoder._steps.captures == captures
    with torch.no_grad():
        for weight in model.parameters():
            weight.data = weight * 1.1
    asyncio.run(sampler.load(model, 2))
    assert_equal(serve(sampler, prompt(10)), serve(make_sampler(model, graphs=False), prompt(10)))
    assert sampler._decoder._steps.captures > captures


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_python_waits_for_the_device_once_for_each_token(temperature: float):
    sampler = make_sampler(make_model("Llama 3"))
    asked = [prompt(20, k) for k in range(4)]
    serve(sampler, *asked, temperature=temperature)  # captures
    asked = [prompt(21, k) for k in range(4)]
    before = sampler.counts.passes
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as raised:
            warnings.simplefilter("always")
            serve(sampler, *asked, turn=1, temperature=temperature, max_tokens=20)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    waits = [str(one.message) for one in raised if "synchronizing" in str(one.message)]
    assert 0 < len(waits) <= sampler.counts.passes - before


def test_a_capture_that_fails_leaves_the_device_usable():
    capture = CudaCapture(torch.device("cuda"))
    values = torch.arange(8.0, device="cuda")
    with pytest.raises(RuntimeError):
        capture(lambda: values[values > 3])  # its shape depends on the numbers: refused before a capture begins
    calls = []

    def late() -> torch.Tensor:
        calls.append(None)
        return values * 2 if len(calls) < 3 else torch.full((1,), values.sum().item(), device="cuda")

    with pytest.raises(RuntimeError):
        capture(late)  # fails within the capture
    assert torch.nn.functional.dropout(torch.ones(100, device="cuda")).sum().item() > 0
    replay, out = capture(lambda: values * 3)
    values.add_(1)
    replay()
    assert out.tolist() == [3.0 * (k + 1) for k in range(8)]

"""Other kernels give the loss, the gradient and the scores of a model's own operations."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from test_shared_prefixes import SIZES, assert_same, batch_of, model_of
from torch._dynamo.utils import counters
from toys.training_helpers import gradient
from transformers import Gemma2Config, Qwen2Config, Qwen3Config

from turncredit.training.config.run import Run
from turncredit.training.config.sections import PolicySection, TrainSection
from turncredit.training.errors import ConfigError
from turncredit.training.learner import kernels, logprobs, vocabulary
from turncredit.training.learner.gradient import UpdateMeter, UpdatePlan, accumulate
from turncredit.training.learner.kernels import LayerKernels, require_kernels
from turncredit.training.learner.learner import Learner
from turncredit.training.learner.logprobs import TokenScorer
from turncredit.training.learner.lora import LoraOptions, add_adapter
from turncredit.training.learner.make_learner import LearnerFactory
from turncredit.training.learner.memory import MemoryNeeds
from turncredit.training.objectives import Objective

torch.set_num_threads(1)

compiles = pytest.mark.skipif(not (shutil.which("g++") or shutil.which("clang++")), reason="there is no C++ compiler")
OPTIONS = {
    "padded": {},
    "recomputed tree": {"recompute_activations": True, "share_prefixes": True},
}


def outcome(model, batch, name, *, micro_tokens=40, **options):
    """Loss, gradient and scores of one mini-batch."""
    scorer = TokenScorer(model, **options)
    scorer.use_kernels(name)
    model.zero_grad(set_to_none=True)
    plan, meter = UpdatePlan(micro_tokens=micro_tokens, grad_clip=1e9, temperature=0.8), UpdateMeter()
    accumulate(scorer, batch, Objective(entropy=0.1), plan, meter)
    scores = scorer.score(batch, temperature=0.8, micro_tokens=micro_tokens)
    return np.array(meter.loss), gradient(model).double().cpu().numpy(), scores.logprobs, scores.entropy


def qwen(**changes):
    return model_of(Qwen2Config(**SIZES | changes), torch.float32)


# -- compiled --


@compiles
@pytest.mark.parametrize("name", ["padded", pytest.param("recomputed tree", marks=pytest.mark.slow)])
def test_compiled_layers_have_the_gradient_of_plain_ones(name):
    model, batch = qwen(), batch_of()
    plain = outcome(model, batch, "plain", **OPTIONS[name])
    assert_same(outcome(model, batch, "compile", **OPTIONS[name]), plain, 1e-5)
    assert counters["stats"]["unique_graphs"] > 0, "nothing was compiled"


@compiles
@pytest.mark.slow
def test_compiled_layers_train_an_adapter():
    torch.manual_seed(0)
    model = add_adapter(qwen(), LoraOptions(rank=2))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.normal_(0.0, 0.1)
    plain = outcome(model, batch_of(), "plain")
    assert_same(outcome(model, batch_of(), "compile"), plain, 1e-5)


@compiles
def test_a_compiled_vocabulary_in_chunks_is_the_plain_one(monkeypatch):
    original = vocabulary.token_logprobs

    def in_chunks(hidden, head, tokens, **options):
        return original(hidden, head, tokens, **options, chunk=3 * head.weight.shape[0])

    model, batch = qwen(), batch_of()
    plain = outcome(model, batch, "plain")
    monkeypatch.setattr("turncredit.training.learner.logprobs.token_logprobs", in_chunks)
    assert_same(outcome(model, batch, "compile"), plain, 1e-5)


@compiles
def test_other_lengths_and_more_layers_compile_nothing_again():
    model = qwen()
    outcome(model, batch_of(0), "compile")
    outcome(model, batch_of(1), "compile", micro_tokens=8)  # one row at a time: torch makes kernels of their own for it
    before = counters["stats"]["unique_graphs"]
    for seed, budget in ((2, 40), (3, 70), (4, 25)):
        outcome(model, batch_of(seed), "compile", micro_tokens=budget)
    outcome(qwen(num_hidden_layers=4), batch_of(6), "compile")
    assert counters["stats"]["unique_graphs"] == before > 0


@compiles
def test_engines_keep_the_operations_of_the_model():
    model = qwen()
    outcome(model, batch_of(), "compile")
    before = counters["stats"]["unique_graphs"]
    assert not any("forward" in module.__dict__ for module in model.modules())
    model(torch.ones(1, 3, dtype=torch.int64))
    assert counters["stats"]["unique_graphs"] == before


@compiles
def test_the_reference_computes_with_the_same_kernels():
    learner = Learner(qwen(), None)
    learner.use_kernels("compile")
    learner.set_reference(qwen())
    assert learner.require_reference().kernels.compiled
    batch = batch_of()
    np.testing.assert_allclose(learner.score_reference(batch).logprobs, learner.score(batch).logprobs, atol=1e-5)


def test_an_error_inside_leaves_the_model_as_it_was():
    model = qwen()
    own = [layer.forward for layer in model.model.layers]
    inside = LayerKernels(model, "compile")
    with inside(), inside():
        assert [layer.forward for layer in model.model.layers] != own
    with pytest.raises(ValueError, match="tokens"), inside():
        raise ValueError("no tokens")
    assert [layer.forward for layer in model.model.layers] == own


# -- what is refused --


def test_an_unknown_name_is_refused():
    with pytest.raises(ConfigError, match=r"unknown policy\.kernels 'ligr'; did you mean 'liger'"):
        LayerKernels(qwen(), "ligr")
    with pytest.raises(ConfigError, match=r"policy\.kernels must be 'plain', 'compile' or 'liger', got 'fast'"):
        Run.parse({"policy": {"kernels": "fast"}})


def test_liger_needs_a_gpu_and_one_rank():
    with pytest.raises(ConfigError, match=r'"liger" needs policy\.device = "cuda", got cpu; use "compile"'):
        require_kernels("liger", "cpu")
    for name in ("liger", "compile"):
        with pytest.raises(ConfigError, match=rf'"{name}" works with one rank, got 2; use "plain"'):
            require_kernels(name, "cuda", ranks=2)


def test_a_machine_without_a_compiler_is_told_before_anything_is_trained(monkeypatch):
    def broken(function, **options):
        raise RuntimeError("no compiler\nsecond line")

    monkeypatch.setattr(torch, "compile", broken)
    with pytest.raises(ConfigError, match=r'"compile" is not possible on the device cpu: no compiler$'):
        require_kernels("compile", "cpu")


def test_what_torch_keeps_on_the_disk_is_apart_for_other_vectors(monkeypatch):
    # torch 2.13 takes kernels for AVX-512 in a process that uses AVX2, and computes NaN with them; what differs in an
    # option is kept apart
    chosen = {}
    for name in ("AVX2", "AVX512", "DEFAULT"):
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda name=name: name)
        monkeypatch.setattr(torch, "compile", lambda function, **options: options)
        chosen[name] = kernels.fused(abs)["options"]
    assert chosen == {"AVX2": {"cpp.simdlen": 256}, "AVX512": {"cpp.simdlen": 512}, "DEFAULT": {}}


@compiles
def test_a_run_chooses_the_kernels():
    policy = PolicySection(kernels="compile")
    made = LearnerFactory(
        policy=policy, train=TrainSection(), needs=MemoryNeeds(), device="cpu", threads=1, leader=None, note=print
    )(qwen(), None)
    assert made.scorer.kernels.compiled


# -- liger, where its kernels are those of torch --


@pytest.fixture
def torch_as_liger(monkeypatch):
    """The kernels that liger has, written with operations of torch."""

    def norm(hidden, weight, epsilon, offset, casting, in_place):
        wide = hidden.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)
        gemma = (wide * (offset + weight.float())).to(hidden.dtype)
        return gemma if casting == "gemma" else weight * wide.to(hidden.dtype)

    def rotary(query, key, cos, sin, position_ids=None, unsqueeze_dim=1):
        def turned(numbers):
            one, other = numbers.chunk(2, dim=-1)
            return numbers * cos[:, None] + torch.cat((-other, one), dim=-1) * sin[:, None]

        return turned(query), turned(key)

    functions = kernels.LigerKernels(
        norm=norm,
        silu=lambda gate, up: torch.nn.functional.silu(gate) * up,
        gelu=lambda gate, up: torch.nn.functional.gelu(gate, approximate="tanh") * up,
        rotary=rotary,
    )
    monkeypatch.setattr(kernels, "require_kernels", lambda *_, **__: None)
    monkeypatch.setattr(logprobs, "require_kernels", lambda *_, **__: None)
    monkeypatch.setattr(kernels, "_liger", lambda: functions)


@pytest.mark.parametrize("config", [Qwen2Config, Qwen3Config, Gemma2Config])
@pytest.mark.parametrize("recompute", [False, True])
def test_the_right_kernel_takes_the_place_of_each_module(torch_as_liger, config, recompute):
    model = model_of(config(**SIZES, **({} if config is Qwen2Config else {"head_dim": 8})), torch.float32)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" in name:
                weight.normal_(0.5, 0.2)
    replaced = LayerKernels(model, "liger").replaced
    expected = [module for module in model.modules() if type(module).__name__.endswith(("RMSNorm", "MLP"))]
    assert replaced == expected
    assert len(expected) >= 7
    plain = outcome(model, batch_of(), "plain", recompute_activations=recompute)
    assert_same(outcome(model, batch_of(), "liger", recompute_activations=recompute), plain, 1e-5)


def test_a_module_that_a_kernel_disagrees_with_stays(torch_as_liger, monkeypatch):
    functions = replace(
        kernels._liger(),
        silu=lambda gate, up: gate * up,
        rotary=lambda query, key, cos, sin: (key, query),
    )
    monkeypatch.setattr(kernels, "_liger", lambda: functions)
    model = qwen()
    made = LayerKernels(model, "liger")
    assert {type(module).__name__ for module in made.replaced} == {"Qwen2RMSNorm"}
    assert made._functions == []


def test_a_model_without_anything_to_replace_is_refused(torch_as_liger):
    from transformers import GPT2Config

    model = model_of(GPT2Config(vocab_size=20, n_embd=8, n_layer=1, n_head=2), torch.float32)
    with pytest.raises(ConfigError, match=r'"liger" has nothing to compute in GPT2LMHeadModel'):
        LayerKernels(model, "liger")


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["compile", "liger"])
@pytest.mark.parametrize(("kind", "bound"), [(torch.float32, 1e-4), (torch.bfloat16, 0.05)])
def test_a_gpu_computes_the_same_with_other_kernels(name, kind, bound):
    if name == "liger":
        pytest.importorskip("liger_kernel")
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 2, "num_key_value_heads": 1}
    model = model_of(Qwen2Config(**SIZES | sizes), kind).cuda()
    plain = outcome(model, batch_of(), "plain")
    assert_same(outcome(model, batch_of(), name), plain, bound)

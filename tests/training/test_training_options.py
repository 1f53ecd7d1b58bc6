"""Every option of the learner has the gradient of the plain path: packing, chunks, checkpointing, bfloat16, LoRA."""

import numpy as np
import pytest
import torch
from toys.training_helpers import gradient, play, random_advantages, tiny_llama

from turncredit.agents.models.weights import named_tensors
from turncredit.training.batch.batch import micro_batches, pack
from turncredit.training.batch.model_inputs import packed, require_packable
from turncredit.training.errors import ConfigError
from turncredit.training.learner import vocabulary
from turncredit.training.learner.gradient import UpdateMeter, UpdatePlan, accumulate
from turncredit.training.learner.learner import Learner
from turncredit.training.learner.logprobs import TokenScorer
from turncredit.training.learner.lora import LoraOptions, add_adapter
from turncredit.training.learner.recomputation import layers_of
from turncredit.training.learner.vocabulary import token_logprobs
from turncredit.training.objectives import Objective

torch.set_num_threads(1)


def made(seed=0, **kwargs):
    rng = np.random.default_rng(seed)
    groups = play(rng, **kwargs)
    return pack(groups, random_advantages(rng, groups))


def gradient_of(model, objective=None, *, micro_tokens=60, **options):
    """The unclipped gradient of one mini-batch, and its scores."""
    scorer, batch = TokenScorer(model, **options), made(groups=3, size=3)
    model.zero_grad(set_to_none=True)
    plan = UpdatePlan(micro_tokens=micro_tokens, grad_clip=1e9, temperature=0.8)
    accumulate(scorer, batch, objective or Objective(entropy=0.1), plan, UpdateMeter())
    return gradient(model).double(), scorer.score(batch, temperature=0.8, micro_tokens=micro_tokens)


def assert_close(one, other, bound):
    """Equal up to a bound relative to the largest number."""
    assert float(((one - other).abs().max() / other.abs().max()).detach()) <= bound


@pytest.fixture
def small_chunks(monkeypatch):
    original = vocabulary.token_logprobs
    seen = []

    def chunked(hidden, head, tokens, **options):
        seen.append(len(hidden))
        return original(hidden, head, tokens, **options, chunk=3 * head.weight.shape[0])

    monkeypatch.setattr("turncredit.training.learner.logprobs.token_logprobs", chunked)
    return seen


# -- packing --


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("micro_tokens", [20, 60, 10_000])
def test_packed_sequences_have_the_gradient_of_padded_ones(attention, micro_tokens):
    model = tiny_llama(dtype=torch.float32, attn_implementation=attention)
    plain, scores = gradient_of(model)
    got, packed_scores = gradient_of(model, packing=True, micro_tokens=micro_tokens)
    assert_close(got, plain, 1e-5)
    np.testing.assert_allclose(packed_scores.logprobs, scores.logprobs, atol=1e-5)
    np.testing.assert_allclose(packed_scores.entropy, scores.entropy, atol=1e-5)


def test_packing_leaves_out_padding_and_dropped_tails():
    batch = made(groups=3, size=3)
    inputs = packed(batch, torch.device("cpu"))
    assert inputs.arguments["input_ids"].shape == (1, batch.size)
    assert inputs.targets.tolist() == batch.tokens[batch.mask].tolist()
    starts = np.flatnonzero(inputs.arguments["position_ids"][0].numpy() == 0)
    assert starts.tolist() == (np.cumsum(batch.lengths) - batch.lengths).tolist()


def test_packed_micro_batches_fill_the_budget_with_tokens():
    lengths = np.array([3, 9, 0, 5, 4, 12])
    cuts = micro_batches(lengths, 14, packed=True)
    assert [cut.tolist() for cut in cuts] == [[5], [1, 3], [4, 0]]
    assert [cut.tolist() for cut in micro_batches(lengths, 2, packed=True)] == [[5], [1], [3], [4], [0]]


def test_a_model_whose_rows_see_each_other_is_not_packed():
    class Leaking(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Embedding(23, 23)

        def forward(self, input_ids, position_ids=None, use_cache=False):
            del position_ids, use_cache
            return type("Out", (), {"logits": self.table(input_ids).cumsum(1)})()

    with (
        torch.no_grad(),
        pytest.raises(ConfigError, match=r"train\.micro_batch\.packing is not available: Leaking lets packed"),
    ):
        require_packable(Leaking())


# -- chunks of the vocabulary --


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("entropy", [False, True])
def test_chunks_have_the_gradient_of_the_whole_vocabulary(bias, temperature, entropy):
    torch.manual_seed(0)
    head = torch.nn.Linear(16, 50, bias=bias).double()
    hidden = torch.randn(17, 16, dtype=torch.float64, requires_grad=True)
    tokens, factors = torch.randint(50, (17,)), torch.randn(2, 17, dtype=torch.float64)
    found = []
    for chunk in (10**9, 4 * 50):
        chosen, spread = token_logprobs(hidden, head, tokens, temperature=temperature, entropy=entropy, chunk=chunk)
        assert spread.requires_grad == entropy
        (factors[0] * chosen + factors[1] * spread).sum().backward()
        grads = [hidden.grad, *(one.grad for one in head.parameters())]
        found.append([chosen.detach(), spread.detach(), *(grad.clone() for grad in grads)])
        hidden.grad = None
        head.zero_grad()
    for whole, part in zip(*found, strict=True):
        torch.testing.assert_close(part, whole, rtol=1e-12, atol=1e-12)


def test_the_models_gradient_in_chunks(small_chunks):
    model = tiny_llama(dtype=torch.float32, tie_word_embeddings=True)
    got, scores = gradient_of(model)
    assert max(small_chunks) > 3
    small_chunks.clear()
    with pytest.MonkeyPatch.context() as plain_path:
        plain_path.setattr("turncredit.training.learner.logprobs.token_logprobs", token_logprobs)
        plain, wanted = gradient_of(model)
    assert_close(got, plain, 1e-6)
    np.testing.assert_allclose(scores.logprobs, wanted.logprobs, atol=2e-6)


def test_logits_of_a_large_vocabulary_never_exist_at_once(monkeypatch):
    sizes = []
    head = torch.nn.Linear(4, 1000, bias=False)
    original = torch.nn.functional.linear
    monkeypatch.setattr(torch.nn.functional, "linear", lambda *a: sizes.append(len(a[0])) or original(*a))
    hidden = torch.randn(64, 4, requires_grad=True)
    chosen, _ = token_logprobs(hidden, head, torch.arange(64), chunk=10_000)
    chosen.sum().backward()
    assert max(sizes) == 10
    assert sum(sizes) == 2 * 64  # forward, and once more in the backward pass


def test_a_head_with_an_adapter_is_computed_in_chunks_too():
    torch.manual_seed(0)
    head = torch.nn.Linear(8, 40)

    class Adapted(torch.nn.Module):
        weight = head.weight

        def forward(self, hidden):
            return head(hidden) * 2.0

    hidden, tokens = torch.randn(9, 8, requires_grad=True), torch.randint(40, (9,))
    grads = []
    for chunk in (10**9, 2 * 40):
        chosen, spread = token_logprobs(hidden, Adapted(), tokens, entropy=True, chunk=chunk)
        grads.append(torch.autograd.grad((chosen + spread).sum(), hidden)[0])
    torch.testing.assert_close(*grads)


# -- checkpointing --


def test_recomputed_activations_have_the_same_gradient():
    model = tiny_llama(dtype=torch.float32, attention_dropout=0.5)
    plain, _ = gradient_of(model)
    layers = layers_of(model)
    calls = []
    for layer in layers:
        layer.mlp.register_forward_pre_hook(lambda *_: calls.append(torch.is_grad_enabled()))
    got, _ = gradient_of(model, recompute_activations=True)
    assert torch.equal(got, plain)  # also: no dropout
    assert not any(layer.training or "gradient_checkpointing" in vars(layer) for layer in layers)
    model.zero_grad()
    calls.clear()
    batch = made()
    chosen, _ = TokenScorer(model, recompute_activations=True)(batch)
    before = len(calls)
    chosen.sum().backward()
    assert len(calls) - before == len(layers)  # each layer was computed again


def test_models_without_checkpointing_are_refused():
    with pytest.raises(ConfigError, match="Linear does not support it"):
        layers_of(torch.nn.Linear(2, 2))


# -- bfloat16 --


def test_bfloat16_computes_near_float32_and_keeps_float32_weights():
    model = tiny_llama(dtype=torch.float32)
    plain, wanted = gradient_of(model, Objective(name="reinforce"))
    got, scores = gradient_of(model, Objective(name="reinforce"), bfloat16=True)
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert {p.grad.dtype for p in model.parameters()} == {torch.float32}
    assert 0 < float((got - plain).norm() / plain.norm()) < 0.05
    assert 0 < np.abs(scores.logprobs - wanted.logprobs).max() < 0.1


def test_bfloat16_in_chunks_is_as_near(small_chunks):
    model = tiny_llama(dtype=torch.float32)
    plain, _ = gradient_of(model, Objective(name="reinforce"))
    got, _ = gradient_of(model, Objective(name="reinforce"), bfloat16=True)
    assert small_chunks
    assert 0 < float((got - plain).norm() / plain.norm()) < 0.05


# -- LoRA --


def adapted(model=None, seed=1, **options):
    """A peft model whose adapter is not neutral."""
    model = model or tiny_llama(dtype=torch.float32)
    torch.manual_seed(seed)
    model = add_adapter(model, LoraOptions(**{"rank": 3, "alpha": 6.0} | options))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0.0, 0.1)
    return model


def test_an_adapter_has_the_gradient_of_the_dense_computation():
    model = adapted(targets=["q_proj", "down_proj"])
    gradient_of(model)
    dense = tiny_llama(dtype=torch.float32)
    dense.load_state_dict(dict(named_tensors(model)))
    gradient_of(dense)
    of_dense = {name: parameter.grad for name, parameter in dense.named_parameters()}
    checked = 0
    for name, layer in model.get_base_model().named_modules():
        if not hasattr(layer, "lora_A"):
            continue
        a, b, scale = layer.lora_A["default"].weight, layer.lora_B["default"].weight, 6.0 / 3
        torch.testing.assert_close(dense.get_submodule(name).weight, layer.base_layer.weight + scale * b @ a)
        whole = of_dense[f"{name}.weight"]
        assert_close(b.grad, scale * whole @ a.T, 1e-5)
        assert_close(a.grad, scale * b.T @ whole, 1e-5)
        checked += 1
    assert checked == 4
    assert all(p.grad is None for n, p in model.named_parameters() if "lora_" not in n)


def test_the_base_of_an_adapter_is_frozen_and_held_in_bfloat16():
    model = adapted(tiny_llama(dtype=torch.float32).to(torch.bfloat16))
    kinds = {("lora_" in name, p.dtype, p.requires_grad) for name, p in model.named_parameters()}
    assert kinds == {(True, torch.float32, True), (False, torch.bfloat16, False)}
    plain = adapted()
    wanted, _ = gradient_of(plain, Objective(name="reinforce"))
    got, _ = gradient_of(model, Objective(name="reinforce"), bfloat16=True)
    assert 0 < float((got - wanted).norm() / wanted.norm()) < 0.1


# -- optimizers --


def test_the_fused_optimizer_does_the_same_steps():
    batch, found = made(), []
    for name in ("adamw", "adamw_fused"):
        learner = Learner(tiny_llama(dtype=torch.float32), None, lr=1e-2, weight_decay=0.1, optimizer=name)
        for _ in range(3):
            learner.update(batch, Objective(name="reinforce"), UpdatePlan())
        found.append(torch.cat([p.detach().flatten() for p in learner.model.parameters()]))
    torch.testing.assert_close(*found, rtol=0, atol=1e-5)


def test_optimizers_that_cannot_be_made_are_refused():
    with pytest.raises(ConfigError, match=r'"adamw_8bit" needs policy\.device = "cuda"'):
        Learner(tiny_llama(), None, optimizer="adamw_8bit")
    with pytest.raises(ConfigError, match=r"unknown train\.optimizer 'adamw_fusd'; did you mean 'adamw_fused'\?"):
        Learner(tiny_llama(), None, optimizer="adamw_fusd")


# -- all together --


@pytest.mark.parametrize("lora", [False, True])
@pytest.mark.parametrize("name", ["ppo_clip", "gspo"])
def test_all_options_together_have_the_plain_gradient(lora, name, small_chunks):
    def fresh():
        return adapted() if lora else tiny_llama(dtype=torch.float32)

    objective = Objective(name=name, entropy=0.1)
    with pytest.MonkeyPatch.context() as plain_path:
        plain_path.setattr("turncredit.training.learner.logprobs.token_logprobs", token_logprobs)
        plain, _ = gradient_of(fresh(), objective)
    got, _ = gradient_of(fresh(), objective, packing=True, recompute_activations=True)
    assert_close(got, plain, 1e-5)


def test_the_learner_passes_its_options_on():
    batch = made()
    stats = [
        Learner(tiny_llama(dtype=torch.float32), None, **options).update(
            batch, Objective(), UpdatePlan(optimizer_steps=2)
        )
        for options in (
            {},
            {"packing": True, "recompute_activations": True, "optimizer": "adamw_fused"},
            {"bfloat16": True},
        )
    ]
    assert stats[1]["grad_norm"] == pytest.approx(stats[0]["grad_norm"], rel=1e-4)
    assert stats[2]["grad_norm"] == pytest.approx(stats[0]["grad_norm"], rel=0.05)
    assert stats[2]["grad_norm"] != stats[0]["grad_norm"]

"""The estimate of memory: its parts by hand, what each option saves, and what is said where it does not fit."""

from dataclasses import replace

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3MoeConfig

from turncredit.training.errors import NotEnoughMemory
from turncredit.training.learner import memory
from turncredit.training.learner.lora import LoraOptions, add_adapter
from turncredit.training.learner.memory import (
    MemoryNeeds,
    cache_bytes,
    estimate,
    expert_bytes,
    gathered_bytes,
    require_memory,
)
from turncredit.training.learner.vocabulary import CHUNK

CONFIG = LlamaConfig(
    vocab_size=500,
    hidden_size=64,
    intermediate_size=96,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    tie_word_embeddings=True,
)
NEEDS = MemoryNeeds(tokens=256, length=64)


def test_weights_gradients_and_optimizer_are_counted():
    state = torch.random.get_rng_state()
    found = estimate(CONFIG, NEEDS)
    assert torch.equal(state, torch.random.get_rng_state())
    count = sum(p.numel() for p in LlamaForCausalLM(CONFIG).parameters())
    assert (found.weights, found.gradients, found.optimizer) == (4 * count, 4 * count, 8 * count)
    assert estimate(CONFIG, replace(NEEDS, optimizer="adamw_8bit")).optimizer == 2 * count
    assert estimate(CONFIG, replace(NEEDS, reference=True)).reference == 4 * count
    assert found.total == sum(found.parts.values())
    assert estimate(CONFIG, replace(NEEDS, engine="float32")).engine == 4 * count
    assert estimate(CONFIG, replace(NEEDS, engine="bfloat16", lora={"rank": 2})).engine >= 2 * count
    assert found.reference == found.engine == found.cache == found.gathered == 0


@pytest.mark.parametrize(("dtype", "size"), [("float32", 4), ("bfloat16", 2)])
def test_ranks_gather_what_is_outside_of_the_layers_and_two_layers(dtype, size):
    """Embedding (tied) and last norm; of a layer 4 attention matrices (2 narrow), 3 of the MLP and 2 norms."""
    root = 500 * 64 + 64
    layer = 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 96 + 2 * 64
    gathered = size * (root + 2 * layer) + (size + 4) * (root + layer)
    needs = replace(NEEDS, dtype=dtype)
    assert gathered_bytes(CONFIG, needs) == gathered
    assert estimate(CONFIG, replace(needs, ranks=2)).gathered == gathered
    untied = LlamaConfig(**{**CONFIG.to_dict(), "tie_word_embeddings": False})
    more = gathered_bytes(untied, needs) - gathered
    assert more == (2 * size + 4) * 500 * 64
    adapter = gathered_bytes(CONFIG, replace(needs, lora={"rank": 2}))
    assert size * (root + 2 * layer) < adapter < gathered  # only the adapter has gradients


def test_an_adapter_is_all_that_is_trained():
    needs = replace(NEEDS, lora={"rank": 2}, dtype="bfloat16", reference=True)
    found = estimate(CONFIG, needs)
    model = add_adapter(LlamaForCausalLM(CONFIG), LoraOptions(rank=2))
    adapter = sum(p.numel() for p in model.parameters() if p.requires_grad)
    base = sum(p.numel() for p in model.parameters()) - adapter
    assert found.weights == 2 * base + 4 * adapter
    assert (found.gradients, found.optimizer, found.reference) == (4 * adapter, 8 * adapter, 0)


def test_activations_are_what_a_forward_pass_keeps():
    kept = {}

    def keep(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    model = LlamaForCausalLM(CONFIG).eval()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        out = model.model(input_ids=torch.ones(4, 64, dtype=torch.int64), use_cache=False)
    for parameter in model.parameters():
        kept.pop(parameter.untyped_storage().data_ptr(), None)
    assert out.last_hidden_state.grad_fn is not None
    found = estimate(CONFIG, NEEDS).activations  # without data, the attention's output is copied once more per layer
    assert found - 3 * 2 * 256 * 64 * 4 == pytest.approx(sum(kept.values()), rel=0.02)


def test_the_old_name_of_an_option_is_read_with_a_warning():
    with pytest.warns(DeprecationWarning, match="write recompute_activations"):
        assert replace(NEEDS, checkpointing=True) == replace(NEEDS, recompute_activations=True)


def test_each_option_saves_what_it_promises():
    plain = estimate(CONFIG, NEEDS)
    assert estimate(CONFIG, replace(NEEDS, tokens=512)).activations == pytest.approx(2 * plain.activations, rel=0.05)
    checkpointing = estimate(CONFIG, replace(NEEDS, recompute_activations=True))
    assert checkpointing.activations == plain.activations // 3 + 3 * 256 * 64 * 4
    assert estimate(CONFIG, replace(NEEDS, dtype="bfloat16")).activations < plain.activations
    assert estimate(CONFIG, replace(NEEDS, attention="eager")).activations > plain.activations
    assert plain.activations < estimate(CONFIG, replace(NEEDS, packing=True)).activations < 1.3 * plain.activations
    tree = estimate(
        CONFIG, replace(NEEDS, sharing=True)
    ).activations  # of as many tokens, and one mask of a row's length
    assert plain.activations < tree < estimate(CONFIG, replace(NEEDS, packing=True)).activations


def test_logits_are_at_most_one_chunk():
    big = LlamaConfig(**{**CONFIG.to_dict(), "vocab_size": 150_000})
    found = estimate(big, replace(NEEDS, tokens=8192))
    assert found.logits <= 5 * 4 * CHUNK + 150_000 * 64 * 4
    assert estimate(CONFIG, NEEDS).logits == 5 * 4 * 256 * 500 + 500 * 64 * 4


def test_the_cache_holds_keys_and_values_of_every_layer():
    assert cache_bytes(CONFIG) == 2 * 3 * 2 * 16 * 4
    assert cache_bytes(CONFIG, dtype="bfloat16") == 2 * 3 * 2 * 16 * 2
    assert estimate(CONFIG, replace(NEEDS, cached=10)).cache == 10 * cache_bytes(CONFIG)


def test_the_table_has_a_line_per_part():
    lines = estimate(CONFIG, replace(NEEDS, cached=10)).table().splitlines()
    assert [line.split()[0] for line in lines] == [
        "weights",
        "gradients",
        "optimizer",
        "activations",
        "logits",
        "cache",
        "total",
    ]
    assert all(line.endswith(" GiB") for line in lines)


def test_what_does_not_fit_is_refused_before_the_first_step(monkeypatch):
    whole, least = (estimate(CONFIG, replace(NEEDS, tokens=tokens)) for tokens in (256, 64))
    needed = whole.total - whole.weights  # on the CPU the weights are loaded already
    cases = {needed * 2: None, int(needed / 0.95): "halved", needed // 2 + (least.total - least.weights) // 2: "halved"}
    for free, expected in cases.items():
        monkeypatch.setattr(memory, "free_memory", lambda device, free=free: free)
        note = require_memory(CONFIG, NEEDS, "cpu")
        assert (note is None) == (expected is None)
        assert expected is None or expected in note
    monkeypatch.setattr(memory, "free_memory", lambda device: least.total // 4)
    with pytest.raises(
        NotEnoughMemory, match=r"training needs about .* GiB on the device cpu .*consider policy\.recompute"
    ):
        require_memory(CONFIG, NEEDS, "cpu")
    monkeypatch.setattr(memory, "free_memory", lambda device: None)
    assert require_memory(CONFIG, NEEDS, "cpu") is None


def test_free_memory_is_what_the_system_says():
    free = memory.free_memory("cpu")
    assert free is None or 0 < free < 2**45


def test_recorded_experts_are_counted_by_hand():
    """Of each token in the cache and in a micro-batch: 3 layers, 2 experts, 8 bits for 256 experts and 16 for more."""
    sizes = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 3, "moe_intermediate_size": 16}
    sizes |= {"num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16, "num_experts_per_tok": 2}
    few, many = (Qwen3MoeConfig(num_experts=n, **sizes) for n in (256, 257))
    assert [expert_bytes(config) for config in (few, many, CONFIG)] == [6, 12, 0]
    small = Qwen3MoeConfig(num_experts=4, **sizes)
    needs = replace(NEEDS, cached=1000, dtype="bfloat16", lora={"rank": 2, "targets": ["q_proj"]})
    plain, replaying = estimate(small, needs), estimate(small, replace(needs, routing_replay=True))
    assert replaying.experts == 6 * (1000 + 256)
    assert replaying.total - plain.total == replaying.experts


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_mixtures_whose_weights_are_trained_have_an_estimate(dtype: str):
    """Its experts keep what they multiply: two of four for each token, before and after the gate."""
    sizes = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 3, "num_experts": 4, "num_experts_per_tok": 2}
    sizes |= {"num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16}
    narrow, wide = (Qwen3MoeConfig(moe_intermediate_size=n, **sizes) for n in (16, 48))
    needs = replace(NEEDS, dtype=dtype)
    few, many = (estimate(config, needs) for config in (narrow, wide))
    assert many.parameters - few.parameters == 3 * 4 * 3 * 32 * 32
    rows, length = needs.shape
    inside = 32 * 2 * rows * length * 3 * 2  # numbers of 2 bytes: 32 more for each of two experts, in three layers
    assert many.activations - few.activations >= inside

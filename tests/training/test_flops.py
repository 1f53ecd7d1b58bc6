"""FLOPs of a model by hand and against torch's own counter; MFU of an update; peaks of GPUs."""

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

from turncredit.training.batch.batch import Batch
from turncredit.training.config.sections import ObjectiveSection
from turncredit.training.learner.flops import (
    Matrices,
    ModelShape,
    PassCost,
    Work,
    attended_pairs,
    backward_flops,
    forward_flops,
    training_flops,
)
from turncredit.training.learner.gradient import UpdatePlan
from turncredit.training.learner.learner import Learner
from turncredit.training.learner.lora import LoraOptions, add_adapter
from turncredit.training.learner.peak_flops import PEAKS, TERA, peak_of, peak_of_device
from turncredit.training.learner.recomputation import layers_of, recomputing
from turncredit.training.objectives.run_objective import Objective

HIDDEN, INNER, LAYERS, HEADS, WORDS = 16, 24, 2, 4, 50
PROJECTION = HIDDEN * HIDDEN
OTHERS = 2 * PROJECTION // 2 + PROJECTION + 3 * HIDDEN * INNER  # keys and values of two heads, output, MLP
BODY = LAYERS * (PROJECTION + OTHERS)


def tiny(**options):
    config = LlamaConfig(
        hidden_size=HIDDEN,
        intermediate_size=INNER,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=2,
        vocab_size=WORDS,
        attn_implementation="eager",
        **options,
    )
    return LlamaForCausalLM(config).eval()


def counted(model, rows, length, *, gradient=True):
    """What torch counts in a forward pass over whole squares of tokens, and a backward pass."""
    tokens = torch.randint(0, WORDS, (rows, length))
    with FlopCounterMode(display=False) as counter:
        loss = model(input_ids=tokens, use_cache=False).logits.sum()
        if gradient:
            loss.backward()
    return counted_without_rotation(counter)


def counted_without_rotation(counter):
    """What was counted, without the angles of the positions, which some versions of transformers multiply out."""
    modules = counter.get_flop_counts()
    angles = [sum(counts.values()) for name, counts in modules.items() if name.endswith("rotary_emb")]
    return counter.get_total_flops() - sum(angles)


@pytest.mark.parametrize("tied", [True, False])
def test_the_shape_of_a_model_is_counted_by_hand(tied):
    shape = ModelShape.of(tiny(tie_word_embeddings=tied))
    head = Matrices(WORDS * HIDDEN, WORDS * HIDDEN)
    assert shape == ModelShape(Matrices(BODY, BODY), head, WORDS, HIDDEN, (0,) * LAYERS)


def test_a_pass_is_counted_by_hand():
    """Sequences of 3 and 2 tokens have 6 and 3 pairs a layer; 4 tokens are scored."""
    shape = ModelShape(Matrices(100, 100), Matrices(30, 30), words=10, width=8, windows=(0, 0, 2))
    work = Work.of(shape, np.array([3, 2]), 4)
    assert work == Work(tokens=5, scored=4, pairs=9 + 9 + 8)
    forward = 2 * (100 * 5 + 30 * 4) + 4 * 8 * 26
    assert forward_flops(shape, work) == forward == 2072
    assert training_flops(shape, work) == 3 * forward
    frozen = ModelShape(Matrices(100, 10), Matrices(30, 0), words=10, width=8, windows=(0, 0, 2))
    assert backward_flops(frozen, work) == 2 * (100 * 5 + 30 * 4) + 2 * 10 * 5 + 8 * 8 * 26


def test_pairs_are_those_of_a_causal_mask_with_a_window():
    lengths = np.array([7, 1, 4, 0])
    for window in (0, 1, 3, 7, 20):
        masks = [np.tril(np.ones((n, n))) - (np.tril(np.ones((n, n)), -window) if window else 0) for n in lengths]
        assert attended_pairs(lengths, window) == sum(mask.sum() for mask in masks)


@pytest.mark.parametrize("tied", [True, False])
def test_torch_counts_the_same(tied):
    model, rows, length = tiny(tie_word_embeddings=tied), 2, 7
    square = Work(tokens=rows * length, scored=rows * length, pairs=LAYERS * rows * length**2)
    shape = ModelShape.of(model)
    assert counted(model, rows, length, gradient=False) == forward_flops(shape, square)
    assert counted(model, rows, length) == training_flops(shape, square)


def test_torch_counts_the_same_with_an_adapter_but_for_what_nothing_before_it_needs():
    pytest.importorskip("peft")
    model, rows, length, rank = tiny(), 2, 7, 2
    adapted = add_adapter(model, LoraOptions(rank=rank, targets=["q_proj", "v_proj"])).get_base_model()
    shape = ModelShape.of(adapted)
    adapter = LAYERS * rank * (HIDDEN + HIDDEN + HIDDEN + HIDDEN // 2)
    assert shape.body == Matrices(BODY + adapter, adapter)
    assert shape.head == Matrices(WORDS * HIDDEN, 0)
    square = Work(tokens=rows * length, scored=rows * length, pairs=LAYERS * rows * length**2)
    # the first layer's queries, keys and values need no gradient of their input, nor do both matrices A
    unused = PROJECTION + 2 * PROJECTION // 2 + 2 * rank * HIDDEN
    # its keys are not trained, so neither is a gradient of them: one of the two products of queries times keys
    keys = 2 * HIDDEN * rows * length**2
    assert counted(adapted, rows, length) == training_flops(shape, square) - 2 * unused * rows * length - keys


def test_an_update_of_all_weights_takes_three_forward_passes_and_recomputing_them_a_fourth_of_the_layers():
    shape = ModelShape.of(tiny())
    lengths = np.array([5, 5])
    work = Work.of(shape, lengths, 6)
    plain, again = PassCost(shape), PassCost(shape, recomputed=True)
    forward = forward_flops(shape, work)
    assert plain.flops(lengths, 6, gradient=False) == forward
    assert plain.flops(lengths, 6, gradient=True) == 3 * forward
    layers = forward_flops(shape, Work(10, 0, work.pairs))
    assert again.flops(lengths, 6, gradient=True) == 3 * forward + layers
    assert again.flops(lengths, 6, gradient=False) == forward
    begun = np.array([0, 3])  # of the second sequence, tokens 4 and 5 are computed, and attend to 4 and 5 tokens
    beside = forward_flops(shape, Work(7, 6, LAYERS * (15 + 4 + 5)))
    assert plain.flops(lengths, 6, gradient=False, begun=begun) == beside < forward
    everywhere = PassCost(shape, all_logits=True).flops(lengths, 6, gradient=False)
    assert everywhere == forward + 2 * 4 * shape.head.size


def test_torch_counts_the_same_with_layers_that_are_computed_again():
    model, rows, length = tiny(), 2, 7
    tokens = torch.randint(0, WORDS, (rows, length))
    with FlopCounterMode(display=False) as counter, recomputing(layers_of(model)):
        model(input_ids=tokens, use_cache=False).logits.sum().backward()
    shape = ModelShape.of(model)
    square = Work(tokens=rows * length, scored=rows * length, pairs=LAYERS * rows * length**2)
    layers = Work(square.tokens, 0, square.pairs)
    # torch stops a layer's second pass where nothing more is needed: before its last product
    last = LAYERS * 2 * INNER * HIDDEN * rows * length
    assert counted_without_rotation(counter) == training_flops(shape, square) + forward_flops(shape, layers) - last


def test_experts_count_as_often_as_a_token_is_given_to_them():
    config = Qwen3MoeConfig(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=8,
        moe_intermediate_size=12,
        num_experts=8,
        num_experts_per_tok=2,
        vocab_size=50,
    )
    shape = ModelShape.of(Qwen3MoeForCausalLM(config))
    assert shape.body.size == 4 * 16 * 16 + 2 * 3 * 16 * 12 + 8 * 16  # attention, two experts, the router


@pytest.mark.parametrize(
    ("options", "peak", "passes"), [({}, 0.0, 3), ({}, 1e6, 3), ({"recompute_activations": True}, 0.0, 4)]
)
def test_an_update_counts_its_flops_and_knows_its_share_of_the_peak(options, peak, passes):
    """One token of each row is answered, and nothing is padded: the rows have one length."""
    rows, length = 4, 6
    mask = np.zeros((rows, length), dtype=bool)
    mask[:, -1] = True
    batch = Batch(
        tokens=np.arange(rows * length).reshape(rows, length) % WORDS,
        lengths=np.full(rows, length),
        mask=mask,
        old=np.zeros(mask.shape),
        advantages=np.where(mask, [[1.0], [-1.0], [0.5], [-0.5]], 0.0),
        trajectory=np.arange(rows),
        turn=np.where(mask, 0, -1),
        version=np.where(mask, 0, -1),
    )
    learner = Learner(tiny(tie_word_embeddings=True), None, **options)
    learner.peak = peak
    stats = learner.update(
        batch, Objective.from_section(ObjectiveSection()), UpdatePlan(optimizer_steps=2, micro_tokens=12)
    )
    shape = ModelShape.of(tiny(tie_word_embeddings=True))
    work = Work.of(shape, batch.lengths, rows)
    layers = forward_flops(shape, Work(work.tokens, 0, work.pairs))
    assert stats["flops"] == 3 * forward_flops(shape, work) == training_flops(shape, work)
    assert stats["hardware_flops"] == stats["flops"] + (passes - 3) * layers
    assert ("mfu" in stats) == bool(peak)
    if peak:
        assert stats["mfu"] == stats["hfu"] == pytest.approx(stats["flops"] / (1e6 * stats["seconds"]))


@pytest.mark.parametrize(
    ("name", "bfloat16", "float32"),
    [
        ("NVIDIA H100 80GB HBM3", 989.4, 66.9),
        ("NVIDIA H100 PCIe", 756.0, 51.2),
        ("NVIDIA A100-SXM4-80GB", 312.0, 19.5),
        ("NVIDIA A10G", 70.0, 35.0),
        ("NVIDIA L4", 121.0, 30.3),
        ("NVIDIA GeForce RTX 4090", 165.2, 82.6),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", 0.0, 0.0),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", 0.0, 0.0),
        ("Something else", 0.0, 0.0),
    ],
)
def test_the_peak_of_a_gpu_is_found_by_its_name(monkeypatch, name, bfloat16, float32):
    assert (peak_of(name, "bfloat16"), peak_of(name, "float32")) == (TERA * bfloat16, TERA * float32)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: name)
    assert peak_of_device("cuda:0", "bfloat16") == TERA * bfloat16
    assert peak_of_device("cuda:0", "bfloat16", stated=3.0) == 3e12
    assert peak_of_device("cpu", "bfloat16") == 0.0


def test_every_key_of_the_table_is_found_and_not_shadowed():
    for key, rates in PEAKS.items():
        assert (peak_of(f"NVIDIA {key}", "bfloat16"), peak_of(key, "float32")) == tuple(TERA * rate for rate in rates)

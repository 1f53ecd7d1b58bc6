"""QLoRA: an adapter beside weights in 4 bits."""

import math

import numpy as np
import pytest
import torch
from test_lora_runs import IDS, adapter, make_run, save_base
from test_shared_prefixes import SIZES, assert_same, batch_of, model_of
from toys.training_helpers import gradient
from transformers import AutoConfig, AutoModelForCausalLM, Qwen2Config

from turncredit.agents.models import four_bits
from turncredit.agents.models.checkpoint_layout import described_tensors
from turncredit.agents.models.lora_folders import attach, fingerprint, save_adapter
from turncredit.agents.models.model_folder import load_model
from turncredit.agents.models.weights import named_tensors
from turncredit.training import Run, train
from turncredit.training.config.sections import PolicySection, SamplerSection
from turncredit.training.engine.engine_weights import check_engine_weights
from turncredit.training.errors import ConfigError
from turncredit.training.learner import make_learner, ranks
from turncredit.training.learner.flops import ModelShape
from turncredit.training.learner.gradient import UpdateMeter, UpdatePlan, accumulate
from turncredit.training.learner.learner import Learner
from turncredit.training.learner.logprobs import TokenScorer
from turncredit.training.learner.lora import LoraOptions, add_adapter
from turncredit.training.learner.memory import MemoryNeeds, estimate
from turncredit.training.objectives import Objective
from turncredit.training.preflight.rules import check_rules

torch.set_num_threads(1)
WIDE = SIZES | {"hidden_size": 64, "intermediate_size": 128, "tie_word_embeddings": True}
LORA = {"rank": 2, "bits": 4}


@pytest.fixture
def bitsandbytes():
    return pytest.importorskip("bitsandbytes")


def base(kind=torch.float32):
    return model_of(Qwen2Config(**WIDE), kind)


def adapted(model, options=LORA):
    torch.manual_seed(1)
    model = add_adapter(model, LoraOptions.of(options))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.normal_(0.0, 0.1)
    return model


def rounded(model):
    """The same model whole, with weights that went through 4 bits."""
    import bitsandbytes.functional as functional

    head = model.get_output_embeddings()
    with torch.no_grad():
        for layer in model.modules():
            if isinstance(layer, torch.nn.Linear) and layer is not head:
                packed, state = functional.quantize_4bit(layer.weight, quant_type="nf4", compress_statistics=True)
                layer.weight.copy_(functional.dequantize_4bit(packed, state))
    return model


def outcome(model, **options):
    scorer, batch = TokenScorer(model, **options), batch_of()
    model.zero_grad(set_to_none=True)
    plan, meter = UpdatePlan(micro_tokens=40, grad_clip=1e9), UpdateMeter()
    accumulate(scorer, batch, Objective(entropy=0.1), plan, meter)
    return np.array(meter.loss), gradient(model).double().numpy(), scorer.score(batch, micro_tokens=40).logprobs


@pytest.mark.parametrize(
    "options", [{}, {"recompute_activations": True}, {"packing": True}, {"share_prefixes": True}], ids=str
)
def test_an_adapter_has_the_gradient_that_it_has_beside_the_dequantized_weights(bitsandbytes, options):
    ours = outcome(adapted(four_bits.quantize(base(), fingerprint)), **options)
    theirs = outcome(adapted(rounded(base())), **options)
    assert_same(ours, theirs, 1e-4)


def test_bfloat16_computes_within_its_digits(bitsandbytes):
    ours = outcome(adapted(four_bits.quantize(base(torch.bfloat16), fingerprint)), bfloat16=True)
    theirs = outcome(adapted(rounded(base(torch.bfloat16))), bfloat16=True)
    assert np.linalg.norm(ours[1] - theirs[1]) <= 0.05 * np.linalg.norm(theirs[1])


def test_engines_receive_the_dequantized_weights_with_the_adapter_merged(bitsandbytes):
    model = adapted(four_bits.quantize(base(), fingerprint))
    merged = dict(named_tensors(model))
    whole = base()
    assert merged.keys() == whole.state_dict().keys()
    assert {name: tuple(tensor.shape) for name, tensor in described_tensors(model, set(merged))} == {
        name: tuple(tensor.shape) for name, tensor in merged.items() if name != "lm_head.weight"
    } | ({"lm_head.weight": tuple(merged["lm_head.weight"].shape)})
    whole.load_state_dict(merged)
    batch = batch_of()
    np.testing.assert_allclose(
        TokenScorer(whole).score(batch).logprobs, TokenScorer(model).score(batch).logprobs, atol=1e-4
    )


def test_an_update_changes_the_adapter_alone(bitsandbytes):
    model = adapted(four_bits.quantize(base(), fingerprint))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items() if isinstance(tensor, torch.Tensor)}
    learner = Learner(model, None, lr=0.01)
    learner.update(batch_of(), Objective(), UpdatePlan())
    changed = {name for name, tensor in before.items() if not torch.equal(tensor, model.state_dict()[name])}
    assert changed == {name for name in before if "lora_" in name}
    trained = sum(before[name].numel() for name in changed)
    assert learner.sizes == {"parameters": sum(p.numel() for p in base().parameters()) + trained, "trained": trained}


def test_an_adapter_goes_back_to_the_base_in_4_bits_and_to_the_whole_one(bitsandbytes, tmp_path):
    model = adapted(four_bits.quantize(base(), fingerprint))
    model.peft_config["default"].base_model_name_or_path = "base"
    save_adapter(model, tmp_path)
    again = attach(four_bits.quantize(base(), fingerprint), tmp_path, trainable=True)
    assert_same(outcome(again), outcome(model), 1e-6)
    attach(base(), tmp_path)


def test_operations_are_those_of_the_whole_model(bitsandbytes):
    whole, packed = ModelShape.of(base()), ModelShape.of(four_bits.quantize(base(), fingerprint))
    assert packed.body.size == whole.body.size
    assert packed.head.size == whole.head.size


# -- what it needs --


def test_memory_counts_4_bits(bitsandbytes):
    def bytes_of(bits):
        needs = MemoryNeeds(tokens=64, length=32, dtype="bfloat16", lora={"rank": 2, "bits": bits})
        return estimate(Qwen2Config(**WIDE), needs)

    model = adapted(four_bits.quantize(base(torch.bfloat16), fingerprint))
    parameters = [parameter for parameter in model.parameters() if four_bits.is_quantized(parameter)]
    small, large = bytes_of(4), bytes_of(16)
    numbers = sum(math.prod(parameter.quant_state.shape) for parameter in parameters)
    assert large.weights - small.weights == round(numbers * (2 - four_bits.BYTES))
    assert small.parameters == large.parameters


def test_7b_fits_on_24_gb():
    config = AutoConfig.for_model(
        "qwen2", vocab_size=152064, hidden_size=3584, intermediate_size=18944, num_hidden_layers=28,
        num_attention_heads=28, num_key_value_heads=4, tie_word_embeddings=False,
    )  # fmt: skip
    lora = {"rank": 16, "bits": 4}
    needs = MemoryNeeds(tokens=4096, length=2048, dtype="bfloat16", lora=lora, recompute_activations=True)
    memory = estimate(config, needs)
    # 6.5 billion numbers in 4 bits, and 1.1 billion of embedding and output layer in bfloat16
    assert 5.2 < memory.weights / 2**30 < 5.6
    assert memory.total / 2**30 < 24 * 0.8


# -- what is refused --


def test_it_is_refused_without_bitsandbytes(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "bitsandbytes", None)
    with pytest.raises(ConfigError, match=r"policy\.lora\.bits = 4 needs bitsandbytes: .*\[qlora\]"):
        make_learner.check_policy(PolicySection(model="x", lora=LORA))


def test_it_is_refused_with_compiled_layers_and_several_ranks():
    with pytest.raises(ConfigError, match=r'"compile" does not compute with policy\.lora\.bits = 4'):
        make_learner.check_policy(PolicySection(model="x", lora=LORA, kernels="compile"))
    with pytest.raises(ConfigError, match=r"policy\.lora\.bits = 4 works with one rank only"):
        ranks._check(Run.parse({"policy": {"model": "x", "lora": LORA}}))
    with pytest.raises(ConfigError, match=r"policy\.lora\.bits"):
        LoraOptions.of({"bits": 8})


def test_an_engine_cannot_put_the_adapter_on_whole_weights(bitsandbytes, tmp_path):
    model = adapted(four_bits.quantize(base(), fingerprint))
    AutoModelForCausalLM.from_config(Qwen2Config(**WIDE)).save_pretrained(tmp_path)
    section = SamplerSection(engine="vllm", options={"enable_lora": True})
    with pytest.raises(ConfigError, match=r"beside weights in 4 bits .* leave sampler\.options\.enable_lora out"):
        check_engine_weights(model, tmp_path, section)
    check_engine_weights(model, tmp_path, SamplerSection(engine="vllm"))


# -- runs --


def test_a_run_trains_resumes_and_leaves_what_it_trained(bitsandbytes, tmp_path):
    folder = save_base(tmp_path / "base")
    options = ("policy.lora={rank=4, alpha=8, bits=4}", "imitation.epochs=1", "sampler.gap_limit=0.01")
    train(make_run(tmp_path / "whole", folder, *options))
    train(make_run(tmp_path / "cut", folder, *options, "train.iterations=1"))
    train(make_run(tmp_path / "cut", folder, *options), resume=True)
    one, other = (adapter(tmp_path / name, 2) for name in ("whole", "cut"))
    assert all(torch.equal(one[name], other[name]) for name in one)
    trained = attach(four_bits.quantize(load_model(folder), fingerprint), tmp_path / "whole/checkpoints/000002")
    final = load_model(tmp_path / "whole/final")
    torch.testing.assert_close(final(IDS).logits, trained(IDS).logits, rtol=1e-4, atol=1e-4)
    merged_whole = load_model(tmp_path / "whole/checkpoints/000002")(IDS).logits
    assert not torch.allclose(merged_whole, final(IDS).logits, atol=1e-4)


def test_a_copy_of_weights_in_4_bits_is_refused(tmp_path):
    for override in ("train.staleness=1", 'sampler.dtype="bfloat16"'):
        with pytest.raises(ConfigError, match=r"policy\.lora\.bits = 4: the engine transformers would sample"):
            check_rules(make_run(tmp_path, "base", "policy.lora={bits=4}", override))

"""Tiny models of every family: loaded, sampled from, trained whole and with LoRA, and synchronized with samplers."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from toys.families import CONTEXT, DOCUMENT, FAMILIES, change_all, documented, tokenizer, write_model
from toys.training_helpers import trajectory, turn

from turncredit.agents.models.checkpoint_layout import buffer_names, checkpoint_tensors, ignored_names, one_name_each
from turncredit.agents.models.model_folder import load_model
from turncredit.agents.prompts.prompt import View
from turncredit.agents.trajectory import Group
from turncredit.engines.base import Request
from turncredit.engines.transformers.sampler import TransformersSampler
from turncredit.engines.weight_files import check_shapes, shapes_of, write_tensors
from turncredit.training.batch.batch import pack
from turncredit.training.learner.gradient import UpdatePlan
from turncredit.training.learner.learner import Learner
from turncredit.training.learner.lora import LoraOptions, add_adapter
from turncredit.training.learner.policy import save_policy
from turncredit.training.objectives import Objective

torch.set_num_threads(1)
VIEW = View("", "", None, 0)


@pytest.fixture(scope="module", params=FAMILIES)
def family(request):
    return FAMILIES[request.param]


@pytest.fixture(scope="module")
def folder(family, tmp_path_factory):
    return write_model(family, tmp_path_factory.mktemp("model"))


def sampler_of(model):
    return TransformersSampler(model, tokenizer(), device=model.device, context=CONTEXT, kv_cache_gib=0.01)


def requests():
    """Prompts of several lengths, some longer than the windows."""
    prompts = [tuple(5 + (3 * number + 7 * i) % 250 for i in range(20 + 15 * number)) for number in range(3)]
    return [Request(f"t#{n}@0", 0, prompt, (), 5, VIEW, max_tokens=8) for n, prompt in enumerate(prompts)]


def answers(sampler):
    async def together():
        return await asyncio.gather(*(sampler.sample(asked) for asked in requests()))

    return asyncio.run(together())


def gap(sampler, model):
    """The largest difference between a sampler's log-probabilities and those of a forward pass, in nats."""
    worst = 0.0
    for asked, answer in zip(requests(), answers(sampler), strict=True):
        with torch.no_grad():
            ids = torch.tensor([[*asked.prompt, *answer.tokens]], device=model.device)
            logits = model(input_ids=ids, use_cache=False).logits[0]
        table = torch.log_softmax(logits.double(), -1)[len(asked.prompt) - 1 : -1]
        own = table[range(len(answer.tokens)), answer.tokens].tolist()
        worst = max(worst, *(abs(a - b) for a, b in zip(own, answer.logprobs, strict=True)))
    return worst


def batch_of(sampler):
    """What was sampled, of which the first answer is good and the others bad."""
    sampled = zip(requests(), answers(sampler), strict=True)
    turns = [turn(asked.prompt, answer.tokens, logprobs=answer.logprobs) for asked, answer in sampled]
    groups = [Group("t", tuple(trajectory([one], name=f"t#{n}@0") for n, one in enumerate(turns)))]
    batch = pack(groups)
    advantages = np.where(batch.mask, np.where(batch.trajectory == 0, 1.0, -0.5)[:, None], 0.0)
    return replace(batch, advantages=advantages)


def logits_of(model):
    with torch.no_grad():
        return model(input_ids=torch.arange(5, 60)[None], use_cache=False).logits


def test_the_tensors_that_leave_a_model_are_those_of_its_checkpoint(folder):
    model, written = load_model(folder), load_file(folder / "model.safetensors")
    sent = dict(one_name_each(model, written))
    check_shapes({name: tuple(tensor.shape) for name, tensor in sent.items()}, shapes_of(folder), ignored_names(folder))
    for name, tensor in sent.items():
        assert torch.equal(tensor, written[name]), name
    stored = load_model(folder)
    change_all(stored)
    changed = dict(one_name_each(stored, written))
    fixed = set(buffer_names(model))
    assert not [name for name in sent.keys() - fixed if torch.equal(changed[name], sent[name])]


def test_a_sampler_computes_as_a_forward_pass_does(family, folder):
    model = load_model(folder)
    sampler = sampler_of(model)
    assert (sampler.uncached_reason is None) == family.cache, sampler.uncached_reason
    assert gap(sampler, model) < 1e-4


@pytest.mark.parametrize("source", ["module", "folder", "tensors"])
def test_new_weights_reach_a_sampler_with_weights_of_its_own(folder, tmp_path, source):
    new = load_model(folder)
    change_all(new)
    sampler = sampler_of(load_model(folder))
    assert gap(sampler, new) > 0.01
    write_tensors(new, tmp_path)
    weights = {"module": new, "folder": tmp_path, "tensors": dict(checkpoint_tensors(new))}[source]
    asyncio.run(sampler.load(weights, 1))
    assert gap(sampler, new) < 1e-4


@pytest.mark.parametrize("lora", [False, True])
def test_an_update_moves_the_policy_and_what_leaves_the_learner_is_what_was_trained(family, folder, tmp_path, lora):
    model = load_model(folder)
    if lora:
        torch.manual_seed(0)
        model = add_adapter(model, LoraOptions(rank=2), base=str(folder))
    sampler, learner = sampler_of(model), Learner(model, tokenizer(), lr=2e-3)
    batch = batch_of(sampler)
    before = learner.score(batch).logprobs
    stats = learner.update(batch, Objective(), UpdatePlan())
    assert (stats["updates"], stats["skipped"]) == (1, 0)
    assert stats["gap_max"] < 1e-4
    assert (batch.advantages * (learner.score(batch).logprobs - before)).sum() > 0.01
    trained = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
    assert trained
    if lora:
        assert all("lora_" in name and weight.any() for name, weight in trained.items())
    write_tensors(model, tmp_path)
    synchronized = sampler_of(load_model(folder))
    asyncio.run(synchronized.load(tmp_path, 1))
    assert gap(synchronized, model) < 1e-4
    save_policy(model, tokenizer(), tmp_path / "final", merged=True)
    torch.testing.assert_close(logits_of(load_model(tmp_path / "final")), logits_of(model), atol=1e-4, rtol=1e-4)
    assert shapes_of(tmp_path / "final") == shapes_of(tmp_path)
    if lora:
        save_policy(model, tokenizer(), tmp_path / "adapter")
        torch.testing.assert_close(logits_of(load_model(tmp_path / "adapter")), logits_of(model), atol=1e-4, rtol=1e-4)


@pytest.mark.gpu
@pytest.mark.parametrize(("dtype", "bound"), [("float32", 1e-3), ("bfloat16", 0.5)])
def test_a_gpu_samples_as_a_forward_pass_computes(family, folder, dtype, bound):
    model = load_model(folder, dtype=dtype, device="cuda")
    sampler = sampler_of(model)
    assert (sampler.uncached_reason is None) == family.cache, sampler.uncached_reason
    assert gap(sampler, model) < bound


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("lora", [False, True])
def test_an_update_on_a_gpu_is_that_of_the_cpu(folder, lora, dtype):
    """Losses and gradients of both devices agree, as far as the type allows, and the step goes the same way."""
    batch, results = batch_of(sampler_of(load_model(folder))), []
    for device in ("cpu", "cuda"):
        model = load_model(folder)
        if lora:
            torch.manual_seed(0)
            model = add_adapter(model, LoraOptions(rank=2), base=str(folder))
        learner = Learner(model, tokenizer(), lr=2e-3, device=device, bfloat16=dtype == "bfloat16")
        before = learner.score(batch).logprobs
        stats = learner.update(batch, Objective(), UpdatePlan())
        assert (stats["updates"], stats["skipped"]) == (1, 0)
        results.append((stats["loss"], stats["grad_norm"], learner.score(batch).logprobs - before))
    (loss, norm, moved), (loss_there, norm_there, moved_there) = results
    exact = dtype == "float32"
    assert loss_there == pytest.approx(loss, rel=1e-3 if exact else 0.2, abs=1e-4 if exact else 0.05)
    assert norm_there == pytest.approx(norm, rel=1e-3 if exact else 0.3)
    assert (batch.advantages * moved_there).sum() > 0.01
    if exact:
        assert np.abs(moved - moved_there)[batch.mask].max() < 0.02 * np.abs(moved[batch.mask]).max()


def test_the_documentation_has_the_table_of_families():
    """`python -m toys.families` in tests/ writes it."""
    assert DOCUMENT.read_text(encoding="utf-8") == documented()

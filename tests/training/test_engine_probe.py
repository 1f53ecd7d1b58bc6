"""The engine probe: an engine with the learner's weights passes, one with anything else is stopped with a cause."""

import asyncio
import copy

import pytest
import torch
import toys.corridor

from turncredit.agents.agent import Agent
from turncredit.agents.errors import RequestFailed
from turncredit.agents.prompts.dialogue import Prompt
from turncredit.agents.rollouts.env_pool import EnvPool
from turncredit.engines.transformers.sampler import TransformersSampler
from turncredit.training.engine.engine_probe import REQUESTS, TOKENS, EngineProbe, ProbeGap, shares_module
from turncredit.training.engine.first_prompts import first_prompts
from turncredit.training.errors import EngineMismatch
from turncredit.training.learner.logprobs import TokenScorer
from turncredit.training.learner.policy import build_policy

torch.set_num_threads(1)
TEXTS = ["You are in room 1 of 3. There is a door to the east. A key lies here. Take the key, open the door."]
PROMPTS = ["You are in room 1 of 3.", "A key lies here.", "There is a door to the east. Take the key."]


@pytest.fixture
def learner():
    """A model whose output layer is tied to its embedding, and its tokenizer."""
    return build_policy(TEXTS, vocab=280, hidden=32, layers=2, heads=2, context=200, seed=1)


def probe_of(tokenizer, **options):
    return EngineProbe([Prompt(tuple(tokenizer.encode(text)), ()) for text in PROMPTS], **options)


def update(model, size=0.02, seed=0):
    """Move every weight a little, as optimizer steps do."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += size * torch.randn(parameter.shape, generator=generator)


def untied(model):
    """Return a copy of a model whose output layer is a matrix of its own."""
    engine = copy.deepcopy(model)
    engine.lm_head.weight = torch.nn.Parameter(engine.lm_head.weight.detach().clone())
    engine.config.tie_word_embeddings = False
    return engine


def load(probe, sampler, model, version):
    """Probe after a load, as the training loop does."""
    gap = asyncio.run(probe.measure(sampler, TokenScorer(model).score, version))
    probe.check(gap)
    return gap


def give(sampler, model, version, skip=""):
    """Load the learner's weights without those whose name contains `skip`, as an engine with a fault does."""
    state = {name: one for name, one in model.state_dict().items() if not skip or skip not in name}
    old = {name: one for name, one in sampler.module.state_dict().items() if name not in state}
    asyncio.run(sampler.load({**state, **old}, version))


def test_an_engine_with_the_learners_weights_passes(learner):
    model, tokenizer = learner
    sampler, probe = TransformersSampler(copy.deepcopy(model), tokenizer), probe_of(tokenizer)
    for version in range(4):
        gap = load(probe, sampler, model, version)
        assert gap.mean <= gap.largest < 1e-5
        assert REQUESTS <= gap.tokens <= REQUESTS * TOKENS
        assert gap.metrics() == {"probe_gap": gap.mean, "probe_gap_max": gap.largest}
        update(model)
        give(sampler, model, version + 1)


def test_an_engine_in_bfloat16_passes(learner):
    model, tokenizer = learner
    sampler, probe = TransformersSampler(model, tokenizer, dtype="bfloat16"), probe_of(tokenizer)
    for version in range(4):
        assert 1e-4 < load(probe, sampler, model, version).mean < 0.1
        update(model)
        give(sampler, model, version + 1)


def test_an_engine_with_another_model_is_stopped_at_the_first_load(learner):
    model, tokenizer = learner
    for change in ("weights", "rope"):
        other = copy.deepcopy(model)
        if change == "weights":
            update(other, 0.2)
        else:
            other.model.rotary_emb.inv_freq = other.model.rotary_emb.inv_freq * 7
        probe = probe_of(tokenizer, limit=0.01)
        with pytest.raises(EngineMismatch, match=r"at the first load .* another model.* rope configuration"):
            load(probe, TransformersSampler(other, tokenizer), model, 0)


@pytest.mark.parametrize("stale", ["lm_head", "layers.1.", "embed_tokens", "norm"])
def test_a_part_that_is_not_updated_is_found(learner, stale):
    model, tokenizer = learner
    sampler, probe = TransformersSampler(untied(model), tokenizer), probe_of(tokenizer)
    assert load(probe, sampler, model, 0).mean < 1e-5
    update(model, 0.1 if stale == "norm" else 0.02)
    give(sampler, model, 1, skip=stale)
    with pytest.raises(EngineMismatch, match=r"did not take the new weights completely .* docs/engines.md"):
        load(probe, sampler, model, 1)


def test_a_stale_output_layer_is_found_in_bfloat16(learner):
    model, tokenizer = learner
    sampler, probe = TransformersSampler(untied(model), tokenizer, dtype="bfloat16"), probe_of(tokenizer)
    load(probe, sampler, model, 0)
    with torch.no_grad():
        model.get_input_embeddings().weight *= 1.5
    give(sampler, model, 1, skip="lm_head")
    with pytest.raises(EngineMismatch, match="completely"):
        load(probe, sampler, model, 1)


@pytest.mark.parametrize("bf16", [False, True])
def test_an_engine_with_old_weights_is_found_after_a_small_update(learner, bf16):
    model, tokenizer = learner
    sampler = TransformersSampler(copy.deepcopy(model), tokenizer, dtype="bfloat16" if bf16 else "")
    probe = probe_of(tokenizer)
    load(probe, sampler, model, 0)
    update(model, 0.001)  # far too small for the limit of the gap
    asyncio.run(sampler.load(sampler.module, 1))
    gap = asyncio.run(probe.measure(sampler, TokenScorer(model).score, 1))
    assert gap.mean < 0.1
    with pytest.raises(EngineMismatch, match="did not take the weights of version 1: its answers to the probe are"):
        probe.check(gap)


def test_an_update_without_effect_is_no_failure(learner):
    model, tokenizer = learner
    sampler, probe = TransformersSampler(copy.deepcopy(model), tokenizer), probe_of(tokenizer)
    load(probe, sampler, model, 0)
    give(sampler, model, 1)
    assert load(probe, sampler, model, 1).stale == 0.0


def test_a_cache_of_old_weights_is_found(learner, monkeypatch):
    model, tokenizer = learner
    sampler, probe = TransformersSampler(copy.deepcopy(model), tokenizer), probe_of(tokenizer)
    monkeypatch.setattr(sampler, "forget", lambda episode: None)
    load(probe, sampler, model, 0)
    monkeypatch.setattr(sampler._decoder, "reset", lambda: None)
    update(model, 0.03)
    give(sampler, model, 1)
    with pytest.raises(EngineMismatch, match="prefix cache"):
        load(probe, sampler, model, 1)


def test_another_version_is_found(learner):
    model, tokenizer = learner
    sampler = TransformersSampler(copy.deepcopy(model), tokenizer, version=3)
    with pytest.raises(EngineMismatch, match=r"version 4 were loaded, but the engine answered with \[3\]"):
        load(probe_of(tokenizer), sampler, model, 4)


@pytest.mark.parametrize(("failing", "error"), [({1, 6}, None), (set(range(REQUESTS)), RequestFailed)])
def test_answers_that_name_an_image_are_left_out(learner, monkeypatch, failing, error):
    model, tokenizer = learner
    sampler, probe = TransformersSampler(copy.deepcopy(model), tokenizer), probe_of(tokenizer)
    sample = sampler.sample

    async def sometimes(request):
        if request.seed in failing:
            raise RequestFailed("turn 0: the model answered with the token that stands for an image")
        return await sample(request)

    monkeypatch.setattr(sampler, "sample", sometimes)
    if error:
        with pytest.raises(error, match="stands for an image"):
            load(probe, sampler, model, 0)
    else:
        asked = asyncio.run(probe.ask(sampler, 0))
        assert len(asked.completions) == len(asked.batch) == REQUESTS - 2
        assert probe.compare(asked, TokenScorer(model).score).mean < 1e-5


def test_the_limit_can_be_turned_off(learner):
    _, tokenizer = learner
    probe_of(tokenizer, limit=0).check(ProbeGap(1, 9.0, 9.0, 64, stale=1.0))
    with pytest.raises(EngineMismatch, match="nats on average"):
        probe_of(tokenizer).check(ProbeGap(1, 9.0, 9.0, 64))
    with pytest.raises(EngineMismatch):
        probe_of(tokenizer).check(ProbeGap(1, float("inf"), float("inf"), 64))


def test_a_shared_module_needs_no_probe(learner):
    model, tokenizer = learner
    assert shares_module(TransformersSampler(model, tokenizer), model)
    assert not shares_module(TransformersSampler(model, tokenizer, dtype="bfloat16"), model)
    assert not shares_module(TransformersSampler(copy.deepcopy(model), tokenizer), model)


def test_prompts_are_those_of_the_first_turns(learner):
    _, tokenizer = learner
    agent = Agent()
    with EnvPool(lambda: toys.corridor.Corridor(lengths=(3,))) as pool:
        found = first_prompts(agent, tokenizer, pool, toys.corridor.Corridor(lengths=(3,)).task_ids(), seed=0, count=2)
    assert len(found) == 2
    for prompt, task in zip(found, ("open-3-1", "fetch-3-1"), strict=True):
        observation, _ = toys.corridor.Corridor(lengths=(3,)).reset(seed=0, options={"task": task})
        assert tokenizer.decode(list(prompt.ids)).rstrip() == f"{observation}\n>"


def test_a_probe_needs_prompts():
    with pytest.raises(ValueError, match="at least one prompt"):
        EngineProbe([])
    with pytest.raises(ValueError, match="no empty ones"):
        EngineProbe([Prompt((), ())])

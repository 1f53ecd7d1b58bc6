"""Models that see are computed alike by the sampler, the learner and plain torch: own policy and four families."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from toys.seen_episodes import plain, played
from toys.vision import FAMILIES, screen

from turncredit.agents.agent import Agent
from turncredit.agents.vision.image_reader import reader_of
from turncredit.engines.transformers.sampler import TransformersSampler
from turncredit.training.batch.batch import pack
from turncredit.training.batch.cutting import Cutting
from turncredit.training.errors import ConfigError
from turncredit.training.learner.logprobs import TokenScorer


@pytest.fixture(scope="module", params=list(FAMILIES))
def family(request):
    """A model, its tokenizer, and episodes that it has played."""
    model, tokenizer = FAMILIES[request.param]()
    return request.param, model, tokenizer, played(model, tokenizer, Agent(chat=tokenizer))


def test_sampler_learner_and_plain_torch_give_the_same_log_probabilities(family):
    _, model, tokenizer, groups = family
    turns = [turn for trajectory in groups[0].trajectories for turn in trajectory.turns]
    with torch.no_grad():
        right = np.concatenate([plain(model, tokenizer, turn).numpy() for turn in turns])
    sampled = np.concatenate([turn.logprobs for turn in turns])
    batch = pack(groups, merge=False)
    scored = TokenScorer(model, tokenizer=tokenizer).score(batch).logprobs[batch.mask]
    assert np.abs(sampled - right).max() < 2e-5
    assert np.abs(scored - right).max() < 2e-5


def test_another_image_gives_other_log_probabilities(family):
    _, model, tokenizer, groups = family
    turn = groups[0].trajectories[0].turns[0]
    other = replace(turn, shown=(screen(999),))
    with torch.no_grad():
        difference = plain(model, tokenizer, turn) - plain(model, tokenizer, other)
    assert float(difference.abs().max()) > 1e-3


def test_merged_turns_are_computed_as_single_ones(family):
    _, model, tokenizer, groups = family
    scorer = TokenScorer(model, tokenizer=tokenizer)
    merged, single = (pack(groups, merge=merge) for merge in (True, False))
    assert len(merged) < len(single)
    assert sum(map(len, merged.images)) < sum(map(len, single.images))
    together, apart = (scorer.score(batch).logprobs[batch.mask] for batch in (merged, single))
    assert np.abs(together - apart).max() < 2e-5


def test_packed_rows_are_computed_as_padded_ones(family):
    name, model, tokenizer, groups = family
    padded = TokenScorer(model, tokenizer=tokenizer)
    try:
        packed = TokenScorer(model, tokenizer=tokenizer, packing=True)
    except ConfigError as error:
        if name != "gemma3" or "packing is not available" not in str(error):
            raise
        return  # its tokens of an image see each other, which transformers 5.18 packs rightly and 5.24 does not
    batch = pack(groups)
    one, other = (scorer.score(batch).logprobs[batch.mask] for scorer in (padded, packed))
    assert np.abs(one - other).max() < 2e-5


def test_micro_batches_take_their_images_along(family):
    _, model, tokenizer, groups = family
    scorer, batch = TokenScorer(model, tokenizer=tokenizer), pack(groups)
    whole, cut = (scorer.score(batch, micro_tokens=tokens).logprobs for tokens in (10**6, 1))
    assert np.abs(whole - cut).max() < 2e-5


def test_the_gradient_is_that_of_plain_torch(family):
    name, model, tokenizer, groups = family
    model = copy.deepcopy(model).double()
    batch = pack(groups)
    chosen, _ = TokenScorer(model, tokenizer=tokenizer)(batch)
    weights = torch.linspace(-1, 1, len(chosen), dtype=torch.float64)
    (weights * chosen.double()).sum().backward()
    gradient = {
        name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.grad is not None
    }
    model.zero_grad(set_to_none=True)
    turns = [turn for trajectory in groups[0].trajectories for turn in trajectory.turns]
    right = torch.cat([plain(model, tokenizer, turn) for turn in turns])
    (weights * right).sum().backward()
    assert any("vision" in name or "visual" in name for name in gradient)
    bound = 1e-4 if name in ("qwen2.5", "qwen3", "gemma3") else 1e-6  # parts of these compute in float32 always
    for key, parameter in model.named_parameters():
        if parameter.grad is None:
            assert key not in gradient or not gradient[key].any()
            continue
        scale = float(parameter.grad.abs().max()) + 1e-9
        assert float((gradient[key] - parameter.grad).abs().max()) / scale < bound, key


def test_prompts_are_those_of_the_processor(family):
    name, _, tokenizer, groups = family
    if name == "own":
        pytest.skip("it has no chat template")
    turn = groups[0].trajectories[0].turns[0]
    content = [{"type": "text", "text": f"{turn.observation}\n>"}, {"type": "image"}]
    messages = [{"role": "user", "content": content}]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    images = [image.image for image in turn.shown]
    ids = reader_of(tokenizer).processor(text=[text], images=images, add_special_tokens=False)["input_ids"][0]
    assert list(ids) == list(turn.prompt)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_cache_is_used_where_it_is_exact(family, dtype):
    name, model, tokenizer, _ = family
    reason = TransformersSampler(model, tokenizer, dtype=dtype).uncached_reason
    assert (reason is None) == (name in ("own", "idefics3", "llava")), reason
    assert reason is None or "image" in reason or "inputs" in reason


def test_prefixes_are_not_shared_among_images():
    model, tokenizer = FAMILIES["own"]()
    groups = played(model, tokenizer, Agent()) + played(model, tokenizer, Agent(), first=500)
    batch = pack(groups)
    assert not Cutting(shared=True).shares(batch)
    scorer = TokenScorer(model, tokenizer=tokenizer, share_prefixes=True)
    assert scorer.unshared == ""
    right = TokenScorer(model, tokenizer=tokenizer).score(batch).logprobs
    assert np.abs(scorer.score(batch).logprobs - right).max() < 2e-5


def test_a_row_that_is_cut_within_an_image_is_computed_without_it():
    model, tokenizer = FAMILIES["own"]()
    batch = pack(played(model, tokenizer, Agent()))
    whole = TokenScorer(model, tokenizer=tokenizer).score(batch).logprobs
    second = np.flatnonzero(batch.tokens[0] == reader_of(tokenizer).token)[reader_of(tokenizer).count(screen(0))]
    cut = replace(batch, lengths=np.minimum(batch.lengths, second + 2)).rows(np.arange(len(batch)))
    short = TokenScorer(model, tokenizer=tokenizer).score(cut).logprobs
    assert np.abs(short - whole[:, : short.shape[1]])[cut.mask].max() < 2e-5


@pytest.mark.parametrize("name", ["own", "llava"])
def test_an_image_that_recurs_is_encoded_once_with_the_same_gradient(name):
    model, tokenizer = FAMILIES[name]()
    model = model.double()
    groups = played(model, tokenizer, Agent(chat=tokenizer)) + played(model, tokenizer, Agent(chat=tokenizer))
    batch, encoded = pack(groups, merge=False), []
    handle = model.model.vision_tower.register_forward_hook(
        lambda module, inputs, output: encoded.append(len(inputs[0]))
    )
    scorer = TokenScorer(model, tokenizer=tokenizer)
    gradients = []
    for micro in (np.arange(len(batch)),), tuple(np.array([row]) for row in range(len(batch))):
        model.zero_grad(set_to_none=True)
        encoded.clear()
        for rows in micro:
            scorer(batch.rows(rows))[0].sum().backward()
        gradients.append(
            {key: weight.grad.clone() for key, weight in model.named_parameters() if weight.grad is not None}
        )
        if len(micro) == 1:
            assert encoded == [len({image for row in batch.images for image in row})]
    handle.remove()
    for key, gradient in gradients[0].items():
        assert torch.allclose(
            gradient, gradients[1][key], rtol=1e-6, atol=1e-6 * float(gradient.abs().max()) + 1e-12
        ), key

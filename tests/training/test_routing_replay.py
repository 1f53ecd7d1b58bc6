"""Routing replay: tokens of a mixture have recorded experts, with weights that the learner's own routers give them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from toys.mixtures import MIXTURES, by_prefix, forced, mixture, own_experts, routers, shape_of, with_experts
from toys.training_helpers import forked, gradient, play, random_advantages, tiny_llama

from turncredit.training.batch.batch import pack
from turncredit.training.errors import ConfigError
from turncredit.training.learner.gradient import UpdateMeter, UpdatePlan, accumulate
from turncredit.training.learner.logprobs import TokenScorer
from turncredit.training.objectives import Objective

torch.set_num_threads(1)
LAYOUTS = {
    "padded": {},
    "packed": {"packing": True},
    "shared": {"share_prefixes": True},
    "recomputed": {"recompute_activations": True},
}


@pytest.fixture(scope="module", params=MIXTURES)
def model(request):
    return mixture(request.param)


def outcome(model, batch, *, replay=True, objective=None, micro_tokens=60, **options):
    """Loss, gradient and scores of one mini-batch."""
    scorer = TokenScorer(model, **options)
    assert not scorer.unshared
    if replay:
        scorer.replay_routing()
    model.zero_grad(set_to_none=True)
    plan, meter = UpdatePlan(micro_tokens=micro_tokens, grad_clip=1e9), UpdateMeter()
    accumulate(scorer, batch, objective or Objective(entropy=0.1), plan, meter)
    return np.array(meter.loss), gradient(model).double().numpy(), scorer.score(batch, micro_tokens=60).logprobs


def packed(groups, **options):
    return pack(groups, random_advantages(np.random.default_rng(3), groups, 0.1), **options)


def by_hand(model, batch):
    """Loss and gradient of policy gradients, row by row, with routers that are forced."""
    weights = batch.weights("token-mean")
    model.zero_grad(set_to_none=True)
    total = 0.0
    for row in range(len(batch)):
        ids, experts = batch.tokens[row, : batch.lengths[row] - 1], batch.experts[row]
        assert len(experts) == len(ids)
        with forced(model, experts):
            logits = model(input_ids=torch.from_numpy(ids)[None], use_cache=False).logits[0]
        table = torch.log_softmax(logits, -1)
        after = torch.from_numpy(batch.tokens[row, 1 : batch.lengths[row]])
        new = table.gather(1, after[:, None])[:, 0]
        part = slice(1, int(batch.lengths[row]))
        factor = torch.from_numpy(weights[row, part] * batch.advantages[row, part])
        loss = -(factor * new).sum()
        loss.backward()
        total += loss.item()
    return total, gradient(model).double().numpy()


def layouts_of(model):
    """The layouts that the family has: GPT-OSS packs no rows."""
    return {name: how for name, how in LAYOUTS.items() if name != "packed" or "GptOss" not in type(model).__name__}


def test_the_learners_own_experts_change_nothing(model):
    groups = forked(np.random.default_rng(1))
    plain = packed(groups)
    recorded = packed(with_experts(groups, lambda ids: own_experts(model, ids)))
    assert recorded.experts is not None
    assert len(recorded) == len(plain)
    for layout, options in layouts_of(model).items():
        ours, theirs = (outcome(model, batch, replay=batch is recorded, **options) for batch in (recorded, plain))
        assert all(map(np.array_equal, ours, theirs)), layout


@pytest.mark.parametrize("merge", [True, False])
def test_other_experts_give_the_loss_and_the_gradient_of_forced_routers(model, merge):
    groups = with_experts(forked(np.random.default_rng(2)), by_prefix(shape_of(model)))
    batch = packed(groups, merge=merge)
    objective = Objective(name="reinforce", aggregation="token-mean")
    wanted_loss, wanted = by_hand(model, batch)
    for layout, options in layouts_of(model).items():
        loss, found, _ = outcome(model, batch, objective=objective, **options)
        assert abs(loss[0] - wanted_loss) < 1e-5, layout
        assert np.abs(found - wanted).max() < 2e-5 * np.abs(wanted).max(), layout
    chosen = outcome(model, batch, replay=False, objective=objective)[1]
    assert np.abs(chosen - wanted).max() > 0.01 * np.abs(wanted).max(), "the experts make no difference"


def test_rows_share_a_prefix_only_where_its_experts_agree():
    model = mixture("Qwen 3 MoE")
    choose = [by_prefix(shape_of(model), seed) for seed in (0, 1)]
    groups = forked(np.random.default_rng(4), groups=1, size=4, turns=1)
    first, second = (with_experts(groups, how)[0].trajectories for how in choose)
    mixed = [replace(groups[0], trajectories=(*first[:2], *second[2:]))]
    batch, same = packed(mixed), packed(with_experts(groups, choose[0]))
    scorer = TokenScorer(model, share_prefixes=True)
    rows = np.arange(4)
    apart = sum(scorer.cutting.tokens(batch.rows(half), np.arange(2)) for half in (rows[:2], rows[2:]))
    assert scorer.cutting.tokens(batch, rows) == apart > scorer.cutting.tokens(same, rows)
    assert scorer.cutting.tokens(same, rows) == scorer.cutting.tokens(same.without_experts(), rows)
    objective = Objective(name="reinforce", aggregation="token-mean")
    found = outcome(model, batch, objective=objective, share_prefixes=True)[1]
    wanted = by_hand(model, batch)[1]
    assert np.abs(found - wanted).max() < 2e-5 * np.abs(wanted).max()


def test_turns_are_merged_only_where_their_experts_agree():
    model = mixture("Mixtral")
    choose = [by_prefix(shape_of(model), seed) for seed in (0, 1)]
    groups = play(np.random.default_rng(5), groups=1, size=1, most=3)
    (member,) = groups[0].trajectories
    member = replace(member, turns=member.turns[:2])
    groups = [replace(groups[0], trajectories=(member,))]
    agree = with_experts(groups, choose[0])
    turns = [with_experts(groups, how)[0].trajectories[0].turns for how in choose]
    other = [replace(groups[0], trajectories=(replace(member, turns=(turns[0][0], turns[1][1])),))]
    missing = [replace(groups[0], trajectories=(replace(member, turns=(turns[0][0], member.turns[1])),))]
    assert [len(pack(played)) for played in (agree, other, missing)] == [1, 2, 2]
    length = len(member.turns[1].prompt + member.turns[1].response)
    assert len(pack(agree).experts[0]) == length - 1


def test_tokens_without_recorded_experts_have_those_that_the_model_chooses():
    model = mixture("Qwen 3 MoE")
    groups = play(np.random.default_rng(6), groups=1, size=2, most=1)
    choose = by_prefix(shape_of(model))
    first, second = with_experts(groups, choose)[0].trajectories
    half = [replace(groups[0], trajectories=(first, replace(second, turns=groups[0].trajectories[1].turns)))]
    batch, whole, plain = (packed(played) for played in (half, with_experts(groups, choose), groups))
    assert [experts is None for experts in batch.experts] == [False, True]
    ours, recorded, chosen = (outcome(model, played)[2] for played in (batch, whole, plain))
    assert np.allclose(ours[0], recorded[0], atol=1e-12)
    assert np.allclose(ours[1], chosen[1], atol=1e-12)
    assert not np.allclose(recorded[1], chosen[1], atol=1e-3)


def test_objectives_of_whole_sequences_replay_in_both_passes():
    model = mixture("DeepSeek V3")
    groups = with_experts(play(np.random.default_rng(7), groups=2, size=3), by_prefix(shape_of(model)))
    batch, objective = packed(groups, merge=False), Objective(name="gspo")
    several, one = (outcome(model, batch, objective=objective, micro_tokens=size) for size in (20, 10_000))
    for ours, theirs in zip(several, one, strict=True):
        assert np.abs(ours - theirs).max() < 1e-5 * max(1.0, np.abs(theirs).max())


def test_a_model_without_routers_is_refused_in_a_sentence():
    with pytest.raises(ConfigError, match=r"^train.routing_replay is not available: .* LlamaForCausalLM: it has no"):
        TokenScorer(tiny_llama()).replay_routing()


def test_routers_that_choose_in_another_way_are_refused():
    model = mixture("Mixtral")
    first = routers(model)[0]
    first.forward = lambda hidden: (None, *_best(first, hidden))
    with pytest.raises(ConfigError, match="do not choose the best 2 of 4 once in each pass"):
        TokenScorer(model).replay_routing()


def _best(router, hidden):
    """A choice without `topk`."""
    hidden = hidden.reshape(-1, hidden.shape[-1])
    scores = torch.nn.functional.linear(hidden, router.weight)
    order = scores.argsort(dim=-1)[:, -router.top_k :]
    return scores.gather(1, order), order

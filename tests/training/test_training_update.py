import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from training_helpers import play, random_advantages, tiny_llama

from turnwise.credit.advantages import Advantages
from turnwise.training.batch import pack
from turnwise.training.objectives import Objective
from turnwise.training.steps import steps_of
from turnwise.training.update import Plan, deal, learning_rate, make_optimizer, score, token_scores, update

torch.set_num_threads(1)


def _made(seed=0, **kwargs):
    rng = np.random.default_rng(seed)
    groups = play(rng, **kwargs)
    advantages = random_advantages(rng, groups)
    return groups, advantages, pack(groups, advantages)


def _weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()]).clone()


def test_scores_are_the_models_own_log_probabilities():
    _, _, batch = _made()
    model = tiny_llama()
    got, entropy = token_scores(model, batch, temperature=0.5)
    logits = model(input_ids=torch.from_numpy(batch.tokens)).logits / 0.5
    wanted, spread = [], []
    for row, column in zip(*np.nonzero(batch.mask), strict=True):
        p = torch.log_softmax(logits[row, column - 1], -1)
        wanted.append(p[batch.tokens[row, column]])
        spread.append(-(p.exp() * p).sum())
    torch.testing.assert_close(got, torch.stack(wanted), rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(entropy, torch.stack(spread), rtol=1e-9, atol=1e-12)
    whole = score(model, batch, temperature=0.5, micro_tokens=30)
    np.testing.assert_allclose(whole[batch.mask], got.detach().numpy(), rtol=1e-9)
    assert (whole[~batch.mask] == 0).all()


def test_a_model_with_more_than_a_projection_is_computed_whole():
    class Scaled(type(tiny_llama())):
        def forward(self, *args, **kwargs):
            out = super().forward(*args, **kwargs)
            out.logits = torch.tanh(out.logits)
            return out

    _, _, batch = _made()
    plain = tiny_llama()
    capped = Scaled(plain.config).double().eval()
    capped.model, capped.lm_head = plain.model, plain.lm_head
    logits = torch.tanh(plain(input_ids=torch.from_numpy(batch.tokens)).logits)
    row, column = (int(i[0]) for i in np.nonzero(batch.mask))
    wanted = torch.log_softmax(logits[row, column - 1], -1)[batch.tokens[row, column]]
    assert token_scores(capped, batch)[0][0].item() == pytest.approx(wanted.item(), rel=1e-9)


@pytest.mark.parametrize("most", [1, 2, 6])
def test_the_number_of_optimiser_steps_is_fixed(most):
    _, _, batch = _made(groups=3, size=4, most=most)
    model = tiny_llama()
    stats = update(model, make_optimizer(model, lr=1e-3), batch, Objective(), Plan(parts=3))
    assert (stats["updates"], stats["skipped"], stats["silent"]) == (3, 0, 0)


def test_good_actions_become_likelier_and_bad_ones_less():
    groups, _, _ = _made(groups=1, size=2, most=1)
    sign = np.array([1.0, -1.0])
    batch = pack(groups, Advantages.of(steps_of(groups), sign))
    model = tiny_llama()
    batch = replace(batch, old=score(model, batch))
    before = score(model, batch).sum(1)
    update(model, make_optimizer(model, lr=1e-3), batch, Objective(), Plan())
    change = score(model, batch).sum(1) - before
    assert change[0] > 0 > change[1]


def test_nothing_to_learn_costs_no_update():
    groups, advantages, _ = _made()
    batch = pack(groups, Advantages.of(steps_of(groups), np.zeros(len(advantages))))
    model = tiny_llama()
    optimizer = make_optimizer(model, lr=1e-2, weight_decay=0.1)
    before = _weights(model)
    stats = update(model, optimizer, batch, Objective(), Plan(parts=2))
    assert (stats["updates"], stats["silent"]) == (0, 2)
    assert torch.equal(before, _weights(model))
    assert not optimizer.state


def test_what_is_not_finite_is_skipped_and_counted():
    _, _, batch = _made(groups=2, size=2)
    model = tiny_llama()
    before = _weights(model)
    bad = batch.old.copy()
    bad[batch.trajectory == 0] = np.nan
    stats = update(
        model, make_optimizer(model, lr=1e-3), replace(batch, old=bad), Objective(), Plan(parts=4, micro_tokens=20)
    )
    assert (stats["updates"], stats["skipped"]) == (3, 1)
    assert torch.isfinite(_weights(model)).all()
    assert not torch.equal(before, _weights(model))
    assert math.isfinite(stats["loss"])


def test_the_deal_is_even_and_never_cuts_a_trajectory():
    groups, advantages, _ = _made(groups=5, size=3)
    values = advantages.values.copy()
    count = sum(len(one.turns) for one in groups[0].trajectories)
    values[:count] = 0.0
    batch = pack(groups, Advantages.of(steps_of(groups), values), merge=False)
    parts = deal(batch, 4, seed=1)
    assert sorted(np.concatenate(parts)) == list(range(len(batch)))
    homes = [set(batch.trajectory[part]) for part in parts]
    assert sum(len(home) for home in homes) == 15
    loud = [len({t for t in home if t >= 3}) for home in homes]
    assert max(loud) - min(loud) <= 1
    assert [part.tolist() for part in parts] == [part.tolist() for part in deal(batch, 4, seed=1)]
    assert [part.tolist() for part in parts] != [part.tolist() for part in deal(batch, 4, seed=2)]


def test_the_divergence_holds_the_policy_back():
    _, _, batch = _made(groups=1, size=3)
    start = tiny_llama()
    batch = replace(batch, old=score(start, batch), reference=score(start, batch))
    moved = {}
    for coefficient in (0.0, 50.0):
        model = tiny_llama()
        optimizer = make_optimizer(model, lr=3e-3)
        for _ in range(8):
            stats = update(model, optimizer, batch, Objective(kl=coefficient), Plan(grad_clip=1e9))
        moved[coefficient] = stats["kl"]
    assert 0 <= moved[50.0] < moved[0.0] / 2


def test_the_gap_is_that_between_sampled_and_recomputed():
    _, _, batch = _made()
    model = tiny_llama()
    shifted = replace(batch, old=np.where(batch.mask, score(model, batch) + 0.125, 0.0))
    stats = update(model, make_optimizer(model, lr=1e-3), shifted, Objective(entropy=1e-12), Plan())
    assert stats["gap"] == pytest.approx(0.125)
    assert stats["gap_max"] == pytest.approx(0.125)


def test_gradient_clipping_bounds_the_step():
    _, _, batch = _made()
    moves = []
    for clip in (1e9, 1e-3):
        model = tiny_llama()
        before = _weights(model)
        update(model, torch.optim.SGD(model.parameters(), lr=1.0), batch, Objective(), Plan(grad_clip=clip))
        moves.append((_weights(model) - before).norm().item())
    assert moves[1] == pytest.approx(1e-3, rel=1e-3)
    assert moves[0] > moves[1]


def test_learning_rates_by_hand():
    options = {"total": 12, "peak": 2.0, "warmup": 2}
    assert [learning_rate(k, **options) for k in (0, 1, 2, 11)] == [1.0, 2.0, 2.0, 2.0]
    cosine = [learning_rate(k, schedule="cosine", **options) for k in (1, 2, 7, 12)]
    assert cosine == pytest.approx([2.0, 2.0, 1.0, 0.0])


def test_rates_are_used_and_counted():
    _, _, batch = _made()
    model = tiny_llama()
    optimizer = make_optimizer(model, lr=1.0)
    assert update(model, optimizer, batch, Objective(), Plan(parts=2), [1e-3, 5e-4])["lr"] == 5e-4
    with pytest.raises(ValueError, match="1 learning rates came for 2"):
        update(model, optimizer, batch, Objective(), Plan(parts=2), [1e-3])


def test_weight_decay_spares_vectors():
    groups = make_optimizer(tiny_llama(), lr=1e-3, weight_decay=0.1).param_groups
    assert {(group["weight_decay"], p.ndim) for group in groups for p in group["params"]} == {(0.1, 2), (0.0, 1)}

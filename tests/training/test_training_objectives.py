import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from turnwise.training.errors import ConfigError
from turnwise.training.objectives import AGGREGATIONS, Objective, kl, ppo_clip, token_weights
from turnwise.training.objectives.ppo import token_objective

VECTORS = json.loads((Path(__file__).parent / "loss_vectors.json").read_text())
BATCHES = {batch["id"]: batch for batch in VECTORS["batches"]}
MODES = {"dr-grpo-const": "seq-mean-token-sum-norm"}


def _name(case):
    return f"{case['name']}-{case['hyperparameters']['agg']}-{case['batch_id']}"


def _loss(case, n):
    batch, options = BATCHES[case["batch_id"]], case["hyperparameters"]
    mask = np.array(batch["mask"], dtype=bool)
    rows = np.broadcast_to(np.arange(len(mask))[:, None], mask.shape)[mask]
    mode = MODES.get(options["agg"], options["agg"])
    weights = np.zeros(mask.shape)
    weights[mask] = token_weights(mode, rows, rows, norm=options.get("L", 1.0))
    w, o, a = torch.tensor(weights), torch.tensor(batch["logp_old"]), torch.tensor(batch["advantages"])
    reference = torch.tensor(batch["logp_ref"], dtype=torch.float64)
    if case["name"].startswith("kl_"):
        estimator = {"k3plus": "k3+"}.get(case["name"].split("_")[1], case["name"].split("_")[1])
        return (w * kl(n, reference, estimator)).sum()
    objective = Objective(
        clip_low=options["eps_low"],
        clip_high=options["eps_high"],
        dual_clip=options.get("c"),
        kl=options.get("beta", 0.0),
    )
    return token_objective(objective, n, o.double(), a.double(), w, reference=reference)[0]


@pytest.mark.parametrize("case", VECTORS["cases"], ids=_name)
def test_loss_and_gradient_are_those_of_the_reference(case):
    n = torch.tensor(BATCHES[case["batch_id"]]["logp_new"], dtype=torch.float64, requires_grad=True)
    loss = _loss(case, n)
    loss.backward()
    assert loss.item() == pytest.approx(case["expected_loss"], rel=1e-6, abs=1e-8)
    np.testing.assert_allclose(n.grad.numpy(), case["expected_grad"], rtol=1e-6, atol=1e-8)


def test_at_the_old_policy_the_gradient_is_minus_the_advantage():
    n = torch.tensor([-1.0, -2.0], dtype=torch.float64, requires_grad=True)
    loss, stats = ppo_clip(n, n.detach(), torch.tensor([2.0, -3.0]), torch.tensor([0.5, 0.5]))
    loss.backward()
    assert loss.item() == pytest.approx(0.5)
    assert n.grad.tolist() == [-1.0, 1.5]
    assert stats["clipped"] == 0


@pytest.mark.parametrize(
    ("advantage", "ratio", "expected"),
    [
        (1.0, 1.5, -1.28),  # above the upper bound: clipped, no gradient
        (1.0, 0.5, -0.5),  # below the lower bound with a good action: not clipped
        (-1.0, 0.5, 0.8),  # below the lower bound with a bad action: clipped
        (-1.0, 1.5, 1.5),  # above the upper bound with a bad action: not clipped
        (-1.0, 9.0, 3.0),  # the dual clip
    ],
)
def test_bounds_by_hand(advantage, ratio, expected):
    n = torch.tensor([np.log(ratio)], dtype=torch.float64, requires_grad=True)
    old, one = torch.zeros(1, dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    loss, stats = ppo_clip(n, old, advantage * one, one, clip_low=0.2, clip_high=0.28, dual_clip=3.0)
    loss.backward()
    assert loss.item() == pytest.approx(expected)
    assert bool(stats["clipped"]) == (n.grad.item() == 0.0)


def test_weights_by_hand():
    trajectory, turn = np.array([0, 0, 0, 1]), np.array([0, 0, 1, 2])
    table = {
        "token-mean": [1 / 4] * 4,
        "seq-mean-token-mean": [1 / 6] * 3 + [1 / 2],
        "turn-mean": [1 / 6, 1 / 6, 1 / 3, 1 / 3],
        "seq-mean-token-sum": [1 / 2] * 4,
        "seq-mean-token-sum-norm": [1 / 16] * 4,
    }
    assert table.keys() == AGGREGATIONS.keys()
    for mode, expected in table.items():
        np.testing.assert_allclose(token_weights(mode, trajectory, turn, norm=8.0), expected)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30), st.randoms())
def test_means_sum_to_one_and_order_does_not_matter(pairs, random):
    trajectory = np.array([t for t, _ in pairs])
    turn = np.array([4 * t + k for t, k in pairs])
    order = list(range(len(pairs)))
    random.shuffle(order)
    for mode in ("token-mean", "seq-mean-token-mean", "turn-mean"):
        weights = token_weights(mode, trajectory, turn)
        assert weights.sum() == pytest.approx(1.0)
        np.testing.assert_allclose(token_weights(mode, trajectory[order], turn[order]), weights[order])


def test_k3_is_never_negative_and_zero_at_the_reference():
    n = torch.linspace(-6, 0, 50, dtype=torch.float64)
    f = torch.linspace(0, -6, 50, dtype=torch.float64)
    assert (kl(n, f, "k3") >= 0).all()
    assert kl(n, n, "k3").abs().max() == 0


def test_k1_and_k3_estimate_the_same_divergence():
    torch.manual_seed(0)
    p, q = torch.softmax(torch.randn(2, 5).double() / 2, 1)  # near enough that no clamp acts
    exact = (p * (p / q).log()).sum()
    for estimator in ("k1", "k3"):
        assert (p * kl(p.log(), q.log(), estimator)).sum() == pytest.approx(exact.item(), rel=1e-9)


def test_k3plus_has_the_gradient_of_the_divergence_on_policy():
    logits = torch.tensor([0.3, -1.0, 0.5], dtype=torch.float64, requires_grad=True)
    q = torch.log_softmax(torch.tensor([0.0, 0.4, -0.2], dtype=torch.float64), 0)
    logp = torch.log_softmax(logits, 0)
    (exact,) = torch.autograd.grad((logp.exp() * (logp - q)).sum(), logits)
    logp = torch.log_softmax(logits, 0)
    (estimated,) = torch.autograd.grad((logp.exp().detach() * kl(logp, q, "k3+")).sum(), logits)
    torch.testing.assert_close(estimated, exact)


@pytest.mark.parametrize(
    "call",
    [
        lambda: token_weights("token_mean", np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)),
        lambda: kl(torch.zeros(1), torch.zeros(1), "k4"),
        lambda: token_weights("token-mean", np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64), norm=0),
    ],
)
def test_what_is_unknown_is_named(call):
    with pytest.raises(ConfigError, match=r"token_mean.*did you mean 'token-mean'|k4.*choices: k1|positive"):
        call()


def test_a_coefficient_without_its_numbers_is_an_error():
    one = torch.ones(1)
    with pytest.raises(ValueError, match="reference"):
        token_objective(Objective(kl=0.1), one, one, one, one)
    with pytest.raises(ValueError, match="entrop"):
        token_objective(Objective(entropy=0.1), one, one, one, one)

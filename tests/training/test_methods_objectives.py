"""docs/methods.md: the slopes of the loss of each line, and its weights of tokens, against those by hand."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from method_lines import METHODS, methods_with, run_of

from turncredit.credit.tokens.catalogue import transform
from turncredit.training.config.sections import chosen
from turncredit.training.objectives import Objective

NEW, OLD = np.log([0.5, 0.2, 0.6, 0.11]), np.log([0.4, 0.3, 0.3, 0.2])
ADVANTAGES, OUTCOMES = np.array([1.0, -0.5, 0.8, -1.3]), np.array([1.0, 0.0, 1.0, 0.0])
ENTROPY, TEACHER = np.array([0.3, 0.6, 0.9, 1.2]), np.array([0, 0, 0, 2])


def clip_loss(low, high, advantages=ADVANTAGES):
    def loss(n):
        r = np.exp(n - OLD)
        return np.maximum(-advantages * r, -advantages * np.clip(r, 1 - low, 1 + high)).mean()

    return loss


def disco_loss(n, weights=(0.5, 0.5)):
    """tau = 10 over losers, and the penalty on a divergence above 1e-4, whose factor is constant."""
    margin = weights[0] * n[0] + weights[1] * n[2] - 10 * math.log((math.exp(n[1] / 10) + math.exp(n[3] / 10)) / 2)

    def divergence(values):
        return (np.exp(values - OLD) - 1 - (values - OLD)).mean()

    return -margin + 1e3 * max(divergence(NEW) - 1e-4, 0.0) * divergence(n)


def pacs_loss(n):
    rho = n - OLD
    others = (rho.sum() - rho) / 3
    chance = 1 / (1 + np.exp(-(rho - others)))
    return -(OUTCOMES * np.log(chance) + (1 - OUTCOMES) * np.log(1 - chance)).mean()  # 2 of 4 won: c = 1


def p3o_loss(n):
    fixed, rho = np.clip(np.exp(NEW - OLD), 0.8, 1.2), n - OLD
    pairs = [(i, j) for i, j in itertools.combinations(range(4), 2)]
    return np.mean([
        -0.5 * fixed[i] * fixed[j] * (OUTCOMES[i] - OUTCOMES[j]) * (rho[i] - rho[j]) for i, j in pairs
    ])  # fmt: skip


def reg_grpo_loss(n):
    rho = n - OLD
    return ((ADVANTAGES - (rho - rho.mean()) / (rho.std(ddof=1) + 0.1)) ** 2).mean()


def grao_loss(n):
    """Episode 3 is the teacher's; A = (E - mean) / std (over n) of the others, so that mean A = 0."""
    own = OUTCOMES[:3]
    a = (OUTCOMES - own.mean()) / own.std()
    return -((a[:3] * n[:3]).mean() + 0.5 * a[3] * n[3] + 0.6 * (a[:3] * n[:3]).mean())


def rover_loss(n):
    """One token each, so that nothing follows: (n - o - A)^2."""
    return ((n - OLD - ADVANTAGES) ** 2).mean()


def rec_loss(n):
    r = np.exp(NEW - OLD)
    moved = ((ADVANTAGES > 0) & (r > 3)) | ((ADVANTAGES < 0) & (r < 0.4))
    return (-np.where(moved, 0.0, ADVANTAGES) * n).mean()


def aepo_loss(n):
    h = (ENTROPY - ENTROPY.mean()) / ENTROPY.std(ddof=1)
    a = ADVANTAGES * np.maximum(0, 1 + 0.3 * h)
    r = np.exp(n - OLD)
    plain = np.maximum(-a * r, -a * np.clip(r, 0.8, 1.28))
    above = (a > 0) & (np.exp(NEW - OLD) > 1.28)
    return np.where(above, -a * 1.28 * np.exp(n - NEW), plain).mean()


def dcpo_loss(n):
    """The sum over episodes of their means over tokens; a dual clip at 10 that nothing reaches."""
    q, r = np.exp(OLD), np.exp(n - OLD)
    low = 0.5 + 0.5 * np.sqrt(np.maximum(1 - 4 * 0.16 / q, 0))
    high = np.minimum(0.5 + 0.5 * np.sqrt(1 + 4 * 0.2 / q), 10)
    return np.maximum(-ADVANTAGES * r, -ADVANTAGES * np.clip(r, low, high)).sum()


def hapo_loss(n):
    x = np.log(ENTROPY)
    x = x - np.sort(x)[2]  # the 0.8 quantile of four: the third one, at 0.8 * 3 = 2.4, nearest
    h = np.where(x > 0, x / x.max(), x / -x.min())
    low, high = np.where(h <= 0, 0.2 * (1 - h), 0.2), np.where(h > 0, 0.2 * (1 + h), 0.2)
    r = np.exp(n - OLD)
    return np.maximum(-ADVANTAGES * r, -ADVANTAGES * np.clip(r, 1 - low, 1 + high)).mean()


def ampo_loss(n):
    """Token sums over a constant of 1024, the mean over episodes; the teacher's -A p / (p + 0.1)."""
    r, p = np.exp(n - OLD), np.exp(n)
    own = np.maximum(-ADVANTAGES * r, -ADVANTAGES * np.clip(r, 0.8, 1.2))
    own = np.where(ADVANTAGES < 0, np.minimum(own, -ADVANTAGES * 10), own)
    return np.where(TEACHER == 2, -ADVANTAGES * p / (p + 0.1), own).mean() / 1024


def rl_plus_loss(n):
    ratio = 2 * np.exp(n) / (np.exp(OLD) + 0.5 * (np.exp(OLD) + 1))
    fixed = np.sqrt(1 - np.exp(NEW))
    return np.where(TEACHER == 2, -ratio * fixed * ADVANTAGES, -ADVANTAGES * np.exp(n - OLD)).mean() / 1024


LOSSES = {
    "DAPO's dynamic sampling": clip_loss(0.2, 0.28),
    "RSR: complete groups are kept for later": clip_loss(0.2, 0.2),  # decoupled, with the weight 1 where o = b
    "Confucius3-Math": clip_loss(0.2, 0.2),  # and 0.001 |mean H - 0.55|, which is no function of n here
    "AMPO": ampo_loss,
    "RL-PLUS": rl_plus_loss,
    "DisCO": disco_loss,
    "DRPO": disco_loss,  # answers of one token, so that all winners weigh the same
    "PACS": pacs_loss,
    "P3O": p3o_loss,
    "Reg-GRPO": reg_grpo_loss,
    "GRAO": grao_loss,
    "ROVER": rover_loss,
    "REC": rec_loss,
    "AEPO for agents": aepo_loss,
    "DCPO": dcpo_loss,
    "HAPO": hapo_loss,
    "TW-GRPO": clip_loss(0.2, 0.2),
}


@pytest.mark.parametrize("method", METHODS)
def test_the_objective_of_a_line_has_the_slopes_by_hand(tmp_path, method):
    """Central differences of a loss written here; lines without an objective have PPO's clip, 0.2 and 0.28."""
    sets = any(word.startswith(("objective.name", "objective.options", "train.staleness")) for word in METHODS[method])
    assert sets == (method in LOSSES), "this line needs its loss by hand"
    objective = Objective.from_section(run_of(method, tmp_path).objective)
    new = torch.tensor(NEW)[:, None].requires_grad_()
    one = torch.ones(4, 1, dtype=torch.float64)
    known = {
        "ref": torch.tensor(OLD)[:, None], "rollout": torch.tensor(OLD)[:, None],
        "entropy": torch.tensor(ENTROPY)[:, None], "mean_logprob": -one, "old_mean_logprob": -one,
        "outcome": torch.tensor(OUTCOMES), "group": torch.zeros(4, dtype=torch.int64),
        "source": torch.tensor(TEACHER) * (method in ("AMPO", "RL-PLUS", "GRAO")),
    }  # fmt: skip
    tensors = new, torch.tensor(OLD)[:, None], torch.tensor(ADVANTAGES)[:, None], one.bool()
    columns = {name: known[name] for name in objective.info.needs}
    loss, _ = objective.info.function(*tensors, **columns, **objective.options)
    found = torch.autograd.grad(loss, new)[0][:, 0].numpy()
    by_hand, width = LOSSES.get(method, clip_loss(0.2, 0.28)), 1e-6 * np.eye(4)
    expected = [(by_hand(NEW + step) - by_hand(NEW - step)) / 2e-6 for step in width]
    np.testing.assert_allclose(found, expected, atol=1e-7, rtol=1e-5)


ONE = np.ones((2, 2))
TRANSFORMS = {
    # x = ln H - its 0.8 quantile of four, the third: h = (-1, -.63, 0, 1) at ratio 1, inside the zone for h <= 0
    "HAPO": (
        {"entropy": np.exp([[0.0, 1.0], [2.7, 4.0]])},
        ONE * [[1 - 2.7 / 2.7, 1 - 1.7 / 2.7], [1.0, 1.0]],
    ),
    "MSSR": ({"entropy": np.array([[0.5, 2.0], [3.0, 1.0]]), "logprobs": -ONE}, ONE * [[1.2, 1.5], [1.5, 1.4]]),
    "TW-GRPO": ({"divergence": np.array([[0.0, 2.0], [4.0, 2.0]]), "group": [0, 0]}, ONE * [[1.0, 1.25], [1.5, 1.25]]),
    "THR": (
        {
            "influence_of_winners": np.array([[3.0, 1.0], [0.0, 2.0]]),
            "influence_of_losers": np.array([[1.0, 2.0], [0.0, 1.0]]),
        },
        ONE * [[0.9, 1.1], [1.0, 0.9]],
    ),
    # one winner and one loser: p = 1/2, so that 2 |1/2 - p| = 0 where the loser's s exceeds the winner's mean, 1
    "NTHR": (
        {"influence_of_winners": np.array([[1.0, 1.0], [0.5, 2.0]]), "group": [0, 0]},
        np.array([[1.0, 1.0], [-1.0, 0.0]]),
    ),
}


@pytest.mark.parametrize("method", methods_with("credit.token_transform"))
def test_the_token_weights_of_a_line_are_those_by_hand(tmp_path, method):

    arrays, expected = TRANSFORMS[method]
    name, options = chosen(run_of(method, tmp_path).credit.token_transform, "credit.token_transform")
    given = ONE if method != "NTHR" else np.array([[1.0, 1.0], [-1.0, -1.0]])
    result = transform(name, **options)(given, ONE.astype(bool), **arrays)
    np.testing.assert_allclose(result.values, expected, atol=1e-6)

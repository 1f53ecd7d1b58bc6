"""ROVER: its Bellman equation by hand, over turns, and in an update of several steps."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from toys.training_helpers import play, random_advantages, tiny_llama

from turncredit.training.batch.batch import pack
from turncredit.training.learner.gradient import UpdatePlan
from turncredit.training.learner.learner import Learner
from turncredit.training.objectives import Objective, get

torch.set_num_threads(1)


def rover(new, old, advantages, mask, value, **options):
    """The loss of log-probabilities whose vocabulary has moved by a value, and its gradient."""
    new, old, advantages, value = (torch.tensor(rows, dtype=torch.float64) for rows in (new, old, advantages, value))
    base = torch.full_like(value, -7.0)
    loss, _ = get("rover")(
        new.requires_grad_(), old, advantages, torch.tensor(mask), mean_logprob=base + value, old_mean_logprob=base,
        **options,
    )  # fmt: skip
    return loss.item(), torch.autograd.grad(loss, new)[0].tolist()


def test_the_error_of_each_token_by_hand():
    """Q = 0.2, -0.1, 0 with A = 1/2, and values 9, 0.1, 0.3: targets 0.6, 0.8 and, at the end, 0.5."""
    rows = ([[-0.8, -1.1, -1.0]], [[-1.0, -1.0, -1.0]], [[0.5, 0.5, 0.5]], [[True] * 3], [[9.0, 0.1, 0.3]])
    loss, slope = rover(*rows)
    assert loss == pytest.approx((0.4**2 + 0.9**2 + 0.5**2) / 3)
    assert slope == [pytest.approx([2 * -0.4 / 3, 2 * -0.9 / 3, 2 * -0.5 / 3])]
    assert rover(*rows, discount=0.0)[0] == pytest.approx((0.3**2 + 0.6**2 + 0.5**2) / 3)


def test_what_follows_a_turn_is_the_next_one_of_the_episode():
    """A gap in the mask is what the environment said; the second row is another episode."""
    mask = [[True, False, True], [True, False, False]]
    old = [[-1.0] * 3, [-1.0] * 3]
    none = [[0.0] * 3, [0.0] * 3]
    loss, _ = rover(old, old, none, mask, [[5.0, 8.0, 0.2], [7.0, 8.0, 8.0]])
    assert loss == pytest.approx(0.2**2 / 3)


def test_at_the_old_policy_the_gradient_is_twice_that_of_reinforce():
    old, advantages = [[-1.0, -2.0, -0.5]], [[0.3, -0.2, 0.1]]
    _, slope = rover(old, old, advantages, [[True] * 3], [[0.0] * 3])
    assert slope == [pytest.approx([-0.2, 0.4 / 3, -0.2 / 3])]


def test_the_values_of_an_update_are_those_of_the_weights_before_it_and_of_now():
    """After a step, the loss of an update is that of scores which are computed apart, before and after."""
    rng = np.random.default_rng(0)
    groups = play(rng, groups=2, size=3)
    learner = Learner(tiny_llama(), None, lr=1e-2)
    batch = pack(groups, random_advantages(rng, groups), merge=False)
    before = learner.score(batch, temperature=0.8, mean=True)
    batch = replace(batch, old=before.logprobs, mean_logprob=before.mean_logprob)
    plan = UpdatePlan(optimizer_steps=1, micro_tokens=30, temperature=0.8)
    first = learner.update(batch, Objective(name="rover"), plan)
    assert first["loss"] == pytest.approx(np.square(batch.advantages[batch.mask]).mean())
    after = learner.score(batch, temperature=0.8, mean=True)
    value = after.mean_logprob - before.mean_logprob
    assert np.abs(value[batch.mask]).max() > 1e-3
    follows = np.zeros_like(value)
    for trajectory in np.unique(batch.trajectory):
        rows, columns = np.nonzero(batch.mask & (batch.trajectory == trajectory)[:, None])
        order = np.argsort(batch.turn[rows, columns], kind="stable")
        rows, columns = rows[order], columns[order]
        follows[rows[:-1], columns[:-1]] = value[rows[1:], columns[1:]]
    errors = (after.logprobs - before.logprobs - batch.advantages - follows)[batch.mask]
    assert learner.update(batch, Objective(name="rover"), plan)["loss"] == pytest.approx(np.square(errors).mean())

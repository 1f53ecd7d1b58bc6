"""Log-probabilities and entropies through the projection to the vocabulary, against numpy and finite differences."""

import math

import numpy as np
import pytest
import torch
from toys.training_helpers import play, random_advantages, tiny_llama

from turncredit.training.batch.batch import pack
from turncredit.training.learner.gradient import UpdatePlan
from turncredit.training.learner.learner import Learner
from turncredit.training.learner.vocabulary import logprobs_of, token_logprobs
from turncredit.training.objectives import Objective

LOGITS = [[1.0, 2.0, 0.5, -math.inf], [0.0, -math.inf, -math.inf, 3.0], [-math.inf, 0.0, -math.inf, -math.inf]]


def plain_entropy(logits, temperature):
    """In numpy, over the tokens that have a probability."""
    out = []
    for row in np.asarray(logits) / temperature:
        p = np.exp(row - row.max()) / np.exp(row - row.max()).sum()
        out.append(-sum(x * math.log(x) for x in p if x > 0))
    return out


def head_with(bias):
    """A projection of no hidden state to some logits, by its bias alone."""
    head = torch.nn.Linear(2, len(bias)).double()
    with torch.no_grad():
        head.weight.copy_(torch.arange(2.0 * len(bias)).view(-1, 2) / 7)
        head.bias.copy_(torch.tensor(bias))
    return head


@pytest.mark.parametrize("temperature", [1.0, 0.5, 2.0])
@pytest.mark.parametrize("with_gradient", [False, True])
def test_tokens_of_probability_zero_add_nothing_to_the_entropy(temperature, with_gradient):
    logits = torch.tensor(LOGITS, dtype=torch.float64, requires_grad=True)
    tokens = torch.tensor([1, 3, 1])
    chosen, entropy = logprobs_of(logits, tokens, temperature=temperature, entropy=with_gradient)
    assert entropy.tolist() == pytest.approx(plain_entropy(LOGITS, temperature), abs=1e-12)
    if temperature == 1.0:
        assert entropy[0].item() == pytest.approx(0.906, abs=5e-4)
    (chosen.sum() + (entropy.sum() if with_gradient else 0.0)).backward()
    assert torch.isfinite(logits.grad).all()


@pytest.mark.parametrize("chunk", [2**25, 8, 1])
@pytest.mark.parametrize("bonus", [0.0, 0.3, -2e6])
def test_chunks_have_the_same_gradient_as_the_tokens_that_have_a_probability(chunk, bonus):
    """A head without the token of probability zero is the independent way to the same numbers."""
    bias = [1.0, 2.0, -math.inf, 0.5]
    states = torch.tensor([[0.3, -1.0], [2.0, 0.1], [-0.4, 0.7]], dtype=torch.float64)
    tokens, reduced = torch.tensor([1, 3, 0]), torch.tensor([1, 2, 0])
    found, wanted = states.clone().requires_grad_(), states.clone().requires_grad_()
    head, small = head_with(bias), torch.nn.Linear(2, 3).double()
    keep = torch.tensor([0, 1, 3])
    with torch.no_grad():
        small.weight.copy_(head.weight[keep])
        small.bias.copy_(head.bias[keep])
    chosen, entropy = token_logprobs(found, head, tokens, temperature=0.7, entropy=True, chunk=chunk)
    (chosen.sum() + bonus * entropy.sum()).backward()
    p = torch.log_softmax(small(wanted) / 0.7, -1)
    plain = -(p.exp() * p).sum(-1)
    (p[range(3), reduced].sum() + bonus * plain.sum()).backward()
    torch.testing.assert_close(chosen, p[range(3), reduced], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(entropy, plain, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(found.grad, wanted.grad, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(head.weight.grad[keep], small.weight.grad, rtol=1e-9, atol=1e-12)
    assert (head.weight.grad[2] == 0).all()


@pytest.mark.parametrize("chunk", [2**25, 8, 1])
@pytest.mark.parametrize("temperature", [1.0, 0.7, torch.tensor([[1.0], [0.5], [2.0]])])
def test_the_mean_over_the_vocabulary(chunk, temperature):
    """It has no gradient, and changes none; a word of probability zero counts as one of -10,000 nats."""
    states = torch.tensor([[0.3, -1.0], [2.0, 0.1], [-0.4, 0.7]], dtype=torch.float64)
    tokens, head = torch.tensor([1, 3, 0]), head_with([1.0, 2.0, -math.inf, 0.5])
    logprobs = torch.log_softmax(head(states) / temperature, -1)
    slopes = []
    for mean in (True, False):
        hidden = states.clone().requires_grad_()
        columns = token_logprobs(hidden, head, tokens, temperature=temperature, entropy=True, mean=mean, chunk=chunk)
        (columns[0].sum() + columns[1].sum()).backward()
        slopes.append(hidden.grad)
        if mean:
            torch.testing.assert_close(columns[2], logprobs.clamp(min=-1e4).mean(-1).detach(), rtol=1e-12, atol=1e-9)
            assert not columns[2].requires_grad
        else:
            assert len(columns) == 2
    assert torch.equal(*slopes)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_same_in_narrow_types_without_loss_of_the_gradient(dtype):
    logits = torch.tensor(LOGITS, dtype=dtype, requires_grad=True)
    _, entropy = logprobs_of(logits, torch.tensor([1, 3, 1]), entropy=True)
    (1e6 * entropy.sum()).backward()
    assert entropy.tolist() == pytest.approx(plain_entropy(LOGITS, 1.0), abs=1e-6)
    assert torch.isfinite(logits.grad).all()


class Padded(type(tiny_llama())):
    """A model that masks the last rows of its output layer, as some do whose vocabulary is padded."""

    def forward(self, *args, **kwargs):
        out = super().forward(*args, **kwargs)
        out.logits = out.logits.index_fill(-1, torch.tensor([21, 22]), -math.inf)
        return out


def test_a_bonus_for_entropy_trains_a_model_that_masks_a_part_of_its_vocabulary():
    rng = np.random.default_rng(0)
    groups = play(rng)
    batch = pack(groups, random_advantages(rng, groups))
    batch.tokens[batch.tokens > 20] = 20
    model = tiny_llama()
    model.__class__ = Padded
    learner = Learner(model, None, lr=1e-3)
    stats = learner.update(batch, Objective(entropy=0.1), UpdatePlan(optimizer_steps=2))
    assert (stats["updates"], stats["skipped"]) == (2, 0)
    assert 0 < stats["entropy"] < math.log(21)

"""What tokens of a group have to do with each other: against loops over whole distributions and gradients."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from test_training_loop import make_run
from toys.training_helpers import forked, play, random_advantages, tiny_llama, trajectory, turn

from turncredit.agents.trajectory import Group
from turncredit.training import ConfigError
from turncredit.training.batch.batch import pack
from turncredit.training.batch.token_advantages import COMPARED, AppliedTransform
from turncredit.training.learner import group_arrays as module
from turncredit.training.learner.group_arrays import group_arrays
from turncredit.training.learner.learner import Learner
from turncredit.training.learner.logprobs import TokenScorer
from turncredit.training.learner.ranks import _check

torch.set_num_threads(1)


def batch_of(groups=2, size=3, *, merge=True, share=False):
    rng = np.random.default_rng(0)
    played = forked(rng, groups=groups, size=size) if share else play(rng, groups=groups, size=size)
    return pack(played, random_advantages(rng, played), merge=merge)


def logits_of(model, batch):
    """The logits before every token of the mask, and what the output layer got, one row after the other."""
    logits, states = [], []
    for row, length in enumerate(batch.lengths):
        ids = torch.from_numpy(batch.tokens[row : row + 1, :length])
        hidden = model.model(ids).last_hidden_state[0]
        before = np.flatnonzero(batch.mask[row]) - 1
        states.append(hidden[before].detach())
        logits.append(model.lm_head(hidden)[before].detach())
    return torch.cat(logits), torch.cat(states)


def facts_of(batch):
    """Group, episode, turn in the episode and position in the turn of every token in the mask."""
    facts = []
    for row, column in zip(*np.nonzero(batch.mask), strict=True):
        number = batch.turn[row, column]
        start = np.flatnonzero(batch.turn[row] == number)[0]
        episode = int(batch.trajectory[row])
        facts.append((int(batch.episodes.group[episode]), episode, batch.turns[number][1], int(column - start)))
    return facts


def plain_divergence(batch, logprobs):
    facts, vocabulary = facts_of(batch), logprobs.shape[1]
    uniform = torch.full((vocabulary,), -np.log(vocabulary), dtype=logprobs.dtype)
    wanted = []
    for group, _, number, position in facts:
        episodes = {episode for other, episode, _, _ in facts if other == group}
        here = {e: k for k, (g, e, n, p) in enumerate(facts) if (g, n, p) == (group, number, position)}
        rows = torch.stack([logprobs[here[e]] if e in here else uniform for e in sorted(episodes)])
        d = (rows.mean(0) - rows).clamp(-11.0, 11.0)
        wanted.append((d.exp() - d - 1.0).sum(1).mean().item())
    return wanted


def plain_influence(batch, logprobs, states, sign):
    """The inner products of gradients of the output layer, for the rows of ids that the group has."""
    facts = facts_of(batch)
    ids, advantages = batch.tokens[batch.mask], batch.advantages[batch.mask]
    wanted = []
    for k, (group, *_) in enumerate(facts):
        members = [j for j, (other, *_) in enumerate(facts) if other == group]
        rows = sorted(set(ids[members]))

        def gradient(j, rows=rows):
            return torch.outer(torch.nn.functional.one_hot(torch.tensor(ids[j]), logprobs.shape[1]) - logprobs[j].exp(),
                               states[j])[rows]  # fmt: skip

        total = sum(gradient(j) for j in members if advantages[j] * sign > 0)
        wanted.append(float((gradient(k) * total).sum()))
    return wanted


@pytest.mark.parametrize("merge", [True, False])
@pytest.mark.parametrize(("micro_tokens", "chunk"), [(10_000, 2**25), (30, 23 * 8), (30, 1)])
def test_they_are_what_loops_over_tokens_give(monkeypatch, merge, micro_tokens, chunk):
    monkeypatch.setattr(module, "CHUNK", chunk)
    model, batch = tiny_llama(), batch_of(merge=merge)
    batch = replace(batch, heat=np.where(batch.turn % 2 == 0, 1.5, 1.0))
    logits, states = logits_of(model, batch)
    heat = torch.from_numpy(0.8 * batch.heat[batch.mask])[:, None]
    logprobs = torch.log_softmax(logits / heat, -1)
    arrays = group_arrays(Learner(model, None), batch, COMPARED, temperature=0.8, micro_tokens=micro_tokens)
    wanted = {
        "divergence": plain_divergence(batch, logprobs),
        "influence_of_winners": plain_influence(batch, logprobs, states, 1),
        "influence_of_losers": plain_influence(batch, logprobs, states, -1),
    }
    assert set(arrays) == set(wanted) == set(COMPARED)
    for name, numbers in wanted.items():
        np.testing.assert_allclose(arrays[name][batch.mask], numbers, rtol=1e-9, atol=1e-12)
        assert not arrays[name][~batch.mask].any()
        assert np.ptp(arrays[name][batch.mask]) > 0.1


@pytest.mark.parametrize("options", [{"packing": True}, {"share_prefixes": True}])
def test_the_layout_of_rows_changes_nothing(options):
    batch = batch_of(share=True)
    apart = group_arrays(Learner(tiny_llama(), None), batch, COMPARED)
    for name, array in group_arrays(Learner(tiny_llama(), None, **options), batch, COMPARED).items():
        np.testing.assert_allclose(array, apart[name], rtol=1e-6, atol=1e-8)


def test_a_group_whose_members_say_the_same_does_not_diverge():
    """Two equal answers, and a third that is longer: where only it goes on, the others count as uniform."""
    answers = [turn([1, 2], [3, 4]), turn([1, 2], [3, 4]), turn([1, 2], [3, 4, 5])]
    group = Group("t", tuple(trajectory([answer], name=f"t#{k}@0") for k, answer in enumerate(answers)))
    batch = pack([group])
    array = group_arrays(Learner(tiny_llama(), None), batch, ["divergence"])["divergence"]
    np.testing.assert_allclose(array[:, 2:4], 0.0, atol=1e-12)
    assert array[2, 4] > 0.1


def test_a_model_that_changes_its_logits_is_refused():
    class Capped(type(tiny_llama())):
        def forward(self, *args, **kwargs):
            out = super().forward(*args, **kwargs)
            out.logits = 3.0 * torch.tanh(out.logits / 3.0)
            return out

    model = Capped(tiny_llama().config)
    transform = AppliedTransform.from_choice("tw_grpo")
    message = "credit.token_transform 'tw_grpo' needs 'divergence': Capped changes what its output layer makes"
    with pytest.raises(ConfigError, match=message):
        transform.check(TokenScorer(model).require_hidden)
    AppliedTransform.from_choice("mssr").check(TokenScorer(model).require_hidden)  # which needs none


def test_several_ranks_refuse_what_one_compares(tmp_path):
    with pytest.raises(
        ConfigError, match="'nthr' works with one rank only, since it compares tokens of different rows"
    ):
        _check(make_run(tmp_path, "credit.token_transform=nthr"))

import pickle
from dataclasses import fields, replace
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from toys.training_helpers import VOCAB, gradient, play, random_advantages, tiny_llama, trajectory, turn

from turncredit.agents.steps import steps_of
from turncredit.agents.trajectory import Group
from turncredit.credit import Advantages, Steps
from turncredit.training.batch.batch import micro_batches, outcomes_of, pack
from turncredit.training.learner.gradient import UpdateMeter, UpdatePlan, accumulate
from turncredit.training.learner.logprobs import TokenScorer
from turncredit.training.objectives import AGGREGATIONS, CORRECTIONS, Objective, get, objectives
from turncredit.training.objectives.sources import TEACHER

torch.set_num_threads(1)


@cache
def _scorer():
    return TokenScorer(tiny_llama())


def _loss_and_gradient(batch, *, micro_tokens=10_000, **objective):
    scorer, meter = _scorer(), UpdateMeter()
    scorer.model.zero_grad()
    plan = UpdatePlan(micro_tokens=micro_tokens, grad_clip=1e9, temperature=0.7)
    accumulate(scorer, batch, Objective(**objective), plan, meter)
    return meter.loss[-1], gradient(scorer.model), meter.stats()


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("more", [{}, {"entropy": 0.01}])
def test_merged_and_unmerged_have_the_same_loss_and_gradient(aggregation, more):
    rng = np.random.default_rng(1)
    groups = play(rng, groups=2, size=3)
    advantages = random_advantages(rng, groups, drop=0.2)
    merged, apart = pack(groups, advantages), pack(groups, advantages, merge=False)
    assert len(merged) == 6 < len(apart)
    assert merged.size < apart.size
    loss, grad, _ = _loss_and_gradient(merged, aggregation=aggregation, norm=7.0, **more)
    other_loss, other_grad, _ = _loss_and_gradient(apart, aggregation=aggregation, norm=7.0, **more)
    assert loss == pytest.approx(other_loss, rel=1e-12)
    assert grad.abs().max() > 1e-4
    torch.testing.assert_close(grad, other_grad, rtol=1e-9, atol=1e-12)


def _all_columns(batch, seed):
    """The batch with a reference and what the sampler gave, both near the old log-probabilities."""
    rng = np.random.default_rng(seed)
    near = {
        name: np.where(batch.mask, batch.old + rng.normal(0.0, 0.3, batch.mask.shape), 0.0)
        for name in ("reference", "rollout", "mean_logprob")
    }
    return replace(batch, **near)


def _outcomes(groups):
    """Scores and sources by id: in each group the first episode wins, and a teacher wrote the last, which wins too."""
    names = [[trajectory.id for trajectory in group.trajectories] for group in groups]
    outcomes = {
        name: float(number in (0, len(members) - 1)) for members in names for number, name in enumerate(members)
    }
    return {"outcomes": outcomes, "sources": {members[-1]: TEACHER for members in names}}


NOISY = {"clip_cov": {"low": -100.0, "high": 100.0, "share": 0.2}, "kl_cov": {"share": 0.2}}
EXTRA = [{"sequence": "turn"}, {"entropy": 0.01, "entropy_target": 9.0}, {"llds": 0.3, "kl": 0.1}]
CASES = [
    *({"name": name} for name in objectives()),
    *({"name": name, **extra} for name in ("ppo_clip", "gspo", "dhpo") for extra in EXTRA),
    *({"correction": name, "correction_high": 1e3} for name in CORRECTIONS),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(str(value) for value in case.values()))
def test_no_objective_depends_on_how_a_batch_is_cut_or_merged(case):
    """Whole sequences and statistics of the batch come out the same from one piece, from many, and from turns apart."""
    rng = np.random.default_rng(4)
    groups = play(rng, groups=2, size=3)
    advantages = random_advantages(rng, groups)
    advantages.values[: len(groups[0].trajectories[0].turns)] = 0.0  # one trajectory without signal
    options = {**case, "options": NOISY.get(case.get("name"), {})}
    merged = _all_columns(pack(groups, advantages, **_outcomes(groups)), 5)
    apart = pack(groups, advantages, merge=False, **_outcomes(groups))
    columns = {}
    for name in ("reference", "rollout", "mean_logprob"):
        columns[name] = np.zeros(apart.mask.shape)
        columns[name][apart.mask] = getattr(merged, name)[merged.mask]  # both in the order of turns
    apart = replace(apart, **columns)
    loss, grad, stats = _loss_and_gradient(merged, **options)
    assert grad.abs().max() > 1e-4
    for batch, micro_tokens in ((merged, 40), (apart, 10_000), (apart, 30)):
        other_loss, other_grad, other_stats = _loss_and_gradient(batch, micro_tokens=micro_tokens, **options)
        assert other_loss == pytest.approx(loss, rel=1e-9, abs=1e-12)
        torch.testing.assert_close(other_grad, grad, rtol=1e-8, atol=1e-11)
        assert other_stats["clip_fraction"] == pytest.approx(stats["clip_fraction"], abs=1e-9)


@pytest.mark.parametrize("name", objectives())
def test_the_update_computes_what_the_function_says(name):
    """Turns and trajectories without advantage count in ratios, statistics and denominators, computed or not."""
    rng = np.random.default_rng(6)
    groups = play(rng, groups=2, size=3)
    advantages = random_advantages(rng, groups)
    lengths = [len(one.turns) for group in groups for one in group.trajectories]
    advantages.values[: lengths[0]] = 0.0
    advantages.values[np.cumsum(lengths)[[2, 4]] - 1] = 0.0  # last turns
    batch = _all_columns(pack(groups, advantages, **_outcomes(groups)), 7)
    assert len(batch) == 6  # a row a trajectory
    loss, _, _ = _loss_and_gradient(batch, micro_tokens=40, name=name, options=NOISY.get(name, {}))
    chosen, spread, means = _scorer()(batch, temperature=0.7, mean=True)
    new, entropy, mean = (torch.zeros(batch.mask.shape, dtype=torch.float64) for _ in range(3))
    mask = torch.from_numpy(batch.mask)
    new[mask], entropy[mask], mean[mask] = chosen.detach(), spread.detach(), means
    columns = (torch.from_numpy(column) for column in (batch.old, batch.advantages))
    more = {"ref": torch.from_numpy(batch.reference), "rollout": torch.from_numpy(batch.rollout)}
    more |= {"mean_logprob": mean, "old_mean_logprob": torch.from_numpy(batch.mean_logprob)}
    more |= {name: torch.from_numpy(getattr(batch.episodes, name)) for name in ("outcome", "group", "source")}
    wanted, _ = get(name)(new, *columns, mask, **more, entropy=entropy, **NOISY.get(name, {}))
    assert name == "clip_cov" or loss == pytest.approx(wanted.item(), rel=1e-9)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("micro_tokens", [1, 40, 90])
def test_micro_batches_do_not_change_the_gradient(aggregation, micro_tokens):
    rng = np.random.default_rng(2)
    groups = play(rng, groups=3, size=3)
    batch = pack(groups, random_advantages(rng, groups))
    loss, grad, stats = _loss_and_gradient(batch, aggregation=aggregation, norm=7.0)
    cut_loss, cut_grad, cut_stats = _loss_and_gradient(
        batch, micro_tokens=micro_tokens, aggregation=aggregation, norm=7.0
    )
    assert cut_loss == pytest.approx(loss, rel=1e-12)
    torch.testing.assert_close(cut_grad, grad, rtol=1e-9, atol=1e-12)
    assert 0 < cut_stats.pop("hardware_flops") <= stats.pop("hardware_flops")  # there is less padding
    assert cut_stats == pytest.approx(stats)


def test_rows_without_signal_count_in_the_denominator_and_are_not_computed():
    rng = np.random.default_rng(3)
    groups = play(rng, groups=2, size=2)
    advantages = random_advantages(rng, groups)
    without = len(groups[0].trajectories[0].turns) + len(groups[0].trajectories[1].turns)
    advantages.values[:without] = 0.0
    batch = pack(groups, advantages)
    loss, grad, stats = _loss_and_gradient(batch)
    # the entropy bonus needs every token: with a vanishing one nothing may be left out, and nothing else changes
    full_loss, full_grad, full_stats = _loss_and_gradient(batch, entropy=1e-15)
    assert stats["tokens"] < full_stats["tokens"] == batch.size
    assert loss == pytest.approx(full_loss, rel=1e-9)
    torch.testing.assert_close(grad, full_grad, rtol=1e-8, atol=1e-12)


def test_layout_by_hand():
    a, b = turn([1, 2], [3, 4], logprobs=(-0.5, -0.6)), turn([1, 2, 3, 4, 5], [6], logprobs=(-0.7,))
    c = turn([9], [8, 7], logprobs=(-0.1, -0.2))  # does not extend: a sequence of its own
    groups = [Group("t", (trajectory([a, b, c]),))]
    batch = pack(groups, Advantages.of(steps_of(groups), np.array([1.0, 2.0, 3.0])))
    assert batch.tokens.tolist() == [[1, 2, 3, 4, 5, 6], [9, 8, 7, 0, 0, 0]]
    assert batch.lengths.tolist() == [6, 3]
    assert batch.mask.astype(int).tolist() == [[0, 0, 1, 1, 0, 1], [0, 1, 1, 0, 0, 0]]
    assert batch.turn.tolist() == [[-1, -1, 0, 0, -1, 1], [-1, 2, 2, -1, -1, -1]]
    assert batch.old.tolist() == [[0, 0, -0.5, -0.6, 0, -0.7], [0, -0.1, -0.2, 0, 0, 0]]
    assert batch.advantages.tolist() == [[0, 0, 1, 1, 0, 2], [0, 3, 3, 0, 0, 0]]
    assert batch.trajectory.tolist() == [0, 0]


def test_a_batch_knows_outcome_group_and_source_of_its_trajectories():
    paid = [trajectory([turn([1], [2], reward=0.5), turn([3], [4], reward=0.25)], name=name) for name in "abc"]
    failed = trajectory([turn([5], [6])], name="d", stop="error")
    groups = [Group("t", (failed, *paid[:2])), Group("u", (paid[2],))]
    columns = pack(groups).episodes
    assert (columns.outcome.tolist(), columns.group.tolist(), columns.source.tolist()) == (
        [0.75] * 3,
        [0, 0, 1],
        [0] * 3,
    )
    columns = pack(groups, outcomes=outcomes_of(steps_of(groups)) | {"b": 0.1}, sources={"c": TEACHER}).episodes
    assert (columns.outcome.tolist(), columns.source.tolist()) == ([0.75, 0.1, 0.75], [0, 0, TEACHER])
    batch = pack(groups).rows(np.array([3, 4]))
    assert batch.episodes.take(batch.trajectory).group.tolist() == [0, 1]
    assert replace(batch, columns=None).episodes.group.tolist() == [0, 1, 2]


def test_dropped_rows_stay_as_context_without_loss():
    groups = [Group("t", (trajectory([turn([1], [2]), turn([1, 2, 3], [4])]),))]
    keep, weight = np.array([False, True]), np.array([1.0, 0.5])
    batch = pack(groups, Advantages.of(steps_of(groups), np.array([1.0, 2.0]), keep=keep, weight=weight))
    assert batch.tokens.tolist() == [[1, 2, 3, 4]]
    assert batch.mask.astype(int).tolist() == [[0, 0, 0, 1]]
    assert batch.advantages.tolist() == [[0, 0, 0, 1.0]]  # the weight halves it


def test_failed_episodes_have_no_rows():
    good, bad = trajectory([turn([1], [2])]), trajectory([turn([5], [6])], stop="error")
    groups = [Group("t", (bad, good))]
    batch = pack(groups, Advantages.of(steps_of(groups), np.array([1.0])))
    assert batch.tokens.tolist() == [[1, 2]]
    assert len(pack([Group("t", (bad,))], Advantages.of(Steps.empty(), np.zeros(0)))) == 0


def test_advantages_of_other_groups_are_refused():
    groups = [Group("t", (trajectory([turn([1], [2])]),))]
    with pytest.raises(ValueError, match="expected advantages of the 1 turns of these groups, got 2"):
        pack(
            groups,
            Advantages.of(
                Steps.from_columns(task=[0] * 2, trajectory=[0, 1], turn=[0] * 2, reward=[0.0] * 2), np.zeros(2)
            ),
        )
    with pytest.raises(ValueError, match="2 tokens and 1 log-prob"):
        pack([Group("t", (trajectory([turn([1], [2, 3], logprobs=(-1.0,))]),))])


@given(st.integers(0, 2**32 - 1))
def test_every_sampled_token_is_in_the_batch_once(seed):
    rng = np.random.default_rng(seed)
    groups = play(rng)
    advantages = random_advantages(rng, groups)
    turns = [turn for group in groups for one in group.trajectories for turn in one.turns]
    for merge in (True, False):
        batch = pack(groups, advantages, merge=merge)
        for number, one in enumerate(turns):
            where = batch.turn == number
            assert batch.tokens[where].tolist() == list(one.response)
            assert batch.old[where].tolist() == list(one.logprobs)
            assert set(batch.advantages[where]) == {advantages.values[number]}
        assert batch.tokens.max() < VOCAB
        assert batch.mask.sum() == sum(len(one.response) for one in turns)


@given(st.lists(st.integers(0, 50), max_size=40), st.integers(1, 200))
def test_micro_batches_hold_every_row_once_within_the_budget(lengths, budget):
    array = np.array(lengths, dtype=np.int64)
    cuts = micro_batches(array, budget)
    seen = sorted(int(row) for cut in cuts for row in cut)
    assert seen == [k for k, length in enumerate(lengths) if length]
    assert all(len(cut) == 1 or array[cut].max() * len(cut) <= budget for cut in cuts)


@given(seed=st.integers(0, 99), groups=st.integers(0, 3))
def test_a_batch_that_was_pickled_has_the_same_bits(seed, groups):
    rng = np.random.default_rng(seed)
    played = play(rng, groups=groups, size=2)
    batch = pack(played, random_advantages(rng, played))
    odd = np.where(batch.mask & (rng.random(batch.mask.shape) < 0.3), -0.0, batch.old)
    batch = replace(batch, old=odd, reference=np.where(rng.random(odd.shape) < 0.1, np.nan, odd), rollout=None)
    back = pickle.loads(pickle.dumps(batch))
    for field in fields(batch):
        one, other = getattr(batch, field.name), getattr(back, field.name)
        if isinstance(one, np.ndarray):
            assert (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes()), field.name
        else:
            assert repr(one) == repr(other), field.name


def test_padding_and_prompts_cost_a_pickle_next_to_nothing():
    rng = np.random.default_rng(0)
    played = play(rng, groups=3, size=4)
    batch = pack(played, random_advantages(rng, played))
    wider = {
        name: np.pad(
            getattr(batch, name), ((0, 0), (0, 4000)), constant_values=-1 if name in ("turn", "version") else 0
        )
        for name in ("tokens", "mask", "old", "advantages", "turn", "version")
    }
    padded = replace(batch, **wider)
    more = len(pickle.dumps(padded)) - len(pickle.dumps(batch))
    assert more < 6 * len(batch) * 4000 / 8 + 500, "a bit for each place of an array"

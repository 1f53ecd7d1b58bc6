import copy
import itertools
import math
import os
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch
from toys.training_helpers import conversation, play, random_advantages, tiny_llama, trajectory, turn

from turncredit.agents.steps import steps_of
from turncredit.agents.trajectory import Group
from turncredit.credit.advantages import Advantages
from turncredit.training.batch.batch import pack
from turncredit.training.batch.sampling_temperature import SamplingTemperature
from turncredit.training.config.coefficient_schedules import CoefficientSchedule
from turncredit.training.config.sections import ObjectiveSection
from turncredit.training.errors import TrainingError
from turncredit.training.learner.gradient import UpdatePlan
from turncredit.training.learner.learner import Learner, split_minibatches
from turncredit.training.learner.logprobs import TokenScorer
from turncredit.training.learner.optimizers import learning_rate, make_optimizer
from turncredit.training.objectives import Objective
from turncredit.training.run_folder.metrics import sampled_entropy

torch.set_num_threads(1)


def _made(seed=0, **kwargs):
    rng = np.random.default_rng(seed)
    groups = play(rng, **kwargs)
    advantages = random_advantages(rng, groups)
    return groups, advantages, pack(groups, advantages)


def learner_of(model=None, **options):
    return Learner(model or tiny_llama(), None, **{"lr": 1e-3} | options)


def _weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()]).clone()


def test_scores_are_the_models_own_log_probabilities():
    _, _, batch = _made()
    model = tiny_llama()
    got, entropy = TokenScorer(model)(batch, temperature=0.5)
    logits = model(input_ids=torch.from_numpy(batch.tokens)).logits / 0.5
    wanted, spread = [], []
    for row, column in zip(*np.nonzero(batch.mask), strict=True):
        p = torch.log_softmax(logits[row, column - 1], -1)
        wanted.append(p[batch.tokens[row, column]])
        spread.append(-(p.exp() * p).sum())
    torch.testing.assert_close(got, torch.stack(wanted), rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(entropy, torch.stack(spread), rtol=1e-9, atol=1e-12)
    whole = learner_of(model).score(batch, temperature=0.5, micro_tokens=30).logprobs
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
    assert TokenScorer(capped)(batch)[0][0].item() == pytest.approx(wanted.item(), rel=1e-9)


AFTER = {
    "cap": lambda logits: 30.0 * torch.tanh(logits / 30.0),
    "wide cap": lambda logits: 1000.0 * torch.tanh(logits / 1000.0),
    "scale": lambda logits: logits * 1.001,
    "mask": lambda logits: logits.index_fill(-1, torch.tensor([0]), -math.inf),
    "shift": lambda logits: logits + 1e-3,
}


@pytest.mark.parametrize("after", AFTER.values(), ids=AFTER)
@pytest.mark.parametrize("size", [1e-6, 0.0, 1.0])
def test_what_a_model_does_to_its_logits_is_seen_however_small_they_are_at_the_start(after, size):
    """The logits are tiny when the scorer is made, and grow as the model is trained."""

    class Capped(type(tiny_llama())):
        def forward(self, *args, **kwargs):
            out = super().forward(*args, **kwargs)
            out.logits = after(out.logits)
            return out

    _, _, batch = _made()
    batch.tokens[batch.tokens == 0] = 1
    model = tiny_llama()
    grown = model.lm_head.weight.detach().clone() * 200
    model.__class__ = Capped
    with torch.no_grad():
        model.lm_head.weight.mul_(size)
    scorer = TokenScorer(model)
    with torch.no_grad():
        model.lm_head.weight.copy_(grown)
        found, _ = scorer(batch)
        hidden = model.model(input_ids=torch.from_numpy(batch.tokens)).last_hidden_state
    rows, columns = np.nonzero(batch.mask)
    logits = after(hidden[rows, columns - 1] @ grown.T).numpy()
    top = logits.max(1)
    wanted = logits[np.arange(len(rows)), batch.tokens[batch.mask]] - top - np.log(np.exp(logits.T - top).sum(0))
    np.testing.assert_allclose(found.numpy(), wanted, atol=1e-6)
    np.testing.assert_allclose(scorer.score(batch).logprobs[batch.mask], wanted, atol=1e-6)


@pytest.mark.parametrize("config", ["Gemma2", "Cohere", "Granite", "Llama", "Qwen2"])
def test_logits_are_those_of_a_forward_pass_in_every_architecture_with_a_cap_or_a_scale(config):
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": 23, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "head_dim": 8}
    sizes |= {"num_attention_heads": 2, "num_key_value_heads": 2, "pad_token_id": 0, "bos_token_id": 1}
    torch.manual_seed(0)
    kind = getattr(transformers, f"{config}ForCausalLM")
    model = kind(getattr(transformers, f"{config}Config")(**sizes)).double().eval()
    scorer = TokenScorer(model)
    with torch.no_grad():
        model.get_output_embeddings().weight.mul_(300.0)
    _, _, batch = _made()
    with torch.no_grad():
        logits = model(input_ids=torch.from_numpy(batch.tokens)).logits.log_softmax(-1)
    rows, columns = np.nonzero(batch.mask)
    wanted = logits[rows, columns - 1, batch.tokens[batch.mask]].numpy()
    np.testing.assert_allclose(scorer.score(batch).logprobs[batch.mask], wanted, atol=1e-5)


def test_a_head_that_only_projects_is_computed_for_the_tokens_alone():
    """Otherwise every learner would compute the logits of all prompts as well."""
    model, counted = tiny_llama(), []
    scorer = TokenScorer(model)
    model.lm_head.register_forward_hook(lambda _, arguments, output: counted.append(output.shape[:-1].numel()))
    _, _, batch = _made()
    scorer(batch)
    assert sum(counted) == batch.mask.sum()


@pytest.mark.parametrize("most", [1, 2, 6])
def test_the_number_of_optimizer_steps_is_fixed(most):
    _, _, batch = _made(groups=3, size=4, most=most)
    stats = learner_of().update(batch, Objective(), UpdatePlan(optimizer_steps=3))
    assert (stats["updates"], stats["skipped"], stats["without_signal"]) == (3, 0, 0)


def test_good_actions_become_likelier_and_bad_ones_less():
    groups, _, _ = _made(groups=1, size=2, most=1)
    sign = np.array([1.0, -1.0])
    batch = pack(groups, Advantages.of(steps_of(groups), sign))
    learner = learner_of()
    before = learner.score(batch).logprobs
    learner.update(replace(batch, old=before), Objective(), UpdatePlan())
    change = (learner.score(batch).logprobs - before).sum(1)
    assert change[0] > 0 > change[1]


def test_nothing_to_learn_costs_no_update():
    groups, advantages, _ = _made()
    batch = pack(groups, Advantages.of(steps_of(groups), np.zeros(len(advantages))))
    learner = learner_of(lr=1e-2, weight_decay=0.1)
    before = _weights(learner.model)
    stats = learner.update(batch, Objective(), UpdatePlan(optimizer_steps=2))
    assert (stats["updates"], stats["without_signal"]) == (0, 2)
    assert torch.equal(before, _weights(learner.model))
    assert not learner.optimizer.state


def test_what_is_not_finite_is_skipped_and_counted():
    _, _, batch = _made(groups=2, size=2)
    learner = learner_of()
    before = _weights(learner.model)
    bad = batch.old.copy()
    bad[batch.trajectory == 0] = np.nan
    stats = learner.update(replace(batch, old=bad), Objective(), UpdatePlan(optimizer_steps=4, micro_tokens=20))
    assert (stats["updates"], stats["skipped"]) == (3, 1)
    assert torch.isfinite(_weights(learner.model)).all()
    assert not torch.equal(before, _weights(learner.model))
    assert math.isfinite(stats["loss"])


def test_a_skipped_mini_batch_is_in_no_mean():
    _, _, batch = _made(groups=2, size=2)
    batch = replace(batch, reference=batch.old + 0.1)
    spoiled, sound = split_minibatches(batch, 2, seed=3)
    bad = batch.old.copy()
    bad[spoiled] = np.nan
    plan = UpdatePlan(optimizer_steps=2, seed=3, micro_tokens=20)
    stats = learner_of().update(replace(batch, old=bad), Objective(kl=0.1), plan)
    alone = learner_of().update(batch.rows(sound), Objective(kl=0.1), UpdatePlan(micro_tokens=20))
    assert (stats["updates"], stats["skipped"]) == (1, 1)
    means = ("loss", "grad_norm", "entropy", "ratio", "old_kl", "kl", "clip_fraction", "gap", "gap_max")
    assert {name: stats[name] for name in means} == pytest.approx({name: alone[name] for name in means})
    assert stats["computed_share"] == batch.mask[sound].sum() / batch.mask.sum()
    assert stats["tokens"] == batch.size  # what it costs is another matter


def test_coefficients_stay_where_no_mini_batch_is_finite():
    _, _, batch = _made(groups=2, size=2)
    bad = replace(batch, old=np.where(batch.mask, np.nan, 0.0), reference=batch.old + 0.1)
    stats = learner_of().update(bad, Objective(kl=0.1), UpdatePlan())
    section = ObjectiveSection(kl={"coefficient": 0.1, "target": 0.01}, entropy={"target": 0.2, "step": 0.01})
    schedule = CoefficientSchedule(section)
    assert stats["skipped"] == 1
    assert schedule.after(schedule.first(), stats, 100) == schedule.first()


def test_minibatches_are_even_and_never_divide_a_trajectory():
    groups, advantages, _ = _made(groups=5, size=3)
    values = advantages.values.copy()
    count = sum(len(one.turns) for one in groups[0].trajectories)
    values[:count] = 0.0
    batch = pack(groups, Advantages.of(steps_of(groups), values), merge=False)
    parts = split_minibatches(batch, 4, seed=1)
    assert sorted(np.concatenate(parts)) == list(range(len(batch)))
    homes = [set(batch.trajectory[part]) for part in parts]
    assert sum(len(home) for home in homes) == 15
    with_signal = [len({t for t in home if t >= 3}) for home in homes]
    assert max(with_signal) - min(with_signal) <= 1
    assert [part.tolist() for part in parts] == [part.tolist() for part in split_minibatches(batch, 4, seed=1)]
    assert [part.tolist() for part in parts] != [part.tolist() for part in split_minibatches(batch, 4, seed=2)]


def test_no_minibatch_divides_a_group_where_an_objective_needs_whole_ones():
    _, _, batch = _made(groups=5, size=3)
    group = batch.episodes.group[batch.trajectory]
    parts = split_minibatches(batch, 2, seed=1, groups=True)
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(batch)))
    assert [len(np.unique(group[part])) for part in parts] == [3, 2]
    assert not {*group[parts[0]]} & {*group[parts[1]]}
    assert any({*group[part]} & {*group[other]} for part, other in itertools.pairwise(split_minibatches(batch, 2, 1)))
    stats = learner_of().update(batch, Objective(name="reg_grpo"), UpdatePlan(optimizer_steps=6))
    assert (stats["updates"], stats["without_signal"]) == (5, 1)


def test_the_divergence_holds_the_policy_back():
    _, _, batch = _made(groups=1, size=3)
    scores = learner_of().score(batch).logprobs
    batch = replace(batch, old=scores, reference=scores)
    moved = {}
    for coefficient in (0.0, 50.0):
        learner = learner_of(lr=3e-3)
        for _ in range(8):
            stats = learner.update(batch, Objective(kl=coefficient), UpdatePlan(grad_clip=1e9))
        moved[coefficient] = stats["kl"]
    assert 0 <= moved[50.0] < moved[0.0] / 2


def test_the_gap_is_that_between_sampled_and_recomputed():
    _, _, batch = _made()
    learner = learner_of()
    shifted = replace(batch, old=np.where(batch.mask, learner.score(batch).logprobs + 0.125, 0.0))
    stats = learner.update(shifted, Objective(entropy=1e-12), UpdatePlan())
    assert stats["gap"] == pytest.approx(0.125)
    assert stats["gap_max"] == pytest.approx(0.125)


def test_the_gap_is_that_of_tokens_that_the_same_weights_sampled():
    """Older tokens differ because of their age, whatever the engine computes."""
    _, _, batch = _made()
    learner = learner_of()
    old = batch.mask & (np.arange(batch.mask.shape[1]) % 2 == 0)
    moved = learner.score(batch).logprobs + np.where(old, 3.0, 0.125)
    mixed = replace(
        batch, old=np.where(batch.mask, moved, 0.0), version=np.where(batch.mask, np.where(old, 4, 5), batch.version)
    )
    for version, gap in ((5, 0.125), (4, 3.0)):
        stats = learner.update(mixed, Objective(entropy=1e-12), UpdatePlan(version=version))
        assert (stats["gap"], stats["gap_max"]) == pytest.approx((gap, gap))
        learner = learner_of()
    assert "gap" not in learner.update(mixed, Objective(entropy=1e-12), UpdatePlan(version=6))


def test_the_gap_is_that_to_the_sampler_when_old_log_probabilities_are_recomputed():
    _, _, batch = _made()
    learner = learner_of()
    scores = learner.score(batch).logprobs
    sampled = np.where(batch.mask, scores + 0.25, 0.0)
    stats = learner.update(
        replace(batch, old=scores, rollout=sampled), Objective(entropy=1e-12), UpdatePlan(optimizer_steps=2)
    )
    assert stats["gap"] == pytest.approx(0.25)  # of the first step, whose weights are those that sampled
    assert stats["gap_max"] == pytest.approx(0.25)


@pytest.mark.parametrize(("name", "factor"), [("tis_token", 2.0), ("icepop", 0.0), ("mis_sequence", 0.0)])
def test_a_correction_is_one_key(name, factor):
    _, _, batch = _made()
    learner = learner_of()
    scores = learner.score(batch).logprobs
    far = replace(batch, old=scores, rollout=np.where(batch.mask, scores - 3.0, 0.0))  # a token ratio of 20
    plain = learner_of().update(far, Objective(name="reinforce"), UpdatePlan())
    found = learner_of().update(far, Objective(name="reinforce", correction=name), UpdatePlan())
    assert found["grad_norm"] == pytest.approx(factor * plain["grad_norm"], abs=1e-9)


def test_gradient_clipping_bounds_the_step():
    _, _, batch = _made()
    moves = []
    for clip in (1e9, 1e-3):
        learner = learner_of()
        learner.optimizer = torch.optim.SGD(learner.model.parameters(), lr=1.0)
        before = _weights(learner.model)
        learner.update(batch, Objective(), UpdatePlan(grad_clip=clip))
        moves.append((_weights(learner.model) - before).norm().item())
    assert moves[1] == pytest.approx(1e-3, rel=1e-3)
    assert moves[0] > moves[1]


def test_learning_rates_by_hand():
    options = {"total": 12, "peak": 2.0, "warmup": 2}
    assert [learning_rate(k, **options) for k in (0, 1, 2, 11)] == [1.0, 2.0, 2.0, 2.0]
    cosine = [learning_rate(k, schedule="cosine", **options) for k in (1, 2, 7, 12)]
    assert cosine == pytest.approx([2.0, 2.0, 1.0, 0.0])


def test_rates_are_used_and_counted():
    _, _, batch = _made()
    assert learner_of().update(batch, Objective(), UpdatePlan(optimizer_steps=2, rates=[1e-3, 5e-4]))["lr"] == 5e-4
    with pytest.raises(ValueError, match="expected 2 learning rates, one per optimizer step, got 1"):
        UpdatePlan(optimizer_steps=2, rates=[1e-3])


def test_a_restored_learner_continues_with_the_same_weights():
    _, _, batch = _made()
    one = learner_of(lr=1e-3)
    one.update(batch, Objective(), UpdatePlan())
    other = learner_of(tiny_llama(seed=1), lr=1e-3)
    other.model.load_state_dict(one.weights().state_dict())
    other.load_state(copy.deepcopy(one.state()))
    for learner in (one, other):
        learner.update(batch, Objective(), UpdatePlan())
    assert torch.equal(_weights(one.model), _weights(other.model))


def test_the_reference_stays_as_it_was():
    _, _, batch = _made()
    learner = learner_of(lr=1e-2)
    with pytest.raises(ValueError, match="no reference policy"):
        learner.score_reference(batch)
    learner.set_reference(tiny_llama())
    learner.update(batch, Objective(), UpdatePlan())
    assert np.array_equal(learner.score_reference(batch).logprobs, learner_of().score(batch).logprobs)
    assert not np.array_equal(learner.score(batch).logprobs, learner.score_reference(batch).logprobs)


def test_nothing_is_added_to_a_model_that_somebody_else_owns():
    model = tiny_llama()
    before = set(vars(model))
    learner = learner_of(model)
    _, _, batch = _made()
    learner.update(batch, Objective(), UpdatePlan())
    assert set(vars(model)) == before


def test_weight_decay_spares_vectors():
    groups = make_optimizer(tiny_llama(), lr=1e-3, weight_decay=0.1).param_groups
    assert {(group["weight_decay"], p.ndim) for group in groups for p in group["params"]} == {(0.1, 2), (0.0, 1)}


@pytest.mark.parametrize("processes", [2, 3, 20])
@pytest.mark.parametrize(
    "options", [{}, {"name": "gspo"}, {"name": "kl_cov"}, {"name": "reg_grpo"}, {"name": "ter"}, {"entropy": 0.1}]
)
def test_processes_share_a_step_without_changing_it(processes, options):
    _, _, batch = _made(groups=3, size=4)
    learners = [learner_of(tiny_llama()) for _ in range(2)]
    plan = UpdatePlan(optimizer_steps=2, micro_tokens=60)
    wanted = learners[0].update(batch, Objective(**options), plan)
    found = learners[1].update(batch, Objective(**options), replace(plan, processes=processes))
    torch.testing.assert_close(_weights(learners[1].model), _weights(learners[0].model), rtol=0, atol=1e-9)
    for key in ("loss", "grad_norm", "entropy", "gap", "gap_max", "tokens", "updates", "clip_fraction"):
        assert found[key] == pytest.approx(wanted[key], rel=1e-9), key


def test_processes_repeat_bit_for_bit():
    _, _, batch = _made(groups=3, size=4)
    learners = [learner_of(tiny_llama()) for _ in range(2)]
    for learner in learners:
        learner.update(batch, Objective(), UpdatePlan(optimizer_steps=2, micro_tokens=60, processes=3))
    assert torch.equal(_weights(learners[0].model), _weights(learners[1].model))


def test_a_process_without_memory_halves_the_micro_batches():
    _, _, batch = _made(groups=3, size=4)
    model, parent = tiny_llama(), os.getpid()

    def forward(module, args, kwargs):
        if os.getpid() != parent and kwargs["input_ids"].numel() > 60:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    model.model.register_forward_pre_hook(forward, with_kwargs=True)
    scarce, plenty = learner_of(model), learner_of()
    plan = UpdatePlan(micro_tokens=400, processes=2)
    found, wanted = (one.update(batch, Objective(), plan) for one in (scarce, plenty))
    assert scarce.limit.tokens is not None
    assert found["tokens"] == wanted["tokens"]
    torch.testing.assert_close(_weights(model), _weights(plenty.model), rtol=0, atol=1e-9)


def test_a_process_that_is_killed_ends_the_update_with_a_sentence():
    _, _, batch = _made(groups=3, size=4)
    model, parent = tiny_llama(), os.getpid()

    def forward(*_):
        if os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)

    model.model.register_forward_pre_hook(forward)
    with pytest.raises(TrainingError, match="one of the 2 processes of an update ended: killed by SIGKILL"):
        learner_of(model).update(batch, Objective(), UpdatePlan(processes=2))


def test_the_sampled_entropy_is_that_of_all_tokens_whatever_the_update_computes():
    """A model's own samples: the mean of -log p estimates the entropy, and the update's mean is over fewer tokens."""
    model, rng = tiny_llama(), np.random.default_rng(0)
    with torch.no_grad():
        groups = [Group("t", tuple(trajectory(sampled_by(model, rng), name=f"t#{k}@0") for k in range(60)))]
    batch = pack(groups)
    signal = np.arange(len(batch.turns)) % 3 == 0
    learner = learner_of(model)
    half = pack(groups, Advantages.of(steps_of(groups), signal.astype(float)))
    stats = learner_of(copy.deepcopy(model)).update(half, Objective(), UpdatePlan(optimizer_steps=2))
    exact = learner.score(batch).entropy[batch.mask]
    noise = batch.old[batch.mask].std() / np.sqrt(len(exact))
    assert sampled_entropy(groups) == pytest.approx(exact.mean(), abs=4 * noise)
    rows = half.rows_with_signal()
    assert stats["computed_share"] == pytest.approx(half.mask[rows].sum() / half.mask.sum())
    assert 0.3 < stats["computed_share"] < 0.4
    whole = learner.update(batch, Objective(), UpdatePlan())
    assert whole["computed_share"] == 1.0
    assert whole["entropy"] == pytest.approx(exact.mean(), rel=1e-6)


def sampled_by(model, rng):
    """One turn of ten tokens that a model samples after a random prompt."""
    ids = [int(token) for token in rng.integers(0, 23, 3)]
    logprobs = []
    for _ in range(10):
        p = model(input_ids=torch.tensor([ids])).logits[0, -1].softmax(-1).numpy()
        ids.append(int(rng.choice(23, p=p / p.sum())))
        logprobs.append(float(np.log(p[ids[-1]])))
    return [turn(ids[:3], ids[3:], logprobs=tuple(logprobs))]


def test_rows_are_scored_at_the_temperatures_that_they_were_sampled_at():
    """A batch of three temperatures, against each of its rows alone; the gradient is the sum of theirs."""
    model, rng = tiny_llama(), np.random.default_rng(2)
    own = [None, 0.5, None, 1.7]
    groups = [
        Group(
            "t",
            tuple(replace(trajectory(conversation(rng, 2), name=f"t#{k}@0"), temperature=t) for k, t in enumerate(own)),
        )
    ]
    batch, scorer = pack(groups, temperature=SamplingTemperature(1.2)), TokenScorer(model)
    chosen, spread = scorer(batch, temperature=1.2)
    chosen.sum().backward()
    gradient = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    parts = []
    for member in groups[0].trajectories:
        alone = pack([Group("t", (replace(member, temperature=None),))])
        parts.append(scorer(alone, temperature=member.temperature or 1.2))
        parts[-1][0].sum().backward()
    assert torch.allclose(chosen, torch.cat([part[0] for part in parts]), atol=1e-9)
    assert torch.allclose(spread, torch.cat([part[1] for part in parts]), atol=1e-9)
    assert all(
        torch.allclose(before, parameter.grad, atol=1e-9)
        for before, parameter in zip(gradient, model.parameters(), strict=True)
    )
    assert pack([Group("t", groups[0].trajectories[:1])]).heat is None

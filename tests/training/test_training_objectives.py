"""Objectives against published code (values and gradients), finite differences, identities, and bad options."""

import inspect

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from turncredit.training.config.coefficient_schedules import CoefficientSchedule, adaptive_entropy, adaptive_kl
from turncredit.training.config.sections import ObjectiveSection
from turncredit.training.errors import ConfigError
from turncredit.training.objectives import (
    AGGREGATIONS,
    CORRECTIONS,
    Objective,
    asymre,
    cispo,
    clip_cov,
    dcpo,
    decoupled,
    dhpo,
    etr,
    get,
    gmpo,
    gspo,
    gspo_token,
    hapo,
    imitation_weight,
    kl,
    kl_cov,
    llds,
    objectives,
    opmd,
    ppo_clip,
    reinforce,
    self_imitation,
    sspo,
    token_weights,
)
from turncredit.training.objectives.kl import KL_ESTIMATORS, corrected_kl
from turncredit.training.objectives.sources import POLICY, TEACHER

torch.set_num_threads(1)


def _double(values):
    return torch.tensor(values, dtype=torch.float64)


def _random(seed=0, rows=3, width=6, drift=0.1):
    generator = torch.Generator().manual_seed(seed)
    draw = lambda scale: scale * torch.randn(rows, width, generator=generator, dtype=torch.float64)  # noqa: E731
    old = -1.5 + draw(0.5).clamp(-1.2, 1.2)
    mask = torch.rand(rows, width, generator=generator) < 0.8
    mask[:, 0] = True
    mask[:, 2] = False  # turns
    more = {"ref": old + draw(0.1), "rollout": old + draw(0.02), "entropy": draw(1.0).abs() + 0.1}
    more |= {name: -3.0 + draw(0.1) for name in ("mean_logprob", "old_mean_logprob")}
    new, advantages = old + draw(drift), draw(1.0)
    more |= {"outcome": torch.arange(rows).double() % 2, "group": torch.zeros(rows).long()}
    more["source"] = torch.tensor([POLICY] * (rows - 1) + [TEACHER])
    return new, old, advantages, mask, more


# What a method's gradient is by definition not the derivative of its value: weights that are held still.
HELD = {
    "gspo_token",
    "sspo",
    "dhpo",
    "cispo",
    "dppo_tv",
    "vespo",
    "a_lol",
    "a_lol_seq",
}
OTHERS = {"disco", "drpo", "p3o", "rl_plus", "aepo", "otr"}
"""The same; tests of their own are in test_group_losses.py."""


@pytest.mark.parametrize("name", [name for name in objectives() if name not in HELD | OTHERS])
@pytest.mark.parametrize("extra", [{}, {"correction": "tis_sequence", "kl": 0.1, "kl_corrected": True, "llds": 0.3}])
def test_the_gradient_is_that_of_finite_differences(name, extra):
    n, old, advantages, mask, more = _random(1)
    extra = {**extra, "correction": "seq_mask"} if name == "decoupled" and extra else extra
    extra = {**extra, "correction": ""} if get(name).function.whole else extra

    def loss(logprobs):
        return get(name)(logprobs, old, advantages, mask, **more, **extra)[0]

    assert torch.autograd.gradcheck(loss, n.requires_grad_(), eps=1e-7, atol=1e-6)
    assert torch.autograd.grad(loss(n), n)[0].abs().max() > 1e-4


@pytest.mark.parametrize("name", sorted(HELD))
def test_a_held_weight_gives_the_gradient_of_its_value_times_the_plain_one(name):
    """With the weights held still a loss is linear in n (or in exp n): compared to differences taken with them held."""
    n, old, advantages, mask, more = _random(2, drift=0.01)
    advantages = advantages.abs() if name.startswith("a_lol") else advantages
    n.requires_grad_()
    loss, stats = get(name)(n, old, advantages, mask, **more, aggregation="token-sum")
    (slope,) = torch.autograd.grad(loss, n)
    slope = slope[mask] / -advantages[mask]  # the weight, times the derivative of the ratio where there is one
    d = (n - old).detach()
    count = mask.sum(1, keepdim=True)
    mean = ((d * mask).sum(1, keepdim=True) / count).exp().expand_as(d)
    whole = (d * mask).sum(1, keepdim=True)
    good = advantages >= 0
    k, decay = torch.where(good, 2.0, 3.0).double(), torch.where(good, 3.0, 2.0).double()
    expected = {
        "cispo": d.exp().clamp(0, 1.28),
        "dppo_tv": d.exp(),
        "vespo": (decay + k * whole - decay * whole.exp()).exp(),
        "a_lol": ((n - more["ref"]) * mask).sum(1, keepdim=True).exp().clamp(0.1, 1.9).expand_as(d),
        "a_lol_seq": (n - more["ref"]).exp().clamp(0.1, 1.9),
        "gspo_token": mean,
        "dhpo": (d.exp() + mean) / 2,
        "sspo": d.exp(),
    }[name].detach()[mask]
    if name == "sspo":  # the sum over a span is the sum of its ratios' geometric mean; here every token is its own
        spans = torch.arange(d.numel()).reshape(d.shape)
        loss, _ = get(name)(n, old, advantages, mask, spans=spans, aggregation="token-sum")
        slope = torch.autograd.grad(loss, n)[0][mask] / -advantages[mask]
    uncut = slope != 0
    assert (~uncut).sum() == stats["clipped"] or name in {"gspo_token", "dhpo"}
    assert uncut.any()
    if name not in {"gspo_token", "dhpo"}:
        torch.testing.assert_close(slope[uncut], expected[uncut], rtol=1e-9, atol=1e-12)
    elif name == "gspo_token":
        wide, _ = gspo_token(n, old, advantages, mask, clip_low=0.9, clip_high=9.0, aggregation="token-sum")
        slope = torch.autograd.grad(wide, n)[0][mask] / -advantages[mask]
        torch.testing.assert_close(slope, expected, rtol=1e-9, atol=1e-12)
    else:
        bounds = {f"{part}_{side}": 0.9 for part in ("clip", "sequence") for side in ("low", "high")}
        wide, _ = dhpo(n, old, advantages, mask, aggregation="token-sum", **bounds)
        slope = torch.autograd.grad(wide, n)[0][mask] / -advantages[mask]
        torch.testing.assert_close(slope, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", objectives())
def test_what_the_mask_leaves_out_does_not_matter(name):
    n, old, advantages, mask, more = _random(3)
    rubbish = torch.full_like(n, float("nan"))
    hidden = [
        torch.where(mask, column, rubbish).requires_grad_(k == 0) for k, column in enumerate((n, old, advantages))
    ]
    loss, stats = get(name)(n, old, advantages, mask, **more)
    others = {key: torch.where(mask, column, rubbish) if column.ndim == 2 else column for key, column in more.items()}
    same, _ = get(name)(*hidden, mask, **others)
    assert loss.item() == same.item()
    assert stats["tokens"] == mask.sum()
    same.backward()
    assert torch.isfinite(hidden[0].grad).all()
    assert (hidden[0].grad[~mask] == 0).all()


@pytest.mark.parametrize("name", objectives())
def test_a_batch_without_tokens_has_no_loss(name):
    n, old, advantages, mask, more = _random(4)
    loss, stats = get(name)(n.requires_grad_(), old, advantages, torch.zeros_like(mask), **more)
    loss.backward()
    assert (loss.item(), int(stats["tokens"]), n.grad.abs().max().item()) == (0.0, 0, 0.0)


@pytest.mark.parametrize("name", objectives())
def test_the_order_of_rows_does_not_matter(name):
    n, old, advantages, mask, more = _random(5, rows=4)
    order = torch.tensor([2, 0, 3, 1])
    loss, _ = get(name)(n, old, advantages, mask, **more)
    turned, _ = get(name)(*(t[order] for t in (n, old, advantages, mask)), **{k: t[order] for k, t in more.items()})
    assert turned.item() == pytest.approx(loss.item(), rel=1e-12, abs=1e-14)


def _slope(rule, n, *others, **options):
    n = n.detach().clone().requires_grad_()
    return torch.autograd.grad(rule(n, *others, **options)[0], n)[0]


AT_ONE = ["ppo_clip", "gspo", "gspo_token", "sspo", "dhpo", "cispo", "sapo", "dcpo", "etr", "reinforce", "dppo_tv"]


@pytest.mark.parametrize("name", AT_ONE)
def test_at_the_old_policy_the_gradient_is_that_of_reinforce(name):
    _, old, advantages, mask, more = _random(6)
    advantages = advantages[:, :1].expand_as(advantages)  # of sequences, which is all that gspo knows
    mode = {"aggregation": "seq-mean-token-mean"}
    got = _slope(get(name), old, old, advantages, mask, **more, **mode)
    torch.testing.assert_close(got, _slope(reinforce, old, old, advantages, mask, **mode), rtol=1e-12, atol=1e-14)


def test_gspo_and_its_token_form_agree_where_advantages_are_of_sequences():
    n, old, advantages, mask, _ = _random(7)
    advantages = advantages[:, :1].expand_as(advantages)
    for bounds in ({}, {"clip_low": 0.5, "clip_high": 0.5}):
        one, other = (rule(n, old, advantages, mask, **bounds)[0].item() for rule in (gspo, gspo_token))
        assert one == pytest.approx(other, rel=1e-12)
        torch.testing.assert_close(
            _slope(gspo, n, old, advantages, mask, **bounds), _slope(gspo_token, n, old, advantages, mask, **bounds)
        )


def test_identities():
    n, old, advantages, mask, more = _random(8)
    args = (n, old, advantages, mask)
    alone = torch.zeros_like(mask)
    alone[:, 1] = True
    wide = {"clip_low": 0.9, "clip_high": 9.0}
    same = [
        (gspo(*args[:3], alone, **wide), ppo_clip(*args[:3], alone, **wide, aggregation="seq-mean-token-mean")),
        (opmd(*args, tau=1.0), (reinforce(*args)[0] / 2, {})),
        (asymre(*args, delta=0.0), reinforce(*args)),
        (self_imitation(*args, least=-100.0, weight=1.0), ppo_clip(*args)),
        (decoupled(*args, rollout=old), ppo_clip(*args, clip_high=0.2)),
        (etr(*args, alpha=0.0), ppo_clip(*args)),
        (hapo(*args, entropy=torch.ones_like(n)), ppo_clip(*args, clip_high=0.2, dual_clip=10.0)),
        (dhpo(*args, mix=1.0), ppo_clip(*args, clip_high=0.2)),
        (kl_cov(*args, beta=0.0), ppo_clip(*args, clip_low=1.0, clip_high=1e9)),
        (clip_cov(*args, low=1e6, high=1e7), ppo_clip(*args, clip_high=0.2)),
        (ppo_clip(*args, correction="icepop", rollout=old), ppo_clip(*args)),
        (ppo_clip(*args, llds=0.3), (ppo_clip(*args)[0] + llds(*args, weight=0.3)[0], {})),
        (
            ppo_clip(*args, kl=0.3, kl_corrected=True, ref=more["ref"]),
            (ppo_clip(*args)[0] + 0.3 * get("kl_penalty")(*args, corrected=True, ref=more["ref"])[0], {}),
        ),
    ]
    for (one, _), (other, _) in same:
        assert one.item() == pytest.approx(other.item(), rel=1e-12)


def test_asymre_by_hand():
    """l = -(A - delta) n: a baseline that is lower by 0.5 adds 0.5 to every advantage."""
    n, mask = _double([[-1.0, -2.0]]), torch.ones(1, 2)
    loss, _ = asymre(n, n, _double([[1.0, -1.0]]), mask, delta=-0.5, aggregation="seq-mean-token-sum")
    assert loss.item() == pytest.approx(1.5 * 1.0 - 0.5 * 2.0)
    loss, _ = asymre(n, n, _double([[1.0, -1.0]]), mask, delta=0.5, aggregation="seq-mean-token-sum")
    assert loss.item() == pytest.approx(0.5 * 1.0 - 1.5 * 2.0)


def test_gmpo_by_hand():
    """Ratios e^1 (kept at e^0.4 for A > 0) and e^-1 (kept as it is): the mean of the logarithms is -0.3."""
    n = _double([[0.0, -2.0]])
    loss, stats = gmpo(n, _double([[-1.0, -1.0]]), _double([[2.0, 2.0]]), torch.ones(1, 2))
    assert loss.item() == pytest.approx(-2.0 * np.exp(-0.3))
    assert stats["clipped"] == 1


def test_dcpo_bounds_by_hand():
    """At q = 0.16 the lower bound is 1/2 (1 - 4 is below 0), the upper 1/2 + sqrt(6) / 2 = 1.7247."""
    old = torch.log(_double([[0.16]]))
    for ratio, advantage, value in ((3.0, 1.0, -1.7247449), (0.3, -1.0, 0.5), (11.0, -1.0, 10.0)):
        loss, _ = dcpo(old + np.log(ratio), old, _double([[advantage]]), torch.ones(1, 1))
        assert loss.item() == pytest.approx(value, rel=1e-6)


def test_hapo_widens_upper_bounds_of_unsure_tokens_and_lower_bounds_of_sure_ones():
    """x = log H is -1, 0, 1 with the pivot at the middle one: h~ = -1, 0, 1, so bounds of 0.4 below and above."""
    entropy = torch.exp(_double([[-1.0, 0.0, 1.0]]))
    old, one = torch.zeros(1, 3, dtype=torch.float64), torch.ones(1, 3, dtype=torch.float64)
    options = {"entropy": entropy, "pivot": 0.5, "aggregation": "token-sum"}
    up = _slope(hapo, old + np.log(1.3), old, one, one, **options)
    down = _slope(hapo, old + np.log(0.7), old, -one, one, **options)
    np.testing.assert_allclose(up[0], [0.0, 0.0, -1.3])
    np.testing.assert_allclose(down[0], [0.7, 0.0, 0.0])
    released = _slope(hapo, old + np.log(0.7), old, -one, one, **options, released=True)
    assert (released == 0).all()  # the slip: no lower bound ever grows


def test_llds_gates_by_hand():
    """Two turns, one that fell by 0.3 in all and one that rose: under "action" only the first is penalised."""
    n, old = _double([[-1.5, -0.8, 0.0, -1.0, -1.2]]), _double([[-1.0, -1.0, 0.0, -2.0, -1.0]])
    mask = _double([[1, 1, 0, 1, 1]])
    one = torch.ones_like(n)
    assert llds(n, old, one, mask, weight=1.0)[0].item() == pytest.approx(0.5 / 4)
    assert llds(n, old, one, mask, weight=1.0, gate="response")[0].item() == 0.0  # 0.3 down, 0.8 up
    assert llds(n, old, -one, mask, weight=1.0)[0].item() == 0.0
    assert llds(old, old, one, mask)[0].item() == 0.0
    mixed = _double([[1, -1, 0, 1, 1]])  # the gate of a stretch closes where the sign changes
    fell = _double([[-1.5, -0.8, 0.0, -2.1, -0.1]])
    assert llds(fell, old, mixed, mask, weight=1.0)[0].item() == pytest.approx(0.5 / 4)
    signs = _double([[1, -1, 1]])
    stretched = llds(_double([[-1.1, -1.0, -0.1]]), _double([[-1.0] * 3]), signs, torch.ones(1, 3), weight=1.0)[0]
    assert stretched.item() == pytest.approx(0.1 / 3)  # with the third token, which rose, in one gate it would be 0


def test_clip_cov_draws_as_many_as_it_says_and_the_same_for_the_same_seed():
    n, old, advantages, mask, _ = _random(9, rows=8, width=40, drift=0.01)

    def dropped(seed, share):
        options = {"low": -100.0, "high": 100.0, "share": share, "clip_low": 0.9, "clip_high": 9.0}
        slope = _slope(clip_cov, n, old, advantages, mask, seed=seed, **options)
        return {tuple(place) for place in torch.nonzero((slope == 0) & mask).tolist()}

    assert len(dropped(0, 0.1)) == int(0.1 * mask.sum())
    assert len(dropped(0, 1e-9)) == 1
    assert dropped(0, 0.1) == dropped(0, 0.1) != dropped(1, 0.1)


def test_kl_cov_restrains_the_tokens_of_highest_covariance():
    n, old, advantages, mask, _ = _random(10)
    plain = _slope(kl_cov, n, old, advantages, mask, beta=0.0)
    changed = (_slope(kl_cov, n, old, advantages, mask, share=0.2) != plain)[mask]
    covariance = ((advantages[mask] - advantages[mask].mean()) * (n[mask] - n[mask].mean())).numpy()
    wanted = set(np.argsort(-covariance)[: int(0.2 * len(covariance))])
    assert set(np.flatnonzero(changed.numpy())) == wanted


def test_at_the_old_policy_the_gradient_is_minus_the_advantage():
    n = _double([[-1.0, -2.0]]).requires_grad_()
    loss, stats = ppo_clip(n, n.detach(), _double([[2.0, -3.0]]), torch.ones(1, 2))
    loss.backward()
    assert loss.item() == pytest.approx(0.5)
    assert n.grad.tolist() == [[-1.0, 1.5]]
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
    n = torch.log(_double([[ratio]])).requires_grad_()
    old, one = torch.zeros(1, 1, dtype=torch.float64), torch.ones(1, 1, dtype=torch.float64)
    loss, stats = ppo_clip(n, old, advantage * one, one, clip_low=0.2, clip_high=0.28, dual_clip=3.0)
    loss.backward()
    assert loss.item() == pytest.approx(expected)
    assert bool(stats["clipped"]) == (n.grad.item() == 0.0)


def test_delta_caps_the_ratio_for_both_signs():
    old, one = torch.zeros(1, 1, dtype=torch.float64), torch.ones(1, 1, dtype=torch.float64)
    high = old + np.log(9.0)
    assert ppo_clip(high, old, -one, one, delta=4.0)[0].item() == pytest.approx(4.0)
    assert ppo_clip(high, old, one, one, delta=4.0)[0].item() == pytest.approx(-1.28)


def test_weights_by_hand():
    trajectory, turn = np.array([0, 0, 0, 1]), np.array([0, 0, 1, 2])
    table = {
        "token-mean": [1 / 4] * 4,
        "seq-mean-token-mean": [1 / 6] * 3 + [1 / 2],
        "seq-mean-token-mean-counted": [1 / 15] * 3 + [1 / 5],
        "turn-mean": [1 / 6, 1 / 6, 1 / 3, 1 / 3],
        "seq-mean-token-sum": [1 / 2] * 4,
        "seq-mean-token-sum-counted": [1 / 5] * 4,
        "seq-mean-token-sum-norm": [1 / 16] * 4,
        "seq-mean-token-sum-norm-counted": [1 / 40] * 4,
        "seq-sum-token-mean": [1 / 3] * 3 + [1],
        "token-sum": [1] * 4,
        "token-sum-norm": [1 / 8] * 4,
    }
    assert table.keys() == AGGREGATIONS.keys()
    for mode, expected in table.items():
        np.testing.assert_allclose(token_weights(mode, trajectory, turn, norm=8.0, sequences=5), expected)


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


def test_k3_is_kept_below_ten_unless_it_is_asked_to_be_unbounded():
    n, f = _double([-4.0]).requires_grad_(), _double([0.0])
    bounded, whole = kl(n, f, "k3"), kl(n, f, "k3-unbounded")
    assert bounded.item() == 10.0
    assert torch.autograd.grad(bounded, n)[0].item() == 0.0
    assert whole.item() == pytest.approx(np.exp(4.0) - 5.0)
    torch.testing.assert_close(kl(n / 4, f, "k3"), kl(n / 4, f, "k3-unbounded"))


def test_k3plus_has_the_gradient_of_the_divergence_on_policy():
    logits = torch.tensor([0.3, -1.0, 0.5], dtype=torch.float64, requires_grad=True)
    q = torch.log_softmax(torch.tensor([0.0, 0.4, -0.2], dtype=torch.float64), 0)
    logp = torch.log_softmax(logits, 0)
    (exact,) = torch.autograd.grad((logp.exp() * (logp - q)).sum(), logits)
    logp = torch.log_softmax(logits, 0)
    (estimated,) = torch.autograd.grad((logp.exp().detach() * kl(logp, q, "k3+")).sum(), logits)
    torch.testing.assert_close(estimated, exact)


@pytest.mark.parametrize("policy", [[0.3, -1.0, 0.5, 0.1], [0.1, 0.2, -0.4, 0.0]], ids=["off policy", "on policy"])
@pytest.mark.parametrize("estimator", KL_ESTIMATORS)
def test_the_corrected_divergence_has_the_gradient_of_the_divergence(estimator, policy):
    """The expectation over all actions of the old policy, by enumeration, against the divergence itself."""
    logits = torch.tensor(policy, dtype=torch.float64, requires_grad=True)
    old, q = (torch.log_softmax(_double(x), 0) for x in ([0.1, 0.2, -0.4, 0.0], [0.0, 0.4, -0.2, 0.3]))
    logp = torch.log_softmax(logits, 0)
    (exact,) = torch.autograd.grad((logp.exp() * (logp - q)).sum(), logits)
    logp = torch.log_softmax(logits, 0)
    weighed = old.exp() * corrected_kl(logp, q, logp - old, estimator)
    torch.testing.assert_close(torch.autograd.grad(weighed.sum(), logits)[0], exact)
    logp = torch.log_softmax(logits, 0)
    ones = torch.ones(4, 1, dtype=torch.float64)
    columns = {"kl": 1.0, "kl_estimator": estimator, "kl_corrected": True, "aggregation": "token-sum"}
    # four sequences of one token, each as often as the old policy samples it
    gradient = sum(
        weight * torch.autograd.grad(
            ppo_clip(logp[[n]][None], old[[n]][None], 0 * ones[:1], ones[:1], ref=q[[n]][None], **columns)[0],
            logits, retain_graph=True,
        )[0]
        for n, weight in enumerate(old.exp())
    )  # fmt: skip
    torch.testing.assert_close(gradient, exact)


@pytest.mark.parametrize("name", CORRECTIONS)
def test_corrections_do_nothing_where_both_engines_agree(name):
    n, old, advantages, mask, _ = _random(11, drift=0.01)
    plain, _ = ppo_clip(n, old, advantages, mask)
    same, stats = ppo_clip(n, old, advantages, mask, rollout=old, correction=name)
    assert same.item() == plain.item()
    assert stats["correction"] == stats["tokens"]


def test_a_mask_of_sequences_goes_with_any_objective():
    n, old, advantages, mask, more = _random(11)
    for name in ("seq_mask", "off_policy"):
        loss, stats = decoupled(n, old, advantages, mask, rollout=more["rollout"], correction=name)
        assert torch.isfinite(loss)
        assert 0 <= stats["correction"] <= stats["tokens"]
    with pytest.raises(ConfigError, match="apply it twice"):
        decoupled(n, old, advantages, mask, rollout=more["rollout"], correction="icepop")


def test_corrections_by_hand():
    """Ratios o - b of log 4 and log 1/2: product 2, geometric mean sqrt 2."""
    old, rollout = _double([[0.0, 0.0]]), -torch.log(_double([[4.0, 0.5]]))
    one = torch.ones(1, 2, dtype=torch.float64)

    def factors(name, **bounds):
        loss = ppo_clip(old, old, one, one, rollout=rollout, correction=name, aggregation="token-sum", **bounds)[0]
        return pytest.approx(-loss.item())

    assert factors("tis_token") == 2.0 + 0.5
    assert factors("tis_token", correction_low=0.75) == 2.0 + 0.75
    assert factors("icepop", correction_high=3.0) == 0.5
    assert factors("tis_sequence", correction_high=1.5) == 2 * 1.5
    assert factors("mis_sequence") == 2 * 2.0
    assert factors("mis_sequence", correction_high=1.9) == 0.0
    assert factors("seq_mask_tis", correction_high=1.5) == 4.5
    assert factors("seq_mask_tis") == 0.0
    assert factors("seq_mask", correction_high=1.5) == 2.0


def test_the_entropy_bonus_is_given_up_to_its_target():
    n, old, advantages, mask, more = _random(12)
    entropy = more["entropy"].requires_grad_()
    mean = entropy[mask].mean().item()
    for target, given_ in ((0.0, True), (mean + 0.01, True), (mean - 0.01, False)):
        loss, _ = ppo_clip(n, old, advantages, mask, entropy=entropy, entropy_bonus=0.3, entropy_target=target)
        plain, _ = ppo_clip(n, old, advantages, mask)
        assert loss.item() == pytest.approx(plain.item() - (0.3 * mean if given_ else 0.0))
        slope = torch.autograd.grad(loss, entropy)[0][mask] if given_ else None
        assert slope is None or slope.tolist() == pytest.approx([-0.3 / mask.sum().item()] * int(mask.sum()))


def test_coefficients_follow_their_targets():
    assert adaptive_kl(0.1, 5.0, target=0.1, horizon=100, episodes=50) == pytest.approx(0.1 * 1.1)
    assert adaptive_kl(0.1, 0.0, target=0.1, horizon=100, episodes=50) == pytest.approx(0.1 * 0.9)
    assert adaptive_kl(0.1, 0.1, target=0.1, horizon=100, episodes=50) == 0.1
    assert adaptive_entropy(0.001, 0.3, target=0.2, step=0.005) == 0.0
    assert adaptive_entropy(0.999, 0.1, target=0.2, step=0.005) == 1.0
    control = CoefficientSchedule(
        ObjectiveSection(kl={"coefficient": 0.1, "target": 0.1, "horizon": 100}, entropy={"target": 0.2, "step": 0.01})
    )
    now = control.first()
    assert now == {"kl": 0.1, "entropy": 0.0}
    assert control.after(now, {}, 50) == now
    assert control.after(now, {"kl": 0.11, "entropy": 0.1}, 50) == pytest.approx({"kl": 0.105, "entropy": 0.01})
    assert CoefficientSchedule(ObjectiveSection(kl=0.1, entropy=0.2)).after(
        {"kl": 0.1, "entropy": 0.2}, {"kl": 9.0, "entropy": 9.0}, 50
    ) == {
        "kl": 0.1,
        "entropy": 0.2,
    }


def test_the_weight_of_self_imitation_rises_along_a_cosine():
    assert [imitation_weight(k, warmup=4, peak=2.0) for k in (0, 2, 4, 9)] == pytest.approx([0.0, 1.0, 2.0, 2.0])


def test_self_imitation_leaves_failures_out():
    n, old, advantages, mask, _ = _random(13)
    slope = _slope(self_imitation, n, old, advantages, mask)
    assert (slope[(advantages <= 0) & mask] == 0).all()
    assert (slope[(advantages > 0) & mask] != 0).any()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: token_weights("token_mean", np.zeros(1, int), np.zeros(1, int)), "token_mean.*mean 'token-mean'"),
        (lambda: token_weights("token-mean", np.zeros(1, int), np.zeros(1, int), norm=0), "> 0, got 0"),
        (lambda: kl(torch.zeros(1), torch.zeros(1), "k4"), "k4.*choose one of: k1"),
        (lambda: get("gpso"), "unknown objective 'gpso'; did you mean 'gspo'"),
        (lambda: Objective(name="gpso"), "gpso"),
        (lambda: Objective(options={"clip_hi": 0.2}), "ppo_clip has no option 'clip_hi'; did you mean 'clip_high'"),
        (lambda: Objective(options={"clip_high": "0.2"}), "'clip_high' must be a finite number, got '0.2'"),
        (lambda: Objective(options={"clip_high": -0.2}), "'clip_high' must be >= 0"),
        (lambda: Objective(options={"clip_low": float("nan")}), "finite"),
        (lambda: Objective(options={"dual_clip": 0.5}), "above 1"),
        (lambda: Objective(options={"delta": 1.1}), "delta .* above 1 \\+ clip_high"),
        (lambda: Objective(name="hapo", options={"released": 1}), "'released' must be a bool, got 1"),
        (lambda: Objective(name="hapo", options={"pivot": 2.0}), "pivot"),
        (lambda: Objective(name="llds", options={"gate": "actoin"}), "did you mean 'action'"),
        (lambda: Objective(name="sapo", options={"tau_pos": 0.0}), "tau_pos"),
        (lambda: Objective(name="dhpo", options={"mix": 1.5}), "mix"),
        (lambda: Objective(name="clip_cov", options={"low": 6.0}), "low"),
        (lambda: Objective(name="decoupled", options={"over": "clmp"}), "clamp"),
        (lambda: Objective(name="kl_penalty", options={"estimator": "k3*"}), "k3"),
        (lambda: Objective(aggregation="token_mean"), "objective.aggregation.*'token-mean'"),
        (lambda: Objective(correction="tis"), "objective.correction 'tis'"),
        (lambda: Objective(kl_estimator=""), "objective.kl.estimator"),
        (lambda: Objective(correction="icepop", correction_low=6.0), "0 <= low <= high"),
        (
            lambda: Objective(name="decoupled", correction="tis_token"),
            "decoupled already corrects .* 'tis_token' would apply it twice",
        ),
        (lambda: Objective(correction_low=0.5), "correction_low is the bound of a correction"),
        (lambda: Objective(correction="icepop", correction_high="5"), "correction_high must be a finite number"),
        (lambda: Objective(kl=-0.1), "objective.kl must be >= 0"),
        (lambda: Objective(kl=float("nan")), "objective.kl must be a finite number"),
        (lambda: Objective(llds=True), "objective.llds must be a finite number, got True"),
        (lambda: Objective(entropy_target=-1.0), r"entropy\.target must be >= 0"),
        (lambda: Objective(norm=0), "objective.aggregation.norm must be > 0"),
        (lambda: Objective(kl_corrected=1), r"kl\.corrected must be true or false"),
        (lambda: Objective(aggregation=["token-mean"]), "objective.aggregation"),
    ],
)
def test_what_is_unknown_or_cannot_be_is_named(call, message):
    with pytest.raises(ConfigError, match=message):
        call()


def test_an_unknown_option_of_a_call_may_mean_a_shared_one():
    n, old, advantages, mask, _ = _random(14)
    with pytest.raises(ConfigError, match="has no option 'entropy_bonu'; did you mean 'entropy_bonus'"):
        cispo(n, old, advantages, mask, entropy_bonu=0.1)


@pytest.mark.parametrize(
    ("name", "options", "what"),
    [
        ("ppo_clip", {"kl": 0.1}, "reference"),
        ("ppo_clip", {"entropy_bonus": 0.1}, "entrop"),
        ("ppo_clip", {"correction": "icepop"}, "'rollout'"),
        ("decoupled", {}, "'rollout'"),
        ("a_lol", {}, "'ref'"),
        ("hapo", {}, "'entropy'"),
    ],
)
def test_what_is_missing_is_an_error(name, options, what):
    n, old, advantages, mask, _ = _random(15)
    with pytest.raises(ValueError, match=what):
        get(name)(n, old, advantages, mask, **options)


def test_shapes_must_agree():
    n, old, advantages, mask, _ = _random(16)
    with pytest.raises(ValueError, match=r"old has shape \(3, 5\), the mask \(3, 6\)"):
        ppo_clip(n, old[:, :5], advantages, mask)


def test_every_objective_is_documented_and_has_the_one_signature():
    for name, entry in objectives().items():
        assert entry.name == name == entry.function.__name__
        assert "Source:" in inspect.getdoc(entry.function), name
        assert ("Our reading" in inspect.getdoc(entry.function)) == (entry.evidence == "our reading"), name
        parameters = list(inspect.signature(entry.function).parameters)
        assert parameters[:4] == ["logprobs", "old", "advantages", "mask"]
        assert {"ref", "rollout", "entropy", *entry.function.options} <= set(parameters)
        for option in entry.function.options:
            assert f"{option}: " in inspect.getdoc(entry.function), (name, option)


def test_spans_tell_sentences_apart():
    """One row of two sentences, one that rose and one that fell: their ratios are e^0.1 and e^-0.1, whole 1."""
    old = torch.zeros(1, 4, dtype=torch.float64)
    n = _double([[0.2, 0.0, 0.0, -0.2]])
    one = torch.ones_like(n)
    spans = torch.tensor([[0, 0, 1, 1]])
    assert sspo(n, old, one, one, spans=spans)[0].item() == pytest.approx(-np.cosh(0.1))
    assert sspo(n, old, one, one)[0].item() == pytest.approx(-1.0)


def test_uncertain_sentences_may_move_further_within_limits():
    """Mean entropies 1 and 3, their mean 2: bounds of 0.2 times 1/2 and 3/2; with 0.1 and 3.9 the limits hold."""
    old, one = torch.zeros(1, 2, dtype=torch.float64), torch.ones(1, 2, dtype=torch.float64)
    spans, n = torch.tensor([[0, 1]]), torch.full((1, 2), np.log(1.5), dtype=torch.float64)
    for entropy in ([[1.0, 3.0]], [[0.1, 3.9]]):
        options = {"spans": spans, "entropy": _double(entropy), "by_entropy": True}
        advantages = _double([[1.0, 2.0]])  # so that what one bound gains the other does not lose
        assert sspo(n, old, advantages, one, **options)[0].item() == pytest.approx(-(1.1 + 2 * 1.3) / 2)


def test_elastic_bounds_grow_with_the_advantage_within_limits():
    """At |A| = 50 the tanh is 1: with alpha 5 the bound 0.28 would be six times that and is kept at three times."""
    old, one = torch.zeros(1, 1, dtype=torch.float64), torch.ones(1, 1, dtype=torch.float64)
    for limits, bound in ((True, 1.84), (False, 2.68)):
        loss, _ = etr(old + np.log(3.0), old, 50.0 * one, one, alpha=5.0, limits=limits)
        assert loss.item() == pytest.approx(-50.0 * bound)


def test_what_is_too_stale_is_masked_or_clamped():
    """Weights exp(o - b) of 2 and 8 under a cap of 5; what is masked stays in the denominator."""
    old, one = torch.zeros(1, 2, dtype=torch.float64), torch.ones(1, 2, dtype=torch.float64)
    rollout = -torch.log(_double([[2.0, 8.0]]))
    for over, total in (("mask", 2.0), ("clamp", 7.0)):
        loss, _ = decoupled(old, old, one, one, rollout=rollout, over=over)
        assert loss.item() == pytest.approx(-total / 2)
    unknown = _double([[float("inf"), float("-inf")]])
    assert decoupled(old, old, one, one, rollout=unknown)[0].item() == -1.0  # counts as no difference

"""Objectives that see outcomes, groups and sources: their definitions by hand, gradients, laws at the edges."""

import math

import pytest
import torch

from turncredit.training.errors import ConfigError
from turncredit.training.objectives import Objective, get, objectives, ppo_clip, reinforce
from turncredit.training.objectives.sources import POLICY, TEACHER

torch.set_num_threads(1)
WHOLE = sorted(name for name, entry in objectives().items() if entry.function.whole)
BINARY = ("disco", "drpo", "pacs")


def _column(values):
    return torch.tensor(values, dtype=torch.float64)[:, None]


def _evaluate(name, new, *, old=None, advantages=1.0, outcome=None, group=None, source=None, lengths=None, **options):
    """The loss of episodes whose tokens all have one log-probability, and its gradient, summed over their tokens."""
    episodes = len(new)
    lengths = torch.tensor([1] * episodes if lengths is None else lengths)
    mask = torch.arange(int(lengths.max())) < lengths[:, None]
    new = _column(new).expand(mask.shape).clone().requires_grad_()
    old = new.detach() if old is None else _column(old).expand(mask.shape)
    advantages = _column([advantages] * episodes if isinstance(advantages, float) else advantages).expand(mask.shape)
    columns = {
        "outcome": torch.tensor([0.0] * episodes if outcome is None else outcome, dtype=torch.float64),
        "group": torch.tensor([0] * episodes if group is None else group),
        "source": torch.tensor([POLICY] * episodes if source is None else source),
        "entropy": torch.ones_like(new),
    }
    loss, _ = get(name)(new, old, advantages, mask, **columns, **options)
    (gradient,) = torch.autograd.grad(loss, new)
    return loss.item(), gradient.sum(1)


def _check(result, loss, gradient=None):
    assert result[0] == pytest.approx(loss, abs=5e-5)
    if gradient is not None:
        torch.testing.assert_close(result[1], torch.tensor(gradient, dtype=torch.float64), atol=5e-5, rtol=0)


def test_disco_by_hand():
    """One winner at -1, losers at -2 and -3: it exceeds their soft mean by 1.4875, their plain mean by 1.5."""
    scores = {"new": [-1.0, -2.0, -3.0], "outcome": [1.0, 0.0, 0.0]}
    likely = 1 / (1 + math.exp(-0.1))
    _check(_evaluate("disco", **scores), -1.4875, [-1.0, likely, 1 - likely])
    _check(_evaluate("disco", **scores, basic=True), -1.5, [-1.0, 0.5, 0.5])
    _check(_evaluate("disco", **scores, score="ratio"), 0.0, [-1.0, 0.5, 0.5])  # all ratios are 1
    other = {"new": [-1.0, -2.0, -3.0, -1.0], "outcome": [1.0, 0.0, 0.0, 1.0], "group": [4, 4, 4, 9]}
    _check(_evaluate("disco", **other), -1.4875 / 2)  # a group of one class counts, and adds nothing


def test_discos_penalty_is_that_of_the_excess_held_still():
    """At n - o = 0.1 the divergence is e^0.1 - 1.1 = 0.005171 nats, of which 0.005071 are above the limit."""
    divergence = math.exp(0.1) - 1.1
    loss, gradient = _evaluate("disco", [-0.9, -0.9], old=[-1.0, -1.0], outcome=[1.0, 1.0])
    assert loss == pytest.approx(1e3 * (divergence - 1e-4) * divergence)
    assert gradient.sum() == pytest.approx(1e3 * (divergence - 1e-4) * (math.exp(0.1) - 1.0))
    assert _evaluate("disco", [-0.9, -0.9], old=[-1.0, -1.0], outcome=[1.0, 1.0], delta=0.01)[0] == 0.0


def test_drpo_by_hand():
    """Winners of a quarter and three quarters of the limit, at decay 0.1: weights 0.9933 and 0.0067."""
    result = _evaluate("drpo", [-1.0, -2.0, -3.0], outcome=[1.0, 1.0, 0.0], lengths=[1, 3, 2], longest=4.0)
    short = 1 / (1 + math.exp(-5))
    assert short == pytest.approx(0.9933, abs=5e-5)
    _check(result, -(-short - 2 * (1 - short) + 3.0), [-short, short - 1, 1.0])
    same = {"new": [-1.0, -2.0, -3.0], "outcome": [1.0, 1.0, 0.0]}
    assert _evaluate("drpo", **same)[0] == pytest.approx(_evaluate("disco", **same)[0])  # all as long


def test_pacs_by_hand():
    """Moves of 0.2 and -0.2 differ from the other's by 0.4 and -0.4: ln(1 + e^-0.4) = 0.5130 each."""
    moves = {"new": [0.2, -0.2], "old": [0.0, 0.0]}
    _check(_evaluate("pacs", **moves, outcome=[1.0, 0.0]), 0.5130)
    _check(_evaluate("pacs", **moves, outcome=[0.0, 1.0]), 0.9130)
    _check(_evaluate("pacs", **moves, outcome=[1.0, 0.0], beta=2.0), math.log1p(math.exp(-0.8)))
    _check(_evaluate("pacs", **moves, outcome=[1.0, 0.0], evidence="likelihood"), 0.5130)
    three = {"new": [0.0] * 3, "outcome": [1.0, 0.0, 0.0]}  # c = 3/2, 3/4, 3/4: each class weighs the same
    _check(_evaluate("pacs", **three), math.log(2), [-0.375, 0.1875, 0.1875])
    _check(_evaluate("pacs", **three, balanced=False)[:1], math.log(2))
    _check(_evaluate("pacs", [0.0] * 3, outcome=[1.0] * 3)[:1], math.log(2))  # one class: c = 1


def test_p3o_is_the_policy_gradient_of_a_group_at_the_old_policy():
    """The mean over pairs is G / (G - 1) times -mean of (E - mean E) rho, whatever is added to all outcomes."""
    _check(_evaluate("p3o", [-1.0] * 3, outcome=[1.0, 0.0, 0.0]), 0.0, [-1 / 3, 1 / 6, 1 / 6])
    _check(_evaluate("p3o", [-1.0] * 3, outcome=[6.0, 5.0, 5.0]), 0.0, [-1 / 3, 1 / 6, 1 / 6])


def test_p3o_bounds_two_ratios_or_their_product():
    """Ratios e^0.5 and e^-0.5 become 1.2 and 0.8, together 0.96; their product is 1."""
    moves = {"new": [-0.5, -1.5], "old": [-1.0, -1.0], "outcome": [1.0, 0.0]}
    _check(_evaluate("p3o", **moves), -0.5 * 0.96, [-0.48, 0.48])
    _check(_evaluate("p3o", **moves, joint=True), -0.5, [-0.5, 0.5])


def test_reg_grpo_by_hand():
    """Two moves in the right order are at +-0.7071 standard deviations, as the advantages: nothing is left."""
    advantages = [math.sqrt(0.5), -math.sqrt(0.5)]
    assert _evaluate("reg_grpo", [-1.0, -2.0], old=[-1.0] * 2, advantages=advantages, eps=1e-9)[0] < 1e-12
    _check(_evaluate("reg_grpo", [-2.0, -1.0], old=[-1.0] * 2, advantages=advantages, eps=1e-9), 2.0)
    # at the old policy (A - (rho - mean) / eps)^2 has the slope -2 A / eps, and half of it is one episode's
    _check(_evaluate("reg_grpo", [-1.0] * 2, advantages=advantages), 0.5, [-10 * advantages[0], -10 * advantages[1]])


def test_grao_by_hand():
    """E = 1, 0, 0, 1 and a right answer: A = 1, -1, -1, 1 and 1."""
    scores = [-0.5, -1.0, -0.8, -0.4, -0.9]
    result = _evaluate("grao", scores, outcome=[1.0, 0.0, 0.0, 1.0, 1.0], source=[POLICY] * 4 + [TEACHER])
    _check(result, 0.09, [-0.4, 0.4, 0.4, -0.4, -0.5])
    alone = _evaluate("grao", scores[:4], outcome=[1.0, 0.0, 0.0, 1.0])  # without an answer, (1 + gap) mean A s
    _check(alone, -1.6 * 0.225, [-0.4, 0.4, 0.4, -0.4])
    flat = _evaluate("grao", scores, outcome=[0.1] * 4 + [1.0], source=[POLICY] * 4 + [TEACHER])
    _check(flat, 0.0, [0.0] * 5)


@pytest.mark.parametrize("name", WHOLE)
def test_a_group_of_one_adds_nothing(name):
    loss, gradient = _evaluate(name, [-1.0], advantages=0.0, outcome=[1.0])
    assert (loss, gradient.abs().max().item()) == (0.0, 0.0)


@pytest.mark.parametrize("name", ["disco", "drpo", "p3o", "grao"])
@pytest.mark.parametrize("outcome", [0.0, 0.1, 1.0])
def test_episodes_of_equal_outcomes_teach_nothing(name, outcome):
    loss, gradient = _evaluate(name, [-1.0, -2.0, -3.0], outcome=[outcome] * 3)
    assert (loss, gradient.abs().max().item()) == (0.0, 0.0)


@pytest.mark.parametrize("name", WHOLE)
def test_losses_of_groups_are_averaged_and_numbers_of_groups_mean_nothing(name):
    moves = {"new": [-1.0, -1.2, -0.7, -2.0, -1.0], "old": [-1.1, -1.0, -0.9, -1.9, -1.2]}
    more = {"outcome": [1.0, 0.0, 0.0, 0.0, 1.0], "advantages": [1.0, -0.5, -0.5, -1.0, 1.0]}
    options = {"beta": 0.0} if name in ("disco", "drpo") else {}  # the penalty is on the tokens of all groups
    parts = [
        _evaluate(name, **{key: column[cut] for key, column in {**moves, **more}.items()}, **options)
        for cut in (slice(0, 3), slice(3, 5))
    ]
    weights = (0.6, 0.4) if name in ("pacs", "reg_grpo") else (0.5, 0.5)  # means over episodes, or over groups
    expected = sum(weight * loss for weight, (loss, _) in zip(weights, parts, strict=True))
    slopes = torch.cat([weight * slope for weight, (_, slope) in zip(weights, parts, strict=True)])
    for group in ([0, 0, 0, 1, 1], [7, 7, 7, 3, 3]):
        loss, gradient = _evaluate(name, **moves, **more, group=group, **options)
        assert loss == pytest.approx(expected, rel=1e-12)
        torch.testing.assert_close(gradient, slopes)
    assert abs(_evaluate(name, **moves, **more, **options)[0] - expected) > 1e-6  # one group is something else


@pytest.mark.parametrize("name", [name for name in WHOLE if name != "reg_grpo"])
def test_an_unknown_outcome_shows(name):
    assert math.isnan(_evaluate(name, [-1.0, -2.0, -3.0], outcome=[1.0, 0.0, math.nan])[0])


@pytest.mark.parametrize("name", ["disco", "drpo"])
def test_without_a_penalty_the_gradient_is_that_of_the_value(name):
    _, old, mask, columns = _columns()
    new = (old + 0.1 * torch.sin(7.0 * old)).requires_grad_()

    def loss(logprobs):
        return get(name)(logprobs, old, torch.zeros_like(old), mask, **columns, beta=0.0)[0]

    assert torch.autograd.gradcheck(loss, new, eps=1e-7, atol=1e-6)
    assert loss(new) != 0.0


def _columns(rows=5, width=4):
    generator = torch.Generator().manual_seed(0)
    old = -1.5 + 0.5 * torch.randn(rows, width, generator=generator, dtype=torch.float64)
    mask = torch.rand(rows, width, generator=generator) < 0.8
    mask[:, 0] = True
    columns = {"outcome": torch.tensor([1.0, 0.0, 1.0, 0.0, 0.0]), "group": torch.tensor([0, 0, 1, 1, 1])}
    return generator, old, mask, columns


@pytest.mark.parametrize("name", BINARY)
def test_a_win_is_an_outcome_of_at_least_the_limit(name):
    moves = {"new": [-1.0, -2.0], "old": [-1.1, -1.9]}
    losses = [_evaluate(name, **moves, outcome=[1.0, 3.0], win=win)[0] for win in (2.0, 3.0, -5.0, 4.0)]
    assert losses[0] == losses[1] != losses[2]
    assert _evaluate(name, **moves, outcome=[0.5, 0.4999])[0] == _evaluate(name, **moves, outcome=[1.0, 0.0])[0]


def test_ampo_by_hand():
    """At p = 0.2 a teacher's token has -A 0.2 / 0.3, with the slope -A p bias / (p + bias)^2; others have a clip."""
    _check(_evaluate("ampo", [math.log(0.2)], source=[TEACHER], norm=1.0), -2 / 3, [-0.2 * 0.1 / 0.09])
    moves = {"new": [-0.5, -1.5], "old": [-1.0, -1.0], "advantages": [1.0, -1.0]}
    plain = [_evaluate(name, **moves, norm=1.0, aggregation="seq-mean-token-sum") for name in ("ampo", "ppo_clip")]
    assert plain[0][0] == pytest.approx(-(1.2 - 0.8) / 2)
    assert plain[1][0] == pytest.approx(-(1.28 - 0.8) / 2)


def test_rl_plus_by_hand():
    """At p = q = 0.2 the ratio is 0.4 / 0.8 = 0.5, and the factor sqrt(0.8) = 0.8944, which has no gradient."""
    result = _evaluate("rl_plus", [math.log(0.2)], source=[TEACHER], norm=1.0)
    _check(result, -0.5 * math.sqrt(0.8), [-0.5 * math.sqrt(0.8)])
    moves = {"new": [-0.5, -3.0], "old": [-1.0, -1.0], "advantages": [1.0, -1.0], "norm": 1.0}
    wide = _evaluate("ppo_clip", **moves, clip_low=1.0, clip_high=1e9, aggregation="seq-mean-token-sum-norm")
    _check(_evaluate("rl_plus", **moves), wide[0], wide[1].tolist())


def test_rec_masks_what_has_moved_too_far():
    """Ratios e^1.2 = 3.32 of a good token, and e^-1 = 0.37 of a bad one, are beyond 3 and 0.4."""
    moves = {"old": [-2.0] * 4, "new": [-0.8, -3.0, -3.0, -0.8], "advantages": [1.0, 1.0, -1.0, -1.0]}
    _check(_evaluate("rec", **moves), (3.0 - 0.8) / 4, [0.0, -0.25, 0.0, 0.25])
    weighed = _evaluate("rec", **moves, tau=1.0)
    _check(weighed, (3.0 * math.e - 0.8 / math.e) / 4, [0.0, -math.e / 4, 0.0, 1 / (4 * math.e)])


def test_otr_has_the_gradient_of_the_expected_loss_over_all_tokens():
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(3, 5, generator=generator, dtype=torch.float64).requires_grad_()
    token, beta = torch.tensor([0, 3, 4]), -0.1
    log = torch.log_softmax(logits, -1)
    rewards = torch.full_like(log, beta).scatter(1, token[:, None], 1.0)
    expected = -(log.exp().detach() * rewards * log).sum(-1).mean()
    (slope,) = torch.autograd.grad(expected, logits, retain_graph=True)
    chosen = log.gather(1, token[:, None])
    one = torch.ones_like(chosen)
    loss, _ = get("otr")(chosen, chosen.detach(), one, one, beta=beta)
    (ours,) = torch.autograd.grad(loss, logits)
    torch.testing.assert_close(ours, slope, rtol=1e-12, atol=1e-15)


def test_ter_pulls_the_mean_entropy_to_its_target_from_both_sides():
    _, old, mask, _ = _columns()
    for level, sign in ((1.0, 1.0), (0.25, -1.0)):
        entropy = torch.full_like(old, level).requires_grad_()
        loss, _ = get("ter")(old, old, torch.zeros_like(old), mask, entropy=entropy)
        assert loss.item() == pytest.approx(1e-3 * abs(level - 0.55))
        (slope,) = torch.autograd.grad(loss, entropy)
        assert slope[mask].sum().item() == pytest.approx(sign * 1e-3)


def test_aepo_keeps_a_bounded_gradient_above_the_clip():
    moves = {"new": [-0.5, -1.5, -0.5], "old": [-1.0] * 3, "advantages": [1.0, -1.0, -1.0]}
    bounded, plain = _evaluate("aepo", **moves), _evaluate("ppo_clip", **moves)
    assert bounded[0] == pytest.approx(plain[0])
    _check((0.0, bounded[1]), 0.0, [-1.28 / 3, 0.0, math.exp(0.5) / 3])
    assert plain[1][0] == 0.0


def test_aepo_gives_uncertain_tokens_more_weight():
    old, entropy = _column([-1.0, -1.0, -1.0]), _column([0.0, 1.0, 2.0])  # h = -1, 0, 1
    new = old.clone().requires_grad_()
    loss, _ = get("aepo")(new, old, torch.ones_like(old), torch.ones(3, 1), entropy=entropy, alpha=0.3)
    assert torch.autograd.grad(loss, new)[0][:, 0].tolist() == pytest.approx([-0.7 / 3, -1 / 3, -1.3 / 3])


@pytest.mark.parametrize("name", WHOLE)
def test_what_has_no_loss_per_token_is_neither_weighed_nor_corrected(name):
    with pytest.raises(
        ConfigError, match=f"{name} has one loss for whole episodes.*objective.aggregation 'token-mean'"
    ):
        Objective(name=name, aggregation="token-mean")
    with pytest.raises(ConfigError, match=f"{name} has one loss for whole episodes.*objective.correction 'icepop'"):
        Objective(name=name, correction="icepop")
    with pytest.raises(ConfigError, match=f'{name} compares the episodes.*sequence must be "trajectory"'):
        Objective(name=name, sequence="turn")
    assert Objective(name=name, aggregation="seq-mean-token-mean").whole_groups


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("disco", {"score": "logl"}, "unknown option score='logl'.*'logL'"),
        ("disco", {"tau": 0.0}, "'tau' must be > 0"),
        ("drpo", {"longest": 0.0}, "'longest' must be > 0"),
        ("drpo", {"decay": 0.0}, "'decay' must be > 0"),
        ("pacs", {"evidence": "ratios"}, "unknown option evidence='ratios'.*'ratio'"),
        ("reg_grpo", {"eps": 0.0}, "'eps' must be > 0"),
        ("rec", {"tau": 0.0}, "'tau' must be > 0"),
        ("ampo", {"bias": 0.0}, "'bias' must be > 0"),
    ],
)
def test_options_that_cannot_be_are_named(name, options, message):
    with pytest.raises(ConfigError, match=message):
        Objective(name=name, options=options)


def test_columns_of_episodes_must_be_there_and_fit():
    new = torch.zeros(2, 3)
    with pytest.raises(ValueError, match="needs 'group'"):
        get("disco")(new, new, new, torch.ones(2, 3), outcome=torch.zeros(2))
    with pytest.raises(ValueError, match=r"outcome has shape \(2, 3\); wanted: \[B\] = \(2,\)"):
        get("disco")(new, new, new, torch.ones(2, 3), outcome=new, group=torch.zeros(2))
    with pytest.raises(ValueError, match="needs 'source'"):
        get("ampo")(new, new, new, torch.ones(2, 3))


def test_with_the_policys_episodes_alone_objectives_of_teachers_are_plain():
    _, old, mask, columns = _columns()
    new, advantages = old + 0.05, torch.randn(old.shape, generator=torch.Generator().manual_seed(3)).double()
    columns["source"] = torch.zeros(len(old)).long()
    mode = {"aggregation": "token-mean"}
    same = [
        (get("ampo"), ppo_clip, {"clip_high": 0.2, "dual_clip": 10.0}),
        (get("rl_plus"), ppo_clip, {"clip_low": 1.0, "clip_high": 1e9}),
        (get("rec"), reinforce, {}),
    ]
    for function, other, options in same:
        loss, _ = function(new, old, advantages, mask, **columns, **mode)
        assert loss.item() == pytest.approx(other(new, old, advantages, mask, **mode, **options)[0].item(), rel=1e-12)

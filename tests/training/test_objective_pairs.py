"""Pairs of options of objectives: each has the exact gradient in expectation, or is refused.

A policy of two tokens with three choices each has nine answers. They are enumerated, each with the probability with
which the sampling policy gives it, so that an expectation is a sum; the truth is automatic differentiation of the exact
expectation, in float64. The log-probabilities are n of the policy, o of the old one, b of the one that sampled the
tokens, f of the reference.
"""

import itertools
import math

import numpy as np
import pytest
import torch

from turncredit.training import ConfigError
from turncredit.training.objectives import AGGREGATIONS, CORRECTIONS, KL_ESTIMATORS, Objective, objectives
from turncredit.training.objectives.function import ObjectiveFunction
from turncredit.training.objectives.terms import SHARED
from turncredit.training.objectives.tokens import flatten

ANSWERS = list(itertools.product(range(3), repeat=2))
FIRST, SECOND = (torch.tensor(column) for column in zip(*ANSWERS, strict=True))
WIDE = {"correction_low": 0.0, "correction_high": 1e6}
OBJECTIVES = {name: info for name, info in objectives().items() if info.function.__module__.startswith("turncredit.")}


def near(scale, seed):
    """Logits of a policy, float64 [4, 3]: of the first token, and of the second after each first one."""
    generator = torch.Generator().manual_seed(seed)
    base = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return base + scale * torch.randn(4, 3, dtype=torch.float64, generator=generator)


class Case:
    """Four policies and an advantage for each token of each answer."""

    def __init__(self, scale=0.3):
        self.logits = near(scale, 1).requires_grad_()
        self.policies = torch.log_softmax(self.logits, 1)
        self.of_old, self.of_rollout, self.of_ref = (torch.log_softmax(near(scale, k), 1) for k in (2, 3, 4))
        self.new, self.old, self.rollout, self.ref = (
            self.answers(table) for table in (self.policies, self.of_old, self.of_rollout, self.of_ref)
        )
        self.entropies = -(self.policies.exp() * self.policies).sum(1)
        self.entropy = torch.stack([self.entropies[0].expand(9), self.entropies[1 + FIRST]], 1)
        self.advantages = torch.tensor([[math.sin(3 * a + b + 1), math.cos(a - 2 * b)] for a, b in ANSWERS]).double()

    @staticmethod
    def answers(table):
        """The log-probabilities of the tokens of each answer, [9, 2]."""
        return torch.stack([table[0][FIRST], table[1 + FIRST, SECOND]], 1)

    def gradient(self, value):
        return torch.autograd.grad(value, self.logits, retain_graph=True)[0]

    def columns(self, rows, needs):
        one = torch.zeros(len(rows), 2, dtype=torch.float64)
        known = {
            "ref": self.ref[rows],
            "rollout": self.rollout[rows],
            "entropy": self.entropy[rows],
            "mean_logprob": self.policies.detach().mean() + one,
            "old_mean_logprob": self.of_old.mean() + one,
            "outcome": self.advantages[rows].sum(1),
            "group": torch.zeros(len(rows), dtype=torch.int64),
            "source": torch.zeros(len(rows), dtype=torch.int64),
        }
        return {name: known[name] for name in needs}

    def loss(self, name, rows, needs=(), **options):
        """The loss of some answers as one batch."""
        info = OBJECTIVES[name]
        columns = self.columns(rows, {*info.needs, *needs})
        mask = torch.ones(len(rows), 2, dtype=torch.bool)
        tensors = self.new[rows], self.old[rows], self.advantages[rows], mask
        return info.function(*tensors, **columns, **options)[0]

    def expected(self, name, by, needs=(), **options):
        """The gradient of the expected loss of one answer that a policy gives."""
        return self.gradient(
            sum(chance * self.loss(name, [row], needs, **options) for row, chance in enumerate(by.sum(1).exp()))
        )


def prefixes(sampled):
    """The probability of each of the four contexts under the policy that samples."""
    return torch.cat([torch.ones(1, dtype=torch.float64), sampled[0].exp()])


def value_of(estimator, n, f):
    """The estimators, written again."""
    d = f - n
    third = torch.exp(d) - d - 1.0
    square = d * d / 2.0
    return {"k1": -d, "k2": square, "k3": third, "k3+": square, "k3-unbounded": third}[estimator]


# -- the divergence, in every combination with a correction and an importance ratio --

HOSTS = [
    ("ppo_clip", "", False),
    ("ppo_clip", "", True),
    ("decoupled", "", True),
    *(("gspo", correction, True) for correction in CORRECTIONS),
]
"""Objective, correction, and whether the engine's log-probabilities are known; else the old policy sampled."""


@pytest.mark.parametrize(("name", "correction", "known"), HOSTS)
@pytest.mark.parametrize("estimator", KL_ESTIMATORS)
def test_a_corrected_divergence_has_its_gradient_whatever_it_is_added_to(estimator, name, correction, known):
    """The divergence of the next token, in the contexts that the sampling policy reaches."""
    case = Case()
    needs = ("ref", "rollout") if known else ("ref",)
    options = {"aggregation": "token-sum"} | ({"correction": correction} if correction else {})
    term = {"kl": 0.7, "kl_estimator": estimator, "kl_corrected": True}
    sampled = case.of_rollout if known else case.of_old
    by = case.rollout if known else case.old
    found = case.expected(name, by, needs, **options, **term) - case.expected(name, by, needs, **options)
    divergence = (case.policies.exp() * (case.policies - case.of_ref)).sum(1)
    torch.testing.assert_close(found, case.gradient(0.7 * (prefixes(sampled) * divergence).sum()))


@pytest.mark.parametrize("estimator", KL_ESTIMATORS)
def test_a_divergence_without_correction_has_the_gradient_that_the_page_says_or_is_refused(estimator):
    """On policy: k2 and k3+ that of KL(policy || reference), k3 of KL(reference || policy); k1 none, and is refused."""
    case = Case()
    case.old = case.new.detach()
    term = {"kl": 1.0, "kl_estimator": estimator, "aggregation": "token-sum"}
    if estimator == "k1":
        with pytest.raises(ConfigError, match="k1 has an expected gradient of zero"):
            case.expected("ppo_clip", case.old, ("ref",), **term)
        with pytest.raises(ConfigError, match="k1 has an expected gradient of zero"):
            Objective(name="kl_penalty", options={"estimator": "k1"})
        return
    found = case.expected("ppo_clip", case.old, ("ref",), **term) - case.expected(
        "ppo_clip", case.old, aggregation="token-sum"
    )
    if estimator in ("k2", "k3+"):
        divergence = (case.policies.exp() * (case.policies - case.of_ref)).sum(1)
    else:
        divergence = (case.of_ref.exp() * (case.of_ref - case.policies)).sum(1)
    weighed = prefixes(case.policies.detach()) * divergence
    torch.testing.assert_close(found, case.gradient(weighed.sum()))
    alone = case.expected("kl_penalty", case.old, estimator=estimator, aggregation="token-sum")
    torch.testing.assert_close(alone, found)


def test_only_k1_leads_to_the_reference_as_a_reward():
    """The policy gradient of a reward of -k: that of -KL for k1, and of no divergence for the others."""
    case = Case()
    n, f = case.policies[0], case.of_ref[0]
    exact = case.gradient((n.exp() * (n - f)).sum())
    for estimator in KL_ESTIMATORS:
        found = case.gradient((n.exp().detach() * value_of(estimator, n, f).detach() * n).sum())
        assert torch.allclose(found, exact) == (estimator == "k1")


@pytest.mark.parametrize("estimator", KL_ESTIMATORS)
def test_a_run_subtracts_no_other_one_from_the_reward(estimator):
    from turncredit.training.config.sections import ObjectiveSection

    section = ObjectiveSection.model_validate({"kl": {"coefficient": 0.1, "estimator": estimator, "where": "reward"}})
    if estimator == "k1":
        assert Objective.from_section(section).kl == 0.0
    else:
        with pytest.raises(ConfigError, match='set it to "k1"'):
            Objective.from_section(section)


# -- corrections with every objective --

WEIGHING = [name for name, correction in CORRECTIONS.items() if correction.weighs]
MASKS = [name for name in CORRECTIONS if name not in WEIGHING]


@pytest.mark.parametrize("correction", WEIGHING)
@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_correction_makes_the_rollout_as_good_as_the_old_policy(name, correction):
    """Answers of one token: E over b of w times the loss is E over o of the loss, where no bound is reached."""
    case, function = Case(), OBJECTIVES[name].function
    refused = function.whole or function.weighed

    def loss(row, **options):
        info, needs = OBJECTIVES[name], {*OBJECTIVES[name].needs, "rollout"}
        columns = {
            key: column[:, :1] if column.ndim == 2 else column for key, column in case.columns([row], needs).items()
        }
        first = (
            table[[row], :1] for table in (case.new, case.old, case.advantages, torch.ones(9, 2, dtype=torch.bool))
        )
        return info.function(*first, **columns, **options)[0]

    rows = [0, 3, 6]  # one answer for each first token
    if refused:
        with pytest.raises(ConfigError, match=f"correction.*{correction}"):
            loss(0, correction=correction)
        return
    by_rollout = sum(
        case.of_rollout[0][k].exp() * loss(row, correction=correction, **WIDE) for k, row in enumerate(rows)
    )
    by_old = sum(case.of_old[0][k].exp() * loss(row) for k, row in enumerate(rows))
    if not by_old.requires_grad:  # an objective that has nothing to say of these answers
        assert not by_rollout.requires_grad
        return
    torch.testing.assert_close(case.gradient(by_rollout), case.gradient(by_old))


@pytest.mark.parametrize("correction", ["tis_sequence", "mis_sequence"])
@pytest.mark.parametrize("name", ["ppo_clip", "gspo", "gmpo", "cispo", "reinforce"])
def test_so_does_one_of_whole_answers(name, correction):
    case = Case()
    found = case.expected(name, case.rollout, ("rollout",), correction=correction, **WIDE)
    torch.testing.assert_close(found, case.expected(name, case.old))


# -- the clips of PPO, alone and together --

CLIPS = list(itertools.product((0.1, 0.4), (0.15, 0.5), (None, 1.05, 1.3, 3.0), (None, 1.2, 1.6)))


def slope(ratio, advantage, low, high, dual, delta):
    """-dl/dn: A r where no clip acts. Good actions have an upper bound; bad ones a lower one, and caps."""
    if advantage >= 0:
        return advantage * ratio if ratio < 1 + high else 0.0
    cap = min(dual or math.inf, delta or math.inf)
    return advantage * ratio if 1 - low < ratio < cap else 0.0


@pytest.mark.parametrize(("low", "high", "dual", "delta"), CLIPS, ids=str)
def test_every_pair_of_clips_cuts_where_each_of_them_does(low, high, dual, delta):
    options = {"clip_low": low, "clip_high": high, "dual_clip": dual, "delta": delta, "aggregation": "token-sum"}
    ratios = np.array([0.3, 0.55, 0.85, 0.95, 1.0, 1.04, 1.1, 1.18, 1.25, 1.45, 1.55, 2.0, 2.9, 3.5, 9.0])
    if delta is not None and delta <= 1 + high:
        with pytest.raises(ConfigError, match="delta must be above"):
            OBJECTIVES["ppo_clip"].function.check({key: options[key] for key in ("clip_high", "delta")})
        return
    for advantage in (1.5, -0.7):
        new = torch.tensor(np.log(ratios))[:, None].requires_grad_()
        loss, _ = OBJECTIVES["ppo_clip"].function(
            new, torch.zeros_like(new), torch.full_like(new, advantage), torch.ones_like(new), **options
        )
        found = -torch.autograd.grad(loss, new)[0][:, 0]
        expected = [slope(ratio, advantage, low, high, dual, delta) for ratio in ratios]
        assert found.tolist() == pytest.approx(expected), (advantage, options)


# -- every pair of terms with every objective, and with every option of its own --


def weights_by_hand(mode, rows):
    """Two tokens an answer, all of them one turn."""
    tokens = 2 * rows
    outer = 1.0 / rows if mode.startswith(("seq-mean", "turn-mean")) else 1.0
    inner = 0.5 if ("token-mean" in mode and mode != "token-mean") or mode == "turn-mean" else 1.0
    return 1.0 / tokens if mode == "token-mean" else outer * inner / (7.0 if "-norm" in mode else 1.0)


SETTINGS = {
    "aggregation": [{"aggregation": mode, **({"norm": 7.0} if "norm" in mode else {})} for mode in AGGREGATIONS],
    "correction": [{"correction": correction} for correction in CORRECTIONS],
    "kl": [
        {"kl": 0.3, "kl_estimator": estimator, "kl_corrected": corrected}
        for estimator in KL_ESTIMATORS
        for corrected in (True, False)
        if corrected or estimator != "k1"
    ],
    "entropy_bonus": [{"entropy_bonus": 0.2}, {"entropy_bonus": 0.2, "entropy_target": 9.0}],
    "llds": [{"llds": 0.4}],
}


def test_every_term_has_a_setting():
    """A new term is a new line here, and then meets all others."""
    held = {key for settings in SETTINGS.values() for setting in settings for key in setting}
    assert held | {"correction_low", "correction_high"} == {*SHARED}


def variants(function: ObjectiveFunction):
    """The objective as it is, and with each of its switches turned and each of its numbers changed."""
    yield {}
    for name, default in function.options.items():
        if isinstance(default, bool):
            yield {name: not default}
        elif isinstance(default, int | float) and default:
            yield {name: 1.25 * default}


def pairs(offset):
    """A member of every pair of kinds of terms; further offsets go through all of them."""
    for one, other in itertools.combinations(SETTINGS.values(), 2):
        yield one[offset % len(one)] | other[offset // len(one) % len(other)]


ROUNDS = 5
"""Offsets of each objective, which all begin at another one."""


def test_every_pair_of_terms_meets_some_objective():
    met = [shared for offset in range(ROUNDS * len(OBJECTIVES)) for shared in pairs(offset)]
    for one, other in itertools.combinations(SETTINGS.values(), 2):
        for first, second in itertools.product(one, other):
            assert first | second in met, (first, second)


def log_factor(correction, case, rows):
    """The correction's factor at its defaults, written again, [rows, 2]."""
    gap = (case.old - case.rollout)[rows]
    whole, mean = gap.sum(1, keepdim=True).expand(-1, 2).exp(), gap.mean(1, keepdim=True).expand(-1, 2).exp()
    one = torch.ones_like(gap)
    far = (case.rollout - case.new.detach())[rows].mean(1, keepdim=True).expand(-1, 2) > 0.1
    return {
        "tis_token": gap.exp().clamp(max=2.0),
        "tis_sequence": whole.clamp(max=2.0),
        "icepop": torch.where((gap.exp() >= 0.5) & (gap.exp() <= 5.0), gap.exp(), 0 * one),
        "mis_sequence": torch.where(whole <= 3.0, whole, 0 * one),
        "seq_mask_tis": torch.where((mean >= 0.9) & (mean <= 1.1), gap.exp(), 0 * one),
        "seq_mask": torch.where((mean >= 0.999) & (mean <= 1.001), one, 0 * one),
        "off_policy": torch.where((case.advantages[rows] < 0) & far, 0 * one, one),
    }[correction]


def assembled(case, name, rows, own, shared):
    """weights * (objective * factor + kl * divergence + llds * penalty - bonus * entropy), each written by itself."""
    info = OBJECTIVES[name]
    needs = {*info.needs, "ref", "rollout", "entropy"}
    mask = torch.ones(len(rows), 2, dtype=torch.bool)
    tokens = flatten(case.new[rows], case.old[rows], case.advantages[rows], mask, **case.columns(rows, needs))
    losses = info.function.kernel(tokens, **own)
    losses = (losses if isinstance(losses, torch.Tensor) else losses[0]).reshape(-1, 2)
    if "correction" in shared:
        losses = losses * log_factor(shared["correction"], case, rows)
    total = losses
    if "kl" in shared:
        n, f = case.new[rows], case.ref[rows]
        divergence = value_of(shared["kl_estimator"], n, f)
        if shared["kl_corrected"]:
            ratio = (n - case.rollout[rows]).exp()
            divergence = divergence * (ratio.detach() if shared["kl_estimator"] in ("k2", "k3+") else ratio)
        total = total + shared["kl"] * divergence
    if "llds" in shared:
        fallen, good = case.old[rows] - case.new[rows], case.advantages[rows] >= 0
        both = good.all(1, keepdim=True)
        run = torch.where(both, fallen.sum(1, keepdim=True), fallen)  # a run is a part of the turn with one sign
        total = total + shared["llds"] * torch.where(good & (run > 0), fallen.clamp(min=0.0), 0 * fallen)
    if "entropy_bonus" in shared:
        total = total - shared["entropy_bonus"] * case.entropy[rows]
    return (
        weights_by_hand(shared.get("aggregation") or info.function.aggregation, len(rows))
        * total.sum()
        * (
            7.0 / shared.get("norm", 1024.0)
            if "-norm" in (shared.get("aggregation") or info.function.aggregation)
            else 1.0
        )
    )


@pytest.mark.parametrize(("number", "name"), list(enumerate(OBJECTIVES)))
def test_no_term_changes_another(number, name):
    """A pair is refused, or its gradient is the sum of those of its terms, each with the same weights of tokens."""
    case, rows, needs, checked = Case(), list(range(9)), ("ref", "rollout", "entropy"), 0
    function = OBJECTIVES[name].function
    for turned, own in enumerate(variants(function)):
        for start in range(1 if own else ROUNDS):
            for shared in pairs(ROUNDS * number + turned + start):
                moved = shared.get("aggregation", function.aggregation) != function.aggregation
                refused = function.whole and ("correction" in shared or moved)
                if refused or (function.weighed and shared.get("correction") in WEIGHING):
                    with pytest.raises(ConfigError, match=r"nothing can weigh its tokens|already corrects"):
                        case.loss(name, rows, needs, **own, **shared)
                    continue
                found = case.gradient(case.loss(name, rows, needs, **own, **shared))
                expected = case.gradient(assembled(case, name, rows, own, shared))
                assert torch.allclose(found, expected, rtol=1e-7, atol=1e-12), (own, shared)
                checked += 1
    assert checked > 10


# -- the policy gradient itself --

ONE_SIDED = {"a_lol", "a_lol_seq", "a_lol_ref_free", "otr", "self_imitation"}
"""Objectives that leave bad actions out, or spare unlikely ones, as their authors want."""


@pytest.mark.parametrize("name", OBJECTIVES)
def test_at_the_old_policy_every_objective_has_the_policy_gradient(name):
    """E over the answers of dl = -c E[A dn], with one c, where no token is more uncertain than others."""
    function = OBJECTIVES[name].function
    if function.whole or function.spreads or name in ONE_SIDED | {"kl_penalty", "llds"}:
        return
    case = Case()
    case.old = case.rollout = case.new.detach()
    case.advantages = case.advantages[:, :1].expand(-1, 2)  # of whole answers
    case.entropy = torch.ones(9, 2, dtype=torch.float64)
    found = case.expected(name, case.old)
    exact = case.gradient(-(case.new.detach().sum(1).exp()[:, None] * case.advantages * case.new).sum())
    factor = (found * exact).sum() / (exact * exact).sum()
    assert factor > 0
    torch.testing.assert_close(found, factor * exact)

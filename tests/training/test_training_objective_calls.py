"""Every objective called as a user calls it, on [B, L] tensors: dtypes, empty rows, extreme and infinite numbers."""

import math
from itertools import product

import pytest
import torch

from turncredit.training.errors import ConfigError
from turncredit.training.objectives import CORRECTIONS, KL_ESTIMATORS, get, objectives
from turncredit.training.objectives.terms import SHARED

torch.set_num_threads(1)
DTYPES = [torch.float32, torch.float64]
TERMS = {"kl": 0.1, "kl_corrected": True, "entropy_bonus": 0.01, "entropy_target": 9.0, "llds": 0.2}
HUGE = 1000.0  # nats


def _batch(dtype, rows=4, width=7):
    """logprobs (a leaf), old, advantages, mask with an empty row and a hole, and the optional columns."""
    generator = torch.Generator().manual_seed(3)
    draw = lambda scale: scale * torch.randn(rows, width, generator=generator, dtype=torch.float64)  # noqa: E731
    old = -2.0 - draw(0.5).abs()
    mask = torch.rand(rows, width, generator=generator) < 0.8
    mask[:, 0], mask[:, 3] = True, False
    mask[1:2] = False
    more = {"ref": old + draw(0.1), "rollout": old + draw(0.02), "entropy": draw(1.0).abs() + 0.1}
    more |= {name: -3.0 + draw(0.1) for name in ("mean_logprob", "old_mean_logprob")}
    first = [column.to(dtype) for column in (old + draw(0.1), old, draw(1.0))]
    more = {key: value.to(dtype) for key, value in more.items()}
    return first[0].requires_grad_(), first[1], first[2], mask, more | _episodes(rows, dtype)


def _episodes(rows, dtype):
    """Outcome, group and source of each row: one group with winners, losers and an answer of a teacher."""
    number = torch.arange(rows)
    outcome = (number % 4 == 0) | (number % 4 == 3)
    return {"outcome": outcome.to(dtype), "group": torch.zeros_like(number), "source": 2 * (number % 4 == 3).long()}


def _checked(name, new, old, advantages, mask, more, **options):
    """The loss and its gradient, both finite and of the dtype that came in."""
    loss, stats = get(name)(new, old, advantages, mask, **more, **options)
    assert loss.shape == ()
    assert loss.dtype == new.dtype
    assert math.isfinite(loss.item())
    assert int(stats["tokens"]) == int(mask.sum())
    assert all(not value.requires_grad for value in stats.values())
    (gradient,) = torch.autograd.grad(loss, new, allow_unused=True)
    gradient = torch.zeros_like(new) if gradient is None else gradient
    assert torch.isfinite(gradient).all()
    assert (gradient[~mask.bool()] == 0).all()
    return loss.item(), gradient


@pytest.mark.parametrize("name", objectives())
def test_the_one_signature(name, subtests):
    for terms, dtype in product([{}, TERMS], DTYPES):
        with subtests.test(terms=terms, dtype=dtype):
            _obeys_the_signature(name, terms, dtype)


def _obeys_the_signature(name, terms, dtype):
    new, old, advantages, mask, more = _batch(dtype)
    loss, gradient = _checked(name, new, old, advantages, mask, more, **terms)
    assert loss != 0.0
    assert (gradient != 0).any()
    exact, exact_gradient = _checked(name, *_batch(torch.float64)[:4], _batch(torch.float64)[4], **terms)
    assert loss == pytest.approx(exact, rel=1e-4, abs=1e-6)
    torch.testing.assert_close(gradient.double(), exact_gradient, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", objectives())
def test_nothing_to_learn_from(name, dtype):
    new, old, advantages, mask, more = _batch(dtype)
    nothing = torch.zeros_like(mask)
    for terms in ({}, TERMS):
        loss, gradient = _checked(name, new, old, advantages, nothing, more, **terms)
        assert (loss, gradient.abs().max().item()) == (0.0, 0.0)
    for shape in ((0, 5), (3, 0)):
        empty = torch.zeros(shape, dtype=dtype)
        names = ("ref", "rollout", "entropy", "mean_logprob", "old_mean_logprob")
        columns = dict.fromkeys(names, empty) | _episodes(shape[0], dtype)
        assert _checked(name, empty.clone().requires_grad_(), empty, empty, empty.bool(), columns, **TERMS)[0] == 0.0


@pytest.mark.parametrize("name", objectives())
def test_columns_of_other_kinds_count_as_their_numbers(name):
    new, old, advantages, mask, more = _batch(torch.float32)
    whole = (10 * advantages).long()
    one, slope = _checked(name, new, old, whole.float(), mask, more)
    other, same = _checked(name, new, old.double(), whole, mask.int(), {k: v.double() for k, v in more.items()})
    assert (one, slope.tolist()) == (other, same.tolist())


@pytest.mark.parametrize("name", objectives())
def test_extreme_ratios_stay_numbers(name, subtests):
    for terms, drift, dtype in product([{}, TERMS, {"correction": "tis_sequence"}], [HUGE, -HUGE, "mixed"], DTYPES):
        with subtests.test(terms=terms, drift=drift, dtype=dtype):
            _stays_a_number_with_extreme_ratios(name, terms, drift, dtype)


def _stays_a_number_with_extreme_ratios(name, terms, drift, dtype):
    new, old, advantages, mask, more = _batch(dtype)
    sign = torch.where(torch.arange(new.numel()).reshape(new.shape) % 2 == 0, 1.0, -1.0)
    moved = old + (HUGE * sign if drift == "mixed" else drift)
    more |= {"ref": old - (moved - old), "rollout": moved}
    if name == "decoupled" or get(name).function.whole:  # which has its own, or nothing to correct
        terms = {key: value for key, value in terms.items() if key != "correction"}
    _checked(name, moved.to(dtype).requires_grad_(), old, advantages, mask, more, **terms)


@pytest.mark.parametrize("name", objectives())
def test_a_probability_of_zero_stays_a_number(name, subtests):
    columns = ("logprobs", "old", "ref", "rollout", "logprobs and old", "everywhere")
    for terms, where in product([{}, TERMS], columns):
        with subtests.test(terms=terms, where=where):
            _stays_a_number_with_probabilities_of_zero(name, terms, where)


def _stays_a_number_with_probabilities_of_zero(name, terms, where):
    new, old, advantages, mask, more = _batch(torch.float32)
    never = torch.zeros_like(mask)
    never[0, 1], never[2, 0] = True, True
    columns = {"logprobs": new.detach(), "old": old, **more}
    for key in columns if where == "everywhere" else where.split(" and "):
        if key in ("logprobs", "old", "ref", "rollout"):
            columns[key] = columns[key].masked_fill(never, -math.inf)
    first = columns.pop("logprobs").requires_grad_(), columns.pop("old"), advantages, mask
    _, gradient = _checked(name, *first, columns, **terms)
    if "logprobs" in where:
        assert (gradient[never & mask][: int(mask[0, 1])] == 0).all()


@pytest.mark.parametrize("estimator", KL_ESTIMATORS)
@pytest.mark.parametrize("correction", CORRECTIONS)
def test_terms_at_the_extremes(estimator, correction):
    new, old, advantages, mask, more = _batch(torch.float32)
    more |= {"ref": old + HUGE, "rollout": (old - HUGE).masked_fill(mask & (advantages > 1.0), -math.inf)}
    terms = {"kl": 0.1, "kl_estimator": estimator, "kl_corrected": estimator == "k1", "correction": correction}
    _checked("ppo_clip", new, old, advantages, mask, more, **terms)


@pytest.mark.parametrize("name", objectives())
def test_numbers_that_are_none_show(name):
    new, old, advantages, mask, more = _batch(torch.float64)
    loss, _ = get(name)(new.detach().masked_fill(mask, math.nan), old, advantages, mask, **more)
    assert math.isnan(loss.item())


@pytest.mark.parametrize(
    ("name", "option"), [(name, option) for name in objectives() for option in get(name).function.options]
)
def test_every_option_is_checked(name, option):
    batch = _batch(torch.float64)
    slip = option[:-1] + ("_" if option[-1] != "_" else "-")
    with pytest.raises(ConfigError, match=f"{name} has no option '{slip}'"):
        get(name)(*batch[:4], **batch[4], **{slip: 1.0})
    with pytest.raises(ConfigError, match=f"'{option}'.*list|'{option}'.*\\[\\]"):
        get(name)(*batch[:4], **batch[4], **{option: []})
    if isinstance(get(name).function.options[option], float):
        with pytest.raises(ConfigError, match=f"'{option}' must be a finite number"):
            get(name)(*batch[:4], **batch[4], **{option: math.inf})


@pytest.mark.parametrize("option", SHARED)
def test_the_shared_options_are_checked(option):
    batch = _batch(torch.float64)
    with pytest.raises(ConfigError, match=f"did you mean '{option}'|choices"):
        get("ppo_clip")(*batch[:4], **batch[4], **{f"{option}s": 1.0})
    with pytest.raises(ConfigError):
        get("ppo_clip")(*batch[:4], **batch[4], **{option: []})


def test_a_dual_clip_can_be_switched_off():
    new, old, advantages, mask, more = _batch(torch.float64)
    for name in ("ppo_clip", "dcpo", "hapo"):
        off, zero = (get(name)(new, old, advantages, mask, **more, dual_clip=value)[0].item() for value in (None, 0))
        assert off == zero


def test_log_probabilities_must_be_floats():
    with pytest.raises(ValueError, match="logprobs must be floats"):
        get("ppo_clip")(*(torch.zeros(1, 1, dtype=torch.int64),) * 3, torch.ones(1, 1))


@pytest.mark.parametrize("name", objectives())
def test_an_objective_needs_exactly_the_columns_that_it_lists(name):
    """It runs with them, and names each one that is missing."""
    new, old, advantages, mask, more = _batch(torch.float64)
    columns = {key: more[key] for key in get(name).needs}
    options = {"by_entropy": True} if name == "dhpo" else {}  # its column is that of an option
    _checked(name, new, old, advantages, mask, columns, **options)
    for key in columns:
        with pytest.raises(ValueError, match=f"'{key}'"):
            get(name)(new, old, advantages, mask, **{k: v for k, v in columns.items() if k != key}, **options)

"""Transforms of token advantages: hand-computed batches, published figures, padding, shapes and the list of names."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turncredit.credit import BadOption, BadTable, UnknownRule
from turncredit.credit.tokens import (
    ace,
    d3s,
    dcpo_distribution,
    gtpo,
    hapo,
    hicra,
    mssr,
    nthr,
    rto_rewards,
    thr,
    transform,
    transforms,
    tw_grpo,
)
from turncredit.credit.tokens.d3s import widest
from turncredit.credit.tokens.gtpo import conflict_tokens
from turncredit.credit.tokens.hapo import relative_entropy

NAMES = ["hicra", "gtpo", "hapo", "d3s", "ace", "mssr", "dcpo_distribution", "tw_grpo", "thr", "nthr"]
MANY = settings(max_examples=80, deadline=None)


def batch(seed, count=5, length=6):
    """A random batch with holes in the mask, few token ids so that conflicts occur, and every array there is."""
    rng = np.random.default_rng(seed)
    mask = rng.random((count, length)) < 0.7
    advantages = np.repeat(rng.choice([-1.0, 1.0, 0.5, 0.0], (count, 1)), length, axis=1)
    arrays = {
        "entropy": rng.gamma(1.0, 0.5, (count, length)),
        "ids": rng.integers(0, 3, (count, length)),
        "planning": rng.random((count, length)) < 0.5,
        "logprobs": -rng.gamma(1.0, 1.0, (count, length)),
        "ref": -rng.gamma(1.0, 1.0, (count, length)),
        "hot": -rng.gamma(1.0, 1.0, (count, length)),
        "cold": -rng.gamma(1.0, 1.0, (count, length)),
        "divergence": rng.gamma(1.0, 1.0, (count, length)),
        "influence_of_winners": rng.normal(0.5, 1.0, (count, length)),
        "influence_of_losers": rng.normal(0.0, 1.0, (count, length)),
        "ratio": np.exp(rng.normal(0.0, 0.2, (count, length))),
        "group": rng.integers(0, 2, count),
    }
    return advantages, mask, arrays


def run(name, advantages, mask, arrays, **options):
    item = transform(name, **options)
    return item(advantages, mask, **{array: arrays[array] for array in item.takes})


def test_hicra_published_figures():
    advantages = [[0.8660239, -0.8660239, 0.8660239, -0.8660239]]
    result = hicra(advantages, [[1, 1, 1, 1]], planning=[[1, 1, 0, 1]], alpha=0.2)
    assert result.values[0] == pytest.approx([1.03922868, -0.69281912, 0.8660239, -0.69281912], abs=1e-8)


def test_ace_published_figures():
    result = ace([[-1.0], [-1.0]], [[1], [1]], logprobs=[[0.5], [-0.5]], ref=[[0.0], [0.0]], alpha=1.0)
    assert result.values[:, 0] == pytest.approx([-1.97407698, -1.47407698], abs=1e-8)


def test_ace_judges_the_whole_sequence_and_leaves_what_is_not_negative():
    """Log-ratios 1 and 2 and, outside the mask, 50: c = 3, per token 1.5."""
    arguments = {"logprobs": [[0.0, 0.0, 0.0]], "ref": [[-1.0, -2.0, -50.0]]}
    result = ace([[-1.0, 2.0, 9.0]], [[1, 1, 0]], **arguments)
    assert result.values[0] == pytest.approx([-1.0 - math.log1p(math.exp(3.0)), 2.0, 0.0])
    mean = ace([[-1.0, 2.0, 9.0]], [[1, 1, 0]], over="mean", **arguments)
    assert mean.values[0, 0] == pytest.approx(-1.0 - math.log1p(math.exp(1.5)))
    huge = ace([[-1.0]], [[1]], logprobs=[[0.0]], ref=[[-1e6]])
    assert huge.values.tolist() == [[-1e6 - 1.0]]  # softplus without overflow


def test_mssr_by_hand():
    """alpha H is 0.2, 0.2, 1.2 and 0.4; of the last two advantages a half, 0.5 and 0.1, is less."""
    entropy = [[0.5, 0.5, 3.0, 1.0]]
    result = mssr([[1.0, -1.0, -1.0, 0.2]], [[1] * 4], entropy=entropy, logprobs=[[-1.0] * 4])
    assert result.values[0] == pytest.approx([1.2, -0.8, -0.5, 0.3])
    result = mssr([[1.0, -1.0]], [[1, 1]], entropy=[[9.0] * 2], logprobs=[[-1.0, 0.0]], uncertainty="token")
    assert result.values[0] == pytest.approx([1.0 + 0.4 / math.e, -1.0])  # a sure token adds nothing


def test_tw_grpo_by_hand():
    """Divergences from 0.5 to 2.5 in the first group: 1.5 is half the way. In the second all are equal."""
    mask = [[1, 1, 1], [1, 1, 0], [1, 1, 0]]
    divergence = [[0.5, 1.5, 2.5], [0.5, 1.5, 99.0], [3.0, 3.0, 7.0]]
    advantages = [[2.0] * 3, [-2.0] * 3, [1.0] * 3]
    result = tw_grpo(advantages, mask, divergence=divergence, group=["a", "a", "b"])
    assert result.values.tolist() == [[2.0, 2.5, 3.0], [-2.0, -2.5, 0.0], [1.0, 1.0, 0.0]]
    assert (
        tw_grpo(advantages, mask, divergence=divergence, group=["a", "a", "b"], most=1.0).values[0].tolist()
        == [2.0] * 3
    )


def test_thr_by_hand():
    """s = 2, -1, 0: raised tokens of winners and losers alike get a tenth more, lowered ones a tenth less."""
    arrays = {"influence_of_winners": [[3.0, 0.0, 1.0]] * 2, "influence_of_losers": [[1.0, 1.0, 1.0]] * 2}
    advantages, mask = [[1.0] * 3, [-1.0] * 3], np.ones((2, 3))
    result = thr(advantages, mask, **arrays)
    assert result.values.ravel() == pytest.approx([1.1, 0.9, 1.0, -1.1, -0.9, -1.0])
    assert thr(advantages, mask, **arrays, kappa=-0.2).values[0] == pytest.approx([0.8, 1.2, 1.0])
    assert thr(advantages, mask, **arrays, least=1.5).values[0] == pytest.approx([1.1, 0.0, 0.0])


@pytest.mark.parametrize(("losers", "factor"), [(1, 0.0), (3, 0.5), (9, 0.8)])
def test_nthr_by_hand(losers, factor):
    """The winner's mean influence is 2: losers' tokens above it lose their penalty, the less rare wins are the more."""
    advantages = [[1.0, 1.0], *[[-1.0, -1.0]] * losers]
    influence = [[1.0, 3.0], *[[2.5, 2.0]] * losers]
    result = nthr(advantages, np.ones((losers + 1, 2)), influence_of_winners=influence, group=[0] * (losers + 1))
    assert result.values.tolist() == [[1.0, 1.0], *[[pytest.approx(-factor), -1.0]] * losers]


def test_nthr_of_a_group_without_winners_or_losers_changes_nothing():
    advantages, influence = [[-1.0], [-2.0], [1.0]], [[5.0], [6.0], [0.0]]
    result = nthr(advantages, [[1]] * 3, influence_of_winners=influence, group=[0, 0, 1])
    assert result.values.tolist() == advantages
    two = nthr([[1.0], [2.0], [-1.0]], [[1]] * 3, influence_of_winners=[[4.0], [2.0], [2.5]], group=[0] * 3, beta=1.5)
    assert two.values[2].tolist() == [-1.0]  # the limit is 3, from the winner that is least like winners


def test_dcpo_distribution_by_hand():
    """0.3 nats from the target count as 0.1, one of four sequences is good: b = 0.4, a = 0.2857; p_T / p is e^0.5."""
    advantages, mask = [[1.0, 0.0], [-1.0, -1.0], [0.05, 0.0], [0.0, 0.0]], np.ones((4, 2))
    same = np.full((4, 2), -1.0)
    for mean, ratio in ((0.2, math.exp(0.5)), (0.8, math.exp(-0.25))):  # too sure, too unsure
        arrays = {"entropy": np.full((4, 2), mean), "logprobs": same, "hot": same + 0.5, "cold": same - 0.25}
        result = dcpo_distribution(advantages, mask, **arrays).values
        assert result[0] == pytest.approx([(1 + 0.4 * ratio) / 1.4, 0.0])
        assert result[1] == pytest.approx([-1 / 1.4] * 2)
        assert result[2] == pytest.approx([0.05 / 1.4, 0.0])  # good is above 0.05
        none = dcpo_distribution(np.full((4, 2), -1.0), mask, **arrays)
        assert none.values.tolist() == [[-1.0, -1.0]] * 4
    at = dcpo_distribution(advantages, mask, **{**arrays, "entropy": np.full((4, 2), 0.5)})
    assert at.values.tolist() == advantages


def test_rto_by_hand():
    """Differences of 0.4, -2 and 0.02 nats at 0.05 per nat, within 0.05; the score is at the last trained token."""
    mask = [[0, 1, 1, 1, 0], [1, 0, 0, 0, 0]]
    preferred = [[math.nan, 0.4, -2.0, 0.02, math.nan], [0.0] * 5]
    result = rto_rewards(preferred, np.zeros((2, 5)), [1.0, -0.5], mask)
    assert result[0] == pytest.approx([0.0, 0.02, -0.05, 1.001, 0.0])
    assert result[1].tolist() == [-0.5, 0.0, 0.0, 0.0, 0.0]
    assert rto_rewards([[0.0]], [[0.0]], [0.0], [[0]]).tolist() == [[0.0]]
    assert rto_rewards(np.zeros((0, 3)), np.zeros((0, 3)), [], np.zeros((0, 3))).shape == (0, 3)
    with pytest.raises(BadTable, match="sequence 0 has a score, but no trained token"):
        rto_rewards([[0.0]], [[0.0]], [1.0], [[0]])
    with pytest.raises(BadTable, match="scores must have shape"):
        rto_rewards([[0.0]], [[0.0]], [1.0, 2.0], [[1]])
    with pytest.raises(BadOption, match="limit"):
        rto_rewards([[0.0]], [[0.0]], [1.0], [[1]], limit=-1.0)


def test_gtpo_by_hand():
    """Ids 5 6 7 9, 5 8 7 9 and, a token shorter, 5 7 9: front run 5; from the end 9 and 7; entropy 0.2 takes 0.02."""
    ids = [[5, 6, 7, 9], [5, 8, 7, 9], [5, 7, 9, 0]]
    mask = np.array([[1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 0]], dtype=bool)
    advantages = np.array([[1.0], [-1.0], [-0.5]]) * np.ones((3, 4))
    result = gtpo(advantages, mask, ids=ids, entropy=np.full((3, 4), 0.2), group=["q"] * 3)
    expected = [[1.96, 0.98, 1.96, 1.96], [0.0, -1.02, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    assert result.values == pytest.approx(np.array(expected))
    assert result.keep.tolist() == mask.tolist()


def test_gtpo_a_run_ends_where_a_token_is_not_shared():
    """The third token is shared again, but neither run reaches it: the sequences differ before it and after it."""
    ids = [[5, 6, 7, 8], [5, 1, 7, 2]]
    conflict = conflict_tokens(
        np.array([[1.0] * 4, [-1.0] * 4]), np.ones((2, 4), dtype=bool), np.array(ids), np.zeros(2, dtype=np.int64)
    )
    assert conflict.tolist() == [[True, False, False, False]] * 2


def test_gtpo_places_count_trained_tokens():
    """An observation inside one sequence does not move its tokens: both write 5 6."""
    mask = [[1, 0, 1], [1, 1, 0]]
    result = gtpo([[1.0] * 3, [-1.0] * 3], mask, ids=[[5, 4, 6], [5, 6, 4]], entropy=np.zeros((2, 3)), group=[0, 0])
    assert result.values.tolist() == [[2.0, 0.0, 2.0], [0.0, 0.0, 0.0]]


def test_gtpo_other_groups_and_sequences_of_one_sign_do_not_conflict():
    ids, entropy = [[5], [5], [5]], np.zeros((3, 1))
    advantages = [[1.0], [-1.0], [2.0]]
    mask = np.ones((3, 1), dtype=bool)
    assert gtpo(advantages, mask, ids=ids, entropy=entropy, group=[0, 1, 0]).values.tolist() == advantages
    zero = gtpo([[1.0], [0.0], [1.0]], mask, ids=ids, entropy=entropy, group=[0, 0, 0])
    assert zero.values.tolist() == [[1.0], [0.0], [1.0]]


def test_gtpo_leaves_uncertain_sequences_out():
    mask = np.array([[1, 1], [1, 1]], dtype=bool)
    result = gtpo(np.ones((2, 2)), mask, ids=[[1, 2], [3, 4]], entropy=[[0.6, 0.6], [0.6, 0.8]], group=[0, 0])
    assert result.values == pytest.approx(np.array([[0.94, 0.94], [0.0, 0.0]]))  # mean entropy 0.7 is above log 2
    assert result.keep.all()
    lenient = gtpo(np.ones((2, 2)), mask, ids=[[1, 2], [3, 4]], entropy=[[0.6, 0.6], [0.6, 0.8]], group=[0, 0],
                   entropy_limit=1.0)  # fmt: skip
    assert lenient.values[1] == pytest.approx([0.93, 0.93])


def plain_conflict(advantages, mask, ids, group):
    """Conflict tokens in plain loops, on lists of each sequence's trained tokens."""
    words = [[int(i) for i, m in zip(row, on, strict=True) if m] for row, on in zip(ids, mask, strict=True)]
    out = np.zeros(mask.shape, dtype=bool)
    for i, mine in enumerate(words):
        places = np.flatnonzero(mask[i])
        for step in (1, -1):
            for depth in range(len(mine)):
                at = depth if step == 1 else -1 - depth
                signs = {
                    np.sign(advantages[j, 0]) for j, other in enumerate(words)
                    if group[j] == group[i] and depth < len(other) and other[at] == mine[at]
                }  # fmt: skip
                if not {1.0, -1.0} <= signs:
                    break
                out[i, places[at]] = True
    return out


@given(st.integers(0, 10**6))
@MANY
def test_gtpo_equals_the_plain_loops(seed):
    advantages, mask, arrays = batch(seed)
    result = conflict_tokens(np.where(mask, advantages, 0.0), mask, arrays["ids"], arrays["group"])
    assert result.tolist() == plain_conflict(advantages, mask, arrays["ids"], arrays["group"]).tolist()


def test_standing_by_hand():
    """Logs 0 1 2 3 4; the 0.75-quantile is 3: distances -3 -2 -1 0 1, over 3 below and 1 above."""
    entropy = np.exp([[0.0, 1.0, 2.0, 3.0, 4.0, 9.0]])
    mask = np.array([[True] * 5 + [False]])
    assert relative_entropy(entropy, mask, pivot=0.75)[0] == pytest.approx([-1.0, -2 / 3, -1 / 3, 0.0, 1.0, 0.0])
    assert relative_entropy(entropy, mask, pivot=0.7)[0].argmin() == 0
    assert relative_entropy(entropy, mask, pivot=0.7)[0, 3] == 0.0  # 0.7 of the way from 0 to 4 is nearest to 3
    released = relative_entropy(entropy, mask, pivot=0.75, released=True)[0]
    assert released == pytest.approx([1.0, 2 / 3, 1 / 3, 0.0, 1.0, 0.0])


def test_hapo_by_hand():
    """h = -1, 0, 1; the zone is 0.9 .. 1.1, widened 0.8 .. 1.1 for the sure token and 0.9 .. 1.2 for the unsure."""
    advantages, mask, entropy = np.full((1, 3), 2.0), np.ones((1, 3)), np.exp([[0.0, 1.0, 2.0]])
    plain = {"pivot": 0.5, "beta": 0.5, "clip_alpha": 0.0}
    assert hapo(advantages, mask, entropy=entropy, **plain).values.tolist() == [[1.0, 2.0, 2.0]]
    inside, outside = np.full((1, 3), 1.0), np.full((1, 3), 1.15)
    assert hapo(advantages, mask, entropy=entropy, ratio=inside, **plain).values.tolist() == [[1.0, 2.0, 2.0]]
    assert hapo(advantages, mask, entropy=entropy, ratio=outside, **plain).values.tolist() == [[2.0, 2.0, 3.0]]
    wide = {"pivot": 0.5, "beta": 0.5}
    assert hapo(advantages, mask, entropy=entropy, ratio=outside, **wide).values.tolist() == [[2.0, 2.0, 2.0]]
    low = np.full((1, 3), 0.85)
    assert hapo(advantages, mask, entropy=entropy, ratio=low, **wide).values.tolist() == [[1.0, 2.0, 3.0]]
    assert hapo(advantages, mask, entropy=entropy, ratio=low, **plain).values.tolist() == [[2.0, 2.0, 3.0]]


def test_hapo_released_reproduces_the_published_loss():
    """A batch with large ratios, on which the published loss (adaptive clip, dual clip at 10) is 0.464625."""
    new = np.array(
        [
            [-0.480506, -0.475334, -0.477136, -2.445240, -1.646070, -0.628471],
            [-0.202841, -0.618274, -0.956428, -0.000100, -1.078097, -2.449745],
            [-0.351413, -0.258359, -1.141386, -0.000100, -0.832662, -0.000100],
            [-1.379623, -2.979713, -1.394289, -0.838501, -0.153775, -0.000100],
        ]
    )
    old = np.array(
        [
            [-0.257259, -0.147823, -0.279360, -2.464130, -1.627730, -0.634717],
            [-0.042347, -0.700630, -1.013167, -0.024739, -0.138834, -3.156782],
            [-0.006776, -1.288704, -1.747840, -0.343934, -0.965343, -0.014279],
            [-1.460963, -3.319822, -0.431098, -0.151572, -0.791174, -0.044682],
        ]
    )
    entropy = np.array(
        [
            [0.278573, 1.489367, 1.237922, 0.158099, 1.414084, 0.301626],
            [0.694424, 3.646439, 1.496334, 0.436007, 0.020808, 2.059366],
            [0.425097, 0.517561, 0.160266, 0.533039, 0.141083, 0.008000],
            [0.592370, 0.316980, 0.912369, 0.364219, 0.940659, 0.132991],
        ]
    )
    mask = np.array([[True] * 6] + [[True] * 5 + [False]] * 3)
    advantages = np.array([[0.838941], [0.950645], [-0.633905], [-1.880542]]) * mask
    ratio = np.exp(new - old)
    values = hapo(advantages, mask, entropy=entropy, ratio=ratio, released=True).values
    clipped = np.clip(ratio, 0.8, 1.2 + 0.2 * relative_entropy(entropy, mask, released=True))
    loss = np.maximum(-values * ratio, -values * clipped)
    loss = np.where(values < 0.0, np.minimum(loss, -10.0 * values), loss)
    assert loss[mask].mean() == pytest.approx(0.464625, abs=1e-5)
    assert hapo(advantages, mask, entropy=entropy, ratio=ratio).values != pytest.approx(values)


def test_hapo_equal_entropies_change_nothing():
    advantages, mask = np.array([[1.0, -1.0]]), np.ones((1, 2))
    assert hapo(advantages, mask, entropy=[[0.3, 0.3]]).values.tolist() == advantages.tolist()
    assert hapo(advantages, mask, entropy=[[0.0, 0.0]], ratio=[[5.0, 0.1]]).values.tolist() == advantages.tolist()


def test_d3s_by_hand():
    """Sequences 1, 0.9, -1: the two furthest apart. Of their four tokens the two with the largest |A| * H."""
    advantages = np.array([[1.0, 1.0], [0.9, 0.9], [-1.0, -1.0]])
    entropy = [[0.1, 0.4], [9.0, 9.0], [0.3, 0.2]]
    result = d3s(advantages, np.ones((3, 2)), entropy=entropy, sequences=0.6, tokens=0.5)
    assert result.keep.tolist() == [[False, True], [False, False], [True, False]]
    assert result.values.tolist() == advantages.tolist()


def test_d3s_selects_within_groups_and_keeps_equal_tokens():
    advantages, mask = np.array([[1.0], [2.0], [5.0], [5.5]]), np.ones((4, 1))
    result = d3s(advantages, mask, entropy=np.zeros((4, 1)), group=["a", "a", "b", "b"], sequences=0.5, tokens=0.1)
    assert result.keep[:, 0].sum() == 2  # one of each group; their products are all zero, so none is cut
    assert result.keep[:2].sum() == 1


@given(
    st.lists(st.sampled_from([0.0, 1.0, -1.0, 0.25, 3.0]), min_size=1, max_size=7),
    st.sampled_from([0.2, 0.5, 0.75, 1.0]),
)
@MANY
def test_d3s_finds_the_largest_variance_there_is(advantages, share):
    """Against all subsets of the size."""
    result = widest(np.array(advantages), np.zeros(len(advantages), dtype=np.int64), share)
    wanted = max(1, math.ceil(share * len(advantages)))
    assert result.sum() == wanted
    best = max(np.var(subset) for subset in combinations(advantages, wanted))
    assert np.var(np.array(advantages)[result]) == pytest.approx(best, abs=1e-8)


def test_d3s_everything_can_be_kept():
    advantages, mask, arrays = batch(0)
    result = d3s(advantages, mask, entropy=arrays["entropy"], sequences=1.0, tokens=1.0)
    assert result.keep.tolist() == mask.tolist()


@given(st.sampled_from(NAMES), st.integers(0, 10**6))
@MANY
def test_what_lies_outside_the_mask_changes_nothing(name, seed):
    """Not even if it is no number; and the result there is zero and not kept."""
    advantages, mask, arrays = batch(seed)
    result = run(name, advantages, mask, arrays)
    spoilt = {
        key: np.where(mask, value, 7) if key in ("ids", "planning") else np.where(mask, value, np.nan)
        if key != "group" else value
        for key, value in arrays.items()
    }  # fmt: skip
    again = run(name, np.where(mask, advantages, np.nan), mask, spoilt)
    assert again.values.tolist() == result.values.tolist()
    assert again.keep.tolist() == result.keep.tolist()
    assert not result.values[~mask].any()
    assert not (result.keep & ~mask).any()


@given(st.sampled_from(NAMES), st.integers(0, 10**6), st.integers(1, 4))
@MANY
def test_padding_changes_nothing(name, seed, width):
    advantages, mask, arrays = batch(seed)
    result = run(name, advantages, mask, arrays)
    pad = [(0, 0), (0, width)]
    wider = {key: value if key == "group" else np.pad(value, pad) for key, value in arrays.items()}
    again = run(name, np.pad(advantages, pad), np.pad(mask, pad), wider)
    assert again.values[:, :6] == pytest.approx(result.values, abs=1e-12)
    assert again.keep[:, :6].tolist() == result.keep.tolist()


@given(st.sampled_from(NAMES), st.integers(0, 10**6), st.permutations(range(5)))
@MANY
def test_the_order_of_sequences_means_nothing(name, seed, order):
    advantages, mask, arrays = batch(seed)
    advantages = advantages + np.linspace(0.0, 0.1, 5)[:, None]  # no two alike: d3s takes equal ones in order
    shuffled = {key: value[order] for key, value in arrays.items()}
    result = run(name, advantages, mask, arrays)
    again = run(name, advantages[order], mask[order], shuffled)
    assert again.values.tolist() == result.values[order].tolist()
    assert again.keep.tolist() == result.keep[order].tolist()


@pytest.mark.parametrize("name", NAMES)
def test_batches_without_sequences_or_without_trained_tokens(name):
    advantages, mask, arrays = batch(1)
    none = run(name, advantages, np.zeros_like(mask), arrays)
    assert not none.values.any()
    assert not none.keep.any()
    empty = {key: value[:0] for key, value in arrays.items()}
    assert run(name, advantages[:0], mask[:0], empty).values.shape == (0, 6)


def test_what_each_transform_reads():
    result = {name: (item.needs, item.takes) for name, item in transforms().items()}
    assert result == {
        "ace": (("logprobs", "ref"), ("logprobs", "ref")),
        "d3s": (("entropy",), ("entropy", "group")),
        "dcpo_distribution": (("entropy", "logprobs", "hot", "cold"),) * 2,
        "gtpo": (("ids", "entropy", "group"), ("ids", "entropy", "group")),
        "hapo": (("entropy",), ("entropy", "ratio")),
        "hicra": (("planning",), ("planning",)),
        "mssr": (("entropy", "logprobs"), ("entropy", "logprobs")),
        "nthr": (("influence_of_winners", "group"),) * 2,
        "thr": (("influence_of_winners", "influence_of_losers"),) * 2,
        "tw_grpo": (("divergence", "group"),) * 2,
    }
    assert transforms()["ace"].options == {"alpha": 1.0, "over": "sum"}
    assert transform("hapo", beta=0.5).options["beta"] == 0.5


def test_names_and_options_are_checked_before_there_is_a_batch():
    with pytest.raises(UnknownRule, match="unknown token transform 'hicro'; did you mean 'hicra'"):
        transform("hicro")
    with pytest.raises(BadOption, match="hicra has no option 'alhpa'; did you mean 'alpha'"):
        transform("hicra", alhpa=0.1)
    with pytest.raises(BadOption, match="gtpo has no option 'ids'"):
        transform("gtpo", ids=[[1]])


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("hicra", {"alpha": 1.5}, "alpha"),
        ("ace", {"alpha": -1.0}, "alpha"),
        ("ace", {"over": "means"}, "must be one of .*'mean'"),
        ("mssr", {"kappa": 0.0}, "kappa"),
        ("dcpo_distribution", {"most": -0.1}, "most"),
        ("mssr", {"uncertainty": "tokens"}, "must be one of .*'token'"),
        ("gtpo", {"weight": -2.0}, "weight"),
        ("gtpo", {"entropy_limit": float("nan")}, "entropy_limit"),
        ("hapo", {"beta": "1"}, "beta"),
        ("hapo", {"pivot": 2.0}, "pivot"),
        ("hapo", {"released": 1}, "released must be True or False"),
        ("d3s", {"sequences": 0.0}, "sequences must be > 0"),
        ("d3s", {"tokens": 1.1}, "tokens"),
    ],
)
def test_impossible_values_are_refused(name, options, words):
    with pytest.raises(BadOption, match=words):
        transform(name, **options)


@pytest.mark.parametrize(
    ("advantages", "mask", "planning", "words"),
    [
        ([[1.0, 2.0]], [[1, 1, 1]], [[1, 1, 1]], "hicra: 'advantages' has shape"),
        ([[1.0, 2.0]], [[1, 1]], [1, 1], "hicra: 'planning' has shape"),
        ([[1.0, 2.0]], [[1, 2]], [[1, 1]], "hicra: the mask must be True or False"),
        ([1.0, 2.0], [1, 1], [1, 1], "hicra: the mask must have 2 dimensions"),
        ([[1.0, float("nan")]], [[1, 1]], [[1, 1]], "1 values of 'advantages' inside the mask are not finite"),
    ],
)
def test_batches_that_do_not_fit_are_refused(advantages, mask, planning, words):
    with pytest.raises(BadTable, match=words):
        hicra(advantages, mask, planning=planning)
    with pytest.raises(BadTable, match="gtpo: 'group' has 2 ids"):
        gtpo([[1.0]], [[1]], ids=[[1]], entropy=[[0.0]], group=[0, 1])
    with pytest.raises(BadTable, match="gtpo: 'ids' must be integer"):
        gtpo([[1.0]], [[1]], ids=[[1.5]], entropy=[[0.0]], group=[0])
    with pytest.raises(BadTable, match=r"ace needs logprobs \(.*\) and ref"):
        transform("ace")([[1.0]], [[1]])


def test_a_group_may_be_called_anything():
    advantages, mask, arrays = batch(3)
    names = [("a", 1), None, "b", 1, 1.0]
    renamed = {**arrays, "group": [names[code] for code in np.unique(arrays["group"], return_inverse=True)[1]]}
    assert (
        run("gtpo", advantages, mask, renamed).values.tolist() == run("gtpo", advantages, mask, arrays).values.tolist()
    )


@pytest.mark.parametrize("name", NAMES)
def test_tensors_are_read_as_numbers(name):
    """A tensor that wants a gradient, and one in half precision, which numpy does not have."""
    torch = pytest.importorskip("torch")
    advantages, mask, arrays = batch(3)
    halves = {key: np.round(array * 4) / 4 if array.dtype.kind == "f" else array for key, array in arrays.items()}
    tensors = {key: torch.tensor(array) for key, array in halves.items()}
    tensors = {
        key: tensor.to(torch.bfloat16) if tensor.is_floating_point() else tensor for key, tensor in tensors.items()
    }
    result = run(name, torch.tensor(advantages, requires_grad=True), torch.tensor(mask), tensors)
    wanted = run(name, advantages, mask, halves)
    assert result.values.tolist() == wanted.values.tolist()
    assert result.keep.tolist() == wanted.keep.tolist()

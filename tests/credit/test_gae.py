"""GAE on turns, on trained tokens, and on two levels: hand-computed, published figures, identities, refusals."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toys.tables import rows

from turncredit.credit import (
    BadOption,
    BadTable,
    MissingColumn,
    Steps,
    bilevel_gae,
    discounted_returns,
    gae,
    gae_tokens,
    get,
)

MANY = settings(max_examples=60, deadline=None)
RATE = st.sampled_from([0.0, 0.5, 0.95, 1.0])


def plain(reward, value, gamma, lam):
    """The recursion as it is written, for one sequence."""
    out, ahead = [0.0] * len(reward), 0.0
    for t in reversed(range(len(reward))):
        following = value[t + 1] if t + 1 < len(value) else 0.0
        ahead = reward[t] + gamma * following - value[t] + gamma * lam * ahead
        out[t] = ahead
    return out


# --- turns -----------------------------------------------------------------------------------------------------------

COLUMNS = {
    "task": [0] * 5, "trajectory": ["a", "b", "a", "b", "a"], "turn": [0, 0, 1, 1, 2],
    "reward": [0.0, 0.0, 0.5, -1.0, 1.0], "value": [0.2, 0.1, 0.4, 0.3, 0.6],
}  # fmt: skip


def test_turns_by_hand():
    """gamma = lam = 1/2. a: d = (0 + .2 - .2, .5 + .3 - .4, 1 - .6) = (0, .4, .4); b: d = (.15 - .1, -1 - .3)."""
    result = gae(Steps.from_columns(**COLUMNS), gamma=0.5, lam=0.5)
    assert result.values == pytest.approx([0.125, -0.275, 0.5, -1.3, 0.4], abs=1e-12)
    assert result.parts["return"] == pytest.approx(result.values + np.array(COLUMNS["value"]), abs=1e-12)


def test_cut_off_episodes_get_their_value_with_the_last_reward():
    cut = {**COLUMNS, "reward": [0.0, 0.0, 0.5, -1.0, 1.0 + 0.5 * 0.8]}
    result = gae(Steps.from_columns(**cut), gamma=0.5, lam=1.0)
    assert result.values[4] == pytest.approx(1.0 + 0.5 * 0.8 - 0.6)


def test_an_unfinished_episode_goes_on_at_the_value_of_its_last_turn():
    """V = 0.2, 0.4, 0.5 without rewards, cut: 0.3, 0.1, 0; the same with a reward of 1 at its end: 0.8, 0.6, 0.5."""
    episode = {"task": ["t"] * 3, "turn": [0, 1, 2], "value": [0.2, 0.4, 0.5]}
    for cut, reward, expected in ((True, 0.0, [0.3, 0.1, 0.0]), (False, 1.0, [0.8, 0.6, 0.5])):
        steps = Steps.from_columns(**episode, trajectory=["a"] * 3, reward=[0.0, 0.0, reward], unfinished=[cut] * 3)
        found = gae(steps, gamma=1.0, lam=1.0, bootstrap="last")
        assert found.values == pytest.approx(expected)
    discounted = gae(replace(steps, extra={**steps.extra, "unfinished": np.ones(3, dtype=bool)}), gamma=0.5, lam=0.0,
                     bootstrap="last")  # fmt: skip
    assert discounted.values == pytest.approx([0.0, -0.15, 0.75])  # 0.5 * 0.5 + 1 - 0.5
    with pytest.raises(MissingColumn, match="unfinished"):
        gae(Steps.from_columns(**episode, trajectory=["a"] * 3, reward=[0.0] * 3), bootstrap="last")


def test_an_invalid_action_costs_its_turn():
    free = gae(Steps.from_columns(**COLUMNS), gamma=0.5, lam=0.5).values
    paid = gae(Steps.from_columns(**COLUMNS, valid=[True, True, False, True, True]), gamma=0.5, lam=0.5,
               invalid_penalty=0.1).values  # fmt: skip
    assert paid - free == pytest.approx([-0.025, 0, -0.1, 0, 0], abs=1e-12)


@given(rows(), RATE)
@MANY
def test_without_a_critic_and_with_lambda_one_it_is_the_return(table, gamma):
    steps = Steps.from_rows([{**row, "value": 0.0} for row in table])
    assert (
        gae(steps, gamma=gamma, lam=1.0, invalid_penalty=0.0).values.tolist()
        == discounted_returns(steps, gamma).tolist()
    )


@given(rows(), RATE, RATE, st.randoms(use_true_random=False))
@MANY
def test_turns_agree_with_the_recursion_in_any_order_of_rows(table, gamma, lam, random):
    table = [{**row, "value": random.choice([0.0, 0.3, -1.0])} for row in table]
    found = gae(Steps.from_rows(table), gamma=gamma, lam=lam, invalid_penalty=0.0).values
    for task, trajectory in {(row["task"], row["trajectory"]) for row in table}:
        own = [k for k, row in enumerate(table) if (row["task"], row["trajectory"]) == (task, trajectory)]
        own.sort(key=lambda k: table[k]["turn"])
        wanted = plain([table[k]["reward"] for k in own], [table[k]["value"] for k in own], gamma, lam)
        assert found[own] == pytest.approx(wanted, abs=1e-9)


def test_a_critic_that_knows_leaves_nothing():
    value = discounted_returns(Steps.from_columns(**COLUMNS), 0.9)
    result = gae(Steps.from_columns(**{**COLUMNS, "value": value}), gamma=0.9, lam=0.7)
    assert result.values == pytest.approx(np.zeros(5), abs=1e-12)


def test_whitening_counts_turns_or_tokens():
    tokens = np.array([1, 2, 3, 4, 0])
    steps = Steps.from_columns(**COLUMNS, tokens=tokens)
    plain_values = gae(steps).values
    turn = gae(steps, whitening="turn").values
    assert turn == pytest.approx((plain_values - plain_values.mean()) / np.sqrt(plain_values.var(ddof=1) + 1e-8))
    token = gae(steps, whitening="token")
    spread_out = np.repeat(token.values, tokens)
    assert spread_out.mean() == pytest.approx(0.0, abs=1e-12)
    assert spread_out.var(ddof=1) == pytest.approx(1.0, rel=1e-6)
    assert token.parts["return"] == pytest.approx(plain_values + np.array(COLUMNS["value"]), abs=1e-12)


def test_turns_edges():
    assert len(gae(Steps.empty())) == 0
    assert len(gae(Steps.empty(), whitening="token")) == 0
    steps = Steps.from_columns(**COLUMNS)
    with pytest.raises(MissingColumn, match="gae needs the column 'value'"):
        gae(Steps.from_columns(task=[0], trajectory=[0], turn=[0], reward=[1.0]))
    with pytest.raises(MissingColumn, match="gae needs the column 'tokens'"):
        gae(steps, whitening="token")
    with pytest.raises(BadOption, match="whitening"):
        get("gae", whitening="yes")
    with pytest.raises(BadOption, match="lam"):
        get("gae", lam=1.5)
    copies = Steps.from_columns(**{key: [*column, column[0]] for key, column in COLUMNS.items()},
                                duplicate_of_row=[-1] * 5 + [0])  # fmt: skip
    assert gae(copies, whitening="turn").values.tolist() == [
        *gae(steps, whitening="turn").values.tolist(), gae(steps, whitening="turn").values[0]]  # fmt: skip


# --- trained tokens --------------------------------------------------------------------------------------------------

REWARDS = np.array([[0, 0, 0.5, 0, 0, 0, 1.0]])
VALUES = np.array([[0.1, 0.2, 0.3, 0.9, 0.4, 0.5, 0.6]])
MASK = np.array([[1, 1, 1, 0, 1, 1, 1]])


def test_tokens_published_figures():
    found = gae_tokens(REWARDS, VALUES, MASK, gamma=1.0, lam=0.95)
    wanted = [[1.2132005, 1.17179, 1.1282, 0.0, 0.556, 0.48, 0.4]]
    assert found.advantages == pytest.approx(np.array(wanted), abs=1e-7)
    assert found.returns == pytest.approx((found.advantages + VALUES) * MASK, abs=1e-12)


batches = st.integers(0, 10_000).map(lambda seed: random_batch(np.random.default_rng(seed)))


def random_batch(rng):
    shape = (int(rng.integers(1, 5)), int(rng.integers(1, 9)))
    mask = rng.random(shape) < 0.7
    rewards = np.where(mask, rng.choice([0.0, 0.0, 1.0, -0.5], shape), 0.0)
    ends = mask & (rng.random(shape) < 0.3)
    for row in np.flatnonzero(mask.any(axis=1)):
        ends[row, np.flatnonzero(mask[row])[-1]] = True
    return rewards, rng.normal(size=shape), mask, ends


@given(batches, RATE, RATE)
@MANY
def test_tokens_agree_with_the_recursion_on_what_is_trained(batch, gamma, lam):
    rewards, values, mask, _ = batch
    found = gae_tokens(rewards, values, mask, gamma=gamma, lam=lam)
    for row, own in enumerate(mask):
        assert found.advantages[row][own] == pytest.approx(plain(rewards[row][own], values[row][own], gamma, lam))
    assert not found.advantages[~mask].any()
    assert not found.returns[~mask].any()


@given(batches, RATE)
@MANY
def test_tokens_without_a_critic_and_with_lambda_one_get_the_return(batch, gamma):
    rewards, values, mask, _ = batch
    found = gae_tokens(rewards, 0 * values, mask, gamma=gamma, lam=1.0)
    for row, own in enumerate(mask):
        reward = rewards[row][own]
        wanted = [sum(gamma ** (k - t) * reward[k] for k in range(t, len(reward))) for t in range(len(reward))]
        assert found.advantages[row][own] == pytest.approx(wanted)


@given(batches)
@MANY
def test_whitened_tokens_have_mean_zero_and_padding_changes_nothing(batch):
    rewards, values, mask, ends = batch
    wide = [np.pad(array, ((0, 1), (2, 3))) for array in (rewards, values, mask, ends)]
    inside = (slice(0, len(mask)), slice(2, -3))
    for method, inputs, more in ((gae_tokens, batch[:3], wide[:3]), (bilevel_gae, batch, wide)):
        found = method(*inputs, whitening=True).advantages
        assert found[mask].sum() == pytest.approx(0.0, abs=1e-9)
        assert method(*more, whitening=True).advantages[inside].tolist() == found.tolist()


def test_rewards_outside_the_mask_are_not_lost_in_silence():
    rewards = REWARDS.copy()
    rewards[0, 3] = 2.0
    with pytest.raises(BadTable, match=r"1 rewards, the first is 2 at \[0, 3\]"):
        gae_tokens(rewards, VALUES, MASK)
    ignored = gae_tokens(rewards, VALUES, MASK, outside="ignore")
    assert ignored.advantages.tolist() == gae_tokens(REWARDS, VALUES, MASK).advantages.tolist()


# --- turns above, tokens below ---------------------------------------------------------------------------------------


def test_two_levels_by_hand():
    """gamma_turn = 1/2, lam = 1/2, gamma = 1. Ends 1 and 4 (V .2, .4), rewards 0 and 1.
    Above: A4 = 1 - .4 = .6; A1 = 0 + .5 * .4 - .2 + .25 * .6 = .15.
    Below: A3 = .4 - .5 + .5 * .6 = .2 (place 2 is not trained); A0 = .2 - .1 + .5 * .15 = .175."""
    found = bilevel_gae(
        np.array([[0, 0, 0, 0, 1.0]]), np.array([[0.1, 0.2, 9.0, 0.5, 0.4]]), np.array([[1, 1, 0, 1, 1]]),
        np.array([[0, 1, 0, 0, 1]]), gamma_turn=0.5, gamma=1.0, lam=0.5,
    )  # fmt: skip
    assert found.advantages == pytest.approx(np.array([[0.175, 0.15, 0.0, 0.2, 0.6]]), abs=1e-12)
    assert found.returns == pytest.approx(np.array([[0.275, 0.35, 0.0, 0.7, 1.0]]), abs=1e-12)


def test_two_levels_as_the_published_code_has_them():
    """Printed by RAGEN's function, whitened, for rewards at every end of a turn (it finds the ends by them)."""
    rewards = np.array([[0, 0.5, 0, 0, 1.0], [0, 0, -1, 0, 0]])
    found = bilevel_gae(
        rewards, np.array([[0.1, 0.2, 0.9, 0.5, 0.4], [0.3, 0.6, 0.2, 0, 0]]),
        np.array([[1, 1, 0, 1, 1], [1, 1, 1, 0, 0]]), rewards != 0.0,
        gamma_turn=0.95, gamma=1.0, lam=0.9, whitening=True,
    )  # fmt: skip
    advantages = [[1.0518264, 1.0685027, 0.0, 0.4178693, 0.5561181], [-0.8540195, -1.2411162, -0.9991808, 0.0, 0.0]]
    returns = [[1.2737, 1.393, 0.0, 0.94, 1.0], [-0.732, -0.88, -1.0, 0.0, 0.0]]
    assert found.advantages == pytest.approx(np.array(advantages), abs=2e-6)
    assert found.returns == pytest.approx(np.array(returns), abs=1e-6)


def test_a_turn_without_reward_is_a_turn():
    """The rewards do not say where turns end: all are zero here, and so is the last one's."""
    found = bilevel_gae(
        np.zeros((1, 4)), np.array([[0.1, 0.2, 0.3, 0.4]]), np.ones((1, 4)), np.array([[0, 1, 0, 1]]),
        gamma_turn=1.0, lam=0.0,
    )  # fmt: skip
    assert found.advantages == pytest.approx(np.array([[0.1, 0.2, 0.1, -0.4]]), abs=1e-12)


@given(batches, RATE, RATE)
@MANY
def test_a_turn_for_every_token_is_one_level(batch, gamma, lam):
    rewards, values, mask, _ = batch
    two = bilevel_gae(rewards, values, mask, mask, gamma_turn=gamma, gamma=0.3, lam=lam).advantages
    assert two == pytest.approx(gae_tokens(rewards, values, mask, gamma=gamma, lam=lam).advantages)


@given(batches, RATE, RATE)
@MANY
def test_the_last_tokens_carry_what_the_turns_get(batch, gamma, lam):
    """Seen as a table with one row an end, the upper level is GAE on turns."""
    rewards, values, mask, ends = batch
    row, place = np.nonzero(ends)
    steps = Steps.from_columns(task=np.zeros(len(row), dtype=int), trajectory=row, turn=place,
                               reward=rewards[ends], value=values[ends])  # fmt: skip
    found = bilevel_gae(rewards, values, mask, ends, gamma_turn=gamma, lam=lam).advantages
    assert found[ends] == pytest.approx(gae(steps, gamma=gamma, lam=lam).values)


def test_ends_that_cannot_be_right_are_refused():
    zeros, ones = np.zeros((2, 3)), np.ones((2, 3))
    with pytest.raises(BadTable, match=r"ends is True at \[0, 1\]"):
        bilevel_gae(zeros, zeros, np.array([[1, 0, 1], [1, 1, 1]]), np.array([[0, 1, 1], [0, 0, 1]]))
    with pytest.raises(BadTable, match="1 rows, the first is 1, have trained tokens after their last end"):
        bilevel_gae(zeros, zeros, ones, np.array([[0, 0, 1], [0, 1, 0]]))
    with pytest.raises(BadTable, match="2 rows, the first is 0"):
        bilevel_gae(zeros, zeros, ones, zeros)
    with pytest.raises(BadTable, match=r"ends must have shape \(2, 3\), got \(3, 2\)"):
        bilevel_gae(zeros, zeros, ones, np.zeros((3, 2)))


def test_token_edges():
    nothing = np.zeros((0, 4))
    assert gae_tokens(nothing, nothing, nothing).advantages.shape == (0, 4)
    assert bilevel_gae(nothing, nothing, nothing, nothing, whitening=True).returns.shape == (0, 4)
    assert not gae_tokens(0 * REWARDS, VALUES, 0 * MASK, whitening=True).advantages.any()
    padded = gae_tokens(REWARDS, np.where(MASK, VALUES, np.nan), MASK)
    assert padded.advantages.tolist() == gae_tokens(REWARDS, VALUES, MASK).advantages.tolist()
    with pytest.raises(BadTable, match="values must be finite, but 6 of 7"):
        gae_tokens(REWARDS, np.where(MASK, np.nan, VALUES), MASK)
    with pytest.raises(BadTable, match="rewards must be an array of numbers"):
        gae_tokens([["a"] * 7], VALUES, MASK)
    with pytest.raises(BadTable, match="mask must have 2 dimensions"):
        gae_tokens(REWARDS[0], VALUES[0], MASK[0])
    with pytest.raises(BadOption, match="gamma_turn"):
        bilevel_gae(REWARDS, VALUES, MASK, MASK, gamma_turn=2.0)
    with pytest.raises(BadOption, match=r"outside must be one of .*got 'drop'"):
        gae_tokens(REWARDS, VALUES, MASK, outside="drop")
    with pytest.raises(BadOption, match="whitening"):
        gae_tokens(REWARDS, VALUES, MASK, whitening="yes")


def test_tensors_are_read_as_numbers():
    torch = pytest.importorskip("torch")
    rewards, values, mask = np.array([[0, 0, 1.0]]), np.array([[0.5, 0.75, 0.25]]), np.array([[1, 0, 1]])
    critic = torch.tensor(values, requires_grad=True)
    found = gae_tokens(torch.tensor(rewards, dtype=torch.bfloat16), critic, torch.tensor(mask))
    assert found.advantages.tolist() == gae_tokens(rewards, values, mask).advantages.tolist()

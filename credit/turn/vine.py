"""VinePPO on turns: the change in the values that forks estimate, of each turn or of segments between forked turns."""

from typing import Literal

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.lambda_advantages import lambda_advantages
from turncredit.credit.numerics import discounted_sums, penalties
from turncredit.credit.option_checks import check_choice, check_number
from turncredit.credit.options import INVALID_PENALTY, without_copies
from turncredit.credit.steps import Bools, Steps, need

At = Literal["every", "spaced", "entropy", "contested"]
Between = Literal["even", "first"]


def vine(
    steps: Steps,
    *,
    gamma: float = 0.95,
    at: At = "every",
    share: float = 0.5,
    between: Between = "even",
    invalid_penalty: float = INVALID_PENALTY,
) -> Advantages:
    """Return the reward of each turn plus the change in value, with values from independent forks.

        V[i, t] = mean return of K forks that begin before turn t          V after the last turn is 0
        A[i, t] = r[i, t] + gamma * V[i, t + 1] - V[i, t]

    The episode's own outcome is in no V, so a turn is neither praised nor blamed for what happened later. In an
    environment with chance, V of the next turn says what came of the chance as well; with the column `action_value`, Q,
    the mean return of forks that repeat the turn's action, A[i, t] = Q[i, t] - V[i, t].

    With another `at`, only some turns have forks. Each of them begins a segment: from turn s to the turn before e, the
    next one with forks, or to the end of the episode. The turns of a segment share its advantage:

        D       = sum over t of gamma^(t - s) * r[i, t] + gamma^(e - s) * V[i, e] - V[i, s]        t from s to e - 1
        even:   A[i, t] = D / sum over k of gamma^(k - s)                                          k from s to e - 1
        first:  A[i, s] = D, and 0 for the others

    Both keep the sum over t of gamma^(t - s) * A[i, t]. "even" is V interpolated; "first" gives the turns between
    the value of the next forked turn, discounted. D is without penalties: each lowers its own turn alone.

        >>> steps = Steps.from_columns(task=[0, 0], trajectory=[0, 0], turn=[0, 1], reward=[0, 1.0], value=[0.5, 0.75])
        >>> vine(steps, gamma=1.0).values.tolist()
        [0.25, 0.25]

    Args:
        steps: the table; needs `value`. With the column `forks` (number of forks), at="every" leaves out turns without
            any. Any other `at` reads the values of turns with forks alone, and leaves out those before the first.
        gamma: discount per turn, in [0, 1], with which the values were computed.
        at: the turns whose values a run estimates, of T turns n = ceil(share * T): "every" turn; "spaced", the turns
            floor(j * T / n); "entropy", the n whose first tokens the policy was least certain of; "contested", the n
            whose states won and lost episodes of the group visited most evenly, or as many as there are. The first
            turn is one of the n.
        share: of the turns of an episode that are forked, in (0, 1]; at="every" forks all.
        between: how the turns of a segment share its advantage; see above.
        invalid_penalty: subtracted from the reward of a turn with an invalid action, in units of reward, as in the
            values. Values of `action_value` have it already.

    Returns:
        Advantages with the part "value", in which turns without forks have the V that follows from their advantages.

    Source: Kazemnejad et al. 2024 (VinePPO), arXiv 2410.01679. Our reading, after a description of it: turns in place
    of steps of reasoning, and forks that repeat an action where the environment draws random numbers. The segments are
    ours; those of `spo_segment` have one advantage as well.
    """
    check_number("gamma", gamma, 0.0, 1.0)
    check_choice("at", at, At)
    check_number("share", share, 0.0, 1.0, open_low=True)
    check_choice("between", between, Between)
    check_number("invalid_penalty", invalid_penalty, 0.0)
    need(steps, "vine", "value")

    def estimate(table: Steps) -> Advantages:
        has_forks = table.column("forks") > 0 if "forks" in table else np.ones(len(table), dtype=np.bool_)
        if at != "every":
            return _of_segments(table, has_forks, gamma, between, invalid_penalty)
        value, order = table.column("value"), table.time_order
        values = np.zeros(len(table))
        if "action_value" in table:
            values = np.asarray(table.column("action_value") - value, dtype=np.float64)
        else:
            paid = table.reward - penalties(table, invalid_penalty)
            values[order] = lambda_advantages(paid[order], value[order], table.trajectory[order], gamma, 0.0)
        return Advantages.of(table, np.where(has_forks, values, 0.0), {"value": value}, keep=has_forks)

    return without_copies(steps, estimate)


def _of_segments(steps: Steps, forked: Bools, gamma: float, between: Between, invalid_penalty: float) -> Advantages:
    """Return the advantages of turns that share those of segments; each begins at a turn with forks.

    Args:
        steps: a table without copies.
        forked: bool [N], whether the turn has forks.
        gamma, between, invalid_penalty: see `vine`.
    """
    order = steps.time_order
    owner, known = steps.trajectory[order], forked[order]
    value, reward, penalty = steps.column("value")[order], steps.reward[order], penalties(steps, invalid_penalty)[order]
    begins = known | np.append(True, owner[1:] != owner[:-1])  # the first turns of episodes bound segments too
    segment = np.cumsum(begins) - 1
    first = np.flatnonzero(begins)
    turns = np.diff(np.append(first, len(order)))
    after = np.append(first[1:], -1)
    goes_on = (after >= 0) & (owner[after] == owner[first])
    change = discounted_sums(reward, segment, gamma)[first] - value[first]
    change += np.where(goes_on, gamma**turns * value[after], 0.0)
    if between == "even":
        ordered = (change / discounted_sums(np.ones(len(order)), segment, gamma)[first])[segment]
    else:
        ordered = np.where(begins, change[segment], 0.0)
    kept = known[first][segment]
    ordered = np.where(kept, ordered - penalty, 0.0)
    behind = discounted_sums(reward - penalty - ordered, owner, gamma)  # V[t] = r[t] - A[t] + gamma * V[t + 1]
    filled = np.where(known, value, np.where(kept, behind, 0.0))
    advantages, values, keep = np.empty(len(order)), np.empty(len(order)), np.empty(len(order), dtype=np.bool_)
    advantages[order], values[order], keep[order] = ordered, filled, kept
    report = {"segments": float(known.sum()), "segment_turns": float(kept.sum() / max(1, known.sum()))}
    return Advantages.of(steps, advantages, {"value": values}, report, keep=keep)

"""GiGPO: the normalised outcome of the episode plus the return of the turn, normalised within its state."""

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.errors import BadOption
from turncredit.credit.numerics import (
    Compat,
    Groups,
    PenaltyIn,
    Scale,
    Singleton,
    Unit,
    compact,
    discounted_returns,
    standardise,
    unit_weights,
)
from turncredit.credit.option_checks import check_choice, check_number
from turncredit.credit.options import INVALID_PENALTY, GroupOptions, check_beside, combined, without_copies
from turncredit.credit.outcome.grpo import episode_term
from turncredit.credit.similarity import similar_states
from turncredit.credit.steps import Floats, Ints, Steps, need


def gigpo(
    steps: Steps,
    *,
    gamma: float = 0.95,
    w: float = 1.0,
    scale: Scale = "std",
    similarity: float | None = None,
    invalid_penalty: float = INVALID_PENALTY,
    penalty_in: PenaltyIn = "reward",
    unit: Unit = "trajectory",
    step_unit: Unit | None = None,
    singleton: Singleton = "zero",
    ddof: int = 1,
    eps: float = 1e-6,
    compat: Compat | None = None,
    normalize_by_length: bool = False,
) -> Advantages:
    """Return the episode's score normalised within its task plus the turn's return normalised within its state.

        E[i] = sum over t of r[i, t]                      R[i, t] = sum over k of gamma^k * r[i, t + k]
        A[i, t] = norm(E over trajectories of the task) + w * norm(R over turns of the task that share the state)
        norm(x) = (x - mean) / (std + eps)

    A state that only one trajectory visited gives no step-level signal: an episode that walks in a circle is not
    compared with itself. A trajectory that visits a shared state several times counts once in the state's mean and
    standard deviation, evenly split over its visits; each visit is compared with that mean by its own return.

        >>> steps = Steps.from_columns(task=["t"] * 4, trajectory=["a", "a", "b", "b"], turn=[0, 1, 0, 1],
        ...                            reward=[0, 1.0, 0, 0], state=["hall", "door", "hall", "wall"])
        >>> gigpo(steps, scale="none", gamma=0.5).parts["step"].tolist()
        [0.25, 0.0, -0.25, 0.0]

    Args:
        steps: the table; needs `state`.
        gamma: discount per turn, in [0, 1].
        w: factor of the step term.
        similarity: None compares states exactly. A number in (0, 1] merges texts of one task whose difflib ratio
            reaches it (`similarity.similar_states`); the result does not depend on the order of rows.
        step_unit: `unit` of the step term; None takes `unit`. "turn" follows the paper's equation, in which a state's
            group is a set of turns.
        compat: "verl-agent" reproduces that trainer: unit="turn", singleton="raw", penalty_in="return", copies count as
            rows, and similar texts are clustered in the order of rows. Other values of these options are refused.
        normalize_by_length: divide an episode's score by its number of turns; the step term does not change.
        scale, unit, singleton, ddof, eps, invalid_penalty, penalty_in: see `GroupOptions`. A state that one trajectory
            visited gives a zero step term, for every `singleton`.

    Returns:
        Advantages with the parts "episode" and "step" (and "penalty" under penalty_in="advantage"), both before w; the
        report counts groups, groups of one and zero-variance groups at both levels, and the share of turns with a
        step-level signal.

    Raises:
        BadTable: `similarity` is given and a state is not a string.

    Source: Feng et al. 2025, arXiv 2505.10978. The published code counts rows instead of trajectories, scales up
    rounding noise, and takes the penalty from the row alone.
    """
    options = GroupOptions(
        scale, unit, singleton, ddof, eps, invalid_penalty, penalty_in, normalize_by_length
    ).with_preset(compat)
    if step_unit is not None:
        check_choice("step_unit", step_unit, Unit)
        check_beside(compat, "step_unit", step_unit, None, options.unit)
    step_unit = step_unit or options.unit
    check_number("gamma", gamma, 0.0, 1.0)
    check_number("w", w, 0.0)
    if similarity is not None:
        check_number("similarity", similarity, 0.0, 1.0)
        if similarity == 0.0:
            raise BadOption("similarity must be > 0, got 0; omit it to compare states exactly")
    need(steps, "gigpo", "state")

    def estimate(table: Steps) -> Advantages:
        episode, report = episode_term(table, options)
        anchor = anchors(table, similarity, order="rows" if compat else "sorted")
        step, counts = step_term(returns_in(table, anchor, gamma, options, step_unit), options)
        return combined(table, options, {"episode": episode, "step": step}, {**report, **counts}, w=w)

    return without_copies(steps, estimate, with_copies=compat is not None)


def anchors(steps: Steps, similarity: float | None = None, *, order: str = "sorted") -> Ints:
    """Return the step group of each row, compact int64 [N]: same task and same, or similar, state.

    Args:
        steps: the table; needs `state`.
        similarity, order: see `similarity.similar_states`; None compares exactly.
    """
    if similarity is None:
        return compact(steps.task, steps.column("state"))
    return compact(similar_states(steps, similarity, order=order))


def returns_in(steps: Steps, key: Ints, gamma: float, options: GroupOptions, unit: Unit) -> Groups:
    """Return the discounted returns of the turns, minus the penalty, in groups.

    Args:
        steps: the table.
        key: compact int64 [N], the group of each row.
        gamma: discount per turn.
        options: the options.
        unit: see `GroupOptions`.
    """
    paid, late = options.penalised_reward(steps), options.return_penalty(steps)
    returns = discounted_returns(steps, gamma, reward=paid) - late
    terms = discounted_returns(steps, gamma, reward=np.abs(paid)) + late
    return Groups(returns, key, unit_weights(key, steps.trajectory, unit), size_of_terms=terms)


def step_term(groups: Groups, options: GroupOptions) -> tuple[Floats, dict[str, float]]:
    """Return each turn's return normalised within its step group, float64 [N], and counts for the report.

    Args:
        groups: the returns in their step groups.
        options: the options; a group of one always gives zero.
    """
    term = standardise(groups, scale=options.scale, ddof=options.ddof, eps=options.eps)
    report = {
        "step_groups": float(len(groups.size)),
        "step_groups_of_one": float((groups.size == 1.0).sum()),
        "step_groups_without_spread": float((groups.flat & (groups.size > 1.0)).sum()),
        "step_signal": float((term != 0.0).mean()) if len(term) else 0.0,
    }
    return term, report

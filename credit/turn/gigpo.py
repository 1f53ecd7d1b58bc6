"""GiGPO: the episode's standing, plus the turn's standing among turns that started from the same state.

Left out on purpose: histories. A state is what the table says it is; methods that look back have their own file.
"""

import numpy as np

from turnwise.credit.advantages import Advantages
from turnwise.credit.blocks import (
    Compat,
    Groups,
    PenaltyIn,
    Scale,
    Singleton,
    Unit,
    check_choice,
    check_number,
    compact,
    discounted_returns,
    standardise,
    unit_weights,
)
from turnwise.credit.errors import BadOption
from turnwise.credit.options import INVALID_PENALTY, GroupOptions, check_beside, combined, without_copies
from turnwise.credit.outcome.grpo import episode_term
from turnwise.credit.similarity import similar_states
from turnwise.credit.steps import Floats, Ints, Steps, need


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
    """Return the episode's standing within its task plus the turn's standing within its state.

        E[i] = sum over t of r[i, t]                      R[i, t] = sum over k of gamma^k * r[i, t + k]
        A[i, t] = norm(E over trajectories of the task) + w * norm(R over turns of the task that share the state)
        norm(x) = (x - mean) / (std + eps)

    A state that only one trajectory visited gives no step-level signal: an episode that walks in a circle is not
    compared with itself. Where a trajectory visits a state several times beside others, it still counts once in the
    state's mean and spread, evenly split over its visits; each visit is measured against that mean by its own return.
    (To let only the first visit count would be another choice; then a late visit could lie any number of spreads away.)

        >>> steps = Steps.from_columns(task=["t"] * 4, trajectory=["a", "a", "b", "b"], turn=[0, 1, 0, 1],
        ...                            reward=[0, 1.0, 0, 0], state=["hall", "door", "hall", "wall"])
        >>> gigpo(steps, scale="none", gamma=0.5).parts["step"].tolist()
        [0.25, 0.0, -0.25, 0.0]

    Args:
        steps: the table; needs `state`. `valid`, if there, brings the penalty.
        gamma: discount per turn, in [0, 1].
        w: factor of the step term.
        scale: "std", "none" (mean only) or "mad" (median over median absolute deviation), for both terms.
        similarity: None compares states exactly. A number in (0, 1] puts texts of one task together whose difflib ratio
            reaches it, by a rule that does not depend on the order of rows (`similarity.similar_states`).
        invalid_penalty: what an invalid action costs, in units of reward.
        penalty_in: "reward" takes it from that turn's reward before returns, so that earlier turns see it discounted;
            "return" from the row's own score and return; "advantage" from the row's own advantage, where no spread
            rescales it.
        unit: "trajectory" counts each trajectory once in each mean and spread; "turn" counts every row.
        step_unit: the same for the step term alone; None takes `unit`. "turn" is the paper's equation to the letter,
            in which a state's group is a set of turns.
        singleton: a task with one trajectory (one row under `unit="turn"`) gives "zero" or its "raw" score as the
            episode term. A state of one is always zero.
        ddof: 1 divides the squares by n - 1, 0 by n.
        eps: added to the spread.
        compat: "verl-agent" reproduces that trainer: unit="turn", singleton="raw", penalty_in="return", copies count as
            rows, and similar texts are clustered in the order of rows. Another choice of these is refused.
        normalize_by_length: divide an episode's score by its number of turns (the step term is not touched).

    Returns:
        Advantages with the parts "episode" and "step" (and "penalty" under penalty_in="advantage"), both before w; its
        report counts groups of one and without spread at both levels and the share of turns with step-level signal.

    Raises:
        MissingColumn: there is no `state`.
        BadOption: an option has an impossible value.
        BadTable: `similarity` is given and a state is not a text.

    Source: Feng et al. 2025, arXiv 2505.10978. We differ from the published code where it counts rows instead of
    trajectories, scales up rounding noise, and takes the penalty from the row alone.
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
        steps: the table, with `state` unless it is empty.
        similarity, order: see `similarity.similar_states`; None compares exactly.
    """
    if similarity is None:
        return compact(steps.task, steps.column("state"))
    return compact(similar_states(steps, similarity, order=order))


def returns_in(steps: Steps, key: Ints, gamma: float, options: GroupOptions, unit: Unit) -> Groups:
    """Return the discounted returns of the turns, less the penalty, in groups.

    Args:
        steps: the table.
        key: compact int64 [N], the group of each row.
        gamma: discount per turn.
        rule: the options.
        unit: what counts once in a group.
    """
    paid, late = options.penalised_reward(steps), options.return_penalty(steps)
    returns = discounted_returns(steps, gamma, reward=paid) - late
    terms = discounted_returns(steps, gamma, reward=np.abs(paid)) + late
    return Groups(returns, key, unit_weights(key, steps.trajectory, unit), size_of_terms=terms)


def step_term(groups: Groups, options: GroupOptions) -> tuple[Floats, dict[str, float]]:
    """Return the standing of each turn's return within its step group, float64 [N], and counts for a report.

    Args:
        groups: the returns in their step groups.
        rule: the options; a group of one gives zero whatever they say.
    """
    term = standardise(groups, scale=options.scale, ddof=options.ddof, eps=options.eps)
    report = {
        "step_groups": float(len(groups.size)),
        "step_groups_of_one": float((groups.size == 1.0).sum()),
        "step_groups_without_spread": float((groups.flat & (groups.size > 1.0)).sum()),
        "step_signal": float((term != 0.0).mean()) if len(term) else 0.0,
    }
    return term, report

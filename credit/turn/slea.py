"""SLEA-RL: GiGPO with similar states merged, by text or by embedding."""

from typing import Literal

from turncredit.credit.advantages import Advantages
from turncredit.credit.errors import BadOption
from turncredit.credit.numerics import PenaltyIn, Scale, Singleton, Unit, compact
from turncredit.credit.option_checks import check_choice, check_number
from turncredit.credit.options import INVALID_PENALTY, GroupOptions, combined, without_copies
from turncredit.credit.outcome.grpo import episode_term
from turncredit.credit.similarity import similar_vectors
from turncredit.credit.steps import Steps, need
from turncredit.credit.turn.gigpo import anchors, returns_in, step_term

By = Literal["text", "embedding"]


def slea(
    steps: Steps,
    *,
    threshold: float = 0.85,
    by: By = "text",
    gamma: float = 0.95,
    w: float = 1.0,
    scale: Scale = "std",
    invalid_penalty: float = INVALID_PENALTY,
    penalty_in: PenaltyIn = "reward",
    unit: Unit = "trajectory",
    singleton: Singleton = "zero",
    ddof: int = 1,
    eps: float = 1e-6,
) -> Advantages:
    """Return the episode's normalised score plus the turn's return, normalised over turns from similar states.

        A[i, t] = norm(E over trajectories of the task) + w * norm(R over turns of the task in the cluster of the state)
        norm(x) = (x - mean) / (std + eps)

    with E and R as in `gigpo`. Each state joins the first cluster whose leader is similar enough, or starts a new one;
    the result does not depend on the order of rows.

        >>> steps = Steps.from_columns(task=["t", "t"], trajectory=["a", "b"], turn=[0, 0], reward=[1.0, 0],
        ...                            state=["You are in the hall.", "You are in the hall!"])
        >>> slea(steps, scale="none").parts["step"].tolist()
        [0.5, -0.5]

    Args:
        steps: the table; needs `state`, or `metric` under by="embedding".
        threshold: smallest similarity of merged states, in (0, 1].
        by: "text" compares states by difflib's ratio, like `similarity` of `gigpo`; "embedding" compares the rows of
            `metric`, embeddings of the states [N, M], by cosine.
        gamma, w, scale, invalid_penalty, penalty_in, unit, singleton, ddof, eps: as in `gigpo`.

    Returns:
        Advantages with the parts "episode" and "step", as `gigpo`.

    Raises:
        BadTable: a state is not a string, or an embedding is zero.

    Source: arXiv 2603.18079, after a secondary description; no code was available. Our reading: the order of
    clustering, and text ratios where the paper uses embeddings.
    """
    options = GroupOptions(scale, unit, singleton, ddof, eps, invalid_penalty, penalty_in)
    check_choice("by", by, By)
    for name, number, most in (("threshold", threshold, 1.0), ("gamma", gamma, 1.0), ("w", w, float("inf"))):
        check_number(name, number, 0.0, most)
    if threshold == 0.0:
        raise BadOption("threshold must be > 0, got 0")
    need(steps, "slea", "state" if by == "text" else "metric")

    def estimate(table: Steps) -> Advantages:
        episode, report = episode_term(table, options)
        cluster = anchors(table, threshold) if by == "text" else compact(similar_vectors(table, threshold))
        step, counts = step_term(returns_in(table, cluster, gamma, options, unit), options)
        return combined(table, options, {"episode": episode, "step": step}, {**report, **counts}, w=w)

    return without_copies(steps, estimate)

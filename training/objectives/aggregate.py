"""Aggregation: the weight of each token's loss in the total.

Every mode is a vector of weights, computed once for the batch of an optimizer step; the loss is sum(weights * token
losses). The gradient therefore depends neither on the micro-batches nor on whether the turns of a trajectory were
merged into one sequence: in a run, a sequence is always a trajectory.
"""

import numpy as np
from numpy.typing import NDArray

from turncredit.registry import suggest
from turncredit.training.errors import ConfigError

AGGREGATIONS: dict[str, str] = {
    "token-mean": "mean over all tokens (DAPO)",
    "seq-mean-token-mean": "mean over trajectories of the mean over their tokens (GRPO, GSPO)",
    "seq-mean-token-mean-counted": "the same, and trajectories without tokens count in the outer mean (TRL, GMPO)",
    "turn-mean": "mean over turns of the mean over their tokens",
    "seq-mean-token-sum": "mean over trajectories of the sum over their tokens (LUSPO, with gspo)",
    "seq-mean-token-sum-counted": "the same, and trajectories without tokens count (A-LoL)",
    "seq-mean-token-sum-norm": "mean over trajectories of the sum over their tokens, divided by a constant length "
    "(Dr. GRPO)",
    "seq-mean-token-sum-norm-counted": "the same, and trajectories without tokens count (Dr. GRPO in TRL)",
    "seq-sum-token-mean": "sum over trajectories of the mean over their tokens (OTM of DCPO)",
    "token-sum": "sum over all tokens",
    "token-sum-norm": "sum over all tokens, divided by a constant length (verl until January 2026)",
}


def token_weights(
    mode: str,
    trajectory: NDArray[np.int64],
    turn: NDArray[np.int64],
    *,
    norm: float = 1.0,
    sequences: int | None = None,
) -> NDArray[np.float64]:
    """Return the weights of the tokens that carry loss; the aggregated loss is sum(weights * losses).

    With N tokens, S trajectories with tokens, S' with and without, R turns, n(x) tokens of x:
    token-mean 1/N; seq-mean-token-mean 1/(S n(trajectory)); turn-mean 1/(R n(turn));
    seq-mean-token-sum 1/S; seq-mean-token-sum-norm 1/(S norm); "-counted" has S' in place of S;
    seq-sum-token-mean 1/n(trajectory); token-sum 1; token-sum-norm 1/norm.

    Args:
        mode: a key of AGGREGATIONS.
        trajectory: int64 [M], the trajectory of each token.
        turn: int64 [M], the turn of each token, unique over the batch.
        norm: divisor of the modes with "norm", in tokens.
        sequences: S', for the modes with "counted"; None: the number of trajectories with tokens.

    Returns:
        float64 [M].

    Raises:
        ConfigError: the mode is unknown, or norm is not positive.

    Source: token-mean Yu et al. 2025, arXiv 2503.14476; seq-mean-token-mean Shao et al. 2024, arXiv 2402.03300;
    the constant length Liu et al. 2025, arXiv 2503.20783; seq-sum-token-mean Yang et al. 2025, arXiv 2509.02333.
    In these, a sequence is a row of the batch.

    >>> import numpy as np
    >>> token_weights("seq-mean-token-mean", np.array([0, 0, 1]), np.array([0, 1, 2])).tolist()
    [0.25, 0.25, 0.5]
    """
    if mode not in AGGREGATIONS:
        raise ConfigError(f"unknown aggregation {mode!r}{suggest(mode, AGGREGATIONS)}")
    if norm <= 0:
        raise ConfigError(f"objective.aggregation.norm must be > 0, got {norm}")
    if len(trajectory) == 0:
        return np.zeros(0)
    if mode == "token-mean":
        return np.full(len(trajectory), 1.0 / len(trajectory))
    _, code, count = np.unique(turn if mode == "turn-mean" else trajectory, return_inverse=True, return_counts=True)
    outer = 1.0
    if mode == "turn-mean" or mode.startswith("seq-mean"):
        outer = 1.0 / (sequences if mode.endswith("-counted") and sequences is not None else len(count))
    weights = np.full(len(trajectory), outer)
    if mode == "turn-mean" or "token-mean" in mode:
        weights /= count[code]
    elif "-norm" in mode:
        weights /= norm
    return weights

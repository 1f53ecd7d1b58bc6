"""Scores: what a model says about every token of a batch."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Scores:
    """What a model says about every token of a batch.

    Attributes:
        logprobs: float64 [B, L], nats; 0 outside the mask.
        entropy: float64 [B, L], nats, of the distribution that the token was drawn from; 0 outside the mask.
        mean_logprob: float64 [B, L], nats, mean over the vocabulary of the log-probability in its place; 0 outside the
            mask, None where nobody has asked.
    """

    logprobs: NDArray[np.float64]
    entropy: NDArray[np.float64]
    mean_logprob: NDArray[np.float64] | None = None

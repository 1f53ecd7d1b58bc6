"""Seeds for engines that take one seed for each request."""

from __future__ import annotations

import hashlib

__all__ = ["request_seed"]


def request_seed(seed: int, turn: int, token: int = 0) -> int:
    """Return the seed of one request, 31 bits: a hash of the episode's seed, the turn and the token it begins with.

    The seed of an episode has 63 bits, more than servers and torch's generators on some devices accept. Without the
    turn, every answer of an episode would be drawn with the same random numbers.

    >>> request_seed(5, 0) != request_seed(5, 1)
    True
    >>> request_seed(5, 0, 3) != request_seed(5, 0)
    True

    Args:
        seed: sampling seed of the episode.
        turn: index of the turn.
        token: number of tokens that an answer has which was interrupted, and goes on with this request.

    Returns:
        Integer in [0, 2**31).
    """
    key = f"{seed}/{turn}/{token}" if token else f"{seed}/{turn}"
    digest = hashlib.blake2b(key.encode("ascii"), digest_size=4).digest()
    return int.from_bytes(digest, "big") >> 1

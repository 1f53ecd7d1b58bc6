"""Seeds for engines that take one seed for each request."""

from __future__ import annotations

import hashlib

__all__ = ["request_seed"]


def request_seed(seed: int, turn: int) -> int:
    """Return the seed of one turn, 31 bits: a hash of the episode's seed and the turn.

    The seed of an episode has 63 bits, more than servers and torch's generators on some devices accept. Without the
    turn, every answer of an episode would be drawn with the same random numbers.

    >>> request_seed(5, 0) != request_seed(5, 1)
    True

    Args:
        seed: sampling seed of the episode.
        turn: index of the turn.

    Returns:
        Integer in [0, 2**31).
    """
    digest = hashlib.blake2b(f"{seed}/{turn}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") >> 1

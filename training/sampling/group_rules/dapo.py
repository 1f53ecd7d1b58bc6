"""Groups in which all episodes ended alike are played again with another task."""

from __future__ import annotations

from turnwise.training.sampling.growth import Growth, OpenGroup


def dapo(group: OpenGroup) -> Growth:
    """Drop a group whose finished episodes all have the same reward, or of which fewer than two finished.

    A group of one episode is kept.

    At most size episodes in one round; those of the group that takes its place are counted there.

    Source: Yu et al. 2025 (DAPO), arXiv 2503.14476, dynamic sampling.
    """
    if not group.round or group.size == 1:
        return Growth()
    return Growth(drop=len(group.members) < 2 or group.even)

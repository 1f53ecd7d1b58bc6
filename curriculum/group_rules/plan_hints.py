"""Hints for tasks that nobody won: the beginning of the expert's plan is shown, more of it if that does not help.

A hint is a share h of the plan, its first ceil(h * length) actions, and is part of the prompt: it is stored with the
episode, and the loss is computed under the prompt that shows it. The published methods cut the text of a reference
solution; agents have a plan.
"""

from __future__ import annotations

from collections.abc import Sequence

from turncredit.credit.errors import BadOption
from turncredit.credit.option_checks import check_number
from turncredit.curriculum.growth import Growth, MoreEpisodes, OpenGroup
from turncredit.curriculum.members import ids, last_played, ordered


def ghpo(group: OpenGroup, *, shares: Sequence[float] = (0.25, 0.5, 0.75), start: int = 0) -> Growth:
    """Play a group that nobody won again, with more and more of the plan, until somebody wins.

    The members of the last round are kept and counted, and no others.

    At most (1 + shares) * size episodes in 1 + shares rounds.

    Args:
        group: the group so far.
        shares: of the plan, one a round.
        start: iterations before any hint is given.

    Raises:
        BadOption: a share outside [0, 1], or start < 0.

    Source: Liu et al. 2025 (GHPO), arXiv 2507.10628, from a reading of its code: shares of the characters of a
    solution. The form of SAGE (arXiv 2602.03143) that plays a group again level by level is the same with other hints.
    """
    _check_shares("shares", shares)
    check_number("start", start, 0, whole=True)
    if not group.round:
        return Growth()
    hints = group.round - 1
    if not group.winners and group.members and hints < len(shares) and group.iteration >= start:
        return Growth((MoreEpisodes(group.size, plan=shares[hints]),))
    last = last_played(group)
    return Growth(keep=ids(last), counted=ids(last)) if last and last[0].round else Growth()


def scaf_grpo(group: OpenGroup, *, levels: int = 12, start: int = 50) -> Growth:
    """Play single episodes with more and more of the plan for a group that nobody won; the first winner joins it.

        level l = 1, 2, ..., levels:  share l / levels of the plan

    The winner takes the place of the last loser of the group. Other hinted episodes are neither kept nor counted, and
    where none wins, the group stays as it was.

    At most size + levels episodes in 1 + levels rounds.

    Args:
        group: the group so far.
        levels: of hints.
        start: iterations before any hint is given.

    Raises:
        BadOption: levels < 1 or start < 0.

    Source: Zhang et al. 2025 (Scaf-GRPO), arXiv 2510.19807, and its code, where 12 hints of a model go from knowledge
    over planning to the solution, each in four parts.
    """
    check_number("levels", levels, 1, whole=True)
    check_number("start", start, 0, whole=True)
    members = [member for member in ordered(group.members) if not member.round]
    if not group.round or not members or any(member.won for member in members) or group.iteration < start:
        return Growth()
    if group.winners:
        chosen = ids([*members[:-1], ordered(group.winners)[0]])
        return Growth(keep=chosen, counted=chosen)
    if group.round <= levels:
        return Growth((MoreEpisodes(1, plan=group.round / levels),))
    return Growth(keep=ids(members), counted=ids(members))


def sage(group: OpenGroup, *, levels: int = 3, low: float = 0.0, high: float = 0.5) -> Growth:
    """Show a task's hint of the level that its record holds, and move the level by the success of the group.

        level += 1  where the share of winners is at most `low`,  -= 1  where it is above `high`;  in 0 ... levels
        share of the plan = level / (levels + 1), which is never all of it

    At most size episodes in one round. Remembers `level`.

    Args:
        group: the group so far.
        levels: of hints, beside none.
        low: success at or below which the next level is tried.
        high: success above which the level falls.

    Raises:
        BadOption: levels < 1, or not 0 <= low <= high <= 1.

    Source: arXiv 2602.03143 (SAGE), and its code, the light form. There, the policy writes three hints from the
    solution; the thresholds are ours. The full form is `ghpo`.
    """
    check_number("levels", levels, 1, whole=True)
    check_number("low", low, 0, 1)
    check_number("high", high, low, 1)
    level = min(max(round(group.record.get("level", 0)), 0), levels)
    if not group.round:
        return Growth((MoreEpisodes(group.size, plan=level / (levels + 1)),))
    if not group.members:
        return Growth()
    success = len(group.winners) / len(group.members)
    level += (success <= low) - (success > high)
    return Growth(remember={"level": float(min(max(level, 0), levels))})


def _check_shares(name: str, shares: object) -> None:
    if not isinstance(shares, list | tuple) or not shares:
        raise BadOption(f"{name} must be a list of shares of the plan, such as [0.25, 0.5, 0.75], got {shares!r}")
    for share in shares:
        check_number(f"each of {name}", share, 0, 1)

"""Which rows are computed in which pass: equal prompts once, shared prefixes first, and little padding."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from turncredit.engines.transformers.cache_pages import CachedSequence, shared_length

PREFILL_TOKENS = 4096
"""Maximum number of tokens, including padding, of one prefill pass."""

SAVING = 512
"""Tokens of shared prefixes that make an additional pass worthwhile."""


@dataclass(slots=True)
class NewRow:
    """One row of a pass: where its logits go, its sequence, and its new tokens."""

    index: int
    sequence: CachedSequence
    new: list[int]


@dataclass(slots=True)
class PrefixCopy:
    """A row whose prefix another row of the same batch computes."""

    row: NewRow
    leader: NewRow
    shared: int


def share_prompts(rows: list[NewRow]) -> tuple[list[NewRow], list[PrefixCopy], list[PrefixCopy]]:
    """Return the rows to compute at once, those that copy a prefix from these first, and those that copy everything.

    Only rows of which nothing is cached are compared. Prefixes that are not the whole prompt need a second pass, and
    are shared only if that saves enough.
    """
    leaders: dict[tuple[int, ...], NewRow] = {}
    copies: list[PrefixCopy] = []
    firsts: list[NewRow] = []
    for row in rows:
        leader = leaders.setdefault(tuple(row.new), row) if not row.sequence.tokens else row
        if leader is row:
            firsts.append(row)
        else:
            copies.append(PrefixCopy(row, leader, len(row.new)))
    seconds = _share_prefixes([row for row in firsts if not row.sequence.tokens])
    if sum(copy.shared for copy in seconds) < SAVING:
        return firsts, [], copies
    later = {id(copy.row) for copy in seconds}
    return [row for row in firsts if id(row) not in later], seconds, copies


def _share_prefixes(rows: list[NewRow]) -> list[PrefixCopy]:
    """Return the rows that share a quarter of their tokens, or more, with one that is not among them."""
    if sum(len(row.new) for row in rows[1:]) < SAVING:
        return []
    leaders: list[NewRow] = []
    copies: list[PrefixCopy] = []
    for row in rows:
        shared, best = max(
            ((shared_length(leader.new, row.new), k) for k, leader in enumerate(leaders)), default=(0, 0)
        )
        if shared and shared >= len(row.new) // 4:
            copies.append(PrefixCopy(row, leaders[best], shared))
        else:
            leaders.append(row)
    return copies


def pass_groups(rows: Iterable[NewRow]) -> list[list[NewRow]]:
    """Split rows into passes: first those with one new token, then by falling length, to keep padding below a third."""
    single = sorted((row for row in rows if len(row.new) == 1), key=_page)
    groups = [single] if single else []
    current: list[NewRow] = []
    real = 0
    for row in sorted((row for row in rows if len(row.new) > 1), key=lambda row: -len(row.new)):
        padded = len(current[0].new) * (len(current) + 1) if current else 0
        if current and (padded > PREFILL_TOKENS or padded - real - len(row.new) > max(512, padded // 3)):
            groups.append(current)
            current, real = [], 0
        current.append(row)
        real += len(row.new)
    if current:
        groups.append(current)
    return [sorted(group, key=_page) for group in groups]


def _page(row: NewRow) -> int:
    return row.sequence.pages[0]

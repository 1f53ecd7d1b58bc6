"""Groups that are forests: some episodes begin with a reset, the others as forks of finished ones.

A group of B episodes has n roots; then, round by round, at most n episodes are forked where a rule says, until there
are B. The budget is the same as without forks: B episodes, of which the forks sample fewer turns than whole ones. Where
a rule finds no place, an episode begins with a reset as well.

Which forks are chosen depends on the episodes, and not on their order: equal places are ordered by a hash of their
names, as sampling seeds are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from turncredit.curriculum.fork_places import CouldWin, ForkRule, choose_forks
from turncredit.curriculum.growth import GroupRule, Growth, MoreEpisodes, OpenGroup

__all__ = ["Forest"]


@dataclass(frozen=True, slots=True)
class Forest:
    """How the groups of a run are grown.

    Attributes:
        rule: where episodes are forked.
        size: episodes of a group.
        roots: those of them that begin with a reset, and the most that are forked in one round.
        could_win: asks the environment's expert, for rules that want to.
    """

    rule: ForkRule
    size: int
    roots: int
    could_win: CouldWin | None = None

    def rule_of_groups(self) -> GroupRule:
        """Return the group rule that grows a forest."""
        return GroupRule(self.rule.name, self.rule.title, self.rule.arxiv, self.rule.evidence, self.rule.use, self.grow)

    def grow(self, group: OpenGroup) -> Growth:
        """Return what the next round of a group plays."""
        count = min(self.roots, group.size - self.roots * group.round)
        if count <= 0:
            return Growth()
        taken = {(member.fork_of, member.fork_turn or 0) for member in group.members if member.fork_of is not None}
        rule = partial(self.rule, could_win=self.could_win)
        forks = choose_forks(group.members, rule, count, taken) if group.round else []
        resets = count - len(forks)
        more = [MoreEpisodes(1, at=point) for point in forks]
        return Growth(more=(*([MoreEpisodes(resets)] if resets else []), *more))

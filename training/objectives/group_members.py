"""The episodes of each group as an objective sees them: which sequences, with what outcome, and sums over groups."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from turncredit.training.objectives.sources import TEACHER
from turncredit.training.objectives.tokens import Tokens

ROUNDING = 1e-6
"""Outcomes of a group whose range is at most this share of the largest count as equal."""


@dataclass(frozen=True, slots=True)
class GroupMembers:
    """The P sequences that have tokens, in Q groups.

    Attributes:
        index: int64 [P], their numbers among the S sequences of the tokens.
        code: int64 [P], number of each one's group, from 0.
        groups: Q.
        teacher: bool [P], whether another model wrote it.
        tokens: the tokens, which hold the outcomes.
    """

    index: Tensor
    code: Tensor
    groups: int
    teacher: Tensor
    tokens: Tokens

    @classmethod
    def of(cls, tokens: Tokens) -> Self:
        """Return the members of all groups; where no source is passed, all of them are the policy's.

        Raises:
            ValueError: group was not passed.
        """
        index = torch.unique(tokens.sequence)
        groups, code = torch.unique(tokens.need("group")[index], return_inverse=True)
        source = torch.zeros_like(index) if tokens.source is None else tokens.source[index]
        return cls(index, code, len(groups), source == TEACHER, tokens)

    @property
    def outcome(self) -> Tensor:
        """float [P], score, in units of reward.

        Raises:
            ValueError: outcome was not passed.
        """
        return self.tokens.need("outcome")[self.index]

    def __len__(self) -> int:
        """Number of sequences P."""
        return len(self.index)

    def sum(self, values: Tensor) -> Tensor:
        """Return the sum over each group, float [Q], of values [P]."""
        return values.new_zeros(self.groups).index_add(0, self.code, values)

    def mean(self, values: Tensor, among: Tensor | None = None) -> Tensor:
        """Return the mean over each group, float [Q], of values [P]; 0 where no member counts.

        Args:
            values: float [P].
            among: bool [P], the members that count; None: all.
        """
        counted = torch.ones_like(values) if among is None else among.to(values.dtype)
        values = values if among is None else torch.where(among, values, torch.zeros_like(values))
        return self.sum(values) / self.sum(counted).clamp(min=1.0)

    def log_mean_exp(self, values: Tensor, among: Tensor) -> Tensor:
        """Return ln mean e^v over some members of each group, float [Q]; 0 where there are none."""
        chosen, code = values[among], self.code[among]
        peak = values.new_full((self.groups,), -torch.inf).scatter_reduce(0, code, chosen.detach(), "amax")
        count = self.sum(among.to(values.dtype))
        total = values.new_zeros(self.groups).index_add(0, code, torch.exp(chosen - peak[code]))
        some = count > 0
        ratio = torch.where(some, total, torch.ones_like(total)) / count.clamp(min=1.0)
        return torch.where(some, torch.log(ratio) + peak, torch.zeros_like(total))

    def won(self, win: float) -> Tensor:
        """Return 1 for an outcome of at least `win`, else 0, float [P]; NaN stays NaN."""
        return torch.where(self.outcome.isnan(), self.outcome, (self.outcome >= win).to(self.outcome.dtype))

    def normalised(self, among: Tensor) -> Tensor:
        """Return (outcome - mean) / std, float [P], of the mean and std (ddof 0) of some members; 0 without spread."""
        mean = self.mean(self.outcome, among)[self.code]
        distance = self.outcome - mean
        spread = self.mean(distance.square(), among).sqrt()[self.code]
        flat = self._range(among)[self.code] <= ROUNDING * self.outcome.abs()
        return torch.where(flat, 0.0 * distance, distance / torch.where(flat, torch.ones_like(spread), spread))

    def _range(self, among: Tensor) -> Tensor:
        chosen, code = self.outcome[among], self.code[among]
        ends = [
            chosen.new_full((self.groups,), sign * torch.inf).scatter_reduce(0, code, chosen, kind)
            for sign, kind in ((-1.0, "amax"), (1.0, "amin"))
        ]
        return ends[0] - ends[1]

    def pairs(self) -> tuple[Tensor, Tensor]:
        """Return the two members of every pair within a group, int64 [pairs] each, numbers from 0 to P - 1."""
        both = [self.code.new_zeros((0, 2))]
        for number in range(self.groups):
            members = torch.nonzero(self.code == number)[:, 0]
            both.append(members[torch.nonzero(members[:, None] < members)])
        first, second = torch.cat(both).unbind(1)
        return first, second

    def of_sequences(self, tokens: Tokens, values: Tensor) -> Tensor:
        """Return token losses [M] whose mean over sequences of the mean over tokens is the mean of values [P]."""
        return values.new_zeros(tokens.sequences).index_copy(0, self.index, values)[tokens.sequence]

    def of_groups(self, tokens: Tokens, values: Tensor) -> Tensor:
        """Return token losses [M] whose mean over sequences of the mean over tokens is the mean of values [Q]."""
        size = self.sum(torch.ones_like(self.outcome))
        return self.of_sequences(tokens, (values / size)[self.code] * (len(self) / max(1, self.groups)))

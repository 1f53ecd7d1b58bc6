"""Transforms of token advantages in a run, between credit and the update.

A transform's sequence is a trajectory: its tokens that carry loss, turn after turn, in whatever rows of the batch they
lie; so nothing depends on whether turns were merged. Its group is the episodes of one task instance.

Left out on purpose: the ratio of a token's probability to the old one. A transform is applied once, before the first
optimiser step on a batch, when the policy is still the old one and every ratio is 1, which is what a transform takes
where none is given.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnwise.agents.trajectory import Group
from turnwise.credit.tokens import TokenTransform, transform
from turnwise.training.batch import Batch
from turnwise.training.errors import ConfigError

Decode = Callable[[list[int]], str]
Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Reshape:
    """A transform of token advantages with what it needs in a run.

    Attributes:
        transform: the transform, its options bound.
        planning: phrases that make a plan, for a transform that asks which tokens plan.
    """

    transform: TokenTransform
    planning: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str, options: Mapping[str, Any]) -> "Reshape":
        """Give a transform by name, as a run's file has it.

        Args:
            name: a name of `turnwise.credit.tokens.transforms`.
            options: the transform's own options, and `planning`, a list of phrases, for one that needs it.

        Raises:
            ConfigError: the phrases are missing or are none, or the transform needs what no run has.
            CreditError: the name or an option is unknown, or cannot have its value.
        """
        own = dict(options)
        found = transform(name)
        strange = [array for array in found.needs if array not in _KNOWN]
        if strange:
            raise ConfigError(f"credit.reshape {name!r} needs {strange[0]!r}, which a run does not have")
        phrases = _phrases(name, own.pop("planning", None)) if "planning" in found.needs else ()
        return cls(transform(name, **own), phrases)

    @property
    def needs_policy(self) -> bool:
        """Whether log-probabilities and entropies under the policy are needed."""
        return bool({"entropy", "logprobs"} & set(self.transform.takes))

    @property
    def needs_reference(self) -> bool:
        """Whether log-probabilities under the policy before training are needed."""
        return "ref" in self.transform.needs

    def __call__(
        self,
        batch: Batch,
        groups: Sequence[Group],
        *,
        decode: Decode,
        logprobs: NDArray[np.float64] | None = None,
        entropy: NDArray[np.float64] | None = None,
    ) -> tuple[Batch, dict[str, float]]:
        """Give the batch with reshaped advantages; tokens that the transform drops stay as context without loss.

        Args:
            batch: from pack, with the reference where the transform needs it.
            groups: what was packed.
            decode: gives the text of token ids.
            logprobs: float64 [B, L], nats, under the policy, where it is needed.
            entropy: float64 [B, L], nats, of the policy, where it is needed.

        Returns:
            The batch, and shares of its tokens: reshape_changed (those with another advantage), reshape_kept, and, for
            a transform that asks for them, reshape_planning.
        """
        layout = Layout.of(batch)
        planning = planning_tokens(batch, self.planning, decode) if self.planning else None
        arrays: dict[str, Array | None] = {
            "ids": batch.tokens,
            "logprobs": logprobs,
            "entropy": entropy,
            "ref": batch.reference,
            "planning": planning,
        }
        takes = self.transform.takes
        given = {name: layout.gather(one) for name, one in arrays.items() if name in takes and one is not None}
        if "group" in takes:
            home = np.array([number for number, group in enumerate(groups) for _ in group.finished], dtype=np.int64)
            given["group"] = home[layout.trajectory]
        found = self.transform(layout.gather(batch.advantages), layout.mask, **given)
        values, keep = layout.scatter(found.values), layout.scatter(found.keep) & batch.mask
        tokens = max(1, int(batch.mask.sum()))
        stats = {
            "reshape_changed": float((values != batch.advantages)[batch.mask].sum() / tokens),
            "reshape_kept": float(keep.sum() / tokens),
        }
        if planning is not None:
            stats["reshape_planning"] = float(planning[batch.mask].sum() / tokens)
        old, advantages = np.where(keep, batch.old, 0.0), np.where(keep, values, 0.0)
        return replace(batch, mask=keep, old=old, advantages=advantages), stats


_KNOWN = ("ids", "logprobs", "entropy", "ref", "planning", "group")
"""The arrays that a run can give a transform."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the tokens of a batch's mask are when each trajectory is one row of nothing else, S rows of W places.

    Attributes:
        rows, columns: int64 [M], where each token is in the batch.
        row, place: int64 [M], where it is here.
        trajectory: int64 [S], the batch's number of each row's trajectory.
        mask: bool [S, W], where there is a token.
        shape: B and L.
    """

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    row: NDArray[np.int64]
    place: NDArray[np.int64]
    trajectory: NDArray[np.int64]
    mask: NDArray[np.bool_]
    shape: tuple[int, ...]

    @classmethod
    def of(cls, batch: Batch) -> "Layout":
        """Lay out the tokens of a batch's mask, each trajectory's in the order of its turns."""
        rows, columns = np.nonzero(batch.mask)
        order = np.argsort(batch.turn[rows, columns], kind="stable")  # turns are numbered trajectory by trajectory
        rows, columns = rows[order], columns[order]
        trajectory, row, count = np.unique(batch.trajectory[rows], return_inverse=True, return_counts=True)
        place = np.arange(len(rows)) - (np.cumsum(count) - count)[row]
        mask = np.arange(int(count.max()) if len(count) else 0) < count[:, None]
        return cls(rows, columns, row, place, trajectory, mask, batch.mask.shape)

    def gather(self, array: Array) -> Array:
        """Give the tokens of an array [B, L] as [S, W]; zero where there is no token."""
        out = np.zeros(self.mask.shape, dtype=array.dtype)
        out[self.row, self.place] = array[self.rows, self.columns]
        return out

    def scatter(self, array: Array) -> Array:
        """Give the tokens of an array [S, W] back as [B, L]; zero elsewhere."""
        out = np.zeros(self.shape, dtype=array.dtype)
        out[self.rows, self.columns] = array[self.row, self.place]
        return out


def planning_tokens(batch: Batch, phrases: Sequence[str], decode: Decode) -> NDArray[np.bool_]:
    """Give the tokens of which a character belongs to one of some phrases in the answer that they are part of.

    Case does not count. A phrase that two answers make up together is none.

    Args:
        batch: its answers are searched, one by one.
        phrases: as they may stand in the text.
        decode: gives the text of token ids.

    Returns:
        bool [B, L].
    """
    patterns = [re.compile(re.escape(phrase), re.IGNORECASE) for phrase in phrases]
    found = np.zeros(batch.mask.shape, dtype=np.bool_)
    rows, columns = np.nonzero(batch.mask)
    turn = batch.turn[rows, columns]
    order = np.argsort(turn, kind="stable")
    for part in np.split(order, np.flatnonzero(np.diff(turn[order])) + 1):
        ids = batch.tokens[rows[part], columns[part]].tolist()
        spans = [match.span() for pattern in patterns for match in pattern.finditer(decode(ids))]
        if spans:
            ends = np.array(_ends(ids, decode))
            starts = np.concatenate([[0], ends[:-1]])
            hit = np.any([(starts < end) & (ends > start) for start, end in spans], axis=0)
            found[rows[part], columns[part]] = hit
    return found


def _ends(ids: list[int], decode: Decode) -> list[int]:
    """Where each token ends in the text of all of them, in characters."""
    pieces = [decode([token]) for token in ids]
    if "".join(pieces) == decode(ids):
        return list(accumulate(len(piece) for piece in pieces))
    return [len(decode(ids[: count + 1])) for count in range(len(ids))]  # tokens that are no whole characters


def _phrases(name: str, phrases: object) -> tuple[str, ...]:
    """Check the phrases of a run's file."""
    wanted = f"credit.reshape {name!r} needs to know which tokens plan: give credit.reshape_options.planning, a list of"
    if not isinstance(phrases, list | tuple) or not phrases:
        raise ConfigError(f'{wanted} phrases such as ["first", "let me check"]')
    for phrase in phrases:
        if not isinstance(phrase, str) or not phrase.strip():
            raise ConfigError(f"{wanted} phrases; {phrase!r} is none")
    return tuple(phrases)

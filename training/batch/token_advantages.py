"""Transforms of token advantages in a run, between credit assignment and the update.

For a transform, a sequence is a trajectory: the tokens of its turns that carry loss, in order. The result does not
depend on whether turns were merged into rows. A group is the episodes of one task instance. The importance ratio is not
passed: a transform is applied once, before the first optimizer step, when every ratio is 1.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from turncredit.agents.trajectory import Group
from turncredit.credit.tokens import TokenTransform, transform
from turncredit.training.batch.batch import Batch
from turncredit.training.batch.scores import Scores
from turncredit.training.config.sections import Choice, chosen
from turncredit.training.errors import ConfigError

Decode = Callable[[list[int]], str]
Array = NDArray[Any]
KEY = "credit.token_transform"
TEMPERED = {"hot": 1.2, "cold": 0.8}
"""Log-probabilities at other temperatures than that of sampling, by the factor between the two."""
COMPARED = ("divergence", "influence_of_winners", "influence_of_losers")
"""Arrays for which the learner compares the tokens of a group with each other."""
AVAILABLE = ("ids", "logprobs", "entropy", "ref", "planning", "group", *TEMPERED, *COMPARED)
"""The arrays that a run can pass to a transform."""


@dataclass(frozen=True, slots=True)
class AppliedTransform:
    """A transform of token advantages, with what it needs in a run.

    Attributes:
        transform: the transform with its options.
        planning: phrases that mark planning tokens, for a transform that needs them.
    """

    transform: TokenTransform
    planning: tuple[str, ...] = ()

    @classmethod
    def from_choice(cls, choice: Choice) -> Self | None:
        """Return the transform that a run's file names; None for an empty name.

        Args:
            choice: a name of `turncredit.credit.tokens.transforms`, or a table with the name, the transform's options,
                and `planning`, a list of phrases, where the transform needs it.

        Raises:
            ConfigError: the phrases are missing or invalid, or a run cannot provide what the transform needs.
            CreditError: the name or an option is unknown, or a value is invalid.
        """
        name, options = chosen(choice, KEY)
        if not name:
            return None
        chosen_transform = transform(name)
        missing = [array for array in chosen_transform.needs if array not in AVAILABLE]
        if missing:
            raise ConfigError(f"{KEY} {name!r} needs {missing[0]!r}, which a run does not have")
        phrases = _phrases(name, options.pop("planning", None)) if "planning" in chosen_transform.needs else ()
        return cls(transform(name, **options), phrases)

    @property
    def needs_scores(self) -> bool:
        """Whether the policy's log-probabilities and entropies are needed."""
        return bool({"entropy", "logprobs"} & set(self.transform.takes))

    @property
    def tempered(self) -> dict[str, float]:
        """Which log-probabilities at other temperatures are needed, by the factor of the sampling temperature."""
        return {name: factor for name, factor in TEMPERED.items() if name in self.transform.takes}

    @property
    def compared(self) -> tuple[str, ...]:
        """Names of the arrays for which the tokens of a group are compared with each other."""
        return tuple(name for name in self.transform.takes if name in COMPARED)

    def check(self, require_hidden: Callable[[], None]) -> None:
        """Refuse a transform for which the model has no hidden states to give.

        Args:
            require_hidden: raises ConfigError where it has none.

        Raises:
            ConfigError: the transform compares the tokens of a group, which takes hidden states.
        """
        try:
            if self.compared:
                require_hidden()
        except ConfigError as error:
            raise ConfigError(f"{KEY} {self.transform.name!r} needs {self.compared[0]!r}: {error}") from error

    @property
    def needs_reference(self) -> bool:
        """Whether the log-probabilities of the reference policy are needed."""
        return "ref" in self.transform.needs

    def __call__(
        self,
        batch: Batch,
        groups: Sequence[Group],
        *,
        decode: Decode,
        scores: Scores | None = None,
        tempered: Mapping[str, Scores] | None = None,
        compared: Mapping[str, Array] | None = None,
    ) -> tuple[Batch, dict[str, float]]:
        """Return the batch with transformed advantages; tokens that the transform drops stay as context without loss.

        Args:
            batch: from `pack`, with the reference where the transform needs it.
            groups: what was packed.
            decode: returns the text of token ids.
            scores: of the policy, where they are needed.
            tempered: of the policy at other temperatures, by name, where `tempered` says so.
            compared: arrays [B, L] that compare the tokens of a group, by name, where `compared` says so.

        Returns:
            The batch, and shares of its tokens: transform_changed (another advantage), transform_kept, and
            transform_planning where the transform needs planning tokens.
        """
        layout = TokenLayout.of(batch)
        planning = planning_tokens(batch, self.planning, decode) if self.planning else None
        arrays: dict[str, Array | None] = {
            "ids": batch.tokens,
            "logprobs": None if scores is None else scores.logprobs,
            "entropy": None if scores is None else scores.entropy,
            "ref": batch.reference,
            "planning": planning,
            **{name: other.logprobs for name, other in (tempered or {}).items()},
            **(compared or {}),
        }
        takes = self.transform.takes
        passed = {name: layout.gather(array) for name, array in arrays.items() if name in takes and array is not None}
        if "group" in takes:
            group = np.array([number for number, array in enumerate(groups) for _ in array.finished], dtype=np.int64)
            passed["group"] = group[layout.trajectory]
        transformed = self.transform(layout.gather(batch.advantages), layout.mask, **passed)
        values, keep = layout.scatter(transformed.values), layout.scatter(transformed.keep) & batch.mask
        tokens = max(1, int(batch.mask.sum()))
        stats = {
            "transform_changed": float((values != batch.advantages)[batch.mask].sum() / tokens),
            "transform_kept": float(keep.sum() / tokens),
        }
        if planning is not None:
            stats["transform_planning"] = float(planning[batch.mask].sum() / tokens)
        old, advantages = np.where(keep, batch.old, 0.0), np.where(keep, values, 0.0)
        return replace(batch, mask=keep, old=old, advantages=advantages), stats


@dataclass(frozen=True, slots=True)
class TokenLayout:
    """The masked tokens of a batch, arranged as one row per trajectory: S rows of at most W tokens.

    Attributes:
        rows, columns: int64 [M], the position of each token in the batch.
        row, position: int64 [M], its position in this arrangement.
        trajectory: int64 [S], the batch's trajectory number of each row.
        mask: bool [S, W], true where there is a token.
        shape: B and L.
    """

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    row: NDArray[np.int64]
    position: NDArray[np.int64]
    trajectory: NDArray[np.int64]
    mask: NDArray[np.bool_]
    shape: tuple[int, ...]

    @classmethod
    def of(cls, batch: Batch) -> "TokenLayout":
        """Arrange the masked tokens of a batch, those of each trajectory in the order of its turns."""
        rows, columns = np.nonzero(batch.mask)
        order = np.argsort(batch.turn[rows, columns], kind="stable")  # turns are numbered trajectory by trajectory
        rows, columns = rows[order], columns[order]
        trajectory, row, count = np.unique(batch.trajectory[rows], return_inverse=True, return_counts=True)
        position = np.arange(len(rows)) - (np.cumsum(count) - count)[row]
        mask = np.arange(int(count.max()) if len(count) else 0) < count[:, None]
        return cls(rows, columns, row, position, trajectory, mask, batch.mask.shape)

    def gather(self, array: Array) -> Array:
        """Return the tokens of an array [B, L] as [S, W]; zero where there is no token."""
        out = np.zeros(self.mask.shape, dtype=array.dtype)
        out[self.row, self.position] = array[self.rows, self.columns]
        return out

    def scatter(self, array: Array) -> Array:
        """Return the tokens of an array [S, W] as [B, L]; zero elsewhere."""
        out = np.zeros(self.shape, dtype=array.dtype)
        out[self.rows, self.columns] = array[self.row, self.position]
        return out


def planning_tokens(batch: Batch, phrases: Sequence[str], decode: Decode) -> NDArray[np.bool_]:
    """Return which tokens overlap one of the phrases in the text of their answer; bool [B, L].

    Case is ignored. A phrase does not match across two answers.

    Args:
        batch: its answers are searched one by one.
        phrases: plain text.
        decode: returns the text of token ids.
    """
    patterns = [re.compile(re.escape(phrase), re.IGNORECASE) for phrase in phrases]
    planning = np.zeros(batch.mask.shape, dtype=np.bool_)
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
            planning[rows[part], columns[part]] = hit
    return planning


def _ends(ids: list[int], decode: Decode) -> list[int]:
    """Return where each token ends in the text of all of them, in characters."""
    pieces = [decode([token]) for token in ids]
    if "".join(pieces) == decode(ids):
        return list(accumulate(len(piece) for piece in pieces))
    return [len(decode(ids[: count + 1])) for count in range(len(ids))]  # tokens that hold parts of characters


def _phrases(name: str, phrases: object) -> tuple[str, ...]:
    """Return the planning phrases of a run's file, checked."""
    requirement = f'{KEY} {name!r} needs `planning`, a list of phrases such as ["first", "let me check"]'
    if not isinstance(phrases, list | tuple) or not phrases:
        raise ConfigError(f"{requirement}; got {phrases!r}")
    for phrase in phrases:
        if not isinstance(phrase, str) or not phrase.strip():
            raise ConfigError(f"{requirement}; {phrase!r} is not a phrase")
    return tuple(phrases)

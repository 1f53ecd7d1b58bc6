"""Which sequence holds which pages of a KV cache, without tensors.

A page holds the keys and values of `width` consecutive tokens. Pages in use are always 0 .. n-1: when some are freed,
the last ones move into the gaps. A sequence that is not being sampled keeps its pages until others need them; the one
that was used least recently goes first, and as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

RECENT = 16
"""Passes after which a waiting request may take the pages of a paused sequence. An episode usually returns after one
or two; taking its pages earlier would compute every prompt anew at every turn."""

SHARED = 16
"""Prefixes of other sequences are copied in multiples of this many tokens."""

WHOLE_SHARED = 64
"""Shortest prefix that is copied if each sequence is one page, which only small models have: they compute shorter ones
as quickly."""

REST = 5
"""Least tokens of a prompt that are computed beside a copied prefix: a short rest would be computed by other kernels,
which round differently."""


@dataclass(slots=True, eq=False)
class CachedSequence:
    """The pages of one episode, and the tokens whose keys and values they hold."""

    tokens: list[int] = field(default_factory=list)
    pages: list[int] = field(default_factory=list)
    busy: bool = False
    """It is being sampled; nothing takes its pages."""
    used: int = 0
    """Number of passes that there had been at its last use."""


class PageTable:
    """Hands out `total` pages of `width` tokens."""

    def __init__(
        self, total: int, width: int, move: Callable[[list[int], list[int]], None], *, grows: bool = True
    ) -> None:
        """Keep the sizes.

        Args:
            total: number of pages.
            width: tokens in a page.
            move: copies the contents of the first pages to the second ones.
            grows: sequences may need more than one page.
        """
        self.total = total
        self.width = width
        self._grows = grows
        self.passes = 0
        self.sequences: dict[str, CachedSequence] = {}  # ordered by last use
        self._owners: list[tuple[CachedSequence, int]] = []
        self._move = move

    @property
    def used(self) -> int:
        """Number of pages in use."""
        return len(self._owners)

    def count(self, tokens: int) -> int:
        """Return the number of pages that hold a number of tokens."""
        return -(-tokens // self.width)

    def fits(self, lengths: Mapping[str, int]) -> bool:
        """Return whether sequences of these episodes have room without taking any page from another."""
        missing = 0
        for episode, tokens in lengths.items():
            held = self.sequences.get(episode)
            missing += max(0, self.count(tokens) - (len(held.pages) if held else 0))
        return self.used + missing <= self.total

    def begin(self, episode: str, prompt: list[int]) -> CachedSequence | None:
        """Return the busy sequence of an episode with room for its prompt; None if there is no room at the moment.

        It holds the longest prefix of the prompt that is known, but at least one token is left to be computed, since
        the logits after the last token are needed.
        """
        sequence = self.sequences.pop(episode, None) or CachedSequence()
        self.sequences[episode] = sequence
        sequence.used = self.passes
        sequence.busy = True  # while room is made
        self._trim(sequence, common_prefix(sequence.tokens, prompt, len(prompt) - 1))
        others = sum(other.busy for other in self.sequences.values()) - 1
        # Every running sequence may soon need a page more; without a reserve, the newest would be stopped again.
        missing = self.count(len(prompt)) - len(sequence.pages)
        sequence.busy = self._make_room(missing, others if self._grows else 0, patient=others > 0)
        if not sequence.busy:
            if not sequence.pages:
                del self.sequences[episode]
            return None
        self._claim(sequence, missing)
        return sequence

    def extend(self, sequence: CachedSequence, tokens: int) -> bool:
        """Give a busy sequence room for a number of tokens; return False if all other pages belong to busy ones."""
        missing = self.count(tokens) - len(sequence.pages)
        if missing > 0:
            if not self._make_room(missing, 0, patient=False):
                return False
            self._claim(sequence, missing)
        return True

    def donor(self, sequence: CachedSequence, prompt: list[int]) -> tuple[CachedSequence, int] | None:
        """Return the other sequence with the longest prefix of the prompt, and the length to copy, if it is worth it.

        Sequences that hold half of their prompt already are not looked at.
        """
        held = len(sequence.tokens)
        if held > len(prompt) // 2:
            return None
        best, longest = None, held
        for other in self.sequences.values():
            # Most others differ at once, which this comparison shows without looking at the whole.
            if other is sequence or other.tokens[held : held + SHARED] != prompt[held : held + SHARED]:
                continue
            shared = shared_length(other.tokens, prompt)
            if shared > longest:
                best, longest = other, shared
        least = SHARED if self._grows else WHOLE_SHARED
        return None if best is None or longest - held < least else (best, longest)

    def pause(self, episode: str) -> None:
        """Keep the pages of an episode for its next turn, unless others need them."""
        if episode in self.sequences:
            self.sequences[episode].busy = False
            self.sequences[episode].used = self.passes

    def drop(self, episode: str) -> None:
        """Free the pages of an episode; an unknown one is not an error."""
        sequence = self.sequences.pop(episode, None)
        if sequence is not None:
            self._trim(sequence, 0)

    def clear(self) -> None:
        """Free all pages."""
        self.sequences.clear()
        self._owners.clear()

    def _make_room(self, pages: int, reserve: int, *, patient: bool) -> bool:
        """Free pages of paused sequences, the least recently used first, if that is enough."""
        free = self.total - self.used
        if free >= pages + reserve or pages <= 0:
            return True
        paused = [
            (name, len(sequence.pages))
            for name, sequence in self.sequences.items()
            if not sequence.busy and (not patient or self.passes - sequence.used >= RECENT)
        ]
        if free + sum(size for _, size in paused) < pages + reserve:
            return False
        for name, size in paused:
            if free >= pages + reserve:
                break
            self.drop(name)
            free += size
        return True

    def _claim(self, sequence: CachedSequence, pages: int) -> None:
        for _ in range(pages):
            self._owners.append((sequence, len(sequence.pages)))
            sequence.pages.append(len(self._owners) - 1)

    def _trim(self, sequence: CachedSequence, tokens: int) -> None:
        """Keep the first tokens of a sequence, and free the pages behind them."""
        del sequence.tokens[tokens:]
        freed = sequence.pages[self.count(tokens) :]
        if not freed:
            return
        del sequence.pages[self.count(tokens) :]
        top = self.used - len(freed)
        gone = set(freed)
        targets = [page for page in freed if page < top]
        sources = [page for page in range(top, self.used) if page not in gone]
        for source, target in zip(sources, targets, strict=True):
            owner, index = self._owners[source]
            owner.pages[index] = target
            self._owners[target] = (owner, index)
        del self._owners[top:]
        if sources:
            self._move(sources, targets)


def shared_length(held: list[int], prompt: list[int]) -> int:
    """Return how many tokens of a prompt are worth copying from a sequence that holds `held`; 0 for none."""
    common = common_prefix(held, prompt, len(prompt) - REST)
    return common - common % SHARED


def common_prefix(held: Sequence[int], prompt: Sequence[int], most: int) -> int:
    """Return the length of the common prefix of two lists, at most `most`."""
    low, high = 0, max(0, min(len(held), most))
    if held[:high] == prompt[:high]:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if held[low:middle] == prompt[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low

"""Which sequences hold which pages of a KV cache, without tensors.

A page holds the keys and values of `width` consecutive tokens. Pages in use are always 0 .. n-1: when some are freed,
the last ones move into the gaps. A sequence that is not being sampled keeps its pages until others need them; the one
that was used least recently goes first, and as a whole.

Sequences that begin alike hold the same pages, as long as these are full. A page is freed when its last sequence leaves
it, and a sequence that has to write into a page of several gets a copy first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

RECENT = 16
"""Passes after which a waiting request may take the pages of a paused sequence. An episode usually returns after one
or two; taking its pages earlier would compute every prompt anew at every turn."""

SHARED = 16
"""Prefixes of other sequences are taken over in multiples of this many tokens."""

WHOLE_SHARED = 64
"""Shortest prefix that is copied if each sequence is one page, which only small models have: they compute shorter ones
as quickly."""

REST = 5
"""Least tokens of a prompt that are computed beside a prefix of another sequence. A shorter rest is
computed by other kernels than a whole prompt, which round differently on every processor, a longer one on some only."""


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
        self,
        total: int,
        width: int,
        move: Callable[[list[int], list[int]], None],
        *,
        grows: bool = True,
        share: bool = True,
    ) -> None:
        """Keep the sizes.

        Args:
            total: number of pages.
            width: tokens in a page.
            move: copies the contents of the first pages to the second ones.
            grows: sequences may need more than one page.
            share: full pages of a common prefix are held together; if not, their contents are copied.
        """
        self.total = total
        self.width = width
        self._grows, self._share = grows, share
        self.passes = 0
        self.sequences: dict[str, CachedSequence] = {}  # ordered by last use
        self._begun: dict[tuple[int, ...], CachedSequence] = {}
        # Who holds each page in use, and at which index: a page of several is at the same index in all of them.
        self._owners: list[list[CachedSequence]] = []
        self._index: list[int] = []
        self._move = move

    @property
    def used(self) -> int:
        """Number of pages in use."""
        return len(self._owners)

    def holders(self, page: int) -> int:
        """Return the number of sequences that hold a page."""
        return len(self._owners[page]) if page < self.used else 0

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

        It holds the longest prefix of the prompt that is known of any sequence, but at least one token is left to be
        computed, since the logits after the last token are needed. A sequence of which nothing is known already has the
        pages of another with the same prompt that begins in the same pass; see `share_prompts`.
        """
        sequence = self.sequences.pop(episode, None) or CachedSequence()
        self.sequences[episode] = sequence
        sequence.used = self.passes
        sequence.busy = True  # while room is made
        self._trim(sequence, common_prefix(sequence.tokens, prompt, len(prompt) - 1))
        held = len(sequence.tokens)
        source = self._take_pages(sequence, prompt)
        # The next token is written into the last page, unless that is full or nobody else's.
        writes = len(sequence.tokens) // self.width
        split = writes < len(sequence.pages) and self.holders(sequence.pages[writes]) > 1 and bool(sequence.tokens)
        others = sum(other.busy for other in self.sequences.values()) - 1
        # Every running sequence may soon need a page more; without a reserve, the newest would be stopped again.
        missing = self.count(len(prompt)) - len(sequence.pages)
        sequence.busy = self._make_room(missing + split, others if self._grows else 0, patient=others > 0)
        if not sequence.busy:
            if not held:
                self.drop(episode)
            return None
        if split:
            self._split(sequence, writes)
        self._claim(sequence, missing)
        # What the source's last page holds of the prefix is copied. Room was made since, perhaps of its pages.
        if source is None or not source[0].pages:
            source = self.donor(sequence, prompt)
        if source is not None:
            self.take_over(*source, sequence)
        if self._share and not sequence.tokens:
            self._begun.setdefault(tuple(prompt), sequence)
        return sequence

    def begins_pass(self) -> None:
        """Forget which prompts begin together: a pass computes them now."""
        self._begun.clear()

    def extend(self, sequence: CachedSequence, tokens: int) -> bool:
        """Give a busy sequence room for a number of tokens; return False if all other pages belong to busy ones."""
        missing = self.count(tokens) - len(sequence.pages)
        if missing > 0:
            if not self._make_room(missing, 0, patient=False):
                return False
            self._claim(sequence, missing)
        return True

    def donor(self, sequence: CachedSequence, prompt: list[int]) -> tuple[CachedSequence, int] | None:
        """Return the other sequence with the longest prefix of the prompt, and its length, if it is worth taking over.

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

    def take_over(self, source: CachedSequence, shared: int, target: CachedSequence) -> None:
        """Let a sequence with room for it begin with the tokens of another: full pages are shared, the last is copied.

        Args:
            source: holds the tokens, or more.
            shared: number of tokens.
            target: loses the contents of the pages before.
        """
        full = shared // self.width if self._share else 0
        self._refer(source, full, target)
        count = self.count(shared)
        if count > full:
            self._move(source.pages[full:count], target.pages[full:count])
        target.tokens = source.tokens[:shared]

    def pause(self, episode: str) -> None:
        """Keep the pages of an episode for its next turn, unless others need them."""
        if episode in self.sequences:
            self.sequences[episode].busy = False
            self.sequences[episode].used = self.passes

    def drop(self, episode: str) -> None:
        """Free the pages of an episode; an unknown one is not an error."""
        sequence = self.sequences.pop(episode, None)
        if sequence is not None:
            self._begun = {prompt: other for prompt, other in self._begun.items() if other is not sequence}
            self._trim(sequence, 0)

    def clear(self) -> None:
        """Free all pages."""
        for sequence in self.sequences.values():
            sequence.tokens.clear()
            sequence.pages.clear()
        self.sequences.clear()
        self._begun.clear()
        self._owners.clear()
        self._index.clear()

    def _take_pages(self, sequence: CachedSequence, prompt: list[int]) -> tuple[CachedSequence, int] | None:
        """Let a sequence hold the full pages that another has of its prompt; return that one, and how much it has.

        Pages that are held are not freed to make room for the other sequence.
        """
        if not self._share:
            return None
        source = self.donor(sequence, prompt)
        if source is not None:
            full = source[1] // self.width
            if full:
                self._refer(source[0], full, sequence)
                sequence.tokens = source[0].tokens[: full * self.width]
        elif not sequence.tokens and (leader := self._begun.get(tuple(prompt))) is not None and leader is not sequence:
            self._refer(leader, len(prompt) // self.width, sequence)  # which the next pass fills
        return source

    def _refer(self, source: CachedSequence, pages: int, target: CachedSequence) -> None:
        """Let a sequence hold the first pages of another in place of its own."""
        left = []
        for index, page in enumerate(source.pages[:pages]):
            if index >= len(target.pages):
                target.pages.append(page)
            elif target.pages[index] != page:
                left.append(target.pages[index])
                target.pages[index] = page
            else:
                continue
            self._owners[page].append(target)
        self._release(target, left)

    def _make_room(self, pages: int, reserve: int, *, patient: bool) -> bool:
        """Free pages of paused sequences, the least recently used first, if that is enough."""
        missing = pages + reserve - (self.total - self.used)
        if missing <= 0 or pages <= 0:
            return True
        dropped: list[str] = []
        holders: dict[int, int] = {}
        for name, sequence in self.sequences.items():
            if missing <= 0:
                break
            if sequence.busy or (patient and self.passes - sequence.used < RECENT):
                continue
            dropped.append(name)
            for page in sequence.pages:  # which is free when its last sequence goes
                holders[page] = holders.get(page, self.holders(page)) - 1
                missing -= not holders[page]
        if missing > 0:
            return False
        for name in dropped:
            self.drop(name)
        return True

    def _claim(self, sequence: CachedSequence, pages: int) -> None:
        for _ in range(pages):
            self._index.append(len(sequence.pages))
            sequence.pages.append(self.used)
            self._owners.append([sequence])

    def _split(self, sequence: CachedSequence, index: int) -> None:
        """Give a sequence a copy of a page that others hold too."""
        shared, own = sequence.pages[index], self.used
        self._index.append(index)
        self._owners.append([sequence])
        sequence.pages[index] = own
        self._move([shared], [own])
        self._release(sequence, [shared])

    def _trim(self, sequence: CachedSequence, tokens: int) -> None:
        """Keep the first tokens of a sequence, and leave the pages behind them."""
        del sequence.tokens[tokens:]
        left = sequence.pages[self.count(tokens) :]
        del sequence.pages[self.count(tokens) :]
        self._release(sequence, left)

    def _release(self, sequence: CachedSequence, pages: list[int]) -> None:
        """Take a sequence from the holders of pages that it no longer lists, and free those without any."""
        for page in pages:
            self._owners[page].remove(sequence)
        freed = [page for page in pages if not self._owners[page]]
        if not freed:
            return
        top = self.used - len(freed)
        gone = set(freed)
        targets = [page for page in freed if page < top]
        sources = [page for page in range(top, self.used) if page not in gone]
        for source, target in zip(sources, targets, strict=True):
            self._owners[target], self._index[target] = self._owners[source], self._index[source]
            for owner in self._owners[target]:
                owner.pages[self._index[target]] = target
        del self._owners[top:], self._index[top:]
        if sources:
            self._move(sources, targets)


def shared_length(held: list[int], prompt: list[int]) -> int:
    """Return how many tokens of a prompt are worth taking over from a sequence that holds `held`; 0 for none."""
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

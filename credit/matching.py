"""Whether two texts reach a ratio of `difflib.SequenceMatcher`, found out sooner than by computing the ratio.

Same answers as difflib, whose ratio is 2 M / (length of both), M the characters of its matching blocks. Two short cuts:
M is at most the longest common subsequence, which bit operations find for many texts at once; and the search for blocks
stops as soon as the sum of what is found, or of what can still be found, decides.

Left out on purpose: junk characters, which nobody passes here, and texts that are no `str`.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher

Places = Mapping[str, Sequence[int]]
LOOK = 48
"""After so many characters a pack looks whether any of its texts can still reach what it needs."""


def places_of(text: str) -> Places:
    """Return where difflib looks for each character of a text; from 200 characters on it skips frequent ones."""
    found: Places = SequenceMatcher(None, "", text).b2j  # type: ignore[attr-defined]  # documented, but not typed
    return found


def matches_needed(threshold: float, length: int) -> int:
    """Return the smallest M with `2 * M / length >= threshold`, computed as difflib computes it.

    Args:
        threshold: from 0 to 1.
        length: of both texts together.
    """
    if not length:
        return 0
    needed = max(int(threshold * length / 2.0) - 1, 0)
    while 2.0 * needed / length < threshold:
        needed += 1
    return needed


def reaches(one: str, other: str, places: Places, needed: int) -> bool:
    """Return whether difflib's matching blocks of two texts hold at least `needed` characters.

        >>> reaches("abxcd", "abcd", places_of("abcd"), 4), reaches("cdab", "abcd", places_of("abcd"), 3)
        (True, False)

    Args:
        one: the text that difflib calls a.
        other: the text that it calls b.
        places: `places_of(other)`.
        needed: see `matches_needed`.
    """
    where = [i for i, character in enumerate(one) if character in places]
    found, todo = 0, [(0, len(one), 0, len(other))]
    hope = min(len(one), len(other))  # most that the blocks not yet looked for can hold
    while found < needed:
        if found + hope < needed or not todo:
            return False
        low, high, start, stop = todo.pop()
        hope -= min(high - low, stop - start)
        i, j, size = _longest_block(one, other, places, where, (low, high, start, stop))
        if size:
            found += size
            for part in ((low, i, start, j), (i + size, high, j + size, stop)):
                if part[0] < part[1] and part[2] < part[3]:
                    todo.append(part)
                    hope += min(part[1] - part[0], part[3] - part[2])
    return True


def _longest_block(
    one: str, other: str, places: Places, where: Sequence[int], part: tuple[int, int, int, int]
) -> tuple[int, int, int]:
    """What `SequenceMatcher.find_longest_match` finds: the longest run of the characters that it looks for, earliest
    first, and then made longer on both sides by whatever is equal."""
    low, high, start, stop = part
    best_i, best_j, best = low, start, 0
    lengths: dict[int, int] = {}
    last = -1
    for i in where[bisect_left(where, low) : bisect_left(where, high)]:
        before = lengths if i == last + 1 else {}
        lengths, last = {}, i
        for j in places[one[i]]:
            if j < start:
                continue
            if j >= stop:
                break
            length = lengths[j] = before.get(j - 1, 0) + 1
            if length > best:
                best_i, best_j, best = i - length + 1, j - length + 1, length
    while best_i > low and best_j > start and one[best_i - 1] == other[best_j - 1]:
        best_i, best_j, best = best_i - 1, best_j - 1, best + 1
    while best_i + best < high and best_j + best < stop and one[best_i + best] == other[best_j + best]:
        best += 1
    return best_i, best_j, best


class TextBatch:
    """Some texts side by side in one whole number, a bit a character, to be compared with a text all at once.

    A common subsequence is found by Hyyro's addition: a bit is cleared where the sequence grows. Between two texts lies
    a bit that is always clear and catches the carry.
    """

    def __init__(self) -> None:
        """Start without texts."""
        self._masks: dict[str, int] = {}
        self._parts: list[tuple[int, int]] = []
        self._all, self._end = 0, 0

    def __len__(self) -> int:
        """Number of texts."""
        return len(self._parts)

    def add(self, text: str) -> None:
        """Put a text beside the others."""
        part = (1 << len(text)) - 1
        for offset, character in enumerate(text, start=self._end):
            self._masks[character] = self._masks.get(character, 0) | 1 << offset
        self._parts.append((self._end, part))
        self._all |= part << self._end
        self._end += len(text) + 1

    def sharing(self, text: str, needed: Mapping[int, int]) -> list[int]:
        """Return which of the texts have a long enough common subsequence with a text, in order.

        >>> pack = TextBatch()
        >>> pack.add("kitten")
        >>> pack.add("mitt")
        >>> pack.sharing("sitting", {0: 4, 1: 3}), pack.sharing("sitting", {0: 5, 1: 3})
        ([0, 1], [1])

        Args:
            text: the text.
            needed: the numbers of the texts that are of interest, in the order of `add`, with the length that each must
                reach. The others are not looked at.
        """
        bits, everything, masks = self._all, self._all, self._masks
        alive = dict(needed)
        for start in range(0, len(text), LOOK):
            for character in text[start : start + LOOK]:
                mask = masks.get(character)
                if mask is not None:
                    both = bits & mask
                    bits = ((bits + both) | (bits - both)) & everything
            grown, rest = everything ^ bits, max(len(text) - start - LOOK, 0)
            alive = {number: least for number, least in alive.items() if self._length(grown, number) + rest >= least}
            if not alive:
                break
        return [number for number in alive if text or alive[number] <= 0]

    def _length(self, grown: int, number: int) -> int:
        offset, part = self._parts[number]
        return (grown >> offset & part).bit_count()

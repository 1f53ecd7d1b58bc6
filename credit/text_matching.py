"""Fast tests whether two texts reach a ratio of `difflib.SequenceMatcher`.

The results equal those of difflib, whose ratio is 2 M / (length of both) with M the characters in matching blocks. M is
at most the length of the longest common subsequence, which bit operations compute for many texts at once; and the
search for blocks stops as soon as the result is decided.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher

Places = Mapping[str, Sequence[int]]
LOOK = 48
"""Number of characters after which a batch checks whether any of its texts can still reach its length."""


def places_of(text: str) -> Places:
    """Return difflib's index of the characters of a text, which skips frequent ones from 200 characters on."""
    found: Places = SequenceMatcher(None, "", text).b2j  # type: ignore[attr-defined]  # documented, but not typed
    return found


def matches_needed(threshold: float, length: int) -> int:
    """Return the smallest M with `2 * M / length >= threshold`, with difflib's rounding.

    Args:
        threshold: in [0, 1].
        length: total length of both texts.
    """
    if not length:
        return 0
    needed = max(int(threshold * length / 2.0) - 1, 0)
    while 2.0 * needed / length < threshold:
        needed += 1
    return needed


def reaches(one: str, other: str, places: Places, needed: int) -> bool:
    """Return whether difflib's matching blocks of two texts have at least `needed` characters.

        >>> reaches("abxcd", "abcd", places_of("abcd"), 4), reaches("cdab", "abcd", places_of("abcd"), 3)
        (True, False)

    Args:
        one: the first text.
        other: the second text.
        places: `places_of(other)`.
        needed: see `matches_needed`.
    """
    where = [i for i, character in enumerate(one) if character in places]
    found, todo = 0, [(0, len(one), 0, len(other))]
    hope = min(len(one), len(other))  # upper bound of the characters still to be found
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
    """The result of `SequenceMatcher.find_longest_match`."""
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
    """Several texts in one integer, one bit per character, compared with a text at once.

    Common subsequences are found by Hyyro's bit-parallel algorithm. A separator bit between texts stops the carry.
    """

    def __init__(self) -> None:
        """Create an empty batch."""
        self._masks: dict[str, int] = {}
        self._parts: list[tuple[int, int]] = []
        self._all, self._end = 0, 0

    def __len__(self) -> int:
        """Number of texts."""
        return len(self._parts)

    def add(self, text: str) -> None:
        """Add a text."""
        part = (1 << len(text)) - 1
        for offset, character in enumerate(text, start=self._end):
            self._masks[character] = self._masks.get(character, 0) | 1 << offset
        self._parts.append((self._end, part))
        self._all |= part << self._end
        self._end += len(text) + 1

    def sharing(self, text: str, needed: Mapping[int, int]) -> list[int]:
        """Return the numbers of the texts whose common subsequence with a text is long enough.

        >>> batch = TextBatch()
        >>> batch.add("kitten")
        >>> batch.add("mitt")
        >>> batch.sharing("sitting", {0: 4, 1: 3}), batch.sharing("sitting", {0: 5, 1: 3})
        ([0, 1], [1])

        Args:
            text: the text.
            needed: required length by number of the text, in the order of `add`; other texts are skipped.
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

"""Porter's stemmer as in Lucene: the algorithm of 1980 with two later rules.

It differs from the paper in 'bli' -> 'ble' (paper: 'abli' -> 'able'), 'logi' -> 'log', and words of one or two letters,
which are not changed. Letters other than a to z count as consonants, so other languages are mostly unaffected.
"""

_STEP_2 = (
    *(("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"), ("bli", "ble")),
    *(("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous"), ("ization", "ize"), ("ation", "ate")),
    *(("ator", "ate"), ("alism", "al"), ("iveness", "ive"), ("fulness", "ful"), ("ousness", "ous"), ("aliti", "al")),
    *(("iviti", "ive"), ("biliti", "ble"), ("logi", "log")),
)
_STEP_3 = (("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""), ("ness", ""))
_STEP_4 = (
    *("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent"),
    *("sion", "tion", "ou", "ism", "ate", "iti", "ous", "ive", "ize"),
)
# Only words with these endings can change.
_ENDS = tuple("cdegilmnrstuy")


def shape(word: str) -> str:
    """Return "c" for each consonant and "v" for each vowel of a word; y is a vowel after a consonant.

    >>> shape("syzygy")
    'cvcvcv'

    Args:
        word: in lower case.
    """
    out, last = [], "v"
    for letter in word:
        last = "v" if letter in "aeiou" or (letter == "y" and last == "c") else "c"
        out.append(last)
    return "".join(out)


def _measure(word: str) -> int:
    """Return the number of vowel-consonant transitions: Porter's m."""
    return shape(word).count("vc")


def _short(word: str) -> bool:
    """Return whether the word ends in consonant, vowel, consonant, where the last is not w, x or y."""
    return shape(word)[-3:] == "cvc" and word[-1] not in "wxy"


def _double(word: str) -> bool:
    """Return whether the word ends in a double consonant."""
    return len(word) > 1 and word[-1] == word[-2] and shape(word)[-1] == "c"


def _plural(word: str) -> str:
    """Step 1a: caresses -> caress, ponies -> poni, cats -> cat."""
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and word[-2] != "s" else word


def _past(word: str) -> str:
    """Step 1b: agreed -> agree, plastered -> plaster, hopping -> hop, filing -> file."""
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    stem = word[:-2] if word.endswith("ed") else word[:-3] if word.endswith("ing") else ""
    if "v" not in shape(stem):
        return word
    if stem.endswith(("at", "bl", "iz")):
        return stem + "e"
    if _double(stem):
        return stem if stem[-1] in "lsz" else stem[:-1]
    return stem + "e" if _measure(stem) == 1 and _short(stem) else stem


def _replaced(word: str, rules: tuple[tuple[str, str], ...]) -> str:
    """Steps 2 and 3: replace the first suffix that matches, if the rest has m > 0."""
    for suffix, new in rules:
        if word.endswith(suffix):
            stem = word[: -len(suffix)]
            return stem + new if _measure(stem) > 0 else word
    return word


def _stripped(word: str) -> str:
    """Step 4: revival -> reviv, adjustment -> adjust, adoption -> adopt."""
    for suffix in _STEP_4:
        if word.endswith(suffix):
            stem = word[: 1 - len(suffix)] if suffix in ("sion", "tion") else word[: -len(suffix)]
            return stem if _measure(stem) > 1 else word
    return word


def _tidied(word: str) -> str:
    """Step 5: probate -> probat, cease -> ceas, controll -> control."""
    measure = _measure(word)
    if word.endswith("e") and (measure > 1 or (measure == 1 and not _short(word[:-1]))):
        word = word[:-1]
    return word[:-1] if word.endswith("l") and _double(word) and measure > 1 else word


def stem(word: str) -> str:
    """Return the stem of a word.

    >>> [stem(word) for word in ("technology", "assembly", "us", "hopping", "relational")]
    ['technolog', 'assembl', 'us', 'hop', 'relat']

    Args:
        word: in lower case; words of one or two UTF-16 units are returned unchanged.

    Source: Porter 1980, "An algorithm for suffix stripping"; Apache Lucene 9.5 for the differences above.
    """
    if len(word) <= 2 and (len(word) < 2 or max(word) <= "\uffff"):
        return word
    if not word.endswith(_ENDS):
        return word
    word = _past(_plural(word))
    if word.endswith("y") and "v" in shape(word[:-1]):
        word = word[:-1] + "i"
    return _tidied(_stripped(_replaced(_replaced(word, _STEP_2), _STEP_3)))

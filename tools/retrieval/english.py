"""English words of a text as Lucene's English analyser gives them: the words that documents are found by.

    tokens -> without a possessive 's -> lower case -> without stop words -> Porter's stems

Lower case is taken character by character, as in Java: the Turkish dotted capital I becomes a plain i, and a capital
sigma never becomes a final one.
"""

from functools import lru_cache

from turnwise.tools.retrieval.porter import stem
from turnwise.tools.retrieval.tokens import tokenize

STOP_WORDS = frozenset(
    [
        *("a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not"),
        *("of", "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to", "was"),
        *("will", "with"),
    ]
)
"""The 33 words that Lucene leaves out of English."""

_APOSTROPHES = "'\u2019\uff07"


@lru_cache(maxsize=1 << 16)
def term(token: str) -> str:
    """Return the word that a token is found by, or "" if it is a stop word.

    >>> [term(token) for token in ("Women's", "Bands", "THE")]
    ['women', 'band', '']

    Args:
        token: as `tokenize` gives it, not empty.
    """
    if len(token) > 1 and token[-1] in "sS" and token[-2] in _APOSTROPHES:
        token = token[:-2]
    word = token.lower() if token.isascii() else "".join(letter.lower()[0] for letter in token)
    return "" if word in STOP_WORDS else stem(word)


def analyse(text: str) -> list[str]:
    """Return the words by which a text is found, in their order, repeated as often as they stand in it.

    >>> analyse("The women's smartwatch bands, 41mm | 42mm")
    ['women', 'smartwatch', 'band', '41mm', '42mm']

    Args:
        text: any text.

    Raises:
        RetrievalError: the text is no str.

    Source: Apache Lucene 9.5, EnglishAnalyzer.
    """
    return [word for token in tokenize(text) if (word := term(token))]

"""Search terms of an English text, as in Lucene's EnglishAnalyzer.

    tokens -> without possessive 's -> lower case -> without stop words -> Porter stems

Text is lowercased character by character, as in Java: the Turkish dotted capital I becomes a plain i, and a capital
sigma never becomes a final sigma.
"""

from functools import lru_cache

from turncredit.tools.retrieval.porter import stem
from turncredit.tools.retrieval.tokens import tokenize

STOP_WORDS = frozenset(
    [
        *("a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not"),
        *("of", "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to", "was"),
        *("will", "with"),
    ]
)
"""Lucene's 33 English stop words."""

_APOSTROPHES = "'\u2019\uff07"


@lru_cache(maxsize=1 << 16)
def term(token: str) -> str:
    """Return the search term of a token; "" for a stop word.

    >>> [term(token) for token in ("Women's", "Bands", "THE")]
    ['women', 'band', '']

    Args:
        token: a result of `tokenize`, not empty.
    """
    if len(token) > 1 and token[-1] in "sS" and token[-2] in _APOSTROPHES:
        token = token[:-2]
    word = token.lower() if token.isascii() else "".join(letter.lower()[0] for letter in token)
    return "" if word in STOP_WORDS else stem(word)


def analyse(text: str) -> list[str]:
    """Return the search terms of a text, in order and with repetitions.

    >>> analyse("The women's smartwatch bands, 41mm | 42mm")
    ['women', 'smartwatch', 'band', '41mm', '42mm']

    Args:
        text: any text.

    Raises:
        RetrievalError: `text` is not a str.

    Source: Apache Lucene 9.5, EnglishAnalyzer.
    """
    return [word for token in tokenize(text) if (word := term(token))]

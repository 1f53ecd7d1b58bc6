r"""Text on its way out: to a terminal, a log, a message, or a file.

A model, a server or a file may send characters that a terminal obeys (titles, the clipboard, the cursor), that turn the
direction of a line round, or that no encoding has (half a surrogate pair). `escaped` writes them as Python would:
`\x1b`, `\u202e`, `\udc80`. Every command prints through it, every log line and error message is made with it.

`Secret` holds a key that must reach a server and nobody else; `hide_secrets` removes keys from a text, also where they
were encoded on their way.

Not included: escaping for HTML, which `turncredit.report.run_report.html` does, and for a shell.
"""

from __future__ import annotations

import base64
import json
import logging
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NoReturn
from urllib.parse import quote, quote_plus

HIDDEN = "***"
"""What stands in the place of a key."""

_SHORTEST_SECRET = 6
"""Shorter keys are not searched for: "x" or "EMPTY" of a local server would hide half of every message."""

# Control characters of ASCII and Latin-1, half surrogate pairs, line separators, marks that change the direction of a
# line or are invisible (U+200B to U+200F, U+202A to U+202E, U+2060 to U+206F, U+FEFF), tags and annotations.
_INVISIBLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)
# Joiners and variation selectors belong to emoji and to several scripts, where they are harmless.
# A half surrogate pair, or what may be one in JSON of ASCII: pairs, such as those of emoji, are written alike.
_HALF = re.compile("[\ud800-\udfff]|\\\\u[dD][89a-fA-F]")
_HARMLESS = frozenset("\u200c\u200d")


def escaped(text: str, *, keep: str = "\n\t") -> str:
    r"""Return a text in which what a terminal would obey, or cannot encode, is written as an escape.

    Args:
        text: any string.
        keep: control characters that stay: "\n\t" for a block of text, "" for one line.

    >>> escaped("\x1b]0;title\x07 \u202etxt.exe \udc80")
    '\\x1b]0;title\\x07 \\u202etxt.exe \\udc80'
    >>> escaped("two\nlines", keep="")
    'two\\nlines'
    """

    def escape(match: re.Match[str]) -> str:
        character = match[0]
        if character in keep or character in _HARMLESS:
            return character
        return character.encode("unicode_escape").decode("ascii")

    return text if text.isascii() and text.isprintable() else _INVISIBLE.sub(escape, text)


def shortened(text: str, longest: int, *, keep: int | None = None) -> str:
    """Return a text for a message: whole, or its beginning with "..." if it is long.

    Args:
        text: any text; for a value, its `repr`.
        longest: maximum number of characters of a text that stays whole.
        keep: number of characters that are kept of a longer one; None: `longest`.

    >>> shortened("abcdef", 6), shortened("abcdefg", 6), shortened("abcdefg", 6, keep=3)
    ('abcdef', 'abcdef...', 'abc...')
    """
    return text if len(text) <= longest else f"{text[: longest if keep is None else keep]}..."


def encodable(text: str) -> str:
    r"""Return a text that UTF-8 can encode: half surrogate pairs are written as `\udc80`; nothing else changes.

    For files that must keep every other character, such as stored observations.
    """
    return text.encode("utf-8", errors="backslashreplace").decode("utf-8")


def encodable_values(value: object) -> Any:
    r"""Return a value as JSON has it, lists and objects, in which every string is `encodable`.

    >>> encodable_values({"a": ["\udc80", 1]})
    {'a': ['\\udc80', 1]}
    """
    if isinstance(value, str):
        return value if value.isascii() else encodable(value)
    if isinstance(value, Mapping):
        return {encodable_values(key): encodable_values(item) for key, item in value.items()}
    return [encodable_values(item) for item in value] if isinstance(value, list | tuple) else value


def json_text(value: object, *, indent: int | None = None, compact: bool = False, ascii: bool = True) -> str:
    r"""Return a value as JSON that every reader accepts: half surrogate pairs are written as the text `\udc80`.

    Args:
        value: what `json.dumps` takes.
        indent: that of `json.dumps`.
        compact: no spaces.
        ascii: write everything beyond ASCII as escapes.
    """
    separators = (",", ":") if compact else None
    text = json.dumps(value, indent=indent, separators=separators, ensure_ascii=ascii)
    if _HALF.search(text) is None:
        return text
    return json.dumps(encodable_values(value), indent=indent, separators=separators, ensure_ascii=ascii)


class Secret:
    """A key that does not show when it is printed, logged, compared in a message or stored.

    >>> key = Secret("sk-very-secret")
    >>> f"{key} {key!r}"
    "*** Secret('***')"
    >>> key.reveal()
    'sk-very-secret'
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        """Hold a key."""
        self._value = value

    def reveal(self) -> str:
        """Return the key, for the one place that sends it."""
        return self._value

    def __repr__(self) -> str:
        """Return a text without the key."""
        return f"Secret({HIDDEN!r})"

    def __str__(self) -> str:
        """Return a text without the key."""
        return HIDDEN

    def __bool__(self) -> bool:
        """Return whether there is a key."""
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        """Return whether two secrets hold the same key; a plain string never equals a secret."""
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        """Return a hash of the key."""
        return hash(("Secret", self._value))

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled, so that no file and no other process gets the key by accident."""
        raise TypeError("a Secret cannot be pickled; pass the name of the environment variable that holds the key")


def hide_secrets(text: str, secrets: Iterable[Secret | str]) -> str:
    """Return a text without keys: each is replaced by `***`, also in the forms that URLs, JSON and headers give it.

    Args:
        text: a message, an address or an answer of a server.
        secrets: the keys; those of fewer than six characters are left alone.

    >>> hide_secrets("Bearer sk-a+b/c== at ?key=sk-a%2Bb%2Fc%3D%3D", [Secret("sk-a+b/c==")])
    'Bearer *** at ?key=***'
    """
    for secret in secrets:
        value = secret.reveal() if isinstance(secret, Secret) else secret
        if len(value) < _SHORTEST_SECRET:
            continue
        for form in sorted(_forms(value), key=len, reverse=True):
            text = re.sub(re.escape(form), HIDDEN, text, flags=re.IGNORECASE)
    return text


def hide_in(data: object, secrets: Collection[Secret | str]) -> Any:
    """Return JSON data without keys: `hide_secrets` in each of its strings, those that name a value included.

    >>> hide_in({"headers": ["Bearer sk-12345"], "n": 2}, [Secret("sk-12345")])
    {'headers': ['Bearer ***'], 'n': 2}
    """
    written = json.dumps(data, ensure_ascii=False)
    if hide_secrets(written, secrets) == written:  # a walk through long lists of numbers takes longer
        return data
    return map_strings(data, lambda text: hide_secrets(text, secrets))


def map_strings(data: object, function: Callable[[str], str]) -> Any:
    """Return JSON data with a function applied to each of its strings, those that name a value included."""
    if isinstance(data, str):
        return function(data)
    if isinstance(data, Mapping):
        return {map_strings(name, function): map_strings(value, function) for name, value in data.items()}
    return [map_strings(value, function) for value in data] if isinstance(data, list | tuple) else data


class HidesSecrets(logging.Filter):
    """A filter of log records that removes keys from what libraries log, for example the headers of an answer.

    A filter counts for the loggers to which it is added, not for those below them.
    """

    def __init__(self, secrets: Collection[Secret | str]) -> None:
        """Keep the keys."""
        super().__init__()
        self._secrets = secrets

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrite the record, and let it pass."""
        record.msg, record.args = hide_secrets(record.getMessage(), self._secrets), ()
        if record.exc_info:
            record.exc_text = hide_secrets(logging.Formatter().formatException(record.exc_info), self._secrets)
            record.exc_info = None
        return True


def _forms(value: str) -> set[str]:
    """Return a key as it is, and as URLs, JSON, Python, HTML and headers write it."""
    import html

    encoded = value.encode("utf-8", errors="surrogatepass")
    forms = {
        value,
        quote(encoded, safe=""),
        quote(encoded),
        quote_plus(encoded),
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        json.dumps(value).replace("/", "\\/")[1:-1],
        repr(value)[1:-1],
        html.escape(value),
        base64.b64encode(encoded).decode().rstrip("="),
        base64.urlsafe_b64encode(encoded).decode().rstrip("="),
    }
    return {form for form in forms if len(form) >= _SHORTEST_SECRET}

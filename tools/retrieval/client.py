"""Client of a retrieval server with the HTTP interface of Search-R1: POST /retrieve.

    {"queries": [str, ...], "topk": int, "return_scores": true}
    {"result": [[{"document": {"id"?, "title"?, "text"?, "contents"}, "score": float}, ...], ...]}

Temporary failures are retried with increasing delays: refused or lost connections, timeouts, and status 408, 425, 429
and 5xx. Other failures are raised at once. Documents without an id get one from a hash of their contents.

Not included: authentication, and persistent connections (a search takes longer than connecting in a local network).
"""

from __future__ import annotations

import http.client
import json
import random
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from hashlib import blake2b
from math import inf, isfinite
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit, urlunsplit
from urllib.request import ProxyHandler, Request, build_opener

from turncredit.tools.bounded_input import InputError, bounded, parse_json
from turncredit.tools.retrieval.errors import BadQuery, NoRetriever, RetrieverDown
from turncredit.tools.retrieval.passages import Passage
from turncredit.tools.retrieval.retriever import Hits, check_count, check_queries

__all__ = ["RemoteRetriever"]

_TEMPORARY: Final = (408, 425, 429)
_MAX_BYTES: Final = 1 << 28  # of a response
_BYTES_BESIDE: Final = 16 << 20  # of a response, beside its passages
_BYTES_PER_PASSAGE: Final = 256 << 10  # a passage of 100 words has 700; some corpora have whole articles
_MAX_TIMEOUT: Final = 1e9  # seconds; sockets do not accept more


class RemoteRetriever:
    """A retriever on a server; it also returns passages.

    Args:
        url: address of the server, with or without `/retrieve`.
        tries: maximum number of attempts per request.
        timeout: seconds for one attempt; None: no limit.
        deadline: seconds for all attempts of a request; None: no limit.
        backoff: seconds before the second attempt, doubled before each further one. Each delay is reduced by a random
            amount of up to one half, so that many clients do not retry at the same time.
        batch: queries per request.
        seed: of the random delays.
        sleep, clock: for tests.

    Raises:
        BadQuery: the address or a number is invalid.
    """

    def __init__(
        self,
        url: str,
        *,
        tries: int = 4,
        timeout: float | None = 30.0,
        deadline: float | None = 120.0,
        backoff: float = 0.5,
        batch: int = 128,
        seed: int = 0,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url = _address(url)
        for name, value in (("timeout", timeout), ("deadline", deadline)):
            if value is not None and (not isfinite(value) or value <= 0):
                raise BadQuery(f"{name} must be a finite number of seconds > 0, or None, got {value!r}")
        if not isfinite(backoff) or backoff < 0:
            raise BadQuery(f"backoff must be a finite number of seconds >= 0, got {backoff!r}")
        self.tries, self.batch = check_count(tries, "tries"), check_count(batch, "batch")
        self.timeout, self.deadline = (inf if limit is None else float(limit) for limit in (timeout, deadline))
        self.backoff = float(backoff)
        self._random, self._sleep, self._clock = random.Random(seed), sleep, clock
        self._opener = build_opener(ProxyHandler({}))  # without the proxies of this machine

    def find(self, query: str, k: int = 3) -> list[Passage]:
        """Return at most k passages, best first.

        Args:
            query: any text.
            k: maximum number of passages, at least 1.

        Raises:
            BadQuery: `query` is not a str, `k` is not an integer >= 1, or the server refuses the request.
            RetrieverDown: the server does not respond in time.
            NoRetriever: the server is not a retriever.
        """
        return self.find_batch([query], k)[0]

    def find_batch(self, queries: Iterable[str], k: int = 3) -> list[list[Passage]]:
        """Return the result of `find` for each query, with several queries per request.

        Args:
            queries: texts; a single str is refused.
            k: maximum number of passages per query, at least 1.

        Raises:
            BadQuery, RetrieverDown, NoRetriever: see `find`.
        """
        texts, k = check_queries(queries), check_count(k)
        out: list[list[Passage]] = []
        for start in range(0, len(texts), self.batch):
            out += self._request(texts[start : start + self.batch], k)
        return out

    def search(self, query: str, k: int = 10) -> Hits:
        """Return pairs (id, score), best first; raises the errors of `find`."""
        return self.search_batch([query], k)[0]

    def search_batch(self, queries: Iterable[str], k: int = 10) -> list[Hits]:
        """Return the result of `search` for each query; raises the errors of `find`."""
        return [[(passage.id, passage.score) for passage in passages] for passages in self.find_batch(queries, k)]

    def _request(self, queries: list[str], k: int) -> list[list[Passage]]:
        """Send a request until it succeeds, fails permanently, or the attempts or the time are used up."""
        body = json.dumps({"queries": queries, "topk": k, "return_scores": True}).encode()
        most = min(_MAX_BYTES, _BYTES_BESIDE + _BYTES_PER_PASSAGE * len(queries) * k)
        end, reason, attempts = self._clock() + self.deadline, "no time was left", 0
        while attempts < self.tries and (left := end - self._clock()) > 0:
            attempts += 1
            try:
                return _passages(self._send(body, min(self.timeout, left), most), len(queries), k)
            except NoRetriever as error:
                error.url = self.url
                raise
            except _TemporaryFailure as error:
                reason = str(error)
            wait = self.backoff * 2 ** (attempts - 1) * self._random.uniform(0.5, 1.0)
            if attempts == self.tries or self._clock() + wait >= end:
                break
            self._sleep(wait)
        times = "1 attempt" if attempts == 1 else f"{attempts} attempts"
        message = f"the retriever at {self.url} did not respond after {times}: {reason}"
        raise RetrieverDown(message, url=self.url, reason=reason)

    def _send(self, body: bytes, timeout: float, most: int) -> Any:
        """Send a request once and return the decoded response, which has at most `most` bytes."""
        request = Request(self.url, data=body, headers={"Content-Type": "application/json"}, method="POST")
        try:
            with self._opener.open(request, timeout=timeout if timeout < _MAX_TIMEOUT else None) as response:
                return parse_json(_read(response, self._clock, self._clock() + timeout, most), "the response")
        except HTTPError as error:
            self._raise_for_status(error)
        except (URLError, TimeoutError, http.client.HTTPException, OSError) as error:
            reason = getattr(error, "reason", None) or error
            late = isinstance(reason, TimeoutError)
            text = f"no response within {timeout:.3g} s" if late else f"{reason or type(reason).__name__}"
            raise _TemporaryFailure(text) from error
        except InputError as error:
            raise self._not_a_retriever(f"what cannot be read ({error})") from error

    def _raise_for_status(self, error: HTTPError) -> None:
        with error:
            try:
                text = error.read(2000).decode(errors="replace").strip()
            except (OSError, http.client.HTTPException):
                text = ""
        if error.code in _TEMPORARY or error.code >= 500:
            raise _TemporaryFailure(f"status {error.code} {text[:200]}".rstrip()) from error
        if error.code in (400, 413, 422):
            reason = f"status {error.code}: {text[:500]}"
            message = f"the retriever at {self.url} refused the request: {reason}"
            raise BadQuery(message, url=self.url, reason=reason) from error
        raise self._not_a_retriever(f"status {error.code}") from error

    def _not_a_retriever(self, behaviour: str) -> NoRetriever:
        message = f"{self.url} responded with {behaviour}; is it a retriever?"
        return NoRetriever(message, url=self.url, reason=f"it responded with {behaviour}")


class _TemporaryFailure(Exception):
    """A failure after which the request is tried again."""


def _read(response: Any, clock: Callable[[], float], end: float, most: int) -> bytes:
    """Return the body of a response within the limits on time and size."""
    pieces = []
    for piece in bounded(iter(lambda: response.read1(1 << 16), b""), most, "the response"):
        pieces.append(piece)
        if clock() > end:
            raise TimeoutError("too slow")
    return b"".join(pieces)


def _address(url: str) -> str:
    parts = urlsplit(url) if isinstance(url, str) else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadQuery(f"url must be like http://127.0.0.1:8000, got {url!r}")
    path = parts.path.rstrip("/")
    if parts.username or parts.password:
        raise BadQuery(f"the url of the server {parts.hostname} must not contain a password")
    return urlunsplit((parts.scheme, parts.netloc, path if path.endswith("/retrieve") else f"{path}/retrieve", "", ""))


def _passages(answer: object, queries: int, k: int) -> list[list[Passage]]:
    """Return the passages of a response, with or without scores.

    Raises:
        NoRetriever: the response has another form.
    """
    lists = answer.get("result") if isinstance(answer, dict) else None
    if not isinstance(lists, list) or len(lists) != queries or not all(isinstance(hits, list) for hits in lists):
        raise NoRetriever(f'expected {{"result": [...]}} with one list per query ({queries}), got {answer!r:.120}')
    return [[_passage(hit) for hit in hits[:k]] for hits in lists]


def _passage(hit: object) -> Passage:
    """Return the passage of {"document": ..., "score": ...}, or of a document without score."""
    row = hit.get("document", hit) if isinstance(hit, dict) else None
    if not isinstance(row, dict):
        raise NoRetriever(f"a result must be a document, with or without a score, got {hit!r:.120}")
    contents, title, text = row.get("contents"), row.get("title"), row.get("text")
    if isinstance(contents, str):
        passage = Passage.of("", contents)
    elif isinstance(title, str) and isinstance(text, str):
        passage = Passage("", title, text)
    else:
        raise NoRetriever(f"a document must have contents, or title and text, got {row!r:.120}")
    id, score = row.get("id"), hit.get("score", 0.0) if isinstance(hit, dict) else 0.0
    if isinstance(id, bool) or not isinstance(id, str | int):
        id = blake2b(passage.contents.encode(errors="replace"), digest_size=8).hexdigest()
    good = isinstance(score, int | float) and not isinstance(score, bool) and isfinite(score)
    return replace(passage, id=str(id), score=float(score) if good else 0.0)

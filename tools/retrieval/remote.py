"""A retriever on another machine, asked through the HTTP interface of Search-R1: POST /retrieve.

    {"queries": [str, ...], "topk": int, "return_scores": true}
    {"result": [[{"document": {"id"?, "title"?, "text"?, "contents"}, "score": float}, ...], ...]}

What may pass is tried again, later and later: a refused or lost connection, an answer too late, 408, 425, 429 and 5xx.
What cannot pass is said at once. Documents without an id are given one made from their contents.

Left out on purpose: passwords, and connections kept open (the standard library's client has none; a search takes longer
than a connection on the same machine or network).
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

from turnwise.tools.retrieval.errors import BadQuery, NoRetriever, RetrieverDown
from turnwise.tools.retrieval.passages import Passage
from turnwise.tools.retrieval.retriever import Hits, checked_number, checked_queries

__all__ = ["Remote"]

_PASSING: Final = (408, 425, 429)
_MOST: Final = 1 << 28  # bytes of an answer
_LONGEST: Final = 1e9  # seconds; more than that is no limit, and no socket takes it


class Remote:
    """A client; it finds passages and is a retriever.

    Args:
        url: address of the server, with or without `/retrieve` at its end.
        tries: how often a request is sent at most, at least 1.
        timeout: seconds for one try; None waits for ever.
        deadline: seconds for all tries of one request together; None: no limit.
        backoff: seconds before the second try, doubled before each further one, of which a random part between half and
            all is waited, so that many clients do not come back at once.
        batch: queries in one request.
        seed: of the random parts.
        sleep, clock: wait and tell the time; for tests.

    Raises:
        BadQuery: the address or a number is impossible.
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
        """Take an address; nothing is sent before the first search."""
        self.url = _address(url)
        for name, value in (("timeout", timeout), ("deadline", deadline)):
            if value is not None and (not isfinite(value) or value <= 0):
                raise BadQuery(f"option {name} must be a finite number of seconds above 0, or None; came {value!r}")
        if not isfinite(backoff) or backoff < 0:
            raise BadQuery(f"option backoff must be a finite number of seconds of at least 0; came {backoff!r}")
        self.tries, self.batch = checked_number(tries), checked_number(batch)
        self.timeout, self.deadline = (inf if one is None else float(one) for one in (timeout, deadline))
        self.backoff = float(backoff)
        self._random, self._sleep, self._clock = random.Random(seed), sleep, clock
        self._opener = build_opener(ProxyHandler({}))  # a search server is ours, never behind a proxy of the machine's

    def find(self, query: str, k: int = 3) -> list[Passage]:
        """Return at most k passages, the best first.

        Args:
            query: any text.
            k: how many, at least 1.

        Raises:
            BadQuery: the query is no str, k is no number, or the server refuses them.
            RetrieverDown: the server does not answer in time; NoRetriever, which is one, where it does not as one does.
        """
        return self.find_batch([query], k)[0]

    def find_batch(self, queries: Iterable[str], k: int = 3) -> list[list[Passage]]:
        """Return what `find` gives for each query, asking for many at once.

        Args:
            queries: texts; one str alone is refused.
            k: how many each, at least 1.

        Raises:
            BadQuery, RetrieverDown: see `find`.
        """
        texts, k = checked_queries(queries), checked_number(k)
        out: list[list[Passage]] = []
        for start in range(0, len(texts), self.batch):
            out += self._ask(texts[start : start + self.batch], k)
        return out

    def search(self, query: str, k: int = 10) -> Hits:
        """Return pairs (id, score), the best first.

        Args:
            query: any text.
            k: how many, at least 1.

        Raises:
            BadQuery, RetrieverDown: see `find`.
        """
        return self.search_batch([query], k)[0]

    def search_batch(self, queries: Iterable[str], k: int = 10) -> list[Hits]:
        """Return what `search` gives for each query, asking for many at once.

        Args:
            queries: texts; one str alone is refused.
            k: how many each, at least 1.

        Raises:
            BadQuery, RetrieverDown: see `find`.
        """
        return [[(found.id, found.score) for found in passages] for passages in self.find_batch(queries, k)]

    def _ask(self, queries: list[str], k: int) -> list[list[Passage]]:
        """Send one request until it is answered, the tries are used up, or there is no time left."""
        body = json.dumps({"queries": queries, "topk": k, "return_scores": True}).encode()
        end, said, asked = self._clock() + self.deadline, "no time was left", 0
        while asked < self.tries and (left := end - self._clock()) > 0:
            asked += 1
            try:
                return _passages(self._send(body, min(self.timeout, left)), len(queries), k)
            except NoRetriever as error:
                error.at = self.url
                raise
            except _Passing as error:
                said = str(error)
            wait = self.backoff * 2 ** (asked - 1) * self._random.uniform(0.5, 1.0)
            if asked == self.tries or self._clock() + wait >= end:
                break
            self._sleep(wait)
        times = "once" if asked == 1 else f"{asked} times"
        sentence = f"the retriever at {self.url} was asked {times} and did not answer: {said}"
        raise RetrieverDown(sentence, at=self.url, why=said)

    def _send(self, body: bytes, timeout: float) -> Any:
        """Return what the server answers, read as JSON."""
        request = Request(self.url, data=body, headers={"Content-Type": "application/json"}, method="POST")
        try:
            with self._opener.open(request, timeout=timeout if timeout < _LONGEST else None) as answer:
                return json.loads(_read(answer, self._clock, self._clock() + timeout))
        except HTTPError as error:
            self._refused(error)
        except (URLError, TimeoutError, http.client.HTTPException, OSError) as error:
            reason = getattr(error, "reason", None) or error
            late = isinstance(reason, TimeoutError)
            raise _Passing(
                f"no answer within {timeout:.3g} s" if late else f"{reason or type(reason).__name__}"
            ) from error
        except NoRetriever:
            raise
        except (ValueError, RecursionError) as error:
            raise self._strange("something that is no JSON") from error

    def _refused(self, error: HTTPError) -> None:
        """Say what a status other than success means."""
        with error:
            try:
                said = error.read(2000).decode(errors="replace").strip()
            except (OSError, http.client.HTTPException):
                said = ""
        if error.code in _PASSING or error.code >= 500:
            raise _Passing(f"status {error.code} {said[:200]}".rstrip()) from error
        if error.code in (400, 413, 422):
            why = f"status {error.code}: {said[:500]}"
            raise BadQuery(f"the retriever at {self.url} refuses the request, {why}", at=self.url, why=why) from error
        raise self._strange(f"status {error.code}") from error

    def _strange(self, what: str) -> NoRetriever:
        """Return the error that tells what answers in the place of a retriever."""
        sentence = f"{self.url} answers with {what}; is it a retriever?"
        return NoRetriever(sentence, at=self.url, why=f"it answers with {what}")


class _Passing(Exception):
    """A failure that may pass."""


def _read(answer: Any, clock: Callable[[], float], end: float) -> bytes:
    """Return a body that comes in time and is not endless."""
    pieces, size = [], 0
    while piece := answer.read1(1 << 16):
        pieces.append(piece)
        size += len(piece)
        if clock() > end:
            raise TimeoutError("too slow")
        if size > _MOST:
            raise NoRetriever(f"the answer is longer than {_MOST:,} bytes")
    return b"".join(pieces)


def _address(url: str) -> str:
    parts = urlsplit(url) if isinstance(url, str) else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadQuery(f"the address of a retriever is like http://127.0.0.1:8000; came {url!r}")
    path = parts.path.rstrip("/")
    return urlunsplit((parts.scheme, parts.netloc, path if path.endswith("/retrieve") else f"{path}/retrieve", "", ""))


def _passages(answer: object, queries: int, k: int) -> list[list[Passage]]:
    """Return the passages of an answer, in either of its shapes, or say what is wrong with it."""
    lists = answer.get("result") if isinstance(answer, dict) else None
    if not isinstance(lists, list) or len(lists) != queries or not all(isinstance(hits, list) for hits in lists):
        raise NoRetriever(
            f'a retriever answers {queries} queries with {{"result": [...]}} of as many lists; came {answer!r:.120}'
        )
    return [[_passage(hit) for hit in hits[:k]] for hits in lists]


def _passage(hit: object) -> Passage:
    """Return the passage of {"document": ..., "score": ...}, or of a document alone."""
    row = hit.get("document", hit) if isinstance(hit, dict) else None
    if not isinstance(row, dict):
        raise NoRetriever(f"a retriever's result must be a document, or one with a score; came {hit!r:.120}")
    contents, title, text = row.get("contents"), row.get("title"), row.get("text")
    if isinstance(contents, str):
        passage = Passage.of("", contents)
    elif isinstance(title, str) and isinstance(text, str):
        passage = Passage("", title, text)
    else:
        raise NoRetriever(f"a document must have contents, or title and text; came {row!r:.120}")
    id, score = row.get("id"), hit.get("score", 0.0) if isinstance(hit, dict) else 0.0
    if isinstance(id, bool) or not isinstance(id, str | int):
        id = blake2b(passage.contents.encode(errors="replace"), digest_size=8).hexdigest()
    good = isinstance(score, int | float) and not isinstance(score, bool) and isfinite(score)
    return replace(passage, id=str(id), score=float(score) if good else 0.0)

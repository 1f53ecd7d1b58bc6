"""Search-R1's search service: any library behind POST /retrieve, as a FastAPI application.

    {"queries": [str, ...], "topk": int or null, "return_scores": bool}
    {"result": [[document, ...], ...]}                                          without scores
    {"result": [[{"document": document, "score": float}, ...], ...]}            with scores

A document is {"id", "title", "text", "contents"}: what the original's BM25 gives and what its dense search gives,
together. As there, no `topk`, null and 0 mean the server's own number, and further keys of a request count for nothing.
An empty query finds nothing, since one model that has nothing to ask must not cost the others of its batch their
answers. What is wrong gets a 4xx with a sentence, {"detail": str}; nothing that is sent ends the server.

Left out on purpose: passwords and encryption, and listening (`turnwise.tools.serving`).
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Sized
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from turnwise.tools.retrieval.errors import BadQuery, RetrievalError, RetrieverDown
from turnwise.tools.retrieval.library import Finder
from turnwise.tools.retrieval.passages import Passage

if TYPE_CHECKING:
    from fastapi import FastAPI, Request, Response

__all__ = ["Limits", "create_app"]

_MISSING: Final = "fastapi is not installed, which serving needs: pip install turnwise[serve]"
_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may ask for.

    Args:
        queries: how many.
        topk: documents a query.
        letters: characters of a query.
        size: bytes of the body.
        documents: results of all queries together.
    """

    queries: int = 8192
    topk: int = 1000
    letters: int = 20_000
    size: int = 16 << 20
    documents: int = 100_000

    def __post_init__(self) -> None:
        """Refuse what would allow nothing.

        Raises:
            BadQuery: a limit is below 1.
        """
        for name in self.__slots__:
            if (value := getattr(self, name)) < 1:
                raise BadQuery(f"limit {name} must be at least 1; came {value!r}")


class _Refused(Exception):
    """A request that gets a status and a sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def create_app(library: Finder, *, topk: int = 3, limits: Limits | None = None, about: str = "") -> FastAPI:
    """Return the application.

    Args:
        library: what finds passages; it is asked by one request at a time.
        topk: how many where a request does not say.
        limits: what one request may ask for.
        about: what is served, for /health.

    Raises:
        BadQuery: topk is below 1 or beyond the limit.
        ImportError: the extra `serve` is not installed.
    """
    try:
        from fastapi import FastAPI, Response
        from fastapi.concurrency import run_in_threadpool
        from starlette.requests import ClientDisconnect
    except ImportError as missing:
        raise ImportError(_MISSING) from missing
    desk = _Desk(library, topk, limits or Limits(), about)
    app = FastAPI(title="turnwise search", docs_url=None, redoc_url=None, openapi_url=None)

    def answer(status: int, said: Any) -> Response:
        body = json.dumps(said, ensure_ascii=False, allow_nan=False).encode(errors="replace")
        return Response(body, status_code=status, media_type="application/json")

    async def retrieve(request: Request) -> Response:
        try:
            asked = desk.read(await _body(request, desk.limits.size))
            return answer(200, await run_in_threadpool(desk.serve, asked))
        except _Refused as refused:
            return answer(refused.status, {"detail": str(refused)})
        except ClientDisconnect:
            return answer(400, {"detail": "the request ended early"})
        except Exception:  # told to whoever runs the server, and kept from ending a connection that others share
            _LOG.exception("a request could not be answered")
            return answer(500, {"detail": "something is wrong with the server, not with what was asked of it"})

    async def health(request: Request) -> Response:
        return answer(200, desk.health())

    app.router.add_route("/retrieve", retrieve, methods=["POST"])
    app.router.add_route("/health", health, methods=["GET"])
    return app


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request that is in order."""

    queries: list[str]
    topk: int
    scores: bool


class _Desk:
    """What reads requests and answers them."""

    def __init__(self, library: Finder, topk: int, limits: Limits, about: str) -> None:
        if not 1 <= topk <= limits.topk:
            raise BadQuery(f"topk must be from 1 to {limits.topk}, the limit; came {topk!r}")
        self.library, self.topk, self.limits, self.about = library, topk, limits, about
        self._lock, self._answered = Lock(), 0

    def health(self) -> dict[str, Any]:
        size = len(self.library) if isinstance(self.library, Sized) else None
        return {
            "status": "ok",
            "about": self.about,
            "passages": size,
            "topk": self.topk,
            "queries_answered": self._answered,
        }

    def read(self, body: bytes) -> _Asked:
        """Return what a body asks for."""
        try:
            said = json.loads(body)
        except (ValueError, RecursionError):
            raise _Refused(422, 'the body must be JSON such as {"queries": ["who wrote Faust"]}') from None
        if not isinstance(said, dict):
            raise _Refused(422, f"the body must be a JSON object with queries; came {type(said).__name__}")
        queries = self._queries(said.get("queries"))
        topk, scores = self._topk(said.get("topk"), len(queries)), said.get("return_scores", False)
        if not isinstance(scores, bool):
            raise _Refused(422, f"return_scores must be true or false; came {scores!r:.80}")
        return _Asked(queries, topk, scores)

    def _queries(self, queries: object) -> list[str]:
        limits = self.limits
        if not isinstance(queries, list):
            came = "nothing" if queries is None else type(queries).__name__
            raise _Refused(422, f"queries must be a list of str; came {came}")
        if len(queries) > limits.queries:
            raise _Refused(413, f"at most {limits.queries:,} queries in one request; came {len(queries):,}")
        for number, query in enumerate(queries):
            if not isinstance(query, str):
                raise _Refused(422, f"query {number}, from 0, must be a str; came {type(query).__name__}")
            if len(query) > limits.letters:
                raise _Refused(
                    413, f"query {number}, from 0, has {len(query):,} characters; most are {limits.letters:,}"
                )
        return [query.encode(errors="replace").decode() for query in queries]

    def _topk(self, topk: object, queries: int) -> int:
        limits = self.limits
        if isinstance(topk, bool) or not isinstance(topk, int | None):
            raise _Refused(422, f"topk must be a whole number or null; came {topk!r:.80}")
        if topk is not None and not 0 <= topk <= limits.topk:
            raise _Refused(
                422, f"topk must be from 1 to {limits.topk:,}, or 0 or null for {self.topk}; came {topk!r:.80}"
            )
        topk = topk or self.topk
        if topk * queries > limits.documents:
            raise _Refused(413, f"{queries:,} queries of {topk:,} documents are more than {limits.documents:,} in all")
        return topk

    def serve(self, asked: _Asked) -> dict[str, Any]:
        """Return the answer."""
        try:
            with self._lock:
                found = self.library.find_batch(asked.queries, asked.topk)
        except BadQuery as error:
            raise _Refused(422, str(error)) from error
        except RetrieverDown as error:
            raise _Refused(503, str(error)) from error
        except RetrievalError as error:
            raise _Refused(500, str(error)) from error
        self._answered += len(found)
        return {"result": [[_result(passage, asked.scores) for passage in passages] for passages in found]}


def _result(passage: Passage, scores: bool) -> dict[str, Any]:
    """Return a passage as the answer has it."""
    document = {"id": passage.id, "title": passage.name, "text": passage.text, "contents": passage.contents}
    if not scores:
        return document
    return {"document": document, "score": passage.score if math.isfinite(passage.score) else 0.0}


async def _body(request: Request, most: int) -> bytes:
    """Return the body of a request, if it is not too long; what is sent beyond that is not kept."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > most:
            raise _Refused(413, f"a request may have {most:,} bytes")
    return bytes(body)

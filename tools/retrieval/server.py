"""Retrieval server with the HTTP interface of Search-R1, as a FastAPI application: POST /retrieve.

    {"queries": [str, ...], "topk": int or null, "return_scores": bool}
    {"result": [[document, ...], ...]}                                          without scores
    {"result": [[{"document": document, "score": float}, ...], ...]}            with scores

A document is {"id", "title", "text", "contents"}, which combines the documents of the original's BM25 and dense search.
As in the original, a missing `topk`, null and 0 mean the default of the server, and other keys are ignored. An empty
query finds nothing and does not affect the other queries of its batch. Invalid requests get status 4xx with
{"detail": message}.

Not included: authentication and encryption. `turncredit.processes.serving` runs the application.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import Iterator, Sized
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from turncredit.installation import MissingPackage, needs
from turncredit.tools.retrieval.errors import BadQuery, RetrievalError, RetrieverDown
from turncredit.tools.retrieval.library import PassageSearch
from turncredit.tools.retrieval.passages import Passage

if TYPE_CHECKING:
    from fastapi import FastAPI, Request, Response

__all__ = ["RequestLimits", "create_app"]

_MISSING: Final = "the server needs fastapi"
_LOG: Final = logging.getLogger(__name__)
PART_QUERIES: Final = 128
PART_CHARACTERS: Final = 64_000
"""Queries, and their characters, for which a request has the library at a time."""


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Limits of one request.

    Args:
        queries: number of queries.
        topk: documents per query.
        characters: characters of a query.
        size: bytes of the body.
        documents: documents of all queries together.

    Raises:
        BadQuery: a limit is below 1.
    """

    queries: int = 8192
    topk: int = 1000
    characters: int = 20_000
    size: int = 16 << 20
    documents: int = 100_000

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if (value := getattr(self, name)) < 1:
                raise BadQuery(f"{name} must be >= 1, got {value!r}")


class _HttpError(Exception):
    """A request that is answered with a status and a message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def create_app(
    library: PassageSearch, *, topk: int = 3, limits: RequestLimits | None = None, about: str = ""
) -> FastAPI:
    """Create the application.

    Args:
        library: finds passages; called by one request at a time.
        topk: default number of passages per query.
        limits: limits of one request.
        about: description for /health.

    Raises:
        BadQuery: `topk` is below 1 or above the limit.
        ImportError: the extra `serve` is not installed.
    """
    try:
        from fastapi import FastAPI, Response
        from fastapi.concurrency import run_in_threadpool
        from starlette.requests import ClientDisconnect
    except ImportError as missing:
        raise MissingPackage(needs(_MISSING, "serve")) from missing
    service = _SearchService(library, topk, limits or RequestLimits(), about)
    app = FastAPI(title="turncredit search", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.max_body = service.limits.size

    def respond(status: int, content: object) -> Response:
        body = json.dumps(content, ensure_ascii=False, allow_nan=False).encode(errors="replace")
        return Response(body, status_code=status, media_type="application/json")

    turn = asyncio.Lock()  # of the library, which is handed on in the order of arrival

    async def answer(body: bytes) -> Response:
        parsed = await run_in_threadpool(service.parse, body)
        answers: list[list[Passage]] = []
        for queries in parsed.parts():  # others take their turns in between
            async with turn:
                answers += await run_in_threadpool(service.find, queries, parsed.topk)
        return await run_in_threadpool(respond, 200, service.result(answers, parsed.scores))

    async def retrieve(request: Request) -> Response:
        try:
            return await answer(await request.body())
        except _HttpError as error:
            return respond(error.status, {"detail": str(error)})
        except ClientDisconnect:
            return respond(400, {"detail": "the request ended early"})
        except Exception:
            _LOG.exception("internal error")
            return respond(500, {"detail": "internal server error"})

    async def health(request: Request) -> Response:
        return respond(200, service.health())

    app.router.add_route("/retrieve", retrieve, methods=["POST"])
    app.router.add_route("/health", health, methods=["GET"])
    return app


@dataclass(frozen=True, slots=True)
class _SearchRequest:
    """A valid request."""

    queries: list[str]
    topk: int
    scores: bool

    def parts(self) -> Iterator[list[str]]:
        """Yield the queries in order, in parts that take the library a fraction of a second."""
        part: list[str] = []
        size = 0
        for query in self.queries:
            if part and (len(part) == PART_QUERIES or size + len(query) > PART_CHARACTERS):
                yield part
                part, size = [], 0
            part.append(query)
            size += len(query)
        if part:
            yield part


class _SearchService:
    """Parses and answers requests."""

    def __init__(self, library: PassageSearch, topk: int, limits: RequestLimits, about: str) -> None:
        if not 1 <= topk <= limits.topk:
            raise BadQuery(f"topk must be from 1 to {limits.topk}, got {topk!r}")
        self.library, self.topk, self.limits, self.about = library, topk, limits, about
        self._answered = 0

    def health(self) -> dict[str, object]:
        size = len(self.library) if isinstance(self.library, Sized) else None
        return {
            "status": "ok",
            "about": self.about,
            "passages": size,
            "topk": self.topk,
            "queries_answered": self._answered,
        }

    def parse(self, body: bytes) -> _SearchRequest:
        """Parse the body of a request."""
        try:
            content = json.loads(body)
        except (ValueError, RecursionError):
            raise _HttpError(422, 'the body must be JSON such as {"queries": ["who wrote Faust"]}') from None
        if not isinstance(content, dict):
            raise _HttpError(422, f"the body must be a JSON object, got {type(content).__name__}")
        queries = self._queries(content.get("queries"))
        topk, scores = self._topk(content.get("topk"), len(queries)), content.get("return_scores", False)
        if not isinstance(scores, bool):
            raise _HttpError(422, f"return_scores must be true or false, got {scores!r:.80}")
        return _SearchRequest(queries, topk, scores)

    def _queries(self, queries: object) -> list[str]:
        limits = self.limits
        if not isinstance(queries, list):
            description = "nothing" if queries is None else type(queries).__name__
            raise _HttpError(422, f"queries must be a list of str, got {description}")
        if len(queries) > limits.queries:
            raise _HttpError(413, f"a request may have at most {limits.queries:,} queries, got {len(queries):,}")
        for number, query in enumerate(queries):
            if not isinstance(query, str):
                raise _HttpError(422, f"queries[{number}] must be a str, got {type(query).__name__}")
            if len(query) > limits.characters:
                most = f"at most {limits.characters:,} characters"
                raise _HttpError(413, f"queries[{number}] must have {most}, got {len(query):,}")
        return [query.encode(errors="replace").decode() for query in queries]

    def _topk(self, topk: object, queries: int) -> int:
        limits = self.limits
        if isinstance(topk, bool) or not isinstance(topk, int | None):
            raise _HttpError(422, f"topk must be an integer or null, got {topk!r:.80}")
        if topk is not None and not 0 <= topk <= limits.topk:
            default = f"or 0 or null for the default ({self.topk})"
            raise _HttpError(422, f"topk must be from 1 to {limits.topk:,}, {default}, got {topk!r:.80}")
        topk = topk or self.topk
        if topk * queries > limits.documents:
            most = f"at most {limits.documents:,} documents"
            raise _HttpError(413, f"a request may ask for {most}, got {queries:,} queries of {topk:,} documents")
        return topk

    def find(self, queries: list[str], topk: int) -> list[list[Passage]]:
        """Return the passages for each query."""
        try:
            return self.library.find_batch(queries, topk)
        except BadQuery as error:
            raise _HttpError(422, str(error)) from error
        except RetrieverDown as error:
            raise _HttpError(503, str(error)) from error
        except RetrievalError as error:
            raise _HttpError(500, str(error)) from error

    def result(self, answers: list[list[Passage]], scores: bool) -> dict[str, object]:
        """Return the response with passages for each query."""
        self._answered += len(answers)
        return {"result": [[_result(passage, scores) for passage in passages] for passages in answers]}


def _result(passage: Passage, scores: bool) -> dict[str, object]:
    """Return a passage as it appears in the response."""
    document: dict[str, object] = {
        "id": passage.id,
        "title": passage.name,
        "text": passage.text,
        "contents": passage.contents,
    }
    if not scores:
        return document
    return {"document": document, "score": passage.score if math.isfinite(passage.score) else 0.0}

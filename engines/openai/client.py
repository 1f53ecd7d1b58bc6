"""The HTTP client of the samplers that talk to an OpenAI-compatible server: key, limits, retries, and clear failures.

The key is read from the environment. It is never part of a message, a repr, a log record or an exception, and it is
removed from every answer after decoding. An answer is read under a limit on its decoded bytes.

    answer                                               what is raised after the retries
    429, 5xx, time limit, connection lost, no JSON       RequestFailed
    a generation that failed, no choices                 RequestFailed
    other 4xx, an answer that is too long                RequestFailed at once (ContextOverflow, ContentRefused)
    401, refused key, unknown model or path, spent quota EngineFailed at once
    no server at the first request                       EngineFailed at once
    no answer at all while the patience lasts            EngineFailed (see `StartUpPatience`)
    `MAX_FAILURES` requests in a row                    EngineFailed

Not included: answers token by token, and keys of other kinds than bearer tokens.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import urlsplit

from turncredit.agents.errors import ContextOverflow, EngineFailed, RequestFailed, SamplerError
from turncredit.agents.json_types import JsonObject
from turncredit.engines.openai.failures import ContentRefused, Failure, backoff, error_in, failure_of
from turncredit.engines.openai.patience import StartUpPatience
from turncredit.installation import needs
from turncredit.registry import suggest
from turncredit.tools.bounded_input import BodyDecoder, InputError, parse_json
from turncredit.tools.visible_text import HidesSecrets, Secret, encodable, hide_in, hide_secrets, map_strings

if TYPE_CHECKING:
    import httpx

__all__ = ["ApiKey", "OpenAIClient", "base_url"]

DEFAULT_URL = "https://api.openai.com/v1"
MAX_FAILURES = 16
"""Requests that may fail one after the other before the server counts as gone."""
CONNECT_SECONDS = 10.0
MAX_BYTES = 16 << 20
"""Decoded bytes of an answer whose length nothing limits, such as a list of models."""
MAX_ERROR_BYTES = 1 << 20
"""Decoded bytes that are read of an answer with an error."""

_LOGGERS = ("httpx", *(f"httpcore.{part}" for part in ("connection", "http11", "http2", "proxy", "socks")))
"""The loggers of the HTTP library; at the level DEBUG they show the headers of answers."""

Judge = Callable[[JsonObject], Failure | None]
"""Returns why an answer with status 200 is none; None if it is one."""


class ApiKey:
    """A key that is shown nowhere."""

    __slots__ = ("_secret", "variable")

    def __init__(self, variable: str) -> None:
        """Read the key from an environment variable; an unset one gives an empty key.

        Raises:
            SamplerError: the key has characters that cannot be sent.
        """
        self.variable = variable
        self._secret = Secret(os.environ.get(variable, "").strip())
        if not all("!" <= letter <= "~" for letter in self._secret.reveal()):
            raise SamplerError(f"the key in ${variable} must have printable ASCII characters without spaces")

    def __bool__(self) -> bool:
        """Return whether there is a key."""
        return bool(self._secret)

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """The key, for functions that hide it."""
        return (self._secret,)

    def authorize(self, request: httpx.Request) -> httpx.Request:
        """Put the key into the header of a request."""
        if self._secret:
            request.headers["Authorization"] = f"Bearer {self._secret.reveal()}"
        return request

    def hide(self, text: str) -> str:
        """Return a text in which the key is replaced by asterisks."""
        return hide_secrets(text, self.secrets)

    def __repr__(self) -> str:
        """Return the variable's name only."""
        return f"ApiKey({self.variable})"


def base_url(text: str) -> str:
    """Return the base URL of a server without a trailing slash; one without a path gets ``/v1``.

    >>> base_url("http://127.0.0.1:8000")
    'http://127.0.0.1:8000/v1'

    Raises:
        SamplerError: it is no http or https URL, or it contains a password or a query.
    """
    try:
        parts = urlsplit(text)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        valid = False
    if not valid:
        raise SamplerError(f"the URL of a server must look like http://127.0.0.1:8000/v1, got {text.split('@')[-1]!r}")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise SamplerError(
            f"the URL of the server {parts.hostname} must not contain a password or a query; keys are read from an "
            "environment variable"
        )
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/') or '/v1'}"


def _is_local(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def _described(listed: object) -> list[JsonObject]:
    """Return the descriptions of models in a server's list that have an id."""
    entries = listed if isinstance(listed, list) else []
    return [entry for entry in entries if isinstance(entry, Mapping) and isinstance(entry.get("id"), str)]


async def _read(response: httpx.Response, max_bytes: int) -> bytes:
    """Return the body of an answer, decoded; of one with an error, no more than its beginning.

    Raises:
        InputError: it is larger than allowed, damaged, or has an encoding that was not offered.
    """
    failed = response.status_code >= 300
    encoding, most = response.headers.get("content-encoding", ""), MAX_ERROR_BYTES if failed else max_bytes
    blocks: list[bytes] = []
    try:
        decoder = BodyDecoder(encoding, max_bytes=most, label="the answer")
        async for block in response.aiter_raw():
            blocks.append(decoder.feed(block))
    except InputError:
        if not failed:
            raise
    return b"".join(blocks)


class OpenAIClient:
    """Posts JSON to one server. All methods run on the event loop of the first request."""

    def __init__(
        self,
        url: str,
        key: ApiKey,
        *,
        concurrency: int,
        timeout: float,
        retries: int,
        longest_wait: float,
        patience: float,
    ) -> None:
        """Open a connection pool; no request is sent.

        Args:
            url: base URL, from `base_url`.
            key: sent with every request.
            concurrency: maximum number of requests in flight.
            timeout: seconds for one attempt.
            retries: attempts after the first.
            longest_wait: maximum number of seconds that a server's `Retry-After` is followed; a request that should
                wait longer fails.
            patience: seconds after the first failure for which a server is asked that has not answered yet.

        Raises:
            SamplerError: httpx is not installed.
        """
        try:
            import httpx
        except ImportError as error:
            raise SamplerError(needs("the openai sampler needs httpx", "openai")) from error
        self.url, self.key = url, key
        self._timeout, self._retries, self._longest_wait = timeout, retries, longest_wait
        self._patience = StartUpPatience(url, patience)
        limits = httpx.Limits(max_connections=concurrency, max_keepalive_connections=concurrency)
        self._errors = httpx.RequestError, (httpx.ConnectError, httpx.ConnectTimeout)
        self._http = httpx.AsyncClient(
            auth=key.authorize,
            headers={"Accept-Encoding": BodyDecoder.ACCEPTED},
            limits=limits,
            timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
            trust_env=not _is_local(url),  # a proxy does not lead to this machine
        )
        self._log_filter = HidesSecrets(key.secrets)
        for name in _LOGGERS if key else ():
            logging.getLogger(name).addFilter(self._log_filter)
        self._slots = asyncio.Semaphore(concurrency)
        self._dice = random.Random()
        self._resume = 0.0
        self._reached = False
        self._failed = 0
        self._models: list[JsonObject] | None = None

    @property
    def root(self) -> str:
        """The server's URL above the base URL, where engines have interfaces of their own."""
        return self.url.removesuffix("/v1")

    async def post(
        self, path: str, body: JsonObject, *, max_bytes: int = MAX_BYTES, judge: Judge | None = None
    ) -> JsonObject:
        """Return the JSON object that answers a request, after retries.

        Args:
            path: below the base URL, such as "/chat/completions"; or a whole URL.
            body: JSON object.
            max_bytes: decoded bytes of the answer.
            judge: tells an answer from a failure with status 200.

        Raises:
            RequestFailed, ContextOverflow, ContentRefused, EngineFailed: see the table above.
        """
        return await self._retried("POST", path, body, max_bytes, judge)

    async def command(self, url: str, body: JsonObject) -> JsonObject:
        """Return what a command of the engine answers, {} if that is no JSON object; it is not repeated.

        Raises:
            EngineFailed: it failed.
        """
        answer = await self._attempt("POST", url, body, command=True)
        if isinstance(answer, Failure):
            raise EngineFailed(f"{url}: {answer.reason}")
        return answer

    async def models(self) -> list[JsonObject]:
        """Return the descriptions of the server's models, each with an ``id``; asked for once.

        Raises:
            RequestFailed, EngineFailed: as for `post`.
        """
        if self._models is None:
            answer = await self._retried("GET", "/models", None)
            self._models = _described(answer.get("data"))
        return self._models

    async def close(self) -> None:
        """Close the connections."""
        for name in _LOGGERS:
            logging.getLogger(name).removeFilter(self._log_filter)
        await self._http.aclose()

    async def _retried(
        self,
        method: str,
        path: str,
        body: JsonObject | None,
        max_bytes: int = MAX_BYTES,
        judge: Judge | None = None,
    ) -> JsonObject:
        attempt = 0
        while True:
            async with self._slots:
                answer = await self._attempt(method, path, body, max_bytes)
            if judge is not None and not isinstance(answer, Failure):
                answer = judge(answer) or answer
            if not isinstance(answer, Failure):
                self._failed = 0
                self._patience.answered()
                return answer
            if answer.kind == "retry" and (why := self._patience.over(answer, asyncio.get_running_loop().time())):
                raise EngineFailed(f"{self.url}: {why}")
            if answer.kind != "retry" or attempt == self._retries or (answer.wait or 0.0) > self._longest_wait:
                await self._give_up(answer, body, attempt)
            await self._pause(answer, attempt)
            attempt += 1

    async def _attempt(
        self,
        method: str,
        path: str,
        body: JsonObject | None,
        max_bytes: int = MAX_BYTES,
        *,
        command: bool = False,
    ) -> JsonObject | Failure:
        """Return the answer, or why there is none; a command may answer anything."""
        url = path if "://" in path else self.url + path
        any_error, connect_error = self._errors
        try:
            async with asyncio.timeout(self._timeout), self._http.stream(method, url, json=body) as response:
                data = await _read(response, max_bytes)
        except TimeoutError:
            return Failure("retry", f"no answer within {self._timeout:g} seconds")
        except InputError as error:
            return Failure("request", str(error))
        except any_error as error:
            reason = self.key.hide(" ".join(str(error).split())) or type(error).__name__
            if isinstance(error, connect_error) and not self._reached:
                return Failure("server", f"cannot be reached ({reason}); is the server running?")
            return Failure("retry", f"the connection failed: {reason}")
        self._reached = True
        answer = self._judged(response, data)
        return {} if command and response.is_success and isinstance(answer, Failure) else answer

    def _judged(self, response: httpx.Response, data: bytes) -> JsonObject | Failure:
        """Return the JSON object of an answer, or what its error means; neither contains the key."""
        value, problem, text = None, "", self.key.hide(data.decode("utf-8", "replace"))
        try:
            value = self._clean(parse_json(data, "the answer"))
            text = json.dumps(value)
        except InputError as error:
            problem = str(error)
        headers = {name: self.key.hide(value) for name, value in response.headers.items()}
        if response.status_code >= 300:
            return failure_of(response.status_code, headers, text)
        if value is None:
            return Failure("retry", f"the answer is not JSON that can be read: {text[:100]!r} ({problem})")
        if not isinstance(value, Mapping):
            return Failure("retry", f"the answer must be a JSON object, got {type(value).__name__}")
        return error_in(value, headers) or value  # some gateways report errors with status 200

    def _clean(self, data: object) -> object:
        """Return decoded JSON without the key, and with no half surrogate pairs, which cannot be sent back."""
        data = hide_in(data, self.key.secrets) if self.key else data
        try:
            json.dumps(data, ensure_ascii=False).encode("utf-8", errors="strict")
        except UnicodeEncodeError:
            return map_strings(data, encodable)
        return data

    async def _pause(self, failure: Failure, attempt: int) -> None:
        """Wait before the next attempt; a `Retry-After` holds back all other requests that fail as well."""
        loop = asyncio.get_running_loop()
        wait = self._patience.shortened(backoff(attempt, self._dice), loop.time())
        if failure.wait is not None:
            self._resume = max(self._resume, loop.time() + failure.wait)
            wait = self._dice.uniform(0.0, min(wait, failure.wait / 4))
        await asyncio.sleep(max(self._resume - loop.time(), 0.0) + wait)

    async def _give_up(self, failure: Failure, body: JsonObject | None, retries: int) -> NoReturn:
        """Raise what a failure means for the rollout."""
        if failure.kind == "overflow":
            raise ContextOverflow(failure.reason)
        if failure.kind == "refusal":
            raise ContentRefused(failure.reason)
        if failure.kind == "key":
            raise EngineFailed(self._about_the_key(failure))
        if failure.kind == "missing":
            raise EngineFailed(await self._about_the_model(failure, str((body or {}).get("model", ""))))
        if failure.kind == "server":
            raise EngineFailed(f"{self.url}: {failure.reason}")
        self._failed += 1
        reason = failure.reason + (f" (after {retries} retries)" if retries else "")
        if (failure.wait or 0.0) > self._longest_wait:
            reason += f"; the server asks to wait {failure.wait:.0f} seconds, more than {self._longest_wait:g}"
        if self._failed >= MAX_FAILURES:
            raise EngineFailed(f"{self.url}: the last {self._failed} requests failed; the last one: {reason}")
        raise RequestFailed(f"{self.url}: {reason}")

    def _about_the_key(self, failure: Failure) -> str:
        variable = self.key.variable
        problem = f"refuses the key of ${variable}" if self.key else f"asks for a key, and ${variable} is not set"
        return f"{self.url} {problem} ({failure.reason})"

    async def _about_the_model(self, failure: Failure, model: str) -> str:
        answer = await self._attempt("GET", "/models", None)
        names = [entry["id"] for entry in _described(answer.get("data") if isinstance(answer, Mapping) else None)]
        if model and names and model not in names:
            return f"{self.url} has no model {model!r}{suggest(model, names)}"
        hint = "" if names else "; is the base URL right? It usually ends in /v1"
        return f"{self.url}: {failure.reason}{hint}"

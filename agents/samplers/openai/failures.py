"""What a failed HTTP request means: try again, give up one request, or give up the server."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import Any, Literal

from turncredit.agents.errors import RequestFailed
from turncredit.agents.json_types import JsonObject

__all__ = ["ContentRefused", "Failure", "backoff", "error_in", "failure_of", "retry_after"]

FIRST_WAIT = 1.0
"""Seconds before the first retry; each further one waits twice as long."""
LONGEST_BACKOFF = 30.0
"""Seconds."""

_ABOUT_THE_PROMPT = {400, 403, 422, 451, 500}
"""Statuses with which servers refuse a prompt; the message says why."""
_RETRIED = {408, 409, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529}
_TOO_LONG = re.compile(
    # what servers say of a prompt that leaves no room, grouped by its form
    r"context.{0,3}length|context.{0,3}(size|window|limit)|maximum.{0,20}(tokens|length)"
    r"|exceeds? .{0,40}\b(context|max_model_len)|exceed_context_size"
    r"|\b(prompt|input|request|message|text)s?\b.{0,60}(too (long|large)|longer than)"
    r"|\b(prompt|input|request|message|text)s?\b.{0,60}exceed\w* .{0,30}(length|limit|tokens)"
    r"|too many (input |prompt )?tokens|total number of tokens|reduce the length of"
    r"|maximum prompt length|range of input length",
    re.IGNORECASE,
)
_NOT_TOO_LONG = re.compile(
    r"must be (less|smaller|at most|<)|\b(id|name|user|stop)'?: string too long|parameter\W{1,3}max_\w*tokens",
    re.IGNORECASE,
)
"""About a parameter, not about the prompt."""
_SUM_TOO_LONG = re.compile(
    r"\b(inputs?|prompt)\b.{0,20}tokens.{0,30}must be (<|less)|\binputs?\b.{0,3}must have less than .{0,10}tokens",
    re.IGNORECASE,
)
"""Of text-generation-inference: "`inputs` tokens + `max_new_tokens` must be <= 4097", and of its `inputs` alone."""
_SPENT = {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"}
_REFUSED = re.compile(
    # codes and messages of filters: OpenAI and Azure, DashScope, DeepSeek, Moonshot, Zhipu, MiniMax, Volcengine, Gemini
    r"content.?filter|content.?policy|responsible.?ai.?policy|data_inspection_failed|inappropriate content"
    r"|content exists risk|considered high risk|sensitive.?content|new_sensitive|prohibited.?content|guardrail_interven"
    r"|(input|prompt|content|message)s? (was|were|is|has been|have been) (flagged|blocked)"
    r"|不安全或敏感内容",
    re.IGNORECASE,
)
_NO_MODEL = re.compile(r"\bmodel\b.{0,200}(not.{0,3}found|does not exist|not exist|unknown|no such)", re.IGNORECASE)

Kind = Literal["retry", "request", "overflow", "refusal", "key", "missing", "server"]


class ContentRefused(RequestFailed):
    """The server's content filter refused the prompt."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed attempt."""

    kind: Kind
    """``retry``: may succeed later. ``request``, ``overflow``, ``refusal``: this request cannot be answered, its prompt
    is too long, a content filter refused it. ``key``, ``missing``, ``server``: none can be answered: the key is wrong,
    the model or the path does not exist, or another reason."""
    reason: str
    wait: float | None = None
    """Seconds that the server asks to wait before the next attempt."""


def failure_of(status: int, headers: Mapping[str, str], body: str) -> Failure:
    """Return what an answer with an error means.

    Args:
        status: status of the answer, or the code of the error in its body.
        headers: headers of the answer, with names in lower case.
        body: body of the answer.
    """
    message, code = _read(body)
    reason = f"HTTP {status}: {message}" if message else f"HTTP {status}"
    if code in _SPENT:
        return Failure("server", reason)
    if status == 401:
        return Failure("key", reason)
    if status in _ABOUT_THE_PROMPT and (_REFUSED.search(code) or _REFUSED.search(message)):
        return Failure("refusal", reason)
    if status == 413 or (status in _ABOUT_THE_PROMPT and (_is_too_long(code) or _is_too_long(message))):
        return Failure("overflow", reason)
    if status in _RETRIED:
        return Failure("retry", reason, retry_after(headers, time.time()))
    if status == 404 or code == "model_not_found" or (status == 400 and _NO_MODEL.search(message)):
        return Failure("missing", reason)
    if 300 <= status < 400:
        return Failure("server", f"{reason}: it redirects to {headers.get('location', 'another URL')}")
    return Failure("retry" if status >= 500 else "request", reason)


def error_in(answer: JsonObject, headers: Mapping[str, str]) -> Failure | None:
    """Return what the error in an answer with status 200 means, None if there is none.

    Args:
        answer: JSON object; its key "error" holds the error.
        headers: headers of the answer, with names in lower case.
    """
    error = answer.get("error")
    if not error:
        return None
    code = error.get("code") if isinstance(error, Mapping) else None
    digits = str(code) if isinstance(code, int | str) else ""
    if re.fullmatch(r"[3-5]\d\d", digits):
        return failure_of(int(digits), headers, json.dumps(answer))
    failure = failure_of(500, headers, json.dumps(answer))  # without a status, the message alone tells
    return replace(failure, reason=failure.reason.replace("HTTP 500", "HTTP 200 with an error", 1))


def retry_after(headers: Mapping[str, str], current_time: float) -> float | None:
    """Return how many seconds the server asks to wait, or None if it does not say.

    `Retry-After` holds seconds or an HTTP date; some servers send `retry-after-ms` as well, which is more precise.

    >>> retry_after({"retry-after": "2.5"}, 0.0)
    2.5
    >>> retry_after({"retry-after": "Thu, 01 Jan 1970 00:01:00 GMT"}, 50.0)
    10.0

    Args:
        headers: with names in lower case.
        current_time: seconds since the epoch.
    """
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        text = headers.get(name, "").strip()
        if re.fullmatch(r"\d{1,9}(\.\d*)?", text):
            return float(text) / unit
    try:
        return max(0.0, parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - current_time)
    except (TypeError, ValueError, OverflowError):
        return None


def backoff(attempt: int, dice: random.Random) -> float:
    """Return the seconds to wait before a retry: uniform in [w/2, w], w = min(`LONGEST_BACKOFF`, 2^attempt seconds).

    The jitter keeps requests that failed together from coming back together.

    Args:
        attempt: number of retries so far, from 0.
        dice: random generator.
    """
    return min(LONGEST_BACKOFF, FIRST_WAIT * 2.0**attempt) * dice.uniform(0.5, 1.0)


def _is_too_long(message: str) -> bool:
    if _SUM_TOO_LONG.search(message):
        return True
    return bool(_TOO_LONG.search(message)) and not _NOT_TOO_LONG.search(message)


def _read(body: str) -> tuple[str, str]:
    """Return message and code of an error; servers nest them in different ways."""
    try:
        error: Any = json.loads(body)
    except (ValueError, RecursionError):
        return _short(re.sub(r"<[^>]*>", " ", body)), ""
    code = ""
    for _ in range(3):
        if not isinstance(error, Mapping):
            break
        code = str(error.get("code") or error.get("type") or code)
        inner = error.get("error") or error.get("message") or error.get("detail")
        if inner is None:
            break
        error = inner
    return _short(error if isinstance(error, str) else json.dumps(error)), code


def _short(text: str) -> str:
    return " ".join(text.split())[:400]

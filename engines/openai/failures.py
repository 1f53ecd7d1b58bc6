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
_OF_ACCOUNTS = {400, 403, 429}
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
    r"must be (less|smaller|at most|<)|array too (long|large)"
    r"|\b(id|name|user|stop)'?: string too long|parameter\W{1,3}max_\w*tokens",
    re.IGNORECASE,
)
"""About a parameter, not about the prompt."""
_OF_REQUESTS = re.compile(r"rate.?limit|per (minute|hour|day)|\b[rt]p[md]\b", re.IGNORECASE)
"""About how much a key may send in a time, not about the context of the model."""
_SUM_TOO_LONG = re.compile(
    r"\b(inputs?|prompt)\b.{0,20}tokens.{0,30}must be (<|less)"
    r"|\bprompt_tokens\b.{0,30}must be (<|less)"
    r"|\binputs?\b.{0,3}must have less than .{0,10}tokens",
    re.IGNORECASE,
)
"""Of text-generation-inference: "`inputs` tokens + `max_new_tokens` must be <= 4097", and of its `inputs` alone."""
_SPENT = re.compile(
    r"insufficient_(quota|balance|funds|credits)|billing_(hard_limit_reached|not_active)|exceeded_current_quota_error"
    r"|arrearage",
    re.IGNORECASE,
)
"""Codes of an account that has to be paid first; Moonshot and DashScope have their own."""
_UNPAID = re.compile(r"insufficient.{0,3}(account.)?(balance|funds|credits?)\b", re.IGNORECASE)
_BAD_KEY = re.compile(
    r"api.?key.{0,3}(is |was |has )?(been )?(not (valid|found)|invalid|incorrect|expired|disabled|revoked)"
    r"|(invalid|incorrect|expired|unknown|missing).{0,12}api.?key",
    re.IGNORECASE,
)
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
    message, codes = _read(body)
    code = " ".join(codes)
    reason = f"HTTP {status}: {message}" if message else f"HTTP {status}"
    if status == 402 or any(map(_SPENT.fullmatch, codes)) or (status in _OF_ACCOUNTS and _UNPAID.search(message)):
        return Failure("server", reason)
    if status == 401 or (status in (400, 403) and (_BAD_KEY.search(code) or _BAD_KEY.search(message))):
        return Failure("key", reason)
    if status == 413 and (_OF_REQUESTS.search(code) or _OF_REQUESTS.search(message)):
        return Failure("request", reason)
    if status in _ABOUT_THE_PROMPT and (_REFUSED.search(code) or _REFUSED.search(message)):
        return Failure("refusal", reason)
    if status == 413 or (status in _ABOUT_THE_PROMPT and (_is_too_long(code) or _is_too_long(message))):
        return Failure("overflow", reason)
    if status in _RETRIED:
        return Failure("retry", reason, retry_after(headers, time.time()))
    if status == 404 or "model_not_found" in codes or (status == 400 and _NO_MODEL.search(message)):
        return Failure("missing", reason)
    if 300 <= status < 400:
        return Failure("server", f"{reason}: it redirects to {headers.get('location', 'another URL')}")
    return Failure("retry" if status >= 500 else "request", reason)


def error_in(answer: JsonObject, headers: Mapping[str, str]) -> Failure | None:
    """Return what the error in an answer with status 200 means, None if there is none.

    Args:
        answer: JSON object; its key "error" holds the error, or "base_resp" as MiniMax has it.
        headers: headers of the answer, with names in lower case.
    """
    error = answer.get("error") or _base_error(answer)
    if not error:
        return None
    code = error.get("code") if isinstance(error, Mapping) else None
    digits = str(code) if isinstance(code, int | str) else ""
    if re.fullmatch(r"[3-5]\d\d", digits):
        return failure_of(int(digits), headers, json.dumps({"error": error}))
    failure = failure_of(500, headers, json.dumps({"error": error}))  # without a status, the message alone tells
    return replace(failure, reason=failure.reason.replace("HTTP 500", "HTTP 200 with an error", 1))


_OF_MINIMAX = {1004: 401, 1008: 402, 1026: 400, 1027: 400, 1042: 400, 2013: 400, 2049: 401}
"""Statuses of HTTP for the codes of MiniMax that do not pass: keys, balance, filters, parameters."""


def _base_error(answer: JsonObject) -> JsonObject | None:
    """Return the error in the `base_resp` of an answer of MiniMax."""
    base = answer.get("base_resp")
    code = base.get("status_code") if isinstance(base, Mapping) else None
    if not isinstance(base, Mapping) or not isinstance(code, int) or not code:
        return None
    words = "content_filter: " if code in (1026, 1027) else ""
    return {"code": _OF_MINIMAX.get(code, 500), "message": f"{words}{base.get('status_msg', '')} ({code})"}


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


def _read(body: str) -> tuple[str, tuple[str, ...]]:
    """Return message, code and type of an error; servers nest them in different ways, Gemini in a list."""
    try:
        error: Any = json.loads(body)
    except (ValueError, RecursionError):
        return _short(re.sub(r"<[^>]*>", " ", body)), ()
    codes: tuple[str, ...] = ()
    for _ in range(4):
        if isinstance(error, list) and len(error) == 1:
            error = error[0]
        if not isinstance(error, Mapping):
            break
        codes = tuple(str(error[name]) for name in ("code", "type") if error.get(name)) or codes
        inner = error.get("error") or error.get("message") or error.get("detail")
        if inner is None:
            break
        error = inner
    return _short(error if isinstance(error, str) else json.dumps(error)), codes


def _short(text: str) -> str:
    return " ".join(text.split())[:400]

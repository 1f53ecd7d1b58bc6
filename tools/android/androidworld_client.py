"""Client of AndroidWorld's HTTP server, which offers a phone, tasks on it and their score.

    with AndroidWorldClient("http://127.0.0.1:5000") as client:
        client.initialize("ContactsAddContact", 0)
        client.execute({"action_type": "click", "x": 540, "y": 1200})
        client.score("ContactsAddContact", 0)

Errors: `DeviceLost` if the server cannot be reached, `RequestRefused` if it refuses what was asked, `DeviceError` if it
answers with something else than such a server would. Temporary failures are tried again with growing delays, but not an
action that may have arrived: it could be done twice.

The original server has one phone. This client also sends the header `X-Session`, which the original ignores, and by
which `turncredit serve phone --androidworld` gives every client its own phone.
"""

from __future__ import annotations

import http.client
import json
import random
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from math import isfinite
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import ProxyHandler, Request, build_opener

import numpy as np
from numpy.typing import NDArray

from turncredit.tools.android.device import DeviceError, DeviceLost
from turncredit.tools.bounded_input import InputError, bounded, parse_json

__all__ = ["SESSION_HEADER", "AndroidWorldClient", "RequestRefused"]

SESSION_HEADER: Final = "X-Session"
_TEMPORARY: Final = (408, 425, 429)
_MAX_BYTES: Final = 1 << 28  # of an answer: a screen of eight million numbers has 40 MB
_MAX_DEPTH: Final = 512  # levels of JSON, of which each level of a screen's elements takes two
_TRIES: Final = 4


class RequestRefused(DeviceError):
    """The server is there and does not do what was asked; `status` is that of HTTP."""

    def __init__(self, message: str, status: int = 400) -> None:
        """Keep message and status."""
        super().__init__(message, status)
        self.status = status

    def __str__(self) -> str:
        """Return the message."""
        return str(self.args[0])


class AndroidWorldClient:
    """One client of a server.

    Args:
        url: address of the server.
        timeout: seconds for one attempt of a request.
        deadline: seconds for all attempts of a request; None: three times the timeout.
        backoff: seconds before the second attempt, doubled before each further one; a random part of up to one half
            is left out.
        session: name of this client's phone; default: one that no other client has.
        sleep: for tests.

    Raises:
        DeviceError: the address or a number is invalid.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout: float = 120.0,
        deadline: float | None = None,
        backoff: float = 0.5,
        session: str | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        parts = urlsplit(url) if isinstance(url, str) else None
        if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
            raise DeviceError(f"url must be the address of a server such as http://127.0.0.1:5000, got {url!r}")
        if parts.username or parts.password:
            raise DeviceError(f"the url of the server {parts.hostname} must not contain a password")
        deadline = 3 * timeout if deadline is None else deadline
        for name, value in (("timeout", timeout), ("deadline", deadline)):
            if not isfinite(value) or not 0 < value <= 1e6:
                raise DeviceError(f"{name} must be a number of seconds from above 0 to 1,000,000, got {value!r}")
        self.url, self.session = url.rstrip("/"), session or uuid.uuid4().hex
        self.timeout, self.deadline, self.backoff = float(timeout), float(deadline), float(backoff)
        self._sleep, self._random = sleep, random.Random(self.session)
        self._opener = build_opener(ProxyHandler({}))  # without the proxies of this machine

    def health(self) -> None:
        """Return if the server is ready."""
        self._get("/health", "status", str)

    def task_list(self) -> list[str]:
        """Return the types of the suite's tasks."""
        names: list[str] = self._get("/suite/task_list", "task_list", list, max_index=-1)
        if not all(isinstance(name, str) for name in names):
            raise self._nonsense("/suite/task_list", names)
        return names

    def task_length(self, task_type: str) -> int:
        """Return how many instances of a task the suite has."""
        return int(self._get("/suite/task_length", "length", int, task_type=task_type))

    def reinitialize(self, **suite: int | str) -> None:
        """Make another suite: `n_task_combinations`, `seed`, `task_family`."""
        self._get("/suite/reinitialize", "status", str, **suite)

    def initialize(self, task_type: str, task_idx: int) -> Mapping[str, Any]:
        """Start a task; return the answer, which may hold more than the original's."""
        return self._send("POST", "/task/initialize", task_type=task_type, task_idx=task_idx)

    def tear_down(self, task_type: str, task_idx: int) -> None:
        """End a task."""
        self._send("POST", "/task/tear_down", task_type=task_type, task_idx=task_idx)

    def goal(self, task_type: str, task_idx: int) -> str:
        """Return what a task asks for."""
        return str(self._get("/task/goal", "goal", str, task_type=task_type, task_idx=task_idx))

    def template(self, task_type: str, task_idx: int) -> str:
        """Return the sentence whose places the goal fills."""
        return str(self._get("/task/template", "template", str, task_type=task_type, task_idx=task_idx))

    def score(self, task_type: str, task_idx: int) -> tuple[float, list[str]]:
        """Return the score of a task from 0 to 1, and what is wrong if the server says so."""
        answer = self._send("GET", "/task/score", task_type=task_type, task_idx=task_idx)
        score, reasons = answer.get("score"), answer.get("reasons", [])
        if not isinstance(score, int | float) or not 0 <= score <= 1 or not isinstance(reasons, list):
            raise self._nonsense("/task/score", answer)
        return float(score), [str(reason) for reason in reasons]

    def reset(self, go_home: bool = True) -> None:
        """Forget the last answer, and go to the home screen if wanted."""
        self._send("POST", "/reset", go_home=str(go_home).lower())

    def screenshot(self) -> NDArray[np.uint8]:
        """Return the screen at rest as uint8 [H, W, 3]."""
        body = self._request("GET", "/screenshot", wait_to_stabilize="true")
        image = _pixels(body)
        if image is None:
            raise self._nonsense("/screenshot", body[:80].decode(errors="replace"))
        return image

    def dump(self) -> Mapping[str, Any] | None:
        """Return the elements of the screen and the phone's state; None where a server has screenshots only."""
        try:
            return self._send("GET", "/dump")
        except RequestRefused as refused:
            if refused.status in (404, 405):
                return None
            raise

    def execute(self, action: Mapping[str, object]) -> None:
        """Do a JSON action.

        Raises:
            RequestRefused: it is invalid, or the phone cannot do it.
        """
        self._send("POST", "/execute_action", json.dumps(action).encode(), again=False)

    def close(self) -> None:
        """Give the phone back, if it is this client's own; a phone that all share stays as it is."""
        with suppress(DeviceError, _Temporary):
            self._once(Request(f"{self.url}/session", headers={SESSION_HEADER: self.session}, method="DELETE"), 5.0)

    def __enter__(self) -> AndroidWorldClient:
        """Return itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close it."""
        self.close()

    def _get(self, path: str, key: str, kind: type, **query: Any) -> Any:
        """Return one value of an answer."""
        answer = self._send("GET", path, **query)
        value = answer.get(key)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise self._nonsense(path, answer)
        return value

    def _nonsense(self, path: str, answer: object) -> DeviceError:
        return DeviceError(f"{self.url}{path} answered {answer!r:.120}; is it a server of AndroidWorld?")

    def _send(
        self, method: str, path: str, body: bytes | None = None, again: bool = True, **query: Any
    ) -> Mapping[str, object]:
        """Return the JSON object that answers a request; arguments as in `_request`."""
        data = self._request(method, path, body, again, **query)
        try:
            answer = parse_json(data, path, max_depth=_MAX_DEPTH)
        except InputError:
            answer = data[:80].decode(errors="replace")
        if not isinstance(answer, dict):
            raise self._nonsense(path, answer)
        return answer

    def _request(self, method: str, path: str, body: bytes | None = None, again: bool = True, **query: Any) -> bytes:
        """Send a request until it is answered, or the attempts or the time are used up.

        Args:
            method: GET or POST.
            path: from the root of the server.
            body: JSON.
            again: whether it may be sent again after it may have arrived.
            query: parameters.
        """
        address = f"{self.url}{path}" + (f"?{urlencode(query, errors='replace')}" if query else "")
        headers = {SESSION_HEADER: self.session, "Content-Type": "application/json"}
        request = Request(address, data=body, headers=headers, method=method)
        end = time.monotonic() + self.deadline
        for attempt in range(1, _TRIES + 1):
            try:
                return self._once(request, max(0.001, min(self.timeout, end - time.monotonic())))
            except _Temporary as failure:
                reason = str(failure)
                wait = self.backoff * 2 ** (attempt - 1) * self._random.uniform(0.5, 1.0)
                tired = attempt == _TRIES or time.monotonic() + wait >= end
                if tired or not (again or failure.refused):
                    times = "1 attempt" if attempt == 1 else f"{attempt} attempts"
                    raise DeviceLost(
                        f"the AndroidWorld server at {self.url} did not answer {path} after {times}: {reason}"
                    ) from None
                self._sleep(wait)
        raise AssertionError("the last attempt returns or raises")

    def _once(self, request: Request, timeout: float) -> bytes:
        """Send a request once and return the body of the answer."""
        try:
            with self._opener.open(request, timeout=timeout) as response:
                return _read(response, time.monotonic() + timeout)
        except HTTPError as error:
            raise self._failure(error, request) from None
        except (http.client.HTTPException, OSError) as error:
            reason = getattr(error, "reason", None) or error
            text = f"no answer within {timeout:.3g} s" if isinstance(reason, TimeoutError) else str(reason)
            refused = isinstance(error, URLError) and isinstance(reason, ConnectionRefusedError)
            raise _Temporary(text or type(reason).__name__, refused) from None

    def _failure(self, error: HTTPError, request: Request) -> Exception:
        """Return what an answer with an error status means."""
        with error:
            try:
                text = error.read(2000).decode(errors="replace").strip()
            except (OSError, http.client.HTTPException):
                text = ""
        with suppress(ValueError, TypeError, KeyError, RecursionError):
            text = str(json.loads(text)["detail"])
        # The original answers an action that it cannot do with 500.
        final = error.code == 500 and request.selector.startswith(f"{urlsplit(self.url).path}/execute_action")
        if error.code in _TEMPORARY or (error.code >= 500 and not final):
            return _Temporary(f"status {error.code} {text[:300]}".rstrip(), error.code == 503)
        return RequestRefused(text[:600] or f"the server answered with status {error.code}", error.code)


class _Temporary(Exception):
    """A failure after which a request may be sent again; `refused`: it has not been taken."""

    def __init__(self, reason: str, refused: bool = False) -> None:
        super().__init__(reason)
        self.refused = refused


def _read(response: Any, end: float) -> bytes:
    """Return a body within the limits on time and size."""
    pieces = []
    try:
        for piece in bounded(iter(lambda: response.read1(1 << 18), b""), _MAX_BYTES, "the server's answer"):
            pieces.append(piece)
            if time.monotonic() > end:
                raise TimeoutError("too slow")
    except InputError as error:
        raise DeviceError(str(error)) from None
    return b"".join(pieces)


def _pixels(body: bytes) -> NDArray[np.uint8] | None:
    """Return the image in {"pixels": [[[r, g, b], ...], ...]}, or None if it is none.

    A screen has eight million numbers, for which a general reader of JSON takes seconds and a gigabyte.
    """
    text = body.translate(None, b" \n\r\t")
    start, end = b'{"pixels":[[[', b"]]]}"
    if not text.startswith(start) or not text.endswith(end):
        return None
    inner = text[len(start) : -len(end)]
    height, points = inner.count(b"]],[[") + 1, inner.count(b"],[") + 1
    numbers = inner.replace(b"],[", b",").translate(None, b"[]")
    if numbers.translate(None, b"0123456789,") or points % height:
        return None
    if b",," in numbers or numbers[:1] in b"," or numbers[-1:] == b",":
        return None
    values = np.fromstring(numbers.decode("ascii"), dtype=np.int64, sep=",")
    if values.size != 3 * points or values.min() < 0 or values.max() > 255:
        return None
    return values.reshape(height, points // height, 3).astype(np.uint8)

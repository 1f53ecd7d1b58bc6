"""AndroidWorld's HTTP interface over simulated phones, as a FastAPI application.

    POST   /reset?go_home=true             GET /screenshot?wait_to_stabilize=true
    POST   /execute_action                 the body is a JSON action
    GET    /suite/task_list?max_index=-1   GET /suite/task_length?task_type=T     GET /suite/reinitialize
    POST   /task/initialize?task_type=T&task_idx=0                                POST /task/tear_down
    GET    /task/score, /task/goal, /task/template
    POST   /close                          GET /health

Answers are those of the original. Where it fails with status 500 (an invalid action, an unknown task), this server
answers with 400, 404 or 409 and {"detail": sentence}; parameters that cannot be read get 422. Beyond the original:

    GET    /dump                  {"xml", "size", "apps", "state"}: the elements of the screen in uiautomator's XML
    DELETE /session               gives the phone of a session back
    X-Session: NAME               a header that gives a client a phone of its own; without it, all share one

Not included: authentication and encryption. `turncredit.processes.serving` runs the application.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from turncredit.envs.android.androidworld_phones import ANDROID_WORLD, AndroidWorldPhone, AndroidWorldPhones, Refused
from turncredit.installation import MissingPackage, needs
from turncredit.tools.android.androidworld_client import SESSION_HEADER

if TYPE_CHECKING:
    from fastapi import FastAPI, Request, Response

__all__ = ["create_app"]

_MISSING: Final = "the server needs fastapi"
_LOG: Final = logging.getLogger(__name__)
_MAX_BODY: Final = 1 << 20
_MAX_SESSION: Final = 200
_YES: Final = ("true", "1", "yes", "on", "t", "y")
_NO: Final = ("false", "0", "no", "off", "f", "n")
Query = Mapping[str, str]


def create_app(
    split: str = "train",
    *,
    instances: int = 2,
    seed: int = 42,
    injections: float = 0.0,
    sessions: int = 64,
    idle: float = 600.0,
) -> FastAPI:
    """Create the application.

    Args:
        split: of the tasks: train, instances, templates or apps.
        instances: of each task in the suite.
        seed: of the suite.
        injections: share of the tasks whose phone carries instructions to the agent.
        sessions: phones at once.
        idle: seconds without a request after which a session may lose its phone to another.

    Raises:
        UnknownOption: an argument is invalid.
        ImportError: the extra `serve` is not installed.
    """
    try:
        from fastapi import FastAPI, Response
        from fastapi.concurrency import run_in_threadpool
        from starlette.requests import ClientDisconnect
    except ImportError as missing:
        raise MissingPackage(needs(_MISSING, "serve")) from missing
    make = partial(AndroidWorldPhone, split, instances, seed, injections)
    make()  # a wrong argument is refused now
    phones = AndroidWorldPhones(make, sessions, idle)
    app = FastAPI(title="turncredit androidworld", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.phones, app.state.max_body = phones, _MAX_BODY

    def respond(status: int, content: object) -> Response:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        return Response(body, status_code=status, media_type="application/json")

    def answer(handler: _Handler, session: str, query: Query, body: bytes) -> object:
        with phones.lock:
            return handler(phones.get(session), query, body)

    def endpoint(handler: _Handler) -> Callable[[Request], Awaitable[Response]]:
        async def respond_to(request: Request) -> Response:
            try:
                session, body = _session(request), await request.body()
                return respond(200, await run_in_threadpool(answer, handler, session, request.query_params, body))
            except Refused as error:
                return respond(error.status, {"detail": str(error)})
            except ClientDisconnect:
                return respond(400, {"detail": "the request ended early"})
            except Exception:
                _LOG.exception("internal error")
                return respond(500, {"detail": "internal server error"})

        return respond_to

    async def close(request: Request) -> Response:
        with phones.lock:
            phones.drop(request.headers.get(SESSION_HEADER, ""))
        return respond(200, {"status": "success"})

    async def health(request: Request) -> Response:
        return respond(200, {"status": "success"})

    for (method, path), handler in _HANDLERS.items():
        app.router.add_route(path, endpoint(handler), methods=[method])
    app.router.add_route("/close", close, methods=["POST"])
    app.router.add_route("/session", close, methods=["DELETE"])
    app.router.add_route("/health", health, methods=["GET"])
    return app


def _session(request: Request) -> str:
    name = str(request.headers.get(SESSION_HEADER, ""))
    if len(name) > _MAX_SESSION:
        raise Refused(f"the header {SESSION_HEADER} has at most {_MAX_SESSION} characters, got {len(name)}")
    return name


def _text(query: Query, name: str, default: str | None = None) -> str:
    value = query.get(name, default)
    if value is None:
        raise Refused(f"the parameter {name} is missing", 422)
    return value


def _whole(query: Query, name: str, default: int | None = None) -> int:
    text = _text(query, name, None if default is None else str(default))
    try:
        if len(text) > 20:
            raise ValueError
        return int(text)
    except ValueError:
        raise Refused(f"the parameter {name} must be a whole number, got {text[:80]!r}", 422) from None


def _truth(query: Query, name: str) -> bool:
    text = _text(query, name).casefold()
    if text not in _YES + _NO:
        raise Refused(f"the parameter {name} must be true or false, got {text[:80]!r}", 422)
    return text in _YES


def _task(query: Query) -> tuple[str, int]:
    return _text(query, "task_type"), _whole(query, "task_idx")


# What is done for each request

_Handler = Callable[[AndroidWorldPhone, Query, bytes], object]


def _done(message: str) -> dict[str, str]:
    return {"status": "success", "message": message}


def _reset(phone: AndroidWorldPhone, query: Query, body: bytes) -> object:
    go_home = _truth(query, "go_home")
    phone.reset(go_home)
    return _done(f"Environment reset with go_home={go_home}.")


def _screenshot(phone: AndroidWorldPhone, query: Query, body: bytes) -> object:
    _truth(query, "wait_to_stabilize")  # a simulated phone is always at rest
    return phone.screenshot()


def _execute(phone: AndroidWorldPhone, query: Query, body: bytes) -> object:
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        raise Refused("the body must be a JSON action, and cannot be read as JSON", 422) from None
    if not isinstance(fields, dict):
        raise Refused(f"the body must be a JSON object, got {type(fields).__name__}", 422)
    phone.execute(fields)
    return _done(f"Action {json.dumps(fields)} executed.")


def _task_list(phone: AndroidWorldPhone, query: Query, body: bytes) -> object:
    names, most = list(phone.suite), _whole(query, "max_index")
    return {"task_list": names if most < 0 else names[:most]}


def _task_length(phone: AndroidWorldPhone, query: Query, body: bytes) -> object:
    name = _text(query, "task_type")
    phone.id_of(name, 0)
    return {"length": len(phone.suite[name])}


def _reinitialize(phone: AndroidWorldPhone, query: Query, body: bytes) -> object:
    instances, seed = _whole(query, "n_task_combinations", 2), _whole(query, "seed", 42)
    phone.reinitialize(instances, seed, _text(query, "task_family", ANDROID_WORLD))
    return _done(f"Task suite re-initialized with n_task_combinations={instances}, seed={seed}.")


def _initialize(phone: AndroidWorldPhone, query: Query, body: bytes) -> object:
    name, index = _task(query)
    return {**_done(f"Task {name} {index} initialized."), **phone.initialize(name, index)}


def _tear_down(phone: AndroidWorldPhone, query: Query, body: bytes) -> object:
    name, index = _task(query)
    phone.tear_down(name, index)
    return _done(f"Task {name} {index} torn down.")


def _score(phone: AndroidWorldPhone, query: Query, body: bytes) -> object:
    score, reasons = phone.score(*_task(query))
    return {"score": score, "reasons": list(reasons)}


_HANDLERS: Final[dict[tuple[str, str], _Handler]] = {
    ("POST", "/reset"): _reset,
    ("GET", "/screenshot"): _screenshot,
    ("POST", "/execute_action"): _execute,
    ("GET", "/suite/task_list"): _task_list,
    ("GET", "/suite/task_length"): _task_length,
    ("GET", "/suite/reinitialize"): _reinitialize,
    ("POST", "/task/initialize"): _initialize,
    ("POST", "/task/tear_down"): _tear_down,
    ("GET", "/task/score"): _score,
    ("GET", "/task/goal"): lambda phone, query, body: {"goal": phone.goal(*_task(query))[0]},
    ("GET", "/task/template"): lambda phone, query, body: {"template": phone.goal(*_task(query))[1]},
    ("GET", "/dump"): lambda phone, query, body: phone.dump(),
}

"""The page of a phone as a FastAPI application.

    GET  /                         the page, with its script, style and fonts
    GET  /events                   the state as server-sent events, one whenever it has changed
    GET  /state                    the state now
    GET  /screen.png?width=1080    the screen now
    GET  /tasks                    the templates of every split
    POST /input                    {"kind": "tap", "x": 540, "y": 1200}; see `inputs`
    POST /say                      {"text": "answer 17:30"}, {"text": "done"} or {"text": "infeasible"}
    POST /expert                   one step of the expert
    POST /start                    {"split", "template", "seed", "apps"} or {"free": true, "seed": 0}
    POST /again                    the same from the start
    POST /save                     the episode as a demonstration

A POST has a JSON object as its body and answers with {"state", "result"}, or with {"detail": sentence}.
`turncredit.processes.serving` runs the application, and keeps other web sites away. Files are looked up by name in a
table, never by path.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib import resources
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from turncredit.envs.android.site.inputs import read_input
from turncredit.envs.android.site.player import Choice, NotNow, PhonePlayer, catalogue
from turncredit.envs.android.values import JsonObject
from turncredit.envs.errors import EnvError
from turncredit.installation import MissingPackage, needs

if TYPE_CHECKING:
    from fastapi import FastAPI, Request, Response

__all__ = ["create_app"]

_MISSING: Final = "the page needs fastapi"
_LOG: Final = logging.getLogger(__name__)
_MAX_BODY: Final = 1 << 16
_LOOK: Final = 0.04  # seconds between looks for something new
_SILENCE: Final = 15.0  # seconds after which a sign of life is sent
_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "ttf": "font/ttf",
}
_FONTS: Final = ("Roboto-Regular.ttf", "Roboto-Medium.ttf", "Roboto-Bold.ttf")
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "font-src 'self'; connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_Handler = Callable[[PhonePlayer, JsonObject], object]


def create_app(player: PhonePlayer) -> FastAPI:
    """Return the application; its `state.player` is the phone that it shows.

    Args:
        player: the phone; the caller closes it.

    Raises:
        ImportError: the extra `serve` is not installed.
    """
    try:
        from fastapi import FastAPI, Response
        from fastapi.concurrency import run_in_threadpool
        from fastapi.responses import StreamingResponse
    except ImportError as missing:
        raise MissingPackage(needs(_MISSING, "serve", "android")) from missing
    app = FastAPI(title="turncredit phone", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.player, app.state.max_body = player, _MAX_BODY
    files = _files()

    def respond(status: int, content: bytes | JsonObject, kind: str = "application/json") -> Response:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        return Response(body, status_code=status, media_type=kind, headers=_HEADERS)

    def guarded(answer: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        async def respond_to(request: Request) -> Response:
            try:
                response: Response = await answer(request)
                return response
            except EnvError as error:
                return respond(400, {"detail": str(error)})
            except Exception:
                _LOG.exception("internal error")
                return respond(500, {"detail": "the phone has failed at this; it goes on"})

        return respond_to

    def action(handler: _Handler) -> Callable[[Request], Awaitable[Response]]:
        async def change(request: Request) -> Response:
            fields = await _fields(request)
            result = await run_in_threadpool(handler, player, fields)
            return respond(200, {"state": await run_in_threadpool(player.status), "result": result})

        return guarded(change)

    async def file(request: Request) -> Response:
        kind, content = files[request.url.path]
        return respond(200, content, kind)

    async def state(request: Request) -> Response:
        return respond(200, await run_in_threadpool(player.status))

    async def screen(request: Request) -> Response:
        width = request.query_params.get("width", "1080")
        if not re.fullmatch(r"\d{1,4}", width):
            raise NotNow(f"width must be a number of pixels, got {width[:40]!r}")
        return respond(200, await run_in_threadpool(player.picture, int(width)), "image/png")

    async def tasks(request: Request) -> Response:
        return respond(200, await run_in_threadpool(catalogue))

    async def events(request: Request) -> Response:
        async def states() -> AsyncIterator[bytes]:
            shown, waited = (-1, -1), 0.0
            while not _closing(request):
                if player.stirred:
                    await run_in_threadpool(player.watch)
                version = (player.version, player.adb.clients)
                if version != shown:
                    shown, waited = version, 0.0
                    status = await run_in_threadpool(player.status)
                    yield f"data: {json.dumps(status)}\n\n".encode()
                elif waited > _SILENCE:
                    waited = 0.0
                    yield b": still here\n\n"
                await asyncio.sleep(_LOOK)
                waited += _LOOK

        return StreamingResponse(states(), media_type="text/event-stream", headers=_HEADERS)

    gets = {"/events": events, "/state": state, "/screen.png": screen, "/tasks": tasks} | dict.fromkeys(files, file)
    for path, answer in gets.items():
        app.router.add_route(path, guarded(answer), methods=["GET"])
    for path, handler in _POSTS.items():
        app.router.add_route(path, action(handler), methods=["POST"])
    return app


def _closing(request: Request) -> bool:
    """Return whether the server is about to stop: an answer without an end must end then."""
    closing = getattr(request.app.state, "closing", None)
    return bool(closing is not None and closing())


def _files() -> dict[str, tuple[str, bytes]]:
    """Return type and content of the files by path."""
    page = resources.files("turncredit.envs.android.site") / "page"
    files = {f"/{file.name}": file for file in page.iterdir() if file.name.rpartition(".")[2] in _TYPES}
    files["/"] = files.pop("/index.html")
    if find_spec("font_roboto") is not None:
        folder = resources.files("font_roboto") / "files"
        files |= {f"/{name}": folder / name for name in _FONTS if (folder / name).is_file()}
    return {path: (_TYPES[file.name.rpartition(".")[2]], file.read_bytes()) for path, file in files.items()}


async def _fields(request: Request) -> JsonObject:
    try:
        fields = json.loads(await request.body() or b"{}")
    except (ValueError, RecursionError):
        raise NotNow("the body cannot be read as JSON") from None
    if not isinstance(fields, dict):
        raise NotNow(f"the body must be a JSON object, got {type(fields).__name__}")
    return fields


# What is done for each request


def _choice(fields: JsonObject) -> Choice:
    seed, apps = fields.get("seed"), fields.get("apps", [])
    texts = {name: fields.get(name, default) for name, default in (("split", "train"), ("template", ""))}
    if isinstance(seed, bool) or not (seed is None or isinstance(seed, int)):
        raise NotNow(f"the seed must be a whole number, got {str(seed)[:40]!r}")
    if not isinstance(apps, list) or not all(isinstance(text, str) for text in (*apps, *texts.values())):
        raise NotNow("split and template must be texts, and apps a list of texts")
    return Choice(**texts, seed=seed, apps=tuple(apps), free=fields.get("free") is True)


def _text(fields: JsonObject) -> str:
    text = fields.get("text")
    if not isinstance(text, str):
        raise NotNow("text must be a text")
    return text


_POSTS: Final[dict[str, _Handler]] = {
    "/input": lambda player, fields: player.act(read_input(fields)),
    "/say": lambda player, fields: player.say(_text(fields)),
    "/expert": lambda player, fields: player.expert(),
    "/start": lambda player, fields: player.start(_choice(fields)),
    "/again": lambda player, fields: player.again(),
    "/save": lambda player, fields: dict(player.save()),
}

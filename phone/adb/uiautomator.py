"""The server on the device with which uiautomator2 speaks: HTTP on tcp:9008, with JSON-RPC under /jsonrpc/0.

The methods that clients use most are there; the others are refused by name, as JSON-RPC does.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable
from typing import Any, Final

from turncredit.phone.adb.connection import AdbStream, StreamClosed
from turncredit.phone.adb.selectors import JsonObject, NotFound, Selector, child, describe, find_all, find_one
from turncredit.phone.phone import Phone
from turncredit.phone.screen.keys import KEY_CODES
from turncredit.tools.android.node import Node

__all__ = ["PORT", "call_method", "serve_http"]

PORT: Final = 9008
_MOST: Final = 8 << 20
_MOST_SCROLLS: Final = 100
_STEP: Final = 5  # milliseconds of a step of a swipe
_KEYS: Final = {
    **{"home": 3, "back": 4, "left": 21, "right": 22, "up": 19, "down": 20, "center": 23, "menu": 82, "search": 84},
    **{"enter": 66, "delete": 67, "del": 67, "recent": 187, "volume_up": 24, "volume_down": 25, "power": 26},
}


async def serve_http(phone: Phone, stream: AdbStream) -> None:
    """Answer requests until the client closes."""
    waiting = b""
    while True:
        while b"\r\n\r\n" not in waiting:
            data = await stream.read()
            if not data or len(waiting) > 65536:
                return
            waiting += data
        head, _, waiting = waiting.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        fields = {name.strip().casefold(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        size = int(fields["content-length"]) if fields.get("content-length", "").isdecimal() else 0
        if size > _MOST:
            raise StreamClosed
        if len(waiting) < size:
            waiting += await stream.read_exactly(size - len(waiting))
        body, waiting = waiting[:size], waiting[size:]
        status, content, kind = _answer(phone, first, body)
        reply = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n\r\n"
        await stream.write(reply.encode() + content)


def _answer(phone: Phone, request: str, body: bytes) -> tuple[str, bytes, str]:
    """Return status, content and type of the reply to a request."""
    _, path = [*request.split(" "), "", ""][:2]
    if path == "/ping":
        return "200 OK", b"pong", "text/plain"
    if path != "/jsonrpc/0":
        return "404 Not Found", b"this phone answers /ping and /jsonrpc/0", "text/plain"
    return "200 OK", json.dumps(_json_rpc(phone, body)).encode(), "application/json"


def _json_rpc(phone: Phone, body: bytes) -> JsonObject:
    reply: JsonObject = {"jsonrpc": "2.0", "id": None}
    try:
        request = json.loads(body)
        reply["id"] = request.get("id")
        params = request.get("params") or []
        params = list(params.values()) if isinstance(params, dict) else list(params)
        reply["result"] = call_method(phone, str(request.get("method")), params)
    except NotFound as error:
        reply["error"] = _error(-32001, f"androidx.test.uiautomator.UiObjectNotFoundException: {error}")
    except NotImplementedError as error:
        reply["error"] = _error(-32601, str(error))
    except (ValueError, TypeError, AttributeError, IndexError, KeyError, OverflowError, RecursionError) as error:
        reply["error"] = _error(-32602, f"bad request: {type(error).__name__}: {error}")
    return reply


def _error(code: int, message: str) -> JsonObject:
    return {"code": code, "message": message, "data": message}


def call_method(phone: Phone, name: str, params: list[Any]) -> Any:
    """Return what a method returns.

    Raises:
        NotFound: a selector matches nothing.
        NotImplementedError: there is no such method.
    """
    method = _METHODS.get(name)
    if method is None:
        raise NotImplementedError(f"method not found: {name}; this phone has {', '.join(sorted(_METHODS))}")
    return method(phone, *params)


def _device_info(phone: Phone) -> JsonObject:
    width, height = phone.size
    return {
        "currentPackageName": phone.page.package,
        "displayHeight": height,
        "displayRotation": phone.rotation,
        "displaySizeDpX": 411 if width < height else 914,
        "displaySizeDpY": 914 if width < height else 411,
        "displayWidth": width,
        "naturalOrientation": phone.rotation == 0,
        "productName": "phone",
        "screenOn": phone.state.screen_on,
        "sdkInt": 33,
    }


def _dump(phone: Phone, *_: object) -> str:
    return phone.xml()


def _click(phone: Phone, where: Any, *details: Any) -> bool:
    if isinstance(where, dict | str):
        x, y = find_one(phone.tree(), where).center
        phone.tap(x, y)
        return True
    y, *duration = details
    if duration and int(duration[0]) >= 400:
        phone.long_press(int(where), int(y))
    else:
        phone.tap(int(where), int(y))
    return True


def _long_click(phone: Phone, selector: Selector, *_: object) -> bool:
    phone.long_press(*find_one(phone.tree(), selector).center)
    return True


def _event(phone: Phone, action: int, x: float, y: float, *_: object) -> bool:
    """Touch events one by one: a finger that goes up is a tap there."""
    if action == 1:
        phone.tap(int(x), int(y))
    return True


def _swipe(phone: Phone, *args: Any) -> bool:
    if isinstance(args[0], dict | str):
        node = find_one(phone.tree(), args[0])
        return _swipe_inside(phone, node, str(args[1]))
    x1, y1, x2, y2 = (int(value) for value in args[:4])
    phone.swipe(x1, y1, x2, y2, _STEP * int(args[4]) if len(args) > 4 else 300)
    return True


def _swipe_points(phone: Phone, points: list[int], steps: int = 5) -> bool:
    """A finger that passes points: what counts is where it goes down and up, and for how long."""
    pairs = [(int(x), int(y)) for x, y in zip(points[::2], points[1::2], strict=True)]
    phone.swipe(*pairs[0], *pairs[-1], _STEP * int(steps) * max(1, len(pairs) - 1))
    return True


def _swipe_inside(phone: Phone, node: Node, direction: str) -> bool:
    x, y = node.center
    ends = {
        "up": (x, node.top + 2, x, node.bottom - 2),
        "down": (x, node.bottom - 2, x, node.top + 2),
        "left": (node.left + 2, y, node.right - 2, y),
        "right": (node.right - 2, y, node.left + 2, y),
    }
    to_x, to_y, from_x, from_y = ends[direction]
    phone.swipe(from_x, from_y, to_x, to_y)
    return True


def _exist(phone: Phone, selector: Selector, *_: object) -> bool:
    return bool(find_all(phone.tree(), selector))


def _gone(phone: Phone, selector: Selector, *_: object) -> bool:
    return not find_all(phone.tree(), selector)


def _count(phone: Phone, selector: Selector) -> int:
    return len(find_all(phone.tree(), selector))


def _info(phone: Phone, selector: Selector) -> JsonObject:
    return describe(find_one(phone.tree(), selector))


def _infos(phone: Phone, selector: Selector) -> list[JsonObject]:
    return [describe(node) for node in find_all(phone.tree(), selector)]


def _text(phone: Phone, selector: Selector) -> str:
    return find_one(phone.tree(), selector).text


def _clear(phone: Phone, selector: Selector | None = None) -> bool:
    if selector is not None:
        phone.tap(*find_one(phone.tree(), selector).center)
    phone.key(KEY_CODES["CTRL_LEFT"], KEY_CODES["A"])
    phone.key(KEY_CODES["DEL"])
    return True


def _set_text(phone: Phone, selector: Selector, text: str) -> bool:
    _clear(phone, selector)
    phone.text(str(text))
    return True


def _key(phone: Phone, name: str) -> bool:
    if name not in _KEYS:
        raise ValueError(f"unknown key {name!r}; the keys are {', '.join(_KEYS)}")
    phone.key(_KEYS[name])
    return True


def _key_code(phone: Phone, code: int, *_: object) -> bool:
    phone.key(int(code))
    return True


def _wake(phone: Phone) -> bool:
    phone.key(KEY_CODES["WAKEUP"])
    return True


def _sleep(phone: Phone) -> bool:
    phone.key(KEY_CODES["SLEEP"])
    return True


def _shade(phone: Phone) -> bool:
    phone.open_shade()
    return True


def _clipboard(phone: Phone) -> str:
    return phone.state.clipboard


def _set_clipboard(phone: Phone, label: object, text: object) -> None:
    phone.change(clipboard=str(text))


def _paste(phone: Phone) -> bool:
    phone.key(KEY_CODES["PASTE"])
    return True


def _screenshot(phone: Phone, scale: float = 1.0, quality: int = 80) -> str:
    stream = io.BytesIO()
    width, height = phone.size
    image = phone.screenshot((max(1, int(width * min(1.0, scale))), max(1, int(height * min(1.0, scale)))))
    image.save(stream, "JPEG", quality=max(1, min(100, int(quality))))
    return base64.b64encode(stream.getvalue()).decode()


def _orientation(phone: Phone, name: str) -> bool:
    phone.set_setting("user_rotation", {"natural": "0", "left": "1", "upsidedown": "2", "right": "3"}[name])
    return True


def _scroll(phone: Phone, selector: Selector, forward: bool) -> bool:
    """Scroll by most of the height, and return whether that changed the screen."""
    node = find_one(phone.tree(), selector)
    before, middle, span = phone.xml(), node.center, (node.bottom - node.top) // 3
    change = -span if forward else span
    phone.swipe(middle[0], middle[1] - change, middle[0], middle[1] + change)
    return phone.xml() != before


def _scroll_forward(phone: Phone, selector: Selector, *_: object) -> bool:
    return _scroll(phone, selector, True)


def _scroll_backward(phone: Phone, selector: Selector, *_: object) -> bool:
    return _scroll(phone, selector, False)


def _scroll_end(phone: Phone, selector: Selector, *_: object) -> bool:
    return _scroll_until(phone, selector, True)


def _scroll_start(phone: Phone, selector: Selector, *_: object) -> bool:
    return _scroll_until(phone, selector, False)


def _scroll_until(phone: Phone, selector: Selector, forward: bool) -> bool:
    for _ in range(_MOST_SCROLLS):
        if not _scroll(phone, selector, forward):
            break
    return True


def _scroll_to(phone: Phone, selector: Selector, target: Selector, *_: object) -> bool:
    _scroll_until(phone, selector, False)
    while not find_all(phone.tree(), target):
        if not _scroll(phone, selector, True):
            return False
    return True


def _child_by_text(phone: Phone, selector: Selector, pattern: JsonObject, text: str, scroll: bool = True) -> str:
    return _child_by(phone, selector, pattern, lambda node: node.text == text, scroll)


def _child_by_description(phone: Phone, selector: Selector, pattern: JsonObject, text: str, scroll: bool = True) -> str:
    return _child_by(phone, selector, pattern, lambda node: node.description == text, scroll)


def _child_by(
    phone: Phone, selector: Selector, pattern: JsonObject, holds: Callable[[Node], bool], scroll: bool
) -> str:
    """Return the name of the child that holds, itself or below, what is looked for; scroll for it where one can."""
    scroll = scroll and find_one(phone.tree(), selector).scrollable
    if scroll:
        _scroll_until(phone, selector, False)
    for _ in range(_MOST_SCROLLS):
        for at, node in enumerate(find_all(phone.tree(), child(selector, pattern))):
            if any(holds(below) for below in node.walk()):
                return child(selector, pattern, at)
        if not scroll or not _scroll(phone, selector, True):
            break
    raise NotFound(f"no child matches {pattern} with that text")


def _child_by_instance(phone: Phone, selector: Selector, pattern: JsonObject, at: int) -> str:
    name = child(selector, pattern, int(at))
    find_one(phone.tree(), name)
    return name


def _drag(phone: Phone, selector: Selector, to: Any, *details: Any) -> bool:
    """Drag an element to another one, or to a point."""
    tree = phone.tree()
    x, y = find_one(tree, to).center if isinstance(to, dict | str) else (int(to), int(details[0]))
    phone.swipe(*find_one(tree, selector).center, x, y)
    return True


def _two_fingers(phone: Phone, selector: Selector, *_: object) -> bool:
    """Two fingers on an element change nothing: no app here answers to more than one."""
    find_one(phone.tree(), selector)
    return True


def _nothing(phone: Phone, *_: object) -> None:
    """There are no toasts and no traversed text."""


_METHODS: Final[dict[str, Callable[..., Any]]] = {
    "childByDescription": _child_by_description,
    "childByInstance": _child_by_instance,
    "childByText": _child_by_text,
    "clearInputText": _clear,
    "clearLastToast": _nothing,
    "clearLastTraversedText": _nothing,
    "clearTextField": _clear,
    "click": _click,
    "count": _count,
    "deviceInfo": _device_info,
    "drag": _swipe,
    "dragTo": _drag,
    "dumpWindowHierarchy": _dump,
    "exist": _exist,
    "flingBackward": _scroll_backward,
    "flingForward": _scroll_forward,
    "flingToBeginning": _scroll_start,
    "flingToEnd": _scroll_end,
    "freezeRotation": _nothing,
    "gesture": _two_fingers,
    "getClipboard": _clipboard,
    "getLastToast": _nothing,
    "getLastTraversedText": _nothing,
    "getText": _text,
    "injectInputEvent": _event,
    "longClick": _long_click,
    "objInfo": _info,
    "objInfoOfAllInstances": _infos,
    "openNotification": _shade,
    "openQuickSettings": _shade,
    "pasteClipboard": _paste,
    "pinchIn": _two_fingers,
    "pinchOut": _two_fingers,
    "pressKey": _key,
    "pressKeyCode": _key_code,
    "scrollBackward": _scroll_backward,
    "scrollForward": _scroll_forward,
    "scrollTo": _scroll_to,
    "scrollToBeginning": _scroll_start,
    "scrollToEnd": _scroll_end,
    "setClipboard": _set_clipboard,
    "setOrientation": _orientation,
    "setText": _set_text,
    "sleep": _sleep,
    "swipe": _swipe,
    "swipePoints": _swipe_points,
    "takeScreenshot": _screenshot,
    "waitForExists": _exist,
    "waitUntilGone": _gone,
    "wakeUp": _wake,
}

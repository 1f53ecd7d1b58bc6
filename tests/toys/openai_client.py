"""What the openai sampler's tests ask a server, and how they connect to it."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import Any

import pytest
from toys.openai_server import NAME, VIEW, ToyServer

from turncredit.engines.base import Completion, Request, SamplerSettings
from turncredit.engines.openai import make_openai

WIN = ["take key", "go east", "unlock door", "go east"]
TASK = "open-3-1"


def connect(server: ToyServer, opened: ExitStack, url: str = "", **options: Any) -> Any:
    """Return a sampler for the server, which serves until the test ends."""
    url = url or opened.enter_context(server.serve())
    how = {key: options.pop(key) for key in ("model", "concurrency", "tokenizer", "context") if key in options}
    sampler = make_openai(SamplerSettings(**{"model": NAME, **how}, url=url, options={"retries": 2, **options}))
    opened.callback(sampler.close)
    return sampler


def request(**changes: Any) -> Request:
    messages = ({"role": "user", "content": "You see a door."},)
    return Request(**{"episode": "a#0@0", "turn": 0, "prompt": (), "messages": messages, "seed": 5, "view": VIEW,
                      "max_tokens": 4, **changes})  # fmt: skip


def ask(sampler: Any, **changes: Any) -> Completion:
    return asyncio.run(sampler.sample(request(**changes)))


def told(caught: pytest.ExceptionInfo[BaseException]) -> str:
    """Return the message, which must be one sentence on one line."""
    message = str(caught.value)
    assert "\n" not in message
    assert "Traceback" not in message
    return message


def answer(message: dict[str, Any], finish: str = "stop", **more: Any) -> dict[str, Any]:
    """Return a choice as a server sends it."""
    return {"message": {"role": "assistant", **message}, "finish_reason": finish, **more}

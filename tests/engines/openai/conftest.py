"""Fixtures of the openai sampler's tests: a server with a tiny model, and what is closed after a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from toys.openai_server import ToyServer


@pytest.fixture(scope="module")
def model() -> tuple[Any, Any]:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from turncredit.training.learner.policy import build_policy

    module, tokenizer = build_policy(["You see a door."] * 3, vocab=300, hidden=32, layers=1, heads=1, context=2048)
    tokenizer.chat_template = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
    return module, tokenizer


@pytest.fixture
def server(model: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch) -> ToyServer:
    pytest.importorskip("httpx")
    from turncredit.engines.openai import failures

    monkeypatch.setattr(failures, "FIRST_WAIT", 0.001)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return ToyServer(*model, context=2048)


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack

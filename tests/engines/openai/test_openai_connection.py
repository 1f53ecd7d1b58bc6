"""The openai sampler's connection: concurrency, keys, proxies, URLs."""

from __future__ import annotations

import asyncio
import json
import logging
import pickle
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from toys.corridor import Corridor
from toys.openai_client import TASK, ask, connect, told
from toys.openai_server import Fault, ToyServer, error

from turncredit.agents.agent import Agent
from turncredit.agents.errors import EngineFailed, RequestFailed, SamplerError
from turncredit.agents.files.trajectory_files import TrajectoryWriter
from turncredit.agents.rollouts.rollout import arollout, rollout
from turncredit.engines.base import SamplerSettings
from turncredit.engines.openai import make_openai

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("httpx")

from turncredit.engines.openai.client import base_url

KEY = "sk-this-is-secret-4711"


def test_concurrency_is_limited_and_connections_outlive_a_rollout(server: ToyServer, opened: ExitStack) -> None:
    sampler = connect(server, opened, concurrency=2)
    for seed in range(3):
        rollout(Agent(max_turns=2), sampler, [TASK], make=Corridor, size=4, seed=seed)
    assert len(server.sent("/chat/completions")) == 3 * 4 * 2
    assert server.most_busy <= 2
    assert len(server.connections) <= 2
    assert sum(thread.name == "turncredit-openai" for thread in threading.enumerate()) == 1


def test_a_cancelled_rollout_abandons_its_requests(server: ToyServer, opened: ExitStack) -> None:
    server.always = Fault(status=500, seconds=60.0)
    sampler = connect(server, opened)

    async def give_up() -> None:
        task = asyncio.create_task(arollout(Agent(), sampler, [TASK], make=Corridor, size=3))
        while len(server.requests) < 3:
            await asyncio.sleep(0.005)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(give_up())
    deadline = time.monotonic() + 20
    while server.abandoned < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert server.abandoned == 3
    server.always = None
    assert ask(sampler).text


# the key


def test_the_key_is_sent_and_shown_nowhere(
    server: ToyServer, opened: ExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any, capfd: Any
) -> None:
    caplog.set_level(logging.DEBUG)
    server.key = KEY
    monkeypatch.setenv("MY_KEY", KEY)
    url = opened.enter_context(server.serve())
    sampler = connect(server, opened, url=url, key_variable="MY_KEY", retries=0)
    shown = [repr(sampler), repr(vars(sampler)), repr(vars(sampler._client)), repr(sampler._client._http.headers)]
    file = tmp_path / "episodes.jsonl"
    with TrajectoryWriter(file) as writer:
        rollout(Agent(max_turns=2), sampler, [TASK], make=Corridor, on_finish=writer.write)
        server.faults.append(error(400, f"the header was Bearer {KEY}"))
        rollout(Agent(max_turns=2), sampler, [TASK], make=Corridor, on_finish=writer.write)
    server.key = "another"
    monkeypatch.setenv("OPENAI_API_KEY", KEY + "-old")
    wrong = connect(server, opened, url=url)
    for one in (sampler, wrong):
        with pytest.raises(EngineFailed) as caught:
            ask(one)
        assert "refuses the key of $" in told(caught)  # the server repeats the key, the message does not
        chain: BaseException | None = caught.value
        while chain is not None:
            shown += [str(chain), repr(chain), repr(vars(chain))]
            chain = chain.__cause__ or chain.__context__
    shown += [file.read_text(), caplog.text, "".join(capfd.readouterr())]
    assert "***" in shown[4] + file.read_text()
    for text in shown:
        assert KEY not in text


ESCAPED = "".join(f"\\u{ord(letter):04x}" for letter in KEY)
SHOWS_THE_KEY = {
    "no choices": Fault(body=json.dumps({"headers": {"authorization": f"Bearer {KEY}"}})),
    "no message": Fault(body=json.dumps({"choices": [{"key": KEY}]})),
    "escaped": Fault(body=f'{{"choices": [{{"key": "{ESCAPED}"}}]}}'),
    "escaped error": Fault(status=400, body=f'{{"error": {{"message": "{ESCAPED}"}}}}'),
    "no JSON": Fault(body=f"<p>{KEY}"),
    "a failed generation": Fault(body=json.dumps({"choices": [{"finish_reason": "error", "error": KEY}]})),
    "redirect": Fault(status=302, headers={"location": f"https://elsewhere/?key={quote(KEY, safe='')}"}),
    "cut": Fault(status=400, body=json.dumps({"error": {"message": "x" * 390 + KEY}})),
    "gateway": Fault(status=502, body=f"<html>{KEY}</html>", headers={"x-echo": f"Bearer {KEY}"}),
}


@pytest.mark.parametrize("kind", SHOWS_THE_KEY)
def test_a_server_that_shows_the_key_shows_it_to_nobody(
    server: ToyServer, opened: ExitStack, monkeypatch: pytest.MonkeyPatch, caplog: Any, kind: str
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server.always = SHOWS_THE_KEY[kind]
    with pytest.raises((RequestFailed, EngineFailed)) as caught:
        ask(connect(server, opened, retries=0))
    for text in (str(caught.value), repr(caught.value), caplog.text):
        assert KEY not in text
        assert KEY[:12] not in text
    assert kind in ("cut", "gateway") or "***" in str(caught.value)


def test_an_answer_with_the_key_comes_without_it(
    server: ToyServer, opened: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    message = {"content": f"The key is {KEY}", "reasoning_content": KEY, "extra": {KEY: "\ud800"}}
    server.script.append({"message": message, "finish_reason": "stop"})
    found = ask(connect(server, opened))
    assert (found.text, found.reasoning) == ("The key is ***", "***")
    assert found.message == {"content": "The key is ***", "reasoning_content": "***", "extra": {"***": "\\ud800"}}


def test_a_key_travels_under_the_name_of_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings go to other processes, and each reads the key from its own environment; the key itself does not go."""
    monkeypatch.setenv("MY_KEY", KEY)
    settings = SamplerSettings(model="x", options={"key_variable": "MY_KEY"})
    assert KEY.encode() not in pickle.dumps(settings)
    sampler = make_openai(pickle.loads(pickle.dumps(settings)))
    with pytest.raises(TypeError, match="name of the environment variable"):
        pickle.dumps(sampler._client.key)
    sampler.close()
    with pytest.raises(SamplerError) as caught:
        make_openai(SamplerSettings(model="x", options={"key_variable": KEY}))
    assert "must be the name of an environment variable" in told(caught)
    assert KEY not in told(caught)


def test_a_missing_key_names_its_variable(server: ToyServer, opened: ExitStack) -> None:
    server.key = KEY
    with pytest.raises(EngineFailed, match=r"asks for a key, and \$OPENAI_API_KEY is not set"):
        ask(connect(server, opened))
    with pytest.raises(EngineFailed, match=r"\$MY_KEY is not set"):
        connect(server, opened, tokens=True, tokenizer=server.tokenizer, key_variable="MY_KEY")


@pytest.mark.parametrize("key", ["sk-secret\nsecond-line", "sk-secr\u00e9t", "sk secret"])
def test_a_key_that_cannot_be_sent_is_not_shown(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", key)
    with pytest.raises(SamplerError, match=r"the key in \$MY_KEY must have printable ASCII") as caught:
        make_openai(SamplerSettings(model="x", options={"key_variable": "MY_KEY"}))
    assert "sec" not in told(caught)


def test_a_local_server_is_not_reached_through_a_proxy(
    server: ToyServer, opened: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert ask(connect(server, opened)).text


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("127.0.0.1:8000", "must look like http://127.0.0.1:8000/v1, got '127.0.0.1:8000'"),
        ("ftp://host/v1", "must look like"),
        ("http://", "must look like"),
        ("http://host:99999", "must look like"),
        ("http://me:secret@host/v1", "the server host must not contain a password"),
        ("https://host/v1?api-key=secret", "must not contain a password or a query"),
    ],
)
def test_urls_that_are_refused(given: str, message: str) -> None:
    with pytest.raises(SamplerError) as caught:
        base_url(given)
    assert message in told(caught)
    assert "secret" not in told(caught)
    assert base_url("https://host/api/v2/") == "https://host/api/v2"

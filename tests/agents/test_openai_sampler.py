"""The openai sampler against a real server: failures, retries, keys, kinds of answers, tool calls, images."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toys.corridor import Corridor
from toys.openai_server import NAME, VIEW, Fault, ToyServer, error

from turnwise.agents.agent import Agent
from turnwise.agents.errors import EngineFailed, RequestFailed, SamplerError
from turnwise.agents.rollout import RolloutReport, arollout, rollout
from turnwise.agents.samplers.base import Completion, Request, SamplerSettings
from turnwise.agents.samplers.openai import make_openai
from turnwise.agents.store import TrajectoryWriter
from turnwise.agents.trajectory import Trajectory

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("httpx")

from turnwise.agents.samplers.openai import failures as openai_failures
from turnwise.agents.samplers.openai.client import MOST_FAILURES, base_url
from turnwise.agents.samplers.openai.failures import backoff, failure_of, retry_after
from turnwise.agents.samplers.openai.messages import data_url, native_messages, text_with_calls
from turnwise.tools.functions import call_format
from turnwise.training.policy import build_policy

KEY = "sk-this-is-secret-4711"
WIN = ["take key", "go east", "unlock door", "go east"]
TASK = "open-3-1"


@pytest.fixture(scope="module")
def model() -> tuple[Any, Any]:
    module, tokenizer = build_policy(["You see a door."] * 3, vocab=300, hidden=32, layers=1, heads=1, context=2048)
    tokenizer.chat_template = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
    return module, tokenizer


@pytest.fixture
def server(model: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch) -> ToyServer:
    monkeypatch.setattr(openai_failures, "FIRST_WAIT", 0.001)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return ToyServer(*model, context=2048)


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


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


# failures that pass

TRANSIENT = {
    "429": error(429, "slow down"),
    "429 with Retry-After": error(429, "slow down", retry_after="0.01"),
    "500": error(500, "oops"),
    "503 of a proxy": Fault(503, "<html><body>Service Unavailable</body></html>"),
    "a broken connection": Fault(breaks=True, body="{"),
    "no JSON": Fault(body="<html>Welcome!</html>"),
    "JSON of another form": Fault(body="[1, 2]"),
    "an error with status 200": Fault(body='{"error": {"message": "upstream failed", "code": 502}}'),
    "slow": Fault(status=504, seconds=60.0),
}


@pytest.mark.parametrize("kind", TRANSIENT)
def test_a_failure_that_passes_is_retried(server: ToyServer, opened: ExitStack, kind: str) -> None:
    sampler = connect(server, opened, timeout=2.0 if kind == "slow" else 60.0)
    expected = ask(connect(server, opened, url=sampler.url))
    server.requests.clear()
    times = 1 if kind == "slow" else 2
    server.faults += [TRANSIENT[kind]] * times
    assert ask(sampler) == expected
    assert len(server.requests) == times + 1


@pytest.mark.parametrize("kind", TRANSIENT)
def test_a_failure_that_stays_fails_the_request_and_names_the_reason(
    server: ToyServer, opened: ExitStack, kind: str
) -> None:
    server.always = TRANSIENT[kind]
    sampler = connect(server, opened, timeout=0.1 if kind == "slow" else 60.0)
    with pytest.raises(RequestFailed) as caught:
        ask(sampler)
    assert len(server.requests) == 3
    assert "(after 2 retries)" in told(caught)
    reasons = {"429": "HTTP 429: slow down", "503 of a proxy": "Service Unavailable", "no JSON": "is not JSON",
               "slow": "no answer within 0.1 seconds", "a broken connection": "the connection failed"}  # fmt: skip
    assert reasons.get(kind, "") in told(caught)


def test_retry_after_is_obeyed_and_holds_back_other_retries(server: ToyServer, opened: ExitStack) -> None:
    sampler = connect(server, opened)
    ask(sampler)
    server.faults += [error(429, "slow down", retry_after="0.6"), error(500, "oops")]

    async def both() -> None:
        await asyncio.gather(sampler.sample(request()), sampler.sample(request(episode="b#0@0")))

    begun = time.monotonic()
    asyncio.run(both())
    assert time.monotonic() - begun >= 0.6
    assert len(server.requests) == 5


def test_a_wait_that_is_too_long_fails_the_request_at_once(server: ToyServer, opened: ExitStack) -> None:
    server.always = error(429, "come back tomorrow", retry_after="86400")
    with pytest.raises(RequestFailed, match="asks to wait 86400 seconds, more than 120"):
        ask(connect(server, opened))
    assert len(server.requests) == 1


def test_retry_after_is_read_in_every_form() -> None:
    assert retry_after({"retry-after": "7"}, 0.0) == 7.0
    assert retry_after({"retry-after": "Sun, 06 Nov 1994 08:49:37 GMT"}, 784111767.0) == 10.0
    assert retry_after({"retry-after": "Sun, 06 Nov 1994 08:49:37 GMT"}, 784111999.0) == 0.0  # it has passed
    assert retry_after({"retry-after-ms": "250", "retry-after": "1"}, 0.0) == 0.25
    for text in ("", "soon", "-1", "nan", "1e9", "Sun, 99 Nov 1994 08:49:37 GMT"):
        assert retry_after({"retry-after": text}, 0.0) is None


def test_waits_double_with_jitter_and_end_at_a_limit() -> None:
    import random

    dice = random.Random(0)
    for attempt, most in enumerate([1, 2, 4, 8, 16, 30, 30, 30]):
        waits = [backoff(attempt, dice) for _ in range(200)]
        assert most / 2 <= min(waits) < 0.6 * most
        assert 0.9 * most < max(waits) <= most


# failures of one request


def test_a_request_that_the_server_rejects_fails_at_once(server: ToyServer, opened: ExitStack) -> None:
    server.always = error(400, "Unsupported value: 'temperature'", "unsupported_value")
    with pytest.raises(RequestFailed, match="HTTP 400: Unsupported value: 'temperature'"):
        ask(connect(server, opened))
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, {"error": {"code": "context_length_exceeded", "message": "Your input is long"}}, "overflow"),
        (400, {"error": {"message": "This model's maximum context length is 4096 tokens.", "code": 400}}, "overflow"),
        (400, {"message": "the request exceeds the available context size, try increasing it"}, "overflow"),
        (400, {"error": {"message": "prompt is too long: 210000 tokens > 200000 maximum"}}, "overflow"),
        (400, {"error": {"message": "`max_tokens` must be less than or equal to the context window"}}, "request"),
        (413, {}, "overflow"),
        (400, {"error": {"code": "content_filter", "message": "filtered"}}, "refusal"),
        (400, {"error": {"message": "max_tokens must be at least 1, got -2."}}, "request"),
        (422, {"detail": [{"loc": ["body", "seed"], "msg": "Input should be less"}]}, "request"),
        (403, {"error": {"message": "flagged"}}, "request"),
        (401, {"error": {"message": "Incorrect API key"}}, "key"),
        (404, {"error": {"message": "model 'x' not found"}}, "missing"),
        (404, {"detail": "Not Found"}, "missing"),
        (400, {"error": {"message": "The model `x` does not exist."}}, "missing"),
        (429, {"error": {"code": "insufficient_quota", "message": "You exceeded your current quota"}}, "server"),
        (302, {}, "server"),
        (429, {}, "retry"),
        (502, "<html>Bad Gateway</html>", "retry"),
        (599, "", "retry"),
    ],
)
def test_what_a_status_and_a_message_mean(status: int, body: Any, kind: str) -> None:
    assert failure_of(status, {}, body if isinstance(body, str) else json.dumps(body)).kind == kind


@pytest.mark.parametrize("answer", [{}, {"choices": []}, {"choices": [{}]}, {"choices": [{"message": 3}]}])
def test_an_answer_without_a_message_fails_its_request(server: ToyServer, opened: ExitStack, answer: Any) -> None:
    server.always = Fault(body=json.dumps(answer))
    with pytest.raises(RequestFailed, match="the answer has no"):
        ask(connect(server, opened))


# failures of the server


def test_a_server_that_cannot_be_reached_ends_the_rollout_with_one_sentence(opened: ExitStack) -> None:
    sampler = connect(None, opened, url="http://127.0.0.1:9")  # type: ignore[arg-type]
    with pytest.raises(EngineFailed) as caught:
        rollout(Agent(), sampler, [TASK], make=Corridor)
    assert told(caught).startswith("http://127.0.0.1:9/v1: cannot be reached (")
    assert told(caught).endswith("; is the server running?")


def test_an_unknown_model_is_told_with_the_nearest(server: ToyServer, opened: ExitStack) -> None:
    with pytest.raises(EngineFailed, match=r"has no model 'tinny'; did you mean 'tiny'\?"):
        ask(connect(server, opened, model="tinny"))
    with pytest.raises(EngineFailed, match=r"has no model 'tinny'; did you mean 'tiny'\?"):
        connect(server, opened, model="tinny", tokens=True, tokenizer=server.tokenizer)


def test_a_wrong_path_is_told(server: ToyServer, opened: ExitStack) -> None:
    url = opened.enter_context(server.serve()).replace("/v1", "/elsewhere")
    with pytest.raises(EngineFailed, match="is the base URL right"):
        ask(connect(server, opened, url=url))


def test_the_only_model_of_a_server_needs_no_name(server: ToyServer, opened: ExitStack) -> None:
    assert ask(connect(server, opened, model="")).text
    server.models = ["tiny", "large"]
    with pytest.raises(SamplerError, match=r"name one of its models .*; it has: tiny, large"):
        ask(connect(server, opened, model=""))


def test_when_everything_fails_the_server_counts_as_gone(server: ToyServer, opened: ExitStack) -> None:
    server.always = error(500, "out of memory")
    sampler, report = connect(server, opened, retries=0), RolloutReport()
    with pytest.raises(EngineFailed, match=f"the last {MOST_FAILURES} requests failed.*out of memory"):
        rollout(Agent(), sampler, [TASK], make=Corridor, size=50, concurrency=1, report=report)
    assert report.errors == MOST_FAILURES - 1
    server.always = None
    ask(sampler)
    for _ in range(3):  # one success, and the count starts again
        server.faults += [error(500, "oops")] * (MOST_FAILURES - 1)
        for _ in range(MOST_FAILURES - 1):
            with pytest.raises(RequestFailed):
                ask(sampler)
        ask(sampler)


def test_a_server_that_dies_ends_the_rollout_and_finished_episodes_are_kept(
    server: ToyServer, opened: ExitStack, tmp_path: Path
) -> None:
    alive = ExitStack()
    sampler = connect(server, opened, url=alive.enter_context(server.serve()), retries=1)
    kept: list[Trajectory] = []

    def finished(trajectory: Trajectory) -> None:
        kept.append(trajectory)
        if len(kept) == 3:
            alive.close()

    with pytest.raises(EngineFailed, match="the last 16 requests failed") as caught:
        rollout(Agent(max_turns=2), sampler, [TASK], make=Corridor, size=40, concurrency=1, on_finish=finished)
    assert [one.stop for one in kept[:3]] == ["turns"] * 3
    assert {one.stop for one in kept[3:]} == {"error"}
    assert caught.value.groups is not None
    assert len(caught.value.groups[0].trajectories) == len(kept)


def test_one_failing_episode_does_not_stop_the_others(server: ToyServer, opened: ExitStack) -> None:
    sampler, report = connect(server, opened, retries=0), RolloutReport()
    server.faults.append(error(500, "oops"))
    (group,) = rollout(Agent(max_turns=2), sampler, [TASK], make=Corridor, size=6, concurrency=2, report=report)
    assert sorted(one.stop for one in group.trajectories) == ["error"] + ["turns"] * 5
    assert (report.errors, report.quarantined) == (1, [])


# limits and connections


def test_concurrency_is_limited_and_connections_outlive_a_rollout(server: ToyServer, opened: ExitStack) -> None:
    sampler = connect(server, opened, concurrency=2)
    for seed in range(3):
        rollout(Agent(max_turns=2), sampler, [TASK], make=Corridor, size=8, seed=seed)
    assert len(server.requests) == 3 * 8 * 2
    assert server.most_busy <= 2
    assert len(server.connections) <= 2
    assert sum(thread.name == "turnwise-openai" for thread in threading.enumerate()) == 1


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


# kinds of answers


def answer(message: dict[str, Any], finish: str = "stop", **more: Any) -> dict[str, Any]:
    return {"message": {"role": "assistant", **message}, "finish_reason": finish, **more}


@pytest.mark.parametrize(
    ("scripted", "text", "finish"),
    [
        (answer({"content": "look"}), "look", "stop"),
        (answer({"content": "look ar"}, "length"), "look ar", "length"),
        (answer({"content": ""}, "length"), "", "length"),
        (answer({"content": None}), "", "empty"),
        (answer({"content": " \n"}), " \n", "empty"),
        (answer({"content": None, "refusal": "I cannot help."}), "I cannot help.", "refusal"),
        (answer({"content": "I"}, "content_filter"), "I", "refusal"),
        (answer({"content": "<a>look"}, stop_reason="</a>"), "<a>look</a>", "stop"),
        (answer({"content": "look"}, stop_reason=7), "look", "stop"),
    ],
)
def test_answers_are_told_apart(server: ToyServer, opened: ExitStack, scripted: Any, text: str, finish: str) -> None:
    server.script.append(scripted)
    found = ask(connect(server, opened))
    assert (found.text, found.finish, found.tokens, found.logprobs) == (text, finish, (), ())


def test_a_prompt_that_a_content_filter_refuses_is_a_refusal(server: ToyServer, opened: ExitStack) -> None:
    server.faults.append(error(400, "The response was filtered", "content_filter"))
    found = ask(connect(server, opened))
    assert (found.text, found.finish) == ("", "refusal")


def test_tokens_are_counted_and_priced(server: ToyServer, opened: ExitStack) -> None:
    server.script.append(answer({"content": "look"}))
    found = ask(connect(server, opened, input_price=2.0, output_price=10))
    given = len(server.codec.encode("user: You see a door.\n"))
    assert found.extras == {
        "prompt_tokens": given,
        "response_tokens": 5,
        "request_cost": pytest.approx((2 * given + 10 * 5) / 1e6),
    }
    server.always = Fault(body=json.dumps({"choices": [answer({"content": "look"})]}))
    assert ask(connect(server, opened)).extras == {}  # a server that counts nothing


def test_what_is_sent(server: ToyServer, opened: ExitStack) -> None:
    sampler = connect(server, opened, omit=["top_p"], body={"reasoning_effort": "low"})
    seed = 2**63 - 1
    ask(sampler, seed=seed, stop=("\n",), temperature=0.5)
    ask(sampler, seed=seed, turn=1)
    first, second = server.sent("/chat/completions")
    assert first == {
        "model": NAME,
        "messages": [{"role": "user", "content": "You see a door."}],
        "temperature": 0.5,
        "seed": first["seed"],
        "max_tokens": 4,
        "stop": ["\n"],
        "reasoning_effort": "low",
    }
    assert 0 <= first["seed"] < 2**31
    assert first["seed"] != second["seed"]
    official = make_openai(SamplerSettings(model="x"))
    assert official.url == "https://api.openai.com/v1"
    assert official._body(request())["max_completion_tokens"] == 4
    official.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"retrys": 3}, "has no option 'retrys'; did you mean 'retries'?"),
        ({"retries": -1}, "the option 'retries' of the openai sampler: input should be greater than or equal to 0"),
        ({"timeout": "long"}, "the option 'timeout' of the openai sampler"),
        ({"tool_format": "xml"}, "got 'xml'"),
    ],
)
def test_options_that_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SamplerError) as caught:
        make_openai(SamplerSettings(model="x", options=options))
    assert message in told(caught)


def test_a_black_box_takes_no_weights(server: ToyServer, opened: ExitStack) -> None:
    with pytest.raises(SamplerError, match="cannot be loaded into a black box"):
        asyncio.run(connect(server, opened).load(Path("weights"), 1))


# the token engine


def test_a_server_without_token_ids_is_no_token_engine(
    server: ToyServer, opened: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def completions(body: Any) -> Any:
        return {"choices": [{"text": "look", "finish_reason": "stop", "logprobs": None}]}

    monkeypatch.setattr(server, "_completions", completions)
    sampler = connect(server, opened, tokens=True, tokenizer=server.tokenizer)
    with pytest.raises(EngineFailed, match="returns no token ids and log-probabilities"):
        ask(sampler, prompt=(5, 6))


def test_what_a_token_engine_is_asked(server: ToyServer, opened: ExitStack) -> None:
    sampler = connect(server, opened, tokens=True, tokenizer=server.tokenizer)
    assert sampler.context == 2048  # the server's
    ask(sampler, prompt=(5, 6), stop=("\n",))
    ask(sampler, prompt=(7,) * 2046, max_tokens=10)
    first, second = server.sent("/completions")
    assert first["prompt"] == [5, 6]
    assert (first["stop"], first["max_tokens"], second["max_tokens"]) == (["\n"], 4, 2)
    # the defaults of a model's folder must not change what is sampled from
    assert (first["top_k"], first["min_p"], first["repetition_penalty"]) == (0, 0.0, 1.0)
    with pytest.raises(SamplerError, match="the context must be <= 2048"):
        connect(server, opened, url=sampler.url, tokens=True, tokenizer=server.tokenizer, context=4096)


def test_new_weights_are_read_from_a_folder_once(
    server: ToyServer, opened: ExitStack, tmp_path: Path, model: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    sampler = connect(server, opened, tokens=True, tokenizer=server.tokenizer, folder=str(tmp_path))
    asyncio.run(sampler.load(model[0], 3))
    assert sampler.version == 3
    assert [path for path, _ in server.requests[-2:]] == ["/collective_rpc", "/reset_prefix_cache"]
    (command,) = server.sent("/collective_rpc")
    assert command["method"] == "load_tensors"
    assert Path(command["args"][0]).parent == tmp_path
    assert not list(tmp_path.iterdir())  # the copy is gone
    server.extended = False
    asyncio.run(sampler.load(tmp_path, 4))
    assert server.sent("/collective_rpc")[-1] == {
        "method": "reload_weights",
        "kwargs": {"weights_path": str(tmp_path)},
    }
    server.requests.clear()
    server.always = error(500, "the folder is empty")
    with pytest.raises(EngineFailed, match=r"could not load the new weights: .* the folder is empty"):
        asyncio.run(sampler.load(model[0], 5))
    assert len(server.requests) == 1  # commands are not repeated
    server.always = None
    monkeypatch.setattr(server, "_collective_rpc", None)
    with pytest.raises(EngineFailed, match="no interface for new weights; start it with `turnwise serve model`"):
        asyncio.run(sampler.load(model[0], 5))
    assert sampler.version == 4
    missing = connect(server, opened, url=sampler.url, tokens=True, tokenizer=server.tokenizer, folder="/missing")
    with pytest.raises(SamplerError, match="new weights cannot be written into /missing: No such file"):
        asyncio.run(missing.load(model[0], 5))


def test_an_adapter_is_loaded_under_a_new_name_and_the_old_one_is_removed(
    server: ToyServer, opened: ExitStack, tmp_path: Path
) -> None:
    sampler = connect(server, opened, tokens=True, tokenizer=server.tokenizer)
    (tmp_path / "adapter_config.json").write_text("{}")
    for version in (1, 2):
        asyncio.run(sampler.load(tmp_path, version))
        ask(sampler, prompt=(5, 6))
        assert server.sent("/completions")[-1]["model"] == f"turnwise-{version}"
        assert server.models == [NAME, f"turnwise-{version}"]
    asyncio.run(sampler.load(server.module, 3))
    ask(sampler, prompt=(5, 6))
    assert server.sent("/completions")[-1]["model"] == NAME
    assert server.models == [NAME]


# native tool calls

TOOL = {"type": "function", "function": {"name": "find", "parameters": {"type": "object"}}}


def called(name: str, arguments: Any) -> dict[str, Any]:
    return {"id": "x1", "type": "function", "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize("form", ["hermes", "openai"])
def test_native_calls_become_the_text_that_the_environment_reads(form: str) -> None:
    text = text_with_calls("Let me look.", [called("find", '{"name": "Ada"}'), called("list", "")], form)
    calls = call_format(form).parse(text, []).calls
    assert [(call.name, dict(call.arguments)) for call in calls] == [("find", {"name": "Ada"}), ("list", {})]
    broken = text_with_calls("", [called("find", '{"name": ')], form)
    assert "not valid JSON" in call_format(form).parse(broken, []).error  # the environment tells the model


@pytest.mark.parametrize("form", ["hermes", "openai"])
def test_calls_and_results_in_text_become_native_messages(form: str) -> None:
    from turnwise.tools.functions import Call, ToolResult

    written = call_format(form).write([Call("find", {"name": "Ada"}), Call("find", {"name": "Bob"})], [])
    results = call_format(form).write_results([ToolResult("find", "555"), ToolResult("find", "no entry")])
    conversation = [
        {"role": "user", "content": "Find them."},
        {"role": "assistant", "content": written},
        {"role": "user", "content": results},
        {"role": "assistant", "content": "what?"},
        {"role": "user", "content": "Nothing was done."},
    ]
    native = native_messages(conversation, form)
    assert native[0] == conversation[0]
    assert [json.loads(one["function"]["arguments"]) for one in native[1]["tool_calls"]] == [
        {"name": "Ada"},
        {"name": "Bob"},
    ]
    assert [one["role"] for one in native[2:4]] == ["tool", "tool"]
    assert [one["content"] for one in native[2:4]] == ["555", "no entry"]
    assert [one["tool_call_id"] for one in native[2:4]] == [one["id"] for one in native[1]["tool_calls"]]
    assert native[4:] == conversation[3:]
    conversation[2]["content"] = "The tools are gone."
    assert [one["content"] for one in native_messages(conversation, form)[2:4]] == ["The tools are gone.", ""]


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("form", ["hermes", "openai"])
def test_an_episode_of_tools_with_native_calls(server: ToyServer, opened: ExitStack, form: str, native: bool) -> None:
    from turnwise.envs.toolenv import ToolEnv

    def find(name: str) -> str:
        """Return a number.

        Args:
            name: whose number
        """
        return {"Ada": "555"}[name]

    def make() -> ToolEnv[Any, Any]:
        return ToolEnv(
            "Ada's number?", lambda task: {}, [find], lambda world, said: said == "555", form=form, native=native
        )

    server.script += [
        answer({"content": None, "tool_calls": [called("find", '{"name": "Ada"}')]}, "tool_calls"),
        answer({"content": "Found.", "tool_calls": [called("answer", '{"text": "555"}')]}, "tool_calls"),
    ]
    sampler = connect(server, opened, tools=True, tool_format=form)
    (group,) = rollout(Agent(parser="whole"), sampler, ["task"], make=make)
    assert group.trajectories[0].won
    first, second = server.sent("/chat/completions")
    assert [one["function"]["name"] for one in first["tools"]] == ["find", "answer"]
    assert first["tools"][0]["function"]["parameters"]["properties"]["name"]["description"] == "whose number"
    assert second["messages"][-2]["tool_calls"][0]["function"] == {"name": "find", "arguments": '{"name": "Ada"}'}
    assert second["messages"][-1]["role"] == "tool"
    assert second["messages"][-1]["content"].removesuffix("\n>") == "555"
    assert ("<tools>" in first["messages"][0]["content"]) != native


def test_tools_that_nobody_describes(server: ToyServer, opened: ExitStack) -> None:
    with pytest.raises(SamplerError, match="native tool calls need an environment with tools"):
        ask(connect(server, opened, tools=True))
    server.script.append(answer({"content": "look"}))
    ask(connect(server, opened, url=connect(server, opened).url, tools=[TOOL]))
    assert server.sent("/chat/completions")[-1]["tools"] == [TOOL]


# images


def test_images_are_sent_as_png_data_urls(server: ToyServer, opened: ExitStack) -> None:
    image = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    url = data_url(image)
    assert url.startswith("data:image/png;base64,")
    pil = pytest.importorskip("PIL.Image")
    with pil.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))) as opened_image:
        assert opened_image.format == "PNG"
        assert (np.asarray(opened_image) == image).all()
    message = {"role": "user", "content": [{"type": "text", "text": "Look."}, {"type": "image", "image": image}]}
    sampler = connect(server, opened, images=True)
    assert sampler.images
    server.script.append(answer({"content": "look"}))
    ask(sampler, messages=(message,))
    (sent,) = server.sent("/chat/completions")
    assert sent["messages"][0]["content"] == [
        {"type": "text", "text": "Look."},
        {"type": "image_url", "image_url": {"url": url}},
    ]
    assert not connect(server, opened).images

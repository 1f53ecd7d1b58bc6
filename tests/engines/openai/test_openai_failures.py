"""The openai sampler against a real server: failures that pass, failures that stay, servers that die."""

from __future__ import annotations

import asyncio
import gzip
import json
import resource
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from toys.corridor import Corridor
from toys.openai_client import TASK, answer, ask, connect, request, told
from toys.openai_server import Fault, ToyServer, error

from turncredit.agents.agent import Agent
from turncredit.agents.errors import EngineFailed, RequestFailed, SamplerError
from turncredit.agents.rollouts.rollout import RolloutReport, rollout
from turncredit.agents.trajectory import Trajectory

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("httpx")

from turncredit.engines.openai.client import MAX_FAILURES
from turncredit.engines.openai.failures import Failure, backoff, error_in, failure_of, retry_after
from turncredit.engines.openai.patience import StartUpPatience

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
    "no choices": Fault(body='{"choices": []}'),
    "no message": Fault(body='{"choices": [{}]}'),
    **{
        word: Fault(body=json.dumps({"choices": [answer({"content": "look"}, word)]}))
        for word in ("error", "network_error", "insufficient_system_resource", "abort", "load", "OTHER")
    },
    "an error in a choice": Fault(
        body=json.dumps({"choices": [answer({"content": ""}, "error", error={"code": 502, "message": "upstream"})]})
    ),
}


@pytest.mark.parametrize("kind", TRANSIENT)
def test_a_failure_that_passes_is_retried(server: ToyServer, opened: ExitStack, kind: str) -> None:
    sampler = connect(server, opened, timeout=2.0 if kind == "slow" else 60.0)
    expected = ask(connect(server, opened, url=sampler.url))
    server.requests.clear()
    times = 1 if kind == "slow" else 2
    server.faults += [TRANSIENT[kind]] * times
    assert ask(sampler) == expected
    assert len(server.sent("/chat/completions")) == times + 1


@pytest.mark.parametrize("kind", TRANSIENT)
def test_a_failure_that_stays_fails_the_request_and_names_the_reason(
    server: ToyServer, opened: ExitStack, kind: str
) -> None:
    server.always = TRANSIENT[kind]
    sampler = connect(server, opened, timeout=1.0 if kind == "slow" else 60.0)
    with pytest.raises(RequestFailed) as caught:
        ask(sampler)
    assert len(server.requests) == 3
    assert "(after 2 retries)" in told(caught)
    reasons = {"error": "the generation failed: it ended with finish_reason 'error'",
               "an error in a choice": "(HTTP 502: upstream)", "no choices": "has no choices",
               "429": "HTTP 429: slow down", "503 of a proxy": "Service Unavailable", "no JSON": "is not JSON",
               "slow": "no answer within 1 seconds", "a broken connection": "the connection failed"}  # fmt: skip
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
    assert len(server.sent("/chat/completions")) == 5


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
        (
            400,
            {"error": {"message": "Range of input length should be [1, 129024]", "code": "invalid_parameter_error"}},
            "overflow",
        ),
        (400, {"error": {"message": "Prompt exceeds max length", "code": "1261"}}, "overflow"),
        (400, {"error": {"message": "input length and `max_tokens` exceed context limit: 9 + 9 > 10"}}, "overflow"),
        (
            400,
            {"error": {"message": "The input token count (12) exceeds the maximum number of tokens allowed (10)."}},
            "overflow",
        ),
        (400, {"message": "Input is too long for requested model."}, "overflow"),
        (422, {"error": "Input validation error: `inputs` must have less than 1024 tokens. Given: 5000"}, "overflow"),
        (400, {"error": {"message": "Your request exceeded model token limit: 8192"}}, "overflow"),
        (
            400,
            {"error": {"message": "This model's maximum prompt length is 10 but the request contains 12 tokens."}},
            "overflow",
        ),
        (
            422,
            {"error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. Given: 9"},
            "overflow",
        ),
        (
            400,
            {"message": "The input (5000 tokens) is longer than the model's context length (4096 tokens)."},
            "overflow",
        ),
        (
            400,
            {"error": {"message": "The prompt (length 9) is longer than the maximum model length of 8."}},
            "overflow",
        ),
        (
            400,
            {"error": {"message": "too many tokens: total number of tokens in the prompt cannot exceed 4081"}},
            "overflow",
        ),
        (500, {"error": {"message": "context size exceeded", "type": "exceed_context_size_error"}}, "overflow"),
        (400, {"error": {"message": "Please reduce the length of the messages or completion."}}, "overflow"),
        (400, {"error": {"message": "Range of max_tokens should be [1, 8192]"}}, "request"),
        (
            400,
            {"error": {"message": "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"}},
            "request",
        ),
        (
            400,
            {
                "error": {
                    "message": "Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with "
                    "maximum length 40",
                    "code": "string_above_max_length",
                }
            },
            "request",
        ),
        (429, {"error": {"message": "Request too large for x on tokens per min: Limit 10, Requested 12."}}, "retry"),
        (400, {"error": {"message": "Content Exists Risk", "code": "invalid_request_error"}}, "refusal"),
        (
            400,
            {"error": {"message": "Input data may contain inappropriate content.", "code": "data_inspection_failed"}},
            "refusal",
        ),
        (
            400,
            {
                "error": {
                    "message": "The request was rejected because it was considered high risk",
                    "type": "content_filter",
                }
            },
            "refusal",
        ),
        (400, {"error": {"code": "1301", "message": "系统检测到输入或生成内容可能包含不安全或敏感内容"}}, "refusal"),
        (
            403,
            {"error": {"code": 403, "message": 'x requires moderation. Your input was flagged for "violence".'}},
            "refusal",
        ),
        (403, {"error": {"message": "Sorry, you have been blocked"}}, "request"),
        (
            400,
            {"detail": "length of prompt_tokens (40000) must be less than max_seq_len (32768)."},
            "overflow",
        ),
        (
            400,
            {"error": {"message": "Invalid 'stop': array too long. Expected an array with maximum length 4."}},
            "request",
        ),
        (400, {"error": {"message": "Invalid 'tools': array too long. Expected maximum length 128."}}, "request"),
        (
            413,
            {"error": {"message": "Request too large on tokens per minute (TPM)", "code": "rate_limit_exceeded"}},
            "request",
        ),
        (400, [{"error": {"code": 400, "message": "API key not valid. Please pass a valid API key."}}], "key"),
        (400, {"error": {"message": "bad", "code": "invalid_api_key"}}, "key"),
        (403, {"error": {"message": "Your API key has expired"}}, "key"),
        (402, {"error": {"message": "Insufficient Balance", "code": "invalid_request_error"}}, "server"),
        (429, {"error": {"message": "suspended", "type": "exceeded_current_quota_error"}}, "server"),
        (429, {"error": {"message": "slow", "type": "insufficient_quota", "code": 429}}, "server"),
        (429, {"error": {"message": "You exceeded your current quota, retry in 7 s", "code": 429}}, "retry"),
        (400, {"error": {"message": "max_tokens must be at least 1, got -2."}}, "request"),
        (400, {"error": {"message": "the maximum tokens in parameter max_tokens is 8192"}}, "request"),
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


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": "data_inspection_failed", "message": "no"}, "refusal"),
        ({"code": "400", "message": "prompt is too long"}, "overflow"),
        ({"message": "Prompt exceeds max length"}, "overflow"),
        ({"code": 429, "message": "slow down"}, "retry"),
        ("upstream failed", "retry"),
        (None, None),
    ],
)
def test_what_an_error_with_status_200_means(error: Any, kind: str | None) -> None:
    failure = error_in({"error": error}, {})
    assert (failure and failure.kind) == kind


@pytest.mark.parametrize("content", [{}, {"choices": []}, {"choices": [{}]}, {"choices": [{"message": 3}]}])
def test_an_answer_without_a_message_fails_its_request(server: ToyServer, opened: ExitStack, content: Any) -> None:
    server.always = Fault(body=json.dumps(content))
    with pytest.raises(RequestFailed, match="the answer has no"):
        ask(connect(server, opened))


@pytest.mark.parametrize(
    ("code", "text", "kind"),
    [
        (0, "success", None),
        (1000, "unknown error", "retry"),
        (1002, "rate limit", "retry"),
        (1004, "not authorized", "key"),
        (1008, "insufficient balance", "server"),
        (1026, "input new_sensitive", "refusal"),
        (1027, "output new_sensitive", "refusal"),
        (2013, "invalid params", "request"),
    ],
)
def test_the_codes_of_minimax_are_read(code: int, text: str, kind: str | None) -> None:
    failure = error_in({"choices": None, "base_resp": {"status_code": code, "status_msg": text}}, {})
    assert (failure and failure.kind) == kind


# failures of the server


def test_a_server_that_never_answers_is_told_and_then_given_up(server: ToyServer, opened: ExitStack) -> None:
    server.always = TRANSIENT["error"]
    sampler = connect(server, opened, retries=50, patience=0.2)  # so many that the patience ends first
    report = RolloutReport()
    with (
        pytest.warns(RuntimeWarning, match="has not answered yet .* it ended with finish_reason 'error'") as warned,
        pytest.raises(EngineFailed, match=r"none of \d+ requests .* 0.2 seconds.* finish_reason 'error'.* patience"),
    ):
        rollout(Agent(), sampler, [TASK], make=Corridor, size=4, concurrency=2, report=report)
    assert len([each for each in warned if "has not answered yet" in str(each.message)]) == 1
    assert report.errors == 0


def test_one_answer_ends_the_patience_for_the_start() -> None:
    failure, limit = Failure("retry", "HTTP 503"), Failure("retry", "HTTP 429", 60.0)
    patience = StartUpPatience("http://server/v1", 30.0)
    assert patience.shortened(8.0, 90.0) == 8.0
    assert patience.over(limit, 90.0) == patience.over(failure, 100.0) == patience.over(failure, 129.0) == ""
    assert patience.shortened(8.0, 129.0) == 1.0
    assert "within 30 seconds" in patience.over(failure, 130.0)
    assert patience.over(limit, 140.0) == ""
    patience.answered()
    assert patience.over(failure, 500.0) == ""
    assert patience.shortened(8.0, 500.0) == 8.0


def test_a_server_that_cannot_be_reached_ends_the_rollout_with_one_sentence(opened: ExitStack) -> None:
    sampler = connect(None, opened, url="http://127.0.0.1:9")  # type: ignore[arg-type]
    with pytest.raises(EngineFailed) as caught:
        rollout(Agent(), sampler, [TASK], make=Corridor)
    assert told(caught).startswith("http://127.0.0.1:9/v1: cannot be reached (")
    assert told(caught).endswith("; is the server running?")


def test_a_server_that_does_not_accept_the_connection_ends_the_rollout_at_once(
    server: ToyServer, opened: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    import httpx

    async def send(*_: Any, **__: Any) -> None:
        raise httpx.ConnectTimeout("")

    sampler = connect(server, opened)
    monkeypatch.setattr(sampler._client._http, "send", send)
    with pytest.raises(EngineFailed, match=r"cannot be reached \(ConnectTimeout\)"):
        ask(sampler)


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
    with pytest.raises(EngineFailed, match=f"the last {MAX_FAILURES} requests failed.*out of memory"):
        rollout(Agent(), sampler, [TASK], make=Corridor, size=50, concurrency=1, report=report)
    assert report.errors == MAX_FAILURES - 1
    server.always = None
    ask(sampler)
    for _ in range(3):  # one success, and the count starts again
        server.faults += [error(500, "oops")] * (MAX_FAILURES - 1)
        for _ in range(MAX_FAILURES - 1):
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


# answers without a limit


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (Fault(body=gzip.compress(bytes(1 << 27)), headers={"content-encoding": "gzip"}), "more than 8,392,704 bytes"),
        (Fault(endless=True), "more than 8,392,704 bytes"),
        (Fault(body=b"x", headers={"content-encoding": "zstd"}), "the content encoding 'zstd'; only gzip is read"),
        (Fault(body=b"no gzip", headers={"content-encoding": "gzip"}), "the compressed data is damaged"),
    ],
)
def test_an_answer_without_a_limit_fails_its_request_at_once(
    server: ToyServer, opened: ExitStack, fault: Fault, reason: str
) -> None:
    sampler = connect(server, opened)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    server.always = fault
    with pytest.raises(RequestFailed, match=reason):
        ask(sampler)
    server.always = None
    assert len(server.requests) == 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10  # KiB


def test_the_limit_follows_from_max_tokens(server: ToyServer, opened: ExitStack) -> None:
    text = "a" * (9 << 20)
    server.always = Fault(body=json.dumps({"choices": [answer({"content": text})]}))
    sampler = connect(server, opened)
    with pytest.raises(RequestFailed, match="more than"):
        ask(sampler, max_tokens=1000)
    assert ask(sampler, max_tokens=4000).text == text
    server.always = Fault(body=gzip.compress(b'{"choices": [{"message": {"content": "hi"}}]}'),
                          headers={"content-encoding": "gzip"})  # fmt: skip
    assert ask(sampler).text == "hi"


def test_an_error_without_an_end_keeps_its_meaning(server: ToyServer, opened: ExitStack) -> None:
    server.always = Fault(status=503, endless=True)
    with pytest.raises(RequestFailed, match="HTTP 503"):
        ask(connect(server, opened, retries=0))
    server.always = None


@pytest.mark.parametrize("body", ["[" * 100_000, '{"choices": ' + "[" * 80 + "]" * 80 + "}"])
def test_an_answer_that_is_too_deep_fails_its_request(server: ToyServer, opened: ExitStack, body: str) -> None:
    server.always = Fault(body=body)
    with pytest.raises(RequestFailed, match="more than 64 levels"):
        ask(connect(server, opened, retries=0))

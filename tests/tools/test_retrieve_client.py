"""The client of /retrieve: response formats, retries with growing delays, and servers that are not retrievers."""

from __future__ import annotations

import json
import socket
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toys.service import Answer, serving

from turncredit.tools.android import DeviceError
from turncredit.tools.android.androidworld_client import AndroidWorldClient
from turncredit.tools.retrieval import (
    BadQuery,
    NoRetriever,
    Passage,
    PassageSearch,
    RemoteRetriever,
    Retriever,
    RetrieverDown,
)
from turncredit.tools.retrieval import client as module

TEA = {"id": "7", "contents": '"Tea"\nTea is a drink.'}


def result(*lists: object) -> Answer:
    return 200, json.dumps({"result": lists}).encode()


class Time:
    """A clock that only waiting moves."""

    def __init__(self) -> None:
        self.now, self.waits = 0.0, list[float]()

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


def patient(url: str, **options: Any) -> tuple[RemoteRetriever, Time]:
    time = Time()
    return RemoteRetriever(url, sleep=time.sleep, clock=time.clock, **options), time


def test_responses_with_scores() -> None:
    with serving(lambda payload: result([{"document": TEA, "score": 1.5}])) as (url, asked):
        remote = RemoteRetriever(url)
        assert isinstance(remote, Retriever)
        assert isinstance(remote, PassageSearch)
        assert remote.find("hot drink", k=2) == [Passage("7", '"Tea"', "Tea is a drink.", 1.5)]
        assert remote.search("hot drink") == [("7", 1.5)]
    assert asked[0] == {"queries": ["hot drink"], "topk": 2, "return_scores": True, "path": "/retrieve"}


def test_responses_without_scores_or_ids() -> None:
    bm25 = {"title": "Tea", "text": "Tea is a drink.", "contents": '"Tea"\nTea is a drink.'}
    bare = {"title": "Tea", "text": "Tea is a drink."}
    with serving(lambda payload: result([bm25, bare, bm25 | {"id": 3}])) as (url, _):
        first, second, third = RemoteRetriever(url).find("tea", 3)
    assert (first.title, first.text, first.score) == ('"Tea"', "Tea is a drink.", 0.0)
    assert (second.title, second.text) == ("Tea", "Tea is a drink.")
    assert third.id == "3"
    assert len({first.id, second.id, third.id}) == 3


def test_queries_are_sent_in_batches() -> None:
    with serving(
        lambda payload: result(*[[{"document": TEA | {"id": query}, "score": 1}] for query in payload["queries"]])
    ) as (
        url,
        asked,
    ):
        passages = RemoteRetriever(url, batch=3).search_batch([str(number) for number in range(8)], 1)
    assert passages == [[(str(number), 1.0)] for number in range(8)]
    assert [len(payload["queries"]) for payload in asked] == [3, 3, 2]
    assert RemoteRetriever(url).search_batch([]) == []


def test_at_most_k_results() -> None:
    with serving(lambda payload: result([{"document": TEA, "score": 1}] * 5)) as (url, _):
        assert len(RemoteRetriever(url).find("tea", 2)) == 2


@pytest.mark.parametrize("status", [500, 502, 503, 504, 429, 408])
def test_temporary_failures_are_retried(status: int) -> None:
    answers = iter([(status, b"busy"), (status, b"busy"), result([{"document": TEA, "score": 1}])])
    with serving(lambda payload: next(answers)) as (url, asked):
        remote, time = patient(url, backoff=1.0)
        assert remote.search("tea") == [("7", 1.0)]
    assert len(asked) == 3
    assert len(time.waits) == 2
    assert 0.5 <= time.waits[0] <= 1.0 <= time.waits[1] <= 2.0


def test_exhausted_attempts_are_explained() -> None:
    with serving(lambda payload: (503, b"the index is being built")) as (url, asked):
        remote, time = patient(url, tries=3)
        with pytest.raises(RetrieverDown, match=r"did not respond after 3 attempts: status 503 the index is being"):
            remote.search("tea")
        with pytest.raises(RetrieverDown, match="after 1 attempt:"):
            patient(url, tries=1)[0].search("tea")
    assert (len(asked), len(time.waits)) == (4, 2)


@given(st.integers(0, 1000), st.integers(1, 8), st.floats(0.01, 10), st.floats(0.01, 60))
def test_delays_grow_within_their_bounds_and_the_deadline(
    seed: int, tries: int, backoff: float, deadline: float
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: every connection is refused
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        waits = []
        for _ in range(2):
            remote, time = patient(url, seed=seed, tries=tries, backoff=backoff, deadline=deadline)
            with pytest.raises(RetrieverDown):
                remote.search("tea")
            waits.append(time.waits)
    assert waits[0] == waits[1]
    assert all(0.5 * backoff * 2**n <= wait <= backoff * 2**n for n, wait in enumerate(waits[0]))
    assert len(waits[0]) < tries
    assert sum(waits[0]) < deadline


def test_delays_depend_on_the_seed() -> None:
    with serving(lambda payload: (503, b"")) as (url, _):
        waits = []
        for seed in (1, 2):
            remote, time = patient(url, seed=seed)
            with pytest.raises(RetrieverDown):
                remote.search("tea")
            waits.append(time.waits)
    assert waits[0] != waits[1]


def test_a_slow_server_times_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:  # takes connections and says nothing
        url = f"http://127.0.0.1:{mute.getsockname()[1]}"
        with pytest.raises(RetrieverDown, match=r"2 attempts: no response within 0\.05 s"):
            RemoteRetriever(url, tries=2, timeout=0.05, backoff=0.0).search("tea")


def test_a_server_that_closes_the_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up() -> None:
            for _ in range(2):
                server.accept()[0].close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        with pytest.raises(RetrieverDown, match="after 2 attempts"):
            RemoteRetriever(f"http://127.0.0.1:{server.getsockname()[1]}", tries=2, backoff=0.0).search("tea")
        thread.join()


@pytest.mark.parametrize(
    "answer",
    [
        (200, b"<html>"),
        (200, b"[" * 100_000),
        (200, b"[]"),
        (200, b'{"result": []}'),
        (200, b'{"result": [3]}'),
        (200, b'{"result": [[3]]}'),
        (200, b'{"result": [[{"document": 3}]]}'),
        (200, b'{"result": [[{"document": {"id": "1"}}]]}'),
        (404, b"nothing here"),
        (403, b""),
    ],
)
def test_other_servers_are_recognized_at_once(answer: Answer) -> None:
    with serving(lambda payload: answer) as (url, asked):
        with pytest.raises(NoRetriever) as failure:
            RemoteRetriever(url).search("tea")
        assert len(asked) == 1
    assert failure.value.url == f"{url}/retrieve"
    assert url not in failure.value.reason


@pytest.mark.parametrize("status", [400, 413, 422])
def test_refused_requests_are_bad_queries(status: int) -> None:
    with serving(lambda payload: (status, b'{"detail": "too long"}')) as (url, asked):
        with pytest.raises(BadQuery, match="too long") as failure:
            RemoteRetriever(url).search("tea")
        assert len(asked) == 1
    assert (failure.value.url, failure.value.reason) == (
        f"{url}/retrieve",
        f'status {status}: {{"detail": "too long"}}',
    )


def test_a_password_in_the_address_is_refused_and_not_shown() -> None:
    for make in (RemoteRetriever, AndroidWorldClient):
        with pytest.raises((BadQuery, DeviceError), match="the server host must not contain a password") as failure:
            make("http://me:secret@host:8000")
        assert "secret" not in str(failure.value)


def test_endless_responses_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_BYTES", 100)
    with (
        serving(lambda payload: (200, b" " * 1000)) as (url, _),
        pytest.raises(NoRetriever, match="has more than 100 bytes"),
    ):
        RemoteRetriever(url).search("tea")


@pytest.mark.parametrize("seconds", [None, 1e12])
def test_no_time_limit(seconds: float | None) -> None:
    with serving(lambda payload: result([{"document": TEA, "score": 1}])) as (url, _):
        assert RemoteRetriever(url, timeout=seconds, deadline=seconds).search("tea") == [("7", 1.0)]


def test_invalid_scores_become_zero() -> None:
    for score in (b"NaN", b'"3"', b"true", b"null"):
        body = b'{"result": [[{"document": {"id": "1", "contents": "a"}, "score": ' + score + b"}]]}"
        with serving(lambda payload, body=body: (200, body)) as (url, _):  # type: ignore[misc]
            assert RemoteRetriever(url).search("tea") == [("1", 0.0)]


@pytest.mark.parametrize("url", ["", "127.0.0.1:8000", "ftp://x", "http://", "file:///etc/passwd", None])
def test_invalid_addresses_are_refused(url: object) -> None:
    with pytest.raises(BadQuery, match="must be like http"):
        RemoteRetriever(url)  # type: ignore[arg-type]


def test_addresses_end_in_retrieve() -> None:
    for url in ("http://x:1", "http://x:1/", "http://x:1/retrieve", "http://x:1/retrieve/"):
        assert RemoteRetriever(url).url == "http://x:1/retrieve"
    assert RemoteRetriever("https://x/wiki").url == "https://x/wiki/retrieve"


@pytest.mark.parametrize("options", [{"tries": 0}, {"timeout": 0}, {"deadline": -1}, {"backoff": -1}, {"batch": 0}])
def test_invalid_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(BadQuery):
        RemoteRetriever("http://x", **options)
    with pytest.raises(BadQuery):
        RemoteRetriever("http://x").search(3)  # type: ignore[arg-type]

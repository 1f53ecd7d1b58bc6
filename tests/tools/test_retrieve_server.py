"""The retrieval server: requests of Search-R1, our client, and invalid requests."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from turncredit.installation import installation_command
from turncredit.processes.serving import PortInUse, listen, serve_in_thread, url_of
from turncredit.tools.retrieval import BadQuery, Hits, Library, Passage, Passages, RemoteRetriever, RetrieverDown
from turncredit.tools.retrieval.server import RequestLimits, create_app

pytestmark = pytest.mark.waits

httpx = pytest.importorskip("httpx", reason="needs httpx")
for package in ("fastapi", "uvicorn"):
    pytest.importorskip(package, reason="needs the extra `serve`")

ROWS = [
    ("0", '"Tea"\nTea is a hot drink.'),
    ("1", '"Rye"\nRye is a grass.'),
    ("2", '"Ale"\nAle is a cold drink of malt.'),
    ("3", '"Café "au lait""\nCoffee with milk is a drink.\nIt is hot.'),
]
CLIENT = httpx.Client(timeout=60, trust_env=False)  # one for all: making one takes longer than a request
LIBRARY = Library(Passages.of(ROWS))
SMALL = RequestLimits(queries=5, topk=4, characters=100, size=4000, documents=12)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serve_in_thread(create_app(LIBRARY, topk=2, about="drinks")) as address:
        yield address


@pytest.fixture(scope="module")
def small() -> Iterator[str]:
    with serve_in_thread(create_app(LIBRARY, topk=2, limits=SMALL)) as address:
        yield address


def post(url: str, said: Any, **more: Any) -> httpx.Response:
    content = said if isinstance(said, bytes) else json.dumps(said).encode()
    headers = {"Content-Type": "application/json"}
    return CLIENT.post(f"{url}/retrieve", content=content, headers=headers, **more)


def document(id: str) -> dict[str, str]:
    contents = dict(ROWS)[id]
    title, _, text = contents.partition("\n")
    return {"id": id, "title": title.strip('"'), "text": text, "contents": contents}


def test_a_request_with_scores(url: str) -> None:
    answer = CLIENT.post(
        f"{url}/retrieve", json={"queries": ["grass", "hot drink"], "topk": 3, "return_scores": True}
    ).json()
    assert list(answer) == ["result"]
    hits = [LIBRARY.retriever.search(query, 3) for query in ("grass", "hot drink")]
    assert answer["result"] == [[{"document": document(id), "score": score} for id, score in found] for found in hits]
    assert [len(found) for found in hits] == [1, 3]


@pytest.mark.parametrize(
    "said", [{}, {"return_scores": False}, {"topk": None}, {"topk": 0}, {"topk": 2}, {"more": [1]}]
)
def test_a_request_without_scores(url: str, said: dict[str, Any]) -> None:
    answer = post(url, {"queries": ["drink"]} | said)
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {"result": [[document(id) for id, _ in LIBRARY.retriever.search("drink", 2)]]}
    assert len(answer.json()["result"][0]) == 2


def test_results_can_be_parsed_as_the_original_trainer_does(url: str) -> None:
    """Its trainer takes the contents of each document apart: the title is the first line, the rest the text."""
    answer = post(url, {"queries": ["coffee milk"], "topk": 1, "return_scores": True}).json()["result"][0]
    contents = answer[0]["document"]["contents"]
    assert contents.split("\n")[0] == '"Café "au lait""'
    assert "\n".join(contents.split("\n")[1:]) == "Coffee with milk is a drink.\nIt is hot."


def test_our_client_returns_what_the_library_finds(url: str) -> None:
    queries, remote = ["hot drink", "grass", "", "nothing of the kind", "drink"], RemoteRetriever(url, batch=2)
    assert remote.find_batch(queries, 3) == LIBRARY.find_batch(queries, 3)
    assert remote.search_batch(queries, 3) == LIBRARY.retriever.search_batch(queries, 3)
    assert remote.find("grass") == [Passage("1", '"Rye"', "Rye is a grass.", LIBRARY.find("grass")[0].score)]


def test_an_empty_query_does_not_affect_others(url: str) -> None:
    answer = post(url, {"queries": ["", "grass", " \n"]}).json()
    assert answer == {"result": [[], [document("1")], []]}
    assert post(url, {"queries": []}).json() == {"result": []}


def test_a_thousand_queries(url: str) -> None:
    answer = post(url, {"queries": ["grass", "drink"] * 500, "topk": 1})
    assert answer.status_code == 200
    assert answer.json()["result"] == [[document("1")], [document(LIBRARY.find("drink", 1)[0].id)]] * 500


def test_lone_surrogates_and_other_scripts(url: str) -> None:
    assert post(url, b'{"queries": ["\\ud800 grass", "\\u8336 \\u0000"]}').json() == {"result": [[document("1")], []]}


HOSTILE: list[tuple[Any, int, str]] = [
    (b"", 422, "must be JSON"),
    (b"\xff\xfe", 422, "must be JSON"),
    (b"[" * 3000, 422, "must be JSON"),
    (b'{"queries": ["x"], "topk": ' + b"9" * 3000, 422, "must be JSON"),
    ([], 422, "object, got list"),
    ({}, 422, "queries must be a list of str, got nothing"),
    ({"queries": "grass"}, 422, "queries must be a list of str, got str"),
    ({"queries": ["a", 3]}, 422, "queries[1] must be a str, got int"),
    ({"queries": ["a", None]}, 422, "got NoneType"),
    ({"queries": ["a"], "topk": -1}, 422, "topk must be from 1 to 4, or 0 or null for the default (2), got -1"),
    ({"queries": ["a"], "topk": 5}, 422, "got 5"),
    ({"queries": ["a"], "topk": 10**30}, 422, "got 1000000"),
    ({"queries": ["a"], "topk": "3"}, 422, "integer or null, got '3'"),
    ({"queries": ["a"], "topk": 2.0}, 422, "integer or null, got 2.0"),
    ({"queries": ["a"], "topk": True}, 422, "integer or null, got True"),
    ({"queries": ["a"], "return_scores": "yes"}, 422, "return_scores must be true or false"),
    ({"queries": ["a"] * 6}, 413, "at most 5 queries"),
    ({"queries": ["a"] * 4, "topk": 4}, 413, "at most 12 documents, got 4 queries of 4 documents"),
    ({"queries": ["a", "x" * 101]}, 413, "queries[1] must have at most 100 characters, got 101"),
    ({"queries": ["x" * 10**6]}, 413, "a request may have at most 4,000 bytes"),
]


@pytest.mark.parametrize(("said", "status", "sentence"), HOSTILE)
def test_invalid_requests_are_explained(small: str, said: Any, status: int, sentence: str) -> None:
    answer = post(small, said)
    assert (answer.status_code, list(answer.json())) == (status, ["detail"])
    assert sentence in answer.json()["detail"]
    assert post(small, {"queries": ["grass"]}).json() == {"result": [[document("1")]]}


def test_a_query_of_a_megabyte(url: str) -> None:
    answer = post(url, {"queries": ["x" * 10**6]})
    assert (answer.status_code, answer.json()) == (
        413,
        {"detail": "queries[0] must have at most 20,000 characters, got 1,000,000"},
    )
    with pytest.raises(BadQuery, match="at most 20,000"):
        RemoteRetriever(url).search("x" * 10**6)
    assert RemoteRetriever(url).find("grass", 1)[0].id == "1"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)
requests = (
    st.binary(max_size=60)
    | json_values
    | st.fixed_dictionaries(
        {},
        optional={
            "queries": json_values | st.lists(st.text(max_size=9)),
            "topk": json_values,
            "return_scores": json_values,
        },
    )
)


@settings(
    deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(requests)
def test_any_request_gets_a_response(small: str, said: Any) -> None:
    answer = post(small, said)
    assert answer.status_code in (200, 413, 422)
    body = answer.json()
    if answer.status_code == 200:
        assert len(body["result"]) == len(said["queries"])
    else:
        assert isinstance(body["detail"], str)


def test_many_clients_at_once(url: str) -> None:
    queries = ["hot drink", "grass", "malt", "milk"] * 25
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda query: RemoteRetriever(url).find(query, 2), queries))
    assert found == LIBRARY.find_batch(queries, 2)


def test_health(url: str) -> None:
    before = CLIENT.get(f"{url}/health").json()
    post(url, {"queries": ["a", "b"]})
    after = CLIENT.get(f"{url}/health").json()
    assert before | {"queries_answered": after["queries_answered"]} == after
    assert after["queries_answered"] == before["queries_answered"] + 2
    assert (after["status"], after["about"], after["passages"], after["topk"]) == ("ok", "drinks", 4, 2)


def test_other_addresses_and_methods(url: str) -> None:
    assert CLIENT.get(f"{url}/retrieve").status_code == 405
    assert CLIENT.get(f"{url}/docs").status_code == 404
    with pytest.raises(RetrieverDown, match="404"):
        RemoteRetriever(f"{url}/elsewhere").search("x")


class Broken:
    """A library that fails as it is told."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def find(self, query: str, k: int = 3) -> list[Passage]:
        raise self.error

    def find_batch(self, queries: object, k: int = 3) -> list[list[Passage]]:
        raise self.error


@pytest.mark.parametrize(
    ("error", "status", "sentence"),
    [
        (BadQuery("no such thing"), 422, "no such thing"),
        (RetrieverDown("gone"), 503, "gone"),
        (ZeroDivisionError("secret"), 500, "internal server error"),
    ],
)
def test_a_library_that_fails(error: Exception, status: int, sentence: str, caplog: pytest.LogCaptureFixture) -> None:
    with serve_in_thread(create_app(Broken(error))) as url:
        answer = post(url, {"queries": ["a"]})
        assert (answer.status_code, "secret" in answer.text) == (status, False)
        assert sentence in answer.json()["detail"]
        assert CLIENT.get(f"{url}/health").status_code == 200
    assert ("secret" in caplog.text) == (status == 500)


def test_a_request_that_ends_early(url: str) -> None:
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as half:
        half.sendall(
            b"POST /retrieve HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 100\r\n\r\n{"
        )
    assert post(url, {"queries": ["grass"]}).status_code == 200


class Odd:
    """A retriever with scores that JSON cannot say."""

    def search(self, query: str, k: int = 10) -> Hits:
        return [("0", float("nan")), ("1", float("-inf"))]

    def search_batch(self, queries: Any, k: int = 10) -> list[Hits]:
        return [self.search(query, k) for query in queries]


def test_scores_that_json_cannot_represent() -> None:
    with serve_in_thread(create_app(Library(Passages.of(ROWS), Odd()))) as url:
        answer = post(url, {"queries": ["a"], "return_scores": True}).json()
    assert [hit["score"] for hit in answer["result"][0]] == [0.0, 0.0]


def test_a_server_in_front_of_another(url: str) -> None:
    with serve_in_thread(create_app(RemoteRetriever(url), about="a relay")) as relay:
        assert RemoteRetriever(relay).find("hot drink", 3) == LIBRARY.find("hot drink", 3)
        assert CLIENT.get(f"{relay}/health").json()["passages"] is None


def test_invalid_options_are_refused() -> None:
    with pytest.raises(BadQuery, match="topk must be from 1 to 4"):
        create_app(LIBRARY, topk=5, limits=SMALL)
    with pytest.raises(BadQuery, match="size must be >= 1"):
        RequestLimits(size=0)
    with listen() as taken, pytest.raises(PortInUse, match="choose another port, or 0 for any free one"):
        listen(port=taken.getsockname()[1])
    with pytest.raises(PortInUse, match="must be an address of this machine"):
        listen("no.such.host.invalid")
    with pytest.raises(PortInUse, match="port must be from 0"):
        listen(port=70_000)


def test_without_fastapi(monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("fastapi", "uvicorn"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=re.escape(installation_command("serve"))):
        create_app(LIBRARY)
    with listen() as opened:
        assert url_of(opened).startswith("http://127.0.0.1:")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps({"id": id, "contents": contents}) + "\n" for id, contents in ROWS))
    return path


def test_the_command_serves_until_it_is_interrupted(corpus: Path) -> None:
    line = [sys.executable, "-m", "turncredit.cli.main", "serve", "search", str(corpus), "--port", "0"]
    with subprocess.Popen(
        [*line, "--keep", str(corpus.parent / "kept")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            where = next(word for line in process.stdout for word in line.split() if word.startswith("http://"))
            found = RemoteRetriever(where).find("hot drink", 3)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=300)
        finally:
            process.kill()
    assert where.endswith("/retrieve")
    assert found == LIBRARY.find("hot drink", 3)
    assert (process.returncode, errors.strip()) == (0, "indexing the words of 4 passages")
    assert (corpus.parent / "kept" / "bm25" / "index.json").is_file()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["{corpus}", "--port", "{port}"], "choose another"),
        (["{corpus}", "--port", "0", "--host", "no.such.host.invalid"], "must be an address of this machine"),
        (["{corpus}", "--port", "0", "--index", "bm52"], "did you mean 'bm25'"),
        (["{corpus}", "--port", "0", "--topk", "5000"], "topk must be from 1 to 1000"),
        (["no-such-file.jsonl", "--port", "0"], "no-such-file.jsonl"),
        (["{torn}", "--port", "0"], "; --skip"),
        (["{corpus}", "--port", "0", "--index", "dense", "--model", "{folder}"], "config.json is missing"),
    ],
)
def test_command_line_errors_are_one_sentence(
    arguments: list[str], sentence: str, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from turncredit.cli.main import app

    torn = corpus.parent / "torn.jsonl"
    torn.write_text('{"id": "1", "cont')
    with listen() as taken:
        names = {"corpus": corpus, "torn": torn, "folder": corpus.parent, "port": taken.getsockname()[1]}
        code = app(["serve", "search", *(one.format(**names) for one in arguments)], standalone_mode=False)
    said = capsys.readouterr()
    assert (code, said.out) == (2, "")
    assert sentence in said.err
    assert len([line for line in said.err.strip().splitlines() if line.startswith("turncredit:")]) == 1

"""A live report: an open page follows its run, keeps its reader's place, and transfers only what is new."""

from __future__ import annotations

import http.client
import re
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from toys.report_runs import episode, turn, write_iteration, write_run

from turncredit.agents.files.trajectory_files import TrajectoryWriter
from turncredit.report.run_report import iterations
from turncredit.report.run_report.heard_warnings import heard_warnings
from turncredit.report.run_report.report_data import open_report
from turncredit.report.run_report.server import LiveServer


@contextmanager
def served(path: Path) -> Iterator[LiveServer]:
    """A server of a report, in a thread."""
    server = LiveServer(open_report(path))
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        yield server
    finally:
        server.close()
        thread.join()


def test_a_run_that_continues(tab: Any, tmp_path: Path) -> None:
    run = write_run(tmp_path / "live", iterations=1)
    with served(run) as server:
        asked: list[str] = []
        tab.on("request", lambda request: asked.append(request.url.removeprefix(server.url)))
        tab.goto(f"{server.url}#/groups")
        tab.locator(".row").first.wait_for()
        assert tab.locator(".row").count() == 1
        write_iteration(run, 2)
        whole = "document.querySelectorAll('.row').length === 2 && document.querySelectorAll('.cell').length === 6"
        tab.wait_for_function(f"() => {whole}")
        tab.locator(".cell").first.click()
        tab.locator(".strip").first.wait_for()
        assert any(path.startswith("turns/2/") for path in asked)
        assert not any(path.startswith("turns/1") for path in asked)
        assert any(re.fullmatch(r"news\?since=[1-9]\d*", path) for path in asked)
        tab.wait_for_function("() => document.getElementById('live').textContent === 'live'")
        tab.goto("about:blank")


def test_an_open_episode_is_drawn_again_where_its_reader_is(tab: Any, tmp_path: Path) -> None:
    run = write_run(tmp_path / "live", iterations=1)
    long = [turn(n, f"step {n}", observation=f"room {n}\n" * 12, reward=float(n == 19)) for n in range(20)]
    file = run / "trajectories" / "000002.jsonl"

    def add(played: list[Any]) -> None:
        with TrajectoryWriter(file, append=True) as writer:
            for one in played:
                writer.write(one)

    add([episode("open-1", 0, long, True), episode("open-1", 1, long[:3], False)])
    with served(run) as server:
        tab.goto(f"{server.url}#/turn/2/0/0/8")
        card = tab.locator("#turn-8")
        card.wait_for()
        card.get_by_text("other credit rules").click()
        card.locator("details[open] table").wait_for()
        place = tab.evaluate("() => document.getElementById('turn-8').getBoundingClientRect().top")
        credit = card.locator(".credit b").inner_text()

        # a further member of the group: the advantages change, and the reader stays where he was
        add([episode("open-1", 2, long[:5], False)])
        tab.wait_for_function("old => document.querySelector('#turn-8 .credit b').textContent !== old", arg=credit)
        assert "of 3" in tab.locator(".crumbs").last.inner_text()
        card.locator("details[open] table").wait_for()
        assert abs(tab.evaluate("() => document.getElementById('turn-8').getBoundingClientRect().top") - place) < 2
        assert card.get_attribute("class").endswith("here")

        # text that is being marked is left alone until it is marked no more
        tab.evaluate("() => getSelection().selectAllChildren(document.querySelector('#turn-8 .text'))")
        add([episode("open-1", 3, long[:2], True)])
        asked = "() => performance.getEntriesByType('resource').filter((one) => one.name.includes('news')).length"
        before = tab.evaluate(asked)
        tab.wait_for_function(f"n => ({asked})() > n + 1", arg=before)
        assert "of 3" in tab.locator(".crumbs").last.inner_text()
        assert "room 8" in tab.evaluate("() => getSelection().toString()")
        tab.evaluate("() => getSelection().removeAllRanges()")
        tab.wait_for_function("() => [...document.querySelectorAll('.crumbs')].at(-1).textContent.includes('of 4')")
        tab.goto("about:blank")


def test_what_is_transferred_is_what_is_new(tmp_path: Path) -> None:
    run = write_run(tmp_path / "live", iterations=1)
    file = run / "trajectories" / "000002.jsonl"
    with TrajectoryWriter(file) as writer:
        for one in range(200):
            writer.write(episode(f"open-{one}", 0, [turn(0, f"take {one}")], one % 3 == 0))
    with served(run) as server:
        port = int(server.url.rstrip("/").rpartition(":")[2])

        def get(path: str, tag: str = "") -> tuple[int, bytes, str]:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", path, headers={"If-None-Match": tag} if tag else {})
            answer = connection.getresponse()
            found = answer.status, answer.read(), answer.headers["ETag"]
            connection.close()
            return found

        _, whole, _ = get("/news?since=0")
        _, again, _ = get("/news?since=1")
        _, turns, _ = get("/turns/2")
        _, group, tag = get("/turns/2/7")
        with TrajectoryWriter(file, append=True) as writer:
            writer.write(episode("open-200", 0, [turn(0, "take 200")], True))
        _, news, _ = get("/news?since=1")
        assert len(again) < 100
        assert len(news) < 0.03 * len(whole)
        assert len(group) < 0.2 * len(turns)
        assert get("/turns/2/7", tag)[:2] == (304, b"")


def test_the_server_answers_its_own_machine_and_its_own_run_only(tmp_path: Path) -> None:
    run = write_run(tmp_path / "live", iterations=1)
    (tmp_path / "secret.txt").write_text("secret")
    server = LiveServer(open_report(run))
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        host, _, port = server.url.removeprefix("http://").rstrip("/").partition(":")
        assert host == "127.0.0.1"

        def status(path: str, name: str = "localhost") -> int:
            connection = http.client.HTTPConnection(host, int(port), timeout=60)
            connection.putrequest("GET", path, skip_host=True)
            connection.putheader("Host", name)
            connection.endheaders()
            found = connection.getresponse().status
            connection.close()
            return found

        assert status("/") == status("/turns/1") == status("/tokens/1") == status("/news?since=0") == 200
        assert status("/turns/1/2") == status("/tokens/1/0") == 200
        assert status("/", "evil.example") == status("/turns/1", "evil.example:80") == 403
        for path in ("/run.toml", "/../secret.txt", "/turns/../../secret.txt", "/turns/2", "/news", "/news?since=x"):
            assert status(path) == 404, path
    finally:
        server.close()
        thread.join()


def answer(server: LiveServer, path: str) -> tuple[int, bytes]:
    """Status and content of a page of a live report."""
    connection = http.client.HTTPConnection("127.0.0.1", server._server.server_port, timeout=60)
    connection.request("GET", f"/{path}")
    response = connection.getresponse()
    result = response.status, response.read()
    connection.close()
    return result


def test_a_slow_read_holds_up_no_other_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The episodes of iteration 1 are read for as long as the test wants, while all else is answered."""
    begun, released, read = threading.Event(), threading.Event(), iterations.read
    answers: list[tuple[int, bytes]] = []

    def slow(file: Path, number: int) -> iterations.Iteration:
        if number == 1:
            begun.set()
            assert released.wait(60)
        return read(file, number)

    with served(write_run(tmp_path / "live", iterations=2)) as server:
        assert answer(server, "news?since=0")[0] == 200  # which reads all files once
        monkeypatch.setattr(iterations, "read", slow)
        reader = threading.Thread(target=lambda: answers.append(answer(server, "screens/1/0")))
        reader.start()
        try:
            assert begun.wait(60)
            for path in ("", "news?since=0", "news?since=1", "turns/2", "turns/2/0", "tokens/2/0", "screens/2/0"):
                assert answer(server, path)[0] == 200, path
            for path in ("turns/999999999", "9999:turns/0", "screens/999999999/0", f"turns/{'9' * 400}"):
                assert answer(server, path)[0] == 404, path
            assert not answers
        finally:
            released.set()
            reader.join()
        assert answers == [answer(server, "screens/1/0")]
        assert answers[0][0] == 200


def test_a_file_that_two_pages_want_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, read = open_report(write_run(tmp_path / "live", iterations=1)), iterations.read
    begun, second, files = threading.Event(), threading.Event(), list[Path]()

    def slow(file: Path, number: int) -> iterations.Iteration:
        files.append(file)
        begun.set()
        assert second.wait(60)
        return read(file, number)

    monkeypatch.setattr(iterations, "read", slow)
    results: list[iterations.Iteration] = []
    readers = [threading.Thread(target=lambda: results.append(data.read(1))) for _ in range(2)]
    readers[0].start()
    assert begun.wait(60)
    readers[1].start()
    second.set()
    for reader in readers:
        reader.join()
    assert len(files) == 1
    assert results[0] is results[1]


def test_threads_hear_their_own_warnings_and_leave_the_rest_as_it_was() -> None:
    """Two blocks overlap, and the one that began first ends first."""
    inside, ended = threading.Event(), threading.Event()
    heard: dict[str, list[str]] = {}

    def first() -> None:
        with heard_warnings() as texts:
            warnings.warn("one", stacklevel=1)
            inside.set()
            assert ended.wait(60)
            warnings.warn("three", stacklevel=1)
        heard["first"] = texts

    before = warnings.showwarning, list(warnings.filters)
    thread = threading.Thread(target=first)
    thread.start()
    assert inside.wait(60)
    with heard_warnings() as texts:
        warnings.warn("two", stacklevel=1)
        with heard_warnings() as inner:
            warnings.warn("inner", stacklevel=1)
        warnings.warn("two", stacklevel=1)
    ended.set()
    thread.join()
    assert (texts, inner, heard["first"]) == (["two", "two"], ["inner"], ["one", "three"])
    assert (warnings.showwarning, list(warnings.filters)) == before

"""A service with several processes: answers, shutdown, processes that die, and a parent that is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from toys.waiting import gone

from turncredit.cli.main import app
from turncredit.processes import serving_workers
from turncredit.processes.serving import PortInUse, listen
from turncredit.processes.serving_workers import WorkersFailed, listen_for_workers, serve_with_workers

httpx = pytest.importorskip("httpx", reason="needs httpx")
for package in ("fastapi", "uvicorn"):
    pytest.importorskip(package, reason="needs the extra `serve`")

PATIENT = 120.0


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    rows = [("0", '"Tea"\nTea is a hot drink.'), ("1", '"Rye"\nRye is a grass.')]
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps({"id": id, "contents": text}) + "\n" for id, text in rows))
    return path


@contextmanager
def service(corpus: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command with two workers, and its URL."""
    line = [
        sys.executable,
        "-m",
        "turncredit.cli.main",
        "serve",
        "search",
        str(corpus),
        "--port",
        "0",
        "--workers",
        "2",
    ]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            where = next(word for line in process.stdout for word in line.split() if word.startswith("http://"))
            until(lambda: len(children(process.pid)) == 2)
            assert answers(where)  # it is announced when it can be reached
            yield process, where
        finally:
            process.kill()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENT
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def ask(where: str) -> str:
    """Ask over a new connection, which the kernel gives to any of the processes."""
    with httpx.Client(timeout=PATIENT, trust_env=False) as client:
        found = client.post(where, json={"queries": ["hot drink"], "topk": 1}).json()
    return str(found["result"][0][0]["title"])


def answers(where: str) -> bool:
    return ask(where) == "Tea"


pytestmark = [
    pytest.mark.waits,
    pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc"),
]


def test_both_processes_answer_and_end_with_ctrl_c(corpus: Path) -> None:
    with service(corpus) as (process, where):
        workers = children(process.pid)
        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(ask, [where] * 64)) == {"Tea"}
        health = where.replace("/retrieve", "/health")
        counts = {httpx.get(health, trust_env=False).json()["queries_answered"] for _ in range(64)}
        assert len(counts) == 2  # each counts its own
        assert sum(counts) >= 64
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENT)
        assert (process.returncode, "Traceback" in errors) == (0, False)
        assert all(map(gone, workers))


def test_a_process_that_dies_is_replaced_and_the_service_ends_with_sigterm(corpus: Path) -> None:
    with service(corpus) as (process, where):
        first, second = children(process.pid)
        os.kill(first, signal.SIGKILL)
        until(lambda: len(set(children(process.pid)) - {first, second}) == 1)
        assert all(answers(where) for _ in range(20))
        workers = children(process.pid)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=PATIENT)
        assert "died with exit code -9; another one takes its place" in " ".join(errors.split())
        assert process.returncode == 0
        assert all(map(gone, workers))


def test_no_process_outlives_a_parent_that_is_killed(corpus: Path) -> None:
    with service(corpus) as (process, _):
        workers = children(process.pid)
        process.kill()
        until(lambda: all(map(gone, workers)))


def test_processes_that_keep_dying_end_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving_workers, "_work", lambda *given: os._exit(3))
    said: list[str] = []
    with pytest.raises(WorkersFailed, match=r"6 workers died within a minute.*exit code 3"):
        serve_with_workers(None, listen_for_workers(2), report=said.append)  # type: ignore[arg-type]
    assert len(said) == 5
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_port_in_use_is_refused() -> None:
    with listen() as opened, pytest.raises(PortInUse, match="cannot listen"):
        listen_for_workers(2, "127.0.0.1", opened.getsockname()[1])


def test_workers_are_for_searching_words(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["serve", "search", str(corpus), "--index", "dense", "--workers", "2", "--port", "0"]
    assert app(arguments, standalone_mode=False) == 2
    assert "--workers needs the index bm25, got dense" in " ".join(capsys.readouterr().err.split())

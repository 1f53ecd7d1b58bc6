"""Requests a second of the search service, by number of clients and of workers.

`turncredit serve search --workers N` serves a generated corpus. A client is a thread with one connection that sends its
next request when the answer has come. The clients share the machine with the service, so that the gain from N workers
is less than N on N cores. All services run at once and are measured by turns, so that ratios compare within one run;
the best of the rounds counts.

    python benchmarks/retrieval_service.py [--documents 100000] [--queries 8] [--clients 1 32] [--workers 1 2]
"""

from __future__ import annotations

import argparse
import http.client
import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from urllib.parse import urlsplit

from retrieval import corpus, queries
from rich.console import Console
from rich.table import Table


@contextmanager
def service(file: Path, kept: Path, workers: int) -> Iterator[str]:
    """Yield the address of a service."""
    words = ["serve", "search", str(file), "--port", "0", "--keep", str(kept), "--workers", str(workers)]
    with subprocess.Popen(
        [sys.executable, "-m", "turncredit.cli.main", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            where = next(word for line in process.stdout for word in line.split() if word.startswith("http://"))
            yield urlsplit(where).netloc
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()


def rate(address: str, bodies: list[bytes], clients: int, seconds: float) -> float:
    """Return the requests that all clients together get answered in a second."""
    done = [0] * clients
    barrier = threading.Barrier(clients + 1)
    end = [float("inf")]

    def work(number: int) -> None:
        connection = http.client.HTTPConnection(address)
        connection.connect()
        barrier.wait()
        while time.perf_counter() < end[0]:
            body = bodies[(number + done[number]) % len(bodies)]
            connection.request("POST", "/retrieve", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            answer.read()
            done[number] += 1
        connection.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    start = time.perf_counter()
    end[0] = start + seconds
    barrier.wait()
    for thread in threads:
        thread.join()
    return sum(done) / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=8, help="queries of a request")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    texts = queries(400, asked.documents, 30)
    bodies = [
        json.dumps({"queries": texts[start : start + asked.queries], "topk": 3}).encode()
        for start in range(0, len(texts), asked.queries)
    ]
    table = Table("workers", *(f"{clients} clients, requests/s" for clients in asked.clients))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "corpus.jsonl"
        with file.open("w") as out:
            for name, text in corpus(asked.documents, 30):
                out.write(json.dumps({"id": name, "contents": f'"{name}"\n{text}'}) + "\n")
        best: dict[tuple[int, int], float] = {}
        with ExitStack() as stack:
            where = {
                workers: stack.enter_context(service(file, Path(folder) / "kept", workers)) for workers in asked.workers
            }
            for number in range(asked.rounds + 1):
                for workers, clients in product(asked.workers, asked.clients):
                    found = rate(where[workers], bodies, clients, asked.seconds)
                    if number:  # the first round reads what is read at the first time
                        best[workers, clients] = max(found, best.get((workers, clients), 0.0))
        for workers in asked.workers:
            table.add_row(str(workers), *(f"{best[workers, clients]:,.0f}" for clients in asked.clients))
    Console().print(table)


if __name__ == "__main__":
    main()

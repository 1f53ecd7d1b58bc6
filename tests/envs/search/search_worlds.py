"""Small files and retrievers that the tests of the search environment share."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

PASSAGES = [
    ("a", '"Red Lamp"\nRed Lamp is a novel by Ada Marsh.'),
    ("b", '"Ada Marsh"\nAda Marsh was born in Oakford.'),
    ("c", '"Blue Lamp"\nBlue Lamp is a novel by Ben Holt.'),
    ("d", '"Oakford"\nOakford lies on the river Ash.'),
]
QUESTIONS = [
    {"id": "q1", "question": "Who wrote Red Lamp", "golden_answers": ["Ada Marsh"], "gold_doc_ids": ["a"]},
    {
        "id": "q2",
        "question": "Where was the author of Red Lamp born?",
        "golden_answers": ["Oakford", "the town of Oakford"],
        "gold_doc_ids": ["a", "b"],
        "metadata": {"type": "bridge", "entities": ["Ada Marsh"]},
    },
]


def write_files(folder: Path) -> tuple[str, str]:
    """Write the questions and the passages; return their paths."""
    corpus, questions = folder / "corpus.jsonl", folder / "questions.jsonl"
    corpus.write_text("".join(json.dumps({"id": id, "contents": text}) + "\n" for id, text in PASSAGES))
    questions.write_text("".join(json.dumps(one) + "\n" for one in QUESTIONS))
    return str(questions), str(corpus)


@contextmanager
def service(status: int, body: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """A service with one answer to everything; gives its address and the list of what it is asked."""
    asked: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def real_data(name: str) -> Path:
    """Return a file of the real data, or skip."""
    folder = os.environ.get("TURNWISE_DATA")
    path = Path(folder or "", "search", name)
    if not folder or not path.exists():
        pytest.skip(f"TURNWISE_DATA has no search/{name}")
    return path

"""Small files that the tests of the search environment share."""

from __future__ import annotations

import json
import os
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


def real_data(name: str) -> Path:
    """Return a file of the real data, or skip."""
    folder = os.environ.get("TURNCREDIT_DATA")
    path = Path(folder or "", "search", name)
    if not folder or not path.exists():
        pytest.skip(f"TURNCREDIT_DATA has no search/{name}")
    return path

"""How fast texts are indexed and searched: documents a second, queries a second, memory, beside a plain loop.

Documents are drawn from a vocabulary whose frequencies fall as one over the rank, as those of a language do; queries
are pieces of documents. The plain loop scores the same postings with dictionaries, as a first attempt at BM25 would; it
runs in the same process on the same queries, and must find the same documents.

    python benchmarks/retrieval.py [--documents 100000] [--words 30] [--queries 200] [--k 50] [--json PATH]

Goals: a million short documents in 10 minutes and 4 GB; a median query under 20 ms, top 50.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from turnwise.tools.retrieval import BM25, analyse

PLAIN_QUERIES = 20
PLAIN_DOCUMENTS = 200_000  # of more, dictionaries would fill the memory
SPELLINGS = [first + second for first in "bdklmnr" for second in "aeiou"]


def spelling(rank: int) -> str:
    """Return the word of a rank: two syllables at least."""
    out = ""
    while rank or len(out) < 4:
        rank, last = divmod(rank, len(SPELLINGS))
        out += SPELLINGS[last]
    return out


def corpus(documents: int, words: int, seed: int = 0) -> Iterator[tuple[str, str]]:
    """Yield texts of about so many words; a word in thirty is new, as model numbers are."""
    random = np.random.default_rng(seed)
    vocabulary = [spelling(rank) for rank in range(60_000)]
    for start in range(0, documents, 1000):
        lengths = random.integers(words // 2, words * 3 // 2 + 1, min(1000, documents - start))
        for number, length in enumerate(lengths.tolist(), start):
            ranks = (len(vocabulary) ** random.random(length)).astype(int)
            said = [vocabulary[rank] for rank in ranks.tolist()]
            said[:: max(length, 1)] = [f"x{number}"] if length else []
            yield f"d{number:08}", " ".join(said)


def queries(number: int, documents: int, words: int) -> list[str]:
    """Return pieces of two to six words of the first documents."""
    random = np.random.default_rng(1)
    texts = [text.split() for _, text in corpus(min(documents, number), words)]
    sizes = random.integers(2, 7, number)
    return [" ".join(random.choice(texts[row % len(texts)], size)) for row, size in enumerate(sizes.tolist())]


class Plain:
    """BM25 by dictionaries, over all postings of each word of the query."""

    def __init__(self, documents: Iterator[tuple[str, str]]) -> None:
        self.having: dict[str, dict[str, int]] = {}
        self.sizes: dict[str, int] = {}
        for name, text in documents:
            words = analyse(text)
            self.sizes[name] = len(words)
            for word, count in Counter(words).items():
                self.having.setdefault(word, {})[name] = count
        self.mean = sum(self.sizes.values()) / len(self.sizes)

    def search(self, query: str, k: int) -> list[tuple[str, float]]:
        scores: dict[str, float] = {}
        for word, times in Counter(analyse(query)).items():
            having = self.having.get(word, {})
            idf = np.log(1 + (len(self.sizes) - len(having) + 0.5) / (len(having) + 0.5))
            for name, count in having.items():
                norm = 0.9 * (0.6 + 0.4 * self.sizes[name] / self.mean)
                scores[name] = scores.get(name, 0.0) + times * idf * count / (count + norm)
        return sorted(scores.items(), key=lambda hit: (-hit[1], hit[0]))[:k]


def memory() -> float:
    """Return the most memory that this process has had, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def timed(search: Any, asked: list[str], k: int) -> tuple[list[Any], np.ndarray[Any, Any]]:
    """Return the hits and the milliseconds of each query."""
    hits, took = [], []
    for query in asked:
        start = time.perf_counter()
        hits.append(search(query, k))
        took.append(1000 * (time.perf_counter() - start))
    return hits, np.array(took)


def measure(documents: int, words: int, number: int, k: int) -> dict[str, Any]:
    before, start = memory(), time.perf_counter()
    for _ in corpus(documents, words):
        pass
    making = time.perf_counter() - start
    start = time.perf_counter()
    index = BM25.build(corpus(documents, words))
    built = time.perf_counter() - start - making
    out = {"documents": documents, "build_seconds": built, "documents_per_second": documents / built}
    out |= {"memory_gb": memory(), "memory_before_gb": before}
    asked = queries(number, documents, words)
    with tempfile.TemporaryDirectory() as scratch:
        index.save(Path(scratch) / "index")
        out["disk_gb"] = sum(path.stat().st_size for path in (Path(scratch) / "index").iterdir()) / 1e9
        start = time.perf_counter()
        index = BM25.open(Path(scratch) / "index")
        out["open_ms"] = 1000 * (time.perf_counter() - start)
        timed(index.search, asked, k)
        hits, took = timed(index.search, asked, k)
    out |= {"median_ms": float(np.median(took)), "p99_ms": float(np.quantile(took, 0.99))}
    return out | {"queries_per_second": 1000 / took.mean()} | beside(hits, took, asked, documents, words, k)


def beside(
    hits: list[Any], took: np.ndarray[Any, Any], asked: list[str], documents: int, words: int, k: int
) -> dict[str, Any]:
    """Return the ratio to the plain loop on the first queries, and how many of its documents were found."""
    if documents > PLAIN_DOCUMENTS:
        return {}
    plain, plain_took = timed(Plain(corpus(documents, words)).search, asked[:PLAIN_QUERIES], k)
    same = [
        len({name for name, _ in a} & {name for name, _ in b}) / max(len(b), 1)
        for a, b in zip(hits, plain, strict=False)
    ]
    return {
        "plain_ms": float(plain_took.mean()),
        "ratio": plain_took.sum() / took[:PLAIN_QUERIES].sum(),
        "overlap": np.mean(same),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, default in (("documents", 100_000), ("words", 30), ("queries", 200), ("k", 50)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    asked = parser.parse_args()
    figures = measure(asked.documents, asked.words, asked.queries, asked.k)
    table = Table("figure", "value")
    for name, value in figures.items():
        table.add_row(name, f"{value:,.4g}" if isinstance(value, float) else f"{value:,}")
    Console().print(table)
    if asked.json:
        asked.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Speed and memory of indexing and searching texts, compared with other engines on the same texts.

Documents are drawn from a vocabulary with Zipfian frequencies; queries are fragments of documents. Each engine runs in
its own process on the same list of texts, which is part of its memory. The others are bm25s, rank_bm25 and tantivy,
each skipped with a message if it is not installed, and a plain loop over dictionaries, as a first attempt at BM25 would
be. Each analyses texts as its users would, with our stemmer and our k1 and b where that can be chosen. Results may
differ: tantivy fixes k1 = 1.2, b = 0.75 and its own stemmer, and rank_bm25's idf is negative for frequent words. Ratios
compare CPU time, which other programs on the machine hardly affect.

    python benchmarks/retrieval.py [--documents 10000 100000 ...] [--words 30] [--queries 200] [--k 50] [--json PATH]

Goals: a million short documents in 10 minutes and 4 GB; a median query below 20 ms for the top 50.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from rich.console import Console
from rich.table import Table

from turncredit.tools.retrieval import BM25, analyse
from turncredit.tools.retrieval.english import STOP_WORDS
from turncredit.tools.retrieval.porter import stem

SLOW_QUERIES = 20
SLOW_DOCUMENTS = 200_000  # of more, dictionaries would fill the memory
K1, B = 0.9, 0.4
SPELLINGS = [first + second for first in "bdklmnr" for second in "aeiou"]

Hits = list[tuple[str, float]]
Texts = list[tuple[str, str]]


def spelling(rank: int) -> str:
    """Return the word of a rank: two syllables at least."""
    out = ""
    while rank or len(out) < 4:
        rank, last = divmod(rank, len(SPELLINGS))
        out += SPELLINGS[last]
    return out


def corpus(documents: int, words: int, seed: int = 0) -> Iterator[tuple[str, str]]:
    """Yield texts of about the given number of words; one word in thirty is new, like a model number."""
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


class Engine(Protocol):
    """What finds documents by words."""

    def __init__(self, texts: Texts) -> None: ...
    def search(self, query: str, k: int) -> Hits: ...


class Ours:
    """Our index, saved and opened again, as an environment uses it."""

    def __init__(self, texts: Texts) -> None:
        self.index = BM25.build(texts, k1=K1, b=B)
        self.search = self.index.search

    def reopened(self) -> dict[str, float]:
        """Switch to the memory-mapped files; return their size in GB and the milliseconds of opening."""
        self.scratch = tempfile.TemporaryDirectory()
        folder = Path(self.scratch.name) / "index"
        self.index.save(folder)
        start = time.perf_counter()
        self.search = BM25.open(folder).search
        took = 1000 * (time.perf_counter() - start)
        return {"disk_gb": sum(path.stat().st_size for path in folder.iterdir()) / 1e9, "open_ms": took}


class Plain:
    """BM25 by dictionaries, over all postings of each word of the query."""

    def __init__(self, texts: Texts) -> None:
        self.having: dict[str, dict[str, int]] = {}
        self.sizes: dict[str, int] = {}
        for name, text in texts:
            words = analyse(text)
            self.sizes[name] = len(words)
            for word, count in Counter(words).items():
                self.having.setdefault(word, {})[name] = count
        self.mean = sum(self.sizes.values()) / len(self.sizes)

    def search(self, query: str, k: int) -> Hits:
        scores: dict[str, float] = {}
        for word, times in Counter(analyse(query)).items():
            having = self.having.get(word, {})
            idf = np.log(1 + (len(self.sizes) - len(having) + 0.5) / (len(having) + 0.5))
            for name, count in having.items():
                norm = K1 * (1 - B + B * self.sizes[name] / self.mean)
                scores[name] = scores.get(name, 0.0) + times * idf * count / (count + norm)
        return sorted(scores.items(), key=lambda hit: (-hit[1], hit[0]))[:k]


class Bm25s:
    """bm25s: scores of every word and document worked out while indexing, in a sparse matrix."""

    def __init__(self, texts: Texts) -> None:
        bm25s = import_module("bm25s")

        self.names, self.tokenize = [name for name, _ in texts], bm25s.tokenize
        self.index = bm25s.BM25(method="lucene", k1=K1, b=B)
        self.index.index(self._tokens([text for _, text in texts]), show_progress=False)

    def _tokens(self, texts: list[str]) -> Any:
        def stems(words: list[str]) -> list[str]:
            return [stem(word) for word in words]

        return self.tokenize(texts, stopwords=sorted(STOP_WORDS), stemmer=stems, show_progress=False)

    def search(self, query: str, k: int) -> Hits:
        k = min(k, len(self.names))
        rows, scores = self.index.retrieve(self._tokens([query]), k=k, show_progress=False)
        return [(self.names[row], float(score)) for row, score in zip(rows[0], scores[0], strict=True) if score > 0]


class RankBm25:
    """rank_bm25: a dictionary of counts for every document; every query reads all of them."""

    def __init__(self, texts: Texts) -> None:
        self.names = [name for name, _ in texts]
        okapi = import_module("rank_bm25").BM25Okapi
        self.index = okapi([analyse(text) for _, text in texts], k1=K1, b=B)

    def search(self, query: str, k: int) -> Hits:
        scores = self.index.get_scores(analyse(query))
        best = np.argsort(-scores, kind="stable")[:k]
        return [(self.names[row], float(scores[row])) for row in best if scores[row] > 0]


class Tantivy:
    """tantivy: a search engine in Rust with an index on disk; one thread writes."""

    def __init__(self, texts: Texts) -> None:
        tantivy = import_module("tantivy")

        fields = tantivy.SchemaBuilder()
        fields.add_text_field("name", stored=True, tokenizer_name="raw")
        fields.add_text_field("text", tokenizer_name="en_stem", index_option="freq")
        self.scratch = tempfile.TemporaryDirectory()
        self.index = tantivy.Index(fields.build(), path=self.scratch.name)
        writer = self.index.writer(num_threads=1)
        for name, text in texts:
            writer.add_document(tantivy.Document(name=name, text=text))
        writer.commit()
        writer.wait_merging_threads()
        self.index.reload()
        self.searcher = self.index.searcher()

    def search(self, query: str, k: int) -> Hits:
        found = self.searcher.search(self.index.parse_query(query, ["text"]), k).hits
        return [(self.searcher.doc(place)["name"][0], score) for score, place in found]


ENGINES: dict[str, type[Engine]] = {
    "turncredit": Ours,
    "bm25s": Bm25s,
    "tantivy": Tantivy,
    "rank_bm25": RankBm25,
    "plain": Plain,
}
SLOW = ("rank_bm25", "plain")


def memory() -> float:
    """Return the peak memory of this process in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def timed(engine: Engine, asked: list[str], k: int) -> tuple[list[list[str]], list[tuple[float, float]]]:
    """Return the ids that each query finds, and its milliseconds of wall time and CPU time."""
    found, took = [], []
    for query in asked:
        start, cpu = time.perf_counter(), time.process_time()
        hits = engine.search(query, k)
        took.append((1000 * (time.perf_counter() - start), 1000 * (time.process_time() - cpu)))
        found.append([name for name, _ in hits])
    return found, took


def measure(
    name: str, documents: int, words: int, asked: list[str], k: int
) -> tuple[dict[str, float], list[list[str]]]:
    """Return the figures of one engine, and the ids that each query finds."""
    texts = list(corpus(documents, words))
    before, start, cpu = memory(), time.perf_counter(), time.process_time()
    engine = ENGINES[name](texts)
    built, cpu = time.perf_counter() - start, time.process_time() - cpu
    figures = {"build_seconds": built, "build_cpu_seconds": cpu, "documents_per_second": documents / built}
    figures |= {"memory_gb": memory(), "texts_gb": before}
    if isinstance(engine, Ours):
        figures |= engine.reopened()
    if name in SLOW:
        asked = asked[:SLOW_QUERIES]
    timed(engine, asked, k)  # once for what is read or remembered at the first time
    found, took = timed(engine, asked, k)
    clock, used = np.array(took).T
    figures |= {"median_ms": float(np.median(clock)), "p99_ms": float(np.quantile(clock, 0.99))}
    return figures | {"median_cpu_ms": float(np.median(used)), "mean_cpu_ms": float(np.mean(used))}, found


def overlap(ours: list[list[str]], theirs: list[list[str]], k: int) -> float:
    """Return the mean share of their first k documents that are among our first k."""
    pairs = zip(ours, theirs, strict=False)
    return float(np.mean([len(set(a[:k]) & set(b[:k])) / max(len(b[:k]), 1) for a, b in pairs]))


def compare(documents: int, words: int, number: int, k: int, names: list[str]) -> dict[str, dict[str, float]]:
    """Return the figures of every engine at one size; ratios above 1 mean that ours is faster."""
    asked = queries(number, documents, words)
    out: dict[str, dict[str, float]] = {}
    found: dict[str, list[list[str]]] = {}
    for name in names:
        if name in SLOW and documents > SLOW_DOCUMENTS:
            continue
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:  # so that memory is its own
            out[name], found[name] = alone.submit(measure, name, documents, words, asked, k).result()
        if name != "turncredit":
            ours = out["turncredit"]
            out[name] |= {f"overlap_at_{size}": overlap(found["turncredit"], found[name], size) for size in (10, k)}
            out[name]["build_ratio"] = out[name]["build_cpu_seconds"] / ours["build_cpu_seconds"]
            out[name]["query_ratio"] = out[name]["median_cpu_ms"] / ours["median_cpu_ms"]
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--documents", type=int, nargs="+", default=[100_000], help="one size or several")
    for name, default in (("words", 30), ("queries", 200), ("k", 50)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--engines", nargs="+", default=list(ENGINES), choices=list(ENGINES), help="beside turncredit")
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    asked = parser.parse_args()
    names = ["turncredit"]
    for name in asked.engines:
        if name not in ("turncredit", "plain") and find_spec(name) is None:
            Console().print(f"{name} is left out: it is not installed (pip install {name}).")
        elif name != "turncredit":
            names.append(name)
    figures = {}
    for documents in asked.documents:
        figures[documents] = here = compare(documents, asked.words, asked.queries, asked.k, names)
        table = Table(f"{documents:,} documents", *here)
        for row in dict.fromkeys(row for column in here.values() for row in column):
            table.add_row(row, *(f"{column[row]:,.3g}" if row in column else "" for column in here.values()))
        Console().print(table)
        if asked.json:
            asked.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

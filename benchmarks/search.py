"""Retrieval quality on question sets: how often the gold passages are found, and an upper bound of the reward.

    python benchmarks/search.py FOLDER [--sets NAME ...] [--index bm25 dense hybrid] [--k 3 10] [--keep PATH]
                                [--model PATH] [--threads N] [--json PATH]

FOLDER holds `corpus.jsonl` and, for each set, `NAME.jsonl`: questions in FlashRAG's format with `gold_doc_ids`. It
reports for each set, with 95 % intervals:

- recall@k: the mean share of a question's gold passages among the first k. With one gold passage per question it is a
  rate with Wilson's interval; with several (HotpotQA: two) it is the mean plus and minus 1.96 standard errors, or
  Wilson's interval where all questions have the same share.
- all@k: the share of questions with all gold passages among the first k, with Wilson's interval.
- oracle: the share of questions whose answer can be copied from the gold passages, with Wilson's interval: an upper
  bound for agents that copy. An oracle answers with the first golden answer whose words occur consecutively in the gold
  passages (titles and texts, normalised as by `turncredit.envs.search`), and with nothing otherwise; exact match judges
  it. "inside words" also counts answers within longer words. Yes-or-no questions are counted separately, since no
  passage needs to contain the answer.

Indexes are built once and kept in the folder given with --keep.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from turncredit.envs.search.questions import Question, load_questions
from turncredit.envs.search.rewards import exact_match, normalise
from turncredit.evaluation.statistics import wilson
from turncredit.tools.retrieval import Hits, Passages, Retriever, SentenceModel, open_library, packaged_model
from turncredit.tools.retrieval.hybrid import fuse

SETS = ("nq_oracle", "hotpot_distractor100", "squad2_dev", "xquad_en")
INDEXES = ("bm25", "dense", "hybrid")
DEPTH = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--index", nargs="+", default=INDEXES, choices=INDEXES)
    parser.add_argument("--k", nargs="+", type=int, default=(3, 10))
    parser.add_argument("--keep", type=Path, help="folder for indexes")
    parser.add_argument("--model", type=Path, help="folder of a sentence encoder")
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()

    passages = Passages.open(asked.folder / "corpus.jsonl")
    retrievers = made(passages, asked)
    report: dict[str, Any] = {"passages": len(passages), "sets": {}}
    for name in asked.sets:
        questions, _ = load_questions(asked.folder / f"{name}.jsonl")
        report["sets"][name] = measured(questions, passages, retrievers, asked)
        print(name, "done", flush=True)
    show(report, asked.k)
    if asked.json:
        asked.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def made(passages: Passages, asked: argparse.Namespace) -> dict[str, Retriever]:
    """Return the retrievers by name; a hybrid is made of the lists of both."""
    model = None
    if set(asked.index) != {"bm25"}:
        model = packaged_model() if asked.model is None else SentenceModel(asked.model)
        limit_threads(asked.threads)
    needed = [name for name in ("bm25", "dense") if name in asked.index or "hybrid" in asked.index]
    return {
        name: open_library(passages, name, keep=asked.keep, model=model, progress=print).retriever for name in needed
    }


def limit_threads(number: int) -> None:
    """Set the number of threads of torch."""
    import torch

    torch.set_num_threads(number)


def measured(
    questions: Sequence[Question], passages: Passages, retrievers: dict[str, Retriever], asked: argparse.Namespace
) -> dict[str, Any]:
    """Return the figures of a set."""
    questions = [question for question in questions if question.gold]
    report: dict[str, Any] = {
        "n": len(questions),
        "gold passages a question": sum(len(question.gold) for question in questions) / max(len(questions), 1),
        "questions with unknown passages": sum(any(id not in passages for id in one.gold) for one in questions),
        "oracle": oracle(questions, passages),
    }
    lists, seconds = found(questions, retrievers, max(DEPTH, *asked.k))
    for name in asked.index:
        report[name] = {f"recall@{k}": recall(questions, lists[name], k) for k in asked.k}
        report[name] |= {f"all@{k}": complete(questions, lists[name], k) for k in asked.k}
        report[name]["questions a second"] = len(questions) / seconds[name]
    return report


def found(
    questions: Sequence[Question], retrievers: dict[str, Retriever], depth: int
) -> tuple[dict[str, list[Hits]], dict[str, float]]:
    """Return what each retriever finds, and in how many seconds; the hybrid fuses the lists of the others."""
    lists: dict[str, list[Hits]] = {}
    seconds: dict[str, float] = {}
    for name, retriever in retrievers.items():
        start = time.perf_counter()
        lists[name] = retriever.search_batch([question.text for question in questions], depth)
        seconds[name] = time.perf_counter() - start
    if len(lists) > 1:
        lists["hybrid"] = [fuse(both, [1.0] * len(both)) for both in zip(*lists.values(), strict=True)]
        seconds["hybrid"] = sum(seconds.values())
    return lists, seconds


def recall(questions: Sequence[Question], found: Sequence[Sequence[tuple[str, float]]], k: int) -> list[float]:
    """Return the mean share of gold passages among the first k, and its interval."""
    shares = []
    for question, hits in zip(questions, found, strict=True):
        first = {id for id, _ in hits[:k]}
        shares.append(len(first & set(question.gold)) / len(set(question.gold)))
    if set(shares) <= {0.0, 1.0} or len(set(shares)) == 1:
        return rate(sum(shares), len(shares))
    mean, error = float(np.mean(shares)), float(np.std(shares, ddof=1)) / sqrt(len(shares))
    return [mean, max(0.0, mean - 1.96 * error), min(1.0, mean + 1.96 * error)]


def complete(questions: Sequence[Question], found: Sequence[Sequence[tuple[str, float]]], k: int) -> list[float]:
    """Return the share of questions all of whose gold passages are among the first k, and its interval."""
    good = sum(
        set(question.gold) <= {id for id, _ in hits[:k]} for question, hits in zip(questions, found, strict=True)
    )
    return rate(good, len(questions))


def oracle(questions: Sequence[Question], passages: Passages) -> dict[str, Any]:
    """Return how often an answer can be copied from the gold passages."""
    words, letters, closed = 0, 0, 0
    for question in questions:
        read = normalise(" ".join(passages[id].contents for id in question.gold if id in passages))
        words += exact_match(first_within(question.answers, f" {read} ", " "), question.answers)
        letters += exact_match(first_within(question.answers, read, ""), question.answers)
        closed += {normalise(answer) for answer in question.answers} <= {"yes", "no"}
    n = len(questions)
    return {"exact match": rate(words, n), "inside words": rate(letters, n), "yes or no": closed}


def first_within(answers: Sequence[str], read: str, edge: str) -> str | None:
    """Return the first answer that occurs in a normalised text, between edges."""
    normal = ((answer, normalise(answer)) for answer in answers)
    return next((answer for answer, said in normal if said and f"{edge}{said}{edge}" in read), None)


def rate(good: float, n: int) -> list[float]:
    """Return a share with its interval."""
    return [good / max(n, 1), *wilson(good, max(n, 1))]


def said(share: Sequence[float]) -> str:
    """Return a share in per cent."""
    return f"{100 * share[0]:.1f} [{100 * share[1]:.1f}, {100 * share[2]:.1f}]"


def show(report: dict[str, Any], ks: Sequence[int]) -> None:
    """Print the table."""
    names = [*(f"recall@{k}" for k in ks), *(f"all@{k}" for k in ks)]
    table = Table(title=f"{report['passages']:,} passages; per cent with 95 % intervals")
    for name in ("set", "n", "retriever", *names, "questions/s"):
        table.add_column(name)
    for name, figures in report["sets"].items():
        best = figures["oracle"]
        both = f"exact match {said(best['exact match'])}", f"inside words {said(best['inside words'])}"
        table.add_row(name, f"{figures['n']:,}", "oracle", *both)
        for index in INDEXES:
            if index in figures:
                row = figures[index]
                speed = f"{row['questions a second']:.0f}"
                table.add_row("", "", index, *(said(row[column]) for column in names), speed)
    Console(width=180).print(table)


if __name__ == "__main__":
    main()

"""BM25: hand-computed scores, properties, a plain implementation, Lucene's rankings, and invalid input."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from shop_texts import contents

from turncredit.tools.retrieval import BM25, BadCorpus, BadQuery, analyse, bm25, postings
from turncredit.tools.retrieval.postings import LENGTHS, quantised

VOCABULARY = ["red", "blue", "shoe", "hat", "laces", "sock", "™", "2", "the"]
texts = st.lists(st.sampled_from(VOCABULARY), max_size=60).map(" ".join)
corpora = st.lists(texts, min_size=1, max_size=12)
options = st.fixed_dictionaries({"k1": st.floats(0, 3), "b": st.floats(0, 1)})


def numbered(corpus: list[str]) -> list[tuple[str, str]]:
    return [(f"d{number:03}", text) for number, text in enumerate(corpus)]


def shortened(length: int) -> int:
    """The length without what a byte cannot say: exact below 40, then 24 and a number of four significant bits."""
    shift = max((length - 24).bit_length() - 4, 0) if length >= 24 else 0
    return length if not shift else 24 + ((length - 24) >> shift << shift)


def plainly(corpus: list[tuple[str, str]], query: str, k1: float = 0.9, b: float = 0.4) -> dict[str, float]:
    """Scores of all documents that have a word of the query, by the formula, with dictionaries and doubles."""
    words = {name: Counter(analyse(text)) for name, text in corpus}
    sizes = {name: sum(counts.values()) for name, counts in words.items()}
    filled = sum(size > 0 for size in sizes.values())
    mean = sum(sizes.values()) / max(filled, 1)
    scores: dict[str, float] = {}
    for word, times in Counter(analyse(query)).items():
        having = [name for name in words if words[name][word]]
        idf = math.log(1 + (filled - len(having) + 0.5) / (len(having) + 0.5))
        for name in having:
            norm = k1 * (1 - b + b * shortened(sizes[name]) / mean)
            scores[name] = scores.get(name, 0.0) + times * idf * words[name][word] / (words[name][word] + norm)
    return scores


def test_numbers_by_hand() -> None:
    # N = 3, mean length 2; "shoe" is in two documents: idf = ln(1 + 1.5 / 2.5) = ln 1.6; K = 0.9 (0.6 + 0.2 length).
    index = BM25.build([("a", "shoe shoe"), ("b", "red shoe lace"), ("c", "hat")])
    shoe, red = math.log(1.6), math.log(1 + 2.5 / 1.5)
    assert index.search("shoe") == [
        ("a", pytest.approx(shoe * 2 / (2 + 0.9), abs=1e-6)),
        ("b", pytest.approx(shoe * 1 / (1 + 0.9 * 1.2), abs=1e-6)),
    ]
    assert index.search("shoes red, red", k=1) == [("b", pytest.approx((shoe + 2 * red) / (1 + 0.9 * 1.2), abs=1e-6))]
    assert index.search("hat")[0][1] == pytest.approx(red / (1 + 0.9 * 0.8), abs=1e-6)
    assert BM25.build([("a", "x"), ("b", "x y")], k1=0.0).search("x") == [
        ("a", pytest.approx(math.log(1.2), abs=1e-6)),
        ("b", pytest.approx(math.log(1.2), abs=1e-6)),
    ]


def test_documents_without_words_do_not_count() -> None:
    some = [("a", "shoe"), ("b", "red shoe")]
    assert BM25.build([*some, ("c", ""), ("d", "the of")]).search("red shoe") == BM25.build(some).search("red shoe")


def test_lengths_are_rounded_to_one_byte() -> None:
    lengths = np.arange(5000)
    assert LENGTHS[quantised(lengths)].tolist() == [shortened(length) for length in range(5000)]
    assert [shortened(length) for length in (39, 40, 41, 42, 55, 56, 59, 60)] == [39, 40, 40, 42, 54, 56, 56, 60]
    assert len(set(LENGTHS.tolist())) == 256
    assert quantised(np.array([2**31 - 1])).tolist() == [255]


def test_ties() -> None:
    corpus = [("b", "shoe"), ("c", "red shoe"), ("a", "shoe"), ("aa", "shoe"), ("B", "shoe")]
    assert [name for name, _ in BM25.build(corpus).search("shoe")] == ["B", "a", "aa", "b", "c"]
    by_place = BM25.build(corpus, ties="document")
    assert [name for name, _ in by_place.search("shoe")] == ["b", "a", "aa", "B", "c"]
    assert [name for name, _ in by_place.search("shoe", k=2)] == ["b", "a"]


def test_nothing_is_found_by_words_that_no_document_has() -> None:
    index = BM25.build([("a", "shoe"), ("b", "")])
    for query in ("", "   ", "hat", "the", "?!", "\ud800", "\0"):
        assert index.search(query) == []
    assert BM25.build([("a", ""), ("b", "the of")]).search("shoe") == []


@settings(deadline=None, max_examples=150)
@given(corpora, texts, options, st.integers(1, 15))
def test_scores_match_a_plain_implementation(corpus: list[str], query: str, options: dict[str, float], k: int) -> None:
    documents = numbered(corpus)
    found, wanted = BM25.build(documents, **options).search(query, k), plainly(documents, query, **options)  # type: ignore[arg-type]
    assert len(found) == min(k, len(wanted)) == len({name for name, _ in found})
    assert [score for _, score in found] == pytest.approx(sorted(wanted.values(), reverse=True)[:k], abs=1e-5, rel=1e-5)
    assert [score for _, score in found] == pytest.approx([wanted[name] for name, _ in found], abs=1e-5, rel=1e-5)
    assert found == sorted(found, key=lambda hit: (-hit[1], hit[0]))


@settings(deadline=None, max_examples=60)
@given(corpora, texts, st.integers(1, 5), st.integers(1, 30))
def test_the_size_of_blocks_changes_nothing(corpus: list[str], query: str, k: int, block: int) -> None:
    whole, before = BM25.build(numbered(corpus)).search(query, k), postings.BLOCK
    postings.BLOCK = block
    try:
        assert BM25.build(numbered(corpus)).search(query, k) == whole
    finally:
        postings.BLOCK = before


@settings(deadline=None, max_examples=60)
@given(corpora, texts, st.sampled_from(["", "the", "?"]))
def test_a_document_without_words_changes_nothing(corpus: list[str], query: str, empty: str) -> None:
    documents = numbered(corpus)
    assert BM25.build([*documents, ("z", empty)]).search(query, 99) == BM25.build(documents).search(query, 99)


@settings(deadline=None, max_examples=60)
@given(corpora, st.sampled_from(VOCABULARY[:-1]), st.integers(1, 50))
def test_a_document_without_the_word_leaves_the_order_where_length_does_not_count(
    corpus: list[str], word: str, length: int
) -> None:
    # With b > 0 or several words it would not hold: the mean length and the weights of words against each other move.
    documents = numbered(corpus)
    with_more = BM25.build([*documents, ("z", "zebra " * length)], b=0.0).search(word, 99)
    assert [name for name, _ in with_more] == [name for name, _ in BM25.build(documents, b=0.0).search(word, 99)]


@settings(deadline=None, max_examples=60)
@given(corpora, st.sampled_from(VOCABULARY[:-1]), st.integers(1, 50))
def test_a_document_without_the_word_leaves_the_order_of_equal_counts(
    corpus: list[str], word: str, length: int
) -> None:
    documents = [(name, text) for name, text in numbered(corpus) if analyse(text).count(analyse(word)[0]) == 1]
    assume(documents)
    with_more = BM25.build([*documents, ("z", "zebra " * length)]).search(word, 99)
    assert [name for name, _ in with_more] == [name for name, _ in BM25.build(documents).search(word, 99)]


@settings(deadline=None, max_examples=60)
@given(corpora, texts, st.randoms(use_true_random=False))
def test_the_order_of_documents_and_words_does_not_matter(corpus: list[str], query: str, random: Any) -> None:
    documents, words = numbered(corpus), query.split()
    wanted = BM25.build(documents).search(query, 99)
    random.shuffle(documents)
    random.shuffle(words)
    assert BM25.build(documents).search(" ".join(words), 99) == wanted


@settings(deadline=None, max_examples=60)
@given(corpora, st.lists(texts, max_size=5), st.integers(1, 12))
def test_batches_and_smaller_k_agree_with_single_searches(corpus: list[str], queries: list[str], k: int) -> None:
    index = BM25.build(numbered(corpus))
    hits = index.search_batch(queries, k)
    assert hits == [index.search(query, k) for query in queries] == [index.search(query, 99)[:k] for query in queries]


@pytest.mark.parametrize("ties", ["id", "document"])
def test_skipping_documents_with_only_common_words_changes_nothing(monkeypatch: pytest.MonkeyPatch, ties: Any) -> None:
    dice, left_out = random.Random(0), 0
    words = [f"w{number}" for number in range(60)]
    shares = [1 / (number + 1) for number in range(60)]
    documents = [(f"d{row:04}", " ".join(dice.choices(words, shares, k=dice.randint(1, 9)))) for row in range(2000)]
    index, plain = BM25.build(documents, ties=ties), BM25.build(documents, ties=ties)

    def counted(*args: Any) -> Any:
        nonlocal left_out
        left_out += (found := candidates(*args)) is not None
        return found

    candidates = bm25._candidates
    for _ in range(200):
        query = " ".join(dice.choices(words, k=dice.randint(1, 6)))
        monkeypatch.setattr(bm25, "_candidates", lambda *args: None)
        wanted = plain.search(query, 2000)
        monkeypatch.setattr(bm25, "_candidates", counted)
        for k in (1, 10, 50):
            assert index.search(query, k) == wanted[:k]
    assert left_out > 20


@settings(deadline=None, max_examples=60)
@given(st.lists(st.text(max_size=40), min_size=1, max_size=6), st.text(max_size=40))
def test_any_text_can_be_indexed_and_searched(corpus: list[str], query: str) -> None:
    documents = numbered(corpus)
    index = BM25.build(documents)
    assert len(index) == len(documents)
    assert {name for name, _ in index.search(query, 99)} == set(plainly(documents, query))
    for name, text in documents:
        assert bool(analyse(text)) == (name in {hit for hit, _ in index.search(text, 99)})


def test_extreme_options_lose_no_match() -> None:
    documents = [("a", "shoe " * 3), ("b", "shoe hat"), ("c", "hat")]
    for k1 in (0.0, 1e30, 1e300):
        assert {name for name, _ in BM25.build(documents, k1=k1, b=1.0).search("shoe")} == {"a", "b"}


def test_few_matches_among_many_documents() -> None:
    documents = [(f"{number:05}", f"word{number % 700} common{number % 2}") for number in range(5000)]
    index = BM25.build(documents)
    rare, common = index.search("word3", 50), index.search("common1 word3", 50)
    assert [name for name, _ in rare] == [f"{number:05}" for number in range(3, 5000, 700)]
    assert [name for name, _ in common[:4]] == ["00003", "00703", "01403", "02103"]
    assert len(common) == 50


def test_words_with_many_occurrences() -> None:
    index = BM25.build([("a", "shoe " * 300), ("b", "shoe " * 70_000), ("c", "hat")], b=0.0)
    (first, most), (second, much) = index.search("shoe")
    idf = math.log(1.6)
    assert (first, second) == ("b", "a")
    assert (most, much) == (
        pytest.approx(idf * 70_000 / 70_000.9, abs=1e-6),
        pytest.approx(idf * 300 / 300.9, abs=1e-6),
    )


def test_documents_are_read_once_one_by_one() -> None:
    taken = 0

    def stream() -> Iterator[tuple[str, str]]:
        nonlocal taken
        for number in range(10):
            taken += 1
            yield f"d{number}", "shoe"

    assert len(BM25.build(stream())) == taken == 10


@pytest.mark.parametrize(
    ("documents", "sentence"),
    [
        ([], "at least one document"),
        (iter(()), "at least one document"),
        ([("a", "x"), ("b", "y"), ("a", "z")], "documents\\[2\\] has the id 'a'"),
        ([("a", b"x")], "the text of documents\\[0\\] must be a str, got bytes"),
        ([("a", "x"), ("b", None)], "the text of documents\\[1\\] must be a str, got NoneType"),
        ([(1, "x")], "the id of documents\\[0\\] must be a str, got int"),
        (["ab"], "must be a pair"),
        ([("a", "b", "c")], "must be a pair"),
        ({"a": "text"}, "must be a pair"),
        ("text", "documents must be an iterable of pairs"),
        (b"text", "documents must be an iterable of pairs"),
        (None, "documents must be an iterable of pairs"),
    ],
)
def test_bad_documents_are_refused(documents: Any, sentence: str) -> None:
    with pytest.raises(BadCorpus, match=sentence):
        BM25.build(documents)


@pytest.mark.parametrize("k", [0, -1, 1.5, "3", None, True, math.nan])
def test_a_bad_number_of_results_is_refused(k: Any) -> None:
    with pytest.raises(BadQuery, match="integer >= 1"):
        BM25.build([("a", "x")]).search("x", k)


@pytest.mark.parametrize("query", [b"x", None, 3, ["x"]])
def test_a_bad_query_is_refused(query: Any) -> None:
    with pytest.raises(BadQuery, match=f"query must be a str, got {type(query).__name__}"):
        BM25.build([("a", "x")]).search(query)


@pytest.mark.parametrize("queries", ["x", b"x", None, 3])
def test_invalid_batches_are_refused(queries: Any) -> None:
    with pytest.raises(BadQuery, match=f"list of str, got {type(queries).__name__}"):
        BM25.build([("a", "x")]).search_batch(queries)


def test_threads_share_an_index() -> None:
    index = BM25.build((f"{number:04}", f"word{number % 50} common") for number in range(2000))
    asked = [f"common word{number % 50}" for number in range(200)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(index.search, asked)) == index.search_batch(asked)


@pytest.mark.parametrize(
    "options",
    [
        {"k1": -1},
        {"k1": math.nan},
        {"k1": math.inf},
        {"k1": "1"},
        {"b": 1.1},
        {"b": -0.1},
        {"b": True},
        {"ties": "best"},
    ],
)
def test_bad_options_are_refused_before_anything_is_read(options: Any) -> None:
    with pytest.raises(BadQuery, match=rf"({next(iter(options))} must be|unknown ties)"):
        BM25.build(iter([pytest.fail] * 3), **options)  # type: ignore[arg-type]


def test_a_query_of_a_megabyte() -> None:
    index = BM25.build([("a", "shoe"), ("b", "hat")])
    assert index.search("a.b_c'" * 170_000 + " shoe")[0][0] == "a"


def test_rankings_match_lucene(data_dir: Path) -> None:
    items = json.loads((data_dir / "webshop/items_shuffle_1000.reconstructed.json").read_text(encoding="utf-8"))
    rankings = json.loads((data_dir / "webshop/bm25_rankings.json").read_text(encoding="utf-8"))
    index = BM25.build((item["asin"], contents(item)) for item in items)
    assert len(rankings) == 150
    for ranking, hits in zip(rankings, index.search_batch([one["query"] for one in rankings], 50), strict=True):
        assert [name for name, _ in hits] == [name for name, _ in ranking["hits"]]  # all of the top 50, not ten
        assert [score for _, score in hits] == pytest.approx([score for _, score in ranking["hits"]], abs=6e-5)

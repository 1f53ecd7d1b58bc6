"""Reciprocal rank fusion: hand-computed scores, properties, and libraries by the name of their index."""

from __future__ import annotations

from pathlib import Path

import pytest
from bag_of_words import encode
from hypothesis import given
from hypothesis import strategies as st

from turncredit.tools.retrieval import BM25, BadIndex, BadQuery, Dense, Hits, Hybrid, Passages, Retriever, open_library

DOCUMENTS = [("tea", "a hot drink of leaves"), ("rye", "a grass with ears"), ("ale", "a cold drink"), ("mug", "a cup")]


class Fixed:
    """A retriever that always finds the same, and remembers what it was asked for."""

    def __init__(self, *ids: str) -> None:
        self.ids, self.asked = ids, list[int]()

    def search(self, query: str, k: int = 10) -> Hits:
        return self.search_batch([query], k)[0]

    def search_batch(self, queries: object, k: int = 10) -> list[Hits]:
        self.asked.append(k)
        return [[(id, -float(rank)) for rank, id in enumerate(self.ids[:k])] for _ in queries]  # type: ignore[attr-defined]


def test_a_table_by_hand() -> None:
    # constant 60: a is 1st and 3rd, b 2nd and 1st, c 3rd alone, d 2nd alone.
    found = Hybrid([Fixed("a", "b", "c"), Fixed("b", "d", "a")]).search("x")
    assert found == [
        ("b", pytest.approx(1 / 62 + 1 / 61)),
        ("a", pytest.approx(1 / 61 + 1 / 63)),
        ("d", pytest.approx(1 / 62)),
        ("c", pytest.approx(1 / 63)),
    ]
    weighted = Hybrid([Fixed("a"), Fixed("b")], weights=[1, 2], constant=0).search("x")
    assert weighted == [("b", 2.0), ("a", 1.0)]
    assert Hybrid([Fixed("b"), Fixed("a")]).search("x", 1) == [("a", pytest.approx(1 / 61))]  # a tie


ids = st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=8)


@given(ids, st.integers(1, 9))
def test_one_retriever_alone_keeps_its_order(first: list[str], k: int) -> None:
    assert [id for id, _ in Hybrid([Fixed(*first)]).search("x", k)] == first[:k]
    assert [id for id, _ in Hybrid([Fixed(*first), Fixed(*first)]).search("x", k)] == first[:k]


@given(ids, ids, st.integers(1, 9))
def test_the_order_of_retrievers_changes_nothing(first: list[str], second: list[str], k: int) -> None:
    one, other = Hybrid([Fixed(*first), Fixed(*second)]), Hybrid([Fixed(*second), Fixed(*first)])
    assert one.search("x", k) == other.search("x", k)
    assert len(one.search("x", 20)) == len({*first, *second})


def test_it_is_a_retriever_over_real_ones() -> None:
    hybrid = Hybrid([BM25.build(DOCUMENTS), Dense.build(DOCUMENTS, encode)])
    assert isinstance(hybrid, Retriever)
    assert hybrid.search("cold drink", 1)[0][0] == "ale"
    assert hybrid.search_batch(["cold drink", ""], 2) == [hybrid.search("cold drink", 2), []]


def test_retrievers_are_asked_for_depth_or_k() -> None:
    source = Fixed("a")
    hybrid = Hybrid([source], depth=50)
    hybrid.search("x", 3)
    hybrid.search("x", 70)
    assert source.asked == [50, 70]


@pytest.mark.parametrize(
    "options",
    [{"weights": [1, 2]}, {"weights": [0]}, {"weights": [float("nan")]}, {"constant": -1}, {"depth": 0}],
)
def test_invalid_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(BadQuery):
        Hybrid([Fixed("a")], **options)  # type: ignore[arg-type]
    with pytest.raises(BadQuery, match="at least one retriever"):
        Hybrid([])


def test_libraries_save_and_reuse_indexes(tmp_path: Path) -> None:
    passages, told = Passages.of(DOCUMENTS), list[str]()
    first = open_library(passages, "bm25", keep=tmp_path / "kept", progress=told.append)
    again = open_library(passages, "bm25", keep=tmp_path / "kept", progress=told.append)
    assert told == ["indexing the words of 4 passages"]
    assert first.find("cold drink") == again.find("cold drink")
    with pytest.raises(BadIndex, match="belong to another corpus"):
        open_library(Passages.of(DOCUMENTS[:3]), "bm25", keep=tmp_path / "kept")
    with pytest.raises(BadQuery, match="unknown index 'bm52'; did you mean 'bm25'"):
        open_library(passages, "bm52")


def test_unknown_indexes_are_not_overwritten(tmp_path: Path) -> None:
    BM25.build(DOCUMENTS).save(tmp_path / "bm25")
    with pytest.raises(BadIndex, match="cannot be used for indexes"):
        open_library(Passages.of(DOCUMENTS), "bm25", keep=tmp_path)

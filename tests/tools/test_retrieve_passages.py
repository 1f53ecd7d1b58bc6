"""Passages: files in FlashRAG's format, invalid files, and agreement of files and memory."""

from __future__ import annotations

import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turncredit.tools.retrieval import BM25, BadCorpus, Library, Passage, Passages, PassageSearch, Retriever

TEA, RYE = '"Tea"\nTea is a drink.\nIt is hot.', '"Rye"\nRye is a grass.'


def written(path: Path, *lines: object) -> Path:
    """A file of these lines: bytes as they are, anything else as JSON."""
    raw = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    path.write_bytes(b"\n".join(raw) + b"\n")
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(tmp_path / "corpus.jsonl", {"id": "7", "contents": TEA}, {"id": "8", "contents": RYE, "more": [1]})


def test_a_passage_has_title_and_text(file: Path) -> None:
    passages = Passages.open(file)
    assert passages["7"] == Passage("7", '"Tea"', "Tea is a drink.\nIt is hot.")
    assert (passages["7"].name, passages["7"].contents, passages.title("8"), passages.text("8")) == (
        "Tea",
        TEA,
        '"Rye"',
        "Rye is a grass.",
    )
    assert (list(passages), len(passages), "8" in passages, "9" in passages) == (["7", "8"], 2, True, False)
    assert passages.get("9") is None
    with pytest.raises(KeyError):
        passages.text("9")
    assert list(passages.records()) == [{"id": "7", "contents": TEA}, {"id": "8", "contents": RYE}]


def test_accepted_variants_of_rows(tmp_path: Path) -> None:
    file = written(
        tmp_path / "c",
        b'\xef\xbb\xbf{"id": 7, "title": "A\\nb", "text": "c"}',
        {"_id": "x", "contents": "Only a title"},
        b"",
        b"   ",
        {"id": "\ud800", "contents": "half \ud800"},
    )
    assert list(Passages.open(file).documents()) == [("7", '"A b"\nc'), ("x", "Only a title"), ("?", "half ?")]
    assert Passages.open(file)["x"].contents == "Only a title"


def test_the_last_line_needs_no_newline(tmp_path: Path) -> None:
    file = tmp_path / "c"
    file.write_bytes(b'{"id": "1", "contents": "a"}\r\n{"id": "2", "contents": "b"}')
    assert dict(Passages.open(file).documents()) == {"1": "a", "2": "b"}
    assert Passages.open(file)["2"].contents == "b"


BAD = [
    (b'{"id": "1", "contents": "torn', "not valid JSON"),
    (b"\xff\xfe", "not valid UTF-8"),
    (b"[" * 100_000, "more than 64 levels"),
    (b"[1]", "got list"),
    (b'{"contents": "x"}', "'id' must be a str, got nothing"),
    (b'{"id": true, "contents": "x"}', "'id' must be a str, got bool"),
    (b'{"id": "1"}', "'contents' must be a str, got nothing"),
    (b'{"id": "1", "contents": 3}', "'contents' must be a str, got int"),
    (b'{"id": "1", "contents": "  "}', "'contents' is empty"),
    (b'{"id": "7", "contents": "again"}', "the id '7' is already used in line 1"),
    (b'{"id": 7, "contents": "again"}', "the id '7' is already used in line 1"),
]


@pytest.mark.parametrize(("line", "sentence"), BAD)
def test_invalid_lines_are_named_or_skipped(line: bytes, sentence: str, tmp_path: Path) -> None:
    file = written(tmp_path / "c", {"id": "7", "contents": TEA}, b"", line, {"id": "8", "contents": RYE})
    with pytest.raises(BadCorpus, match=r"c, line 3: .*; strict=False skips such lines") as caught:
        Passages.open(file)
    assert sentence in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    passages = Passages.open(file, strict=False)
    assert dict(passages.documents()) == {"7": TEA, "8": RYE}
    assert (passages.skipped, len(passages.complaints)) == (1, 1)
    assert sentence in passages.complaints[0]
    assert (passages["7"].contents, passages["8"].contents) == (TEA, RYE)
    assert passages.fingerprint == Passages.of([("7", TEA), ("8", RYE)]).fingerprint


def test_files_that_are_not_corpora_are_refused(tmp_path: Path) -> None:
    for path, sentence in [
        (tmp_path / "none", "cannot be read: No such file"),
        (tmp_path, "is a directory"),
        (written(tmp_path / "empty", b""), "has no passages"),
        (written(tmp_path / "packed", b"\x1f\x8b rest"), "the compressed data is damaged"),
        (written(tmp_path / "archive", b"PK\x03\x04 rest"), "is a ZIP archive; turncredit reads JSON lines"),
        (written(tmp_path / "long", b'{"id": "1", "contents": "' + b"x" * (17 << 20)), "line 1: more than 16,777,216"),
    ]:
        with pytest.raises(BadCorpus, match=sentence):
            Passages.open(path)
    with pytest.raises(BadCorpus, match="has no passages"):
        Passages.open(written(tmp_path / "bad", b"x"), strict=False)


def test_skipped_lines_are_counted_and_the_first_kept(tmp_path: Path) -> None:
    passages = Passages.open(written(tmp_path / "c", {"id": "1", "contents": "a"}, *[b"x"] * 150), strict=False)
    assert (passages.skipped, len(passages.complaints), len(passages)) == (150, 100, 1)
    assert "line 2:" in passages.complaints[0]


def test_invalid_passages_are_refused() -> None:
    for bad in (["ab", 3], [("a", 3)], [("a",)], "text"):
        with pytest.raises(BadCorpus):
            Passages.of(bad)  # type: ignore[arg-type]
    with pytest.raises(BadCorpus, match="at least one passage"):
        Passages.of([])
    with pytest.raises(BadCorpus, match=r"passages\[1\] has the id 'a'"):
        Passages.of([("a", "x"), ("a", "y")])
    assert Passages.of([("a", "x"), ("a", "y")], strict=False)["a"].contents == "x"


def test_a_changed_file_is_detected(file: Path) -> None:
    passages = Passages.open(file)
    file.write_bytes(b"x" * file.stat().st_size)
    with pytest.raises(BadCorpus, match="was changed"):
        passages.title("7")


def test_a_long_passage_is_read_whole(tmp_path: Path) -> None:
    contents = '"Long"\n' + "word " * 30_000
    passages = Passages.open(written(tmp_path / "c", {"id": "1", "contents": contents}, {"id": "2", "contents": "b"}))
    assert (passages["1"].contents, passages["2"].contents) == (contents, "b")


def test_threads_and_other_processes_read_the_same(tmp_path: Path) -> None:
    rows = {str(number): f'"{number}"\ntext {number}' for number in range(300)}
    passages = Passages.open(
        written(tmp_path / "c", *({"id": id, "contents": contents} for id, contents in rows.items()))
    )
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda id: passages[id].contents, rows)) == list(rows.values())
    assert dict(pickle.loads(pickle.dumps(passages)).documents()) == rows


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30).filter(str.strip)


@settings(deadline=None, max_examples=60)
@given(rows=st.dictionaries(texts, texts, min_size=1, max_size=8), others=st.lists(texts, max_size=4))
def test_file_and_memory_agree(
    rows: dict[str, str], others: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("rows") / "c"
    lines = [{"id": id, "contents": contents} for id, contents in rows.items()]
    file, memory = Passages.open(written(path, *lines)), Passages.of(rows.items())
    assert list(file.documents()) == list(memory.documents()) == list(rows.items())
    assert file.fingerprint == memory.fingerprint
    assert [file.get(id) for id in [*rows, *others]] == [memory.get(id) for id in [*rows, *others]]


def test_fingerprints_differ() -> None:
    corpora = [[("a", "bc")], [("ab", "c")], [("a", "b"), ("c", "d")], [("c", "d"), ("a", "b")], [("a", "bcd")]]
    assert len({Passages.of(corpus).fingerprint for corpus in corpora}) == len(corpora)


def test_a_library_finds_passages(file: Path) -> None:
    library = Library(Passages.open(file))
    assert isinstance(library, PassageSearch)
    assert isinstance(library.retriever, Retriever)
    found = library.find("a hot drink", k=2)
    assert [(passage.id, passage.name) for passage in found] == [("7", "Tea")]
    assert found[0].score == library.retriever.search("a hot drink")[0][1] > 0
    assert library.find_batch(["drink", "", "grass"], 1) == [library.find("drink", 1), [], library.find("grass", 1)]
    assert len(library) == 2


def test_a_retriever_of_another_corpus_is_refused(file: Path) -> None:
    library = Library(Passages.open(file), BM25.build([("99", "tea")]))
    with pytest.raises(BadCorpus, match="'99', which has no passage"):
        library.find("tea")

"""Indexes on disk: round trips, and refusal of damaged or foreign files."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from turncredit.tools.retrieval import BM25, BadIndex

DOCUMENTS = [("b", "Red shoes, red laces"), ("a", "Blue shoes™"), ("ü", "A hat"), ("empty", "")]
QUERIES = ["shoe", "red hat", "™ blue", "nothing"]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    BM25.build(DOCUMENTS).save(tmp_path / "index")
    return tmp_path / "index"


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("options", [{}, {"k1": 1.2, "b": 0.75, "ties": "document"}])
def test_saved_indexes_give_the_same_results(tmp_path: Path, check: bool, options: dict[str, float]) -> None:
    index = BM25.build(DOCUMENTS, **options)  # type: ignore[arg-type]
    index.save(tmp_path / "deep" / "index")
    opened = BM25.open(tmp_path / "deep" / "index", check=check)
    assert (len(opened), opened.k1, opened.b, opened.ties) == (4, index.k1, index.b, index.ties)
    assert opened.search_batch(QUERIES) == index.search_batch(QUERIES)
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["index"]


@settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(st.dictionaries(st.text(max_size=5), st.text(max_size=30), min_size=1, max_size=5))
def test_any_ids_and_texts_survive(tmp_path: Path, documents: dict[str, str]) -> None:
    index = BM25.build(documents.items())
    index.save(tmp_path / "index")
    opened = BM25.open(tmp_path / "index", check=True)
    for text in documents.values():
        assert opened.search(text, 99) == index.search(text, 99)


def test_an_opened_index_is_mapped_and_can_be_saved_over_itself(saved: Path) -> None:
    index = BM25.open(saved)
    assert isinstance(index._postings.documents.base, np.memmap)
    index.save(saved)
    assert index.search_batch(QUERIES) == BM25.open(saved, check=True).search_batch(QUERIES)


def test_indexes_can_be_pickled(saved: Path) -> None:
    index = BM25.open(saved)
    assert pickle.loads(pickle.dumps(index)).search_batch(QUERIES) == index.search_batch(QUERIES)


def test_saving_replaces_an_older_index(saved: Path) -> None:
    old = BM25.open(saved)
    BM25.build([("new", "shoe")]).save(saved)
    assert [name for name, _ in BM25.open(saved).search("shoe")] == ["new"]
    assert [name for name, _ in old.search("shoe")] == ["a", "b"]  # whoever has it open keeps it


def test_other_files_are_not_overwritten(tmp_path: Path) -> None:
    index = BM25.build(DOCUMENTS)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(BadIndex, match="not a directory"):
        index.save(tmp_path / "file")
    (tmp_path / "folder").mkdir()
    index.save(tmp_path / "folder")
    (tmp_path / "folder" / "notes.txt").write_text("mine")
    with pytest.raises(BadIndex, match="contains other files"):
        index.save(tmp_path / "folder")
    assert (tmp_path / "file").read_text() == (tmp_path / "folder" / "notes.txt").read_text() == "mine"


def test_a_failed_save_keeps_the_old_index(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(OSError, match="no space"):
        BM25.build([("new", "shoe")]).save(saved)
    assert [name for name, _ in BM25.open(saved, check=True).search("shoe")] == ["a", "b"]
    assert [path.name for path in saved.parent.iterdir()] == ["index"]


def test_directories_that_are_not_indexes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadIndex, match="not a directory"):
        BM25.open(tmp_path / "missing")
    with pytest.raises(BadIndex, match=r"has no index\.json"):
        BM25.open(tmp_path)
    for text, sentence in [
        ("{", "cannot be read"),
        ("[]", "has another format"),
        ('{"format": "other"}', "has another format"),
    ]:
        (tmp_path / "index.json").write_text(text)
        with pytest.raises(BadIndex, match=sentence):
            BM25.open(tmp_path)
    (tmp_path / "index.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadIndex, match="cannot be read"):
        BM25.open(tmp_path)
    (tmp_path / "index.json").unlink()
    (tmp_path / "index.json").mkdir()
    with pytest.raises(BadIndex, match="cannot be read"):
        BM25.open(tmp_path)


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("version", 99, "version 99, expected 1; build the index again"),
        ("version", None, "version None"),
        ("files", {}, "damaged"),
        ("files", 3, "damaged"),
        ("total", "many", "damaged"),
        ("filled", 99, "do not belong together"),
        ("options", {"k1": -1, "b": 0.4}, "k1 must be"),
        ("options", {"k2": 1}, "damaged"),
        ("options", None, "damaged"),
    ],
)
def test_invalid_manifests_are_refused(saved: Path, key: str, value: object, sentence: str) -> None:
    said = json.loads((saved / "index.json").read_text())
    (saved / "index.json").write_text(json.dumps({**said, key: value}))
    with pytest.raises(BadIndex, match=sentence):
        BM25.open(saved)


def names(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.npy"))


def test_missing_and_truncated_files_are_detected(saved: Path) -> None:
    assert len(names(saved)) == 9
    for file in names(saved):
        whole = file.read_bytes()
        for torn in (whole[:-1], whole + b"\0", b""):
            file.write_bytes(torn)
            with pytest.raises(BadIndex, match=rf"damaged: .*{file.name} has {len(torn)} bytes"):
                BM25.open(saved)
        file.unlink()
        with pytest.raises(BadIndex, match=rf"damaged: .*{file.name} is missing"):
            BM25.open(saved)
        file.write_bytes(whole)
    assert len(BM25.open(saved, check=True)) == 4


def test_changed_bytes_are_detected_on_request(saved: Path) -> None:
    for file in names(saved):
        whole = file.read_bytes()
        file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(BadIndex, match=f"checksum of .*{file.name}"):
            BM25.open(saved, check=True)
        file.write_bytes(whole)


def test_wrong_headers_are_detected(saved: Path) -> None:
    for file in names(saved):
        whole = file.read_bytes()
        for changed in (b"garbage!" + whole[8:], whole.replace(b"descr': '<i", b"descr': '<f").replace(b"|u1", b"|i1")):
            file.write_bytes(changed)
            with pytest.raises(BadIndex, match="damaged"):
                BM25.open(saved)
        file.write_bytes(whole)


def test_mixed_files_of_two_indexes_are_detected(saved: Path, tmp_path: Path) -> None:
    BM25.build([("one", "shoe hat"), ("two", "shoe")]).save(tmp_path / "other")
    mine, theirs = (json.loads((folder / "index.json").read_text()) for folder in (saved, tmp_path / "other"))
    for name in ("norms", "starts", "documents", "ranks", "ids"):
        file = saved / f"{name}.npy"
        whole = file.read_bytes()
        file.write_bytes((tmp_path / "other" / file.name).read_bytes())
        (saved / "index.json").write_text(json.dumps({**mine, "files": {**mine["files"], name: theirs["files"][name]}}))
        with pytest.raises(BadIndex, match="do not belong together"):
            BM25.open(saved)
        file.write_bytes(whole)

"""Corpora as they are published: each gives the same passages, found by id, in a container of its own."""

import gzip
import json
import lzma
import pickle
from pathlib import Path

import pytest

from turncredit.tools.retrieval import BadCorpus, Passage, Passages

BEIR = [{"_id": "4983", "title": "Tea", "text": "Tea is a drink."}, {"_id": "5836", "title": "", "text": "A grass."}]
TEVATRON = [{"docid": "0", "title": "Tea", "text": "Tea is a drink."}]
MSMARCO = [{"pid": 7, "passage": "Tea is a drink."}, {"pid": 8, "passage": "Rye is a grass."}]
KILT = [{"wikipedia_id": "290", "wikipedia_title": "Tea", "text": ["Tea\n", "Tea is a drink.\n"], "anchors": []}]
HIPPORAG = [{"title": "Tea", "text": "Tea is a drink.", "idx": 0}]
WIKIPEDIA = [{"id": "12", "url": "u", "title": "Tea", "text": "Tea is a drink."}]


def jsonl(rows: list[dict]) -> bytes:
    return "\n".join(map(json.dumps, rows)).encode()


@pytest.mark.parametrize(
    ("name", "content", "passages"),
    [
        ("corpus.jsonl", jsonl(BEIR), [("4983", '"Tea"', "Tea is a drink."), ("5836", '""', "A grass.")]),
        (
            "corpus.jsonl.gz",
            gzip.compress(jsonl(BEIR), mtime=0),
            [("4983", '"Tea"', "Tea is a drink."), ("5836", '""', "A grass.")],
        ),
        ("corpus.json", json.dumps(TEVATRON).encode(), [("0", '"Tea"', "Tea is a drink.")]),
        ("c.jsonl", jsonl(MSMARCO), [("7", "", "Tea is a drink."), ("8", "", "Rye is a grass.")]),
        ("c.jsonl.xz", lzma.compress(jsonl(KILT)), [("290", '"Tea"', "Tea\nTea is a drink.")]),
        ("c.json", json.dumps(HIPPORAG).encode(), [("0", '"Tea"', "Tea is a drink.")]),
        ("c.jsonl", jsonl(WIKIPEDIA), [("12", '"Tea"', "Tea is a drink.")]),
        ("psgs_w100.tsv", b'id\ttext\ttitle\n1\t"Tea is ""hot""."\tTea\n', [("1", '"Tea"', 'Tea is "hot".')]),
        ("collection.tsv", b"0\tTea is a drink.\n1\tRye.\n", [("0", "", "Tea is a drink."), ("1", "", "Rye.")]),
        ("c.csv", b'id,title,text\n1,Tea,"Tea,\nhot"\n2,,"x"\n', [("1", '"Tea"', "Tea,\nhot"), ("2", "", "x")]),
    ],
)
def test_a_published_corpus_is_read(name: str, content: bytes, passages: list[tuple], tmp_path: Path) -> None:
    (path := tmp_path / name).write_bytes(content)
    corpus = Passages.open(path)
    expected = [Passage(*fields) for fields in passages]
    assert [corpus[id] for id in corpus] == expected
    assert [pickle.loads(pickle.dumps(corpus))[passage.id] for passage in expected] == expected
    assert corpus.fingerprint == Passages.of(expected).fingerprint


def test_parquet_is_read_like_json_lines(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    polars.DataFrame(BEIR).write_parquet(tmp_path / "corpus.parquet")
    (tmp_path / "corpus.jsonl").write_bytes(jsonl(BEIR))
    one, other = (Passages.open(tmp_path / name) for name in ("corpus.parquet", "corpus.jsonl"))
    assert list(one.documents()) == list(other.documents())


def test_invalid_records_of_any_container_are_named_or_skipped(tmp_path: Path) -> None:
    (path := tmp_path / "c.csv").write_text('id,text\n1,"a\nb"\n2\n3,c\n1,d\n')
    with pytest.raises(BadCorpus, match=r"c.csv, line 4: 'contents' must be a str, got nothing; its text may also be"):
        Passages.open(path)
    corpus = Passages.open(path, strict=False)
    assert [corpus[id].text for id in corpus] == ["a\nb", "c"]
    assert (corpus.skipped, "line 6: the id '1' is already used in line 2" in corpus.complaints[1]) == (2, True)


def test_a_compressed_line_without_end_is_refused(tmp_path: Path) -> None:
    (path := tmp_path / "c.jsonl.gz").write_bytes(gzip.compress(b'{"id": "1", "contents": "' + b"x" * (17 << 20)))
    with pytest.raises(BadCorpus, match="line 1: more than 16,777,216 bytes"):
        Passages.open(path)

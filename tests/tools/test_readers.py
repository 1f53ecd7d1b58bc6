"""Files of records: every container gives the same records, and what is no container is one sentence."""

import gzip
import json
import lzma
import re
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from turncredit.installation import installation_command
from turncredit.tools.bounded_input import InputError
from turncredit.tools.readers import Record, RecordFormat, RecordFormats, UnknownRecord, parse_record, read_records
from turncredit.tools.readers import parquet_process as process

ROWS = [
    {"id": "1", "text": 'Tea, "hot"', "title": "Tea"},
    {"id": "2", "text": "Rye is a grass.", "title": "Rye"},
    {"id": "3", "text": "No title."},
]
PACK = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.ZstdCompressor().compress, ".xz": lzma.compress}


def as_parquet(path: Path, rows: list[dict]) -> Path:
    polars = pytest.importorskip("polars")
    polars.DataFrame(rows).write_parquet(path)
    return path


def text_of(kind: str) -> str:
    cells = [[row.get(name, "") for name in ("id", "text", "title")] for row in ROWS]
    if kind == "jsonl":
        return "\n".join(map(json.dumps, ROWS))
    if kind == "json":
        return json.dumps(ROWS, indent=1)
    if kind == "object.json":
        return json.dumps({"version": 1, "data": ROWS}, indent=1)
    if kind == "csv":
        quoted = [",".join('"' + cell.replace('"', '""') + '"' for cell in row) for row in cells]
        return "\n".join(["id,text,title", *quoted])
    return "\n".join(["id\ttext\ttitle", *("\t".join(row) for row in cells)])


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize("kind", ["jsonl", "json", "object.json", "csv", "tsv"])
def test_every_container_gives_the_same_records(kind: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"rows.{kind}{suffix}"
    path.write_bytes(PACK[suffix](text_of(kind).encode()))
    assert [dict(record.fields) for record in read_records(path)] == ROWS


def test_parquet_gives_the_same_records_with_lists_and_without_nulls(tmp_path: Path) -> None:
    path = as_parquet(tmp_path / "rows", [*ROWS, {"id": "4", "text": None, "title": None}])
    assert [dict(record.fields) for record in read_records(path)] == [*ROWS, {"id": "4"}]
    nested = [{"answers": ["a", "b"], "facts": {"title": ["x"], "n": [1]}, "yes": True, "raw": b"\xc3\xa4"}]
    path = as_parquet(tmp_path / "nested.parquet", nested)
    assert [dict(record.fields) for record in read_records(path)] == [{**nested[0], "raw": "ä"}]


def test_parquet_of_many_slices_is_read_whole_and_in_order(tmp_path: Path) -> None:
    path = as_parquet(tmp_path / "rows.parquet", [{"id": number} for number in range(1000)])
    assert [record.fields["id"] for record in read_records(path)] == list(range(1000))


def test_parquet_is_decoded_within_limits_and_by_a_process_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = as_parquet(tmp_path / "bomb.parquet", [{"text": "x" * 1000}] * 1000)
    assert path.stat().st_size < 10_000
    with pytest.raises(InputError, match="more than 50,000 bytes"):
        list(read_records(path, max_bytes=50_000))
    with pytest.raises(InputError, match="line 1: more than 500 bytes"):
        list(read_records(path, max_line=500))
    code = f"import sys; from turncredit.tools.readers import read_records; list(read_records({str(path)!r})); "
    subprocess.run([sys.executable, "-c", code + "assert 'polars' not in sys.modules"], check=True)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(InputError, match="cannot be decoded as Parquet"):
        list(read_records(path))
    monkeypatch.setattr(process, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=re.escape(installation_command("parquet"))):
        list(read_records(path))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"PK\x03\x04 rest", "is a ZIP archive; turncredit reads JSON lines"),
        (b"BZh91AY", "is compressed with bzip2"),
        (b"\x80\x04\x95", "is a pickle"),
        (b"\xff\xfe[\x00", "is text in UTF-16"),
        (b"version https://git-lfs.github.com/spec/v1", "is a pointer of Git LFS"),
        (b"<!DOCTYPE html>", "is HTML"),
        (b"ab\x00c", "is binary data of an unknown format"),
        (gzip.compress(b"PAR1", mtime=0), "Parquet inside of another compression"),
        (gzip.compress(b'{"a": 1}\n' * 9, mtime=0)[:-12], "ends in the middle"),
        (lzma.compress(b"some bytes " * 99)[:40], "ends in the middle"),
        (b"[1, 2", "not valid JSON"),
    ],
)
def test_what_is_no_file_of_records_is_one_sentence(content: bytes, sentence: str, tmp_path: Path) -> None:
    (path := tmp_path / "file").write_bytes(content)
    with pytest.raises(InputError, match=sentence) as error:
        list(read_records(path))
    assert len(str(error.value).splitlines()) == 1
    (tmp_path / "inside.jsonl").touch()
    with pytest.raises(InputError, match=r"is a directory; name a file in it: file, inside.jsonl"):
        list(read_records(tmp_path))


@pytest.mark.parametrize("pack", PACK.values())
def test_a_line_without_end_is_refused_before_it_is_held(pack, tmp_path: Path) -> None:
    (path := tmp_path / "rows.jsonl").write_bytes(pack(b'{"a": "' + b"x" * (1 << 20)))
    with pytest.raises(InputError, match="line 1: more than 1,000 bytes"):
        list(read_records(path, max_line=1000))


def test_a_record_that_cannot_be_read_has_its_line_and_its_problem(tmp_path: Path) -> None:
    (path := tmp_path / "rows.jsonl").write_bytes(b'{"a": 1}\n\n{"a\n[1]\n\xff\n' + b"[" * 99 + b"\n")
    records = list(read_records(path))
    assert [record.number for record in records] == [1, 3, 4, 5, 6]
    problems = [record.problem for record in records[1:]]
    for problem, sentence in zip(problems, ["not valid JSON", "got list", "not valid UTF-8", "levels"], strict=True):
        assert sentence in problem
    (path := tmp_path / "rows.csv").write_text('id,text\n1,a\n2,b,c\n3,"x\ny"\n4,"z" w\n')
    assert [(record.number, dict(record.fields)) for record in read_records(path)] == [
        (2, {"id": "1", "text": "a"}),
        (3, {}),
        (4, {"id": "3", "text": "x\ny"}),
        (6, {}),
    ]
    (path := tmp_path / "latin.csv").write_bytes(b"id,text\n1,\xe4\n")
    with pytest.raises(InputError, match=r"latin.csv, line 2: not valid UTF-8"):
        list(read_records(path))


def test_a_table_without_header_has_numbered_columns_and_stray_quotes_stay(tmp_path: Path) -> None:
    (path := tmp_path / "collection.tsv").write_text('0\t"Tea is hot\n1\t"""Rye"" is a grass"\n')
    assert [dict(record.fields) for record in read_records(path)] == [
        {"column 1": "0", "column 2": '"Tea is hot'},
        {"column 1": "1", "column 2": '"Rye" is a grass'},
    ]


def test_one_object_over_several_lines_is_one_record(tmp_path: Path) -> None:
    (path := tmp_path / "one.json").write_text(json.dumps(ROWS[0], indent=2))
    assert list(read_records(path)) == [Record(1, ROWS[0], listed=True)]


@given(st.dictionaries(st.text(), st.integers() | st.text() | st.lists(st.booleans())))
def test_a_record_comes_back(fields: dict) -> None:
    assert parse_record(json.dumps(fields).encode()) == fields


def test_the_first_format_that_recognises_a_record_reads_it() -> None:
    one = RecordFormat("One", "a, b", lambda fields: {"a", "b"} <= fields.keys(), lambda fields, id: f"one {id}")
    two = RecordFormat("Two", "a", lambda fields: "a" in fields, lambda fields, id: f"two {id}")
    formats = RecordFormats("a thing", one, two)
    assert formats.read({"a": 1, "b": 2}, "x") == "one x"
    assert formats.read({"a": 1}, "x") == "two x"
    with pytest.raises(UnknownRecord, match=r"^expected a thing as in One \(a, b\); Two \(a\), got a record with the"):
        formats.read({"c": 1}, "x")

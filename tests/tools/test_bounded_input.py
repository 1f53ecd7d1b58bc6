"""Laws of reading what comes from outside: limits hold whatever arrives, and what is within them is unchanged."""

import gzip
import json
import lzma
import os
import socket
import zlib
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from turncredit.tools import bounded_input
from turncredit.tools.bounded_input import (
    InputError,
    bounded,
    parse_json,
    parse_toml,
    read_bytes,
    read_json,
    read_lines,
    read_text,
    read_toml,
    require_files,
    split_lines,
)

READERS = sorted(name for name in vars(bounded_input) if name.startswith(("read_", "open_file", "compression_of")))
"""Every function that opens a file."""

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def depth_of(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    return 1 + max(map(depth_of, value), default=0) if isinstance(value, list) else 0


@given(VALUES)
def test_json_comes_back_and_its_depth_is_the_limit(value: object) -> None:
    text = json.dumps(value)
    assert parse_json(text, "it", max_depth=depth_of(value)) == value
    if depth_of(value):
        with pytest.raises(InputError, match="levels"):
            parse_json(text, "it", max_depth=depth_of(value) - 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "levels"),
        ('{"a":' * 100_000, "levels"),
        ('["' + '\\"' * 200_000 + "[" * 100, "not valid JSON"),
        ("9" * 5000, "not valid JSON"),
        ("", "not valid JSON"),
        ("{} {}", "not valid JSON"),
        (b"\xff", "not valid JSON"),
    ],
    ids=["deep lists", "deep objects", "no end", "digits", "empty", "two values", "no UTF-8"],
)
def test_bad_json_is_one_error(text: str | bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_json(text, "it")


@pytest.mark.parametrize(
    "text",
    ["a." * 20_000 + "b = 1", "[" + "a." * 20_000 + "b]", "x = {" + "'a' . " * 20_000 + "b = 1}", "a." * 65 + "b = 1"],
    ids=["key", "table", "inline", "barely"],
)
def test_a_key_of_toml_with_many_dots_is_refused_before_it_is_parsed(
    text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert parse_toml("a." * 60 + "b = 1", "it")
    assert parse_toml("text = '" + "a." * 60 + "'", "it")
    monkeypatch.setattr("tomllib.loads", lambda text: pytest.fail("its time is quadratic in the dots"))
    with pytest.raises(InputError, match="it is TOML with a key of more than 64 levels"):
        parse_toml(text, "it")
    (path := tmp_path / "run.toml").write_text(text)
    with pytest.raises(InputError, match=r"run\.toml is TOML with a key"):
        read_toml(path)


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "Infinity"])
def test_numbers_without_end_are_refused_where_they_must_be_finite(number: str) -> None:
    assert parse_json(number, "it") != 0
    with pytest.raises(InputError, match="not finite"):
        parse_json(number, "it", finite=True)


def test_json_larger_than_allowed_is_refused() -> None:
    assert parse_json("[1]", "it", max_bytes=3) == [1]
    with pytest.raises(InputError, match="4 bytes of JSON; at most 3 are read"):
        parse_json("[12]", "it", max_bytes=3)


def compressed(data: bytes, kind: str) -> bytes:
    ways = {
        "plain": bytes,
        "gzip": gzip.compress,
        "zstd": zstandard.ZstdCompressor().compress,
        "xz": lzma.compress,
    }
    return ways[kind](data)


@pytest.mark.parametrize("kind", ["plain", "gzip", "zstd", "xz"])
def test_a_file_is_decoded_by_its_content(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "any.name"
    file.write_bytes(compressed(b'{"a": 1}', kind) + compressed(b"\n\n", kind))
    assert read_json(file) == {"a": 1}
    assert read_text(file) == '{"a": 1}\n\n'
    assert list(read_lines(file)) == [b'{"a": 1}', b""]


@pytest.mark.parametrize("kind", ["gzip", "zstd", "xz"])
def test_a_bomb_is_read_up_to_the_limit_only(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "bomb"
    file.write_bytes(compressed(bytes(100 << 20), kind))
    assert file.stat().st_size < 1 << 20
    with pytest.raises(InputError, match=r"more than 1,000,000 bytes"):
        read_bytes(file, max_bytes=1_000_000)
    with pytest.raises(InputError, match=r"line 1: more than 1,000 bytes"):
        next(read_lines(file, max_line=1000))


@pytest.mark.parametrize("kind", ["gzip", "zstd", "xz"])
def test_damaged_compression_is_one_error(kind: str, tmp_path: Path) -> None:
    data = bytearray(compressed(b"some text " * 1000, kind))
    data[12:40] = b"\xff" * 28
    (file := tmp_path / "file").write_bytes(data)
    with pytest.raises(InputError, match="damaged"):
        read_bytes(file)


@given(st.binary(max_size=60), st.integers(1, 7))
def test_lines_do_not_depend_on_how_they_arrive(data: bytes, size: int) -> None:
    blocks = [data[at : at + size] for at in range(0, len(data), size)]
    lines = [line.removesuffix(b"\r") for line in data.split(b"\n")]
    wanted = lines if data.split(b"\n")[-1] else lines[:-1]
    assert list(split_lines(blocks, label="it")) == wanted


@given(st.lists(st.binary(max_size=10)), st.integers(0, 50))
def test_a_stream_is_read_up_to_its_limit(blocks: list[bytes], limit: int) -> None:
    total = sum(map(len, blocks))
    if total <= limit:
        assert list(bounded(blocks, limit, "it")) == blocks
    else:
        with pytest.raises(InputError, match="it has more than"):
            list(bounded(blocks, limit, "it"))


def test_the_rate_of_gzip_is_what_the_size_of_a_piece_assumes() -> None:
    assert len(zlib.decompressobj(wbits=31).decompress(gzip.compress(bytes(1 << 26))[: 1 << 16])) <= 1100 << 16


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", ["pipe", "link to a pipe", "socket", "device", "folder", "nothing"])
def test_what_is_no_file_is_refused_and_never_waited_for(
    reader: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the name of a socket is short
    path = Path("run.toml")
    listening = socket.socket(socket.AF_UNIX)
    if "pipe" in kind:
        os.mkfifo("pipe")
        path = Path("pipe") if kind == "pipe" else path
    if kind == "link to a pipe":
        path.symlink_to("pipe")
    elif kind == "socket":
        listening.bind(str(path))
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    with pytest.raises(OSError if kind in ("folder", "nothing") else InputError, match=path.name):
        list(getattr(bounded_input, reader)(path))
    listening.close()


def test_what_a_user_names_in_dev_is_read_as_it_is() -> None:
    ends = os.pipe()
    os.write(ends[1], b'{"a": 1}')
    os.close(ends[1])
    assert read_json(f"/dev/fd/{ends[0]}") == {"a": 1}
    os.close(ends[0])
    assert read_text("/dev/null") == ""


def test_a_folder_for_other_libraries_holds_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "lost").symlink_to("nowhere")
    (tmp_path / "folder").mkdir()
    require_files(tmp_path)
    os.mkfifo(tmp_path / "model.safetensors")
    with pytest.raises(InputError, match=r"model\.safetensors is a pipe"):
        require_files(tmp_path)

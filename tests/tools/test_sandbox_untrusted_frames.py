"""Answers of programs in a box: every attack is refused in one way, and works on the standard library's decoder."""

import json
import math
import sys
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turncredit.tools.sandbox import SandboxError, UntrustedData
from turncredit.tools.sandbox.untrusted_frames import FrameLimits, decode_frame, text_field

LIMITS = FrameLimits(bytes=1 << 20, depth=4, items=64, digits=24, text=1000)
WIDE = FrameLimits(bytes=1 << 20, depth=50, items=10_000, digits=400, text=100_000)
DEEP = b'{"a":' * 100_000 + b"1" + b"}" * 100_000


def test_an_answer_of_the_driver_is_read() -> None:
    reply = {"value": "1", "stdout": "é\n\U0001f600", "n": -3, "x": 1.5e-3, "flags": [True, False, None, {}, []]}
    assert decode_frame(json.dumps(reply).encode(), LIMITS) == reply
    assert decode_frame(json.dumps(reply, ensure_ascii=False, indent=3).encode(), LIMITS) == reply
    assert text_field(reply, "value") == "1"
    assert text_field(reply, "missing") == ""
    assert issubclass(UntrustedData, SandboxError)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b" " * (1 << 20) + b"{}", "at most 1,048,576"),
        (DEEP[:700_000], "at most 4 levels"),
        (b'{"a":' + b"[" * 500_000, "at most 4 levels"),
        (b'{"a":[' + b"[]," * 100_000 + b"[]]}", "at most 64 items"),
        (b"{" + b",".join(b'"%d":{}' % n for n in range(1000)) + b"}", "at most 64 items"),
        (b'{"a":' + b"9" * 5000 + b"}", "at most 24 characters"),
        (b'{"a":1e999}', "finite"),
        (b'{"a":-1E400}', "finite"),
        (b'{"a":NaN}', "has values"),
        (b'{"a":Infinity}', "has values"),
        (b'{"a":-}', "has values"),
        (b'{"a":"' + b"x" * 1001 + b'"}', "at most 1,000 characters"),
        (b'{"' + b"x" * 1001 + b'":1}', "at most 1,000 characters"),
        (b'{"a":1,"a":2}', "each name once"),
        (b'{"a":"' + b'\\"' * 100_000, "strings that end"),
        (b'{"a":"\\ud8"}', "valid escapes"),
        (b'{"a":"\n"}', "strings that end"),
        (b"[1]", "must be a JSON object, got list"),
        (b'"text"', "must be a JSON object, got str"),
        (b"1", "must be a JSON object, got int"),
        (b"null", "must be a JSON object, got NoneType"),
        (b"{}{}", "ends after one value"),
        (b'{"a":1,}', "names in quotes"),
        (b"{1:2}", "names in quotes"),
        (b'{"a" 1}', "':' there"),
        (b'{"a":[1}', "',' there"),
        (b"{", "names in quotes"),
        (b"", "has values"),
        (b"\xff", "not UTF-8"),
        (b'\xef\xbb\xbf{"a":1}', "has values"),
    ],
)
def test_forged_answers_are_refused(data: bytes, words: str) -> None:
    with pytest.raises(UntrustedData, match=words):
        decode_frame(data, LIMITS)


def test_values_of_another_type_are_refused() -> None:
    for value in (b"{}", b"[]", b"1", b"true", b"null", b"1.5"):
        with pytest.raises(UntrustedData, match="'stdout' of the answer must be a string"):
            text_field(decode_frame(b'{"stdout":' + value + b"}", LIMITS), "stdout")


def test_the_standard_decoder_falls_for_them() -> None:
    """Control: the same bytes crash, inflate or surprise `json.loads`."""
    with pytest.raises(RecursionError):
        json.loads(DEEP)
    assert math.isnan(json.loads(b'{"a":NaN}')["a"])
    assert json.loads(b'{"a":1e999}')["a"] == math.inf
    with pytest.raises(ValueError, match="digits"):
        json.loads(b'{"a":' + b"9" * 5000 + b"}")
    with pytest.raises(UnicodeEncodeError):
        json.loads(b'{"a":"\\ud800"}')["a"].encode()
    assert growth(json.loads) > 15


def growth(decode: object) -> float:
    data = b'{"a":[' + b"{}," * 300_000 + b"{}]}"
    tracemalloc.start()
    try:
        kept = decode(data)  # type: ignore[operator]
        return tracemalloc.get_traced_memory()[1] / len(data) + 0 * len(kept)
    finally:
        tracemalloc.stop()


def test_the_host_does_not_grow() -> None:
    def refused(data: bytes) -> str:
        with pytest.raises(UntrustedData):
            decode_frame(data, FrameLimits(bytes=1 << 24))
        return ""

    assert growth(refused) < 5


def test_unpaired_surrogates_are_replaced() -> None:
    frame = decode_frame(b'{"a":"x\\ud800y\\udc00","b":"\\ud83d\\ude00","\\udfff":1}', LIMITS)
    assert frame == {"a": "x\ufffdy\ufffd", "b": "\U0001f600", "\ufffd": 1}


def test_the_stack_of_the_process_is_not_used() -> None:
    limits = FrameLimits(bytes=1 << 20, depth=10_000, items=10_000)
    inner: object = decode_frame(b'{"a":' * 9000 + b"1" + b"}" * 9000, limits)
    depth = 0
    while isinstance(inner, dict):
        inner, depth = inner["a"], depth + 1
    assert depth == 9000 > sys.getrecursionlimit()


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), values, max_size=4), st.booleans())
def test_equal_to_the_standard_decoder(value: dict[str, object], ascii_: bool) -> None:
    data = json.dumps(value, ensure_ascii=ascii_).encode()
    assert decode_frame(data, WIDE) == json.loads(data) == value


def check_any_bytes(data: bytes) -> None:
    """Whatever is accepted, the standard decoder accepts with the same result; the rest is refused in one way."""
    try:
        found = decode_frame(data, WIDE)
    except UntrustedData:
        return
    assert json.dumps(found) == json.dumps(json.loads(data)).replace("\\ud800", "\\ufffd")


words = b'{ } [ ] , : " "a" \\ \\u00e9 1 - .5 e9 true \xff'.split(b" ")
pieces = st.sampled_from([*words, b" "])


@given(st.binary(max_size=60) | st.lists(pieces, max_size=30).map(b"".join))
def test_any_bytes_are_an_answer_or_refused(data: bytes) -> None:
    check_any_bytes(data)

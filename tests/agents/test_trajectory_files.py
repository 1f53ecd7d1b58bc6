"""Trajectories on disk: every bit comes back, and a torn file loses at most its last line."""

from __future__ import annotations

import gzip
import json
import math
import tracemalloc
import warnings
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from turncredit.agents.errors import StoreError
from turncredit.agents.files import trajectory_files
from turncredit.agents.files.background_writer import BackgroundWriter
from turncredit.agents.files.trajectory_files import (
    SUFFIXES,
    TornLine,
    TrajectoryWriter,
    from_json,
    read_trajectories,
    to_json,
)
from turncredit.agents.trajectory import STOPS, Trajectory, Turn, grouped

ids = st.lists(st.integers(0, 200_000), max_size=4).map(tuple)
finite = st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(max_size=20)


@st.composite
def trajectories(draw: st.DrawFn) -> Trajectory:
    turns: list[Turn] = []
    for _ in range(draw(st.integers(0, 4))):
        prompt = draw(ids)
        if turns and draw(st.booleans()):
            prompt = turns[-1].prompt + turns[-1].response + prompt
        response = draw(ids)
        logprobs = tuple(draw(finite) for _ in response)
        turns.append(
            Turn(
                prompt, response, logprobs, draw(st.integers(0, 9)), draw(texts), draw(texts),
                draw(st.none() | texts), draw(texts), draw(finite), draw(st.booleans()),
                draw(st.none() | st.lists(texts, max_size=3).map(tuple)),
                results=draw(st.lists(texts, max_size=2).map(tuple)),
            )
        )  # fmt: skip
    return Trajectory(
        draw(texts), draw(texts), draw(st.none() | texts), draw(st.integers(0, 2**63)), tuple(turns),
        draw(st.sampled_from(STOPS)), draw(st.booleans()), draw(finite), draw(texts), draw(texts),  # type: ignore[arg-type]
        draw(st.none() | texts), draw(finite),
    )  # fmt: skip


def sample(number: int, turns: int = 2) -> Trajectory:
    """Return a conversation of two turns or more."""
    made: list[Turn] = []
    previous: tuple[int, ...] = ()
    for turn in range(turns):
        prompt = (*previous, number, turn, 7)
        made.append(Turn(prompt, (turn, 1), (-0.1, -1 / 3), 0, "seen é", "said", "said", "s", 0.5, True))
        previous = (*prompt, turn, 1)
    return Trajectory(f"t#{number}@0", "t", None, 0, tuple(made), "turns", False, 0.0, "s", "seen", None, 1.0)


def write(path: Path, count: int, append: bool = False, first: int = 0) -> None:
    with TrajectoryWriter(path, append) as writer:
        for number in range(first, first + count):
            writer.write(sample(number))


@given(trajectories())
def test_every_bit_comes_back(trajectory: Trajectory) -> None:
    line = to_json(trajectory)
    assert "\n" not in line
    assert from_json(line) == trajectory


def test_admissible_actions_take_room_only_where_they_are_kept() -> None:
    assert "admissible" not in to_json(sample(0))
    turn = Turn((), (), (), 0, "", "", None, "", 0.0, False, ())
    trajectory = Trajectory("t", "t", None, 0, (turn,), "turns", False, 0.0, "", "", None, 0.0)
    assert from_json(to_json(trajectory)).turns[0].admissible == ()


def test_logprobs_keep_signed_zero_and_infinity() -> None:
    turn = Turn((), (1, 2), (-0.0, -math.inf), 0, "", "", None, "", 0.0, False)
    trajectory = Trajectory("t", "t", None, 0, (turn,), "turns", False, 0.0, "", "", None, 0.0)
    back = from_json(to_json(trajectory)).turns[0].logprobs
    assert math.copysign(1, back[0]) == -1
    assert back[1] == -math.inf


def test_a_conversation_is_stored_at_its_length() -> None:
    def size(turns: int) -> int:
        return len(to_json(sample(1, turns)))

    assert size(80) < 2.1 * size(40)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_files_come_back_in_order(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / "deep" / f"t{suffix}"
    write(path, 3)
    write(path, 2, append=True, first=3)
    assert list(read_trajectories(path)) == [sample(number) for number in range(5)]
    write(path, 1, first=9)
    assert list(read_trajectories(path)) == [sample(9)]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_is_readable_while_it_is_written(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"t{suffix}"
    with TrajectoryWriter(path) as writer:
        assert list(read_trajectories(path)) == []
        for number in range(3):
            writer.write(sample(number))
            assert len(list(read_trajectories(path))) == number + 1


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_wherever_a_file_is_cut_whole_lines_are_read_and_appending_goes_on(tmp_path: Path, suffix: str) -> None:
    whole = tmp_path / f"whole{suffix}"
    with TrajectoryWriter(whole) as writer:
        sizes = [0]
        for number in range(3):
            writer.write(sample(number))
            sizes.append(whole.stat().st_size)
    data = whole.read_bytes()
    path = tmp_path / f"cut{suffix}"
    for cut in range(0, len(data), 1 if suffix != ".jsonl" else 7):
        path.write_bytes(data[:cut])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TornLine)
            found = list(read_trajectories(path))
            assert len(found) >= max(index for index, size in enumerate(sizes) if size <= cut)
            write(path, 1, append=True, first=7)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert list(read_trajectories(path)) == [*found, sample(7)]


def test_a_torn_line_is_said(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    write(path, 2)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.warns(TornLine, match=r"line 2 is incomplete"):
        assert list(read_trajectories(path)) == [sample(0)]
    with pytest.warns(TornLine, match=r"line 2 is incomplete"):
        write(path, 1, append=True, first=5)
    assert list(read_trajectories(path)) == [sample(0), sample(5)]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(cut=st.integers(0, 400), junk=st.binary(max_size=30).filter(lambda junk: b"\n" not in junk))
def test_any_bytes_in_the_last_line_lose_only_it(tmp_path: Path, cut: int, junk: bytes) -> None:
    path = tmp_path / "t.jsonl"
    first, last = to_json(sample(0)).encode(), to_json(sample(1)).encode()
    torn = last[: min(cut, len(last) - 1)] + junk
    path.write_bytes(first + b"\n" + torn)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            found = list(read_trajectories(path))
        except StoreError:
            json.loads(torn)  # junk that completes a line of JSON is no tear: it is an error
            return
    assert found[:1] == [sample(0)]
    assert len(found) == 2 or not torn.strip() or [entry.category for entry in said] == [TornLine]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(position=st.integers(0, 10_000), junk=st.binary(min_size=1, max_size=9).filter(lambda junk: b"\n" not in junk))
def test_a_damaged_line_in_the_middle_is_an_error_with_its_number(tmp_path: Path, position: int, junk: bytes) -> None:
    path = tmp_path / "t.jsonl"
    lines = [to_json(sample(number)).encode() for number in range(3)]
    position %= len(lines[1])
    lines[1] = lines[1][:position] + b"\xff" + junk
    path.write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(StoreError, match=r"t\.jsonl, line 2: not valid JSON"):
        list(read_trajectories(path))


def test_damaged_compressed_data_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl.gz"
    write(path, 20)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(bytes(data))
    with pytest.raises(StoreError, match=r"damaged|not valid JSON"):
        list(read_trajectories(path))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 99}, "version 99 of the format"),
        ({"version": None}, "version None"),
        ({"stop": "tired"}, "got 'tired'"),
        ({"score": 10**400}, "score must be a number, got 1000"),
        ({"turns": 3}, "turns must be a list of objects, got 3"),
        ({"turns": [3]}, r"turns\[0\]: a turn must be an object, got 3"),
        ({"turns": [{}]}, r"turns\[0\]: the key 'version' is missing"),
    ],
)
def test_lines_of_another_form_are_errors_even_at_the_end(
    tmp_path: Path, change: dict[str, object], words: str
) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps(json.loads(to_json(sample(0))) | change) + "\n")
    with pytest.raises(StoreError, match=words) as caught:
        list(read_trajectories(path))
    assert "line 1" in str(caught.value)


WRONG = ["x", 1, 1.5, True, None, [1.5], {"a": 1}]
PLACES = [
    *((name,) for name in json.loads(to_json(sample(0))) if name != "version"),
    *(
        ("turns", 0, name)
        for name in [*json.loads(to_json(sample(0)))["turns"][0], "admissible", "switches", "finish", "results"]
    ),
]


def read_or_refused(line: str) -> Trajectory | str:
    try:
        return from_json(line)
    except StoreError as error:
        return str(error)


@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_a_value_of_another_type_is_named_or_comes_back(place: tuple[str | int, ...], wrong: object) -> None:
    record = json.loads(to_json(sample(0)))
    within = record["turns"][0] if place[0] == "turns" and len(place) > 1 else record
    within[place[-1]] = wrong
    read = read_or_refused(json.dumps(record))
    if isinstance(read, str):
        assert str(place[-1]) in read
        return
    value = getattr(read if within is record else read.turns[0], str(place[-1]))
    assert (list(value) if isinstance(value, tuple) else value) == wrong
    assert from_json(to_json(read)) == read


def test_other_endings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"\.jsonl\.gz"):
        TrajectoryWriter(tmp_path / "t.json")


def test_a_plain_gzip_of_lines_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl.gz"
    path.write_bytes(gzip.compress((to_json(sample(0)) + "\n").encode()))
    assert list(read_trajectories(path)) == [sample(0)]


def test_trajectories_are_grouped_by_task_and_seed_in_the_order_of_members() -> None:
    found = [sample(10), sample(9), sample(0)]
    assert [t.id for t in grouped(found)[0].trajectories] == ["t#0@0", "t#9@0", "t#10@0"]


def test_a_file_written_beside_the_episodes_is_complete_when_it_is_closed(tmp_path: Path) -> None:
    one = sample(0)
    with BackgroundWriter(tmp_path / "t.jsonl.gz") as writer:
        for number in range(50):
            writer.write(replace(one, id=f"open-3-1#{number}@0"))
    assert [found.id for found in read_trajectories(writer._writer.path)] == [f"open-3-1#{n}@0" for n in range(50)]
    with suppress(KeyboardInterrupt), BackgroundWriter(tmp_path / "stopped.jsonl") as writer:
        writer.write(one)
        raise KeyboardInterrupt
    assert list(read_trajectories(tmp_path / "stopped.jsonl")) == [one]


def test_a_full_disk_is_told_by_a_later_write_or_by_closing(tmp_path: Path) -> None:
    (tmp_path / "full.jsonl").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"), BackgroundWriter(tmp_path / "full.jsonl") as writer:
        writer.write(sample(0))


def test_a_compressed_line_without_end_is_refused_before_it_is_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trajectory_files, "MAX_LINE", 4 << 20)
    file = tmp_path / "episodes.jsonl.gz"
    with gzip.open(file, "wb") as out:
        out.write(to_json(sample(0)).encode() + b"\n")
        for _ in range(200):
            out.write(b"[" * (1 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(StoreError, match=r"line 2: more than 4,194,304 bytes.*; it was read to line 1"):
            list(read_trajectories(file))
        with pytest.raises(StoreError, match="the most that a line may have"):
            TrajectoryWriter(file, append=True)
        assert tracemalloc.get_traced_memory()[1] < 160 << 20  # of 200 MB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("last", [True, False])
def test_lines_that_are_too_deep_are_errors_even_at_the_end(tmp_path: Path, last: bool) -> None:
    file = tmp_path / "episodes.jsonl"
    whole = to_json(sample(0))
    deep = whole.replace('"turns":', '"deep":' + "[" * 100_000 + "]" * 100_000 + ',"turns":', 1)
    file.write_text(f"{whole}\n{deep}\n" + ("" if last else f"{whole}\n"))
    with pytest.raises(StoreError, match=r"line 2: the line is JSON with more than 64 levels"):
        list(read_trajectories(file))


def test_half_surrogate_pairs_become_escapes_when_written_and_when_read(tmp_path: Path) -> None:
    file = tmp_path / "episodes.jsonl"
    odd = replace(sample(0), error="half \udc80, whole \U0001f600", task="\ud800")
    line = to_json(odd)
    file.write_text(line + "\n" + line.replace("\\\\udc80", "\\udc80").replace("\\\\ud800", "\\ud800") + "\n")
    for read in read_trajectories(file):
        assert (read.error, read.task) == ("half \\udc80, whole \U0001f600", "\\ud800")
        assert from_json(to_json(read)) == read

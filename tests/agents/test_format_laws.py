"""Laws of the table of formats: what is written comes back, what is only read can be written and read again, and one
episode that cannot be read costs one episode."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from turncredit.agents.content import ImagePart
from turncredit.agents.errors import StoreError
from turncredit.agents.files.trajectory_files import read_trajectories
from turncredit.agents.interchange.conversations import Demonstration
from turncredit.agents.interchange.formats import FORMATS, TrajectoryFormat
from turncredit.agents.interchange.imported_folder import ImportedFolder
from turncredit.agents.interchange.records import IMAGES, TOKENS, TOOLS, Exported, Origin
from turncredit.agents.trajectory import Trajectory, Turn

CALL = '<tool_call>\n{"name": "find", "arguments": {"shelf": 9}}\n</tool_call>'
TWO = f'{CALL}\n<tool_call>\n{{"name": "look", "arguments": {{}}}}\n</tool_call>'
ORIGIN = Origin("run", "turncredit/Household-v0", "tiny", "0.1.0", tools={"": [{"type": "function"}]})
RED, BLUE = (ImagePart(np.full((2, 3, 3), value, np.uint8)) for value in (200, 7))

WRITTEN = [name for name, entry in FORMATS.items() if entry.write]
READ_ONLY = [name for name, entry in FORMATS.items() if not entry.write]


def turn(observation: str, text: str, number: int = 0, **fields: Any) -> Turn:
    """A turn with token ids, which extend those of the turn before."""
    prompt, response = tuple(range(5 * number + 3)), (5 * number + 3, 5 * number + 4)
    return Turn(prompt, response, (-0.5, -0.25), 2, observation, text, text, f"s{number}", 0.5, True, **fields)


def episode(name: str, *turns: Turn, **fields: Any) -> Trajectory:
    whole = Trajectory(name, "t", "kind", 3, turns, "terminated", True, 1.0, "end", "The end.", None, 1.5)
    return replace(whole, **fields)


PARENT = episode(
    "t#0@3",
    turn("Find it.", f"<think>\nHm.\n</think>\n\n{TWO}", extras={"value": 0.25, "request_cost": 0.5}),
    turn("one\ntwo", CALL, 1, results=("one", "two"), switches=((1, 3),), admissible=("a", "b")),
    turn("three", "Done.", 2, finish="length", extras={"imitated": 0}),
)
EPISODES = [
    PARENT,
    replace(PARENT, id="t#0/1:1.0@3", fork_of="t#0@3", fork_turn=1, fork_tokens=1, won=False, score=0.25),
    episode(
        "t#1@3",
        turn("a screen", "tap", images=(RED,), shown=(RED,)),
        turn("", "wait", 1, images=(BLUE,), shown=(BLUE,)),
        turn("", "", 2, shown=(BLUE,)),
    ),
    episode("t#2@3", stop="error", error="the environment died", won=False, score=0.0),
]


def without_tokens(trajectory: Trajectory) -> Trajectory:
    bare = [replace(turn, prompt=(), response=(), logprobs=(), switches=(), experts=None) for turn in trajectory.turns]
    return replace(trajectory, turns=tuple(bare), fork_tokens=0)


def without_images(trajectory: Trajectory) -> Trajectory:
    return replace(trajectory, turns=tuple(replace(turn, images=(), shown=()) for turn in trajectory.turns))


WITHOUT: dict[str, Callable[[Trajectory], Trajectory]] = {
    TOKENS: without_tokens,
    IMAGES: without_images,
    TOOLS: lambda trajectory: trajectory,
}
"""What is left of an episode in a format that lacks something."""


def write(entry: TrajectoryFormat, exported: list[Exported], path: Path, **fields: Any) -> Path:
    if entry.name == "hf":
        pytest.importorskip("polars")
    target = path / f"out{entry.suffix}"
    assert entry.write is not None
    try:
        entry.write(exported, target, replace(ORIGIN, **fields))
    except StoreError as error:
        if "pip install" not in str(error):
            raise
        pytest.skip(str(error))
    return target


def stored(folder: Path, read: list[Demonstration]) -> list[Trajectory]:
    """The episodes of an import, as its folder stores them."""
    with ImportedFolder(folder) as imported:
        for item in read:
            imported.write(item)
    return [
        trajectory for file in sorted((folder / "trajectories").iterdir()) for trajectory in read_trajectories(file)
    ]


@pytest.mark.parametrize("answers", ["parts", "text"])
@pytest.mark.parametrize("name", WRITTEN)
def test_what_comes_back_is_what_was_but_for_what_the_format_lacks(name: str, answers: str, tmp_path: Path) -> None:
    entry = FORMATS[name]
    target = write(entry, [Exported(trajectory, 4) for trajectory in EPISODES], tmp_path, answers=answers)
    target = target.rename(tmp_path / f"moved{entry.suffix}")  # it does not refer to where it was written
    wanted = EPISODES
    for lack in entry.lacks:
        wanted = [WITHOUT[lack](trajectory) for trajectory in wanted]
    read = list(entry.read(target))
    assert stored(tmp_path / "imported", read) == wanted
    assert [item.iteration for item in read] == [4] * len(wanted)
    pixels = [image.image.tolist() for item in read for turn in item.trajectory.turns for image in turn.shown]
    assert pixels == ([] if IMAGES in entry.lacks else [image.image.tolist() for image in (RED, BLUE, BLUE)])


@pytest.mark.parametrize("name", WRITTEN)
def test_of_a_plain_export_the_conversations_come_back(name: str, tmp_path: Path) -> None:
    """The episode without an answer is left out, and the others are read."""
    entry = FORMATS[name]
    target = write(entry, [Exported(trajectory) for trajectory in EPISODES], tmp_path, plain=True)
    refused: list[StoreError] = []
    read = list(entry.read(target, refused.append))
    said = [[(turn.observation, turn.text) for turn in item.trajectory.turns] for item in read]
    spoken = [trajectory for trajectory in EPISODES if trajectory.turns]
    assert said[: len(spoken)] == [[(turn.observation, turn.text) for turn in one.turns] for one in spoken]
    assert len(read) + len(refused) == len(EPISODES)


@pytest.mark.parametrize("name", WRITTEN)
def test_images_that_did_not_come_along_are_left_out(name: str, tmp_path: Path) -> None:
    """A file of an earlier release names images of its run; a folder may have lost its images."""
    entry = FORMATS[name]
    target = write(entry, [Exported(EPISODES[2])], tmp_path)
    if IMAGES in entry.lacks or not (target / "images").is_dir():
        return
    for image in (target / "images").rglob("*.png"):
        image.unlink()
    (item,) = entry.read(target)
    assert stored(tmp_path / "imported", [item]) == [without_images(EPISODES[2])]
    assert IMAGES in item.left_out


def example_file(entry: TrajectoryFormat, folder: Path) -> Path:
    """A file of a format that is only read."""
    folder.mkdir(exist_ok=True)
    path = folder / (f"x{entry.suffix}" if entry.suffix.startswith(".") else entry.suffix)
    path.write_text(json.dumps(entry.example) + "\n")
    return path


@pytest.mark.parametrize("name", READ_ONLY)
def test_what_others_wrote_is_written_and_read_again(name: str, tmp_path: Path) -> None:
    entry = FORMATS[name]
    (item,) = entry.read(example_file(entry, tmp_path / "given"))
    first = stored(tmp_path / "first", [item])
    assert first[0].turns
    for other in (FORMATS["openai"], FORMATS["atif"]):
        (tmp_path / other.name).mkdir()
        target = write(other, [Exported(trajectory) for trajectory in first], tmp_path / other.name)
        assert stored(tmp_path / f"{other.name}-back", list(other.read(target))) == first


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_no_file_of_the_format_is_one_sentence(name: str, tmp_path: Path) -> None:
    entry = FORMATS[name]
    suffix = entry.suffix or {"hf": ".parquet", "inspect": ".eval", "sts": ".jsonl"}.get(name, ".json")
    file = f"x{suffix}" if suffix.startswith(".") else suffix
    contents = {
        "binary": b"\x00\x01\x02" * 50,
        "zip": b"PK\x03\x04rest",
        "torn": gzip.compress(b'{"a": 1}\n' * 99)[:-9],
        "number": b"7\n",
        "list": b"[[1]]\n",
        "object": b'{"a": 1}\n',
        "deep": b"[" * 200,
        "nothing": b"",
    }
    folders = [tmp_path / "empty"]
    (tmp_path / "empty").mkdir()
    for kind, content in contents.items():
        folders.append(tmp_path / kind)
        folders[-1].mkdir()
        (folders[-1] / file).write_bytes(content)
    problems = []
    for path in [*folders, *(folder / file for folder in folders[1:]), tmp_path / "absent"]:
        try:
            read = list(entry.read(path))
        except StoreError as error:
            if "pip install" in str(error):
                pytest.skip(str(error))
            problems += [f"{path.name}: {error}"] if len(str(error).splitlines()) != 1 else []
            continue
        except Exception as error:
            problems.append(f"{path}: {type(error).__name__}: {error}")
            continue
        problems += [f"{path}: {len(read)} episodes"] if read else []
    assert not problems


@pytest.mark.parametrize("name", READ_ONLY)
def test_one_episode_that_cannot_be_read_costs_one_episode(name: str, tmp_path: Path) -> None:
    entry = FORMATS[name]
    path = example_file(entry, tmp_path / "given")
    good = path.read_text()
    if path.name.endswith("l"):  # JSON lines
        path.write_text('{"a": 1}\n' + good + "not JSON\n" + good)
        wanted = (2, 2)
    else:
        (path.parent / f"a{path.name}").write_text('{"a": 1}')
        (path.parent / f"b{path.name}").write_text("not JSON")
        path, wanted = path.parent, (1, 2)
    refused: list[StoreError] = []
    assert (len(list(entry.read(path, refused.append))), len(refused)) == wanted
    with pytest.raises(StoreError):
        list(entry.read(path))

"""Generated shell tasks: the same on every machine, apart by split, and none that is done before it begins."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.envs.bash.filetree import digest
from turnwise.envs.bash.generator import FAMILIES, PRESETS, SPLITS, BashLevel, generate, task_ids
from turnwise.envs.bash.generator.builder import FOLDERS
from turnwise.envs.bash.grading import grade
from turnwise.envs.errors import UnknownOption, UnknownTask


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("level", PRESETS)
def test_tasks_are_undone_at_first_and_done_at_the_end(split: str, level: str) -> None:
    for id in task_ids(split, PRESETS[level], 3 * len(FAMILIES)):
        task = generate(id)
        assert grade(task, task.after, task.answer).won, id
        assert not grade(task, task.before, "").won, id
        assert task.answer == "" or task.after == task.before
        assert any(folder in task.statement for folder in FOLDERS[split])


def test_families_go_round() -> None:
    counts = Counter(generate(id).family for id in task_ids("train", BashLevel(), 2 * len(FAMILIES)))
    assert counts == dict.fromkeys(FAMILIES, 2)
    only = BashLevel.parse("tiny+families=sum,count")
    assert [generate(id).family for id in task_ids("train", only, 3)] == ["count", "sum", "count"]


def test_splits_have_no_folder_in_common() -> None:
    train, held_out = (set(FOLDERS[split]) for split in SPLITS)
    assert not train & held_out
    for split in SPLITS:
        tops = {path.split("/")[0] for id in task_ids(split, BashLevel(), 50) for path in generate(id).before}
        assert tops <= set(FOLDERS[split])


def test_ids_mean_the_same_everywhere() -> None:
    keys = []
    for id in ("train/small/000000", "train/tiny/000123", "held_out/large/000011"):
        task = generate(id)
        keys.append(digest(task.before, *sorted(task.after), task.statement, task.answer, *task.commands))
    assert keys == EXPECTED


EXPECTED = ["965f470c44338c5f7d91cc454b8e0ace", "759a6869d610776b1a99991b27431288", "09ba7f09635f250fd7a6c31d2de93719"]


@pytest.mark.parametrize(
    "id",
    [
        "",
        "train/small/1",
        "train/small/0000001",
        "test/small/000001",
        "train/huge/000001",
        "train/small+depth=2/000001",
        "train/small+nothing=2/000001",
        "train/small/000001\n",
        "\0" * 50,
    ],
)
def test_other_ids_are_refused(id: str) -> None:
    with pytest.raises(UnknownTask, match="shell tasks"):
        generate(id)


@pytest.mark.parametrize("name", PRESETS)
def test_levels_are_read_back(name: str) -> None:
    assert PRESETS[name].text == name
    assert BashLevel.parse(PRESETS[name].text) == PRESETS[name]


@given(
    st.builds(
        BashLevel,
        files=st.tuples(st.integers(2, 9), st.integers(9, 20)),
        lines=st.tuples(st.integers(2, 9), st.integers(9, 20)),
        depth=st.integers(0, 6),
        distractors=st.integers(0, 9),
        spaces=st.sampled_from([0.0, 0.25, 1.0]),
        variants=st.integers(0, 9),
        families=st.lists(st.sampled_from(FAMILIES), max_size=3).map(tuple),
    )
)
def test_any_level_can_be_said_and_gives_tasks(level: BashLevel) -> None:
    assert BashLevel.parse(level.text) == level
    task = generate(task_ids("train", level, 1, 5)[0])
    assert not grade(task, task.before, "").won


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hard", "unknown preset 'hard' of shell tasks"),
        ("tiny+dept=1", "did you mean 'depth'"),
        ("tiny+depth", "has no value"),
        ("tiny+depth=x", "invalid value 'x' of depth"),
        ("tiny+depth=9", "an integer from 0 to 6"),
        ("tiny+files=3-2", "least <= most"),
        ("tiny+spaces=2", "a probability from 0 to 1"),
        ("tiny+families=counting", "did you mean 'count'"),
    ],
)
def test_wrong_levels_are_named(text: str, words: str) -> None:
    with pytest.raises(UnknownOption, match=words):
        BashLevel.parse(text)


def test_every_dial_is_checked() -> None:
    for field in fields(BashLevel):
        with pytest.raises((UnknownOption, TypeError, ValueError)):
            replace(BashLevel(), **{field.name: ("no such", -1) if field.name == "families" else (-1, -2)})

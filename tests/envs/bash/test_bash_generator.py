"""Generated shell tasks: disjoint splits, and no task that is solved at the start."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turncredit.envs.bash.generator import FAMILIES, PRESETS, SPLITS, BashLevel, generate, task_ids
from turncredit.envs.bash.generator.builder import FOLDERS
from turncredit.envs.bash.grading import grade


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

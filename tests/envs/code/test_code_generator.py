"""Generated code tasks: correct solutions, mistakes that hidden tests catch, disjoint splits."""

import ast
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turncredit.envs.code.generator import PRESETS, CodeLevel, generate, task_ids
from turncredit.envs.code.generator.families import FAMILIES
from turncredit.envs.code.generator.mutations import KINDS, mutants
from turncredit.envs.code.generator.tasks import SPLITS
from turncredit.envs.code.task import CallTest, CodeTask


def outcomes(text: str, tests: tuple[object, ...]) -> list[bool]:
    """Run a generated program on its tests (it is ours, and its mistakes come to an end)."""
    space: dict[str, object] = {}
    exec(text, space)
    found = []
    for test in tests:
        assert isinstance(test, CallTest)
        try:
            value = space[test.name](*ast.literal_eval(test.arguments))  # type: ignore[operator]
            found.append(value == ast.literal_eval(test.returns))
        except Exception:
            found.append(False)
    return found


def tasks(split: str, level: str, count: int) -> list[CodeTask]:
    return [generate(id) for id in task_ids(split, PRESETS[level], count)]


@pytest.mark.parametrize(("level", "count"), [("tiny", 60), ("small", 60), ("medium", 12), ("large", 6)])
def test_solutions_pass_and_a_hidden_test_catches_every_beginning(level: str, count: int) -> None:
    for task in tasks("train", level, count):
        tests = (*task.visible, *task.hidden)
        assert all(outcomes(task.solved[task.main], tests)), task.id
        assert not all(outcomes(task.files[task.main], task.hidden)), task.id
        assert len(set(map(repr, tests))) == len(tests)
        if PRESETS[level].shown == 1.0:
            assert not all(outcomes(task.files[task.main], task.visible)), task.id
        if task.kind.startswith("repair"):
            one, two = (files[task.main].splitlines() for files in (task.files, task.solved))
            apart = sum(a != b for a, b in zip(one, two, strict=True))
            assert PRESETS[level].bugs[0] <= apart <= PRESETS[level].bugs[1]


def test_tiny_tasks_are_tiny() -> None:
    for task in tasks("train", "tiny", 60):
        assert task.files[task.main].count("\n") <= 5
        assert task.kind.startswith("repair")
        assert len(task.visible) == 2


def test_splits_share_no_program() -> None:
    for level, count in (("tiny", 300), ("small", 60)):
        one, two = ({task.solved[task.main] for task in tasks(split, level, count)} for split in SPLITS)
        assert not one & two
        assert min(len(one), len(two)) > count / 8


def test_many_families_are_met() -> None:
    assert len(FAMILIES) >= 40
    assert len({task.kind.partition(":")[2] for task in tasks("train", "small", 120)}) >= 25
    assert len({task.kind for task in tasks("train", "tiny", 120)}) >= 12


def test_every_family_gives_programs_and_every_kind_of_mistake_is_made() -> None:
    kinds = set()
    for name, family in FAMILIES.items():
        for seed in range(5):
            text = family.draw(Random(f"{name}{seed}")).code
            lines = text.splitlines()
            found = mutants(text)
            assert found, name
            kinds |= {one.kind for one in found}
            for one in found:
                ast.parse(one.text)
                apart = [i for i, (a, b) in enumerate(zip(lines, one.text.splitlines(), strict=True), 1) if a != b]
                assert apart == [one.line]
    assert kinds == set(KINDS)


LEVELS = st.builds(
    CodeLevel,
    families=st.integers(1, len(FAMILIES)),
    bugs=st.tuples(st.integers(1, 2), st.integers(2, 4)),
    repair=st.sampled_from([0.0, 0.25, 1.0]),
    names=st.integers(0, 1),
)


@given(LEVELS)
def test_a_level_is_read_back_from_its_text(level: CodeLevel) -> None:
    assert CodeLevel.parse(level.text) == level
    assert CodeLevel.parse(level.text).text == level.text

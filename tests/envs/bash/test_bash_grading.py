"""Grading of shell tasks: what is accepted and refused, and InterCode's reward computed by hand."""

from __future__ import annotations

import gzip
import math

import pytest

from turncredit.envs.bash.filetree import FileNode, FileTree, digest, file, folder, from_tar, to_tar, with_folders
from turncredit.envs.bash.grading import grade, same_answer
from turncredit.envs.bash.task import BashTask


def small_task(**changes: object) -> BashTask:
    """Return a task with two files of which one is to be changed, one is to be made, and an answer."""
    before = with_folders({"d/a.txt": file("one\n"), "d/b.txt": file("two\n")})
    after = with_folders({"d/a.txt": file("ONE\n"), "d/b.txt": file("two\n"), "c.txt": file("new\n")})
    found: dict[str, object] = {
        "id": "x",
        "family": "replace",
        "statement": "Do it.",
        "before": before,
        "after": after,
        "commands": ("echo ONE > d/a.txt", "echo new > c.txt"),
        "answer": "7",
    }
    return BashTask(**{**found, **changes})  # type: ignore[arg-type]


TASK = small_task()
LINK = FileNode("link", 0o777, b"d/b.txt")
ONE = 1 - math.erf(1)


def but(**changes: FileNode | None) -> FileTree:
    """Return the right end with some paths changed ("__" for "/", "_" for ".")."""
    tree = dict(TASK.after)
    for name, node in changes.items():
        path = name.replace("__", "/").replace("_", ".")
        tree.pop(path, None)
        if node is not None:
            tree[path] = node
    return tree


@pytest.mark.parametrize(
    ("tree", "answer", "won"),
    [
        (but(), "7", True),
        (but(), "7.0", True),
        (but(), "8", False),
        (but(), "", False),
        (but(c_txt=file("new")), "7", True),
        (but(c_txt=file("new\n\n")), "7", False),
        (but(c_txt=file("new\n", 0o600)), "7", True),
        (but(c_txt=None), "7", False),
        (but(c_txt=LINK), "7", False),
        (but(c_txt=folder()), "7", False),
        (but(d__a_txt=file("one\n")), "7", False),
        (but(d__b_txt=file("two")), "7", False),
        (but(d__b_txt=None), "7", False),
        (but(d__b_txt=FileNode("link", 0o777, b"a.txt")), "7", False),
        (but(extra=file("")), "7", False),
        (but(extra=LINK), "7", False),
        (but(extra=folder()), "7", True),
    ],
)
def test_the_whole_end_counts(tree: FileTree, answer: str, won: bool) -> None:
    verdict = grade(TASK, tree, answer)
    assert verdict.won is won
    assert (verdict.intercode == 1.0) is won


@pytest.mark.parametrize(
    ("tree", "answer", "share"),
    [
        (TASK.before, "", 0.01 + 0.33 * (1 - math.erf(2)) + 0.33 + 0),  # two changes missing, none common
        (TASK.before, "7", 0.01 + 0.33 * (1 - math.erf(2)) + 0.33 + 0.33),
        (but(c_txt=None), "7", 0.01 + 0.33 * ONE + 0.33 + 0.33),
        (but(c_txt=file("old\n")), "7", 0.01 + 0.33 + 0.33 * 0.5 + 0.33),
        (but(c_txt=file("old\n"), extra=file("")), "", 0.01 + 0.33 * ONE + 0.33 * 0.5 + 0),
        (but(), "it is 7 of 7 or 8", 0.01 + 0.33 + 0.33 + 0.33 * 2 / math.sqrt(1 + 1 + 4 + 1 + 1 + 1)),
    ],
)
def test_shares_are_intercodes(tree: FileTree, answer: str, share: float) -> None:
    assert grade(TASK, tree, answer).intercode == pytest.approx(share)


IDLE = 0.01 + 0.33 * (1 - math.erf(2)) + 0.33


@pytest.mark.parametrize(
    ("tree", "answer", "part"),
    [
        (TASK.before, "", 0.0),
        (TASK.before, "7", 0.33 / (1 - IDLE)),
        (but(c_txt=None), "7", (0.01 + 0.33 * ONE + 0.33 + 0.33 - IDLE) / (1 - IDLE)),
        (but(c_txt=file("old\n"), d__a_txt=file(""), d__b_txt=None), "", 0.0),  # harm done
        (but(), "7", 1.0),
    ],
)
def test_the_partial_reward_begins_at_doing_nothing(tree: FileTree, answer: str, part: float) -> None:
    assert grade(TASK, tree, answer).partial == pytest.approx(part)


def test_folders_count_where_they_were_asked_for() -> None:
    task = small_task(after=with_folders({**TASK.before, "new/inner": folder()}), answer="")
    assert grade(task, task.after, "").won
    assert grade(task, task.before, "").wrong == ("new", "new/inner")
    assert not grade(task, {**task.before, "new": file("")}, "").won


def test_modes_count_where_they_were_asked_for() -> None:
    task = small_task(after={**TASK.before, "d/a.txt": file("one\n", 0o600)}, answer="", modes=True)
    assert grade(task, task.after, "").won
    assert grade(task, task.before, "").wrong == ("d/a.txt",)
    assert grade(task, {**task.after, "d/b.txt": file("two\n", 0o600)}, "").wrong == ("d/b.txt",)


def test_archives_count_by_their_contents() -> None:
    inside = {"d/a.txt": file("one\n")}
    wanted = file(gzip.compress(to_tar(inside)))
    task = small_task(after={**TASK.before, "p.tar.gz": wanted}, answer="", archives=frozenset({"p.tar.gz"}))
    for data, won in [
        (gzip.compress(to_tar(with_folders(inside)), 1), True),
        (to_tar({"./d/a.txt": file("one\n", 0o600)}), True),
        (to_tar({"d/a.txt": file("two\n")}), False),
        (to_tar({**inside, "d/b.txt": file("")}), False),
        (to_tar({"d/a.txt": FileNode("link", 0o777, b"../d/a.txt")}), False),
        (wanted.data[:-9], False),
        (b"", False),
        (b"\x1f\x8bnothing", False),
    ]:
        assert grade(task, {**TASK.before, "p.tar.gz": file(data)}, "").won is won


@pytest.mark.parametrize(
    ("given", "wanted", "same"),
    [
        ("1,200", "1200", True),
        ("'1200'", "1200", True),
        ("1200.00", "1200", True),
        ("1200 lines", "1200", False),
        ("./d/a.txt", "d/a.txt", True),
        ("10.0.1.2", "10.0.1.2", True),
        ("10.0.1.20", "10.0.1.2", False),
        ("1e3", "1000", False),
        ("9" * 10_000, "9", False),
        ("NaN", "7", False),
    ],
)
def test_answers_are_compared_as_numbers_and_texts(given: str, wanted: str, same: bool) -> None:
    assert same_answer(given, wanted) is same


def test_trees_survive_a_box_and_have_keys_of_their_own() -> None:
    tree = with_folders({"a b/é": file(b"\0\xff", 0o600), "l": FileNode("link", 0o777, b"a b"), "e/f": folder()})
    odd = {**tree, "\udcff": file("")}
    assert from_tar(to_tar(odd)) == dict(sorted(odd.items()))
    others = [
        {**tree, "a b/é": file(b"\0\xff", 0o644)},
        {**tree, "a b/é": file(b"\0")},
        {**tree, "l": file("a b")},
        {path: node for path, node in tree.items() if path != "e/f"},
    ]
    assert len({digest(tree), digest(tree, ""), digest(tree, "a"), *map(digest, others)}) == 3 + len(others)

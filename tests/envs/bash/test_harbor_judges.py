"""The judges that go into written Harbor folders decide as the environments do."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toys.sandboxes import needed

from turncredit.envs.bash.filetree import FileTree, file, folder, with_folders
from turncredit.envs.bash.generator import BashLevel, generate, task_ids
from turncredit.envs.bash.grading import grade
from turncredit.envs.bash.harbor import file_judge
from turncredit.envs.bash.harbor.writer import HarborFolder, bash_folder, write_folder
from turncredit.envs.code import CodeEnv, CodeTask, ScriptTest, StdioTest, harbor_judge
from turncredit.envs.code.harbor_folders import code_folder
from turncredit.envs.code.task import BadTask, CallTest

IDS = task_ids("train", BashLevel.of("tiny"), 16) + task_ids("held_out", BashLevel.of("small"), 8)


def put(tree: FileTree, root: Path) -> None:
    """Write a tree to a folder."""
    for path, node in sorted(tree.items()):
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if node.kind == "folder":
            target.mkdir(exist_ok=True)
        elif node.kind == "link":
            target.symlink_to(node.data.decode())
        else:
            target.write_bytes(node.data)
            target.chmod(node.mode)


def put_tests(folder: HarborFolder, root: Path) -> Path:
    """Write the tests of a folder; return where they are."""
    root.mkdir()
    for name, data in folder.tests.items():
        (root / name).write_bytes(data)
    return root


@settings(max_examples=60)
@given(st.data())
def test_files_and_answers_are_judged_as_in_the_environment(tmp_path_factory: pytest.TempPathFactory, data) -> None:
    task = generate(data.draw(st.sampled_from(IDS)))
    tree = dict(data.draw(st.sampled_from([task.before, task.after])))
    for path in data.draw(
        st.lists(st.sampled_from(sorted({*task.before, *task.after, "extra", "new/deep"})), max_size=2)
    ):
        change = data.draw(st.sampled_from(["remove", "empty", "newline", "mode", "folder", "final"]))
        node = tree.pop(path, None)
        if change == "empty":
            tree[path] = file(b"")
        elif change == "folder":
            tree[path] = folder()
        elif change == "final" and path in task.after:
            tree[path] = task.after[path]
        elif node is not None and node.kind == "file" and change in ("newline", "mode"):
            tree[path] = node._replace(data=node.data + b"\n") if change == "newline" else node._replace(mode=0o755)
    tree = with_folders({path: node for path, node in tree.items() if not _inside_a_file(path, tree)})
    answer = data.draw(st.sampled_from([task.answer, f" {task.answer}\n", "", "7"]))
    root = tmp_path_factory.mktemp("task")
    tests = put_tests(bash_folder(task, "turncredit/Bash-v0"), root / "tests")
    (root / "work").mkdir()
    put(tree, root / "work")
    about = json.loads((tests / "task.json").read_text())
    (root / "work" / about["answer_file"]).write_text(answer)
    wrong, answered = file_judge.judge(str(root / "work"), tests)
    graded = grade(task, tree, answer)
    assert (not wrong and answered) == graded.won
    assert (tuple(wrong), answered) == (graded.wrong, graded.answered)
    shutil.rmtree(root)


def _inside_a_file(path: str, tree: FileTree) -> bool:
    parents = [path[:end] for end, letter in enumerate(path) if letter == "/"]
    return any(parent in tree and tree[parent].kind != "folder" for parent in parents)


CODE = CodeTask(
    id="echo",
    statement="Write echo.",
    files={"solution.py": ""},
    visible=(),
    hidden=(
        CallTest("echo", "(1,)", "1"),
        CallTest("echo", "((1, 2),)", "[1, 2]", form="json"),
        CallTest("echo", "([7],)", "[[7]]", form="listed"),
        CallTest("echo", "(1e999,)", "1e999"),
        CallTest("echo", "()", "{'k': {1, 2}}", "{'value': {'k': {1, 2}}}"),
        CallTest("Solution().twice", "('inf',)", "'infinf'"),
        StdioTest("a b\n", "\nA B  \n\n"),
    ),
    solution={"solution.py": ""},
)
GOOD = """import sys
class Solution:
    def twice(self, text):
        print("noise")
        return text + text
def echo(value):
    return value
if __name__ == "__main__":
    print(sys.stdin.read().upper())
"""


@pytest.mark.waits
@pytest.mark.parametrize(
    ("program", "results"),
    [
        (GOOD, [True] * 7),
        (GOOD.replace("return value", "return str(value)"), [False] * 5 + [True, True]),
        (GOOD.replace("return value", "raise SystemExit"), [False] * 5 + [True, True]),
        (GOOD.replace("upper", "lower"), [True] * 6 + [False]),
        (GOOD.replace("return value", "return object()"), [False] * 5 + [True, True]),
        ("def echo(:\n", [False] * 7),
        ("", [False] * 7),
    ],
)
def test_programs_are_judged_as_in_the_environment(tmp_path: Path, program: str, results: list[bool]) -> None:
    needed("bwrap")
    tests = put_tests(code_folder(CODE, "turncredit/Code-v0"), tmp_path / "tests")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "solution.py").write_text(program)
    env = CodeEnv(sandbox="bwrap", seconds=20)
    graded = env._grader({"solution.py": program}, "solution.py", CODE.hidden)
    env.close()
    assert harbor_judge.judge(str(tmp_path / "work"), tests) == results == [case.passed for case in graded.outcomes]


def test_scripts_and_tasks_without_a_solution_are_refused() -> None:
    script = ScriptTest("def check(candidate):\n    assert candidate(1) == 1\n", "check", "echo")
    with pytest.raises(BadTask, match="has a test that is a script"):
        code_folder(CodeTask("s", "x", {}, (), (script,), {"solution.py": "x"}), "turncredit/Code-v0")
    with pytest.raises(BadTask, match="no known solution"):
        code_folder(CodeTask("s", "x", {}, (), CODE.hidden), "turncredit/Code-v0")


@pytest.mark.parametrize(
    "folder", [bash_folder(generate(IDS[0]), "turncredit/Bash-v0"), code_folder(CODE, "turncredit/Code-v0")]
)
def test_judges_need_nothing_but_python(folder: HarborFolder, tmp_path: Path) -> None:
    """They are imported without this package, and from no folder but their own."""
    written = write_folder(folder, tmp_path)
    judge = next(path for path in (written / "tests").glob("*_judge.py"))
    words = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        f"import sys; sys.path.insert(0, {str(judge.parent)!r}); import {judge.stem}",
    ]
    assert subprocess.run(words, capture_output=True, text=True, check=False).stderr == ""
    assert "turncredit" not in judge.read_text().partition('"""\n')[2]

"""Files after a run, and episodes whose sandbox is in an odd state, full or dead."""

import json
from pathlib import Path

import pytest
from toys.sandboxes import ALL, needed, needs_box

from turncredit.envs.code import CodeEnv
from turncredit.envs.code.grading import LIMITS, CodeGrader
from turncredit.envs.code.workspace import LONGEST_FILE, MAX_FILES
from turncredit.envs.errors import EnvError
from turncredit.tools.sandbox import BadPath, Box, BoxFull, BoxLost, Limits, SandboxError, start

pytestmark = pytest.mark.waits

MANY = {f"f{number:03}.txt": "a\n" for number in range(MAX_FILES + 16)}
ODD = {"data.txt": "x" * (LONGEST_FILE + 50_000), ".hidden/cfg.txt": "a\n", "nul.txt": "\0"}
SUM = "def add(a, b):\n    return a + b\n"


def env_of(folder: Path, files: dict[str, str], seconds: float = 10.0, limits: Limits | None = None) -> CodeEnv:
    """Return an environment at the beginning of a task with these files."""
    task = {
        "statement": "Write add(a, b).",
        "files": {"solution.py": "pass\n", **files},
        "solution": SUM,
        "hidden": [{"call": f"add(1, {number})", "returns": f"{number + 1}"} for number in range(3)],
    }
    path = folder / "tasks.jsonl"
    path.write_text(json.dumps(task))
    env = CodeEnv(path, seconds=seconds, limits=limits)
    env.reset()
    return env


def files_of(env: CodeEnv) -> dict[str, str]:
    assert env._workspace is not None
    return env._workspace.files


@needs_box
@pytest.mark.parametrize("files", [ODD, MANY])
def test_a_run_keeps_the_files_of_the_task_whatever_they_are(files: dict[str, str], tmp_path: Path) -> None:
    env = env_of(tmp_path, files)
    before = dict(files_of(env))
    said, _, _, _, info = env.step("run")
    assert said == "(no output)"
    assert files_of(env) == before
    assert info["state"] == env.step("nonsense")[4]["state"]
    for action in env.plan():
        info = env.step(action)[4]
    assert info["won"]
    env.close()


@needs_box
def test_a_folders_files_with_white_space_are_kept(tmp_path: Path) -> None:
    for path, text in {
        "one/statement.md": "s",
        "one/files/solution.py": "pass\n",
        "one/files/a b.txt": "3",
        "one/hidden/test_a.py": "from solution import add\ndef test_a():\n    assert add(1, 2) == 3\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    env = CodeEnv(tmp_path)
    env.reset()
    env.step("run\nopen('c d.txt', 'w').write('x')")
    assert sorted(files_of(env)) == ["a b.txt", "solution.py"]
    env.close()


@needs_box
def test_limits_are_for_what_a_run_makes_or_changes(tmp_path: Path) -> None:
    env = env_of(tmp_path, ODD)
    for program, said, changed in (
        ("open('data.txt', 'a').write('y')", "[data.txt was no text or too long, and is as it was before]", {}),
        ("open('data.txt', 'w').write('y')", "(no output)", {"data.txt": "y"}),
        ("open('.hidden/cfg.txt', 'w').write('b')", "(no output)", {".hidden/cfg.txt": "b"}),
        ("open('.new', 'w').write('b')", "(no output)", {}),
        ("open('new', 'wb').write(b'\\xff')", "1 files are no text", {}),
        (f"open('new', 'w').write('x' * {LONGEST_FILE + 1})", "1 files are no text, too long", {}),
        ("import os; os.remove('nul.txt')", "(no output)", {"nul.txt": None}),
    ):
        want = {**files_of(env), **changed}
        assert said in env.step(f"run\n{program}")[0]
        assert files_of(env) == {path: text for path, text in want.items() if text is not None}
    made = env.step("run\nfor n in range(99):\n    open(f'm{n:02}', 'w').write('x')")[0]
    assert len(files_of(env)) == MAX_FILES
    assert f"{99 + 3 - MAX_FILES} files are" in made
    data = env.snapshot()
    assert env.restore(data)[1]["state"] == env.get_info(True)["state"]
    env.close()


@pytest.mark.parametrize("backend", ALL)
@pytest.mark.parametrize(
    "program",
    [
        "open('x', 'w').write('1'); os.chmod('x', 0)",
        "os.mkdir('d'); open('d/x', 'w').write('1'); os.chmod('d', 0)",
        "os.mkfifo('p'); os.symlink('/etc/passwd', 'l'); os.symlink('l2', 'l2')",
        "os.chmod('solution.py', 0); os.chmod('.', 0)",
    ],
)
def test_odd_files_do_not_end_an_episode(backend: str, program: str) -> None:
    needed(backend)
    env = CodeEnv(level="tiny", sandbox=backend, seconds=10)
    _, begun = env.reset(seed=1)
    assert env.step(f"run\nimport os; {program}")[4]["valid"]
    assert "solution.py" in env.step("run\nimport os; print(os.listdir())")[0]
    assert "tests pass" in env.step("test")[0]
    assert env.step("submit")[2]
    assert begun["valid"]
    env.close()


@needs_box
def test_a_snapshot_that_cannot_be_taken_puts_the_files_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = env_of(tmp_path, {})
    env.step("run\nprint(1)")
    assert env._workspace is not None
    box = env._workspace._box
    assert box is not None

    def odd() -> bytes:
        raise BadPath("'x' in the box: Permission denied")

    monkeypatch.setattr(box, "snapshot", odd)
    said, _, _, _, info = env.step("run\nopen('y', 'w').write('1')")
    assert said.endswith("[the files were put back as they were before: 'x' in the box: Permission denied]")
    assert info["valid"]
    assert "y" not in files_of(env)
    assert box.closed
    assert env.step("run\nprint(2)")[0] == "2"
    env.close()


class Dying:
    """Gives boxes, of which the first few die when something is run in them."""

    def __init__(self, times: int, error: type[SandboxError] = BoxLost) -> None:
        self.times, self.error = times, error

    def __call__(self) -> Box:
        """Return a box."""
        box = start(LIMITS)
        if self.times > 0:
            self.times -= 1

            def dead(*_: object, **__: object) -> None:
                box.close()
                raise self.error("the container is gone")

            box.run = box.session = dead  # type: ignore[method-assign,assignment]
        return box


@needs_box
@pytest.mark.parametrize("action", ["run\nprint('again')", "submit"])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_box_that_dies_is_replaced_once(action: str, times: int, tmp_path: Path) -> None:
    env = env_of(tmp_path, {"n.txt": f"{action} {times}"})
    env.step(f"write solution.py\n{SUM}")
    judge = CodeGrader(Dying(times), 10.0, key="dying")
    assert env._workspace is not None
    env._grader = env._workspace.grader = judge
    if times == 1:
        said, reward, over, _, info = env.step(action)
        assert ("again" in said, reward, info["won"]) == (not over, float(over), over)
    elif times == 2:  # an empty program works, so it is this one that ends its sandbox
        said, reward, _, _, info = env.step(action)
        assert "[the program ended its sandbox]" in said or "0 of 3 hidden tests pass" in said
        assert (reward, info["won"]) == (0.0, False)
    else:
        with pytest.raises(EnvError, match="the program could not be run: the container is gone"):
            env.step(action)
    env.close()


@needs_box
def test_more_than_a_box_holds_is_the_agents_loss_or_the_tasks_fault(tmp_path: Path) -> None:
    small = LIMITS.but(files=20)
    env = env_of(tmp_path, {}, limits=small)
    path = "/".join("abcdefghijklmnopqrstuvwxyz")
    env.step(f"write {path}\nx")
    for action in ("run", "test", "submit"):
        said, reward, over, _, info = env.step(action)
        assert reward == info["score"] == 0.0
    assert over
    assert "do not fit into the box" in said
    env.close()
    env = env_of(tmp_path, {path: "x"}, limits=small)
    with pytest.raises(EnvError, match="the files of task '1' exceed the limits"):
        env.step("run")
    env.close()
    assert issubclass(BoxFull, SandboxError)


@needs_box
def test_the_processor_time_is_that_of_seconds(tmp_path: Path) -> None:
    burn = "from time import process_time as now\ndef add(a, b):\n    t = now()\n    while now() < t + 0.8: pass\n"
    env = env_of(tmp_path, {}, seconds=60.0, limits=LIMITS.but(cpu=1))
    env.step(f"write solution.py\n{burn}    return a + b\n")
    said, reward, _, _, _ = env.step("submit")
    assert (said, reward) == ("Handed in: 3 of 3 hidden tests pass.", 1.0)
    env.close()

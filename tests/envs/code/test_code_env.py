"""The code environment: episodes, state keys, rewards and snapshots."""

import json
import pickle
from pathlib import Path

import pytest
from code_boxes import CHEATS
from toys.sandboxes import ALL, needed, needs_box

from turncredit.envs import branch, make
from turncredit.envs.check import Effort, check_env
from turncredit.envs.code import CodeEnv
from turncredit.envs.errors import BadSnapshot, EnvError, StepAfterEnd
from turncredit.envs.snapshot import pack, unpack

pytestmark = pytest.mark.waits

TASK = "train/tiny/000001"


def begun(**options: object) -> CodeEnv:
    env = CodeEnv(level="tiny", **options)  # type: ignore[arg-type]
    env.reset(seed=0, options={"task": TASK})
    return env


@needs_box
def test_the_one_edit_wins() -> None:
    env = begun()
    plan = env.plan()
    assert plan[0].startswith("replace ")
    assert plan[1:] == ["test", "submit"]
    assert "0 of 2" in env.step("test")[0]
    _, reward, over, _, info = env.step(plan[0])
    assert (reward, over, info["valid"]) == (0.0, False, True)
    assert "2 of 2" in env.step("test")[0]
    assert env.plan() == ["submit"]
    _, reward, over, _, info = env.step("submit")
    assert (reward, over, info["won"], info["score"]) == (1.0, True, True, 1.0)
    assert env.plan() == []
    with pytest.raises(StepAfterEnd):
        env.step("test")
    env.close()


@pytest.mark.parametrize("backend", ALL)
def test_every_kind_of_box_judges_alike(backend: str) -> None:
    needed(backend)
    for text, score in (
        ("", 1.0),
        ("import os\nos._exit(0)", 0.0),
        ("def f(*a):\n    return type('E', (), {'__eq__': lambda *a: True})()", 0.0),
    ):
        env = begun(sandbox=backend)
        env.step(f"write solution.py\n{text}" if text else env.plan()[0])
        said = env.step("test")[0]
        assert ("2 of 2" in said) == (score == 1.0), said
        _, reward, over, _, info = env.step("submit")
        assert (reward, over, info["won"]) == (score, True, score == 1.0)
        env.close()


@pytest.mark.parametrize("backend", ALL)
@pytest.mark.parametrize("cheat", ["patches builtins", "patches the driver", "reads the tests", "atexit"])
def test_no_cheat_wins_in_any_kind_of_box(backend: str, cheat: str, tmp_path: Path) -> None:
    needed(backend)
    code = "from solution import f\ndef test_a():\n    assert f('a', 'b') == 'ab'\n"
    hidden = [{"call": "f(1, 2)", "returns": "3"}, {"call": "f([1], [2])", "returns": "[1, 2]"}, {"code": code}]
    path = tmp_path / "tasks.jsonl"
    path.write_text(json.dumps({"statement": "Write f(a, b).", "hidden": hidden}))
    env = CodeEnv(path, sandbox=backend)
    env.reset()
    env.step(f"write solution.py\n{CHEATS[cheat]}")
    said, reward, over, _, info = env.step("submit")
    assert (reward, over, info["won"]) == (0.0, True, False)
    assert said.startswith("Handed in: 0 of 3 hidden tests pass")
    env.close()


@needs_box
def test_the_contract_is_kept() -> None:
    report = check_env("turncredit/Code-v0", kwargs={"level": "tiny"}, tasks=2, effort=Effort.light())
    assert report.ok, report


@needs_box
def test_branches_go_on_alike_and_apart() -> None:
    env = make("turncredit/Code-v0", level="tiny")
    env.reset(seed=1)
    first, *rest = env.get_wrapper_attr("plan")()
    env.step(first)
    one, two = branch(env, 2)
    assert [one.step(action)[:3] for action in rest] == [env.step(action)[:3] for action in rest]
    assert one.unwrapped.get_info(True)["won"]  # type: ignore[attr-defined]
    two.step("write solution.py\npass")
    assert two.step("submit")[1] == 0.0
    for other in (env, one, two):
        other.close()


@needs_box
def test_rewards() -> None:
    for options, edit, want in (
        ({}, "replace 2:     d = {}", (0.0, 1.0)),
        ({"reward": "all"}, "write solution.py\ndef f(l):\n    return {'plum': 3, 'tea': 3, 'egg': 3}", (0.0, 0.5)),
    ):
        env = begun(**options)
        env.step(edit)
        _, reward, over, _, info = env.step("submit")
        assert over
        assert not info["won"]
        assert want[0] <= reward < want[1]
        with pytest.raises(EnvError, match="wrong submission"):
            env.plan()
        env.close()


@needs_box
def test_shaping_pays_a_rise_once() -> None:
    env = begun(shaping=0.5)
    assert env.step("test")[1] == 0.0
    plan = env.plan()
    before = env.step(plan[0])[4]["state"]
    _, reward, _, _, info = env.step("test")
    assert reward == 0.5
    assert info["state"] != before  # what can still be earned belongs to the state
    assert env.step("test")[1] == 0.0
    env.close()


@needs_box
def test_files_are_the_state_and_answers_are_not() -> None:
    env = begun()
    first = env.step("show solution.py")[4]["state"]
    assert env.step("run\nprint('x' * 5)")[4]["state"] == first
    wrote = env.step("run\nopen('data.txt', 'w').write('1')")[4]["state"]
    assert wrote != first
    assert "1 1" in env.step("show data.txt")[0]
    assert env.step("run\nimport os; os.remove('data.txt')")[4]["state"] == first
    assert env.step("nonsense")[4] | {"valid": True} == env.step("show solution.py")[4]
    env.close()


@needs_box
@pytest.mark.parametrize(
    ("program", "shown"),
    [
        ("while True: pass", "[stopped after 0.5 seconds]"),
        ("import sys; sys.stdout.buffer.write(bytes(range(256)))", "\\x00\\x01"),
        ("print('x' * 10**8)", "[stopped: it wrote too much]"),
        ("import sys; sys.exit(3)", "[exit code 3]"),
        ("1 / 0", "ZeroDivisionError"),
        ("pass", "(no output)"),
    ],
)
def test_answers_of_programs(program: str, shown: str) -> None:
    env = begun(seconds=0.5 if "while" in program else 10.0, budget=300)
    observation = env.step(f"run\n{program}")[0]
    assert shown in observation
    assert len(observation) < 400
    assert all(character.isprintable() or character in "\n\t" for character in observation)
    env.close()


@needs_box
def test_hidden_tests_are_nowhere_inside() -> None:
    env = begun()
    seen = env.step("run\nimport os\nfor root, _, names in os.walk('/work'):\n    print(root, names)")[0]
    assert "['solution.py']" in seen
    task = env._task
    assert task is not None
    everything = env.step("run\nimport os, sys; print(dict(os.environ), sys.argv, open('solution.py').read())")[0]
    for test in task.hidden:
        assert test.text not in everything  # type: ignore[union-attr]
    env.close()


@needs_box
def test_pickling_and_snapshots_go_on_alike() -> None:
    env = begun()
    env.step("run\nopen('a.txt', 'w').write('b')")
    other = pickle.loads(pickle.dumps(env))
    third = CodeEnv(level="tiny")
    third.restore(env.snapshot())
    for action in ("show a.txt", "test", *env.plan()):
        answers = [one.step(action) for one in (env, other, third)]
        assert answers[0] == answers[1] == answers[2]
    for one in (env, other, third):
        one.close()


def test_snapshots_carry_the_episode_and_its_chance() -> None:
    env = begun(shaping=0.5)
    env.reset(seed=3)
    env.step("write a.txt\nb")
    other = CodeEnv(level="tiny", shaping=0.5)
    observation, info = other.restore(env.snapshot())
    assert observation == "a.txt is now:\n1 b"
    assert info == env.get_info(True)
    assert other.snapshot() == env.snapshot()
    assert other.reset() == env.reset()  # the next task is drawn alike


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"task": 1}, "'task' must be a string, got 1"),
        ({"task": "train/tiny/1"}, "does not have the snapshot.s task"),
        ({"fingerprint": "x"}, "differs from the one"),
        ({"files": ["a"]}, "'files' must be"),
        ({"files": {"a": 1}}, "maps paths to strings"),
        ({"files": {"../a": "x"}}, "relative to its directory"),
        ({"files": {"a": "x" * 100_001}}, "at most 100,000"),
        ({"files": {"a": "x", "a/b": "y"}}, "would have to be a folder"),
        ({"files": {f"a{number}": "" for number in range(65)}}, "64 files already"),
        ({"best": 1}, "must be a float"),
        ({"best": float("nan")}, "a number in"),
        ({"score": 7.0}, "a number in"),
        ({"shown": ["a"]}, "two strings"),
        ({"random": {"state": -1, "inc": 1, "kept": None, "seed": 1}}, "128 bits"),
    ],
)
def test_forged_snapshots_are_refused(change: dict[str, object], why: str) -> None:
    env = begun()
    saved = unpack(env.snapshot(), "Code", 1, env.snapshot_arguments())._values
    with pytest.raises(BadSnapshot, match=why):
        env.restore(pack("Code", 1, env.snapshot_arguments(), saved | change))
    assert env.restore(env.snapshot())[1] == env.get_info(True)  # the episode goes on


def test_snapshots_of_other_versions_and_arguments_are_refused() -> None:
    env = begun()
    for other in (
        {"level": "small"},
        {"split": "held_out"},
        {"reward": "all"},
        {"shaping": 1.0},
        {"budget": 500},
        {"seconds": 9},
        {"packages": True},
    ):
        with pytest.raises(BadSnapshot, match=next(iter(other))):
            CodeEnv(**{"level": "tiny", **other}).restore(env.snapshot())  # type: ignore[arg-type]
    for data in (
        env.snapshot()[:-1],
        b"{}",
        pack("Code", 2, env.snapshot_arguments(), {}),
        pack("Bash", 1, env.snapshot_arguments(), {}),
    ):
        with pytest.raises(BadSnapshot):
            env.restore(data)


def test_actions_that_have_no_place_are_answered() -> None:
    env = begun()
    for action, why in (
        ("show other.py", "no file other.py"),
        ("replace 99: x", "no line 99"),
        ("write solution.py/x\n1", "would have to be a folder"),
        ("write a\n" + "x" * 100_001, "at most 100,000"),
    ):
        observation, _, _, _, info = env.step(action)
        assert why in observation
        assert not info["valid"]


@needs_box
def test_a_program_that_nests_folders_without_end_does_not_end_the_episode() -> None:
    env = begun()
    program = "import os\nfor _ in range(400):\n    os.mkdir('d')\n    os.chdir('d')"
    observation, _, _, _, info = env.step(f"run\n{program}")
    assert "put back as they were before: cannot take a snapshot" in observation
    assert info["valid"]
    assert env.step("run\nimport os; print(os.listdir())")[0] == "['solution.py']"
    env.close()

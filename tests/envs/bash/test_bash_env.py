"""The shell environment in a real sandbox: shell, expert, cheating, snapshots, contract."""

from __future__ import annotations

import dataclasses
import pickle

import pytest
from toys.sandboxes import needs_box

from turncredit.envs.bash import FAMILIES, BashEnv
from turncredit.envs.bash.env import LOOK
from turncredit.envs.bash.shell import Shell, ShellResult
from turncredit.envs.caching import ByteLimitedCache
from turncredit.envs.check import Effort, check_env
from turncredit.envs.errors import BadSnapshot, EnvError, StepAfterEnd
from turncredit.tools.sandbox import Limits

pytestmark = pytest.mark.waits

COUNT = "train/tiny/000004"
MERGE = "train/tiny/000007"


@pytest.fixture(scope="module")
def env():
    one = BashEnv(level="tiny", seconds=60)
    yield one
    one.close()


def play(env: BashEnv, task: str, *actions: str) -> tuple[str, dict[str, object]]:
    """Play actions of a task; return the last observation and info."""
    observation, info = env.reset(options={"task": task})
    for action in actions:
        observation, _, _, _, info = env.step(action)
    return observation, info


@needs_box
@pytest.mark.parametrize("level", ["tiny", "medium"])
def test_the_expert_wins_every_family(level: str) -> None:
    env = BashEnv(split="held_out", level=level, seconds=60)
    seen = set()
    for task in env.task_ids(len(FAMILIES)):
        env.reset(options={"task": task})
        for action in env.plan()[1:]:
            _, reward, terminated, _, info = env.step(action)
        assert (info["won"], reward, terminated, info["score"]) == (True, 1.0, True, 1.0), (task, env.grade)
        assert env.plan() == []
        seen.add(info["task_type"])
    env.close()
    assert seen == set(FAMILIES)


@needs_box
def test_a_shell_keeps_its_folder_and_files_and_nothing_else(env: BashEnv) -> None:
    env.reset(options={"task": MERGE})
    top = next(iter(env.task.before))
    for action, said in [
        ("mkdir -p 'a b'; cd 'a b'; x=1; echo hi > f", "(no output)\n[in /work/a b]"),
        ("pwd; echo [$x]; cat f", "/work/a b\n[]\nhi"),
        ("cat missing || exit 3", "cat: missing: No such file or directory\n[exit code 3]"),
        ("echo $LC_ALL $TZ; stat -c %Y f .", "C UTC\n1704067200\n1704067200"),
        ("printf 'a\\0\\033[1m'", "a\\x00\\x1b[1m"),
        ("cat", "(no output)"),
        ("export y=1; (sleep 60 &) ; cd ..; echo done", "done\n[in /work]"),
        ("kill -9 $$", "[killed]"),
        ("cd 'a b'; exit 2", "[exit code 2]\n[in /work/a b]"),
        ("rm -r '../a b'", "[the folder in which the shell was is gone: this is /work]\n[in /work]"),
        ("ls", top),
    ]:
        assert env.step(action)[0] == said
        assert env.step("pwd")[4]["valid"]


@needs_box
def test_what_the_shell_cannot_understand_is_invalid_and_changes_nothing(env: BashEnv) -> None:
    _, before = play(env, COUNT)
    for action in ("frobnicate", "if then", "echo 'a", "touch made; if then", "", "\0"):
        observation, reward, terminated, _, info = env.step(action)
        assert (info["valid"], info["state"], reward, terminated) == (False, before["state"], 0.0, False), action
        assert observation
    for action in ("grep nothing *", "false", "touch made; frobnicate"):
        assert env.step(action)[4]["valid"], action


@needs_box
def test_nothing_is_kept_outside_of_the_folder(env: BashEnv) -> None:
    _, info = play(
        env, COUNT, 'echo x > "$TMPDIR/left"; mkdir -m 0 "$TMPDIR/.d"; (echo x > /dev/shm/left) 2>/dev/null; true'
    )
    assert info["state"] == play(env, COUNT)[1]["state"]
    assert env.step('ls -A "$TMPDIR"; cat /dev/shm/left 2>/dev/null')[0].startswith(("(no output)", "[exit code 1]"))


@needs_box
def test_too_much_is_cut_and_too_long_is_ended() -> None:
    env = BashEnv(level="tiny", seconds=60, budget=200, limits=Limits(output=50_000, disk=1 << 20))
    env.reset(options={"task": COUNT})
    long, _, _, _, info = env.step("yes | head -c 20000")
    assert len(long) < 300
    assert "characters left out" in long
    assert env.step("yes")[0].endswith("[stopped: it wrote too much]")
    state = info["state"]
    deep = (
        "for i in 1 2 3 4 5 6 7 8 9; do mkdir -p $(printf 'd/%.0s' $(seq 100)); cd $(printf 'd/%.0s' $(seq 100)); done"
    )
    observation, _, _, _, info = env.step(deep)
    assert "the files were put back" in observation
    assert info["state"] == state
    assert env.step("echo still here")[0] == "still here"
    env.close()
    env = BashEnv(level="tiny", seconds=1)
    env.reset(options={"task": COUNT})
    assert env.step("sleep 300")[0] == "[stopped after 1 seconds]"
    env.close()


@needs_box
def test_links_do_not_fool_the_judge(env: BashEnv) -> None:
    env.reset(options={"task": MERGE})
    (path,) = set(env.task.after) - set(env.task.before)
    for command in env.task.commands:
        env.step(command)
    env.step(f"mv {path} ../other 2>/dev/null || mv {path} hidden; ln -s $PWD/hidden {path}; cat {path}")
    assert env.step("submit")[1] == 0.0
    assert env.grade is not None
    assert path in env.grade.wrong
    with pytest.raises(EnvError, match="wrong submission"):
        env.plan()


@needs_box
def test_the_box_holds_nothing_of_the_solution(env: BashEnv) -> None:
    env.reset(options={"task": COUNT})
    assert env.step("env | grep -c submit; ls -A | wc -l")[0] == "0\n1"
    seen = env.step("cat /proc/*/cmdline /proc/*/environ 2>/dev/null | tr '\\0' '\\n'")[0]
    assert env.task.commands[0] not in seen
    assert env.task.statement not in seen


@needs_box
def test_the_expert_finds_back(env: BashEnv) -> None:
    play(env, MERGE)
    top = next(iter(env.task.before))
    env.step(f"printf 'a\\0b' > x; mkdir -p y/z; ln -s x l; for f in {top}/*; do echo more >> $f; done")
    env.step(f"rm -f {top}/*.list; cd y")
    assert env.step(f"touch -- -n; chmod 700 /work/{top}; touch $'/work/a\\nb'")[4]["valid"]
    actions = env.plan()
    assert LOOK not in actions
    for action in actions:
        info = env.step(action)[4]
    assert info["won"], env.grade


@needs_box
def test_a_first_look_belongs_to_the_plan_once(env: BashEnv) -> None:
    play(env, MERGE)
    first, *rest = env.plan()
    assert first == LOOK
    assert env.step(first)[0].startswith(".:\n")
    assert env.plan() == rest
    env.step(rest[0])
    assert env.plan() == rest[1:]


@needs_box
def test_snapshots_go_on_elsewhere(env: BashEnv) -> None:
    play(env, MERGE, "mkdir q; cd q", "echo x > f")
    data = env.snapshot()
    other = BashEnv(level="tiny", seconds=60)
    observation, info = other.restore(data)
    assert (observation, info["state"]) == ("(no output)", env.get_info(True)["state"])
    assert other.step("cat f; pwd")[0] == env.step("cat f; pwd")[0] == "x\n/work/q"
    assert other.plan() == env.plan()
    other.step("submit")
    over = BashEnv(level="tiny")
    assert over.restore(other.snapshot())[1]["state"] == other.get_info(True)["state"]
    with pytest.raises(StepAfterEnd):
        over.step("ls")
    with pytest.raises(BadSnapshot, match="level"):
        BashEnv(level="small").restore(data)
    with pytest.raises(BadSnapshot):
        over.restore(data[:-5])
    again = pickle.loads(pickle.dumps(env))
    assert again.step("cat f")[0] == "x"
    for one in (other, over, again):
        one.close()


@needs_box
def test_a_box_that_died_is_replaced(env: BashEnv) -> None:
    play(env, COUNT, "echo x > f")
    assert env._shell._box is not None
    env._shell._box.close()
    assert env.step("cat f")[0] == "x"


@needs_box
def test_the_contract_is_kept() -> None:
    effort = Effort(
        walks=1, turns=5, pairs=4, states=2, depth=3, continuations=1, search=20, long=17, plans=2, contents=4
    )
    kwargs = {"level": "tiny", "seconds": 20}
    report = check_env("turncredit/Bash-v0", kwargs=kwargs, tasks=1, effort=effort, level="runtime")
    assert report.ok, report


def test_answers_are_remembered_and_forgotten_with_memory_off() -> None:
    calls: list[str] = []

    class Counted(Shell):
        def _run_uncached(self, tree, folder, command, seconds):
            calls.append(command)
            return ShellResult("said", True, tree, folder), command != "slow"

    def never() -> object:
        raise AssertionError

    for command in ("a", "a", "slow", "slow"):
        assert Counted(never, 1.0, "these tests").run({}, "", command).text == "said"
    Counted(never, 1.0, "these tests").run({}, "other", "a")
    Counted(never, 1.0, "others").run({}, "", "a")
    assert calls == ["a", "slow", "slow", "a", "a"]
    for _ in range(2):
        Counted(never, 1.0).run({}, "", "a")
    assert calls[5:] == ["a", "a"]


def test_what_weighs_too_much_is_forgotten_oldest_first() -> None:
    memory: ByteLimitedCache[int] = ByteLimitedCache(most=10_000)
    for number in range(3):
        memory.keep(str(number), number, 1000)
    assert memory.get("0") == 0
    memory.keep("3", 3, 1000)
    assert [memory.get(key) for key in "0123"] == [0, None, 2, 3]
    memory.keep("3", 4, 20_000)
    assert [memory.get(key) for key in "0123"] == [None] * 4


def test_what_is_recalled_is_made_once_where_it_is_kept() -> None:
    memory: ByteLimitedCache[int] = ByteLimitedCache()
    made = iter(range(9))
    assert [memory.recall("a", lambda: next(made), lambda _: 1) for _ in range(3)] == [0, 0, 0]
    assert [memory.recall("b", lambda: next(made), lambda _: None) for _ in range(2)] == [1, 2]
    memory.forget()
    assert memory.recall("a", lambda: next(made), lambda _: 1) == 3


def test_intercodes_measure_pays_for_nothing_and_partial_does_not() -> None:
    for reward, low, high in (("whole", 0.0, 0.0), ("intercode", 0.72, 0.73), ("partial", 0.0, 0.0)):
        env = BashEnv(level="tiny", reward=reward)
        env.reset(options={"task": MERGE})
        _, paid, terminated, _, info = env.step("submit")
        assert terminated
        assert low <= paid == info["score"] <= high
        assert not info["won"]


@pytest.mark.parametrize("family", FAMILIES)
def test_doing_nothing_gains_nothing(family: str) -> None:
    """InterCode's reward pays most for it, in every family: what doing something pays more is another form."""
    for reward, low, high in (("intercode", 0.67, 0.73), ("partial", 0.0, 0.0)):
        env = BashEnv(level=f"small+families={family}", reward=reward)
        for task in env.list_tasks(3):
            env.reset(options={"task": task})
            paid = env.step("submit")[1]
            assert low <= paid == env.get_info(True)["score"] <= high


def test_a_right_answer_alone_wins_a_question() -> None:
    env = BashEnv(level="tiny")
    env.reset(options={"task": COUNT})
    observation, reward, terminated, _, info = env.step(env.task.submission)
    assert (reward, terminated, info["won"], observation) == (1.0, True, True, "Submitted: the task is done.")


def test_verdicts_and_tasks_are_data() -> None:
    env = BashEnv(level="tiny", render_mode="ansi")
    observation, _ = env.reset(options={"task": COUNT})
    assert env.render() == f"{observation}\n"
    assert env.grade is None
    assert dataclasses.is_dataclass(env.task)


@needs_box
def test_the_processor_time_is_that_of_seconds() -> None:
    env = BashEnv(level="tiny", seconds=30, limits=Limits(cpu=1))
    env.reset(options={"task": COUNT})
    assert env.step("while [ $SECONDS -lt 3 ]; do :; done; echo done")[0] == "done"
    env.close()

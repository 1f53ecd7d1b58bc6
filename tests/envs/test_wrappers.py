"""Turn limits, deadlines, and environments in their own process."""

from __future__ import annotations

import functools
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import pytest
from toys.corridor import ID, Corridor

from turncredit.envs import (
    Deadline,
    DeadlineExceeded,
    EndGuard,
    EnvError,
    EnvironmentDied,
    Isolated,
    NotReset,
    StepAfterEnd,
    TurnLimit,
    UnknownTask,
    make,
)

TASK = {"task": "open-3-1"}
LONG = 60.0


class Odd(Corridor):
    """A corridor in which some words do harm."""

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        match action:
            case "hang":
                time.sleep(20 * LONG)
            case "exit":
                os._exit(7)
            case "signal":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "raise":
                raise Unportable(lambda: None)
            case "pid":
                return str(os.getpid()), 0.0, False, False, {}
            case "function":
                return "", 0.0, False, False, {"function": lambda: None}
            case "child":
                # Something that this process starts must not outlive it.
                child = subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({20 * LONG})"])
                return str(child.pid), 0.0, False, False, {}
        return super().step(action)


class Unportable(Exception):
    """An exception that does not pickle."""


class Plain(gymnasium.Env[Any, Any]):
    """An environment without the optional methods."""

    observation_space = action_space = Corridor().action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        return "", {}


class Flags(gymnasium.Env[Any, Any]):
    """Ends as it is told: the action is the pair of flags."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        return "", {}

    def step(self, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        return "", 0.0, action[0], action[1], {}


def gone(pid: int) -> bool:
    """Whether a process has ended, or ends within some seconds; a zombie has ended."""
    for _ in range(3000):
        try:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except FileNotFoundError:
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize(("given", "seen"), [((1, 1), (1, 0)), ((1, 0), (1, 0)), ((0, 1), (0, 1))])
def test_end_guard_keeps_one_end_and_answers_nothing_after_it(given: tuple[int, int], seen: tuple[int, int]):
    env = EndGuard(Flags())
    with pytest.raises(NotReset):
        env.step((False, False))
    env.reset()
    assert env.step((False, False))[2:4] == (False, False)
    assert env.step(tuple(map(bool, given)))[2:4] == tuple(map(bool, seen))
    with pytest.raises(StepAfterEnd):
        env.step((False, False))
    env.reset()
    env.step((False, False))


def test_a_failed_reset_leaves_no_episode():
    for env in (EndGuard(Corridor()), TurnLimit(Corridor(), 9)):
        env.reset(options=TASK)
        with pytest.raises(UnknownTask):
            env.reset(options={"task": "open-99-1"})
        with pytest.raises(NotReset):
            env.step("look")


def test_turn_limit_truncates_on_its_last_turn():
    env = TurnLimit(Corridor(), 3)
    for _ in range(2):
        env.reset(options=TASK)
        ends = [env.step("look")[2:4] for _ in range(3)]
        assert ends == [(False, False), (False, False), (False, True)]
        with pytest.raises(StepAfterEnd):
            env.step("look")


def test_a_win_on_the_last_turn_is_a_win():
    plan = ["take key", "go east", "unlock door", "go east"]
    for limited in (TurnLimit(Corridor(), len(plan)), make(ID, max_episode_steps=len(plan))):
        limited.reset(options=TASK)
        *_, terminated, truncated, info = [limited.step(action) for action in plan][-1]
        assert (terminated, truncated, info["won"]) == (True, False, True)


@pytest.mark.parametrize("wrong", [0, -1, 2.5, True, "3"])
def test_turn_limit_needs_a_turn(wrong: Any):
    with pytest.raises(ValueError, match="max_turns"):
        TurnLimit(Corridor(), wrong)


def test_limits_are_part_of_the_spec_so_that_it_makes_the_same_again():
    env = TurnLimit(make(ID), 2)
    again = gymnasium.make(pickle.loads(pickle.dumps(env.spec)))
    again.reset(options=TASK)
    assert [again.step("look")[3] for _ in range(2)] == [False, True]
    assert str(again) == str(env)


def test_deadline_passes_everything_through_from_one_thread():
    threads = set()

    class Watched(Corridor):
        def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
            threads.add(threading.get_ident())
            return super().step(action)

    with Deadline(Watched(), LONG) as env:
        observation, info = env.reset(seed=1, options=TASK)
        assert (observation, info) == Corridor().reset(seed=1, options=TASK)
        assert env.get_wrapper_attr("task_ids")(2) == ["open-3-1", "fetch-3-1"]
        plan = env.get_wrapper_attr("plan")()
        assert [env.step(action)[2] for action in plan] == [False, False, False, True]
        with pytest.raises(StepAfterEnd):
            env.step("look")
        with pytest.raises(UnknownTask, match="open-3-2"):
            env.reset(options={"task": "open-3-9"})
    assert len(threads) == 1
    assert threads != {threading.get_ident()}


def test_after_a_late_call_every_call_raises_and_close_does_not_wait():
    release = threading.Event()

    class Waits(Corridor):
        closed = 0

        def step(self, action: str) -> Any:
            release.wait(LONG)

        def close(self) -> None:
            self.closed += 1

    inner = Waits()
    env = Deadline(inner, LONG)
    env.reset(options=TASK)
    env.seconds = 0.05  # for the call that waits, not for the start of the thread
    with pytest.raises(DeadlineExceeded, match=r"step\('look'\) took longer than 0.05 s"):
        env.step("look")
    calls: list[Callable[[], Any]] = [env.reset, lambda: env.step("look"), env.get_wrapper_attr("plan")]
    for call in calls:
        with pytest.raises(DeadlineExceeded, match="dead since step"):
            call()
    env.close()
    env.close()
    assert inner.closed == 0
    release.set()


def test_deadline_closes_the_environment_once_and_ends_its_thread():
    class Counts(Corridor):
        closed = 0

        def close(self) -> None:
            self.closed += 1

    inner = Counts()
    env = Deadline(inner, LONG)
    env.reset(options=TASK)
    worker = env._worker
    assert worker is not None
    env.close()
    env.close()
    worker.thread.join(LONG)
    assert inner.closed == 1
    assert not worker.thread.is_alive()


@pytest.mark.parametrize("wrong", [0, -1.0, float("nan")])
def test_a_deadline_needs_time(wrong: float):
    with pytest.raises(ValueError, match="above 0"):
        Deadline(Corridor(), wrong)
    with pytest.raises(ValueError, match="above 0"):
        Isolated(Corridor, wrong)


def test_optional_methods_are_offered_only_where_they_are():
    assert not Deadline(Plain(), 1).has_wrapper_attr("plan")
    with Isolated(Plain, LONG) as env:
        assert not env.has_wrapper_attr("plan")
        with pytest.raises(AttributeError, match="task_ids"):
            env.get_wrapper_attr("task_ids")


def test_isolated_plays_the_same_episode_elsewhere():
    with Isolated(functools.partial(make, f"toys.corridor:{ID}"), LONG) as env, make(ID) as here:
        assert env.observation_space == here.observation_space
        assert env.spec == here.spec
        assert env.metadata == here.metadata
        assert env.get_wrapper_attr("task_ids")() == Corridor().task_ids()
        assert env.reset(seed=3) == here.reset(seed=3)
        plan = env.get_wrapper_attr("plan")()
        assert [env.step(action) for action in plan] == [here.step(action) for action in plan]
        with pytest.raises(StepAfterEnd) as caught:
            env.step("look")
        assert "in the child process" in caught.value.__notes__[0]
        with pytest.raises(UnknownTask, match="open-3-2"):
            env.reset(options={"task": "open-3-9"})
        env.reset(options=TASK)
        assert env.render is not None


@pytest.fixture
def odd() -> Any:
    env = Isolated(Odd, LONG)
    env.reset(options=TASK)
    yield env
    env.close()


@pytest.mark.parametrize(("word", "code", "text"), [("exit", 7, "exit code 7"), ("signal", -11, "SIGSEGV")])
def test_a_crash_is_told_with_its_exit_code_and_stays(odd: Isolated, word: str, code: int, text: str):
    with pytest.raises(EnvironmentDied, match=text) as caught:
        odd.step(word)
    assert caught.value.exit_code == code
    with pytest.raises(EnvironmentDied, match=text):
        odd.reset()
    odd.close()
    odd.close()


def test_what_hangs_is_killed_with_all_that_it_started(odd: Isolated):
    child = int(odd.step("child")[0])
    own = int(odd.step("pid")[0])
    odd.seconds = 0.2
    with pytest.raises(DeadlineExceeded, match=r"step\(\) took longer than 0.2 s"):
        odd.step("hang")
    assert gone(own)
    assert gone(child)
    with pytest.raises(DeadlineExceeded):
        odd.step("look")
    odd.close()
    odd.close()


def test_what_cannot_cross_the_pipe_is_said_and_the_environment_lives(odd: Isolated):
    with pytest.raises(EnvError, match="Unportable"):
        odd.step("raise")
    with pytest.raises(EnvError, match="cannot be sent between processes"):
        odd.step("function")
    assert odd.step("look")[4]["valid"]


def test_close_ends_the_process_and_nothing_follows(odd: Isolated):
    own = int(odd.step("pid")[0])
    odd.close()
    assert gone(own)
    with pytest.raises(EnvError, match="closed"):
        odd.step("look")
    odd.close()


def test_an_environment_that_cannot_be_made_says_why():
    with pytest.raises(UnknownTask):
        Isolated(raise_unknown, LONG)
    with pytest.raises(EnvError, match="cannot be sent to another process"):
        Isolated(lambda: Corridor(), LONG)


def raise_unknown() -> gymnasium.Env[Any, Any]:
    raise UnknownTask("nothing to play")


ORPHAN = """
import os, signal, sys
sys.path[:0] = {path!r}
from test_wrappers import Odd
from turncredit.envs import Isolated

if __name__ == "__main__":
    env = Isolated(Odd, 60.0)
    env.reset(seed=0)
    print(env.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_child_ends_when_its_parent_is_killed(tmp_path: Any):
    script = tmp_path / "orphan.py"
    here = os.path.dirname(os.path.abspath(__file__))
    script.write_text(ORPHAN.format(path=[here, os.path.dirname(here)]))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=5 * LONG)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert gone(int(done.stdout))

"""Harbor tasks played in real sandboxes: the oracle wins, idling does not, and what agents and tests do wrong."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest
from toys.harbor_tasks import SOLVE, harbor_task
from toys.sandboxes import needed

from turncredit.envs.bash import BashEnv
from turncredit.envs.check import Effort, check_env
from turncredit.envs.errors import EnvError, GameFileError, NoExpert, UnknownOption
from turncredit.tools.sandbox.containers import DockerBackend

pytestmark = pytest.mark.waits


def play(env: BashEnv, *actions: str) -> tuple[str, float, bool, dict[str, Any]]:
    """Play actions of a new episode; return the last observation, reward, whether it ended, and the info."""
    env.reset(seed=0)
    for action in actions:
        observation, reward, terminated, _, info = env.step(action)
    return observation, float(reward), terminated, info


def env_of(folder: Path, **options: Any) -> BashEnv:
    needed("bwrap")
    return BashEnv(folder, sandbox="bwrap", **options)


def test_the_oracle_wins_and_graded_rewards_are_given(tmp_path: Path) -> None:
    env = env_of(harbor_task(tmp_path / "one"))
    observation, info = env.reset(seed=0)
    assert observation.endswith("You are in a shell, in the folder /app. Actions: a command, submit.")
    assert info["task"] == "tests/one"
    assert env.plan() == ["ls -lR", 'set -e\ngrep -c "$COLOUR" notes.txt > count.txt', "submit"]
    for action in env.plan():
        observation, reward, terminated, _, info = env.step(action)
    assert (observation, reward, terminated) == ("Submitted: the task is done.", 1.0, True)
    assert (info["won"], info["score"], info["task_type"], env.plan()) == (True, 1.0, "files", [])
    assert play(env, "submit")[1] == 0.0
    assert play(env, "pwd")[0] == "/app"
    observation, reward, _, info = play(env, "echo 7 > count.txt", "submit")
    assert (observation, reward, info["score"], info["won"]) == ("Submitted: the task is not done.", 0.25, 0.25, False)
    assert play(env_of(tmp_path / "one", reward="whole"), "echo 7 > count.txt", "submit")[1] == 0.0


def test_the_plan_holds_from_any_state(tmp_path: Path) -> None:
    env = env_of(harbor_task(tmp_path / "one"))
    play(env, "rm notes.txt; mkdir count.txt; cd /tmp")
    for action in env.plan():
        _, reward, _, _, info = env.step(action)
    assert (reward, info["won"]) == (1.0, True)


def test_a_solution_of_several_files_is_unpacked(tmp_path: Path) -> None:
    solution = {
        "solve.sh": '#!/bin/sh\nset -e\n. "$(dirname "$0")/lib/count.sh"\nlines "$WORD" > count.txt\n',
        "lib/count.sh": f'lines() {{ grep -c "$1" notes.txt; }}\n# {"filler " * 9000}\n',
    }
    env = env_of(harbor_task(tmp_path / "one", solution=solution, environment='[solution.env]\nWORD = "red"'))
    env.reset(seed=0)
    plan = env.plan()
    for action in plan:
        observation, _, _, _, info = env.step(action)
    assert info["won"], (plan, observation)
    assert env.task.before.keys() ^ env._tree.keys() == {"count.txt"}


def test_what_the_agent_writes_to_logs_and_tests_is_not_read(tmp_path: Path) -> None:
    env = env_of(harbor_task(tmp_path / "one", test="#!/bin/sh\nls -A /logs/verifier /tests > here.txt\nexit 3\n"))
    forged = "mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt; cp /bin/true /tests/test.sh"
    with pytest.raises(EnvError, match=r"left no /logs/verifier/reward.txt or reward.json; their output ends with ''"):
        play(env, forged, "submit")
    later = harbor_task(tmp_path / "two")
    assert play(env_of(later), f"{forged}; ls /logs/verifier", "submit")[1] == 0.0


def test_the_time_of_the_task_ends_the_episode(tmp_path: Path) -> None:
    env = env_of(harbor_task(tmp_path / "one", agent=3.0))
    observation, reward, terminated, info = play(env, f"{SOLVE}sleep 60")
    assert terminated
    assert (reward, info["won"]) == (1.0, True)  # the files are judged as they are
    assert "stopped after 3 seconds" in observation
    assert "[the time for the task is over] Submitted: the task is done." in observation


def test_tests_that_do_not_end_give_nothing(tmp_path: Path) -> None:
    folder = harbor_task(
        tmp_path / "one", test="#!/bin/sh\necho 1 > /logs/verifier/reward.txt; sleep 600\n", verifier=2
    )
    observation, reward, _, info = play(env_of(folder), "submit")
    assert (reward, info["won"]) == (0.0, False)
    assert observation == "Submitted: the task is not done. The tests did not end in time."


@pytest.mark.parametrize(
    ("test", "sentence"),
    [
        ("#!/bin/sh\necho no such judge >&2; exit 1\n", r"their output ends with 'no such judge'"),
        ("#!/bin/sh\necho won > /logs/verifier/reward.txt\n", r"left a reward.txt that cannot be read: .*got 'won'"),
        ("#!/no/such/shell\n", r"left no /logs/verifier/reward.txt"),
    ],
)
def test_broken_tests_are_no_failure_of_the_agent(tmp_path: Path, test: str, sentence: str) -> None:
    with pytest.raises(EnvError, match=sentence):
        play(env_of(harbor_task(tmp_path / "one", test=test)), "submit")


def test_tests_see_their_variables_and_files(tmp_path: Path) -> None:
    test = (
        '#!/bin/sh\n. /tests/lib.sh\nprintf \'{"reward": %s, "colour": 0}\' "$(value)" > /logs/verifier/reward.json\n'
    )
    folder = harbor_task(tmp_path / "one", test=test, environment='[verifier.env]\nWORTH = "0.5"')
    (folder / "tests" / "lib.sh").write_text('value() { [ "$COLOUR" = red ] && [ "$PWD" = /app ] && echo "$WORTH"; }\n')
    env = env_of(folder)
    assert play(env, "submit")[1] == 0.5
    assert env.grade is not None
    assert env.grade.rewards == {"reward": 0.5, "colour": 0.0}


def test_rewards_outside_of_the_unit_interval_are_given_and_the_score_is_cut(tmp_path: Path) -> None:
    env = env_of(harbor_task(tmp_path / "one", test="#!/bin/sh\necho -2 > /logs/verifier/reward.txt\n"))
    _, reward, _, info = play(env, "submit")
    assert (reward, info["score"], info["won"]) == (-2.0, 0.0, False)


def test_a_task_without_an_oracle_has_no_plan(tmp_path: Path) -> None:
    env = env_of(harbor_task(tmp_path / "one", solution={}))
    env.reset(seed=0)
    with pytest.raises(NoExpert, match=r"has no solution/solve.sh"):
        env.plan()


def test_several_tasks_and_their_snapshots(tmp_path: Path) -> None:
    harbor_task(tmp_path / "one")
    harbor_task(
        tmp_path / "two", dockerfile="FROM x\nWORKDIR /srv/data\nCOPY files/notes.txt .\nENV COLOUR=blue\n", agent=50.0
    )
    env = env_of(tmp_path)
    assert env.task_ids() == ["tests/one", "tests/two"]
    assert env.reset(options={"task": "tests/two"})[0].count("/srv/data") == 1
    env.step("grep $COLOUR notes.txt > found.txt; cd /tmp")
    saved = env.snapshot()
    observation, _, _, _, info = env.step("pwd; cat /srv/data/found.txt")
    assert observation == "/tmp\nblue"
    other = pickle.loads(pickle.dumps(env_of(tmp_path)))
    other.reset(options={"task": "tests/one"})
    other.restore(saved)
    assert other.step("pwd; cat /srv/data/found.txt")[4]["state"] == info["state"]
    env.close()
    other.close()


def test_the_contract_holds(tmp_path: Path) -> None:
    folder = harbor_task(tmp_path / "one")
    needed("bwrap")
    effort = Effort(
        walks=1, turns=5, pairs=4, states=2, depth=3, continuations=1, search=20, long=17, plans=2, contents=4
    )
    arguments = {"tasks": str(folder), "sandbox": "bwrap"}
    report = check_env("turncredit/Bash-v0", kwargs=arguments, tasks=1, effort=effort, level="runtime")
    assert report.ok, report


def test_options_of_generated_tasks_are_refused(tmp_path: Path) -> None:
    folder = harbor_task(tmp_path / "one")
    with pytest.raises(UnknownOption, match="split is for generated tasks"):
        env_of(folder, split="train")
    with pytest.raises(UnknownOption, match="image is for generated tasks"):
        env_of(folder, image="x")


def docker_image() -> str:
    """Return an image that is on this machine: that of its own Python."""
    needed("docker")
    return DockerBackend().image


def test_images_are_built_and_the_oracle_wins_in_them(tmp_path: Path) -> None:
    lines = 'WORKDIR /app\nCOPY files/ ./\nRUN echo red end >> notes.txt\nENV COLOUR=red\nENTRYPOINT ["sh"]\nUSER 7\n'
    test = '#!/bin/sh\n[ "$(cat count.txt)" = 3 ]\necho "$((1 - $?))" > /logs/verifier/reward.txt\n'
    folder = harbor_task(tmp_path / "one", dockerfile=f"FROM {docker_image()}\n{lines}", test=test)
    env = BashEnv(folder, sandbox="docker")
    env.reset(seed=0)
    assert env.task.before["notes.txt"].data == b"red\nblue\nred fox\nred end\n"
    for action in env.plan():
        _, reward, _, _, info = env.step(action)
    assert (reward, info["won"]) == (1.0, True)
    assert play(env, "submit")[1] == 0.0
    env.close()


def test_images_that_are_here_are_used_and_others_are_named(tmp_path: Path) -> None:
    image = docker_image()
    ready = harbor_task(tmp_path / "ready", environment=f'docker_image = "{image}"\nworkdir = "/app"')
    shutil.rmtree(ready / "environment")
    env = BashEnv(ready, sandbox="docker", reward="whole")
    assert play(env, "python3 -c 'print(6 * 7)'")[0] == "42"
    env.close()
    missing = harbor_task(tmp_path / "missing", dockerfile="FROM turncredit-no-such-image:1\nWORKDIR /app\n")
    with pytest.raises(
        GameFileError, match=r"Docker cannot build the image: Step 1/2 : FROM turncredit-no-such-image:1"
    ):
        BashEnv(missing, sandbox="docker").reset(seed=0)
    unknown = harbor_task(tmp_path / "unknown", environment='docker_image = "turncredit-no-such-image:1"')
    (unknown / "environment" / "Dockerfile").unlink()
    with pytest.raises(GameFileError, match=r"its image 'turncredit-no-such-image:1' is not on this machine"):
        BashEnv(unknown, sandbox="docker").reset(seed=0)

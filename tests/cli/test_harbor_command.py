"""Harbor tasks from the command line: played by the oracle, and written from tasks of ours."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from toys.commands import Call, one_sentence
from toys.harbor_tasks import harbor_task
from toys.sandboxes import needed

from turncredit.envs.bash import BashEnv

pytestmark = pytest.mark.waits

BASH, CODE = "turncredit/Bash-v0", "turncredit/Code-v0"
VALIDATE = """
import sys
from pathlib import Path
from harbor.models.task.task import Task
for path in sys.argv[1:]:
    assert Task.is_valid_dir(path), path
    task = Task(path)
    print(task.name, task.config.agent.timeout_sec, task.paths.discovered_solve_path.name, len(task.instruction) > 20)
"""


def test_the_oracle_plays_all_tasks_of_a_folder(turncredit: Call, tmp_path: Path) -> None:
    needed("bwrap")
    harbor_task(tmp_path / "tasks" / "one")
    harbor_task(tmp_path / "tasks" / "two", category="other")
    words = (BASH, f"tasks={tmp_path / 'tasks'}", "sandbox=bwrap")
    said = turncredit("eval", "expert", *words, "--output", tmp_path / "a.json")
    assert said.code == 0, said.err
    assert re.search(r"all tasks +100\.0 % .* 2/2", said.out)
    rows = json.loads((tmp_path / "a.json").read_text())["rows"]
    assert sorted(row["task"] for row in rows) == ["tests/one", "tests/two"]


def test_what_is_missing_is_one_sentence(turncredit: Call, tmp_path: Path) -> None:
    one_sentence(turncredit("eval", "expert", BASH, f"tasks={tmp_path}", "sandbox=bwrap"), "no Harbor tasks at")
    harbor_task(tmp_path / "one", dockerfile="FROM x\nWORKDIR /app\nRUN make\n")
    one_sentence(turncredit("eval", "expert", BASH, f"tasks={tmp_path}"), "choose sandbox='docker'")
    one_sentence(turncredit("data", "harbor", "turncredit/Household-v0", "--output", tmp_path / "x"), "only tasks of")


@pytest.mark.parametrize(("env_id", "count"), [(BASH, 24), (CODE, 5)])
def test_tasks_of_ours_are_written_and_their_oracles_win(
    turncredit: Call, tmp_path: Path, env_id: str, count: int
) -> None:
    needed("bwrap")
    folder = tmp_path / "tasks"
    said = turncredit("data", "harbor", env_id, "split=held_out", "level=tiny", "--output", folder, "--count", count)
    assert said.code == 0, said.err
    assert f"wrote {count} task folders" in said.out
    said = turncredit("eval", "expert", BASH, f"tasks={folder}", "sandbox=bwrap")
    assert re.search(rf"all tasks +100\.0 % .* {count}/{count}", said.out), said.out
    env = BashEnv(folder, sandbox="bwrap")
    for task in env.task_ids(4):  # doing nothing wins none
        env.reset(options={"task": task})
        assert env.step("submit")[4]["won"] is False
    env.close()
    again = turncredit("data", "harbor", env_id, "split=held_out", "level=tiny", "--output", folder, "--count", 1)
    one_sentence(again, "exists already")


@pytest.mark.skipif("HARBOR_PYTHON" not in os.environ, reason="$HARBOR_PYTHON names no Python with the package harbor")
def test_the_package_harbor_accepts_what_is_written(turncredit: Call, tmp_path: Path) -> None:
    """It needs Python 3.12, so it is in an environment of its own."""
    for env_id in (BASH, CODE):
        turncredit("data", "harbor", env_id, "--output", tmp_path, "--count", 6)
    paths = sorted(map(str, tmp_path.iterdir()))
    assert len(paths) == 12
    words = [os.environ["HARBOR_PYTHON"], "-c", VALIDATE, *paths]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines == [f"turncredit/{Path(path).name} 600.0 solve.sh True" for path in paths]

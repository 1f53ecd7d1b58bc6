"""Equal commands in equal episodes give equal observations, in whichever box and at whatever time they run."""

from __future__ import annotations

import time

import pytest
from toys.sandboxes import ALL, needed

from turncredit.envs.bash import BashEnv

pytestmark = pytest.mark.waits

COMMANDS = (
    "ls -la",
    "ls -la --time-style=full-iso",
    "ls -lan; ls -laR",
    "stat -c '%n %s %a %F %y' . *",
    "id",
    "id -u; id -G",
    "mkdir -p new/deep; rm -rf new; ls -ld --time-style=full-iso */",
    "find . | sort; du -a . | sort",
    "echo $HOME $PWD $LANG $TZ; pwd -P",
)


def start(sandbox: str) -> BashEnv:
    env = BashEnv(sandbox=sandbox, memory=False)
    env.reset(seed=0, options={"task": "train/small/000003"})
    return env


@pytest.mark.parametrize("sandbox", ALL)
def test_equal_episodes_have_equal_observations(sandbox: str) -> None:
    needed(sandbox)
    envs = [start(sandbox)]
    envs[0].step("true")
    time.sleep(1.1)  # so that a time in seconds would differ
    envs.append(start(sandbox))  # both boxes exist, so that their users have different numbers
    for command in COMMANDS:
        first, second = (env.step(command)[0] for env in envs)
        assert first == second, command
        assert first.strip()
        assert "not found" not in first
    listing = envs[0].step("ls -la")[0].splitlines()
    assert all("Jan  1  2024" in line for line in listing[1:]), listing
    for env in envs:
        env.close()

"""Runs the tests of a Harbor task on the files that the agent left, in a box of their own, and reads the reward.

As in Harbor, the tests are copied to /tests after the agent has ended, tests/test.sh is run in the working directory,
and the reward is in /logs/verifier: reward.json, a number or a table of numbers, else reward.txt, a number. /logs and
/tests are empty before, so nothing that the agent wrote there is read. Tests that import or run what the agent left can
be deceived by it, here as there.

Tests that take longer than their limit give the reward 0: what they run, mostly the agent's program, does not end.
Tests that leave no reward at all are broken, or lack what no sandbox here has, such as a network: that is an error, and
no failure of the agent.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from turncredit.envs.bash.filetree import FileNode, to_tar
from turncredit.envs.bash.harbor.dockerfile import folder_tree
from turncredit.envs.bash.harbor.task import HarborTask
from turncredit.envs.errors import EnvError
from turncredit.envs.truncation import escape_unprintable, truncate
from turncredit.tools.sandbox import Box

__all__ = ["HarborGrade", "read_rewards", "verify"]

_RUN: Final = """
mkdir -p /logs/agent /logs/verifier /logs/artifacts && tar -x -f - -C /tests || exit 90
chmod +x /tests/test.sh
/tests/test.sh >/logs/verifier/test-stdout.txt 2>&1 </dev/null
exit 0
"""
_READ: Final = """
for name in reward.json reward.txt; do
  [ -f "/logs/verifier/$name" ] && echo "$name" && head -c 65536 "/logs/verifier/$name" && exit 0
done
echo none; tail -c 600 /logs/verifier/test-stdout.txt
"""
_OWN_SECONDS: Final = 30.0
_SHOWN: Final = 300  # characters of the output of tests in an error


@dataclass(frozen=True)
class HarborGrade:
    """What the tests gave.

    Args:
        rewards: numbers by name; a single number is named "reward".
        late: whether the tests took longer than their limit.
    """

    rewards: Mapping[str, float]
    late: bool = False

    @property
    def partial(self) -> float:
        """The reward: the number named "reward", else the mean of all."""
        return self.rewards.get("reward", sum(self.rewards.values()) / len(self.rewards))

    @property
    def intercode(self) -> float:
        """The same, since the tests alone know what doing nothing earns."""
        return self.partial

    @property
    def won(self) -> bool:
        """Whether the reward is 1 or more."""
        return self.partial >= 1.0


def verify(task: HarborTask, tree: Mapping[str, FileNode], make: Callable[[], Box]) -> HarborGrade:
    """Return the grade of the files in the working directory.

    Args:
        task: the task.
        tree: the files.
        make: creates a box whose limit on time allows the tests.

    Raises:
        EnvError: the tests leave no reward that can be read; quotes the end of their output.
        SandboxError: no sandbox works.
    """
    settings = task.settings
    tests = to_tar(folder_tree(settings.folder / "tests"))
    names = [f"{name}={value}" for name, value in {**task.env, **settings.verifier_env}.items()]
    with make() as box:
        box.restore(to_tar(tree))
        result = box.run(["env", *names, "sh", "-c", _RUN], stdin=tests, timeout=settings.verifier_seconds)
        if result.stop == "timeout":
            return HarborGrade({"reward": 0.0}, late=True)
        if result.code == 90:
            raise EnvError(f"the tests of task {task.id!r} could not be copied: {result.stderr.strip()[:_SHOWN]}")
        name, _, text = box.run(["sh", "-c", _READ], timeout=_OWN_SECONDS).stdout.partition("\n")
    if name == "none":
        raise EnvError(
            f"the tests of task {task.id!r} left no /logs/verifier/reward.txt or reward.json; their output ends with "
            f"{truncate(escape_unprintable(text.strip()), _SHOWN)!r}"
        )
    try:
        return HarborGrade(read_rewards(name, text))
    except ValueError as error:
        raise EnvError(f"the tests of task {task.id!r} left a {name} that cannot be read: {error}") from None


def read_rewards(name: str, text: str) -> dict[str, float]:
    """Return the rewards in a file.

    >>> read_rewards("reward.txt", "0.5"), read_rewards("reward.json", '{"reward": 1, "style": 0.2}')
    ({'reward': 0.5}, {'reward': 1.0, 'style': 0.2})

    Raises:
        ValueError: it has anything but finite numbers.
    """
    try:
        values = json.loads(text) if name == "reward.json" else float(text)
    except (ValueError, RecursionError):
        raise ValueError(f"expected a number, got {text.strip()[:80]!r}") from None
    table = values if isinstance(values, dict) else {"reward": values}
    numbers = {key: _finite(key, value) for key, value in table.items()}
    if not numbers:
        raise ValueError("it has no number")
    return numbers


def _finite(name: str, value: object) -> float:
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name!r} must be a finite number, got {value!r:.80}")
    return float(value)

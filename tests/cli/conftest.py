"""A corridor that the command line can name, a runner, and one tiny trained run for all tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from toys import corridor
from toys.commands import Call, run_command

RUN = """
name = "corridor"
threads = 1
[env]
id = "toys/Corridor-v0"
kwargs = { lengths = [3] }
[agent]
max_turns = 8
max_tokens = 8
[policy]
new = { vocab = 300, hidden = 48, layers = 1, heads = 2 }
context = 400

[imitation]
episodes = 24
epochs = 10
demonstrator.noise = 0.3
lr = 5e-3
batch_tokens = 400
[train]
iterations = 2
groups = 2
group_size = 3
[evaluation]
episodes = 4

[checkpoints]
every = 1
"""


@pytest.fixture(scope="session", autouse=True)
def _corridor() -> None:
    corridor.register()


@pytest.fixture(scope="session")
def turncredit() -> Call:
    """Run a command in this process: `turncredit("list", "envs")`, `stdin=` for what a person would type."""
    return run_command


@pytest.fixture(scope="session")
def run_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("files") / "corridor.toml"
    path.write_text(RUN, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def trained(run_file: Path, tmp_path_factory: pytest.TempPathFactory, turncredit: Call) -> Path:
    """The folder of a run of two iterations on corridors of three rooms."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("runs") / "corridor"
    said = turncredit("train", run_file, "--output", folder)
    assert said.code == 0, said.err
    assert re.search(r"^ *iteration success  return turns .*\n(?:.*\n)* +2/2 +\d+\.\d %", said.out, re.MULTILINE)
    return folder

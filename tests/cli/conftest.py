"""A corridor that the command line can name, a runner, one tiny trained run for all tests, and a browser."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from toys import corridor
from toys.chromium import need_chromium
from typer.testing import CliRunner

from turnwise.cli.main import app

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
noise = 0.3
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


@dataclass(frozen=True)
class Said:
    """What a command said, and how it ended."""

    code: int
    out: str
    err: str


Call = Callable[..., Said]


@pytest.fixture(scope="session", autouse=True)
def _corridor() -> None:
    corridor.register()


@pytest.fixture(scope="session")
def turnwise() -> Call:
    """Run a command in this process: `turnwise("list", "envs")`, `stdin=` for what a person would type."""

    def call(*words: object, stdin: str = "") -> Said:
        result = CliRunner().invoke(app, [str(word) for word in words], input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Said(result.exit_code, result.stdout, result.stderr)

    return call


@pytest.fixture(scope="session")
def run_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("files") / "corridor.toml"
    path.write_text(RUN, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def trained(run_file: Path, tmp_path_factory: pytest.TempPathFactory, turnwise: Call) -> Path:
    """The folder of a run of two iterations on corridors of three rooms."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("runs") / "corridor"
    said = turnwise("train", run_file, "--output", folder)
    assert said.code == 0, said.err
    assert re.search(r"^2/2 .*success .*step signal", said.out, re.MULTILINE)
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium."""
    need_chromium()
    from playwright.sync_api import sync_playwright

    from turnwise.tools.browser import find_browser

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(find_browser()))
        yield browser
        browser.close()


@pytest.fixture
def tab(browser: Any) -> Iterator[Any]:
    """A tab of 1200 pixels; a script's error or a refused resource fails the test."""
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    page, errors = context.new_page(), list[str]()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    yield page
    context.close()
    assert errors == []

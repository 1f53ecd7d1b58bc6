"""A runner of commands, and a browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from toys.chromium import need_chromium
from toys.commands import Call, run_command


@pytest.fixture(scope="session")
def turncredit() -> Call:
    """Run a command in this process: `turncredit("report", folder)`."""
    return run_command


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium."""
    need_chromium()
    from playwright.sync_api import sync_playwright

    from turncredit.tools.browser import find_browser

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

"""A real browser as a tool: pages as text with references, actions as a small grammar, one Chromium per process."""

from turnwise.tools.browser.errors import (
    BadOption,
    BrowserDied,
    BrowserError,
    NoBrowser,
    NoPage,
    TabClosed,
    TabDied,
    seconds_of,
)
from turnwise.tools.browser.find import find_browser
from turnwise.tools.browser.folder import Folder, folder
from turnwise.tools.browser.grammar import FORMS, Action, Misunderstood, parse
from turnwise.tools.browser.process import Browser, shared
from turnwise.tools.browser.tab import Outcome, Tab, open_tab
from turnwise.tools.browser.view import Element, View

__all__ = [
    "FORMS",
    "Action",
    "BadOption",
    "Browser",
    "BrowserDied",
    "BrowserError",
    "Element",
    "Folder",
    "Misunderstood",
    "NoBrowser",
    "NoPage",
    "Outcome",
    "Tab",
    "TabClosed",
    "TabDied",
    "View",
    "find_browser",
    "folder",
    "open_tab",
    "parse",
    "seconds_of",
    "shared",
]

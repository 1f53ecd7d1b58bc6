"""A real browser as a tool: pages as text with references, actions as a small grammar, one Chromium per process."""

from turncredit.tools.browser.actions import ACTION_KINDS, BrowserAction, InvalidAction, parse
from turncredit.tools.browser.errors import (
    BadBrowserOption,
    BrowserDied,
    BrowserError,
    NoBrowser,
    NoPage,
    TabClosed,
    TabDied,
    check_seconds,
)
from turncredit.tools.browser.executable import find_browser
from turncredit.tools.browser.process import Browser, shared_browser
from turncredit.tools.browser.static_site import StaticSite, static_site
from turncredit.tools.browser.tab import ActionResult, Tab, open_tab
from turncredit.tools.browser.view import Element, PageView

__all__ = [
    "ACTION_KINDS",
    "ActionResult",
    "BadBrowserOption",
    "Browser",
    "BrowserAction",
    "BrowserDied",
    "BrowserError",
    "Element",
    "InvalidAction",
    "NoBrowser",
    "NoPage",
    "PageView",
    "StaticSite",
    "Tab",
    "TabClosed",
    "TabDied",
    "check_seconds",
    "find_browser",
    "open_tab",
    "parse",
    "shared_browser",
    "static_site",
]

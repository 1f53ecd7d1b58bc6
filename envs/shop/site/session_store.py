"""Who is shopping for what: the sessions of a site, by name, with a bound on how many are kept.

A name that is the id of a task plays that task's goal, as the original's numbers do; any other name gets a goal that
follows from the name alone. So a session that was dropped for want of room comes back with the same goal, and the
address of a page, which holds all the rest, still leads to that page.

Two kinds of names are refused: those written as the id of a task that there is not, whose visitor would play another
goal unawares, and those that browsers and crawlers ask every site for.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Mapping
from threading import Lock
from typing import Any, Final, Protocol

import numpy as np

from turnwise.envs.errors import UnknownTask
from turnwise.envs.shop.goal import Goal
from turnwise.envs.shop.session import Shop, ShopSession
from turnwise.envs.shop.site.addresses import SiteError, named

__all__ = ["KEPT", "Goals", "SessionStore"]

KEPT: Final = 1000
"""Sessions of visitors that are kept; the one that was not seen for longest goes first."""

_TASK: Final = re.compile(r"(train|held[-_ ]?out)[-/](.+)[-/]([0-9]+)", re.IGNORECASE | re.DOTALL)
_OURS: Final = "static|picture|again|search_results|item_page|item_sub_page|done|docs|redoc"
_FILE: Final = r".*\.(txt|xml|json|ico|png|svg|gif|jpg|css|js|map|webmanifest|html?|php|aspx?)"
_NO_SESSION: Final = re.compile(rf"{_OURS}|{_FILE}|\..*", re.IGNORECASE | re.DOTALL)


class Goals(Protocol):
    """Where goals come from: every `sources.Source` is one."""

    def draw(self, rng: Any) -> str:
        """Return the id of a goal that `rng` (a numpy Generator) draws."""

    def get(self, id: str) -> Goal:
        """Return the goal of an id.

        Raises:
            UnknownTask: there is none of that id.
        """


class SessionStore:
    """The sessions of one site. Safe to use from the site's thread and another one."""

    def __init__(self, shop: Shop, goals: Goals, *, kept: int = KEPT) -> None:
        """Begin without any.

        Args:
            shop: what they share.
            goals: where their goals come from.
            kept: how many sessions of visitors are kept; those that `start` began do not count.
        """
        self.shop = shop
        self.goals = goals
        self.kept = kept
        self._visiting: OrderedDict[str, ShopSession] = OrderedDict()
        self._started: dict[str, ShopSession] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        """Return how many sessions are kept now."""
        return len(self._visiting) + len(self._started)

    def start(self, name: str, goal: Goal, prices: Mapping[str, float] | None = None) -> ShopSession:
        """Begin a session of that name with this goal, in place of any other; it is kept until `drop`.

        Args:
            name: printable, 1 to 200 characters, unique to the one who starts it.
            goal: what to buy.
            prices: dollars by product, in place of the shop's for this session.

        Raises:
            SiteError: no address can hold the name.
        """
        session = ShopSession(self.shop, goal, named(name), prices=prices)
        with self._lock:
            self._visiting.pop(name, None)
            self._started[name] = session
        return session

    def get(self, name: str) -> ShopSession:
        """Return the session of that name; a new one, with the goal of its name, if there is none.

        Raises:
            SiteError: no visitor can have the name.
            UnknownTask: it is written as the id of a task, and there is none of that id.
        """
        with self._lock:
            found = self._started.get(name) or self._visiting.get(name)
            if found is None:
                found = self._visiting[name] = ShopSession(self.shop, self.goals.get(self.task_of(name)), name)
            if name in self._visiting:
                self._visiting.move_to_end(name)
                while len(self._visiting) > self.kept:
                    self._visiting.popitem(last=False)
            return found

    def restart(self, name: str) -> None:
        """Let a visitor begin anew with the same goal; a session that `start` began stays as it is."""
        with self._lock:
            self._visiting.pop(name, None)

    def drop(self, name: str) -> None:
        """Forget a session; nothing happens if there is none."""
        with self._lock:
            self._started.pop(name, None)
            self._visiting.pop(name, None)

    def task_of(self, name: str) -> str:
        """Return the id of a visitor's task: the one that the name spells, else one that the name determines.

        A minus may replace a slash in an id, as in the session names of the text environment.

        Raises:
            SiteError: no visitor can have the name.
            UnknownTask: it is written as the id of a task, and there is none of that id.
        """
        if _NO_SESSION.fullmatch(name):
            raise SiteError(f"there is no page at this address, and {name[:40]!r} cannot be the name of a session")
        written = _TASK.fullmatch(name)
        divided = ["/".join(written.groups())] if written else []  # a level may have a minus in it
        if any(letter.isdigit() for letter in name):  # ids have digits, and a wrong id takes long to explain
            for task in dict.fromkeys((name, name.replace("-", "/"), *divided)):
                try:
                    self.goals.get(task)
                    return task
                except UnknownTask as error:
                    unknown = error
            if written:
                raise unknown
        seed = int.from_bytes(hashlib.sha256(name.encode("utf-8", "replace")).digest()[:8], "big")
        return self.goals.draw(np.random.default_rng(seed))

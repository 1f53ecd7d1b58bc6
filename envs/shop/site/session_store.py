"""The sessions of a site by name, and the goals of its visitors.

A session named by a task id has that task's goal; any other name determines a goal as well. The number of sessions is
limited: one that was dropped comes back with the same goal, and its page follows from the address.

Refused are names that look like a task id without being one, since their visitors would unknowingly play another goal,
and paths that browsers and crawlers request from every site.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Mapping
from threading import Lock
from typing import Final, Protocol

import numpy as np

from turncredit.envs.errors import UnknownTask
from turncredit.envs.shop.goal import Goal
from turncredit.envs.shop.session import Shop, ShopSession
from turncredit.envs.shop.site.addresses import SiteError, named

__all__ = ["KEPT", "Goals", "SessionStore"]

KEPT: Final = 1000
"""Largest number of visitors' sessions; the least recently used one is dropped first."""

_TASK: Final = re.compile(r"(train|held[-_ ]?out)[-/](.+)[-/]([0-9]+)", re.IGNORECASE | re.DOTALL)
_OURS: Final = "static|picture|again|search_results|item_page|item_sub_page|done|docs|redoc"
_FILE: Final = r".*\.(txt|xml|json|ico|png|svg|gif|jpg|css|js|map|webmanifest|html?|php|aspx?)"
_NO_SESSION: Final = re.compile(rf"{_OURS}|{_FILE}|\..*", re.IGNORECASE | re.DOTALL)


class Goals(Protocol):
    """What a site needs of a source of goals (see `goal_sources.GoalSource`)."""

    def draw(self, rng: np.random.Generator) -> str:
        """Return the id of a random goal."""

    def get(self, id: str) -> Goal:
        """Return the goal of an id.

        Raises:
            UnknownTask: there is no goal with that id.
        """


class SessionStore:
    """The sessions of one site. Methods are thread-safe."""

    def __init__(self, shop: Shop, goals: Goals, *, capacity: int = KEPT) -> None:
        """Create an empty store.

        Args:
            shop: the shop of the sessions.
            goals: source of the visitors' goals.
            capacity: largest number of visitors' sessions; those started by `start` do not count.
        """
        self.shop = shop
        self.goals = goals
        self.capacity = capacity
        self._visiting: OrderedDict[str, ShopSession] = OrderedDict()
        self._started: dict[str, ShopSession] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        """Return the number of sessions."""
        return len(self._visiting) + len(self._started)

    def start(self, name: str, goal: Goal, prices: Mapping[str, float] | None = None) -> ShopSession:
        """Start a session, which replaces another one of the same name and is kept until `drop`.

        Args:
            name: 1 to 200 printable characters.
            goal: what to buy.
            prices: prices in dollars by product id that replace the shop's.

        Raises:
            SiteError: the name is not valid.
        """
        session = ShopSession(self.shop, goal, named(name), prices=prices)
        with self._lock:
            self._visiting.pop(name, None)
            self._started[name] = session
        return session

    def get(self, name: str) -> ShopSession:
        """Return the session of a name, which is created if necessary.

        Raises:
            SiteError: the name is not valid.
            UnknownTask: the name looks like a task id, but there is no such task.
        """
        with self._lock:
            session = self._started.get(name) or self._visiting.get(name)
            if session is None:
                session = self._visiting[name] = ShopSession(self.shop, self.goals.get(self.task_of(name)), name)
            if name in self._visiting:
                self._visiting.move_to_end(name)
                while len(self._visiting) > self.capacity:
                    self._visiting.popitem(last=False)
            return session

    def restart(self, name: str) -> None:
        """Let a visitor start again with the same goal; a session started by `start` does not change."""
        with self._lock:
            self._visiting.pop(name, None)

    def drop(self, name: str) -> None:
        """Remove a session, if it exists."""
        with self._lock:
            self._started.pop(name, None)
            self._visiting.pop(name, None)

    def task_of(self, name: str) -> str:
        """Return the id of a visitor's task: the one that the name spells, else one that the name determines.

        A minus may replace a slash in an id, as in the session names of the text environment.

        Raises:
            SiteError: the name is not valid.
            UnknownTask: the name looks like a task id, but there is no such task.
        """
        if _NO_SESSION.fullmatch(name):
            raise SiteError(f"there is no page at this address, and {name[:40]!r} cannot be the name of a session")
        written = _TASK.fullmatch(name)
        divided = ["/".join(written.groups())] if written else []  # a level may contain a minus
        if any(letter.isdigit() for letter in name):  # ids contain digits; the message about a wrong id is expensive
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

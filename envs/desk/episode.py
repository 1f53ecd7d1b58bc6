"""One case at a service desk: the database as it changes, the user, and what was said and done."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from turncredit.envs.desk.domain import DeskDomain, as_json
from turncredit.envs.desk.task import DeskAction, DeskTask, says
from turncredit.envs.desk.users import DeskUser, UserReply, UserScene
from turncredit.envs.errors import BadSnapshot
from turncredit.envs.snapshot import Fields
from turncredit.tools.functions import Call, Toolbox

__all__ = ["OWN_TOOLS", "DeskEpisode"]

OWN_TOOLS: Final = ("say", "close")
"""Tools of the agent that are not the domain's."""
_ENDS: Final = ("", "closed", "left")


class DeskEpisode:
    """An episode, with the database in `desk.data`.

    Args:
        task: what the user wants and knows.
        desk: the tools, which get the task's database.
        user: who is served; `start` or `load` begins.
        seed: seed of the user.
    """

    def __init__(self, task: DeskTask, desk: DeskDomain, user: DeskUser, seed: int) -> None:
        self.task, self.desk, self.user, self.seed = task, desk, user, seed
        self.told = [False] * len(task.told)
        """Which of the texts that must be said were said."""
        self.done: set[int] = set()
        """Numbers of the lookups and, after them, of the actions that were done, for the expert."""
        self.ended = ""
        """"closed" by the agent, or "left" by the user; "" before the end."""
        self._changes: list[tuple[str, Mapping[str, object], bool]] = []
        self._database = task.before
        desk.data = json.loads(task.before)

    def start(self) -> str:
        """Return the first message of the user."""
        return self.user.start(self._scene())

    def _scene(self) -> UserScene:
        tools = {name: replace(tool, run=partial(self._use, name)) for name, tool in self.desk.user_tools().items()}
        return UserScene(self.task, tools, self.seed)

    def _use(self, name: str) -> str:
        """Run a tool of the user."""
        text = self.desk.user_tools()[name].run()
        self._record(name, {}, by_user=True)
        return text

    def called(self, call: Call) -> None:
        """Record a call of the agent that was made."""
        self._record(call.name, call.arguments, by_user=False)

    def _record(self, name: str, arguments: Mapping[str, object], *, by_user: bool) -> None:
        for number, action in enumerate((*self.task.lookups, *self.task.actions)):
            if action.name == name and bool(action.ask) == by_user and action.arguments == arguments:
                self.done.add(number)
        if name not in self.desk.readers:
            self._changes.append((name, arguments, by_user))
            self._database = ""

    def say(self, message: str) -> UserReply:
        """Say something to the user, and return the answer."""
        hits = says(message, self.task.told)
        self.told = [told or hit for told, hit in zip(self.told, hits, strict=True)]
        reply = self.user.reply(message)
        if reply.leaves:
            self.ended = "left"
        return reply

    @property
    def database(self) -> str:
        """The database as JSON."""
        self._database = self._database or as_json(self.desk.data)
        return self._database

    @property
    def right(self) -> bool:
        """Whether the database is as the policy has it."""
        return self.database == self.task.after

    @property
    def won(self) -> bool:
        """Whether the episode has ended with success."""
        return bool(self.ended) and self.right and all(self.told)

    def key(self) -> str:
        """Return the state key: the database, what was said of what must be said, how the user goes on, and the end."""
        state = as_json([self.told, self.user.save(), self.ended])
        return hashlib.blake2b(f"{self.database}\n{state}".encode(errors="surrogatepass"), digest_size=8).hexdigest()

    def save(self) -> dict[str, object]:
        """Return the episode as JSON data."""
        return {
            "changes": [[name, dict(arguments), by_user] for name, arguments, by_user in self._changes],
            "user": self.user.save(),
            "seed": self.seed,
            "told": self.told,
            "done": sorted(self.done),
            "ended": self.ended,
        }

    def load(self, saved: Fields, box: Toolbox) -> None:
        """Go on from what `save` returned; the changes are made again.

        Args:
            saved: the data.
            box: tools of the agent, which check the changes.

        Raises:
            BadSnapshot: the data do not describe an episode of the task.
        """
        told, done, ended = saved.get("told", list), saved.get("done", list), saved.get("ended", str)
        steps = len(self.task.lookups) + len(self.task.actions)
        if len(told) != len(self.task.told) or not all(isinstance(flag, bool) for flag in told):
            raise saved.wrong("told", f"a list of {len(self.task.told)} times true or false")
        if not all(type(number) is int and 0 <= number < steps for number in done):
            raise saved.wrong("done", f"a list of integers from 0 to {steps - 1}")
        if ended not in _ENDS:
            raise saved.wrong("ended", '"", "closed" or "left"')
        for change in saved.get("changes", list):
            self._repeat(change, box)
        self.user.load(self._scene(), saved.part("user"))
        self.told, self.done, self.ended = told, set(done), ended

    def _repeat(self, change: object, box: Toolbox) -> None:
        """Make a change again."""
        match change:
            case [str(name), {}, True] if name in self.desk.user_tools():
                self._use(name)
                return
            case [str(name), {**values}, False] if name not in OWN_TOOLS:
                arguments = {str(key): value for key, value in values.items()}
                if box.refusal(Call(name, arguments)) is None:
                    self.desk.run(DeskAction(name, arguments))
                    self.called(Call(name, arguments))
                    return
        raise BadSnapshot(f"the snapshot's 'changes' have one that nobody can make: {change!s:.80}")

"""One case at a service desk: the database as it changes, the user, and what was said and done."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from turncredit.envs.desk.domain import DeskDomain, as_json
from turncredit.envs.desk.task import DeskAction, DeskTask, numbers, says
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
        """Which of the texts that must be said were said after the desk had returned them."""
        self.returned = [False] * len(task.told)
        """Which of these texts a tool of the agent has returned; what only its own arguments say does not count."""
        self.said: set[str] = set()
        """Words with digits that the agent said and the user does not know."""
        self.done: set[int] = set()
        """Numbers of the lookups and, after them, of the actions that were done, for the expert."""
        self.ended = ""
        """"closed" by the agent, or "left" by the user; "" before the end."""
        self._changes: list[tuple[str, Mapping[str, object], bool]] = []
        self.database = task.before
        """The database as JSON."""
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

    def called(self, call: Call, result: str) -> None:
        """Record a call of the agent that was made, and what it returned."""
        before = self.database
        self._record(call.name, call.arguments, by_user=False)
        read, repeated = says(result, self.task.told), says(as_json(call.arguments), self.task.told)
        changed = self.database != before  # a change that was made confirms its arguments
        for number, text in enumerate(read):
            if text and (changed or not repeated[number]):
                self.returned[number] = True

    def _record(self, name: str, arguments: Mapping[str, object], *, by_user: bool) -> None:
        for number, action in enumerate((*self.task.lookups, *self.task.actions)):
            if action.name == name and bool(action.ask) == by_user and action.arguments == arguments:
                self.done.add(number)
        if name not in self.desk.readers:
            self._changes.append((name, arguments, by_user))
            self.database = as_json(self.desk.data)

    def say(self, message: str) -> UserReply:
        """Say something to the user, and return the answer.

        A text counts as told if the desk has returned it, and nothing does once the agent has listed too many numbers:
        to say all possible answers is no answer.
        """
        if self.task.told and not self.lists:
            self.said |= numbers(message) - self.task.known
        hits = zip(self.told, self.returned, says(message, self.task.told), strict=True)
        self.told = [not self.lists and (told or (shown and hit)) for told, shown, hit in hits]
        reply = self.user.reply(message)
        if reply.leaves:
            self.ended = "left"
        return reply

    @property
    def lists(self) -> bool:
        """Whether the agent has said more numbers than an answer has."""
        return len(self.said) > self.task.most_numbers

    @property
    def right(self) -> bool:
        """Whether the database is as the policy has it."""
        return self.database == self.task.after

    @property
    def won(self) -> bool:
        """Whether the episode has ended with success."""
        return bool(self.ended) and self.right and all(self.told)

    def key(self) -> str:
        """Return the state key: the database, what was returned and said, how the user goes on, and the end."""
        words = ["too many"] if self.lists else sorted(self.said)
        state = as_json([self.told, self.returned, words, self.user.save(), self.ended])
        return hashlib.blake2b(f"{self.database}\n{state}".encode(errors="surrogatepass"), digest_size=8).hexdigest()

    def save(self) -> dict[str, object]:
        """Return the episode as JSON data."""
        return {
            "changes": [[name, dict(arguments), by_user] for name, arguments, by_user in self._changes],
            "user": self.user.save(),
            "seed": self.seed,
            "told": self.told,
            "returned": self.returned,
            "said": sorted(self.said),
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
        told, returned = (self._flags(saved, name) for name in ("told", "returned"))
        done, ended, words = saved.get("done", list), saved.get("ended", str), saved.texts("said")
        steps = len(self.task.lookups) + len(self.task.actions)
        if not all(type(number) is int and 0 <= number < steps for number in done):
            raise saved.wrong("done", f"a list of integers from 0 to {steps - 1}")
        if ended not in _ENDS:
            raise saved.wrong("ended", '"", "closed" or "left"')
        for change in saved.get("changes", list):
            self._repeat(change, box)
        self.user.load(self._scene(), saved.part("user"))
        self.told, self.returned, self.said, self.done, self.ended = told, returned, set(words), set(done), ended

    def _flags(self, saved: Fields, name: str) -> list[bool]:
        """Return a saved list that has one flag for each text that must be said."""
        flags = saved.get(name, list)
        if len(flags) != len(self.task.told) or not all(isinstance(flag, bool) for flag in flags):
            raise saved.wrong(name, f"a list of {len(self.task.told)} times true or false")
        return flags

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
                    self._record(name, arguments, by_user=False)
                    return
        raise BadSnapshot(f"the snapshot's 'changes' have one that nobody can make: {change!s:.80}")

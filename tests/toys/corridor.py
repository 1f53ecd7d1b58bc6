"""A small, complete text environment for tests: a row of rooms, a key, a locked door.

    room 1 - room 2 - ... - [locked door] - room n

Task "open-4-2": a corridor of 4 rooms with the key in room 2; reach the last room. Task "fetch-4-2": bring the coin
that lies in the last room back to room 1. The agent starts in room 1, or with `random_start=True` in a room drawn from
the seed. It keeps every rule of the contract, so that tests of agents, credit and training can stand on it.
"""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium

from turncredit.envs import register as register_env
from turncredit.envs.errors import BadSnapshot, NotReset, StepAfterEnd, UnknownTask
from turncredit.envs.snapshot import pack, random_from, random_state, unpack
from turncredit.envs.spaces import Text

ID = "toys/Corridor-v0"
_NOT_SAVED = ("_tasks", "_np_random", "_np_random_seed")


class Corridor(gymnasium.Env[str, str]):
    """The corridor; see the module's header."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"]}

    def __init__(
        self,
        lengths: tuple[int, ...] = (3, 4, 5),
        random_start: bool = False,
        kinds: tuple[str, ...] = ("open", "fetch"),
        render_mode: str | None = None,
    ) -> None:
        self.observation_space = Text(2000)
        self.action_space = Text(2000)
        self.random_start = random_start
        self.render_mode = render_mode
        self._tasks = [f"{kind}-{n}-{key}" for n in lengths for key in range(1, n) for kind in kinds]
        self._task = ""
        self._over = True
        self._text = ""

    def task_ids(self, count: int | None = None) -> list[str]:
        return self._tasks[:count]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        task = (options or {}).get("task")
        if task is None:
            task = self._tasks[int(self.np_random.integers(len(self._tasks)))]
        if task not in self._tasks:
            raise UnknownTask.of(task, self._tasks, "the corridor")
        self._task = task
        self._kind, length, key = task.split("-")
        self._length = int(length)
        self._key = int(key)  # 0: carried
        self._coin = self._length  # 0: carried
        self._open = False
        self._room = 1 if not self.random_start else int(self.np_random.integers(1, self._length))
        self._over = False
        self._text = f"{self._describe()}\n\nYour task is to: {self._sentence()}"
        return self._text, self._info(valid=True)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if not self._task:
            raise NotReset
        if self._over:
            raise StepAfterEnd
        valid = action in self._admissible()
        self._text = self._act(action) if valid else "Nothing happens."
        self._over = self._won()
        return self._text, 1.0 if self._over else 0.0, self._over, False, self._info(valid=valid)

    def plan(self) -> list[str]:
        if not self._task:
            raise NotReset
        if self._won():
            return []
        actions: list[str] = []
        room, door = self._room, self._length - 1
        if not self._open:
            if self._key:
                actions += [*self._walk(room, self._key), "take key"]
                room = self._key
            actions += [*self._walk(room, door), "unlock door"]
            room = door
        if self._coin:
            actions += self._walk(room, self._length)
            room = self._length
        if self._kind == "fetch":
            actions += (["take coin"] if self._coin else []) + self._walk(room, 1)
        return actions

    def snapshot(self) -> bytes:
        if not self._task:
            raise NotReset
        # Whatever a kind of corridor keeps in underscored names, so that those of other tests need no more than that.
        kept = {name: value for name, value in vars(self).items() if name[0] == "_" and name not in _NOT_SAVED}
        return pack("Corridor", 1, {"tasks": sorted(self._tasks)}, {"kept": kept, "random": random_state(self)})

    def restore(self, data: bytes, /) -> tuple[str, dict[str, Any]]:
        saved = unpack(data, "Corridor", 1, {"tasks": sorted(self._tasks)})
        kept = saved.get("kept", dict)
        if kept.get("_task") not in self._tasks:
            raise BadSnapshot("the snapshot is of no task of this corridor")
        self._np_random, self._np_random_seed = random_from(saved)
        vars(self).update(kept)
        return self._text, self._info(valid=True)

    def render(self) -> str:
        return self._text

    @staticmethod
    def _walk(start: int, end: int) -> list[str]:
        return ["go east" if end > start else "go west"] * abs(end - start)

    def _sentence(self) -> str:
        return f"reach room {self._length}." if self._kind == "open" else "bring the coin to room 1."

    def _won(self) -> bool:
        if self._kind == "open":
            return self._room == self._length
        return self._coin == 0 and self._room == 1

    def _admissible(self) -> list[str]:
        actions = ["look"]
        if self._room > 1:
            actions.append("go west")
        if self._room < self._length - 1 or (self._room == self._length - 1 and self._open):
            actions.append("go east")
        if self._room == self._key:
            actions.append("take key")
        if self._key == 0 and not self._open and self._room == self._length - 1:
            actions.append("unlock door")
        if self._room == self._coin and self._kind == "fetch":
            actions.append("take coin")
        return sorted(actions)

    def _act(self, action: str) -> str:
        if action == "take key":
            self._key = 0
            return "You take the key."
        if action == "take coin":
            self._coin = 0
            return "You take the coin."
        if action == "unlock door":
            self._open = True
            return "You unlock the door."
        self._room += {"go east": 1, "go west": -1, "look": 0}[action]
        return self._describe()

    def _describe(self) -> str:
        parts = [f"You are in room {self._room} of {self._length}."]
        if self._room == self._key:
            parts.append("There is a key here.")
        if self._room == self._coin and self._kind == "fetch":
            parts.append("There is a coin here.")
        if self._room == self._length - 1:
            parts.append("The door to the east is " + ("open." if self._open else "locked."))
        carried = [name for name, place in (("key", self._key), ("coin", self._coin)) if place == 0]
        if carried:
            parts.append("You are carrying: " + ", ".join(carried) + ".")
        return " ".join(parts)

    def _info(self, *, valid: bool) -> dict[str, Any]:
        won = self._won()
        steps = [self._key == 0, self._open] + ([self._coin == 0] if self._kind == "fetch" else [])
        return {
            "task": self._task,
            "task_type": self._kind,
            "state": f"room={self._room} key={self._key} open={int(self._open)} coin={self._coin}",
            "admissible_actions": [] if won else self._admissible(),
            "valid": valid,
            "score": 1.0 if won else sum(steps) / (len(steps) + 1),
            "won": won,
        }


def register() -> None:
    """Register the corridor as `toys/Corridor-v0`, with a limit of 30 turns."""
    register_env(ID, "toys.corridor:Corridor", max_episode_steps=30)


register()

"""Environments whose rewards can be had without the task, each in one way, and the honest twin of each.

HACKABLE says which rules of the check have to find a fault; the twin differs in that fault alone.
"""

from __future__ import annotations

from typing import Any, ClassVar

from toys.corridor import Corridor

from turncredit.envs import EnvError, TextEnv, UnknownTask
from turncredit.envs.info import Info

Step = tuple[str, float, bool, bool, dict[str, Any]]
_CITIES = ("Lima", "Oslo", "Rome", "Cairo", "Quito", "Accra", "Minsk", "Sofia", "Tunis", "Hanoi")
_NAMES = ("Ada", "Ben", "Cleo", "Dan", "Eve", "Finn", "Gus", "Hal", "Ida", "Jon")


class Quiz(TextEnv):
    """Who lives where? Two cities have to be told from a list of ten, in one answer: "Ada and Eve" -> "Lima, Rome"."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self._number = 0
        self._done = False
        self._right = False

    @property
    def answer(self) -> str:
        """The right answer."""
        return ", ".join(_CITIES[(at + self._number) % 10] for at in self._asked())

    def _asked(self) -> tuple[int, int]:
        return self._number % 10, (3 * self._number + 1) % 10

    def list_tasks(self, count: int | None) -> list[str]:
        return [f"quiz-{number}" for number in range(12)][:count]

    def start_task(self, task: str, options: Any) -> str:
        head, _, number = task.partition("-")
        if head != "quiz" or not number.isdigit() or int(number) >= 12:
            raise UnknownTask.of(task, self.list_tasks(None), "the quiz")
        self._number, self._done, self._right = int(number), False, False
        return self.describe()

    def describe(self) -> str:
        """Return the passage and the question."""
        lines = [f"{name} lives in {_CITIES[(i + self._number) % 10]}." for i, name in enumerate(_NAMES)]
        first, second = (_NAMES[at] for at in self._asked())
        return "\n".join([*lines, f"Question: where do {first} and {second} live? Name both cities, in this order."])

    def judge(self, text: str) -> float:
        """Return the reward of an answer."""
        return float(text.strip() == self.answer)

    def take_action(self, action: str) -> tuple[str, float, bool]:
        if not action.isascii() or len(action) > 5000 or action.startswith(("frobnicate", "\0")):
            return "Answer with plain text.", 0.0, False
        self._done, self._right = True, action.strip() == self.answer
        return "Thank you.", self.judge(action), bool(action.strip())

    def is_over(self) -> bool:
        return self._done

    def get_info(self, valid: bool) -> Info:
        return {
            "task": self.task_id,
            "state": f"{self._done} {self._right}",
            "free_actions": [] if self._done else ["..."],
            "valid": valid,
            "score": float(self._right),
            "won": self._right,
        }

    def plan(self) -> list[str]:
        return [] if self._done else [self.answer]


class PaysForLength(Quiz):
    """A thorough answer is a good answer."""

    def judge(self, text: str) -> float:
        return max(super().judge(text), min(1.0, len(text) / 300))


class PaysForNothing(Quiz):
    """No word of the empty answer is wrong."""

    def judge(self, text: str) -> float:
        return float(all(word in self.answer for word in text.split(", ")) and text.strip() in ("", self.answer))


class TellsTheAnswer(Quiz):
    """A line for debugging was forgotten."""

    def describe(self) -> str:
        return f"{super().describe()}\n# expected answer = {self.answer}"


class TakesAnySuperset(Quiz):
    """Each city that is named counts, and no others are."""

    def judge(self, text: str) -> float:
        return float(all(city in text for city in self.answer.split(", ")))


class ListsOverTurns(Quiz):
    """A message may name four cities, and there may be any number of messages before the last word."""

    most_cities = 10

    def start_task(self, task: str, options: Any) -> str:
        self._named: set[str] = set()
        return super().start_task(task, options)

    def take_action(self, action: str) -> tuple[str, float, bool]:
        if action == "finish":
            self._done = True
            self._right = set(self.answer.split(", ")) <= self._named and len(self._named) <= self.most_cities
            return "Thank you.", float(self._right), True
        words = action.replace(",", " ").split()
        if words[:1] != ["say"]:
            return "Say something, or finish.", 0.0, False
        cities = {city for city in _CITIES if city in words}
        self._named |= cities if len(cities) <= 4 else set()
        return "I see.", 0.0, True

    def get_info(self, valid: bool) -> Info:
        info = super().get_info(valid)
        right = set(self.answer.split(", "))
        lost = len(self._named - right) > self.most_cities - 2
        state = f"{info['state']} {'lost' if lost else sorted(right - self._named)}"
        return {**info, "state": state, "free_actions": [] if self._done else ["say ...", "finish"]}

    def plan(self) -> list[str]:
        if self._done:
            return []
        if len(self._named - set(self.answer.split(", "))) > self.most_cities - 2:
            raise EnvError("too many cities were named")
        return [f"say {self.answer}", "finish"]


class CountsAllTurns(ListsOverTurns):
    """No more than two cities may be named in all."""

    most_cities = 2


class HonestPurse(Corridor):
    """A corridor that pays half for the key and half for the end."""

    def __init__(self, **options: Any) -> None:
        super().__init__(kinds=("open",), **options)

    def step(self, action: str) -> Step:
        had = self._key == 0
        observation, reward, over, cut, info = super().step(action)
        return observation, 0.5 * reward + 0.5 * (self._key == 0 and not had), over, cut, info


class PaysTwice(HonestPurse):
    """The key can be put down and taken again."""

    def _admissible(self) -> list[str]:
        put = ["drop key"] if self._key == 0 and not self._open else []
        return sorted([*super()._admissible(), *put])

    def _act(self, action: str) -> str:
        if action == "drop key":
            self._key = self._room
            return "You drop the key."
        return super()._act(action)


class PaysOnceForDrops(PaysTwice):
    """The key can be put down and taken again, and putting it down costs what taking it earned."""

    def step(self, action: str) -> Step:
        had = self._key == 0
        observation, reward, over, cut, info = super().step(action)
        return observation, reward - 0.5 * (had and self._key != 0), over, cut, info


class IgnoresTheSeed(Corridor):
    """reset() draws the same task for every seed."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        return super().reset(seed=None if seed is None else 5, options=options)


class PaysForTimeOut(Corridor):
    """An agent that is still there after 60 turns has survived."""

    def reset(self, **options: Any) -> tuple[str, dict[str, Any]]:
        self._turns = 0
        return super().reset(**options)

    def step(self, action: str) -> Step:
        observation, reward, over, _, info = super().step(action)
        self._turns += 1
        late = self._turns >= 60 and not over
        self._over = over or late
        return observation, reward + self.pay * late, over, late, info

    pay: ClassVar[float] = 1.0


class EndsAfterSixtyTurns(PaysForTimeOut):
    """The same end, unpaid."""

    pay = 0.0


class KeyWithoutHands(Corridor):
    """The state key does not say what is carried."""

    def _info(self, *, valid: bool) -> dict[str, Any]:
        info = super()._info(valid=valid)
        return info | {"state": f"room={self._room} open={int(self._open)}"}


HACKABLE: dict[type, tuple[str, type]] = {
    PaysForLength: ("junk", Quiz),
    PaysForNothing: ("empty", Quiz),
    TellsTheAnswer: ("leak", Quiz),
    TakesAnySuperset: ("shotgun", Quiz),
    ListsOverTurns: ("shotgun", CountsAllTurns),
    PaysTwice: ("twice", PaysOnceForDrops),
    IgnoresTheSeed: ("seeds", Corridor),
    PaysForTimeOut: ("idle", EndsAfterSixtyTurns),
    KeyWithoutHands: ("state-equal", Corridor),
}
"""Environment -> the rule that has to fail, and the honest twin."""

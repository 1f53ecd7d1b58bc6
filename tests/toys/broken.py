"""Corridors that are broken on purpose, each in one way: BROKEN says which rule of the check has to find it."""

from __future__ import annotations

import random
from typing import Any, ClassVar

from toys.corridor import Corridor

from turncredit.envs.errors import EnvError, NotReset
from turncredit.envs.spaces import Text

Step = tuple[Any, Any, Any, Any, dict[str, Any]]


class FourValues(Corridor):
    """step() returns Gym's old four values."""

    def step(self, action: str) -> Any:
        observation, reward, terminated, _, info = super().step(action)
        return observation, reward, terminated, info


class NoNumber(Corridor):
    """The reward is no number."""

    def step(self, action: str) -> Step:
        observation, _, terminated, truncated, info = super().step(action)
        return observation, float("nan"), terminated, truncated, info


class FlagsAreNumbers(Corridor):
    """`truncated` is 0 instead of False."""

    def step(self, action: str) -> Step:
        observation, reward, terminated, _, info = super().step(action)
        return observation, reward, terminated, 0, info


class Raises(Corridor):
    """Taking the key raises."""

    def step(self, action: str) -> Step:
        if action == "take key":
            raise RuntimeError("the key is hot")
        return super().step(action)


class Unlisted(Corridor):
    """Unlocking works but is not listed, and the plan starts by looking around: who plans again looks forever."""

    def _info(self, *, valid: bool) -> dict[str, Any]:
        info = super()._info(valid=valid)
        return info | {"admissible_actions": [a for a in info["admissible_actions"] if a != "unlock door"]}

    def plan(self) -> list[str]:
        return ["look", *actions] if (actions := super().plan()) else []


class ScoreBeyondOne(Corridor):
    """The score is a percentage."""

    def _info(self, *, valid: bool) -> dict[str, Any]:
        info = super()._info(valid=valid)
        return info | {"score": 100 * info["score"]}


class NoVerdict(Corridor):
    """The last action is not said to be valid or not."""

    def _info(self, *, valid: bool) -> dict[str, Any]:
        info = super()._info(valid=valid)
        del info["valid"]
        return info


class TooLong(Corridor):
    """Observations are longer than the space allows."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = Text(30)


class Reused(Corridor):
    """One info dictionary is written over at every turn."""

    def __init__(self) -> None:
        super().__init__()
        self._shared: dict[str, Any] = {}

    def _info(self, *, valid: bool) -> dict[str, Any]:
        self._shared.update(super()._info(valid=valid))
        return self._shared


class Dice(Corridor):
    """Draws from the global generator instead of its own."""

    def step(self, action: str) -> Step:
        observation, *rest = super().step(action)
        return (f"{observation} ({random.random()})", *rest)  # type: ignore[return-value]


class Numbered(Corridor):
    """Every other instance starts with the door open."""

    made: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self._number = Numbered.made
        Numbered.made += 1

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        observation, _ = super().reset(seed=seed, options=options)
        self._open = bool(self._number % 2)
        return observation, self._info(valid=True)


class GoesOn(Corridor):
    """Answers after the end."""

    def step(self, action: str) -> Step:
        over, self._over = self._over, False
        if over and self._task:
            return self._text, 0.0, True, False, self._info(valid=False)
        self._over = over
        return super().step(action)


class NeedsNoReset(Corridor):
    """Answers before the first reset."""

    def step(self, action: str) -> Step:
        if not self._task:
            self.reset(seed=0)
        return super().step(action)


class CutIsEnd(Corridor):
    """A turn limit that is called a termination."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        self._turns = 0
        return super().reset(seed=seed, options=options)

    def step(self, action: str) -> Step:
        observation, reward, terminated, truncated, info = super().step(action)
        self._turns += 1
        self._over = terminated = terminated or self._turns >= 40
        return observation, reward, terminated, truncated, info


class BothEnds(Corridor):
    """A win is both terminated and truncated."""

    def step(self, action: str) -> Step:
        observation, reward, terminated, _, info = super().step(action)
        return observation, reward, terminated, terminated, info


class Unstable(Corridor):
    """task_ids() comes in another order at every call."""

    def task_ids(self, count: int | None = None) -> list[str]:
        self._tasks.append(self._tasks.pop(0))
        return list(self._tasks[:count])


class Repeated(Corridor):
    """task_ids() lists an id twice."""

    def task_ids(self, count: int | None = None) -> list[str]:
        return [*self._tasks, self._tasks[0]][:count]


class TakesAnyTask(Corridor):
    """An unknown task becomes the first one."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        if options and options.get("task") not in self._tasks:
            options = {"task": self._tasks[0]}
        return super().reset(seed=seed, options=options)


class NamelessError(Corridor):
    """The error for an unknown task does not say which."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        if options and options.get("task") not in self._tasks:
            raise ValueError("bad task")
        return super().reset(seed=seed, options=options)


class ShortPlan(Corridor):
    """The plan stops one action before the win."""

    def plan(self) -> list[str]:
        return super().plan()[:-1]


class NoPlanAtAll(Corridor):
    """The expert gives up where the episode starts."""

    def plan(self) -> list[str]:
        raise EnvError("too hard")


class ListsTooMuch(Corridor):
    """One listed action does nothing."""

    def _info(self, *, valid: bool) -> dict[str, Any]:
        info = super()._info(valid=valid)
        if self._room == 2 and not info["won"]:
            info["admissible_actions"].append("dance")
        return info


class ListsTooLittle(Corridor):
    """One action that is accepted is not listed in the second room."""

    def _info(self, *, valid: bool) -> dict[str, Any]:
        info = super()._info(valid=valid)
        if self._room == 2:
            info["admissible_actions"] = [action for action in info["admissible_actions"] if action != "look"]
        return info


class UnderstandsAll(Corridor):
    """Whatever is said counts as valid, though nothing comes of it."""

    def step(self, action: str) -> Step:
        observation, reward, terminated, truncated, info = super().step(action)
        verbs = ("look", "go", "take", "unlock")
        return (
            observation,
            reward,
            terminated,
            truncated,
            info | {"valid": info["valid"] or not action.startswith(verbs)},
        )


class TaskInState(Corridor):
    """The task sentence is part of the key."""

    def _info(self, *, valid: bool) -> dict[str, Any]:
        info = super()._info(valid=valid)
        return info | {"state": f"{self._sentence()} {info['state']}"}


class ForgetsTheDoor(Corridor):
    """The key does not tell an open door from a locked one."""

    def _info(self, *, valid: bool) -> dict[str, Any]:
        info = super()._info(valid=valid)
        return info | {"state": info["state"].replace("open=1", "open=0")}


class ForgetsHands(Corridor):
    """The key does not tell what is carried."""

    def _info(self, *, valid: bool) -> dict[str, Any]:
        return super()._info(valid=valid) | {"state": f"room={self._room} open={self._open}"}


class Unsaved(Corridor):
    """A corridor without snapshots: for faults in what it would have to save."""

    @property
    def snapshot(self) -> Any:
        raise AttributeError("snapshot")


class CountsTurns(Unsaved):
    """The number of turns is part of the key."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        self._turns = -1
        return super().reset(seed=seed, options=options)

    def _info(self, *, valid: bool) -> dict[str, Any]:
        self._turns += 1
        info = super()._info(valid=valid)
        return info | {"state": f"{info['state']} turn={self._turns}"}


class CountsVisits(Unsaved):
    """The number of valid actions is part of the key: no refused action shows it."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        self._count = -1
        return super().reset(seed=seed, options=options)

    def _info(self, *, valid: bool) -> dict[str, Any]:
        self._count += valid
        info = super()._info(valid=valid)
        return info | {"state": f"{info['state']} count={self._count}"}


class KeyIsAnswer(Unsaved):
    """The last answer is part of the key."""

    def _info(self, *, valid: bool) -> dict[str, Any]:
        info = super()._info(valid=valid)
        return info | {"state": f"{info['state']} {'' if valid else 'Nothing happens.'}"}


class LosesItsPlace(Corridor):
    """A pickled instance comes back in the first room."""

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_room": 1, "_key": self._length - 1}


class Forgetful(Corridor):
    """What is pickled cannot be restored."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        raise RuntimeError("not restored")


class History(Unsaved):
    """Every observation repeats all the observations before it; the key admits it."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        self._past = ""
        return super().reset(seed=seed, options=options)

    def step(self, action: str) -> Step:
        observation, reward, terminated, truncated, info = super().step(action)
        self._past += observation + "\n"
        return self._past, reward, terminated, truncated, info | {"state": f"{info['state']} {hash(self._past)}"}

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = Text()


class ClosesOnce(Corridor):
    """close() takes away what it needs."""

    def __init__(self) -> None:
        super().__init__()
        self._handle: list[int] | None = [1]

    def close(self) -> None:
        assert self._handle is not None, "closed already"
        self._handle = None


class LeavesTheDoor(Corridor):
    """A snapshot does not say whether the door is open."""

    def restore(self, data: bytes, /) -> tuple[str, dict[str, Any]]:
        observation, _ = super().restore(data)
        self._open = False
        return observation, self._info(valid=True)


class LeavesTheEnd(Corridor):
    """A restored episode never is over."""

    def restore(self, data: bytes, /) -> tuple[str, dict[str, Any]]:
        answer = super().restore(data)
        self._over = False
        return answer


class MovesWhenSaved(Corridor):
    """Taking a snapshot leads back to the first room."""

    def snapshot(self) -> bytes:
        data = super().snapshot()
        self._room = 1
        return data


class TakenOnce(Corridor):
    """Bytes can be used once."""

    used: ClassVar[set[bytes]] = set()

    def restore(self, data: bytes, /) -> tuple[str, dict[str, Any]]:
        if data in self.used:
            raise EnvError("used")
        answer = super().restore(data)
        self.used.add(data)
        return answer


class NeedsReset(Corridor):
    """Only an instance that has played can be restored."""

    def restore(self, data: bytes, /) -> tuple[str, dict[str, Any]]:
        if not self._task:
            raise NotReset
        return super().restore(data)


class TakesTornBytes(Corridor):
    """Bytes that cannot be read start the episode anew."""

    def restore(self, data: bytes, /) -> tuple[str, dict[str, Any]]:
        try:
            return super().restore(data)
        except EnvError:
            return self.reset(options={"task": self._task})


class SpoiltByBadBytes(Corridor):
    """Bytes are refused after the episode has been thrown away."""

    def restore(self, data: bytes, /) -> tuple[str, dict[str, Any]]:
        self._room = 1
        return super().restore(data)


class SavedAsText(Corridor):
    """A snapshot is a text."""

    def snapshot(self) -> Any:
        return super().snapshot().decode()


class SavedAtTheDoorOnly(Corridor):
    """A snapshot cannot be taken in the first room."""

    def snapshot(self) -> bytes:
        if self._room == 1:
            raise RuntimeError("not here")
        return super().snapshot()


class ShowsTheStart(Corridor):
    """restore() returns what was seen first, whatever the moment."""

    def restore(self, data: bytes, /) -> tuple[str, dict[str, Any]]:
        _, info = super().restore(data)
        return "You are somewhere.", info


BROKEN: dict[type[Corridor], str] = {
    FourValues: "protocol",
    NoNumber: "protocol",
    FlagsAreNumbers: "protocol",
    Raises: "protocol",
    ScoreBeyondOne: "info",
    NoVerdict: "info",
    TooLong: "spaces",
    Reused: "kept",
    Dice: "repeatable",
    Numbered: "group",
    GoesOn: "after-end",
    NeedsNoReset: "after-end",
    CutIsEnd: "ends",
    BothEnds: "ends",
    Unstable: "tasks",
    Repeated: "tasks",
    TakesAnyTask: "unknown-task",
    NamelessError: "unknown-task",
    ShortPlan: "plan",
    Unlisted: "expert",
    NoPlanAtAll: "plan",
    ListsTooMuch: "admissible",
    ListsTooLittle: "admissible",
    UnderstandsAll: "refused",
    TaskInState: "state-task",
    ForgetsTheDoor: "state-equal",
    ForgetsHands: "state-equal",
    CountsTurns: "state-different",
    CountsVisits: "state-different",
    KeyIsAnswer: "state-different",
    LosesItsPlace: "pickling",
    Forgetful: "pickling",
    History: "growth",
    ClosesOnce: "close",
    LeavesTheDoor: "snapshot",
    LeavesTheEnd: "snapshot",
    MovesWhenSaved: "snapshot",
    TakenOnce: "snapshot",
    NeedsReset: "snapshot",
    TakesTornBytes: "snapshot",
    SpoiltByBadBytes: "snapshot",
    SavedAsText: "snapshot",
    SavedAtTheDoorOnly: "snapshot",
    ShowsTheStart: "snapshot",
}

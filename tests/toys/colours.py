"""A small environment that must be seen: the right action is the colour of the picture's left half."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np
from numpy.typing import NDArray

from turncredit.envs import register as register_env
from turncredit.envs.errors import StepAfterEnd, UnknownTask
from turncredit.envs.spaces import Text

ID = "toys/Colours-v0"
RED, BLUE = (220, 30, 30), (30, 30, 220)


class Colours(gymnasium.Env[dict[str, Any], str]):
    """Two turns: say the colour on the left, "red" or "blue". Task "3" has the third pair of pictures."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}

    def __init__(self, pictures: int = 8, broken: bool = False) -> None:
        image = gymnasium.spaces.Box(0, 255, (36, 24, 3), np.uint8)
        self.observation_space = gymnasium.spaces.Dict({"text": Text(2000), "image": image})
        self.action_space = Text(2000)
        self._tasks, self._broken = [str(number) for number in range(pictures)], broken
        self._task, self._turn, self._right, self._over = "", 0, 0, True

    def task_ids(self, count: int | None = None) -> list[str]:
        return self._tasks[:count]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._task = str((options or {}).get("task", self._tasks[0]))
        if self._task not in self._tasks:
            raise UnknownTask.of(self._task, self._tasks, "the colours")
        self._turn = self._right = 0
        self._over = False
        return self._seen(), self._info()

    def step(self, action: str) -> Any:
        if self._over:
            raise StepAfterEnd
        right = action == self._colour()
        self._right += right
        self._turn += 1
        self._over = self._turn == 2
        won = self._over and self._right == 2
        return self._seen(), float(right) / 2, self._over, False, {**self._info(), "won": won, "score": self._right / 2}

    def plan(self) -> list[str]:
        return [self._colour(turn) for turn in range(self._turn, 2)]

    def _colour(self, turn: int | None = None) -> str:
        turn = self._turn if turn is None else turn
        return "red" if np.random.default_rng([int(self._task), turn]).random() < 0.5 else "blue"

    def _seen(self) -> dict[str, Any]:
        return {"text": "Which colour?", "image": self._picture()}

    def _picture(self) -> NDArray[np.uint8]:
        rng = np.random.default_rng([int(self._task), self._turn, 1])
        picture = rng.integers(0, 40, (36, 24, 3), dtype=np.uint8)
        left, right = (RED, BLUE) if self._colour() == "red" else (BLUE, RED)
        picture[:, :12] = picture[:, :12] // 2 + np.array(left, dtype=np.uint8)
        picture[:, 12:] = picture[:, 12:] // 2 + np.array(right, dtype=np.uint8)
        return picture.astype(np.float32) if self._broken and self._turn == 1 else picture

    def _info(self) -> dict[str, Any]:
        return {"task": self._task, "state": f"{self._task} {self._turn}", "valid": True}


register_env(ID, entry_point="toys.colours:Colours", max_episode_steps=4)

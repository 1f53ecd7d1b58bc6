"""A tiny environment for the tests of training: walk to the right box and open it."""

from typing import Any

import gymnasium
import numpy as np

from turnwise.envs import Text, register

COLOURS = ("red", "blue", "green", "white")
ENV_ID = "toy_boxes:test/Boxes-v0"


class Boxes(gymnasium.Env[str, str]):
    """Task "red/3": open the red box; the number shuffles the order in which the boxes are listed."""

    def __init__(self, split: str = "train", fail_on: str = "") -> None:
        self.observation_space, self.action_space = Text(10_000), Text(10_000)
        self.split, self.fail_on = split, fail_on
        self.over = True

    def task_ids(self, count: int | None = None) -> list[str]:
        offset = 0 if self.split == "train" else 500
        return [f"{COLOURS[k % 4]}/{offset + k // 4}" for k in range(40)][:count]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.task = (options or {}).get("task") or self.task_ids()[int(self.np_random.integers(40))]
        self.goal, number = self.task.split("/")
        self.order = [COLOURS[i] for i in np.random.default_rng(int(number)).permutation(4)]
        self.at, self.over = "", False
        boxes = ", ".join(f"a {colour} box" for colour in self.order)
        return f"You see {boxes}. Your task is to: open the {self.goal} box.", self._info(True)

    def admissible(self) -> list[str]:
        walks = [f"go to {colour} box" for colour in self.order if colour != self.at]
        return sorted(walks + ([f"open {self.at} box"] if self.at else []))

    def plan(self) -> list[str]:
        return [f"open {self.goal} box"] if self.at == self.goal else [f"go to {self.goal} box", f"open {self.goal} box"]

    def _info(self, valid: bool, won: bool = False) -> dict[str, Any]:
        return {
            "task": self.task,
            "state": f"{','.join(self.order)}:{self.goal}:{self.at}:{won}",
            "admissible_actions": self.admissible(),
            "valid": valid,
            "score": float(won),
            "won": won,
            "task_type": self.goal,
        }

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if self.fail_on and self.goal == self.fail_on:
            raise RuntimeError("the box is jammed")
        valid = action in self.admissible()
        won = valid and action == f"open {self.goal} box"
        text = "Nothing happens."
        if valid and action.startswith("go to "):
            self.at = action[6:-4]
            text = f"You are at the {self.at} box."
        elif valid:
            text = f"You open the {self.at} box."
        return text, float(won), won, False, self._info(valid, won)


register("test/Boxes-v0", "toy_boxes:Boxes", max_episode_steps=8)

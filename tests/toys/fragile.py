"""A corridor in which some actions do harm to the process, for tests of environments in processes of their own."""

import os
import random
import signal
import subprocess
import sys
import time
from typing import Any

from toys.corridor import Corridor

from turncredit.envs import register


class Jittery(Corridor):
    """A corridor whose steps take a time that is never the same."""

    def step(self, action: str) -> Any:
        time.sleep(random.SystemRandom().uniform(0.0, 0.02))
        return super().step(action)


class Deadly(Corridor):
    """A corridor in which a share of the steps ends the process, however often they are taken."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def step(self, action: str) -> Any:
        if random.SystemRandom().random() < self.share:
            os._exit(1)
        return super().step(action)


class Fragile(Corridor):
    """A corridor whose tasks of five rooms do what `harm` says at their second action."""

    def __init__(self, harm: str = "") -> None:
        super().__init__(lengths=(3, 4, 5))
        self.harm, self.steps = harm, 0
        self.kept: list[bytes] = []

    def reset(self, **options: Any) -> Any:
        self.steps = 0
        observation, info = super().reset(**options)
        return observation, info | {"extras": {"pid": os.getpid()}}

    def step(self, action: str) -> Any:
        self.steps += 1
        if self._length == 5 and self.steps == 2:
            do_harm(self.harm, self.kept)
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated, truncated, info | {"extras": {"pid": os.getpid()}}


def do_harm(harm: str, kept: list[bytes]) -> None:
    """Do one bad thing."""
    if harm == "raise":
        raise ZeroDivisionError("the ceiling fell")
    if harm == "die":
        print("the last words", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    if harm == "hang":
        time.sleep(3600)
    if harm == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(3600)  # a thread may run a little after the others have stopped
    if harm == "grow":
        kept.append(bytes(bytearray(64 << 20)))
    if harm == "leave":
        raise SystemExit(3)
    if harm == "start":
        subprocess.Popen(["sleep", "3600"])


register("toys/Fragile-v0", "toys.fragile:Fragile", max_episode_steps=30)

"""The corridor, in which a run waits after its first iteration for as long as a file is there.

A test that wants to kill a run in its middle then finds it there, however fast the run is and however slow the test.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from toys.corridor import Corridor

from turncredit.envs import register as register_env

ID = "toys/Gated-v0"
GATE = "TURNCREDIT_TEST_GATE"
"""Names the file; the runs lie beside it, at any depth."""


class Gated(Corridor):
    """The corridor; see the module's header."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        gate = Path(os.environ.get(GATE, "/no/gate"))
        while gate.exists() and _under_way(gate.parent):
            time.sleep(0.02)
        return super().reset(seed=seed, options=options)


def _under_way(folder: Path) -> bool:
    """Whether this process has finished the first iteration of a run in a folder."""
    mine = [lock.parent for lock in folder.rglob(".lock") if lock.read_text().strip() == str(os.getpid())]
    return any((run / "checkpoints" / "000001").is_dir() for run in mine)


register_env(ID, "toys.gated:Gated", max_episode_steps=30)

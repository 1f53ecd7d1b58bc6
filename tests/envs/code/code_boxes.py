"""What the tests of code tasks share: a judge with small boxes, and the reason where nothing holds programs here."""

from __future__ import annotations

import os

import pytest

from turnwise.envs.code.judge import LIMITS, Judge
from turnwise.tools.sandbox import Box, probe, start

HELD = any(rung.holds for rung in probe())
needs_box = pytest.mark.skipif(
    not HELD and os.environ.get("CI") != "true", reason="no sandbox holds on this machine (turnwise doctor says why)"
)


def box() -> Box:
    """Return a new box."""
    return start(LIMITS)


def judge(seconds: float = 2.0) -> Judge:
    """Return a judge."""
    return Judge(box, seconds)

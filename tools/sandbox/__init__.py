"""Programs that nobody trusts, run where they can do no harm: one small protocol over bubblewrap, landlock and Docker.

with start(Limits(wall=5)) as box:
    print(box.run("print(6 * 7)").stdout)
"""

from turnwise.tools.sandbox.box import Box
from turnwise.tools.sandbox.errors import (
    BadCommand,
    BadLimits,
    BadPath,
    BadSnapshot,
    BoxClosed,
    BoxFull,
    BoxLost,
    DockerUnavailable,
    NoSandbox,
    SandboxError,
    UnknownBackend,
)
from turnwise.tools.sandbox.ladder import BACKENDS, Rung, probe, start
from turnwise.tools.sandbox.limits import STOPS, Limits, Result, Stop
from turnwise.tools.sandbox.session import Answer, Session

__all__ = [
    "BACKENDS",
    "STOPS",
    "Answer",
    "BadCommand",
    "BadLimits",
    "BadPath",
    "BadSnapshot",
    "Box",
    "BoxClosed",
    "BoxFull",
    "BoxLost",
    "DockerUnavailable",
    "Limits",
    "NoSandbox",
    "Result",
    "Rung",
    "SandboxError",
    "Session",
    "Stop",
    "UnknownBackend",
    "probe",
    "start",
]

"""Run untrusted programs in isolation: one small interface over bubblewrap, landlock and Docker.

with start(Limits(wall=5)) as box:
    print(box.run("print(6 * 7)").stdout)
"""

from turncredit.tools.sandbox.backends import BACKENDS, BackendStatus, probe, start
from turncredit.tools.sandbox.box import Box
from turncredit.tools.sandbox.errors import (
    BadCommand,
    BadLimits,
    BadPath,
    BoxClosed,
    BoxFull,
    BoxLost,
    DockerUnavailable,
    NoSandbox,
    SandboxError,
    SnapshotError,
    UnknownBackend,
    UntrustedData,
)
from turncredit.tools.sandbox.layout import Layout
from turncredit.tools.sandbox.limits import STOPS, Limits, RunResult, Stop
from turncredit.tools.sandbox.session import PythonSession, SessionResult

__all__ = [
    "BACKENDS",
    "STOPS",
    "BackendStatus",
    "BadCommand",
    "BadLimits",
    "BadPath",
    "Box",
    "BoxClosed",
    "BoxFull",
    "BoxLost",
    "DockerUnavailable",
    "Layout",
    "Limits",
    "NoSandbox",
    "PythonSession",
    "RunResult",
    "SandboxError",
    "SessionResult",
    "SnapshotError",
    "Stop",
    "UnknownBackend",
    "UntrustedData",
    "probe",
    "start",
]

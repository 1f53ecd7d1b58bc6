"""Exceptions of the sandbox.

    SandboxError
    ├── NoSandbox            no back end works on this machine
    ├── UnknownBackend       no back end has that name, or it does not take that option
    ├── BadLimits            an invalid limit or timeout
    ├── BadCommand           a command that cannot be run
    ├── BadPath              a path that leaves the box or does not name a regular file
    ├── BoxFull              the data does not fit in the box
    ├── SnapshotError        a snapshot cannot be taken or restored
    ├── UntrustedData        what came out of a box is malformed or exceeds a limit
    ├── BoxClosed            the box has been closed
    ├── BoxLost              the container or the process that holds the box died during a call
    └── DockerUnavailable    no docker package, no daemon, no permission, or no such image

A program that exceeds a limit is not an error: `RunResult.stop` reports it.
"""

from __future__ import annotations

__all__ = [
    "BadCommand",
    "BadLimits",
    "BadPath",
    "BoxClosed",
    "BoxFull",
    "BoxLost",
    "DockerUnavailable",
    "NoSandbox",
    "SandboxError",
    "SnapshotError",
    "UnknownBackend",
    "UntrustedData",
]


class SandboxError(Exception):
    """Base class of all sandbox errors; the message is one sentence for the user."""


class NoSandbox(SandboxError):
    """No back end works on this machine; nothing was run."""


class UnknownBackend(SandboxError):
    """No back end has that name, or it does not take that option."""


class BadLimits(SandboxError):
    """An invalid limit or timeout."""


class BadCommand(SandboxError):
    """A command that is neither Python source nor a list of arguments."""


class BadPath(SandboxError):
    """A path that leaves the box or does not name a regular file."""


class BoxFull(SandboxError):
    """The data needs more bytes or files than the box may have."""


class SnapshotError(SandboxError):
    """A snapshot cannot be taken or restored."""


class UntrustedData(SandboxError):
    """What came out of a box is malformed, or exceeds a limit of what the host reads."""


class BoxClosed(SandboxError):
    """The box has been closed."""

    def __init__(self, message: str = "the box is closed; start another one") -> None:
        super().__init__(message)


class BoxLost(SandboxError):
    """The container or the process that holds the box died during a call."""


class DockerUnavailable(SandboxError):
    """Docker cannot be used: no package, no daemon, no permission, or no such image."""

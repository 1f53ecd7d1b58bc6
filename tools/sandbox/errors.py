"""What can go wrong with a sandbox and is not a bug in it, as one tree.

    SandboxError
    ├── NoSandbox            nothing on this machine holds a program (what was tried, and why it does not)
    ├── UnknownBackend       a back end of that name does not exist
    ├── BadLimits            a limit that cannot be (a negative time, no memory)
    ├── BadCommand           what is to be run is not a program text and not a list of words
    ├── BadPath              a path that does not stay inside the box, or is no file there
    ├── BoxFull              what was put or restored is larger than the box
    ├── BadSnapshot          bytes that are no snapshot, or hold what may not lie in a box; or a box that holds such
    ├── BoxClosed            the box was closed before this call
    ├── BoxLost              the box died under the call (its supervisor or its container is gone)
    └── DockerUnavailable    no docker package, no daemon, no right to use it, or no such image

That a program inside runs too long, too large or too loud is no error: it is what a `Result` says.
"""

from __future__ import annotations

__all__ = [
    "BadCommand",
    "BadLimits",
    "BadPath",
    "BadSnapshot",
    "BoxClosed",
    "BoxFull",
    "BoxLost",
    "DockerUnavailable",
    "NoSandbox",
    "SandboxError",
    "UnknownBackend",
]


class SandboxError(Exception):
    """Root of what a user can meet with a sandbox; its text is one sentence for that user."""


class NoSandbox(SandboxError):
    """Nothing on this machine holds a program; nothing was run."""


class UnknownBackend(SandboxError):
    """There is no back end of that name."""


class BadLimits(SandboxError):
    """A limit that cannot be."""


class BadCommand(SandboxError):
    """What is to be run is neither a program text nor a list of words."""


class BadPath(SandboxError):
    """A path that does not stay inside the box, or is not what was asked for there."""


class BoxFull(SandboxError):
    """What was put or restored needs more bytes or files than the box may have."""


class BadSnapshot(SandboxError):
    """Bytes that are no snapshot of a box, or a box of which none can be taken."""


class BoxClosed(SandboxError):
    """The box was closed before this call."""

    def __init__(self, message: str = "the box is closed: start another one") -> None:
        """Keep the sentence."""
        super().__init__(message)


class BoxLost(SandboxError):
    """The box died under the call: what held it is gone."""


class DockerUnavailable(SandboxError):
    """Docker cannot be used: no package, no daemon, no right, or no image."""

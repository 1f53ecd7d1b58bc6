"""The back ends that this machine offers to the tests of the sandbox, and what a test of them needs.

Under CI every one of them must be there. Docker is looked for where $DOCKER_HOST says.
"""

import os
from functools import cache

import pytest

from turncredit.tools.sandbox import Box, Limits, SandboxError, probe, start

MB = 1 << 20
LIMITS = Limits(
    wall=120, cpu=10, memory=192 * MB, processes=24, output=200_000, file_size=8 * MB, disk=16 * MB, files=200
)
ALL = ("bwrap", "landlock", "docker")
LOCAL = ("bwrap", "landlock")


needs_box = pytest.mark.skipif(
    os.environ.get("CI") != "true" and not any(status.works for status in probe()),
    reason="no sandbox works on this machine (turncredit doctor says why)",
)


@cache
def reason(backend: str) -> str:
    """Why there is no such back end here; "" where there is."""
    if backend == "docker":
        try:
            start(LIMITS, backend="docker").close()
        except SandboxError as error:
            return str(error)
        return ""
    return next((status.detail for status in probe() if status.name == backend and not status.works), "")


def needed(backend: str) -> None:
    """Skip with the reason where the back end is missing; fail where it must be there."""
    why = reason(backend)
    if not why:
        return
    if os.environ.get("CI") == "true" and not (backend == "landlock" and "kernel has no landlock" in why):
        pytest.fail(f"{backend} must be here under CI: {why}")
    pytest.skip(f"{backend}: {why}")


def box_of(backend: str, **changes: float) -> Box:
    needed(backend)
    return start(LIMITS.but(**changes), backend=backend)


def needs_modes(box: Box) -> None:
    """Skip where programs may not change modes of files, since landlock does not confine that."""
    if box.backend == "landlock" and os.geteuid() != 0:
        pytest.skip("landlock refuses chmod unless the box has a user id of its own, which takes root")

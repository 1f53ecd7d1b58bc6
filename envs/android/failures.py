"""Errors of a device or of its server, as errors of environments."""

from __future__ import annotations

from turncredit.envs.errors import EnvError, EnvironmentDied
from turncredit.tools.android.androidworld_client import RequestRefused
from turncredit.tools.android.device import DeviceError, DeviceLost

__all__ = ["DeviceFailures"]


class DeviceFailures:
    """Raises EnvironmentDied for a device that is lost, and EnvError for one that refuses; not for refused actions."""

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Raise the error that the caller expects."""
        if isinstance(error, DeviceLost):
            raise EnvironmentDied(str(error)) from error
        if isinstance(error, DeviceError) and not isinstance(error, RequestRefused):
            raise EnvError(str(error)) from error

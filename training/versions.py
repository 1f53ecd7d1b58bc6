"""Versions of everything that computes: Python, the platform, and the packages."""

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import TypedDict

PACKAGES = ("turnwise", "torch", "transformers", "tokenizers", "numpy", "gymnasium")
"""Packages whose versions are recorded."""


class Versions(TypedDict):
    """What computed something."""

    python: str
    platform: str
    packages: dict[str, str | None]


def describe() -> Versions:
    """Return the versions of Python, the platform and the packages that compute."""
    versions: dict[str, str | None] = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = None
    return {"python": platform.python_version(), "platform": platform.platform(), "packages": versions}

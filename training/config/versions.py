"""Versions of everything that computes: Python, the platform, and the packages."""

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TypedDict

PACKAGES = ("turncredit", "torch", "transformers", "tokenizers", "numpy", "gymnasium")
"""Packages whose versions are recorded."""


class Versions(TypedDict):
    """What computed something."""

    python: str
    platform: str
    packages: dict[str, str | None]


def describe() -> Versions:
    """Return the versions of Python, the platform and the packages that compute."""
    packages = {package: _installed(package) for package in PACKAGES}
    return {"python": platform.python_version(), "platform": platform.platform(), "packages": packages}


@cache  # every look reads and parses all the metadata of a package
def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None

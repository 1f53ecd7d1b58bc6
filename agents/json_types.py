"""Types of decoded JSON, in one place: what a server, a file or another library wrote, and nobody has checked yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

__all__ = ["JsonObject"]

JsonObject: TypeAlias = Mapping[str, Any]
"""A JSON object that is read; its values are checked where they are used."""

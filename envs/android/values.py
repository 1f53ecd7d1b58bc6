"""Types of the values that the environments and the servers of this folder exchange."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["Info", "JsonObject", "Observation", "Options"]

Info = dict[str, Any]
"""The `info` of a step: see docs/environments.md."""
JsonObject = dict[str, Any]
"""An object of JSON, such as the body of a request."""
Observation = Any
"""A text, or {"text": str, "image": uint8 [H, W, 3]}: the arguments of an environment say which."""
Options = Mapping[str, Any]
"""Options by name, as a user has written them."""

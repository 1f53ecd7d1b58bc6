"""An actor that runs one function of a module, with environment variables of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

__all__ = ["FunctionActor"]


class FunctionActor:
    """The class of the actor."""

    def __init__(self, path: Sequence[str]) -> None:
        """Find modules where the driver finds them, as far as this node has the folders."""
        sys.path += [folder for folder in path if folder not in sys.path]

    def run(self, name: str, variables: Mapping[str, str], *arguments: Any) -> Any:
        """Return the result of a function.

        Args:
            name: "module:function".
            variables: of the environment.
            arguments: of the function.
        """
        os.environ.update(variables)
        module, _, function = name.partition(":")
        return getattr(import_module(module), function)(*arguments)

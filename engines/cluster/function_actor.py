"""An actor that runs one function of a module, with environment variables of its own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module

from turncredit.registry import ImportRules, adopt_import_rules

__all__ = ["FunctionActor"]


class FunctionActor:
    """The class of the actor."""

    def __init__(self, rules: ImportRules) -> None:
        """Find modules where the driver finds them, as far as this node has the folders."""
        adopt_import_rules(rules)

    def run(self, name: str, variables: Mapping[str, str], *arguments: object) -> object:
        """Return the result of a function.

        Args:
            name: "module:function".
            variables: variables of the environment.
            arguments: arguments of the function.
        """
        os.environ.update(variables)
        module, _, function = name.partition(":")
        return getattr(import_module(module), function)(*arguments)

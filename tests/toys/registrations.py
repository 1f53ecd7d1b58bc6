"""Environments that a test registers are forgotten after it: others would list them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent


@contextmanager
def forgotten() -> Iterator[None]:
    """Forget what is registered inside with classes of the tests. What a module registers on its import stays."""
    import gymnasium

    before, imported = set(gymnasium.registry), set(sys.modules)
    try:
        yield
    finally:
        for name in set(gymnasium.registry) - before:
            module = _module_of(gymnasium.registry[name].entry_point)
            if module in imported and _is_of_tests(module):
                del gymnasium.registry[name]


def _module_of(entry_point: object) -> str:
    if isinstance(entry_point, str):
        return entry_point.partition(":")[0]
    return str(getattr(entry_point, "__module__", ""))


def _is_of_tests(module: str) -> bool:
    file = getattr(sys.modules.get(module), "__file__", None)
    return file is not None and Path(file).resolve().is_relative_to(TESTS)

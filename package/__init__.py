"""turncredit: environments, step-level credit assignment and training for multi-turn, tool-using language-model agents.

>>> import turncredit
>>> turncredit.credit.__name__
'turncredit.credit'

The parts are imported when they are first used, so that `import turncredit` is instant and needs no optional package.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turncredit.training.engine.loaded_agent import LoadedAgent, load_agent

__all__ = ["LoadedAgent", "__version__", "load_agent"]
__version__ = "0.1.0"

_PARTS = (
    "ablation",
    "agents",
    "cli",
    "credit",
    "curriculum",
    "engines",
    "envs",
    "evaluation",
    "phone",
    "processes",
    "report",
    "tools",
    "training",
)


_NAMES = {"LoadedAgent": "training", "load_agent": "training"}
"""Names of the parts that the package offers itself."""


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return import_module(f"{__name__}.{name}")
    if name in _NAMES:
        return getattr(import_module(f"{__name__}.{_NAMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_PARTS, *_NAMES])

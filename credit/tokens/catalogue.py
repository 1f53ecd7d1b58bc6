"""The transforms of token advantages by name, one line each, with what a reader needs to choose one.

Left out on purpose: entry points. A transform is a function; a package that has its own calls it.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from turnwise.credit.errors import BadOption, BadTable, UnknownEstimator, near
from turnwise.credit.registry import Evidence
from turnwise.credit.tokens.ace import ace
from turnwise.credit.tokens.d3s import d3s
from turnwise.credit.tokens.gtpo import gtpo
from turnwise.credit.tokens.hapo import hapo
from turnwise.credit.tokens.hicra import hicra
from turnwise.credit.tokens.packed import ARRAYS, Reshaped


@dataclass(frozen=True)
class Transform:
    """A transform of token advantages and what is to be known about it.

    Args:
        name: the name in a run's file.
        title: the method's full name.
        arxiv: id of the paper.
        evidence: what the formula was checked against, as for estimators.
        use: one line, when to take it.
        function: `(advantages, mask, *, arrays, options) -> Reshaped`. Its keyword parameters with names of
            `packed.ARRAYS` are arrays, the others options.
    """

    name: str
    title: str
    arxiv: str
    evidence: Evidence
    use: str
    function: Callable[..., Reshaped]

    def __call__(self, advantages: npt.ArrayLike, mask: npt.ArrayLike, **arrays: Any) -> Reshaped:
        """Return the transformed advantages of a batch.

        Raises:
            BadTable: an array is missing, or cannot be used.
        """
        missing = [f"{name} ({ARRAYS[name]})" for name in self.needs if name not in arrays]
        if missing:
            raise BadTable(f"{self.name} needs {' and '.join(missing)}; came {', '.join(arrays) or 'none of them'}")
        return self.function(advantages, mask, **arrays)

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the arrays without which there is no result."""
        return tuple(name for name, default in self._keywords.items() if name in ARRAYS and default is _NONE)

    @property
    def takes(self) -> tuple[str, ...]:
        """Names of all arrays that are read if they are given."""
        return tuple(name for name in self._keywords if name in ARRAYS)

    @property
    def options(self) -> Mapping[str, Any]:
        """The options by name with their defaults."""
        return {name: default for name, default in self._keywords.items() if name not in ARRAYS}

    @property
    def _keywords(self) -> dict[str, Any]:
        parameters = inspect.signature(self.function).parameters.values()
        return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}


_NONE = inspect.Parameter.empty

TRANSFORMS = (
    Transform("hicra", "Hierarchy-Aware Credit Assignment", "2509.03646", "our reading",
              "More credit for tokens that plan; a caller marks them.", hicra),
    Transform("gtpo", "Group-relative Trajectory-based Policy Optimization", "2508.03772", "paper",
              "Beginnings and ends that good and bad answers share are not pushed both ways.", gtpo),
    Transform("hapo", "Heterogeneous Adaptive Policy Optimization, redistribution", "2509.16591", "reference code",
              "Credit by entropy and by how far a token has moved; goes with the outcome method of the name.", hapo),
    Transform("d3s", "Dynamic Dual-Level Down-Sampling", "2509.22115", "our reading",
              "Trains on fewer sequences and tokens, those that say most.", d3s),
    Transform("ace", "Asymmetric Confidence-aware Error penalty", "2602.21420", "our reading",
              "Pushes confident mistakes down harder; needs a reference model.", ace),
)  # fmt: skip


def transforms() -> dict[str, Transform]:
    """Return every transform by name, sorted."""
    return dict(sorted((item.name, item) for item in TRANSFORMS))


def transform(name: str, **options: Any) -> Transform:
    """Return a transform by name with its options bound: it is called with advantages, mask and arrays alone.

        >>> transform("hicra", alpha=0.5)([[1.0, 1.0]], [[1, 1]], planning=[[0, 1]]).values.tolist()
        [[1.0, 1.5]]

    Options are checked here, names and values, before there is a batch.

    Args:
        name: a name of `transforms`.
        **options: the transform's own options.

    Raises:
        UnknownEstimator: there is no such transform; the message has the near one.
        BadOption: the transform has no such option, or refuses the value.
    """
    known = transforms()
    if name not in known:
        raise UnknownEstimator(f"there is no transform {name!r}; {near(name, known)}")
    item = known[name]
    for option in options:
        if option not in item.options:
            raise BadOption(f"{name} has no option {option!r}; {near(option, item.options)}")
    if not options:
        return item
    bound = replace(item, function=partial(item.function, **options))
    none = np.zeros((0, 0))
    bound(none, none, **{array: np.zeros(0) if array == "group" else none for array in item.needs})
    return bound

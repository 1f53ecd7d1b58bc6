"""The transforms of token advantages by name, ours and those of installed packages.

A package offers a transform as a `TokenTransform`, or as the function itself, under an entry point of the group
"turncredit.token_transforms".
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from turncredit.credit.errors import BadTable
from turncredit.credit.registry import Method, found
from turncredit.credit.tokens.ace import ace
from turncredit.credit.tokens.d3s import d3s
from turncredit.credit.tokens.dcpo_distribution import dcpo_distribution
from turncredit.credit.tokens.gtpo import gtpo
from turncredit.credit.tokens.hapo import hapo
from turncredit.credit.tokens.hicra import hicra
from turncredit.credit.tokens.influence import nthr, thr
from turncredit.credit.tokens.mssr import mssr
from turncredit.credit.tokens.packed import ARRAYS, TransformedAdvantages
from turncredit.credit.tokens.tw_grpo import tw_grpo
from turncredit.registry import Registry


@dataclass(frozen=True)
class TokenTransform(Method):
    """A transform of token advantages: `function(advantages, mask, *, arrays, options) -> TransformedAdvantages`.

    Keyword parameters whose names are in `packed.ARRAYS` are arrays; the others are options.
    """

    def __call__(self, advantages: npt.ArrayLike, mask: npt.ArrayLike, **arrays: Any) -> TransformedAdvantages:
        """Return the transformed advantages of a batch.

        Raises:
            BadTable: an array is missing, or cannot be used.
        """
        missing = [f"{name} ({ARRAYS[name]})" for name in self.needs if name not in arrays]
        if missing:
            raise BadTable(f"{self.name} needs {' and '.join(missing)}, got {', '.join(arrays) or 'no arrays'}")
        result: TransformedAdvantages = self.function(advantages, mask, **arrays)
        return result

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the arrays that it requires."""
        return tuple(name for name in self.takes if self.parameters[name] is inspect.Parameter.empty)

    @property
    def takes(self) -> tuple[str, ...]:
        """Names of all arrays that it accepts."""
        return tuple(name for name in self.parameters if name in ARRAYS)

    @property
    def options(self) -> Mapping[str, Any]:
        """The options by name, with their defaults."""
        return {name: value for name, value in list(self.parameters.items())[2:] if name not in ARRAYS}


def _adapt(name: str, loaded: Any) -> TokenTransform:
    if isinstance(loaded, TokenTransform):
        return replace(loaded, name=name)
    if not callable(loaded):
        raise TypeError(f"expected a TokenTransform or a function, got {type(loaded).__name__}")
    title = (inspect.getdoc(loaded) or name).splitlines()[0]
    return TokenTransform(name, title, None, "our reading", f"from {getattr(loaded, '__module__', name)}", loaded)


TRANSFORMS = (
    TokenTransform("hicra", "Hierarchy-Aware Credit Assignment", "2509.03646", "our reading",
              "More credit for planning tokens, which the caller marks.", hicra),
    TokenTransform("gtpo", "Group-relative Trajectory-based Policy Optimization", "2508.03772", "paper",
              "No conflicting updates for tokens that good and bad answers share at their beginnings and ends.", gtpo),
    TokenTransform("hapo", "Heterogeneous Adaptive Policy Optimization, redistribution", "2509.16591", "reference code",
              "Credit by entropy and by how far a token's probability has moved; combine it with the rule hapo.", hapo),
    TokenTransform("d3s", "Dynamic Dual-Level Down-Sampling", "2509.22115", "our reading",
              "Trains on the most informative sequences and tokens only.", d3s),
    TokenTransform("ace", "Asymmetric Confidence-aware Error penalty", "2602.21420", "our reading",
              "Penalises confident mistakes more; needs a reference model.", ace),
    TokenTransform("dcpo_distribution", "Distribution-Centric Policy Optimization", None, "paper",
              "Holds the entropy: rewards good tokens as if drawn at another temperature, hotter if entropy is low.",
              dcpo_distribution),
    TokenTransform("mssr", "MSSR, advantages shifted by entropy", "2512.18215", "paper",
              "Raises advantages where the policy is uncertain; for spo_single_stream with ddof = 0 and prior = 8.",
              mssr),
    TokenTransform("tw_grpo", "Token-level weights by divergence within the group (TW-GRPO)", "2505.24718", "paper",
              "Answers to one prompt: more weight where the group's answers could part.", tw_grpo),
    TokenTransform("thr", "Token Hidden Reward", "2510.03669", "our reading",
              "More weight on tokens that the rest of the group makes likelier, or less: exploits, or explores.", thr),
    TokenTransform("nthr", "Negative Token Hidden Reward", "2505.18830", "our reading",
              "Spares tokens that losers share with winners, so that winners do not become unlikely.", nthr),
)  # fmt: skip


REGISTRY: Registry[TokenTransform] = Registry("token transform", group="turncredit.token_transforms", adapt=_adapt)
for _transform in TRANSFORMS:
    REGISTRY.register(_transform.name, _transform)


def transforms() -> dict[str, TokenTransform]:
    """Return all token transforms by name, sorted; one that cannot be loaded is skipped with a warning."""
    return REGISTRY.items()


def transform(name: str, **options: Any) -> TokenTransform:
    """Return a token transform with its options bound: it is called with advantages, mask and arrays alone.

        >>> transform("hicra", alpha=0.5)([[1.0, 1.0]], [[1, 1]], planning=[[0, 1]]).values.tolist()
        [[1.0, 1.5]]

    Names and values of options are checked here, before there is a batch.

    Args:
        name: a name of `transforms`, or "module:function".
        **options: the transform's own options.

    Raises:
        UnknownRule: there is no such transform; the message suggests a near name.
        BadOption: the transform has no such option, or does not accept the value.
        CreditError: its module cannot be imported, or does not hold a transform.
    """
    item = found(REGISTRY, name).bind(**options)
    if options:
        none = np.zeros((0, 0))
        item(none, none, **{array: np.zeros(0) if array == "group" else none for array in item.needs})
    return item

"""The decorator that turns a function from tokens to token losses into an objective.

    @objective                                   # every token by itself, and the mean over tokens
    def plain(tokens: Tokens, *, weight: float = 1.0) -> Tensor: ...

    @objective(scope="sequence", aggregation="seq-mean-token-mean")
    def gspo(tokens: Tokens, *, clip_low: float = 3e-4, clip_high: float = 4e-4) -> Losses: ...

The function returns a loss for each token, float [M], or (losses, cut) with the tokens whose gradient was clipped, bool
[M]. The decorator gives it the signature that all objectives share:

    loss, stats = gspo(logprobs, old, advantages, mask, clip_low=0.1, kl=0.01, ref=reference)

The loss is sum(weights * token losses), so that objectives differ in their token losses only.
"""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial, update_wrapper
from typing import Any, get_args, overload

import torch
from torch import Tensor

from turncredit.registry import choose, suggest
from turncredit.training.errors import ConfigError
from turncredit.training.objectives.aggregate import AGGREGATIONS, token_weights
from turncredit.training.objectives.clipping import Losses, unclipped
from turncredit.training.objectives.correction import CORRECTIONS
from turncredit.training.objectives.terms import SCOPES, SHARED, Scope, Stats, Terms, whole_loss
from turncredit.training.objectives.tokens import COLUMNS, Tokens, flatten

Kernel = Callable[..., Losses | Tensor]
"""(tokens, **options) -> losses [M], or (losses [M], cut [M])."""


class ObjectiveFunction:
    """An objective: called with [B, L] tensors, it returns the loss and statistics.

    Attributes:
        kernel: (tokens, **options) -> losses [M], or (losses [M], cut [M]).
        scope: the unit that must be computed together: "token", "turn", "sequence", the "group" of the episodes of
            one task instance, or the "batch" of one optimizer step. An optimizer step has whole groups for "group".
        aggregation: the aggregation of the method's authors.
        everywhere: whether there is a gradient even if every advantage is zero.
        signed: options that may be negative.
        weighed: whether the losses already contain the ratio of old to rollout probabilities.
        whole: whether there is one loss per sequence or group, in the given aggregation, and not one per token.
        spreads: whether the gradient goes through the entropy.

    Raises:
        TypeError: the function has other parameters than the tokens and options with defaults.
        UnknownName: there is no such scope or aggregation.
    """

    def __init__(
        self,
        kernel: Kernel,
        scope: Scope,
        aggregation: str,
        *,
        everywhere: bool = False,
        signed: tuple[str, ...] = (),
        weighed: bool = False,
        whole: bool = False,
        spreads: bool = False,
    ) -> None:
        _check_parameters(kernel)
        choose("scope", scope, SCOPES)
        choose("aggregation", aggregation, AGGREGATIONS)
        self.kernel, self.scope, self.aggregation = kernel, scope, aggregation
        self.everywhere, self.signed, self.weighed = everywhere, signed, weighed
        self.whole, self.spreads = whole, spreads
        self.__name__ = kernel.__name__
        update_wrapper(self, kernel)
        self.__signature__ = _signature(kernel)

    @property
    def options(self) -> dict[str, object]:
        """The objective's own options with their defaults."""
        return {name: p.default for name, p in list(inspect.signature(self.kernel).parameters.items())[1:]}

    @property
    def _optional(self) -> set[str]:
        """The options that may be None."""
        parameters = inspect.signature(self.kernel).parameters
        return {name for name, p in parameters.items() if type(None) in get_args(p.annotation)}

    def losses(self, tokens: Tokens, **options: object) -> Losses:
        """Return the loss of each token, float [M], and the tokens whose gradient was clipped, bool [M].

        Args:
            tokens: whole units of the scope.
            options: options of the objective.

        Raises:
            TypeError: the function returned something else.
        """
        result = self.kernel(tokens, **options)
        losses, cut = unclipped(result) if isinstance(result, Tensor) else _pair(self.__name__, result)
        if losses.shape != (len(tokens),) or cut.shape != losses.shape:
            raise TypeError(
                f"{self.__name__} must return a loss for each token, [{len(tokens)}], of which the aggregation makes "
                f"one number; got losses {list(losses.shape)}, cut {list(cut.shape)}"
            )
        return losses, cut

    def check(self, options: Mapping[str, object]) -> None:
        """Check names and values of options.

        Raises:
            ConfigError: an option is unknown, or its value is invalid.
        """
        for name, value in options.items():
            if name not in self.options:
                raise ConfigError(f"{self.__name__} has no option {name!r}{suggest(name, self.options)}")
            label = f"{self.__name__}: option {name!r}"
            if value is None and name in self._optional:
                continue
            _check_kind(label, value, self.options[name])
            if isinstance(value, int | float) and value < 0 and name not in self.signed:
                raise ConfigError(f"{label} must be >= 0, got {value}")
        self.losses(_nothing(), **options)

    def check_terms(self, terms: Terms) -> None:
        """Check that the losses can be aggregated and corrected as the terms say, and are not corrected twice.

        Raises:
            ConfigError: the objective contains the correction already, or has no loss per token that could be weighed.
        """
        if self.whole and (terms.correction or terms.aggregation not in ("", self.aggregation)):
            key = "correction" if terms.correction else "aggregation"
            raise ConfigError(
                f"{self.__name__} has one loss for whole episodes, so that nothing can weigh its tokens: leave out "
                f"objective.{key} {terms.correction or terms.aggregation!r}"
            )
        if self.weighed and terms.correction and CORRECTIONS[terms.correction].weighs:
            raise ConfigError(
                f"{self.__name__} already corrects the sampler mismatch, so the correction {terms.correction!r} would "
                "apply it twice"
            )

    def __call__(
        self,
        logprobs: Tensor,
        old: Tensor,
        advantages: Tensor,
        mask: Tensor,
        *,
        seed: int = 0,
        **others: Any,
    ) -> tuple[Tensor, Stats]:
        """Return the loss to minimise, and sums over tokens for reports.

        Args:
            logprobs: float [B, L], n, nats, under the policy (carries gradient).
            old: float [B, L], o, nats, under the policy at the start of the update.
            advantages: float [B, L], A.
            mask: bool [B, L], tokens that carry loss; a row is a sequence.
            seed: of random choices.
            **others: tensors that an objective or term needs, see COLUMNS of `turncredit.training.objectives.tokens`;
                the objective's own options, and those of every objective: aggregation (empty: its own), norm, kl,
                kl_estimator, kl_corrected, entropy_bonus, entropy_target, correction, correction_low, correction_high,
                llds; see `Terms`.

        Returns:
            The loss, 0-dimensional, and sums over tokens: see `whole_loss`.

        Raises:
            ConfigError: an option is unknown, or its value is invalid.
            ValueError: shapes differ, or a required tensor is missing.
        """
        columns = {name: others.pop(name) for name in COLUMNS if name in others}
        own = {name: value for name, value in others.items() if name not in SHARED}
        for name in own:
            if name not in self.options:
                raise ConfigError(f"{self.__name__} has no option {name!r}{suggest(name, {*self.options, *SHARED})}")
        self.check(own)
        terms = Terms(**{SHARED[name]: value for name, value in others.items() if name in SHARED})
        self.check_terms(terms)
        tokens = flatten(logprobs, old, advantages, mask, seed=seed, **columns)
        mode = terms.aggregation or self.aggregation
        codes = tokens.sequence.cpu().numpy(), tokens.turn.cpu().numpy()
        weights = torch.from_numpy(token_weights(mode, *codes, norm=terms.norm, sequences=tokens.sequences))
        return whole_loss(self.losses, own, terms, tokens, weights.to(logprobs))


@overload
def objective(kernel: Kernel, /) -> ObjectiveFunction: ...


@overload
def objective(
    *,
    scope: Scope = "token",
    aggregation: str = "token-mean",
    everywhere: bool = False,
    signed: tuple[str, ...] = (),
    weighed: bool = False,
    whole: bool = False,
    spreads: bool = False,
) -> Callable[[Kernel], ObjectiveFunction]: ...


def objective(
    kernel: Kernel | None = None,
    /,
    *,
    scope: Scope = "token",
    aggregation: str = "token-mean",
    everywhere: bool = False,
    signed: tuple[str, ...] = (),
    weighed: bool = False,
    whole: bool = False,
    spreads: bool = False,
) -> ObjectiveFunction | Callable[[Kernel], ObjectiveFunction]:
    """Turn a function from tokens to losses into an objective; see `ObjectiveFunction` for the properties.

    `@objective` alone, and `@objective(scope="sequence")` with properties, both stand above a function.

    >>> @objective
    ... def plain(tokens: Tokens, *, weight: float = 1.0) -> Tensor:
    ...     return -weight * tokens.advantages * tokens.new
    >>> plain.options
    {'weight': 1.0}

    Raises:
        TypeError: the function has other parameters than the tokens and options with defaults.
        UnknownName: there is no such scope or aggregation.
    """
    if kernel is not None and not callable(kernel):
        raise TypeError(f"@objective stands above a function, and its properties have names; got {kernel!r}")
    make = partial(
        ObjectiveFunction,
        scope=scope,
        aggregation=aggregation,
        everywhere=everywhere,
        signed=signed,
        weighed=weighed,
        whole=whole,
        spreads=spreads,
    )
    return make if kernel is None else make(kernel)


def _check_parameters(kernel: Kernel) -> None:
    """Refuse a function of something else than tokens, such as of the four tensors that an objective is called with."""
    named = getattr(kernel, "__name__", repr(kernel))
    parameters = list(inspect.signature(kernel).parameters.values())
    if not parameters or any(option.default is option.empty for option in parameters[1:]):
        raise TypeError(
            f"an objective is a function of the tokens, and of options with defaults, such as "
            f"{named}(tokens, *, weight=1.0); got {named}({', '.join(map(str, parameters))})"
        )


def _pair(name: str, result: object) -> Losses:
    """Return what a function returned as losses and cut."""
    match result:
        case (Tensor() as losses, Tensor() as cut):
            return losses, cut
    raise TypeError(f"{name} must return losses, float [M], or a pair (losses, cut); got {type(result).__name__}")


def _signature(kernel: Kernel) -> inspect.Signature:
    """Return the common signature with the columns and the objective's own options."""
    *common, others = list(inspect.signature(ObjectiveFunction.__call__).parameters.values())[1:]
    columns = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in COLUMNS]
    own = list(inspect.signature(kernel).parameters.values())[1:]
    return inspect.Signature([*common, *columns, *own, others])


def _check_kind(label: str, value: object, default: object) -> None:
    """Check that a value is of the same kind as the default, and finite."""
    if isinstance(default, bool | str):
        if type(value) is not type(default):
            raise ConfigError(f"{label} must be a {type(default).__name__}, got {value!r}")
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ConfigError(f"{label} must be a finite number, got {value!r}")


def _nothing() -> Tokens:
    """Return an empty set of tokens with every column."""
    none, codes = torch.zeros(0), torch.zeros(0, dtype=torch.int64)
    tokens = Tokens(none, none, none, codes, codes, 0, ref=none, rollout=none, entropy=none, spans=codes)
    return replace(tokens, mean_logprob=none, old_mean_logprob=none, outcome=none, group=codes, source=codes)

"""Objectives from outside: one decorator, with or without properties, and what is wrong is said before a run begins."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from turncredit.registry import UnknownName
from turncredit.training.errors import ConfigError
from turncredit.training.objectives import ObjectiveInfo, Tokens, get, objective, objectives, reinforce
from turncredit.training.objectives.own_objectives import tried


def plain(tokens: Tokens, *, weight: float = 1.0) -> Tensor:
    """Return the policy gradient."""
    return -weight * tokens.advantages * tokens.new


def table() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    logprobs = torch.tensor([[-1.0, -2.0], [-3.0, 9.0]], requires_grad=True)
    advantages = torch.tensor([[1.0, 0.5], [-1.0, 9.0]])
    return logprobs, logprobs.detach(), advantages, torch.tensor([[True, True], [True, False]])


@pytest.mark.parametrize(
    "decorated",
    [objective(plain), objective()(plain), objective(aggregation="token-mean")(plain), objective(scope="batch")(plain)],
)
def test_the_decorator_stands_alone_or_with_properties(
    decorated: Callable[..., tuple[Tensor, dict[str, Tensor]]],
) -> None:
    loss, stats = decorated(*table(), weight=2.0)  # 2 (1 + 1 - 3) / 3
    assert loss.item() == pytest.approx(-2 / 3)
    assert (int(stats["tokens"]), int(stats["clipped"])) == (3, 0)
    assert decorated.__name__ == "plain"


def test_losses_alone_are_losses_without_a_clip() -> None:
    alone, _ = objective(plain)(*table())
    pair, _ = reinforce(*table())
    assert alone.item() == pair.item()


@pytest.mark.parametrize("name", objectives())
def test_every_objective_has_the_properties_that_it_says(name: str) -> None:
    entry = objectives()[name]
    function, needs = tried(entry.function, entry.needs)
    assert function is entry.function
    assert set(needs) <= {*entry.needs, "outcome"}


def mean_of_sequence(tokens: Tokens) -> Tensor:
    return -tokens.advantages * tokens.sequence_mean(tokens.log_ratio)[tokens.sequence]


def mean_of_batch(tokens: Tokens) -> Tensor:
    return -(tokens.advantages - tokens.advantages.mean()) * tokens.new


def uncertain(tokens: Tokens, *, least: float = 0.1) -> Tensor:
    return -tokens.advantages * tokens.new * (tokens.need("entropy").detach() > least)


def nearest(tokens: Tokens) -> Tensor:
    return (tokens.new - tokens.old).square()


def of_four(logprobs: Tensor, old: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    return -(advantages * logprobs)[mask].mean()


def test_needs_are_what_the_function_reads() -> None:
    function, needs = tried(uncertain)
    assert (needs, function.scope, function.options) == (("entropy",), "token", {"least": 0.1})
    assert tried(plain)[1] == ()


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (mean_of_sequence, r'outside of its token: say @objective\(scope="sequence"\)'),
        (mean_of_batch, r'outside of its token: say @objective\(scope="batch"\)'),
        (objective(scope="turn")(mean_of_sequence), r'outside of its turn: say @objective\(scope="sequence"\)'),
        (nearest, r"all advantages are zero, .*@objective\(everywhere=True\)"),
        (lambda tokens: -tokens.advantages * tokens.old, "no gradient: its losses must depend on tokens.new"),
        (lambda tokens: -tokens.advantages * tokens.new * tokens.need("entropy"), "spreads=True"),
        (lambda tokens: -tokens.advantages * tokens.new * tokens.entropy, r"tokens.need\(.entropy.\)"),
        (lambda tokens: (tokens.advantages * tokens.new).mean(), r"a loss for each token, \[16\], .* got losses \[\]"),
        (lambda tokens: tokens.need("spans"), "reads 'spans', which it does not get"),
        (lambda tokens: 1.0, r"must return losses, float \[M\], or a pair \(losses, cut\); got float"),
        (lambda tokens: tokens.need("rewards"), "AttributeError: 'Tokens' object has no attribute 'rewards'"),
        (of_four, r"of_four\(tokens, \*, weight=1.0\); got of_four\(logprobs: .*mask: "),
        (lambda tokens, **options: tokens.new, "options with defaults"),
        (lambda: None, "a function of the tokens"),
    ],
)
def test_a_function_that_would_train_something_else_is_refused(function: Callable[..., object], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        tried(function)


def test_the_same_functions_pass_with_what_they_were_told_to_say() -> None:
    for function in (
        objective(scope="sequence")(mean_of_sequence),
        objective(scope="batch")(mean_of_batch),
        objective(everywhere=True)(nearest),
    ):
        assert tried(function)[0] is function


@pytest.mark.parametrize(
    ("properties", "error", "message"),
    [
        ({"scop": "turn"}, TypeError, "unexpected keyword argument 'scop'"),
        ({"scope": "sequences"}, UnknownName, "unknown scope 'sequences'; did you mean 'sequence'"),
        ({"aggregation": "mean"}, UnknownName, "unknown aggregation 'mean'"),
    ],
)
def test_wrong_properties_are_named(properties: dict[str, str], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        objective(**properties)(plain)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="its properties have names; got 'sequence'"):
        objective("sequence")  # type: ignore[call-overload]


def test_a_module_may_name_a_function_a_decorated_one_or_an_entry() -> None:
    here = __name__
    for name in ("plain", "DECORATED", "ENTRY"):
        entry = get(f"{here}:{name}")
        assert (entry.name, entry.function.options) == (f"{here}:{name}", {"weight": 1.0})
    assert get(f"{here}:plain").title == "Return the policy gradient."
    assert get(f"{here}:ENTRY").older == "not"
    with pytest.raises(ConfigError, match=r'mean_of_sequence .*say @objective\(scope="sequence"\)'):
        get(f"{here}:mean_of_sequence")


DECORATED = objective(plain)
ENTRY = ObjectiveInfo("mine", "Mine", None, (), "our reading", "To test.", DECORATED, older="not")

"""The schema of losses.json: batches of tokens, and cases of a loss and its gradient by the log-probabilities.

Which of our objectives a case is about, and with which options, is said by `turnwise.training.objectives.vectors`.
Everything is computed in double precision; the file's own tolerance decides, 1e-6 relative and 1e-8 absolute.

Left out on purpose: which hyperparameters are read. What our objective has no counterpart for is refused there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from turnwise.cli.vectors.case import (
    Difference,
    Given,
    Malformed,
    Measure,
    Refused,
    Unimplemented,
    Verdict,
    compared,
    describes,
    judged,
)

MEASURE = Measure(tolerance=1e-6, least=1e-2)
Function = Callable[..., Any]
_ARRAYS = {
    "logp_new": "logprobs",
    "logp_old": "old",
    "logp_ref": "ref",
    "logp_rollout": "rollout",
    "entropy": "entropy",
    "advantages": "advantages",
    "mask": "mask",
    "sentence_id": "spans",
}
_CASE = {"name", "hyperparameters", "batch_id", "expected_loss", "expected_grad"}
_ABOUT = {"peer_abs_diff", "max_rel_diff_to_own_formula"}


def verify(case: Mapping[str, Any], batches: Mapping[Any, Mapping[str, Any]], function: Function | None) -> Verdict:
    """Return what came of a case.

    Args:
        case: of the file.
        batches: of the file, by id.
        function: takes the place of ours: `(logprobs, old, advantages, mask, *, ref, rollout, entropy, spans,
            **options)`, giving the loss, or the loss and more.
    """
    name = str(case.get("name", "?"))
    noise = case.get("own_formula_agrees", True) is False
    label = f"batch {case.get('batch_id')} {dict(case.get('hyperparameters') or {})}"

    def compute() -> Sequence[Difference]:
        known = _CASE | _ABOUT
        strange = {key for key, value in case.items() if key not in known and not describes(value)}
        if strange:
            raise Refused(f"nothing of ours reads {', '.join(map(repr, sorted(strange)))} of the case")
        loss, gradient = _computed(name, case, batches, function)
        return [
            compared("loss", loss, _needed(case, "expected_loss"), MEASURE),
            compared("gradient", gradient, _needed(case, "expected_grad"), MEASURE),
        ]

    return judged(name, label, MEASURE, noise=noise, foreign=function is not None, compute=compute)


def _needed(case: Mapping[str, Any], name: str) -> Any:
    if name not in case:
        raise Malformed(f"it has no {name!r}")
    return case[name]


def _computed(
    name: str, case: Mapping[str, Any], batches: Mapping[Any, Mapping[str, Any]], function: Function | None
) -> tuple[float, list[list[float]]]:
    from turnwise.training.objectives import get
    from turnwise.training.objectives.evaluated import loss_and_gradient

    if case.get("batch_id") not in batches:
        raise Malformed(f"there is no batch {case.get('batch_id')!r}")
    given = Given("hyperparameters", case.get("hyperparameters", {}))
    ours, options = chosen(name, given)
    arrays = _arrays(batches[case["batch_id"]])
    if ours != "sspo":
        arrays.pop("spans", None)  # without them a span is an unbroken stretch of the mask, which other methods mean
    return loss_and_gradient(function or get(ours), arrays, options)


def chosen(name: str, given: Given) -> tuple[str, dict[str, Any]]:
    """Return the name of our objective for a case and its options; every hyperparameter is read.

    Raises:
        Unimplemented: there is none.
        Refused: a hyperparameter that ours does not have, or has otherwise.
    """
    from turnwise.training.errors import TrainingError
    from turnwise.training.objectives.vectors import NoObjective, objective_of_case

    try:
        return objective_of_case(name, given)
    except NoObjective as error:
        raise Unimplemented(str(error)) from error
    except TrainingError as error:
        raise Refused(str(error)) from error


def _arrays(batch: Mapping[str, Any]) -> dict[str, Any]:
    """The batch by the names of an objective's arguments."""
    strange = {key for key, value in batch.items() if key not in {*_ARRAYS, "id"} and not describes(value)}
    if strange:
        raise Refused(f"nothing of ours reads {', '.join(map(repr, sorted(strange)))} of the batch")
    if "logp_new" not in batch:
        raise Malformed(f"batch {batch.get('id')!r} has no 'logp_new'")
    return {ours: batch[theirs] for theirs, ours in _ARRAYS.items() if batch.get(theirs) is not None}

"""Losses and their gradients on batches of tokens."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from convert_reference_cases import names
from convert_reference_cases.common import (
    UnreadableCase,
    case_of,
    describes,
    hyperparameters,
    objects,
    take,
)
from convert_reference_cases.names import Values


def loss_cases(raw: Mapping[str, Any], batches: Mapping[Any, Values], tables: Values) -> list[Values]:
    """Convert a loss and its gradient on a batch of tokens."""
    if raw.get("batch_id") not in batches:
        raise UnreadableCase(f"there is no batch {raw.get('batch_id')!r}")
    plain = re.sub(r"_proposal$", "", raw["name"], flags=re.IGNORECASE)
    (values,) = objects(raw, "hyperparameters")
    values = {key: value for key, value in hyperparameters(plain, values).items() if value is not None}
    objective, options, renamed = names.OBJECTIVES.get(plain, (plain, {}, {}))
    options = options | take(values, renamed)
    for old, new in names.CLIPS.items():
        options |= dict.fromkeys(new, values.pop(old)) if old in values else {}
    for old, stem in names.PAIRS.items():
        options |= dict(zip((f"{stem}_low", f"{stem}_high"), values.pop(old), strict=True)) if old in values else {}
    if objective == "cispo" and "cap" in values:
        options |= {"clip_low": 1.0, "clip_high": values.pop("cap") - 1.0}
    if objective == "llds" and "gate" in values:
        options["gate"] = str(values.pop("gate")).split()[0]
    if values.get("agg") is not None:
        word = str(values.pop("agg")).split()[0]
        options["aggregation"] = mode = names.AGGREGATIONS.get(word.lower(), word)
        if "norm" in mode.split("-"):
            options |= take(values, {"loss_scale_factor": "norm"}) | take(values, {"L": "norm"})
    columns, spans = batches[raw["batch_id"]], objective == "sspo"
    used = f"batch {raw['batch_id']}{' with spans' if spans else ''}"
    tables[used] = {key: columns[key] for key in columns if key != "spans" or spans}
    expected = {ours: raw.get(f"expected_{theirs}") for ours, theirs in (("loss", "loss"), ("gradient", "grad"))}
    if None in expected.values():
        raise UnreadableCase("it lacks 'expected_loss' or 'expected_grad'")
    return [case_of(raw, f"objective/{objective}", used, {**options, **values}, expected)]


def batch_of(raw: Mapping[str, Any]) -> Values:
    """Return the tensors of a batch under the names of an objective's arguments."""
    return {names.TENSORS.get(key, key): value for key, value in raw.items() if key != "id" and not describes(value)}

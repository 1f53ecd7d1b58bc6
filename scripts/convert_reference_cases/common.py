"""What the converters of all older forms share: a case in the new form, and reading an old one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from convert_reference_cases import names
from convert_reference_cases.names import Values


class UnreadableCase(Exception):
    """A case does not have the form of its file."""


def case_of(raw: Mapping[str, Any], function: str, columns: Any, options: Values, expected: Values) -> Values:
    """Return a case of `function`, with what the old case says of itself."""
    source = raw.get("source") or raw.get("basis")
    if raw.get("peer_checked"):
        source = f"{source}; that code was run and gives these results"
    status = "proposal" if raw["name"].lower().endswith("_proposal") else None
    if raw.get("own_formula_agrees", True) is False and function.startswith("credit/"):
        status = "noise"
    about = {"source": source, "note": raw.get("note"), "status": status}
    strange = {key: value for key, value in raw.items() if key not in names.ABOUT and not describes(value)}
    case = {"name": raw["name"], "function": function, "columns": columns, "options": options, "expected": expected}
    return case | {key: text for key, text in about.items() if text} | strange


def describes(value: Any) -> bool:
    """Return whether a value only describes: a text, a flag, null, or a list or an object of these."""
    if isinstance(value, Mapping):
        return all(map(describes, value.values()))
    return (
        value is None
        or isinstance(value, str | bool)
        or (isinstance(value, list) and all(isinstance(item, str) for item in value))
    )


def objects(raw: Mapping[str, Any], *keys: str) -> Iterable[Values]:
    """Return copies of the objects of a case; one that is missing is empty."""
    for key in keys:
        if not isinstance(value := raw.get(key, {}), Mapping):
            raise UnreadableCase(f"{key!r} must be an object")
        yield dict(value)


def take(values: Values, renamed: Mapping[str, str]) -> Values:
    """Take values out, and return them under new names."""
    return {new: values.pop(old) for old, new in renamed.items() if old in values}


def hyperparameters(method: str, values: Values) -> Values:
    """Return hyperparameters without those that say what our function does anyway; 1 is 1.0, but not true."""
    fixed = {key: [(isinstance(v, bool), v) for v in names.FIXED.get((method, key), ())] for key in values}
    return {key: value for key, value in values.items() if (isinstance(value, bool), value) not in fixed[key]}


def by_appearance(groups: Sequence[Any]) -> list[int]:
    """Return groups numbered by first appearance."""
    numbers = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    return [numbers[group] for group in groups]

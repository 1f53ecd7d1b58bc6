"""Reference cases: recorded inputs of a function and the results that it must return, as docs/reference_cases.md says.

A case names its function as "credit/gigpo" (a credit rule), "transform/hicra" (a token transform),
"objective/ppo_clip" (a loss with its gradient) or "helper/whiten" (an item of `turncredit.cli.reference.helpers`).
Nothing in a case is ignored: a column, option or result that the function lacks is an error that names it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from turncredit.cli.errors import UserError, sentence_of
from turncredit.registry import suggest
from turncredit.tools.bounded_input import InputError, read_json

FORMAT = "turncredit reference cases 1"
Outcome = Literal["agrees", "differs", "noise", "refused", "unimplemented", "malformed"]
Function = Callable[..., Any]
Values = Mapping[str, Any]
"""Columns, options or results by name."""
_KEYS = ("name", "function", "columns", "options", "expected", "tolerance", "source", "note", "status")
_STATUS = ("recorded", "proposal", "noise")
_TOLERANCE = {"relative": 1e-6, "absolute": 1e-6}


class RefusedCase(Exception):
    """The function cannot compute the case; the message names what it lacks."""


class UnimplementedCase(Exception):
    """turncredit has no function of that name."""


@dataclass(frozen=True, slots=True)
class ReferenceCase:
    """One recorded case.

    Attributes:
        name: of the case.
        function: kind and registered name, "credit/gigpo".
        columns: arrays by name: the columns of the table of turns, or the tensors of an objective.
        options: of the function.
        expected: results by name; "a+b" is the sum of two, and null inside a result is not compared.
        relative, absolute: results agree where |ours - expected| <= absolute + relative * |expected|.
        status: "recorded", "proposal" (of a formula that is unpublished), or "noise" (the results are rounding errors
            of the code that they come from: shown, but never a disagreement).
        problem: why the case cannot be read; empty if it can.
    """

    name: str
    function: str
    columns: Values = field(default_factory=dict)
    options: Values = field(default_factory=dict)
    expected: Values = field(default_factory=dict)
    relative: float = 1e-6
    absolute: float = 1e-6
    status: str = "recorded"
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ReferenceResult:
    """The outcome of a case, its largest difference, and one line about it."""

    case: ReferenceCase
    outcome: Outcome
    detail: str
    difference: float = math.inf


def read_cases(path: Path) -> list[ReferenceCase]:
    """Return the cases of a file; one that cannot be read is among them and says why.

    Raises:
        UserError: the file is not JSON or not of this form.
        OSError: it cannot be read.
    """
    try:
        content = read_json(path)
    except InputError as error:
        raise UserError(f"{path} is not JSON: {str(error).splitlines()[0][:120]}") from error
    if not isinstance(content, Mapping) or content.get("format") != FORMAT:
        raise UserError(f'{path} must be a JSON object with "format": "{FORMAT}" (docs/reference_cases.md)')
    cases, tables = content.get("cases"), content.get("tables", {})
    if not isinstance(cases, list) or not cases or not isinstance(tables, Mapping):
        raise UserError(f"{path} has no cases: expected a list 'cases' and, for shared columns, an object 'tables'.")
    return [_case(number, raw, tables, content.get("tolerance", _TOLERANCE)) for number, raw in enumerate(cases)]


def _case(number: int, raw: object, tables: Values, tolerance: object) -> ReferenceCase:
    fields: Values = raw if isinstance(raw, Mapping) else {}
    name, function = str(fields.get("name", f"case {number}")), str(fields.get("function", "unreadable"))
    columns: Any
    expected: Any
    columns, options, expected = fields.get("columns"), fields.get("options", {}), fields.get("expected")
    columns = tables.get(columns) if isinstance(columns, str) else columns
    limits, status = fields.get("tolerance", tolerance), fields.get("status", "recorded")
    problems = {
        "it is not an object with 'name' and 'function'": not {"name", "function"} <= set(fields),
        f"unknown keys {sorted(set(fields) - set(_KEYS))}": not set(fields) <= set(_KEYS),
        "'columns' is neither an object nor the name of a table of this file": not isinstance(columns, Mapping),
        "'options' is not an object": not isinstance(options, Mapping),
        "it has no expected results": not isinstance(expected, Mapping) or not expected,
        f"unknown status {status!r}; choose one of {', '.join(_STATUS)}": status not in _STATUS,
        f"'tolerance' must have 'relative' and 'absolute', both > 0, got {limits!r}": not (
            isinstance(limits, Mapping) and set(limits) == set(_TOLERANCE) and all(limits[key] > 0 for key in limits)
        ),
    }
    if problem := next((text for text, applies in problems.items() if applies), ""):
        return ReferenceCase(name, function, problem=problem)
    return ReferenceCase(name, function, columns, options, expected, **limits, status=status)


def check_case(case: ReferenceCase, function: Function | None = None) -> ReferenceResult:
    """Return the outcome of a case.

    Args:
        case: from `read_cases`.
        function: checked in place of the function that the case names, and called in the same way.

    Raises:
        ImportError: our function needs an extra that is not installed.
    """
    if case.problem:
        return ReferenceResult(case, "malformed", case.problem)
    try:
        results = _results(case, function)
        unknown = [name for name in case.expected if not set(name.split("+")) <= set(results)]
        if unknown and (function is None or len(unknown) == len(case.expected)):
            raise RefusedCase(f"there is no result {unknown[0]!r}{suggest(unknown[0], results)}")
    except UnimplementedCase as error:
        return ReferenceResult(case, "unimplemented", str(error))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a user's function may raise anything, sys.exit included
        if function is None and isinstance(error, ImportError | SystemExit):
            raise
        sentence = str(error) if isinstance(error, RefusedCase) else sentence_of(error)
        return ReferenceResult(case, "refused", sentence or f"{type(error).__name__}: {error}")
    compared = [name for name in case.expected if name not in unknown]
    worst, text = max((_compare(case, name, results) for name in compared), key=lambda pair: pair[0])
    outcome: Outcome = "noise" if case.status == "noise" else "agrees" if worst <= case.relative else "differs"
    return ReferenceResult(case, outcome, text, worst)


def _results(case: ReferenceCase, function: Function | None) -> Values:
    """Return the results that the function gives for the columns and options of a case."""
    kind, _, name = case.function.partition("/")
    if kind == "objective":
        from turncredit.training.objectives import get, objectives
        from turncredit.training.objectives.evaluated import loss_and_gradient

        _find(kind, name, objectives())
        loss, gradient = loss_and_gradient(function or get(name), case.columns, case.options)
        return {"loss": loss, "gradient": gradient}
    from turncredit.cli.reference.helpers import HELPERS, results_of
    from turncredit.credit import Steps, rules
    from turncredit.credit.columns import COLUMNS
    from turncredit.credit.tokens import transforms

    if kind == "helper":
        return results_of((function or _find(kind, name, HELPERS))(**case.columns, **case.options))
    items: Values = rules() if kind == "credit" else transforms() if kind == "transform" else {}
    item = _find(kind, name, items)
    _check_names("option", case.options, {*item.options, "state"}, name)
    if kind == "credit":
        _check_names("column", case.columns, {*COLUMNS, *item.needs}, name)
        return results_of((function or item.function)(Steps.from_columns(**case.columns), **case.options))
    return results_of((function or item.function)(**case.columns, **case.options))


def _check_names(kind: str, names: Iterable[str], choices: Set[str], function: str) -> None:
    for name in names:
        if name not in choices:
            raise RefusedCase(f"{function} has no {kind} {name!r}{suggest(name, choices)}")


def _find(kind: str, name: str, items: Values) -> Any:
    if name not in items:
        raise UnimplementedCase(f"there is no {kind} function {name!r}{suggest(name, items)}")
    return items[name]


def _compare(case: ReferenceCase, result: str, results: Values) -> tuple[float, str]:
    """Return the largest difference within a result, and where it is."""
    first, *others = (results[name] for name in result.split("+"))
    differences = [(0.0, f"{result}: nothing to compare")]
    for label, ours, expected in _pairs(_plain(sum(others, first)), case.expected[result], result):
        if all(isinstance(value, int | float) and not isinstance(value, bool) for value in (ours, expected)):
            size = difference(ours, expected, case.relative, case.absolute)
        else:
            size = 0.0 if type(ours) is type(expected) and ours == expected else math.inf
        texts = (f"{value:.8g}" if isinstance(value, float) else value for value in (ours, expected))
        differences.append((size, f"{label}: ours {next(texts)}, expected {next(texts)}"))
    return max(reversed(differences), key=lambda value: value[0])


def difference(ours: float, expected: float, relative: float, absolute: float) -> float:
    """Return |ours - expected| / (|expected| + absolute / relative), which may be up to `relative`.

    It is infinite where only one of the two is a finite number.
    """
    if not math.isfinite(ours) or not math.isfinite(expected):
        return 0.0 if ours == expected or (math.isnan(ours) and math.isnan(expected)) else math.inf
    return abs(ours - expected) / (abs(expected) + absolute / relative)


def _pairs(ours: object, expected: object, label: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(ours, Mapping) and isinstance(expected, Mapping) and set(ours) == set(expected):
        for key in expected:
            yield from _pairs(ours[key], expected[key], f"{label}[{key!r}]")
    elif isinstance(ours, list) and isinstance(expected, list) and len(ours) == len(expected):
        for number, (mine, other) in enumerate(zip(ours, expected, strict=True)):
            yield from _pairs(mine, other, f"{label}[{number}]")
    elif expected is not None:
        sizes = [f"{len(x)} values" if isinstance(x, list | Mapping) else x for x in (ours, expected)]
        yield label, sizes[0], sizes[1]


def _plain(value: object) -> object:
    """Return arrays and numpy numbers as lists and numbers, with texts as keys."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value

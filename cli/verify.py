"""`turncredit verify`: check turncredit's functions, or your own, against reference cases.

Exit code 1 if a case that can be read does not agree or names a function that does not exist; else 2 if a file or a
case cannot be read; else 0. Every case is counted in some line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turncredit.cli.console import say, say_json, warn
from turncredit.cli.errors import USER_ERROR, UserError, sentence_of
from turncredit.registry import CannotLoad, load, suggest

if TYPE_CHECKING:
    from turncredit.cli.reference.cases import ReferenceCase, ReferenceResult

_SHOWN = 5


def verify(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE", help="Files of reference cases. Default: those that turncredit ships."),
    ] = None,
    function: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:NAME", help="Check this function instead of turncredit's; it gets the same arguments."
        ),
    ] = None,
    method: Annotated[str | None, typer.Option(help="Check only the cases of this function, such as gigpo.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Check reference cases: how many agree, and the largest difference, function by function."""
    from turncredit.cli.reference.cases import check_case

    paths = files or sorted((Path(__file__).parent / "reference").glob("*.json"))
    cases, unread = _read(paths)
    checked = _chosen(cases, method, needs_one=function is not None)
    replacement = None if function is None else imported(function)
    results: dict[Path, list[ReferenceResult]] = {}
    for path, chosen in checked.items():
        try:
            results[path] = [check_case(case, replacement) for case in chosen]
        except ImportError as error:
            if len(paths) == 1 or sentence_of(error) is None:
                raise
            unread[path] = f"{path.name} is not checked: {sentence_of(error)}"
    if as_json:
        errors = [{"file": str(path), "error": text} for path, text in unread.items()]
        say_json([_as_json(path, file_results) for path, file_results in results.items()] + errors)
    else:
        for path, file_results in results.items():
            _print(path, file_results)
    for text in unread.values():
        warn(text)
    outcomes = {result.outcome for file_results in results.values() for result in file_results}
    if outcomes & {"differs", "refused", "unimplemented"}:
        raise typer.Exit(1)
    if "malformed" in outcomes or unread:
        raise typer.Exit(USER_ERROR)


def _read(files: Sequence[Path]) -> tuple[dict[Path, list[ReferenceCase]], dict[Path, str]]:
    """Return the cases of each readable file, and of each other file the sentence that says why not.

    Raises:
        UserError, OSError: there is only one file, and it cannot be read.
    """
    from turncredit.cli.reference.cases import read_cases

    cases, unread = {}, {}
    for path in files:
        try:
            cases[path] = read_cases(path)
        except (UserError, OSError) as error:
            if len(files) == 1:
                raise
            unread[path] = sentence_of(error) or str(error)
    return cases, unread


def _chosen(
    cases: dict[Path, list[ReferenceCase]], method: str | None, *, needs_one: bool
) -> dict[Path, list[ReferenceCase]]:
    """Return the cases of one method, given as "gigpo" or "credit/gigpo"; without a method, all cases."""
    functions = list(dict.fromkeys(case.function for file_cases in cases.values() for case in file_cases))
    if method is not None:
        names = [name for name in functions if method in (name, name.partition("/")[2])]
        if not names:
            raise UserError(f"these files have no cases of {method!r}{suggest(method, functions)}")
        functions = names
    if needs_one and len(functions) > 1:
        raise UserError(f"--function replaces one function, which --method must name{suggest('', functions)}")
    chosen = {path: [case for case in file_cases if case.function in functions] for path, file_cases in cases.items()}
    return {path: file_cases for path, file_cases in chosen.items() if file_cases}


def imported(path: str) -> Callable[..., Any]:
    """Return the function that `module:name` names; modules of the working directory are found as well.

    Raises:
        UserError: it cannot be imported, or is not callable.
    """
    try:
        loaded = load(path, "function")
    except (CannotLoad, ValueError, SystemExit) as error:  # a module may call sys.exit while it is imported
        raise UserError(f"--function must be an importable module:name, got {path!r}: {error!r}.") from error
    if not callable(loaded):
        raise UserError(f"--function {path} must be a function, got {type(loaded).__name__}.")
    return loaded  # type: ignore[no-any-return]


def _by_function(results: Sequence[ReferenceResult]) -> dict[str, list[ReferenceResult]]:
    lines: dict[str, list[ReferenceResult]] = {}
    for result in results:
        lines.setdefault(result.case.function, []).append(result)
    return lines


def _summary(results: Sequence[ReferenceResult]) -> dict[str, Any]:
    """Return the counts of a function's cases, those that failed, and those that are rounding noise."""
    counted = [result for result in results if result.outcome != "noise"]
    computed = [result.difference for result in counted if result.outcome in ("agrees", "differs")]
    return {
        "agree": sum(result.outcome == "agrees" for result in counted),
        "total": len(counted),
        "worst": max(computed, default=None),
        "noise": [result for result in results if result.outcome == "noise"],
        "failed": [result for result in counted if result.outcome != "agrees"],
    }


def _print(path: Path, results: Sequence[ReferenceResult]) -> None:
    lines = {name: _summary(of_function) for name, of_function in _by_function(results).items()}
    width = max(map(len, lines))
    say(str(path), "bold")
    for name, line in lines.items():
        worst = "-" if line["worst"] is None else f"{line['worst']:.1e}"
        noise = f"  ({len(line['noise'])} more: rounding noise)" if line["noise"] else ""
        done = f"{line['agree']}/{line['total']}"
        say(f"  {name:<{width}}  {done:>9}  worst {worst}{noise}", "bold red" if line["failed"] else "")
        for result in line["failed"][:_SHOWN]:
            say(f"      {result.outcome}  {result.case.name}: {result.detail}", "red")
        if len(line["failed"]) > _SHOWN:
            say(f"      ... and {len(line['failed']) - _SHOWN} more", "red")
        for result in line["noise"]:
            say(f"      rounding noise  {result.case.name}: {result.detail}", "dim")
    total = _summary(results)
    apart = f"; {len(total['noise'])} cases of rounding noise are not counted" if total["noise"] else ""
    say(f"  {total['agree']} of {total['total']} agree{apart}\n")


def _as_json(path: Path, results: Sequence[ReferenceResult]) -> dict[str, object]:
    functions = []
    for name, of_function in _by_function(results).items():
        line = _summary(of_function)
        cases = {key: [_case_json(result) for result in line[key]] for key in ("noise", "failed")}
        functions.append({"function": name, **line, **cases, "worst": _finite(line["worst"])})
    return {"file": str(path), "functions": functions}


def _case_json(result: ReferenceResult) -> dict[str, object]:
    size = _finite(result.difference)
    return {"case": result.case.name, "outcome": result.outcome, "detail": result.detail, "difference": size}


def _finite(value: float | None) -> float | None:
    """Return the number, or None where it is infinite: JSON has no infinity."""
    return value if value is None or math.isfinite(value) else None

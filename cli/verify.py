"""`turnwise verify`: files of golden vectors against our functions, or against somebody else's.

Exit code 1 where anything that can be read does not agree or is implemented by nobody; else 2 where a file or a case
cannot be read; else 0. Nothing is skipped: every case counts in some line, and what cannot be read hides nothing else.
"""

from __future__ import annotations

import importlib
import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from turnwise.cli.console import out, say, warn
from turnwise.cli.errors import USER_ERROR, UserError, choose, sentence_of

if TYPE_CHECKING:
    from turnwise.cli.vectors.case import Verdict
    from turnwise.cli.vectors.files import Vectors

_SHOWN = 5


def verify(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Vectors (docs/vectors.md).")],
    function: Annotated[
        str | None,
        typer.Option(metavar="MODULE:NAME", help="Examine this function instead of ours; called as ours is."),
    ] = None,
    method: Annotated[str | None, typer.Option(help="Only this method's cases.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdicts as JSON.")] = False,
) -> None:
    """Check golden vectors: agreement and the largest difference, method by method."""
    vectors, unread = _read(files)
    known = list(dict.fromkeys(name for one in vectors for name in one.methods))
    if method is not None:
        choose("method in these files", method, known)
    given = None if function is None else imported(function)
    if given is not None and method is None and len(known) > 1:
        first = {one.methods[0] for one in vectors}
        if len(first) > 1 or any(set(one.methods) - {*first, "grpo", "rloo"} for one in vectors):
            raise UserError(f"These files have {len(known)} methods; --method says which one {function} is.")
        method = first.pop()  # a file of one method: the trainer's others beside it are not this function's business
    reports = [(one, summaries(one, method, given)) for one in vectors]
    if as_json:
        said = [_as_json(one, lines) for one, lines in reports]
        say(json.dumps(said + [{"file": str(path), "error": text} for path, text in unread.items()], indent=1))
    else:
        for one, lines in reports:
            _print(one, lines)
    for text in unread.values():
        warn(text)
    failed = {verdict.outcome for _, lines in reports for line in lines for verdict in line.failed}
    if failed - {"malformed"}:
        raise typer.Exit(1)
    if failed or unread:
        raise typer.Exit(USER_ERROR)


def _read(files: Sequence[Path]) -> tuple[list[Vectors], dict[Path, str]]:
    """The files that can be read, and of each other one the sentence that says why not.

    Raises:
        UserError, OSError: there is only one, and it cannot be read.
    """
    from turnwise.cli.vectors.files import read_vectors

    vectors, unread = [], {}
    for path in files:
        try:
            vectors.append(read_vectors(path))
        except (UserError, OSError) as error:
            if len(files) == 1:
                raise
            unread[path] = sentence_of(error) or str(error)
    return vectors, unread


def imported(path: str) -> Callable[..., Any]:
    """Return the function that `module:name` names; modules of the working directory can be named.

    Raises:
        UserError: there is none.
    """
    module, colon, name = path.partition(":")
    if not colon or not module or not name:
        raise UserError(f"--function wants module:name; {path!r} is not.")
    sys.path.insert(0, "")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except KeyboardInterrupt:
        raise
    except (ImportError, AttributeError) as error:
        raise UserError(f"--function {path}: {error}.") from error
    except BaseException as error:  # a module may raise anything while it is imported, sys.exit(0) as well
        raise UserError(f"--function {path}: {type(error).__name__} while it was imported: {error}.") from error
    finally:
        sys.path.remove("")
    if not callable(found):
        raise UserError(f"--function {path} is not a function but {type(found).__name__}.")
    return found  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Line:
    """What came of a method's cases in one file."""

    method: str
    verdicts: tuple[Verdict, ...]

    @property
    def judged(self) -> list[Verdict]:
        """The cases that are to be agreed upon."""
        return [verdict for verdict in self.verdicts if verdict.counts]

    @property
    def noise(self) -> list[Verdict]:
        """The cases whose figures are the published code's rounding noise."""
        return [verdict for verdict in self.verdicts if not verdict.counts]

    @property
    def failed(self) -> list[Verdict]:
        """The cases that do not agree, for whatever reason."""
        return [verdict for verdict in self.judged if verdict.outcome != "agrees"]

    @property
    def agrees(self) -> bool:
        """Whether nothing speaks against the method."""
        return not self.failed

    @property
    def worst(self) -> float | None:
        """The largest difference of the cases that were computed; None if none was."""
        computed = [verdict for verdict in self.judged if verdict.outcome in ("agrees", "differs")]
        return max((verdict.difference.worst for verdict in computed), default=None)


def summaries(vectors: Vectors, method: str | None, function: Callable[..., Any] | None) -> list[Line]:
    """Return a line for every method of a file.

    Args:
        vectors: the file.
        method: only this one.
        function: takes the place of ours.
    """
    by_method: dict[str, list[Verdict]] = {name: [] for name in vectors.methods if method in (None, name)}
    for verdict in vectors.verdicts(method, function):
        by_method[verdict.method].append(verdict)
    return [Line(name, tuple(verdicts)) for name, verdicts in by_method.items()]


def _print(vectors: Vectors, lines: Sequence[Line]) -> None:
    say(f"{vectors.path} (agrees up to {vectors.measure} = {vectors.measure.tolerance:g})", "bold")
    width = max((len(line.method) for line in lines), default=0)
    for line in lines:
        done = f"{len(line.judged) - len(line.failed)}/{len(line.judged)}"
        text = Text(f"  {line.method:<{width}}  ").append(f"{done:>9}", "green" if line.agrees else "bold red")
        text.append(f"  worst {_size(line)}")
        if line.noise:
            text.append(f"  and {len(line.noise)} of rounding noise", "yellow")
        out().print(text, soft_wrap=True)
        for verdict in line.failed[:_SHOWN]:
            say(f"      {_WORDS[verdict.outcome]}  {verdict}", "red")
        if len(line.failed) > _SHOWN:
            say(f"      ... and {len(line.failed) - _SHOWN} more", "red")
    noise = [verdict for line in lines for verdict in line.noise]
    if noise:
        say("  rounding noise of the published code, no disagreement (the figure that is furthest from ours):", "dim")
    for verdict in noise:
        say(f"      {verdict.method} {verdict}", "dim")
    judged = [verdict for line in lines for verdict in line.judged]
    agree = sum(verdict.outcome == "agrees" for verdict in judged)
    say(f"  {agree} of {len(judged)} agree{f', {len(noise)} of rounding noise apart' if noise else ''}\n")


_WORDS = {name: name for name in ("differs", "refused", "malformed")} | {"unimplemented": "nobody implements it:"}


def _size(line: Line) -> str:
    return "-" if line.worst is None else f"{line.worst:.1e}"


def _as_json(vectors: Vectors, lines: Sequence[Line]) -> dict[str, Any]:
    return {
        "file": str(vectors.path),
        "tolerance": vectors.measure.tolerance,
        "difference": str(vectors.measure),
        "methods": [
            {
                "method": line.method,
                "agree": len(line.judged) - len(line.failed),
                "total": len(line.judged),
                "worst": _finite(line.worst),
                "noise": [_case(verdict) for verdict in line.noise],
                "failed": [_case(verdict) for verdict in line.failed],
            }
            for line in lines
        ],
    }


def _case(verdict: Verdict) -> dict[str, Any]:
    found = verdict.difference
    return {
        "case": verdict.case,
        "outcome": verdict.outcome,
        "reason": verdict.reason,
        "difference": _finite(found.worst),
        "figure": f"{found.figure}{found.place}",
        "ours": _finite(found.ours),
        "theirs": _finite(found.theirs),
    }


def _finite(value: Any) -> Any:
    """JSON has no infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value

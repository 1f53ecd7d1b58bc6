"""`turncredit audit`: check that the stored trajectories and checkpoints of a run agree with its configuration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from turncredit.cli.console import err, out, say, say_json
from turncredit.cli.errors import UserError
from turncredit.cli.options import Trust
from turncredit.registry import choose
from turncredit.report.number_text import count, percent

if TYPE_CHECKING:
    from turncredit.training.audit import AuditOptions, AuditReport, AuditResult

DTYPES = ("float32", "bfloat16", "float16")
_COLOURS = {"passed": "green", "failed": "bold red", "not done": "dim"}
_SHARES = ("unparsable", "inadmissible", "truncated", "empty", "refused")


def _check_table(report: AuditReport) -> Table:
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for name in ("check", "", "checked", "problems"):
        table.add_column(name, justify="right" if name in {"checked", "problems"} else "left", no_wrap=True)
    table.add_column("what is checked", overflow="fold", ratio=1)
    for result in report.checks:
        checked = f"{result.checked:,} {result.unit}" if result.checked else ""
        problems = f"{result.count:,}" if result.checked else ""
        table.add_row(result.name, result.state, checked, problems, result.asks, style=_COLOURS[result.state])
    return table


def _counts(report: AuditReport) -> str:
    """Return one line with the numbers of episodes, turns and answers."""
    counts, turns = report.counts, report.counts["turns"]
    parts = [f"{counts['episodes']:,} episodes", f"{turns:,} turns", f"{count(counts['tokens'])} sampled tokens"]
    parts += [f"{counts[name]:,} {name} ({percent(counts[name] / turns)})" for name in _SHARES if counts[name]]
    parts += [f"{counts['errors']:,} ended in an error"] if counts["errors"] else []
    parts += [f"{counts['outgrown']:,} outgrew the context"] if counts["outgrown"] else []
    return ", ".join(parts)


def _gap_table(details: dict[str, Any]) -> Table:
    """Return the table of gaps by version, position in the response, and turn."""
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for name in ("|sampled - recomputed|, nats", "tokens", "mean", "max"):
        table.add_column(name, justify="left" if name.startswith("|") else "right")
    rows = [("all", details)]
    for key, label in (("by_version", "version"), ("by_position", "token"), ("by_turn", "turn")):
        rows += [(f"  {label} {name}", gap) for name, gap in details[key].items()]
    for label, gap in rows:
        table.add_row(label, f"{gap['tokens']:,}", _nats(gap["mean"]), _nats(gap["max"]))
    return table


def _nats(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.2g}"


def print_report(report: AuditReport) -> None:
    """Print what an audit found: counts, a table of checks, gaps, and the first problem of every check."""
    say(f"audit of {report.folder}", "bold")
    if report.counts["episodes"]:
        say(_counts(report))
    out().print(_check_table(report))
    gaps = next((result.details for result in report.checks if result.details), None)
    if gaps and gaps["tokens"]:
        say()
        out().print(_gap_table(gaps))
        say(f"the bound of the mean is {gaps['bound']:g}; the largest gap is in {gaps['worst']['place']}", "dim")
    missing = [f"{result.name} not checked: {text}" for result in report.checks for text in result.not_done]
    for text in [*missing, *report.notes]:
        say(text, "yellow")
    failed = [result for result in report.checks if result.count]
    for result in failed:
        _print_problems(result)
    if not failed:
        say("no problem was found", "bold green")


def _print_problems(result: AuditResult) -> None:
    more = f" (the first of {result.count:,})" if result.count > 1 else ""
    say(f"{result.name}{more}: {result.problems[0]}", "bold red")


def run_audit(folder: Path, options: AuditOptions) -> AuditReport:
    """Return the report of an audit; a terminal shows how far it is."""
    from turncredit.training.audit import audit as audit_run

    with err().status(f"reading {folder}") as status:
        return audit_run(folder, options, lambda check, turns: status.update(f"{check}, {turns:,} turns"))


def audit(
    path: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    iteration: Annotated[int | None, typer.Option(min=1, help="Only this iteration. Default: all.")] = None,
    limit: Annotated[
        int,
        typer.Option(
            min=0, show_default=False, help="Check at most this many trajectories per iteration. Default: all."
        ),
    ] = 0,
    checkpoint: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR", help="Another checkpoint, or folder of checkpoints, to recompute with (repeatable)."
        ),
    ] = None,
    scores: Annotated[bool, typer.Option(help="Recompute log-probabilities with the kept checkpoints.")] = True,
    device: Annotated[str, typer.Option(help="Device of the model: cpu, cuda, cuda:N. Default: the run's.")] = "",
    dtype: Annotated[str, typer.Option(help=f"Type of the weights: {', '.join(DTYPES)}.")] = "float32",
    bound: Annotated[
        float,
        typer.Option(
            min=0,
            show_default=False,
            help="Largest allowed mean difference of log-probabilities, in nats. Default: 0.0001, or 0.1 in bfloat16.",
        ),
    ] = 0.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    trust: Trust = False,
) -> None:
    """Check the stored trajectories and checkpoints of a run; exit code 1 if a check fails.

    Prompts, masks, texts, log-probabilities and versions are recomputed. The report names what could not be checked.
    """
    from turncredit.training.audit import AuditOptions

    choose("dtype", dtype, DTYPES)
    if not path.is_dir():
        raise UserError(f"{path} {'is a file' if path.exists() else 'does not exist'}; expected a run folder")
    report = run_audit(path, AuditOptions(iteration, limit, tuple(checkpoint or ()), scores, device, dtype, bound))
    if as_json:
        say_json(report.as_json(), indent=2)
    else:
        print_report(report)
    if not report.passed:
        raise typer.Exit(1)

"""`turnwise report`: a run as one HTML file, or as a page that follows it while it continues."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli.console import say, warn
from turnwise.cli.credit_settings import credit_settings
from turnwise.cli.errors import UserError, require_writable

if TYPE_CHECKING:
    from turnwise.cli.credit_settings import CreditSettings
    from turnwise.cli.run_report.run_data import RunData

RULES = "gigpo,grpo"


def report(
    path: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, or a file of trajectories (.jsonl, ...).")],
    output: Annotated[Path | None, typer.Option(metavar="FILE.html", help="The file. Default: NAME.html.")] = None,
    live: Annotated[bool, typer.Option("--live", help="Serve the report on this machine; it follows the run.")] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of --live; 0: any free one.")] = 0,
    rules: Annotated[
        str | None, typer.Option("--credit", metavar="A,B,...", help=f"Credit rules. Default: the run's, {RULES}.")
    ] = None,
    against: Annotated[
        list[Path] | None, typer.Option(metavar="RUN", help="Another run, to compare its evaluations; repeatable.")
    ] = None,
    megabytes: Annotated[
        float, typer.Option(min=0.1, help="Size of the file, in MB. Turns beyond it are left out.")
    ] = 19.0,
) -> None:
    """Write a run as one HTML file: curves, groups, every turn with its advantage, failures, comparisons."""
    from turnwise.cli.run_report.run_data import RunData

    if live and output is not None:
        raise UserError("--live serves the report and writes no file; leave out --output, or --live")
    for other in against or ():
        if not (other / "evaluations").is_dir():
            raise UserError(f"{other} holds no evaluations; --against needs the folder of another run")
    data = RunData(path, _settings(path, rules), tuple(against or ()))
    if live:
        _serve(data, port)
    else:
        _write(data, output or Path(f"{path.resolve().name.partition('.')[0]}.html"), round(megabytes * 1e6))


def _settings(path: Path, rules: str | None) -> CreditSettings | None:
    """Return the credit rules of the run, or those that were asked for; None if the run's settings cannot be read."""
    from turnwise.training.errors import ConfigError

    try:
        return credit_settings(path, rules, {}, None, RULES)
    except ConfigError as error:
        warn(f"no advantages: {error}")
        return None


def _write(data: RunData, file: Path, limit: int) -> None:
    from turnwise.cli.run_report.html import complete_page

    require_writable(file)
    text = complete_page(data, limit)
    part = file.with_name(f".{file.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(file)
    for note in data.parts["run"].value["notes"]:
        warn(note)
    say(f"report of {data.path}: {file} ({file.stat().st_size / 1e6:.1f} MB)")


def _serve(data: RunData, port: int) -> None:
    from turnwise.cli.run_report.server import LiveServer

    server = LiveServer(data, port)
    say(f"report of {data.path}: {server.url} (Ctrl-C stops it)")
    try:
        server.serve()
    except KeyboardInterrupt:
        say("stopped")

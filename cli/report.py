"""`turncredit report`: a run, a benchmark or an ablation as one HTML file, or as a page that follows it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turncredit.cli.console import say, warn
from turncredit.cli.errors import UserError
from turncredit.cli.options import Trust
from turncredit.report.run_report.settings import RULES

if TYPE_CHECKING:
    from turncredit.report.run_report.report_data import ReportData


def report(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER", help="Folder of a run, a benchmark or an ablation; or a file of trajectories."
        ),
    ],
    output: Annotated[Path | None, typer.Option(metavar="FILE.html", help="File to write. Default: NAME.html.")] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Serve the report on this machine, and update it while the run continues.")
    ] = False,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port of --live; 0: any free one. Default: 0.")
    ] = None,
    rules: Annotated[
        str | None, typer.Option("--credit", metavar="A,B,...", help=f"Credit rules. Default: the run's, {RULES}.")
    ] = None,
    against: Annotated[
        list[Path] | None, typer.Option(metavar="FOLDER", help="Another run or benchmark to compare with (repeatable).")
    ] = None,
    screens: Annotated[
        int,
        typer.Option(min=0, help="Number of episodes to replay for screens or, where those are stored, for touches."),
    ] = 0,
    megabytes: Annotated[
        float, typer.Option(min=0.1, max=1000, help="Maximum size of the file, in MB. Turns beyond it are left out.")
    ] = 19.0,
    trust: Trust = False,
) -> None:
    """Write a run, a benchmark or an ablation as one HTML file: curves, every turn, failures, comparisons."""
    from turncredit.report import open_report, write_report

    if live and (output is not None or screens):
        raise UserError("--live serves the report and writes no file; leave out --output and --screens, or --live")
    if port is not None and not live:
        raise UserError("--port belongs to --live, which serves the report")
    if live:
        _serve(open_report(path, rules, tuple(against or ())), port or 0)
        return
    file = output or Path(f"{path.resolve().name.partition('.')[0]}.html")
    limit = round(megabytes * 1e6)
    for note in write_report(path, file, credit=rules, against=against or (), limit=limit, screens=screens):
        warn(note)
    say(f"report of {path}: {file} ({file.stat().st_size / 1e6:.1f} MB)")


def _serve(data: ReportData, port: int) -> None:
    from turncredit.report.run_report.server import LiveServer

    server = LiveServer(data, port)
    say(f"report of {data.source.path}: {server.url} (Ctrl-C stops it)")
    try:
        server.serve()
    except KeyboardInterrupt:
        say("stopped")

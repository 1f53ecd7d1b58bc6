"""`turncredit ablate --summary`: what several ablations had to work with, beside what step-level credit gained."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from turncredit.cli.console import err, say, warn
from turncredit.cli.errors import UserError
from turncredit.cli.printing.tables import print_table, say_wrapped
from turncredit.report.ablation_tables import grid, interval, per_cent, plain_table
from turncredit.report.errors import ReportError
from turncredit.report.figures import Points, save_scatters
from turncredit.report.table_columns import SUMMARY, SUMMARY_CORRELATION, SUMMARY_NOTE, markdown_key

if TYPE_CHECKING:
    from turncredit.ablation.results import ResultTable

COLUMNS = {key: column.head for key, column in SUMMARY.items() if key not in ("ablation", "arm", "seeds", "gain")}
"""What there was to work with, beside the gain."""
_FORMAT: Mapping[str, Callable[[float], str]] = {"turns": "{:.1f}".format, "agreement": "{:+.2f}".format}
"""Of the columns that are no shares."""
HEAD = [column.head for column in SUMMARY.values()]
CORRELATED = (
    "Resampled are the seeds of each ablation, so intervals of few seeds are too narrow.",
    "They are not corrected for their number: one in twenty excludes zero by chance.",
    "A correlation is no cause: a seed's warm start decides all of these numbers together.",
)


def summarise(folders: Sequence[Path], output: Path | None) -> None:
    """Print the summary of several ablations, and write it into a folder if there is one.

    Args:
        folders: of the ablations.
        output: where summary.md, summary.json and summary.png go; None: nowhere.

    Raises:
        UserError: a folder is given twice, or no arm has finished a seed that its reference finished too.
        TrainingError: a folder holds no ablation.
    """
    from turncredit.ablation.credit_agreement import credit_agreement
    from turncredit.ablation.plan import read_plan
    from turncredit.ablation.results import FIRST, ablation_results
    from turncredit.ablation.summary import summary
    from turncredit.agents.files.folder_lock import make_folder
    from turncredit.agents.files.json_files import write_json, write_text
    from turncredit.credit import CreditError
    from turncredit.registry import is_untrusted

    plans = {name: read_plan(folder) for name, folder in _names(folders).items()}

    def agreement(name: str, arm: str, seed: int) -> float | None:
        status.update(f"advantages of {name}, {arm}, seed {seed}")
        try:
            return credit_agreement(
                plans[name], next(candidate for candidate in plans[name].arms if candidate.name == arm), seed, FIRST
            )
        except CreditError as error:
            if not is_untrusted(error):
                raise
            warn(f"no agreement of {name}, {arm}, seed {seed}: {error}")
            return None

    with err().status("reading") as status:
        table = summary({name: ablation_results(plan) for name, plan in plans.items()}, agreement)
    if not table["rows"]:
        raise UserError("no arm has finished a seed that the reference of its ablation finished too")
    _print(table)
    if output is None:
        return
    make_folder(output)
    write_json(output / "summary.json", table)
    picture = "summary.png"
    try:
        save_figure(table, output / picture)
    except ReportError as error:
        warn(f"no figure: {error}")
        picture = ""
    write_text(output / "summary.md", markdown(table, picture))
    say(f"  {output / 'summary.md'}", "dim")


def _names(folders: Sequence[Path]) -> dict[str, Path]:
    """Return the folders by their last part, or by their path where several have the same."""
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise UserError("each ablation may be given once")
    last = [folder.resolve().name for folder in folders]
    return {name if last.count(name) == 1 else str(folder): folder for name, folder in zip(last, folders, strict=True)}


def mean_rows(table: ResultTable) -> list[list[str]]:
    """Return the table's rows that are means over seeds."""
    return [_row(row, str(row["n"])) for row in table["rows"] if row["seed"] is None]


def _row(row: ResultTable, seeds: str) -> list[str]:
    cells = ["–" if row[key] is None else _FORMAT.get(key, per_cent)(row[key]) for key in COLUMNS]
    return [row["ablation"], row["arm"], seeds, *cells, interval(row["gain"], signed=True)]


def correlation_rows(table: ResultTable) -> list[list[str]]:
    """Return the table of correlations."""
    return [
        [line["ablation"], line["arm"], str(line["n"]), *(_correlation(line[key]) for key in COLUMNS)]
        for line in table["correlations"]
    ]


def _correlation(correlation: ResultTable) -> str:
    if correlation["value"] is None:
        return "–"
    if correlation["low"] is None:
        return f"{correlation['value']:+.2f}"
    return f"{correlation['value']:+.2f} [{correlation['low']:+.2f}, {correlation['high']:+.2f}]"


def markdown(table: ResultTable, picture: str = "") -> str:
    """Return the summary as Markdown: the means, the correlations, the figure, and every seed."""
    single = [_row(row, str(row["seed"])) for row in table["rows"] if row["seed"] is not None]
    parts = ["# What decides?\n", grid(HEAD, mean_rows(table)), markdown_key(SUMMARY.values(), _note(table))]
    parts += ["## Rank correlation with the gain\n", grid(_correlation_head(), correlation_rows(table))]
    parts += [markdown_key(SUMMARY_CORRELATION.values(), *CORRELATED), f"**{summary_verdict(table)}**\n"]
    parts += [f"![gain against what there was to work with]({picture})\n"] if picture else []
    parts += ["## Seed by seed\n", grid([*HEAD[:2], "seed", *HEAD[3:]], single)]
    return "\n".join(parts)


def _note(table: ResultTable) -> str:
    return SUMMARY_NOTE.format(first=table["first"])


def _correlation_head() -> list[str]:
    return ["ablation", "arm", "n", *COLUMNS.values()]


def summary_verdict(table: ResultTable) -> str:
    """Return in a sentence which of the columns goes with the gain, if any."""
    lines = [(line, key) for line in table["correlations"] for key in COLUMNS if line[key]["low"] is not None]
    if not lines:
        return "Fewer than 5 seeds, or no spread: no correlation can be computed with its interval."
    beyond = [
        f"{COLUMNS[key]} in {line['ablation']}, {line['arm']} ({line[key]['value']:+.2f})"
        for line, key in lines
        if line[key]["low"] > 0 or line[key]["high"] < 0
    ]
    if not beyond:
        return f"Nothing goes with the gain: all {len(lines)} intervals contain 0."
    share = f"{len(beyond)} of {len(lines)} intervals exclude 0 ({0.05 * len(lines):.1f} would by chance)"
    return f"{share}: {'; '.join(beyond)}."


def _print(table: ResultTable) -> None:
    say(f"The reference's first {table['first']} iterations, and the gain over it, in per cent", "bold")
    print_table(plain_table(HEAD, mean_rows(table), left={0, 1}), SUMMARY.values(), _note(table))
    say("\nRank correlation with the gain over seeds, with 95 % bootstrap intervals", "bold")
    correlations = plain_table(_correlation_head(), correlation_rows(table), left={0, 1})
    print_table(correlations, SUMMARY_CORRELATION.values(), *CORRELATED)
    say_wrapped(summary_verdict(table), "bold")


def save_figure(table: ResultTable, path: Path) -> None:
    """Write a scatter plot of the gain against each quantity, one point for each ablation, arm and seed.

    An arm has one colour in all ablations, and an ablation one marker.

    Raises:
        UserError: matplotlib is not installed.
    """
    single = [row for row in table["rows"] if row["seed"] is not None]
    groups = dict.fromkeys((row["ablation"], row["arm"]) for row in single)
    names, arms = list(dict.fromkeys(name for name, _ in groups)), list(dict.fromkeys(arm for _, arm in groups))
    panels: dict[str, list[Points]] = {}
    for key, title in COLUMNS.items():
        unit, factor = ("", 1.0) if key in _FORMAT else (", per cent", 100.0)
        panels[title + unit] = [
            Points(
                f"{name}: {arm}" if len(names) > 1 else arm,
                tuple((factor * row[key], 100 * row["gain"]["value"]) for row in rows if row[key] is not None),
                colour=arms.index(arm),
                marker=names.index(name) if len(names) > 1 else arms.index(arm),
            )
            for (name, arm) in groups
            for rows in [[row for row in single if (row["ablation"], row["arm"]) == (name, arm)]]
        ]
    save_scatters(panels, path, y_label="gain over the reference, points")

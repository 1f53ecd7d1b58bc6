"""The truth about the turns of an iteration, where `turncredit credit RUN --truth K` has played forks.

truth/NUMBER     the rules against the truth: measures with intervals, differences to the reference, the verdict
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from turncredit.report.run_report.revisions import Parts
from turncredit.report.run_report.rounding import rounded_number

if TYPE_CHECKING:
    from turncredit.agents.trajectory import Group
    from turncredit.credit.truth import Interval
    from turncredit.report.credit_settings import CreditSettings
    from turncredit.training.truth.measuring import TruthTable

TRUTH = "truth"


def true_credit(
    groups: Sequence[Group], file: Path | None, settings: CreditSettings | None, notes: list[str]
) -> dict[str, Parts]:
    """Return the true advantages by trajectory, as one more rule; empty where no forks were played."""
    from turncredit.report.truth_scores import return_options

    table = _table(groups, file, settings, notes)
    if table is None or settings is None:
        return {}
    truth, parts, row = table.estimate(*return_options(settings, list(settings.rules))), Parts(), 0
    for trajectory in table.histories.trajectories:
        mine = range(row, row + len(trajectory.turns))
        row = mine.stop
        columns = {"V": truth.value, "standard error": truth.error}
        parts[trajectory.id] = {
            "value": [rounded_number(truth.advantage[at]) for at in mine],
            "parts": {name: [rounded_number(column[at]) for at in mine] for name, column in columns.items()},
            "dropped": [],
        }
    return {TRUTH: parts}


def truth_scores(
    number: int, groups: Sequence[Group], file: Path | None, settings: CreditSettings | None, notes: list[str]
) -> Parts | None:
    """Return the rules against the truth as plain values; None where no forks were played, or none say anything."""
    from turncredit.credit import CreditError
    from turncredit.report.errors import ReportError
    from turncredit.report.truth_scores import return_options, score_rules
    from turncredit.report.truth_verdict import truth_verdict

    settings = settings if settings is None or file is None else settings.of_file(file)
    table = _table(groups, file, settings, notes)
    if table is None or settings is None:
        return None
    gamma, penalty = return_options(settings, list(settings.rules))
    try:
        scores = score_rules(table, settings, gamma=gamma, invalid_penalty=penalty)
    except (ReportError, CreditError) as error:
        notes.append(f"the truth of iteration {number} scores no rule: {error}")
        return None
    return {
        "number": number,
        "verdict": truth_verdict(scores),
        "enough": scores.enough,
        "reference": scores.reference,
        "reliability": None if scores.reliability is None else rounded_number(scores.reliability),
        "turns": scores.turns,
        "forks": scores.forks,
        "histories": scores.histories,
        "density": asdict(scores.density),
        "same": scores.same,
        "leftOut": dict(scores.left_out),
        "rules": [
            {
                "name": rule.name,
                "scores": {name: _plain(score) for name, score in rule.scores.items()},
                "true": None if rule.rank_true is None else rounded_number(rule.rank_true),
                "differences": {name: _plain(score) for name, score in rule.differences.items()},
                "beyond": [name for name in rule.scores if rule.beyond_noise(name)],
            }
            for rule in scores.rows
        ],
    }


def _table(
    groups: Sequence[Group], file: Path | None, settings: CreditSettings | None, notes: list[str]
) -> TruthTable | None:
    """Return the turns of an iteration with their forks; None where there are none, or they cannot be read."""
    if settings is None or file is None:
        return None
    from turncredit.agents.errors import StoreError
    from turncredit.training.truth.fork_records import ForkFile, truth_file
    from turncredit.training.truth.measuring import TruthTable

    path = truth_file(file)
    if not path.exists():
        return None
    try:
        forks = ForkFile.read(path)
    except (StoreError, OSError) as error:
        notes.append(f"the truth is left out: {error}")
        return None
    return TruthTable.of(groups, forks, chance=bool(forks.player.get("chance")))


def _plain(interval: Interval) -> dict[str, float | int | None]:
    ends = {"value": interval.value, "low": interval.low, "high": interval.high}
    return {**{name: None if end is None else rounded_number(end) for name, end in ends.items()}, "n": interval.n}

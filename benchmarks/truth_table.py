"""The tables of docs/truth.md: credit rules against the forks that were stored beside trajectories, in Markdown.

    python benchmarks/truth_table.py runs/truth-household --iterations 21 30 [--rules rtmc,hgpo,...] [--picture FILE]

Nothing is played, and no policy is needed. Of each iteration: the rank with its interval, the difference in rank to the
reference with the interval that holds for all rules at once, and the other measures, over all measured turns. A star
marks what differs from the reference beyond the noise.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from turncredit.credit import rules
from turncredit.credit.truth import Interval
from turncredit.report.ablation_tables import grid
from turncredit.report.credit_settings import credit_settings
from turncredit.report.stored_groups import read_groups
from turncredit.report.truth_picture import save_truth_picture
from turncredit.report.truth_scores import RuleTruth, TruthScores, return_options, score_rules
from turncredit.report.truth_verdict import truth_verdict
from turncredit.training.run_folder.paths import trajectory_file
from turncredit.training.truth.fork_records import ForkFile, truth_file
from turncredit.training.truth.measuring import TruthTable


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of a run with forks beside its trajectories")
    parser.add_argument("--iterations", type=int, nargs="+", required=True)
    parser.add_argument("--rules", default="", help="names with commas between them; default: all that have a row")
    parser.add_argument("--picture", type=Path, help="where to draw the first of the iterations")
    options = parser.parse_args()
    asked = [name for name in options.rules.split(",") if name]
    measured = {number: scores_of(options.run, number) for number in options.iterations}
    for number, scores in measured.items():
        print(f"Iteration {number}: {facts(scores)}\n{truth_verdict(scores)}\n")
    for name in ("rank", "against", "within", "sign", "leak", "error"):
        print(f"{name}\n\n{table(measured, asked, name)}\n")
    if options.picture is not None:
        drawn = measured[options.iterations[0]]
        chosen = tuple(rule for rule in drawn.rules if not asked or rule.name in asked)
        save_truth_picture(replace(drawn, rules=chosen), options.picture)


def scores_of(run: Path, iteration: int) -> TruthScores:
    """Return the scores of all rules that can be applied, from the stored forks of an iteration."""
    file = trajectory_file(run, iteration)
    forks = ForkFile.read(truth_file(file))
    groups = read_groups(file, credited=True)
    stored = TruthTable.of(groups, forks, chance=bool(forks.player.get("chance")))
    settings = credit_settings(file, ",".join(rules()))
    gamma, penalty = return_options(settings, list(settings.rules))
    return score_rules(stored, settings, gamma=gamma, invalid_penalty=penalty)


def facts(scores: TruthScores) -> str:
    """Return what was measured, in a clause."""
    reached = "unknown" if scores.reliability is None else f"{scores.reliability:.2f}"
    return (
        f"{scores.turns:,} turns, {scores.forks:,} forks of {scores.histories:,} histories, reliability {reached}; "
        f"{scores.density.significant:.1%} of the turns beyond two standard errors, the top tenth holds "
        f"{scores.density.top_tenth:.1%}"
    )


def table(measured: dict[int, TruthScores], asked: Sequence[str], measure: str) -> str:
    """Return one measure of the rules in every iteration; "against" is the difference in rank."""
    newest = measured[max(measured)]
    names = asked or [rule.name for rule in newest.rows]
    lines = [[f"`{name}`", *(cell(rule_of(scores, name), measure) for scores in measured.values())] for name in names]
    return grid(["rule", *(f"{number}" for number in measured)], lines)


def rule_of(scores: TruthScores, name: str) -> RuleTruth:
    """Return a rule by its name."""
    return next(rule for rule in scores.rules if rule.name == name)


def cell(rule: RuleTruth, measure: str) -> str:
    """Return a number with its interval, and a star where it differs from the reference beyond the noise."""
    if measure == "against":
        star = "*" if rule.beyond_noise("rank") else ""
        return f"{said(rule.differences['rank'], '+')}{star}" if "rank" in rule.differences else ""
    return f"{said(rule.scores[measure])}{'*' if measure != 'rank' and rule.beyond_noise(measure) else ''}"


def said(interval: Interval, sign: str = "") -> str:
    """Return a number with its interval, as far as they are known."""
    if interval.value is None:
        return ""
    value = f"{_rounded(interval.value):{sign}.2f}"
    if interval.low is None or interval.high is None:
        return value
    return f"{value} [{_rounded(interval.low):{sign}.2f}, {_rounded(interval.high):{sign}.2f}]"


def _rounded(value: float) -> float:
    """Return a number with two digits, and zero without a sign."""
    return round(value, 2) + 0.0


if __name__ == "__main__":
    main()

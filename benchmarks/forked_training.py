"""What forks and true credit gain in training: an ablation, read after equal updates and after equal sampled tokens.

    turncredit ablate examples/demo.toml "credit=grpo,hgpo:train.iterations=36,..." --output runs/forked
    python benchmarks/forked_training.py runs/forked [--iteration 12]

docs/truth.md has the whole command. Seeds count whose arms have all finished. Equal tokens need checkpoints of every
iteration: an arm is read at its last one within the budget, which `turncredit eval` plays on the run's own panel; the
result is kept in the run's folder. Arms whose turns have values by forks ("valued") have another budget: they are read
at the end, beside the second reference after all of its iterations.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from turncredit.ablation.plan import read_plan
from turncredit.evaluation.results import EvaluationResult
from turncredit.evaluation.seed_statistics import Mean, SeedComparison, compare_seeds, holm
from turncredit.report.ablation_tables import grid, interval, p_value
from turncredit.training.run_folder.metrics import read_events

Results = dict[str, dict[int, EvaluationResult]]
"""By arm and seed."""
Differences = dict[str, tuple[SeedComparison, float]]
"""By arm: its difference to a reference, and the p-value over seeds with Holm's correction."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What some iterations sampled, forks for values included, and how often they updated."""

    tokens: int = 0
    turns: int = 0
    updates: int = 0

    @classmethod
    def of(cls, event: Mapping[str, Any]) -> Cost:
        """Return the cost of one iteration."""
        turns = event.get("sampled_turns", round(event["turns"] * event["episodes"]))
        tokens = event["tokens"] + event.get("value_tokens", 0)
        return cls(tokens, turns + event.get("value_turns", 0), event["updates"])

    def __add__(self, other: Cost) -> Cost:
        """Return the cost of both."""
        return Cost(self.tokens + other.tokens, self.turns + other.turns, self.updates + other.updates)


@dataclass(frozen=True, slots=True)
class Trained:
    """A finished run of an arm.

    Attributes:
        folder: of the run.
        costs: up to each iteration, from 0.
        valued: whether its turns have values by forks.
    """

    folder: Path
    costs: tuple[Cost, ...]
    valued: bool

    @classmethod
    def of(cls, folder: Path) -> Trained:
        """Return the run of a folder."""
        events = [event for event in read_events(folder / "metrics.jsonl") if event.get("phase") == "train"]
        costs = tuple(accumulate(map(Cost.of, events), initial=Cost()))
        return cls(folder, costs, any("value_tokens" in event for event in events))

    @property
    def last(self) -> int:
        """Number of the last iteration."""
        return len(self.costs) - 1

    def within(self, tokens: int) -> int:
        """Return the last iteration up to which no more tokens were sampled."""
        return max(number for number, cost in enumerate(self.costs) if cost.tokens <= tokens)

    def evaluation(self, iteration: int) -> EvaluationResult:
        """Return the evaluation after an iteration, which is played if the run has none."""
        if iteration == 0:
            return EvaluationResult.load(self.folder / "before.json")
        name = f"{iteration:06d}"
        file = self.folder / "evaluations" / f"{name}.json"
        if not file.exists():
            file = self.folder / "read" / f"{name}.json"
        if not file.exists():
            play(self.folder / "checkpoints" / name, self.folder / "panel.json", file)
        return EvaluationResult.load(file)


def play(checkpoint: Path, panel: Path, file: Path) -> None:
    """Write the result of a checkpoint on a panel."""
    file.parent.mkdir(exist_ok=True)
    main = "from turncredit.cli.main import main; main()"
    words = ["eval", str(checkpoint), "--panel", str(panel), "--concurrency", "128", "--output", str(file)]
    subprocess.run([sys.executable, "-c", main, *words], check=True, stdout=subprocess.DEVNULL)


def complete(folder: Path) -> dict[str, dict[int, Trained]]:
    """Return the runs of an ablation by arm and seed, with those seeds whose arms have all finished."""
    ablation = read_plan(folder)
    runs = {arm.name.partition(":")[0]: arm.folder for arm in ablation.arms}
    seeds = [
        seed
        for seed in ablation.seeds
        if all((folder / arm / f"seed-{seed}" / "after.json").exists() for arm in runs.values())
    ]
    return {name: {seed: Trained.of(folder / arm / f"seed-{seed}") for seed in seeds} for name, arm in runs.items()}


def differences(results: Results, reference: Mapping[int, EvaluationResult], arms: Sequence[str]) -> Differences:
    """Return the differences of some arms to a reference, corrected for their number."""
    pairs = [compare_seeds(reference, results[arm]) for arm in arms]
    corrected = holm([pair.p_seeds for pair in pairs])
    return {arm: (pair, p) for arm, pair, p in zip(arms, pairs, corrected, strict=True)}


def success(results: Mapping[int, EvaluationResult]) -> Mean:
    """Return the mean success over seeds."""
    return Mean.of_rates([result.summary().success for result in results.values()])


def shown(results: Mapping[int, EvaluationResult]) -> str:
    """Return the mean success over seeds with its interval, in per cent."""
    return interval(asdict(success(results)), bounded=True)


def gap(differences: Differences, arm: str) -> str:
    """Return the difference of an arm in points, with its interval."""
    return interval(asdict(differences[arm][0].difference), signed=True) if arm in differences else ""


def tests(*families: Differences) -> list[list[str]]:
    """Return the p-values of each arm: over seeds, with Holm's correction, and by sign flips over seeds."""

    def cells(differences: Differences, arm: str) -> list[str]:
        if arm not in differences:
            return [""] * 3
        pair, corrected = differences[arm]
        return [p_value(p) for p in (pair.p_seeds, corrected, pair.p_flips)]

    arms = dict.fromkeys(arm for differences in families for arm in differences)
    return [[f"`{arm}`", *(cell for differences in families for cell in cells(differences, arm))] for arm in arms]


class Reading:
    """The complete seeds of an ablation with the arms `grpo`, `hgpo` and others."""

    FIRST, SECOND = "grpo", "hgpo"

    def __init__(self, runs: dict[str, dict[int, Trained]], iteration: int) -> None:
        """Read the runs.

        Args:
            runs: by arm and seed.
            iteration: after which all arms are compared.
        """
        self.runs, self.iteration = runs, iteration
        self.seeds = list(runs[self.FIRST])
        self.valued = [arm for arm, by_seed in runs.items() if any(run.valued for run in by_seed.values())]
        self.cheap = [arm for arm in runs if arm not in self.valued]

    def after(self, iteration: int) -> Results:
        """Return the evaluations of all arms after an iteration."""
        return {
            arm: {seed: run.evaluation(iteration) for seed, run in by_seed.items()}
            for arm, by_seed in self.runs.items()
        }

    def equal_updates(self) -> str:
        """Return the table after equal updates."""
        before, half, end = (self.after(number) for number in (0, self.iteration // 2, self.iteration))
        others = [arm for arm in end if arm != self.FIRST]
        first = differences(end, end[self.FIRST], others)
        second = differences(end, end[self.SECOND], [arm for arm in others if arm != self.SECOND])
        lines = []
        for arm in end:
            gain = asdict(compare_seeds(before[arm], end[arm]).difference)
            cells = [shown(before[arm]), shown(half[arm]), shown(end[arm]), interval(gain, signed=True)]
            lines.append([f"`{arm}`", *cells, gap(first, arm), gap(second, arm)])
        heads = ["arm", "before", f"after {self.iteration // 2}", f"after {self.iteration}", "gain", *self._against()]
        return grid(heads, lines) + "\n" + self._tests(first, second)

    def equal_tokens(self) -> str:
        """Return the table after equal sampled tokens."""
        budgets = {
            seed: min(self.runs[arm][seed].costs[self.iteration].tokens for arm in self.cheap) for seed in self.seeds
        }
        places = {arm: {s: self.runs[arm][s].within(budgets[s]) for s in self.seeds} for arm in self.cheap}
        longer = f"{self.SECOND}, longer"
        ends = {longer: self.SECOND} | {arm: arm for arm in self.valued}
        runs = {**{arm: self.runs[arm] for arm in self.cheap}, **{arm: self.runs[name] for arm, name in ends.items()}}
        places |= {arm: {s: runs[arm][s].last for s in self.seeds} for arm in ends}
        results = {arm: {s: runs[arm][s].evaluation(places[arm][s]) for s in self.seeds} for arm in runs}
        others = [arm for arm in self.cheap if arm != self.FIRST]
        first = differences(results, results[self.FIRST], others)
        second = self._against_second(results, [arm for arm in others if arm != self.SECOND], longer)
        lines = []
        for arm in runs:
            costs = [runs[arm][s].costs[places[arm][s]].tokens for s in self.seeds]
            cells = [mean_of(list(places[arm].values())), mean_of(costs), shown(results[arm])]
            lines.append([f"`{arm}`", *cells, gap(first, arm), gap(second, arm)])
        heads = ["arm", "iterations", "tokens", "success", *self._against()]
        return grid(heads, lines) + "\n" + self._tests(first, second)

    def _against_second(self, results: Results, rest: list[str], longer: str) -> Differences:
        """Return the differences to the second reference: within the budget, and of the valued arms to all of it."""
        pairs = {arm: compare_seeds(results[self.SECOND], results[arm]) for arm in rest}
        pairs |= {arm: compare_seeds(results[longer], results[arm]) for arm in self.valued}
        corrected = holm([pair.p_seeds for pair in pairs.values()])
        return {arm: (pair, p) for (arm, pair), p in zip(pairs.items(), corrected, strict=True)}

    def sampled(self) -> str:
        """Return the table of what each arm sampled up to the common iteration."""
        lines = []
        for arm, by_seed in self.runs.items():
            costs = [run.costs[self.iteration] for run in by_seed.values()]
            counts = ([getattr(cost, name) for cost in costs] for name in ("turns", "tokens", "updates"))
            lines.append([f"`{arm}`", *map(mean_of, counts)])
        return grid(["arm", "sampled turns", "sampled tokens", "optimizer steps"], lines)

    def by_seed(self) -> str:
        """Return the success of every arm in every seed, in per cent."""
        before, end = self.after(0), self.after(self.iteration)
        long = {seed: run.evaluation(run.last) for seed, run in self.runs[self.SECOND].items()}
        columns = {"warm start": before[self.FIRST], **end, f"{self.SECOND}, all iterations": long}
        lines = [
            [seed, *(f"{100 * (result[seed].summary().success.value or 0.0):.1f}" for result in columns.values())]
            for seed in self.seeds
        ]
        return grid(["seed", *columns], lines)

    def _against(self) -> list[str]:
        return [f"against `{arm}`" for arm in (self.FIRST, self.SECOND)]

    def _tests(self, first: Differences, second: Differences) -> str:
        """Return the table of p-values; with one seed there are none."""
        if len(self.seeds) < 2:
            return ""
        heads = [f"{arm}: {test}" for arm in self._against() for test in ("over seeds", "Holm", "sign flips")]
        return grid(["arm", *heads], tests(first, second))


def mean_of(numbers: Sequence[float]) -> str:
    """Return the mean of numbers; one decimal below 100."""
    mean = sum(numbers) / len(numbers)
    return f"{mean:,.0f}" if mean >= 100 or mean == int(mean) else f"{mean:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ablation", type=Path, help="folder of the ablation")
    parser.add_argument("--iteration", type=int, default=12, help="after which all arms are compared")
    options = parser.parse_args()
    reading = Reading(complete(options.ablation), options.iteration)
    if not reading.seeds:
        sys.exit(f"{options.ablation} has no seed whose arms have all finished")
    print(f"Seeds {', '.join(map(str, reading.seeds))}\n\n## Equal updates\n\n{reading.equal_updates()}")
    print(f"## Sampled in {options.iteration} iterations, means over seeds\n\n{reading.sampled()}")
    print(f"## Equal sampled tokens\n\n{reading.equal_tokens()}\n## Seed by seed\n\n{reading.by_seed()}")


if __name__ == "__main__":
    main()

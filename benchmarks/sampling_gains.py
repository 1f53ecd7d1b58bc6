"""What rules of sampling gain: an ablation, read after equal sampled turns and after equal updates.

    python benchmarks/sampling_gains.py runs/sampled [--iteration 12] [--figure docs/sampling-gains.png]
    python benchmarks/sampling_gains.py runs/climbed --iteration 24 --names "hard alone" uniform levels

docs/sampling_gains.md has the command of the ablation. Seeds count whose arms have all finished; the first arm is the
reference. Success between two evaluations is linear in the turns that were sampled, those of dropped groups and of
episodes that nothing was learned from included.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from turncredit.ablation.plan import read_plan
from turncredit.evaluation.results import EvaluationResult
from turncredit.evaluation.seed_statistics import Mean, holm, paired_t
from turncredit.report.ablation_tables import grid, interval, p_value
from turncredit.report.figures import save_curves
from turncredit.report.plots import Curve
from turncredit.training.run_folder.metrics import read_events

Floats = NDArray[np.float64]
STEPS = 400
"""Points between no turns and all of them at which mean curves are compared."""
RESAMPLES = 10_000


@dataclass(frozen=True, slots=True)
class Trained:
    """A run: sampled turns and held-out success where it was evaluated, from before training on.

    Attributes:
        iterations: after which it was evaluated.
        turns: sampled until then.
        success: share of episodes won.
        useful: share of the groups with a spread of rewards, over all iterations.
    """

    iterations: tuple[int, ...]
    turns: Floats
    success: Floats
    useful: float

    @classmethod
    def of(cls, folder: Path) -> Trained:
        """Return the curve of a run's folder."""
        events = [event for event in read_events(folder / "metrics.jsonl") if event.get("phase") == "train"]
        turns = list(accumulate((event["sampled_turns"] for event in events), initial=0.0))
        files = {0: folder / "before.json"}
        files |= {int(file.stem): file for file in sorted((folder / "evaluations").glob("*.json"))}
        files[len(events)] = folder / "after.json"
        rates = [EvaluationResult.load(file).summary().success.value or 0.0 for file in files.values()]
        useful = 1 - float(np.mean([event["no_variance_groups"] for event in events]))
        return cls(tuple(files), np.array([turns[number] for number in files]), np.array(rates), useful)

    def at(self, turns: Floats | float) -> Floats:
        """Return the success after a number of sampled turns."""
        return np.interp(turns, self.turns, self.success)

    def after(self, iteration: int) -> float:
        """Return the success after an iteration."""
        return float(self.success[self.iterations.index(iteration)])


Runs = dict[str, list[Trained]]
"""By arm, one for each seed."""


def complete(folder: Path) -> tuple[list[int], Runs]:
    """Return the seeds of an ablation whose arms have all finished, and their curves."""
    ablation = read_plan(folder)
    folders = {arm.name: folder / arm.folder for arm in ablation.arms}
    seeds = [
        seed
        for seed in ablation.seeds
        if all((path / f"seed-{seed}" / "after.json").exists() for path in folders.values())
    ]
    return seeds, {name: [Trained.of(path / f"seed-{seed}") for seed in seeds] for name, path in folders.items()}


def label(arm: str) -> str:
    """Return the rule of an arm.

    >>> label("grpo:sampling.groups=[{name='reinforce_ada',keep=8}]:train.iterations=16"), label("grpo")
    ('reinforce_ada', 'uniform')
    """
    _, mark, rule = arm.partition("sampling.")
    names = re.findall(r"[a-z_0-9]+", rule.partition("=")[2].replace("name=", ""))
    return names[0] if mark else "uniform"


class Reading:
    """The complete seeds of an ablation, of which the first arm is the reference."""

    def __init__(self, runs: Runs, names: Sequence[str] = ()) -> None:
        """Find the budget of each seed: the smallest number of turns that an arm sampled.

        Args:
            runs: the curves of every arm.
            names: of the arms, in their order; empty: their rules.
        """
        labels = list(names) or [label(arm) for arm in runs]
        if len(labels) != len(runs) or len(set(labels)) < len(labels):
            sys.exit(f"each of the {len(runs)} arms needs a name of its own (--names), got {', '.join(labels)}")
        self.runs = dict(zip(labels, runs.values(), strict=True))
        self.first, *self.others = self.runs
        self.budgets = np.min([[curve.turns[-1] for curve in curves] for curves in self.runs.values()], axis=0)

    def success(self, arm: str, share: float) -> list[float]:
        """Return the success of every seed at a share of its budget."""
        return [float(curve.at(share * budget)) for curve, budget in zip(self.runs[arm], self.budgets, strict=True)]

    def mean_curve(self, arm: str, seeds: Sequence[int] | NDArray[np.int64]) -> Floats:
        """Return the mean success of some seeds at `STEPS` + 1 shares of the budget."""
        shares = np.linspace(0, 1, STEPS + 1)
        curves = [self.runs[arm][seed].at(shares * self.budgets[seed]) for seed in seeds]
        mean: Floats = np.mean(curves, axis=0)
        return mean

    def share_needed(self, arm: str, seeds: Sequence[int] | NDArray[np.int64]) -> float:
        """Return the share of the budget at which an arm first has the reference's final success; inf for never."""
        reached = np.flatnonzero(self.mean_curve(arm, seeds) >= self.mean_curve(self.first, seeds)[-1] - 1e-12)
        return reached[0] / STEPS if len(reached) else np.inf

    def shares_needed(self, arm: str) -> str:
        """Return the share of the turns with its 95 % interval over seeds, by bootstrap; none where all draws agree."""
        count = len(self.budgets)
        rng = np.random.default_rng(0)
        draws = sorted(self.share_needed(arm, rng.integers(count, size=count)) for _ in range(RESAMPLES))
        low, high = draws[int(0.025 * RESAMPLES)], draws[int(0.975 * RESAMPLES)]
        if draws[0] == draws[-1]:
            return _per_cent(self.share_needed(arm, range(count)))
        return f"{_per_cent(self.share_needed(arm, range(count)))} [{_per_cent(low)}, {_per_cent(high)}]"

    def equal_turns(self) -> str:
        """Return the table after equal sampled turns."""
        tested = [_differences(self.success(self.first, 1.0), self.success(arm, 1.0)) for arm in self.others]
        corrected = holm([paired_t(differences) for differences in tested])
        lines = []
        for number, arm in enumerate(self.runs):
            cells = [_mean(self.success(arm, share)) for share in (0.0, 0.5, 1.0)]
            tests = ["", "", ""]
            if number:
                differences = tested[number - 1]
                tests = [interval(asdict(Mean.of(differences)), signed=True), p_value(paired_t(differences))]
                tests.append(p_value(corrected[number - 1]))
            lines.append([f"`{arm}`", *cells, *tests, self.shares_needed(arm)])
        against = f"against `{self.first}` at T"
        heads = ["arm", "before", "at T / 2", "at T", against, "p", "Holm", f"turns to `{self.first}`'s end / T"]
        return grid(heads, lines)

    def equal_updates(self, iteration: int) -> str:
        """Return the table after equal numbers of iterations."""
        reference = [curve.after(iteration) for curve in self.runs[self.first]]
        lines = []
        for arm, curves in self.runs.items():
            rates = [curve.after(iteration) for curve in curves]
            turns = [float(curve.turns[curve.iterations.index(iteration)]) for curve in curves]
            gap = interval(asdict(Mean.of(_differences(reference, rates))), signed=True)
            cells = [f"{np.mean(turns):,.0f}", f"{100 * np.mean([curve.useful for curve in curves]):.0f} %"]
            lines.append([f"`{arm}`", *cells, _mean(rates), gap if arm != self.first else ""])
        heads = ["arm", "sampled turns", "useful groups", f"after {iteration} iterations", f"against `{self.first}`"]
        return grid(heads, lines)

    def by_seed(self, seeds: Sequence[int]) -> str:
        """Return the success of every arm in every seed at its budget, in per cent."""
        columns = [self.success(self.first, 0.0), *(self.success(arm, 1.0) for arm in self.runs)]
        lines = [
            [str(seed), f"{budget:,.0f}", *(f"{100 * column[number]:.1f}" for column in columns)]
            for number, (seed, budget) in enumerate(zip(seeds, self.budgets, strict=True))
        ]
        return grid(["seed", "T", "warm start", *self.runs], lines)

    def draw(self, file: Path) -> None:
        """Draw the mean success of every arm over the share of the budget."""
        shares = np.linspace(0, 100, STEPS + 1)
        curves = [
            Curve(arm, tuple(shares), tuple(100 * self.mean_curve(arm, range(len(self.budgets))))) for arm in self.runs
        ]
        save_curves(
            curves,
            file,
            title=f"Success on held-out tasks, mean of {len(self.budgets)} seeds",
            x_label="sampled turns, per cent of T",
            y_label="success, per cent",
            y_range=None,
        )


def _differences(reference: Sequence[float], rates: Sequence[float]) -> list[float]:
    return [rate - other for rate, other in zip(rates, reference, strict=True)]


def _mean(rates: Sequence[float]) -> str:
    return interval(asdict(Mean.of(rates)), bounded=True)


def _per_cent(share: float) -> str:
    return f"{100 * share:.0f} %" if np.isfinite(share) else "never"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ablation", type=Path, help="folder of the ablation")
    parser.add_argument("--iteration", type=int, default=12, help="after which all arms are compared")
    parser.add_argument("--names", nargs="+", default=[], help="names of the arms, in their order; else their rules")
    parser.add_argument("--figure", type=Path, help="picture of the mean curves to write")
    options = parser.parse_args()
    seeds, runs = complete(options.ablation)
    if not seeds:
        sys.exit(f"{options.ablation} has no seed whose arms have all finished")
    reading = Reading(runs, options.names)
    print(f"Seeds {', '.join(map(str, seeds))}\n\n## Equal sampled turns\n\n{reading.equal_turns()}")
    print(f"## Equal updates\n\n{reading.equal_updates(options.iteration)}")
    print(f"## Seed by seed\n\n{reading.by_seed(seeds)}")
    if options.figure:
        reading.draw(options.figure)


if __name__ == "__main__":
    main()

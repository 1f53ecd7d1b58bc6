"""What a folder of `turncredit ablate` has to show: the results of its arms, and every run with its own pages.

run              command, versions, notes
results          arms with intervals and curves, paired differences with corrected p-values and verdicts, the runs
evaluation/NAME  the evaluation of one run after training, for comparisons
PLACE:...        the parts of one run, under its place in `results`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from turncredit.report.errors import ReportError
from turncredit.report.run_report.revisions import Parts
from turncredit.report.run_report.run_data import ChangedFiles, RunData, Stamp, read_evaluation, rounded, stamp_of

if TYPE_CHECKING:
    from turncredit.ablation.plan import Ablation

WARM = "warm start"


def is_ablation(path: Path) -> bool:
    """Return whether a path is the folder of an ablation."""
    return path.is_dir() and (path / "plan.json").is_file()


class AblationData:
    """Reads the folder of an ablation.

    Args:
        path: the folder.
        rules: names of credit rules; None: each run's own, with the usual ones.

    Raises:
        ReportError: its plan cannot be read.
    """

    settings = None

    def __init__(self, path: Path, rules: str | Sequence[str] | None) -> None:
        from turncredit.training.errors import TrainingError

        self.path, self._rules = path, rules
        self._evaluations = ChangedFiles[Parts]()
        self._stamps: dict[Path, Stamp | None] = {}
        self._results: Parts = {}
        self._runs: dict[tuple[str, int], RunData] = {}
        try:
            self._plan()
        except TrainingError as error:
            raise ReportError(str(error)) from error

    def files(self) -> dict[int, Path]:
        """Return no files: the runs have them."""
        return {}

    def environment(self, number: int) -> tuple[str, Mapping[str, object]]:
        """Return nothing: the runs have their environments."""
        raise KeyError(number)

    def runs(self) -> dict[str, RunData]:
        """Return the runs that have begun, by their place in the plan: the warm starts, then arm by arm."""
        from turncredit.report.run_report.settings import settings_of

        runs = {}
        for number, (name, seed, folder) in enumerate(self._places()):
            key = (name, seed)
            if key not in self._runs and (folder / "run.toml").is_file():
                self._runs[key] = RunData(folder, settings_of(folder, self._rules))
            if key in self._runs:
                runs[str(number)] = self._runs[key]
        return runs

    def collect(self) -> Parts:
        """Return all parts but those of the runs, as they are now."""
        from turncredit.agents.errors import AgentError
        from turncredit.training.errors import TrainingError

        plan, notes = self._plan(), list[str]()
        parts: Parts = {}
        try:
            results = self._compute(plan)
        except (TrainingError, AgentError, ValueError, KeyError, TypeError, OSError) as error:
            results = self._without_results(plan)
            notes.append(f"the results cannot be computed: {error}")
        else:
            notes += results["remarks"]
        parts["results"] = results
        for number, (name, seed, folder) in enumerate(self._places()):
            part = self._after(folder / "after.json", notes)
            if part is not None:
                about = {"name": f"{name}, seed {seed}", "iteration": number, "other": False, "arm": name, "seed": seed}
                parts[f"evaluation/{number}"] = about | part
        parts["run"] = {
            "kind": "ablation", "name": self.path.name, "settings": [], "steps": 0, "notes": notes, "credit": [],
            "creditText": [], "command": plan.command or f"turncredit ablate {self.path.name}",
            "recorded": bool(plan.command), "env": results.get("env", ""), "versions": results.get("versions", {}),
        }  # fmt: skip
        return parts

    def _plan(self) -> Ablation:
        from turncredit.ablation.plan import read_plan

        return read_plan(self.path)

    def _places(self) -> list[tuple[str, int, Path]]:
        """Return name, seed and folder of every run: the warm starts, then arm by arm."""
        from turncredit.ablation.plan import WARM_START

        plan = self._plan()
        arms = [(WARM, WARM_START), *((arm.name, arm.folder) for arm in plan.arms)]
        return [(name, seed, plan.folder_of(folder, seed)) for name, folder in arms for seed in plan.seeds]

    def _after(self, file: Path, notes: list[str]) -> Parts | None:
        if not file.is_file():
            return None
        try:
            return read_evaluation(self._evaluations, file)
        except (ValueError, KeyError, TypeError, OSError, RecursionError) as error:
            notes.append(f"{file.parent.parent.name}/{file.parent.name}/{file.name} is left out: {error}")
            return None

    def _compute(self, plan: Ablation) -> Parts:
        """Return the results, computed again only if a file of a run has changed."""
        watched = [self.path / "plan.json", self.path / "calls.jsonl"]
        for _, _, folder in self._places():
            watched += [folder / name for name in ("run.toml", "metrics.jsonl", "after.json")]
        stamps = {file: stamp_of(file) for file in watched}
        if stamps != self._stamps:
            self._results = _results(plan)
            self._stamps = stamps
        return self._results

    def _without_results(self, plan: Ablation) -> Parts:
        """Return the names of arms and runs, in the form of `_results`, with nothing known about them."""
        nothing = {"value": None, "low": None, "high": None, "n": 0, "k": 0}
        about = {"success": nothing, "pooled": nothing, "gain": nothing, "estimate": None, "diagnostics": {}}
        unknown = {"state": "not known", "success": None, "seconds": 0, "iterations": 0}
        names = [WARM, *(arm.name for arm in plan.arms)]
        return {
            "arms": [{"name": name, "label": name, **about} for name in names],
            "runs": [{"arm": name, "seed": seed, **unknown} for name, seed, _ in self._places()],
            "reference": plan.arms[0].name,
            "comparisons": [],
            "curves": {"title": "", "lines": []},
            "seeds": list(plan.seeds),
        }


def _results(plan: Ablation) -> Parts:
    from turncredit.ablation.results import ablation_results
    from turncredit.report.ablation_tables import estimates, short_labels, training_curves

    results = ablation_results(plan)
    (after, rows), (while_training, curves) = estimates(results), training_curves(results)
    labels = short_labels(list(results["arms"]))
    estimates_by_label = {row.name: asdict(row) for row in rows}
    everyone = {WARM: results["warm_start"], **results["arms"]}
    arms = [
        {"name": name, "label": labels.get(name, name), "estimate": estimates_by_label.get(labels.get(name, name)),
         **{key: arm[key] for key in ("success", "pooled", "gain")}, "diagnostics": arm.get("diagnostics", {})}
        for name, arm in everyone.items()
    ]  # fmt: skip
    runs = [
        {"arm": name, "seed": seed, "state": entry["state"], "success": entry.get("success"),
         "seconds": rounded(entry["seconds"]), "iterations": len(entry["training"]["iteration"])}
        for name, arm in everyone.items() for seed, entry in ((seed, arm["seeds"][str(seed)]) for seed in plan.seeds)
    ]  # fmt: skip
    versions = {"python": results["python"], "platform": results["platform"], **results["packages"]}
    return {
        "arms": _plain(arms),
        "runs": _plain(runs),
        "reference": plan.arms[0].name,
        "comparisons": _plain(results["comparisons"]),
        "after": after,
        "curves": {"title": while_training, "lines": [_plain(asdict(curve)) for curve in curves]},
        "tasks": len(results["panel"].get("tasks", ())),
        "env": str(results["panel"].get("env", "")),
        "seeds": list(plan.seeds),
        "remarks": list(results["remarks"]),
        "seconds": rounded(results["seconds"]),
        "versions": {name: str(value) for name, value in versions.items() if value is not None},
    }


def _plain(value: object) -> object:
    """Return a value with rounded numbers, lists for tuples, and None for numbers that JSON cannot hold."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return rounded(value)

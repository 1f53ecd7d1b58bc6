"""The results of an ablation, read from the folders of its runs and compared over seeds, as one JSON table.

Everything that is shown (Markdown, picture, terminal) derives from this table, and the table can be computed again from
the runs' folders. Unfinished runs are named but not counted. There is no ranking: each arm is compared with the
reference arm, and more comparisons would need more seeds.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from turncredit.ablation.plan import CALLS, WARM_START, Ablation
from turncredit.evaluation.results import EvaluationResult, Rate
from turncredit.evaluation.seed_statistics import Mean, compare_seeds, holm, verdict
from turncredit.training.config.versions import describe
from turncredit.training.errors import TrainingError
from turncredit.training.run_folder.metrics import read_events

VERSION = 1
DIAGNOSTICS = {
    "step_signal": "turns whose advantage depends on the turn itself",
    "turn_share": "variance of the advantages that lies within trajectories",
    "shared_turns": "turns in a state that another trajectory of the group also visited",
    "shared_later_turns": "the same among turns after the first one",
    "singleton_states": "states that only one trajectory of the group visited",
    "no_variance_groups": "groups whose episodes all had the same reward",
    "unparsable": "turns whose answer could not be parsed",
    "inadmissible": "turns with an inadmissible action",
    "success": "episodes won",
    "turns": "turns per episode, a mean and not a share",
}
"""Keys of training events, and what they are the share of; averaged over all iterations."""

EARLY = ("shared_turns", "shared_later_turns", "no_variance_groups", "success", "turns")
"""Keys of training events that say what a run had to work with in its first iterations."""
FIRST = 5
"""Number of those iterations."""

UNEQUAL = 1.02
"""How many times as many episodes an arm must have played as another one for a remark."""

TIMED = frozenset({"train", "evaluation", "imitation"})
ResultTable = dict[str, Any]
"""A part of the results as values that JSON has."""


def ablation_results(ablation: Ablation, states: Mapping[tuple[str, int], str] | None = None) -> ResultTable:
    """Return the results of an ablation so far.

    Args:
        ablation: the ablation, whose folders are read.
        states: the states of unfinished runs, by arm and seed.

    Returns:
        version, command, plan, versions of packages, remarks, panel, warm_start and arms (each with its seeds: success,
        outcomes by episode in the order of the panel, curves, seconds), comparisons with the first arm, calls (of the
        command: workers and seconds by the clock), seconds (of work, the sum over runs).

    Raises:
        TrainingError: the finished runs were not evaluated on one panel.
    """
    results = {arm.name: _results(ablation, arm.folder) for arm in ablation.arms}
    warm = _results(ablation, WARM_START)
    panel = _panel([*warm.values(), *(result for by_seed in results.values() for result in by_seed.values())])
    arms: ResultTable = {}
    for arm in ablation.arms:
        seeds = {
            str(seed): _seed(ablation.folder_of(arm.folder, seed), results[arm.name].get(seed), warm.get(seed))
            for seed in ablation.seeds
        }
        for seed, entry in seeds.items():
            if entry["state"] != "finished" and states:
                entry["state"] = states.get((arm.name, int(seed)), entry["state"])
        arms[arm.name] = {
            "folder": arm.folder,
            "words": list(arm.words),
            "left_out": list(arm.left_out),
            "handed": list(arm.handed),
            **_over_seeds(results[arm.name], warm),
            "diagnostics": _diagnostics(list(seeds.values())),
            "seeds": seeds,
        }
    start = {str(s): _seed(ablation.folder_of(WARM_START, s), warm.get(s), None) for s in ablation.seeds}
    runs = [start, *(arm["seeds"] for arm in arms.values())]
    return {
        "version": VERSION,
        "command": ablation.command,
        "seeds": list(ablation.seeds),
        "base": ablation.base,
        **describe(),
        "remarks": [*ablation.remarks(), *_efforts(arms)],
        "panel": panel,
        "warm_start": {"folder": WARM_START, **_over_seeds(warm, {}), "seeds": start},
        "arms": arms,
        "comparisons": _comparisons(ablation.arms[0].name, results),
        "calls": read_events(ablation.folder / CALLS),
        "seconds": sum(e["seconds"] for part in runs for e in part.values()) - _shared_seconds(runs),
    }


def _efforts(arms: Mapping[str, ResultTable]) -> list[str]:
    """A sentence about how much the arms played, where that differs: rules may play more than the settings say."""
    played = {name: _mean([e["episodes"] for e in arm["seeds"].values() if e["state"] == "finished"])
              for name, arm in arms.items()}  # fmt: skip
    means = {name: mean for name, mean in played.items() if mean}
    if not means or max(means.values()) <= UNEQUAL * min(means.values()):
        return []
    listed = ", ".join(f"{name} {mean:,.0f}" for name, mean in means.items())
    return [f"the arms played different numbers of episodes in training (mean over seeds): {listed}"]


def _shared_seconds(runs: Sequence[Mapping[str, ResultTable]]) -> float:
    """Seconds of evaluations before training that runs took over from others, whose number they repeat bit for bit."""
    repeated: Counter[float] = Counter(e["evaluated"] for part in runs for e in part.values() if e["evaluated"])
    return sum(seconds * (count - 1) for seconds, count in repeated.items())


def _results(ablation: Ablation, folder: str) -> dict[int, EvaluationResult]:
    """The evaluations after training, by seed."""
    paths = {seed: ablation.folder_of(folder, seed) / "after.json" for seed in ablation.seeds}
    return {seed: EvaluationResult.load(path) for seed, path in paths.items() if path.exists()}


def _panel(results: Sequence[EvaluationResult]) -> ResultTable:
    if not results:
        return {}
    first = results[0].panel
    if any(result.panel != first for result in results):
        raise TrainingError("the runs were evaluated on different panels, so their results cannot be paired")
    return {"env": first.env, "kwargs": dict(first.kwargs), "seed": first.seed, "tasks": list(first.tasks)}


def _seed(folder: Path, after: EvaluationResult | None, before: EvaluationResult | None) -> ResultTable:
    """One run: its state, its outcome by episode, its curves."""
    events = read_events(folder / "metrics.jsonl")
    train = [event for event in events if event.get("phase") == "train"]
    judged = [event for event in events if event.get("phase") == "evaluation"]
    state = "waiting" if not (folder / "run.toml").exists() else "unfinished" if after is None else "finished"
    entry: ResultTable = {
        "state": state,
        "seconds": sum(float(event.get("seconds") or 0.0) for event in events if event.get("phase") in TIMED),
        "episodes": sum(int(event.get("episodes") or 0) for event in train),
        "evaluated": next((float(event.get("seconds") or 0.0) for event in judged if not event["iteration"]), 0.0),
        "training": {key: [event.get(key) for event in train] for key in ("iteration", "success", "turns", "entropy")},
        "evaluations": {key: [event.get(key) for event in judged] for key in ("iteration", "success", "n")},
        "diagnostics": {key: _mean([event.get(key) for event in train]) for key in DIAGNOSTICS},
        "early": {key: _mean([_with_later_turns(event).get(key) for event in train[:FIRST]]) for key in EARLY},
    }
    if after is not None:
        entry |= {"success": asdict(after.summary().success), "errors": after.summary().errors, "rows": _rows(after)}
    if after is not None and before is not None:
        mine = folder / "before.json"
        entry["begins_as_the_warm_start"] = mine.exists() and _rows(EvaluationResult.load(mine)) == _rows(before)
    return entry


def _with_later_turns(event: ResultTable) -> ResultTable:
    """An event with the share of shared states among turns after the first, also of runs that did not record it.

    All first turns share their state. So of T turns per episode, of which a share S is in shared states, S T - 1 of the
    T - 1 later ones are.
    """
    shared, turns = event.get("shared_turns"), event.get("turns")
    if "shared_later_turns" in event or shared is None or turns is None or turns <= 1:
        return event
    return {**event, "shared_later_turns": max(0.0, (shared * turns - 1) / (turns - 1))}


def _rows(result: EvaluationResult) -> ResultTable:
    """The outcome of every episode, in the order of the panel's tasks."""
    rows = {row.task: row for row in result.rows}
    order = [rows[task] for task in result.panel.tasks]
    return {key: [getattr(row, key) for row in order] for key in ("won", "score", "turns", "stop")}


def _over_seeds(results: Mapping[int, EvaluationResult], warm: Mapping[int, EvaluationResult]) -> ResultTable:
    """Success over seeds: their mean with a t-interval, all episodes together with Wilson's; and what was gained.

    `left_out` counts the episodes that failed, which are in none of these.
    """
    rates = {seed: result.summary().success for seed, result in results.items()}
    success = {seed: rate.value for seed, rate in rates.items() if rate.value is not None}
    first = {seed: result.summary().success.value for seed, result in warm.items()}
    pairs = [(value, first.get(seed)) for seed, value in success.items()]
    gains = [value - before for value, before in pairs if before is not None]
    pooled = Rate.of(sum(rate.k for rate in rates.values()), sum(rate.n for rate in rates.values()))
    return {
        "success": asdict(Mean.of_rates(list(rates.values()))),
        "pooled": asdict(pooled),
        "gain": asdict(Mean.of(gains)),
        "left_out": sum(result.summary().errors for result in results.values()),
    }


def _comparisons(reference: str, results: Mapping[str, Mapping[int, EvaluationResult]]) -> list[ResultTable]:
    """Every other arm against the reference, with p-values corrected for the number of arms."""
    others = [name for name in results if name != reference and results[name].keys() & results[reference].keys()]
    pairs = [compare_seeds(results[reference], results[name]) for name in others]
    tasks, seeds = holm([pair.p_tasks for pair in pairs]), holm([pair.p_seeds for pair in pairs])
    return [
        {
            "reference": reference,
            "arm": name,
            **asdict(pair),
            "p_tasks_holm": of_tasks,
            "p_seeds_holm": of_seeds,
            "verdict": verdict(of_tasks, of_seeds, pair.difference.value, len(pair.seeds)),
        }
        for name, pair, of_tasks, of_seeds in zip(others, pairs, tasks, seeds, strict=True)
    ]


def _diagnostics(seeds: Sequence[ResultTable]) -> ResultTable:
    done = [entry["diagnostics"] for entry in seeds if entry["state"] == "finished"]
    return {key: _mean([entry[key] for entry in done]) for key in DIAGNOSTICS}


def _mean(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if numbers else None

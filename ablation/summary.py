"""Several ablations in one table: what each had to work with at first, and what step-level credit gained.

The reference arm of each ablation tells what there was to work with, so that the numbers do not depend on the rule
whose gain they are compared with. Correlations over a few runs are a description: they are no test, and no cause.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import NamedTuple

from turncredit.ablation.results import EARLY, FIRST, ResultTable
from turncredit.evaluation.rank_correlation import RankCorrelation
from turncredit.evaluation.seed_statistics import Mean

VERSION = 1
ALL = "all"
"""Name of all ablations together."""

KEYS = (*EARLY, "agreement")


class _Seed(NamedTuple):
    """A seed of an arm: its gain over the reference, and how close its advantages are to the reference's."""

    seed: str
    gain: float
    agreement: float | None


_Gains = dict[str, list[_Seed]]
"""By arm."""


def summary(tables: Mapping[str, ResultTable], agreement: Callable[[str, str, int], float | None]) -> ResultTable:
    """Return one row for each ablation, arm and seed, one for the mean over seeds, and rank correlations over seeds.

    Args:
        tables: the tables of `turncredit.ablation.results`, by the names of their ablations.
        agreement: returns the `credit_agreement` of an ablation, an arm and a seed.

    Returns:
        version, first (number of iterations), rows (ablation, env, reference, arm, seed or None for the mean, n, the
        keys of `EARLY` from the reference's first iterations, agreement, gain in success over the reference),
        correlations (ablation or "all", arm, and for each of `KEYS` the rank correlation with the gain over seeds).
    """
    rows: list[ResultTable] = []
    gains: dict[str, _Gains] = {}
    for name, table in tables.items():
        reference = next(iter(table["arms"]))
        common = {"ablation": name, "env": table["panel"].get("env", ""), "reference": reference}
        gains[name] = {}
        for comparison in table["comparisons"]:
            arm = comparison["arm"]
            pairs = [(str(pair["seed"]), float(pair["difference"])) for pair in comparison["seeds"]]
            seeds = [_Seed(seed, gain, agreement(name, arm, int(seed))) for seed, gain in pairs]
            gains[name][arm] = seeds
            for entry in seeds:
                values = {**_conditions(table, entry), "gain": asdict(Mean.of([entry.gain]))}
                rows.append({**common, "arm": arm, "seed": int(entry.seed), "n": 1, **values})
            means = {key: _mean([_conditions(table, entry)[key] for entry in seeds]) for key in KEYS}
            gain = asdict(Mean.of([entry.gain for entry in seeds]))
            rows.append({**common, "arm": arm, "seed": None, "n": len(seeds), **means, "gain": gain})
    return {"version": VERSION, "first": FIRST, "rows": rows, "correlations": _correlations(tables, gains)}


def _conditions(table: ResultTable, seed: _Seed) -> dict[str, float | None]:
    """What the reference arm had to work with in a seed, and how much the arm's rule makes of it."""
    reference = next(iter(table["arms"].values()))
    return {**{key: reference["seeds"][seed.seed]["early"][key] for key in EARLY}, "agreement": seed.agreement}


def _correlations(tables: Mapping[str, ResultTable], gains: Mapping[str, _Gains]) -> list[ResultTable]:
    """The correlations within each ablation, then over all of them for the arms that several have."""
    lines = [
        _line(name, arm, [(tables[name], seeds)])
        for name, by_arm in gains.items()
        for arm, seeds in _with_mean(by_arm, list(by_arm)).items()
    ]
    if len(gains) > 1:
        shared = [arm for arm in next(iter(gains.values())) if all(arm in by_arm for by_arm in gains.values())]
        whole = {name: _with_mean(by_arm, shared) for name, by_arm in gains.items()}
        several = {arm: [name for name in whole if arm in whole[name]] for by_arm in whole.values() for arm in by_arm}
        lines += [
            _line(ALL, arm, [(tables[name], whole[name][arm]) for name in names])
            for arm, names in several.items()
            if len(names) > 1
        ]
    return lines


def _with_mean(by_arm: _Gains, arms: Sequence[str]) -> _Gains:
    """The gains with the mean of several arms beside them."""
    if len(arms) < 2:
        return by_arm
    return {**by_arm, f"mean of {', '.join(arms)}": _mean_gains([by_arm[arm] for arm in arms])}


def _mean_gains(arms: Sequence[Sequence[_Seed]]) -> list[_Seed]:
    """The mean of the arms in each seed that all of them finished."""
    by_seed = [{entry.seed: entry for entry in seeds} for seeds in arms]
    complete = [
        [entries[seed] for entries in by_seed] for seed in by_seed[0] if all(seed in entries for entries in by_seed)
    ]
    return [
        _Seed(many[0].seed, sum(entry.gain for entry in many) / len(many), _mean([entry.agreement for entry in many]))
        for many in complete
    ]


def _line(name: str, arm: str, parts: Sequence[tuple[ResultTable, Sequence[_Seed]]]) -> ResultTable:
    line: ResultTable = {"ablation": name, "arm": arm, "n": sum(len(seeds) for _, seeds in parts)}
    for key in KEYS:
        strata = [[(_conditions(table, seed)[key], seed.gain) for seed in seeds] for table, seeds in parts]
        pairs_by_part = [[(x, gain) for x, gain in pairs if x is not None] for pairs in strata]
        line[key] = asdict(RankCorrelation.of(pairs_by_part))
    return line


def _mean(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if numbers else None

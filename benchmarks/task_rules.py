"""A simulation of task rules: no model and no environment, only tasks whose success rises with useful groups.

    python benchmarks/task_rules.py [--tasks 240] [--groups 16] [--size 8] [--iterations 60] [--learners 10]
                                    [--rules vade,knapsack] [--json PATH]

Every rule draws for the same simulated learners, with the same budget of episodes. The learner wins a task with
probability sigmoid(general + practice - difficulty). A group is useful when its episodes differ. A useful group adds
`STEP` times its weight, times its size as a share of the average, to the practice of its task, and a hundredth of that
to `general`, which all tasks have in common; so weights below 1 are smaller steps here. Difficulties come in three
levels, `tiny/`, `small/` and `large/`, and each task has variants, `+a`, `+b` and `+a+b`, that are harder than it;
`expert_turns` grows with the difficulty. Rules see only what they see in a run.

For each rule, against `uniform` for the same learner: the share of groups that are useful, and of episodes in such
groups; the mean success of the whole pool at the end, and its difference from `uniform`. Intervals are two standard
errors over the learners. What comes out holds for these learners: it shows that a rule does what it is meant to do, not
what a model will learn.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from turncredit.curriculum import TaskRecords, Visit
from turncredit.curriculum.draws import TaskRule
from turncredit.curriculum.task_rules.catalogue import CATALOGUE, get_task_rule

STEP, SHARED = 0.6, 0.01
CENTRES = {"tiny": -0.5, "small": 2.5, "large": 5.0}
OPTIONS: dict[str, dict[str, Any]] = {"levels": {"order": list(CENTRES)}}


class Learner:
    """A pool of tasks, and a learner that has practised none of them."""

    def __init__(self, tasks: int, seed: int) -> None:
        self.dice = np.random.default_rng([seed, 0])
        bases = [f"{level}/t{number:03d}" for level in CENTRES for number in range(tasks // (4 * len(CENTRES)))]
        self.tasks = [f"{base}{parts}" for base in bases for parts in ("", "+a", "+b", "+a+b")]
        self.row = {task: row for row, task in enumerate(self.tasks)}
        base = np.array([CENTRES[task.partition("/")[0]] for task in self.tasks])
        base = base + np.repeat(self.dice.normal(0.0, 1.0, len(bases)), 4)
        self.difficulty = base + 0.7 * np.array([task.count("+") for task in self.tasks])
        self.practice, self.general = np.zeros(len(self.tasks)), 0.0

    @property
    def success(self) -> np.ndarray:
        """The probability of winning each task."""
        return 1 / (1 + np.exp(self.difficulty - self.practice - self.general))

    def play(self, task: str, episodes: int, step: float) -> tuple[Visit, bool]:
        """Play a group and learn from it; return it, and whether it was useful."""
        row = self.row[task]
        wins = int(self.dice.binomial(episodes, self.success[row]))
        useful = 0 < wins < episodes
        self.practice[row] += step * useful
        self.general += step * useful * SHARED
        turns = float(np.clip(round(2 * self.difficulty[row] + 3), 1, 30))
        return Visit(task, (1.0,) * wins + (0.0,) * (episodes - wins), wins, {"expert_turns": turns}), useful


def simulate(rule: TaskRule, *, tasks: int, groups: int, size: int, iterations: int, seed: int) -> dict[str, float]:
    """Return the shares of useful groups and episodes of a run, and the mean success at its end."""
    learner, state, useful, useful_episodes, episodes = Learner(tasks, seed), None, 0, 0, 0
    order = np.random.default_rng([seed, 1]).permutation(learner.tasks).tolist()
    records = TaskRecords.of(order)
    for iteration in range(iterations):
        rng = np.random.default_rng([seed, 2, iteration])
        draw = rule(records, count=groups, group=size, iteration=iteration, total=iterations, rng=rng, state=state)
        state, visits = draw.state, []
        for task, number, weight in zip(draw.tasks, draw.episodes, draw.weight or (1.0,) * groups, strict=True):
            visit, different = learner.play(task, number, STEP * weight * number / size)
            visits.append(visit)
            useful += different
            useful_episodes += number * different
            episodes += number
        records = records.after(visits, iteration)
    assert episodes == groups * size * iterations
    return {
        "groups": useful / (groups * iterations),
        "episodes": useful_episodes / episodes,
        "success": float(learner.success.mean()),
    }


def interval(values: np.ndarray) -> tuple[float, float]:
    """The mean of some numbers, and two standard errors; NaN where a single number or equal ones do not tell them."""
    if len(values) < 2 or np.ptp(values) <= 1e-12 * np.abs(values).max():
        return float(values.mean()), float("nan")
    return float(values.mean()), float(2 * values.std(ddof=1) / len(values) ** 0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    for name, default in (("tasks", 240), ("groups", 16), ("size", 8), ("iterations", 60), ("learners", 10)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--rules", default="", help="names with commas between them; default: all")
    parser.add_argument("--json", type=Path, help="where to write the numbers")
    options = parser.parse_args()
    names = [name for name in options.rules.split(",") if name] or [rule.name for rule in CATALOGUE]
    runs = {}
    for name in dict.fromkeys(["uniform", *names]):
        rule = get_task_rule(name, **OPTIONS.get(name, {}))
        arguments = {key: getattr(options, key) for key in ("tasks", "groups", "size", "iterations")}
        runs[name] = [simulate(rule, seed=seed, **arguments) for seed in range(options.learners)]
    print(f"A simulation, {options.learners} learners; ratios and differences are against uniform")
    print("| rule | useful groups | ratio | useful episodes, ratio | success at the end | difference |")
    print("|---|---|---|---|---|---|")
    table = {}
    for name, results in runs.items():
        values = {key: np.array([result[key] for result in results]) for key in results[0]}
        base = {key: np.array([result[key] for result in runs["uniform"]]) for key in results[0]}
        table[name] = {
            "groups": interval(values["groups"]),
            "groups_ratio": interval(values["groups"] / base["groups"]),
            "episodes_ratio": interval(values["episodes"] / base["episodes"]),
            "success": interval(values["success"]),
            "success_difference": interval(values["success"] - base["success"]),
        }
        cells = (f"{mean:.3f}" + f" ± {error:.3f}" * (error == error) for mean, error in table[name].values())
        print(f"| `{name}` | {' | '.join(cells)} |")
    if options.json:
        options.json.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()

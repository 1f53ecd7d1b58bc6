"""GiGPO on 100,000 turns: rows a second of ours and of a plain Python loop over dictionaries, in the same run.

    python benchmarks/credit.py [--rows 100000] [--repeat 5]

The loop is written straight from the definition, as trainers do it: a dictionary of lists for each group. Both get the
same turns and the results are compared before anything is timed. Also shown, without a rival: reading rows, returns
alone, and a million rows. Left out on purpose: similarity of texts, whose cost is difflib's.
"""

import argparse
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from turnwise.credit import Steps, discounted_returns, gigpo

TURNS, GROUP, STATES = 50, 8, 120


def columns(rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Groups of eight episodes of 50 turns, a win or a loss at the end, states that recur, some invalid actions."""
    rng = np.random.default_rng(seed)
    row = np.arange(rows)
    trajectory = row // TURNS
    won = rng.integers(0, 2, trajectory[-1] + 1)
    return {
        "task": trajectory // GROUP,
        "trajectory": trajectory,
        "turn": row % TURNS,
        "reward": won[trajectory] * (row % TURNS == TURNS - 1) * 1.0,
        "state": np.minimum(rng.geometric(0.03, rows), STATES),
        "valid": rng.random(rows) < 0.95,
    }


def plain(rows: list[dict[str, Any]], gamma: float = 0.95, penalty: float = 0.1, eps: float = 1e-6) -> list[float]:
    """GiGPO with dictionaries: each trajectory counts once in its task, each row once in its state."""
    episodes = defaultdict(list)
    for number, row in enumerate(rows):
        episodes[row["trajectory"]].append(number)
    reward = [row["reward"] - (0.0 if row["valid"] else penalty) for row in rows]
    returns, score = [0.0] * len(rows), {}
    for name, numbers in episodes.items():
        later = 0.0
        for number in reversed(numbers):
            returns[number] = later = reward[number] + gamma * later
        score[name] = sum(reward[number] for number in numbers)
    tasks, states = defaultdict(dict), defaultdict(list)
    for number, row in enumerate(rows):
        tasks[row["task"]][row["trajectory"]] = score[row["trajectory"]]
        states[row["task"], row["state"]].append(returns[number])
    of_task = {key: _mean_std(list(found.values())) for key, found in tasks.items()}
    of_state = {key: _mean_std(found) for key, found in states.items()}
    out = []
    for number, row in enumerate(rows):
        (mean, std), (centre, spread) = of_task[row["task"]], of_state[row["task"], row["state"]]
        out.append((score[row["trajectory"]] - mean) / (std + eps) + (returns[number] - centre) / (spread + eps))
    return out


def _mean_std(values: list[float]) -> tuple[float, float]:
    mean = sum(values) / len(values)
    return mean, (sum((x - mean) ** 2 for x in values) / max(len(values) - 1, 1)) ** 0.5


def seconds(work: Callable[[], object], repeat: int) -> float:
    """Shortest wall clock of a call: what disturbs it only makes it longer."""
    took = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        took.append(time.perf_counter() - start)
    return min(took)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()

    data = columns(options.rows)
    rows = [
        dict(zip(data, row, strict=True)) for row in zip(*(column.tolist() for column in data.values()), strict=True)
    ]
    steps = Steps.from_columns(**data)
    ours = gigpo(steps, step_unit="turn").values
    worst = float(np.abs(ours - np.asarray(plain(rows))).max())
    if worst > 1e-6:
        raise SystemExit(f"the two disagree by {worst:g}")

    loop = seconds(lambda: plain(rows), max(1, options.repeat // 2))
    million = Steps.from_columns(**columns(1_000_000))
    lines = {
        "plain loop over dictionaries": (loop, options.rows),
        "gigpo, same statistics": (seconds(lambda: gigpo(steps, step_unit="turn"), options.repeat), options.rows),
        "gigpo, defaults": (seconds(lambda: gigpo(steps), options.repeat), options.rows),
        "discounted_returns": (seconds(lambda: discounted_returns(steps), options.repeat), options.rows),
        "Steps.from_rows": (seconds(lambda: Steps.from_rows(rows), options.repeat), options.rows),
        "Steps.from_columns": (seconds(lambda: Steps.from_columns(**data), options.repeat), options.rows),
        "gigpo, a million rows": (seconds(lambda: gigpo(million), 1), 1_000_000),
    }
    print(f"{options.rows} turns, {TURNS} a trajectory, {GROUP} trajectories a task; worst difference {worst:.1e}")
    print(f"{'':30} {'ms':>9} {'rows a second':>15} {'times the loop':>15}")
    for name, (took, count) in lines.items():
        ratio = f"{loop / took * count / options.rows:15.1f}" if name.startswith("gigpo") else ""
        print(f"{name:30} {1e3 * took:9.1f} {count / took:15,.0f} {ratio}")


if __name__ == "__main__":
    main()

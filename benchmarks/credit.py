"""Cost of step-level credit: time relative to other implementations, scaling, memory, and grouping of texts.

    python benchmarks/credit.py [--rows 12800] [--repeat 7] [--peer FOLDER] [--json credit.json]

It measures (1) the speedup over a plain loop over dictionaries, written from the definitions, and with `--peer FOLDER`,
a checkout of langfengQ/verl-agent, over that project's own functions (needs torch; its files are loaded from there);
results are compared before anything is timed; (2) how time grows with the number of rows, and the seconds and memory of
a million rows; (3) the speedup of finding similar states over comparing all pairs of texts with difflib, with the same
clusters.

Times are CPU seconds of one thread, the minimum of several runs, since other load can only make a run longer.
"""

import argparse
import importlib.util
import io
import json
import math
import resource
import subprocess
import sys
import time
import tracemalloc
import types
from collections import defaultdict
from collections.abc import Callable
from contextlib import redirect_stdout
from difflib import SequenceMatcher
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from turncredit.credit import Steps, discounted_returns, get, gigpo, hgpo
from turncredit.credit.similarity import similar_states

TURNS, GROUP, STATES, ACTIONS = 50, 8, 120, 6
METHODS = ("gigpo", "hgpo", "salt", "graphgpo", "graft", "rtmc")
LIMITS = {"returns + gigpo + hgpo": 40.0, "salt": 40.0, "graphgpo": 40.0}
VOCABULARY = """
    the a red small shelf drawer cabinet you see mug plate pan stove fridge open closed lamp desk table and on in with
    search result price size color shoes women men leather cotton black white blue free shipping return page next back
"""
WORDS = VOCABULARY.split()


def columns(rows: int, seed: int = 0) -> dict[str, Any]:
    """Groups of eight episodes of 50 turns, a win or a loss at the end and small rewards on the way, states that recur.

    The small rewards make returns differ, so that rounding decides nothing when float32 is compared with float64.
    """
    rng = np.random.default_rng(seed)
    row = np.arange(rows)
    trajectory = row // TURNS
    won = rng.integers(0, 2, trajectory[-1] + 1)
    return {
        "task": trajectory // GROUP,
        "trajectory": trajectory,
        "turn": row % TURNS,
        "reward": won[trajectory] * (row % TURNS == TURNS - 1) * 1.0 + 0.01 * rng.random(rows),
        "state": np.minimum(rng.geometric(0.03, rows), STATES),
        "action": rng.integers(0, ACTIONS, rows),
        "valid": rng.random(rows) < 0.95,
    }


# The plain loops.


def plain_returns(rows: list[dict[str, Any]], gamma: float = 0.95) -> list[float]:
    """Discounted returns, with the penalty taken from the row's own return afterwards."""
    episodes = defaultdict(list)
    for number, row in enumerate(rows):
        episodes[row["trajectory"]].append(number)
    returns = [0.0] * len(rows)
    for numbers in episodes.values():
        later = 0.0
        for number in reversed(numbers):
            returns[number] = later = rows[number]["reward"] + gamma * later
    return [value - (0.0 if row["valid"] else 0.1) for value, row in zip(returns, rows, strict=True)]


def plain_gigpo(rows: list[dict[str, Any]], returns: list[float]) -> list[float]:
    """GiGPO without division by the spread, every row counted."""
    score: dict[Any, float] = defaultdict(float)
    for row in rows:
        score[row["trajectory"]] += row["reward"]
    scores = [score[row["trajectory"]] - (0.0 if row["valid"] else 0.1) for row in rows]
    tasks, states = defaultdict(list), defaultdict(list)
    for row, value, later in zip(rows, scores, returns, strict=True):
        tasks[row["task"]].append(value)
        states[row["task"], row["state"]].append(later)
    of_task = {key: sum(found) / len(found) for key, found in tasks.items()}
    of_state = {key: sum(found) / len(found) for key, found in states.items()}
    terms = zip(rows, scores, returns, strict=True)
    return [s - of_task[row["task"]] + r - of_state[row["task"], row["state"]] for row, s, r in terms]


def plain_hgpo(rows: list[dict[str, Any]], returns: list[float], history: int = 2) -> list[float]:
    """HGPO without division by the spread, every row counted, with a dictionary of histories."""
    episodes, groups = defaultdict(list), defaultdict(list)
    for number, row in enumerate(rows):
        episodes[row["trajectory"]].append(number)
    for numbers in episodes.values():
        states = [rows[number]["state"] for number in numbers]
        for place, number in enumerate(numbers):
            for k in range(min(history, place) + 1):
                groups[rows[number]["task"], tuple(states[place - k : place + 1])].append(number)
    found = defaultdict(list)
    for key, members in groups.items():
        mean = sum(returns[number] for number in members) / len(members)
        for number in members if len(members) > 1 else ():
            if returns[number] != mean:
                found[number].append((len(key[1]) + 1.0, returns[number] - mean))
    sums = ((found[number], sum(weight for weight, _ in found[number]) + 1e-6) for number in range(len(rows)))
    return [sum(weight / total * term for weight, term in terms) for terms, total in sums]


# The peer's own functions.


class Peer:
    """gigpo/core_gigpo.py and recipe/hgpo/core_hgpo.py of a checkout, called on arrays as its trainer calls them."""

    def __init__(self, folder: Path, data: dict[str, Any]) -> None:
        """Load the two files, with a stand-in for the trainer's own package, of which they need one name."""
        import torch

        sys.modules.setdefault("verl", types.ModuleType("verl")).DataProto = object  # type: ignore[attr-defined]
        torch.set_num_threads(1)
        self.torch, self.data = torch, data
        self.gigpo_core = self._load(folder / "gigpo" / "core_gigpo.py")
        self.hgpo_core = self._load(folder / "recipe" / "hgpo" / "core_hgpo.py")
        late = 0.1 * ~data["valid"]
        score = np.bincount(data["trajectory"], weights=data["reward"])[data["trajectory"]] - late
        self.late, self.score = late, torch.tensor(score, dtype=torch.float32)[:, None]  # one token a response

    @staticmethod
    def _load(path: Path) -> Any:
        spec = importlib.util.spec_from_file_location(f"peer_{path.stem}", path)
        if spec is None or spec.loader is None or not path.is_file():
            raise SystemExit(f"--peer: there is no {path}")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    def returns(self) -> Any:
        """Its discounted returns."""
        data = {"rewards": self.data["reward"], "traj_uid": self.data["trajectory"]}
        data["active_masks"] = np.ones(len(data["rewards"]))
        batch = types.SimpleNamespace(non_tensor_batch=data, batch={"input_ids": self.torch.zeros(1)})
        with redirect_stdout(io.StringIO()):
            return self.gigpo_core.compute_step_discounted_returns(batch, 0.95)

    def _arguments(self) -> tuple[Any, ...]:
        step = self.returns() - self.torch.tensor(self.late, dtype=self.torch.float32)
        states = self.data["state"].astype(object)
        return (
            self.score.clone(),
            step,
            self.torch.ones_like(self.score),
            states,
            self.data["task"],
            self.data["trajectory"],
        )

    def gigpo(self) -> np.ndarray:
        """Its GiGPO, returns included."""
        with redirect_stdout(io.StringIO()):
            result = self.gigpo_core.compute_gigpo_outcome_advantage(*self._arguments(), mode="mean_norm")
        return np.asarray(result[0][:, 0])

    def hgpo(self) -> np.ndarray:
        """Its HGPO, returns included."""
        with redirect_stdout(io.StringIO()):
            result = self.hgpo_core.compute_hgpo_outcome_advantage(*self._arguments(), 2, mode="mean_norm")
        return np.asarray(result[0][:, 0])


# Measuring.


def seconds(work: Callable[[], object], repeat: int) -> float:
    """Return the minimum CPU time of a call."""
    took = []
    for _ in range(repeat):
        start = time.process_time()
        work()
        took.append(time.process_time() - start)
    return min(took)


def times(rows: int, repeat: int) -> dict[str, float]:
    """Return the milliseconds of our functions on one table."""
    steps = Steps.from_columns(**columns(rows))
    found = {"returns": 1e3 * seconds(lambda: discounted_returns(steps), repeat)}
    for name in METHODS:
        found[name] = 1e3 * seconds(partial(get(name), steps), repeat)
    found["returns + gigpo + hgpo"] = found["returns"] + found["gigpo"] + found["hgpo"]
    return found


def rivals(rows: int, repeat: int, peer: Path | None) -> dict[str, dict[str, float]]:
    """Return the milliseconds of the others for the same statistics, after comparing the results."""
    data = columns(rows)
    steps = Steps.from_columns(**data)
    same = {"compat": "verl-agent", "scale": "none"}
    ours = {"gigpo": gigpo(steps, **same).values, "hgpo": hgpo(steps, **same).values}
    table = [dict(zip(data, row, strict=True)) for row in zip(*(c.tolist() for c in data.values()), strict=True)]
    loops: dict[str, Callable[[], Any]] = {
        "returns": lambda: plain_returns(table),
        "gigpo": lambda: plain_gigpo(table, plain_returns(table)),
        "hgpo": lambda: plain_hgpo(table, plain_returns(table)),
    }
    found = {"plain loops": _timed(loops, ours, 1e-9, repeat)}
    if peer is not None:
        theirs = Peer(peer, data)
        calls = {"returns": theirs.returns, "gigpo": theirs.gigpo, "hgpo": theirs.hgpo}
        found["verl-agent"] = _timed(calls, ours, 1e-4, max(1, repeat // 3))
    found["Steps.from_rows"] = {"table": 1e3 * seconds(lambda: Steps.from_rows(table), repeat)}
    return found


def _timed(calls: dict[str, Callable[[], Any]], ours: dict[str, Any], limit: float, repeat: int) -> dict[str, float]:
    for name, values in ours.items():
        worst = float(np.abs(values - np.asarray(calls[name]())).max())
        if worst > limit:
            raise SystemExit(f"{name}: the two disagree by {worst:g}")
    found = {name: 1e3 * seconds(call, repeat) for name, call in calls.items()}
    found["returns + gigpo + hgpo"] = found["gigpo"] + found["hgpo"]  # both compute the returns themselves
    return found


def in_a_child(name: str, rows: int) -> dict[str, float]:
    """Return seconds and peak memory in MB (of the call, and in total) of one call in its own process."""
    command = [sys.executable, __file__, "--child", name, "--rows", str(rows)]
    return dict(json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout))


def child(name: str, rows: int) -> None:
    """Measure one call and print it."""
    steps = Steps.from_columns(**columns(rows))
    took = seconds(lambda: get(name)(steps), 1)
    whole = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024.0**2 if sys.platform == "darwin" else 1024.0)
    tracemalloc.start()
    get(name)(steps)
    print(json.dumps({"s": took, "mb": tracemalloc.get_traced_memory()[1] / 1024.0**2, "whole_mb": whole}))


def texts(count: int, words: int, seed: int) -> list[str]:
    """Return distinct pages of a task: twelve templates with up to three words exchanged and a counter."""
    rng = np.random.default_rng(seed)
    pages = rng.integers(0, len(WORDS), (12, words))
    found: dict[str, None] = {}
    while len(found) < count:
        page = pages[rng.integers(12)].copy()
        swapped = rng.integers(0, words, rng.integers(0, 4))
        page[swapped] = rng.integers(0, len(WORDS), len(swapped))
        found[" ".join(WORDS[word] for word in page) + f" step {rng.integers(50)}"] = None
    return list(found)


def similarity(tasks: int, words: int, threshold: float, sample: int) -> dict[str, float]:
    """Return the seconds of our grouping and of comparing all pairs (extrapolated); clusters are compared."""
    pages = [texts(120, words, seed) for seed in range(tasks)]
    states = [text for page in pages for text in page]
    steps = Steps.from_columns(
        task=np.repeat(np.arange(tasks), 120), trajectory=np.arange(len(states)), turn=np.zeros(len(states), dtype=int),
        reward=np.zeros(len(states)), state=states,
    )  # fmt: skip
    ours = seconds(lambda: similar_states(steps, threshold), 2)
    clusters = similar_states(steps, threshold)
    start = time.process_time()
    compared = [_all_pairs(sorted(page), threshold) for page in pages[:sample]]
    took = (time.process_time() - start) * tasks / sample
    for number, leaders in enumerate(compared):
        codes = clusters[number * 120 : (number + 1) * 120]
        mine = dict(zip(pages[number], codes.tolist(), strict=True))
        if any(mine[text] != mine[leader] for text, leader in leaders.items()) or len(set(codes.tolist())) != len(
            set(leaders.values())
        ):
            raise SystemExit("the clusters disagree")
    return {"rows": len(states), "letters": float(np.mean([len(t) for t in states])), "threshold": threshold,
            "clusters": len(set(clusters.tolist())), "ours_s": ours, "pairs_s": took, "times": took / ours}  # fmt: skip


def _all_pairs(chosen: list[str], threshold: float) -> dict[str, str]:
    """Return the leaders found by comparing all pairs."""
    alike = {(one, two): SequenceMatcher(None, one, two).ratio() >= threshold
             for place, one in enumerate(chosen) for two in chosen[:place]}  # fmt: skip
    leaders: dict[str, str] = {}
    for text in chosen:
        first = [leader for leader in leaders.values() if alike.get((text, leader))]
        leaders[text] = next(iter(first), text)
    return leaders


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=12_800)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--peer", type=Path, help="a checkout of langfengQ/verl-agent")
    parser.add_argument("--sizes", type=int, nargs="*", default=[12_800, 51_200, 204_800])
    parser.add_argument("--most", type=int, default=1_000_000, help="rows of the run in a child process")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(options.child, options.rows)

    figures: dict[str, Any] = {"rows": options.rows, "ours_ms": times(options.rows, options.repeat)}
    figures["rivals_ms"] = rivals(options.rows, options.repeat, options.peer)
    print(f"{options.rows} turns, {TURNS} a trajectory, {GROUP} trajectories a task; milliseconds")
    others = {name: found for name, found in figures["rivals_ms"].items() if "gigpo" in found}
    print(f"{'':24}{'ours':>9}{'limit':>8}" + "".join(f"{name:>13}{'times':>7}" for name in others))
    for name, took in figures["ours_ms"].items():
        limit = f"{LIMITS[name]:8.0f}" if name in LIMITS and options.rows == 12_800 else f"{'':8}"
        rest = [f"{found[name]:13.1f}{found[name] / took:7.0f}" for found in others.values() if name in found]
        print(f"{name:24}{took:9.2f}{limit}" + "".join(rest))
    print(f"{'Steps.from_rows':24}{figures['rivals_ms']['Steps.from_rows']['table']:9.2f}\n")

    figures["growth"] = {size: times(size, options.repeat) for size in options.sizes}
    sizes = list(figures["growth"])
    print("growth: time over n log n, the first size being 1")
    print(f"{'':24}" + "".join(f"{size:>11,}" for size in sizes))
    for name in ("returns", *METHODS):
        unit = [figures["growth"][n][name] / (n * math.log(n)) for n in sizes]
        print(f"{name:24}" + "".join(f"{value / unit[0]:11.2f}" for value in unit))

    print(f"\n{options.most:,} rows, a process each; seconds, and megabytes at most: of the call, of the process")
    figures["most"] = {name: in_a_child(name, options.most) for name in METHODS}
    for name, found in figures["most"].items():
        print(f"{name:24}{found['s']:9.2f} s{found['mb']:9.0f} MB{found['whole_mb']:9.0f} MB")

    print("\nsimilar texts of 16 tasks; all pairs timed on one of them")
    figures["similarity"] = [similarity(16, words, limit, 1) for words in (25, 60) for limit in (0.9, 0.95)]
    for found in figures["similarity"]:
        print("{rows} rows of {letters:.0f} letters at {threshold}: {clusters} clusters, {ours_s:.2f} s, all pairs "
              "{pairs_s:.0f} s, {times:.0f} times".format(**found))  # fmt: skip
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()

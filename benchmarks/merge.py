"""Tokens that merging of turns saves in an update: whole conversations, packed with and without merging.

Conversations of the expert and of a random player in generated household games are packed twice by
`turncredit.training.batch.batch.pack`: with turns merged where each continues the one before, and with one sequence per
turn. Loss and gradient are equal (see tests/training); the number of computed tokens is not. Padding is counted as in
the trainer's micro-batches.

    python benchmarks/merge.py [--episodes 200] [--json PATH]

Goal: at least 3 times fewer tokens.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from turncredit.agents.agent import Agent
from turncredit.agents.demonstrations.tokens import tokenize_trajectory
from turncredit.agents.rollouts.rollout import rollout
from turncredit.agents.trajectory import Group, Trajectory
from turncredit.engines.base import Sampler
from turncredit.engines.expert import Expert
from turncredit.engines.scripted import Random
from turncredit.envs import make
from turncredit.training.batch.batch import Batch, micro_batches, pack
from turncredit.training.learner.policy import build_tokenizer

GOAL = 3.0
MICRO_TOKENS = 16384


def played(sampler: Sampler, level: str, episodes: int, max_turns: int) -> list[Trajectory]:
    env = make("turncredit/Household-v0", level=level)
    tasks = env.get_wrapper_attr("task_ids")(episodes)
    groups = rollout(Agent(max_turns=max_turns), sampler, tasks, make=lambda: env, concurrency=1)
    return [one for group in groups for one in group.trajectories]


def padded(batch: Batch) -> int:
    """Return the tokens that the trainer computes, padding included."""
    cuts = micro_batches(batch.lengths, MICRO_TOKENS)
    return int(sum(len(rows) * batch.lengths[rows].max() for rows in cuts))


def compare(name: str, level: str, trajectories: list[Trajectory]) -> dict[str, Any]:
    texts = [text for one in trajectories for turn in one.turns for text in (turn.observation, turn.text)]
    tokenizer = build_tokenizer(texts)
    groups = [Group(one.task, (tokenize_trajectory(one, Agent(), tokenizer),)) for one in trajectories]
    merged, apart = pack(groups, merge=True), pack(groups, merge=False)
    assert int(merged.mask.sum()) == int(apart.mask.sum()), "both carry the same tokens with loss"
    return {
        "player": name,
        "level": level,
        "episodes": len(trajectories),
        "turns": float(np.mean([len(one.turns) for one in trajectories])),
        "sequences_merged": len(merged),
        "sequences_apart": len(apart),
        "tokens_with_loss": int(merged.mask.sum()),
        "tokens_merged": merged.size,
        "tokens_apart": apart.size,
        "padded_merged": padded(merged),
        "padded_apart": padded(apart),
        "ratio": apart.size / merged.size,
        "ratio_padded": padded(apart) / padded(merged),
    }


def show(rows: list[dict[str, Any]]) -> None:
    table = Table(title="tokens computed by an update, whole conversations")
    for name in ("player", "games", "episodes", "turns", "with loss", "merged", "apart", "fewer", "padded"):
        table.add_column(name, justify="left" if name in ("player", "games") else "right")
    for row in rows:
        table.add_row(
            row["player"],
            row["level"],
            str(row["episodes"]),
            f"{row['turns']:.1f}",
            f"{row['tokens_with_loss']:,}",
            f"{row['tokens_merged']:,}",
            f"{row['tokens_apart']:,}",
            f"{row['ratio']:.1f} x",
            f"{row['ratio_padded']:.1f} x",
        )
    Console(width=120).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--level", nargs="+", default=["small", "large"], help="of the generated games")
    parser.add_argument("--json", type=Path, help="where to write the numbers")
    options = parser.parse_args()
    rows = []
    for level in options.level:
        rows.append(compare("expert", level, played(Expert(), level, options.episodes, 50)))
        rows.append(compare("random", level, played(Random(), level, options.episodes, 20)))
    show(rows)
    result = {"ratio": min(row["ratio"] for row in rows), "goal": GOAL, "rows": rows}
    print(json.dumps(result))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()

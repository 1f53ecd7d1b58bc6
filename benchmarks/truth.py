"""Speed of the truth about credit: forks of the stored trajectories of a run, and the scores of all rules.

    taskset -c 0,1 python benchmarks/truth.py runs/demo-hgpo-0 [--trajectories 128] [--forks 16] [--json truth.json]

The forks of the newest trajectories are played by the newest checkpoint, in as many processes as the run has, from
nothing: the run's own file of forks is neither read nor written. Processor time is that of all processes together, so
that a busy machine matters less than on the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from turncredit.agents.agent import Agent
from turncredit.agents.files.trajectory_files import read_trajectories
from turncredit.agents.trajectory import Group, grouped
from turncredit.credit import rules
from turncredit.envs import make
from turncredit.report.credit_settings import credit_settings
from turncredit.report.truth_scores import return_options, score_rules
from turncredit.training import load_agent
from turncredit.training.run_folder.paths import trajectory_file
from turncredit.training.truth.fork_records import ForkFile, ForkRecord
from turncredit.training.truth.forking import ForkPlayer
from turncredit.training.truth.gradients import as_model, gradient_measures, turn_gradients
from turncredit.training.truth.measuring import TruthOptions, TruthTable, measure, plan_forks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of a run")
    parser.add_argument("--trajectories", type=int, default=128, help="at most, whole groups")
    parser.add_argument("--forks", type=int, default=16, help="of every history")
    parser.add_argument("--json", type=Path, help="where to write the numbers as well")
    options = parser.parse_args()
    file = trajectory_file(options.run)
    groups = first_groups(grouped(read_trajectories(file)), options.trajectories)
    with load_agent(options.run) as agent, tempfile.TemporaryDirectory() as folder:
        assert agent.run is not None
        player = ForkPlayer(
            agent.agent,
            agent.sampler,
            partial(make, agent.run.env.id, **agent.run.env.kwargs),
            concurrency=agent.run.train.concurrency,
            processes=agent.run.processes,
        )
        table = TruthTable.of(groups, ForkFile.open(Path(folder) / "forks.jsonl", {}), chance=False)
        report = playing(table, player, TruthOptions(options.forks))
        report |= scoring(table, file, agent.agent, agent.sampler.module)
    print(json.dumps(report, indent=2))
    if options.json is not None:
        options.json.write_text(json.dumps(report), encoding="utf-8")


def first_groups(groups: list[Group], most: int) -> list[Group]:
    """Return the first whole groups with about as many trajectories."""
    first: list[Group] = []
    for group in groups:
        if sum(len(earlier.trajectories) for earlier in first) < most:
            first.append(group)
    return first


def playing(table: TruthTable, player: ForkPlayer, options: TruthOptions) -> dict[str, Any]:
    """Return what it takes to play the forks."""
    plan, turns, tokens = plan_forks(table, options), 0, 0

    def count(record: ForkRecord) -> None:
        nonlocal turns, tokens
        turns, tokens = turns + record.turns, tokens + record.tokens

    clock, processor = time.perf_counter(), processor_time()
    measure(table, player, options, count)
    seconds, processor = time.perf_counter() - clock, processor_time() - processor
    return {
        "cores": len(os.sched_getaffinity(0)),
        "processes": player.processes,
        "trajectories": len(table.histories.trajectories),
        "turns": plan.rows,
        "histories": plan.histories,
        "forks": len(table.file),
        "fork_turns": turns,
        "fork_tokens": tokens,
        "planned_turns": plan.turns,
        "seconds": round(seconds, 1),
        "processor_seconds": round(processor, 1),
        "turns_per_processor_second": round(turns / processor, 1),
    }


def scoring(table: TruthTable, file: Path, agent: Agent, module: object) -> dict[str, Any]:
    """Return what it takes to score all rules, with and without gradients."""
    settings = credit_settings(file, ",".join(rules()))
    gamma, penalty = return_options(settings, list(settings.rules))
    start = processor_time()
    scores = score_rules(table, settings, gamma=gamma, invalid_penalty=penalty)
    middle = processor_time()
    gradients = gradient_measures(
        turn_gradients(as_model(module), table.groups, temperature=agent.temperature), table.groups
    )
    score_rules(table, settings, gamma=gamma, invalid_penalty=penalty, gradients=gradients)
    end = processor_time()
    return {
        "rules": len(scores.rules),
        "reliability": None if scores.reliability is None else round(scores.reliability, 3),
        "scoring_processor_seconds": round(middle - start, 1),
        "gradients_processor_seconds": round(end - middle, 1),
    }


def processor_time() -> float:
    """Return the seconds of processor time of this process and those that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


if __name__ == "__main__":
    main()

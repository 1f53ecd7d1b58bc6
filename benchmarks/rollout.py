"""Overhead of the agent loop: tokens per second in a rollout relative to the sampler alone.

A rollout of generated household games with whole conversations as prompts is played and timed. Then the same requests
(prompts, seeds, lengths, concurrency) are sent to the sampler again, without environments, prompt building, parsing and
trajectories. The share is the second time divided by the first; 1 means that the loop costs nothing. Both are repeated
alternately and the best times count, since other load can only make them longer. The share of CPU time is reported as
well, which is more stable on a busy machine.

The policy first imitates the expert for some seconds: an untrained policy rarely produces an action that reaches the
environment, which would flatter the loop. `--policy FOLDER` uses an existing one.

    python benchmarks/rollout.py [--policy FOLDER] [--episodes 256] [--batch 64] [--json PATH]

Goal: a share of at least 0.8.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from turncredit.agents.agent import Agent
from turncredit.agents.rollouts.env_pool import EnvPool
from turncredit.agents.rollouts.rollout import rollout
from turncredit.agents.trajectory import Group
from turncredit.engines.base import Completion, Request
from turncredit.engines.transformers.sampler import TransformersSampler
from turncredit.envs import make

GOAL = 0.8


class Recorder:
    """Forwards requests to a sampler, and records them by episode in the order of their turns."""

    def __init__(self, sampler: TransformersSampler) -> None:
        self.sampler = sampler
        self.requests: dict[str, list[Request]] = {}
        self.version = sampler.version
        self.tokenizer = sampler.tokenizer
        self.context = sampler.context

    async def sample(self, request: Request) -> Completion:
        self.requests.setdefault(request.episode, []).append(request)
        return await self.sampler.sample(request)

    def forget(self, episode: str) -> None:
        self.sampler.forget(episode)

    async def load(self, weights: Any, version: int) -> None:
        await self.sampler.load(weights, version)

    def close(self) -> None:
        self.sampler.close()


async def replay(sampler: TransformersSampler, requests: dict[str, list[Request]], batch: int) -> int:
    """Send the recorded requests to the sampler, `batch` episodes at a time; return the number of sampled tokens."""
    queue = list(reversed(requests.values()))
    said = 0

    async def player() -> None:
        nonlocal said
        while queue:
            turns = queue.pop()
            for request in turns:
                answer = await sampler.sample(request)
                said += len(answer.tokens)
            sampler.forget(turns[0].episode)

    await asyncio.gather(*(player() for _ in range(batch)))
    return said


def trained_policy(level: str, hidden: int, seconds: float) -> tuple[Any, Any]:
    """Return a small policy that has imitated the expert for some seconds."""
    from turncredit.agents.demonstrations.tokens import tokenize_trajectory
    from turncredit.engines.expert import Expert
    from turncredit.training.batch.batch import pack
    from turncredit.training.config.sections import ImitationSection
    from turncredit.training.imitation.imitation import imitate
    from turncredit.training.learner.learner import Learner
    from turncredit.training.learner.policy import build_policy

    env = make("turncredit/Household-v0", level=level)
    groups = rollout(Agent(), Expert(), env.get_wrapper_attr("task_ids")(400), make=lambda: env, concurrency=1)
    trajectories = [one for group in groups for one in group.trajectories]
    texts = [text for one in trajectories for turn in one.turns for text in (turn.observation, turn.text)]
    model, tokenizer = build_policy(texts, hidden=hidden, layers=4, heads=hidden // 32, context=1024)
    filled = [Group(one.task, (tokenize_trajectory(one, Agent(), tokenizer),)) for one in trajectories]
    batch, start = pack(filled), time.perf_counter()
    while time.perf_counter() - start < seconds:
        imitate(Learner(model, tokenizer), batch, ImitationSection(lr=2e-3, batch_tokens=4096))
    return model, tokenizer


def measure(model: Any, tokenizer: Any, level: str, episodes: int, batch: int, rounds: int) -> dict[str, Any]:
    agent = Agent(max_turns=20, max_tokens=24)
    sampler = TransformersSampler(model, tokenizer, concurrency=batch)
    best: dict[str, float] = {}
    with EnvPool(lambda: make("turncredit/Household-v0", level=level)) as pool:
        tasks = make("turncredit/Household-v0", level=level).get_wrapper_attr("task_ids")(max(1, episodes // 8))
        rollout(agent, sampler, tasks[:2], make=pool, size=8, concurrency=batch)  # warm
        for _ in range(rounds):
            recorder = Recorder(sampler)
            start, start_cpu = time.perf_counter(), time.process_time()
            groups = rollout(agent, recorder, tasks, make=pool, size=8, seed=1, concurrency=batch)
            middle, middle_cpu = time.perf_counter(), time.process_time()
            said = asyncio.run(replay(sampler, recorder.requests, batch))
            end, end_cpu = time.perf_counter(), time.process_time()
            times = {"loop": middle - start, "bare": end - middle}
            times |= {"loop_cpu": middle_cpu - start_cpu, "bare_cpu": end_cpu - middle_cpu}
            best = {name: min(best.get(name, value), value) for name, value in times.items()}
    trajectories = [one for group in groups for one in group.trajectories]
    tokens = sum(len(turn.response) for one in trajectories for turn in one.turns)
    turns = sum(len(one.turns) for one in trajectories)
    assert abs(said - tokens) <= 0.01 * tokens, f"the replay said {said} tokens, the loop {tokens}"
    return {
        "batch": batch,
        "episodes": len(trajectories),
        "turns": turns,
        "tokens_generated": tokens,
        "tokens_a_response": tokens / turns,
        "tokens_a_prompt": sum(len(turn.prompt) for one in trajectories for turn in one.turns) / turns,
        "won": sum(one.won for one in trajectories) / len(trajectories),
        "loop_tokens_a_second": tokens / best["loop"],
        "bare_tokens_a_second": tokens / best["bare"],
        "ratio": best["bare"] / best["loop"],
        "ratio_cpu": best["bare_cpu"] / best["loop_cpu"],
    }


def show(rows: list[dict[str, Any]], parameters: int) -> None:
    table = Table(title=f"generated tokens a second, {parameters:,} parameters, {torch.get_num_threads()} threads")
    for name in ("batch", "episodes", "turns", "prompt", "response", "won", "in the loop", "bare", "share", "of CPU"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            str(row["batch"]),
            str(row["episodes"]),
            str(row["turns"]),
            f"{row['tokens_a_prompt']:.0f}",
            f"{row['tokens_a_response']:.1f}",
            f"{row['won']:.2f}",
            f"{row['loop_tokens_a_second']:,.0f}",
            f"{row['bare_tokens_a_second']:,.0f}",
            f"{row['ratio']:.2f}",
            f"{row['ratio_cpu']:.2f}",
        )
    Console(width=120).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--policy", type=Path, help="a Hugging Face folder; default: a small policy is trained first")
    parser.add_argument("--level", default="small", help="of the generated games")
    parser.add_argument("--hidden", type=int, default=128, help="width of the trained policy")
    parser.add_argument("--teach", type=float, default=30.0, help="seconds of imitation")
    parser.add_argument("--episodes", type=int, default=256)
    parser.add_argument("--batch", type=int, nargs="+", default=[32, 64])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="where to write the numbers")
    options = parser.parse_args()
    if options.policy is None:
        model, tokenizer = trained_policy(options.level, options.hidden, options.teach)
    else:
        from turncredit.agents.models.model_folder import load_model, load_tokenizer

        model, tokenizer = load_model(options.policy), load_tokenizer(options.policy)
    rows = [
        measure(model, tokenizer, options.level, options.episodes, batch, options.rounds) for batch in options.batch
    ]
    parameters = sum(weight.numel() for weight in model.parameters())
    show(rows, parameters)
    result = {"ratio": min(row["ratio"] for row in rows), "goal": GOAL, "parameters": parameters, "rows": rows}
    print(json.dumps(result))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()

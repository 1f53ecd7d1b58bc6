"""Our sampler `transformers` beside the continuous batching that the transformers library ships.

Both answer the same requests: those of episodes of examples/demo.toml, recorded while the policy after its warm start
plays them, and multi-turn requests to a random model of SmolLM2-135M's sizes. Every answer has the length that was
recorded, so both do the same work. The first table says what each can do. Log-probabilities are held against one pass
over the whole sequence under the weights that sampled each token. The second table has the speed: for each pair, both
run in turn within each round, and the median of the ratios counts, since other load changes absolute figures.

    python benchmarks/continuous_batching.py [--policy FOLDER] [--device cuda] [--episodes 128] [--rounds 1]
                                             [--json PATH]

FOLDER is a run of the demo; without it, its warm start runs first (3 minutes). The rest takes ten minutes on a busy
core, fewer with `--episodes 32`. On a CPU, processor seconds count, and one thread computes. Some page and batch sizes
of the library are tried: its best pair counts.
The rule: if the library does all of it within 10 % of the time, ours can go.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import torch
from continuous_batching_probes import CLOSE, Abilities, largest_gap
from decode import VIEW, NoText, smollm2
from library_engine import LibraryEngine
from rich.console import Console
from rich.table import Table

from turncredit.agents.rollouts.env_pool import EnvPool
from turncredit.agents.rollouts.rollout import rollout
from turncredit.engines.base import Completion, Request, Sampler
from turncredit.engines.transformers.sampler import TransformersSampler
from turncredit.training.config.run import Run
from turncredit.training.engine.loaded_agent import LoadedAgent, load_agent

DEMO: Final = Path(__file__).resolve().parent.parent / "examples" / "demo.toml"
ALLOWED: Final = 1.1
Turns = list[list[Request]]
"""The requests of each episode, in the order of its turns."""


class Recorder:
    """Forwards requests to a sampler, and keeps them with the lengths of their answers."""

    def __init__(self, sampler: Sampler) -> None:
        self.sampler, self.tokenizer, self.context = sampler, sampler.tokenizer, sampler.context
        self.version, self.episodes = 0, dict[str, list[Request]]()

    async def sample(self, request: Request) -> Completion:
        answer = await self.sampler.sample(request)
        fixed = replace(request, max_tokens=len(answer.tokens), end=None, stop=())
        self.episodes.setdefault(request.episode, []).append(fixed)
        return answer

    def forget(self, episode: str) -> None:
        self.sampler.forget(episode)


def demo_policy(folder: Path | None, temporary: Path) -> LoadedAgent:
    """Return the demo's policy after its warm start."""
    if folder is None:
        from turncredit.training.training_run import train

        folder = temporary / "demo"
        train(Run.load(DEMO, [f"output={str(folder)!r}", "train.iterations=0", "evaluation.episodes=0"]))
    return load_agent(folder / "checkpoints" / "000000")


def demo_load(loaded: LoadedAgent, episodes: int) -> Turns:
    """Return the requests of episodes in groups of eight, as an iteration of the demo plays them."""
    recorder = Recorder(loaded.sampler)
    with EnvPool(loaded.make) as pool:
        tasks = loaded.make().get_wrapper_attr("task_ids")(-(-episodes // 8))
        rollout(loaded.agent, recorder, tasks, make=pool, size=8, seed=1, concurrency=episodes)
    return list(recorder.episodes.values())


def random_load(episodes: int, vocabulary: int, *, turns: int = 3, prompt: int = 200, answer: int = 16) -> Turns:
    """Return requests of a random model in groups of eight; the answers in later prompts are random as well."""
    generator = torch.Generator().manual_seed(0)
    size = prompt + (turns - 1) * 48
    ids = torch.randint(5, vocabulary - 5, (episodes, size), generator=generator)
    ids[:, :prompt] = ids[torch.arange(episodes) // 8 * 8, :prompt]
    return [
        [
            Request(f"e{k}", turn, tuple(ids[k, : prompt + 48 * turn].tolist()), (), k, VIEW, max_tokens=answer)
            for turn in range(turns)
        ]
        for k in range(episodes)
    ]


def played(engine: Sampler, load: Turns, temperature: float) -> list[Completion]:
    """Send the requests of all episodes at once, turn by turn, and return the answers."""

    async def episode(turns: list[Request]) -> list[Completion]:
        out = [await engine.sample(replace(request, temperature=temperature)) for request in turns]
        engine.forget(turns[0].episode)
        return out

    async def together() -> list[list[Completion]]:
        return await asyncio.gather(*(episode(turns) for turns in load))

    return [answer for episode in asyncio.run(together()) for answer in episode]


class Bench:
    """The settings, and the lines of the two tables so far."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.cuda = options.device.startswith("cuda")
        self.clock = time.perf_counter if self.cuda else time.process_time
        self.speeds: list[dict[str, Any]] = []
        self.abilities: list[dict[str, str]] = []

    def ours(self, model: Any, load: Turns, *, graphs: bool = True) -> TransformersSampler:
        """Return our engine, whose answers end by length alone."""
        most = max(len(request.prompt) + request.max_tokens for turns in load for request in turns)
        sampler = TransformersSampler(
            model, NoText(), concurrency=len(load), context=most, graphs=graphs, device=self.options.device
        )
        sampler._ends = frozenset()
        return sampler

    def library(self, model: Any, load: Turns, page: int, requests: int, *, greedy: bool = False) -> LibraryEngine:
        """Return the library's engine with room for all that is asked at once, and as much again for what was."""
        longest = sum(max(len(r.prompt) + r.max_tokens for r in turns) + page for turns in load)
        plain = greedy or model.dtype == torch.float32
        return LibraryEngine(model, greedy=greedy, page=page, tokens=2 * longest, requests=requests, plain=plain)

    def equal(self, name: str, model: Any, load: Turns) -> None:
        """Compare tokens at temperature 0, and log-probabilities of both, and keep a line."""
        engines = [self.ours(model, load, graphs=False), self.library(model, load, 16, 8, greedy=True)]
        both = [played(engine, load, 0.0) for engine in engines]
        prompts = [request.prompt for turns in load for request in turns]
        gaps = [largest_gap(model, zip(prompts, answered, strict=True)) for answered in both]
        same = sum(one.tokens == other.tokens for one, other in zip(*both, strict=True))
        for engine in engines:
            engine.close()
        self.abilities.append(
            {
                "criterion": f"equal tokens at temperature 0, {name}",
                "ours": f"{'yes' if gaps[0] < CLOSE else 'no'}: {gaps[0]:.0e} nats off one pass",
                "library": f"{'yes' if same == len(prompts) else 'no'}: {same:,} of {len(prompts):,} answers, "
                f"{gaps[1]:.0e} nats off",
            }
        )
        print(self.abilities[-1], flush=True)

    def speed(self, name: str, model: Any, load: Turns, pairs: Sequence[tuple[int, int]]) -> None:
        """Let ours and the library's take turns for each size of page and batch, and keep the lines."""
        tokens = sum(request.max_tokens for turns in load for request in turns)
        ours = self.ours(model, load)
        played(ours, load, 1.0)  # warms up, and captures on a GPU
        for page, requests in pairs:
            library, ratios, rates = self.library(model, load, page, requests), [], []
            if self.cuda:
                played(library, load, 1.0)
            for _ in range(self.options.rounds):
                seconds = [self.timed(engine, load) for engine in (ours, library)]
                ratios.append(seconds[1] / seconds[0])
                rates.append([tokens / spent for spent in seconds])
            library.close()
            self.speeds.append(
                {
                    "load": name,
                    "episodes": len(load),
                    "page": page,
                    "requests": requests,
                    "ours": statistics.median(rate[0] for rate in rates),
                    "library": statistics.median(rate[1] for rate in rates),
                    "ratio": statistics.median(ratios),
                }
            )
            print(json.dumps(self.speeds[-1]), flush=True)
        ours.close()

    def timed(self, engine: Sampler, load: Turns) -> float:
        """Return the seconds of one run of a load, with the empty caches that new weights leave."""
        asyncio.run(engine.load(engine.module, 0))
        begun = self.clock()
        out = played(engine, load, 1.0)
        spent = self.clock() - begun
        assert all(len(a.tokens) == r.max_tokens for a, r in zip(out, (r for t in load for r in t), strict=True))
        return spent

    def show(self) -> None:
        """Print both tables and what follows from them."""
        console = Console()
        table = Table("criterion", "ours", "the library's", title="what each can do", show_lines=True)
        for line in self.abilities:
            table.add_row(line["criterion"], line["ours"], line["library"])
        console.print(table)
        clock = "second" if self.cuda else "processor second"
        table = Table(title=f"sampled tokens a {clock}; page and batch are the library's")
        for head in ("load", "episodes", "page", "batch", "ours", "library's", "time"):
            table.add_column(head, justify="left" if head == "load" else "right")
        for row in self.speeds:
            numbers = [f"{row[key]:,.0f}" for key in ("episodes", "page", "requests", "ours", "library")]
            table.add_row(row["load"], *numbers, f"{row['ratio']:.1f} x")
        console.print(table)
        best = {name: min(r["ratio"] for r in self.speeds if r["load"] == name) for name in _names(self.speeds)}
        lacking = [line["criterion"] for line in self.abilities if line["library"].startswith("no")]
        slow = [f"{name} takes {ratio:.1f} times as long" for name, ratio in best.items() if ratio > ALLOWED]
        missing = f"not there: {'; '.join(lacking)}" if lacking else ""
        print("ours can go" if not lacking and not slow else "ours stays. " + ". ".join(filter(None, [*slow, missing])))


def _names(rows: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(row["load"] for row in rows))


def on_device(model: Any, options: argparse.Namespace, dtype: torch.dtype) -> Any:
    return model.to(options.device, dtype).eval()


def run(bench: Bench, temporary: Path) -> None:
    """Fill both tables."""
    options = bench.options
    exact, fast = torch.float32, torch.bfloat16 if bench.cuda else torch.float32
    with demo_policy(options.policy, temporary) as loaded:
        load = demo_load(loaded, options.episodes)
        model = on_device(loaded.sampler.module, options, exact)
        few = load[:16]
        bench.equal("demo", model, few)
        bench.abilities += Abilities(model, few, options.device).lines()
        sizes = [(16, 8), (64, 8), (16, 32), (16, len(load))]
        bench.speed("demo", model.to(fast), load, sizes)
    torch.manual_seed(0)
    large = on_device(smollm2(small=False), options, exact)
    load = random_load(options.large, large.config.vocab_size)
    bench.equal("SmolLM2-135M's sizes", large, load[:2])
    bench.speed("SmolLM2-135M's sizes", large.to(fast), load, [(16, len(load))])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", type=Path, help="a run of examples/demo.toml; default: its warm start runs first")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--episodes", type=int, default=128, help="of the demo, all at once")
    parser.add_argument("--large", type=int, default=8, help="episodes of the larger model, all at once")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1, help="of torch on a CPU")
    parser.add_argument("--json", type=Path, help="where to write the numbers")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    warnings.simplefilter("ignore", FutureWarning)
    bench = Bench(options)
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as temporary:
        run(bench, Path(temporary))
    bench.show()
    print(f"{time.perf_counter() - begun:.0f} s")
    if options.json:
        result = {"abilities": bench.abilities, "speeds": bench.speeds}
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Where the time of a rollout goes when the model is small: passes that Python starts kernel by kernel, or replays.

A run's rollout is played: generated household games as conversations through a chat template, many episodes at once, a
model of 30 layers with an adapter, and the sampler `transformers`. The model is random, and each answer is steered to
an admissible action that a hash of episode and turn draws. So all ways play the same episodes with the same requests:

    all       passes are replayed: those of one token for each episode, and those with short prompts as well
    tokens    passes of one token for each episode are replayed, and prompts are started by Python
    eager     every pass is started by Python

On CUDA the model has the sizes of SmolLM2-135M in bfloat16, and tokens per second of the rollout count: the best of the
rounds, in which the ways take turns from the fastest to the slowest. On a CPU there are no graphs. A replay then
computes nothing, as on a device that takes no time, and the model is narrow: what counts are the operations that Python
starts, which are exact and the same on any machine, and the processor time outside of eager passes.

    python benchmarks/rollout_host.py [--device cuda] [--groups N] [--size 8] [--ways all tokens eager] [--rounds 2]
                                      [--budget 200] [--json PATH]

When the budget of seconds is spent, the rollout that is playing ends, and the table has the ways that have finished
one.

Goal: `all` starts at most a quarter of the operations of `tokens` for each sampled token.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import torch
from rich.console import Console
from rich.table import Table
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import LlamaConfig, LlamaForCausalLM

from turncredit.agents.agent import Agent
from turncredit.agents.models.tokenization import TokenCodec, codec_of
from turncredit.agents.rollouts.env_pool import EnvPool
from turncredit.agents.rollouts.rollout import RolloutReport, rollout
from turncredit.engines.base import Completion, Request
from turncredit.engines.expert import Expert
from turncredit.engines.transformers import sampler as sampler_module
from turncredit.engines.transformers.cached_decoding import CachedDecoder
from turncredit.engines.transformers.sampler import TransformersSampler
from turncredit.engines.wrappers import SamplerWrapper
from turncredit.envs import make
from turncredit.training.learner.lora import LoraOptions, add_adapter
from turncredit.training.learner.policy import build_policy

ENV: Final = "turncredit/Household-v0"
KWARGS: Final = {"level": "tiny", "split": "train"}
CONTEXT: Final = 1024
WAYS: Final = ("all", "tokens", "eager")
"""From the fastest to the slowest."""
STEERED: Final = 60.0
"""Added to the logit of the token that is to come; the others' probabilities are not so small that they are slow."""
TEMPLATE: Final = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
VIEWS: Final = ("view", "transpose", "slice", "select", "expand", "squeeze", "detach", "alias", "permute", "aten.t.")
"""Parts of the names of operations that start no kernel."""


class BudgetSpent(Exception):
    """The seconds of the benchmark are over."""


class Instant:
    """A capture whose replays compute nothing."""

    pinned = False

    def __call__(self, run: Callable[[], torch.Tensor]) -> tuple[Callable[[], None], torch.Tensor]:
        """Run the work once, for the shape of its result."""
        return (lambda: None), run().zero_()

    def after_copy(self) -> Callable[[], None]:
        """Return what waits for nothing."""
        return lambda: None


def no_attention(query: torch.Tensor, *_: object) -> torch.Tensor:
    """Return a result of the right shape."""
    return query


class Started(TorchDispatchMode):
    """Counts the operations that start a kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += not any(view in str(func) for view in VIEWS)
        return func(*args, **(kwargs or {}))


class Steered(SamplerWrapper):
    """Draws each answer from the admissible actions, by episode and turn."""

    def __init__(self, inner: TransformersSampler, codec: TokenCodec) -> None:
        super().__init__(inner)
        self._codec, self._decoder = codec, inner._decoder
        self._targets: dict[str, tuple[int, Sequence[int]]] = {}
        self.seconds: Counter[str] = Counter()
        self.clock: Callable[[], float] = time.perf_counter
        self.started: Started | None = None
        """Counts operations, if it is there."""
        self.deadline = math.inf
        """Time of `time.perf_counter` from which on it answers no more."""
        inner._decoder.logits = self._timed("passes", self._steered(inner._decoder.logits))  # type: ignore[method-assign]
        inner._step = self._timed("steps", inner._step)  # type: ignore[method-assign]
        self.sample_tokens = self._timed("sampling", sampler_module.sample_tokens)

    async def sample(self, request: Request) -> Completion:
        """Answer with an admissible action.

        Raises:
            BudgetSpent: the deadline is over; a rollout ends with it.
        """
        if time.perf_counter() > self.deadline:
            raise BudgetSpent
        actions = request.view.admissible or ("look",)
        digest = hashlib.blake2b(f"{request.episode} {request.turn}".encode(), digest_size=8).digest()
        action = actions[int.from_bytes(digest, "big") % len(actions)]
        self._targets[request.episode] = (len(request.prompt), self._codec.response(action, request.end))
        return await self.inner.sample(request)

    def _steered(self, logits: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def steered(batch: Sequence[tuple[str, list[int]]]) -> torch.Tensor:
            out = logits(batch)
            tokens = []
            for episode, ids in batch:
                length, target = self._targets[episode]
                tokens.append(target[min(len(ids) - length, len(target) - 1)])
            at = torch.tensor([list(range(len(tokens))), tokens]).to(out.device, non_blocking=True)
            out[at[0], at[1]] += STEERED
            return out

        return steered

    def _timed(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            begun = self.clock()
            with self._counting(name):
                result = work(*args, **kwargs)
            self.seconds[name] += self.clock() - begun
            return result

        return timed

    @contextmanager
    def _counting(self, name: str) -> Iterator[None]:
        if self.started is None or name == "steps":
            yield
        else:
            with self.started:
                yield


class Bench:
    """The games, the model, and a sampler for each way."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.device = options, torch.device(options.device)
        self.small = self.device.type == "cpu"
        env = make(ENV, **KWARGS)
        self.tasks = env.get_wrapper_attr("task_ids")(options.groups)
        groups = rollout(Agent(), Expert(), self.tasks, make=lambda: env, concurrency=1)
        turns = [turn for group in groups for episode in group.trajectories for turn in episode.turns]
        texts = [text for turn in turns for text in (turn.observation, turn.text)]
        self.tokenizer = build_policy([*texts, "<|im_start|> <|im_end|> user assistant"], hidden=32, layers=1)[1]
        self.tokenizer.chat_template = TEMPLATE
        self.agent = Agent(chat=self.tokenizer, max_turns=12, max_tokens=16)
        self.model = self.make_model()
        self.samplers = {way: self.make_sampler(way) for way in options.ways}

    def make_model(self) -> Any:
        """Return a random model of 30 layers with an adapter."""
        words = len(self.tokenizer)
        vocabulary, hidden, wide, heads, kinds = (
            (words, 16, 32, 2, 1) if self.small else (max(words, 49152), 576, 1536, 9, 3)
        )
        config = LlamaConfig(
            vocab_size=vocabulary,
            hidden_size=hidden,
            intermediate_size=wide,
            num_hidden_layers=30,
            num_attention_heads=heads,
            num_key_value_heads=kinds,
            max_position_embeddings=8192,
            tie_word_embeddings=True,
            eos_token_id=None,
        )
        torch.manual_seed(0)
        model = LlamaForCausalLM(config).to(self.device, torch.float32 if self.small else torch.bfloat16)
        return add_adapter(model, LoraOptions()).eval()

    def make_sampler(self, way: str) -> Steered:
        """Return a sampler whose passes are started or replayed in a way."""
        count = self.options.groups * self.options.size
        sampler = TransformersSampler(
            self.model, self.tokenizer, device=self.device, concurrency=count, context=CONTEXT, kv_cache_gib=2.5
        )
        if self.small or way == "eager":
            sampler._decoder = decoder = CachedDecoder(
                sampler._decoder.model,
                pages=2 * count * CONTEXT // 128,
                width=128,
                paged=True,
                context=CONTEXT,
                capture=Instant() if way != "eager" else None,
                rows=count,
            )
            if decoder._steps is not None:
                decoder._steps.attention = no_attention
        steps = sampler._decoder._steps  # type: ignore[attr-defined]
        if way == "tokens" and steps is not None:
            steps._tokens = 0  # no pass with observations
        return Steered(sampler, codec_of(self.tokenizer))

    def play(self, way: str, pool: EnvPool, *, count: bool = False) -> dict[str, float]:
        """Play all games and return what that took."""
        steered = self.samplers[way]
        counts = steered.inner._decoder.counts  # type: ignore[attr-defined]
        steered.clock = time.process_time if self.small else time.perf_counter
        steered.started = Started() if count else None
        steered.seconds.clear()
        sampler_module.sample_tokens = steered.sample_tokens
        report = RolloutReport()
        before, begun = (counts.passes, counts.replayed), steered.clock()
        rollout(
            self.agent,
            steered,
            self.tasks,
            make=pool,
            size=self.options.size,
            concurrency=self.options.groups * self.options.size,
            report=report,
        )
        seconds = steered.clock() - begun
        parts = steered.seconds
        return {
            "turns": report.turns,
            "tokens": report.response_tokens,
            "passes": counts.passes - before[0],
            "replayed": counts.replayed - before[1],
            "seconds": seconds,
            "in passes": parts["passes"],
            "in sampling": parts["sampling"],
            "in the engine": parts["steps"] - parts["passes"] - parts["sampling"],
            "in episodes": seconds - parts["steps"],
            **({} if steered.started is None else {"started": steered.started.count}),
        }

    def run(self, deadline: float) -> dict[str, dict[str, float]]:
        """Return the best round of every way that has finished one by the deadline."""
        best: dict[str, dict[str, float]] = {}
        started: dict[str, float] = {}
        for steered in self.samplers.values():
            steered.deadline = deadline
        with suppress(BudgetSpent), EnvPool(lambda: make(ENV, **KWARGS)) as pool:
            for number in range(self.options.rounds):
                for way in self.options.ways:
                    if not number:
                        self.play(way, pool)  # captures
                        started[way] = self.play(way, pool, count=True)["started"] if self.small else 0
                    row = self.play(way, pool)
                    if way not in best or row["seconds"] < best[way]["seconds"]:
                        best[way] = row
        return {way: row | {"started": started[way]} for way, row in best.items()}


def show(rows: dict[str, dict[str, float]], device: torch.device) -> None:
    """Print the table."""
    clock = "processor time" if device.type == "cpu" else "time"
    table = Table(title=f"a rollout on {device}, {clock}")
    names = ("", "turns", "tokens", "passes", "replayed", "started a token", "started a turn", "tokens/s", "us a token")
    parts = ("in passes", "in sampling", "in the engine", "in episodes")
    for name in (*names, *(f"us a turn {part}" for part in parts)):
        table.add_column(name, justify="right")
    for way, row in rows.items():
        tokens, turns = row["tokens"], row["turns"]
        table.add_row(
            way,
            *(f"{row[name]:,.0f}" for name in ("turns", "tokens", "passes", "replayed")),
            *(f"{row['started'] / count:,.1f}" for count in (tokens, turns)),
            f"{tokens / row['seconds']:,.0f}",
            f"{1e6 * row['seconds'] / tokens:,.0f}",
            *(f"{1e6 * row[part] / turns:,.0f}" for part in parts),
        )
    Console(width=150).print(table)


def main() -> None:
    """Measure, and print the table and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--groups", type=int, help="games; 16 on a CPU, else 4")
    parser.add_argument("--size", type=int, default=8, help="episodes of a group")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="of torch on a CPU")
    parser.add_argument("--budget", type=float, default=200.0, help="seconds, after which nothing more is played")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.groups = options.groups or (16 if options.device == "cpu" else 4)
    options.ways.sort(key=WAYS.index)
    deadline = time.perf_counter() + options.budget
    torch.set_num_threads(options.threads)
    bench = Bench(options)
    rows = bench.run(deadline)
    if not rows:
        sys.exit(f"no way finished a round within {options.budget:g} seconds; use a larger --budget or fewer --groups")
    show(rows, bench.device)
    if missing := [way for way in options.ways if way not in rows]:
        print(f"not measured within {options.budget:g} seconds: {', '.join(missing)}")
    fastest, *others = rows
    ratios = {
        f"{way} / {fastest}, {name}": rows[way][key] / rows[fastest][key]
        for way in others
        for name, key in (("operations started", "started"), ("seconds", "seconds"))
        if rows[fastest][key]
    }
    print(json.dumps({"ratios": ratios, "rows": rows}))
    if options.json:
        options.json.write_text(json.dumps({"ratios": ratios, "rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

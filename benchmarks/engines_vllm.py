"""vLLM through the samplers against vLLM itself: sampled tokens per second of a rollout-like load.

Every episode has the same number of turns. A turn's prompt is the conversation so far and some new tokens. All ways
make the same requests with the same concurrency:

    vllm            the sampler, with the engine in this process
    bare engine     `generate` of the same engine, called directly
    openai          the sampler with token ids, with a server that `turncredit serve model` starts
    bare client     POST /v1/completions to the same server, with httpx

A sampler and its bare form take turns within each round, and the median of the rounds' ratios counts, since other load
on the machine changes absolute figures.

    python benchmarks/engines_vllm.py [FOLDER] [--dtype bfloat16] [--concurrency 32] [--rounds 5] [--json PATH]

FOLDER is a Hugging Face model folder; default: a tiny random model. Goal: 0.9. It needs vLLM (`make test-vllm` makes
`.venv-vllm`).
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from turncredit.agents.models.model_folder import load_tokenizer, model_config
from turncredit.agents.prompts.prompt import View
from turncredit.engines.base import SAMPLERS, Request, Sampler, SamplerSettings
from turncredit.engines.seeds import request_seed

GOAL = 0.9
VIEW = View(start="", observation="", admissible=None, turn=0)
Answer = Callable[[list[int], int, int], Awaitable[Sequence[int]]]
"""Returns the sampled tokens for a prompt, an episode and a turn."""


class Load:
    """What is asked for: `concurrency` episodes of `turns` turns."""

    def __init__(self, options: argparse.Namespace, vocabulary: int) -> None:
        self.options, self.vocabulary = options, vocabulary
        self.context = options.prompt + options.turns * (options.observation + options.response)

    async def play(self, answer: Answer) -> int:
        """Play all episodes at once, and return the number of sampled tokens."""
        return sum(await asyncio.gather(*(self._episode(k, answer) for k in range(self.options.concurrency))))

    async def _episode(self, k: int, answer: Answer) -> int:
        draw, prompt, sampled = random.Random(k), [], 0
        for turn in range(self.options.turns):
            new = self.options.observation if turn else self.options.prompt
            prompt += [draw.randrange(5, self.vocabulary - 5) for _ in range(new)]
            tokens = await answer(prompt, k, turn)
            prompt += tokens
            sampled += len(tokens)
        return sampled


def through_sampler(sampler: Sampler, load: Load) -> Callable[[], int]:
    async def answer(prompt: list[int], k: int, turn: int) -> Sequence[int]:
        request = Request(f"e{k}", turn, tuple(prompt), (), k, VIEW, max_tokens=load.options.response)
        return (await sampler.sample(request)).tokens

    return lambda: asyncio.run(load.play(answer))


def through_engine(sampler: Any, load: Load) -> Callable[[], int]:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    engine, numbers = sampler._engine._engine, itertools.count()

    async def answer(prompt: list[int], k: int, turn: int) -> Sequence[int]:
        sampling = SamplingParams(
            logprobs=0,
            max_tokens=load.options.response,
            seed=request_seed(k, turn),
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
        tokens = {"type": "token", "prompt_token_ids": list(prompt)}
        async for output in engine.generate(tokens, sampling, f"bare-{next(numbers)}"):
            last = output
        return list(last.outputs[0].token_ids)

    return lambda: sampler._engine._loop.call(load.play(answer))


def through_client(url: str, model: str, load: Load) -> Callable[[], int]:
    import httpx

    async def play() -> int:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(timeout=None, limits=limits) as client:

            async def answer(prompt: list[int], k: int, turn: int) -> Sequence[int]:
                body = {
                    "model": model,
                    "prompt": prompt,
                    "max_tokens": load.options.response,
                    "seed": request_seed(k, turn),
                    "logprobs": 1,
                    "return_token_ids": True,
                }
                response = await client.post(f"{url}/completions", json=body)
                return list(response.json()["choices"][0]["token_ids"])

            return await load.play(answer)

    return lambda: asyncio.run(play())


def compare(own: Callable[[], int], bare: Callable[[], int], rounds: int) -> dict[str, float]:
    """Return tokens a second of both, and the median of the rounds' ratios."""
    speeds: dict[str, list[float]] = {"sampler": [], "bare": []}
    for index in range(rounds + 1):
        for name, run in (("sampler", own), ("bare", bare)):
            start = time.perf_counter()
            tokens = run()
            if index:  # the first round warms up
                speeds[name].append(tokens / (time.perf_counter() - start))
    ratios = [one / other for one, other in zip(speeds["sampler"], speeds["bare"], strict=True)]
    return {name: statistics.median(values) for name, values in speeds.items()} | {"ratio": statistics.median(ratios)}


@contextmanager
def server(folder: Path, options: argparse.Namespace, context: int) -> Iterator[str]:
    """Start `turncredit serve model`, and yield its URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-c", "from turncredit.cli.main import main; main()", "serve", "model", str(folder)]
    command += ["--port", str(port), "--dtype", options.dtype, "--context", str(context)]
    command += ["--batch-size", str(options.concurrency), *options.engine]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            for _ in range(600):
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
                    break
                except (urllib.error.URLError, OSError):
                    if process.poll() is not None:
                        raise SystemExit("the server did not start") from None
                    time.sleep(1)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()
            process.wait(60)


def measure(folder: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    from turncredit.cli.options import parse_options

    load = Load(options, int(model_config(folder)["vocab_size"]))
    settings = SamplerSettings(
        model=str(folder),
        tokenizer=load_tokenizer(folder),
        dtype=options.dtype,
        context=load.context,
        concurrency=options.concurrency,
        options=parse_options(options.engine),
    )
    rows = []
    if "process" in options.parts:
        sampler = SAMPLERS.get("vllm")(settings)
        figures = compare(through_sampler(sampler, load), through_engine(sampler, load), options.rounds)
        rows.append({"engine": "in process", **figures})
        sampler.close()
    if "server" in options.parts:
        with server(folder, options, load.context) as url:
            served = SamplerSettings(
                model=str(folder), url=url, tokenizer=settings.tokenizer, options={"tokens": True}, concurrency=10**4
            )
            sampler = SAMPLERS.get("openai")(served)
            client = through_client(url, str(folder), load)
            rows.append({"engine": "server", **compare(through_sampler(sampler, load), client, options.rounds)})
            sampler.close()
    return rows


def tiny(folder: Path) -> None:
    from turncredit.training.learner.policy import build_policy, save_policy

    words = ["go to fridge 1, open it and take the mug", "you see a table with a book and two pens on it"]
    save_policy(*build_policy(words * 4, hidden=128, layers=4, heads=4, context=1024), folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", help="a Hugging Face model folder")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--prompt", type=int, default=200, help="tokens of the first prompt")
    parser.add_argument("--observation", type=int, default=32, help="new tokens of later prompts")
    parser.add_argument("--response", type=int, default=16, help="tokens of an answer")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--parts", nargs="+", default=["process", "server"], choices=["process", "server"])
    parser.add_argument("--engine", nargs="*", default=[], metavar="KEY=VALUE", help="arguments of vLLM's engine")
    parser.add_argument("--json", type=Path, help="where to write the numbers")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = options.folder or Path(place)
        if options.folder is None:
            tiny(folder)
        rows = measure(folder, options)
    table = Table(title=f"sampled tokens a second, {options.concurrency} episodes, {options.dtype}")
    for name in rows[0]:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*(f"{value:.2f}" if isinstance(value, float) else str(value) for value in row.values()))
    Console(width=100).print(table)
    print(json.dumps({"goal": GOAL, "rows": rows}))
    if options.json:
        options.json.write_text(json.dumps({"goal": GOAL, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""The seconds that vLLM takes to load new weights: through files in memory, and sent to its workers with gloo.

One engine for each way is started, and both load the same weights by turns. Needs vLLM; on a GPU the way of NCCL is not
measured here, since it needs a second one.

    python benchmarks/weights_vllm.py [--hidden 768] [--layers 12] [--dtype bfloat16] [--rounds 8] [--json PATH]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from pathlib import Path

from turnwise.agents.samplers.base import SamplerSettings
from turnwise.agents.samplers.vllm.sampler import VLLMSampler
from turnwise.training.learner.policy import build_policy, save_policy

WAYS = ("files", "gloo")


def main() -> None:
    """Start the engines, load by turns, and print the medians; the first load, which starts the group, apart."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    sizes = {"vocab": 2048, "hidden": options.hidden, "layers": options.layers, "heads": 12, "context": 256}
    model, tokenizer = build_policy(["a b c d"] * 9, **sizes)
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        save_policy(model, tokenizer, Path(folder))
        settings = {
            "model": folder,
            "tokenizer": tokenizer,
            "dtype": options.dtype,
            "kv_cache_gib": 0.125,
            "concurrency": 4,
        }
        samplers = {way: VLLMSampler(SamplerSettings(**settings, options={"transfer": way})) for way in WAYS}
        for number in range(options.rounds + 1):
            for way, sampler in samplers.items():
                started = time.perf_counter()
                asyncio.run(sampler.load(model, number))
                seconds[way].append(time.perf_counter() - started)
        for sampler in samplers.values():
            sampler.close()
    found = {way: {"first": times[0], "median": statistics.median(times[1:])} for way, times in seconds.items()}
    found["ratio"] = {
        "median": statistics.median(a / b for a, b in zip(*(seconds[way][1:] for way in WAYS), strict=True))
    }
    print(f"{model.num_parameters() / 1e6:.0f}M parameters, {options.dtype}")
    for way in WAYS:
        print(f"{way}: {found[way]['median']:.2f} s, the first {found[way]['first']:.2f} s")
    print(f"files / gloo: {found['ratio']['median']:.2f}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()

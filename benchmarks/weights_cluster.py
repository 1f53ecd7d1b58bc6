"""The seconds in which new weights reach an engine on a Ray cluster, in float32 and in the engine's bfloat16.

An actor stands for the engine, once on the learner's node and once on a second node with an object store of its own;
both nodes are on this machine, so their network is loopback. Both ways cut the same model into chunks, put them into
the object store, and copy them into the actor's model in bfloat16; they take turns. The same numbers arrive. Rounding
takes the learner's processor time here, and on a GPU none worth counting.

    python benchmarks/weights_cluster.py [--hidden 1024] [--layers 12] [--rounds 5] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ray
import torch
from ray.cluster_utils import Cluster

from turncredit.engines.cluster.weight_chunks import WeightChunk, join_chunks, split_weights
from turncredit.training.learner.policy import build_policy

WAYS = {"float32": "", "bfloat16": "bfloat16"}
NODES = ("same node", "other node")
STORE = 2 * 2**30


class EngineModel:
    """The weights of an engine, in bfloat16."""

    def __init__(self, shapes: dict[str, tuple[int, ...]]) -> None:
        """Make weights of these shapes."""
        self.weights = {name: torch.zeros(shape, dtype=torch.bfloat16) for name, shape in shapes.items()}

    def load(self, *chunks: WeightChunk) -> float:
        """Copy the weights of all chunks, and return their sum."""
        for name, tensor in join_chunks(chunks).items():
            self.weights[name].copy_(tensor)
        return float(sum(weight.double().sum() for weight in self.weights.values()))


def send(model: Any, actor: Any, dtype: str) -> tuple[float, int, float]:
    """Return the seconds of one way, its bytes, and the sum of the weights that arrived."""
    started = time.perf_counter()
    references, size = [], 0
    for chunk in split_weights(model, dtype=dtype):
        size += chunk.size
        references.append(ray.put(chunk))
    total = ray.get(actor.load.remote(*references))
    return time.perf_counter() - started, size, total


def measure(model: Any, node: str, rounds: int) -> dict[str, Any]:
    """Return bytes and median seconds of both ways to an engine on a node."""
    shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    actor: Any = ray.remote(EngineModel).options(resources={node: 1}).remote(shapes)
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    sizes_sent: dict[str, int] = {}
    sums = set()
    for _ in range(rounds + 1):
        for way, dtype in WAYS.items():
            taken, sizes_sent[way], total = send(model, actor, dtype)
            seconds[way].append(taken)
            sums.add(total)
    assert len(sums) == 1, "both ways must bring the same numbers"
    ways = {way: {"bytes": sizes_sent[way], "seconds": _median(times)} for way, times in seconds.items()}
    ratios = [before / after for before, after in zip(*(seconds[way][1:] for way in WAYS), strict=True)]
    return {"ways": ways, "ratio": statistics.median(ratios)}


def _median(times: Sequence[float]) -> float:
    return statistics.median(times[1:])  # the first starts the workers


def main() -> None:
    """Start a cluster, measure, and print both ways."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    sizes = {"vocab": 2048, "hidden": options.hidden, "layers": options.layers, "heads": 16, "context": 256}
    model, _ = build_policy(["a b c d"] * 9, **sizes)
    cluster = Cluster()
    try:
        for node in NODES:
            cluster.add_node(num_cpus=1, resources={node: 1}, object_store_memory=STORE)
            if node == NODES[0]:
                ray.init(address=cluster.address, log_to_driver=False)
        results = {node: measure(model, node, options.rounds) for node in NODES}
    finally:
        ray.shutdown()
        cluster.shutdown()
    print(f"{model.num_parameters() / 1e6:.0f}M parameters")
    for node, result in results.items():
        for way, numbers in result["ways"].items():
            print(f"{node}, {way}: {numbers['bytes'] / 2**20:.0f} MiB in {numbers['seconds']:.2f} s")
        print(f"{node}, float32 / bfloat16: {result['ratio']:.2f}")
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()

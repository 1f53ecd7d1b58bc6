"""What rank 0 sends of a batch to the other ranks: its bytes, and the processor time of packing and unpacking them.

Random batches stand for an update of 64 episodes: with a window prompt, where each turn is a row of its own, and as
conversations. They are pickled as plain arrays, and as a batch pickles itself.

    python benchmarks/batch_bytes.py
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from dataclasses import fields

import numpy as np

from turnwise.training.batch.batch import Batch

SHAPES = {
    "64 episodes of 20 turns with a window": (1280, 1200, 100, 3072),
    "64 conversations": (64, 2500, 1200, 8192),
}
"""Rows, tokens of a row (mean), sampled tokens of each, and the longest row."""


def random_batch(rows: int, mean: int, sampled: int, longest: int) -> Batch:
    """Return a batch whose rows end with what was sampled."""
    rng = np.random.default_rng(0)
    lengths = np.clip(rng.gamma(4, mean / 4, rows).astype(np.int64), sampled + 2, longest)
    places = np.arange(int(lengths.max()))
    inside = places < lengths[:, None]
    mask = inside & (places >= lengths[:, None] - sampled)
    old = np.where(mask, -rng.exponential(1, mask.shape), 0.0)
    return Batch(
        tokens=np.where(inside, rng.integers(0, 150_000, mask.shape), 0),
        lengths=lengths,
        mask=mask,
        old=old,
        advantages=np.where(mask, rng.normal(size=(rows, 1)), 0.0),
        trajectory=np.arange(rows) // 20,
        turn=np.where(mask, np.arange(rows)[:, None], -1),
        version=np.where(mask, 3, -1),
        turns=tuple((f"task{row // 20}#{row % 8}", row % 20) for row in range(rows)),
        reference=old * 1.01,
    )


def processor_seconds(work: Callable[[], object]) -> float:
    """Return the processor time of some work."""
    started = time.process_time()
    work()
    return time.process_time() - started


def main() -> None:
    """Print one line for each batch and form."""
    for name, shape in SHAPES.items():
        batch = random_batch(*shape)
        plain = {field.name: getattr(batch, field.name) for field in fields(batch)}
        print(f"{name}: {batch.size:,} tokens in {batch.tokens.size:,} places, {int(batch.mask.sum()):,} sampled")
        for form, value in (("arrays", plain), ("batch", batch)):
            data = pickle.dumps(value, protocol=5)
            packing = processor_seconds(lambda value=value: pickle.dumps(value, protocol=5))  # type: ignore[misc]
            unpacking = processor_seconds(lambda data=data: pickle.loads(data))  # type: ignore[misc]
            print(f"  {form:<7} {len(data) / 2**20:7.1f} MiB  {packing:.2f} s to pack, {unpacking:.2f} s to unpack")


if __name__ == "__main__":
    main()

"""What rank 0 sends of a batch to the other ranks: its bytes, and the processor time of packing and unpacking them.

Random batches stand for an update of 64 episodes: with a window prompt, where each turn is a row of its own; as
conversations; and as conversations with screens, or with the experts of a mixture (48 layers, 8 experts). They are
pickled as plain arrays, as a batch pickles itself, and as it is dealt to several ranks: the largest part of a rank, and
all parts together. A batch of demonstrations is dealt for a warm start of one epoch and of three, whose order differs.

    python benchmarks/batch_bytes.py
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from dataclasses import fields, replace

import numpy as np

from turncredit.agents.content import ImagePart
from turncredit.training.batch.batch import Batch
from turncredit.training.batch.cutting import Cutting
from turncredit.training.config.sections import ImitationSection
from turncredit.training.imitation.imitation import imitation_steps
from turncredit.training.learner.dealt_batch import DealtBatch
from turncredit.training.learner.gradient import with_gradient
from turncredit.training.learner.learner import split_minibatches
from turncredit.training.objectives.run_objective import Objective

SHAPES = {
    "64 episodes of 20 turns with a window": (1280, 1200, 100, 3072),
    "64 conversations": (64, 2500, 1200, 8192),
}
"""Rows, tokens of a row (mean), sampled tokens of each, and the longest row."""
STEP = 32768
"""Tokens of an optimizer step of a warm start."""


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


def with_screens(batch: Batch, screens: int = 10, size: int = 224) -> Batch:
    """Return a batch whose rows show screens, which do not compress."""
    rng = np.random.default_rng(1)
    return replace(
        batch,
        images=tuple(
            tuple(ImagePart(rng.integers(0, 256, (size, size, 3), np.uint8)) for _ in range(screens))
            for _ in batch.lengths
        ),
    )


def with_experts(batch: Batch, layers: int = 48, top: int = 8) -> Batch:
    """Return a batch with the experts of each token."""
    rng = np.random.default_rng(2)
    return replace(
        batch,
        experts=tuple(rng.integers(0, 128, (length - 1, layers, top), np.uint8) for length in batch.lengths.tolist()),
    )


def dealt(batch: Batch, ranks: int) -> list[int]:
    """Return the bytes that each rank but the first receives for an update."""
    cuts = split_minibatches(batch, 2, 0)
    parts = [(index, with_gradient(batch.rows(index), Objective())) for index in cuts]
    whole = DealtBatch.of(batch, parts, Cutting(), ranks)
    return [len(pickle.dumps(whole.part(rank), protocol=5)) for rank in range(1, ranks)]


def imitated(batch: Batch, ranks: int, epochs: int) -> list[int]:
    """Return the bytes that each rank but the first receives for a warm start."""
    steps = imitation_steps(batch.lengths, ImitationSection(epochs=epochs, batch_tokens=STEP), 0)
    whole = DealtBatch.of(batch, [(index, batch.rows(index)) for _, index in steps], Cutting(), ranks)
    return [len(pickle.dumps(whole.part(rank), protocol=5)) for rank in range(1, ranks)]


def processor_seconds(work: Callable[[], object]) -> float:
    """Return the processor time of some work."""
    started = time.process_time()
    work()
    return time.process_time() - started


def main() -> None:
    """Print one line for each batch and form."""
    batches = {name: random_batch(*shape) for name, shape in SHAPES.items()}
    conversations = batches["64 conversations"]
    batches["64 conversations with 10 screens of 224 x 224"] = with_screens(conversations)
    batches["64 conversations with experts"] = with_experts(conversations)
    for name, batch in batches.items():
        plain = {field.name: getattr(batch, field.name) for field in fields(batch)}
        print(f"{name}: {batch.size:,} tokens in {batch.tokens.size:,} places, {int(batch.mask.sum()):,} sampled")
        for form, value in (("arrays", plain), ("batch", batch)):
            data = pickle.dumps(value, protocol=5)
            packing = processor_seconds(lambda value=value: pickle.dumps(value, protocol=5))  # type: ignore[misc]
            unpacking = processor_seconds(lambda data=data: pickle.loads(data))  # type: ignore[misc]
            print(f"  {form:<7} {len(data) / 2**20:7.1f} MiB  {packing:.2f} s to pack, {unpacking:.2f} s to unpack")
        for ranks in (2, 4, 8):
            sizes = dealt(batch, ranks)
            most, total = max(sizes) / 2**20, sum(sizes) / 2**20
            print(f"  {ranks} ranks {most:7.1f} MiB to each of {ranks - 1}, {total:7.1f} MiB in all")
            epochs = {epochs: max(imitated(batch, ranks, epochs)) / 2**20 for epochs in (1, 3)}
            sizes_of_imitation = ", ".join(f"{size:.1f} MiB for {number}" for number, size in epochs.items())
            print(f"          imitation, epochs: {sizes_of_imitation}")


if __name__ == "__main__":
    main()

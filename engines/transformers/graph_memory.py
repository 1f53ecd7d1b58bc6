"""The memory that captured CUDA graphs of the sampler hold on a GPU, from the sizes of its model.

All captures share one pool, so what a pass computes on its way is there once, for the most tokens; only the logits that
a capture returns stay. A cuBLAS workspace belongs to the stream of the captures. What CUDA itself keeps for each launch
of a graph is not counted.
"""

from __future__ import annotations

from turncredit.agents.json_types import JsonObject
from turncredit.agents.model_facts import BYTES
from turncredit.engines.transformers.pass_planning import PREFILL_TOKENS

__all__ = ["WORKSPACE", "graph_bytes"]

WORKSPACE = 32 * 2**20
"""Bytes of the workspace that torch gives cuBLAS for each stream of a Hopper GPU; others have a quarter of it."""


def graph_bytes(config: JsonObject, rows: int, dtype: str) -> int:
    """Return the bytes of the captures for 1, 2, 4, ... T new tokens, of which at most R end a row.

    With R rows, rounded up to a power of two, T = `PREFILL_TOKENS` or R if that is more, b the bytes of a number, h the
    hidden size, f the width of the feed-forward layers and V the vocabulary: b (T (6 h + 3 f) + R V) on the way,
    b V (2 R - 1 + R log2(T / R)) in results, and `WORKSPACE`.

    Args:
        config: of the model, as in its config.json.
        rows: requests that are answered at once, at most.
        dtype: of the weights: float32, bfloat16 or float16.
    """
    text = {**config, **(config.get("text_config") or {})}
    hidden, words = int(text["hidden_size"]), int(text["vocab_size"])
    wide = int(text.get("intermediate_size") or 4 * hidden)
    most = 1 << max(0, rows - 1).bit_length()
    tokens = max(PREFILL_TOKENS, most)
    larger = (tokens // most).bit_length() - 1  # captures with more tokens than rows
    results = words * (2 * most - 1 + larger * most)
    return BYTES[dtype] * (tokens * (6 * hidden + 3 * wide) + most * words + results) + WORKSPACE

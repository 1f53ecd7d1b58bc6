"""Rotary position encodings that depend on the longest row of a batch.

Two types of transformers choose the rotary factors of all positions of all rows by the longest row: "dynamic" (NTK) and
"longrope" (Phi-3.5, Phi-4-mini). Beside a long row, a short one then has other log-probabilities than alone, and a
token has others than when it was sampled. Up to a number of tokens the factors are always the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from turncredit.agents.json_types import JsonObject


@dataclass(frozen=True, slots=True)
class RotaryLimit:
    """Up to where the rotary factors of a model do not depend on the other rows.

    Attributes:
        kind: the type, as transformers names it.
        tokens: length of the longest row with the same factors as all shorter ones.
    """

    kind: str
    tokens: int

    def sentence(self) -> str:
        """Return what is wrong with longer rows."""
        return (
            f"the position encoding of this model ({self.kind}) changes for a whole batch as soon as one row is longer "
            f"than {self.tokens} tokens, so that log-probabilities would depend on what is computed together"
        )


def rotary_limit(config: Any) -> RotaryLimit | None:
    """Return up to where a model's rotary factors are the same for every batch; None: everywhere.

    Args:
        config: configuration of the model, as transformers has it.
    """
    text = config.get_text_config()
    limits = [_limit(text, str(table.get("rope_type", table.get("type")) or ""), table) for table in _tables(text)]
    return min((limit for limit in limits if limit is not None), key=lambda limit: limit.tokens, default=None)


def _tables(text: Any) -> Iterator[JsonObject]:
    """Yield the parameters of a model's rotary encodings, which may differ by the type of the layer."""
    for name in ("rope_parameters", "rope_scaling"):
        table = getattr(text, name, None)
        if isinstance(table, Mapping):
            yield table
            yield from (part for part in table.values() if isinstance(part, Mapping))


def _limit(text: Any, kind: str, table: JsonObject) -> RotaryLimit | None:
    positions = int(getattr(text, "max_position_embeddings", 0) or 0)
    if "dynamic" in kind:
        return RotaryLimit(kind, positions)
    if kind in ("longrope", "su"):
        own = getattr(text, "original_max_position_embeddings", None)
        return RotaryLimit(kind, int(own or table.get("original_max_position_embeddings") or positions))
    return None

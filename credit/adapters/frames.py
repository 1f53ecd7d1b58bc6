"""The table of turns from a pandas or polars frame, and advantages back into one.

Left out on purpose: importing either. A frame is known by what it can do, and so neither is needed for the other.
"""

import difflib
from collections.abc import Mapping
from typing import Any

import numpy as np

from turnwise.credit.advantages import Advantages
from turnwise.credit.errors import BadTable, near
from turnwise.credit.steps import MEANING, REQUIRED, Steps

KEYS = ("state", "action", "next_state", "role", "tree", "parent", "label")


def from_frame(frame: Any, columns: Mapping[str, str | list[str]] | None = None) -> Steps:
    """Return the table of a frame with one row a turn.

    Columns that are not of the table are left alone, unless they are so near to one's name that they must be a slip.

    Args:
        frame: a pandas or polars DataFrame.
        columns: for columns with other names, the table's name and the frame's: `{"task": "uid"}`. For `multi` and
            `metric` a list of several columns will do.

    Raises:
        BadTable: something that is no frame, a column that is not there, a missing value where there must be one
            (in keys such as `state` it is a key of its own).
    """
    if not hasattr(frame, "__len__") or not hasattr(frame, "columns"):
        hint = "; collect it first" if hasattr(frame, "collect") else ""
        raise BadTable(f"from_frame takes a pandas or polars DataFrame; came {type(frame).__name__}{hint}")
    names = dict(columns or {})
    for name in names:
        if name not in MEANING:
            raise BadTable(f"{name!r} is not a column of the table of turns; {near(name, MEANING)}")
    there = [str(name) for name in frame.columns]
    wanted = {name: names.get(name, name) for name in MEANING if name in names or name in there}
    _refuse_slips(there, wanted)
    found = {name: _column(frame, there, name, source) for name, source in wanted.items()}
    for name in REQUIRED:
        if name not in found:
            raise BadTable(
                f"the frame has no column {name!r} ({MEANING[name]}); it has: {', '.join(there)}. "
                f"Say which one it is: columns={{{name!r}: ...}}"
            )
    return Steps.from_columns(**found)


def with_advantages(frame: Any, advantages: Advantages, name: str = "advantage", *, parts: bool = False) -> Any:
    """Return the frame with the advantage of each row, and whether and how much the row is to count in the loss.

    Args:
        frame: the DataFrame of which the table was made; it is not changed.
        advantages: of its table.
        name: of the new column; `keep` and `weight` come as NAME_keep and NAME_weight.
        parts: add the terms as well, as NAME_TERM.

    Raises:
        BadTable: the frame has another number of rows.
    """
    if len(frame) != len(advantages):
        raise BadTable(f"the frame has {len(frame)} rows, the advantages are of {len(advantages)}")
    new = {name: advantages.values, f"{name}_keep": advantages.keep, f"{name}_weight": advantages.weight}
    if parts:
        new |= {f"{name}_{part}": column for part, column in advantages.parts.items()}
    return frame.assign(**new) if hasattr(frame, "assign") else frame.with_columns(**new)


def _column(frame: Any, there: list[str], name: str, source: str | list[str]) -> Any:
    if isinstance(source, list):
        return np.column_stack([_column(frame, there, name, one) for one in source])
    if source not in there:
        raise BadTable(f"the frame has no column {source!r} for {name!r}; {near(source, there)}")
    series = frame[source]
    gaps = np.asarray(series.isna() if hasattr(series, "isna") else series.is_null())
    if gaps.any() and name not in KEYS:
        raise BadTable(
            f"column {source!r} ({MEANING[name]}) has no value in {int(gaps.sum())} rows, the first is "
            f"{int(np.argmax(gaps))}"
        )
    array = series.to_numpy()
    if array.dtype.kind in "biuf" and not gaps.any():
        return array
    values = series.to_list()
    return [None if gap else value for value, gap in zip(values, gaps.tolist(), strict=True)]


def _refuse_slips(there: list[str], wanted: Mapping[str, Any]) -> None:
    """`vaild` would silently bring no penalty."""
    used = {one for source in wanted.values() for one in (source if isinstance(source, list) else [source])}
    for column in set(there) - used - MEANING.keys():
        close = difflib.get_close_matches(column, MEANING.keys() - wanted.keys(), n=1, cutoff=0.8)
        if close:
            raise BadTable(f"the frame has a column {column!r}, which the table has not; did you mean {close[0]!r}?")

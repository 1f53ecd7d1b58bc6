"""The table of turns from a pandas or polars frame, and advantages back into one."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.columns import COLUMNS, KEYS, REQUIRED, check_spelling, described
from turncredit.credit.errors import BadTable
from turncredit.credit.steps import Steps
from turncredit.registry import suggest


def from_frame(frame: Any, columns: Mapping[str, str | list[str]] | None = None) -> Steps:
    """Return the table of a frame with one row a turn.

    Columns without a fixed meaning become columns of the caller's own.

    Args:
        frame: a pandas or polars DataFrame.
        columns: where the frame uses other names, the name in `Steps` and the frame's: `{"task": "uid"}`. `multi` and
            `metric` accept a list of frame columns.

    Raises:
        BadTable: `frame` is not a DataFrame, a column is missing or has a misspelled name, or a number is missing (a
            missing key, such as a state, is its own key).
    """
    if not hasattr(frame, "__len__") or not hasattr(frame, "columns"):
        hint = "; collect it first" if hasattr(frame, "collect") else ""
        raise BadTable(f"from_frame expects a pandas or polars DataFrame, got {type(frame).__name__}{hint}")
    names = dict(columns or {})
    for name in names:
        if name not in COLUMNS:
            raise BadTable(f"unknown column {name!r}{suggest(name, COLUMNS)}")
    there = [str(name) for name in frame.columns]
    renamed = {one for source in names.values() for one in (source if isinstance(source, list) else [source])}
    wanted = {**{name: name for name in there if name not in renamed}, **names}
    check_spelling(wanted)
    for name in REQUIRED:
        if name not in wanted:
            raise BadTable(
                f"the frame has no column {described(name)}; it has: {', '.join(there)}. "
                f"Name the right one: columns={{{name!r}: ...}}"
            )
    found = {name: _column(frame, there, name, source) for name, source in wanted.items()}
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
        raise BadTable(f"the frame has {len(frame)} rows, but there are {len(advantages)} advantages")
    new = {name: advantages.values, f"{name}_keep": advantages.keep, f"{name}_weight": advantages.weight}
    if parts:
        new |= {f"{name}_{part}": column for part, column in advantages.parts.items()}
    return frame.assign(**new) if hasattr(frame, "assign") else frame.with_columns(**new)


def _column(frame: Any, there: list[str], name: str, source: str | list[str]) -> Any:
    if isinstance(source, list):
        return np.column_stack([_column(frame, there, name, one) for one in source])
    if source not in there:
        raise BadTable(f"the frame has no column {source!r} for {name!r}{suggest(source, there)}")
    series = frame[source]
    gaps = np.asarray(series.isna() if hasattr(series, "isna") else series.is_null())
    if gaps.any() and name in COLUMNS and (name in REQUIRED or name not in KEYS):
        raise BadTable(
            f"column {source!r} ({COLUMNS[name].meaning}) has no value in {int(gaps.sum())} rows, "
            f"the first is row {int(np.argmax(gaps))}"
        )
    array = series.to_numpy()
    if array.dtype.kind in "biuf" and not gaps.any():
        return array
    values = series.to_list()
    return [None if gap else value for value, gap in zip(values, gaps.tolist(), strict=True)]

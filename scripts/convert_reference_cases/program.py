"""The program: reads a file of an older form, writes one of the new form.

Exit code 1 if a case was left out, 2 if there is no result.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from convert_reference_cases.common import UnreadableCase
from convert_reference_cases.losses import batch_of, loss_cases
from convert_reference_cases.named import named_cases
from convert_reference_cases.names import Values
from convert_reference_cases.rows import rows_cases
from turncredit.cli.console import warn
from turncredit.cli.errors import UserError, sentence_of
from turncredit.cli.reference.cases import FORMAT


def convert(content: Any) -> tuple[Values, list[str]]:
    """Return a file in the canonical form, and one line for each case that was left out.

    Raises:
        UserError: the content has none of the older forms.
    """
    cases = content if isinstance(content, list) else content.get("cases") if isinstance(content, Mapping) else None
    head = content if isinstance(content, Mapping) else {}
    keys = {key for raw in cases or () if isinstance(raw, Mapping) for key in raw}
    tables: Values = {}
    each: Callable[[Mapping[str, Any]], list[Values]]
    if isinstance(cases, list) and isinstance(head.get("batches"), list):
        batches = {batch["id"]: batch_of(batch) for batch in head["batches"]}
        limits, each = (1e-6, 1e-8), lambda raw: loss_cases(raw, batches, tables)
    elif isinstance(cases, list) and keys & {"steps", "params"}:
        limits, each = (1e-4, 1e-5), lambda raw: rows_cases(raw, tables)
    elif isinstance(cases, list) and "inputs" in keys:
        limits, each = (1e-6, 1e-6), named_cases
    else:
        raise UserError("expected cases with 'params' and 'steps', with 'inputs', or with 'batch_id' beside 'batches'")
    out, left_out = [], []
    for number, raw in enumerate(cases):
        try:
            if not isinstance(raw, Mapping) or not isinstance(raw.get("name"), str):
                raise UnreadableCase("it is not an object with a name")
            converted = each(raw)
            if not any(case["expected"] for case in converted):
                raise UnreadableCase("it has no expected results")
            out += converted
        except (UnreadableCase, TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
            reason = error if isinstance(error, UnreadableCase) else f"{type(error).__name__}: {error}"
            left_out.append(f"case {number} ({raw.get('name') if isinstance(raw, Mapping) else raw!r}): {reason}")
    tolerance = dict(zip(("relative", "absolute"), limits, strict=True))
    about = {"format": FORMAT, "source": head.get("source"), "tolerance": tolerance}
    return {**about, "tables": tables, "cases": out}, left_out


def as_text(content: Values) -> str:
    """Return a file as JSON with one line per table and case."""
    text = json.dumps({**content, "tables": {}, "cases": []}, ensure_ascii=False)
    tables = (f"{json.dumps(name)}: {_compact(table)}" for name, table in content["tables"].items())
    text = text.replace('"tables": {}', '"tables": {\n' + ",\n".join(tables) + "\n}")
    return text.removesuffix("[]}") + "[\n" + ",\n".join(map(_compact, content["cases"])) + "\n]}\n"


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def main(arguments: Sequence[str]) -> int:
    """Convert a file and return the exit code."""
    if len(arguments) != 2:
        warn("usage: python scripts/convert_reference_cases OLD.json NEW.json")
        return 2
    old, new = map(Path, arguments)
    try:
        content, left_out = convert(json.loads(old.read_text(encoding="utf-8")))
        new.write_text(as_text(content), encoding="utf-8", errors="backslashreplace")
    except (OSError, ValueError, UserError) as error:
        warn(f"{old}: {sentence_of(error) or error}")
        return 2
    for line in left_out:
        warn(f"left out: {line}")
    warn(f"{len(content['cases'])} cases in {new}")
    return 1 if left_out else 0

"""Files of vectors: which of the four schemas one has, and a verdict for every case in it.

Left out on purpose: printing (`turnwise.cli.verify`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from turnwise.cli.errors import UserError
from turnwise.cli.vectors import estimators, losses, rows
from turnwise.cli.vectors.case import Malformed, Measure, Unimplemented, Verdict, judged

Function = Callable[..., Any]
Job = tuple[str, Callable[[Function | None], Verdict]]
"""A method, and what gives the verdict of one of its cases."""


@dataclass(frozen=True, slots=True)
class Vectors:
    """A file of vectors: its cases as jobs, in their order."""

    path: Path
    measure: Measure
    jobs: tuple[Job, ...]

    @property
    def methods(self) -> list[str]:
        """The methods, in order of appearance."""
        return list(dict.fromkeys(method for method, _ in self.jobs))

    def verdicts(self, method: str | None, function: Function | None) -> Iterator[Verdict]:
        """Give the verdict of every case.

        Args:
            method: only cases of it.
            function: takes the place of ours.
        """
        for name, judge in self.jobs:
            if method in (None, name):
                yield judge(function)


def read_vectors(path: Path) -> Vectors:
    """Return the vectors of a file.

    Raises:
        UserError: it is no JSON, has none of the schemas, or holds no case.
        OSError: it cannot be read.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not JSON: {str(error).splitlines()[0][:120]}.") from error
    cases = content if isinstance(content, list) else content.get("cases") if isinstance(content, Mapping) else None
    if not isinstance(cases, list):
        raise UserError(f"{path} holds no vectors: a list of cases was wanted, or an object with 'cases'.")
    if not cases:
        raise UserError(f"{path} holds no case.")
    if isinstance(content, Mapping) and "batches" in content:
        return Vectors(path, losses.MEASURE, tuple(_each(cases, _losses(path, content["batches"]))))
    if any(isinstance(case, Mapping) and ("steps" in case or "params" in case) for case in cases):
        return Vectors(path, rows.MEASURE, tuple(_each(cases, _rows)))
    if any(isinstance(case, Mapping) and "inputs" in case for case in cases):
        return Vectors(path, estimators.MEASURE, tuple(_each(cases, _estimator)))
    raise UserError(
        f"{path} has none of the schemas of docs/vectors.md: cases have 'params' and 'steps', or 'inputs', "
        "or 'batch_id' beside 'batches'."
    )


def _each(cases: list[Any], jobs: Callable[[Mapping[str, Any]], Iterator[Job]]) -> Iterator[Job]:
    """The jobs of every case; one that is no object with a name is a line of its own."""
    for number, case in enumerate(cases):
        if isinstance(case, Mapping) and isinstance(case.get("name"), str):
            yield from jobs(case)
        else:
            yield _unreadable(f"case {number}", "it is not an object with a name")


def _unreadable(name: str, reason: str) -> Job:
    def raises() -> NoReturn:
        raise Malformed(reason)

    def judge(function: Function | None) -> Verdict:
        return judged(name, name, rows.MEASURE, noise=False, foreign=False, compute=raises)

    return name, judge


def _losses(path: Path, batches: object) -> Callable[[Mapping[str, Any]], Iterator[Job]]:
    if not isinstance(batches, list) or not all(isinstance(batch, Mapping) and "id" in batch for batch in batches):
        raise UserError(f"{path}: batches must be a list of objects with an id.")
    by_id = {batch["id"]: batch for batch in batches}

    def jobs(case: Mapping[str, Any]) -> Iterator[Job]:
        yield case["name"], partial(losses.verify, case, by_id)

    return jobs


def _rows(case: Mapping[str, Any]) -> Iterator[Job]:
    if not isinstance(case.get("params"), Mapping) or not isinstance(case.get("expected"), Mapping):
        yield _unreadable(case["name"], "its 'params' and 'expected' must be objects")
        return
    for method in rows.methods(case):
        yield method, partial(rows.verify, case, method)


def _estimator(case: Mapping[str, Any]) -> Iterator[Job]:
    try:
        method = estimators.method_of(case["name"])
    except Unimplemented:
        method = case["name"]
    yield method, partial(estimators.verify, case)

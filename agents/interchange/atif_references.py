"""Documents of ATIF that refer to others beside them: a continuation, and the trajectories of subagents.

An agent whose context was summarized goes on in another file, which the document names as `continued_trajectory_ref`.
The steps that made the summary are trajectories of subagents, named in `subagent_trajectory_ref` of an observation.
Only files of the same folder are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from turncredit.agents.json_types import JsonObject
from turncredit.tools.bounded_input import MAX_LINE, InputError, read_json, read_text, require_no_link

__all__ = ["CONTINUED", "continued", "has_subagents", "referenced_files"]

_MARK: Final = "_trajectory_ref"
CONTINUED: Final = "continued_trajectory_ref"
_SUBAGENTS: Final = "subagent_trajectory_ref"


def referenced_files(files: Sequence[Path]) -> frozenset[Path]:
    """Return those of some files to which others of them refer; a file that cannot be read refers to none."""
    referenced: set[Path] = set()
    for file in files:
        try:
            document = read_json(file, max_bytes=MAX_LINE) if _MARK in read_text(file, max_bytes=MAX_LINE) else None
        except InputError:
            continue  # who reads the file says so
        names = _references(document) if isinstance(document, Mapping) else iter(())
        with suppress(InputError):  # of a link
            referenced |= {beside for name in names if (beside := _beside(file, name)) is not None}
    return frozenset(referenced & set(files))


def continued(document: object, file: Path, check: Callable[[object], object]) -> object:
    """Return a document with the steps of those that continue it; metrics and `CONTINUED` are those of the last one.

    Args:
        document: as read.
        file: where it lies; a continuation that does not lie beside it is left out.
        check: raises an InputError for a continuation that is no document.

    Raises:
        InputError: a continuation is damaged, or continues itself.
    """
    seen, whole = {file}, document
    while isinstance(document, Mapping) and isinstance(whole, Mapping):
        beside = _beside(file, document.get(CONTINUED))
        if beside is None:
            break
        if beside in seen:
            raise InputError(f"{beside.name} continues itself")
        seen.add(beside)
        document = read_json(beside, max_bytes=MAX_LINE)
        if not isinstance(document, Mapping) or not isinstance(document.get("steps"), list):
            raise InputError(f"{beside.name}, which continues it, is no ATIF document")
        try:
            check(document)
        except InputError as error:
            raise InputError(f"{beside.name}, which continues it: {error}") from error
        steps = [*(whole.get("steps") or []), *document["steps"]]
        newest = {name: document.get(name) for name in ("final_metrics", CONTINUED)}
        whole = {**whole, **newest, "steps": steps}
    return whole


def has_subagents(step: JsonObject) -> bool:
    """Return whether a step refers to trajectories of subagents."""
    return any(True for _ in _subagents(step))


def _references(document: JsonObject) -> Iterator[object]:
    yield document.get(CONTINUED)
    steps = document.get("steps")
    for step in steps if isinstance(steps, list) else []:
        if isinstance(step, Mapping):
            yield from (entry.get("trajectory_path") for entry in _subagents(step))


def _subagents(step: JsonObject) -> Iterator[JsonObject]:
    observation = step.get("observation")
    results = observation.get("results") if isinstance(observation, Mapping) else None
    for result in results if isinstance(results, list) else []:
        entries = result.get(_SUBAGENTS) if isinstance(result, Mapping) else None
        yield from (entry for entry in (entries if isinstance(entries, list) else []) if isinstance(entry, Mapping))


def _beside(file: Path, name: object) -> Path | None:
    """Return the file of a name in the same folder, if there is one.

    Raises:
        InputError: it is a link, which may lead to any file of the machine.
    """
    if not isinstance(name, str) or not name or Path(name).name != name:
        return None
    beside = require_no_link(file.with_name(name))
    return beside if beside.is_file() else None

"""The data of a report as parts with a revision each, so that a page can ask for what is new.

    run              name, settings, versions, notes
    event/NUMBER     one event of metrics.jsonl
    evaluation/NAME  one evaluation, episode by episode
    iteration/NUMBER outcomes of the episodes of one iteration

Everything that is whole is read; what is not is named in a note. Nothing outside of the run's folder is read, and
nothing is written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnwise.cli.errors import UserError
from turnwise.cli.run_folders import RUN_FILE
from turnwise.cli.run_report import iterations

if TYPE_CHECKING:
    from turnwise.cli.credit_settings import CreditSettings
    from turnwise.cli.run_report.iterations import Iteration

Stamp = tuple[int, int]
"""Time of the last change and size of a file."""
_QUIET = ("setup",)
"""Phases whose events the page does not show."""


@dataclass(frozen=True, slots=True)
class RevisedPart:
    """One part and the revision in which it changed last."""

    revision: int
    value: Any


class RunData:
    """Reads a run's folder, or one file of trajectories, and remembers what has changed.

    Args:
        path: the folder or the file.
        settings: the credit rules; None: no advantages.
        against: folders of other runs, whose evaluations are added.

    Raises:
        UserError: there is nothing to report at the path.
    """

    def __init__(self, path: Path, settings: CreditSettings | None, against: tuple[Path, ...] = ()) -> None:
        self.path, self.settings, self.against = path, settings, against
        self.revision = 0
        self._cut = 0  # the revision in which a part has last gone
        self.parts: dict[str, RevisedPart] = {}
        self._stamps: dict[Path, Stamp] = {}
        if not path.exists():
            raise UserError(f"{path} does not exist; expected the folder of a run, or a file of trajectories")
        if path.is_dir() and not any((path / name).exists() for name in (RUN_FILE, "metrics.jsonl", "trajectories")):
            raise UserError(f"{path} holds no run: it has neither {RUN_FILE} nor metrics.jsonl nor trajectories/")

    def files(self) -> dict[int, Path]:
        """Return the files of trajectories by iteration."""
        if not self.path.is_dir():
            return {0: self.path}
        found = {}
        for file in sorted((self.path / "trajectories").glob("[0-9]*.jsonl*")):
            number = file.name.partition(".")[0]
            if number.isascii() and number.isdigit() and file.is_file():
                found[int(number)] = file
        return found

    def read(self, number: int) -> Iteration:
        """Return the episodes of one iteration.

        Raises:
            KeyError: the run has no such iteration.
        """
        return iterations.read(self.files()[number], number)

    def refresh(self) -> None:
        """Read what has changed since the last call."""
        found: dict[str, Any] = {}
        notes: list[str] = []
        files = self.files()
        for number, file in files.items():
            key = f"iteration/{number}"
            if self._changed(file) or key not in self.parts:
                found[key] = iterations.summary(iterations.read(file, number))
            else:
                found[key] = self.parts[key].value
            notes += found[key]["notes"]
        if self.path.is_dir():
            self._read_events(found)
            self._read_evaluations(self.path, "", found, notes)
        for other in self.against:
            self._read_evaluations(other, f"{other.name}: ", found, notes)
        found["run"] = describe(self.path, self.settings, notes, bool(files))
        self._store(found)

    def since(self, revision: int) -> dict[str, Any]:
        """Return the parts that changed after a revision; all of them if a part has gone since.

        Args:
            revision: what the reader has; 0, or a revision that this object never had: nothing.
        """
        start = revision if self._cut <= revision <= self.revision else 0
        changed = {name: part.value for name, part in self.parts.items() if part.revision > start}
        return {"revision": self.revision, "from": start, "parts": changed}

    def _store(self, found: Mapping[str, Any]) -> None:
        gone = self.parts.keys() - found.keys()
        changed = [name for name, value in found.items() if name not in self.parts or self.parts[name].value != value]
        if not changed and not gone:
            return
        self.revision += 1
        for name in gone:
            del self.parts[name]
            self._cut = self.revision
        for name in changed:
            self.parts[name] = RevisedPart(self.revision, found[name])

    def _changed(self, file: Path) -> bool:
        try:
            status = file.stat()
        except OSError:
            return True
        stamp = (status.st_mtime_ns, status.st_size)
        return self._stamps.get(file) != stamp or self._stamps.update({file: stamp}) is not None

    def _read_events(self, found: dict[str, Any]) -> None:
        from turnwise.training.metrics import read_events

        for number, event in enumerate(read_events(self.path / "metrics.jsonl")):
            if event.get("phase") not in _QUIET:
                found[f"event/{number}"] = {key: _rounded(value) for key, value in event.items()}

    def _read_evaluations(self, folder: Path, prefix: str, found: dict[str, Any], notes: list[str]) -> None:
        for file in sorted((folder / "evaluations").glob("[0-9]*.json")):
            try:
                found[f"evaluation/{prefix}{file.stem}"] = _evaluation(file, prefix)
            except (ValueError, KeyError, TypeError, OSError, RecursionError) as error:
                notes.append(f"{file.name} is left out of the evaluations: {error}")


def _evaluation(file: Path, prefix: str) -> dict[str, Any]:
    content = json.loads(file.read_bytes())
    step = int(file.stem)
    rows = [
        [row["task"], row.get("task_type") or "", None if row["stop"] == "error" else int(row["won"]),
         _rounded(row["score"]), row["turns"], row["stop"]]
        for row in content["rows"]
    ]  # fmt: skip
    name = f"{prefix}iteration {step}" if step else f"{prefix}before training"
    return {"name": name, "iteration": step, "other": bool(prefix), "rows": rows}


def describe(path: Path, settings: CreditSettings | None, notes: list[str], episodes: bool) -> dict[str, Any]:
    """Return the name of a run, its settings with those that are not the defaults first, versions and notes."""
    found: dict[str, Any] = {"name": path.name, "settings": [], "versions": {}, "steps": 0, "notes": notes}
    if not episodes:
        notes.append("the run has stored no trajectories, so there are no groups and no turns to show")
    found["credit"] = [] if settings is None else list(settings.rules)
    found["creditText"] = [] if settings is None else settings.describe()
    if path.is_dir():
        _describe_settings(path, found)
        _describe_versions(path, found)
    return found


def _describe_settings(path: Path, found: dict[str, Any]) -> None:
    from turnwise.training.config import Run
    from turnwise.training.errors import TrainingError

    try:
        run = Run.load(path / RUN_FILE)
    except (TrainingError, OSError) as error:
        found["notes"].append(f"the settings cannot be read: {error}")
        return
    mine, usual = _flat(run.model_dump()), _flat(Run().model_dump())
    rows = [[key, _text(value), _text(usual[key]) if key in usual else None] for key, value in mine.items()]
    rows = [row for row in rows if row[0] != "output"]
    found["settings"] = sorted(rows, key=lambda row: row[1] == row[2])
    found |= {"name": run.name, "env": run.env.id, "steps": run.train.steps, "method": run.credit.method}


def _describe_versions(path: Path, found: dict[str, Any]) -> None:
    try:
        meta = json.loads((path / "meta.json").read_bytes())
        found["versions"] = {
            "python": str(meta["python"]),
            "platform": str(meta["platform"]),
            **{name: str(value) for name, value in meta["packages"].items() if value is not None},
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        found["notes"].append(f"the versions cannot be read: meta.json ({type(error).__name__})")


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in table.items():
        nested = isinstance(value, Mapping) and value
        flat |= _flat(value, f"{prefix}{key}.") if nested else {f"{prefix}{key}": value}
    return flat


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _rounded(value: Any) -> Any:
    return float(f"{value:.5g}") if isinstance(value, float) and value == value else value

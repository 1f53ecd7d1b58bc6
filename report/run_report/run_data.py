"""What a run's folder, or one file of trajectories, has to show, as named parts.

    run              name, settings, versions, command, notes
    event/NUMBER     one event of metrics.jsonl
    evaluation/NAME  one evaluation, episode by episode
    iteration/NUMBER outcomes of the episodes of one iteration
    truth/NUMBER     credit rules against the truth, where forks of the iteration were played

Everything that is whole is read; what is not is named in a note. Nothing outside of the folder is read, and nothing
is written.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from turncredit.agents.interchange.imported_folder import IMPORT_FILE
from turncredit.former_name import current
from turncredit.report.errors import ReportError
from turncredit.report.run_report import iterations
from turncredit.report.run_report.revisions import Parts
from turncredit.report.run_report.truth_data import truth_scores
from turncredit.tools.bounded_input import MAX_SETTINGS, read_json, read_text
from turncredit.training.run_folder.paths import COMMANDS, RUN_FILE, run_of
from turncredit.training.run_folder.warm_start_progress import find_progress

if TYPE_CHECKING:
    from turncredit.report.credit_settings import CreditSettings

Made = TypeVar("Made")
Stamp = tuple[int, ...]
"""Time of the last change and size of a file, or of several."""
_QUIET = ("setup",)
"""Phases whose events the page does not show."""


class ChangedFiles(Generic[Made]):
    """Remembers when files changed, and what was made of them.

    Args:
        stamp: says when a file has changed; None: `stamp_of`.
    """

    def __init__(self, stamp: Callable[[Path], Stamp | None] | None = None) -> None:
        self.stamp = stamp or stamp_of
        self._stored: dict[Path, tuple[Stamp, Made]] = {}

    def get(self, file: Path) -> Made | None:
        """Return what was made of a file, or None if it has changed since."""
        stamp, made = self._stored.get(file, (None, None))
        return made if stamp is not None and stamp == self.stamp(file) else None

    def keep(self, file: Path, stamp: Stamp | None, made: Made) -> Made:
        """Remember, and return, what was made of a file as it was at a stamp."""
        if stamp is not None:
            self._stored[file] = (stamp, made)
        return made


def stamp_of(file: Path) -> Stamp | None:
    """Return the time of a file's last change and its size; None if it cannot be read."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def iteration_stamp(file: Path) -> Stamp | None:
    """Return the stamp of a file of trajectories, with that of what was drawn for its iteration."""
    from turncredit.training.sampling.sampling_files import sampling_file

    stamp, drawn = stamp_of(file), sampling_file(file)
    return None if stamp is None else (*stamp, *((drawn and stamp_of(drawn)) or ()))


def truth_stamp(file: Path) -> Stamp | None:
    """Return the stamp of a file of trajectories, with that of its forks."""
    from turncredit.training.truth.fork_records import truth_file

    stamp, forks = iteration_stamp(file), stamp_of(truth_file(file))
    return None if stamp is None or forks is None else (*stamp, *forks)


class RunData:
    """Reads a run's folder, or one file of trajectories.

    Args:
        path: the folder or the file.
        settings: the credit rules; None: no advantages.
        against: folders of other runs, whose evaluations are added.

    Raises:
        ReportError: there is nothing to report at the path.
    """

    def __init__(self, path: Path, settings: CreditSettings | None, against: tuple[Path, ...] = ()) -> None:
        self.path, self.settings, self.against = path, settings, against
        self._summaries, self._evaluations = ChangedFiles[Parts](iteration_stamp), ChangedFiles[Parts]()
        self._truths = ChangedFiles[tuple[Parts | None, list[str]]](truth_stamp)
        if not path.exists():
            raise ReportError(f"{path} does not exist; expected the folder of a run, or a file of trajectories")
        if path.is_dir() and not any((path / name).exists() for name in (RUN_FILE, "metrics.jsonl", "trajectories")):
            raise ReportError(
                f"{path} holds no run, benchmark or ablation: it has neither {RUN_FILE} nor metrics.jsonl nor "
                "trajectories/, neither card.json nor state.json, and no plan.json"
            )

    def files(self) -> dict[int, Path]:
        """Return the files of trajectories by iteration."""
        if not self.path.is_dir():
            return {0: self.path}
        files = {}
        for file in sorted((self.path / "trajectories").glob("[0-9]*.jsonl*")):
            number, _, suffix = file.name.partition(".")
            if number.isascii() and number.isdigit() and suffix.startswith("jsonl") and file.is_file():
                files[int(number)] = file
        return files

    def collect(self) -> Parts:
        """Return all parts as they are now; files that have not changed are not read again."""
        parts: Parts = {}
        notes: list[str] = []
        files = self.files()
        for number, file in files.items():
            parts[f"iteration/{number}"] = summary = summary_of(self._summaries, file, number)
            notes += summary["notes"]
            self._read_truth(file, number, parts, notes)
        if self.path.is_dir():
            self._read_events(parts)
            self._read_evaluations(self.path, "", parts, notes)
        for other in self.against:
            self._read_evaluations(other, f"{other.name}: ", parts, notes)
        parts["run"] = describe(self.path, self.settings, notes, bool(files))
        return parts

    def environment(self, number: int) -> tuple[str, Mapping[str, object]]:
        """Return id and arguments of the environment of the run.

        Raises:
            ReportError: the episodes are of no run.
        """
        run = run_of(self.path)
        if run is None:
            raise ReportError(f"--screens needs a run, which says in which environment {self.path} was played")
        return run.env.id, run.env.arguments()

    def _read_events(self, parts: Parts) -> None:
        from turncredit.training.run_folder.metrics import read_events

        for number, event in enumerate(read_events(self.path / "metrics.jsonl")):
            if event.get("phase") not in _QUIET:
                parts[f"event/{number}"] = {key: rounded(value) for key, value in event.items()}

    def _read_truth(self, file: Path, number: int, parts: Parts, notes: list[str]) -> None:
        """Add the rules against the truth, scored again only if the episodes or their forks have changed."""
        from turncredit.training.truth.fork_records import truth_file

        if not truth_file(file).exists():
            return
        stamp, stored = truth_stamp(file), self._truths.get(file)
        if stored is None:
            problems: list[str] = []
            scores = truth_scores(number, iterations.read(file, number).groups, file, self.settings, problems)
            stored = self._truths.keep(file, stamp, (scores, problems))
        notes += stored[1]
        if stored[0] is not None:
            parts[f"truth/{number}"] = stored[0]

    def _read_evaluations(self, folder: Path, prefix: str, parts: Parts, notes: list[str]) -> None:
        for file in sorted(file for file in (folder / "evaluations").glob("*.json") if file.stem.isdecimal()):
            step = int(file.stem)
            name = f"{prefix}iteration {step}" if step else f"{prefix}before training"
            try:
                part = read_evaluation(self._evaluations, file)
            except (ValueError, KeyError, TypeError, OSError, RecursionError) as error:
                notes.append(f"{file.name} is left out of the evaluations: {error}")
            else:
                about = {"name": name, "iteration": step, "other": bool(prefix)}
                parts[f"evaluation/{prefix}{file.stem}"] = about | part


def summary_of(summaries: ChangedFiles[Parts], file: Path, number: int, label: str = "") -> Parts:
    """Return the outcomes of the episodes of a file, read again only if it has changed."""
    stamp, made = summaries.stamp(file), summaries.get(file)
    if made is not None:
        return dict(made)
    made = iterations.summary(iterations.read(file, number)) | ({"label": label} if label else {})
    return dict(summaries.keep(file, stamp, made))


def read_evaluation(evaluations: ChangedFiles[Parts], file: Path) -> Parts:
    """Return the rows of the file of an evaluation, read again only if it has changed.

    Raises:
        ValueError, KeyError, TypeError, OSError, RecursionError: it is torn, or no evaluation.
    """
    stamp, made = stamp_of(file), evaluations.get(file)
    if made is None:
        made = evaluations.keep(file, stamp, evaluation(current(read_json(file))))
    return dict(made)


def evaluation(content: Mapping[str, Any], panel: str | None = None) -> Parts:
    """Return the episodes of a stored evaluation as rows: task, type, won, score, turns, stop, the panel's key, part.

    The part is that of a mixture, else empty. Two rows with the same task and the same key are the same episode.

    Args:
        content: of the file of an evaluation.
        panel: what stands in place of the type of the task; None: the type itself.
    """
    from turncredit.envs.parts import part_names
    from turncredit.task_ids import part_of

    key = panel_key(content["panel"])
    parts = part_names(str(content["panel"]["env"]), content["panel"]["kwargs"])
    rows = [
        [row["task"], (row.get("task_type") or "") if panel is None else panel,
         None if row["stop"] == "error" else int(row["won"]), rounded(row["score"]), row["turns"], row["stop"], key,
         part_of(str(row["task"]), parts)]
        for row in content["rows"]
    ]  # fmt: skip
    return {"rows": rows}


def panel_key(panel: Mapping[str, object]) -> str:
    """Return a few characters that are equal where environment, arguments and seed are."""
    import hashlib

    text = json.dumps([panel["env"], panel["kwargs"], panel["seed"]], sort_keys=True, default=str)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:8]


def describe(path: Path, settings: CreditSettings | None, notes: list[str], episodes: bool) -> Parts:
    """Return the name of a run, its settings with those that are not the defaults first, versions and notes."""
    part: Parts = {"kind": "run", "name": path.name, "settings": [], "versions": {}, "steps": 0, "notes": notes}
    if not episodes:
        progress = find_progress(path)
        why = "" if progress is None else f": its warm start is at {progress}"
        notes.append(f"the run has stored no trajectories, so there are no groups and no turns to show{why}")
    part["credit"] = [] if settings is None else list(settings.rules)
    part["creditText"] = [] if settings is None else settings.describe()
    if (path / IMPORT_FILE).is_file():
        _describe_import(path, part)
    elif path.is_dir():
        _describe_settings(path, part)
        _describe_versions(path, part)
        _describe_command(path, part)
    return part


def _describe_import(path: Path, part: Parts) -> None:
    try:
        content = read_json(path / IMPORT_FILE, max_bytes=MAX_SETTINGS)
        part["notes"].append(f"imported from {content['source']} ({content['format']})")
        part["notes"] += [str(note) for note in content["notes"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        part["notes"].append(f"where the episodes were imported from cannot be read: {type(error).__name__}")


def _describe_settings(path: Path, part: Parts) -> None:
    from turncredit.training.assign.credit_by_part import parts_of_run
    from turncredit.training.config.run import Run
    from turncredit.training.errors import TrainingError

    try:
        run = Run.load(path / RUN_FILE)
    except (TrainingError, OSError) as error:
        part["notes"].append(f"the settings cannot be read: {error}")
        return
    mine, usual = _flat(run.model_dump()), _flat(Run().model_dump())
    rows = [[key, _text(value), _text(usual[key]) if key in usual else None] for key, value in mine.items()]
    rows = [row for row in rows if row[0] != "output"]
    part["settings"] = sorted(rows, key=lambda row: row[1] == row[2])
    names = parts_of_run(run)
    env = f"{run.env.id} of {', '.join(names)}" if names else run.env.id
    part |= {"name": run.name, "env": env, "steps": run.train.iterations, "method": run.credit.method}


def _describe_versions(path: Path, part: Parts) -> None:
    try:
        meta = current(read_json(path / "meta.json"))
        part["versions"] = {
            "python": str(meta["python"]),
            "platform": str(meta["platform"]),
            **{name: str(value) for name, value in meta["packages"].items() if value is not None},
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        part["notes"].append(f"the versions cannot be read: meta.json ({type(error).__name__})")


def _describe_command(path: Path, part: Parts) -> None:
    """Add the command that started the run; one that has recorded none gets the one that is equivalent."""
    try:
        first = read_text(path / COMMANDS, max_bytes=MAX_SETTINGS).partition("\n")[0]
    except (OSError, ValueError):
        first = ""
    if first:
        part |= {"command": first, "recorded": True}
    elif (path / RUN_FILE).is_file():
        part |= {"command": shlex.join(["turncredit", "train", f"{path.resolve().name}/{RUN_FILE}"]), "recorded": False}


def _flat(table: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for key, value in table.items():
        nested = _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) and value else {f"{prefix}{key}": value}
        flat |= nested
    return flat


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def rounded(value: object) -> object:
    """Return a number with five digits; anything else as it is."""
    return float(f"{value:.5g}") if isinstance(value, float) and value == value else value

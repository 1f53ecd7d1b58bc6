"""The data of a report: of a run, of a file of trajectories, of a benchmark, or of an ablation with all its runs.

What belongs to a run of an ablation has the place of the run before its name, as in "3:iteration/12".
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from turncredit.report.errors import ReportError
from turncredit.report.run_report import iterations
from turncredit.report.run_report.ablation_data import AblationData, is_ablation
from turncredit.report.run_report.benchmark_data import BenchmarkData, card_file, is_benchmark
from turncredit.report.run_report.revisions import Parts, Revisions
from turncredit.report.run_report.run_data import ChangedFiles, RunData, iteration_stamp
from turncredit.report.run_report.screens import ScreenReplay, Screens
from turncredit.report.run_report.settings import settings_of
from turncredit.report.run_report.token_pieces import pieces_of
from turncredit.training.config.file_options import require_safe_env

if TYPE_CHECKING:
    from turncredit.report.credit_settings import CreditSettings
    from turncredit.report.run_report.iterations import Iteration, Pieces


class Source(Protocol):
    """A folder that has something to show."""

    path: Path

    @property
    def settings(self) -> CreditSettings | None:
        """The credit rules."""

    def files(self) -> dict[int, Path]:
        """Return the files of trajectories."""

    def collect(self) -> Parts:
        """Return all parts as they are now."""

    def environment(self, number: int) -> tuple[str, Mapping[str, object]]:
        """Return id and arguments of the environment in which the episodes of a file were played."""


class ReportData:
    """The parts of a report with their revisions, and its episodes on request.

    Args:
        source: what is reported.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.revisions = Revisions()
        self._read: ChangedFiles[Iteration] = ChangedFiles(iteration_stamp)
        self._pieces: dict[str, Pieces | None] = {}
        self._busy: dict[object, threading.Lock] = {}
        """Locks of what is being read, so that two threads do not read the same."""

    @property
    def notes(self) -> list[str]:
        """What could not be read, and what a reader should know."""
        return list(self.revisions.parts["run"].value["notes"])

    def sources(self) -> dict[str, Source]:
        """Return what is reported, by the prefix of its names: the folder itself, then the runs of an ablation."""
        sources: dict[str, Source] = {"": self.source}
        if isinstance(self.source, AblationData):
            sources |= {f"{number}:": run for number, run in self.source.runs().items()}
        return sources

    def refresh(self) -> None:
        """Read what has changed since the last call."""
        parts: Parts = {}
        for prefix, source in self.sources().items():
            parts |= {f"{prefix}{name}": value for name, value in source.collect().items()}
        self.revisions.store(parts)

    def since(self, revision: int) -> Parts:
        """Return what changed after a revision; see `Revisions.since`."""
        return self.revisions.since(revision)

    def names(self) -> dict[str, list[int]]:
        """Return the numbers of the files of trajectories, by prefix."""
        return {prefix: numbers for prefix, source in self.sources().items() if (numbers := list(source.files()))}

    def read(self, number: int, prefix: str = "") -> Iteration:
        """Return the episodes of one file; the last one that was read is kept.

        Threads may call it at once: one that wants another file does not wait.

        Raises:
            KeyError: there is no such file.
        """
        file = self.sources()[prefix].files()[number]
        with self._busy.setdefault(file, threading.Lock()):
            stamp, stored = iteration_stamp(file), self._read.get(file)
            if stored is None:
                stored = iterations.read(file, number)
                newest: ChangedFiles[Iteration] = ChangedFiles(iteration_stamp)
                newest.keep(file, stamp, stored)
                self._read = newest
            return stored

    def pieces(self, prefix: str = "") -> Pieces | None:
        """Return what gives the text of a token of a run; None if its tokenizer is not found."""
        with self._busy.setdefault("tokenizers", threading.Lock()):
            if prefix not in self._pieces:
                self._pieces[prefix] = pieces_of(self.sources()[prefix].path)
            return self._pieces[prefix]

    def screens(self, prefix: str, number: int, most: int) -> tuple[Screens, int]:
        """Return the screens of the first episodes of a file, which are replayed, and the number of these episodes.

        Raises:
            ReportError: the environment is not known, or has no screens.
            Untrusted: the folder names code, or sets an option, that needs --trust.
        """
        env_id, kwargs = self.sources()[prefix].environment(number)
        require_safe_env(env_id, kwargs)
        with closing(ScreenReplay(env_id, kwargs)) as replay:
            return replay.screens(self.read(number, prefix), most)


def open_report(path: Path, rules: str | Sequence[str] | None = None, against: tuple[Path, ...] = ()) -> ReportData:
    """Return the report of what a path holds.

    Args:
        path: the folder of a run, a benchmark or an ablation, or a file of trajectories.
        rules: names of credit rules; None: the run's own, with the usual ones.
        against: for a run, other runs; for a benchmark, other benchmarks or cards.

    Raises:
        ReportError: there is nothing to report, or nothing to compare with.
        CreditError: a credit rule is unknown.
    """
    if is_ablation(path):
        if against:
            raise ReportError("--against is for runs and benchmarks; the arms of an ablation are compared already")
        return ReportData(AblationData(path, rules))
    if is_benchmark(path):
        for other in against:
            if not card_file(other).is_file():
                raise ReportError(f"{other} holds no card.json; --against needs the folder of another benchmark")
        return ReportData(BenchmarkData(path, against))
    for other in against:
        if not (other / "evaluations").is_dir():
            raise ReportError(f"{other} holds no evaluations; --against needs the folder of another run")
    return ReportData(RunData(path, settings_of(path, rules), against))

"""What a folder of `turncredit bench` has to show: its card, or what has been played so far, and every episode.

run              name of the player, command, machine, notes
card             the panels: success with intervals beside the baselines, turns, tokens, seconds, cost
evaluation/NAME  all episodes of one player on these panels, for comparisons
iteration/NUMBER outcomes of the episodes of one panel; a group holds the one episode of a task
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turncredit.report.errors import ReportError
from turncredit.report.run_report.revisions import Parts
from turncredit.report.run_report.run_data import ChangedFiles, evaluation, rounded, stamp_of, summary_of

if TYPE_CHECKING:
    from turncredit.evaluation.benchmark_card import Card, CardPanel
    from turncredit.evaluation.results import EpisodeRow, EvaluationResult

CARD, STATE = "card.json", "state.json"
_EFFORT = ("turns", "unparsable", "inadmissible", "truncated", "prompt_tokens", "response_tokens", "cost", "counted",
           "priced")  # fmt: skip

_UNITS = {"memory": "memory (GiB)"}


def is_benchmark(path: Path) -> bool:
    """Return whether a path is the folder of a benchmark."""
    return path.is_dir() and ((path / CARD).is_file() or (path / STATE).is_file())


def card_file(path: Path) -> Path:
    """Return the card that a path names: the file itself, or the one in the folder of a benchmark."""
    return path / CARD if path.is_dir() else path


class BenchmarkData:
    """Reads the folder of a benchmark.

    Args:
        path: the folder.
        against: cards of other players, or folders with one.

    Raises:
        ReportError: one of the other cards cannot be read.
    """

    settings = None

    def __init__(self, path: Path, against: tuple[Path, ...] = ()) -> None:
        from turncredit.agents.errors import EvaluationError
        from turncredit.evaluation.benchmark_card import Card
        from turncredit.evaluation.shipped_suites import baseline_cards

        self.path = path
        self._summaries = ChangedFiles[Parts]()
        self._results: ChangedFiles[dict[str, EpisodeRow]] = ChangedFiles()
        try:
            self._others = [Card.load(card_file(other)) for other in against]
        except (EvaluationError, OSError) as error:
            raise ReportError(f"--against needs the folder or the card of another benchmark: {error}") from error
        self._scale = baseline_cards()

    def files(self) -> dict[int, Path]:
        """Return the files of trajectories, numbered in the order of the panels."""
        return dict(enumerate(self._panel_files().values(), start=1))

    def collect(self) -> Parts:
        """Return all parts as they are now."""
        notes: list[str] = []
        parts: Parts = {}
        numbers = {}
        for number, (name, file) in enumerate(self._panel_files().items(), start=1):
            parts[f"iteration/{number}"] = summary = summary_of(self._summaries, file, number, name)
            notes += summary["notes"]
            numbers[name] = number
        card, finished = self._card(notes)
        parts["card"] = self._describe(card, numbers)
        digests = {panel.digest for panel in card.panels if panel.result is not None}
        for other in [card, *self._all_others()]:
            name = f"{other.name} (other)" if other is not card and other.name == card.name else other.name
            part: Parts = {"name": name, "iteration": 0, "other": other is not card, "rows": []}
            parts.setdefault(f"evaluation/{name}", part)["rows"] += _rows(other, digests)
        parts = {key: part for key, part in parts.items() if not key.startswith("evaluation/") or part["rows"]}
        parts["run"] = self._about(card, notes, finished)
        return parts

    def environment(self, number: int) -> tuple[str, Mapping[str, object]]:
        """Return id and arguments of the environment of a panel.

        Raises:
            ReportError: the card does not name it.
        """
        name = self.files()[number].stem
        card, _ = self._card([])
        result = next((panel.result for panel in card.panels if panel.name == name), None)
        if result is None or result.panel.env == "?":
            raise ReportError(f"--screens needs the finished card, which says in which environment {name} was played")
        return result.panel.env, result.panel.kwargs

    def _panel_files(self) -> dict[str, Path]:
        """Return the files of trajectories by panel, in the order of the state, then of the card."""
        names = list(dict.fromkeys([*self._state(), *(file.stem for file in sorted(self.path.glob("*.jsonl")))]))
        return {name: file for name in names if (file := self.path / f"{name}.jsonl").is_file()}

    def _state(self) -> Mapping[str, object]:
        from turncredit.agents.errors import EvaluationError
        from turncredit.agents.files.json_files import read_json
        from turncredit.evaluation.benchmark import VERSION

        try:
            panels = read_json(self.path / STATE, "the state of a benchmark", "identity", VERSION)["panels"]
        except (EvaluationError, OSError, KeyError):
            return {}
        return panels if isinstance(panels, dict) else {}

    def _card(self, notes: list[str]) -> tuple[Card, bool]:
        """Return the card, and whether it is finished; otherwise a card of the episodes that are stored so far."""
        from turncredit.agents.errors import EvaluationError
        from turncredit.evaluation.benchmark_card import Card

        card_panels = {}
        name, suite, about, finished = self.path.name, "", dict[str, Any](), False
        if (self.path / CARD).is_file():
            try:
                card = Card.load(self.path / CARD)
            except (EvaluationError, OSError) as error:
                notes.append(f"the card is left out: {error}")
            else:
                name, suite, about, finished = card.name, card.suite, dict(card.about), True
                card_panels = {panel.name: panel for panel in card.panels}
        state = self._state()
        fresh = {
            panel_name: self._so_far(panel_name, state)
            for panel_name in self._panel_files()
            if panel_name not in card_panels
        }
        if fresh:
            finished = False
        panels = [*card_panels.values(), *(panel for panel in fresh.values() if panel is not None)]
        return Card(name, suite, tuple(panels), about), finished

    def _so_far(self, name: str, state: Mapping[str, object]) -> CardPanel | None:
        """Return what has been played of a panel that no card has."""
        from turncredit.evaluation.benchmark_card import CardPanel
        from turncredit.evaluation.panels import Panel
        from turncredit.evaluation.results import EpisodeRow, EvaluationResult
        from turncredit.report.run_report.iterations import read

        file = self.path / f"{name}.jsonl"
        stamp, made = stamp_of(file), self._results.get(file)
        rows: dict[str, EpisodeRow] = {}
        if made is None:
            for group in read(file, 0).groups:
                for trajectory in group.trajectories:
                    rows[trajectory.task] = EpisodeRow.of(trajectory)
            made = self._results.keep(file, stamp, rows)
        rows = made
        if not rows:
            return None
        entry = _table(state.get(name))
        settings, seconds = _table(_table(entry.get("identity")).get("settings")), entry.get("seconds", 0.0)
        spent = float(seconds) if isinstance(seconds, int | float) else 0.0
        result = EvaluationResult(Panel("?", tuple(rows)), tuple(rows.values()), name, spent, settings)
        return CardPanel(name, "", "played", "not finished, or not in the card", result)

    def _describe(self, card: Card, numbers: Mapping[str, int]) -> Parts:
        names = dict.fromkeys(
            other.name for other in self._all_others() if any(other.result_of(own.digest) for own in card.panels)
        )
        others = [name for name in names if name != card.name]
        panels = [self._panel(panel, others, numbers.get(panel.name)) for panel in card.panels]
        mean = card.mean()
        return {
            "suite": card.suite,
            "others": others,
            "panels": panels,
            "mean": None if mean is None or len(card.played) < 2 else [rounded(value) for value in mean],
            "played": len(card.played),
        }

    def _all_others(self) -> list[Card]:
        return [*self._scale, *self._others]

    def _panel(self, panel: CardPanel, others: Sequence[str], number: int | None) -> Parts:
        part: Parts = {"name": panel.name, "env": panel.env, "status": panel.status, "reason": panel.reason}
        if panel.result is None:
            return part
        summary = panel.result.summary()
        beside = {}
        for name in others:
            results = (card.result_of(panel.digest) for card in self._all_others() if card.name == name)
            if (result := next((result for result in results if result is not None), None)) is not None:
                beside[name] = _rate(result)
        return part | {
            "number": number,
            "tasks": len(panel.result.panel.tasks),
            "errors": summary.errors,
            "error": next((row.error for row in panel.result.rows if row.stop == "error"), None),
            "success": _rate(panel.result),
            "score": rounded(summary.score),
            "seconds": rounded(panel.result.seconds / max(1, len(panel.result.rows))),
            "others": beside,
            **{key: rounded(getattr(summary, key)) for key in _EFFORT},
        }

    def _about(self, card: Card, notes: list[str], finished: bool) -> Parts:
        about = card.about
        if not finished:
            notes.insert(0, "The benchmark is not finished: its numbers are those of the episodes that are stored.")
        versions = {
            **{str(key): str(value) for key, value in _table(about.get("versions")).items()},
            **{_UNITS.get(str(key), str(key)): str(value) for key, value in _table(about.get("machine")).items()},
        }
        part: Parts = {"kind": "benchmark", "name": card.name, "settings": [], "versions": versions, "notes": notes}
        part |= {"env": f"suite {card.suite}" if card.suite else "", "steps": 0, "credit": [], "creditText": []}
        if about.get("command"):
            part |= {"command": str(about["command"]), "recorded": True}
        return part | {"finished": finished}


def _table(value: object) -> Mapping[str, Any]:
    """Return a value that should be a table, or an empty one if it is none."""
    return value if isinstance(value, Mapping) else {}


def _rate(result: EvaluationResult) -> Parts:
    return {key: rounded(value) for key, value in asdict(result.summary().success).items()}


def _rows(card: Card, digests: set[str]) -> list[object]:
    """Return the episodes of a card on panels with these digests; the type of a row is the panel's name."""
    from turncredit.evaluation.panels import panel_json

    rows: list[object] = []
    for panel in card.panels:
        if panel.result is not None and panel.digest in digests:
            content = {"panel": panel_json(panel.result.panel), "rows": [asdict(row) for row in panel.result.rows]}
            rows += evaluation(content, panel.name)["rows"]
    return rows

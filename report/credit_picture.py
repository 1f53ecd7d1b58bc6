"""The graph of one task as a picture or as a graph file, with the advantages of several credit rules."""

from __future__ import annotations

import os
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from turncredit.registry import choose
from turncredit.report.credit_comparison import RULES, RuleComparison, compare_rules
from turncredit.report.credit_settings import credit_settings
from turncredit.report.errors import ReportError
from turncredit.report.stored_groups import of_task, read_groups, require_turns

if TYPE_CHECKING:
    from networkx import MultiDiGraph

    from turncredit.agents.steps import Anchor
    from turncredit.agents.trajectory import Group

SUFFIXES = (".svg", ".html", ".htm", ".graphml", ".dot", ".json")
COLUMN_SUFFIXES = (".svg", ".pdf")
FORMATS = ("full", "column")


def write_credit_picture(
    path: str | os.PathLike[str],
    file: str | os.PathLike[str],
    credit: str | Sequence[str] | None = None,
    *,
    options: Mapping[str, object] | None = None,
    anchor: str | None = None,
    task: str | None = None,
    iteration: int | None = None,
    form: str = "full",
) -> str:
    """Draw the most instructive task of stored trajectories with the advantages of several rules, and return its id.

    Args:
        path: a run folder, or a file of trajectories.
        file: the picture (.svg, .html) or graph file (.graphml, .dot, .json).
        credit: names of credit rules; None: the run's rule and the usual ones.
        options: options of the rules, which replace those of the run.
        anchor: "state", "observation" or "history"; None: the run's.
        task: only tasks whose id contains this text.
        iteration: number of the iteration of a run folder; None: the newest.
        form: "full", or "column" for a figure as wide as a column of a paper (.svg, .pdf).

    Raises:
        ReportError: there are no such trajectories, no rule can be applied, or the picture cannot be drawn.
        StoreError: the path holds no trajectories, or the file cannot be written.
        CreditError: an unknown rule, or an option with an impossible value.
        UnknownName: there is no such form.
    """
    from turncredit.training.run_folder.paths import trajectory_file

    check_picture(Path(file), form)
    source = trajectory_file(Path(path), iteration)
    settings = credit_settings(source, credit, options, anchor, RULES)
    everyone = read_groups(source, credited=True)
    groups = of_task(everyone, source, task)
    require_turns(groups, source)
    number = most_instructive(groups)
    save_picture(Path(file), form, groups, number, compare_rules(groups, settings, everyone), settings.anchor)
    return groups[number].task


def check_picture(path: Path, form: str) -> None:
    """Check before any work that a picture can be written to a path.

    Args:
        path: of the picture or graph file.
        form: "full", or "column" for a figure as wide as a column of a paper.

    Raises:
        UnknownName: there is no such form.
        ReportError: it does not exist with this suffix.
        StoreError: the file cannot be written.
    """
    from turncredit.agents.files.json_files import require_writable

    suffixes = SUFFIXES if choose("format", form, FORMATS) == "full" else COLUMN_SUFFIXES
    if path.suffix not in suffixes:
        hint = "; a .pdf needs --format column" if path.suffix == ".pdf" else ""
        raise ReportError(f"{path} must end in one of {', '.join(suffixes)}{hint}")
    require_writable(path)


def most_instructive(groups: Sequence[Group]) -> int:
    """Return the index of the group with both wins and losses, then with the most states shared by trajectories."""
    return max(range(len(groups)), key=lambda number: (*_contrast(groups[number]), -number))


def _contrast(group: Group) -> tuple[bool, int]:
    seen = Counter(state for t in group.finished for state in {turn.state for turn in t.turns})
    return len({t.won for t in group.finished}) > 1, sum(times > 1 for times in seen.values())


def save_picture(
    path: Path, form: str, groups: Sequence[Group], number: int, comparison: RuleComparison, anchor: Anchor
) -> None:
    """Write the graph of one group, with the advantages of every rule, as a picture or a graph file.

    Args:
        path: its suffix determines the kind of file.
        form: "full" or "column".
        groups: all groups that were compared.
        number: index of the group to draw.
        comparison: the rules, whose advantages colour the edges.
        anchor: what made two turns comparable.

    Raises:
        ReportError: the column form needs matplotlib, which is not installed.
        OSError: the file cannot be written.
    """
    from turncredit.credit import graph as graphs
    from turncredit.report.graphs.diagram import diagram_of
    from turncredit.report.graphs.html import page
    from turncredit.report.graphs.paper_figure import save_column
    from turncredit.report.graphs.svg import draw

    group, graph = groups[number], _graph(groups, number, comparison)
    as_text = {".graphml": graphs.to_graphml, ".dot": graphs.to_dot, ".json": graphs.to_json}.get(path.suffix)
    if as_text is not None:
        path.write_text(as_text(graph), encoding="utf-8", errors="backslashreplace")
        return
    diagram = diagram_of(
        graph,
        title=_goal(group),
        subtitle=f"{group.task}: {len(group.finished)} trajectories, {graph.graph['won']} won; "
        f"from the start (left) to the end, turns compared by {anchor}",
        texts=texts_of(group, anchor),
        rules=list(comparison.results),
    )
    if form == "column":
        save_column(diagram, path)
    else:
        text = draw(diagram) if path.suffix == ".svg" else page(diagram)
        path.write_text(text, encoding="utf-8", errors="backslashreplace")


def _graph(groups: Sequence[Group], number: int, comparison: RuleComparison) -> MultiDiGraph:
    from turncredit.credit import trajectory_graph

    steps = comparison.steps
    before = sum(len(t.turns) for group in groups[:number] for t in group.finished)
    label = steps.names["task"][int(steps.task[before])]
    won = [t.won for group in groups for t in group.finished for _ in t.turns]
    graph = trajectory_graph(steps, task=label, won=won)
    for *_, data in graph.edges(data=True):
        del data["advantage"]  # each compared rule has its own
    for name, result in comparison.results.items():
        for start, end, key, data in trajectory_graph(steps, result, task=label, won=won).edges(keys=True, data=True):
            graph.edges[start, end, key][f"advantage {name}"] = data["advantage"]
    return graph


def texts_of(group: Group, anchor: Anchor) -> dict[str, str]:
    """Return the text of each state: the one that was seen most often on arrival from another state.

    Args:
        group: the trajectories.
        anchor: what makes two turns comparable.
    """
    from turncredit.agents.steps import anchors_of

    seen: dict[str, Counter[str]] = {}
    for trajectory in group.finished:
        states, texts = anchors_of(trajectory, "state"), anchors_of(trajectory, "observation")
        keys = anchors_of(trajectory, anchor)
        for before, state, key, text in zip([None, *states], states, keys, texts, strict=False):
            seen.setdefault(key, Counter())[text] += before != state  # "Nothing happens." says nothing about the state
    return {key: counts.most_common(1)[0][0] for key, counts in seen.items()}


def _goal(group: Group) -> str:
    """Return the last paragraph of the first observation, where most environments state the task."""
    first = next(t for t in group.finished if t.turns).turns[0].observation
    paragraphs = [" ".join(part.split()) for part in first.split("\n\n") if part.strip()]
    return textwrap.shorten(paragraphs[-1] if paragraphs else group.task, 120, placeholder=" ...")

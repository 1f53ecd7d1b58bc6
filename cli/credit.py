"""`turnwise credit`: stored trajectories seen by several estimators side by side, and a task's graph as a picture.

The advantages are computed here from the file; they are not stored with the play.
"""

from __future__ import annotations

import json
import shlex
import textwrap
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.table import Table

from turnwise.cli.console import out, percent, say, warn
from turnwise.cli.errors import UserError, choose
from turnwise.cli.evaluate import require_writable
from turnwise.cli.options import parse_options
from turnwise.cli.show import select

if TYPE_CHECKING:
    from turnwise.agents.trajectory import Group
    from turnwise.cli.credit_comparison import RuleComparison, RuleStatistics, TrajectoryFacts
    from turnwise.training.steps import Anchor

DEFAULT = "gigpo,hgpo,salt,grpo"
PICTURES = (".svg", ".html", ".htm", ".graphml", ".dot", ".json")
_REPORTED = {
    "groups": "groups",
    "groups_of_one": "  of one",
    "groups_without_spread": "  without variance",
    "step_groups": "state groups",
    "step_groups_of_one": "  of one",
    "step_groups_without_spread": "  without variance",
}
_CELL = 11


def credit(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Trajectories (.jsonl, .jsonl.gz, .jsonl.zst).")],
    options: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Options of the estimators that have them.")
    ] = None,
    estimators: Annotated[str, typer.Option(help="Names with commas between (`turnwise list credit`).")] = DEFAULT,
    anchor: Annotated[str, typer.Option(help="What makes two turns comparable: state or observation.")] = "state",
    task: Annotated[str | None, typer.Option(help="Only tasks whose id contains this text.")] = None,
    picture: Annotated[
        Path | None,
        typer.Option(metavar="OUT", help="Draw a task: .svg or .html; its graph: .graphml, .dot or .json."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
) -> None:
    """Compare estimators on stored trajectories: where each sees a difference, and where they agree."""
    from turnwise.agents.store import read_trajectories
    from turnwise.agents.trajectory import grouped
    from turnwise.cli.credit_comparison import compare

    names = [name.strip() for name in estimators.split(",") if name.strip()]
    if not names:
        raise UserError("--estimators wants at least one name; `turnwise list credit` shows them.")
    chosen = cast("Anchor", choose("anchor", anchor, ("state", "observation")))
    if picture is not None:
        _check_picture(picture)
    groups = select(grouped(read_trajectories(file)), task, file)
    if not any(trajectory.turns for group in groups for trajectory in group.finished):
        raise UserError(f"{file} holds no turn of a finished trajectory; there is nothing to compare.")
    comparison = compare(groups, names, chosen, parse_options(options))
    for reason in comparison.left_out.values():
        warn(f"left out: {reason}")
    number = instructive(groups)
    if picture is not None:  # before the numbers: a reader who goes away (`| head`) does not lose it
        picture.write_text(_drawn(groups, number, comparison, chosen, picture.suffix), encoding="utf-8")
    if as_json:
        say(json.dumps(comparison.as_dict(), indent=1))
        return
    _print(comparison, chosen)
    if picture is None:
        words = [*(options or ()), "--estimators", estimators, "--anchor", anchor]
        words += [] if task is None else ["--task", task]
        say(f"draw a task: {shlex.join(['turnwise', 'credit', str(file), *words, '--picture', 'graph.html'])}", "dim")
    else:
        say(f"task {groups[number].task} drawn: {picture}")


def _check_picture(path: Path) -> None:
    if path.suffix not in PICTURES:
        raise UserError(f"{path} must end in one of {', '.join(PICTURES)}.")
    require_writable(path)


def instructive(groups: Sequence[Group]) -> int:
    """The number of the group that teaches most: wins and losses, and most states that several trajectories saw."""
    return max(range(len(groups)), key=lambda number: (*_lessons(groups[number]), -number))


def _lessons(group: Group) -> tuple[bool, int]:
    seen = Counter(state for t in group.finished for state in {turn.state for turn in t.turns})
    return len({t.won for t in group.finished}) > 1, sum(times > 1 for times in seen.values())


# ---- printing ----


def _print(comparison: RuleComparison, anchor: Anchor) -> None:
    console = out()
    for line in _sentences(comparison.facts, anchor):
        console.print(textwrap.fill(line, console.width, subsequent_indent="  "), soft_wrap=True)
    console.print()
    names = list(comparison.numbers)
    room = max(1, (console.width - 24) // (_CELL + 1))
    for begin in range(0, len(names), room):
        console.print(_numbers_table({name: comparison.numbers[name] for name in names[begin : begin + room]}))
        console.print()
    if len(names) > 1:
        console.print("correlation of the advantages, turn by turn", style="dim")
        for begin in range(0, len(names), room):
            console.print(_correlation_table(comparison, names[begin : begin + room]))
            console.print()


def _sentences(facts: TrajectoryFacts, anchor: Anchor) -> list[str]:
    failed = f"; {facts.failed} ended as error and are left out" if facts.failed else ""
    key = "state" if anchor == "state" else "text"
    return [
        f"{facts.trajectories} trajectories of {facts.groups} groups, {facts.won} won, {facts.turns} turns{failed}",
        f"groups of one: {facts.groups_of_one}; groups in which all earned the same: {facts.groups_without_spread}",
        f"{facts.states} {key}s, {facts.shared_states} of them seen by several trajectories of their group: "
        f"{percent(facts.turns_in_shared_states / facts.turns)} of the turns",
        f"texts that stand for several states: {facts.texts_with_several_states}, "
        f"in {facts.turns_of_such_texts} turns (told apart by --anchor state only)",
        f"states seen under several texts: {facts.states_with_several_texts}, "
        f"in {facts.turns_of_such_states} turns (put together by --anchor state only)",
    ]


def _table_of(names: Sequence[str]) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("", no_wrap=True, min_width=22)
    for name in names:
        table.add_column(name, justify="right", min_width=_CELL, overflow="fold")
    return table


def _numbers_table(numbers: Mapping[str, RuleStatistics]) -> Table:
    table = _table_of(list(numbers))

    def row(title: str, cell: Callable[[RuleStatistics], str]) -> None:
        table.add_row(title, *(cell(n) for n in numbers.values()))

    row("turns with an advantage", lambda n: percent(n.signal))
    row("  with step-level signal", lambda n: percent(n.step_signal))
    if any(n.dropped for n in numbers.values()):
        row("  dropped from the loss", lambda n: str(n.dropped))
    for key, title in _REPORTED.items():
        if any(key in n.report for n in numbers.values()):
            row(title, lambda n, key=key: f"{n.report[key]:.0f}" if key in n.report else "-")  # type: ignore[misc]
    row("mean advantage", lambda n: f"{n.mean:+.3f}")
    row("  spread", lambda n: f"{n.spread:.3f}")
    row("  least", lambda n: f"{n.least:+.3f}")
    row("  most", lambda n: f"{n.most:+.3f}")
    return table


def _correlation_table(comparison: RuleComparison, columns: Sequence[str]) -> Table:
    table = _table_of(columns)
    for one, row in comparison.correlation.items():
        table.add_row(one, *("-" if row[two] is None else f"{row[two]:+.3f}" for two in columns))
    return table


# ---- drawing ----


def _drawn(groups: Sequence[Group], number: int, comparison: RuleComparison, anchor: Anchor, suffix: str) -> str:
    """The text of a picture's file: the graph of one group with the advantages of every estimator."""
    from turnwise.cli.graphs.diagram import diagram_of
    from turnwise.cli.graphs.html import page
    from turnwise.cli.graphs.svg import draw
    from turnwise.credit import graph as graphs

    group = groups[number]
    graph = _graph(groups, number, comparison)
    if suffix in (".graphml", ".dot", ".json"):
        write = {".graphml": graphs.to_graphml, ".dot": graphs.to_dot, ".json": graphs.to_json}[suffix]
        return write(graph)
    scene = diagram_of(
        graph,
        title=_goal(group),
        subtitle=f"{group.task}: {len(group.finished)} trajectories, {graph.graph['won']} won; "
        f"what happened from the start (left) on, turns compared by {anchor}",
        texts=texts_of(group, anchor),
        estimators=list(comparison.results),
    )
    return draw(scene) if suffix == ".svg" else page(scene)


def _graph(groups: Sequence[Group], number: int, comparison: RuleComparison) -> Any:
    from turnwise.credit import trajectory_graph

    steps = comparison.steps
    before = sum(len(t.turns) for group in groups[:number] for t in group.finished)
    label = steps.names["task"][int(steps.task[before])]
    won = [t.won for group in groups for t in group.finished for _ in t.turns]
    graph = trajectory_graph(steps, task=label, won=won)
    for *_, data in graph.edges(data=True):
        del data["advantage"]  # every estimator that is compared has one of its own
    for name, result in comparison.results.items():
        for start, end, key, data in trajectory_graph(steps, result, task=label, won=won).edges(keys=True, data=True):
            graph.edges[start, end, key][f"advantage {name}"] = data["advantage"]
    return graph


def texts_of(group: Group, anchor: Anchor) -> dict[str, str]:
    """What the agent saw in each state: the text it most often arrived with; one said on the spot if there is none.

    Args:
        group: the trajectories.
        anchor: under "observation" the state is the text itself.
    """
    seen: dict[str, Counter[str]] = {}
    for trajectory in group.finished:
        states = [*(turn.state for turn in trajectory.turns), trajectory.final_state]
        texts = [*(turn.observation for turn in trajectory.turns), trajectory.final_observation]
        for before, state, text in zip([None, *states], states, texts, strict=False):
            key = state if anchor == "state" else text
            seen.setdefault(key, Counter())[text] += before != state  # "Nothing happens." tells nothing of a state
    return {key: counts.most_common(1)[0][0] for key, counts in seen.items()}


def _goal(group: Group) -> str:
    """The last paragraph of what a trajectory saw first: where the task is told, in the environments we know."""
    first = next(t for t in group.finished if t.turns).turns[0].observation
    paragraphs = [" ".join(part.split()) for part in first.split("\n\n") if part.strip()]
    return textwrap.shorten(paragraphs[-1] if paragraphs else group.task, 120, placeholder=" ...")

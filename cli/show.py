"""`turnwise show`: stored trajectories with the advantage of every turn, and the states that formed a group.

The advantages are computed here from the file, by the credit rule that is asked for; they are not stored with the play.
A group is made of the trajectories of one task in the file, so a file with one trajectory a task shows zeros, rightly.
"""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.console import Console
from rich.text import Text

from turnwise.cli.console import out
from turnwise.cli.errors import UserError, choose, near
from turnwise.cli.options import parse_options

if TYPE_CHECKING:
    from turnwise.agents.trajectory import Group, Trajectory, Turn
    from turnwise.training.steps import Anchor

_TEXT_WIDTH = 46


@dataclass(frozen=True, slots=True)
class CreditedTurn:
    """One turn with what the credit rule said of it.

    `value` is the advantage; `parts` are the summands that the rule names; `kept` is False if the rule drops the turn.
    """

    trajectory: Trajectory
    number: int
    turn: Turn
    value: float
    parts: Mapping[str, float]
    kept: bool


def credited(group: Group, rule: str, options: Mapping[str, Any], anchor: Anchor) -> list[CreditedTurn]:
    """Every turn of the finished trajectories of a group with its advantage, in the order of play.

    Args:
        group: trajectories of one task instance.
        rule: name of the credit rule.
        options: arguments of the rule.
        anchor: "state" or "observation", what makes two turns comparable.

    Raises:
        CreditError: an unknown rule, or an option that it does not have.
    """
    from turnwise.credit import get
    from turnwise.training.steps import steps_of

    turns = [
        (trajectory, number, turn)
        for trajectory in group.finished
        for number, turn in enumerate(trajectory.turns, start=1)
    ]
    if not turns:
        return []
    result = get(rule, **options)(steps_of([group], anchor=anchor))
    return [
        CreditedTurn(
            trajectory,
            number,
            turn,
            float(result.values[row]),
            {name: float(column[row]) for name, column in result.parts.items()},
            bool(result.keep[row]),
        )
        for row, (trajectory, number, turn) in enumerate(turns)
    ]


def _state_names(rows: Sequence[CreditedTurn], anchor: Anchor) -> dict[str, str]:
    """A short name for every anchor that at least two turns share, the largest first."""
    sizes: dict[str, int] = {}
    for row in rows:
        key = anchor_of(row.turn, anchor)
        sizes[key] = sizes.get(key, 0) + 1
    shared = sorted((key for key, size in sizes.items() if size > 1), key=lambda key: -sizes[key])
    return {key: f"S{index}x{sizes[key]}" for index, key in enumerate(shared, start=1)}


def anchor_of(turn: Turn, anchor: Anchor) -> str:
    """What a turn is compared by: its state key or the text that the agent saw."""
    return turn.state if anchor == "state" else turn.observation


def _signed(value: float) -> Text:
    if abs(value) < 5e-4:
        return Text(f"{0:9.3f}", style="dim")
    return Text(f"{value:+9.3f}", style="green" if value > 0 else "red")


def _short(text: str, width: int = _TEXT_WIDTH) -> str:
    return textwrap.shorten(" ".join(text.split()), width, placeholder=" ...") or "(nothing)"


def _answer(row: CreditedTurn) -> str:
    turns = row.trajectory.turns
    return turns[row.number].observation if row.number < len(turns) else row.trajectory.final_observation


def _alike(rows: Sequence[CreditedTurn]) -> list[list[list[CreditedTurn]]]:
    """The turns by trajectory, and trajectories that went the same way, with the same credit, side by side."""
    ways: dict[tuple[object, ...], list[list[CreditedTurn]]] = {}
    for _, members in itertools.groupby(rows, key=lambda row: row.trajectory.id):
        one = list(members)
        way = tuple((row.turn.action, row.turn.text, _answer(row), round(row.value, 3), row.kept) for row in one)
        ways.setdefault(way, []).append(one)
    return list(ways.values())


def _print_identical(
    console: Console, alike: Sequence[Sequence[CreditedTurn]], names: Mapping[str, str], anchor: Anchor
) -> None:
    """Print one line for each of several identical trajectories, then their turns once."""
    for trajectory in (rows[0].trajectory for rows in alike):
        outcome = "won" if trajectory.won else "not won"
        turns = len(trajectory.turns)
        console.print(
            f"  {trajectory.id}: {outcome}, {turns} turns, reward {trajectory.reward:g}, ended as {trajectory.stop}",
            style="bold green" if trajectory.won else "bold",
            soft_wrap=True,
        )
    rows = alike[0]
    parts = list(rows[0].parts)
    console.print(
        f"  {'turn':>4} {'advantage':>9} {''.join(f'{name[:9]:>10}' for name in parts)}  {'state':<7} action",
        style="dim",
        soft_wrap=True,
    )
    for row in rows:
        line = Text(f"  {row.number:>4} ").append_text(_signed(row.value)).append(" ")
        for name in parts:
            line.append(" ").append_text(_signed(row.parts[name]))
        line.append(f"  {names.get(anchor_of(row.turn, anchor), '-'):<7} ", style="blue")
        action = row.turn.action if row.turn.action is not None else f"{row.turn.text!r} (unparsable)"
        line.append(f"{_short(action, 34):<34}", style="" if row.turn.valid else "yellow")
        room = max(_TEXT_WIDTH, console.width - line.cell_len - 2)
        line.append(f"  {_short(_answer(row), room)}", style="dim")
        if not row.kept:
            line.append("  (dropped)", style="yellow")
        console.print(line, soft_wrap=True)
    console.print()


def _print_states(
    console: Console, rows: Sequence[CreditedTurn], names: Mapping[str, str], anchor: Anchor, most: int
) -> None:
    """Side by side: what was done in each shared state, and what it was worth."""
    console.print("  states that several turns share, with what was done there:", style="dim")
    for key, name in itertools.islice(names.items(), most):
        members = [row for row in rows if anchor_of(row.turn, anchor) == key]
        console.print(f"  {name:<7}", style="blue", end="")
        console.print(f" {_short(members[0].turn.observation, 80)}", style="dim", soft_wrap=True)
        by_action: dict[str, list[float]] = {}
        for row in members:
            by_action.setdefault(row.turn.action or "(unparsable)", []).append(row.value)
        for action, values in sorted(by_action.items(), key=lambda item: -sum(item[1]) / len(item[1])):
            line = Text(" " * 8).append_text(_signed(sum(values) / len(values)))
            console.print(line.append(f"  {len(values):>3} x  {_short(action, 50)}"), soft_wrap=True)
    if len(names) > most:
        console.print(f"  ... and {len(names) - most} more (--states)", style="dim")
    console.print()


def _print_group(
    console: Console, group: Group, rule: str, options: Mapping[str, Any], anchor: Anchor, states: int
) -> None:
    rows = credited(group, rule, options, anchor)
    won = sum(trajectory.won for trajectory in group.finished)
    failed = len(group.trajectories) - len(group.finished)
    lost = f", {failed} ended as error and are left out" if failed else ""
    console.print(
        f"task {group.task}: {len(group.finished)} trajectories, {won} won, {len(rows)} turns{lost}",
        style="bold",
        soft_wrap=True,
    )
    if rows:
        console.print(f"  {_short(rows[0].turn.observation, 400)}\n", style="dim", soft_wrap=True)
    names = _state_names(rows, anchor)
    for alike in _alike(rows):
        _print_identical(console, alike, names, anchor)
    if names:
        _print_states(console, rows, names, anchor, states)


def select(groups: Iterable[Group], task: str | None, path: Path) -> list[Group]:
    """The groups whose task contains a text, or all.

    Raises:
        UserError: no task contains it; the sentence names the nearest.
    """
    found = list(groups)
    if not found:
        raise UserError(f"{path} holds no trajectory.")
    if task is None:
        return found
    chosen = [group for group in found if task in group.task]
    if not chosen:
        raise UserError(f"{path} holds no task {task!r}.{near(task, {group.task for group in found})}")
    return chosen


def _credit_of(
    file: Path, rule: str | None, options: dict[str, Any], anchor: str | None
) -> tuple[str, dict[str, Any], Anchor]:
    """The credit rule, its options and the anchor: what was asked for, else what the file's run was trained with."""
    from turnwise.cli.players import run_of

    run = run_of(file.parent)
    if run is not None:
        if rule in (None, run.credit.method):
            options = {**run.credit.options, **options}
        rule, anchor = rule or run.credit.method, anchor or run.credit.anchor
    return rule or "gigpo", options, cast("Anchor", choose("anchor", anchor or "state", ("state", "observation")))


def show(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Trajectories (.jsonl, .jsonl.gz, .jsonl.zst).")],
    options: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Options of the credit rule.")
    ] = None,
    task: Annotated[str | None, typer.Option(help="Only tasks whose id contains this text.")] = None,
    credit: Annotated[
        str | None, typer.Option(help="The credit rule (`turnwise list credit`); the run's own, or gigpo.")
    ] = None,
    anchor: Annotated[
        str | None, typer.Option(help="What makes two turns comparable: state or observation; the run's own, or state.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Most groups shown.")] = 3,
    states: Annotated[int, typer.Option(min=0, help="Most shared states shown for a group.")] = 8,
) -> None:
    """Print stored trajectories with the advantage of every turn."""
    from turnwise.agents.store import read_trajectories
    from turnwise.agents.trajectory import grouped

    rule, values, chosen = _credit_of(file, credit, parse_options(options), anchor)
    groups = select(grouped(read_trajectories(file)), task, file)
    console = out()
    console.print(
        f"advantages by {rule}, turns compared by {chosen} (S1x16: one that 16 turns of the task share, -: none)",
        style="dim",
        soft_wrap=True,
    )
    for group in groups[:limit]:
        _print_group(console, group, rule, values, chosen, states)
    if len(groups) > limit:
        console.print(f"{len(groups) - limit} more groups (--limit, --task).", style="dim")

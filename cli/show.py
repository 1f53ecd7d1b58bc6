"""`turncredit show`: stored trajectories with the advantage of every turn, and the states that turns share.

Advantages are computed here from all trajectories of the file; they are not stored with them. A group consists of the
trajectories of one task in the file, so a file with one trajectory per task shows advantages of zero.
"""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from turncredit.cli.console import out
from turncredit.cli.options import Trust, parse_options
from turncredit.cli.printing.tables import say_key, say_wrapped
from turncredit.report.credit_settings import CreditSettings, credit_settings
from turncredit.report.stored_groups import of_task, read_credited
from turncredit.report.table_columns import SHOW, TableColumn, part_column
from turncredit.tools.visible_text import escaped

if TYPE_CHECKING:
    from turncredit.agents.trajectory import Group, Trajectory, Turn
    from turncredit.credit import Advantages
    from turncredit.training.sampling.sampling_files import CreditedGroups

PATH_HELP = "A run folder, or a file of trajectories (.jsonl, .jsonl.gz, .jsonl.zst)."
ITERATION_HELP = "Which iteration of the run folder. Default: the newest."
CREDIT_HELP = "Credit rules, separated by commas (`turncredit list credit`). Default: {}."
_TEXT_WIDTH = 46
_PART = 9
"""Characters of the name of a term of the advantage."""


@dataclass(frozen=True, slots=True)
class CreditedTurn:
    """One turn with its advantage.

    `anchor` is what it is compared by; `parts` are the terms of the advantage; `in_loss` is False if the rule drops the
    turn from the loss, or a group rule its trajectory.
    """

    trajectory: Trajectory
    number: int
    turn: Turn
    anchor: str
    value: float
    parts: Mapping[str, float]
    in_loss: bool


def credited_turns(
    group: Group, settings: CreditSettings, advantages: Advantages, masked: Collection[str] = ()
) -> list[CreditedTurn]:
    """Return every turn of a group's finished trajectories with its advantage, in the order of play.

    Args:
        group: as credit saw it.
        settings: of the rule.
        advantages: those of all groups, since some rules compare groups with each other.
        masked: ids of trajectories that are not trained on.
    """
    from turncredit.agents.steps import anchors_of

    turns = [
        (episode, number, turn) for episode in group.finished for number, turn in enumerate(episode.turns, start=1)
    ]
    result = advantages.aligned([episode.id for episode, _, _ in turns], [number - 1 for _, number, _ in turns])
    anchors = [key for episode in group.finished for key in anchors_of(episode, settings.anchor)[:-1]]
    return [
        CreditedTurn(
            trajectory,
            number,
            turn,
            anchors[row],
            float(result.values[row]),
            {name: float(column[row]) for name, column in result.parts.items()},
            bool(result.keep[row]) and trajectory.id not in masked,
        )
        for row, (trajectory, number, turn) in enumerate(turns)
    ]


def _state_names(rows: Sequence[CreditedTurn]) -> dict[str, str]:
    """Return a short name for every anchor that at least two turns share, the most frequent first."""
    sizes: dict[str, int] = {}
    for row in rows:
        sizes[row.anchor] = sizes.get(row.anchor, 0) + 1
    shared = sorted((key for key, size in sizes.items() if size > 1), key=lambda key: -sizes[key])
    return {key: f"S{index}x{sizes[key]}" for index, key in enumerate(shared, start=1)}


def _signed(value: float, won: bool) -> Text:
    """Return an advantage; green praises only what was won, since less bad than the group is above zero too."""
    if abs(value) < 5e-4:
        return Text(f"{0:9.3f}", style="dim")
    return Text(f"{value:+9.3f}", style="red" if value < 0 else "green" if won else "")


def _short(text: str, width: int = _TEXT_WIDTH) -> str:
    return textwrap.shorten(escaped(text), width, placeholder=" ...") or "(nothing)"


def _next_text(row: CreditedTurn) -> str:
    turns = row.trajectory.turns
    return turns[row.number].observation if row.number < len(turns) else row.trajectory.final_observation


def _identical(rows: Sequence[CreditedTurn]) -> list[list[list[CreditedTurn]]]:
    """Return the turns of each trajectory, with trajectories of equal turns and advantages gathered."""
    gathered: dict[tuple[object, ...], list[list[CreditedTurn]]] = {}
    for _, members in itertools.groupby(rows, key=lambda row: row.trajectory.id):
        turns = list(members)
        key = tuple(
            (row.turn.action, row.turn.text, _next_text(row), round(row.value, 3), row.in_loss) for row in turns
        )
        gathered.setdefault(key, []).append(turns)
    return list(gathered.values())


def _print_identical(console: Console, copies: Sequence[Sequence[CreditedTurn]], names: Mapping[str, str]) -> None:
    """Print one line for each of several identical trajectories, then their turns once."""
    for trajectory in (rows[0].trajectory for rows in copies):
        outcome = "won" if trajectory.won else "not won"
        turns = len(trajectory.turns)
        console.print(
            f"  {trajectory.id}: {outcome}, {turns} turns, reward {trajectory.reward:g}, ended as {trajectory.stop}",
            style="bold green" if trajectory.won else "bold",
            soft_wrap=True,
        )
    rows = copies[0]
    parts = list(rows[0].parts)
    console.print(
        f"  {'turn':>4} {'advantage':>9} {''.join(f'{name[:_PART]:>10}' for name in parts)}  {'state':<7} "
        f"{'action':<34}  what followed",
        style="dim",
        soft_wrap=True,
    )
    for row in rows:
        line = Text(f"  {row.number:>4} ").append_text(_signed(row.value, row.trajectory.won)).append(" ")
        for name in parts:
            line.append(" ").append_text(_signed(row.parts[name], row.trajectory.won))
        line.append(f"  {names.get(row.anchor, '-'):<7} ", style="blue")
        action = row.turn.action if row.turn.action is not None else f"{row.turn.text!r} (unparsable)"
        line.append(f"{_short(action, 34):<34}", style="" if row.turn.valid else "yellow")
        room = max(_TEXT_WIDTH, console.width - line.cell_len - 2)
        line.append(f"  {_short(_next_text(row), room)}", style="dim")
        if not row.in_loss:
            line.append("  (dropped)", style="yellow")
        console.print(line, soft_wrap=True)
    console.print()


def _print_states(console: Console, rows: Sequence[CreditedTurn], names: Mapping[str, str], most: int) -> None:
    """Print what was done in each shared state, with the mean advantage of each action."""
    console.print(
        "  states that several turns share: the mean advantage of each action there, and how often it was taken",
        style="dim",
    )
    for key, name in itertools.islice(names.items(), most):
        members = [row for row in rows if row.anchor == key]
        head = Text(f"  {name:<7}", style="blue").append(f" {_short(members[0].turn.observation, 80)}", style="dim")
        console.print(head, soft_wrap=True)
        won = any(row.trajectory.won for row in members)
        by_action: dict[str, list[float]] = {}
        for row in members:
            by_action.setdefault(row.turn.action or "(unparsable)", []).append(row.value)
        for action, values in sorted(by_action.items(), key=lambda item: -sum(item[1]) / len(item[1])):
            line = Text(" " * 8).append_text(_signed(sum(values) / len(values), won))
            console.print(line.append(f"  {len(values):>3} x  {_short(action, 50)}"), soft_wrap=True)
    if len(names) > most:
        console.print(f"  ... and {len(names) - most} more (--states)", style="dim")
    console.print()


def _about_members(seen: CreditedGroups) -> list[str]:
    """Return sentences about members that credit did not see, that are not trained on, and that come from earlier."""
    counts = {
        "were left out by the run's group rules: their groups were dropped, or they were not counted": seen.uncounted,
        "were counted and are not trained on": seen.masked,
        "joined from experience, and were played in earlier iterations": seen.replayed,
    }
    return [f"{len(ids)} episode{'s' * (len(ids) != 1)} {text}" for text, ids in counts.items() if ids]


def _print_group(
    console: Console,
    group: Group,
    settings: CreditSettings,
    advantages: Advantages,
    states: int,
    masked: Collection[str],
) -> None:
    rows = credited_turns(group, settings, advantages, masked)
    won = sum(trajectory.won for trajectory in group.finished)
    failed = len(group.trajectories) - len(group.finished)
    note = f", {failed} ended in an error and are excluded" if failed else ""
    console.print(
        f"task {group.task}: {len(group.finished)} trajectories, {won} won, {len(rows)} turns{note}",
        style="bold",
        soft_wrap=True,
    )
    if rows:
        console.print(f"  {_short(rows[0].turn.observation, 400)}\n", style="dim", soft_wrap=True)
    names = _state_names(rows)
    for copies in _identical(rows):
        _print_identical(console, copies, names)
    if names:
        _print_states(console, rows, names, states)


def _columns(advantages: Advantages) -> list[TableColumn]:
    """Return the columns of the tables of turns."""
    turn, advantage, *others = SHOW.values()
    parts = [replace(part_column(name), head=name[:_PART]) for name in advantages.parts]
    return [turn, advantage, *parts, *others]


def _verdict(groups: Sequence[Group]) -> list[str]:
    """Return a sentence about groups in which an advantage above zero is only less bad than the others."""
    lost = [group.task for group in groups if group.finished and not any(t.won for t in group.finished)]
    if not lost:
        return []
    return [
        f"In {len(lost)} of {len(groups)} groups no episode was won: there, an advantage above 0 is less bad than the "
        "others, not good."
    ]


def show(
    path: Annotated[Path, typer.Argument(metavar="PATH", help=PATH_HELP)],
    options: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Options for the rules that have them.")
    ] = None,
    rules: Annotated[
        str | None, typer.Option("--credit", metavar="A,B,...", help=CREDIT_HELP.format("the run's, or gigpo"))
    ] = None,
    anchor: Annotated[
        str | None,
        typer.Option(help="What makes two turns comparable: state, observation or history. Default: the run's."),
    ] = None,
    task: Annotated[str | None, typer.Option(help="Only tasks whose id contains this text.")] = None,
    iteration: Annotated[int | None, typer.Option(min=0, help=ITERATION_HELP)] = None,
    limit: Annotated[int, typer.Option(min=1, help="Show at most this many groups.")] = 3,
    states: Annotated[int, typer.Option(min=0, help="Show at most this many shared states of a group.")] = 8,
    trust: Trust = False,
) -> None:
    """Print stored trajectories with the advantage of every turn.

    Rules, options and the anchor default to those of the run that the trajectories belong to.
    """
    from turncredit.agents.steps import steps_of
    from turncredit.training.run_folder.paths import trajectory_file

    file = trajectory_file(path, iteration)
    settings = credit_settings(file, rules, parse_options(options), anchor, "")
    seen = read_credited(file)
    groups = of_task(seen.groups, file, task)
    steps = steps_of(seen.groups, anchor=settings.anchor, only_common=True)
    console = out()
    for line in [str(file), *settings.describe(), *_about_members(seen)]:
        console.print(line, style="dim", soft_wrap=True)
    for rule in settings.rules:
        console.print(f"advantages by {rule}", style="dim", soft_wrap=True)
        advantages = settings.advantages(rule, steps)
        for group in groups[:limit]:
            _print_group(console, group, settings, advantages, states, seen.masked)
        say_key(_columns(advantages))
        for sentence in _verdict(groups[:limit]):
            say_wrapped(sentence)
    if len(groups) > limit:
        console.print(f"{len(groups) - limit} more groups (--limit, --task)", style="dim")

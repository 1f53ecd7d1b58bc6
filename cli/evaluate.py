"""`turnwise eval` and `turnwise compare`: a player on a fixed panel, and two results on the same one."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.live import Live
from rich.table import Table
from rich.text import Text

from turnwise.cli.console import duration, err, out, percent, say, warn
from turnwise.cli.errors import UserError, choose, require_writable
from turnwise.cli.options import parse_options

if TYPE_CHECKING:
    from turnwise.agents.comparison import Comparison
    from turnwise.agents.evaluation import EvaluationResult, Panel, Rate
    from turnwise.agents.trajectory import Trajectory
    from turnwise.cli.players import EnvChoice, Player


def _panel_of(
    file: Path | None, choose_env: Callable[[], EnvChoice], env_id: str | None, episodes: int, seed: int
) -> Panel:
    """The panel of the file if it is there; else a new one, written to the file if one is named."""
    from turnwise.agents.evaluation import Panel, make_panel

    if file is not None and file.exists():
        panel = Panel.load(file)
        if env_id is not None and env_id != panel.env:
            raise UserError(f"{file} is a panel of {panel.env}, not of {env_id}.")
        return panel
    target = choose_env()
    panel = make_panel(target.env_id, target.kwargs, episodes, seed)
    if file is not None:
        panel.save(file)
    return panel


class EpisodeCounter:
    """Counts finished episodes on a terminal's last line; silent elsewhere."""

    def __init__(self, total: int) -> None:
        """Count up to `total`."""
        self.total, self.done, self.won, self.begun = total, 0, 0, time.monotonic()
        self.live = Live(console=err(), get_renderable=self.render, refresh_per_second=4, transient=True)

    def __enter__(self) -> EpisodeCounter:
        """Show the count, on a terminal."""
        if self.live.console.is_terminal:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take the line away."""
        self.live.stop()

    def __call__(self, trajectory: Trajectory) -> None:
        """Count one episode."""
        self.done += 1
        self.won += trajectory.won

    def render(self) -> Text:
        """The line as it is now."""
        left = (time.monotonic() - self.begun) / self.done * (self.total - self.done) if self.done else None
        rest = "" if left is None else f", {duration(left)} left"
        return Text(f"{self.done}/{self.total} episodes, {self.won} won{rest}")


def play_panel(
    player: Player, panel: Panel, *, concurrency: int = 64, deadline: float | None = None, keep: Path | None = None
) -> EvaluationResult:
    """The result of a player on a panel, with a count on the terminal while it goes.

    Args:
        player: who plays.
        panel: the tasks.
        concurrency: most episodes at a time.
        deadline: seconds that a step may take, with environments on threads; None: inline, no limit.
        keep: file of trajectories, or None.
    """
    from contextlib import ExitStack

    from turnwise.agents.evaluation import evaluate as evaluate_panel
    from turnwise.agents.store import TrajectoryWriter
    from turnwise.envs import make

    with ExitStack() as stack:
        counter = stack.enter_context(EpisodeCounter(len(panel.tasks)))
        writer = None if keep is None else stack.enter_context(TrajectoryWriter(keep))

        def finished(trajectory: Trajectory) -> None:
            counter(trajectory)
            if writer is not None:
                writer.write(trajectory)

        return evaluate_panel(
            player.agent,
            player.sampler,
            panel,
            partial(make, panel.env, **panel.kwargs),
            name=player.name,
            concurrency=concurrency,
            deadline=deadline,
            on_finish=finished,
        )


def rate_cells(rate: Rate) -> tuple[str, str]:
    """A rate and its interval as two cells of a table."""
    if rate.value is None:
        return "-", ""
    return percent(rate.value), f"{100 * rate.low:.1f} to {100 * rate.high:.1f} %"


def _rate_row(name: str, rate: Rate) -> tuple[str, str, str, str]:
    return name, *rate_cells(rate), f"{rate.k}/{rate.n}"


def result_table(result: EvaluationResult) -> Table:
    """Success of a result with its 95 % interval and n: over all tasks, and for every task type."""
    summary = result.summary()
    table = Table(box=None, padding=(0, 2), header_style="dim")
    table.add_column("")
    for name in ("success", "95 % interval", "won/n"):
        table.add_column(name, justify="right")
    table.add_row(*_rate_row("all tasks", summary.success), style="bold")
    if len(summary.by_type) > 1:
        for kind, rate in summary.by_type.items():
            table.add_row(*_rate_row(f"  {kind}", rate))
    return table


def print_result(result: EvaluationResult) -> None:
    """Print what a result says."""
    summary = result.summary()
    console = out()
    console.print(
        f"{result.name} on {result.panel.env} {_kwargs(result.panel)}: {len(result.rows)} tasks in "
        f"{duration(result.seconds)}",
        soft_wrap=True,
    )
    console.print(result_table(result))
    facts = [
        ("mean turns", summary.turns, "{:.1f}"),
        ("of those won", summary.turns_won, "{:.1f}"),
        ("mean score", summary.score, "{:.3f}"),
    ]
    words = [f"{name} {form.format(value)}" for name, value, form in facts if value is not None]
    rates = [("unparsable", summary.unparsable), ("inadmissible", summary.inadmissible)]
    words += [f"{name} {percent(value)} of turns" for name, value in rates if value is not None]
    say("  " + ", ".join(words))
    say("  ended as: " + ", ".join(f"{stop} {number}" for stop, number in summary.stops.items()))
    if summary.errors:
        reason = next(row.error for row in result.rows if row.stop == "error")
        warn(f"  {summary.errors} episodes failed and are in no rate; the first one because of: {reason}")


def _kwargs(panel: Panel) -> str:
    return " ".join(f"{key}={value}" for key, value in panel.kwargs.items()) or "(no arguments)"


def evaluate(
    who: Annotated[
        str, typer.Argument(metavar="WHO", help="A run or checkpoint folder, expert, random, or a demonstrator.")
    ],
    env_id: Annotated[
        str | None, typer.Argument(metavar="ENV_ID", help="Environment; a run's own when absent.")
    ] = None,
    options: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="Arguments of the environment; agent.KEY=VALUE of the agent."),
    ] = None,
    episodes: Annotated[int, typer.Option(min=1, help="Tasks of a new panel.")] = 100,
    split: Annotated[str | None, typer.Option(help="The same as split=... among the arguments.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of a new panel, and of the random player.")] = 0,
    panel: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The panel: read when it is there, else written.")
    ] = None,
    output: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the result as JSON.")] = None,
    trajectories: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the episodes too (.jsonl, .jsonl.gz, .jsonl.zst).")
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Most episodes at a time.")] = 64,
    deadline: Annotated[
        float | None,
        typer.Option(
            min=0, help="Seconds that a step may take; environments then step side by side. Absent: the run's."
        ),
    ] = None,
) -> None:
    """Play a fixed panel of tasks and print success with its interval."""
    from turnwise.cli.players import load_player, split_words, take_agent_options, target

    env_id, words = split_words(env_id, options)
    env_options, agent_options = take_agent_options(parse_options(words))
    if split is not None:
        env_options["split"] = split
    for file in (output, panel, trajectories):
        if file is not None:
            require_writable(file)
    fixed = _panel_of(panel, lambda: target(env_id, env_options, who), env_id, episodes, seed)
    player = load_player(who, agent_options, env_id=fixed.env, seed=seed)
    try:
        limit = player.deadline if deadline is None else deadline
        result = play_panel(player, fixed, concurrency=concurrency, deadline=limit or None, keep=trajectories)
    except KeyboardInterrupt as error:
        finished = sum(len(group.trajectories) for group in getattr(error, "groups", ()))
        warn(f"{finished} of {len(fixed.tasks)} episodes were finished; {_what_is_kept(output, trajectories, panel)}")
        raise
    finally:
        player.sampler.close()
    if all(row.stop == "error" for row in result.rows):
        raise UserError(f"Every episode failed, the first one because of: {result.rows[0].error}")
    print_result(result)
    if len(fixed.tasks) != episodes:
        say(f"  ({len(fixed.tasks)} tasks: {'the panel of the file' if panel else 'all that there are'})", "dim")
    for file, kind in ((output, "result"), (trajectories, "trajectories"), (panel, "panel")):
        if file is not None:
            if file is output:
                result.save(file)
            say(f"  {kind}: {file}", "dim")


def _what_is_kept(output: Path | None, trajectories: Path | None, panel: Path | None) -> str:
    """What an evaluation that was interrupted leaves behind, in words."""
    kept = f"they are in {trajectories}" if trajectories else "they are not kept (--trajectories FILE would keep them)"
    if panel is not None:
        kept += f"; the panel is in {panel}"
    if output is not None:  # an unfinished result would pass for a finished one in a comparison
        kept += f"; {output} was not written, since the episodes that end first are the short ones and no fair sample"
    return kept


def print_comparison(first: EvaluationResult, second: EvaluationResult, comparison: Comparison) -> None:
    """Print two results side by side, and the verdict on their difference."""
    names = (first.name or "first", second.name or "second")
    if names[0] == names[1]:
        names = (f"{names[0]} (first)", f"{names[1]} (second)")
    table = Table(box=None, padding=(0, 2), header_style="dim")
    table.add_column("")
    for name in ("success", "95 % interval", "won/n"):
        table.add_column(name, justify="right")
    for name, rate in zip(names, (comparison.first, comparison.second), strict=True):
        table.add_row(*_rate_row(name, rate))
    console = out()
    console.print(f"{first.panel.env} {_kwargs(first.panel)}, paired over {comparison.pairs} tasks", soft_wrap=True)
    console.print(table)
    differs = comparison.p_success < comparison.alpha
    say(comparison.verdict, "bold green" if differs else "bold yellow")


def compare(
    first: Annotated[Path, typer.Argument(metavar="A.json", help="A result of `turnwise eval --output`.")],
    second: Annotated[Path, typer.Argument(metavar="B.json", help="Another one on the same panel.")],
    form: Annotated[str, typer.Option("--format", help="text or json.")] = "text",
) -> None:
    """Compare two results on the same panel, task by task: is the difference more than noise?"""
    from turnwise.agents.comparison import compare as compare_results
    from turnwise.agents.evaluation import EvaluationResult

    choose("format", form, ("text", "json"))
    a, b = EvaluationResult.load(first), EvaluationResult.load(second)
    comparison = compare_results(a, b)
    if form == "json":
        content: dict[str, Any] = {**asdict(comparison), "verdict": comparison.verdict}
        typer.echo(json.dumps(content, indent=1))
        return
    print_comparison(a, b, comparison)

"""`turncredit eval`: a player on a fixed panel of tasks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.live import Live
from rich.table import Table
from rich.text import Text

from turncredit.cli.console import err, out, say, warn
from turncredit.cli.errors import UserError
from turncredit.cli.model_options import BatchSize, Device, Dtype, Threads
from turncredit.cli.options import Trust, parse_options
from turncredit.cli.printing.tables import print_table
from turncredit.report.number_text import count, duration, percent
from turncredit.report.run_effort import memory_text
from turncredit.report.table_columns import EVAL, HARM

INTERVAL = 10.0
"""Seconds between two lines about finished episodes without a terminal."""

if TYPE_CHECKING:
    from turncredit.agents.trajectory import Trajectory
    from turncredit.cli.players import EnvChoice
    from turncredit.evaluation.panels import Panel
    from turncredit.evaluation.results import EpisodeRow, EvaluationResult, Rate
    from turncredit.training.engine.loaded_agent import LoadedAgent


def _panel_of(
    file: Path | None,
    chosen: Callable[[], EnvChoice],
    env_id: str | None,
    options: Mapping[str, object],
    episodes: int,
    seed: int,
) -> Panel:
    """Return the panel of the file if it exists, else a new one, which is written to the file if one is named."""
    from turncredit.evaluation.panels import Panel, make_panel
    from turncredit.training.config.file_options import require_safe_env

    if file is not None and file.exists():
        panel = Panel.load(file)
        if env_id is not None and env_id != panel.env:
            raise UserError(f"{file} is a panel of {panel.env}, not of {env_id}")
        other = [name for name, value in options.items() if name not in panel.kwargs or panel.kwargs[name] != value]
        if other:
            has = ", ".join(f"{name}={value}" for name, value in panel.kwargs.items()) or "no arguments"
            raise UserError(
                f"{file} is a panel with {has}; leave out {', '.join(other)}, or name another file for a new panel"
            )
        require_safe_env(panel.env, panel.kwargs, options)
        return panel
    choice = chosen()
    panel = make_panel(choice.env_id, choice.kwargs, episodes, seed)
    if file is not None:
        panel.save(file)
    return panel


class EpisodeCounter:
    """Counts finished episodes on the last line of a terminal; elsewhere a line says it now and then.

    Without a terminal the first line comes at once, and the next ones at most every `INTERVAL` seconds.
    """

    def __init__(self, total: int, label: str = "", before: tuple[int, int] = (0, 0)) -> None:
        """Prepare to count.

        Args:
            total: number of episodes.
            label: stands before the count.
            before: how many are already finished, and how many of these were won.
        """
        self.total, self.label = total, label
        self.before, self.won = before
        self.done, self.begun, self.printed = 0, time.monotonic(), 0.0
        self._counted: set[str] = set()
        self.live = Live(console=err(), get_renderable=self.render, refresh_per_second=4, transient=True)

    def __enter__(self) -> EpisodeCounter:
        """Show the count."""
        if self.live.console.is_terminal:
            self.live.start()
        else:
            self._print()
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the line."""
        self.live.stop()

    def __call__(self, trajectory: Trajectory) -> None:
        """Count one episode; one that is played again counts once."""
        self._counted.add(trajectory.id)
        self.done = len(self._counted)
        self.won += trajectory.won
        if not self.live.console.is_terminal and time.monotonic() - self.printed >= INTERVAL:
            self._print()

    def _print(self) -> None:
        self.printed = time.monotonic()
        out().print(self.render(), soft_wrap=True)

    def render(self) -> Text:
        """Return the line."""
        finished = self.before + self.done
        left = (time.monotonic() - self.begun) / self.done * (self.total - finished) if self.done else None
        remaining = "" if left is None else f", {duration(max(0.0, left))} left"
        return Text(f"{self.label}{finished}/{self.total} episodes, {self.won} won{remaining}")


def play_panel(
    player: LoadedAgent,
    panel: Panel,
    *,
    concurrency: int = 64,
    deadline: float | None = None,
    workers: int = 0,
    trials: int = 1,
    keep: Path | None = None,
    watch: Callable[[Trajectory], None] = lambda trajectory: None,
) -> EvaluationResult:
    """Return the result of a player on a panel; the terminal shows how many episodes are finished.

    Args:
        player: who plays.
        panel: the tasks.
        concurrency: maximum number of episodes at a time.
        deadline: time limit of an environment step in seconds, with environments on threads; None for no limit.
        workers: processes in which the environments live; 0 for this one.
        trials: how often every task is played.
        keep: file for the trajectories, or None.
        watch: called with every trajectory as it finishes.
    """
    from contextlib import ExitStack

    from turncredit.agents.files.trajectory_files import TrajectoryWriter, check_suffix
    from turncredit.agents.rollouts.env_pool import EnvPool
    from turncredit.envs import maker
    from turncredit.evaluation.evaluation import evaluate as evaluate_panel
    from turncredit.processes import tracing

    with ExitStack() as stack:
        stack.enter_context(tracing.sending_if_asked())
        pool = stack.enter_context(EnvPool(maker(panel.env, **panel.kwargs), deadline, workers=workers))
        counter = stack.enter_context(EpisodeCounter(len(panel.tasks) * trials))
        writer: TrajectoryWriter | None = None
        if keep is not None:
            check_suffix(keep)

        def finished(trajectory: Trajectory) -> None:
            nonlocal writer
            counter(trajectory)
            watch(trajectory)
            if keep is not None:
                if writer is None:  # an existing file is replaced only now that there is something to write
                    writer = stack.enter_context(TrajectoryWriter(keep))
                writer.write(trajectory)

        return evaluate_panel(
            player.agent,
            player.sampler,
            panel,
            pool,
            name=player.name,
            concurrency=concurrency,
            trials=trials,
            on_finish=finished,
        )


def rate_cells(rate: Rate) -> tuple[str, str]:
    """Return a rate and its interval as two cells of a table."""
    if rate.value is None:
        return "-", ""
    return percent(rate.value), f"{100 * rate.low:.1f} to {100 * rate.high:.1f} %"


def rate_row(name: str, rate: Rate) -> tuple[str, str, str, str]:
    """Return a name, a rate, its interval and its counts as four cells of a table."""
    return name, *rate_cells(rate), f"{rate.k}/{rate.n}"


def result_table(result: EvaluationResult) -> Table:
    """Return the table of success with its 95 % interval and n, over all tasks and for every task type."""
    summary = result.summary()
    table = Table(box=None, padding=(0, 2), header_style="dim")
    table.add_column("")
    for column in EVAL.values():
        table.add_column(column.head, justify="right")
    table.add_row(*rate_row("all tasks", summary.success), style="bold")
    for part, rate in summary.by_part.items():
        table.add_row(*rate_row(f"  in {part}", rate))
    if len(summary.by_type) > 1:
        for kind, rate in summary.by_type.items():
            table.add_row(*rate_row(f"  {kind}", rate))
    if summary.harm is not None:
        table.add_row(*rate_row(HARM.head, summary.harm))
    return table


def usage(result: EvaluationResult) -> Iterator[str]:
    """Yield lines about answers that were cut, refused or empty, and about tokens and their price, if any are known.

    They are about all episodes, also those that were played again, since those that ended as an error are paid for.
    """
    rows, episodes, unit = result.attempts, len(result.rows), "a task" if result.trials == 1 else "an episode"
    kinds = ("truncated", "refused", "empty")
    answers = [f"{kind} {number}" for kind in kinds if (number := sum(getattr(row, kind) for row in rows))]
    if answers:
        yield f"answers: {', '.join(answers)} of {sum(row.turns for row in rows)}"
    prompted, sampled = sum(row.prompt_tokens for row in rows), sum(row.response_tokens for row in rows)
    if prompted or sampled:
        costs = [row.cost for row in rows if row.cost is not None]
        words = f"tokens: {prompted:,} of prompts, {sampled:,} of answers"
        words += f" ({prompted / episodes:,.0f} and {sampled / episodes:,.0f} {unit})"
        words += _known([row.counted for row in rows], rows)
        cost = f"; cost: {sum(costs):.4f} ({sum(costs) / episodes:.6f} {unit})" if costs else ""
        yield words + cost + (_known([row.priced for row in rows], rows) if costs else "")


def _known(counts: Sequence[int | None], rows: Sequence[EpisodeRow]) -> str:
    """Return for how many answers a total is known, "" if for all."""
    turns, counted = sum(row.turns for row in rows), sum(number or 0 for number in counts)
    return "" if None in counts or counted >= turns else f", known for {counted:,} of {turns:,} answers"


def effort(result: EvaluationResult) -> Iterator[str]:
    """Yield a line about tokens per second and memory, as far as they are known."""
    prompts = sum(row.prompt_tokens for row in result.attempts)
    answers = sum(row.response_tokens for row in result.attempts)
    words = []
    if result.seconds and (prompts or answers):
        rates = f"{count(prompts / result.seconds)} prompt and {count(answers / result.seconds)} sampled tokens"
        words.append(f"speed: {rates} per second")
    if result.memory:
        words.append(f"memory: {memory_text(result.memory)}")
    if words:
        yield "; ".join(words)


def print_result(result: EvaluationResult, size: str = "") -> None:
    """Print a result; `size` says what was played, if not tasks and trials."""
    summary = result.summary()
    console = out()
    console.print(
        f"{result.name} on {result.panel.env} {describe_kwargs(result.panel)}: {size or _size(result)} in "
        f"{duration(result.seconds)}",
        soft_wrap=True,
    )
    print_table(result_table(result), [*EVAL.values(), *([] if summary.harm is None else [HARM])])
    if result.trials > 1:
        say("  the intervals allow for episodes of one task being alike", "dim")
    facts = [
        ("mean turns", summary.turns, "{:.1f}"),
        ("of those won", summary.turns_won, "{:.1f}"),
        ("mean score", summary.score, "{:.3f}"),
    ]
    words = [f"{name} {form.format(value)}" for name, value, form in facts if value is not None]
    rates = [("unparsable", summary.unparsable), ("inadmissible", summary.inadmissible)]
    words += [f"{name} {percent(value)} of turns" for name, value in rates if value is not None]
    say("  " + ", ".join(words))
    for line in (*usage(result), *effort(result)):
        say("  " + line)
    say("  ended as: " + ", ".join(f"{stop} {number}" for stop, number in summary.stops.items()))
    if summary.errors:
        reason = next(row.error for row in result.rows if row.stop == "error")
        warn(f"  {summary.errors} episodes failed and are excluded from the rates; the first error: {reason}")
    for stop, clause in {"tokens": "outgrew the model's context", "answer": "ended in an unreadable answer"}.items():
        if reasons := [row.error for row in result.rows if row.stop == stop]:
            warn(f"  {len(reasons)} episodes {clause}; the first: {reasons[0]}")


def _size(result: EvaluationResult) -> str:
    """Return how much was played: "100 tasks", "100 tasks x 4 trials"."""
    if result.trials == 1:
        return f"{len(result.rows)} tasks"
    return f"{len(result.panel.tasks)} tasks x {result.trials} trials"


def print_reliability(result: EvaluationResult) -> None:
    """Print the shares of tasks that are won in at least one, and in each, of k trials, for every k."""
    from turncredit.evaluation.reliability import best_of, reliability

    table = Table(box=None, padding=(0, 2), header_style="dim")
    for name in ("k", "pass@k: at least one", "95 % interval", "pass^k: all", "95 % interval"):
        table.add_column(name, justify="right")
    for some, each in zip(best_of([result]), reliability([result]), strict=True):
        cells = [(percent(rate.value), f"{100 * rate.low:.1f} to {100 * rate.high:.1f} %") for rate in (some, each)]
        if some.k > 1:  # of one trial, both are the rate above
            table.add_row(str(some.k), *cells[0], *cells[1])
    if table.row_count:
        out().print(table)


def describe_kwargs(panel: Panel) -> str:
    """Return the arguments of a panel's environment in one line; of a mixture, the names of its parts."""
    from turncredit.envs.parts import MIXTURE

    if panel.env == MIXTURE:
        return f"of {', '.join(panel.parts())}"
    return " ".join(f"{key}={value}" for key, value in panel.kwargs.items()) or "(no arguments)"


def evaluate(
    who: Annotated[
        str,
        typer.Argument(
            metavar="AGENT", help="A run or checkpoint folder, a demonstrator, expert, random, or ENGINE:MODEL@URL."
        ),
    ],
    env_id: Annotated[str | None, typer.Argument(metavar="ENV_ID", help="Environment. Default: the run's own.")] = None,
    options: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE",
            help="Arguments of the environment; agent.KEY=VALUE and sampler.KEY=VALUE for the agent.",
        ),
    ] = None,
    episodes: Annotated[int, typer.Option(min=1, help="Number of tasks in a new panel.")] = 100,
    split: Annotated[str | None, typer.Option(help="Short for the argument split=... of the environment.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of a new panel, and of the random player.")] = 0,
    trials: Annotated[
        int,
        typer.Option(
            min=1, help="How often every task is played, each time with another seed; prints pass@k and pass^k."
        ),
    ] = 1,
    panel: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Panel file: read if it exists, else written.")
    ] = None,
    output: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the result as JSON.")] = None,
    trajectories: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the trajectories (.jsonl, .jsonl.gz, .jsonl.zst).")
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Maximum number of episodes at a time.")] = 64,
    deadline: Annotated[
        float | None,
        typer.Option(min=0, help="Time limit of an environment step in seconds, 0 for none. Default: the run's."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=0, help="Processes for the environments, 0 for this one. Default: the run's.")
    ] = None,
    device: Device = None,
    threads: Threads = 0,
    dtype: Dtype = None,
    batch_size: BatchSize = 0,
    trust: Trust = False,
) -> None:
    """Play a fixed panel of tasks, and print the success rate with its interval."""
    from turncredit.cli.players import AGENT_PREFIX, SAMPLER_PREFIX, choose_env, load_player, split_words, take_options
    from turncredit.evaluation.unread_answers import UnreadAnswers
    from turncredit.training.engine.loaded_agent import ModelOptions

    env_id, words = split_words(env_id, options)
    others, agent_options = take_options(parse_options(words), AGENT_PREFIX)
    env_options, sampler_options = take_options(others, SAMPLER_PREFIX)
    if split is not None:
        env_options["split"] = split
    files = _OutputFiles(output, trajectories, panel)
    files.check()
    fixed = _panel_of(panel, lambda: choose_env(env_id, env_options, who), env_id, env_options, episodes, seed)
    model = ModelOptions(device, threads, dtype, batch_size, sampler_options)
    if not err().is_terminal:  # a large model takes minutes to load
        say(f"loading {who} for {len(fixed.tasks)} tasks of {fixed.env}", "dim")
    player = load_player(who, agent_options, env_id=fixed.env, env_kwargs=fixed.kwargs, seed=seed, model=model)
    limit = player.deadline if deadline is None else deadline
    processes = player.workers if workers is None else workers
    unread = UnreadAnswers()
    try:
        result = _play(
            player,
            fixed,
            files,
            concurrency=concurrency,
            deadline=limit or None,
            workers=processes,
            trials=trials,
            watch=unread,
        )
    finally:
        player.close()
    if output is not None:  # before printing, so that `| head` does not prevent it
        result.save(output)
    print_result(result)
    if trials > 1:
        print_reliability(result)
    for line in unread.lines(player.agent):
        warn(f"  {line}")
    if len(fixed.tasks) != episodes:
        say(f"  ({len(fixed.tasks)} tasks: {'the panel of the file' if panel else 'all there are'})", "dim")
    for kind, file in files.named().items():
        say(f"  {kind}: {file}", "dim")


@dataclass(frozen=True, slots=True)
class _OutputFiles:
    """The files of an evaluation that were named."""

    result: Path | None
    trajectories: Path | None
    panel: Path | None

    def named(self) -> dict[str, Path]:
        """Return the files by what they hold."""
        files = {"result": self.result, "trajectories": self.trajectories, "panel": self.panel}
        return {kind: file for kind, file in files.items() if file is not None}

    def check(self) -> None:
        """Check that the files are different, and that those which are no panel yet can be written.

        Raises:
            UserError: two names mean the same file.
            StoreError: a file cannot be written.
        """
        from turncredit.agents.files.json_files import require_writable

        files = [file for file in (self.result, self.panel, self.trajectories) if file is not None]
        if len({file.resolve() for file in files}) < len(files):
            raise UserError("--output, --panel and --trajectories must name different files")
        for file in files:
            if not (file is self.panel and file.is_file()):
                require_writable(file)

    def after_interruption(self, finished: int) -> str:
        """Return a clause that says what an interrupted evaluation leaves behind."""
        if self.trajectories is None:
            clause = (
                "they are not kept (--trajectories FILE would keep them)" if finished else "there is nothing to keep"
            )
        elif finished:
            clause = f"they are in {self.trajectories}"
        else:
            clause = f"{self.trajectories} {'is as it was before' if self.trajectories.exists() else 'was not written'}"
        if self.panel is not None:
            clause += f"; the panel is in {self.panel}"
        if self.result is not None:
            reason = ", since the episodes that finish first are not a fair sample" if finished else ""
            clause += f"; {self.result} was not written{reason}"
        return clause


def _play(
    player: LoadedAgent,
    panel: Panel,
    files: _OutputFiles,
    *,
    concurrency: int,
    deadline: float | None,
    workers: int,
    trials: int,
    watch: Callable[[Trajectory], None],
) -> EvaluationResult:
    """Return the result of a player; an interruption says what is kept.

    Raises:
        UserError: no episode says anything about the player.
    """
    from turncredit.agents.errors import EngineFailed

    try:
        result = play_panel(
            player,
            panel,
            concurrency=concurrency,
            deadline=deadline,
            workers=workers,
            trials=trials,
            keep=files.trajectories,
            watch=watch,
        )
    except (KeyboardInterrupt, EngineFailed) as error:
        finished = sum(len(group.trajectories) for group in getattr(error, "groups", None) or ())
        if finished or isinstance(error, KeyboardInterrupt):
            clause = files.after_interruption(finished)
            warn(f"{finished} of {len(panel.tasks) * trials} episodes were finished; {clause}")
        raise
    require_played(result)
    return result


def require_played(result: EvaluationResult) -> None:
    """Check that some episode says something about the player.

    Raises:
        UserError: every episode failed, or none had a turn.
    """
    if all(row.stop == "error" for row in result.rows):
        raise UserError(f"every episode failed; the first error: {result.rows[0].error}")
    if all(row.stop == "tokens" and not row.turns for row in result.rows):
        raise UserError(f"no episode had a single turn: {result.rows[0].error}")

"""`turncredit credit --truth K`: forks of the stored episodes are played, and the rules are scored against them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from turncredit.cli.console import err, out, say, say_json, warn
from turncredit.cli.credit.truth_tables import truth_tables
from turncredit.cli.errors import INTERRUPTED, UserError
from turncredit.cli.options import Options, parse_options
from turncredit.cli.players import load_player, take_options
from turncredit.cli.playing.recorded_player import player_of
from turncredit.cli.printing.tables import print_table, say_wrapped
from turncredit.registry import suggest
from turncredit.report.credit_settings import credit_settings
from turncredit.report.number_text import count, duration, percent
from turncredit.report.stored_groups import read_groups, require_turns
from turncredit.report.truth_picture import check_truth_picture, save_truth_picture
from turncredit.report.truth_scores import GradientScores, TruthScores, return_options, score_rules
from turncredit.report.truth_verdict import truth_verdict

if TYPE_CHECKING:
    from turncredit.agents.trajectory import Group, Turn
    from turncredit.evaluation.stored_rollouts import RolloutRecord
    from turncredit.training.config.run import Run
    from turncredit.training.engine.loaded_agent import LoadedAgent
    from turncredit.training.truth.forking import ForkPlayer
    from turncredit.training.truth.measuring import TruthOptions, TruthPlan, TruthTable

_PREFIX = "truth."
_OPTIONS = ("reliability", "turns", "early", "trajectories", "env", "chance", "gradients")
"""What `truth.KEY=VALUE` may set."""

_LACKS = re.compile(r"needs the column '(\w+)'")
_SMALL_MODEL = 50_000_000
"""Parameters of a model above which gradients of every turn are computed only when asked for."""

_INTERVAL = 10.0
"""Seconds between lines of progress without a terminal."""


@dataclass(frozen=True, slots=True)
class TruthRequest:
    """What the command line asks for."""

    forks: int
    rules: str | None
    anchor: str | None
    task: str | None
    iteration: int | None
    policy: str | None
    picture: Path | None
    as_json: bool


def score_against_truth(path: Path, words: Sequence[str], request: TruthRequest) -> None:
    """Play the forks that are missing, and print every rule against the truth.

    Raises:
        UserError: an option is unknown, or nothing says which environment or player it is.
    """
    from turncredit.evaluation.stored_rollouts import RolloutRecord
    from turncredit.training.run_folder.paths import run_of, trajectory_file
    from turncredit.training.truth.fork_records import ForkFile, truth_file
    from turncredit.training.truth.measuring import TruthTable, has_chance

    others, chosen = take_options(parse_options(words), _PREFIX)
    _check(chosen)
    if request.picture is not None:
        check_truth_picture(request.picture)
    file = trajectory_file(path, request.iteration)
    settings = credit_settings(file, request.rules or _all_rules(file), others, request.anchor)
    gamma, penalty = return_options(settings, list(settings.rules))
    groups = _first_groups(read_groups(file, request.task, credited=True), chosen)
    require_turns(groups, file)
    run = run_of(file)
    record = None if run is not None else RolloutRecord.of(file)
    env_id, env_kwargs = _environment(run, record, chosen)
    if record is not None and request.policy is None:
        loaded = player_of(record, env_id, env_kwargs)
    else:
        loaded = load_player(request.policy or str(_run_folder(file, run)), env_id=env_id, env_kwargs=env_kwargs)
    player: ForkPlayer | None = None
    try:
        player, model = _player(loaded, run, env_id, env_kwargs), _model(loaded, groups, chosen)
        chance = bool(chosen["chance"]) if "chance" in chosen else has_chance(groups, player)
        player.fresh = chance
        forks = ForkFile.open(truth_file(file), _described(loaded, env_id, env_kwargs, chance))
        table = TruthTable.of(groups, forks, chance=chance)
        speed = _speed(_run_folder(file, run)) if run is not None and request.policy is None else None
        _play(table, player, _truth_options(request, chosen, gamma, penalty), speed)
        gradients = None if model is None else _gradients(model, loaded, groups)
        scores = score_rules(table, settings, gamma=gamma, invalid_penalty=penalty, gradients=gradients)
    finally:
        loaded.close()
        if player is not None:
            player.close()
    if request.picture is not None:
        save_truth_picture(scores, request.picture)
    if request.as_json:
        about = {"file": str(file), "forks_file": str(forks.path), "verdict": truth_verdict(scores)}
        say_json({**about, **scores.as_dict()})
    else:
        print_scores(scores, file, truth_file(file))


def _check(chosen: Mapping[str, object]) -> None:
    for option in chosen:
        if option not in _OPTIONS:
            raise UserError(f"there is no option {_PREFIX}{option}{suggest(option, _OPTIONS)}")


def _all_rules(file: Path) -> str:
    """Return the names of all registered rules, the run's own first."""
    from turncredit.credit import rules
    from turncredit.training.run_folder.paths import run_of

    run = run_of(file)
    own = [] if run is None or run.credit.method not in rules() else [run.credit.method]
    return ",".join(dict.fromkeys([*own, *rules()]))


def _first_groups(groups: Sequence[Group], chosen: Mapping[str, object]) -> list[Group]:
    """Return the first groups with as many trajectories as are asked for."""
    most = chosen.get("trajectories")
    if most is None:
        return list(groups)
    if not isinstance(most, int) or most < 1:
        raise UserError(f"{_PREFIX}trajectories must be an integer >= 1, got {most!r}")
    first: list[Group] = []
    for group in groups:
        if sum(len(earlier.trajectories) for earlier in first) < most:
            first.append(group)
    return first


def _environment(run: Run | None, record: RolloutRecord | None, chosen: Mapping[str, object]) -> tuple[str, Options]:
    """Return the environment in which the episodes were played, and its arguments."""
    from turncredit.training.config.file_options import require_safe_env

    env_id = chosen.get("env")
    if isinstance(env_id, str):
        return env_id, {}
    if run is not None:
        env_id, kwargs = run.env.id, run.env.arguments()
    elif record is not None:
        env_id, kwargs = record.panel.env, dict(record.panel.kwargs)
    else:
        raise UserError(f"these trajectories belong to no run; say {_PREFIX}env=ID and --policy PLAYER")
    require_safe_env(env_id, kwargs)
    return env_id, kwargs


def _run_folder(file: Path, run: Run | None) -> Path:
    if run is None:
        raise UserError("these trajectories belong to no run with a checkpoint; say --policy PLAYER")
    from turncredit.training.run_folder.paths import RUN_FILE

    return next(folder for folder in file.resolve().parents if (folder / RUN_FILE).is_file())


def _player(loaded: LoadedAgent, run: Run | None, env_id: str, env_kwargs: Options) -> ForkPlayer:
    """Return who plays the forks, with the concurrency and the processes of the run."""
    from turncredit.agents.rollouts.env_pool import EnvPool
    from turncredit.envs import make
    from turncredit.training.truth.forking import ForkPlayer

    # As in training: a policy on the CPU is copied to other processes with its environments, or these have some alone.
    forks = run is not None and loaded.run is not None and run.policy.device == "cpu" and not loaded.workers
    made = partial(make, env_id, **env_kwargs)
    return ForkPlayer(
        loaded.agent,
        loaded.sampler,
        EnvPool(made, loaded.deadline, workers=loaded.workers) if loaded.workers else made,
        concurrency=run.train.concurrency if run else 64,
        processes=run.processes if run is not None and forks else 1,
        deadline=loaded.deadline,
    )


def _described(loaded: LoadedAgent, env_id: str, env_kwargs: Options, chance: bool) -> dict[str, object]:
    """Return what has to be equal for forks to belong to one truth."""
    agent = loaded.agent
    return {
        "player": loaded.name,
        "checkpoint": "" if loaded.folder is None else loaded.folder.name,
        "environment": env_id,
        "arguments": {name: repr(value) for name, value in sorted(env_kwargs.items())},
        "chance": chance,
        "temperature": agent.temperature,
        "top_p": agent.top_p,
        "top_k": agent.top_k,
        "min_p": agent.min_p,
        "max_turns": agent.max_turns,
        "max_tokens": agent.max_tokens,
    }


def _truth_options(request: TruthRequest, chosen: Mapping[str, object], gamma: float, penalty: float) -> TruthOptions:
    from turncredit.training.truth.measuring import TruthOptions

    numbers = {}
    for option, kind in (("reliability", float), ("turns", int)):
        value = chosen.get(option, 0)
        if isinstance(value, bool) or not isinstance(value, int | kind) or value < 0:
            raise UserError(f"{_PREFIX}{option} must be a number >= 0, got {value!r}")
        numbers[option] = value
    return TruthOptions(
        request.forks,
        reliability=float(numbers["reliability"]),
        max_turns=int(numbers["turns"]),
        early=chosen.get("early") is True,
        gamma=gamma,
        invalid_penalty=penalty,
    )


def _model(loaded: LoadedAgent, groups: Sequence[Group], chosen: Mapping[str, object]) -> object | None:
    """Return the policy whose gradients are compared: a small model in this process, or a large one if asked to."""
    asked, module = chosen.get("gradients"), loaded.sampler.module
    if module is None or asked is False or not any(turn.response for turn in _turns(groups)):
        if asked:
            raise UserError(f"{_PREFIX}gradients needs a policy with its weights in this process, and stored token ids")
        return None
    from turncredit.training.truth.gradients import as_model

    model = as_model(module)
    size = sum(parameter.numel() for parameter in model.parameters())
    if asked is None and size > _SMALL_MODEL:
        warn(f"no gradients of a model of {count(size)} parameters; {_PREFIX}gradients=true computes them")
        return None
    return model


def _gradients(model: object, loaded: LoadedAgent, groups: Sequence[Group]) -> GradientScores:
    """Return what scores the gradients of rules."""
    from turncredit.training.truth.gradients import as_model, gradient_measures, turn_gradients

    total = sum(1 for _ in _turns(groups))
    with Progress(TextColumn("gradients of {task.completed}/{task.total} turns"), console=err(), transient=True) as bar:
        task = bar.add_task("gradients", total=total)
        gradients = turn_gradients(
            as_model(model), groups, temperature=loaded.agent.temperature, on_turn=lambda _: bar.advance(task)
        )
    return gradient_measures(gradients, groups)


def _turns(groups: Sequence[Group]) -> Iterator[Turn]:
    return (turn for group in groups for trajectory in group.finished for turn in trajectory.turns)


def _speed(folder: Path) -> float | None:
    """Return the tokens per second that the rollouts of a run sampled last; None if it does not say."""
    from turncredit.training.run_folder.metrics import read_events

    speeds = [event.get("rollout_tokens_per_second") for event in read_events(folder / "metrics.jsonl")]
    return next((float(speed) for speed in reversed(speeds) if isinstance(speed, int | float) and speed > 0), None)


def _play(table: TruthTable, player: ForkPlayer, options: TruthOptions, speed: float | None) -> None:
    """Play with progress; Ctrl-C ends the command, and what was played is kept."""
    from turncredit.training.truth.measuring import measure, plan_forks

    plan = plan_forks(table, options)
    err().print(_cost(plan, options, speed), soft_wrap=True)
    if not plan.missing and not options.reliability:
        return
    try:
        with ForkProgress(plan) as progress:
            measure(table, player, options, progress)
    except KeyboardInterrupt:
        warn(f"stopped; {len(table.file):,} forks are in {table.file.path}, and the same command goes on with them")
        raise typer.Exit(INTERRUPTED) from None
    for problem, times in list(player.problems.items())[:3]:
        warn(f"{times} x not forked: {problem}")


def _cost(plan: TruthPlan, options: TruthOptions, speed: float | None) -> str:
    """Return what is going to be played, and how long it takes at a speed in tokens per second."""
    if not plan.missing:
        return f"{plan.forks} forks from each of {plan.histories:,} histories are there"
    goal = f", until the reliability is {options.reliability:g}" if options.reliability else ""
    length = "time estimated after the first forks" if speed is None else f"about {duration(plan.tokens / speed)}"
    size = f"{count(plan.turns)} turns" + (f" and {count(plan.tokens)} tokens" if plan.tokens else "")
    return (
        f"playing {plan.missing:,} forks, {plan.forks} from each of {plan.histories:,} different histories of "
        f"{plan.rows:,} turns{goal}: about {size}; {length}"
    )


class ForkProgress:
    """Shows how many forks are played, and how long the others will take."""

    def __init__(self, plan: TruthPlan) -> None:
        """Begin with none of them."""
        self._plan, self._begun, self._printed = plan, time.monotonic(), time.monotonic()
        self._forks = self._turns = 0
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(24), TaskProgressColumn(), console=err(), transient=True
        )
        self._task = self._bar.add_task("forks", total=max(1, plan.missing))

    def __enter__(self) -> ForkProgress:
        """Start the bar, on a terminal."""
        if err().is_terminal:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the bar."""
        self._bar.stop()

    def __call__(self, record: object) -> None:
        """Count a fork."""
        self._forks += 1
        self._turns += getattr(record, "turns", 0)
        seconds = time.monotonic() - self._begun
        speed = self._turns / max(seconds, 1e-9)
        per_fork = seconds / self._forks
        left = duration(per_fork * max(0, self._plan.missing - self._forks))
        text = f"{self._forks:,}/{self._plan.missing:,} forks, {speed:.0f} turns/s, left {left}"
        if err().is_terminal:
            self._bar.update(self._task, completed=self._forks, description=text)
        elif time.monotonic() - self._printed >= _INTERVAL:
            self._printed = time.monotonic()
            err().print(f"  {text}", soft_wrap=True)


def print_scores(scores: TruthScores, file: Path, forks: Path) -> None:
    """Print the table of rules, the reference first, how to read it, and what it says."""
    reached = "unknown" if scores.reliability is None else f"{scores.reliability:.2f}"
    say(f"{file}; forks in {forks.name}", "dim")
    say_wrapped(
        f"{scores.turns:,} turns, {scores.forks:,} forks of {scores.histories:,} histories, discount {scores.gamma:g}, "
        f"penalty {scores.invalid_penalty:g}; reliability of the truth {reached}"
    )
    say_wrapped(
        f"{percent(scores.density.significant)} of the turns have an advantage beyond two standard errors; the top "
        f"tenth holds {percent(scores.density.top_tenth)} of all |advantage|"
    )
    for table in truth_tables(scores, out().width):
        say()
        print_table(table.table, table.columns, *table.notes)
    say()
    for name, names in scores.same.items():
        say_wrapped(f"the same as {name} here, but for a positive factor: {', '.join(names)}.", "dim")
    for line in _left_out(scores.left_out):
        say_wrapped(line, "dim")
    say_wrapped(truth_verdict(scores), "bold" if scores.enough else "bold yellow")


def _left_out(reasons: Mapping[str, str]) -> list[str]:
    """Return why rules are left out: one line for all that lack a column, and one for each other reason."""
    lacking: dict[str, list[str]] = {}
    lines = []
    for name, reason in reasons.items():
        column = _LACKS.search(reason)
        if column is None:
            lines.append(f"left out: {name} ({reason})")
        else:
            lacking.setdefault(column[1], []).append(name)
    if lacking:
        columns = "; ".join(f"{column}: {', '.join(names)}" for column, names in sorted(lacking.items()))
        lines.append(f"left out, since these trajectories lack a column (docs/credit.md): {columns}")
    return lines

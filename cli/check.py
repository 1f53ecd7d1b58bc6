"""`turncredit check`: does an environment keep the contract, and do its rewards mean what they say?"""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Annotated

import typer
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from turncredit.cli.console import err, out, say, say_json, warn
from turncredit.cli.errors import UserError
from turncredit.cli.options import Options, parse_options

if TYPE_CHECKING:
    from turncredit.agents.rollouts.env_pool import MakeEnv
    from turncredit.envs.check import CheckReport, CheckResult, Effort, Level, RewardBounds

SECONDS = 600
"""Most seconds of a check by default."""
_COLOURS = {"ok": "green", "warned": "yellow", "failed": "bold red", "skipped": "dim"}
_VERDICTS = {"pass": "green", "warn": "yellow", "fail": "bold red"}


def play_expert(make: MakeEnv, task: str, seed: int) -> tuple[bool, list[str]]:
    """Return whether the player of `turncredit eval expert` wins a task, and the actions that it took."""
    from turncredit.agents.rollouts.rollout import rollout
    from turncredit.cli.players import load_player

    env = make()
    spec = env.spec
    env.close()
    env_id, env_kwargs = (None, None) if spec is None else (spec.id, spec.kwargs)
    player = load_player("expert", env_id=env_id, env_kwargs=env_kwargs, seed=seed)
    (group,) = rollout(player.agent, player.sampler, [task], make=make, size=1, seed=seed)
    (trajectory,) = group.trajectories
    return trajectory.won, [turn.action or "" for turn in trajectory.turns]


def check(
    env_id: Annotated[str, typer.Argument(metavar="ENV_ID", help="For example turncredit/Household-v0.")],
    options: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Arguments of the environment.")
    ] = None,
    tasks: Annotated[int, typer.Option(min=1, help="Number of task instances to check.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the checks.")] = 0,
    light: Annotated[
        bool | None,
        typer.Option("--light/--full", help="Fewer checks, or all. Default: fewer where steps are slow."),
    ] = None,
    level: Annotated[
        str,
        typer.Option(help="Last level of rules: runtime (the contract), semantic (what rewards mean), adversarial."),
    ] = "adversarial",
    best: Annotated[
        float | None,
        typer.Option(help="Return of a solved episode.", show_default="the expert's, else 1"),
    ] = None,
    cheap: Annotated[float, typer.Option(help="Share of it that a player without any skill may earn.")] = 0.1,
    budget: Annotated[
        str,
        typer.Option(
            metavar="STEPS,SECONDSs",
            help="Most steps of the search for unearned reward, most seconds of all rules (0s: no limit), or both.",
            show_default="3000,600s, or 60,600s where steps are slow",
        ),
    ] = "",
    attacker: Annotated[
        str | None,
        typer.Option(metavar="PLAYER", help="A player that is asked for unearned reward, such as openai:MODEL@URL."),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="A warning is a failure, too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON, and nothing else.")] = False,
) -> None:
    """Check that an environment keeps the contract, and that its rewards are earned. The exit code is 1 if not."""
    from turncredit.cli.attacker import load_attacker
    from turncredit.envs.check import Effort, RewardBounds

    kwargs = parse_options(options)
    player = None
    if attacker is not None:
        player = load_attacker(attacker, env_id, kwargs, seed=seed)
    steps, seconds = _budget(budget)
    bounds = RewardBounds(best=best, cheap=cheap, budget=steps, attacker=player)
    effort = None if light is None else Effort.light() if light else Effort()
    report = _checked(env_id, kwargs, tasks, seed, effort, _level(level), bounds, seconds, quiet=as_json)
    if as_json:
        say_json(report.document())
    else:
        _summarize(report)
    if not report.ok or (strict and report.count("warned")):
        raise typer.Exit(1)


def _level(name: str) -> Level:
    """Return the level of a name.

    Raises:
        UserError: there is no such level.
    """
    from turncredit.envs.check import LEVELS

    for level in LEVELS:
        if level == name:
            return level
    raise UserError(f"--level must be one of {', '.join(LEVELS)}, got {name!r}")


def _budget(text: str) -> tuple[int | None, float | None]:
    """Return the steps of the search, None for those of the effort, and the seconds of all rules, None for no limit.

    Raises:
        UserError: the text is no budget.
    """
    steps: int | None = None
    seconds = SECONDS
    for word in text.split(",") if text else ():
        match = re.fullmatch(r"\s*(\d{1,9})(s?)\s*", word)
        if match is None:
            example = "steps such as 3000, seconds such as 300s, or both, such as 3000,300s"
            raise UserError(f"--budget takes {example}; got {text!r}")
        if match[2]:
            seconds = int(match[1])
        else:
            steps = int(match[1])
    return steps, seconds or None


def _checked(
    env_id: str,
    kwargs: Options,
    tasks: int,
    seed: int,
    effort: Effort | None,
    level: Level,
    bounds: RewardBounds,
    seconds: float | None,
    *,
    quiet: bool,
) -> CheckReport:
    """Return the report of a check; its lines are printed as they come, unless `quiet`."""
    from turncredit.envs.check import Effort, check_env, rules

    names = [*rules(level)]
    width = max(map(len, names))
    steps = (effort or Effort()).attack if bounds.budget is None else bounds.budget
    words = [f"all rules together take at most {seconds:g} s"] if seconds else []
    if level == "adversarial":
        slow = "" if effort or bounds.budget is not None else f" ({Effort.light().attack} where steps are slow)"
        words.append(f"the search for unearned reward at most {steps:,} steps{slow}")
    budget = f"{', '.join(words)} (--budget)"
    with Live(console=err(), transient=True, refresh_per_second=8) as live:

        def show_progress(done: int) -> None:
            if done < len(names) and live.console.is_terminal:
                live.update(Spinner("dots", Text(f"{done}/{len(names)} rules: {names[done]}", style="dim")))

        def print_result(result: CheckResult) -> None:
            if words and not quiet and result.rule == names[0]:  # the environment could be made
                err().print(Text(budget, style="dim"), soft_wrap=True)
            if not quiet:
                line = Text(f"{result.outcome:>8}", style=_COLOURS[result.outcome])
                out().print(line.append(f"  {result.rule:<{width}}  {result.detail}", style="default"), soft_wrap=True)
            show_progress(1 + names.index(result.rule))

        show_progress(0)
        return check_env(
            env_id,
            kwargs=kwargs,
            tasks=tasks,
            seed=seed,
            effort=effort,
            play_expert=play_expert,
            level=level,
            bounds=bounds,
            seconds=seconds,
            on_result=print_result,
        )


def _summarize(report: CheckReport) -> None:
    """Print the scripts of failures, and the verdict of each level."""
    failed = [result for result in report.results if result.outcome == "failed"]
    for result in failed:
        say(f"\n{result.rule}, to reproduce:", "bold")
        say(textwrap.indent(result.reproduce, "    "))
    for level, verdict in report.verdicts().items():
        say(f"{verdict:>8}  {level}", _VERDICTS[verdict])
    if report.cut_short:
        warn(f"not judged, or in part, in {report.seconds:g} s (--budget): {', '.join(report.cut_short)}")
    if failed:
        say(f"\n{report.env} breaks {len(failed)} of {len(report.results)} rules", "bold red")
        return
    warned = report.count("warned")
    note = f", with {warned} warning{'s' * (warned != 1)}" if warned else ""
    limits = " as far as it was judged" if report.cut_short else ""
    say(f"{report.env} keeps the contract{limits} ({len(report.results)} rules{note})", "bold green")

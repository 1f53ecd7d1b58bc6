"""`turnwise check`: does an environment keep the contract? Prints what failed and how to reproduce it."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Annotated

import typer
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from turnwise.cli.console import err, out, say
from turnwise.cli.options import parse_options

if TYPE_CHECKING:
    from turnwise.agents.rollouts.env_pool import MakeEnv

_COLOURS = {"ok": "green", "failed": "bold red", "skipped": "yellow"}


def play_expert(make: MakeEnv, task: str, seed: int) -> tuple[bool, list[str]]:
    """Return whether the player of `turnwise eval expert` wins a task, and the actions that it took."""
    from turnwise.agents.rollouts.rollout import rollout
    from turnwise.cli.players import load_player

    env = make()
    spec = env.spec
    env.close()
    env_id, env_kwargs = (None, None) if spec is None else (spec.id, spec.kwargs)
    player = load_player("expert", env_id=env_id, env_kwargs=env_kwargs, seed=seed)
    (group,) = rollout(player.agent, player.sampler, [task], make=make, size=1, seed=seed)
    (trajectory,) = group.trajectories
    return trajectory.won, [turn.action or "" for turn in trajectory.turns]


def check(
    env_id: Annotated[str, typer.Argument(metavar="ENV_ID", help="For example turnwise/Household-v0.")],
    options: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Arguments of the environment.")
    ] = None,
    tasks: Annotated[int, typer.Option(min=1, help="Number of task instances to check.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the checks.")] = 0,
    light: Annotated[
        bool | None,
        typer.Option("--light/--full", help="Fewer checks, or all. Default: fewer where steps are slow."),
    ] = None,
) -> None:
    """Check that an environment keeps the contract, rule by rule. The exit code is 1 if a rule is broken."""
    from turnwise.envs.check import CheckResult, Effort, check_env, rules

    effort = None if light is None else Effort.light() if light else Effort()
    names = [*rules()]
    width = max(map(len, names))
    with Live(console=err(), transient=True, refresh_per_second=8) as live:

        def show_progress(done: int) -> None:
            if done < len(names) and live.console.is_terminal:
                live.update(Spinner("dots", Text(f"{done}/{len(names)} rules: {names[done]}", style="dim")))

        def print_result(result: CheckResult) -> None:
            line = Text(f"{result.outcome:>8}", style=_COLOURS[result.outcome])
            out().print(line.append(f"  {result.rule:<{width}}  {result.detail}", style="default"), soft_wrap=True)
            show_progress(1 + names.index(result.rule))

        show_progress(0)
        report = check_env(
            env_id,
            kwargs=parse_options(options),
            tasks=tasks,
            seed=seed,
            effort=effort,
            play_expert=play_expert,
            on_result=print_result,
        )
    failed = [result for result in report.results if result.outcome == "failed"]
    for result in failed:
        say(f"\n{result.rule}, to reproduce:", "bold")
        say(textwrap.indent(result.reproduce, "    "))
    if failed:
        say(f"\n{env_id} breaks {len(failed)} of {len(report.results)} rules", "bold red")
        raise typer.Exit(1)
    say(f"{env_id} keeps the contract ({len(report.results)} rules)", "bold green")

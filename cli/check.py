"""`turnwise check`: does an environment keep the contract? Prints what failed and how to see it again."""

from __future__ import annotations

from typing import Annotated

import typer

from turnwise.cli.console import out
from turnwise.cli.values import parse_options

_COLOURS = {"ok": "green", "failed": "bold red", "skipped": "yellow"}


def check(
    env_id: Annotated[str, typer.Argument(metavar="ENV_ID", help="For example turnwise/Household-v0.")],
    options: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Arguments of the environment.")
    ] = None,
    tasks: Annotated[int, typer.Option(min=1, help="How many task instances to examine.")] = 3,
    seed: Annotated[int, typer.Option(help="Seed of the examination.")] = 0,
) -> None:
    """Prove that an environment keeps the contract, rule by rule. Exit code 1 if a rule is broken."""
    from turnwise.envs import check_env

    report = check_env(env_id, kwargs=parse_options(options), tasks=tasks, seed=seed)
    console = out()
    width = max((len(result.rule) for result in report.results), default=0)
    for result in report.results:
        status = result.outcome
        console.print(f"{status:>8}", style=_COLOURS.get(status), end="  ")
        console.print(f"{result.rule:<{width}}  {result.detail}", soft_wrap=True)
        if status == "failed" and result.reproduce:
            console.print(f"{'':>10}to see it again: {result.reproduce}", style="dim", soft_wrap=True)
    failed = sum(1 for result in report.results if result.outcome == "failed")
    if not report.ok:
        console.print(f"{env_id} breaks {failed} of {len(report.results)} rules.", style="bold red")
        raise typer.Exit(1)
    console.print(f"{env_id} keeps the contract ({len(report.results)} rules).", style="bold green")

"""The command: rules side by side, or against the truth.

Advantages are computed here from the file; they are not stored with the trajectories.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from turncredit.cli.console import say, say_json, warn
from turncredit.cli.credit.comparison import print_comparison
from turncredit.cli.credit.truth import TruthRequest, score_against_truth
from turncredit.cli.errors import UserError
from turncredit.cli.options import Trust, parse_options
from turncredit.cli.show import CREDIT_HELP, ITERATION_HELP, PATH_HELP
from turncredit.report.credit_comparison import RULES, compare_rules
from turncredit.report.credit_picture import check_picture, most_instructive, save_picture
from turncredit.report.credit_settings import credit_settings
from turncredit.report.stored_groups import of_task, read_groups, require_turns


def credit(
    path: Annotated[Path, typer.Argument(metavar="PATH", help=PATH_HELP)],
    options: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Options for the rules that have them.")
    ] = None,
    rules: Annotated[
        str | None,
        typer.Option("--credit", metavar="A,B,...", help=CREDIT_HELP.format(f"{RULES} and the run's")),
    ] = None,
    anchor: Annotated[
        str | None,
        typer.Option(help="What makes two turns comparable: state, observation or history. Default: the run's."),
    ] = None,
    task: Annotated[str | None, typer.Option(help="Only tasks whose id contains this text.")] = None,
    iteration: Annotated[int | None, typer.Option(min=0, help=ITERATION_HELP)] = None,
    picture: Annotated[
        Path | None,
        typer.Option(metavar="OUT", help="Draw a task as .svg or .html, or write its graph as .graphml, .dot, .json."),
    ] = None,
    form: Annotated[
        str, typer.Option("--format", help="Format of the picture: full, or column (3.3 inches wide, .svg or .pdf).")
    ] = "full",
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
    truth: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="K",
            show_default=False,
            help="Play K forks from every turn, and score each rule (default: all) against the true advantages.",
        ),
    ] = 0,
    policy: Annotated[
        str | None,
        typer.Option(metavar="PLAYER", help="Who plays the forks: a checkpoint or sampler. Default: the run's own."),
    ] = None,
    trust: Trust = False,
) -> None:
    """Compare credit rules on stored trajectories: where each sees a difference, and where they agree.

    Rules, options and the anchor default to those of the run that the trajectories belong to. With --truth, they are
    compared with what the turns were worth: `truth.reliability=0.8`, `truth.turns=200000` and others (docs/truth.md)
    say how much is played.
    """
    if truth:
        request = TruthRequest(truth, rules, anchor, task, iteration, policy, picture, as_json)
        score_against_truth(path, options or [], request)
        return
    if policy is not None:
        raise UserError("--policy plays forks, which need --truth K")
    from turncredit.training.run_folder.paths import trajectory_file

    file = trajectory_file(path, iteration)
    settings = credit_settings(file, rules, parse_options(options), anchor, RULES)
    if picture is not None:
        check_picture(picture, form)
    everyone = read_groups(file, credited=True)
    groups = of_task(everyone, file, task)
    require_turns(groups, file)
    comparison = compare_rules(groups, settings, everyone)
    for reason in comparison.left_out.values():
        warn(f"left out: {reason}")
    number = most_instructive(groups)
    if picture is not None:  # before printing, so that `| head` does not prevent it
        save_picture(picture, form, groups, number, comparison, settings.anchor)
    if as_json:
        say_json({"file": str(file), "settings": settings.as_dict(), **comparison.as_dict()})
        return
    print_comparison(comparison, [str(file), *settings.describe()], settings.anchor)
    if picture is None:
        words = [*(options or ()), *(["--credit", rules] if rules else []), *(["--anchor", anchor] if anchor else [])]
        words += ["--task", task] if task else []
        say(
            f"to draw a task: {shlex.join(['turncredit', 'credit', str(file), *words, '--picture', 'graph.html'])}",
            "dim",
        )
    else:
        say(f"task {groups[number].task} drawn: {picture}")

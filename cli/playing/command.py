"""`turncredit rollout`: groups of episodes of any player, in a file that the commands about credit read."""

from __future__ import annotations

import shlex
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turncredit.cli.console import err, say, warn
from turncredit.cli.errors import UserError
from turncredit.cli.evaluate import EpisodeCounter, print_result, require_played
from turncredit.cli.model_options import Device
from turncredit.cli.options import Trust, parse_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turncredit.agents.trajectory import Group
    from turncredit.evaluation.results import EvaluationResult
    from turncredit.evaluation.stored_rollouts import RolloutRecord
    from turncredit.training.engine.loaded_agent import LoadedAgent


def rollout(
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
            help="Arguments of the environment; agent.KEY=VALUE and sampler.KEY=VALUE for the agent, such as "
            "sampler.noise=0.3 for an expert that makes mistakes.",
        ),
    ] = None,
    tasks: Annotated[int, typer.Option(min=1, help="Number of tasks, each of which is one group.")] = 16,
    size: Annotated[int, typer.Option(min=1, help="Episodes of each task.")] = 8,
    split: Annotated[str | None, typer.Option(help="Short for the argument split=... of the environment.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the tasks, the environments and the sampling.")] = 0,
    output: Annotated[
        Path, typer.Option(metavar="FILE", help="File of trajectories: .jsonl, .jsonl.gz or .jsonl.zst.")
    ] = Path("groups.jsonl"),
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a file that exists, also with a larger --size.")
    ] = False,
    concurrency: Annotated[int, typer.Option(min=1, help="Maximum number of episodes at a time.")] = 64,
    device: Device = None,
    trust: Trust = False,
) -> None:
    """Play groups of episodes without training, to study credit: several episodes of each of some tasks.

    All episodes of a group begin in the same state, as in training.
    """
    from turncredit.cli.players import AGENT_PREFIX, SAMPLER_PREFIX, choose_env, load_player, split_words, take_options
    from turncredit.evaluation.panels import make_panel
    from turncredit.evaluation.stored_rollouts import RolloutRecord
    from turncredit.training.engine.loaded_agent import ModelOptions

    env_id, words = split_words(env_id, options)
    others, agent_options = take_options(parse_options(words), AGENT_PREFIX)
    env_options, sampler_options = take_options(others, SAMPLER_PREFIX)
    if split is not None:
        env_options["split"] = split
    _check(output, resume=resume)
    choice = choose_env(env_id, env_options, who)
    panel = make_panel(choice.env_id, choice.kwargs, tasks, seed)
    record = RolloutRecord(panel, who, size, agent_options, sampler_options)
    if (stored := RolloutRecord.of(output)) is not None and resume:
        record.require_same(stored, output)
    if not err().is_terminal:  # a large model takes minutes to load
        say(f"loading {who} for {len(panel.tasks)} tasks of {panel.env}", "dim")
    model = ModelOptions(device=device, options=sampler_options)
    player = load_player(who, agent_options, env_id=panel.env, env_kwargs=panel.kwargs, seed=seed, model=model)
    try:
        groups, result = _play(player, record, output, concurrency)
    finally:
        player.close()
    print_result(result, f"{len(panel.tasks)} groups of {size}")
    _print_groups(groups)
    if len(panel.tasks) != tasks:
        say(f"  ({len(panel.tasks)} tasks: all there are)", "dim")
    _print_next(output)


def _check(output: Path, *, resume: bool) -> None:
    """Check that the file can be written, and that nothing is lost by it.

    Raises:
        UserError: it exists, and nobody said that it goes on; or it goes on and its record is missing.
        StoreError: it cannot be written, or its suffix is unknown.
    """
    from turncredit.agents.files.folder_lock import require_plain_files
    from turncredit.agents.files.image_store import ImageStore
    from turncredit.agents.files.json_files import require_writable
    from turncredit.agents.files.trajectory_files import check_suffix
    from turncredit.evaluation.stored_rollouts import record_file

    check_suffix(output)
    if not output.exists():
        require_writable(output)
    elif not resume:
        raise UserError(f"{output} exists; --resume goes on with it, and --output names another file")
    elif not record_file(output).is_file():
        raise UserError(f"{output} was not begun by `turncredit rollout`: {record_file(output)} is missing")
    for beside in (record_file(output), ImageStore.of(output).folder):
        if beside.is_symlink():
            raise UserError(f"{beside} is a link, and nothing is written through it: remove it")
    require_plain_files(ImageStore.of(output).folder)


def _play(
    player: LoadedAgent, record: RolloutRecord, output: Path, concurrency: int
) -> tuple[list[Group], EvaluationResult]:
    """Return the groups, and their episodes as a result; an interruption says how to go on."""
    from turncredit.agents.errors import EngineFailed
    from turncredit.agents.rollouts.env_pool import EnvPool
    from turncredit.agents.rollouts.rollout import RolloutReport
    from turncredit.envs import maker
    from turncredit.evaluation.results import EpisodeRow, EvaluationResult
    from turncredit.evaluation.stored_rollouts import earlier_episodes, play_groups
    from turncredit.processes.memory_use import memory_use

    panel, report = record.panel, RolloutReport()
    before = earlier_episodes(output)
    total = len(panel.tasks) * record.size
    with ExitStack() as stack:
        pool = EnvPool(maker(panel.env, **panel.kwargs), player.deadline, workers=player.workers)
        stack.enter_context(pool)
        counted = (len(before), sum(trajectory.won for trajectory in before))
        counter = stack.enter_context(EpisodeCounter(total, before=counted))
        try:
            groups = play_groups(
                player.agent,
                player.sampler,
                record,
                output,
                pool,
                earlier=before,
                concurrency=concurrency,
                on_finish=counter,
                report=report,
            )
        except (KeyboardInterrupt, EngineFailed):
            stack.close()
            finished = len(before) + counter.done
            warn(f"{finished} of {total} episodes are in {output}; the same command with --resume goes on with them")
            raise
    members = [replace(member, trial=trial) for group in groups for trial, member in enumerate(group.trajectories)]
    rows = tuple(EpisodeRow.of(member) for member in members)
    result = EvaluationResult(panel, rows, player.name, report.seconds, memory=memory_use())
    require_played(result)
    return groups, result


def _print_groups(groups: Sequence[Group]) -> None:
    """Print how many groups have something to compare, and what to change if few have."""
    from turncredit.credit.numerics import ROUNDING

    several = [group.finished for group in groups if len(group.finished) > 1]
    rewards = [[member.reward for member in members] for members in several]
    differing = sum(max(values) - min(values) > ROUNDING * max(map(abs, values)) for values in rewards)
    lost = sum(not any(member.won for member in members) for members in several)
    won = sum(all(member.won for member in members) for members in several)
    say(f"  groups with a difference in reward: {differing} of {len(groups)} ({lost} all lost, {won} all won)")
    if several and 4 * differing < len(groups):
        level, turns = ("an easier", "more") if lost >= won else ("a harder", "fewer")
        warn(
            f"  where all episodes earn the same, there is little to compare; try larger groups (--size), {level} "
            f"level of the environment, or {turns} turns (agent.max_turns)"
        )


def _print_next(output: Path) -> None:
    """Print where the groups are, and commands that read them."""
    file = shlex.quote(str(output))
    say(f"  trajectories: {output}", "dim")
    say("Next:", "bold")
    for words, purpose in (
        (f"credit {file}", "credit rules side by side"),
        (f"show {file}", "the advantage of every turn"),
        (f"credit {file} --truth 8", "true advantages, by forks"),
        (f"report {file}", "a page with every turn"),
    ):
        say(f"  turncredit {words:<{len(file) + 18}}  # {purpose}")

"""`turncredit plan`: what a run would need on several GPUs, estimated before any of them is rented."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from turncredit.cli.console import out, say
from turncredit.cli.errors import UserError
from turncredit.cli.options import Trust
from turncredit.cli.train import load_run
from turncredit.report.number_text import count, duration

if TYPE_CHECKING:
    from turncredit.training.config.run import Run
    from turncredit.training.hardware.card_layout import CardLayout
    from turncredit.training.hardware.plan import EpisodeLengths, Gpu, RunPlan

GIB = 2**30


def plan(
    path: Annotated[Path, typer.Argument(metavar="RUN.toml", help="The run's file, an example's name, or a folder.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Override keys of the file.")
    ] = None,
    gpus: Annotated[int, typer.Option(min=1, help="Number of GPUs.")] = 1,
    memory: Annotated[float, typer.Option(min=0.1, help="Memory of a GPU in GiB.")] = 80.0,
    tflops: Annotated[float, typer.Option(min=1e-6, help="TFLOP/s of a GPU.")] = 989.0,
    bandwidth: Annotated[float, typer.Option(min=1e-3, help="Memory bandwidth of a GPU, in GB/s.")] = 3350.0,
    learner_efficiency: Annotated[
        float, typer.Option(min=1e-3, max=1.0, help="Share of --tflops that an update reaches: an assumption.")
    ] = 0.4,
    engine_efficiency: Annotated[
        float, typer.Option(min=1e-3, max=1.0, help="Share of both that the engine reaches: an assumption.")
    ] = 0.5,
    transfer: Annotated[
        float, typer.Option(min=1e-3, help="GB/s at which new weights go to the engine: an assumption.")
    ] = 2.0,
    machine: Annotated[int, typer.Option(min=1, help="GPUs of one machine.")] = 8,
    like: Annotated[
        Path | None,
        typer.Option(help="Run folder with episodes of typical length. Default: the longest episodes allowed."),
    ] = None,
    trust: Trust = False,
) -> None:
    """Estimate memory, seconds per iteration, and whether the sampler or the learner idles."""
    from turncredit.training.hardware.plan import Gpu, make_plan
    from turncredit.training.preflight.effects import check_effects
    from turncredit.training.preflight.shared_card import model_configuration
    from turncredit.training.run_folder.paths import with_checkpoint

    run = with_checkpoint(load_run(path, overrides or [], None))
    check_effects(run)
    device = Gpu(memory * GIB, tflops * 1e12, bandwidth * 1e9, learner_efficiency, engine_efficiency, transfer * 1e9)
    made = make_plan(run, model_configuration(run.policy), gpus, device, _episodes(run, like), machine=machine)
    _print_needs(made, like)
    _print_images(run)
    _print_splits(made, device, run.train.iterations)
    _print_start(run, made, device, machine)
    layout = made.splits[0].layout
    if layout is not None:
        _print_layout(layout)


def _episodes(run: Run, like: Path | None) -> EpisodeLengths:
    from turncredit.agents.files.trajectory_files import read_trajectories
    from turncredit.training.hardware.plan import EpisodeLengths
    from turncredit.training.run_folder.metrics import read_events

    if like is None:
        return EpisodeLengths.most(run)
    if not (like / "metrics.jsonl").is_file():
        raise UserError(f"expected the folder of a run with metrics.jsonl, but {like} is none")
    files = sorted((like / "trajectories").glob("[0-9]*"))[-3:]
    ratios = []
    for file in files:
        tokens = [trajectory.response_tokens for trajectory in read_trajectories(file)]
        ratios.append(max(tokens, default=1) * len(tokens) / max(1, sum(tokens)))
    return EpisodeLengths.of_events(
        run, read_events(like / "metrics.jsonl"), sum(ratios) / len(ratios) if ratios else 1.0
    )


def _print_needs(made: RunPlan, like: Path | None) -> None:
    episodes = made.episodes
    where = "the longest that the run allows" if like is None else f"as long as those of {like}"
    say(f"{count(made.parameters).replace('G', 'B')} parameters; {episodes.count} episodes per iteration, {where}:")
    say(f"  {count(episodes.sampled)} sampled tokens, {count(episodes.computed)} tokens in the update")
    say("memory of an update on one GPU:")
    for name, size in made.memory.parts.items():
        if size:
            say(f"  {name:<12} {size / GIB:8.2f} GiB")
    if made.host_memory:
        say(f"main memory on a machine of the learner: {made.host_memory / GIB:.1f} GiB")
    say()


def _print_images(run: Run) -> None:
    """Print what an image of the environment costs, for a model that sees."""
    from turncredit.agents.errors import ModelError
    from turncredit.agents.models.image_tokens import image_tokens_of
    from turncredit.agents.models.model_folder import find_model

    size = _image_size(run)
    if size is None or not run.policy.model:
        return
    try:
        cost = image_tokens_of(find_model(run.policy.model, weights=False).path, size)
    except ModelError as error:
        say(f"images: {error}")
        return
    scaled = "" if (cost.width, cost.height) == size else f", which the model sees as {cost.width} x {cost.height}"
    share = cost.tokens / run.policy.context
    say(f"an image of {size[0]} x {size[1]} pixels{scaled}: {cost.tokens:,} tokens, {share:.0%} of policy.context")
    say()


def _image_size(run: Run) -> tuple[int, int] | None:
    """Return width and height of the environment's images; None if it has none."""
    import gymnasium

    from turncredit.envs import make
    from turncredit.envs.errors import EnvError

    try:
        env = make(run.env.id, **run.env.kwargs)
    except (EnvError, ImportError):  # the plan is of another machine
        return None
    space = env.observation_space
    env.close()
    image = space.spaces.get("image") if isinstance(space, gymnasium.spaces.Dict) else None
    return None if image is None or image.shape is None else (image.shape[1], image.shape[0])


def _print_splits(made: RunPlan, device: Gpu, steps: int) -> None:
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    for name in ("GPUs", "rollout", "update", "sync", "iteration", "idle", "GiB each", ""):
        table.add_column(name, no_wrap=True)
    best, splits = made.fastest(device), made.shown(device)
    for split in splits:
        side, share = split.idle
        verdict = "fastest" if split is best else "" if split.fits(device) else "too big"
        table.add_row(
            f"{split.engines} + {split.learners}" if split.engines else "shared",
            _short(split.rollout),
            _short(split.update),
            _short(split.sync) if split.sync else "-",
            _short(split.seconds),
            f"{side} {share:.0%}" if side else "-",
            f"{_gib(split.engine_bytes)} / {_gib(split.learner_bytes)}",
            verdict,
        )
    out().print(table)
    say("GPUs: of the engine + of the learner; sync: new weights on their way to the engine; GiB: engine / learner.")
    if len(splits) < len(made.splits):
        say(f"({len(made.splits) - len(splits)} other ways are not shown.)")
    if len(made.splits) > 1 and not made.splits[-1].overlap:
        say("Without train.staleness, the engine and the learner take turns, also on GPUs of their own.")
    if best is not None and steps:
        hours = steps * best.seconds * (best.engines + best.learners) / 3600
        cost = f"{hours:.2g}" if hours < 10 else f"{hours:,.0f}"
        say(f"{steps} iterations take {_time(steps * best.seconds)} in the fastest way, {cost} GPU hours.")
    if best is not None and best.overlap:
        rate = made.episodes.sampled / best.update
        say(f"An engine that samples {count(rate)} tokens per second keeps {_gpus(best.learners)} of the learner busy.")
    say(
        f"Assumed: an update reaches {device.learner_efficiency:.0%} of {device.flops / 1e12:g} TFLOPS, the engine "
        f"{device.engine_efficiency:.0%} of that and of {device.bandwidth / 1e9:g} GB/s, and new weights travel at "
        f"{device.transfer / 1e9:g} GB/s. Measure one iteration, then set --learner-efficiency, --engine-efficiency "
        "and --transfer (load_seconds in metrics.jsonl)."
    )
    say("Environments and the network between machines are not counted (docs/scale.md).")


def _print_start(run: Run, made: RunPlan, device: Gpu, machine: int) -> None:
    """Print what the fastest way consists of, and how it is started."""
    from turncredit.training.hardware.split_commands import describe_split, start_command

    best = made.fastest(device)
    if best is None:
        return
    say(f"The fastest way: {describe_split(run, best.engines, best.learners, best.shards)}.")
    words = start_command(run, best.engines, best.learners, machine)
    if words:
        say(f"It starts with: {words}")


def _print_layout(layout: CardLayout) -> None:
    """Print what engine and learner hold on one GPU in each phase, and what the engine starts with."""
    say()
    say("engine and learner on one GPU, in GiB:")
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    for name in ("phase", "engine", "learner", "together", ""):
        table.add_column(name, no_wrap=True)
    for phase in layout.phases:
        verdict = "too big" if phase.together > layout.available else "peak" if phase == layout.peak else ""
        table.add_row(
            phase.name, *(f"{size / GIB:.1f}" for size in (phase.engine, phase.learner, phase.together)), verdict
        )
    out().print(table)
    parts = ", ".join(f"{name} {_gib(size)}" for name, size in layout.engine.parts.items() if size)
    say(f"Of the engine: {parts}. It {'sleeps' if layout.sleeps else 'is awake'} during updates.")
    say(f"vLLM starts with gpu_memory_utilization = {layout.utilization:g}.")
    if layout.problem:
        say(f"They do not share a GPU: {layout.problem}.")


def _gpus(number: int) -> str:
    return f"{number} GPU" if number == 1 else f"{number} GPUs"


def _time(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < 10 else duration(seconds)


def _gib(size: float) -> str:
    return f"{size / GIB:.0f}" if size >= 10 * GIB else f"{size / GIB:.1f}"


def _short(seconds: float) -> str:
    """Return a time for a narrow column: `0.05 s`, `42 s`, `3m05s`, `2h10m`."""
    if seconds < 60:
        return _time(seconds)
    minutes, left = divmod(round(seconds), 60)
    return f"{minutes}m{left:02d}s" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02d}m"

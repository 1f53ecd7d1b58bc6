"""The output folder of a run.

RUN/run.toml            the configuration, defaults included, without keys that have no effect in the run
RUN/meta.json           versions of packages, platform, revision of the policy
RUN/commands.txt        command lines that started and continued it, written by `turncredit train`
RUN/panel.json          ids of the evaluation tasks
RUN/metrics.jsonl       one event per line
RUN/before.json         evaluation after the warm start          RUN/after.json     after training
RUN/evaluations/        all evaluations, by iteration            RUN/trajectories/  all episodes, by iteration
RUN/checkpoints/        see the module checkpoint                RUN/.lock          held while a process trains
RUN/imitation/          an unfinished warm start: see the module warm_start_recovery
RUN/final/              with LoRA: the trained model, with its adapter added to the weights
"""

from collections.abc import Sequence
from pathlib import Path

from turncredit.agents.files.json_files import write_json, write_text
from turncredit.agents.models.model_folder import ModelFolder
from turncredit.training.config.differences import differences
from turncredit.training.config.run import Run
from turncredit.training.config.versions import describe
from turncredit.training.errors import ConfigError, RunExists
from turncredit.training.preflight.effects import effective_toml
from turncredit.training.run_folder.warm_start_progress import FOLDER, find_progress

REMAINS = ("metrics.jsonl", "checkpoints", "imitation", "before.json", "after.json", "plan.json")
"""What a folder holds that belongs to a run, or to an ablation."""
MAY_CHANGE = (
    "output",
    "threads",
    "loggers",
    "train.iterations",
    "checkpoints.every",
    "checkpoints.keep",
    "checkpoints.keep_trajectories",
    "train.micro_batch.tokens",
    "train.peak_tflops",
    "policy.shards",
    "env.workers.count",
    "evaluation.every",
    "sampler.engine",
    "sampler.options",
    "sampler.dtype",
    "sampler.url",
    "sampler.kv_cache_gib",
    "sampler.gap_limit",
    "cluster.address",
    "cluster.engines",
    "cluster.learners",
    "cluster.cpus",
)
DEMONSTRATED = (
    "seed",
    "env",
    "agent",
    "train.distinct_tasks",
    "imitation.episodes",
    "imitation.demonstrator",
    "imitation.distinct_tasks",
    "imitation.env",
    "imitation.hinted",
)
"""What demonstrations depend on: once some are played, it may not change; all else may until they are imitated."""


def begin(folder: Path, run: Run, policy: ModelFolder | None = None) -> None:
    """Start a run in its folder: write its configuration, versions, and where its policy comes from.

    Args:
        folder: of the run.
        run: its configuration.
        policy: the model of policy.model; None for a new one.

    Raises:
        RunExists: the folder already holds a run, or the remains of one.
    """
    if (folder / "run.toml").exists():
        raise RunExists(f"{folder} already holds a run: continue it with --resume, or choose another output")
    _refuse_remains(folder)
    origin = None if policy is None else {"name": policy.name, "revision": policy.revision}
    write_json(folder / "meta.json", {**describe(), "policy": origin})
    _write_run(folder, run)


def check_resumable(folder: Path, run: Run) -> None:
    """Check that the run in a folder can continue with this configuration, and write the configuration.

    Raises:
        RunExists: the folder holds no run, or one that lost its checkpoints.
        ConfigError: a key has changed that would make it another run or another warm start, or there are more
            iterations than train.iterations.
    """
    if not (folder / "run.toml").exists():
        _refuse_remains(folder)
        raise RunExists(f"{folder} holds no run to resume; start one without --resume")
    from turncredit.training.run_folder.checkpoint import MANIFEST, Checkpoints

    checkpoints = Checkpoints(folder / "checkpoints")
    steps = checkpoints.steps()
    changed = [key for key in differences(Run.load(folder / "run.toml"), run) if not _is_in(MAY_CHANGE, key)]
    left = [name for name in ("before.json", "evaluations", "trajectories") if (folder / name).exists()]
    if left and not steps:
        raise RunExists(
            f"{folder} has no checkpoint, but {', '.join(left)} of its training; it cannot be continued: "
            "choose another output"
        )
    if not steps:
        _require_same_warm_start(folder, changed)
    elif changed:
        raise ConfigError(
            f"{', '.join(changed)} changed since the run in {folder} was started; a resumed run may only change "
            f"{', '.join(MAY_CHANGE)}"
        )
    reached = max((step for step in steps if (checkpoints.path(step) / MANIFEST).is_file()), default=0)
    if run.train.iterations < reached:
        raise ConfigError(
            f"train.iterations must be >= {reached}, the iterations that the run in {folder} has, "
            f"got {run.train.iterations}"
        )
    _write_run(folder, run)


def _require_same_warm_start(folder: Path, changed: Sequence[str]) -> None:
    """Refuse changes that what is kept of a warm start does not allow; without any, it begins again with them.

    Raises:
        ConfigError: it names the keys, and how to begin again.
    """
    progress = find_progress(folder)
    if progress is not None and not progress.step:
        changed = [key for key in changed if _is_in(DEMONSTRATED, key)]
    if changed and progress is not None:
        raise ConfigError(
            f"{', '.join(changed)} changed since the warm start in {folder} was begun, which is at {progress}; "
            f"continue it without the change, or begin again: remove {folder / FOLDER}, or choose another output"
        )


def _is_in(names: Sequence[str], key: str) -> bool:
    return any(key == name or key.startswith(f"{name}.") for name in names)


def _write_run(folder: Path, run: Run) -> None:
    write_text(folder / "run.toml", effective_toml(run))


def _refuse_remains(folder: Path) -> None:
    """Refuse a folder with results but without run.toml, which can be neither resumed nor overwritten."""
    remains = [name for name in REMAINS if (folder / name).exists()]
    if remains:
        raise RunExists(
            f"{folder} holds {', '.join(remains)} but no run.toml; choose another output, or empty the folder"
        )

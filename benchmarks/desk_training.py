"""What the users of a service desk do to training: `python benchmarks/desk_training.py --output runs/desk-users`.

One warm start, which imitates the expert with users of all kinds, is trained further with perfect, average ("mixed")
and impatient users, several seeds each. Everything is evaluated with users of several kinds on the same held-out tasks.
docs/desk.md has the plan and the results. What is finished is kept in the folder: the same command goes on, and
with `--tables` it prints what is there.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from turncredit.envs import maker
from turncredit.evaluation.evaluation import evaluate
from turncredit.evaluation.panels import make_panel
from turncredit.evaluation.results import EvaluationResult, EvaluationSummary
from turncredit.evaluation.seed_statistics import Mean
from turncredit.report.ablation_tables import grid, interval
from turncredit.training.config.run import Run
from turncredit.training.engine.loaded_agent import load_agent
from turncredit.training.run_folder.metrics import read_events
from turncredit.training.training_run import train

TRAINED = ("perfect", "mixed", "impatient")
EVALUATED = ("perfect", "mixed", "impatient")
EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "desk.toml"
FIRST, WARM = "warm-start-first-part", "warm-start"

Results = dict[str, dict[str, list[EvaluationSummary]]]
"""By the user of the training and the user of the evaluation, one for each seed."""


def finish(run: Run) -> None:
    """Train a run to its end, if it is not there yet."""
    if not (run.folder / "checkpoints" / f"{run.train.iterations:06d}").exists():
        began = time.process_time()
        train(run, resume=(run.folder / "run.toml").exists())
        print(f"{run.name}: {time.process_time() - began:.0f} s of processor time", flush=True)


def measure(folder: Path, user: str, tasks: int) -> None:
    """Play a run's policy with a user, if there is no result yet."""
    file = folder / "users" / f"{user}.json"
    if file.exists():
        return
    with load_agent(folder) as agent:
        assert agent.run is not None
        panel = make_panel(agent.run.env.id, {**agent.run.evaluation_kwargs(), "user": user}, tasks)
        make = maker(panel.env, **panel.kwargs)
        result = evaluate(agent.agent, agent.sampler, panel, make, name=f"{folder.name} with {user} users")
    file.parent.mkdir(exist_ok=True)
    result.save(file)
    print(f"{result.name}: {result.summary().success}", flush=True)


def play(output: Path, seeds: int, tasks: int, words: Sequence[str]) -> None:
    """Make the warm start, and train and evaluate seed by seed."""
    warm = _warm_start(output, words)
    for user in EVALUATED:
        measure(warm.folder, user, tasks)
    start, iterations = warm.folder / "checkpoints" / "000000", Run.load(EXAMPLE).train.iterations
    for seed in range(seeds):
        for user in TRAINED:
            table = warm.model_dump(exclude_unset=True, exclude={"imitation"})
            table["policy"] = {"model": str(start.resolve()), "context": warm.policy.context}
            own = [word for word in words if not word.startswith(("imitation.", "policy.new."))]
            more = [f"train.iterations={iterations}", f"env.kwargs.user={user}", *own]
            run = Run.parse(table, _words(output, f"{user}-{seed}", seed, more))
            finish(run)
            for other in EVALUATED:
                measure(run.folder, other, tasks)


def _warm_start(output: Path, words: Sequence[str]) -> Run:
    """Return the finished run that imitates; its second part goes on with other demonstrations at a full rate."""
    first = Run.load(EXAMPLE, _words(output, FIRST, 0, [*words, "train.iterations=0"]))
    finish(first)
    table = first.model_dump(exclude_unset=True)
    model = {"model": str((first.folder / "checkpoints" / "000000").resolve()), "context": first.policy.context}
    own = [word for word in words if not word.startswith("policy.new.")]
    more = [f"imitation.episodes={first.imitation.episodes // 2}", "train.iterations=0"]
    warm = Run.parse({**table, "policy": model}, _words(output, WARM, 1, [*own, *more]))
    finish(warm)
    return warm


def _words(output: Path, name: str, seed: int, words: Sequence[str]) -> list[str]:
    return [f"name={name}", f"output={str(output / name)!r}", f"seed={seed}", "evaluation.episodes=0", *words]


def read(output: Path, seeds: int) -> Results:
    """Return what was measured of the warm start and of the seeds whose three runs are complete."""
    complete = [
        seed
        for seed in range(seeds)
        if all((output / f"{t}-{seed}" / "users" / f"{e}.json").exists() for t in TRAINED for e in EVALUATED)
    ]
    names = {WARM: [WARM], **{user: [f"{user}-{seed}" for seed in complete] for user in TRAINED}}
    return {
        trained: {
            user: [EvaluationResult.load(output / name / "users" / f"{user}.json").summary() for name in folders]
            for user in EVALUATED
        }
        for trained, folders in names.items()
    }


def tables(output: Path, results: Results) -> str:
    """Return the tables: success, the difference to training with perfect users, turns, and the training itself."""
    head = ["trained with", *EVALUATED]
    success = _grid(head, results, lambda member: member.success.value or 0.0)
    turns = _grid(head, results, lambda member: member.turns or 0.0, as_rate=False)
    gaps = [
        [user, *(_gap(results["perfect"][other], results[user][other]) for other in EVALUATED)]
        for user in TRAINED
        if user != "perfect"
    ]
    count = len(results["perfect"]["perfect"])
    texts = [f"{count} complete seeds\n\nSuccess in per cent:\n\n{success}", f"Mean turns:\n\n{turns}"]
    if count > 1:
        texts.append(f"Difference to training with perfect users, paired by seed, in points:\n\n{grid(head, gaps)}")
    training = [[user, *_training(output, user, count)] for user in TRAINED]
    heads = ["trained with", "won while training", "groups whose rewards are equal", "turns an episode"]
    return "\n".join([*texts, f"Means over iterations and seeds while training:\n\n{grid(heads, training)}"])


def _grid(
    head: Sequence[str], results: Results, value: Callable[[EvaluationSummary], float], *, as_rate: bool = True
) -> str:
    lines = []
    for trained, by_user in results.items():
        values = [[value(member) for member in by_user[user]] for user in EVALUATED]
        lines.append(
            [trained, *(interval(asdict(Mean.of(v)), bounded=True) if as_rate else f"{_mean(v):.2f}" for v in values)]
        )
    return grid(head, lines)


def _gap(reference: Sequence[EvaluationSummary], others: Sequence[EvaluationSummary]) -> str:
    gaps = [
        (other.success.value or 0.0) - (member.success.value or 0.0)
        for member, other in zip(reference, others, strict=True)
    ]
    return interval(asdict(Mean.of(gaps)), signed=True)


def _training(output: Path, user: str, seeds: int) -> list[str]:
    events = [
        event
        for seed in range(seeds)
        for event in read_events(output / f"{user}-{seed}" / "metrics.jsonl")
        if event.get("phase") == "train"
    ]
    won, equal, turns = (
        _mean([float(event[key]) for event in events]) for key in ("success", "no_variance_groups", "turns")
    )
    return [f"{100 * won:.1f} %", f"{100 * equal:.0f} %", f"{turns:.2f}"]


def _mean(values: Sequence[float]) -> float:
    return statistics.fmean(values) if values else float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("runs/desk-users"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tasks", type=int, default=100, help="held-out tasks of each evaluation")
    parser.add_argument("--tables", action="store_true", help="print what is there")
    parser.add_argument("words", nargs="*", metavar="KEY=VALUE", help="settings that differ from examples/desk.toml")
    options = parser.parse_args()
    if not options.tables:
        play(options.output, options.seeds, options.tasks, options.words)
    print(tables(options.output, read(options.output, options.seeds)))


if __name__ == "__main__":
    main()

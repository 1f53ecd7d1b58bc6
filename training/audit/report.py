"""An audit of a run folder: stored trajectories and checkpoints against what the run says about them.

Trajectories are read one after another and scored in chunks, so that memory does not grow with the run. What cannot be
checked, such as log-probabilities of weights whose checkpoint was not kept, is said and is not a failure.

Not included: environments (nothing is played again), credit and updates.
"""

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from turncredit.agents.errors import StoreError
from turncredit.agents.files.trajectory_files import TornLine, iteration_files, read_trajectories
from turncredit.agents.models.model_folder import end_tokens_of, load_tokenizer, model_config
from turncredit.agents.trajectory import Trajectory
from turncredit.tools.bounded_input import read_toml
from turncredit.training.audit.checks import ITERATION_CHECKS, TRAJECTORY_CHECKS, AuditedRun, EpisodeEnd
from turncredit.training.audit.findings import AuditResult, Place
from turncredit.training.audit.folder import FOLDER_CHECKS, AuditedFolder
from turncredit.training.audit.gaps import BOUNDS, GapMeter
from turncredit.training.audit.scoring import VersionScorer
from turncredit.training.batch.sampling_temperature import SamplingTemperature
from turncredit.training.config.agents import agent_maker
from turncredit.training.config.run import Run
from turncredit.training.errors import TrainingError
from turncredit.training.learner.policy import device_of

OnProgress = Callable[[str, int], None]
"""Receives what is read ("iteration 3 of 10"), and the number of turns so far."""


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """What is audited, and how.

    Attributes:
        iteration: only this one; None: all.
        limit: maximum number of trajectories of an iteration; 0: all. Groups and metrics are then not checked.
        checkpoints: further checkpoint folders, or folders of checkpoints, for log-probabilities.
        scores: whether log-probabilities are recomputed.
        device: of the model; empty: the run's, or the CPU where this machine lacks it.
        dtype: of the model that recomputes log-probabilities.
        bound: largest mean gap, nats; 0: by the type in which the engine computed.
    """

    iteration: int | None = None
    limit: int = 0
    checkpoints: tuple[Path, ...] = ()
    scores: bool = True
    device: str = ""
    dtype: str = "float32"
    bound: float = 0.0


@dataclass(slots=True)
class AuditReport:
    """What an audit found.

    Attributes:
        folder: of the run.
        checks: one result for each check.
        counts: episodes, turns and tokens, and answers and episodes by how they ended.
        notes: sentences about the whole audit.
    """

    folder: Path
    checks: list[AuditResult]
    counts: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return not any(check.count for check in self.checks)

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON can hold it."""
        return {
            "run": str(self.folder),
            "passed": self.passed,
            "counts": dict(self.counts),
            "checks": [check.as_json() for check in self.checks],
            "notes": self.notes,
        }


def audit(folder: Path, options: AuditOptions | None = None, on_progress: OnProgress | None = None) -> AuditReport:
    """Check the stored trajectories and the checkpoints of a run.

    Args:
        folder: of the run.
        options: what is audited, and how.
        on_progress: called after every trajectory.

    Raises:
        TrainingError: the folder holds no run, or not the iteration that was asked for.
        ModelError: a checkpoint cannot be read.
    """
    return _Audit(folder, options or AuditOptions(), on_progress or (lambda *_: None)).report()


def engine_dtype(run: Run) -> str:
    """Return the type in which the engine of a run computed; a server's is unknown, and taken to be bfloat16."""
    if run.sampler.engine == "openai" and not run.sampler.dtype:
        return "bfloat16"
    return run.sampler.dtype or run.policy.dtype


class _Audit:
    """An audit in progress."""

    def __init__(self, folder: Path, options: AuditOptions, on_progress: OnProgress) -> None:
        self.options, self.on_progress = options, on_progress
        self.files = AuditedFolder.open(folder, options.checkpoints)
        run = self.files.run
        self.audited = _audited(self.files)
        meter = GapMeter(
            options.bound or BOUNDS[engine_dtype(run)],
            top_p=run.agent.top_p,
            temperature=SamplingTemperature.of(self.audited.agent),
        )
        device = device_of(options.device or run.policy.device, elsewhere=not options.device)
        self.scorer = VersionScorer(run, self.files.weights, meter, device, options.dtype)
        self.readable = AuditResult("files", "trajectories can be read", "files")
        self.gaps = AuditResult("log-probabilities", "the checkpoint gives the sampled ones again", "tokens")
        self.of_folder = [(check, AuditResult(check.name, check.asks, "files")) for check in FOLDER_CHECKS]
        self.of_trajectories = [(check, AuditResult(check.name, check.asks, "turns")) for check in TRAJECTORY_CHECKS]
        self.of_iterations = [(check, AuditResult(check.name, check.asks, "iterations")) for check in ITERATION_CHECKS]
        results = [result for _, result in (*self.of_trajectories, *self.of_iterations, *self.of_folder)]
        self.result = AuditReport(folder, [self.readable, *results, self.gaps])
        self.without_tokens = 0

    def report(self) -> AuditReport:
        """Do all checks."""
        for check, result in self.of_folder:
            result.checked = check.count(self.files)
            result.add(check.find(self.files))
        files = self._trajectory_files()
        for number, (iteration, file) in enumerate(files, 1):
            self._iteration(iteration, file, f"iteration {number} of {len(files)}")
        self._say_what_is_missing(files)
        return self.result

    def _trajectory_files(self) -> list[tuple[int, Path]]:
        folder, iteration = self.files.path, self.options.iteration
        files = iteration_files(folder / "trajectories")
        if iteration is not None and iteration not in files:
            have = f"it has {min(files)} to {max(files)}" if files else "it has none"
            raise TrainingError(f"{folder} holds no trajectories of iteration {iteration}; {have}")
        return sorted(entry for entry in files.items() if iteration in (None, entry[0]))

    def _iteration(self, iteration: int, file: Path, label: str) -> None:
        """Check the trajectories of one iteration."""
        self._enter_stage(iteration)
        ends: list[EpisodeEnd] = []
        if self.options.scores:
            self.scorer.begin(iteration)
        for trajectory in self._read(file):
            ends.append(EpisodeEnd.of(trajectory))
            self._count(trajectory)
            self.on_progress(label, self.result.counts["turns"])
            if self.files.imported and not all(turn.response for turn in trajectory.turns):
                self.without_tokens += 1
                continue
            self._check(iteration, trajectory)
            if self.options.scores:
                self.gaps.add(self.scorer.add(trajectory))
        self.gaps.add(self.scorer.flush())
        if self.options.scores:
            self._score_again(iteration, file)
        if any(problem.location.iteration == iteration for problem in self.readable.problems):
            return  # an incomplete iteration
        if self.files.imported:
            return  # it has neither complete groups nor metrics
        if iteration not in self.audited.finished:
            self.result.notes.append(f"iteration {iteration} is not finished: its groups are not checked")
        elif not self.options.limit:
            for check, result in self.of_iterations:
                result.checked += 1
                problems = check.find(self.audited, iteration, ends)
                result.add((Place(iteration, name), text) for name, text in problems)

    def _enter_stage(self, iteration: int) -> None:
        """Let the checks see the settings of the stage that an iteration belongs to."""
        if self.files.run.stages:
            run = self.files.run_of(iteration)
            agent = agent_maker(run.agent, run.env)(self.audited.tokenizer)
            self.audited = replace(self.audited, run=run, agent=agent)

    def _score_again(self, iteration: int, file: Path) -> None:
        """Score the tokens of an iteration that were sampled by other weights than those that scored it first."""
        for version in self.scorer.others():
            self.scorer.begin(iteration, version)
            with warnings.catch_warnings(action="ignore", category=TornLine), suppress(StoreError):  # both are told
                for trajectory in islice(read_trajectories(file), self.options.limit or None):
                    self.gaps.add(self.scorer.add(trajectory))
            self.gaps.add(self.scorer.flush())

    def _read(self, file: Path) -> Iterator[Trajectory]:
        """Yield the trajectories of a file up to the limit; an incomplete last line becomes a note."""
        self.readable.checked += 1
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", TornLine)
            try:
                yield from islice(read_trajectories(file), self.options.limit or None)
            except StoreError as error:
                self.readable.add([(Place(int(file.name.partition(".")[0])), str(error))])
        self.result.notes.extend(str(warning.message) for warning in caught if issubclass(warning.category, TornLine))

    def _check(self, iteration: int, trajectory: Trajectory) -> None:
        audited = self.audited.of_task(trajectory.task)
        for check, result in self.of_trajectories:
            if not check.possible(audited):
                result.checked += len(trajectory.turns)
                problems = check.find(audited, iteration, trajectory)
                result.add((Place(iteration, trajectory.id, turn), text) for turn, text in problems)

    def _count(self, trajectory: Trajectory) -> None:
        """Count a trajectory, its answers and how they ended."""
        turns = trajectory.turns
        self.result.counts.update(
            episodes=1,
            errors=trajectory.stop == "error",
            outgrown=trajectory.stop == "tokens",
            turns=len(turns),
            tokens=sum(len(turn.response) for turn in turns),
            unparsable=trajectory.unparsable,
            inadmissible=trajectory.inadmissible,
            truncated=sum(turn.finish == "length" for turn in turns),
            refused=sum(turn.finish == "refusal" for turn in turns),
            empty=sum(turn.finish == "empty" or not turn.text.strip() for turn in turns),
        )

    def _say_what_is_missing(self, files: list[tuple[int, Path]]) -> None:
        """Finish the results, with a sentence for everything that could not be checked."""
        for check, result in self.of_trajectories:
            why = check.possible(self.audited)
            result.not_done.extend([why] if why else [])
        gone = sorted(self.audited.finished.keys() - dict(files).keys()) if self.files.run.trajectory_format else []
        if gone and self.options.iteration is None:
            self.readable.not_done.append(
                f"trajectories that metrics.jsonl has are not stored: iteration{'s' if gone[1:] else ''} {ranges(gone)}"
                + (
                    f" (checkpoints.keep_trajectories = {newest})"
                    if (newest := self.files.run.checkpoints.keep_trajectories)
                    else ""
                )
            )
        if not files and not gone:
            reason = self.files.none_yet if self.files.run.trajectory_format else "the run was told to store none"
            self.result.notes.append(f"no trajectories: {reason}")
        if self.without_tokens:
            self.result.notes.append(f"{self.without_tokens:,} imported episodes have no token ids to check")
        if self.options.limit:
            self.result.notes.append(f"at most {self.options.limit} trajectories of each iteration were read")
        meter, missing = self.scorer.meter, sorted(self.scorer.missing)
        self.gaps.checked = meter.whole.tokens
        self.gaps.add(meter.means(), ahead=True)
        self.gaps.details = meter.as_json()
        if not self.options.scores:
            self.gaps.not_done.append("log-probabilities were not recomputed")
        if missing:
            versions = "versions" if missing[1:] else "version"
            self.gaps.not_done.append(f"no checkpoint is kept of {versions} {ranges(missing)}")


def ranges(numbers: Iterable[int]) -> str:
    """Return ascending numbers in short form.

    >>> ranges([0, 1, 2, 5, 7, 8])
    '0 to 2, 5, 7 to 8'
    """
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(str(low) if low == high else f"{low} to {high}" for low, high in spans)


def _audited(files: AuditedFolder) -> AuditedRun:
    """Return what the checks of trajectories know about a run."""
    newest = files.weights.get(max(files.weights, default=-1))
    tokenizer = None if newest is None else load_tokenizer(newest)
    table = {} if files.imported else read_toml(files.path / "run.toml")
    return AuditedRun(
        run=files.run,
        agent=agent_maker(files.run.agent, files.run.env)(tokenizer),
        tokenizer=tokenizer,
        vocabulary=0 if newest is None else int(model_config(newest)["vocab_size"]),
        ends=frozenset() if newest is None else frozenset(end_tokens_of(newest, tokenizer)),
        finished={int(event["iteration"]): event for event in files.events if event.get("phase") == "train"},
        sampling=files.sampling,
        stores_finish="sampler" in table,
        imported=files.imported,
    )

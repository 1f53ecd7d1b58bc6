"""`turncredit export` and `turncredit import`: trajectories in the formats of other programs.

Episodes are read and written one after another, so that a run may be larger than memory; only advantages need all
episodes of an iteration at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turncredit.cli.console import err, say, warn
from turncredit.cli.errors import UserError
from turncredit.cli.options import Trust
from turncredit.registry import choose

if TYPE_CHECKING:
    from rich.status import Status

    from turncredit.agents.errors import StoreError
    from turncredit.agents.interchange.conversations import Demonstration
    from turncredit.agents.interchange.formats import TrajectoryFormat
    from turncredit.agents.interchange.records import Advantages, Exported, Origin
    from turncredit.agents.json_types import JsonObject
    from turncredit.agents.trajectory import Trajectory
    from turncredit.training.config.run import Run

NO_CREDIT = "none"
"""What --credit takes for no advantages."""


@dataclass(slots=True)
class Export:
    """An export in progress.

    Attributes:
        path: of the run, or of a file of trajectories.
        rules: of credit, as they were typed; None: the run's.
        status: shows how far it is.
        origin: origin of the episodes.
        episodes: number of episodes so far.
        holding: number of episodes by what they hold for which the format may have no room.
        in_parts: number of answers that have reasoning or calls.
    """

    path: Path
    rules: str | None
    status: Status
    origin: Origin
    episodes: int = 0
    holding: Counter[str] = field(default_factory=Counter)
    in_parts: int = 0

    def read(self, files: dict[int, Path]) -> Iterator[Exported]:
        """Yield the episodes of files of trajectories by iteration."""
        from turncredit.agents.files.trajectory_files import read_trajectories
        from turncredit.agents.interchange.records import Exported

        for iteration, file in files.items():
            self.status.update(f"iteration {iteration} of {max(files)}, {self.episodes:,} episodes")
            advantages = self._advantages(file)
            for trajectory in read_trajectories(file):
                exported = Exported(trajectory, iteration, _of_trajectory(advantages, trajectory))
                self._count(exported)
                yield exported

    def _count(self, exported: Exported) -> None:
        from turncredit.agents.interchange.records import IMAGES, TOKENS, TOOLS

        self.episodes += 1
        self.holding.update(subject for subject in (TOKENS, IMAGES, TOOLS) if exported.holds(subject, self.origin))
        if self.origin.answers != "text":
            messages = self.origin.messages(exported)
            self.in_parts += sum(bool(message.reasoning or message.calls) for message in messages)

    def _advantages(self, file: Path) -> dict[str, dict[tuple[str, int], float]]:
        """Return the advantage of every turn that credit saw, by rule."""
        from turncredit.agents.errors import StepsError
        from turncredit.agents.steps import steps_of
        from turncredit.credit import CreditError
        from turncredit.report.credit_settings import credit_settings
        from turncredit.report.stored_groups import read_credited
        from turncredit.training.run_folder.paths import run_of

        if self.rules == NO_CREDIT or (self.rules is None and run_of(file) is None) or _is_empty(file):
            return {}
        settings = credit_settings(file, self.rules)
        columns = {}
        for rule in settings.rules:
            try:
                steps = steps_of(read_credited(file).groups, anchor=settings.anchor, only_common=True)
                result = settings.advantages(rule, steps)
            except (StepsError, CreditError) as error:
                warn(f"no advantages of {rule} for {file.name}: {error}")
                continue
            rows = zip(result.trajectory.tolist(), result.turn.tolist(), result.values.tolist(), strict=True)
            columns[rule] = {(name, turn): value for name, turn, value in rows}
        return columns


def _is_empty(file: Path) -> bool:
    from turncredit.agents.files.trajectory_files import read_trajectories

    return next(read_trajectories(file), None) is None


def _of_trajectory(columns: dict[str, dict[tuple[str, int], float]], trajectory: Trajectory) -> Advantages:
    turns = range(len(trajectory.turns))
    return {rule: [values.get((trajectory.id, turn)) for turn in turns] for rule, values in columns.items()}


def export(
    path: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run folder, or a file of trajectories (.jsonl, .jsonl.gz, ...).")
    ],
    to: Annotated[str, typer.Option("--to", metavar="FORMAT", help="Format to write (`turncredit list formats`).")],
    output: Annotated[
        Path | None, typer.Option(metavar="OUT", help="File or folder to write, which must not exist.")
    ] = None,
    iteration: Annotated[int | None, typer.Option(min=0, help="Only this iteration. Default: all.")] = None,
    rules: Annotated[
        str | None,
        typer.Option("--credit", metavar="A,B,...", help="Rules of the advantages; none: without. Default: the run's."),
    ] = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="Leave out keys of turncredit, for services that refuse unknown ones.")
    ] = False,
    answers: Annotated[
        str,
        typer.Option(
            metavar="FORM",
            help="Answers in parts, with the arguments of tool calls as objects, for chat templates (parts); so with "
            "arguments as JSON in strings, as the OpenAI API has them (api); or as the text that was sampled (text).",
        ),
    ] = "parts",
    trust: Trust = False,
) -> None:
    """Write trajectories in the format of another program, each turn with its reward, state and advantage."""
    from turncredit.agents.interchange.conversations import ANSWERS
    from turncredit.agents.interchange.folders import whole_output
    from turncredit.agents.interchange.formats import FORMATS

    form = ANSWERS[ANSWERS.index(choose("form of answers", answers, ANSWERS))]
    chosen = FORMATS[choose("format", to, [name for name, entry in FORMATS.items() if entry.write])]
    files = trajectory_files(path, iteration)
    target = output or Path(f"{path.resolve().name.partition('.')[0]}-{chosen.name}{chosen.suffix}")
    with whole_output(target) as part, err().status(f"reading {path}") as status:
        work = Export(path, rules, status, replace(origin_of(path), plain=plain, answers=form))
        assert chosen.write is not None
        chosen.write(work.read(files), part, work.origin)
        if not work.episodes:
            raise UserError(f"{path} holds no trajectory")
    say(f"exported {work.episodes:,} episodes of {path}: {target}")
    if lacks := _lacks(chosen, work):
        warn(f"{chosen.name} has no room for {lacks}; they stay in {path}")
    if work.in_parts and chosen.trains:
        warn(
            f"{work.in_parts:,} answers have their reasoning or tool calls in fields of their own, which a chat "
            "template may drop; --answers text keeps each answer as it was sampled"
        )


def _lacks(chosen: TrajectoryFormat, work: Export) -> str:
    """Return what of the exported episodes the format has no room for."""
    lacks = [subject for subject in chosen.lacks if work.holding[subject]]
    if work.origin.plain:
        lacks.append("states, rewards and advantages as turncredit stores them (--plain)")
    return " nor for ".join(lacks)


def trajectory_files(path: Path, iteration: int | None) -> dict[int, Path]:
    """Return the files of trajectories that a path names, by iteration.

    Raises:
        StoreError: there are none.
    """
    from turncredit.agents.files.trajectory_files import iteration_files
    from turncredit.training.run_folder.paths import trajectory_file

    newest = trajectory_file(path, iteration)
    if iteration is not None or not path.is_dir():
        return {1 if iteration is None else iteration: newest}
    return iteration_files(newest.parent)


def origin_of(path: Path) -> Origin:
    """Return where the episodes of a path come from."""
    import turncredit
    from turncredit.agents.interchange.records import Origin
    from turncredit.training.run_folder.paths import run_of

    run = run_of(path)
    if run is None:
        return Origin(path.resolve().name.partition(".")[0], version=turncredit.__version__)
    hub = run.policy.model and not Path(run.policy.model).is_absolute()
    model = run.policy.model if hub else run.name
    return Origin(run.name, run.env.id, model, turncredit.__version__, tools=_tools_of(run))


def _tools_of(run: Run) -> dict[str, list[JsonObject]]:
    """Return the tools that the chat template of a run described, by part; {} if its environment cannot be opened."""
    from turncredit.agents.errors import AgentError
    from turncredit.envs import EnvError
    from turncredit.training.config.agents import described_tools

    try:
        return described_tools(run.agent, run.env)
    except (AgentError, EnvError) as error:
        warn(f"the definitions of the tools are not exported: {error}")
        return {}


@dataclass(slots=True)
class ImportCounts:
    """What an import found.

    Attributes:
        episodes: number of them.
        turns: number of their turns.
        with_tokens: episodes whose turns have token ids.
        unscored: episodes whose outcome the source does not state.
        refused: number of episodes that cannot be read.
        first: why the first of them cannot be read.
        not_imitated: turns that are not to be imitated.
        left_out: number of episodes by what of them is left out.
    """

    episodes: int = 0
    turns: int = 0
    with_tokens: int = 0
    unscored: int = 0
    refused: int = 0
    first: str = ""
    not_imitated: int = 0
    left_out: dict[str, int] = field(default_factory=dict)

    def add(self, demonstration: Demonstration) -> None:
        """Count an episode."""
        turns = demonstration.trajectory.turns
        self.episodes += 1
        self.turns += len(turns)
        self.with_tokens += bool(turns) and all(turn.response for turn in turns)
        self.unscored += not demonstration.scored and demonstration.trajectory.error is None
        self.not_imitated += len(demonstration.mistakes)
        for name in demonstration.left_out:
            self.left_out[name] = self.left_out.get(name, 0) + 1

    def refuse(self, error: StoreError) -> None:
        """Count an episode that cannot be read."""
        self.refused += 1
        self.first = self.first or str(error)

    def notes(self) -> list[str]:
        """Return sentences about what the episodes lack."""
        notes = (
            [f"{self.refused:,} episodes cannot be read and are left out; first: {self.first}"] if self.refused else []
        )
        notes += [f"left out of {count:,} episodes: {name}" for name, count in self.left_out.items()]
        if self.unscored:
            notes.append(f"{self.unscored:,} episodes state no outcome, and count as won")
        if without := self.episodes - self.with_tokens:
            notes.append(f"{without:,} episodes have no token ids: they can be imitated, not trained on as samples")
        if self.not_imitated:
            notes.append(f"{self.not_imitated:,} answers are marked as not to be imitated")
        return notes


def import_trajectories(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A file or folder of another program.")],
    source: Annotated[str, typer.Option("--from", metavar="FORMAT", help="Its format (`turncredit list formats`).")],
    output: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Folder to write, which must not exist. Default: NAME-imported.")
    ] = None,
    parser: Annotated[
        str, typer.Option(help="How the action is read from an answer (`turncredit list parsers`).")
    ] = "whole",
    trust: Trust = False,
) -> None:
    """Read trajectories of another program into a folder that show, report, credit, export and imitation take."""
    from turncredit.agents.agent import Agent
    from turncredit.agents.interchange.conversations import with_actions
    from turncredit.agents.interchange.folders import whole_output
    from turncredit.agents.interchange.formats import FORMATS
    from turncredit.agents.interchange.imported_folder import ImportedFolder

    readers = {name: entry.read for name, entry in FORMATS.items() if entry.read is not None}
    chosen = FORMATS[choose("format", source, list(readers))]
    if not path.exists():
        raise UserError(f"{path} does not exist; expected {chosen.title}")
    assert chosen.read is not None
    parse = Agent(parser=parser).parse
    target = output or Path(f"{path.resolve().name.partition('.')[0]}-imported")
    counts = ImportCounts()
    with whole_output(target) as part, err().status(f"reading {path}") as status, ImportedFolder(part) as folder:
        for demonstration in readers[chosen.name](path, counts.refuse):
            counts.add(demonstration)
            folder.write(with_actions(demonstration, parse))
            status.update(f"reading {path}, {counts.episodes:,} episodes")
        if not counts.episodes:
            raise UserError(counts.first or f"{path} holds no episode")
        folder.describe(chosen.name, path.name, counts.notes())
    say(f"imported {counts.episodes:,} episodes with {counts.turns:,} answers: {target}")
    for note in counts.notes():
        warn(note)
    say(f"look at them: turncredit show {target}", "dim")

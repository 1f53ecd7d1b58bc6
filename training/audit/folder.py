"""The checkpoints and evaluations of a run folder: which weights are kept, and whether the files are whole."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from turncredit.agents.errors import AgentError
from turncredit.agents.interchange.imported_folder import IMPORT_FILE
from turncredit.agents.models.weights import is_adapter
from turncredit.evaluation.panels import Panel
from turncredit.evaluation.results import EvaluationResult
from turncredit.tools.bounded_input import InputError, read_bytes, read_json
from turncredit.training.audit.findings import Place
from turncredit.training.config.run import Run
from turncredit.training.config.stage_runs import run_in_stage
from turncredit.training.errors import TrainingError
from turncredit.training.run_folder.checkpoint import MANIFEST, Checkpoints, verify
from turncredit.training.run_folder.metrics import METRICS, Event, missing_iterations, stored_events
from turncredit.training.run_folder.warm_start_progress import FOLDER as WARM_START
from turncredit.training.run_folder.warm_start_progress import checkpoint_folders, find_progress
from turncredit.training.sampling.sampling_files import SamplingFiles

Problems = Iterator[tuple[Place, str]]


@dataclass(frozen=True)
class AuditedFolder:
    """What the checks of files know about a run.

    Attributes:
        path: of the run folder.
        run: the configuration.
        weights: the checkpoint folder of every version of the weights that is kept and intact.
        damaged: what is wrong with the other checkpoints.
        events: the run's metrics.
        unreadable: sentences about what of the metrics cannot be read.
        imported: whether the episodes are those of another program, whose settings are unknown.
    """

    path: Path
    run: Run
    weights: Mapping[int, Path]
    damaged: Mapping[int, str]
    events: Sequence[Event]
    unreadable: Sequence[str] = ()
    imported: bool = False

    @classmethod
    def open(cls, path: Path, further: Sequence[Path] = ()) -> "AuditedFolder":
        """Return the run of a folder, after comparing its checkpoints with their manifests.

        Args:
            path: of the run folder.
            further: checkpoint folders, or folders that hold checkpoints.

        Raises:
            TrainingError: it is no run folder, or one of the further folders holds no checkpoint.
        """
        imported = (path / IMPORT_FILE).is_file()
        if not imported and not (path / "run.toml").is_file():
            raise TrainingError(f"{path} is not a run folder: it has no run.toml")
        run = Run() if imported else Run.load(path / "run.toml")
        scorable = kept_weights(path, run, further)
        checked = {version: _damage(folder) for version, folder in scorable.items()}
        damaged = {version: problem for version, problem in checked.items() if problem}
        weights = {version: folder for version, folder in scorable.items() if version not in damaged}
        if imported:
            return cls(path, run, weights, damaged, (), imported=True)
        return cls(path, run, weights, damaged, *stored_events(path / METRICS))

    @property
    def sampling(self) -> SamplingFiles:
        """What each iteration was made of."""
        return SamplingFiles(self.path)

    def run_of(self, iteration: int) -> Run:
        """Return the configuration of the stage that an iteration belongs to."""
        stages = {
            event.get("iteration"): event.get("stage", 0) for event in self.events if event.get("phase") == "train"
        }
        stage = stages.get(iteration, 0)
        exists = isinstance(stage, int) and 0 <= stage < max(1, len(self.run.stages))
        return run_in_stage(self.run, stage if exists else 0)

    @property
    def of_warm_start(self) -> list[Path]:
        """The checkpoints of a warm start that is not finished, which no episode was played with."""
        return checkpoint_folders(self.path / WARM_START)

    @property
    def none_yet(self) -> str:
        """Why a run that stores trajectories has none."""
        progress = find_progress(self.path)
        return "there are none yet" + ("" if progress is None else f", since the warm start is at {progress}")

    @property
    def evaluations(self) -> list[Path]:
        """The files of stored evaluations, oldest first."""
        return sorted(path for path in (self.path / "evaluations").glob("*.json") if path.stem.isdecimal())


def kept_weights(folder: Path, run: Run, further: Sequence[Path] = ()) -> dict[int, Path]:
    """Return the checkpoint folder of every version of the weights that is kept.

    Version v are the weights after v iterations. Version 0 is also the reference policy, or the folder of policy.model
    in a run without a warm start.

    Args:
        folder: of the run.
        run: its configuration.
        further: checkpoint folders, or folders that hold checkpoints.

    Raises:
        TrainingError: one of the further folders holds no checkpoint.
    """
    folders: dict[int, Path] = {}
    base = Path(run.policy.model).expanduser()
    if run.policy.model and not run.imitation.episodes and _holds_model(base):
        folders[0] = base
    for parent in (folder / "reference", folder / "checkpoints"):
        folders |= _checkpoints(parent)
    for path in further:
        own = {_version(path): path} if _holds_model(path) else _checkpoints(path)
        own = own or _checkpoints(path / "checkpoints")
        if not own:
            raise TrainingError(
                f"{path} holds no checkpoint: it has neither config.json nor folders named by iteration"
            )
        folders |= own
    return folders


def _holds_model(folder: Path) -> bool:
    return (folder / "config.json").is_file() or is_adapter(folder)


def _checkpoints(parent: Path) -> dict[int, Path]:
    checkpoints = Checkpoints(parent)
    return {step: checkpoints.path(step) for step in checkpoints.steps()}


def _version(folder: Path) -> int:
    try:
        return int(read_json(folder / "state.json")["step"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TrainingError(f"{folder} is not a checkpoint of a run: state.json with its step is missing") from error


def _damage(folder: Path) -> str:
    """Return what is wrong with a checkpoint; a folder without a manifest comes from elsewhere."""
    problem = verify(folder) if (folder / MANIFEST).exists() else None
    return f"checkpoint {folder} is damaged: {problem}" if problem else ""


def wrong_checkpoints(audited: AuditedFolder) -> Problems:
    """Yield checkpoints that are damaged, of another iteration, or of another vocabulary than those before them."""
    for version, problem in sorted(audited.damaged.items()):
        yield Place(iteration=version), problem
    for path in audited.of_warm_start:
        if problem := _damage(path):
            yield Place(iteration=0), problem
    first: object = ""
    for version, path in sorted(audited.weights.items()):
        if not (path / "state.json").is_file():
            continue
        state = _state(path / "state.json")
        if isinstance(state, str):
            yield Place(iteration=version), state
            continue
        first = first or state.get("vocabulary", "")
        if state.get("step") != version:
            yield Place(iteration=version), f"checkpoint {path} says that it is of iteration {state.get('step')}"
        if state.get("vocabulary") != first:
            yield Place(iteration=version), f"checkpoint {path} has another vocabulary than the one before it"


def _state(path: Path) -> dict[str, object] | str:
    """Return the state of a checkpoint, or what is wrong with its file."""
    try:
        state = read_json(path)
    except (InputError, OSError) as error:
        return str(error)
    return state if isinstance(state, dict) else f"{path} must be an object, got {type(state).__name__}"


def wrong_evaluations(audited: AuditedFolder) -> Problems:
    """Yield evaluations that are not of the run's panel, or whose rate is not the one in the metrics."""
    told = {int(entry["iteration"]): entry for entry in audited.events if entry.get("phase") == "evaluation"}
    panel_file = audited.path / "panel.json"
    for file in audited.evaluations:
        where = Place(iteration=int(file.stem))
        try:
            panel, result = Panel.load(panel_file), EvaluationResult.load(file)
        except (AgentError, OSError) as error:
            yield where, str(error)
            continue
        rows = [row.task for row in result.rows]
        if sorted(rows) != sorted(result.panel.tasks):
            yield (
                where,
                f"{file.name} has {len(rows)} episodes, which are not those of its {len(result.panel.tasks)} tasks",
            )
        if not set(rows) <= set(panel.tasks) or result.panel.kwargs != panel.kwargs:
            yield where, f"{file.name} was played on other tasks than those of panel.json"
        success = result.summary().success.value
        event = told.get(int(file.stem))
        if event is not None and event.get("success") != success:
            yield where, f"metrics.jsonl says success {event.get('success')}, {file.name} says {success}"
    yield from _copies(audited)


def wrong_metrics_file(audited: AuditedFolder) -> Problems:
    """Yield what of the metrics cannot be read, and the iterations and evaluations that they lack or have twice."""
    for sentence in audited.unreadable:
        yield Place(), sentence
    checkpoints = audited.path / "checkpoints"
    told = Counter(entry.get("iteration") for entry in audited.events if entry.get("phase") == "train")
    reached = max(
        [*Checkpoints(checkpoints).steps(), *(number for number in told if isinstance(number, int))], default=0
    )
    lost, first = missing_iterations(audited.events, reached)
    if lost:
        yield Place(iteration=first), f"{METRICS} lacks {lost} of the {reached} finished iterations"
    for number in sorted(number for number in told if isinstance(number, int) and number < 1):
        yield Place(), f"{METRICS} has iteration {number}, and the first one is 1"
    for iteration, times in told.items():
        if times > 1 and isinstance(iteration, int):
            yield Place(iteration=iteration), f"{METRICS} has iteration {iteration} {times} times"
    evaluated = {entry.get("iteration") for entry in audited.events if entry.get("phase") == "evaluation"}
    for file in audited.evaluations:
        if int(file.stem) not in evaluated:
            yield Place(iteration=int(file.stem)), f"{METRICS} lacks the evaluation {file.name}"


def _copies(audited: AuditedFolder) -> Problems:
    """Yield before.json and after.json where they differ from the evaluations that they repeat."""
    for name, step in (("before.json", 0), ("after.json", audited.run.train.iterations)):
        copy, file = audited.path / name, audited.path / "evaluations" / f"{step:06d}.json"
        if copy.is_file() and file.is_file() and read_bytes(copy) != read_bytes(file):
            yield Place(iteration=step), f"{name} differs from evaluations/{file.name}"


def _checkpoint_count(audited: AuditedFolder) -> int:
    return len(audited.weights) + len(audited.damaged) + len(audited.of_warm_start)


@dataclass(frozen=True, slots=True)
class FolderCheck:
    """A check of the files of a run folder."""

    name: str
    asks: str
    count: Callable[[AuditedFolder], int]
    """Returns how many files are checked."""
    find: Callable[[AuditedFolder], Problems]


FOLDER_CHECKS: tuple[FolderCheck, ...] = (
    FolderCheck("metrics file", "every iteration is told, once", lambda one: 1 - one.imported, wrong_metrics_file),
    FolderCheck("checkpoints", "files match their manifests", _checkpoint_count, wrong_checkpoints),
    FolderCheck(
        "evaluations", "rates are those of the stored episodes", lambda one: len(one.evaluations), wrong_evaluations
    ),
)

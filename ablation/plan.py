"""The plan of an ablation: variants ("arms") of one run that differ in named keys, each trained with several seeds.

    ABLATION/plan.json                the run, the arms and the seeds
    ABLATION/warm-start/seed-0/       a run without iterations; every arm of the seed starts from its checkpoint
    ABLATION/warm-start/evaluations/  evaluations before training that runs share
    (turncredit.training.monitor.shared_evaluations) ABLATION/gigpo/seed-0/            an ordinary run
    ABLATION/calls.jsonl              the duration of each call of the command that was not killed
    ABLATION/results.json             see turncredit.ablation.results

This is not a search: the arms are named in advance, and every one of them is trained to its end.
"""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from turncredit.ablation.arm_grammar import format_value, split
from turncredit.ablation.axes import SHORT, Arm, axis, with_own_folders
from turncredit.agents.files.json_files import write_json
from turncredit.credit.errors import CreditError
from turncredit.credit.registry import get as credit_rule
from turncredit.registry import suggest
from turncredit.tools.bounded_input import read_json
from turncredit.training.config.differences import differences
from turncredit.training.config.renamed import with_new_names
from turncredit.training.config.run import Run, parse_value
from turncredit.training.config.toml import literal
from turncredit.training.config.versions import describe
from turncredit.training.errors import ConfigError, RunExists, TrainingError

MAY_CHANGE = frozenset({"name", "output", "threads", "loggers.names", "loggers.project", "checkpoints.keep"})
PLAN = "plan.json"
CALLS = "calls.jsonl"
WARM_START = "warm-start"
VERSION = 1


@dataclass(frozen=True, slots=True)
class Ablation:
    """The plan of an ablation.

    Attributes:
        folder: of the ablation.
        base: the run as set by its file and the command line, without defaults.
        arms: the first one is the reference.
        seeds: of each arm.
        command: the command that started it, for readers.
    """

    folder: Path
    base: dict[str, Any]
    arms: tuple[Arm, ...]
    seeds: tuple[int, ...]
    command: str = ""

    def warm_start(self, seed: int) -> Run:
        """Return the run without iterations whose checkpoint every arm of a seed starts from."""
        table = {key: value for key, value in self.base.items() if key != "credit"}
        table["objective"] = {
            key: value for key, value in self.base.get("objective", {}).items() if key == "old_logprobs"
        }
        table["train"] = {key: value for key, value in self.base.get("train", {}).items() if key != "staleness"}
        words = [*self._run_words(WARM_START, seed), "train.iterations=0"]
        return Run.parse(table, words, source="the warm start")

    def run(self, arm: Arm, seed: int) -> Run:
        """Return the run of an arm, which starts from the weights of the warm start."""
        table = {key: value for key, value in self.base.items() if key != "imitation"}
        own = {"model", "new"}
        table["policy"] = {key: value for key, value in self.base.get("policy", {}).items() if key not in own}
        # the checkpoint of an adapter is no base for another one; "final" is the whole model
        weights = "final" if table["policy"].get("lora") else "checkpoints/000000"
        table["policy"]["model"] = str(self.folder_of(WARM_START, seed).resolve() / weights)
        words = [*self._run_words(arm.name, seed, arm.folder), *arm.words]
        if arm.left_out or arm.handed:
            options = self.base["credit"]["options"]
            left = {key: value for key, value in options.items() if key not in arm.left_out + arm.handed}
            table["credit"] = {**self.base["credit"], "options": left}
            words += [f"credit.options.base_options.{name}={literal(options[name])}" for name in arm.handed]
        return Run.parse(table, words, source=f"arm {arm.name!r}")

    def folder_of(self, folder: str, seed: int) -> Path:
        """Return the folder of one run."""
        return self.folder / folder / f"seed-{seed}"

    @property
    def evaluated(self) -> Path:
        """Folder of the evaluations before training: a policy that several runs begin with is measured once."""
        return self.folder / WARM_START / "evaluations"

    def _run_words(self, name: str, seed: int, folder: str = "") -> list[str]:
        output = str(self.folder_of(folder or name, seed))
        return [f"name={json.dumps(f'{name}, seed {seed}')}", f"seed={seed}", f"output={json.dumps(output)}"]

    def remarks(self) -> list[str]:
        """Return sentences that readers of the results should know."""
        sentences = [
            f"arm {arm.name}: its credit rule has no option {', '.join(arm.left_out)}, which is left out"
            for arm in self.arms
            if arm.left_out
        ]
        sentences += [
            f"arm {arm.name}: {', '.join(arm.handed)} of the file are passed to its base rule"
            for arm in self.arms
            if arm.handed
        ]
        budgets = {
            (
                run.train.iterations * run.train.groups * run.train.group_size,
                run.train.iterations * run.train.optimizer_steps,
            )
            for run in (self.run(arm, self.seeds[0]) for arm in self.arms)
        }
        if len(budgets) > 1:
            sentences.append("the arms have different budgets of episodes or updates")
        return sentences


def plan(run: Run, words: Sequence[str], folder: Path) -> Ablation:
    """Return the ablation that the words of a command line describe.

    A word "key=value,value,..." is an axis, and axes are crossed. "credit" abbreviates "credit.method", and "objective"
    "objective.name". A value may set further keys, as in "gigpo:w=0.5:anchor=observation": keys of the axis' section,
    options of what the axis names, or any key written with its section (`turncredit.ablation.arm_grammar` has the
    grammar). "seeds=5" means five seeds starting with the run's own, "seeds=[0,7]" exactly these.

    Args:
        run: the run, with all words that are not axes (see `is_axis`) applied.
        words: the axes and the seeds.
        folder: of the ablation.

    Raises:
        ConfigError: a word is malformed, two arms are equal, or an axis belongs to a section that all arms share.
        CreditError: an arm names an unknown credit rule.
    """
    base = run.model_dump(exclude_unset=True)
    seeds: tuple[int, ...] = (run.seed,)
    axes: list[list[Arm]] = []
    keys: set[str] = set()
    for word in words:
        key, _, text = word.partition("=")
        name = SHORT.get(key.strip(), key.strip())
        if name in keys:
            raise ConfigError(f"{name} is given twice: {word} and before")
        keys.add(name)
        if name == "seeds":
            seeds = _seeds(text.strip(), run.seed)
        else:
            axes.append(list(axis(key.strip(), text)))
    if not axes:
        method = run.credit.method
        axes = [[Arm(method, (f"credit.method={format_value(method)}",))]]
    several = [len(choices) > 1 or len(axes) == 1 for choices in axes]
    arms = []
    for chosen in itertools.product(*axes):
        name = ", ".join(arm.name for arm, shown in zip(chosen, several, strict=True) if shown) or chosen[0].name
        arms.append(Arm(name, tuple(word for arm in chosen for word in arm.words)))
    if len({arm.name for arm in arms}) < len(arms):
        raise ConfigError(f"two arms have the same name: {', '.join(arm.name for arm in arms)}")
    arms = with_own_folders(arms, WARM_START)
    ablation = Ablation(folder, base, tuple(_with_suitable_options(base, arms)), seeds)
    _distinct(ablation)
    return ablation


def _seeds(text: str, first: int) -> tuple[int, ...]:
    value = parse_value(text)
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return tuple(range(first, first + value))
    many = value if isinstance(value, list) else [parse_value(part) for part in split(text, ",")]
    whole = [seed for seed in many if isinstance(seed, int) and not isinstance(seed, bool) and seed >= 0]
    if len(whole) < len(many) or len(set(whole)) < len(many) or (not isinstance(value, list) and len(many) < 2):
        raise ConfigError(f"seeds must be a number of seeds or distinct seeds such as seeds=[0,1,2], got {text}")
    return tuple(whole)


def _with_suitable_options(base: dict[str, Any], arms: Sequence[Arm]) -> Iterator[Arm]:
    """Yield the arms, each without the options of the run's file that its credit rule does not have.

    A rule with a base rule (options `base`, `base_options`) passes on those that the base rule has, so that the arms
    are comparable. Options that the arm or the file set for the base rule take precedence.

    Raises:
        ConfigError: an option of the file belongs neither to the file's rule nor to that of any arm.
    """
    options = base.get("credit", {}).get("options", {})
    options_of_rules = set(credit_rule(Run.parse(base).credit.method).options)
    suited = []
    for arm in arms:
        words = [word for word in arm.words if word.startswith("credit.")]
        credit = Run.parse(base, words, source=f"arm {arm.name!r}").credit
        with _naming(arm):
            mine = credit_rule(credit.method).options
            below = _options_below(mine, credit.options)
        lacking = set(options) - set(mine)
        base_options = credit.options.get("base_options")
        handed = lacking & below - set(base_options if isinstance(base_options, dict) else ())
        options_of_rules |= set(mine) | below
        suited.append(replace(arm, left_out=tuple(sorted(lacking - handed)), handed=tuple(sorted(handed))))
    for option in options:
        if option not in options_of_rules:
            raise ConfigError(
                f"no arm's credit rule has the option credit.options.{option}{suggest(option, options_of_rules)}"
            )
    yield from suited


def _options_below(mine: Mapping[str, Any], options: Mapping[str, Any]) -> set[str]:
    """Return the options of the base rule of a rule; empty for a rule without one."""
    if "base_options" not in mine:
        return set()
    return set(credit_rule(str(options.get("base", mine["base"]))).options)


@contextmanager
def _naming(arm: Arm) -> Iterator[None]:
    """Name the arm in error messages."""
    try:
        yield
    except (ConfigError, CreditError) as error:
        raise type(error)(f"arm {arm.name!r}: {error}") from error


def _distinct(ablation: Ablation) -> None:
    """Check that no two arms are the same run."""
    runs = [(arm, ablation.run(arm, ablation.seeds[0])) for arm in ablation.arms]
    for (arm, first), (other_arm, second) in itertools.combinations(runs, 2):
        if set(differences(first, second)) <= {"name", "output"}:
            raise ConfigError(f"arms {arm.name!r} and {other_arm.name!r} are the same run")


def check(ablation: Ablation) -> None:
    """Prepare every arm once, so that mistakes are reported before any work.

    Raises:
        ConfigError: the configuration of an arm is invalid, or there is no evaluation.
        TrainingError, EnvError, CreditError, AgentError: from the parts.
    """
    from turncredit.training.parts import prepare

    seed = ablation.seeds[0]
    warm = ablation.warm_start(seed)
    setups = [prepare(warm)]
    for arm in ablation.arms:
        run = ablation.run(arm, seed)
        with _naming(arm):
            setups.append(prepare(run))
    if any(setup.panel is None for setup in setups):
        raise ConfigError("an ablation compares evaluations after training, so evaluation.episodes must be > 0")


def open_folder(ablation: Ablation) -> None:
    """Write the plan into its folder, or check that the folder holds this plan; arms and seeds may be added.

    Raises:
        RunExists: the folder holds other runs.
        ConfigError: the folder holds another plan; the message names the difference.
    """
    path = ablation.folder / PLAN
    if path.exists():
        _compare(read_plan(ablation.folder), ablation)
    elif any(ablation.folder.glob("*/seed-*/run.toml")) or (ablation.folder / "run.toml").exists():
        raise RunExists(f"{ablation.folder} holds runs but no {PLAN}; choose another output")
    arms = [asdict(arm) for arm in ablation.arms]
    content = {"version": VERSION, "command": ablation.command, "seeds": ablation.seeds, "arms": arms}
    write_json(path, {**content, "base": ablation.base, **describe()})


def read_plan(folder: Path) -> Ablation:
    """Return the ablation in a folder.

    Raises:
        TrainingError: there is none, or its plan cannot be read.
    """
    if not (folder / PLAN).is_file():
        raise TrainingError(f"{folder} is not the folder of an ablation: it has no {PLAN}")
    try:
        content = read_json(folder / PLAN)
        if content["version"] != VERSION:
            raise TrainingError(f"{folder / PLAN} was written by another version of turncredit ({content['version']})")
        arms = tuple(
            Arm(
                table["name"],
                tuple(table["words"]),
                tuple(table["left_out"]),
                tuple(table.get("handed", ())),
                str(table.get("suffix", "")),
            )
            for table in content["arms"]
        )
        base, _ = with_new_names(content["base"])
        return Ablation(folder, base, arms, tuple(content["seeds"]), str(content.get("command", "")))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TrainingError(f"{folder / PLAN} is not the plan of an ablation ({error})") from error


def _compare(there: Ablation, here: Ablation) -> None:
    """Check that a plan only adds arms and seeds to the plan in its folder."""
    changed = [key for key in differences(Run.parse(there.base), Run.parse(here.base)) if key not in MAY_CHANGE]
    if changed:
        raise ConfigError(
            f"{', '.join(changed)} changed since the ablation in {here.folder} was started; choose another output"
        )
    arms = {arm.name: arm for arm in here.arms}
    gone = [arm.name for arm in there.arms if arms.get(arm.name) != arm]
    gone += [f"seed {seed}" for seed in there.seeds if seed not in here.seeds]
    if gone:
        raise ConfigError(
            f"the ablation in {here.folder} has {', '.join(gone)}, which is missing here or different; arms and seeds "
            "may only be added (or choose another output)"
        )
    if there.arms[0] != here.arms[0]:
        raise ConfigError(f"the reference (the first arm) of the ablation in {here.folder} is {there.arms[0].name}")

"""An ablation: one run, several arms that differ in named keys, several seeds, and everything else the same.

    ABLATION/plan.json                the run, the arms and the seeds: what makes a second call the same one
    ABLATION/warm-start/seed-0/       a run of no iterations; its checkpoint is where every arm of the seed begins
    ABLATION/gigpo/seed-0/            an ordinary run
    ABLATION/calls.jsonl              how long each call of the command took that was not killed
    ABLATION/results.json             see turnwise.training.ablation_results

Left out on purpose: a search. Arms are named beforehand, and every one of them is carried out to its end.
"""

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from turnwise.credit.errors import CreditError
from turnwise.credit.registry import get as credit_rule
from turnwise.registry import suggest
from turnwise.training.config import CreditSection, ObjectiveSection, Run, Section, parse_value
from turnwise.training.errors import ConfigError, RunExists, TrainingError
from turnwise.training.folder import describe, differences, write_json
from turnwise.training.toml import literal

VARIES = ("agent", "credit", "objective", "train")
"""Sections that an arm may change. The others are the warm start's or the tasks', which all arms share."""
SHORT = {"credit": "credit.method", "objective": "objective.name"}
"""Words that stand for the key of a method."""
MAY_CHANGE = frozenset({"name", "output", "threads", "tensorboard", "train.keep"})
PLAN = "plan.json"
CALLS = "calls.jsonl"
WARM_START = "warm-start"
VERSION = 1


@dataclass(frozen=True, slots=True)
class Arm:
    """What one arm changes: "section.key=value" words, and the options of the run's file that its rule lacks.

    Attributes:
        name: of the arm.
        words: "section.key=value".
        left_out: options that its rule lacks, and that it does not hand on.
        handed: options that only the rule on which its rule stands has; they go there.
    """

    name: str
    words: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    handed: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """Name of the arm's folder."""
        return re.sub(r"[^A-Za-z0-9._]+", "-", self.name).strip("-.") or "arm"


@dataclass(frozen=True, slots=True)
class Ablation:
    """What is to be done.

    Attributes:
        folder: of everything.
        base: the run as its file and the command line set it, defaults left out.
        arms: the first one is the reference.
        seeds: of each arm.
        command: that began it, for readers.
    """

    folder: Path
    base: dict[str, Any]
    arms: tuple[Arm, ...]
    seeds: tuple[int, ...]
    command: str = ""

    def warm_start(self, seed: int) -> Run:
        """Give the run of no iterations that makes the policy every arm of a seed begins with."""
        kept = {key: value for key, value in self.base.items() if key != "credit"}
        kept["objective"] = {key: value for key, value in self.base.get("objective", {}).items() if key == "old"}
        words = [*self._place(WARM_START, seed), "train.steps=0"]
        return Run.parse(kept, words, source="the warm start")

    def run(self, arm: Arm, seed: int) -> Run:
        """Give an arm's run: it begins with the warm start's checkpoint."""
        kept = {key: value for key, value in self.base.items() if key != "imitation"}
        sizes = {"path", "vocab", "hidden", "layers", "heads"}
        kept["policy"] = {key: value for key, value in self.base.get("policy", {}).items() if key not in sizes}
        kept["policy"]["path"] = str(self.place(WARM_START, seed).resolve() / "checkpoints" / "000000")
        words = [*self._place(arm.name, seed, arm.folder), *arm.words]
        if arm.left_out or arm.handed:
            options = self.base["credit"]["options"]
            left = {key: value for key, value in options.items() if key not in arm.left_out + arm.handed}
            kept["credit"] = {**self.base["credit"], "options": left}
            words += [f"credit.options.base_options.{name}={literal(options[name])}" for name in arm.handed]
        return Run.parse(kept, words, source=f"arm {arm.name!r}")

    def place(self, folder: str, seed: int) -> Path:
        """Give the folder of one run."""
        return self.folder / folder / f"seed-{seed}"

    def _place(self, name: str, seed: int, folder: str = "") -> list[str]:
        place = str(self.place(folder or name, seed))
        return [f"name={json.dumps(f'{name}, seed {seed}')}", f"seed={seed}", f"output={json.dumps(place)}"]

    def remarks(self) -> list[str]:
        """Give sentences on what is allowed and a reader should know."""
        found = [
            f"arm {arm.name}: its rule has no {', '.join(arm.left_out)}; left out there"
            for arm in self.arms
            if arm.left_out
        ]
        found += [
            f"arm {arm.name}: {', '.join(arm.handed)} of the file go to the rule that it stands on"
            for arm in self.arms
            if arm.handed
        ]
        budgets = {
            (run.train.steps * run.train.tasks * run.train.group, run.train.steps * run.train.updates)
            for run in (self.run(arm, self.seeds[0]) for arm in self.arms)
        }
        if len(budgets) > 1:
            found.append("the arms' budgets differ: not all of them play and update equally often")
        return found


def plan(run: Run, words: Sequence[str], folder: Path) -> Ablation:
    """Give the ablation of a run.

    Words are "key=value,value,...", an axis; axes are crossed. "credit" is short for "credit.method", "objective"
    for "objective.name". A value may bring keys of its own along, "gigpo:w=0.5:anchor=observation": options of the
    method, keys of the axis' section, or any key written with its section. "seeds=5" gives five seeds from the run's
    own on, "seeds=[0,7]" these.

    Args:
        run: with every word that is no axis (see `is_axis`) already in it.
        words: the axes, and the seeds.
        folder: of everything.

    Raises:
        ConfigError: a word cannot be read, two arms are the same, or an axis belongs to what all arms share.
        CreditError: an arm names a credit rule that nobody has.
    """
    base = run.model_dump(exclude_unset=True)
    seeds: tuple[int, ...] = (run.seed,)
    axes: list[list[Arm]] = []
    for word in words:
        key, _, text = word.partition("=")
        if key.strip() == "seeds":
            seeds = _seeds(text.strip(), run.seed)
        else:
            axes.append(list(_axis(key.strip(), text)))
    if not axes:
        axes = [list(_axis("credit", run.credit.method))]
    several = [len(axis) > 1 or len(axes) == 1 for axis in axes]
    arms = []
    for chosen in itertools.product(*axes):
        name = ", ".join(arm.name for arm, shown in zip(chosen, several, strict=True) if shown) or chosen[0].name
        arms.append(Arm(name, tuple(word for arm in chosen for word in arm.words)))
    if len({arm.folder for arm in arms} | {WARM_START}) <= len(arms):
        raise ConfigError(f"two arms have the same name: {', '.join(arm.name for arm in arms)}")
    ablation = Ablation(folder, base, tuple(_without_foreign_options(base, arms)), seeds)
    _distinct(ablation)
    return ablation


def is_axis(word: str) -> bool:
    """Tell whether a word of the command line is one of `plan`: seeds, a method, or several values of a key."""
    key, _, text = word.partition("=")
    return key.strip() in {"seeds", *SHORT} or len(split(text, ",")) > 1


def split(text: str, mark: str) -> list[str]:
    """Split a text at a mark that stands outside of brackets and quotes.

    >>> split('a,[1,2],"b,c"', ",")
    ['a', '[1,2]', '"b,c"']
    """
    parts, depth, quote = [""], 0, ""
    for char in text:
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        depth += (char in "[{") - (char in "]}") if not quote else 0
        if char == mark and not quote and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return parts


def _axis(key: str, text: str) -> Iterator[Arm]:
    key = SHORT.get(key, key)
    section = key.partition(".")[0]
    if section not in VARIES or "." not in key:
        raise ConfigError(
            f"{key} cannot differ between arms, which share tasks, warm start and evaluation; an axis is a key of "
            f"{', '.join(VARIES)}"
        )
    for item in split(text, ","):
        value, *more = split(item.strip(), ":")
        if not value:
            raise ConfigError(f"{key}={text} has an empty value; an axis is written key=value,value")
        words = [f"{key}={value}"]
        for extra in more:
            name, equals, _ = extra.partition("=")
            if not equals or not name:
                raise ConfigError(f"{item!r}: after the colon key=value was wanted, not {extra!r}")
            words.append(f"{_full(section, name.strip())}{extra[len(name) :]}")
        yield Arm(item.strip() if key in SHORT.values() else f"{key.rpartition('.')[2]}={item.strip()}", tuple(words))


def _full(section: str, name: str) -> str:
    """The dotted key that a word after a colon means."""
    if "." in name:
        if name.partition(".")[0] not in VARIES:
            raise ConfigError(f"{name} cannot differ between arms; what may is in {', '.join(VARIES)}")
        return name
    fields: dict[str, type[Section]] = {"credit": CreditSection, "objective": ObjectiveSection}
    if section in fields and name not in fields[section].model_fields:
        return f"{section}.options.{name}"
    return f"{section}.{name}"


def _seeds(text: str, first: int) -> tuple[int, ...]:
    value = parse_value(text)
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return tuple(range(first, first + value))
    many = value if isinstance(value, list) else [parse_value(part) for part in split(text, ",")]
    whole = [one for one in many if isinstance(one, int) and not isinstance(one, bool) and one >= 0]
    if len(whole) < len(many) or len(set(whole)) < len(many) or (not isinstance(value, list) and len(many) < 2):
        raise ConfigError(f"seeds={text}: how many, or different ones as in seeds=[0,1,2], was wanted")
    return tuple(whole)


def _without_foreign_options(base: dict[str, Any], arms: Sequence[Arm]) -> Iterator[Arm]:
    """Give the arms, each without those options of the run's file that its rule does not have.

    A rule that stands on another one (`base`, `base_options`) hands it those that the other has, so that arms compare
    like with like. What the arm or the file says of the other one itself wins.

    Raises:
        ConfigError: an option of the file is none of any arm's rule, nor of the file's own.
    """
    options = base.get("credit", {}).get("options", {})
    known = set(credit_rule(Run.parse(base).credit.method).options)
    found = []
    for arm in arms:
        words = [word for word in arm.words if word.startswith("credit.")]
        credit = Run.parse(base, words, source=f"arm {arm.name!r}").credit
        with _naming(arm):
            mine = credit_rule(credit.method).options
            below = _options_below(mine, credit.options)
        lacking = set(options) - set(mine)
        said = credit.options.get("base_options")
        handed = lacking & below - set(said if isinstance(said, dict) else ())
        known |= set(mine) | below
        found.append(replace(arm, left_out=tuple(sorted(lacking - handed)), handed=tuple(sorted(handed))))
    for option in options:
        if option not in known:
            raise ConfigError(f"credit.options.{option} is an option of no arm's rule{suggest(option, known)}")
    yield from found


def _options_below(mine: Mapping[str, Any], options: Mapping[str, Any]) -> set[str]:
    """The options of the rule on which a rule stands; none for a rule that stands on none."""
    if "base_options" not in mine:
        return set()
    return set(credit_rule(str(options.get("base", mine["base"]))).options)


@contextmanager
def _naming(arm: Arm) -> Iterator[None]:
    """Name the arm in what is said of its options."""
    try:
        yield
    except (ConfigError, CreditError) as error:
        raise type(error)(f"arm {arm.name!r}: {error}") from error


def _distinct(ablation: Ablation) -> None:
    """Refuse two arms that are the same run."""
    runs = [(arm, ablation.run(arm, ablation.seeds[0])) for arm in ablation.arms]
    for (one, first), (other, second) in itertools.combinations(runs, 2):
        if set(differences(first, second)) <= {"name", "output"}:
            raise ConfigError(f"the arms {one.name!r} and {other.name!r} are the same run")


def check(ablation: Ablation) -> None:
    """Set every arm up once, so that a slip shows before any work, and make sure that all play the same tasks.

    Raises:
        ConfigError: an arm's configuration cannot be, or no evaluation is wanted.
        TrainingError, EnvError, CreditError, AgentError: of the parts.
    """
    from turnwise.training.setup import prepare

    seed = ablation.seeds[0]
    warm = ablation.warm_start(seed)
    setups = [prepare(warm)]
    for arm in ablation.arms:
        run = ablation.run(arm, seed)
        with _naming(arm):
            setups.append(prepare(run))
    if any(setup.panel is None for setup in setups):
        raise ConfigError("an ablation compares evaluations after training; evaluation.episodes is 0")


def open_folder(ablation: Ablation) -> None:
    """Write the plan into its folder, or make sure that the plan which is there is this one; arms and seeds may join.

    Raises:
        RunExists: the folder holds something else.
        ConfigError: the plan there is another one; the message names what differs.
    """
    path = ablation.folder / PLAN
    if path.exists():
        _compare(read_plan(ablation.folder), ablation)
    elif any(ablation.folder.glob("*/seed-*/run.toml")) or (ablation.folder / "run.toml").exists():
        raise RunExists(f"{ablation.folder} holds runs and no {PLAN}; choose another output")
    arms = [asdict(arm) for arm in ablation.arms]
    content = {"version": VERSION, "command": ablation.command, "seeds": ablation.seeds, "arms": arms}
    write_json(path, {**content, "base": ablation.base, **describe()})


def read_plan(folder: Path) -> Ablation:
    """Give the ablation that a folder holds.

    Raises:
        TrainingError: there is none, or it cannot be read.
    """
    try:
        content = json.loads((folder / PLAN).read_text(encoding="utf-8"))
        if content["version"] != VERSION:
            raise TrainingError(f"{folder / PLAN} was written by another version of turnwise ({content['version']})")
        arms = tuple(
            Arm(one["name"], tuple(one["words"]), tuple(one["left_out"]), tuple(one.get("handed", ())))
            for one in content["arms"]
        )
        return Ablation(folder, content["base"], arms, tuple(content["seeds"]), str(content.get("command", "")))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TrainingError(f"{folder / PLAN} is no plan of an ablation ({error})") from error


def _compare(there: Ablation, here: Ablation) -> None:
    """Refuse another plan than the one that is there."""
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
            f"the ablation in {here.folder} has {', '.join(gone)}, which this one lacks or has otherwise; arms and "
            "seeds may only join, or choose another output"
        )
    if there.arms[0] != here.arms[0]:
        raise ConfigError(f"the reference (the first arm) of the ablation in {here.folder} is {there.arms[0].name}")

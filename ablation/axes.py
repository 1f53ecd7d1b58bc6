"""The axes of an ablation: what the words of a command line mean, such as "credit=grpo,mine:by_time:gamma=0.9".

`turncredit.ablation.arm_grammar` reads the text; here its names become keys of a run.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import get_args, get_origin

from turncredit.ablation.arm_grammar import ArmText, parse_arm, parse_axis, split
from turncredit.registry import suggest
from turncredit.training.config.renamed import RENAMED, put
from turncredit.training.config.run import Run, parse_value
from turncredit.training.config.section_tables import Section
from turncredit.training.config.sections import Choice
from turncredit.training.config.toml import Table, literal
from turncredit.training.errors import ConfigError

__all__ = ["SHORT", "VARIES", "Arm", "axis", "is_axis", "with_own_folders"]

VARIES = ("agent", "credit", "objective", "sampling", "train")
"""Sections that an arm may change. All arms share the others: the environment, the warm start and the evaluation."""
SHORT = {"credit": "credit.method", "objective": "objective.name"}
"""Abbreviations of keys."""
_METHODS = {"credit": "credit.options", "objective": "objective.options"}
"""Sections with a method, and the table of its options."""
_NAMES = {"agent.template": "base"}
"""Keys of tables that hold the name of a choice, where it is not "name"."""
_LONGEST = 255
"""Most characters in the name of a folder."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One arm: the keys that it changes, and what becomes of the options of the run's credit rule.

    Attributes:
        name: name of the arm.
        words: "section.key=value".
        left_out: options of the run that the arm's credit rule does not have.
        handed: options of the run that only the base rule of the arm's credit rule has; they are passed to it.
        suffix: end of the folder's name, of an arm whose name alone would give it the folder of another one.
    """

    name: str
    words: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    handed: tuple[str, ...] = ()
    suffix: str = ""

    @property
    def folder(self) -> str:
        """Name of the arm's folder."""
        return _plain(self.name)[: _LONGEST - len(self.suffix)] + self.suffix


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._]+", "-", name).strip("-.") or "arm"


def is_axis(word: str) -> bool:
    """Return whether a word of the command line is an axis or the seeds: a method, or several values of a key."""
    key, _, text = word.partition("=")
    if key.strip() in {"seeds", *SHORT}:
        return True
    try:
        return len(split(text, ",")) > 1
    except ConfigError:
        return False  # a text such as "don't", which is one value


def axis(key: str, text: str) -> Iterator[Arm]:
    """Yield the arms of a word "key=arm,arm,...".

    Args:
        key: "credit", "objective", or a key of a section in `VARIES`.
        text: the arms, in the grammar of `turncredit.ablation.arm_grammar`.

    Raises:
        ConfigError: the text is malformed, or a key belongs to a section that all arms share.
    """
    key = SHORT.get(key, key)
    section = key.partition(".")[0]
    if section not in VARIES or "." not in key:
        advice = f"""; for one value with a comma in it, quote it: {key}='"..."'""" if "." in key else ""
        raise ConfigError(
            f"{key} cannot be an axis, because all arms share the environment, the warm start and the evaluation; an "
            f"axis is a key of {', '.join(VARIES)}{advice}"
        )
    for item in parse_axis(text):
        arm = parse_arm(item)
        if not arm.value.strip():
            raise ConfigError(f"{key}={text} has an empty value; an axis has the form key=value,value")
        yield Arm(item if key in SHORT.values() else f"{key.rpartition('.')[2]}={item}", _words(key, item, arm))


def _words(key: str, item: str, arm: ArmText) -> tuple[str, ...]:
    """Return the words "section.key=value" of an arm."""
    names = [name for name, _ in arm.settings]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise ConfigError(f"{item!r} sets {name} twice")
    owner = _Owner(key)
    full = {name: owner.full_key(name, item) for name in names}
    own = {full[name]: text for name, text in arm.settings if owner.chooses and full[name].startswith(f"{key}.")}
    words = [f"{full[name]}={text}" for name, text in arm.settings if full[name] not in own]
    return (f"{key}={_with_options(key, arm.value, own) if own else arm.value}", *words)


def _with_options(key: str, value: str, options: Mapping[str, str]) -> str:
    """Return a choice with options as an inline table: {name = "vade", gain = "even"}.

    Args:
        key: key of the choice.
        value: text of a name, or of a table with a name.
        options: their texts by full key.
    """
    chosen = parse_value(value.strip())
    table: Table = {_NAMES.get(key, "name"): chosen} if not isinstance(chosen, dict) else dict(chosen)
    for name, text in options.items():
        path = name.removeprefix(f"{key}.").split(".")
        put(table, path, parse_value(text.strip()), f"{name} is set in {value} too", replace=False)
    return literal(table)


class _Owner:
    """The key of an axis, and where settings without a section of their own belong.

    Attributes:
        key: key of the axis.
        section: that it belongs to.
        fields: keys of the section, and of the table that the axis abbreviates or lies in, by the path before them.
        chooses: whether a value names something with options in its own table: {name = "vade", gain = "even"}.
    """

    def __init__(self, key: str) -> None:
        """Look the key up in the sections of a run."""
        self.key, (self.section, *keys) = key, key.split(".")
        self.fields: dict[str, list[str]] = {}
        self.chooses = False
        model: object = Run.model_fields[self.section].annotation
        path = self.section
        for name in [*keys, ""]:
            if not (isinstance(model, type) and issubclass(model, Section)):
                break
            self.fields[path] = list(model.model_fields)
            if name not in model.model_fields:
                break
            path, model = f"{path}.{name}", model.model_fields[name].annotation
            member = get_args(model)[0] if get_origin(model) is list else model  # a single rule is a list of one
            self.chooses = path == key and set(get_args(Choice)) <= set(get_args(member))

    def full_key(self, name: str, item: str) -> str:
        """Return the full key of a setting.

        Args:
            name: as it was written.
            item: the arm, for messages.

        Raises:
            ConfigError: there is no such key, or all arms share it.
        """
        first = name.partition(".")[0]
        if first != name and first in VARIES:
            return name
        if first != name and first in Run.model_fields:
            raise ConfigError(f"{name} cannot differ between arms; choose a key of {', '.join(VARIES)}")
        if f"{self.section}.{name}" == self.key:
            if not self.chooses:
                raise ConfigError(f"{item!r} sets {self.key} twice")
            return f"{self.key}.{name}"  # an option that is called like the key: sampling.tasks=v0:tasks=vade
        if first in self.fields[self.section]:
            return f"{self.section}.{name}"
        for path, keys in reversed(self.fields.items()):
            if first in keys:  # of the table that the axis abbreviates: train.forks=uniform:roots=4
                return f"{path}.{name}"
        if f"{self.section}.{name}" in RENAMED:
            return f"{self.section}.{name}"
        if self.chooses:
            return f"{self.key}.{name}"
        if self.section in _METHODS:
            return f"{_METHODS[self.section]}.{name}"
        choices = [key for keys in self.fields.values() for key in keys]
        raise ConfigError(
            f"{item!r}: {name} is no key of [{self.section}]{suggest(name, choices)}; a value that holds this colon is "
            f"quoted: {self.key}='\"...\"'"
        )


def with_own_folders(arms: Sequence[Arm], taken: str) -> list[Arm]:
    """Return the arms, each with a folder of its own, also where upper and lower case are the same.

    The folder of an arm is made of its name. Of several arms that would share one, the first keeps it, and the others
    add a hash of their names; so does one whose name is too long for a folder.

    Args:
        arms: arms with distinct names.
        taken: a folder that no arm may have.
    """
    folders, distinct = {taken.lower()}, list[Arm]()
    for arm in arms:
        if arm.folder.lower() in folders or len(_plain(arm.name)) > _LONGEST:
            digest = sha256(arm.name.encode(errors="surrogatepass")).hexdigest()
            arm = replace(arm, suffix=f"-{digest[:8]}")
        folders.add(arm.folder.lower())
        distinct.append(arm)
    return distinct

"""`turncredit list`: the names that can be used in a run's file or on the command line."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Iterable
from inspect import Parameter
from typing import TYPE_CHECKING, Annotated

import typer

from turncredit.cli.console import say
from turncredit.cli.listing.credit_list import print_rules
from turncredit.cli.listing.examples import print_examples
from turncredit.cli.listing.objective_list import objective_rows
from turncredit.registry import choose

if TYPE_CHECKING:
    from turncredit.curriculum.rule_registry import R
    from turncredit.registry import Registry

Rows = Iterable[tuple[str, str]]


def _envs() -> Rows:
    from turncredit.envs.registration import env_ids, find, variant_of

    variants = Counter(base for name in env_ids() if (base := variant_of(name)) is not None)
    for name in env_ids(variants=False):
        stem, _, version = name.rpartition("-v")
        more = f" (and {variants[name]} variants {stem}-TASK-v{version})" if variants[name] else ""
        yield name, _about(find(name).entry_point) + more


def _about(entry_point: object) -> str:
    """Return the first line of the docstring of an environment's class."""
    if not isinstance(entry_point, str):
        return first_line(entry_point)
    module, _, name = entry_point.partition(":")
    try:
        return first_line(getattr(importlib.import_module(module), name))
    except (ImportError, AttributeError):
        return f"{entry_point} (cannot be imported)"


def first_line(thing: object) -> str:
    """Return the first line of a docstring, or a text, without its full stop."""
    if isinstance(thing, str):
        return thing.rstrip(".")
    lines = (getattr(thing, "__doc__", None) or "").strip().splitlines()
    return lines[0].rstrip(".") if lines else ""


def _transforms() -> Rows:
    from turncredit.credit.tokens import transforms

    for name, item in transforms().items():
        options = ", ".join(f"{key}={value}" for key, value in item.options.items())
        source = f" (arXiv {item.arxiv})" if item.arxiv else ""
        yield (
            name,
            f"{item.title}{source}. {item.use} Needs {', '.join(item.needs)}. Options: {options}. "
            f"Checked against: {item.evidence}.",
        )


def _forks() -> Rows:
    from turncredit.curriculum.fork_places import FORK_RULES

    for name, rule in FORK_RULES.items().items():
        source = f" (arXiv {rule.arxiv})" if rule.arxiv else ""
        options = "".join(f" Option: {key}={value}." for key, value in rule.options.items())
        yield name, f"{rule.title}{source}. {rule.use}{options}"


def _task_rules() -> Rows:
    from turncredit.curriculum.draws import TASK_RULES

    return _sampling_rules("task_rules", TASK_RULES)


def _group_rules() -> Rows:
    from turncredit.curriculum.growth import GROUP_RULES

    return _sampling_rules("group_rules", GROUP_RULES)


def _reward_rules() -> Rows:
    from turncredit.curriculum.rewards import REWARD_RULES

    return _sampling_rules("reward_rules", REWARD_RULES)


def _replay_rules() -> Rows:
    from turncredit.curriculum.replay import REPLAY_RULES

    return _sampling_rules("replay_rules", REPLAY_RULES)


def _annotators() -> Rows:
    from turncredit.curriculum.annotation import ANNOTATORS

    return _sampling_rules("annotators", ANNOTATORS)


def _sampling_rules(folder: str, rules: Registry[R]) -> Rows:
    importlib.import_module(f"turncredit.training.sampling.{folder}.catalogue")  # our own
    for name, rule in rules.items().items():
        source = f" (arXiv {rule.arxiv})" if rule.arxiv else ""
        defaults = {key: "needed" if value is Parameter.empty else value for key, value in rule.options.items()}
        options = f" Options: {', '.join(f'{key}={value}' for key, value in defaults.items())}." if defaults else ""
        yield name, f"{rule.title}{source}. {rule.use}{options} Checked against: {rule.evidence}."


def _samplers() -> Rows:
    from turncredit.engines import SAMPLERS

    yield "PATH", "The newest checkpoint of a run folder, or a Hugging Face folder"
    yield from ((name, first_line(item)) for name, item in SAMPLERS.items().items())


def _parsers() -> Rows:
    from turncredit.agents.prompts.parsing import PARSERS

    return [(name, f"expects {parser.expected}") for name, parser in PARSERS.items().items()]


def _prompts() -> Rows:
    from turncredit.agents.prompts.prompt import PROMPTS

    return [(name, first_line(make)) for name, make in PROMPTS.items().items()]


def _templates() -> Rows:
    from turncredit.agents.prompts.templates import TEMPLATES

    for name, template in TEMPLATES.items().items():
        yield name, repr(template.system + template.opening + template.ask)


def _formats() -> Rows:
    from turncredit.agents.interchange.formats import FORMATS

    for name, entry in FORMATS.items():
        verbs = " and ".join(verb for verb, there in (("export", entry.write), ("import", entry.read)) if there)
        lacks = f"; no room for {' nor for '.join(entry.lacks)}" if entry.lacks else ""
        yield name, f"{entry.title} ({verbs}). Carries {entry.carries}{lacks}"


def _keys() -> Rows:
    from turncredit.training.config.run import Run
    from turncredit.training.config.section_tables import Section
    from turncredit.training.config.toml import literal

    def walk(section: type[Section], prefix: str) -> Rows:
        for name, field in section.model_fields.items():
            inner = field.annotation
            if isinstance(inner, type) and issubclass(inner, Section):
                yield from walk(inner, f"{prefix}{name}.")
            else:
                yield f"{prefix}{name}", f"{field.description} [{literal(field.default)}]"

    return walk(Run, "")


_KINDS: dict[str, tuple[str, Callable[[], Rows] | None]] = {
    "envs": ("environments", _envs),
    "credit": ("credit rules", None),
    "examples": ("examples of runs, and where they lie", None),
    "transforms": ("transforms of token advantages", _transforms),
    "forks": ("rules of where episodes are forked in training", _forks),
    "task-rules": ("rules of which tasks are drawn, and how many episodes of each", _task_rules),
    "group-rules": ("rules of when a group is complete, and what else is played", _group_rules),
    "reward-rules": ("rules that change the rewards before credit is assigned", _reward_rules),
    "replay-rules": ("rules of which stored episodes are trained on again", _replay_rules),
    "annotators": ("what fills in columns for rules, and writes lessons", _annotators),
    "objectives": ("objectives, aggregations, divergence estimators and corrections", objective_rows),
    "samplers": ("samplers: who answers the prompts", _samplers),
    "prompts": ("how much of an episode a prompt holds", _prompts),
    "templates": ("wording of the prompts", _templates),
    "parsers": ("how an action is read from an answer", _parsers),
    "formats": ("formats of trajectories, for export and import", _formats),
    "keys": ("keys of a run's file, with their defaults", _keys),
}


_TABLES: dict[str, Callable[[], None]] = {"credit": print_rules, "examples": print_examples}
"""Lists that are printed as tables."""


def list_names(
    kind: Annotated[
        str | None, typer.Argument(metavar="KIND", help=f"One of: {', '.join(_KINDS)}. Default: list these.")
    ] = None,
) -> None:
    """List the names that a run's file or the command line can use."""
    if kind is None:
        _print_rows([(f"turncredit list {name}", about) for name, (about, _) in _KINDS.items()])
        return
    rows = _KINDS[choose("list", kind, _KINDS)][1]
    if rows is None:
        _TABLES[kind]()
    else:
        _print_rows(list(rows()))


def _print_rows(rows: list[tuple[str, str]]) -> None:
    width = max((len(name) for name, _ in rows), default=0)
    for name, text in rows:
        say(f"{name:<{width}}  {text}".rstrip())

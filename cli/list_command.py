"""`turnwise list`: the names that can be written in a run's file or on the command line."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Annotated

import typer

from turnwise.cli.console import say
from turnwise.cli.credit_list import print_estimators
from turnwise.cli.errors import choose

Rows = Iterable[tuple[str, str]]


def _envs() -> Rows:
    from turnwise.envs.registration import env_ids, find

    return [(name, _about(find(name).entry_point)) for name in env_ids()]


def _about(entry_point: object) -> str:
    """What the docstring of an environment's class says first; where it is, when it cannot be imported."""
    if not isinstance(entry_point, str):
        return first_line(entry_point)
    module, _, name = entry_point.partition(":")
    try:
        return first_line(getattr(importlib.import_module(module), name))
    except (ImportError, AttributeError):
        return f"{entry_point} (cannot be imported)"


def first_line(thing: object) -> str:
    """The first line of a docstring (or of a text that describes something), without its full stop."""
    if isinstance(thing, str):
        return thing.rstrip(".")
    lines = (getattr(thing, "__doc__", None) or "").strip().splitlines()
    return lines[0].rstrip(".") if lines else ""


def _objectives() -> Rows:
    from turnwise.training.objectives import AGGREGATIONS, CORRECTIONS, KL_ESTIMATORS, objectives

    for name, entry in objectives().items():
        source = f" (arXiv {entry.arxiv})" if entry.arxiv else ""
        needs = f" Needs {', '.join(entry.needs)}." if entry.needs else ""
        yield name, f"{entry.title}{source}. {entry.use}{needs} Checked against: {entry.evidence}."
    yield from ((f"aggregation={name}", text) for name, text in AGGREGATIONS.items())
    yield from ((f"kl_estimator={name}", text) for name, text in KL_ESTIMATORS.items())
    yield from ((f"correction={name}", correction.about) for name, correction in CORRECTIONS.items())


def _transforms() -> Rows:
    from turnwise.credit.tokens import transforms

    for name, item in transforms().items():
        options = ", ".join(f"{key}={value}" for key, value in item.options.items())
        yield (
            name,
            f"{item.title} (arXiv {item.arxiv}). {item.use} Needs {', '.join(item.needs)}. Options: {options}. "
            f"Checked against: {item.evidence}.",
        )


def _samplers() -> Rows:
    from turnwise.agents.samplers import Expert, Random, Scripted

    yield (
        "PATH",
        "A checkpoint or run folder: a transformers model on CPU or CUDA, batched, with the episodes' caches kept",
    )
    yield "expert", first_line(Expert)
    yield "random", first_line(Random)
    yield "scripted", f"{first_line(Scripted)} (from Python)"


def _parsers() -> Rows:
    from turnwise.agents.parsing import PARSERS

    return [(name, f"expects {parser.expected}") for name, parser in PARSERS.items().items()]


def _templates() -> Rows:
    from turnwise.agents.templates import TEMPLATES

    return [
        (name, repr(template.system + template.opening + template.ask)) for name, template in TEMPLATES.items().items()
    ]


def _keys() -> Rows:
    from turnwise.training.config import Run, Section
    from turnwise.training.toml import literal

    def walk(section: type[Section], prefix: str) -> Rows:
        for name, field in section.model_fields.items():
            inner = field.annotation
            if isinstance(inner, type) and issubclass(inner, Section):
                yield from walk(inner, f"{prefix}{name}.")
            else:
                yield f"{prefix}{name}", f"{field.description} [{literal(field.default)}]"

    return walk(Run, "")


_KINDS: dict[str, Callable[[], Rows]] = {
    "envs": _envs,
    "transforms": _transforms,
    "objectives": _objectives,
    "samplers": _samplers,
    "parsers": _parsers,
    "templates": _templates,
    "keys": _keys,
}
_NAMES = ("envs", "credit", *(kind for kind in _KINDS if kind != "envs"))


def list_names(
    kind: Annotated[
        str | None, typer.Argument(metavar="KIND", help=f"One of: {', '.join(_NAMES)}; these when absent.")
    ] = None,
) -> None:
    """List what can be named in a run's file or on the command line: environments, credit rules, keys and more."""
    if kind is None:
        for name in _NAMES:
            say(f"turnwise list {name}")
        return
    if choose("list", kind, _NAMES) == "credit":
        print_estimators()
        return
    rows = list(_KINDS[kind]())
    width = max((len(name) for name, _ in rows), default=0)
    for name, text in rows:
        say(f"{name:<{width}}  {text}".rstrip())

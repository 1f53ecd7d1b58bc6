"""Options that a file of somebody else hands to code: which of them need `--trust`.

Names of code are checked where they are looked up (`turncredit.registry.names_from_files`). An option can do as much:
the function of another package may load what it names, and some of our environments act on a device, call a server,
start an image or write an index where an option says. What is typed needs no check.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from turncredit.registry import Untrusted, trusted

if TYPE_CHECKING:
    from turncredit.credit import CreditRule
    from turncredit.training.config.run import Run

_REFERENCE = re.compile(r"[^\W\d][\w.]*:[\w./-]+")
"""A name of code: module:attribute, or module:namespace/Name-v0."""
_PLAIN: Mapping[str, bool | set[str]] = {
    "name": True,
    "output": True,
    "cluster": True,
    "agent": {"stop", "image_note"},
    "policy": {"model", "device"},
    "imitation": {"demonstrator"},
}
"""Keys that name no code, though a colon may be in their value: "cuda:0", "host:6379"."""
OUTWARD = frozenset({"cache", "connection", "device", "image", "keep", "url"})
"""Options of turncredit's environments that act on something outside of them, whatever their value."""


def require_safe_env(env_id: str, kwargs: Mapping[str, object], typed: Iterable[str] = ()) -> None:
    """Check the options that a file hands to an environment.

    Args:
        env_id: the environment.
        kwargs: its options.
        typed: names of those that the user typed.

    Raises:
        Untrusted: one of the others needs `--trust`, or a file names the module of the environment.
        EnvError: there is no such environment.
    """
    if trusted():
        return
    options = {key: value for key, value in kwargs.items() if key not in set(typed)}
    for name, option in _refused_by(env_id, options):
        raise Untrusted(
            f"the option {option} of {name} is set by a file, and could reach a device, a server or another file; "
            "--trust allows it, and so does typing it"
        )


def require_safe_run(run: Run, words: Iterable[str] = ()) -> None:
    """Check the options that the file of a run hands to its environment and its credit rule, before it is continued.

    Args:
        run: as the file says.
        words: "section.key=value", as the user typed them.

    Raises:
        Untrusted: one of the options needs `--trust`, or the file names the module of the environment.
        EnvError, CreditError: there is no such environment or rule.
    """
    from turncredit.credit import get

    if trusted():
        return
    typed = [word.partition("=")[0].strip() for word in words]
    for section, kwargs in _options_of(run):
        keys = [key.removeprefix(section) for key in typed if key.startswith(section)]
        if "" not in keys:  # the whole section was typed
            require_safe_env(run.env.id, kwargs, keys)
    options = {key: value for key, value in run.credit.options.items() if f"credit.options.{key}" not in typed}
    for key in refused_credit_options([get(run.credit.method)], options):
        raise Untrusted(f"the option {key}={options[key]!r} of {run.credit.method} is set by a file; --trust allows it")


def needs_trust(run: Run) -> bool:
    """Return whether a folder of this run is continued only with `--trust`."""
    from turncredit.engines.base import SAMPLERS

    names = [
        text for text in _texts(run.model_dump(exclude=_PLAIN)) if "://" not in text and _REFERENCE.fullmatch(text)
    ]
    engines = set(SAMPLERS.names())  # "transformers:MODEL" is no module
    return any(name.partition(":")[0] not in engines for name in names) or any(
        _refused_by(run.env.id, kwargs) for _, kwargs in _options_of(run)
    )


def _options_of(run: Run) -> list[tuple[str, Mapping[str, object]]]:
    """Return the arguments that the file of a run hands to its environment, with the section that has them."""
    if run.env.mix:
        return [("env.mix", run.env.arguments()), ("env.mix", run.evaluation_kwargs())]
    return [("env.kwargs.", run.env.kwargs), ("evaluation.env.", run.evaluation.env)]


def _refused_by(env_id: str, options: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return ids of environments, with an option that no file may set for them: NAME=VALUE."""
    from turncredit.envs.registration import find, parts_of

    parts = parts_of(env_id, **options)
    refused = []
    for name, table in [(part.id, part.kwargs) for part in parts] or [(env_id, options)]:
        maker = find(name).entry_point
        module = maker if isinstance(maker, str) else getattr(maker, "__module__", "")
        own = module.startswith("turncredit.")
        refused += [(name, f"{key}={table[key]!r}") for key in _refused(table, own=own)]
    return refused


def refused_credit_options(rules: Iterable[CreditRule], options: Mapping[str, object]) -> list[str]:
    """Return the names of options that need `--trust` if a file hands them to a credit rule.

    Args:
        rules: the rule, and the one that it is built on.
        options: from the file.
    """
    functions = [getattr(rule.function, "func", rule.function) for rule in rules]
    own = all(getattr(function, "__module__", "").startswith("turncredit.") for function in functions)
    return [] if trusted() else list(_refused(options, own=own))


def _refused(options: Mapping[str, object], *, own: bool) -> Iterator[str]:
    for key, value in options.items():
        outward = value not in (None, False, True) and (key in OUTWARD or any("://" in text for text in _texts(value)))
        if outward if own else any(_names_something(text) for text in _texts(value)):
            yield key


def _texts(value: object) -> Iterator[str]:
    """Yield every string in a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _texts(key)
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)


def _names_something(text: str) -> bool:
    """Whether a text may be the path of a file, an address, or the name of a module."""
    try:
        return any(mark in text for mark in "/\\:~") or bool(text and Path(text).exists())
    except (OSError, ValueError):
        return True

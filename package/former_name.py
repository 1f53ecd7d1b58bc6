"""The name that the project had before, in files that were written under it.

Run folders, evaluations, archives, models and exports of that time hold ids such as "turnwise/Household-v0". Their
readers ask `current`, and environments are looked up by `current_name`. What an id draws has kept its random numbers,
whose keys had the name in them (`random_key`). Nothing else knows the name.

Not included: variables, entry-point groups and modules of that name, since nothing was published under it.
"""

import re
from collections.abc import Mapping
from typing import Final, TypeVar, cast

__all__ = ["FORMER", "current", "current_name", "random_key"]

T = TypeVar("T")

FORMER: Final = "turnwise"
"""The name of before."""

_NAME: Final = "turncredit"
# Ids of environments, references "module:attribute" and folders of data, and no other text that has the word in it.
_NAMED: Final = re.compile(rf"{FORMER}(?=/[A-Z]|[\w.]*\.\w+:)")
_VARIABLE: Final = re.compile(rf"(?<=\$){FORMER.upper()}(?=_)|(?<=\$\{{){FORMER.upper()}(?=_)")


def current_name(name: str) -> str:
    """Return an id, a reference or a path with a variable in it as they are called today.

    >>> current_name("turnwise/Household-v0"), current_name("$TURNWISE_DATA/alfworld"), current_name("mine/Safe-v0")
    ('turncredit/Household-v0', '$TURNCREDIT_DATA/alfworld', 'mine/Safe-v0')
    """
    if _NAMED.match(name):
        return _NAME + name.removeprefix(FORMER)
    return _VARIABLE.sub(_NAME.upper(), name, count=1) if name.startswith("$") else name


def current(content: T) -> T:
    """Return what a file holds, with names as they are today in its values and as keys.

    Args:
        content: value of a JSON or TOML file: tables, lists, texts and numbers; it is not changed.

    >>> current({"env": "turnwise/Search-v0", "packages": {"turnwise": "0.1.0"}, "text": "open turnwise/Search"})
    {'env': 'turncredit/Search-v0', 'packages': {'turncredit': '0.1.0'}, 'text': 'open turnwise/Search'}
    """
    return cast(T, _current(content))


def _current(content: object) -> object:
    if isinstance(content, str):
        return current_name(content)
    if isinstance(content, Mapping):
        return {_NAME if key == FORMER else key: _current(value) for key, value in content.items()}
    return [_current(value) for value in content] if isinstance(content, list) else content


def random_key(name: str) -> str:
    """Return a name as the keys of random numbers have it: under another one, an id would be another episode.

    >>> random_key("org.turncredit.mail"), random_key("org.example.water")
    ('org.turnwise.mail', 'org.example.water')
    """
    return name.replace(_NAME, FORMER)

"""The parts of a report with the revision in which each has changed, so that a page can ask for what is new.

A list of groups that grew is sent as a patch: the groups that are new or other than before, and the new strings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Parts = dict[str, Any]
"""What the page reads, as values that JSON has."""
_LISTS = {"strings", "groups"}


@dataclass(slots=True)
class RevisedPart:
    """One part, the revision in which it was whole last, and the patches since."""

    revision: int
    value: Any
    patches: list[tuple[int, Parts]] = field(default_factory=list)

    @property
    def latest(self) -> int:
        """The revision in which it changed last."""
        return self.patches[-1][0] if self.patches else self.revision


class Revisions:
    """Remembers parts by name, and which of them changed in which revision."""

    def __init__(self) -> None:
        self.revision = 0
        self.parts: dict[str, RevisedPart] = {}
        self._cut = 0  # the revision in which a part has last gone

    def store(self, parts: Mapping[str, object]) -> None:
        """Take over the parts as they are now; those that are not among them are gone."""
        gone = self.parts.keys() - parts.keys()
        changed = [name for name, value in parts.items() if name not in self.parts or self.parts[name].value != value]
        if not changed and not gone:
            return
        self.revision += 1
        for name in gone:
            del self.parts[name]
            self._cut = self.revision
        for name in changed:
            self._change(name, parts[name])

    def _change(self, name: str, value: object) -> None:
        part = self.parts.get(name)
        patch = None if part is None else _patch(part.value, value)
        if part is None or patch is None:
            self.parts[name] = RevisedPart(self.revision, value)
        else:
            part.patches.append((self.revision, patch))
            part.value = value

    def since(self, revision: int) -> Parts:
        """Return what changed after a revision: whole parts, and patches of the others; everything if a part has gone.

        Args:
            revision: what the reader has; 0, or a revision that this object never had: nothing.
        """
        start = revision if self._cut <= revision <= self.revision else 0
        whole, patches = Parts(), Parts()
        for name, part in self.parts.items():
            if part.revision > start:
                whole[name] = part.value
            elif part.latest > start:
                patches[name] = [patch for number, patch in part.patches if number > start]
        return {"revision": self.revision, "from": start, "parts": whole, "patches": patches}


def _patch(old: object, new: object) -> Parts | None:
    """Return what changed in the lists of a part; None if it has none, or if they did not only grow or change."""
    if not (isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys() and old.keys() >= _LISTS):
        return None
    strings, groups = len(old["strings"]), old["groups"]
    if new["strings"][:strings] != old["strings"] or len(new["groups"]) < len(groups):
        return None
    changed = {
        str(index): group for index, group in enumerate(new["groups"]) if index >= len(groups) or group != groups[index]
    }
    others = {key: value for key, value in new.items() if key not in _LISTS and value != old[key]}
    return {"strings": new["strings"][strings:], "groups": changed, **others}

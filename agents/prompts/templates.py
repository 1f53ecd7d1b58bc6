"""Prompt templates: the format strings of which prompts are made.

`TEMPLATES` finds a template by name, by entry point (group ``turncredit.templates``), or as "module:attribute".
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

from turncredit.agents.errors import PromptError, look_up
from turncredit.agents.models.trusted_text import PromptText
from turncredit.registry import Registry, suggest

__all__ = ["PLAIN", "REACT", "TEMPLATES", "Template"]


@dataclass(frozen=True, slots=True)
class Template:
    """Format strings of a prompt, in the order opening, (observation, action)..., observation, question.

    ===========  ================================================  ============================
    string       text                                              fields
    ===========  ================================================  ============================
    system       the system message                                none
    opening      the first observation                             start
    saw          a later observation                               observation
    did          an action of an earlier turn (windows only)       action
    gap          a note that turns are left out (windows only)     skipped
    ask          the question at the end                           admissible, turn
    listing      the possible actions; "" leaves them out          actions
    separator    what separates two admissible actions             none
    correction   the reply to an answer without an action          why, expected
    example      a worked turn, shown where an agent has examples  ask
    ===========  ================================================  ============================
    """

    system: str = ""
    opening: str = "{start}"
    saw: str = "\n{observation}"
    did: str = "\n> {action}"
    gap: str = ""
    ask: str = "\n> "
    listing: str = ""
    separator: str = ", "
    correction: str = "Nothing was done: {why}. Expected: {expected}."
    example: str = ""

    def __post_init__(self) -> None:
        """Check every field of every string now instead of in the middle of an episode."""
        for name, allowed in _FIELDS.items():
            _check(name, getattr(self, name), allowed)

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, object]) -> Template:
        """Return a template from a table of strings; ``base`` names the template whose strings are the defaults.

        Raises:
            PromptError: an unknown key, a value that is not a string, or an unknown field in a string.
        """
        values = dict(mapping)
        base = look_up(TEMPLATES, str(values.pop("base", "plain")), PromptError)
        names = [entry.name for entry in fields(cls)]
        for key, value in values.items():
            if key not in names:
                raise PromptError(f"unknown key of a template {key!r}{suggest(key, [*names, 'base'])}")
            if not isinstance(value, str):
                raise PromptError(f"template.{key} must be a string, got {value!r}")
        return cls(**{name: str(values.get(name, getattr(base, name))) for name in names})

    def with_example(self) -> Template:
        """Return the template with its worked turn at the end of the system message."""
        ask = self.ask.format(admissible="", turn=0)
        return replace(self, system=self.system + self.example.format(ask=ask), example="")

    @property
    def lists(self) -> bool:
        """Whether prompts list the admissible actions."""
        return "admissible" in _named(self.ask) and "actions" in _named(self.listing)

    def question(self, admissible: Sequence[str] | None, turn: int, free: Sequence[str] = ()) -> PromptText:
        """Return the end of a prompt: the possible actions, if they are listed, and the request for an action.

        Args:
            admissible: actions that can be listed; None: the environment lists none.
            turn: index of the turn, from 0.
            free: forms of further actions, such as "search[...]", listed after them.
        """
        listing = PromptText("")
        possible = list(dict.fromkeys((*(admissible or ()), *free)))
        if self.listing and (admissible is not None or possible):
            actions = PromptText.listed(possible, self.separator)
            listing = PromptText.filled(self.listing, actions=actions)
        return PromptText.filled(self.ask, admissible=listing, turn=turn)


_FIELDS: dict[str, set[str]] = {
    "opening": {"start"},
    "saw": {"observation"},
    "did": {"action"},
    "gap": {"skipped"},
    "ask": {"admissible", "turn"},
    "listing": {"actions"},
    "correction": {"why", "expected"},
    "example": {"ask"},
}
_NUMBERS = {"skipped", "turn"}


def _check(name: str, text: str, allowed: set[str]) -> None:
    try:
        for field in sorted(_named(text) - allowed):
            raise PromptError(f"template.{name}: unknown field {field!r}{suggest(field, allowed)}")
        text.format(**{field: 0 if field in _NUMBERS else "" for field in allowed})
    except (ValueError, LookupError) as error:  # LookupError: fields inside the format of a field
        raise PromptError(f"template.{name} is not a format string: {error}; write {{{{ for a brace") from error


def _named(text: str) -> set[str]:
    """Return the fields of a format string."""
    return {part[1] for part in string.Formatter().parse(text) if part[1] is not None}


def _adapt(name: str, loaded: object) -> Template:
    loaded = loaded() if callable(loaded) else loaded
    if isinstance(loaded, Mapping):
        return Template.from_mapping(loaded)
    if not isinstance(loaded, Template):
        raise TypeError(f"the template {name!r} must be a Template or a mapping, got {type(loaded).__name__}")
    return loaded


TEMPLATES: Registry[Template] = Registry("template", group="turncredit.templates", adapt=_adapt)

PLAIN = TEMPLATES.register("plain", Template())
"""The environment's text and a prompt sign, for small models trained from scratch."""

REACT = TEMPLATES.register(
    "react",
    Template(
        system="You act in a text environment to reach a goal. You get one observation at a time and answer with one "
        "action at a time.\n\n",
        saw="\n\nObservation: {observation}",
        did="\n\nAction: {action}",
        gap="\n\n({skipped} earlier turns are not shown.)",
        ask="\n\n{admissible}Reason about the next step between <think> and </think>, then give exactly one action "
        "between <action> and </action>.\n",
        listing="Possible actions: {actions}\n",
        example="This is what one turn looks like:\n\nYou are in the hall. You see a desk 1 and a shelf 1.\nYour task "
        "is to: find the lamp.{ask}<think>Lamps stand on desks, so I look there first.</think>"
        "<action>go to desk 1</action>\n\nNow another task begins.\n\n",
    ),
)
"""Reasoning and one tagged action, with the admissible actions listed, for instruction-tuned models."""

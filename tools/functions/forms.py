"""Surface forms of calls by name: `tags`, `hermes` and `openai`. What is written in one is read as the same calls.

Reading never raises and never guesses: a text holds calls, or an explanation of what was wrong. What stands before a
`</think>`, or after a `<think>` that is not closed, is reasoning and holds no calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from turnwise.tools.functions import jsonforms, tagform
from turnwise.tools.functions.calls import Answer, Call, Reading
from turnwise.tools.functions.errors import UnknownForm, near
from turnwise.tools.functions.tool import Tool

__all__ = ["FORMS", "Form", "form"]


@dataclass(frozen=True, slots=True)
class Form:
    """One way to write calls and answers.

    read: (text, tools) -> calls, or why there are none. write: (calls, tools) -> text; raises BadCall. tell: answers ->
    text for the agent. describe: tools -> text for the agent. example: (tool) -> a call with "..." in the places of
    values.
    """

    name: str
    read: Callable[[str, Sequence[Tool]], Reading]
    write: Callable[[Sequence[Call], Sequence[Tool]], str]
    tell: Callable[[Sequence[Answer]], str]
    describe: Callable[[Sequence[Tool]], str]
    example: Callable[[Tool], str]


FORMS: Final[dict[str, Form]] = {
    "tags": Form("tags", tagform.read, tagform.write, tagform.tell, tagform.describe, tagform.example),
    "hermes": Form(
        "hermes",
        jsonforms.read_hermes,
        jsonforms.write_hermes,
        jsonforms.tell_hermes,
        jsonforms.describe_hermes,
        jsonforms.example_hermes,
    ),
    "openai": Form(
        "openai",
        jsonforms.read_openai,
        jsonforms.write_openai,
        jsonforms.tell_openai,
        jsonforms.describe_openai,
        jsonforms.example_openai,
    ),
}


def form(name: str) -> Form:
    """Return a form by name.

    Raises:
        UnknownForm: there is none of that name.
    """
    if name not in FORMS:
        raise UnknownForm(f"no form {name!r} of calls: {near(str(name), FORMS)}")
    return FORMS[name]

"""Messages of a conversation, as all formats have them: who speaks, and the parts of what is said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from turncredit.agents.content import ImagePart
from turncredit.tools.bounded_input import InputError
from turncredit.tools.functions import Call

__all__ = ["ASSISTANT_ROLES", "OTHER_ROLES", "ChatMessage", "Role", "role_of"]

OTHER_ROLES: Final = frozenset(
    ["system", "developer", "user", "human", "tool", "function", "observation", "environment", "ipython"]
)
ASSISTANT_ROLES: Final = frozenset(["assistant", "gpt", "model", "chatgpt", "bot", "function_call"])

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """A message of a conversation.

    Attributes:
        role: who says it.
        content: the text, without reasoning and calls.
        reasoning: reasoning of an answer, if the format has a field for it.
        calls: tool calls of an answer.
        call: id of the call whose result this is.
        imitated: whether an answer is to be imitated.
        images: images that are shown after the text.
    """

    role: Role
    content: str
    reasoning: str = ""
    calls: tuple[Call, ...] = ()
    call: str = ""
    imitated: bool = True
    images: tuple[ImagePart, ...] = ()


def role_of(name: object) -> Role:
    """Return the role that another program calls by this name.

    Raises:
        InputError: an unknown name.
    """
    role = str(name).lower()
    if role in ASSISTANT_ROLES:
        return "assistant"
    if role not in OTHER_ROLES:
        raise InputError(f"unknown role {role!r}; expected one of {', '.join(sorted(OTHER_ROLES | ASSISTANT_ROLES))}")
    if role in ("system", "developer"):
        return "system"
    return "tool" if role in ("tool", "function") else "user"

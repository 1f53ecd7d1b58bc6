"""Episodes as conversations, and back: what the formats of other programs have in common.

An answer of the assistant is a turn. What was said before it, since the last answer, is the turn's observation. Tool
calls and reasoning stand in the text of an answer as Hermes and Qwen write them; a format that has fields for them gets
them apart, if the text can be put together again from the parts.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from turncredit.agents.prompts.parsing import Parsed
from turncredit.agents.trajectory import Trajectory, Turn
from turncredit.tools.bounded_input import InputError
from turncredit.tools.functions import BadCall, Call
from turncredit.tools.functions.json_formats import parse_hermes, write_hermes

__all__ = [
    "ASSISTANT_ROLES",
    "OTHER_ROLES",
    "ChatMessage",
    "Demonstration",
    "answer_of",
    "conversation_trajectory",
    "messages_of",
    "role_of",
    "text_of",
    "with_actions",
]

OTHER_ROLES: Final = frozenset(
    ["system", "developer", "user", "human", "tool", "function", "observation", "environment", "ipython"]
)
ASSISTANT_ROLES: Final = frozenset(["assistant", "gpt", "model", "chatgpt", "bot", "function_call"])
_THINK: Final = ("<think>\n", "\n</think>\n\n")

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class Demonstration:
    """An episode of another program.

    Attributes:
        trajectory: the episode; one of another program has no actions yet.
        mistakes: numbers of the turns that are not imitated.
        left_out: what of the record a trajectory cannot hold, such as "images"; each counts once an episode.
        scored: whether the record says how the episode ended; if not, it counts as won.
        stored: whether it is an episode of this program, with actions, states and rewards as they were.
        iteration: of the run that it was exported from.
    """

    trajectory: Trajectory
    mistakes: frozenset[int] = field(default_factory=frozenset)
    left_out: tuple[str, ...] = ()
    scored: bool = True
    stored: bool = False
    iteration: int = 1


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """A message of a conversation.

    Attributes:
        role: who says it.
        content: the text, without reasoning and calls.
        reasoning: of an answer, if the format has a field for it.
        calls: tool calls of an answer.
        call: id of the call whose result this is.
        imitated: whether an answer is to be imitated.
    """

    role: Role
    content: str
    reasoning: str = ""
    calls: tuple[Call, ...] = ()
    call: str = ""
    imitated: bool = True


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


def text_of(message: ChatMessage) -> str:
    """Return an answer as text: its reasoning, its content and its tool calls.

    Raises:
        BadCall: the arguments of a call are not JSON.
    """
    thought = f"{_THINK[0]}{message.reasoning}{_THINK[1]}" if message.reasoning else ""
    calls = write_hermes(message.calls) if message.calls else ""
    return thought + "\n".join(part for part in (message.content, calls) if part)


def answer_of(text: str, turn: int = 0) -> ChatMessage:
    """Return an answer in parts; whole as its content if the parts would not give the same text again.

    Args:
        text: the answer.
        turn: its number, for the ids of its calls.
    """
    reasoning, content = "", text
    if text.startswith(_THINK[0]) and _THINK[1] in text:
        reasoning, _, content = text.removeprefix(_THINK[0]).partition(_THINK[1])
    calls = parse_hermes(content).calls if "<tool_call>" in content else ()
    prose = content.partition("<tool_call>")[0].removesuffix("\n")
    named = tuple(replace(call, id=f"t{turn % 10_000:04}c{number % 1000:03}") for number, call in enumerate(calls))
    candidates = (ChatMessage("assistant", prose, reasoning, named), ChatMessage("assistant", content, reasoning))
    return next((message for message in candidates if _rebuilds(message, text)), ChatMessage("assistant", text))


def _rebuilds(message: ChatMessage, text: str) -> bool:
    try:
        return text_of(message) == text
    except BadCall:
        return False


def messages_of(trajectory: Trajectory) -> Iterator[ChatMessage]:
    """Yield the messages of an episode; `conversation_trajectory` returns its observations and answers again.

    An empty observation is no message. Every call is followed by its result, as the servers of models want it.
    """
    following = [*trajectory.turns[1:], None][: len(trajectory.turns)]
    asked: tuple[Call, ...] = ()
    results: tuple[str, ...] = ()
    for number, (turn, after) in enumerate(zip(trajectory.turns, following, strict=True)):
        yield from _shown(turn.observation, asked, results)
        answer = answer_of(turn.text, number)
        observation = trajectory.final_observation if after is None else after.observation
        results = () if after is None else after.results
        if "\n".join(results) != observation or len(results) != len(answer.calls):
            results = (observation,)
        if len(results) != len(answer.calls) and answer.calls:  # nobody knows which call gave which part
            answer = replace(answer, content=turn.text, reasoning="", calls=())
        asked = answer.calls
        yield answer
    yield from _shown(trajectory.final_observation, asked, results)


def _shown(observation: str, asked: Sequence[Call], results: Sequence[str]) -> Iterator[ChatMessage]:
    if asked:
        for call, result in zip(asked, results, strict=True):
            yield ChatMessage("tool", result, call=call.id)
    elif observation:
        yield ChatMessage("user", observation)


def conversation_trajectory(
    messages: Iterable[ChatMessage],
    id: str,
    *,
    task: str = "",
    score: float | None = None,
    error: str | None = None,
    empty: bool = False,
) -> Demonstration:
    """Return the episode of a conversation.

    It has no token ids and no actions. The state before a turn is a digest of all that was said until then, so that
    turns are compared only after the same past. The score is the reward of the last turn, and cut to [0, 1].

    Args:
        messages: in their order.
        id: of the trajectory.
        task: id of the task; empty: the id.
        score: of the episode; None: unknown, and counted as 1, since a demonstration is to be imitated, or as
            0 if it failed.
        error: why the episode failed.
        empty: whether it may have no answer.

    Raises:
        InputError: there is no answer, a call has impossible arguments, or the score is not finite.
    """
    turns, mistakes, seen = list[Turn](), list[int](), list[str]()
    past = hashlib.blake2b(digest_size=16)
    for message in messages:
        if message.role != "assistant":
            seen.append(message.content)
            continue
        observation = "\n".join(seen)
        try:
            text = text_of(message)
        except BadCall as problem:
            raise InputError(str(problem)) from problem
        _note(past, observation)
        if not message.imitated:
            mistakes.append(len(turns))
        turns.append(_turn(observation, text, past.hexdigest()))
        _note(past, text)
        seen = []
    if not turns and not empty:
        raise InputError("it has no answer of an assistant")
    final = "\n".join(seen)
    _note(past, final)
    reward = float(error is None) if score is None else score
    if not math.isfinite(reward):
        raise InputError(f"the score must be finite, got {reward}")
    reached = min(1.0, max(0.0, reward))
    turns[-1:] = [replace(last, reward=reward) for last in turns[-1:]]
    trajectory = Trajectory(
        id=id,
        task=task or id,
        task_type=None,
        seed=0,
        turns=tuple(turns),
        stop="terminated" if error is None else "error",
        won=reached >= 1.0 and error is None,
        score=reached,
        final_state=past.hexdigest(),
        final_observation=final,
        error=error,
        seconds=0.0,
    )
    return Demonstration(trajectory, frozenset(mistakes), scored=score is not None)


def _note(past: hashlib.blake2b, text: str) -> None:
    past.update(f"{len(text)}:{text}".encode(errors="surrogatepass"))  # the length keeps "a", "bc" from "ab", "c"


def _turn(observation: str, text: str, state: str) -> Turn:
    return Turn(
        prompt=(),
        response=(),
        logprobs=(),
        version=0,
        observation=observation,
        text=text,
        action=None,
        state=state,
        reward=0.0,
        valid=False,
    )


def with_actions(demonstration: Demonstration, parse: Callable[[str], Parsed]) -> Demonstration:
    """Return a demonstration with the action of each answer that has none yet.

    Args:
        demonstration: of a conversation; one of this program stays as it is.
        parse: returns the action in an answer.
    """
    if demonstration.stored:
        return demonstration
    trajectory = demonstration.trajectory
    actions = [parse(turn.text).action for turn in trajectory.turns]
    turns = [
        replace(turn, action=action, valid=action is not None)
        for turn, action in zip(trajectory.turns, actions, strict=True)
    ]
    return replace(demonstration, trajectory=replace(trajectory, turns=tuple(turns)))

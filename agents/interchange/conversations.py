"""Episodes as conversations, and back: what the formats of other programs have in common.

An answer of the assistant is a turn. What was said before it, since the last answer, is the turn's observation. Tool
calls and reasoning stand in the text of an answer as Hermes and Qwen write them; a format that has fields for them gets
them apart, if the text can be put together again from the parts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, get_args

from turncredit.agents.content import ImagePart
from turncredit.agents.interchange.chat_message import ChatMessage, role_of
from turncredit.agents.interchange.outcomes import StatedOutcome
from turncredit.agents.interchange.tool_results import in_order_of_calls, results_of
from turncredit.agents.prompts.parsing import Parsed
from turncredit.agents.trajectory import Trajectory, Turn
from turncredit.tools.bounded_input import InputError
from turncredit.tools.functions import BadCall, Call
from turncredit.tools.functions.json_formats import parse_hermes, write_hermes

__all__ = [
    "ANSWERS",
    "IMITATED",
    "Answers",
    "ChatMessage",
    "Demonstration",
    "answer_of",
    "conversation_trajectory",
    "messages_of",
    "role_of",
    "text_of",
    "with_actions",
]

Answers = Literal["parts", "api", "text"]
"""How an answer is written: in parts, with the arguments of its calls as objects, as chat templates want them; so with
the arguments as JSON in strings, as the OpenAI API wants them; or as the text that was sampled."""
ANSWERS: Final[tuple[Answers, ...]] = get_args(Answers)

IMITATED: Final = "imitated"
"""Column of the turns of other programs: 1, or 0 for an answer that is not to be imitated."""

_THINK: Final = ("<think>\n", "\n</think>\n\n")


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


def messages_of(trajectory: Trajectory, answers: Answers = "parts") -> Iterator[ChatMessage]:
    """Yield the messages of an episode; `conversation_trajectory` returns its observations and answers again.

    An empty observation without images is no message. Every call is followed by its result, as the servers of models
    want it. A result of a call that stands in the text of an answer has no id; for "api", it is a message of the user.

    Args:
        trajectory: the episode.
        answers: how its answers are written.
    """
    calls: tuple[Call, ...] = ()
    results: tuple[str, ...] = ()
    for number, turn in enumerate(trajectory.turns):
        yield from _shown(turn.observation, calls, results, turn.images)
        answer = replace(answer_of(turn.text, number), imitated=turn.extras.get(IMITATED) != 0)
        last = number + 1 == len(trajectory.turns)
        after = None if last else trajectory.turns[number + 1]
        observation = trajectory.final_observation if after is None else after.observation
        results = () if after is None else after.results
        if "\n".join(results) != observation:
            results = ()
        if len(answer.calls) == 1 and len(results) != 1:
            results = (observation,)
        if answers == "text" or (len(answer.calls) != len(results) and answer.calls):
            # as one text; of two calls and one result, nobody knows which call gave which part
            answer = replace(answer, content=turn.text, reasoning="", calls=())
            results = results if answers == "text" and after is not None and after.results else ()
        elif not answer.calls and answers == "api":
            results = ()
        calls = answer.calls
        yield answer
    yield from _shown(trajectory.final_observation, calls, results, ())


def _shown(
    observation: str, calls: Sequence[Call], results: Sequence[str], images: tuple[ImagePart, ...]
) -> Iterator[ChatMessage]:
    """Yield the messages of an observation: results of calls, each for its own, or what the user sees."""
    if calls or results:
        ids = [call.id for call in calls] or [""] * len(results)
        messages = [ChatMessage("tool", result, call=id) for id, result in zip(ids, results, strict=True)]
    else:
        messages = [ChatMessage("user", observation)] if observation or images else []
    messages[-1:] = [replace(message, images=images) for message in messages[-1:]]
    yield from messages


def conversation_trajectory(
    messages: Iterable[ChatMessage],
    id: str,
    *,
    task: str = "",
    task_type: str | None = None,
    score: float | StatedOutcome | None = None,
    error: str | None = None,
    empty: bool = False,
) -> Demonstration:
    """Return the episode of a conversation.

    It has no token ids and no actions. The state before a turn is a digest of all that was said until then, so that
    turns are compared only after the same past. A score is the reward of the last turn, and cut to [0, 1].

    Args:
        messages: messages in their order; results of calls may stand in another order than the calls.
        id: of the trajectory.
        task: id of the task; empty: the id.
        task_type: kind of the task.
        score: score of the episode, or what is known of its end; None: unknown, counted as 1, since a demonstration
            is to be imitated, or as 0 if it failed.
        error: why the episode failed.
        empty: whether it may have no answer.

    Raises:
        InputError: there is no answer, a call has impossible arguments, a result answers no call, or the score is not
            finite.
    """
    turns, mistakes, replies = list[Turn](), list[int](), list[ChatMessage]()
    calls: tuple[Call, ...] = ()
    past = hashlib.blake2b(digest_size=16)
    for message in messages:
        if message.role != "assistant":
            replies.append(message)
            continue
        replies = in_order_of_calls(calls, replies, len(turns))
        observation = "\n".join(entry.content for entry in replies)
        _note(past, observation)
        if not message.imitated:
            mistakes.append(len(turns))
        text = _text(message)
        turns.append(_turn(observation, text, past.hexdigest(), results_of(calls, replies)))
        _note(past, text)
        calls, replies = message.calls, []
    if not turns and not empty:
        raise InputError("it has no answer of an assistant")
    final = "\n".join(entry.content for entry in in_order_of_calls(calls, replies, len(turns)))
    _note(past, final)
    outcome = score if isinstance(score, StatedOutcome) else StatedOutcome(score=score)
    failed = error is not None
    reached = outcome.reached(failed=failed)
    trajectory = Trajectory(
        id=id,
        task=task or id,
        task_type=task_type,
        seed=0,
        turns=outcome.rewarded(turns, failed=failed),
        stop="error" if failed else "terminated",
        won=not failed and (reached >= 1.0 if outcome.won is None else outcome.won),
        score=reached,
        final_state=past.hexdigest(),
        final_observation=final,
        error=error,
        seconds=0.0,
    )
    return Demonstration(trajectory, frozenset(mistakes), scored=outcome.stated)


def _text(message: ChatMessage) -> str:
    try:
        return text_of(message)
    except BadCall as problem:
        raise InputError(str(problem)) from problem


def _note(past: hashlib.blake2b, text: str) -> None:
    past.update(f"{len(text)}:{text}".encode(errors="surrogatepass"))  # the length keeps "a", "bc" from "ab", "c"


def _turn(observation: str, text: str, state: str, results: tuple[str, ...]) -> Turn:
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
        results=results,
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

"""The memory of one episode, and its next prompt as chat messages and as token ids."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from turncredit.agents.content import ImagePart
from turncredit.agents.errors import PromptError
from turncredit.agents.json_types import JsonObject
from turncredit.agents.models.tokenization import AnswerEnd, Tokenizer, codec_of
from turncredit.agents.models.trusted_text import PromptText
from turncredit.agents.prompts.prompt import Exchange, View
from turncredit.agents.vision.image_reader import reader_of

if TYPE_CHECKING:
    from turncredit.agents.agent import Agent
    from turncredit.agents.trajectory import Turn

__all__ = ["Dialogue", "Message", "Prompt"]

STOP_TOKENS = 16
"""Tokens at the end of an answer in which a stop string is looked for."""

Message = dict[str, Any]
"""A chat message: ``role`` ("system", "user" or "assistant") and ``content``, a string. The content of a message with
images is a list of parts, ``{"type": "text", "text": str}`` and ``{"type": "image", "image": uint8 [H, W, 3]}``."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One conversation in two forms."""

    ids: tuple[int, ...]
    """Token ids [L]; empty without a tokenizer."""
    messages: tuple[Message, ...]
    whole: bool = True
    """Whether `ids` are complete; of a text that is far too long they are a beginning that exceeds the context."""
    past: tuple[Exchange, ...] = ()
    """The turns whose answers are among the messages; empty with a tokenizer."""
    shown: tuple[ImagePart, ...] = ()
    """All images in it, in order."""


@dataclass(frozen=True, slots=True)
class _Said:
    """A turn of a conversation: the user's message with its images, and the answer."""

    text: PromptText
    results: tuple[str, ...]
    images: tuple[ImagePart, ...]
    answer: str
    response: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _History:
    """The earlier turns as the next prompt begins with them: messages, ids, images, and how many were left out."""

    messages: tuple[Message, ...] = ()
    ids: tuple[int, ...] = ()
    shown: tuple[ImagePart, ...] = ()
    dropped: int = 0


class Dialogue:
    """The turns of one episode so far; builds the next prompt.

    What was sampled is never tokenized again: a prompt that extends the conversation consists of the ids of the
    previous prompt, the ids of its response, and the ids of the new text. Where the agent keeps the newest images only,
    the prompt that leaves out another one is built again from the messages and the ids of the responses.

    >>> from turncredit.agents.agent import Agent
    >>> dialogue = Dialogue(Agent())
    >>> view = dialogue.view("You see a door.")
    >>> dialogue.prompt(view).messages
    ({'role': 'user', 'content': 'You see a door.\\n>'},)
    >>> dialogue.add(view, "open door", "open door")
    ()
    >>> [message["role"] for message in dialogue.prompt(dialogue.view("It is open.")).messages]
    ['user', 'assistant', 'user']
    """

    def __init__(self, agent: Agent, tokenizer: Tokenizer | None = None, context: int | None = None) -> None:
        """Start an empty dialogue.

        Args:
            agent: its prompt builder writes the messages.
            tokenizer: tokenizer of the model; None leaves the token ids empty.
            context: maximum number of tokens that can be used; of far longer prompts, only a part is
                encoded. None: no limit.
        """
        self.agent = agent
        self.memory: list[Exchange] = []
        self._codec = None if tokenizer is None else codec_of(tokenizer)
        self._reader = reader_of(tokenizer)
        self._context = context
        system = agent.prompt.template.system.strip()
        self._begin = _History(({"role": "system", "content": system},) if system else ())
        self._history = self._begin
        self._said: list[_Said] = []
        self._current: tuple[View, PromptText, Prompt] | None = None

    def copy(self) -> Dialogue:
        """Return a dialogue with the same turns, which goes on independently."""
        other = copy.copy(self)
        other.memory, other._said = list(self.memory), list(self._said)
        return other

    @property
    def end(self) -> AnswerEnd | None:
        """What the chat template writes at the end of an answer; None without one, or without a tokenizer."""
        chat = self.agent.chat_template
        return None if chat is None or self._codec is None else chat.end

    def view(
        self,
        observation: str,
        admissible: Sequence[str] | None = None,
        *,
        free: tuple[str, ...] = (),
        valid: bool | None = None,
        images: tuple[ImagePart, ...] = (),
        tools: tuple[JsonObject, ...] = (),
        results: tuple[str, ...] = (),
    ) -> View:
        """Return the view of the next turn, whose start and number follow from the turns so far."""
        start = self.memory[0].observation if self.memory else observation
        listed = None if admissible is None else tuple(admissible)
        return View(start, observation, listed, len(self.memory), free, valid, images, tools, results)

    def view_of(self, turn: Turn) -> View:
        """Return the view of a turn that was recorded."""
        return self.view(turn.observation, turn.admissible, free=turn.free, images=turn.images, results=turn.results)

    def prompt(self, view: View) -> Prompt:
        """Return the prompt of the turn with this view.

        Raises:
            PromptError: the model of the tokenizer cannot read its images.
        """
        text = self.agent.prompt.message(self.memory, view)
        history = self._history = self._without_old_images(len(view.images))
        user: Message = {"role": "user", "content": _content(text.text.strip(), view.images)}
        past = tuple(self.memory) if self._codec is None and self.agent.prompt.appends else ()
        ids, whole = self._encode(text, view.results, view.images, history)
        prompt = Prompt(ids, (*history.messages, user), whole, past, history.shown + view.images)
        self._current = (view, text, prompt)
        return prompt

    def add(
        self,
        view: View,
        text: str,
        action: str | None,
        response: tuple[int, ...] | None = None,
        message: JsonObject | None = None,
    ) -> tuple[int, ...]:
        """Add a turn to the memory, and return the ids of its response.

        Args:
            view: what the agent saw at this turn.
            text: the answer.
            action: the action in the answer, None if there was none.
            response: ids of the answer as sampled; None: those of `demonstrated`, or of the text as it stands where the
                chat template writes no such answer, since nobody imitates what is only played.
            message: the answer as a server's message.
        """
        if response is None:
            response = self._played(text)
        if self.agent.prompt.appends:
            if self._current is None or self._current[0] is not view:
                self.prompt(view)
            assert self._current is not None
            _, written, prompt = self._current
            images = tuple(image.compressed() for image in view.images)
            self._said.append(_Said(written, view.results, images, text, response))
            messages = (*prompt.messages, {"role": "assistant", "content": text})
            shown = tuple(image.compressed() for image in prompt.shown)
            self._history = _History(messages, prompt.ids + response, shown, self._history.dropped)
        self.memory.append(Exchange(view.observation, text, action, message, view.results))
        return response

    def _without_old_images(self, new: int) -> _History:
        """Return the history for a prompt with some new images, without the oldest images if there are too many."""
        keep, history = self.agent.keep_images, self._history
        total = sum(len(turn.images) for turn in self._said) + new
        dropped = max(0, total - max(keep, new)) if keep else 0
        if dropped == history.dropped:
            return history
        history, left = self._begin, dropped
        for turn in self._said:
            gone, images = turn.images[:left], turn.images[left:]
            left -= len(gone)
            text = turn.text if not gone or not self.agent.image_note else self._noted(turn.text, len(gone))
            ids, _ = self._encode(text, turn.results, images, history)
            user = {"role": "user", "content": _content(text.text.strip(), images)}
            messages = (*history.messages, user, {"role": "assistant", "content": turn.answer})
            history = _History(messages, ids + turn.response, history.shown + images, dropped)
        return history

    def _noted(self, text: PromptText, count: int) -> PromptText:
        """Return a message with the note that stands for images which were left out."""
        return text + PromptText("".join(f"\n{self.agent.image_note}" for _ in range(count)))

    def demonstrated(self, text: str) -> tuple[str, tuple[int, ...]]:
        """Return an answer that was not sampled as the model would have written it, and its ids with what ends it.

        Under a chat template that is what the template renders of the conversation with this answer, without the
        prompt. What ends it without one is the stop string, where there is one, or else the end token.

        Args:
            text: the answer, with its thought, if any, in ``<think>`` and ``</think>``.

        Raises:
            PromptError: the chat template writes no such answer after its prompt.
        """
        codec, chat, stop = self._codec, self.agent.chat_template, self.agent.stop
        if codec is None:
            return text, ()
        written, end = PromptText.of(text), None
        if chat is not None:
            answer = chat.written(text)
            written, end = answer.text, answer.end
        if end is None and stop:
            whole = written if written.text.endswith(stop) else written + PromptText(stop[0])
            return text, codec.encode_answer(whole.text, ((0, len(whole.text)),) if chat is None else whole.untrusted)
        gap = "" if end is None or end.token is None else end.gap
        return written.text + gap, codec.response(written, end)

    def _played(self, text: str) -> tuple[int, ...]:
        """Return the ids of an answer that was not sampled."""
        try:
            return self.demonstrated(text)[1]
        except PromptError:
            chat = self.agent.chat_template
            return () if self._codec is None else self._codec.response(text, None if chat is None else chat.end)

    def _after_stop(self, text: PromptText, before: tuple[int, ...]) -> PromptText:
        """Return the text without the stop string, or template's end, at its start if the last answer ended with it."""
        assert self._codec is not None
        stops = [stop for stop in (*(self.end.stop if self.end else ()), *self.agent.stop) if stop]
        if not stops or not before:
            return text
        tail = self._codec.decode(before[-max(STOP_TOKENS, *(4 * len(stop) for stop in stops)) :])
        last = self._codec.decode(before[-1:])
        for stop in stops:
            _, ended, more = tail.rpartition(stop)  # the last token may hold more than the end of the stop string
            if ended and len(more) < max(1, len(last)) and text.text.startswith(stop + more):
                return text.removeprefix(stop + more)
        return text

    def _encode(
        self, text: PromptText, results: Sequence[str], images: Sequence[ImagePart], history: _History
    ) -> tuple[tuple[int, ...], bool]:
        """Return the ids of the prompt that ends with this message or these results, and whether they are complete."""
        codec, chat = self._codec, self.agent.chat_template
        if codec is None:
            return (), True
        before, first = history.ids, len(history.messages) == len(self._begin.messages)
        around = self._image_texts(images)
        extends = not first and self.agent.prompt.appends
        if chat is not None:
            system = self.agent.prompt.template.system
            answer = str(history.messages[-1]["content"]) if extends else ""
            text = chat.between(text, results, around, answer) if extends else chat.first(system, text, around)
        else:
            text = around[0] + text + around[1]
            if not extends:
                text = PromptText(self.agent.prompt.template.system) + text
        if extends:
            text = self._after_stop(text, before)
        if self._context is None:
            ids, whole = codec.encode(text.text, text.untrusted), True
        else:
            ids, whole = codec.encode_beginning(text.text, text.untrusted, self._context - len(before))
        if not extends:
            return (ids if chat is not None else codec.start + ids), whole  # a chat template writes its own beginning
        if before and ids and self._ended_already(before[-1], ids[0]):
            ids = ids[1:]  # the end token that was sampled, which chat templates write as well
        return (*before, *ids), whole

    def _ended_already(self, last: int, first: int) -> bool:
        """Return whether the last token of an answer ends it, so that the end that begins the next text is left out."""
        assert self._codec is not None
        chat = self.agent.chat_template
        if chat is not None and chat.end is not None and first == chat.history_end and last == chat.end.token:
            return True
        return last == first and self._codec.is_special(first)

    def _image_texts(self, images: Sequence[ImagePart]) -> tuple[PromptText, PromptText]:
        """Return what stands before and after a message with these images."""
        if not images:
            return PromptText(""), PromptText("")
        if self._reader is None:
            raise PromptError("the environment returns images, and the model of this tokenizer reads text only")
        chat = self.agent.chat_template
        around = (self._reader.marker, "") if chat is None else chat.image
        before, after = (
            "".join(form.replace(self._reader.marker, self._reader.text(image)) for image in images) for form in around
        )
        return PromptText(before), PromptText(after)


def _content(text: str, images: Sequence[ImagePart]) -> str | list[Message]:
    if not images:
        return text
    return [{"type": "text", "text": text}, *({"type": "image", "image": part.image} for part in images)]

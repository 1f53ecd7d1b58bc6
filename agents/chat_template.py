"""A tokenizer's chat template, cut into pieces that can be appended to what was sampled.

A chat template renders a whole conversation at once. Rendering it again at every turn and tokenizing the result would
change the ids that the model sampled, because the same text has many tokenizations; log-probabilities and gradients
would then belong to a sequence that nobody sampled. `ChatTemplate` renders the template once with placeholders, and
keeps the text before, between and after the messages. Only that text is tokenized.

Not included: tools, images, and conversations with several system messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from turnwise.agents.errors import PromptError
from turnwise.agents.spans import PromptText
from turnwise.agents.tokenization import Tokenizer

_USERS = ("user-alpha", "user-beta", "user-gamma")
_ANSWERS = ("answer-alpha", "answer-beta")
_REWRITES = (
    "the chat template of this tokenizer rewrites earlier turns, so a later prompt does not extend what was sampled; "
    "set agent.prompt to 'window', or use a tokenizer without this chat template"
)


class ChatTemplate:
    """Text of a chat template: `first` starts a conversation, `between` leads from one answer to the next."""

    def __init__(self, tokenizer: Tokenizer, *, system: bool, appends: bool = True) -> None:
        """Render the template with placeholders.

        Args:
            tokenizer: has a chat template.
            system: whether conversations have a system message.
            appends: whether later prompts extend earlier ones; if so, the template must only ever append.

        Raises:
            PromptError: the template cannot be rendered, or it rewrites earlier turns although `appends` is set.
        """
        self._tokenizer = cast(Any, tokenizer)
        self._fold = system and not self._accepts_system()
        self._before = self._after = ""
        if appends:
            self._read(system)

    def first(self, system: str, user: PromptText) -> PromptText:
        """Return the text from the start of the conversation to the first answer.

        Raises:
            PromptError: the template does not contain the user's message as given.
        """
        said = _USERS[0]
        if self._fold:
            rendered = self._render(_message("user", f"{system.strip()}\n\n{said}"))
        else:
            head = _message("system", system.strip()) if system else []
            rendered = self._render(head + _message("user", said))
        parts = [PromptText(part) for part in rendered.split(said)]
        if len(parts) == 1:
            raise PromptError("the chat template of this tokenizer does not contain the user's message as given")
        user = user.strip()
        return PromptText.joined([parts[0], *(one for part in parts[1:] for one in (user, part))])

    def between(self, user: PromptText) -> PromptText:
        """Return the text from the end of one answer to the start of the next."""
        return PromptText.joined((PromptText(self._before), user.strip(), PromptText(self._after)))

    def _read(self, system: bool) -> None:
        head = _message("system", "system-alpha") if system and not self._fold else []
        base = head + _message("user", _USERS[0])
        opening = self._render(base)
        once = self._render([*base, *_reply(0)])
        parts = once.partition(_ANSWERS[0])
        self._before, found, self._after = parts[2].partition(_USERS[1])
        # The model samples the white space between the generation prompt and its answer, so it may differ.
        if not found or parts[0].rstrip() != opening.rstrip():
            raise PromptError(_REWRITES)
        eos = getattr(self._tokenizer, "eos_token", None)
        if eos and self._before.lstrip().startswith(eos):
            self._before = self._before.lstrip()
        twice = self._render([*base, *_reply(0), *_reply(1)])
        parts = twice.partition(_ANSWERS[1])
        if parts[0].rstrip() != once.rstrip() or parts[2].strip() != self.between(PromptText(_USERS[2])).text.strip():
            raise PromptError(_REWRITES)

    def _accepts_system(self) -> bool:
        # Some templates raise on a system message, and some drop it silently.
        try:
            return "system-alpha" in self._render(_message("system", "system-alpha") + _message("user", "u"))
        except PromptError:
            return False

    def _render(self, messages: Sequence[dict[str, str]]) -> str:
        try:
            return str(self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
        except Exception as error:  # jinja's errors, and those that a template raises itself
            raise PromptError(f"the chat template of the tokenizer cannot be rendered: {error}") from error


def _message(role: str, content: str) -> list[dict[str, str]]:
    return [{"role": role, "content": content}]


def _reply(number: int) -> list[dict[str, str]]:
    return _message("assistant", _ANSWERS[number]) + _message("user", _USERS[number + 1])

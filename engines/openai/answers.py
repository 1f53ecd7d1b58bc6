"""What an answer of /chat/completions says: content, reasoning, tool calls, and how it ended.

Servers differ. The content is a string or a list of parts. The reasoning stands in the content, in a field of its own
(`reasoning_content`, `reasoning`, `reasoning_details`, `thinking_blocks`), or in parts. Calls are `tool_calls`, or the
older `function_call`. The words for the end of an answer are those of the server behind a gateway; a word for a
generation that failed makes the answer a failed request, whatever it contains.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from turncredit.agents.json_types import JsonObject
from turncredit.agents.trajectory import Finish
from turncredit.engines.openai.failures import Failure, error_in

__all__ = ["REASONING_FIELDS", "ChatAnswer", "chat_failure_in", "failure_in", "read_answer", "stop_string"]

REASONING_FIELDS: Final = ("reasoning_content", "reasoning", "reasoning_details", "thinking", "thinking_blocks")
"""Fields of a message that hold reasoning, in the order in which they are read."""

_FINISHES: Final[dict[str, Finish]] = {
    **dict.fromkeys(("stop", "eos", "eos_token", "end", "end_turn", "stop_sequence", "stop_token"), "stop"),
    **dict.fromkeys(("complete", "completed", "done", "finished", "pause_turn", "null", "none"), "stop"),
    **dict.fromkeys(("malformed_function_call", "function_call_filter", "unexpected_tool_call"), "stop"),
    **dict.fromkeys(("tool_calls", "tool_call", "tool_use", "function_call", "function_calls"), "stop"),
    **dict.fromkeys(("length", "max_length", "max_tokens", "max_output_tokens", "max_new_tokens"), "length"),
    **dict.fromkeys(("model_length", "model_context_window_exceeded", "token_limit", "error_limit"), "length"),
    **dict.fromkeys(("content_filter", "content_filtered", "refusal", "safety", "sensitive", "blocked"), "refusal"),
    **dict.fromkeys(("blocklist", "prohibited_content", "recitation", "spii", "image_safety", "language"), "refusal"),
    **dict.fromkeys(("moderation", "guardrail_intervened", "guardrails", "error_toxic"), "refusal"),
}
_FAILED = frozenset(
    ("error", "network_error", "server_error", "internal_error", "engine_error", "insufficient_system_resource")
) | frozenset(("failed", "failure", "abort", "aborted", "cancelled", "canceled", "interrupted", "timeout"))
_FAILED |= frozenset(("load", "unload", "other", "user_cancel", "malformed_response"))
"""Words of a generation that failed: what it contains is no answer of the model. Ollama answers with `load` where it
has only loaded the model, Vertex with `other` for reasons that it does not name."""
_ANSWERS_NOTHING: Final = frozenset(word for word, finish in _FINISHES.items() if finish == "refusal") | frozenset(
    ("malformed_function_call", "function_call_filter")
)
"""Words of answers that need no message, since there is nothing that the server would say."""


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """An answer, whatever its form on the wire."""

    content: str
    reasoning: str
    calls: tuple[object, ...]
    """Entries of `tool_calls`; an older `function_call` as one entry."""
    refusal: str
    finish: Finish
    message: JsonObject
    """The message as it came; empty if there is none."""


def failure_in(answer: JsonObject) -> Failure | None:
    """Return why an answer of /completions with status 200 is none: it has no choice, or its generation failed."""
    choices = answer.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, Mapping):
        return Failure("retry", f"the answer has no choices: {str(dict(answer))[:200]}")
    word = _word(choice)
    if word in _FAILED:
        failure = error_in({"error": choice.get("error") or answer.get("error")}, {})
        why = f" ({failure.reason})" if failure else ""
        return Failure("retry", f"the generation failed: it ended with finish_reason {word!r}{why}")
    return None


def chat_failure_in(answer: JsonObject) -> Failure | None:
    """Return why an answer of /chat/completions with status 200 is none: as above, or it has no message."""
    failure = failure_in(answer)
    if failure is not None:
        return failure
    choice = answer["choices"][0]
    if not isinstance(choice.get("message"), Mapping) and _word(choice) not in _ANSWERS_NOTHING:
        failure = Failure("retry", f"the answer has no message: {str(dict(answer['choices'][0]))[:200]}")
    return failure


def read_answer(choice: JsonObject, url: str) -> ChatAnswer:
    """Return what a choice says.

    Args:
        choice: one without a failure (see `failure_in`).
        url: address of the server, for the warning.

    Warns:
        RuntimeWarning: the word for the end of the answer is unknown; the answer counts as complete.
    """
    message: JsonObject = choice.get("message") or {}
    content, thoughts, refusals = _parts(message.get("content"))
    fields = (_text_of(message.get(name)) for name in REASONING_FIELDS)
    reasoning = next((text for text in fields if text.strip()), thoughts)
    entries = message.get("tool_calls")
    calls = tuple(entries) if isinstance(entries, list) else ()
    function = message.get("function_call")
    if not calls and isinstance(function, Mapping):
        calls = ({"type": "function", "function": function},)
    refusal = message.get("refusal")
    refusal = refusal if isinstance(refusal, str) else refusals
    finish = _finish(choice, url)
    if refusal:
        finish = "refusal"
    elif finish == "stop" and not content.strip() and not calls:
        finish = "empty"
    return ChatAnswer(content, reasoning, calls, refusal, finish, message)


def stop_string(choice: JsonObject) -> str:
    """Return the stop string that ended an answer, which servers leave out of the text; "" if it is not told.

    vLLM names it in `stop_reason`, SGLang in `matched_stop`; both hold a number after an end token.
    """
    if _word(choice) != "stop":
        return ""
    return next((text for name in ("stop_reason", "matched_stop") if isinstance(text := choice.get(name), str)), "")


def _word(choice: JsonObject) -> str:
    """Return the word for the end of an answer; Gemini writes more after a colon: "content_filter: SAFETY"."""
    return str(choice.get("finish_reason") or "").partition(":")[0].strip().lower()


def _finish(choice: JsonObject, url: str) -> Finish:
    word = _word(choice)
    if word and word not in _FINISHES:
        warnings.warn(
            f"{url} ended an answer with the unknown finish_reason {word[:80]!r}; it counts as complete",
            RuntimeWarning,
            stacklevel=2,
        )
    return _FINISHES.get(word, "stop")


def _parts(content: object) -> tuple[str, str, str]:
    """Return text, reasoning and refusal of a content, which is a string, a part, or a list of these."""
    parts = content if isinstance(content, list) else [content]
    texts: dict[str, list[str]] = {"text": [], "reasoning": [], "refusal": []}
    for part in parts:
        kind = str(part.get("type", "text")) if isinstance(part, Mapping) else "text"
        thought = "think" in kind or "reason" in kind
        texts["reasoning" if thought else "refusal" if kind == "refusal" else "text"].append(_text_of(part))
    return "".join(texts["text"]), "".join(texts["reasoning"]), "".join(texts["refusal"])


def _text_of(value: object) -> str:
    """Return the text in a value: a string, an object with a text under one of the usual names, or a list of these."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        names = ("text", "thinking", "reasoning", "reasoning_content", "content", "summary", "refusal")
        return next((text for name in names if (text := _text_of(value.get(name)))), "")
    return "".join(map(_text_of, value)) if isinstance(value, Iterable) else ""

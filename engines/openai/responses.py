"""The Responses API (Open Responses), as a translation of /chat/completions: requests on their way out, answers back.

    messages       input items: messages, function_call, function_call_output
    tools          the same schemas, flat and not strict
    max_tokens     max_output_tokens
    choice         status and output items: message, reasoning, function_call

Nothing is stored on the server: every request holds the whole conversation. Reasoning goes back only where the server
gave it in encrypted form (`body = { include = ["reasoning.encrypted_content"] }`), since without it no server knows it.

Not included: tools that the server runs by itself, and answers token by token.

Source: OpenAI, "Responses API reference"; Open Responses, the specification of other servers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from turncredit.agents.json_types import JsonObject
from turncredit.engines.openai.failures import Failure, error_in

__all__ = ["chat_answer", "cut_at_stop", "response_failure_in", "responses_request"]

_LIMITS: Final = ("max_tokens", "max_completion_tokens")
_UNKNOWN: Final = ("seed", "stop")
"""Fields that OpenAI's own server refuses."""
_FINISHES: Final = {"max_output_tokens": "length", "content_filter": "content_filter"}
_ITEMS: Final = "output_items"
"""Field of a message with the items of the answer that go back as they came."""


def responses_request(body: JsonObject, *, official: bool) -> dict[str, object]:
    """Return a request of /chat/completions as one of /responses.

    Args:
        body: with messages.
        official: whether the server is OpenAI's, which refuses what is not in its API.
    """
    request: dict[str, object] = {
        name: value for name, value in body.items() if name not in ("messages", "tools", *_LIMITS)
    }
    for name in _UNKNOWN if official else ():
        request.pop(name, None)
    limits = [body[name] for name in _LIMITS if name in body]
    request |= {"max_output_tokens": limits[0]} if limits else {}
    request["input"] = [item for message in body["messages"] for item in _items(message)]
    if "tools" in body:
        request["tools"] = list(map(_flat, body["tools"]))
    return {**request, "store": False}


def _items(message: JsonObject) -> Iterator[JsonObject]:
    """Yield the items of a message."""
    role, content = message["role"], message.get("content")
    if role == "tool":
        yield {"type": "function_call_output", "call_id": message["tool_call_id"], "output": content}
        return
    if role == "assistant":
        yield from message.get(_ITEMS, ())
    if content:
        yield {"type": "message", "role": role, "content": _parts(content)}
    for call in message.get("tool_calls") or ():
        function = call["function"]
        names = {"name": function["name"], "arguments": function["arguments"]}
        yield {"type": "function_call", "call_id": call["id"], **names}


def _parts(content: object) -> object:
    """Return the content of a message; its images have another form than in /chat/completions."""
    if not isinstance(content, list):
        return content
    parts = []
    for part in content:
        if isinstance(part, Mapping) and part.get("type") == "image_url":
            parts.append({"type": "input_image", "image_url": part["image_url"]["url"], "detail": "auto"})
        else:
            parts.append({"type": "input_text", "text": part["text"] if isinstance(part, Mapping) else str(part)})
    return parts


def _flat(tool: JsonObject) -> JsonObject:
    """Return a tool with the fields of its function at its top; it is strict only where it says so."""
    function = tool.get("function")
    return {"type": "function", "strict": False, **function} if isinstance(function, Mapping) else tool


def response_failure_in(answer: JsonObject) -> Failure | None:
    """Return why an answer with status 200 is none: it has no output, or its generation failed."""
    status = answer.get("status")
    if status in ("failed", "cancelled"):
        failure = error_in({"error": answer.get("error")}, {})
        return failure or Failure("retry", f"the generation ended as {status!r}")
    if not isinstance(answer.get("output"), list):
        return Failure("retry", f"the answer has no output: {str(dict(answer))[:200]}")
    return None


def chat_answer(answer: JsonObject) -> JsonObject:
    """Return an answer of /responses as one of /chat/completions, with one choice.

    Args:
        answer: one without a failure (see `response_failure_in`).
    """
    items = [item for item in answer["output"] if isinstance(item, Mapping)]
    parts = [part for item in items if item.get("type") == "message" for part in _listed(item.get("content"))]
    calls = [item for item in items if item.get("type") == "function_call"]
    message: dict[str, object] = {
        "role": "assistant",
        "content": "".join(str(part.get("text", "")) for part in parts if part.get("type") == "output_text"),
    }
    if refusal := "".join(str(part.get("refusal", "")) for part in parts if part.get("type") == "refusal"):
        message["refusal"] = refusal
    if reasoning := "\n\n".join(text for item in items if item.get("type") == "reasoning" if (text := _thought(item))):
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = list(map(_chat_call, calls))
    if back := [item for item in items if item.get("type") == "reasoning" and item.get("encrypted_content")]:
        message[_ITEMS] = back
    return {"choices": [{"message": message, "finish_reason": _finish(answer)}], "usage": _usage(answer)}


def _listed(content: object) -> Sequence[JsonObject]:
    return [part for part in content if isinstance(part, Mapping)] if isinstance(content, list) else []


def _thought(item: JsonObject) -> str:
    """Return the text of a reasoning item: what was thought if the server shows it, else its summary."""
    for name in ("content", "summary"):
        if text := "\n\n".join(str(part.get("text", "")) for part in _listed(item.get(name))):
            return text
    return ""


def _chat_call(item: JsonObject) -> JsonObject:
    function = {"name": item.get("name", ""), "arguments": item.get("arguments", "")}
    return {"id": item.get("call_id", ""), "type": "function", "function": function}


def _finish(answer: JsonObject) -> str:
    details = answer.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, Mapping) else None
    if answer.get("status") != "incomplete":
        return "stop"
    return _FINISHES.get(str(reason), "length")


def _usage(answer: JsonObject) -> JsonObject:
    usage = answer.get("usage")
    counts = usage if isinstance(usage, Mapping) else {}
    return {"prompt_tokens": counts.get("input_tokens"), "completion_tokens": counts.get("output_tokens")}


def cut_at_stop(text: str, stops: Sequence[str]) -> str:
    """Return a text up to the end of the first stop string in it: servers of this API need not have any.

    >>> cut_at_stop("<go>east</go> and then", ["</go>"])
    '<go>east</go>'
    """
    ends = [at + len(stop) for stop in stops if stop and (at := text.find(stop)) >= 0]
    return text[: min(ends)] if ends else text

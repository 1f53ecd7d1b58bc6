"""Chat templates as trainers render them, of three kinds, and what their models write: calls, thoughts, results.

The templates are written anew from the structure of those of Qwen2.5, Llama 3.1 and Qwen3.5. `transcript` writes the
same conversation without a template, as it is sampled turn by turn.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

QWEN25 = """
{%- if messages[0].role == 'system' %}{% set system = messages[0].content %}{% set rest = messages[1:] %}
{%- else %}{% set system = 'You help.' %}{% set rest = messages %}{% endif %}
{{- '<|im_start|>system\\n' ~ system }}
{%- for tool in tools or [] %}{{ '\\n' ~ (tool | tojson) }}{% endfor %}
{{- '<|im_end|>\\n' }}
{%- for message in rest %}
{%- if message.role == 'tool' %}
{%- if loop.previtem.role != 'tool' %}{{ '<|im_start|>user' }}{% endif %}
{{- '\\n<tool_response>\\n' ~ message.content ~ '\\n</tool_response>' }}
{%- if loop.last or loop.nextitem.role != 'tool' %}{{ '<|im_end|>\\n' }}{% endif %}
{%- elif message.role == 'user' or not message.tool_calls %}
{{- '<|im_start|>' ~ message.role ~ '\\n' ~ message.content ~ '<|im_end|>\\n' }}
{%- else %}
{{- '<|im_start|>assistant' }}
{%- if message.content %}{{ '\\n' ~ message.content }}{% endif %}
{%- for call in message.tool_calls %}
{{- '\\n<tool_call>\\n{"name": "' ~ call.function.name ~ '", "arguments": ' }}
{{- (call.function.arguments | tojson) ~ '}\\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- endif %}
{%- endfor %}
"""

LLAMA31 = """
{{- '<|begin|>' }}
{%- for tool in tools or [] %}{{ (tool | tojson) ~ '\\n' }}{% endfor %}
{%- for message in messages %}
{%- if message.role == 'tool' %}
{{- '<|start|>ipython<|sep|>\\n\\n' ~ (message.content | tojson) ~ '<|eot|>' }}
{%- elif message.tool_calls %}
{%- if message.tool_calls | length != 1 %}{{ raise_exception('one call at a time') }}{% endif %}
{%- set call = message.tool_calls[0].function %}
{{- '<|start|>assistant<|sep|>\\n\\n{"name": "' ~ call.name ~ '", "parameters": ' ~ (call.arguments | tojson) ~ '}' }}
{{- '<|eot|>' }}
{%- else %}
{{- '<|start|>' ~ message.role ~ '<|sep|>\\n\\n' ~ (message.content | trim) ~ '<|eot|>' }}
{%- endif %}
{%- endfor %}
"""

QWEN35 = """
{%- set last = namespace(question=-1) %}
{%- for message in messages if message.role == 'user' %}{% set last.question = messages.index(message) %}{% endfor %}
{{- '<|im_start|>system\\nYou help.' }}
{%- for tool in tools or [] %}{{ '\\n' ~ (tool | tojson) }}{% endfor %}
{{- '<|im_end|>\\n' }}
{%- for message in messages %}
{%- set content = (message.content or '') | trim %}
{%- if message.role == 'tool' %}
{%- if loop.previtem.role != 'tool' %}{{ '<|im_start|>user' }}{% endif %}
{{- '\\n<tool_response>\\n' ~ content ~ '\\n</tool_response>' }}
{%- if loop.last or loop.nextitem.role != 'tool' %}{{ '<|im_end|>\\n' }}{% endif %}
{%- elif message.role == 'assistant' %}
{%- set thought = message.reasoning_content or '' %}
{%- if '</think>' in content and not thought %}
{%- set thought = content.split('</think>')[0].split('<think>')[-1].strip('\\n') %}
{%- set content = content.split('</think>')[-1].lstrip('\\n') %}
{%- endif %}
{{- '<|im_start|>assistant\\n' }}
{%- if loop.index0 > last.question %}{{ '<think>\\n' ~ thought ~ '\\n</think>\\n\\n' }}{% endif %}
{{- content }}
{%- for call in message.tool_calls or [] %}
{{- ('\\n\\n' if content and loop.first else '' if loop.first else '\\n') ~ '<tool_call>\\n<function=' }}
{{- call.function.name ~ '>\\n' }}
{%- for name, value in call.function.arguments | items %}
{{- '<parameter=' ~ name ~ '>\\n' ~ (value if value is string else value | tojson) ~ '\\n</parameter>\\n' }}
{%- endfor %}
{{- '</function>\\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- else %}
{{- '<|im_start|>' ~ message.role ~ '\\n' ~ content ~ '<|im_end|>\\n' }}
{%- endif %}
{%- endfor %}
"""


@dataclass(frozen=True)
class Kind:
    """One kind of template, with the texts that its model reads and writes.

    Attributes:
        template: the template.
        call: an answer that calls find(shelf=9, what="the red key").
        two: an answer with a call of look() and one of find(shelf=2).
        begin: beginning of a conversation, before the definitions of tools.
        tools: after them.
        user: what stands around a message of the user.
        answer: the same of an answer.
        result: the same of a result; the results of an answer stand in `results`.
        results: what stands around all results of an answer.
        as_json: whether a result is written as JSON.
    """

    template: str
    call: str
    two: str
    begin: str
    tools: str
    user: tuple[str, str]
    answer: tuple[str, str]
    result: tuple[str, str]
    results: tuple[str, str] = ("", "")
    as_json: bool = False


THOUGHT = "<think>\nIt is on a shelf.\n</think>\n\n"
HERMES_CALL = '<tool_call>\n{"name": "find", "arguments": {"shelf": 9, "what": "the red key"}}\n</tool_call>'
HERMES_TWO = (
    '<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>\n'
    '<tool_call>\n{"name": "find", "arguments": {"shelf": 2}}\n</tool_call>'
)
TYPED_CALL = (
    "<tool_call>\n<function=find>\n<parameter=shelf>\n9\n</parameter>\n<parameter=what>\nthe red key\n</parameter>\n"
    "</function>\n</tool_call>"
)
TYPED_TWO = (
    "<tool_call>\n<function=look>\n</function>\n</tool_call>\n"
    "<tool_call>\n<function=find>\n<parameter=shelf>\n2\n</parameter>\n</function>\n</tool_call>"
)
LLAMA_CALL = '{"name": "find", "parameters": {"shelf": 9, "what": "the red key"}}'
LLAMA_TWO = '{"name": "look", "parameters": {}}\n{"name": "find", "parameters": {"shelf": 2}}'

_IM = (("<|im_start|>user\n", "<|im_end|>\n"), ("<|im_start|>assistant\n", "<|im_end|>\n"))
_RESPONSE = ("\n<tool_response>\n", "\n</tool_response>")
_RESPONSES = ("<|im_start|>user", "<|im_end|>\n")
_HEAD = "<|im_start|>system\nYou help."
_SEP = tuple((f"<|start|>{role}<|sep|>\n\n", "<|eot|>") for role in ("user", "assistant", "ipython"))

KINDS: dict[str, Kind] = {
    "qwen25": Kind(QWEN25, HERMES_CALL, HERMES_TWO, _HEAD, "<|im_end|>\n", *_IM, _RESPONSE, _RESPONSES),
    "llama31": Kind(LLAMA31, LLAMA_CALL, LLAMA_TWO, "<|begin|>", "", *_SEP, as_json=True),
    "qwen35": Kind(QWEN35, TYPED_CALL, TYPED_TWO, _HEAD, "<|im_end|>\n", *_IM, _RESPONSE, _RESPONSES),
}


def rendered(kind: Kind, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> str:
    """What a trainer makes of messages with a template."""
    import jinja2.sandbox

    def stop(message: str) -> None:
        raise jinja2.TemplateError(message)

    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    environment.globals["raise_exception"] = stop
    template = environment.from_string(kind.template.strip("\n").replace("%}\n{%", "%}{%"))
    return template.render(messages=messages, tools=list(tools))


def transcript(kind: Kind, question: str, turns: Sequence[tuple[str, Sequence[str]]], tools: Sequence[object]) -> str:
    """The texts of a conversation as they were read and sampled: a question, then answers, each with its results."""
    between = "\n{}" if kind.tools else "{}\n"
    parts = [kind.begin, *(between.format(json.dumps(tool, ensure_ascii=False)) for tool in tools), kind.tools]
    parts += [kind.user[0], question, kind.user[1]]
    for answer, results in turns:
        parts += [kind.answer[0], answer, kind.answer[1]]
        if results:
            texts = [json.dumps(result) if kind.as_json else result for result in results]
            inner = "".join(f"{kind.result[0]}{text}{kind.result[1]}" for text in texts)
            parts += [kind.results[0], inner, kind.results[1]]
    return "".join(parts)

"""Chat templates that come with a model: bounded in time and memory, and the same on every day."""

from __future__ import annotations

import datetime
import os
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

import turncredit.agents.prompts.chat_template as chat_module
from turncredit.agents.agent import Agent
from turncredit.agents.errors import PromptError
from turncredit.agents.prompts.chat_template import ChatTemplate, reads_clock
from turncredit.agents.prompts.dialogue import Dialogue
from turncredit.processes.bounded_fork import LimitExceeded, call_bounded
from turncredit.training.learner.policy import build_tokenizer

TALK = "{% for m in messages %}<{{ m.role }}>{{ m.content }}<|end|>\n{% endfor %}<assistant>"
SLOW = "{% for a in range(9999) %}{% for b in range(9999) %}{% set c = a %}{% endfor %}{% endfor %}"
DATED = (
    """   {%- if true %}{{ strftime_now('%d %b %Y') }}, {% set f = '%-d.%-m.' %}{{ strftime_now(f) }}{% endif %}

"""
    + TALK
)
LLAMA = (
    """{%- if date_string is not defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{{- "Today Date: " ~ date_string ~ "\\n" }}"""
    + TALK
)


@pytest.fixture
def tokenizer() -> Any:
    return build_tokenizer(["You see a safe.", "open safe"], vocab=300)


@pytest.mark.parametrize(
    ("program", "why"),
    [
        (SLOW, "takes more than 1 seconds"),
        ("{% set x = 'a' * 10 ** 9 %}{% set y = x ~ x %}", "takes more than 64 MiB of memory"),
        ("{{ 'a' | center(10 ** 9) }}", "takes more than 64 MiB of memory"),
        ("{{ '%999999999d' % 1 }}", "takes more than 64 MiB of memory"),
        ("{% set n = namespace(x='a') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}", "of memory"),
        ("{{ 'a' * 5 * 10 ** 6 }}", "writes 5,000,0.. characters around a few words"),
    ],
)  # fmt: skip
def test_a_template_without_measure_is_refused(
    tokenizer: Any, program: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_module, "SECONDS", 1)
    monkeypatch.setattr(chat_module, "MEMORY", 64 << 20)
    tokenizer.chat_template = program + TALK
    with pytest.raises(PromptError, match=why):
        Agent(chat=tokenizer)
    tokenizer.chat_template = TALK
    agent = Agent(chat=tokenizer)
    assert agent.chat_template is not None
    if program == SLOW:
        return  # it would take another second, and what follows has the same limits
    tokenizer.chat_template = "{% if 'Be brief' in messages[0].content %}" + program + "{% endif %}" + TALK
    with pytest.raises(PromptError, match=why):  # one that begins with a certain system message
        agent.chat_template.first("Be brief", chat_module.PromptText.of("x"))


def test_limits_hold_for_work_of_any_kind() -> None:
    before = os.getpid()
    assert call_bounded(lambda: (os.getpid() != before, "x"), seconds=5, memory=1 << 28) == (True, "x")
    with pytest.raises(KeyError, match="'k'"):
        call_bounded(lambda: {}["k"], seconds=5, memory=1 << 28)
    with pytest.raises(LimitExceeded, match="more than 1 seconds"):
        call_bounded(lambda: max(iter(int, 1)), seconds=1, memory=1 << 28)
    with pytest.raises(LimitExceeded, match="more than 16 MiB of memory"):
        call_bounded(lambda: len(bytearray(1 << 28)), seconds=5, memory=1 << 24)
    with pytest.raises(LimitExceeded, match="more than 1 MiB for its result"):
        call_bounded(lambda: "x" * (1 << 22), seconds=5, memory=1 << 28, result_bytes=1 << 20)
    with pytest.raises(LimitExceeded):
        call_bounded(lambda: os._exit(3), seconds=5, memory=1 << 28)


def test_no_process_is_left_behind() -> None:
    def children() -> set[str]:
        return {pid for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()}

    before = children()  # of other tests
    for _ in range(3):
        call_bounded(lambda: None, seconds=5, memory=1 << 28)
    with pytest.raises(LimitExceeded):
        call_bounded(lambda: len(bytearray(1 << 28)), seconds=5, memory=1 << 24)
    assert children() <= before


def test_a_template_is_rendered_once(tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    real = call_bounded
    monkeypatch.setattr(chat_module, "call_bounded", lambda work, **how: (calls.append(1), real(work, **how))[1])
    tokenizer.chat_template = TALK
    agent = Agent(chat=tokenizer)
    for _ in range(5):
        dialogue = Dialogue(agent, tokenizer)
        dialogue.prompt(dialogue.view("You see a safe."))
    assert len(calls) == 2  # what stands between the turns, and how a conversation begins


@pytest.mark.parametrize("template", [DATED, LLAMA])
def test_the_date_is_an_argument(tokenizer: Any, template: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The prompt is what transformers would write on that day."""
    tokenizer.chat_template = template
    assert reads_clock(tokenizer)
    agent = Agent.from_options(chat=tokenizer, chat_options={"date": "2031-02-03"})
    dialogue = Dialogue(agent, tokenizer)
    text = tokenizer.decode(dialogue.prompt(dialogue.view("You see a safe.")).ids)
    now = datetime.datetime(2031, 2, 3)
    monkeypatch.setattr("transformers.utils.chat_template_utils.datetime", type("Then", (), {"now": lambda: now}))
    messages = [{"role": "user", "content": "You see a safe.\n>"}]
    assert text == tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert "03 Feb 2031" in text
    monkeypatch.undo()
    today = ChatTemplate(tokenizer, system=False)
    assert today.date == datetime.date.today()
    said = today.first("", chat_module.PromptText.of("x")).text
    assert time.strftime("%d %b %Y") in said
    with pytest.raises(PromptError, match="must be a date such as 2026-01-31, got 'tomorrow'"):
        Agent.from_options(chat=tokenizer, chat_options={"date": "tomorrow"})


def test_a_date_belongs_to_templates_that_write_one(tokenizer: Any) -> None:
    tokenizer.chat_template = TALK
    assert not reads_clock(tokenizer)
    assert not reads_clock(None)
    dated, plain = (ChatTemplate(tokenizer, system=False, options=one) for one in ({"date": "2031-02-03"}, {}))
    assert dated.first("", chat_module.PromptText.of("x")) == plain.first("", chat_module.PromptText.of("x"))

"""What a refusal names can be done: each form, verb or example in it is understood by the environment that printed it.

Environments come from the registry, and their options from their own refusals of a value that no option has, so that a
new environment or a new option is held to the law without a line here.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import gymnasium
import pytest

import turncredit.envs  # noqa: F401 (registers the environments)
from turncredit.envs import make
from turncredit.envs.errors import EnvError, UnknownOption

JUNK = (
    *("frobnicate the turncredit 0", "", "tap", "search[", "<search></search>", "click[nothing]", "{}", "[]"),
    *('{"name": "x", "arguments": {}}', "click(start_box='here')", "Action: frobnicate()", "type[e1]", "write"),
    '<tool_call>{"name": "x", "arguments": {}}</tool_call>',
)
SERVED = {"AndroidWorld", "OpenEnv", "TextArena", "PettingZoo", "Verifiers", "ReasoningGym", "Mixture"}
"""Environments that speak for others: a server, another package's games, or the environments that they mix."""
OF_THE_MACHINE = {"sandbox", "tagger", "user", "on_failure"}
"""Options whose values may need what this machine lacks; none changes what an action looks like."""
IDS = sorted({name for name in gymnasium.registry if re.fullmatch(r"turncredit/(?!MiniWoB)\w+-v\d", name)})
BROWSERS = ("turncredit/WebShopBrowser-v0", "turncredit/MiniWoB-click-button-v0")


def kind_of(name: str) -> str:
    return name.partition("/")[2].partition("-v")[0]


def variants(name: str, options: str) -> Iterator[dict[str, str]]:
    """Yield the defaults, and each value of each option that names its values when it refuses another."""
    yield {}
    env = make(name)
    parameters = inspect.signature(type(env.unwrapped).__init__).parameters
    env.close()
    for parameter in parameters.values():
        chosen = re.fullmatch(options, parameter.name) and parameter.name not in OF_THE_MACHINE
        if isinstance(parameter.default, str) and chosen:
            with pytest.raises(UnknownOption) as refusal:
                make(name, **{parameter.name: "no such value"})
            choices = re.search(r"choose one of: (.*)", str(refusal.value))
            yield from ({parameter.name: value} for value in (choices[1].split(", ") if choices else ()))


def first_line(observation: Any) -> str:
    text = str(observation["text"] if isinstance(observation, dict) else observation)
    return next(iter(text.strip().splitlines()), "")


def lead(line: str) -> str:
    """The beginning of a refusal without what it quotes: which kind of refusal it is."""
    return re.sub(r"'[^']*'|\"[^\"]*\"", "", line)[:24]


def filled(form: str) -> str:
    """A form with something for each of its blanks."""
    for blank, value in (("ELEMENT", "e1"), ("X2", "1"), ("Y2", "1"), ("X", "1"), ("Y", "1")):
        form = re.sub(rf"\b{blank}\b", value, form)
    return form.replace("words", "red lamp")


def claims(refusal: str, junk: str) -> Iterator[str]:
    """Yield an action for everything that a refusal says can be done."""
    said = refusal.replace(repr(junk), "''") if junk else refusal
    for match in re.finditer(r"<(\w+)>(?:\.\.\.| and )</\1>", said):
        yield f"<{match[1]}> red lamp </{match[1]}>"
    if (such := re.search(r"such as (\w+)", said)) and (verb := re.search(r"\b(\w+)\[\.\.\.\]", said)):
        yield f"{verb[1]}[{such[1]}]"
    if form := re.search(r"has the form ((?!kind)\w+\[[^\]]*\])", said):
        yield filled(form[1])
    if match := re.search(r"(\w+) must be one of ([\w, ]+);", said):
        yield from (json.dumps({match[1]: choice}) for choice in match[2].split(", "))
    listed = re.search(r"(?:choose one of: |actions look like: |begins with '[^']*': |begin with )(.*)", said)
    if listed is None:
        return
    text = re.split(r"\.(?:$| )|; |, or are JSON", listed[1])[0]
    word = re.search(r"'(\w+)'", said)
    for choice in re.split(r",? or |, (?![^\[(]*[\])])", text):
        bare = re.fullmatch(r"\w+", choice)
        if bare and word and word[1] in junk and "look like" not in said:
            yield junk.replace(word[1], choice)
        elif not bare or "look like" in said or not junk:
            yield filled(choice)


def broken(env: gymnasium.Env[Any, str], junks: Sequence[str]) -> list[str]:
    """Return what an environment says can be done and then does not understand."""
    wrong = []
    tried = set()
    for junk in junks:
        env.reset(seed=0)
        observation, *_, info = env.step(junk)
        refusal = first_line(observation)
        for action in () if info["valid"] else claims(refusal, junk):
            if (action, lead(refusal)) in tried:
                continue
            tried.add((action, lead(refusal)))
            if info["valid"]:  # it changed something
                env.reset(seed=0)
            observation, *_, info = env.step(action)
            if not info["valid"] and lead(first_line(observation)) == lead(refusal):
                wrong.append(f"{action!r} after {junk!r}: {first_line(observation)[:160]}")
    return wrong


def hold_the_law(name: str, options: str = r"\w+", junks: Sequence[str] = JUNK) -> None:
    for arguments in variants(name, options):
        try:
            env = make(name, **arguments)
        except EnvError:  # a value that needs another one beside it
            if not arguments:
                raise
            continue
        assert broken(env, junks) == [], arguments
        env.close()


@pytest.mark.parametrize("name", [name for name in IDS if kind_of(name) not in SERVED and name not in BROWSERS])
def test_what_a_refusal_names_is_understood(name: str) -> None:
    hold_the_law(name)


@pytest.mark.waits
@pytest.mark.parametrize("name", BROWSERS)
def test_so_it_is_in_a_browser(name: str) -> None:
    pytest.importorskip("playwright")
    junks = (JUNK[0], "click[nothing]", "type[e1]", "Action: frobnicate()", JUNK[-1])
    hold_the_law(name, "actions", junks)  # other options change pages and rewards, and a page takes long


def test_the_environments_that_are_left_out_speak_for_others() -> None:
    assert {kind_of(name) for name in IDS} >= SERVED
    for kind in SERVED - {"TextArena", "PettingZoo", "ReasoningGym"}:
        with pytest.raises(EnvError, match=r"needs"):
            make(f"turncredit/{kind}-v0")


@pytest.mark.parametrize(
    ("refusal", "junk", "actions"),
    [
        ("no action begins with 'go': run, show or submit", "go on", ["run on", "show on", "submit on"]),
        ("I should write between <search> and </search>.", "x", ["<search> red lamp </search>"]),
        ("got 'x'; choose one of: click[ELEMENT], drag[X, Y]", "x", ["click[e1]", "drag[1, 1]"]),
        ("actions look like: tap 2, back, or are JSON objects.", "", ["tap 2", "back"]),
        (
            "action_type must be one of click, wait; got None.",
            "{}",
            ['{"action_type": "click"}', '{"action_type": "wait"}'],
        ),
        ("unknown tool 'x'; choose one of: say, close.", "<x></x>", ["<say></say>", "<close></close>"]),
        ("click[...] needs the reference of an element, such as e3, got 'x'", "x", ["click[e3]"]),
        ("type[...] has the form type[ELEMENT, words]; the comma is missing", "x", ["type[e1, red lamp]"]),
        ("Nothing happens.", "x", []),
    ],
)
def test_what_the_law_reads(refusal: str, junk: str, actions: list[str]) -> None:
    assert list(claims(refusal, junk)) == actions

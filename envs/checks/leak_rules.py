"""The rule about leaks: what an agent reads shows neither the answer nor the judge.

That an answer occurs in a text proves nothing: it may have to be read there, and short answers occur by chance. A leak
is text that gives the answer away as such: hidden values behind a word such as "answer:", long hidden values verbatim,
and actions of the expert that hold free text, verbatim. Hidden values are the attributes and the entries of `info`
whose names say so. The last observation of an episode may show everything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Final

from turncredit.envs.checks.cheap_players import forms_of, text_of
from turncredit.envs.checks.contract_rule import ContractRule, Measured, RuleFailed, RuleWarned
from turncredit.envs.checks.earnings import expert_episode, panel
from turncredit.envs.checks.episode_data import ProbeEpisode, cut, script
from turncredit.envs.checks.explorer import Explorer
from turncredit.envs.checks.panel_data import Start
from turncredit.envs.info import FREE, fits

__all__ = ["RULES"]

_ANSWERS: Final = r"answers?|solutions?|gold|truth|expected|secret|label"
_JUDGES: Final = r"judge|rubrics?|checker|verifier|hidden"
_NAME: Final = re.compile(rf"(?:^|_)(?:{_ANSWERS}|{_JUDGES})(?:_|$)", re.IGNORECASE)
_MARK: Final = rf"\b(?:{_ANSWERS}|correct|{_JUDGES})\b[^\n]{{0,24}}?(?:[:=]|\bis\b|->)\s*[\"'`(\[]*"
LONG: Final = 40
"""Characters from which a hidden value counts as leaked wherever it occurs."""
_DEPTH: Final = 2
_MOST: Final = 50


@dataclass(frozen=True, slots=True)
class _Leak:
    """A text that gives the answer away: the start, the actions before it, and what it shows."""

    start: Start
    actions: tuple[object, ...]
    text: str
    name: str


def leak(explorer: Explorer) -> Measured:
    """No observation before the end gives the answer or the judge away."""
    starts, leaks, values = panel(explorer), list[_Leak](), 0
    for start in starts:
        hidden = dict(_hidden(explorer, start))
        values += len(hidden)
        if seen := next(_leaks(explorer, start, hidden), None):
            leaks.append(seen)
    if leaks and 2 * len(leaks) > len(starts):
        first = leaks[0]
        problem = f"the observation shows {first.name}, {cut(first.text, 80)}, on {len(leaks)} of {len(starts)} tasks"
        claim = f"assert {first.text!r} not in str(answers[-1][0])"
        code = script(explorer.source, first.start.task, first.start.seed, claim, runs={"answers": first.actions})
        raise RuleFailed(problem, code, {"leaks": len(leaks), "n": len(starts)})
    if leaks:
        first = leaks[0]
        raise RuleWarned(f"an observation of {first.start.task!r} shows {first.name}: {cut(first.text, 80)}")
    if names := {key for start in starts for key in start.first.info if _NAME.search(key)}:
        raise RuleWarned(f"info of reset() holds {', '.join(sorted(names))}, which a prompt made of info would show")
    return Measured(f"{values} hidden values looked for on {len(starts)} tasks", {"leaks": 0, "n": len(starts)})


def _leaks(explorer: Explorer, start: Start, hidden: Mapping[str, str]) -> Iterator[_Leak]:
    """Yield what the observations of a task give away."""
    episodes = [episode for episode in explorer.episodes.get(start.task, []) if episode.seed == start.seed]
    expert = expert_episode(explorer, start)
    for episode in [ProbeEpisode(start.task, start.seed, (), (start.first,)), *episodes]:
        for moment in episode.moments:
            if moment.over:
                continue
            text = text_of(moment)
            for name, value in hidden.items():
                if shown := _shown(value, text):
                    yield _Leak(start, episode.actions[: moment.turn], shown, f"the hidden value {name!r}")
    if expert is not None:
        yield from _told_actions(start, expert)


def _told_actions(start: Start, expert: ProbeEpisode) -> Iterator[_Leak]:
    """Yield actions of the expert that hold free text and stand in what was read before them."""
    for turn, action in enumerate(expert.actions):
        moment = expert.moments[turn]
        if not isinstance(action, str) or action in (moment.admissible or []):
            continue
        forms = [form for form in moment.info.get(FREE) or [] if form != "..."]
        if action in forms or (len(action) < LONG and not (fits(action, forms) and len(action) >= 8)):
            continue
        for earlier in expert.moments[: turn + 1]:
            if action in text_of(earlier):
                yield _Leak(start, expert.actions[: earlier.turn], action, "an action of the expert")


def _shown(value: str, text: str) -> str:
    """Return the part of a text that gives a value away, or an empty text."""
    if len(value) >= LONG:
        return value if value in text else ""
    match = re.search(_MARK + re.escape(value) + r"(?!\w)", text, re.IGNORECASE)
    return match.group() if match else ""


def _hidden(explorer: Explorer, start: Start) -> Iterator[tuple[str, str]]:
    """Yield names and texts of values that an agent should not see."""
    core = explorer.env.unwrapped
    yield from _answers(expert_episode(explorer, start))
    explorer.play(start.task, [], seed=start.seed)
    properties = {
        name: _read(core, name) for name in dir(type(core)) if isinstance(getattr(type(core), name, None), property)
    }
    sources: list[object] = [vars(core), properties, start.first.info]
    seen = 0
    for source in sources:
        for name, value in _members(source, _DEPTH):
            for text in _texts(value):
                seen += 1
                if seen <= _MOST:
                    yield name, text


def _answers(expert: ProbeEpisode | None) -> Iterator[tuple[str, str]]:
    """Yield the free text of the expert's last action."""
    if expert is None or not expert.actions or not isinstance(expert.actions[-1], str):
        return
    action, moment = expert.actions[-1], expert.moments[len(expert.actions) - 1]
    if action in (moment.admissible or []):
        return
    for form in [form for form in forms_of(moment) if form == "..." or fits(action, [form])]:
        head, _, tail = form.partition("...")
        yield "the expert's answer", action.removeprefix(head).removesuffix(tail).strip() or action


def _read(core: object, name: str) -> object:
    """Return a property, or None if it raises."""
    try:
        return getattr(core, name)
    except Exception:
        return None


def _members(source: object, depth: int) -> Iterator[tuple[str, object]]:
    """Yield the members of a table or a dataclass, and of those in it, whose names say that they are hidden."""
    if isinstance(source, Mapping):
        members: list[tuple[str, object]] = [(str(name), value) for name, value in source.items()]
    elif is_dataclass(source) and not isinstance(source, type):
        members = [(field.name, getattr(source, field.name, None)) for field in fields(source)]
    else:
        return
    for name, value in members[:_MOST]:
        if _NAME.search(name):
            yield name, value
        elif depth:
            yield from _members(value, depth - 1)


def _texts(value: object) -> Iterator[str]:
    """Yield the texts of a value; a number is its text."""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        if text := str(value).strip():
            yield text
    elif isinstance(value, list | tuple | set | frozenset):
        for member in list(value)[:_MOST]:
            if isinstance(member, str | int | float) and not isinstance(member, bool) and str(member).strip():
                yield str(member).strip()


RULES: Final = (ContractRule("leak", "observations do not give the answer away", leak, ("protocol",), "semantic"),)
"""What this module checks."""

"""The rule about copied answers: no text that an agent may be shown has the answer at a place that can be learnt.

What an agent may be shown are observations (the first one, and those after an action without meaning), the task id,
`info`, and descriptions of tools. On two starts, every number, name and rare word in them is given as an answer, one at
a time, first. Where one is right, the place where it stood, such as "after 'target='" or "the second number", is looked
up on all other starts and answered there. A passage that a question is about holds its answer, too, but at another
place for every task.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from turncredit.envs.checks.cheap_players import ending, forms_of, speaking_forms, text_of
from turncredit.envs.checks.contract_rule import ContractRule, Measured, RuleFailed, RuleSkipped
from turncredit.envs.checks.earnings import Choose, best_return, earn, panel, share
from turncredit.envs.checks.episode_data import Crash, ProbeEpisode, ProbeStep, cut, literal, script
from turncredit.envs.checks.explorer import Explorer
from turncredit.envs.checks.floor_rules import TOLERANCE
from turncredit.envs.checks.panel_data import Earned, Start
from turncredit.envs.checks.reward_bounds import TRIVIAL
from turncredit.envs.free_text import places
from turncredit.envs.info import ADMISSIBLE, EXTRAS, FREE, SCORE, STATE, TASK, TASK_TYPE, TOOLS, VALID, WON

__all__ = ["RULES"]

_SEARCHED: Final = 2
"""Starts on which every word is tried."""
_FEWEST: Final = 4
"""Words that are tried in each form where steps are slow."""
_RANKS: Final = 40
_FOLLOWED: Final = 30
"""Most places that are looked up on the other starts."""
_DEEPEST: Final = 5
_LONGEST: Final = 80
_LABEL: Final = re.compile(r"([A-Za-z_][\w ]{1,30}?)\s*(=|:|->|\bis\b)\s*[\"'`(\[<]*$")
_UNSEEN: Final = (ADMISSIBLE, FREE, TOOLS, STATE, TASK, TASK_TYPE, VALID, WON, SCORE, EXTRAS)
"""Keys of info that are known to be no text for the agent, or are sources of their own."""

Texts = Mapping[str, str]
"""Where a text stands within its source -> the text."""
_Place = tuple[str, str, int]
"""Where a word stands: in which text, after which label or among which kind of words, and at which rank."""


@dataclass(frozen=True, slots=True)
class _ShownTexts:
    """Texts that an agent may be shown: what they are called, how they are read, and the action before them."""

    name: str
    read: Callable[[Start, ProbeStep], Texts]
    before: tuple[object, ...] = ()


def copied(explorer: Explorer) -> Measured:
    """No answer can be copied from a fixed place of the texts that an agent may be shown."""
    starts = panel(explorer)
    forms = speaking_forms(starts[0].first) if explorer.foreign is not None else []
    if not forms or (starts[0].first.admissible and not starts[0].first.info.get(FREE)):
        raise RuleSkipped("actions have no free text")
    if len(starts) <= _SEARCHED:
        raise RuleSkipped(f"{len(starts)} starts are too few to tell a place from chance")
    tried, followed = 0, 0
    for source in _sources(explorer, starts[0]):
        words = _words_of(explorer, source, starts)
        places_won: dict[tuple[_Place, str], int] = {}
        for number in range(_SEARCHED):
            for form, spot in _right_places(explorer, source, starts[number], words[number], forms):
                places_won.setdefault((spot, form), number)
            tried += len(set(words[number].values()))
        for (spot, form), number in list(places_won.items())[:_FOLLOWED]:
            followed += 1
            _require_chance(explorer, source, spot, form, words, number)
    return Measured(f"{tried:,} words given as answers, {followed} places looked up on {len(starts)} starts")


def _sources(explorer: Explorer, start: Start) -> Iterator[_ShownTexts]:
    """Yield what an agent may be shown."""
    yield _ShownTexts("the first observation", lambda start, moment: {"": text_of(moment)})
    yield _ShownTexts("the task id", lambda start, moment: {"": re.sub(r"[\W_]+", " ", start.task or "")})
    yield _ShownTexts("info", lambda start, moment: dict(_leaves(_shown_info(moment.info))))
    yield _ShownTexts("the descriptions of tools", lambda start, moment: dict(_leaves(moment.info.get(TOOLS))))
    for action in _probes(explorer, start):
        name = f"the observation or info after {cut(action, 40)}"
        yield _ShownTexts(
            name, lambda start, moment: {"": text_of(moment), **dict(_leaves(_shown_info(moment.info)))}, (action,)
        )


def _shown_info(info: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in info.items() if key not in _UNSEEN}


def _probes(explorer: Explorer, start: Start) -> Iterator[object]:
    """Yield actions without meaning that do not end the episode: unknown, empty in a form, and a listed one."""
    meaningless = [explorer.foreign, *(form.replace("...", "1") for form in forms_of(start.first)[:2])]
    for action in dict.fromkeys([*meaningless, *explorer.listed(start.first)[:1]]):
        try:
            if (
                action in explorer.env.action_space
                and not explorer.play(start.task, [action], seed=start.seed).last.over
            ):
                yield action
        except Crash:  # the rule "refused" shows it
            continue


def _leaves(value: object, path: str = "", depth: int = _DEEPEST) -> Iterator[tuple[str, str]]:
    """Yield the paths and texts of the members of a table or list, and of those in them."""
    if isinstance(value, Mapping):
        members: list[tuple[object, object]] = list(value.items())
    elif isinstance(value, list | tuple):
        members = list(enumerate(value))
    else:
        if value is not None and not isinstance(value, bool) and isinstance(value, str | int | float):
            yield path, str(value)
        return
    for name, member in members if depth else []:
        yield from _leaves(member, f"{path}.{name}".strip("."), depth - 1)


def _words_of(explorer: Explorer, source: _ShownTexts, starts: Sequence[Start]) -> list[dict[_Place, str]]:
    """Return the words of each start, by place; a word that most other starts have as well is not rare."""
    texts = []
    for start in starts:
        moment = start.first
        if source.before:
            moment = explorer.play(start.task, source.before, seed=start.seed).last
        texts.append({} if moment.over else source.read(start, moment))
    seen = [{word for text in table.values() for word, _ in places(text)} for table in texts]
    common = {
        word for words in seen for word in words if 2 * (sum(word in other for other in seen) - 1) > len(starts) - 1
    }
    return [dict(_placed(table, common)) for table in texts]


def _placed(texts: Texts, common: set[str]) -> Iterator[tuple[_Place, str]]:
    """Yield places and the words there: after labels first, then by rank from the front and from the end."""
    ranked: list[tuple[_Place, str]] = []
    for path, text in texts.items():
        words = [(word, at) for word, at in places(text) if word not in common]
        for word, at in words:
            if label := _LABEL.search(text[max(0, at - 60) : at]):
                yield (path, f"after {label.group().strip()!r}", 0), word
        if path and len(text) <= _LONGEST and text not in common and text.strip():
            yield (path, "the whole text", 0), text.strip()
        for kind in ("number", "word"):
            kinds = [word for word, _ in words if word[0].isdigit() == (kind == "number")][: 10 * _RANKS]
            for step, end in ((1, "from the front"), (-1, "from the end")):
                rank = enumerate(kinds[::step][:_RANKS], start=1)
                ranked += [((path, f"{kind} {end}", number), word) for number, word in rank]
    yield from sorted(ranked, key=lambda placed: placed[0][2])


def _same(word: str, start: Start) -> str:
    return word


def _right_places(
    explorer: Explorer, source: _ShownTexts, start: Start, words: Mapping[_Place, str], forms: Sequence[str]
) -> Iterator[tuple[str, _Place]]:
    """Yield forms and places of the words that are right on a start, trying each word once in each form."""
    most = explorer.effort.variants
    distinct = list(dict.fromkeys(words.values()))[: max(_FEWEST, most // len(forms))]
    for form in forms:
        for word in distinct:
            try:
                earned = earn(explorer, word, _answer(explorer, source, form, partial(_same, word)), starts=[start])
            except Crash:
                continue
            if earned.mean >= TRIVIAL:
                yield from ((form, spot) for spot, other in words.items() if other == word)


def _answer(
    explorer: Explorer, source: _ShownTexts, form: str, word_of: Callable[[Start], str | None]
) -> Callable[[Start, int], Choose]:
    """Return a player that gives a word as its first answer, and then ends the episode where it can."""

    def play(start: Start, number: int) -> Choose:
        word, taken_before = word_of(start), len(source.before)

        def choose(moment: ProbeStep, taken: int) -> object:
            if taken < taken_before:
                return source.before[taken]
            if taken > taken_before:
                return ending(moment) if taken == taken_before + 1 else None
            answer = None if word is None else form.replace("...", word, 1)
            return answer if answer is not None and answer in explorer.env.action_space else None

        return choose

    return play


def _require_chance(
    explorer: Explorer,
    source: _ShownTexts,
    spot: _Place,
    form: str,
    words: Sequence[Mapping[_Place, str]],
    number: int,
) -> Earned:
    """Fail if the words at a place are right on most of the other starts as well."""
    starts = panel(explorer)
    table = {(start.task, start.seed): words[at].get(spot) for at, start in enumerate(starts)}
    others = [start for at, start in enumerate(starts) if at != number]
    player = _answer(explorer, source, form, lambda start: table[start.task, start.seed])
    path, where, rank = spot
    earned = earn(explorer, f"{form!r}", player, starts=others)
    right = sum(share >= TRIVIAL for share in earned.shares)
    if right >= 2 and 2 * right >= len(others):
        where = f"{where}{f' ({rank})' if rank else ''}" + (f" in {path!r}" if path else "")
        episode = max(earned.episodes, key=lambda episode: share(explorer, _start(starts, episode), episode.earned))
        best = best_return(explorer, _start(starts, episode))
        problem = f"{source.name} holds the answer: {where}, as {form!r}, earns {earned}, such as "
        limit, at = TRIVIAL * best - TOLERANCE, len(source.before)
        word = table[episode.task, episode.seed]
        claim = (
            f"shown = repr(answers[{at}][0]) + repr(answers[{at}][4])\nreward = sum(answer[1] for answer in answers)\n"
        )
        claim += f"assert {word!r} not in shown or reward < {limit!r}"
        code = script(explorer.source, episode.task, episode.seed, claim, runs={"answers": episode.actions})
        raise RuleFailed(problem + cut(literal(list(episode.actions)), 120), code, earned.values())
    return earned


def _start(starts: Sequence[Start], episode: ProbeEpisode) -> Start:
    return next(start for start in starts if (start.task, start.seed) == (episode.task, episode.seed))


RULES: Final = (
    ContractRule("copy", "no answer stands at a fixed place of what is shown", copied, ("protocol",), "semantic"),
)
"""What this module checks."""

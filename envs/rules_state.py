"""The rules about state keys: equal exactly when what can follow is equal.

Both directions are probed by replay. Equal keys are reached by different actions, and the same continuations are played
after each: one difference is proof that the key says too little. Different keys are given every continuation that we
can think of until one tells them apart: every candidate action, the expert's plans, what was really played next, and
random walks. Where none does, the key says more than the agent can ever notice (a counter of turns, the text of the
last answer), or the difference lies deeper than the probes; the report says how many pairs were probed and how far.

Ends are left out: nothing follows them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

import numpy as np

from turnwise.envs.info import ADMISSIBLE, STATE, VALID, WON
from turnwise.envs.probe import Lab, Moment, _cut, difference, same, script
from turnwise.envs.rules import Failed, Rule, Skipped

__all__ = ["STATE_RULES"]

# What one may notice of a step. The score is the task's own account, and the next key is judged by itself.
_SEEN: Final = (ADMISSIBLE, VALID, WON)


@dataclass(frozen=True, slots=True)
class Place:
    """A state by the way to it: the actions from the start, and what was really played from there."""

    prefix: tuple[Any, ...]
    moment: Moment
    tail: tuple[Any, ...]

    @property
    def face(self) -> tuple[Any, Any]:
        """What can be noticed without doing anything: the admissible actions, and whether the task is won."""
        actions = self.moment.admissible
        return (None if actions is None else tuple(sorted(map(repr, actions))), self.moment.info.get(WON))


def state_task(lab: Lab) -> str:
    """The task sentence is not in the state key."""
    sentences = 0
    for task, places in _all_places(lab):
        start = places[0].moment.observation
        for sentence in _task_sentences(start if isinstance(start, str) else ""):
            sentences += 1
            for place in places:
                if _plain(sentence) in _plain(str(place.moment.key)):
                    claim = f"assert {sentence!r} not in answers[-1][4]['state']"
                    code = script(lab.source, task, lab.seed, claim, runs={"answers": place.prefix})
                    raise Failed(f"the state key {_cut(place.moment.key)} holds the task sentence {sentence!r}", code)
    if not sentences:
        raise Skipped("no task sentence is recognised in the first observation ('task is to: ...', 'Goal: ...')")
    return f"{sentences} sentences"


_MARKS: Final = re.compile(
    r"\b(?:task(?: is(?: to)?)?|goal(?: is(?: to)?)?|instructions?|objective|question)\s*:\s*(\S.*)", re.IGNORECASE
)


def _task_sentences(observation: str) -> list[str]:
    """Return what stands behind the words that announce a task."""
    return [match.strip().rstrip(".") for match in _MARKS.findall(observation) if len(match.strip()) >= 8]


def _plain(text: str) -> str:
    """Return a text without differences of case and spacing."""
    return " ".join(text.lower().split())


def state_equal(lab: Lab) -> str:
    """Equal keys: the same actions have the same consequences."""
    pairs, steps, at_sight = 0, 0, 0
    for number, (task, places) in enumerate(_all_places(lab)):
        rng = np.random.default_rng([lab.seed, 17, number])
        same_key = list(_equal_pairs(places))
        for one, other in same_key:
            at_sight += 1
            if one.face != other.face:
                _fail_equal(lab, task, one, other, (), f"{_face_difference(one, other)}")
        for index in sorted(rng.permutation(len(same_key))[: lab.effort.pairs]):
            one, other = same_key[int(index)]
            pairs += 1
            for actions in _continuations(lab, task, one, other, rng):
                what, compared = _tell_apart(lab, task, one, other, actions)
                steps += compared
                if what is not None:
                    _fail_equal(lab, task, one, other, actions[:compared], what)
    if not at_sight:
        raise Skipped("no state was reached by two different ways")
    return f"{at_sight:,} pairs of ways to the same key compared at sight, {pairs} by {steps:,} steps of continuations"


def state_different(lab: Lab) -> str:
    """Different keys: some continuation tells the states apart."""
    at_sight, probed, open_pairs = 0, 0, []
    for number, (task, places) in enumerate(_all_places(lab)):
        rng = np.random.default_rng([lab.seed, 19, number])
        alike, told = _alike_pairs(places)
        at_sight += told
        for one, other in alike[: lab.effort.pairs]:
            probed += 1
            if not _distinguishable(lab, task, one, other, rng):
                open_pairs.append((task, one, other))
    if not at_sight and not probed:
        raise Skipped("fewer than two states were seen")
    counts = f"{at_sight:,} pairs of keys told apart by their admissible actions, {probed} probed further"
    if open_pairs:
        task, one, other = open_pairs[0]
        refused = other.moment.info.get(VALID) is False and other.prefix[:-1] == one.prefix
        why = ", although only a refused action lies between them" if refused else ""
        what = (
            f"{len(open_pairs)} of {probed} probed pairs have different keys that nothing tells apart, such as "
            f"{_cut(one.moment.key)} and {_cut(other.moment.key)}{why}; either the key holds what no action can reveal "
            f"(a count of turns, the last answer), or the probes are too shallow ({counts}; depth {lab.effort.depth}, "
            f"{lab.effort.continuations} random continuations each)"
        )
        claim = "assert a[-1][4]['state'] == b[-1][4]['state']  # no continuation was found that tells a from b"
        raise Failed(what, _pair_script(lab, task, claim, a=one.prefix, b=other.prefix))
    return f"{counts} and told apart"


def _all_places(lab: Lab) -> Iterator[tuple[str | None, list[Place]]]:
    """Yield every task with the different ways that the explored episodes took, the shortest first."""
    for task, episodes in lab.episodes.items():
        found: dict[str, Place] = {}
        for episode in episodes:
            if episode.moments[0].key is None:
                raise Skipped(f"info has no {STATE!r}")
            for moment in episode.moments:
                if not moment.over:
                    prefix = episode.actions[: moment.turn]
                    found.setdefault(repr(prefix), Place(prefix, moment, episode.actions[moment.turn :]))
        yield task, sorted(found.values(), key=lambda place: len(place.prefix))


def _equal_pairs(places: Sequence[Place]) -> Iterator[tuple[Place, Place]]:
    """Yield the first way to each key with each of the others."""
    first: dict[Any, Place] = {}
    for place in places:
        one = first.setdefault(place.moment.key, place)
        if one is not place:
            yield one, place


def _alike_pairs(places: Sequence[Place]) -> tuple[list[tuple[Place, Place]], int]:
    """Return pairs of different keys with the same face, those first between which only a refused action lies.

    Returns:
        The pairs, nearest first; and how many pairs of different keys have different faces.
    """
    by_prefix = {repr(place.prefix): place for place in places}
    refused = [
        (before, place)
        for place in places
        if place.moment.info.get(VALID) is False
        and (before := by_prefix.get(repr(place.prefix[:-1]))) is not None
        and before.moment.key != place.moment.key
    ]
    first: dict[Any, Place] = {}
    for place in places:
        first.setdefault(place.moment.key, place)
    pairs = list(combinations(first.values(), 2))
    alike = [pair for pair in pairs if pair[0].face == pair[1].face]
    alike.sort(key=lambda pair: _apart(pair[0].prefix, pair[1].prefix))
    return [*(pair for pair in refused if pair[0].face == pair[1].face), *alike], len(pairs) - len(alike)


def _apart(one: Sequence[Any], other: Sequence[Any]) -> int:
    """Return how many actions lie between two ways, by their common beginning."""
    common = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        common += 1
    return len(one) + len(other) - 2 * common


def _continuations(
    lab: Lab, task: str | None, one: Place, other: Place, rng: np.random.Generator
) -> Iterator[tuple[Any, ...]]:
    """Yield continuations for both places: what was played from each, the plans from each, random walks from each."""
    depth = lab.effort.depth
    for place in (one, other):
        if place.tail:
            yield place.tail[:depth]
    if lab.has("plan"):
        for place in (one, other):
            yield tuple(lab.plan(task, place.prefix))
    for turn in range(lab.effort.continuations):
        place = (one, other)[turn % 2]
        # Half of the walks keep to few actions, which undoes and redoes things.
        step = lab.chooser(rng, few=4 if turn % 4 > 1 else 0)
        yield _walk_from(lab, task, place, step, depth)


def _walk_from(lab: Lab, task: str | None, place: Place, step: Any, depth: int) -> tuple[Any, ...]:
    """Return the actions of a random walk that starts at a place."""
    skip = len(place.prefix)

    def choose(moment: Moment, taken: int) -> Any:
        return place.prefix[taken] if taken < skip else step(moment, taken)

    return lab.walk(task, choose, skip + depth, env=lab.free).actions[skip:]


def _tell_apart(lab: Lab, task: str | None, one: Place, other: Place, actions: Sequence[Any]) -> tuple[str | None, int]:
    """Play the same actions at both places.

    Returns:
        What differs first, and after how many actions; None, and how many were compared, where nothing does.
    """
    tails = []
    for place in (one, other):
        episode = lab.play(task, [*place.prefix, *actions], env=lab.free)
        tails.append(episode.moments[len(place.prefix) + 1 :])
    for count, (a, b) in enumerate(zip(*tails, strict=False), start=1):
        if a.truncated or b.truncated:
            # A cut depends on how many turns were played before, which is no matter of the state.
            return None, count - 1
        if what := difference(a, b, keys=_SEEN):
            return f"after {list(actions[:count])!r}, {what}", count
    return None, min(map(len, tails))


def _distinguishable(lab: Lab, task: str | None, one: Place, other: Place, rng: np.random.Generator) -> bool:
    """Return whether some continuation tells two places apart; one step by every action is tried first."""
    fans = [lab.fan(task, place.prefix, place.moment) for place in (one, other)]
    for (action, a), (again, b) in zip(*fans, strict=False):
        if same(action, again) and not (a.truncated or b.truncated) and difference(a, b, keys=_SEEN):
            return True
    return any(
        _tell_apart(lab, task, one, other, actions)[0] is not None
        for actions in _continuations(lab, task, one, other, rng)
    )


def _face_difference(one: Place, other: Place) -> str:
    """Say how two faces differ."""
    a, b = one.moment.admissible, other.moment.admissible
    if a is not None and b is not None and sorted(a, key=repr) != sorted(b, key=repr):
        only = [[x for x in p if x not in q] for p, q in ((a, b), (b, a))]
        return f"the admissible actions differ: only first {_cut(only[0])}, only second {_cut(only[1])}"
    return f"won is {one.moment.info.get(WON)} and {other.moment.info.get(WON)}"


def _fail_equal(lab: Lab, task: str | None, one: Place, other: Place, actions: Sequence[Any], what: str) -> None:
    """Raise the failure that equal keys behave differently."""
    claim = (
        f"i, j = {len(one.prefix)}, {len(other.prefix)}\n"
        "assert a[i][4]['state'] == b[j][4]['state']\n"
        "for x, y in zip(a[i + 1 :], b[j + 1 :]):\n"
        "    assert x[:4] == y[:4], (x[:4], y[:4])\n"
        f"for k in {_SEEN[::2]!r}:\n"
        "    x, y = a[-1][4].get(k), b[-1][4].get(k)\n"
        "    assert (sorted(x) == sorted(y)) if isinstance(x, list) else x == y, (k, x, y)"
    )
    code = _pair_script(lab, task, claim, a=(*one.prefix, *actions), b=(*other.prefix, *actions))
    raise Failed(f"two ways lead to the key {_cut(one.moment.key)}, but {what}", code)


def _pair_script(lab: Lab, task: str | None, claim: str, **runs: Sequence[Any]) -> str:
    """Return a script that plays two ways without the turn limit."""
    code = lab.source if lab.source.limit is None else lab.source.limited_code(-1)
    return script(code, task, lab.seed, claim, runs=runs)


_NEEDS: Final = ("protocol", "info", "repeatable")
STATE_RULES: Final = (
    Rule("state-task", "the task sentence is not in the state key", state_task, _NEEDS),
    Rule("state-equal", "equal state keys behave alike", state_equal, _NEEDS),
    Rule("state-different", "different state keys can be told apart", state_different, (*_NEEDS, "state-equal")),
)

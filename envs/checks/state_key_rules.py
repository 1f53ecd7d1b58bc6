"""Rules about state keys: equal exactly when everything that can follow is equal.

Both directions are tested by replay. Equal keys: the same continuations are played after different ways to a key; any
difference proves that the key contains too little. Different keys: continuations are tried until one tells the states
apart (all candidate actions, the plans, what was played next, random walks, and at last a search). If none does, the
key contains more than the agent can ever notice, such as a turn count or the last observation, or the difference is
deeper than the search; the report says which. Ended episodes are not compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any, Final

import numpy as np

from turncredit.envs.checks.contract_rule import ContractRule, RuleFailed, RuleSkipped
from turncredit.envs.checks.episode_data import ProbeStep, cut, difference, same, script
from turncredit.envs.checks.explorer import Explorer
from turncredit.envs.checks.state_search import SEEN, ReachedState, distance, search, tell_apart
from turncredit.envs.info import KNOWLEDGE_IN_STATE, STATE, VALID, WON

__all__ = ["RULES", "task_sentences"]


def state_task(explorer: Explorer) -> str:
    """The task sentence is not in the state key."""
    sentences = 0
    for task, places in _all_places(explorer):
        start = places[0].moment.observation
        for sentence in task_sentences(start if isinstance(start, str) else ""):
            sentences += 1
            for reached in places:
                if _plain(sentence) in _plain(str(reached.moment.key)):
                    claim = f"assert {sentence!r} not in answers[-1][4]['state']"
                    code = script(explorer.source, task, explorer.seed, claim, runs={"answers": reached.prefix})
                    raise RuleFailed(
                        f"the state key {cut(reached.moment.key)} holds the task sentence {sentence!r}", code
                    )
    if not sentences:
        raise RuleSkipped("no task sentence is recognised in the first observation ('task is to: ...', 'Goal: ...')")
    return f"{sentences} sentences"


_MARKS: Final = re.compile(
    r"\b(?:task(?: is(?: to)?)?|goal(?: is(?: to)?)?|instructions?|objective|question)\s*:\s*(\S.*)", re.IGNORECASE
)


def task_sentences(observation: str) -> list[str]:
    """Return the texts after words that announce a task."""
    return [match.strip().rstrip(".") for match in _MARKS.findall(observation) if len(match.strip()) >= 8]


def _plain(text: str) -> str:
    """Return a text in lower case with normalised spaces."""
    return " ".join(text.lower().split())


def state_equal(explorer: Explorer) -> str:
    """Equal keys: the same actions have the same results."""
    pairs, steps, at_sight = 0, 0, 0
    for number, (task, places) in enumerate(_all_places(explorer)):
        rng = np.random.default_rng([explorer.seed, 17, number])
        same_key = list(_equal_pairs(places))
        for state, other in same_key:
            at_sight += 1
            if state.face != other.face:
                _fail_equal(explorer, task, state, other, (), f"{_face_difference(state, other)}")
        for index in sorted(rng.permutation(len(same_key))[: explorer.effort.pairs]):
            state, other = same_key[int(index)]
            pairs += 1
            for actions in _continuations(explorer, task, state, other, rng):
                mismatch, compared = tell_apart(explorer, task, state, other, actions)
                steps += compared
                if mismatch is not None:
                    _fail_equal(explorer, task, state, other, actions[:compared], mismatch)
    if not at_sight:
        raise RuleSkipped("no state was reached by two different ways")
    return f"{at_sight:,} pairs of ways to the same key compared directly, {pairs} by {steps:,} steps of continuations"


def state_different(explorer: Explorer) -> str:
    """Different keys: some continuation tells the states apart."""
    if explorer.env.metadata.get(KNOWLEDGE_IN_STATE):
        raise RuleSkipped(f"metadata[{KNOWLEDGE_IN_STATE!r}] says that keys also hold what the agent has read")
    at_sight, probed, searched = 0, 0, 0
    for number, (task, places) in enumerate(_all_places(explorer)):
        rng = np.random.default_rng([explorer.seed, 19, number])
        alike, told = _alike_pairs(places)
        at_sight += told
        compared: set[frozenset[object]] = set()
        for state, other in alike[: explorer.effort.pairs]:
            probed += 1
            if _distinguishable(explorer, task, state, other, rng):
                compared.add(frozenset((state.moment.key, other.moment.key)))
                continue
            searched += 1
            result = search(explorer, task, state, other, compared)
            if not result.apart:
                counts = (
                    f"{at_sight:,} pairs told apart by their admissible actions, {probed} probed, {searched} searched"
                )
                raise _over_fine(explorer, task, state, other, f"{result.how} ({counts})")
    if not at_sight and not probed:
        raise RuleSkipped("fewer than two states were seen")
    text = f"{at_sight:,} pairs of keys told apart by their admissible actions, {probed} by probes"
    return text + (f", {searched} of these by search" if searched else "")


def _over_fine(explorer: Explorer, task: str | None, state: ReachedState, other: ReachedState, how: str) -> RuleFailed:
    """Return the failure that only the keys of two states differ."""
    refused = other.moment.info.get(VALID) is False and other.prefix[:-1] == state.prefix
    between = ", separated only by an invalid action," if refused else ""
    problem = (
        f"the keys {cut(state.moment.key)} and {cut(other.moment.key)}{between} belong to states that {how}; if keys "
        f"are meant to hold what the agent has read, set metadata[{KNOWLEDGE_IN_STATE!r}] = True in the class"
    )
    claim = "assert a[-1][4]['state'] == b[-1][4]['state']  # nothing was found that tells a from b"
    return RuleFailed(problem, _pair_script(explorer, task, claim, a=state.prefix, b=other.prefix))


def _all_places(explorer: Explorer) -> Iterator[tuple[str | None, list[ReachedState]]]:
    """Yield every task with the different states of its episodes, the shortest way first."""
    for task, episodes in explorer.episodes.items():
        states: dict[str, ReachedState] = {}
        for episode in episodes:
            if episode.moments[0].key is None:
                raise RuleSkipped(f"info has no {STATE!r}")
            for moment in episode.moments:
                if not moment.over:
                    prefix = episode.actions[: moment.turn]
                    states.setdefault(repr(prefix), ReachedState(prefix, moment, episode.actions[moment.turn :]))
        yield task, sorted(states.values(), key=lambda state: len(state.prefix))


def _equal_pairs(places: Sequence[ReachedState]) -> Iterator[tuple[ReachedState, ReachedState]]:
    """Yield the first way to each key, paired with each other way."""
    first: dict[object, ReachedState] = {}
    for state in places:
        earlier = first.setdefault(state.moment.key, state)
        if earlier is not state:
            yield earlier, state


def _alike_pairs(places: Sequence[ReachedState]) -> tuple[list[tuple[ReachedState, ReachedState]], int]:
    """Return pairs of different keys that look the same; pairs separated only by an invalid action come first.

    Returns:
        The pairs, nearest first, and the number of pairs that look different.
    """
    by_prefix = {repr(state.prefix): state for state in places}
    refused = [
        (before, state)
        for state in places
        if state.moment.info.get(VALID) is False
        and (before := by_prefix.get(repr(state.prefix[:-1]))) is not None
        and before.moment.key != state.moment.key
    ]
    first: dict[object, ReachedState] = {}
    for state in places:
        first.setdefault(state.moment.key, state)
    pairs = list(combinations(first.values(), 2))
    alike = [pair for pair in pairs if pair[0].face == pair[1].face]
    alike.sort(key=lambda pair: distance(pair[0].prefix, pair[1].prefix))
    return [*(pair for pair in refused if pair[0].face == pair[1].face), *alike], len(pairs) - len(alike)


def _continuations(
    explorer: Explorer, task: str | None, state: ReachedState, other: ReachedState, rng: np.random.Generator
) -> Iterator[tuple[object, ...]]:
    """Yield continuations for both states: what was played next, plans, random walks."""
    depth = explorer.effort.depth
    for source in (state, other):
        if source.tail:
            yield source.tail[:depth]
    if explorer.has("plan"):
        for source in (state, other):
            yield tuple(explorer.plan(task, source.prefix) or ())
    for turn in range(explorer.effort.continuations):
        source = (state, other)[turn % 2]
        # Half of the walks use few actions, which undo and redo things.
        step = explorer.chooser(rng, few=4 if turn % 4 > 1 else 0)
        yield _walk_from(explorer, task, source, step, depth)


def _walk_from(explorer: Explorer, task: str | None, state: ReachedState, step: Any, depth: int) -> tuple[object, ...]:
    """Return the actions of a random walk from a state."""
    skip = len(state.prefix)

    def choose(moment: ProbeStep, taken: int) -> object:
        return state.prefix[taken] if taken < skip else step(moment, taken)

    return explorer.walk(task, choose, skip + depth, env=explorer.free).actions[skip:]


def _distinguishable(
    explorer: Explorer, task: str | None, state: ReachedState, other: ReachedState, rng: np.random.Generator
) -> bool:
    """Return whether a continuation tells two states apart; single actions are tried first.

    This includes an invalid action: if its observation repeats what is visible, that belongs to the state.
    """
    if explorer.foreign is not None and tell_apart(explorer, task, state, other, (explorer.foreign,))[0] is not None:
        return True
    fans = [explorer.fan(task, member.prefix, member.moment) for member in (state, other)]
    for (action, a), (again, b) in zip(*fans, strict=False):
        if same(action, again) and not (a.truncated or b.truncated) and difference(a, b, keys=SEEN):
            return True
    return any(
        tell_apart(explorer, task, state, other, actions)[0] is not None
        for actions in _continuations(explorer, task, state, other, rng)
    )


def _face_difference(state: ReachedState, other: ReachedState) -> str:
    """Return how the looks of two states differ."""
    a, b = state.moment.admissible, other.moment.admissible
    if a is not None and b is not None and sorted(a, key=repr) != sorted(b, key=repr):
        only = [[x for x in p if x not in q] for p, q in ((a, b), (b, a))]
        return f"the admissible actions differ: only first {cut(only[0])}, only second {cut(only[1])}"
    return f"won is {state.moment.info.get(WON)} and {other.moment.info.get(WON)}"


def _fail_equal(
    explorer: Explorer,
    task: str | None,
    state: ReachedState,
    other: ReachedState,
    actions: Sequence[object],
    mismatch: str,
) -> None:
    """Raise the failure that equal keys behave differently."""
    claim = (
        "def seen(answer):\n"
        "    info = answer[4]\n"
        "    return answer[:4], sorted(info.get('admissible_actions', [])), info.get('won')\n\n\n"
        f"i, j = {len(state.prefix)}, {len(other.prefix)}\n"
        "if a[i][4]['state'] == b[j][4]['state']:\n"
        "    assert seen(a[i])[1:] == seen(b[j])[1:], (seen(a[i])[1:], seen(b[j])[1:])\n"
        "    for x, y in zip(a[i + 1 :], b[j + 1 :]):\n"
        "        assert seen(x) == seen(y), (seen(x), seen(y))"
    )
    code = _pair_script(explorer, task, claim, a=(*state.prefix, *actions), b=(*other.prefix, *actions))
    raise RuleFailed(f"two ways lead to the key {cut(state.moment.key)}, but {mismatch}", code)


def _pair_script(explorer: Explorer, task: str | None, claim: str, **runs: Sequence[Any]) -> str:
    """Return a script that plays two episodes without the turn limit."""
    code = explorer.source if explorer.source.limit is None else explorer.source.limited_code(-1)
    return script(code, task, explorer.seed, claim, runs=runs)


_NEEDS: Final = ("protocol", "group", "ends")
RULES: Final = (
    ContractRule("state-task", "the task sentence is not in the state key", state_task, _NEEDS),
    ContractRule("state-equal", "equal state keys behave alike", state_equal, _NEEDS),
    ContractRule(
        "state-different", "different state keys can be told apart", state_different, (*_NEEDS, "state-equal")
    ),
)

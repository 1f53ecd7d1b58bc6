"""Rules about steps: results, repeatability, and ends of episodes."""

from __future__ import annotations

from typing import Final

import numpy as np

from turncredit.envs.checks.contract_rule import (
    LAST,
    ContractRule,
    RuleFailed,
    RuleSkipped,
    RuleWarned,
    all_episodes,
    failed,
    options_code,
    raises,
)
from turncredit.envs.checks.episode_data import CONTRACT, ProbeEpisode, ProbeStep, cut, difference, literal, script
from turncredit.envs.checks.explorer import Explorer
from turncredit.envs.info import ADMISSIBLE, SCORE, STATE, TASK, TASK_TYPE, VALID, WON

__all__ = ["RULES"]


def protocol(explorer: Explorer) -> str:
    """reset() and step() run, and return what Gymnasium requires."""
    explorer.explore()
    episodes = all_episodes(explorer)
    return f"{len(episodes)} episodes, {sum(len(e.actions) for e in episodes):,} steps, {len(explorer.tasks)} tasks"


def info(explorer: Explorer) -> str:
    """The keys of info exist and have their types."""
    keys: set[str] = set()
    for episode in all_episodes(explorer):
        for moment in episode.moments:
            if broken := _broken_info(moment, episode.task, has_state=episode.moments[0].key is not None):
                problem, claim = broken
                claim = f"info = answers[-1][4]\nassert {claim}"
                raise failed(explorer, episode, moment.turn, f"turn {moment.turn}: {problem}", claim)
            keys |= moment.info.keys()
    missing = [key for key in (STATE, ADMISSIBLE, TASK_TYPE) if key not in keys]
    return "keys " + ", ".join(sorted(keys)) + (f"; without the optional {', '.join(missing)}" if missing else "")


def _broken_info(moment: ProbeStep, task: str | None, *, has_state: bool) -> tuple[str, str] | None:
    """Return what is wrong with an info and the assertion that it breaks, or None."""
    info, end, first = moment.info, moment.over, moment.turn == 0
    needed = [TASK, SCORE] + ([] if first else [VALID]) + ([WON] if end else []) + ([STATE] if has_state else [])
    for key in needed:
        if key not in info:
            return f"info has no {key!r}", f"{key!r} in info"
    texts = [key for key in (TASK, STATE, TASK_TYPE) if key in info]
    for key in texts:
        if not isinstance(info[key], str):
            return f"info[{key!r}] is {cut(info[key])}, not a str", f"isinstance(info[{key!r}], str)"
    for key in (VALID, WON):
        if key in info and not isinstance(info[key], (bool, np.bool_)):
            return f"info[{key!r}] is {cut(info[key])}, not a bool", f"isinstance(info[{key!r}], bool)"
    score = info[SCORE]
    if isinstance(score, bool) or not isinstance(score, (int, float, np.number)) or not 0 <= score <= 1:
        return f"info['score'] is {cut(score)}, not a number in [0, 1]", "0 <= info['score'] <= 1"
    if task is not None and info[TASK] != task:
        return f"info['task'] is {info[TASK]!r} in an episode of task {task!r}", f"info['task'] == {task!r}"
    actions = info.get(ADMISSIBLE, [])
    if not isinstance(actions, list) or len({repr(action) for action in actions}) != len(actions):
        claim = "len(set(info['admissible_actions'])) == len(info['admissible_actions'])"
        return f"info['admissible_actions'] is {cut(actions)}, not a list without repetition", claim
    return None


def spaces(explorer: Explorer) -> str:
    """Observations lie in the observation space, admissible actions in the action space."""
    env, count = explorer.env, 0
    for episode in all_episodes(explorer):
        for moment in episode.moments:
            count += 1
            if moment.observation not in env.observation_space:
                problem = f"the observation {cut(moment.observation)} is not in {env.observation_space}"
                raise failed(explorer, episode, moment.turn, problem, "assert answers[-1][0] in env.observation_space")
            for action in moment.admissible or []:
                if action not in env.action_space:
                    problem = f"the admissible action {cut(action)} is not in {env.action_space}"
                    claim = "assert all(action in env.action_space for action in answers[-1][4]['admissible_actions'])"
                    raise failed(explorer, episode, moment.turn, problem, claim)
    return f"{count:,} observations"


def kept(explorer: Explorer) -> str:
    """Returned values do not change afterwards."""
    for episode in all_episodes(explorer):
        if episode.altered:
            before = (
                f"import copy\n\nobservation, info = env.reset(seed={episode.seed}{options_code(episode.task)})\n"
                "returned = [(observation, info)]\ncopies = [copy.deepcopy(returned[-1])]\n"
                f"for action in {list(episode.actions)!r}:\n"
                "    observation, reward, terminated, truncated, info = env.step(action)\n"
                "    returned.append((observation, info))\n    copies.append(copy.deepcopy(returned[-1]))\n"
                "assert returned == copies\n"
            )
            problem = f"{episode.altered} was changed after it had been returned"
            raise RuleFailed(problem, f"{explorer.source.code}\n\n{before}")
    return f"{len(all_episodes(explorer))} episodes"


def repeatable(explorer: Explorer) -> str:
    """The same seed and task give the same episode on one instance, regardless of what was played in between."""
    if explorer.env.spec is not None and explorer.env.spec.nondeterministic:
        raise RuleSkipped("registered as nondeterministic")
    count = 0
    for episode in all_episodes(explorer):
        again = explorer.play(episode.task, episode.actions)
        count += 1
        for moment, other in zip(episode.moments, again.moments, strict=False):
            if mismatch := difference(moment, other, start=moment.turn == 0):
                mismatch = f"two episodes of the same task, seed and actions differ at turn {moment.turn}: {mismatch}"
                raise _twice(explorer, episode, moment.turn, mismatch)
        if len(again.moments) != len(episode.moments):
            raise _twice(
                explorer, episode, len(again.actions), "two episodes of the same actions have different lengths"
            )
    drawn = [explorer.play(None, [], seed=seed).last for seed in (explorer.seed, explorer.seed + 1, explorer.seed)]
    if mismatch := difference(drawn[0], drawn[2], start=True):
        code = script(explorer.source, None, explorer.seed, _SAME_START, runs={"a": [], "b": []})
        raise RuleFailed(f"reset(seed={explorer.seed}) without a task gives different starts: {mismatch}", code)
    return f"{count} episodes played again"


def _twice(explorer: Explorer, episode: ProbeEpisode, turn: int, problem: str) -> RuleFailed:
    """Return the failure that two episodes with the same actions differ, with another episode in between."""
    actions = episode.actions[:turn]
    claim = (
        "for x, y in zip(a, b):\n"
        "    assert x[:4] == y[:4], (x[:4], y[:4])\n"
        f"    assert all(x[4].get(key) == y[4].get(key) for key in {CONTRACT!r})"
    )
    runs = {"a": actions, "between": episode.actions[:1], "b": actions}
    return RuleFailed(problem, script(explorer.source, episode.task, episode.seed, claim, runs=runs))


def group(explorer: Explorer) -> str:
    """Different instances start in the same state for the same task and seed."""
    others = [explorer.source.build() for _ in range(3)]
    try:
        for task in explorer.tasks:
            first = explorer.play(task, []).last
            for number, env in enumerate(others, start=2):
                if mismatch := difference(first, explorer.play(task, [], env=env).last, start=True):
                    again = explorer.source.code.rpartition("\n")[2]
                    code = (
                        f"{explorer.source.code}\n\nstarts = []\nfor _ in range({number}):\n    {again}\n"
                        f"    observation, info = env.reset(seed={explorer.seed}{options_code(task)})\n"
                        "    starts.append((observation, info.get('state'), info.get('task')))\n"
                        "assert all(start == starts[0] for start in starts)\n"
                    )
                    raise RuleFailed(f"instance {number} starts task {task!r} differently: {mismatch}", code)
    finally:
        for env in others:
            env.close()
    return f"4 instances, {len(explorer.tasks)} tasks"


def after_end(explorer: Explorer) -> str:
    """step() before the first reset() and after the end raises."""
    probe = explorer.foreign or explorer.env.action_space.sample()
    fresh = explorer.source.build()
    try:
        early = raises(lambda: fresh.step(probe))
    finally:
        fresh.close()
    if early is None:
        code = f"{explorer.source.code}\n\ntry:\n    env.step({literal(probe)})\nexcept Exception:\n    pass\nelse:\n"
        raise RuleFailed("step() before the first reset() is answered", code + "    raise AssertionError('answered')\n")
    seen = [f"before reset: {early}"]
    for kind in ("terminated", "truncated"):
        episode = next((e for e in all_episodes(explorer) if getattr(e.last, kind)), None)
        if episode is None:
            seen.append(f"{kind}: no such end was reached")
            continue
        explorer.play(episode.task, episode.actions)
        late = raises(lambda: explorer.env.step(probe))
        if late is None:
            claim = (
                f"try:\n    env.step({literal(probe)})\nexcept Exception:\n    pass\n"
                "else:\n    raise AssertionError('answered')"
            )
            raise failed(explorer, episode, len(episode.actions), f"step() after a {kind} episode is answered", claim)
        seen.append(f"{kind}: {late}")
    return "; ".join(seen)


def ends(explorer: Explorer) -> str:
    """Terminated and truncated are distinguished."""
    counts = {"terminated": 0, "truncated": 0}
    for episode in all_episodes(explorer):
        for moment in episode.moments[1:]:
            if broken := _broken_end(moment):
                raise failed(
                    explorer, episode, moment.turn, f"turn {moment.turn}: {broken[0]}", f"{LAST}assert {broken[1]}"
                )
        counts["terminated"] += episode.last.terminated
        counts["truncated"] += episode.last.truncated
        _unexplained_end(explorer, episode)
    text = f"{counts['terminated']} terminated, {counts['truncated']} truncated"
    walks = [episode for episodes in explorer.episodes.values() for episode in episodes[explorer.has("plan") :]]
    walks = [episode for episode in walks if not episode.last.info.get(WON)]  # a win is an end for those who win
    endless = [episode for episode in walks if not episode.last.over]
    if explorer.source.limit is None and 2 * len(endless) > len(walks) and (turns := _endless(explorer, endless[0])):
        raise RuleWarned(
            f"{text}; {len(endless)} of {len(walks)} walks that did not win went on, and one on {endless[0].task!r} "
            f"did for {turns} turns; no turn limit is known: register the environment with max_episode_steps"
        )
    return text


def _endless(explorer: Explorer, walk: ProbeEpisode) -> int:
    """Return for how many turns an episode goes on with random actions that do not win; 0 if it ends."""
    episodes = explorer.episodes[walk.task]
    winning = [episode.actions[-1] for episode in episodes if episode.last.info.get(WON) and episode.actions]
    losing = dict.fromkeys(action for episode in episodes for action in episode.actions if action not in winning)
    rng, turns, actions = np.random.default_rng([explorer.seed, 43]), 10 * explorer.effort.turns, list(losing)
    longer = explorer.walk(walk.task, lambda moment, taken: actions[int(rng.integers(len(actions)))], turns)
    return 0 if longer.last.over else turns


def _broken_end(moment: ProbeStep) -> tuple[str, str] | None:
    """Return a contradiction in the flags of a step and the assertion that it breaks, or None."""
    won = bool(moment.info.get(WON, False))
    if moment.terminated and moment.truncated:
        return "both terminated and truncated", "not (terminated and truncated)"
    if won and moment.truncated:
        return "won, but truncated: a finished task cannot be truncated", "not (info['won'] and truncated)"
    if won and not moment.over:
        return "won, but the episode continues", "terminated or not info['won']"
    return None


def _unexplained_end(explorer: Explorer, episode: ProbeEpisode) -> None:
    """Fail if an action terminates an episode although it did not in the same state before."""
    last = episode.last
    if not last.terminated or last.info.get(WON) or len(episode.moments) < 2:
        return
    key, action = episode.moments[-2].key, episode.actions[-1]
    if key is None:
        return
    for turn, before in enumerate(episode.moments[:-2]):
        if before.key == key and episode.actions[turn] == action:
            problem = (
                f"{action!r} in state {cut(key)} did not end the episode at turn {turn + 1} and does at turn "
                f"{last.turn}: an end caused by the number of turns is a truncation"
            )
            claim = f"assert not answers[-1][2]  # the same state and action went on at turn {turn + 1}"
            raise failed(explorer, episode, last.turn, problem, claim)


def limit(explorer: Explorer) -> str:
    """A turn limit truncates, except for a win on the last turn."""
    if explorer.source.limit is None:
        raise RuleSkipped("the environment was not given by an id with a turn limit")
    task = explorer.tasks[0]
    idle = next(e for e in explorer.episodes[task][::-1] if e.actions)
    cases = (
        [(1, idle.actions[:1], "truncated")]
        if not explorer.play(task, idle.actions[:1], env=explorer.free).last.over
        else []
    )
    plan = (explorer.plan(task) or []) if explorer.has("plan") else []
    if plan and explorer.play(task, plan, env=explorer.free).last.terminated:
        cases.append((len(plan), tuple(plan), "terminated"))
    for turns, actions, outcome in cases:
        env = explorer.source.limited(turns)
        try:
            last = explorer.play(task, actions, env=env).last
        finally:
            env.close()
        other = "terminated" if outcome == "truncated" else "truncated"
        if not getattr(last, outcome) or getattr(last, other):
            problem = f"with a limit of {turns} turns, the last turn should be {outcome} alone, and is "
            problem += f"terminated={last.terminated}, truncated={last.truncated}"
            code = explorer.source.limited_code(turns)
            claim = f"{LAST}assert {outcome} and not {other}"
            raise RuleFailed(problem, script(code, task, explorer.seed, claim, runs={"answers": actions}))
    return f"limits of {' and '.join(str(turns) for turns, _, _ in cases)} turns"


_SAME_START: Final = "assert a[0][0] == b[0][0] and a[0][4].get('state') == b[0][4].get('state')"

RULES: Final = (
    ContractRule("protocol", "reset() and step() run and return what Gymnasium requires", protocol),
    ContractRule("info", "the keys of info exist and have their types", info, ("protocol",)),
    ContractRule("spaces", "observations and admissible actions lie in their spaces", spaces, ("protocol",)),
    ContractRule("kept", "returned values do not change afterwards", kept, ("protocol",)),
    ContractRule("repeatable", "the same task, seed and actions give the same episode", repeatable, ("protocol",)),
    ContractRule("group", "different instances start in the same state", group, ("protocol", "repeatable")),
    ContractRule("after-end", "step() before reset() and after the end raises", after_end, ("protocol", "repeatable")),
    ContractRule("ends", "terminated and truncated are distinguished", ends, ("protocol", "repeatable")),
    ContractRule("limit", "a turn limit truncates, except for a win on the last turn", limit, ("repeatable", "ends")),
)

"""The rules of the contract, one function each: it returns what was seen, or raises Failed or Skipped.

The rules about state keys are in `rules_state`. A rule looks at the episodes that the Lab has explored, and plays more
where it has to.
"""

from __future__ import annotations

import pickle
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import gymnasium
import numpy as np

from turnwise.envs.info import ADMISSIBLE, SCORE, STATE, TASK, TASK_TYPE, VALID, WON
from turnwise.envs.probe import CONTRACT, Crash, Episode, Lab, Moment, _cut, difference, same, script

__all__ = ["RULES", "Failed", "Rule", "Skipped"]


class Failed(Exception):
    """The rule is broken; `reproduce` is a script that shows it."""

    def __init__(self, detail: str, reproduce: str) -> None:
        """Keep both."""
        super().__init__(detail)
        self.reproduce = reproduce


class Skipped(Exception):
    """The rule cannot be judged here, and why."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: its name, what it says in a few words, and the rules without which it cannot be judged."""

    name: str
    says: str
    judge: Callable[[Lab], str]
    needs: tuple[str, ...] = ()


def protocol(lab: Lab) -> str:
    """reset() and step() run, and return what Gymnasium says."""
    lab.explore()
    episodes = _episodes(lab)
    return f"{len(episodes)} episodes, {sum(len(e.actions) for e in episodes):,} steps, {len(lab.tasks)} tasks"


def info(lab: Lab) -> str:
    """The keys of info are there and have their types."""
    keys: set[str] = set()
    for episode in _episodes(lab):
        for moment in episode.moments:
            if broken := _broken_info(moment, episode.task, has_state=episode.moments[0].key is not None):
                what, claim = broken
                claim = f"info = answers[-1][4]\nassert {claim}"
                raise _failed(lab, episode, moment.turn, f"turn {moment.turn}: {what}", claim)
            keys |= moment.info.keys()
    missing = [key for key in (STATE, ADMISSIBLE, TASK_TYPE) if key not in keys]
    return "keys " + ", ".join(sorted(keys)) + (f"; without the optional {', '.join(missing)}" if missing else "")


def _broken_info(moment: Moment, task: str | None, *, has_state: bool) -> tuple[str, str] | None:
    """Return what is wrong with one info, and the claim that it breaks; None when nothing is."""
    found, end, first = moment.info, moment.over, moment.turn == 0
    needed = [TASK, SCORE] + ([] if first else [VALID]) + ([WON] if end else []) + ([STATE] if has_state else [])
    for key in needed:
        if key not in found:
            return f"info has no {key!r}", f"{key!r} in info"
    texts = [key for key in (TASK, STATE, TASK_TYPE) if key in found]
    for key in texts:
        if not isinstance(found[key], str):
            return f"info[{key!r}] is {_cut(found[key])}, not a str", f"isinstance(info[{key!r}], str)"
    for key in (VALID, WON):
        if key in found and not isinstance(found[key], (bool, np.bool_)):
            return f"info[{key!r}] is {_cut(found[key])}, not a bool", f"isinstance(info[{key!r}], bool)"
    score = found[SCORE]
    if isinstance(score, bool) or not isinstance(score, (int, float, np.number)) or not 0 <= score <= 1:
        return f"info['score'] is {_cut(score)}, not a number in [0, 1]", "0 <= info['score'] <= 1"
    if task is not None and found[TASK] != task:
        return f"info['task'] is {found[TASK]!r} in an episode of task {task!r}", f"info['task'] == {task!r}"
    actions = found.get(ADMISSIBLE, [])
    if not isinstance(actions, list) or len({repr(action) for action in actions}) != len(actions):
        claim = "len(set(info['admissible_actions'])) == len(info['admissible_actions'])"
        return f"info['admissible_actions'] is {_cut(actions)}, not a list without repetition", claim
    return None


def spaces(lab: Lab) -> str:
    """Observations lie in the observation space, admissible actions in the action space."""
    env, count = lab.env, 0
    for episode in _episodes(lab):
        for moment in episode.moments:
            count += 1
            if moment.observation not in env.observation_space:
                what = f"the observation {_cut(moment.observation)} is not in {env.observation_space}"
                raise _failed(lab, episode, moment.turn, what, "assert answers[-1][0] in env.observation_space")
            for action in moment.admissible or []:
                if action not in env.action_space:
                    what = f"the admissible action {_cut(action)} is not in {env.action_space}"
                    claim = "assert all(action in env.action_space for action in answers[-1][4]['admissible_actions'])"
                    raise _failed(lab, episode, moment.turn, what, claim)
    return f"{count:,} observations"


def kept(lab: Lab) -> str:
    """What was returned does not change afterwards."""
    for episode in _episodes(lab):
        if episode.altered:
            before = (
                f"import copy\n\nobservation, info = env.reset(seed={episode.seed}{_options_code(episode.task)})\n"
                "returned = [(observation, info)]\ncopies = [copy.deepcopy(returned[-1])]\n"
                f"for action in {list(episode.actions)!r}:\n"
                "    observation, reward, terminated, truncated, info = env.step(action)\n"
                "    returned.append((observation, info))\n    copies.append(copy.deepcopy(returned[-1]))\n"
                "assert returned == copies\n"
            )
            what = f"{episode.altered} was changed after it had been returned, so that whoever kept it has another"
            raise Failed(what, f"{lab.source.code}\n\n{before}")
    return f"{len(_episodes(lab))} episodes"


def repeatable(lab: Lab) -> str:
    """The same seed and task give the same episode, on one instance, whatever was played between."""
    if lab.env.spec is not None and lab.env.spec.nondeterministic:
        raise Skipped("registered as nondeterministic")
    count = 0
    for episode in _episodes(lab):
        again = lab.play(episode.task, episode.actions)
        count += 1
        for one, other in zip(episode.moments, again.moments, strict=False):
            if what := difference(one, other, start=one.turn == 0):
                what = f"two episodes of the same task, seed and actions differ at turn {one.turn}: {what}"
                raise _twice(lab, episode, one.turn, what)
        if len(again.moments) != len(episode.moments):
            raise _twice(lab, episode, len(again.actions), "two episodes of the same actions have different lengths")
    drawn = [lab.play(None, [], seed=seed).last for seed in (lab.seed, lab.seed + 1, lab.seed)]
    if what := difference(drawn[0], drawn[2], start=True):
        code = script(lab.source, None, lab.seed, _SAME_START, runs={"a": [], "b": []})
        raise Failed(f"reset(seed={lab.seed}) without a task gives different starts: {what}", code)
    return f"{count} episodes played again"


def group(lab: Lab) -> str:
    """Instances made apart start in the same state for the same task and seed."""
    others = [lab.source.build() for _ in range(3)]
    try:
        for task in lab.tasks:
            first = lab.play(task, []).last
            for number, env in enumerate(others, start=2):
                if what := difference(first, lab.play(task, [], env=env).last, start=True):
                    again = lab.source.code.rpartition("\n")[2]
                    code = (
                        f"{lab.source.code}\n\nstarts = []\nfor _ in range({number}):\n    {again}\n"
                        f"    observation, info = env.reset(seed={lab.seed}{_options_code(task)})\n"
                        "    starts.append((observation, info.get('state'), info.get('task')))\n"
                        "assert all(start == starts[0] for start in starts)\n"
                    )
                    raise Failed(f"instance {number} starts task {task!r} differently: {what}", code)
    finally:
        for env in others:
            env.close()
    return f"4 instances, {len(lab.tasks)} tasks"


def after_end(lab: Lab) -> str:
    """step() before the first reset() and after the end raises."""
    probe = lab.foreign or lab.env.action_space.sample()
    fresh = lab.source.build()
    try:
        early = _raises(lambda: fresh.step(probe))
    finally:
        fresh.close()
    if early is None:
        code = f"{lab.source.code}\n\ntry:\n    env.step({probe!r})\nexcept Exception:\n    pass\nelse:\n"
        raise Failed("step() before the first reset() is answered", code + "    raise AssertionError('answered')\n")
    seen = [f"before reset: {early}"]
    for kind in ("terminated", "truncated"):
        episode = next((e for e in _episodes(lab) if getattr(e.last, kind)), None)
        if episode is None:
            seen.append(f"{kind}: no such end was reached")
            continue
        lab.play(episode.task, episode.actions)
        late = _raises(lambda: lab.env.step(probe))
        if late is None:
            claim = (
                f"try:\n    env.step({probe!r})\nexcept Exception:\n    pass\n"
                "else:\n    raise AssertionError('answered')"
            )
            raise _failed(lab, episode, len(episode.actions), f"step() after a {kind} episode is answered", claim)
        seen.append(f"{kind}: {late}")
    return "; ".join(seen)


def ends(lab: Lab) -> str:
    """Terminated and truncated are told apart."""
    counts = {"terminated": 0, "truncated": 0}
    for episode in _episodes(lab):
        for moment in episode.moments[1:]:
            if broken := _broken_end(moment):
                raise _failed(
                    lab, episode, moment.turn, f"turn {moment.turn}: {broken[0]}", f"{_LAST}assert {broken[1]}"
                )
        counts["terminated"] += episode.last.terminated
        counts["truncated"] += episode.last.truncated
        _unexplained_end(lab, episode)
    limits = _chosen_limits(lab)
    return f"{counts['terminated']} terminated, {counts['truncated']} truncated" + limits


def _broken_end(moment: Moment) -> tuple[str, str] | None:
    """Return what contradicts itself in the flags of one step, and the claim that it breaks."""
    won = bool(moment.info.get(WON, False))
    if moment.terminated and moment.truncated:
        return "both terminated and truncated", "not (terminated and truncated)"
    if won and moment.truncated:
        return "won, but truncated: a finished task has nothing left to cut", "not (info['won'] and truncated)"
    if won and not moment.over:
        return "won, but the episode goes on", "terminated or not info['won']"
    return None


def _unexplained_end(lab: Lab, episode: Episode) -> None:
    """Fail when an episode is `terminated` by an action that did not end it in the very same state before."""
    last = episode.last
    if not last.terminated or last.info.get(WON) or len(episode.moments) < 2:
        return
    key, action = episode.moments[-2].key, episode.actions[-1]
    if key is None:
        return
    for turn, before in enumerate(episode.moments[:-2]):
        if before.key == key and episode.actions[turn] == action:
            what = (
                f"{action!r} in state {_cut(key)} did not end the episode at turn {turn + 1} and does at turn "
                f"{last.turn}: an end that comes from the count of turns is truncated, not terminated"
            )
            claim = f"assert not answers[-1][2]  # the same state and action went on at turn {turn + 1}"
            raise _failed(lab, episode, last.turn, what, claim)


def _chosen_limits(lab: Lab) -> str:
    """Where the turn limit can be chosen: let it cut an episode, and let it fall on the winning turn."""
    if lab.source.limit is None:
        return ""
    task = lab.tasks[0]
    idle = next(e for e in lab.episodes[task][::-1] if e.actions)
    cases = [(1, idle.actions[:1], "truncated")] if not lab.play(task, idle.actions[:1], env=lab.free).last.over else []
    plan = lab.plan(task) if lab.has("plan") else []
    if plan and lab.play(task, plan, env=lab.free).last.terminated:
        cases.append((len(plan), tuple(plan), "terminated"))
    for turns, actions, wanted in cases:
        env = lab.source.limited(turns)
        try:
            last = lab.play(task, actions, env=env).last
        finally:
            env.close()
        other = "terminated" if wanted == "truncated" else "truncated"
        if not getattr(last, wanted) or getattr(last, other):
            what = f"with a limit of {turns} turns, the last turn should be {wanted} alone, and is "
            what += f"terminated={last.terminated}, truncated={last.truncated}"
            code = lab.source.limited_code(turns)
            claim = f"{_LAST}assert {wanted} and not {other}"
            raise Failed(what, script(code, task, lab.seed, claim, runs={"answers": actions}))
    return f"; {len(cases)} chosen limits"


def tasks(lab: Lab) -> str:
    """task_ids() lists the same distinct ids every time, and each can be played."""
    if not lab.has("task_ids"):
        raise Skipped("the environment has no task_ids()")
    ids, again, first = lab.task_ids(), lab.task_ids(), lab.task_ids(None, 2)
    fresh = lab.source.build()
    apart = lab.task_ids(fresh)
    fresh.close()
    call = "env.get_wrapper_attr('task_ids')"
    texts = isinstance(ids, list) and all(isinstance(task, str) for task in ids)
    checks = [
        (texts and bool(ids), "does not return a list of one or more str", f"assert isinstance({call}()[0], str)"),
        (texts and len(set(ids)) == len(ids), "repeats ids", f"assert len(set({call}())) == len({call}())"),
        (ids == again, "differs between two calls", f"assert {call}() == {call}()"),
        (ids == apart, "differs between two instances", f"ids = {call}()\n{_last_line(lab)}\nassert {call}() == ids"),
        (ids[:2] == first, "with count=2 is not its beginning", f"assert {call}(2) == {call}()[:2]"),
    ]
    for fine, what, claim in checks:
        if not fine:
            raise Failed(f"task_ids() {what}", f"{lab.source.code}\n\n{claim}\n")
    for task in ids[:: max(1, len(ids) // 5)]:
        start = lab.play(task, []).last
        if start.info.get(TASK) != task:
            code = script(lab.source, task, lab.seed, f"assert a[0][4]['task'] == {task!r}", runs={"a": []})
            raise Failed(f"reset() to task {task!r} starts {start.info.get(TASK)!r}", code)
    return f"{len(ids):,} ids"


def unknown_task(lab: Lab) -> str:
    """A task that does not exist is refused, by a message that names it, and leaves the environment usable."""
    if not lab.has("task_ids"):
        raise Skipped("the environment has no task_ids(), so no id is known to be wrong")
    wrong = "no such task 0"
    lab.play(lab.tasks[0], [])
    message = _raises(lambda: lab.env.reset(seed=lab.seed, options={"task": wrong}), full=True)
    code = (
        f"{lab.source.code}\n\ntry:\n    env.reset(seed={lab.seed}, options={{'task': {wrong!r}}})\n"
        f"except Exception as error:\n    assert {wrong!r} in str(error), error\n"
        "else:\n    raise AssertionError('accepted')\n"
    )
    if message is None:
        raise Failed("reset() to a task that does not exist is accepted", code)
    if wrong not in message:
        raise Failed(f"the error for an unknown task does not name it: {message}", code)
    lab.play(lab.tasks[0], [])
    return message


def plan(lab: Lab) -> str:
    """plan() wins, from the start and from elsewhere, and is empty after the win."""
    if not lab.has("plan"):
        raise Skipped("the environment has no plan()")
    count = 0
    for task in lab.tasks:
        prefixes = {e.actions[: len(e.actions) // 2] for e in lab.episodes[task]} | {()}
        for prefix in sorted(prefixes, key=lambda actions: (len(actions), repr(actions))):
            if lab.play(task, prefix, env=lab.free).last.over:
                continue
            actions = lab.plan(task, prefix)
            end = lab.play(task, [*prefix, *actions], env=lab.free)
            count += 1
            if not (end.last.info.get(WON) and (end.last.terminated or not actions)):
                claim = f"assert answers[-1][4]['won']  # plan() after {list(prefix)!r} was {actions!r}"
                what = f"the plan of {len(actions)} actions after {len(prefix)} turns of {task!r} does not win"
                raise Failed(what, _free_script(lab, task, claim, end.actions))
            left = lab.free.get_wrapper_attr("plan")()
            if left != []:
                claim = "assert env.get_wrapper_attr('plan')() == []"
                raise Failed(
                    f"plan() after the win is {_cut(left)}, not []", _free_script(lab, task, claim, end.actions)
                )
    return f"{count} plans won"


def admissible(lab: Lab) -> str:
    """Every admissible action is valid when taken, and one that is not listed is not."""
    taken, refused = 0, 0
    rng = np.random.default_rng(lab.seed)
    for task, episodes in lab.episodes.items():
        spots = _spots(episodes, lab.effort.states)
        everything = sorted({a for e in episodes for m in e.moments for a in m.admissible or []}, key=repr)
        if not everything:
            raise Skipped(f"info has no {ADMISSIBLE!r}")
        for prefix, moment in spots:
            for action, after in lab.fan(task, prefix, moment):
                taken += 1
                if after.info.get(VALID) is not None and not after.info[VALID]:
                    claim = "assert answers[-1][4]['valid']"
                    what = f"{action!r} is listed as admissible after {len(prefix)} turns, and is not valid when taken"
                    raise Failed(what, _free_script(lab, task, claim, [*prefix, action]))
            unlisted = [action for action in everything if action not in (moment.admissible or [])]
            for index in rng.permutation(len(unlisted))[:3]:
                action = unlisted[int(index)]
                refused += 1
                if lab.play(task, [*prefix, action], env=lab.free).last.info.get(VALID):
                    claim = "assert not answers[-1][4]['valid'] or {0!r} in answers[-2][4]['admissible_actions']"
                    what = f"{action!r} is accepted as valid after {len(prefix)} turns, where it is not listed"
                    raise Failed(what, _free_script(lab, task, claim.format(action), [*prefix, action]))
    return f"{taken:,} listed actions taken, {refused} unlisted ones tried"


def refused(lab: Lab) -> str:
    """What the environment cannot understand is answered, and is not valid."""
    if lab.foreign is None:
        raise Skipped(f"actions are no texts, but {lab.env.action_space}")
    odd = [lab.foreign, "", "\0\n\t", "é語🙂" * 50, "go " * 3000]
    for task in lab.tasks:
        for action in (text for text in odd if text in lab.env.action_space):
            last = lab.play(task, [action], env=lab.free).last
            if VALID not in last.info:
                raise Skipped(f"info has no {VALID!r}")
            if last.info[VALID]:
                claim = "assert not answers[-1][4]['valid']"
                raise Failed(f"{_cut(action)} counts as valid", _free_script(lab, task, claim, [action]))
    return f"{len(odd)} texts on {len(lab.tasks)} tasks"


def pickling(lab: Lab) -> str:
    """Observations, info and spec survive pickling; a restored instance goes on as the original does."""
    episode = max(_episodes(lab), key=lambda e: len(e.actions))
    for moment in episode.moments:
        for name, value, at in (("observation", moment.observation, 0), ("info", moment.info, 4)):
            problem = _pickle_problem(value)
            if problem:
                claim = f"import pickle\n\nassert pickle.loads(pickle.dumps(answers[-1][{at}])) == answers[-1][{at}]"
                raise _failed(lab, episode, moment.turn, f"the {name} of turn {moment.turn} {problem}", claim)
    if lab.env.spec is not None and (problem := _pickle_problem(lab.env.spec)):
        code = f"import pickle\n\n{lab.source.code}\n\nassert pickle.loads(pickle.dumps(env.spec)) == env.spec\n"
        raise Failed(f"the spec {problem}", code)
    half = len(episode.actions) // 2
    lab.play(episode.task, episode.actions[:half])
    try:
        frozen = pickle.dumps(lab.env)
    except Exception as error:
        return f"observations, info and spec; an instance does not pickle ({type(error).__name__}: {error})"
    what = _restored_differs(frozen, episode, half)
    if what:
        claim = (
            "import pickle\n\n"
            f"restored = pickle.loads(pickle.dumps(env))\nfor action in {list(episode.actions[half:])!r}:\n"
            "    one, other = env.step(action), restored.step(action)\n"
            "    assert one[:4] == other[:4] and one[4].get('state') == other[4].get('state')"
        )
        raise _failed(lab, episode, half, f"an instance pickled at turn {half} goes on differently: {what}", claim)
    return f"an instance pickled at turn {half} of {len(episode.actions)} went on as the original"


def _restored_differs(frozen: bytes, episode: Episode, half: int) -> str | None:
    """Return how a restored instance departs from the episode; None when it goes on alike."""
    try:
        env: gymnasium.Env[Any, Any] = pickle.loads(frozen)
        for turn, action in enumerate(episode.actions[half:], start=half + 1):
            observation, reward, terminated, truncated, found = env.step(action)
            other = Moment(turn, observation, reward, bool(terminated), bool(truncated), found)
            if what := difference(episode.moments[turn], other):
                return f"at turn {turn}, {what}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def _pickle_problem(value: Any) -> str | None:
    """Return what pickling does to a value; None when it comes back equal."""
    try:
        again = pickle.loads(pickle.dumps(value))
    except Exception as error:
        return f"does not pickle ({type(error).__name__}: {error})"
    return None if same(again, value) else "comes back from pickling as something else"


_LONG: Final = 120
_SHORTEST: Final = 16


def growth(lab: Lab) -> str:
    """Observations do not grow without bound over a long episode."""
    if not isinstance(lab.episodes[lab.tasks[0]][0].moments[0].observation, str):
        raise Skipped("observations are no texts")
    best = max((_long_walk(lab, task) for task in lab.tasks), key=lambda e: len(e.actions))
    lengths = [len(moment.observation) for moment in best.moments[1:]]
    if len(lengths) < _SHORTEST:
        raise Skipped(f"no episode of {_SHORTEST} turns or more was found, the longest had {len(lengths)}")
    size = len(lengths) // 4
    quarters = [statistics.median(lengths[i * size : (i + 1) * size]) for i in range(4)]
    rising = all(a < b for a, b in pairwise(quarters))
    text = f"{len(lengths)} turns, quarter medians {', '.join(f'{q:g}' for q in quarters)} characters"
    # Twice as long and longer in every quarter: what repeats its own history does that, and places met at random do not.
    if rising and quarters[-1] >= 2 * quarters[0]:
        claim = f"n = [len(a[0]) for a in answers[1:]]\nassert sum(n[-{size}:]) < 2 * sum(n[:{size}]), n"
        raise Failed(
            f"observations grow with the number of turns: {text}", _free_script(lab, best.task, claim, best.actions)
        )
    return f"{text}, longest {max(lengths):,}"


def _long_walk(lab: Lab, task: str | None) -> Episode:
    """Return the longest of some random episodes which avoid the actions that ended the ones before."""
    fatal: set[tuple[Any, Any]] = set()
    best: Episode | None = None
    for attempt in range(12):
        rng = np.random.default_rng([lab.seed, attempt])
        choose = lab.chooser(rng)

        def careful(moment: Moment, taken: int, choose: Callable[[Moment, int], Any] = choose) -> Any:
            for _ in range(8):
                action = choose(moment, taken)
                if (moment.key, action) not in fatal:
                    return action
            return lab.foreign

        episode = lab.walk(task, careful, _LONG, env=lab.free)
        if best is None or len(episode.actions) > len(best.actions):
            best = episode
        if not episode.last.over:
            break
        fatal.add((episode.moments[-2].key, episode.actions[-1]))
    assert best is not None
    return best


def close(lab: Lab) -> str:
    """close() may be called twice, also on an instance that was never reset."""
    env = lab.source.build()
    for call in ("first", "second"):
        if message := _raises(env.close):
            raise Failed(f"the {call} close() raised {message}", f"{lab.source.code}\n\nenv.close()\nenv.close()\n")
    return "twice"


_LAST: Final = "observation, reward, terminated, truncated, info = answers[-1]\n"
_SAME_START: Final = "assert a[0][0] == b[0][0] and a[0][4].get('state') == b[0][4].get('state')"


def _episodes(lab: Lab) -> list[Episode]:
    """Return all explored episodes."""
    return [episode for episodes in lab.episodes.values() for episode in episodes]


def _failed(lab: Lab, episode: Episode, turn: int, what: str, claim: str) -> Failed:
    """Return the failure of a rule at one turn of an episode; `claim` speaks of `answers`."""
    code = script(lab.source, episode.task, episode.seed, claim, runs={"answers": episode.actions[:turn]})
    return Failed(what, code)


def _free_script(lab: Lab, task: str | None, claim: str, actions: Sequence[Any]) -> str:
    """Return a script that plays without the turn limit."""
    code = lab.source if lab.source.limit is None else lab.source.limited_code(-1)
    return script(code, task, lab.seed, claim, runs={"answers": actions})


def _twice(lab: Lab, episode: Episode, turn: int, what: str) -> Failed:
    """Return the failure that two plays of the same actions differ; between them lies another episode."""
    actions = episode.actions[:turn]
    claim = (
        "for x, y in zip(a, b):\n"
        "    assert x[:4] == y[:4], (x[:4], y[:4])\n"
        f"    assert all(x[4].get(key) == y[4].get(key) for key in {CONTRACT!r})"
    )
    runs = {"a": actions, "between": episode.actions[:1], "b": actions}
    return Failed(what, script(lab.source, episode.task, episode.seed, claim, runs=runs))


def _raises(call: Callable[[], Any], *, full: bool = False) -> str | None:
    """Return what a call raises, by name or in full; None when it returns."""
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}" if full else type(error).__name__
    return None


def _options_code(task: str | None) -> str:
    """Return the code of the options of reset() for a task."""
    return "" if task is None else f", options={{'task': {task!r}}}"


def _last_line(lab: Lab) -> str:
    """Return the line of code that makes an instance."""
    return lab.source.code.rpartition("\n")[2]


def _spots(episodes: Sequence[Episode], most: int) -> list[tuple[tuple[Any, ...], Moment]]:
    """Return moments that are not ends, of different states where there are keys, spread over the episodes."""
    found: dict[Any, tuple[tuple[Any, ...], Moment]] = {}
    for episode in episodes:
        for moment in episode.moments:
            if not moment.over:
                key = moment.key if moment.key is not None else episode.actions[: moment.turn]
                found.setdefault(key, (episode.actions[: moment.turn], moment))
    spots = list(found.values())
    return spots[:: max(1, -(-len(spots) // most))]


def crashed(lab: Lab, crash: Crash) -> Failed:
    """Return a crash as the failure of the rule during which it came."""
    code = script(lab.source, crash.task, crash.seed, crash.claim, runs={"answers": crash.actions})
    return Failed(str(crash), code)


RULES: Final = (
    Rule("protocol", "reset() and step() run and return what Gymnasium says", protocol),
    Rule("info", "the keys of info are there and have their types", info, ("protocol",)),
    Rule("spaces", "observations and admissible actions lie in their spaces", spaces, ("protocol",)),
    Rule("kept", "what was returned does not change afterwards", kept, ("protocol",)),
    Rule("repeatable", "the same task, seed and actions give the same episode", repeatable, ("protocol",)),
    Rule("group", "instances made apart start in the same state", group, ("protocol", "repeatable")),
    Rule("after-end", "step() before reset() and after the end raises", after_end, ("protocol", "repeatable")),
    Rule("ends", "terminated and truncated are told apart", ends, ("protocol", "repeatable")),
    Rule("tasks", "task_ids() lists tasks that can be played", tasks, ("protocol",)),
    Rule("unknown-task", "a task that does not exist is refused by name", unknown_task, ("protocol",)),
    Rule("plan", "plan() wins from anywhere", plan, ("protocol", "repeatable")),
    Rule("admissible", "listed actions are valid, others are not", admissible, ("protocol", "info", "repeatable")),
    Rule("refused", "what is not understood is answered and not valid", refused, ("protocol",)),
    Rule("pickling", "observations, info, spec and instances survive pickling", pickling, ("protocol", "repeatable")),
    Rule("growth", "observations do not grow with the number of turns", growth, ("protocol",)),
    Rule("close", "close() may be called twice", close),
)

"""The rules about what an environment offers beside its steps: tasks, a plan, admissible actions."""

from __future__ import annotations

from typing import Final

import numpy as np

from turnwise.envs.checks.base import Failed, Rule, Skipped, free_script, last_line, raises, states_seen
from turnwise.envs.checks.lab import Lab
from turnwise.envs.checks.probe import cut, script
from turnwise.envs.info import ADMISSIBLE, FREE, TASK, VALID, WON, fits

__all__ = ["RULES"]


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
        (ids == apart, "differs between two instances", f"ids = {call}()\n{last_line(lab)}\nassert {call}() == ids"),
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
    message = raises(lambda: lab.env.reset(seed=lab.seed, options={"task": wrong}), full=True)
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
    count, stuck = 0, 0
    for task in lab.tasks:
        prefixes = {e.actions[: len(e.actions) // 2] for e in lab.episodes[task]} | {()}
        for prefix in sorted(prefixes, key=lambda actions: (len(actions), repr(actions))):
            if lab.play(task, prefix, env=lab.free).last.over:
                continue
            actions = lab.plan(task, prefix, strict=True)
            if actions is None:
                stuck += 1
                continue
            end = lab.play(task, [*prefix, *actions], env=lab.free)
            count += 1
            if not (end.last.info.get(WON) and (end.last.terminated or not actions)):
                claim = (
                    "for action in env.get_wrapper_attr('plan')():\n    answers.append(env.step(action))\n"
                    "assert answers[-1][4]['won']"
                )
                what = f"the plan of {len(actions)} actions after {len(prefix)} turns of {task!r} does not win"
                raise Failed(what, free_script(lab, task, claim, prefix))
            left = lab.free.get_wrapper_attr("plan")()
            if left != []:
                claim = "assert env.get_wrapper_attr('plan')() == []"
                raise Failed(f"plan() after the win is {cut(left)}, not []", free_script(lab, task, claim, end.actions))
    return f"{count} plans won" + (f"; {stuck} times it said that no way leads from there" if stuck else "")


def expert(lab: Lab) -> str:
    """An agent that follows plan() wins: its limits, its parser and the listed admissible actions allow it."""
    if lab.play_expert is None:
        raise Skipped("no agent was given that could follow plan(); `turnwise check` gives one")
    if not lab.has("plan") or lab.foreign is None or not all(lab.tasks):
        raise Skipped("the environment has no plan(), no task_ids(), or actions that are not text")
    name, module = lab.play_expert.__name__, lab.play_expert.__module__
    for task in filter(None, lab.tasks):
        won, actions = lab.play_expert(lab.source.build, task, lab.seed)
        if not won:
            code = (
                f"from {module} import {name}\n\n{lab.source.code}\n\n"
                f"won, actions = {name}(lambda: env, {task!r}, {lab.seed})\nassert won, actions\n"
            )
            what = f"an agent that follows plan() does not win {task!r}: it took {cut(actions)}, the plan is "
            raise Failed(what + cut(lab.plan(task)), code)
    return f"won {len(lab.tasks)} tasks"


def admissible(lab: Lab) -> str:
    """Every admissible action is valid when taken, and one that is not listed is not."""
    taken, refused = 0, 0
    rng = np.random.default_rng(lab.seed)
    for task, episodes in lab.episodes.items():
        spots = states_seen(episodes, lab.effort.states)
        everything = sorted({a for e in episodes for m in e.moments for a in m.admissible or []}, key=repr)
        if not everything:
            raise Skipped(f"info has no {ADMISSIBLE!r}")
        for prefix, moment in spots:
            for action, after in lab.fan(task, prefix, moment):
                taken += 1
                if after.info.get(VALID) is not None and not after.info[VALID]:
                    claim = f"assert answers[-1][4]['valid'] or {action!r} not in answers[-2][4]['admissible_actions']"
                    what = f"{action!r} is listed as admissible after {len(prefix)} turns, and is not valid when taken"
                    raise Failed(what, free_script(lab, task, claim, [*prefix, action]))
            # Of actions whose text is free, a list can hold examples only.
            free = moment.info.get(FREE) or []
            unlisted = [a for a in everything if a not in (moment.admissible or []) and not fits(str(a), free)]
            for index in rng.permutation(len(unlisted))[:3]:
                action = unlisted[int(index)]
                refused += 1
                if lab.play(task, [*prefix, action], env=lab.free).last.info.get(VALID):
                    claim = "assert not answers[-1][4]['valid'] or {0!r} in answers[-2][4]['admissible_actions']"
                    what = f"{action!r} is accepted as valid after {len(prefix)} turns, where it is not listed"
                    raise Failed(what, free_script(lab, task, claim.format(action), [*prefix, action]))
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
                raise Failed(f"{cut(action)} counts as valid", free_script(lab, task, claim, [action]))
    return f"{len(odd)} texts on {len(lab.tasks)} tasks"


RULES: Final = (
    Rule("tasks", "task_ids() lists tasks that can be played", tasks, ("protocol",)),
    Rule("unknown-task", "a task that does not exist is refused by name", unknown_task, ("protocol",)),
    Rule("plan", "plan() wins from anywhere", plan, ("protocol", "group")),
    Rule("expert", "an agent that follows plan() wins", expert, ("protocol", "group", "plan")),
    Rule("admissible", "listed actions are valid, others are not", admissible, ("protocol", "group")),
    Rule("refused", "what is not understood is answered and not valid", refused, ("protocol",)),
)

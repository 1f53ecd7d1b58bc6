"""Rules about tasks, plans and admissible actions."""

from __future__ import annotations

from typing import Final

import numpy as np

from turncredit.envs.checks.contract_rule import (
    ContractRule,
    RuleFailed,
    RuleSkipped,
    free_script,
    last_line,
    raises,
    states_seen,
)
from turncredit.envs.checks.episode_data import cut, script
from turncredit.envs.checks.explorer import Explorer
from turncredit.envs.info import ADMISSIBLE, FREE, TASK, VALID, WON, fits

__all__ = ["RULES"]


def tasks(explorer: Explorer) -> str:
    """task_ids() lists the same distinct ids every time, and each can be played."""
    if not explorer.has("task_ids"):
        raise RuleSkipped("the environment has no task_ids()")
    ids, again, first = explorer.task_ids(), explorer.task_ids(), explorer.task_ids(None, 2)
    fresh = explorer.source.build()
    apart = explorer.task_ids(fresh)
    fresh.close()
    call = "env.get_wrapper_attr('task_ids')"
    texts = isinstance(ids, list) and all(isinstance(task, str) for task in ids)
    checks = [
        (texts and bool(ids), "does not return a list of one or more str", f"assert isinstance({call}()[0], str)"),
        (texts and len(set(ids)) == len(ids), "repeats ids", f"assert len(set({call}())) == len({call}())"),
        (ids == again, "differs between two calls", f"assert {call}() == {call}()"),
        (
            ids == apart,
            "differs between two instances",
            f"ids = {call}()\n{last_line(explorer)}\nassert {call}() == ids",
        ),
        (ids[:2] == first, "with count=2 is not its beginning", f"assert {call}(2) == {call}()[:2]"),
    ]
    for fine, problem, claim in checks:
        if not fine:
            raise RuleFailed(f"task_ids() {problem}", f"{explorer.source.code}\n\n{claim}\n")
    for task in ids[:: max(1, len(ids) // 5)]:
        start = explorer.play(task, []).last
        if start.info.get(TASK) != task:
            code = script(explorer.source, task, explorer.seed, f"assert a[0][4]['task'] == {task!r}", runs={"a": []})
            raise RuleFailed(f"reset() to task {task!r} starts {start.info.get(TASK)!r}", code)
    return f"{len(ids):,} ids"


def unknown_task(explorer: Explorer) -> str:
    """An unknown task is refused with a message that names it, and the environment stays usable."""
    if not explorer.has("task_ids"):
        raise RuleSkipped("the environment has no task_ids(), so an unknown id cannot be chosen")
    wrong = "no such task 0"
    explorer.play(explorer.tasks[0], [])
    message = raises(lambda: explorer.env.reset(seed=explorer.seed, options={"task": wrong}), full=True)
    code = (
        f"{explorer.source.code}\n\ntry:\n    env.reset(seed={explorer.seed}, options={{'task': {wrong!r}}})\n"
        f"except Exception as error:\n    assert {wrong!r} in str(error), error\n"
        "else:\n    raise AssertionError('accepted')\n"
    )
    if message is None:
        raise RuleFailed("reset() to a task that does not exist is accepted", code)
    if wrong not in message:
        raise RuleFailed(f"the error for an unknown task does not name it: {message}", code)
    explorer.play(explorer.tasks[0], [])
    return message


def plan(explorer: Explorer) -> str:
    """plan() wins, from the start and from elsewhere, and is empty after the win."""
    if not explorer.has("plan"):
        raise RuleSkipped("the environment has no plan()")
    count, stuck, late = 0, 0, 0
    for task in explorer.tasks:
        prefixes = {e.actions[: len(e.actions) // 2] for e in explorer.episodes[task]} | {()}
        for prefix in sorted(prefixes, key=lambda actions: (len(actions), repr(actions))):
            if explorer.play(task, prefix, env=explorer.free).last.over:
                continue
            actions = explorer.plan(task, prefix, strict=True)
            if actions is None:
                stuck += 1
                continue
            end = explorer.play(task, [*prefix, *actions], env=explorer.free)
            if prefix and end.last.truncated and not end.last.terminated:
                late += 1  # a turn limit of its own, such as that of a part of a mixture, came first
                continue
            count += 1
            if not (end.last.info.get(WON) and (end.last.terminated or not actions)):
                claim = (
                    "for action in env.get_wrapper_attr('plan')():\n    answers.append(env.step(action))\n"
                    "assert answers[-1][4]['won']"
                )
                problem = f"the plan of {len(actions)} actions after {len(prefix)} turns of {task!r} does not win"
                raise RuleFailed(problem, free_script(explorer, task, claim, prefix))
            left = explorer.free.get_wrapper_attr("plan")()
            if left != []:
                claim = "assert env.get_wrapper_attr('plan')() == []"
                raise RuleFailed(
                    f"plan() after the win is {cut(left)}, not []", free_script(explorer, task, claim, end.actions)
                )
    count += _more_plans(explorer)
    if not count:
        raise RuleSkipped("plan() says of all tasks that nobody can plan for them")
    notes = [f"; {stuck} times it said that success cannot be reached"] if stuck else []
    notes += [f"; {late} times the turn limit came first"] if late else []
    return f"{count} plans won{''.join(notes)}"


def _more_plans(explorer: Explorer) -> int:
    """Play the plans of further tasks from the start, and return how many there were."""
    count = 0
    for task in explorer.further_tasks:
        actions = explorer.plan(task, strict=True) if task not in explorer.tasks else None
        if actions is None:
            continue
        last = explorer.play(task, actions, env=explorer.free).last
        count += 1
        if not last.info.get(WON) and not (last.truncated and not last.terminated):
            problem = (
                f"the plan of {len(actions)} actions for {task!r} does not win, as those of {count - 1} other tasks did"
            )
            raise RuleFailed(problem, free_script(explorer, task, "assert answers[-1][4]['won']", actions))
    return count


def expert(explorer: Explorer) -> str:
    """An agent that follows plan() wins: its limits, its parser and the listed admissible actions allow it."""
    if explorer.play_expert is None:
        raise RuleSkipped("no agent that follows plan() was passed; `turncredit check` passes one")
    if not explorer.has("plan") or explorer.foreign is None or not all(explorer.tasks):
        raise RuleSkipped("the environment has no plan(), no task_ids(), or actions that are not text")
    name, module = explorer.play_expert.__name__, explorer.play_expert.__module__
    tasks = [task for task in explorer.tasks if task is not None and explorer.plan(task) is not None]
    if not tasks:
        raise RuleSkipped("plan() says of all tasks that nobody can plan for them")
    for task in tasks:
        won, actions = explorer.play_expert(explorer.source.build, task, explorer.seed)
        if not won:
            code = (
                f"from {module} import {name}\n\n{explorer.source.code}\n\n"
                f"won, actions = {name}(lambda: env, {task!r}, {explorer.seed})\nassert won, actions\n"
            )
            problem = f"an agent that follows plan() does not win {task!r}: it took {cut(actions)}, the plan is "
            raise RuleFailed(problem + cut(explorer.plan(task)), code)
    return f"won {len(tasks)} tasks"


def admissible(explorer: Explorer) -> str:
    """Every admissible action is valid when taken, and one that is not listed is not."""
    taken, refused = 0, 0
    rng = np.random.default_rng(explorer.seed)
    for task, episodes in explorer.episodes.items():
        spots = states_seen(episodes, explorer.effort.states)
        everything = sorted({a for e in episodes for m in e.moments for a in m.admissible or []}, key=repr)
        if not everything:
            raise RuleSkipped(f"info has no {ADMISSIBLE!r}")
        for prefix, moment in spots:
            for action, after in explorer.fan(task, prefix, moment):
                taken += 1
                if after.info.get(VALID) is not None and not after.info[VALID]:
                    claim = f"assert answers[-1][4]['valid'] or {action!r} not in answers[-2][4]['admissible_actions']"
                    problem = (
                        f"{action!r} is listed as admissible after {len(prefix)} turns, and is not valid when taken"
                    )
                    raise RuleFailed(problem, free_script(explorer, task, claim, [*prefix, action]))
            # For actions with free text, a list can contain only examples.
            free = moment.info.get(FREE) or []
            unlisted = [a for a in everything if a not in (moment.admissible or []) and not fits(str(a), free)]
            for index in rng.permutation(len(unlisted))[:3]:
                action = unlisted[int(index)]
                refused += 1
                if explorer.play(task, [*prefix, action], env=explorer.free).last.info.get(VALID):
                    claim = "assert not answers[-1][4]['valid'] or {0!r} in answers[-2][4]['admissible_actions']"
                    problem = f"{action!r} is accepted as valid after {len(prefix)} turns, where it is not listed"
                    raise RuleFailed(problem, free_script(explorer, task, claim.format(action), [*prefix, action]))
    return f"{taken:,} listed actions taken, {refused} unlisted ones tried"


def refused(explorer: Explorer) -> str:
    """Unknown actions get an observation and are not valid."""
    if explorer.foreign is None:
        raise RuleSkipped(f"actions are not text, but {explorer.env.action_space}")
    odd = [explorer.foreign, "", "\0\n\t", "é語🙂" * 50, "go " * 3000]
    for task in explorer.tasks:
        forms = explorer.play(task, [], env=explorer.free).last.info.get(FREE, ())
        for action in (text for text in odd if text in explorer.env.action_space and not fits(text, forms)):
            last = explorer.play(task, [action], env=explorer.free).last
            if VALID not in last.info:
                raise RuleSkipped(f"info has no {VALID!r}")
            if last.info[VALID]:
                claim = "assert not answers[-1][4]['valid']"
                raise RuleFailed(f"{cut(action)} counts as valid", free_script(explorer, task, claim, [action]))
    return f"{len(odd)} texts on {len(explorer.tasks)} tasks"


RULES: Final = (
    ContractRule("tasks", "task_ids() lists tasks that can be played", tasks, ("protocol",)),
    ContractRule(
        "unknown-task", "an unknown task is refused with a message that names it", unknown_task, ("protocol",)
    ),
    ContractRule("plan", "plan() wins from anywhere", plan, ("protocol", "group")),
    ContractRule("expert", "an agent that follows plan() wins", expert, ("protocol", "group", "plan")),
    ContractRule("admissible", "listed actions are valid, and others are not", admissible, ("protocol", "group")),
    ContractRule("refused", "unknown actions get an observation and are not valid", refused, ("protocol",)),
)

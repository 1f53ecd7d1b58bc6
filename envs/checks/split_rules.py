"""The rule about splits: held-out tasks are no training tasks under other ids.

Two tasks are the same if they start with the same observation, have the same plan, and answer some random actions
alike, whatever their ids are. The
splits that are compared are those of the usual names that the constructor accepts.
"""

from __future__ import annotations

import hashlib
import inspect
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from turncredit.envs.checks.contract_rule import ContractRule, Measured, RuleFailed, RuleSkipped, RuleWarned
from turncredit.envs.checks.episode_data import cut, same
from turncredit.envs.checks.explorer import Explorer
from turncredit.envs.info import Environment

__all__ = ["RULES"]

SPLIT: Final = "split"
_WALKS: Final = 4
TRAINING: Final = ("train", "training")
HELD_OUT: Final = (
    *("held_out", "heldout", "held-out", "test", "testing", "eval", "evaluation", "val", "valid", "validation", "dev"),
    *("valid_seen", "valid_unseen", "instances", "templates", "apps"),
)
"""Names of splits that are looked for."""


def splits(explorer: Explorer) -> Measured:
    """No task of another split is a task of the training split under another id."""
    if not explorer.has("task_ids") or not _takes_a_split(explorer):
        raise RuleSkipped("the environment has no task_ids(), or no argument 'split'")
    training = next(((name, tasks) for name in TRAINING if (tasks := _contents(explorer, name))), None)
    if training is None:
        raise RuleSkipped(f"no split is called {' or '.join(map(repr, TRAINING))}")
    compared = list[str]()
    repeated = dict[str, list[tuple[str, str]]]()
    for name in HELD_OUT:
        if tasks := _contents(explorer, name):
            compared.append(name)
            alike = [(id, training[1][content]) for content, id in tasks.items() if content in training[1]]
            repeated[name] = [pair for pair in alike if _go_on_alike(explorer, training[0], name, pair)]
            if 2 * len(repeated[name]) > len(tasks):
                id, same = repeated[name][0]
                problem = f"{len(repeated[name])} of {len(tasks)} tasks of the split {name!r} are also tasks of "
                problem += f"{training[0]!r}, such as {id!r}, which is {same!r}"
                raise RuleFailed(problem, _script(explorer, training[0], same, name, id))
    if not compared:
        raise RuleSkipped(f"there is no split beside {training[0]!r} of a usual name")
    if doubtful := {name: pairs for name, pairs in repeated.items() if pairs}:
        name, pairs = next(iter(doubtful.items()))
        raise RuleWarned(
            f"{len(pairs)} tasks of the split {name!r} look like tasks of {training[0]!r}, such as {cut(pairs[0][0])}"
        )
    return Measured(f"{len(training[1])} tasks of {training[0]!r} compared with {', '.join(map(repr, compared))}")


def _go_on_alike(explorer: Explorer, training: str, name: str, pair: tuple[str, str]) -> bool:
    """Return whether two tasks that begin alike also go on alike: what is hidden at the start may differ."""
    envs = [explorer.source.build(split=split) for split in (name, training)]
    try:
        for walk in range(_WALKS):
            rngs = [np.random.default_rng([explorer.seed, 41, walk]) for _ in envs]
            episodes = [
                explorer.walk(task, explorer.chooser(rng), explorer.effort.turns, env=env)
                for task, rng, env in zip(pair, rngs, envs, strict=True)
            ]
            seen, other = ([moment.observation for moment in episode.moments] for episode in episodes)
            if len(seen) != len(other) or not all(map(same, seen, other)):
                return False
    finally:
        for env in envs:
            env.close()
    return True


def _takes_a_split(explorer: Explorer) -> bool:
    """Return whether the class of the environment has an argument for the split."""
    try:
        return SPLIT in inspect.signature(type(explorer.env.unwrapped)).parameters
    except (TypeError, ValueError):
        return False


def _contents(explorer: Explorer, name: str) -> dict[str, str]:
    """Return what tasks of a split are -> their ids, as many as the effort allows; {} without such a split."""
    try:
        env = explorer.source.build(split=name)
    except Exception:  # no split is called so, or its files are missing
        return {}
    try:
        tasks = list(_tasks_of(explorer, env))
        counts = Counter(content for content, _ in tasks)  # tasks that start alike differ in what is hidden
        return {content: id for content, id in tasks if counts[content] == 1}
    finally:
        env.close()


def _tasks_of(explorer: Explorer, env: Environment) -> Iterator[tuple[str, str]]:
    """Yield what tasks are and their ids: the first ones, and others evenly spread."""
    most, ids = explorer.effort.contents, list(explorer.task_ids(env))
    for id in ids if len(ids) <= most else [*ids[: most // 2], *_spread(ids[most // 2 :], most // 2)]:
        start = explorer.play(id, [], env=env).last
        plan: object = None
        if env.has_wrapper_attr("plan"):
            try:
                plan = list(env.get_wrapper_attr("plan")())
            except Exception:  # the rule "plan" shows it
                plan = None
        digest = hashlib.blake2b(_content(start.observation), digest_size=16)
        digest.update(_content(plan))
        yield digest.hexdigest(), id


def _content(value: object) -> bytes:
    """Return bytes that are equal for equal observations."""
    if isinstance(value, np.ndarray):
        return value.tobytes()
    if isinstance(value, Mapping):
        return b"".join(_content(part) for item in sorted(value.items()) for part in item)
    return repr(value).encode(errors="surrogatepass")


def _script(explorer: Explorer, training: str, task: str, name: str, other: str) -> str:
    """Return a script that shows a task which two splits share."""
    code, again = (explorer.source.code_with(SPLIT, split) for split in (training, name))
    reset = f"env.reset(seed={explorer.seed}, options={{'task': %r}})[0]"
    _, _, make = again.rpartition("\n")
    lines = [code, "", f"first = {reset % task}", make, f"assert {reset % other} != first", ""]
    return "\n".join(lines)


def _spread(ids: Sequence[str], most: int) -> list[str]:
    """Return at most a number of ids, evenly spread over a list."""
    count = min(most, len(ids))
    return list(dict.fromkeys(ids[round(i * (len(ids) - 1) / max(1, count - 1))] for i in range(count)))


RULES: Final = (ContractRule("splits", "held-out tasks are not those of training", splits, ("protocol",), "semantic"),)
"""What this module checks."""

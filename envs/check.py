"""Check by playing that an environment keeps the contract of `turncredit.envs.info`.

`check_env` takes any Gymnasium environment. Rules about optional features that it lacks (task_ids, plan, snapshots,
admissible actions, state keys) are skipped. Every failure comes with a short script whose last assertion fails as long
as the fault exists.

Not checked: vector environments. For environments that may hang, pass a factory that wraps in `Isolated`.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from turncredit.envs.checks import (
    attack_rules,
    collection_rules,
    copy_rules,
    floor_rules,
    fork_rules,
    instance_rules,
    interface_rules,
    leak_rules,
    seed_rules,
    snapshot_rules,
    split_rules,
    state_key_rules,
    step_rules,
)
from turncredit.envs.checks.check_report import CheckReport, CheckResult, RuleOutcome
from turncredit.envs.checks.contract_rule import (
    LEVELS,
    ContractRule,
    Level,
    Measured,
    RuleFailed,
    RuleSkipped,
    RuleWarned,
    crashed,
)
from turncredit.envs.checks.episode_data import Crash, Effort, EnvSource, literal
from turncredit.envs.checks.explorer import Explorer, PlayExpert
from turncredit.envs.checks.reward_bounds import RewardBounds
from turncredit.envs.checks.rule_clock import OutOfTime, RuleClock
from turncredit.envs.errors import EnvError
from turncredit.envs.info import Environment

__all__ = ["LEVELS", "SLOW", "CheckReport", "CheckResult", "Effort", "Level", "RewardBounds", "check_env", "rules"]

_TOO_SHORT = "not judged: its share of the seconds did not suffice"
SLOW = 0.02
"""Median seconds per step above which `check_env` tries less by default; the full check takes tens of thousands."""


def rules(level: Level = LEVELS[-1]) -> dict[str, str]:
    """Return the names of the rules up to a level and what each checks, in order."""
    names = {rule.name: rule.says for rule in _up_to(level)}
    return names | {"speed": "time per step (a failure only beyond a given limit)"}


def _up_to(level: Level) -> list[ContractRule]:
    levels = LEVELS[: LEVELS.index(level) + 1]
    return [rule for rule in _ALL if rule.level in levels]


_ALL: tuple[ContractRule, ...] = (
    *step_rules.RULES,
    *interface_rules.RULES,
    *state_key_rules.RULES,
    *instance_rules.RULES,
    *snapshot_rules.RULES,
    *fork_rules.RULES,
    *seed_rules.RULES,
    *floor_rules.RULES,
    *leak_rules.RULES,
    *copy_rules.RULES,
    *split_rules.RULES,
    *collection_rules.RULES,
    *attack_rules.RULES,
)


def check_env(
    env: str | Callable[..., Environment],
    *,
    kwargs: Mapping[str, object] | None = None,
    tasks: int | Sequence[str] = 3,
    seed: int = 0,
    actions: Sequence[object] = (),
    slowest: float | None = None,
    effort: Effort | None = None,
    play_expert: PlayExpert | None = None,
    level: Level = LEVELS[-1],
    bounds: RewardBounds | None = None,
    seconds: float | None = None,
    on_result: Callable[[CheckResult], None] | None = None,
) -> CheckReport:
    """Return which rules of the contract an environment keeps.

    The same arguments give the same report, except for the times (and the default effort, which depends on them).

    Args:
        env: a registered id, or a callable that makes an instance.
        kwargs: keyword arguments of the constructor.
        tasks: task ids, or how many to take from task_ids(), evenly spread. Without task_ids(), the environment draws.
        seed: seed of every reset and of the random actions.
        actions: actions to try if the environment neither lists admissible ones nor has a plan.
        slowest: limit of the median seconds per step; None only reports the time.
        effort: how much to try; None: `Effort()`, or `Effort.light()` if steps take longer than SLOW.
        play_expert: plays a task as an agent that follows plan(): (make, task, seed) -> (won, actions). None skips the
            rule "expert"; `turncredit check` gives the agent of `turncredit eval expert`.
        level: the last level of rules that are tested: "runtime" (the contract), "semantic" (what rewards mean), or
            "adversarial" (a search for unearned reward).
        bounds: what is asked of rewards, and how many steps the search may take.
        seconds: most seconds for all rules, an equal share for each level; None: no limit. What they do not suffice
            for is reported as skipped, and tried again if time is left. A step or reset that has begun is waited for.
        on_result: called with the result of every rule, and once more for one that was cut off and is judged again.

    Raises:
        EnvError: the id or a keyword argument is unknown, or something is missing (game files, an extra).
    """
    if level not in LEVELS:
        raise EnvError(f"level must be one of {', '.join(map(repr, LEVELS))}, got {level!r}")
    if seconds is not None and not seconds > 0:
        raise EnvError(f"the seconds of a check must be above 0, got {seconds}")
    source = EnvSource.of(env, kwargs or {})
    tell = on_result or (lambda result: None)
    try:
        explorer = Explorer(source, seed, effort or Effort(), actions, play_expert, bounds)
    except EnvError:
        raise
    except Exception as error:
        detail = f"making an instance raised {type(error).__name__}: {error}"
        result = CheckResult("protocol", "failed", detail, f"{source.code}\n")
        return CheckReport(source.name, (result,), 0.0, dict(kwargs or {}), seed)
    try:
        explorer.tasks = _tasks(explorer, tasks)
        if effort is None and _slow(explorer):
            explorer.effort = Effort.light()
        explorer.panel_tasks = _tasks(explorer, explorer.effort.floor) if isinstance(tasks, int) else explorer.tasks
        explorer.further_tasks = _tasks(explorer, explorer.effort.plans) if isinstance(tasks, int) else []
        explorer.time = RuleClock(seconds, LEVELS.index(level) + 1)
        results = [*_judge_all(level, explorer, tell), _speed(explorer, slowest)]
        tell(results[-1])
    finally:
        explorer.close()
    median = statistics.median(explorer.seconds) if explorer.seconds else 0.0
    return CheckReport(source.name, tuple(results), median, dict(kwargs or {}), seed, seconds)


def _slow(explorer: Explorer) -> bool:
    """Return whether steps are so slow that the full check would take hours."""
    try:
        explorer.walk(explorer.tasks[0], explorer.chooser(np.random.default_rng(explorer.seed)), 5)
    except Exception:
        return False  # the rules will report it
    seconds, explorer.seconds = explorer.seconds, []
    return bool(seconds) and statistics.median(seconds) > SLOW


def _tasks(explorer: Explorer, tasks: int | Sequence[str]) -> list[str | None]:
    """Return the tasks to play."""
    if not isinstance(tasks, int):
        return list(tasks) or [None]
    if not explorer.has("task_ids"):
        return [None]
    try:
        ids = list(explorer.task_ids())
    except EnvError:
        raise
    except Exception:
        # The rule "tasks" reports it.
        return [None]
    if not ids:
        return [None]
    count = max(1, min(tasks, len(ids)))
    return [ids[round(i * (len(ids) - 1) / max(1, count - 1))] for i in range(count)]


def _judge_all(level: Level, explorer: Explorer, tell: Callable[[CheckResult], None]) -> list[CheckResult]:
    """Return the results of the rules up to a level; those that were cut off are judged again if time is left."""
    judged: dict[str, CheckResult] = {}
    for rule in _up_to(level):
        explorer.time.begin_rule(LEVELS.index(rule.level))
        judged[rule.name] = _judge(rule, explorer, judged)
        tell(judged[rule.name])
    for rule in _up_to(level):
        if judged[rule.name].cut_short and explorer.time.begin_rule(LEVELS.index(level)):
            judged[rule.name] = _judge(rule, explorer, judged)
            tell(judged[rule.name])
    return list(judged.values())


def _judge(rule: ContractRule, explorer: Explorer, judged: Mapping[str, CheckResult]) -> CheckResult:
    """Return the result of one rule."""
    explorer.cut_short = ""

    def result(
        outcome: RuleOutcome, detail: str, code: str = "", values: Mapping[str, object] | None = None
    ) -> CheckResult:
        short = explorer.cut_short
        detail += f" (for want of time: {short})" if short else ""
        return CheckResult(rule.name, outcome, detail, code, rule.level, values or {}, bool(short))

    missing = [judged[name] for name in rule.needs if judged[name].outcome not in ("ok", "warned")]
    if missing:
        detail = f"not tested, since {missing[0].rule!r} is {missing[0].outcome}"
        return CheckResult(rule.name, "skipped", detail, level=rule.level, cut_short=missing[0].cut_short)
    try:
        seen = rule.judge(explorer)
        return result("ok", seen.detail, "", seen.values) if isinstance(seen, Measured) else result("ok", seen)
    except RuleSkipped as reason:
        return result("skipped", str(reason))
    except RuleWarned as warning:
        return result("warned", str(warning), "", warning.values)
    except OutOfTime:
        return CheckResult(rule.name, "skipped", _TOO_SHORT, level=rule.level, cut_short=True)
    except Crash as crash:
        failure = crashed(explorer, crash)
    except RuleFailed as error:
        failure = error
    except Exception as error:
        if "info" in judged and judged["info"].outcome == "failed":
            return result("skipped", f"not tested, since 'info' is failed ({type(error).__name__})")
        # The environment failed in a way that no rule expects.
        return result("failed", f"{type(error).__name__}: {error}", f"{explorer.source.code}\n")
    return result("failed", str(failure), failure.reproduce, failure.values)


def _speed(explorer: Explorer, slowest: float | None) -> CheckResult:
    """Report the time per step."""
    if not explorer.seconds:
        return CheckResult("speed", "skipped", "no step was taken")
    median, worst = statistics.median(explorer.seconds), max(explorer.seconds)
    text = f"median {_duration(median)} a step, longest {_duration(worst)}, {len(explorer.seconds):,} steps"
    if slowest is not None and median > slowest:
        code = (
            f"{explorer.source.code}\n\nimport time\n\nenv.reset(seed={explorer.seed})\nbegan = time.perf_counter()\n"
            f"env.step({literal(explorer.foreign or explorer.env.action_space.sample())})\n"
            f"assert time.perf_counter() - began <= {slowest!r}\n"
        )
        return CheckResult("speed", "failed", f"{text}; the limit is {_duration(slowest)}", code)
    return CheckResult("speed", "ok", text)


def _duration(seconds: float) -> str:
    """Return a time with a suitable unit."""
    for factor, unit in ((1.0, "s"), (1e3, "ms")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"

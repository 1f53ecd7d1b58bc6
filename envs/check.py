"""Check by playing that an environment keeps the contract of `turnwise.envs.info`.

`check_env` takes any Gymnasium environment. Rules about optional features that it lacks (task_ids, plan, snapshots,
admissible actions, state keys) are skipped. Every failure comes with a short script whose last assertion fails as long
as the fault exists.

Not checked: rendering and vector environments. For environments that may hang, pass a factory that wraps in `Isolated`.
"""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from turnwise.envs.checks import (
    fork_rules,
    instance_rules,
    interface_rules,
    snapshot_rules,
    state_key_rules,
    step_rules,
)
from turnwise.envs.checks.contract_rule import ContractRule, RuleFailed, RuleSkipped, crashed
from turnwise.envs.checks.episode_data import Crash, Effort, EnvSource, literal
from turnwise.envs.checks.explorer import Explorer, PlayExpert
from turnwise.envs.errors import EnvError
from turnwise.envs.info import Environment

__all__ = ["SLOW", "CheckReport", "CheckResult", "Effort", "check_env", "rules"]

SLOW = 0.02
"""Mean seconds per step above which `check_env` tries less by default; the full check takes tens of thousands."""

RuleOutcome = Literal["ok", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one rule: `detail` says what was seen or what is wrong, `reproduce` is a script that shows it."""

    rule: str
    outcome: RuleOutcome
    detail: str
    reproduce: str = ""


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The results of all rules for one environment; `str()` is the report as plain text."""

    env: str
    results: tuple[CheckResult, ...]
    seconds_per_step: float
    """Median wall-clock seconds of one step()."""

    @property
    def ok(self) -> bool:
        """Whether no rule failed."""
        return all(result.outcome != "failed" for result in self.results)

    def __getitem__(self, rule: str) -> CheckResult:
        """Return the result of a rule by its name."""
        for result in self.results:
            if result.rule == rule:
                return result
        raise KeyError(rule)

    def __str__(self) -> str:
        """Return one line per rule, then the script of each failure."""
        count = {outcome: sum(r.outcome == outcome for r in self.results) for outcome in ("ok", "failed", "skipped")}
        lines = [f"{self.env}: {count['ok']} ok, {count['failed']} failed, {count['skipped']} skipped"]
        for result in self.results:
            head = f"  {result.outcome:<8}{result.rule:<16} "
            text = textwrap.fill(" ".join(result.detail.split()), 120, initial_indent=head, subsequent_indent=" " * 27)
            lines.append(text)
        for result in self.results:
            if result.reproduce:
                lines += ["", f"To see {result.rule!r} fail:", "", textwrap.indent(result.reproduce.rstrip(), "    ")]
        return "\n".join(lines)


def rules() -> dict[str, str]:
    """Return the names of all rules and what each checks, in order."""
    return {rule.name: rule.says for rule in _ALL} | {"speed": "time per step (a failure only beyond a given limit)"}


_ALL: tuple[ContractRule, ...] = (
    *step_rules.RULES,
    *interface_rules.RULES,
    *state_key_rules.RULES,
    *instance_rules.RULES,
    *snapshot_rules.RULES,
    *fork_rules.RULES,
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
            rule "expert"; `turnwise check` gives the agent of `turnwise eval expert`.
        on_result: called with the result of every rule.

    Raises:
        EnvError: the id or a keyword argument is unknown, or something is missing (game files, an extra).
    """
    source = EnvSource.of(env, kwargs or {})
    results: list[CheckResult] = []
    tell = on_result or (lambda result: None)
    try:
        explorer = Explorer(source, seed, effort or Effort(), actions, play_expert)
    except EnvError:
        raise
    except Exception as error:
        detail = f"making an instance raised {type(error).__name__}: {error}"
        return CheckReport(source.name, (CheckResult("protocol", "failed", detail, f"{source.code}\n"),), 0.0)
    try:
        explorer.tasks = _tasks(explorer, tasks)
        if effort is None and _slow(explorer):
            explorer.effort = Effort.light()
        outcomes: dict[str, RuleOutcome] = {}
        for rule in _ALL:
            result = _judge(rule, explorer, outcomes)
            outcomes[rule.name] = result.outcome
            results.append(result)
            tell(result)
        results.append(_speed(explorer, slowest))
        tell(results[-1])
    finally:
        explorer.close()
    return CheckReport(source.name, tuple(results), statistics.median(explorer.seconds) if explorer.seconds else 0.0)


def _slow(explorer: Explorer) -> bool:
    """Return whether steps are so slow that the full check would take hours."""
    try:
        explorer.walk(explorer.tasks[0], explorer.chooser(np.random.default_rng(explorer.seed)), 5)
    except Exception:
        return False  # the rules will report it
    seconds, explorer.seconds = explorer.seconds, []
    return bool(seconds) and statistics.fmean(seconds) > SLOW


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


def _judge(rule: ContractRule, explorer: Explorer, outcomes: Mapping[str, RuleOutcome]) -> CheckResult:
    """Return the result of one rule."""
    missing = [name for name in rule.needs if outcomes.get(name) != "ok"]
    if missing:
        return CheckResult(rule.name, "skipped", f"not tested, since {missing[0]!r} is {outcomes[missing[0]]}")
    try:
        return CheckResult(rule.name, "ok", rule.judge(explorer))
    except RuleSkipped as reason:
        return CheckResult(rule.name, "skipped", str(reason))
    except Crash as crash:
        failure = crashed(explorer, crash)
    except RuleFailed as error:
        failure = error
    except Exception as error:
        if outcomes.get("info") == "failed":
            return CheckResult(rule.name, "skipped", f"not tested, since 'info' is failed ({type(error).__name__})")
        # The environment failed in a way that no rule expects.
        return CheckResult(rule.name, "failed", f"{type(error).__name__}: {error}", f"{explorer.source.code}\n")
    return CheckResult(rule.name, "failed", str(failure), failure.reproduce)


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

"""Evaluations of a run: on one panel, fixed by id and written down, before, between and after.

Left out on purpose: choosing the best checkpoint by them; the panel would then no longer be held out.
"""

from dataclasses import replace

from turnwise.agents.agent import Agent
from turnwise.agents.evaluation import draw, evaluate
from turnwise.agents.samplers.base import Sampler
from turnwise.envs import make as make_env
from turnwise.training.report import Reporter
from turnwise.training.setup import Setup


def examine(setup: Setup, step: int, agent: Agent, sampler: Sampler, report: Reporter) -> None:
    """Evaluate if it is due after `step` iterations and was not done; results go into the run's folder.

    Args:
        setup: of the run.
        step: finished iterations.
        agent: as in training; the temperature becomes that of evaluation.
        sampler: with the weights of this iteration.
        report: gets an event "evaluation" and ticks of that name.

    Raises:
        Interrupted: Ctrl-C; nothing is written then.
    """
    wanted, panel, last = setup.examination, setup.panel, setup.schedule.steps
    if wanted is None or panel is None:
        return
    between = step not in {0, last}
    path = setup.folder / "evaluations" / f"{step:06d}.json"
    if path.exists() or (between and not (wanted.every and step % wanted.every == 0)):
        return
    panel.save(setup.folder / "panel.json")
    if between and wanted.during:
        panel = replace(panel, tasks=draw(panel.tasks, wanted.during, panel.seed))
    result = evaluate(
        replace(agent, temperature=wanted.temperature),
        sampler,
        panel,
        lambda: make_env(panel.env, **panel.kwargs),
        name=f"{setup.name}, iteration {step}",
        concurrency=setup.schedule.concurrency,
        deadline=setup.schedule.deadline,
        on_finish=report.counting("evaluation", len(panel.tasks)),
    )
    summary = result.summary()
    report.event(
        "evaluation",
        step,
        success=summary.success.value,
        low=summary.success.low,
        high=summary.success.high,
        n=summary.success.n,
        turns=summary.turns,
        unparsable=summary.unparsable,
        inadmissible=summary.inadmissible,
        errors=summary.errors,
        seconds=result.seconds,
    )
    # Files after the event, and those that say "done" last: a run that is killed in between evaluates again, and its
    # metrics are cut to where the checkpoint stood.
    result.save(path)
    for name, due in (("before.json", step == 0), ("after.json", step == last)):
        if due:
            result.save(setup.folder / name)

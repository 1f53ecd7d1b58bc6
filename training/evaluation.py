"""Evaluations of a run on one fixed panel: before, during and after training.

The best checkpoint is deliberately not chosen by them, since the panel would then no longer be held out.
"""

from dataclasses import replace

from turnwise.agents.agent import Agent
from turnwise.agents.samplers.base import Sampler
from turnwise.envs import maker
from turnwise.evaluation.evaluation import evaluate
from turnwise.evaluation.panels import draw
from turnwise.training.events import Reporter
from turnwise.training.setup import PreparedRun


def evaluate_if_due(prepared: PreparedRun, step: int, agent: Agent, sampler: Sampler, report: Reporter) -> None:
    """Evaluate after `step` iterations if it is due and not yet done; results are written to the run's folder.

    Args:
        prepared: the run.
        step: number of finished iterations.
        agent: as in training, but for the temperature.
        sampler: with the weights of this iteration.
        report: receives an event "evaluation" and ticks of that name.

    Raises:
        Interrupted: Ctrl-C; nothing is written then.
    """
    section, panel, last = prepared.run.evaluation, prepared.panel, prepared.run.train.iterations
    during = step not in {0, last}
    path = prepared.folder / "evaluations" / f"{step:06d}.json"
    if panel is None or path.exists() or (during and not (section.every and step % section.every == 0)):
        return
    panel.save(prepared.folder / "panel.json")
    if during and section.episodes_during_training:
        panel = replace(panel, tasks=draw(panel.tasks, section.episodes_during_training, panel.seed))
    with prepared.env_pool(maker(panel.env, **panel.kwargs)) as pool:
        result = evaluate(
            replace(agent, temperature=section.temperature),
            sampler,
            panel,
            pool,
            name=f"{prepared.run.name}, iteration {step}",
            concurrency=prepared.run.train.concurrency,
            processes=prepared.run.processes,
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
    # The event comes first and the files that say "done" come last: a run that is killed in between evaluates again,
    # and its metrics are cut back to the checkpoint.
    result.save(path)
    for name, due in (("before.json", step == 0), ("after.json", step == last)):
        if due:
            result.save(prepared.folder / name)

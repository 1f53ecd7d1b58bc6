"""The warm start: the policy is loaded or newly built, and trained on demonstrations.

A warm start that was interrupted is started again.
"""

import math
import time
from collections.abc import Callable

import torch

from turnwise.agents.models.model_folder import find_model, load_tokenizer
from turnwise.training.events import Reporter
from turnwise.training.first_prompts import check_context
from turnwise.training.imitation.demonstrations import Demonstrations, demonstrate
from turnwise.training.imitation.imitation import demonstration_batch, imitate
from turnwise.training.learner.learner import Learner
from turnwise.training.learner.make_learner import load_trainable, make_learner
from turnwise.training.learner.policy import build_policy
from turnwise.training.run_folder.checkpoint import require_whole
from turnwise.training.setup import PreparedRun
from turnwise.training.tasks import TaskSampler

EVENTS = 0.02
"""Share of the warm start's optimizer steps between two events."""


def warm_start(prepared: PreparedRun, report: Reporter) -> Learner:
    """Return the learner as it is before reinforcement learning.

    Args:
        prepared: the run; its seed decides weights, demonstrations and their order.
        report: receives events "imitation" and ticks "demonstrations", "imitation".

    Raises:
        TrainingError: the policy cannot be read, or no demonstration can be used.
    """
    run = prepared.run
    torch.manual_seed(prepared.seed_for("torch"))
    learner = _load(prepared, report) if run.policy.model else None
    if not run.imitation.episodes:
        assert learner is not None, "prepare() requires a policy or demonstrations"
        return learner
    started = time.perf_counter()
    tasks = TaskSampler(prepared.demonstrated, prepared.seed_for("demonstrated")).next(run.imitation.episodes)
    played = demonstrate(prepared, tasks, report.counting("demonstrations", len(tasks)))
    if played.left_out:
        report.event("note", 0, text=played.left_out)
    learner = learner or _build(prepared, played, report)
    _imitate(prepared, learner, played, report, started)
    return learner


def _load(prepared: PreparedRun, report: Reporter) -> Learner:
    section = prepared.run.policy
    folder = find_model(section.model)
    require_whole(folder.path)
    tokenizer = load_tokenizer(folder.path)
    prepared.agent(tokenizer)  # an unsuitable chat template is reported before anything is played
    model = load_trainable(section, folder)
    check_context(prepared, tokenizer, model.config)
    return make_learner(prepared, model, tokenizer, report)


def _build(prepared: PreparedRun, played: Demonstrations, report: Reporter) -> Learner:
    section = prepared.run.policy
    sizes = section.new.model_dump()
    model, tokenizer = build_policy(played.texts, **sizes, context=section.context, seed=prepared.seed_for("weights"))
    check_context(prepared, tokenizer, model.config)
    return make_learner(prepared, model, tokenizer, report)


def _imitate(prepared: PreparedRun, learner: Learner, played: Demonstrations, report: Reporter, started: float) -> None:
    run, count = prepared.run, len(played.trajectories)
    agent = prepared.agent(learner.tokenizer)
    groups, advantages = played.tokenized(agent, learner.tokenizer, run.policy.context)
    batch = demonstration_batch(
        groups, advantages, context=run.policy.context, observations=run.imitation.observation_weight
    )
    report.event(
        "imitation",
        0,
        demonstrations=count,
        won=sum(one.won for one in played.trajectories),
        turns=sum(len(one.turns) for one in played.trajectories) / count,
        tokens=batch.size,
        longest=int(batch.lengths.max()),
        vocabulary=len(learner.tokenizer),
        parameters=sum(p.numel() for p in learner.model.parameters()),
        seconds=time.perf_counter() - started,
    )
    stats = learner.on_all_ranks(
        imitate,
        batch,
        run.imitation,
        micro_tokens=run.train.micro_tokens,
        grad_clip=run.train.grad_clip,
        weight_decay=run.train.optimizer.weight_decay,
        seed=prepared.seed_for("imitation"),
        here={"on_step": _step_events(report)},
    )
    report.event("imitation", 0, **stats)


def _step_events(report: Reporter) -> Callable[[dict[str, float]], None]:
    """Return a callback for every optimizer step: it ticks, and now and then reports the mean loss."""
    losses: list[float] = []

    def stepped(event: dict[str, float]) -> None:
        step, steps = int(event["step"]), int(event["steps"])
        report.tick("imitation", step, steps, loss=event["loss"])
        losses.append(event["loss"])
        if step == steps or step % max(1, round(steps * EVENTS)) == 0:
            finite = [loss for loss in losses if math.isfinite(loss)]
            loss = sum(finite) / len(finite) if finite else math.nan
            report.event("imitation", 0, step=step, steps=steps, loss=loss, lr=event["lr"])
            losses.clear()

    return stepped

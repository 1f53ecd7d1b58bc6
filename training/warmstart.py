"""The policy that a run begins with: loaded or built anew, and warmed up on demonstrations.

Left out on purpose: going on inside a warm start; one that was cut short is done again.
"""

import math
import time
from dataclasses import replace
from typing import Any

import torch

from turnwise.training.checkpoint import require_whole
from turnwise.training.demonstrations import Played, demonstrate
from turnwise.training.imitation import OnStep, demonstration_batch, imitate
from turnwise.training.policy import build_policy, load_policy
from turnwise.training.report import Reporter
from turnwise.training.setup import Demonstrations, Setup
from turnwise.training.tasks import TaskSampler

EVERY = 0.02
"""Share of the warm start's steps between two events."""


def first_policy(setup: Setup, report: Reporter) -> tuple[Any, Any]:
    """Give the policy before reinforcement learning.

    Args:
        setup: of the run; its seed decides weights, demonstrations and their order.
        report: gets events "imitation" and ticks "demonstrations", "imitation".

    Returns:
        Model (on its device) and tokenizer.

    Raises:
        TrainingError: the policy's folder cannot be read, or no demonstration can be used.
    """
    torch.manual_seed(setup.seed_for("torch"))
    model = tokenizer = None
    if setup.policy.path is not None:
        require_whole(setup.policy.path)
        model, tokenizer = load_policy(setup.policy.path)
        align(model)
        setup.agent(tokenizer)  # a chat template that does not fit shows before anything is played
    if setup.demonstrations is None:
        assert model is not None, "prepare() wants a path or demonstrations"
        return model.to(setup.policy.device), tokenizer
    started = time.perf_counter()
    tasks = TaskSampler(setup.tasks, setup.seed_for("demonstrated")).next(setup.demonstrations.episodes)
    played = demonstrate(setup, setup.demonstrations, tasks, report.counting("demonstrations", len(tasks)))
    if model is None:
        model, tokenizer = build_policy(
            played.texts, **setup.policy.sizes, context=setup.policy.context, seed=setup.seed_for("weights")
        )
    model.to(setup.policy.device)
    _warm_up(setup, setup.demonstrations, (model, tokenizer), played, report, started)
    return model, tokenizer


def _warm_up(
    setup: Setup, wanted: Demonstrations, policy: tuple[Any, Any], played: Played, report: Reporter, started: float
) -> None:
    model, tokenizer = policy
    groups, advantages = played.tokenized(setup.agent(tokenizer), tokenizer)
    batch = demonstration_batch(groups, advantages, context=setup.policy.context, observations=wanted.observations)
    count = len(played.trajectories)
    report.event(
        "imitation",
        0,
        demonstrations=count,
        won=sum(one.won for one in played.trajectories),
        turns=sum(len(one.turns) for one in played.trajectories) / count,
        tokens=batch.size,
        longest=int(batch.lengths.max()),
        vocabulary=len(tokenizer),
        parameters=sum(p.numel() for p in model.parameters()),
        seconds=time.perf_counter() - started,
    )

    recipe = replace(wanted.recipe, seed=setup.seed_for("imitation"))
    report.event("imitation", 0, **imitate(model, batch, recipe, _told(report)))


def _told(report: Reporter) -> OnStep:
    """Give what is called after every step: a tick each, and an event with the mean loss about every 2 % of them."""
    losses: list[float] = []

    def stepped(event: dict[str, float]) -> None:
        step, steps = int(event["step"]), int(event["steps"])
        report.tick("imitation", step, steps, loss=event["loss"])
        losses.append(event["loss"])
        if step == steps or step % max(1, round(steps * EVERY)) == 0:
            finite = [loss for loss in losses if math.isfinite(loss)]
            loss = sum(finite) / len(finite) if finite else math.nan
            report.event("imitation", 0, step=step, steps=steps, loss=loss, lr=event["lr"])
            losses.clear()

    return stepped


def align(model: Any) -> None:
    """Copy weights out of the file that they were mapped from.

    There they start at odd addresses, for which the kernels of a CPU round differently: a run that goes on from a file
    would not end with the same bits as one that never stopped.
    """
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.data = parameter.data.clone(memory_format=torch.contiguous_format)

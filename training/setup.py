"""What a run's configuration stands for: environments, agent, credit rule, objective, plan. Nothing is trained here.

Everything that a run needs of its configuration is read here, so that a key nobody read shows before any work.

Left out on purpose: the policy; it may have to be built from demonstrations, or come from a checkpoint.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from turnwise.agents.agent import Agent
from turnwise.agents.evaluation import Panel, draw_tasks, make_panel
from turnwise.agents.parse import parser
from turnwise.credit.registry import Entry
from turnwise.credit.registry import get as credit_rule
from turnwise.envs import make as make_env
from turnwise.envs import takes
from turnwise.training.config import Run
from turnwise.training.errors import ConfigError, TrainingError, near
from turnwise.training.imitation import Recipe
from turnwise.training.objectives import AGGREGATIONS, KL_ESTIMATORS, Objective
from turnwise.training.policy import device_of
from turnwise.training.steps import Anchor
from turnwise.training.update import Plan

Make = Callable[[], gymnasium.Env[Any, Any]]


@dataclass(frozen=True, slots=True)
class PolicySource:
    """Where the policy comes from: a folder, or sizes of a new one."""

    path: Path | None
    sizes: Mapping[str, int]
    context: int
    device: str
    slots: int


@dataclass(frozen=True, slots=True)
class Demonstrations:
    """Who demonstrates, and how it is imitated."""

    episodes: int
    demonstrator: str
    noise: float
    won_only: bool
    observations: float
    recipe: Recipe


@dataclass(frozen=True, slots=True)
class Schedule:
    """The loop's counts and the optimiser's settings."""

    steps: int
    tasks: int
    group: int
    concurrency: int
    deadline: float | None
    updates: int
    lr: float
    kind: str
    warmup: int
    weight_decay: float
    recompute: bool
    checkpoint_every: int
    keep: int


@dataclass(frozen=True, slots=True)
class Examination:
    """The evaluation."""

    every: int
    episodes: int
    during: int
    temperature: float
    env: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Setup:
    """A run, ready to begin.

    Attributes:
        env_id: of training and evaluation.
        make: makes an environment to train in.
        agent: a function of the tokenizer (None while there is none).
        credit: the credit rule with its options.
        anchor: "state" or "observation".
        tasks: ids to train on.
        panel: what is evaluated on, whatever the run's seed; None without evaluation.
    """

    run: Run
    seed: int
    name: str
    folder: Path
    trajectories: str
    tensorboard: bool
    env_id: str
    make: Make
    agent: Callable[[Any], Agent]
    policy: PolicySource
    demonstrations: Demonstrations | None
    credit: Entry
    anchor: Anchor
    objective: Objective
    plan: Plan
    schedule: Schedule
    examination: Examination | None
    tasks: tuple[str, ...]
    panel: Panel | None

    def seed_for(self, purpose: str, number: int = 0) -> int:
        """Give the seed of one purpose."""
        return seed_for(self.seed, purpose, number)


def seed_for(seed: int, purpose: str, number: int = 0) -> int:
    """Give the seed of one purpose in a run: a 31-bit hash of the run's seed, the purpose and a number."""
    return int(np.random.SeedSequence([seed, number, *purpose.encode()]).generate_state(1)[0]) >> 1


def prepare(run: Run) -> Setup:
    """Read a run's configuration and make of it what a run needs; environments are opened once to list tasks.

    Args:
        run: as loaded.

    Returns:
        The set-up. Keys that were set and have no effect in this run are then in run.unread().

    Raises:
        ConfigError: values that do not go together, or names that nobody knows.
        TrainingError, EnvError, CreditError, AgentError: as of the parts.
    """
    _threads(run.threads)
    env_id, kwargs = run.env.id, dict(run.env.kwargs)
    agent = _agent(run)
    agent(None)  # a wrong option shows now
    policy, plan, examination = _policy(run), _plan(run), _examination(run)

    def make() -> gymnasium.Env[Any, Any]:
        return make_env(env_id, **kwargs)

    return Setup(
        run=run,
        seed=run.seed,
        name=run.name,
        folder=run.folder,
        trajectories=run.trajectories,
        tensorboard=run.tensorboard,
        env_id=env_id,
        make=make,
        agent=agent,
        policy=policy,
        demonstrations=_demonstrations(run, policy, plan),
        credit=credit_rule(run.credit.method, **run.credit.options),
        anchor=run.credit.anchor,
        objective=_objective(run),
        plan=plan,
        schedule=_schedule(run),
        examination=examination,
        tasks=list_tasks(make, run.train.pool or None, seed_for(run.seed, "pool")),
        panel=None if examination is None else make_panel(env_id, examination.env, examination.episodes),
    )


def remarks(setup: Setup) -> list[str]:
    """Give sentences on what is allowed and probably not meant; a run says them once, at its beginning.

    Args:
        setup: as prepared.
    """
    examination = setup.examination
    if examination is None or examination.env != setup.run.env.kwargs or not takes(setup.env_id, "split"):
        return []
    return [
        "evaluation plays tasks of the split that is trained on; evaluation.split (or env.eval) names another one, "
        "for tasks that training has not seen"
    ]


def _threads(count: int) -> None:
    if count:
        import torch

        torch.set_num_threads(count)


def list_tasks(make: Make, count: int | None, seed: int) -> tuple[str, ...]:
    """Give the ids of an environment's tasks in its order: a sample of `count`, or as many as it lists.

    Raises:
        TrainingError: the environment does not list its tasks.
    """
    env = make()
    try:
        listing = getattr(env.unwrapped, "task_ids", None)
        if listing is None:
            raise TrainingError(f"{env.spec.id if env.spec else env} has no task_ids(), which training needs")
        return tuple(listing()) if count is None else draw_tasks(env, count, seed)
    finally:
        env.close()


def _agent(run: Run) -> Callable[[Any], Agent]:
    section = run.agent
    if section.top_p < 1 and run.objective.old == "sampled":
        raise ConfigError(
            "agent.top_p below 1 samples from a cut distribution, and the loss computes the whole one: set "
            "objective.old to 'recomputed', or agent.top_p to 1"
        )
    limits: dict[str, Any] = {
        "prompt": section.prompt,
        "template": section.template,
        "parser": section.parser,
        "max_turns": section.max_turns,
        "max_tokens": section.max_tokens,
        "temperature": section.temperature,
        "top_p": section.top_p,
    }
    if section.prompt == "window":
        limits["history"] = section.history
    parser(section.parser)
    return lambda tokenizer: Agent.from_options(**limits, chat=tokenizer)


def _policy(run: Run) -> PolicySource:
    section = run.policy
    path = Path(section.path) if section.path else None
    sizes: dict[str, int] = {}
    if path is None:
        sizes = {name: getattr(section, name) for name in ("vocab", "hidden", "layers", "heads")}
    return PolicySource(path, sizes, section.context, device_of(section.device), section.slots)


def _plan(run: Run) -> Plan:
    train = run.train
    return Plan(
        parts=train.updates,
        micro_tokens=train.micro_tokens,
        grad_clip=train.grad_clip,
        temperature=run.agent.temperature,
    )


def _schedule(run: Run) -> Schedule:
    train = run.train
    return Schedule(
        steps=train.steps,
        tasks=train.tasks,
        group=train.group,
        concurrency=train.concurrency,
        deadline=run.env.deadline or None,
        updates=train.updates,
        lr=train.lr,
        kind=train.schedule,
        warmup=train.warmup,
        weight_decay=train.weight_decay,
        recompute=run.objective.old == "recomputed",
        checkpoint_every=train.checkpoint_every,
        keep=train.keep,
    )


def _demonstrations(run: Run, policy: PolicySource, plan: Plan) -> Demonstrations | None:
    section = run.imitation
    if not section.episodes:
        if policy.path is None:
            raise ConfigError(
                "a new policy's tokenizer is trained on demonstrations: set imitation.episodes (imitation.epochs may "
                "be 0), or policy.path"
            )
        section.switched_off()
        return None
    recipe = Recipe(
        epochs=section.epochs,
        lr=section.lr,
        batch=section.batch,
        micro_tokens=plan.micro_tokens,
        grad_clip=plan.grad_clip,
        weight_decay=run.train.weight_decay,
    )
    known = {"expert", "searcher"}
    name = section.demonstrator
    if name not in known and not Path(name).is_file():
        raise ConfigError(f"imitation.demonstrator {name!r} is neither a file nor known{near(name, known)}")
    return Demonstrations(
        section.episodes, name, section.noise if name in known else 0.0, section.won_only, section.observations, recipe
    )


def _objective(run: Run) -> Objective:
    section = run.objective
    if section.aggregation not in AGGREGATIONS:
        raise ConfigError(
            f"objective.aggregation {section.aggregation!r} is not known{near(section.aggregation, AGGREGATIONS)}"
        )
    if 0 < section.dual_clip <= 1:
        raise ConfigError(f"objective.dual_clip caps the ratio and must be above 1 (0: none), not {section.dual_clip}")
    objective = Objective(
        clip_low=section.clip_low,
        clip_high=section.clip_high,
        dual_clip=section.dual_clip or None,
        aggregation=section.aggregation,
        kl=section.kl,
        entropy=section.entropy,
    )
    if section.aggregation == "seq-mean-token-sum-norm":
        objective = replace(objective, norm=section.norm)
    if section.kl:
        name = section.kl_estimator
        if name not in KL_ESTIMATORS:
            raise ConfigError(f"objective.kl_estimator {name!r} is not known{near(name, KL_ESTIMATORS)}")
        objective = replace(objective, kl_estimator=name)
    return objective


def _examination(run: Run) -> Examination | None:
    section = run.evaluation
    if not section.episodes:
        section.switched_off()
        _ = run.env.eval
        return None
    return Examination(section.every, section.episodes, section.during, section.temperature, run.evaluation_kwargs())

"""What a run's configuration stands for: environments, agent, credit rule, objective, plan. Nothing is trained here.

Everything that a run needs of its configuration is read here, so that a key nobody read shows before any work.

Left out on purpose: the policy; it may have to be built from demonstrations, or come from a checkpoint.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from turnwise.agents.agent import Agent
from turnwise.agents.evaluation import Panel, draw_tasks, make_panel
from turnwise.credit.registry import CreditRule
from turnwise.credit.registry import get as credit_rule
from turnwise.envs import demonstrators, takes
from turnwise.envs import make as make_env
from turnwise.training.coefficient_schedules import Control
from turnwise.training.config import ObjectiveSection, Run
from turnwise.training.errors import ConfigError, TrainingError, near
from turnwise.training.imitation import Recipe
from turnwise.training.objectives import KL_ESTIMATORS, Objective
from turnwise.training.objectives import Entry as Method
from turnwise.training.objectives import get as get_objective
from turnwise.training.policy import device_of, use_threads
from turnwise.training.steps import COLUMNS, Anchor
from turnwise.training.token_advantages import Reshape
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
    slips: float
    typos: float
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
        reshape: the transform of token advantages; None for none.
        objective: the loss; its coefficients are those of the beginning.
        control: how the coefficients move.
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
    credit: CreditRule
    anchor: Anchor
    reshape: Reshape | None
    objective: Objective
    control: Control
    plan: Plan
    schedule: Schedule
    examination: Examination | None
    tasks: tuple[str, ...]
    panel: Panel | None

    @property
    def needs_reference(self) -> bool:
        """Whether the policy before training is needed all along."""
        wanted = self.reshape is not None and self.reshape.needs_reference
        return wanted or self.objective.needs_reference or self.control.in_reward

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
    use_threads(run.threads)
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
        credit=_credit(run),
        anchor=run.credit.anchor,
        reshape=Reshape.of(run.credit.reshape, run.credit.reshape_options) if run.credit.reshape else None,
        objective=_objective(run),
        control=_control(run),
        plan=plan,
        schedule=_schedule(run),
        examination=examination,
        tasks=list_tasks(make, run.train.pool or None, seed_for(run.seed, "pool")),
        panel=None if examination is None else make_panel(env_id, examination.env, examination.episodes),
    )


_OFTEN = 5
"""Demonstrations of a task above which a model is likely to learn it by heart."""


def remarks(setup: Setup) -> list[str]:
    """Give sentences on what is allowed and probably not meant; a run says them once, at its beginning.

    Args:
        setup: as prepared.
    """
    return [*_same_split(setup), *_few_tasks(setup)]


def _same_split(setup: Setup) -> list[str]:
    examination = setup.examination
    if examination is None or examination.env != setup.run.env.kwargs or not takes(setup.env_id, "split"):
        return []
    return [
        "evaluation plays tasks of the split that is trained on; evaluation.split (or env.eval) names another one, "
        "for tasks that training has not seen"
    ]


def _few_tasks(setup: Setup) -> list[str]:
    wanted, count = setup.demonstrations, len(setup.tasks)
    if wanted is None or setup.run.train.pool or wanted.episodes <= _OFTEN * count:
        return []
    if wanted.demonstrator != "expert" and wanted.demonstrator not in demonstrators(setup.env_id):
        return []  # a file, which holds what it holds
    env = setup.make()
    try:
        listing: Any = env.unwrapped
        # A stranger's task_ids() may take no count; then it lists all that there are.
        more = bool(signature(listing.task_ids).parameters) and len(listing.task_ids(count + 1)) > count
    finally:
        env.close()
    if not more:
        return []
    return [
        f"{wanted.episodes:,} demonstrations are of {count:,} tasks, which a model learns by heart; the environment "
        f"has more: train.pool={wanted.episodes} takes as many different ones"
    ]


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
        target=section.target,
        micro_tokens=plan.micro_tokens,
        grad_clip=plan.grad_clip,
        weight_decay=run.train.weight_decay,
    )
    known = {"expert", *demonstrators(run.env.id)}
    name = section.demonstrator
    if name not in known and not Path(name).is_file():
        raise ConfigError(f"imitation.demonstrator {name!r} is neither a file nor known{near(name, known)}")
    noise, typos = (section.noise, section.typos) if name in known else (0.0, 0.0)
    return Demonstrations(
        episodes=section.episodes,
        demonstrator=name,
        noise=noise,
        slips=section.slips,
        typos=typos,
        won_only=section.won_only,
        observations=section.observations,
        recipe=recipe,
    )


def _credit(run: Run) -> CreditRule:
    entry = credit_rule(run.credit.method, **run.credit.options)
    missing = [repr(name) for name in entry.needs if name not in COLUMNS]
    if missing:
        raise ConfigError(
            f"credit.method {entry.name!r} needs {', '.join(missing)}, which play does not tell of a turn; "
            f"a run has: {', '.join(COLUMNS)}"
        )
    return entry


def _objective(run: Run) -> Objective:
    section = run.objective
    entry = get_objective(section.name)
    terms: dict[str, Any] = {"aggregation": section.aggregation, "llds": section.llds}
    if "norm" in (section.aggregation or entry.function.aggregation).split("-"):
        terms["norm"] = section.norm
    if section.kl and section.kl_in == "loss":
        terms |= {"kl": section.kl, "kl_estimator": section.kl_estimator, "kl_corrected": section.kl_corrected}
    if section.entropy or section.entropy_target:
        terms |= {"entropy": section.entropy, "entropy_target": section.entropy_target}
    if section.correction:
        terms |= {"correction": section.correction, **_correction_bounds(section.correction_options)}
    objective = Objective(name=section.name, options=_objective_options(section, entry), **terms)
    if objective.together in {"sequence", "batch"}:
        objective = replace(objective, sequence=section.sequence)
    if objective.needs_rollout and section.old != "recomputed":
        what = (
            f"objective.correction {section.correction!r}" if section.correction else f"objective.name {entry.name!r}"
        )
        raise ConfigError(
            f"{what} compares the sampler's log-probabilities with the trainer's: set objective.old to 'recomputed'"
        )
    return objective


def _objective_options(section: ObjectiveSection, entry: Method) -> dict[str, Any]:
    """The method's options: those of the table, and the keys of the section that it has options for."""
    options = dict(section.options)
    for name in ("clip_low", "clip_high", "dual_clip"):
        if name in entry.function.options and (name in section.model_fields_set or entry.name == "ppo_clip"):
            if name in options and name in section.model_fields_set:
                raise ConfigError(f"objective.{name} and objective.options.{name} are the same; set one of them")
            options.setdefault(name, getattr(section, name))
    return options


def _correction_bounds(options: Mapping[str, float]) -> dict[str, float]:
    known = {"low": "correction_low", "high": "correction_high"}
    for name in options:
        if name not in known:
            raise ConfigError(f"objective.correction_options has no {name!r}{near(name, known)}")
    return {known[name]: value for name, value in options.items()}


def _control(run: Run) -> Control:
    section = run.objective
    given: dict[str, Any] = {}
    if section.kl:
        given |= {"kl": section.kl, "kl_in": section.kl_in, "kl_target": section.kl_target}
        if section.kl_target:
            given["kl_horizon"] = section.kl_horizon
        if section.kl_in == "reward":
            if section.kl_estimator not in KL_ESTIMATORS:
                name = section.kl_estimator
                raise ConfigError(f"objective.kl_estimator {name!r} is not known{near(name, KL_ESTIMATORS)}")
            given["kl_estimator"] = section.kl_estimator
    if section.entropy_target:
        given |= {"entropy_target": section.entropy_target, "entropy_step": section.entropy_step}
    return Control(entropy=section.entropy, **given)


def _examination(run: Run) -> Examination | None:
    section = run.evaluation
    if not section.episodes:
        section.switched_off()
        _ = run.env.eval
        return None
    return Examination(section.every, section.episodes, section.during, section.temperature, run.evaluation_kwargs())

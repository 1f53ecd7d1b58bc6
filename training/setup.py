"""Preparation of a run: check its configuration, build its parts, list its tasks. Nothing is trained here.

Everything that can be wrong with a run and can be known in advance is reported here, before any work.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from turnwise.agents.agent import Agent
from turnwise.agents.cluster.env_actors import EnvActors
from turnwise.agents.content import has_images
from turnwise.agents.errors import ModelError, look_up
from turnwise.agents.models.model_folder import ModelFolder, find_model
from turnwise.agents.prompts.chat_template import chat_fields
from turnwise.agents.prompts.native_tools import chat_with_tools
from turnwise.agents.rollouts.env_pool import EnvPool
from turnwise.agents.rollouts.env_processes import EnvProcesses
from turnwise.agents.rollouts.shared_hosts import SharedHosts
from turnwise.agents.samplers.base import MODEL_FREE, SAMPLERS, SamplerSettings, check_settings
from turnwise.agents.steps import COLUMNS
from turnwise.credit.registry import CreditRule
from turnwise.credit.registry import get as get_credit_rule
from turnwise.envs import demonstrators, maker, takes
from turnwise.envs.info import ADMISSIBLE, EXTRAS
from turnwise.evaluation.panels import Panel, draw_tasks, make_panel
from turnwise.registry import suggest
from turnwise.training.batch.sampled_distribution import check_distribution
from turnwise.training.batch.token_advantages import AppliedTransform
from turnwise.training.cluster import check_cluster, cluster_settings
from turnwise.training.config.coefficient_schedules import CoefficientSchedule
from turnwise.training.config.effects import check_effects
from turnwise.training.config.run import Run
from turnwise.training.errors import ConfigError, TrainingError
from turnwise.training.imitation.demonstrators import plays
from turnwise.training.learner.lora import LoraOptions
from turnwise.training.learner.policy import check_sizes, device_of
from turnwise.training.learner.threads import use_threads
from turnwise.training.objectives import Objective, objectives

if TYPE_CHECKING:
    from turnwise.training.learner.rank_commands import Leader

MakeEnv = Callable[[], gymnasium.Env[Any, Any]]


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A run that is ready to begin.

    Attributes:
        run: the configuration; every part reads its own section.
        make: makes an environment for training.
        agent: returns the agent for a tokenizer (None for demonstrators, which have none).
        device: of the model, as torch names it.
        credit: the credit rule with its options.
        token_transform: the transform of token advantages; None for none.
        objective: the loss, with the coefficients of the first iteration.
        coefficients: how the coefficients change.
        tasks: ids of the training tasks.
        make_demonstrated: makes an environment for demonstrations.
        demonstrated: ids of the tasks that demonstrations are drawn from.
        panel: the evaluation panel, independent of the run's seed; None without evaluation.
        leader: commands the other ranks that train the policy; None for one process.
        hosts: the processes of the environments; None: they live in this one.
    """

    run: Run
    make: MakeEnv
    agent: Callable[[Any], Agent]
    device: str
    credit: CreditRule
    token_transform: AppliedTransform | None
    objective: Objective
    coefficients: CoefficientSchedule
    tasks: tuple[str, ...]
    make_demonstrated: MakeEnv
    demonstrated: tuple[str, ...]
    panel: Panel | None
    leader: "Leader | None" = None
    hosts: SharedHosts | None = None

    @property
    def folder(self) -> Path:
        """The output folder."""
        return self.run.folder

    @property
    def deadline(self) -> float | None:
        """Time limit of one environment step, in seconds."""
        return self.run.env.deadline or None

    def env_pool(self, make: MakeEnv | None = None) -> EnvPool:
        """Return environments in the processes that the run asks for, which all pools in use at a time share.

        Args:
            make: makes an environment; None: those for training.
        """
        hosts = None if self.hosts is None else self.hosts.borrow()
        return EnvPool(make or self.make, self.deadline, hosts=hosts, in_order=self.run.env.deterministic)

    @property
    def needs_reference(self) -> bool:
        """Whether the policy before training is needed as a reference."""
        transform = self.token_transform is not None and self.token_transform.needs_reference
        return transform or self.objective.needs_reference or self.coefficients.kl_in_reward

    def seed_for(self, purpose: str, number: int = 0) -> int:
        """Return the seed of one purpose in this run."""
        return seed_for(self.run.seed, purpose, number)


def seed_for(seed: int, purpose: str, number: int = 0) -> int:
    """Return the seed of one purpose: a 31-bit hash of the run's seed, the purpose, and a number."""
    return int(np.random.SeedSequence([seed, number, *purpose.encode("ascii")]).generate_state(1)[0]) >> 1


def prepare(run: Run) -> PreparedRun:
    """Check a run's configuration and build its parts; an environment is opened once, to list the tasks.

    Raises:
        ConfigError: unknown names, values that contradict each other, or keys without an effect.
        TrainingError, EnvError, CreditError, AgentError: from the parts.
    """
    use_threads(run.threads)
    agent = agent_maker(run)
    agent(None)  # fails on a wrong option
    check_distribution(run)
    env_id = run.env.id
    make = maker(env_id, **run.env.kwargs)
    _check_policy(run)
    _check_processes(run)
    _check_engine(run)
    shown = maker(env_id, **run.demonstration_kwargs())
    _check_demonstrations(run, shown)
    count, seed = run.train.distinct_tasks or None, seed_for(run.seed, "pool")
    tasks = list_tasks(make, count, seed)
    device = device_of(run.policy.device)
    prepared = PreparedRun(
        run=run,
        make=make,
        agent=agent,
        device=device,
        credit=_credit(run, make),
        token_transform=AppliedTransform.from_choice(run.credit.token_transform),
        objective=Objective.from_section(run.objective),
        coefficients=CoefficientSchedule(run.objective),
        tasks=tasks,
        make_demonstrated=shown,
        demonstrated=list_tasks(shown, count, seed) if plays(run) and run.imitation.env else tasks,
        panel=make_panel(env_id, run.evaluation_kwargs(), run.evaluation.episodes) if run.evaluation.episodes else None,
        hosts=SharedHosts(partial(_start_hosts, run, device)) if run.env.workers else None,
    )
    _check_staleness(run, prepared.objective)
    check_effects(run)
    return prepared


def _start_hosts(run: Run, device: str) -> EnvProcesses:
    """Return processes for environments, on this machine or on the run's cluster."""
    workers, threads, memory = run.env.workers, run.env.deadline > 0, run.env.memory_gib
    if not run.cluster.address:
        return EnvProcesses(workers, threads=threads, memory=memory)
    import torch

    settings = cluster_settings(run, device, torch.cuda.device_count())
    return EnvActors(workers, settings, threads=threads, memory=memory)


def _check_staleness(run: Run, objective: Objective) -> None:
    """Refuse asynchronous rollouts with an objective that treats stale samples as on-policy."""
    recomputed = run.objective.old_logprobs == "recomputed"
    if not run.train.asynchronous or objective.corrects_stale(recomputed):
        return
    key = "train.staleness" if run.train.staleness else "train.spare_groups"
    able = ", ".join(name for name, info in objectives().items() if info.older != "not")
    advice = (
        'set objective.correction, such as "tis_token", or objective.name to "decoupled"'
        if recomputed
        else f"choose one of {able}"
    )
    raise ConfigError(
        f"{key} > 0 trains on samples of older weights, which objective.name = {objective.name!r} with "
        f"objective.old_logprobs = {run.objective.old_logprobs!r} does not correct: {advice}"
    )


def _check_processes(run: Run) -> None:
    """Refuse several processes where this one cannot be forked safely."""
    if run.processes == 1:
        return
    reasons = {
        f"policy.device = {run.policy.device!r} is a GPU": device_of(run.policy.device) != "cpu",
        "each process needs threads = 1": run.threads != 1,
        f"sampler.engine = {run.sampler.engine!r} samples elsewhere": run.sampler.engine != "transformers",
        "env.deadline > 0 runs environments in threads": run.env.deadline > 0,
        "env.workers > 0 runs environments in other processes already": run.env.workers > 0,
        "asynchronous rollouts go on beside the update already": run.train.asynchronous,
        "cluster.address starts its own processes": bool(run.cluster.address),
    }
    for reason, holds in reasons.items():
        if holds:
            raise ConfigError(f"processes = {run.processes} works on a CPU and in one thread each, but {reason}")


MANY_REPEATS = 5
"""Demonstrations per task above which a model is likely to memorise the tasks."""


def remarks(prepared: PreparedRun) -> list[str]:
    """Return sentences about settings that are allowed but probably not meant; a run prints them at its start."""
    return [
        *_same_split(prepared),
        *_few_tasks(prepared),
        *_slow_bfloat16(prepared),
        *_unbalanced_turns(prepared),
        *_order_of_answers(prepared),
    ]


def _order_of_answers(prepared: PreparedRun) -> list[str]:
    run = prepared.run
    in_one_order = run.env.deterministic and not run.env.deadline
    elsewhere = (
        run.sampler.engine != "transformers"
        or run.cluster.address
        or (run.train.asynchronous and not run.train.deterministic)
    )  # nothing repeats there in any case
    if not run.env.workers or in_one_order or elsewhere:
        return []
    return [
        "environments in workers answer in an order that depends on time, so the last digits of log-probabilities, and "
        "with them the run, do not repeat bit for bit; env.deterministic = true without env.deadline makes them repeat"
    ]


def _unbalanced_turns(prepared: PreparedRun) -> list[str]:
    if not prepared.run.train.staleness or prepared.credit.options.get("unit") != "trajectory":
        return []
    return [
        "failed episodes mostly have more turns, so the mean advantage of a turn is below zero, and samples of older "
        'weights cannot correct what this pushes down, such as end tokens; set credit.options.unit to "turn" '
        "(docs/scale.md)"
    ]


def _slow_bfloat16(prepared: PreparedRun) -> list[str]:
    kinds = {prepared.run.policy.dtype, prepared.run.sampler.dtype}
    if prepared.device != "cpu" or "bfloat16" not in kinds or multiplies_bfloat16():
        return []
    return [
        "this CPU has no instructions for bfloat16 (AVX512-BF16 or AMX), so bfloat16 is many times slower than float32 "
        "on it; set policy.dtype and sampler.dtype to float32"
    ]


def multiplies_bfloat16() -> bool:
    """Return whether this CPU multiplies bfloat16 matrices at full speed, as far as torch can tell."""
    import torch

    known = [getattr(torch.cpu, name, None) for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported")]
    return not all(known) or any(check() for check in known if check)


def _same_split(prepared: PreparedRun) -> list[str]:
    run = prepared.run
    if prepared.panel is None or run.evaluation_kwargs() != run.env.kwargs or not takes(run.env.id, "split"):
        return []
    return [
        'the evaluation uses tasks of the training split; set evaluation.env, for example to {split = "held_out"}, to '
        "evaluate on tasks that training has not seen"
    ]


def _few_tasks(prepared: PreparedRun) -> list[str]:
    run, count = prepared.run, len(prepared.demonstrated)
    wanted = run.imitation.episodes
    if run.train.distinct_tasks or wanted <= MANY_REPEATS * count or not plays(run):
        return []
    env = prepared.make_demonstrated()
    try:
        listing: Any = env.unwrapped
        # task_ids() of other packages may take no count: it then lists all tasks
        more = bool(signature(listing.task_ids).parameters) and len(listing.task_ids(count + 1)) > count
    finally:
        env.close()
    if not more:
        return []
    return [
        f"{wanted:,} demonstrations cover only {count:,} tasks, which a model may memorise; the environment has more: "
        f"train.distinct_tasks={wanted} uses that many different tasks"
    ]


def list_tasks(make: MakeEnv, count: int | None, seed: int) -> tuple[str, ...]:
    """Return the ids of an environment's tasks in its own order: a sample of `count`, or all that it lists.

    Raises:
        TrainingError: the environment does not list its tasks, or it returns images, which no policy here can read.
    """
    env = make()
    try:
        if has_images(env.observation_space):
            name = env.spec.id if env.spec else env
            raise TrainingError(f"{name} returns images, and the policy reads text only: set screenshot=false")
        listing = getattr(env.unwrapped, "task_ids", None)
        if listing is None:
            raise TrainingError(f"training needs task_ids(), which {env.spec.id if env.spec else env} does not have")
        return tuple(listing()) if count is None else draw_tasks(env, count, seed)
    finally:
        env.close()


def agent_maker(run: Run) -> Callable[[Any], Agent]:
    """Return a function that makes the run's agent for a tokenizer (None for players without one)."""
    section = run.agent
    options = section.model_dump(exclude={"chat"})
    chat = chat_with_tools(section.chat, run.env.id, run.env.kwargs)
    return lambda tokenizer: Agent.from_options(**options, **chat_fields(chat, tokenizer))


def _check_engine(run: Run) -> None:
    """Refuse an engine that is unknown, or from which no policy can be trained."""
    engine = run.sampler.engine
    look_up(SAMPLERS, engine)
    check_cluster(run)
    if engine in MODEL_FREE:
        raise ConfigError(f"sampler.engine {engine!r} is not a model, so it cannot sample from the policy")
    if engine == "openai" and not run.sampler.options.get("tokens"):
        raise ConfigError(
            'sampler.engine "openai" returns no token ids, which training needs; for a server that does, such as '
            "vLLM, set sampler.options.tokens = true"
        )
    section = run.sampler
    settings = SamplerSettings(url=section.url, device=device_of(run.policy.device), options=section.options)
    check_settings(engine, settings, here=not run.cluster.address)


def _check_policy(run: Run) -> None:
    section = run.policy
    LoraOptions.of(section.lora)
    if section.lora and not section.model:
        raise ConfigError("policy.lora needs policy.model: a new model has no weights yet that are worth freezing")
    if not section.model:
        check_sizes(
            hidden=section.new.hidden, layers=section.new.layers, heads=section.new.heads, context=section.context
        )
    if not section.model and not run.imitation.episodes:
        raise ConfigError(
            "a new policy needs demonstrations to train its tokenizer: set imitation.episodes (imitation.epochs may be "
            "0), or policy.model"
        )


def find_policy(run: Run) -> ModelFolder | None:
    """Return the model of policy.model, downloaded if necessary; None for a new one.

    `prepare` does not ask for it, since the runs of an ablation are prepared before their policy exists.

    Raises:
        ConfigError: there is no such model, or it cannot be downloaded.
    """
    try:
        return find_model(run.policy.model) if run.policy.model else None
    except ModelError as error:
        raise ConfigError(f"policy.model: {error}") from error


def _check_demonstrations(run: Run, make: MakeEnv) -> None:
    section = run.imitation
    if not section.episodes:
        return
    if not plays(run) and not Path(section.demonstrator).expanduser().is_file():
        known = {"expert", *demonstrators(run.env.id)}
        raise ConfigError(
            f"imitation.demonstrator {section.demonstrator!r} is neither a file, nor a sampler such as "
            f"openai:MODEL@URL, nor a known demonstrator{suggest(section.demonstrator, known)}"
        )
    if section.noise and plays(run) and not _lists_actions(make):
        raise ConfigError(
            f"imitation.noise needs an environment that lists its admissible actions, and {run.env.id} does not; set "
            "imitation.noise = 0 (imitation.typos works without a list)"
        )


def _credit(run: Run, make: MakeEnv) -> CreditRule:
    """Return the credit rule, if the environment provides the columns that it needs."""
    rule = get_credit_rule(run.credit.method, **run.credit.options)
    needs = [name for name in rule.needs if name not in COLUMNS]
    missing = [repr(name) for name in needs if name not in _extras(make)] if needs else []
    if missing:
        raise ConfigError(
            f"credit.method {rule.name!r} needs {', '.join(missing)} for every turn, which {run.env.id} does not "
            'provide; reset() returns the defaults of all turns in info["extras"], and step() the values of one turn'
        )
    return rule


def _extras(make: MakeEnv) -> set[str]:
    """Return the names of the extra columns that an environment provides for every turn."""
    env = make()
    try:
        _, info = env.reset(seed=0)
        return set(info.get(EXTRAS) or ())
    finally:
        env.close()


def _lists_actions(make: MakeEnv) -> bool:
    env = make()
    try:
        _, info = env.reset(seed=0)
        return ADMISSIBLE in info
    finally:
        env.close()

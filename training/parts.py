"""The parts of a run, put together in one place: each gets its own section and the values that it needs.

`prepare` checks the configuration and builds what is known before the policy is there; the methods of `RunParts` list
what warm start, recovery and loop are made of. Nothing is trained here.
"""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from turncredit.agents.agent import Agent
from turncredit.agents.errors import look_up
from turncredit.credit.registry import CreditRule
from turncredit.credit.registry import get as get_credit_rule
from turncredit.engines.base import SAMPLERS, SamplerSettings
from turncredit.envs import maker
from turncredit.evaluation.panels import Panel, make_panel
from turncredit.training.assign.credit_assignment import CreditAssignment
from turncredit.training.assign.token_scores import TokenScores
from turncredit.training.batch.token_advantages import AppliedTransform
from turncredit.training.config.agents import MakeAgent, agent_maker
from turncredit.training.config.coefficient_schedules import CoefficientSchedule
from turncredit.training.config.demonstrators import plays
from turncredit.training.config.run import Run
from turncredit.training.config.seeds import Seeds
from turncredit.training.engine.engine import RunEngine, check_sampler, open_sampler
from turncredit.training.engine.engine_probe import EngineProbe
from turncredit.training.engine.first_prompts import FirstPrompts
from turncredit.training.imitation.demonstration_source import DemonstrationSource
from turncredit.training.imitation.warmstart import WarmStart
from turncredit.training.learner.learner import Learner
from turncredit.training.learner.make_learner import LearnerFactory, check_policy, memory_needs
from turncredit.training.learner.policy import device_of
from turncredit.training.learner.threads import hide_gpus, use_threads
from turncredit.training.learner.update_plans import UpdatePlans
from turncredit.training.loop import TrainingLoop
from turncredit.training.monitor.evaluation import Evaluations, SharedEvaluations
from turncredit.training.monitor.iteration_reports import IterationReports
from turncredit.training.objectives.run_objective import Objective
from turncredit.training.objectives.scheduled_objective import ScheduledObjective
from turncredit.training.play.asynchronous import AsynchronousRollouts
from turncredit.training.play.rollouts import Rollouts, SynchronousRollouts
from turncredit.training.play.sampling_parts import SamplingParts
from turncredit.training.preflight.remarks import remarks
from turncredit.training.preflight.rules import check_rules
from turncredit.training.run_folder.events import Reporter
from turncredit.training.run_folder.recovery import Recovery, ReferencePolicy
from turncredit.training.run_folder.trajectory_store import RolloutFiles, TrajectoryStore
from turncredit.training.sampling.forest_growth import asking_expert
from turncredit.training.sampling.run_sampling import RunSampling
from turncredit.training.tasks.environments import Environments, image_size, list_tasks, shared_hosts, weights_of

if TYPE_CHECKING:
    from turncredit.training.config.stage_runs import Stages
    from turncredit.training.hardware.card_layout import CardLayout
    from turncredit.training.learner.memory import MemoryNeeds
    from turncredit.training.learner.rank_commands import Leader
    from turncredit.training.run_folder.warm_start_recovery import WarmStartRecovery


@dataclass(frozen=True, slots=True, kw_only=True)
class RunParts:
    """A run that is ready to begin. Only `train` holds it: a part gets its own section and values.

    Attributes:
        run: the configuration.
        seeds: seeds of everything random.
        agent: makes the agent for a tokenizer (None for demonstrators, which have none).
        device: device of the model, as torch names it.
        credit: the credit rule with its options.
        token_transform: transform of token advantages; None for none.
        objective: the loss, with the coefficients of the first iteration.
        coefficients: how the coefficients change.
        sampling: which tasks, how many episodes, and which reward.
        environments: environments for training, with the tasks.
        demonstrated: environments for demonstrations, with the tasks that these are drawn from.
        panel: the evaluation panel, independent of the run's seed; None without evaluation.
        leader: commands the other ranks that train the policy; None for one process.
        card: how engine and learner share a GPU; None if they do not.
        evaluated: folder of the evaluations before training that runs share; None for none.
    """

    run: Run
    seeds: Seeds
    agent: MakeAgent
    device: str
    credit: CreditRule
    token_transform: AppliedTransform | None
    objective: Objective
    coefficients: CoefficientSchedule
    sampling: SamplingParts
    environments: Environments
    demonstrated: Environments
    panel: Panel | None
    leader: "Leader | None"
    card: "CardLayout | None" = None
    evaluated: Path | None = None

    def remarks(self) -> list[str]:
        """Return sentences about settings that are allowed but probably not meant."""
        card = "" if self.card is None else self.card.remark
        return [*remarks(self.run, self.demonstrated), *filter(None, [card])]

    @property
    def reference(self) -> ReferencePolicy:
        """The policy before training, as a reference where it is needed."""
        transform = self.token_transform is not None and self.token_transform.needs_reference
        later = any(key.startswith("objective.") for stage in self.run.stages for key in stage.set)
        needed = transform or self.objective.needs_reference or self.coefficients.kl_in_reward or later
        return ReferencePolicy(self.run.folder / "reference", self.run.policy, needed)

    @property
    def prompts(self) -> FirstPrompts:
        """The first prompts of some tasks."""
        return FirstPrompts(self.environments, self.seeds.of("probe"), self.run.policy.context)

    def demonstrations(self) -> DemonstrationSource:
        """Return where demonstrations come from."""
        return DemonstrationSource(
            section=self.run.imitation,
            env_id=self.run.env.id,
            environments=self.demonstrated,
            agents=self.agent,
            seed=self.seeds.of("demonstrations"),
            device=self.device,
            concurrency=self.run.train.concurrency,
            processes=self.run.processes,
        )

    @property
    def memory_needs(self) -> "MemoryNeeds":
        """What decides how much memory the learner needs."""
        run = self.run
        return memory_needs(
            run.policy,
            run.train,
            engine_dtype=run.sampler.dtype or run.policy.dtype,
            here=run.sampler.engine == "transformers" and not run.cluster.address,
            reference=self.reference.needed,
            ranks=1 if self.leader is None else self.leader.ranks.parts,
        )

    def learner_factory(self, report: Reporter) -> LearnerFactory:
        """Return what makes the learner around a model."""
        run = self.run
        return LearnerFactory(
            policy=run.policy,
            train=run.train,
            needs=self.memory_needs,
            device=self.device,
            threads=run.threads,
            leader=self.leader,
            note=report.note,
            image_size=self.environments.image_size,
        )

    def warm_start(self, report: Reporter, recovery: "WarmStartRecovery") -> WarmStart:
        """Return what makes the policy before reinforcement learning."""
        return WarmStart(
            policy=self.run.policy,
            imitation=self.run.imitation,
            train=self.run.train,
            sampler=self.run.sampler,
            seeds=self.seeds,
            agents=self.agent,
            source=self.demonstrations(),
            prompts=self.prompts,
            make_learner=self.learner_factory(report),
            report=report,
            recovery=recovery,
        )

    def recovery(self, report: Reporter) -> Recovery:
        """Return what saves finished iterations."""
        return Recovery(
            self.run.folder,
            self.run.checkpoints,
            self.reference,
            report,
            iterations=self.run.train.iterations,
            oldest=self.run.train.oldest,
        )

    def engine(self, learner: Learner, agent: Agent, report: Reporter) -> RunEngine:
        """Return the engine that samples from a learner's policy."""
        run, card = self.run, self.card
        settings = SamplerSettings(
            model=run.policy.model,
            url=run.sampler.url,
            dtype=run.sampler.dtype or run.policy.dtype,
            kv_cache_gib=run.sampler.kv_cache_gib if card is None else card.cache_gib,
            utilization=0.0 if card is None else card.utilization,
            context=run.policy.context,
            concurrency=run.train.concurrency,
            seed=self.seeds.of("sampler"),
            parser=run.agent.parser,
            experts=run.train.routing_replay,
            options=run.sampler.options,
        )
        make_sampler = partial(
            open_sampler,
            engine=run.sampler.engine,
            settings=settings,
            cluster=run.cluster,
            # with staleness it samples during updates, so it needs weights of its own
            shares=run.sampler.engine == "transformers" and not run.train.staleness.updates and not run.cluster.address,
            folder=run.folder / "engine",
        )

        def make_probe() -> EngineProbe | None:
            prompts = self.prompts.of(agent, learner.tokenizer)
            limit, seed = run.sampler.gap_limit, self.seeds.of("probe")
            return EngineProbe(prompts, limit=limit, seed=seed) if prompts else None

        return RunEngine(
            learner,
            make_sampler,
            make_probe,
            micro_tokens=run.train.micro_batch.tokens,
            shares_card=card is not None,
            begin=report.begin,
        )

    def rollouts(self, agent: Agent, engine: RunEngine, report: Reporter, sampling: RunSampling) -> Rollouts:
        """Return what plays the groups of the iterations."""
        run, store = self.run, TrajectoryStore(self.run.folder, self.run.trajectory_format)
        if run.train.asynchronous:
            return AsynchronousRollouts(
                run.train,
                agent,
                engine,
                report,
                environments=self.environments,
                groups=self.sampling.groups_in_play(sampling),
                store=store,
            )
        return SynchronousRollouts(
            run.train,
            agent,
            engine,
            report,
            environments=self.environments,
            sampling=sampling,
            store=store,
            files=RolloutFiles(run.folder / "groups"),
            processes=run.processes,
            rule=self.credit,
        )

    def evaluations(self, agent: Agent, report: Reporter) -> Evaluations:
        """Return what measures the policy on the panel."""
        run, panel, environments = self.run, self.panel, self.environments
        if panel is not None:
            environments = replace(environments, make=maker(panel.env, **panel.kwargs), tasks=panel.tasks)
        return Evaluations(
            section=run.evaluation,
            panel=panel,
            environments=environments,
            agent=replace(agent, temperature=run.evaluation.temperature, annealing=None),
            name=run.name,
            folder=run.folder,
            last=run.train.iterations,
            concurrency=run.train.concurrency,
            processes=run.processes,
            report=report,
            shared=None if self.evaluated is None else SharedEvaluations(self.evaluated, run),
        )

    def loop(self, learner: Learner, report: Reporter, recovery: Recovery, stages: "Stages") -> TrainingLoop:
        """Return the training loop of a learner, in one of the stages of the run."""
        run = self.run
        agent = self.agent(learner.tokenizer)
        engine = self.engine(learner, agent, report)
        asked = asking_expert(agent, lambda: engine.sampler, self.environments.pool)
        sampling = self.sampling.groups(asked).taught(run, self.agent)
        if self.token_transform is not None:
            self.token_transform.check(learner.scorer.require_hidden)
        scores = TokenScores(
            learner=learner,
            agent=agent,
            micro_tokens=run.train.micro_batch.tokens,
            recompute=run.objective.old_logprobs == "recomputed",
            mean=self.objective.needs_mean,
            transform=self.token_transform,
        )
        estimator = run.objective.kl.estimator if self.coefficients.kl_in_reward else None
        parts = tuple(self.environments.weights)
        return TrainingLoop(
            steps=run.train.iterations,
            anchor=run.credit.anchor,
            learner=learner,
            engine=engine,
            rollouts=self.rollouts(agent, engine, report, sampling),
            sampling=sampling,
            credit=CreditAssignment.of(
                self.credit,
                self.seeds,
                scores,
                estimator,
                rewards=self.sampling.rewards(),
                agent=agent,
                context=run.policy.context,
                parts=parts,
            ),
            scores=scores,
            objective=ScheduledObjective(self.objective, self.coefficients),
            plans=UpdatePlans(run.train, self.seeds, agent.temperature, run.processes),
            evaluations=self.evaluations(agent, report),
            reports=IterationReports(
                report,
                engine,
                run=run,
                stages=stages,
                parts=parts,
            ),
            recovery=recovery,
        )


def prepare(run: Run, leader: "Leader | None" = None) -> RunParts:
    """Check a run's configuration and build its parts; everything that can be wrong in advance is reported here.

    Args:
        run: the configuration.
        leader: commands the other ranks that train the policy; None for one process.

    Raises:
        ConfigError: unknown names, values that contradict each other, or keys without an effect.
        TrainingError, EnvError, CreditError, AgentError: from the parts.
    """
    use_threads(run.threads)
    agent = agent_maker(run.agent, run.env)
    agent(None)  # fails on a wrong option
    make, shown = maker(run.env.id, **run.env.arguments()), maker(run.env.id, **run.demonstration_kwargs())
    device = device_of(run.policy.device)
    check_policy(run.policy, one_process=leader is None)
    look_up(SAMPLERS, run.sampler.engine)
    check_rules(run)
    if run.processes > 1:
        hide_gpus()
    check_sampler(run.sampler, run.cluster, device, experts=run.train.routing_replay)
    seeds, count, episodes = Seeds(run.seed), run.train.distinct_tasks or None, run.evaluation.episodes
    sees = bool(run.policy.model) or run.policy.new.vision.sees
    environments = Environments(
        make=make,
        tasks=list_tasks(make, count, seeds.of("pool"), sees=sees),
        deadline=run.env.deadline or None,
        deterministic=run.env.workers.deterministic,
        hosts=shared_hosts(run.env, run.cluster, run.sampler.options, device),
        weights=weights_of(run.env.id, run.env.arguments()),
        image_size=image_size(make) if sees else None,
    )
    demonstrated = replace(environments, make=shown)
    others = run.imitation.distinct_tasks > 0 or run.demonstration_kwargs() != run.env.arguments()
    if plays(run.imitation, run.env.id) and others:
        tasks = list_tasks(shown, run.imitation.distinct_tasks or count, seeds.of("pool"), sees=sees)
        demonstrated = replace(demonstrated, tasks=tasks, weights=weights_of(run.env.id, run.demonstration_kwargs()))
    return RunParts(
        run=run,
        seeds=seeds,
        agent=agent,
        device=device if leader is None else leader.ranks.device,
        credit=get_credit_rule(run.credit.method, **run.credit.options),
        token_transform=AppliedTransform.from_choice(run.credit.token_transform),
        objective=Objective.from_section(run.objective),
        coefficients=CoefficientSchedule(run.objective),
        sampling=SamplingParts.of(run, seeds, environments),
        environments=environments,
        demonstrated=demonstrated,
        panel=make_panel(run.env.id, run.evaluation_kwargs(), episodes) if episodes else None,
        leader=leader,
    )

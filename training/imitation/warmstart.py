"""The warm start: the policy is loaded or newly built, and trained on demonstrations.

An interrupted warm start continues with the demonstrations that were played and the checkpoint of an optimizer step. It
ends with the same weights as one that was not interrupted, bit for bit on a CPU, except where a model demonstrates: the
rounding of its answers depends on the batches in which they are computed.
"""

import time
from dataclasses import dataclass

import torch

from turncredit.agents.models.model_folder import find_model, load_tokenizer
from turncredit.training.config.agents import MakeAgent
from turncredit.training.config.sections import ImitationSection, PolicySection, SamplerSection, TrainSection
from turncredit.training.config.seeds import Seeds
from turncredit.training.engine.engine_weights import check_engine_model, check_engine_weights
from turncredit.training.engine.first_prompts import FirstPrompts, check_context
from turncredit.training.imitation.demonstration_source import DemonstrationSource
from turncredit.training.imitation.demonstrations import Demonstrations
from turncredit.training.imitation.imitation_run import ImitationRun
from turncredit.training.learner.learner import Learner
from turncredit.training.learner.make_learner import LearnerFactory, load_trainable
from turncredit.training.learner.policy import build_policy
from turncredit.training.run_folder.checkpoint import Restored, require_whole
from turncredit.training.run_folder.events import Reporter
from turncredit.training.run_folder.warm_start_recovery import WarmStartRecovery


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmStart:
    """Makes the policy of a run as it is before reinforcement learning.

    Attributes:
        policy: the `[policy]` section.
        imitation: the `[imitation]` section.
        train: the `[train]` section.
        sampler: the `[sampler]` section; a policy is refused whose weights the engine could not be given.
        seeds: seeds of weights, demonstrations and their order.
        agents: makes the agent for the policy's tokenizer.
        source: where demonstrations come from, with the tasks that they are drawn from.
        prompts: first prompts of the run, which have to fit into the policy's context.
        make_learner: makes the learner around the policy.
        report: receives events "imitation" and ticks "demonstrations", "imitation".
        recovery: keeps demonstrations and finished optimizer steps.
    """

    policy: PolicySection
    imitation: ImitationSection
    train: TrainSection
    sampler: SamplerSection
    seeds: Seeds
    agents: MakeAgent
    source: DemonstrationSource
    prompts: FirstPrompts
    make_learner: LearnerFactory
    report: Reporter
    recovery: WarmStartRecovery

    def learner(self, restored: Restored | None = None) -> Learner:
        """Return the learner as it is before reinforcement learning.

        Args:
            restored: the checkpoint that the warm start is continued from; None: it begins.

        Raises:
            TrainingError: the policy cannot be read, no demonstration can be used, or they have changed since.
        """
        torch.manual_seed(self.seeds.of("torch"))
        learner = self._load() if self.policy.model and restored is None else None
        if not self.imitation.episodes:
            assert learner is not None, "prepare() requires a policy or demonstrations"
            return learner
        started = time.perf_counter()
        demonstrations = self._demonstrations()
        if restored is not None:
            learner = self.make_learner(restored.model, restored.tokenizer)
        elif demonstrations.left_out:
            self.report.note(demonstrations.left_out)
        learner = learner or self._build(demonstrations)
        imitate = ImitationRun(
            section=self.imitation,
            train=self.train,
            context=self.policy.context,
            seed=self.seeds.of("imitation"),
            agents=self.agents,
            report=self.report,
            recovery=self.recovery,
        )
        imitate(learner, demonstrations, started, restored)
        return learner

    def _demonstrations(self) -> Demonstrations:
        """Return the demonstrations, of which only those are played that were not before."""
        count, by = self.imitation.episodes, self.imitation.demonstrator
        tasks = self.source.environments.stream(self.seeds.of("demonstrated")).next(count)
        with self.recovery.demonstrations as file:
            done = len(file.trajectories) if self.source.played else 0
            if file.complete:
                self.report.begin(f"reading {done:,} demonstrations by {by}")
                return self.source.demonstrate(tasks, None, file)
            before = f", of which {done:,} were played before" if done else ""
            self.report.begin(f"collecting {count:,} demonstrations by {by}{before}")
            return self.source.demonstrate(tasks, self.report.counting("demonstrations", count, done), file)

    def _load(self) -> Learner:
        folder = find_model(self.policy.model)
        require_whole(folder.path)
        tokenizer = load_tokenizer(folder.path)
        if self.imitation.episodes:
            sees = self.prompts.environments.image_size is not None
            check_engine_model(folder.path, self.sampler, self.policy.dtype, sees=sees)
        agent = self.agents(tokenizer)  # an unsuitable chat template is reported before anything is played
        self.report.begin(f"loading the model {folder.name}")
        model = load_trainable(self.policy, folder)
        check_context(self.prompts, agent, tokenizer, model.config)
        check_engine_weights(model, folder.path, self.sampler)
        return self.make_learner(model, tokenizer)

    def _build(self, demonstrations: Demonstrations) -> Learner:
        self.report.begin("training a tokenizer on the demonstrations, and building the model")
        new, seed = self.policy.new, self.seeds.of("weights")
        sizes = {"vocab": new.vocab, "hidden": new.hidden, "layers": new.layers, "heads": new.heads}
        model, tokenizer = build_policy(
            demonstrations.texts,
            **sizes,
            context=self.policy.context,
            seed=seed,
            vision=new.vision if new.vision.sees else None,
        )
        check_context(self.prompts, self.agents(tokenizer), tokenizer, model.config)
        return self.make_learner(model, tokenizer)

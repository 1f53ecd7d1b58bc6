"""The warm start: the policy is loaded or newly built, and trained on demonstrations.

A warm start that was interrupted is started again.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from turncredit.agents.models.model_folder import find_model, load_tokenizer
from turncredit.agents.vision.image_reader import reader_of
from turncredit.training.config.agents import MakeAgent
from turncredit.training.config.sections import ImitationSection, PolicySection, SamplerSection, TrainSection
from turncredit.training.config.seeds import Seeds
from turncredit.training.engine.engine_weights import check_engine_model, check_engine_weights
from turncredit.training.engine.first_prompts import FirstPrompts, check_context
from turncredit.training.imitation.demonstration_source import DemonstrationSource
from turncredit.training.imitation.demonstrations import Demonstrations
from turncredit.training.imitation.imitation import demonstration_batch, imitate, imitation_steps
from turncredit.training.learner.learner import Learner
from turncredit.training.learner.make_learner import LearnerFactory, load_trainable
from turncredit.training.learner.policy import build_policy
from turncredit.training.run_folder.checkpoint import require_whole
from turncredit.training.run_folder.events import Reporter

EVENTS = 0.02
"""Share of the warm start's optimizer steps between two events."""


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

    def learner(self) -> Learner:
        """Return the learner as it is before reinforcement learning.

        Raises:
            TrainingError: the policy cannot be read, or no demonstration can be used.
        """
        torch.manual_seed(self.seeds.of("torch"))
        learner = self._load() if self.policy.model else None
        if not self.imitation.episodes:
            assert learner is not None, "prepare() requires a policy or demonstrations"
            return learner
        started = time.perf_counter()
        self.report.begin(f"collecting {self.imitation.episodes} demonstrations by {self.imitation.demonstrator}")
        tasks = self.source.environments.stream(self.seeds.of("demonstrated"))
        chosen = tasks.next(self.imitation.episodes)
        demonstrations = self.source.demonstrate(chosen, self.report.counting("demonstrations", len(chosen)))
        if demonstrations.left_out:
            self.report.note(demonstrations.left_out)
        learner = learner or self._build(demonstrations)
        self._imitate(learner, demonstrations, started)
        return learner

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

    def _imitate(self, learner: Learner, demonstrations: Demonstrations, started: float) -> None:
        context, trajectories = self.policy.context, demonstrations.trajectories
        self.report.begin(f"tokenizing {len(trajectories)} demonstrations")
        groups, advantages = demonstrations.tokenized(self.agents(learner.tokenizer), learner.tokenizer, context)
        observations = self.imitation.observation_weight
        reader = reader_of(learner.tokenizer)
        batch = demonstration_batch(
            groups,
            advantages,
            context=context,
            observations=observations,
            placeholder=None if reader is None else reader.token,
        )
        self.report.event(
            "imitation",
            0,
            demonstrations=len(trajectories),
            won=sum(trajectory.won for trajectory in trajectories),
            turns=sum(len(trajectory.turns) for trajectory in trajectories) / len(trajectories),
            tokens=batch.size,
            longest=int(batch.lengths.max()),
            vocabulary=len(learner.tokenizer),
            **learner.sizes,
            seconds=time.perf_counter() - started,
        )
        seed = self.seeds.of("imitation")
        steps = (rows for _, rows in imitation_steps(batch.lengths, self.imitation, seed))
        stats = learner.on_all_ranks(
            imitate,
            learner.dealt(batch, steps),
            self.imitation,
            micro_tokens=self.train.micro_batch.tokens,
            grad_clip=self.train.optimizer.grad_clip,
            weight_decay=self.train.optimizer.weight_decay,
            seed=seed,
            here={"on_step": _step_events(self.report)},
        )
        self.report.event("imitation", 0, **stats)


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

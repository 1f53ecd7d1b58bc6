"""The engine of a run: the sampler that its `[sampler]` section names, for the learner's model.

With a `[cluster]` section it is a sampler over several such engines.
"""

import asyncio
import time
from dataclasses import replace

from turnwise.agents.agent import Agent
from turnwise.agents.cluster.sampler import ClusterSampler
from turnwise.agents.rollouts.env_pool import EnvPool
from turnwise.agents.samplers.base import Sampler, SamplerSettings
from turnwise.agents.samplers.wrappers import make_sampler
from turnwise.training.batch.batch import Batch
from turnwise.training.cluster import cluster_settings, gpus_of_engine
from turnwise.training.config.run import Run
from turnwise.training.engine_probe import EngineProbe, shares_module
from turnwise.training.errors import ConfigError
from turnwise.training.first_prompts import first_prompts
from turnwise.training.learner.learner import Learner
from turnwise.training.learner.logprobs import Scores
from turnwise.training.learner.policy import require_vocabulary, save_policy, vocabulary_fingerprint
from turnwise.training.setup import PreparedRun


class RunEngine:
    """The sampler of a run, and the probe that compares it with the learner after each load.

    Args:
        prepared: the run.
        learner: its weights are loaded.
        agent: builds the prompts of the probe, from first observations.
    """

    def __init__(self, prepared: PreparedRun, learner: Learner, agent: Agent) -> None:
        self.prepared, self.learner = prepared, learner
        self._agent = agent
        self._sampler: Sampler | None = None
        self._probe: EngineProbe | None = None
        self._loaded: dict[str, float] = {}
        self.shared = False
        """Whether the sampler computes with the learner's own module; known once it is open."""

    @property
    def metrics(self) -> dict[str, float]:
        """What is known of the last load, and the counts of a sampler that has some."""
        return self._loaded | ({} if self._sampler is None else self._sampler.metrics())

    @property
    def sampler(self) -> Sampler:
        """The sampler; it is opened when it is first used, so that the warm start is saved even if that fails."""
        if self._sampler is None:
            self._sampler = open_sampler(self.prepared, self.learner)
            self.shared = shares_module(self._sampler, self.learner.weights())
            if not self.shared:
                self._probe = self._make_probe()
        return self._sampler

    def load(self, version: int) -> None:
        """Load the learner's weights and compare both; `metrics` has load_seconds and the gap.

        Raises:
            EngineMismatch: engine and learner differ by more than sampler.gap_limit.
            AgentError: the engine failed.
        """
        sampler = self.sampler  # opening it may need its own event loop
        asyncio.run(self._load(sampler, version))

    async def load_here(self, version: int) -> None:
        """Do what `load` does, on the running event loop; the sampler must be open."""
        await self._load(self.sampler, version)

    def rest(self) -> None:
        """Let the engine release its memory until the next load, if it can."""
        asyncio.run(self.sampler.sleep())

    def close(self) -> None:
        """Close the sampler, if it was opened."""
        if self._sampler is not None:
            self._sampler.close()

    async def _load(self, sampler: Sampler, version: int) -> None:
        started, self._loaded = time.perf_counter(), {}
        await sampler.load(self.learner.weights(), version=version)
        if self._probe is not None:
            gap = await self._probe.measure(sampler, self._score, version)
            self._probe.check(gap)
            self._loaded |= gap.metrics()
        self._loaded["load_seconds"] = time.perf_counter() - started

    def _score(self, batch: Batch) -> Scores:
        return self.learner.score(batch, micro_tokens=self.prepared.run.train.micro_tokens)

    def _make_probe(self) -> EngineProbe | None:
        prepared = self.prepared
        seed = prepared.seed_for("probe")
        with EnvPool(prepared.make, prepared.deadline) as pool:
            context = prepared.run.policy.context
            prompts = first_prompts(self._agent, self.learner.tokenizer, pool, prepared.tasks, seed, context=context)
        return EngineProbe(prompts, limit=prepared.run.sampler.gap_limit, seed=seed) if prompts else None


def open_sampler(prepared: PreparedRun, learner: Learner) -> Sampler:
    """Return the run's sampler; its weights are those of the learner once `load` was called.

    An engine that loads the model by itself gets policy.model, or the new model in the run's folder "engine".

    Raises:
        ConfigError: the sampler has no tokenizer, and so no token ids to train on.
        VocabularyMismatch: its vocabulary is not the learner's.
        AgentError: the sampler cannot be made.
    """
    run, section = prepared.run, prepared.run.sampler
    alone = not run.train.staleness and not run.cluster.address  # else it samples during updates, or elsewhere
    shared = section.engine == "transformers" and alone
    settings = SamplerSettings(
        model="" if shared else _model_of(prepared, learner),
        url=section.url,
        device=learner.device,
        dtype=section.dtype or run.policy.dtype,
        memory=section.kv_cache_gib,
        context=run.policy.context,
        concurrency=run.train.concurrency,
        seed=prepared.seed_for("sampler"),
        parser=run.agent.parser,
        options=section.options,
        module=learner.weights() if shared else None,
        tokenizer=learner.tokenizer,
        vocabulary=int(learner.model.config.get_text_config().vocab_size),
    )
    sampler = _on_cluster(run, settings) if run.cluster.address else make_sampler(section.engine, settings)
    if sampler.tokenizer is None:
        sampler.close()
        raise ConfigError(f"sampler.engine {section.engine!r} returns no token ids, which training needs")
    require_vocabulary(sampler.tokenizer, vocabulary_fingerprint(learner.tokenizer), f"the engine {section.engine}")
    return sampler


def _on_cluster(run: Run, settings: SamplerSettings) -> Sampler:
    """Return a sampler over the engines of the run's cluster."""
    import torch

    wanted = cluster_settings(run, settings.device, torch.cuda.device_count())
    options = dict(settings.options)
    if run.sampler.engine == "vllm" and gpus_of_engine(run) > 1:  # inside Ray, vLLM would take Ray for its own workers
        options.setdefault("distributed_executor_backend", "mp")
    placed = replace(settings, device="cuda" if wanted.gpus else "cpu", options=options)
    return ClusterSampler(run.sampler.engine, placed, wanted)


def _model_of(prepared: PreparedRun, learner: Learner) -> str:
    """Return the model that the engine loads before it receives the learner's weights."""
    run = prepared.run
    if run.policy.model:
        return run.policy.model
    folder = run.folder / "engine"
    save_policy(learner.weights(), learner.tokenizer, folder)
    return str(folder)

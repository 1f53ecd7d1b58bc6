"""The engine of a run: the sampler that its `[sampler]` section names, for the learner's model.

With a `[cluster]` section it is a sampler over several such engines.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from turncredit.engines.base import Sampler, SamplerSettings, check_settings
from turncredit.engines.cluster.sampler import ClusterSampler
from turncredit.engines.wrappers import make_sampler
from turncredit.processes import tracing
from turncredit.training.batch.batch import Batch
from turncredit.training.batch.scores import Scores
from turncredit.training.config.cluster import cluster_settings, gpus_of_engine
from turncredit.training.config.sections import ClusterSection, SamplerSection
from turncredit.training.engine.engine_probe import EngineProbe, ProbeAnswers, shares_module
from turncredit.training.errors import ConfigError
from turncredit.training.learner.learner import Learner
from turncredit.training.learner.policy import require_vocabulary, save_policy, vocabulary_fingerprint


def check_sampler(section: SamplerSection, cluster: ClusterSection, device: str, *, experts: bool = False) -> None:
    """Refuse settings of an engine that it cannot be made from.

    Args:
        section: the `[sampler]` section.
        cluster: the `[cluster]` section; with an address, the engine is made there.
        device: device of the learner, as torch names it.
        experts: whether it has to record the experts of tokens.

    Raises:
        ConfigError: an option is not a number of GPUs.
        SamplerError: the engine has no such option, or a value is invalid.
    """
    if cluster.address:
        gpus_of_engine(section.options)
    settings = SamplerSettings(url=section.url, device=device, options=section.options, experts=experts)
    check_settings(section.engine, settings, here=not cluster.address)


class RunEngine:
    """The sampler of a run, and the probe that compares it with the learner after each load.

    Args:
        learner: its weights are loaded.
        make_sampler: opens the sampler, see `open_sampler`.
        make_probe: makes the probe of an engine with weights of its own; it may return None for no probe.
        micro_tokens: tokens per micro-batch in which the learner scores the probe.
        shares_card: whether the engine computes on the learner's GPU.
        begin: told what begins when the sampler is opened and used for the first time, which may take minutes.
    """

    def __init__(
        self,
        learner: Learner,
        make_sampler: Callable[[Learner], Sampler],
        make_probe: Callable[[], EngineProbe | None],
        *,
        micro_tokens: int,
        shares_card: bool = False,
        begin: Callable[[str], None] = lambda step: None,
    ) -> None:
        self._learner, self._micro_tokens = learner, micro_tokens
        self._make_sampler, self._make_probe, self._begin = make_sampler, make_probe, begin
        self._shares_card = shares_card
        self._sampler: Sampler | None = None
        self._probe: EngineProbe | None = None
        self._asked: ProbeAnswers | None = None  # which the learner scores when it has its weights again
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
            self.make_room()
            self._begin("starting the engine")
            self._sampler = self._make_sampler(self._learner)
            self.shared = shares_module(self._sampler, self._learner.weights())
            if not self.shared:
                self._begin("loading the weights into the engine, and comparing both")
                self._probe = self._make_probe()
        return self._sampler

    def load(self, version: int) -> None:
        """Load the learner's weights and compare both; `metrics` has load_seconds and the gap.

        Raises:
            EngineMismatch: engine and learner differ by more than sampler.gap_limit.
            AgentError: the engine failed.
        """
        sampler = self.sampler  # opening it may need its own event loop
        self.make_room()
        asyncio.run(self._load(sampler, version))

    async def load_here(self, version: int) -> None:
        """Do what `load` does, on the running event loop; the sampler must be open."""
        await self._load(self.sampler, version)

    def make_room(self) -> None:
        """Let the learner leave the memory of its GPU to an engine that is about to start, or to wake, beside it."""
        if self._shares_card:
            self._learner.weights()  # what the engine will load is made while the learner still has everything
            self._learner.make_room()

    def rest(self) -> None:
        """Let the engine release its memory until the next load, if it can.

        Raises:
            EngineMismatch: engine and learner differ too much, where they could not be compared after the load.
        """
        asyncio.run(self.sampler.sleep())
        if self._probe is not None and self._asked is not None:
            asked, self._asked = self._asked, None
            self._compare(self._probe, asked)

    def finish_probe(self) -> None:
        """Compare engine and learner now, if that waits for the engine to sleep.

        Raises:
            EngineMismatch: they differ too much.
        """
        if self._asked is not None:
            self.rest()

    def close(self) -> None:
        """Close the sampler, if it was opened."""
        if self._sampler is not None:
            self._sampler.close()

    async def _load(self, sampler: Sampler, version: int) -> None:
        started, self._loaded = time.perf_counter(), {}
        with tracing.span("load_weights", {"turncredit.version": version}):
            await sampler.load(self._learner.weights(), version=version)
        if self._probe is not None:
            asked = await self._probe.ask(sampler, version)
            if self._shares_card and self._learner.parks_weights:
                self._asked = asked  # the engine has the GPU until it sleeps
            else:
                self._compare(self._probe, asked)
        self._loaded["load_seconds"] = time.perf_counter() - started

    def _compare(self, probe: EngineProbe, asked: ProbeAnswers) -> None:
        gap = probe.compare(asked, self._score)
        probe.check(gap)
        self._loaded |= gap.metrics()

    def _score(self, batch: Batch) -> Scores:
        return self._learner.score(batch, micro_tokens=self._micro_tokens)


def open_sampler(
    learner: Learner,
    *,
    engine: str,
    settings: SamplerSettings,
    cluster: ClusterSection,
    shares: bool,
    folder: Path,
) -> Sampler:
    """Return the run's sampler; its weights are those of the learner once `load` was called.

    Args:
        learner: trains the model.
        engine: name of the sampler.
        settings: settings as far as they are known without a learner. An engine that loads the model by itself gets
            their model; where it is empty, the new model in `folder`.
        cluster: where the engines run.
        shares: whether it may compute with the learner's own module.
        folder: folder of a new model for engines that load it.

    Raises:
        ConfigError: the sampler has no tokenizer, and so no token ids to train on.
        VocabularyMismatch: its vocabulary is not the learner's.
        AgentError: the sampler cannot be made.
    """
    model = settings.model
    settings = replace(
        settings,
        model="" if shares else settings.model or _saved_model(learner, folder),
        device=learner.device,
        module=learner.weights() if shares else None,
        tokenizer=learner.tokenizer,
        vocabulary=int(learner.model.config.get_text_config().vocab_size),
    )
    sampler = _on_cluster(engine, settings, cluster) if cluster.address else make_sampler(engine, settings)
    if sampler.tokenizer is None:
        sampler.close()
        raise ConfigError(f"sampler.engine {engine!r} returns no token ids, which training needs")
    require_vocabulary(sampler.tokenizer, vocabulary_fingerprint(learner.tokenizer), f"the engine {engine}")
    sampler.model_name = model or folder.parent.name  # a new one is named like its run
    return sampler


def _on_cluster(engine: str, settings: SamplerSettings, section: ClusterSection) -> Sampler:
    """Return a sampler over the engines of a cluster."""
    import torch

    placement = cluster_settings(section, settings.options, settings.device, torch.cuda.device_count())
    options = dict(settings.options)
    if engine == "vllm" and gpus_of_engine(options) > 1:  # inside Ray, vLLM would take Ray for its own workers
        options.setdefault("distributed_executor_backend", "mp")
    if engine == "vllm" and placement.gpus:  # weights come through main memory, and a process for IPC takes memory
        options.setdefault("transfer", "files")
    placed = replace(settings, device="cuda" if placement.gpus else "cpu", options=options)
    return ClusterSampler(engine, placed, placement)


def _saved_model(learner: Learner, folder: Path) -> str:
    """Write a new model for an engine that loads it before it receives the learner's weights."""
    save_policy(learner.weights(), learner.tokenizer, folder)
    return str(folder)

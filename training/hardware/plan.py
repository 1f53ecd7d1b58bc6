"""What a run would need on several GPUs, from arithmetic: memory by part, and which side waits for the other.

With P parameters, the learner computes 2 P floating-point operations per token in a forward pass and 4 P in a backward
pass; a decoding step of the engine reads all weights and the cache of its episodes once, and computes 2 P per episode.
Real programs reach a share of what a device can do: a model's matrix products are smaller than those that reach its
peak, and attention, activations, the optimizer and Python take time as well. These shares are assumptions
(`Gpu.learner_efficiency`, `Gpu.engine_efficiency`); `benchmarks/plan.py` measures them on a machine.

Engine and learner work at the same time only if the run is asynchronous and each has GPUs of its own. Otherwise they
take turns, and an iteration takes the sum of both.

Not included: the time of environments, the network between machines, and attention's own operations where sequences are
long.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turncredit.agents.model_facts import BYTES
from turncredit.engines.transformers.graph_memory import graph_bytes
from turncredit.engines.vllm.gpu_memory import engine_memory
from turncredit.training.config.cluster import gpus_of_engine
from turncredit.training.config.run import Run
from turncredit.training.errors import ConfigError
from turncredit.training.hardware.card_layout import (
    CardLayout,
    at_once,
    base_parameters,
    card_layout,
    engine_dtype,
    engine_size,
    learner_parts,
    parameters_of,
)
from turncredit.training.learner.lora import LoraOptions
from turncredit.training.learner.memory import (
    MemoryEstimate,
    MemoryNeeds,
    cache_bytes,
    estimate,
    expert_bytes,
    gathered_bytes,
)
from turncredit.training.learner.untyped import ModelConfig

MACHINE = 8
"""Assumed number of GPUs in a machine."""
SHARES = (0.25, 0.5, 0.75)
"""Shares of the GPUs that are given to the engine in the table."""

RECORDED = 2
"""Copies of the recorded experts of an iteration in main memory: those of the turns, and those of the batch."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU.

    Attributes:
        memory: in bytes.
        flops: floating-point operations per second that it can do.
        bandwidth: bytes per second that it can read.
        learner_efficiency: share of `flops` that an update reaches.
        engine_efficiency: share of `flops` and `bandwidth` that the engine reaches.
        transfer: bytes per second at which weights go from the learner to main memory, and from there to an engine.
    """

    memory: float
    flops: float
    bandwidth: float
    learner_efficiency: float = 0.4
    engine_efficiency: float = 0.5
    transfer: float = 2e9


@dataclass(frozen=True, slots=True)
class EpisodeLengths:
    """What an iteration plays.

    Attributes:
        count: number of episodes.
        sampled: tokens that are sampled, in all episodes.
        computed: tokens of all sequences, prompts included.
        length: of the longest sequence.
        tail: sampled tokens of the longest episode relative to the mean.
    """

    count: int
    sampled: float
    computed: float
    length: int
    tail: float

    @classmethod
    def most(cls, run: Run) -> "EpisodeLengths":
        """Return the longest episodes that a run allows: every turn is played, and every answer and context is full."""
        agent, count, context = run.agent, run.train.groups * run.train.group_size, run.policy.context
        prompt = agent.prompt if isinstance(agent.prompt, str) else agent.prompt["name"]
        sequences = 1 if prompt == "conversation" else agent.max_turns  # else every turn is a sequence of its own
        tokens = agent.max_tokens * agent.max_turns // sequences
        return cls(
            count=count,
            sampled=float(count * sequences * min(tokens, context)),
            computed=float(count * sequences * context),
            length=run.policy.context,
            tail=1.0,
        )

    @classmethod
    def of_events(cls, run: Run, events: Sequence[Mapping[str, Any]], tail: float) -> "EpisodeLengths":
        """Return the means of the iterations of a run that was made, for the episodes of another one.

        Args:
            run: that is planned.
            events: of metrics.jsonl.
            tail: of its episodes.

        Raises:
            ConfigError: there is no finished iteration.
        """
        done = [event for event in events if event.get("phase") == "train" and event.get("episodes")]
        if not done:
            raise ConfigError("the run has no finished iteration to take the lengths of episodes from")
        count, played = run.train.groups * run.train.group_size, sum(event["episodes"] for event in done)
        return cls(
            count=count,
            sampled=count * sum(event["tokens"] for event in done) / played,
            computed=count * sum(event["sequence_tokens"] for event in done) / played,
            length=run.policy.context,
            tail=tail,
        )


@dataclass(frozen=True, slots=True)
class Split:
    """One way to use the GPUs.

    Attributes:
        engines: GPUs of the engine; 0: engine and learner take turns on all of them.
        learners: GPUs of the learner.
        rollout: seconds of an iteration's rollouts.
        update: seconds of its update.
        sync: seconds in which the new weights reach the engine.
        learner_bytes: memory of the learner on each of its GPUs.
        engine_bytes: memory of the engine on each of its GPUs.
        overlap: rollouts and updates happen at the same time.
        layout: how vLLM's engine and the learner share each of their GPUs; None if they do not, or for another engine.
        shards: GPUs of the learner over which one copy of the weights is divided.
    """

    engines: int
    learners: int
    rollout: float
    update: float
    sync: float
    learner_bytes: float
    engine_bytes: float
    overlap: bool
    layout: CardLayout | None = None
    shards: int = 1

    @property
    def seconds(self) -> float:
        """Seconds of an iteration: whichever side takes longer if they overlap, else one after the other."""
        return self.sync + (max(self.rollout, self.update) if self.overlap else self.rollout + self.update)

    @property
    def idle(self) -> tuple[str, float]:
        """The side whose GPUs wait longer, and the share of time in which they do; "" where the GPUs are shared."""
        if not self.engines:
            return "", self.sync / self.seconds
        side, busy = min(("learner", self.update), ("engine", self.rollout), key=lambda pair: pair[1])
        return side, 1 - busy / self.seconds

    def fits(self, device: Gpu) -> bool:
        """Return whether every GPU has the memory."""
        if self.layout is not None:
            return self.layout.fits()
        if not self.engines:
            return self.learner_bytes + self.engine_bytes <= device.memory
        return max(self.learner_bytes, self.engine_bytes) <= device.memory


@dataclass(frozen=True, slots=True)
class RunPlan:
    """The needs of a run.

    Attributes:
        parameters: of the model.
        memory: of an update on one GPU.
        host_memory: bytes of main memory on a machine of the learner: weights, what is parked, the experts that were
            recorded for the tokens of an iteration, and copies of the
            optimizer's states while a checkpoint is written.
        episodes: of one iteration.
        splits: the ways to use the GPUs, shared ones first.
    """

    parameters: int
    memory: MemoryEstimate
    host_memory: float
    episodes: EpisodeLengths
    splits: tuple[Split, ...]

    def fastest(self, device: Gpu) -> Split | None:
        """Return the split with the shortest iteration of those that fit; None if none does."""
        return min((split for split in self.splits if split.fits(device)), key=_speed, default=None)

    def shown(self, device: Gpu) -> list[Split]:
        """Return the splits worth comparing, at most five.

        They are shared GPUs, about a quarter, a half and three quarters of them for the engine, and the fastest split
        that fits.

        Args:
            device: one GPU.
        """
        shared, *apart = self.splits
        chosen = [shared, self.fastest(device) or shared]
        for share in SHARES if apart else ():
            chosen.append(min(apart, key=lambda split: abs(split.engines - share * shared.learners)))
        return sorted(dict.fromkeys(chosen), key=lambda split: split.engines)


def _speed(split: Split) -> tuple[float, int]:
    return split.seconds, split.engines + split.learners


def make_plan(
    run: Run, config: ModelConfig, gpus: int, device: Gpu, episodes: EpisodeLengths, *, machine: int = MACHINE
) -> RunPlan:
    """Return what a run needs on some GPUs.

    Args:
        run: the configuration.
        config: of its model, from transformers.
        gpus: number of GPUs, all of one kind.
        device: what each of them does.
        episodes: of an iteration.
        machine: GPUs of one machine, on which the ranks of the learner divide a copy of the weights.

    Raises:
        ConfigError: gpus is below 1 or below those of one engine, or policy.lora is wrong for this model.
    """
    if gpus < 1:
        raise ConfigError(f"gpus must be >= 1, got {gpus}")
    section = run.policy
    needs = MemoryNeeds(
        tokens=run.train.micro_batch.tokens,
        length=section.context,
        dtype=section.dtype,
        lora=section.lora,
        optimizer=run.train.optimizer.name,
        recompute_activations=section.recompute_activations,
        packing=run.train.micro_batch.packing,
        sharing=run.train.micro_batch.may_share_prefixes(section.attention),
        attention=section.attention,
        reference=bool(run.objective.kl.coefficient),
        routing_replay=run.train.routing_replay,
    )
    memory = estimate(config, needs)
    parameters, trained = parameters_of(run, memory)
    base, each = base_parameters(run, memory), gpus_of_engine(run.sampler.options)
    if gpus < each:
        raise ConfigError(f"one engine computes on {each} GPUs, as sampler.options says, and gpus is {gpus}")
    gathered = gathered_bytes(config, needs) if gpus > 1 else 0
    layouts = [(0, gpus), *((engines, gpus - engines) for engines in range(each, gpus, each))]
    if LoraOptions.of(section.lora).bits == 4:
        layouts = [(engines, learners) for engines, learners in layouts if learners == 1]
        if not layouts:
            raise ConfigError(f"policy.lora.bits = 4 trains on one GPU, and the engines leave another number of {gpus}")
    layout = None
    if run.sampler.engine == "vllm":
        parts, whole = learner_parts(memory, shards_of(run, gpus, machine), gathered), device.memory
        layout = card_layout(run, config, parts, base, total=whole, available=whole, engines=gpus // each)
    splits = tuple(
        Split(
            engines=engines,
            learners=learners,
            rollout=rollout_seconds(run, config, parameters, engines or gpus, device, episodes),
            update=update_seconds(run, parameters, learners, device, episodes),
            sync=_sync_bytes(run, parameters, trained, learners, shared=not engines) / device.transfer,
            learner_bytes=sum(
                learner_parts(memory, shards_of(run, learners, machine), gathered if learners > 1 else 0).values()
            ),
            engine_bytes=float(layout.engine.total)
            if layout is not None and not engines
            else _engine_bytes(run, config, base, engines or gpus, episodes),
            overlap=bool(engines) and run.train.asynchronous,
            layout=None if engines else layout,
            shards=shards_of(run, learners, machine),
        )
        for engines, learners in layouts
    )
    held = _host_bytes(run, parameters, gpus) + _parked_bytes(run, memory, gpus, machine)
    if run.train.routing_replay:
        held += RECORDED * episodes.computed * expert_bytes(config)
    return RunPlan(parameters, memory, held, episodes, splits)


def shards_of(run: Run, learners: int, machine: int) -> int:
    """Return over how many of the learner's GPUs a copy of the weights is divided, as its ranks decide it.

    Args:
        run: the configuration.
        learners: GPUs of the learner.
        machine: GPUs of one machine.
    """
    if run.policy.shards and not learners % run.policy.shards:
        return run.policy.shards
    return machine if learners > machine and not learners % machine else learners


def update_seconds(run: Run, parameters: int, gpus: int, device: Gpu, episodes: EpisodeLengths) -> float:
    """Return the seconds of an update: forward and backward passes over every token, once.

    passes = 2 + 4, + 2 with policy.recompute_activations, + 2 with recomputed log-probabilities, + 2 with a reference;
    a LoRA adapter saves the gradient of the weights, 2 of the backward pass.
    """
    passes = (
        6
        + 2 * run.policy.recompute_activations
        + 2 * (run.objective.old_logprobs == "recomputed")
        + 2 * bool(run.objective.kl.coefficient)
    )
    passes -= 2 * bool(run.policy.lora)
    return passes * parameters * episodes.computed / (gpus * device.flops * device.learner_efficiency)


def rollout_seconds(
    run: Run, config: ModelConfig, parameters: int, gpus: int, device: Gpu, episodes: EpisodeLengths
) -> float:
    """Return the seconds of an iteration's rollouts; the longest episodes of synchronous ones play alone at the end.

    At full speed, a decoding step of b episodes on the g GPUs of one engine takes
    max((w P + b c) / bandwidth, 2 P b / flops) / g, with w the bytes of a weight in the engine and c those of half a
    full cache of an episode. Every other token is computed once, since prompts extend what is cached.
    """
    each = gpus_of_engine(run.sampler.options)
    engines = gpus // each
    batch = max(1.0, at_once(run) / engines)
    dtype = engine_dtype(run)
    cache = cache_bytes(config, dtype=dtype) * episodes.length / 2

    def step(episodes_at_once: float) -> float:
        read = (BYTES[dtype] * parameters + episodes_at_once * cache) / device.bandwidth
        return max(read, 2 * parameters * episodes_at_once / device.flops) / each

    mean = episodes.sampled / episodes.count
    decoding = episodes.sampled / engines / batch * step(batch)
    if not run.train.asynchronous:
        decoding += (episodes.tail - 1) * mean * step(1.0)
    prompts = max(0.0, episodes.computed - episodes.sampled)
    return (decoding + 2 * parameters * prompts / (engines * each * device.flops)) / device.engine_efficiency


def _sync_bytes(run: Run, parameters: int, trained: int, learners: int, *, shared: bool) -> float:
    """Return the bytes that go to main memory and from there to each engine, one after the other.

    Several ranks gather what is trained in float32; one sends all weights in the engine's type. An engine on the
    learner's GPUs reads nothing if it computes with the learner's own module, and vLLM there reads an adapter alone.
    """
    whole = BYTES[engine_dtype(run)] * parameters
    if shared and run.sampler.engine == "transformers" and learners == 1 and not run.train.asynchronous:
        return 0.0
    if shared and run.sampler.options.get("enable_lora") and trained < parameters:
        return 2 * 4.0 * trained
    return float(whole + (4 * trained if learners > 1 else whole))


def _host_bytes(run: Run, parameters: int, gpus: int) -> float:
    """Return the main memory that weights take: the whole copy of several ranks, and weights on their way to engines.

    The copy has the type of the policy's weights: float32, or that of a frozen base. On their way, weights lie in the
    object store, and for vLLM once more in a folder, which stays in memory.
    """
    if gpus == 1:
        return 0.0
    held = BYTES[run.policy.dtype] if run.policy.lora else 4
    copies = 2 if run.sampler.engine == "vllm" else 1
    return float(held * parameters + copies * BYTES[engine_dtype(run)] * parameters)


def _parked_bytes(run: Run, memory: MemoryEstimate, gpus: int, machine: int) -> float:
    """Return the main memory for what the learner parks there, and for copies while ranks write a checkpoint."""
    offload = run.train.optimizer.offload
    parked = memory.optimizer if offload else 0
    if offload == "all":
        parked += memory.weights + memory.reference
    copied = memory.optimizer if gpus > 1 else 0
    return (parked + copied) * min(1.0, machine / shards_of(run, gpus, machine))


def _engine_bytes(run: Run, config: ModelConfig, parameters: int, gpus: int, episodes: EpisodeLengths) -> float:
    """Return the bytes of an engine on each of its GPUs, which no learner shares."""
    each, dtype = gpus_of_engine(run.sampler.options), engine_dtype(run)
    at_most = at_once(run) / (gpus // each)
    cached = run.sampler.kv_cache_gib * 2**30 or at_most * episodes.length * cache_bytes(config, dtype=dtype) / each
    if run.sampler.engine != "vllm":
        options = run.sampler.options
        captured = run.sampler.engine == "transformers" and options.get("graphs", True) and not options.get("compile")
        graphs = graph_bytes(config.to_dict(), math.ceil(at_most), dtype) if captured else 0
        return BYTES[dtype] * parameters / each + cached + graphs
    size = engine_size(run, parameters)
    return float(engine_memory(config.to_dict(), size, run.sampler.options, cache=int(cached)).total)

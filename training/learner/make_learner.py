"""The learner of a run: its model as the `[policy]` section wants it held, and how it is trained."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turncredit.agents.errors import ModelError
from turncredit.agents.models.four_bits import import_bitsandbytes, quantize
from turncredit.agents.models.lora_folders import attach, fingerprint
from turncredit.agents.models.model_folder import ModelFolder, find_model, load_model
from turncredit.agents.models.tokenization import Tokenizer
from turncredit.agents.models.weights import is_adapter
from turncredit.training.config.sections import PolicySection, TrainSection
from turncredit.training.errors import ConfigError
from turncredit.training.learner.learner import Learner
from turncredit.training.learner.lora import LoraOptions, add_adapter, freeze_vision
from turncredit.training.learner.memory import MemoryNeeds, bytes_per_image_token, require_memory
from turncredit.training.learner.peak_flops import peak_of_device
from turncredit.training.learner.policy import check_sizes
from turncredit.training.learner.threads import SMALL_MODEL, use_threads
from turncredit.training.learner.untyped import CausalLM

if TYPE_CHECKING:
    from turncredit.training.learner.rank_commands import Leader


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerFactory:
    """Makes the learner of a run around a model.

    Attributes:
        policy: the `[policy]` section.
        train: the `[train]` section.
        needs: what decides how much memory it needs.
        device: device of the model, as torch names it.
        threads: CPU threads of torch; 0: chosen by the model's size.
        leader: commands the other ranks; None for one process.
        note: receives a sentence where memory is scarce or has run out.
        image_size: width and height of the images of the environment; None: it has none.
    """

    policy: PolicySection
    train: TrainSection
    needs: MemoryNeeds
    device: str
    threads: int
    leader: "Leader | None"
    note: Callable[[str], None]
    image_size: tuple[int, int] | None = None

    def __call__(self, model: CausalLM, tokenizer: Tokenizer) -> Learner:
        """Return the learner.

        Args:
            model: from `load_trainable` or `load_trained`, or a new one.
            tokenizer: its tokenizer.

        Raises:
            NotEnoughMemory: the device cannot hold what training needs.
            ConfigError: the device has no flex attention, or not the kernels of policy.kernels.
        """
        use_threads(self.threads, model)
        large = sum(weights.numel() for weights in model.parameters()) >= SMALL_MODEL
        if large:
            scarcity = require_memory(model.config, self._needs(model, tokenizer), self.device)
            if scarcity:
                self.note(scarcity)
        options: dict[str, Any] = {
            "lr": self.train.lr,
            "weight_decay": self.train.optimizer.weight_decay,
            "optimizer": self.train.optimizer.name,
            "bfloat16": self.policy.dtype == "bfloat16",
            "recompute_activations": self.policy.recompute_activations,
            "packing": self.train.micro_batch.packing,
            # small models gain least, and their runs are recorded to the last digit
            "share_prefixes": self._shares_prefixes(large=large),
        }
        if self.leader is None:
            learner = Learner(model, tokenizer, device=self.device, note=self.note, **options)
        else:
            from turncredit.training.learner.distributed_learner import DistributedLearner

            learner = DistributedLearner(model, tokenizer, leader=self.leader, note=self.note, **options)
        if self.policy.kernels != "plain":
            learner.use_kernels(self.policy.kernels)
        if self.train.routing_replay:
            learner.replay_routing()
        learner.peak = peak_of_device(self.device, self.policy.dtype, self.train.peak_tflops)
        if self.train.optimizer.offload:
            learner.offload(weights=self.train.optimizer.offload == "all")
        return learner

    def _needs(self, model: CausalLM, tokenizer: Tokenizer) -> MemoryNeeds:
        """Return what decides the need of memory, with that of the images."""
        if self.image_size is None:
            return self.needs
        each = bytes_per_image_token(model, tokenizer, self.image_size)
        return replace(self.needs, image_token_bytes=each)

    def _shares_prefixes(self, *, large: bool) -> bool | str:
        choice = self.train.micro_batch.share_prefixes
        if choice == "flex" and not self.device.startswith("cuda"):
            raise ConfigError(
                'train.micro_batch.share_prefixes = "flex" needs policy.device = "cuda"; true computes on any device'
            )
        return (
            large and self.train.micro_batch.may_share_prefixes(self.policy.attention) if choice == "auto" else choice
        )


def check_policy(section: PolicySection, *, one_process: bool = True) -> None:
    """Refuse an adapter or sizes that give no model, and shards for which there are no ranks.

    Args:
        section: the `[policy]` section.
        one_process: whether one process trains the policy.

    Raises:
        ConfigError: the adapter has no such option, or what it needs is missing.
        PolicyError: the sizes do not give a model.
    """
    if one_process and section.shards > 1:
        raise ConfigError(
            f"policy.shards = {section.shards} divides the weights over several ranks, and one process trains here; "
            "start the ranks with torchrun or cluster.learners, or leave it out"
        )
    if LoraOptions.of(section.lora).bits == 4:
        if section.kernels == "compile":
            raise ConfigError('policy.kernels = "compile" does not compute with policy.lora.bits = 4; use "plain"')
        try:
            import_bitsandbytes()
        except ModelError as error:
            raise ConfigError(str(error)) from error
    if not section.model:
        new = section.new
        check_sizes(hidden=new.hidden, layers=new.layers, heads=new.heads, context=section.context, vision=new.vision)
        if section.freeze_vision is True:
            raise ConfigError("policy.freeze_vision: a new image encoder learns nothing if it is left as it is")


def memory_needs(
    policy: PolicySection, train: TrainSection, *, engine_dtype: str, here: bool, reference: bool, ranks: int
) -> MemoryNeeds:
    """Return what decides how much memory a run needs, at most as many cached tokens as episodes can have.

    Args:
        policy: the `[policy]` section.
        train: the `[train]` section.
        engine_dtype: type of the engine's weights.
        here: whether the engine computes in this process.
        reference: whether there is a reference policy.
        ranks: number of processes that train the policy.
    """
    groups = train.groups * (train.staleness.updates + 1) + train.staleness.spare_groups
    episodes = min(train.concurrency, groups * train.group_size)
    copied = bool(train.staleness.updates) or engine_dtype != held_dtype(policy)
    return MemoryNeeds(
        tokens=train.micro_batch.tokens,
        length=policy.context,
        dtype=policy.dtype,
        lora=policy.lora,
        optimizer=train.optimizer.name,
        recompute_activations=policy.recompute_activations,
        packing=train.micro_batch.packing,
        sharing=train.micro_batch.may_share_prefixes(policy.attention),
        attention=policy.attention,
        reference=reference,
        ranks=ranks,
        engine=engine_dtype if here and copied else "",
        cached=episodes * policy.context if here else 0,
        routing_replay=train.routing_replay,
    )


def held_dtype(section: PolicySection) -> str:
    """Return the dtype of the weights that are loaded: float32 where they are trained, policy.dtype where frozen."""
    return section.dtype if section.lora else "float32"


def load_trainable(section: PolicySection, folder: ModelFolder) -> CausalLM:
    """Return the model of policy.model, with a new adapter if the run trains one.

    Raises:
        ConfigError: the folder holds an adapter, and another one would be put on top of it.
        ModelError: the model cannot be read.
    """
    if not section.lora:
        return _with_frozen_vision(load_model(folder.path, attention=section.attention), section)
    name = folder.name.partition("@")[0] if folder.revision else str(folder.path.resolve())
    model = _load_base(section, folder)
    frozen = section.freeze_vision is not False  # "auto" too
    options = LoraOptions.of(section.lora)
    return add_adapter(model, options, base=name, revision=folder.revision, beside_text=not frozen)


def load_trained(section: PolicySection, checkpoint: Path) -> CausalLM:
    """Return the model of a checkpoint; an adapter is put beside the model of policy.model, and stays trainable.

    Raises:
        ModelError: the model cannot be read, or the adapter belongs to another base.
    """
    if not section.lora:
        return _with_frozen_vision(load_model(checkpoint, attention=section.attention), section)
    return attach(_load_base(section, find_model(section.model)), checkpoint, trainable=True)


def _with_frozen_vision(model: CausalLM, section: PolicySection) -> CausalLM:
    if section.freeze_vision is True:
        freeze_vision(model)
    return model


def _load_base(section: PolicySection, folder: ModelFolder) -> CausalLM:
    if is_adapter(folder.path):
        raise ConfigError(
            f"policy.model is the adapter {folder.path}, but policy.lora needs a whole model: use the folder final/ of "
            "the run that trained it"
        )
    model = load_model(folder.path, dtype=held_dtype(section), attention=section.attention)
    return quantize(model, fingerprint) if LoraOptions.of(section.lora).bits == 4 else model

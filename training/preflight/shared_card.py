"""Whether vLLM's engine fits on the GPU of the learner, before anything is computed, and how it starts there."""

from dataclasses import replace

from turncredit.agents.device_memory import DeviceMemory
from turncredit.agents.models.model_folder import find_model, transformers_library
from turncredit.training.config.run import Run
from turncredit.training.config.sections import PolicySection
from turncredit.training.errors import NotEnoughMemory
from turncredit.training.hardware.card_layout import (
    CardLayout,
    base_parameters,
    card_layout,
    describe,
    learner_parts,
    remedies,
    shares_card,
)
from turncredit.training.learner.memory import MemoryNeeds, estimate, gathered_bytes
from turncredit.training.learner.policy import policy_config
from turncredit.training.learner.untyped import ModelConfig


def lay_out_card(run: Run, needs: MemoryNeeds, gpu: DeviceMemory) -> CardLayout | None:
    """Return how engine and learner share a GPU; None if they do not, or on a CPU.

    Args:
        run: the configuration.
        needs: what decides how much memory the learner needs.
        gpu: the learner's.

    Raises:
        NotEnoughMemory: they do not fit, even with one sequence per micro-batch; it has the numbers and the choices.
        ConfigError: policy.lora is wrong for this model, or an option is not a number of GPUs.
        ModelError: the model cannot be found.
    """
    memory = gpu.free_and_total() if shares_card(run, gpu.name) else None
    if memory is None:
        return None
    config = model_configuration(run.policy)
    layout = _lay_out(run, config, needs, *memory)
    if layout.fits():
        return layout
    least = _lay_out(run, config, replace(needs, tokens=needs.length), *memory)
    if least.fits():  # micro-batches are halved where memory runs out
        return layout
    raise NotEnoughMemory(
        f"the vLLM engine and the learner do not fit on the GPU {gpu.name}: {least.problem}; {describe(least)}; "
        f"{remedies(run, least)}"
    )


def model_configuration(section: PolicySection) -> ModelConfig:
    """Return the configuration of a run's model, from its folder or from its sizes.

    Raises:
        ModelError: the model cannot be found.
    """
    if not section.model:
        made: ModelConfig = policy_config(**section.new.model_dump(), context=section.context)
        return made
    folder = find_model(section.model, weights=False).path
    read: ModelConfig = transformers_library().AutoConfig.from_pretrained(
        folder, local_files_only=True, trust_remote_code=False
    )
    return read


def _lay_out(run: Run, config: ModelConfig, needs: MemoryNeeds, free: int, total: int) -> CardLayout:
    ranks, whole = needs.ranks, replace(needs, ranks=1)
    memory = estimate(config, whole)
    gathered = gathered_bytes(config, whole) if ranks > 1 else 0
    parts = learner_parts(memory, ranks, gathered)
    return card_layout(run, config, parts, base_parameters(run, memory), total=total, available=free)

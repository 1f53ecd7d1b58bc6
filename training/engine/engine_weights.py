"""What an engine could not be given later is refused while nothing has been played or trained."""

from pathlib import Path

from turncredit.agents.errors import SamplerError
from turncredit.agents.models.checkpoint_layout import adapted_layers, described_tensors, ignored_names
from turncredit.agents.models.model_folder import model_config
from turncredit.agents.models.weights import base_model, has_adapter, is_adapter
from turncredit.engines.vllm.arguments import check_dtype, installed_packages
from turncredit.engines.vllm.engine import check_model
from turncredit.engines.weight_files import check_shapes, shapes_of
from turncredit.training.config.sections import SamplerSection
from turncredit.training.errors import ConfigError
from turncredit.training.learner.untyped import CausalLM

ADAPTER_OPTION = {"vllm": "enable_lora", "openai": "adapters"}
"""Option with which an engine gets an adapter as such, instead of the whole model with the adapter merged."""


LEFT_AS_THEY_WERE = {"gpt_oss": "experts"}
"""By model type, what vLLM 0.32 leaves as it was, without an error, when a running engine receives new weights."""


def check_engine_model(folder: Path, section: SamplerSection, dtype: str, *, sees: bool) -> None:
    """Refuse a model that vLLM cannot compute with, where it is installed: engines start after the warm start.

    Args:
        folder: of policy.model.
        section: the `[sampler]` section.
        dtype: policy.dtype, which is the engine's too unless the section has one.
        sees: whether the environment returns images.

    Raises:
        ConfigError: it has vLLM's reason.
    """
    packages = installed_packages()
    if section.engine != "vllm" or not packages or is_adapter(folder):
        return
    package = next(iter(packages))
    try:
        check_dtype(model_config(folder), section.dtype or dtype, package)
        check_model(folder, package, sees=sees)
    except SamplerError as error:
        raise ConfigError(f'{error}; use another model, or sampler.engine = "transformers"') from error


def check_engine_weights(model: CausalLM, folder: Path, section: SamplerSection) -> None:
    """Refuse a model whose new weights do not fit the engine that starts from its folder.

    Args:
        model: the policy, with its adapter if it has one.
        folder: of policy.model, which the engine reads.
        section: the `[sampler]` section.

    Raises:
        ConfigError: the engine takes no such adapter, its weights are quantized, or its tensors are others.
    """
    option = ADAPTER_OPTION.get(section.engine)
    if option is None:
        return
    try:
        if has_adapter(model) and section.options.get(option):
            if getattr(base_model(model), "whole_fingerprint", ""):
                raise SamplerError(
                    "the engine would add the adapter to the whole weights, and it is trained beside weights in 4 bits "
                    f"(policy.lora.bits = 4); leave sampler.options.{option} out, so that both are sent merged"
                )
            adapted_layers(model)
            return
        _check_quantization(folder, option)
        left = LEFT_AS_THEY_WERE.get(model_config(folder).get("model_type", ""))
        if left:
            raise SamplerError(f"vLLM does not replace the {left} of such a model (0.32)")
        if section.engine == "vllm" and not is_adapter(folder):
            expected = shapes_of(folder)
            sent = {name: tuple(tensor.shape) for name, tensor in described_tensors(model, expected)}
            check_shapes(sent, expected, ignored_names(folder))
    except SamplerError as error:
        raise ConfigError(
            f"sampler.engine = {section.engine!r} cannot be given the weights of policy.model: {error}; "
            'sampler.engine = "transformers" computes with the learner\'s own'
        ) from error


def _check_quantization(folder: Path, option: str) -> None:
    quantization = model_config(folder).get("quantization_config")
    if quantization:
        method = quantization.get("quant_method", "an unknown method")
        raise SamplerError(
            f"{folder} is quantized ({method}), and what is trained is not; use a folder with whole weights, or train "
            f"an adapter (policy.lora) that the engine takes as one (sampler.options.{option} = true)"
        )

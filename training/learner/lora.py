"""LoRA: a small trainable adapter beside the frozen weights of a model, W + (alpha / rank) B A.

The frozen weights are shared by policy and reference. The adapter is held in float32 for every type of the base, and
computed in the type of the base.

Source: Hu et al. 2021, arXiv 2106.09685; without dropout.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor

from turncredit.agents.errors import SamplerError
from turncredit.agents.models.lora_folders import adapter_tensors, import_peft, quiet_peft, use_fast_layers
from turncredit.agents.models.weights import require_plain_adapter
from turncredit.registry import suggest
from turncredit.training.batch.batch import Batch
from turncredit.training.batch.cutting import Cutting
from turncredit.training.batch.scores import Scores
from turncredit.training.errors import ConfigError
from turncredit.training.learner.logprobs import TokenScorer
from turncredit.training.learner.untyped import CausalLM

ENCODERS = ("vision_tower", "vision_model", "visual")
"""Names that models of transformers have for their image encoder."""


class LoraOptions(BaseModel):
    """The table `policy.lora`.

    Attributes:
        rank: of B A.
        alpha: the adapter's scale is alpha / rank.
        targets: names of the matrices that get an adapter, such as ["q_proj", "v_proj"]; "all-linear": all matrices
            except the embedding and the output layer.
        bits: of the frozen matrices: 16, those of policy.dtype; 4, nf4 (QLoRA, needs bitsandbytes).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    rank: int = Field(default=16, ge=1)
    alpha: float = Field(default=32.0, gt=0)
    targets: Literal["all-linear"] | list[str] = "all-linear"
    bits: Literal[4, 16] = 16

    @classmethod
    def of(cls, table: Mapping[str, object]) -> "LoraOptions":
        """Return the options of a table.

        Raises:
            ConfigError: a key is unknown, or a value is invalid.
        """
        for key in table:
            if key not in cls.model_fields:
                raise ConfigError(f"unknown key {key!r} in policy.lora{suggest(key, cls.model_fields)}")
        try:
            return cls.model_validate(dict(table))
        except ValidationError as error:
            first = error.errors()[0]
            raise ConfigError(f"policy.lora.{first['loc'][0]}: {first['msg']}, got {first['input']!r}") from error


def add_adapter(
    model: CausalLM, options: LoraOptions, *, base: str = "", revision: str = "", beside_text: bool = False
) -> CausalLM:
    """Return a peft model: the given one, frozen, with a new adapter that changes nothing yet (B = 0).

    Args:
        model: of transformers; it is changed in place. Its adapter is drawn from torch's global generator.
        options: rank, alpha, targets.
        base: name of the model, which is stored with the adapter.
        revision: of the model, on the Hub.
        beside_text: whether matrices that no text passes through, such as an image encoder's, get an adapter too.

    Raises:
        ConfigError: no matrix of the model has a name in `targets`, or one that has shares its weights with the
            embedding.
        ModelError: peft is not installed.
    """
    peft = import_peft()
    if options.targets != "all-linear":
        matrices = {
            name.rpartition(".")[2] for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)
        }
        for target in options.targets:
            if target.rpartition(".")[2] not in matrices:
                raise ConfigError(f"policy.lora.targets: the model has no matrix {target!r}{suggest(target, matrices)}")
    config = peft.LoraConfig(
        r=options.rank,
        lora_alpha=options.alpha,
        target_modules=options.targets,
        exclude_modules=None if beside_text else _beside_the_text(model),
        task_type="CAUSAL_LM",
    )
    with quiet_peft():
        adapted = peft.get_peft_model(model, config).eval()
    try:
        require_plain_adapter(adapted)
    except SamplerError as error:
        raise ConfigError(f"policy.lora.targets: {error}") from error
    config.base_model_name_or_path, config.revision = base or None, revision or None
    use_fast_layers(adapted)
    return adapted


def _beside_the_text(model: CausalLM) -> str | None:
    """Return an expression for the names of modules that no text passes through, such as an image encoder's."""
    decoder = model.get_decoder() if hasattr(model, "get_decoder") else None
    name = next((name for name, module in model.named_modules() if name and module is decoder), "")
    beside = [
        other
        for other, module in model.named_modules()
        if isinstance(module, torch.nn.Linear)
        and module is not model.get_output_embeddings()
        and not other.startswith(f"{name}.")
    ]
    return rf"(?!{re.escape(name)}\.).*" if name and beside else None


def freeze_vision(model: CausalLM) -> None:
    """Leave the image encoder of a model as it is in training; what leads from it to the decoder is trained.

    Raises:
        ConfigError: the model has none.
    """
    encoders = [module for name, module in model.named_modules() if name.rpartition(".")[2] in ENCODERS]
    if not encoders:
        raise ConfigError(f"policy.freeze_vision: {type(model).__name__} has no image encoder; leave it out")
    for encoder in encoders:
        encoder.requires_grad_(False)


class FrozenAdapter:
    """Scores tokens under the same model with another adapter, which is kept apart and never trained.

    Args:
        scorer: of the policy, a peft model.
        tensors: the other adapter, by the names of `adapter_tensors`; it is copied. If it changes nothing (B = 0), the
            base is computed without an adapter.
    """

    def __init__(self, scorer: TokenScorer, tensors: Mapping[str, Tensor]) -> None:
        self._scorer = scorer
        mine = adapter_tensors(scorer.model)
        self._neutral = not any(bool(tensor.any()) for name, tensor in tensors.items() if "lora_B" in name)
        self._pairs = [] if self._neutral else [(mine[name], _part(tensors[name], mine[name])) for name in mine]

    @property
    def cutting(self) -> Cutting:
        """How rows are dealt and cut."""
        return self._scorer.cutting

    def score(self, batch: Batch, *, temperature: float = 1.0, micro_tokens: int = 16384) -> Scores:
        """Return log-probabilities and entropies, as `TokenScorer.score` does."""
        inside: AbstractContextManager[object] = (
            self._scorer.model.disable_adapter() if self._neutral else self._exchanged()
        )
        with inside:
            return self._scorer.score(batch, temperature=temperature, micro_tokens=micro_tokens)

    @contextmanager
    def _exchanged(self) -> Iterator[None]:
        """Put the other adapter's values in place of the policy's; of weights that are divided, each rank its part."""
        own = [_here(parameter).clone() for parameter, _ in self._pairs]
        for parameter, other in self._pairs:
            _here(parameter).copy_(other)
        try:
            yield
        finally:
            for (parameter, _), data in zip(self._pairs, own, strict=True):
                _here(parameter).copy_(data)


def _part(tensor: Tensor, like: Any) -> Tensor:
    """Return a copy of a tensor, or of the part that belongs to this rank's part of a parameter."""
    if hasattr(like, "to_local"):
        from torch.distributed.tensor import distribute_tensor

        # every rank has the whole adapter, so that nothing has to be sent
        whole = tensor.to(like.device, like.dtype)
        return distribute_tensor(whole, like.device_mesh, like.placements, src_data_rank=None).to_local().clone()
    return tensor.detach().clone().to(like)


def _here(parameter: Tensor) -> Tensor:
    """Return the values of a parameter, or the part of them that this rank holds."""
    here: Tensor = parameter.to_local().detach() if hasattr(parameter, "to_local") else parameter.data
    return here

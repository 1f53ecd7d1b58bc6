"""LoRA adapters in folders of peft, and the model that an adapter belongs to.

    FOLDER/adapter_config.json, adapter_model.safetensors    as peft writes and reads them
    FOLDER/base.json                                         the base's name, revision and fingerprint

Adapters that were made elsewhere have no base.json; they are checked by their shapes alone.

Not included: other methods of peft, and several adapters at once.
"""

from __future__ import annotations

import copy
import hashlib
import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turncredit.agents.errors import ModelError, SamplerError
from turncredit.agents.files.json_files import write_json
from turncredit.agents.models.weights import has_adapter, require_plain_adapter, shared_embedding
from turncredit.installation import needs
from turncredit.tools.bounded_input import parse_json, read_json

if TYPE_CHECKING:
    import torch
    from torch import Tensor

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
RECORD = "base.json"
_PREFIX = "base_model.model."
SAMPLE = 16
"""Numbers of each tensor that a fingerprint looks at."""


@dataclass(frozen=True, slots=True)
class BaseModel:
    """The model that an adapter belongs to.

    Attributes:
        name: a folder or an id of the Hub.
        revision: the commit hash on the Hub; empty for a folder.
        fingerprint: from `fingerprint`; empty if it is not known.
    """

    name: str
    revision: str = ""
    fingerprint: str = ""

    @property
    def reference(self) -> str:
        """The name as `find_model` takes it, with the revision."""
        plain = self.name.partition("@")[0] if self.revision else self.name
        return f"{plain}@{self.revision}" if self.revision else plain


def base_of(folder: str | Path) -> BaseModel:
    """Return the model that the adapter in a folder belongs to.

    Raises:
        ModelError: the folder does not say.
    """
    path = Path(folder)
    try:
        if (path / RECORD).is_file():
            return BaseModel(**read_json(path / RECORD))
        table = read_json(path / CONFIG)
    except (OSError, ValueError, TypeError) as error:
        raise ModelError(f"{path}: the adapter's configuration cannot be read: {error}") from error
    if not table.get("base_model_name_or_path"):
        raise ModelError(f"{path}: the adapter does not name its base model")
    return BaseModel(table["base_model_name_or_path"], table.get("revision") or "")


def fingerprint(model: Any) -> str:
    """Return 16 hexadecimal digits of the names, shapes and a sample of the values of a model's parameters.

    The values are rounded to bfloat16, so that the digits do not depend on the dtype in which a model was loaded.

    Args:
        model: transformers or peft model, whose adapter is left out.
    """
    import torch

    inner = model.get_base_model() if has_adapter(model) else model
    if getattr(inner, "whole_fingerprint", ""):
        return str(inner.whole_fingerprint)  # what it was before it was quantized
    named = {
        name.replace(".base_layer", ""): parameter
        for name, parameter in inner.named_parameters()
        if "lora_" not in name
    }
    digest = hashlib.sha256()
    for name, tensor in sorted(named.items()):
        flat = tensor.detach().flatten()
        sample = flat[:: max(1, flat.numel() // SAMPLE)][:SAMPLE].to("cpu", torch.bfloat16)
        digest.update(f"{name}{list(tensor.shape)}".encode(errors="surrogatepass"))
        digest.update(sample.view(torch.int16).numpy().tobytes())
    return digest.hexdigest()[:16]


def attach(model: Any, folder: str | Path, *, trainable: bool = False) -> Any:
    """Return a peft model: a base with the adapter of a folder, which is in float32.

    Args:
        model: transformers model; it is changed in place.
        folder: holds the adapter.
        trainable: whether the adapter requires gradient.

    Raises:
        ModelError: the adapter belongs to another base, it cannot be read, or it is to be trained and is more than
            LoRA.
    """
    path, base = Path(folder), base_of(folder)
    own_fingerprint = fingerprint(model)
    if base.fingerprint and base.fingerprint != own_fingerprint:
        raise ModelError(
            f"the adapter in {path} belongs to another base model: it was trained on {base.name} with fingerprint "
            f"{base.fingerprint}, and this model has {own_fingerprint}"
        )
    peft = import_peft()
    try:
        with quiet_peft():
            adapted = peft.PeftModel.from_pretrained(model, str(path), is_trainable=trainable, torch_device="cpu")
    except Exception as error:  # safetensors, json, torch and peft each raise their own exceptions
        first = str(error).strip().splitlines()[0] if str(error).strip() else "no further word"
        raise ModelError(f"the adapter in {path} does not fit the model: {type(error).__name__}: {first}") from error
    if trainable:
        try:
            require_plain_adapter(adapted)
        except SamplerError as error:
            raise ModelError(f"the adapter in {path} cannot be trained: {error}") from error
    use_fast_layers(adapted)
    return adapted.eval()


def use_fast_layers(model: torch.nn.Module) -> None:
    """Let a peft model compute its adapters in the type of a base in 16 bits (`lora_layers`)."""
    from turncredit.agents.models.lora_layers import compute_in_half

    compute_in_half(model)


def merge(model: Any) -> Any:
    """Return the model inside a peft model with its adapter added to the weights, W + scaling * B A, in place.

    If embedding and output layer shared their weights and the adapter changes one of them, they are untied for good:
    each has its own weights, and the configuration says so.
    """
    _untie(model)
    return model.merge_and_unload().eval()


def _untie(model: Any) -> None:
    import torch

    shared = shared_embedding(model)
    if not any(hasattr(layer, "base_layer") or hasattr(layer, "modules_to_save") for layer in shared.values()):
        return
    base = model.get_base_model()
    own = base.get_output_embeddings()
    while hasattr(own, "base_layer") or hasattr(own, "original_module"):
        own = own.base_layer if hasattr(own, "base_layer") else own.original_module
    own.weight = torch.nn.Parameter(own.weight.detach().clone(), requires_grad=False)
    for config in (base.config, base.config.get_text_config()):
        config.tie_word_embeddings = False


def adapter_tensors(model: Any) -> dict[str, Tensor]:
    """Return the tensors of a peft model's LoRA adapter, by the names that peft gives them in files; no copies."""
    return {name.replace(".default", ""): parameter for name, parameter in model.named_parameters() if "lora_" in name}


def save_adapter(model: Any, folder: str | Path, names: Mapping[str, str] | None = None) -> None:
    """Write the adapter of a peft model, and what it belongs to, into an existing folder.

    Args:
        model: a peft model, whose configuration names the base.
        folder: existing files are overwritten.
        names: other names for adapted layers, under which an engine has them.

    Raises:
        SamplerError: the adapter is more than the matrices of LoRA, which alone are written.
        OSError: the folder cannot be written.
    """
    from safetensors.torch import save_file

    path, config = Path(folder), copy.copy(model.peft_config["default"])
    tensors = {name: tensor.cpu().contiguous() for name, tensor in plain_adapter(model, names).items()}
    save_file(tensors, path / WEIGHTS, metadata={"format": "pt"})
    config.inference_mode = True
    config.save_pretrained(str(path))
    base = BaseModel(config.base_model_name_or_path or "", config.revision or "", fingerprint(model))
    write_json(path / RECORD, asdict(base), indent=2)


def plain_adapter(model: Any, names: Mapping[str, str] | None = None) -> dict[str, Tensor]:
    """Return the tensors of a peft model's adapter as its file has them; no copies.

    Args:
        model: a peft model.
        names: other names for adapted layers, under which an engine has them.

    Raises:
        SamplerError: the adapter is more than the matrices of LoRA.
    """
    require_plain_adapter(model)
    return {_renamed(name, names or {}): tensor.detach() for name, tensor in adapter_tensors(model).items()}


def adapter_config(model: Any) -> dict[str, object]:
    """Return the configuration of a peft model's adapter as its file has it."""
    table = model.peft_config["default"].to_dict()
    plain: dict[str, object] = parse_json(json.dumps(table, default=_plain), "the configuration of the adapter")
    return plain


def _plain(value: object) -> object:
    return sorted(value) if isinstance(value, set) else str(getattr(value, "value", value))


def _renamed(name: str, names: Mapping[str, str]) -> str:
    layer, lora, matrix = name.removeprefix(_PREFIX).partition(".lora_")
    return f"{_PREFIX}{names.get(layer, layer)}{lora}{matrix}"


def read_adapter(folder: str | Path) -> Mapping[str, Tensor]:
    """Return the tensors in an adapter's folder, by the names that peft gives them.

    Raises:
        OSError: there is no such file.
    """
    from safetensors.torch import load_file

    tensors: Mapping[str, Tensor] = load_file(Path(folder) / WEIGHTS)
    return tensors


@contextmanager
def quiet_peft() -> Iterator[None]:
    """Silence peft's warnings about deprecated names in transformers, and about ranks of experts, which it does use."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        warnings.filterwarnings("ignore", ".*_pattern keys did not match", RuntimeWarning)
        yield


def import_peft() -> Any:
    """Return the package peft.

    Raises:
        ModelError: it is not installed.
    """
    try:
        import peft
    except ImportError as error:
        raise ModelError(needs("LoRA needs peft", "lora")) from error
    return peft

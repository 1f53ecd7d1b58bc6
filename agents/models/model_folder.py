"""Models by name: a local Hugging Face folder or an id of the Hub becomes a model and its tokenizer.

    find_model       the folder of a model, downloaded if necessary
    load_model       its weights, in memory of their own
    load_tokenizer   its tokenizer, with an end token and a padding token

Not included: code in model folders, and quantized formats.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turncredit.agents.errors import ModelError
from turncredit.agents.json_types import JsonObject
from turncredit.agents.models.hub import cached, download
from turncredit.agents.models.lora_folders import attach, base_of, merge
from turncredit.agents.models.stored_layers import MOST_LAYERS, layers_of, panics_as_errors
from turncredit.agents.models.weights import is_adapter
from turncredit.agents.vision.image_reader import attach_reader
from turncredit.agents.vision.vision_folder import load_reader, model_class
from turncredit.installation import needs
from turncredit.registry import suggest
from turncredit.tools.bounded_input import InputError, read_json, require_files

if TYPE_CHECKING:
    import torch

DTYPES = ("float32", "bfloat16", "float16")
EXAMPLE = "Qwen/Qwen2.5-1.5B-Instruct"
_HUB_ID = re.compile(r"(?P<repo>\w[\w.-]*/\w[\w.-]*)(@(?P<revision>[\w./-]+))?")


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """Where a model lies.

    Attributes:
        path: its local folder.
        name: as it was asked for.
        revision: the commit hash on the Hub; empty for a folder of the user's own.
    """

    path: Path
    name: str
    revision: str = ""


def find_model(name: str, *, weights: bool = True) -> ModelFolder:
    """Return the folder of a model; a model of the Hub is downloaded unless the local cache has it.

    Args:
        name: a folder ("~" is expanded), or an id of the Hugging Face Hub with an optional revision (branch, tag or
            commit hash), such as "Qwen/Qwen2.5-1.5B-Instruct@main". A folder comes first.
        weights: whether the weights are needed, or configuration and tokenizer only.

    Raises:
        ModelError: it is neither, or the model cannot be downloaded; see `turncredit.agents.models.hub.download`.
    """
    path = Path(name).expanduser()
    if name and path.is_dir():
        return ModelFolder(path, name)
    match = _HUB_ID.fullmatch(name)
    if match is None:
        problem = "is a file" if path.exists() else "does not exist"
        raise ModelError(f"expected a Hugging Face folder or an id such as {EXAMPLE}, but {name!r} {problem}")
    repo, revision = match["repo"], match["revision"] or "main"
    folder = cached(repo, revision, weights=weights) or download(repo, revision, weights=weights)
    return ModelFolder(folder, name, folder.name)


def load_model(
    folder: str | Path,
    *,
    dtype: str | torch.dtype | None = None,
    attention: str | None = None,
    device: str = "cpu",
) -> Any:
    """Return the model of a local Hugging Face folder in evaluation mode. Nothing is downloaded but an adapter's base.

    A folder with an adapter gives its base model with the adapter merged.

    The weights are copied out of their file: there they start at unaligned addresses, from which the CPU computes more
    slowly and rounds differently.

    Args:
        folder: path of the folder; code in it is not run.
        dtype: dtype of the weights, one of `DTYPES` or a dtype of torch; None or "": float32.
        attention: an implementation that transformers knows, such as "sdpa", "eager" or "flash_attention_2"; None or
            "": its own choice.
        device: as torch names it.

    Raises:
        ModelError: it is not a model folder, the configuration or weights are missing or incomplete, the dtype is
            unknown, or torch or transformers is not installed.
    """
    path = _model_folder(folder)
    require_layers(path)
    if is_adapter(path):
        base = load_model(find_model(base_of(path).reference).path, dtype=dtype, attention=attention)
        return merge(attach(base, path)).requires_grad_().to(device)  # peft freezes what lies below an adapter
    transformers = transformers_library()
    kind = dtype_of(dtype)
    options = {"attn_implementation": attention} if attention else {}
    try:
        with quiet(transformers):
            model, report = model_class(transformers, _whole_config(path)).from_pretrained(
                path,
                local_files_only=True,
                trust_remote_code=False,
                dtype=kind,
                output_loading_info=True,
                **options,
            )
    except Exception as error:  # safetensors, json, torch and transformers each raise their own exceptions
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"{path} could not be read as a causal language model: {_first_line(error)}") from error
    missing = sorted(report.get("missing_keys") or ())
    if missing:
        raise ModelError(
            f"{path}: the weights are incomplete: {len(missing)} tensors are missing, the first is {missing[0]}"
        )
    return _aligned(model).to(device).eval()


def empty_model(folder: str | Path) -> Any:
    """Return the model of a local Hugging Face folder on torch's meta device, where tensors have shapes and no values.

    Raises:
        ModelError: transformers knows no causal language model with this configuration, or it is not installed.
    """
    transformers = transformers_library()
    import torch

    require_layers(Path(folder))
    try:
        with quiet(transformers), torch.device("meta"):
            kind = model_class(transformers, _whole_config(Path(folder)))
            config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
            model = kind.from_config(config, trust_remote_code=False)
            model.tie_weights()
            return model
    except Exception as error:  # of transformers and of the model's own code
        raise ModelError(f"{folder} is not a causal language model that transformers knows: {error}") from error


def causal_class(folder: str | Path) -> type:
    """Return the class of transformers that computes with the model of a local Hugging Face folder.

    Raises:
        ModelError: transformers knows no causal language model with this configuration, or it is not installed.
    """
    transformers = transformers_library()
    try:
        with quiet(transformers):
            auto = model_class(transformers, _whole_config(Path(folder)))
            config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        kind: type = auto._model_mapping[type(config)]
    except Exception as error:  # of transformers
        raise ModelError(f"{folder} is not a causal language model that transformers knows: {error}") from error
    return kind


def load_tokenizer(folder: str | Path) -> Any:
    """Return the tokenizer of a local Hugging Face folder; without a padding token it pads with its end token.

    Args:
        folder: path of the folder; nothing is downloaded, and code in it is not run.

    Raises:
        ModelError: there is no readable tokenizer, it has no end token or more entries than the model, or transformers
            is not installed.
    """
    path = _model_folder(folder)
    if is_adapter(path) and not (path / "tokenizer_config.json").is_file():
        return load_tokenizer(find_model(base_of(path).reference).path)
    transformers = transformers_library()
    try:
        with quiet(transformers):
            tokenizer = transformers.AutoTokenizer.from_pretrained(path, local_files_only=True, trust_remote_code=False)
    except Exception as error:
        raise ModelError(f"{path} holds no readable tokenizer: {_first_line(error)}") from error
    if tokenizer.eos_token_id is None:
        raise ModelError(f"{path}: the tokenizer has no end-of-sequence token, so a response could never end")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    rows = model_config(path).get("vocab_size")
    if rows is not None and len(tokenizer) > rows:
        raise ModelError(f"{path}: the tokenizer has {len(tokenizer)} entries, but the model only {rows}")
    reader = load_reader(transformers, path, _whole_config(path), tokenizer)
    if reader is not None:
        attach_reader(tokenizer, reader)
    return tokenizer


def model_config(folder: str | Path) -> dict[str, Any]:
    """Return config.json of a model folder or of an adapter's base; of a model for images too, the part about text.

    Raises:
        ModelError: it is not a model folder, or the file is not JSON.
    """
    table = _whole_config(_model_folder(folder))
    return {**table, **table.get("text_config", {})}


def _whole_config(path: Path) -> JsonObject:
    """Return config.json of a model folder or of an adapter's base."""
    if is_adapter(path):
        return _whole_config(find_model(base_of(path).reference).path)
    try:
        table: JsonObject = read_json(path / "config.json")
    except InputError as error:
        raise ModelError(f"{error}; it must be the config.json of a model") from error
    return table


def end_tokens_of(folder: str | Path, tokenizer: Any) -> tuple[int, ...]:
    """Return the ids that end a response: the tokenizer's, and those of the generation configuration of its folder.

    Args:
        folder: folder of a model, or of an adapter, whose base has the configuration.
        tokenizer: tokenizer of the model.

    Raises:
        ModelError: it is not a model folder, or a file is not JSON.
    """
    path = _model_folder(folder)
    whole = find_model(base_of(path).reference).path if is_adapter(path) else path
    file = whole / "generation_config.json"
    try:
        table = read_json(file) if file.is_file() else model_config(whole)
    except InputError as error:
        raise ModelError(f"{error}; it must be a model's generation configuration") from error
    configured = table.get("eos_token_id")
    ids = configured if isinstance(configured, list) else [configured]
    return tuple(dict.fromkeys(token for token in (tokenizer.eos_token_id, *ids) if token is not None))


def dtype_of(name: str | torch.dtype | None) -> torch.dtype:
    """Return a dtype of torch by name; None or "": float32.

    Raises:
        ModelError: the name is not one of `DTYPES`, or torch is not installed.
    """
    transformers_library()
    import torch

    if isinstance(name, torch.dtype):
        return name
    if name and name not in DTYPES:
        raise ModelError(f"unknown dtype {name!r}{suggest(name, DTYPES)}")
    kind: torch.dtype = getattr(torch, name or "float32")
    return kind


@contextmanager
def quiet(transformers: Any) -> Iterator[None]:
    """Silence the progress bars and log messages of transformers; errors are raised.

    Args:
        transformers: the imported package.
    """
    logging = transformers.utils.logging
    level = logging.get_verbosity()
    bars = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with panics_as_errors():
            yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def _aligned(model: Any) -> Any:
    """Copy the weights of a model out of the file that they were mapped from, and return the model."""
    import torch

    with torch.no_grad():
        for parameter in model.parameters():
            parameter.data = parameter.data.clone(memory_format=torch.contiguous_format)
    return model


def require_layers(folder: Path) -> None:
    """Check that the layers of a model are those of its weights, before they are built: that takes time for each.

    Raises:
        ModelError: config.json has more layers than the weights, or than any model; or a file is a pipe or a device.
    """
    try:
        require_files(folder)
    except InputError as error:
        raise ModelError(str(error)) from error
    if not (folder / "config.json").is_file():
        return  # an adapter, whose base is checked
    layers = model_config(folder).get("num_hidden_layers")
    if not isinstance(layers, int):
        return
    stored = layers_of(folder)
    if stored is None and layers > MOST_LAYERS:
        raise ModelError(
            f"{folder}: config.json says num_hidden_layers = {layers}, and models have at most {MOST_LAYERS}"
        )
    if stored is not None and layers > stored:
        raise ModelError(
            f"{folder}: config.json says num_hidden_layers = {layers}, but the weights have {stored} layers"
        )


def _model_folder(folder: str | Path) -> Path:
    path = Path(folder)
    if not path.is_dir():
        problem = "is a file" if path.exists() else "does not exist"
        raise ModelError(f"a model must be a local Hugging Face folder, but {path} {problem}")
    if not (path / "config.json").is_file() and not is_adapter(path):
        raise ModelError(f"{path} is not a Hugging Face model folder: it has no config.json")
    return path


def transformers_library() -> Any:
    """Return the module transformers.

    Raises:
        ModelError: torch or transformers is not installed.
    """
    try:
        import torch  # noqa: F401
        import transformers
    except ImportError as error:
        raise ModelError(needs(f"{error.name} is not installed; torch and transformers come with", "train")) from error
    return transformers


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0] if text else 'no further word'}"

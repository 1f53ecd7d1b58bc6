"""Policies: the small default model, and any local Hugging Face folder with a causal language model and its tokenizer.

`build_policy` creates a Llama-type model of a few hundred thousand to a few million parameters, and a byte-level BPE
tokenizer trained on the environment's texts. `save_policy` and `load_policy` store both as an ordinary Hugging Face
folder. `vocabulary_fingerprint` tells vocabularies apart, so that no model receives the token ids of another.

Not included: downloads, remote code in model folders, quantized formats, adapters.

    PolicyError(TrainingError)   sizes or texts from which no policy can be built
     └─ PolicyFolderError        the folder does not hold a complete model
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnwise.registry import suggest
from turnwise.training.errors import ConfigError, TrainingError, VocabularyMismatch

if TYPE_CHECKING:
    import torch

EOS = "<|end|>"
PAD = "<|pad|>"
SMALL_MODEL = 20_000_000
EMBEDDING = 0.2
"""Standard deviation of a fresh embedding."""

# A word with the space before it, a single digit (so that numbers share their digits: "mug 12" and "mug 1"),
# punctuation, or white space. The last space before a word belongs to the word.
PIECES = r" ?\p{L}+| ?\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


class PolicyError(TrainingError):
    """A policy cannot be built, read or written."""


class PolicyFolderError(PolicyError):
    """A folder does not hold a complete Hugging Face causal language model with its tokenizer."""


def build_policy(
    texts: Iterable[str],
    *,
    vocab: int = 1024,
    hidden: int = 128,
    layers: int = 4,
    heads: int = 4,
    context: int = 1024,
    seed: int = 0,
) -> tuple[Any, Any]:
    """Return a freshly initialised `LlamaForCausalLM` (float32, on the CPU) and its `PreTrainedTokenizerFast`.

    The same arguments give the same tokenizer and weights, independent of torch's global generator, which is left
    unchanged. The embedding is tied to the output layer, the MLP has 8/3 of `hidden` (rounded up to a multiple of 32),
    and there are as many key and value heads as heads.

    Args:
        texts: observations and answers; their word frequencies decide the merges.
        vocab: maximum vocabulary size, at least 258 (all bytes, end and padding).
        hidden: hidden size; a multiple of `heads` with an even quotient.
        layers: number of decoder layers.
        heads: number of attention heads; a head size of 32 or more learns best.
        context: maximum number of tokens of prompt and response together.
        seed: of the weights.

    Returns:
        Model (in evaluation mode) and tokenizer.

    Raises:
        PolicyError: the sizes do not fit together, or there is no text.
        TrainingError: torch or transformers is not installed.
    """
    check_sizes(hidden=hidden, layers=layers, heads=heads, context=context)
    torch, transformers = _libraries()
    tokenizer = build_tokenizer(texts, vocab=vocab, context=context)
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        intermediate_size=32 * math.ceil(hidden * 8 / 3 / 32),
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        max_position_embeddings=context,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = transformers.LlamaForCausalLM(config)
        _initialise(model, layers)
    return model.eval(), tokenizer


def build_tokenizer(texts: Iterable[str], *, vocab: int = 1024, context: int = 1024) -> Any:
    """Return a byte-level BPE `PreTrainedTokenizerFast` trained on `texts`; any text round-trips through it.

    Words keep the space before them, digits are single tokens, and each of the 256 bytes has an entry, so there is no
    unknown token. Encoding text never produces the end and padding tokens, even if the text spells them.

    Args:
        texts: training texts; at least one must not be empty.
        vocab: maximum vocabulary size, at least 258; it is smaller if the texts contain few different words.
        context: `model_max_length` of the tokenizer, in tokens.

    Raises:
        PolicyError: there is no text, or the vocabulary is too small for all bytes.
        TrainingError: transformers is not installed.
    """
    _libraries()
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    if vocab < len(alphabet) + 2:
        raise PolicyError(
            f"the vocabulary must have at least {len(alphabet) + 2} entries (bytes, end, padding), got {vocab}"
        )
    kept = [text for text in texts if text]
    if not kept:
        raise PolicyError("a tokenizer needs at least one non-empty text")
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    raw.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab, special_tokens=[PAD, EOS], initial_alphabet=alphabet, min_frequency=2, show_progress=False
    )
    raw.train_from_iterator(kept, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=raw,
        eos_token=EOS,
        pad_token=PAD,
        model_max_length=context,
        clean_up_tokenization_spaces=False,
        split_special_tokens=True,
    )


def check_sizes(*, hidden: int, layers: int, heads: int, context: int) -> None:
    """Refuse sizes that do not give a model.

    Raises:
        PolicyError: it says which sizes were expected.
    """
    if hidden < 1 or heads < 1 or layers < 1 or hidden % heads or (hidden // heads) % 2:
        raise PolicyError(
            f"policy.hidden must be a multiple of 2 * policy.heads, and policy.layers at least 1; got hidden={hidden}, "
            f"heads={heads}, layers={layers}"
        )
    if context < 2:
        raise PolicyError(f"the context must be at least 2 tokens, got {context}")


def aligned(model: Any) -> Any:
    """Copy the weights of a model out of the file that they were mapped from, and return the model.

    In the file they start at unaligned addresses, for which the CPU's kernels round differently: a run that was resumed
    would not end with the same bits as one that never stopped.
    """
    import torch

    with torch.no_grad():
        for parameter in model.parameters():
            parameter.data = parameter.data.clone(memory_format=torch.contiguous_format)
    return model


def load_policy(folder: str | Path, *, dtype: torch.dtype | None = None) -> tuple[Any, Any]:
    """Return model and tokenizer of a local Hugging Face folder, on the CPU and in evaluation mode.

    A tokenizer without a padding token pads with its end token. Nothing is downloaded, and code in the folder is not
    run.

    Args:
        folder: path of the folder.
        dtype: of the weights; None: float32, which training on a CPU needs.

    Raises:
        PolicyFolderError: it is not a folder, the configuration, weights or tokenizer are missing or incomplete, or the
            tokenizer has no end token.
        TrainingError: torch or transformers is not installed.
    """
    path = Path(folder)
    if not path.is_dir():
        what = "is a file" if path.exists() else "does not exist"
        raise PolicyFolderError(f"the policy must be a local Hugging Face folder, but {path} {what}")
    if not (path / "config.json").is_file():
        raise PolicyFolderError(f"{path} is not a Hugging Face model folder: it has no config.json")
    torch, transformers = _libraries()
    with _quiet(transformers):
        model = _load_model(path, torch.float32 if dtype is None else dtype, transformers)
        tokenizer = _load_tokenizer(path, transformers)
    rows = int(model.get_input_embeddings().weight.shape[0])
    if len(tokenizer) > rows:
        raise PolicyFolderError(f"{path}: the tokenizer has {len(tokenizer)} entries, but the model only {rows}")
    return model.eval(), tokenizer


def use_threads(count: int, model: Any = None) -> None:
    """Set the number of CPU threads that torch uses.

    Args:
        count: threads. 0: one for a model of fewer than `SMALL_MODEL` parameters, whose operations take less time than
            it takes several threads to meet on a busy machine; otherwise torch's own choice.
        model: the model that will run, if it is known yet.
    """
    if not count and model is not None and sum(weights.numel() for weights in model.parameters()) < SMALL_MODEL:
        count = 1
    if count:
        torch, _ = _libraries()
        torch.set_num_threads(count)


def device_of(name: str, *, elsewhere: bool = False) -> str:
    """Return the device of a model as torch names it: "cpu", "cuda" or "cuda:N".

    Args:
        name: "auto" (CUDA if available), or a torch device.
        elsewhere: fall back to the CPU if CUDA is missing, since a policy may be used on another machine than it was
            trained on.

    Raises:
        ConfigError: the name is unknown, or CUDA is requested and not available.
    """
    if name == "cpu":
        return name
    if name != "auto" and not name.startswith("cuda"):
        raise ConfigError(f"unknown policy.device {name!r}{suggest(name, ['cpu', 'cuda', 'auto'])}")
    import torch

    if torch.cuda.is_available():
        return "cuda" if name == "auto" else name
    if name == "auto" or elsewhere:
        return "cpu"
    raise ConfigError("policy.device is cuda, but no CUDA device is available; use cpu or auto")


def save_policy(model: Any, tokenizer: Any, folder: str | Path) -> None:
    """Write model and tokenizer into `folder` as an ordinary Hugging Face folder (safetensors).

    Existing files are overwritten one by one; write into a new folder and rename it where this must be atomic, as
    `turnwise.training.checkpoint` does.

    Args:
        model: any transformers model.
        tokenizer: its tokenizer.
        folder: it is created if it is missing.

    Raises:
        OSError: the folder cannot be written.
    """
    _, transformers = _libraries()
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    with _quiet(transformers):
        model.save_pretrained(path)
        tokenizer.save_pretrained(path)


def vocabulary_fingerprint(tokenizer: Any) -> str:
    """Return 16 hexadecimal digits that are equal exactly if two tokenizers assign the same ids to the same tokens.

    It is derived from the SHA-256 of all entries with their ids, the merges if the tokenizer exposes them, and the ids
    of the end and padding tokens.

    Args:
        tokenizer: a transformers tokenizer.
    """
    merges: object = None
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        merges = json.loads(backend.to_str()).get("model", {}).get("merges")
    facts = [sorted(tokenizer.get_vocab().items()), merges, tokenizer.eos_token_id, tokenizer.pad_token_id]
    return hashlib.sha256(json.dumps(facts, ensure_ascii=True).encode("ascii")).hexdigest()[:16]


def require_vocabulary(tokenizer: Any, fingerprint: str, where: str) -> None:
    """Check that a tokenizer has the vocabulary with the given fingerprint.

    Args:
        tokenizer: a transformers tokenizer.
        fingerprint: from `vocabulary_fingerprint`, recorded when the run began.
        where: the source of the tokenizer, for the message.

    Raises:
        VocabularyMismatch: it has another vocabulary, whose ids mean other words to the model.
    """
    found = vocabulary_fingerprint(tokenizer)
    if found != fingerprint:
        raise VocabularyMismatch(
            f"{where} has another vocabulary ({len(tokenizer)} entries, fingerprint {found}) than this run "
            f"(fingerprint {fingerprint}); use its own model, or start a new run"
        )


def _initialise(model: Any, layers: int) -> None:
    """Scale the initial weights for a narrow model: std 1/sqrt(inputs), and smaller residual outputs with depth.

    The std of the embedding matters most: if it is too small, the outputs of the blocks drown the token's identity.
        Measured on
    imitation of 600 expert episodes (120 steps of 16, 0.87M parameters, held-out nats a token of the action): 0.64
    with the library's 0.02 for every matrix, 0.55 with the scales here and 0.02 for the embedding, 0.25 and 0.29
    (two seeds) with 0.06, 0.23 with 0.12. On 2,000 searcher episodes (900 steps, 0.47M parameters, nats a token of the
    action): 0.134 with 0.06, 0.112 with 0.12, 0.105 with 0.2; 0.4 is no better.
    """
    import torch

    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim != 2:
                continue
            std = EMBEDDING if "embed_tokens" in name else weight.shape[1] ** -0.5
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                std /= math.sqrt(2 * layers)
            weight.normal_(0.0, std)


def _load_model(path: Path, dtype: torch.dtype, transformers: Any) -> Any:
    try:
        model, report = transformers.AutoModelForCausalLM.from_pretrained(
            path, local_files_only=True, dtype=dtype, output_loading_info=True
        )
    except Exception as error:  # safetensors, json, torch and transformers each raise their own exceptions
        raise PolicyFolderError(f"{path} could not be read as a causal language model: {_first_line(error)}") from error
    missing = sorted(report.get("missing_keys") or ())
    if missing:
        raise PolicyFolderError(
            f"{path}: the weights are incomplete: {len(missing)} tensors are missing, the first is {missing[0]}"
        )
    return model


def _load_tokenizer(path: Path, transformers: Any) -> Any:
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(path, local_files_only=True)
    except Exception as error:
        raise PolicyFolderError(f"{path} holds no readable tokenizer: {_first_line(error)}") from error
    if tokenizer.eos_token_id is None:
        raise PolicyFolderError(f"{path}: the tokenizer has no end-of-sequence token, so a response could never end")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0] if text else 'no further word'}"


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Silence the progress bars and log messages of transformers; errors are raised."""
    logging = transformers.utils.logging
    level = logging.get_verbosity()
    bars = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def _libraries() -> tuple[Any, Any]:
    try:
        import torch
        import transformers
    except ImportError as error:
        raise TrainingError(
            f"{error.name} is not installed; install torch and transformers with: pip install turnwise[train]"
        ) from error
    return torch, transformers

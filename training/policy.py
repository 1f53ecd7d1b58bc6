"""The small default policy, and any local Hugging Face folder: a causal language model with its tokenizer.

`build_policy` makes a Llama-type model of some hundred thousand to a few million parameters and a byte-level BPE
tokenizer trained on the environment's own texts; `save_policy` and `load_policy` keep both as an ordinary Hugging
Face folder; `vocabulary_fingerprint` tells two vocabularies apart, so that no model reads the ids of another.

Left out on purpose: downloads (a name on a hub is refused: a run must work without a network), remote code in model
folders, quantised formats, adapters.

    PolicyError(TrainingError)   sizes or texts that give no policy
     └─ PolicyFolderError        the folder is not a whole model: absent, torn, or of another kind
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

# One word with the space before it, one digit at a time (numbers share their digits, so that "mug 12" is understood
# from "mug 1" and "mug 2"), punctuation, white space. The last space before a word belongs to the word.
PIECES = r" ?\p{L}+| ?\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


class PolicyError(TrainingError):
    """A policy could not be built, read or written."""


class PolicyFolderError(PolicyError):
    """A folder does not hold a whole Hugging Face causal language model with its tokenizer."""


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

    The same arguments give the same tokenizer and the same weights, whatever was drawn from torch's global generator
    before, and that generator is left as it was. The embedding is shared with the output layer, the MLP is 8/3 of
    `hidden` wide (rounded up to 32), key and value heads are as many as heads.

    Args:
        texts: what the environment says and what may be answered; word frequencies decide the merges.
        vocab: most entries of the vocabulary, at least 258 (every byte, end and padding).
        hidden: width of the residual stream; a multiple of `heads`, with an even quotient.
        layers: number of decoder layers.
        heads: number of attention heads; heads of 32 or more learn best.
        context: most tokens of prompt and response together.
        seed: of the weights.

    Returns:
        Model (in evaluation mode) and tokenizer.

    Raises:
        PolicyError: sizes that do not fit together, or no text at all.
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

    Words are kept apart with the space before them, digits one by one, and every one of the 256 bytes has an entry:
    there is no unknown token. The markers of end and padding are never produced by encoding text, not even a text
    that spells them.

    Args:
        texts: the texts to learn from; at least one that is not empty.
        vocab: most entries, at least 258; there are fewer when the texts hold too few different words.
        context: `model_max_length` of the tokenizer, in tokens.

    Raises:
        PolicyError: no text, or a vocabulary too small for the bytes.
        TrainingError: transformers is not installed.
    """
    _libraries()
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    if vocab < len(alphabet) + 2:
        raise PolicyError(f"a vocabulary needs {len(alphabet) + 2} entries or more (bytes, end, padding), got {vocab}")
    kept = [text for text in texts if text]
    if not kept:
        raise PolicyError("a tokenizer needs at least one text that is not empty, got none")
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
            f"the hidden size must be heads x an even number, with at least one layer; got hidden={hidden}, "
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

    A tokenizer without a padding token pads with its end token. Nothing is downloaded and no code of the folder runs.

    Args:
        folder: path of the folder.
        dtype: of the weights; None: float32, which training on CPU needs.

    Raises:
        PolicyFolderError: not a folder, no configuration, torn or incomplete weights, no tokenizer, or a tokenizer
            without an end token: there is then no model that could be used without guessing.
        TrainingError: torch or transformers is not installed.
    """
    path = Path(folder)
    if not path.is_dir():
        what = "is a file" if path.exists() else "does not exist"
        raise PolicyFolderError(f"a policy is a local Hugging Face folder, but {path} {what}")
    if not (path / "config.json").is_file():
        raise PolicyFolderError(f"{path} holds no config.json, so it is not a Hugging Face model folder")
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
    """Return where a model runs, as torch names it: "cpu", "cuda" or "cuda:N".

    Args:
        name: "auto" (CUDA where there is one), or a device of torch.
        elsewhere: take the CPU where this machine has no CUDA; a policy may play on another machine than trained it.

    Raises:
        ConfigError: an unknown name, or CUDA on a machine without it.
    """
    if name == "cpu":
        return name
    if name != "auto" and not name.startswith("cuda"):
        raise ConfigError(f"policy.device {name!r} is not known{suggest(name, ['cpu', 'cuda', 'auto'])}")
    import torch

    if torch.cuda.is_available():
        return "cuda" if name == "auto" else name
    if name == "auto" or elsewhere:
        return "cpu"
    raise ConfigError("policy.device is cuda, and this machine has no usable one; take cpu or auto")


def save_policy(model: Any, tokenizer: Any, folder: str | Path) -> None:
    """Write model and tokenizer into `folder` as an ordinary Hugging Face folder (safetensors).

    Files of the same names are overwritten one after another: whoever needs all or nothing writes into a fresh folder
    and renames it (`turnwise.training.checkpoint` does).

    Args:
        model: any transformers model.
        tokenizer: its tokenizer.
        folder: is made when it is not there.

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
    """Return 16 hexadecimal digits that are equal exactly when two tokenizers give the same ids to the same tokens.

    The SHA-256 of all entries with their ids, the merges where the tokenizer shows them, and the ids of end and
    padding.

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
    """Return nothing when `tokenizer` has the vocabulary with this fingerprint.

    Args:
        tokenizer: a transformers tokenizer.
        fingerprint: of `vocabulary_fingerprint`, written down when the run began.
        where: what the tokenizer was read from; for the message.

    Raises:
        VocabularyMismatch: another vocabulary: its ids would mean other words to the model.
    """
    found = vocabulary_fingerprint(tokenizer)
    if found != fingerprint:
        raise VocabularyMismatch(
            f"{where} has another vocabulary ({len(tokenizer)} entries, fingerprint {found}) than this run was made "
            f"with (fingerprint {fingerprint}); take its own model, or begin a new run"
        )


def _initialise(model: Any, layers: int) -> None:
    """Scale the fresh weights for a narrow model: std 1/sqrt(inputs), and residual writers smaller with depth.

    The embedding's std matters most: too small, and what the blocks write drowns which token it was. Measured on
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
    except Exception as error:  # safetensors, json, torch and transformers each raise kinds of their own
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
        raise PolicyFolderError(f"{path} holds no tokenizer that could be read: {_first_line(error)}") from error
    if tokenizer.eos_token_id is None:
        raise PolicyFolderError(f"{path}: the tokenizer has no end token, so a response could never end")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0] if text else 'no further word'}"


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Keep the library's bars and remarks off the terminal; what matters is raised."""
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
            f"policies need torch and transformers ({error.name} is missing): pip install turnwise[train]"
        ) from error
    return torch, transformers

"""Policies: the small default model, and how any policy is saved.

`build_policy` creates a Llama-type model of a few hundred thousand to a few million parameters, and a byte-level BPE
tokenizer trained on the environment's texts. `save_policy` stores a policy as an ordinary Hugging Face folder, which
`turncredit.agents.models.model_folder` reads. `vocabulary_fingerprint` tells vocabularies apart, so that no model
receives the token ids of another.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from turncredit.agents.errors import ModelError
from turncredit.agents.models.lora_folders import save_adapter
from turncredit.agents.models.model_folder import ModelFolder, find_model, quiet
from turncredit.agents.models.weights import has_adapter, named_tensors
from turncredit.agents.vision.image_reader import attach_reader, reader_of
from turncredit.installation import needs
from turncredit.registry import suggest
from turncredit.training.config.section_tables import VisionSection
from turncredit.training.config.sections import PolicySection
from turncredit.training.errors import ConfigError, TrainingError, VocabularyMismatch
from turncredit.training.learner.untyped import CausalLM, ModelConfig, PolicyTokenizer
from turncredit.training.learner.vision_policy import IMAGE, build_reader, check_vision, with_tower

EOS = "<|end|>"
PAD = "<|pad|>"
EMBEDDING = 0.2
"""Standard deviation of a fresh embedding."""

# A word with the space before it, a single digit (so that numbers share their digits: "mug 12" and "mug 1"),
# punctuation, or white space. The last space before a word belongs to the word.
PIECES = r" ?\p{L}+| ?\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


class PolicyError(TrainingError):
    """Sizes or texts from which no policy can be built."""


def build_policy(
    texts: Iterable[str],
    *,
    vocab: int = 1024,
    hidden: int = 128,
    layers: int = 4,
    heads: int = 4,
    context: int = 1024,
    seed: int = 0,
    vision: VisionSection | None = None,
) -> tuple[CausalLM, PolicyTokenizer]:
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
        vision: sizes of an image encoder, for a model that sees; None: it reads text only.

    Returns:
        Model (in evaluation mode) and tokenizer.

    Raises:
        PolicyError: the sizes do not fit together, or there is no text.
        TrainingError: torch or transformers is not installed.
    """
    check_sizes(hidden=hidden, layers=layers, heads=heads, context=context)
    torch, transformers = _libraries()
    tokenizer = build_tokenizer(texts, vocab=vocab, context=context, special=() if vision is None else (IMAGE,))
    config = policy_config(
        vocab=len(tokenizer),
        hidden=hidden,
        layers=layers,
        heads=heads,
        context=context,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if vision is None:
            model = transformers.LlamaForCausalLM(config)
            _initialise(model, layers)
        else:
            model = with_tower(config, vision, tokenizer.convert_tokens_to_ids(IMAGE))
            _initialise(model.model.language_model, layers)
            attach_reader(tokenizer, build_reader(tokenizer, vision))
    return model.eval(), tokenizer


def policy_config(*, vocab: int, hidden: int, layers: int, heads: int, context: int, **special: int) -> ModelConfig:
    """Return the configuration of a new model; see `build_policy`.

    Args:
        vocab: rows of the embedding.
        hidden, layers, heads, context: as in `build_policy`.
        special: ids of special tokens, as transformers names them; the others are None.

    Raises:
        TrainingError: torch or transformers is not installed.
    """
    return _libraries()[1].LlamaConfig(
        vocab_size=vocab,
        hidden_size=hidden,
        intermediate_size=32 * math.ceil(hidden * 8 / 3 / 32),
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        max_position_embeddings=context,
        tie_word_embeddings=True,
        **{"bos_token_id": None, **special},
    )


def build_tokenizer(
    texts: Iterable[str], *, vocab: int = 1024, context: int = 1024, special: tuple[str, ...] = ()
) -> PolicyTokenizer:
    """Return a byte-level BPE `PreTrainedTokenizerFast` trained on `texts`; any text round-trips through it.

    Words keep the space before them, digits are single tokens, and each of the 256 bytes has an entry, so there is no
    unknown token. Encoding text never produces the end and padding tokens, even if the text spells them.

    Args:
        texts: training texts; at least one must not be empty.
        vocab: maximum vocabulary size, at least 258; it is smaller if the texts contain few different words.
        context: `model_max_length` of the tokenizer, in tokens.
        special: names of further special tokens.

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
    corpus = [text for text in texts if text]
    if not corpus:
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
        vocab_size=vocab,
        special_tokens=[PAD, EOS, *special],
        initial_alphabet=alphabet,
        min_frequency=2,
        show_progress=False,
    )
    raw.train_from_iterator(corpus, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=raw,
        eos_token=EOS,
        pad_token=PAD,
        model_max_length=context,
        clean_up_tokenization_spaces=False,
        split_special_tokens=True,
    )


def find_policy(section: PolicySection) -> ModelFolder | None:
    """Return the model of policy.model, downloaded if necessary; None for a new one.

    A run is prepared without it, since the runs of an ablation are prepared before their policy exists.

    Raises:
        ConfigError: there is no such model, or it cannot be downloaded.
    """
    try:
        return find_model(section.model) if section.model else None
    except ModelError as error:
        raise ConfigError(f"policy.model: {error}") from error


def check_sizes(*, hidden: int, layers: int, heads: int, context: int, vision: VisionSection | None = None) -> None:
    """Refuse sizes that do not give a model.

    Raises:
        PolicyError: it says which sizes were expected.
        ConfigError: of an image encoder.
    """
    if hidden < 1 or heads < 1 or layers < 1 or hidden % heads or (hidden // heads) % 2:
        raise PolicyError(
            f"policy.new.hidden must be a multiple of 2 * policy.new.heads, and policy.new.layers at least 1; "
            f"got hidden={hidden}, heads={heads}, layers={layers}"
        )
    if context < 2:
        raise PolicyError(f"the context must be at least 2 tokens, got {context}")
    if vision is not None and vision.sees:
        check_vision(vision)


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
        index = name.partition(":")[2]
        if index.isdigit() and int(index) >= torch.cuda.device_count():
            raise ConfigError(f"there is no device {name}: this machine has {torch.cuda.device_count()} CUDA devices")
        return "cuda" if name == "auto" else name
    if name == "auto" or elsewhere:
        return "cpu"
    raise ConfigError(f"the device is {name}, but no CUDA device is available; use cpu or auto")


def save_policy(model: CausalLM, tokenizer: PolicyTokenizer, folder: str | Path, *, merged: bool = False) -> None:
    """Write model and tokenizer into `folder` as an ordinary Hugging Face folder (safetensors).

    Of a peft model the adapter is written, unless it is to be merged.

    Existing files are overwritten one by one; write into a new folder and rename it where this must be atomic, as
    `turncredit.training.run_folder.checkpoint` does.

    Args:
        model: any transformers model.
        tokenizer: its tokenizer.
        folder: it is created if it is missing.
        merged: write the whole model, with its adapter added to the weights; the model itself does not change.

    Raises:
        OSError: the folder cannot be written.
    """
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    save_weights(model, path, merged=merged)
    save_tokenizer(tokenizer, path)


def save_tokenizer(tokenizer: PolicyTokenizer, folder: Path) -> None:
    """Write a tokenizer into the folder of its model, and how the model reads images, if it does.

    Raises:
        OSError: the folder cannot be written.
    """
    tokenizer.save_pretrained(folder)
    reader = reader_of(tokenizer)
    if reader is not None:
        reader.save(folder)


def save_weights(model: CausalLM, folder: Path, *, merged: bool = False) -> None:
    """Write a model without its tokenizer into a folder; see `save_policy`.

    Args:
        model: any transformers model.
        folder: that exists.
        merged: write the whole model, with its adapter added to the weights.

    Raises:
        OSError: the folder cannot be written.
    """
    _, transformers = _libraries()
    with quiet(transformers):
        if not has_adapter(model):
            model.save_pretrained(folder)
        elif merged:
            model.get_base_model().save_pretrained(folder, state_dict=dict(named_tensors(model)))
        else:
            save_adapter(model, folder)


def vocabulary_fingerprint(tokenizer: PolicyTokenizer) -> str:
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


def require_vocabulary(tokenizer: PolicyTokenizer, fingerprint: str, where: str) -> None:
    """Check that a tokenizer has the vocabulary with the given fingerprint.

    Args:
        tokenizer: a transformers tokenizer.
        fingerprint: from `vocabulary_fingerprint`, recorded when the run began.
        where: the source of the tokenizer, for the message.

    Raises:
        VocabularyMismatch: it has another vocabulary, whose ids mean other words to the model.
    """
    own = vocabulary_fingerprint(tokenizer)
    if own != fingerprint:
        raise VocabularyMismatch(
            f"{where} has another vocabulary ({len(tokenizer)} entries, fingerprint {own}) than this run "
            f"(fingerprint {fingerprint}); use its own model, or start a new run"
        )


def _initialise(model: CausalLM, layers: int) -> None:
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


def _libraries() -> tuple[Any, Any]:
    try:
        import torch
        import transformers
    except ImportError as error:
        raise TrainingError(
            needs(f"{error.name} is not installed; torch and transformers come with", "train")
        ) from error
    return torch, transformers

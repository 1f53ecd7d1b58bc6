"""The fastest correct decoder for a model, and the memory that its cache may take.

A cache is used if the model's configuration allows it and if it gives the same logits as no cache on a few tokens, with
the model's own attention function or with attention to pages.
"""

from __future__ import annotations

import importlib.util
import math
import os
import warnings
from pathlib import Path
from typing import Any

import torch

from turncredit.agents.device_memory import DeviceMemory
from turncredit.agents.errors import SamplerError
from turncredit.agents.vision.untyped import Model
from turncredit.engines.base import SamplerSettings
from turncredit.engines.transformers.cached_decoding import CachedDecoder
from turncredit.engines.transformers.decoding import Decoder, UncachedDecoder
from turncredit.engines.transformers.graph_capture import Capture, CudaCapture
from turncredit.engines.transformers.image_tokens import ImageTokens
from turncredit.engines.transformers.kvcache import attention_window, unsupported_reason
from turncredit.registry import suggest

SMALL = 256 * 2**20
"""Bytes of a cache that may hold every sequence in one page of the whole context, which needs no bookkeeping."""

PAGE = 128
"""Tokens in a page of a larger cache: fewer cost more calls, more leave more of the last page unused."""

FLASH_PAGE = 256
"""Tokens in a page that the flash-attn package can read."""


ATTENTION = ("sdpa", "eager", "flash_attention_2")
"""Attention functions that a sampler can use."""

OPTIONS = ("attention", "graphs")
"""Options of the sampler in `SamplerSettings.options`."""


def check_settings(settings: SamplerSettings, here: bool) -> None:
    """Refuse options that are unknown, or that the device cannot follow.

    Args:
        settings: settings of the sampler.
        here: whether it runs on this machine; if not, nothing is known of its device.

    Raises:
        SamplerError: it says what there is instead.
    """
    for name in settings.options:
        if name not in OPTIONS:
            raise SamplerError(f"unknown option {name!r} of transformers{suggest(name, list(OPTIONS))}")
    auto = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(auto if settings.device == "auto" else settings.device)
    attention = str(settings.options.get("attention", ""))
    check_attention(attention, device if here else None)


def check_attention(name: str, device: torch.device | None) -> None:
    """Refuse an attention function that is unknown, or that cannot run on a device; None: on any.

    Raises:
        SamplerError: it says what there is instead.
    """
    if name and name not in ATTENTION:
        raise SamplerError(f"unknown attention {name!r}{suggest(name, list(ATTENTION))}")
    if name != "flash_attention_2" or device is None:
        return
    if device.type != "cuda":
        raise SamplerError(f"flash_attention_2 needs a CUDA device, got {device}; use sdpa or eager")
    if importlib.util.find_spec("flash_attn") is None:
        raise SamplerError("flash_attention_2 needs the package flash-attn, which is not installed; use sdpa or eager")


def make_decoder(
    model: Any,
    *,
    concurrency: int,
    context: int,
    memory: int,
    attention: str = "",
    page: int | None = None,
    graphs: bool = True,
    images: ImageTokens | None = None,
) -> tuple[Decoder, str | None]:
    """Return the fastest correct decoder for a model, and why it has no cache (None if it has one).

    Args:
        model: a transformers causal language model on its device, in evaluation mode.
        concurrency: maximum number of sequences that are sampled at once.
        context: maximum number of tokens of a sequence.
        memory: bytes that the cache may take.
        attention: one of `ATTENTION`; "": the model's own.
        page: tokens in a page; None: the whole context if that is small enough, else `PAGE`.
        graphs: on CUDA, replay passes as CUDA graphs, if the model allows it.
        images: the images in the sequences, of a model that sees.
    """
    attention = attention or str(getattr(model.config.get_text_config(), "_attn_implementation", ""))
    why = unsupported_reason(model.config, context, attention)
    if why is not None:
        return UncachedDecoder(model, images=images), why
    # One page for each sequence is a dense view without copies; otherwise pages are read where they lie if possible.
    small = page is None and concurrency * context * cache_bytes(model) <= min(SMALL, memory)
    # Masks of windows differ between models, and flash attention takes none.
    needs_pages = attention == "flash_attention_2" or attention_window(model.config, context) is not None
    capture = make_capture(model.device) if graphs else None  # which reads the pages themselves
    dense_first = small and capture is None
    choices = (
        [True] if needs_pages else [False] if attention == "eager" else [False, True] if dense_first else [True, False]
    )
    reasons = []
    for paged in choices:
        why, size = _probe(model, paged, attention)
        if why is None and images is not None:
            why = _image_difference(model, images, paged, attention)
        if why is None:
            eager = _capture_failure(model, paged, attention, capture)
            whole = small and not paged
            tokens = memory // size
            width = context if whole else page or (FLASH_PAGE if attention == "flash_attention_2" else _width(tokens))
            # More pages than every sequence of two batches could fill are never used.
            pages = concurrency if whole else min(max(1, tokens // width), 2 * concurrency * -(-context // width))
            decoder = CachedDecoder(
                model,
                pages=pages,
                width=width,
                paged=paged,
                context=context,
                attention=attention,
                capture=None if eager else capture,
                images=images,
                rows=concurrency,
            )
            decoder.eager_reason = eager
            return decoder, None
        reasons.append(why)
    return UncachedDecoder(model, attention, images), reasons[0]


def cache_bytes(model: Any) -> int:
    """Return the bytes that the keys and values of one token take, by the model's configuration."""
    text = model.config.get_text_config()
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    size = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    return int(2 * text.num_hidden_layers * heads * size * torch.finfo(model.dtype).bits // 8)


def default_memory(device: torch.device) -> int:
    """Return the bytes that a cache may take by default.

    On a GPU it is a third of what is free, since a learner may share it. On a CPU it is an eighth of the machine's or
    container's memory, and at most 2 GiB.
    """
    numbers = DeviceMemory(str(device)).free_and_total()
    if numbers is not None:
        return numbers[0] // 3
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        total = 8 * 2**30
    limit = Path("/sys/fs/cgroup/memory.max")
    if limit.is_file():
        text = limit.read_text(encoding="ascii").strip()
        total = min(total, int(text) if text.isdigit() else total)
    return min(2 * 2**30, total // 8)


def _width(tokens: int) -> int:
    """Return the tokens in a page: less than `PAGE` if there would be too few pages to share."""
    return min(PAGE, max(16, 1 << int(math.log2(max(1, tokens // 64)))))


def make_capture(device: torch.device) -> Capture | None:
    """Return how passes are captured on a device; None: they are not."""
    return CudaCapture(device) if device.type == "cuda" else None


def _capture_failure(model: torch.nn.Module, paged: bool, attention: str, capture: Capture | None) -> str | None:
    """Return why passes are not captured, after a warning if that is for the model; None: they are."""
    if capture is None:
        device = next(model.parameters()).device.type
        return "nobody asked for CUDA graphs" if device == "cuda" else f"the model is on {device}"
    reason = _probe(model, True, attention, capture)[0] if paged else "its attention reads copies of the cache"
    if reason is not None:
        warnings.warn(f"the sampler decodes without CUDA graphs: {reason}", RuntimeWarning, stacklevel=2)
    return reason


def _probe(model: Any, paged: bool, attention: str, capture: Capture | None = None) -> tuple[str | None, int]:
    """Return how results with and without the cache differ on a few tokens (None: they agree), and bytes per token."""
    vocabulary = int(model.get_input_embeddings().weight.shape[0])
    most = 21  # more than a page
    long, short = [[(7 * i * i + 3 * i + k) % vocabulary for i in range(most)] for k in range(2)]
    short = short[:9]
    context = most + 7
    width = 16 if capture else 4 if paged else context
    width = FLASH_PAGE if attention == "flash_attention_2" else width
    cached = CachedDecoder(
        model, pages=16, width=width, paged=paged, context=context, attention=attention, capture=capture, rows=2
    )
    cached.warns = False
    uncached = UncachedDecoder(model, attention)
    layers = int(model.config.get_text_config().num_hidden_layers)
    try:
        with torch.inference_mode():
            cached.begin("a", long)
            cached.begin("b", short)
            for more in (0, 0), (1, 1), (3, 2):  # a prompt, a token, the prompt of a second turn
                long, short = [*long, *[1 % vocabulary] * more[0]], [*short, *[2 % vocabulary] * more[1]]
                cached.extend("a", len(long))
                cached.extend("b", len(short))
                batch = [("a", long), ("b", short)]
                logits, right = cached.logits(batch).float(), uncached.logits(batch).float()
                other = [(name, [*((token + 1) % vocabulary for token in ids[:-1]), ids[-1]]) for name, ids in batch]
                why = _difference(logits, right, uncached.logits(other).float(), exact=model.dtype == torch.float32)
                if why is not None:
                    return why, 1
                if cached.eager_reason and capture is not None:
                    return cached.eager_reason, 1
                if paged and getattr(cached.last_access, "calls", layers) != layers:
                    return "it has an attention function of its own", 1
    except Exception as error:  # a model may raise anything for arguments that it does not take
        return f"it does not accept an explicit mask and cache ({type(error).__name__}: {error})", 1
    return None, cached.bytes_per_token


def _image_difference(model: Model, images: ImageTokens, paged: bool, attention: str) -> str | None:
    """Return how results with and without the cache differ for a prompt with an image; None: they agree."""
    width = FLASH_PAGE if attention == "flash_attention_2" else 16
    try:
        with torch.inference_mode():
            ids = images.example()
            context = len(ids) + 8
            cached = CachedDecoder(
                model,
                pages=-(-context // width),
                width=width,
                paged=paged,
                context=context,
                attention=attention,
                images=images,
            )
            uncached = UncachedDecoder(model, attention, images=images)
            cached.begin("example", ids)
            bound = 1e-3 if model.dtype == torch.float32 else 5e-2
            for _ in range(2):  # the prompt, and a token after it
                cached.extend("example", len(ids))
                logits, right = (each.logits([("example", ids)]).float() for each in (cached, uncached))
                error = float((logits - right).abs().max()) / (float(right.abs().max()) + 1e-6)
                if not error < bound:
                    return f"its logits after an image have a relative error of {error:.1e} with the cache"
                ids = [*ids, ids[0]]
            # In 16 bits, rounding may be as large as what it changes that the tokens of an image see each other.
            if uncached.needs_types(ids):
                return "its logits after an image depend on the types of tokens, which the cache does not have"
    except Exception as error:  # as in `_probe`
        return f"it does not accept the vectors of an image with a cache ({type(error).__name__}: {error})"
    finally:
        images.forget("example")
    return None


def _difference(logits: torch.Tensor, right: torch.Tensor, other: torch.Tensor, *, exact: bool) -> str | None:
    """Return how logits differ from those without the cache; None: not more than rounding explains.

    In 16 bits the largest rounding error of a trained model may be a third of its largest logit. So a difference is
    held as well against what another context would make: a cache with wrong tokens errs by as much.

    Args:
        logits: float [B, V], with the cache.
        right: without it.
        other: without it, of rows with the same last token and another context.
        exact: whether they are computed in float32.
    """
    possible = right.isfinite()  # a model may give tokens that it never says a logit of -inf
    if not torch.equal(possible, logits.isfinite()):
        return "its logits with the cache are not finite where those without are"
    wrong = (logits - right).masked_fill(~possible, 0.0)
    error = float(wrong.abs().max()) / (float(right[possible].abs().max()) + 1e-6)
    if error < (1e-3 if exact else 5e-2):
        return None
    reaction = (other - right).masked_fill(~(possible & other.isfinite()), 0.0)
    if not exact and bool((wrong.norm(dim=1) < 0.5 * reaction.norm(dim=1)).all()):
        return None
    return f"its logits with the cache have a relative error of {error:.1e}"

"""Every family in vLLM on a CPU, in one process, which imports vLLM once: `python -m toys.vllm_families NAME ...`.

A line of JSON for each family: differences between log-probabilities of engine and learner, in nats, or an error.
"""

from __future__ import annotations

import copy
import gc
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import transformers
from toys.families import (
    CONTEXT,
    FAMILIES,
    IMAGE,
    IMAGE_END,
    IMAGE_START,
    SIZES,
    VIDEO,
    Family,
    change_all,
    tokenizer,
    write_model,
)
from toys.vision import NEWLINES, name_token

from turncredit.agents.models.model_folder import load_model
from turncredit.engines.base import SamplerSettings
from turncredit.engines.vllm.arguments import engine_arguments
from turncredit.engines.weight_files import check_adapter_shapes, packed_adapter, shapes_of, write_tensors
from turncredit.engines.weight_pieces import pieces_of
from turncredit.engines.weight_transfer import GlooSender
from turncredit.training.learner.lora import LoraOptions, add_adapter

PROMPTS = [[10 + (3 * number + 7 * i) % 240 for i in range(20 + 15 * number)] for number in range(3)]


def start(folder: Path, tokenizer: Any, context: int, dtype: str = "float32", **options: Any) -> Any:
    """Return an engine in this process, with the arguments that the sampler gives it, and some more."""
    import vllm

    settings = SamplerSettings(
        model=str(folder),
        tokenizer=tokenizer,
        dtype=dtype,
        kv_cache_gib=2**-4,
        concurrency=4,
        context=context,
        options={"transfer": "gloo"},
    )
    arguments = engine_arguments(settings, folder, "vllm-cpu") | {"max_num_batched_tokens": context} | options
    fields = vllm.EngineArgs.__dataclass_fields__
    return vllm.LLM(**{name: value for name, value in arguments.items() if name in fields})


def gap(engine: Any, model: Any, adapter: Any = None) -> float:
    """Return the largest difference to the log-probabilities of a forward pass, in nats."""
    from vllm import SamplingParams

    for module in model.modules():
        module.do_not_compile = True  # vLLM changes classes of transformers that it computes with itself (SmolLM 3)
    sampling = SamplingParams(logprobs=0, max_tokens=12, temperature=1.0, seed=5, ignore_eos=True)
    prompts = [{"prompt_token_ids": prompt} for prompt in PROMPTS]
    worst = 0.0
    for prompt, output in zip(
        PROMPTS, engine.generate(prompts, sampling, use_tqdm=False, lora_request=adapter), strict=True
    ):
        answer = output.outputs[0]
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([[*prompt, *answer.token_ids]]), use_cache=False).logits[0]
        table = torch.log_softmax(logits.double(), -1)[len(prompt) - 1 : -1]
        for row, token, logprobs in zip(table, answer.token_ids, answer.logprobs, strict=True):
            worst = max(worst, abs(float(row[token]) - logprobs[token].logprob))
    return worst


def dtype_of(engine: Any) -> torch.dtype:
    """Return the type of an engine's weights."""
    dtype: torch.dtype = engine.llm_engine.model_config.dtype
    return dtype


class Phases:
    """Calls the phases of vLLM's weight transfer in an engine of this process."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def __getattr__(self, phase: str) -> Any:
        return lambda *arguments: self._engine.collective_rpc(phase, args=[one for one in arguments if one is not None])


def send(engine: Any, model: Any, folder: Path) -> None:
    """Send a whole model as the sampler does."""
    sender = GlooSender(Phases(engine), 1)
    sender.send(model, pieces_of(model, dtype_of(engine), shapes_of(folder)))
    sender.close()
    engine.reset_prefix_cache()


def load(engine: Any, model: Any, folder: Path) -> None:
    """Load a whole model from files, as the sampler does; the worker checks its tensors."""
    with tempfile.TemporaryDirectory() as new:
        write_tensors(model, Path(new), dtype_of(engine), shapes_of(folder))
        engine.collective_rpc("load_tensors", args=(new,))
    engine.reset_prefix_cache()


def with_adapter(folder: Path, size: float, **targets: Any) -> Any:
    """Return the model of a folder with an adapter that changes something."""
    torch.manual_seed(0)
    adapted = add_adapter(load_model(folder), LoraOptions(rank=4, **targets), base=str(folder))
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora_" in name:
                weight.normal_(0.0, size)
    return adapted


def gaps(family: Family, folder: Path) -> Iterator[tuple[str, float]]:
    """Yield differences: of the model that the engine started with, of new weights, and of adapters."""
    model, new = load_model(folder), load_model(folder)
    change_all(new)
    adapted = with_adapter(folder, SIZES[family.dtype])  # before vLLM changes classes of transformers
    adapters = {"enable_lora": True, "max_lora_rank": 8} if family.adapter else {}
    engine = start(folder, tokenizer(), CONTEXT, family.dtype, disable_log_stats=True, **adapters)
    yield "start", gap(engine, model)
    send(engine, new, folder)
    yield "new weights", gap(engine, new)
    yield "old weights", gap(engine, model)
    load(engine, adapted, folder)
    yield "merged adapter", gap(engine, adapted)
    send(engine, new, folder)
    send(engine, adapted, folder)
    yield "sent adapter", gap(engine, adapted)
    if family.adapter:
        from vllm.lora.request import LoRARequest

        load(engine, model, folder)
        config, shapes, data = packed_adapter(adapted, dtype_of(engine))
        check_adapter_shapes(config, shapes, 8, shapes_of(folder))
        engine.collective_rpc("add_adapter", args=(1, config, data))
        yield "adapter", gap(engine, adapted, LoRARequest("adapter", 1, "in memory"))


def write_family(name: str, folder: Path) -> Path:
    """Write a model of a family with the processor that vLLM asks for where a model sees."""
    write_model(FAMILIES[name], folder)
    named = copy.deepcopy(tokenizer())
    named.split_special_tokens = False  # as in the tokenizers of these models
    if name == "Gemma 3":
        for attribute, token in (("boi_token", IMAGE_START), ("eoi_token", IMAGE_END), ("image_token", IMAGE)):
            name_token(named, attribute, token)
        named.add_tokens(list(NEWLINES))
        images = transformers.Gemma3ImageProcessorPil(size={"height": 28, "width": 28})
        transformers.Gemma3Processor(images, named, image_seq_length=4).save_pretrained(folder)
    elif name == "Qwen 3.5":
        for attribute, token in (("image_token", IMAGE), ("video_token", VIDEO)):
            name_token(named, attribute, token)
        images, videos = transformers.Qwen2VLImageProcessorPil(), transformers.Qwen2VLVideoProcessor()
        transformers.Qwen3VLProcessor(images, named, videos).save_pretrained(folder)
    return folder


def forget() -> None:
    """Drop what vLLM keeps of an engine, such as the groups of a model without experts."""
    from vllm.distributed import cleanup_dist_env_and_memory

    gc.collect()
    cleanup_dist_env_and_memory()


def print_gaps(names: list[str], gaps: Callable[[str, Path], Iterator[tuple[str, float]]]) -> None:
    """Print a line for each family.

    Args:
        names: of the families.
        gaps: yields what is measured of a family, in an empty folder.
    """
    os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1"}
    from vllm.model_executor.models import registry

    registry._run_in_subprocess = lambda function: function()  # each would import vLLM again, for 19 seconds
    for name in names:
        table: dict[str, object] = {"family": name}
        with tempfile.TemporaryDirectory() as folder:
            try:
                table.update(gaps(name, Path(folder)))
            except Exception as error:  # of vLLM
                traceback.print_exc()
                table["error"] = f"{type(error).__name__}: {error}"
        print(json.dumps(table), flush=True)
        forget()


if __name__ == "__main__":
    print_gaps(sys.argv[1:] or list(FAMILIES), lambda name, folder: gaps(FAMILIES[name], write_family(name, folder)))

